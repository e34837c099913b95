/*
 * Synchronous writes: parity1 over eight modelled disks in virtual time, records of 4 KiB. F is what the least that is
 * durable takes on one such disk: 4 KiB somewhere else, and a flush. Up to 32 KiB go as bytes into the log, more makes a
 * commit: the stripes, a flush, the log, a flush.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "os.h"
#include "perf.h"

#define K (1ull << 10)
#define M (1ull << 20)
#define DISKS 8u
#define DISK_WORD "mem:1GiB+model=hdd-7200-2008*8"
#define VOLUME_BYTES (512 * M)
#define FLOOR_SPAN_BYTES (64 * M) /* as far as the pool's own heads go: from the log to what it writes */
#define ROUNDS 200u
#define WRITERS 32u
#define WRITER_ROUNDS 50u

struct sync_run {
	double f_ns, one_4k_ns, one_32k_ns, one_128k_ns, one_256k_ns, one_1m_ns;
	double many_4k_ns, many_128k_ns; /* of each write, WRITERS at once */
	struct error err;
};

struct writer {
	struct target *t;
	uint64_t block_bytes, first_bytes, span_bytes;
	unsigned rounds;
	struct random random;
	struct error err;
	int status;
};

static void write_synced(void *arg)
{
	struct writer *w = arg;
	scoped_free uint8_t *bytes = aligned_alloc(DISK_BUFFER_ALIGN, w->block_bytes);

	w->status = bytes ? 0 : error_set(&w->err, ERR_MEMORY, "no memory for a block");
	for (unsigned i = 0; !w->status && i < w->rounds; i++) {
		uint64_t at = w->first_bytes + random_below(&w->random, w->span_bytes / w->block_bytes) * w->block_bytes;

		random_fill(&w->random, bytes, w->block_bytes);
		w->status = w->t->ops->write(w->t, at, bytes, w->block_bytes, &w->err);
		w->status = w->status ? w->status : w->t->ops->flush(w->t, &w->err);
	}
}

static int one_writer(struct target *t, uint64_t block_bytes, double *ret_ns, struct error *err)
{
	struct writer w = {.t = t, .block_bytes = block_bytes, .span_bytes = VOLUME_BYTES, .rounds = ROUNDS};
	uint64_t from_ns = os_now_ns();

	random_seed(&w.random, block_bytes);
	write_synced(&w);
	*ret_ns = (double)(os_now_ns() - from_ns) / ROUNDS;
	return w.status ? error_set(err, w.status, "%s", w.err.text) : 0;
}

static int many_writers(struct target *t, uint64_t block_bytes, double *ret_ns, struct error *err)
{
	struct writer w[WRITERS];
	struct os_thread *thread[WRITERS] = {0};
	uint64_t from_ns = os_now_ns(), span = VOLUME_BYTES / WRITERS;
	int rc = 0;

	for (unsigned i = 0; i < WRITERS && !rc; i++) {
		w[i] = (struct writer){.t = t,
			.block_bytes = block_bytes,
			.first_bytes = i * span,
			.span_bytes = span,
			.rounds = WRITER_ROUNDS};
		random_seed(&w[i].random, i);
		rc = os_thread_create(&thread[i], "sync writer", write_synced, &w[i], err);
	}
	for (unsigned i = 0; i < WRITERS; i++) {
		if (!thread[i])
			continue;
		os_thread_join(thread[i]);
		if (w[i].status && !rc)
			rc = error_set(err, w[i].status, "%s", w[i].err.text);
	}
	*ret_ns = (double)(os_now_ns() - from_ns) / (WRITERS * WRITER_ROUNDS);
	return rc;
}

static int disk_floor(struct disk *d, double *ret_ns, struct error *err)
{
	scoped_free uint8_t *bytes = aligned_alloc(DISK_BUFFER_ALIGN, 4 * K);
	struct random r;
	uint64_t from_ns = os_now_ns();
	int rc = bytes ? 0 : error_set(err, ERR_MEMORY, "no memory for a block");

	random_seed(&r, 1);
	if (bytes)
		memset(bytes, 0xa5, 4 * K);
	for (unsigned i = 0; !rc && i < ROUNDS; i++) {
		rc = disk_write(d, random_below(&r, FLOOR_SPAN_BYTES / (4 * K)) * 4 * K, bytes, 4 * K, err);
		rc = rc ? rc : disk_flush(d, err);
	}
	*ret_ns = (double)(os_now_ns() - from_ns) / ROUNDS;
	return rc;
}

