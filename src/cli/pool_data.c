/* volume read, write and discard: bytes of a volume to standard output, bytes of standard input into it. check and dump. */
#include <stdio.h>
#include <string.h>

#include "pool_cli.h"
#include "stream.h"

#define COPY_BYTES (8u << 20)

enum { OPTION_DISKS = 1, OPTION_OFFSET, OPTION_LENGTH, OPTION_CACHE, OPTION_DATA, OPTION_JSON };

static const struct cli_option options[] = {
	{OPTION_DISKS, "disks", 'd', "DISK", "a member, or a directory that holds them; repeated"},
	{OPTION_OFFSET, "offset", 0, "SIZE", "where to begin (0)"},
	{OPTION_LENGTH, "length", 0, "SIZE", "how many bytes; without it, to the end"},
	{OPTION_CACHE, "cache", 0, "SIZE", "memory for records and tree nodes (a quarter of RAM)"},
	{0},
};
static const struct cli_help help = {
	.verb = "volume",
	.usage = "read|write|discard [OPTION]… POOL/VOLUME",
	.text = "read: bytes of a volume, or of a snapshot of one, to standard output. write: standard input\n"
		"into it; durable when the command ends with 0. discard: the bytes read as zeros from then on.",
	.options = options,
};

struct transfer {
	struct pool_use use;
	const char *what, *path;
	uint64_t offset_bytes, length_bytes;
	bool length_given;
	struct volume *volume;
	uint8_t *buffer;
	struct cli_progress progress;
};

