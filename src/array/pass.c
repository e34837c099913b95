/*
 * A pass over rows: read them, compare, and put right what the kind of pass asks for. Check, repair, resync after a
 * crash and rebuild are the same walk with different decisions. Rows that are *never* are passed over: they hold
 * nothing.
 */
#include "care.h"

#include <string.h>

#define BUFFER_BYTES (16 * MIB)
#define SLICE_BYTES MIB
#define DISK_PIECE_BYTES (2 * MIB) /* of each disk at a time, so that it moves little and reads long */

static bool bit(uint64_t mask, unsigned i)
{
	return mask >> i & 1;
}

int pass__open(struct pass *p, struct array *a, enum pass_kind kind, struct error *err)
{
	const struct layout *l = &a->layout;
	uint64_t chunk = l->kind == LAYOUT_CONCAT || l->kind == LAYOUT_SINGLE ? a->row_bytes : l->chunk_bytes;
	uint64_t per_row = l->parity ? l->width : max_of((uint64_t)1, a->row_bytes / chunk) * l->copies;

	*p = (struct pass){.array = a, .kind = kind, .slice = min_of(chunk, (uint64_t)SLICE_BYTES)};
	p->buffer_room = max_of((uint64_t)BUFFER_BYTES, per_row * p->slice);
	p->unit_rows = max_of(
		(uint64_t)1, min_of(DISK_PIECE_BYTES / p->slice * l->groups, p->buffer_room / (per_row * p->slice)));
	p->unit_rows = min_of(p->unit_rows, (uint64_t)PASS_ROWS);
	p->io = io__get(a, err);
	p->parts_room = l->parity ? 0 : p->buffer_room / (l->copies * p->slice);
	p->parts = p->parts_room ? calloc(p->parts_room, sizeof *p->parts) : NULL;
	p->buffer = aligned_alloc(DISK_BUFFER_ALIGN, p->buffer_room);
	p->rows = calloc(PASS_ROWS, sizeof *p->rows);
	p->made[0] = aligned_alloc(DISK_BUFFER_ALIGN, p->slice);
	p->made[1] = aligned_alloc(DISK_BUFFER_ALIGN, p->slice);
	if (!p->io || (p->parts_room && !p->parts) || !p->buffer || !p->rows || !p->made[0] || !p->made[1]) {
		pass__close(p);
		return error_set(err, ERR_MEMORY, "array %s: out of memory for going over its rows", a->label.name);
	}
	return 0;
}

void pass__close(struct pass *p)
{
	io__put(p->array, p->io);
	free(p->buffer);
	free(p->rows);
	free(p->parts);
	free(p->made[0]);
	free(p->made[1]);
}

void pass__mismatch(struct pass *p, uint64_t row, int member, uint64_t at)
{
	struct array_check_result *r = &p->result;

	if (r->first_count < array_count(r->first))
		r->first[r->first_count++] = (struct array_mismatch){.row = row,
			.offset_bytes = row * p->array->row_bytes,
			.member = member,
			.member_offset_bytes = at};
	if (member >= 0) {
		os_scoped_lock(&p->array->lock);
		p->array->members[member].mismatches++;
	}
}

int pass__read(struct pass *p, void (*failed)(struct pass *p, const struct piece *piece), struct error *err)
{
	int count = p->io->piece_count || p->io->no_memory ? io__run(p->io, DISK_READ) : 0;

	if (count < 0)
		return error_set(err, count, "array %s: out of memory for going over its rows", p->array->label.name);
	for (size_t i = 0; i < p->io->piece_count && count; i++)
		if (p->io->pieces[i].status) {
			failed(p, &p->io->pieces[i]);
			array__read_failed(p->array, p->io->pieces[i].key, p->io->pieces[i].status);
		}
	return 0;
}

int pass__write(struct pass *p, struct error *err)
{
	int count = p->io->piece_count || p->io->no_memory ? io__run(p->io, DISK_WRITE) : 0;

	if (count < 0)
		return error_set(err, count, "array %s: out of memory for going over its rows", p->array->label.name);
	for (size_t i = 0; i < p->io->piece_count && count; i++) {
		const struct piece *piece = &p->io->pieces[i];

		if (!piece->status)
			continue;
		array__write_failed(p->array, piece->key, piece->status);
		if (p->kind == PASS_REBUILD && piece->key == p->member * 2)
			return error_set(err, piece->status,
				"array %s: %s cannot be written at byte %llu: the rebuild onto it ends",
				p->array->label.name, p->array->members[p->member].name,
				(unsigned long long)piece->offset_bytes);
	}
	os_scoped_lock(&p->array->lock);
	p->array->plain_unflushed |= p->io->piece_count > 0;
	return array__broken(p->array, err);
}

