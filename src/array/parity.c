/*
 * Writing rows with parity.
 *
 * A batch of rows is done in rounds, each as large as scratch memory and the log allow, most often one:
 *
 *      plan       each row gives spans: ranges of its chunks; layout_plan_write says how each is cheapest
 *      read       what the plans need, of all spans, from all disks at once
 *      compute    parity, in cache-sized pieces
 *      log        spans that need it become one record, durable before
 *      write      all of it, to all disks at once
 *
 * A read that fails makes the round plan again with that column missing, so that the write repairs it.
 *
 * Which rows go through the log (ARRAY-4, -5): none that is still *never* (nothing in it was promised, the map says
 * fresh); all in a degraded group; all that an unretired record holds; all partial ones; and full ones, unless they
 * come in a run long enough to be a stream: those are marked dirty in the map instead.
 */
#include "write.h"

#include <string.h>

#define SPANS 1024u

static bool bit(uint64_t mask, unsigned i)
{
	return mask >> i & 1;
}

/* --- which bytes ------------------------------------------------------------------------------ */

static uint32_t slot_of(const struct array *a, const struct buf_row *b, unsigned column, uint64_t at)
{
	return b->slot[column * a->slots_per_chunk + at / a->slot_bytes];
}

/* Which sectors of a slot are valid within [lo, hi) of the chunk, which the slot at `at` overlaps. */
static uint32_t valid_within(
	const struct array *a, const struct buf_row *b, unsigned column, uint64_t at, uint64_t lo, uint64_t hi)
{
	uint64_t base = round_down_u64(at, a->slot_bytes);
	uint64_t from = max_of(lo, base) - base, to = min_of(hi, base + a->slot_bytes) - base;

	return slot__valid(a, slot_of(a, b, column, at)) & sectors__mask(from, to);
}

/* The next range of the row's chunks, from `at` on, in which some column has bytes; false when there is none. */
static bool range_next(const struct array *a, const struct buf_row *b, unsigned data, uint64_t at, uint64_t most,
	uint32_t *ret_lo, uint32_t *ret_hi)
{
	uint64_t chunk = a->layout.chunk_bytes, lo = 0, hi = 0;
	bool any = false;

	for (uint64_t base = round_down_u64(at, a->slot_bytes); base < chunk; base += a->slot_bytes) {
		uint32_t valid = 0;

		for (unsigned c = 0; c < data; c++)
			valid |= valid_within(a, b, c, base, at, chunk);
		if (!valid && any)
			break;
		if (!valid)
			continue;
		uint64_t from = base + (uint64_t)__builtin_ctz(valid) * SECTOR_BYTES;
		uint64_t to = base + (uint64_t)(32 - __builtin_clz(valid)) * SECTOR_BYTES;
		if (any && from != hi)
			break;
		if (!any)
			lo = from;
		hi = to;
		any = true;
		if (hi - lo >= most)
			break;
	}
	if (any) {
		*ret_lo = (uint32_t)lo;
		*ret_hi = (uint32_t)min_of(hi, lo + most);
	}
	return any;
}

static void column_measure(
	const struct array *a, const struct buf_row *b, unsigned c, const struct span *s, struct column *ret)
{
	uint32_t sectors = 0;

	*ret = (struct column){0};
	for (uint64_t at = s->lo; at < s->hi; at = round_down_u64(at, a->slot_bytes) + a->slot_bytes) {
		uint32_t valid = valid_within(a, b, c, at, s->lo, s->hi);
		uint64_t base = round_down_u64(at, a->slot_bytes);

		if (!valid)
			continue;
		if (!sectors)
			ret->lo = (uint32_t)(base + (uint64_t)__builtin_ctz(valid) * SECTOR_BYTES);
		ret->hi = (uint32_t)(base + (uint64_t)(32 - __builtin_clz(valid)) * SECTOR_BYTES);
		sectors += (uint32_t)__builtin_popcount(valid);
	}
	ret->holes = sectors * SECTOR_BYTES != ret->hi - ret->lo;
	ret->whole = !ret->holes && ret->lo == s->lo && ret->hi == s->hi;
}

