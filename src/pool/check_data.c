/* Of check: the bytes themselves. Read as they lie, past cache and repair, so that redundancy hides nothing. */
#include <string.h>

#include "check.h"

#define LLU(v) ((unsigned long long)(v))
#define RECORDS_AT_ONCE 32u
#define CHUNK_BYTES (1u << 20) /* of a column, read at once */

/* --- reading ------------------------------------------------------------------------------------------------------ */

static uint64_t column_unit(const struct check_run *r, uint32_t stripe, unsigned column)
{
	return r->column[column].unit + (uint64_t)stripe * (class_bytes[r->class] / POOL_UNIT_BYTES);
}

/* Is the column there, and held to be good? */
static bool column_is_there(const struct check *c, const struct check_run *r, unsigned column)
{
	const struct pool_disk *d = &c->p->disks[r->column[column].disk];

	return r->column[column].disk < c->p->disk_count && d->disk && d->state == PD_ONLINE &&
	       !r->column_state[column] && !check_is_behind(c, r->column[column].disk, r->birth_last);
}

static void read_all(struct check *c, struct disk_request *requests, const unsigned *disks, unsigned count)
{
	struct disk_queue *q = disk_queue_of_thread(NULL);

	if (!q) {
		check_no_memory(c);
		return;
	}
	for (unsigned i = 0; i < count; i++)
		disk_queue_submit(q, c->p->disks[disks[i]].disk, &requests[i]);
	while (disk_queue_reap(q, UINT64_MAX))
		;
}

/* --- records ------------------------------------------------------------------------------------------------------ */

struct check_records {
	unsigned count;
	struct {
		struct bp bp;
		uint64_t dataset, record;
		struct disk_address place;
	} items[RECORDS_AT_ONCE];
	struct disk_request requests[RECORDS_AT_ONCE];
	unsigned disks[RECORDS_AT_ONCE];
	uint8_t *bytes; /* a column of the largest class for each */
};

static void records_verify(struct check *c)
{
	struct check_records *k = c->records;

	for (unsigned i = 0; i < k->count; i++) {
		disk_request_init(&k->requests[i], DISK_READ, k->items[i].place.unit * POOL_UNIT_BYTES,
			k->bytes + (size_t)i * class_bytes[CLASS_COUNT - 1],
			round_up_u64(k->items[i].bp.physical_bytes, POOL_UNIT_BYTES));
		k->disks[i] = k->items[i].place.disk;
	}
	read_all(c, k->requests, k->disks, k->count);
	for (unsigned i = 0; i < k->count && c->rc == 0; i++) {
		const struct bp *bp = &k->items[i].bp;
		const char *what = k->requests[i].status ? "cannot be read" : "has another checksum than its pointer";

		c->result.columns_verified++;
		if (k->requests[i].status == 0 &&
			bp_verify(c->p, bp, k->bytes + (size_t)i * class_bytes[CLASS_COUNT - 1]))
			continue;
		check_find(c, "dataset %llu, record %llu: run %llu, stripe %u, column %u on disk %u at byte %llu %s",
			LLU(k->items[i].dataset), LLU(k->items[i].record), LLU(bp->run), bp->stripe, bp->column,
			k->items[i].place.disk, LLU(k->items[i].place.unit * POOL_UNIT_BYTES), what);
	}
	k->count = 0;
}

void check_record_data(
	struct check *c, const struct check_run *r, const struct bp *bp, uint64_t dataset, uint64_t record)
{
	struct check_records *k = c->records;

	if (!column_is_there(c, r, bp->column))
		return;
	if (!k) {
		k = c->records = calloc(1, sizeof *k);
		if (k && posix_memalign((void **)&k->bytes, DISK_BUFFER_ALIGN,
				 (size_t)RECORDS_AT_ONCE * class_bytes[CLASS_COUNT - 1]) != 0)
			k->bytes = NULL;
		if (!k || !k->bytes) {
			check_no_memory(c);
			return;
		}
	}
	k->items[k->count].bp = *bp;
	k->items[k->count].dataset = dataset;
	k->items[k->count].record = record;
	k->items[k->count++].place =
		(struct disk_address){r->column[bp->column].disk, column_unit(r, bp->stripe, bp->column)};
	if (k->count == RECORDS_AT_ONCE)
		records_verify(c);
}

void check_records_flush(struct check *c)
{
	struct check_records *k = c->records;

	if (!k)
		return;
	if (k->bytes && c->rc == 0)
		records_verify(c);
	free(k->bytes);
	free(k);
	c->records = NULL;
}

/* --- stripes ------------------------------------------------------------------------------------------------------ */

struct stripe_check {
	uint8_t *bytes;  /* CHUNK_BYTES for each column */
	uint8_t *parity; /* one column of the largest class for each */
	uint8_t sums[TREE_VALUE_MAX];
	uint32_t sums_bytes;
	uint64_t sums_run, sums_item;
	bool sums_there;
};

