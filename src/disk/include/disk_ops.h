/*
 * disk_ops: for those who write a disk or a wrapper of one. Users of disks read disk.h.
 *
 * A backend embeds `struct disk` as its first member and lives in one file. Nobody calls through the table
 * directly: disk_queue_submit checks range, alignment and state on the way in and the error rule on the way out.
 *
 * A wrapper that wants to see a request again when it is done pushes a frame before it passes the request
 * down; disk__complete pops it and calls `done`, which may change the status or the data, hold the request
 * (set its timer, keep it in a list) and must in the end call disk__complete again. So a request needs no
 * allocation, however many layers it goes through.
 */
#ifndef DISK_OPS_H
#define DISK_OPS_H

#include "disk.h"

struct disk_ops {
	const char *kind;

	/* Required. Called by the submitting thread with a checked request. Ends, now or later and on any thread,
	 * in one disk__complete. Must not wait for other requests of this queue. */
	void (*submit)(struct disk *d, struct disk_request *r);

	/* Required for backends that can sit below a model. Does the whole operation before it returns, and
	 * returns its status; wrappers that only add time use it to move the bytes. */
	int (*run)(struct disk *d, struct disk_request *r);

	/* Optional. The queue gathered requests of this disk and is about to wait: send them. */
	void (*kick)(struct disk *d, struct disk_queue *q);

	/* Required. Frees what the backend holds; a wrapper closes the disk below it. Nothing is in flight. */
	void (*close)(struct disk *d);
};

struct disk {
	const struct disk_ops *ops;
	struct disk *below; /* NULL for a backend */
	struct disk *above; /* NULL for the outermost */
	unsigned level;     /* 0 for a backend */
	char *spec_text;    /* owned; what traits.spec points to, on the outermost */
	struct disk_traits traits;
	/* counters and load, kept by the wrapper functions in disk.c under `lock` */
	struct os_mutex lock;
	struct disk_counters counters;
	unsigned in_flight;
	uint64_t busy_since_ns;
	uint64_t end_bytes;
	uint64_t latency_ns;
};

/* Fills the common part. The strings of the traits stay the caller's and must live as long as the disk; NULL
 * traits: those of the disk below. */
void disk__init(struct disk *d, const struct disk_ops *ops, struct disk *below, const struct disk_traits *traits);
void disk__release(struct disk *d);

/* Passes a request on to the disk below: same checks, counted there too. */
void disk__submit_below(struct disk *d, struct disk_request *r);
int disk__run_below(struct disk *d, struct disk_request *r);

/* `done` finds `word` in r->word. One frame a wrapper at most. */
void disk__push(
	struct disk_request *r, struct disk *d, void (*done)(struct disk *d, struct disk_request *r), uint64_t word);
/* The operation of the layer that has the request (r->current) is over. On any thread. */
void disk__complete(struct disk_request *r, int status);

/* Opening each kind; `args` is what stands behind the '=' in the grammar. Each takes over `below` on success. */
int disk__file_open(
	const struct disk_spec *spec, const struct disk_open_options *o, struct disk **ret, struct error *err);
int disk__memory_open(const char *name, const char *spec, uint64_t size_bytes, struct disk **ret, struct error *err);
int disk__model_wrap(struct disk *below, const char *args, unsigned index, struct disk **ret, struct error *err);
int disk__fault_wrap(struct disk *below, const char *args, unsigned index, struct disk **ret, struct error *err);
int disk__trace_wrap(struct disk *below, const char *args, unsigned index, struct disk **ret, struct error *err);
/* The checks alone, for disk_specs_add. */
int disk__model_check(const char *args, struct error *err);
int disk__fault_check(const char *args, struct error *err);
int disk__trace_check(const char *args, struct error *err);

#endif
