/*
 * Writers: threads that take rows out of the buffer and put them on the disks.
 *
 * A row may go when it is full; when it waited for a second; when a flush asks for it; and when the buffer is half
 * full and nobody touched it lately. What is taken together is put on the disks together: a run of neighbouring full
 * rows (8 MiB: one long write a disk), or some hundred partial rows in the order of their places, each batch going on
 * where the last one ended. Few threads so keep every disk's queue deep and sorted.
 *
 * Layouts without parity are written from here; parity.c does the others.
 */
#include "write.h"

#include <string.h>

#define RUN_BYTES (8 * MIB)
#define PARTIAL_ROWS 256u
#define BATCH_SHARE 8u       /* of the buffer: fewer partial rows than that wait for company */
#define QUIET_NS 2000000000u /* then dirty marks that are kept for the next write are given up */
#define GROW_NS 100000000u
#define GROW_LOOK_NS 10000000u
#define SCRATCH_BYTES_LEAST (16 * MIB)
#define SCRATCH_BYTES_MAX (64 * MIB)

int writer__open(struct array *a, struct writer *w, struct error *err)
{
	uint64_t by_disks = min_of(max_of(a->member_count * MIB, SCRATCH_BYTES_LEAST), SCRATCH_BYTES_MAX);
	uint64_t scratch = a->layout.parity ? min_of(by_disks, max_of(32 * a->row_bytes, MIB)) : 0;

	w->array = a;
	w->batch = calloc(1, sizeof *w->batch);
	if (!w->batch || !(w->batch->candidates = malloc(a->row_object_count * sizeof *w->batch->candidates)))
		return error_set(err, ERR_MEMORY, "out of memory for a writer");
	return io__open(&w->io, a->member_count, scratch, true, err);
}

void writer__close(struct writer *w)
{
	io__close(w->io);
	if (w->batch) {
		free(w->batch->candidates);
		free(w->batch->spans);
		free(w->batch->columns);
		free(w->batch);
	}
	*w = (struct writer){.array = w->array};
}

/* --- which rows ------------------------------------------------------------------------------- */

static void take(struct array *a, struct batch *b, struct buf_row *row)
{
	sp_assert(buffer__row_free(a, row) && row->has_data);
	if (row->is_full)
		list_remove(&row->full);
	row->writing = true;
	a->writing_rows++;
	b->rows[b->count] = row;
	b->numbers[b->count++] = row->row;
}

static bool is_full_and_free(struct array *a, const struct buf_row *row)
{
	return row && row->is_full && buffer__row_free(a, row);
}

/* A head that serves two far copies goes between two places: the longer the pieces, the rarer. */
static uint64_t run_bytes(const struct array *a)
{
	uint64_t buffer = (uint64_t)a->slot_count * a->slot_bytes;

	if (a->layout.kind == LAYOUT_RAID10 && a->layout.spread == LAYOUT_FAR)
		return max_of(RUN_BYTES, buffer / 2);
	return RUN_BYTES;
}

/*
 * In `log` mode a short run of full rows is written twice, a long one once. So a short one whose next row is just
 * coming in is left a moment, unless there is a reason to hurry.
 */
static bool run_grows(struct array *a, uint64_t first, uint64_t end)
{
	uint64_t before = first == a->stream_next ? a->stream_bytes : 0;
	if (!a->journal || before + (end - first) * a->row_bytes >= STREAM_BYTES || end >= a->row_count ||
		ROW_ACTUAL(a->map[first]) != ROW_CLEAN || a->slot_spare_count < a->slot_count / 2)
		return false;
	const struct buf_row *head = buffer__find(a, first), *next = buffer__find(a, end);
	return head->epoch >= a->flush_upto && next && !next->is_full && !next->writing &&
	       (next->has_data || next->copying) && (next->copying || os_now_ns() - next->born_ns < GROW_NS);
}

static uint64_t run_end(struct array *a, uint64_t first, uint64_t most)
{
	uint64_t end = first + 1;

	while (end - first < most && end < a->row_count && is_full_and_free(a, buffer__find(a, end)))
		end++;
	return end;
}

