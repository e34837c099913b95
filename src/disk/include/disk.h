/*
 * disk: a batch of requests goes down, completions come back. May use base and os (and liburing, libblkid).
 *
 * For those who use disks. Those who write one read disk_ops.h.
 *
 *   struct disk_queue   belongs to one thread, which submits to any disks and reaps what is done
 *   struct disk_request one operation; the caller owns it and its buffers until it is reaped
 *
 * A disk may be shared by many queues. Requests in flight at once are not ordered among each other: whoever
 * needs an order waits. A completed write is durable only after a later flush, unless the disk says that it
 * needs none.
 */
#ifndef DISK_H
#define DISK_H

#include <sys/uio.h>

#include "base.h"
#include "os.h"

struct disk;
struct disk_queue;
struct disk_request;

enum disk_op { DISK_READ, DISK_WRITE, DISK_FLUSH, DISK_DISCARD, DISK_OP_COUNT };
extern const char *const disk_op_names[DISK_OP_COUNT];

#define DISK_LAYERS_MAX 6

struct disk_frame {
	struct disk *disk;
	void (*done)(struct disk *disk, struct disk_request *r); /* see disk_ops.h */
	uint64_t word;
};

struct disk_request {
	/* Set by the caller (disk_request_init for one buffer). offset, length and buffers must be multiples of
	 * the logical sector; buffers are aligned to DISK_BUFFER_ALIGN. */
	enum disk_op op;
	unsigned iov_count;
	uint64_t offset_bytes;
	uint64_t length_bytes; /* the sum of iov; the length of a discard; 0 for a flush */
	const struct iovec *iov;
	void *owner; /* for the caller */

	/* Set when it is done. */
	int status;      /* 0, or an error code: ERR_IO, ERR_MEDIA, ERR_GONE, ERR_SPACE, ERR_TIMEOUT … */
	const char *why; /* a constant phrase that says more than the code, or NULL */
	uint64_t submit_ns, done_ns;

	/* Private to the disk part. */
	struct iovec iov1;
	struct disk *disk;
	struct disk *current; /* the layer that has it */
	struct disk_queue *queue;
	struct list link;
	struct os_timer timer;
	struct disk_frame stack[DISK_LAYERS_MAX];
	unsigned depth;
	uint64_t entered_ns[DISK_LAYERS_MAX + 1]; /* by layer, the backend's first */
	uint64_t arrival_ns;                      /* for models */
	uint64_t word;                            /* for the layer that holds the request at the moment */
};

#define DISK_BUFFER_ALIGN 4096

void disk_request_init(
	struct disk_request *r, enum disk_op op, uint64_t offset_bytes, void *buffer, uint64_t length_bytes);
void disk_request_init_iov(
	struct disk_request *r, enum disk_op op, uint64_t offset_bytes, const struct iovec *iov, unsigned iov_count);

/* --- queues ------------------------------------------------------------------------------------------ */

int disk_queue_open(struct disk_queue **ret_queue, struct error *err);
void disk_queue_close(struct disk_queue *q); /* nothing may be in flight */
/* This thread's own queue, made at first use and closed when the thread ends. For the calls below that wait
 * before they return; never leave anything in flight on it. */
struct disk_queue *disk_queue_of_thread(struct error *err);

/* Hands over one request. It may be gathered with others until disk_queue_kick or disk_queue_reap. */
void disk_queue_submit(struct disk_queue *q, struct disk *d, struct disk_request *r);
void disk_queue_kick(struct disk_queue *q);
/* The next finished request; NULL when none is finished before the deadline (os_now_ns time; 0: do not
 * wait; UINT64_MAX: wait) or none is in flight. */
struct disk_request *disk_queue_reap(struct disk_queue *q, uint64_t deadline_ns);
unsigned disk_queue_in_flight(const struct disk_queue *q);

/* One operation, waited for. On failure the sentence names the disk, the operation and the place. */
int disk_read(struct disk *d, uint64_t offset_bytes, void *buffer, uint64_t length_bytes, struct error *err);
int disk_write(struct disk *d, uint64_t offset_bytes, const void *buffer, uint64_t length_bytes, struct error *err);
int disk_flush(struct disk *d, struct error *err);
int disk_discard(struct disk *d, uint64_t offset_bytes, uint64_t length_bytes, struct error *err);
/* Writes the sentence for a request that came back with a status. Returns the status. */
int disk_request_error(const struct disk_request *r, struct error *err);

/* --- what a disk is, promises and does --------------------------------------------------------------- */

struct disk_traits {
	const char *name;   /* as the user named it, without wrappers: "/dev/sdb", "mem:256MiB", unique with #i */
	const char *spec;   /* as the user wrote it, wrappers and all */
	const char *path;   /* NULL for memory */
	const char *engine; /* "io_uring", "threads", "memory" */
	const char *model;  /* of the device, or of the modelled disk; "" when unknown */
	const char *serial; /* "" when unknown */
	const char *note;   /* why direct I/O or io_uring is not in use; "" when it is */
	uint64_t size_bytes;
	uint64_t nominal_bytes; /* of the modelled disk; else size_bytes */
	uint32_t logical_bytes, physical_bytes;
	uint32_t atomic_bytes; /* a write of so much, aligned, is never torn */
	bool direct;           /* the page cache is out of the way, proved by trying */
	bool is_memory, is_modelled, is_block_device, rotating, read_only;
	bool needs_flush; /* completed writes may be lost without it */
	bool discard_zeroes;
};
const struct disk_traits *disk_traits(const struct disk *d);

