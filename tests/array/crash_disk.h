/*
 * crash_disk: disks in memory that lose power, for tests. May use base, os and disk.
 *
 *   struct platter    what a disk holds: survives power cuts, can be copied cheaply
 *   struct crash_disk a disk over a platter with a volatile write cache
 *   struct power      what all disks of a test hang on: it counts their operations and fails at the Nth
 *
 * The model. A write that completed sits in the cache until a flush completes that was submitted after it. When the
 * power goes, everything in flight comes back with ERR_GONE, and so does all that is asked later. Of each write in
 * the cache, and of each write in flight, the platter keeps all, nothing, or some of its sectors. Two writes of one
 * sector that completed one after the other are never turned round (a cache is coherent); otherwise no order holds.
 */
#ifndef CRASH_DISK_H
#define CRASH_DISK_H

#include "disk.h"

#define CRASH_SECTOR_BYTES 512u
#define CRASH_DISKS_MAX 64

/* --- what a disk holds --------------------------------------------------------------------------------- */

struct platter;

/* Zeros, or noise that depends on the seed when it is not 0. */
struct platter *platter_make(uint64_t size_bytes, uint64_t noise_seed);
struct platter *platter_copy(const struct platter *p);
void platter_free(struct platter *p); /* NULL is fine */
void platter_read(const struct platter *p, uint64_t offset_bytes, void *buffer, uint64_t length_bytes);
void platter_write(struct platter *p, uint64_t offset_bytes, const void *buffer, uint64_t length_bytes);
uint64_t platter_hash(const struct platter *p); /* of every page that was ever written, and where it lies */
/* Changes one byte of every page, with odds of n in 16, that was ever written. */
void platter_wreck(struct platter *p, struct random *r, unsigned odds);
uint64_t platter_size(const struct platter *p);

/* --- power, and faults by number ------------------------------------------------------------------------ */

enum crash_fault {
	CRASH_NOTHING,
	CRASH_EIO_ONCE,   /* this operation fails */
	CRASH_EIO_STICKY, /* this operation and all later ones of its disk fail */
	CRASH_VANISH,     /* this disk is gone from here on */
	CRASH_MEDIA,      /* as CRASH_EIO_ONCE; a read finds its first sector unreadable until it is written */
	CRASH_FAULTS,
	CRASH_EIO_FLUSH = CRASH_FAULTS, /* from the first flush at or after this operation on, no flush of its disk works */
};

struct power {
	struct random random;
	uint64_t operations; /* submitted so far, on all disks */
	uint64_t cut_at;     /* the operation at which the power goes, for all; from 1; 0: at none */
	uint64_t fault_at;   /* the operation that meets the fault */
	enum crash_fault fault;
	bool is_cut;
	bool is_met;      /* the operation of either number came */
	struct disk *hit; /* the disk that met it */
	enum disk_op hit_op;
	struct disk *disks[CRASH_DISKS_MAX];
	unsigned disk_count;
	uint64_t latency_ns_max;
	struct disk *liar; /* of its writes one in 16 is silently lost, or goes to another place behind the first MiB */
	unsigned odds_keep, odds_tear; /* of 16: a write in doubt is kept whole, or torn; else it is lost */
};
void power_init(struct power *p, uint64_t seed);
/* The power goes now. Draws for each disk what is left of the writes in doubt. */
void power_cut(struct power *p);

/* --- a disk ----------------------------------------------------------------------------------------------- */

struct crash_options {
	bool lying_flush;       /* says that it flushed and did not */
	bool flush_nothing;     /* writes are durable at once and need no flush: a disk without a cache */
	uint32_t logical_bytes; /* 0: 512 */
};
/* Takes over the platter. */
int crash_disk_open(const char *name, struct power *power, struct platter *platter, const struct crash_options *o,
	struct disk **ret, struct error *err);
/* What is on the platter: after a cut what the power left, else what was written, flushed or not. Closes the disk. */
struct platter *crash_disk_take(struct disk *d);
/* What completed so far, or what the power left, as a copy; the disk goes on. */
struct platter *crash_disk_peek(const struct disk *d);
void crash_disk_vanish(struct disk *d); /* from here on: ERR_GONE */
void crash_disk_flip(
	struct disk *d, uint64_t offset_bytes, uint8_t mask); /* silently, on the platter and in the cache */
void crash_disk_spoil(struct disk *d, uint64_t offset_bytes, uint64_t length_bytes); /* ERR_MEDIA until written */
bool crash_disk_failing(const struct disk *d);

#endif