/* The sums of a stripe; NULL when they are not there, which was told before. */
static const uint8_t *sums_of(struct check *c, struct stripe_check *s, const struct check_run *r, uint32_t stripe)
{
	unsigned per_item = sums_stripes_per_item(r->k + r->p, r->class),
		 each = (r->k + r->p) * sums_per_column(r->class) * 4;
	uint32_t at = stripe % per_item * each;

	if (!s->sums_there || s->sums_run != r->id || s->sums_item != stripe / per_item) {
		s->sums_run = r->id;
		s->sums_item = stripe / per_item;
		s->sums_there = true;
		if (tree_lookup(c->p, &c->uber.sums, TREE_SUMS, (struct key){r->id, s->sums_item}, s->sums,
			    sizeof s->sums, &s->sums_bytes, NULL) != 0)
			s->sums_bytes = 0;
	}
	return at + each <= s->sums_bytes ? s->sums + at : NULL;
}

static bool column_sums_fit(const struct check_run *r, const uint8_t *sums, const uint8_t *bytes)
{
	for (uint32_t at = 0, i = 0; at < class_bytes[r->class]; at += SUM_BYTES, i++)
		if (checksum_crc32c(bytes + at, min_of(class_bytes[r->class] - at, SUM_BYTES)) !=
			get_le32(sums + i * 4))
			return false;
	return true;
}

static void stripe_check(struct check *c, struct stripe_check *s, const struct check_run *r, uint32_t stripe,
	uint32_t in_chunk, const bool *is_read)
{
	const uint8_t *sums = sums_of(c, s, r, stripe);
	unsigned width = r->k + r->p, per_column = sums_per_column(r->class);
	size_t bytes = class_bytes[r->class];
	void *columns[POOL_WIDTH_MAX];
	bool whole = r->p > 0;

	for (unsigned i = 0; i < width; i++) {
		columns[i] = s->bytes + (size_t)i * CHUNK_BYTES + in_chunk * bytes;
		if (!is_read[i]) {
			whole = whole && i >= r->k;
			continue;
		}
		c->result.columns_verified++;
		if (sums && !column_sums_fit(r, sums + (size_t)i * per_column * 4, columns[i])) {
			check_find(c, "run %llu, stripe %u: column %u on disk %u at byte %llu does not have its sums",
				LLU(r->id), stripe, i, r->column[i].disk,
				LLU(column_unit(r, stripe, i) * POOL_UNIT_BYTES));
			whole = false;
		}
	}
	if (!whole)
		return;
	void *made[POOL_WIDTH_MAX];
	memcpy(made, columns, sizeof made);
	for (unsigned i = 0; i < r->p; i++)
		made[r->k + i] = s->parity + (size_t)i * class_bytes[CLASS_COUNT - 1];
	parity_generate(r->k, r->p, bytes, made);
	for (unsigned i = r->k; i < width; i++)
		if (is_read[i] && memcmp(made[i], columns[i], bytes) != 0)
			check_find(c,
				"run %llu, stripe %u: column %u on disk %u at byte %llu is not the parity of its data",
				LLU(r->id), stripe, i, r->column[i].disk,
				LLU(column_unit(r, stripe, i) * POOL_UNIT_BYTES));
}

/* Neighbouring stripes that are in use, so that each column is one read. */
static void chunk_check(
	struct check *c, struct stripe_check *s, const struct check_run *r, uint32_t first, uint32_t count)
{
	struct disk_request requests[POOL_WIDTH_MAX];
	unsigned disks[POOL_WIDTH_MAX] = {0}, asked = 0;
	bool is_read[POOL_WIDTH_MAX] = {false};

	for (unsigned i = 0; i < (unsigned)r->k + r->p; i++) {
		if (!column_is_there(c, r, i))
			continue;
		disk_request_init(&requests[asked], DISK_READ, column_unit(r, first, i) * POOL_UNIT_BYTES,
			s->bytes + (size_t)i * CHUNK_BYTES, (uint64_t)count * class_bytes[r->class]);
		requests[asked].owner = &is_read[i];
		disks[asked++] = r->column[i].disk;
	}
	read_all(c, requests, disks, asked);
	for (unsigned i = 0; i < asked; i++) {
		*(bool *)requests[i].owner = requests[i].status == 0;
		if (requests[i].status)
			check_find(c, "run %llu, stripes %u to %u: %llu bytes of disk %u at byte %llu cannot be read",
				LLU(r->id), first, first + count - 1, LLU(requests[i].length_bytes), disks[i],
				LLU(requests[i].offset_bytes));
	}
	for (uint32_t i = 0; i < count && c->rc == 0; i++)
		stripe_check(c, s, r, first + i, i, is_read);
}

void check_stripes(struct check *c)
{
	struct stripe_check *s = calloc(1, sizeof *s);

	if (!s || posix_memalign((void **)&s->bytes, DISK_BUFFER_ALIGN, (size_t)POOL_WIDTH_MAX * CHUNK_BYTES) != 0 ||
		posix_memalign((void **)&s->parity, DISK_BUFFER_ALIGN,
			(size_t)POOL_PARITY_MAX * class_bytes[CLASS_COUNT - 1]) != 0)
		check_no_memory(c);
	for (size_t i = 0; i < c->run_count && c->rc == 0; i++) {
		const struct check_run *r = &c->runs[i];
		uint32_t most = max_of(CHUNK_BYTES / class_bytes[r->class], 1u), end;

		for (uint32_t first = 0; first < r->stripes && c->rc == 0; first = end) {
			for (end = first; end < r->stripes && end - first < most && !set_has(r->returned, end);)
				end++;
			if (end > first)
				chunk_check(c, s, r, first, end - first);
			end = max_of(end, first + 1);
		}
	}
	if (s) {
		free(s->bytes);
		free(s->parity);
	}
	free(s);
}
