/*
 * Chunk maps: logical chunk → the places of its copies. See the head of layout.c for pictures.
 *
 * One formula serves the stripe (one copy), mirrors and RAID 10 near: the copies of all chunks, one after the other,
 * are dealt out over the disks row by row. Copy k of chunk c is card c × copies + k. So mirrorx4 and raid10 over eight
 * disks are the same mapping, and with an odd number of disks a chunk's copies may lie in neighbouring rows.
 */
#include "internal.h"

unsigned layout__rows_unit(const struct layout *l)
{
	if (l->kind != LAYOUT_RAID10)
		return 1;
	return l->spread == LAYOUT_NEAR ? l->copies / layout__gcd(l->disks, l->copies) : l->copies;
}

unsigned layout__period_chunks(const struct layout *l)
{
	if (l->kind == LAYOUT_RAID01)
		return l->width;
	return l->spread == LAYOUT_NEAR ? l->disks / layout__gcd(l->disks, l->copies) : l->disks;
}

static void place_near(const struct layout *l, uint64_t chunk, unsigned copy, struct layout_place *ret)
{
	uint64_t card = chunk * l->copies + copy;

	ret->disk = (unsigned)(card % l->disks);
	ret->offset_bytes = card / l->disks * l->chunk_bytes;
}

/* The disk is cut into `copies` zones, each a whole stripe of everything, turned by one disk more than the last. */
static void place_far(const struct layout *l, uint64_t chunk, unsigned copy, struct layout_place *ret)
{
	uint64_t zone_bytes = l->disk_bytes / l->copies;

	ret->disk = (unsigned)((chunk + copy) % l->disks);
	ret->offset_bytes = copy * zone_bytes + chunk / l->disks * l->chunk_bytes;
}

/* As far, but row by row: each row of chunks is followed by its turned copies. */
static void place_offset(const struct layout *l, uint64_t chunk, unsigned copy, struct layout_place *ret)
{
	ret->disk = (unsigned)((chunk + copy) % l->disks);
	ret->offset_bytes = (chunk / l->disks * l->copies + copy) * l->chunk_bytes;
}

static void place_raid01(const struct layout *l, uint64_t chunk, unsigned copy, struct layout_place *ret)
{
	ret->disk = (unsigned)(copy * l->width + chunk % l->width);
	ret->offset_bytes = chunk / l->width * l->chunk_bytes;
}

void layout_place(const struct layout *l, uint64_t chunk, unsigned copy, struct layout_place *ret)
{
	struct layout_place place;

	sp_assert(!l->parity && l->kind != LAYOUT_CONCAT);
	sp_assert(copy < l->copies);
	/* Before the multiplications, so that no chunk number can wrap round into range. */
	sp_assert(chunk <= l->disk_bytes / l->chunk_bytes * l->disks);
	if (l->kind == LAYOUT_RAID01)
		place_raid01(l, chunk, copy, &place);
	else if (l->spread == LAYOUT_FAR)
		place_far(l, chunk, copy, &place);
	else if (l->spread == LAYOUT_OFFSET)
		place_offset(l, chunk, copy, &place);
	else
		place_near(l, chunk, copy, &place);
	sp_assert(place.offset_bytes < l->disk_bytes);
	*ret = place;
}

void layout_place_concat(
	const struct layout *l, uint64_t offset_bytes, struct layout_place *ret, uint64_t *ret_run_bytes)
{
	unsigned disk = 0;

	sp_assert(l->kind == LAYOUT_CONCAT);
	while (disk < l->disks && offset_bytes >= l->concat_bytes[disk])
		offset_bytes -= l->concat_bytes[disk++];
	sp_assert(disk < l->disks);
	ret->disk = disk;
	ret->offset_bytes = offset_bytes;
	*ret_run_bytes = l->concat_bytes[disk] - offset_bytes;
}
