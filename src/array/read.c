/*
 * Reading: first what is buffered, then what was read ahead, then only the gaps from the disks.
 *
 * ARRAY-7: a read sees every write that returned before it began. Buffered sectors are looked at under the lock, and
 * what is a gap then was on the disks then; if it is written meanwhile, that write and this read overlap in time and
 * either answer is right. No lock is held over I/O, and a healthy row is not guarded: sectors that are being written in
 * place are in the buffer until they are there.
 *
 * Recovering a column from the others is different: it needs all of them to stand still, so it guards the row.
 */
#include "internal.h"

#include <string.h>

#define ROUND_BYTES (32 * MIB)
#define BOUNCE_BYTES MIB
#define REGION_BYTES (4 * MIB) /* of long reads from mirrors: the copies take turns */
#define LONG_READ_BYTES MIB
#define BRIDGE UINT32_MAX /* the tag of a piece that nobody wants */
#define BRIDGE_BYTES_MAX (512u << 10)

/* --- gaps ------------------------------------------------------------------------------------- */

static void part_add(struct array *a, struct io *io, uint64_t offset, uint8_t *bytes, uint64_t length)
{
	uint64_t chunk = a->layout.kind == LAYOUT_CONCAT ? a->row_bytes : a->layout.chunk_bytes;

	while (length) {
		uint64_t n = min_of(length, chunk - offset % chunk);

		if (a->layout.kind == LAYOUT_CONCAT) {
			struct layout_place place;
			uint64_t run;

			layout_place_concat(&a->layout, offset, &place, &run);
			n = min_of(n, run);
		}
		if (io->part_count == io->part_room) {
			size_t room = io->part_room ? 2 * io->part_room : 64;
			struct part *p = realloc(io->parts, room * sizeof *p);

			if (!p) {
				io->no_memory = true;
				return;
			}
			io->parts = p;
			io->part_room = room;
		}
		io->parts[io->part_count++] = (struct part){
			.offset_bytes = offset, .row = offset / a->row_bytes, .bytes = bytes, .length = (uint32_t)n};
		offset += n;
		bytes += n;
		length -= n;
	}
}

/* Copies the buffered sectors of [from, to) of a row and adds a part for each gap. With the lock held. */
static void row_overlay(
	struct array *a, struct io *io, const struct buf_row *b, uint64_t from, uint64_t to, uint8_t *bytes)
{
	uint64_t base = b->row * a->row_bytes, gap = from;

	for (uint64_t at = from; at < to;) {
		uint32_t slot = b->slot[at / a->slot_bytes], valid = slot__valid(a, slot);
		uint64_t in = at % a->slot_bytes, end = min_of(to, at - in + a->slot_bytes);

		valid >>= in / SECTOR_BYTES;
		if (!valid) {
			at = end;
			continue;
		}
		uint64_t skip = (uint64_t)__builtin_ctz(valid) * SECTOR_BYTES;
		if (at + skip >= end) {
			at = end;
			continue;
		}
		valid >>= skip / SECTOR_BYTES;
		uint64_t run = (~valid ? (uint64_t)__builtin_ctz(~valid) : 32) * SECTOR_BYTES;
		at += skip;
		run = min_of(run, end - at);
		if (at > gap)
			part_add(a, io, base + gap, bytes + (gap - from), at - gap);
		memcpy(bytes + (at - from), slot__bytes(a, slot) + at % a->slot_bytes, run);
		at += run;
		gap = at;
	}
	if (gap < to)
		part_add(a, io, base + gap, bytes + (gap - from), to - gap);
}

