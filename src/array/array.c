/*
 * array: a fixed address space over disks, mapped in place, that loses nothing it promised.
 *
 * The problem. Layout says where each byte goes. To make a thing out of it that people may trust and that is as fast as
 * its disks, four matters have to be settled together: writes smaller than a row (they cost reads), power that goes in
 * the middle of a row (data and parity disagree: the write hole), disks that fail, lie dead for a while or come back
 * stale, and doing it all with few, long, well ordered requests.
 *
 * The idea. Callers' bytes go into a write-back buffer (buffer.c) and the call returns; reads look there first
 * (read.c). A few writers (write.c, parity.c) take batches of rows out of it: runs of full rows, or hundreds of partial
 * rows in the order of their places. What may be half done when power goes is on record before it starts: rows in the
 * row map (rowmap.c), parts of rows in the log (log.c). Labels at both ends of each disk (label.c) say who is who; the
 * newest decides. Nothing is initialised: a row that was never written reads as zeros.
 *
 *        array_write ──► buffer ──► writers ──► map / log, durable ──► rows in place
 *                          │                                              │
 *        array_read  ◄─────┴───────── read-ahead pages ◄──────────────────┘
 *
 *        disk     0      4 KiB           64 KiB                                        1 MiB × m              end
 *                 | free | labels A, B    | row map (2 slots a block) | log ring | data ...        | slack | labels A,
 * B |
 *
 * Example. RAID 5 over four disks with chunks of 128 KiB: rows of 384 KiB. 4 KiB are written at byte 0 of a clean row.
 * They lie in a slot of the buffer; a second later a writer takes the row, with others like it. layout_plan_write says:
 * read the old 4 KiB and the old parity. One log record gets the new 4 KiB and the new parity, each on the member that
 * it is for, flushed; then both are written in place. A power cut before the record is durable leaves the old row, one after it the new
 * row: array_open replays the record. Losing one disk with the power changes nothing of that.
 *
 * State of a member (array__state_set knows the legal moves):
 *
 *        ONLINE ──── vanished, write error, 20 read errors, stale ───► MISSING / FAULTED
 *           ▲                                                              │
 *           └──────── rebuilt ──── REBUILDING ◄──── array_replace ─────────┘
 *
 * Invariants.
 *   ARRAY-1  A member that missed a write is out, and the labels of the others say so durably, before that write counts
 *            as durable. So the newest label names exactly those whose bytes may be trusted.
 *   ARRAY-2  Before a row is written in place, the map on the disks says fresh or dirty of it, or a durable log record
 *            holds all that is written. (rowmap.c)
 *   ARRAY-3  One at a time changes a row: a writer, a repair or care. Who recovers a column holds the row still.
 *   ARRAY-4  In `log` mode no write changes a row that holds promised bytes without a log record, unless the row is
 *            whole, healthy and part of a long run.
 *   ARRAY-5  A row that a replay could write is changed only through the log. (log.c)
 *   ARRAY-6  Labels that must change are durable before the batch that made them change ends.
 *   ARRAY-7  A read sees every write that returned before it began. (read.c)
 *   ARRAY-8  What is read ahead is what the disks hold. (ahead.c)
 *   ARRAY-9  Map blocks lie on members such that the array does not survive losing all of them anyhow; so do the parts
 *            of a log record, and those that are left make the rows. (log.c)
 *   ARRAY-10 Bytes that cannot be trusted are never returned: the read fails with ERR_LOST.
 *
 * Sources: Patterson, Gibson, Katz, "A case for redundant arrays of inexpensive disks" (SIGMOD 1988); Linux' md(4),
 * raid5-ppl.rst and raid5-cache.rst for what its partial parity log and its journal promise and what they do not;
 * Anvin, "The mathematics of RAID-6" (2004). docs/array.md has more; docs/format-array.md is the format.
 */
#include "internal.h"

#include <stdio.h>
#include <string.h>

void array_tuning_init(struct array_tuning *t)
{
	*t = (struct array_tuning){.buffer_age_ns = 1000000000};
}

