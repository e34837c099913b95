/*
 * compare_run: the cells. On the virtual clock every layout has a simulated world of its own with fresh disks in it; on
 * the real clock one set of disks is opened and one array after the other is made on it. What happens in between is the
 * same code: run_layout.
 */
#include "compare.h"

#include <string.h>

#define SECOND 1000000000ull
#define VIRTUAL_RANDOM_NS (3 * SECOND) /* of a random read that goes by time */
#define BUFFERED_RANDOM_NS                                                                                             \
	(2 * SECOND)           /* of a random write: the same on both clocks of memory disks, for what a buffer takes
					 * up at first weighs the more the shorter it is */
#define VIRTUAL_OPERATIONS 64u /* at least, so that windows of a few 16 MiB blocks tell something … */
#define VIRTUAL_ROUNDS 6u      /* … but over a small span not so often that caches tell more than disks */
#define VIRTUAL_MINIMUM_NS (6 * SECOND / 10) /* modelled disks: under half a second is too short */
#define VIRTUAL_LENGTHEN 64u                 /* a virtual phase of small blocks … */
#define VIRTUAL_LENGTHEN_LARGE 8u            /* … and one whose many bytes take real time to copy */
#define LARGE_BLOCK_BYTES (1ull << 20)
#define SPAN_STEP_BYTES (16ull << 20)

/* --- what is run -------------------------------------------------------------------------------------------------- */

unsigned compare_disks_of(const struct compare *c, const char *layout)
{
	return strcmp(layout, "single") == 0 ? min_of(c->disk_count, 1u) : c->disk_count;
}

bool compare_on_real(const struct compare *c, const struct compare_layout *l)
{
	return c->clock_real && l->real_too;
}

static int classics_make(const struct compare *c, unsigned disks, uint64_t span_bytes, struct workload **ret_list,
	size_t *ret_count, struct error *err)
{
	struct workload *list = calloc(COMPARE_TESTS_MAX, sizeof(*list));
	size_t count = 0;

	if (!list)
		return error_set(err, ERR_MEMORY, "out of memory");
	for (const char *const *t = workload_compare_tests; *t; t++) {
		bool wanted = c->test_count == 0;
		int status;

		for (unsigned i = 0; i < c->test_count; i++)
			wanted |= strcmp(c->tests[i], *t) == 0;
		if (!wanted)
			continue;
		status = workload_classic(*t, disks, span_bytes, &list[count++], err);
		if (status != 0) {
			free(list);
			return status;
		}
	}
	*ret_list = list;
	*ret_count = count;
	return 0;
}

int compare_tests_make(const struct compare *c, unsigned disks, uint64_t span_bytes, bool virtual,
	struct workload **ret_list, size_t *ret_count, char ret_scaled[200], struct error *err)
{
	uint64_t least_ns = virtual ? VIRTUAL_MINIMUM_NS : c->phase_ns;
	int status;

	ret_scaled[0] = 0;
	status = c->preset ? workload_preset(c->preset, disks, span_bytes, ret_list, ret_count, ret_scaled, err)
			   : classics_make(c, disks, span_bytes, ret_list, ret_count, err);
	for (size_t i = 0; status == 0 && i < *ret_count; i++) {
		struct workload *w = &(*ret_list)[i];

		w->seed = c->seed;
		w->minimum_ns = max_of(w->minimum_ns, least_ns);
		if (w->duration_ns && w->random && !c->preset) {
			w->duration_ns = virtual ? VIRTUAL_RANDOM_NS : least_ns;
			if (c->all_memory && w->read_percent == 0)
				w->duration_ns = BUFFERED_RANDOM_NS;
		}
		if (virtual && w->total_bytes && !c->preset)
			w->total_bytes = max_of(w->total_bytes,
				min_of(VIRTUAL_OPERATIONS * w->block_bytes, VIRTUAL_ROUNDS * span_bytes));
		if (w->duration_ns)
			w->duration_ns = max_of(w->duration_ns, least_ns);
		if (virtual || !c->preset) {
			w->repeats_min = virtual ? 1 : c->repeats_min;
			w->repeats_max = virtual ? 1 : c->repeats_max;
		}
		w->lengthen_max = !virtual                             ? 1
				  : w->block_bytes < LARGE_BLOCK_BYTES ? VIRTUAL_LENGTHEN
								       : VIRTUAL_LENGTHEN_LARGE;
	}
	return status;
}