/* Everything of the target that is not in the buffer becomes parts. With the lock held. */
static void target_parts(struct array *a, struct io *io, const struct target *t)
{
	uint64_t done = 0;

	while (done < t->length) {
		uint64_t offset = t->offset_bytes + done, row = offset / a->row_bytes, from = offset % a->row_bytes;
		uint64_t n = min_of(t->length - done, array__row_length(a, row) - from);
		struct buf_row *b = buffer__find(a, row);

		if (b && b->copying) {
			b->waiters++;
			array__wait(a);
			b->waiters--;
			buffer__tidy(a, b);
			continue;
		}
		if (b && b->slots)
			row_overlay(a, io, b, from, from + n, t->bytes + done);
		else
			part_add(a, io, offset, t->bytes + done, n);
		done += n;
	}
}

/* Takes parts from what was read ahead; what is left of a part stays. With the lock held, which waits may let go. */
static uint64_t parts_from_cache(struct array *a, struct io *io)
{
	size_t count = io->part_count;
	uint64_t sum = 0;

	for (size_t i = 0; i < count && a->ahead.hashed; i++) {
		uint64_t done = 0, n;
		struct part p = io->parts[i];

		while (done < p.length && (n = ahead__copy(a, p.offset_bytes + done, p.bytes + done, p.length - done)))
			done += n;
		sum += done;
		io->parts[i].offset_bytes += done;
		io->parts[i].bytes += done;
		io->parts[i].length -= (uint32_t)done;
		if (!io->parts[i].length)
			io->parts[i].kind = PART_DONE;
	}
	a->counters.read_ahead_hit_bytes += sum;
	return sum;
}

/* --- places ----------------------------------------------------------------------------------- */

struct candidate {
	unsigned member;
	uint64_t at;
};

static uint64_t distance(uint64_t x, uint64_t y)
{
	return x > y ? x - y : y - x;
}

/* The copy that answers first: fewest waiting, then the shortest way for the head. */
static unsigned copy_nearest(struct array *a, struct io *io, const struct candidate *c, unsigned count, uint64_t row)
{
	unsigned best = 0, best_load = UINT32_MAX;
	uint64_t best_distance = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct road *road = &io->roads[c[i].member];
		struct disk_load load;

		disk_load(road_reads_source(road, row) ? road->source : road->disk, &load);
		unsigned waiting =
			load.in_flight + io->planned[c[i].member] + (status__avoid(a, c[i].member) ? 1000 : 0);
		uint64_t way = distance(load.end_bytes, a->label.data_offset + c[i].at);
		if (waiting < best_load || (waiting == best_load && way < best_distance)) {
			best = i;
			best_load = waiting;
			best_distance = way;
		}
	}
	return best;
}

/* For a long read: far copies as one stripe, near ones in turns, each a long piece, so that all heads are busy. */
static unsigned copy_in_turn(const struct array *a, const struct candidate *c, unsigned count, uint64_t region)
{
	if (a->layout.spread != LAYOUT_NEAR)
		return 0;
	return (unsigned)(c[0].at / region % count);
}

static bool part_place_copies(struct array *a, struct io *io, struct part *p, uint64_t region, struct candidate *ret)
{
	const struct layout *l = &a->layout;
	struct candidate c[LAYOUT_WIDTH_MAX];
	struct layout_place place;
	unsigned count = 0, avoided = 0;
	uint64_t run;

	for (unsigned copy = 0; copy < l->copies; copy++) {
		if (l->kind == LAYOUT_CONCAT) {
			layout_place_concat(l, p->offset_bytes, &place, &run);
		} else {
			layout_place(l, p->offset_bytes / l->chunk_bytes, copy, &place);
			place.offset_bytes += p->offset_bytes % l->chunk_bytes;
		}
		if (!road_reads(&io->roads[place.disk], p->row))
			continue;
		avoided += status__avoid(a, place.disk);
		c[count++] = (struct candidate){.member = place.disk, .at = place.offset_bytes};
	}
	if (!count)
		return false;
	*ret = c[count == 1           ? 0
		 : region && !avoided ? copy_in_turn(a, c, count, region)
				      : copy_nearest(a, io, c, count, p->row)];
	return true;
}

