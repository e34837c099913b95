/*
 * layout: where each byte of an array goes.
 *
 * The problem. An array is one long run of bytes over many disks. Somebody has to say, for every byte, which disk
 * holds it and where, what else must be written so that a lost disk can be made up for, and what it costs. That
 * somebody should be a pure function: it can then be tested over every small geometry there is.
 *
 * The idea. Integers in, a plan out. A disk's data area is cut into chunks; chunk number k of every disk of a group
 * together is row k. Layouts that keep copies are *chunk maps* (layout_map.c): logical chunk → `copies` places.
 * Layouts that keep parity are *parity rows* (layout_rows.c): row → which disk holds which column. The arithmetic
 * on the columns is in parity.c and knows nothing of disks.
 *
 * Pictures (4 disks; a number is a logical chunk, P and Q are parity; each line is a row).
 *
 *      stripe          raid10           raid10-far       raid10-offset    raid5 left-symmetric   raid6 left-symmetric
 *      0  1  2  3      0  0  1  1       0  1  2  3       0  1  2  3       0  1  2  P             Q  0  1  P
 *      4  5  6  7      2  2  3  3       4  5  6  7       3  0  1  2       4  5  P  3             2  3  P  Q
 *      8  9 10 11      4  4  5  5       3  0  1  2       4  5  6  7       8  P  6  7             5  P  Q  4
 *     12 13 14 15      6  6  7  7       7  4  5  6       7  4  5  6       P  9 10 11             P  Q  6  7
 *
 * Nests. mirrorxG stripes chunks over G mirrors, raid5xG stripes whole rows over G groups: row r is row r / G of
 * group r % G, and group g has the disks g × width … (g + 1) × width - 1. The stripe unit of the outer stripe is a
 * full inner row, so a write of G × data chunks, aligned, needs no read anywhere.
 *
 * Invariants.
 *   LAYOUT-1  A layout that passed layout_check can be given to every other function with any argument in range:
 *             no overflow, no division by zero, no place outside of disk_bytes.
 *   LAYOUT-2  Every chunk-sized place in [0, disk_bytes) of every disk is used exactly once, by one copy of one
 *             chunk or by one column of one row. (RAID 10 rounds its rows so that nothing is left over.)
 *   LAYOUT-3  The copies of a chunk, and the columns of a row, are on distinct disks.
 *   LAYOUT-4  layout_row_at is the inverse of layout_row.
 *   LAYOUT-5  A write plan never reads or writes a missing column and leaves the row such that recovery gives the
 *             bytes that were written, for every set of missing columns that parity can make up for.
 *
 * Sources: md(4) for RAID 10's near, far and offset and for the meaning of the rotations; raid5_compute_sector in
 * Linux' drivers/md/raid5.c for their exact tables; D. Patterson, G. Gibson, R. Katz, "A case for redundant arrays of
 * inexpensive disks" (SIGMOD 1988) for the I/O counts. docs/layouts.md has the tables and the model.
 */
#include "internal.h"

#include <stdio.h>
#include <string.h>

const char *const layout_rotation_names[4] = {
	"left-symmetric", "left-asymmetric", "right-symmetric", "right-asymmetric"};

/* Sizes are kept below what a file offset can say. */
#define BYTES_MAX ((uint64_t)INT64_MAX)
#define NAME_BYTES_MAX 31

struct family {
	const char *name;
	enum layout_kind kind;
	enum layout_spread spread;
	unsigned parity, width_min;
	bool nests;         /* takes ":WIDTH" and "xG" */
	bool copies_suffix; /* takes a number of copies at the end of the name */
	unsigned groups;    /* unless the name says otherwise */
};

