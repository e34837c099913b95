/*
 * A checkpoint: what is committed moves into the trees.
 *
 *   freeze      the committed delta stops growing; a new one takes what is committed from now on
 *   trees       the frozen entries are merged into the trees of their datasets; former values are known only now, and
 * die now operations  snapshots take their root, rollbacks and clones that of a snapshot, what was destroyed is walked
 * and freed dead        the dead lists: pointers that a dataset lost and a snapshot still has runs        descriptors
 * that changed, and the sums of new stripes catalog     its frozen entries, and the roots and figures of the datasets
 *   map         which 16 KiB pieces hold nodes, its own included
 *   uberblock   flush of all disks, uberblock on all disks, flush
 *
 * Until the uberblock is durable nothing that it replaces has changed in memory: readers use the old roots and the
 * frozen delta. A step that fails can be tried again from where it stopped, so a column is freed once however often.
 *
 * A pointer that a dataset lost is free when it was born after the newest snapshot; else the snapshot has it and it
 * joins the dataset's dead list, which the next snapshot takes over. When snapshot S goes, what is on the list of the
 * next one and was born after the one before S was only S's; S's own list joins that of the next one.
 */
#include "fold.h"

#include <string.h>

int fold_no_memory(struct error *err)
{
	return error_set(err, ERR_MEMORY, "no memory for a checkpoint");
}

bool fold_reserve(void **items, size_t *room, size_t needed, size_t each)
{
	if (needed <= *room)
		return true;
	size_t wanted = max_of(needed, max_of(*room * 2, (size_t)32));
	void *more = realloc(*items, wanted * each);

	if (!more)
		return false;
	*items = more;
	*room = wanted;
	return true;
}

bool checkpoint_freeze(struct pool *p, struct fold_op *ops, size_t op_count)
{
	struct checkpoint *c = calloc(1, sizeof *c);
	struct delta *next = NULL;
	struct run **runs = NULL;
	size_t run_count = 0;

	sp_assert(!p->frozen && !p->checkpoint);
	if (!c || delta_open(&next, NULL) || runs_dirty(p, &runs, &run_count, NULL)) {
		free(c);
		delta_close(next);
		return false;
	}
	for (size_t i = 0; i < run_count; i++)
		runs[i]->stripes_frozen = runs[i]->stripes_durable;
	free(runs);
	c->p = p;
	c->number = p->checkpoint_durable + 1;
	c->commit = p->commit_durable;
	c->ops = ops;
	c->op_count = op_count;
	c->uber = p->uber;
	p->checkpoint = c;
	p->frozen = p->committed;
	p->committed = next;
	return true;
}

void checkpoint_drop(struct pool *p)
{
	struct checkpoint *c = p->checkpoint;

	if (!c)
		return;
	free(c->ops);
	free(c->changes);
	free(c->groups);
	free(c->trees);
	free(c->lost);
	delta_close(c->dead);
	free(c->runs);
	free(c);
	p->checkpoint = NULL;
}

/* --- datasets as they will be ------------------------------------------------------------------------------------- */

struct fold_tree *fold_tree_find(struct checkpoint *c, uint64_t id)
{
	for (size_t i = 0; i < c->tree_count; i++)
		if (c->trees[i].id == id)
			return &c->trees[i];
	return NULL;
}

/* With the lock. NULL: there is no such dataset (any more), or no memory. */
struct fold_tree *fold_tree_of(struct checkpoint *c, uint64_t id)
{
	struct fold_tree *t = fold_tree_find(c, id);
	struct dataset *d = t ? NULL : dataset_by_id(c->p, id);

	if (t)
		return t->gone ? NULL : t;
	if (!d)
		return NULL;
	if (!fold_reserve((void **)&c->trees, &c->tree_room, c->tree_count + 1, sizeof *c->trees)) {
		c->no_memory = true;
		return NULL;
	}
	t = &c->trees[c->tree_count++];
	*t = (struct fold_tree){.id = id,
		.root = d->root,
		.used = d->used,
		.referenced = d->referenced,
		.logical = d->logical_referenced,
		.dead_list = d->dead_list,
		.newest = d->newest_snapshot_commit};
	if (!t->dead_list)
		t->dead_list = id;
	return t;
}

