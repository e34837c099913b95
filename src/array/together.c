/*
 * Long reads from rows of which a column is missing.
 *
 * One by one, each missing part would cost a read of all other columns, most of which the same read asks for anyhow. So
 * the rows are guarded, what is not asked for (parity, mostly) joins the same batch of requests, and the missing parts
 * are made from what has come, in memory. What cannot be done so is left for the road that recovers part by part.
 */
#include "internal.h"

#include <string.h>

#define ROWS_MAX 128u
#define SCRATCH_MAX (32 * MIB)

/* A missing part: where the other columns' bytes of the same range are. */
struct together {
	size_t part;
	uint64_t failed;
	bool bad;
	void *columns[LAYOUT_WIDTH_MAX];
};

bool together__guard(struct array *a, struct io *io)
{
	uint64_t first = UINT64_MAX, last = 0;

	io->guard_count = 0;
	if (!a->layout.parity || !a->degraded)
		return false;
	for (size_t i = 0; i < io->part_count; i++)
		if (io->parts[i].kind != PART_DONE) {
			first = min_of(first, io->parts[i].row);
			last = max_of(last, io->parts[i].row);
		}
	if (first > last || last - first >= ROWS_MAX || !buffer__guard_rows(a, first, last - first + 1))
		return false;
	io->guard_first = first;
	io->guard_count = last - first + 1;
	return true;
}

void together__unguard(struct array *a, struct io *io)
{
	for (uint64_t i = 0; i < io->guard_count; i++)
		buffer__unguard(a, io->guard_first + i);
	io->guard_count = 0;
}

/* Parts are in the order of the array. */
static const struct part *part_at(const struct io *io, uint64_t offset)
{
	size_t low = 0, high = io->part_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (io->parts[middle].offset_bytes < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low < io->part_count && io->parts[low].offset_bytes == offset ? &io->parts[low] : NULL;
}

/* Bytes that the same read brings from that column. */
static uint8_t *sibling(const struct array *a, const struct io *io, const struct part *p, unsigned column)
{
	uint64_t chunk = a->layout.chunk_bytes;
	const struct part *s = part_at(io, p->row * a->row_bytes + column * chunk + p->offset_bytes % chunk);

	return s && s->kind == PART_DISK && s->length == p->length ? s->bytes : NULL;
}

/* With NULL for `t` it only adds up what scratch memory is needed. Returns false when the row cannot be recovered. */
static bool part_plan(struct array *a, struct io *io, size_t index, struct together *t, size_t *need)
{
	const struct part *p = &io->parts[index];
	struct layout_row lr;
	bool failed[LAYOUT_WIDTH_MAX], read[LAYOUT_WIDTH_MAX];
	uint64_t in = p->offset_bytes % a->layout.chunk_bytes;
	unsigned mine = (unsigned)(p->offset_bytes % a->row_bytes / a->layout.chunk_bytes);

	layout_row(&a->layout, p->row, &lr);
	for (unsigned c = 0; c < lr.data + lr.parity; c++)
		failed[c] = !road_reads(&io->roads[lr.disk[c]], p->row);
	if (layout_plan_recover(lr.data, lr.parity, failed, read, NULL))
		return false;
	for (unsigned c = 0; c < lr.data + lr.parity; c++) {
		uint8_t *bytes = c == mine ? p->bytes : c < lr.data && read[c] ? sibling(a, io, p, c) : NULL;
		bool own = !bytes && (read[c] || failed[c]);

		if (own)
			*need += round_up_u64(p->length, DISK_BUFFER_ALIGN);
		if (!t)
			continue;
		t->columns[c] = own ? io__scratch(io, p->length) : bytes;
		t->failed |= (uint64_t)failed[c] << c;
		if (own && read[c])
			io__piece(io, lr.disk[c] * 2 + road_reads_source(&io->roads[lr.disk[c]], p->row),
				a->label.data_offset + lr.offset_bytes + in, t->columns[c], p->length,
				TOGETHER | (uint32_t)io->together_count);
	}
	return true;
}

void together__plan(struct array *a, struct io *io)
{
	size_t need = 0, count = 0;

	io->together_count = 0;
	for (size_t i = 0; i < io->part_count; i++)
		if (io->parts[i].kind == PART_RECOVER) {
			part_plan(a, io, i, NULL, &need);
			count++;
		}
	if (!count || need > SCRATCH_MAX || !io__scratch_grow(io, need))
		return;
	if (io->together_room < count) {
		free(io->together);
		io->together = malloc(count * sizeof *io->together);
		io->together_room = io->together ? count : 0;
	}
	for (size_t i = 0; i < io->part_count && io->together_room >= count; i++) {
		struct together *t = &io->together[io->together_count];

		if (io->parts[i].kind != PART_RECOVER)
			continue;
		*t = (struct together){.part = i};
		if (part_plan(a, io, i, t, &need))
			io->together_count++;
	}
}

void together__failed(struct io *io, uint32_t tag)
{
	io->together[tag & ~TOGETHER].bad = true;
}

void together__finish(struct array *a, struct io *io)
{
	struct layout *l = &a->layout;
	unsigned data = l->width - l->parity;
	bool any_failed = false;

	for (size_t i = 0; i < io->part_count; i++)
		any_failed |= io->parts[i].kind == PART_FAILED; /* some column did not come */
	for (size_t i = 0; i < io->together_count && !any_failed; i++) {
		struct together *t = &io->together[i];
		struct part *p = &io->parts[t->part];
		bool failed[LAYOUT_WIDTH_MAX];

		for (unsigned c = 0; c < l->width; c++)
			failed[c] = t->failed >> c & 1;
		os_charge(l->parity > 1 ? OS_STAGE_PARITY2 : OS_STAGE_PARITY1, (uint64_t)p->length * data);
		if (!t->bad && !parity_recover(data, l->parity, p->length, t->columns, failed, NULL))
			p->kind = PART_DONE;
	}
	io->together_count = 0;
}
