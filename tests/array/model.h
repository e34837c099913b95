/*
 * model: what each sector of an array may hold, as far as its users were promised anything.
 *
 * Time is a counter that moves at every begin and end of a call. Each write has a number of its own (its *version*),
 * and each sector a chain of the versions written to it since its *base*, which is what it was last seen to hold after
 * a recovery. A version is out of date before `limit` when a write of the same sector that succeeded began after the
 * version ended, and itself ended before `limit`. A read that began at t may show what is not out of date before t;
 * a power cut may leave what is not out of date before the last flush began that succeeded.
 */
#ifndef MODEL_H
#define MODEL_H

#include "base.h"

#define MODEL_SECTOR_BYTES 512u

enum model_base {
	MODEL_INITIAL, /* zeros, or anything where the model says so */
	MODEL_VERSION,
	MODEL_NOISE, /* bytes that no write left: their hash */
	MODEL_ZERO,
	MODEL_ANY,
	MODEL_LOST, /* unreadable */
};
struct model;

struct model *model_make(uint64_t sectors, bool anything_at_first);
void model_free(struct model *m);

uint32_t model_write_begin(struct model *m, uint64_t first, uint64_t count); /* the version */
uint32_t model_zero_begin(struct model *m, uint64_t first, uint64_t count);  /* the same, of zeros: a discard */
void model_write_end(struct model *m, uint32_t version, bool good);
uint64_t model_begin(struct model *m); /* of a read or a flush: the time */
void model_flush_end(struct model *m, uint64_t began, bool good);
/* From here on sectors repeat themselves, so that compression finds something. One process, one kind. */
void model_set_compressible(bool on);
void model_fill(void *buffer, uint64_t first, uint64_t count, uint32_t version);

/* What is in these bytes of this sector. */
struct model_value {
	enum model_base kind;
	uint64_t value;
};
struct model_value model_value_of(const void *sector_bytes, uint64_t sector);
struct model_value model_value_lost(void);
/* Whether it may be there: for a read that began at `limit`, or after a power cut with model_durable(m). */
bool model_is_legal(const struct model *m, uint64_t sector, struct model_value v, uint64_t limit);
uint64_t model_durable(const struct model *m);
/* Something was written that no flush covers. */
bool model_is_pending(const struct model *m, uint64_t sector);
/* Some write of it was made durable, or it was seen to hold something. */
bool model_is_promised(const struct model *m, uint64_t sector);
/* Until it is pinned: the base may be anything. */
void model_allow_any(struct model *m, uint64_t sector);
/* Until it is pinned: it may be unreadable, whatever was written. */
void model_allow_lost(struct model *m, uint64_t sector);
/* It was seen: this is its base, and nothing was written since. */
void model_pin(struct model *m, uint64_t sector, struct model_value v);
/* For a sentence. */
void model_describe(const struct model *m, uint64_t sector, struct model_value v, struct text *t);

#endif
