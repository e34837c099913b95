/* The delta against a sorted array: random puts, deletes, absorbs; the dead are exactly the data pointers that were
 * replaced. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "internal.h"

#define MODEL_MAX 4096
#define VALUE_MAX 6000

struct item {
	uint64_t tree;
	struct key key;
	uint32_t bytes;
	uint8_t value[VALUE_MAX];
};
struct model {
	size_t count;
	struct item *items[MODEL_MAX];
	struct {
		uint64_t tree, run;
		uint32_t stripe;
	} dead[MODEL_MAX * 8];
	size_t dead_count;
};

static int item_compare(const struct item *i, uint64_t tree, struct key key)
{
	return i->tree != tree ? (i->tree < tree ? -1 : 1) : key_compare(i->key, key);
}

static size_t model_place(const struct model *m, uint64_t tree, struct key key)
{
	size_t low = 0, high = m->count;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (item_compare(m->items[mid], tree, key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool is_data(uint64_t tree, const uint8_t *value, uint32_t bytes)
{
	return tree >= TREE_DATASET_FIRST && bytes == BP_BYTES && value[0] == BP_DATA;
}

static void model_put(struct model *m, uint64_t tree, struct key key, const uint8_t *value, uint32_t bytes)
{
	size_t at = model_place(m, tree, key);
	struct item *i;

	if (at < m->count && item_compare(m->items[at], tree, key) == 0) {
		struct bp was, is = {0};

		i = m->items[at];
		if (is_data(tree, i->value, i->bytes)) {
			assert_int_equal(bp_unpack(i->value, &was, NULL), 0);
			if (is_data(tree, value, bytes))
				assert_int_equal(bp_unpack(value, &is, NULL), 0);
			if (is.kind != BP_DATA || is.run != was.run || is.stripe != was.stripe ||
				is.column != was.column) {
				m->dead[m->dead_count].tree = tree;
				m->dead[m->dead_count].run = was.run;
				m->dead[m->dead_count++].stripe = was.stripe;
			}
		}
	} else {
		assert_true(m->count < MODEL_MAX);
		memmove(&m->items[at + 1], &m->items[at], (m->count - at) * sizeof m->items[0]);
		m->count++;
		i = m->items[at] = calloc(1, sizeof *i);
		i->tree = tree;
		i->key = key;
	}
	i->bytes = bytes;
	if (bytes > 0)
		memcpy(i->value, value, bytes);
}

static void model_clear(struct model *m)
{
	for (size_t i = 0; i < m->count; i++)
		free(m->items[i]);
	m->count = m->dead_count = 0;
}

struct walk {
	const struct model *m;
	size_t at, dead;
};

static void walk_entry(void *arg, const struct delta_entry *e)
{
	struct walk *w = arg;
	const struct item *i = w->m->items[w->at++];

	assert_int_equal(item_compare(i, e->tree, e->key), 0);
	assert_int_equal(i->bytes, e->bytes);
	assert_memory_equal(i->value, e->value, e->bytes);
}

static int dead_compare(const void *x, const void *y)
{
	return memcmp(x, y, 2 * sizeof(uint64_t) + sizeof(uint32_t));
}

static void walk_dead(void *arg, uint64_t tree, const struct bp *bp)
{
	struct model *found = arg;

	found->dead[found->dead_count].tree = tree;
	found->dead[found->dead_count].run = bp->run;
	found->dead[found->dead_count++].stripe = bp->stripe;
}

static void compare(const struct delta *d, struct model *m)
{
	struct walk w = {.m = m};
	struct model *found = calloc(1, sizeof *found);

	assert_int_equal(delta_count(d), m->count);
	delta_walk(d, walk_entry, &w);
	assert_int_equal(w.at, m->count);
	delta_walk_dead(d, walk_dead, found);
	assert_int_equal(found->dead_count, m->dead_count);
	qsort(found->dead, found->dead_count, sizeof found->dead[0], dead_compare);
	qsort(m->dead, m->dead_count, sizeof m->dead[0], dead_compare);
	for (size_t i = 0; i < m->dead_count; i++)
		assert_int_equal(dead_compare(&found->dead[i], &m->dead[i]), 0);
	free(found);
}

static uint32_t draw_value(struct random *r, uint64_t next_run, uint8_t *value)
{
	static const uint32_t sizes[] = {0, 0, 1, 7, 16, 40, 64, 65, 200, 5120};
	uint32_t bytes;

	if (random_below(r, 4) != 0) {
		struct bp bp = {.kind = BP_DATA,
			.logical_bytes = 4096,
			.physical_bytes = 4096,
			.birth = 3,
			.run = next_run % 977 + 1,
			.stripe = (uint32_t)(next_run % 64)};

		bp_pack(&bp, value);
		return BP_BYTES;
	}
	bytes = sizes[random_below(r, array_count(sizes))];
	random_fill(r, value, bytes);
	if (bytes == BP_BYTES)
		value[0] = BP_INLINE;
	return bytes;
}

static struct key draw_key(struct random *r, uint64_t range)
{
	return (struct key){random_below(r, range), random_below(r, 4) == 0 ? random_below(r, 3) : 0};
}

static void fill(struct random *r, struct delta *d, struct model *m, unsigned puts, uint64_t range, uint64_t *next_run)
{
	static uint8_t value[VALUE_MAX];
	struct key key = {0};

	for (unsigned i = 0; i < puts; i++) {
		uint64_t tree = random_below(r, 3) == 0 ? random_below(r, 5) : 16 + random_below(r, 2);
		uint32_t bytes = draw_value(r, ++*next_run, value);

		if (random_below(r, 3) == 0) /* a stream now and then */
			key.a++;
		else
			key = draw_key(r, range);
		assert_int_equal(delta_put(d, tree, key, value, bytes, NULL), 0);
		model_put(m, tree, key, value, bytes);
	}
}

