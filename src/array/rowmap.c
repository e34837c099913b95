/*
 * The row map: what is known of each row, on the disks and in memory.
 *
 *      on the disks                                        after a crash
 *      never    nothing was ever written                   reads as zeros, without I/O
 *      fresh    a first write may be under way             never: nothing in it was promised yet
 *      clean    parity and copies agree                    nothing to do
 *      dirty    they may not                               made to agree
 *      lost     it was dirty and a member was missing      some sectors may hold poison (poison.c)
 *               (or lost and dirty: lost, being written)
 *
 * Memory knows exactly (ROW_ACTUAL); the disks may say fresh of a row that is never and dirty of one that is clean,
 * never the reverse. That is ARRAY-2: before a write of a row starts, the disks say fresh or dirty of it; after a
 * flush returned, they say clean (or, where nothing but time is lost by it, dirty) of what it made durable.
 *
 * A change is written ahead of its need, further for a long stream, since each is a seek. It goes to the members that
 * map__keepers names, a set that the array does not survive losing anyhow, in turns, so that each disk is troubled
 * seldom. A block is 4 KiB with two slots, written in turns: a torn write leaves the block before it, whose later
 * writes had not started.
 *
 * Setting *dirty* ahead costs something in `log` mode: if power and a member go together, the member's columns of all
 * dirty rows are in doubt, though most were not being written. So there only a long stream sets dirty ahead, and by
 * 256 rows at most; *fresh* has no such price.
 */
#include "internal.h"

#include <string.h>

static const uint8_t magic[8] = {'S', 'P', 'N', 'D', 'L', 'M', 'A', 'P'};
enum { AT_ID = 8, AT_BLOCK = 24, AT_GENERATION = 32, AT_CRC = 60 };
_Static_assert(AT_CRC + 4 == MAP_HEAD_BYTES, "the rows follow the head");

#define IMAGES 16u /* blocks written together */
#define AHEAD_LEAST 64u
#define AHEAD_DIRTY_MAX 1024u
#define AHEAD_DIRTY_LOG_MAX 256u

uint64_t map__blocks(uint64_t rows)
{
	return (rows + MAP_ROWS_OF_BLOCK - 1) / MAP_ROWS_OF_BLOCK;
}

int map__open(struct array *a, struct error *err)
{
	if (!a->redundant)
		return 0;
	a->map = calloc(a->row_count, 1);
	a->block_count = map__blocks(a->row_count);
	a->blocks = calloc(a->block_count, sizeof *a->blocks);
	a->map_image = aligned_alloc(DISK_BUFFER_ALIGN, IMAGES * BLOCK_BYTES);
	if (!a->map || !a->blocks || !a->map_image)
		return error_set(
			err, ERR_MEMORY, "out of memory for the map of %llu rows", (unsigned long long)a->row_count);
	return 0;
}

void map__close(struct array *a)
{
	free(a->map);
	free(a->blocks);
	free(a->map_image);
}

static uint64_t block_rows(const struct array *a, uint64_t block)
{
	return min_of(a->row_count - block * MAP_ROWS_OF_BLOCK, (uint64_t)MAP_ROWS_OF_BLOCK);
}

static void durable_set(uint8_t *row, enum row_state s)
{
	*row = (uint8_t)((*row & ~0x38) | s << 3);
}
static void actual_set(uint8_t *row, enum row_state s)
{
	*row = (uint8_t)((*row & ~0x07) | s);
}

/* --- where ------------------------------------------------------------------------------------ */

static bool keeps(const struct array *a, unsigned member)
{
	const struct member *m = &a->members[member];

	return m->disk && (m->state == ARRAY_MEMBER_ONLINE || (m->state == ARRAY_MEMBER_REBUILDING && m->source));
}

