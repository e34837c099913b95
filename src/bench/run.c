/*
 * bench: one cell of the table, from a workload on a target to a figure with its verdict.
 *
 * The problem. Nearly every published figure of a storage benchmark is wrong in one of a dozen known ways: the data
 * were zeros, the reads came from RAM, the run was over before the write cache was full, the tool was slower than the
 * disks, one slow disk set the pace, something else was running. None of it shows in the figure.
 *
 * The idea. The bench keeps, beside each figure, what would give such a mistake away, and judges by rule:
 *
 *     idle ─▶ [ drop cache ─▶ mark ─▶ phase ─▶ mark ─▶ verify ] ─▶ ceiling ─▶ judge
 *      │           └───── again, or longer, until the interval is narrow ─┘   │     │
 *      └ what moves while                             the bench on a target ┘        └ verdict.c
 *        nothing should                               that does nothing
 *
 * Rules
 *   BENCH-1  No figure without its evidence; no figure at all from a failed phase or one under 0.5 s.
 *   BENCH-2  What was written is read back in samples after each phase, outside the measured time.
 *   BENCH-3  The final flush is inside the measured time.
 *   BENCH-4  Everything works in both worlds: time, threads and chance come through os.
 *
 * Example: a stripe of four disks of 55 MB/s written sequentially. The limit, the four disks side by side, was 219
 * MB/s; the phase wrote 256 MiB in 1.24 s including the flush, 216.5 MB/s; the disks' counters grew by 256.1 MiB; the
 * ten windows lie within 3 %: VALID, efficiency 0.99.
 *
 * Sources: docs/bench.md names those of each rule.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define WINDOWS_MIN 6u
#define WINDOWS_MAX 30u
#define OPS_PER_WINDOW 4u
/* Buffered random writes go out in batches, each with its reads, log and writes. */
#define BATCH_WINDOW_NS 1000000000u
#define RANDOM_OPS_PER_WINDOW 64u /* small random operations scatter */
#define CEILING_NS 20000000u
#define CEILING_WORTH_S 0.1
#define REPEATS_MOST 10u
#define ZONE_BLOCK_BYTES (1ull << 20) /* blocks so large take as long as their zone makes them */

/* All phases of one cell. */
struct cell_run {
	struct target *target;
	const struct workload *workload;
	struct workload longer; /* what `workload` is once it was lengthened */
	struct cell *cell;
	struct phase phase;
	struct evidence evidence;
	struct histogram *latency, *flush_latency;
	uint64_t ops, bytes, read_bytes, write_bytes, flush_count, elapsed_ns, shortest_ns;
	struct phase_result last; /* the windows are of the last phase */
	bool has_last, interrupted;
	double samples[REPEATS_MOST];
	unsigned sample_count;
	double burst, sustained; /* of a phase that began with a burst; 0: none did */
};

static double rate_of(const struct phase_result *r)
{
	return r->elapsed_ns ? (double)r->bytes / (double)r->elapsed_ns * 1000 : 0;
}

static void set_key(struct cell_run *run)
{
	struct cell *c = run->cell;
	const struct workload *w = run->workload;

	if (!c->test[0])
		snprintf(c->test, sizeof(c->test), "%s", w->test);
	if (!c->road[0])
		snprintf(c->road, sizeof(c->road), "%s", run->target->road);
	payload_name(&w->payload, c->payload);
	c->block_bytes = w->block_bytes;
	c->depth = w->depth;
	c->jobs = w->jobs;
	snprintf(c->clock, sizeof(c->clock), "%s", os_is_simulated() ? "virtual" : "real");
	if (isnan(c->fill))
		c->fill =
			(double)(w->span_offset_bytes + w->span_bytes) / (double)max_of(run->target->size_bytes, 1ull);
	c->usable_bytes = run->target->size_bytes;
	c->failures_survived = run->target->failures_survived;
}

static void ask_state(struct cell_run *run)
{
	if (run->target->ops->refresh)
		run->target->ops->refresh(run->target);
	snprintf(run->cell->state, sizeof(run->cell->state), "%s", run->target->state ? run->target->state : "healthy");
}

/* --- phases ------------------------------------------------------------------------------------------------------ */

