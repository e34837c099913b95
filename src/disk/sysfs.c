/* sysfs: what the kernel says of a block device: its make, what it hangs on, who holds it. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "internal.h"

/* The first line of a file, blanks at both ends cut off; "" when there is none. */
static void read_line(const char *dir, const char *name, char *ret, size_t room)
{
	char path[PATH_MAX];
	ret[0] = '\0';
	if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
		return;
	scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t n = read(fd, ret, room - 1);
	size_t length = n > 0 ? (size_t)n : 0;
	ret[length] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
	length = strlen(ret);
	while (length && isspace((unsigned char)ret[length - 1]))
		ret[--length] = '\0';
	size_t blanks = strspn(ret, " \t");
	memmove(ret, ret + blanks, length - blanks + 1);
}

void disk__sysfs_dir(uint64_t device, char ret[DISK__SYSFS_BYTES])
{
	snprintf(ret, DISK__SYSFS_BYTES, "/sys/dev/block/%u:%u", major(device), minor(device));
}

static bool has(const char *dir, const char *name)
{
	char path[PATH_MAX];
	return snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path && access(path, F_OK) == 0;
}

static uint64_t device_of(const char *dir)
{
	char text[64];
	unsigned ma, mi;
	read_line(dir, "dev", text, sizeof text);
	return sscanf(text, "%u:%u", &ma, &mi) == 2 ? makedev(ma, mi) : 0;
}

uint64_t disk__sysfs_whole(uint64_t device)
{
	char dir[DISK__SYSFS_BYTES], parent[DISK__SYSFS_BYTES + 4];
	disk__sysfs_dir(device, dir);
	if (!has(dir, "partition"))
		return device;
	snprintf(parent, sizeof parent, "%s/..", dir);
	uint64_t whole = device_of(parent);
	return whole ? whole : device;
}

static void read_transport(const char *dir, char *ret, size_t room)
{
	static const struct {
		const char *part, *name;
	} known[] = {{"/usb", "usb"}, {"/nvme/", "nvme"}, {"/virtio", "virtio"}, {"/ata", "ata"},
		{"/end_device-", "sas"}, {"/session", "iscsi"}, {"/rport-", "fc"}, {"/mmc", "mmc"},
		{"/block/loop", "loop"}, {"/block/dm-", "dm"}, {"/block/md", "md"}, {"/block/ram", "ram"},
		{"/block/zram", "zram"}, {"/block/nbd", "nbd"}};
	char real[PATH_MAX];
	ret[0] = '\0';
	if (!realpath(dir, real))
		return;
	for (size_t i = 0; i < array_count(known); i++)
		if (strstr(real, known[i].part)) {
			snprintf(ret, room, "%s", known[i].name);
			return;
		}
}

/* SCSI keeps the serial number in a binary page: four bytes of header, then text. */
static void read_scsi_serial(const char *dir, char *ret, size_t room)
{
	char path[PATH_MAX];
	unsigned char page[256];
	if (snprintf(path, sizeof path, "%s/device/vpd_pg80", dir) >= (int)sizeof path)
		return;
	scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, page, sizeof page) : -1;
	if (n <= 4)
		return;
	size_t length = 0;
	for (ssize_t i = 4; i < n && length < room - 1; i++)
		if (isgraph(page[i]))
			ret[length++] = (char)page[i];
	ret[length] = '\0';
}

void disk__sysfs_describe(uint64_t device, struct disk__description *ret)
{
	char dir[DISK__SYSFS_BYTES], text[PATH_MAX];
	*ret = (struct disk__description){0};
	disk__sysfs_dir(disk__sysfs_whole(device), dir);
	read_line(dir, "loop/backing_file", text, sizeof text);
	if (text[0]) {
		snprintf(ret->model, sizeof ret->model, "loop of %.55s", text);
		snprintf(ret->loop_file, sizeof ret->loop_file, "%.255s", text);
		read_line(dir, "loop/dio", text, sizeof text);
		ret->loop_cached = strcmp(text, "1") != 0;
	} else {
		static const char *const models[] = {"device/model", "dm/name", "md/level"};
		for (size_t i = 0; i < array_count(models) && !ret->model[0]; i++)
			read_line(dir, models[i], ret->model, sizeof ret->model);
	}
	read_line(dir, "device/serial", ret->serial, sizeof ret->serial);
	if (!ret->serial[0])
		read_line(dir, "serial", ret->serial, sizeof ret->serial);
	if (!ret->serial[0])
		read_scsi_serial(dir, ret->serial, sizeof ret->serial);
	read_transport(dir, ret->transport, sizeof ret->transport);
	read_line(dir, "queue/rotational", text, sizeof text);
	ret->rotating = strcmp(text, "1") == 0 && !ret->loop_file[0];
}

bool disk__sysfs_holder(uint64_t device, char *ret_name, size_t room)
{
	char dir[DISK__SYSFS_BYTES], path[DISK__SYSFS_BYTES + 16];
	disk__sysfs_dir(device, dir);
	snprintf(path, sizeof path, "%s/holders", dir);
	DIR *d = opendir(path);
	bool found = false;
	for (struct dirent *e; d && !found && (e = readdir(d));)
		if (e->d_name[0] != '.') {
			char named[64], sub[NAME_MAX + 32];
			snprintf(sub, sizeof sub, "/sys/block/%s", e->d_name);
			read_line(sub, "dm/name", named, sizeof named);
			snprintf(ret_name, room, "%.40s%s%s%s", e->d_name, named[0] ? " (" : "", named,
				named[0] ? ")" : "");
			found = true;
		}
	if (d)
		closedir(d);
	return found;
}

size_t disk__sysfs_partitions(uint64_t device, uint64_t *ret_devices, size_t room)
{
	char dir[DISK__SYSFS_BYTES];
	size_t count = 0;
	disk__sysfs_dir(device, dir);
	DIR *d = opendir(dir);
	for (struct dirent *e; d && count < room && (e = readdir(d));) {
		char sub[DISK__SYSFS_BYTES + NAME_MAX + 2];
		snprintf(sub, sizeof sub, "%s/%s", dir, e->d_name);
		if (e->d_name[0] == '.' || !has(sub, "partition"))
			continue;
		uint64_t part = device_of(sub);
		if (part)
			ret_devices[count++] = part;
	}
	if (d)
		closedir(d);
	return count;
}

size_t disk__sysfs_loops_of(
	const char *real_path, uint64_t file_device, uint64_t file_inode, uint64_t *ret_devices, size_t room)
{
	size_t count = 0;
	DIR *d = opendir("/sys/block");
	for (struct dirent *e; d && count < room && (e = readdir(d));) {
		char dir[NAME_MAX + 32], file[PATH_MAX];
		struct stat st;
		if (strncmp(e->d_name, "loop", 4) != 0)
			continue;
		snprintf(dir, sizeof dir, "/sys/block/%s", e->d_name);
		read_line(dir, "loop/backing_file", file, sizeof file);
		if (!file[0])
			continue;
		bool same = strcmp(file, real_path) == 0 ||
			    (stat(file, &st) == 0 && st.st_dev == file_device && st.st_ino == file_inode);
		uint64_t loop = same ? device_of(dir) : 0;
		if (loop)
			ret_devices[count++] = loop;
	}
	if (d)
		closedir(d);
	return count;
}
