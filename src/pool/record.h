/*
 * record.h: what cache.c, buffers.c, spill.c, prefetch.c and volume*.c share. The story is at the head of cache.c.
 */
#ifndef POOL_RECORD_H
#define POOL_RECORD_H

#include "internal.h"

#define SECTOR_BYTES 512u /* granularity in which a record that was written in part knows what it has */
#define RECORD_BYTES_MIN 4096u
#define RECORD_BYTES_MAX (1u << 20)
#define RECORD_SIZES 9u /* 4 KiB … 1 MiB, powers of two */
#define VALID_WORDS (RECORD_BYTES_MAX / SECTOR_BYTES / 64)
#define SPACE_CHECKPOINTS 3u   /* what one frees is free after two more */
#define HOLE_CHARGE_BYTES 256u /* of the dirty cap, for a dirty record without bytes */

/* --- buffers.c: memory for records ----------------------------------------------------------- */

struct buffer_region { /* one size: a stretch of address space, of which only what was used is resident */
	uint8_t *bytes;
	uint32_t *warm, *cold; /* stacks of numbers: touched, and given back to the system */
	uint32_t warm_count, cold_count, used, count;
};
struct buffers {
	uint64_t limit_bytes, region_bytes;
	uint64_t resident_bytes; /* handed out or warm */
	struct buffer_region regions[RECORD_SIZES];
};
void buffers_open(struct buffers *b, uint64_t limit_bytes);
void buffers_close(struct buffers *b);
uint8_t *buffer_get(struct buffers *b, uint64_t bytes); /* at least so many, DISK_BUFFER_ALIGN; NULL: out of memory */
void buffer_put(struct buffers *b, uint8_t *buffer, uint64_t bytes);

/* --- records --------------------------------------------------------------------------------- */

enum record_state {
	RECORD_READING, /* somebody fetches it */
	RECORD_CLEAN,   /* as the pool has it */
	RECORD_DIRTY,   /* newer than what the pool has; bytes NULL: to become a hole */
};
enum record_queue { QUEUE_NONE, QUEUE_SMALL, QUEUE_MAIN, QUEUE_AHEAD, QUEUE_WHOLE, QUEUE_PARTIAL };

struct record {
	struct volume *volume;
	uint64_t index;
	struct record *hash_next;
	struct list link; /* in the queue that `queue` says */
	uint8_t *bytes;
	uint64_t *valid;        /* dirty and not whole: a bit a sector */
	uint8_t *spilled_bytes; /* what the spill on the way writes */
	uint8_t *orphan;        /* spilled bytes that a writer still copies from: the writer frees them */
	uint32_t charged;       /* to the dirty cap */
	uint32_t read_end;      /* where the last read in it ended: going on there is not another use */
	uint32_t refs;          /* who may look at the struct; it neither moves nor goes meanwhile */
	uint32_t readers;       /* who copies out */
	uint16_t writers_waiting;
	uint8_t state, queue, uses;
	int8_t status; /* of a read that failed */
	bool hashed;
	bool exclusive;  /* a writer copies in */
	bool copies_old; /* ... and out of spilled_bytes */
	bool filling;    /* somebody fetches what a partial one lacks */
	bool spilling;
	bool again; /* written to since the spill on the way began */
	bool phase, again_phase;
	bool promised, uses_reserve;
};

#define STREAMS 8u
struct stream {
	uint64_t next, ahead; /* records: where it goes on; fetched or asked for up to here */
	uint64_t window;      /* records */
	uint64_t used;        /* clock of the volume, for the oldest */
	unsigned hits;
};

#define PENDING_RANGES 64u
#define INTENT_BYTES_MAX (128u << 10) /* of one flush */
struct pending_range {
	uint64_t offset_bytes;
	uint32_t bytes;
};
struct ticket { /* a flush on the way */
	struct list link;
	uint64_t number;
};

