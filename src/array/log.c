/*
 * The log: what partial writes of parity rows will be, before they are.
 *
 * A write of part of a row changes data and parity on several disks. If power goes in between, they disagree, and when
 * a disk goes too, recovery gives nonsense even for bytes that nobody wrote: the write hole. So a batch of such writes
 * first becomes one record: all new data and all new parity. Each member keeps the part of the record that will be
 * written on itself, so every byte is logged once, on the disk that it is for (or all of it is one part, on a log
 * disk). When all parts are durable, and not before, the rows are written in place.
 *
 *      member 0   | rec 7: D0 of row 3        | rec 8: P of row 9   |  free
 *      member 1   | rec 7: D1 of row 5        |  free
 *      member 2   | rec 7: P of rows 3 and 5  | rec 8: D1 of row 9  |  free
 *
 * After a crash a record counts when every member that is there has its part. If one has not, writing in place had not
 * begun: the record is passed over and its rows are old. If all have, what they hold is written again and the rows are
 * new. A member that went with the power needs no part: what is written on the others makes its column, the written
 * ones included, what it should be. So a row is wholly old or wholly new, and losing as many members as there are
 * parity columns together with the power loses nothing. A ring with places that cannot be read cannot tell whether a
 * part was there; then the record counts, and that column is made from the others, which is right either way.
 *
 * A record is *in place* when its writes are done, *retired* when they are flushed on all members, and *gone* when a
 * later record that says so (its tail) is durable: then its space may be used again. Between retired and gone a replay
 * would still write it, so rows in such a record may only be changed by another record: ARRAY-5, log__holds. Any part
 * that is found tells the tail, and a record always has one more part in some group than members may go there.
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
	AT_HOLDER = 56, /* whose entries the payload is of; HOLDER_ALL: everybody's */
	HEAD_BYTES = 64,
	ENTRY_BYTES = 16,
	ENTRY_LENGTH = 4,
	ENTRY_OFFSET = 8,
};
#define HOLDER_ALL 0xffffu
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

uint64_t log__part_max(const struct array *a)
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

struct record {
	uint64_t sequence, tail;
	size_t entries, header_bytes;
	struct log_part *parts; /* of the io */
	unsigned part_count;
};

static bool record_fits(struct array *a, const struct record *r)
{
	for (unsigned i = 0; i < r->part_count; i++)
		if (!ring_fits(a, r->parts[i].ring, r->parts[i].bytes, !r->entries))
			return false;
	return a->log_next - a->log_tail_durable < LOG_SEQUENCES - (r->entries ? 8 : 0);
}

