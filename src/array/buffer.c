/*
 * The write-back buffer: rows whose bytes came in and are not on the disks yet.
 *
 * Memory is a pool of slots (16 KiB, or a chunk if that is smaller), each with a bit per sector that was written. A
 * row object holds slot numbers; it is found by a hash. Life of a row object:
 *
 *        array_write                  writer takes it             on the disks
 *   spare ─────────► idle, has data ───────────────► writing ───────────────────► spare
 *                     │  ▲   copying (bytes on their way in)      reads are served, writes wait
 *                     └──┘
 *   A row object without data is also the lock of a row: `guards` counts readers that need the row on the disks to
 *   stand still (they recover a column from the others), `writing` is the one who changes it.
 *
 * ARRAY-3 lives here: while `writing` is set nobody else changes the row, in memory or on the disks.
 */
#include "internal.h"

#include <string.h>
#include <sys/mman.h>

#define BUFFER_SHARE 32u
#define BUFFER_BYTES_LEAST (8 * MIB)
#define BYTES_A_DISK (4 * MIB)
#define BUFFER_BYTES_MIN (64 * MIB)
#define BUFFER_BYTES_MAX (256 * MIB)
#define TWO_ROWS_MAX (256 * MIB)
#define ROW_SLOTS_BYTES_MAX (16u << 20)
#define COPY_UNDER_LOCK_BYTES (32u << 10)
#define SMALL_POOL_BYTES (16u << 20) /* below, pages are touched as they are used */

static unsigned hash_of(const struct array *a, uint64_t row)
{
	return (unsigned)(row * 0x9e3779b97f4a7c15u >> 40) & a->hash_mask;
}

/*
 * Enough for all disks to be busy while as much again comes in. A buffer that holds much of a small array would make a
 * cache of it and tell nothing of its disks. A row becomes full only if there is room for all of it, beside the one that
 * is being written; where two rows are more than TWO_ROWS_MAX, rows are written by parts.
 */
static uint64_t pool_bytes(const struct array *a)
{
	uint64_t by_disks = min_of(max_of(a->member_count * BYTES_A_DISK, BUFFER_BYTES_MIN), BUFFER_BYTES_MAX);
	uint64_t want = a->tuning.buffer_bytes ? a->tuning.buffer_bytes : by_disks;
	uint64_t fair = max_of(a->size_bytes / BUFFER_SHARE, BUFFER_BYTES_LEAST);
	uint64_t two_rows = 2 * a->row_bytes <= TWO_ROWS_MAX ? 2 * a->row_bytes : 0;

	want = max_of(min_of(want, fair), max_of((uint64_t)8 * a->slot_bytes, a->layout.parity ? two_rows : 0));
	return round_down_u64(min_of(want, round_up_u64(a->size_bytes, a->slot_bytes)), a->slot_bytes);
}

int buffer__open(struct array *a, struct error *err)
{
	uint64_t bytes = pool_bytes(a);

	a->slot_count = (unsigned)(bytes / a->slot_bytes);
	uint64_t objects = min_of((uint64_t)a->slot_count + 64, a->row_count);
	objects = min_of(
		objects, max_of((uint64_t)64, ROW_SLOTS_BYTES_MAX / ((uint64_t)a->slots_per_row * sizeof(uint32_t))));
	a->row_object_count = (unsigned)objects;
	a->hash_mask = 63;
	while (a->hash_mask + 1 < 2 * objects)
		a->hash_mask = a->hash_mask * 2 + 1;
	a->slot_pool_bytes = bytes;
	void *pool = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	a->slot_pool = pool == MAP_FAILED ? NULL : pool;
	a->slot_valid = calloc(a->slot_count, sizeof *a->slot_valid);
	a->slot_spare = malloc(a->slot_count * sizeof *a->slot_spare);
	a->rows = calloc(objects, sizeof *a->rows);
	a->row_slots = calloc(objects * a->slots_per_row, sizeof *a->row_slots);
	a->row_hash = calloc((size_t)a->hash_mask + 1, sizeof *a->row_hash);
	a->zeros = aligned_alloc(DISK_BUFFER_ALIGN, SLOT_BYTES_MAX);
	if (!a->slot_pool || !a->slot_valid || !a->slot_spare || !a->rows || !a->row_slots || !a->row_hash || !a->zeros)
		return error_set(err, ERR_MEMORY, "out of memory for a write-back buffer of %llu bytes",
			(unsigned long long)bytes);
	memset(a->zeros, 0, SLOT_BYTES_MAX);
	if (bytes > SMALL_POOL_BYTES && !os_is_simulated()) {
		madvise(a->slot_pool, bytes, MADV_HUGEPAGE); /* a wish */
		memset(a->slot_pool, 0, bytes);
	}
	list_init(&a->live);
	list_init(&a->spare);
	list_init(&a->full);
	for (unsigned i = 0; i < objects; i++) {
		a->rows[i].slot = a->row_slots + (size_t)i * a->slots_per_row;
		list_init(&a->rows[i].full);
		list_push_back(&a->spare, &a->rows[i].live);
	}
	for (unsigned i = 0; i < a->slot_count; i++)
		a->slot_spare[i] = a->slot_count - i;
	a->slot_spare_count = a->slot_count;
	return 0;
}

