/*
 * Delta: what is committed, or about to be, and not folded into the trees yet. A map (tree, key) -> value in order.
 *
 * It takes half a million block pointers between two folds, is searched by every read, is walked in order by the fold,
 * and one is absorbed by another at each commit, which must not fail because the commit is durable by then. So it is a
 * skip list (Pugh 1990) with a quarter of the nodes on each next level: an entry is one piece of an arena with 1⅓ links
 * on average, and absorbing moves nodes from one list to the other without asking for memory.
 *
 *   level 1   head ----------------------> (16, 7) -------------------------> end
 *   level 0   head -> (0, 3) -> (16, 5) -> (16, 7) -> (16, 9) -> (17, 0) ---> end
 *
 * A finger holds the last place that was looked for on each level: entries that come in order, and nearly all do, cost
 * a few steps whatever the size.
 *
 * The dead: a data pointer that is put here and replaced here never reaches a tree, so the fold would never hear of its
 * column. It goes to a list of its own. The same column put again (a replayed entry, a new hint) is not dead.
 */
#include <string.h>

#include "internal.h"

#define LEVELS_MAX 12u
#define CHUNK_BYTES_MIN 2048u
#define CHUNK_BYTES_MAX (256u << 10)
#define COPY_BYTES_MAX (32u << 10) /* so much is copied when it is absorbed, a larger delta is taken over whole */

struct chunk {
	struct chunk *next;
	size_t bytes, used; /* this head included */
};

struct delta_node {
	struct delta_entry entry; /* value: behind the links, or somewhere in an arena when a longer one came later */
	uint32_t value_room;
	uint32_t levels;
	struct delta_node *next[];
};

/* In the place of a node that lost its own when it was replaced in an absorb, so that this needs no memory. */
struct delta_dead {
	struct delta_dead *next;
	uint64_t tree;
	const uint8_t *bp;
};
_Static_assert(sizeof(struct delta_dead) <= sizeof(struct delta_node), "fits over a node, before its value");

struct delta {
	struct chunk *chunks, *chunks_last; /* the first is the one that is filled */
	struct delta_dead *dead, **dead_end;
	size_t count, dead_count;
	uint64_t bytes;      /* of all chunks and of this */
	uint64_t used_bytes; /* of what is in the chunks */
	uint64_t level_bits; /* a generator of its own: what is in memory never decides what is on a disk */
	unsigned levels;
	struct delta_node *finger[LEVELS_MAX]; /* the last node before the last place looked for; NULL: the head */
	struct delta_node *head[LEVELS_MAX];
};

/* --- the arena ---------------------------------------------------------------------------------------------------- */

static struct chunk *chunk_make(struct delta *d, size_t bytes)
{
	struct chunk *c = malloc(bytes);

	if (!c)
		return NULL;
	c->bytes = bytes;
	c->used = round_up_u64(sizeof *c, 16);
	c->next = d->chunks;
	if (!d->chunks)
		d->chunks_last = c;
	d->chunks = c;
	d->bytes += bytes;
	d->used_bytes += c->used;
	return c;
}

/* Makes sure that `bytes` fit into the first chunk. */
static bool arena_reserve(struct delta *d, size_t bytes)
{
	struct chunk *c = d->chunks;
	size_t head = round_up_u64(sizeof *c, 16), want;

	if (c && c->bytes - c->used >= bytes)
		return true;
	want = c ? min_of(2 * c->bytes, (size_t)CHUNK_BYTES_MAX) : CHUNK_BYTES_MIN;
	return chunk_make(d, max_of(want, round_up_u64(head + bytes, 16))) != NULL;
}

static void *arena_take(struct delta *d, size_t bytes)
{
	struct chunk *c;
	void *ret;

	bytes = round_up_u64(bytes, 8);
	if (!arena_reserve(d, bytes))
		return NULL;
	c = d->chunks;
	ret = (uint8_t *)c + c->used;
	c->used += bytes;
	d->used_bytes += bytes;
	return ret;
}

static void arena_free(struct delta *d)
{
	for (struct chunk *c = d->chunks, *next; c; c = next) {
		next = c->next;
		free(c);
	}
}

static void delta_reset(struct delta *d)
{
	memset(d, 0, sizeof *d);
	d->dead_end = &d->dead;
	d->bytes = sizeof *d;
	d->level_bits = 0x9e3779b97f4a7c15;
	d->levels = 1;
}

int delta_open(struct delta **ret, struct error *err)
{
	struct delta *d = malloc(sizeof *d);

	if (!d)
		return error_set(err, ERR_MEMORY, "out of memory for a list of changes");
	delta_reset(d);
	*ret = d;
	return 0;
}

void delta_close(struct delta *d)
{
	if (!d)
		return;
	arena_free(d);
	free(d);
}

size_t delta_count(const struct delta *d)
{
	return d->count;
}

uint64_t delta_bytes(const struct delta *d)
{
	return d->bytes;
}

/* --- the skip list ------------------------------------------------------------------------------------------------ */