/* --- planning --------------------------------------------------------------------------------- */

static uint64_t failed_columns(const struct io *io, const struct layout_row *lr)
{
	uint64_t failed = 0;

	for (unsigned c = 0; c < lr->data + lr->parity; c++)
		if (!road_reads(&io->roads[lr->disk[c]], lr->row))
			failed |= (uint64_t)1 << c;
	return failed;
}

static uint64_t to_mask(const bool *flags, unsigned count)
{
	uint64_t mask = 0;

	for (unsigned i = 0; i < min_of(count, (unsigned)LAYOUT_WIDTH_MAX); i++)
		mask |= (uint64_t)flags[i] << i;
	return mask;
}

/*
 * More columns of the row cannot be read than there is parity, though their disks are there. That must not cost the
 * array: what is left is kept, what is given is written, and poison stands for the rest until it is written again.
 */
static void span_plan_lost(struct span *s, const struct layout_row *lr, uint64_t whole)
{
	uint64_t data = ((uint64_t)1 << lr->data) - 1, parity = (((uint64_t)1 << lr->parity) - 1) << lr->data;

	s->way = LAYOUT_WRITE_RECONSTRUCT;
	s->lost = s->failed & data;
	s->read = data & ~s->failed & ~whole;
	s->write = (s->touched | parity) & (~s->failed | s->bad);
}

static int span_plan(struct array *a, struct batch *b, struct span *s, const struct layout_row *lr, struct error *err)
{
	bool touched[LAYOUT_WIDTH_MAX] = {false}, whole[LAYOUT_WIDTH_MAX] = {false}, failed[LAYOUT_WIDTH_MAX] = {false};
	struct layout_write_plan plan;
	bool never = b->never[s->index];

	s->touched = 0;
	for (unsigned c = 0; c < lr->data + lr->parity; c++) {
		failed[c] = bit(s->failed, c);
		if (c >= lr->data) {
			s->columns[c] = (struct column){.lo = s->lo, .hi = s->hi};
			continue;
		}
		column_measure(a, b->rows[s->index], c, s, &s->columns[c]);
		if (never) /* zeros stand for what nobody wrote */
			s->columns[c] = (struct column){.lo = s->lo, .hi = s->hi, .whole = true};
		whole[c] = s->columns[c].whole;
		touched[c] = s->columns[c].hi > s->columns[c].lo;
		s->touched |= (uint64_t)touched[c] << c;
	}
	s->lost = 0;
	int rc = layout_plan_write(lr->data, lr->parity, touched, whole, failed, &plan, err);
	if (rc == ERR_LOST && s->bad) {
		error_clear(err);
		span_plan_lost(s, lr, to_mask(whole, lr->data));
		return 0;
	}
	if (rc) {
		error_prefix(err, "array %s, row %llu", a->label.name, (unsigned long long)lr->row);
		return rc;
	}
	s->way = plan.way;
	s->read = to_mask(plan.read, lr->data + lr->parity);
	s->write = to_mask(plan.write, lr->data + lr->parity);
	/* A column that its disk could not read is made anew, parity too, which a modification cannot do. */
	if (s->bad && s->way == LAYOUT_WRITE_MODIFY) {
		bool read[LAYOUT_WIDTH_MAX] = {false}, any_data = (s->failed & (((uint64_t)1 << lr->data) - 1)) != 0;

		s->way = any_data ? LAYOUT_WRITE_RECOVER : LAYOUT_WRITE_RECONSTRUCT;
		if (any_data)
			rc = layout_plan_recover(lr->data, lr->parity, failed, read, err);
		for (unsigned c = 0; c < lr->data && !any_data; c++)
			read[c] = !whole[c];
		s->read = to_mask(read, lr->data + lr->parity);
		if (rc)
			return rc;
	}
	/* Holes in what is given are filled from what is there. */
	for (unsigned c = 0; c < lr->data; c++)
		if (bit(s->touched, c) && s->columns[c].holes && !bit(s->failed, c))
			s->read |= (uint64_t)1 << c;
	return 0;
}

