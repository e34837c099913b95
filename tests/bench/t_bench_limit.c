/* Limits and rates of modelled disks against arithmetic. Virtual time. */
#include "testing.h"

static struct bench_limit limit_of(const char *word, const char *more, const struct workload *w, uint64_t span_each)
{
	struct disks d = {0};
	struct bench_limit limit;
	struct error err = ERROR_INIT;

	disks_open_more(&d, word);
	if (more)
		disks_open_more(&d, more);
	assert_ok(bench_limit_measure(d.disk, d.count, w, span_each, &limit, &err), &err);
	disks_close(&d);
	return limit;
}

VIRTUAL_TEST(streams_of_n_disks_are_n_times_one)
{
	struct workload w = sequential(100, 16 * MiB, 64 * MiB);
	struct bench_limit one = limit_of("mem:64MiB+model=hdd-7200-2008,zones=0", NULL, &w, 64 * MiB);
	struct bench_limit eight = limit_of("mem:64MiB+model=hdd-7200-2008,zones=0*8", NULL, &w, 64 * MiB);

	assert_near(one.mb_per_s, 55, 0.03);
	assert_near(eight.mb_per_s, 8 * one.mb_per_s, 0.01);
	assert_near(eight.alone_mb_per_s, eight.mb_per_s, 0.03);
	assert_true(eight.slowest_share > 0.98 && eight.slowest_share <= 1);
	assert_true(isnan(eight.model_mb_per_s));
	w.read_percent = 0;
	eight = limit_of("mem:64MiB+model=hdd-7200-2008,zones=0*8", NULL, &w, 64 * MiB);
	assert_near(eight.mb_per_s, 440, 0.03);
}

/* A disk with 8.33 ms a turn and 8.9 ms a seek does about 77 random reads a second one by one; at depth 4 more. */
VIRTUAL_TEST(random_limits_are_at_depth_four)
{
	struct workload w = scattered(100, 4 * KiB, 64 * MiB, 1, 20 * SECOND);
	struct cell one = run_word("mem:64MiB+model=hdd-7200-2008", NULL, &w, false);
	struct bench_limit limit = limit_of("mem:64MiB+model=hdd-7200-2008*4", NULL, &w, 64 * MiB);

	assert_true(one.iops > 70 && one.iops < 90);
	double each = limit.mb_per_s * 1e6 / 4096 / 4;
	assert_true(each > 1.2 * one.iops && each < 1.8 * one.iops);
}

/* Else what is asked for with more in flight would stand above what is possible. */
VIRTUAL_TEST(what_asks_for_more_in_flight_gets_as_many)
{
	struct workload w = scattered(100, 4 * KiB, 4 * 16 * MiB, 64, 10 * SECOND);
	struct bench_limit limit = limit_of("mem:16MiB+model=ssd-sata,iops=100*4", NULL, &w, 16 * MiB);
	struct cell c = run_word("mem:16MiB+model=ssd-sata,iops=100*4", NULL, &w, false);

	assert_true(limit.mb_per_s >= 0.95 * c.mb_per_s);
	w.depth = 8;
	w.jobs = 8;
	struct bench_limit jobs = limit_of("mem:16MiB+model=ssd-sata,iops=100*4", NULL, &w, 16 * MiB);
	assert_near(jobs.mb_per_s, limit.mb_per_s, 0.02);
}

VIRTUAL_TEST(fixed_latency_disks_scale_with_depth)
{
	struct workload w = scattered(100, 4 * KiB, 4 * 16 * MiB, 1, 10 * SECOND);
	/* 10 ms each: 100 a second alone, whatever the number of disks */
	struct cell c = run_word("mem:16MiB+model=ssd-sata,iops=100*4", NULL, &w, false);
	assert_near(c.iops, 100, 0.05);
	w.depth = 32;
	c = run_word("mem:16MiB+model=ssd-sata,iops=100*4", NULL, &w, false);
	assert_true(c.iops >= 320 && c.iops <= 405);
}

VIRTUAL_TEST(a_shared_bus_and_a_slow_disk_are_told_apart)
{
	struct workload w = sequential(100, MiB, 64 * MiB);
	struct bench_limit bus = limit_of("mem:16MiB+model=ssd-sata,mb_s=50,bus=b,bus_mb_s=100*4", NULL, &w, 16 * MiB);
	assert_near(bus.mb_per_s, 100, 0.05);
	assert_near(bus.alone_mb_per_s, 200, 0.05);
	assert_true(bus.slowest_share > 0.95);
	assert_true(bench_limit_is_shared(&bus));
	struct bench_limit slow =
		limit_of("mem:16MiB+model=ssd-sata,mb_s=100*6", "mem:17MiB+model=ssd-sata,mb_s=60*2", &w, 16 * MiB);
	assert_near(slow.slowest_share, 0.6, 0.05);
	assert_non_null(strstr(slow.slow_names, "mem:17MiB"));
	assert_near(slow.mb_per_s, 720, 0.05);
	assert_true(slow.mb_per_s > 0.95 * slow.alone_mb_per_s);
	assert_false(bench_limit_is_shared(&slow));
}

