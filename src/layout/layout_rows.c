/*
 * Parity rows: which disk holds which column of a row, how to write a part of a row, what to read to recover.
 *
 * The rotations are md's (raid5_compute_sector): *left* moves P from the last disk towards the first, row by row,
 * *right* from the first towards the last. *Asymmetric* leaves the data in the order of the disks and steps over
 * parity; *symmetric* starts the data behind parity and wraps round, so that n consecutive chunks are on n different
 * disks. Q follows P, round the end. RAID 4 keeps P on the last disk.
 */
#include "internal.h"

#include <string.h>

uint64_t layout_row_count(const struct layout *l)
{
	return layout__rows(l) * l->groups;
}

uint64_t layout_row_data_bytes(const struct layout *l)
{
	return (l->width - l->parity) * l->chunk_bytes;
}

static unsigned parity_disk(const struct layout *l, uint64_t inner_row)
{
	unsigned turn = (unsigned)(inner_row % l->width);
	bool left = l->rotation == LAYOUT_LEFT_SYMMETRIC || l->rotation == LAYOUT_LEFT_ASYMMETRIC;

	if (l->kind == LAYOUT_RAID4)
		return l->width - 1;
	return left ? l->width - 1 - turn : turn;
}

void layout_row(const struct layout *l, uint64_t row, struct layout_row *ret)
{
	uint64_t inner_row = row / l->groups;
	unsigned group = (unsigned)(row % l->groups), first = group * l->width, data = l->width - l->parity;
	bool symmetric = l->rotation == LAYOUT_LEFT_SYMMETRIC || l->rotation == LAYOUT_RIGHT_SYMMETRIC;
	unsigned p = parity_disk(l, inner_row);

	sp_assert(l->parity && row < layout_row_count(l));
	ret->row = row;
	ret->group = group;
	ret->data = data;
	ret->parity = l->parity;
	ret->offset_bytes = inner_row * l->chunk_bytes;
	for (unsigned i = 0; i < l->parity; i++)
		ret->disk[data + i] = first + (p + i) % l->width;
	/* Behind the last parity disk when symmetric; else from disk 0, or disk 1 when Q has wrapped round to 0. */
	unsigned at = symmetric ? (p + l->parity) % l->width : p + l->parity > l->width ? p + l->parity - l->width : 0;
	for (unsigned i = 0; i < data; i++) {
		if (at == p)
			at += l->parity;
		if (at >= l->width)
			at -= l->width;
		ret->disk[i] = first + at++;
	}
}

uint64_t layout_row_at(const struct layout *l, unsigned disk, uint64_t offset_bytes, unsigned *ret_column)
{
	struct layout_row row;

	sp_assert(l->parity && disk < l->disks && offset_bytes < l->disk_bytes);
	layout_row(l, offset_bytes / l->chunk_bytes * l->groups + disk / l->width, &row);
	for (unsigned c = 0; c < l->width; c++)
		if (row.disk[c] == disk) {
			if (ret_column)
				*ret_column = c;
			return row.row;
		}
	sp_assert(!"every disk of the group is in the row");
	return 0;
}

/* --- plans ------------------------------------------------------------------------------------------------------ */

static unsigned count_true(const bool *flags, unsigned count)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < count; i++)
		sum += flags[i];
	return sum;
}

static int failures_check(unsigned data, unsigned parity, const bool *failed, struct error *err)
{
	unsigned missing = count_true(failed, data + parity);

	sp_assert(data > 0 && parity <= PARITY_MAX && data + parity <= LAYOUT_WIDTH_MAX);
	if (missing <= parity)
		return 0;
	return error_set(
		err, ERR_LOST, "%u of %u columns are missing, parity makes up for %u", missing, data + parity, parity);
}

int layout_plan_recover(unsigned data, unsigned parity, const bool *failed, bool *ret_read, struct error *err)
{
	int rc = failures_check(data, parity, failed, err);

	if (rc)
		return rc;
	unsigned missing_data = count_true(failed, data);
	bool any = missing_data || count_true(failed + data, parity);
	for (unsigned c = 0; c < data; c++)
		ret_read[c] = any && !failed[c];
	for (unsigned c = data; c < data + parity; c++) {
		ret_read[c] = missing_data && !failed[c];
		missing_data -= ret_read[c];
	}
	return 0;
}

/* The ways of one write, each with the columns that it would read. */
struct way {
	enum layout_write_way way;
	bool possible;
	bool read[LAYOUT_WIDTH_MAX];
};

/* Old data of the touched columns and old parity: the difference goes into parity. */
static void way_modify(struct way *w, unsigned data, unsigned parity, const bool *touched, const bool *failed)
{
	w->way = LAYOUT_WRITE_MODIFY;
	w->possible = true;
	for (unsigned c = 0; c < data; c++) {
		w->read[c] = touched[c];
		if (touched[c] && failed[c])
			w->possible = false; /* its old bytes, and so the difference, are not to be had */
	}
	for (unsigned c = data; c < data + parity; c++)
		w->read[c] = !failed[c];
}

/* All data that is not given anew: parity is made from scratch. */
static void way_reconstruct(struct way *w, unsigned data, const bool *given, const bool *failed)
{
	w->way = LAYOUT_WRITE_RECONSTRUCT;
	w->possible = true;
	for (unsigned c = 0; c < data; c++) {
		w->read[c] = !given[c];
		if (!given[c] && failed[c])
			w->possible = false;
	}
}

static void way_recover(struct way *w, unsigned data, unsigned parity, const bool *failed)
{
	w->way = LAYOUT_WRITE_RECOVER;
	w->possible = count_true(failed, data) > 0 && layout_plan_recover(data, parity, failed, w->read, NULL) == 0;
}

int layout_plan_write(unsigned data, unsigned parity, const bool *touched, const bool *whole, const bool *failed,
	struct layout_write_plan *ret, struct error *err)
{
	struct layout_write_plan plan = {.way = LAYOUT_WRITE_MODIFY};
	bool given[LAYOUT_WIDTH_MAX] = {false};
	int rc = failures_check(data, parity, failed, err);

	if (rc)
		return rc;
	for (unsigned c = 0; c < data; c++) {
		given[c] = touched[c] && whole[c];
		plan.write[c] = touched[c] && !failed[c];
	}
	bool nothing = count_true(touched, data) == 0;
	for (unsigned c = data; c < data + parity; c++)
		plan.write[c] = !failed[c] && !nothing;
	plan.writes = count_true(plan.write, data + parity);

	if (count_true(given, data) == data) {
		plan.way = LAYOUT_WRITE_FULL;
	} else if (!nothing && count_true(plan.write + data, parity)) {
		struct way ways[3] = {0};
		unsigned least = UINT32_MAX;

		way_modify(&ways[0], data, parity, touched, failed);
		way_reconstruct(&ways[1], data, given, failed);
		way_recover(&ways[2], data, parity, failed);
		for (unsigned i = 0; i < array_count(ways); i++) {
			unsigned reads = count_true(ways[i].read, data + parity);

			if (!ways[i].possible || reads >= least)
				continue; /* the writes are the same each way: the reads decide */
			least = plan.reads = reads;
			plan.way = ways[i].way;
			memcpy(plan.read, ways[i].read, sizeof plan.read);
		}
	}
	*ret = plan;
	return 0;
}
