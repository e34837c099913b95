/*
 * Nodes: any good copy will do, bad ones are mended, one read serves all who wait, the cache stays within its cap and a
 * walk does not push out what is in use.
 */
#include "node.h"
#include "tree_world.h"

#define TREE 16u

/* A leaf with one item whose value is `number`. */
static void leaf_make(uint8_t *bytes, uint64_t birth, uint32_t number)
{
	struct node_head h = {.level = 0, .items = 1, .tree = TREE, .birth = birth, .bytes = NODE_HEAD_BYTES + 18 + 4};

	memset(bytes, 0, NODE_BYTES);
	node_head_pack(&h, bytes);
	put_le64(bytes + NODE_HEAD_BYTES, number);
	put_le16(bytes + NODE_HEAD_BYTES + 16, 4);
	put_le32(bytes + NODE_HEAD_BYTES + 18, number);
}

static uint32_t leaf_number(const struct node *n)
{
	return get_le32(node_bytes(n) + NODE_HEAD_BYTES + 18);
}

/* `count` leaves in rows; their pointers. */
static struct bp *write_leaves(struct world *w, unsigned count)
{
	struct bp *bps = calloc(count, sizeof *bps);
	struct node_write *writes = calloc(count, sizeof *writes);
	struct meta_extent e = {0};
	uint8_t *bytes = NULL;
	uint32_t used = 0;
	struct error err = ERROR_INIT;

	assert_int_equal(posix_memalign((void **)&bytes, 4096, (size_t)count * NODE_BYTES), 0);
	for (unsigned i = 0; i < count; i++) {
		struct bp *bp = &bps[i];

		if (used == e.count) {
			assert_int_equal(space_allot_meta(w->p, 64, &e, NULL), 0);
			used = 0;
		}
		*bp = (struct bp){.kind = BP_NODE,
			.logical_bytes = NODE_BYTES,
			.physical_bytes = NODE_BYTES,
			.birth = 5,
			.copies = e.copies};
		for (unsigned c = 0; c < e.copies; c++)
			bp->copy[c] = (struct disk_address){e.copy[c].disk, e.copy[c].unit + used * PIECE_UNITS};
		used++;
		leaf_make(bytes + (size_t)i * NODE_BYTES, 5, i);
		node_seal(w->p, bp, TREE, bytes + (size_t)i * NODE_BYTES);
		writes[i] = (struct node_write){.bp = *bp, .bytes = bytes + (size_t)i * NODE_BYTES, .tree = TREE};
	}
	if (nodes_write(w->p, writes, count, &err))
		fail_msg("%s", err.text);
	free(writes);
	free(bytes);
	return bps;
}

static struct pool_counters counters(struct world *w)
{
	struct pool_counters c = {0};

	node_counters(w->p, &c);
	return c;
}

static void test_bad_copies(void **state)
{
	struct world w;
	struct bp *bps;
	struct error err = ERROR_INIT;
	struct node *n;
	struct node_verdict v;

	world_open(&w, 4, 3, 8u << 20, 0);
	bps = write_leaves(&w, 40);
	node_cache_drop(w.p);
	/* two of three copies bad: read, and mended in passing */
	for (unsigned i = 0; i < 10; i++) {
		world_damage(&w, bps[i].copy[i % 3]);
		world_damage(&w, bps[i].copy[(i + 1) % 3]);
		assert_int_equal(node_verify(w.p, &bps[i], TREE, 0, false, &v, NULL), 0);
		assert_true(v.good == 1 && v.bad == 2 && v.repaired == 0 && v.absent == 0);
	}
	for (unsigned i = 0; i < 40; i++) {
		assert_int_equal(node_get(w.p, &bps[i], TREE, 0, &n, NULL), 0);
		assert_int_equal(leaf_number(n), i);
		node_put(w.p, n);
	}
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(node_verify(w.p, &bps[i], TREE, 0, true, &v, NULL), 0);
		assert_int_equal(v.good + v.repaired, 3); /* what no read came across is found here */
		assert_int_equal(node_verify(w.p, &bps[i], TREE, 0, false, &v, NULL), 0);
		assert_int_equal(v.good, 3);
	}
	/* all bad: lost, with the places */
	node_cache_drop(w.p);
	for (unsigned c = 0; c < 3; c++)
		world_damage(&w, bps[7].copy[c]);
	assert_int_equal(node_get(w.p, &bps[7], TREE, 0, &n, &err), ERR_LOST);
	assert_non_null(strstr(err.text, "disk"));
	error_clear(&err);
	assert_int_equal(node_verify(w.p, &bps[7], TREE, 0, true, &v, &err), ERR_LOST);
	/* among others the others are put back again: nothing stays pinned, world_close asserts it */
	struct node *many[40];
	assert_int_equal(nodes_get(w.p, bps, 40, TREE, 0, many, NULL), ERR_LOST);
	/* a good node in the wrong place, of another tree, of another level */
	struct bp wrong = bps[3];
	for (unsigned c = 0; c < 3; c++)
		wrong.copy[c] = bps[4].copy[c];
	assert_int_equal(node_get(w.p, &wrong, TREE, 0, &n, NULL), ERR_LOST);
	assert_int_equal(node_get(w.p, &bps[3], TREE_CATALOG, 0, &n, NULL), ERR_CORRUPT);
	node_cache_drop(w.p);
	assert_int_equal(node_get(w.p, &bps[3], TREE_CATALOG, 0, &n, NULL), ERR_LOST);
	assert_int_equal(node_get(w.p, &bps[3], TREE, 1, &n, NULL), ERR_CORRUPT);
	wrong.copy[1].disk = 200;
	assert_int_equal(node_get(w.p, &wrong, TREE, 0, &n, NULL), ERR_CORRUPT);
	wrong.copy[1] = (struct disk_address){0, 1ull << 39};
	wrong.copies = 2;
	wrong.copy[0] = wrong.copy[1];
	assert_int_equal(node_get(w.p, &wrong, TREE, 0, &n, NULL), ERR_LOST);
	free(bps);
	world_close(&w);
}