unsigned map__keepers(struct array *a, uint64_t turn, unsigned ret[LAYOUT_WIDTH_MAX])
{
	const struct layout *l = &a->layout;
	unsigned count = 0;

	if (l->parity) {
		unsigned group = (unsigned)(turn % l->groups), first = (unsigned)(turn / l->groups % l->width);

		for (unsigned i = 0; i < l->width && count <= l->parity; i++) {
			unsigned member = group * l->width + (first + i) % l->width;

			if (keeps(a, member))
				ret[count++] = member;
		}
		return count;
	}
	for (unsigned copy = 0; copy < l->copies; copy++) {
		struct layout_place place;

		layout_place(l, turn % min_of((uint64_t)l->disks, a->size_bytes / l->chunk_bytes), copy, &place);
		if (keeps(a, place.disk))
			ret[count++] = place.disk;
	}
	return count;
}

/* --- blocks on the disks ---------------------------------------------------------------------- */

static void block_pack(
	const struct array *a, uint64_t block, uint64_t generation, const uint8_t *states, uint8_t *image)
{
	uint64_t rows = block_rows(a, block);

	memset(image, 0, BLOCK_BYTES);
	memcpy(image, magic, sizeof magic);
	memcpy(image + AT_ID, a->label.array_id, ID_BYTES);
	put_le64(image + AT_BLOCK, block);
	put_le64(image + AT_GENERATION, generation);
	for (uint64_t i = 0; i < rows; i++)
		image[MAP_HEAD_BYTES + i / 2] |= (uint8_t)(states[i] << (i % 2 * 4));
	put_le32(image + AT_CRC, checksum_crc32c(image, BLOCK_BYTES));
}

/* The generation, or 0 when it is no good block of ours. */
static uint64_t block_check(const struct array *a, uint64_t block, uint8_t *image)
{
	uint32_t crc = get_le32(image + AT_CRC);

	if (memcmp(image, magic, sizeof magic) || memcmp(image + AT_ID, a->label.array_id, ID_BYTES))
		return 0;
	put_le32(image + AT_CRC, 0);
	if (checksum_crc32c(image, BLOCK_BYTES) != crc || get_le64(image + AT_BLOCK) != block)
		return 0;
	return get_le64(image + AT_GENERATION);
}

static enum row_state image_row(const uint8_t *image, uint64_t i)
{
	unsigned s = image[MAP_HEAD_BYTES + i / 2] >> (i % 2 * 4) & 15;

	return s < ROW_STATES ? (enum row_state)s : ROW_DIRTY;
}

static void block_take(struct array *a, uint64_t block, const uint8_t *image)
{
	for (uint64_t i = 0; i < block_rows(a, block); i++)
		durable_set(&a->map[block * MAP_ROWS_OF_BLOCK + i], image_row(image, i));
}

void map__doubt(struct array *a)
{
	for (uint64_t block = 0; block < a->block_count; block++)
		a->blocks[block].unwritten = a->blocks[block].behind = a->blocks[block].generation > 0;
}

int map__load(struct array *a, struct io *io, struct error *err)
{
	if (!a->redundant)
		return 0;
	scoped_free uint8_t *buffer = aligned_alloc(DISK_BUFFER_ALIGN, (size_t)a->member_count * 2 * BLOCK_BYTES);
	if (!buffer)
		return error_set(err, ERR_MEMORY, "out of memory for reading the map");
	for (uint64_t block = 0; block < a->block_count; block++) {
		io__reset(io);
		for (unsigned m = 0; m < a->member_count; m++)
			for (unsigned side = 0; side < 2; side++) {
				struct disk *d = side ? io->roads[m].source : io->roads[m].disk;

				if (d && (side || !io->roads[m].source))
					io__piece(io, m * 2 + side, a->label.map_offset + block * 2 * BLOCK_BYTES,
						buffer + (size_t)m * 2 * BLOCK_BYTES, 2 * BLOCK_BYTES, m);
			}
		int rc = io__run(io, DISK_READ);
		if (rc < 0)
			return error_set(err, rc, "out of memory for reading the map");
		for (size_t i = 0; i < io->piece_count; i++)
			for (unsigned slot = 0; slot < 2 && io->pieces[i].status == 0; slot++) {
				uint8_t *image = io->pieces[i].bytes + slot * BLOCK_BYTES;
				uint64_t generation = block_check(a, block, image);

				if (generation > a->blocks[block].generation) {
					a->blocks[block].generation = generation;
					block_take(a, block, image);
				}
			}
	}
	io__reset(io);
	for (uint64_t row = 0; row < a->row_count; row++) {
		enum row_state s = ROW_DURABLE(a->map[row]);

		actual_set(&a->map[row], s == ROW_FRESH ? ROW_NEVER : s == ROW_LOST_DIRTY ? ROW_LOST : s);
		a->rows_lost += ROW_ACTUAL(a->map[row]) == ROW_LOST;
	}
	for (uint64_t block = 0; block < a->block_count; block++)
		a->blocks[block].behind = true;
	return 0;
}

