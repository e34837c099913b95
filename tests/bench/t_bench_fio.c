/*
 * The bench against fio on the same file, by turns, the medians within 10 %. Only when SPINDLE_SOAK is set: it takes
 * half a minute and a machine that does nothing else.
 */
#include <fcntl.h>

#include "testing.h"

#define FILE_BYTES (256 * MiB)
#define TURNS 5u
#define TURN_NS SECOND

static char path[64];

static double fio_mb_per_s(const char *rw, uint64_t block, unsigned depth)
{
	char command[512], line[4096];
	double kib_per_s = 0;

	/* Terse version 3: field 7 is the read bandwidth in KiB/s, field 48 that of writes. */
	snprintf(command, sizeof(command),
		"fio --name=t --filename=%s --rw=%s --bs=%llu --iodepth=%u --ioengine=io_uring --direct=1 "
		"--size=%llu --time_based --runtime=1 --refill_buffers=0 --minimal --norandommap 2>/dev/null",
		path, rw, (unsigned long long)block, depth, (unsigned long long)FILE_BYTES);
	FILE *f = popen(command, "r");
	assert_non_null(f);
	if (fgets(line, sizeof(line), f)) {
		unsigned wanted = strstr(rw, "read") ? 7 : 48, field = 1;
		for (char *at = line, *next; at; at = next ? next + 1 : NULL, field++) {
			next = strchr(at, ';');
			if (field == wanted)
				kib_per_s = strtod(at, NULL);
			if (!next)
				break;
		}
	}
	pclose(f);
	return kib_per_s * 1024 / 1e6;
}

static double ours_mb_per_s(struct target *t, bool random, unsigned read_percent, uint64_t block, unsigned depth)
{
	struct workload w = scattered(read_percent, block, FILE_BYTES, depth, TURN_NS);

	w.random = random;
	w.final_flush = false; /* nor does fio's */
	return run_on(t, &w, NULL).mb_per_s;
}

static unsigned off; /* rows that differ by more */

static void compare(
	struct target *t, const char *rw, bool random, unsigned read_percent, uint64_t block, unsigned depth)
{
	double ours[TURNS], fio[TURNS];

	for (unsigned i = 0; i < TURNS; i++) {
		ours[i] = ours_mb_per_s(t, random, read_percent, block, depth);
		fio[i] = fio_mb_per_s(rw, block, depth);
	}
	double a = stats_median(ours, TURNS), b = stats_median(fio, TURNS);
	print_message("%-10s %7llu bytes, depth %2u: bench %.1f MB/s, fio %.1f MB/s, ratio %.3f\n", rw,
		(unsigned long long)block, depth, a, b, a / b);
	off += fabs(a - b) > 0.10 * b;
}

static void the_bench_agrees_with_fio(void **state)
{
	struct error err = ERROR_INIT;
	struct target *t = NULL;
	const struct target_path_options o = {.direct = true, .destroy = true, .zeroes_ok = true};

	if (!getenv("SPINDLE_SOAK") || system("command -v fio >/dev/null") != 0) {
		print_message("SKIP: fio: set SPINDLE_SOAK, and have fio, on an idle machine\n");
		skip();
	}
	snprintf(path, sizeof(path), "/tmp/t_bench_fio_XXXXXX");
	int fd = mkstemp(path);
	assert_true(fd >= 0 && ftruncate(fd, FILE_BYTES) == 0);
	close(fd);
	assert_ok(target_open_path(path, &o, &t, &err), &err);
	struct workload w = sequential(0, MiB, FILE_BYTES);
	assert_ok(bench_fill(t, &w, NULL, &err), &err);
	target_close(t); /* fio opens it too */

	assert_ok(target_open_path(path, &o, &t, &err), &err);
	compare(t, "read", false, 100, MiB, 4);
	compare(t, "randread", true, 100, 4 * KiB, 32);
	compare(t, "randread", true, 100, 4 * KiB, 1);
	compare(t, "write", false, 0, MiB, 4);
	compare(t, "randwrite", true, 0, 4 * KiB, 32);
	target_close(t);
	unlink(path);
	assert_int_equal(off, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_bench_agrees_with_fio)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