/* An array goes at the pace of its slowest member, and both that hold it up are told. */
VIRTUAL_TEST(two_slow_disks_are_both_named_and_set_the_pace)
{
	struct workload w = sequential(100, MiB, 64 * MiB);
	struct bench_limit l =
		limit_of("mem:16MiB+model=ssd-sata,mb_s=100*6", "mem:17MiB+model=ssd-sata,mb_s=60*2", &w, 16 * MiB);

	assert_non_null(strstr(l.slow_names, ", mem:17MiB"));
	assert_near(bench_limit_one(&l, 8), 60, 0.05);
	l = limit_of("mem:16MiB+model=ssd-sata,mb_s=100*6", "mem:17MiB+model=ssd-sata,mb_s=95*2", &w, 16 * MiB);
	assert_string_equal(l.slow_names, "");
	assert_near(bench_limit_one(&l, 8), l.mb_per_s / 8, 0.001);
	l = limit_of("mem:16MiB+model=ssd-sata,mb_s=100*30", "mem:17MiB+model=ssd-sata,mb_s=60*20", &w, 16 * MiB);
	assert_non_null(strstr(l.slow_names, " more"));
}

/* What a write-back buffer makes of random writes is within the limit, in an array of one disk too. */
VIRTUAL_TEST(buffered_random_writes_stay_below_their_limit)
{
	const struct target_array_options o = {.layout = "stripe", .chunk_bytes = 128 * KiB};
	const unsigned counts[] = {1, 4};

	for (unsigned i = 0; i < array_count(counts); i++) {
		struct workload w = scattered(0, 8 * KiB, counts[i] * 80 * MiB, 4 * counts[i], 20 * SECOND);
		struct disks d = {0};
		struct bench_limit limit;
		struct error err = ERROR_INIT;
		struct target *t;
		double seconds;

		disks_open_more(&d, counts[i] == 1 ? "mem:512MiB+model=hdd-7200-2008" : "mem:512MiB+model=hdd-7200-2008*4");
		assert_ok(bench_limit_measure(d.disk, d.count, &w, 80 * MiB, &limit, &err), &err);
		struct target_array_options one = o;
		one.layout = counts[i] == 1 ? "single" : "stripe";
		assert_ok(target_open_array(&one, d.disk, d.count, &t, &seconds, &err), &err);
		assert_ok(bench_fill(t, &w, NULL, &err), &err);
		struct cell c = run_on(t, &w, &limit);
		target_close(t);
		disks_close(&d);
		if (!(c.mb_per_s < 1.02 * limit.mb_per_s && c.mb_per_s > 0.4 * limit.mb_per_s))
			fail_msg("%u disks: %.2f MB/s, limit %.2f", counts[i], c.mb_per_s, limit.mb_per_s);
	}
}

VIRTUAL_TEST(a_limit_is_stable_and_seeded)
{
	struct workload w = scattered(100, 128 * KiB, 64 * MiB, 16, 3 * SECOND);
	struct bench_limit a = limit_of("mem:64MiB+model=hdd-7200-2008*2", NULL, &w, 64 * MiB);
	struct bench_limit b = limit_of("mem:64MiB+model=hdd-7200-2008*2", NULL, &w, 64 * MiB);
	assert_near(a.mb_per_s, b.mb_per_s, 0.03);
	w.seed = 2;
	b = limit_of("mem:64MiB+model=hdd-7200-2008*2", NULL, &w, 64 * MiB);
	assert_near(a.mb_per_s, b.mb_per_s, 0.06);
}

VIRTUAL_TEST(a_failing_disk_is_an_error_and_too_small_a_span_too)
{
	struct disks d = {0};
	struct bench_limit limit = {.mb_per_s = -1};
	struct error err = ERROR_INIT;
	struct workload w = sequential(100, MiB, 64 * MiB);

	disks_open_more(&d, "mem:16MiB+model=ssd-sata*2");
	disks_open_more(&d, "mem:18MiB+model=ssd-sata+fault=eio,op=read,nth=3");
	assert_true(bench_limit_measure(d.disk, 3, &w, 16 * MiB, &limit, &err) < 0);
	assert_non_null(strstr(err.text, "mem:18MiB"));
	assert_true(limit.mb_per_s == -1); /* ret_ values are set only on success */
	error_clear(&err);
	w.random = true;
	w.block_bytes = 32 * MiB;
	assert_int_equal(bench_limit_measure(d.disk, 2, &w, 16 * MiB, &limit, &err), ERR_TOO_SMALL);
	disks_close(&d);
}

/* Same seed, same cell, to the last bit. */
static struct cell replayed;
static void replay_body(void)
{
	struct workload w = scattered(50, 8 * KiB, 64 * MiB, 8, 3 * SECOND);

	replayed = run_word("mem:16MiB+model=hdd-7200-2008*4", NULL, &w, false);
}

static void the_same_seed_gives_the_same_cell(void **state)
{
	simulate(replay_body, 5);
	struct cell first = replayed;
	simulate(replay_body, 5);
	assert_true(first.mb_per_s == replayed.mb_per_s && first.latency_max_ns == replayed.latency_max_ns);
	assert_memory_equal(first.samples, replayed.samples, first.sample_count * sizeof(double));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams_of_n_disks_are_n_times_one),
		cmocka_unit_test(random_limits_are_at_depth_four),
		cmocka_unit_test(what_asks_for_more_in_flight_gets_as_many),
		cmocka_unit_test(fixed_latency_disks_scale_with_depth),
		cmocka_unit_test(a_shared_bus_and_a_slow_disk_are_told_apart),
		cmocka_unit_test(two_slow_disks_are_both_named_and_set_the_pace),
		cmocka_unit_test(buffered_random_writes_stay_below_their_limit),
		cmocka_unit_test(a_limit_is_stable_and_seeded),
		cmocka_unit_test(a_failing_disk_is_an_error_and_too_small_a_span_too),
		cmocka_unit_test(the_same_seed_gives_the_same_cell),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