static void add_phase(struct cell_run *run, struct phase_result *r)
{
	run->ops += r->ops;
	run->bytes += r->bytes;
	run->read_bytes += r->read_bytes;
	run->write_bytes += r->write_bytes;
	run->flush_count += r->flush_count;
	run->elapsed_ns += r->elapsed_ns;
	run->shortest_ns = run->has_last ? min_of(run->shortest_ns, r->elapsed_ns) : r->elapsed_ns;
	run->evidence.busiest_thread = fmax(run->evidence.busiest_thread, r->busiest_worker);
	histogram_merge(run->latency, r->latency);
	histogram_merge(run->flush_latency, r->flush_latency);
	if (run->sample_count < REPEATS_MOST)
		run->samples[run->sample_count++] = rate_of(r);
	if (run->has_last)
		phase_result_release(&run->last);
	run->last = *r;
	run->has_last = true;
}

static int drop_cache(struct cell_run *run, struct error *err)
{
	struct target *t = run->target;

	return t->ops->drop_cache ? t->ops->drop_cache(t, err) : 0;
}

/* 1 when the cell has failed and says so. */
static int run_once(struct cell_run *run, struct error *err)
{
	struct phase_result r;
	struct evidence_mark *before = NULL;
	struct error failure = ERROR_INIT;

	ask_state(run);
	if (run->workload->cold && drop_cache(run, &failure) < 0) {
		cell_note(run->cell, VERDICT_FAILED, "%.190s", failure.text);
		return 1;
	}
	if (!run->has_last)
		evidence_idle(run->target, &run->evidence);
	int status = evidence_begin(run->target, &before, err);
	if (status < 0)
		return status;
	status = phase_run(&run->phase, &r, err);
	evidence_end(run->target, before, &run->evidence);
	if (status < 0)
		return status;
	ask_state(run);
	run->interrupted = r.interrupted || os_interrupted();
	failure = r.failure;
	if (failure.code == 0 && r.write_bytes > 0 && !run->interrupted && drop_cache(run, &failure) == 0)
		phase_verify(&run->phase, &r, &failure);
	if (failure.code != 0) {
		cell_note(run->cell, VERDICT_FAILED, "%.190s", failure.text);
		phase_result_release(&r);
		return 1;
	}
	add_phase(run, &r);
	return 0;
}

static bool is_narrow(const struct cell_run *run, double wanted)
{
	double interval[2], median = stats_median(run->samples, run->sample_count);

	stats_interval(run->samples, run->sample_count, run->workload->seed, interval);
	return (interval[1] - interval[0]) / 2 <= wanted * median;
}

static void note_burst(struct cell_run *run);
static int run_longer(struct cell_run *run, struct error *err);

static int run_repeats(struct cell_run *run, struct error *err)
{
	const struct workload *w = run->workload;
	unsigned most = min_of(max_of(w->repeats_max, 1u), REPEATS_MOST);
	unsigned least = min_of(max_of(w->repeats_min, 1u), most);
	double wanted = w->interval_wanted > 0 ? w->interval_wanted : 0.05;

	for (unsigned i = 0; i < most && !run->interrupted; i++) {
		int status = run_once(run, err);
		if (status != 0)
			return status;
		note_burst(run);
		if (i + 1 >= least && i + 1 >= 3 && is_narrow(run, wanted))
			break;
	}
	return most == 1 ? run_longer(run, err) : 0;
}

/* --- from phases to a figure ------------------------------------------------------------------------------------- */

static void set_latency(struct cell_run *run)
{
	struct cell *c = run->cell;
	const struct {
		double percentile;
		uint64_t *to;
	} wanted[] = {{50, &c->latency_p50_ns}, {95, &c->latency_p95_ns}, {99, &c->latency_p99_ns},
		{99.9, &c->latency_p999_ns}};

	for (unsigned i = 0; i < array_count(wanted); i++)
		if ((double)histogram_count(run->latency) * (1 - wanted[i].percentile / 100) >= 10 - 1e-6)
			*wanted[i].to = histogram_percentile(run->latency, wanted[i].percentile);
	if (histogram_count(run->latency) > 0)
		c->latency_max_ns = histogram_max(run->latency);
}

#define DEVICE_SHARE_MIN 0.5 /* of the bytes: with less the disks say nothing of the rate */
#define SETTLE_SHARE 0.1     /* of the time of the disks, at both ends: caches fill, and drain with the last marks */
#define BURST_LEAST_NS 200000000u   /* a drive's own cache takes less to fill */
#define DEVICE_WINDOW_NS 150000000u /* thirty looks at the counters */
#define NARROW 0.05
#define LONGER_MARGIN 1.3
#define LONGER_LEAST 2.0 /* times the last */
#define LONGER_MOST 4.0

