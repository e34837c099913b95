/*
 * pool: copy-on-write stripes over groups of disks. May use base, os, disk and layout (its parity), lz4, zstd, libcrypto.
 *
 * The story and the rules POOL-1 to POOL-10 are at the head of pool.c; what lies on the disks in docs/format.md; how it
 * works in docs/pool.md. Functions return 0 or a negative code with a sentence in `err`. All calls may come from many
 * threads at once, except open, close and destroy. Disks are borrowed: close the pool first.
 */
#ifndef POOL_H
#define POOL_H

#include "disk.h"

struct pool;
struct volume; /* an open volume */

/* --- create, import, export --------------------------------------------------------------------------------------- */

struct pool_vdev {             /* one group */
	char kind[16];         /* "disk", "mirror", "parity1" … "parity3" */
	unsigned parity;       /* disk 0, mirror disks − 1 */
	unsigned width;        /* columns of a full stripe; 0: all disks of the group */
	unsigned first, count; /* which of the disks */
};
struct pool_create_options {
	const char *
		name; /* [A-Za-z][A-Za-z0-9_.:-]{0,254}, none of the reserved words (mirror, raidz…, parity…, spare, log) */
	const struct pool_vdev *vdevs;
	unsigned vdev_count;
	bool force;         /* over a label of another pool; mixed redundancy */
	uint64_t log_bytes; /* 0: clamp(pool / 64, 1 MiB, 128 MiB), at most a 16th of a disk */
	uint64_t run_bytes; /* 0: 4 MiB a disk where one rotates, else 1 MiB */
};
int pool_create(const struct pool_create_options *o, struct disk *const *disks, unsigned disk_count, struct error *err);
/* What it would be, for -n: usable bytes and failures survived; makes the same checks. */
struct pool_plan {
	uint64_t raw_bytes, usable_bytes, reserve_bytes;
	unsigned failures_survived;
};
int pool_create_plan(const struct pool_create_options *o, struct disk *const *disks, unsigned disk_count,
	struct pool_plan *ret, struct error *err);

struct pool_tuning {
	uint64_t cache_bytes; /* records and nodes, default a quarter of RAM (256 MiB in the simulated world) */
	uint64_t dirty_bytes; /* default min(1 GiB, pool / 64), at least 4 MiB */
	uint64_t commit_ns;   /* default 5 s */
	unsigned workers;     /* compress and checksum, default the CPUs */
	bool no_prefetch;
	unsigned break_rule; /* builds with POOL_MUTATE: which rule POOL-n to break; else ignored */
};
void pool_tuning_init(struct pool_tuning *t);
struct pool_open_options {
	const char *name; /* or the id in hex; NULL: the one pool that the disks hold */
	bool read_only;   /* nothing is written, the log is replayed in memory only */
	bool force;       /* last owned elsewhere: claim without the wait */
	unsigned rewind;  /* -F: how many checkpoints back (0: the newest that verifies) */
	struct pool_tuning tuning;
};
void pool_open_options_init(struct pool_open_options *o);
/* ERR_NOT_FOUND, ERR_BUSY (owned by a live host), ERR_LOST (too many disks missing), ERR_CORRUPT. What cannot be trusted but
 * can be read is opened read-only: pool_status says why. */
int pool_open(struct pool **ret_pool, const struct pool_open_options *o, struct disk *const *disks, unsigned disk_count,
	struct error *err);
int pool_close(
	struct pool *p, struct error *err); /* commits, checkpoints; frees it in any case. Still owned by this host */
int pool_export(struct pool *p, struct error *err);     /* the same, and owned by nobody */
void pool_abandon(struct pool *p);                      /* as after a power cut: nothing more is written. For tests */
int pool_destroy(struct pool *p, struct error *err);    /* clears the labels; frees it in any case */
int pool_commit(struct pool *p, struct error *err);     /* all that returned before is durable after it */
int pool_checkpoint(struct pool *p, struct error *err); /* and folded */

/* What a disk's label says, for scans. ERR_NOT_FOUND: none. */
struct pool_label_facts {
	char name[256], id[33], disk_id[33], host_name[64];
	unsigned disk_index, disk_count;
	bool exported, owned_here;
	uint64_t size_bytes, generation;
};
int pool_label_read(struct disk *d, struct pool_label_facts *ret, struct error *err);
int pool_label_clear(struct disk *d, struct error *err);

/* --- datasets ---------------------------------------------------------------------------------------------------------------
 * A path is POOL, POOL/NAME[/NAME…], or PATH@SNAPSHOT. The root dataset exists from the start. */

enum dataset_type { DATASET_FILESYSTEM, DATASET_VOLUME, DATASET_SNAPSHOT };
struct dataset_info {
	uint64_t id, parent, origin;
	char path[1024]; /* full */
	enum dataset_type type;
	uint64_t created_ns, created_commit;
	uint64_t volume_bytes; /* volumes */
	uint32_t record_bytes;
	uint64_t used, referenced, logical_referenced, used_by_snapshots, reservation, available; /* bytes */
};
int pool_volume_create(struct pool *p, const char *path, uint64_t bytes, uint32_t record_bytes, bool sparse,
	const char *const *properties /* "name=value", NULL ended */, struct error *err);
int pool_dataset_create(struct pool *p, const char *path, const char *const *properties, struct error *err);
int pool_dataset_destroy(struct pool *p, const char *path, bool recursive, struct error *err);
int pool_dataset_rename(struct pool *p, const char *from, const char *to, struct error *err);
int pool_snapshot_create(struct pool *p, const char *path_at_name, bool recursive, struct error *err);
int pool_snapshot_rollback(struct pool *p, const char *path_at_name, bool destroy_newer, struct error *err);
int pool_clone_create(struct pool *p, const char *snapshot, const char *path, struct error *err);
/* Children in name order, the pool's root first. `visit` returns false to stop. */
int pool_dataset_list(struct pool *p, const char *path /* NULL: all */,
	bool (*visit)(void *arg, const struct dataset_info *), void *arg, struct error *err);