struct volume { /* one a dataset, shared by who opened it; stays until the cache is closed or the dataset is forgotten
		 */
	struct list link;
	struct cache *cache;
	uint64_t dataset, size_bytes, record_count;
	uint32_t record_bytes;
	unsigned record_shift, handles;
	bool read_only; /* a snapshot */
	char path[256];

	struct list whole, partial; /* dirty records that nobody works on, oldest first */
	uint64_t whole_bytes;
	/* spill_all: records that are dirty at the call are those of the other phase once `phase` is flipped. */
	uint64_t dirty_count[2];
	uint64_t flips, flips_wanted;
	bool phase;
	bool forgetting, compresses;

	struct stream streams[STREAMS];
	uint64_t stream_clock;

	struct pending_range pending[PENDING_RANGES]; /* written since the last flush; too much of it: pending_all */
	unsigned pending_count;
	uint64_t pending_bytes;
	bool pending_all;
	struct list tickets;
	uint64_t ticket_last, ticket_failed;
	uint64_t delay_owed_ns;
};

struct load_item {
	struct record *record;
	uint8_t *target; /* NULL: a hole */
	uint8_t *packed; /* compressed bytes on their way */
	struct bp bp;
	int status;
	unsigned read; /* index in reads, or UINT_MAX */
	bool fill;     /* the record is partial: merge */
};
struct load { /* a batch of records that are fetched together; recycled */
	struct list link;
	struct volume *volume;
	struct load_item *items;
	struct record_read *reads;
	unsigned count, room, read_count;
	bool ahead;
	struct record **held; /* by a reader, in order of index */
	unsigned held_room;
	struct error error;
};

struct fetch { /* a stretch that prefetch threads read */
	struct volume *volume;
	uint64_t first, count;
};
#define FETCHES_MAX 64u
#define FETCHERS 8u
#define SPILLERS 2u

struct spiller;
struct cache {
	struct pool *pool;
	struct os_mutex lock; /* a leaf: nothing is locked under it */
	struct os_cond ready; /* a record may be used, or its read failed; a spill ended */
	struct os_cond room;  /* of dirty records or of reads */
	struct os_cond work, fetch_work;
	bool stopping;

	struct buffers buffers;
	struct record **hash;
	uint64_t hash_mask, record_count;
	struct list free_records, slabs, free_maps, loads, volumes;

	/* clean ones: S3-FIFO */
	uint64_t cap_bytes, clean_bytes;
	uint64_t reading_bytes, fetching_bytes,
		queued_bytes; /* on their way, for readers and for prefetch; to be fetched */
	uint64_t clock;       /* of reads */
	struct list small, main, ahead;
	uint64_t small_bytes, main_bytes, ahead_bytes; /* ahead: read or being read and not asked for yet */
	uint64_t *ghosts;
	uint64_t ghost_mask, evictions, main_count;

	/* dirty ones */
	uint64_t dirty_cap_bytes, dirty_bytes, promised_bytes, whole_bytes;
	uint64_t batch_bytes, trigger_bytes;
	unsigned stripe_records; /* data columns of a stripe, where all groups agree; else 1 */
	struct volume *turn;     /* whose records were taken last */
	bool commit_is_due;
	uint64_t failures, retry_ns, retry_step_ns; /* while spills fail they are tried again ever more slowly */
	struct error failure;
	uint64_t space_tried_ns; /* when checkpoints were last asked to free some */
	uint64_t drained_ns;     /* when the last batch was done */
	double drain_bytes_per_ns;

	struct os_thread *spill_threads[SPILLERS];
	struct spiller *spillers[SPILLERS];
	unsigned spill_thread_count;

	struct fetch fetches[FETCHES_MAX];
	unsigned fetch_first, fetch_count, fetch_thread_count;
	struct os_thread *fetch_threads[FETCHERS];
	uint64_t window_bytes, segment_bytes;

	uint64_t hits, misses, prefetch_bytes, prefetch_hit_bytes, logical_bytes;
};