void array_open_options_init(struct array_open_options *o)
{
	*o = (struct array_open_options){0};
	array_tuning_init(&o->tuning);
}

uint64_t array_size_bytes(const struct array *a)
{
	return a->size_bytes;
}
uint32_t array_sector_bytes(const struct array *a)
{
	return a->sector_bytes;
}

static const char *disk_label(const struct disk *d)
{
	const struct disk_traits *t = disk_traits(d);

	return t->path ? t->path : t->name;
}

/* --- geometry --------------------------------------------------------------------------------- */

void array__geometry(struct array *a)
{
	const struct layout *l = &a->layout;

	a->size_bytes = layout_capacity_bytes(l);
	a->redundant = l->parity || l->copies > 1;
	a->journal = l->parity && a->label.hole == ARRAY_HOLE_LOG;
	if (l->parity)
		a->row_bytes = layout_row_data_bytes(l);
	else if (l->copies > 1)
		a->row_bytes = l->chunk_bytes * max_of(1u, l->disks / l->copies);
	else if (l->kind == LAYOUT_STRIPE)
		a->row_bytes = l->chunk_bytes * l->disks;
	else
		a->row_bytes = max_of(l->chunk_bytes, MIB);
	a->row_count = (a->size_bytes + a->row_bytes - 1) / a->row_bytes;
	a->slot_bytes = (uint32_t)min_of(l->chunk_bytes, (uint64_t)SLOT_BYTES_MAX);
	a->slots_per_chunk = (uint32_t)(l->chunk_bytes / a->slot_bytes);
	a->slots_per_row = (uint32_t)(a->row_bytes / a->slot_bytes);
	a->sector_bytes = a->label.sector_bytes;
	a->member_count = l->disks;
}

/* Room before and after the data, for the worst layout: map, and a log of 1/32 of the disk, 1 to 32 MiB. */
static void places_choose(
	struct label *l, uint64_t disk_bytes, uint64_t chunk_bytes, uint64_t rows_per_chunk, bool map, bool log)
{
	uint64_t rows = disk_bytes / chunk_bytes * rows_per_chunk + 1;
	uint64_t log_bytes = max_of(min_of(disk_bytes / 32, 32 * MIB), MIB);

	l->map_offset = FRONT_BYTES;
	l->map_blocks = map ? map__blocks(rows) : 0;
	l->log_offset = round_up_u64(l->map_offset + l->map_blocks * 2 * BLOCK_BYTES, FRONT_BYTES);
	l->data_offset = round_up_u64(l->log_offset + (log ? log_bytes : 0), MIB);
	l->log_bytes = log ? round_down_u64(l->data_offset - l->log_offset, BLOCK_BYTES) : 0;
}

/* What is left for data: the back label, and 1 MiB so that a disk a little smaller can take its place one day. */
static uint64_t data_room(const struct label *l, uint64_t disk_bytes)
{
	uint64_t end = label__back_offset(disk_bytes) - 4096 - MIB;

	return end > l->data_offset ? end - l->data_offset : 0;
}

uint64_t array_data_bytes(uint64_t disk_bytes, uint64_t chunk_bytes)
{
	struct label l;

	if (disk_bytes < DISK_BYTES_MIN)
		return 0;
	places_choose(&l, disk_bytes, chunk_bytes ? chunk_bytes : LAYOUT_CHUNK_DEFAULT, 1, true, true);
	return data_room(&l, disk_bytes);
}

