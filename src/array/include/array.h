/*
 * array: a fixed address space over disks, mapped in place. May use base, os, disk and layout.
 *
 * The story is at the head of array.c; the format of what lies on the disks in docs/format-array.md.
 * All calls are for ordinary threads and may be called from many at once, except open, close and the
 * administrative calls, which one thread makes.
 */
#ifndef ARRAY_H
#define ARRAY_H

#include "disk.h"
#include "layout.h"

struct array;

#define ARRAY_NAME_BYTES 64
#define ARRAY_ALIGN 512u /* offset and length of read and write are multiples of the array's sector: traits tell */

enum array_hole { ARRAY_HOLE_LOG, ARRAY_HOLE_BITMAP };
enum array_state { ARRAY_HEALTHY, ARRAY_DEGRADED, ARRAY_REBUILDING, ARRAY_FAILED };
enum array_member_state {
	ARRAY_MEMBER_ONLINE,
	ARRAY_MEMBER_MISSING,    /* not found, or vanished */
	ARRAY_MEMBER_FAULTED,    /* too many errors, or stale: it missed writes */
	ARRAY_MEMBER_REBUILDING, /* written to, not yet read from beyond `rebuilt_bytes` */
};
extern const char *const array_state_names[4];
extern const char *const array_member_state_names[4];

struct array_create_options {
	const char *name;     /* [A-Za-z0-9_.-]{1,63} */
	const char *layout;   /* layout_init's grammar */
	uint64_t chunk_bytes; /* 0: default */
	enum layout_rotation rotation;
	enum array_hole hole;
	struct disk *log; /* dedicated log disk, or NULL: on the members */
	bool force;       /* over a label of another array */
};

struct array_tuning {
	uint64_t buffer_bytes;    /* write-back buffer; 0: 4 MiB a disk, 64 to 256 MiB. In any case at most 1/32 of the
				      * array or 8 MiB, whichever is more, and at least two rows of up to 128 MiB each */
	uint64_t buffer_age_ns;   /* a partial row waits so long at most, default 1 s */
	unsigned read_ahead_rows; /* at most; default 0 = by the layout, at least 2; UINT_MAX: none */
	unsigned writers;         /* threads that write rows; 0: one for six disks, 4 to 16 */
	unsigned no_log_fault_for_tests;
};
void array_tuning_init(struct array_tuning *t);

/* Needs no initialisation: rows start as *never* and read as zeros. Disks are borrowed: the caller closes them
 * after array_close. Writes the labels and closes again; array_open assembles. */
int array_create(
	const struct array_create_options *o, struct disk *const *disks, unsigned disk_count, struct error *err);

/* Assembles from the labels of the disks given, in any order; foreign disks, disks of other arrays (when name
 * is given) are passed over, stale members and duplicates are told apart by identity and event count. Replays the
 * log and makes dirty rows consistent before it returns. ERR_NOT_FOUND, ERR_CORRUPT, ERR_LOST (too few members). */
struct array_open_options {
	const char *name; /* NULL: the one array that the disks hold */
	bool read_only;
	struct array_tuning tuning;
};
void array_open_options_init(struct array_open_options *o);
int array_open(struct array **ret_array, const struct array_open_options *o, struct disk *const *disks,
	unsigned disk_count, struct error *err);
/* Writes what waits, marks the array clean. Frees it in any case. */
int array_close(struct array *a, struct error *err);
/* As after a power cut: nothing more is written. For tests. */
void array_abandon(struct array *a);

uint64_t array_size_bytes(const struct array *a);
uint32_t array_sector_bytes(const struct array *a);
/* offset and length: multiples of the sector, inside the array (ERR_USAGE). A read may be served from the
 * write-back buffer and the read-ahead cache. ERR_LOST where redundancy is used up. */
int array_read(struct array *a, uint64_t offset_bytes, void *buffer, uint64_t length_bytes, struct error *err);
int array_write(struct array *a, uint64_t offset_bytes, const void *buffer, uint64_t length_bytes, struct error *err);
int array_flush(struct array *a, struct error *err); /* all writes that returned before are durable after it */
void array_drop_cache(struct array *a);              /* forgets what was read ahead, so that a next read is cold */

