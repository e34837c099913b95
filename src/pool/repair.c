/*
 * repair: columns that are not as they should be are made anew, in a new place.
 *
 * Whoever meets a wrong column (a read, a write that failed, scrub) queues it: a mask in its run, the run's id in a
 * list. The keeper's thread, or scrub, works the list off, run by run:
 *
 *     1  the run is closed, room for its whole column is taken elsewhere        with the lock
 *     2  its stripes are read, checked, recovered, the column is written        without
 *     3  the descriptor points to the new place, version + 1, LOG_REPAIRED      with the lock
 *
 * Readers go on all the while: the old place stays as it is until its quarantine ends. A column of a disk that is away
 * is left alone (POOL-7): it is made good when the disk is back. Where a stripe is beyond recovery its bytes are moved
 * as they are.
 *
 * When a pool is so full that no place for a whole column is left, not even after checkpoints, scrub writes the right
 * bytes over those of its columns that by their sums hold wrong ones: they protect nothing as they are, and a write
 * that is torn leaves them no worse. Nothing else is ever written in place.
 */
#include <string.h>

#include "stripe.h"

#define CHUNK_BYTES (16u << 20)
#define TRIES_MAX 3u

struct waiting_run {
	uint64_t run;
	unsigned tries;
};

struct repairs {
	struct os_cond idle;
	struct waiting_run *queue;
	size_t count, room;
	bool busy;
};

void repair_queue(struct pool *p, uint64_t run, unsigned column)
{
	struct repairs *q = p->space->repairs;
	struct run *r = run_find(p, run);

	if (!q || !r || column >= r->k + r->p || p->read_only)
		return;
	if (r->repair) {
		r->repair |= 1u << column;
		return;
	}
	if (q->count == q->room) {
		size_t room = max_of(q->room * 2, (size_t)64);
		struct waiting_run *larger = realloc(q->queue, room * sizeof *larger);

		if (!larger)
			return; /* the next reader, or scrub, finds it again */
		q->queue = larger;
		q->room = room;
	}
	r->repair = 1u << column;
	q->queue[q->count++] = (struct waiting_run){.run = run};
	keeper_wake(p);
}

void disk_answered_badly(struct pool *p, unsigned disk, enum disk_wrong what, int status, const char *why)
{
	static const char *const names[] = {"a read failed", "a write failed", "read back with other bytes"};
	struct pool_disk *d = &p->disks[disk];

	if (disk >= p->disk_count)
		return;
	os_mutex_lock(&p->lock);
	if (what == WRONG_READ)
		d->read_errors++;
	else if (what == WRONG_WRITE)
		d->write_errors++;
	else
		d->checksum_errors++;
	bool gone = status == ERR_GONE && d->state == PD_ONLINE;
	os_mutex_unlock(&p->lock);
	if (gone)
		disk_fault(p, disk, "it is gone");
	else if (status != ERR_GONE)
		pool_event(p, "%s: %s: %s%s%s%s", d->disk ? disk_traits(d->disk)->name : "disk", names[what],
			error_sentence(status), why ? " (" : "", why ? why : "", why ? ")" : "");
}

/* --- flush -------------------------------------------------------------------------------------------------------- */

static bool beyond_redundancy(const struct pool *p)
{
	for (unsigned g = 0; g < p->group_count; g++) {
		unsigned out = 0;

		for (unsigned i = 0; i < p->groups[g].disk_count; i++)
			out += p->disks[p->groups[g].disks[i]].state != PD_ONLINE;
		if (out > p->groups[g].parity)
			return true;
	}
	return false;
}

int disks_flush(struct pool *p, struct error *err)
{
	struct disk_request requests[POOL_DISKS_MAX], *r, *list = requests;
	struct disk_queue *q = disk_queue_of_thread(err);
	struct error first = ERROR_INIT;

	if (!q)
		return ERR_MEMORY;
	os_mutex_lock(&p->lock);
	for (unsigned i = 0; i < p->disk_count; i++) {
		struct pool_disk *d = &p->disks[i];

		list[i].owner = NULL;
		if (!d->unflushed || !d->disk || d->state != PD_ONLINE)
			continue;
		d->unflushed = false;
		disk_request_init(&list[i], DISK_FLUSH, 0, NULL, 0);
		list[i].owner = d;
	}
	os_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->disk_count; i++)
		if (list[i].owner)
			disk_queue_submit(q, p->disks[i].disk, &list[i]);
	while ((r = disk_queue_reap(q, UINT64_MAX)))
		if (r->status)
			disk_request_error(r, &first);
	for (unsigned i = 0; i < p->disk_count; i++)
		if (list[i].owner && list[i].status && !pool_breaks(p, 5))
			disk_fault(p, i, "a flush failed");
	if (!first.code || pool_breaks(p, 5))
		return 0;
	os_mutex_lock(&p->lock);
	bool beyond = beyond_redundancy(p);
	os_mutex_unlock(&p->lock);
	return beyond ? error_set(err, ERR_IO, "%s", first.text) : 0;
}

