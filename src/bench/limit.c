/*
 * The limit of a workload: the same pattern on all disks side by side, without an array between. And each disk alone,
 * which tells a bus that all share (together they give less) from one disk that is slower than its peers.
 *
 * Random patterns keep four requests in flight on each disk, blocks of several MiB one; sequential ones are a stream
 * on each disk. A workload that asks for more in flight gets as many here. All use the same part of each disk, so the
 * same zones: where time forbids the whole of it, its middle.
 *
 * Random writes of moderate blocks pass a write-back buffer in every layout, which puts those that it holds in the order of
 * their places; that can be faster than the disks with the writes as they come. So such writes are measured both ways,
 * and the faster counts: in order, as many at a time as a buffer of a thirty-second of the disks holds, 64 MiB at most.
 *
 * A file or a device that the kernel serves is its own limit, past the page cache: the same blocks, with at least four
 * in flight. It says nothing of the file system's share, but a figure above it is not of the device.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define RANDOM_DEPTH 4u
#define STREAM_BLOCK_BYTES (1ull << 20)
#define LARGE_BLOCK_BYTES (4ull << 20)
#define REAL_CAP_NS 2000000000ull
#define REAL_LEAST_NS 500000000ull
#define ALONE_SHARE 4u /* of the span: alone, a quarter of it, in the middle */
#define ALONE_REAL_NS 200000000ull
#define ALONE_OPS_REAL 16u
#define ALONE_OPS_VIRTUAL 64u
#define VIRTUAL_RANDOM_NS 3000000000ull
#define BUFFER_BYTES (64ull << 20)
#define BUFFER_SHARE 32u
#define BUFFER_GRAIN_BYTES (16ull << 10) /* what a small write takes of it */
#define SORTED_DEPTH 32u
#define SORTED_TIMES 2u
#define SLOW_SHARE 0.8
#define LIMIT_DISKS_MAX 256u

struct limit {
	struct disk *const *disks;
	unsigned count;
	uint64_t span_bytes;
	const struct workload *asked;
	struct target *target;
};

static uint64_t middle_of_span(uint64_t span_bytes, uint64_t part_bytes, uint64_t block_bytes)
{
	return round_down_u64((span_bytes - min_of(part_bytes, span_bytes)) / 2, block_bytes);
}

static void base_workload(const struct limit *l, struct workload *ret)
{
	*ret = *l->asked;
	ret->span_offset_bytes = 0;
	ret->span_bytes = l->span_bytes;
	ret->final_flush = true;
	ret->depth = RANDOM_DEPTH;
	if (!ret->random)
		ret->block_bytes = min_of(ret->block_bytes, STREAM_BLOCK_BYTES);
	else if (ret->block_bytes >= LARGE_BLOCK_BYTES)
		ret->depth = 1;
	ret->depth = max_of(ret->depth, (l->asked->depth * l->asked->jobs + l->count - 1) / l->count);
}

/* Rates of each disk in MB/s. */
static int measure(const struct limit *l, struct disk *const *disks, unsigned count, struct workload *w,
	double *ret_rates, struct error *err)
{
	struct phase_result r;
	struct phase p = {.target = l->target, .workload = w, .job_disks = disks, .by_disk_queue = true};

	w->jobs = count;
	w->test[0] = 0;
	int status = 0;
	if (w->read_percent < 100)
		status = payload_pool_create(
			&p.pool, &w->payload, w->seed, round_up_u64(w->block_bytes, PAYLOAD_UNIT), err);
	if (status == 0)
		status = phase_run(&p, &r, err);
	payload_pool_free(p.pool);
	if (status < 0)
		return status;
	if (r.failure.code != 0)
		status = error_set(err, r.failure.code, "%s", r.failure.text);
	else if (r.interrupted || os_interrupted())
		status = error_set(err, ERR_INTERRUPTED, "interrupted while the limit was measured");
	for (unsigned i = 0; i < count && status == 0; i++) {
		uint64_t ns = r.job_ns[i] + r.final_flush_ns;
		ret_rates[i] = ns ? (double)r.job_bytes[i] / (double)ns * 1000 : 0;
	}
	phase_result_release(&r);
	return status;
}