static int layout_choose(struct label *l, const struct array_create_options *o, struct disk *const *disks,
	unsigned count, struct error *err)
{
	uint64_t room[LAYOUT_DISKS_MAX], least = UINT64_MAX,
					 chunk = o->chunk_bytes ? o->chunk_bytes : LAYOUT_CHUNK_DEFAULT;
	bool map = true, log = true;

	if (count == 0 || count > LAYOUT_DISKS_MAX)
		return error_set(err, ERR_USAGE, "an array has 1 to %u disks, got %u", LAYOUT_DISKS_MAX, count);
	for (unsigned i = 0; i < count; i++)
		least = min_of(least, disk_traits(disks[i])->size_bytes);
	/* Twice: what kind of layout it is decides how much room it needs. */
	for (unsigned pass = 0; pass < 2; pass++) {
		/* An odd number of disks makes rows of copies that are shorter than a chunk of every disk. */
		uint64_t per_chunk = !pass ? 1 : l->layout.parity ? l->layout.groups : 2;

		if (is_power_of_two(chunk) && chunk >= LAYOUT_CHUNK_MIN)
			places_choose(l, least, chunk, per_chunk, map, log);
		for (unsigned i = 0; i < count; i++)
			room[i] = data_room(l, disk_traits(disks[i])->size_bytes);
		int rc = layout_init(&l->layout, o->layout, count, room, chunk, o->rotation, err);
		if (rc)
			return rc;
		map = l->layout.parity || l->layout.copies > 1;
		log = l->layout.parity && o->hole == ARRAY_HOLE_LOG;
	}
	return 0;
}

/* --- create ----------------------------------------------------------------------------------- */

