/* What the files of array share; nobody outside the part includes it. The story is at the head of array.c. */
#ifndef ARRAY_INTERNAL_H
#define ARRAY_INTERNAL_H

#include <stdatomic.h>

#include "array.h"

#define SECTOR_BYTES 512u          /* the unit of validity in the buffer */
#define SLOT_BYTES_MAX (16u << 10) /* the unit of memory in the buffer */
#define MIB ((uint64_t)1 << 20)
#define ID_BYTES 16
#define READ_ERRORS_MAX 20 /* a member that needed so many repairs in one session is taken out */

/* --- format ----------------------------------------------------------------------------------- */

#define LABEL_BYTES (16u << 10) /* one slot */
#define LABEL_OFFSET 4096u      /* of the front area; the slots are LABEL_OFFSET and LABEL_OFFSET + LABEL_BYTES */
#define LABEL_VERSION 1u
#define FRONT_BYTES (64u << 10) /* labels; then the map, then the log */
#define BLOCK_BYTES 4096u       /* of the map and the log */
#define DISK_BYTES_MIN (16 * MIB)

enum label_role { LABEL_MEMBER, LABEL_LOG, LABEL_SOURCE };

struct label_entry {
	uint8_t id[ID_BYTES], source_id[ID_BYTES];
	uint64_t rebuilt_rows;
	enum array_member_state state;
};

/* A label, unpacked. Geometry is the same on all members. */
struct label {
	uint64_t events;
	uint8_t array_id[ID_BYTES], own_id[ID_BYTES];
	char name[ARRAY_NAME_BYTES];
	unsigned index, member_count;
	enum label_role role;
	enum array_hole hole;
	uint32_t sector_bytes;
	struct layout layout;
	uint64_t data_offset, map_offset, map_blocks, log_offset, log_bytes;
	uint64_t disk_bytes; /* of the disk that carries it */
	bool clean;
	bool log_dedicated;
	uint8_t log_id[ID_BYTES];
	uint64_t log_disk_bytes; /* of the ring on the dedicated log disk */
	uint64_t log_sequence;   /* records before this one are done with */
	struct label_entry members[LAYOUT_DISKS_MAX];
};

void label__pack(const struct label *l, uint8_t bytes[LABEL_BYTES]);
/* ERR_NOT_FOUND: no magic. ERR_CORRUPT: damaged or impossible. ERR_UNSUPPORTED: of another version. */
int label__unpack(const uint8_t bytes[LABEL_BYTES], struct label *ret, struct error *err);
uint64_t label__back_offset(uint64_t disk_bytes);
/* The newest good label of a disk. *ret_damaged: some copy is not as it should be. */
struct label_ends {
	bool front_good, back_good; /* some slot there is */
	unsigned bad;               /* slots that are not: bit end × 2 + slot */
};
int label__load(struct disk *d, struct label *ret, struct label_ends *ret_ends, struct error *err);
/* Writes the slots of the mask (bit end × 2 + slot). Flushes. */
#define LABEL_SLOTS_ALL 15u
int label__store(struct disk *d, const struct label *l, unsigned slots, struct error *err);
void id__text(const uint8_t id[ID_BYTES], char text[33]);
bool id__is_zero(const uint8_t id[ID_BYTES]);

/* --- one thread's I/O ------------------------------------------------------------------------- */

/* How a member can be reached, copied under the lock so that a batch sees one state of the array. */
struct road {
	struct disk *disk;      /* NULL: not there */
	struct disk *source;    /* while it is replaced: the old one */
	uint64_t readable_rows; /* rows below can be read from `disk` */
};
static inline bool road_reads(const struct road *r, uint64_t row)
{
	return (r->disk && row < r->readable_rows) || r->source;
}
static inline bool road_reads_source(const struct road *r, uint64_t row)
{
	return !(r->disk && row < r->readable_rows);
}
/* What cannot be read yet need not be written: the rebuild comes by. So who is read is who is written, and the source
 * always, since after a crash the rebuild may start further back. */

