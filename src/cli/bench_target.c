/*
 * One target of `spindle bench`: opened, measured workload by workload, closed. Behind an array the limit of each
 * workload is measured first, on the bare disks: afterwards they hold the array's labels. A file, a directory's file or
 * a device is its own limit, past the cache, just before each of its workloads.
 */
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "bench_cli.h"
#include "pool.h"
#include "spindle_disk.h"

#define FILE_BYTES_DEFAULT (1ull << 30)
#define SPAN_BYTES_MAX (8ull << 30) /* of large devices, unless --size says more */
#define SPAN_ALIGN (1ull << 20)
#define POOL_RECORD_BYTES (128ull << 10)
#define POOL_CACHE_BYTES (256ull << 20) /* at most: a quarter of the span, so that not all is read from memory */
#define POOL_CACHE_LEAST (16ull << 20)
#define REST_NS 3600000000000ull

struct run {
	const struct bench_request *request;
	struct result *result;
	struct target *target;
	struct layout *layout;   /* of an array, else NULL */
	struct bench_pool *pool; /* NULL: no pool */
	struct bench_pool_shape shape;
	char pool_layout[64], compression[16];
	const char *layout_name, *disks_name;
	double create_s;
	bool keeps_data;            /* only reads, from what is there */
	struct bench_limit *limits; /* one for each workload, or NULL: on the target itself */
	struct workload *list;
	size_t count;
	char scaled[200];
	struct cli_progress progress;
	struct bench_progress say;
};

/* --- the limit ----------------------------------------------------------------------------------- */

static double model_disks(const struct layout *l, const struct workload *w)
{
	struct layout_model m;

	layout_model(l, &m);
	if (w->random)
		return w->read_percent >= 50 ? m.random_read : m.random_write_small;
	return w->read_percent >= 50 ? m.seq_read : m.seq_write;
}

/* What was said counts instead of what would be measured. */
static bool limit_is_said(const struct run *run, struct bench_limit *ret)
{
	double said = run->request->limit_mb_per_s;

	*ret = (struct bench_limit){
		.mb_per_s = said, .model_mb_per_s = said, .alone_mb_per_s = said, .slowest_share = NAN};
	return isfinite(said);
}

/* A drive that writes into a cache first finds it full of the limit's writes. In virtual time it may rest. */
static void let_rest(const struct run *run)
{
	if (run->request->is_virtual)
		os_sleep_ns(REST_NS);
}

static int measure_limits(struct run *run, const struct cli_disks *disks, struct error *err)
{
	uint64_t least = UINT64_MAX;

	run->limits = calloc(run->count, sizeof(*run->limits));
	if (!run->limits)
		return error_set(err, ERR_MEMORY, "out of memory");
	for (size_t i = 0; i < disks->count; i++)
		least = min_of(least, disk_traits(disks->disks[i])->size_bytes);
	for (size_t i = 0; i < run->count; i++) {
		uint64_t each = min_of(least, round_up_u64(run->list[i].span_bytes / disks->count, SPAN_ALIGN));
		int code;

		if (limit_is_said(run, &run->limits[i]))
			continue;
		cli_progress_phase(&run->progress, "limit of %s", run->list[i].test);
		code = bench_limit_measure(
			disks->disks, (unsigned)disks->count, &run->list[i], each, &run->limits[i], err);
		if (code)
			return code;
		/* A bare disk is its own model. */
		run->limits[i].model_mb_per_s = run->limits[i].mb_per_s;
		if (run->layout)
			run->limits[i].model_mb_per_s *= model_disks(run->layout, &run->list[i]) / (double)disks->count;
		let_rest(run);
	}
	return 0;
}