/* The first of a kind is the one that layout_check measures by. */
static const struct family families[] = {
	{"single", LAYOUT_SINGLE, LAYOUT_NEAR, 0, 1, false, false, 1},
	{"concat", LAYOUT_CONCAT, LAYOUT_NEAR, 0, 2, false, false, 1},
	{"stripe", LAYOUT_STRIPE, LAYOUT_NEAR, 0, 2, false, false, 1},
	{"mirror", LAYOUT_MIRROR, LAYOUT_NEAR, 0, 2, true, false, 1},
	{"raid10", LAYOUT_RAID10, LAYOUT_NEAR, 0, 2, false, false, 1},
	{"raid10-near", LAYOUT_RAID10, LAYOUT_NEAR, 0, 2, false, true, 1},
	{"raid10-far", LAYOUT_RAID10, LAYOUT_FAR, 0, 2, false, true, 1},
	{"raid10-offset", LAYOUT_RAID10, LAYOUT_OFFSET, 0, 2, false, true, 1},
	{"raid01", LAYOUT_RAID01, LAYOUT_NEAR, 0, 4, false, false, 2},
	{"raid4", LAYOUT_RAID4, LAYOUT_NEAR, 1, 3, true, false, 1},
	{"raid5", LAYOUT_RAID5, LAYOUT_NEAR, 1, 3, true, false, 1},
	{"raid6", LAYOUT_RAID6, LAYOUT_NEAR, 2, 4, true, false, 1},
	{"raid50", LAYOUT_RAID5, LAYOUT_NEAR, 1, 3, true, false, 2},
	{"raid60", LAYOUT_RAID6, LAYOUT_NEAR, 2, 4, true, false, 2},
};

static const struct family *family_of_kind(enum layout_kind kind)
{
	for (size_t i = 0; i < array_count(families); i++)
		if (families[i].kind == kind)
			return &families[i];
	return NULL;
}

int layout_rotation_parse(const char *text, enum layout_rotation *ret, struct error *err)
{
	for (unsigned i = 0; i < array_count(layout_rotation_names); i++)
		if (!strcmp(text, layout_rotation_names[i])) {
			*ret = (enum layout_rotation)i;
			return 0;
		}
	return error_set(err, ERR_USAGE, "unknown rotation \"%.40s\"; known are %s, %s, %s and %s", text,
		layout_rotation_names[0], layout_rotation_names[1], layout_rotation_names[2], layout_rotation_names[3]);
}

/* --- names ------------------------------------------------------------------------------------------------------ */

struct wish {
	const struct family *family;
	unsigned width, groups, copies; /* 0: the name does not say */
};

/* Digits at *at, as a number from 1 to LAYOUT_DISKS_MAX; 0 when there is none such. Moves *at behind them. */
static unsigned number_at(const char **at)
{
	unsigned value = 0;
	const char *p = *at;

	if (*p == '0')
		return 0;
	for (; *p >= '0' && *p <= '9'; p++) {
		value = value * 10 + (unsigned)(*p - '0');
		if (value > LAYOUT_DISKS_MAX)
			return 0;
	}
	*at = p;
	return value;
}

static const struct family *family_find(const char *name, size_t length, unsigned *ret_copies)
{
	for (size_t i = 0; i < array_count(families); i++) {
		const struct family *f = &families[i];
		size_t own = strlen(f->name);

		if (length < own || memcmp(name, f->name, own))
			continue;
		if (length == own) {
			*ret_copies = 0;
			return f;
		}
		const char *rest = name + own;
		if (!f->copies_suffix)
			continue;
		unsigned copies = number_at(&rest);
		if (copies && rest == name + length) {
			*ret_copies = copies;
			return f;
		}
	}
	return NULL;
}

static int name_unknown(const char *name, struct error *err)
{
	return error_set(err, ERR_USAGE,
		"unknown layout \"%.40s\"; known are single, concat, stripe, mirror, raid10, raid10-far, "
		"raid10-offset, raid01, raid4, raid5, raid6, raid50 and raid60, with :WIDTH and xGROUPS as in "
		"raid5x9 or raid5:8",
		name);
}

