/*
 * The pool as a whole, in the simulated world: what was written is read on every shape, after abandoning and after closing;
 * the power goes at every single operation of a small workload; every single operation fails once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

#include "../array/crash_disk.h"
#include "pool.h"

#define DISKS_MAX 8
#define DISK_BYTES (24u << 20)
#define BLOCK 4096u
#define BLOCKS 256u /* of the volume, two a record */
#define RECORD 8192u

struct shape {
	const char *name, *kind;
	unsigned groups, each, parity;
};
static const struct shape shapes[] = {
	{"disk", "disk", 1, 1, 0},
	{"stripe", "disk", 3, 1, 0},
	{"mirror", "mirror", 1, 2, 1},
	{"mirrorx2", "mirror", 2, 2, 1},
	{"parity1", "parity1", 1, 4, 1},
	{"parity2", "parity2", 1, 5, 2},
	{"parity3", "parity3", 1, 6, 3},
};

struct world {
	const struct shape *shape;
	unsigned count;
	struct power power;
	struct platter *platters[DISKS_MAX];
	struct disk *disks[DISKS_MAX];
	struct pool *pool;
	struct volume *volume;
	struct random random;
	/* the versions that a block may show: the last that was promised, the last that was written */
	uint32_t promised[BLOCKS], written[BLOCKS], version;
	uint8_t buffer[64 * BLOCK];
};

static void must(int rc, const struct error *err)
{
	if (rc)
		print_message("%s: %s\n", error_name(rc), err->text);
	assert_int_equal(rc, 0);
}

static void disks_open(struct world *w, bool copies)
{
	struct error err = ERROR_INIT;

	for (unsigned i = 0; i < w->count; i++) {
		struct crash_options o = {0};
		char name[16];

		snprintf(name, sizeof name, "disk%u", i);
		must(crash_disk_open(name, &w->power, copies ? platter_copy(w->platters[i]) : w->platters[i], &o,
			     &w->disks[i], &err),
			&err);
	}
}

static void disks_take(struct world *w)
{
	for (unsigned i = 0; i < w->count; i++) {
		w->platters[i] = crash_disk_take(w->disks[i]);
		w->disks[i] = NULL;
	}
}

static int pool_begin(struct world *w, struct error *err)
{
	struct pool_open_options o;

	pool_open_options_init(&o);
	o.tuning.cache_bytes = 4 << 20;
	int rc = pool_open(&w->pool, &o, w->disks, w->count, err);
	if (rc)
		return rc;
	rc = volume_open(w->pool, "tank/vol", &w->volume, err);
	if (rc) {
		pool_abandon(w->pool);
		w->pool = NULL;
	}
	return rc;
}

static void pool_end(struct world *w, bool abandon)
{
	struct error err = ERROR_INIT;

	volume_close(w->volume);
	if (abandon)
		pool_abandon(w->pool);
	else
		must(pool_close(w->pool, &err), &err);
	w->volume = NULL;
	w->pool = NULL;
}

static void world_create(struct world *w, const struct shape *s, uint64_t seed)
{
	struct error err = ERROR_INIT;
	struct pool_vdev vdevs[DISKS_MAX] = {{{0}}};
	struct pool_create_options o = {.name = "tank", .vdevs = vdevs, .vdev_count = s->groups};
	struct pool_open_options oo;

	memset(w, 0, sizeof *w);
	w->shape = s;
	w->count = s->groups * s->each;
	random_seed(&w->random, seed);
	power_init(&w->power, seed);
	for (unsigned g = 0; g < s->groups; g++) {
		snprintf(vdevs[g].kind, sizeof vdevs[g].kind, "%s", s->kind);
		vdevs[g].first = g * s->each;
		vdevs[g].count = s->each;
	}
	for (unsigned i = 0; i < w->count; i++)
		w->platters[i] = platter_make(DISK_BYTES, seed + i);
	disks_open(w, false);
	must(pool_create(&o, w->disks, w->count, &err), &err);
	pool_open_options_init(&oo);
	must(pool_open(&w->pool, &oo, w->disks, w->count, &err), &err);
	must(pool_volume_create(w->pool, "tank/vol", BLOCKS * BLOCK, RECORD, true, NULL, &err), &err);
	must(pool_close(w->pool, &err), &err);
	w->pool = NULL;
}

static void world_free(struct world *w)
{
	for (unsigned i = 0; i < w->count; i++) {
		if (w->disks[i])
			platter_free(crash_disk_take(w->disks[i]));
		else
			platter_free(w->platters[i]);
	}
}

/* --- blocks that carry their number and version ------------------------------------------------------------------- */

static void block_fill(uint8_t *out, unsigned block, uint32_t version)
{
	struct random r;

	random_seed(&r, (uint64_t)block << 32 | version);
	random_fill(&r, out, BLOCK);
	put_le32(out, block);
	put_le32(out + 4, version);
}

static int blocks_write(struct world *w, unsigned first, unsigned count, struct error *err)
{
	for (unsigned i = 0; i < count; i++) {
		w->written[first + i] = ++w->version;
		block_fill(w->buffer + i * BLOCK, first + i, w->version);
	}
	return volume_write(w->volume, (uint64_t)first * BLOCK, w->buffer, (uint64_t)count * BLOCK, err);
}

