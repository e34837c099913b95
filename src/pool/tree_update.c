/*
 * Many changes into a tree in one pass.
 *
 * Two chains, both from the root down to the leaves and both lazy, meet at the leaves:
 *
 *   lanes (old tree)                                        builders (new tree)
 *     lane 2   [root]                                         builder 2   items of level 2, node by node to the disk
 *     lane 1   ref  ref  [touched]  ref                       builder 1   (key, pointer) of each new or kept leaf
 *     lane 0   ref  [touched leaf]  ref  ref  [touched]  -->  builder 0   items, changes merged in
 *
 * A lane holds the next nodes of its level in key order: those that changes fall into are touched and read, a window of
 * them at once, so that a fold of random changes keeps many disks seeking; the rest are only references. A reference
 * is taken over into the builder above its level as it is, after the builders at and below its level were closed.
 *
 * A builder gathers items, and gives out a full node as soon as it keeps a third of a node behind, so that what
 * it closes with is either a third or more, or it had nothing else. In that last case it takes the node to its left
 * back out of the builder above, and is the larger by it: that is the merge of under-full neighbours.
 *
 * Example: leaves A [1 2 3] B [4 5 6] C [7 8 9], changes: delete 4, 5. Lane 0 gives ref A, touched B, ref C. A's
 * pointer goes to builder 1. B leaves [6] in builder 0. C's reference closes builder 0: too little, so A is taken back
 * out of builder 1, builder 0 holds [1 2 3 6] and becomes one leaf. Builder 1: (1, new), (7, C).
 *
 * Memory: a window of old nodes for each level, less than three nodes for each builder, one batch of new nodes, and 64
 * bytes for each node that is replaced.
 */
#include <string.h>

#include "node.h"
#include "tree.h"

#define LLU(v) ((unsigned long long)(v))
#define CAPACITY (NODE_BYTES - NODE_HEAD_BYTES)
#define FILL_MIN (CAPACITY / 3)
#define BUILDER_BYTES (3 * NODE_BYTES)
#define LEAF_WINDOW 256u /* touched nodes that are read at once */
#define INNER_WINDOW 16u
#define LANE_MAX 2048u
#define WRITE_BATCH 128u
#define EXTENT_MAX 64u

_Static_assert(TREE_LEAF_ITEM_HEAD + TREE_VALUE_MAX <= FILL_MIN,
	"a node can always be cut so that both halves are a third full");
_Static_assert(2 * CAPACITY + FILL_MIN < BUILDER_BYTES, "what a builder keeps and a whole old node");

struct lane_entry {
	struct bp bp;
	struct key key;
	size_t from, to; /* changes that fall into it; none: a reference */
	struct node *node;
};

struct lane {
	struct lane_entry *entries; /* a queue: head … count */
	unsigned head, count;
	/* the node of this lane whose children are being given to the lane below */
	struct node *expanding;
	unsigned next_child;
	size_t next_change, last_change;
};

struct builder {
	uint8_t *items;
	uint32_t bytes;
	unsigned count;
	struct key last;
	bool any;         /* an item passed through here: `last` counts */
	bool tail_is_old; /* the last item is a reference to an old node: it can be taken back */
};

struct update {
	struct pool *p;
	uint64_t tree, birth;
	const struct tree_change *changes;
	size_t change_count;
	void (*old)(void *arg, struct key key, const uint8_t *value, uint32_t bytes);
	void *arg;
	struct error *err;
	struct lane lanes[TREE_LEVELS + 1];
	struct builder builders[TREE_LEVELS + 1];
	unsigned levels; /* of the old tree */
	uint8_t *batch_bytes;
	struct node_write batch[WRITE_BATCH];
	unsigned batch_count;
	struct meta_extent *extents;
	size_t extent_count, extent_room;
	uint32_t extent_used; /* of the last one */
	size_t nodes_made;
	uint8_t *replaced; /* packed pointers */
	size_t replaced_count, replaced_room;
};

