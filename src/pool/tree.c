/*
 * Trees: ordered maps from a key of two numbers to up to 5 KiB, on disks, never changed in place.
 *
 * The pool keeps all of its facts in such trees: where each record lies, which runs there are, what waits for a
 * snapshot to go. They are changed only by folds, some hundred thousand changes in one pass, so what counts is how few
 * nodes are read and written by a pass, not how a single change is made. So:
 *
 *   copy on write   a changed node is written to a new place, and so is what points to it, up to the root. Whoever
 * holds an old root reads the old tree, without a lock, for as long as its places are not used again. one pass
 * tree_update merges sorted changes with the old leaves and builds the new nodes from left to right; tree_update.c
 * tells how sealed          a pointer carries birth and checksum of the node below it; the root's lies in the uberblock
 * or in a dataset's catalog item, so a lost or misdirected write is told on the way down
 *
 *     level 2              [ 3 | 900 ]               an inner key is the first key below it
 *                         /           \
 *     level 1      [ 3 | 70 ]      [ 900 | 950 ]     204 children in a node of 16 KiB
 *                  /      \          /       \
 *     level 0   3 5 9   70 81    900 901    950 …    199 block pointers in a leaf
 *
 * What holds of each tree, and check.c looks for:
 *   TREE-1  keys ascend in a node and from node to node; an inner key is the first key below it
 *   TREE-2  a child's level is its parent's less one; all leaves have the same depth
 *   TREE-3  only nodes on the left edge, and the root, may be less than a third full
 *   TREE-4  an inner root has two children or more; an empty tree is a hole, without a node
 *
 * After Bayer and McCreight 1972; copy on write as in Rodeh, "B-trees, shadowing, and clones", 2008, but for the
 * bulk pass, which is the merge of a log-structured tree (O'Neil et al. 1996).
 */
#include <string.h>

#include "node.h"
#include "tree.h"

#define LLU(v) ((unsigned long long)(v))
#define WALK_WINDOW_MAX 32u /* leaves that a walk reads ahead at once */

int inner_child(const uint8_t *item, uint64_t tree, unsigned level, struct bp *ret, struct error *err)
{
	struct bp bp;
	int rc = bp_unpack(item + 16, &bp, err);

	if (rc == 0 && (bp.kind != BP_NODE || level == 0 || bp.level != level - 1))
		rc = error_set(err, ERR_CORRUPT,
			"below a node of tree %llu, level %u, hangs a pointer of kind %u, level %u", LLU(tree), level,
			bp.kind, bp.level);
	if (rc == 0)
		*ret = bp;
	return rc;
}

unsigned inner_place(const uint8_t *node, struct key key)
{
	unsigned low = 0, high = node_items(node); /* the answer is in [low, high) */

	while (high - low > 1) {
		unsigned mid = (low + high) / 2;

		if (key_compare(item_key(inner_item(node, mid)), key) <= 0)
			low = mid;
		else
			high = mid;
	}
	return low;
}

static int root_check(const struct bp *root, uint64_t tree, struct error *err)
{
	if (root->kind != BP_HOLE && (root->kind != BP_NODE || root->level > TREE_LEVEL_MAX))
		return error_set(err, ERR_CORRUPT, "the root of tree %llu is a pointer of kind %u, level %u", LLU(tree),
			root->kind, root->level);
	return 0;
}

/* --- lookup ------------------------------------------------------------------------------------------------------- */

/* First item at or behind the key, as an offset into the node; *ret_index is its number. */
static uint32_t leaf_place(const struct node *n, struct key key, unsigned *ret_index)
{
	const uint8_t *bytes = node_bytes(n);
	unsigned items = node_items(bytes), low = 0, high = items;
	uint32_t stride = node_stride(n), at = NODE_HEAD_BYTES;

	if (stride > 0) {
		while (low < high) {
			unsigned mid = (low + high) / 2;

			if (key_compare(item_key(bytes + NODE_HEAD_BYTES + mid * stride), key) < 0)
				low = mid + 1;
			else
				high = mid;
		}
		*ret_index = low;
		return NODE_HEAD_BYTES + low * stride;
	}
	while (low < items && key_compare(item_key(bytes + at), key) < 0) {
		at += leaf_item_bytes(bytes + at);
		low++;
	}
	*ret_index = low;
	return at;
}

int tree_lookup(struct pool *p, const struct bp *root, uint64_t tree, struct key key, uint8_t *value, uint32_t room,
	uint32_t *ret_bytes, struct error *err)
{
	struct bp bp = *root;
	struct node *n;
	int rc = root_check(root, tree, err);

	if (rc == 0 && root->kind == BP_HOLE)
		return ERR_NOT_FOUND;
	while (rc == 0) {
		const uint8_t *bytes, *item;
		unsigned index;

		rc = node_get(p, &bp, tree, bp.level, &n, err);
		if (rc)
			return rc;
		bytes = node_bytes(n);
		if (node_level(bytes) > 0) {
			item = inner_item(bytes, inner_place(bytes, key));
			rc = inner_child(item, tree, node_level(bytes), &bp, err);
			node_put(p, n);
			continue;
		}
		item = bytes + leaf_place(n, key, &index);
		if (index == node_items(bytes) || key_compare(item_key(item), key) != 0)
			rc = ERR_NOT_FOUND;
		else if (leaf_value_bytes(item) > room)
			rc = error_set(err, ERR_CORRUPT,
				"item {%llu, %llu} of tree %llu has %u bytes where at most %u belong", LLU(key.a),
				LLU(key.b), LLU(tree), leaf_value_bytes(item), room);
		if (rc == 0) {
			*ret_bytes = leaf_value_bytes(item);
			memcpy(value, leaf_value(item), *ret_bytes);
		}
		node_put(p, n);
		break;
	}
	return rc;
}