static int blocks_flush(struct world *w, struct error *err)
{
	uint32_t promised[BLOCKS];

	memcpy(promised, w->written, sizeof promised);
	int rc = volume_flush(w->volume, err);
	if (!rc)
		memcpy(w->promised, promised, sizeof promised);
	return rc;
}

static void block_check(struct world *w, unsigned block, const uint8_t *got, bool exact)
{
	uint8_t expected[BLOCK];
	uint32_t version = get_le32(got + 4);

	if (version == 0 && w->promised[block] == 0) {
		memset(expected, 0, sizeof expected);
	} else {
		if (get_le32(got) != block || version < w->promised[block] || version > w->written[block])
			fail_msg("%s: block %u shows block %u version %u; promised %u, written %u", w->shape->name,
				block, get_le32(got), version, w->promised[block], w->written[block]);
		block_fill(expected, block, version);
	}
	if (exact && version != w->written[block])
		fail_msg("%s: block %u shows version %u, written was %u", w->shape->name, block, version,
			w->written[block]);
	if (memcmp(expected, got, BLOCK) != 0)
		fail_msg("%s: block %u is torn", w->shape->name, block);
}

static void blocks_check(struct world *w, bool exact)
{
	struct error err = ERROR_INIT;

	for (unsigned first = 0; first < BLOCKS; first += 32) {
		must(volume_read(w->volume, (uint64_t)first * BLOCK, w->buffer, 32 * BLOCK, &err), &err);
		for (unsigned i = 0; i < 32; i++)
			block_check(w, first + i, w->buffer + i * BLOCK, exact);
	}
}

/* What a recovery shows is what there is from then on. */
static void blocks_settle(struct world *w)
{
	struct error err = ERROR_INIT;

	for (unsigned block = 0; block < BLOCKS; block++) {
		must(volume_read(w->volume, (uint64_t)block * BLOCK, w->buffer, BLOCK, &err), &err);
		w->promised[block] = w->written[block] = get_le32(w->buffer + 4);
	}
}