/* --- one run ------------------------------------------------------------------------------------------------------ */

struct mending {
	struct pool *p;
	struct run *run; /* held */
	struct run_shape shape;
	uint32_t stripes;
	uint32_t mask;     /* columns */
	uint32_t in_place; /* of these */
	struct disk_address to[POOL_WIDTH_MAX];
	uint64_t returned[RUN_STRIPES_MAX / 64];
	unsigned lost;
};

/* 1: which columns, and room for them. Returns ERR_BUSY when it must wait. With p->lock held. */
static int mending_begin(struct mending *m, struct pool *p, struct run *r, bool may_in_place, struct error *err)
{
	*m = (struct mending){.p = p, .run = r};
	if (r->is_open)
		run_close(p, r);
	if (r->unlogged)
		return ERR_BUSY;
	m->stripes = r->stripes;
	memcpy(m->returned, r->returned, (r->stripes + 63) / 64 * 8);
	run_shape_of(p, r, &m->shape);
	for (unsigned c = 0; c < r->k + r->p; c++) {
		if (!(r->repair >> c & 1) || p->disks[r->column[c].disk].state != PD_ONLINE)
			continue;
		int rc = run_move_begin(p, r, c, &m->to[c], err);
		if (rc == ERR_SPACE && may_in_place) {
			m->to[c] = r->column[c];
			m->in_place |= 1u << c;
			rc = 0;
		}
		if (rc)
			return m->mask ? 0 : rc; /* one at a time then */
		m->mask |= 1u << c;
	}
	return 0;
}

/* Writes the columns of the loaded stripes first … first + n - 1, neighbours in one request. */
static int mending_write(struct mending *m, struct stripe_load *loads, uint32_t first, unsigned n, struct error *err)
{
	struct disk_queue *q = disk_queue_of_thread(err);
	struct disk_request requests[POOL_PARITY_MAX * 2 + POOL_WIDTH_MAX], *r;
	uint32_t bytes = class_bytes[m->shape.class];
	scoped_free struct iovec *iov = malloc((size_t)n * POOL_WIDTH_MAX * sizeof *iov);
	unsigned used = 0, count = 0;
	int rc = 0;

	if (!q || !iov)
		return error_set(err, ERR_MEMORY, "no memory to repair a run");
	for (unsigned c = 0; c < m->shape.k + m->shape.p; c++) {
		if (!((m->mask & ~m->in_place) >> c & 1))
			continue;
		for (unsigned i = 0; i < n; i++)
			iov[used + i] = (struct iovec){loads[i].column[c], bytes};
		disk_request_init_iov(&requests[count], DISK_WRITE,
			(m->to[c].unit + first * class_units(m->shape.class)) * POOL_UNIT_BYTES, iov + used, n);
		requests[count].owner = &m->to[c];
		disk_queue_submit(q, m->p->disks[m->to[c].disk].disk, &requests[count]);
		used += n;
		count++;
	}
	while ((r = disk_queue_reap(q, UINT64_MAX)))
		if (r->status)
			rc = disk_request_error(r, err);
	for (unsigned i = 0; i < count; i++)
		if (requests[i].status)
			disk_answered_badly(m->p, ((struct disk_address *)requests[i].owner)->disk, WRONG_WRITE,
				requests[i].status, requests[i].why);
	return rc;
}

