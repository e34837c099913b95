/* What the files of a fold share: checkpoint.c, fold_ops.c, fold_runs.c, metamap.c. */
#ifndef POOL_FOLD_H
#define POOL_FOLD_H

#include "internal.h"

enum stage { STAGE_TREES, STAGE_OPERATIONS, STAGE_DEAD, STAGE_RUNS, STAGE_CATALOG, STAGE_MAP, STAGE_UBERBLOCK };

struct fold_tree { /* a dataset that this fold touches: how it will be */
	uint64_t id;
	struct bp root;
	uint64_t used, referenced, logical, dead_list, newest;
	bool gone;
};
struct fold_group { /* of the frozen entries: those of one tree */
	uint64_t tree;
	size_t first, count;
	bool done;
};
struct fold_run {
	uint64_t id;
	uint32_t stripes;
};
struct checkpoint {
	struct pool *p;
	uint64_t number, commit, next_dataset, next_run;
	enum stage stage;
	struct fold_op *ops;
	size_t op_count, ops_done;
	struct tree_change *changes;
	size_t change_count;
	struct fold_group *groups;
	size_t group_count, group_room;
	bool is_sorted_out, unreferenced_freed, old_map_freed, has_tail;
	struct fold_tree *trees;
	size_t tree_count, tree_room;
	struct bp *lost; /* by the tree that is being updated */
	size_t lost_count, lost_room;
	int64_t lost_bytes, lost_logical;
	bool no_memory;
	struct delta *dead; /* changes of the dead lists */
	uint64_t dead_next; /* makes keys that are nobody else's */
	struct fold_run *runs;
	size_t run_count;
	struct uberblock uber;
};

int fold_no_memory(struct error *err);
bool fold_reserve(void **items, size_t *room, size_t needed, size_t each);
struct fold_tree *fold_tree_find(struct checkpoint *c, uint64_t id);
struct fold_tree *fold_tree_of(struct checkpoint *c, uint64_t id);
uint64_t fold_stored_bytes(const struct bp *bp);
void fold_charge(uint64_t *from, int64_t bytes);
void fold_dead_add(struct checkpoint *c, struct key key, const struct bp *bp);
struct key fold_dead_key(struct checkpoint *c, uint64_t list);
void fold_bp_free(struct pool *p, const struct bp *bp);

struct gather {
	struct checkpoint *c;
	uint64_t above; /* births */
	struct key *keys;
	struct bp *items;
	size_t count, room, key_room;
	bool no_memory;
};
void fold_gather_add(struct gather *g, struct key key, const struct bp *bp);
void fold_gather_release(struct gather *g);

int fold_operations(struct checkpoint *c, struct error *err);
int fold_dead_lists(struct checkpoint *c, struct error *err);
int fold_runs(struct checkpoint *c, struct error *err);
void fold_sums_trim(struct pool *p, const struct fold_run *done);
int fold_map(struct checkpoint *c, struct error *err);

#endif