/* Writes images of so many blocks to a set of keepers, durably. Without the lock; map_busy is ours. */
static int images_write(struct array *a, struct io *io, const uint64_t *blocks, unsigned count, struct error *err)
{
	for (unsigned attempt = 0; attempt <= a->member_count; attempt++) {
		unsigned keepers[LAYOUT_WIDTH_MAX];
		bool want[2 * (LAYOUT_DISKS_MAX + 1)] = {false};
		int status[2 * (LAYOUT_DISKS_MAX + 1)], failed = 0;

		os_mutex_lock(&a->lock);
		unsigned keeper_count = map__keepers(a, a->map_turn++, keepers);
		io__roads(a, io);
		int rc = array__broken(a, err);
		a->counters.map_writes += keeper_count;
		os_mutex_unlock(&a->lock);
		if (rc)
			return rc;
		io->piece_count = 0;
		for (unsigned k = 0; k < keeper_count; k++)
			for (unsigned i = 0; i < count; i++) {
				uint64_t slot = get_le64(a->map_image + i * BLOCK_BYTES + AT_GENERATION) % 2;
				uint64_t at = a->label.map_offset + (blocks[i] * 2 + slot) * BLOCK_BYTES;

				for (unsigned side = 0; side < 2; side++)
					if (side ? io->roads[keepers[k]].source : io->roads[keepers[k]].disk) {
						want[keepers[k] * 2 + side] = true;
						io__piece(io, keepers[k] * 2 + side, at, a->map_image + i * BLOCK_BYTES,
							BLOCK_BYTES, 0);
					}
			}
		rc = io__run(io, DISK_WRITE);
		if (rc < 0)
			return error_set(err, rc, "out of memory for writing the map");
		for (size_t i = 0; i < io->piece_count; i++)
			if (io->pieces[i].status) {
				array__write_failed(a, io->pieces[i].key, io->pieces[i].status);
				want[io->pieces[i].key] = false;
				failed++;
			}
		rc = io__flush(io, want, status);
		if (rc)
			return error_set(err, rc, "out of memory for writing the map");
		for (unsigned key = 0; key < 2 * io->road_count; key++)
			if (status[key]) {
				array__write_failed(a, key, status[key]);
				failed++;
			}
		if (!failed && keeper_count)
			return 0;
	}
	return error_set(err, ERR_LOST, "array %s: no member takes the row map any more", a->label.name);
}

/* --- before a write --------------------------------------------------------------------------- */

static bool needs_mark(uint8_t row)
{
	switch (ROW_ACTUAL(row)) {
	case ROW_NEVER:
		return ROW_DURABLE(row) != ROW_FRESH;
	case ROW_CLEAN:
	case ROW_PROMISED:
		return ROW_DURABLE(row) != ROW_DIRTY;
	case ROW_DIRTY:
		/* Fresh will do while nothing in the row is promised; a flush that runs has cleared the mark. */
		if (ROW_DURABLE(row) == ROW_FRESH)
			return !(row & ROW_TOUCHED);
		/* Lost, and written whole by way of the log: a further write whole by way of the map. */
		return ROW_DURABLE(row) != ROW_DIRTY && ROW_DURABLE(row) != ROW_LOST_DIRTY;
	case ROW_LOST:
		return ROW_DURABLE(row) != ROW_LOST_DIRTY;
	default:
		return false;
	}
}

/* Its first write is not flushed: as dirty it would show, after a crash, what lay there before. The flush that runs
 * will have seen to that. */
static bool must_wait(const struct array *a, uint8_t row)
{
	return a->flushing && ROW_DURABLE(row) == ROW_FRESH &&
	       (ROW_ACTUAL(row) == ROW_DIRTY || ROW_ACTUAL(row) == ROW_PROMISED) && needs_mark(row);
}