static bool is_parity(const struct layout_row *lr, unsigned c)
{
	return c >= lr->data;
}

/* Whether a column needs scratch memory, and the bytes of it. */
static uint64_t scratch_need(const struct span *s, const struct layout_row *lr, unsigned c)
{
	const struct column *col = &s->columns[c];

	if (is_parity(lr, c))
		return s->hi - s->lo;
	if (s->way == LAYOUT_WRITE_MODIFY)
		return bit(s->read, c) ? col->hi - col->lo : 0;
	if (s->way == LAYOUT_WRITE_RECOVER || bit(s->read | s->lost, c))
		return s->hi - s->lo;
	return 0;
}

static bool span_memory(struct span *s, const struct layout_row *lr, struct io *io)
{
	size_t before = io->scratch_used;

	for (unsigned c = 0; c < lr->data + lr->parity; c++) {
		uint64_t bytes = scratch_need(s, lr, c);

		struct column *col = &s->columns[c];
		bool fresh = s->way == LAYOUT_WRITE_MODIFY && !is_parity(lr, c) && bit(s->read, c) && col->holes;
		col->bytes = bytes ? io__scratch(io, bytes) : NULL;
		col->fresh = fresh ? io__scratch(io, bytes) : NULL;
		if ((bytes && !col->bytes) || (fresh && !col->fresh)) {
			io->scratch_used = before;
			return false;
		}
	}
	return true;
}

#define LOG_HEAD_BYTES 64u /* what a column adds to a record at most beside its bytes: entries, in every part */

/* Adds what the span adds to the part of a record on each member (on a log disk: to the one part). False: it would be
 * too much there. */
static bool span_log_fits(const struct array *a, const struct span *s, const struct layout_row *lr, uint64_t *on_member,
	uint64_t *entries)
{
	uint64_t most = log__part_max(a), more = *entries + (lr->data + lr->parity) * LOG_HEAD_BYTES;

	for (unsigned c = 0; c < lr->data + lr->parity; c++)
		if (bit(s->write | s->bad, c) && on_member[a->log_disk ? 0 : lr->disk[c]] + s->hi - s->lo + more > most)
			return false;
	for (unsigned c = 0; c < lr->data + lr->parity; c++)
		if (bit(s->write | s->bad, c))
			on_member[a->log_disk ? 0 : lr->disk[c]] += s->hi - s->lo;
	*entries = more;
	return true;
}

/* The longest span, so that the worst one fits into scratch and, when logged, into a record. */
static uint64_t span_most(const struct array *a, const struct io *io, bool logged)
{
	uint64_t most = io->scratch_room / 4 / a->layout.width;

	if (logged)
		most = min_of(most, log__part_max(a) / 2 / (a->log_disk ? a->layout.width : 1));
	return max_of(round_down_u64(most, 4096), (uint64_t)4096);
}

/* --- rounds ----------------------------------------------------------------------------------- */

static bool spans_open(struct array *a, struct batch *b)
{
	if (b->spans)
		return true;
	b->spans = calloc(SPANS, sizeof *b->spans);
	b->columns = calloc((size_t)SPANS * LAYOUT_WIDTH_MAX, sizeof *b->columns);
	b->span_room = b->spans && b->columns ? SPANS : 0;
	for (unsigned i = 0; i < b->span_room; i++)
		b->spans[i].columns = b->columns + (size_t)i * a->layout.width;
	return b->span_room > 0;
}