/* What a pointer takes of the space that its dataset is charged for. */
uint64_t fold_stored_bytes(const struct bp *bp)
{
	return bp->kind == BP_DATA ? class_bytes[class_of(bp->physical_bytes)] : 0;
}

static uint64_t bp_logical_bytes(const struct bp *bp)
{
	return bp->kind == BP_HOLE ? 0 : bp->logical_bytes;
}

void fold_charge(uint64_t *from, int64_t bytes)
{
	*from = bytes >= 0 ? *from + (uint64_t)bytes : *from > (uint64_t)-bytes ? *from - (uint64_t)-bytes : 0;
}

/* bp NULL: leaves the list. */
void fold_dead_add(struct checkpoint *c, struct key key, const struct bp *bp)
{
	uint8_t value[BP_BYTES];

	if (bp)
		bp_pack(bp, value);
	if ((!c->dead && delta_open(&c->dead, NULL)) ||
		delta_put(c->dead, TREE_DEAD, key, value, bp ? BP_BYTES : 0, NULL))
		c->no_memory = true;
}

/* With the lock: nobody has it any more. */
void fold_bp_free(struct pool *p, const struct bp *bp)
{
	if (bp->kind == BP_DATA)
		run_column_dead(p, bp->run, bp->stripe, bp->column);
	else if (bp->kind == BP_NODE)
		space_free_meta(p, bp);
}

struct key fold_dead_key(struct checkpoint *c, uint64_t list)
{
	return (struct key){list, (c->commit << 28) + c->dead_next++};
}

/* With the lock: the dataset's tree lost it. */
static void bp_lost(struct checkpoint *c, struct fold_tree *t, const struct bp *bp)
{
	if (bp->birth <= t->newest) {
		fold_dead_add(c, fold_dead_key(c, t->dead_list), bp);
		return;
	}
	fold_charge(&t->used, -(int64_t)fold_stored_bytes(bp));
	fold_bp_free(c->p, bp);
}

void fold_node_dead(struct pool *p, uint64_t tree, const struct bp *bp)
{
	os_scoped_lock(&p->lock);
	struct checkpoint *c = p->checkpoint;
	struct fold_tree *t = tree >= TREE_DATASET_FIRST && c ? fold_tree_find(c, tree) : NULL;

	if (t)
		bp_lost(c, t, bp);
	else
		space_free_meta(p, bp);
}

/* --- trees -------------------------------------------------------------------------------------------------------- */

static void entry_gather(void *arg, const struct delta_entry *e)
{
	struct checkpoint *c = arg;
	struct fold_group *g = c->group_count ? &c->groups[c->group_count - 1] : NULL;

	if (!g || g->tree != e->tree) {
		if (!fold_reserve((void **)&c->groups, &c->group_room, c->group_count + 1, sizeof *c->groups)) {
			c->no_memory = true;
			return;
		}
		g = &c->groups[c->group_count++];
		*g = (struct fold_group){.tree = e->tree, .first = c->change_count};
	}
	g->count++;
	c->changes[c->change_count++] = (struct tree_change){.key = e->key, .value = e->value, .bytes = e->bytes};
}

static int sort_out(struct checkpoint *c, struct error *err)
{
	size_t count = delta_count(c->p->frozen);

	c->no_memory = false;
	c->change_count = c->group_count = 0;
	free(c->changes);
	c->changes = calloc(max_of(count, (size_t)1), sizeof *c->changes);
	if (!c->changes)
		return fold_no_memory(err);
	delta_walk(c->p->frozen, entry_gather, c);
	if (c->no_memory)
		return fold_no_memory(err);
	c->is_sorted_out = true;
	return 0;
}

static void value_lost(void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct checkpoint *c = arg;
	struct error ignored = ERROR_INIT;
	struct bp bp;

	if (bp_unpack_value(value, bytes, &bp, &ignored))
		return;
	c->lost_bytes += (int64_t)fold_stored_bytes(&bp);
	c->lost_logical += (int64_t)bp_logical_bytes(&bp);
	if (bp.kind == BP_DATA) {
		sp_assert(c->lost_count < c->lost_room); /* no more than there are changes */
		c->lost[c->lost_count++] = bp;
	}
}

