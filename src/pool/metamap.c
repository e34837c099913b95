/*
 * The map of nodes: which 16 KiB pieces of which zones hold tree nodes. It is a tree like the others but written anew with each
 * checkpoint, because its own nodes are in it: places are taken until the map that tells of all of them has room in them.
 */
#include "fold.h"

#include <string.h>

/* --- the map of the zones of nodes: written anew, as it holds itself ---------------------------------------------- */

struct map {
	struct map_item {
		struct key key;
		size_t at;
		uint32_t bytes;
	} * items;
	size_t count, room;
	uint8_t *bits;
	size_t used, bits_room;
	bool no_memory;
	struct bp *places;
	size_t place_count, place_room;
};

static void map_zone(void *arg, unsigned disk, unsigned zone, const uint8_t *bits, uint32_t bytes)
{
	struct map *m = arg;

	if (!fold_reserve((void **)&m->items, &m->room, m->count + 1, sizeof *m->items) ||
		!fold_reserve((void **)&m->bits, &m->bits_room, m->used + bytes, 1)) {
		m->no_memory = true;
		return;
	}
	m->items[m->count++] = (struct map_item){.key = {disk, zone}, .at = m->used, .bytes = bytes};
	memcpy(m->bits + m->used, bits, bytes);
	m->used += bytes;
}

static int map_compare(const void *a, const void *b)
{
	const struct map_item *x = a, *y = b;

	return key_compare(x->key, y->key);
}

#define LEAF_ITEM_BYTES 18u
#define INNER_ITEM_BYTES (16u + BP_BYTES)
#define INNER_ITEMS ((NODE_BYTES - NODE_HEAD_BYTES) / INNER_ITEM_BYTES)

static size_t map_leaves(const struct map *m)
{
	size_t leaves = 0, room = 0;

	for (size_t i = 0; i < m->count; i++) {
		if (room < LEAF_ITEM_BYTES + m->items[i].bytes) {
			leaves++;
			room = NODE_BYTES - NODE_HEAD_BYTES;
		}
		room -= LEAF_ITEM_BYTES + m->items[i].bytes;
	}
	return leaves;
}

static size_t map_nodes(const struct map *m)
{
	size_t nodes = 0;

	for (size_t level = map_leaves(m); level > 0; level = level == 1 ? 0 : (level + INNER_ITEMS - 1) / INNER_ITEMS)
		nodes += level;
	return nodes;
}

/* With the lock: takes places until the map that tells of all of them has room in them. */
static int map_places(struct checkpoint *c, struct map *m, struct error *err)
{
	for (;;) {
		m->count = m->used = 0;
		space_meta_zones(c->p, map_zone, m);
		if (m->no_memory)
			return fold_no_memory(err);
		size_t needed = map_nodes(m);
		if (needed <= m->place_count)
			return 0;
		struct meta_extent e;
		int rc = space_allot_meta(c->p, (uint32_t)(needed - m->place_count), &e, err);
		if (rc)
			return rc;
		if (!fold_reserve((void **)&m->places, &m->place_room, m->place_count + e.count, sizeof *m->places)) {
			space_unallot_meta(c->p, &e, 0);
			return fold_no_memory(err);
		}
		for (uint32_t i = 0; i < e.count; i++) {
			struct bp *bp = &m->places[m->place_count++];

			*bp = (struct bp){.kind = BP_NODE,
				.logical_bytes = NODE_BYTES,
				.physical_bytes = NODE_BYTES,
				.birth = c->commit,
				.copies = e.copies};
			for (unsigned k = 0; k < e.copies; k++)
				bp->copy[k] = (struct disk_address){
					e.copy[k].disk, e.copy[k].unit + (uint64_t)i * (NODE_BYTES / POOL_UNIT_BYTES)};
		}
	}
}

struct map_build {
	struct checkpoint *c;
	struct map *m;
	uint8_t *bytes; /* of all nodes */
	struct node_write *nodes;
	struct key *first; /* key of each node */
	size_t done;
};

static void node_finish(struct map_build *b, size_t i, unsigned level, unsigned items, uint32_t used)
{
	struct bp *bp = &b->m->places[i];
	uint8_t *bytes = b->bytes + i * NODE_BYTES;
	struct node_head head = {.level = (uint8_t)level,
		.items = (uint16_t)items,
		.tree = TREE_METAMAP,
		.birth = bp->birth,
		.bytes = used};

	node_head_pack(&head, bytes);
	bp->level = (uint8_t)level;
	bp->checksum_kind = CHECKSUM_XXH3;
	node_seal(b->c->p, bp, TREE_METAMAP, bytes);
	b->nodes[i] = (struct node_write){.bp = *bp, .bytes = bytes, .tree = TREE_METAMAP};
}

