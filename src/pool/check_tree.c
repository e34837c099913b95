/* Of check: one tree, node by node. Goes on beside what is damaged. */
#include <string.h>

#include "check.h"
#include "node.h"
#include "tree.h"

#define LLU(v) ((unsigned long long)(v))
#define PIECE_UNITS (NODE_BYTES / POOL_UNIT_BYTES)

struct walker {
	struct check *c;
	uint64_t tree;
	const char *what;
	bool quiet;
	void (*item)(struct check *c, void *arg, struct key key, const uint8_t *value, uint32_t bytes);
	void *arg;
	struct key last;
	bool any;
};

/* --- pieces ------------------------------------------------------------------------------------------------------- */

bool check_piece(struct check *c, struct disk_address a, struct check_zone **ret, size_t *ret_bit)
{
	const struct pool_disk *d = &c->p->disks[a.disk];
	uint64_t start, zone_units, zone, inside;
	struct check_zone *z;

	if (a.disk >= c->p->disk_count || d->zone_bytes < NODE_BYTES)
		return false;
	start = d->data_start_bytes / POOL_UNIT_BYTES;
	zone_units = d->zone_bytes / POOL_UNIT_BYTES;
	if (a.unit < start || (a.unit - start) / zone_units >= d->zone_count)
		return false;
	zone = (a.unit - start) / zone_units;
	inside = (a.unit - start) % zone_units;
	if (inside % PIECE_UNITS || inside + PIECE_UNITS > zone_units)
		return false;
	if (!c->zones[a.disk] && !(c->zones[a.disk] = calloc(d->zone_count, sizeof *c->zones[a.disk])))
		return check_no_memory(c);
	z = &c->zones[a.disk][zone];
	if (!z->sets[0]) {
		size_t bytes = (size_t)(zone_units / PIECE_UNITS + 7) / 8;
		uint8_t *bits = calloc(SET_COUNT, bytes);

		if (!bits)
			return check_no_memory(c);
		for (unsigned s = 0; s < SET_COUNT; s++)
			z->sets[s] = bits + s * bytes;
	}
	*ret = z;
	*ret_bit = inside / PIECE_UNITS;
	return true;
}

void check_pieces_clear(struct check *c, enum check_set set)
{
	for (unsigned d = 0; d < c->p->disk_count; d++)
		for (unsigned z = 0; c->zones[d] && z < c->p->disks[d].zone_count; z++)
			if (c->zones[d][z].sets[set])
				memset(c->zones[d][z].sets[set], 0,
					(size_t)(c->p->disks[d].zone_bytes / NODE_BYTES + 7) / 8);
}

bool check_is_behind(const struct check *c, unsigned disk, uint64_t birth)
{
	uint64_t missed = c->p->config.disks[disk].missed_from;

	return missed && birth >= missed;
}

