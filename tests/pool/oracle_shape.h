/* Between the files of the pool's oracle: what pools there are, and the generators. */
#ifndef ORACLE_SHAPE_H
#define ORACLE_SHAPE_H

#include "oracle.h"

struct shape {
	const char *name;
	unsigned groups, kind_disks, parity, width; /* parity 9: a mirror */
};
const struct shape *shape_find(const char *name);
unsigned shape_parity(const struct shape *s); /* disks that a group may lose */
void seed_for(struct random *r, uint64_t seed, uint64_t purpose);

#endif