/* What windows are cut from: what callers saw, or what the disks moved. */
struct window_source {
	const struct timeline *line;
	uint64_t settled_ns, full_ns,
		end_ns; /* all were busy between the first two; nothing happened after the third */
	bool device;
};

struct windows {
	double rates[STEADY_WINDOWS_MAX], positions[STEADY_WINDOWS_MAX];
	double interval[2], rate; /* MB/s, of the phase */
	unsigned count;
	struct steady steady;
};

static struct window_source source_callers(const struct phase_result *r)
{
	uint64_t full_ns = r->full_ns ? min_of(r->full_ns, r->work_ns) : r->work_ns;

	return (struct window_source){.line = &r->timeline, .full_ns = full_ns, .end_ns = r->work_ns};
}

/* Random reads are not read ahead: what callers see is what the disks do. */
static bool source_devices(const struct phase_result *r, const struct workload *w, struct window_source *ret)
{
	if (r->device_bytes < DEVICE_SHARE_MIN * (double)r->bytes || !r->device_end_ns ||
		(w->random && w->read_percent == 100))
		return false;
	*ret = (struct window_source){.line = &r->device_timeline,
		.settled_ns = (uint64_t)(SETTLE_SHARE * (double)r->device_end_ns),
		.full_ns = (uint64_t)((1 - SETTLE_SHARE) * (double)r->device_end_ns),
		.end_ns = r->device_end_ns,
		.device = true};
	return true;
}

static unsigned window_count(const struct workload *w, const struct window_source *from, uint64_t ops)
{
	unsigned each = w->random && w->block_bytes < ZONE_BLOCK_BYTES ? RANDOM_OPS_PER_WINDOW : OPS_PER_WINDOW;
	uint64_t count = ops / each;
	if (from->device) /* disks work in smaller pieces than callers: time alone sets how many windows there can be */
		count = (from->full_ns - from->settled_ns) / (w->random ? BATCH_WINDOW_NS : DEVICE_WINDOW_NS);
	return (unsigned)max_of(min_of(count, (uint64_t)WINDOWS_MAX), (uint64_t)WINDOWS_MIN);
}

/* Behind a burst into a cache, scaled so that their mean is the rate of the phase, without the slope of zones. */
static void windows_cut(const struct cell_run *run, const struct window_source *from, struct windows *ret)
{
	const struct phase_result *r = &run->last;
	const struct workload *w = run->workload;
	bool zones = target_is_rotating(run->target) && (!w->random || w->block_bytes >= ZONE_BLOCK_BYTES);
	double sum = 0, ignored[STEADY_WINDOWS_MAX];

	ret->rate = rate_of(r);
	unsigned fine = (unsigned)min_of(max_of(r->ops / 2, (uint64_t)WINDOWS_MIN), (uint64_t)STEADY_WINDOWS_MAX);
	unsigned burst_least =
		from->device ? (unsigned)(fine * (double)BURST_LEAST_NS / (double)max_of(from->full_ns, 1ull)) + 1 : 1;
	timeline_windows(from->line, 0, from->full_ns, from->end_ns, fine, ret->rates, ignored);
	steady_step(ret->rates, fine, burst_least, &ret->steady);
	uint64_t from_ns = ret->steady.step ? (uint64_t)(ret->steady.at * (double)from->full_ns) : 0;
	from_ns = max_of(from_ns, from->settled_ns);

	ret->count = window_count(w, from, r->ops);
	timeline_windows(from->line, from_ns, from->full_ns, from->end_ns, ret->count, ret->rates, ret->positions);
	if (from->device) { /* disks do not say where in the target their bytes belong; callers were there just before
			     */
		uint64_t to_ns = min_of(from->full_ns, r->work_ns);
		timeline_windows(
			&r->timeline, min_of(from_ns, to_ns), to_ns, r->work_ns, ret->count, ignored, ret->positions);
	}
	for (unsigned i = 0; i < ret->count; i++)
		sum += ret->rates[i];
	for (unsigned i = 0; i < ret->count && sum > 0; i++)
		ret->rates[i] *= rate_of(r) * ret->count / sum;

	double flat[STEADY_WINDOWS_MAX], rounds[STEADY_ROUNDS];
	memcpy(flat, ret->rates, ret->count * sizeof(flat[0]));
	if (zones)
		steady_flatten(flat, ret->positions, ret->count);
	stats_interval_mean(flat, ret->count, w->seed, ret->interval);
	steady_judge(rounds, steady_rounds(flat, ret->count, rounds), &ret->steady);
}

