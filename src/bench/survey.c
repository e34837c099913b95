/*
 * survey: each disk alone and all together, before anybody builds an array of them. Reads only, unless writing was
 * allowed; then also the rate of writes, the flush after one, and writes of 512 bytes against such of 4096, which
 * on a disk with 4096-byte sectors cost a turn each. What is overwritten in those probes was read before and is what
 * is written, so the data stays even there.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define STREAM_BLOCK_BYTES (1ull << 20)
#define RANDOM_BLOCK_BYTES 4096u
#define DEFAULT_NS 1000000000ull
#define ZONE_SHARE 16u /* outer and inner zone: the first and the last sixteenth */
#define PROBES 8u
#define SLOW_SHARE 0.8
#define SLOW_LATENCY 10.0
#define BUS_SHARE 0.9
#define SUB_SECTOR_RATIO 1.5
#define SEED 1u
#define SETTLED_BLOCKS 4u
#define STREAM_BLOCKS_MIN 32u

struct surveyor {
	struct disk *const *disks;
	unsigned count;
	uint64_t each_ns;
	bool write;
	const struct bench_progress *progress;
	unsigned step, steps;
};

static void say(struct surveyor *s, const char *what, double mb_per_s)
{
	s->step++;
	if (s->progress && s->progress->say)
		s->progress->say(s->progress->arg, what, (double)s->step / (double)s->steps, mb_per_s);
}

/* Without the way to the first block, which on a short stretch weighs. */
static double settled_rate(const struct workload *w, uint64_t bytes, uint64_t first_ns, uint64_t all_ns)
{
	if (!w->random && bytes >= SETTLED_BLOCKS * w->block_bytes && all_ns > first_ns) {
		bytes -= w->block_bytes;
		all_ns -= first_ns;
	}
	return all_ns ? (double)bytes / (double)all_ns * 1000 : 0;
}

/* One pattern on some disks, each on its own thread. Rates in MB/s. */
static int rate(struct surveyor *s, struct disk *const *disks, unsigned count, const struct workload *w,
	double *ret_rates, struct error *err)
{
	struct target *t = NULL;
	struct phase_result r;
	struct workload own = *w;

	own.jobs = count;
	own.duration_ns = s->each_ns;
	own.seed = SEED;
	int status = target_open_disks(disks, count, &t, err);
	if (status < 0)
		return status;
	struct phase p = {.target = t, .workload = &own, .job_disks = disks, .by_disk_queue = true};
	status = phase_run(&p, &r, err);
	target_close(t);
	if (status < 0)
		return status;
	if (r.failure.code != 0)
		status = error_set(err, r.failure.code, "%s", r.failure.text);
	else if (r.interrupted || os_interrupted())
		status = error_set(err, ERR_INTERRUPTED, "interrupted during the survey");
	for (unsigned i = 0; i < count && status == 0; i++)
		ret_rates[i] = settled_rate(w, r.job_bytes[i], r.job_first_ns[i], r.job_ns[i]);
	phase_result_release(&r);
	return status;
}

/* In whole blocks; a tiny disk is read whole. */
static struct workload stream(const struct disk *d, bool inner)
{
	uint64_t size = disk_traits(d)->size_bytes;
	uint64_t block =
		min_of(STREAM_BLOCK_BYTES, round_down_u64(size / ZONE_SHARE / STREAM_BLOCKS_MIN, RANDOM_BLOCK_BYTES));
	block = max_of(block, (uint64_t)RANDOM_BLOCK_BYTES);
	uint64_t span = round_down_u64(max_of(size / ZONE_SHARE, block), block);

	return (struct workload){.read_percent = 100,
		.block_bytes = block,
		.depth = 4,
		.span_bytes = span,
		.total_bytes = span,
		.span_offset_bytes = inner ? round_down_u64(size - span, RANDOM_BLOCK_BYTES) : 0};
}

static struct workload scattered(const struct disk *d, unsigned depth)
{
	return (struct workload){.read_percent = 100,
		.random = true,
		.block_bytes = RANDOM_BLOCK_BYTES,
		.depth = depth,
		.span_bytes = round_down_u64(disk_traits(d)->size_bytes, RANDOM_BLOCK_BYTES)};
}

static int measure_reads(struct surveyor *s, struct disk *d, struct survey_disk *ret, struct error *err)
{
	const struct {
		const char *what;
		struct workload workload;
		double *to;
		double unit; /* 1: MB/s; else operations of so many MB */
	} steps[] = {
		{"outer zone", stream(d, false), &ret->outer_mb_per_s, 1},
		{"inner zone", stream(d, true), &ret->inner_mb_per_s, 1},
		{"random reads", scattered(d, 1), &ret->random_iops, RANDOM_BLOCK_BYTES / 1e6},
		{"random reads, 32 at once", scattered(d, 32), &ret->random32_iops, RANDOM_BLOCK_BYTES / 1e6},
	};

	for (unsigned i = 0; i < array_count(steps); i++) {
		double mb_per_s;
		int status = rate(s, &d, 1, &steps[i].workload, &mb_per_s, err);
		if (status < 0)
			return status;
		*steps[i].to = mb_per_s / steps[i].unit;
		say(s, steps[i].what, mb_per_s);
	}
	return 0;
}

