/*
 * internal.h: how the files of the pool stand on each other. docs/pool.md tells the story.
 *
 *   volume.c  cache.c                    records: dirty, clean, read ahead
 *   catalog.c                            datasets, properties, snapshots, history
 *   spill.c   commit.c  checkpoint.c     dirty records -> stripes; transactions -> log; deltas -> trees
 *   log.c     delta.c   tree.c           the ring, what is not folded yet, what is
 *   stripe.c  space.c   node.c           columns with parity; runs and free space; tree nodes with copies
 *   label.c   compress.c  seal.c  workers.c  format.c
 *
 * Locks, in the order in which they may be taken: p->lock (all of the metadata in memory: space, runs, deltas, catalog,
 * transactions, dirty records), then the leaf locks of the caches. No lock is held over input or output.
 *
 * A number of life:
 *   commit      one durable step: its records in the log are whole, or it never was
 *   checkpoint  one folding: trees on disk that hold all commits up to `uberblock.commit`
 */
#ifndef POOL_INTERNAL_H
#define POOL_INTERNAL_H

#include "base.h"
#include "disk.h"
#include "format.h"
#include "layout.h"
#include "os.h"
#include "pool.h"

/* --- compress.c, seal.c, workers.c -------------------------------------------------------------------------------- */

/* 0 when it does not pay (saves less than one unit, or 1/8): store as it is. `room` is what out holds. zle: runs of zeros. */
size_t compress_record(enum compression c, int level, const void *in, size_t bytes, void *out, size_t room);
int decompress_record(enum compression c, const void *in, size_t bytes, void *out, size_t out_bytes, struct error *err);
bool is_all_zero(const void *data, size_t bytes);

/* The salt of a checksum: where a record belongs, so that the right bytes in the wrong place are wrong. */
struct seal_place {
	const uint8_t *pool_id;
	uint64_t place; /* data: run << 16 | nothing; node: tree */
	uint64_t where; /* data: stripe << 8 | column; node: level */
	uint64_t birth;
};
void seal_make(enum checksum_kind kind, const struct seal_place *place, const void *data, size_t bytes,
	uint8_t out[CHECKSUM_BYTES]);
void bp_seal(const struct pool *p, struct bp *bp, const void *data);         /* of a data pointer whose place is set */
bool bp_verify(const struct pool *p, const struct bp *bp, const void *data); /* of physical_bytes */

struct workers; /* a few threads and a queue; run() calls work(arg, i) for i < count and returns when all are done */
int workers_open(struct workers **ret, unsigned threads, struct error *err);
void workers_run(struct workers *w, unsigned count, void (*work)(void *arg, unsigned index), void *arg);
void workers_close(struct workers *w);

/* --- space.c: disks, zones, runs ---------------------------------------------------------------------------------- */

struct zone {
	uint8_t class; /* CLASS_COUNT + 1: free */
	uint32_t used; /* columns (or 16 KiB pieces) that are taken */
	uint64_t
		*bits; /* one a column; NULL while the zone is free. Nodes: as many again, of those in the quarantine */
	uint32_t longest; /* stretch of free columns, at most */
};
#define ZONE_FREE (CLASS_COUNT + 1)

struct pool_disk {
	struct disk *disk; /* NULL: missing */
	struct config_disk *config;
	unsigned index;
	enum pool_disk_state state;
	uint64_t data_start_bytes, zone_bytes;
	unsigned zone_count, zones_free, zones_kept; /* kept: the reserve */
	struct zone *zones;
	uint64_t free_bytes; /* of zones without a class and of columns in zones that have one */
	uint64_t read_errors, write_errors, checksum_errors;
	bool unflushed; /* a write completed since the last flush began */
	bool labelled;  /* both of its label headers are as they should be */
};