static void test_against_model(void **state)
{
	struct model *m = calloc(1, sizeof *m);
	uint64_t next_run = 0;

	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct random r;
		struct delta *d;

		random_seed(&r, seed);
		assert_int_equal(delta_open(&d, NULL), 0);
		fill(&r, d, m, 1 + (unsigned)random_below(&r, 1500), 1 + random_below(&r, 600), &next_run);
		compare(d, m);
		for (unsigned i = 0; i < 300; i++) {
			uint64_t tree = random_below(&r, 19);
			struct key key = draw_key(&r, 600);
			size_t at = model_place(m, tree, key);
			bool is_there = at < m->count && item_compare(m->items[at], tree, key) == 0;
			const struct delta_entry *e = delta_find(d, tree, key);

			assert_int_equal(e != NULL, is_there);
			e = delta_at_or_after(d, tree, key);
			assert_int_equal(e != NULL, at < m->count && m->items[at]->tree == tree);
			if (e)
				assert_int_equal(key_compare(e->key, m->items[at]->key), 0);
		}
		delta_close(d);
		model_clear(m);
	}
	free(m);
}

/* Many commits, small and large, into one: the later one wins, nobody's dead get lost. */
static void test_absorb(void **state)
{
	struct model *m = calloc(1, sizeof *m);
	uint64_t next_run = 0;

	for (uint64_t seed = 1; seed <= 30; seed++) {
		struct random r;
		struct delta *all, *next;

		random_seed(&r, seed);
		assert_int_equal(delta_open(&all, NULL), 0);
		assert_int_equal(delta_open(&next, NULL), 0);
		for (unsigned commit = 0; commit < 20; commit++) {
			unsigned puts = random_below(&r, 3) == 0 ? (unsigned)random_below(&r, 700)
								 : (unsigned)random_below(&r, 6);

			fill(&r, next, m, puts, 300, &next_run);
			delta_absorb(all, next);
			assert_int_equal(delta_count(next), 0);
			assert_null(delta_find(next, 16, (struct key){1, 0}));
			compare(all, m);
		}
		delta_close(all);
		delta_close(next);
		model_clear(m);
	}
	free(m);
}

