/*
 * The tests of `compare`, and presets that name the classic tools and keep their parameters. docs/bench.md has the
 * lines that people typed. Payload is incompressible where the originals wrote zeros, and every write includes its
 * final flush: those two are what made the originals' figures misleading.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define KIB 1024ull
#define MIB (1024ull * KIB)
#define GIB (1024ull * MIB)
#define RECORD_BYTES (16 * MIB) /* iozone -r16M */
#define RANDOM_NS 3000000000ull
#define PRESET_NS 4000000000ull
#define DEPTH_EACH 4u /* of a disk, in the tests with depth */

const char *const workload_compare_tests[] = {"write", "rewrite", "read", "reread", "randread", "randwrite",
	"randread-128k", "randwrite-128k", "randread-8k", "randwrite-8k", NULL};
const char *const workload_presets[] = {"dd", "iozone", "bonnie", "vm", "database", "nfs", "quick", NULL};

static void defaults(const char *test, uint64_t span_bytes, struct workload *ret)
{
	*ret = (struct workload){
		.depth = 1,
		.jobs = 1,
		.span_bytes = span_bytes,
		.final_flush = true,
		.cold = true,
		.repeats_min = 3,
		.repeats_max = 10,
		.interval_wanted = 0.05,
		.payload = {PAYLOAD_RANDOM, 1},
		.seed = 1,
	};
	snprintf(ret->test, sizeof(ret->test), "%s", test);
}

static int check_span(const struct workload *w, struct error *err)
{
	if (w->span_bytes < w->block_bytes)
		return error_set(err, ERR_TOO_SMALL, "%s: its records are %llu bytes, the target offers %llu", w->test,
			(unsigned long long)w->block_bytes, (unsigned long long)w->span_bytes);
	return 0;
}

int workload_classic(const char *test, unsigned disks, uint64_t span_bytes, struct workload *ret, struct error *err)
{
	static const struct {
		const char *test;
		uint64_t block_bytes;
		unsigned read_percent;
		bool random, reread, deep;
	} table[] = {
		{"write", RECORD_BYTES, 0, false, false, false},
		{"rewrite", RECORD_BYTES, 0, false, false, false},
		{"read", RECORD_BYTES, 100, false, false, false},
		{"reread", RECORD_BYTES, 100, false, true, false},
		{"randread", RECORD_BYTES, 100, true, false, false},
		{"randwrite", RECORD_BYTES, 0, true, false, false},
		{"randread-128k", 128 * KIB, 100, true, false, true},
		{"randwrite-128k", 128 * KIB, 0, true, false, true},
		{"randread-8k", 8 * KIB, 100, true, false, true},
		{"randwrite-8k", 8 * KIB, 0, true, false, true},
	};
	struct workload w;

	for (unsigned i = 0; i < array_count(table); i++) {
		if (strcmp(table[i].test, test))
			continue;
		defaults(test, span_bytes, &w);
		w.block_bytes = table[i].block_bytes;
		w.read_percent = table[i].read_percent;
		w.random = table[i].random;
		w.reread = table[i].reread;
		w.cold = !w.reread;
		if (table[i].deep) {
			w.depth = DEPTH_EACH * max_of(disks, 1u);
			w.duration_ns = RANDOM_NS;
		} else {
			w.total_bytes = span_bytes;
		}
		int status = check_span(&w, err);
		if (status == 0)
			*ret = w;
		return status;
	}
	return error_set(err, ERR_NOT_FOUND, "there is no test \"%s\"", test);
}

/* --- presets ----------------------------------------------------------------------------------------------------- */

struct line {
	const char *preset, *test;
	uint64_t block_bytes, count; /* of the original; count 0: by time */
	unsigned read_percent, jobs, depth_each_disk, flush_blocks;
	bool random, read_then_write, reread;
	unsigned repeats; /* 0: until the interval is narrow */
};
static const struct line lines[] = {
	{.preset = "dd", .test = "dd-2m-write", .block_bytes = 2 * MIB, .count = 10000},
	{.preset = "dd", .test = "dd-2m-read", .block_bytes = 2 * MIB, .count = 10000, .read_percent = 100},
	{.preset = "dd", .test = "dd-8k-write", .block_bytes = 8 * KIB, .count = 1048576},
	{.preset = "dd", .test = "dd-8k-read", .block_bytes = 8 * KIB, .count = 1048576, .read_percent = 100},
	{.preset = "dd", .test = "dd-1m-fsync", .block_bytes = MIB, .count = 4000},
	{.preset = "iozone", .test = "write", .block_bytes = RECORD_BYTES, .count = 512},
	{.preset = "iozone", .test = "rewrite", .block_bytes = RECORD_BYTES, .count = 512},
	{.preset = "iozone", .test = "read", .block_bytes = RECORD_BYTES, .count = 512, .read_percent = 100},
	{.preset = "iozone",
		.test = "reread",
		.block_bytes = RECORD_BYTES,
		.count = 512,
		.read_percent = 100,
		.reread = true},
	{.preset = "iozone",
		.test = "randread",
		.block_bytes = RECORD_BYTES,
		.count = 512,
		.read_percent = 100,
		.random = true},
	{.preset = "iozone", .test = "randwrite", .block_bytes = RECORD_BYTES, .count = 512, .random = true},
	{.preset = "bonnie", .test = "bonnie-write", .block_bytes = 8 * KIB, .count = 10485760, .repeats = 6},
	{.preset = "bonnie",
		.test = "bonnie-rewrite",
		.block_bytes = 8 * KIB,
		.count = 10485760,
		.read_percent = 50,
		.read_then_write = true,
		.repeats = 6},
	{.preset = "bonnie",
		.test = "bonnie-read",
		.block_bytes = 8 * KIB,
		.count = 10485760,
		.read_percent = 100,
		.repeats = 6},
	{.preset = "bonnie",
		.test = "bonnie-seeks",
		.block_bytes = 8 * KIB,
		.count = 8192,
		.read_percent = 90,
		.jobs = 5,
		.random = true,
		.repeats = 6},
	{.preset = "vm",
		.test = "vm",
		.block_bytes = 4 * KIB,
		.read_percent = 67,
		.depth_each_disk = DEPTH_EACH,
		.random = true},
	{.preset = "database",
		.test = "database-data",
		.block_bytes = 8 * KIB,
		.read_percent = 67,
		.depth_each_disk = DEPTH_EACH,
		.random = true},
	{.preset = "database", .test = "database-log", .block_bytes = 8 * KIB, .flush_blocks = 1},
	{.preset = "nfs", .test = "nfs-write", .block_bytes = 32 * KIB, .flush_blocks = 1},
	{.preset = "nfs", .test = "nfs-randwrite", .block_bytes = 8 * KIB, .flush_blocks = 1, .random = true},
	{.preset = "nfs", .test = "nfs-read", .block_bytes = 32 * KIB, .read_percent = 100},
};

