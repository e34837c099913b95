/*
 * The log: what partial writes of parity rows will be, before they are.
 *
 * A write of part of a row changes data and parity on several disks. If power goes in between, they disagree, and when
 * a disk goes too, recovery gives nonsense even for bytes that nobody wrote: the write hole. So a batch of such writes
 * first becomes one record: all new data and all new parity, where each goes, under one checksum. It is made durable on
 * a set of members that the array would not survive losing anyhow (or on a log disk), and only then the rows are
 * written in place. After a crash every record is written again. So a row is wholly old or wholly new, and losing as
 * many members as there are parity columns together with the power loses nothing, the column being written included.
 *
 *      ring of a member   | rec 7 | rec 9 | tail-only 10 |   free   | rec 3 | rec 5 |
 *                                                  head ^            ^ tail
 *
 * A record is *in place* when its writes are done, *retired* when they are flushed on all members, and *gone* when a
 * later record that says so (its tail) is durable: then its space may be used again. Between retired and gone a replay
 * would still write it, so rows in such a record may only be changed by another record: ARRAY-5, log__holds.
 */
#include "internal.h"

#include <string.h>

static const uint8_t magic[8] = {'S', 'P', 'N', 'D', 'L', 'L', 'O', 'G'};
enum {
	AT_ID = 8,
	AT_SEQUENCE = 24,
	AT_TAIL = 32,
	AT_HEADER_BYTES = 40,
	AT_PAYLOAD_BYTES = 44,
	AT_ENTRIES = 48,
	AT_CRC = 52,
	HEAD_BYTES = 64,
	ENTRY_BYTES = 16,
	ENTRY_LENGTH = 4,
	ENTRY_OFFSET = 8,
};
enum { SEQUENCE_FREE, SEQUENCE_ACTIVE, SEQUENCE_IN_PLACE };

#define TOUCHES (1u << 14)
#define RESERVE_BYTES (8u * BLOCK_BYTES) /* of a ring, for records that only carry a tail */

int log__open(struct array *a, struct error *err)
{
	if (!a->journal)
		return 0;
	a->ring_count = LAYOUT_DISKS_MAX + 1;
	a->rings = calloc(a->ring_count, sizeof *a->rings);
	a->log_touched = calloc(TOUCHES, sizeof *a->log_touched);
	bool good = a->rings && a->log_touched;
	for (unsigned i = 0; i <= a->member_count && good; i++)
		good = (a->rings[i].spans = calloc(LOG_SPANS, sizeof *a->rings[i].spans)) != NULL;
	if (!good)
		return error_set(err, ERR_MEMORY, "out of memory for the log");
	a->log_next = a->log_tail = a->log_tail_durable = max_of(a->label.log_sequence, (uint64_t)1);
	return 0;
}

void log__close(struct array *a)
{
	for (unsigned i = 0; a->rings && i < a->ring_count; i++)
		free(a->rings[i].spans);
	free(a->rings);
	free(a->log_touched);
}

static uint64_t ring_bytes(const struct array *a, unsigned ring)
{
	return ring == a->member_count ? a->label.log_disk_bytes : a->label.log_bytes;
}

static uint64_t ring_offset(const struct array *a, unsigned ring)
{
	return ring == a->member_count ? MIB : a->label.log_offset;
}

uint64_t log__record_max(const struct array *a)
{
	uint64_t least = a->label.log_bytes;

	if (a->log_disk)
		least = min_of(least, a->label.log_disk_bytes);
	return least / 4;
}

/* --- which rows are held ---------------------------------------------------------------------- */

static unsigned touch_hash(uint64_t row)
{
	return (unsigned)(row * 0x9e3779b97f4a7c15u >> 48) & (TOUCHES - 1);
}

bool log__holds(const struct array *a, uint64_t row)
{
	for (unsigned i = touch_hash(row); a->journal && a->log_touched[i].sequence; i = (i + 1) & (TOUCHES - 1))
		if (a->log_touched[i].row == row && a->log_touched[i].sequence >= a->log_tail_durable)
			return true;
	return false;
}