/* --- rows with parity ------------------------------------------------------------------------- */

static bool row_wanted(const struct pass *p, const struct pass_row *r)
{
	if (r->state == ROW_NEVER)
		return false;
	if (p->kind == PASS_RESYNC)
		return r->state == ROW_DIRTY;
	if (p->kind == PASS_REBUILD)
		return r->lr.group == p->member / p->array->layout.width;
	return true;
}

/* A member's own column, when it can be had from the disk that it replaces. */
static bool from_source(const struct pass *p, const struct pass_row *r, unsigned c)
{
	return p->kind == PASS_REBUILD && r->lr.disk[c] == p->member && p->io->roads[p->member].source &&
	       !bit(r->bad, c);
}

static void row_reads(struct pass *p, unsigned index, uint64_t lo, uint64_t hi)
{
	struct array *a = p->array;
	struct pass_row *r = &p->rows[index];
	bool source = false;

	for (unsigned c = 0; c < r->lr.data + r->lr.parity; c++)
		source |= from_source(p, r, c);
	for (unsigned c = 0; c < r->lr.data + r->lr.parity; c++) {
		const struct road *road = &p->io->roads[r->lr.disk[c]];

		if (bit(r->failed | r->bad, c) || (source && r->lr.disk[c] != p->member))
			continue;
		io__piece(p->io, r->lr.disk[c] * 2 + road_reads_source(road, r->row),
			a->label.data_offset + r->lr.offset_bytes + lo, r->columns[c], hi - lo,
			index * LAYOUT_WIDTH_MAX + c);
	}
}

static void column_failed(struct pass *p, const struct piece *piece)
{
	p->rows[piece->tag / LAYOUT_WIDTH_MAX].bad |= (uint64_t)1 << piece->tag % LAYOUT_WIDTH_MAX;
	p->result.unreadable_chunks++;
}

static void column_write(struct pass *p, const struct pass_row *r, unsigned c, uint8_t *bytes, uint64_t lo, uint64_t hi)
{
	io__piece_write(p->array, p->io, r->lr.disk[c], r->row, r->lr.offset_bytes + lo, bytes, hi - lo, false);
}

static void failed_flags(const struct pass_row *r, bool failed[LAYOUT_WIDTH_MAX])
{
	for (unsigned c = 0; c < LAYOUT_WIDTH_MAX; c++)
		failed[c] = bit(r->failed | r->bad, c);
}

static void make_parity(struct pass *p, struct pass_row *r, uint64_t bytes)
{
	void *columns[LAYOUT_WIDTH_MAX];

	for (unsigned c = 0; c < r->lr.data + r->lr.parity; c++)
		columns[c] = c < r->lr.data ? r->columns[c] : p->made[c - r->lr.data];
	os_charge(r->lr.parity > 1 ? OS_STAGE_PARITY2 : OS_STAGE_PARITY1, bytes * r->lr.data);
	parity_generate(r->lr.data, r->lr.parity, bytes, columns);
}

/* Parity that differs from what it should be is written (copied first: `made` is needed again). */
static void parity_put_right(struct pass *p, struct pass_row *r, uint64_t lo, uint64_t hi)
{
	for (unsigned i = 0; i < r->lr.parity; i++) {
		unsigned c = r->lr.data + i;

		if (bit(r->failed, c) || (!bit(r->bad, c) && !memcmp(p->made[i], r->columns[c], hi - lo)))
			continue;
		memcpy(r->columns[c], p->made[i], hi - lo);
		column_write(p, r, c, r->columns[c], lo, hi);
	}
}

/* Dirty, and a data column is missing: only a second parity that agrees can vouch for what the first one gives. */
static bool row_vouched(struct pass *p, struct pass_row *r, uint64_t bytes)
{
	bool failed[LAYOUT_WIDTH_MAX];
	int column;

	failed_flags(r, failed);
	if (__builtin_popcountll(r->failed | r->bad) >= (int)r->lr.parity)
		return false;
	if (parity_recover(r->lr.data, r->lr.parity, bytes, (void **)r->columns, failed, NULL))
		return false;
	return parity_verify(r->lr.data, r->lr.parity, bytes, (void **)r->columns, &column);
}

/*
 * Bytes of data columns are gone: poison stands for them from now on, in parity too. A row that was dirty stays so
 * until that is on the disks; one that is thought clean must be marked before.
 */
