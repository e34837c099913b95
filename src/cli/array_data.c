/*
 * `array read` and `array write`: bytes of the array to stdout, bytes of stdin into the array. Offset and length are
 * any number of bytes; the array takes whole sectors, so the ragged ends are cut here, and on a write read first.
 */
#include <string.h>

#include "array_cli.h"
#include "stream.h"

#define COPY_BYTES (4u << 20)

enum { OPTION_DIRECTORY = 1, OPTION_OFFSET, OPTION_LENGTH };

static const struct cli_option options[] = {
	{OPTION_DIRECTORY, "disks", 'd', "DISK", "a member, or a directory that holds them; repeated"},
	{OPTION_OFFSET, "offset", 0, "SIZE", "where to begin (0)"},
	{OPTION_LENGTH, "length", 0, "SIZE", "how many bytes; without it, to the end"},
	{0},
};
static const struct cli_help help_read = {
	.verb = "array read",
	.usage = "[OPTION]… NAME > FILE",
	.text = "Writes bytes of the array to standard output.",
	.options = options,
};
static const struct cli_help help_write = {
	.verb = "array write",
	.usage = "[OPTION]… NAME < FILE",
	.text = "Writes standard input into the array; it is durable when the command ends with 0.",
	.options = options,
};

struct transfer {
	struct array_find find;
	uint64_t offset_bytes, length_bytes;
	bool length_given;
	uint32_t sector_bytes;
	uint8_t *buffer; /* COPY_BYTES and a sector at each end */
	struct cli_progress progress;
};