/* False: not to be walked, because it cannot be there or was there before. *ret_first: no tree has reached it yet. */
static bool mark_node(struct walker *w, const struct bp *bp, bool *ret_first)
{
	struct check *c = w->c;

	*ret_first = false;
	for (unsigned i = 0; i < bp->copies; i++) {
		struct check_zone *z;
		size_t bit;

		if (!check_piece(c, bp->copy[i], &z, &bit)) {
			if (!w->quiet && c->rc == 0)
				check_find(c,
					"%s: a node of level %u is said to be on disk %u at byte %llu, where none can "
					"be",
					w->what, bp->level, bp->copy[i].disk, LLU(bp->copy[i].unit * POOL_UNIT_BYTES));
			return false;
		}
		if (set_has(z->sets[SET_TREE], bit)) {
			if (!w->quiet)
				check_find(c, "%s: the node on disk %u at byte %llu is reached twice", w->what,
					bp->copy[i].disk, LLU(bp->copy[i].unit * POOL_UNIT_BYTES));
			return false;
		}
		set_add(z->sets[SET_TREE], bit);
		if (w->quiet || set_has(z->sets[SET_FAMILY], bit))
			continue;
		if (set_has(z->sets[SET_ALL], bit))
			check_find(c, "%s: the node on disk %u at byte %llu belongs to another tree too", w->what,
				bp->copy[i].disk, LLU(bp->copy[i].unit * POOL_UNIT_BYTES));
		if (!set_has(z->sets[SET_STATED], bit))
			check_find(c,
				"%s: the node on disk %u at byte %llu lies where the map of nodes has a free place",
				w->what, bp->copy[i].disk, LLU(bp->copy[i].unit * POOL_UNIT_BYTES));
		set_add(z->sets[SET_FAMILY], bit);
		set_add(z->sets[SET_ALL], bit);
		*ret_first = true;
	}
	return true;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

/* Every copy. False: there is none to go on with. */
static bool verify_copies(struct walker *w, const struct bp *bp)
{
	struct check *c = w->c;
	struct node_verdict v = {0};
	struct error why = ERROR_INIT;
	int rc = node_verify(c->p, bp, w->tree, bp->level, false, &v, &why);

	c->result.nodes++;
	if (rc == ERR_MEMORY)
		return check_no_memory(c);
	if (rc) {
		check_find(c, "%s: %s", w->what, why.text);
		return false;
	}
	for (unsigned i = 0; i < bp->copies; i++)
		if (v.bad_copies >> i & 1 && !check_is_behind(c, bp->copy[i].disk, bp->birth))
			check_find(c,
				"%s: the copy of a node of level %u on disk %u at byte %llu is bad; another one is "
				"good",
				w->what, bp->level, bp->copy[i].disk, LLU(bp->copy[i].unit * POOL_UNIT_BYTES));
	return true;
}

static void walk_node(struct walker *w, const struct bp *bp, int level, const struct key *first, bool is_root);

static void walk_children(struct walker *w, const uint8_t *bytes)
{
	unsigned items = node_items(bytes), level = node_level(bytes);

	for (unsigned i = 0; i < items && w->c->rc == 0; i++) {
		const uint8_t *item = inner_item(bytes, i);
		struct key key = item_key(item);
		struct error why = ERROR_INIT;
		struct bp child;

		if (inner_child(item, w->tree, level, &child, &why)) {
			w->c->unread = true;
			if (!w->quiet)
				check_find(w->c, "%s: %s", w->what, why.text);
			continue;
		}
		walk_node(w, &child, (int)level - 1, &key, false);
	}
}

static void walk_items(struct walker *w, const uint8_t *bytes)
{
	const uint8_t *item = bytes + NODE_HEAD_BYTES, *end = bytes + node_used(bytes);

	for (; item < end && w->c->rc == 0; item += leaf_item_bytes(item)) {
		struct key key = item_key(item);

		if (!w->quiet && w->any && key_compare(w->last, key) >= 0)
			check_find(w->c, "%s: key {%llu, %llu} comes after {%llu, %llu} (TREE-1)", w->what, LLU(key.a),
				LLU(key.b), LLU(w->last.a), LLU(w->last.b));
		if (!w->quiet && leaf_value_bytes(item) == 0)
			check_find(w->c, "%s: item {%llu, %llu} is empty", w->what, LLU(key.a), LLU(key.b));
		w->last = key;
		w->any = true;
		if (w->item)
			w->item(w->c, w->arg, key, leaf_value(item), leaf_value_bytes(item));
	}
}

static void walk_node(struct walker *w, const struct bp *bp, int level, const struct key *first, bool is_root)
{
	struct check *c = w->c;
	struct error why = ERROR_INIT;
	const uint8_t *bytes;
	struct node *n;
	bool is_first;
	int rc = node_pointer_check(c->p, bp, level, &why);

	if (rc == 0 && !mark_node(w, bp, &is_first)) {
		c->unread = true;
		return;
	}
	if (rc == 0 && is_first && !verify_copies(w, bp)) {
		c->unread = true;
		return;
	}
	if (rc == 0)
		rc = node_get(c->p, bp, w->tree, level, &n, &why);
	if (rc == ERR_MEMORY)
		check_no_memory(c);
	if (rc) {
		c->unread = true;
		if (!w->quiet && c->rc == 0)
			check_find(c, "%s: %s", w->what, why.text);
		return;
	}
	bytes = node_bytes(n);
	if (is_first && bp->birth > c->uber.commit)
		check_find(c, "%s: a node of level %d was born in commit %llu; the checkpoint ends with %llu", w->what,
			level, LLU(bp->birth), LLU(c->uber.commit));
	if (is_first && (node_items(bytes) == 0 || (is_root && level > 0 && node_items(bytes) == 1)))
		check_find(c, "%s: a node of level %d has %u items (TREE-4)", w->what, level, node_items(bytes));
	if (!w->quiet && first && node_items(bytes) > 0 && key_compare(*first, item_key(bytes + NODE_HEAD_BYTES)) != 0)
		check_find(c,
			"%s: a node of level %d begins with key {%llu, %llu}; what points to it says {%llu, %llu} "
			"(TREE-1)",
			w->what, level, LLU(item_key(bytes + NODE_HEAD_BYTES).a),
			LLU(item_key(bytes + NODE_HEAD_BYTES).b), LLU(first->a), LLU(first->b));
	if (level > 0)
		walk_children(w, bytes);
	else
		walk_items(w, bytes);
	node_put(c->p, n);
}

void check_tree(struct check *c, const struct bp *root, uint64_t tree, const char *what, bool quiet,
	void (*item)(struct check *c, void *arg, struct key key, const uint8_t *value, uint32_t bytes), void *arg)
{
	struct walker w = {.c = c, .tree = tree, .what = what, .quiet = quiet, .item = item, .arg = arg};

	check_pieces_clear(c, SET_TREE);
	if (root->kind != BP_HOLE)
		walk_node(&w, root, root->level, NULL, true);
}