/* --- status --------------------------------------------------------------------------------------------- */

struct array_member_status {
	const struct disk *disk; /* NULL when missing */
	char name[128];          /* as last seen */
	char id[33];
	enum array_member_state state;
	uint64_t rebuilt_bytes, data_bytes;
	uint64_t read_errors, write_errors, repaired_bytes, mismatches;
	bool slow; /* its latency is 10 times the median of all, or more, and at least 1 ms above it */
	uint64_t latency_ns;
};
struct array_counters {
	uint64_t reads, writes, flushes, read_bytes, write_bytes;
	uint64_t full_rows, partial_rows_modify, partial_rows_reconstruct, degraded_rows;
	uint64_t log_records, log_bytes, map_writes;
	uint64_t read_ahead_bytes, read_ahead_hit_bytes, zero_read_bytes;
	uint64_t rows_never, rows_clean, rows_dirty, rows_lost;
	uint64_t replayed_records, resynced_rows; /* at the last open */
};
struct array_status {
	char name[ARRAY_NAME_BYTES];
	char id[33];
	char layout_name[32];
	struct layout layout;
	enum array_hole hole;
	enum array_state state;
	uint64_t size_bytes, events;
	unsigned member_count;
	const struct array_member_status *members; /* valid until the next call on this status object */
	bool log_dedicated;
	char log_name[128];
	struct array_counters counters;
	unsigned failures_left; /* how many more may fail now */
	struct array_member_status member_store[LAYOUT_DISKS_MAX];
};
void array_status_get(struct array *a, struct array_status *ret); /* large: not on a small stack */

/* --- care ------------------------------------------------------------------------------------------------ */

struct array_check_result {
	uint64_t rows, mismatched_rows, repaired_rows, unreadable_chunks;
	struct array_mismatch {
		uint64_t row, offset_bytes; /* logical offset of the row */
		int member;                 /* the one at fault when it can be told, else -1 */
		uint64_t member_offset_bytes;
	} first[16];
	unsigned first_count;
};
/* progress may be NULL; returning false stops with ERR_INTERRUPTED. */
typedef bool array_progress(void *arg, uint64_t done_bytes, uint64_t total_bytes);
int array_check(struct array *a, bool repair, struct array_check_result *ret, array_progress *progress, void *arg,
	struct error *err);
/* Puts `disk` in the place of member `index` and rebuilds onto it. The old one may be there still: then it is
 * copied from where it can be read. Resumes after an interruption at the next open. */
int array_replace(struct array *a, unsigned index, struct disk *disk, bool force, array_progress *progress, void *arg,
	struct error *err);
int array_rebuild(struct array *a, array_progress *progress, void *arg, struct error *err); /* goes on with one */
/* Mirrors: one more copy, or one less. */
int array_attach(
	struct array *a, struct disk *disk, bool force, array_progress *progress, void *arg, struct error *err);
int array_detach(struct array *a, unsigned index, struct error *err);
/* Clears the labels of all members that are there. */
int array_destroy(struct array *a, struct error *err); /* a is freed */

/* --- labels ------------------------------------------------------------------------------------------------ */

/* What a disk's label says, for scans: ERR_NOT_FOUND when there is none, ERR_CORRUPT when both are damaged. */
struct array_label_facts {
	char array_name[ARRAY_NAME_BYTES], array_id[33], member_id[33], layout_name[32];
	unsigned index, member_count;
	uint64_t events;
	bool is_log;
	bool front_good, back_good;
};
int array_label_read(struct disk *d, struct array_label_facts *ret, struct error *err);
/* Clears only the label areas; what was cleared is told. */
int array_label_clear(struct disk *d, uint64_t ret_ranges[4], struct error *err);
/* The room that labels, map and log take on a disk of this size (data areas start at a multiple of 1 MiB). */
uint64_t array_data_bytes(uint64_t disk_bytes, uint64_t chunk_bytes);

#endif
