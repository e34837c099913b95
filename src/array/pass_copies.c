/*
 * A pass over rows that are kept in copies: as many ranges as the buffer holds are read together, compared or copied,
 * and written together.
 */
#include "care.h"

#include <string.h>

static void copies_find(const struct array *a, struct copies *c)
{
	const struct layout *l = &a->layout;
	uint64_t offset = c->offset_bytes;

	c->count = l->copies;
	memset(c->tried, 0, sizeof c->tried);
	memset(c->good, 0, sizeof c->good);
	if (l->kind == LAYOUT_CONCAT) {
		uint64_t run;

		layout_place_concat(l, offset, &c->at[0], &run);
		c->length = min_of(c->length, run);
		return;
	}
	c->length = min_of(c->length, l->chunk_bytes - offset % l->chunk_bytes);
	for (unsigned i = 0; i < l->copies; i++) {
		layout_place(l, offset / l->chunk_bytes, i, &c->at[i]);
		c->at[i].offset_bytes += offset % l->chunk_bytes;
	}
}

/* The copy that most others equal; the first one when there is no most. */
static unsigned copies_judge(const struct copies *c, bool *ret_same, int *ret_at_fault)
{
	unsigned best = UINT32_MAX, best_votes = 0, good = 0, dissent = 0;

	for (unsigned i = 0; i < c->count; i++) {
		unsigned votes = 0;

		if (!c->good[i])
			continue;
		good++;
		for (unsigned k = 0; k < c->count; k++)
			votes += c->good[k] && !memcmp(c->bytes[i], c->bytes[k], c->length);
		if (votes > best_votes) {
			best = i;
			best_votes = votes;
		}
	}
	*ret_same = best_votes == good;
	*ret_at_fault = -1;
	for (unsigned i = 0; i < c->count && 2 * best_votes > good; i++)
		if (c->good[i] && memcmp(c->bytes[i], c->bytes[best], c->length)) {
			dissent++;
			*ret_at_fault = (int)c->at[i].disk;
		}
	if (dissent > 1)
		*ret_at_fault = -1;
	return best;
}

static void copy_failed(struct pass *p, const struct piece *piece)
{
	p->parts[piece->tag / LAYOUT_WIDTH_MAX].good[piece->tag % LAYOUT_WIDTH_MAX] = false;
	p->result.unreadable_chunks++;
}

static bool copy_can_be_read(const struct pass *p, const struct copies *c, unsigned copy)
{
	return road_reads(&p->io->roads[c->at[copy].disk], c->row->row);
}

static void copy_read(struct pass *p, unsigned index, unsigned copy)
{
	struct copies *c = &p->parts[index];
	const struct road *road = &p->io->roads[c->at[copy].disk];

	c->tried[copy] = c->good[copy] = true;
	io__piece(p->io, c->at[copy].disk * 2 + road_reads_source(road, c->row->row),
		p->array->label.data_offset + c->at[copy].offset_bytes, c->bytes[copy], c->length,
		index * LAYOUT_WIDTH_MAX + copy);
}

/* --- rebuild ---------------------------------------------------------------------------------- */

static unsigned copy_of_member(const struct pass *p, const struct copies *c)
{
	unsigned copy = 0;

	while (copy < c->count && c->at[copy].disk != p->member)
		copy++;
	return copy;
}

static unsigned copy_good(const struct copies *c)
{
	for (unsigned i = 0; i < c->count; i++)
		if (c->good[i])
			return i;
	return UINT32_MAX;
}

/* The member's own copy first, which is the disk that it replaces; else, spread over the others, the next one. */
static bool read_one_more(struct pass *p, unsigned index)
{
	struct copies *c = &p->parts[index];
	unsigned mine = copy_of_member(p, c);

	for (unsigned k = 0; k < c->count; k++) {
		unsigned copy = (mine + k) % c->count;

		if (!c->tried[copy] && copy_can_be_read(p, c, copy)) {
			copy_read(p, index, copy);
			return true;
		}
	}
	return false;
}

/* No copy can be read: the rest of the array must not go with it. */
static int copies_lose(struct pass *p, struct copies *c, unsigned copy, struct error *err)
{
	struct array *a = p->array;

	if (!a->redundant)
		return error_set(err, ERR_LOST, "array %s: the %llu bytes at %llu of member %u cannot be read",
			a->label.name, (unsigned long long)c->length, (unsigned long long)c->at[copy].offset_bytes,
			p->member);
	poison__fill(a, c->bytes[copy], c->length);
	os_mutex_lock(&a->lock);
	map__lose(a, c->row->row);
	os_mutex_unlock(&a->lock);
	return pass__lost_note(p, err);
}

