/*
 * result: what a run of the bench leaves. Data only; may use base. `bench` fills it, `report` shows it, and
 * neither knows the other. docs/result.md describes the JSON that is made of it.
 *
 * Units are in the names. A value that was not measured is NAN (double) or RESULT_NONE (uint64_t) and becomes
 * null in JSON and an empty field in CSV.
 */
#ifndef RESULT_H
#define RESULT_H

#include <math.h>

#include "base.h"

#define RESULT_SCHEMA 1
#define RESULT_NONE UINT64_MAX

/* In the order of precedence: a cell's `verdict` is the first that holds. */
#define VERDICTS(X)                                                                                                    \
	X(FAILED)                                                                                                      \
	X(SKIPPED)                                                                                                     \
	X(IMPOSSIBLE) X(CACHED) X(DATA_REDUCED) X(BACKGROUND) X(FLUSH_LIE) X(DEGRADED) X(TOO_SHORT) X(TOOL_BOUND)      \
		X(CPU_BOUND) X(BUS_BOUND) X(SLOW_DISK) X(NOT_STEADY) X(UNSTABLE) X(VALID)
enum verdict {
#define X(name) VERDICT_##name,
	VERDICTS(X)
#undef X
		VERDICT_COUNT
};
extern const char *const verdict_names[VERDICT_COUNT]; /* "DATA-REDUCED", … */

struct verdict_note {
	enum verdict verdict;
	char reason[200]; /* with the figure that decided, and the limit it was held against */
};

#define RESULT_SAMPLES_MAX 64
#define RESULT_NOTES_MAX 8

struct cell {
	/* key */
	char stack[16], layout[32], road[12], fs[16], disks[64], test[24], compression[16], payload[24];
	uint64_t block_bytes;
	unsigned depth, jobs;
	char clock[8];  /* "real", "virtual" */
	double fill;    /* share of the target that holds data, 0 to 1 */
	char state[12]; /* "healthy", "degraded", "rebuilding" */

	/* values */
	double mb_per_s, iops, limit_mb_per_s, model_mb_per_s, efficiency;
	enum verdict verdict;
	struct verdict_note notes[RESULT_NOTES_MAX]; /* all that hold, in order of precedence; notes[0] is `verdict` */
	unsigned note_count;
	uint64_t logical_bytes, device_read_bytes, device_write_bytes;
	double cpu_seconds, elapsed_s;
	double samples[RESULT_SAMPLES_MAX]; /* MB/s of each repeat, or of each window when one phase was run */
	unsigned sample_count;
	double interval[2]; /* 95 %: of the median of repeats, of the mean of windows */
	uint64_t latency_p50_ns, latency_p95_ns, latency_p99_ns, latency_p999_ns, latency_max_ns;
	uint64_t usable_bytes;
	unsigned failures_survived;
	double create_s, ready_s; /* to make the layout; until it is free of background work */
	double compress_ratio;
	char options[200]; /* what was scaled or set, in words: "8 GiB scaled to 512 MiB" */
};

struct result_disk {
	char name[128], spec[256], model[64], serial[64], engine[16], note[128];
	uint64_t size_bytes, nominal_bytes;
	uint32_t logical_bytes, physical_bytes;
	bool direct, rotating, modelled;
	/* from the survey before the tests, NAN when none was made */
	double alone_mb_per_s, together_mb_per_s, random_iops, flush_ms;
	bool slow;
};

struct result_host {
	char name[64], cpu[96], kernel[96];
	unsigned cpus;
	uint64_t memory_bytes;
	double copy_gb_per_s, checksum_gb_per_s, parity1_gb_per_s,
		parity2_gb_per_s; /* the CPU charge of virtual time */
	char cpu_charge[32];      /* "2 CPUs", "free" */
};

struct result {
	struct result_host host;
	struct result_disk *disks;
	size_t disk_count;
	struct cell *cells;
	size_t cell_count, cell_room;
	struct result_skip {
		char layout[32], reason[200];
	} * skips; /* layouts that do not fit */
	size_t skip_count;
	char command[512], version[32], started[32], id[40], background[128];
	uint64_t seed;
	bool interrupted;
	double price_per_disk, link_mb_per_s; /* NAN when not asked for */
	char link_name[16];
};

/* Zeroed, with every value NAN or RESULT_NONE and the verdict SKIPPED. */
void cell_init(struct cell *c);
/* Adds a verdict; keeps notes in order and `verdict` right. */
void cell_note(struct cell *c, enum verdict v, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* True when both have the same key. */
bool cell_same_key(const struct cell *a, const struct cell *b);
int result_add_cell(struct result *r, const struct cell *c, struct error *err);
const struct cell *result_find(
	const struct result *r, const char *stack, const char *layout, const char *test, const char *clock);
int result_add_skip(struct result *r, const char *layout, const char *reason, struct error *err);
void result_release(struct result *r);
bool result_all_valid(const struct result *r); /* decides exit status 0 or 3; SKIPPED cells do not count */

#endif