/* One descriptor in memory; all of them are there. Reached by id (hash) and, for scrub, in disk order. */
struct run {
	uint64_t id, birth, birth_last;
	uint16_t group;
	uint8_t class, k, p;
	uint32_t version;
	uint32_t stripes;         /* assigned so far, the open transaction's included */
	uint32_t stripes_room;    /* reserved on the disks: may still be appended to by later writes while it is open */
	uint32_t stripes_durable; /* in commits that are durable */
	uint32_t stripes_frozen;  /* in the checkpoint that is being made */
	uint32_t live_count;      /* data columns that are referenced */
	bool dirty;               /* the tree does not hold it as it is */
	struct disk_address column[POOL_WIDTH_MAX];
	uint8_t column_state[POOL_WIDTH_MAX];
	uint64_t *live, *returned; /* bits; see run_format */
	uint32_t *
		sums; /* of stripes sums_first … sums_end - 1, not in the sums tree yet. Whoever writes them there moves
				      the rest to the front and sums_first on, in one section with the new root in p->uber */
	uint32_t sums_first, sums_end;
	uint32_t unlogged;   /* stripes that are being written */
	uint64_t over_tag;   /* the checkpoint that freed its last stripe; 0: it has some */
	uint32_t repair;     /* columns that wait for it, a bit each */
	unsigned held;       /* by scrub and repair, which look at it without the lock */
	bool is_open, known; /* known: it was in a transaction or a tree */
	struct run *hash_next;
};

/* Quarantine (POOL-2): what checkpoint C freed may be used again when C + 2 is durable and no reader is pinned at C or before. */
int space_open(struct pool *p, struct error *err); /* from p->config and labels: all zones free */
void space_close(struct pool *p);
struct run *run_find(struct pool *p, uint64_t id);
/* At import and replay: makes a run known and takes its columns. ERR_CORRUPT when they overlap or lie outside. */
int run_install(struct pool *p, const struct run_format *f, struct error *err);
int run_extend(struct pool *p, const struct run_format *f, uint32_t first, uint32_t count, const uint8_t *sums,
	struct error *err);
void run_format_of(const struct run *r, uint32_t stripes, struct run_format *ret);
/* The fold found that nobody refers to this column any more. A stripe that is wholly dead gives its columns to the quarantine. */
void run_column_dead(struct pool *p, uint64_t run, uint32_t stripe, unsigned column);
struct disk_address run_place(const struct run *r, uint32_t stripe, unsigned column);
/* All runs that are `wanted` (NULL: all) in order of id, malloc'd. */
int runs_list(
	struct pool *p, bool (*wanted)(const struct run *r), struct run ***ret, size_t *ret_count, struct error *err);
/* LOG_RUN: run_pack_head, u32 first, u32 count, sums. The apply functions are for replay. */
size_t run_log_bytes(const struct run *r, uint32_t count); /* at most */
size_t run_log_pack(const struct run *r, uint32_t first, uint32_t count, const uint32_t *sums, uint8_t *out);
int run_log_apply(struct pool *p, const uint8_t *payload, uint32_t bytes, struct error *err);
/* The columns that such an entry will claim (of LOG_REPAIRED: those that are new). `held`: a bit for each that was free and is
 * taken; what was not free is for whoever applies it to judge. */
struct run_places {
	uint64_t unit[POOL_WIDTH_MAX];
	uint8_t disk[POOL_WIDTH_MAX];
	uint8_t class;
	uint32_t count, held;
};
bool run_places_hold(struct pool *p, bool repaired, const uint8_t *payload, uint32_t bytes, struct run_places *ret);
void run_places_release(struct pool *p, const struct run_places *places);
/* LOG_REPAIRED: run_pack_head with the new places and states; counts when its version is newer than what is known. */
size_t run_repaired_pack(const struct run *r, uint8_t *out); /* at most RUN_HEAD_BYTES_MAX */
int run_repaired_apply(struct pool *p, const uint8_t *payload, uint32_t bytes, struct error *err);

/* The next stripes to write in a class: up to `wanted` stripes of one run, neighbours, columns contiguous on each disk. Chooses the
 * group by free space in turn, continues the open run of (group, class), opens a new one when it is full. `records` is how many are
 * left to place: when fewer than k are, the answer is a short stripe of its own (k' = records, k' = 1 is a mirror) on the disks
 * with the most room. ERR_SPACE: nothing in what `use` allows; open runs may keep some. With p->lock held. */
