/* What things cost the disks, exactly: small writes, rows that were never written, full rows, marks. */
#include "world.h"

struct sums {
	uint64_t reads, writes, flushes, read_bytes, write_bytes;
};

static struct sums sums_of(const struct world *w)
{
	struct sums s = {0};

	for (unsigned i = 0; i < w->count; i++) {
		struct disk_counters c;

		disk_counters(w->disks[i], &c);
		s.reads += c.op[DISK_READ].done;
		s.writes += c.op[DISK_WRITE].done;
		s.flushes += c.op[DISK_FLUSH].done;
		s.read_bytes += c.op[DISK_READ].bytes;
		s.write_bytes += c.op[DISK_WRITE].bytes;
	}
	return s;
}

struct cost {
	const char *layout;
	unsigned disks, reads, writes;
};

/* 1,000 overwrites of 4 KiB, each flushed, in `bitmap` mode, once all regions are marked: nothing but the rule's I/Os.
 */
static int overwrites(void *arg)
{
	const struct cost *cost = arg;
	struct world w;
	struct array_status *st = malloc(sizeof *st);

	world_init(&w, 1);
	world_disks(&w, cost->disks, 24 << 20);
	world_create(&w, cost->layout, 64 << 10, ARRAY_HOLE_BITMAP);
	world_open(&w);
	for (uint64_t at = 0; at < w.size; at += 1 << 20)
		world_write(&w, at, w.size - at < 1 << 20 ? w.size - at : 1 << 20);
	world_flush(&w);
	array_status_get(w.array, st);
	uint64_t rows = st->counters.rows_never + st->counters.rows_clean + st->counters.rows_dirty;
	for (uint64_t r = 0; r < rows && rows; r++) /* marks */
		world_write(&w, w.size / rows * r / 512 * 512, 512);
	world_flush(&w);
	array_status_get(w.array, st);
	uint64_t marks = st->counters.map_writes;
	struct sums before = sums_of(&w);
	for (unsigned i = 0; i < 1000; i++) {
		world_write(&w, random_below(&w.random, w.size / 4096) * 4096, 4096);
		world_flush(&w);
	}
	struct sums after = sums_of(&w);
	array_status_get(w.array, st);
	assert_int_equal(st->counters.map_writes, marks);
	assert_int_equal(after.reads - before.reads, 1000 * cost->reads);
	assert_int_equal(after.writes - before.writes, 1000 * cost->writes);
	assert_int_equal(after.read_bytes - before.read_bytes, 4096000 * (uint64_t)cost->reads);
	assert_int_equal(after.write_bytes - before.write_bytes, 4096000 * (uint64_t)cost->writes);
	world_check_all(&w);
	world_close(&w);
	world_free(&w);
	free(st);
	return 0;
}

static void test_overwrites(void **state)
{
	static const struct cost costs[] = {{"stripe", 4, 0, 1}, {"mirror", 2, 0, 2}, {"mirror", 3, 0, 3},
		{"raid10", 4, 0, 2}, {"raid10-far", 4, 0, 2}, {"raid5", 5, 2, 2}, {"raid6", 7, 3, 3},
		{"raid50", 10, 2, 2}};

	for (size_t i = 0; i < array_count(costs); i++)
		simulated(overwrites, (void *)&costs[i], i);
}

/* Rows that were never written are read without I/O, and their first write reads nothing. */
static int never(void *arg)
{
	struct world w;

	world_init(&w, 2);
	world_disks(&w, 5, 24 << 20);
	world_create(&w, "raid5", 64 << 10, ARRAY_HOLE_LOG);
	world_open(&w);
	struct sums before = sums_of(&w);
	world_check_all(&w);
	struct sums after = sums_of(&w);
	assert_int_equal(after.reads, before.reads);
	world_write(&w, 5 * 4096, 4096);
	world_flush(&w);
	struct sums written = sums_of(&w);
	assert_int_equal(written.reads, after.reads);
	/* the row on five disks, the map on two: fresh, then clean */
	assert_int_equal(written.writes - after.writes, 5 + 2 + 2);
	world_check_all(&w);
	world_close(&w);
	world_free(&w);
	return 0;
}

