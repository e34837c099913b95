/*
 * file: a regular file or a block device. This file moves the bytes; file_open.c decides how.
 *
 * Three ways down: io_uring (the queue's ring; disk__file_prepare fills the entry, disk__file_ring_done takes the
 * result), a pool of threads, or at once (simulated world). What is rare and awkward, a short transfer or an
 * interrupted one, is finished in `move`, which all three share.
 *
 * Direct I/O wants aligned memory. A buffer that is not goes through a bounce buffer of the disk, copied before
 * a write and after a read.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/falloc.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file.h"

#define TRANSFER_MAX_BYTES (1u << 30) /* the kernel moves less than 2 GiB in one call */
#define BOUNCE_BYTES (1u << 20)       /* buffers up to this size are kept */
#define BOUNCES_KEPT 64

/* --- bounce buffers ---------------------------------------------------------------------------------- */

struct bounce {
	struct bounce *next;
	struct iovec iov;
};

static struct bounce *bounce_get(struct file_disk *f, uint64_t bytes)
{
	if (bytes <= BOUNCE_BYTES) {
		os_mutex_lock(&f->bounce_lock);
		struct bounce *b = f->bounces;
		if (b) {
			f->bounces = b->next;
			f->bounce_count--;
		}
		os_mutex_unlock(&f->bounce_lock);
		if (b) {
			b->iov.iov_len = bytes;
			return b;
		}
	}
	struct bounce *b = malloc(sizeof *b);
	if (!b || posix_memalign(&b->iov.iov_base, DISK_BUFFER_ALIGN, max_of(bytes, (uint64_t)BOUNCE_BYTES)) != 0) {
		free(b);
		return NULL;
	}
	b->iov.iov_len = bytes;
	return b;
}

static void bounce_put(struct file_disk *f, struct bounce *b)
{
	if (b->iov.iov_len <= BOUNCE_BYTES) {
		os_scoped_lock(&f->bounce_lock);
		if (f->bounce_count < BOUNCES_KEPT) {
			b->next = f->bounces;
			f->bounces = b;
			f->bounce_count++;
			return;
		}
	}
	free(b->iov.iov_base);
	free(b);
}

void disk__file_free_bounces(struct file_disk *f)
{
	while (f->bounces) {
		struct bounce *b = f->bounces;
		f->bounces = b->next;
		free(b->iov.iov_base);
		free(b);
	}
}

static bool wants_bounce(const struct file_disk *f, const struct disk_request *r)
{
	uintptr_t mask = f->memory_align - 1;
	if (mask == 0 || (r->op != DISK_READ && r->op != DISK_WRITE))
		return false;
	uintptr_t bits = 0;
	for (unsigned i = 0; i < r->iov_count; i++)
		bits |= (uintptr_t)r->iov[i].iov_base | r->iov[i].iov_len;
	return bits & mask;
}

/* r->word is the bounce buffer, or 0. ERR_MEMORY when there is none to be had. */
static int bounce_in(struct file_disk *f, struct disk_request *r)
{
	r->word = 0;
	if (!wants_bounce(f, r))
		return 0;
	struct bounce *b = bounce_get(f, r->length_bytes);
	if (!b)
		return ERR_MEMORY;
	r->word = (uint64_t)(uintptr_t)b;
	if (r->op == DISK_READ)
		return 0;
	uint8_t *to = b->iov.iov_base;
	for (unsigned i = 0; i < r->iov_count; i++) {
		memcpy(to, r->iov[i].iov_base, r->iov[i].iov_len);
		to += r->iov[i].iov_len;
	}
	return 0;
}

static struct bounce *bounce_of(const struct disk_request *r)
{
	return (struct bounce *)(uintptr_t)r->word;
}

static void bounce_out(struct file_disk *f, struct disk_request *r, int status)
{
	struct bounce *b = bounce_of(r);
	if (!b)
		return;
	const uint8_t *from = b->iov.iov_base;
	for (unsigned i = 0; r->op == DISK_READ && status == 0 && i < r->iov_count; i++) {
		memcpy(r->iov[i].iov_base, from, r->iov[i].iov_len);
		from += r->iov[i].iov_len;
	}
	bounce_put(f, b);
	r->word = 0;
}

/* --- moving bytes and waiting for them --------------------------------------------------------------- */

static int status_of(int errno_value)
{
	switch (errno_value) {
	case EINVAL: /* not "unsupported": the request was well formed, so it is the device that changed */
	case EAGAIN:
	case EINTR:
		return ERR_IO;
	default:
		return error_from_errno(errno_value);
	}
}

static const struct iovec *buffers_of(const struct disk_request *r, unsigned *ret_count)
{
	struct bounce *b = bounce_of(r);
	*ret_count = b ? 1 : r->iov_count;
	return b ? &b->iov : r->iov;
}

/* The part of the buffers behind the first `skip` bytes, as much as one call may take. */
static unsigned rest_of(const struct disk_request *r, uint64_t skip, struct iovec *ret, unsigned room)
{
	unsigned count, used = 0;
	uint64_t left = TRANSFER_MAX_BYTES;
	const struct iovec *iov = buffers_of(r, &count);
	for (unsigned i = 0; i < count && used < room && left; i++) {
		if (skip >= iov[i].iov_len) {
			skip -= iov[i].iov_len;
			continue;
		}
		uint64_t bytes = min_of(iov[i].iov_len - skip, left);
		ret[used++] = (struct iovec){.iov_base = (uint8_t *)iov[i].iov_base + skip, .iov_len = bytes};
		left -= bytes;
		skip = 0;
	}
	return used;
}