void buffer__close(struct array *a)
{
	if (a->slot_pool)
		munmap(a->slot_pool, a->slot_pool_bytes);
	free(a->slot_valid);
	free(a->slot_spare);
	free(a->rows);
	free(a->row_slots);
	free(a->row_hash);
	free(a->zeros);
}

/* --- row objects ------------------------------------------------------------------------------ */

struct buf_row *buffer__find(struct array *a, uint64_t row)
{
	struct buf_row *b = a->row_hash[hash_of(a, row)];

	while (b && b->row != row)
		b = b->next;
	return b;
}

struct buf_row *buffer__get(struct array *a, uint64_t row)
{
	struct buf_row *b = buffer__find(a, row);

	if (b)
		return b;
	if (list_is_empty(&a->spare))
		return NULL;
	b = container_of(a->spare.next, struct buf_row, live);
	list_remove(&b->live);
	sp_assert(!b->has_data && b->slots == 0 && !b->writing && !b->guards);
	b->row = row;
	b->next = a->row_hash[hash_of(a, row)];
	a->row_hash[hash_of(a, row)] = b;
	return b;
}

void buffer__tidy(struct array *a, struct buf_row *b)
{
	if (b->has_data || b->guards || b->writing || b->copying || b->waiters || b->slots)
		return;
	struct buf_row **at = &a->row_hash[hash_of(a, b->row)];
	while (*at != b)
		at = &(*at)->next;
	*at = b->next;
	list_push_front(&a->spare, &b->live);
	if (a->room_waiters)
		os_cond_broadcast(&a->room);
}

static void slots_free(struct array *a, struct buf_row *b)
{
	/* Backwards, so that they are taken again in ascending order and lie next to each other in memory. */
	for (unsigned i = a->slots_per_row; i-- > 0 && b->slots;)
		if (b->slot[i]) {
			a->slot_valid[b->slot[i] - 1] = 0;
			a->slot_spare[a->slot_spare_count++] = b->slot[i];
			b->slot[i] = 0;
			b->slots--;
		}
	b->sectors = 0;
}

void buffer__written(struct array *a, struct buf_row *b)
{
	sp_assert(b->writing && !b->copying);
	slots_free(a, b);
	list_remove(&b->live);
	b->has_data = b->is_full = b->writing = false;
	a->writing_rows--;
	array__settle(a);
	if (a->room_waiters)
		os_cond_broadcast(&a->room);
	buffer__tidy(a, b);
}

bool buffer__row_free(struct array *a, const struct buf_row *b)
{
	return !b->writing && !b->copying && !b->guards && !buffer__in_care(a, b->row);
}

/* Waits for a change while the row object cannot go away. */
static void row_wait(struct array *a, struct buf_row *b)
{
	b->waiters++;
	array__wait(a);
	b->waiters--;
}

static void room_wait(struct array *a)
{
	os_cond_broadcast(&a->work);
	a->room_waiters++;
	os_cond_wait(&a->room, &a->lock);
	a->room_waiters--;
}

static struct buf_row *row_object(struct array *a, uint64_t row)
{
	struct buf_row *b;

	while (!(b = buffer__get(a, row)))
		room_wait(a);
	return b;
}

void buffer__guard(struct array *a, uint64_t row)
{
	os_scoped_lock(&a->lock);
	struct buf_row *b = row_object(a, row);
	while (b->writing || buffer__in_care(a, row))
		row_wait(a, b);
	b->guards++;
}

static bool rows_stand(struct array *a, uint64_t first, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		const struct buf_row *b = buffer__find(a, first + i);

		if ((b && b->writing) || buffer__in_care(a, first + i))
			return false;
	}
	return true;
}

