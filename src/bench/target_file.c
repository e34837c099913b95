/*
 * A file, a file made in a directory, or a block device, through the kernel.
 *
 * With direct I/O the requests go through a disk of the disk part, so by io_uring where that works; without, by
 * pread and pwrite through the page cache. Whether direct I/O is in effect is not believed but tried: what was
 * written is read twice, and the device behind the path must have delivered it each time.
 *
 * A file that is made is unlinked as soon as it is open: nothing of it is left, whatever ends the program.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "internal.h"

#define PROBE_BYTES (1u << 20)
#define KEEP_FREE 0.05 /* of a file system */
#define ZFS_MAGIC 0x2fc12fc1
#define FILE_PREFIX ".spindle-bench-"

struct target_file {
	struct target target;
	int fd;            /* the page cache's road; also for flush and drop_cache */
	struct disk *disk; /* the direct road, or NULL */
	struct disk *twin; /* beside the page cache's road a direct one, for the limit alone; or NULL */
	bool read_only, is_block;
	char stat_path[64]; /* the kernel's counters of the device behind it, "" when there are none */
};

static struct target_file *file_of(struct target *t)
{
	return container_of(t, struct target_file, target);
}

/* --- through the page cache -------------------------------------------------------------------------------------- */

/* One call moves at most 2,147,479,552 bytes on Linux, and may move less. */
static int transfer(struct target_file *self, bool write, uint64_t offset_bytes, uint8_t *buffer, uint64_t length_bytes,
	struct error *err)
{
	while (length_bytes) {
		ssize_t n = write ? pwrite(self->fd, buffer, length_bytes, (off_t)offset_bytes)
				  : pread(self->fd, buffer, length_bytes, (off_t)offset_bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(err, error_from_errno(errno), "%s: %s of %llu bytes at %llu: %s",
				self->target.name, write ? "write" : "read", (unsigned long long)length_bytes,
				(unsigned long long)offset_bytes, strerror(errno));
		if (n == 0)
			return error_set(err, write ? ERR_SPACE : ERR_IO,
				"%s: ends at byte %llu, %llu more were wanted", self->target.name,
				(unsigned long long)offset_bytes, (unsigned long long)length_bytes);
		buffer += n;
		offset_bytes += (uint64_t)n;
		length_bytes -= (uint64_t)n;
	}
	return 0;
}

static int file_read(struct target *t, uint64_t offset_bytes, void *buffer, uint64_t length_bytes, struct error *err)
{
	struct target_file *self = file_of(t);

	return self->disk ? disk_read(self->disk, offset_bytes, buffer, length_bytes, err)
			  : transfer(self, false, offset_bytes, buffer, length_bytes, err);
}

static int file_write(
	struct target *t, uint64_t offset_bytes, const void *buffer, uint64_t length_bytes, struct error *err)
{
	struct target_file *self = file_of(t);

	if (self->read_only)
		return error_set(err, ERR_READ_ONLY, "%s: writing was not allowed: name it with --destroy", t->name);
	return self->disk ? disk_write(self->disk, offset_bytes, buffer, length_bytes, err)
			  : transfer(self, true, offset_bytes, (uint8_t *)buffer, length_bytes, err);
}

static int file_flush(struct target *t, struct error *err)
{
	struct target_file *self = file_of(t);

	if (self->read_only)
		return 0;
	if (self->disk)
		return disk_flush(self->disk, err);
	if (fsync(self->fd) != 0)
		return error_set(err, error_from_errno(errno), "%s: fsync: %s", t->name, strerror(errno));
	return 0;
}

static int file_drop_cache(struct target *t, struct error *err)
{
	struct target_file *self = file_of(t);

	if (!self->read_only && fdatasync(self->fd) != 0)
		return error_set(err, error_from_errno(errno), "%s: fdatasync: %s", t->name, strerror(errno));
	posix_fadvise(self->fd, 0, 0, POSIX_FADV_DONTNEED);
	return 0;
}

static void file_close(struct target *t)
{
	struct target_file *self = file_of(t);

	disk_close(self->disk);
	disk_close(self->twin);
	if (self->fd >= 0)
		close(self->fd);
	free(self);
}

static struct disk *file_disk(struct target *t)
{
	return file_of(t)->disk;
}

/* --- the device behind it ---------------------------------------------------------------------------------------- */

static void file_traffic(struct target *t, struct target_traffic *ret)
{
	struct target_file *self = file_of(t);
	unsigned long long v[17] = {0};

	*ret = (struct target_traffic){0};
	FILE *f = self->stat_path[0] ? fopen(self->stat_path, "re") : NULL;
	if (!f)
		return;
	unsigned found = 0;
	while (found < array_count(v) && fscanf(f, "%llu", &v[found]) == 1)
		found++;
	fclose(f);
	if (found < 11)
		return;
	/* Documentation/block/stat.rst; a sector is 512 bytes there, whatever the device has. */
	*ret = (struct target_traffic){.read_ops = v[0],
		.read_bytes = v[2] * 512,
		.write_ops = v[4],
		.write_bytes = v[6] * 512,
		.busy_ns = v[9] * 1000000,
		.flushes = v[15],
		.known = true};
}

/* The mount that holds a file: by its number, for the device number of a file on btrfs is not that of its mount; of a
 * kernel before 5.8 by the device. It names the source, where the file system has no device number of its own. */
static bool find_mount(int fd, dev_t device, char fs_type[32], char options[256], dev_t *ret_source)
{
	char line[1024], source[256];
	FILE *f = fopen("/proc/self/mountinfo", "re");
	struct statx facts;
	bool found = false,
	     by_number = statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &facts) == 0 && (facts.stx_mask & STATX_MNT_ID);