/* Adds spans from where the last round ended, as long as they fit. */
static int round_fill(struct array *a, struct batch *b, struct io *io, struct error *err)
{
	uint64_t on_member[LAYOUT_DISKS_MAX] = {0}, entries = 0;
	struct layout_row lr;

	b->span_count = 0;
	while (b->at_row < b->count && b->span_count < b->span_room) {
		struct buf_row *row = b->rows[b->at_row];
		struct span *s = &b->spans[b->span_count];
		bool logged = b->logged[b->at_row], all = b->never[b->at_row] || row->is_full;
		uint64_t chunk = a->layout.chunk_bytes, most = span_most(a, io, logged);

		layout_row(&a->layout, row->row, &lr);
		if (all) {
			s->lo = (uint32_t)b->at_byte;
			s->hi = (uint32_t)min_of(chunk, b->at_byte + most);
		}
		if (b->at_byte >= chunk || (!all && !range_next(a, row, lr.data, b->at_byte, most, &s->lo, &s->hi))) {
			b->at_row++;
			b->at_byte = 0;
			continue;
		}
		s->index = b->at_row;
		s->bad = 0;
		s->retried = false;
		s->failed = failed_columns(io, &lr);
		s->logged = logged;
		int rc = span_plan(a, b, s, &lr, err);
		if (rc)
			return rc;
		if (!span_memory(s, &lr, io)) {
			sp_assert(b->span_count > 0);
			break;
		}
		if (logged && !span_log_fits(a, s, &lr, on_member, &entries) && b->span_count)
			break;
		b->span_count++;
		b->at_byte = s->hi;
	}
	return 0;
}

static void span_reads(struct array *a, struct batch *b, unsigned index, struct io *io)
{
	const struct span *s = &b->spans[index];
	struct layout_row lr;

	layout_row(&a->layout, b->numbers[s->index], &lr);
	for (unsigned c = 0; c < lr.data + lr.parity; c++) {
		const struct column *col = &s->columns[c];
		bool hull = s->way == LAYOUT_WRITE_MODIFY && !is_parity(&lr, c);
		uint32_t lo = hull ? col->lo : s->lo, hi = hull ? col->hi : s->hi;
		const struct road *road = &io->roads[lr.disk[c]];

		if (bit(s->read, c))
			io__piece(io, lr.disk[c] * 2 + road_reads_source(road, lr.row),
				a->label.data_offset + lr.offset_bytes + lo, col->bytes, hi - lo,
				index * LAYOUT_WIDTH_MAX + c);
	}
}

/* Plans the spans of the round again, after some columns turned out to be unreadable. */
static int round_again(struct array *a, struct batch *b, struct io *io, struct error *err)
{
	io->scratch_used = 0;
	os_mutex_lock(&a->lock);
	io__roads(a, io);
	int rc = array__broken(a, err);
	os_mutex_unlock(&a->lock);
	for (unsigned i = 0; i < b->span_count && !rc; i++) {
		struct span *s = &b->spans[i];
		struct layout_row lr;

		layout_row(&a->layout, b->numbers[s->index], &lr);
		uint64_t out = failed_columns(io, &lr);
		s->bad &= ~out;
		s->failed = out | s->bad;
		rc = span_plan(a, b, s, &lr, err);
		if (!rc && s->lost && !s->retried) { /* nothing is given up for an error that passes */
			s->retried = true;
			s->bad = 0;
			s->failed = out;
			rc = span_plan(a, b, s, &lr, err);
		}
		if (!rc && !span_memory(s, &lr, io)) {
			/* It does not fit any more: the round ends before it and the next begins there. */
			sp_assert(i > 0);
			b->at_row = s->index;
			b->at_byte = s->lo;
			b->span_count = i;
		}
	}
	return rc;
}

static int round_read(struct array *a, struct batch *b, struct io *io, struct error *err)
{
	for (;;) {
		int failed, rc;

		io->piece_count = 0;
		for (unsigned i = 0; i < b->span_count; i++)
			span_reads(a, b, i, io);
		if (!io->piece_count && !io->no_memory)
			return 0;
		failed = io__run(io, DISK_READ);
		if (failed < 0)
			return error_set(err, failed, "array %s: out of memory for writing rows", a->label.name);
		if (!failed)
			return 0;
		for (size_t i = 0; i < io->piece_count; i++) {
			const struct piece *p = &io->pieces[i];

			if (!p->status)
				continue;
			b->spans[p->tag / LAYOUT_WIDTH_MAX].bad |= (uint64_t)1 << p->tag % LAYOUT_WIDTH_MAX;
			array__read_failed(a, p->key, p->status);
		}
		rc = round_again(a, b, io, err);
		if (rc)
			return rc;
	}
}

