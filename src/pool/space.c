/*
 * space: where things go, and when freed places come back.
 *
 * The problem. Everything is written once, to a new place: stripes of columns on distinct disks of one group, pieces of
 * nodes on distinct disks of the pool. Nothing that an older checkpoint refers to may be written over. And a pool that
 * users have filled must still be able to delete, which needs new nodes.
 *
 * The idea. zone.c knows for each disk which columns are taken, run.c which runs there are; both follow from the
 * descriptors, so nothing of it is on disk but the map of nodes' zones. This file decides between groups and disks:
 *
 *   groups    in turn, each as often as its share of free stripes (smooth weighted round robin); those of equal
 *             room strictly round, stripe by stripe: a stream over four mirrors drives four mirrors
 *
 *                 record      0 1 2 3 4 5 6 7
 *                 group       0 1 2 3 0 1 2 3       each in its own open run: neighbours on its disks
 *
 *   nodes     a row of pieces on each of `copies` disks of one group, the next row on the next disks
 *   freed     a queue: what checkpoint C freed comes back when C + 2 is durable and no reader began before C
 *   reserve   the last 1/16 of the zones of a disk are opened for nodes, and for data only when its writer says so
 *
 * SPACE-1  A column is taken at most once (mark in zone.c asserts it), and by exactly one of: an open run's room,
 *          a stripe that is not returned, the quarantine, a node.
 *
 * SPACE-2  free_bytes of a disk = its free zones + the free columns of the others.
 *
 * SPACE-3  The same calls give the same places: no clock, no random number, no address decides.
 */
#include "stripe.h"

#include <string.h>

#define PINS_FIRST 16

static unsigned zones_to_keep(const struct pool *p, const struct pool_disk *d)
{
	unsigned sixteenth = (d->zone_count + 15) / 16;

	return pool_breaks(p, 9) ? 0 : min_of(max_of(sixteenth, 2u), d->zone_count / 4);
}

int space_open(struct pool *p, struct error *err)
{
	p->space = calloc(1, sizeof *p->space);
	if (!p->space)
		return error_set(err, ERR_MEMORY, "no memory for the map of free space");
	p->space->pins = calloc(PINS_FIRST, sizeof *p->space->pins);
	p->space->pin_room = p->space->pins ? PINS_FIRST : 0;
	if (!p->space->pins) {
		space_close(p);
		return error_set(err, ERR_MEMORY, "no memory for readers");
	}
	for (unsigned i = 0; i < p->disk_count; i++) {
		struct pool_disk *d = &p->disks[i];

		d->zones = calloc(max_of(d->zone_count, 1u), sizeof *d->zones);
		if (!d->zones) {
			space_close(p);
			return error_set(err, ERR_MEMORY, "no memory for the %u zones of disk %u", d->zone_count, i);
		}
		for (unsigned z = 0; z < d->zone_count; z++)
			d->zones[z].class = ZONE_FREE;
		d->zones_free = d->zone_count;
		d->zones_kept = zones_to_keep(p, d);
		d->free_bytes = d->zone_count * d->zone_bytes;
	}
	return 0;
}

void space_close(struct pool *p)
{
	if (!p->space)
		return;
	repairs_close(p);
	scrub_free(p);
	runs_free(p);
	for (unsigned i = 0; i < p->disk_count; i++) {
		struct pool_disk *d = &p->disks[i];

		for (unsigned z = 0; d->zones && z < d->zone_count; z++)
			free(d->zones[z].bits);
		free(d->zones);
		d->zones = NULL;
	}
	free(p->space->waiting);
	free(p->space->pins);
	free(p->space);
	p->space = NULL;
}

/* --- groups ------------------------------------------------------------------------------------------------------- */

/* With disks missing stripes narrow; what cannot narrow further puts columns on a missing disk, which are made good
 * when it is back. */
bool group_shape(const struct pool *p, const struct pool_group *g, struct group_shape *ret)
{
	unsigned parity = g->parity;

	ret->disk_count = ret->online = 0;
	for (unsigned i = 0; i < g->disk_count; i++)
		if (p->disks[g->disks[i]].state == PD_ONLINE)
			ret->disks[ret->disk_count++] = g->disks[i];
	ret->online = ret->disk_count;
	if (ret->online == 0)
		return false;
	ret->p = parity;
	ret->k = 1;
	if (ret->online > parity) {
		ret->k = min_of(g->width, ret->online) - parity;
		return true;
	}
	for (unsigned i = 0; i < g->disk_count; i++) {
		const struct pool_disk *d = &p->disks[g->disks[i]];

		if (d->state != PD_ONLINE && d->state != PD_REMOVED && d->zone_count)
			ret->disks[ret->disk_count++] = g->disks[i];
	}
	ret->p = min_of(parity, ret->disk_count - 1);
	return true;
}

