/* What the files about stripes share: stripe_write.c, stripe_read.c, repair.c, scrub.c. */
#ifndef POOL_STRIPE_H
#define POOL_STRIPE_H

#include "space.h"

#define REQUEST_BYTES_MAX (4u << 20)
#define REQUEST_IOV_MAX 256u

/* Zeros to write behind a record that is shorter than its column, and a place to read what nobody wants. */
#define FILLER_BYTES (64u << 10)
extern const uint8_t stripe_zeros[FILLER_BYTES];

static inline void charge_parity(unsigned parity, uint64_t data_bytes)
{
	if (parity)
		os_charge(parity == 1 ? OS_STAGE_PARITY1 : OS_STAGE_PARITY2, data_bytes);
	if (parity > 2)
		os_charge(OS_STAGE_PARITY1, data_bytes);
}

/* The sums of one column: `bytes` is its class. */
void column_sums(const uint8_t *data, uint32_t bytes, uint32_t *ret);
/* Of one stripe, (k + p) × sums_per_column; false: they cannot be read. Without p->lock. */
bool stripe_sums(struct pool *p, uint64_t run, uint32_t stripe, uint32_t *ret);

/* --- columns.c ------------------------------------------------------------------------------------------------- */

struct column_read {
	struct disk_address at;
	uint32_t bytes; /* whole units */
	void *buffer;
	int status;
	const char *why;
};
/* Reads all of them: neighbours of a disk in one request, all requests under way before the first is waited for.
 * `done`, when given, is called for each as soon as its bytes are there, while others are still on their way. */
void columns_read(
	struct pool *p, struct column_read *reads, unsigned count, void (*done)(void *arg, unsigned index), void *arg);

/* What of a run is looked at without the lock: a copy. */
struct run_shape {
	uint64_t id, birth_last;
	uint32_t version;
	uint16_t group;
	uint8_t class, k, p;
	struct disk_address column[POOL_WIDTH_MAX];
	uint8_t column_state[POOL_WIDTH_MAX];
};
void run_shape_of(const struct pool *p, const struct run *r, struct run_shape *ret);
struct disk_address shape_place(const struct run_shape *r, uint32_t stripe, unsigned column);

/* All columns of one stripe, read, checked by their sums where these are known, and made whole from one another. */
struct stripe_load {
	struct run_shape run;
	uint32_t stripe;
	uint8_t *bytes; /* (k + p) columns */
	void *column[POOL_WIDTH_MAX];
	struct column_read read[POOL_WIDTH_MAX];
	bool bad[POOL_WIDTH_MAX];   /* not to be had from the disk as it should be */
	bool wrong[POOL_WIDTH_MAX]; /* it answered, with other bytes */
	bool skip[POOL_WIDTH_MAX];  /* not to be read */
	bool has_sums;
	uint32_t *sums;
};
int stripe_load_open(struct stripe_load *l, const struct run_shape *run, uint32_t stripe, struct error *err);
void stripe_load_close(struct stripe_load *l);
/* Reads the stripes at once and checks them. */
void stripe_loads_read(struct pool *p, struct stripe_load *const *loads, unsigned count);
/* Makes the bad columns from the others. ERR_LOST: too many are bad. */
int stripe_load_recover(struct pool *p, struct stripe_load *l, struct error *err);
void stripe_load_explain(
	const struct pool *p, const struct stripe_load *l, struct error *err); /* ERR_LOST, with who lacks what */

/* --- repair.c -------------------------------------------------------------------------------------------------- */

/* A column of a run is to be made anew somewhere else. With p->lock held; what is queued already is not queued twice.
 */
void repair_queue(struct pool *p, uint64_t run, unsigned column);
/* What run->repair says, of one run. ERR_BUSY: stripes of it are just being written. ERR_SPACE: no room for a column;
 * then what is wrong by its sums may be written over in place. Without p->lock, as what follows. */
int repair_run_now(struct pool *p, uint64_t run, bool may_in_place, unsigned *ret_lost, struct error *err);

void scrub_free(struct pool *p);

/* An answer of a disk: counts it, and faults a disk that is gone. */
enum disk_wrong { WRONG_READ, WRONG_WRITE, WRONG_CHECKSUM };
void disk_answered_badly(struct pool *p, unsigned disk, enum disk_wrong what, int status, const char *why);

#endif