struct piece {
	uint64_t offset_bytes; /* on the disk */
	uint8_t *bytes;
	uint32_t length;
	uint32_t tag; /* for whoever made it */
	uint16_t key; /* member × 2 + 1 for the source */
	bool logged;
	int status;
};
/* A range of the array within one chunk of one row, and where its bytes go. */
enum part_kind { PART_DISK, PART_ZERO, PART_RECOVER, PART_FAILED, PART_DONE };
struct part {
	uint64_t offset_bytes, row;
	uint8_t *bytes;
	uint32_t length;
	enum part_kind kind;
	bool lost;    /* its row is: some of it may be */
	uint16_t key; /* who failed */
	int status;
};
struct target {
	uint64_t offset_bytes, length;
	uint8_t *bytes;
};
struct io {
	struct io *next;
	struct disk_queue *queue; /* own; NULL: the thread's */
	struct road *roads;
	unsigned road_count;
	struct piece *pieces;
	size_t piece_count, piece_room;
	struct disk_request *requests;
	size_t request_room;
	struct iovec *iov;
	size_t iov_room;
	size_t *firsts; /* of each request, the first of its pieces */
	uint8_t *scratch;
	size_t scratch_used, scratch_room;
	bool no_memory;
	struct part *parts;
	size_t part_count, part_room;
	uint32_t *planned; /* pieces of this read by member */
	struct together *together;
	size_t together_count, together_room;
	uint64_t guard_first, guard_count;
	struct log_entry *log_entries;
	size_t log_entry_room;
	struct log_part *log_parts; /* one a ring */
	uint8_t *log_header;
	size_t log_header_room;
};
int io__open(struct io **ret, unsigned members, size_t scratch_bytes, bool own_queue, struct error *err);
void io__close(struct io *io);
void io__roads(struct array *a, struct io *io); /* with the lock held */
void io__reset(struct io *io);
bool io__scratch_grow(struct io *io, size_t bytes); /* only right after a reset */
uint8_t *io__scratch(struct io *io, size_t bytes);  /* NULL when it does not fit */
void io__piece(struct io *io, unsigned key, uint64_t offset_bytes, void *bytes, uint64_t length, uint32_t tag);
/* The piece for a member's data area, to the source too where there is one. */
void io__piece_write(struct array *a, struct io *io, unsigned member, uint64_t row, uint64_t data_offset, void *bytes,
	uint64_t length, bool logged);
/* Sorted by disk and place, joined into long requests, all in flight together, all waited for. Returns how many
 * pieces failed; ERR_MEMORY when it could not even start. With `split`, what failed together is tried apart. */
int io__run(struct io *io, enum disk_op op);
void io__sort(struct io *io);
/* Flushes the disks of the roads where want[key] (NULL: all); statuses by key. */
int io__flush(struct io *io, const bool *want, int *ret_status);
struct io *io__get(struct array *a, struct error *err);
void io__put(struct array *a, struct io *io);

/* --- buffer ----------------------------------------------------------------------------------- */

struct buf_row {
	struct list live;     /* all rows in use, in the order of birth; or the spare ones */
	struct list full;     /* in array.full while is_full and idle */
	struct buf_row *next; /* of its hash chain */
	uint64_t row, epoch, born_ns;
	uint32_t sectors; /* valid ones */
	uint32_t slots;   /* in use */
	unsigned guards;  /* readers of the row on the disks: nobody may write it */
	unsigned waiters;
	bool is_full;
	bool writing;     /* somebody has it for himself */
	bool copying;     /* a caller's bytes are on their way in, outside of the lock */
	bool has_data;    /* counts for flush */
	uint64_t touched; /* array.write_clock when it last got bytes */
	uint32_t *slot;   /* slot number + 1, or 0 */
};

/* --- the map ---------------------------------------------------------------------------------- */