struct allotment {
	struct run *run;
	uint32_t first, count;
};
/* `commit`: of the transaction that the stripes will belong to; a run that holds stripes of a later one is not continued for it. */
enum zone_use { /* which free zones may be opened */
	ZONES_NONE,
	ZONES_AVAILABLE, /* all but the reserve */
	ZONES_ALL,
};
int space_allot(struct pool *p, uint64_t commit, unsigned class, uint32_t records, uint32_t wanted, enum zone_use use,
	bool apart /* a run of its own */, struct allotment *ret, struct error *err);
void space_close_runs(struct pool *p); /* gives back what open runs reserved and did not use */
/* Metadata: `count` 16 KiB pieces in a row on each of `copies` distinct disks. */
struct meta_extent {
	unsigned copies;
	struct disk_address copy[POOL_COPIES_MAX];
	uint32_t count;
};
int space_allot_meta(struct pool *p, uint32_t wanted, struct meta_extent *ret, struct error *err);
void space_free_meta(struct pool *p, const struct bp *bp);                           /* into the quarantine */
void space_unallot_meta(struct pool *p, const struct meta_extent *e, uint32_t from); /* was never written */
int space_take_meta(struct pool *p, struct disk_address a, struct error *err);       /* at import */
void space_checkpoint_done(struct pool *p, uint64_t checkpoint); /* releases the quarantine's due part */
/* What a write of so many bytes may count on, without the reserve (POOL-9), dirty records already promised subtracted. */
uint64_t space_available_bytes(struct pool *p);
/* The same for records of one size: a zone of smaller columns does not hold them. What a writer asks before it dirties one. */
uint64_t space_available_for(struct pool *p, uint32_t record_bytes);
void space_figures(struct pool *p, struct pool_space *ret); /* snapshots' part of data_bytes is the catalog's to move */
bool space_is_coming(const struct pool *p);                 /* checkpoints may release something */
/* For the checkpoint, with p->lock held: the runs that are dirty, in order of id (malloc'd; NULL and 0: none; ERR_MEMORY). */
int runs_dirty(struct pool *p, struct run ***ret, size_t *ret_count, struct error *err);
bool run_is_over(const struct run
		*r); /* closed and all stripes returned: leaves the tree; stays known until its quarantine ends */
/* Zones of nodes as the checkpoint in the making will have them: what is in use less what it freed. `visit` gets the bits, one a
 * piece of 16 KiB. With p->lock held. */
void space_meta_zones(struct pool *p,
	void (*visit)(void *arg, unsigned disk, unsigned zone, const uint8_t *bits, uint32_t bytes), void *arg);

/* --- stripe.c: columns on disks ----------------------------------------------------------------------------------- */

struct stored_record { /* one record on its way to a column */
	struct bp bp; /* in: kind DATA, compression, checksum_kind, logical and physical bytes, birth; out: all of it */
	void *data; /* DISK_BUFFER_ALIGN, room for class_bytes[class]; what lies behind physical_bytes is zeroed here */
	unsigned class;
	void *owner;
};
/* `t` is held (transaction_enter) and stays so until the caller has put the new pointers. All records or none.
 * Places the records (in order: consecutive ones go to consecutive columns), seals them, makes parity and sums, writes all in
 * batches (one request a disk for neighbouring columns), waits. Write errors within redundancy mark the column and queue a repair
 * (POOL-6); beyond it the stripe is written elsewhere. The runs' log entries are appended to `t` under p->lock when all is
 * written. May run in two threads at once. */
struct transaction;
int stripes_write(struct pool *p, struct transaction *t, struct stored_record **records, unsigned count, bool reserve,
	struct error *err);
/* Reads one record's physical bytes: hint or descriptor, verify, else the other copies or reconstruction (verified by the
 * column sums, then by the record's own checksum), then queues the repair. ERR_LOST names what is missing. buffer has room
 * for the column. `many` reads a batch at once, merging neighbours of a disk into one request; each has its own status. */