static bool pick_run(struct array *a, struct batch *b)
{
	uint64_t most = max_of((uint64_t)1, min_of(run_bytes(a) / a->row_bytes, (uint64_t)BATCH_ROWS));

	list_for_each(&a->full, node)
	{
		struct buf_row *row = container_of(node, struct buf_row, full);

		if (!buffer__row_free(a, row))
			continue;
		uint64_t first = row->row;
		while (first && row->row - first + 1 < most && is_full_and_free(a, buffer__find(a, first - 1)))
			first--;
		uint64_t end = run_end(a, first, most);
		if (run_grows(a, first, end)) {
			b->held = true;
			continue;
		}
		for (uint64_t r = first; r < end; r++)
			take(a, b, buffer__find(a, r));
		a->stream_bytes =
			(end - first) * a->row_bytes + (first && first == a->stream_next ? a->stream_bytes : 0);
		a->stream_next = end;
		b->stream = a->stream_bytes >= STREAM_BYTES;
		b->full = true;
		return true;
	}
	return false;
}

static int by_row(const void *x, const void *y)
{
	const struct buf_row *a = *(struct buf_row *const *)x, *b = *(struct buf_row *const *)y;

	return a->row < b->row ? -1 : a->row > b->row;
}

static bool may_go(struct array *a, const struct buf_row *row, uint64_t now, bool stuck)
{
	bool half = a->slot_spare_count < a->slot_count / 2 || list_is_empty(&a->spare);

	if (row->is_full || !buffer__row_free(a, row))
		return false;
	if (row->epoch < a->flush_upto || now - row->born_ns >= a->tuning.buffer_age_ns || stuck)
		return true;
	return half && a->write_clock - row->touched >= a->slot_count / 8;
}

/* The rows that may go, and how much of the buffer they are. */
static unsigned candidates_find(struct array *a, struct batch *b, unsigned *ret_slots, bool *ret_asked)
{
	uint64_t now = os_now_ns();
	bool stuck = a->room_waiters && a->writing_rows == 0;
	unsigned count = 0;

	*ret_slots = 0;
	*ret_asked = false;
	list_for_each(&a->live, node)
	{
		struct buf_row *row = container_of(node, struct buf_row, live);

		if (!may_go(a, row, now, stuck))
			continue;
		b->candidates[count++] = row;
		*ret_slots += row->slots;
		*ret_asked |= row->epoch < a->flush_upto;
	}
	return count;
}

/* A batch costs each disk several turns, so a few rows wait until there are more, as long as others are under way. */
static bool pick_partial(struct array *a, struct batch *b)
{
	unsigned slots, at = 0;
	bool asked;
	unsigned count = candidates_find(a, b, &slots, &asked);

	if (!count)
		return false;
	if (a->partial_batches && !asked && slots < a->slot_count / BATCH_SHARE) {
		b->held = true;
		return false;
	}
	qsort(b->candidates, count, sizeof *b->candidates, by_row);
	while (at < count && b->candidates[at]->row < a->elevator)
		at++;
	if (at + min_of(count, PARTIAL_ROWS) > count)
		at = count - min_of(count, PARTIAL_ROWS);
	for (; at < count && b->count < PARTIAL_ROWS; at++)
		take(a, b, b->candidates[at]);
	a->elevator = b->numbers[b->count - 1] + 1;
	if (a->elevator > b->candidates[count - 1]->row)
		a->elevator = 0;
	b->full = false;
	return true;
}

/* The oldest waiting row is due: it must not wait until no full row is left. */
static bool partial_is_due(struct array *a)
{
	if (list_is_empty(&a->live) || a->partial_batches)
		return false;
	const struct buf_row *oldest = container_of(a->live.next, struct buf_row, live);
	return !oldest->is_full &&
	       (oldest->epoch < a->flush_upto || os_now_ns() - oldest->born_ns >= a->tuning.buffer_age_ns);
}

