/* What the files of pool_check share. check.c tells the story. */
#ifndef POOL_CHECK_H
#define POOL_CHECK_H

#include "internal.h"

/* What is known of a column or of a piece of 16 KiB, a bit each. */
enum check_set {
	SET_STATED,  /* by a descriptor's live bits, by the map of nodes */
	SET_ALL,     /* reached by any tree */
	SET_FAMILY,  /* by this dataset, its snapshots, its clones: they share */
	SET_TREE,    /* by the tree that is walked */
	SET_BEFORE,  /* by the snapshot before it */
	SET_CHARGED, /* counted in the `used` of the dataset and its snapshots */
	SET_COUNT
};

struct check_run {
	uint64_t id, birth, birth_last;
	uint32_t stripes, sums_items;
	uint16_t group;
	uint8_t class, k, p;
	struct disk_address column[POOL_WIDTH_MAX];
	uint8_t column_state[POOL_WIDTH_MAX];
	uint8_t *returned;        /* a bit a stripe */
	uint8_t *sets[SET_COUNT]; /* a bit a data column */
};

struct check_zone {
	uint8_t *sets[SET_COUNT]; /* a bit a piece */
};

struct check_dataset {
	uint64_t id, parent, origin, created_commit, volume_bytes;
	uint32_t record_bytes;
	uint8_t type;
	bool has_facts, has_root;
	struct bp root;
	uint64_t used, referenced, logical, dead_list, newest;
	uint64_t family; /* id of the dataset that all clones come from */
	char name[64];
};

struct check {
	struct pool *p;
	struct uberblock uber;
	bool verify_data;
	bool unread; /* a part could not be read: what seems to be leaked may hang there */
	void (*finding)(void *arg, const char *sentence);
	void *arg;
	struct pool_check_result result;
	struct error *err;
	int rc;                 /* no memory, or interrupted: the walk ends */
	struct check_run *runs; /* ascending */
	size_t run_count, run_room;
	struct check_zone *zones[POOL_DISKS_MAX];
	struct check_dataset *datasets; /* ascending */
	size_t dataset_count, dataset_room;
	struct run_format *format;
	struct check_records *records; /* waiting to be read, when data is verified */
};

void check_find(struct check *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool check_no_memory(struct check *c); /* false, for returns */

static inline bool set_has(const uint8_t *set, size_t i)
{
	return set && set[i / 8] >> (i % 8) & 1;
}
static inline void set_add(uint8_t *set, size_t i)
{
	set[i / 8] |= (uint8_t)(1u << (i % 8));
}
static inline void set_drop(uint8_t *set, size_t i)
{
	set[i / 8] &= (uint8_t) ~(1u << (i % 8));
}

/* --- check_tree.c ------------------------------------------------------------------------------------------------- */

/* Walks a tree: its shape, every copy of every node that was not seen, pieces marked in SET_TREE and the sets above.
 * `item` is called for each item in order. quiet: marks SET_TREE only and finds nothing (it was walked before). */
void check_tree(struct check *c, const struct bp *root, uint64_t tree, const char *what, bool quiet,
	void (*item)(struct check *c, void *arg, struct key key, const uint8_t *value, uint32_t bytes), void *arg);
/* The bit of a place, or false when no node can be there. Makes the zone's sets. */
bool check_piece(struct check *c, struct disk_address a, struct check_zone **ret, size_t *ret_bit);
void check_pieces_clear(struct check *c, enum check_set set);
/* May the copy on this disk lack what was written in commit `birth`? Then that it is bad is known and no finding. */
bool check_is_behind(const struct check *c, unsigned disk, uint64_t birth);

/* --- check_space.c ------------------------------------------------------------------------------------------------ */

void check_load_map(struct check *c);
void check_load_runs(struct check *c);
struct check_run *check_run_find(struct check *c, uint64_t id);
void check_runs_clear(struct check *c, enum check_set set);
void check_space(struct check *c);  /* what was reached against what is stated; who lies where */
void check_memory(struct check *c); /* what the open pool holds in memory, and what is not folded yet */

/* --- check_datasets.c --------------------------------------------------------------------------------------------- */

void check_datasets(struct check *c);

/* --- check_data.c ------------------------------------------------------------------------------------------------- */

void check_record_data(
	struct check *c, const struct check_run *r, const struct bp *bp, uint64_t dataset, uint64_t record);
void check_records_flush(struct check *c);
void check_stripes(struct check *c); /* sums and parity of every stripe */

#endif