static void touch(struct array *a, uint64_t row, uint64_t sequence)
{
	unsigned i = touch_hash(row);

	while (a->log_touched[i].sequence && a->log_touched[i].row != row &&
		a->log_touched[i].sequence >= a->log_tail_durable)
		i = (i + 1) & (TOUCHES - 1);
	a->log_touched_used += a->log_touched[i].sequence == 0;
	a->log_touched[i] = (struct log_touch){.row = row, .sequence = sequence};
}

/* Forgets what is gone. Whatever moves forward in its chain is put again, so no chain breaks. */
static void touches_purge(struct array *a)
{
	static const struct log_touch none;
	unsigned kept = 0;
	struct log_touch *live = calloc(TOUCHES, sizeof *live);

	if (!live)
		return; /* then the table says full and the log makes room first */
	for (unsigned i = 0; i < TOUCHES; i++) {
		if (a->log_touched[i].sequence >= a->log_tail_durable)
			live[kept++] = a->log_touched[i];
		a->log_touched[i] = none;
	}
	a->log_touched_used = 0;
	for (unsigned i = 0; i < kept; i++)
		touch(a, live[i].row, live[i].sequence);
	free(live);
}

static bool touches_fit(struct array *a, unsigned count)
{
	if (a->log_touched_used + count > TOUCHES / 4 * 3)
		touches_purge(a);
	return a->log_touched_used + count <= TOUCHES / 4 * 3;
}

/* --- space ------------------------------------------------------------------------------------ */

static void ring_forget(const struct array *a, struct log_ring *r)
{
	while (r->count && r->spans[r->first].sequence < a->log_tail_durable) {
		r->tail = r->spans[r->first].end;
		r->first = (r->first + 1) % LOG_SPANS;
		r->count--;
	}
	if (!r->count)
		r->tail = r->head;
}

/* Where a record of so many bytes would start: it is never cut in two. */
static uint64_t ring_start(const struct array *a, unsigned ring, uint64_t bytes)
{
	uint64_t head = a->rings[ring].head, size = ring_bytes(a, ring);

	return head % size + bytes > size ? round_up_u64(head, size) : head;
}

static bool ring_fits(struct array *a, unsigned ring, uint64_t bytes, bool tail_only)
{
	struct log_ring *r = &a->rings[ring];

	ring_forget(a, r);
	return r->count < LOG_SPANS - (tail_only ? 0 : 4) &&
	       ring_start(a, ring, bytes) + bytes - r->tail <= ring_bytes(a, ring) - (tail_only ? 0 : RESERVE_BYTES);
}

/* The rings for the next record. */
static unsigned rings_choose(struct array *a, unsigned ret[LAYOUT_WIDTH_MAX])
{
	if (a->log_disk) {
		ret[0] = a->member_count;
		return 1;
	}
	return map__keepers(a, a->log_turn, ret);
}

struct record {
	uint64_t sequence, tail, bytes, payload;
	unsigned rings[LAYOUT_WIDTH_MAX], ring_count;
	uint64_t at[LAYOUT_WIDTH_MAX]; /* on the disk */
};

static bool record_place(struct array *a, struct record *r, unsigned row_count)
{
	bool tail_only = r->payload == 0;

	r->ring_count = rings_choose(a, r->rings);
	if (a->log_next - a->log_tail_durable >= LOG_SEQUENCES - (tail_only ? 0 : 8) || !touches_fit(a, row_count))
		return false;
	for (unsigned i = 0; i < r->ring_count; i++)
		if (!ring_fits(a, r->rings[i], r->bytes, tail_only))
			return false;
	a->log_turn++;
	r->sequence = a->log_next++;
	r->tail = a->log_tail;
	a->log_states[r->sequence % LOG_SEQUENCES] = SEQUENCE_ACTIVE;
	for (unsigned i = 0; i < r->ring_count; i++) {
		struct log_ring *ring = &a->rings[r->rings[i]];
		uint64_t start = ring_start(a, r->rings[i], r->bytes);

		r->at[i] = ring_offset(a, r->rings[i]) + start % ring_bytes(a, r->rings[i]);
		ring->head = start + r->bytes;
		ring->spans[(ring->first + ring->count++) % LOG_SPANS] =
			(struct log_span){.sequence = r->sequence, .end = ring->head};
	}
	return true;
}