struct record_read {
	struct bp bp;
	void *buffer; /* DISK_BUFFER_ALIGN, round_up(physical, unit) bytes */
	int status;
	struct error error;
};
void stripes_read(
	struct pool *p, struct record_read *reads, unsigned count, bool sequential /* mirrors: take long turns */);
/* Verifies stripe s of a run against its sums and parity, repairs into a new place. For scrub and rebuild. */
struct stripe_verdict {
	unsigned bad_columns, repaired_columns;
	bool lost;
};
int stripe_verify(
	struct pool *p, struct run *r, uint32_t stripe, bool repair, struct stripe_verdict *ret, struct error *err);
void scrub_status(struct pool *p, struct pool_status *ret); /* .scrub and .damaged, without p->lock */
/* The queue of what reads and writes found bad; the keeper works it off. */
int repairs_open(struct pool *p, struct error *err); /* after space_open */
void repairs_close(struct pool *p);
int repairs_run(struct pool *p, struct error *err); /* 0: nothing is left */
int disks_flush(
	struct pool *p, struct error *err); /* all that have unflushed writes; a failed one is faulted, or POOL-5 */
/* pool.c; without p->lock: state, missed_from, event; the next commit writes the configuration first. Suspends beyond redundancy. */
void disk_fault(struct pool *p, unsigned index, const char *why);

/* --- node.c, tree.c, delta.c -------------------------------------------------------------------------------------- */

/* Tree numbers: 0 catalog, 1 runs, 2 sums, 3 dead lists, 4 metadata map, a dataset's id (from 16) for its own. */
enum { TREE_CATALOG, TREE_RUNS, TREE_SUMS, TREE_DEAD, TREE_METAMAP, TREE_DATASET_FIRST = 16 };

/* The cache of nodes: immutable once in. get pins, put unpins; reads the copy on the least busy disk, verifies, else the next one, and
 * writes a bad copy anew in its place: whoever gets a node holds what keeps its place from being used again (reader_enter, or it is
 * the fold). All without p->lock. A node is sealed with its level and with its tree, all datasets being one (clones share nodes). */
struct node;
int node_cache_open(struct pool *p, struct error *err); /* a quarter of tuning.cache_bytes */
void node_cache_close(struct pool *p);
void node_cache_drop(struct pool *p);
void node_counters(
	struct pool *p, struct pool_counters *ret); /* nodes_read, nodes_written, metadata_bytes, and what it holds is
								  added to cache_bytes */
int node_get(struct pool *p, const struct bp *bp, uint64_t tree, int level, struct node **ret, struct error *err);
/* Many at once, neighbours of a disk by one request. All or none: puts what it got before it fails. */
int nodes_get(struct pool *p, const struct bp *bps, unsigned count, uint64_t tree, int level, struct node **ret,
	struct error *err);
const uint8_t *node_bytes(const struct node *n);
void node_put(struct pool *p, struct node *n);
void node_seal(const struct pool *p, struct bp *bp, uint64_t tree, const uint8_t *bytes); /* level and birth are set */
/* Reads every copy, past the cache; for scrub (repair: bad ones are written anew) and check. `bad` counts copies on disks that are
 * there; a copy on an absent disk is in `absent`. ERR_LOST: none is good. */
struct node_verdict {
	unsigned good, bad, repaired, absent;
	uint8_t bad_copies; /* a bit each */
};
int node_verify(struct pool *p, const struct bp *bp, uint64_t tree, int level, bool repair, struct node_verdict *ret,
	struct error *err);
/* Writes new nodes (16 KiB buffers, sealed, addresses set in their pointers) to all copies; neighbours become one request. */
struct node_write {
	struct bp bp;
	uint8_t *bytes;
	uint64_t tree;
};
int nodes_write(struct pool *p, struct node_write *nodes, unsigned count, struct error *err);

