/*
 * Burn-in: does a disk hold what it is given, under load, for hours?
 *
 *   write    a pattern that says where it belongs, from the start, for at most two fifths of the time
 *   verify   reads all of it back and compares
 *   load     random pieces of it, half read and compared, half written again, until the time is over
 *
 * One thread a disk. Every 256 MiB, and when interrupted, what is done and durable goes to a file in the state
 * directory, named after the disk's identity; the same command goes on from there. A disk fails with a wrong byte, a
 * failed operation, or a count in SMART that has grown.
 */
#include <libsmartcols.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "survey_cli.h"

#define UNIT_BYTES (64u << 10)
#define SEQUENTIAL_BYTES (1u << 20)
#define SAVE_BYTES (256ull << 20)
#define ERRORS_MAX 100
#define SLOW_NS 1000000000u
#define MAIN_TICK_NS 200000000u

enum burn_phase { BURN_WRITE, BURN_VERIFY, BURN_LOAD, BURN_DONE };
static const char *const phase_names[] = {"write", "verify", "load", "done"};

/* What is kept between two runs. */
struct burn_state {
	enum burn_phase phase;
	uint64_t position_bytes, covered_bytes, elapsed_ns;
	uint64_t write_bytes, write_ns, read_bytes, read_ns, load_ops;
	uint64_t mismatches, io_errors, slow_ops, first_bad_bytes;
	struct smart before;
};
struct burn_disk {
	struct disk *disk;
	const struct burn_in_options *options;
	char path[CLI_PATH_BYTES]; /* of the state; "" when it cannot be kept */
	uint64_t seed, span_bytes, begun_ns, elapsed_before_ns;
	struct os_thread *thread;
	uint8_t *data, *pattern;
	struct random random;
	struct os_mutex lock; /* over the two below */
	struct burn_state state;
	bool ended;
	struct smart after;
	char changes[200];
	bool failed;
};

/* --- pattern ------------------------------------------------------------------------------------- */

/* The bytes of a unit follow from the seed and its place: a piece that lands elsewhere does not verify. */
static void make_pattern(const struct burn_disk *b, uint8_t *to, uint64_t offset_bytes, uint64_t length_bytes)
{
	for (uint64_t done = 0; done < length_bytes; done += UNIT_BYTES) {
		struct random r;

		random_seed(&r, b->seed ^ (offset_bytes + done));
		random_fill(&r, to + done, min_of((uint64_t)UNIT_BYTES, length_bytes - done));
	}
}

static void note_operation(
	struct burn_disk *b, bool is_read, uint64_t bytes, uint64_t ns, int code, bool wrong, uint64_t offset_bytes)
{
	struct burn_state *s = &b->state;

	os_mutex_lock(&b->lock);
	if (is_read) {
		s->read_bytes += bytes;
		s->read_ns += ns;
	} else {
		s->write_bytes += bytes;
		s->write_ns += ns;
	}
	s->slow_ops += ns > SLOW_NS;
	if ((code || wrong) && s->io_errors + s->mismatches == 0)
		s->first_bad_bytes = offset_bytes;
	s->io_errors += code != 0;
	s->mismatches += wrong;
	s->elapsed_ns = b->elapsed_before_ns + (os_now_ns() - b->begun_ns);
	os_mutex_unlock(&b->lock);
}

/* False when the disk has failed too often to go on. */
static bool write_piece(struct burn_disk *b, uint64_t offset_bytes, uint64_t length_bytes)
{
	uint64_t begun_ns;
	int code;

	make_pattern(b, b->data, offset_bytes, length_bytes);
	begun_ns = os_now_ns();
	code = disk_write(b->disk, offset_bytes, b->data, length_bytes, NULL);
	note_operation(b, false, length_bytes, os_now_ns() - begun_ns, code, false, offset_bytes);
	return code != ERR_GONE && b->state.io_errors + b->state.mismatches < ERRORS_MAX;
}

static bool read_piece(struct burn_disk *b, uint64_t offset_bytes, uint64_t length_bytes)
{
	uint64_t begun_ns = os_now_ns(), took_ns;
	int code = disk_read(b->disk, offset_bytes, b->data, length_bytes, NULL);
	bool wrong;

	took_ns = os_now_ns() - begun_ns;
	make_pattern(b, b->pattern, offset_bytes, length_bytes);
	wrong = code == 0 && memcmp(b->data, b->pattern, length_bytes) != 0;
	note_operation(b, true, length_bytes, took_ns, code, wrong, offset_bytes);
	return code != ERR_GONE && b->state.io_errors + b->state.mismatches < ERRORS_MAX;
}

