/*
 * Trees against a sorted array: random changes, sizes and deletes, old roots that stay what they were, every piece of
 * space accounted for, every operation failing once.
 */
#include "tree.h"
#include "tree_world.h"

#define TREE 17u

struct item {
	struct key key;
	uint32_t bytes;
	uint32_t seed; /* of the value */
};

struct model {
	struct item *items;
	size_t count;
};

static void fill_value(uint32_t seed, uint32_t bytes, uint8_t *value)
{
	for (uint32_t i = 0; i < bytes; i++)
		value[i] = (uint8_t)(seed * 2654435761u >> 13) + (uint8_t)i;
}

static size_t model_place(const struct model *m, struct key key)
{
	size_t low = 0, high = m->count;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (key_compare(m->items[mid].key, key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The changes, sorted, no key twice; bytes 0 deletes. */
static struct model model_merge(const struct model *m, const struct item *changes, size_t count)
{
	struct model new = {.items = malloc((m->count + count + 1) * sizeof *new.items)};
	size_t at = 0;

	for (size_t i = 0; i < count; i++) {
		while (at < m->count && key_compare(m->items[at].key, changes[i].key) < 0)
			new.items[new.count++] = m->items[at++];
		if (at < m->count && key_compare(m->items[at].key, changes[i].key) == 0)
			at++;
		if (changes[i].bytes)
			new.items[new.count++] = changes[i];
	}
	while (at < m->count)
		new.items[new.count++] = m->items[at++];
	return new;
}

struct walk {
	const struct model *m;
	size_t at, left;
};

static bool walk_item(void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct walk *w = arg;
	uint8_t expected[TREE_VALUE_MAX];
	const struct item *i = &w->m->items[w->at++];

	assert_int_equal(key_compare(key, i->key), 0);
	assert_int_equal(bytes, i->bytes);
	fill_value(i->seed, i->bytes, expected);
	assert_memory_equal(value, expected, bytes);
	return --w->left > 0;
}

static void compare(struct world *w, const struct bp *root, const struct model *m, struct key from, size_t limit)
{
	struct walk walk = {.m = m, .at = model_place(m, from), .left = limit};
	size_t start = walk.at;
	struct error err = ERROR_INIT;

	if (tree_walk(w->p, root, TREE, from, walk_item, &walk, &err))
		fail_msg("%s", err.text);
	assert_int_equal(walk.at, min_of(m->count, start + limit));
}

/* --- shape: TREE-1 to TREE-4 -------------------------------------------------------------------------------------- */

struct shape {
	unsigned nodes, leaves, thin;
	struct key last;
	bool any;
};

static void shape_of(
	struct world *w, const struct bp *bp, bool left_edge, bool is_root, struct key first, struct shape *s)
{
	struct node *n;
	const uint8_t *bytes;
	struct error err = ERROR_INIT;

	for (unsigned c = 0; c < bp->copies; c++)
		assert_int_equal(w->pieces[bp->copy[c].disk][bp->copy[c].unit / PIECE_UNITS], PIECE_USED);
	if (node_get(w->p, bp, TREE, bp->level, &n, &err))
		fail_msg("%s", err.text);
	bytes = node_bytes(n);
	s->nodes++;
	assert_true(node_items(bytes) > 0);
	assert_true(!is_root || bp->level == 0 || node_items(bytes) > 1);
	if (!is_root)
		assert_int_equal(key_compare(item_key(bytes + NODE_HEAD_BYTES), first), 0);
	if (!is_root && !left_edge && node_used(bytes) < NODE_BYTES / 3)
		s->thin++;
	if (bp->level == 0) {
		s->leaves++;
		if (s->any)
			assert_true(key_compare(s->last, item_key(bytes + NODE_HEAD_BYTES)) < 0);
		s->any = true;
		for (uint32_t at = NODE_HEAD_BYTES; at < node_used(bytes); at += leaf_item_bytes(bytes + at))
			s->last = item_key(bytes + at);
	}
	for (unsigned i = 0; bp->level > 0 && i < node_items(bytes); i++) {
		struct bp child;

		assert_int_equal(inner_child(inner_item(bytes, i), TREE, bp->level, &child, NULL), 0);
		shape_of(w, &child, left_edge && i == 0, false, item_key(inner_item(bytes, i)), s);
	}
	node_put(w->p, n);
}

static struct shape check_shape(struct world *w, const struct bp *root)
{
	struct shape s = {0};

	if (root->kind == BP_HOLE)
		return s;
	shape_of(w, root, true, true, (struct key){0, 0}, &s);
	assert_int_equal(s.thin, 0);
	/* nothing allotted that is not reachable */
	assert_int_equal(world_used(w), s.nodes * w->copies);
	return s;
}

/* --- random changes ----------------------------------------------------------------------------------------------- */

struct old_values {
	const struct model *m;
	size_t count;
};

static void old_value(void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct old_values *o = arg;
	size_t at = model_place(o->m, key);
	uint8_t expected[TREE_VALUE_MAX];

	assert_true(at < o->m->count && key_compare(o->m->items[at].key, key) == 0);
	assert_int_equal(bytes, o->m->items[at].bytes);
	fill_value(o->m->items[at].seed, bytes, expected);
	assert_memory_equal(value, expected, bytes);
	o->count++;
}

enum sizes { SIZES_POINTERS, SIZES_TINY, SIZES_MIXED, SIZES_HUGE };

static uint32_t draw_bytes(struct random *r, enum sizes sizes)
{
	switch (sizes) {
	case SIZES_POINTERS:
		return BP_BYTES;
	case SIZES_TINY:
		return 1 + (uint32_t)random_below(r, 8);
	case SIZES_HUGE:
		return TREE_VALUE_MAX - (uint32_t)random_below(r, 1200);
	default:
		return random_below(r, 20) == 0 ? 1 + (uint32_t)random_below(r, TREE_VALUE_MAX)
						: 1 + (uint32_t)random_below(r, 200);
	}
}

static int item_order(const void *x, const void *y)
{
	return key_compare(((const struct item *)x)->key, ((const struct item *)y)->key);
}

/* `deletes` of 16; keys below `range`, a stretch of them now and then. */
static size_t draw_changes(struct random *r, struct item *changes, size_t wanted, uint64_t range, unsigned deletes,
	enum sizes sizes, bool dense)
{
	size_t count = 0;
	struct key key = {random_below(r, range), 0};

	for (size_t i = 0; i < wanted; i++) {
		if (dense)
			key.a = (key.a + 1) % range;
		else
			key = (struct key){random_below(r, range), random_below(r, 8) == 0 ? random_below(r, 3) : 0};
		changes[i] = (struct item){.key = key,
			.seed = (uint32_t)random_u64(r),
			.bytes = random_below(r, 16) < deletes ? 0 : draw_bytes(r, sizes)};
	}
	qsort(changes, wanted, sizeof *changes, item_order);
	for (size_t i = 0; i < wanted; i++)
		if (count == 0 || key_compare(changes[count - 1].key, changes[i].key) != 0)
			changes[count++] = changes[i];
	return count;
}

static int update(struct world *w, struct bp *root, const struct item *items, size_t count, uint64_t birth,
	const struct model *m, size_t *ret_old, struct error *err)
{
	struct tree_change *changes = calloc(count + 1, sizeof *changes);
	struct old_values old = {.m = m};
	size_t bytes = 0, at = 0;
	uint8_t *values;
	int rc;

	for (size_t i = 0; i < count; i++)
		bytes += items[i].bytes;
	values = malloc(bytes + 1);
	for (size_t i = 0; i < count; i++) {
		fill_value(items[i].seed, items[i].bytes, values + at);
		changes[i] = (struct tree_change){.key = items[i].key, .value = values + at, .bytes = items[i].bytes};
		at += items[i].bytes;
	}
	rc = tree_update(w->p, root, TREE, changes, count, birth, old_value, &old, err);
	free(values);
	free(changes);
	if (ret_old)
		*ret_old = old.count;
	return rc;
}

static size_t count_old(const struct model *m, const struct item *items, size_t count)
{
	size_t ret = 0;

	for (size_t i = 0; i < count; i++) {
		size_t at = model_place(m, items[i].key);

		ret += at < m->count && key_compare(m->items[at].key, items[i].key) == 0;
	}
	return ret;
}

static void random_tree(uint64_t seed, unsigned rounds)
{
	struct world w;
	struct random r;
	struct model m = {0};
	struct bp root = {.kind = BP_HOLE};
	struct item *changes = malloc(6000 * sizeof *changes);
	enum sizes sizes;
	uint64_t range;

	random_seed(&r, seed);
	sizes = (enum sizes)random_below(&r, 4);
	range = sizes == SIZES_HUGE ? 400 : 1 + random_below(&r, 30000);
	world_open(&w, 3, 1 + (unsigned)random_below(&r, 3), 48u << 20, random_below(&r, 2) ? 256u << 20 : 0);
	w.extent_max = 1 + (unsigned)random_below(&r, 64);
	for (unsigned round = 0; round < rounds; round++) {
		static const unsigned deletes[] = {0, 2, 4, 8, 14, 16};
		size_t wanted = random_below(&r, 3) == 0 ? random_below(&r, 6000) : random_below(&r, 40), old;
		size_t count = draw_changes(&r, changes, wanted, range, deletes[random_below(&r, array_count(deletes))],
			sizes, random_below(&r, 3) == 0);
		struct model next = model_merge(&m, changes, count);
		struct bp before = root;
		struct error err = ERROR_INIT;

		if (update(&w, &root, changes, count, round + 1, &m, &old, &err))
			fail_msg("seed %llu round %u: %s", (unsigned long long)seed, round, err.text);
		assert_int_equal(old, count_old(&m, changes, count));
		check_shape(&w, &root);
		compare(&w, &root, &next, (struct key){0, 0}, SIZE_MAX);
		compare(&w, &root, &next, (struct key){random_below(&r, range), random_below(&r, 2)},
			1 + random_below(&r, 300));
		if (random_below(&r, 4) == 0) { /* the old root is the old tree, also when nothing is cached */
			node_cache_drop(w.p);
			compare(&w, &before, &m, (struct key){0, 0}, SIZE_MAX);
		}
		for (unsigned i = 0; i < 20; i++) {
			uint8_t value[TREE_VALUE_MAX], expected[TREE_VALUE_MAX];
			uint32_t bytes;
			struct key key = {random_below(&r, range + 1), 0};
			size_t at = model_place(&next, key);
			int rc = tree_lookup(w.p, &root, TREE, key, value, sizeof value, &bytes, NULL);

			if (at == next.count || key_compare(next.items[at].key, key) != 0) {
				assert_int_equal(rc, ERR_NOT_FOUND);
				continue;
			}
			assert_int_equal(rc, 0);
			assert_int_equal(bytes, next.items[at].bytes);
			fill_value(next.items[at].seed, bytes, expected);
			assert_memory_equal(value, expected, bytes);
		}
		world_release_dead(&w);
		free(m.items);
		m = next;
	}
	/* all of it away: no node is left */
	changes = realloc(changes, (m.count + 1) * sizeof *changes);
	memcpy(changes, m.items, m.count * sizeof *changes);
	for (size_t i = 0; i < m.count; i++)
		changes[i].bytes = 0;
	assert_int_equal(update(&w, &root, changes, m.count, rounds + 1, &m, NULL, NULL), 0);
	assert_int_equal(root.kind, BP_HOLE);
	assert_int_equal(world_used(&w), 0);
	free(m.items);
	free(changes);
	world_close(&w);
}

static unsigned seeds(unsigned usual)
{
	const char *text = getenv("SPINDLE_SEEDS");

	return text ? (unsigned)strtoul(text, NULL, 10) : usual;
}

static void test_against_model(void **state)
{
	for (uint64_t seed = 1; seed <= seeds(24); seed++)
		random_tree(seed, 12);
}

static int simulated(void *arg)
{
	random_tree(*(uint64_t *)arg, 6);
	return 0;
}

static void test_in_virtual_time(void **state)
{
	for (uint64_t seed = 101; seed <= 100 + seeds(24) / 6; seed++) {
		struct os_simulation s;
		struct error err = ERROR_INIT;

		os_simulation_init(&s, seed);
		if (os_simulate(&s, simulated, &seed, &err))
			fail_msg("%s", err.text);
	}
}

/* Appending in order fills nodes; deleting from the left or everywhere shrinks the tree. */
static void test_shape(void **state)
{
	struct world w;
	struct model m = {0};
	struct bp root = {.kind = BP_HOLE};
	struct item *changes = malloc(40000 * sizeof *changes);
	struct shape s;
	struct random r;

	random_seed(&r, 3);
	world_open(&w, 2, 2, 96u << 20, 256u << 20);
	for (unsigned round = 0; round < 40; round++) {
		for (unsigned i = 0; i < 1000; i++)
			changes[i] = (struct item){.key = {round * 1000 + i, 0}, .bytes = BP_BYTES};
		assert_int_equal(update(&w, &root, changes, 1000, round + 1, &m, NULL, NULL), 0);
	}
	s = check_shape(&w, &root);
	assert_true(s.leaves <= 40000 / 199 + 2); /* not one leaf more than full ones need */
	m.items = calloc(40000, sizeof *m.items);
	m.count = 40000;
	for (unsigned i = 0; i < 40000; i++)
		m.items[i] = (struct item){.key = {i, 0}, .bytes = BP_BYTES};
	/* nineteen of twenty go, everywhere */
	size_t count = 0, kept = 0;
	for (unsigned i = 0; i < 40000; i++)
		if (i % 20)
			changes[count++] = (struct item){.key = {i, 0}};
	assert_int_equal(update(&w, &root, changes, count, 50, &m, NULL, NULL), 0);
	s = check_shape(&w, &root);
	assert_true(s.leaves <= 2000 / 199 + 2);
	/* in many small steps as well */
	for (unsigned i = 0; i < 40000; i += 20)
		m.items[kept++] = (struct item){.key = {i, 0}, .bytes = BP_BYTES};
	m.count = kept;
	for (unsigned step = 0; m.count > 100; step++) {
		size_t n = 1 + random_below(&r, 3), at = 0;
		struct model next;

		for (size_t i = 0; i < n; i++)
			changes[i] = (struct item){.key = m.items[random_below(&r, m.count)].key};
		qsort(changes, n, sizeof *changes, item_order);
		for (size_t i = 0; i < n; i++)
			if (at == 0 || key_compare(changes[at - 1].key, changes[i].key) != 0)
				changes[at++] = changes[i];
		next = model_merge(&m, changes, at);
		assert_int_equal(update(&w, &root, changes, at, 60 + step, &m, NULL, NULL), 0);
		free(m.items);
		m = next;
		if (step % 50 == 0)
			check_shape(&w, &root);
		world_release_dead(&w);
	}
	s = check_shape(&w, &root);
	assert_true(s.nodes <= 4);
	free(m.items);
	free(changes);
	world_close(&w);
}

/* Changes that change nothing write next to nothing. */
static void test_nothing_changes(void **state)
{
	struct world w;
	struct model m = {0};
	struct bp root = {.kind = BP_HOLE};
	struct item *changes = malloc(20000 * sizeof *changes);
	struct pool_counters before, after;

	world_open(&w, 2, 2, 96u << 20, 256u << 20);
	m.items = calloc(20000, sizeof *m.items);
	for (unsigned i = 0; i < 20000; i++)
		changes[i] = m.items[i] = (struct item){.key = {2 * i, 0}, .bytes = BP_BYTES, .seed = i};
	assert_int_equal(update(&w, &root, changes, 20000, 1, &m, NULL, NULL), 0);
	m.count = 20000;
	for (unsigned i = 0; i < 20000; i++)
		if (i % 2)
			changes[i] = (struct item){.key = {2 * i + 1, 0}}; /* was never there */
	memset(&before, 0, sizeof before);
	node_counters(w.p, &before);
	assert_int_equal(update(&w, &root, changes, 20000, 2, &m, NULL, NULL), 0);
	memset(&after, 0, sizeof after);
	node_counters(w.p, &after);
	assert_true(after.nodes_written - before.nodes_written <= 2);
	compare(&w, &root, &m, (struct key){0, 0}, SIZE_MAX);
	check_shape(&w, &root);
	free(m.items);
	free(changes);
	world_close(&w);
}

/* Every read and write of an update fails once, for good or in passing; every allotment too. */
static void fail_everywhere(unsigned copies, bool sticky, bool allots)
{
	struct model m = {0};
	struct item *first = malloc(3000 * sizeof *first), *changes = malloc(400 * sizeof *changes);
	struct random r;
	size_t first_count, count;
	unsigned failures = 0, survived = 0;

	random_seed(&r, copies);
	first_count = draw_changes(&r, first, 3000, 9000, 0, SIZES_MIXED, false);
	count = draw_changes(&r, changes, 400, 9000, 6, SIZES_MIXED, false);
	struct model before = model_merge(&m, first, first_count), after = model_merge(&before, changes, count);

	for (uint64_t at = 1;; at++) {
		struct world w;
		struct bp root = {.kind = BP_HOLE}, old;
		struct error err = ERROR_INIT;
		unsigned used;
		int rc;

		world_open(&w, 3, copies, 48u << 20, 0);
		w.extent_max = 3;
		w.gap = 1;
		assert_int_equal(update(&w, &root, first, first_count, 1, &m, NULL, NULL), 0);
		old = root;
		used = world_used(&w);
		node_cache_drop(w.p);
		w.operations = 0;
		w.sticky = sticky;
		if (allots)
			w.allot_fail_at = at;
		else
			w.fail_at = at;
		rc = update(&w, &root, changes, count, 2, &before, NULL, &err);
		bool met = allots ? w.allots >= at : w.failed > 0;
		w.fail_at = w.allot_fail_at = 0;
		for (unsigned d = 0; d < w.disk_count; d++)
			w.p->disks[d].state = PD_ONLINE;
		node_cache_drop(w.p);
		if (rc) {
			failures++;
			assert_true(err.text[0] != 0);
			assert_memory_equal(&root, &old, sizeof root);
			assert_int_equal(world_used(&w), used);
			compare(&w, &root, &before, (struct key){0, 0}, SIZE_MAX);
			/* and it goes well the next time */
			assert_int_equal(update(&w, &root, changes, count, 2, &before, NULL, NULL), 0);
		} else {
			survived += met;
		}
		compare(&w, &root, &after, (struct key){0, 0}, SIZE_MAX);
		check_shape(&w, &root);
		world_close(&w);
		if (!met)
			break;
	}
	printf("%u copies, sticky %d, allots %d: %u failures, %u survived\n", copies, sticky, allots, failures,
		survived);
	assert_true(failures + survived > 10);
	if (copies > 1 && !sticky && !allots)
		assert_int_equal(failures, 0); /* one bad operation costs a copy, never the update */
	else
		assert_true(failures > 0);
	free(before.items);
	free(after.items);
	free(first);
	free(changes);
}

static void test_every_operation_fails(void **state)
{
	fail_everywhere(1, false, false);
	fail_everywhere(2, false, false);
	fail_everywhere(2, true, false);
	fail_everywhere(2, false, true);
}

/* A disk that went away in the middle costs copies only. */
static void test_disk_gone(void **state)
{
	struct world w;
	struct model m = {0};
	struct bp root = {.kind = BP_HOLE};
	struct item *changes = malloc(2000 * sizeof *changes);
	struct random r;
	size_t count;

	random_seed(&r, 5);
	world_open(&w, 3, 2, 48u << 20, 0);
	count = draw_changes(&r, changes, 2000, 9000, 0, SIZES_POINTERS, false);
	w.fail_status = ERR_GONE;
	w.fail_at = 2;
	assert_int_equal(update(&w, &root, changes, count, 1, &m, NULL, NULL), 0);
	assert_int_equal(w.p->disks[0].state == PD_FAULTED || w.p->disks[1].state == PD_FAULTED ||
				 w.p->disks[2].state == PD_FAULTED,
		1);
	m = model_merge(&m, changes, count);
	node_cache_drop(w.p);
	compare(&w, &root, &m, (struct key){0, 0}, SIZE_MAX);
	free(m.items);
	free(changes);
	world_close(&w);
}

static uint64_t cpu_ns(void)
{
	struct os_cpu_usage u;

	os_cpu_usage(&u);
	return u.process_ns;
}

/* The figures of docs/pool.md: a fold of random changes on a large tree in memory. */
static void test_figures(void **state)
{
	struct world w;
	bool soak = getenv("SPINDLE_SOAK") != NULL;
	size_t records = soak ? 4000000 : 200000, count = soak ? 400000 : 20000, at = 0;
	struct tree_change *changes = malloc(records * sizeof *changes);
	struct bp root = {.kind = BP_HOLE};
	struct pool_counters c0, c1;
	uint8_t value[BP_BYTES] = {BP_DATA, 1, 2, 3}, other[BP_BYTES] = {BP_DATA, 9};
	struct random r;
	struct error err = ERROR_INIT;

	random_seed(&r, 1);
	world_open(&w, 4, 2, (soak ? 400ull : 32ull) << 20, soak ? 64ull << 20 : 0);
	for (size_t i = 0; i < records; i++)
		changes[i] = (struct tree_change){.key = {i, 0}, .value = value, .bytes = BP_BYTES};
	uint64_t t0 = cpu_ns();
	if (tree_update(w.p, &root, TREE, changes, records, 1, NULL, NULL, &err))
		fail_msg("%s", err.text);
	uint64_t t1 = cpu_ns();
	for (size_t i = 0; i < records; i++) /* one in ten, at random */
		if (random_below(&r, records - i) < count - at)
			changes[at++] = (struct tree_change){.key = {i, 0}, .value = other, .bytes = BP_BYTES};
	/* once so that the memory of the disks is there, and once more to measure */
	assert_int_equal(tree_update(w.p, &root, TREE, changes, count, 2, NULL, NULL, NULL), 0);
	world_release_dead(&w);
	memset(w.next, 0, sizeof w.next);
	for (size_t i = 0; i < count; i++)
		changes[i].value = value;
	memset(&c0, 0, sizeof c0);
	node_counters(w.p, &c0);
	uint64_t t2 = cpu_ns();
	if (tree_update(w.p, &root, TREE, changes, count, 3, NULL, NULL, &err))
		fail_msg("%s", err.text);
	uint64_t t3 = cpu_ns();
	memset(&c1, 0, sizeof c1);
	node_counters(w.p, &c1);
	printf("%zu records built: %.0f ns of CPU each. %zu random changes, cold: %.0f ns each, %llu nodes read, %llu "
	       "written (tree: %zu leaves)\n",
		records, (double)(t1 - t0) / (double)records, count, (double)(t3 - t2) / (double)count,
		(unsigned long long)(c1.nodes_read - c0.nodes_read),
		(unsigned long long)(c1.nodes_written - c0.nodes_written), (records + 198) / 199);
	free(changes);
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shape),
		cmocka_unit_test(test_against_model),
		cmocka_unit_test(test_in_virtual_time),
		cmocka_unit_test(test_nothing_changes),
		cmocka_unit_test(test_every_operation_fails),
		cmocka_unit_test(test_disk_gone),
		cmocka_unit_test(test_figures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
