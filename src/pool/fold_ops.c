/* Of a fold: snapshots, rollbacks, clones, what was destroyed, and the dead lists. checkpoint.c tells the story. */
#include "fold.h"

#include <string.h>

/* --- snapshots, rollbacks, clones, what was destroyed ------------------------------------------------------------- */

void fold_gather_add(struct gather *g, struct key key, const struct bp *bp)
{
	if (!fold_reserve((void **)&g->items, &g->room, g->count + 1, sizeof *g->items) ||
		!fold_reserve((void **)&g->keys, &g->key_room, g->count + 1, sizeof *g->keys)) {
		g->no_memory = true;
		return;
	}
	g->keys[g->count] = key;
	g->items[g->count++] = *bp;
}

static bool gather_value(void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct gather *g = arg;
	struct error ignored = ERROR_INIT;
	struct bp bp;

	if (!bp_unpack_value(value, bytes, &bp, &ignored) && bp.kind == BP_DATA && bp.birth > g->above)
		fold_gather_add(g, key, &bp);
	return !g->no_memory;
}

static bool gather_node(void *arg, const struct bp *bp)
{
	struct gather *g = arg;

	if (bp->birth > g->above)
		fold_gather_add(g, (struct key){0, 0}, bp);
	return !g->no_memory;
}

static bool gather_listed(void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct gather *g = arg;
	struct error ignored = ERROR_INIT;
	struct bp bp;

	if (key.a != g->above)
		return false;
	if (g->c->dead && delta_find(g->c->dead, TREE_DEAD, key))
		return true; /* it left in this very fold */
	if (bytes == BP_BYTES && !bp_unpack(value, &bp, &ignored))
		fold_gather_add(g, key, &bp);
	return !g->no_memory;
}

void fold_gather_release(struct gather *g)
{
	free(g->items);
	free(g->keys);
}

/* All that the tree alone has: born after `above`. A part that cannot be read stays taken, and is told. */
static int tree_gather(struct checkpoint *c, uint64_t tree, const struct bp *root, uint64_t above, struct gather *ret,
	struct error *err)
{
	struct pool *p = c->p;
	struct error why = ERROR_INIT;

	*ret = (struct gather){.c = c, .above = above};
	if (root->kind == BP_HOLE)
		return 0;
	int rc = tree_walk(p, root, tree, (struct key){0, 0}, gather_value, ret, &why);
	if (!rc)
		rc = tree_walk_nodes(p, root, tree, gather_node, ret, &why);
	if (ret->no_memory)
		return fold_no_memory(err);
	if (rc == ERR_MEMORY)
		return error_set(err, rc, "%s", why.text);
	if (rc) {
		os_scoped_lock(&p->lock);
		pool_event(p, "a part of dataset %llu cannot be read and its space stays taken: %s",
			(unsigned long long)tree, why.text);
	}
	return 0;
}

/* What is on a dead list, in the tree and added by this very fold. */
static int list_gather(struct checkpoint *c, uint64_t list, struct gather *ret, struct error *err)
{
	*ret = (struct gather){.c = c, .above = list};
	int rc = c->uber.dead.kind == BP_HOLE
			 ? 0
			 : tree_walk(c->p, &c->uber.dead, TREE_DEAD, (struct key){list, 0}, gather_listed, ret, err);
	struct key key = {list, 0};
	const struct delta_entry *e = rc || !c->dead ? NULL : delta_at_or_after(c->dead, TREE_DEAD, key);
	for (; e && e->key.a == list; e = delta_at_or_after(c->dead, TREE_DEAD, key)) {
		struct error ignored = ERROR_INIT;
		struct bp bp;

		if (e->bytes && !bp_unpack(e->value, &bp, &ignored))
			fold_gather_add(ret, e->key, &bp);
		key = (struct key){list, e->key.b + 1};
	}
	return ret->no_memory ? fold_no_memory(err) : rc;
}

