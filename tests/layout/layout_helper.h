/* What the tests of layout share. */
#ifndef LAYOUT_HELPER_H
#define LAYOUT_HELPER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "layout.h"

#define CHUNK 4096u

/* How many sampled worlds; SPINDLE_SEEDS overrides. */
static inline unsigned seed_count(unsigned usual)
{
	const char *text = getenv("SPINDLE_SEEDS");
	unsigned long count = text ? strtoul(text, NULL, 10) : 0;

	return count ? (unsigned)count : usual;
}

/* The layout of that name over disks of `rows` chunks each. */
static inline int layout_small(struct layout *l, const char *name, unsigned disks, uint64_t rows,
	enum layout_rotation rotation, struct error *err)
{
	uint64_t disk_bytes[LAYOUT_DISKS_MAX];

	for (unsigned i = 0; i < LAYOUT_DISKS_MAX; i++)
		disk_bytes[i] = rows * CHUNK;
	return layout_init(l, name, disks, disk_bytes, CHUNK, rotation, err);
}

static const char *const all_names[] = {"single", "concat", "stripe", "mirror", "mirrorx2", "mirrorx3", "mirrorx4",
	"raid10", "raid10-far", "raid10-offset", "raid10-near3", "raid10-far3", "raid10-offset3", "raid10-near4",
	"raid10-far4", "raid10-offset4", "raid01", "raid4", "raid5", "raid6", "raid50", "raid60", "raid4x2"};

#endif