static void leaves_build(struct map_build *b)
{
	struct map *m = b->m;
	size_t i = 0;

	while (i < m->count) {
		uint8_t *node = b->bytes + b->done * NODE_BYTES;
		uint32_t used = NODE_HEAD_BYTES;
		unsigned items = 0;

		b->first[b->done] = m->items[i].key;
		for (; i < m->count && used + LEAF_ITEM_BYTES + m->items[i].bytes <= NODE_BYTES; i++, items++) {
			const struct map_item *item = &m->items[i];

			put_le64(node + used, item->key.a);
			put_le64(node + used + 8, item->key.b);
			put_le16(node + used + 16, (uint16_t)item->bytes);
			memcpy(node + used + LEAF_ITEM_BYTES, m->bits + item->at, item->bytes);
			used += LEAF_ITEM_BYTES + item->bytes;
		}
		node_finish(b, b->done++, 0, items, used);
	}
}

static void inners_build(struct map_build *b, size_t from, unsigned level)
{
	size_t end = b->done;

	for (size_t i = from; i < end;) {
		uint8_t *node = b->bytes + b->done * NODE_BYTES;
		uint32_t used = NODE_HEAD_BYTES;
		unsigned items = 0;

		b->first[b->done] = b->first[i];
		for (; i < end && items < INNER_ITEMS; i++, items++) {
			put_le64(node + used, b->first[i].a);
			put_le64(node + used + 8, b->first[i].b);
			bp_pack(&b->m->places[i], node + used + 16);
			used += INNER_ITEM_BYTES;
		}
		node_finish(b, b->done++, level, items, used);
	}
	if (b->done - end > 1)
		inners_build(b, end, level + 1);
}

static int map_write(struct checkpoint *c, struct map *m, struct error *err)
{
	size_t count = m->place_count;
	struct map_build b = {.c = c, .m = m};

	b.bytes = aligned_alloc(DISK_BUFFER_ALIGN, count * NODE_BYTES);
	b.nodes = calloc(count, sizeof *b.nodes);
	b.first = calloc(count, sizeof *b.first);
	int rc = b.bytes && b.nodes && b.first ? 0 : fold_no_memory(err);
	if (!rc) {
		memset(b.bytes, 0, count * NODE_BYTES);
		qsort(m->items, m->count, sizeof *m->items, map_compare);
		leaves_build(&b);
		if (b.done > 1)
			inners_build(&b, 0, 1);
		sp_assert(b.done == count);
		rc = nodes_write(c->p, b.nodes, (unsigned)count, err);
	}
	if (!rc)
		c->uber.metamap = m->places[count - 1];
	free(b.bytes);
	free(b.nodes);
	free(b.first);
	return rc;
}

static bool map_node_gather(void *arg, const struct bp *bp)
{
	fold_gather_add(arg, (struct key){0, 0}, bp);
	return true;
}

static int old_map_free(struct checkpoint *c, struct error *err)
{
	struct gather old = {.c = c};
	struct error why = ERROR_INIT;
	int rc = c->p->uber.metamap.kind == BP_HOLE
			 ? 0
			 : tree_walk_nodes(c->p, &c->p->uber.metamap, TREE_METAMAP, map_node_gather, &old, &why);

	os_mutex_lock(&c->p->lock);
	if (!old.no_memory) {
		for (size_t i = 0; i < old.count; i++)
			space_free_meta(c->p, &old.items[i]);
		c->old_map_freed = true;
	}
	os_mutex_unlock(&c->p->lock);
	fold_gather_release(&old);
	return old.no_memory ? fold_no_memory(err) : rc == ERR_MEMORY ? error_set(err, rc, "%s", why.text) : 0;
}

int fold_map(struct checkpoint *c, struct error *err)
{
	struct map m = {0};
	int rc = c->old_map_freed ? 0 : old_map_free(c, err);

	if (!rc) {
		os_scoped_lock(&c->p->lock);
		rc = map_places(c, &m, err);
	}
	if (!rc && m.place_count)
		rc = map_write(c, &m, err);
	if (rc) {
		os_scoped_lock(&c->p->lock);
		for (size_t i = 0; i < m.place_count; i++) {
			struct meta_extent e = {.copies = m.places[i].copies, .count = 1};

			memcpy(e.copy, m.places[i].copy, sizeof e.copy);
			space_unallot_meta(c->p, &e, 0);
		}
	}
	free(m.items);
	free(m.bits);
	free(m.places);
	return rc;
}