static unsigned column_of(const struct array *a, const struct layout_row *lr, const struct part *p)
{
	return (unsigned)((p->offset_bytes - lr->row * a->row_bytes) / a->layout.chunk_bytes);
}

/* Of a row that is lost, some sectors may hold poison instead of data. */
static int part_trust(const struct array *a, const struct part *p, struct error *err)
{
	uint64_t at;

	if (!p->lost || !poison__find(a, p->bytes, p->length, &at))
		return 0;
	return error_set(err, ERR_LOST,
		"array %s: the sector at %llu (row %llu) is lost: more failed at once than redundancy makes up for, "
		"while its row was "
		"written or rebuilt; writing it again gives it new bytes",
		a->label.name, (unsigned long long)(p->offset_bytes + at), (unsigned long long)p->row);
}

/* Decides for a part where it comes from. With the lock held. */
static void part_place(struct array *a, struct io *io, size_t index, uint64_t region)
{
	struct part *p = &io->parts[index];
	struct candidate c = {0};
	bool there;

	if (p->kind == PART_DONE)
		return;
	p->lost = a->redundant && ROW_ACTUAL(a->map[p->row]) == ROW_LOST;
	if (a->redundant && ROW_ACTUAL(a->map[p->row]) == ROW_NEVER) {
		p->kind = PART_ZERO;
		a->counters.zero_read_bytes += p->length;
		return;
	}
	if (a->layout.parity) {
		struct layout_row lr;

		layout_row(&a->layout, p->row, &lr);
		unsigned column = column_of(a, &lr, p);
		c = (struct candidate){
			.member = lr.disk[column], .at = lr.offset_bytes + p->offset_bytes % a->layout.chunk_bytes};
		there = road_reads(&io->roads[c.member], p->row);
	} else {
		there = part_place_copies(a, io, p, region, &c);
	}
	p->kind = there ? PART_DISK : PART_RECOVER;
	if (there) {
		io->planned[c.member]++;
		io__piece(io, c.member * 2 + road_reads_source(&io->roads[c.member], p->row),
			a->label.data_offset + c.at, p->bytes, p->length, (uint32_t)index);
	}
}

/* --- recovery --------------------------------------------------------------------------------- */

int read__recover(struct array *a, struct io *io, uint64_t row, unsigned column, uint64_t lo, uint64_t hi, uint8_t *to,
	uint64_t bad, struct error *err)
{
	struct layout_row lr;
	void *columns[LAYOUT_WIDTH_MAX];
	size_t bytes = hi - lo;

	layout_row(&a->layout, row, &lr);
	for (;;) {
		bool failed[LAYOUT_WIDTH_MAX], read[LAYOUT_WIDTH_MAX];

		io->piece_count = 0;
		io->scratch_used = 0;
		if (!io__scratch_grow(io, (lr.data + lr.parity) * round_up_u64(bytes, DISK_BUFFER_ALIGN)))
			return error_set(
				err, ERR_MEMORY, "array %s: out of memory for recovering a row", a->label.name);
		for (unsigned c = 0; c < lr.data + lr.parity; c++) {
			failed[c] = bad >> c & 1 || !road_reads(&io->roads[lr.disk[c]], row);
			columns[c] = io__scratch(io, bytes);
		}
		failed[column] = true;
		int rc = layout_plan_recover(lr.data, lr.parity, failed, read, err);
		if (rc) {
			error_prefix(err, "array %s, row %llu, bytes %llu to %llu of member %u (%s)", a->label.name,
				(unsigned long long)row, (unsigned long long)lo, (unsigned long long)hi,
				lr.disk[column], a->members[lr.disk[column]].name);
			return rc;
		}
		for (unsigned c = 0; c < lr.data + lr.parity; c++)
			if (read[c])
				io__piece(io, lr.disk[c] * 2 + road_reads_source(&io->roads[lr.disk[c]], row),
					a->label.data_offset + lr.offset_bytes + lo, columns[c], bytes, c);
		rc = io__run(io, DISK_READ);
		if (rc < 0)
			return error_set(err, rc, "array %s: out of memory for recovering a row", a->label.name);
		for (size_t i = 0; i < io->piece_count && rc; i++)
			if (io->pieces[i].status) {
				bad |= (uint64_t)1 << io->pieces[i].tag;
				array__read_failed(a, io->pieces[i].key, io->pieces[i].status);
			}
		if (rc)
			continue;
		os_charge(lr.parity > 1 ? OS_STAGE_PARITY2 : OS_STAGE_PARITY1, bytes * lr.data);
		rc = parity_recover(lr.data, lr.parity, bytes, columns, failed, err);
		if (!rc)
			memcpy(to, columns[column], bytes);
		return rc;
	}
}