	while (f && !found && fgets(line, sizeof(line), f)) {
		unsigned major, minor;
		unsigned long long number;
		const char *dash = strstr(line, " - ");
		if (!dash || sscanf(line, "%llu %*d %u:%u", &number, &major, &minor) != 3 ||
			(by_number ? number != facts.stx_mnt_id : makedev(major, minor) != device))
			continue;
		found = sscanf(dash, " - %31s %255s %255s", fs_type, source, options) == 3;
		struct stat s;
		*ret_source = found && stat(source, &s) == 0 && S_ISBLK(s.st_mode) ? s.st_rdev : 0;
	}
	if (f)
		fclose(f);
	return found;
}

/* Where a file system spreads over several, the counters of the one that the mount names are not all. */
static bool has_one_device(int fd, const char *fs_type)
{
	struct btrfs_ioctl_fs_info_args info = {0};

	return strcmp(fs_type, "btrfs") || (ioctl(fd, BTRFS_IOC_FS_INFO, &info) == 0 && info.num_devices == 1);
}

static bool set_stat_path(struct target_file *self, dev_t device)
{
	snprintf(self->stat_path, sizeof(self->stat_path), "/sys/dev/block/%u:%u/stat", major(device), minor(device));
	if (access(self->stat_path, R_OK) == 0)
		return true;
	self->stat_path[0] = 0;
	return false;
}

static bool is_rotating(dev_t device)
{
	static const char *const places[] = {"queue/rotational", "../queue/rotational"};
	char path[96];
	int value = 0;

	for (unsigned i = 0; i < array_count(places); i++) {
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s", major(device), minor(device), places[i]);
		FILE *f = fopen(path, "re");
		if (!f)
			continue;
		bool read = fscanf(f, "%d", &value) == 1;
		fclose(f);
		if (read)
			return value == 1;
	}
	return false;
}

static void find_device(struct target_file *self, const struct stat *s)
{
	char fs_type[32] = "", options[256] = "";
	dev_t device = self->is_block ? s->st_rdev : s->st_dev, source = 0;

	bool mounted = !self->is_block && find_mount(self->fd, s->st_dev, fs_type, options, &source);
	if (!set_stat_path(self, device) && source && has_one_device(self->fd, fs_type)) {
		device = source;
		set_stat_path(self, source);
	}
	self->target.rotating = self->stat_path[0] && is_rotating(device);
	self->target.reduces_data = mounted && (!strncmp(fs_type, "zfs", 3) || strstr(options, "compress"));
}

/* --- what the page cache may hold -------------------------------------------------------------------------------- */

static uint64_t first_number(const char *path, const char *key, uint64_t times)
{
	char line[160];
	unsigned long long value = 0;
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)) && sscanf(line + strlen(key), " %llu", &value) == 1)
			break;
	if (f)
		fclose(f);
	return value * times;
}

static uint64_t page_cache_bytes(void)
{
	uint64_t available = first_number("/proc/meminfo", "MemAvailable:", 1024);
	uint64_t group = first_number("/sys/fs/cgroup/memory.max", "", 1);

	return group ? min_of(available, group) : available;
}

/* --- is direct I/O direct ---------------------------------------------------------------------------------------- */

static uint64_t device_read_bytes(struct target *t)
{
	struct target_traffic traffic;

	file_traffic(t, &traffic);
	return traffic.read_bytes;
}

