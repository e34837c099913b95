/*
 * What a pool reaches: parity1 over eight modelled disks in virtual time against the same pattern on the bare disks, and
 * beside it RAID 10, RAID 5, the pool's own stripe and mirrors with the same bytes. Compression off, incompressible
 * payload, fresh pool, cache 256 MiB. B and I are one disk's rates for the same block, span and depth.
 */
#include <lz4.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "os.h"
#include "perf.h"
#include "result.h"
#include "spindle.h"

#define K (1ull << 10)
#define M (1ull << 20)
#define DISKS 8u
/* 64 GiB in all. The model spreads a disk of any size over the full stroke: on small ones what a rewrite puts behind the
 * first file lies in slower zones than the span of the limits, and each short seek is a long one. */
#define DISK_WORD "mem:8GiB+model=hdd-7200-2008*8"
#define FILE_BYTES (1024 * M)
#define SPAN_BYTES (160 * M) /* of each disk, for the limits: what the file and its parity take */

enum {
	SEQ_WRITE,
	REWRITE,
	SEQ_READ,
	REREAD,
	READ_16M,
	STREAMS_READ,
	RANDOM_READ_128K,
	RANDOM_WRITE_128K,
	STREAMS_READ_AGED,
	RANDOM_READ_8K,
	RANDOM_WRITE_8K,
	TESTS
};
static const struct test {
	const char *name;
	bool random;
	unsigned read_percent, depth, jobs;
	uint64_t block_bytes, total_bytes, duration_ns;
	uint32_t record_bytes;
} tests[TESTS] = {
	{"sequential write 1 MiB, final flush", false, 0, 1, 1, M, FILE_BYTES, 0, 128 * K},
	{"rewrite 1 MiB, final flush", false, 0, 1, 1, M, FILE_BYTES, 0, 128 * K},
	{"sequential read, one stream of 1 MiB", false, 100, 1, 1, M, FILE_BYTES, 0, 128 * K},
	{"reread", false, 100, 1, 1, M, FILE_BYTES, 0, 128 * K},
	{"read of 16 MiB records at random, depth 1", true, 100, 1, 1, 16 * M, 2048 * M, 0, 128 * K},
	{"sequential read, eight streams of 1 MiB", false, 100, 1, 8, M, FILE_BYTES, 0, 128 * K},
	{"random read 128 KiB, depth 4n", true, 100, 4 * DISKS, 1, 128 * K, 0, 20000000000ull, 128 * K},
	{"random write 128 KiB, depth 4n, 40 % overwritten", true, 0, 4 * DISKS, 1, 128 * K, FILE_BYTES * 2 / 5, 0,
		128 * K},
	{"eight streams of 1 MiB after that", false, 100, 1, 8, M, FILE_BYTES, 0, 128 * K},
	{"random read 8 KiB, depth 4n, records of 8 KiB", true, 100, 4 * DISKS, 1, 8 * K, 0, 20000000000ull, 8 * K},
	{"random write 8 KiB, depth 4n, records of 8 KiB", true, 0, 4 * DISKS, 1, 8 * K, FILE_BYTES / 2, 0, 8 * K},
};

static void workload_make(const struct test *t, struct workload *w)
{
	memset(w, 0, sizeof *w);
	snprintf(w->test, sizeof w->test, "%s", t->random ? "random" : "sequential");
	w->random = t->random;
	w->read_percent = t->read_percent;
	w->block_bytes = t->block_bytes;
	w->depth = t->depth;
	w->jobs = t->jobs;
	w->span_bytes = FILE_BYTES;
	w->final_flush = t->read_percent < 100;
	w->cold = t->read_percent == 100;
	w->payload.kind = PAYLOAD_RANDOM;
	w->seed = 1;
	w->repeats_min = w->repeats_max = 1;
	w->interval_wanted = 0.05;
	w->total_bytes = t->total_bytes;
	w->duration_ns = t->duration_ns;
}

struct stack {
	const char *layout; /* of a pool, or of an array */
	bool is_pool;
};
static const struct stack stacks[] = {{"parity1", true}, {"stripe", true}, {"mirrorx4", true}, {"parity2", true},
	{"parity1x2", true}, {"raid5", false}, {"raid10", false}};
#define STACKS array_count(stacks)

struct run {
	const struct stack *stack; /* NULL: the limits */
	double rate[TESTS];        /* MB/s */
	double metadata_share;     /* of what was written in the last test of 8 KiB writes */
	struct error err;
};