/* Over columns that are wrong for certain. */
static int write_in_place(struct mending *m, const struct stripe_load *l, uint32_t wrong, struct error *err)
{
	int rc = 0;

	for (unsigned c = 0; c < m->shape.k + m->shape.p && !rc; c++) {
		struct disk_address at = shape_place(&m->shape, l->stripe, c);

		if (!((m->in_place & wrong) >> c & 1))
			continue;
		rc = disk_write(m->p->disks[at.disk].disk, at.unit * POOL_UNIT_BYTES, l->column[c],
			class_bytes[m->shape.class], err);
		if (rc)
			disk_answered_badly(m->p, at.disk, WRONG_WRITE, rc, NULL);
	}
	return rc;
}

/* Some neighbouring stripes, none of them returned: read, make whole, write. */
static int mend_stripes(struct mending *m, uint32_t first, unsigned n, struct error *err)
{
	struct stripe_load *loads = calloc(n, sizeof *loads), **list = malloc(n * sizeof *list);
	int rc = loads && list ? 0 : error_set(err, ERR_MEMORY, "no memory to repair a run");

	for (unsigned i = 0; i < n && !rc; i++) {
		rc = stripe_load_open(&loads[i], &m->shape, first + i, err);
		list[i] = &loads[i];
	}
	if (!rc)
		stripe_loads_read(m->p, list, n);
	for (unsigned i = 0; i < n && !rc; i++) {
		struct stripe_load *l = &loads[i];
		struct error why = ERROR_INIT;
		uint32_t wrong = 0;

		for (unsigned c = 0; c < m->shape.k + m->shape.p; c++) {
			wrong |= (uint32_t)(l->has_sums && l->bad[c] && !l->skip[c]) << c;
			if (!l->has_sums && m->mask >> c & 1)
				l->bad[c] = true;
			if (l->bad[c] && l->read[c].status)
				memset(l->column[c], 0, class_bytes[m->shape.class]);
		}
		if (stripe_load_recover(m->p, l, &why)) {
			m->lost++;
			pool_event(m->p, "lost: %s", why.text);
		} else {
			rc = write_in_place(m, l, wrong, err);
		}
	}
	if (!rc)
		rc = mending_write(m, loads, first, n, err);
	for (unsigned i = 0; loads && i < n; i++)
		stripe_load_close(&loads[i]);
	free(loads);
	free(list);
	return rc;
}

static int mend_all(struct mending *m, struct error *err)
{
	uint64_t each = (uint64_t)class_bytes[m->shape.class] * (m->shape.k + m->shape.p);
	unsigned most = (unsigned)min_of(max_of(CHUNK_BYTES / each, (uint64_t)1), (uint64_t)REQUEST_IOV_MAX);
	int rc = 0;

	for (uint32_t s = 0, n; s < m->stripes && !rc; s += n) {
		n = 1;
		if (bit_get(m->returned, s))
			continue;
		while (s + n < m->stripes && n < most && !bit_get(m->returned, s + n))
			n++;
		rc = mend_stripes(m, s, n, err);
	}
	return rc;
}

/* 3: the switch. With p->lock held. */
static int mending_end(struct mending *m, struct error *err)
{
	struct pool *p = m->p;
	struct run *r = m->run;
	struct disk_address from[POOL_WIDTH_MAX];
	uint8_t states[POOL_WIDTH_MAX], payload[RUN_HEAD_BYTES_MAX];
	struct transaction *t = transaction_enter(p);

	memcpy(from, r->column, sizeof from);
	memcpy(states, r->column_state, sizeof states);
	for (unsigned c = 0; c < r->k + r->p; c++)
		if (m->mask >> c & 1) {
			r->column[c] = m->to[c];
			r->column_state[c] = 0;
		}
	r->version++;
	int rc = transaction_append(p, t, LOG_REPAIRED, payload, (uint32_t)run_repaired_pack(r, payload), err);
	transaction_leave(p, t);
	memcpy(r->column, from, sizeof from);
	if (rc) {
		memcpy(r->column_state, states, sizeof states);
		r->version--;
		return rc;
	}
	for (unsigned c = 0; c < r->k + r->p; c++)
		if (m->mask >> c & 1) {
			if (!(m->in_place >> c & 1))
				run_move(p, r, c, &m->to[c]);
			p->disks[m->to[c].disk].unflushed = true;
			p->counters.repaired++;
		}
	r->birth_last = max_of(r->birth_last, t->commit);
	r->dirty = true;
	commit_due(p);
	return 0;
}