/* With the lock: entries of a dataset that went in an earlier fold. Nobody will refer to what they name. */
static void group_free(struct checkpoint *c, const struct fold_group *g)
{
	for (size_t i = 0; i < g->count; i++) {
		const struct tree_change *change = &c->changes[g->first + i];
		struct error ignored = ERROR_INIT;
		struct bp bp;

		if (change->bytes && !bp_unpack_value(change->value, change->bytes, &bp, &ignored))
			fold_bp_free(c->p, &bp);
	}
}

static void group_charge(struct checkpoint *c, const struct fold_group *g, struct fold_tree *t)
{
	int64_t stored = 0, logical = 0;

	for (size_t i = 0; i < g->count; i++) {
		const struct tree_change *change = &c->changes[g->first + i];
		struct error ignored = ERROR_INIT;
		struct bp bp;

		if (!change->bytes || bp_unpack_value(change->value, change->bytes, &bp, &ignored))
			continue;
		stored += (int64_t)fold_stored_bytes(&bp);
		logical += (int64_t)bp_logical_bytes(&bp);
	}
	fold_charge(&t->used, stored);
	fold_charge(&t->referenced, stored - c->lost_bytes);
	fold_charge(&t->logical, logical - c->lost_logical);
}

static int group_fold(struct checkpoint *c, struct fold_group *g, struct error *err)
{
	struct pool *p = c->p;

	os_mutex_lock(&p->lock);
	struct fold_tree *t = fold_tree_of(c, g->tree);
	if (!t && !c->no_memory)
		group_free(c, g);
	struct bp root = t ? t->root : (struct bp){0};
	os_mutex_unlock(&p->lock);
	if (!t)
		return c->no_memory ? fold_no_memory(err) : 0;
	c->lost_count = 0;
	c->lost_bytes = c->lost_logical = 0;
	if (!fold_reserve((void **)&c->lost, &c->lost_room, g->count, sizeof *c->lost))
		return fold_no_memory(err);
	int rc = tree_update(p, &root, g->tree, c->changes + g->first, g->count, c->commit, value_lost, c, err);
	if (rc)
		return rc;
	os_scoped_lock(&p->lock);
	t = fold_tree_find(c, g->tree);
	t->root = root;
	group_charge(c, g, t);
	for (size_t i = 0; i < c->lost_count; i++)
		bp_lost(c, t, &c->lost[i]);
	return 0;
}

static void unreferenced_free(void *arg, uint64_t tree, const struct bp *bp)
{
	fold_bp_free(arg, bp);
}

static int trees_fold(struct checkpoint *c, struct error *err)
{
	int rc = c->is_sorted_out ? 0 : sort_out(c, err);

	for (size_t i = 0; !rc && i < c->group_count; i++) {
		struct fold_group *g = &c->groups[i];

		if (g->done || g->tree < TREE_DATASET_FIRST)
			continue;
		rc = group_fold(c, g, err);
		g->done = !rc;
	}
	if (!rc && !c->unreferenced_freed) {
		os_scoped_lock(&c->p->lock);
		delta_walk_dead(c->p->frozen, unreferenced_free, c->p);
		c->unreferenced_freed = true;
	}
	return rc;
}

/* --- the catalog -------------------------------------------------------------------------------------------------- */

static int change_compare(const void *a, const void *b)
{
	const struct tree_change *x = a, *y = b;

	return key_compare(x->key, y->key);
}

static void root_pack(const struct fold_tree *t, uint8_t out[CATALOG_ROOT_BYTES])
{
	bp_pack(&t->root, out);
	put_le64(out + 64, t->used);
	put_le64(out + 72, t->referenced);
	put_le64(out + 80, t->logical);
	put_le64(out + 88, t->dead_list);
	put_le64(out + 96, t->newest);
}