/* A stream of full rows costs the disks what it is, and next to nothing for the map. */
static int full_rows(void *arg)
{
	const char *layout = arg;
	struct world w;
	struct array_status *st = malloc(sizeof *st);

	world_init(&w, 3);
	world_disks(&w, 6, 64 << 20);
	world_create(&w, layout, 64 << 10, ARRAY_HOLE_LOG);
	world_open(&w);
	for (unsigned pass = 0; pass < 2; pass++) {
		struct sums before = sums_of(&w);
		uint64_t row = 4 * 64 << 10, end = w.size / row * row;

		for (uint64_t at = 0; at < end; at += 1 << 20)
			world_write(&w, at, end - at < 1 << 20 ? end - at : 1 << 20);
		world_flush(&w);
		struct sums after = sums_of(&w);
		array_status_get(w.array, st);
		uint64_t factor_1000 = (after.write_bytes - before.write_bytes) * 1000 / end;
		uint64_t right_1000 = st->layout.parity ? 6000 / (6 - st->layout.parity) : 2000;
		/* The first 4 MiB of what is overwritten may go through the log as well. */
		uint64_t log_1000 = pass ? (uint64_t)(8 << 20) * right_1000 / end * (st->layout.parity + 1) : 0;
		assert_in_range(factor_1000, right_1000, right_1000 * 102 / 100 + log_1000);
		assert_true((after.read_bytes - before.read_bytes) * 100 < end); /* a last row at most */
	}
	world_check_all(&w);
	world_sound(&w);
	world_close(&w);
	world_free(&w);
	free(st);
	return 0;
}

/* Reads that follow no order fetch what they ask for and nothing else. */
static int random_reads(void *arg)
{
	struct world w;
	struct array_status *st = malloc(sizeof *st);

	world_init(&w, 4);
	world_disks(&w, 4, 64 << 20);
	world_create(&w, arg, 128 << 10, ARRAY_HOLE_LOG);
	world_open(&w);
	for (uint64_t at = 0; at + (1 << 20) <= w.size; at += 1 << 20)
		world_write(&w, at, 1 << 20);
	world_flush(&w);
	struct sums before = sums_of(&w);
	for (unsigned i = 0; i < 2000; i++)
		world_check(&w, random_below(&w.random, w.size / 4096) * 4096, 4096);
	struct sums after = sums_of(&w);
	array_status_get(w.array, st);
	assert_int_equal(st->counters.read_ahead_bytes, 0);
	assert_int_equal(after.reads - before.reads, 2000);
	/* One in sequence: all that was fetched ahead is used, and each byte is read once. */
	before = sums_of(&w);
	for (uint64_t at = 0; at + (128 << 10) <= w.size; at += 128 << 10)
		world_check(&w, at, 128 << 10);
	after = sums_of(&w);
	assert_in_range(after.read_bytes - before.read_bytes, w.size / 100 * 98, w.size / 100 * 102);
	array_status_get(w.array, st);
	assert_in_range(st->counters.read_ahead_hit_bytes, w.size / 100 * 95, w.size);
	world_close(&w);
	world_free(&w);
	free(st);
	return 0;
}

static void test_never(void **state)
{
	simulated(never, NULL, 1);
}
static void test_full_rows(void **state)
{
	simulated(full_rows, (void *)"raid5", 1);
	simulated(full_rows, (void *)"raid6", 2);
	simulated(full_rows, (void *)"raid10", 3);
}
static void test_random_reads(void **state)
{
	simulated(random_reads, (void *)"stripe", 1);
	simulated(random_reads, (void *)"raid10", 2);
	simulated(random_reads, (void *)"raid5", 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_overwrites), cmocka_unit_test(test_never),
		cmocka_unit_test(test_full_rows), cmocka_unit_test(test_random_reads)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