static int take_words(struct transfer *t, int argc, char **argv, const struct cli_help *help, struct error *err)
{
	struct cli_scan scan;
	const char *value;
	int id, code = 0;

	cli_scan_init(&scan, argc, argv, help);
	while (!code && (id = cli_scan_next(&scan, &value, err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			return id;
		if (id == OPTION_DIRECTORY)
			code = array_find_add(&t->find, value, err);
		else if (id == OPTION_OFFSET)
			code = size_parse(value, &t->offset_bytes, err);
		else if (id == OPTION_LENGTH) {
			code = size_parse(value, &t->length_bytes, err);
			t->length_given = true;
		} else if (t->find.name[0])
			code = error_set(
				err, ERR_USAGE, "%s takes one name, but '%s' was given too", help->verb, value);
		else if (!array_name_is_good(value))
			code = error_set(err, ERR_USAGE, "'%s' is no name of an array", value);
		else
			snprintf(t->find.name, sizeof(t->find.name), "%s", value);
	}
	if (!code && !t->find.name[0] && !t->find.word_count)
		code = error_set(err, ERR_USAGE, "%s needs the name of an array, or -d DISK", help->verb);
	return code;
}

static int check_range(struct transfer *t, struct error *err)
{
	uint64_t size_bytes = array_size_bytes(t->find.array);

	if (t->offset_bytes > size_bytes || (t->length_given && t->length_bytes > size_bytes - t->offset_bytes))
		return error_set(err, ERR_USAGE, "%s has %llu bytes; offset %llu and length %llu go past its end",
			t->find.name, (unsigned long long)size_bytes, (unsigned long long)t->offset_bytes,
			(unsigned long long)t->length_bytes);
	if (!t->length_given)
		t->length_bytes = size_bytes - t->offset_bytes;
	t->sector_bytes = array_sector_bytes(t->find.array);
	if (posix_memalign((void **)&t->buffer, DISK_BUFFER_ALIGN, COPY_BYTES + 2 * (size_t)t->sector_bytes) != 0)
		return error_set(err, ERR_MEMORY, "out of memory");
	return 0;
}

static int copy_out(struct transfer *t, struct error *err)
{
	for (uint64_t done = 0; done < t->length_bytes;) {
		uint64_t at = t->offset_bytes + done;
		uint64_t from = round_down_u64(at, t->sector_bytes);
		uint64_t want = min_of(t->length_bytes - done, (uint64_t)COPY_BYTES);
		int code = array_read(
			t->find.array, from, t->buffer, round_up_u64(at + want, t->sector_bytes) - from, err);

		code = code ? code : stream_put(t->buffer + (at - from), want, err);
		if (code)
			return code;
		done += want;
		if (!cli_progress_bytes(&t->progress, done, t->length_bytes))
			return error_set(
				err, ERR_INTERRUPTED, "interrupted after %llu bytes", (unsigned long long)done);
	}
	return 0;
}

/* One piece at `at`: its ragged first and last sectors are read before they are written. */
static int write_piece(struct transfer *t, uint64_t at, uint64_t count, struct error *err)
{
	uint64_t from = round_down_u64(at, t->sector_bytes), to = round_up_u64(at + count, t->sector_bytes);
	scoped_free uint8_t *edge = NULL;
	uint64_t head = at - from;
	int code = 0;

	if (head || to != at + count) {
		uint64_t last = to - t->sector_bytes;

		if (posix_memalign((void **)&edge, DISK_BUFFER_ALIGN, t->sector_bytes) != 0)
			return error_set(err, ERR_MEMORY, "out of memory");
		memmove(t->buffer + head, t->buffer, count);
		if (head) {
			code = array_read(t->find.array, from, edge, t->sector_bytes, err);
			if (!code)
				memcpy(t->buffer, edge, head);
		}
		if (!code && to != at + count) {
			code = array_read(t->find.array, last, edge, t->sector_bytes, err);
			if (!code)
				memcpy(t->buffer + head + count, edge + (at + count - last), to - at - count);
		}
	}
	return code ? code : array_write(t->find.array, from, t->buffer, to - from, err);
}

static int copy_in(struct transfer *t, struct error *err)
{
	uint64_t done = 0, got = 1;
	int code = 0, flushed;

	while (!code && got && done < t->length_bytes) {
		uint64_t at = t->offset_bytes + done;
		uint64_t want = min_of(t->length_bytes - done, COPY_BYTES - at % t->sector_bytes);

		code = stream_take(t->buffer, want, &got, err);
		if (!code && got)
			code = write_piece(t, at, got, err);
		done += code ? 0 : got;
		if (!code && !cli_progress_bytes(&t->progress, done, t->length_bytes))
			code = error_set(
				err, ERR_INTERRUPTED, "interrupted after %llu bytes", (unsigned long long)done);
	}
	if (!code && got && !t->length_given) {
		uint8_t more;

		code = stream_take(&more, 1, &got, err);
		if (!code && got)
			code = error_set(err, ERR_SPACE,
				"standard input holds more than fits: the array ends after %llu bytes of it",
				(unsigned long long)done);
	}
	if (!code && t->length_given && done < t->length_bytes)
		code = error_set(err, ERR_IO, "standard input ended after %llu of %llu bytes", (unsigned long long)done,
			(unsigned long long)t->length_bytes);
	/* What went in is kept, whatever stopped the rest; the first sentence stays. */
	flushed = done ? array_flush(t->find.array, err) : 0;
	return code ? code : flushed;
}

static int run(int argc, char **argv, const struct cli_help *help, bool is_read)
{
	scoped_free struct transfer *t = calloc(1, sizeof(*t));
	struct error err = ERROR_INIT;
	int code;

	if (!t) {
		error_set(&err, ERR_MEMORY, "out of memory");
		return cli_fail(&err);
	}
	code = take_words(t, argc, argv, help, &err);
	if (code == CLI_HELP)
		return CLI_DONE;
	code = code ? code : array_find_open(&t->find, is_read, &err);
	code = code ? code : check_range(t, &err);
	if (!code) {
		cli_progress_begin(&t->progress, 0);
		t->progress.quiet = !t->progress.terminal;
		cli_progress_phase(&t->progress, "%s %s", is_read ? "read" : "write", t->find.name);
		code = is_read ? copy_out(t, &err) : copy_in(t, &err);
		cli_progress_end(&t->progress);
	}
	code = array_find_close(&t->find, &err);
	free(t->buffer);
	return code ? cli_fail(&err) : CLI_DONE;
}

int array_verb_read(int argc, char **argv)
{
	return run(argc, argv, &help_read, true);
}

int array_verb_write(int argc, char **argv)
{
	return run(argc, argv, &help_write, false);
}
