/*
 * Care: check, repair, resync after a crash, replace, rebuild, attach, detach, destroy.
 *
 * All walk over rows in units of about 2 MiB a disk (pass.c). A unit's rows are taken from everybody else while it
 * lasts, a few hundredths of a second; reads of healthy rows go on.
 *
 * A rebuild goes up by rows: below `rebuilt_rows` the new disk is read and written like any other, above it is left
 * alone, since the rebuild will come by. While the disk that is replaced can still be read, it stays in use as the
 * *source*: it is read above and written everywhere, so nothing of the redundancy is given up, and even layouts without
 * any can replace a disk. How far it came is in the labels every 2 seconds; array_open finds it there and
 * array_rebuild goes on.
 */
#include "care.h"

#include <stdio.h>
#include <string.h>

#define PROGRESS_NS 2000000000u

static int pass_all(struct pass *p, array_progress *progress, void *arg, struct error *err)
{
	struct array *a = p->array;
	int rc = 0;

	for (uint64_t row = 0, n; row < a->row_count && !rc; row += n) {
		n = min_of(p->unit_rows, a->row_count - row);
		buffer__care_begin(a, row, row + n);
		rc = pass__rows(p, row, n, err);
		buffer__care_end(a);
		if (!rc && progress && !progress(arg, min_of((row + n) * a->row_bytes, a->size_bytes), a->size_bytes))
			rc = error_set(err, ERR_INTERRUPTED, "array %s: interrupted at row %llu of %llu", a->label.name,
				(unsigned long long)row, (unsigned long long)a->row_count);
	}
	return rc;
}

/* Nobody else is there yet. */
int care__resync(struct array *a, struct error *err)
{
	struct pass p;
	int rc = 0;

	if (!a->redundant)
		return 0;
	bool any = false;
	for (uint64_t row = 0; row < a->row_count && !any; row++)
		any = row__is_dirty(a->map[row]);
	if (!any)
		return 0;
	rc = pass__open(&p, a, PASS_RESYNC, err);
	if (rc)
		return rc;
	for (uint64_t row = 0, n; row < a->row_count && !rc; row += n) {
		bool dirty = false;

		n = min_of(p.unit_rows, a->row_count - row);
		for (uint64_t r = row; r < row + n; r++)
			dirty |= row__is_dirty(a->map[r]);
		if (dirty)
			rc = pass__rows(&p, row, n, err);
	}
	pass__close(&p);
	return rc;
}

int array_check(struct array *a, bool repair, struct array_check_result *ret, array_progress *progress, void *arg,
	struct error *err)
{
	struct pass p;
	int rc;

	memset(ret, 0, sizeof *ret);
	if (repair && a->read_only)
		return error_set(err, ERR_READ_ONLY, "array %s is open for reading only", a->label.name);
	if (!a->redundant)
		return error_set(err, ERR_USAGE,
			"array %s keeps neither copies nor parity: there is nothing to compare", a->label.name);
	rc = a->read_only ? 0 : array_flush(a, err);
	if (!rc)
		rc = pass__open(&p, a, repair ? PASS_REPAIR : PASS_CHECK, err);
	if (rc)
		return rc;
	rc = pass_all(&p, progress, arg, err);
	*ret = p.result;
	pass__close(&p);
	if (!rc && repair)
		rc = array__flush_devices(a, true, err);
	return rc;
}

/* --- rebuild ---------------------------------------------------------------------------------- */

/* What was rebuilt is on the disk's medium, and the labels say so. */
static int rebuild_note(struct array *a, unsigned index, uint64_t rows, struct error *err)
{
	int rc = disk_flush(a->members[index].disk, err);

	os_scoped_lock(&a->lock);
	if (rc)
		return rc;
	a->members[index].rebuilt_durable = rows;
	a->labels_dirty = true;
	array__labels_settle(a);
	return array__broken(a, err);
}