static void row_lose(struct pass *p, struct pass_row *r, uint64_t lo, uint64_t hi)
{
	for (unsigned c = 0; c < r->lr.data; c++)
		if (bit(r->failed | r->bad, c)) {
			poison__fill(p->array, r->columns[c], hi - lo);
			if (bit(r->bad, c))
				column_write(p, r, c, r->columns[c], lo, hi);
		}
	make_parity(p, r, hi - lo);
	for (unsigned c = r->lr.data; c < r->lr.data + r->lr.parity; c++) {
		memcpy(r->columns[c], p->made[c - r->lr.data], hi - lo);
		if (!bit(r->failed, c))
			column_write(p, r, c, r->columns[c], lo, hi);
	}
	os_scoped_lock(&p->array->lock);
	map__lose(p->array, r->row);
	p->lost = true;
}

static bool row_poisoned(const struct pass *p, const struct pass_row *r, uint64_t bytes)
{
	uint64_t at;

	for (unsigned c = 0; c < r->lr.data; c++)
		if (poison__find(p->array, r->columns[c], bytes, &at))
			return true;
	return false;
}

static void row_resync(struct pass *p, struct pass_row *r, uint64_t lo, uint64_t hi)
{
	uint64_t data = ((uint64_t)1 << r->lr.data) - 1;

	if ((r->failed | r->bad) & data && !row_vouched(p, r, hi - lo)) {
		row_lose(p, r, lo, hi);
		return;
	}
	/* Power went before the map said lost of what is poisoned already. */
	if (row_poisoned(p, r, hi - lo)) {
		os_scoped_lock(&p->array->lock);
		map__lose(p->array, r->row);
	}
	if ((r->failed | r->bad) & data)
		return;
	make_parity(p, r, hi - lo);
	parity_put_right(p, r, lo, hi);
}

/* One data column is wrong, or one parity, or it cannot be told (-1): then data is believed. */
static int column_at_fault(struct pass *p, struct pass_row *r, uint64_t bytes)
{
	int column = -1;

	if (r->lr.parity < 2)
		return -1;
	parity_verify(r->lr.data, r->lr.parity, bytes, (void **)r->columns, &column);
	if (column >= 0)
		return column;
	bool p_differs = memcmp(p->made[0], r->columns[r->lr.data], bytes),
	     q_differs = memcmp(p->made[1], r->columns[r->lr.data + 1], bytes);
	if (p_differs != q_differs)
		return (int)r->lr.data + q_differs;
	return -1;
}

static int row_check(struct pass *p, struct pass_row *r, uint64_t lo, uint64_t hi, struct error *err)
{
	bool failed[LAYOUT_WIDTH_MAX];
	uint64_t bytes = hi - lo;

	failed_flags(r, failed);
	if (r->bad && p->kind == PASS_REPAIR && __builtin_popcountll(r->failed | r->bad) <= (int)r->lr.parity) {
		int rc = parity_recover(r->lr.data, r->lr.parity, bytes, (void **)r->columns, failed, err);

		for (unsigned c = 0; c < r->lr.data + r->lr.parity && !rc; c++)
			if (bit(r->bad, c))
				column_write(p, r, c, r->columns[c], lo, hi);
		return rc;
	}
	if (r->bad || r->failed)
		return 0;
	make_parity(p, r, bytes);
	bool same = true;
	for (unsigned i = 0; i < r->lr.parity; i++)
		same = same && !memcmp(p->made[i], r->columns[r->lr.data + i], bytes);
	if (same)
		return 0;
	int column = column_at_fault(p, r, bytes);
	if (!r->mismatch)
		pass__mismatch(p, r->row, column >= 0 ? (int)r->lr.disk[column] : -1,
			p->array->label.data_offset + r->lr.offset_bytes + lo);
	r->mismatch = true;
	if (p->kind != PASS_REPAIR)
		return 0;
	if (column >= 0 && column < (int)r->lr.data) {
		failed[column] = true;
		int rc = parity_recover(r->lr.data, r->lr.parity, bytes, (void **)r->columns, failed, err);

		if (!rc)
			column_write(p, r, (unsigned)column, r->columns[column], lo, hi);
		return rc;
	}
	parity_put_right(p, r, lo, hi);
	return 0;
}

static int row_rebuild(struct pass *p, struct pass_row *r, uint64_t lo, uint64_t hi, struct error *err)
{
	struct array *a = p->array;
	bool failed[LAYOUT_WIDTH_MAX];
	unsigned mine = 0;

	while (r->lr.disk[mine] != p->member)
		mine++;
	if (!from_source(p, r, mine)) {
		r->failed |= (uint64_t)1 << mine;
		failed_flags(r, failed);
		int rc = parity_recover(r->lr.data, r->lr.parity, hi - lo, (void **)r->columns, failed, NULL);
		if (rc == ERR_LOST) /* a second disk cannot read its part: the rest of the array must not go with it */
			row_lose(p, r, lo, hi);
		else if (rc)
			return error_set(err, rc, "array %s, row %llu cannot be recovered", a->label.name,
				(unsigned long long)r->row);
	}
	io__piece(p->io, p->member * 2, a->label.data_offset + r->lr.offset_bytes + lo, r->columns[mine], hi - lo, 0);
	return 0;
}

