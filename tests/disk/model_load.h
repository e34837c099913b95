/* A closed load on modelled disks: `depth` requests are always in flight, each completion issues the next. */
#ifndef MODEL_LOAD_H
#define MODEL_LOAD_H

#include "testing.h"

#define LOAD_DISKS_MAX 64
#define LOAD_DEPTH_MAX 512

enum load_pattern { LOAD_SEQUENTIAL, LOAD_RANDOM };

struct load {
	struct disk *disks[LOAD_DISKS_MAX];
	unsigned disk_count; /* a request goes to a random one of them */
	enum disk_op op;
	enum load_pattern pattern;
	uint64_t block_bytes, start_bytes, span_bytes; /* span 0: up to the end */
	uint64_t shift_bytes;                          /* added to every offset */
	unsigned depth;
	uint64_t requests; /* stop after so many, or */
	uint64_t limit_ns; /* after so long; whichever is first; 0: no limit */
	bool skip_first;   /* count from the end of the first request: the way to the start is not part of a rate */
	bool final_flush;  /* counted into the time */
	uint64_t seed;
	/* out */
	uint64_t done, elapsed_ns, latency_ns_max, last_done_ns;
	double mb_per_s, iops;
};

struct load_slot {
	struct disk_request r;
	uint8_t *buffer;
};

static inline void load_submit(
	struct load *l, struct disk_queue *q, struct load_slot *s, struct random *random, uint64_t *next)
{
	struct disk *d = l->disks[l->disk_count > 1 ? random_below(random, l->disk_count) : 0];
	uint64_t span = l->span_bytes ? l->span_bytes : disk_traits(d)->size_bytes - l->start_bytes - l->shift_bytes;
	uint64_t blocks = span / l->block_bytes, at;
	if (l->pattern == LOAD_RANDOM)
		at = random_below(random, blocks);
	else
		at = (*next)++ % blocks;
	disk_request_init(
		&s->r, l->op, l->start_bytes + l->shift_bytes + at * l->block_bytes, s->buffer, l->block_bytes);
	s->r.owner = s;
	disk_queue_submit(q, d, &s->r);
}

static inline void load_run(struct load *l)
{
	static struct load_slot slots[LOAD_DEPTH_MAX];
	struct error err = ERROR_INIT;
	struct disk_queue *q;
	struct random random;
	uint8_t *buffer = aligned(l->block_bytes);
	uint64_t next = 0, submitted = 0;
	assert_true(l->depth <= LOAD_DEPTH_MAX);
	assert_ok(disk_queue_open(&q, &err), &err);
	random_seed(&random, l->seed);
	uint64_t begin_ns = os_now_ns(), end_ns = begin_ns;
	l->done = l->latency_ns_max = 0;
	for (unsigned i = 0; i < l->depth && (l->requests == 0 || submitted < l->requests); i++, submitted++) {
		slots[i].buffer = buffer;
		load_submit(l, q, &slots[i], &random, &next);
	}
	uint64_t count_from_ns = begin_ns;
	bool skip = l->skip_first;
	for (struct disk_request *r; (r = disk_queue_reap(q, UINT64_MAX));) {
		struct load_slot *s = r->owner;
		assert_int_equal(r->status, 0);
		uint64_t now_ns = os_now_ns();
		if (skip) {
			count_from_ns = now_ns;
			skip = false;
		} else if (l->limit_ns == 0 || now_ns <= begin_ns + l->limit_ns) {
			l->done++;
			end_ns = now_ns;
		}
		l->latency_ns_max = max_of(l->latency_ns_max, now_ns - r->submit_ns);
		if ((l->requests == 0 || submitted < l->requests) &&
			(l->limit_ns == 0 || now_ns < begin_ns + l->limit_ns)) {
			submitted++;
			load_submit(l, q, s, &random, &next);
		}
	}
	for (unsigned i = 0; l->final_flush && i < l->disk_count; i++) {
		assert_ok(disk_flush(l->disks[i], &err), &err);
		end_ns = os_now_ns();
	}
	l->last_done_ns = end_ns;
	l->elapsed_ns = end_ns - count_from_ns;
	l->iops = (double)l->done * 1e9 / (double)l->elapsed_ns;
	l->mb_per_s = l->iops * (double)l->block_bytes / 1e6;
	disk_queue_close(q);
	free(buffer);
}

