/*
 * ring: the io_uring of one queue, on the thread of that queue.
 *
 * Requests are staged in the submission ring and sent with the next kick or wait, in one system call. At most
 * RING_ENTRIES are with the kernel; what is beyond that waits in `backlog` and moves up as others finish, so the
 * completion ring cannot overflow and a submitter never waits.
 */
#include <errno.h>
#include <liburing.h>
#include <string.h>

#include "internal.h"

#define RING_ENTRIES 256

struct disk__ring {
	struct io_uring uring;
	unsigned staged;    /* in the submission ring, not yet sent */
	unsigned with_ring; /* staged or with the kernel */
	unsigned waiting;   /* in backlog */
	struct list backlog;
};

#ifndef IORING_SETUP_SINGLE_ISSUER
#define IORING_SETUP_SINGLE_ISSUER (1U << 12)
#endif
#ifndef IORING_SETUP_DEFER_TASKRUN
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#endif
#ifndef IORING_SETUP_TASKRUN_FLAG
#define IORING_SETUP_TASKRUN_FLAG (1U << 9)
#endif

static int ring_init(struct io_uring *u, unsigned entries)
{
	static const unsigned flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 0};
	int rc = -ENOSYS;
	for (size_t i = 0; i < array_count(flags); i++) {
		struct io_uring_params p = {.flags = flags[i]};
		rc = io_uring_queue_init_params(entries, u, &p);
		if (rc == 0 && (p.features & IORING_FEAT_EXT_ARG) && (p.features & IORING_FEAT_NODROP))
			return 0;
		if (rc == 0) {
			io_uring_queue_exit(u);
			rc = -ENOSYS;
		}
	}
	return rc;
}

bool disk__ring_possible(const char **ret_why_not)
{
	struct io_uring u;
	int rc = ring_init(&u, 4);
	if (rc == 0) {
		io_uring_queue_exit(&u);
		return true;
	}
	*ret_why_not = rc == -ENOSYS   ? "this kernel has no usable io_uring"
		       : rc == -EPERM  ? "io_uring is forbidden here"
		       : rc == -ENOMEM ? "io_uring found no memory it may lock"
		       : rc == -EMFILE ? "too many files are open for an io_uring"
				       : "io_uring cannot be set up";
	return false;
}

struct disk__ring *disk__ring_open(void)
{
	struct disk__ring *ring = calloc(1, sizeof *ring);
	if (!ring)
		return NULL;
	if (ring_init(&ring->uring, RING_ENTRIES) != 0) {
		free(ring);
		return NULL;
	}
	list_init(&ring->backlog);
	return ring;
}

void disk__ring_close(struct disk__ring *ring)
{
	if (!ring)
		return;
	io_uring_queue_exit(&ring->uring);
	free(ring);
}

unsigned disk__ring_in_flight(const struct disk__ring *ring)
{
	return ring->with_ring + ring->waiting;
}

static bool stage_now(struct disk__ring *ring, struct disk_request *r)
{
	if (ring->with_ring >= RING_ENTRIES)
		return false;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);
	if (!sqe)
		return false;
	disk__file_prepare(r, sqe);
	io_uring_sqe_set_data(sqe, r);
	ring->staged++;
	ring->with_ring++;
	return true;
}

void disk__ring_stage(struct disk__ring *ring, struct disk_request *r)
{
	if (!ring->waiting && stage_now(ring, r))
		return;
	list_push_back(&ring->backlog, &r->link);
	ring->waiting++;
}

static void stage_backlog(struct disk__ring *ring)
{
	while (ring->waiting) {
		struct disk_request *r = container_of(ring->backlog.next, struct disk_request, link);
		struct list *node = &r->link;
		if (ring->with_ring >= RING_ENTRIES || io_uring_sq_space_left(&ring->uring) == 0)
			return;
		list_remove(node);
		ring->waiting--;
		sp_assert(stage_now(ring, r));
	}
}

/* What io_uring_enter may answer without it being our mistake passes with the next try. */
static void note_sent(struct disk__ring *ring, int rc)
{
	(void)rc;
	ring->staged = io_uring_sq_ready(&ring->uring);
	sp_assert(rc >= 0 || rc == -EINTR || rc == -EAGAIN || rc == -EBUSY || rc == -ETIME || rc == -ENOMEM);
}

void disk__ring_submit(struct disk__ring *ring)
{
	if (ring->staged)
		note_sent(ring, io_uring_submit(&ring->uring));
}

static void take_completions(struct disk__ring *ring)
{
	struct io_uring_cqe *cqes[32];
	unsigned count;
	while ((count = io_uring_peek_batch_cqe(&ring->uring, cqes, array_count(cqes))) > 0) {
		struct {
			struct disk_request *r;
			int result;
		} done[array_count(cqes)];
		for (unsigned i = 0; i < count; i++) {
			done[i].r = io_uring_cqe_get_data(cqes[i]);
			done[i].result = cqes[i]->res;
		}
		io_uring_cq_advance(&ring->uring, count);
		ring->with_ring -= count;
		for (unsigned i = 0; i < count; i++)
			disk__file_ring_done(done[i].r, done[i].result);
	}
	stage_backlog(ring);
}

void disk__ring_harvest(struct disk__ring *ring)
{
	if (ring->with_ring)
		take_completions(ring);
}

void disk__ring_wait(struct disk__ring *ring, uint64_t deadline_ns)
{
	struct io_uring_cqe *cqe;
	if (deadline_ns == UINT64_MAX) {
		note_sent(ring, io_uring_submit_and_wait(&ring->uring, 1));
	} else {
		uint64_t now_ns = os_now_ns();
		uint64_t wait_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
		struct __kernel_timespec ts = {
			.tv_sec = (long long)(wait_ns / 1000000000u), .tv_nsec = (long long)(wait_ns % 1000000000u)};
		note_sent(ring, io_uring_submit_and_wait_timeout(&ring->uring, &cqe, 1, &ts, NULL));
	}
	take_completions(ring);
}
