/*
 * oracle: an array, threads that use it, disks that fail under it, and a model that knows what each sector may hold.
 *
 * What is held against the array, for every sector of 512 bytes of the parts of it that are used:
 *   - a read returns a value whose write had begun, and that no write which had returned before the read began came
 *     after;
 *   - after a power cut a sector holds what the last flush that returned made durable, or anything written since, done
 *     or under way;
 *   - bytes that were never written are zeros (where rows carry a state: in redundant layouts), except in a row whose
 *     first write was under way when power went, if the disks held noise;
 *   - ERR_LOST only where redundancy was used up at the very place: lost_allowed in oracle.c;
 *   - what was seen after recovery stays, and stays whoever goes then;
 *   - copies and parity agree after recovery.
 * Each sector that is written carries its own number and that of the write, so a wrong one tells where it came from.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include "array.h"
#include "crash_disk.h"

#define ORACLE_TEXT_BYTES 512

/* What happens besides writing, reading and flushing. */
enum oracle_plan {
	ORACLE_POWER,   /* power cuts, some during recovery */
	ORACLE_LOSE,    /* with a cut members go, as many as the layout survives; later they are replaced */
	ORACLE_VANISH,  /* a member goes while it runs, and is back, stale, after the cut */
	ORACLE_REBUILD, /* a member is replaced; power goes meanwhile */
	ORACLE_FAULT,   /* one fault, no cut: nothing may be lost and, within redundancy, no call may fail */
	ORACLE_PLANS
};
extern const char *const oracle_plan_names[ORACLE_PLANS];
extern const char *const oracle_fault_names[CRASH_FAULTS];

/* Mistakes planted to see that the oracle notices. */
enum oracle_planted { ORACLE_SOUND, ORACLE_LYING_FLUSH, ORACLE_ONE_LYING_FLUSH, ORACLE_NO_LOG, ORACLE_PLANTED_KINDS };
extern const char *const oracle_planted_names[ORACLE_PLANTED_KINDS];

struct oracle_options {
	uint64_t seed;
	char layout[32];
	enum oracle_plan plan;
	/* Drawn from the seed by oracle_options_draw, each may be set after it. */
	unsigned disks;
	uint64_t chunk_bytes;
	enum array_hole hole;
	enum layout_rotation rotation;
	bool log_disk, noise, stream;
	unsigned threads, steps, generations;
	uint64_t buffer_bytes;
	unsigned sector_bytes; /* of the disks: 512 or 4096 */
	uint64_t cut; /* operation of the first generation at which power goes, or the fault is met; 0: drawn */
	enum crash_fault fault; /* of ORACLE_FAULT */
	enum oracle_planted planted;
	bool loud; /* says on stderr what it does */
};
void oracle_options_draw(struct oracle_options *o, uint64_t seed, const char *layout, enum oracle_plan plan);
/* As options of array-oracle. */
char *oracle_options_text(const struct oracle_options *o, char text[ORACLE_TEXT_BYTES]);

struct oracle_result {
	uint64_t cuts, writes, reads, flushes, sectors_compared, operations, trace_hash;
	uint64_t lost_sectors, replayed_records, resynced_rows, rebuilds;
	bool fault_met; /* the operation that should fail, or at which power should go, was reached */
};
/* 0, or ERR_CORRUPT with what was seen and what was promised. Opens its own simulated world. */
int oracle_run(const struct oracle_options *o, struct oracle_result *ret, struct error *err);

/* The layouts that are tried; NULL ends the list. */
extern const char *const oracle_layouts[];
bool oracle_is_redundant(const char *layout);

/* Runs `body` in a child process, so that a crash, a hang (a run that takes more than seconds_max) or an assertion is one more
 * result. `note` is memory that both see: what the child did last. Returns what body returned, or ERR_BUG. */
struct oracle_note {
	struct oracle_options options;
	struct oracle_result result, sum;
	struct error error;
	uint64_t runs;
};
int oracle_guard(int (*body)(void *arg, struct oracle_note *note), void *arg, unsigned seconds_max,
	struct oracle_note *ret_note, struct error *err);
void oracle_result_add(struct oracle_result *sum, const struct oracle_result *r);
/* oracle_run, noted, added to the sum; a failure's sentence gets the options in front. */
int oracle_run_noted(const struct oracle_options *o, struct oracle_note *note);

#endif
