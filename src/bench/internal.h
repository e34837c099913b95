/* Between the files of bench. */
#ifndef BENCH_INTERNAL_H
#define BENCH_INTERNAL_H

#include "bench.h"

/* A bijection that spreads every input bit over the word (the finaliser of splitmix64). */
static inline uint64_t mix_u64(uint64_t v)
{
	v += 0x9e3779b97f4a7c15ULL;
	v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9ULL;
	v = (v ^ (v >> 27)) * 0x94d049bb133111ebULL;
	return v ^ (v >> 31);
}

/* As stats_interval, of the mean: what one phase reports is the mean of its windows. */
void stats_interval_mean(const double *values, size_t count, uint64_t seed, double ret_interval[2]);

/* --- payload.c --------------------------------------------------------------------------------------------------- */

#define PAYLOAD_UNIT 4096u

struct payload_pool;
int payload_pool_create(
	struct payload_pool **ret, const struct payload *kind, uint64_t seed, uint64_t bytes, struct error *err);
void payload_pool_free(struct payload_pool *p);
uint8_t *payload_pool_at(struct payload_pool *p, uint64_t unit);
/* Makes `length_bytes` of the pool from `unit` on the data of this place of the target and this pass, and of no other.
 */
void payload_stamp(struct payload_pool *p, uint64_t unit, uint64_t offset_bytes, uint64_t length_bytes, uint64_t pass);
/* Whether `bytes` (at most a unit) read at an offset are what payload_stamp made for it. */
bool payload_check(const struct payload *kind, uint64_t seed, uint64_t pass, uint64_t offset_bytes, const uint8_t *data,
	uint64_t bytes);

/* --- timeline.c -------------------------------------------------------------------------------------------------- */

#define TIMELINE_SLICES 512

/* Bytes over time in slices of one width, which doubles whenever the slices run out. Each operation is spread over
 * the time it took. */
struct timeline {
	uint64_t width_ns;
	double bytes[TIMELINE_SLICES];
	double place[TIMELINE_SLICES]; /* Σ bytes × position in the target (0 to 1) */
};
void timeline_init(struct timeline *t);
void timeline_add(struct timeline *t, uint64_t start_ns, uint64_t end_ns, uint64_t bytes, double position);
void timeline_merge(struct timeline *to, const struct timeline *from);
/* Cuts a part into `count` windows of equal time; nothing happened after `end_ns`. */
void timeline_windows(const struct timeline *t, uint64_t from_ns, uint64_t to_ns, uint64_t end_ns, unsigned count,
	double *ret_mb_per_s, double *ret_position);

/* --- device_line.c ----------------------------------------------------------------------------------------------- */

struct device_line;
int device_line_open(struct device_line **ret, struct target *t, struct error *err);
void device_line_begin(struct device_line *l);
void device_line_end(struct device_line *l, struct timeline *ret_line, uint64_t *ret_bytes, uint64_t *ret_end_ns);
void device_line_close(struct device_line *l); /* NULL is fine */

/* --- phase.c ----------------------------------------------------------------------------------------------------- */

#define PHASE_SAMPLES 16

/* One run of a workload. `job_disks`, when given, makes job j work on job_disks[j] alone, within the same span. */
struct phase {
	struct target *target;
	const struct workload *workload;
	struct disk *const *job_disks;
	struct payload_pool *pool;
	bool by_disk_queue; /* one thread a job keeps `depth` in flight */
	const struct bench_progress *progress;
};
struct phase_result {
	uint64_t ops, bytes, read_bytes, write_bytes, pass;
	uint64_t work_ns, final_flush_ns, elapsed_ns; /* elapsed: both */
	uint64_t full_ns;                             /* so long all workers were busy: the windows end there */
	uint64_t flush_count;                         /* flushes between writes */
	struct histogram *latency, *flush_latency;
	struct timeline timeline;
	struct timeline device_timeline; /* what the disks moved, 0 without disks; the final flush included */
	uint64_t device_bytes, device_end_ns;
	uint64_t *job_bytes, *job_first_ns,
		*job_ns; /* by job, for limits: bytes; time of the first operation and of all */
	struct {
		uint64_t offset_bytes, bytes;
	} written[PHASE_SAMPLES]; /* a sample of what was written */
	unsigned written_count;
	double busiest_worker; /* CPU time of the busiest of our threads over its run time; NAN when not known */
	struct error failure;
	bool interrupted;
};
/* Bytes of payload that a phase keeps in flight. */
uint64_t phase_pool_bytes(const struct workload *w);
/* An I/O error is in ret->failure; the return value is for what the bench itself could not do. */
int phase_run(const struct phase *p, struct phase_result *ret, struct error *err);
void phase_result_release(struct phase_result *r);
/* Reads the sample back. ERR_CORRUPT, with the place, for what is not what was written. */
int phase_verify(const struct phase *p, const struct phase_result *r, struct error *err);
int workload_check(const struct target *t, const struct workload *w, struct error *err);

