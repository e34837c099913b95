/*
 * libspindle: arrays of disks, and pools, in user space.
 *
 *   struct spindle_disk *disks[4]; struct spindle_error err;
 *   for (i…) spindle_disk_open("/dev/sdb", 0, &disks[i], &err);
 *   spindle_array_create(&(struct spindle_array_options){.name = "tank", .layout = "raid5"}, disks, 4, &err);
 *   spindle_array_open("tank", disks, 4, 0, &array, &err);
 *   spindle_array_write(array, 0, buffer, 1 << 20, &err);
 *
 *   struct spindle_pool_group group = {"parity1", 4};
 *   spindle_pool_create(&(struct spindle_pool_options){.name = "tank", .groups = &group, .group_count = 1}, disks, 4,
 * &err); spindle_pool_open("tank", disks, 4, NULL, &pool, &err); spindle_volume_create(pool, "tank/vol", 1ull << 30, 0,
 * NULL, &err); spindle_volume_open(pool, "tank/vol", &volume, &err); spindle_volume_write(volume, 0, buffer, 1 << 20,
 * &err);
 *
 * What callers get wrong most often:
 *   - a write that returned is durable only after spindle_array_flush or spindle_volume_flush returned 0;
 *   - buffers need no alignment; offsets and lengths are multiples of spindle_array_sector() in an array, any bytes in
 * a volume;
 *   - disks are borrowed by an array or a pool: close volumes, then that, then its disks;
 *   - one process owns an array or a pool at a time; disks are held with O_EXCL or flock while they are open.
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
SPINDLE_API int spindle_disk_open(
	const char *spec, unsigned flags, struct spindle_disk **ret_disk, struct spindle_error *err);
SPINDLE_API void spindle_disk_close(struct spindle_disk *disk);

struct spindle_array_options {
	const char *name;
	const char *layout;            /* "raid5", "raid10-far", "raid5x9", … */
	uint64_t chunk_bytes;          /* 0: 128 KiB */
	const char *rotation;          /* NULL: "left-symmetric" */
	const char *write_hole;        /* NULL or "log", "bitmap" */
	struct spindle_disk *log_disk; /* NULL: on the members */
	bool force;
};
SPINDLE_API int spindle_array_create(const struct spindle_array_options *options, struct spindle_disk *const *disks,
	unsigned disk_count, struct spindle_error *err);
SPINDLE_API int spindle_array_open(const char *name, struct spindle_disk *const *disks, unsigned disk_count,
	unsigned flags, struct spindle_array **ret_array, struct spindle_error *err);
SPINDLE_API int spindle_array_close(struct spindle_array *array, struct spindle_error *err);
SPINDLE_API uint64_t spindle_array_size(const struct spindle_array *array);
SPINDLE_API uint32_t spindle_array_sector(const struct spindle_array *array);
SPINDLE_API int spindle_array_read(
	struct spindle_array *array, uint64_t offset, void *buffer, uint64_t length, struct spindle_error *err);
SPINDLE_API int spindle_array_write(
	struct spindle_array *array, uint64_t offset, const void *buffer, uint64_t length, struct spindle_error *err);
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

/* --- pools: copy-on-write stripes with checksums, holding volumes --- */

struct spindle_pool;
struct spindle_volume;

struct spindle_pool_group {
	const char *
		kind; /* "disk", "mirror", "parity1" to "parity3" (or "raidz1" …), with ":WIDTH" for narrower stripes */
	unsigned disks; /* the next so many of those given */
};
struct spindle_pool_options {
	const char *name;
	const struct spindle_pool_group *groups;
	unsigned group_count;
	uint64_t log_bytes; /* 0: by the size of the pool */
	bool force;         /* over the label of another pool; mixed redundancy */
};
SPINDLE_API int spindle_pool_create(const struct spindle_pool_options *options, struct spindle_disk *const *disks,
	unsigned disk_count, struct spindle_error *err);

#define SPINDLE_FORCE 4u /* last owned by another host: claim it */
struct spindle_pool_open_options {
	unsigned flags;       /* SPINDLE_READ_ONLY, SPINDLE_FORCE */
	unsigned rewind;      /* so many checkpoints back */
	uint64_t cache_bytes; /* 0: a quarter of the memory */
	uint64_t dirty_bytes; /* 0: 1 GiB, less in small pools */
};
/* options may be NULL. name: of the pool, or its id, or NULL when the disks hold only one. */
SPINDLE_API int spindle_pool_open(const char *name, struct spindle_disk *const *disks, unsigned disk_count,
	const struct spindle_pool_open_options *options, struct spindle_pool **ret_pool, struct spindle_error *err);
/* Both make all durable and free the pool in any case; an exported pool is owned by nobody. */
SPINDLE_API int spindle_pool_close(struct spindle_pool *pool, struct spindle_error *err);
SPINDLE_API int spindle_pool_export(struct spindle_pool *pool, struct spindle_error *err);
SPINDLE_API int spindle_pool_commit(struct spindle_pool *pool, struct spindle_error *err); /* all volumes are durable */
SPINDLE_API void spindle_pool_drop_cache(struct spindle_pool *pool);

struct spindle_pool_info {
	char name[256], id[33], state[16]; /* state: "online", "degraded", "suspended" */
	bool read_only;
	unsigned disks, disks_online, groups, failures_left;
	uint64_t size, used, available;    /* bytes of data */
	uint64_t cache_hits, cache_misses; /* records */
	uint64_t prefetch_bytes, prefetch_hit_bytes, dirty_bytes;
	uint64_t data_bytes, parity_bytes, metadata_bytes, log_bytes; /* written to the disks */
	uint64_t repaired, unrecoverable;
};
SPINDLE_API void spindle_pool_info(struct spindle_pool *pool, struct spindle_pool_info *ret);

/* path: "POOL/NAME". record_bytes: 4 KiB to 1 MiB, a power of two, 0: the default. properties: "name=value", NULL
 * ended, or NULL. The volume takes space as it is written. */
SPINDLE_API int spindle_volume_create(struct spindle_pool *pool, const char *path, uint64_t bytes,
	uint32_t record_bytes, const char *const *properties, struct spindle_error *err);
SPINDLE_API int spindle_volume_open(
	struct spindle_pool *pool, const char *path, struct spindle_volume **ret_volume, struct spindle_error *err);
SPINDLE_API void spindle_volume_close(struct spindle_volume *volume);
SPINDLE_API uint64_t spindle_volume_size(const struct spindle_volume *volume);
SPINDLE_API uint32_t spindle_volume_record(const struct spindle_volume *volume);
SPINDLE_API int spindle_volume_read(
	struct spindle_volume *volume, uint64_t offset, void *buffer, uint64_t length, struct spindle_error *err);
SPINDLE_API int spindle_volume_write(
	struct spindle_volume *volume, uint64_t offset, const void *buffer, uint64_t length, struct spindle_error *err);
SPINDLE_API int spindle_volume_flush(struct spindle_volume *volume, struct spindle_error *err);
SPINDLE_API int spindle_volume_discard(
	struct spindle_volume *volume, uint64_t offset, uint64_t length, struct spindle_error *err);

#ifdef __cplusplus
}
#endif
#endif