static int rebuild_walk(struct array *a, unsigned index, array_progress *progress, void *arg, struct error *err)
{
	struct member *m = &a->members[index];
	uint64_t noted_ns = os_now_ns();
	struct pass p;
	int rc = pass__open(&p, a, PASS_REBUILD, err);

	if (rc)
		return rc;
	p.member = index;
	for (uint64_t row = m->rebuilt_rows, n; row < a->row_count && !rc; row += n) {
		n = min_of(p.unit_rows, a->row_count - row);
		buffer__care_begin(a, row, row + n);
		rc = m->state == ARRAY_MEMBER_REBUILDING
			     ? pass__rows(&p, row, n, err)
			     : error_set(err, ERR_GONE, "array %s: member %u (%s) failed while it was rebuilt",
				       a->label.name, index, m->name);
		if (!rc) {
			os_mutex_lock(&a->lock);
			m->rebuilt_rows = row + n;
			os_mutex_unlock(&a->lock);
		}
		buffer__care_end(a);
		bool due = os_now_ns() - noted_ns >= PROGRESS_NS;
		if (!rc && due) {
			rc = rebuild_note(a, index, row + n, err);
			noted_ns = os_now_ns();
		}
		if (!rc && progress && !progress(arg, min_of((row + n) * a->row_bytes, a->size_bytes), a->size_bytes))
			rc = error_set(err, ERR_INTERRUPTED,
				"array %s: the rebuild of member %u stopped at row %llu of %llu; it goes on from there",
				a->label.name, index, (unsigned long long)row, (unsigned long long)a->row_count);
	}
	if (rc && m->state == ARRAY_MEMBER_REBUILDING)
		rebuild_note(a, index, m->rebuilt_rows, NULL);
	pass__close(&p);
	return rc;
}

/* All is there: the new disk becomes a member like the others. */
static int rebuild_finish(struct array *a, unsigned index, struct error *err)
{
	struct disk *source = a->members[index].source;
	int rc = disk_flush(a->members[index].disk, err);

	if (!rc && a->redundant)
		rc = map__give(a, index, err);
	/* Records that only the member before it held: none may be needed any more. */
	if (!rc)
		rc = log__checkpoint(a, err);
	if (rc)
		return rc;
	buffer__care_begin(a, 0, a->row_count); /* nobody is on his way to the old disk */
	os_mutex_lock(&a->lock);
	if (!a->redundant)
		rc = array__state_set(a, index, ARRAY_MEMBER_ONLINE);
	os_mutex_unlock(&a->lock);
	buffer__care_end(a);
	read__drain(a);
	if (!rc)
		rc = array__labels_store(a, true, err);
	if (!rc && source)
		array_label_clear(
			source, NULL, NULL); /* it has nothing to say any more; if it cannot be cleared, the ids tell */
	return rc;
}

int array_rebuild(struct array *a, array_progress *progress, void *arg, struct error *err)
{
	bool any = false;
	int rc = 0;

	if (a->read_only)
		return error_set(err, ERR_READ_ONLY, "array %s is open for reading only", a->label.name);
	for (unsigned i = 0; i < a->member_count && !rc; i++)
		if (a->members[i].state == ARRAY_MEMBER_REBUILDING) {
			any = true;
			rc = rebuild_walk(a, i, progress, arg, err);
			if (!rc)
				rc = rebuild_finish(a, i, err);
		}
	if (!any)
		return error_set(err, ERR_NOT_FOUND, "array %s: no member is being rebuilt", a->label.name);
	return rc;
}

/* --- replace ---------------------------------------------------------------------------------- */

