/*
 * layout: where each byte goes, and the arithmetic of parity. May use base and ISA-L. Knows neither disks nor
 * time: integers in, a plan out.
 *
 * Two families.
 *   chunk maps   single, concat, stripe, mirror, RAID 10 (near, far, offset), RAID 0+1: logical chunk c has
 *                `copies` places; layout_place gives each.
 *   parity rows  RAID 4, 5, 6 and stripes of them (50, 60): row r is one chunk on every disk of one group,
 *                `data` of them holding user data and `parity` of them P (and Q); layout_row gives the disks.
 * With G groups the rows go round: row r belongs to group r % G and is that group's row r / G, so the outer
 * stripe unit is one full inner row.
 */
#ifndef LAYOUT_H
#define LAYOUT_H

#include "base.h"

#define LAYOUT_DISKS_MAX 256
#define LAYOUT_WIDTH_MAX 64 /* disks of one parity group */
#define LAYOUT_CHUNK_MIN 4096u
#define LAYOUT_CHUNK_MAX (16u << 20)
#define LAYOUT_CHUNK_DEFAULT (128u << 10)

enum layout_kind {
	LAYOUT_SINGLE,
	LAYOUT_CONCAT,
	LAYOUT_STRIPE,
	LAYOUT_MIRROR, /* n-way; with G groups: mirrorxG, a stripe over G mirrors */
	LAYOUT_RAID10, /* `copies` copies over all disks: near, far, offset as md has them */
	LAYOUT_RAID01, /* a mirror of two stripes */
	LAYOUT_RAID4,
	LAYOUT_RAID5,
	LAYOUT_RAID6,
};
enum layout_spread { LAYOUT_NEAR, LAYOUT_FAR, LAYOUT_OFFSET };
/* Names and meaning as in md(4). */
enum layout_rotation { LAYOUT_LEFT_SYMMETRIC, LAYOUT_LEFT_ASYMMETRIC, LAYOUT_RIGHT_SYMMETRIC, LAYOUT_RIGHT_ASYMMETRIC };
extern const char *const layout_rotation_names[4]; /* "left-symmetric", … */
int layout_rotation_parse(const char *text, enum layout_rotation *ret, struct error *err);

struct layout {
	enum layout_kind kind;
	enum layout_spread spread;
	enum layout_rotation rotation;
	unsigned disks;  /* in all */
	unsigned groups; /* 1 unless nested */
	unsigned width;  /* disks of one group */
	unsigned copies; /* 1 where there is no mirroring */
	unsigned parity; /* 0, 1, 2 */
	uint64_t chunk_bytes;
	uint64_t disk_bytes; /* used on each disk, a multiple of the chunk (concat: see concat_bytes) */
	uint64_t concat_bytes[LAYOUT_DISKS_MAX]; /* concat only: used on each disk, whole 4 KiB blocks */
};

/*
 * From a name: single, concat, stripe, mirror, raid10, raid10-far, raid10-offset, raid01, raid4, raid5, raid6,
 * raid50, raid60, with ":WIDTH" and "xG" (raid5x9, mirrorx23, raid50 = raid5x2, raid60 = raid6x2, raid5:8).
 * raid10-near3, raid10-far3, raid10-offset3 keep three copies (any number from 2 to the number of disks).
 * disk_bytes[i] is the data area that disk i offers; the smallest counts, rounded down to chunks. ERR_USAGE
 * with a sentence that says what the layout needs and what it got when it does not fit (too few disks, not a
 * multiple of the groups, chunk no power of two or out of range, unknown name), ERR_TOO_SMALL for disks.
 */
int layout_init(struct layout *l, const char *name, unsigned disks, const uint64_t *disk_bytes, uint64_t chunk_bytes,
	enum layout_rotation rotation, struct error *err);
/* The same checks on a layout that was read from a label: nothing in it is trusted. */
int layout_check(const struct layout *l, struct error *err);
char *layout_name(const struct layout *l, char text[32]); /* canonical: "raid5x9", "raid50", "raid10-far" */
/* Why a name does not fit N disks, for lists; false when it fits. */
bool layout_misfit(const char *name, unsigned disks, char *ret_reason, size_t reason_bytes);

uint64_t layout_capacity_bytes(const struct layout *l);
unsigned layout_failures_survived(const struct layout *l);        /* any so many disks may fail */
bool layout_survives(const struct layout *l, const bool *failed); /* failed[disks] */
static inline bool layout_has_parity(const struct layout *l)
{
	return l->parity > 0;
}

/* First-order model in units of one disk: how many disks' sequential rate / random operations (docs/layouts.md).
 * Sequential means one stream; random means many requests at once over the whole array. */
struct layout_model {
	double seq_read, seq_write, random_read, random_write_small;
};
void layout_model(const struct layout *l, struct layout_model *ret);

/* --- chunk maps ------------------------------------------------------------------------------------------------- */