static int name_check(const char *name, struct error *err)
{
	size_t n = name ? strlen(name) : 0;

	if (n == 0 || n >= ARRAY_NAME_BYTES ||
		strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") != n)
		return error_set(err, ERR_USAGE, "\"%.70s\" is no name for an array: 1 to 63 of A-Z a-z 0-9 _ . -",
			name ? name : "");
	return 0;
}

static void id_make(uint8_t id[ID_BYTES])
{
	put_le64(id, os_random_u64());
	put_le64(id + 8, os_random_u64() | 1); /* never all zero */
}

/* Big enough, writable, and no array's yet. */
static int disk_check(struct disk *d, bool force, struct error *err)
{
	const struct disk_traits *t = disk_traits(d);
	struct label_ends ends;
	struct error why = ERROR_INIT;
	char size[SIZE_TEXT_BYTES];

	if (t->size_bytes < DISK_BYTES_MIN)
		return error_set(err, ERR_TOO_SMALL, "%s has %s, an array needs at least 16 MiB on each disk",
			disk_label(d), size_format_binary(t->size_bytes, size));
	if (t->read_only)
		return error_set(err, ERR_READ_ONLY, "%s is open for reading only", disk_label(d));
	if (t->logical_bytes != 512 && t->logical_bytes != 4096)
		return error_set(err, ERR_UNSUPPORTED, "%s has sectors of %u bytes, 512 and 4096 are supported",
			disk_label(d), t->logical_bytes);
	if (force)
		return 0;
	scoped_free struct label *l = malloc(sizeof *l);
	if (!l)
		return error_set(err, ERR_MEMORY, "out of memory for a label");
	int rc = label__load(d, l, &ends, &why);
	if (!rc)
		return error_set(err, ERR_EXISTS, "%s belongs to the array %s already", disk_label(d), l->name);
	if (rc == ERR_CORRUPT || rc == ERR_UNSUPPORTED)
		return error_set(err, ERR_EXISTS, "%s carries a label of an array that cannot be read: %s",
			disk_label(d), why.text);
	return rc == ERR_NOT_FOUND ? 0 : error_set(err, rc, "%s", why.text);
}

static int disks_distinct(struct disk *const *disks, unsigned count, struct disk *log, struct error *err)
{
	for (unsigned i = 0; i < count; i++)
		for (unsigned j = i + 1; j <= count; j++) {
			struct disk *other = j == count ? log : disks[j];

			if (!other)
				continue;
			const char *x = disk_traits(disks[i])->path, *y = disk_traits(other)->path;
			if (disks[i] == other || (x && y && !strcmp(x, y)))
				return error_set(err, ERR_USAGE, "%s is given twice", disk_label(other));
		}
	return 0;
}

static int log_disk_choose(struct label *l, struct disk *d, struct error *err)
{
	uint64_t size = disk_traits(d)->size_bytes;

	if (!l->log_bytes)
		return error_set(err, ERR_USAGE,
			"%s: a log disk serves only layouts with parity and the write hole closed by `log`",
			disk_label(d));
	l->log_dedicated = true;
	l->log_disk_bytes =
		round_down_u64(min_of(data_room(&(struct label){.data_offset = MIB}, size), 256 * MIB), BLOCK_BYTES);
	id_make(l->log_id);
	return 0;
}

static int labels_create(
	struct label *l, struct disk *const *disks, unsigned count, struct disk *log, struct error *err)
{
	int rc = 0;

	for (unsigned i = 0; i <= count && !rc; i++) {
		struct disk *d = i == count ? log : disks[i];

		if (!d)
			continue;
		l->role = i == count ? LABEL_LOG : LABEL_MEMBER;
		l->index = i;
		l->disk_bytes = disk_traits(d)->size_bytes;
		memcpy(l->own_id, i == count ? l->log_id : l->members[i].id, ID_BYTES);
		rc = label__store(d, l, LABEL_SLOTS_ALL, err);
	}
	return rc;
}

int array_create(
	const struct array_create_options *o, struct disk *const *disks, unsigned disk_count, struct error *err)
{
	scoped_free struct label *l = calloc(1, sizeof *l);
	int rc = name_check(o->name, err);

	if (!l)
		return error_set(err, ERR_MEMORY, "out of memory for a label");
	l->sector_bytes = 512;
	for (unsigned i = 0; i <= disk_count && !rc; i++) {
		struct disk *d = i == disk_count ? o->log : disks[i];

		if (!d)
			continue;
		rc = disk_check(d, o->force, err);
		l->sector_bytes = max_of(l->sector_bytes, disk_traits(d)->logical_bytes);
	}
	if (!rc)
		rc = disks_distinct(disks, disk_count, o->log, err);
	if (!rc)
		rc = layout_choose(l, o, disks, disk_count, err);
	if (!rc && l->layout.disk_bytes / l->layout.chunk_bytes > MAP_ROWS_MAX / l->layout.groups)
		rc = error_set(err, ERR_USAGE,
			"chunks of %llu bytes on disks of this size make more than %llu rows; take larger chunks",
			(unsigned long long)l->layout.chunk_bytes, (unsigned long long)MAP_ROWS_MAX);
	if (!rc && o->log)
		rc = log_disk_choose(l, o->log, err);
	if (rc)
		return rc;
	l->events = 1;
	l->clean = true;
	l->hole = o->hole;
	l->log_sequence = 1;
	l->member_count = disk_count;
	id_make(l->array_id);
	snprintf(l->name, sizeof l->name, "%s", o->name);
	for (unsigned i = 0; i < disk_count; i++) {
		id_make(l->members[i].id);
		l->members[i].state = ARRAY_MEMBER_ONLINE;
	}
	return labels_create(l, disks, disk_count, o->log, err);
}

/* --- state of members ------------------------------------------------------------------------- */

static bool move_is_legal(enum array_member_state from, enum array_member_state to)
{
	switch (from) {
	case ARRAY_MEMBER_ONLINE:
		return to == ARRAY_MEMBER_MISSING || to == ARRAY_MEMBER_FAULTED || to == ARRAY_MEMBER_REBUILDING;
	case ARRAY_MEMBER_MISSING:
	case ARRAY_MEMBER_FAULTED:
		return to == ARRAY_MEMBER_REBUILDING;
	case ARRAY_MEMBER_REBUILDING:
		return true;
	}
	return false;
}

void array__failed_set(struct array *a, bool failed[LAYOUT_DISKS_MAX])
{
	for (unsigned i = 0; i < LAYOUT_DISKS_MAX; i++) {
		const struct member *m = &a->members[i];

		failed[i] = i < a->member_count && m->state != ARRAY_MEMBER_ONLINE &&
			    !(m->state == ARRAY_MEMBER_REBUILDING && m->source);
	}
}

static void broken_set(struct array *a, unsigned index, int status)
{
	if (a->broken)
		return;
	a->broken = true;
	error_clear(&a->broken_error);
	error_set(&a->broken_error, ERR_LOST, "array %s has failed: %s (member %u): %s, and its redundancy was used up",
		a->label.name, a->members[index].name, index, error_sentence(status));
	os_cond_broadcast(&a->work);
	os_cond_broadcast(&a->room);
	array__settle(a);
}

int array__state_set(struct array *a, unsigned index, enum array_member_state to)
{
	struct member *m = &a->members[index];

	sp_assert(move_is_legal(m->state, to));
	m->state = to;
	if (to == ARRAY_MEMBER_ONLINE) {
		m->source = NULL;
		memset(m->source_id, 0, ID_BYTES);
	}
	if (to == ARRAY_MEMBER_MISSING || to == ARRAY_MEMBER_FAULTED)
		m->source = NULL;
	a->labels_dirty = true;
	array__degraded_note(a);
	return 0;
}

void array__degraded_note(struct array *a)
{
	bool failed[LAYOUT_DISKS_MAX];

	array__failed_set(a, failed);
	a->degraded = false;
	for (unsigned i = 0; i < a->member_count; i++)
		a->degraded |= failed[i];
}

int array__broken(struct array *a, struct error *err)
{
	return a->broken ? error_set(err, a->broken_error.code, "%s", a->broken_error.text) : 0;
}

/* Takes a disk out. When the rest does not survive that, the labels stay as they are: nothing is written any more that
 * it could miss, and if it comes back everything is there. With the lock held. */
static void member_out(struct array *a, unsigned key, int status)
{
	unsigned index = key / 2;
	struct member *m = &a->members[index];
	bool failed[LAYOUT_DISKS_MAX];

	if (a->broken || (m->state != ARRAY_MEMBER_ONLINE && m->state != ARRAY_MEMBER_REBUILDING))
		return;
	array__failed_set(a, failed);
	if (key % 2) { /* the source of a replacement */
		failed[index] = true;
		if (m->source && layout_survives(&a->layout, failed)) {
			m->source = NULL;
			memset(m->source_id, 0, ID_BYTES);
			a->labels_dirty = true;
			array__degraded_note(a);
		} else if (m->source) {
			broken_set(a, index, status);
		}
		return;
	}
	bool had = !failed[index];
	failed[index] = true;
	if (!a->redundant || (had && !layout_survives(&a->layout, failed))) {
		broken_set(a, index, status);
		if (status == ERR_GONE)
			m->state = ARRAY_MEMBER_MISSING;
		return;
	}
	array__state_set(a, index, status == ERR_GONE ? ARRAY_MEMBER_MISSING : ARRAY_MEMBER_FAULTED);
}

/* Records that only the log disk holds are needed until what they hold is flushed in its place. Until then the labels
 * go on naming it: a crash before would need it. Later records go to the members. */
static void log_disk_out(struct array *a)
{
	if (!a->log_disk)
		return;
	a->log_disk = NULL;
	a->log_leaving = a->log_next;
	a->plain_unflushed = true;
}

void array__write_failed(struct array *a, unsigned key, int status)
{
	os_scoped_lock(&a->lock);
	if (key / 2 == a->member_count) {
		log_disk_out(a);
	} else {
		a->members[key / 2].write_errors++;
		member_out(a, key, status);
	}
	array__labels_settle(a);
}

/* A disk that reads badly is better than none. */
static bool can_spare(struct array *a, unsigned key)
{
	bool failed[LAYOUT_DISKS_MAX];

	array__failed_set(a, failed);
	failed[key / 2] = true;
	return layout_survives(&a->layout, failed);
}

void array__read_failed(struct array *a, unsigned key, int status)
{
	os_scoped_lock(&a->lock);
	struct member *m = &a->members[key / 2];

	m->read_errors++;
	if (a->redundant && !a->read_only &&
		(status == ERR_GONE || (m->read_errors > READ_ERRORS_MAX && can_spare(a, key))))
		member_out(a, key, status);
	array__labels_settle(a);
}

/* --- labels ----------------------------------------------------------------------------------- */

void array__label_fill(struct array *a, struct label *l, unsigned index)
{
	*l = a->label;
	l->layout = a->layout;
	l->member_count = a->member_count;
	l->index = index;
	for (unsigned i = 0; i < a->member_count; i++) {
		const struct member *m = &a->members[i];

		l->members[i] = (struct label_entry){.state = m->state, .rebuilt_rows = m->rebuilt_durable};
		memcpy(l->members[i].id, m->id, ID_BYTES);
		memcpy(l->members[i].source_id, m->source_id, ID_BYTES);
	}
}

/* The label of a key's disk, or false when there is no disk to carry one. */
static bool label_of_key(struct array *a, unsigned key, struct label *l, struct disk **ret)
{
	unsigned index = key / 2;
	const struct member *m = &a->members[index];
	bool is_log = index == a->member_count;
	struct disk *d = is_log ? (key % 2 ? NULL : a->log_disk) : key % 2 ? m->source : m->disk;

	if (!d || (!is_log && m->state != ARRAY_MEMBER_ONLINE && m->state != ARRAY_MEMBER_REBUILDING))
		return false;
	array__label_fill(a, l, index);
	l->role = is_log ? LABEL_LOG : key % 2 ? LABEL_SOURCE : LABEL_MEMBER;
	memcpy(l->own_id, is_log ? a->label.log_id : key % 2 ? m->source_id : m->id, ID_BYTES);
	l->disk_bytes = disk_traits(d)->size_bytes;
	*ret = d;
	return true;
}

/* Packs the labels of all that are there, by key. With the lock held. */
static void labels_pack(struct array *a, struct label *l, uint8_t *bytes, bool *want, uint64_t *back)
{
	for (unsigned key = 0; key < 2 * (a->member_count + 1); key++) {
		struct disk *d;

		want[key] = label_of_key(a, key, l, &d);
		if (!want[key])
			continue;
		label__pack(l, bytes + (size_t)key * LABEL_BYTES);
		back[key] = label__back_offset(l->disk_bytes);
	}
}

/* One end of all disks at once: written and flushed. Keeps the first failure: its key + 1. */
static int labels_end_write(
	struct io *io, uint8_t *bytes, bool *want, const uint64_t *offset, int *failed, int *ret_status)
{
	int status[2 * (LAYOUT_DISKS_MAX + 1)];

	io__reset(io);
	for (unsigned key = 0; key < 2 * io->road_count; key++)
		if (want[key])
			io__piece(io, key, offset[key], bytes + (size_t)key * LABEL_BYTES, LABEL_BYTES, 0);
	int rc = io__run(io, DISK_WRITE);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < io->piece_count && rc; i++)
		if (io->pieces[i].status) {
			want[io->pieces[i].key] = false;
			*ret_status = *failed ? *ret_status : io->pieces[i].status;
			*failed = *failed ? *failed : io->pieces[i].key + 1;
		}
	rc = io__flush(io, want, status);
	for (unsigned key = 0; key < 2 * io->road_count && !rc; key++)
		if (status[key]) {
			*ret_status = *failed ? *ret_status : status[key];
			*failed = *failed ? *failed : (int)key + 1;
		}
	return rc;
}

