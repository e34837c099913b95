/*
 * The cache of records: bounded, not washed out by scans, ahead of those who read in sequence and of nobody else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mock_store.h"
#include "record.h"

#define KIB 1024u
#define MIB (1024u * 1024u)

static struct error err;

static void in_simulation(uint64_t seed, int (*run)(void *arg))
{
	struct os_simulation s;

	os_simulation_init(&s, seed);
	error_clear(&err);
	int rc = os_simulate(&s, run, NULL, &err);
	if (rc)
		print_message("seed %llu: %s\n", (unsigned long long)seed, err.text);
	assert_int_equal(rc, 0);
}

static uint8_t buffer[MIB];

static struct volume *filled(uint64_t bytes, uint32_t record_bytes, uint64_t cache_bytes, bool prefetch)
{
	struct volume *v = NULL;
	struct random r;

	mock_open(1, cache_bytes, 8 * MIB);
	mock.pool.tuning.no_prefetch = !prefetch;
	mock_volume(0, bytes, record_bytes);
	mock_start();
	random_seed(&r, 1);
	assert_int_equal(volume_open(&mock.pool, "tank/v0", &v, &err), 0);
	for (uint64_t at = 0; at < bytes; at += MIB) {
		random_fill(&r, buffer, min_of(bytes - at, (uint64_t)MIB));
		assert_int_equal(volume_write(v, at, buffer, min_of(bytes - at, (uint64_t)MIB), &err), 0);
	}
	assert_int_equal(volume_flush(v, &err), 0);
	pool_drop_cache(&mock.pool);
	return v;
}

static void read_at(struct volume *v, uint64_t offset, uint64_t bytes)
{
	assert_int_equal(volume_read(v, offset, buffer, bytes, &err), 0);
	struct pool_counters k;

	cache_counters(&mock.pool, &k);
	assert_true(k.cache_bytes <= mock.pool.cache->cap_bytes);
	assert_true(mock.pool.cache->buffers.resident_bytes <= mock.pool.cache->buffers.limit_bytes);
}

static int scan(void *arg)
{
	struct volume *v = filled(32 * MIB, 16 * KIB, 8 * MIB, false);
	struct random r;
	struct pool_counters before, after;

	random_seed(&r, 2);
	/* A working set of 2 MiB in a cache of 6 MiB, used many times. */
	for (unsigned i = 0; i < 1000; i++)
		read_at(v, random_below(&r, 128) * 16 * KIB, 4096);
	for (uint64_t at = 2 * MIB; at < 32 * MIB; at += 64 * KIB)
		read_at(v, at, 64 * KIB);
	cache_counters(&mock.pool, &before);
	for (unsigned i = 0; i < 1000; i++)
		read_at(v, random_below(&r, 128) * 16 * KIB, 4096);
	cache_counters(&mock.pool, &after);
	double hit = (double)(after.cache_hits - before.cache_hits) / 1000;
	print_message("after a scan of five times the cache: %.1f %% of the working set's reads hit\n", 100 * hit);
	assert_true(hit > 0.97);
	/* A new working set takes over: what was missed once comes back to stay. */
	for (unsigned i = 0; i < 4000; i++)
		read_at(v, (512 + random_below(&r, 300)) * 16 * KIB, 4096);
	cache_counters(&mock.pool, &before);
	for (unsigned i = 0; i < 1000; i++)
		read_at(v, (512 + random_below(&r, 300)) * 16 * KIB, 4096);
	cache_counters(&mock.pool, &after);
	hit = (double)(after.cache_hits - before.cache_hits) / 1000;
	print_message("a new working set: %.1f %% hit\n", 100 * hit);
	assert_true(hit > 0.9);
	volume_close(v);
	mock_close();
	return 0;
}

static void test_a_scan_does_not_wash_out_what_is_used(void **state)
{
	in_simulation(1, scan);
}

static int sizes(void *arg)
{
	struct volume *v[3];
	struct random r;

	mock_open(1, 8 * MIB, 4 * MIB);
	mock_volume(0, 8 * MIB, 4 * KIB);
	mock_volume(1, 24 * MIB, 64 * KIB);
	mock_volume(2, 24 * MIB, MIB);
	mock_start();
	random_seed(&r, 3);
	for (unsigned i = 0; i < 3; i++) {
		char path[32];

		snprintf(path, sizeof path, "tank/v%u", i);
		assert_int_equal(volume_open(&mock.pool, path, &v[i], &err), 0);
	}
	for (unsigned i = 0; i < 600; i++) {
		struct volume *w = v[i / 50 % 3];
		uint64_t at = random_below(&r, volume_size_bytes(w) / MIB) * MIB;

		if (random_below(&r, 2))
			assert_int_equal(volume_write(w, at, buffer, MIB, &err), 0);
		else
			read_at(w, at, MIB);
		assert_true(spill_dirty_bytes(&mock.pool) <= 4 * MIB);
	}
	/* Sizes take memory from each other, not from the system: all of it together is bounded. */
	print_message("%llu KiB resident of %llu\n", (unsigned long long)mock.pool.cache->buffers.resident_bytes / 1024,
		(unsigned long long)mock.pool.cache->buffers.limit_bytes / 1024);
	for (unsigned i = 0; i < 3; i++)
		volume_close(v[i]);
	mock_close();
	return 0;
}

