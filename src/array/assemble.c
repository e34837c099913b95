/*
 * Assembly: from disks in any order, under any path, to an array.
 *
 * Every disk's label names all members and what became of them. The newest label decides: a member that it calls online
 * has all bytes (ARRAY-1), one that it calls missing or faulted is stale, whatever the disk says of itself. Two labels
 * that each call the other's disk missing come from two halves that both went on: then nobody can decide, and it is
 * refused.
 */
#include "internal.h"

#include <stdio.h>
#include <string.h>

struct candidate {
	struct disk *disk;
	struct label label;
	struct label_ends ends;
};
struct candidates {
	struct candidate *items;
	unsigned count;
	struct text others; /* what else was found */
	struct error damaged;
};

static const char *path_of(const struct disk *d)
{
	const struct disk_traits *t = disk_traits(d);

	return t->path ? t->path : t->name;
}

static int candidates_load(struct candidates *c, const struct array_open_options *o, struct disk *const *disks,
	unsigned count, struct error *err)
{
	c->items = calloc(max_of(count, 1u), sizeof *c->items);
	if (!c->items)
		return error_set(err, ERR_MEMORY, "out of memory for labels");
	for (unsigned i = 0; i < count; i++) {
		struct candidate *item = &c->items[c->count];
		struct error why = ERROR_INIT;
		int rc = label__load(disks[i], &item->label, &item->ends, &why);

		if (rc == ERR_MEMORY)
			return error_set(err, rc, "%s", why.text);
		if (rc && rc != ERR_NOT_FOUND)
			error_set(&c->damaged, rc, "%s", why.text);
		if (rc)
			continue;
		if (o->name && strcmp(o->name, item->label.name)) {
			text_addf(&c->others, "%s%s on %s", c->others.length ? ", " : "", item->label.name,
				path_of(disks[i]));
			continue;
		}
		item->disk = disks[i];
		c->count++;
	}
	return 0;
}

static int nothing_found(
	const struct candidates *c, const struct array_open_options *o, unsigned disks, struct error *err)
{
	if (c->damaged.code)
		return error_set(err, c->damaged.code, "%s", c->damaged.text);
	if (c->others.length)
		return error_set(err, ERR_NOT_FOUND, "no array %s on these %u disks; found %s", o->name ? o->name : "",
			disks, c->others.bytes);
	return error_set(err, ERR_NOT_FOUND, "no array on these %u disks", disks);
}

/* All of one array, and no member twice. */
static int candidates_check(const struct candidates *c, struct error *err)
{
	for (unsigned i = 0; i < c->count; i++)
		for (unsigned j = i + 1; j < c->count; j++) {
			const struct candidate *x = &c->items[i], *y = &c->items[j];
			char ids[2][33];

			if (memcmp(x->label.array_id, y->label.array_id, ID_BYTES)) {
				id__text(x->label.array_id, ids[0]);
				id__text(y->label.array_id, ids[1]);
				if (strcmp(x->label.name, y->label.name))
					return error_set(err, ERR_USAGE,
						"the disks hold several arrays: %s on %s, %s on %s; say which",
						x->label.name, path_of(x->disk), y->label.name, path_of(y->disk));
				return error_set(err, ERR_REFUSED,
					"%s and %s hold two different arrays of the name %s (%s, %s)", path_of(x->disk),
					path_of(y->disk), x->label.name, ids[0], ids[1]);
			}
			if (!memcmp(x->label.own_id, y->label.own_id, ID_BYTES))
				return error_set(err, ERR_REFUSED,
					"%s and %s both claim to be member %u of array %s: leave one of them out",
					path_of(x->disk), path_of(y->disk), x->label.index, x->label.name);
		}
	return 0;
}

static bool is_out(const struct label *l, const struct label *other)
{
	if (other->role != LABEL_MEMBER || other->index >= l->member_count)
		return false;
	const struct label_entry *e = &l->members[other->index];
	return !memcmp(e->id, other->own_id, ID_BYTES) &&
	       (e->state == ARRAY_MEMBER_MISSING || e->state == ARRAY_MEMBER_FAULTED);
}