/* One end is durable before the other is touched: two power cuts in a row would else tear every copy that there is. */
static int labels_slot_write(
	struct io *io, uint8_t *bytes, bool *want, const uint64_t *back, unsigned slot, int *failed, int *ret_status)
{
	uint64_t offset[2 * (LAYOUT_DISKS_MAX + 1)];
	int rc = 0;

	for (unsigned end = 0; end < 2 && !rc; end++) {
		for (unsigned key = 0; key < 2 * io->road_count; key++)
			offset[key] = (end ? back[key] : LABEL_OFFSET) + slot * LABEL_BYTES;
		rc = labels_end_write(io, bytes, want, offset, failed, ret_status);
	}
	return rc;
}

/*
 * Stores labels on all that are there: the slot of the event count, and then (all) the other one, so that there is a
 * good one at any time. Returns the first key that failed + 1, 0 when none did, or ERR_MEMORY.
 */
static int labels_write(struct array *a, bool all, struct error *err, int *ret_status)
{
	bool want[2 * (LAYOUT_DISKS_MAX + 1)] = {false};
	uint64_t back[2 * (LAYOUT_DISKS_MAX + 1)];
	scoped_free struct label *l = malloc(sizeof *l);
	scoped_free uint8_t *bytes = aligned_alloc(DISK_BUFFER_ALIGN, (size_t)2 * (a->member_count + 1) * LABEL_BYTES);
	struct io *io = io__get(a, err);
	int failed = 0, rc = 0;

	if (!l || !bytes || !io) {
		io__put(a, io);
		return error_set(err, ERR_MEMORY, "out of memory for a label");
	}
	os_mutex_lock(&a->lock);
	unsigned slot = a->label.events % 2;
	io__roads(a, io);
	labels_pack(a, l, bytes, want, back);
	os_mutex_unlock(&a->lock);
	for (unsigned i = 0; i < (all ? 2 : 1) && !rc; i++)
		rc = labels_slot_write(io, bytes, want, back, (slot + i) % 2, &failed, ret_status);
	io__put(a, io);
	return rc ? error_set(err, rc, "out of memory for a label") : failed;
}

