/*
 * queue: where one thread hands requests over and gets them back.
 *
 * A request ends on whatever thread finishes it: the submitter (memory), the timekeeper (models, faults), a thread
 * of a file's pool. All of them put it into `done` under the lock. Requests that travel through this queue's
 * io_uring end on the owner's thread, while it looks into the ring. So a reap has three ways to wait:
 *
 *     all in the ring            one system call that submits what is staged and waits
 *     none in the ring           the condition
 *     some here, some there      the ring, in short steps, so that the list is seen in time
 *
 * The owner takes the whole list at once, so the lock is touched once for many requests. In the simulated world
 * nothing uses a ring.
 */
#include <stdio.h>

#include "internal.h"

#define KICKS_MAX 64
#define MIXED_STEP_NS 200000u

struct disk_queue {
	struct os_mutex lock;
	struct os_cond cond;
	struct list done; /* under lock */
	bool waiting;     /* under lock: the owner sleeps on cond */

	/* Of the owner alone. */
	struct list ready; /* taken from done */
	unsigned in_flight;
	struct disk__ring *ring;
	bool ring_refused;
	struct disk *kicks[KICKS_MAX];
	unsigned kick_count;
};

int disk_queue_open(struct disk_queue **ret_queue, struct error *err)
{
	struct disk_queue *q = calloc(1, sizeof *q);
	if (!q)
		return error_set(err, ERR_MEMORY, "out of memory for a queue of disk requests");
	os_mutex_init(&q->lock);
	os_cond_init(&q->cond);
	list_init(&q->done);
	list_init(&q->ready);
	*ret_queue = q;
	return 0;
}

void disk_queue_close(struct disk_queue *q)
{
	if (!q)
		return;
	sp_assert(q->in_flight == 0);
	disk__ring_close(q->ring);
	os_cond_destroy(&q->cond);
	os_mutex_destroy(&q->lock);
	free(q);
}

static void close_of_thread(void *value)
{
	disk_queue_close(value);
}

struct disk_queue *disk_queue_of_thread(struct error *err)
{
	static const struct os_local key = {.destroy = close_of_thread};
	struct disk_queue *q = os_local_get(&key);
	if (q)
		return q;
	if (disk_queue_open(&q, err) != 0)
		return NULL;
	if (os_local_set(&key, q, err) != 0) {
		disk_queue_close(q);
		return NULL;
	}
	return q;
}

struct disk__ring *disk__queue_ring(struct disk_queue *q)
{
	if (!q->ring && !q->ring_refused && !os_is_simulated()) {
		q->ring = disk__ring_open();
		q->ring_refused = !q->ring;
	}
	return q->ring;
}

/* --- handing over ------------------------------------------------------------------------------------ */

void disk_queue_submit(struct disk_queue *q, struct disk *d, struct disk_request *r)
{
	q->in_flight++;
	r->queue = q;
	disk__enter_top(d, r);
}

static void kick_disks(struct disk_queue *q)
{
	while (q->kick_count) {
		struct disk *d = q->kicks[--q->kick_count];
		d->ops->kick(d, q);
	}
}

void disk__queue_want_kick(struct disk_queue *q, struct disk *d)
{
	for (unsigned i = q->kick_count; i-- > 0;)
		if (q->kicks[i] == d)
			return;
	if (q->kick_count == KICKS_MAX)
		kick_disks(q);
	q->kicks[q->kick_count++] = d;
}

void disk_queue_kick(struct disk_queue *q)
{
	kick_disks(q);
	if (q->ring)
		disk__ring_submit(q->ring);
}

/* --- getting back ------------------------------------------------------------------------------------ */

void disk__queue_deliver(struct disk_queue *q, struct disk_request *r)
{
	os_mutex_lock(&q->lock);
	list_push_back(&q->done, &r->link);
	if (q->waiting) {
		q->waiting = false;
		os_cond_signal(&q->cond);
	}
	os_mutex_unlock(&q->lock);
}

unsigned disk_queue_in_flight(const struct disk_queue *q)
{
	return q->in_flight;
}

/* Moves all of `done` behind `ready`. With the lock held. */
static void take_done(struct disk_queue *q)
{
	if (list_is_empty(&q->done))
		return;
	struct list *first = q->done.next, *last = q->done.prev;
	first->prev = q->ready.prev;
	q->ready.prev->next = first;
	last->next = &q->ready;
	q->ready.prev = last;
	list_init(&q->done);
}

static struct disk_request *next_ready(struct disk_queue *q)
{
	if (list_is_empty(&q->ready)) {
		os_mutex_lock(&q->lock);
		take_done(q);
		os_mutex_unlock(&q->lock);
		if (list_is_empty(&q->ready))
			return NULL;
	}
	struct list *node = q->ready.next;
	list_remove(node);
	q->in_flight--;
	return container_of(node, struct disk_request, link);
}

static void wait_on_cond(struct disk_queue *q, uint64_t deadline_ns)
{
	os_scoped_lock(&q->lock);
	while (list_is_empty(&q->done)) {
		q->waiting = true;
		if (deadline_ns == UINT64_MAX)
			os_cond_wait(&q->cond, &q->lock);
		else if (!os_cond_wait_until(&q->cond, &q->lock, deadline_ns))
			break;
	}
	q->waiting = false;
	take_done(q);
}

/* Nothing was done a moment ago: waits for a change. */
static void wait_for_change(struct disk_queue *q, uint64_t deadline_ns)
{
	unsigned in_ring = q->ring ? disk__ring_in_flight(q->ring) : 0;
	if (in_ring == 0) {
		wait_on_cond(q, deadline_ns);
		return;
	}
	if (in_ring < q->in_flight) {
		uint64_t step_ns = os_now_ns() + MIXED_STEP_NS;
		deadline_ns = min_of(deadline_ns, step_ns);
	}
	disk__ring_wait(q->ring, deadline_ns);
}

struct disk_request *disk_queue_reap(struct disk_queue *q, uint64_t deadline_ns)
{
	struct disk_request *r = next_ready(q);
	if (r || q->in_flight == 0)
		return r;
	kick_disks(q);
	if (q->ring)
		disk__ring_harvest(q->ring);
	while (!(r = next_ready(q))) {
		if (deadline_ns == 0 || (deadline_ns != UINT64_MAX && os_now_ns() >= deadline_ns)) {
			disk_queue_kick(q);
			return NULL;
		}
		wait_for_change(q, deadline_ns);
	}
	return r;
}