/* Small flushes, large ones, commits and checkpoints, overwrites. Ends at the first failure. */
static int work(struct world *w, unsigned steps, struct error *err)
{
	int rc = 0;

	for (unsigned i = 0; !rc && i < steps; i++) {
		unsigned count = 1 + (unsigned)random_below(&w->random, random_below(&w->random, 4) ? 4 : 24);
		unsigned first = (unsigned)random_below(&w->random, BLOCKS - count + 1);

		rc = blocks_write(w, first, count, err);
		if (!rc && random_below(&w->random, 3) == 0)
			rc = blocks_flush(w, err);
		if (!rc && random_below(&w->random, 9) == 0)
			rc = pool_commit(w->pool, err);
		if (!rc && random_below(&w->random, 12) == 0)
			rc = pool_checkpoint(w->pool, err);
	}
	return rc ? rc : blocks_flush(w, err);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static int every_shape(void *arg)
{
	struct world *w = calloc(1, sizeof *w);
	struct error err = ERROR_INIT;

	world_create(w, arg, 5);
	for (unsigned round = 0; round < 6; round++) {
		must(pool_begin(w, &err), &err);
		blocks_check(w, true);
		must(work(w, 40, &err), &err);
		blocks_check(w, true);
		if (round % 2)
			pool_drop_cache(w->pool);
		blocks_check(w, true);
		pool_end(w, round % 3 != 2);
		if (round % 3 != 2)
			memcpy(w->written, w->promised, sizeof w->written);
	}
	world_free(w);
	free(w);
	return 0;
}

static void simulate(int (*run)(void *), void *arg, uint64_t seed, uint64_t *ret_hash)
{
	struct os_simulation s;
	struct error err = ERROR_INIT;

	os_simulation_init(&s, seed);
	s.cpus = 0;
	int rc = os_simulate(&s, run, arg, &err);
	if (rc)
		print_message("seed %llu: %s\n", (unsigned long long)seed, err.text);
	assert_int_equal(rc, 0);
	if (ret_hash)
		*ret_hash = s.trace_hash;
}

static void what_was_written_is_read(void **state)
{
	for (size_t i = 0; i < array_count(shapes); i++) {
		uint64_t first, second;

		simulate(every_shape, (void *)&shapes[i], 1, &first);
		simulate(every_shape, (void *)&shapes[i], 1, &second);
		assert_int_equal(first, second); /* POOL-10 */
	}
}

struct position {
	const struct shape *shape;
	uint64_t at, seed;
	enum crash_fault fault;
	bool reached, cut;
};

static int one_cut(void *arg)
{
	struct position *at = arg;
	struct world *w = calloc(1, sizeof *w);
	struct error err = ERROR_INIT;

	world_create(w, at->shape, at->seed);
	w->power.operations = 0;
	w->power.cut_at = at->at;
	int rc = pool_begin(w, &err);
	if (!rc) {
		rc = work(w, 14, &err);
		pool_end(w, true);
	}
	at->reached = w->power.is_cut;
	if (!w->power.is_cut)
		must(rc, &err);
	disks_take(w);
	/* It is on again; now and then it goes in the middle of the recovery. */
	power_init(&w->power, at->seed + at->at);
	if (at->at % 3 == 0)
		w->power.cut_at = 1 + random_below(&w->random, 60);
	disks_open(w, false);
	error_clear(&err);
	rc = pool_begin(w, &err);
	if (w->power.is_cut) {
		if (!rc)
			pool_end(w, true);
		disks_take(w);
		power_init(&w->power, at->seed);
		disks_open(w, false);
		error_clear(&err);
		rc = pool_begin(w, &err);
	} else {
		w->power.cut_at = 0;
	}
	must(rc, &err);
	blocks_check(w, false);
	blocks_settle(w);
	must(work(w, 6, &err), &err);
	blocks_check(w, true);
	pool_end(w, false);
	must(pool_begin(w, &err), &err);
	blocks_check(w, true);
	pool_end(w, false);
	world_free(w);
	free(w);
	return 0;
}

/* Each of its seeds is hundreds of runs: one for every hundred that are asked for. */
static unsigned seeds(unsigned usual)
{
	const char *text = getenv("SPINDLE_SEEDS");

	return text ? max_of(usual, (unsigned)(strtoul(text, NULL, 10) / 100)) : usual;
}

/* Every operation when many seeds are asked for, else some of them, others for each kind of fault. */
static unsigned stride(unsigned usual)
{
	return seeds(0) ? 1 : usual;
}

static const struct shape *shape_named(const char *name)
{
	for (size_t i = 0; i < array_count(shapes); i++)
		if (strcmp(shapes[i].name, name) == 0)
			return &shapes[i];
	return NULL;
}

static void cut_everywhere(const char *name, unsigned step)
{
	for (unsigned seed = 1; seed <= seeds(1); seed++) {
		struct position at = {.shape = shape_named(name), .at = 1, .seed = seed, .reached = true};

		for (; at.reached; at.at += stride(step))
			simulate(one_cut, &at, seed, NULL);
		print_message("%s, seed %u: power cuts at up to %llu operations\n", name, seed,
			(unsigned long long)at.at - 1);
	}
}

static void power_goes_anywhere_on_a_mirror(void **state)
{
	cut_everywhere("mirror", 1);
}
static void power_goes_anywhere_on_parity(void **state)
{
	cut_everywhere("parity1", 4);
}
static void power_goes_anywhere_on_a_disk(void **state)
{
	cut_everywhere("disk", 2);
}

/* One operation fails. Within redundancy no call may; without it nothing that was promised is lost. */
static int one_fault(void *arg)
{
	struct position *at = arg;
	struct world *w = calloc(1, sizeof *w);
	struct error err = ERROR_INIT;

	world_create(w, at->shape, at->seed);
	w->power.operations = 0;
	w->power.fault_at = at->at;
	w->power.fault = at->fault;
	int rc = pool_begin(w, &err);
	if (!rc)
		rc = work(w, 14, &err);
	at->reached = w->power.is_met;
	if (at->shape->parity || !at->reached) {
		must(rc, &err);
		blocks_check(w, true);
	}
	if (w->pool)
		pool_end(w, true);
	w->power.fault_at = 0;
	disks_take(w);
	power_init(&w->power, at->seed);
	disks_open(w, false);
	error_clear(&err);
	must(pool_begin(w, &err), &err);
	blocks_check(w, rc == 0);
	pool_end(w, false);
	world_free(w);
	free(w);
	return 0;
}

static void fail_everywhere(const char *name, enum crash_fault fault)
{
	for (unsigned seed = 1; seed <= seeds(1); seed++) {
		struct position at = {
			.shape = shape_named(name), .at = 1, .seed = seed, .fault = fault, .reached = true};

		for (at.at += fault % stride(8); at.reached; at.at += stride(8))
			simulate(one_fault, &at, seed, NULL);
		print_message(
			"%s, seed %u: faults at up to %llu operations\n", name, seed, (unsigned long long)at.at - 1);
	}
}

static void any_operation_may_fail(void **state)
{
	fail_everywhere("mirror", CRASH_EIO_ONCE);
	fail_everywhere("parity1", CRASH_EIO_ONCE);
	fail_everywhere("disk", CRASH_EIO_ONCE);
}
static void any_disk_may_begin_to_fail(void **state)
{
	fail_everywhere("mirror", CRASH_EIO_STICKY);
	fail_everywhere("parity1", CRASH_EIO_STICKY);
}
static void any_disk_may_vanish(void **state)
{
	fail_everywhere("mirror", CRASH_VANISH);
	fail_everywhere("parity2", CRASH_VANISH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_written_is_read),
		cmocka_unit_test(power_goes_anywhere_on_a_disk),
		cmocka_unit_test(power_goes_anywhere_on_a_mirror),
		cmocka_unit_test(power_goes_anywhere_on_parity),
		cmocka_unit_test(any_operation_may_fail),
		cmocka_unit_test(any_disk_may_begin_to_fail),
		cmocka_unit_test(any_disk_may_vanish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