/* The part of a range that lies in one record. */
struct piece {
	uint64_t index;
	uint32_t from, to;
};
static inline struct piece piece_at(const struct volume *v, uint64_t offset, uint64_t length)
{
	uint32_t from = (uint32_t)(offset & (v->record_bytes - 1));

	return (struct piece){
		offset >> v->record_shift, from, (uint32_t)min_of(from + length, (uint64_t)v->record_bytes)};
}
int volume_range_check(const struct volume *v, uint64_t offset, uint64_t length, const char *what, struct error *err);
/* With p->lock held: may it be written to? */
int volume_writable(struct volume *v, struct dataset **ret, struct error *err);
/* Without locks. `from` NULL: zeros. */
int volume_put(
	struct volume *v, uint64_t offset, const void *from, uint64_t length, bool *ret_sync_always, struct error *err);
void volume_commit_due(struct volume *v); /* something became dirty */
/* With c->lock held. */
void record_make_dirty(struct cache *c, struct record *r, uint32_t charge);
void record_wait(struct cache *c, struct record *r); /* until something happened to it */

/* With c->lock held unless said otherwise. */
struct record *record_find(struct cache *c, const struct volume *v, uint64_t index);
struct record *record_add(struct cache *c, struct volume *v, uint64_t index); /* hashed, refs 1; NULL: out of memory */
void record_unref(struct cache *c, struct record *r);
void record_forget(struct cache *c, struct record *r); /* leaves the hash; goes with the last reference */
void record_unqueue(struct cache *c, struct record *r);
void record_used(struct cache *c, struct record *r, uint32_t from, uint32_t to);
void record_becomes_clean(struct cache *c, struct record *r, bool ahead);
uint64_t *valid_map_get(struct cache *c);
void valid_map_put(struct cache *c, uint64_t *map);
void cache_trim(struct cache *c, uint64_t need_bytes);
uint64_t cache_ahead_room(struct cache *c); /* bytes that may be asked for ahead */
bool cache_has_read_room(const struct cache *c, uint64_t bytes);
uint8_t *cache_buffer(struct cache *c, uint64_t bytes);
/* Records of v in [first, last), up to `room`, from hash place *cursor on; for ranges much longer than what is cached.
 */
unsigned records_in_range(struct cache *c, const struct volume *v, uint64_t first, uint64_t last, uint64_t *cursor,
	uint64_t *ret, unsigned room);
struct volume *volume_of_dataset(
	struct pool *p, const struct dataset *d, struct error *err);        /* p->lock held, not c->lock */
static inline uint32_t record_limit(const struct volume *v, uint64_t index) /* bytes of it that are inside the volume */
{
	return (uint32_t)min_of((uint64_t)v->record_bytes, v->size_bytes - (index << v->record_shift));
}
bool record_has(const struct record *r, uint32_t from, uint32_t to);

struct load *load_get(struct cache *c, unsigned items, unsigned held); /* NULL: out of memory */
void load_put(struct cache *c, struct load *l);
/* Without the lock: fetches all items; then with it: load_finish makes records usable. */
void load_run(struct load *l, bool sequential);
void load_finish(struct cache *c, struct load *l);
/* Makes a partial record whole, unless somebody else is at it: look again. Without the lock. */
int cache_fill_one(struct cache *c, struct volume *v, uint64_t index, struct error *err);

int spill_open(struct cache *c, struct error *err);
void spill_stop(struct cache *c);
void cache_drop_clean(struct cache *c); /* without the lock */
void dirty_enqueue(struct cache *c, struct record *r);
void dirty_done(struct cache *c, struct record *r); /* not dirty any more: gives back charges and counts */

int prefetch_open(struct cache *c, struct error *err);
void prefetch_stop(struct cache *c);
void prefetch_note(struct cache *c, struct volume *v, uint64_t first, uint64_t last, uint64_t bytes);
void prefetch_forget(struct cache *c, struct volume *v); /* NULL: all */

#endif
