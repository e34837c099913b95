/*
 * Every verdict with what deserves it planted, and beside it the counterpart that must stay VALID. Virtual time,
 * modelled disks; a target that does wrong is in testing.h.
 */
#include "../../src/bench/internal.h"
#include "testing.h"

#define HDD "mem:64MiB+model=hdd-7200-2008"
#define SSD "mem:128MiB+model=ssd-sata,mb_s=100,cache_mib=0"

VIRTUAL_TEST(honest_disks_are_valid)
{
	struct workload w = sequential(0, MiB, 64 * MiB);
	struct cell c = run_word(HDD, NULL, &w, false);
	assert_verdict(&c, VERDICT_VALID);
	assert_in_range(c.device_write_bytes, 64 * MiB, 64 * MiB);
	w = sequential(100, MiB, 64 * MiB);
	c = run_word(HDD, NULL, &w, false);
	assert_verdict(&c, VERDICT_VALID);
	w = scattered(100, 128 * KiB, 64 * MiB, 4, 10 * SECOND);
	c = run_word(HDD, NULL, &w, false);
	assert_verdict(&c, VERDICT_VALID);
	assert_true(c.latency_p95_ns > c.latency_p50_ns);
}

static struct cell run_word_limited(const char *word, const struct bench_limit *limit, const struct workload *w)
{
	struct disks d = {0};

	disks_open_more(&d, word);
	struct target *t = target_of(&d);
	struct cell cell = run_on(t, w, limit);
	target_close(t);
	disks_close(&d);
	return cell;
}

VIRTUAL_TEST(nothing_is_valid_without_a_limit)
{
	static const struct bench_limit none = {
		.mb_per_s = NAN, .model_mb_per_s = NAN, .alone_mb_per_s = NAN, .slowest_share = NAN};
	struct workload w = sequential(0, MiB, 64 * MiB);
	struct cell c = run_word_limited(HDD, &none, &w);

	assert_verdict(&c, VERDICT_UNSTABLE);
	assert_int_equal(c.note_count, 1);
	assert_non_null(strstr(c.notes[0].reason, "no limit"));
	c = run_word_limited(HDD, &far_limit, &w);
	assert_verdict(&c, VERDICT_VALID);
}

/* --- CACHED ------------------------------------------------------------------------------------------------------ */

VIRTUAL_TEST(reads_from_memory_are_cached)
{
	struct odd_target o;
	struct workload w = sequential(100, MiB, 64 * MiB);

	odd_open(&o, SSD, 10e6 / 1024); /* 10 ms for a MiB */
	struct cell c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_VALID);
	o.reads_from_memory = true;
	c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_CACHED);
	assert_non_null(strstr(c.notes[0].reason, "0.00"));
	assert_int_equal(c.device_read_bytes, 0);
	w.reread = true;
	w.cold = false;
	c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_CACHED);
	assert_non_null(strstr(c.notes[0].reason, "on purpose"));
	odd_close(&o.target);
}

VIRTUAL_TEST(direct_io_that_is_not_in_effect_is_cached)
{
	struct odd_target o;
	struct workload w = sequential(0, MiB, 64 * MiB);

	odd_open(&o, SSD, 0);
	o.target.direct_effective = false;
	struct cell c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_CACHED);
	assert_non_null(strstr(c.notes[0].reason, "direct"));
	o.target.direct_asked = false; /* nobody asked */
	c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_VALID);
	odd_close(&o.target);
}

VIRTUAL_TEST(a_working_set_under_twice_the_cache_is_cached)
{
	struct odd_target o;
	struct workload w = sequential(100, MiB, 64 * MiB);

	odd_open(&o, SSD, 0);
	o.target.cache_bytes = 33 * MiB;
	struct cell c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_CACHED);
	o.target.cache_bytes = 32 * MiB;
	c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_VALID);
	odd_close(&o.target);
}

VIRTUAL_TEST(writes_that_a_buffer_merges_or_sorts_are_cached)
{
	struct odd_target o;
	struct workload w = scattered(0, MiB, 64 * MiB, 1, 0);
	struct bench_limit limit = {.mb_per_s = 100, .alone_mb_per_s = 100, .model_mb_per_s = NAN, .slowest_share = 1};

	odd_open(&o, SSD, 10e6 / 1024);
	w.total_bytes = 2 * w.span_bytes;
	o.share_written = 0.6; /* of two rounds: each block was written once, many not twice */
	struct cell c = run_on(&o.target, &w, &limit);
	assert_verdict(&c, VERDICT_CACHED);
	assert_non_null(strstr(c.notes[0].reason, "overwritten"));
	o.share_written = 1;
	c = run_on(&o.target, &w, &limit);
	assert_verdict(&c, VERDICT_VALID);
	limit.alone_mb_per_s = limit.mb_per_s = 20; /* what the disk does with such writes when nobody sorts them */
	c = run_on(&o.target, &w, &limit);
	assert_verdict(&c, VERDICT_CACHED);
	assert_non_null(strstr(c.notes[0].reason, "in order"));
	odd_close(&o.target);
}

