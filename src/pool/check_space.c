/* Of check: runs, the map of nodes, who lies where, and what the open pool holds in memory. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "space.h"

#define LLU(v) ((unsigned long long)(v))

/* --- the map of nodes --------------------------------------------------------------------------------------------- */

static void map_item(struct check *c, void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	const struct pool *p = c->p;
	struct check_zone *z;
	size_t bit;

	if (key.a >= p->disk_count || key.b >= p->disks[key.a].zone_count ||
		bytes != (p->disks[key.a].zone_bytes / NODE_BYTES + 7) / 8) {
		check_find(c, "the map of nodes has %u bytes for zone %llu of disk %llu, which cannot be", bytes,
			LLU(key.b), LLU(key.a));
		return;
	}
	for (size_t i = 0; i < bytes * 8u && c->rc == 0; i++) {
		const struct pool_disk *d = &p->disks[key.a];
		struct disk_address a = {(uint8_t)key.a,
			(d->data_start_bytes + key.b * d->zone_bytes + i * NODE_BYTES) / POOL_UNIT_BYTES};

		if (!(value[i / 8] >> (i % 8) & 1))
			continue;
		if (!check_piece(c, a, &z, &bit))
			check_find(c, "the map of nodes has a piece behind the end of zone %llu of disk %llu",
				LLU(key.b), LLU(key.a));
		else
			set_add(z->sets[SET_STATED], bit);
	}
}

void check_load_map(struct check *c)
{
	check_tree(c, &c->uber.metamap, TREE_METAMAP, "the map of nodes", true, map_item, NULL);
	check_tree(c, &c->uber.metamap, TREE_METAMAP, "the map of nodes", false, NULL, NULL);
}