static int limits_run(struct run *r, struct disk *const *disks, unsigned count)
{
	for (unsigned i = 0; i < TESTS; i++) {
		struct bench_limit limit;
		struct workload w;
		int rc;

		workload_make(&tests[i], &w);
		rc = bench_limit_measure(disks, count, &w, SPAN_BYTES, &limit, &r->err);
		if (rc)
			return rc;
		r->rate[i] = limit.mb_per_s;
	}
	return 0;
}

static int test_run(struct target *t, const struct test *test, double *ret_rate, struct error *err)
{
	const struct bench_limit none = {
		.mb_per_s = NAN, .model_mb_per_s = NAN, .alone_mb_per_s = NAN, .slowest_share = NAN};
	struct workload w;
	struct cell cell;
	int rc;

	workload_make(test, &w);
	cell_init(&cell);
	rc = bench_run(t, &w, &none, NULL, &cell, err);
	if (!rc && cell.verdict == VERDICT_FAILED)
		rc = error_set(err, ERR_IO, "%s", cell.notes[0].reason);
	*ret_rate = cell.mb_per_s;
	return rc;
}

static int fill(struct target *t, const struct test *test, struct error *err)
{
	struct workload w;

	workload_make(test, &w);
	return bench_fill(t, &w, NULL, err);
}

static int pool_run(struct run *r, struct disk *const *disks, unsigned count)
{
	const struct bench_pool_options o = {
		.layout = r->stack->layout, .cache_bytes = 256 * M, .dirty_bytes = 1024 * M};
	struct spindle_pool_info before, after;
	struct bench_pool *pool = NULL;
	struct target *large = NULL, *small = NULL;
	double create_s;
	int rc = bench_pool_open(&o, disks, count, &pool, &create_s, &r->err);

	rc = rc ? rc : bench_pool_volume(pool, FILE_BYTES, 128 * K, "off", &large, &r->err);
	for (unsigned i = 0; !rc && i < TESTS; i++)
		if (tests[i].record_bytes > 8 * K)
			rc = test_run(large, &tests[i], &r->rate[i], &r->err);
	target_close(large);
	bench_pool_close(pool);
	pool = NULL;
	/* A pool of its own for the small records: fresh, as for the others. */
	rc = rc ? rc : bench_pool_open(&o, disks, count, &pool, &create_s, &r->err);
	rc = rc ? rc : bench_pool_volume(pool, FILE_BYTES, 8 * K, "off", &small, &r->err);
	rc = rc ? rc : fill(small, &tests[RANDOM_READ_8K], &r->err);
	rc = rc ? rc : test_run(small, &tests[RANDOM_READ_8K], &r->rate[RANDOM_READ_8K], &r->err);
	if (!rc) {
		bench_pool_info(pool, &before);
		rc = test_run(small, &tests[RANDOM_WRITE_8K], &r->rate[RANDOM_WRITE_8K], &r->err);
		bench_pool_info(pool, &after);
		double metadata = (double)(after.metadata_bytes - before.metadata_bytes) +
				  (double)(after.log_bytes - before.log_bytes);
		double rest = (double)(after.data_bytes - before.data_bytes) +
			      (double)(after.parity_bytes - before.parity_bytes);
		r->metadata_share = metadata / (metadata + rest);
	}
	target_close(small);
	bench_pool_close(pool);
	return rc;
}

static int array_run(struct run *r, struct disk *const *disks, unsigned count)
{
	const struct target_array_options o = {.layout = r->stack->layout, .write_hole = "log"};
	struct target *t = NULL;
	double create_s;
	int rc = target_open_array(&o, disks, count, &t, &create_s, &r->err);

	for (unsigned i = 0; !rc && i < TESTS; i++)
		rc = test_run(t, &tests[i], &r->rate[i], &r->err);
	target_close(t);
	return rc;
}

static int run_world(void *arg)
{
	struct run *r = arg;
	struct disk *disks[64] = {0};
	unsigned count = 0;
	int rc = open_disks(DISK_WORD, disks, &count, &r->err);

	if (!rc)
		rc = !r->stack           ? limits_run(r, disks, count)
		     : r->stack->is_pool ? pool_run(r, disks, count)
					 : array_run(r, disks, count);
	for (unsigned i = 0; i < count; i++)
		disk_close(disks[i]);
	return rc;
}

static int simulate(struct run *r)
{
	struct os_simulation sim;
	int rc;

	os_simulation_init(&sim, 1);
	rc = os_simulate(&sim, run_world, r, &r->err);
	if (rc)
		fprintf(stderr, "spindle-perf: %s: %s\n", r->stack ? r->stack->layout : "limits", r->err.text);
	return rc;
}