enum row_state {
	ROW_NEVER,
	ROW_FRESH, /* only on the disks */
	ROW_CLEAN,
	ROW_DIRTY,
	ROW_LOST,
	ROW_LOST_DIRTY, /* only on the disks: lost, and being written */
	ROW_STATES,
	ROW_PROMISED = ROW_STATES, /* only in memory: dirty, and a flush that runs promises what it was before */
};
/* A byte a row: what it is, what the disks say it is, and two marks. */
#define ROW_ACTUAL(b) ((enum row_state)((b)&7))
#define ROW_DURABLE(b) ((enum row_state)((b) >> 3 & 7))
#define ROW_IN_FLIGHT 0x40
#define ROW_TOUCHED 0x80
/* To be made to agree at open. */
static inline bool row__is_dirty(uint8_t b)
{
	return ROW_ACTUAL(b) == ROW_DIRTY || ROW_DURABLE(b) == ROW_LOST_DIRTY;
}
#define MAP_HEAD_BYTES 64u
#define MAP_ROWS_OF_BLOCK ((BLOCK_BYTES - MAP_HEAD_BYTES) * 2)
#define MAP_ROWS_MAX ((uint64_t)1 << 28)

struct map_block {
	uint64_t generation;
	bool attention;  /* holds rows that a flush makes clean */
	bool lost_waits; /* holds lost rows that were written to, which the flush that runs makes durable */
	bool behind;     /* the disks say dirty of rows that are clean */
	bool unwritten;  /* they say less than memory thinks they do: a write failed, or too few members have it */
};

/* --- the log ---------------------------------------------------------------------------------- */

#define LOG_SEQUENCES 4096u /* records that may be unretired at once */
struct log_entry {
	uint16_t member;
	uint64_t offset_bytes; /* in the data area */
	uint32_t length;
};
struct log_part { /* of a record, on one ring */
	unsigned ring;
	size_t first, end; /* pieces */
	uint64_t payload, bytes, at;
};
struct log_ring {
	uint64_t head, tail; /* counted on without wrapping */
	struct log_span {
		uint64_t sequence, end;
	} * spans; /* what lies between, oldest first: a ring too */
	unsigned first, count;
};
#define LOG_SPANS 512u
struct log_touch {
	uint64_t row, sequence; /* sequence 0: free */
};

/* --- read-ahead ------------------------------------------------------------------------------- */

struct page {
	struct list lru;
	struct page *next;
	uint64_t number;
	uint32_t users;
	bool loading, doomed, hashed, used;
	uint8_t *bytes;
};
struct stream {
	uint64_t next, ahead, used; /* where it reads next; up to where it was fetched */
	uint64_t window, run_bytes;
	unsigned hits;
};
#define STREAMS 16
#define FETCHERS 4
#define FETCHES_MAX 64

struct ahead {
	struct page *pages;
	uint8_t *pool;
	size_t pool_bytes;
	struct page **hash;
	unsigned page_count, hash_mask, hashed;
	uint64_t page_bytes, window_max;
	struct list lru; /* not loading, no user; the first goes first */
	struct stream streams[STREAMS];
	uint64_t stream_clock;
	struct fetch {
		uint64_t from, to;
	} queue[FETCHES_MAX];
	unsigned first, count;
	struct os_cond work;
	struct os_thread *threads[FETCHERS];
	unsigned thread_count;
};

/* --- the array -------------------------------------------------------------------------------- */

struct member {
	struct disk *disk, *source;
	uint8_t id[ID_BYTES], source_id[ID_BYTES];
	enum array_member_state state;
	uint64_t rebuilt_rows, rebuilt_durable;
	char name[128];
	bool stale;
	uint64_t read_errors, write_errors, repaired_bytes, mismatches;
	bool slow;
	uint64_t latency_ns;
};

struct writer {
	struct array *array;
	struct os_thread *thread;
	struct io *io;
	struct batch *batch;
};
#define WRITERS_LEAST 4
#define WRITERS_MAX 16
#define DISKS_OF_WRITER 6