static int parts_rebuild(struct pass *p, unsigned count, struct error *err)
{
	struct array *a = p->array;
	int rc = 0;

	for (bool more = true; more && !rc;) {
		more = false;
		io__reset(p->io);
		for (unsigned i = 0; i < count; i++)
			if (copy_good(&p->parts[i]) == UINT32_MAX)
				more |= read_one_more(p, i);
		if (more)
			rc = pass__read(p, copy_failed, err);
	}
	for (unsigned i = 0; i < count && !rc; i++) {
		struct copies *c = &p->parts[i];

		if (copy_good(c) == UINT32_MAX) {
			rc = copies_lose(p, c, copy_of_member(p, c), err);
			c->good[copy_of_member(p, c)] = true;
		}
	}
	io__reset(p->io);
	for (unsigned i = 0; i < count && !rc; i++) {
		struct copies *c = &p->parts[i];

		io__piece(p->io, p->member * 2, a->label.data_offset + c->at[copy_of_member(p, c)].offset_bytes,
			c->bytes[copy_good(c)], c->length, 0);
	}
	return rc ? rc : pass__write(p, err);
}

/* --- check, repair, resync -------------------------------------------------------------------- */

static void copies_compare(struct pass *p, struct copies *c)
{
	bool same, any_bad = false;
	int at_fault;
	unsigned best = copies_judge(c, &same, &at_fault);

	for (unsigned i = 0; i < c->count; i++)
		any_bad |= c->tried[i] && !c->good[i];
	if (best == UINT32_MAX || (same && !any_bad))
		return;
	if (!same && p->kind != PASS_RESYNC) {
		unsigned shown = 0;

		for (unsigned i = 0; i < c->count; i++)
			if (c->good[i] && memcmp(c->bytes[i], c->bytes[best], c->length))
				shown = i;
		if (!c->row->mismatch)
			pass__mismatch(
				p, c->row->row, at_fault, p->array->label.data_offset + c->at[shown].offset_bytes);
		c->row->mismatch = true;
	}
	for (unsigned i = 0; i < c->count && p->kind != PASS_CHECK; i++)
		if (i != best && (!c->good[i] || memcmp(c->bytes[i], c->bytes[best], c->length)))
			io__piece_write(p->array, p->io, c->at[i].disk, c->row->row, c->at[i].offset_bytes,
				c->bytes[best], c->length, false);
}

static int parts_compare(struct pass *p, unsigned count, struct error *err)
{
	io__reset(p->io);
	for (unsigned i = 0; i < count; i++)
		for (unsigned copy = 0; copy < p->parts[i].count; copy++)
			if (copy_can_be_read(p, &p->parts[i], copy))
				copy_read(p, i, copy);
	int rc = pass__read(p, copy_failed, err);
	io__reset(p->io);
	for (unsigned i = 0; i < count && !rc; i++)
		copies_compare(p, &p->parts[i]);
	return rc ? rc : pass__write(p, err);
}

/* --- the walk --------------------------------------------------------------------------------- */

static int parts_do(struct pass *p, unsigned *count, struct error *err)
{
	unsigned n = *count;

	*count = 0;
	if (!n)
		return 0;
	return p->kind == PASS_REBUILD ? parts_rebuild(p, n, err) : parts_compare(p, n, err);
}

int pass__copies(struct pass *p, unsigned row_count, struct error *err)
{
	struct array *a = p->array;
	unsigned count = 0;
	int rc = 0;

	for (unsigned i = 0; i < row_count && !rc; i++) {
		struct pass_row *r = &p->rows[i];
		uint64_t from = r->row * a->row_bytes, to = from + array__row_length(a, r->row);

		for (uint64_t at = from, n; at < to && r->wanted && !rc; at += n) {
			struct copies *c = &p->parts[count];

			c->row = r;
			c->offset_bytes = at;
			c->length = min_of(to - at, p->slice);
			copies_find(a, c);
			n = c->length;
			for (unsigned k = 0; k < c->count; k++)
				c->bytes[k] = p->buffer + ((size_t)count * c->count + k) * p->slice;
			if (p->kind != PASS_REBUILD || copy_of_member(p, c) < c->count)
				count++;
			if (count == p->parts_room)
				rc = parts_do(p, &count, err);
		}
	}
	return rc ? rc : parts_do(p, &count, err);
}