struct tree_change {
	struct key key;
	const uint8_t *value;
	uint32_t bytes; /* 0: delete */
};
int tree_lookup(struct pool *p, const struct bp *root, uint64_t tree, struct key key, uint8_t *value, uint32_t room,
	uint32_t *ret_bytes, struct error *err); /* ERR_NOT_FOUND without a sentence */
/* From `from` on, in order. visit returns false to stop. */
int tree_walk(struct pool *p, const struct bp *root, uint64_t tree, struct key from,
	bool (*visit)(void *arg, struct key key, const uint8_t *value, uint32_t bytes), void *arg, struct error *err);
/* Every node below root, for check and for freeing: inner ones before their children. */
int tree_walk_nodes(struct pool *p, const struct bp *root, uint64_t tree, bool (*visit)(void *arg, const struct bp *bp),
	void *arg, struct error *err);
/* A tree lost this node (checkpoint.c): into the quarantine, or to the dead list when a snapshot holds it. tree_update calls it for
 * each node that it replaced, once the new ones are written; after a failure the old tree is whole and nothing was freed. */
void fold_node_dead(struct pool *p, uint64_t tree, const struct bp *bp);
/* A new root with all changes (sorted by key, no key twice) made: copy on write, nodes that were replaced go to the quarantine,
 * new ones are gathered and written in batches. `old` is called with the former value of each key that had one. */
int tree_update(struct pool *p, struct bp *root, uint64_t tree, const struct tree_change *changes, size_t count,
	uint64_t birth, void (*old)(void *arg, struct key key, const uint8_t *value, uint32_t bytes), void *arg,
	struct error *err);

/* What is committed (or about to be) and not folded yet: ordered by (tree, key). */
struct delta;
struct delta_entry {
	uint64_t tree;
	struct key key;
	uint32_t bytes; /* 0: deleted */
	const uint8_t *value;
};
int delta_open(struct delta **ret, struct error *err);
void delta_close(struct delta *d);
/* A data pointer that is replaced here never reached a tree: it goes to the delta's list of the dead. */
int delta_put(struct delta *d, uint64_t tree, struct key key, const uint8_t *value, uint32_t bytes, struct error *err);
const struct delta_entry *delta_find(const struct delta *d, uint64_t tree, struct key key);
const struct delta_entry *delta_at_or_after(
	const struct delta *d, uint64_t tree, struct key key); /* same tree, or NULL */
void delta_absorb(struct delta *into, struct delta *from);     /* from's entries win; from is emptied */
size_t delta_count(const struct delta *d);
uint64_t delta_bytes(const struct delta *d);
/* In (tree, key) order. */
void delta_walk(const struct delta *d, void (*visit)(void *arg, const struct delta_entry *e), void *arg);
void delta_walk_dead(const struct delta *d, void (*visit)(void *arg, uint64_t tree, const struct bp *bp), void *arg);

/* --- log.c, commit.c, checkpoint.c -------------------------------------------------------------------------------- */

/* A transaction: what has been written to its place and waits for its commit. A writer enters it, writes stripes, puts pointers,
 * leaves; it is closed at once by a commit (a new one is open from then on) and committed when all have left. So a pointer's
 * birth is its commit, and a run's stripes and the pointers to them are in one commit. Who is inside may not wait for a commit or a
 * checkpoint: leave first. All with p->lock held. */
struct transaction {
	uint64_t commit;
	struct delta *delta;
	uint8_t *entries; /* packed log entries, growing */
	size_t bytes, room;
	uint64_t record_bytes; /* of data behind it */
	unsigned inside;       /* writers */
	bool barrier;          /* a snapshot, rollback, clone or destroy: fold right after this commit */
	struct fold_op *ops;   /* LOG_BARRIER, LOG_DESTROY, LOG_ROOT in order; done by the fold after all its entries */
	size_t op_count;
};
struct transaction *transaction_enter(struct pool *p); /* the open one */
void transaction_leave(struct pool *p, struct transaction *t);
/* Into the delta and the entries; dataset 0 is the catalog. t NULL: the open one. bytes 0: delete. */
int transaction_put(struct pool *p, struct transaction *t, uint64_t dataset, struct key key, const uint8_t *value,
	uint32_t bytes, struct error *err);