/* --- state --------------------------------------------------------------------------------------- */

static void name_state(struct burn_disk *b)
{
	const struct disk_traits *t = disk_traits(b->disk);
	char identity[512], folder[CLI_PATH_BYTES], real[CLI_PATH_BYTES];

	b->path[0] = 0;
	if (t->is_memory || !t->path || cli_state_dir("burn-in", true, folder, NULL) != 0)
		return;
	if (t->serial[0])
		snprintf(identity, sizeof(identity), "%s %s %llu", t->model, t->serial,
			(unsigned long long)t->size_bytes);
	else {
		char *resolved = realpath(t->path, NULL);

		snprintf(real, sizeof(real), "%s", resolved ? resolved : t->path);
		free(resolved);
		snprintf(identity, sizeof(identity), "%.400s %llu", real, (unsigned long long)t->size_bytes);
	}
	if (snprintf(b->path, sizeof(b->path), "%.900s/%016llx.json", folder,
		    (unsigned long long)checksum_xxh3(identity, strlen(identity))) >= (int)sizeof(b->path))
		b->path[0] = 0;
}

static void save_state(struct burn_disk *b)
{
	struct burn_state s;
	json_t *json;
	char *text;

	if (!b->path[0])
		return;
	os_mutex_lock(&b->lock);
	s = b->state;
	os_mutex_unlock(&b->lock);
	json = json_pack("{si ss sI sI si sI sI sI sI sI sI sI sI sI sI sI sI sb sI sI sI sI sI}", "schema", 1, "disk",
		disk_traits(b->disk)->name, "seed", (json_int_t)b->seed, "size_bytes",
		(json_int_t)disk_traits(b->disk)->size_bytes, "phase", (int)s.phase, "position_bytes",
		(json_int_t)s.position_bytes, "covered_bytes", (json_int_t)s.covered_bytes, "elapsed_ns",
		(json_int_t)s.elapsed_ns, "write_bytes", (json_int_t)s.write_bytes, "write_ns", (json_int_t)s.write_ns,
		"read_bytes", (json_int_t)s.read_bytes, "read_ns", (json_int_t)s.read_ns, "load_ops",
		(json_int_t)s.load_ops, "mismatches", (json_int_t)s.mismatches, "io_errors", (json_int_t)s.io_errors,
		"slow_ops", (json_int_t)s.slow_ops, "first_bad_bytes", (json_int_t)s.first_bad_bytes, "smart_known",
		s.before.known, "reallocated", (json_int_t)s.before.reallocated, "pending",
		(json_int_t)s.before.pending, "uncorrectable", (json_int_t)s.before.uncorrectable, "media_errors",
		(json_int_t)s.before.media_errors, "crc_errors", (json_int_t)s.before.crc_errors);
	text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
	if (text)
		cli_file_write(b->path, text, strlen(text), NULL);
	free(text);
	json_decref(json);
}

static uint64_t get_count(const json_t *json, const char *key)
{
	const json_t *value = json_object_get(json, key);

	return json_is_integer(value) ? (uint64_t)json_integer_value(value) : 0;
}

