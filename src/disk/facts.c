/*
 * facts: what is known of a path before anything is written to it, and whether it may be written to.
 *
 * The order of trust: who uses it now (mounts, swap, holders, locks; nothing lifts these), then what lies on it
 * (signatures by libblkid in its low-level mode, partition tables, Spindle's own labels at both ends), then whether
 * anything lies on it at all (a sample of the content). Reads only; a device is opened for reading.
 */
#include <blkid/blkid.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#define SAMPLES 64
#define SAMPLE_BYTES 4096u
#define EDGE_BYTES (1u << 20)
#define EXTENTS_MAX 1024
#define LABEL_OFFSET 4096u
#define LABEL_NAME_OFFSET 64u
#define LABEL_NAME_BYTES 64u

/* --- signatures -------------------------------------------------------------------------------------- */

/* Reads all of it or says no. */
static bool read_at(int fd, uint64_t offset, void *buffer, size_t bytes)
{
	uint8_t *to = buffer;
	while (bytes) {
		ssize_t n = pread(fd, to, bytes, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		to += n;
		offset += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return true;
}

static bool probe_label(int fd, uint64_t at_bytes, struct disk_facts *ret)
{
	uint8_t label[LABEL_NAME_OFFSET + LABEL_NAME_BYTES];
	char name[LABEL_NAME_BYTES];
	if (!read_at(fd, at_bytes, label, sizeof label))
		return false;
	bool array = memcmp(label, "SPNDLARR", 8) == 0;
	if (!array && memcmp(label, "SPINDLE1", 8) != 0)
		return false;
	memcpy(name, label + LABEL_NAME_OFFSET, sizeof name - 1);
	name[sizeof name - 1] = '\0';
	for (char *p = name; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	snprintf(ret->signature, sizeof ret->signature, array ? "spindle array%s%.48s" : "spindle label%s%.48s",
		name[0] ? " " : "", name);
	ret->signature_offset_bytes = at_bytes;
	return true;
}

/* docs/format.md: the header of a pool's label lies 4 KiB behind the front, and the same before the end. */
#define POOL_HEADER_OFFSET 4096u
#define POOL_LABEL_BYTES (512u << 10)

static bool probe_pool(int fd, uint64_t label_bytes, struct disk_facts *ret)
{
	char magic[8];

	if (!read_at(fd, label_bytes + POOL_HEADER_OFFSET, magic, sizeof magic) || memcmp(magic, "SPNDPOOL", 8) != 0)
		return false;
	snprintf(ret->signature, sizeof ret->signature, "spindle pool");
	ret->signature_offset_bytes = label_bytes + POOL_HEADER_OFFSET;
	return true;
}

static bool probe_labels(int fd, struct disk_facts *ret)
{
	uint64_t mib = round_down_u64(ret->size_bytes, 1 << 20);

	if (probe_pool(fd, 0, ret) || (mib > POOL_LABEL_BYTES && probe_pool(fd, mib - POOL_LABEL_BYTES, ret)))
		return true;
	if (probe_label(fd, LABEL_OFFSET, ret))
		return true;
	uint64_t end = round_down_u64(ret->size_bytes, 4096);
	return end > EDGE_BYTES && probe_label(fd, end - EDGE_BYTES + LABEL_OFFSET, ret);
}

/* libblkid's names where we say them otherwise */
static const char *our_name(const char *type)
{
	return strcmp(type, "linux_raid_member") == 0 ? "mdraid" : type;
}

static bool take_signature(blkid_probe pr, const char *type_key, const char *offset_key, struct disk_facts *ret)
{
	const char *type = NULL, *offset = NULL;
	if (blkid_probe_lookup_value(pr, type_key, &type, NULL) != 0 || !type)
		return false;
	snprintf(ret->signature, sizeof ret->signature, "%s", our_name(type));
	if (blkid_probe_lookup_value(pr, offset_key, &offset, NULL) == 0 && offset)
		ret->signature_offset_bytes = strtoull(offset, NULL, 10);
	return true;
}

/* ERR_REFUSED when it cannot be told: then nobody may write there. */
static int probe_foreign(int fd, struct disk_facts *ret, struct error *err)
{
	blkid_probe pr = blkid_new_probe();
	if (!pr)
		return error_set(err, ERR_MEMORY, "out of memory while looking at %s", ret->path);
	int rc = blkid_probe_set_device(pr, fd, 0, 0);
	if (rc == 0) {
		blkid_probe_enable_superblocks(pr, 1);
		blkid_probe_set_superblocks_flags(pr, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_MAGIC | BLKID_SUBLKS_BADCSUM);
		blkid_probe_enable_partitions(pr, 1);
		blkid_probe_set_partitions_flags(pr, BLKID_PARTS_MAGIC | BLKID_PARTS_FORCE_GPT);
		rc = blkid_do_safeprobe(pr);
	}
	bool known = rc == 0 && (take_signature(pr, "TYPE", "SBMAGIC_OFFSET", ret) ||
					take_signature(pr, "PTTYPE", "PTMAGIC_OFFSET", ret));
	blkid_free_probe(pr);
	if (rc == -2 || (rc == 0 && !known))
		snprintf(ret->signature, sizeof ret->signature, "ambivalent");
	if (rc == -1)
		return error_set(
			err, ERR_REFUSED, "%s: its content could not be examined: %s", ret->path, strerror(errno));
	return 0;
}

/* --- content ----------------------------------------------------------------------------------------- */

static bool is_zero(const uint8_t *p, size_t bytes)
{
	return bytes == 0 || (p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0);
}

/* Holes of a file count as zeros and are not read. Unreadable places count as content. */
static bool is_zero_at(int fd, uint64_t offset, uint64_t bytes, uint8_t *buffer, bool regular)
{
	if (regular) {
		off_t data = lseek(fd, (off_t)offset, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			return true;
		if (data >= 0 && (uint64_t)data >= offset + bytes)
			return true;
	}
	return read_at(fd, offset, buffer, bytes) && is_zero(buffer, bytes);
}

/* Samples at even steps miss a little data in a large sparse file; its extents lead there. */
static bool extents_are_zero(int fd, uint64_t size, uint8_t *buffer)
{
	off_t at = 0;
	for (unsigned i = 0; i < EXTENTS_MAX; i++) {
		at = lseek(fd, at, SEEK_DATA);
		if (at < 0 || (uint64_t)at >= size)
			return true;
		uint64_t bytes = min_of((uint64_t)SAMPLE_BYTES, size - (uint64_t)at);
		if (!read_at(fd, (uint64_t)at, buffer, bytes) || !is_zero(buffer, bytes))
			return false;
		at = lseek(fd, at, SEEK_HOLE);
		if (at < 0)
			return true;
	}
	return true;
}

static bool looks_empty(int fd, uint64_t size, bool regular, uint8_t *buffer)
{
	uint64_t edge = min_of(size, (uint64_t)EDGE_BYTES);
	if (!is_zero_at(fd, 0, edge, buffer, regular) || !is_zero_at(fd, size - edge, edge, buffer, regular))
		return false;
	for (unsigned i = 1; i <= SAMPLES && size > 2 * EDGE_BYTES; i++) {
		uint64_t at = round_down_u64(size / (SAMPLES + 1) * i, SAMPLE_BYTES);
		if (!is_zero_at(fd, at, min_of((uint64_t)SAMPLE_BYTES, size - at), buffer, regular))
			return false;
	}
	return !regular || extents_are_zero(fd, size, buffer);
}

/* --- one path ---------------------------------------------------------------------------------------- */

static const char *kind_of(mode_t mode)
{
	return S_ISFIFO(mode)   ? "a FIFO"
	       : S_ISSOCK(mode) ? "a socket"
	       : S_ISCHR(mode)  ? "a character device"
				: "no disk";
}

static void describe_device(uint64_t device, struct disk_facts *ret)
{
	struct disk__description x;
	disk__sysfs_describe(device, &x);
	memcpy(ret->model, x.model, sizeof ret->model);
	memcpy(ret->serial, x.serial, sizeof ret->serial);
	memcpy(ret->transport, x.transport, sizeof ret->transport);
	ret->rotating = x.rotating;
	disk__use_of_device(device, ret->in_use, sizeof ret->in_use);
}

static void describe_file(const struct stat *st, struct disk_facts *ret)
{
	struct disk__description x;
	disk__sysfs_describe(st->st_dev, &x);
	ret->rotating = x.rotating;
	ret->size_bytes = (uint64_t)st->st_size;
	ret->logical_bytes = 512;
	ret->physical_bytes = 4096;
	disk__use_of_file(ret->real_path, st->st_dev, st->st_ino, ret->in_use, sizeof ret->in_use);
}

static int measure_device(int fd, struct disk_facts *ret, struct error *err)
{
	int logical = 0;
	unsigned physical = 0;
	if (ioctl(fd, BLKGETSIZE64, &ret->size_bytes) != 0 || ioctl(fd, BLKSSZGET, &logical) != 0)
		return error_set(
			err, error_from_errno(errno), "%s does not tell its size: %s", ret->path, strerror(errno));
	if (ioctl(fd, BLKPBSZGET, &physical) != 0)
		physical = (unsigned)logical;
	ret->logical_bytes = (uint32_t)logical;
	ret->physical_bytes = max_of(physical, (unsigned)logical);
	return 0;
}

/* Whether somebody holds it in a way that no list shows. */
static void try_exclusive(int fd, const struct stat *st, struct disk_facts *ret)
{
	char holder[128];
	if (ret->in_use[0])
		return;
	if (ret->is_block_device) {
		int probe = open(ret->real_path, O_RDONLY | O_EXCL | O_CLOEXEC);
		if (probe < 0 && errno == EBUSY)
			snprintf(ret->in_use, sizeof ret->in_use, "open exclusively elsewhere");
		if (probe >= 0)
			close(probe);
		return;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		flock(fd, LOCK_UN);
		return;
	}
	if (errno != EWOULDBLOCK)
		return;
	disk__lock_holder(st->st_dev, st->st_ino, holder, sizeof holder);
	snprintf(ret->in_use, sizeof ret->in_use, holder[0] ? "held by %s" : "open exclusively elsewhere", holder);
}

static int examine(int fd, const struct stat *st, struct disk_facts *ret, struct error *err)
{
	int rc = ret->is_block_device ? measure_device(fd, ret, err) : 0;
	if (rc != 0)
		return rc;
	try_exclusive(fd, st, ret);
	ret->empty = true;
	if (ret->size_bytes == 0)
		return 0;
	uint8_t *buffer = malloc(EDGE_BYTES);
	if (!buffer)
		return error_set(err, ERR_MEMORY, "out of memory while looking at %s", ret->path);
	ret->empty = looks_empty(fd, ret->size_bytes, !ret->is_block_device, buffer);
	free(buffer);
	if (!probe_labels(fd, ret))
		rc = probe_foreign(fd, ret, err);
	return rc;
}

static int begin(const char *path, struct stat *ret_st, struct disk_facts *f, struct error *err)
{
	char real[PATH_MAX];
	size_t length = strlen(path);
	if (length >= sizeof f->path)
		return error_set(err, ERR_UNSUPPORTED, "%.64s…: paths of disks have at most %zu bytes", path,
			sizeof f->path - 1);
	memcpy(f->path, path, length + 1);
	memcpy(f->real_path, path, length + 1);
	if (stat(path, ret_st) != 0) {
		if (errno == ENOENT)
			return 0;
		return error_set(err, error_from_errno(errno), "%s: %s", path, strerror(errno));
	}
	f->exists = true;
	if (realpath(path, real) && (length = strlen(real)) < sizeof f->real_path)
		memcpy(f->real_path, real, length + 1);
	f->is_directory = S_ISDIR(ret_st->st_mode);
	f->is_block_device = S_ISBLK(ret_st->st_mode);
	f->device = f->is_block_device ? ret_st->st_rdev : ret_st->st_dev;
	f->inode = f->is_block_device ? 0 : ret_st->st_ino;
	return 0;
}

int disk_inspect(const char *path, struct disk_facts *ret, struct error *err)
{
	struct disk_facts f = {.empty = true};
	struct stat st;
	int rc = begin(path, &st, &f, err);
	if (rc != 0)
		return rc;
	if (f.exists && !f.is_directory) {
		if (f.is_block_device)
			describe_device(f.device, &f);
		else if (S_ISREG(st.st_mode))
			describe_file(&st, &f);
		else
			return error_set(
				err, ERR_UNSUPPORTED, "%s is %s, not a disk or a file", path, kind_of(st.st_mode));
		scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		f.empty = false;
		if (fd >= 0)
			rc = examine(fd, &st, &f, err);
		else if (!f.in_use[0]) /* else the use is the better reason, and the guard will give it */
			rc = error_set(err, error_from_errno(errno), "%s cannot be read: %s", path, strerror(errno));
	}
	if (rc == 0)
		*ret = f;
	return rc;
}

/* --- may it be written to? --------------------------------------------------------------------------- */

static void name_disk(const struct disk_facts *f, char *text, size_t room)
{
	snprintf(text, room, "%s%s%s%s%s%s", f->path, f->model[0] ? " (" : "", f->model,
		f->model[0] && f->serial[0] ? ", serial " : "", f->model[0] ? f->serial : "", f->model[0] ? ")" : "");
}

int disk_guard(const struct disk_facts *f, bool forced, struct error *err)
{
	char name[400];
	name_disk(f, name, sizeof name);
	if (!f->exists)
		return error_set(err, ERR_NOT_FOUND, "%s does not exist", name);
	if (f->is_directory)
		return error_set(err, ERR_REFUSED, "%s is a directory, not a disk", name);
	if (f->in_use[0])
		return error_set(err, ERR_REFUSED, "%s is in use: %s", name, f->in_use);
	if (forced)
		return 0;
	if (strcmp(f->signature, "ambivalent") == 0)
		return error_set(err, ERR_REFUSED,
			"%s carries the signatures of several file systems or volume managers (--destroy %s would "
			"erase it)",
			name, f->path);
	if (f->signature[0])
		return error_set(err, ERR_REFUSED, "%s holds %s, found at byte %llu (--destroy %s would erase it)",
			name, f->signature, (unsigned long long)f->signature_offset_bytes, f->path);
	if (!f->empty)
		return error_set(err, ERR_REFUSED, "%s is not empty (--destroy %s would erase it)", name, f->path);
	return 0;
}
