/* What the tests of stripes share: batches of records, disks that are spoiled, a simulated world. */
#ifndef POOL_STRIPE_BATCH_H
#define POOL_STRIPE_BATCH_H

#include "stand_in.h"

#define MIB (1u << 20)

/* --- records --------------------------------------------------------------------------------------------------- */

struct batch {
	struct stored_record *records;
	struct stored_record **list;
	unsigned count;
	uint64_t seed;
};

static inline void fill(uint8_t *to, uint64_t seed, uint32_t bytes)
{
	struct random r;

	random_seed(&r, seed);
	random_fill(&r, to, bytes);
}

/* Sizes at random up to `most`, or all of `most`. */
static inline void batch_make(struct batch *b, unsigned count, uint32_t most, bool same, uint64_t seed)
{
	struct random r;

	random_seed(&r, seed);
	*b = (struct batch){.count = count, .seed = seed};
	b->records = calloc(count, sizeof *b->records);
	b->list = calloc(count, sizeof *b->list);
	for (unsigned i = 0; i < count; i++) {
		struct stored_record *s = &b->records[i];
		uint32_t bytes =
			same ? most : 1 + (uint32_t)random_below(&r, random_below(&r, 2) ? most : min_of(most, 9000u));

		s->class = class_of(bytes);
		s->data = aligned_alloc(DISK_BUFFER_ALIGN, class_bytes[s->class]);
		memset(s->data, 0xee, class_bytes[s->class]);
		fill(s->data, seed * 100003 + i, bytes);
		s->bp = (struct bp){.kind = BP_DATA,
			.checksum_kind = CHECKSUM_XXH3,
			.logical_bytes = bytes,
			.physical_bytes = bytes,
			.birth = world.pool->commit_durable + 1};
		b->list[i] = s;
	}
}

static inline void batch_free(struct batch *b)
{
	for (unsigned i = 0; i < b->count; i++)
		free(b->records[i].data);
	free(b->records);
	free(b->list);
}

static inline int batch_try(struct batch *b, struct error *err)
{
	struct pool *p = world.pool;

	os_mutex_lock(&p->lock);
	struct transaction *t = transaction_enter(p);
	os_mutex_unlock(&p->lock);
	int rc = stripes_write(p, t, b->list, b->count, false, err);
	os_mutex_lock(&p->lock);
	transaction_leave(p, t);
	os_mutex_unlock(&p->lock);
	return rc;
}

static inline void batch_write(struct batch *b)
{
	struct error err = ERROR_INIT;

	must(batch_try(b, &err), &err);
}

/* Reads all of the batch; returns how many failed. What did not fail must be right. */
static inline unsigned batch_read(const struct batch *b, bool sequential, struct error *ret)
{
	struct record_read *reads = calloc(b->count, sizeof *reads);
	unsigned failed = 0;

	for (unsigned i = 0; i < b->count; i++) {
		reads[i].bp = b->records[i].bp;
		reads[i].buffer =
			aligned_alloc(DISK_BUFFER_ALIGN, round_up_u64(reads[i].bp.physical_bytes, POOL_UNIT_BYTES));
	}
	os_mutex_lock(&world.pool->lock);
	uint64_t pin = reader_enter(world.pool);
	os_mutex_unlock(&world.pool->lock);
	stripes_read(world.pool, reads, b->count, sequential);
	os_mutex_lock(&world.pool->lock);
	reader_leave(world.pool, pin);
	os_mutex_unlock(&world.pool->lock);
	for (unsigned i = 0; i < b->count; i++) {
		if (reads[i].status) {
			assert_true(reads[i].error.text[0]);
			if (ret && !ret->code)
				*ret = reads[i].error;
			failed++;
		} else {
			assert_memory_equal(reads[i].buffer, b->records[i].data, reads[i].bp.physical_bytes);
		}
		free(reads[i].buffer);
	}
	free(reads);
	return failed;
}

static inline void batch_is_whole(const struct batch *b)
{
	struct error err = ERROR_INIT;
	unsigned failed = batch_read(b, false, &err);

	if (failed)
		print_message("%u of %u records: %s\n", failed, b->count, err.text);
	assert_int_equal(failed, 0);
}

/* --- worlds ---------------------------------------------------------------------------------------------------- */

struct shape {
	const char *name;
	struct world_group groups[3];
	unsigned group_count;
};
static inline void shape_open(const struct shape *s, const char *spec)
{
	world_open(s->groups, s->group_count, spec ? spec : "mem:64MiB", 64 * MIB, MIB * 2, MIB / 2);
}

static inline void disk_state(unsigned disk, enum pool_disk_state state)
{
	world.pool->disks[disk].state = state;
}

/* All subsets of the disks that leave every group with what it needs. */
static inline bool survivable(const struct shape *s, unsigned mask)
{
	unsigned first = 0;

	for (unsigned g = 0; g < s->group_count; g++) {
		unsigned out = (unsigned)__builtin_popcount(mask >> first & ((1u << s->groups[g].disks) - 1));

		if (out > s->groups[g].parity)
			return false;
		first += s->groups[g].disks;
	}
	return true;
}

static inline void columns_agree(void)
{
	struct pool *p = world.pool;
	struct run **runs;
	size_t n;
	struct error err = ERROR_INIT;

	must(runs_list(p, NULL, &runs, &n, &err), &err);
	for (size_t i = 0; i < n; i++)
		for (uint32_t s = 0; s < runs[i]->stripes; s++) {
			struct stripe_verdict v;

			if (bit_get(runs[i]->returned, s))
				continue;
			must(stripe_verify(p, runs[i], s, false, &v, &err), &err);
			assert_int_equal(v.bad_columns, 0);
			assert_false(v.lost);
		}
	free(runs);
}

static inline void spoil(struct disk_address a, uint32_t bytes, uint64_t seed)
{
	uint8_t *noise = aligned_alloc(DISK_BUFFER_ALIGN, bytes);
	struct error err = ERROR_INIT;

	fill(noise, seed, bytes);
	must(disk_write(world.pool->disks[a.disk].disk, a.unit * POOL_UNIT_BYTES, noise, bytes, &err), &err);
	free(noise);
}

static inline void simulated(int (*run)(void *), void *arg, uint64_t seed)
{
	struct os_simulation s;
	struct error err = ERROR_INIT;

	os_simulation_init(&s, seed);
	must(os_simulate(&s, run, arg, &err), &err);
}

#endif
