#include <math.h>
#include <string.h>

#include "bench_cli.h"

#define RECORD_BYTES_MIN (4u << 10)
#define RECORD_BYTES_MAX (1u << 20)

enum {
	OPTION_PRESET = 1,
	OPTION_TEST,
	OPTION_RW,
	OPTION_BS,
	OPTION_DEPTH,
	OPTION_JOBS,
	OPTION_SIZE,
	OPTION_TIME,
	OPTION_PAYLOAD,
	OPTION_FSYNC,
	OPTION_READ_PERCENT,
	OPTION_REPEATS,
	OPTION_SEED,
	OPTION_MODEL,
	OPTION_CHUNK,
	OPTION_ROTATION,
	OPTION_HOLE,
	OPTION_RECORD,
	OPTION_CACHE,
	OPTION_BUFFERED,
	OPTION_LIMIT,
	OPTION_LINK,
	OPTION_DESTROY,
	OPTION_CLOCK,
	OPTION_CPUS,
	OPTION_JSON,
	OPTION_CSV,
	OPTION_FIO,
	OPTION_MARKDOWN,
	OPTION_QUIET
};

static const struct cli_option options[] = {
	{OPTION_PRESET, "preset", 0, "NAME", "dd iozone bonnie vm database nfs quick (quick)"},
	{OPTION_TEST, "test", 0, "NAME", "one of compare's ten tests; repeated"},
	{OPTION_RW, "rw", 0, "KIND", "read write randread randwrite rw randrw, with:"},
	{OPTION_BS, "bs", 0, "SIZE", "  block size (128KiB)"},
	{OPTION_DEPTH, "depth", 0, "N", "  requests in flight for each job (1)"},
	{OPTION_JOBS, "jobs", 0, "N", "  jobs (1)"},
	{OPTION_READ_PERCENT, "read-percent", 0, "N", "  of rw and randrw (50)"},
	{OPTION_FSYNC, "fsync", 0, "SIZE", "  flush after so many bytes (only at the end)"},
	{OPTION_SIZE, "size", 0, "SIZE", "the part of the target to use; of a file to make"},
	{OPTION_TIME, "time", 0, "TIME", "stop each run after so long"},
	{OPTION_PAYLOAD, "payload", 0, "KIND", "random, zero, ratio:2, text (random)"},
	{OPTION_REPEATS, "repeats", 0, "N", "exactly N (until the interval is narrow, at most 10)"},
	{OPTION_SEED, "seed", 0, "N", "of places and payload (1)"},
	{OPTION_MODEL, "model", 0, "NAME:N", "for array: and pool: N memory disks with that model"},
	{OPTION_CHUNK, "chunk", 0, "SIZE", "for array: (128KiB)"},
	{OPTION_ROTATION, "rotation", 0, "NAME", "for array: (left-symmetric)"},
	{OPTION_HOLE, "write-hole", 0, "WAY", "for array: log or bitmap (log)"},
	{OPTION_RECORD, "record", 0, "SIZE", "for pool: bytes of a record (128KiB)"},
	{OPTION_CACHE, "cache", 0, "SIZE", "for pool: (a quarter of what is used, 256MiB at most)"},
	{OPTION_BUFFERED, "buffered", 0, NULL, "through the page cache"},
	{OPTION_LIMIT, "limit", 0, "MB/S", "what the devices can give (measured on the target)"},
	{OPTION_LINK, "link", 0, "LINK", "the target is behind 1GbE 10GbE 2GFC 4GFC or MB/s"},
	{OPTION_DESTROY, "destroy", 0, "TARGET", "write to what is not empty; repeated; or all-named"},
	{OPTION_CLOCK, "clock", 0, "CLOCK", "real, or virtual for memory disks (real)"},
	{OPTION_CPUS, "cpus", 0, "N", "virtual CPUs, or free (2)"},
	{OPTION_JSON, "json", 0, NULL, "the result as JSON; also --csv, --markdown and"},
	{OPTION_FIO, "fio-json", 0, NULL, "  in the shape of fio's"},
	{OPTION_CSV, "csv", 0, NULL, NULL},
	{OPTION_MARKDOWN, "markdown", 0, NULL, NULL},
	{OPTION_QUIET, "quiet", 'q', NULL, NULL},
	{0},
};