/* Repairs what r->repair says. ERR_BUSY: not now. *ret_lost: stripes that could not be made whole. */
static int mend(struct pool *p, uint64_t id, bool may_in_place, unsigned *ret_lost, struct error *err)
{
	struct mending m;
	unsigned count = 0;

	os_mutex_lock(&p->lock);
	struct run *r = run_find(p, id);
	if (!r || r->over_tag) {
		if (r)
			r->repair = 0;
		os_mutex_unlock(&p->lock);
		return 0;
	}
	int rc = mending_begin(&m, p, r, may_in_place, err);
	if (rc || !m.mask) {
		if (!rc)
			r->repair = 0; /* its disks are away: scrub, when they are back */
		os_mutex_unlock(&p->lock);
		return rc;
	}
	r->held++;
	os_mutex_unlock(&p->lock);
	rc = mend_all(&m, err);
	os_mutex_lock(&p->lock);
	r->held--;
	if (!rc)
		rc = mending_end(&m, err);
	for (unsigned c = 0; c < m.shape.k + m.shape.p; c++) {
		if (!(m.mask >> c & 1))
			continue;
		count++;
		if (rc && !(m.in_place >> c & 1))
			run_move_cancel(p, r, m.stripes, &m.to[c]);
	}
	if (!rc)
		r->repair &= ~m.mask;
	p->counters.unrecoverable += rc ? 0 : m.lost;
	bool more = !rc && r->repair;
	os_mutex_unlock(&p->lock);
	*ret_lost += m.lost;
	if (!rc)
		pool_event(p, "run %llu: %u of %u columns made anew", (unsigned long long)id, count,
			m.shape.k + m.shape.p);
	return more ? mend(p, id, may_in_place, ret_lost, err) : rc;
}

/* --- the queue ---------------------------------------------------------------------------------------------------- */

static void busy_begin(struct pool *p)
{
	struct repairs *q = p->space->repairs;

	while (q->busy)
		os_cond_wait(&q->idle, &p->lock);
	q->busy = true;
}

static void busy_end(struct pool *p)
{
	p->space->repairs->busy = false;
	os_cond_broadcast(&p->space->repairs->idle);
}

int repair_run_now(struct pool *p, uint64_t run, bool may_in_place, unsigned *ret_lost, struct error *err)
{
	os_mutex_lock(&p->lock);
	busy_begin(p);
	os_mutex_unlock(&p->lock);
	int rc = mend(p, run, may_in_place, ret_lost, err);
	os_mutex_lock(&p->lock);
	busy_end(p);
	os_mutex_unlock(&p->lock);
	return rc;
}

int repairs_run(struct pool *p, struct error *err)
{
	struct repairs *q = p->space->repairs;
	size_t kept = 0;
	int worst = 0;

	os_mutex_lock(&p->lock);
	busy_begin(p);
	while (kept < q->count) {
		struct waiting_run w = q->queue[kept];
		struct error why = ERROR_INIT;
		unsigned lost = 0;

		os_mutex_unlock(&p->lock);
		/* Without room for it elsewhere what is wrong for certain is written over in the end. */
		int rc = mend(p, w.run, w.tries + 1 >= TRIES_MAX, &lost, &why);
		os_mutex_lock(&p->lock);
		if (rc == ERR_BUSY || (rc && ++q->queue[kept].tries < TRIES_MAX)) {
			kept++;
			worst = worst ? worst : rc == ERR_BUSY ? rc : error_set(err, rc, "%s", why.text);
			continue;
		}
		struct run *r = run_find(p, w.run);
		if (rc && r)
			r->repair = 0; /* given up until somebody meets it again */
		memmove(q->queue + kept, q->queue + kept + 1, (q->count - kept - 1) * sizeof *q->queue);
		q->count--;
	}
	busy_end(p);
	os_mutex_unlock(&p->lock);
	return worst;
}

int repairs_open(struct pool *p, struct error *err)
{
	struct repairs *q = calloc(1, sizeof *q);

	if (!q)
		return error_set(err, ERR_MEMORY, "no memory for the queue of repairs");
	os_cond_init(&q->idle);
	p->space->repairs = q;
	return 0;
}

void repairs_close(struct pool *p)
{
	struct repairs *q = p->space ? p->space->repairs : NULL;

	if (!q)
		return;
	sp_assert(!q->busy);
	os_cond_destroy(&q->idle);
	free(q->queue);
	free(q);
	p->space->repairs = NULL;
}