static int halves_check(const struct candidates *c, const struct candidate *newest, struct error *err)
{
	for (unsigned i = 0; i < c->count; i++) {
		const struct candidate *x = &c->items[i];

		if (is_out(&newest->label, &x->label) && is_out(&x->label, &newest->label))
			return error_set(err, ERR_REFUSED,
				"array %s: %s and %s each went on without the other (events %llu and %llu); leave out "
				"the one whose "
				"changes are to be given up",
				x->label.name, path_of(newest->disk), path_of(x->disk),
				(unsigned long long)newest->label.events, (unsigned long long)x->label.events);
	}
	return 0;
}

/* Gives each disk its place. */
static int members_place(struct array *a, const struct candidates *c, struct error *err)
{
	for (unsigned i = 0; i < a->member_count; i++) {
		struct member *m = &a->members[i];
		const struct label_entry *e = &a->label.members[i];

		memcpy(m->id, e->id, ID_BYTES);
		memcpy(m->source_id, e->source_id, ID_BYTES);
		m->rebuilt_rows = m->rebuilt_durable = e->rebuilt_rows;
		m->state = ARRAY_MEMBER_MISSING;
		snprintf(m->name, sizeof m->name, "member %u", i);
	}
	for (unsigned i = 0; i < c->count; i++) {
		const struct candidate *x = &c->items[i];

		if (disk_traits(x->disk)->logical_bytes > a->label.sector_bytes)
			return error_set(err, ERR_UNSUPPORTED,
				"%s has sectors of %u bytes, the array %s was made for %u", path_of(x->disk),
				disk_traits(x->disk)->logical_bytes, a->label.name, a->label.sector_bytes);
		if (a->label.log_dedicated && !memcmp(x->label.own_id, a->label.log_id, ID_BYTES)) {
			a->log_disk = x->disk;
			continue;
		}
		for (unsigned k = 0; k < a->member_count; k++) {
			struct member *m = &a->members[k];
			enum array_member_state s = a->label.members[k].state;

			if (!memcmp(x->label.own_id, m->id, ID_BYTES)) {
				m->disk = x->disk;
				m->stale = s == ARRAY_MEMBER_MISSING || s == ARRAY_MEMBER_FAULTED;
				m->state = m->stale ? ARRAY_MEMBER_FAULTED : s;
				snprintf(m->name, sizeof m->name, "%s", disk_traits(x->disk)->name);
			} else if (!id__is_zero(m->source_id) && !memcmp(x->label.own_id, m->source_id, ID_BYTES)) {
				m->source = x->disk;
			}
		}
	}
	for (unsigned k = 0; k < a->member_count; k++) {
		struct member *m = &a->members[k];

		if (m->state != ARRAY_MEMBER_REBUILDING)
			m->source = NULL;
		if (!m->source)
			memset(m->source_id, 0, ID_BYTES);
	}
	return 0;
}

static int enough_check(struct array *a, struct error *err)
{
	bool failed[LAYOUT_DISKS_MAX];
	struct text missing = {0};
	unsigned present = 0;

	array__failed_set(a, failed);
	if (layout_survives(&a->layout, failed)) {
		if (a->label.log_dedicated && !a->log_disk && !a->label.clean)
			return error_set(err, ERR_LOST,
				"array %s was not closed cleanly and its log disk is not among the disks given",
				a->label.name);
		return 0;
	}
	for (unsigned i = 0; i < a->member_count; i++) {
		present += !failed[i];
		if (failed[i] && missing.length < 200)
			text_addf(&missing, "%s%u (%s)", missing.length ? ", " : "", i,
				a->members[i].stale  ? "stale: it missed writes"
				: a->members[i].disk ? "not yet rebuilt"
						     : "not found");
	}
	int rc = error_set(err, ERR_LOST, "array %s: %u of %u members are usable, which is too few; not usable: %s",
		a->label.name, present, a->member_count, missing.bytes ? missing.bytes : "");
	text_release(&missing);
	return rc;
}