static bool any_must_wait(const struct array *a, const uint64_t *rows, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (must_wait(a, a->map[rows[i]]))
			return true;
	return false;
}

static bool any_needs_mark(const struct array *a, const uint64_t *rows, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (needs_mark(a->map[rows[i]]))
			return true;
	return false;
}

static uint8_t mark_of(uint8_t row)
{
	if (ROW_ACTUAL(row) == ROW_DIRTY && ROW_DURABLE(row) == ROW_LOST)
		return ROW_LOST_DIRTY;
	return (uint8_t)(ROW_ACTUAL(row) == ROW_NEVER  ? ROW_FRESH
			 : ROW_ACTUAL(row) == ROW_LOST ? ROW_LOST_DIRTY
						       : ROW_DIRTY);
}

/* Rows that are dirty lose a column when a member goes with the power, or is away already. So none is dirty without
 * need where that must not be (`log`) or is at hand (degraded). */
static bool careful(const struct array *a)
{
	return a->journal || a->degraded;
}

/*
 * Marks rows in `states`, which holds the states of one block from `base`, as far ahead as it pays. Fresh costs nothing
 * but the write itself: the whole block gets it. Dirty costs a resync after a crash: the aligned 64 rows around, and
 * more where a stream goes on.
 */
static void mark_ahead(struct array *a, uint8_t *states, uint64_t base, uint64_t row, bool stream)
{
	uint64_t rows = block_rows(a, base / MAP_ROWS_OF_BLOCK), at = row - base, from = at, to = at + 1;

	if (ROW_ACTUAL(a->map[row]) == ROW_NEVER) {
		for (uint64_t i = 0; i < rows; i++)
			if (ROW_ACTUAL(a->map[base + i]) == ROW_NEVER && states[i] == ROW_NEVER)
				states[i] = ROW_FRESH;
		return;
	}
	if (ROW_ACTUAL(a->map[row]) != ROW_LOST && (!careful(a) || (stream && !a->degraded))) {
		bool goes_on = row + AHEAD_LEAST >= a->set_ahead_next && row <= a->set_ahead_next + 4 * AHEAD_LEAST;

		uint64_t most = a->journal ? AHEAD_DIRTY_LOG_MAX : AHEAD_DIRTY_MAX;
		a->set_ahead_rows =
			goes_on ? max_of((uint64_t)AHEAD_LEAST, min_of(4 * a->set_ahead_rows, most)) : AHEAD_LEAST;
		from = round_down_u64(at, AHEAD_LEAST);
		to = min_of(rows, max_of(from + AHEAD_LEAST, at + a->set_ahead_rows));
		a->set_ahead_next = base + to;
	}
	for (uint64_t i = from; i < to; i++)
		if (ROW_ACTUAL(a->map[base + i]) == ROW_CLEAN)
			states[i] = ROW_DIRTY;
	states[at] = mark_of(a->map[row]);
}

/* Full rows that wait in the buffer will be overwritten next: their marks come with this write. */
static void mark_waiting(const struct array *a, uint8_t *states, uint64_t block)
{
	list_for_each(&a->full, node)
	{
		uint64_t row = container_of(node, struct buf_row, full)->row;

		if (row / MAP_ROWS_OF_BLOCK == block && ROW_ACTUAL(a->map[row]) == ROW_CLEAN)
			states[row % MAP_ROWS_OF_BLOCK] = ROW_DIRTY;
	}
}

