/*
 * trace: writes one line for each request that went through.
 *
 *     op      offset_bytes    length_bytes    status  submit_ns       done_ns
 *     write   1048576         131072          ok      52000           61500
 *
 * Lines appear in the order of completion. They gather in memory, because a request may end on the timekeeper,
 * which must not do I/O; the submitting thread writes them out when there are many or they are old, so a run can
 * be watched, and the close writes the rest.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define HEADER "op\toffset_bytes\tlength_bytes\tstatus\tsubmit_ns\tdone_ns\n"
#define GATHER_BYTES (64u * 1024)
#define GATHER_NS 1000000000u

struct trace_disk {
	struct disk disk;
	int fd;
	struct os_mutex lock;
	struct text lines;     /* under lock: not written yet */
	uint64_t written_ns;   /* under lock: when the last lines went out */
	struct os_mutex write; /* held while writing, so that blocks of lines keep their order */
	bool broken;           /* under write */
};

static void write_all(struct trace_disk *t, const char *bytes, size_t length)
{
	while (length && !t->broken) {
		ssize_t n = write(t->fd, bytes, length);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			t->broken = true;
			t->disk.traits.note = "the trace is incomplete: its file could not be written";
			return;
		}
		bytes += n;
		length -= (size_t)n;
	}
}

static void write_out(struct trace_disk *t)
{
	os_mutex_lock(&t->write);
	os_mutex_lock(&t->lock);
	struct text lines = t->lines;
	t->lines = (struct text){0};
	t->written_ns = os_now_ns();
	os_mutex_unlock(&t->lock);
	if (lines.length)
		write_all(t, lines.bytes, lines.length);
	if (lines.failed) {
		t->broken = true;
		t->disk.traits.note = "the trace is incomplete: out of memory";
	}
	text_release(&lines);
	os_mutex_unlock(&t->write);
}

/* True when enough has gathered to be written. */
static bool add_line(struct trace_disk *t, const struct disk_request *r, int status)
{
	uint64_t now_ns = os_now_ns();
	os_scoped_lock(&t->lock);
	text_addf(&t->lines, "%s\t%llu\t%llu\t%s\t%llu\t%llu\n", disk_op_names[r->op],
		(unsigned long long)r->offset_bytes, (unsigned long long)r->length_bytes,
		status ? error_name(status) : "ok", (unsigned long long)r->entered_ns[t->disk.level],
		(unsigned long long)now_ns);
	return t->lines.length >= GATHER_BYTES || now_ns - t->written_ns >= GATHER_NS;
}

static bool is_due(struct trace_disk *t)
{
	uint64_t now_ns = os_now_ns();
	os_scoped_lock(&t->lock);
	return t->lines.length >= GATHER_BYTES || (t->lines.length && now_ns - t->written_ns >= GATHER_NS);
}

static void trace_done(struct disk *d, struct disk_request *r)
{
	add_line(container_of(d, struct trace_disk, disk), r, r->status);
	disk__complete(r, r->status);
}

static void trace_submit(struct disk *d, struct disk_request *r)
{
	struct trace_disk *t = container_of(d, struct trace_disk, disk);
	if (is_due(t))
		write_out(t);
	disk__push(r, d, trace_done, 0);
	disk__submit_below(d, r);
}

static int trace_run(struct disk *d, struct disk_request *r)
{
	struct trace_disk *t = container_of(d, struct trace_disk, disk);
	int rc = disk__run_below(d, r);
	if (add_line(t, r, rc))
		write_out(t);
	return rc;
}

static void trace_close(struct disk *d)
{
	struct trace_disk *t = container_of(d, struct trace_disk, disk);
	struct disk *below = d->below;
	write_out(t);
	close(t->fd);
	os_mutex_destroy(&t->lock);
	os_mutex_destroy(&t->write);
	disk__release(d);
	free(t);
	disk_close(below);
}

static const struct disk_ops trace_ops = {
	.kind = "trace", .submit = trace_submit, .run = trace_run, .close = trace_close};

int disk__trace_check(const char *args, struct error *err)
{
	if (*args == '\0')
		return error_set(err, ERR_USAGE, "+trace= names no file");
	return 0;
}

/* Only a new file, an empty one or an older trace is written to. */
static int check_target(int fd, const char *path, struct error *err)
{
	struct stat st;
	char head[sizeof HEADER - 1];
	if (fstat(fd, &st) != 0)
		return error_set(err, error_from_errno(errno), "trace file %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(err, ERR_REFUSED, "trace file %s is not a regular file", path);
	if (st.st_size == 0)
		return 0;
	if (pread(fd, head, sizeof head, 0) != (ssize_t)sizeof head || memcmp(head, HEADER, sizeof head) != 0)
		return error_set(err, ERR_REFUSED, "trace file %s exists and is not a trace", path);
	return 0;
}

static int open_target(const char *path, int *ret_fd, struct error *err)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
	if (fd < 0)
		return error_set(
			err, error_from_errno(errno), "trace file %s cannot be written: %s", path, strerror(errno));
	int rc = flock(fd, LOCK_EX | LOCK_NB) == 0
			 ? check_target(fd, path, err)
			 : error_set(err, ERR_BUSY, "trace file %s is being written already", path);
	if (rc == 0 && (ftruncate(fd, 0) != 0 || write(fd, HEADER, sizeof HEADER - 1) != (ssize_t)(sizeof HEADER - 1)))
		rc = error_set(err, errno ? error_from_errno(errno) : ERR_IO, "trace file %s cannot be written: %s",
			path, strerror(errno));
	if (rc != 0) {
		close(fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

int disk__trace_wrap(struct disk *below, const char *args, unsigned index, struct disk **ret, struct error *err)
{
	char path[512];
	int fd = -1;
	if (index == 0)
		snprintf(path, sizeof path, "%s", args);
	else
		snprintf(path, sizeof path, "%s.%u", args, index);
	int rc = open_target(path, &fd, err);
	if (rc != 0)
		return rc;
	struct trace_disk *t = calloc(1, sizeof *t);
	if (!t) {
		close(fd);
		return error_set(err, ERR_MEMORY, "out of memory for the trace of %s", below->traits.name);
	}
	disk__init(&t->disk, &trace_ops, below, NULL);
	t->fd = fd;
	t->written_ns = os_now_ns();
	os_mutex_init(&t->lock);
	os_mutex_init(&t->write);
	*ret = &t->disk;
	return 0;
}