static bool prove_direct(struct target_file *self, struct disk *disk, bool may_write)
{
	struct target *t = &self->target;
	struct statfs fs;
	uint64_t bytes = round_down_u64(min_of((uint64_t)PROBE_BYTES, t->size_bytes), t->align_bytes);

	if (!disk_traits(disk)->direct)
		return false;
	if (!self->is_block && fstatfs(self->fd, &fs) == 0 && /* of a device it tells where its node lies */
		(fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC || (uint32_t)fs.f_type == ZFS_MAGIC))
		return false; /* they take the flag and serve from memory (ZFS before 2.3) */
	if (!self->stat_path[0] || bytes == 0)
		return true; /* nothing can be said against it */
	scoped_free uint8_t *buffer = aligned_alloc(DISK_BUFFER_ALIGN, PROBE_BYTES);
	if (!buffer)
		return false;
	if (may_write) {
		memset(buffer, 0xa5, bytes);
		if (disk_write(disk, 0, buffer, bytes, NULL) < 0 || disk_flush(disk, NULL) < 0)
			return false;
	}
	uint64_t before = device_read_bytes(t);
	for (unsigned i = 0; i < 2; i++)
		if (disk_read(disk, 0, buffer, bytes, NULL) < 0)
			return false;
	return device_read_bytes(t) - before >= 2 * bytes / 10 * 9;
}

static int open_direct(struct target_file *self, const char *path, struct error *err)
{
	struct disk_spec spec = {.text = (char *)path, .path = (char *)path};
	const struct disk_open_options options = {.read_only = self->read_only, .exclusive = !self->read_only};
	struct target *t = &self->target;

	int status = disk_open(&spec, &options, &self->disk, err);
	if (status < 0)
		return status;
	const struct disk_traits *traits = disk_traits(self->disk);
	t->align_bytes = max_of(traits->logical_bytes, 512u);
	t->size_bytes = round_down_u64(traits->size_bytes, t->align_bytes);
	return 0;
}

/* The limit is measured past the cache, also where the target goes through it. */
static void open_twin(struct target_file *self, const char *path)
{
	struct disk_spec spec = {.text = (char *)path, .path = (char *)path};
	const struct disk_open_options options = {.read_only = self->read_only};

	if (!self->disk && disk_open(&spec, &options, &self->twin, NULL) < 0)
		self->twin = NULL;
}

static void prove(struct target_file *self, bool may_write)
{
	struct target *t = &self->target;

	if (self->disk)
		t->direct_effective = prove_direct(self, self->disk, may_write);
	t->bare = t->direct_effective ? self->disk : NULL;
	if (self->twin && prove_direct(self, self->twin, may_write))
		t->bare = self->twin;
}

/* --- opening ----------------------------------------------------------------------------------------------------- */

static int check_room(const char *path, uint64_t size_bytes, struct error *err)
{
	struct statvfs s;

	if (statvfs(path, &s) != 0)
		return error_set(err, error_from_errno(errno), "%s: %s", path, strerror(errno));
	uint64_t available = (uint64_t)s.f_bavail * s.f_frsize, total = (uint64_t)s.f_blocks * s.f_frsize;
	uint64_t keep = (uint64_t)((double)total * KEEP_FREE);
	if (available < keep || available - keep < size_bytes)
		return error_set(err, ERR_REFUSED,
			"%s: a test file of %.1f MB would leave less than %.0f %% of the file system free (%.1f MB "
			"are)",
			path, (double)size_bytes / 1e6, KEEP_FREE * 100, (double)available / 1e6);
	return 0;
}