/* The largest t so that the disks give `width` columns to each of t rows: sum of min(room, t) >= width × t. In bytes.
 */
static uint64_t rows_bytes(const uint64_t *room, unsigned count, unsigned width)
{
	uint64_t low = 0, high = 0;

	for (unsigned i = 0; i < count; i++)
		high += room[i];
	high /= width;
	while (low < high) {
		uint64_t t = low + (high - low + 1) / 2, sum = 0;

		for (unsigned i = 0; i < count; i++)
			sum += min_of(room[i], t);
		if (sum / width >= t)
			low = t;
		else
			high = t - 1;
	}
	return low;
}

/* Of a disk, for data: free zones beyond the reserve, and free columns of at least this class, each for one record. */
static uint64_t disk_room(const struct pool *p, const struct pool_disk *d, unsigned class)
{
	uint64_t bytes = 0;

	if (d->zones_free > d->zones_kept)
		bytes += (uint64_t)(d->zones_free - d->zones_kept) * zone_columns(d, class) * class_bytes[class];
	for (unsigned c = class; c < CLASS_COUNT; c++)
		bytes += (uint64_t)p->space->free_columns[d->index][c] * class_bytes[class];
	return bytes;
}

static uint64_t disk_room_of_any(const struct pool *p, const struct pool_disk *d)
{
	uint64_t bytes = d->zones_free > d->zones_kept ? (d->zones_free - d->zones_kept) * d->zone_bytes : 0;

	for (unsigned c = 0; c < CLASS_COUNT; c++)
		bytes += (uint64_t)p->space->free_columns[d->index][c] * class_bytes[c];
	return bytes;
}

/* Bytes of data that the group still takes in columns of a class; CLASS_COUNT: of any. */
static uint64_t group_room(const struct pool *p, const struct pool_group *g, unsigned class)
{
	struct group_shape shape;
	uint64_t room[POOL_DISKS_MAX];

	if (!group_shape(p, g, &shape))
		return 0;
	for (unsigned i = 0; i < shape.disk_count; i++) {
		const struct pool_disk *d = &p->disks[shape.disks[i]];

		room[i] = class == CLASS_COUNT ? disk_room_of_any(p, d) : disk_room(p, d, class);
	}
	uint64_t rows = rows_bytes(room, shape.disk_count, shape.k + shape.p);
	/* With a choice of disks the last rows may not find enough of them: they fill up a run apart. */
	uint64_t apart =
		shape.disk_count > shape.k + shape.p ? shape.disk_count * p->run_bytes / (shape.k + shape.p) : 0;
	return rows > apart ? (rows - apart) * shape.k : 0;
}

static void group_weights(const struct pool *p, unsigned class, int64_t *weight)
{
	uint64_t room[POOL_GROUPS_MAX], most = 0;

	for (unsigned g = 0; g < p->group_count; g++) {
		struct group_shape shape;
		uint64_t free_bytes = 0;

		room[g] = 0;
		if (!group_shape(p, &p->groups[g], &shape))
			continue;
		for (unsigned i = 0; i < shape.disk_count; i++)
			free_bytes += p->disks[shape.disks[i]].free_bytes;
		room[g] = free_bytes / (shape.k + shape.p);
		most = max_of(most, room[g]);
	}
	for (unsigned g = 0; g < p->group_count; g++)
		weight[g] = most ? (int64_t)((room[g] * GROUP_WEIGHT_ONE + most / 2) / most) : 0;
}

/* Smooth weighted round robin: each gains its weight, the richest goes and pays all of it. */
static unsigned group_turn(struct space *s, unsigned class, unsigned count, const int64_t *weight, const bool *full)
{
	unsigned best = count;
	int64_t total = 0;

	for (unsigned g = 0; g < count; g++) {
		if (full[g])
			continue;
		int64_t w = max_of(weight[g], (int64_t)1);
		total += w;
		s->credit[g][class] += w;
		if (best == count || s->credit[g][class] > s->credit[best][class])
			best = g;
	}
	if (best < count)
		s->credit[best][class] -= total;
	return best;
}