static void test_records_of_all_sizes_share_one_bound(void **state)
{
	in_simulation(1, sizes);
}

static int sequential(void *arg)
{
	struct volume *v = filled(64 * MIB, 128 * KIB, 64 * MIB, true);
	struct pool_counters k;

	mock.read_ns = 20000000;
	uint64_t began = os_now_ns();
	for (uint64_t at = 0; at < 64 * MIB; at += 256 * KIB) {
		read_at(v, at, 256 * KIB);
		os_sleep_ns(1000000);
	}
	cache_counters(&mock.pool, &k);
	double ms = (double)(os_now_ns() - began) / 1e6;
	print_message(
		"256 reads of 20 ms and 1 ms of thought between: %.0f ms, %llu MiB read ahead, %llu MiB of it used\n",
		ms, (unsigned long long)k.prefetch_bytes / MIB, (unsigned long long)k.prefetch_hit_bytes / MIB);
	assert_true(ms < 700);
	assert_true(k.prefetch_bytes > 60 * (uint64_t)MIB && k.prefetch_bytes <= 64 * (uint64_t)MIB);
	assert_int_equal(k.prefetch_bytes, k.prefetch_hit_bytes);
	assert_int_equal(mock.records_read, 512); /* nothing twice */
	volume_close(v);
	mock_close();
	return 0;
}

static void test_a_reader_in_sequence_finds_it_there(void **state)
{
	in_simulation(1, sequential);
}

static int streams(void *arg)
{
	struct volume *v = filled(64 * MIB, 128 * KIB, 64 * MIB, true);
	struct pool_counters k;

	mock.read_ns = 1000000;
	for (uint64_t at = 0; at < 16 * MIB; at += 64 * KIB)
		for (unsigned s = 0; s < 4; s++)
			read_at(v, s * 16 * MIB + at, 64 * KIB);
	cache_counters(&mock.pool, &k);
	print_message("four streams: %llu MiB read ahead, %llu used\n", (unsigned long long)k.prefetch_bytes / MIB,
		(unsigned long long)k.prefetch_hit_bytes / MIB);
	assert_true(k.prefetch_hit_bytes > 55 * (uint64_t)MIB);
	assert_true(mock.records_read <= 600); /* windows are shared once the streams are known */
	volume_close(v);
	mock_close();
	return 0;
}

static void test_several_streams_are_told_apart(void **state)
{
	in_simulation(1, streams);
}

static int random_reads(void *arg)
{
	struct volume *v = filled(64 * MIB, 128 * KIB, 16 * MIB, true);
	struct pool_counters k;
	struct random r;

	random_seed(&r, 7);
	for (unsigned i = 0; i < 500; i++)
		read_at(v, random_below(&r, 512) * 128 * KIB, 128 * KIB);
	cache_counters(&mock.pool, &k);
	assert_true(k.prefetch_bytes <= MIB); /* a chance neighbour now and then */
	volume_close(v);
	mock_close();
	return 0;
}

static void test_random_readers_cause_no_read_ahead(void **state)
{
	in_simulation(1, random_reads);
}

/* --- one read for many ----------------------------------------------------------------------- */

static void reader_run(void *arg)
{
	struct error e = ERROR_INIT;
	uint8_t bytes[4096];

	sp_assert(!volume_read(arg, 0, bytes, sizeof bytes, &e));
}

static int together(void *arg)
{
	struct volume *v = filled(MIB, 128 * KIB, 16 * MIB, true);
	struct os_thread *threads[8];

	mock.read_ns = 1000000;
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(os_thread_create(&threads[i], "reader", reader_run, v, &err), 0);
	for (unsigned i = 0; i < 8; i++)
		os_thread_join(threads[i]);
	assert_int_equal(mock.records_read, 1);
	volume_close(v);
	mock_close();
	return 0;
}

static void test_readers_of_one_record_share_one_read(void **state)
{
	for (unsigned seed = 1; seed < 6; seed++)
		in_simulation(seed, together);
}

static int forget(void *arg)
{
	struct volume *v = filled(4 * MIB, 128 * KIB, 16 * MIB, true);

	read_at(v, 0, MIB);
	assert_int_equal(volume_write(v, 0, buffer, MIB, &err), 0);
	cache_forget(&mock.pool, 16);
	assert_int_equal(spill_dirty_bytes(&mock.pool), 0);
	assert_int_equal(spill_promised_bytes(&mock.pool), 0);
	assert_int_equal(mock.pool.cache->record_count, 0);
	memset(mock.now, 0, sizeof *mock.now); /* as after a rollback to before the first write */
	read_at(v, 0, MIB);
	for (unsigned i = 0; i < MIB; i++)
		assert_int_equal(buffer[i], 0);
	volume_close(v);
	mock_close();
	return 0;
}

static void test_what_is_forgotten_is_gone(void **state)
{
	in_simulation(1, forget);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_scan_does_not_wash_out_what_is_used),
		cmocka_unit_test(test_records_of_all_sizes_share_one_bound),
		cmocka_unit_test(test_a_reader_in_sequence_finds_it_there),
		cmocka_unit_test(test_several_streams_are_told_apart),
		cmocka_unit_test(test_random_readers_cause_no_read_ahead),
		cmocka_unit_test(test_readers_of_one_record_share_one_read),
		cmocka_unit_test(test_what_is_forgotten_is_gone),
	};
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