struct layout_place {
	unsigned disk;
	uint64_t offset_bytes; /* in the disk's data area */
};
/* copy < l->copies. Concat: any logical offset, `ret_run` bytes are contiguous from there. */
void layout_place(const struct layout *l, uint64_t chunk, unsigned copy, struct layout_place *ret);
void layout_place_concat(
	const struct layout *l, uint64_t offset_bytes, struct layout_place *ret, uint64_t *ret_run_bytes);

/* --- parity rows ------------------------------------------------------------------------------------------------ */

struct layout_row {
	uint64_t row;
	unsigned group, data, parity;
	uint64_t offset_bytes;           /* of the chunk, the same on each of its disks */
	unsigned disk[LAYOUT_WIDTH_MAX]; /* data columns in logical order, then P, then Q */
};
uint64_t layout_row_count(const struct layout *l);
uint64_t layout_row_data_bytes(const struct layout *l); /* data × chunk */
void layout_row(const struct layout *l, uint64_t row, struct layout_row *ret);
/* The inverse, for check and rebuild: which row uses this offset of this disk, and as which column. */
uint64_t layout_row_at(const struct layout *l, unsigned disk, uint64_t offset_bytes, unsigned *ret_column);

/*
 * How to write a part of a row: `touched[c]` says which data columns are written (whole[c]: over the whole
 * range of interest), `failed[c]` which of the row's columns (data, then parity) are missing. The plan says
 * what to read first and counts the I/Os of both ways; it takes the cheaper, read-modify-write on a tie.
 * With no parity column left the plan is MODIFY without reads: write what was given, nothing else to keep right.
 * A touched column that is not whole is read before it goes into MODIFY (delta), RECONSTRUCT or RECOVER (merge).
 */
enum layout_write_way {
	LAYOUT_WRITE_FULL,        /* all data columns are given: no reads */
	LAYOUT_WRITE_MODIFY,      /* read old data of the touched columns and old parity */
	LAYOUT_WRITE_RECONSTRUCT, /* read the untouched data columns */
	LAYOUT_WRITE_RECOVER,     /* degraded: read what parity_recover needs, recover, then as RECONSTRUCT */
};
struct layout_write_plan {
	enum layout_write_way way;
	unsigned reads, writes;
	bool read[LAYOUT_WIDTH_MAX];  /* columns to read */
	bool write[LAYOUT_WIDTH_MAX]; /* columns to write (present ones only) */
};
int layout_plan_write(unsigned data, unsigned parity, const bool *touched, const bool *whole, const bool *failed,
	struct layout_write_plan *ret, struct error *err); /* ERR_LOST beyond `parity` failures */
/* Which columns parity_recover reads to bring back all that is missing: every data column that is there and, for
 * each missing data column, one parity column, P first. Nothing when nothing is missing. ERR_LOST when too many are. */
int layout_plan_recover(unsigned data, unsigned parity, const bool *failed, bool *ret_read, struct error *err);

/* --- arithmetic ------------------------------------------------------------------------------------------
 * P is the xor of the data columns, Q = Σ g^i·D_i over GF(2^8), polynomial 0x11d, g = 2 (Anvin, "The mathematics
 * of RAID-6", 2004), R = Σ g^2i·D_i. Buffers are 64-byte aligned; length is any number of bytes. A registry holds
 * each routine's fast version (ISA-L) and its plain C twin, which is the definition.
 */
struct parity_impl {
	const char *name; /* "isal", "plain" */
	/* columns: data, then parity; writes the parity columns */
	void (*generate)(unsigned data, unsigned parity, size_t bytes, void *const *columns);
	/* parity ^= contribution of (old ^ new) of data column i: delta = old ^ new; a NULL parity column is skipped */
	void (*update)(unsigned data, unsigned parity, unsigned column, size_t bytes, const void *delta,
		void *const *parity_columns);
	/* targets[r] = Σ factors[r × sources + s] · source[s]: what recovery needs; at most three targets, which are
	 * none of the sources */
	void (*combine)(unsigned sources, unsigned targets, const uint8_t *factors, size_t bytes, void *const *source,
		void *const *target);
};
extern const struct parity_impl parity_impls[];
extern const size_t parity_impl_count;
void parity_generate(unsigned data, unsigned parity, size_t bytes, void *const *columns);
void parity_update(
	unsigned data, unsigned parity, unsigned column, size_t bytes, const void *delta, void *const *parity_columns);
void parity_xor(void *to, const void *from, size_t bytes); /* to ^= from */
/* Recovers the columns with failed[c] (at most `parity` of them, data or parity) in place from the others, reading
 * only those that layout_plan_recover names. */
int parity_recover_with(const struct parity_impl *impl, unsigned data, unsigned parity, size_t bytes,
	void *const *columns, const bool *failed, struct error *err);
int parity_recover(
	unsigned data, unsigned parity, size_t bytes, void *const *columns, const bool *failed, struct error *err);
/* True when the parity columns match the data; for check. With P and Q (and R) and one wrong data column,
 * ret_column is that column (all parities agree on it), else -1. */
bool parity_verify(unsigned data, unsigned parity, size_t bytes, void *const *columns, int *ret_column);

#endif