/* Of a workload whose data is there, on the target itself. Without one the cell goes on and is not valid. */
static int measure_own_limit(struct run *run, const struct workload *w, struct bench_limit *ret, struct error *err)
{
	struct error reason = ERROR_INIT;
	int code = 0;

	if (!limit_is_said(run, ret) && run->target->bare) {
		cli_progress_phase(&run->progress, "limit of %s", w->test);
		code = bench_limit_target(run->target, w, ret, &reason);
		if (code == ERR_INTERRUPTED)
			return error_set(err, code, "%s", reason.text);
		if (code)
			cli_say("no limit for %s: %s", w->test, reason.text);
	}
	ret->link_mb_per_s = run->request->link_mb_per_s;
	return 0;
}

/* --- cells --------------------------------------------------------------------------------------- */

static void name_cell(const struct run *run, const struct workload *w, struct cell *cell)
{
	const struct bench_request *r = run->request;

	cell_init(cell);
	snprintf(cell->stack, sizeof(cell->stack), "%s", run->pool ? "pool" : run->layout ? "array" : "path");
	snprintf(cell->layout, sizeof(cell->layout), "%s", run->layout_name);
	snprintf(cell->disks, sizeof(cell->disks), "%.63s", run->disks_name);
	snprintf(cell->test, sizeof(cell->test), "%s", w->test);
	snprintf(cell->clock, sizeof(cell->clock), "%s", r->is_virtual ? "virtual" : "real");
	snprintf(cell->compression, sizeof(cell->compression), "%s", run->pool ? run->compression : "off");
	if (run->scaled[0])
		snprintf(cell->options, sizeof(cell->options), "%.199s", run->scaled);
}

static int run_workloads(struct run *run, struct error *err)
{
	scoped_free struct cell *cell = malloc(sizeof(*cell));
	int code = cell ? 0 : error_set(err, ERR_MEMORY, "out of memory");
	uint64_t filled = 0;

	for (size_t i = 0; !code && i < run->count; i++) {
		const struct workload *w = &run->list[i];

		/* What is read must have been written, and random writes are of what is there: holes would be given their
		 * places in the measured time. Once for all tests that share the span. */
		if ((w->read_percent > 0 || w->random) && !run->keeps_data && filled < w->span_bytes &&
			strcmp(run->target->ops->kind, "null") != 0) {
			cli_progress_phase(&run->progress, "%s: filling", run->target->name);
			code = bench_fill(run->target, w, &run->say, err);
			filled = w->span_bytes;
			if (code)
				break;
		}
		struct bench_limit limit;
		if (run->limits)
			limit = run->limits[i];
		else
			code = measure_own_limit(run, w, &limit, err);
		if (code)
			break;
		name_cell(run, w, cell);
		cell->create_s = run->create_s;
		cell->usable_bytes = run->target->size_bytes;
		if (run->pool)
			cell->failures_survived = run->shape.failures_survived;
		if (run->layout)
			cell->failures_survived = layout_failures_survived(run->layout);
		cli_progress_phase(&run->progress, "%s: %s", run->target->name, w->test);
		code = bench_run(run->target, w, &limit, &run->say, cell, err);
		if (code == 0 || (code == ERR_INTERRUPTED && cell->sample_count > 0)) {
			int added = result_add_cell(run->result, cell, err);

			code = code ? code : added;
		}
		/* A write test leaves its own data behind, as far as it came. */
		if (w->read_percent == 0 && !w->random && w->total_bytes >= w->span_bytes)
			filled = max_of(filled, w->span_bytes);
	}
	return code;
}

static void begin(struct run *run, const struct bench_request *r, struct result *result)
{
	*run = (struct run){.request = r, .result = result, .layout_name = "", .disks_name = "", .create_s = NAN};
	cli_progress_begin(&run->progress, 0);
	run->progress.quiet = r->quiet;
	run->say = (struct bench_progress){cli_progress_say, &run->progress};
}

static void end(struct run *run)
{
	cli_progress_end(&run->progress);
	target_close(run->target);
	bench_pool_close(run->pool);
	free(run->limits);
	free(run->list);
	free(run->layout);
}

bool bench_word_is_array(const char *word)
{
	return strncmp(word, "array:", 6) == 0;
}

bool bench_word_is_pool(const char *word)
{
	return strncmp(word, "pool:", 5) == 0;
}