/* --- DATA-REDUCED ------------------------------------------------------------------------------------------------ */

VIRTUAL_TEST(zeros_on_a_target_that_drops_them_are_reduced)
{
	struct odd_target o;
	struct workload w = sequential(0, MiB, 64 * MiB);

	odd_open(&o, SSD, 10e6 / 1024);
	o.drops_zeros = true; /* and does not say so */
	struct cell c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_VALID);
	w.payload.kind = PAYLOAD_ZERO;
	c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_DATA_REDUCED);
	assert_int_equal(c.device_write_bytes, 0);
	assert_non_null(strstr(c.notes[0].reason, "0.00"));
	o.drops_zeros = false;
	c = run_on(&o.target, &w, NULL); /* zeros that were written are as good as other bytes */
	assert_verdict(&c, VERDICT_VALID);
	odd_close(&o.target);
}

VIRTUAL_TEST(compressible_data_on_a_compressing_target_is_reduced)
{
	struct odd_target o;
	struct workload w = sequential(0, MiB, 64 * MiB);

	odd_open(&o, SSD, 0);
	o.target.reduces_data = true;
	struct cell c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_VALID);
	w.payload = (struct payload){PAYLOAD_RATIO, 2};
	c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_DATA_REDUCED);
	assert_string_equal(c.payload, "ratio:2");
	odd_close(&o.target);
}

/* --- IMPOSSIBLE -------------------------------------------------------------------------------------------------- */

VIRTUAL_TEST(a_target_that_claims_more_than_its_disks_moved_is_impossible)
{
	struct odd_target o;
	struct workload w = sequential(0, MiB, 64 * MiB);

	odd_open(&o, SSD, 10e6 / 1024);
	o.share_written = 0.5;
	struct cell c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_IMPOSSIBLE);
	assert_non_null(strstr(c.notes[0].reason, "claims more than its disks moved"));
	assert_near((double)c.device_write_bytes, 32.0 * MiB, 0.04);
	o.share_written = 1;
	c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_VALID);
	odd_close(&o.target);
}

VIRTUAL_TEST(more_than_disks_or_link_can_carry_is_impossible)
{
	struct odd_target o;
	struct workload w = sequential(100, MiB, 64 * MiB);
	struct bench_limit limit = {.mb_per_s = 50, .alone_mb_per_s = 50, .model_mb_per_s = NAN, .slowest_share = 1};

	odd_open(&o, SSD, 0);
	struct cell c = run_on(&o.target, &w, &limit); /* about 100 */
	assert_verdict(&c, VERDICT_IMPOSSIBLE);
	limit.alone_mb_per_s = limit.mb_per_s = 100;
	c = run_on(&o.target, &w, &limit);
	assert_verdict(&c, VERDICT_VALID);
	limit.link_mb_per_s = 80;
	c = run_on(&o.target, &w, &limit);
	assert_verdict(&c, VERDICT_IMPOSSIBLE);
	assert_non_null(strstr(c.notes[0].reason, "link"));
	odd_close(&o.target);
}

/* --- BACKGROUND -------------------------------------------------------------------------------------------------- */

static bool writer_ends;
static void write_on_and_on(void *arg)
{
	uint8_t *buffer = aligned_alloc(4096, 64 * KiB);

	memset(buffer, 1, 64 * KiB);
	for (uint64_t at = 0; !writer_ends; at = (at + 64 * KiB) % (32 * MiB)) {
		disk_write(arg, 96 * MiB + at, buffer, 64 * KiB, NULL);
		os_sleep_ns(10 * MS);
	}
	free(buffer);
}

static struct cell beside_a_writer(bool planted)
{
	struct disks d = {0};
	struct error err = ERROR_INIT;
	struct os_thread *writer = NULL;
	struct workload w = sequential(100, MiB, 3 * 64 * MiB);
	struct target *t;