static const struct cli_help help = {
	.verb = "bench",
	.usage = "[OPTION]… TARGET… | array:LAYOUT DISK… | pool:LAYOUT[+COMPRESSION] DISK…",
	.text = "Runs workloads on targets and says what each figure is worth. TARGET: a directory,\n"
		"a file, a block device, a DISK with wrappers, null:, or cpu: (cost of each stage).",
	.options = options,
};

static int take_clock(struct bench_request *r, const char *value, struct error *err)
{
	if (strcmp(value, "real") != 0 && strcmp(value, "virtual") != 0)
		return error_set(err, ERR_USAGE, "--clock is real or virtual, not '%s'", value);
	r->is_virtual = value[0] == 'v';
	return 0;
}

static int take_number(
	const char *what, const char *value, uint64_t lowest, uint64_t highest, unsigned *ret, struct error *err)
{
	uint64_t number;
	int code = number_parse(what, value, lowest, highest, &number, err);

	if (!code)
		*ret = (unsigned)number;
	return code;
}

static int take_cpus(struct bench_request *r, const char *value, struct error *err)
{
	r->cpu_is_free = strcmp(value, "free") == 0;
	return r->cpu_is_free ? 0 : take_number("--cpus", value, 1, 1024, &r->cpus, err);
}

static int take_test(struct bench_request *r, const char *value, struct error *err)
{
	for (const char *const *name = workload_compare_tests; *name; name++)
		if (strcmp(*name, value) == 0) {
			if (r->test_count == BENCH_TESTS_MAX)
				return error_set(err, ERR_USAGE, "--test is given more than %d times", BENCH_TESTS_MAX);
			r->tests[r->test_count++] = value;
			return 0;
		}
	if (cli_nearest(value, workload_compare_tests))
		return error_set(err, ERR_USAGE, "there is no test '%s'; did you mean '%s'?", value,
			cli_nearest(value, workload_compare_tests));
	return error_set(err, ERR_USAGE, "there is no test '%s'; 'spindle compare --help' lists them", value);
}

static int take_preset(struct bench_request *r, const char *value, struct error *err)
{
	const char *near = cli_nearest(value, workload_presets);

	for (const char *const *name = workload_presets; *name; name++)
		if (strcmp(*name, value) == 0)
			r->preset = value;
	if (r->preset == value)
		return 0;
	return error_set(err, ERR_USAGE, "there is no preset '%s'%s%s%s", value, near ? "; did you mean '" : "",
		near ? near : "", near ? "'?" : "; there are dd, iozone, bonnie, vm, database, nfs, quick");
}

static int take_rw(struct bench_request *r, const char *value, struct error *err)
{
	static const char *const kinds[] = {"read", "write", "randread", "randwrite", "rw", "randrw", NULL};

	for (const char *const *kind = kinds; *kind; kind++)
		if (strcmp(*kind, value) == 0) {
			r->rw = value;
			return 0;
		}
	return error_set(err, ERR_USAGE, "--rw is read, write, randread, randwrite, rw or randrw, not '%s'", value);
}

static int take_record(struct bench_request *r, const char *value, struct error *err)
{
	int code = size_parse(value, &r->record_bytes, err);

	if (code) {
		error_prefix(err, "--record");
		return code;
	}
	if (!is_power_of_two(r->record_bytes) || r->record_bytes < RECORD_BYTES_MIN ||
		r->record_bytes > RECORD_BYTES_MAX)
		return error_set(err, ERR_USAGE, "--record: %s is no power of two from 4 KiB to 1 MiB", value);
	return 0;
}

static int take_word(struct bench_request *r, const char *value, struct error *err)
{
	if (r->word_count == LAYOUT_DISKS_MAX)
		return error_set(err, ERR_USAGE, "more than %d targets or disks are given", LAYOUT_DISKS_MAX);
	r->words[r->word_count++] = value;
	return 0;
}

