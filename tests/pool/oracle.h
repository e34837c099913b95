/*
 * oracle: a pool, threads that use its volumes, disks that fail under it, and models that know what each sector may hold.
 *
 * What is held against the pool:
 *   - a read returns a value whose write had begun, and that no write which had returned before the read began came after;
 *   - after a power cut a sector holds what the last flush of its volume that returned made durable, or anything written
 *     since, done or under way; never anything else;
 *   - a snapshot holds exactly what its volume held when it was taken; a rollback happens wholly or not at all;
 *   - within redundancy no call fails and nothing is lost, whoever goes, and whoever comes back;
 *   - `check` finds nothing, after every recovery; a second scrub finds nothing; with any p disks away all can be read;
 *   - the two checkpoints before the newest are whole, and hold their snapshots;
 *   - damage beyond redundancy is refused, or imported for reading only, and nothing wrong is given out;
 *   - one seed leaves one image on the disks;
 *   - in a full pool what is there can be deleted, and then there is room again.
 * Each sector that is written carries its own number and that of the write, so a wrong one tells where it came from.
 */
#ifndef POOL_ORACLE_H
#define POOL_ORACLE_H

#include "../array/crash_disk.h"
#include "pool.h"

enum oracle_plan {
	ORACLE_POWER,  /* power cuts, some during recovery */
	ORACLE_LOSE,   /* with a cut disks go, as many as the pool survives; later they are back, stale */
	ORACLE_VANISH, /* a disk goes while it runs, and is back, stale, after the cut */
	ORACLE_FAULT,  /* one operation fails: within redundancy no call may */
	ORACLE_ROT,    /* bytes change silently on one disk at a time, and writes of it are lost or misdirected */
	ORACLE_FULL,   /* more is written than fits */
	ORACLE_WRECK,  /* beyond redundancy: a share of all pages of all disks is wrong */
	ORACLE_PLANS
};
extern const char *const oracle_plan_names[ORACLE_PLANS];
/* Shapes of pools; NULL ends the list. */
extern const char *const oracle_shapes[];

struct oracle_options {
	uint64_t seed;
	enum oracle_plan plan;
	char shape[32];
	/* drawn from the seed by oracle_options_draw; each may be set after it */
	unsigned threads, steps, generations, compression; /* 0 off, 1 lz4, 2 zstd */
	uint32_t record_bytes;
	uint64_t cut; /* operation of the first generation at which power goes, or the fault is met; 0: drawn */
	enum crash_fault fault;
	unsigned break_rule; /* POOL-n, in a build with mutations */
	bool lying_flush;    /* a mistake planted to see that the oracle notices */
	bool full;           /* every judge, after every recovery */
	bool twice;          /* and again: the same bytes on the disks, the same events */
	bool loud;
};
/* A small one: many generations of few steps, for the most power cuts in the least time. */
void oracle_options_draw_small(struct oracle_options *o, uint64_t seed, const char *shape, enum oracle_plan plan);
void oracle_options_draw(struct oracle_options *o, uint64_t seed, const char *shape, enum oracle_plan plan);
#define ORACLE_TEXT_BYTES 512
char *oracle_options_text(const struct oracle_options *o, char text[ORACLE_TEXT_BYTES]); /* as options of pool-oracle */
bool oracle_plan_fits(const char *shape, enum oracle_plan plan);

struct oracle_result {
	uint64_t cuts, operations, writes, reads, flushes, snapshots, sectors_compared, checks, scrubs, full_oracles,
		refused_full, rewinds, refused, read_only; /* imports that were refused, or for reading only, for damage */
	uint64_t trace_hash, image_hash;
	bool met; /* the operation at which power was to go, or the fault to be met, came */
};
/* 0, or ERR_CORRUPT with what was seen and what was promised. Opens its own simulated world. */
int oracle_run(const struct oracle_options *o, struct oracle_result *ret, struct error *err);

/* In a child process, so that a crash, a hang or an assertion is one more result. */
struct oracle_note {
	struct oracle_options options;
	struct oracle_result sum, last;
	struct error error;
	uint64_t runs;
};
int oracle_guard(int (*body)(void *arg, struct oracle_note *note), void *arg, unsigned seconds_max,
	struct oracle_note *ret, struct error *err);
int oracle_run_noted(const struct oracle_options *o, struct oracle_note *note);

#endif