	disks_open_more(&d, SSD);
	disks_open_more(&d, SSD "*2");
	t = target_of(&d);
	writer_ends = false;
	if (planted)
		assert_ok(os_thread_create(&writer, "background", write_on_and_on, d.disk[1], &err), &err);
	struct cell c = run_on(t, &w, NULL);
	writer_ends = true;
	if (planted)
		os_thread_join(writer);
	target_close(t);
	disks_close(&d);
	return c;
}

VIRTUAL_TEST(a_background_writer_is_seen)
{
	struct cell c = beside_a_writer(true);
	assert_verdict(&c, VERDICT_BACKGROUND);
	assert_non_null(strstr(c.notes[0].reason, "while the bench did nothing"));
	c = beside_a_writer(false);
	assert_verdict(&c, VERDICT_VALID);
}

static void mdstat(const char *text, const char *wanted)
{
	char path[] = "/tmp/t_bench_mdstat_XXXXXX";
	int fd = mkstemp(path);
	struct evidence e = {0};

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	evidence_resync(path, &e);
	unlink(path);
	assert_string_equal(e.resync, wanted);
}

static void a_resync_of_the_kernel_is_seen(void **state)
{
	mdstat("Personalities : [raid6]\nmd0 : active raid5 sdd[3] sdc[1]\n      3906764800 blocks\n"
	       "      [=>...]  resync =  9.6% (187/195) finish=1min\n\nunused devices: <none>\n",
		"md0: resync =  9.6% ");
	mdstat("Personalities : [raid6]\nmd0 : active raid5 sdd[3] sdc[1]\n      3906764800 blocks\n", "");
}

/* --- FLUSH-LIE --------------------------------------------------------------------------------------------------- */

VIRTUAL_TEST(a_flush_that_lies_is_seen)
{
	struct workload w = sequential(0, 8 * KiB, 64 * MiB);

	w.total_bytes = 4 * MiB;
	w.flush_every_bytes = 8 * KiB;
	struct cell c = run_word(HDD, NULL, &w, false);
	assert_not_noted(&c, VERDICT_FLUSH_LIE);
	assert_true(c.iops < 130); /* one turn each: 120 */
	c = run_word(HDD "+fault=lieflush", NULL, &w, false);
	assert_noted(&c, VERDICT_FLUSH_LIE);
	/* flash may well answer so fast */
	w.total_bytes = 16 * MiB;
	c = run_word("mem:64MiB+model=ssd-nvme+fault=lieflush", NULL, &w, false);
	assert_not_noted(&c, VERDICT_FLUSH_LIE);
}

VIRTUAL_TEST(the_final_flush_alone_tells_a_lie_too)
{
	struct workload w = scattered(0, 128 * KiB, 64 * MiB, 4, 10 * SECOND);
	struct cell c = run_word(HDD "+fault=lieflush", NULL, &w, false);
	assert_verdict(&c, VERDICT_FLUSH_LIE);
	assert_non_null(strstr(c.notes[0].reason, "mem:64MiB"));
	c = run_word(HDD, NULL, &w, false);
	assert_verdict(&c, VERDICT_VALID);
}

/* --- DEGRADED, TOO-SHORT ----------------------------------------------------------------------------------------- */

VIRTUAL_TEST(a_degraded_target_is_said)
{
	struct odd_target o;
	struct workload w = sequential(100, MiB, 64 * MiB);

	odd_open(&o, SSD, 0);
	o.target.state = "degraded";
	struct cell c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_DEGRADED);
	assert_string_equal(c.state, "degraded");
	o.target.state = "healthy";
	c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_VALID);
	odd_close(&o.target);
}

VIRTUAL_TEST(a_phase_of_a_fifth_of_a_second_has_no_figure)
{
	struct workload w = sequential(0, MiB, 64 * MiB);

	w.total_bytes = 11 * MiB;
	struct cell c = run_word(HDD, NULL, &w, false);
	assert_verdict(&c, VERDICT_TOO_SHORT);
	assert_true(c.elapsed_s > 0.15 && c.elapsed_s < 0.3);
	assert_true(isnan(c.mb_per_s) && isnan(c.iops) && isnan(c.efficiency) && c.sample_count == 0);
	w.minimum_ns = 600 * MS;
	c = run_word(HDD, NULL, &w, false);
	assert_not_noted(&c, VERDICT_TOO_SHORT);
	assert_true(c.mb_per_s > 40);
}

/* --- CPU-BOUND --------------------------------------------------------------------------------------------------- */

