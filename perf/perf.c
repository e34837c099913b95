/*
 * perf: what Spindle must reach, each as a ratio to a limit measured in the same run.
 *
 *   spindle-perf [virtual|cpu|scale|pool|pool-cpu|all]
 *
 * virtual  eight hdd-7200-2008 disks in virtual time: every row against the same pattern on the bare disks
 * cpu      memory disks on the real clock: CPU-seconds per GB, and the ceiling of the bench itself
 * scale    wall time per simulated operation, 8 and 48 disks
 * pool     what a pool's layouts reach, beside arrays on the same disks; pool-cpu: what that costs the CPU
 *
 * Prints one Markdown table a group. Exit 1 when a row misses what it must reach.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base.h"
#include "bench.h"
#include "disk.h"
#include "os.h"
#include "perf.h"
#include "result.h"

#define DISKS 8
#define DISK_BYTES (256ull << 20)
#define SPAN_BYTES (96ull << 20) /* used of each disk: the outer part, the same for limit and array */

static unsigned missed;

void print_head(const char *title)
{
	printf("\n### %s\n\n| row | measured | limit | ratio | must reach | |\n|---|---|---|---|---|---|\n", title);
}

void print_row(const char *name, double measured, double limit, const char *unit, double ratio, double least)
{
	bool ok = ratio >= least;
	missed += !ok;
	printf("| %s | %.1f %s | %.1f %s | %.3f | ≥ %.3f | %s |\n", name, measured, unit, limit, unit, ratio, least,
		ok ? "ok" : "MISSED");
	fflush(stdout);
}

void print_row_most(const char *name, double measured, const char *unit, double most)
{
	bool ok = measured <= most;
	missed += !ok;
	printf("| %s | %.3f %s | | | ≤ %.3f | %s |\n", name, measured, unit, most, ok ? "ok" : "MISSED");
	fflush(stdout);
}

int open_disks(const char *word, struct disk **disks, unsigned *ret_count, struct error *err)
{
	struct disk_specs specs = {0};
	struct disk_open_options options = {0};
	int rc = disk_specs_add(&specs, word, err);
	for (size_t i = 0; rc == 0 && i < specs.count; i++) {
		rc = disk_open(&specs.items[i], &options, &disks[i], err);
		if (rc == 0)
			*ret_count = (unsigned)i + 1;
	}
	disk_specs_release(&specs);
	return rc;
}

/* --- virtual time --------------------------------------------------------------------------------------- */

enum kind { SEQUENTIAL, RANDOM };
struct row {
	const char *layout, *write_hole;
	enum kind kind;
	unsigned read_percent;
	uint64_t block_bytes;
	unsigned depth;
	double share; /* of the limit that the row's own arithmetic allows: (n-1)/n, 1/4 … */
	double least; /* of that */
	const char *name;
};

#define K (1ull << 10)
#define M (1ull << 20)
static const struct row rows[] = {
	{"stripe", "log", SEQUENTIAL, 0, 1 * M, 1, 1.0, 0.95, "stripe, sequential write 1 MiB / nB"},
	{"stripe", "log", SEQUENTIAL, 100, 1 * M, 1, 1.0, 0.95, "stripe, sequential read 1 MiB / nB"},
	{"stripe", "log", SEQUENTIAL, 0, 16 * M, 1, 1.0, 0.95, "stripe, sequential write 16 MiB depth 1 / nB"},
	{"stripe", "log", SEQUENTIAL, 100, 16 * M, 1, 1.0, 0.95, "stripe, sequential read 16 MiB depth 1 / nB"},
	{"raid5", "log", SEQUENTIAL, 0, 1 * M, 1, 7.0 / 8, 0.95, "RAID 5, sequential write 1 MiB / (n-1)B"},
	{"raid10", "log", SEQUENTIAL, 0, 1 * M, 1, 0.5, 0.95, "RAID 10 near, sequential write 1 MiB / (nB/2)"},
	{"raid10", "log", SEQUENTIAL, 100, 1 * M, 1, 1.0, 0.48, "RAID 10 near, one-stream read 1 MiB / nB"},
	{"raid10-far", "log", SEQUENTIAL, 100, 1 * M, 1, 1.0, 0.93, "RAID 10 far, one-stream read 1 MiB / nB"},
	{"stripe", "log", RANDOM, 100, 128 * K, 4 * DISKS, 1.0, 0.87, "stripe, random read 128 KiB depth 4n / nI"},
	{"raid5", "log", RANDOM, 100, 128 * K, 4 * DISKS, 1.0, 0.87, "RAID 5, random read 128 KiB depth 4n / nI"},
	{"raid10", "log", RANDOM, 100, 128 * K, 4 * DISKS, 1.0, 0.87, "RAID 10, random read 128 KiB depth 4n / nI"},
	{"raid5", "bitmap", RANDOM, 0, 4 * K, 4 * DISKS, 1.0 / 4, 0.9, "RAID 5 bitmap, random write 4 KiB / (nI/4)"},
	{"raid6", "bitmap", RANDOM, 0, 4 * K, 4 * DISKS, 1.0 / 6, 0.9, "RAID 6 bitmap, random write 4 KiB / (nI/6)"},
	{"raid5", "log", RANDOM, 0, 4 * K, 4 * DISKS, 1.0 / 4, 0.6, "RAID 5 log, random write 4 KiB / (nI/4)"},
	{"raid6", "log", RANDOM, 0, 4 * K, 4 * DISKS, 1.0 / 6, 0.6, "RAID 6 log, random write 4 KiB / (nI/6)"},
};