/* --- kinds of targets ---------------------------------------------------------------------------- */

int bench_result_disk(struct result *r, const struct disk *disk, struct error *err)
{
	const struct disk_traits *t = disk_traits(disk);
	struct result_disk *more = realloc(r->disks, (r->disk_count + 1) * sizeof(*more));
	struct result_disk *d;

	if (!more)
		return error_set(err, ERR_MEMORY, "out of memory");
	r->disks = more;
	d = &more[r->disk_count++];
	*d = (struct result_disk){.size_bytes = t->size_bytes,
		.nominal_bytes = t->nominal_bytes,
		.logical_bytes = t->logical_bytes,
		.physical_bytes = t->physical_bytes,
		.direct = t->direct,
		.rotating = t->rotating,
		.modelled = t->is_modelled,
		.alone_mb_per_s = NAN,
		.together_mb_per_s = NAN,
		.random_iops = NAN,
		.flush_ms = NAN};
	snprintf(d->name, sizeof(d->name), "%s", t->name);
	snprintf(d->spec, sizeof(d->spec), "%s", t->spec);
	snprintf(d->model, sizeof(d->model), "%s", t->model);
	snprintf(d->serial, sizeof(d->serial), "%s", t->serial);
	snprintf(d->engine, sizeof(d->engine), "%s", t->engine);
	snprintf(d->note, sizeof(d->note), "%s", t->note);
	return 0;
}

static int add_result_disks(struct result *r, const struct cli_disks *disks, struct error *err)
{
	int code = 0;

	for (size_t i = 0; !code && i < disks->count; i++)
		code = bench_result_disk(r, disks->disks[i], err);
	return code;
}

static int make_workloads(struct run *run, unsigned disks, uint64_t target_bytes, struct error *err)
{
	uint64_t room = run->request->size_bytes ? target_bytes : min_of(target_bytes, SPAN_BYTES_MAX);

	return bench_request_workloads(run->request, disks, room, &run->list, &run->count, run->scaled, err);
}

static bool writes(const struct run *run)
{
	for (size_t i = 0; i < run->count; i++)
		if (run->list[i].read_percent < 100)
			return true;
	return false;
}

static void fit_into(struct workload *w, uint64_t bytes)
{
	uint64_t room = round_down_u64(bytes, max_of(SPAN_ALIGN, w->block_bytes));

	w->span_bytes = min_of(w->span_bytes, room ? room : bytes);
	w->total_bytes = min_of(w->total_bytes, w->span_bytes);
}

static int plan_array(struct run *run, const struct cli_disks *disks, struct error *err)
{
	uint64_t bytes[LAYOUT_DISKS_MAX];
	enum layout_rotation rotation = LAYOUT_LEFT_SYMMETRIC;
	uint64_t chunk_bytes = run->request->chunk_bytes ? run->request->chunk_bytes : LAYOUT_CHUNK_DEFAULT;
	int code = run->request->rotation ? layout_rotation_parse(run->request->rotation, &rotation, err) : 0;

	for (size_t i = 0; i < disks->count; i++)
		bytes[i] = round_down_u64(disk_traits(disks->disks[i])->size_bytes, SPAN_ALIGN);
	run->layout = calloc(1, sizeof(*run->layout));
	if (!run->layout)
		return error_set(err, ERR_MEMORY, "out of memory");
	return code ? code
		    : layout_init(
			      run->layout, run->layout_name, (unsigned)disks->count, bytes, chunk_bytes, rotation, err);
}