static int measure_alone(const struct limit *l, double *ret_rates, struct error *err)
{
	for (unsigned i = 0; i < l->count; i++) {
		struct workload w;
		base_workload(l, &w);
		w.minimum_ns = w.duration_ns = 0;
		uint64_t blocks = max_of(w.span_bytes / w.block_bytes, 1ull);
		if (w.random) {
			uint64_t ops = os_is_simulated() ? ALONE_OPS_VIRTUAL : ALONE_OPS_REAL;
			ops = w.block_bytes >= LARGE_BLOCK_BYTES ? (os_is_simulated() ? 4 : 1) : ops;
			w.total_bytes = min_of(ops, blocks) * w.block_bytes;
		} else {
			w.total_bytes = max_of(blocks / ALONE_SHARE, min_of(blocks, 4ull)) * w.block_bytes;
			w.span_offset_bytes = middle_of_span(l->span_bytes, w.total_bytes, w.block_bytes);
			w.span_bytes = w.total_bytes;
			w.duration_ns = os_is_simulated() ? 0 : ALONE_REAL_NS;
		}
		int status = measure(l, &l->disks[i], 1, &w, &ret_rates[i], err);
		if (status < 0)
			return status;
	}
	return 0;
}

static void together_workload(const struct limit *l, double alone_mb_per_s, struct workload *w)
{
	bool simulated = os_is_simulated();

	base_workload(l, w);
	if (w->random) {
		w->total_bytes = l->asked->total_bytes
					 ? max_of(l->asked->total_bytes / l->count, w->block_bytes * RANDOM_DEPTH)
					 : 0;
		if (simulated)
			w->duration_ns = w->duration_ns ? w->duration_ns : VIRTUAL_RANDOM_NS;
		else
			w->duration_ns = min_of(
				w->duration_ns ? w->duration_ns : REAL_CAP_NS, max_of(REAL_CAP_NS, w->minimum_ns));
		w->minimum_ns = min_of(w->minimum_ns, w->duration_ns);
		return;
	}
	/* A whole pass, or where that would take too long as much as there is time for, in the middle. */
	uint64_t cap_ns =
		w->duration_ns && w->duration_ns < REAL_CAP_NS ? max_of(w->duration_ns, REAL_LEAST_NS) : REAL_CAP_NS;
	cap_ns = max_of(cap_ns, max_of(w->minimum_ns, w->duration_ns));
	uint64_t part = w->span_bytes;
	if (!simulated)
		part = min_of(part, (uint64_t)(alone_mb_per_s / 1000 * (double)cap_ns));
	part = max_of(round_down_u64(part, w->block_bytes), w->block_bytes);
	w->span_offset_bytes = middle_of_span(l->span_bytes, part, w->block_bytes);
	w->span_bytes = w->total_bytes = part;
	w->duration_ns = simulated ? 0 : 2 * cap_ns;
	w->minimum_ns = 0;
}

/* Writes of one disk that a buffer over all of them has to put in order at a time. */
static unsigned sorted_at_a_time(const struct limit *l)
{
	uint64_t each = l->target->size_bytes / l->count;
	uint64_t buffer = min_of(BUFFER_BYTES, each * l->count / BUFFER_SHARE);

	return (unsigned)min_of(buffer / max_of(l->asked->block_bytes, BUFFER_GRAIN_BYTES) / l->count,
		l->span_bytes / l->asked->block_bytes);
}

/* The rates with the writes in order, where these are faster. */
static int measure_sorted(const struct limit *l, double *rates, struct error *err)
{
	struct workload w;
	unsigned ahead = sorted_at_a_time(l);
	double sorted[LIMIT_DISKS_MAX], before = 0, after = 0;

	if (!l->asked->random || l->asked->read_percent > 0 || l->asked->block_bytes >= LARGE_BLOCK_BYTES ||
		l->asked->flush_every_bytes || ahead < 2 || l->count > LIMIT_DISKS_MAX)
		return 0;
	base_workload(l, &w);
	w.sort_ahead = ahead;
	w.depth = max_of(w.depth, min_of(ahead, SORTED_DEPTH));
	w.total_bytes = (uint64_t)SORTED_TIMES * ahead * w.block_bytes;
	w.minimum_ns = 0;
	w.duration_ns = os_is_simulated() ? 0 : REAL_CAP_NS;
	int status = measure(l, l->disks, l->count, &w, sorted, err);
	for (unsigned i = 0; i < l->count && status == 0; i++) {
		before += rates[i];
		after += sorted[i];
	}
	if (status == 0 && after > before)
		memcpy(rates, sorted, l->count * sizeof(*rates));
	return status;
}