static int take_words(struct transfer *t, int argc, char **argv, struct error *err)
{
	struct cli_scan scan;
	const char *value;
	int id, code = 0;

	cli_scan_init(&scan, argc, argv, &help);
	while (!code && (id = cli_scan_next(&scan, &value, err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			return id;
		if (id == OPTION_DISKS)
			code = pool_use_word(&t->use, value, err);
		else if (id == OPTION_OFFSET)
			code = size_parse(value, &t->offset_bytes, err);
		else if (id == OPTION_CACHE)
			code = size_parse(value, &t->use.cache_bytes, err);
		else if (id == OPTION_LENGTH) {
			code = size_parse(value, &t->length_bytes, err);
			t->length_given = true;
		} else if (!t->what)
			t->what = value;
		else if (t->path)
			code = error_set(err, ERR_USAGE, "volume takes one name, but '%s' was given too", value);
		else
			code = pool_use_path(&t->use, t->path = value, err);
	}
	if (!code && (!t->what || (strcmp(t->what, "read") != 0 && strcmp(t->what, "write") != 0 &&
					  strcmp(t->what, "discard") != 0)))
		code = error_set(
			err, ERR_USAGE, "volume does read, write and discard, not '%s'", t->what ? t->what : "nothing");
	if (!code && !t->path)
		code = error_set(err, ERR_USAGE, "volume %s needs a name: POOL/VOLUME", t->what);
	if (!code && strchr(t->path, '@') && strcmp(t->what, "read") != 0)
		code = error_set(err, ERR_READ_ONLY, "%s is a snapshot: it can only be read", t->path);
	return code;
}

static int check_range(struct transfer *t, struct error *err)
{
	uint64_t size_bytes = volume_size_bytes(t->volume);

	if (t->offset_bytes > size_bytes || (t->length_given && t->length_bytes > size_bytes - t->offset_bytes))
		return error_set(err, ERR_USAGE, "%s has %llu bytes; offset %llu and length %llu go past its end",
			t->path, (unsigned long long)size_bytes, (unsigned long long)t->offset_bytes,
			(unsigned long long)t->length_bytes);
	if (!t->length_given)
		t->length_bytes = size_bytes - t->offset_bytes;
	if (posix_memalign((void **)&t->buffer, DISK_BUFFER_ALIGN, COPY_BYTES) != 0)
		return error_set(err, ERR_MEMORY, "out of memory");
	return 0;
}

static bool goes_on(struct transfer *t, uint64_t done)
{
	return cli_progress_bytes(&t->progress, done, t->length_bytes);
}

static int copy_out(struct transfer *t, struct error *err)
{
	for (uint64_t done = 0; done < t->length_bytes;) {
		uint64_t want = min_of(t->length_bytes - done, (uint64_t)COPY_BYTES);
		int code = volume_read(t->volume, t->offset_bytes + done, t->buffer, want, err);

		code = code ? code : stream_put(t->buffer, want, err);
		if (code)
			return code;
		done += want;
		if (!goes_on(t, done))
			return error_set(
				err, ERR_INTERRUPTED, "interrupted after %llu bytes", (unsigned long long)done);
	}
	return 0;
}

static int copy_in(struct transfer *t, struct error *err)
{
	uint64_t done = 0, got = 1;
	int code = 0, flushed;

	while (!code && got && done < t->length_bytes) {
		code = stream_take(t->buffer, min_of(t->length_bytes - done, (uint64_t)COPY_BYTES), &got, err);
		if (!code && got)
			code = volume_write(t->volume, t->offset_bytes + done, t->buffer, got, err);
		done += code ? 0 : got;
		if (!code && !goes_on(t, done))
			code = error_set(
				err, ERR_INTERRUPTED, "interrupted after %llu bytes", (unsigned long long)done);
	}
	if (!code && got && !t->length_given) {
		uint8_t more;

		code = stream_take(&more, 1, &got, err);
		if (!code && got)
			code = error_set(err, ERR_SPACE,
				"standard input holds more than fits: the volume ends after %llu bytes of it",
				(unsigned long long)done);
	}
	if (!code && t->length_given && done < t->length_bytes)
		code = error_set(err, ERR_IO, "standard input ended after %llu of %llu bytes", (unsigned long long)done,
			(unsigned long long)t->length_bytes);
	/* What went in is kept, whatever stopped the rest; the first sentence stays. */
	flushed = done ? volume_flush(t->volume, err) : 0;
	return code ? code : flushed;
}

int command_volume(int argc, char **argv)
{
	scoped_free struct transfer *t = calloc(1, sizeof(*t));
	struct error err = ERROR_INIT;
	int code = t ? take_words(t, argc, argv, &err) : error_set(&err, ERR_MEMORY, "out of memory");

	if (!t)
		return cli_fail(&err);
	t->use.read_only = !code && strcmp(t->what, "read") == 0;
	code = code ? code : pool_use_open(&t->use, &err);
	code = code ? code : volume_open(t->use.pool, t->path, &t->volume, &err);
	code = code ? code : check_range(t, &err);
	if (!code) {
		cli_progress_begin(&t->progress, 0);
		t->progress.quiet = !t->progress.terminal;
		cli_progress_phase(&t->progress, "%s %s", t->what, t->path);
		if (strcmp(t->what, "discard") == 0) {
			code = volume_discard(t->volume, t->offset_bytes, t->length_bytes, &err);
			code = code ? code : volume_flush(t->volume, &err);
		} else
			code = t->use.read_only ? copy_out(t, &err) : copy_in(t, &err);
		cli_progress_end(&t->progress);
	}
	if (t->volume)
		volume_close(t->volume);
	free(t->buffer);
	return pool_use_end(&t->use, code, &err);
}

/* --- check ------------------------------------------------------------------------------------------------------ */

static const struct cli_option check_options[] = {
	{OPTION_DISKS, "disks", 'd', "DISK", "a member, or a directory that holds them; repeated"},
	{OPTION_DATA, "data", 0, NULL, "read and verify all data and parity too"},
	{OPTION_JSON, "json", 'j', NULL, "as JSON"},
	{0},
};
static const struct cli_help check_help = {
	.verb = "check",
	.usage = "[OPTION]… POOL",
	.text = "Walks everything in a pool that is not in use: what is reachable, leaked or used twice,\n"
		"counts and checksums; says in words what is wrong. Reads only. Status 1 when anything is.",
	.options = check_options,
};

static void finding(void *arg, const char *sentence)
{
	json_t *list = arg;

	if (list)
		json_array_append_new(list, json_string(sentence));
	else
		printf("%s\n", sentence);
}

int command_check(int argc, char **argv)
{
	scoped_free struct pool_use *u = calloc(1, sizeof(*u));
	struct pool_check_result result = {0};
	struct error err = ERROR_INIT;
	struct cli_scan scan;
	const char *value;
	json_t *list = NULL;
	bool data = false;
	int id, code = u ? 0 : error_set(&err, ERR_MEMORY, "out of memory");

	if (!u)
		return cli_fail(&err);
	u->read_only = true;
	cli_scan_init(&scan, argc, argv, &check_help);
	while (!code && (id = cli_scan_next(&scan, &value, &err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			code = id;
		else if (id == OPTION_DISKS)
			code = pool_use_word(u, value, &err);
		else if (id == OPTION_DATA)
			data = true;
		else if (id == OPTION_JSON)
			list = list ? list : json_array();
		else if (u->name[0])
			code = error_set(&err, ERR_USAGE, "check takes one pool, but '%s' was given too", value);
		else
			code = pool_use_path(u, value, &err);
	}
	if (!code && !u->name[0])
		code = error_set(&err, ERR_USAGE, "check needs the name of a pool");
	code = code ? code : pool_use_open(u, &err);
	if (!code && u->is_held)
		code = error_set(&err, ERR_BUSY, "%s is in use; check works on a pool that is not", u->name);
	code = code ? code : pool_check(u->pool, data, finding, list, &result, &err);
	if (!code && list)
		code = cli_json_print(json_pack("{si ss sI sI sI sI sO}", "schema", 1, "pool", u->name, "nodes",
					      (json_int_t)result.nodes, "records", (json_int_t)result.records, "runs",
					      (json_int_t)result.runs, "columns_verified",
					      (json_int_t)result.columns_verified, "findings", list),
			&err);
	else if (!code)
		printf("%s: %llu tree nodes, %llu records, %llu runs, %llu columns verified: %s\n", u->name,
			(unsigned long long)result.nodes, (unsigned long long)result.records,
			(unsigned long long)result.runs, (unsigned long long)result.columns_verified,
			result.findings ? "NOT CLEAN" : "clean");
	if (!code && result.findings)
		code = error_set(&err, ERR_CORRUPT, "%s: check found %llu thing%s wrong", u->name,
			(unsigned long long)result.findings, result.findings == 1 ? "" : "s");
	json_decref(list);
	return pool_use_end(u, code, &err);
}

/* --- dump ------------------------------------------------------------------------------------------------------- */

static const struct cli_option dump_options[] = {{0}};
static const struct cli_help dump_help = {
	.verb = "dump",
	.usage = "labels|uberblocks|log|runs|catalog|trees|all DISK…",
	.text = "Prints the structures of a pool as they lie on its disks. Reads only, even what is damaged.",
	.options = dump_options,
};

static void dump_line(void *arg, const char *text)
{
	puts(text);
}

int command_dump(int argc, char **argv)
{
	struct cli_disks disks = {0};
	struct disk_open_options o = {.read_only = true};
	struct cli_disk_rules rules = {0};
	struct error err = ERROR_INIT;
	struct cli_scan scan;
	const char *value, *what = NULL;
	int id, code = 0;

	cli_scan_init(&scan, argc, argv, &dump_help);
	while (!code && (id = cli_scan_next(&scan, &value, &err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			code = id;
		else if (!what)
			what = value;
		else
			code = disk_specs_add(&disks.specs, value, &err);
	}
	if (!code && !disks.specs.count)
		code = error_set(
			&err, ERR_USAGE, "dump needs what to print and disks: spindle dump %s", dump_help.usage);
	code = code ? code : cli_disks_inspect(&disks, &rules, &err);
	code = code ? code : cli_disks_open(&disks, &o, &err);
	code = code ? code : pool_dump(disks.disks, (unsigned)disks.count, what, dump_line, NULL, &err);
	cli_disks_release(&disks);
	return code == CLI_HELP ? CLI_DONE : code ? cli_fail(&err) : CLI_DONE;
}