static int run_world(void *arg)
{
	struct sync_run *r = arg;
	const struct bench_pool_options o = {.layout = "parity1", .cache_bytes = 256 * M, .dirty_bytes = 256 * M};
	struct disk *disks[DISKS] = {0};
	struct bench_pool *pool = NULL;
	struct target *t = NULL;
	unsigned count = 0;
	double create_s;
	int rc = open_disks(DISK_WORD, disks, &count, &r->err);

	rc = rc ? rc : disk_floor(disks[0], &r->f_ns, &r->err);
	for (unsigned i = 0; i < count; i++)
		disk_close(disks[i]);
	memset(disks, 0, sizeof disks);
	count = 0;
	rc = rc ? rc : open_disks(DISK_WORD, disks, &count, &r->err);
	rc = rc ? rc : bench_pool_open(&o, disks, count, &pool, &create_s, &r->err);
	rc = rc ? rc : bench_pool_volume(pool, VOLUME_BYTES, 4 * K, "off", &t, &r->err);
	rc = rc ? rc : one_writer(t, 4 * K, &r->one_4k_ns, &r->err);
	rc = rc ? rc : one_writer(t, 32 * K, &r->one_32k_ns, &r->err);
	rc = rc ? rc : one_writer(t, 128 * K, &r->one_128k_ns, &r->err);
	rc = rc ? rc : one_writer(t, 256 * K, &r->one_256k_ns, &r->err);
	rc = rc ? rc : one_writer(t, 1 * M, &r->one_1m_ns, &r->err);
	rc = rc ? rc : many_writers(t, 4 * K, &r->many_4k_ns, &r->err);
	rc = rc ? rc : many_writers(t, 128 * K, &r->many_128k_ns, &r->err);
	target_close(t);
	bench_pool_close(pool);
	for (unsigned i = 0; i < count; i++)
		disk_close(disks[i]);
	return rc;
}

static void row_in_f(const char *name, const struct sync_run *r, double ns, double most)
{
	char text[160];

	snprintf(text, sizeof text, "%s, %.2f ms", name, ns / 1e6);
	print_row_most(text, ns / r->f_ns, "F", most);
}

int perf_pool_sync(void)
{
	struct sync_run r = {0};
	struct os_simulation sim;

	os_simulation_init(&sim, 1);
	int rc = os_simulate(&sim, run_world, &r, &r.err);
	if (rc) {
		fprintf(stderr, "spindle-perf: synchronous writes: %s\n", r.err.text);
		return 1;
	}
	print_head("Synchronous writes to parity1 over eight modelled hdd-7200-2008 disks, virtual clock");
	printf("| F: 4 KiB elsewhere and a flush, one disk | %.2f ms | | | | |\n", r.f_ns / 1e6);
	row_in_f("one writer, 4 KiB", &r, r.one_4k_ns, 1.5);
	row_in_f("one writer, 32 KiB", &r, r.one_32k_ns, 1.5);
	row_in_f("one writer, 128 KiB", &r, r.one_128k_ns, 2.5);
	row_in_f("one writer, 256 KiB", &r, r.one_256k_ns, 2.5);
	row_in_f("one writer, 1 MiB", &r, r.one_1m_ns, 2.5);
	print_row("32 writers, 4 KiB / one writer", 1e9 / r.many_4k_ns, 1e9 / r.one_4k_ns, "writes/s",
		r.one_4k_ns / r.many_4k_ns, 12);
	printf("| 32 writers, 128 KiB / one writer | %.1f writes/s | %.1f writes/s | %.3f | | |\n",
		1e9 / r.many_128k_ns, 1e9 / r.one_128k_ns, r.one_128k_ns / r.many_128k_ns);
	return 0;
}