static double sum_of(const double *rates, unsigned count)
{
	double sum = 0;

	for (unsigned i = 0; i < count; i++)
		sum += rates[i];
	return sum;
}

/* "sdc 0.60, sdd 0.61": all that are slow; what finds no room is counted. */
static void name_slow(const struct limit *l, const double *rates, double median, char *text, size_t bytes)
{
	unsigned left = 0;
	size_t length = 0;

	text[0] = 0;
	for (unsigned i = 0; i < l->count; i++) {
		char one[80];
		int more = snprintf(one, sizeof(one), "%s%.60s %.2f", length ? ", " : "", disk_traits(l->disks[i])->name,
			rates[i] / median);

		if (!(rates[i] < SLOW_SHARE * median))
			continue;
		if (length + (size_t)more + sizeof(" and 999 more") > bytes)
			left++;
		else
			length += (size_t)snprintf(text + length, bytes - length, "%s", one);
	}
	if (left)
		snprintf(text + length, bytes - length, " and %u more", left);
}

/* By `rates`; how fast the slowest is with the others at work is in `together`. */
static void name_slowest(const struct limit *l, const double *rates, const double *together, struct bench_limit *ret)
{
	unsigned slowest = 0;

	for (unsigned i = 1; i < l->count; i++)
		if (rates[i] < rates[slowest])
			slowest = i;
	double median = stats_median(rates, l->count);
	bool several = l->count > 1 && median > 0;
	ret->slowest_share = several ? rates[slowest] / median : 1;
	ret->slowest_mb_per_s = together[slowest];
	if (several)
		name_slow(l, rates, median, ret->slow_names, sizeof(ret->slow_names));
}

int bench_limit_measure(struct disk *const *disks, unsigned disk_count, const struct workload *w,
	uint64_t span_bytes_each, struct bench_limit *ret, struct error *err)
{
	struct limit l = {.disks = disks, .count = disk_count, .asked = w};
	struct workload together;

	int status = target_open_disks(disks, disk_count, &l.target, err);
	if (status < 0)
		return status;
	uint64_t each = l.target->size_bytes / disk_count;
	l.span_bytes = span_bytes_each ? min_of(span_bytes_each, each) : each;
	struct target one = *l.target; /* what one disk offers, for the check */
	one.size_bytes = each;
	base_workload(&l, &together);
	together.jobs = 1;
	status = workload_check(&one, &together, err);

	scoped_free double *alone = calloc(2 * disk_count, sizeof(*alone));
	if (status == 0 && !alone)
		status = error_set(err, ERR_MEMORY, "no memory for the rates of %u disks", disk_count);
	if (status == 0)
		status = measure_alone(&l, alone, err);
	if (status == 0) {
		together_workload(&l, stats_median(alone, disk_count), &together);
		status = measure(&l, disks, disk_count, &together, alone + disk_count, err);
	}
	if (status == 0)
		status = measure_sorted(&l, alone + disk_count, err);
	target_close(l.target);
	if (status < 0)
		return status;
	*ret = (struct bench_limit){.mb_per_s = sum_of(alone + disk_count, disk_count), .model_mb_per_s = NAN};
	/* A short look at a disk alone can only fall short of what it does in company. */
	ret->alone_mb_per_s = fmax(sum_of(alone, disk_count), ret->mb_per_s);
	/* Behind a bus all disks look alike, so compare them alone; a few random requests scatter, so there together.
	 */
	name_slowest(&l, w->random ? alone + disk_count : alone, alone + disk_count, ret);
	return 0;
}

int bench_limit_target(struct target *t, const struct workload *w, struct bench_limit *ret, struct error *err)
{
	if (!t->bare)
		return error_set(
			err, ERR_UNSUPPORTED, "%s: no limit can be measured: nothing gets past its cache", t->name);
	int status = bench_limit_measure(&t->bare, 1, w, w->span_offset_bytes + w->span_bytes, ret, err);
	if (status == 0)
		ret->model_mb_per_s = ret->mb_per_s;
	return status;
}
