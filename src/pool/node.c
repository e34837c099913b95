/*
 * The cache of tree nodes. A node never changes once it is written, so what is here is never stale: it is the node of a
 * place, a birth and a checksum, and when a place is used again its next node has another birth or another checksum.
 *
 *     miss ──> [ cold: first in, first out ] ── seen again ──> [ hot: second chance ]
 *                      │ not seen again                            │
 *                      └──────────────> out <──────────────────────┘
 *
 * A walk through a whole tree touches each leaf once and so passes through the cold quarter without pushing out what is
 * in use (2Q, Johnson and Shasha 1994; S3-FIFO, Yang et al. 2023). A hit sets a bit and moves nothing.
 *
 * Who misses reads; who wants the same node meanwhile waits for that one read. Pinned nodes stay, also beyond the cap.
 */
#include <string.h>

#include "node.h"
#include "tree.h"

#define NODES_MIN 64u
#define WAIT_SLOTS 16u
#define GET_MAX 256u /* read by one batch */

enum node_state { NODE_READING, NODE_READY, NODE_FAILED };

struct node {
	struct node *hash_next;
	struct list queue; /* cold or hot, when in the cache */
	struct bp bp;
	uint8_t *bytes;
	uint32_t pins;
	uint16_t stride;
	uint8_t state;
	bool cached; /* in the table and a queue; else it goes with its last pin */
	bool is_hot, seen;
};

struct node_cache {
	struct os_mutex lock;
	struct os_cond arrived[WAIT_SLOTS];
	struct node **buckets;
	size_t bucket_count;   /* a power of two */
	struct list cold, hot; /* newest first */
	size_t cold_count, count, count_max;
	struct node *spare; /* evicted ones, their buffers to be used again */
	size_t spare_count;
	uint64_t hits, misses, nodes_read, nodes_written, bytes_written;
};

/* --- the table ---------------------------------------------------------------------------------------------------- */

static size_t slot_of(const struct node_cache *c, const struct bp *bp)
{
	uint64_t h =
		(bp->copy[0].unit << 8 | bp->copy[0].disk) * 0x9e3779b97f4a7c15ULL + bp->birth * 0xbf58476d1ce4e5b9ULL;

	return (size_t)((h ^ h >> 29) * 0x94d049bb133111ebULL >> 20) & (c->bucket_count - 1);
}

static bool is_of(const struct node *n, const struct bp *bp)
{
	return n->bp.copy[0].unit == bp->copy[0].unit && n->bp.copy[0].disk == bp->copy[0].disk &&
	       n->bp.birth == bp->birth && n->bp.level == bp->level &&
	       memcmp(n->bp.checksum, bp->checksum, CHECKSUM_BYTES) == 0;
}

static struct node *find(struct node_cache *c, const struct bp *bp)
{
	struct node *n = c->buckets[slot_of(c, bp)];

	while (n && !is_of(n, bp))
		n = n->hash_next;
	return n;
}

static void node_free(struct node *n)
{
	free(n->bytes);
	free(n);
}

static void node_release(struct node_cache *c, struct node *n)
{
	if (c->spare_count >= NODES_MIN) {
		node_free(n);
		return;
	}
	n->hash_next = c->spare;
	c->spare = n;
	c->spare_count++;
}

static void take_out(struct node_cache *c, struct node *n)
{
	struct node **link = &c->buckets[slot_of(c, &n->bp)];

	while (*link != n)
		link = &(*link)->hash_next;
	*link = n->hash_next;
	list_remove(&n->queue);
	n->cached = false;
	c->count--;
	c->cold_count -= !n->is_hot;
	if (n->pins == 0)
		node_release(c, n);
}

static void put_in(struct node_cache *c, struct node *n)
{
	struct node **bucket = &c->buckets[slot_of(c, &n->bp)];

	n->hash_next = *bucket;
	*bucket = n;
	n->cached = true;
	n->is_hot = n->seen = false;
	list_push_front(&c->cold, &n->queue);
	c->count++;
	c->cold_count++;
}

/* Until it is below the cap, or as many as there are were looked at. */
static void make_room(struct node_cache *c)
{
	for (size_t looks = 2 * c->count; c->count >= c->count_max && looks > 0; looks--) {
		bool is_cold = c->cold_count > 0 && (c->cold_count * 4 >= c->count || list_is_empty(&c->hot));
		struct list *queue = is_cold ? &c->cold : &c->hot;
		struct node *n = container_of(queue->prev, struct node, queue);

		if (n->pins == 0 && !n->seen) {
			take_out(c, n);
			continue;
		}
		list_remove(&n->queue);
		if (is_cold && n->seen) {
			n->is_hot = true;
			c->cold_count--;
			queue = &c->hot;
		}
		n->seen = false;
		list_push_front(queue, &n->queue);
	}
}

/* A node for this pointer, not in the table, pinned once. NULL: no memory. */
static struct node *node_make(struct node_cache *c, const struct bp *bp)
{
	struct node *n = c->spare;