static double half_width(const struct windows *w)
{
	return (w->interval[1] - w->interval[0]) / 2 / w->rate;
}

static bool windows_are_good(const struct windows *w)
{
	return w->steady.steady && !w->steady.step && half_width(w) <= NARROW;
}

/*
 * Windows of the last phase. A rate that callers see steady is steady. Where a write-back buffer or read-ahead lies
 * between, callers see bursts and gaps although the disks never rest: then what the disks moved counts.
 */
static void windows_choose(const struct cell_run *run, struct windows *ret)
{
	struct window_source callers = source_callers(&run->last), devices;

	windows_cut(run, &callers, ret);
	if (!windows_are_good(ret) && source_devices(&run->last, run->workload, &devices))
		windows_cut(run, &devices, ret);
}

/* The first of several phases may have filled a cache that the others found full. */
static void note_burst(struct cell_run *run)
{
	struct windows windows;

	windows_choose(run, &windows);
	if (windows.steady.step && windows.steady.burst > run->burst) {
		run->burst = windows.steady.burst;
		run->sustained = windows.steady.sustained;
	}
}

static void set_windows(struct cell_run *run, struct steady *ret_steady)
{
	struct windows windows;

	windows_choose(run, &windows);
	*ret_steady = windows.steady;
	if (run->sample_count > 1)
		return;
	memcpy(run->cell->samples, windows.rates, windows.count * sizeof(windows.rates[0]));
	run->cell->sample_count = windows.count;
	memcpy(run->cell->interval, windows.interval, sizeof(windows.interval));
}

/* What was measured so far counts no more. What stood still before it does. */
static int forget(struct cell_run *run, struct error *err)
{
	double idle_bytes_per_s = run->evidence.idle_bytes_per_s;
	char resync[sizeof(run->evidence.resync)];

	memcpy(resync, run->evidence.resync, sizeof(resync));
	evidence_release(&run->evidence);
	histogram_free(run->latency);
	histogram_free(run->flush_latency);
	run->latency = run->flush_latency = NULL;
	run->ops = run->bytes = run->read_bytes = run->write_bytes = run->flush_count = run->elapsed_ns = 0;
	run->sample_count = 0;
	int status = evidence_init(&run->evidence, run->target, err);
	if (status == 0)
		status = histogram_create(&run->latency, err);
	if (status == 0)
		status = histogram_create(&run->flush_latency, err);
	run->evidence.idle_bytes_per_s = idle_bytes_per_s;
	memcpy(run->evidence.resync, resync, sizeof(resync));
	return status;
}

/* How much longer a phase must be for its windows to agree: what scatters shrinks with the root of the time. */
static double longer_by(const struct windows *w)
{
	double off = half_width(w) / NARROW;

	off = fmax(off, fmax(w->steady.range / STEADY_RANGE_MAX, fabs(w->steady.slope) / STEADY_SLOPE_MAX));
	return fmin(fmax(LONGER_MARGIN * off * off, LONGER_LEAST), LONGER_MOST);
}

/* A phase too short for what the target does in bursts, or for large random blocks, is run again as one longer phase.
 */
static int run_longer(struct cell_run *run, struct error *err)
{
	const struct workload *asked = run->workload;
	double times = 1, most = asked->lengthen_max;
	struct windows windows;
	int status = 0;

	while (status == 0 && run->has_last && !run->interrupted && times < most) {
		windows_choose(run, &windows);
		if (windows_are_good(&windows))
			break;
		times = fmin(times * longer_by(&windows), most);
		run->longer = *asked;
		run->longer.total_bytes = (uint64_t)(times * (double)asked->total_bytes);
		run->longer.duration_ns = (uint64_t)(times * (double)asked->duration_ns);
		run->longer.minimum_ns = (uint64_t)(times * (double)asked->minimum_ns);
		run->workload = run->phase.workload = &run->longer;
		status = forget(run, err);
		if (status == 0)
			status = run_once(run, err);
	}
	if (times > 1 && status == 0)
		options_add(run->cell, "phase %.1f times as long", times);
	return status;
}