int transaction_append(struct pool *p, struct transaction *t, enum log_type type, const void *payload, uint32_t bytes,
	struct error *err);
/* Before new dirty data is taken in, without locks: waits while the log has no room for it; fails when the pool is suspended. */
int transaction_wait_room(struct pool *p, struct error *err);
/* With the lock, which is let go meanwhile: waits while the dirty records of a commit leave. What is said of all data that was
 * written before (a snapshot) must not join a commit that has passed some of it already. */
int transaction_settle(struct pool *p, struct error *err);
void commit_due(struct pool *p); /* with the lock: something became dirty, the timer may run */
/* The value of a key as of now: open transaction, committing one, committed, frozen, tree. */
/* Without the lock, between reader_enter and reader_leave. */
int record_lookup(struct pool *p, uint64_t dataset, struct key key, uint8_t *value, uint32_t room, uint32_t *ret_bytes,
	struct error *err);
int pool_commit_now(struct pool *p, struct error *err); /* waits until all that is in the transaction is durable */
/* LOG_INTENT entries (log_entry_put), one write and one flush, shared with others. With p->lock held since the bytes were copied out of
 * the dirty records (so that what the log holds is in order); released while it waits, held again at return. A commit when the ring is
 * short of room, or when they are long and the log is in use. */
int pool_commit_intent(struct pool *p, const uint8_t *entries, size_t bytes, struct error *err);
void pool_checkpoint_ask(struct pool *p); /* in the background */
int pool_checkpoint_now(struct pool *p, struct error *err);
int pool_barrier_now(struct pool *p,
	struct error *err); /* after a snapshot, rollback, clone, destroy: durable, folded, roots in place */
int config_write(struct pool *p, struct error *err); /* pool.c: labels_write, when config_dirty */

int log_append(struct pool *p, uint64_t commit, uint8_t flags, const uint8_t *entries, size_t bytes, struct error *err);
int log_open(struct pool *p, struct error *err); /* empty, at p->uber's place */
void log_close(struct pool *p);
uint32_t log_entries_max(const struct pool *p); /* of one record; an entry is at most that */
uint64_t log_free_bytes(const struct pool *p);
uint64_t log_used_bytes(const struct pool *p);
bool log_fits(const struct pool *p, size_t entry_bytes); /* a commit of so many bytes has room now */
void log_promise(struct pool *p, size_t entry_bytes);    /* intents leave that room until it is said to be 0 */
void log_tail(const struct pool *p, uint64_t commit, uint64_t *ret_sequence,
	uint64_t *ret_offset);                       /* of a checkpoint at it */
void log_advance(struct pool *p, uint64_t sequence); /* that checkpoint is durable: what is before is free */
void log_jump(struct pool *p, uint64_t by);          /* import: numbers that no disk has seen */
/* What log_replay has not come to yet: each whole commit, no intents. */
int log_look_ahead(struct pool *p,
	int (*visit)(struct pool *p, uint64_t commit, uint8_t flags, const uint8_t *entries, uint32_t bytes,
		struct error *err),
	struct error *err);
/* The ring as the disks hold it, from p->uber on. apply gets each whole commit after uber.commit, then the intents that none of
 * them holds. ret_found: anything was there, or a ring could not be read. */
int log_replay(struct pool *p,
	int (*apply)(struct pool *p, uint64_t commit, uint8_t flags, const uint8_t *entries, uint32_t bytes,
		struct error *err),
	bool *ret_found, struct error *err);

/* commit.c: the thread of commits; checkpoint.c: that of folds. */
int commit_open(struct pool *p, struct error *err); /* an open transaction; threads unless read-only */
int commit_start(struct pool *p, struct error *err);
void commit_stop(struct pool *p);
/* keeper.c: a thread that renews the owner's stamp and does the repairs that are queued. */
int keeper_start(struct pool *p, struct error *err);
void keeper_stop(struct pool *p);
void keeper_wake(struct pool *p); /* with the lock: there is something to repair */
void commit_close(struct pool *p);
int commit_apply(
	struct pool *p, uint64_t commit, uint8_t flags, const uint8_t *entries, uint32_t bytes, struct error *err);