static inline int place_compare(const struct delta_entry *e, uint64_t tree, struct key key)
{
	return e->tree != tree ? (e->tree < tree ? -1 : 1) : key_compare(e->key, key);
}

static inline struct delta_node *node_after(const struct delta *d, const struct delta_node *n, unsigned level)
{
	return n ? n->next[level] : d->head[level];
}

/* Last nodes before the place, by level; the node at or after it. */
static struct delta_node *seek(const struct delta *d, uint64_t tree, struct key key, struct delta_node **before)
{
	struct delta_node *at = NULL, *next = NULL, *seen = NULL;

	for (unsigned level = d->levels; level-- > 0;) {
		while ((next = node_after(d, at, level)) && next != seen && place_compare(&next->entry, tree, key) < 0)
			at = next;
		seen = next; /* known to be at or after the place: not compared again one level below */
		if (before)
			before[level] = at;
	}
	return next;
}

/* The same from the finger: climbs only as high as the place is far. */
static struct delta_node *seek_near(struct delta *d, uint64_t tree, struct key key)
{
	unsigned level = 0;
	struct delta_node *at, *next = NULL, *seen = NULL;

	/* The highest level on which the finger is before the place and what follows it is not: from there down. */
	while (level < d->levels) {
		at = d->finger[level];
		next = node_after(d, at, level);
		if ((!at || place_compare(&at->entry, tree, key) < 0) &&
			(!next || place_compare(&next->entry, tree, key) >= 0))
			break;
		level++;
	}
	if (level == d->levels)
		return seek(d, tree, key, d->finger);
	at = d->finger[level];
	seen = next;
	while (level-- > 0) {
		while ((next = node_after(d, at, level)) && next != seen && place_compare(&next->entry, tree, key) < 0)
			at = next;
		seen = next;
		d->finger[level] = at;
	}
	return next;
}

static unsigned draw_levels(struct delta *d)
{
	unsigned levels = 1;

	d->level_bits ^= d->level_bits << 13;
	d->level_bits ^= d->level_bits >> 7;
	d->level_bits ^= d->level_bits << 17;
	for (uint64_t bits = d->level_bits * 0x2545f4914f6cdd1d; levels < LEVELS_MAX && bits >> 62 == 0; bits <<= 2)
		levels++;
	return levels;
}

/* At the finger. */
static void link_node(struct delta *d, struct delta_node *n)
{
	while (d->levels < n->levels)
		d->finger[d->levels++] = NULL;
	for (unsigned level = 0; level < n->levels; level++) {
		struct delta_node *before = d->finger[level], **link = before ? &before->next[level] : &d->head[level];

		n->next[level] = *link;
		*link = n;
	}
	d->count++;
}

static struct delta_node *node_make(
	struct delta *d, unsigned levels, uint64_t tree, struct key key, const uint8_t *value, uint32_t bytes)
{
	size_t head = sizeof(struct delta_node) + levels * sizeof(struct delta_node *);
	struct delta_node *n = arena_take(d, head + bytes);

	if (!n)
		return NULL;
	n->entry = (struct delta_entry){.tree = tree, .key = key, .bytes = bytes, .value = (uint8_t *)n + head};
	n->value_room = (uint32_t)round_up_u64(bytes, 8);
	n->levels = levels;
	if (bytes > 0)
		memcpy((uint8_t *)n + head, value, bytes);
	return n;
}

/* --- the dead ----------------------------------------------------------------------------------------------------- */

static bool value_is_data(uint64_t tree, const uint8_t *value, uint32_t bytes)
{
	return tree >= TREE_DATASET_FIRST && bytes == BP_BYTES && value[0] == BP_DATA;
}

/* Does `value` in the place of the entry's leave its column without a pointer? */
static bool replacing_kills(const struct delta_entry *e, const uint8_t *value, uint32_t bytes)
{
	struct bp before, after;

	if (!value_is_data(e->tree, e->value, e->bytes))
		return false;
	if (!value_is_data(e->tree, value, bytes))
		return true;
	return bp_unpack(e->value, &before, NULL) != 0 || bp_unpack(value, &after, NULL) != 0 ||
	       before.run != after.run || before.stripe != after.stripe || before.column != after.column;
}

static void dead_link(struct delta *d, struct delta_dead *dead, uint64_t tree, const uint8_t *bp)
{
	*dead = (struct delta_dead){.tree = tree, .bp = bp};
	*d->dead_end = dead;
	d->dead_end = &dead->next;
	d->dead_count++;
}

/* --- put, find, walk ---------------------------------------------------------------------------------------------- */