/* Another copy than the one that failed. */
static int copies_read(struct array *a, struct io *io, const struct part *p, struct error *err)
{
	const struct layout *l = &a->layout;
	struct layout_place place;

	for (unsigned copy = 0; copy < l->copies && l->copies > 1; copy++) {
		layout_place(l, p->offset_bytes / l->chunk_bytes, copy, &place);
		const struct road *road = &io->roads[place.disk];
		if (!road_reads(road, p->row) || (p->kind == PART_FAILED && p->key / 2 == place.disk))
			continue;
		unsigned key = place.disk * 2 + road_reads_source(road, p->row);
		io->piece_count = 0;
		io__piece(io, key, a->label.data_offset + place.offset_bytes + p->offset_bytes % l->chunk_bytes,
			p->bytes, p->length, 0);
		int rc = io__run(io, DISK_READ);
		if (rc == 0)
			return 0;
		if (rc < 0)
			return error_set(err, rc, "array %s: out of memory for reading", a->label.name);
		array__read_failed(a, key, io->pieces[0].status);
	}
	return error_set(err, ERR_LOST, "array %s: no copy of the %u bytes at %llu can be read", a->label.name,
		p->length, (unsigned long long)p->offset_bytes);
}

/* What failed is written again in its place, where the disk can put it elsewhere. */
static void part_repair(struct array *a, struct io *io, const struct part *p, uint64_t at)
{
	struct disk *d = p->key % 2 ? io->roads[p->key / 2].source : io->roads[p->key / 2].disk;

	if (!d || a->read_only)
		return;
	int rc = disk_write(d, a->label.data_offset + at, p->bytes, p->length, NULL);
	if (rc)
		array__write_failed(a, p->key, rc);
	os_scoped_lock(&a->lock);
	a->plain_unflushed = true;
	if (!rc)
		a->members[p->key / 2].repaired_bytes += p->length;
}

static int part_recover(struct array *a, struct io *io, struct part *p, struct error *err)
{
	struct layout_row lr;
	unsigned column = 0;
	bool repair = p->kind == PART_FAILED;
	uint64_t in = p->offset_bytes % a->layout.chunk_bytes, at = 0;
	int rc;

	if (!a->redundant) {
		struct disk *d = repair ? io->roads[p->key / 2].disk : NULL;

		if (!d)
			return error_set(err, ERR_LOST, "array %s: the %u bytes at %llu are on a disk that is gone",
				a->label.name, p->length, (unsigned long long)p->offset_bytes);
		return error_set(err, p->status, "array %s: %s cannot read the %u bytes at %llu of the array: %s",
			a->label.name, disk_traits(d)->name, p->length, (unsigned long long)p->offset_bytes,
			error_sentence(p->status));
	}
	if (repair)
		buffer__seize(a, p->row);
	else
		buffer__guard(a, p->row);
	os_mutex_lock(&a->lock);
	io__roads(a, io);
	os_mutex_unlock(&a->lock);
	if (a->layout.parity) {
		layout_row(&a->layout, p->row, &lr);
		column = column_of(a, &lr, p);
		at = lr.offset_bytes + in;
		rc = read__recover(a, io, p->row, column, in, in + p->length, p->bytes, 0, err);
	} else {
		rc = copies_read(a, io, p, err);
		for (unsigned copy = 0; copy < a->layout.copies; copy++) {
			struct layout_place place;

			layout_place(&a->layout, p->offset_bytes / a->layout.chunk_bytes, copy, &place);
			if (place.disk == p->key / 2)
				at = place.offset_bytes + in;
		}
	}
	if (repair) {
		if (!rc)
			part_repair(a, io, p, at);
		buffer__unseize(a, p->row);
	} else {
		buffer__unguard(a, p->row);
	}
	return rc;
}