/* source: "default", "local", "inherited from PATH", "-" (facts such as used) */
int pool_property_get(
	struct pool *p, const char *path, const char *name, char value[256], char source[300], struct error *err);
int pool_property_set(struct pool *p, const char *path, const char *name, const char *value, struct error *err);
int pool_property_inherit(struct pool *p, const char *path, const char *name, struct error *err);
/* Whether a volume may have that value; without a pool. */
int pool_property_check(const char *name, const char *value, struct error *err);
const char *pool_property_name(unsigned index); /* NULL at the end of the list */

int pool_history_add(struct pool *p, const char *command, struct error *err);
int pool_history_list(
	struct pool *p, bool (*visit)(void *arg, uint64_t wall_ns, const char *command), void *arg, struct error *err);

/* --- volumes as data ------------------------------------------------------------------------------------------------------------
 * offset and length are any bytes inside the volume; whole records are the fast road. */

int volume_open(struct pool *p, const char *path, struct volume **ret_volume, struct error *err);
void volume_close(struct volume *v);
uint64_t volume_size_bytes(const struct volume *v);
uint32_t volume_record_bytes(const struct volume *v);
int volume_read(struct volume *v, uint64_t offset_bytes, void *buffer, uint64_t length_bytes, struct error *err);
int volume_write(struct volume *v, uint64_t offset_bytes, const void *buffer, uint64_t length_bytes, struct error *err);
int volume_flush(struct volume *v, struct error *err); /* fsync: what returned before on this volume is durable */
int volume_discard(
	struct volume *v, uint64_t offset_bytes, uint64_t length_bytes, struct error *err); /* reads as zeros */
void pool_drop_cache(struct pool *p); /* commits nothing; forgets clean records and nodes so that a next read is cold */

/* --- status, scrub ------------------------------------------------------------------------------------------------ */

enum pool_state { POOL_ONLINE, POOL_DEGRADED, POOL_SUSPENDED };
struct pool_disk_status {
	const struct disk *disk; /* NULL: missing */
	char path[256], id[33];
	unsigned group;
	const char *state; /* "ONLINE", "MISSING", "FAULTED", "OFFLINE", "REMOVED" */
	uint64_t size_bytes, free_bytes;
	uint64_t read_errors, write_errors, checksum_errors;
	uint64_t missed_from;
	bool slow;
};
struct pool_group_status {
	char name[32]; /* "mirror-0", "parity1-0", "disk-0" */
	unsigned disks, width, parity, failures_left;
	uint64_t size_bytes, free_bytes;
};
struct pool_counters {
	uint64_t commits, checkpoints, log_bytes, replayed_commits, intent_bytes;
	uint64_t data_bytes, parity_bytes, metadata_bytes; /* written to disks */
	uint64_t logical_bytes;                            /* of records written */
	uint64_t cache_hits, cache_misses, prefetch_bytes, prefetch_hit_bytes, nodes_read, nodes_written;
	uint64_t reconstructed, repaired, unrecoverable;
	uint64_t dirty_bytes, cache_bytes;
};
struct pool_space {
	uint64_t raw_bytes;     /* zones of all disks */
	uint64_t size_bytes;    /* that divided by the parity ratio */
	uint64_t reserve_bytes; /* float of free columns and the commit's own */
	uint64_t data_bytes, metadata_bytes, snapshot_bytes, reservation_bytes; /* used is their sum */
	uint64_t used_bytes, available_bytes,
		pinned_bytes; /* pinned: dead, but covered by a live stripe's parity, or waiting */
};
struct pool_scrub_status {
	bool running, paused, finished;
	uint64_t done_bytes, total_bytes, errors, repaired, unrecoverable, started_wall_ns, finished_wall_ns;
};
struct pool_status {
	char name[256], id[33], read_only_reason[512], suspended_reason[512];
	enum pool_state state;
	unsigned disk_count, group_count;
	struct pool_disk_status disks[255];
	struct pool_group_status groups[128];
	struct pool_space space;
	struct pool_counters counters;
	struct pool_scrub_status scrub;
	uint64_t commit, checkpoint;
	unsigned damaged_count; /* places known to be lost: "POOL/VOL record 12" */
	char damaged[16][320];
};
void pool_status_get(struct pool *p, struct pool_status *ret); /* large: allocate it */
/* The last events (error, repair, state change), oldest first. */
void pool_event_list(struct pool *p, bool (*visit)(void *arg, uint64_t wall_ns, const char *event), void *arg);

typedef bool pool_progress(void *arg, uint64_t done_bytes, uint64_t total_bytes); /* false: stop, ERR_INTERRUPTED */
/* Walks the descriptors in disk order, verifies every live column and parity, repairs into new places. A returning disk is
 * brought up to date first. */
int pool_scrub(struct pool *p, pool_progress *progress, void *arg, struct pool_scrub_status *ret, struct error *err);

/* Offline: walks everything. Each finding is one sentence. Returns 0 when all was walked, findings or not. */
struct pool_check_result {
	uint64_t nodes, records, runs, columns_verified, findings;
};
int pool_check(struct pool *p, bool verify_data, void (*finding)(void *arg, const char *sentence), void *arg,
	struct pool_check_result *ret, struct error *err);
/* Prints structures, for people: label, uberblocks, trees, runs, log of the disks. */
int pool_dump(struct disk *const *disks, unsigned disk_count, const char *what,
	void (*line)(void *arg, const char *text), void *arg, struct error *err);

#endif