static int snapshot_take(struct checkpoint *c, const struct fold_op *op, struct error *err)
{
	struct pool *p = c->p;
	struct dataset *s = dataset_by_id(p, op->dataset);
	struct fold_tree *of = s ? fold_tree_of(c, s->parent) : NULL, *t = of ? fold_tree_of(c, s->id) : NULL;

	if (!s || !of || !t)
		return c->no_memory ? fold_no_memory(err) : 0;
	of = fold_tree_find(c, s->parent);
	t->root = of->root;
	t->referenced = of->referenced;
	t->logical = of->logical;
	t->newest = of->newest;
	t->dead_list = of->dead_list;
	of->dead_list = s->id; /* one that no other dataset has */
	of->newest = c->commit;
	return 0;
}

/* A rollback frees what came after the snapshot; a clone had nothing. */
static int root_take(struct checkpoint *c, const struct fold_op *op, struct error *err)
{
	struct pool *p = c->p;
	struct gather tree, list;

	os_mutex_lock(&p->lock);
	struct dataset *s = dataset_by_id(p, op->from);
	uint64_t born = s ? s->created_commit : 0;
	struct fold_tree *from = fold_tree_of(c, op->from), *to = fold_tree_of(c, op->dataset);
	struct fold_tree was = to ? *to : (struct fold_tree){0};
	os_mutex_unlock(&p->lock);
	if (!s || !from || !to)
		return c->no_memory ? fold_no_memory(err) : 0;
	int rc = tree_gather(c, was.id, &was.root, born, &tree, err);
	if (!rc)
		rc = list_gather(c, was.dead_list, &list, err);
	else
		list = (struct gather){0};
	if (!rc) {
		os_scoped_lock(&p->lock);
		from = fold_tree_find(c, op->from);
		to = fold_tree_find(c, op->dataset);
		for (size_t i = 0; i < tree.count; i++) {
			fold_charge(&to->used, -(int64_t)fold_stored_bytes(&tree.items[i]));
			fold_bp_free(p, &tree.items[i]);
		}
		for (size_t i = 0; i < list.count; i++) /* alive again */
			fold_dead_add(c, list.keys[i], NULL);
		to->root = from->root;
		to->referenced = from->referenced;
		to->logical = from->logical;
		to->newest = born;
	}
	fold_gather_release(&tree);
	fold_gather_release(&list);
	return rc;
}

/* The next one that does not go in this fold too. With the lock. */
static struct dataset *neighbour(
	struct checkpoint *c, struct dataset *s, struct dataset *(*next)(struct pool *, const struct dataset *))
{
	do
		s = next(c->p, s);
	while (s && fold_tree_find(c, s->id) && fold_tree_find(c, s->id)->gone);
	return s;
}

static int snapshot_destroy(struct checkpoint *c, struct dataset *s, struct error *err)
{
	struct pool *p = c->p;
	struct gather next_list, own_list = {0};

	os_mutex_lock(&p->lock);
	struct dataset *before = neighbour(c, s, catalog_snapshot_before),
		       *after = neighbour(c, s, catalog_snapshot_after);
	struct dataset *head = dataset_by_id(p, s->parent);
	struct dataset *origin = head && head->origin ? dataset_by_id(p, head->origin) : NULL;
	uint64_t born = before ? before->created_commit : origin ? origin->created_commit : 0;
	struct fold_tree *own = fold_tree_of(c, s->id), *next = fold_tree_of(c, after ? after->id : s->parent);
	uint64_t id = s->id, next_id = next ? next->id : 0, head_id = s->parent;
	bool is_head = !after;
	own = fold_tree_find(c, id);
	uint64_t own_of = own ? own->dead_list : 0, next_of = next ? next->dead_list : 0;
	os_mutex_unlock(&p->lock);
	if (!own || !next)
		return c->no_memory ? fold_no_memory(err) : 0;
	int rc = list_gather(c, next_of, &next_list, err);
	if (!rc)
		rc = list_gather(c, own_of, &own_list, err);
	if (!rc) {
		os_scoped_lock(&p->lock);
		struct fold_tree *charged = fold_tree_of(c, head_id);

		next = fold_tree_find(c, next_id);
		for (size_t i = 0; i < next_list.count; i++)
			if (next_list.items[i].birth > born) {
				if (charged)
					fold_charge(&charged->used, -(int64_t)fold_stored_bytes(&next_list.items[i]));
				fold_bp_free(p, &next_list.items[i]);
				fold_dead_add(c, next_list.keys[i], NULL);
			}
		for (size_t i = 0; i < own_list.count; i++) {
			fold_dead_add(c, own_list.keys[i], NULL);
			fold_dead_add(c, fold_dead_key(c, next_of), &own_list.items[i]);
		}
		if (is_head)
			next->newest = born;
		fold_tree_find(c, id)->gone = true;
		if (c->no_memory)
			rc = fold_no_memory(err);
	}
	fold_gather_release(&next_list);
	fold_gather_release(&own_list);
	return rc;
}