/* --- a round ---------------------------------------------------------------------------------- */

static int parts_read(struct array *a, struct io *io, struct error *err)
{
	int failed = io->piece_count || io->no_memory ? io__run(io, DISK_READ) : 0, rc = 0;

	if (failed < 0) {
		together__unguard(a, io);
		return error_set(err, failed, "array %s: out of memory for reading", a->label.name);
	}
	for (size_t i = 0; i < io->piece_count && failed; i++) {
		const struct piece *piece = &io->pieces[i];
		bool together = piece->tag & TOGETHER && piece->tag != BRIDGE;
		struct part *p = piece->tag & TOGETHER ? NULL : &io->parts[piece->tag];

		if (piece->status && together) {
			together__failed(io, piece->tag);
			array__read_failed(a, piece->key, piece->status);
		} else if (piece->status && p) {
			p->kind = PART_FAILED;
			p->key = piece->key;
			p->status = piece->status;
			array__read_failed(a, piece->key, piece->status);
		}
	}
	together__finish(a, io);
	together__unguard(a, io); /* what is left takes rows for itself */
	for (size_t i = 0; i < io->part_count && !rc; i++) {
		struct part *p = &io->parts[i];

		if (p->kind == PART_ZERO)
			memset(p->bytes, 0, p->length);
		else if (p->kind == PART_RECOVER || p->kind == PART_FAILED)
			rc = part_recover(a, io, p, err);
		if (!rc)
			rc = part_trust(a, p, err);
	}
	return rc;
}

/* How much in a row a long read takes from one copy; 0: it is not long. Read-ahead has several such reads under way. */
static uint64_t region_of(const struct array *a, uint64_t total, bool use_cache)
{
	if (!use_cache)
		return max_of(REGION_BYTES, 2 * a->layout.chunk_bytes);
	return total >= LONG_READ_BYTES ? max_of(total / a->layout.disks, a->layout.chunk_bytes) : 0;
}

/*
 * A stream that is read from rows with parity leaves out a chunk or two after every few. The head passes over it in the
 * time that reading it takes, but a disk that is asked for it too is not told to stop and start again.
 */
static void gaps_bridge(struct array *a, struct io *io)
{
	uint64_t chunk = a->layout.chunk_bytes;
	size_t count = io->piece_count;

	uint64_t most = chunk * a->layout.parity;
	if (most > BRIDGE_BYTES_MAX || !io__scratch_grow(io, most))
		return;
	io__sort(io);
	for (size_t i = 1; i < count && !io->no_memory; i++) {
		const struct piece x = io->pieces[i - 1], y = io->pieces[i];
		const struct disk *d = x.key % 2 ? io->roads[x.key / 2].source : io->roads[x.key / 2].disk;

		uint64_t end = x.offset_bytes + x.length;
		if (x.key == y.key && (end + chunk == y.offset_bytes || end + most == y.offset_bytes) &&
			disk_traits(d)->rotating)
			io__piece(io, x.key, end, io->scratch, y.offset_bytes - end, BRIDGE);
	}
}

static int round_read(
	struct array *a, struct io *io, const struct target *targets, unsigned count, bool use_cache, struct error *err)
{
	uint64_t total = 0, from_disk = 0;

