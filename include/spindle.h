/*
 * libspindle: arrays of disks in user space.
 *
 *   struct spindle_disk *disks[4]; struct spindle_error err;
 *   for (i…) spindle_disk_open("/dev/sdb", 0, &disks[i], &err);
 *   spindle_array_create(&(struct spindle_array_options){.name = "tank", .layout = "raid5"}, disks, 4, &err);
 *   spindle_array_open("tank", disks, 4, 0, &array, &err);
 *   spindle_array_write(array, 0, buffer, 1 << 20, &err);
 *
 * What callers get wrong most often:
 *   - a write that returned is durable only after spindle_array_flush returned 0;
 *   - buffers need no alignment, offsets and lengths are multiples of spindle_array_sector();
 *   - disks are borrowed by an array: close the array first, then its disks;
 *   - one process owns an array at a time; disks are held with O_EXCL or flock while they are open.
 *
 * Functions return 0 or a negative code and then fill `err` (which may be NULL). Codes and exit classes are
 * listed in spindle(3).
 */
#ifndef SPINDLE_H
#define SPINDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPINDLE_API __attribute__((visibility("default")))

struct spindle_disk;
struct spindle_array;

struct spindle_error {
	int code;
	char text[512];
};

SPINDLE_API const char *spindle_version(void);

/* One word of the DISK grammar (docs/disks.md), without a repeat count. */
#define SPINDLE_READ_ONLY 1u
#define SPINDLE_SHARED 2u /* do not hold the disk exclusively */
SPINDLE_API int spindle_disk_open(const char *spec, unsigned flags, struct spindle_disk **ret_disk, struct spindle_error *err);
SPINDLE_API void spindle_disk_close(struct spindle_disk *disk);

struct spindle_array_options {
	const char *name;
	const char *layout;      /* "raid5", "raid10-far", "raid5x9", … */
	uint64_t chunk_bytes;    /* 0: 128 KiB */
	const char *rotation;    /* NULL: "left-symmetric" */
	const char *write_hole;  /* NULL or "log", "bitmap" */
	struct spindle_disk *log_disk; /* NULL: on the members */
	bool force;
};
SPINDLE_API int spindle_array_create(const struct spindle_array_options *options, struct spindle_disk *const *disks,
				     unsigned disk_count, struct spindle_error *err);
SPINDLE_API int spindle_array_open(const char *name, struct spindle_disk *const *disks, unsigned disk_count, unsigned flags,
				   struct spindle_array **ret_array, struct spindle_error *err);
SPINDLE_API int spindle_array_close(struct spindle_array *array, struct spindle_error *err);
SPINDLE_API uint64_t spindle_array_size(const struct spindle_array *array);
SPINDLE_API uint32_t spindle_array_sector(const struct spindle_array *array);
SPINDLE_API int spindle_array_read(struct spindle_array *array, uint64_t offset, void *buffer, uint64_t length, struct spindle_error *err);
SPINDLE_API int spindle_array_write(struct spindle_array *array, uint64_t offset, const void *buffer, uint64_t length, struct spindle_error *err);
SPINDLE_API int spindle_array_flush(struct spindle_array *array, struct spindle_error *err);
SPINDLE_API void spindle_array_drop_cache(struct spindle_array *array);

struct spindle_array_info {
	char name[64], id[33], layout[32], state[16]; /* state: "healthy", "degraded", "rebuilding", "failed" */
	uint64_t size, chunk;
	unsigned members, members_online, failures_survived, failures_left;
	uint64_t rows_dirty, rows_lost;
	char slow_member[128]; /* "" when none */
};
SPINDLE_API void spindle_array_info(struct spindle_array *array, struct spindle_array_info *ret);

#ifdef __cplusplus
}
#endif
#endif