void array__labels_settle(struct array *a)
{
	while ((a->labels_dirty || a->labels_writing) && !a->abandoned) {
		if (a->labels_writing) {
			array__wait(a);
			continue;
		}
		a->labels_dirty = false;
		if (a->broken || a->read_only)
			continue;
		int status = 0;

		a->labels_writing = true;
		a->label.events++;
		os_mutex_unlock(&a->lock);
		int failed = labels_write(a, false, NULL, &status);
		os_mutex_lock(&a->lock);
		a->labels_writing = false;
		if (failed > 0 && (unsigned)(failed - 1) / 2 == a->member_count)
			log_disk_out(a);
		else if (failed > 0)
			member_out(a, (unsigned)failed - 1, status);
		array__settle(a);
	}
}

int array__labels_store(struct array *a, bool all, struct error *err)
{
	int status = 0;

	os_mutex_lock(&a->lock);
	while (a->labels_writing)
		array__wait(a);
	a->labels_writing = true;
	a->labels_dirty = false;
	a->label.events++;
	os_mutex_unlock(&a->lock);
	int failed = labels_write(a, all, err, &status);
	os_mutex_lock(&a->lock);
	a->labels_writing = false;
	array__settle(a);
	os_mutex_unlock(&a->lock);
	if (failed <= 0)
		return failed;
	if (!a->redundant)
		return status;
	error_clear(err ? err : &(struct error){0});
	array__write_failed(a, (unsigned)failed - 1, status);
	os_scoped_lock(&a->lock);
	return array__broken(a, err);
}