/* An array that doubles. */
static int grow(void **array, size_t *room, size_t count, size_t item_bytes, struct error *err)
{
	size_t more = max_of(2 * *room, (size_t)16);
	void *new;

	if (count < *room)
		return 0;
	new = realloc(*array, more * item_bytes);
	if (!new)
		return error_set(err, ERR_MEMORY, "no memory for the bookkeeping of %zu tree nodes", more);
	*array = new;
	*room = more;
	return 0;
}

static int note_replaced(struct update *u, const struct bp *bp)
{
	int rc = grow((void **)&u->replaced, &u->replaced_room, u->replaced_count, BP_BYTES, u->err);

	if (rc == 0)
		bp_pack(bp, u->replaced + BP_BYTES * u->replaced_count++);
	return rc;
}

/* --- new nodes ---------------------------------------------------------------------------------------------------- */

static int batch_write(struct update *u)
{
	int rc = u->batch_count ? nodes_write(u->p, u->batch, u->batch_count, u->err) : 0;

	u->batch_count = 0;
	return rc;
}

/* A place for one more node, next to the last one's where possible. */
static int place_node(struct update *u, struct bp *bp)
{
	struct meta_extent *e = u->extent_count ? &u->extents[u->extent_count - 1] : NULL;

	if (!e || u->extent_used == e->count) {
		struct meta_extent new = {0};
		int rc = grow((void **)&u->extents, &u->extent_room, u->extent_count, sizeof *u->extents, u->err);

		if (rc)
			return rc;
		os_mutex_lock(&u->p->lock);
		rc = space_allot_meta(u->p, (uint32_t)min_of(u->change_count / 4 + 4, EXTENT_MAX), &new, u->err);
		os_mutex_unlock(&u->p->lock);
		if (rc)
			return rc;
		sp_assert(new.count > 0 && new.copies > 0 && new.copies <= POOL_COPIES_MAX);
		e = &u->extents[u->extent_count++];
		*e = new;
		u->extent_used = 0;
	}
	bp->copies = e->copies;
	for (unsigned c = 0; c < e->copies; c++) {
		bp->copy[c].disk = e->copy[c].disk;
		bp->copy[c].unit = e->copy[c].unit + (uint64_t)u->extent_used * (NODE_BYTES / POOL_UNIT_BYTES);
	}
	u->extent_used++;
	return 0;
}

static int builder_append(struct update *u, unsigned level, const uint8_t *items, uint32_t bytes, unsigned count,
	struct key first, struct key last, bool is_old);

/* Makes a node of `bytes` at the front of the builder's items and tells the builder above. */
static int give_node(struct update *u, unsigned level, uint32_t bytes, unsigned count)
{
	struct builder *b = &u->builders[level];
	uint8_t *node = u->batch_bytes + (size_t)u->batch_count * NODE_BYTES, item[TREE_INNER_ITEM_BYTES];
	struct bp bp = {.kind = BP_NODE,
		.level = (uint8_t)level,
		.logical_bytes = NODE_BYTES,
		.physical_bytes = NODE_BYTES,
		.birth = u->birth,
		.checksum_kind = CHECKSUM_XXH3};
	struct node_head head = {.level = (uint8_t)level,
		.items = (uint16_t)count,
		.tree = u->tree,
		.birth = u->birth,
		.bytes = NODE_HEAD_BYTES + bytes};
	struct key first = item_key(b->items);
	int rc;

	sp_assert(count > 0 && bytes <= CAPACITY && bytes <= b->bytes);
	if (level == TREE_LEVEL_MAX)
		return error_set(
			u->err, ERR_SPACE, "tree %llu would be more than %u levels high", LLU(u->tree), TREE_LEVELS);
	rc = place_node(u, &bp);
	if (rc)
		return rc;
	node_head_pack(&head, node);
	memcpy(node + NODE_HEAD_BYTES, b->items, bytes);
	memset(node + NODE_HEAD_BYTES + bytes, 0, CAPACITY - bytes);
	os_charge(OS_STAGE_COPY, 2 * NODE_BYTES);
	node_seal(u->p, &bp, u->tree, node);
	b->bytes -= bytes;
	b->count -= count;
	memmove(b->items, b->items + bytes, b->bytes);
	u->batch[u->batch_count++] = (struct node_write){.bp = bp, .bytes = node, .tree = u->tree};
	u->nodes_made++;
	if (u->batch_count == WRITE_BATCH) {
		rc = batch_write(u);
		if (rc)
			return rc;
	}
	item_put_key(item, first);
	bp_pack(&bp, item + 16);
	return builder_append(u, level + 1, item, sizeof item, 1, first, first, false);
}