static int name_parse(const char *name, struct wish *ret, struct error *err)
{
	struct wish w = {0};
	const char *at = name + strcspn(name, ":x"); /* no family has either letter in its name */

	w.family = strlen(name) <= NAME_BYTES_MAX ? family_find(name, (size_t)(at - name), &w.copies) : NULL;
	if (!w.family)
		return name_unknown(name, err);
	if (*at && !w.family->nests)
		return error_set(err, ERR_USAGE, "%s spans all its disks and takes no \"%s\"", w.family->name, at);
	const char *suffix = at;
	if (*at == ':') {
		at++;
		w.width = number_at(&at);
		if (!w.width)
			return error_set(err, ERR_USAGE, "\"%s\": the width after \":\" is a number from 1 to %u", name,
				LAYOUT_DISKS_MAX);
	}
	if (*at == 'x') {
		at++;
		w.groups = number_at(&at);
		if (!w.groups)
			return error_set(err, ERR_USAGE, "\"%s\": the groups after \"x\" are a number from 1 to %u",
				name, LAYOUT_DISKS_MAX);
	}
	if (*at)
		return error_set(err, ERR_USAGE, "\"%s\": \"%s\" is not of the form :WIDTH, xGROUPS or :WIDTHxGROUPS",
			name, suffix);
	*ret = w;
	return 0;
}

/* Splits the disks into groups as the name wants it. */
static int groups_choose(
	const char *name, const struct wish *w, unsigned disks, unsigned *ret_groups, struct error *err)
{
	unsigned groups = w->groups ? w->groups : w->family->groups;

	if (w->width && w->groups) {
		if (disks != w->width * w->groups)
			return error_set(
				err, ERR_USAGE, "%s needs exactly %u disks, got %u", name, w->width * w->groups, disks);
	} else if (w->width) {
		if (disks == 0 || disks % w->width)
			return error_set(
				err, ERR_USAGE, "%s needs a multiple of %u disks, got %u", name, w->width, disks);
		groups = disks / w->width;
	} else if (disks % groups) {
		if (groups == 2)
			return error_set(err, ERR_USAGE, "%s needs an even number of disks, got %u", name, disks);
		return error_set(err, ERR_USAGE, "%s needs a multiple of %u disks, got %u", name, groups, disks);
	}
	*ret_groups = groups;
	return 0;
}

static int width_check(const char *name, const struct family *f, unsigned disks, unsigned groups, struct error *err)
{
	unsigned width = disks / groups;

	if (f->kind == LAYOUT_SINGLE && disks != 1)
		return error_set(err, ERR_USAGE, "%s needs exactly 1 disk, got %u", name, disks);
	if (!f->nests && disks < f->width_min)
		return error_set(err, ERR_USAGE, "%s needs at least %u disks, got %u", name, f->width_min, disks);
	if (f->nests && width < f->width_min) {
		if (groups == 1)
			return error_set(err, ERR_USAGE, "%s needs at least %u disks in a group, got %u", name,
				f->width_min, width);
		return error_set(err, ERR_USAGE,
			"%s needs at least %u disks in a group, got %u (%u disks in %u groups)", name, f->width_min,
			width, disks, groups);
	}
	if (f->nests && width > LAYOUT_WIDTH_MAX)
		return error_set(
			err, ERR_USAGE, "%s takes at most %u disks in a group, got %u", name, LAYOUT_WIDTH_MAX, width);
	return 0;
}

/* All of a layout but its sizes. */
static int shape_init(struct layout *l, const char *name, unsigned disks, struct error *err)
{
	struct wish w = {0};
	unsigned groups = 1;
	int rc = name_parse(name, &w, err);

	if (rc)
		return rc;
	if (disks > LAYOUT_DISKS_MAX)
		return error_set(err, ERR_USAGE, "an array takes at most %u disks, got %u", LAYOUT_DISKS_MAX, disks);
	rc = groups_choose(name, &w, disks, &groups, err);
	if (!rc)
		rc = width_check(name, w.family, disks, groups, err);
	if (rc)
		return rc;
	l->kind = w.family->kind;
	l->spread = w.family->spread;
	l->disks = disks;
	l->groups = groups;
	l->width = disks / groups;
	l->parity = w.family->parity;
	l->copies = 1;
	if (l->kind == LAYOUT_MIRROR)
		l->copies = l->width;
	if (l->kind == LAYOUT_RAID01)
		l->copies = 2;
	if (l->kind == LAYOUT_RAID10) {
		l->copies = w.copies ? w.copies : 2;
		if (l->copies < 2)
			return error_set(err, ERR_USAGE, "%s keeps 1 copy; raid10 needs at least 2", name);
		if (l->copies > LAYOUT_WIDTH_MAX)
			return error_set(err, ERR_USAGE, "%s keeps %u copies; at most %u are possible", name, l->copies,
				LAYOUT_WIDTH_MAX);
		if (l->copies > disks)
			return error_set(err, ERR_USAGE, "%s needs at least %u disks, got %u", name, l->copies, disks);
	}
	return 0;
}

