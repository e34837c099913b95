/*
 * stripe_write: records become stripes.
 *
 *   place    with the lock: columns for all records, class by class, in order
 *   make     workers seal each record, sum each column, make parity, stripe by stripe while it is in the CPU's cache
 *   write    one request a disk for the neighbouring columns of a piece of the batch, straight from the buffers of
 *            the records. The next piece is made while this one is on its way: disks and CPUs work at once
 *   judge    a stripe that lacks p columns or fewer stands, and leaves work for repair (POOL-6); one that lacks
 *            more is written again elsewhere
 *   log      with the lock: when all stand, the entries go into the transaction
 *
 *     records   0  1  2  3  4  5  6 | 7  8  9 10 11 12 13 | …           k = 7, p = 1
 *     disk 0    0  7 14 …  one request: buffers of records 0, 7, 14, …
 *     disk 7    P  P  P …  one request: the parity buffers
 *
 * A record shorter than its column is followed by zeros, in its own buffer as far as that reaches, from a page of zeros
 * beyond. A mirror needs no second buffer: its copies are written from the same one.
 */
#include <string.h>

#include "stripe.h"

#define TRIES 3
#define MAKE_BYTES (256u << 10)     /* of data, at least, for one call of a worker */
#define PIECE_DISK_BYTES (1u << 20) /* of a piece, for each disk */
#define PIECE_BYTES_MIN (4u << 20)
#define PIECE_BYTES_MAX (32u << 20)

const uint8_t stripe_zeros[FILLER_BYTES] __attribute__((aligned(DISK_BUFFER_ALIGN)));

struct made_stripe {
	struct run *run;
	uint32_t stripe;
	uint32_t failed; /* a bit a column */
	unsigned first;  /* its k records in job->order */
	uint8_t *parity; /* NULL for a mirror */
	uint32_t *sums;
	uint8_t *scratch; /* SUM_BYTES, when its column is larger than its records' class */
	bool dropped;     /* given up, or in the transaction: not the job's to undo */
};

struct write_request {
	struct disk_request request;
	unsigned disk, column, first, count; /* of job->stripes */
	struct iovec *iov;
};

struct block { /* memory that lives as long as the job */
	struct block *next;
};

struct job {
	struct pool *p;
	struct transaction *t;
	struct stored_record **records;
	unsigned *order; /* records by class; a later try appends what is to be placed again */
	unsigned order_count;
	struct made_stripe *stripes;
	unsigned stripe_count, stripe_room;
	struct block *blocks;
	bool reserve;
	struct write_request **requests;
	unsigned request_count, request_room;
	unsigned make_first, make_end, make_each; /* for the workers */
};

static void *job_memory(struct job *j, size_t bytes, size_t align, struct error *err)
{
	size_t head = round_up_u64(sizeof(struct block), align);
	struct block *b = aligned_alloc(align, round_up_u64(head + bytes, align));

	if (!b) {
		error_set(err, ERR_MEMORY, "no memory for %zu bytes of a write", bytes);
		return NULL;
	}
	b->next = j->blocks;
	j->blocks = b;
	return (uint8_t *)b + head;
}