/* --- open and close --------------------------------------------------------------------------- */

int array__threads_start(struct array *a, struct error *err)
{
	unsigned fair =
		min_of(max_of(a->member_count / DISKS_OF_WRITER, (unsigned)WRITERS_LEAST), (unsigned)WRITERS_MAX);
	unsigned count = a->tuning.writers ? min_of(a->tuning.writers, (unsigned)WRITERS_MAX) : fair;

	if (a->read_only)
		count = 0;

	for (unsigned i = 0; i < count; i++) {
		int rc = writer__open(a, &a->writers[i], err);

		if (!rc)
			rc = os_thread_create(&a->writers[i].thread, "array-writer", writer__run, &a->writers[i], err);
		if (rc) {
			writer__close(&a->writers[i]);
			return rc;
		}
		a->writer_count++;
	}
	return ahead__open(a, err);
}

void array__threads_stop(struct array *a)
{
	os_mutex_lock(&a->lock);
	a->stopping = true;
	os_cond_broadcast(&a->work);
	os_cond_broadcast(&a->ahead.work);
	array__settle(a);
	os_mutex_unlock(&a->lock);
	for (unsigned i = 0; i < a->writer_count; i++) {
		os_thread_join(a->writers[i].thread);
		writer__close(&a->writers[i]);
	}
	a->writer_count = 0;
	ahead__stop(a);
}