/* --- builders ----------------------------------------------------------------------------------------------------- */

static uint32_t item_bytes(unsigned level, const uint8_t *item)
{
	return level > 0 ? TREE_INNER_ITEM_BYTES : leaf_item_bytes(item);
}

/* Where to cut: the last boundary at or before `most`. */
static uint32_t cut_before(const struct builder *b, unsigned level, uint32_t most, unsigned *ret_count)
{
	uint32_t at = 0;
	unsigned count = 0;

	while (count < b->count && at + item_bytes(level, b->items + at) <= most) {
		at += item_bytes(level, b->items + at);
		count++;
	}
	*ret_count = count;
	return at;
}

static int give_full(struct update *u, unsigned level)
{
	struct builder *b = &u->builders[level];
	int rc = 0;

	while (rc == 0 && b->bytes >= CAPACITY + FILL_MIN) {
		unsigned count;
		uint32_t bytes = cut_before(b, level, CAPACITY, &count);

		rc = give_node(u, level, bytes, count);
	}
	return rc;
}

static int builder_append(struct update *u, unsigned level, const uint8_t *items, uint32_t bytes, unsigned count,
	struct key first, struct key last, bool is_old)
{
	struct builder *b = &u->builders[level];

	if (bytes == 0)
		return 0;
	if (!b->items && !(b->items = malloc(BUILDER_BYTES)))
		return error_set(u->err, ERR_MEMORY, "no memory to build tree %llu", LLU(u->tree));
	if (b->any && key_compare(b->last, first) >= 0)
		return error_set(u->err, ERR_CORRUPT,
			"key {%llu, %llu} of tree %llu, level %u, comes after {%llu, %llu}", LLU(first.a), LLU(first.b),
			LLU(u->tree), level, LLU(b->last.a), LLU(b->last.b));
	sp_assert(b->bytes + bytes <= BUILDER_BYTES);
	memcpy(b->items + b->bytes, items, bytes);
	b->bytes += bytes;
	b->count += count;
	b->last = last;
	b->any = true;
	b->tail_is_old = is_old;
	return give_full(u, level);
}

/* Takes the old node to the left of what the builder holds back out of the builder above. *ret_done false: there is
 * none. */
static int take_left(struct update *u, unsigned level, bool *ret_done)
{
	struct builder *b = &u->builders[level], *above = &u->builders[level + 1];
	const uint8_t *bytes;
	struct node *n;
	struct bp bp;
	uint32_t used;
	int rc;

	*ret_done = false;
	if (level >= u->levels)
		return 0;
	if (above->count == 0) {
		rc = take_left(u, level + 1, ret_done);
		if (rc || !*ret_done)
			return rc;
		*ret_done = false;
	}
	if (!above->tail_is_old)
		return 0;
	if (!b->items && !(b->items = malloc(BUILDER_BYTES)))
		return error_set(u->err, ERR_MEMORY, "no memory to build tree %llu", LLU(u->tree));
	rc = inner_child(above->items + above->bytes - TREE_INNER_ITEM_BYTES, u->tree, level + 1, &bp, u->err);
	if (rc == 0)
		rc = node_get(u->p, &bp, u->tree, (int)level, &n, u->err);
	if (rc)
		return rc;
	rc = note_replaced(u, &bp);
	bytes = node_bytes(n);
	used = node_used(bytes) - NODE_HEAD_BYTES;
	if (rc == 0 && used > 0) {
		memmove(b->items + used, b->items, b->bytes);
		memcpy(b->items, bytes + NODE_HEAD_BYTES, used);
		b->tail_is_old = b->bytes == 0 ? level > 0 : b->tail_is_old;
		b->bytes += used;
		b->count += node_items(bytes);
	}
	node_put(u->p, n);
	above->bytes -= TREE_INNER_ITEM_BYTES;
	above->count--;
	above->tail_is_old = false; /* not known: what is before may be new */
	above->any = above->count > 0;
	if (above->any)
		above->last = item_key(above->items + above->bytes - TREE_INNER_ITEM_BYTES);
	*ret_done = rc == 0;
	return rc;
}