struct disk_op_counters {
	uint64_t done, bytes, errors;
	uint64_t latency_ns_sum, latency_ns_max;
};
struct disk_counters {
	struct disk_op_counters op[DISK_OP_COUNT];
	uint64_t busy_ns;                 /* time with at least one request in flight */
	uint64_t unaligned_physical;      /* writes that were not whole physical sectors */
	uint64_t late_ns_sum, late_count; /* models on the real clock: completions delivered after they were due */
};
void disk_counters(const struct disk *d, struct disk_counters *ret);

/* For whoever may choose between copies: requests in flight, where the last one ended, and an estimate of the
 * latency of the next small read (moving average; 0 when unknown). */
struct disk_load {
	unsigned in_flight;
	uint64_t end_bytes;
	uint64_t latency_ns;
};
void disk_load(const struct disk *d, struct disk_load *ret);

void disk_close(struct disk *d); /* NULL is fine; nothing may be in flight */

/* --- the DISK grammar ------------------------------------------------------------------------------
 *
 *   PATH | mem:SIZE  { +model=NAME[,key=value]… | +fault=KIND[,key=value]… | +trace=FILE }  [*N]
 *
 * see docs/disks.md. Wrappers stack in the order written, the last outermost.
 */

struct disk_wrapper_spec {
	char kind[16];   /* "model", "fault", "trace" */
	char value[256]; /* what stands behind the '=' */
};
struct disk_spec {
	char *text; /* of this one disk */
	char *name; /* without wrappers, memory disks numbered through the list: "mem:256MiB#3" */
	char *path; /* NULL for memory */
	uint64_t memory_bytes;
	unsigned index; /* which of *N, from 0 */
	unsigned wrapper_count;
	struct disk_wrapper_spec wrappers[DISK_LAYERS_MAX];
};
struct disk_specs {
	struct disk_spec *items;
	size_t count;
};
/* Parses one word and appends what it names. Checks every key and value (a model that does not exist is
 * refused here), touches no disk. */
int disk_specs_add(struct disk_specs *list, const char *word, struct error *err);
/* "NAME:N" or "NAME" of --model: N memory disks of `bytes` each with that model. */
int disk_specs_add_model(struct disk_specs *list, const char *word, uint64_t bytes_each, struct error *err);
void disk_specs_release(struct disk_specs *list);

enum disk_engine { DISK_ENGINE_AUTO, DISK_ENGINE_URING, DISK_ENGINE_THREADS };
struct disk_open_options {
	bool read_only;
	bool exclusive; /* O_EXCL on a block device, flock on a file, while it is open */
	bool buffered;  /* do not even try O_DIRECT */
	enum disk_engine engine;
};
int disk_open(const struct disk_spec *spec, const struct disk_open_options *options, struct disk **ret_disk,
	struct error *err);
/* A memory disk without the grammar, for tests: zero filled, 512-byte sectors unless physical_bytes says more. */
int disk_open_memory(const char *name, uint64_t size_bytes, struct disk **ret_disk, struct error *err);

/* --- models ------------------------------------------------------------------------------------------ */

struct disk_model_info {
	const char *name, *summary, *source; /* the data sheet or measurement that its numbers cite */
	bool rotating;
	uint64_t nominal_bytes;
	double outer_mb_per_s, inner_mb_per_s, seek_avg_ms;
	unsigned rpm;
	double random_read_iops; /* flash; 0 for rotating disks */
};
size_t disk_model_count(void);
const struct disk_model_info *disk_model_info(size_t index);

/* --- safety ------------------------------------------------------------------------------------------ */

/* What is known of a path before anything is written to it. */
struct disk_facts {
	char path[256];
	char real_path[256];                       /* symlinks resolved */
	char model[64], serial[64], transport[16]; /* sysfs, "" when unknown */
	char signature[64]; /* "ext4", "gpt", "mdraid", "LVM2_member", "zfs_member", "spindle array NAME", "ambivalent";
			       "" none */
	uint64_t signature_offset_bytes;
	char in_use[256]; /* "mounted on /home", "swap", "held by md0", "open exclusively elsewhere"; "" when free */
	uint64_t size_bytes;
	uint32_t logical_bytes, physical_bytes;
	bool exists, is_block_device, is_directory, rotating;
	bool empty;             /* first and last MiB, and 64 samples between, are zero or holes */
	uint64_t device, inode; /* identity, so that one disk under two names is found */
};
int disk_inspect(const char *path, struct disk_facts *ret, struct error *err);
/* ERR_REFUSED with the reason when writing to the path would touch what is not ours: mounted, held, swap, a
 * signature, not empty. `forced` lifts signature and content, never "mounted", "held" or "swap". */
int disk_guard(const struct disk_facts *facts, bool forced, struct error *err);

#endif