/* --- arithmetic ------------------------------------------------------------------------------- */

static uint8_t *given(const struct array *a, const struct buf_row *b, unsigned c, uint64_t at)
{
	uint32_t slot = slot_of(a, b, c, at);

	return slot ? slot__bytes(a, slot) + at % a->slot_bytes : a->zeros + at % a->slot_bytes;
}

/* Copies valid sectors over `to`. */
static void overlay(const struct array *a, const struct buf_row *b, unsigned c, uint32_t lo, uint32_t hi, uint8_t *to)
{
	for (uint64_t at = lo; at < hi; at += SECTOR_BYTES) {
		uint32_t slot = slot_of(a, b, c, at);

		if (slot__valid(a, slot) >> (at % a->slot_bytes / SECTOR_BYTES) & 1)
			memcpy(to + (at - lo), slot__bytes(a, slot) + at % a->slot_bytes, SECTOR_BYTES);
	}
}

static uint64_t piece_end(const struct array *a, uint64_t at, uint64_t hi)
{
	uint64_t end = round_down_u64(at, a->slot_bytes) + a->slot_bytes;

	return min_of(end, hi);
}

/* parity ^= what the change of each touched column adds. */
static void compute_modify(struct array *a, const struct buf_row *b, struct span *s, const struct layout_row *lr)
{
	for (unsigned c = 0; c < lr->data; c++) {
		struct column *col = &s->columns[c];

		if (!bit(s->touched, c))
			continue;
		if (col->fresh) {
			memcpy(col->fresh, col->bytes, col->hi - col->lo);
			overlay(a, b, c, col->lo, col->hi, col->fresh);
		}
		if (!bit(s->read, c))
			continue; /* no parity is there: only data is written */
		for (uint64_t at = col->lo, end; at < col->hi; at = end) {
			void *parity[2] = {NULL, NULL};

			end = piece_end(a, at, col->hi);
			parity_xor(col->bytes + (at - col->lo),
				col->fresh ? col->fresh + (at - col->lo) : given(a, b, c, at), end - at);
			for (unsigned p = 0; p < lr->parity; p++)
				if (!bit(s->failed, lr->data + p))
					parity[p] = s->columns[lr->data + p].bytes + (at - s->lo);
			if (parity[0] || parity[1])
				parity_update(lr->data, lr->parity, c, end - at, col->bytes + (at - col->lo), parity);
		}
	}
}

static int compute_recover(struct array *a, struct span *s, const struct layout_row *lr, struct error *err)
{
	bool failed[LAYOUT_WIDTH_MAX];
	void *columns[LAYOUT_WIDTH_MAX];

	for (unsigned c = 0; c < lr->data + lr->parity; c++) {
		failed[c] = bit(s->failed, c);
		columns[c] = s->columns[c].bytes;
	}
	os_charge(lr->parity > 1 ? OS_STAGE_PARITY2 : OS_STAGE_PARITY1, (uint64_t)(s->hi - s->lo) * lr->data);
	return parity_recover(lr->data, lr->parity, s->hi - s->lo, columns, failed, err);
}

static void compute_generate(struct array *a, const struct buf_row *b, struct span *s, const struct layout_row *lr)
{
	for (unsigned c = 0; c < lr->data; c++)
		if (bit(s->lost, c))
			poison__fill(a, s->columns[c].bytes, s->hi - s->lo);
	for (unsigned c = 0; c < lr->data; c++)
		if (s->columns[c].bytes && bit(s->touched, c))
			overlay(a, b, c, s->lo, s->hi, s->columns[c].bytes);
	for (uint64_t at = s->lo, end; at < s->hi; at = end) {
		void *columns[LAYOUT_WIDTH_MAX];

		end = piece_end(a, at, s->hi);
		for (unsigned c = 0; c < lr->data + lr->parity; c++)
			columns[c] = s->columns[c].bytes ? s->columns[c].bytes + (at - s->lo) : given(a, b, c, at);
		parity_generate(lr->data, lr->parity, end - at, columns);
	}
}