/* All that the builder holds becomes nodes. */
static int builder_close(struct update *u, unsigned level)
{
	struct builder *b = &u->builders[level];
	bool more = true;
	int rc = 0;

	while (rc == 0 && more && b->bytes > 0 && b->bytes < FILL_MIN)
		rc = take_left(u, level, &more);
	if (rc == 0 && b->bytes > CAPACITY) {
		unsigned count;
		uint32_t bytes = cut_before(b, level, b->bytes / 2, &count);

		/* the boundary behind the middle when it is the nearer one, and both parts fit */
		if (count < b->count) {
			uint32_t next = bytes + item_bytes(level, b->items + bytes);

			if (count == 0 || b->bytes - bytes > CAPACITY ||
				(next - b->bytes / 2 < b->bytes / 2 - bytes && next <= CAPACITY)) {
				bytes = next;
				count++;
			}
		}
		rc = give_node(u, level, bytes, count);
	}
	if (rc == 0 && b->bytes > 0)
		rc = give_node(u, level, b->bytes, b->count);
	return rc;
}

/* --- lanes -------------------------------------------------------------------------------------------------------- */

static int lane_next(struct update *u, unsigned level, struct lane_entry *ret, bool *ret_any);

/* The next child of the node that the lane above is expanding. */
static int lane_child(struct update *u, struct lane *above, unsigned level, struct lane_entry *ret)
{
	const uint8_t *bytes = node_bytes(above->expanding);
	unsigned i = above->next_child++, items = node_items(bytes);
	int rc;

	*ret = (struct lane_entry){
		.key = item_key(inner_item(bytes, i)), .from = above->next_change, .to = above->last_change};
	rc = inner_child(inner_item(bytes, i), u->tree, level + 1, &ret->bp, u->err);
	if (rc == 0 && i + 1 < items) {
		struct key end = item_key(inner_item(bytes, i + 1));

		for (ret->to = ret->from;
			ret->to < above->last_change && key_compare(u->changes[ret->to].key, end) < 0;)
			ret->to++;
	}
	above->next_change = ret->to;
	if (i + 1 == items) {
		node_put(u->p, above->expanding);
		above->expanding = NULL;
	}
	return rc;
}

static int lane_read(struct update *u, struct lane *lane, unsigned level)
{
	struct bp *bps = malloc(LEAF_WINDOW * sizeof *bps);
	struct node **nodes = malloc(LEAF_WINDOW * sizeof *nodes);
	unsigned count = 0;
	int rc = bps && nodes ? 0 : error_set(u->err, ERR_MEMORY, "no memory to read tree %llu", LLU(u->tree));

	for (unsigned i = 0; rc == 0 && i < lane->count; i++)
		if (lane->entries[i].from < lane->entries[i].to)
			bps[count++] = lane->entries[i].bp;
	if (rc == 0)
		rc = nodes_get(u->p, bps, count, u->tree, (int)level, nodes, u->err);
	for (unsigned i = 0, at = 0; rc == 0 && i < lane->count; i++)
		if (lane->entries[i].from < lane->entries[i].to)
			lane->entries[i].node = nodes[at++];
	free(bps);
	free(nodes);
	return rc;
}