/* The share of the phase in which neither callers nor disks moved anything: only the final flush was waited for. */
static double quiet_flush_share(const struct phase_result *r, const struct workload *w)
{
	struct window_source devices;
	uint64_t busy_ns = r->work_ns;

	if (source_devices(r, w, &devices))
		busy_ns = max_of(busy_ns, devices.end_ns);
	return r->elapsed_ns > busy_ns ? (double)(r->elapsed_ns - busy_ns) / (double)r->elapsed_ns : 0;
}

/* Bytes given over bytes stored. Where nothing but pointers was stored (holes), over what the devices wrote. */
static double compress_ratio(const struct cell_run *run)
{
	const struct target_traffic *t = &run->evidence.traffic;
	uint64_t stored = t->stored_bytes ? t->stored_bytes : t->write_bytes;

	return stored ? (double)run->write_bytes / (double)stored : NAN;
}

static void set_values(struct cell_run *run, struct steady *ret_steady)
{
	struct cell *c = run->cell;
	const char *kind = run->target->ops->kind;
	bool by_kernel = !strcmp(kind, "file") || !strcmp(kind, "directory") || !strcmp(kind, "block");

	set_windows(run, ret_steady);
	if (run->sample_count > 1) {
		memcpy(c->samples, run->samples, run->sample_count * sizeof(run->samples[0]));
		c->sample_count = run->sample_count;
		stats_interval(c->samples, c->sample_count, run->workload->seed, c->interval);
	}
	c->mb_per_s = run->sample_count > 1 ? stats_median(run->samples, run->sample_count) : rate_of(&run->last);
	c->iops = c->mb_per_s * 1e6 / (double)run->workload->block_bytes;
	c->logical_bytes = run->bytes;
	if (run->evidence.traffic.known) {
		c->device_read_bytes = run->evidence.traffic.read_bytes;
		c->device_write_bytes = run->evidence.traffic.write_bytes;
		if (run->target->reduces_data && run->evidence.traffic.stored_known && run->write_bytes > 0)
			c->compress_ratio = compress_ratio(run);
	}
	c->elapsed_s = (double)run->elapsed_ns / 1e9;
	c->cpu_seconds = (double)(by_kernel ? run->evidence.system_busy_ns : run->evidence.process_ns) / 1e9;
	set_latency(run);
}

/* What the bench reaches for this workload when the target does nothing. In virtual time the bench costs nothing. */
static double measure_ceiling(struct cell_run *run)
{
	struct workload w = *run->workload;
	struct target *null = NULL;
	struct phase_result r;
	double rate = NAN;

	if (os_is_simulated() || !strcmp(run->target->ops->kind, "null") ||
		(double)run->elapsed_ns < CEILING_WORTH_S * 1e9 ||
		target_open_null(run->target->size_bytes, &null, NULL) < 0)
		return NAN;
	w.depth = run->phase.by_disk_queue ? 1 : w.depth;
	w.total_bytes = w.minimum_ns = w.flush_every_bytes = 0;
	w.duration_ns = CEILING_NS;
	struct phase phase = {.target = null, .workload = &w, .pool = run->phase.pool};
	if (phase_run(&phase, &r, NULL) == 0) {
		rate = rate_of(&r);
		phase_result_release(&r);
	}
	target_close(null);
	return rate;
}

static void judge(struct cell_run *run, const struct bench_limit *limit)
{
	struct steady steady = {0};

	set_values(run, &steady);
	const struct phase_result *r = &run->last;
	const struct judge j = {
		.target = run->target,
		.workload = run->workload,
		.limit = limit,
		.evidence = &run->evidence,
		.steady = &steady,
		.ops = run->ops,
		.bytes = run->bytes,
		.read_bytes = run->read_bytes,
		.write_bytes = run->write_bytes,
		.elapsed_ns = run->elapsed_ns,
		.shortest_ns = run->shortest_ns,
		.flush_count = run->flush_count,
		.flush_median_ns = histogram_percentile(run->flush_latency, 50),
		.final_flush_share = quiet_flush_share(r, run->workload),
		.burst_mb_per_s = r->work_ns ? (double)r->bytes / (double)r->work_ns * 1000 : 0,
		.ceiling_mb_per_s = measure_ceiling(run),
		.interval_from_windows = run->sample_count == 1,
	};
	if (run->burst > 0 && !steady.step)
		options_add(
			run->cell, "a first phase began at %.1f MB/s and went on at %.1f", run->burst, run->sustained);
	verdict_judge(&j, run->cell);
}