static int span_compute(struct array *a, struct batch *b, struct span *s, struct error *err)
{
	struct buf_row *row = b->rows[s->index];
	struct layout_row lr;
	uint64_t bytes = 0;
	int rc = 0;

	layout_row(&a->layout, row->row, &lr);
	if (b->never[s->index])
		for (unsigned c = 0; c < lr.data; c++)
			for (uint64_t at = s->lo; at < s->hi; at = piece_end(a, at, s->hi))
				if (slot_of(a, row, c, at))
					row__zero_holes(
						a, row, (unsigned)(c * a->slots_per_chunk + at / a->slot_bytes));
	if (s->way == LAYOUT_WRITE_RECOVER)
		rc = compute_recover(a, s, &lr, err);
	if (s->way == LAYOUT_WRITE_MODIFY)
		compute_modify(a, row, s, &lr);
	else if (!rc)
		compute_generate(a, row, s, &lr);
	for (unsigned c = 0; c < lr.data; c++)
		if (s->way != LAYOUT_WRITE_MODIFY)
			bytes += s->hi - s->lo;
		else if (bit(s->touched, c))
			bytes += s->columns[c].hi - s->columns[c].lo;
	os_charge(lr.parity > 1 ? OS_STAGE_PARITY2 : OS_STAGE_PARITY1, bytes);
	return rc;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void span_writes(struct array *a, struct batch *b, const struct span *s, struct io *io)
{
	struct buf_row *row = b->rows[s->index];
	struct layout_row lr;

	layout_row(&a->layout, row->row, &lr);
	for (unsigned c = 0; c < lr.data + lr.parity; c++) {
		const struct column *col = &s->columns[c];
		uint64_t base = lr.offset_bytes;

		if (bit(s->bad, c) && col->bytes) { /* repaired whole, so that it can be read again */
			io__piece_write(a, io, lr.disk[c], lr.row, base + s->lo, col->bytes, s->hi - s->lo, s->logged);
		} else if (!bit(s->write | s->bad, c)) {
			continue;
		} else if (is_parity(&lr, c)) {
			io__piece_write(a, io, lr.disk[c], lr.row, base + s->lo, col->bytes, s->hi - s->lo, s->logged);
		} else if (col->fresh) {
			io__piece_write(
				a, io, lr.disk[c], lr.row, base + col->lo, col->fresh, col->hi - col->lo, s->logged);
		} else if (s->way != LAYOUT_WRITE_MODIFY && col->bytes) {
			io__piece_write(a, io, lr.disk[c], lr.row, base + col->lo, col->bytes + (col->lo - s->lo),
				col->hi - col->lo, s->logged);
		} else {
			for (uint64_t at = col->lo, end; at < col->hi; at = end) {
				end = piece_end(a, at, col->hi);
				io__piece_write(a, io, lr.disk[c], lr.row, base + at, given(a, row, c, at), end - at,
					s->logged);
			}
		}
	}
}

/* The map says lost of what is about to be poisoned; of a row that it calls dirty it need not, that is looked at. */
static int lost_note(struct array *a, const struct batch *b, struct error *err)
{
	bool any = false;

	for (unsigned i = 0; i < b->span_count; i++)
		any |= b->spans[i].lost != 0;
	if (!any)
		return 0;
	struct io *io = io__get(a, err);
	if (!io)
		return ERR_MEMORY;
	os_mutex_lock(&a->lock);
	for (unsigned i = 0; i < b->span_count; i++)
		if (b->spans[i].lost)
			map__lose(a, b->numbers[b->spans[i].index]);
	int rc = map__sync(a, io, false, false, err);
	os_mutex_unlock(&a->lock);
	io__put(a, io);
	return rc;
}

static int round_write(struct array *a, struct batch *b, struct io *io, struct error *err)
{
	uint64_t rows[BATCH_ROWS], sequence = 0;
	unsigned row_count = 0;
	bool logged = false;
	int rc = 0;

	io->piece_count = 0;
	for (unsigned i = 0; i < b->span_count; i++) {
		const struct span *s = &b->spans[i];
		uint64_t row = b->numbers[s->index];

		span_writes(a, b, s, io);
		logged |= s->logged;
		if (s->logged && (!row_count || rows[row_count - 1] != row))
			rows[row_count++] = row;
	}
	if (io->no_memory)
		return error_set(err, ERR_MEMORY, "array %s: out of memory for writing rows", a->label.name);
	rc = lost_note(a, b, err);
	if (rc)
		return rc;
	if (logged && !a->tuning.no_log_fault_for_tests)
		rc = log__append(a, io, rows, row_count, &sequence, err);
	if (!rc)
		rc = batch__write(a, io, err);
	if (sequence) {
		os_scoped_lock(&a->lock);
		log__in_place(a, sequence);
	}
	return rc;
}

static void round_count(struct array *a, const struct batch *b)
{
	os_scoped_lock(&a->lock);
	for (unsigned i = 0; i < b->span_count; i++) {
		const struct span *s = &b->spans[i];

		a->counters.partial_rows_modify += s->way == LAYOUT_WRITE_MODIFY;
		a->counters.partial_rows_reconstruct += s->way == LAYOUT_WRITE_RECONSTRUCT;
		a->counters.degraded_rows += s->failed != 0;
	}
}

/* --- the road of each row --------------------------------------------------------------------- */

static bool is_degraded(const struct array *a, uint64_t row, const struct io *io)
{
	struct layout_row lr;

	layout_row(&a->layout, row, &lr);
	return failed_columns(io, &lr) != 0;
}

/* With the lock held. */
static bool goes_by_log(struct array *a, const struct batch *b, unsigned i, const struct io *io)
{
	if (!a->journal || b->never[i])
		return false;
	if (log__holds(a, b->numbers[i]) || is_degraded(a, b->numbers[i], io))
		return true;
	/* Also rows whose first write is not flushed yet: a flush that comes meanwhile promises that one. */
	return !b->stream;
}

int parity__batch_run(struct array *a, struct batch *b, struct io *io, struct error *err)
{
	uint64_t plain[BATCH_ROWS];
	unsigned plain_count = 0;
	int rc = 0;

	if (!spans_open(a, b))
		return error_set(err, ERR_MEMORY, "array %s: out of memory for writing rows", a->label.name);
	io__reset(io);
	os_mutex_lock(&a->lock);
	io__roads(a, io);
	for (unsigned i = 0; i < b->count; i++) {
		b->never[i] = ROW_ACTUAL(a->map[b->numbers[i]]) == ROW_NEVER;
		b->logged[i] = goes_by_log(a, b, i, io);
		if (!b->logged[i])
			plain[plain_count++] = b->numbers[i];
	}
	os_mutex_unlock(&a->lock);
	rc = map__prepare(a, io, plain, plain_count, b->stream, err);
	b->at_row = 0;
	b->at_byte = 0;
	while (!rc && b->at_row < b->count) {
		io__reset(io);
		os_mutex_lock(&a->lock);
		io__roads(a, io);
		rc = array__broken(a, err);
		os_mutex_unlock(&a->lock);
		if (!rc)
			rc = round_fill(a, b, io, err);
		if (rc || !b->span_count)
			continue;
		rc = round_read(a, b, io, err);
		for (unsigned i = 0; i < b->span_count && !rc; i++)
			rc = span_compute(a, b, &b->spans[i], err);
		if (!rc)
			rc = round_write(a, b, io, err);
		if (!rc)
			round_count(a, b);
	}
	return rc;
}