static void test_same_column_is_not_dead(void **state)
{
	struct delta *d, *other;
	struct bp bp = {
		.kind = BP_DATA, .logical_bytes = 4096, .physical_bytes = 4096, .birth = 3, .run = 9, .stripe = 2};
	struct model *found = calloc(1, sizeof *found);
	uint8_t value[BP_BYTES];

	assert_int_equal(delta_open(&d, NULL), 0);
	assert_int_equal(delta_open(&other, NULL), 0);
	bp_pack(&bp, value);
	for (int i = 0; i < 2; i++)
		assert_int_equal(delta_put(d, 16, (struct key){5, 0}, value, BP_BYTES, NULL), 0);
	bp.hint.unit = 77;
	bp_pack(&bp, value);
	assert_int_equal(delta_put(other, 16, (struct key){5, 0}, value, BP_BYTES, NULL), 0);
	delta_absorb(d, other);
	delta_walk_dead(d, walk_dead, found);
	assert_int_equal(found->dead_count, 0);
	/* and a tree of our own has no columns */
	assert_int_equal(delta_put(d, TREE_DEAD, (struct key){5, 0}, value, BP_BYTES, NULL), 0);
	assert_int_equal(delta_put(d, TREE_DEAD, (struct key){5, 0}, NULL, 0, NULL), 0);
	delta_walk_dead(d, walk_dead, found);
	assert_int_equal(found->dead_count, 0);
	delta_close(d);
	delta_close(other);
	free(found);
}

/* What it holds is what it says, and not much more than the entries need, also after very many small commits. */
static void test_memory(void **state)
{
	struct delta *all, *next;
	struct bp bp = {.kind = BP_DATA, .logical_bytes = 4096, .physical_bytes = 4096, .birth = 3, .run = 9};
	uint8_t value[BP_BYTES];
	uint64_t empty;

	bp_pack(&bp, value);
	assert_int_equal(delta_open(&all, NULL), 0);
	assert_int_equal(delta_open(&next, NULL), 0);
	empty = delta_bytes(next);
	for (uint64_t i = 0; i < 20000; i++) {
		assert_int_equal(delta_put(next, 16, (struct key){i * 7919 % 20000, 0}, value, BP_BYTES, NULL), 0);
		assert_true(delta_bytes(next) > empty);
		delta_absorb(all, next);
		assert_int_equal(delta_bytes(next), empty);
	}
	assert_int_equal(delta_count(all), 20000);
	assert_true(delta_bytes(all) < 20000 * 200);
	delta_close(all);
	delta_close(next);
}

/* Half a million random pointers, for the figure of docs; correctness only in what it counts. */
static void test_half_a_million(void **state)
{
	struct delta *d;
	struct bp bp = {.kind = BP_DATA, .logical_bytes = 4096, .physical_bytes = 4096, .birth = 3, .run = 9};
	uint8_t value[BP_BYTES];
	unsigned count = getenv("SPINDLE_SOAK") ? 500000 : 50000;
	struct random r;
	uint64_t t0, t1, t2, found = 0;

	bp_pack(&bp, value);
	random_seed(&r, 1);
	assert_int_equal(delta_open(&d, NULL), 0);
	t0 = os_real_now_ns();
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(
			delta_put(d, 16, (struct key){random_u64(&r) % (1u << 22), 0}, value, BP_BYTES, NULL), 0);
	t1 = os_real_now_ns();
	for (unsigned i = 0; i < count; i++)
		found += delta_find(d, 16, (struct key){random_u64(&r) % (1u << 22), 0}) != NULL;
	t2 = os_real_now_ns();
	assert_true(found < count);
	printf("%u random puts: %.0f ns each, finds %.0f ns, %.0f bytes an entry\n", count, (double)(t1 - t0) / count,
		(double)(t2 - t1) / count, (double)delta_bytes(d) / (double)delta_count(d));
	delta_close(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_model),
		cmocka_unit_test(test_absorb),
		cmocka_unit_test(test_same_column_is_not_dead),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_half_a_million),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
