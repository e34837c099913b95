/* What node.c and node_io.c share; the rest of the pool sees internal.h. */
#ifndef POOL_NODE_H
#define POOL_NODE_H

#include "internal.h"

#define NODE_BATCH_MAX 64u /* neighbours in one request: 1 MiB */

/* Bytes of an item when all of a leaf are as long, else 0. */
uint32_t node_stride(const struct node *n);

/* ERR_CORRUPT unless the bytes are what the pointer was made for and hold a sound node of this tree and level. */
int node_sound(
	const struct pool *p, const struct bp *bp, uint64_t tree, int level, const uint8_t *bytes, struct error *err);
/* A pointer that may be followed: of a node of this level, with copies on disks that exist. */
int node_pointer_check(const struct pool *p, const struct bp *bp, int level, struct error *err);

struct node_read {
	const struct bp *bp;
	uint8_t *bytes; /* NODE_BYTES, aligned */
	uint64_t tree;
	int level;
	int status;
	/* private */
	uint8_t tried, bad, reused; /* a bit a copy */
	bool alone;                 /* failed among neighbours: once more by itself */
};
/* Each has its own status; returns the first failure's, with its sentence. */
int node_read_many(struct pool *p, struct node_read *reads, unsigned count, struct error *err);

/* Into the cache, by who has just written it. No memory: it is not there. */
void node_cache_enter(struct pool *p, const struct bp *bp, const uint8_t *bytes);
void node_count_written(struct pool *p, unsigned nodes, uint64_t bytes);
void node_count_read(struct pool *p, unsigned nodes);

#endif