/* --- walks -------------------------------------------------------------------------------------------------------- */

struct walk {
	struct pool *p;
	uint64_t tree;
	struct key from;
	bool at_start; /* still on the way down to `from` */
	bool stopped;
	unsigned window; /* grows: who looks for one item does not read 32 leaves */
	bool (*visit)(void *arg, struct key key, const uint8_t *value, uint32_t bytes);
	bool (*visit_node)(void *arg, const struct bp *bp);
	void *arg;
	struct error *err;
};

static void walk_leaf(struct walk *w, const struct node *n)
{
	const uint8_t *bytes = node_bytes(n);
	unsigned i = 0;
	uint32_t at = w->at_start ? leaf_place(n, w->from, &i) : NODE_HEAD_BYTES;

	w->at_start = false;
	for (; i < node_items(bytes) && !w->stopped; i++, at += leaf_item_bytes(bytes + at))
		w->stopped =
			!w->visit(w->arg, item_key(bytes + at), leaf_value(bytes + at), leaf_value_bytes(bytes + at));
}

static int walk_inner(struct walk *w, const uint8_t *bytes)
{
	unsigned level = node_level(bytes), items = node_items(bytes);
	unsigned i = w->at_start ? inner_place(bytes, w->from) : 0;
	struct bp bps[WALK_WINDOW_MAX];
	struct node *nodes[WALK_WINDOW_MAX];
	int rc = 0;

	for (unsigned n; i < items && rc == 0 && !w->stopped; i += n) {
		unsigned done = 0;

		n = min_of(items - i, level > 1 ? min_of(w->window, 4u) : w->window);
		for (unsigned c = 0; c < n && rc == 0; c++)
			rc = inner_child(inner_item(bytes, i + c), w->tree, level, &bps[c], w->err);
		if (rc == 0)
			rc = nodes_get(w->p, bps, n, w->tree, (int)level - 1, nodes, w->err);
		if (rc)
			break;
		w->window = min_of(2 * w->window, WALK_WINDOW_MAX);
		for (; done < n; done++) {
			if (rc == 0 && !w->stopped && level == 1)
				walk_leaf(w, nodes[done]);
			else if (rc == 0 && !w->stopped)
				rc = walk_inner(w, node_bytes(nodes[done]));
			node_put(w->p, nodes[done]);
		}
	}
	return rc;
}

int tree_walk(struct pool *p, const struct bp *root, uint64_t tree, struct key from,
	bool (*visit)(void *arg, struct key key, const uint8_t *value, uint32_t bytes), void *arg, struct error *err)
{
	struct walk w = {.p = p,
		.tree = tree,
		.from = from,
		.at_start = true,
		.window = 1,
		.visit = visit,
		.arg = arg,
		.err = err};
	struct node *n;
	int rc = root_check(root, tree, err);

	if (rc || root->kind == BP_HOLE)
		return rc;
	rc = node_get(p, root, tree, root->level, &n, err);
	if (rc)
		return rc;
	if (root->level > 0)
		rc = walk_inner(&w, node_bytes(n));
	else
		walk_leaf(&w, n);
	node_put(p, n);
	return rc;
}

/* Leaves are visited by what their parents say: they need not be read. */
static int walk_nodes(struct walk *w, const struct bp *bp)
{
	struct node *n;
	int rc;

	w->stopped = !w->visit_node(w->arg, bp);
	if (w->stopped || bp->level == 0)
		return 0;
	rc = node_get(w->p, bp, w->tree, bp->level, &n, w->err);
	if (rc)
		return rc;
	for (unsigned i = 0; i < node_items(node_bytes(n)) && rc == 0 && !w->stopped; i++) {
		struct bp child;

		rc = inner_child(inner_item(node_bytes(n), i), w->tree, bp->level, &child, w->err);
		if (rc == 0)
			rc = walk_nodes(w, &child);
	}
	node_put(w->p, n);
	return rc;
}

int tree_walk_nodes(struct pool *p, const struct bp *root, uint64_t tree, bool (*visit)(void *arg, const struct bp *bp),
	void *arg, struct error *err)
{
	struct walk w = {.p = p, .tree = tree, .visit_node = visit, .arg = arg, .err = err};
	int rc = root_check(root, tree, err);

	return rc || root->kind == BP_HOLE ? rc : walk_nodes(&w, root);
}
