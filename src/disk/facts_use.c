/* facts_use: who uses a disk or a file already, as far as the kernel tells without opening it. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "internal.h"

#define DEVICES_MAX 160

/* The device itself, its partitions, and the disk it is a partition of. */
struct family {
	uint64_t devices[DEVICES_MAX];
	size_t count;
};

static void family_of(uint64_t device, struct family *ret)
{
	ret->devices[0] = device;
	ret->count = 1 + disk__sysfs_partitions(device, ret->devices + 1, DEVICES_MAX - 2);
	uint64_t whole = disk__sysfs_whole(device);
	if (whole != device)
		ret->devices[ret->count++] = whole;
}

static bool is_of(const struct family *f, uint64_t device)
{
	for (size_t i = 0; i < f->count; i++)
		if (f->devices[i] == device)
			return true;
	return false;
}

static bool is_device_path_of(const struct family *f, const char *path)
{
	struct stat st;
	return path[0] == '/' && stat(path, &st) == 0 && S_ISBLK(st.st_mode) && is_of(f, st.st_rdev);
}

/* The kernel writes blanks, tabs, newlines and backslashes as \ooo. */
static void unescape(char *p)
{
	char *to = p;
	for (; *p; p++) {
		unsigned value;
		if (p[0] == '\\' && p[1] && p[2] && p[3] && sscanf(p + 1, "%3o", &value) == 1) {
			*to++ = (char)value;
			p += 3;
		} else {
			*to++ = *p;
		}
	}
	*to = '\0';
}

/* 36 35 98:0 /root /mnt/point options … - type source options; where several are mounted, the first. btrfs and
 * others show a device number of their own, so the source is looked at too. */
static bool find_mount(const struct family *f, char *ret_point, size_t room)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t line_room = 0;
	bool found = false;
	while (file && !found && getline(&line, &line_room, file) > 0) {
		unsigned ma, mi;
		int at = 0;
		if (sscanf(line, "%*u %*u %u:%u %*s %n", &ma, &mi, &at) < 2 || at == 0)
			continue;
		char *point = line + at, *tail = strstr(point, " - "), *source = NULL;
		if (tail) {
			source = strchr(tail + 3, ' ');
			source = source ? source + 1 : NULL;
		}
		if (source)
			source[strcspn(source, " \n")] = '\0';
		point[strcspn(point, " \n")] = '\0';
		if (source)
			unescape(source);
		if (is_of(f, makedev(ma, mi)) || (source && is_device_path_of(f, source))) {
			unescape(point);
			snprintf(ret_point, room, "%s", point);
			found = true;
		}
	}
	free(line);
	if (file)
		fclose(file);
	return found;
}

/* `file` NULL: a device of the family; else the file of that identity. */
static bool is_swap(const struct family *f, const struct stat *swap_file)
{
	FILE *file = fopen("/proc/swaps", "re");
	char *line = NULL;
	size_t room = 0;
	bool found = false;
	while (file && !found && getline(&line, &room, file) > 0) {
		struct stat st;
		line[strcspn(line, " \t\n")] = '\0';
		unescape(line);
		if (line[0] != '/')
			continue;
		if (swap_file)
			found = stat(line, &st) == 0 && st.st_dev == swap_file->st_dev &&
				st.st_ino == swap_file->st_ino;
		else
			found = is_device_path_of(f, line);
	}
	free(line);
	if (file)
		fclose(file);
	return found;
}

static bool find_holder(const struct family *f, char *ret, size_t room)
{
	for (size_t i = 0; i < f->count; i++)
		if (disk__sysfs_holder(f->devices[i], ret, room))
			return true;
	return false;
}

void disk__use_of_device(uint64_t device, char *ret, size_t room)
{
	struct family f;
	char text[224];
	family_of(device, &f);
	ret[0] = '\0';
	if (find_mount(&f, text, sizeof text))
		snprintf(ret, room, "mounted on %s", text);
	else if (is_swap(&f, NULL))
		snprintf(ret, room, "swap");
	else if (find_holder(&f, text, sizeof text))
		snprintf(ret, room, "held by %s", text);
}

void disk__use_of_file(const char *real_path, uint64_t device, uint64_t inode, char *ret, size_t room)
{
	struct stat identity = {.st_dev = device, .st_ino = inode};
	uint64_t loops[16];
	ret[0] = '\0';
	if (is_swap(NULL, &identity)) {
		snprintf(ret, room, "swap");
		return;
	}
	size_t count = disk__sysfs_loops_of(real_path, device, inode, loops, array_count(loops));
	for (size_t i = 0; i < count; i++) {
		char use[224];
		disk__use_of_device(loops[i], use, sizeof use);
		if (use[0] || i == 0)
			snprintf(ret, room, "%s%sthe file behind /dev/loop%u", use, use[0] ? " through " : "",
				minor(loops[i]));
		if (use[0])
			return;
	}
}

/* 1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF */
void disk__lock_holder(uint64_t device, uint64_t inode, char *ret, size_t room)
{
	FILE *file = fopen("/proc/locks", "re");
	char *line = NULL;
	size_t line_room = 0;
	ret[0] = '\0';
	while (file && !ret[0] && getline(&line, &line_room, file) > 0) {
		long pid;
		unsigned ma, mi;
		unsigned long long ino;
		if (sscanf(line, "%*u: FLOCK %*s %*s %ld %x:%x:%llu", &pid, &ma, &mi, &ino) != 4)
			continue;
		if (makedev(ma, mi) != device || ino != inode)
			continue;
		char path[64], name[64] = "";
		snprintf(path, sizeof path, "/proc/%ld/comm", pid);
		FILE *comm = fopen(path, "re");
		if (comm) {
			if (!fgets(name, sizeof name, comm))
				name[0] = '\0';
			fclose(comm);
		}
		name[strcspn(name, "\n")] = '\0';
		snprintf(ret, room, "%s (process %ld)", name[0] ? name : "another program", pid);
	}
	free(line);
	if (file)
		fclose(file);
}