static void row_workload(const struct row *r, uint64_t span_bytes, struct workload *w)
{
	memset(w, 0, sizeof *w);
	snprintf(w->test, sizeof w->test, "%s", r->kind == RANDOM ? "random" : "sequential");
	w->random = r->kind == RANDOM;
	w->read_percent = r->read_percent;
	w->block_bytes = r->block_bytes;
	w->depth = r->depth;
	w->jobs = 1;
	w->span_bytes = span_bytes;
	w->final_flush = r->read_percent < 100;
	w->cold = r->read_percent == 100;
	w->payload.kind = PAYLOAD_RANDOM;
	w->seed = 1;
	w->repeats_min = w->repeats_max = 1;
	w->interval_wanted = 0.05;
	if (r->kind == RANDOM)
		w->duration_ns = 20000000000ull;
	else
		w->total_bytes = span_bytes;
}

struct virtual_run {
	const struct row *row;
	double measured, limit;
	struct error err;
};

/* Share of the raw bytes that are user's, to give every layout the same bytes a disk. */
static double usable_share(const char *layout)
{
	if (strcmp(layout, "raid5") == 0)
		return (DISKS - 1.0) / DISKS;
	if (strcmp(layout, "raid6") == 0)
		return (DISKS - 2.0) / DISKS;
	if (strncmp(layout, "raid10", 6) == 0)
		return 0.5;
	return 1.0;
}

static int run_virtual(void *arg)
{
	struct virtual_run *v = arg;
	struct disk *disks[64] = {0};
	unsigned count = 0;
	struct target *t = NULL;
	struct bench_limit limit;
	struct workload w;
	double create_s;
	uint64_t span = (uint64_t)(SPAN_BYTES * DISKS * usable_share(v->row->layout)) / (16 * M) * (16 * M);

	/* I is the rate of reads for the mixed read-modify-write rows: half of their operations read, and a drive's
	 * cached writes alone would be a limit of another kind. Both are printed by `spindle survey`. */
	int rc = open_disks("mem:256MiB+model=hdd-7200-2008*8", disks, &count, &v->err);
	if (rc == 0) {
		row_workload(v->row, span, &w);
		struct workload bare = w;
		if (w.random)
			bare.read_percent = 100;
		rc = bench_limit_measure(disks, count, &bare, SPAN_BYTES, &limit, &v->err);
	}
	struct target_array_options options = {.layout = v->row->layout, .write_hole = v->row->write_hole};
	if (rc == 0)
		rc = target_open_array(&options, disks, count, &t, &create_s, &v->err);
	if (rc == 0 && (w.random || w.read_percent == 100))
		rc = bench_fill(t, &w, NULL, &v->err);
	struct cell cell;
	cell_init(&cell);
	limit.model_mb_per_s = NAN;
	if (rc == 0)
		rc = bench_run(t, &w, &limit, NULL, &cell, &v->err);
	if (rc == 0 && cell.verdict == VERDICT_FAILED)
		rc = error_set(&v->err, ERR_IO, "%s", cell.notes[0].reason);
	v->measured = cell.mb_per_s;
	v->limit = limit.mb_per_s;
	target_close(t);
	for (unsigned i = 0; i < count; i++)
		disk_close(disks[i]);
	return rc;
}

