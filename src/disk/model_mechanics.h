/*
 * model_mechanics: what the files of the modelled disk share. model.c wraps a disk and keeps the clock;
 * model_hdd.c and model_flash.c say how long things take; model_table.c holds the named models.
 */
#ifndef MODEL_MECHANICS_H
#define MODEL_MECHANICS_H

#include "disk_ops.h"

/* Everything that decides how long a request takes. 0 where a field is of the other kind of disk. */
struct model_params {
	struct disk_model_info info;
	uint32_t logical_bytes, physical_bytes;
	uint64_t cache_bytes;  /* of RAM in the drive; 0: no write cache, and a small read buffer */
	bool cache_given;      /* asked for, not the drive's own */
	double link_mb_per_s;  /* interface */
	double overhead_us;    /* command processing */
	double flush_ms;       /* of a flush beyond the writing itself */
	uint64_t burst_bytes;  /* media cache (SMR) or SLC cache (flash); 0: none */
	double after_mb_per_s; /* writes once it is full, and how fast it empties */

	/* rotating */
	unsigned zones; /* 0: the outer rate everywhere */
	double seek_track_ms, seek_full_ms;
	double write_settle_ms;  /* writes need the head nearer the middle of the track */
	double plan_margin_ms;   /* slowest less typical seek: what the drive's own planning allows for */
	unsigned read_segments;  /* of the track buffer, for so many sequential streams */
	unsigned write_extents;  /* places that the write cache can remember */
	unsigned destage_window; /* of those, how many are considered for the next write to the medium */

	/* flash; info.outer_mb_per_s is the sequential read rate */
	double write_mb_per_s;
	double read_us, write_us; /* latency of 4 KiB at depth 1, command overhead included */
	double write_iops;
	unsigned dies;

	char bus[32]; /* "": none */
	double bus_mb_per_s;
};

/* model_table.c */
const struct model_params *model__find(const char *name, size_t length);
/* Parses "NAME,key=value,…". */
int model__parse(const char *args, struct model_params *ret, struct error *err);

/* --- buses: disks with one bus ID share its rate ------------------------------------------------------ */

struct model_bus;
int model__bus_get(const char *id, double mb_per_s, struct model_bus **ret_bus, struct error *err);
void model__bus_put(struct model_bus *bus);
/* Books `bytes` from `start_ns` on; returns when they are across. NULL: at once. */
uint64_t model__bus_take(struct model_bus *bus, uint64_t start_ns, uint64_t bytes);

/* --- the write cliff ---------------------------------------------------------------------------------- */

/* A bucket that writes fill and that empties at the slow rate all the time. While it is full, writes go at the
 * rate at which it empties. */
struct model_cliff {
	double burst_bytes, drain_bytes_per_ns;
	double level_bytes;
	uint64_t at_ns;
};
/* The nanoseconds that a write of `bytes` takes beyond `natural_ns`. */
double model__cliff_add(struct model_cliff *c, uint64_t start_ns, uint64_t bytes, double natural_ns);

/* --- machines ------------------------------------------------------------------------------------------ */

/* A discrete-event simulation of one drive in ideal time; it knows no clock and no lock. Requests go in with
 * arrival_ns set and come out in `done`, each with its due time in done_ns. It uses link, word and done_ns of
 * a request that it holds. Events are handled lazily: at the latest before the next request is accepted. */
struct machine {
	const struct machine_ops *ops;
	struct list done;      /* by done_ns */
	unsigned held;         /* requests without a due time */
	struct model_bus *bus; /* owned by the wrapper */
};

struct machine_ops {
	void (*accept)(struct machine *m, struct disk_request *r); /* after all events up to its arrival */
	uint64_t (*next_event_ns)(const struct machine *m);        /* UINT64_MAX: none */
	void (*step)(struct machine *m);                           /* handles that event */
	void (*free)(struct machine *m);
};

int model__hdd_new(
	const struct model_params *p, uint64_t size_bytes, uint64_t seed, struct machine **ret, struct error *err);
int model__flash_new(
	const struct model_params *p, uint64_t size_bytes, uint64_t seed, struct machine **ret, struct error *err);

/* For machines: the request is through and due then. */
void machine__finish(struct machine *m, struct disk_request *r, uint64_t due_ns);
/* For those who drive one. */
void machine__accept(struct machine *m, struct disk_request *r); /* arrival_ns is set */
void machine__run(struct machine *m, uint64_t now_ns);           /* as far as somebody waits for it */
uint64_t machine__next_ns(const struct machine *m);              /* when to come back; UINT64_MAX: not needed */
struct disk_request *machine__pop(struct machine *m, uint64_t now_ns);

/* For the tests: the seek over a share of the stroke. */
double model__hdd_seek_ms(const struct machine *m, double stroke);

#endif
