/*
 * Of check: the catalog, the trees of all datasets and snapshots, and the dead lists.
 *
 * A dataset and its snapshots are a chain in the order of their birth, which for a clone begins behind its origin:
 *
 *     (origin)  S1  S2  head
 *
 * Each member's dead list is exactly what the one before it has and it has not: SET_BEFORE without SET_TREE. What the
 * members have in all, without what the origin has, is what the dataset is charged for (`used`).
 */
#include <stdio.h>
#include <string.h>

#include "check.h"

#define LLU(v) ((unsigned long long)(v))

/* --- the catalog -------------------------------------------------------------------------------------------------- */

static struct check_dataset *dataset_find(struct check *c, uint64_t id)
{
	size_t low = 0, high = c->dataset_count;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (c->datasets[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low < c->dataset_count && c->datasets[low].id == id ? &c->datasets[low] : NULL;
}

/* Items come in order of id. */
static struct check_dataset *dataset_of(struct check *c, uint64_t id)
{
	struct check_dataset *d = c->dataset_count ? &c->datasets[c->dataset_count - 1] : NULL;

	if (d && d->id >= id)
		return d->id == id ? d : NULL;
	if (c->dataset_count == c->dataset_room) {
		size_t room = max_of(2 * c->dataset_room, (size_t)32);
		struct check_dataset *more = realloc(c->datasets, room * sizeof *more);

		if (!more) {
			check_no_memory(c);
			return NULL;
		}
		c->datasets = more;
		c->dataset_room = room;
	}
	d = &c->datasets[c->dataset_count++];
	*d = (struct check_dataset){.id = id, .root.kind = BP_HOLE, .dead_list = id};
	snprintf(d->name, sizeof d->name, "dataset %llu", LLU(id));
	return d;
}

static void catalog_item(struct check *c, void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct check_dataset *d;
	struct dataset_facts f;
	struct error why = ERROR_INIT;

	if (key.a < TREE_DATASET_FIRST || (key.b != 0 && key.b != CATALOG_ROOT))
		return;
	d = dataset_of(c, key.a);
	if (!d)
		return;
	if (key.b == 0) {
		if (dataset_facts_unpack(value, bytes, &f, &why)) {
			check_find(c, "dataset %llu: %s", LLU(key.a), why.text);
			c->unread = true;
			return;
		}
		d->has_facts = true;
		d->type = f.type;
		d->parent = f.parent;
		d->origin = f.origin;
		d->created_commit = f.created_commit;
		d->volume_bytes = f.volume_bytes;
		d->record_bytes = f.record_bytes;
		snprintf(d->name, sizeof d->name, "dataset %llu (%.32s)", LLU(key.a), f.name);
		return;
	}
	if (bytes != CATALOG_ROOT_BYTES || bp_unpack(value, &d->root, &why) ||
		(d->root.kind != BP_HOLE && d->root.kind != BP_NODE)) {
		check_find(c, "the root of dataset %llu cannot be read: %s", LLU(key.a),
			why.text[0] ? why.text : "it has another size");
		d->root = (struct bp){.kind = BP_HOLE};
		c->unread = true;
		return;
	}
	d->has_root = true;
	d->used = get_le64(value + 64);
	d->referenced = get_le64(value + 72);
	d->logical = get_le64(value + 80);
	d->dead_list = get_le64(value + 88);
	d->newest = get_le64(value + 96);
}

/* The dataset that all of the family come from; bounded, as a circle may have been written. */
static uint64_t family_of(struct check *c, const struct check_dataset *d)
{
	for (size_t steps = 0; steps <= 2 * c->dataset_count; steps++) {
		uint64_t up = d->type == DATASET_SNAPSHOT ? d->parent : d->origin;
		const struct check_dataset *next = up ? dataset_find(c, up) : NULL;

		if (!next)
			return d->id;
		d = next;
	}
	check_find(c, "%s comes from itself", d->name);
	return d->id;
}

static void dataset_facts_check(struct check *c, const struct check_dataset *d)
{
	const struct check_dataset *parent = dataset_find(c, d->parent),
				   *origin = d->origin ? dataset_find(c, d->origin) : NULL;

	if (d->id == TREE_DATASET_FIRST)
		return; /* the root dataset lies in nothing and needs no item */
	if (!d->has_facts) {
		check_find(c, "%s has a root and no name", d->name);
		return;
	}
	if (d->parent != TREE_DATASET_FIRST && !parent)
		check_find(c, "%s lies in dataset %llu, which does not exist", d->name, LLU(d->parent));
	else if (parent && parent->type == DATASET_SNAPSHOT)
		check_find(c, "%s lies in a snapshot", d->name);
	if (d->origin && (!origin || origin->type != DATASET_SNAPSHOT))
		check_find(c, "%s is a clone of %llu, which is no snapshot", d->name, LLU(d->origin));
	if (d->created_commit > c->uber.commit)
		check_find(c, "%s was made in commit %llu; the checkpoint ends with %llu", d->name,
			LLU(d->created_commit), LLU(c->uber.commit));
}

/* --- one tree ----------------------------------------------------------------------------------------------------- */

struct tree_figures {
	const struct check_dataset *d;
	bool quiet;
	uint64_t charged_after; /* commit of the origin */
	uint64_t referenced, logical, *charged;
};

static uint64_t stored_bytes(const struct bp *bp)
{
	return bp->kind == BP_DATA ? class_bytes[class_of(bp->physical_bytes)] : 0;
}

static void pointer_check(struct check *c, struct tree_figures *f, struct key key, const struct bp *bp)
{
	const struct check_dataset *d = f->d;
	struct check_run *r = check_run_find(c, bp->run);
	size_t bit;

	if (!r || bp->stripe >= r->stripes || bp->column >= r->k) {
		if (!f->quiet && (r || !c->unread))
			check_find(c, "%s, record %llu: run %llu has no stripe %u with data column %u", d->name,
				LLU(key.a), LLU(bp->run), bp->stripe, bp->column);
		return;
	}
	bit = (size_t)bp->stripe * r->k + bp->column;
	if (!f->quiet) {
		if (set_has(r->sets[SET_TREE], bit))
			check_find(c, "%s, record %llu: run %llu, stripe %u, column %u is another record's too",
				d->name, LLU(key.a), LLU(bp->run), bp->stripe, bp->column);
		if (!set_has(r->sets[SET_FAMILY], bit) && set_has(r->sets[SET_ALL], bit))
			check_find(c, "%s, record %llu: run %llu, stripe %u, column %u is another dataset's too",
				d->name, LLU(key.a), LLU(bp->run), bp->stripe, bp->column);
		if (!set_has(r->sets[SET_STATED], bit))
			check_find(c, "%s, record %llu: run %llu, stripe %u, column %u is not live", d->name,
				LLU(key.a), LLU(bp->run), bp->stripe, bp->column);
		if (bp->physical_bytes > class_bytes[r->class])
			check_find(c, "%s, record %llu: %u bytes in a column of %u", d->name, LLU(key.a),
				bp->physical_bytes, class_bytes[r->class]);
		if (bp->birth < r->birth || bp->birth > r->birth_last)
			check_find(c,
				"%s, record %llu: born in commit %llu in run %llu, which was written from %llu to %llu",
				d->name, LLU(key.a), LLU(bp->birth), LLU(bp->run), LLU(r->birth), LLU(r->birth_last));
		if (!set_has(r->sets[SET_ALL], bit) && c->verify_data && bp->physical_bytes <= class_bytes[r->class])
			check_record_data(c, r, bp, d->id, key.a);
		set_add(r->sets[SET_ALL], bit);
		set_add(r->sets[SET_FAMILY], bit);
		if (f->charged && bp->birth > f->charged_after && !set_has(r->sets[SET_CHARGED], bit)) {
			set_add(r->sets[SET_CHARGED], bit);
			*f->charged += stored_bytes(bp);
		}
	}
	set_add(r->sets[SET_TREE], bit);
}

static void record_item(struct check *c, void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct tree_figures *f = arg;
	const struct check_dataset *d = f->d;
	struct error why = ERROR_INIT;
	struct bp bp;

	if (bp_unpack_value(value, bytes, &bp, &why)) {
		if (!f->quiet)
			check_find(c, "%s, record %llu: %s", d->name, LLU(key.a), why.text);
		return;
	}
	if (!f->quiet) {
		c->result.records++;
		if (bp.kind == BP_NODE)
			check_find(c, "%s, record %llu: a pointer to a node", d->name, LLU(key.a));
		if (bp.birth > c->uber.commit)
			check_find(c, "%s, record %llu: born in commit %llu; the checkpoint ends with %llu", d->name,
				LLU(key.a), LLU(bp.birth), LLU(c->uber.commit));
		if (d->volume_bytes && (key.b != 0 || d->record_bytes == 0 || bp.logical_bytes > d->record_bytes ||
					       key.a >= (d->volume_bytes + d->record_bytes - 1) / d->record_bytes))
			check_find(c,
				"%s, record %llu: %u bytes lie outside of a volume of %llu bytes in records of %u",
				d->name, LLU(key.a), bp.logical_bytes, LLU(d->volume_bytes), d->record_bytes);
		f->referenced += stored_bytes(&bp);
		f->logical += bp.kind == BP_HOLE ? 0 : bp.logical_bytes;
	}
	if (bp.kind == BP_DATA)
		pointer_check(c, f, key, &bp);
}

static void swap_before(struct check *c)
{
	for (size_t i = 0; i < c->run_count; i++) {
		uint8_t *keep = c->runs[i].sets[SET_BEFORE];

		c->runs[i].sets[SET_BEFORE] = c->runs[i].sets[SET_TREE];
		c->runs[i].sets[SET_TREE] = keep;
	}
	for (unsigned d = 0; d < c->p->disk_count; d++)
		for (unsigned z = 0; c->zones[d] && z < c->p->disks[d].zone_count; z++) {
			struct check_zone *zone = &c->zones[d][z];
			/* sets[0] is what is freed: SET_STATED, which stays where it is */
			uint8_t *keep = zone->sets[SET_BEFORE];

			zone->sets[SET_BEFORE] = zone->sets[SET_TREE];
			zone->sets[SET_TREE] = keep;
		}
}

static void walk_dataset(struct check *c, struct tree_figures *f)
{
	check_runs_clear(c, SET_TREE);
	check_tree(c, &f->d->root, f->d->id, f->d->name, f->quiet, record_item, f);
}

/* --- dead lists --------------------------------------------------------------------------------------------------- */

struct dead_walk {
	struct check *c;
	const struct check_dataset *d;
	bool wrong;
};

/* Takes the place out of SET_BEFORE; false when it is not what the list should have. */
static bool dead_take(struct check *c, const struct bp *bp)
{
	bool fits = true;

	if (bp->kind == BP_DATA) {
		struct check_run *r = check_run_find(c, bp->run);
		size_t bit = r ? (size_t)bp->stripe * r->k + bp->column : 0;

		if (!r || bp->stripe >= r->stripes || bp->column >= r->k || !set_has(r->sets[SET_BEFORE], bit) ||
			set_has(r->sets[SET_TREE], bit))
			return false;
		set_drop(r->sets[SET_BEFORE], bit);
		return true;
	}
	if (bp->kind != BP_NODE)
		return false;
	for (unsigned i = 0; i < bp->copies; i++) {
		struct check_zone *z;
		size_t bit;

		if (!check_piece(c, bp->copy[i], &z, &bit) || !set_has(z->sets[SET_BEFORE], bit) ||
			set_has(z->sets[SET_TREE], bit))
			fits = false;
		else
			set_drop(z->sets[SET_BEFORE], bit);
	}
	return fits;
}

static bool dead_item(void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct dead_walk *w = arg;
	struct bp bp;

	if (key.a != w->d->dead_list)
		return false;
	if (bytes != BP_BYTES || bp_unpack(value, &bp, NULL))
		check_find(w->c, "item {%llu, %llu} of the dead lists is no pointer", LLU(key.a), LLU(key.b));
	else if (!w->c->unread && !dead_take(w->c, &bp))
		check_find(w->c,
			"the dead list of %s has a pointer (%s %llu, stripe %u, column %u) that is not what it lost to "
			"the snapshot before",
			w->d->name, bp.kind == BP_DATA ? "run" : "node on disk",
			bp.kind == BP_DATA ? LLU(bp.run) : LLU(bp.copy[0].disk), bp.stripe, bp.column);
	return w->c->rc == 0;
}

static void dead_list_check(struct check *c, const struct check_dataset *d)
{
	struct dead_walk w = {.c = c, .d = d};
	struct error why = ERROR_INIT;
	size_t columns = 0, pieces = 0;
	int rc = tree_walk(c->p, &c->uber.dead, TREE_DEAD, (struct key){d->dead_list, 0}, dead_item, &w, &why);

	if (rc) {
		check_find(c, "the dead list of %s cannot be read: %s", d->name, why.text);
		return;
	}
	for (size_t i = 0; i < c->run_count; i++)
		for (size_t bit = 0; bit < (size_t)c->runs[i].stripes * c->runs[i].k; bit++)
			columns +=
				set_has(c->runs[i].sets[SET_BEFORE], bit) && !set_has(c->runs[i].sets[SET_TREE], bit);
	for (unsigned k = 0; k < c->p->disk_count; k++)
		for (unsigned z = 0; c->zones[k] && z < c->p->disks[k].zone_count; z++)
			for (size_t bit = 0; c->zones[k][z].sets[0] && bit < c->p->disks[k].zone_bytes / NODE_BYTES;
				bit++)
				pieces += set_has(c->zones[k][z].sets[SET_BEFORE], bit) &&
					  !set_has(c->zones[k][z].sets[SET_TREE], bit);
	if ((columns || pieces) && !c->unread)
		check_find(c,
			"%s lost %zu columns and %zu copies of nodes that the snapshot before it has, and its dead "
			"list lacks them",
			d->name, columns, pieces);
}

/* Lists that nobody has. */
static void dead_tree_item(struct check *c, void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	uint64_t *last = arg;

	if (key.a == *last)
		return;
	*last = key.a;
	for (size_t i = 0; i < c->dataset_count; i++)
		if (c->datasets[i].dead_list == key.a)
			return;
	if (!c->unread)
		check_find(c, "there is a dead list %llu, which no dataset has", LLU(key.a));
}

/* --- chains ------------------------------------------------------------------------------------------------------- */

static int chain_order(const void *x, const void *y)
{
	const struct check_dataset *a = *(const struct check_dataset *const *)x,
				   *b = *(const struct check_dataset *const *)y;

	if ((a->type == DATASET_SNAPSHOT) != (b->type == DATASET_SNAPSHOT))
		return a->type == DATASET_SNAPSHOT ? -1 : 1; /* the head is last */
	return a->created_commit < b->created_commit ? -1 : a->created_commit > b->created_commit;
}

static void check_member(struct check *c, struct check_dataset *d, uint64_t charged_after, uint64_t *charged)
{
	struct tree_figures f = {.d = d, .charged_after = charged_after, .charged = charged};

	walk_dataset(c, &f);
	if (c->unread || c->rc)
		return;
	if (f.referenced != d->referenced || f.logical != d->logical)
		check_find(c, "%s refers to %llu bytes (%llu before compression); its figures say %llu (%llu)", d->name,
			LLU(f.referenced), LLU(f.logical), LLU(d->referenced), LLU(d->logical));
}

/* A dataset that is no snapshot, and all of its snapshots. */
static void check_chain(struct check *c, struct check_dataset *head)
{
	struct check_dataset *origin = head->origin ? dataset_find(c, head->origin) : NULL, **chain;
	size_t count = 0;
	uint64_t charged = 0, newest;

	chain = malloc(c->dataset_count * sizeof *chain);
	if (!chain) {
		check_no_memory(c);
		return;
	}
	for (size_t i = 0; i < c->dataset_count; i++)
		if (&c->datasets[i] == head ||
			(c->datasets[i].type == DATASET_SNAPSHOT && c->datasets[i].parent == head->id))
			chain[count++] = &c->datasets[i];
	qsort(chain, count, sizeof *chain, chain_order);
	check_runs_clear(c, SET_CHARGED);
	check_runs_clear(c, SET_TREE);
	check_pieces_clear(c, SET_TREE);
	if (origin) {
		struct tree_figures f = {.d = origin, .quiet = true};

		walk_dataset(c, &f);
	}
	newest = origin ? origin->created_commit : 0;
	for (size_t i = 0; i < count && c->rc == 0; i++) {
		swap_before(c);
		check_member(c, chain[i], origin ? origin->created_commit : 0, &charged);
		if (c->rc == 0)
			dead_list_check(c, chain[i]);
		if (chain[i] == head && head->has_root && head->newest != newest)
			check_find(c, "%s takes %llu for the commit of the snapshot before it, which is %llu",
				chain[i]->name, LLU(chain[i]->newest), LLU(newest));
		newest = chain[i]->created_commit;
	}
	if (c->rc == 0 && !c->unread && charged != head->used)
		check_find(c, "%s and its snapshots use %llu bytes; its figures say %llu", head->name, LLU(charged),
			LLU(head->used));
	free(chain);
}

static int family_order(const void *x, const void *y)
{
	const struct check_dataset *a = *(const struct check_dataset *const *)x,
				   *b = *(const struct check_dataset *const *)y;

	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

static void check_heads(struct check *c)
{
	struct check_dataset **heads = malloc((c->dataset_count + 1) * sizeof *heads);
	size_t count = 0;
	uint64_t family = 0;

	if (!heads) {
		check_no_memory(c);
		return;
	}
	for (size_t i = 0; i < c->dataset_count; i++)
		if (c->datasets[i].type != DATASET_SNAPSHOT)
			heads[count++] = &c->datasets[i];
	qsort(heads, count, sizeof *heads, family_order);
	for (size_t i = 0; i < count && c->rc == 0; i++) {
		if (i == 0 || heads[i]->family != family) {
			check_pieces_clear(c, SET_FAMILY);
			check_runs_clear(c, SET_FAMILY);
		}
		family = heads[i]->family;
		check_chain(c, heads[i]);
	}
	free(heads);
}

void check_datasets(struct check *c)
{
	uint64_t last_list = 0;

	check_pieces_clear(c, SET_FAMILY);
	check_tree(c, &c->uber.catalog, TREE_CATALOG, "the catalog", false, catalog_item, NULL);
	for (size_t i = 0; i < c->dataset_count && c->rc == 0; i++) {
		dataset_facts_check(c, &c->datasets[i]);
		c->datasets[i].family = family_of(c, &c->datasets[i]);
	}
	check_pieces_clear(c, SET_FAMILY);
	check_tree(c, &c->uber.dead, TREE_DEAD, "the tree of dead lists", false, dead_tree_item, &last_list);
	check_heads(c);
	check_records_flush(c);
}