static bool pick(struct array *a, struct batch *b)
{
	b->count = 0;
	b->held = b->stream = false;
	if (a->abandoned || a->broken)
		return false;
	if (partial_is_due(a) && pick_partial(a, b))
		return true;
	return pick_run(a, b) || pick_partial(a, b);
}

/* --- layouts without parity ------------------------------------------------------------------- */

static void place_pieces(struct array *a, struct io *io, uint64_t row, uint64_t offset, uint8_t *bytes, uint64_t length)
{
	const struct layout *l = &a->layout;
	struct layout_place place;

	while (length) {
		uint64_t n = length;

		if (l->kind == LAYOUT_CONCAT) {
			layout_place_concat(l, offset, &place, &n);
			n = min_of(n, length);
			io__piece_write(a, io, place.disk, row, place.offset_bytes, bytes, n, false);
		} else {
			n = min_of(length, l->chunk_bytes - offset % l->chunk_bytes);
			for (unsigned copy = 0; copy < l->copies; copy++) {
				layout_place(l, offset / l->chunk_bytes, copy, &place);
				io__piece_write(a, io, place.disk, row, place.offset_bytes + offset % l->chunk_bytes,
					bytes, n, false);
			}
		}
		offset += n;
		bytes += n;
		length -= n;
	}
}

void row__zero_holes(struct array *a, struct buf_row *b, unsigned slot)
{
	uint32_t valid = slot__valid(a, b->slot[slot]);

	for (unsigned s = 0; s < a->slot_bytes / SECTOR_BYTES; s++)
		if (!(valid >> s & 1))
			memset(slot__bytes(a, b->slot[slot]) + s * SECTOR_BYTES, 0, SECTOR_BYTES);
}

static void row_pieces(struct array *a, struct io *io, struct buf_row *b, bool never)
{
	uint64_t base = b->row * a->row_bytes, length = array__row_length(a, b->row);

	for (unsigned s = 0; (uint64_t)s * a->slot_bytes < length; s++) {
		uint64_t at = base + (uint64_t)s * a->slot_bytes,
			 room = min_of((uint64_t)a->slot_bytes, length - (uint64_t)s * a->slot_bytes);
		uint32_t valid = slot__valid(a, b->slot[s]);

		if (never) { /* the first write of a row is one of the whole row */
			if (b->slot[s])
				row__zero_holes(a, b, s);
			place_pieces(a, io, b->row, at, b->slot[s] ? slot__bytes(a, b->slot[s]) : a->zeros, room);
			continue;
		}
		while (valid) {
			unsigned from = (unsigned)__builtin_ctz(valid);
			uint32_t above = ~(valid >> from);
			unsigned run = above ? (unsigned)__builtin_ctz(above) : 32 - from;

			place_pieces(a, io, b->row, at + from * SECTOR_BYTES,
				slot__bytes(a, b->slot[s]) + from * SECTOR_BYTES, (uint64_t)run * SECTOR_BYTES);
			valid &= from + run >= 32 ? 0 : ~(uint32_t)0 << (from + run);
		}
	}
}

/* After a write: members that failed go out; an error when that was too much. */
int batch__write(struct array *a, struct io *io, struct error *err)
{
	int failed = io__run(io, DISK_WRITE);

	if (failed < 0)
		return error_set(err, failed, "array %s: out of memory for writing rows", a->label.name);
	for (size_t i = 0; i < io->piece_count && failed; i++)
		if (io->pieces[i].status)
			array__write_failed(a, io->pieces[i].key, io->pieces[i].status);
	if (!failed)
		return 0;
	os_scoped_lock(&a->lock);
	return array__broken(a, err);
}

