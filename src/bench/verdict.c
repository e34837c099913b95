/*
 * What a figure is worth. Pure: evidence in, notes out, in the words of docs/bench.md. Every note names the figure
 * that decided and the limit it was held against.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define DEVICE_SHARE_MIN 0.9       /* device bytes over logical bytes, below which something else served them */
#define ABOVE_LIMIT 1.05           /* of the disks alone: more is not possible … */
#define ABOVE_LIMIT_COUNTED 1.5    /* … and so much not even when the disks' own counters agree */
#define CACHE_TIMES 2              /* a working set so many times the cache is not served from it */
#define DEVICE_EXCESS 1.25         /* of the bytes asked for, on a target that adds none of its own */
#define DEVICE_WRITES_READING 0.10 /* of the bytes read: a reader writes nothing */
#define IDLE_SHARE 0.02            /* of the device rate under load */
#define OTHERS_CPU 0.10            /* of all CPUs, while all of them are busy … */
#define CPUS_FULL 0.90
#define LATE_SHARE 0.05        /* lateness of modelled disks over their latency */
#define FLUSH_PAIRS_PER_S 2000 /* write and flush on a rotating disk */
#define FLUSH_MS_MIN 0.2
#define SYNC_RANDOM_PER_S 500 /* 15,000 rpm are 250 turns a second */
#define SHORT_MODELLED_S 0.5
#define SHORT_REAL_S 10.0
#define NO_NUMBER_S 0.5
#define HEADROOM 3.0
#define BUSY_FULL 0.95
#define DEVICE_BUSY_MAX 0.80
#define BUS_SHARE 0.9
#define BUS_BLOCK_MIN 65536u
#define SLOW_SHARE 0.8
#define SLOW_LATENCY 10.0
#define SLOW_OPS_MIN 8u
#define FLUSH_MOST 0.5
#define INTERVAL_MAX 0.05
#define BURST_SHARE 1.1 /* of the sustained rate: a final flush that pays a burst back keeps below */
#define EFFICIENCY_LOW 0.6
#define EFFICIENCY_HIGH 1.05