/* The map says lost of what is about to be poisoned. */
int pass__lost_note(struct pass *p, struct error *err)
{
	struct array *a = p->array;
	struct io *io = io__get(a, err);
	int rc = io ? 0 : ERR_MEMORY;

	os_mutex_lock(&a->lock);
	if (!rc)
		rc = map__sync(a, io, false, false, err);
	os_mutex_unlock(&a->lock);
	io__put(a, io);
	return rc;
}

static int slice_parity(struct pass *p, unsigned count, uint64_t lo, uint64_t hi, struct error *err)
{
	int rc = 0;

	for (unsigned attempt = 0; attempt < 2; attempt++) {
		bool again = false;

		io__reset(p->io);
		for (unsigned i = 0; i < count; i++)
			if (p->rows[i].wanted)
				row_reads(p, i, lo, hi);
		rc = pass__read(p, column_failed, err);
		if (rc)
			return rc;
		/* When the source failed, the others were not read yet. */
		for (unsigned i = 0; i < count && p->kind == PASS_REBUILD && p->io->roads[p->member].source; i++)
			again |= p->rows[i].wanted && p->rows[i].bad;
		if (!again)
			break;
	}
	io__reset(p->io);
	p->lost = false;
	for (unsigned i = 0; i < count && !rc; i++) {
		struct pass_row *r = &p->rows[i];

		if (!r->wanted)
			continue;
		if (p->kind == PASS_RESYNC)
			row_resync(p, r, lo, hi);
		else if (p->kind == PASS_REBUILD)
			rc = row_rebuild(p, r, lo, hi, err);
		else
			rc = row_check(p, r, lo, hi, err);
	}
	if (!rc && p->lost && p->kind == PASS_REBUILD)
		rc = pass__lost_note(p, err);
	return rc ? rc : pass__write(p, err);
}

static void rows_prepare(struct pass *p, uint64_t first, unsigned count)
{
	struct array *a = p->array;
	uint8_t *at = p->buffer;

	os_scoped_lock(&a->lock);
	io__roads(a, p->io);
	for (unsigned i = 0; i < count; i++) {
		struct pass_row *r = &p->rows[i];

		r->row = first + i;
		r->failed = r->bad = 0;
		r->mismatch = false;
		r->state = a->redundant ? ROW_ACTUAL(a->map[r->row]) : ROW_CLEAN;
		if (r->state == ROW_PROMISED || (a->redundant && row__is_dirty(a->map[r->row])))
			r->state = ROW_DIRTY;
		if (!a->layout.parity) {
			r->wanted = r->state != ROW_NEVER && (p->kind != PASS_RESYNC || r->state == ROW_DIRTY);
			continue;
		}
		layout_row(&a->layout, r->row, &r->lr);
		r->wanted = row_wanted(p, r);
		for (unsigned c = 0; c < r->lr.data + r->lr.parity; c++) {
			if (!road_reads(&p->io->roads[r->lr.disk[c]], r->row))
				r->failed |= (uint64_t)1 << c;
			r->columns[c] = at;
			at += p->slice;
		}
	}
}

/* --- the walk --------------------------------------------------------------------------------- */

static void rows_finish(struct pass *p, unsigned count)
{
	struct array *a = p->array;
	os_scoped_lock(&a->lock);

	for (unsigned i = 0; i < count; i++) {
		const struct pass_row *r = &p->rows[i];

		p->result.rows += r->wanted;
		p->result.mismatched_rows += r->mismatch;
		p->result.repaired_rows += r->mismatch && p->kind == PASS_REPAIR;
		if (p->kind == PASS_RESYNC && r->wanted) {
			map__cured(a, r->row);
			a->counters.resynced_rows++;
		}
	}
}

int pass__rows(struct pass *p, uint64_t first, uint64_t count, struct error *err)
{
	struct array *a = p->array;
	int rc = 0;

	sp_assert(count <= p->unit_rows);
	rows_prepare(p, first, (unsigned)count);
	for (uint64_t lo = 0; a->layout.parity && lo < a->layout.chunk_bytes && !rc; lo += p->slice) {
		for (unsigned i = 0; i < count; i++)
			p->rows[i].bad = 0;
		rc = slice_parity(p, (unsigned)count, lo, min_of(lo + p->slice, a->layout.chunk_bytes), err);
	}
	if (!a->layout.parity)
		rc = pass__copies(p, (unsigned)count, err);
	if (!rc)
		rows_finish(p, (unsigned)count);
	return rc;
}