/* A state file is a hint written by us, and still read as if by a stranger: what does not fit is left alone. */
static bool load_state(struct burn_disk *b)
{
	struct burn_state s = {0};
	json_error_t error;
	json_t *json = b->path[0] ? json_load_file(b->path, 0, &error) : NULL;
	bool good = json && get_count(json, "schema") == 1 && get_count(json, "seed") == b->seed &&
		    get_count(json, "size_bytes") == disk_traits(b->disk)->size_bytes &&
		    get_count(json, "phase") < BURN_DONE;

	if (good) {
		s.phase = (enum burn_phase)get_count(json, "phase");
		s.position_bytes = get_count(json, "position_bytes");
		s.covered_bytes = get_count(json, "covered_bytes");
		s.elapsed_ns = get_count(json, "elapsed_ns");
		s.write_bytes = get_count(json, "write_bytes");
		s.write_ns = get_count(json, "write_ns");
		s.read_bytes = get_count(json, "read_bytes");
		s.read_ns = get_count(json, "read_ns");
		s.load_ops = get_count(json, "load_ops");
		s.mismatches = get_count(json, "mismatches");
		s.io_errors = get_count(json, "io_errors");
		s.slow_ops = get_count(json, "slow_ops");
		s.first_bad_bytes = get_count(json, "first_bad_bytes");
		s.before.known = json_is_true(json_object_get(json, "smart_known"));
		s.before.reallocated = get_count(json, "reallocated");
		s.before.pending = get_count(json, "pending");
		s.before.uncorrectable = get_count(json, "uncorrectable");
		s.before.media_errors = get_count(json, "media_errors");
		s.before.crc_errors = get_count(json, "crc_errors");
		good = s.position_bytes <= b->span_bytes && s.covered_bytes <= b->span_bytes &&
		       s.position_bytes % UNIT_BYTES == 0 && s.covered_bytes % UNIT_BYTES == 0;
	}
	json_decref(json);
	if (good)
		b->state = s;
	return good;
}

/* --- the thread of one disk ---------------------------------------------------------------------- */

static void move_to(struct burn_disk *b, enum burn_phase phase, uint64_t position_bytes)
{
	os_mutex_lock(&b->lock);
	b->state.phase = phase;
	b->state.position_bytes = position_bytes;
	os_mutex_unlock(&b->lock);
}

static bool time_is_up(const struct burn_disk *b, double share)
{
	return (double)b->state.elapsed_ns >= (double)b->options->duration_ns * share;
}

/* Until `end_bytes`; the position that is kept is only ever one that a flush has made durable. */
static bool pass_over(struct burn_disk *b, uint64_t end_bytes, double share_of_time,
	bool (*piece)(struct burn_disk *, uint64_t, uint64_t))
{
	uint64_t at = b->state.position_bytes, saved = at;
	bool good = true;

	while (good && at < end_bytes && !os_interrupted() && !time_is_up(b, share_of_time)) {
		uint64_t length = min_of((uint64_t)SEQUENTIAL_BYTES, end_bytes - at);

		good = piece(b, at, length);
		at += length;
		if (at - saved >= SAVE_BYTES) {
			disk_flush(b->disk, NULL);
			move_to(b, b->state.phase, at);
			save_state(b);
			saved = at;
		}
	}
	if (disk_flush(b->disk, NULL) == 0)
		move_to(b, b->state.phase, at);
	return good;
}

static bool load_randomly(struct burn_disk *b)
{
	uint64_t units = b->state.covered_bytes / UNIT_BYTES;
	bool good = units > 0;

	while (good && !os_interrupted() && !time_is_up(b, 1)) {
		uint64_t at = random_below(&b->random, units) * UNIT_BYTES;

		good = random_below(&b->random, 2) ? read_piece(b, at, UNIT_BYTES) : write_piece(b, at, UNIT_BYTES);
		os_mutex_lock(&b->lock);
		b->state.load_ops++;
		os_mutex_unlock(&b->lock);
	}
	disk_flush(b->disk, NULL);
	return good;
}

static void burn(void *arg)
{
	struct burn_disk *b = arg;
	bool good = true;

	if (good && b->state.phase == BURN_WRITE) {
		good = pass_over(b, b->span_bytes, 0.4, write_piece);
		if (good && !os_interrupted()) {
			os_mutex_lock(&b->lock);
			b->state.covered_bytes = b->state.position_bytes;
			os_mutex_unlock(&b->lock);
			move_to(b, BURN_VERIFY, 0);
		}
	}
	if (good && b->state.phase == BURN_VERIFY && !os_interrupted()) {
		/* All that was written is read, however long it takes: that is what it was written for. */
		good = pass_over(b, b->state.covered_bytes, INFINITY, read_piece);
		if (good && !os_interrupted())
			move_to(b, BURN_LOAD, 0);
	}
	if (good && b->state.phase == BURN_LOAD && !os_interrupted())
		good = load_randomly(b);
	if (!good || !os_interrupted())
		move_to(b, BURN_DONE, 0);
	os_mutex_lock(&b->lock);
	b->ended = true;
	os_mutex_unlock(&b->lock);
}

/* --- all disks ----------------------------------------------------------------------------------- */