/* Runs `f(arg)` in a simulated world where CPU is free. */
static inline void simulated(int (*f)(void *arg), void *arg)
{
	struct os_simulation s;
	struct error err = ERROR_INIT;
	os_simulation_init(&s, 1);
	s.cpus = 0;
	assert_ok(os_simulate(&s, f, arg, &err), &err);
}

#define CASE(name)                                                                                                     \
	static void test_##name(void **state)                                                                          \
	{                                                                                                              \
		simulated(name, NULL);                                                                                 \
	}

#define MS 1000000ull
#define assert_between(what, value, low, high)                                                                         \
	do {                                                                                                           \
		double v_ = (value);                                                                                   \
		printf("  %-52s %10.3f   (%g to %g)\n", what, v_, (double)(low), (double)(high));                      \
		fflush(stdout);                                                                                        \
		if (!(v_ >= (low) && v_ <= (high)))                                                                    \
			fail_msg("%s: %g is not within %g to %g", what, v_, (double)(low), (double)(high));            \
	} while (0)

static inline void open_many(struct load *l, const char *word)
{
	struct disk_specs specs = {0};
	struct error err = ERROR_INIT;
	*l = (struct load){.depth = 1, .seed = 1};
	assert_ok(disk_specs_add(&specs, word, &err), &err);
	for (size_t i = 0; i < specs.count; i++)
		assert_ok(disk_open(&specs.items[i], NULL, &l->disks[i], &err), &err);
	l->disk_count = (unsigned)specs.count;
	disk_specs_release(&specs);
}

static inline void close_many(struct load *l)
{
	for (unsigned i = 0; i < l->disk_count; i++)
		disk_close(l->disks[i]);
}

/* One load on fresh disks. */
static inline void load_fresh(const char *word, struct load *l)
{
	struct load fresh;
	open_many(&fresh, word);
	memcpy(l->disks, fresh.disks, sizeof l->disks);
	l->disk_count = fresh.disk_count;
	load_run(l);
	close_many(l);
}

static inline double random_iops(
	const char *word, enum disk_op op, uint64_t block_bytes, unsigned depth, uint64_t requests)
{
	struct load l = {.op = op,
		.pattern = LOAD_RANDOM,
		.block_bytes = block_bytes,
		.depth = depth,
		.requests = requests,
		.seed = 7};
	load_fresh(word, &l);
	return l.iops;
}

static inline double sequential_mb(
	const char *word, enum disk_op op, uint64_t block_bytes, unsigned depth, uint64_t start, uint64_t bytes)
{
	struct load l = {.op = op,
		.block_bytes = block_bytes,
		.start_bytes = start,
		.depth = depth,
		.requests = bytes / block_bytes,
		.final_flush = op == DISK_WRITE};
	l.skip_first = op == DISK_READ;
	load_fresh(word, &l);
	return l.mb_per_s;
}

static inline uint64_t timed(struct disk *d, enum disk_op op, uint64_t offset, void *buffer, uint64_t bytes)
{
	struct error err = ERROR_INIT;
	uint64_t begin_ns = os_now_ns();
	if (op == DISK_READ)
		assert_ok(disk_read(d, offset, buffer, bytes, &err), &err);
	else if (op == DISK_WRITE)
		assert_ok(disk_write(d, offset, buffer, bytes, &err), &err);
	else
		assert_ok(disk_flush(d, &err), &err);
	return os_now_ns() - begin_ns;
}

#endif
