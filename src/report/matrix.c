/* matrix: rows (a layout and what tells it from its namesakes) and columns (tests) of a result. */
#include <string.h>

#include "internal.h"

static bool same_row(const struct cell *a, const struct cell *b)
{
	return strcmp(a->stack, b->stack) == 0 && strcmp(a->layout, b->layout) == 0 && strcmp(a->road, b->road) == 0 &&
	       strcmp(a->fs, b->fs) == 0 && strcmp(a->disks, b->disks) == 0 && strcmp(a->state, b->state) == 0 &&
	       strcmp(a->compression, b->compression) == 0 && strcmp(a->payload, b->payload) == 0;
}

static bool same_test(const struct cell *a, const struct cell *b)
{
	return strcmp(a->test, b->test) == 0 && a->block_bytes == b->block_bytes;
}

static bool wanted(const struct matrix *m, const struct cell *c)
{
	return !m->clock || strcmp(m->clock, c->clock) == 0;
}

/* The how manieth cell this is of those that agree with it in row and test. */
static unsigned ordinal_of(const struct matrix *m, const struct cell *c)
{
	unsigned ordinal = 0;

	for (const struct cell *other = m->result->cells; other < c; other++)
		ordinal += wanted(m, other) && same_row(other, c) && same_test(other, c);
	return ordinal;
}

static void label_add(struct matrix_row *row, const char *text)
{
	size_t length = strlen(row->label);

	if (*text)
		snprintf(row->label + length, sizeof(row->label) - length, " %s", text);
}

/* The layout, and of the other parts of the key those that differ between rows of one layout. */
static void label_rows(struct matrix *m)
{
	static const size_t offsets[] = {offsetof(struct cell, stack), offsetof(struct cell, fs),
		offsetof(struct cell, road), offsetof(struct cell, disks), offsetof(struct cell, state),
		offsetof(struct cell, compression), offsetof(struct cell, payload)};

	for (size_t i = 0; i < m->row_count; i++) {
		struct matrix_row *row = &m->rows[i];
		bool others_fill = false;

		snprintf(row->label, sizeof(row->label), "%s",
			*row->first->layout ? row->first->layout : row->first->stack);
		for (size_t k = 0; k < array_count(offsets); k++) {
			const char *mine = (const char *)row->first + offsets[k];
			bool differs = false;

			for (size_t j = 0; j < m->row_count && !differs; j++)
				differs = strcmp(m->rows[j].first->layout, row->first->layout) == 0 &&
					  strcmp((const char *)m->rows[j].first + offsets[k], mine) != 0;
			if (differs)
				label_add(row, mine);
		}
		for (size_t j = 0; j < m->row_count; j++)
			others_fill |= j != i && same_row(m->rows[j].first, row->first);
		if (others_fill) {
			char text[32];

			snprintf(text, sizeof(text), "#%u", row->ordinal + 1);
			label_add(row, text);
		}
	}
}

static bool row_known(const struct matrix *m, const struct cell *c, unsigned ordinal)
{
	for (size_t i = 0; i < m->row_count; i++)
		if (m->rows[i].ordinal == ordinal && same_row(m->rows[i].first, c))
			return true;
	return false;
}

static bool test_known(const struct matrix *m, const struct cell *c)
{
	for (size_t i = 0; i < m->test_count; i++)
		if (same_test(m->tests[i], c))
			return true;
	return false;
}

int report__matrix_init(struct matrix *m, const struct result *r, const char *clock, struct error *err)
{
	memset(m, 0, sizeof(*m));
	m->result = r;
	m->clock = clock;
	m->rows = calloc(r->cell_count + 1, sizeof(*m->rows));
	m->tests = calloc(r->cell_count + 1, sizeof(*m->tests));
	if (!m->rows || !m->tests) {
		report__matrix_release(m);
		return error_set(err, ERR_MEMORY, "out of memory while a result was sorted");
	}
	for (const struct cell *c = r->cells; c < r->cells + r->cell_count; c++) {
		unsigned ordinal;

		if (!wanted(m, c))
			continue;
		ordinal = ordinal_of(m, c);
		if (!row_known(m, c, ordinal))
			m->rows[m->row_count++] = (struct matrix_row){.first = c, .ordinal = ordinal};
		if (!test_known(m, c))
			m->tests[m->test_count++] = c;
	}
	label_rows(m);
	return 0;
}

void report__matrix_release(struct matrix *m)
{
	free(m->rows);
	free(m->tests);
	memset(m, 0, sizeof(*m));
}

const struct cell *report__matrix_cell(const struct matrix *m, size_t row, const struct cell *test)
{
	unsigned ordinal = 0;

	for (const struct cell *c = m->result->cells; c < m->result->cells + m->result->cell_count; c++)
		if (wanted(m, c) && same_row(c, m->rows[row].first) && same_test(c, test) &&
			ordinal++ == m->rows[row].ordinal)
			return c;
	return NULL;
}

size_t report__groups(const struct matrix *m, struct test_group *ret, size_t room)
{
	size_t count = 0;

	for (size_t i = 0; i < m->test_count; i++) {
		const struct cell *c = m->tests[i];
		struct test_group *last = count ? &ret[count - 1] : NULL;

		if (last && m->tests[last->first]->block_bytes == c->block_bytes && last->iops == report__in_iops(c)) {
			last->count++;
			continue;
		}
		if (count == room)
			break;
		ret[count++] = (struct test_group){.first = i, .count = 1, .iops = report__in_iops(c)};
	}
	return count;
}