static int prepare(struct cell_run *run, struct error *err)
{
	const struct workload *w = run->workload;
	struct payload_pool *pool = NULL;

	int status = workload_check(run->target, w, err);
	if (status == 0)
		status = evidence_init(&run->evidence, run->target, err);
	if (status == 0)
		status = histogram_create(&run->latency, err);
	if (status == 0)
		status = histogram_create(&run->flush_latency, err);
	if (status == 0 && w->read_percent < 100)
		status = payload_pool_create(&pool, &w->payload, w->seed, phase_pool_bytes(w), err);
	run->phase.pool = pool;
	if (!os_is_simulated() && !strcmp(run->target->road, "block"))
		evidence_resync("/proc/mdstat", &run->evidence);
	return status;
}

int bench_run(struct target *t, const struct workload *w, const struct bench_limit *limit,
	const struct bench_progress *progress, struct cell *cell, struct error *err)
{
	static const struct bench_limit unknown = {
		.mb_per_s = NAN, .model_mb_per_s = NAN, .alone_mb_per_s = NAN, .slowest_share = NAN};
	struct cell_run run = {.target = t, .workload = w, .cell = cell};

	run.phase =
		(struct phase){.target = t, .workload = w, .by_disk_queue = t->ops->disk != NULL, .progress = progress};
	set_key(&run);
	int status = prepare(&run, err);
	if (status == 0)
		status = run_repeats(&run, err);
	if (status >= 0 && run.has_last && run.bytes > 0 && cell->verdict != VERDICT_FAILED)
		judge(&run, limit ? limit : &unknown);
	if (run.has_last)
		phase_result_release(&run.last);
	evidence_release(&run.evidence);
	histogram_free(run.latency);
	histogram_free(run.flush_latency);
	payload_pool_free(run.phase.pool);
	if (status < 0)
		return status;
	return run.interrupted ? error_set(err, ERR_INTERRUPTED, "%s: interrupted during %s", t->name, w->test) : 0;
}

/* --- filling ----------------------------------------------------------------------------------------------------- */

#define FILL_BLOCK_BYTES (16ull << 20)

static int fill_tail(const struct phase *p, uint64_t from_bytes, uint64_t bytes, struct error *err)
{
	uint64_t pass = os_random_u64();

	payload_stamp(p->pool, 0, from_bytes, bytes, pass);
	return p->target->ops->write(p->target, from_bytes, payload_pool_at(p->pool, 0), bytes, err);
}

int bench_fill(struct target *t, const struct workload *w, const struct bench_progress *progress, struct error *err)
{
	uint64_t align = max_of(t->align_bytes, 1u);
	uint64_t block = round_down_u64(min_of(FILL_BLOCK_BYTES, w->span_bytes), align);
	uint64_t span = round_down_u64(w->span_bytes, align);
	struct phase_result r = {0};
	struct workload fill = {
		.test = "fill",
		.block_bytes = block,
		.depth = 1,
		.jobs = 1,
		.span_offset_bytes = w->span_offset_bytes,
		.span_bytes = span,
		.total_bytes = round_down_u64(span, max_of(block, 1ull)),
		.payload = w->payload,
		.seed = w->seed,
	};
	struct phase p = {.target = t, .workload = &fill, .by_disk_queue = t->ops->disk != NULL, .progress = progress};

	int status = workload_check(t, &fill, err);
	if (status == 0)
		status = payload_pool_create(&p.pool, &fill.payload, fill.seed, phase_pool_bytes(&fill), err);
	if (status == 0)
		status = phase_run(&p, &r, err);
	if (status == 0 && r.failure.code != 0)
		status = error_set(err, r.failure.code, "%s", r.failure.text);
	if (status == 0 && (r.interrupted || os_interrupted()))
		status = error_set(err, ERR_INTERRUPTED, "%s: interrupted while it was filled", t->name);
	phase_result_release(&r);
	if (status == 0 && span % block)
		status = fill_tail(&p, fill.span_offset_bytes + span / block * block, span % block, err);
	payload_pool_free(p.pool);
	return status == 0 ? t->ops->flush(t, err) : status;
}