static int prepare(struct burn_disk *b, struct disk *disk, const struct burn_in_options *o, struct error *err)
{
	const struct disk_traits *t = disk_traits(disk);

	*b = (struct burn_disk){.disk = disk, .options = o, .seed = o->seed};
	os_mutex_init(&b->lock);
	b->span_bytes = round_down_u64(t->size_bytes, UNIT_BYTES);
	random_seed(&b->random, o->seed ^ 0x6275726e);
	if (posix_memalign((void **)&b->data, DISK_BUFFER_ALIGN, SEQUENTIAL_BYTES) != 0 ||
		posix_memalign((void **)&b->pattern, DISK_BUFFER_ALIGN, SEQUENTIAL_BYTES) != 0)
		return error_set(err, ERR_MEMORY, "out of memory");
	name_state(b);
	if (load_state(b))
		cli_say("%s: goes on where it was interrupted, in %s", t->name, phase_names[b->state.phase]);
	else if (t->path)
		smart_read(t->path, &b->state.before);
	b->elapsed_before_ns = b->state.elapsed_ns;
	b->begun_ns = os_now_ns();
	return 0;
}

static double share_done(struct burn_disk *b)
{
	const struct burn_state *s = &b->state;
	double of_time = (double)s->elapsed_ns / (double)b->options->duration_ns;

	return s->phase == BURN_DONE ? 1 : min_of(of_time, 0.999);
}

static void watch(struct burn_disk *list, size_t count, struct cli_progress *progress)
{
	bool all_ended = false;

	while (!all_ended) {
		double share = 1;
		uint64_t bytes = 0, elapsed_ns = 1;
		enum burn_phase phase = BURN_DONE;

		os_sleep_ns(MAIN_TICK_NS);
		all_ended = true;
		for (size_t i = 0; i < count; i++) {
			os_mutex_lock(&list[i].lock);
			all_ended = all_ended && list[i].ended;
			share = min_of(share, share_done(&list[i]));
			phase = min_of(phase, list[i].state.phase);
			bytes += list[i].state.write_bytes + list[i].state.read_bytes;
			elapsed_ns = max_of(elapsed_ns, list[i].state.elapsed_ns);
			os_mutex_unlock(&list[i].lock);
		}
		cli_progress_say(progress, phase_names[phase], share, (double)bytes * 1e3 / (double)elapsed_ns);
	}
}

static void judge(struct burn_disk *b)
{
	const char *path = disk_traits(b->disk)->path;

	if (path)
		smart_read(path, &b->after);
	else
		snprintf(b->after.reason, sizeof(b->after.reason), "a memory disk has none");
	smart_changes(&b->state.before, &b->after, b->changes, sizeof(b->changes));
	b->failed = b->state.io_errors + b->state.mismatches > 0 || b->changes[0];
	if (b->path[0])
		unlink(b->path);
}

/* --- what it found ------------------------------------------------------------------------------- */

static double rate(uint64_t bytes, uint64_t ns)
{
	return ns ? (double)bytes * 1e3 / (double)ns : NAN;
}

static void print_line(struct libscols_table *table, const struct burn_disk *b)
{
	struct libscols_line *line = scols_table_new_line(table, NULL);
	const struct burn_state *s = &b->state;
	char text[300];

	if (!line)
		return;
	scols_line_set_data(line, 0, disk_traits(b->disk)->name);
	scols_line_set_data(line, 1, b->failed ? "FAILED" : "passed");
	snprintf(text, sizeof(text), "%.1f %%",
		b->span_bytes ? 100.0 * (double)s->covered_bytes / (double)b->span_bytes : 0);
	scols_line_set_data(line, 2, text);
	snprintf(text, sizeof(text), "%.0f", rate(s->write_bytes, s->write_ns));
	scols_line_set_data(line, 3, s->write_ns ? text : "-");
	snprintf(text, sizeof(text), "%.0f", rate(s->read_bytes, s->read_ns));
	scols_line_set_data(line, 4, s->read_ns ? text : "-");
	snprintf(text, sizeof(text), "%llu", (unsigned long long)s->mismatches);
	scols_line_set_data(line, 5, text);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)s->io_errors);
	scols_line_set_data(line, 6, text);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)s->slow_ops);
	scols_line_set_data(line, 7, text);
	snprintf(text, sizeof(text), "%s", b->changes[0] ? b->changes : b->after.known ? "unchanged" : b->after.reason);
	scols_line_set_data(line, 8, text);
}