int space_allot(struct pool *p, uint64_t commit, unsigned class, uint32_t records, uint32_t wanted, enum zone_use use,
	bool apart, struct allotment *ret, struct error *err)
{
	struct space *s = p->space;
	bool full[POOL_GROUPS_MAX] = {false};
	int64_t weight[POOL_GROUPS_MAX];
	unsigned usable = 0;

	sp_assert(class < CLASS_COUNT && records > 0 && wanted > 0);
	if (p->group_count > 1) {
		group_weights(p, class, weight);
		for (unsigned g = 0; g < p->group_count; g++)
			usable += weight[g] > 0;
		wanted = usable > 1 ? 1 : wanted;
	} else {
		weight[0] = 1;
	}
	for (;;) {
		unsigned g = group_turn(s, class, p->group_count, weight, full);
		struct error why = ERROR_INIT;

		if (g == p->group_count)
			return error_set(err, ERR_SPACE, "no group has room for %u bytes%s", class_bytes[class],
				use == ZONES_ALL ? "" : " outside the reserve");
		int rc = run_allot(p, g, commit, class, records, wanted, use, apart, ret, &why);
		if (rc != ERR_SPACE)
			return rc ? error_set(err, rc, "%s", why.text) : 0;
		full[g] = true;
		s->credit[g][class] = 0;
	}
}