struct array {
	/* Fixed while it is open, but for attach and detach, which have it for themselves. */
	struct label label; /* geometry and identity; members[] is filled when it is stored */
	struct layout layout;
	uint64_t row_bytes, row_count, size_bytes;
	uint32_t sector_bytes, slot_bytes, slots_per_row, slots_per_chunk;
	bool redundant; /* there is a map */
	bool journal;   /* there is a log */
	bool read_only;
	struct array_tuning tuning;
	struct disk *log_disk;

	struct os_mutex lock;
	struct os_cond work;    /* writers: rows to write, or the end */
	struct os_cond room;    /* slots or rows came free */
	struct os_cond settled; /* a row, a flush, the labels, the map or the log moved on */

	struct member members[LAYOUT_DISKS_MAX];
	unsigned member_count;
	bool broken;   /* beyond redundancy */
	bool degraded; /* some member is out: see careful in rowmap.c */
	struct error broken_error;
	bool labels_dirty, labels_writing;

	/* Buffer. */
	uint8_t *slot_pool;
	size_t slot_pool_bytes;
	uint32_t *slot_valid, *slot_spare;
	unsigned slot_count, slot_spare_count;
	struct buf_row *rows;
	uint32_t *row_slots;
	struct buf_row **row_hash;
	unsigned row_object_count, row_object_used, hash_mask;
	struct list live, spare, full;
	unsigned writing_rows; /* in batches */
	uint64_t write_clock;  /* slots filled so far */
	unsigned room_waiters, settle_waiters;
	uint64_t flush_epoch, flush_upto;
	uint64_t elevator;                  /* where the last batch of partial rows ended */
	uint64_t stream_next, stream_bytes; /* where the last run of full rows ended, and how long it is by now */
	unsigned partial_batches;
	uint64_t care_first, care_end; /* rows that care has for itself */
	bool stopping, abandoned;
	struct writer writers[WRITERS_MAX];
	unsigned writer_count;
	uint64_t quiet_since_ns;

	/* Durability. */
	uint64_t flush_started, flush_done;
	bool flushing;
	int flush_code;
	struct error flush_error;
	bool plain_unflushed; /* in-place writes that no log record holds */

	/* Map. */
	uint8_t *map;
	bool promise_now; /* a flush has just made what it promises durable */
	bool map_lazy;    /* the disks say dirty of rows for longer than need be */
	struct map_block *blocks;
	uint64_t block_count;
	bool map_busy;
	uint64_t map_turn, set_ahead_next, set_ahead_rows;
	uint64_t rows_lost;
	uint8_t *map_image;

	/* Log. */
	uint64_t log_next, log_tail, log_tail_durable;
	uint8_t log_states[LOG_SEQUENCES]; /* by sequence: free, active, in place */
	struct log_ring *rings;            /* one a member, and the last for the log disk */
	unsigned ring_count;
	uint64_t log_turn;
	struct log_touch *log_touched;
	unsigned log_touched_used;
	bool log_tailing;
	uint64_t log_leaving; /* the log disk failed: when records before this one are retired, it is forgotten */

	struct io *io_spare;
	struct ahead ahead;
	struct array_counters counters;
	uint64_t active_reads[2];
	unsigned read_turn;
	uint64_t slow_checked_ns, latency_median_ns;
	uint8_t *zeros;  /* a slot of them */
	uint8_t *poison; /* a sector: what stands where bytes are lost */
};

/* array.c */
int array__state_set(struct array *a, unsigned index, enum array_member_state to); /* with the lock held */
/* A member failed: takes it out if that is what it deserves. `source`: the old disk of a replacement. Without the lock.
 */
