/* What the tests of bench share: disks by word, a simulated world around a test, and targets that do wrong. */
#ifndef BENCH_TESTING_H
#define BENCH_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench.h"

#define KiB 1024ull
#define MiB (1024ull * 1024)
#define MS 1000000ull
#define SECOND 1000000000ull

#define assert_ok(call, err)                                                                                           \
	do {                                                                                                           \
		int rc_ = (call);                                                                                      \
		if (rc_ != 0)                                                                                          \
			fail_msg("%s: %s (%s)", #call, error_name(rc_), (err)->text);                                  \
	} while (0)
#define assert_near(value, wanted, share)                                                                              \
	do {                                                                                                           \
		double v_ = (value), w_ = (wanted);                                                                    \
		if (!(fabs(v_ - w_) <= (share)*fabs(w_)))                                                              \
			fail_msg("%s is %g, wanted %g within %g %%", #value, v_, w_, (share)*100);                     \
	} while (0)

/* --- disks ------------------------------------------------------------------------------------------------------- */

struct disks {
	struct disk *disk[64];
	unsigned count;
};

static inline void disks_open_more(struct disks *d, const char *word)
{
	struct disk_specs specs = {0};
	struct error err = ERROR_INIT;
	const struct disk_open_options o = {0};

	assert_ok(disk_specs_add(&specs, word, &err), &err);
	for (size_t i = 0; i < specs.count; i++)
		assert_ok(disk_open(&specs.items[i], &o, &d->disk[d->count++], &err), &err);
	disk_specs_release(&specs);
}

static inline void disks_close(struct disks *d)
{
	for (unsigned i = 0; i < d->count; i++)
		disk_close(d->disk[i]);
	d->count = 0;
}

/* --- worlds ------------------------------------------------------------------------------------------------------ */

struct in_simulation {
	void (*test)(void);
};

static inline int simulation__body(void *arg)
{
	((struct in_simulation *)arg)->test();
	return 0;
}

/* A failing assert leaves the simulated world by a jump: cmocka reports it and the program ends. */
static inline void simulate(void (*test)(void), uint64_t seed)
{
	struct os_simulation s;
	struct error err = ERROR_INIT;
	struct in_simulation in = {test};

	os_simulation_init(&s, seed);
	assert_ok(os_simulate(&s, simulation__body, &in, &err), &err);
}

/* static void name(void **state): the body runs in virtual time. */
#define VIRTUAL_TEST(name)                                                                                             \
	static void name##_body(void);                                                                                 \
	static void name(void **state)                                                                                 \
	{                                                                                                              \
		simulate(name##_body, 1);                                                                              \
	}                                                                                                              \
	static void name##_body(void)

/* --- workloads --------------------------------------------------------------------------------------------------- */

static inline struct workload sequential(unsigned read_percent, uint64_t block_bytes, uint64_t span_bytes)
{
	return (struct workload){.test = "test",
		.read_percent = read_percent,
		.block_bytes = block_bytes,
		.depth = 1,
		.jobs = 1,
		.span_bytes = span_bytes,
		.total_bytes = span_bytes,
		.final_flush = true,
		.cold = true,
		.seed = 1,
		.payload = {PAYLOAD_RANDOM, 1},
		.repeats_min = 1,
		.repeats_max = 1};
}

static inline struct workload scattered(
	unsigned read_percent, uint64_t block_bytes, uint64_t span_bytes, unsigned depth, uint64_t duration_ns)
{
	struct workload w = sequential(read_percent, block_bytes, span_bytes);

	w.random = true;
	w.depth = depth;
	w.total_bytes = 0;
	w.duration_ns = duration_ns;
	return w;
}

static inline const char *verdicts_of(const struct cell *c)
{
	static char text[2000];
	size_t at = 0;

	text[0] = 0;
	for (unsigned i = 0; i < c->note_count; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "\n  %s: %s", verdict_names[c->notes[i].verdict],
			c->notes[i].reason);
	return text;
}

static inline const char *reason_of(const struct cell *c, enum verdict v)
{
	for (unsigned i = 0; i < c->note_count; i++)
		if (c->notes[i].verdict == v)
			return c->notes[i].reason;
	return NULL;
}

#define assert_verdict(cell, wanted)                                                                                   \
	do {                                                                                                           \
		if ((cell)->verdict != (wanted))                                                                       \
			fail_msg("verdict %s, wanted %s, at %.2f MB/s:%s", verdict_names[(cell)->verdict],             \
				verdict_names[wanted], (cell)->mb_per_s, verdicts_of(cell));                           \
	} while (0)
#define assert_noted(cell, wanted)                                                                                     \
	do {                                                                                                           \
		if (!reason_of(cell, wanted))                                                                          \
			fail_msg("no %s among:%s", verdict_names[wanted], verdicts_of(cell));                          \
	} while (0)
#define assert_not_noted(cell, unwanted)                                                                               \
	do {                                                                                                           \
		if (reason_of(cell, unwanted))                                                                         \
			fail_msg("%s: %s", verdict_names[unwanted], reason_of(cell, unwanted));                        \
	} while (0)

/* Where the limit is not what is tested: one that nothing reaches. */
static const struct bench_limit far_limit
	__attribute__((unused)) = {.mb_per_s = 1e6, .model_mb_per_s = NAN, .alone_mb_per_s = NAN, .slowest_share = NAN};

/* Opens, runs, judges. limit may be NULL: far. */
static inline struct cell run_on(struct target *t, const struct workload *w, const struct bench_limit *limit)
{
	struct error err = ERROR_INIT;
	struct cell cell;

	cell_init(&cell);
	assert_ok(bench_run(t, w, limit ? limit : &far_limit, NULL, &cell, &err), &err);
	return cell;
}

static inline struct target *target_of(const struct disks *d)
{
	struct error err = ERROR_INIT;
	struct target *t = NULL;

	assert_ok(target_open_disks(d->disk, d->count, &t, &err), &err);
	return t;
}

/* On disks by word, measured with their limit where there are several. */
static inline struct cell run_word(const char *word, const char *more, const struct workload *w, bool with_limit)
{
	struct disks d = {0};
	struct bench_limit limit;
	struct error err = ERROR_INIT;

	disks_open_more(&d, word);
	if (more)
		disks_open_more(&d, more);
	if (with_limit)
		assert_ok(bench_limit_measure(d.disk, d.count, w, 16 * MiB, &limit, &err), &err);
	struct target *t = target_of(&d);
	struct cell cell = run_on(t, w, with_limit ? &limit : NULL);
	target_close(t);
	disks_close(&d);
	return cell;
}

/* --- a target that does wrong ------------------------------------------------------------------------------------ */

/* Keeps its data in memory, takes ns_per_kib for it, and passes on to its one disk what the flags say. */
struct odd_target {
	struct target target;
	struct disk *disk;
	uint8_t *bytes;
	double ns_per_kib;
	bool reads_from_memory, drops_zeros, noisy, burns_cpu;
	double share_written; /* of all writes, that reach the disk */
	uint64_t writes, operations, flush_ns;
};

static inline void odd_wait(struct odd_target *o, uint64_t bytes)
{
	double ns = o->ns_per_kib * (double)bytes / 1024;

	/* Groups of operations share a mood, so that windows differ. */
	if (o->noisy)
		ns *= 0.25 + (double)((o->operations++ / 16 * 2654435761u) >> 8 & 7) / 2;
	if (o->burns_cpu)
		os_charge(OS_STAGE_PARITY2, (uint64_t)(ns / os_costs_default[OS_STAGE_PARITY2].ns_per_kib * 1024));
	else if (ns > 0)
		os_sleep_ns((uint64_t)ns);
}

static inline int odd_read(struct target *t, uint64_t offset, void *buffer, uint64_t length, struct error *err)
{
	struct odd_target *o = container_of(t, struct odd_target, target);

	odd_wait(o, length);
	memcpy(buffer, o->bytes + offset, length);
	/* From the disk, what is not given back: the bytes count, the data is ours. */
	static uint8_t sink[4 * 1024 * 1024] __attribute__((aligned(4096)));
	for (uint64_t at = 0; !o->reads_from_memory && at < length; at += sizeof(sink)) {
		int status = disk_read(o->disk, offset + at, sink, min_of(sizeof(sink), length - at), err);
		if (status < 0)
			return status;
	}
	return 0;
}

static inline int odd_write(struct target *t, uint64_t offset, const void *buffer, uint64_t length, struct error *err)
{
	struct odd_target *o = container_of(t, struct odd_target, target);
	const uint8_t *from = buffer;

	odd_wait(o, length);
	memcpy(o->bytes + offset, buffer, length);
	bool is_zero = from[0] == 0 && !memcmp(from, from + 1, length - 1);
	if (is_zero && o->drops_zeros)
		return 0;
	double before = (double)o->writes * o->share_written, after = (double)++o->writes * o->share_written;
	return (uint64_t)after > (uint64_t)before ? disk_write(o->disk, offset, buffer, length, err) : 0;
}

static inline int odd_flush(struct target *t, struct error *err)
{
	struct odd_target *o = container_of(t, struct odd_target, target);

	os_sleep_ns(o->flush_ns);
	return disk_flush(o->disk, err);
}

static inline void odd_traffic(struct target *t, struct target_traffic *ret)
{
	struct disk_counters c;

	disk_counters(t->disks[0], &c);
	*ret = (struct target_traffic){
		.read_bytes = c.op[DISK_READ].bytes, .write_bytes = c.op[DISK_WRITE].bytes, .known = true};
}

static inline void odd_close(struct target *t)
{
	struct odd_target *o = container_of(t, struct odd_target, target);

	free(o->bytes);
	disk_close(o->disk);
}

static const struct target_ops odd_ops = {
	.kind = "array",
	.read = odd_read,
	.write = odd_write,
	.flush = odd_flush,
	.traffic = odd_traffic,
	.close = odd_close,
};

/* An honest one, over a disk by word; tests then set what is odd about it. */
static inline void odd_open(struct odd_target *o, const char *word, double ns_per_kib)
{
	struct disks d = {0};

	disks_open_more(&d, word);
	assert_int_equal(d.count, 1);
	*o = (struct odd_target){.disk = d.disk[0], .ns_per_kib = ns_per_kib, .share_written = 1};
	o->target = (struct target){.ops = &odd_ops,
		.name = "odd",
		.road = "library",
		.size_bytes = disk_traits(o->disk)->size_bytes,
		.align_bytes = 512,
		.disk_count = 1,
		.disks = &o->disk,
		.direct_asked = true,
		.direct_effective = true,
		.state = "healthy"};
	o->bytes = calloc(1, o->target.size_bytes);
	assert_non_null(o->bytes);
}

#endif