static int tail_write(struct array *a, struct error *err);

/* With the lock held, let go meanwhile. After it there may be more room. */
static int make_room(struct array *a, struct error *err)
{
	int rc = array__broken(a, err);

	if (rc)
		return rc;
	if (a->log_tail > a->log_tail_durable) {
		if (a->log_tailing) {
			array__wait(a);
			return 0;
		}
		a->log_tailing = true;
		rc = tail_write(a, err);
		a->log_tailing = false;
		array__settle(a);
		return rc;
	}
	if (a->log_states[a->log_tail % LOG_SEQUENCES] != SEQUENCE_IN_PLACE) {
		array__wait(a);
		return 0;
	}
	os_mutex_unlock(&a->lock);
	rc = array__flush_devices(a, true, err);
	os_mutex_lock(&a->lock);
	return rc;
}

/* Early, so that writers need not stop for it. */
static bool half_full(struct array *a)
{
	for (unsigned i = 0; i <= a->member_count; i++)
		if (a->rings[i].count && a->rings[i].head - a->rings[i].tail > ring_bytes(a, i) / 2)
			return true;
	return a->log_next - a->log_tail > LOG_SEQUENCES / 2;
}

uint64_t log__flush_begin(struct array *a)
{
	uint64_t s = a->log_tail;

	while (a->journal && s < a->log_next && a->log_states[s % LOG_SEQUENCES] == SEQUENCE_IN_PLACE)
		s++;
	return s;
}

void log__flush_end(struct array *a, uint64_t upto)
{
	while (a->log_tail < upto)
		a->log_states[a->log_tail++ % LOG_SEQUENCES] = SEQUENCE_FREE;
	if (a->log_leaving && a->log_tail >= a->log_leaving) {
		a->log_leaving = 0;
		a->label.log_dedicated = false;
		memset(a->label.log_id, 0, ID_BYTES);
		a->labels_dirty = true;
	}
	array__settle(a);
}