/* --- evidence.c -------------------------------------------------------------------------------------------------- */

struct evidence_disk {
	uint64_t ops, read_bytes, write_bytes, busy_ns, latency_ns, flushes, flush_ns, writes, late_ns;
};
/* Sums over the phases of a cell. */
struct evidence {
	uint64_t elapsed_ns;
	struct target_traffic traffic;
	uint64_t process_ns, system_busy_ns, system_total_ns;
	unsigned cpus;
	unsigned disk_count;
	struct evidence_disk *disks;
	double busiest_thread;   /* share of a CPU, NAN when not known */
	double idle_bytes_per_s; /* device traffic while the bench did nothing */
	char resync[120];        /* what the kernel's arrays are busy with, "" */
};
struct evidence_mark;
int evidence_init(struct evidence *e, const struct target *t, struct error *err);
void evidence_release(struct evidence *e);
int evidence_begin(struct target *t, struct evidence_mark **ret, struct error *err);
/* Adds what happened since; frees the mark. */
void evidence_end(struct target *t, struct evidence_mark *m, struct evidence *e);
/* Waits, a second at most, until the devices are quiet, and notes what goes on if they are not. */
void evidence_idle(struct target *t, struct evidence *e);
double evidence_device_busy(const struct evidence *e); /* of the busiest device, 0 to 1; NAN when not known */
void evidence_resync(const char *mdstat_path, struct evidence *e);
/* Σ of the counters, for targets that know their disks. */
void traffic_of_disks(struct disk *const *disks, unsigned disk_count, struct target_traffic *ret);
uint64_t evidence_thread_cpu_ns(void);

/* --- steady.c ---------------------------------------------------------------------------------------------------- */

#define STEADY_WINDOWS_MAX 64
#define STEADY_ROUNDS 6
#define STEADY_RANGE_MAX 0.20
#define STEADY_SLOPE_MAX 0.10

struct steady {
	bool steady, step;
	double range, slope;     /* of the last five windows, over their mean */
	double burst, sustained; /* MB/s on both sides of a step */
	double at;               /* where it is, as a share of the time */
};
/* Takes the slope out that the zones of a rotating disk explain: rate = r·(1 − s·position), 0 ≤ s ≤ 0.6. */
void steady_flatten(double *rates, const double *positions, unsigned count);
unsigned steady_rounds(const double *rates, unsigned count, double ret_rounds[STEADY_ROUNDS]);
void steady_judge(const double *rates, unsigned count, struct steady *ret);
/* A step counts from `burst_least` windows on: a drive's own cache fills in less. */
void steady_step(const double *rates, unsigned count, unsigned burst_least, struct steady *ret);

/* --- verdict.c --------------------------------------------------------------------------------------------------- */

struct judge {
	const struct target *target;
	const struct workload *workload;
	const struct bench_limit *limit; /* never NULL; NAN where not measured */
	const struct evidence *evidence;
	const struct steady *steady;
	uint64_t ops, bytes, read_bytes, write_bytes;
	uint64_t elapsed_ns, shortest_ns;         /* all phases; the shortest */
	uint64_t flush_count, flush_median_ns;    /* flushes between writes */
	double final_flush_share, burst_mb_per_s; /* of the elapsed time; rate without it */
	double ceiling_mb_per_s; /* of the bench itself, on a target that does nothing; NAN when not measured */
	bool interval_from_windows;
};
/* Needs mb_per_s, samples and interval of the cell; writes its notes and efficiency. */
void verdict_judge(const struct judge *j, struct cell *cell);

/* --- targets ----------------------------------------------------------------------------------------------------- */

int target_open_null(uint64_t size_bytes, struct target **ret, struct error *err);
int target_open_cpu(struct target **ret, struct error *err);
int target_open_file(const char *path, const struct target_path_options *o, struct target **ret, struct error *err);
bool target_is_modelled(const struct target *t); /* modelled or in memory: its time is what the model says */
bool target_is_rotating(const struct target *t);
void options_add(struct cell *cell, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
