#include "testing.h"

static void survey(struct survey *s, const char *word, const char *more, bool write)
{
	struct disks d = {0};
	struct error err = ERROR_INIT;
	const struct survey_options o = {.write = write, .seconds_each_ns = 2 * SECOND};

	disks_open_more(&d, word);
	if (more)
		disks_open_more(&d, more);
	assert_ok(survey_run(d.disk, d.count, &o, NULL, s, &err), &err);
	assert_int_equal(s->disk_count, d.count);
	for (unsigned i = 0; i < d.count; i++) {
		struct disk_counters c;
		disk_counters(d.disk[i], &c);
		if (!write && (c.op[DISK_WRITE].done || c.op[DISK_FLUSH].done || c.op[DISK_DISCARD].done))
			fail_msg("a survey that only reads wrote");
	}
	disks_close(&d);
}

VIRTUAL_TEST(a_rotating_disk_is_what_its_model_says)
{
	struct survey s;

	survey(&s, "mem:64MiB+model=hdd-7200-2008*2", NULL, false);
	for (unsigned i = 0; i < 2; i++) {
		struct survey_disk *d = &s.disks[i];
		assert_string_equal(d->error, "");
		assert_near(d->outer_mb_per_s, 55, 0.08);
		assert_true(
			d->inner_mb_per_s > 0.45 * d->outer_mb_per_s && d->inner_mb_per_s < 0.6 * d->outer_mb_per_s);
		assert_true(d->random_iops >= 70 && d->random_iops <= 90);
		assert_true(d->random32_iops >= 1.6 * d->random_iops && d->random32_iops <= 2.4 * d->random_iops);
		assert_false(d->slow || d->e512);
		assert_true(isnan(d->flush_ms) && isnan(d->write_outer_mb_per_s) && isnan(d->ms_512));
	}
	assert_false(s.bus_bound);
	assert_near(s.sum_together_mb_per_s, s.sum_alone_mb_per_s, 0.05);
	assert_true(isnan(s.bus_mb_per_s));
	survey_release(&s);
	survey_release(NULL);
}

VIRTUAL_TEST(the_slow_disk_the_bus_and_the_512e_disk_are_named)
{
	struct survey s;

	survey(&s, "mem:32MiB+model=ssd-sata,mb_s=100*3", "mem:33MiB+model=ssd-sata,mb_s=60", false);
	assert_true(!s.disks[0].slow && !s.disks[1].slow && !s.disks[2].slow && s.disks[3].slow);
	survey_release(&s);
	survey(&s, "mem:32MiB+model=ssd-sata,mb_s=100,bus=x,bus_mb_s=150*3", NULL, false);
	assert_true(s.bus_bound);
	assert_near(s.bus_mb_per_s, 150, 0.05);
	assert_true(!s.disks[0].slow && !s.disks[2].slow);
	survey_release(&s);
	survey(&s, "mem:64MiB+model=hdd-5400-512e", "mem:64MiB+model=hdd-7200-2008", false);
	assert_true(s.disks[0].e512 && !s.disks[1].e512);
	survey_release(&s);
}

VIRTUAL_TEST(a_disk_that_answers_late_is_slow)
{
	struct survey s;

	survey(&s, "mem:32MiB+model=ssd-sata*3", "mem:33MiB+model=ssd-sata+fault=slow,ms=200", false);
	assert_true(!s.disks[0].slow && s.disks[3].slow);
	survey_release(&s);
}

VIRTUAL_TEST(writing_when_allowed_and_the_data_stays)
{
	struct survey s;
	struct disks d = {0};
	struct error err = ERROR_INIT;
	const struct survey_options o = {.write = true, .seconds_each_ns = SECOND};
	uint8_t *before = aligned_alloc(4096, 64 * MiB), *after = aligned_alloc(4096, 64 * MiB);
	struct random r;

	disks_open_more(&d, "mem:64MiB+model=hdd-5400-512e");
	random_seed(&r, 1);
	random_fill(&r, before, 64 * MiB);
	assert_ok(disk_write(d.disk[0], 0, before, 64 * MiB, &err), &err);
	assert_ok(survey_run(d.disk, 1, &o, NULL, &s, &err), &err);
	assert_ok(disk_read(d.disk[0], 0, after, 64 * MiB, &err), &err);
	assert_memory_equal(before, after, 64 * MiB);
	assert_true(s.disks[0].write_outer_mb_per_s > 30);
	assert_true(s.disks[0].flush_ms > 0.2);
	/* 512 bytes on sectors of 4096 cost a turn (11 ms) more */
	assert_true(s.disks[0].ms_512 > s.disks[0].ms_4096 + 3);
	assert_true(s.disks[0].e512);
	survey_release(&s);
	disks_close(&d);
	free(before);
	free(after);
}

VIRTUAL_TEST(a_failing_disk_has_its_error_and_the_others_their_figures)
{
	struct survey s;

	survey(&s, "mem:32MiB+model=ssd-sata*2", "mem:33MiB+model=ssd-sata+fault=eio,op=read,nth=5,sticky=1", false);
	assert_non_null(strstr(s.disks[2].error, "mem:33MiB"));
	assert_string_equal(s.disks[0].error, "");
	assert_true(s.disks[0].together_mb_per_s > 0 && isnan(s.disks[2].together_mb_per_s));
	assert_false(s.bus_bound || s.disks[0].slow);
	survey_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rotating_disk_is_what_its_model_says),
		cmocka_unit_test(the_slow_disk_the_bus_and_the_512e_disk_are_named),
		cmocka_unit_test(a_disk_that_answers_late_is_slow),
		cmocka_unit_test(writing_when_allowed_and_the_data_stays),
		cmocka_unit_test(a_failing_disk_has_its_error_and_the_others_their_figures),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