static void print_table(const struct burn_disk *list, size_t count)
{
	static const char *const heads[] = {
		"DISK", "RESULT", "COVERED", "WRITE MB/s", "READ MB/s", "WRONG", "ERRORS", "OVER 1 s", "SMART"};
	struct libscols_table *table = scols_new_table();

	for (size_t i = 0; table && i < array_count(heads); i++)
		scols_table_new_column(table, heads[i], 0, i >= 2 && i < 8 ? SCOLS_FL_RIGHT : 0);
	for (size_t i = 0; table && i < count; i++)
		print_line(table, &list[i]);
	if (table)
		scols_print_table(table);
	scols_unref_table(table);
	for (size_t i = 0; i < count; i++)
		if (list[i].state.io_errors + list[i].state.mismatches)
			printf("%s: the first bad place is at %llu\n", disk_traits(list[i].disk)->name,
				(unsigned long long)list[i].state.first_bad_bytes);
}

static int print_json(const struct burn_disk *list, size_t count, struct error *err)
{
	json_t *disks = json_array();

	for (size_t i = 0; i < count; i++) {
		const struct burn_state *s = &list[i].state;
		json_t *disk = json_pack("{ss sb sI sI so so sI sI sI sI sb ss}", "disk",
			disk_traits(list[i].disk)->name, "passed", !list[i].failed, "covered_bytes",
			(json_int_t)s->covered_bytes, "size_bytes", (json_int_t)disk_traits(list[i].disk)->size_bytes,
			"write_mb_per_s", cli_json_real(rate(s->write_bytes, s->write_ns)), "read_mb_per_s",
			cli_json_real(rate(s->read_bytes, s->read_ns)), "mismatches", (json_int_t)s->mismatches,
			"io_errors", (json_int_t)s->io_errors, "slow_ops", (json_int_t)s->slow_ops, "load_ops",
			(json_int_t)s->load_ops, "smart_known", list[i].after.known, "smart",
			list[i].after.known ? list[i].changes : list[i].after.reason);

		if (disk && s->io_errors + s->mismatches)
			json_object_set_new(disk, "first_bad_bytes", json_integer((json_int_t)s->first_bad_bytes));
		json_array_append_new(disks, disk);
	}
	return cli_json_print(json_pack("{si so}", "schema", 1, "burn_in", disks), err);
}

static int run_threads(struct burn_disk *list, size_t count, struct error *err)
{
	struct cli_progress progress;
	int code = 0;
	size_t started = 0;

	cli_progress_begin(&progress, 0);
	cli_progress_phase(&progress, "burn-in of %zu disks", count);
	for (; started < count && !code; started++) {
		code = os_thread_create(&list[started].thread, "burn-in", burn, &list[started], err);
		if (code)
			break;
	}
	if (code)
		os_interrupt();
	watch(list, started, &progress);
	for (size_t i = 0; i < started; i++)
		os_thread_join(list[i].thread);
	cli_progress_end(&progress);
	return code;
}

int burn_in_run(struct cli_disks *disks, const struct burn_in_options *o, unsigned *ret_failed, struct error *err)
{
	struct burn_disk *list = calloc(max_of(disks->count, (size_t)1), sizeof(*list));
	size_t prepared = 0;
	unsigned failed = 0;
	int code = list ? 0 : error_set(err, ERR_MEMORY, "out of memory");

	for (; !code && prepared < disks->count; prepared++)
		code = prepare(&list[prepared], disks->disks[prepared], o, err);
	code = code ? code : run_threads(list, prepared, err);
	if (!code && os_interrupted()) {
		for (size_t i = 0; i < prepared; i++)
			save_state(&list[i]);
		code = error_set(err, ERR_INTERRUPTED, "interrupted; the same command goes on from here");
	} else if (!code) {
		for (size_t i = 0; i < prepared; i++) {
			judge(&list[i]);
			failed += list[i].failed;
		}
		if (o->json)
			code = print_json(list, prepared, err);
		else
			print_table(list, prepared);
		*ret_failed = failed;
	}
	for (size_t i = 0; i < prepared; i++) {
		free(list[i].data);
		free(list[i].pattern);
		os_mutex_destroy(&list[i].lock);
	}
	free(list);
	return code;
}