/* No snapshot of it is left. What its origin has stays. */
static int head_destroy(struct checkpoint *c, struct dataset *d, struct error *err)
{
	struct pool *p = c->p;
	struct gather tree, list = {0};

	os_mutex_lock(&p->lock);
	struct dataset *origin = d->origin ? dataset_by_id(p, d->origin) : NULL;
	uint64_t born = origin ? origin->created_commit : 0, id = d->id;
	struct fold_tree *t = fold_tree_of(c, id);
	struct fold_tree was = t ? *t : (struct fold_tree){0};
	os_mutex_unlock(&p->lock);
	if (!t)
		return c->no_memory ? fold_no_memory(err) : 0;
	int rc = tree_gather(c, id, &was.root, born, &tree, err);
	if (!rc)
		rc = list_gather(c, was.dead_list, &list, err);
	if (!rc) {
		os_scoped_lock(&p->lock);
		for (size_t i = 0; i < tree.count; i++)
			fold_bp_free(p, &tree.items[i]);
		for (size_t i = 0; i < list.count; i++) {
			if (list.items[i].birth > born)
				fold_bp_free(p, &list.items[i]);
			fold_dead_add(c, list.keys[i], NULL);
		}
		fold_tree_find(c, id)->gone = true;
		if (c->no_memory)
			rc = fold_no_memory(err);
	}
	fold_gather_release(&tree);
	fold_gather_release(&list);
	return rc;
}

static int operation_do(struct checkpoint *c, const struct fold_op *op, struct error *err)
{
	struct pool *p = c->p;
	int rc;

	if (op->type == LOG_ROOT)
		return root_take(c, op, err);
	os_mutex_lock(&p->lock);
	struct dataset *d = dataset_by_id(p, op->dataset);
	rc = op->type == LOG_BARRIER ? snapshot_take(c, op, err) : 0;
	os_mutex_unlock(&p->lock);
	if (op->type != LOG_DESTROY || !d)
		return rc;
	return d->type == DATASET_SNAPSHOT ? snapshot_destroy(c, d, err) : head_destroy(c, d, err);
}

int fold_operations(struct checkpoint *c, struct error *err)
{
	int rc = 0;

	for (; c->ops_done < c->op_count; c->ops_done++)
		if ((rc = operation_do(c, &c->ops[c->ops_done], err)))
			return rc;
	return 0;
}

/* --- dead lists --------------------------------------------------------------------------------------------------- */

struct dead_gather {
	struct tree_change *changes;
	size_t count;
};

static void dead_change(void *arg, const struct delta_entry *e)
{
	struct dead_gather *g = arg;

	g->changes[g->count++] = (struct tree_change){.key = e->key, .value = e->value, .bytes = e->bytes};
}

int fold_dead_lists(struct checkpoint *c, struct error *err)
{
	size_t count = c->dead ? delta_count(c->dead) : 0;
	struct dead_gather g = {0};

	if (count == 0)
		return 0;
	g.changes = calloc(count, sizeof *g.changes);
	if (!g.changes)
		return fold_no_memory(err);
	delta_walk(c->dead, dead_change, &g);
	int rc = tree_update(c->p, &c->uber.dead, TREE_DEAD, g.changes, g.count, c->commit, NULL, NULL, err);
	free(g.changes);
	return rc;
}