/* A pointer that outlived its node finds a younger one in the place, and leaves it alone. */
static void test_younger_is_not_overwritten(void **state)
{
	struct world w;
	struct bp *bps;
	struct node *n;
	struct node_verdict v;
	static uint8_t bytes[NODE_BYTES] __attribute__((aligned(4096)));

	world_open(&w, 2, 2, 8u << 20, 0);
	bps = write_leaves(&w, 2);
	node_cache_drop(w.p);
	struct bp young = bps[0];
	young.birth = 9;
	leaf_make(bytes, 9, 77);
	node_seal(w.p, &young, TREE, bytes);
	assert_int_equal(
		disk_write(w.disks[young.copy[0].disk], young.copy[0].unit * POOL_UNIT_BYTES, bytes, NODE_BYTES, NULL),
		0);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(node_get(w.p, &bps[0], TREE, 0, &n, NULL), 0);
		node_put(w.p, n);
		node_cache_drop(w.p);
	}
	assert_int_equal(node_verify(w.p, &young, TREE, 0, false, &v, NULL), 0);
	assert_int_equal(v.good, 1);
	free(bps);
	world_close(&w);
}

static void test_cap(void **state)
{
	struct world w;
	struct bp *bps;
	struct node *n, *pinned[30];
	uint64_t before;

	world_open(&w, 4, 2, 32u << 20, 4 * 128 * NODE_BYTES); /* 128 nodes */
	bps = write_leaves(&w, 1000);
	assert_true(counters(&w).cache_bytes <= (128 + 64) * NODE_BYTES);
	/* 40 in use, seen often */
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < 40; i++) {
			assert_int_equal(node_get(w.p, &bps[i], TREE, 0, &n, NULL), 0);
			node_put(w.p, n);
		}
	/* a walk over all of them */
	for (unsigned i = 40; i < 1000; i++) {
		assert_int_equal(node_get(w.p, &bps[i], TREE, 0, &n, NULL), 0);
		assert_int_equal(leaf_number(n), i);
		node_put(w.p, n);
		assert_true(counters(&w).cache_bytes <= (128 + 64) * NODE_BYTES);
	}
	before = counters(&w).nodes_read;
	for (unsigned i = 0; i < 40; i++) {
		assert_int_equal(node_get(w.p, &bps[i], TREE, 0, &n, NULL), 0);
		node_put(w.p, n);
	}
	assert_int_equal(counters(&w).nodes_read, before);
	/* what is pinned stays what it is */
	assert_int_equal(nodes_get(w.p, &bps[100], 30, TREE, 0, pinned, NULL), 0);
	for (unsigned i = 200; i < 1000; i++) {
		assert_int_equal(node_get(w.p, &bps[i], TREE, 0, &n, NULL), 0);
		node_put(w.p, n);
	}
	node_cache_drop(w.p);
	for (unsigned i = 0; i < 30; i++) {
		assert_int_equal(leaf_number(pinned[i]), 100 + i);
		node_put(w.p, pinned[i]);
	}
	free(bps);
	world_close(&w);
}