static bool record_place(struct array *a, struct record *r, unsigned row_count)
{
	if (!touches_fit(a, row_count) || !record_fits(a, r))
		return false;
	a->log_turn++;
	r->sequence = a->log_next++;
	r->tail = a->log_tail;
	a->log_states[r->sequence % LOG_SEQUENCES] = SEQUENCE_ACTIVE;
	for (unsigned i = 0; i < r->part_count; i++) {
		struct log_part *part = &r->parts[i];
		struct log_ring *ring = &a->rings[part->ring];
		uint64_t start = ring_start(a, part->ring, part->bytes);

		part->at = ring_offset(a, part->ring) + start % ring_bytes(a, part->ring);
		ring->head = start + part->bytes;
		ring->spans[(ring->first + ring->count++) % LOG_SPANS] =
			(struct log_span){.sequence = r->sequence, .end = ring->head};
		a->counters.log_bytes += part->bytes;
	}
	a->counters.log_records++;
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

/* Then a record has all disks flushed and not only its own, so that writers need not stop for room. */
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

static bool entries_room(struct array *a, struct io *io)
{
	if (io->log_entry_room < io->piece_room) {
		free(io->log_entries);
		io->log_entries = malloc(io->piece_room * sizeof *io->log_entries);
		io->log_entry_room = io->log_entries ? io->piece_room : 0;
	}
	if (!io->log_parts)
		io->log_parts = calloc(LAYOUT_DISKS_MAX + 1, sizeof *io->log_parts);
	return io->log_entries && io->log_parts;
}

/* One entry for what is contiguous within a chunk. Pieces are in the order of their keys. */
static size_t entries_gather(struct array *a, struct io *io)
{
	size_t count = 0;

	for (size_t i = 0; i < io->piece_count; i++) {
		const struct piece *p = &io->pieces[i];
		uint64_t at = p->offset_bytes - a->label.data_offset;
		struct log_entry *last = count ? &io->log_entries[count - 1] : NULL;

		if (!p->logged)
			continue;
		if (last && last->member == p->key / 2 && last->offset_bytes + last->length == at &&
			at % a->layout.chunk_bytes)
			last->length += p->length;
		else
			io->log_entries[count++] =
				(struct log_entry){.member = p->key / 2, .offset_bytes = at, .length = p->length};
	}
	return count;
}

/* Who keeps which part. A record without entries only tells the tail; any will do that are enough. With the lock. */
static void parts_plan(struct array *a, struct io *io, struct record *r)
{
	unsigned keepers[LAYOUT_WIDTH_MAX];

	r->part_count = 0;
	r->parts = io->log_parts;
	r->header_bytes = round_up_u64(HEAD_BYTES + r->entries * ENTRY_BYTES, BLOCK_BYTES);
	for (size_t i = 0; i < io->piece_count; i++) {
		struct log_part *last = r->part_count ? &r->parts[r->part_count - 1] : NULL;
		unsigned ring = a->log_disk ? a->member_count : io->pieces[i].key / 2;

		if (!io->pieces[i].logged)
			continue;
		if (!last || last->ring != ring) {
			last = &r->parts[r->part_count++];
			*last = (struct log_part){.ring = ring, .first = i};
		}
		last->payload += io->pieces[i].length;
		last->end = i + 1;
	}
	if (!r->entries) {
		r->part_count = a->log_disk ? 1 : map__keepers(a, a->log_turn, keepers);
		for (unsigned i = 0; i < r->part_count; i++)
			r->parts[i] = (struct log_part){.ring = a->log_disk ? a->member_count : keepers[i]};
	}
	for (unsigned i = 0; i < r->part_count; i++)
		r->parts[i].bytes = r->header_bytes + round_up_u64(r->parts[i].payload, BLOCK_BYTES);
}

/* A header for each part, one behind the other. */
static bool headers_room(struct io *io, const struct record *r)
{
	size_t bytes = r->header_bytes * r->part_count;

	if (bytes > io->log_header_room) {
		free(io->log_header);
		io->log_header = aligned_alloc(DISK_BUFFER_ALIGN, bytes);
		io->log_header_room = io->log_header ? bytes : 0;
	}
	return io->log_header != NULL;
}

static void header_pack(struct array *a, const struct record *r, const struct log_part *part, struct io *io, uint8_t *p)
{
	memset(p, 0, r->header_bytes);
	memcpy(p, magic, sizeof magic);
	memcpy(p + AT_ID, a->label.array_id, ID_BYTES);
	put_le64(p + AT_SEQUENCE, r->sequence);
	put_le64(p + AT_TAIL, r->tail);
	put_le32(p + AT_HEADER_BYTES, (uint32_t)r->header_bytes);
	put_le32(p + AT_PAYLOAD_BYTES, (uint32_t)part->payload);
	put_le32(p + AT_ENTRIES, (uint32_t)r->entries);
	put_le16(p + AT_HOLDER, (uint16_t)(part->ring == a->member_count ? HOLDER_ALL : part->ring));
	for (size_t i = 0; i < r->entries; i++) {
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
	size_t piece, end;
	uint32_t at;
};

/* Sector by sector, the same however the pieces were cut. */
static uint32_t next_of_io(void *arg, bool *ret_end)
{
	struct sectors_of_io *s = arg;

	while (s->piece < s->end && (!s->io->pieces[s->piece].logged || s->at == s->io->pieces[s->piece].length)) {
		s->piece++;
		s->at = 0;
	}
	if (s->piece == s->end) {
		*ret_end = true;
		return 0;
	}
	s->at += SECTOR_BYTES;
	return checksum_crc32c(s->io->pieces[s->piece].bytes + s->at - SECTOR_BYTES, SECTOR_BYTES);
}

static void part_pieces(struct array *a, const struct record *r, const struct log_part *part, const struct io *from,
	uint8_t *header, struct io *to)
{
	unsigned key = part->ring * 2;
	uint64_t at = part->at + r->header_bytes, rest = part->bytes - r->header_bytes - part->payload;

	io__piece(to, key, part->at, header, r->header_bytes, 0);
	for (size_t p = part->first; p < part->end; p++)
		if (from->pieces[p].logged) {
			io__piece(to, key, at, from->pieces[p].bytes, from->pieces[p].length, 0);
			at += from->pieces[p].length;
		}
	if (rest)
		io__piece(to, key, at, a->zeros, rest, 0);
}

static void record_build(struct array *a, const struct record *r, struct io *from, struct io *to)
{
	for (unsigned i = 0; i < r->part_count; i++) {
		const struct log_part *part = &r->parts[i];

		if (!to->roads[part->ring].disk)
			continue; /* went since the batch began: it misses the rows too */
		uint8_t *header = from->log_header + i * r->header_bytes;
		struct sectors_of_io sectors = {.io = from, .piece = part->first, .end = part->end};

		header_pack(a, r, part, from, header);
		put_le32(header + AT_CRC, record_crc(header, r->header_bytes, next_of_io, &sectors));
		os_charge(OS_STAGE_CHECKSUM, part->payload);
		part_pieces(a, r, part, from, header, to);
	}
}

/* Whose caches are to be flushed for the record; true: everybody's, so that records which are in place retire. */
static bool record_wants(struct array *a, const struct record *r, const struct io *to, bool *want)
{
	bool crowded = half_full(a), all = true;

	for (unsigned i = 0; i < r->part_count; i++)
		want[r->parts[i].ring * 2] = to->roads[r->parts[i].ring].disk != NULL;
	for (unsigned key = 0; key < 2 * a->member_count; key++) {
		const struct road *road = &to->roads[key / 2];

		if (!(key % 2 ? road->source : road->disk))
			continue;
		want[key] |= crowded;
		all &= want[key];
	}
	return all;
}

/* Writes and flushes; returns how many parts are good, or an error. */
static int record_write(struct array *a, const struct record *r, struct io *to)
{
	bool want[2 * (LAYOUT_DISKS_MAX + 1)] = {false};
	int status[2 * (LAYOUT_DISKS_MAX + 1)], good = 0;
	bool failed = false;
	int rc = io__run(to, DISK_WRITE);

	if (rc < 0)
		return rc;
	os_mutex_lock(&a->lock);
	bool all = record_wants(a, r, to, want);
	uint64_t upto = log__flush_begin(a);
	os_mutex_unlock(&a->lock);
	for (size_t p = 0; p < to->piece_count; p++)
		if (to->pieces[p].status && want[to->pieces[p].key]) {
			want[to->pieces[p].key] = false;
			failed = true;
			array__write_failed(a, to->pieces[p].key, to->pieces[p].status);
		}
	rc = io__flush(to, want, status);
	if (rc)
		return rc;
	for (unsigned key = 0; key < 2 * to->road_count; key++)
		if (status[key]) {
			failed = true;
			array__write_failed(a, key, status[key]);
		}
	for (unsigned i = 0; i < r->part_count; i++)
		good += want[r->parts[i].ring * 2] && !status[r->parts[i].ring * 2];
	os_scoped_lock(&a->lock);
	if (all && !failed)
		log__flush_end(a, upto);
	return good;
}

/* With the lock held, let go meanwhile. */
static int append_once(
	struct array *a, struct io *io, struct record *r, const uint64_t *rows, unsigned row_count, struct error *err)
{
	int rc = 0, good = ERR_MEMORY;

	for (;;) {
		rc = array__broken(a, err);
		if (rc)
			return rc;
		parts_plan(a, io, r);
		if (record_place(a, r, row_count))
			break;
		rc = make_room(a, err);
		if (rc)
			return rc;
	}
	for (unsigned i = 0; i < row_count; i++)
		touch(a, rows[i], r->sequence);
	os_mutex_unlock(&a->lock);
	struct io *to = headers_room(io, r) ? io__get(a, err) : NULL;
	if (to) {
		os_mutex_lock(&a->lock);
		io__roads(a, to);
		os_mutex_unlock(&a->lock);
		record_build(a, r, io, to);
		good = record_write(a, r, to);
		io__put(a, to);
	}
	os_mutex_lock(&a->lock);
	if (good < 0)
		error_set(err, good, "out of memory for a log record");
	return good;
}

/* With the lock held, let go meanwhile. */
static int append(struct array *a, struct io *io, const uint64_t *rows, unsigned row_count, uint64_t *ret_sequence,
	struct error *err)
{
	struct record r = {0};
	int good = 0;

	if (!entries_room(a, io))
		return error_set(err, ERR_MEMORY, "out of memory for a log record");
	r.entries = entries_gather(a, io);
	while (!good) {
		good = append_once(a, io, &r, rows, row_count, err);
		if (good > 0) {
			a->log_tail_durable = max_of(a->log_tail_durable, r.tail);
			array__settle(a);
		} else if (r.sequence) {
			log__in_place(a, r.sequence); /* it is nowhere, so nothing has to be waited for */
			r.sequence = 0;
		}
	}
	/* Whoever missed its part is out; enough must be left that all others' parts make the rows. */
	int rc = good < 0 ? good : array__broken(a, err);
	if (!rc)
		*ret_sequence = r.sequence;
	else if (r.sequence)
		log__in_place(a, r.sequence);
	return rc;
}

static int tail_write(struct array *a, struct error *err)
{
	struct io empty = {.piece_room = 1};
	uint64_t sequence = 0;
	int rc = append(a, &empty, NULL, 0, &sequence, err);

	if (!rc)
		log__in_place(a, sequence);
	free(empty.log_entries);
	free(empty.log_header);
	free(empty.log_parts);
	return rc;
}

int log__append(struct array *a, struct io *io, const uint64_t *rows, unsigned row_count, uint64_t *ret_sequence,
	struct error *err)
{
	io__sort(io); /* so that neighbours share an entry, and each member's pieces lie together */
	os_scoped_lock(&a->lock);
	return append(a, io, rows, row_count, ret_sequence, err);
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
	uint64_t sequence;
	unsigned holder;
	uint8_t *bytes; /* the part */
};
struct finds {
	struct found *items;
	size_t count, room;
	uint64_t tail, last;
	bool unsure[LAYOUT_DISKS_MAX + 1]; /* rings of which something could not be read */
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

/* The length of the part that begins here, 0 when none does. */
static uint64_t record_check(const struct array *a, uint8_t *p, uint64_t room)
{
	if (room < BLOCK_BYTES || memcmp(p, magic, sizeof magic) || memcmp(p + AT_ID, a->label.array_id, ID_BYTES))
		return 0;
	uint64_t header = get_le32(p + AT_HEADER_BYTES), payload = get_le32(p + AT_PAYLOAD_BYTES);
	uint64_t entries = get_le32(p + AT_ENTRIES), bytes = header + round_up_u64(payload, BLOCK_BYTES), sum = 0;
	unsigned holder = get_le16(p + AT_HOLDER);
	if (header % BLOCK_BYTES || payload % SECTOR_BYTES || bytes > room ||
		header < HEAD_BYTES + entries * ENTRY_BYTES)
		return 0;
	for (const uint8_t *e = p + HEAD_BYTES, *end = e + entries * ENTRY_BYTES; e < end; e += ENTRY_BYTES)
		sum += holder == HOLDER_ALL || get_le16(e) == holder ? get_le32(e + ENTRY_LENGTH) : 0;
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
	f->items[f->count++] = (struct found){.sequence = sequence, .holder = get_le16(p + AT_HOLDER), .bytes = copy};
	return 0;
}

static int ring_scan(
	struct array *a, struct disk *d, unsigned ring, uint8_t *buffer, struct finds *f, struct error *err)
{
	uint64_t offset = ring_offset(a, ring), bytes = ring_bytes(a, ring);
	int rc = 0;

	for (uint64_t at = 0; at < bytes; at += MIB) {
		uint64_t n = min_of(bytes - at, MIB);

		if (disk_read(d, offset + at, buffer + at, n, NULL)) {
			memset(buffer + at, 0, n);
			f->unsure[ring] = true;
		}
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

	if (a->sequence != b->sequence)
		return a->sequence < b->sequence ? -1 : 1;
	return a->holder < b->holder ? -1 : a->holder > b->holder;
}

/* All parts of one record that were found. */
struct whole {
	const struct found *parts;
	size_t count;
};

static struct log_entry entry_of(const uint8_t *p, uint32_t index)
{
	const uint8_t *e = p + HEAD_BYTES + index * ENTRY_BYTES;

	return (struct log_entry){.member = get_le16(e),
		.length = get_le32(e + ENTRY_LENGTH),
		.offset_bytes = get_le64(e + ENTRY_OFFSET)};
}

static int entries_check(const struct array *a, const uint8_t *p, struct error *err)
{
	for (uint32_t i = 0; i < get_le32(p + AT_ENTRIES); i++) {
		struct log_entry e = entry_of(p, i);
		uint64_t chunk = a->layout.chunk_bytes;

		if (e.member >= a->member_count || e.length == 0 || e.offset_bytes >= a->layout.disk_bytes ||
			e.offset_bytes % chunk + e.length > chunk || e.offset_bytes % a->sector_bytes ||
			e.length % a->sector_bytes)
			return error_set(err, ERR_CORRUPT,
				"array %s: a log record writes %u bytes at %llu of member %u, which is no place in a "
				"row",
				a->label.name, e.length, (unsigned long long)e.offset_bytes, e.member);
	}
	return 0;
}

static bool has_part(const struct whole *w, unsigned member)
{
	for (size_t i = 0; i < w->count; i++)
		if (w->parts[i].holder == member || w->parts[i].holder == HOLDER_ALL)
			return true;
	return false;
}

/* Every member that is there has its part, as far as can be told. */
static bool is_complete(const struct array *a, const struct io *io, const struct finds *f, const struct whole *w)
{
	const uint8_t *p = w->parts[0].bytes;

	for (uint32_t i = 0; i < get_le32(p + AT_ENTRIES); i++) {
		unsigned member = entry_of(p, i).member;

		if (io->roads[member].disk && !f->unsure[member] && !has_part(w, member))
			return false;
	}
	return true;
}

/* Rows that never had anything promised stay as they are. */
static bool is_promised(const struct array *a, uint64_t row)
{
	enum row_state s = ROW_DURABLE(a->map[row]);

	return s != ROW_NEVER && s != ROW_FRESH;
}

static int pieces_apply(struct array *a, struct io *io, struct error *err)
{
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
	return 0;
}

/* What the part holds is written on members that are there. */
static void part_pieces_again(struct array *a, struct io *io, const struct found *part)
{
	uint64_t at = get_le32(part->bytes + AT_HEADER_BYTES);

	for (uint32_t i = 0; i < get_le32(part->bytes + AT_ENTRIES); i++) {
		struct log_entry e = entry_of(part->bytes, i);

		if (part->holder != HOLDER_ALL && part->holder != e.member)
			continue;
		uint64_t row = layout_row_at(&a->layout, e.member, e.offset_bytes, NULL);
		if (is_promised(a, row))
			io__piece_write(a, io, e.member, row, e.offset_bytes, part->bytes + at, e.length, false);
		at += e.length;
	}
}

/* The columns of a row whose parts were not found: they cannot be believed. */
static uint64_t columns_unsure(const struct array *a, const struct io *io, const struct whole *w, uint64_t row)
{
	const uint8_t *p = w->parts[0].bytes;
	uint64_t mask = 0;

	for (uint32_t i = 0; i < get_le32(p + AT_ENTRIES); i++) {
		struct log_entry e = entry_of(p, i);
		unsigned column;

		if (has_part(w, e.member) || !io->roads[e.member].disk)
			continue;
		if (layout_row_at(&a->layout, e.member, e.offset_bytes, &column) == row)
			mask |= (uint64_t)1 << column;
	}
	return mask;
}

/* Members that may have lost their part get the column from the others, after those were written. */
static int unsure_make(struct array *a, struct io *io, const struct whole *w, struct error *err)
{
	const uint8_t *p = w->parts[0].bytes;
	scoped_free uint8_t *bytes = aligned_alloc(DISK_BUFFER_ALIGN, a->layout.chunk_bytes);
	int rc = bytes ? 0 : error_set(err, ERR_MEMORY, "out of memory for replaying the log");

	for (uint32_t i = 0; i < get_le32(p + AT_ENTRIES) && !rc; i++) {
		struct log_entry e = entry_of(p, i);
		uint64_t in = e.offset_bytes % a->layout.chunk_bytes;
		unsigned column;

		if (has_part(w, e.member) || !io->roads[e.member].disk)
			continue;
		uint64_t row = layout_row_at(&a->layout, e.member, e.offset_bytes, &column);
		if (!is_promised(a, row))
			continue;
		io__reset(io);
		rc = read__recover(a, io, row, column, in, in + e.length, bytes, columns_unsure(a, io, w, row), err);
		if (rc == ERR_LOST) { /* more failed together than there is parity for */
			error_clear(err);
			rc = 0;
			poison__fill(a, bytes, e.length);
			map__lose(a, row);
		}
		io__reset(io);
		io__piece_write(a, io, e.member, row, e.offset_bytes, bytes, e.length, false);
		if (!rc)
			rc = pieces_apply(a, io, err);
	}
	return rc;
}

static int record_apply(struct array *a, struct io *io, const struct finds *f, const struct whole *w, struct error *err)
{
	int rc = 0;

	for (size_t i = 0; i < w->count && !rc; i++)
		rc = entries_check(a, w->parts[i].bytes, err);
	if (rc || !is_complete(a, io, f, w))
		return rc;
	io__reset(io);
	for (size_t i = 0; i < w->count; i++)
		part_pieces_again(a, io, &w->parts[i]);
	rc = pieces_apply(a, io, err);
	if (!rc)
		rc = unsure_make(a, io, w, err);
	a->counters.replayed_records++;
	return rc;
}

int log__replay(struct array *a, struct io *io, struct error *err)
{
	struct finds f = {.tail = a->label.log_sequence};
	uint64_t most = max_of(a->label.log_bytes, a->log_disk ? a->label.log_disk_bytes : 0);
	scoped_free uint8_t *buffer = aligned_alloc(DISK_BUFFER_ALIGN, most);
	int rc = buffer ? 0 : error_set(err, ERR_MEMORY, "out of memory for replaying the log");

	for (unsigned ring = 0; ring <= a->member_count && !rc; ring++)
		if (io->roads[ring].disk)
			rc = ring_scan(a, io->roads[ring].disk, ring, buffer, &f, err);
	if (f.count)
		qsort(f.items, f.count, sizeof *f.items, found_order);
	for (size_t i = 0, n; i < f.count && !rc; i += n) {
		for (n = 1; i + n < f.count && f.items[i + n].sequence == f.items[i].sequence;)
			n++;
		if (f.items[i].sequence >= f.tail)
			rc = record_apply(a, io, &f, &(struct whole){.parts = &f.items[i], .count = n}, err);
	}
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
