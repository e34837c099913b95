/* What space.c, zone.c and run.c share; the rest of the pool sees internal.h. All with p->lock held. */
#ifndef POOL_SPACE_H
#define POOL_SPACE_H

#include "internal.h"

#define GROUP_WEIGHT_ONE 16 /* of the group with the most room; what differs by less than a half of a 16th is equal */

#define META_ROW_PIECES 64u /* 1 MiB: the longest row of nodes on one set of disks */

struct waiting { /* in the quarantine: columns in a row that checkpoint `tag` freed */
	uint64_t tag, unit;
	uint32_t count;
	uint8_t disk, class;
};

struct pin {
	uint64_t checkpoint;
	unsigned readers;
};

struct space {
	struct run **buckets;
	size_t bucket_count, run_count, over_count;
	struct run *open[POOL_GROUPS_MAX][CLASS_COUNT];
	int64_t credit[POOL_GROUPS_MAX][CLASS_COUNT]; /* of the weighted turn */
	uint64_t parity_bytes[POOL_DISKS_MAX];        /* of runs that are there: who has the least gets the next */
	uint32_t free_columns[POOL_DISKS_MAX][CLASS_COUNT + 1]; /* in zones of each class */
	unsigned meta_group, meta_turn[POOL_GROUPS_MAX];
	struct waiting *waiting;
	size_t waiting_count, waiting_room;
	struct pin *pins;
	size_t pin_count, pin_room;
	struct repairs *repairs;
	/* for the figures: of data columns, without parity */
	uint64_t live_bytes, dead_bytes;
};

static inline uint64_t class_units(unsigned class)
{
	return class_bytes[class] / POOL_UNIT_BYTES;
}

/* --- zone.c: which columns of a disk are taken ----------------------------------------------------------------- */

struct stretch { /* columns in a row, all in one zone */
	unsigned zone;
	uint32_t first, count;
};
static inline uint32_t zone_columns(const struct pool_disk *d, unsigned class)
{
	return (uint32_t)(d->zone_bytes / class_bytes[class]);
}
unsigned zones_reserved(const struct pool_disk *d); /* outside AVAIL */
/* The lowest stretch of `wanted` columns in a zone of the class, else in the lowest free zone, else the longest there
 * is. false: none at all. Takes nothing. */
bool zone_find(const struct pool_disk *d, unsigned class, uint32_t wanted, enum zone_use use, struct stretch *ret);
int zone_take(struct pool *p, struct pool_disk *d, unsigned class, const struct stretch *s, uint64_t *ret_unit,
	struct error *err);
/* For what a descriptor says: ERR_CORRUPT unless they are inside, in place and free. */
int zone_claim(struct pool *p, unsigned disk, unsigned class, uint64_t unit, uint32_t count, struct error *err);
void zone_release(struct pool *p, unsigned disk, unsigned class, uint64_t unit, uint32_t count);
/* Marks pieces of nodes as waiting, for the map of zones. */
void zone_mark_waiting(struct pool *p, unsigned disk, uint64_t unit, uint32_t count);

/* --- space.c --------------------------------------------------------------------------------------------------- */

int space_quarantine(struct pool *p, uint64_t tag, unsigned disk, unsigned class, uint64_t unit, uint32_t count);
/* Free zones are few: what opens one must be what was promised room in it. */
bool space_is_tight(const struct pool *p);
bool space_is_due(const struct pool *p, uint64_t tag);
/* How the group writes new stripes with the disks that it has now. disks: where columns may lie, those that are there
 * first. */
struct group_shape {
	unsigned k, p;
	unsigned disk_count, online;
	unsigned disks[POOL_DISKS_MAX];
};
bool group_shape(const struct pool *p, const struct pool_group *g, struct group_shape *ret);

/* --- run.c ----------------------------------------------------------------------------------------------------- */

struct run *run_make(
	struct pool *p, uint64_t id, unsigned class, unsigned k, unsigned parity, uint32_t room, struct error *err);
void run_forget(
	struct pool *p, struct run *r); /* out of the table and of memory; its columns are the caller's business */
void run_close(struct pool *p, struct run *r); /* gives back what it reserved and did not use; forgets an empty one */
/* Stripes in this group, as space_allot; `apart`: a run of their own. */
int run_allot(struct pool *p, unsigned group, uint64_t commit, unsigned class, uint32_t records, uint32_t wanted,
	enum zone_use use, bool apart, struct allotment *ret, struct error *err);
void runs_drop_over(struct pool *p); /* those whose quarantine ended */
void runs_free(struct pool *p);

/* What becomes of allotted stripes: they are in a transaction, or nothing refers to them. */
int stripes_keep(
	struct pool *p, struct run *r, uint32_t first, uint32_t count, const uint32_t *sums, struct error *err);
void stripes_drop(struct pool *p, struct run *r, uint32_t first, uint32_t count);
/* Moving a column of a closed run: room for it, then the switch. */
int run_move_begin(struct pool *p, struct run *r, unsigned column, struct disk_address *ret, struct error *err);
void run_move_cancel(struct pool *p, const struct run *r, uint32_t stripes, const struct disk_address *to);
void run_move(struct pool *p, struct run *r, unsigned column, const struct disk_address *to);

static inline bool bit_get(const uint64_t *bits, size_t i)
{
	return bits[i / 64] >> (i % 64) & 1;
}
static inline void bit_set(uint64_t *bits, size_t i)
{
	bits[i / 64] |= 1ULL << (i % 64);
}
static inline void bit_clear(uint64_t *bits, size_t i)
{
	bits[i / 64] &= ~(1ULL << (i % 64));
}

#endif