/* An empty lane takes in what comes next, references of higher levels too, and reads what is touched, all at once. */
static int lane_fill(struct update *u, unsigned level)
{
	struct lane *lane = &u->lanes[level], *above = &u->lanes[level + 1];
	unsigned window = level == 0 ? LEAF_WINDOW : INNER_WINDOW, touched = 0;
	int rc = 0;

	if (!lane->entries && !(lane->entries = malloc(LANE_MAX * sizeof *lane->entries)))
		return error_set(u->err, ERR_MEMORY, "no memory to read tree %llu", LLU(u->tree));
	lane->head = lane->count = 0;
	while (rc == 0 && lane->count < LANE_MAX && touched < window) {
		struct lane_entry e;
		bool any;

		if (!above->expanding) {
			rc = lane_next(u, level + 1, &e, &any);
			if (rc || !any)
				break;
			if (e.node) {
				above->expanding = e.node;
				above->next_child = 0;
				above->next_change = e.from;
				above->last_change = e.to;
				rc = note_replaced(u, &e.bp);
				continue;
			}
		} else {
			rc = lane_child(u, above, level, &e);
		}
		if (rc == 0) {
			touched += e.from < e.to;
			lane->entries[lane->count++] = e;
		}
	}
	return rc == 0 && touched > 0 ? lane_read(u, lane, level) : rc;
}

/* Next in key order: a touched node of this level, read and pinned for the caller, or a reference of this level or
 * above. */
static int lane_next(struct update *u, unsigned level, struct lane_entry *ret, bool *ret_any)
{
	struct lane *lane = &u->lanes[level];
	int rc;

	*ret_any = false;
	if (lane->head == lane->count) {
		if (level + 1 >= u->levels) /* the root's lane was filled at the start */
			return 0;
		rc = lane_fill(u, level);
		if (rc || lane->count == 0)
			return rc;
	}
	*ret = lane->entries[lane->head];
	lane->entries[lane->head++].node = NULL;
	*ret_any = true;
	return 0;
}

/* --- leaves ------------------------------------------------------------------------------------------------------- */

/* Would these changes leave the leaf as it is? */
static bool is_unchanged(const uint8_t *leaf, const struct tree_change *c, const struct tree_change *end)
{
	const uint8_t *item = leaf + NODE_HEAD_BYTES, *items_end = leaf + node_used(leaf);

	for (; c < end; c++) {
		bool is_there;

		while (item < items_end && key_compare(item_key(item), c->key) < 0)
			item += leaf_item_bytes(item);
		is_there = item < items_end && key_compare(item_key(item), c->key) == 0;
		if (is_there ? c->bytes == 0 || c->bytes != leaf_value_bytes(item) ||
					memcmp(c->value, leaf_value(item), c->bytes) != 0
			     : c->bytes > 0)
			return false;
	}
	return true;
}

static int put_change(struct update *u, const struct tree_change *c)
{
	uint8_t item[TREE_LEAF_ITEM_HEAD + TREE_VALUE_MAX];

	if (c->bytes == 0)
		return 0;
	item_put_key(item, c->key);
	put_le16(item + 16, (uint16_t)c->bytes);
	memcpy(item + TREE_LEAF_ITEM_HEAD, c->value, c->bytes);
	return builder_append(u, 0, item, TREE_LEAF_ITEM_HEAD + c->bytes, 1, c->key, c->key, false);
}

/* Old items and changes in key order; what lies between two changes goes over in one piece. */
static int merge_leaf(struct update *u, const uint8_t *leaf, size_t from, size_t to)
{
	const uint8_t *item = leaf + NODE_HEAD_BYTES, *end = leaf + node_used(leaf);
	int rc = 0;

	for (size_t i = from; rc == 0 && i <= to; i++) {
		const struct tree_change *c = i < to ? &u->changes[i] : NULL;
		const uint8_t *start = item, *last = item;
		unsigned count = 0;

		while (item < end && (!c || key_compare(item_key(item), c->key) < 0)) {
			last = item;
			item += leaf_item_bytes(item);
			count++;
		}
		if (count > 0)
			rc = builder_append(
				u, 0, start, (uint32_t)(item - start), count, item_key(start), item_key(last), false);
		if (rc || !c)
			continue;
		if (item < end && key_compare(item_key(item), c->key) == 0) {
			if (u->old)
				u->old(u->arg, c->key, leaf_value(item), leaf_value_bytes(item));
			item += leaf_item_bytes(item);
		}
		rc = put_change(u, c);
	}
	return rc;
}