bool layout_misfit(const char *name, unsigned disks, char *ret_reason, size_t reason_bytes)
{
	struct layout l = {0};
	struct error err = ERROR_INIT;

	if (!shape_init(&l, name, disks, &err))
		return false;
	if (ret_reason && reason_bytes)
		snprintf(ret_reason, reason_bytes, "%s", err.text);
	return true;
}

char *layout_name(const struct layout *l, char text[32])
{
	static const char *const spreads[] = {"raid10-near", "raid10-far", "raid10-offset"};
	const char *name = family_of_kind(l->kind)->name;

	if (l->kind == LAYOUT_RAID10 && l->copies != 2)
		snprintf(text, 32, "%s%u", spreads[l->spread], l->copies);
	else if (l->kind == LAYOUT_RAID10 && l->spread != LAYOUT_NEAR)
		snprintf(text, 32, "%s", spreads[l->spread]);
	else if (l->groups == 1 || l->kind == LAYOUT_RAID01)
		snprintf(text, 32, "%s", name);
	else if (l->groups == 2 && (l->kind == LAYOUT_RAID5 || l->kind == LAYOUT_RAID6))
		snprintf(text, 32, "%s0", name);
	else
		snprintf(text, 32, "%sx%u", name, l->groups);
	return text;
}

/* --- sizes ------------------------------------------------------------------------------------------------------ */

static int chunk_check(uint64_t chunk_bytes, struct error *err)
{
	if (is_power_of_two(chunk_bytes) && chunk_bytes >= LAYOUT_CHUNK_MIN && chunk_bytes <= LAYOUT_CHUNK_MAX)
		return 0;
	return error_set(err, ERR_USAGE,
		"a chunk of %llu bytes is not possible: it is a power of two from 4 KiB to 16 MiB",
		(unsigned long long)chunk_bytes);
}

static int sizes_init(struct layout *l, const char *name, const uint64_t *disk_bytes, struct error *err)
{
	uint64_t least = UINT64_MAX;
	uint64_t needed = layout__rows_unit(l) * l->chunk_bytes;

	for (unsigned i = 0; i < l->disks; i++) {
		uint64_t bytes = round_down_u64(disk_bytes[i], LAYOUT_CHUNK_MIN);

		if (bytes < needed)
			return error_set(err, ERR_TOO_SMALL,
				"disk %u offers %llu bytes; %s with chunks of %llu KiB needs at least %llu on "
				"each disk",
				i, (unsigned long long)disk_bytes[i], name, (unsigned long long)(l->chunk_bytes >> 10),
				(unsigned long long)needed);
		least = min_of(least, bytes);
		if (l->kind == LAYOUT_CONCAT)
			l->concat_bytes[i] = bytes;
	}
	l->disk_bytes = round_down_u64(least, needed);
	return 0;
}

int layout_init(struct layout *ret, const char *name, unsigned disks, const uint64_t *disk_bytes, uint64_t chunk_bytes,
	enum layout_rotation rotation, struct error *err)
{
	struct layout l = {.chunk_bytes = chunk_bytes, .rotation = rotation};
	int rc = shape_init(&l, name, disks, err);

	if (!rc)
		rc = chunk_check(chunk_bytes, err);
	if (!rc)
		rc = sizes_init(&l, name, disk_bytes, err);
	if (!rc)
		rc = layout_check(&l, err);
	if (!rc)
		*ret = l;
	return rc;
}