static int take_option(struct bench_request *r, int id, const char *value, struct error *err)
{
	struct payload payload;

	switch (id) {
	case CLI_WORD:
		return take_word(r, value, err);
	case OPTION_PRESET:
		return take_preset(r, value, err);
	case OPTION_TEST:
		return take_test(r, value, err);
	case OPTION_RW:
		return take_rw(r, value, err);
	case OPTION_BS:
		return size_parse(value, &r->block_bytes, err);
	case OPTION_DEPTH:
		return take_number("--depth", value, 1, 4096, &r->depth, err);
	case OPTION_JOBS:
		return take_number("--jobs", value, 1, 1024, &r->jobs, err);
	case OPTION_READ_PERCENT:
		return take_number("--read-percent", value, 0, 100, &r->read_percent, err);
	case OPTION_FSYNC:
		return size_parse(value, &r->flush_bytes, err);
	case OPTION_SIZE:
		return size_parse(value, &r->size_bytes, err);
	case OPTION_TIME:
		return duration_parse(value, &r->duration_ns, err);
	case OPTION_PAYLOAD:
		r->payload = value;
		return payload_parse(value, &payload, err);
	case OPTION_REPEATS:
		return take_number("--repeats", value, 1, RESULT_SAMPLES_MAX, &r->repeats, err);
	case OPTION_SEED:
		return number_parse("--seed", value, 0, UINT64_MAX, &r->seed, err);
	case OPTION_MODEL:
		r->model = value;
		return 0;
	case OPTION_CHUNK:
		return size_parse(value, &r->chunk_bytes, err);
	case OPTION_ROTATION:
		r->rotation = value;
		return 0;
	case OPTION_HOLE:
		r->write_hole = value;
		return 0;
	case OPTION_RECORD:
		return take_record(r, value, err);
	case OPTION_CACHE:
		return size_parse(value, &r->cache_bytes, err);
	case OPTION_BUFFERED:
		r->buffered = true;
		return 0;
	case OPTION_LIMIT:
		return real_parse("--limit", value, 0.001, 1e9, &r->limit_mb_per_s, err);
	case OPTION_LINK:
		r->link_name = value;
		return cli_link_parse(value, &r->link_mb_per_s, err);
	case OPTION_DESTROY:
		return cli_destroy_add(&r->destroy, value, err);
	case OPTION_CLOCK:
		return take_clock(r, value, err);
	case OPTION_CPUS:
		return take_cpus(r, value, err);
	case OPTION_JSON:
		r->out = BENCH_OUT_JSON;
		return 0;
	case OPTION_CSV:
		r->out = BENCH_OUT_CSV;
		return 0;
	case OPTION_FIO:
		r->out = BENCH_OUT_FIO;
		return 0;
	case OPTION_MARKDOWN:
		r->out = BENCH_OUT_MARKDOWN;
		return 0;
	default:
		r->quiet = true;
		return 0;
	}
}

static int check_together(const struct bench_request *r, struct error *err)
{
	bool is_array = r->word_count && bench_word_is_array(r->words[0]);
	bool is_pool = r->word_count && bench_word_is_pool(r->words[0]);
	bool takes_disks = is_array || is_pool;

	if (!r->word_count)
		return error_set(err, ERR_USAGE, "bench needs a target: spindle bench %s", help.usage);
	if ((r->preset != NULL) + (r->test_count > 0) + (r->rw != NULL) > 1)
		return error_set(err, ERR_USAGE, "--preset, --test and --rw exclude each other");
	if (!r->rw && (r->block_bytes || r->depth || r->jobs || r->flush_bytes || r->read_percent != UINT32_MAX))
		return error_set(err, ERR_USAGE,
			"--bs, --depth, --jobs, --fsync and --read-percent go with --rw; tests and presets have their "
			"own");
	if (!takes_disks && r->model)
		return error_set(err, ERR_USAGE, "--model goes with the targets array:LAYOUT and pool:LAYOUT");
	if (!is_array && (r->chunk_bytes || r->rotation || r->write_hole))
		return error_set(
			err, ERR_USAGE, "--chunk, --rotation and --write-hole go with the target array:LAYOUT");
	if (!is_pool && (r->record_bytes || r->cache_bytes))
		return error_set(err, ERR_USAGE, "--record and --cache go with the target pool:LAYOUT");
	if (isfinite(r->link_mb_per_s) && (takes_disks || strncmp(r->words[0], "mem:", 4) == 0))
		return error_set(err, ERR_USAGE,
			"--link is for a directory, file or device that is reached over it; the disks of %s are in "
			"this "
			"machine",
			r->words[0]);
	if (r->block_bytes && (r->block_bytes % 512 || r->block_bytes > (1u << 30)))
		return error_set(err, ERR_USAGE, "--bs must be a multiple of 512 bytes and at most 1 GiB");
	for (unsigned i = 1; i < r->word_count; i++)
		if (bench_word_is_array(r->words[i]) || bench_word_is_pool(r->words[i]))
			return error_set(err, ERR_USAGE,
				"%s comes first, its disks follow; no other target goes with it", r->words[i]);
	return 0;
}