void array__write_failed(struct array *a, unsigned key, int status);
void array__read_failed(struct array *a, unsigned key, int status);
/* With the lock held; lets it go while it writes. Label changes that were asked for are durable after it. */
void array__labels_settle(struct array *a);
int array__labels_store(struct array *a, bool all, struct error *err); /* without the lock */
int array__free(struct array *a, int rc);
void array__label_fill(struct array *a, struct label *l, unsigned index);
void array__failed_set(struct array *a, bool failed[LAYOUT_DISKS_MAX]); /* with the lock held */
void array__degraded_note(struct array *a);
int array__broken(struct array *a, struct error *err);
static inline uint64_t array__row_length(const struct array *a, uint64_t row)
{
	uint64_t rest = a->size_bytes - row * a->row_bytes;
	return min_of(rest, a->row_bytes);
}
/* With the lock held: something that others wait for has changed; waits for that. */
static inline void array__settle(struct array *a)
{
	if (a->settle_waiters)
		os_cond_broadcast(&a->settled);
}
static inline void array__wait(struct array *a)
{
	a->settle_waiters++;
	os_cond_wait(&a->settled, &a->lock);
	a->settle_waiters--;
}
void array__geometry(struct array *a);
int array__start(struct array *a, struct error *err);
int array__threads_start(struct array *a, struct error *err);
void array__threads_stop(struct array *a);

/* buffer.c */
int buffer__open(struct array *a, struct error *err);
void buffer__close(struct array *a);
struct buf_row *buffer__find(struct array *a, uint64_t row);
struct buf_row *buffer__get(struct array *a, uint64_t row);      /* NULL: no spare one */
void buffer__tidy(struct array *a, struct buf_row *b);           /* gives it back when nobody needs it */
void buffer__written(struct array *a, struct buf_row *b);        /* its bytes are on the disks: frees the slots */
bool buffer__row_free(struct array *a, const struct buf_row *b); /* nobody has it: it may be written */
void buffer__guard(struct array *a, uint64_t row);               /* shared: it is not written meanwhile */
void buffer__unguard(struct array *a, uint64_t row);
/* All of them, when all are free: never some while it waits for others. With the lock held, which it may let go. False:
 * there are not enough row objects. */
bool buffer__guard_rows(struct array *a, uint64_t first, uint64_t count);
void buffer__seize(struct array *a, uint64_t row); /* exclusive */
void buffer__unseize(struct array *a, uint64_t row);
void buffer__care_begin(struct array *a, uint64_t first, uint64_t end); /* many rows, exclusive */
void buffer__care_end(struct array *a);
static inline bool buffer__in_care(const struct array *a, uint64_t row)
{
	return row >= a->care_first && row < a->care_end;
}
static inline uint8_t *slot__bytes(const struct array *a, uint32_t slot)
{
	return a->slot_pool + (size_t)(slot - 1) * a->slot_bytes;
}
static inline uint32_t slot__valid(const struct array *a, uint32_t slot)
{
	return slot ? a->slot_valid[slot - 1] : 0;
}
uint32_t sectors__mask(uint64_t from_bytes, uint64_t to_bytes); /* within a slot */
int array__range_check(const struct array *a, const char *what, uint64_t offset, uint64_t length, struct error *err);
int buffer__flush_rows(struct array *a, struct error *err);

/* rowmap.c */
int map__open(struct array *a, struct error *err);
void map__close(struct array *a);
uint64_t map__blocks(uint64_t rows);
int map__load(struct array *a, struct io *io, struct error *err);
/* After a crash: what was found may be on fewer members than it should. The next sync writes all. */
void map__doubt(struct array *a);
/* Before rows are written in place without a log record: their states on the disks allow it afterwards. Rows ascend. */
int map__prepare(struct array *a, struct io *io, const uint64_t *rows, unsigned count, bool stream, struct error *err);
void map__lose(struct array *a, uint64_t row);             /* with the lock held */
void map__cured(struct array *a, uint64_t row);            /* with the lock held: made to agree at open */
void map__done(struct array *a, uint64_t row, bool plain); /* with the lock held: the row was written */
void map__flush_begin(struct array *a);                    /* with the lock held */
void map__flush_undo(struct array *a);                     /* with the lock held: it failed */
void map__flush_wait(struct array *a);                     /* with the lock held: until no flush is about lost rows */
/* With the lock held: what was not touched since begin is clean. True: rows that are fresh and being written again hold
 * promised bytes now, and the disks must say so before the flush ends. */
