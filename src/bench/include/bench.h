/*
 * bench: workloads on targets, with the evidence that says what each number is worth. May use base, os, disk,
 * result and spindle.h; knows nothing of the inside of arrays: Spindle gets no private road.
 */
#ifndef BENCH_H
#define BENCH_H

#include "disk.h"
#include "os.h"
#include "result.h"
#include "spindle.h"

/* --- targets ----------------------------------------------------------------------------------------------------- */

struct target;

/* Device traffic behind a target, as its evidence. */
struct target_traffic {
	uint64_t read_bytes, write_bytes, flushes;
	uint64_t read_ops, write_ops;
	uint64_t stored_bytes; /* of data, once, as compressed */
	uint64_t busy_ns;      /* of the device where only the kernel knows it; 0 where `disks` tell */
	bool stored_known;     /* the target says so */
	bool known;            /* false: nothing can be said (a network file system) */
};

/* A slot is required unless it says optional. All calls but close may come from many threads at once. */
struct target_ops {
	const char *kind; /* "array", "disk", "disks", "file", "directory", "block", "null", "cpu" */
	int (*read)(struct target *t, uint64_t offset_bytes, void *buffer, uint64_t length_bytes, struct error *err);
	int (*write)(
		struct target *t, uint64_t offset_bytes, const void *buffer, uint64_t length_bytes, struct error *err);
	int (*flush)(struct target *t, struct error *err);
	/* Makes the next read cold; optional where nothing is cached. */
	int (*drop_cache)(struct target *t, struct error *err);
	void (*traffic)(struct target *t, struct target_traffic *ret);
	/* Optional: one thread keeps `depth` requests in flight (bare disks). NULL: bench uses depth threads. */
	struct disk *(*disk)(struct target *t);
	void (*close)(struct target *t);
	/* Optional: asks for `state` anew. Before each phase. */
	void (*refresh)(struct target *t);
};
struct target {
	const struct target_ops *ops;
	char name[128];
	char road[12];
	uint64_t size_bytes;
	uint32_t align_bytes;      /* of offset and length */
	unsigned disk_count;       /* disks behind it, whose counters are the evidence; 0 when not known */
	struct disk *const *disks; /* borrowed */
	bool direct_asked, direct_effective;
	bool reduces_data;    /* a stack that compresses or dedups */
	bool rotating;        /* where no `disks` tell it: the device behind a path */
	uint64_t cache_bytes; /* RAM that may hold its data: page cache for files, 0 for direct */
	const char *state;    /* "healthy", "degraded", … asked before each phase when it can change */
	struct disk *bare;    /* a file's or device's bytes past every cache, to measure the limit on; NULL: none */
	unsigned failures_survived;
};

/* An array made of disks that the caller opened. Creates it (overwriting labels of earlier arrays of the bench on
 * the same disks) and opens it; ret_create_s tells how long that took. */
struct target_array_options {
	const char *layout, *rotation, *write_hole;
	uint64_t chunk_bytes;
};
int target_open_array(const struct target_array_options *o, struct disk *const *disks, unsigned disk_count,
	struct target **ret_target, double *ret_create_s, struct error *err);

/* A pool made of disks that the caller opened, and volumes in it, each a target. Layouts: stripe, mirrorxG, parity1 to
 * parity3 with :WIDTH and xG. Close the targets before the pool. */
#define BENCH_POOL_GROUPS_MAX 128
struct bench_pool;
struct bench_pool_options {
	const char *layout;
	uint64_t cache_bytes, dirty_bytes; /* 0: what a pool takes by itself */
};
int bench_pool_open(const struct bench_pool_options *o, struct disk *const *disks, unsigned disk_count,
	struct bench_pool **ret, double *ret_create_s, struct error *err);
void bench_pool_close(struct bench_pool *p); /* NULL is fine */
int bench_pool_volume(struct bench_pool *p, uint64_t bytes, uint32_t record_bytes, const char *compression,
	struct target **ret_target, struct error *err);
struct spindle_pool_info;
void bench_pool_info(struct bench_pool *p, struct spindle_pool_info *ret); /* see spindle.h */
/* What a layout is, without disks; ERR_USAGE when it does not fit so many. */
struct bench_pool_shape {
	unsigned groups, failures_survived;
	bool is_mirror;
	double data_share;   /* of the raw bytes */
	double usable_share; /* the same without the reserve */
};
int bench_pool_layout(const char *layout, unsigned disks, struct bench_pool_shape *ret, struct error *err);

