/*
 * file_open: finds out how a file or device can be used, by trying.
 *
 *   direct I/O   open with O_DIRECT, then read one aligned block: some file systems accept the flag and refuse the
 *                transfer, some accept both and serve from the page cache all the same, which shows when a page
 *                that was not resident is so after the read. tmpfs is the page cache.
 *   engine       io_uring where a ring can be set up; threads where not, and on tmpfs, where they are cheaper (and
 *                short transfers, done by the submitter, cheaper still).
 *   sectors      what the device says; for a file what statx says of direct I/O, else 512 and 4096.
 *
 * Whatever falls back says so in the traits.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "file.h"

#ifndef RAMFS_MAGIC
#define RAMFS_MAGIC 0x858458f6
#endif
#define STATX_DIOALIGN_MASK 0x2000u
/* On tmpfs a copy of this size takes about as long as waking a thread, 8 us. */
#define MEMORY_POOL_FROM_BYTES (64u * 1024)

struct findings {
	struct stat st;
	uint64_t size_bytes;
	uint32_t logical_bytes, physical_bytes;
	uint32_t memory_align, offset_align; /* of direct I/O */
	bool in_memory;                      /* tmpfs, ramfs */
	bool direct;
	struct disk__description device;
};

/* --- refusing what is no disk ------------------------------------------------------------------------ */

static int look(const char *path, struct findings *x, struct error *err)
{
	if (stat(path, &x->st) != 0)
		return error_set(err, error_from_errno(errno), "%s: %s", path, strerror(errno));
	if (S_ISREG(x->st.st_mode) || S_ISBLK(x->st.st_mode))
		return 0;
	return error_set(err, ERR_UNSUPPORTED, "%s is %s, not a regular file or a block device", path,
		S_ISDIR(x->st.st_mode)    ? "a directory"
		: S_ISFIFO(x->st.st_mode) ? "a FIFO"
		: S_ISSOCK(x->st.st_mode) ? "a socket"
					  : "a character device");
}

static int busy(const char *path, const struct findings *x, struct error *err)
{
	char holder[256] = "";
	if (S_ISBLK(x->st.st_mode))
		disk__use_of_device(x->st.st_rdev, holder, sizeof holder);
	else
		disk__lock_holder(x->st.st_dev, x->st.st_ino, holder, sizeof holder);
	if (!holder[0])
		return error_set(err, ERR_BUSY, "%s is open exclusively elsewhere", path);
	return error_set(err, ERR_BUSY, S_ISBLK(x->st.st_mode) ? "%s is in use: %s" : "%s is held by %s", path, holder);
}

static int open_fd(
	const char *path, const struct disk_open_options *o, const struct findings *x, int *ret_fd, struct error *err)
{
	int flags = (o->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY;
	if (o->exclusive && S_ISBLK(x->st.st_mode))
		flags |= O_EXCL;
	int fd = open(path, flags);
	if (fd < 0 && errno == EBUSY)
		return busy(path, x, err);
	if (fd < 0)
		return error_set(err, error_from_errno(errno), "%s cannot be opened%s: %s", path,
			o->read_only ? "" : " for writing", strerror(errno));
	if (o->exclusive && S_ISREG(x->st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) != 0) {
		int saved = errno;
		close(fd);
		if (saved == EWOULDBLOCK)
			return busy(path, x, err);
		return error_set(err, error_from_errno(saved), "%s cannot be locked: %s", path, strerror(saved));
	}
	*ret_fd = fd;
	return 0;
}

/* --- size and sectors -------------------------------------------------------------------------------- */

static int size_of_device(int fd, const char *path, struct findings *x, struct error *err)
{
	int logical = 0;
	unsigned physical = 0;
	if (ioctl(fd, BLKGETSIZE64, &x->size_bytes) != 0 || ioctl(fd, BLKSSZGET, &logical) != 0)
		return error_set(err, error_from_errno(errno), "%s does not tell its size: %s", path, strerror(errno));
	if (ioctl(fd, BLKPBSZGET, &physical) != 0)
		physical = (unsigned)logical;
	x->logical_bytes = (uint32_t)logical;
	x->physical_bytes = max_of(physical, (unsigned)logical);
	x->memory_align = x->offset_align = x->logical_bytes;
	return 0;
}

/* struct statx as of Linux 6.1; the C library's may be older. */
static void ask_direct_alignment(int fd, struct findings *x)
{
#ifdef SYS_statx
	union {
		uint8_t bytes[256];
		uint32_t words[64];
	} sx = {{0}};
	/* stx_mask at 0, stx_dio_mem_align at 152, stx_dio_offset_align at 156 */
	if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN_MASK, &sx) == 0 &&
		(sx.words[0] & STATX_DIOALIGN_MASK) && is_power_of_two(sx.words[38]) && is_power_of_two(sx.words[39])) {
		x->memory_align = sx.words[38];
		x->offset_align = sx.words[39];
	}