void log__in_place(struct array *a, uint64_t sequence)
{
	sp_assert(a->log_states[sequence % LOG_SEQUENCES] == SEQUENCE_ACTIVE);
	a->log_states[sequence % LOG_SEQUENCES] = SEQUENCE_IN_PLACE;
	array__settle(a);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* One entry for what is contiguous within a chunk. Returns the number; grows the room. */
static size_t entries_gather(struct array *a, struct io *io, uint64_t *ret_payload)
{
	size_t count = 0;

	*ret_payload = 0;
	if (io->log_entry_room < io->piece_room) {
		free(io->log_entries);
		io->log_entries = malloc(io->piece_room * sizeof *io->log_entries);
		io->log_entry_room = io->log_entries ? io->piece_room : 0;
		if (!io->log_entries)
			return SIZE_MAX;
	}
	for (size_t i = 0; i < io->piece_count; i++) {
		const struct piece *p = &io->pieces[i];
		uint64_t at = p->offset_bytes - a->label.data_offset;
		struct log_entry *last = count ? &io->log_entries[count - 1] : NULL;

		if (!p->logged)
			continue;
		*ret_payload += p->length;
		if (last && last->member == p->key / 2 && last->offset_bytes + last->length == at &&
			at % a->layout.chunk_bytes)
			last->length += p->length;
		else
			io->log_entries[count++] =
				(struct log_entry){.member = p->key / 2, .offset_bytes = at, .length = p->length};
	}
	return count;
}

static bool header_room(struct io *io, size_t bytes)
{
	if (bytes > io->log_header_room) {
		free(io->log_header);
		io->log_header = aligned_alloc(DISK_BUFFER_ALIGN, bytes);
		io->log_header_room = io->log_header ? bytes : 0;
	}
	return io->log_header != NULL;
}

static void header_pack(struct array *a, const struct record *r, struct io *io, size_t entries, size_t header_bytes)
{
	uint8_t *p = io->log_header;

	memset(p, 0, header_bytes);
	memcpy(p, magic, sizeof magic);
	memcpy(p + AT_ID, a->label.array_id, ID_BYTES);
	put_le64(p + AT_SEQUENCE, r->sequence);
	put_le64(p + AT_TAIL, r->tail);
	put_le32(p + AT_HEADER_BYTES, (uint32_t)header_bytes);
	put_le32(p + AT_PAYLOAD_BYTES, (uint32_t)r->payload);
	put_le32(p + AT_ENTRIES, (uint32_t)entries);
	for (size_t i = 0; i < entries; i++) {
		uint8_t *e = p + HEAD_BYTES + i * ENTRY_BYTES;

		put_le16(e, io->log_entries[i].member);
		put_le32(e + ENTRY_LENGTH, io->log_entries[i].length);
		put_le64(e + ENTRY_OFFSET, io->log_entries[i].offset_bytes);
	}
}

/* The checksum of header and payload, piece by piece: of the checksums, so that pieces need not be in one buffer. */
static uint32_t record_crc(
	const uint8_t *header, size_t header_bytes, uint32_t (*next)(void *arg, bool *ret_end), void *arg)
{
	uint32_t sums[2] = {checksum_crc32c(header, header_bytes), 0};
	uint8_t both[8];

	for (bool end = false;;) {
		sums[1] = next(arg, &end);
		if (end)
			return sums[0];
		put_le32(both, sums[0]);
		put_le32(both + 4, sums[1]);
		sums[0] = checksum_crc32c(both, sizeof both);
	}
}

struct sectors_of_io {
	const struct io *io;
	size_t piece;
	uint32_t at;
};

/* Sector by sector, the same however the pieces were cut. */
static uint32_t next_of_io(void *arg, bool *ret_end)
{
	struct sectors_of_io *s = arg;

	while (s->piece < s->io->piece_count &&
		(!s->io->pieces[s->piece].logged || s->at == s->io->pieces[s->piece].length)) {
		s->piece++;
		s->at = 0;
	}
	if (s->piece == s->io->piece_count) {
		*ret_end = true;
		return 0;
	}
	s->at += SECTOR_BYTES;
	return checksum_crc32c(s->io->pieces[s->piece].bytes + s->at - SECTOR_BYTES, SECTOR_BYTES);
}

static void record_pieces(
	struct array *a, const struct record *r, const struct io *from, struct io *to, size_t header_bytes)
{
	for (unsigned i = 0; i < r->ring_count; i++) {
		unsigned key = r->rings[i] * 2;
		uint64_t at = r->at[i], rest = r->bytes - header_bytes - r->payload;

		io__piece(to, key, at, from->log_header, header_bytes, 0);
		at += header_bytes;
		for (size_t p = 0; p < from->piece_count; p++)
			if (from->pieces[p].logged) {
				io__piece(to, key, at, from->pieces[p].bytes, from->pieces[p].length, 0);
				at += from->pieces[p].length;
			}
		if (rest)
			io__piece(to, key, at, a->zeros, rest, 0);
	}
}

/* Writes and flushes; returns on how many rings it is good, or an error. */
static int record_write(struct array *a, const struct record *r, struct io *to)
{
	bool want[2 * (LAYOUT_DISKS_MAX + 1)] = {false};
	int status[2 * (LAYOUT_DISKS_MAX + 1)], good = 0;

	for (unsigned i = 0; i < r->ring_count; i++)
		want[r->rings[i] * 2] = to->roads[r->rings[i]].disk != NULL;
	int rc = io__run(to, DISK_WRITE);
	if (rc < 0)
		return rc;
	for (size_t p = 0; p < to->piece_count; p++)
		if (to->pieces[p].status && want[to->pieces[p].key]) {
			want[to->pieces[p].key] = false;
			array__write_failed(a, to->pieces[p].key, to->pieces[p].status);
		}
	rc = io__flush(to, want, status);
	if (rc)
		return rc;
	for (unsigned i = 0; i < r->ring_count; i++) {
		unsigned key = r->rings[i] * 2;

		if (status[key])
			array__write_failed(a, key, status[key]);
		good += want[key] && !status[key];
	}
	return good;
}

/* With the lock held, let go meanwhile. */
static int append(struct array *a, struct io *io, const uint64_t *rows, unsigned row_count, uint64_t *ret_sequence,
	struct error *err)
{
	struct record r = {0};
	size_t entries = entries_gather(a, io, &r.payload);
	size_t header_bytes = round_up_u64(HEAD_BYTES + entries * ENTRY_BYTES, BLOCK_BYTES);
	int rc = 0, good = 0;

	if (entries == SIZE_MAX || !header_room(io, header_bytes))
		return error_set(err, ERR_MEMORY, "out of memory for a log record");
	r.bytes = header_bytes + round_up_u64(r.payload, BLOCK_BYTES);
	while (!good && !rc) {
		while (!(rc = array__broken(a, err)) && !record_place(a, &r, row_count))
			if ((rc = make_room(a, err)))
				break;
		if (rc)
			return rc;
		for (unsigned i = 0; i < row_count; i++)
			touch(a, rows[i], r.sequence);
		a->counters.log_records++;
		a->counters.log_bytes += r.bytes * r.ring_count;
		os_mutex_unlock(&a->lock);
		struct io *to = io__get(a, err);
		if (to) {
			os_mutex_lock(&a->lock);
			io__roads(a, to);
			os_mutex_unlock(&a->lock);
			header_pack(a, &r, io, entries, header_bytes);
			put_le32(io->log_header + AT_CRC, record_crc(io->log_header, header_bytes, next_of_io,
								  &(struct sectors_of_io){.io = io}));
			os_charge(OS_STAGE_CHECKSUM, r.payload);
			record_pieces(a, &r, io, to, header_bytes);
			good = record_write(a, &r, to);
			if (good < 0)
				rc = error_set(err, good, "out of memory for a log record");
			io__put(a, to);
		} else {
			rc = ERR_MEMORY;
		}
		os_mutex_lock(&a->lock);
		if (good > 0) {
			a->log_tail_durable = max_of(a->log_tail_durable, r.tail);
			array__settle(a);
		} else {
			log__in_place(a, r.sequence); /* it is nowhere, so nothing has to be waited for */
		}
	}
	if (!rc)
		*ret_sequence = r.sequence;
	return rc;
}

static int tail_write(struct array *a, struct error *err)
{
	struct io empty = {.piece_count = 0, .piece_room = 1};
	uint64_t sequence = 0;
	int rc = append(a, &empty, NULL, 0, &sequence, err);

	if (!rc)
		log__in_place(a, sequence);
	free(empty.log_entries);
	free(empty.log_header);
	return rc;
}

int log__append(struct array *a, struct io *io, const uint64_t *rows, unsigned row_count, uint64_t *ret_sequence,
	struct error *err)
{
	io__sort(io); /* so that neighbours share an entry */
	os_mutex_lock(&a->lock);
	bool early = half_full(a) && !a->flushing && log__flush_begin(a) > a->log_tail;
	if (early) {
		os_mutex_unlock(&a->lock);
		int rc = array__flush_devices(a, true, err);
		os_mutex_lock(&a->lock);
		if (rc) {
			os_mutex_unlock(&a->lock);
			return rc;
		}
	}
	int rc = append(a, io, rows, row_count, ret_sequence, err);
	os_mutex_unlock(&a->lock);
	return rc;
}

int log__checkpoint(struct array *a, struct error *err)
{
	int rc = array__flush_devices(a, true, err);

	if (!a->journal || rc)
		return rc;
	os_scoped_lock(&a->lock);
	while (a->log_tailing)
		array__wait(a);
	a->log_tailing = true;
	rc = a->log_tail > a->log_tail_durable ? tail_write(a, err) : 0;
	a->log_tailing = false;
	array__settle(a);
	return rc;
}

/* --- after a crash ---------------------------------------------------------------------------- */

struct found {
	uint64_t sequence, tail;
	uint8_t *bytes; /* the record */
};
struct finds {
	struct found *items;
	size_t count, room;
	uint64_t tail, last;
};

struct sectors_of_record {
	const uint8_t *at, *end;
};

static uint32_t next_of_record(void *arg, bool *ret_end)
{
	struct sectors_of_record *s = arg;

	if (s->at == s->end) {
		*ret_end = true;
		return 0;
	}
	s->at += SECTOR_BYTES;
	return checksum_crc32c(s->at - SECTOR_BYTES, SECTOR_BYTES);
}

/* The length of the record that begins here, 0 when none does. */
static uint64_t record_check(const struct array *a, uint8_t *p, uint64_t room)
{
	if (room < BLOCK_BYTES || memcmp(p, magic, sizeof magic) || memcmp(p + AT_ID, a->label.array_id, ID_BYTES))
		return 0;
	uint64_t header = get_le32(p + AT_HEADER_BYTES), payload = get_le32(p + AT_PAYLOAD_BYTES);
	uint64_t entries = get_le32(p + AT_ENTRIES), bytes = header + round_up_u64(payload, BLOCK_BYTES), sum = 0;
	if (header % BLOCK_BYTES || payload % SECTOR_BYTES || bytes > room ||
		header < HEAD_BYTES + entries * ENTRY_BYTES)
		return 0;
	for (uint64_t i = 0; i < entries; i++)
		sum += get_le32(p + HEAD_BYTES + i * ENTRY_BYTES + ENTRY_LENGTH);
	if (sum != payload)
		return 0;
	uint32_t crc = get_le32(p + AT_CRC);
	put_le32(p + AT_CRC, 0);
	uint32_t have = record_crc(
		p, header, next_of_record, &(struct sectors_of_record){.at = p + header, .end = p + header + payload});
	put_le32(p + AT_CRC, crc);
	return have == crc ? bytes : 0;
}

static int find_add(struct finds *f, const uint8_t *p, uint64_t bytes, uint64_t least, struct error *err)
{
	uint64_t sequence = get_le64(p + AT_SEQUENCE);

	f->tail = max_of(f->tail, get_le64(p + AT_TAIL));
	f->last = max_of(f->last, sequence);
	if (sequence < least)
		return 0;
	for (size_t i = 0; i < f->count; i++)
		if (f->items[i].sequence == sequence)
			return 0;
	if (f->count == f->room) {
		size_t room = f->room ? 2 * f->room : 64;
		struct found *items = realloc(f->items, room * sizeof *items);

		if (!items)
			return error_set(err, ERR_MEMORY, "out of memory for replaying the log");
		f->items = items;
		f->room = room;
	}
	uint8_t *copy = aligned_alloc(DISK_BUFFER_ALIGN, bytes);
	if (!copy)
		return error_set(err, ERR_MEMORY, "out of memory for replaying the log");
	memcpy(copy, p, bytes);
	f->items[f->count++] = (struct found){.sequence = sequence, .bytes = copy};
	return 0;
}

static int ring_scan(struct array *a, struct disk *d, uint64_t offset, uint64_t bytes, uint8_t *buffer, struct finds *f,
	struct error *err)
{
	int rc = 0;

	for (uint64_t at = 0; at < bytes; at += MIB) {
		uint64_t n = min_of(bytes - at, MIB);

		/* What cannot be read is like what was never written: the record is on other members too. */
		if (disk_read(d, offset + at, buffer + at, n, NULL))
			memset(buffer + at, 0, n);
	}
	for (uint64_t at = 0, n; at + BLOCK_BYTES <= bytes && !rc; at += max_of(n, (uint64_t)BLOCK_BYTES)) {
		n = record_check(a, buffer + at, bytes - at);
		if (n)
			rc = find_add(f, buffer + at, n, a->label.log_sequence, err);
	}
	return rc;
}

static int found_order(const void *x, const void *y)
{
	const struct found *a = x, *b = y;

	return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

/* Writes what the record holds for members that are there, but not into rows that never had anything promised. */
static int record_apply(struct array *a, struct io *io, const uint8_t *p, struct error *err)
{
	uint64_t at = get_le32(p + AT_HEADER_BYTES);

	io__reset(io);
	for (uint32_t i = 0; i < get_le32(p + AT_ENTRIES); i++) {
		const uint8_t *e = p + HEAD_BYTES + i * ENTRY_BYTES;
		unsigned member = get_le16(e);
		uint64_t length = get_le32(e + ENTRY_LENGTH), offset = get_le64(e + ENTRY_OFFSET),
			 chunk = a->layout.chunk_bytes;

		if (member >= a->member_count || length == 0 || offset >= a->layout.disk_bytes ||
			offset % chunk + length > chunk || offset % a->sector_bytes || length % a->sector_bytes)
			return error_set(err, ERR_CORRUPT,
				"array %s: a log record writes %llu bytes at %llu of member %u, which is no place in a "
				"row",
				a->label.name, (unsigned long long)length, (unsigned long long)offset, member);
		uint64_t row = layout_row_at(&a->layout, member, offset, NULL);
		enum row_state s = ROW_DURABLE(a->map[row]);
		if (s != ROW_NEVER && s != ROW_FRESH)
			io__piece_write(a, io, member, row, offset, (uint8_t *)p + at, length, false);
		at += length;
	}
	int failed = io__run(io, DISK_WRITE);
	if (failed < 0)
		return error_set(err, failed, "out of memory for replaying the log");
	for (size_t i = 0; i < io->piece_count; i++)
		if (io->pieces[i].status)
			array__write_failed(a, io->pieces[i].key, io->pieces[i].status);
	if (failed) {
		os_scoped_lock(&a->lock);
		io__roads(a, io);
	}
	a->counters.replayed_records++;
	return 0;
}

int log__replay(struct array *a, struct io *io, struct error *err)
{
	struct finds f = {.tail = a->label.log_sequence};
	uint64_t most = max_of(a->label.log_bytes, a->log_disk ? a->label.log_disk_bytes : 0);
	scoped_free uint8_t *buffer = aligned_alloc(DISK_BUFFER_ALIGN, most);
	int rc = buffer ? 0 : error_set(err, ERR_MEMORY, "out of memory for replaying the log");

	for (unsigned ring = 0; ring <= a->member_count && !rc; ring++)
		if (io->roads[ring].disk)
			rc = ring_scan(
				a, io->roads[ring].disk, ring_offset(a, ring), ring_bytes(a, ring), buffer, &f, err);
	if (f.count)
		qsort(f.items, f.count, sizeof *f.items, found_order);
	for (size_t i = 0; i < f.count && !rc; i++)
		if (f.items[i].sequence >= f.tail)
			rc = record_apply(a, io, f.items[i].bytes, err);
	for (size_t i = 0; i < f.count; i++)
		free(f.items[i].bytes);
	free(f.items);
	a->log_next = a->log_tail = a->log_tail_durable = max_of(f.last + 1, a->log_next);
	return rc;
}

int log__wipe(struct array *a, struct disk *d, struct error *err)
{
	uint64_t from = a->label.map_offset, to = a->label.log_offset + a->label.log_bytes;
	scoped_free uint8_t *zeros = aligned_alloc(DISK_BUFFER_ALIGN, MIB);
	int rc = zeros ? 0 : error_set(err, ERR_MEMORY, "out of memory for clearing the log");

	if (!rc)
		memset(zeros, 0, MIB);
	for (; from < to && !rc; from += MIB)
		rc = disk_write(d, from, zeros, min_of(to - from, MIB), err);
	return rc;
}