VIRTUAL_TEST(a_target_that_computes_is_cpu_bound)
{
	struct odd_target o;
	struct workload w = sequential(0, MiB, 64 * MiB);

	odd_open(&o, "mem:64MiB", 10e6 / 1024);
	o.burns_cpu = true;
	struct cell c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_CPU_BOUND);
	assert_near(c.cpu_seconds, 0.64, 0.05);
	o.burns_cpu = false; /* it only waits */
	c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_VALID);
	odd_close(&o.target);
}

/* --- BUS-BOUND, SLOW-DISK ---------------------------------------------------------------------------------------- */

VIRTUAL_TEST(disks_behind_one_bus_are_bus_bound)
{
	struct workload w = sequential(100, MiB, 4 * 16 * MiB);
	struct disks d = {0};
	struct bench_limit limit;
	struct error err = ERROR_INIT;

	w.jobs = 4;
	disks_open_more(&d, "mem:16MiB+model=ssd-sata,mb_s=55,bus=hba,bus_mb_s=100*4");
	assert_ok(bench_limit_measure(d.disk, 4, &w, 16 * MiB, &limit, &err), &err);
	assert_near(limit.mb_per_s, 100, 0.05);
	assert_near(limit.alone_mb_per_s, 220, 0.05);
	struct target *t = target_of(&d);
	struct cell c = run_on(t, &w, &limit);
	target_close(t);
	disks_close(&d);
	assert_verdict(&c, VERDICT_BUS_BOUND);
	assert_near(c.limit_mb_per_s, 100, 0.05);
	c = run_word("mem:32MiB+model=ssd-sata,mb_s=55*4", NULL, &w, true);
	assert_verdict(&c, VERDICT_VALID);
	assert_near(c.limit_mb_per_s, 220, 0.05);
}

VIRTUAL_TEST(a_slow_disk_is_named)
{
	struct workload w = sequential(100, MiB, 4 * 32 * MiB);

	w.jobs = 4;
	struct cell c = run_word("mem:32MiB+model=ssd-sata,mb_s=55*3", "mem:33MiB+model=ssd-sata,mb_s=33", &w, true);
	assert_verdict(&c, VERDICT_SLOW_DISK);
	assert_non_null(strstr(c.notes[0].reason, "mem:33MiB"));
	assert_non_null(strstr(c.notes[0].reason, "0.60"));
	c = run_word("mem:32MiB+model=ssd-sata,mb_s=55*3", "mem:33MiB+model=ssd-sata,mb_s=50", &w, true);
	assert_not_noted(&c, VERDICT_SLOW_DISK);
}

VIRTUAL_TEST(a_disk_that_answers_late_is_named)
{
	struct workload w = scattered(100, 4 * KiB, 4 * 32 * MiB, 8, 10 * SECOND);
	struct cell c = run_word("mem:32MiB+model=ssd-sata*3", "mem:33MiB+model=ssd-sata+fault=slow,ms=200", &w, false);

	assert_noted(&c, VERDICT_SLOW_DISK);
	assert_non_null(strstr(reason_of(&c, VERDICT_SLOW_DISK), "mem:33MiB"));
	c = run_word("mem:32MiB+model=ssd-sata*3", "mem:33MiB+model=ssd-sata", &w, false);
	assert_not_noted(&c, VERDICT_SLOW_DISK);
}

/* --- NOT-STEADY, UNSTABLE ---------------------------------------------------------------------------------------- */

VIRTUAL_TEST(a_decaying_disk_is_not_steady)
{
	struct workload w = sequential(0, MiB, 160 * MiB);
	struct cell c =
		run_word("mem:160MiB+model=ssd-sata,mb_s=100,cache_mib=0,burst_mib=64,after_mb_s=5", NULL, &w, false);
	double burst = 0, sustained = 0;

	assert_verdict(&c, VERDICT_NOT_STEADY);
	assert_int_equal(sscanf(c.notes[0].reason, "burst %lf MB/s, sustained %lf MB/s", &burst, &sustained), 2);
	assert_near(burst, 100, 0.10);
	assert_near(sustained, 5, 0.10);
	c = run_word("mem:160MiB+model=ssd-sata,mb_s=100,cache_mib=0", NULL, &w, false);
	assert_verdict(&c, VERDICT_VALID);
}