void options_add(struct cell *cell, const char *format, ...)
{
	size_t length = strlen(cell->options);
	char text[200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	snprintf(cell->options + length, sizeof(cell->options) - length, "%s%s", length ? "; " : "", text);
}

static bool is_kind(const struct target *t, const char *kind)
{
	return !strcmp(t->ops->kind, kind);
}

static double share_of(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : NAN;
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static bool is_cold_read(const struct judge *j)
{
	return j->read_bytes > 0 && !j->workload->reread;
}

/* --- is it the disks at all -------------------------------------------------------------------------------------- */

static bool reads_came_from_elsewhere(const struct judge *j)
{
	return j->evidence->traffic.known && j->read_bytes > 0 &&
	       share_of(j->evidence->traffic.read_bytes, j->read_bytes) < DEVICE_SHARE_MIN;
}

static bool writes_went_elsewhere(const struct judge *j)
{
	return j->evidence->traffic.known && j->write_bytes > 0 &&
	       share_of(j->evidence->traffic.write_bytes, j->write_bytes) < DEVICE_SHARE_MIN;
}

static bool payload_shrinks(const struct judge *j)
{
	return j->write_bytes > 0 && j->workload->payload.kind != PAYLOAD_RANDOM;
}

static void judge_cached(const struct judge *j, struct cell *cell)
{
	const struct target *t = j->target;
	const struct workload *w = j->workload;
	const struct target_traffic *device = &j->evidence->traffic;

	if (t->direct_asked && !t->direct_effective)
		cell_note(cell, VERDICT_CACHED,
			"direct I/O is not in effect: the devices moved %.2f of the bytes (wanted %.1f)",
			device->known ? share_of(device->read_bytes + device->write_bytes, j->bytes) : 0.0,
			DEVICE_SHARE_MIN);
	if (reads_came_from_elsewhere(j))
		cell_note(cell, VERDICT_CACHED,
			"%s: the devices delivered %.2f of the bytes read, %.1f would be a read from disks",
			w->reread ? "warm on purpose" : "from a cache", share_of(device->read_bytes, j->read_bytes),
			DEVICE_SHARE_MIN);
	if (is_cold_read(j) && t->cache_bytes && w->span_bytes < CACHE_TIMES * t->cache_bytes)
		cell_note(cell, VERDICT_CACHED,
			"%.2f GB were read again and again through a cache of up to %.2f GB (wanted %u times that)",
			(double)w->span_bytes / 1e9, (double)t->cache_bytes / 1e9, CACHE_TIMES);
	/* Blocks written again before a buffer had passed them on count twice for the caller and once for the disks. */
	uint64_t distinct_bytes = min_of(j->write_bytes, w->span_bytes);
	if (writes_went_elsewhere(j) && distinct_bytes < j->write_bytes && !payload_shrinks(j) &&
		share_of(device->write_bytes, distinct_bytes) >= DEVICE_SHARE_MIN)
		cell_note(cell, VERDICT_CACHED,
			"overwritten in a buffer: the disks wrote %.2f of the bytes (wanted %.1f), each block once",
			share_of(device->write_bytes, j->write_bytes), DEVICE_SHARE_MIN);
	if (w->random && j->write_bytes && j->limit->alone_mb_per_s > 0 &&
		cell->mb_per_s > ABOVE_LIMIT_COUNTED * j->limit->alone_mb_per_s && !writes_went_elsewhere(j))
		cell_note(cell, VERDICT_CACHED,
			"a buffer put the writes in order: %.1f times what the disks do with them (limit %.1f) in a "
			"span of %.0f MB",
			cell->mb_per_s / j->limit->alone_mb_per_s, ABOVE_LIMIT_COUNTED, (double)w->span_bytes / 1e6);
	if (w->reread && t->cache_bytes)
		cell_note(cell, VERDICT_CACHED, "warm on purpose: a cache of up to %.2f GB lies between",
			(double)t->cache_bytes / 1e9);
}

static void judge_reduced(const struct judge *j, struct cell *cell)
{
	double share = share_of(j->evidence->traffic.write_bytes, j->write_bytes);
	char name[24];

	payload_name(&j->workload->payload, name);
	if (payload_shrinks(j) && j->target->reduces_data)
		cell_note(cell, VERDICT_DATA_REDUCED,
			"payload %s on a target that compresses: the devices wrote %.2f of it", name,
			j->evidence->traffic.known ? share : NAN);
	else if (writes_went_elsewhere(j) && (payload_shrinks(j) || j->target->reduces_data))
		cell_note(cell, VERDICT_DATA_REDUCED, "the devices wrote %.2f of the %s bytes (wanted %.1f)", share,
			name, DEVICE_SHARE_MIN);
}

static bool is_noted(const struct cell *cell, enum verdict v)
{
	for (unsigned i = 0; i < cell->note_count; i++)
		if (cell->notes[i].verdict == v)
			return true;
	return false;
}

/* After the two above: what they explain is possible. */
static void judge_impossible(const struct judge *j, struct cell *cell)
{
	const struct bench_limit *limit = j->limit;
	double rate = cell->mb_per_s;
	bool explained = is_noted(cell, VERDICT_CACHED) || is_noted(cell, VERDICT_DATA_REDUCED);

	if (limit->link_mb_per_s > 0 && rate > limit->link_mb_per_s * ABOVE_LIMIT)
		cell_note(cell, VERDICT_IMPOSSIBLE, "%.1f MB/s over a link that carries %.1f MB/s", rate,
			limit->link_mb_per_s);
	if (writes_went_elsewhere(j) && !explained)
		cell_note(cell, VERDICT_IMPOSSIBLE,
			"the target claims more than its disks moved: %.1f MB said to be written, %.1f MB on the disks",
			(double)j->write_bytes / 1e6, (double)j->evidence->traffic.write_bytes / 1e6);
	if (explained || !(limit->alone_mb_per_s > 0) || !(rate > limit->alone_mb_per_s * ABOVE_LIMIT))
		return;
	/* Counters that agree say that the limit was measured elsewhere on the disks, or that mirrors chose the nearer
	 * copy. */
	bool counted = j->evidence->traffic.known && !reads_came_from_elsewhere(j) && !writes_went_elsewhere(j);
	if (!counted || rate > limit->alone_mb_per_s * ABOVE_LIMIT_COUNTED)
		cell_note(cell, VERDICT_IMPOSSIBLE, "%.1f MB/s, but all disks together, each alone, gave %.1f MB/s",
			rate, limit->alone_mb_per_s);
}

/* --- who else was there ------------------------------------------------------------------------------------------ */

static void judge_background(const struct judge *j, struct cell *cell)
{
	const struct evidence *e = j->evidence;
	const struct target *t = j->target;
	double device_rate =
		e->elapsed_ns ? (double)(e->traffic.read_bytes + e->traffic.write_bytes) / seconds(e->elapsed_ns) : 0;

	if (e->resync[0])
		cell_note(cell, VERDICT_BACKGROUND, "the kernel rebuilds or checks an array: %s", e->resync);
	if (e->idle_bytes_per_s > IDLE_SHARE * device_rate && e->idle_bytes_per_s > 0)
		cell_note(cell, VERDICT_BACKGROUND,
			"the devices moved %.2f MB/s while the bench did nothing, over %.0f %% of the %.1f MB/s under "
			"test",
			e->idle_bytes_per_s / 1e6, IDLE_SHARE * 100, device_rate / 1e6);

	bool adds_nothing = is_kind(t, "disk") || is_kind(t, "disks") || is_kind(t, "block");
	uint64_t moved = e->traffic.read_bytes + e->traffic.write_bytes, asked = j->read_bytes + j->write_bytes;
	if (e->traffic.known && adds_nothing && moved > DEVICE_EXCESS * (double)asked + 1e6)
		cell_note(cell, VERDICT_BACKGROUND,
			"the device moved %.2f times the bytes that were asked for (limit %.2f)",
			share_of(moved, asked), DEVICE_EXCESS);
	else if (e->traffic.known && j->write_bytes == 0 && !is_kind(t, "file") && !is_kind(t, "directory") &&
		 e->traffic.write_bytes > DEVICE_WRITES_READING * (double)j->read_bytes + 1e6)
		cell_note(cell, VERDICT_BACKGROUND, "%.1f MB were written to the devices during a test that only reads",
			(double)e->traffic.write_bytes / 1e6);

	double busy = share_of(e->system_busy_ns, e->system_total_ns);
	double others = share_of(e->system_busy_ns - min_of(e->system_busy_ns, e->process_ns), e->system_total_ns);
	/* Where modelled disks are the bottleneck, whether others kept them from their pace is told by lateness, below.
	 */
	bool paced = t->disk_count > 0 && target_is_modelled(t) && disk_traits(t->disks[0])->is_modelled &&
		     evidence_device_busy(e) >= DEVICE_BUSY_MAX;
	if (!os_is_simulated() && !paced && seconds(e->elapsed_ns) >= NO_NUMBER_S && busy > CPUS_FULL &&
		others > OTHERS_CPU)
		cell_note(cell, VERDICT_BACKGROUND, "other programs took %.0f %% of %u CPUs that were %.0f %% busy",
			others * 100, e->cpus, busy * 100);

	uint64_t late = 0, latency = 0;
	for (unsigned i = 0; i < e->disk_count; i++) {
		late += e->disks[i].late_ns;
		latency += e->disks[i].latency_ns;
	}
	if (latency && (double)late > LATE_SHARE * (double)latency)
		cell_note(cell, VERDICT_BACKGROUND,
			"this machine paced the modelled disks %.0f %% too late (limit %.0f %%)",
			share_of(late, latency) * 100, LATE_SHARE * 100);
}

/* --- are the disks honest, healthy and alike --------------------------------------------------------------------- */

static void judge_flush(const struct judge *j, struct cell *cell)
{
	const struct evidence *e = j->evidence;
	const struct target *t = j->target;
	const struct workload *w = j->workload;

	if (j->write_bytes == 0 || !target_is_rotating(t))
		return;
	double pairs_per_s = j->elapsed_ns ? (double)j->flush_count / seconds(j->elapsed_ns) : 0;
	unsigned disks = max_of(t->disk_count, 1u);
	if (pairs_per_s > (double)FLUSH_PAIRS_PER_S * disks)
		cell_note(cell, VERDICT_FLUSH_LIE,
			"%.0f writes with a flush a second on %u rotating disk%s (at most %u each)", pairs_per_s, disks,
			disks == 1 ? "" : "s", FLUSH_PAIRS_PER_S);
	else if (w->random && j->flush_count && w->flush_every_bytes <= w->block_bytes && w->depth * w->jobs == 1 &&
		 disks == 1 && pairs_per_s > SYNC_RANDOM_PER_S)
		cell_note(cell, VERDICT_FLUSH_LIE,
			"%.0f random synchronous writes a second, more than a disk has turns (limit %u)", pairs_per_s,
			SYNC_RANDOM_PER_S);
	for (unsigned i = 0; i < e->disk_count; i++) {
		const struct evidence_disk *d = &e->disks[i];
		const struct disk_traits *traits = disk_traits(t->disks[i]);
		if (!traits->rotating || !traits->needs_flush || !d->flushes || d->writes < d->flushes / 4 ||
			!d->write_bytes)
			continue;
		double flush_ms = (double)d->flush_ns / (double)d->flushes / 1e6;
		if (flush_ms < FLUSH_MS_MIN)
			cell_note(cell, VERDICT_FLUSH_LIE,
				"%.60s: flush probably not honoured: %.3f ms after writes on a rotating disk (at least "
				"%.1f)",
				traits->name, flush_ms, FLUSH_MS_MIN);
	}
	if (e->disk_count == 0 && j->flush_count && j->flush_median_ns < FLUSH_MS_MIN * 1e6)
		cell_note(cell, VERDICT_FLUSH_LIE,
			"flush probably not honoured: %.3f ms after a write on a rotating disk (at least %.1f)",
			(double)j->flush_median_ns / 1e6, FLUSH_MS_MIN);
}

static double median_latency(const struct evidence *e)
{
	double values[256];
	unsigned count = 0;

	for (unsigned i = 0; i < e->disk_count && count < array_count(values); i++)
		if (e->disks[i].ops >= SLOW_OPS_MIN)
			values[count++] = (double)e->disks[i].latency_ns / (double)e->disks[i].ops;
	return count >= 2 ? stats_median(values, count) : NAN;
}

static void judge_slow_disk(const struct judge *j, struct cell *cell)
{
	const struct evidence *e = j->evidence;
	const struct target *t = j->target;

	if (t->disk_count < 2)
		return;
	if (j->limit->slowest_share > 0 && j->limit->slowest_share < SLOW_SHARE)
		cell_note(cell, VERDICT_SLOW_DISK, "%.140s of the median of the disks (limit %.1f)", j->limit->slow_names,
			SLOW_SHARE);
	double median = median_latency(e);
	for (unsigned i = 0; i < e->disk_count; i++) {
		double latency =
			e->disks[i].ops >= SLOW_OPS_MIN ? (double)e->disks[i].latency_ns / (double)e->disks[i].ops : 0;
		if (median > 0 && latency >= SLOW_LATENCY * median)
			cell_note(cell, VERDICT_SLOW_DISK,
				"%.80s answers in %.1f ms, the median of the disks in %.1f ms (limit %.0f times)",
				disk_traits(t->disks[i])->name, latency / 1e6, median / 1e6, SLOW_LATENCY);
	}
}

static void judge_bus(const struct judge *j, struct cell *cell)
{
	double share = j->limit->mb_per_s / j->limit->alone_mb_per_s;

	/* Small random blocks cannot fill a bus, and their rates scatter more than the rule allows. */
	if (j->workload->random && j->workload->block_bytes < BUS_BLOCK_MIN)
		return;
	if (j->target->disk_count >= 2 && share < BUS_SHARE)
		cell_note(cell, VERDICT_BUS_BOUND,
			"all disks together give %.1f MB/s, each alone in sum %.1f MB/s: %.2f (limit %.1f)",
			j->limit->mb_per_s, j->limit->alone_mb_per_s, share, BUS_SHARE);
}

/* --- was it the bench, or its computer --------------------------------------------------------------------------- */

static void judge_tool(const struct judge *j, struct cell *cell)
{
	if (is_kind(j->target, "null"))
		cell_note(cell, VERDICT_TOOL_BOUND,
			"a target that does nothing: %.0f MB/s is the ceiling of the bench itself", cell->mb_per_s);
	else if (j->ceiling_mb_per_s > 0 && j->ceiling_mb_per_s < HEADROOM * cell->mb_per_s)
		cell_note(cell, VERDICT_TOOL_BOUND,
			"the bench alone gets %.1f MB/s for this workload%s, %.2f times the result (wanted %.0f)",
			j->ceiling_mb_per_s,
			payload_shrinks(j) && j->workload->payload.kind == PAYLOAD_TEXT ? " with its text" : "",
			j->ceiling_mb_per_s / cell->mb_per_s, HEADROOM);
}

static void judge_cpu(const struct judge *j, struct cell *cell)
{
	const struct evidence *e = j->evidence;
	double device = evidence_device_busy(e);
	/* What runs in the kernel is not in our own time: there all counts, unless others are known to be about. */
	bool by_kernel = !strcmp(j->target->road, "mount") || is_kind(j->target, "block");
	bool beside_others = by_kernel && is_noted(cell, VERDICT_BACKGROUND);
	double all = beside_others ? 0 : share_of(by_kernel ? e->system_busy_ns : e->process_ns, e->system_total_ns);
	double thread = e->busiest_thread;

	if (is_kind(j->target, "null"))
		return;
	/* One stream in virtual time: the whole data path is one thread at a time. */
	if (os_is_simulated() && j->workload->depth * j->workload->jobs == 1 && e->elapsed_ns)
		thread = share_of(e->process_ns, e->elapsed_ns);
	if (is_kind(j->target, "cpu")) {
		cell_note(cell, VERDICT_CPU_BOUND, "a target of CPU work only: %.2f CPU-s/GB",
			(double)e->process_ns / (double)max_of(j->bytes, 1ull));
		return;
	}
	if (device >= DEVICE_BUSY_MAX)
		return;
	if (thread >= BUSY_FULL)
		cell_note(cell, VERDICT_CPU_BOUND,
			"a thread was %.0f %% busy (limit %.0f %%), the devices at most %.0f %%", thread * 100,
			BUSY_FULL * 100, isnan(device) ? 0 : device * 100);
	else if (all >= BUSY_FULL)
		cell_note(cell, VERDICT_CPU_BOUND,
			"it kept %u CPUs %.0f %% busy (limit %.0f %%), the devices at most %.0f %%", e->cpus, all * 100,
			BUSY_FULL * 100, isnan(device) ? 0 : device * 100);
}

/* --- is there enough of it --------------------------------------------------------------------------------------- */

static void judge_length(const struct judge *j, struct cell *cell)
{
	const struct target *t = j->target;
	bool modelled = target_is_modelled(t) || is_kind(t, "null") || is_kind(t, "cpu");
	double wanted = modelled ? SHORT_MODELLED_S : SHORT_REAL_S;

	if (seconds(j->shortest_ns) < NO_NUMBER_S) {
		cell_note(cell, VERDICT_TOO_SHORT, "%.3f s: too fast to measure (no figure below %.1f s)",
			seconds(j->shortest_ns), NO_NUMBER_S);
		cell->mb_per_s = cell->iops = cell->efficiency = cell->interval[0] = cell->interval[1] = NAN;
		cell->sample_count = 0;
	} else if (seconds(j->elapsed_ns) < wanted) {
		cell_note(cell, VERDICT_TOO_SHORT, "%.1f s on %s disks (wanted %.1f)", seconds(j->elapsed_ns),
			modelled ? "modelled" : "real", wanted);
	}
}

static void judge_steady(const struct judge *j, struct cell *cell)
{
	const struct steady *s = j->steady;

	if (j->final_flush_share > FLUSH_MOST)
		cell_note(cell, VERDICT_NOT_STEADY,
			"burst %.1f MB/s, sustained %.1f MB/s: %.0f %% of the time was the final flush (limit %.0f %%)",
			j->burst_mb_per_s, cell->mb_per_s, j->final_flush_share * 100, FLUSH_MOST * 100);
	else if (s->step && cell->mb_per_s > BURST_SHARE * s->sustained)
		cell_note(cell, VERDICT_NOT_STEADY, "burst %.1f MB/s, sustained %.1f MB/s: a step to %.2f (limit 0.50)",
			s->burst, s->sustained, s->sustained / s->burst);
	else if (!s->steady)
		cell_note(cell, VERDICT_NOT_STEADY,
			"last five rounds: range %.0f %% of the mean (limit 20), slope %.0f %% (limit 10)",
			s->range * 100, fabs(s->slope) * 100);

	double middle = j->interval_from_windows ? cell->mb_per_s : stats_median(cell->samples, cell->sample_count);
	double half = (cell->interval[1] - cell->interval[0]) / 2;
	if (isnan(half))
		cell_note(cell, VERDICT_UNSTABLE, "one sample: nothing says how far it can be trusted");
	else if (half > INTERVAL_MAX * middle)
		cell_note(cell, VERDICT_UNSTABLE,
			"95 %% interval of the %s %.1f to %.1f MB/s over %u %s: \u00b1%.1f %% (limit 5)",
			j->interval_from_windows ? "mean" : "median", cell->interval[0], cell->interval[1],
			cell->sample_count, j->interval_from_windows ? "windows" : "repeats", half / middle * 100);
}

static void explain_efficiency(const struct judge *j, struct cell *cell)
{
	const struct target_traffic *device = &j->evidence->traffic;

	if (isnan(cell->efficiency) || (cell->efficiency >= EFFICIENCY_LOW && cell->efficiency <= EFFICIENCY_HIGH))
		return;
	double amplification = device->known ? share_of(device->read_bytes + device->write_bytes, j->bytes) : NAN;
	if (cell->verdict != VERDICT_VALID)
		options_add(cell, "efficiency %.2f: see %s", cell->efficiency, verdict_names[cell->verdict]);
	else if (cell->efficiency > EFFICIENCY_HIGH)
		options_add(cell,
			"efficiency %.2f: the disks did this, the model is a first order one (nearer copies, zones, "
			"queueing)",
			cell->efficiency);
	else if (amplification > 1.5)
		options_add(cell, "efficiency %.2f: the devices moved %.1f bytes for each byte", cell->efficiency,
			amplification);
	else
		options_add(cell, "efficiency %.2f: the devices were %.0f %% busy at depth %u", cell->efficiency,
			evidence_device_busy(j->evidence) * 100, j->workload->depth * j->workload->jobs);
}

void verdict_judge(const struct judge *j, struct cell *cell)
{
	cell->limit_mb_per_s = j->limit->mb_per_s;
	cell->model_mb_per_s = j->limit->model_mb_per_s;
	double held_against = cell->model_mb_per_s > 0 ? cell->model_mb_per_s : cell->limit_mb_per_s;
	cell->efficiency = held_against > 0 ? cell->mb_per_s / held_against : NAN;

	judge_cached(j, cell);
	judge_reduced(j, cell);
	judge_impossible(j, cell);
	judge_background(j, cell);
	judge_flush(j, cell);
	if (strcmp(j->target->state ? j->target->state : "healthy", "healthy"))
		cell_note(cell, VERDICT_DEGRADED, "the target is %s", j->target->state);
	judge_tool(j, cell);
	judge_cpu(j, cell);
	judge_bus(j, cell);
	judge_slow_disk(j, cell);
	judge_steady(j, cell);
	judge_length(j, cell);
	if (cell->note_count == 0 && !(cell->limit_mb_per_s > 0))
		cell_note(
			cell, VERDICT_UNSTABLE, "no limit: nothing says what the devices can give with this workload");
	if (cell->note_count == 0)
		cell_note(cell, VERDICT_VALID, "no rule is broken");
	explain_efficiency(j, cell);
}