static int chunks_batch_run(struct array *a, struct batch *b, struct io *io, struct error *err)
{
	int rc = map__prepare(a, io, b->numbers, b->count, b->stream, err);

	if (rc)
		return rc;
	io__reset(io);
	os_mutex_lock(&a->lock);
	io__roads(a, io);
	for (unsigned i = 0; i < b->count; i++)
		b->never[i] = a->redundant && ROW_ACTUAL(a->map[b->numbers[i]]) == ROW_NEVER;
	rc = array__broken(a, err); /* if it is not, every chunk has a place */
	os_mutex_unlock(&a->lock);
	if (rc)
		return rc;
	for (unsigned i = 0; i < b->count; i++)
		row_pieces(a, io, b->rows[i], b->never[i]);
	return batch__write(a, io, err);
}

/* --- the thread ------------------------------------------------------------------------------- */

/* Nothing can be written any more. What was taken in stays in the buffer, where reads find it. */
static void batch_stays(struct array *a, struct batch *b)
{
	for (unsigned i = 0; i < b->count; i++) {
		struct buf_row *row = b->rows[i];

		row->writing = false;
		a->writing_rows--;
		if (row->is_full)
			list_push_back(&a->full, &row->full);
	}
	os_cond_broadcast(&a->room);
	array__settle(a);
}

static void batch_done(struct array *a, struct batch *b, int rc, const struct error *why)
{
	if (rc && !a->broken) {
		a->broken = true;
		a->broken_error = *why;
	}
	if (rc) {
		batch_stays(a, b);
		return;
	}
	for (unsigned i = 0; i < b->count; i++) {
		struct buf_row *row = b->rows[i];
		bool whole = row->is_full || b->never[i];

		a->counters.full_rows += whole;
		if (a->redundant)
			map__done(a, row->row, whole);
		else
			a->plain_unflushed = true;
		/* What was read ahead is old now. In the same moment the slots go: nobody sees the old bytes. */
		ahead__drop(a, row->row * a->row_bytes, array__row_length(a, row->row));
		buffer__written(a, row);
	}
}

static void batch_run(struct array *a, struct batch *b, struct io *io)
{
	struct error why = ERROR_INIT;
	bool partial = !b->full;

	a->partial_batches += partial;
	memset(b->never, 0, b->count * sizeof *b->never);
	os_mutex_unlock(&a->lock);
	int rc = a->layout.parity ? parity__batch_run(a, b, io, &why) : chunks_batch_run(a, b, io, &why);
	os_mutex_lock(&a->lock);
	array__labels_settle(a); /* ARRAY-6: before what a member missed counts as written */
	batch_done(a, b, rc, &why);
	a->partial_batches -= partial;
	if (a->log_leaving) {
		os_mutex_unlock(&a->lock);
		array__flush_devices(a, true, NULL);
		os_mutex_lock(&a->lock);
	}
}

/* When the next row comes of age; UINT64_MAX: none waits. */
static uint64_t next_due_ns(struct array *a)
{
	list_for_each(&a->live, node)
	{
		const struct buf_row *row = container_of(node, struct buf_row, live);

		if (buffer__row_free(a, row))
			return row->born_ns + a->tuning.buffer_age_ns;
	}
	return UINT64_MAX;
}

/* Nothing to do for a while: rows that the disks hold for dirty become clean, so that a crash costs less. */
static void map_tidy(struct array *a)
{
	struct io *io;

	a->map_lazy = false;
	os_mutex_unlock(&a->lock);
	int rc = array__flush_devices(a, true, NULL);
	io = rc ? NULL : io__get(a, NULL);
	os_mutex_lock(&a->lock);
	if (io) {
		map__sync(a, io, true, false, NULL);
		os_mutex_unlock(&a->lock);
		io__put(a, io);
		os_mutex_lock(&a->lock);
	}
}