bool buffer__guard_rows(struct array *a, uint64_t first, uint64_t count)
{
	while (!rows_stand(a, first, count))
		array__wait(a);
	for (uint64_t i = 0; i < count; i++) {
		struct buf_row *b = buffer__get(a, first + i);

		if (b) {
			b->guards++;
			continue;
		}
		while (i-- > 0) { /* the writers need the objects more */
			b = buffer__find(a, first + i);
			b->guards--;
			buffer__tidy(a, b);
		}
		array__settle(a);
		return false;
	}
	return true;
}

void buffer__unguard(struct array *a, uint64_t row)
{
	os_scoped_lock(&a->lock);
	struct buf_row *b = buffer__find(a, row);
	sp_assert(b && b->guards);
	if (--b->guards == 0) {
		array__settle(a);
		if (b->has_data)
			os_cond_signal(&a->work);
	}
	buffer__tidy(a, b);
}

void buffer__seize(struct array *a, uint64_t row)
{
	os_scoped_lock(&a->lock);
	struct buf_row *b = row_object(a, row);
	while (!buffer__row_free(a, b))
		row_wait(a, b);
	if (b->is_full)
		list_remove(&b->full);
	b->writing = true;
	a->writing_rows++;
}

void buffer__unseize(struct array *a, uint64_t row)
{
	os_scoped_lock(&a->lock);
	struct buf_row *b = buffer__find(a, row);
	sp_assert(b && b->writing);
	b->writing = false;
	a->writing_rows--;
	if (b->is_full)
		list_push_front(&a->full, &b->full);
	array__settle(a);
	if (b->has_data)
		os_cond_signal(&a->work);
	buffer__tidy(a, b);
}

static bool care_must_wait(struct array *a, uint64_t first, uint64_t end)
{
	for (unsigned i = 0; i < a->row_object_count; i++) {
		const struct buf_row *b = &a->rows[i];

		if (b->row >= first && b->row < end && (b->writing || b->guards))
			return true;
	}
	return false;
}

void buffer__care_begin(struct array *a, uint64_t first, uint64_t end)
{
	os_scoped_lock(&a->lock);
	sp_assert(a->care_first == a->care_end && first < end);
	a->care_first = first;
	a->care_end = end;
	while (care_must_wait(a, first, end))
		array__wait(a);
}

void buffer__care_end(struct array *a)
{
	os_scoped_lock(&a->lock);
	a->care_first = a->care_end = 0;
	array__settle(a);
	os_cond_broadcast(&a->work);
}

/* --- bytes coming in -------------------------------------------------------------------------- */

uint32_t sectors__mask(uint64_t from_bytes, uint64_t to_bytes)
{
	unsigned from = (unsigned)(from_bytes / SECTOR_BYTES), to = (unsigned)(to_bytes / SECTOR_BYTES);
	uint64_t mask = ((uint64_t)1 << to) - ((uint64_t)1 << from);

	return (uint32_t)mask;
}

/* Slots for [from, to) of the row, as many as there are: returns up to where. */
static uint64_t slots_take(struct array *a, struct buf_row *b, uint64_t from, uint64_t to)
{
	for (uint64_t s = from / a->slot_bytes; s * a->slot_bytes < to; s++) {
		if (b->slot[s])
			continue;
		if (a->slot_spare_count == 0)
			return max_of(from, s * a->slot_bytes);
		b->slot[s] = a->slot_spare[--a->slot_spare_count];
		b->slots++;
		a->write_clock++;
	}
	return to;
}

static void copy_in(struct array *a, const struct buf_row *b, uint64_t from, uint64_t to, const uint8_t *bytes)
{
	while (from < to) {
		uint64_t in = from % a->slot_bytes, n = min_of(to - from, a->slot_bytes - in);

		memcpy(slot__bytes(a, b->slot[from / a->slot_bytes]) + in, bytes, n);
		bytes += n;
		from += n;
	}
}

static void mark_valid(struct array *a, struct buf_row *b, uint64_t from, uint64_t to)
{
	while (from < to) {
		uint64_t in = from % a->slot_bytes, n = min_of(to - from, a->slot_bytes - in);
		uint32_t *valid = &a->slot_valid[b->slot[from / a->slot_bytes] - 1];
		uint32_t mask = sectors__mask(in, in + n);

		b->sectors += (uint32_t)__builtin_popcount(mask & ~*valid);
		*valid |= mask;
		from += n;
	}
}