static void check_map(struct check *c)
{
	for (unsigned d = 0; d < c->p->disk_count; d++)
		for (unsigned z = 0; c->zones[d] && z < c->p->disks[d].zone_count; z++) {
			const struct check_zone *zone = &c->zones[d][z];
			size_t pieces = (size_t)(c->p->disks[d].zone_bytes / NODE_BYTES), leaked = 0;

			for (size_t i = 0; zone->sets[0] && i < pieces; i++)
				leaked += set_has(zone->sets[SET_STATED], i) && !set_has(zone->sets[SET_ALL], i);
			if (leaked && !c->unread)
				check_find(c,
					"zone %u of disk %u: %zu places of nodes are taken and no tree reaches them", z,
					d, leaked);
		}
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

static size_t set_bytes(const struct check_run *r)
{
	return ((size_t)r->stripes * r->k + 7) / 8;
}

static void run_shape(struct check *c, const struct check_run *r)
{
	unsigned width = r->k + r->p;

	/* birth_last may be that of a commit that was under way: it says no more than what is at most there */
	if (r->birth > r->birth_last || r->birth > c->uber.commit)
		check_find(c, "run %llu holds stripes of commits %llu to %llu; the checkpoint ends with %llu",
			LLU(r->id), LLU(r->birth), LLU(r->birth_last), LLU(c->uber.commit));
	for (unsigned i = 0; i < width; i++)
		for (unsigned k = 0; k < i; k++)
			if (r->column[i].disk == r->column[k].disk)
				check_find(c, "run %llu: columns %u and %u lie on one disk, %u", LLU(r->id), k, i,
					r->column[i].disk);
}

static bool run_keep(struct check *c, const struct run_format *f)
{
	struct check_run *r;
	size_t returned_bytes = (f->stripes + 7) / 8, bytes = ((size_t)f->stripes * f->k + 7) / 8;

	if (c->run_count == c->run_room) {
		size_t room = max_of(2 * c->run_room, (size_t)256);
		struct check_run *more = realloc(c->runs, room * sizeof *more);

		if (!more)
			return check_no_memory(c);
		c->runs = more;
		c->run_room = room;
	}
	r = &c->runs[c->run_count];
	*r = (struct check_run){.id = f->id,
		.birth = f->birth,
		.birth_last = f->birth_last,
		.stripes = f->stripes,
		.group = f->group,
		.class = f->class,
		.k = f->k,
		.p = f->p};
	memcpy(r->column, f->column, sizeof r->column);
	memcpy(r->column_state, f->column_state, sizeof r->column_state);
	r->returned = calloc(1, returned_bytes + SET_COUNT * bytes + 1);
	if (!r->returned)
		return check_no_memory(c);
	memcpy(r->returned, f->returned, returned_bytes);
	for (unsigned s = 0; s < SET_COUNT; s++)
		r->sets[s] = r->returned + returned_bytes + s * bytes;
	memcpy(r->sets[SET_STATED], f->live, bytes);
	c->run_count++;
	return true;
}

static void run_item(struct check *c, void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct run_format *f = c->format;
	struct error why = ERROR_INIT;

	if (run_unpack(value, bytes, f, &why)) {
		c->unread = true;
		check_find(c, "the descriptor of run %llu: %s", LLU(key.a), why.text);
		return;
	}
	if (f->id != key.a || key.b != 0 || f->group >= c->p->group_count || f->stripes == 0 ||
		(c->run_count > 0 && c->runs[c->run_count - 1].id >= f->id)) {
		check_find(c, "the descriptor at {%llu, %llu} is of run %llu, with %u stripes in group %u", LLU(key.a),
			LLU(key.b), LLU(f->id), f->stripes, f->group);
		return;
	}
	if (run_keep(c, f)) {
		c->result.runs++;
		run_shape(c, &c->runs[c->run_count - 1]);
	}
}

struct check_run *check_run_find(struct check *c, uint64_t id)
{
	size_t low = 0, high = c->run_count;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (c->runs[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low < c->run_count && c->runs[low].id == id ? &c->runs[low] : NULL;
}

void check_runs_clear(struct check *c, enum check_set set)
{
	for (size_t i = 0; i < c->run_count; i++)
		memset(c->runs[i].sets[set], 0, set_bytes(&c->runs[i]));
}

static void sums_item(struct check *c, void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct check_run *r = check_run_find(c, key.a);
	unsigned per_item, each;

	if (!r) {
		if (!c->unread)
			check_find(c, "there are sums of run %llu, which does not exist", LLU(key.a));
		return;
	}
	per_item = sums_stripes_per_item(r->k + r->p, r->class);
	each = (r->k + r->p) * sums_per_column(r->class) * 4;
	if (key.b >= RUN_STRIPES_MAX || key.b * per_item >= r->stripes ||
		bytes != min_of(per_item, r->stripes - (uint32_t)key.b * per_item) * each)
		check_find(c, "run %llu has %u stripes; its sums from stripe %llu on are %u bytes", LLU(r->id),
			r->stripes, LLU(key.b * per_item), bytes);
	else
		r->sums_items++;
}

void check_load_runs(struct check *c)
{
	check_pieces_clear(c, SET_FAMILY);
	check_tree(c, &c->uber.runs, TREE_RUNS, "the tree of runs", false, run_item, NULL);
	check_pieces_clear(c, SET_FAMILY);
	check_tree(c, &c->uber.sums, TREE_SUMS, "the tree of sums", false, sums_item, NULL);
	for (size_t i = 0; i < c->run_count && !c->unread; i++) {
		const struct check_run *r = &c->runs[i];
		unsigned per_item = sums_stripes_per_item(r->k + r->p, r->class);

		if (r->sums_items != (r->stripes + per_item - 1) / per_item)
			check_find(c, "run %llu has %u stripes and %u of %u items of sums", LLU(r->id), r->stripes,
				r->sums_items, (r->stripes + per_item - 1) / per_item);
	}
}

static void check_columns(struct check *c)
{
	for (size_t i = 0; i < c->run_count; i++) {
		const struct check_run *r = &c->runs[i];
		size_t leaked = 0, first = 0;

		for (uint32_t s = 0; s < r->stripes; s++) {
			unsigned live = 0;

			for (unsigned k = 0; k < r->k; k++) {
				size_t bit = (size_t)s * r->k + k;

				live += set_has(r->sets[SET_STATED], bit);
				if (set_has(r->sets[SET_STATED], bit) && !set_has(r->sets[SET_ALL], bit) &&
					leaked++ == 0)
					first = bit;
			}
			if (set_has(r->returned, s) ? live > 0 : live == 0)
				check_find(c, "run %llu, stripe %u: %s", LLU(r->id), s,
					live ? "it was given back and has live columns"
					     : "it has no live column and was not given back");
		}
		if (leaked && !c->unread)
			check_find(c,
				"run %llu: %zu columns are live and no record has them (the first: stripe %zu, column "
				"%zu)",
				LLU(r->id), leaked, first / r->k, first % r->k);
	}
}

/* --- who lies where ----------------------------------------------------------------------------------------------- */

struct extent {
	uint64_t unit, units;
	uint64_t run; /* 0: nodes */
	uint8_t class;
};

struct extents {
	struct extent *items;
	size_t count, room;
};

static bool extent_add(struct check *c, struct extents *e, uint64_t unit, uint64_t units, uint64_t run, unsigned class)
{
	if (e->count == e->room) {
		size_t room = max_of(2 * e->room, (size_t)256);
		struct extent *more = realloc(e->items, room * sizeof *more);

		if (!more)
			return check_no_memory(c);
		e->items = more;
		e->room = room;
	}
	e->items[e->count++] = (struct extent){.unit = unit, .units = units, .run = run, .class = (uint8_t) class};
	return true;
}

static int extent_compare(const void *x, const void *y)
{
	const struct extent *a = x, *b = y;

	return a->unit < b->unit ? -1 : a->unit > b->unit;
}

/* Stretches of stripes that were not given back. */
static bool run_extents(struct check *c, struct extents *e, const struct check_run *r, unsigned disk)
{
	for (unsigned i = 0; i < r->k + r->p; i++)
		for (uint32_t s = 0, end; r->column[i].disk == disk && s < r->stripes; s = end) {
			for (end = s; end < r->stripes && !set_has(r->returned, end);)
				end++;
			if (end > s && !extent_add(c, e, r->column[i].unit + s * class_units(r->class),
					       (end - s) * class_units(r->class), r->id, r->class))
				return false;
			end = max_of(end, s + 1);
		}
	return true;
}

static bool node_extents(struct check *c, struct extents *e, unsigned disk)
{
	const struct pool_disk *d = &c->p->disks[disk];

	for (unsigned z = 0; c->zones[disk] && z < d->zone_count; z++) {
		const struct check_zone *zone = &c->zones[disk][z];
		uint64_t base = (d->data_start_bytes + z * d->zone_bytes) / POOL_UNIT_BYTES;

		for (size_t i = 0; zone->sets[0] && i < d->zone_bytes / NODE_BYTES; i++)
			if ((set_has(zone->sets[SET_STATED], i) || set_has(zone->sets[SET_ALL], i)) &&
				!extent_add(c, e, base + i * class_units(CLASS_META), class_units(CLASS_META), 0,
					CLASS_META))
				return false;
	}
	return true;
}

static void extent_name(const struct extent *e, char text[48])
{
	if (e->run)
		snprintf(text, 48, "run %llu", LLU(e->run));
	else
		snprintf(text, 48, "a tree node");
}

static void judge_extents(struct check *c, const struct extents *e, unsigned disk)
{
	const struct pool_disk *d = &c->p->disks[disk];
	uint64_t start = d->data_start_bytes / POOL_UNIT_BYTES, zone_units = d->zone_bytes / POOL_UNIT_BYTES;
	char name[48], other[48];

	for (size_t i = 0; i < e->count; i++) {
		const struct extent *x = &e->items[i], *before = i ? x - 1 : NULL;
		uint64_t zone = x->unit < start || zone_units == 0 ? UINT64_MAX : (x->unit - start) / zone_units;

		extent_name(x, name);
		if (zone >= d->zone_count || (x->unit - start) % zone_units + x->units > zone_units ||
			(x->unit - start) % zone_units % class_units(x->class)) {
			check_find(c, "disk %u: %s lies at byte %llu, which is no place of a zone for it", disk, name,
				LLU(x->unit * POOL_UNIT_BYTES));
			continue;
		}
		if (!before)
			continue;
		extent_name(before, other);
		if (before->unit + before->units > x->unit)
			check_find(c, "disk %u: %s and %s overlap at byte %llu", disk, other, name,
				LLU(x->unit * POOL_UNIT_BYTES));
		else if (before->unit >= start && (before->unit - start) / zone_units == zone &&
			 before->class != x->class)
			check_find(c, "disk %u: %s and %s of different classes share zone %llu", disk, other, name,
				LLU(zone));
	}
}

static void check_places(struct check *c)
{
	struct extents e = {0};

	for (unsigned d = 0; d < c->p->disk_count && c->rc == 0; d++) {
		e.count = 0;
		for (size_t i = 0; i < c->run_count; i++)
			if (!run_extents(c, &e, &c->runs[i], d))
				break;
		if (c->rc || !node_extents(c, &e, d))
			break;
		if (e.count > 1)
			qsort(e.items, e.count, sizeof *e.items, extent_compare);
		if (c->p->disks[d].zone_count > 0 || c->p->disks[d].disk)
			judge_extents(c, &e, d);
	}
	free(e.items);
}

void check_space(struct check *c)
{
	check_map(c);
	check_columns(c);
	check_places(c);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static uint32_t stripes_held(const struct run *r)
{
	uint32_t held = r->stripes_room;

	for (uint32_t s = 0; s < r->stripes; s++)
		held -= bit_get(r->returned, s);
	return held;
}

/* Columns taken on each disk by class, from the owners' side and from the zones' side. */
static void memory_columns(struct check *c, struct run *const *runs, size_t count)
{
	struct pool *p = c->p;
	const struct space *s = p->space;
	uint64_t(*owned)[CLASS_COUNT + 1] = calloc(p->disk_count, sizeof *owned);

	if (!owned) {
		check_no_memory(c);
		return;
	}
	for (size_t i = 0; i < count; i++)
		for (unsigned k = 0; k < (unsigned)runs[i]->k + runs[i]->p; k++)
			owned[runs[i]->column[k].disk][runs[i]->class] += stripes_held(runs[i]);
	for (size_t i = 0; i < s->waiting_count; i++)
		owned[s->waiting[i].disk][s->waiting[i].class] += s->waiting[i].count;
	for (unsigned d = 0; d < p->disk_count; d++) {
		uint64_t taken[CLASS_COUNT + 1] = {0};

		for (unsigned z = 0; p->disks[d].zones && z < p->disks[d].zone_count; z++)
			if (p->disks[d].zones[z].class <= CLASS_META)
				taken[p->disks[d].zones[z].class] += p->disks[d].zones[z].used;
		for (unsigned z = 0; c->zones[d] && z < p->disks[d].zone_count; z++)
			for (size_t i = 0; c->zones[d][z].sets[0] && i < p->disks[d].zone_bytes / NODE_BYTES; i++)
				owned[d][CLASS_META] += set_has(c->zones[d][z].sets[SET_STATED], i);
		for (unsigned class = 0; class <= CLASS_META; class ++)
			if (taken[class] != owned[d][class])
				check_find(c,
					"disk %u: %llu columns of %u bytes are taken in memory, and %llu have an owner",
					d, LLU(taken[class]), class_bytes[class], LLU(owned[d][class]));
	}
	free(owned);
}

static void memory_run(struct check *c, const struct run *r)
{
	const struct check_run *had = check_run_find(c, r->id);
	uint32_t live = 0;

	for (size_t i = 0; i < (size_t)r->stripes * r->k; i++)
		live += bit_get(r->live, i);
	if (live != r->live_count)
		check_find(c, "run %llu has %u live columns in memory and counts %u", LLU(r->id), live, r->live_count);
	if (!had) {
		if (r->known && !r->dirty && !r->over_tag && !c->unread)
			check_find(c, "run %llu is in memory, not changed, and not in the tree", LLU(r->id));
		return;
	}
	if (had->k != r->k || had->p != r->p || had->class != r->class || r->stripes < had->stripes) {
		check_find(c, "run %llu is another one in memory than in the tree", LLU(r->id));
		return;
	}
	for (size_t i = 0; i < (size_t)had->stripes * r->k; i++)
		if (bit_get(r->live, i) != set_has(had->sets[SET_STATED], i)) {
			check_find(c, "run %llu, stripe %zu, column %zu is %s in memory and not so in the tree",
				LLU(r->id), i / r->k, i % r->k, bit_get(r->live, i) ? "live" : "dead");
			break;
		}
}

struct unfolded {
	struct check *c;
	struct unfolded_place {
		uint64_t run;
		uint32_t stripe, column;
	} * places;
	size_t count, room;
};

/* A pointer that only the log has so far. */
static void unfolded_entry(void *arg, const struct delta_entry *e)
{
	struct unfolded *u = arg;
	struct check *c = u->c;
	struct bp bp;
	struct run *r;

	if (e->tree < TREE_DATASET_FIRST || e->bytes == 0 || c->rc)
		return;
	if (bp_unpack_value(e->value, e->bytes, &bp, NULL) != 0) {
		check_find(c, "the log puts what is no pointer at record %llu of dataset %llu", LLU(e->key.a),
			LLU(e->tree));
		return;
	}
	if (bp.kind != BP_DATA)
		return;
	c->result.records++;
	r = run_find(c->p, bp.run);
	if (!r || bp.stripe >= r->stripes || bp.column >= r->k ||
		!bit_get(r->live, (size_t)bp.stripe * r->k + bp.column) || bp.physical_bytes > class_bytes[r->class]) {
		check_find(c,
			"the log has record %llu of dataset %llu in run %llu, stripe %u, column %u, which is not live",
			LLU(e->key.a), LLU(e->tree), LLU(bp.run), bp.stripe, bp.column);
		return;
	}
	if (u->count == u->room) {
		size_t room = max_of(2 * u->room, (size_t)256);
		struct unfolded_place *more = realloc(u->places, room * sizeof *more);

		if (!more) {
			check_no_memory(c);
			return;
		}
		u->places = more;
		u->room = room;
	}
	u->places[u->count++] = (struct unfolded_place){.run = bp.run, .stripe = bp.stripe, .column = bp.column};
}

static int place_order(const void *x, const void *y)
{
	const struct unfolded_place *a = x, *b = y;

	if (a->run != b->run)
		return a->run < b->run ? -1 : 1;
	if (a->stripe != b->stripe)
		return a->stripe < b->stripe ? -1 : 1;
	return a->column < b->column ? -1 : a->column > b->column;
}

static void check_unfolded(struct check *c)
{
	struct unfolded u = {.c = c};

	delta_walk(c->p->committed, unfolded_entry, &u);
	if (u.count > 1)
		qsort(u.places, u.count, sizeof *u.places, place_order);
	for (size_t i = 1; i < u.count; i++)
		if (place_order(&u.places[i - 1], &u.places[i]) == 0)
			check_find(c, "the log has two records in run %llu, stripe %u, column %u", LLU(u.places[i].run),
				u.places[i].stripe, u.places[i].column);
	free(u.places);
}

void check_memory(struct check *c)
{
	struct pool *p = c->p;
	struct run **runs = NULL;
	size_t count = 0;
	bool busy;

	os_scoped_lock(&p->lock);
	busy = p->frozen || p->uber.checkpoint != c->uber.checkpoint || runs_list(p, NULL, &runs, &count, NULL) != 0;
	for (size_t i = 0; i < count; i++)
		busy |= runs[i]->held > 0; /* repair has room of its own just now */
	if (!busy && !c->unread) {
		memory_columns(c, runs, count);
		for (size_t i = 0; i < count; i++)
			memory_run(c, runs[i]);
		for (size_t i = 0; i < c->run_count; i++)
			if (!run_find(p, c->runs[i].id))
				check_find(c, "run %llu is in the tree and not in memory", LLU(c->runs[i].id));
		if (p->committed)
			check_unfolded(c);
	}
	free(runs);
}