/* --- writing, where it was allowed ------------------------------------------------------------------------------- */

/* Reads a place and writes the same bytes back; the time of the write (and of a flush) in ms. */
static int write_back(struct disk *d, uint64_t offset_bytes, uint64_t bytes, uint8_t *buffer, double *ret_write_ms,
	double *ret_flush_ms, struct error *err)
{
	int status = disk_read(d, offset_bytes, buffer, bytes, err);
	uint64_t from_ns = os_now_ns();

	if (status == 0)
		status = disk_write(d, offset_bytes, buffer, bytes, err);
	uint64_t written_ns = os_now_ns();
	if (status == 0)
		status = disk_flush(d, err);
	if (status < 0)
		return status;
	*ret_write_ms = (double)(os_now_ns() - from_ns) / 1e6; /* until it is on the medium: a cache hides the rest */
	*ret_flush_ms = (double)(os_now_ns() - written_ns) / 1e6;
	return 0;
}

static int probe_writes(struct surveyor *s, struct disk *d, struct survey_disk *ret, struct error *err)
{
	const struct disk_traits *traits = disk_traits(d);
	double write_ms[2][PROBES], flush_ms[PROBES];
	scoped_free uint8_t *buffer = aligned_alloc(DISK_BUFFER_ALIGN, RANDOM_BLOCK_BYTES);
	uint64_t blocks = traits->size_bytes / RANDOM_BLOCK_BYTES;

	if (!buffer)
		return error_set(err, ERR_MEMORY, "no memory to probe %s with", traits->name);
	for (unsigned i = 0; i < PROBES; i++) {
		/* Both sizes in the same neighbourhood, in turns, so that seeks weigh on both alike. */
		uint64_t offset = mix_u64(SEED + i) % blocks * RANDOM_BLOCK_BYTES;
		double ignored;
		int status = write_back(d, offset, RANDOM_BLOCK_BYTES, buffer, &write_ms[1][i], &flush_ms[i], err);
		if (status == 0 && traits->logical_bytes <= 512)
			status = write_back(d, offset + 512, 512, buffer, &write_ms[0][i], &ignored, err);
		if (status < 0)
			return status;
	}
	ret->flush_ms = stats_median(flush_ms, PROBES);
	ret->ms_4096 = stats_median(write_ms[1], PROBES);
	if (traits->logical_bytes <= 512)
		ret->ms_512 = stats_median(write_ms[0], PROBES);
	say(s, "flush and alignment", 0);
	return 0;
}

static int measure_writes(struct surveyor *s, struct disk *d, struct survey_disk *ret, struct error *err)
{
	struct workload w = stream(d, false);
	uint64_t bytes = 0, from_ns = os_now_ns();
	scoped_free uint8_t *buffer = aligned_alloc(DISK_BUFFER_ALIGN, w.block_bytes);

	if (!buffer)
		return error_set(err, ERR_MEMORY, "no memory to write to %s", disk_traits(d)->name);
	uint64_t write_ns = 0;
	while (os_now_ns() - from_ns < s->each_ns && bytes < w.span_bytes && !os_interrupted()) {
		int status = disk_read(d, bytes, buffer, w.block_bytes, err);
		uint64_t begin_ns = os_now_ns();
		if (status == 0)
			status = disk_write(d, bytes, buffer, w.block_bytes, err);
		if (status < 0)
			return status;
		write_ns += os_now_ns() - begin_ns;
		bytes += w.block_bytes;
	}
	uint64_t begin_ns = os_now_ns();
	int status = disk_flush(d, err);
	write_ns += os_now_ns() - begin_ns;
	if (status == 0 && write_ns)
		ret->write_outer_mb_per_s = (double)bytes / (double)write_ns * 1000;
	say(s, "outer zone, writing", ret->write_outer_mb_per_s);
	return status == 0 ? probe_writes(s, d, ret, err) : status;
}

/* --- all of them ------------------------------------------------------------------------------------------------- */

static int measure_alone(struct surveyor *s, struct survey *ret, struct error *err)
{
	for (unsigned i = 0; i < s->count; i++) {
		struct survey_disk *disk = &ret->disks[i];
		struct error failure = ERROR_INIT;
		const struct disk_traits *traits = disk_traits(s->disks[i]);
		if (traits->size_bytes < RANDOM_BLOCK_BYTES) {
			snprintf(disk->error, sizeof(disk->error), "%.100s: too small to survey", traits->name);
			continue;
		}
		int status = measure_reads(s, s->disks[i], disk, &failure);
		if (status == 0 && s->write && !traits->read_only)
			status = measure_writes(s, s->disks[i], disk, &failure);
		if (status == ERR_INTERRUPTED || os_interrupted())
			return error_set(err, ERR_INTERRUPTED, "interrupted during the survey");
		if (status < 0)
			snprintf(disk->error, sizeof(disk->error), "%.190s", failure.text);
		disk->e512 = (traits->logical_bytes == 512 && traits->physical_bytes >= 4096) ||
			     disk->ms_512 > SUB_SECTOR_RATIO * disk->ms_4096;
	}
	return 0;
}