static int concat_check(const struct layout *l, struct error *err)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < l->disks; i++) {
		uint64_t bytes = l->concat_bytes[i];

		if (bytes < l->chunk_bytes || bytes % LAYOUT_CHUNK_MIN || bytes > BYTES_MAX - sum)
			return error_set(err, ERR_USAGE,
				"the layout uses %llu bytes of disk %u: not whole 4 KiB blocks, less than a "
				"chunk, or an end beyond 2^63 - 1",
				(unsigned long long)bytes, i);
		sum += bytes;
	}
	return 0;
}

static int sizes_check(const struct layout *l, struct error *err)
{
	int rc = chunk_check(l->chunk_bytes, err);

	if (rc)
		return rc;
	if (l->kind == LAYOUT_CONCAT)
		return concat_check(l, err);
	if (l->disk_bytes == 0 || l->disk_bytes % (l->chunk_bytes * layout__rows_unit(l)))
		return error_set(err, ERR_USAGE,
			"the layout uses %llu bytes of each disk, no multiple of %u chunks of %llu bytes",
			(unsigned long long)l->disk_bytes, layout__rows_unit(l), (unsigned long long)l->chunk_bytes);
	if (l->disk_bytes > BYTES_MAX / l->disks)
		return error_set(err, ERR_USAGE,
			"the layout uses %llu bytes of each of %u disks; an array ends at 2^63 - 1",
			(unsigned long long)l->disk_bytes, l->disks);
	return 0;
}

static int copies_check(const struct layout *l, struct error *err)
{
	unsigned least = 1, most = 1;

	if (l->kind == LAYOUT_MIRROR)
		least = most = l->width;
	else if (l->kind == LAYOUT_RAID01)
		least = most = 2;
	else if (l->kind == LAYOUT_RAID10) {
		least = 2;
		most = min_of(l->disks, (unsigned)LAYOUT_WIDTH_MAX);
	}
	if (l->copies >= least && l->copies <= most)
		return 0;
	return error_set(err, ERR_USAGE,
		"the layout says %u copies over %u disks in groups of %u, possible are %u to %u", l->copies, l->disks,
		l->width, least, most);
}

int layout_check(const struct layout *l, struct error *err)
{
	const struct family *f = family_of_kind(l->kind);
	int rc;

	if (!f)
		return error_set(err, ERR_USAGE, "the layout is of kind %u, known are 0 to %u", (unsigned)l->kind,
			(unsigned)LAYOUT_RAID6);
	if ((unsigned)l->rotation >= array_count(layout_rotation_names))
		return error_set(err, ERR_USAGE, "the layout has rotation %u, known are 0 to 3", (unsigned)l->rotation);
	if ((unsigned)l->spread > LAYOUT_OFFSET || (l->kind != LAYOUT_RAID10 && l->spread != LAYOUT_NEAR))
		return error_set(err, ERR_USAGE, "the layout %s has spread %u", f->name, (unsigned)l->spread);
	if (l->disks == 0 || l->disks > LAYOUT_DISKS_MAX || l->groups == 0 || l->groups > l->disks ||
		l->width > l->disks || l->groups * l->width != l->disks)
		return error_set(err, ERR_USAGE,
			"the layout says %u disks in %u groups of %u, possible are 1 to %u disks", l->disks, l->groups,
			l->width, LAYOUT_DISKS_MAX);
	if (!f->nests && l->groups != f->groups)
		return error_set(
			err, ERR_USAGE, "the layout %s has %u groups instead of %u", f->name, l->groups, f->groups);
	if (l->parity != f->parity)
		return error_set(err, ERR_USAGE, "the layout %s has %u parity columns instead of %u", f->name,
			l->parity, f->parity);
	rc = width_check(f->name, f, l->disks, l->groups, err);
	if (!rc)
		rc = copies_check(l, err);
	if (!rc)
		rc = sizes_check(l, err);
	return rc;
}

uint64_t layout_capacity_bytes(const struct layout *l)
{
	uint64_t sum = 0;

	if (l->parity)
		return layout_row_count(l) * layout_row_data_bytes(l);
	if (l->kind == LAYOUT_CONCAT) {
		for (unsigned i = 0; i < l->disks; i++)
			sum += l->concat_bytes[i];
		return sum;
	}
	return layout__rows(l) * l->disks / l->copies * l->chunk_bytes;
}