#endif
}

static void size_of_file(int fd, struct findings *x)
{
	x->size_bytes = (uint64_t)x->st.st_size;
	x->memory_align = x->offset_align = 512;
	ask_direct_alignment(fd, x);
	x->logical_bytes = max_of(x->offset_align, 512u);
	x->physical_bytes = max_of(x->logical_bytes, 4096u);
	struct statfs fs;
	if (fstatfs(fd, &fs) == 0)
		x->in_memory = fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC;
}

static int measure(int fd, const char *path, struct findings *x, struct error *err)
{
	int rc = 0;
	if (fstat(fd, &x->st) != 0)
		return error_set(err, error_from_errno(errno), "%s: %s", path, strerror(errno));
	if (S_ISBLK(x->st.st_mode))
		rc = size_of_device(fd, path, x, err);
	else
		size_of_file(fd, x);
	if (rc != 0)
		return rc;
	disk__sysfs_describe(S_ISBLK(x->st.st_mode) ? x->st.st_rdev : x->st.st_dev, &x->device);
	x->size_bytes = round_down_u64(x->size_bytes, x->logical_bytes);
	if (x->size_bytes == 0)
		return error_set(err, ERR_TOO_SMALL, "%s holds no sector of %u bytes: it is %lld bytes long", path,
			x->logical_bytes, (long long)(S_ISBLK(x->st.st_mode) ? 0 : x->st.st_size));
	return 0;
}

/* --- proving that direct I/O is direct --------------------------------------------------------------- */

/* 1 resident, 0 not, -1 cannot be told */
static int is_resident(int fd)
{
	unsigned char page = 0;
	void *at = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -1;
	int rc = mincore(at, 1, &page);
	munmap(at, 1);
	return rc == 0 ? page & 1 : -1;
}

static bool reads_direct(struct file_disk *f, struct findings *x)
{
	size_t bytes = max_of(x->logical_bytes, 4096u);
	void *buffer = NULL;
	if (bytes > x->size_bytes)
		bytes = x->logical_bytes;
	if (posix_memalign(&buffer, max_of(x->memory_align, 4096u), bytes) != 0)
		return false;
	/* The first read makes the system write back what is dirty there, so that the page can be dropped. */
	ssize_t n = pread(f->fd, buffer, bytes, 0);
	int saved = errno;
	posix_fadvise(f->fd, 0, (off_t)bytes, POSIX_FADV_DONTNEED);
	int before = is_resident(f->fd);
	if (n >= 0) {
		n = pread(f->fd, buffer, bytes, 0);
		saved = errno;
	}
	int after = is_resident(f->fd);
	free(buffer);
	if (n < 0 && saved != EINVAL)
		return true; /* a bad sector, say: no word on how it is read */
	if (n < 0)
		snprintf(f->note, sizeof f->note, "buffered: O_DIRECT is accepted at open, but a read gives \"%s\"",
			strerror(saved));
	else if (before == 0 && after == 1)
		snprintf(f->note, sizeof f->note,
			"buffered: O_DIRECT is accepted, but the bytes come through the page cache");
	else
		return true;
	return false;
}

static void try_direct(struct file_disk *f, struct findings *x, const struct disk_open_options *o)
{
	int flags = fcntl(f->fd, F_GETFL);
	x->direct = false;
	if (o->buffered) {
		snprintf(f->note, sizeof f->note, "buffered: as asked for");
		return;
	}
	if (x->in_memory) {
		snprintf(f->note, sizeof f->note, "buffered: the file lies in memory (tmpfs)");
		return;
	}
	if (fcntl(f->fd, F_SETFL, flags | O_DIRECT) != 0) {
		snprintf(f->note, sizeof f->note, "buffered: O_DIRECT is refused: %s", strerror(errno));
		return;
	}
	x->direct = reads_direct(f, x);
	if (!x->direct)
		fcntl(f->fd, F_SETFL, flags);
}