int commit_into_checkpoint(
	struct pool *p, struct error *err); /* import: what is open becomes durable by a checkpoint, not the log */
struct checkpoint;
struct fold_op {
	enum log_type type;
	uint64_t dataset, from;
};
bool checkpoint_freeze(struct pool *p, struct fold_op *ops, size_t op_count); /* with the lock; takes the ops */
int checkpoint_run(struct pool *p, struct error *err);                        /* what is frozen, here */
void checkpoint_drop(struct pool *p);
void pool_suspend(struct pool *p, const char *format, ...) __attribute__((format(printf, 2, 3))); /* with the lock */
int pool_refuses(struct pool *p, struct error *err); /* with the lock: suspended or read-only */

/* Pins: a reader that looks a pointer up keeps what it points to from being used again. With p->lock held. */
uint64_t reader_enter(struct pool *p); /* the checkpoint that is durable */
void reader_leave(struct pool *p, uint64_t pin);
uint64_t reader_oldest(const struct pool *p); /* UINT64_MAX: none. What C freed waits while this is < C */

/* --- catalog.c, volume.c, cache.c, spill.c ------------------------------------------------------------------------ */

struct dataset {
	uint64_t id, parent,
		origin; /* origin: the snapshot that a clone grew from; a snapshot's parent is its dataset */
	char name[256];
	enum dataset_type type;
	uint64_t volume_bytes, created_ns, created_commit;
	uint32_t record_bytes;
	struct bp root; /* as of the last checkpoint; this and the figures are kept by the fold, item CATALOG_ROOT */
	uint64_t dead_list; /* id of its list in TREE_DEAD, keys {list, any}, values a packed bp; 0: none yet */
	uint64_t used, referenced, logical_referenced; /* bytes, kept by the fold */
	uint64_t reservation, quota;
	uint64_t
		newest_snapshot_commit; /* a pointer born later is freed when it goes, an older one joins the dead list */
	/* the properties that the data path asks for, inherited ones resolved */
	enum compression compression;
	int compression_level;
	enum checksum_kind checksum;
	bool sync_always, sync_disabled, read_only;
	bool destroyed, dirty;
	struct list link;
};
/* The fold writes one item of the catalog for each dataset, key {id, CATALOG_ROOT}, and catalog_load reads it; catalog_apply never
 * sees it. All else of a dataset is in items of other b, written by transactions only. Packed: bp 64, used 8, referenced 8,
 * logical_referenced 8, dead_list 8, newest_snapshot_commit 8 = 104 bytes, no item: hole and zeros. */
#define CATALOG_ROOT UINT64_MAX
#define CATALOG_ROOT_BYTES 104u
void catalog_close(struct pool *p); /* frees all datasets; what was only half loaded too */
struct dataset *dataset_by_id(struct pool *p, uint64_t id);
struct dataset *dataset_by_path(struct pool *p, const char *path, struct error *err);
int catalog_load(struct pool *p, struct error *err);
int catalog_apply(struct pool *p, struct key key, const uint8_t *value, uint32_t bytes, struct error *err); /* replay */
/* For the fold, with p->lock held. Neighbours in time of a snapshot of the same dataset, destroyed ones that are not gone included;
 * before(head) is its newest. gone: the fold is through with it; unlinked and freed. */
struct dataset *catalog_snapshot_before(struct pool *p, const struct dataset *d);
struct dataset *catalog_snapshot_after(struct pool *p, const struct dataset *d); /* NULL: none, the head is next */
void catalog_dataset_gone(struct pool *p, struct dataset *d);