/*
 * Slots that are no good are written again before any good one is overwritten: a change goes to the same slot at both
 * ends, so power that goes in the midst of it must find the other one good. A disk that cannot be written will be found
 * out when the next change is.
 */
static void labels_mend(struct array *a, const struct candidates *c, const struct candidate *newest)
{
	scoped_free struct label *l = malloc(sizeof *l);

	for (unsigned i = 0; i < c->count && l; i++) {
		const struct candidate *x = &c->items[i];
		bool ours = x->disk == a->log_disk;

		for (unsigned k = 0; k < a->member_count; k++)
			ours |= (a->members[k].disk == x->disk && !a->members[k].stale) ||
				a->members[k].source == x->disk;
		if (!ours || !x->ends.bad)
			continue;
		*l = newest->label;
		memcpy(l->own_id, x->label.own_id, ID_BYTES);
		l->role = x->label.role;
		l->index = x->label.index;
		l->disk_bytes = disk_traits(x->disk)->size_bytes;
		label__store(x->disk, l, x->ends.bad, NULL);
	}
}

static int assemble(struct array *a, const struct candidates *c, struct error *err)
{
	const struct candidate *newest = &c->items[0];
	int rc = candidates_check(c, err);

	for (unsigned i = 1; i < c->count; i++)
		if (c->items[i].label.events > newest->label.events)
			newest = &c->items[i];
	if (!rc)
		rc = halves_check(c, newest, err);
	if (rc)
		return rc;
	a->label = newest->label;
	a->layout = newest->label.layout;
	array__geometry(a);
	if (a->redundant && map__blocks(a->row_count) > a->label.map_blocks)
		return error_set(err, ERR_CORRUPT, "array %s: the label gives the map %llu blocks for %llu rows",
			a->label.name, (unsigned long long)a->label.map_blocks, (unsigned long long)a->row_count);
	if (a->journal && a->label.log_bytes < 256 * 1024)
		return error_set(err, ERR_CORRUPT, "array %s: the label gives the log %llu bytes", a->label.name,
			(unsigned long long)a->label.log_bytes);
	rc = members_place(a, c, err);
	array__degraded_note(a);
	if (!rc)
		rc = enough_check(a, err);
	if (!rc && a->label.log_dedicated && !a->log_disk) {
		a->label.log_dedicated = false;
		memset(a->label.log_id, 0, ID_BYTES);
	}
	if (!rc && !a->read_only)
		labels_mend(a, c, newest);
	return rc ? rc : array__start(a, err);
}

int array_open(struct array **ret_array, const struct array_open_options *o, struct disk *const *disks,
	unsigned disk_count, struct error *err)
{
	struct candidates c = {0};
	struct array *a = NULL;
	int rc = candidates_load(&c, o, disks, disk_count, err);

	if (!rc && !c.count)
		rc = nothing_found(&c, o, disk_count, err);
	if (!rc && !(a = calloc(1, sizeof *a)))
		rc = error_set(err, ERR_MEMORY, "out of memory for an array");
	if (!rc) {
		os_mutex_init(&a->lock);
		os_cond_init(&a->work);
		os_cond_init(&a->room);
		os_cond_init(&a->settled);
		list_init(&a->live);
		list_init(&a->ahead.lru);
		os_cond_init(&a->ahead.work);
		a->tuning = o->tuning;
		a->read_only = o->read_only;
		rc = assemble(a, &c, err);
		if (rc) {
			a->abandoned = true;
			array__threads_stop(a);
			array__free(a, rc);
		}
	}
	if (!rc)
		*ret_array = a;
	text_release(&c.others);
	free(c.items);
	return rc;
}