static int make_file(const char *path, uint64_t size_bytes, char made[512], int *ret_fd, struct error *err)
{
	struct stat s;

	if (stat(path, &s) == 0 && S_ISDIR(s.st_mode))
		snprintf(made, 512, "%.450s/" FILE_PREFIX "%016llx", path, (unsigned long long)os_random_u64());
	else
		snprintf(made, 512, "%.511s", path);
	int fd = open(made, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_set(
			err, error_from_errno(errno), "%s: cannot make a test file: %s", made, strerror(errno));
	if (ftruncate(fd, (off_t)size_bytes) != 0) {
		int status = error_set(err, error_from_errno(errno), "%s: %llu bytes: %s", made,
			(unsigned long long)size_bytes, strerror(errno));
		unlink(made);
		close(fd);
		return status;
	}
	*ret_fd = fd;
	return 0;
}

static int open_made(struct target_file *self, const char *path, const struct target_path_options *o, struct error *err)
{
	char made[512], folder[512];
	struct stat s;

	if (o->size_bytes == 0)
		return error_set(err, ERR_USAGE, "%s: a test file needs a size", path);
	snprintf(folder, sizeof(folder), "%.511s", path);
	if (stat(path, &s) != 0) {
		char *slash = strrchr(folder, '/');
		snprintf(
			slash ? slash + (slash == folder) : folder, slash ? 2 : sizeof(folder), "%s", slash ? "" : ".");
	}
	int status = check_room(folder, o->size_bytes, err);
	if (status == 0)
		status = make_file(path, o->size_bytes, made, &self->fd, err);
	if (status < 0)
		return status;
	if (fstat(self->fd, &s) == 0)
		find_device(self, &s);
	self->target.size_bytes = o->size_bytes;
	if (o->direct)
		status = open_direct(self, made, err);
	if (status == 0)
		open_twin(self, made);
	unlink(made);
	if (status == 0)
		prove(self, true);
	return status;
}

static int open_existing(struct target_file *self, const char *path, const struct target_path_options *o,
	const struct stat *s, struct error *err)
{
	struct disk_facts facts;
	int status = 0;

	self->is_block = S_ISBLK(s->st_mode);
	self->read_only = !o->destroy;
	if (o->destroy) {
		status = disk_inspect(path, &facts, err);
		if (status == 0)
			status = disk_guard(&facts, true, err);
		if (status < 0)
			return status;
	} else if (!self->is_block && !o->zeroes_ok && (double)s->st_blocks * 512 < 0.9 * (double)s->st_size) {
		return error_set(err, ERR_REFUSED,
			"%s: of its %lld bytes only %lld are on the disk: reading holes measures nothing", path,
			(long long)s->st_size, (long long)s->st_blocks * 512);
	}
	self->fd = open(path, (self->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (self->fd < 0)
		return error_set(err, error_from_errno(errno), "%s: %s", path, strerror(errno));
	uint64_t size = (uint64_t)s->st_size;
	if (self->is_block && ioctl(self->fd, BLKGETSIZE64, &size) != 0)
		return error_set(err, error_from_errno(errno), "%s: how large it is: %s", path, strerror(errno));
	self->target.size_bytes = round_down_u64(size, 512);
	find_device(self, s);
	status = o->direct ? open_direct(self, path, err) : 0;
	if (status == 0) {
		open_twin(self, path);
		prove(self, false);
	}
	return status;
}

#define FILE_OPS(kind_, disk_)                                                                                         \
	{                                                                                                              \
		.kind = kind_, .read = file_read, .write = file_write, .flush = file_flush,                            \
		.drop_cache = file_drop_cache, .traffic = file_traffic, .disk = disk_, .close = file_close             \
	}
enum { KIND_FILE, KIND_DIRECTORY, KIND_BLOCK };
static const struct target_ops ops_of[3][2] = {
	[KIND_FILE] = {FILE_OPS("file", NULL), FILE_OPS("file", file_disk)},
	[KIND_DIRECTORY] = {FILE_OPS("directory", NULL), FILE_OPS("directory", file_disk)},
	[KIND_BLOCK] = {FILE_OPS("block", NULL), FILE_OPS("block", file_disk)},
};

int target_open_file(const char *path, const struct target_path_options *o, struct target **ret, struct error *err)
{
	struct target_file *self = calloc(1, sizeof(*self));
	struct stat s;
	int status;

	if (!self)
		return error_set(err, ERR_MEMORY, "no memory for the target %s", path);
	struct target *t = &self->target;
	self->fd = -1;
	*t = (struct target){.ops = &ops_of[KIND_FILE][0],
		.road = "mount",
		.align_bytes = 1,
		.direct_asked = o->direct,
		.state = "healthy"};
	snprintf(t->name, sizeof(t->name), "%s", path);
	bool exists = stat(path, &s) == 0, is_directory = exists && S_ISDIR(s.st_mode);
	if (!exists && errno != ENOENT)
		status = error_set(err, error_from_errno(errno), "%s: %s", path, strerror(errno));
	else if (is_directory || !exists)
		status = open_made(self, path, o, err);
	else if (S_ISREG(s.st_mode) || S_ISBLK(s.st_mode))
		status = open_existing(self, path, o, &s, err);
	else
		status = error_set(err, ERR_USAGE, "%s: neither a file nor a directory nor a block device", path);
	if (status < 0) {
		file_close(t);
		return status;
	}
	t->ops = &ops_of[is_directory ? KIND_DIRECTORY : self->is_block ? KIND_BLOCK : KIND_FILE][self->disk != NULL];
	if (self->is_block)
		snprintf(t->road, sizeof(t->road), "block");
	t->cache_bytes = t->direct_effective ? 0 : page_cache_bytes();
	*ret = t;
	return 0;
}