static int new_disk_check(struct array *a, unsigned index, struct disk *d, bool force, struct error *err)
{
	const struct disk_traits *t = disk_traits(d);
	uint64_t data = a->layout.kind == LAYOUT_CONCAT ? a->layout.concat_bytes[index] : a->layout.disk_bytes;
	struct error why = ERROR_INIT;
	struct label_ends ends;
	char have[SIZE_TEXT_BYTES], need[SIZE_TEXT_BYTES];

	for (unsigned i = 0; i < a->member_count; i++) {
		const char *path = a->members[i].disk ? disk_traits(a->members[i].disk)->path : NULL;
		bool same = a->members[i].disk == d || (path && t->path && !strcmp(path, t->path));

		if (same &&
			(a->members[i].state == ARRAY_MEMBER_ONLINE || a->members[i].state == ARRAY_MEMBER_REBUILDING))
			return error_set(
				err, ERR_USAGE, "%s is member %u of array %s already", t->name, i, a->label.name);
	}
	if (t->read_only)
		return error_set(err, ERR_READ_ONLY, "%s is open for reading only", t->name);
	if (t->logical_bytes > a->sector_bytes)
		return error_set(err, ERR_UNSUPPORTED, "%s has sectors of %u bytes, array %s was made for %u", t->name,
			t->logical_bytes, a->label.name, a->sector_bytes);
	if (t->size_bytes < DISK_BYTES_MIN || label__back_offset(t->size_bytes) - 4096 < a->label.data_offset + data)
		return error_set(err, ERR_TOO_SMALL, "%s has %s; a member of array %s needs at least %s", t->name,
			size_format_binary(t->size_bytes, have), a->label.name,
			size_format_binary(round_up_u64(a->label.data_offset + data + MIB, 4096), need));
	scoped_free struct label *l = malloc(sizeof *l);
	if (!l)
		return error_set(err, ERR_MEMORY, "out of memory for a label");
	int rc = label__load(d, l, &ends, &why);
	if (rc == ERR_NOT_FOUND || force)
		return 0;
	if (rc == ERR_IO || rc == ERR_GONE || rc == ERR_MEDIA)
		return error_set(err, rc, "%s", why.text);
	if (!rc && !memcmp(l->array_id, a->label.array_id, ID_BYTES))
		return 0; /* one of ours that came back */
	return error_set(err, ERR_EXISTS, "%s belongs to the array %s already", t->name,
		rc ? "of a label that cannot be read" : l->name);
}

static int rebuild_begin(struct array *a, unsigned index, struct disk *d, struct error *err)
{
	struct member *m = &a->members[index];
	int rc = log__wipe(a, d, err);

	if (rc)
		return rc;
	os_mutex_lock(&a->lock);
	bool old = m->disk && m->disk != d && m->state == ARRAY_MEMBER_ONLINE;
	if (old) {
		m->source = m->disk;
		memcpy(m->source_id, m->id, ID_BYTES);
	} else {
		m->source = NULL;
		memset(m->source_id, 0, ID_BYTES);
	}
	put_le64(m->id, os_random_u64());
	put_le64(m->id + 8, os_random_u64() | 1);
	m->disk = d;
	m->stale = false;
	m->rebuilt_rows = m->rebuilt_durable = 0;
	m->read_errors = m->write_errors = 0;
	snprintf(m->name, sizeof m->name, "%s", disk_traits(d)->name);
	struct disk *source = m->source; /* state_set clears it on some moves */
	array__state_set(a, index, ARRAY_MEMBER_REBUILDING);
	m->source = source;
	array__degraded_note(a);
	os_mutex_unlock(&a->lock);
	return array__labels_store(a, true, err);
}

int array_replace(struct array *a, unsigned index, struct disk *disk, bool force, array_progress *progress, void *arg,
	struct error *err)
{
	int rc;

	if (a->read_only)
		return error_set(err, ERR_READ_ONLY, "array %s is open for reading only", a->label.name);
	if (index >= a->member_count)
		return error_set(err, ERR_USAGE, "array %s has members 0 to %u, not %u", a->label.name,
			a->member_count - 1, index);
	if (a->members[index].state == ARRAY_MEMBER_REBUILDING && a->members[index].source)
		return error_set(err, ERR_BUSY, "array %s: member %u is being replaced already", a->label.name, index);
	rc = new_disk_check(a, index, disk, force, err);
	if (!rc && !a->redundant && a->members[index].state != ARRAY_MEMBER_ONLINE)
		rc = error_set(err, ERR_LOST,
			"array %s keeps no redundancy and member %u is not there: its bytes cannot be made again",
			a->label.name, index);
	if (!rc) {
		os_mutex_lock(&a->lock);
		rc = array__broken(a, err);
		os_mutex_unlock(&a->lock);
	}
	/* The move changes where writers write: nobody is under way. */
	if (!rc) {
		buffer__care_begin(a, 0, a->row_count);
		rc = log__checkpoint(a, err); /* the new disk has no part of any record */
		if (!rc)
			rc = rebuild_begin(a, index, disk, err);
		buffer__care_end(a);
	}
	if (!rc)
		rc = rebuild_walk(a, index, progress, arg, err);
	return rc ? rc : rebuild_finish(a, index, err);
}

/* --- more copies, and less -------------------------------------------------------------------- */

static int is_plain_mirror(const struct array *a, struct error *err)
{
	char name[32];

	if (a->layout.kind == LAYOUT_MIRROR && a->layout.groups == 1)
		return 0;
	return error_set(err, ERR_UNSUPPORTED, "array %s is %s; copies can be added to and taken from a mirror only",
		a->label.name, layout_name(&a->layout, name));
}