/* Marks what the rows of up to IMAGES blocks need; returns how many rows it saw to. With the lock, let go meanwhile. */
static int mark_some(struct array *a, struct io *io, const uint64_t *rows, unsigned count, bool stream,
	unsigned *ret_seen, struct error *err)
{
	uint64_t blocks[IMAGES];
	uint8_t states[MAP_ROWS_OF_BLOCK];
	unsigned block_count = 0, i = 0;

	while (i < count && block_count < IMAGES) {
		uint64_t block = rows[i] / MAP_ROWS_OF_BLOCK, base = block * MAP_ROWS_OF_BLOCK;
		bool changed = false;

		for (uint64_t r = 0; r < block_rows(a, block); r++)
			states[r] = (uint8_t)ROW_DURABLE(a->map[base + r]);
		for (; i < count && rows[i] / MAP_ROWS_OF_BLOCK == block; i++)
			if (!must_wait(a, a->map[rows[i]]) && needs_mark(a->map[rows[i]]) &&
				states[rows[i] - base] != mark_of(a->map[rows[i]])) {
				mark_ahead(a, states, base, rows[i], stream);
				changed = true;
			}
		if (!changed)
			continue;
		if (stream && !a->degraded)
			mark_waiting(a, states, block);
		/* The generation counts when the write fails too: it may be there in part. */
		block_pack(a, block, ++a->blocks[block].generation, states, a->map_image + block_count * BLOCK_BYTES);
		blocks[block_count++] = block;
	}
	*ret_seen = i;
	if (!block_count)
		return 0;
	os_mutex_unlock(&a->lock);
	int rc = images_write(a, io, blocks, block_count, err);
	os_mutex_lock(&a->lock);
	for (unsigned b = 0; b < block_count; b++) {
		a->blocks[blocks[b]].behind = true;
		if (!rc) {
			block_take(a, blocks[b], a->map_image + b * BLOCK_BYTES);
			a->blocks[blocks[b]].unwritten = false;
		}
	}
	return rc;
}

/* A stream comes near the end of what is marked: one writer marks more while the others go on. */
static int mark_early(struct array *a, struct io *io, uint64_t last, struct error *err)
{
	uint64_t next = a->set_ahead_next;
	unsigned seen;

	if (a->map_busy || next >= a->row_count || last >= next || last + a->set_ahead_rows / 2 < next ||
		ROW_ACTUAL(a->map[next]) != ROW_CLEAN || !needs_mark(a->map[next]))
		return 0;
	a->map_busy = true;
	int rc = mark_some(a, io, &next, 1, true, &seen, err);
	a->map_busy = false;
	array__settle(a);
	return rc;
}

int map__prepare(struct array *a, struct io *io, const uint64_t *rows, unsigned count, bool stream, struct error *err)
{
	int rc = 0;

	if (!a->redundant || count == 0)
		return 0;
	os_scoped_lock(&a->lock);
	while (!rc && any_needs_mark(a, rows, count)) {
		if (a->map_busy || any_must_wait(a, rows, count)) {
			array__wait(a);
			continue;
		}
		a->map_busy = true;
		for (unsigned at = 0, seen = 0; at < count && !rc; at += seen)
			rc = mark_some(a, io, rows + at, count - at, stream, &seen, err);
		a->map_busy = false;
		array__settle(a);
	}
	if (!rc && stream)
		rc = mark_early(a, io, rows[count - 1], err);
	for (unsigned i = 0; i < count && !rc; i++) {
		uint8_t *b = &a->map[rows[i]];

		sp_assert(!needs_mark(*b)); /* ARRAY-2 */
		*b |= ROW_IN_FLIGHT | ROW_TOUCHED;
		if (ROW_ACTUAL(*b) == ROW_CLEAN)
			actual_set(b, ROW_DIRTY);
		a->blocks[rows[i] / MAP_ROWS_OF_BLOCK].attention = true;
	}
	return rc;
}

/* --- after it --------------------------------------------------------------------------------- */

void map__done(struct array *a, uint64_t row, bool whole)
{
	if (!a->redundant)
		return;
	uint8_t *b = &a->map[row];
	bool plain = *b & ROW_IN_FLIGHT;
	struct map_block *block = &a->blocks[row / MAP_ROWS_OF_BLOCK];

	*b &= (uint8_t)~ROW_IN_FLIGHT;
	if (ROW_ACTUAL(*b) == ROW_LOST && whole) { /* DURABLE stays lost, so a crash takes it back there */
		a->rows_lost--;
		actual_set(b, ROW_DIRTY);
		*b |= ROW_TOUCHED;
		block->attention = true;
		a->plain_unflushed = true;
	} else if (plain && ROW_ACTUAL(*b) == ROW_NEVER) {
		actual_set(b, ROW_DIRTY);
	}
	a->plain_unflushed |= plain;
	a->map_lazy |= plain;
}