static int run_array(struct run *run, const char *word, const struct cli_disks *disks, struct error *err)
{
	struct target_array_options options = {.layout = word + 6,
		.rotation = run->request->rotation,
		.write_hole = run->request->write_hole,
		.chunk_bytes = run->request->chunk_bytes};
	uint64_t room;
	int code;

	run->layout_name = word + 6;
	run->disks_name = disk_traits(disks->disks[0])->is_modelled ? disk_traits(disks->disks[0])->model : "disks";
	code = plan_array(run, disks, err);
	if (code)
		return code;
	/* Labels, map and log take some of each disk: what is left is known when the array is there. */
	room = layout_capacity_bytes(run->layout) - layout_capacity_bytes(run->layout) / 8;
	code = make_workloads(run, (unsigned)disks->count, round_down_u64(room, SPAN_ALIGN), err);
	code = code ? code : measure_limits(run, disks, err);
	code = code ? code
		    : target_open_array(
			      &options, disks->disks, (unsigned)disks->count, &run->target, &run->create_s, err);
	for (size_t i = 0; !code && i < run->count; i++)
		fit_into(&run->list[i], run->target->size_bytes);
	return code ? code : run_workloads(run, err);
}

/* "parity1x2+lz4". */
static int pool_word_parse(struct run *run, const char *word, struct error *err)
{
	const char *plus = strchr(word, '+');
	size_t length = plus ? (size_t)(plus - word) : strlen(word);

	if (length >= sizeof(run->pool_layout) || (plus && strlen(plus + 1) >= sizeof(run->compression)))
		return error_set(err, ERR_USAGE, "pool:%.60s: no layout or compression has so long a name", word);
	memcpy(run->pool_layout, word, length);
	run->layout_name = run->pool_layout;
	snprintf(run->compression, sizeof(run->compression), "%s", plus ? plus + 1 : "off");
	return pool_property_check("compression", run->compression, err);
}

/* Of writes at random places the limit is the stream's: measured with one of the same length. */
static int pool_limits(struct run *run, const struct cli_disks *disks, struct error *err)
{
	struct bench_limit streams[2] = {{.mb_per_s = 0}, {.mb_per_s = 0}};
	unsigned n = (unsigned)disks->count;
	uint64_t each = run->list[0].span_bytes / n;
	bool random = false;
	int code = 0;

	for (size_t i = 0; i < run->count; i++)
		random |= run->list[i].random;
	for (unsigned write = 0; !code && random && !isfinite(run->request->limit_mb_per_s) && write < 2; write++) {
		struct workload w;

		code = workload_classic(write ? "write" : "read", n, run->list[0].span_bytes, &w, err);
		cli_progress_phase(&run->progress, "limit of a stream");
		code = code ? code : bench_limit_measure(disks->disks, n, &w, each, &streams[write], err);
		let_rest(run);
	}
	for (size_t i = 0; !code && i < run->count; i++)
		bench_pool_limit(&run->shape, &run->list[i], n, streams[0].mb_per_s / n, streams[1].mb_per_s / n,
			&run->limits[i]);
	return code;
}

static void say_record(const struct run *run, uint64_t record)
{
	for (size_t i = 0; i < run->count; i++)
		if (run->list[i].random && run->list[i].block_bytes < record) {
			cli_say("%s: blocks of %llu bytes in records of %llu: each costs a whole record; --record %llu "
				"fits them",
				run->list[i].test, (unsigned long long)run->list[i].block_bytes,
				(unsigned long long)record,
				(unsigned long long)max_of(run->list[i].block_bytes, (uint64_t)(4u << 10)));
			return;
		}
}