static int catalog_fold(struct checkpoint *c, struct error *err)
{
	const struct fold_group *g = c->group_count && c->groups[0].tree == TREE_CATALOG ? &c->groups[0] : NULL;
	size_t count = 0, entries = g ? g->count : 0;
	scoped_free struct tree_change *changes = calloc(entries + c->tree_count + 1, sizeof *changes);
	scoped_free uint8_t *roots = malloc(c->tree_count * CATALOG_ROOT_BYTES + 1);

	if (!changes || !roots)
		return fold_no_memory(err);
	for (size_t i = 0; i < entries; i++)
		if (c->changes[g->first + i].key.b != CATALOG_ROOT)
			changes[count++] = c->changes[g->first + i];
	for (size_t i = 0; i < c->tree_count; i++) {
		uint8_t *out = roots + i * CATALOG_ROOT_BYTES;

		root_pack(&c->trees[i], out);
		changes[count++] = (struct tree_change){.key = {c->trees[i].id, CATALOG_ROOT},
			.value = out,
			.bytes = c->trees[i].gone ? 0 : CATALOG_ROOT_BYTES};
	}
	if (count == 0)
		return 0;
	qsort(changes, count, sizeof *changes, change_compare);
	return tree_update(c->p, &c->uber.catalog, TREE_CATALOG, changes, count, c->commit, NULL, NULL, err);
}

/* --- the uberblock ------------------------------------------------------------------------------------------------ */

static int uberblock_make(struct checkpoint *c, struct error *err)
{
	struct pool *p = c->p;
	int rc = pool_breaks(p, 3) ? 0 : disks_flush(p, err);

	if (!rc && p->config_dirty)
		rc = config_write(p, err);
	if (rc)
		return rc;
	os_mutex_lock(&p->lock);
	if (!c->has_tail)
		log_tail(p, c->commit, &c->uber.log_sequence, &c->uber.log_offset);
	c->has_tail = true;
	c->uber.checkpoint = c->number;
	c->uber.commit = c->commit;
	c->uber.next_run = p->next_run;
	c->uber.next_dataset = p->next_dataset;
	c->uber.wall_ns = pool_breaks(p, 10) ? os_real_now_ns() : os_wall_ns(); /* POOL-10 */
	c->uber.config_generation = p->config.generation;
	os_mutex_unlock(&p->lock);
	return uberblock_write(p, &c->uber, err);
}

/* With the lock: from here on everybody reads what was folded. */
static void checkpoint_install(struct checkpoint *c)
{
	struct pool *p = c->p;

	pool_assert(p, 2, c->number == p->checkpoint_durable + 1);
	c->uber.activity_ns = p->uber.activity_ns;
	p->uber = c->uber;
	p->checkpoint_durable = c->number;
	p->counters.checkpoints++;
	for (size_t i = 0; i < c->tree_count; i++) {
		const struct fold_tree *t = &c->trees[i];
		struct dataset *d = dataset_by_id(p, t->id);

		if (!d)
			continue;
		if (t->gone) {
			catalog_dataset_gone(p, d);
			continue;
		}
		d->root = t->root;
		d->used = t->used;
		d->referenced = t->referenced;
		d->logical_referenced = t->logical;
		d->dead_list = t->dead_list;
		d->newest_snapshot_commit = t->newest;
	}
	for (size_t i = 0; i < c->run_count; i++)
		fold_sums_trim(p, &c->runs[i]);
	log_advance(p, c->uber.log_sequence);
	space_checkpoint_done(p, c->number);
}

int checkpoint_run(struct pool *p, struct error *err)
{
	static int (*const stages[])(struct checkpoint * c, struct error * err) = {[STAGE_TREES] = trees_fold,
		[STAGE_OPERATIONS] = fold_operations,
		[STAGE_DEAD] = fold_dead_lists,
		[STAGE_RUNS] = fold_runs,
		[STAGE_CATALOG] = catalog_fold,
		[STAGE_MAP] = fold_map,
		[STAGE_UBERBLOCK] = uberblock_make};
	struct checkpoint *c = p->checkpoint;

	for (; c->stage <= STAGE_UBERBLOCK; c->stage++) {
		if (p->abandoned)
			return error_set(err, ERR_IO, "pool %s: stopped", p->config.name);
		int rc = stages[c->stage](c, err);
		if (rc)
			return rc;
		if (c->no_memory)
			return fold_no_memory(err);
	}
	os_mutex_lock(&p->lock);
	checkpoint_install(c);
	struct delta *folded = p->frozen;
	p->frozen = NULL;
	checkpoint_drop(p);
	os_cond_broadcast(&p->changed);
	os_mutex_unlock(&p->lock);
	delta_close(folded);
	return 0;
}