/* Only those that answered alone. */
static int measure_together(struct surveyor *s, struct survey *ret, struct error *err)
{
	scoped_free struct disk **good = calloc(s->count, sizeof(*good));
	scoped_free double *rates = calloc(s->count, sizeof(*rates));
	struct error failure = ERROR_INIT;
	unsigned count = 0;
	uint64_t smallest = UINT64_MAX;

	if (!good || !rates)
		return error_set(err, ERR_MEMORY, "no memory to survey %u disks", s->count);
	for (unsigned i = 0; i < s->count; i++)
		if (!ret->disks[i].error[0]) {
			good[count++] = s->disks[i];
			smallest = min_of(smallest, disk_traits(s->disks[i])->size_bytes);
		}
	/* One disk has no company. */
	if (count == 0 || s->count == 1) {
		for (unsigned i = 0; i < s->count; i++)
			ret->sum_alone_mb_per_s = ret->sum_together_mb_per_s = count ? ret->disks[i].outer_mb_per_s : 0;
		return 0;
	}
	struct workload w = stream(good[0], false);
	w.block_bytes = min_of(w.block_bytes, round_down_u64(smallest, RANDOM_BLOCK_BYTES));
	w.span_bytes =
		max_of(round_down_u64(min_of(w.span_bytes, smallest / ZONE_SHARE), w.block_bytes), w.block_bytes);
	w.total_bytes = w.span_bytes;
	int status = rate(s, good, count, &w, rates, &failure);
	if (status == ERR_INTERRUPTED)
		return error_set(err, status, "%s", failure.text);
	for (unsigned i = 0, k = 0; i < s->count; i++) {
		struct survey_disk *disk = &ret->disks[i];
		if (disk->error[0])
			continue;
		if (status < 0) /* fine alone, not in company */
			snprintf(disk->error, sizeof(disk->error), "all together: %.170s", failure.text);
		disk->together_mb_per_s = status == 0 ? rates[k] : NAN;
		ret->sum_alone_mb_per_s += disk->outer_mb_per_s;
		ret->sum_together_mb_per_s += status == 0 ? rates[k] : 0;
		k++;
	}
	say(s, "all together", ret->sum_together_mb_per_s);
	return 0;
}

static double median_of(const struct survey *s, double (*value)(const struct survey_disk *d))
{
	scoped_free double *values = calloc(s->disk_count, sizeof(*values));
	size_t count = 0;

	for (size_t i = 0; values && i < s->disk_count; i++)
		if (!s->disks[i].error[0])
			values[count++] = value(&s->disks[i]);
	return values ? stats_median(values, count) : NAN;
}

static double outer_rate(const struct survey_disk *d)
{
	return d->outer_mb_per_s;
}

static double random_rate(const struct survey_disk *d)
{
	return d->random_iops;
}

static void judge(struct survey *s)
{
	double outer = median_of(s, outer_rate), iops = median_of(s, random_rate);

	for (size_t i = 0; i < s->disk_count; i++) {
		struct survey_disk *d = &s->disks[i];
		if (!d->error[0] && s->disk_count > 1)
			d->slow = d->outer_mb_per_s < SLOW_SHARE * outer || d->random_iops * SLOW_LATENCY <= iops;
	}
	s->bus_bound = s->disk_count > 1 && s->sum_together_mb_per_s > 0 &&
		       s->sum_together_mb_per_s < BUS_SHARE * s->sum_alone_mb_per_s;
	s->bus_mb_per_s = s->bus_bound ? s->sum_together_mb_per_s : NAN;
}

int survey_run(struct disk *const *disks, unsigned disk_count, const struct survey_options *o,
	const struct bench_progress *progress, struct survey *ret, struct error *err)
{
	struct surveyor s = {.disks = disks,
		.count = disk_count,
		.write = o->write,
		.progress = progress,
		.each_ns = o->seconds_each_ns ? o->seconds_each_ns : DEFAULT_NS,
		.steps = disk_count * (o->write ? 6 : 4) + 1};
	struct survey all = {.disk_count = disk_count, .disks = calloc(disk_count, sizeof(*all.disks))};

	if (!all.disks)
		return error_set(err, ERR_MEMORY, "no memory to survey %u disks", disk_count);
	for (unsigned i = 0; i < disk_count; i++)
		all.disks[i] = (struct survey_disk){.outer_mb_per_s = NAN,
			.inner_mb_per_s = NAN,
			.together_mb_per_s = NAN,
			.random_iops = NAN,
			.random32_iops = NAN,
			.flush_ms = NAN,
			.write_outer_mb_per_s = NAN,
			.ms_512 = NAN,
			.ms_4096 = NAN};
	int status = measure_alone(&s, &all, err);
	if (status == 0)
		status = measure_together(&s, &all, err);
	if (status < 0) {
		survey_release(&all);
		return status;
	}
	judge(&all);
	*ret = all;
	return 0;
}

void survey_release(struct survey *s)
{
	if (!s)
		return;
	free(s->disks);
	*s = (struct survey){0};
}