static void data_came(struct array *a, struct buf_row *b)
{
	b->touched = a->write_clock;
	if (!b->has_data) {
		b->has_data = true;
		b->born_ns = os_now_ns();
		b->epoch = a->flush_epoch;
		if (list_is_empty(&a->live))
			os_cond_signal(&a->work); /* somebody must watch its age */
		list_push_back(&a->live, &b->live);
	}
	if (!b->is_full && (uint64_t)b->sectors * SECTOR_BYTES == array__row_length(a, b->row)) {
		b->is_full = true;
		list_push_back(&a->full, &b->full);
		os_cond_signal(&a->work);
	} else if (a->slot_spare_count < a->slot_count / 2) {
		os_cond_signal(&a->work);
	}
}

/* Takes what it can of one row's part of a write; 0 when it had to wait instead. With the lock held. */
static uint64_t take_in(struct array *a, uint64_t offset, const uint8_t *bytes, uint64_t length)
{
	uint64_t row = offset / a->row_bytes, from = offset % a->row_bytes;
	uint64_t to = min_of(from + length, array__row_length(a, row));
	/* An object that is taken and given back for want of a slot would wake all others that wait for one. */
	if (!a->slot_spare_count && !buffer__find(a, row)) {
		room_wait(a);
		return 0;
	}
	struct buf_row *b = row_object(a, row);
	if (b->writing || b->copying) {
		row_wait(a, b);
		buffer__tidy(a, b);
		return 0;
	}
	to = slots_take(a, b, from, to);
	if (to == from) {
		buffer__tidy(a, b);
		room_wait(a);
		return 0;
	}
	if (to - from <= COPY_UNDER_LOCK_BYTES) {
		copy_in(a, b, from, to, bytes);
	} else {
		b->copying = true;
		os_mutex_unlock(&a->lock);
		copy_in(a, b, from, to, bytes);
		os_charge(OS_STAGE_COPY, to - from);
		os_mutex_lock(&a->lock);
		b->copying = false;
		array__settle(a);
	}
	mark_valid(a, b, from, to);
	data_came(a, b);
	return to - from;
}

int array__range_check(const struct array *a, const char *what, uint64_t offset, uint64_t length, struct error *err)
{
	if (offset % a->sector_bytes || length % a->sector_bytes)
		return error_set(err, ERR_USAGE, "array %s: %s of %llu bytes at %llu: both must be multiples of %u",
			a->label.name, what, (unsigned long long)length, (unsigned long long)offset, a->sector_bytes);
	if (offset > a->size_bytes || length > a->size_bytes - offset)
		return error_set(err, ERR_USAGE, "array %s: %s of %llu bytes at %llu reaches past its end at %llu",
			a->label.name, what, (unsigned long long)length, (unsigned long long)offset,
			(unsigned long long)a->size_bytes);
	return 0;
}

int array_write(struct array *a, uint64_t offset_bytes, const void *buffer, uint64_t length_bytes, struct error *err)
{
	const uint8_t *bytes = buffer;
	uint64_t small = length_bytes;
	int rc = array__range_check(a, "write", offset_bytes, length_bytes, err);

	if (rc)
		return rc;
	if (a->read_only)
		return error_set(err, ERR_READ_ONLY, "array %s is open for reading only", a->label.name);
	os_charge(OS_STAGE_CALL, length_bytes);
	os_mutex_lock(&a->lock);
	a->counters.writes++;
	a->counters.write_bytes += length_bytes;
	while (length_bytes && !(rc = array__broken(a, err))) {
		uint64_t n = take_in(a, offset_bytes, bytes, length_bytes);

		offset_bytes += n;
		bytes += n;
		length_bytes -= n;
		if (n > COPY_UNDER_LOCK_BYTES)
			small -= n;
	}
	os_mutex_unlock(&a->lock);
	if (small - length_bytes)
		os_charge(OS_STAGE_COPY, small - length_bytes);
	return rc;
}

/* Everything that came in before is on the disks after, though perhaps in their caches. */
int buffer__flush_rows(struct array *a, struct error *err)
{
	os_scoped_lock(&a->lock);
	uint64_t mine = a->flush_epoch++;

	a->flush_upto = max_of(a->flush_upto, mine + 1);
	if (!list_is_empty(&a->live))
		os_cond_broadcast(&a->work);
	while (!a->broken && !list_is_empty(&a->live) &&
		container_of(a->live.next, struct buf_row, live)->epoch <= mine)
		array__wait(a);
	return array__broken(a, err);
}