/* --- what it survives ------------------------------------------------------------------------------------------- */

unsigned layout_failures_survived(const struct layout *l)
{
	/* the disks of one chunk's copies are the shortest way to lose it */
	return l->parity ? l->parity : l->copies - 1;
}

static bool groups_survive(const struct layout *l, const bool *failed)
{
	for (unsigned g = 0; g < l->groups; g++) {
		unsigned missing = 0;

		for (unsigned i = 0; i < l->width; i++)
			missing += failed[g * l->width + i];
		if (missing > l->parity)
			return false;
	}
	return true;
}

static bool chunk_survives(const struct layout *l, uint64_t chunk, const bool *failed)
{
	for (unsigned copy = 0; copy < l->copies; copy++) {
		struct layout_place place;

		layout_place(l, chunk, copy, &place);
		if (!failed[place.disk])
			return true;
	}
	return false;
}

bool layout_survives(const struct layout *l, const bool *failed)
{
	if (l->parity)
		return groups_survive(l, failed);
	if (l->copies == 1) {
		for (unsigned i = 0; i < l->disks; i++)
			if (failed[i])
				return false;
		return true;
	}
	for (unsigned chunk = 0; chunk < layout__period_chunks(l); chunk++)
		if (!chunk_survives(l, chunk, failed))
			return false;
	return true;
}

/* --- the model: docs/layouts.md gives the reason for every figure ----------------------------------------------- */

/* Small writes that one group does in the time of one random operation of one disk: what the plan for one touched
 * column costs, spread as evenly as the rotation allows. RAID 4 does not rotate, so its parity disk is the limit. */
static double small_writes_of_group(const struct layout *l)
{
	unsigned data = l->width - l->parity;
	bool touched[LAYOUT_WIDTH_MAX] = {true}, failed[LAYOUT_WIDTH_MAX] = {false};
	struct layout_write_plan plan;
	int rc = layout_plan_write(data, l->parity, touched, touched, failed, &plan, NULL);

	sp_assert(rc == 0);
	if (l->kind != LAYOUT_RAID4)
		return (double)l->width / (plan.reads + plan.writes);
	double parity_load = plan.read[data] + plan.write[data];
	double data_load = (plan.reads + plan.writes - parity_load) / data;
	return 1 / max_of(parity_load, data_load);
}

static void model_of_parity(const struct layout *l, struct layout_model *m)
{
	double data = (l->width - l->parity) * (double)l->groups;

	m->seq_read = data; /* the heads pass over parity in the time that reading it would take */
	m->seq_write = data;
	m->random_read = l->kind == LAYOUT_RAID4 ? data : l->disks;
	m->random_write_small = small_writes_of_group(l) * l->groups;
}

static void model_of_concat(const struct layout *l, struct layout_model *m)
{
	uint64_t most = 1;

	for (unsigned i = 0; i < l->disks; i++)
		most = max_of(most, l->concat_bytes[i]);
	m->seq_read = m->seq_write = 1; /* one stream is on one disk at a time */
	/* Requests spread by size: the largest disk is busy all the time. */
	m->random_read = m->random_write_small = (double)layout_capacity_bytes(l) / (double)most;
}

void layout_model(const struct layout *l, struct layout_model *ret)
{
	struct layout_model m;
	double apart = (double)l->disks / l->copies;

	if (l->parity) {
		model_of_parity(l, &m);
	} else if (l->kind == LAYOUT_CONCAT) {
		model_of_concat(l, &m);
	} else {
		/* One stream over near copies: the disks of a pair read in turns, so long that the jump over what the
		 * other reads costs little. Far copies lie elsewhere, the first ones are a plain stripe. Offset copies
		 * lie in every other row: they pass under the heads in the time that reading them would take. */
		m.seq_read = l->spread == LAYOUT_OFFSET ? apart : l->disks;
		m.seq_write = apart;
		m.random_read = l->disks;
		m.random_write_small = apart;
	}
	*ret = m;
}