struct cache; /* of records: clean ones bounded and scan-resistant, dirty ones until they are spilled and committed */
int cache_open(struct pool *p, struct error *err);
void cache_close(struct pool *p);
/* Writes dirty records out to stripes (not yet committed): all that was dirty at the call, of a dataset (0: all), also what other
 * threads are just writing out: when it returns their pointers are in a transaction that was open at the call or later. */
int spill_all(struct pool *p, uint64_t dataset, struct error *err);
void cache_counters(struct pool *p, struct pool_counters *ret);
uint64_t spill_dirty_bytes(struct pool *p);
uint64_t spill_promised_bytes(
	struct pool *p); /* of space, to records that are not placed yet; also with p->lock held */
/* Before a dataset goes or takes another root, without the lock: waits for its writes on the way, forgets all its records. */
void cache_forget(struct pool *p, uint64_t dataset);
/* At import, after the last whole commit: the bytes of a LOG_INTENT, as an ordinary write. A dataset that is gone: 0, nothing done. */
int volume_replay_intent(struct pool *p, const uint8_t *payload, uint32_t bytes, struct error *err);

/* --- the pool ----------------------------------------------------------------------------------------------------- */

struct pool {
	uint8_t id[16];
	struct pool_config config;
	struct pool_tuning tuning;
	bool read_only, suspended, closing;
	char read_only_reason[512], suspended_reason[512];

	struct os_mutex lock;
	struct os_cond
		changed; /* a commit or checkpoint became durable, space or dirty room came free, the pool suspended */

	struct pool_disk disks[POOL_DISKS_MAX];
	unsigned disk_count;
	struct pool_group {
		unsigned index, width, parity, disk_count;
		enum group_kind kind;
		unsigned disks[POOL_DISKS_MAX];
	} groups[POOL_GROUPS_MAX];
	unsigned group_count, copies; /* of metadata and log */
	struct uberblock uber;        /* the last durable one */
	uint64_t run_bytes, log_bytes, log_offset_bytes;

	uint64_t next_run, next_dataset; /* the next free ones, raised by what a replay shows */
	uint64_t checkpoint_newest;      /* the highest number seen on any disk; above uber.checkpoint after a rewind */
	bool config_dirty, abandoned;
	bool uber_is_everywhere;       /* import: every ring that counts has the newest checkpoint */
	struct checkpoint *checkpoint; /* in the making */

	struct transaction *open, *closing_transaction;
	struct delta *committed, *frozen;
	uint64_t commit_durable, checkpoint_durable;
	uint64_t
		intent_commit; /* what an fsync's intent counts for: the open transaction, or while its records leave the next one */

	struct space *space;
	struct log *log;
	struct workers *workers;
	struct cache *cache;
	struct node_cache *nodes;
	struct committer *committer;
	struct keeper *keeper;
	struct list datasets;
	struct catalog *catalog;
	struct scrub *scrub;
	struct pool_counters counters;
	struct event_ring *events;
};
void pool_event(struct pool *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An invariant of the pool, checked in every build; with POOL_MUTATE a chosen rule is broken and its asserts are off. */
#ifdef POOL_MUTATE
#define pool_breaks(p, rule) ((p)->tuning.break_rule == (rule))
#else
#define pool_breaks(p, rule) false
#endif
#define pool_assert(p, rule, condition) sp_assert(pool_breaks(p, rule) || (condition))

int labels_read(struct pool *p, const struct pool_open_options *o, struct disk *const *disks, unsigned disk_count,
	struct error *err);
int labels_write(struct pool *p, struct error *err); /* a new generation of the configuration */
int uberblock_write(struct pool *p, const struct uberblock *u, struct error *err); /* all disks, both labels, flushed */
/* The newest uberblock, or the one `back` checkpoints before it, of disks that missed nothing; sets checkpoint_newest. */
int uberblocks_read(struct pool *p, unsigned back, struct uberblock *ret, struct error *err);
/* The owner renews its stamp so often, on one disk in turn (`turn` counts): another host sees that the pool is in use. */
#define POOL_ACTIVITY_NS 400000000ULL
int activity_write(struct pool *p, uint64_t turn);

#endif