static void row(const char *layout, unsigned test, double measured, double limit, const char *of, double least)
{
	char name[160];

	snprintf(name, sizeof name, "%s, %s / %s", layout, tests[test].name, of);
	print_row(name, measured, limit, "MB/s", measured / limit, least);
}

static const struct run *run_of(const struct run *runs, const char *layout)
{
	for (size_t i = 0; i < STACKS; i++)
		if (strcmp(runs[i].stack->layout, layout) == 0)
			return &runs[i];
	return NULL;
}

static void table_print(const struct run *limits, const struct run *runs)
{
	printf("\n### All of it, MB/s\n\n| test | bare disks |");
	for (size_t i = 0; i < STACKS; i++)
		printf(" %s %s |", runs[i].stack->is_pool ? "pool" : "array", runs[i].stack->layout);
	printf("\n|---|---|");
	for (size_t i = 0; i < STACKS; i++)
		printf("---|");
	for (unsigned t = 0; t < TESTS; t++) {
		printf("\n| %s | %.1f |", tests[t].name, limits->rate[t]);
		for (size_t i = 0; i < STACKS; i++)
			printf(" %.1f |", runs[i].rate[t]);
	}
	printf("\n");
	fflush(stdout);
}

int perf_pool(void)
{
	struct run limits = {0}, runs[STACKS];
	int rc = simulate(&limits);

	for (size_t i = 0; !rc && i < STACKS; i++) {
		runs[i] = (struct run){.stack = &stacks[i]};
		rc = simulate(&runs[i]);
	}
	if (rc)
		return 1;
	const struct run *p = run_of(runs, "parity1"), *s = run_of(runs, "stripe"), *m = run_of(runs, "mirrorx4");
	const struct run *r5 = run_of(runs, "raid5"), *r10 = run_of(runs, "raid10");
	const double *L = limits.rate, most = (DISKS - 1.0) / DISKS;

	print_head("A pool over eight modelled hdd-7200-2008 disks, virtual clock");
	row("parity1", SEQ_WRITE, p->rate[SEQ_WRITE], L[SEQ_WRITE] * most, "(n-1)B", 0.93);
	row("parity1", REWRITE, p->rate[REWRITE], L[REWRITE] * most, "(n-1)B", 0.93);
	row("parity1", SEQ_READ, p->rate[SEQ_READ], L[SEQ_READ], "nB", 0.93);
	row("parity1", REREAD, p->rate[REREAD], L[REREAD], "nB", 0.93);
	row("parity1", READ_16M, p->rate[READ_16M], r5->rate[READ_16M], "RAID 5", 1.0);
	row("parity1", READ_16M, p->rate[READ_16M], r10->rate[READ_16M], "RAID 10 near", 1.0);
	for (unsigned t = RANDOM_READ_128K;; t = RANDOM_READ_8K) {
		row("parity1", t, p->rate[t], L[t], "nI", 0.87);
		row("parity1", t, p->rate[t], s->rate[t], "pool stripe", 0.97);
		row("parity1", t, p->rate[t], r10->rate[t], "RAID 10", 0.92);
		if (t == RANDOM_READ_8K)
			break;
	}
	/* Random writes become sequential ones: what bounds them is B. */
	row("parity1", RANDOM_WRITE_128K, p->rate[RANDOM_WRITE_128K], L[SEQ_WRITE] * most, "(n-1)B", 0.85);
	row("parity1", RANDOM_WRITE_8K, p->rate[RANDOM_WRITE_8K], L[SEQ_WRITE] * most, "(n-1)B", 0.60);
	print_row_most("parity1, metadata and log in all bytes written, random write 8 KiB", p->metadata_share,
		"of them", 0.10);
	row("mirrorx4", SEQ_WRITE, m->rate[SEQ_WRITE], L[SEQ_WRITE] / 2, "nB/2", 0.95);
	row("mirrorx4", STREAMS_READ, m->rate[STREAMS_READ], L[SEQ_READ], "nB", 0.80);
	table_print(&limits, runs);
	return 0;
}

/* --- CPU on the real clock ------------------------------------------------------------------------------------ */

#define CPU_DISK_WORD "mem:768MiB*8"
#define CPU_VOLUME_BYTES (1024 * M)
#define CPU_RUN_BYTES (2048 * M) /* so that the bench's own preparations are no part of the figure */
#define CPU_RUNS 5

