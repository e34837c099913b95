/* A pool without trees, log and volumes: disks, space and stripes only, for tests of those. What the other files would
 * do is done here in a few lines; entries of transactions are kept, so that a second pool can be made from them as
 * replay would. */
#ifndef POOL_STAND_IN_H
#define POOL_STAND_IN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

#include "stripe.h"

struct entry {
	enum log_type type;
	uint32_t bytes;
	uint8_t *payload;
};

struct world {
	struct pool *pool;
	struct transaction transaction;
	struct entry *entries;
	size_t entry_count, entry_room;
	unsigned events, faults, wakes;
	char last_event[256];
	bool fail_append;
	uint64_t promised;
};
extern struct world world;

struct world_group {
	enum group_kind kind;
	unsigned disks, width, parity;
};
/* Disks are opened by the spec, "%u" in it is the index; NULL: no disks at all, for tests of space. */
void world_open(const struct world_group *groups, unsigned group_count, const char *spec, uint64_t disk_bytes,
	uint64_t zone_bytes, uint64_t run_bytes);
void world_close(void);
void world_import(void);     /* the pool is made anew from the entries, over the same disks */
void world_checkpoint(void); /* what has died waits; the next number is durable */
void must(int rc, const struct error *err);
unsigned seeds(unsigned usual);

#endif