void map__lose(struct array *a, uint64_t row)
{
	a->rows_lost += ROW_ACTUAL(a->map[row]) != ROW_LOST;
	actual_set(&a->map[row], ROW_LOST);
	a->blocks[row / MAP_ROWS_OF_BLOCK].behind = true;
}

void map__cured(struct array *a, uint64_t row)
{
	if (ROW_ACTUAL(a->map[row]) == ROW_DIRTY)
		actual_set(&a->map[row], ROW_CLEAN);
	a->blocks[row / MAP_ROWS_OF_BLOCK].behind = true;
}

void map__flush_begin(struct array *a)
{
	for (uint64_t block = 0; a->redundant && block < a->block_count; block++) {
		if (!a->blocks[block].attention)
			continue;
		for (uint8_t *b = a->map + block * MAP_ROWS_OF_BLOCK, *end = b + block_rows(a, block); b < end; b++) {
			bool fresh = ROW_DURABLE(*b) == ROW_FRESH;

			if (ROW_ACTUAL(*b) == ROW_LOST && *b & ROW_TOUCHED && !(*b & ROW_IN_FLIGHT))
				a->blocks[block].lost_waits = true;
			if (!(*b & ROW_IN_FLIGHT))
				*b &= (uint8_t)~ROW_TOUCHED;
			else if (ROW_ACTUAL(*b) == ROW_DIRTY && fresh)
				actual_set(b, ROW_PROMISED);
			if (ROW_ACTUAL(*b) == ROW_PROMISED && !fresh)
				actual_set(b, ROW_DIRTY);
		}
	}
}

bool map__flush_end(struct array *a)
{
	bool promised = false;

	for (uint64_t block = 0; a->redundant && block < a->block_count; block++) {
		bool still = false;

		if (!a->blocks[block].attention)
			continue;
		for (uint8_t *b = a->map + block * MAP_ROWS_OF_BLOCK, *end = b + block_rows(a, block); b < end; b++) {
			promised |= ROW_ACTUAL(*b) == ROW_PROMISED && ROW_DURABLE(*b) == ROW_FRESH;
			if (*b & (ROW_IN_FLIGHT | ROW_TOUCHED))
				still = true;
			else if (ROW_ACTUAL(*b) == ROW_DIRTY || ROW_ACTUAL(*b) == ROW_PROMISED)
				actual_set(b, ROW_CLEAN);
		}
		a->blocks[block].attention = still;
		a->blocks[block].lost_waits = false;
		a->blocks[block].behind = true;
	}
	return promised;
}

void map__flush_wait(struct array *a)
{
	for (uint64_t block = 0; a->redundant && block < a->block_count; block++)
		while (a->blocks[block].lost_waits)
			array__wait(a);
}

void map__flush_undo(struct array *a)
{
	for (uint64_t block = 0; a->redundant && block < a->block_count; block++) {
		if (!a->blocks[block].attention)
			continue;
		for (uint8_t *b = a->map + block * MAP_ROWS_OF_BLOCK, *end = b + block_rows(a, block); b < end; b++) {
			if (ROW_ACTUAL(*b) == ROW_PROMISED)
				actual_set(b, ROW_DIRTY);
			if (ROW_ACTUAL(*b) == ROW_DIRTY)
				*b |= ROW_TOUCHED;
			if (ROW_ACTUAL(*b) == ROW_LOST && a->blocks[block].lost_waits)
				*b |= ROW_TOUCHED;
		}
		a->blocks[block].lost_waits = false;
	}
}

/* What the disks should say of a row at least (all: at best). */
static enum row_state sync_target(
	const struct array *a, const struct map_block *block, uint8_t b, bool all, bool whole, bool *must)
{
	enum row_state d = ROW_DURABLE(b), s = ROW_ACTUAL(b);

	*must = false;
	if (s == ROW_CLEAN && d != ROW_CLEAN) {
		*must = d != ROW_DIRTY || all || careful(a);
		return ROW_CLEAN;
	}
	if (s == ROW_PROMISED && d == ROW_FRESH && a->promise_now) {
		*must = true;
		return ROW_DIRTY;
	}
	if (s == ROW_LOST && d != ROW_LOST && !(b & (ROW_IN_FLIGHT | ROW_TOUCHED)) && !block->lost_waits) {
		*must = d != ROW_LOST_DIRTY || all || careful(a);
		return ROW_LOST;
	}
	if (s == ROW_NEVER && d != ROW_NEVER && whole && !(b & ROW_IN_FLIGHT)) {
		*must = true;
		return ROW_NEVER;
	}
	return d;
}