/* The system clears a page when it is touched for the first time. A pool that writes on to new places would be charged
 * for that as long as there are any, an array for its first pass only; so it is done before either is measured. */
static int touch_all(struct disk *const *disks, unsigned count, struct error *err)
{
	scoped_free uint8_t *bytes = aligned_alloc(DISK_BUFFER_ALIGN, M);
	int rc = bytes ? 0 : error_set(err, ERR_MEMORY, "no memory for a buffer");

	if (bytes)
		memset(bytes, 0xa5, M);
	for (unsigned i = 0; i < count; i++)
		for (uint64_t at = 0; !rc && at < disk_traits(disks[i])->size_bytes; at += M)
			rc = disk_write(disks[i], at, bytes, M, err);
	return rc;
}

/* A pool of its own for each row, on the same disks. The best of the runs behind the first, which touches the pool's
 * own memory. */
static int cpu_row(struct disk *const *disks, unsigned count, const char *compression, unsigned read_percent,
	double *ret, struct error *err)
{
	const struct bench_pool_options o = {.layout = "parity1", .cache_bytes = 256 * M, .dirty_bytes = 256 * M};
	const struct bench_limit none = {
		.mb_per_s = NAN, .model_mb_per_s = NAN, .alone_mb_per_s = NAN, .slowest_share = NAN};
	struct bench_pool *pool = NULL;
	struct target *t = NULL;
	struct workload w;
	double create_s;
	int rc = bench_pool_open(&o, disks, count, &pool, &create_s, err);

	rc = rc ? rc : bench_pool_volume(pool, CPU_VOLUME_BYTES, 128 * K, compression, &t, err);
	*ret = 1e9;
	workload_make(&tests[read_percent ? SEQ_READ : SEQ_WRITE], &w);
	w.span_bytes = CPU_VOLUME_BYTES;
	w.total_bytes = CPU_RUN_BYTES;
	if (!rc && read_percent)
		rc = bench_fill(t, &w, NULL, err);
	for (int i = 0; !rc && i < CPU_RUNS; i++) {
		uint64_t before = cpu_ns();
		struct cell cell;

		cell_init(&cell);
		rc = bench_run(t, &w, &none, NULL, &cell, err);
		double used = (cpu_ns() - before) / 1e9 / ((double)cell.logical_bytes / 1e9);
		if (getenv("SPINDLE_PERF_RUNS"))
			fprintf(stderr, "run %d: %.3f CPU-s/GB, %.0f MB/s\n", i, used, cell.mb_per_s);
		if (i > 0 && used < *ret)
			*ret = used;
	}
	target_close(t);
	bench_pool_close(pool);
	return rc;
}

#define TEXT_BYTES (64 * M)
#define TEXT_RUN_BYTES (1024 * M)
#define RECORD_BYTES (128 * K)

struct plain_lz4 { /* one thread's part */
	const uint8_t *text;
	uint64_t records;
	uint64_t packed_bytes;
};

static void plain_lz4_run(void *arg)
{
	struct plain_lz4 *p = arg;
	const int room = LZ4_compressBound(RECORD_BYTES);
	scoped_free char *packed = malloc((size_t)room);
	scoped_free void *state = malloc((size_t)LZ4_sizeofState());

	for (uint64_t i = 0; packed && state && i < p->records; i++)
		p->packed_bytes += (uint64_t)LZ4_compress_fast_extState(
			state, (const char *)p->text + i * RECORD_BYTES % TEXT_BYTES, packed, RECORD_BYTES, room, 1);
}

/* Two threads; the bytes that a second of CPU time compresses. */
static int plain_lz4_rate(const uint8_t *text, double *ret_mb_per_cpu_s, struct error *err)
{
	struct plain_lz4 part[2];
	struct os_thread *thread[2] = {0};
	uint64_t before = cpu_ns(), packed = 0;
	int rc = 0;

	for (unsigned i = 0; i < 2 && !rc; i++) {
		part[i] = (struct plain_lz4){
			.text = text + i * TEXT_BYTES / 2, .records = TEXT_RUN_BYTES / RECORD_BYTES / 2};
		rc = os_thread_create(&thread[i], "plain lz4", plain_lz4_run, &part[i], err);
	}
	for (unsigned i = 0; i < 2; i++)
		if (thread[i]) {
			os_thread_join(thread[i]);
			packed += part[i].packed_bytes;
		}
	if (!rc && !packed)
		rc = error_set(err, ERR_MEMORY, "no memory to compress in");
	*ret_mb_per_cpu_s = (double)TEXT_RUN_BYTES * 1e3 / (double)(cpu_ns() - before);
	return rc;
}