static bool shrank(const struct file_disk *f, const struct disk_request *r)
{
	struct stat st;
	return r->op == DISK_READ && fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       (uint64_t)st.st_size < r->offset_bytes + r->length_bytes;
}

/* Moves what lies behind the first `done` bytes. */
static int move(struct file_disk *f, struct disk_request *r, uint64_t done)
{
	while (done < r->length_bytes) {
		struct iovec iov[64];
		unsigned count = rest_of(r, done, iov, array_count(iov));
		off_t at = (off_t)(r->offset_bytes + done);
		ssize_t n =
			r->op == DISK_READ ? preadv(f->fd, iov, (int)count, at) : pwritev(f->fd, iov, (int)count, at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			int status = n < 0 ? status_of(errno) : ERR_IO;
			if (shrank(f, r))
				r->why = "it shrank: it ends before this place";
			return status;
		}
		done += (uint64_t)n;
	}
	return 0;
}

static int flush(struct file_disk *f)
{
	return fdatasync(f->fd) == 0 ? 0 : status_of(errno);
}

static int discard(struct file_disk *f, struct disk_request *r)
{
	int rc;
	if (f->disk.traits.is_block_device) {
		uint64_t range[2] = {r->offset_bytes, r->length_bytes};
		rc = ioctl(f->fd, BLKDISCARD, range);
	} else {
		rc = fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)r->offset_bytes,
			(off_t)r->length_bytes);
	}
	return rc == 0 ? 0 : error_from_errno(errno);
}

int disk__file_run(struct disk *d, struct disk_request *r)
{
	struct file_disk *f = file_of(d);
	if (r->op == DISK_FLUSH)
		return flush(f);
	if (r->length_bytes == 0)
		return 0;
	if (r->op == DISK_DISCARD)
		return discard(f, r);
	uint64_t word = r->word; /* below a model the word is the model's */
	int rc = bounce_in(f, r);
	if (rc == 0)
		rc = move(f, r, 0);
	bounce_out(f, r, rc);
	r->word = word;
	return rc;
}

/* --- io_uring ---------------------------------------------------------------------------------------- */

void disk__file_prepare(struct disk_request *r, struct io_uring_sqe *sqe)
{
	struct file_disk *f = file_of(r->current);
	unsigned count;
	if (r->op == DISK_FLUSH) {
		io_uring_prep_fsync(sqe, f->fd, IORING_FSYNC_DATASYNC);
		return;
	}
	const struct iovec *iov = buffers_of(r, &count);
	if (count > 1) {
		count = min_of(count, (unsigned)IOV_MAX);
		if (r->op == DISK_READ)
			io_uring_prep_readv(sqe, f->fd, iov, count, r->offset_bytes);
		else
			io_uring_prep_writev(sqe, f->fd, iov, count, r->offset_bytes);
		return;
	}
	unsigned bytes = (unsigned)min_of(iov->iov_len, (size_t)TRANSFER_MAX_BYTES);
	if (r->op == DISK_READ)
		io_uring_prep_read(sqe, f->fd, iov->iov_base, bytes, r->offset_bytes);
	else
		io_uring_prep_write(sqe, f->fd, iov->iov_base, bytes, r->offset_bytes);
}

void disk__file_ring_done(struct disk_request *r, int result)
{
	struct file_disk *f = file_of(r->current);
	int status = 0;
	bool again = result == -EINTR || result == -EAGAIN;
	if (r->op == DISK_FLUSH)
		status = again ? flush(f) : result < 0 ? status_of(-result) : 0;
	else if (result < 0 && !again)
		status = status_of(-result);
	else if (again || (uint64_t)result < r->length_bytes)
		status = move(f, r, again ? 0 : (uint64_t)result);
	bounce_out(f, r, status);
	disk__complete(r, status);
}

static void submit_to_ring(struct file_disk *f, struct disk_request *r)
{
	struct disk__ring *ring = disk__queue_ring(r->queue);
	if (!ring || r->op == DISK_DISCARD || (r->op != DISK_FLUSH && r->length_bytes == 0)) {
		disk__complete(r, disk__file_run(&f->disk, r));
		return;
	}
	int rc = bounce_in(f, r);
	if (rc != 0)
		disk__complete(r, rc);
	else
		disk__ring_stage(ring, r);
}

/* --- the disk ---------------------------------------------------------------------------------------- */

static void file_submit(struct disk *d, struct disk_request *r)
{
	struct file_disk *f = file_of(d);
	if (f->engine == FILE_URING)
		submit_to_ring(f, r);
	else if (f->engine == FILE_THREADS && r->length_bytes >= f->pool_from_bytes)
		disk__file_pool_add(f->pool, r);
	else
		disk__complete(r, disk__file_run(d, r));
}

static void file_close(struct disk *d)
{
	struct file_disk *f = file_of(d);
	disk__file_pool_close(f->pool);
	disk__file_free_bounces(f);
	os_mutex_destroy(&f->bounce_lock);
	/* A ring that is being torn down may hold the file a little longer than this process: the lock goes by itself. */
	flock(f->fd, LOCK_UN);
	close(f->fd);
	disk__release(d);
	free(f->path);
	free(f->spec);
	free(f);
}

const struct disk_ops disk__file_ops = {
	.kind = "file", .submit = file_submit, .run = disk__file_run, .close = file_close};