int target_open_disk(struct disk *disk, struct target **ret_target, struct error *err);
/* All disks side by side, each thread on its own disk: what the limit is measured on. */
int target_open_disks(struct disk *const *disks, unsigned disk_count, struct target **ret_target, struct error *err);
/* A file, a directory (a file is made in it and removed at the end), a block device, "null:", "null:SIZE", "cpu:". */
struct target_path_options {
	uint64_t size_bytes; /* of the file to make; 0: what is there */
	bool direct, destroy, zeroes_ok;
};
int target_open_path(
	const char *path, const struct target_path_options *o, struct target **ret_target, struct error *err);
void target_close(struct target *t);

/* --- workloads --------------------------------------------------------------------------------------------------- */

enum payload_kind { PAYLOAD_RANDOM, PAYLOAD_ZERO, PAYLOAD_RATIO, PAYLOAD_TEXT };
struct payload {
	enum payload_kind kind;
	double ratio; /* PAYLOAD_RATIO: 2.0 is 2:1 */
};
int payload_parse(const char *text, struct payload *ret, struct error *err); /* random, zero, ratio:2, text */
char *payload_name(const struct payload *p, char text[24]);

struct workload {
	char test[24]; /* the name the table shows */
	bool random;
	unsigned read_percent; /* 100 read, 0 write, between: mixed */
	uint64_t block_bytes;
	unsigned depth, jobs;
	uint64_t span_offset_bytes, span_bytes; /* the part of the target that it uses */
	uint64_t total_bytes;                   /* 0: by time */
	uint64_t duration_ns;                   /* 0: by bytes; with both, whichever comes first */
	uint64_t minimum_ns;                    /* go round again until so long */
	uint64_t flush_every_bytes;             /* 0: only at the end */
	bool final_flush;                       /* inside the measured time */
	bool cold;                              /* drop caches before */
	bool read_then_write; /* mixed: each block is read and written back, counted once (bonnie++'s rewrite) */
	unsigned sort_ahead;  /* random: so many operations at a time in the order of their places, as a buffer does; 0: none */
	bool reread;          /* the same again, warm on purpose: labelled, never advised from */
	struct payload payload;
	uint64_t seed;
	unsigned repeats_min, repeats_max; /* 1, 1: one phase, interval from its windows */
	double interval_wanted;            /* 0.05 */
	/* One phase: run anew, so many times as long at most, while its windows do not agree. 0, 1: never. */
	unsigned lengthen_max;
};
/* The ten of compare: write rewrite read reread randread randwrite randread-128k randwrite-128k randread-8k
 * randwrite-8k, on `span_bytes` of a target with `disks` disks. ERR_NOT_FOUND for another name. */
extern const char *const workload_compare_tests[];
int workload_classic(const char *test, unsigned disks, uint64_t span_bytes, struct workload *ret, struct error *err);
/* A preset is a list of workloads with the parameters of the tool it is named after, scaled to the target. */
extern const char *const workload_presets[]; /* dd iozone bonnie vm database nfs quick */
int workload_preset(const char *preset, unsigned disks, uint64_t target_bytes, struct workload **ret_list,
	size_t *ret_count, char ret_scaled[200], struct error *err);

/* --- running ----------------------------------------------------------------------------------------------------- */

struct bench_limit {
	double mb_per_s;       /* of all member disks together with the same pattern; NAN when not measured */
	double model_mb_per_s; /* what the layout should give; NAN when there is no model */
	double alone_mb_per_s; /* sum of the disks, each alone; NAN when not measured */
	double slowest_share;  /* slowest disk's rate over the median of the disks; 1 when equal, NAN unknown */
	double slowest_mb_per_s; /* of that disk, with the others at work; 0 when not known */
	char slow_names[180];    /* those under 0.8 of the median, each with its share; "" when none is */
	double link_mb_per_s; /* what the declared link carries; 0 or NAN: none declared */
};
struct bench_progress {
	void (*say)(void *arg, const char *phase, double share_done, double mb_per_s);
	void *arg;
};
/* Fills the cell's values and verdicts; its key fields stack, layout, disks, fs are the caller's. A failing I/O makes
 * the cell FAILED and returns 0; the return value is for what the bench itself could not do, and ERR_INTERRUPTED. */