static int text_write_rate(struct target *t, const uint8_t *text, double *ret_mb_per_cpu_s, struct error *err)
{
	uint64_t before = cpu_ns();
	int rc = 0;

	for (uint64_t at = 0; !rc && at < TEXT_RUN_BYTES; at += M)
		rc = t->ops->write(t, at % CPU_VOLUME_BYTES, text + at % TEXT_BYTES, M, err);
	rc = rc ? rc : t->ops->flush(t, err);
	*ret_mb_per_cpu_s = (double)TEXT_RUN_BYTES * 1e3 / (double)(cpu_ns() - before);
	return rc;
}

/* The bench makes text as slowly as a program would; here it is made beforehand, and read back from the volume. */
static int text_make(struct target *t, uint8_t *text, struct error *err)
{
	struct workload w;

	workload_make(&tests[SEQ_WRITE], &w);
	w.span_bytes = TEXT_BYTES;
	w.payload.kind = PAYLOAD_TEXT;
	int rc = bench_fill(t, &w, NULL, err);
	return rc ? rc : t->ops->read(t, 0, text, TEXT_BYTES, err);
}

/* A volume against two threads that do nothing but lz4 on the same records: in turns, the best of each. By CPU time, for
 * either keeps all processors busy, and a pool has more threads: on a loaded machine its share of them would be larger. */
static int text_row(struct disk *const *disks, unsigned count, struct error *err)
{
	const struct bench_pool_options o = {.layout = "parity1", .cache_bytes = 256 * M, .dirty_bytes = 256 * M};
	scoped_free uint8_t *text = malloc(2 * TEXT_BYTES); /* twice, so that a part may begin in the middle */
	struct bench_pool *pool = NULL;
	struct target *t = NULL;
	double create_s, best_plain = 0, best = 0;
	int rc = text ? 0 : error_set(err, ERR_MEMORY, "no memory for the text");

	rc = rc ? rc : bench_pool_open(&o, disks, count, &pool, &create_s, err);
	rc = rc ? rc : bench_pool_volume(pool, CPU_VOLUME_BYTES, RECORD_BYTES, "lz4", &t, err);
	rc = rc ? rc : text_make(t, text, err);
	if (!rc)
		memcpy(text + TEXT_BYTES, text, TEXT_BYTES);
	for (int i = 0; !rc && i < CPU_RUNS; i++) {
		double plain = 0, rate = 0;

		rc = plain_lz4_rate(text, &plain, err);
		rc = rc ? rc : text_write_rate(t, text, &rate, err);
		if (getenv("SPINDLE_PERF_RUNS"))
			fprintf(stderr, "run %d: %.0f MB/CPU-s, plain lz4 %.0f\n", i, rate, plain);
		if (i == 0)
			continue;
		best_plain = max_of(best_plain, plain);
		best = max_of(best, rate);
	}
	if (!rc)
		print_row("write, lz4 on text / two threads of plain lz4", best, best_plain, "MB/CPU-s",
			best / best_plain, 0.9);
	target_close(t);
	bench_pool_close(pool);
	return rc;
}

int perf_pool_cpu(void)
{
	static const struct {
		const char *name, *compression;
		unsigned read_percent;
		double most;
	} rows[] = {
		{"write, compression off", "off", 0, 0.35},
		{"write, lz4 on incompressible data", "lz4", 0, 0.45},
		{"cold read", "off", 100, 0.30},
	};
	struct disk *disks[DISKS] = {0};
	struct error err = ERROR_INIT;
	unsigned count = 0;
	int rc = open_disks(CPU_DISK_WORD, disks, &count, &err);

	print_head("parity1 over eight memory disks, 1 MiB calls, real clock (best of 4)");
	rc = rc ? rc : touch_all(disks, count, &err);
	for (size_t i = 0; !rc && i < array_count(rows); i++) {
		double used;

		rc = cpu_row(disks, count, rows[i].compression, rows[i].read_percent, &used, &err);
		if (!rc)
			print_row_most(rows[i].name, used, "CPU-s/GB", rows[i].most);
	}
	rc = rc ? rc : text_row(disks, count, &err);
	for (unsigned i = 0; i < count; i++)
		disk_close(disks[i]);
	if (rc)
		fprintf(stderr, "spindle-perf: %s\n", err.text);
	return rc != 0;
}