/* The original's bytes, or as many of its blocks as the target holds. */
static void scale(const struct line *line, uint64_t target_bytes, struct workload *w, struct text *said)
{
	char from[SIZE_TEXT_BYTES], to[SIZE_TEXT_BYTES];
	uint64_t asked = line->block_bytes * line->count, room = round_down_u64(target_bytes, line->block_bytes);

	w->span_bytes = room;
	if (line->count == 0) {
		w->duration_ns = PRESET_NS;
		/* A stream of reads ends with the data: a second time round it would read what was read. */
		w->total_bytes = !line->random && line->read_percent == 100 ? room : 0;
		return;
	}
	w->total_bytes = min_of(asked, room);
	if (!line->random)
		w->span_bytes = w->total_bytes;
	if (asked > room)
		text_addf(said, "%s%s %s scaled to %s", said->length ? ", " : "", line->test,
			size_format_binary(asked, from), size_format_binary(w->total_bytes, to));
}

static void make_line(
	const struct line *line, unsigned disks, uint64_t target_bytes, struct workload *w, struct text *said)
{
	defaults(line->test, target_bytes, w);
	w->block_bytes = line->block_bytes;
	w->read_percent = line->read_percent;
	w->random = line->random;
	w->read_then_write = line->read_then_write;
	w->reread = line->reread;
	w->cold = !line->reread;
	w->jobs = max_of(line->jobs, 1u);
	w->depth = max_of(line->depth_each_disk * max_of(disks, 1u), 1u);
	w->flush_every_bytes = line->flush_blocks * line->block_bytes;
	if (line->repeats)
		w->repeats_min = w->repeats_max = line->repeats;
	scale(line, target_bytes, w, said);
}

static int make_quick(
	unsigned disks, uint64_t target_bytes, struct workload **ret_list, size_t *ret_count, struct error *err)
{
	static const char *const tests[] = {"write", "read", "randread-8k", "randwrite-8k"};
	struct workload *list = calloc(array_count(tests), sizeof(*list));
	int status = list ? 0 : error_set(err, ERR_MEMORY, "no memory for a list of workloads");

	for (unsigned i = 0; i < array_count(tests) && status == 0; i++) {
		status = workload_classic(tests[i], disks, target_bytes, &list[i], err);
		list[i].repeats_min = list[i].repeats_max = 1;
		list[i].minimum_ns = RANDOM_NS / 2;
	}
	if (status < 0) {
		free(list);
		return status;
	}
	*ret_list = list;
	*ret_count = array_count(tests);
	return 0;
}

int workload_preset(const char *preset, unsigned disks, uint64_t target_bytes, struct workload **ret_list,
	size_t *ret_count, char ret_scaled[200], struct error *err)
{
	struct text said = {0};
	size_t count = 0;
	int status = 0;

	ret_scaled[0] = 0;
	if (!strcmp(preset, "quick"))
		return make_quick(disks, target_bytes, ret_list, ret_count, err);
	struct workload *list = calloc(array_count(lines), sizeof(*list));
	if (!list)
		return error_set(err, ERR_MEMORY, "no memory for a list of workloads");
	for (unsigned i = 0; i < array_count(lines) && status == 0; i++) {
		if (strcmp(lines[i].preset, preset))
			continue;
		make_line(&lines[i], disks, target_bytes, &list[count], &said);
		status = check_span(&list[count++], err);
	}
	if (status == 0 && count == 0)
		status = error_set(err, ERR_NOT_FOUND, "there is no preset \"%s\"", preset);
	if (status < 0) {
		free(list);
	} else {
		*ret_list = list;
		*ret_count = count;
		snprintf(ret_scaled, 200, "%s", said.length ? said.bytes : "");
	}
	text_release(&said);
	return status;
}