bool space_is_tight(const struct pool *p)
{
	for (unsigned i = 0; i < p->disk_count; i++) {
		const struct pool_disk *d = &p->disks[i];

		if (d->state == PD_ONLINE && d->zones_free <= 2 * d->zones_kept + 2)
			return true;
	}
	return false;
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

/* Of one group, the next in turn first, those that are there before those that are away: a copy may be promised to a
 * disk that is away, which gets it when it is back. */
static unsigned meta_disks_of(struct pool *p, unsigned g, bool away_too, unsigned *disks)
{
	const struct pool_group *group = &p->groups[g];
	unsigned n = 0;
	struct stretch at;

	for (unsigned away = 0; away <= (away_too && n > 0 ? 1u : 0u); away++)
		for (unsigned i = 0; i < group->disk_count; i++) {
			struct pool_disk *d = &p->disks[group->disks[(p->space->meta_turn[g] + i) % group->disk_count]];
			bool fits = away ? d->state != PD_ONLINE && d->state != PD_REMOVED && d->zone_count > 0
					 : d->state == PD_ONLINE;

			if (fits && zone_find(d, CLASS_META, 1, ZONES_ALL, &at))
				disks[n++] = d->index;
		}
	return n;
}

/* The disks that a row of copies may go to: those of one group while one has enough of them, else of one that has
 * enough with those that are away, else any. */
static unsigned meta_disks(struct pool *p, unsigned copies, unsigned *disks)
{
	struct space *s = p->space;
	unsigned n = 0;

	for (unsigned away = 0; away < 2; away++)
		for (unsigned turn = 0; turn < p->group_count; turn++) {
			unsigned g = (s->meta_group + turn) % p->group_count;

			n = meta_disks_of(p, g, away != 0, disks);
			if (n < copies)
				continue;
			s->meta_turn[g] = (s->meta_turn[g] + copies) % p->groups[g].disk_count;
			s->meta_group = (g + 1) % p->group_count;
			return n;
		}
	n = 0;
	for (unsigned turn = 0; turn < p->group_count; turn++)
		n += meta_disks_of(p, (s->meta_group + turn) % p->group_count, false, disks + n);
	s->meta_group = (s->meta_group + 1) % p->group_count;
	for (unsigned g = 0; g < p->group_count; g++)
		s->meta_turn[g] = (s->meta_turn[g] + 1) % p->groups[g].disk_count;
	return n;
}

int space_allot_meta(struct pool *p, uint32_t wanted, struct meta_extent *ret, struct error *err)
{
	unsigned disks[POOL_DISKS_MAX], copies = max_of(p->copies, 1u), n;
	struct stretch at[POOL_COPIES_MAX];
	struct meta_extent e = {.count = min_of(wanted, META_ROW_PIECES)};

	sp_assert(wanted > 0 && copies <= POOL_COPIES_MAX);
	n = meta_disks(p, copies, disks);
	if (n == 0)
		return error_set(err, ERR_SPACE, "no disk has room for a node");
	copies = min_of(copies, n);
	/* Fewer copies than wanted only when disks are missing, not when they are full. */
	unsigned online = 0;
	for (unsigned i = 0; i < p->disk_count; i++)
		online += p->disks[i].state == PD_ONLINE;
	if (copies < min_of(p->copies, online))
		return error_set(
			err, ERR_SPACE, "only %u disks have room for a node, %u copies are needed", copies, p->copies);
	for (unsigned c = 0; c < copies; c++) {
		bool found = zone_find(&p->disks[disks[c]], CLASS_META, e.count, ZONES_ALL, &at[c]);

		sp_assert(found);
		e.count = min_of(e.count, at[c].count);
	}
	for (; e.copies < copies; e.copies++) {
		struct pool_disk *d = &p->disks[disks[e.copies]];

		at[e.copies].count = e.count;
		int rc = zone_take(p, d, CLASS_META, &at[e.copies], &e.copy[e.copies].unit, err);
		if (rc) {
			space_unallot_meta(p, &e, 0);
			return rc;
		}
		e.copy[e.copies].disk = (uint8_t)d->index;
	}
	*ret = e;
	return 0;
}

void space_unallot_meta(struct pool *p, const struct meta_extent *e, uint32_t from)
{
	for (unsigned c = 0; c < e->copies; c++)
		zone_release(p, e->copy[c].disk, CLASS_META, e->copy[c].unit + from * class_units(CLASS_META),
			e->count - from);
}

int space_take_meta(struct pool *p, struct disk_address a, struct error *err)
{
	return zone_claim(p, a.disk, CLASS_META, a.unit, 1, err);
}

void space_free_meta(struct pool *p, const struct bp *bp)
{
	uint32_t pieces = (uint32_t)((bp->physical_bytes + NODE_BYTES - 1) / NODE_BYTES);

	for (unsigned c = 0; c < bp->copies; c++) {
		zone_mark_waiting(p, bp->copy[c].disk, bp->copy[c].unit, pieces);
		(void)space_quarantine(
			p, p->checkpoint_durable + 1, bp->copy[c].disk, CLASS_META, bp->copy[c].unit, pieces);
	}
}

/* --- quarantine --------------------------------------------------------------------------------------------------- */

int space_quarantine(struct pool *p, uint64_t tag, unsigned disk, unsigned class, uint64_t unit, uint32_t count)
{
	struct space *s = p->space;

	if (s->waiting_count) { /* stripes of a run die in order: one entry a disk, at most some entries back */
		size_t least = s->waiting_count > POOL_WIDTH_MAX ? s->waiting_count - POOL_WIDTH_MAX : 0;

		for (size_t i = s->waiting_count; i-- > least;) {
			struct waiting *w = &s->waiting[i];

			if (w->disk == disk && w->class == class && w->tag == tag &&
				w->unit + w->count * class_units(class) == unit &&
				(unit - p->disks[disk].data_start_bytes / POOL_UNIT_BYTES) %
					(p->disks[disk].zone_bytes / POOL_UNIT_BYTES)) {
				w->count += count;
				return 0;
			}
		}
	}
	if (s->waiting_count == s->waiting_room) {
		size_t room = max_of(s->waiting_room * 2, (size_t)256);
		struct waiting *larger = realloc(s->waiting, room * sizeof *larger);

		if (!larger)
			return ERR_MEMORY;
		s->waiting = larger;
		s->waiting_room = room;
	}
	s->waiting[s->waiting_count++] = (struct waiting){
		.tag = tag, .unit = unit, .count = count, .disk = (uint8_t)disk, .class = (uint8_t) class};
	return 0;
}

bool space_is_due(const struct pool *p, uint64_t tag)
{
	uint64_t later = pool_breaks(p, 2) ? 0 : 2;

	return tag + later <= p->checkpoint_durable && (pool_breaks(p, 2) || reader_oldest(p) >= tag);
}

bool space_is_coming(const struct pool *p)
{
	/* What was overwritten is known to be dead only once it is folded. */
	return p->space->waiting_count > 0 || (p->committed && delta_count(p->committed) > 0) ||
	       (p->open && delta_count(p->open->delta) > 0);
}

void space_checkpoint_done(struct pool *p, uint64_t checkpoint)
{
	struct space *s = p->space;
	size_t kept = 0;

	sp_assert(checkpoint <= p->checkpoint_durable);
	for (size_t i = 0; i < s->waiting_count; i++) {
		struct waiting w = s->waiting[i];

		if (space_is_due(p, w.tag)) {
			pool_assert(p, 2, w.tag + 2 <= p->checkpoint_durable && reader_oldest(p) >= w.tag);
			zone_release(p, w.disk, w.class, w.unit, w.count);
		} else {
			s->waiting[kept++] = w;
		}
	}
	s->waiting_count = kept;
	runs_drop_over(p);
}

/* --- readers ------------------------------------------------------------------------------------------------------ */

uint64_t reader_enter(struct pool *p)
{
	struct space *s = p->space;
	uint64_t now = p->checkpoint_durable;

	for (size_t i = s->pin_count; i-- > 0;)
		if (s->pins[i].checkpoint == now) {
			s->pins[i].readers++;
			return now;
		}
	if (s->pin_count == s->pin_room) {
		size_t room = s->pin_room * 2;
		struct pin *larger = realloc(s->pins, room * sizeof *larger);

		if (!larger) { /* an older one does as well */
			s->pins[0].readers++;
			return s->pins[0].checkpoint;
		}
		s->pins = larger;
		s->pin_room = room;
	}
	s->pins[s->pin_count++] = (struct pin){.checkpoint = now, .readers = 1};
	return now;
}

void reader_leave(struct pool *p, uint64_t pin)
{
	struct space *s = p->space;

	for (size_t i = 0; i < s->pin_count; i++)
		if (s->pins[i].checkpoint == pin) {
			if (--s->pins[i].readers == 0) {
				memmove(s->pins + i, s->pins + i + 1, (s->pin_count - i - 1) * sizeof *s->pins);
				s->pin_count--;
			}
			return;
		}
	sp_assert(!"a reader leaves that never came");
}

uint64_t reader_oldest(const struct pool *p)
{
	const struct space *s = p->space;

	return s->pin_count ? s->pins[0].checkpoint : UINT64_MAX; /* they come in order */
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

static uint64_t reservations_unused(const struct pool *p)
{
	uint64_t bytes = 0;

	if (!p->datasets.next)
		return 0;
	list_for_each((struct list *)&p->datasets, node)
	{
		const struct dataset *d = container_of(node, struct dataset, link);

		if (!d->destroyed && d->reservation > d->referenced)
			bytes += d->reservation - d->referenced;
	}
	return bytes;
}

static uint64_t room_bytes(const struct pool *p, unsigned class)
{
	uint64_t bytes = 0;

	for (unsigned g = 0; g < p->group_count; g++)
		bytes += group_room(p, &p->groups[g], class);
	return bytes;
}

static uint64_t available(struct pool *p, unsigned class)
{
	uint64_t room = room_bytes(p, class), taken = spill_promised_bytes(p) + reservations_unused(p);

	return room > taken ? room - taken : 0;
}

uint64_t space_available_bytes(struct pool *p)
{
	return available(p, CLASS_COUNT);
}

uint64_t space_available_for(struct pool *p, uint32_t record_bytes)
{
	return available(p, class_of(record_bytes));
}

/* Of raw bytes on a disk, what they would be as data. */
static uint64_t as_data(const struct pool_group *g, uint64_t raw_bytes)
{
	return raw_bytes / g->width * (g->width - g->parity);
}

void space_figures(struct pool *p, struct pool_space *ret)
{
	const struct space *s = p->space;
	uint64_t waiting[POOL_DISKS_MAX] = {0};

	*ret = (struct pool_space){.data_bytes = s->live_bytes, .pinned_bytes = s->dead_bytes};
	for (size_t i = 0; i < s->waiting_count; i++)
		waiting[s->waiting[i].disk] += (uint64_t)s->waiting[i].count * class_bytes[s->waiting[i].class];
	for (unsigned g = 0; g < p->group_count; g++) {
		const struct pool_group *group = &p->groups[g];
		uint64_t raw = 0, reserve = 0, nodes = 0, pinned = 0;

		for (unsigned i = 0; i < group->disk_count; i++) {
			const struct pool_disk *d = &p->disks[group->disks[i]];

			raw += d->zone_count * d->zone_bytes;
			reserve += d->zones_kept * d->zone_bytes;
			pinned += waiting[d->index];
			for (unsigned z = 0; z < d->zone_count; z++)
				if (d->zones[z].class == CLASS_META)
					nodes += (uint64_t)d->zones[z].used * NODE_BYTES;
		}
		ret->raw_bytes += raw;
		ret->size_bytes += as_data(group, raw);
		ret->reserve_bytes += as_data(group, reserve);
		ret->metadata_bytes += as_data(group, nodes);
		ret->pinned_bytes += as_data(group, pinned);
	}
	/* Nodes that wait are shown as pinned. */
	uint64_t nodes_waiting = 0;

	for (size_t i = 0; i < s->waiting_count; i++)
		if (s->waiting[i].class == CLASS_META)
			nodes_waiting += as_data(&p->groups[p->disks[s->waiting[i].disk].config->group],
				(uint64_t)s->waiting[i].count * NODE_BYTES);
	ret->metadata_bytes -= min_of(nodes_waiting, ret->metadata_bytes);
	ret->reservation_bytes = reservations_unused(p);
	ret->used_bytes = ret->data_bytes + ret->metadata_bytes + ret->snapshot_bytes + ret->reservation_bytes;
	ret->available_bytes = space_available_bytes(p);
}