	if (n) {
		c->spare = n->hash_next;
		c->spare_count--;
	} else {
		n = calloc(1, sizeof *n);
		if (!n || posix_memalign((void **)&n->bytes, DISK_BUFFER_ALIGN, NODE_BYTES) != 0) {
			free(n);
			return NULL;
		}
	}
	n->bp = *bp;
	n->pins = 1;
	n->state = NODE_READING;
	n->cached = n->is_hot = n->seen = false;
	list_init(&n->queue);
	return n;
}

/* --- open, drop, close -------------------------------------------------------------------------------------------- */

int node_cache_open(struct pool *p, struct error *err)
{
	struct node_cache *c = calloc(1, sizeof *c);
	size_t buckets = 256;

	if (!c)
		return error_set(err, ERR_MEMORY, "no memory for the cache of tree nodes");
	c->count_max = max_of((size_t)(p->tuning.cache_bytes / 4 / NODE_BYTES), (size_t)NODES_MIN);
	while (buckets < c->count_max && buckets < 1u << 22)
		buckets *= 2;
	c->bucket_count = buckets;
	c->buckets = calloc(buckets, sizeof *c->buckets);
	if (!c->buckets) {
		free(c);
		return error_set(err, ERR_MEMORY, "no memory for the cache of tree nodes");
	}
	os_mutex_init(&c->lock);
	for (unsigned i = 0; i < WAIT_SLOTS; i++)
		os_cond_init(&c->arrived[i]);
	list_init(&c->cold);
	list_init(&c->hot);
	p->nodes = c;
	return 0;
}

void node_cache_drop(struct pool *p)
{
	struct node_cache *c = p->nodes;

	os_scoped_lock(&c->lock);
	for (unsigned i = 0; i < 2; i++)
		list_for_each_safe(i ? &c->hot : &c->cold, at, next)
		{
			struct node *n = container_of(at, struct node, queue);

			if (n->pins == 0)
				take_out(c, n);
		}
	while (c->spare) {
		struct node *n = c->spare;

		c->spare = n->hash_next;
		node_free(n);
	}
	c->spare_count = 0;
}

void node_cache_close(struct pool *p)
{
	struct node_cache *c = p->nodes;

	if (!c)
		return;
	node_cache_drop(p);
	sp_assert(c->count == 0); /* every get had its put */
	os_mutex_destroy(&c->lock);
	for (unsigned i = 0; i < WAIT_SLOTS; i++)
		os_cond_destroy(&c->arrived[i]);
	free(c->buckets);
	free(c);
	p->nodes = NULL;
}

void node_counters(struct pool *p, struct pool_counters *ret)
{
	struct node_cache *c = p->nodes;

	os_scoped_lock(&c->lock);
	ret->nodes_read = c->nodes_read;
	ret->nodes_written = c->nodes_written;
	ret->metadata_bytes = c->bytes_written;
	ret->cache_bytes += (c->count + c->spare_count) * NODE_BYTES;
}

void node_count_written(struct pool *p, unsigned nodes, uint64_t bytes)
{
	os_scoped_lock(&p->nodes->lock);
	p->nodes->nodes_written += nodes;
	p->nodes->bytes_written += bytes;
}

void node_count_read(struct pool *p, unsigned nodes)
{
	os_scoped_lock(&p->nodes->lock);
	p->nodes->nodes_read += nodes;
}

static uint16_t stride_of(const uint8_t *bytes)
{
	unsigned items = get_le16(bytes + 6);
	uint32_t at = NODE_HEAD_BYTES, stride = 0;

	if (bytes[4] > 0)
		return TREE_INNER_ITEM_BYTES;
	for (unsigned i = 0; i < items; i++) {
		uint32_t length = TREE_LEAF_ITEM_HEAD + get_le16(bytes + at + 16);

		if (i > 0 && length != stride)
			return 0;
		stride = length;
		at += length;
	}
	return (uint16_t)stride;
}

uint32_t node_stride(const struct node *n)
{
	return n->stride;
}

void node_cache_enter(struct pool *p, const struct bp *bp, const uint8_t *bytes)
{
	struct node_cache *c = p->nodes;
	struct node *n;

	os_mutex_lock(&c->lock);
	n = find(c, bp);
	if (n || (make_room(c), c->count >= c->count_max) || !(n = node_make(c, bp))) {
		os_mutex_unlock(&c->lock);
		return;
	}
	os_mutex_unlock(&c->lock);
	memcpy(n->bytes, bytes, NODE_BYTES);
	os_charge(OS_STAGE_COPY, NODE_BYTES);
	n->stride = stride_of(bytes);
	os_mutex_lock(&c->lock);
	n->state = NODE_READY;
	n->pins = 0;
	if (find(c, bp))
		node_release(c, n);
	else
		put_in(c, n);
	os_mutex_unlock(&c->lock);
}

/* --- get, put ----------------------------------------------------------------------------------------------------- */