/* Tells the old values of a leaf that stays. */
static void tell_old(struct update *u, const uint8_t *leaf, size_t from, size_t to)
{
	const uint8_t *item = leaf + NODE_HEAD_BYTES, *end = leaf + node_used(leaf);

	for (size_t i = from; u->old && i < to; i++) {
		while (item < end && key_compare(item_key(item), u->changes[i].key) < 0)
			item += leaf_item_bytes(item);
		if (item < end && key_compare(item_key(item), u->changes[i].key) == 0)
			u->old(u->arg, u->changes[i].key, leaf_value(item), leaf_value_bytes(item));
	}
}

static int add_reference(struct update *u, const struct lane_entry *e)
{
	uint8_t item[TREE_INNER_ITEM_BYTES];
	int rc = 0;

	for (unsigned level = 0; rc == 0 && level <= e->bp.level; level++)
		rc = builder_close(u, level);
	if (rc)
		return rc;
	item_put_key(item, e->key);
	bp_pack(&e->bp, item + 16);
	return builder_append(u, e->bp.level + 1u, item, sizeof item, 1, e->key, e->key, true);
}

static int take_entry(struct update *u, const struct lane_entry *e)
{
	const uint8_t *leaf;
	int rc;

	if (!e->node)
		return add_reference(u, e);
	leaf = node_bytes(e->node);
	if (u->builders[0].bytes == 0 && is_unchanged(leaf, u->changes + e->from, u->changes + e->to)) {
		tell_old(u, leaf, e->from, e->to);
		return add_reference(u, e);
	}
	rc = note_replaced(u, &e->bp);
	return rc ? rc : merge_leaf(u, leaf, e->from, e->to);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static bool empty_above(const struct update *u, unsigned level)
{
	for (unsigned above = level + 1; above < TREE_LEVELS; above++)
		if (u->builders[above].count > 0)
			return false;
	return true;
}

/* An old node that became the root and has one child, as one on the left edge may: the child is the root (TREE-4). */
static int collapse(struct update *u, struct bp *root)
{
	int rc = 0;

	while (rc == 0 && root->kind == BP_NODE && root->level > 0) {
		struct bp child = *root;
		unsigned items;
		struct node *n;

		rc = node_get(u->p, root, u->tree, root->level, &n, u->err);
		if (rc)
			break;
		items = node_items(node_bytes(n));
		if (items == 1)
			rc = inner_child(inner_item(node_bytes(n), 0), u->tree, root->level, &child, u->err);
		node_put(u->p, n);
		if (rc || items > 1)
			break;
		rc = note_replaced(u, root);
		*root = child;
	}
	return rc;
}

/* Closes the builders from the leaves up until one pointer is left: the root. */
static int finish(struct update *u, struct bp *ret)
{
	for (unsigned level = 0; level < TREE_LEVEL_MAX; level++) {
		struct builder *above = &u->builders[level + 1];
		int rc = builder_close(u, level);

		if (rc)
			return rc;
		if (!empty_above(u, level + 1))
			continue;
		if (above->count == 1) {
			rc = inner_child(above->items, u->tree, level + 1, ret, u->err);
			return rc || !above->tail_is_old ? rc : collapse(u, ret);
		}
		if (above->count == 0) {
			*ret = (struct bp){.kind = BP_HOLE};
			return 0;
		}
	}
	return error_set(u->err, ERR_SPACE, "tree %llu would be more than %u levels high", LLU(u->tree), TREE_LEVELS);
}

static int run(struct update *u, const struct bp *root, struct bp *ret)
{
	int rc = 0;

	if (root->kind == BP_HOLE) {
		for (size_t i = 0; i < u->change_count && rc == 0; i++)
			rc = put_change(u, &u->changes[i]);
	} else {
		struct lane *top = &u->lanes[root->level];

		u->levels = root->level + 1u;
		top->entries = malloc(LANE_MAX * sizeof *top->entries);
		if (!top->entries)
			return error_set(u->err, ERR_MEMORY, "no memory to read tree %llu", LLU(u->tree));
		top->entries[0] = (struct lane_entry){.bp = *root, .from = 0, .to = u->change_count};
		top->count = 1;
		rc = lane_read(u, top, root->level);
	}
	while (rc == 0 && u->levels > 0) {
		struct lane_entry e;
		bool any;

		rc = lane_next(u, 0, &e, &any);
		if (rc || !any)
			break;
		rc = take_entry(u, &e);
		node_put(u->p, e.node);
	}
	if (rc == 0)
		rc = finish(u, ret);
	return rc ? rc : batch_write(u);
}

static void give_back(struct update *u, bool all)
{
	os_scoped_lock(&u->p->lock);
	for (size_t i = 0; i < u->extent_count; i++) {
		uint32_t from = all ? 0 : i + 1 == u->extent_count ? u->extent_used : u->extents[i].count;

		if (from < u->extents[i].count)
			space_unallot_meta(u->p, &u->extents[i], from);
	}
}

static void release(struct update *u)
{
	for (unsigned level = 0; level < TREE_LEVELS; level++) {
		struct lane *lane = &u->lanes[level];

		for (unsigned i = lane->head; lane->entries && i < lane->count; i++)
			node_put(u->p, lane->entries[i].node);
		node_put(u->p, lane->expanding);
		free(lane->entries);
		free(u->builders[level].items);
	}
	free(u->batch_bytes);
	free(u->extents);
	free(u->replaced);
	free(u);
}

static int changes_check(uint64_t tree, const struct tree_change *changes, size_t count, struct error *err)
{
	for (size_t i = 0; i < count; i++) {
		sp_assert(i == 0 || key_compare(changes[i - 1].key, changes[i].key) < 0);
		if (changes[i].bytes > TREE_VALUE_MAX)
			return error_set(err, ERR_USAGE, "a value of %u bytes for tree %llu; %u are possible",
				changes[i].bytes, LLU(tree), TREE_VALUE_MAX);
	}
	return 0;
}

int tree_update(struct pool *p, struct bp *root, uint64_t tree, const struct tree_change *changes, size_t count,
	uint64_t birth, void (*old)(void *arg, struct key key, const uint8_t *value, uint32_t bytes), void *arg,
	struct error *err)
{
	struct update *u;
	struct bp new_root = *root;
	int rc;

	if (root->kind != BP_HOLE && (root->kind != BP_NODE || root->level > TREE_LEVEL_MAX))
		return error_set(err, ERR_CORRUPT, "the root of tree %llu is a pointer of kind %u, level %u", LLU(tree),
			root->kind, root->level);
	rc = changes_check(tree, changes, count, err);
	if (rc || count == 0)
		return rc;
	u = calloc(1, sizeof *u);
	if (u && posix_memalign((void **)&u->batch_bytes, DISK_BUFFER_ALIGN, WRITE_BATCH * NODE_BYTES) != 0)
		u->batch_bytes = NULL;
	if (!u || !u->batch_bytes) {
		free(u);
		return error_set(err, ERR_MEMORY, "no memory to change tree %llu", LLU(tree));
	}
	u->p = p;
	u->tree = tree;
	u->birth = birth;
	u->changes = changes;
	u->change_count = count;
	u->old = old;
	u->arg = arg;
	u->err = err;
	rc = run(u, root, &new_root);
	give_back(u, rc != 0);
	for (size_t i = 0; rc == 0 && i < u->replaced_count; i++) {
		struct bp bp;

		if (bp_unpack(u->replaced + BP_BYTES * i, &bp, NULL) == 0)
			fold_node_dead(p, tree, &bp);
	}
	if (rc == 0)
		*root = new_root;
	release(u);
	return rc;
}
