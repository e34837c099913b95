/* Between the files of `spindle bench`. */
#ifndef BENCH_CLI_H
#define BENCH_CLI_H

#include "bench.h"
#include "cli.h"
#include "layout.h"
#include "result.h"

#define BENCH_TESTS_MAX 32

struct bench_request {
	/* what runs */
	const char *preset, *rw;
	const char *tests[BENCH_TESTS_MAX];
	unsigned test_count;
	uint64_t block_bytes, size_bytes, duration_ns, flush_bytes, seed;
	unsigned depth, jobs, read_percent, repeats;
	const char *payload;
	/* on what */
	const char *words[LAYOUT_DISKS_MAX];
	unsigned word_count;
	const char *rotation, *write_hole, *model;
	uint64_t chunk_bytes;
	uint64_t record_bytes, cache_bytes; /* of a pool; 0: not said */
	bool buffered;
	double limit_mb_per_s, link_mb_per_s; /* NAN: not said */
	const char *link_name;
	struct cli_destroy destroy;
	/* how */
	bool is_virtual, cpu_is_free;
	unsigned cpus;
	/* what comes out */
	enum { BENCH_OUT_TABLE, BENCH_OUT_JSON, BENCH_OUT_CSV, BENCH_OUT_FIO, BENCH_OUT_MARKDOWN } out;
	bool quiet;
};

/* 0, CLI_HELP, or an error. */
int bench_request_take(struct bench_request *r, int argc, char **argv, struct error *err);
/* The workloads asked for, for a target of `disks` disks and so many bytes. The caller frees the list. */
int bench_request_workloads(const struct bench_request *r, unsigned disks, uint64_t target_bytes,
	struct workload **ret_list, size_t *ret_count, char ret_scaled[200], struct error *err);
/* Runs all workloads on one target of the request; `word` is a path, null:, "array:LAYOUT" or "pool:LAYOUT" with the disks. */
int bench_target_run(const struct bench_request *r, const char *word, struct cli_disks *disks, struct result *result,
	struct error *err);
/* "array:…", "pool:…": made of the disks that follow. */
bool bench_word_is_array(const char *word);
bool bench_word_is_pool(const char *word);
/* Fills what a result says of a disk. */
int bench_result_disk(struct result *r, const struct disk *disk, struct error *err);

#endif