/* --- the engine -------------------------------------------------------------------------------------- */

static void add_note(struct file_disk *f, const char *text)
{
	size_t used = strlen(f->note);
	snprintf(f->note + used, sizeof f->note - used, "%s%s", used ? "; " : "", text);
}

static int choose_engine(struct file_disk *f, const struct findings *x, enum disk_engine wish, struct error *err)
{
	const char *why_not = "there is none in the simulated world";
	f->engine = FILE_THREADS;
	if (os_is_simulated() && wish == DISK_ENGINE_AUTO) {
		f->engine = FILE_INLINE;
		add_note(f, "simulated world: requests are over at once");
		return 0;
	}
	bool possible = !os_is_simulated() && disk__ring_possible(&why_not);
	if (wish == DISK_ENGINE_URING && !possible)
		return error_set(err, ERR_UNSUPPORTED, "%s: io_uring was asked for, but %s", f->path, why_not);
	if (wish == DISK_ENGINE_URING || (wish == DISK_ENGINE_AUTO && possible && !x->in_memory)) {
		f->engine = FILE_URING;
		return 0;
	}
	if (wish == DISK_ENGINE_AUTO && !x->in_memory)
		add_note(f, why_not);
	else if (wish == DISK_ENGINE_AUTO) {
		add_note(f, "threads are cheaper than io_uring there");
		f->pool_from_bytes = MEMORY_POOL_FROM_BYTES;
	}
	return disk__file_pool_open(f, &f->pool, err);
}

/* --- all together ------------------------------------------------------------------------------------ */

static void fill_traits(
	struct file_disk *f, const struct findings *x, const struct disk_open_options *o, struct disk_traits *t)
{
	bool block = S_ISBLK(x->st.st_mode);
	bool cached_loop = block && x->device.loop_file[0] && x->device.loop_cached;
	if (cached_loop && x->direct)
		add_note(f, "a loop device: its file is kept in the page cache (losetup --direct-io=on)");
	if (block) {
		snprintf(f->model, sizeof f->model, "%s", x->device.model);
		snprintf(f->serial, sizeof f->serial, "%s", x->device.serial);
	}
	*t = (struct disk_traits){
		.name = f->path,
		.spec = f->spec,
		.path = f->path,
		.engine = f->engine == FILE_URING     ? "io_uring"
			  : f->engine == FILE_THREADS ? "threads"
						      : "inline",
		.model = f->model,
		.serial = f->serial,
		.note = f->note,
		.size_bytes = x->size_bytes,
		.nominal_bytes = x->size_bytes,
		.logical_bytes = x->logical_bytes,
		.physical_bytes = x->physical_bytes,
		.atomic_bytes = x->logical_bytes,
		.direct = x->direct && !cached_loop,
		.is_block_device = block,
		.rotating = x->device.rotating,
		.read_only = o->read_only,
		.needs_flush = true,
		.discard_zeroes = !block,
	};
}

static int open_it(struct file_disk *f, const struct disk_open_options *o, struct findings *x, struct error *err)
{
	int rc = look(f->path, x, err);
	if (rc == 0)
		rc = open_fd(f->path, o, x, &f->fd, err);
	if (rc == 0)
		rc = measure(f->fd, f->path, x, err);
	if (rc != 0)
		return rc;
	try_direct(f, x, o);
	f->memory_align = x->direct ? x->memory_align : 1;
	return choose_engine(f, x, o->engine, err);
}

int disk__file_open(
	const struct disk_spec *spec, const struct disk_open_options *o, struct disk **ret, struct error *err)
{
	struct findings x = {0};
	struct disk_traits traits;
	struct file_disk *f = calloc(1, sizeof *f);
	if (!f)
		return error_set(err, ERR_MEMORY, "out of memory while opening %s", spec->path);
	f->fd = -1;
	f->path = strdup(spec->path);
	f->spec = strdup(spec->text);
	int rc = f->path && f->spec ? open_it(f, o, &x, err)
				    : error_set(err, ERR_MEMORY, "out of memory while opening %s", spec->path);
	if (rc != 0) {
		if (f->fd >= 0)
			close(f->fd);
		free(f->path);
		free(f->spec);
		free(f);
		return rc;
	}
	fill_traits(f, &x, o, &traits);
	disk__init(&f->disk, &disk__file_ops, NULL, &traits);
	os_mutex_init(&f->bounce_lock);
	*ret = &f->disk;
	return 0;
}
