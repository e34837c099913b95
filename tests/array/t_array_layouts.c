/* Every layout against a plain copy: random work, reopened in any order, one member less, and whole again. */
#include "world.h"

struct shape {
	const char *layout;
	unsigned disks;
	uint64_t chunk;
	enum array_hole hole;
	uint64_t seed;
};

static const struct shape shapes[] = {
	{"single", 1, 128 << 10, ARRAY_HOLE_LOG, 1},
	{"concat", 3, 64 << 10, ARRAY_HOLE_LOG, 2},
	{"stripe", 4, 128 << 10, ARRAY_HOLE_LOG, 3},
	{"mirror", 2, 128 << 10, ARRAY_HOLE_LOG, 4},
	{"mirror", 3, 4 << 10, ARRAY_HOLE_BITMAP, 5},
	{"mirrorx2", 4, 64 << 10, ARRAY_HOLE_LOG, 6},
	{"raid10", 5, 32 << 10, ARRAY_HOLE_LOG, 7},
	{"raid10", 4, 128 << 10, ARRAY_HOLE_LOG, 8},
	{"raid10-far", 4, 64 << 10, ARRAY_HOLE_LOG, 9},
	{"raid10-offset", 3, 64 << 10, ARRAY_HOLE_LOG, 10},
	{"raid01", 4, 64 << 10, ARRAY_HOLE_LOG, 11},
	{"raid4", 4, 64 << 10, ARRAY_HOLE_LOG, 12},
	{"raid5", 3, 4 << 10, ARRAY_HOLE_LOG, 13},
	{"raid5", 4, 128 << 10, ARRAY_HOLE_LOG, 14},
	{"raid5", 5, 64 << 10, ARRAY_HOLE_BITMAP, 15},
	{"raid6", 4, 64 << 10, ARRAY_HOLE_LOG, 16},
	{"raid6", 6, 16 << 10, ARRAY_HOLE_BITMAP, 17},
	{"raid6", 8, 128 << 10, ARRAY_HOLE_LOG, 18},
	{"raid50", 6, 64 << 10, ARRAY_HOLE_LOG, 19},
	{"raid60", 8, 32 << 10, ARRAY_HOLE_LOG, 20},
	{"raid5", 4, 4 << 20, ARRAY_HOLE_LOG, 21},
	{"raid6", 5, 1 << 20, ARRAY_HOLE_BITMAP, 22},
};

static bool is_redundant(const struct shape *s)
{
	return strcmp(s->layout, "single") && strcmp(s->layout, "concat") && strcmp(s->layout, "stripe");
}

static int work_and_reopen(void *arg)
{
	const struct shape *s = arg;
	struct world w;

	world_init(&w, s->seed);
	world_disks(&w, s->disks, 24 << 20);
	world_soil(&w);
	world_create(&w, s->layout, s->chunk, s->hole);
	world_open(&w);
	if (is_redundant(s))
		world_check_all(&w); /* zeros, whatever lay on the disks */
	else
		for (uint64_t at = 0; at < w.size; at += 1 << 20)
			world_write(&w, at, w.size - at < 1 << 20 ? w.size - at : 1 << 20);
	for (unsigned round = 0; round < 4; round++) {
		world_work(&w, 60);
		world_close(&w);
		world_open(&w);
		world_check_all(&w);
	}
	struct array_status *st = malloc(sizeof *st);
	array_status_get(w.array, st);
	assert_int_equal(st->state, ARRAY_HEALTHY);
	if (layout_failures_survived(&st->layout))
		world_sound(&w);
	free(st);
	world_close(&w);
	world_free(&w);
	return 0;
}

static int work_degraded(void *arg)
{
	const struct shape *s = arg;
	struct world w;
	struct error err = ERROR_INIT;
	struct array_status *st = malloc(sizeof *st);

	world_init(&w, s->seed + 100);
	world_disks(&w, s->disks, 24 << 20);
	if (is_redundant(s))
		world_soil(&w);
	world_create(&w, s->layout, s->chunk, s->hole);
	world_open(&w);
	world_work(&w, 60);
	array_status_get(w.array, st);
	unsigned survive = layout_failures_survived(&st->layout);
	world_close(&w);
	struct disk *out[2] = {NULL, NULL};
	unsigned where[2] = {0, 0};
	for (unsigned k = 0; k < survive && k < 2; k++) {
		do
			where[k] = (unsigned)random_below(&w.random, w.count);
		while (!w.disks[where[k]]);
		out[k] = w.disks[where[k]];
		w.disks[where[k]] = NULL;
	}
	if (!survive) {
		out[0] = w.disks[0];
		w.disks[0] = NULL;
		int rc = world_try_open(&w, &err);
		assert_true(rc == ERR_LOST || rc == ERR_NOT_FOUND);
		w.disks[0] = out[0];
		world_free(&w);
		free(st);
		return 0;
	}
	world_open(&w);
	array_status_get(w.array, st);
	assert_int_equal(st->state, ARRAY_DEGRADED);
	if (st->layout.groups == 1 || survive == 1) /* else the two may be of different groups */
		assert_int_equal(st->failures_left, survive == 1 ? 0 : survive - 2);
	world_check_all(&w);
	world_work(&w, 60);
	world_check_all(&w);
	world_close(&w);
	/* They come back stale: not trusted. */
	for (unsigned k = 0; k < 2 && out[k]; k++)
		w.disks[where[k]] = out[k];
	world_open(&w);
	array_status_get(w.array, st);
	assert_int_equal(st->state, ARRAY_DEGRADED);
	world_check_all(&w);
	for (unsigned i = 0; i < st->member_count; i++)
		if (st->members[i].state == ARRAY_MEMBER_FAULTED) {
			must(array_replace(w.array, i, (struct disk *)st->members[i].disk, false, NULL, NULL, &err),
				&err);
			world_work(&w, 20);
		}
	array_status_get(w.array, st);
	assert_int_equal(st->state, ARRAY_HEALTHY);
	world_check_all(&w);
	world_sound(&w);
	world_close(&w);
	world_open(&w);
	world_check_all(&w);
	world_sound(&w);
	world_close(&w);
	world_free(&w);
	free(st);
	return 0;
}

static void test_work(void **state)
{
	for (size_t i = 0; i < array_count(shapes); i++) {
		print_message("%s over %u disks, chunk %llu\n", shapes[i].layout, shapes[i].disks,
			(unsigned long long)shapes[i].chunk);
		simulated(work_and_reopen, (void *)&shapes[i], shapes[i].seed);
	}
}

static void test_degraded(void **state)
{
	for (size_t i = 0; i < array_count(shapes); i++) {
		print_message("%s over %u disks, chunk %llu\n", shapes[i].layout, shapes[i].disks,
			(unsigned long long)shapes[i].chunk);
		simulated(work_degraded, (void *)&shapes[i], shapes[i].seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_work), cmocka_unit_test(test_degraded)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