bool map__flush_end(struct array *a);
/* Writes blocks that say less than we know. `all`: lazily kept marks too. With the lock held; lets it go meanwhile. */
int map__sync(struct array *a, struct io *io, bool all, bool whole, struct error *err);
/* Gives one member all blocks and takes it in among the keepers (makes it online) in the same moment. */
int map__give(struct array *a, unsigned member, struct error *err);
/* Members such that an array which lost them all is lost anyhow: copies there are as safe as the data. */
unsigned map__keepers(struct array *a, uint64_t turn, unsigned ret[LAYOUT_WIDTH_MAX]); /* with the lock held */

/* log.c */
int log__open(struct array *a, struct error *err);
void log__close(struct array *a);
uint64_t log__part_max(const struct array *a); /* bytes of one record on one member at most */
/* All pieces of io with `logged` become one record, durable when it returns. What is on one member, or on a log disk
 * everything, is log__part_max at most. */
int log__append(struct array *a, struct io *io, const uint64_t *rows, unsigned row_count, uint64_t *ret_sequence,
	struct error *err);
void log__in_place(struct array *a, uint64_t sequence); /* with the lock held */
uint64_t log__flush_begin(struct array *a);             /* with the lock held */
void log__flush_end(struct array *a, uint64_t upto);
bool log__holds(const struct array *a, uint64_t row); /* with the lock held: a replay could write this row */
int log__replay(struct array *a, struct io *io, struct error *err);
int log__checkpoint(struct array *a, struct error *err); /* no record is needed any more */
int log__wipe(struct array *a, struct disk *d, struct error *err);

/* write.c, parity.c */
int writer__open(struct array *a, struct writer *w, struct error *err);
void writer__close(struct writer *w);
void writer__run(void *arg);
int array__flush_devices(struct array *a, bool force, struct error *err);
struct batch;
int parity__batch_run(struct array *a, struct batch *b, struct io *io, struct error *err);

/* poison.c */
int poison__open(struct array *a, struct error *err);
void poison__fill(const struct array *a, uint8_t *bytes, uint64_t length);
bool poison__find(const struct array *a, const uint8_t *bytes, uint64_t length, uint64_t *ret_at);

/* read.c */
/* Reads into each target: what is buffered, what was read ahead (use_cache), the rest from the disks. */
int read__targets(struct array *a, const struct target *targets, unsigned count, bool use_cache, struct error *err);
int read__recover(struct array *a, struct io *io, uint64_t row, unsigned column, uint64_t lo, uint64_t hi, uint8_t *to,
	uint64_t bad, struct error *err);
void read__drain(struct array *a); /* reads that began before are over: no pointer to a disk is held any more */

/* together.c: missing parts of a long read from what the read brings anyhow. In this order: */
#define TOGETHER 0x80000000u                          /* in the tag of a piece: its number in io.together */
bool together__guard(struct array *a, struct io *io); /* with the lock held, which it may let go: rows stand still */
void together__plan(struct array *a, struct io *io);  /* with the lock held, after parts have their places */
void together__failed(struct io *io, uint32_t tag);
void together__finish(struct array *a, struct io *io); /* parts that were recovered are PART_DONE */
void together__unguard(struct array *a, struct io *io);

/* ahead.c */
int ahead__open(struct array *a, struct error *err);
void ahead__stop(struct array *a);
void ahead__close(struct array *a);
void ahead__seen(struct array *a, uint64_t offset_bytes, uint64_t length_bytes); /* with the lock held */
/* Copies what it has from `offset` on, within one page; 0: nothing there. Waits for what is on its way. With the lock
 * held. */
uint64_t ahead__copy(struct array *a, uint64_t offset_bytes, uint8_t *buffer, uint64_t length_bytes);
void ahead__drop(struct array *a, uint64_t offset_bytes, uint64_t length_bytes); /* with the lock held */

/* care.c */
int care__resync(struct array *a, struct error *err);

/* status.c */
bool status__avoid(struct array *a, unsigned index); /* with the lock held: a slow copy */

#endif