	io__reset(io);
	io->together_count = io->guard_count = 0;
	io->part_count = 0;
	os_mutex_lock(&a->lock);
	for (unsigned i = 0; i < count; i++) {
		target_parts(a, io, &targets[i]);
		total += targets[i].length;
	}
	if (use_cache)
		parts_from_cache(a, io);
	uint64_t region = region_of(a, total, use_cache);
	bool guarded = region && together__guard(a, io);
	unsigned turn = a->read_turn;
	a->active_reads[turn]++;
	io__roads(a, io);
	memset(io->planned, 0, a->member_count * sizeof *io->planned);
	for (size_t i = 0; i < io->part_count; i++) {
		part_place(a, io, i, region);
		if (io->parts[i].kind == PART_DISK)
			from_disk += io->parts[i].length;
	}
	if (guarded)
		together__plan(a, io);
	os_mutex_unlock(&a->lock);
	if (total > from_disk)
		os_charge(OS_STAGE_COPY, total - from_disk);
	if (region && a->layout.parity && !guarded)
		gaps_bridge(a, io);
	int rc = parts_read(a, io, err);
	os_mutex_lock(&a->lock);
	if (--a->active_reads[turn] == 0)
		array__settle(a);
	os_mutex_unlock(&a->lock);
	return rc;
}

void read__drain(struct array *a)
{
	os_scoped_lock(&a->lock);
	unsigned old = a->read_turn;

	while (a->active_reads[1 - old])
		array__wait(a);
	a->read_turn = 1 - old;
	while (a->active_reads[old])
		array__wait(a);
}

/* The caller's buffer is no place for a disk to write to: by way of our own. */
static int bounce_read(struct array *a, struct io *io, const struct target *t, bool use_cache, struct error *err)
{
	scoped_free uint8_t *bytes = aligned_alloc(DISK_BUFFER_ALIGN, BOUNCE_BYTES);
	int rc = bytes ? 0 : error_set(err, ERR_MEMORY, "array %s: out of memory for a read", a->label.name);

	for (uint64_t done = 0, n; done < t->length && !rc; done += n) {
		n = min_of(t->length - done, BOUNCE_BYTES);
		rc = round_read(a, io,
			&(struct target){.offset_bytes = t->offset_bytes + done, .length = n, .bytes = bytes}, 1,
			use_cache, err);
		if (!rc)
			memcpy(t->bytes + done, bytes, n);
	}
	return rc;
}

int read__targets(struct array *a, const struct target *targets, unsigned count, bool use_cache, struct error *err)
{
	struct io *io = io__get(a, err);
	int rc = 0;

	if (!io)
		return ERR_MEMORY;
	if (count == 1 && (uintptr_t)targets->bytes % a->sector_bytes) {
		rc = bounce_read(a, io, targets, use_cache, err);
	} else if (count == 1) {
		for (uint64_t done = 0, n; done < targets->length && !rc; done += n) {
			n = min_of(targets->length - done, ROUND_BYTES);
			struct target part = {.offset_bytes = targets->offset_bytes + done,
				.length = n,
				.bytes = targets->bytes + done};
			rc = round_read(a, io, &part, 1, use_cache, err);
		}
	} else {
		rc = round_read(a, io, targets, count, use_cache, err);
	}
	io__put(a, io);
	return rc;
}

int array_read(struct array *a, uint64_t offset_bytes, void *buffer, uint64_t length_bytes, struct error *err)
{
	int rc = array__range_check(a, "read", offset_bytes, length_bytes, err);

	if (rc)
		return rc;
	os_charge(OS_STAGE_CALL, length_bytes);
	os_mutex_lock(&a->lock);
	a->counters.reads++;
	a->counters.read_bytes += length_bytes;
	ahead__seen(a, offset_bytes, length_bytes);
	os_mutex_unlock(&a->lock);
	return read__targets(a, &(struct target){.offset_bytes = offset_bytes, .length = length_bytes, .bytes = buffer},
		1, true, err);
}