/* The number of copies changes nothing in where a mirror's bytes lie. */
static void copies_set(struct array *a, unsigned copies)
{
	a->layout.disks = a->layout.width = a->layout.copies = a->member_count = copies;
	a->label.layout = a->layout;
	a->label.member_count = copies;
}

int array_attach(struct array *a, struct disk *disk, bool force, array_progress *progress, void *arg, struct error *err)
{
	unsigned index = a->member_count;
	int rc = is_plain_mirror(a, err);

	if (!rc && a->read_only)
		rc = error_set(err, ERR_READ_ONLY, "array %s is open for reading only", a->label.name);
	if (!rc && index == LAYOUT_WIDTH_MAX)
		rc = error_set(
			err, ERR_USAGE, "array %s has %u copies already, the most there can be", a->label.name, index);
	if (!rc)
		rc = new_disk_check(a, index, disk, force, err);
	if (rc)
		return rc;
	buffer__care_begin(a, 0, a->row_count);
	os_mutex_lock(&a->lock);
	while (a->map_busy || a->flushing || a->labels_writing)
		array__wait(a);
	a->members[index] = (struct member){.state = ARRAY_MEMBER_MISSING};
	copies_set(a, index + 1);
	os_mutex_unlock(&a->lock);
	rc = rebuild_begin(a, index, disk, err);
	buffer__care_end(a);
	if (!rc)
		rc = rebuild_walk(a, index, progress, arg, err);
	return rc ? rc : rebuild_finish(a, index, err);
}

int array_detach(struct array *a, unsigned index, struct error *err)
{
	unsigned online = 0;
	int rc = is_plain_mirror(a, err);

	if (!rc && a->read_only)
		rc = error_set(err, ERR_READ_ONLY, "array %s is open for reading only", a->label.name);
	if (!rc && index >= a->member_count)
		rc = error_set(err, ERR_USAGE, "array %s has members 0 to %u, not %u", a->label.name,
			a->member_count - 1, index);
	if (!rc && a->member_count <= 2)
		rc = error_set(err, ERR_USAGE, "array %s has %u copies; a mirror keeps two at least", a->label.name,
			a->member_count);
	for (unsigned i = 0; i < a->member_count && !rc; i++)
		online += i != index && a->members[i].state == ARRAY_MEMBER_ONLINE;
	if (!rc && !online)
		rc = error_set(err, ERR_REFUSED, "array %s: member %u holds the only good copy", a->label.name, index);
	if (!rc)
		rc = array_flush(a, err);
	if (!rc) /* so that no map block is only on the one that goes */
		rc = array__flush_devices(a, true, err);
	if (rc)
		return rc;
	buffer__care_begin(a, 0, a->row_count);
	os_mutex_lock(&a->lock);
	while (a->map_busy || a->flushing || a->labels_writing)
		array__wait(a);
	struct disk *gone = a->members[index].state == ARRAY_MEMBER_MISSING ? NULL : a->members[index].disk;
	memmove(&a->members[index], &a->members[index + 1], (a->member_count - index - 1) * sizeof a->members[0]);
	copies_set(a, a->member_count - 1);
	a->members[a->member_count] = (struct member){0};
	array__degraded_note(a);
	os_mutex_unlock(&a->lock);
	rc = array__labels_store(a, true, err);
	buffer__care_end(a);
	read__drain(a); /* with the rows free again: a reader may be waiting for one */
	if (!rc && gone)
		array_label_clear(gone, NULL, NULL);
	return rc;
}

int array_destroy(struct array *a, struct error *err)
{
	int rc = 0;

	os_mutex_lock(&a->lock);
	a->abandoned = true;
	os_mutex_unlock(&a->lock);
	array__threads_stop(a);
	for (unsigned i = 0; i <= a->member_count; i++) {
		struct disk *disks[2] = {i < a->member_count ? a->members[i].disk : a->log_disk,
			i < a->member_count ? a->members[i].source : NULL};

		for (unsigned k = 0; k < 2; k++)
			if (disks[k] && !rc && !(i < a->member_count && a->members[i].state == ARRAY_MEMBER_MISSING))
				rc = array_label_clear(disks[k], NULL, err);
	}
	return array__free(a, rc);
}