static int perf_virtual(void)
{
	print_head("Eight modelled hdd-7200-2008 disks, virtual clock");
	for (size_t i = 0; i < array_count(rows); i++) {
		struct virtual_run v = {.row = &rows[i]};
		struct os_simulation sim;
		os_simulation_init(&sim, 1);
		int rc = os_simulate(&sim, run_virtual, &v, &v.err);
		if (rc) {
			fprintf(stderr, "spindle-perf: %s: %s\n", rows[i].name, v.err.text);
			return 1;
		}
		double limit = v.limit * rows[i].share;
		if (rows[i].block_bytes < M && rows[i].kind == RANDOM)
			print_row(rows[i].name, v.measured * 1e6 / rows[i].block_bytes,
				limit * 1e6 / rows[i].block_bytes, "IOPS", v.measured / limit, rows[i].least);
		else
			print_row(rows[i].name, v.measured, limit, "MB/s", v.measured / limit, rows[i].least);
	}
	return 0;
}

/* --- CPU on the real clock -------------------------------------------------------------------------------- */

uint64_t cpu_ns(void)
{
	struct os_cpu_usage u;
	os_cpu_usage(&u);
	return u.process_ns;
}

static int perf_cpu(void)
{
	struct error err = ERROR_INIT;
	struct disk *disks[DISKS] = {0};
	unsigned count = 0;
	struct target *t = NULL;
	double create_s;
	struct target_array_options options = {.layout = "raid5", .write_hole = "log"};

	print_head("Memory disks and null target, real clock");
	int rc = open_disks("mem:512MiB*8", disks, &count, &err);
	if (rc == 0)
		rc = target_open_array(&options, disks, count, &t, &create_s, &err);
	struct row row = {"raid5", "log", SEQUENTIAL, 0, 1 * M, 1, 1, 1, ""};
	struct workload w;
	row_workload(&row, 2048 * M, &w);
	struct bench_limit none = {.mb_per_s = NAN, .model_mb_per_s = NAN, .alone_mb_per_s = NAN, .slowest_share = NAN};
	double best = 1e9;
	for (int i = 0; rc == 0 && i < 6; i++) { /* the first run touches the memory */
		struct cell cell;
		cell_init(&cell);
		uint64_t before = cpu_ns();
		rc = bench_run(t, &w, &none, NULL, &cell, &err);
		double used = (cpu_ns() - before) / 1e9 / ((double)cell.logical_bytes / 1e9);
		if (getenv("SPINDLE_PERF_RUNS"))
			fprintf(stderr, "run %d: %.3f CPU-s/GB\n", i, used);
		if (i > 0 && used < best)
			best = used;
	}
	if (rc == 0)
		print_row_most(
			"RAID 5 over 8 memory disks, 1 MiB writes, CPU-s/GB (best of 5)", best, "CPU-s/GB", 0.30);
	target_close(t);
	for (unsigned i = 0; i < count; i++)
		disk_close(disks[i]);

	t = NULL;
	struct target_path_options null_options = {.size_bytes = 64ull << 30};
	if (rc == 0)
		rc = target_open_path("null:", &null_options, &t, &err);
	if (rc == 0) {
		struct cell cell;
		row_workload(&row, 64ull << 30, &w);
		w.total_bytes = 0;
		w.duration_ns = 1500000000ull;
		w.jobs = 2;
		cell_init(&cell);
		rc = bench_run(t, &w, &none, NULL, &cell, &err);
		print_row("null target, sequential 1 MiB writes, 2 jobs", cell.mb_per_s, 10000, "MB/s",
			cell.mb_per_s / 10000, 1.0);
		row = (struct row){"null", "", RANDOM, 100, 4 * K, 1, 1, 1, ""};
		row_workload(&row, 64ull << 30, &w);
		w.duration_ns = 1500000000ull;
		w.jobs = 2;
		cell_init(&cell);
		if (rc == 0)
			rc = bench_run(t, &w, &none, NULL, &cell, &err);
		print_row("null target, random 4 KiB, 2 jobs", cell.iops, 1e6, "IOPS", cell.iops / 1e6, 1.0);
	}
	target_close(t);
	if (rc)
		fprintf(stderr, "spindle-perf: %s\n", err.text);
	return rc != 0;
}

