/*
 * zone: which columns of a disk are taken.
 *
 * A disk is cut into zones; a zone is free, or a slab of columns of one class with a bit for each. Lower zones are
 * taken first: on a rotating disk they are the fast ones, and neighbouring runs then lie side by side.
 *
 *     zone 0: 128 KiB      zone 1: 16 KiB pieces     zone 2: free     zone 3: 128 KiB
 *     ################     ####..#...............                     ####............
 *
 * A stretch for a run is looked for in zones of its class first, then a free zone is opened, and only when there is
 * none is a shorter stretch taken. A zone whose last column went is free again for any class.
 */
#include <string.h>

#include "space.h"

static uint64_t unit_at(const struct pool_disk *d, unsigned zone, unsigned class, uint32_t column)
{
	return (d->data_start_bytes + zone * d->zone_bytes) / POOL_UNIT_BYTES + column * class_units(class);
}

static size_t words(const struct pool_disk *d, unsigned class)
{
	return (zone_columns(d, class) + 63) / 64;
}

unsigned zones_reserved(const struct pool_disk *d)
{
	return d->zones_kept;
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

/* The first clear (or set) bit at or behind `from`, below `end`; else end. */
static uint32_t next_bit(const uint64_t *bits, uint32_t from, uint32_t end, bool set)
{
	while (from < end) {
		uint64_t word = (set ? bits[from / 64] : ~bits[from / 64]) >> (from % 64);

		if (word) {
			uint32_t at = from + (uint32_t)__builtin_ctzll(word);
			return min_of(at, end);
		}
		from = (from / 64 + 1) * 64;
	}
	return end;
}

/* The first stretch of `wanted`, else the longest; false when the zone is full. */
static bool stretch_in(const struct zone *z, uint32_t columns, uint32_t wanted, struct stretch *ret)
{
	uint32_t longest = 0;

	for (uint32_t at = next_bit(z->bits, 0, columns, false); at < columns;) {
		uint32_t end = next_bit(z->bits, at, min_of(columns, at + wanted), true);

		if (end - at > longest) {
			longest = end - at;
			ret->first = at;
			ret->count = longest;
			if (longest == wanted)
				break;
		}
		at = next_bit(z->bits, end, columns, false);
	}
	return longest > 0;
}

static bool find_free_zone(const struct pool_disk *d, unsigned *ret)
{
	for (unsigned i = 0; i < d->zone_count; i++)
		if (d->zones[i].class == ZONE_FREE) {
			*ret = i;
			return true;
		}
	return false;
}

static bool may_open(const struct pool_disk *d, enum zone_use use)
{
	return use == ZONES_ALL ? d->zones_free > 0 : use == ZONES_AVAILABLE && d->zones_free > d->zones_kept;
}

bool zone_find(const struct pool_disk *d, unsigned class, uint32_t wanted, enum zone_use use, struct stretch *ret)
{
	uint32_t columns = zone_columns(d, class);
	struct stretch best = {0};

	if (columns == 0)
		return false;
	wanted = min_of(wanted, columns);
	for (unsigned i = 0; i < d->zone_count; i++) {
		struct zone *z = &d->zones[i];
		struct stretch s = {.zone = i};

		if (z->class != class || columns - z->used <= best.count || z->longest <= best.count)
			continue;
		if (!stretch_in(z, columns, wanted, &s))
			continue;
		if (s.count < wanted)
			z->longest = s.count; /* all of it was looked at */
		if (s.count > best.count)
			best = s;
		if (best.count == wanted)
			break;
	}
	if (best.count < wanted && may_open(d, use) && find_free_zone(d, &best.zone)) {
		best.first = 0;
		best.count = wanted;
	}
	if (best.count)
		*ret = best;
	return best.count > 0;
}

/* --- taking and giving back --------------------------------------------------------------------------------------- */

static int zone_open(struct pool *p, struct pool_disk *d, unsigned zone, unsigned class, struct error *err)
{
	struct zone *z = &d->zones[zone];
	uint32_t columns = zone_columns(d, class);

	/* nodes have a second bit each: waiting */
	z->bits = calloc(words(d, class) * (class == CLASS_META ? 2 : 1), sizeof *z->bits);
	if (!z->bits)
		return error_set(err, ERR_MEMORY, "no memory for the map of a zone of %u columns", columns);
	z->class = (uint8_t) class;
	z->used = 0;
	z->longest = columns;
	d->zones_free--;
	d->free_bytes -= d->zone_bytes;
	d->free_bytes += (uint64_t)columns * class_bytes[class];
	p->space->free_columns[d->index][class] += columns;
	return 0;
}

static void zone_close(struct pool *p, struct pool_disk *d, struct zone *z)
{
	uint32_t columns = zone_columns(d, z->class);

	free(z->bits);
	p->space->free_columns[d->index][z->class] -= columns;
	d->free_bytes -= (uint64_t)columns * class_bytes[z->class];
	d->free_bytes += d->zone_bytes;
	d->zones_free++;
	*z = (struct zone){.class = ZONE_FREE};
}

static void mark(struct pool *p, struct pool_disk *d, struct zone *z, uint32_t first, uint32_t count)
{
	for (uint32_t i = first; i < first + count; i++) {
		pool_assert(p, 1, !bit_get(z->bits, i));
		bit_set(z->bits, i);
	}
	z->used += count;
	d->free_bytes -= (uint64_t)count * class_bytes[z->class];
	p->space->free_columns[d->index][z->class] -= count;
}

int zone_take(struct pool *p, struct pool_disk *d, unsigned class, const struct stretch *s, uint64_t *ret_unit,
	struct error *err)
{
	struct zone *z = &d->zones[s->zone];

	if (z->class == ZONE_FREE) {
		int rc = zone_open(p, d, s->zone, class, err);
		if (rc)
			return rc;
	}
	sp_assert(z->class == class && s->first + s->count <= zone_columns(d, class));
	mark(p, d, z, s->first, s->count);
	*ret_unit = unit_at(d, s->zone, class, s->first);
	return 0;
}

/* Where an address from a disk lies; ERR_CORRUPT when nothing of that class can lie there. */
static int locate(const struct pool *p, unsigned disk, unsigned class, uint64_t unit, uint32_t count,
	struct stretch *ret, struct error *err)
{
	const struct pool_disk *d = &p->disks[disk];
	uint64_t start = d->data_start_bytes / POOL_UNIT_BYTES, zone_units = d->zone_bytes / POOL_UNIT_BYTES;

	if (disk >= p->disk_count || zone_units == 0 || unit < start || (unit - start) / zone_units >= d->zone_count)
		return error_set(err, ERR_CORRUPT, "unit %llu of disk %u lies outside of its zones",
			(unsigned long long)unit, disk);
	uint64_t inside = (unit - start) % zone_units;
	ret->zone = (unsigned)((unit - start) / zone_units);
	ret->first = (uint32_t)(inside / class_units(class));
	ret->count = count;
	if (inside % class_units(class) || count > zone_columns(d, class) ||
		ret->first > zone_columns(d, class) - count)
		return error_set(err, ERR_CORRUPT, "unit %llu of disk %u is no place for %u columns of %u bytes",
			(unsigned long long)unit, disk, count, class_bytes[class]);
	return 0;
}

int zone_claim(struct pool *p, unsigned disk, unsigned class, uint64_t unit, uint32_t count, struct error *err)
{
	struct pool_disk *d = &p->disks[disk];
	struct stretch s;
	int rc = locate(p, disk, class, unit, count, &s, err);

	if (rc || count == 0)
		return rc;
	struct zone *z = &d->zones[s.zone];
	if (z->class != ZONE_FREE && z->class != class)
		return error_set(err, ERR_CORRUPT,
			"zone %u of disk %u holds columns of %u bytes and is said to hold some of %u", s.zone, disk,
			class_bytes[z->class], class_bytes[class]);
	if (z->class == ZONE_FREE) {
		rc = zone_open(p, d, s.zone, class, err);
		if (rc)
			return rc;
	}
	uint32_t taken = next_bit(z->bits, s.first, s.first + count, true);
	if (taken < s.first + count) {
		if (z->used == 0)
			zone_close(p, d, z);
		return error_set(err, ERR_CORRUPT, "unit %llu of disk %u is used twice",
			(unsigned long long)unit_at(d, s.zone, class, taken), disk);
	}
	mark(p, d, z, s.first, count);
	return 0;
}

void zone_release(struct pool *p, unsigned disk, unsigned class, uint64_t unit, uint32_t count)
{
	struct pool_disk *d = &p->disks[disk];
	struct stretch s;

	if (count == 0)
		return;
	sp_assert(locate(p, disk, class, unit, count, &s, NULL) == 0);
	struct zone *z = &d->zones[s.zone];
	sp_assert(z->class == class);
	for (uint32_t i = s.first; i < s.first + count; i++) {
		sp_assert(bit_get(z->bits, i));
		bit_clear(z->bits, i);
		if (class == CLASS_META)
			bit_clear(z->bits + words(d, class), i);
	}
	z->used -= count;
	z->longest = zone_columns(d, class) - z->used; /* at most; the next look finds out */
	d->free_bytes += (uint64_t)count * class_bytes[class];
	p->space->free_columns[disk][class] += count;
	if (z->used == 0)
		zone_close(p, d, z);
}

void zone_mark_waiting(struct pool *p, unsigned disk, uint64_t unit, uint32_t count)
{
	struct stretch s;

	sp_assert(locate(p, disk, CLASS_META, unit, count, &s, NULL) == 0);
	struct zone *z = &p->disks[disk].zones[s.zone];
	sp_assert(z->class == CLASS_META);
	for (uint32_t i = s.first; i < s.first + count; i++) {
		sp_assert(bit_get(z->bits, i));
		bit_set(z->bits + words(&p->disks[disk], CLASS_META), i);
	}
}

void space_meta_zones(struct pool *p,
	void (*visit)(void *arg, unsigned disk, unsigned zone, const uint8_t *bits, uint32_t bytes), void *arg)
{
	uint8_t bits[POOL_ZONE_BYTES_MAX / NODE_BYTES / 8];

	for (unsigned i = 0; i < p->disk_count; i++) {
		struct pool_disk *d = &p->disks[i];
		uint32_t columns = d->zone_bytes ? zone_columns(d, CLASS_META) : 0, bytes = (columns + 7) / 8;
		size_t n = (columns + 63) / 64;

		sp_assert(bytes <= sizeof bits);
		for (unsigned z = 0; z < d->zone_count; z++) {
			const uint64_t *used = d->zones[z].bits;
			uint8_t any = 0;

			if (d->zones[z].class != CLASS_META)
				continue;
			for (uint32_t b = 0; b < bytes; b++) {
				uint64_t word = used[b / 8] & ~used[n + b / 8];

				bits[b] = (uint8_t)(word >> (b % 8 * 8));
				any |= bits[b];
			}
			if (any)
				visit(arg, i, z, bits, bytes);
		}
	}
}