/* Neighbours come by one request, and the disks share the work. */
static void test_requests(void **state)
{
	struct world w;
	struct bp *bps;
	struct node *nodes[256];
	uint64_t before;

	world_open(&w, 4, 2, 32u << 20, 1u << 30);
	w.operations = 0;
	bps = write_leaves(&w, 256);
	assert_int_equal(w.operations, 8); /* four rows of 64, two copies each */
	node_cache_drop(w.p);
	before = w.operations;
	assert_int_equal(nodes_get(w.p, bps, 256, TREE, 0, nodes, NULL), 0);
	assert_int_equal(w.operations - before, 4);
	for (unsigned i = 0; i < 256; i++) {
		assert_int_equal(leaf_number(nodes[i]), i);
		node_put(w.p, nodes[i]);
	}
	for (unsigned d = 0; d < 4; d++) {
		struct disk_counters c;

		disk_counters(w.disks[d], &c);
		assert_int_equal(c.op[DISK_READ].done, 1);
	}
	free(bps);
	world_close(&w);
}

struct crowd {
	struct world w;
	struct bp *bps;
	unsigned count;
	uint64_t seed;
	struct os_mutex lock;
	unsigned wrong;
};

static void crowd_run(void *arg)
{
	struct crowd *c = arg;
	struct random r;
	struct node *nodes[20];
	unsigned wrong = 0;

	os_mutex_lock(&c->lock);
	random_seed(&r, c->seed++);
	os_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < 200; i++) {
		unsigned n = 1 + (unsigned)random_below(&r, 20), at = (unsigned)random_below(&r, c->count - n);

		if (random_below(&r, 50) == 0)
			node_cache_drop(c->w.p);
		if (nodes_get(c->w.p, &c->bps[at], n, TREE, 0, nodes, NULL) != 0) {
			wrong++;
			continue;
		}
		for (unsigned k = 0; k < n; k++) {
			wrong += leaf_number(nodes[k]) != at + k;
			node_put(c->w.p, nodes[k]);
		}
	}
	os_mutex_lock(&c->lock);
	c->wrong += wrong;
	os_mutex_unlock(&c->lock);
}

static int crowd(void *arg)
{
	struct crowd *c = arg;
	struct os_thread *threads[6];

	os_mutex_init(&c->lock);
	world_open(&c->w, 4, 2, 32u << 20, 0);
	c->count = 300;
	c->bps = write_leaves(&c->w, c->count);
	for (unsigned i = 0; i < c->count; i += 7) /* and mending goes on meanwhile */
		world_damage(&c->w, c->bps[i].copy[i % 2]);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(os_thread_create(&threads[i], "reader", crowd_run, c, NULL), 0);
	for (unsigned i = 0; i < 6; i++)
		os_thread_join(threads[i]);
	assert_int_equal(c->wrong, 0);
	free(c->bps);
	world_close(&c->w);
	os_mutex_destroy(&c->lock);
	return 0;
}

static void test_crowd(void **state)
{
	struct crowd *c = calloc(1, sizeof *c);

	crowd(c);
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct os_simulation s;
		struct error err = ERROR_INIT;

		memset(c, 0, sizeof *c);
		c->seed = seed * 100;
		os_simulation_init(&s, seed);
		if (os_simulate(&s, crowd, c, &err))
			fail_msg("%s", err.text);
	}
	free(c);
}

/* Who wants what somebody is just reading waits for that one read. */
static void want_one(void *arg)
{
	struct crowd *c = arg;
	struct node *n;

	if (node_get(c->w.p, c->bps, TREE, 0, &n, NULL) != 0)
		c->wrong++;
	else
		node_put(c->w.p, n);
}

static int shared_read(void *arg)
{
	struct crowd *c = arg;
	struct os_thread *threads[6];

	world_open(&c->w, 4, 2, 32u << 20, 1u << 30);
	c->bps = write_leaves(&c->w, 1);
	node_cache_drop(c->w.p);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(os_thread_create(&threads[i], "reader", want_one, c, NULL), 0);
	for (unsigned i = 0; i < 6; i++)
		os_thread_join(threads[i]);
	assert_int_equal(c->wrong, 0);
	assert_int_equal(counters(&c->w).nodes_read, 1);
	free(c->bps);
	world_close(&c->w);
	return 0;
}

static void test_one_read_serves_all(void **state)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct crowd *c = calloc(1, sizeof *c);
		struct os_simulation s;
		struct error err = ERROR_INIT;

		os_simulation_init(&s, seed);
		if (os_simulate(&s, shared_read, c, &err))
			fail_msg("%s", err.text);
		free(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_copies),
		cmocka_unit_test(test_younger_is_not_overwritten),
		cmocka_unit_test(test_cap),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_crowd),
		cmocka_unit_test(test_one_read_serves_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
