/* The embedded array as a target: rates against arithmetic, evidence, degraded and dying disks. Virtual time. */
#include "testing.h"

static struct target *array_on(const struct disks *d, const char *layout)
{
	struct error err = ERROR_INIT;
	struct target *t = NULL;
	double create_s;
	const struct target_array_options o = {.layout = layout};

	assert_ok(target_open_array(&o, d->disk, d->count, &t, &create_s, &err), &err);
	assert_true(create_s >= 0);
	return t;
}

/* A15: four disks of 10 ms. One request at a time is one disk's rate; thirty-two keep all four busy. */
VIRTUAL_TEST(depth_makes_a_stripe_fast)
{
	struct disks d = {0};
	struct error err = ERROR_INIT;

	disks_open_more(&d, "mem:32MiB+model=ssd-sata,iops=100*4");
	struct target *t = array_on(&d, "stripe");
	struct workload w = scattered(100, 4 * KiB, 32 * MiB, 1, 10 * SECOND);
	assert_ok(bench_fill(t, &w, NULL, &err), &err);
	struct cell c = run_on(t, &w, NULL);
	assert_near(c.iops, 100, 0.05);
	w.depth = 32;
	c = run_on(t, &w, NULL);
	assert_true(c.iops >= 320 && c.iops <= 410);
	target_close(t);
	disks_close(&d);
}

VIRTUAL_TEST(a_stripe_streams_at_the_sum_of_its_disks)
{
	struct disks d = {0};
	struct bench_limit limit;
	struct error err = ERROR_INIT;

	disks_open_more(&d, "mem:96MiB+model=ssd-sata,mb_s=50,cache_mib=0*4");
	for (unsigned read = 0; read <= 100; read += 100) {
		struct workload w = sequential(read, MiB, 320 * MiB);
		assert_ok(bench_limit_measure(d.disk, 4, &w, 80 * MiB, &limit, &err), &err);
		struct target *t = array_on(&d, "stripe");
		if (read)
			assert_ok(bench_fill(t, &w, NULL, &err), &err);
		struct cell c = run_on(t, &w, &limit);
		assert_near(c.mb_per_s, 200, 0.06);
		assert_near(c.efficiency, 1, 0.06);
		assert_verdict(&c, VERDICT_VALID);
		assert_string_equal(c.state, "healthy");
		assert_string_equal(c.road, "library");
		assert_near((double)(read ? c.device_read_bytes : c.device_write_bytes), 320.0 * MiB, 0.03);
		target_close(t);
	}
	disks_close(&d);
}

VIRTUAL_TEST(small_writes_of_parity_show_their_amplification)
{
	struct disks d = {0};
	struct error err = ERROR_INIT;

	disks_open_more(&d, "mem:32MiB+model=ssd-sata*4");
	struct target *t = array_on(&d, "raid5");
	struct workload w = scattered(0, 8 * KiB, 64 * MiB, 16, 2 * SECOND);
	assert_ok(bench_fill(t, &w, NULL, &err), &err);
	struct cell c = run_on(t, &w, NULL);
	assert_not_noted(&c, VERDICT_FAILED);
	if (!(c.device_write_bytes > 1.3 * (double)c.logical_bytes)) /* data, parity, log */
		fail_msg("%.1f MB written for %.1f MB", (double)c.device_write_bytes / 1e6,
			(double)c.logical_bytes / 1e6);
	assert_int_equal(c.failures_survived, 1);
	target_close(t);
	disks_close(&d);
}

VIRTUAL_TEST(a_dying_member_makes_the_row_degraded)
{
	struct disks d = {0};

	disks_open_more(&d, "mem:64MiB+model=ssd-sata,mb_s=50*3");
	disks_open_more(&d, "mem:64MiB+model=ssd-sata,mb_s=50+fault=vanish,op=write,nth=12");
	struct target *t = array_on(&d, "raid5");
	struct workload w = sequential(0, MiB, 128 * MiB);
	struct cell c = run_on(t, &w, NULL);
	assert_noted(&c, VERDICT_DEGRADED);
	assert_string_equal(c.state, "degraded");
	target_close(t);
	disks_close(&d);
}

VIRTUAL_TEST(a_dying_disk_of_a_stripe_fails_the_row)
{
	struct disks d = {0};

	disks_open_more(&d, "mem:64MiB+model=ssd-sata,mb_s=50*3");
	disks_open_more(&d, "mem:64MiB+model=ssd-sata,mb_s=50+fault=vanish,op=write,nth=12");
	struct target *t = array_on(&d, "stripe");
	struct workload w = sequential(0, MiB, 128 * MiB);
	struct cell c = run_on(t, &w, NULL);
	assert_verdict(&c, VERDICT_FAILED);
	assert_true(isnan(c.mb_per_s));
	target_close(t);
	disks_close(&d);
}

VIRTUAL_TEST(layouts_that_do_not_fit_are_refused_in_words)
{
	struct disks d = {0};
	struct error err = ERROR_INIT;
	struct target *t = NULL;
	double create_s;
	const struct target_array_options o = {.layout = "raid6"};

	disks_open_more(&d, "mem:32MiB*2");
	assert_int_equal(target_open_array(&o, d.disk, d.count, &t, &create_s, &err), ERR_USAGE);
	assert_true(err.text[0]);
	assert_null(t);
	disks_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(depth_makes_a_stripe_fast),
		cmocka_unit_test(a_stripe_streams_at_the_sum_of_its_disks),
		cmocka_unit_test(small_writes_of_parity_show_their_amplification),
		cmocka_unit_test(a_dying_member_makes_the_row_degraded),
		cmocka_unit_test(a_dying_disk_of_a_stripe_fails_the_row),
		cmocka_unit_test(layouts_that_do_not_fit_are_refused_in_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