VIRTUAL_TEST(a_cache_that_the_final_flush_empties_is_not_hidden)
{
	struct odd_target o;
	struct workload w = sequential(0, MiB, 64 * MiB);

	odd_open(&o, "mem:64MiB", 10e6 / 1024); /* 0.64 s of writes */
	o.flush_ns = 2 * SECOND;
	struct cell c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_NOT_STEADY);
	assert_non_null(strstr(c.notes[0].reason, "final flush"));
	assert_near(c.mb_per_s, 67.1 / 2.64, 0.01);
	o.flush_ns = SECOND / 2;
	c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_VALID);
	assert_near(c.mb_per_s, 67.1 / 1.14, 0.01);
	odd_close(&o.target);
}

VIRTUAL_TEST(a_noisy_disk_is_unstable)
{
	struct odd_target o;
	struct workload w = sequential(100, MiB, 64 * MiB);

	odd_open(&o, "mem:64MiB", 10e6 / 1024);
	w.minimum_ns = 5 * SECOND;
	o.noisy = true;
	struct cell c = run_on(&o.target, &w, NULL);
	assert_noted(&c, VERDICT_UNSTABLE);
	o.noisy = false;
	c = run_on(&o.target, &w, NULL);
	assert_verdict(&c, VERDICT_VALID);
	odd_close(&o.target);
}

/* --- FAILED ------------------------------------------------------------------------------------------------------ */

VIRTUAL_TEST(disks_that_fail_fail_the_cell)
{
	static const char *const faults[] = {
		"+fault=eio,op=write,nth=20", "+fault=enospc,nth=20", "+fault=vanish,nth=20", "+fault=eio,op=flush"};
	struct workload w = sequential(0, MiB, 64 * MiB);

	for (unsigned i = 0; i < array_count(faults); i++) {
		char word[200];
		snprintf(word, sizeof(word), HDD "%s", faults[i]);
		struct cell c = run_word(word, NULL, &w, false);
		assert_verdict(&c, VERDICT_FAILED);
		assert_true(isnan(c.mb_per_s) && c.logical_bytes == RESULT_NONE && c.sample_count == 0);
		assert_non_null(strstr(c.notes[0].reason, "mem:64MiB"));
	}
}

VIRTUAL_TEST(lost_and_misdirected_writes_fail_the_cell)
{
	static const char *const faults[] = {"+fault=lost", "+fault=rot"};
	struct workload w = sequential(0, MiB, 64 * MiB);

	for (unsigned i = 0; i < array_count(faults); i++) {
		char word[200];
		snprintf(word, sizeof(word), HDD "%s", faults[i]);
		struct cell c = run_word(word, NULL, &w, false);
		assert_verdict(&c, VERDICT_FAILED);
		assert_non_null(strstr(c.notes[0].reason, "mismatch"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(honest_disks_are_valid),
		cmocka_unit_test(nothing_is_valid_without_a_limit),
		cmocka_unit_test(reads_from_memory_are_cached),
		cmocka_unit_test(direct_io_that_is_not_in_effect_is_cached),
		cmocka_unit_test(a_working_set_under_twice_the_cache_is_cached),
		cmocka_unit_test(writes_that_a_buffer_merges_or_sorts_are_cached),
		cmocka_unit_test(zeros_on_a_target_that_drops_them_are_reduced),
		cmocka_unit_test(compressible_data_on_a_compressing_target_is_reduced),
		cmocka_unit_test(a_target_that_claims_more_than_its_disks_moved_is_impossible),
		cmocka_unit_test(more_than_disks_or_link_can_carry_is_impossible),
		cmocka_unit_test(a_background_writer_is_seen),
		cmocka_unit_test(a_resync_of_the_kernel_is_seen),
		cmocka_unit_test(a_flush_that_lies_is_seen),
		cmocka_unit_test(the_final_flush_alone_tells_a_lie_too),
		cmocka_unit_test(a_degraded_target_is_said),
		cmocka_unit_test(a_phase_of_a_fifth_of_a_second_has_no_figure),
		cmocka_unit_test(a_target_that_computes_is_cpu_bound),
		cmocka_unit_test(disks_behind_one_bus_are_bus_bound),
		cmocka_unit_test(a_slow_disk_is_named),
		cmocka_unit_test(a_disk_that_answers_late_is_named),
		cmocka_unit_test(a_decaying_disk_is_not_steady),
		cmocka_unit_test(a_cache_that_the_final_flush_empties_is_not_hidden),
		cmocka_unit_test(a_noisy_disk_is_unstable),
		cmocka_unit_test(disks_that_fail_fail_the_cell),
		cmocka_unit_test(lost_and_misdirected_writes_fail_the_cell),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