const uint8_t *node_bytes(const struct node *n)
{
	return n->bytes;
}

static void unpin(struct node_cache *c, struct node *n)
{
	sp_assert(n->pins > 0);
	if (--n->pins == 0 && !n->cached)
		node_release(c, n);
}

void node_put(struct pool *p, struct node *n)
{
	if (!n)
		return;
	os_scoped_lock(&p->nodes->lock);
	unpin(p->nodes, n);
}

/* Pins what is there; what is not is made and becomes this caller's to read. */
static int pin_or_make(struct node_cache *c, const struct bp *bps, unsigned count, struct node **ret,
	struct node_read *reads, unsigned *ret_reads, struct error *err)
{
	os_scoped_lock(&c->lock);
	for (unsigned i = 0; i < count; i++) {
		struct node *n = find(c, &bps[i]);

		if (n) {
			n->pins++;
			n->seen = true;
			c->hits++;
			ret[i] = n;
			continue;
		}
		c->misses++;
		make_room(c);
		n = node_make(c, &bps[i]);
		if (!n)
			return error_set(err, ERR_MEMORY, "no memory for a tree node");
		put_in(c, n);
		ret[i] = n;
		reads[(*ret_reads)++] = (struct node_read){.bp = &n->bp, .bytes = n->bytes};
	}
	return 0;
}

static void publish(
	struct node_cache *c, struct node **nodes, unsigned count, const struct node_read *reads, unsigned read_count)
{
	unsigned at = 0;

	os_scoped_lock(&c->lock);
	for (unsigned i = 0; i < count && at < read_count; i++) {
		struct node *n = nodes[i];

		if (!n || reads[at].bp != &n->bp)
			continue;
		n->state = reads[at++].status == 0 ? NODE_READY : NODE_FAILED;
		if (n->state == NODE_READY)
			n->stride = stride_of(n->bytes);
		os_cond_broadcast(&c->arrived[slot_of(c, &n->bp) % WAIT_SLOTS]);
		if (n->state == NODE_FAILED)
			take_out(c, n); /* pinned: it goes with the last who waits */
	}
}

static int wait_for(struct node_cache *c, struct node *n)
{
	os_scoped_lock(&c->lock);
	while (n->state == NODE_READING)
		os_cond_wait(&c->arrived[slot_of(c, &n->bp) % WAIT_SLOTS], &c->lock);
	return n->state == NODE_READY ? 0 : ERR_LOST;
}

static int get_some(struct pool *p, const struct bp *bps, unsigned count, uint64_t tree, int level, struct node **ret,
	struct error *err)
{
	struct node_cache *c = p->nodes;
	struct node_read reads[GET_MAX];
	unsigned read_count = 0;
	int rc;

	sp_assert(count <= GET_MAX);
	memset(ret, 0, count * sizeof *ret);
	for (unsigned i = 0; i < count; i++)
		if ((rc = node_pointer_check(p, &bps[i], level, err)) != 0)
			return rc;
	rc = pin_or_make(c, bps, count, ret, reads, &read_count, err);
	for (unsigned i = 0; i < read_count; i++) {
		reads[i].tree = tree;
		reads[i].level = level;
		reads[i].status = rc;
	}
	if (rc == 0 && read_count > 0)
		rc = node_read_many(p, reads, read_count, err);
	publish(c, ret, count, reads, read_count);
	for (unsigned i = 0; i < count && rc == 0; i++)
		if (wait_for(c, ret[i]) != 0) {
			/* Somebody else's read failed: this one says itself what is wrong, or has better luck. */
			node_put(p, ret[i]);
			ret[i] = NULL;
			rc = get_some(p, &bps[i], 1, tree, level, &ret[i], err);
		}
	for (unsigned i = 0; i < count && rc == 0; i++) {
		uint64_t writer = get_le64(ret[i]->bytes + 8);

		if (writer != tree && (writer < TREE_DATASET_FIRST || tree < TREE_DATASET_FIRST))
			rc = error_set(err, ERR_CORRUPT, "tree %llu refers to a node of tree %llu",
				(unsigned long long)tree, (unsigned long long)writer);
	}
	for (unsigned i = 0; i < count && rc != 0; i++) {
		node_put(p, ret[i]);
		ret[i] = NULL;
	}
	return rc;
}

int nodes_get(struct pool *p, const struct bp *bps, unsigned count, uint64_t tree, int level, struct node **ret,
	struct error *err)
{
	for (unsigned i = 0; i < count; i += GET_MAX) {
		int rc = get_some(p, bps + i, min_of(count - i, GET_MAX), tree, level, ret + i, err);

		if (rc) {
			while (i-- > 0)
				node_put(p, ret[i]);
			return rc;
		}
	}
	return 0;
}

int node_get(struct pool *p, const struct bp *bp, uint64_t tree, int level, struct node **ret, struct error *err)
{
	struct node *n;
	int rc = nodes_get(p, bp, 1, tree, level, &n, err);

	if (rc == 0)
		*ret = n;
	return rc;
}
