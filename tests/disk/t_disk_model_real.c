/*
 * Modelled disks on the real clock: over a second, the same requests take what they take in virtual time, within 1 %.
 * The machine may be busy: each case has three tries, and when in none of them the completions were delivered in time,
 * it skips aloud. Invariant: MODEL-3.
 */
#include <math.h>

#include "model_load.h"

#define TRIES 3
/* Mean lateness above which the timekeeper was not given the CPU when its timers were due. */
#define STARVED_NS 1000000.0

struct run {
	const char *word;
	struct load load;
	double late_ns; /* mean */
	uint64_t late_count;
};

static int run_once(void *arg)
{
	struct run *run = arg;
	struct load l = run->load, fresh;
	struct disk_counters counters;
	open_many(&fresh, run->word);
	memcpy(l.disks, fresh.disks, sizeof l.disks);
	l.disk_count = fresh.disk_count;
	load_run(&l);
	disk_counters(l.disks[0], &counters);
	run->late_count = counters.late_count;
	run->late_ns = counters.late_count ? (double)counters.late_ns_sum / (double)counters.late_count : 0;
	close_many(&l);
	run->load.elapsed_ns = l.elapsed_ns;
	run->load.done = l.done;
	return 0;
}

static void agrees(const char *what, const char *word, struct load load)
{
	struct run run = {.word = word, .load = load};
	double best = INFINITY, least_late_ns = INFINITY;
	simulated(run_once, &run);
	assert_true(run.late_count == 0); /* in virtual time nothing is late */
	double virtual_ns = (double)run.load.elapsed_ns;
	for (unsigned try = 0; try < TRIES && best > 0.01; try++) {
		run.load = load;
		run_once(&run);
		double off = (double)run.load.elapsed_ns / virtual_ns - 1;
		printf("  %s: %.1f ms in virtual time, %.1f ms on the clock (%+.2f %%), %.0f us late on average\n",
			what, virtual_ns / 1e6, (double)run.load.elapsed_ns / 1e6, off * 100, run.late_ns / 1e3);
		fflush(stdout);
		best = min_of(best, fabs(off));
		least_late_ns = min_of(least_late_ns, run.late_ns);
	}
	if (best > 0.01 && least_late_ns > STARVED_NS) {
		printf("SKIP: %s: the machine was too busy, completions came %.1f ms late\n", what,
			least_late_ns / 1e6);
		fflush(stdout);
		skip();
	}
	assert_true(best <= 0.01);
}

#define DISK "mem:256MiB+model=hdd-7200-2008"

static void test_sequential_read(void **state)
{
	agrees("sequential 1 MiB reads, depth 1", DISK,
		(struct load){.op = DISK_READ, .block_bytes = MiB, .depth = 1, .requests = 56});
}

static void test_sequential_write(void **state)
{
	agrees("sequential 1 MiB writes, depth 1", DISK,
		(struct load){.op = DISK_WRITE, .block_bytes = MiB, .depth = 1, .requests = 56, .final_flush = true});
}

static void test_random_depth_1(void **state)
{
	agrees("random 4 KiB reads, depth 1", DISK,
		(struct load){.op = DISK_READ,
			.pattern = LOAD_RANDOM,
			.block_bytes = 4096,
			.depth = 1,
			.requests = 90,
			.seed = 3});
}

static void test_random_depth_4(void **state)
{
	agrees("random 4 KiB reads, depth 4", DISK,
		(struct load){.op = DISK_READ,
			.pattern = LOAD_RANDOM,
			.block_bytes = 4096,
			.depth = 4,
			.requests = 110,
			.seed = 4});
}

static void test_flash(void **state)
{
	agrees("ssd-sata, 1 MiB writes, depth 4", "mem:256MiB+model=ssd-sata,mb_s=100",
		(struct load){.op = DISK_WRITE, .block_bytes = MiB, .depth = 4, .requests = 100});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sequential_read),
		cmocka_unit_test(test_sequential_write),
		cmocka_unit_test(test_random_depth_1),
		cmocka_unit_test(test_random_depth_4),
		cmocka_unit_test(test_flash),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