int bench_request_take(struct bench_request *r, int argc, char **argv, struct error *err)
{
	struct cli_scan scan;
	const char *value;
	int id, code = 0;

	*r = (struct bench_request){
		.seed = 1, .read_percent = UINT32_MAX, .cpus = 2, .limit_mb_per_s = NAN, .link_mb_per_s = NAN};
	cli_scan_init(&scan, argc, argv, &help);
	while (!code && (id = cli_scan_next(&scan, &value, err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			return id;
		code = take_option(r, id, value, err);
	}
	return code ? code : check_together(r, err);
}

/* --- workloads ----------------------------------------------------------------------------------- */

static void custom_workload(const struct bench_request *r, uint64_t span_bytes, struct workload *w)
{
	bool random = strncmp(r->rw, "rand", 4) == 0;
	const char *kind = r->rw + (random ? 4 : 0);
	unsigned mixed = r->read_percent == UINT32_MAX ? 50 : r->read_percent;

	*w = (struct workload){
		.random = random,
		.read_percent = strcmp(kind, "read") == 0    ? 100
				: strcmp(kind, "write") == 0 ? 0
							     : mixed,
		.block_bytes = r->block_bytes ? r->block_bytes : 128 << 10,
		.depth = r->depth ? r->depth : 1,
		.jobs = r->jobs ? r->jobs : 1,
		.span_bytes = span_bytes,
		.total_bytes = r->duration_ns ? 0 : span_bytes,
		.flush_every_bytes = r->flush_bytes,
		.final_flush = true,
		.cold = true,
		.repeats_min = 3,
		.repeats_max = 10,
		.interval_wanted = 0.05,
	};
	snprintf(w->test, sizeof(w->test), "%s", r->rw);
}

static int make_list(const struct bench_request *r, unsigned disks, uint64_t span_bytes, struct workload **ret_list,
	size_t *ret_count, char ret_scaled[200], struct error *err)
{
	struct workload *list;
	size_t count = r->rw ? 1 : r->test_count;
	int code = 0;

	if (!r->rw && !r->test_count)
		return workload_preset(
			r->preset ? r->preset : "quick", disks, span_bytes, ret_list, ret_count, ret_scaled, err);
	list = calloc(count, sizeof(*list));
	if (!list)
		return error_set(err, ERR_MEMORY, "out of memory");
	if (r->rw)
		custom_workload(r, span_bytes, list);
	for (unsigned i = 0; !code && i < r->test_count; i++)
		code = workload_classic(r->tests[i], disks, span_bytes, &list[i], err);
	if (code) {
		free(list);
		return code;
	}
	*ret_list = list;
	*ret_count = count;
	return 0;
}

int bench_request_workloads(const struct bench_request *r, unsigned disks, uint64_t target_bytes,
	struct workload **ret_list, size_t *ret_count, char ret_scaled[200], struct error *err)
{
	uint64_t span_bytes = r->size_bytes ? min_of(r->size_bytes, target_bytes) : target_bytes;
	int code;

	ret_scaled[0] = 0;
	code = make_list(r, disks, span_bytes, ret_list, ret_count, ret_scaled, err);
	for (size_t i = 0; !code && i < *ret_count; i++) {
		struct workload *w = &(*ret_list)[i];

		w->seed = r->seed;
		if (r->duration_ns)
			w->duration_ns = r->duration_ns;
		if (r->payload)
			code = payload_parse(r->payload, &w->payload, err);
		if (r->repeats)
			w->repeats_min = w->repeats_max = r->repeats;
		if (!code && w->block_bytes > w->span_bytes)
			code = error_set(err, ERR_TOO_SMALL,
				"the target offers %llu bytes, less than one block of test %s (%llu)",
				(unsigned long long)w->span_bytes, w->test, (unsigned long long)w->block_bytes);
	}
	return code;
}