int delta_put(struct delta *d, uint64_t tree, struct key key, const uint8_t *value, uint32_t bytes, struct error *err)
{
	struct delta_node *n = seek_near(d, tree, key);
	struct delta_dead *dead = NULL;

	if (!n || place_compare(&n->entry, tree, key) != 0) {
		n = node_make(d, draw_levels(d), tree, key, value, bytes);
		if (!n)
			return error_set(
				err, ERR_MEMORY, "out of memory for a change of tree %llu", (unsigned long long)tree);
		link_node(d, n);
		return 0;
	}
	if (replacing_kills(&n->entry, value, bytes)) {
		/* The old bytes stay where they are, as the dead one's; the new ones get room of their own. */
		dead = arena_take(d, sizeof *dead + max_of(bytes, BP_BYTES));
		if (!dead)
			return error_set(
				err, ERR_MEMORY, "out of memory for a change of tree %llu", (unsigned long long)tree);
		dead_link(d, dead, tree, n->entry.value);
		n->entry.value = (uint8_t *)(dead + 1);
		n->value_room = (uint32_t)round_up_u64(max_of(bytes, BP_BYTES), 8);
	} else if (bytes > n->value_room) {
		uint8_t *longer = arena_take(d, bytes);

		if (!longer)
			return error_set(
				err, ERR_MEMORY, "out of memory for a change of tree %llu", (unsigned long long)tree);
		n->entry.value = longer;
		n->value_room = (uint32_t)round_up_u64(bytes, 8);
	}
	if (bytes > 0)
		memmove((uint8_t *)n->entry.value, value, bytes);
	n->entry.bytes = bytes;
	return 0;
}

const struct delta_entry *delta_find(const struct delta *d, uint64_t tree, struct key key)
{
	const struct delta_node *n = seek(d, tree, key, NULL);

	return n && place_compare(&n->entry, tree, key) == 0 ? &n->entry : NULL;
}

const struct delta_entry *delta_at_or_after(const struct delta *d, uint64_t tree, struct key key)
{
	const struct delta_node *n = seek(d, tree, key, NULL);

	return n && n->entry.tree == tree ? &n->entry : NULL;
}

void delta_walk(const struct delta *d, void (*visit)(void *arg, const struct delta_entry *e), void *arg)
{
	for (const struct delta_node *n = d->head[0]; n; n = n->next[0])
		visit(arg, &n->entry);
}

void delta_walk_dead(const struct delta *d, void (*visit)(void *arg, uint64_t tree, const struct bp *bp), void *arg)
{
	struct bp bp;

	for (const struct delta_dead *dead = d->dead; dead; dead = dead->next)
		if (bp_unpack(dead->bp, &bp, NULL) == 0)
			visit(arg, dead->tree, &bp);
}

/* --- absorbing ---------------------------------------------------------------------------------------------------- */

static void unlink_node(struct delta *d, struct delta_node *n)
{
	for (unsigned level = 0; level < n->levels; level++) {
		struct delta_node *before = d->finger[level];

		*(before ? &before->next[level] : &d->head[level]) = n->next[level];
	}
	d->count--;
}

/* Nothing here asks for memory: for a copy all of it was reserved, else the chunks have changed hands. */
static void absorb_node(struct delta *into, struct delta_node *n, bool copy)
{
	const struct delta_entry *e = &n->entry;
	struct delta_node *there = seek_near(into, e->tree, e->key);
	bool is_new = !there || place_compare(&there->entry, e->tree, e->key) != 0;
	bool kills = !is_new && replacing_kills(&there->entry, e->value, e->bytes);

	if (copy && !is_new && !kills && e->bytes <= there->value_room) {
		if (e->bytes > 0)
			memcpy((uint8_t *)there->entry.value, e->value, e->bytes);
		there->entry.bytes = e->bytes;
		return;
	}
	if (copy) {
		n = node_make(into, n->levels, e->tree, e->key, e->value, e->bytes);
		sp_assert(n != NULL);
	}
	if (!is_new)
		unlink_node(into, there);
	if (kills) {
		const struct delta_entry was = there->entry;

		dead_link(into, (struct delta_dead *)(void *)there, was.tree, was.value);
	}
	link_node(into, n);
}

static void absorb_dead(struct delta *into, struct delta *from, bool copy)
{
	if (!from->dead)
		return;
	if (!copy) {
		*into->dead_end = from->dead;
		into->dead_end = from->dead_end;
		into->dead_count += from->dead_count;
		return;
	}
	for (const struct delta_dead *dead = from->dead; dead; dead = dead->next) {
		struct delta_dead *new = arena_take(into, sizeof *new + BP_BYTES);

		sp_assert(new != NULL);
		memcpy(new + 1, dead->bp, BP_BYTES);
		dead_link(into, new, dead->tree, (uint8_t *)(new + 1));
	}
}

void delta_absorb(struct delta *into, struct delta *from)
{
	bool copy = from->used_bytes <= COPY_BYTES_MAX && into->chunks && arena_reserve(into, from->used_bytes);

	if (!copy && into->chunks) {
		into->chunks_last->next = from->chunks;
		into->chunks_last = from->chunks ? from->chunks_last : into->chunks_last;
	} else if (!copy) {
		into->chunks = from->chunks;
		into->chunks_last = from->chunks_last;
	}
	for (struct delta_node *n = from->head[0], *next; n; n = next) {
		next = n->next[0];
		absorb_node(into, n, copy);
	}
	absorb_dead(into, from, copy);
	if (copy) {
		arena_free(from);
	} else {
		into->bytes += from->bytes - sizeof *from;
		into->used_bytes += from->used_bytes;
	}
	delta_reset(from);
}