void writer__run(void *arg)
{
	struct writer *w = arg;
	struct array *a = w->array;
	bool first = w == &a->writers[0];

	os_mutex_lock(&a->lock);
	while (!a->stopping) {
		if (pick(a, w->batch)) {
			if (!list_is_empty(&a->full))
				os_cond_signal(&a->work);
			a->quiet_since_ns = os_now_ns();
			batch_run(a, w->batch, w->io);
			a->quiet_since_ns = os_now_ns();
			continue;
		}
		uint64_t due = a->broken ? UINT64_MAX : next_due_ns(a), quiet = UINT64_MAX;
		if (first && a->map_lazy && list_is_empty(&a->live) && !a->broken)
			quiet = a->quiet_since_ns + QUIET_NS;
		if (quiet <= os_now_ns()) {
			map_tidy(a);
			continue;
		}
		due = min_of(due, quiet);
		if (w->batch->held) /* what is due is held, or is so for a moment */
			due = os_now_ns() + GROW_LOOK_NS;
		if (due == UINT64_MAX)
			os_cond_wait(&a->work, &a->lock);
		else
			os_cond_wait_until(&a->work, &a->lock, max_of(due, os_now_ns() + 1000));
	}
	os_mutex_unlock(&a->lock);
}

/* --- flush ------------------------------------------------------------------------------------ */

/* One flush of all members. With the lock held, let go meanwhile. */
static int flush_once(struct array *a, struct error *err)
{
	int status[2 * (LAYOUT_DISKS_MAX + 1)];
	struct io *io;

	a->plain_unflushed = false;
	map__flush_begin(a);
	uint64_t upto = log__flush_begin(a);
	os_mutex_unlock(&a->lock);
	io = io__get(a, err);
	os_mutex_lock(&a->lock);
	if (!io) {
		map__flush_undo(a);
		return ERR_MEMORY;
	}
	io__roads(a, io);
	os_mutex_unlock(&a->lock);
	int rc = io__flush(io, NULL, status);
	for (unsigned key = 0; key < 2 * io->road_count && !rc; key++)
		if (status[key])
			array__write_failed(a, key, status[key]);
	os_mutex_lock(&a->lock);
	if (rc)
		error_set(err, rc, "out of memory for a flush");
	else
		rc = array__broken(a, err);
	if (!rc) {
		bool promised = map__flush_end(a);

		log__flush_end(a, upto);
		if (promised) {
			a->promise_now = true;
			rc = map__sync(a, io, false, false, err);
			a->promise_now = false;
		}
	} else {
		map__flush_undo(a);
	}
	os_mutex_unlock(&a->lock);
	io__put(a, io);
	os_mutex_lock(&a->lock);
	return rc;
}

int array__flush_devices(struct array *a, bool force, struct error *err)
{
	os_scoped_lock(&a->lock);
	uint64_t ticket = a->flush_started + (force || a->plain_unflushed);

	while (a->flush_done < ticket) {
		if (a->flushing) {
			array__wait(a);
			continue;
		}
		struct error why = ERROR_INIT;
		uint64_t mine = ++a->flush_started;

		a->flushing = true;
		int rc = flush_once(a, &why);
		a->flushing = false;
		if (rc)
			a->plain_unflushed = true;
		a->flush_code = rc;
		a->flush_error = why;
		a->flush_done = mine;
		array__settle(a);
	}
	array__labels_settle(a);
	if (ticket && a->flush_code)
		return error_set(err, a->flush_code, "%s", a->flush_error.text);
	return array__broken(a, err);
}

/* The disks say clean of what was flushed, or at least no longer fresh: it must survive now. */
static int map_promise(struct array *a, struct error *err)
{
	if (!a->redundant)
		return 0;
	struct io *io = io__get(a, err);
	int rc = io ? 0 : ERR_MEMORY;
	os_mutex_lock(&a->lock);
	map__flush_wait(a);
	if (!rc)
		rc = map__sync(a, io, false, false, err);
	os_mutex_unlock(&a->lock);
	io__put(a, io);
	return rc;
}

int array_flush(struct array *a, struct error *err)
{
	int rc;

	if (a->read_only)
		return 0;
	os_mutex_lock(&a->lock);
	a->counters.flushes++;
	os_mutex_unlock(&a->lock);
	os_charge(OS_STAGE_CALL, 0);
	rc = buffer__flush_rows(a, err);
	if (!rc)
		rc = array__flush_devices(a, false, err);
	return rc ? rc : map_promise(a, err);
}