static size_t tests_count(const struct compare *c)
{
	struct workload *list;
	char scaled[200];
	size_t count = 0;

	if (compare_tests_make(c, c->disk_count, c->span_bytes * c->disk_count, false, &list, &count, scaled, NULL) ==
		0)
		free(list);
	return count;
}

/* A model gives the same on both clocks, so the limits of the virtual one stand for the real one too: they would take half
 * a minute there. */
static bool limits_taken_over(const struct compare *c)
{
	return c->clock_virtual && c->clock_real && c->all_memory && c->all_modelled;
}

/* How many sets of limits a clock needs: all disks, and the one disk of `single` where there are more. */
static unsigned limit_sets(const struct compare *c, bool virtual)
{
	bool one = false, all = false;

	if (!virtual && limits_taken_over(c))
		return 0;
	for (unsigned i = 0; i < c->layout_count; i++) {
		if (!virtual && !compare_on_real(c, &c->layouts[i]))
			continue;
		one |= compare_disks_of(c, c->layouts[i].name) != c->disk_count;
		all |= compare_disks_of(c, c->layouts[i].name) == c->disk_count;
	}
	return one + all;
}

static unsigned cells_on(const struct compare *c, bool virtual)
{
	unsigned layouts = 0;

	for (unsigned i = 0; i < c->layout_count; i++)
		layouts += virtual || compare_on_real(c, &c->layouts[i]);
	return (layouts + limit_sets(c, virtual)) * (unsigned)tests_count(c);
}

unsigned compare_phases(const struct compare *c)
{
	return (c->clock_virtual ? cells_on(c, true) : 0) + (c->clock_real ? cells_on(c, false) : 0);
}

