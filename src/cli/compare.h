/* What the files of `spindle compare` share: compare.c (options, flow), compare_disks.c, compare_run.c, compare_show.c,
 * compare_worlds.c. */
#ifndef COMPARE_H
#define COMPARE_H

#include "array.h"
#include "bench.h"
#include "cli.h"
#include "report.h"

#define COMPARE_LAYOUTS_MAX 32
#define COMPARE_TESTS_MAX 32
#define COMPARE_WORDS_MAX 512

struct compare_layout {
	char name[32];
	bool real_too;        /* of a run on both clocks: run on the real one as well */
	bool is_pool;         /* a copy-on-write pool, not an array */
	char compression[16]; /* of a pool */
	double ratio;         /* of the payload; 0: incompressible */
};

/* One disk of the command line: what stands in disks.specs[i] once a directory was given is the file made in it. */
struct compare_file {
	char path[512];
};

/* Of each test, in the order of compare_tests_make. */
struct compare_limits_of {
	struct bench_limit of[COMPARE_TESTS_MAX];
	size_t count;                     /* 0 while nothing was measured */
	double stream_read, stream_write; /* of one disk, MB/s; 0 until a sequential test has told */
};
struct compare_limits {
	struct compare_limits_of all, one; /* disks */
};

struct compare {
	/* asked for */
	const char *words[COMPARE_WORDS_MAX]; /* DISK words and those of --model, in their order */
	bool word_is_model[COMPARE_WORDS_MAX];
	unsigned word_count;
	struct cli_destroy destroy;
	struct compare_layout layouts[COMPARE_LAYOUTS_MAX];
	unsigned layout_count;
	char tests[COMPARE_TESTS_MAX][24];
	unsigned test_count;
	const char *preset, *rig, *out_dir;
	uint64_t chunk_bytes, size_bytes, budget_ns, seed; /* 0: by default */
	unsigned cpus;
	bool clock_virtual, clock_real, clock_named, layouts_named, cpu_free;
	bool stack_array, stack_pool; /* both unless --stacks names one */
	bool full;                    /* everything on the real clock too */
	bool json, csv, markdown, fio_json, dry_run, yes;

	/* found out */
	struct cli_disks disks;
	unsigned disk_count;
	bool all_memory, all_modelled;
	uint64_t disk_bytes; /* of the smallest */
	uint64_t data_bytes; /* that an array finds on it */
	uint64_t span_bytes; /* of each disk that the tests use */
	uint64_t phase_ns;   /* a phase on the real clock takes so long at least */
	unsigned repeats_min, repeats_max;
	struct compare_file *files; /* made in directories, removed at the end */
	size_t file_count;

	/* the run */
	struct os_cost costs[OS_STAGE_COUNT];
	struct cli_progress progress;
	struct result result;
	char run_dir[CLI_PATH_BYTES];
};

/* compare_disks.c */
int compare_disks_parse(struct compare *c, struct error *err); /* words → specs, memory sizes chosen */
int compare_disks_look(struct compare *c, struct error *err);  /* inspect, guard, sizes; writes nothing */
void compare_disks_show(const struct compare *c, FILE *out);   /* what is erased */
int compare_files_room(const struct compare *c, struct error *err); /* for them; takes away what a killed run left */
int compare_files_make(struct compare *c, struct error *err);  /* in the directories that were given */
void compare_files_remove(struct compare *c);
int compare_disks_note(
	struct compare *c, struct disk *const *disks, unsigned count, struct error *err); /* → result.disks */

/* compare_run.c */
int compare_tests_make(const struct compare *c, unsigned disks, uint64_t span_bytes, bool virtual,
	struct workload **ret_list, size_t *ret_count, char ret_scaled[200], struct error *err);
unsigned compare_phases(const struct compare *c);
bool compare_on_real(const struct compare *c, const struct compare_layout *l);
unsigned compare_disks_of(const struct compare *c, const char *layout); /* how many of the disks a layout uses */
uint64_t compare_estimate_ns(const struct compare *c);
int compare_run_virtual(struct compare *c, struct compare_limits *limits, struct error *err);
/* `limits` of a virtual run of the same modelled disks are taken over: a model gives the same on both clocks. */
int compare_run_real(struct compare *c, struct compare_limits *limits, struct error *err);

/* compare_worlds.c */
/* Calls `run` for each layout, in a process of its own and several at a time where there are CPUs for it, and adds the
 * cells that it adds to the result, in the order of the layouts. `died` gets to know what became of a process that did
 * not come to its end. */
struct compare_worlds {
	int (*run)(struct compare *c, void *arg, unsigned layout, struct error *err);
	int (*died)(struct compare *c, void *arg, unsigned layout, const char *reason, struct error *err);
	void *arg;
};
int compare_worlds_run(struct compare *c, const struct compare_worlds *w, struct error *err);

/* compare_show.c */
int compare_show(const struct compare *c, struct error *err);
int compare_save(struct compare *c, struct error *err);
void compare_plan_print(const struct compare *c, FILE *out);

#endif