static void job_free(struct job *j)
{
	for (struct block *b = j->blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	free(j->stripes);
	free(j->requests);
}

/* --- place -------------------------------------------------------------------------------------------------------- */

static int stripes_add(struct job *j, const struct allotment *a, unsigned first_record, struct error *err)
{
	unsigned k = a->run->k, parity = a->run->p, each_sums = (k + parity) * sums_per_column(a->run->class);
	uint32_t *sums;

	if (j->stripe_count + a->count > j->stripe_room) {
		unsigned room = max_of(j->stripe_room * 2, j->stripe_count + a->count);
		struct made_stripe *larger = realloc(j->stripes, room * sizeof *larger);

		if (!larger)
			return error_set(err, ERR_MEMORY, "no memory for %u stripes", room);
		j->stripes = larger;
		j->stripe_room = room;
	}
	sums = job_memory(j, (size_t)a->count * each_sums * sizeof *sums, 16, err);
	if (!sums)
		return ERR_MEMORY;
	for (uint32_t i = 0; i < a->count; i++) {
		struct made_stripe *s = &j->stripes[j->stripe_count++];

		*s = (struct made_stripe){.run = a->run,
			.stripe = a->first + i,
			.first = first_record + i * k,
			.sums = sums + i * each_sums};
		for (unsigned c = 0; c < k + parity; c++)
			s->failed |= (uint32_t)(a->run->column_state[c] != 0) << c; /* its disk is away */
	}
	return 0;
}

static void drop_from(struct job *j, unsigned first)
{
	for (unsigned i = j->stripe_count; i-- > first;) /* backwards: an open run takes its last ones back */
		if (!j->stripes[i].dropped)
			stripes_drop(j->p, j->stripes[i].run, j->stripes[i].stripe, 1);
	j->stripe_count = first;
}

/* Its class, or when no zone of it and no free zone is left, a larger one: the rest of the column is zero. A record was
 * promised room of its size before compression: when free zones are few, only columns of that size open one, so that
 * promises are kept. */
static int allot(struct job *j, unsigned class, unsigned left, uint32_t logical_bytes, bool apart,
	struct allotment *ret, struct error *err)
{
	enum zone_use use = j->reserve ? ZONES_ALL : ZONES_AVAILABLE;
	unsigned promised = space_is_tight(j->p) ? max_of(class, class_of(logical_bytes)) : class;
	struct error first = ERROR_INIT;
	int rc = ERR_SPACE;

	for (unsigned round = 0; round < 2 && rc == ERR_SPACE; round++) {
		for (unsigned c = class; c < CLASS_COUNT && rc == ERR_SPACE; c++)
			rc = space_allot(j->p, j->t->commit, c, left, UINT32_MAX, c < promised ? ZONES_NONE : use,
				apart, ret, &first);
		if (rc == ERR_SPACE)
			space_close_runs(j->p); /* what open runs keep for themselves */
	}
	return rc ? error_set(err, rc, "%s", first.text) : 0;
}

static uint32_t logical_most(const struct job *j, unsigned first, unsigned end)
{
	uint32_t most = 0;

	for (unsigned i = first; i < end; i++)
		most = max_of(most, j->records[j->order[i]]->bp.logical_bytes);
	return most;
}

/* Places order[first …]. All or none. With p->lock held. */
static int place(struct job *j, unsigned first, bool apart, struct error *err)
{
	unsigned stripes_before = j->stripe_count;

	for (unsigned at = first; at < j->order_count;) {
		unsigned class = j->records[j->order[at]]->class, end = at;

		while (end < j->order_count && j->records[j->order[end]]->class == class)
			end++;
		uint32_t logical = logical_most(j, at, end);
		while (at < end) {
			struct allotment a;
			int rc = allot(j, class, end - at, logical, apart, &a, err);

			if (!rc) {
				rc = stripes_add(j, &a, at, err);
				if (rc)
					stripes_drop(j->p, a.run, a.first, a.count);
			}
			if (rc) {
				drop_from(j, stripes_before);
				return rc;
			}
			at += a.count * a.run->k;
		}
	}
	return 0;
}

/* --- make --------------------------------------------------------------------------------------------------------- */

void column_sums(const uint8_t *data, uint32_t bytes, uint32_t *ret)
{
	for (uint32_t at = 0; at < bytes; at += SUM_BYTES)
		*ret++ = checksum_crc32c(data + at, min_of(bytes - at, SUM_BYTES));
	os_charge(OS_STAGE_CHECKSUM, bytes);
}

/* Of a column whose bytes from `own` on are zeros that are nowhere. */
static void column_sums_extended(const uint8_t *data, uint32_t own, uint32_t bytes, uint8_t *scratch, uint32_t *ret)
{
	for (uint32_t at = 0; at < bytes; at += SUM_BYTES) {
		uint32_t step = min_of(bytes - at, SUM_BYTES), here = at < own ? min_of(step, own - at) : 0;

		memset(scratch, 0, step);
		memcpy(scratch, data + (here ? at : 0), here);
		column_sums(scratch, step, ret++);
	}
}

/* What lies behind a record in its column, as far as its own class goes, becomes zero; what lies beyond that is not in
 * memory. */
static void seal_record(struct job *j, const struct made_stripe *s, unsigned column)
{
	struct stored_record *r = j->records[j->order[s->first + column]];

	r->bp.run = s->run->id;
	r->bp.stripe = s->stripe;
	r->bp.column = (uint8_t)column;
	r->bp.hint = run_place(s->run, s->stripe, column);
	memset((uint8_t *)r->data + r->bp.physical_bytes, 0, class_bytes[r->class] - r->bp.physical_bytes);
	bp_seal(j->p, &r->bp, r->data);
}

/* The bytes of data column c at `at`, up to `bytes` of them, which may be zeros that are nowhere. */
static const uint8_t *column_bytes(const struct job *j, const struct made_stripe *s, unsigned column, uint32_t at)
{
	const struct stored_record *r = j->records[j->order[s->first + column]];

	return at < class_bytes[r->class] ? (const uint8_t *)r->data + at : stripe_zeros;
}

/* In pieces that all lie within or all beyond the records, and have sums of their own: 64 KiB, or what is left up to an
 * end. */
static uint32_t step_at(const struct job *j, const struct made_stripe *s, uint32_t at)
{
	uint32_t own = class_bytes[j->records[j->order[s->first]]->class], bytes = class_bytes[s->run->class];
	uint32_t step = min_of(bytes - at, SUM_BYTES - at % SUM_BYTES);

	return at < own ? min_of(step, own - at) : step;
}

static void make_stripe(struct job *j, struct made_stripe *s)
{
	const struct run *r = s->run;
	unsigned k = r->k, parity = r->p, per_column = sums_per_column(r->class);
	uint32_t bytes = class_bytes[r->class], own = class_bytes[j->records[j->order[s->first]]->class];
	void *at[POOL_WIDTH_MAX];

	for (unsigned c = 0; c < k; c++)
		seal_record(j, s, c);
	for (uint32_t offset = 0, step; s->parity && offset < bytes; offset += step) {
		step = step_at(j, s, offset);
		for (unsigned c = 0; c < k; c++)
			at[c] = (void *)column_bytes(j, s, c, offset);
		for (unsigned c = 0; c < parity; c++)
			at[k + c] = s->parity + (size_t)c * bytes + offset;
		parity_generate(k, parity, step, at);
	}
	if (s->parity)
		charge_parity(parity, (uint64_t)k * bytes);
	for (unsigned c = 0; c < k + parity; c++) {
		uint32_t *sums = s->sums + c * per_column;

		if (c >= k && !s->parity)
			memcpy(sums, s->sums, per_column * sizeof *sums);
		else if (c >= k)
			column_sums(s->parity + (size_t)(c - k) * bytes, bytes, sums);
		else if (own == bytes)
			column_sums(column_bytes(j, s, c, 0), bytes, sums);
		else
			column_sums_extended(column_bytes(j, s, c, 0), own, bytes, s->scratch, sums);
	}
}

static void make_some(void *arg, unsigned index)
{
	struct job *j = arg;
	unsigned from = j->make_first + index * j->make_each, end = min_of(from + j->make_each, j->make_end);

	for (unsigned i = from; i < end; i++)
		make_stripe(j, &j->stripes[i]);
}

static int make(struct job *j, unsigned first, unsigned end, struct error *err)
{
	size_t parity_bytes = 0, data_bytes = 0;
	uint8_t *parity = NULL;

	for (unsigned i = first; i < end; i++) {
		const struct run *r = j->stripes[i].run;

		data_bytes += (size_t)r->k * class_bytes[r->class];
		if (r->k > 1)
			parity_bytes += (size_t)r->p * class_bytes[r->class];
	}
	if (parity_bytes) {
		parity = job_memory(j, parity_bytes, DISK_BUFFER_ALIGN, err);
		if (!parity)
			return ERR_MEMORY;
	}
	for (unsigned i = first; i < end; i++) {
		const struct run *r = j->stripes[i].run;

		if (j->records[j->order[j->stripes[i].first]]->class != r->class) {
			j->stripes[i].scratch = job_memory(j, SUM_BYTES, 64, err);
			if (!j->stripes[i].scratch)
				return ERR_MEMORY;
		}
		if (r->k == 1 || r->p == 0)
			continue;
		j->stripes[i].parity = parity;
		parity += (size_t)r->p * class_bytes[r->class];
	}
	j->make_first = first;
	j->make_end = end;
	j->make_each = (unsigned)max_of((uint64_t)MAKE_BYTES * (end - first) / data_bytes, (uint64_t)1);
	unsigned calls = (end - first + j->make_each - 1) / j->make_each;
	if (calls > 1 && j->p->workers)
		workers_run(j->p->workers, calls, make_some, j);
	else
		for (unsigned i = 0; i < calls; i++)
			make_some(j, i);
	return 0;
}

/* --- write -------------------------------------------------------------------------------------------------------- */

static unsigned column_iov_max(unsigned class)
{
	return 1 + (class_bytes[class] + FILLER_BYTES - 1) / FILLER_BYTES;
}

/* Buffers of one column of one stripe. Returns how many. */
static unsigned column_iov(const struct job *j, const struct made_stripe *s, unsigned column, struct iovec *iov)
{
	uint32_t bytes = class_bytes[s->run->class], own = bytes;
	unsigned n = 0;

	if (column >= s->run->k && s->parity) {
		iov[n++] = (struct iovec){s->parity + (size_t)(column - s->run->k) * bytes, bytes};
		return n;
	}
	const struct stored_record *r = j->records[j->order[s->first + (column < s->run->k ? column : 0)]];
	own = class_bytes[r->class];
	iov[n++] = (struct iovec){r->data, own};
	for (uint32_t rest; own < bytes; own += rest) {
		rest = min_of(bytes - own, FILLER_BYTES);
		iov[n++] = (struct iovec){(void *)stripe_zeros, rest};
	}
	return n;
}

static int request_add(struct job *j, struct write_request *w, struct error *err)
{
	if (j->request_count == j->request_room) {
		unsigned room = max_of(j->request_room * 2, 64u);
		struct write_request **larger = realloc(j->requests, room * sizeof *larger);

		if (!larger)
			return error_set(err, ERR_MEMORY, "no memory for %u requests", room);
		j->requests = larger;
		j->request_room = room;
	}
	j->requests[j->request_count++] = w;
	return 0;
}

/* One request for a column of neighbouring stripes. */
static int column_submit(
	struct job *j, struct disk_queue *q, unsigned first, unsigned count, unsigned column, struct error *err)
{
	const struct made_stripe *s = &j->stripes[first];
	struct disk_address a = run_place(s->run, s->stripe, column);
	struct pool_disk *d = &j->p->disks[a.disk];
	unsigned each = column_iov_max(s->run->class), n = 0;

	if (s->failed >> column & 1)
		return 0;
	if (!d->disk || d->state != PD_ONLINE) { /* it went since the stripe was placed */
		for (unsigned i = 0; i < count; i++)
			j->stripes[first + i].failed |= 1u << column;
		return 0;
	}
	struct write_request *w = job_memory(j, sizeof *w + (size_t)count * each * sizeof(struct iovec), 64, err);
	if (!w)
		return ERR_MEMORY;
	*w = (struct write_request){.disk = a.disk, .column = column, .first = first, .count = count};
	w->iov = (struct iovec *)(w + 1);
	for (unsigned i = 0; i < count; i++)
		n += column_iov(j, s + i, column, w->iov + n);
	disk_request_init_iov(&w->request, DISK_WRITE, a.unit * POOL_UNIT_BYTES, w->iov, n);
	w->request.owner = w;
	int rc = request_add(j, w, err);
	if (rc)
		return rc;
	disk_queue_submit(q, d->disk, &w->request);
	return 0;
}

static unsigned stripes_in_row(const struct job *j, unsigned first, unsigned end)
{
	const struct made_stripe *s = &j->stripes[first];
	uint32_t bytes = class_bytes[s->run->class], own = class_bytes[j->records[j->order[s->first]]->class];
	unsigned buffers = own == bytes ? 1 : column_iov_max(s->run->class), n = 1;
	unsigned most = min_of(REQUEST_IOV_MAX / buffers, max_of(REQUEST_BYTES_MAX / bytes, 1u));

	most = max_of(most, 1u);
	while (first + n < end && n < most && s[n].run == s->run && s[n].stripe == s->stripe + n &&
		s[n].failed == s->failed)
		n++;
	return n;
}

/* Stripes of several groups alternate: those of one run are gathered before they are cut into requests. */
static int order_by_run(const void *a, const void *b)
{
	const struct made_stripe *x = a, *y = b;

	if (x->run != y->run)
		return x->run->id < y->run->id ? -1 : 1;
	return x->stripe < y->stripe ? -1 : 1;
}

static int piece_submit(struct job *j, struct disk_queue *q, unsigned first, unsigned end, struct error *err)
{
	if (j->p->group_count > 1)
		qsort(j->stripes + first, end - first, sizeof *j->stripes, order_by_run);
	for (unsigned at = first; at < end;) {
		unsigned n = stripes_in_row(j, at, end);

		for (unsigned c = 0; c < j->stripes[at].run->k + j->stripes[at].run->p; c++) {
			int rc = column_submit(j, q, at, n, c, err);
			if (rc)
				return rc;
		}
		at += n;
	}
	disk_queue_kick(q);
	return 0;
}

static void reap(struct job *j, struct disk_queue *q)
{
	struct disk_request *r;

	while ((r = disk_queue_reap(q, UINT64_MAX))) {
		struct write_request *w = r->owner;

		for (unsigned i = 0; r->status && i < w->count; i++)
			j->stripes[w->first + i].failed |= 1u << w->column;
	}
}

static unsigned piece_end(const struct job *j, unsigned first, uint64_t piece_bytes)
{
	uint64_t bytes = 0;
	unsigned at = first;

	while (at < j->stripe_count && bytes < piece_bytes) {
		bytes += (uint64_t)j->stripes[at].run->k * class_bytes[j->stripes[at].run->class];
		at++;
	}
	return at;
}

static int write_from(struct job *j, unsigned first, struct error *err)
{
	struct disk_queue *q = disk_queue_of_thread(err);
	uint64_t piece_bytes = min_of(max_of((uint64_t)PIECE_DISK_BYTES * j->p->disk_count, (uint64_t)PIECE_BYTES_MIN),
		(uint64_t)PIECE_BYTES_MAX);
	unsigned requests_before = j->request_count;
	int rc = q ? 0 : ERR_MEMORY;

	for (unsigned at = first, end; at < j->stripe_count && !rc; at = end) {
		end = piece_end(j, at, piece_bytes);
		rc = make(j, at, end, err);
		if (!rc)
			rc = piece_submit(j, q, at, end, err);
	}
	if (q)
		reap(j, q);
	for (unsigned i = requests_before; i < j->request_count; i++) {
		const struct write_request *w = j->requests[i];

		if (w->request.status)
			disk_answered_badly(j->p, w->disk, WRONG_WRITE, w->request.status, w->request.why);
	}
	return rc;
}

/* --- judge and log ------------------------------------------------------------------------------------------------ */

/* Gathers the records of stripes that lack more than they can into order[], to be placed again. */
static unsigned judge(struct job *j, unsigned first)
{
	unsigned end = j->stripe_count, again = 0;

	for (unsigned i = first; i < end; i++) {
		struct made_stripe *s = &j->stripes[i];
		unsigned k = s->run->k;

		if ((unsigned)__builtin_popcount(s->failed) <= s->run->p)
			continue;
		for (unsigned c = 0; c < k; c++)
			j->order[j->order_count + again++] = j->order[s->first + c];
		stripes_drop(j->p, s->run, s->stripe, 1);
		s->dropped = true;
	}
	j->order_count += again;
	return again;
}

/* What failed within redundancy: the column is marked, the run ends, the repair waits. */
static void mark_failed(struct pool *p, struct made_stripe *s)
{
	struct run *r = s->run;

	if (pool_breaks(p, 6))
		return;
	for (unsigned c = 0; c < r->k + r->p; c++) {
		if (!(s->failed >> c & 1) || r->column_state[c])
			continue;
		r->column_state[c] = 1;
		repair_queue(p, r->id, c);
		if (r->is_open)
			run_close(p, r);
	}
}

static int log_row(struct job *j, unsigned first, unsigned count, struct error *err)
{
	struct made_stripe *s = &j->stripes[first];
	struct run *r = s->run;
	size_t each = (size_t)(r->k + r->p) * sums_per_column(r->class);
	scoped_free uint32_t *sums = malloc(count * each * sizeof *sums);
	scoped_free uint8_t *entry = malloc(run_log_bytes(r, count));

	if (!sums || !entry)
		return error_set(err, ERR_MEMORY, "no memory for the log entry of %u stripes", count);
	for (unsigned i = 0; i < count; i++)
		memcpy(sums + i * each, s[i].sums, each * sizeof *sums);
	int rc = transaction_append(
		j->p, j->t, LOG_RUN, entry, (uint32_t)run_log_pack(r, s->stripe, count, sums, entry), err);
	if (!rc)
		rc = stripes_keep(j->p, r, s->stripe, count, sums, err);
	for (unsigned i = 0; i < count && !rc; i++)
		s[i].dropped = true; /* not the job's any more */
	return rc;
}

static int log_all(struct job *j, struct error *err)
{
	struct pool *p = j->p;

	for (unsigned i = 0; i < j->stripe_count; i++)
		if (!j->stripes[i].dropped && j->stripes[i].failed)
			mark_failed(p, &j->stripes[i]);
	for (unsigned at = 0, n; at < j->stripe_count; at += n) {
		const struct made_stripe *s = &j->stripes[at];

		n = 1;
		if (s->dropped)
			continue;
		size_t each = (size_t)(s->run->k + s->run->p) * sums_per_column(s->run->class) * 4;
		while (at + n < j->stripe_count && s[n].run == s->run && s[n].stripe == s->stripe + n &&
			!s[n].dropped && (n + 1) * each < LOG_RECORD_BYTES_MAX / 4)
			n++;
		uint64_t bytes = (uint64_t)n * class_bytes[s->run->class];
		unsigned k = s->run->k, parity = s->run->p;
		int rc = log_row(j, at, n, err);
		if (rc)
			return rc;
		p->counters.data_bytes += k * bytes;
		p->counters.parity_bytes += parity * bytes;
	}
	for (unsigned i = 0; i < j->request_count; i++)
		p->disks[j->requests[i]->disk].unflushed = true;
	return 0;
}

/* Records by class, each class in the order in which they came. */
static void order_by_class(struct job *j, unsigned count)
{
	for (unsigned class = 0; class < CLASS_COUNT; class ++)
		for (unsigned i = 0; i < count; i++)
			if (j->records[i]->class == class)
				j->order[j->order_count++] = i;
	sp_assert(j->order_count == count);
}

int stripes_write(struct pool *p, struct transaction *t, struct stored_record **records, unsigned count, bool reserve,
	struct error *err)
{
	struct job j = {.p = p, .t = t, .records = records, .reserve = reserve};
	unsigned first_record = 0, again = count;
	int rc = 0;

	if (count == 0)
		return 0;
	j.order = job_memory(&j, (size_t)count * TRIES * 2 * sizeof *j.order, 16, err);
	if (!j.order)
		return ERR_MEMORY;
	order_by_class(&j, count);
	for (unsigned try = 0; again && !rc; try++) {
		unsigned first_stripe = j.stripe_count;

		if (try == TRIES) {
			rc = error_set(err, ERR_IO, "%u records could not be written with enough redundancy, %u times",
				again, TRIES);
			break;
		}
		os_mutex_lock(&p->lock);
		rc = place(&j, first_record, try > 0, err);
		os_mutex_unlock(&p->lock);
		if (!rc)
			rc = write_from(&j, first_stripe, err);
		if (rc)
			break;
		first_record = j.order_count;
		os_mutex_lock(&p->lock);
		again = judge(&j, first_stripe);
		os_mutex_unlock(&p->lock);
	}
	os_mutex_lock(&p->lock);
	if (!rc)
		rc = log_all(&j, err);
	if (rc)
		drop_from(&j, 0);
	os_mutex_unlock(&p->lock);
	job_free(&j);
	return rc;
}