int array__free(struct array *a, int rc)
{
	for (struct io *io = a->io_spare, *next; io; io = next) {
		next = io->next;
		io__close(io);
	}
	ahead__close(a);
	map__close(a);
	log__close(a);
	buffer__close(a);
	free(a->poison);
	os_cond_destroy(&a->work);
	os_cond_destroy(&a->room);
	os_cond_destroy(&a->settled);
	os_mutex_destroy(&a->lock);
	free(a);
	return rc;
}

/* After a crash: the log, then rows that may be half written. */
static int recover(struct array *a, bool was_clean, struct error *err)
{
	struct io *io = io__get(a, err);
	int rc = io ? 0 : ERR_MEMORY;

	if (rc)
		return rc;
	io__roads(a, io);
	rc = map__load(a, io, err);
	if (!rc && !was_clean)
		map__doubt(a);
	if (!rc && !was_clean && a->journal)
		rc = log__replay(a, io, err);
	io__put(a, io);
	if (!rc && !was_clean)
		rc = care__resync(a, err);
	if (!rc && !was_clean)
		rc = array__flush_devices(a, true, err);
	if (!rc && !was_clean) {
		io = io__get(a, err);
		os_mutex_lock(&a->lock);
		rc = io ? map__sync(a, io, true, false, err) : ERR_MEMORY;
		os_mutex_unlock(&a->lock);
		io__put(a, io);
	}
	return rc;
}

int array__start(struct array *a, struct error *err)
{
	bool was_clean = a->label.clean;
	int rc = buffer__open(a, err);

	if (!rc)
		rc = poison__open(a, err);
	if (!rc)
		rc = map__open(a, err);
	if (!rc)
		rc = log__open(a, err);
	if (!rc && a->read_only && a->redundant && !was_clean)
		rc = error_set(err, ERR_READ_ONLY,
			"array %s was not closed cleanly; open it once for writing, so that its log is replayed",
			a->label.name);
	a->label.clean = false;
	/* Who is out must be known before anything is written that it misses: ARRAY-1. */
	if (!rc && !a->read_only && a->redundant)
		rc = array__labels_store(a, false, err);
	if (!rc && a->redundant)
		rc = recover(a, was_clean, err);
	if (!rc && a->journal && !a->read_only && !was_clean) {
		a->label.log_sequence = a->log_next;
		rc = array__labels_store(a, false, err);
	}
	return rc ? rc : array__threads_start(a, err);
}

int array_close(struct array *a, struct error *err)
{
	int rc = 0;

	if (!a)
		return 0;
	if (!a->read_only) {
		rc = buffer__flush_rows(a, err);
		if (!rc)
			rc = array__flush_devices(a, true, err);
	}
	array__threads_stop(a);
	if (!rc && !a->read_only && a->redundant) {
		struct io *io = io__get(a, err);

		os_mutex_lock(&a->lock);
		rc = io ? map__sync(a, io, true, true, err) : ERR_MEMORY;
		os_mutex_unlock(&a->lock);
		io__put(a, io);
	}
	if (!rc && !a->read_only) {
		a->label.clean = true;
		a->label.log_sequence = max_of(a->log_next, a->label.log_sequence);
		if (a->redundant)
			rc = array__labels_store(a, false, err);
	}
	return array__free(a, rc);
}

void array_abandon(struct array *a)
{
	if (!a)
		return;
	os_mutex_lock(&a->lock);
	a->abandoned = true;
	os_mutex_unlock(&a->lock);
	array__threads_stop(a);
	array__free(a, 0);
}