/* --- scale --------------------------------------------------------------------------------------------------- */

struct scale_run {
	unsigned disks;
	uint64_t operations, wall_ns;
	struct error err;
};

static uint64_t scale_operations(struct disk *const *disks, unsigned count)
{
	uint64_t operations = 0;

	for (unsigned i = 0; i < count; i++) {
		struct disk_counters c;
		disk_counters(disks[i], &c);
		operations += c.op[DISK_READ].done + c.op[DISK_WRITE].done;
	}
	return operations;
}

static int run_scale(void *arg)
{
	struct scale_run *s = arg;
	struct disk *disks[64] = {0};
	unsigned count = 0;
	struct target *t = NULL;
	char word[64];
	double create_s;
	snprintf(word, sizeof word, "mem:32MiB+model=hdd-7200-2008*%u", s->disks);
	int rc = open_disks(word, disks, &count, &s->err);
	struct target_array_options options = {.layout = "stripe", .write_hole = "log"};
	if (rc == 0)
		rc = target_open_array(&options, disks, count, &t, &create_s, &s->err);
	struct row row = {"stripe", "log", SEQUENTIAL, 0, 1 * M, 1, 1, 1, ""};
	struct workload w;
	uint64_t span = s->disks * 16 * M;
	struct bench_limit none = {.mb_per_s = NAN, .model_mb_per_s = NAN, .alone_mb_per_s = NAN, .slowest_share = NAN};
	struct cell cell;
	row_workload(&row, span, &w);
	if (rc == 0) /* the first touch of memory is not the simulation's cost */
		rc = bench_fill(t, &w, NULL, &s->err);
	uint64_t before = scale_operations(disks, count), start_ns = os_real_now_ns();
	cell_init(&cell);
	if (rc == 0)
		rc = bench_run(t, &w, &none, NULL, &cell, &s->err);
	row = (struct row){"stripe", "log", RANDOM, 100, 8 * K, 4 * s->disks, 1, 1, ""};
	row_workload(&row, span, &w);
	w.duration_ns = 0;
	w.total_bytes = s->disks * 2000 * 8 * K;
	cell_init(&cell);
	if (rc == 0)
		rc = bench_run(t, &w, &none, NULL, &cell, &s->err);
	s->wall_ns = os_real_now_ns() - start_ns;
	s->operations = scale_operations(disks, count) - before;
	target_close(t);
	for (unsigned i = 0; i < count; i++)
		disk_close(disks[i]);
	return rc;
}

static int perf_scale(void)
{
	static const unsigned sizes[] = {8, 48};
	double per_operation[2][3];
	for (int repeat = 0; repeat < 3; repeat++) {
		for (int i = 0; i < 2; i++) {
			struct scale_run s = {.disks = sizes[i]};
			struct os_simulation sim;
			os_simulation_init(&sim, 1);
			int rc = os_simulate(&sim, run_scale, &s, &s.err);
			if (rc) {
				fprintf(stderr, "spindle-perf: %s\n", s.err.text);
				return 1;
			}
			per_operation[i][repeat] = (double)s.wall_ns / s.operations;
		}
	}
	double small = stats_median(per_operation[0], 3), large = stats_median(per_operation[1], 3);
	print_head("Cost of simulation, virtual clock");
	printf("| 8 disks | %.0f ns an operation | | | | |\n", small);
	printf("| 48 disks | %.0f ns an operation | | | | |\n", large);
	print_row_most("48 disks over 8 disks, wall time per simulated operation", large / small, "times", 1.5);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "all";
	bool all = strcmp(what, "all") == 0;
	int rc = 0;
	if (all || strcmp(what, "virtual") == 0)
		rc |= perf_virtual();
	if (all || strcmp(what, "cpu") == 0)
		rc |= perf_cpu();
	if (all || strcmp(what, "scale") == 0)
		rc |= perf_scale();
	if (all || strcmp(what, "pool") == 0)
		rc |= perf_pool();
	if (all || strcmp(what, "pool-cpu") == 0)
		rc |= perf_pool_cpu();
	if (all || strcmp(what, "pool-sync") == 0)
		rc |= perf_pool_sync();
	printf("\n%u missed\n", missed);
	return rc || missed ? 1 : 0;
}