int map__sync(struct array *a, struct io *io, bool all, bool whole, struct error *err)
{
	uint8_t states[MAP_ROWS_OF_BLOCK];
	uint64_t blocks[IMAGES], block = 0;
	int rc = 0;

	if (!a->redundant)
		return 0;
	/* Whoever missed what is called clean here is out by the labels before: ARRAY-1. */
	array__labels_settle(a);
	while (a->map_busy) {
		array__wait(a);
		array__labels_settle(a);
	}
	a->map_busy = true;
	while (block < a->block_count && !rc) {
		unsigned count = 0;

		for (; block < a->block_count && count < IMAGES; block++) {
			uint64_t base = block * MAP_ROWS_OF_BLOCK;
			bool must = false, any = a->blocks[block].unwritten;

			if (!a->blocks[block].behind)
				continue;
			for (uint64_t r = 0; r < block_rows(a, block); r++) {
				states[r] =
					(uint8_t)sync_target(a, &a->blocks[block], a->map[base + r], all, whole, &must);
				any |= must;
			}
			a->blocks[block].behind = !all;
			if (!any)
				continue;
			block_pack(a, block, ++a->blocks[block].generation, states, a->map_image + count * BLOCK_BYTES);
			a->blocks[block].unwritten = true;
			/* At once: who wants to write a row that is on its way to clean must see that it needs a mark.
			 */
			block_take(a, block, a->map_image + count * BLOCK_BYTES);
			blocks[count++] = block;
		}
		if (!count)
			continue;
		os_mutex_unlock(&a->lock);
		rc = images_write(a, io, blocks, count, err);
		os_mutex_lock(&a->lock);
		for (unsigned i = 0; i < count; i++) {
			a->blocks[blocks[i]].unwritten = rc != 0;
			a->blocks[blocks[i]].behind |= rc != 0;
		}
	}
	a->map_busy = false;
	if (all)
		a->map_lazy = rc != 0;
	array__settle(a);
	return rc ? rc : array__broken(a, err);
}

int map__give(struct array *a, unsigned member, struct error *err)
{
	scoped_free uint8_t *image = aligned_alloc(DISK_BUFFER_ALIGN, BLOCK_BYTES);
	struct disk *d = a->members[member].disk;
	int rc = image ? 0 : error_set(err, ERR_MEMORY, "out of memory for writing the map");

	os_scoped_lock(&a->lock);
	while (a->map_busy)
		array__wait(a);
	a->map_busy = true;
	for (uint64_t block = 0; a->redundant && block < a->block_count && !rc; block++) {
		uint8_t states[MAP_ROWS_OF_BLOCK];
		uint64_t generation = a->blocks[block].generation;

		if (!generation)
			continue;
		for (uint64_t r = 0; r < block_rows(a, block); r++)
			states[r] = (uint8_t)ROW_DURABLE(a->map[block * MAP_ROWS_OF_BLOCK + r]);
		block_pack(a, block, generation, states, image);
		os_mutex_unlock(&a->lock);
		rc = disk_write(
			d, a->label.map_offset + (block * 2 + generation % 2) * BLOCK_BYTES, image, BLOCK_BYTES, err);
		os_mutex_lock(&a->lock);
	}
	if (!rc) {
		os_mutex_unlock(&a->lock);
		rc = disk_flush(d, err);
		os_mutex_lock(&a->lock);
	}
	if (!rc)
		rc = array__state_set(a, member, ARRAY_MEMBER_ONLINE);
	/* From here on the disk that was replaced misses writes: the labels say so before the map calls any row clean.
	 */
	array__labels_settle(a);
	a->map_busy = false;
	array__settle(a);
	return rc;
}