/* Virtual cells cost what the bytes cost to move (about 2 GB/s); real ones their phases. */
uint64_t compare_estimate_ns(const struct compare *c)
{
	uint64_t ns = 0;

	if (c->clock_virtual)
		ns += cells_on(c, true) * (c->span_bytes * c->disk_count / 2);
	if (c->clock_real)
		ns += cells_on(c, false) * (c->phase_ns + c->phase_ns / 5) * c->repeats_max;
	return ns;
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

static const struct bench_limit no_limit = {
	.mb_per_s = NAN, .model_mb_per_s = NAN, .alone_mb_per_s = NAN, .slowest_share = NAN};

static bool same_pattern(const struct workload *a, const struct workload *b)
{
	return a->random == b->random && a->read_percent == b->read_percent && a->block_bytes == b->block_bytes &&
	       a->depth == b->depth && a->jobs == b->jobs && a->total_bytes == b->total_bytes &&
	       a->duration_ns == b->duration_ns && a->flush_every_bytes == b->flush_every_bytes &&
	       a->read_then_write == b->read_then_write;
}

static int limit_measure(struct compare *c, struct disk *const *disks, unsigned count, struct workload *w,
	struct bench_limit *ret, struct error *err)
{
	struct error reason = ERROR_INIT;
	int status;

	w->repeats_min = w->repeats_max = 1;
	if (c->all_modelled && w->duration_ns) /* models are steady: a second tells */
		w->duration_ns = min_of(w->duration_ns, SECOND);
	status = bench_limit_measure(disks, count, w, c->span_bytes, ret, &reason);
	if (status == ERR_INTERRUPTED || os_interrupted())
		return error_set(err, ERR_INTERRUPTED, "interrupted");
	if (status != 0) { /* a disk that fails will show in the cells too: they go on without a limit */
		cli_say("no limit for %s: %s", w->test, reason.text);
		*ret = no_limit;
	}
	return 0;
}

static void stream_note(
	struct compare_limits_of *l, const struct workload *w, const struct bench_limit *limit, unsigned count)
{
	if (w->random || !isfinite(limit->mb_per_s))
		return;
	if (w->read_percent == 100)
		l->stream_read = bench_limit_one(limit, count);
	else if (w->read_percent == 0)
		l->stream_write = bench_limit_one(limit, count);
}

/* Tests with one pattern have one limit. The first pattern is measured again where it comes again, and the second figure
 * counts for both: in the first, memory and file blocks are touched for the first time. */
static int limits_measure(struct compare *c, struct disk *const *disks, unsigned count, bool virtual,
	struct compare_limits_of *ret, struct error *err)
{
	struct workload *list;
	char scaled[200];
	size_t tests;
	int status = compare_tests_make(c, count, c->span_bytes * count, virtual, &list, &tests, scaled, err);

	if (status != 0)
		return status;
	ret->count = min_of(tests, (size_t)COMPARE_TESTS_MAX);
	for (size_t i = 0; i < ret->count && status == 0; i++) {
		struct workload w = list[i];
		size_t like = 0;

		cli_progress_phase(&c->progress, "limit of %u disk%s %s", count, count == 1 ? "" : "s", w.test);
		while (like < i && !same_pattern(&list[like], &w))
			like++;
		ret->of[i] = like < i ? ret->of[like] : no_limit;
		if (like == i || like == 0)
			status = limit_measure(c, disks, count, &w, &ret->of[i], err);
		ret->of[like] = ret->of[i];
		stream_note(ret, &w, &ret->of[i], count);
	}
	free(list);
	return status;
}

/* What the layout can give: its first-order model in units of one disk, times what one disk gave in the limit. */
static double model_of(const struct layout *l, const struct workload *w, const struct compare_limits_of *limits,
	size_t index, unsigned disks)
{
	const struct bench_limit *limit = &limits->of[index];
	double one = bench_limit_one(limit, disks), read, write;
	struct layout_model m;

	if (!isfinite(limit->mb_per_s) || w->read_then_write)
		return NAN;
	layout_model(l, &m);
	if (!w->random) {
		read = m.seq_read * one;
		write = m.seq_write * one;
	} else if (w->block_bytes < SPAN_STEP_BYTES) {
		read = m.random_read * one;
		write = m.random_write_small * one;
	} else if (bench_limit_is_shared(limit)) {
		return NAN; /* how long a seek takes does not show behind a bus */
	} else {
		read = bench_record_rate(m.seq_read, (double)w->block_bytes / 1e6, one, limits->stream_read);
		write = bench_record_rate(m.seq_write, (double)w->block_bytes / 1e6, one, limits->stream_write);
	}
	if (w->read_percent == 100)
		return read;
	if (w->read_percent == 0)
		return write;
	return 1 / (w->read_percent / 100.0 / read + (100 - w->read_percent) / 100.0 / write);
}

/* --- one layout --------------------------------------------------------------------------------------------------- */

struct layout_run {
	struct compare *c;
	const struct compare_layout *layout;
	const char *name; /* the layout's */
	const char *clock;
	bool virtual;
	unsigned disk_count;
	const struct compare_limits_of *limits;
	const char *limits_note; /* for the cells; NULL or empty: none */
	/* found */
	struct layout nominal;         /* on disks of nominal size: what a buyer of such disks would get */
	struct bench_pool_shape shape; /* of a pool, and what it offers on such disks */
	uint64_t pool_bytes;
	double create_s;
	size_t next_test; /* the first without a cell */
	size_t announced; /* so many tests were told to the progress line */
	bool fresh_disks; /* nothing was written to them: memory and file blocks are still to be touched */
};

static int nominal_make(struct layout_run *run, struct disk *const *disks, struct error *err)
{
	uint64_t bytes[LAYOUT_DISKS_MAX];

	if (run->layout->is_pool) {
		for (unsigned i = 0; i < run->disk_count; i++)
			run->pool_bytes += disk_traits(disks[i])->nominal_bytes;
		if (bench_pool_layout(run->name, run->disk_count, &run->shape, err))
			return ERR_USAGE;
		run->pool_bytes = (uint64_t)((double)run->pool_bytes * run->shape.usable_share);
		return 0;
	}

	for (unsigned i = 0; i < run->disk_count; i++)
		bytes[i] = array_data_bytes(disk_traits(disks[i])->nominal_bytes, run->c->chunk_bytes);
	return layout_init(
		&run->nominal, run->name, run->disk_count, bytes, run->c->chunk_bytes, LAYOUT_LEFT_SYMMETRIC, err);
}

static void key_set(const struct layout_run *run, const struct workload *w, struct cell *cell)
{
	const struct result *r = &run->c->result;
	const char *model = r->disk_count && r->disks[0].model[0] ? r->disks[0].model : "disks";

	for (size_t i = 1; i < r->disk_count; i++)
		if (strcmp(r->disks[i].model, r->disks[0].model) != 0)
			model = "mixed disks";
	snprintf(cell->stack, sizeof(cell->stack), run->layout->is_pool ? "pool" : "array");
	snprintf(cell->layout, sizeof(cell->layout), "%s", run->name);
	snprintf(cell->road, sizeof(cell->road), "library");
	snprintf(cell->fs, sizeof(cell->fs), "none");
	snprintf(cell->disks, sizeof(cell->disks), "%ux %.50s", run->disk_count, model);
	snprintf(cell->test, sizeof(cell->test), "%s", w->test);
	snprintf(cell->compression, sizeof(cell->compression), "%s", run->layout->compression);
	snprintf(cell->clock, sizeof(cell->clock), "%s", run->clock);
	snprintf(cell->state, sizeof(cell->state), "healthy");
	payload_name(&w->payload, cell->payload);
	cell->block_bytes = w->block_bytes;
	cell->depth = w->depth;
	cell->jobs = w->jobs;
}

static void facts_set(const struct layout_run *run, struct cell *cell)
{
	snprintf(cell->clock, sizeof(cell->clock), "%s", run->clock);
	cell->usable_bytes = run->layout->is_pool ? run->pool_bytes : layout_capacity_bytes(&run->nominal);
	cell->failures_survived =
		run->layout->is_pool ? run->shape.failures_survived : layout_failures_survived(&run->nominal);
	cell->create_s = run->create_s;
	cell->ready_s = isfinite(run->create_s) ? 0 : NAN; /* rows begin as never written: nothing is initialised */
}

static void option_note(struct cell *cell, const char *text)
{
	char before[sizeof(cell->options)];

	if (!*text || strstr(cell->options, text))
		return;
	memcpy(before, cell->options, sizeof(before));
	snprintf(cell->options, sizeof(cell->options), "%.100s%s%.90s", before, *before ? "; " : "", text);
}

static int cell_run(struct layout_run *run, struct target *target, const struct workload *w, size_t index,
	const char *scaled, struct error *err)
{
	struct compare *c = run->c;
	const struct bench_progress progress = {cli_progress_say, &c->progress};
	struct bench_limit limit = run->limits->of[index];
	struct error reason = ERROR_INIT;
	struct cell cell;
	int status;

	cli_progress_phase(&c->progress, "%s %s %s", run->clock, run->name, w->test);
	run->announced = index + 1;
	if (run->layout->is_pool)
		bench_pool_limit(
			&run->shape, w, run->disk_count, run->limits->stream_read, run->limits->stream_write, &limit);
	else
		limit.model_mb_per_s = model_of(&run->nominal, w, run->limits, index, run->disk_count);
	cell_init(&cell);
	key_set(run, w, &cell);
	status = bench_run(target, w, &limit, &progress, &cell, &reason);
	if (status == ERR_INTERRUPTED)
		return error_set(err, ERR_INTERRUPTED, "interrupted");
	if (status != 0)
		cell_note(&cell, VERDICT_FAILED, "%.190s", reason.text);
	facts_set(run, &cell);
	cell.fill = (double)w->span_bytes / (double)max_of(target->size_bytes, 1ull);
	option_note(&cell, scaled);
	option_note(&cell, run->limits_note ? run->limits_note : "");
	if (w->repeats_max <= 1)
		option_note(&cell, "one phase");
	run->next_test = index + 1;
	return result_add_cell(&c->result, &cell, err);
}

static void payload_set(const struct layout_run *run, struct workload *w)
{
	if (run->layout->ratio > 0) {
		w->payload.kind = PAYLOAD_RATIO;
		w->payload.ratio = run->layout->ratio;
	}
}

/* A layout that could not be made, or a world that broke: its cells say why. */
static int cells_fail(struct layout_run *run, const char *reason, struct error *err)
{
	struct workload *list;
	char scaled[200];
	size_t count;
	int status = compare_tests_make(run->c, run->disk_count, run->c->span_bytes * run->disk_count, run->virtual,
		&list, &count, scaled, err);

	for (size_t i = run->next_test; status == 0 && i < count; i++) {
		struct cell cell;

		payload_set(run, &list[i]);
		if (i >= run->announced)
			cli_progress_phase(&run->c->progress, "%s %s %s", run->clock, run->name, list[i].test);
		cell_init(&cell);
		key_set(run, &list[i], &cell);
		if (run->nominal.disks || run->pool_bytes)
			facts_set(run, &cell);
		cell_note(&cell, VERDICT_FAILED, "%.190s", reason);
		status = result_add_cell(&run->c->result, &cell, err);
	}
	if (status == 0)
		free(list);
	return status;
}

/* The logical bytes that lie on `span_bytes` of each disk. */
static uint64_t logical_span(const struct compare *c, const struct target *t)
{
	double share = (double)c->span_bytes / (double)c->data_bytes;
	uint64_t bytes = (uint64_t)((double)t->size_bytes * share + (double)SPAN_STEP_BYTES / 2);

	bytes = round_down_u64(min_of(bytes, t->size_bytes), SPAN_STEP_BYTES);
	return max_of(bytes, SPAN_STEP_BYTES);
}

static int tests_run(struct layout_run *run, struct target *target, struct error *err)
{
	const struct bench_progress progress = {cli_progress_say, &run->c->progress};
	struct workload *list;
	char scaled[200];
	size_t count;
	int status = compare_tests_make(
		run->c, run->disk_count, logical_span(run->c, target), run->virtual, &list, &count, scaled, err);

	if (status != 0)
		return status;
	count = min_of(count, run->limits->count);
	/* Reads are of what was written. The write test writes its span itself. */
	if (count > 0 && (list[0].read_percent > 0 || list[0].random || run->fresh_disks))
		status = bench_fill(target, &list[0], &progress, err);
	for (size_t i = 0; status == 0 && i < count; i++)
		status = os_interrupted() ? error_set(err, ERR_INTERRUPTED, "interrupted")
					  : cell_run(run, target, &list[i], i, scaled, err);
	free(list);
	return status;
}

#define POOL_RECORD_BYTES (128u << 10)
#define POOL_SMALL_BYTES (8u << 10)

/* Random blocks below a record's size would read and write whole records: who has such work sets small records. */
static bool wants_small_records(const struct workload *w)
{
	return w->random && w->block_bytes < POOL_RECORD_BYTES;
}

/* Random writes run at the rate of streams: by time they would write the volume many times over, and a pool gives the
 * places of a stripe back only when all of it was overwritten (docs/pool.md). Once over is enough to tell. */
static void pool_length_set(const struct layout_run *run, struct workload *w, uint64_t bytes)
{
	if (!run->virtual || run->c->preset)
		return;
	w->lengthen_max = 1;
	if (w->random && w->read_percent == 0) {
		w->duration_ns = 0;
		w->total_bytes = round_down_u64(bytes, w->block_bytes);
	} else if (w->total_bytes)
		w->total_bytes = min_of(w->total_bytes, w->read_percent == 100 ? 2 * bytes : bytes);
}

/* The tests of one record size, on a fresh pool. */
static int pool_tests_run(struct layout_run *run, struct disk *const *disks, bool small, struct error *err)
{
	const struct bench_progress progress = {cli_progress_say, &run->c->progress};
	const struct bench_pool_options options = {.layout = run->name, .cache_bytes = 256ull << 20};
	uint64_t bytes = (uint64_t)((double)run->c->span_bytes * run->disk_count * run->shape.data_share);
	struct bench_pool *pool = NULL;
	struct target *target = NULL;
	struct workload *list = NULL;
	char scaled[200];
	size_t count = 0;
	bool any = false;
	int status;

	bytes = max_of(round_down_u64(bytes, SPAN_STEP_BYTES), (uint64_t)SPAN_STEP_BYTES);
	status = compare_tests_make(run->c, run->disk_count, bytes, run->virtual, &list, &count, scaled, err);
	if (status != 0)
		return status;
	count = min_of(count, run->limits->count);
	for (size_t i = 0; status == 0 && i < count; i++) {
		if (wants_small_records(&list[i]) != small)
			continue;
		payload_set(run, &list[i]);
		pool_length_set(run, &list[i], bytes);
		if (!any) {
			status = bench_pool_open(&options, disks, run->disk_count, &pool, &run->create_s, err);
			status = status ? status
					: bench_pool_volume(pool, bytes, small ? POOL_SMALL_BYTES : POOL_RECORD_BYTES,
						  run->layout->compression, &target, err);
			if (status == 0 && (list[i].read_percent > 0 || list[i].random || run->fresh_disks))
				status = bench_fill(target, &list[i], &progress, err);
			any = true;
		}
		if (status == 0)
			status = os_interrupted() ? error_set(err, ERR_INTERRUPTED, "interrupted")
						  : cell_run(run, target, &list[i], i, scaled, err);
	}
	if (target)
		target_close(target);
	bench_pool_close(pool);
	free(list);
	return status;
}

static int pool_run(struct layout_run *run, struct disk *const *disks, struct error *err)
{
	int status = pool_tests_run(run, disks, false, err);

	return status ? status : pool_tests_run(run, disks, true, err);
}

static int array_run(struct layout_run *run, struct disk *const *disks, struct error *err)
{
	const struct target_array_options options = {.layout = run->name, .chunk_bytes = run->c->chunk_bytes};
	struct target *target;
	int status = target_open_array(&options, disks, run->disk_count, &target, &run->create_s, err);

	if (status == 0) {
		status = tests_run(run, target, err);
		target_close(target);
	}
	return status;
}

static int run_layout(struct layout_run *run, struct disk *const *disks, struct error *err)
{
	struct error reason = ERROR_INIT;
	int status = nominal_make(run, disks, err);

	run->create_s = NAN;
	if (status != 0)
		return status;
	status = run->layout->is_pool ? pool_run(run, disks, &reason) : array_run(run, disks, &reason);
	if (status == ERR_INTERRUPTED || status == ERR_MEMORY)
		return error_set(err, status, "%s", reason.text);
	return status == 0 ? 0 : cells_fail(run, reason.text, err);
}

/* --- virtual clock ------------------------------------------------------------------------------------------------ */

struct world {
	struct compare *c;
	unsigned disk_count;
	struct layout_run *run;           /* either a layout … */
	struct compare_limits_of *limits; /* … or the limits */
	struct error *err;
};

static int world_run(void *arg)
{
	struct world *w = arg;
	const struct disk_open_options options = {.exclusive = true};
	struct disk *disks[LAYOUT_DISKS_MAX] = {NULL};
	unsigned open = 0;
	int status = 0;

	for (; open < w->disk_count && status == 0; open += status == 0)
		status = disk_open(&w->c->disks.specs.items[open], &options, &disks[open], w->err);
	if (status == 0)
		status = compare_disks_note(w->c, disks, open, w->err);
	if (status == 0)
		status = w->run ? run_layout(w->run, disks, w->err)
				: limits_measure(w->c, disks, open, true, w->limits, w->err);
	while (open > 0)
		disk_close(disks[--open]);
	return status;
}

static int world_simulate(struct world *w, struct error *err)
{
	struct os_simulation simulation;

	os_simulation_init(&simulation, w->c->seed);
	simulation.cpus = w->c->cpu_free ? 0 : w->c->cpus;
	memcpy(simulation.costs, w->c->costs, sizeof(simulation.costs));
	w->err = err;
	return os_simulate(&simulation, world_run, w, err);
}

/* Bytes a nanosecond are GB a second. */
static double gb_per_s(const struct os_cost *cost)
{
	return cost->ns_per_kib > 0 ? 1024 / cost->ns_per_kib : NAN;
}

static void charge_note(struct compare *c)
{
	struct result_host *h = &c->result.host;

	h->copy_gb_per_s = gb_per_s(&c->costs[OS_STAGE_COPY]);
	h->checksum_gb_per_s = gb_per_s(&c->costs[OS_STAGE_CHECKSUM]);
	h->parity1_gb_per_s = gb_per_s(&c->costs[OS_STAGE_PARITY1]);
	h->parity2_gb_per_s = gb_per_s(&c->costs[OS_STAGE_PARITY2]);
}

static struct compare_limits_of *limits_of(struct compare_limits *limits, const struct compare *c, unsigned layout)
{
	return compare_disks_of(c, c->layouts[layout].name) == c->disk_count ? &limits->all : &limits->one;
}

static int limits_simulate(struct compare *c, unsigned disks, struct compare_limits_of *of, struct error *err)
{
	struct world measure = {.c = c, .disk_count = disks, .limits = of};

	return of->count == 0 ? world_simulate(&measure, err) : 0;
}

/* First of all disks, so that the cells of `single` know what the others are. */
static int limits_simulate_all(struct compare *c, struct compare_limits *limits, struct error *err)
{
	int status = 0;

	for (unsigned i = 0; status == 0 && i < c->layout_count; i++)
		if (limits_of(limits, c, i) == &limits->all)
			status = limits_simulate(c, c->disk_count, &limits->all, err);
	for (unsigned i = 0; status == 0 && i < c->layout_count; i++)
		if (limits_of(limits, c, i) == &limits->one)
			status = limits_simulate(c, compare_disks_of(c, c->layouts[i].name), &limits->one, err);
	return status;
}

static struct layout_run virtual_run(struct compare *c, struct compare_limits *limits, unsigned layout)
{
	return (struct layout_run){.c = c,
		.layout = &c->layouts[layout],
		.name = c->layouts[layout].name,
		.clock = "virtual",
		.virtual = true,
		.disk_count = compare_disks_of(c, c->layouts[layout].name),
		.limits = limits_of(limits, c, layout)};
}

static int layout_simulate(struct compare *c, void *limits, unsigned layout, struct error *err)
{
	struct layout_run run = virtual_run(c, limits, layout);
	struct world world = {.c = c, .disk_count = run.disk_count, .run = &run};
	struct error reason = ERROR_INIT;
	int status = world_simulate(&world, &reason);

	if (status == ERR_INTERRUPTED)
		return error_set(err, status, "%s", reason.text[0] ? reason.text : "interrupted");
	return status != 0 && reason.code ? cells_fail(&run, reason.text, err)
					  : 0; /* a deadlock, for one: the other layouts go on */
}

static int layout_died(struct compare *c, void *limits, unsigned layout, const char *reason, struct error *err)
{
	struct layout_run run = virtual_run(c, limits, layout);

	return cells_fail(&run, reason, err);
}

int compare_run_virtual(struct compare *c, struct compare_limits *limits, struct error *err)
{
	const struct compare_worlds worlds = {.run = layout_simulate, .died = layout_died, .arg = limits};

	if (!c->cpu_free) {
		bench_cpu_measure(c->costs);
		charge_note(c);
	}
	int status = limits_simulate_all(c, limits, err);
	return status == 0 ? compare_worlds_run(c, &worlds, err) : status;
}

/* --- real clock --------------------------------------------------------------------------------------------------- */

static const char *background_of(const struct compare *c)
{
	return c->all_memory ? "none (memory disks)" : "none of ours";
}

/* What each disk does alone and together with the others goes into the result. Reads only; memory and files are no
 * disks of their own, so only block devices are worth the time. */
static int survey_disks(struct compare *c, struct error *err)
{
	const struct survey_options options = {.seconds_each_ns = SECOND / 2};
	const struct bench_progress progress = {cli_progress_say, &c->progress};
	struct error reason = ERROR_INIT;
	struct survey survey;
	int status;

	for (unsigned i = 0; i < c->disk_count; i++)
		if (!c->disks.specs.items[i].path || !c->disks.facts[i].is_block_device)
			return 0;
	status = survey_run(c->disks.disks, c->disk_count, &options, &progress, &survey, &reason);
	if (status == ERR_INTERRUPTED)
		return error_set(err, status, "interrupted");
	if (status != 0) {
		cli_say("no survey of the disks: %s", reason.text);
		return 0;
	}
	for (size_t i = 0; i < survey.disk_count && i < c->result.disk_count; i++) {
		const struct survey_disk *from = &survey.disks[i];
		struct result_disk *to = &c->result.disks[i];

		to->alone_mb_per_s = from->outer_mb_per_s;
		to->together_mb_per_s = from->together_mb_per_s;
		to->random_iops = from->random_iops;
		to->flush_ms = from->flush_ms;
		to->slow = from->slow;
		if (from->slow)
			cli_say("%s is slow: %.1f MB/s alone", to->name, from->outer_mb_per_s);
	}
	if (survey.bus_bound)
		cli_say("the disks share a limit: %.0f MB/s all together, %.0f MB/s one by one",
			survey.sum_together_mb_per_s, survey.sum_alone_mb_per_s);
	survey_release(&survey);
	return 0;
}

int compare_run_real(struct compare *c, struct compare_limits *limits, struct error *err)
{
	const struct disk_open_options options = {.exclusive = true};
	bool taken = limits_taken_over(c), fresh = true;
	int status = cli_disks_open(&c->disks, &options, err);

	if (!taken)
		*limits = (struct compare_limits){.all = {.count = 0}};
	if (status == 0)
		status = compare_disks_note(c, c->disks.disks, c->disk_count, err);
	if (status == 0)
		status = survey_disks(c, err);
	snprintf(c->result.background, sizeof(c->result.background), "%s", background_of(c));
	for (unsigned i = 0; status == 0 && i < c->layout_count; i++) {
		unsigned disks = compare_disks_of(c, c->layouts[i].name);
		struct compare_limits_of *of = disks == c->disk_count ? &limits->all : &limits->one;
		struct layout_run run = {.c = c,
			.layout = &c->layouts[i],
			.name = c->layouts[i].name,
			.clock = "real",
			.disk_count = disks,
			.limits = of,
			.limits_note = taken ? "limit from the virtual clock" : "",
			.fresh_disks = taken && fresh};

		if (!compare_on_real(c, &c->layouts[i]))
			continue;
		/* Measuring limits writes the span of each disk, so that its memory or blocks are there before a layout's turn. */
		if (of->count == 0)
			status = limits_measure(c, c->disks.disks, disks, false, of, err);
		if (status == 0)
			status = run_layout(&run, c->disks.disks, err);
		fresh = false;
	}
	cli_disks_close(&c->disks);
	return status;
}