int bench_run(struct target *t, const struct workload *w, const struct bench_limit *limit,
	const struct bench_progress *progress, struct cell *cell, struct error *err);
/* Writes every byte of the span once, so that reads read what was written (V16). */
int bench_fill(struct target *t, const struct workload *w, const struct bench_progress *progress, struct error *err);
/* Measures the limit of a workload: the same pattern on all disks together, `span_bytes` of each disk. */
int bench_limit_measure(struct disk *const *disks, unsigned disk_count, const struct workload *w,
	uint64_t span_bytes_each, struct bench_limit *ret, struct error *err);

/* The same for a target whose disks are not known, within its own span: ERR_UNSUPPORTED without a `bare`. What is read
 * must have been written; a workload that writes leaves other data behind. */
int bench_limit_target(struct target *t, const struct workload *w, struct bench_limit *ret, struct error *err);

/* What one disk gives in an array, MB/s: its share of the limit, or where a disk is slow, what that one does, for the
 * others wait for it. */
double bench_limit_one(const struct bench_limit *limit, unsigned disks);
/* False where the disks together give less than 0.9 of what each alone adds up to. */
bool bench_limit_is_shared(const struct bench_limit *limit);
/* What `width` disks side by side make of records of so many MB at random places, each cut over all of them: MB/s.
 * `one` and `stream`: what one disk does with whole records, and as a stream. */
double bench_record_rate(double width, double block_mb, double one, double stream);
/* Turns the limit of bare disks into that of a pool over them, and adds the model. stream_read and stream_write: of one
 * disk, MB/s; 0 when not known. */
void bench_pool_limit(const struct bench_pool_shape *shape, const struct workload *w, unsigned disks,
	double stream_read, double stream_write, struct bench_limit *limit);

/* What the CPU of this machine costs per stage, for the charge of virtual time and for `bench cpu:`. */
void bench_cpu_measure(struct os_cost ret_costs[OS_STAGE_COUNT]);
void bench_host(struct result_host *ret);

/* --- survey ------------------------------------------------------------------------------------------------------ */

struct survey_disk {
	double outer_mb_per_s, inner_mb_per_s, together_mb_per_s, random_iops, random32_iops, flush_ms;
	double write_outer_mb_per_s; /* NAN unless writing was allowed */
	double ms_512, ms_4096;      /* NAN unless writing was allowed: sub-sector write probe */
	bool slow, e512;             /* 512e: 512 logical on 4096 physical */
	char error[200];             /* "" when all went well */
};
struct survey {
	size_t disk_count;
	struct survey_disk *disks;
	double sum_alone_mb_per_s, sum_together_mb_per_s;
	bool bus_bound;
	double bus_mb_per_s;
};
struct survey_options {
	bool write; /* write probes too */
	uint64_t seconds_each_ns;
};
int survey_run(struct disk *const *disks, unsigned disk_count, const struct survey_options *o,
	const struct bench_progress *progress, struct survey *ret, struct error *err);
void survey_release(struct survey *s);

/* --- statistics -------------------------------------------------------------------------------------------------- */

double stats_median(const double *values, size_t count);
double stats_mad(const double *values, size_t count);
/* 95 % interval of the median by bootstrap, seeded. */
void stats_interval(const double *values, size_t count, uint64_t seed, double ret_interval[2]);
/* Two-sided Mann-Whitney U test; p value (normal approximation with tie correction, exact below 8). */
double stats_mann_whitney(const double *a, size_t a_count, const double *b, size_t b_count);

/* Log-linear latency histogram: 128 buckets per power of two (error under 1 %), mergeable. */
struct histogram;
int histogram_create(struct histogram **ret, struct error *err);
void histogram_free(struct histogram *h);
void histogram_add(struct histogram *h, uint64_t ns);
void histogram_merge(struct histogram *to, const struct histogram *from);
uint64_t histogram_count(const struct histogram *h);
uint64_t histogram_percentile(const struct histogram *h, double percentile); /* 0 when empty */
uint64_t histogram_max(const struct histogram *h);

#endif