static int run_pool(struct run *run, const char *word, const struct cli_disks *disks, struct error *err)
{
	const struct bench_request *r = run->request;
	uint64_t record = r->record_bytes ? r->record_bytes : POOL_RECORD_BYTES;
	struct bench_pool_options options = {.layout = run->pool_layout, .cache_bytes = r->cache_bytes};
	unsigned n = (unsigned)disks->count;
	uint64_t room = 0, span = 0;
	int code = pool_word_parse(run, word + 5, err);

	code = code ? code : bench_pool_layout(run->pool_layout, n, &run->shape, err);
	if (code)
		return code;
	run->disks_name = disk_traits(disks->disks[0])->is_modelled ? disk_traits(disks->disks[0])->model : "disks";
	for (unsigned i = 0; i < n; i++)
		room += disk_traits(disks->disks[i])->size_bytes;
	/* A pool that is half full at most, unless more is asked for. */
	room = (uint64_t)((double)room * run->shape.usable_share);
	room = round_down_u64(r->size_bytes ? room : room / 2, SPAN_ALIGN);
	code = make_workloads(run, n, room, err);
	code = code ? code : measure_limits(run, disks, err);
	code = code ? code : pool_limits(run, disks, err);
	if (code)
		return code;
	for (size_t i = 0; i < run->count; i++)
		span = max_of(span, run->list[i].span_offset_bytes + run->list[i].span_bytes);
	say_record(run, record);
	if (!options.cache_bytes)
		options.cache_bytes = max_of(min_of(span / 4, POOL_CACHE_BYTES), POOL_CACHE_LEAST);
	code = bench_pool_open(&options, disks->disks, n, &run->pool, &run->create_s, err);
	code = code ? code
		    : bench_pool_volume(run->pool, round_up_u64(span, record), (uint32_t)record, run->compression,
			      &run->target, err);
	return code ? code : run_workloads(run, err);
}

static int run_disk(struct run *run, const struct cli_disks *disks, struct error *err)
{
	const struct disk_traits *traits = disk_traits(disks->disks[0]);
	int code = target_open_disk(disks->disks[0], &run->target, err);

	run->layout_name = "single";
	run->disks_name = traits->name;
	code = code ? code : make_workloads(run, 1, traits->size_bytes, err);
	code = code ? code : measure_limits(run, disks, err);
	return code ? code : run_workloads(run, err);
}

/* For a directory: 1 GiB, or half of what is free there. */
static uint64_t file_bytes(const struct bench_request *r, const char *path)
{
	struct statvfs s;

	if (r->size_bytes || statvfs(path, &s) != 0)
		return r->size_bytes ? r->size_bytes : FILE_BYTES_DEFAULT;
	return min_of(FILE_BYTES_DEFAULT, round_down_u64((uint64_t)s.f_bavail * s.f_frsize / 2, SPAN_ALIGN));
}

/* A file or device that is there: writing to it must be allowed, and reading leaves it as it is. */
static int prepare_existing(struct run *run, const char *word, struct target_path_options *options, struct error *err)
{
	struct disk_facts facts;
	int code = disk_inspect(word, &facts, err);

	code = code ? code : make_workloads(run, 1, facts.size_bytes, err);
	if (code)
		return code;
	if (!writes(run)) {
		run->keeps_data = true;
		return 0;
	}
	options->destroy = true;
	return disk_guard(&facts, cli_destroy_names(&run->request->destroy, word), err);
}

static int run_path(struct run *run, const char *word, struct error *err)
{
	struct target_path_options options = {.direct = !run->request->buffered};
	bool is_null = strncmp(word, "null:", 5) == 0, exists;
	struct stat s;
	int code = 0;

	exists = !is_null && stat(word, &s) == 0;
	if (!is_null && !exists && !run->request->size_bytes)
		return error_set(err, ERR_NOT_FOUND,
			"%s: there is no such file, directory or device; --size makes a file of that size", word);
	run->layout_name = "single";
	run->disks_name = word;
	if (exists && !S_ISDIR(s.st_mode))
		code = prepare_existing(run, word, &options, err);
	else if (!is_null)
		options.size_bytes = file_bytes(run->request, word);
	code = code ? code : target_open_path(word, &options, &run->target, err);
	if (!code && !run->list)
		code = make_workloads(run, 1, run->target->size_bytes, err);
	return code ? code : run_workloads(run, err);
}

int bench_target_run(const struct bench_request *r, const char *word, struct cli_disks *disks, struct result *result,
	struct error *err)
{
	struct run run;
	int code;

	begin(&run, r, result);
	if (disks->count) {
		code = add_result_disks(result, disks, err);
		if (!code)
			code = bench_word_is_array(word)  ? run_array(&run, word, disks, err)
			       : bench_word_is_pool(word) ? run_pool(&run, word, disks, err)
							  : run_disk(&run, disks, err);
	} else
		code = run_path(&run, word, err);
	end(&run);
	return code;
}
