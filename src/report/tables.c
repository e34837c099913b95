/* tables: the grids of a result, the list of what is not valid, bars, prediction beside measurement, single cells. */
#include <string.h>

#include "internal.h"

/* --- titles ----------------------------------------------------------------------------------------------------- */

/* "depth 32 (single 4)": the depth of most rows, and who differs. */
static void depth_text(const struct matrix *m, const struct test_group *group, char *text, size_t bytes)
{
	const struct cell *test = m->tests[group->first];
	unsigned deepest = 0;
	size_t length;

	for (size_t i = 0; i < m->row_count; i++) {
		const struct cell *c = report__matrix_cell(m, i, test);

		if (c)
			deepest = max_of(deepest, c->depth);
	}
	length = (size_t)snprintf(text, bytes, "depth %u", deepest);
	for (size_t i = 0; i < m->row_count && length < bytes; i++) {
		const struct cell *c = report__matrix_cell(m, i, test);

		if (c && c->depth != deepest)
			length +=
				(size_t)snprintf(text + length, bytes - length, " (%s %u)", m->rows[i].label, c->depth);
	}
}

static double unit_of(const struct cell *c, bool iops, double mb_per_s)
{
	if (!iops)
		return mb_per_s;
	return c->block_bytes ? mb_per_s * 1e6 / (double)c->block_bytes : NAN;
}

static double value_of(const struct cell *c, bool iops)
{
	if (iops && isfinite(c->iops))
		return c->iops;
	return unit_of(c, iops, c->mb_per_s);
}

static char *value_text(double value, bool iops, char text[REPORT_TEXT_BYTES])
{
	return iops ? report__count(value, text) : report__rate(value, text);
}

void report__title(const struct matrix *m, char *text, size_t bytes)
{
	const struct result *r = m->result;
	const struct cell *c = NULL;
	size_t length = 0;
	bool virtual;

	for (size_t i = 0; i < m->row_count; i++)
		if (!c || report__disk_count(m->rows[i].first) > report__disk_count(c))
			c = m->rows[i].first;
	if (!c) {
		snprintf(text, bytes, "no cells");
		return;
	}
	virtual = strcmp(c->clock, "virtual") == 0;
	length = (size_t)snprintf(text, bytes, "%s clock%s: %s", virtual ? "Virtual" : "Real",
		virtual ? " (predicted)" : " (measured)", *c->disks ? c->disks : "disks unknown");
	if (length < bytes && virtual && *r->host.cpu_charge)
		length += (size_t)snprintf(text + length, bytes - length, "; CPU charged: %s", r->host.cpu_charge);
	if (length < bytes)
		length += (size_t)snprintf(text + length, bytes - length, "; seed %llu", (unsigned long long)r->seed);
	if (length < bytes && *r->background)
		snprintf(text + length, bytes - length, "; background work: %s", r->background);
}

/* --- layouts × tests -------------------------------------------------------------------------------------------- */

static char mark_of(const struct result *r, const struct cell *c)
{
	if (c->verdict != VERDICT_VALID)
		return '*';
	return report__over_link(r, c) ? '^' : ' ';
}

static bool group_has_marks(const struct matrix *m, const struct test_group *group)
{
	for (size_t i = 0; i < m->row_count; i++)
		for (size_t k = 0; k < group->count; k++) {
			const struct cell *c = report__matrix_cell(m, i, m->tests[group->first + k]);

			if (c && mark_of(m->result, c) != ' ')
				return true;
		}
	return false;
}

/* The best VALID figure of a column, to be shown in colour. */
static double best_of(const struct matrix *m, const struct cell *test, bool iops)
{
	double best = NAN;

	for (size_t i = 0; i < m->row_count; i++) {
		const struct cell *c = report__matrix_cell(m, i, test);

		if (c && c->verdict == VERDICT_VALID && !(value_of(c, iops) <= best))
			best = value_of(c, iops);
	}
	return best;
}

static void set_value(struct grid *g, unsigned row, unsigned column, const struct result *r, const struct cell *c,
	bool iops, bool marks, double best)
{
	char text[REPORT_TEXT_BYTES], mark = mark_of(r, c);
	enum tone tone = c->verdict != VERDICT_VALID ? TONE_BAD : value_of(c, iops) == best ? TONE_BEST : TONE_PLAIN;

	if (c->verdict == VERDICT_FAILED || c->verdict == VERDICT_SKIPPED)
		snprintf(text, sizeof(text), "%s", c->verdict == VERDICT_FAILED ? "failed" : "skipped");
	else
		value_text(value_of(c, iops), iops, text);
	if (marks)
		report__grid_set(g, row, column, tone, "%s%c", text, mark);
	else
		report__grid_set(g, row, column, tone, "%s", text);
}

/* The limit differs between rows only by the number of disks: the row of the limit has that of the most. */
static const struct cell *limit_cell(const struct matrix *m, const struct cell *test)
{
	const struct cell *found = NULL;

	for (size_t i = 0; i < m->row_count; i++) {
		const struct cell *c = report__matrix_cell(m, i, test);

		if (c && isfinite(c->limit_mb_per_s) && (!found || report__disk_count(c) > report__disk_count(found)))
			found = c;
	}
	return found;
}

static void limit_row(struct grid *g, const struct matrix *m, const struct test_group *group, unsigned step, bool marks)
{
	unsigned row = report__grid_row(g);

	if (g->failed)
		return;
	report__grid_set(g, row, 0, TONE_DIM, "limit");
	for (size_t k = 0; k < group->count; k++) {
		const struct cell *c = limit_cell(m, m->tests[group->first + k]);
		char text[REPORT_TEXT_BYTES];

		value_text(c ? unit_of(c, group->iops, c->limit_mb_per_s) : NAN, group->iops, text);
		report__grid_set(g, row, 1 + (unsigned)k * step, TONE_DIM, "%s%s", text, marks ? " " : "");
	}
}

void report__grid_tests(struct grid *g, const struct matrix *m, const struct test_group *group, enum detail detail)
{
	unsigned step = detail == DETAIL_ALL ? 3 : detail == DETAIL_VALUE ? 2 : 1;
	const struct cell *first = m->tests[group->first];
	char depth[200], block[REPORT_TEXT_BYTES], text[REPORT_TEXT_BYTES];
	bool marks = detail != DETAIL_MODEL && group_has_marks(m, group);
	const char *unit = group->iops ? "operations a second (IOPS)" : "MB/s";

	depth_text(m, group, depth, sizeof(depth));
	if (detail == DETAIL_MODEL)
		report__grid_init(g, 1, "Model: what each layout can give, %s", unit);
	else
		report__grid_init(g, 1, "%s blocks, %s: %s, and %% of the layout's model",
			report__block(first->block_bytes, block), depth, unit);
	report__grid_column(g, false, false, "layout");
	for (size_t k = 0; k < group->count; k++) {
		report__grid_column(
			g, true, false, "%s%s", report__test(m->tests[group->first + k]->test, text), marks ? " " : "");
		if (detail == DETAIL_ALL)
			report__grid_column(g, true, true, "model");
		if (detail != DETAIL_MODEL)
			report__grid_column(g, true, true, "%%");
	}
	for (size_t i = 0; i < m->row_count; i++) {
		unsigned row = report__grid_row(g);

		if (g->failed)
			return;
		report__grid_set(g, row, 0, TONE_PLAIN, "%s", m->rows[i].label);
		for (size_t k = 0; k < group->count; k++) {
			const struct cell *test = m->tests[group->first + k], *c = report__matrix_cell(m, i, test);
			unsigned column = 1 + (unsigned)k * step;

			if (!c)
				continue;
			value_text(unit_of(c, group->iops, c->model_mb_per_s), group->iops, text);
			if (detail != DETAIL_VALUE)
				report__grid_set(g, row, column + (detail == DETAIL_ALL), TONE_DIM, "%s", text);
			if (detail == DETAIL_MODEL)
				continue;
			set_value(g, row, column, m->result, c, group->iops, marks, best_of(m, test, group->iops));
			if (report__has_value(c))
				report__grid_set(g, row, column + step - 1, TONE_DIM, "%s",
					report__percent(c->efficiency, text));
		}
	}
	if (detail != DETAIL_MODEL)
		limit_row(g, m, group, step, marks);
}

/* --- space ------------------------------------------------------------------------------------------------------- */

static const struct cell *row_space(const struct matrix *m, size_t row)
{
	const struct cell *first = m->rows[row].first;

	for (size_t k = 0; k < m->test_count; k++) {
		const struct cell *c = report__matrix_cell(m, row, m->tests[k]);

		if (c && c->usable_bytes != RESULT_NONE)
			return c;
	}
	return first;
}

static uint64_t raw_bytes(const struct result *r, unsigned disks)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < r->disk_count && i < disks; i++)
		sum += r->disks[i].nominal_bytes ? r->disks[i].nominal_bytes : r->disks[i].size_bytes;
	return disks > 0 && disks <= r->disk_count ? sum : 0;
}

/* The first of these tests that the row has a VALID figure for. */
static const struct cell *row_test(const struct matrix *m, size_t row, const char *test)
{
	for (size_t k = 0; k < m->test_count; k++) {
		const struct cell *c =
			strcmp(m->tests[k]->test, test) == 0 ? report__matrix_cell(m, row, m->tests[k]) : NULL;

		if (c && c->verdict == VERDICT_VALID)
			return c;
	}
	return NULL;
}

static void price_columns(struct grid *g, const struct matrix *m, size_t row, unsigned column)
{
	static const char *const tests[] = {"write", "read"};
	const struct cell *space = row_space(m, row);
	double cost = m->result->price_per_disk * report__disk_count(space);

	report__grid_set(g, (unsigned)row, column, TONE_PLAIN, "%.2f", cost);
	if (space->usable_bytes != RESULT_NONE && space->usable_bytes > 0)
		report__grid_set(
			g, (unsigned)row, column + 1, TONE_PLAIN, "%.2f", cost / ((double)space->usable_bytes / 1e12));
	for (unsigned i = 0; i < array_count(tests); i++) {
		const struct cell *c = row_test(m, row, tests[i]);

		if (c && c->mb_per_s > 0)
			report__grid_set(g, (unsigned)row, column + 2 + i, TONE_PLAIN, "%.2f", cost / c->mb_per_s);
		else
			report__grid_set(g, (unsigned)row, column + 2 + i, TONE_PLAIN, "-");
	}
}

static void seconds_set(struct grid *g, unsigned row, unsigned column, double seconds)
{
	if (isfinite(seconds))
		report__grid_set(g, row, column, TONE_PLAIN, "%.3f", seconds);
	else
		report__grid_set(g, row, column, TONE_PLAIN, "-");
}

/* One unit for the table: small disks would be 0.000 TB. */
static bool space_is_small(const struct matrix *m)
{
	for (size_t i = 0; i < m->row_count; i++)
		if (row_space(m, i)->usable_bytes < SPACE_SMALL_BYTES)
			return true;
	return false;
}

void report__grid_space(struct grid *g, const struct matrix *m)
{
	bool priced = isfinite(m->result->price_per_disk), small = space_is_small(m);
	double decimal = small ? 1e9 : 1e12, binary = small ? 1073741824.0 : 1099511627776.0;

	report__grid_init(g, 1,
		small ? "Space and safety (1 GB = 10^9 bytes, 1 GiB = 2^30 bytes)"
		      : "Space and safety (1 TB = 10^12 bytes, 1 TiB = 2^40 bytes)");
	report__grid_column(g, false, false, "layout");
	report__grid_column(g, true, false, "disks");
	report__grid_column(g, true, false, small ? "usable GB" : "usable TB");
	report__grid_column(g, true, false, small ? "usable GiB" : "usable TiB");
	report__grid_column(g, true, false, "of raw");
	report__grid_column(g, true, false, "survives");
	report__grid_column(g, true, false, "made s");
	report__grid_column(g, true, false, "ready s");
	if (priced) {
		report__grid_column(g, true, false, "price");
		report__grid_column(g, true, false, "per TB");
		report__grid_column(g, true, false, "per MB/s written");
		report__grid_column(g, true, false, "per MB/s read");
	}
	for (size_t i = 0; i < m->row_count; i++) {
		const struct cell *c = row_space(m, i);
		unsigned row = report__grid_row(g), disks = report__disk_count(c);
		uint64_t raw = raw_bytes(m->result, disks);

		if (g->failed)
			return;
		report__grid_set(g, row, 0, TONE_PLAIN, "%s", m->rows[i].label);
		if (disks)
			report__grid_set(g, row, 1, TONE_PLAIN, "%u", disks);
		if (c->usable_bytes != RESULT_NONE) {
			int decimals = !small && c->usable_bytes < 1000000000000u ? 3 : 2;

			report__grid_set(g, row, 2, TONE_PLAIN, "%.*f", decimals, (double)c->usable_bytes / decimal);
			report__grid_set(g, row, 3, TONE_PLAIN, "%.*f", decimals, (double)c->usable_bytes / binary);
			if (raw)
				report__grid_set(
					g, row, 4, TONE_PLAIN, "%.0f%%", 100.0 * (double)c->usable_bytes / (double)raw);
		}
		if (c->failures_survived == UINT32_MAX)
			report__grid_set(g, row, 5, TONE_PLAIN, "-");
		else if (c->failures_survived == 0)
			report__grid_set(g, row, 5, TONE_BAD, "none");
		else
			report__grid_set(g, row, 5, TONE_PLAIN, "any %u", c->failures_survived);
		seconds_set(g, row, 6, c->create_s);
		seconds_set(g, row, 7, c->ready_s);
		if (priced)
			price_columns(g, m, i, 8);
	}
}

/* --- what is not valid -------------------------------------------------------------------------------------------- */

/* The reason of the verdict, and the names of what holds besides; JSON has all reasons. */
static void note_print(const struct report_style *s, FILE *out, const char *row, const struct cell *c)
{
	char test[REPORT_TEXT_BYTES];
	struct text also = {0};

	for (unsigned i = 1; i < c->note_count; i++)
		text_addf(&also, "%s%s", i > 1 ? ", " : " (also ", verdict_names[c->notes[i].verdict]);
	if (c->note_count > 1)
		text_addf(&also, ")");
	report__paragraph(s, out, 4, "  * %s, %s: %s%s%s%s", row, report__test(c->test, test),
		verdict_names[c->verdict], c->note_count ? ": " : "", c->note_count ? c->notes[0].reason : "",
		also.bytes ? also.bytes : "");
	text_release(&also);
}

static void list_not_valid(const struct matrix *m, const struct report_style *s, FILE *out)
{
	const struct result *r = m->result;
	unsigned cells = 0, bad = 0, capped = 0;

	for (size_t i = 0; i < m->row_count; i++)
		for (size_t k = 0; k < m->test_count; k++) {
			const struct cell *c = report__matrix_cell(m, i, m->tests[k]);

			if (!c)
				continue;
			cells++;
			capped += mark_of(r, c) == '^';
			if (c->verdict == VERDICT_VALID)
				continue;
			if (bad++ == 0)
				report__heading(s, out, "Not valid for comparison (*)");
			note_print(s, out, m->rows[i].label, c);
		}
	if (bad)
		report__paragraph(s, out, 2, "%u of %u cells are not valid.", bad, cells);
	else
		report__paragraph(s, out, 2, "All %u cells are valid.", cells);
	if (isfinite(r->link_mb_per_s) && capped > 0) {
		char rate[REPORT_TEXT_BYTES];

		report__paragraph(s, out, 2,
			"^ %u more %s above what the link %s carries (%s MB/s): a client behind it sees no more than "
			"that.",
			capped, capped == 1 ? "cell is" : "cells are", r->link_name,
			report__rate(r->link_mb_per_s, rate));
	}
}

static void list_skips(const struct result *r, const struct report_style *s, FILE *out)
{
	if (r->skip_count == 0)
		return;
	report__heading(s, out, "Layouts that do not fit these disks");
	for (size_t i = 0; i < r->skip_count; i++)
		report__paragraph(s, out, 4, "  %s: %s", r->skips[i].layout, r->skips[i].reason);
}

/* --- the main table ----------------------------------------------------------------------------------------------- */

static int print_grid(struct grid *g, const struct report_style *s, FILE *out, struct error *err)
{
	int status = report__grid_print(g, s, out, err);

	report__grid_release(g);
	fputc('\n', out);
	return status;
}

/* With the model beside each figure where there is room, else in a table of its own. */
static int print_group(const struct matrix *m, const struct test_group *group, const struct report_style *s, FILE *out,
	struct error *err)
{
	struct grid g;
	int status;

	report__grid_tests(&g, m, group, DETAIL_ALL);
	if (report__grid_width(&g) <= s->columns)
		return print_grid(&g, s, out, err);
	report__grid_release(&g);
	report__grid_tests(&g, m, group, DETAIL_VALUE);
	status = print_grid(&g, s, out, err);
	if (status != 0)
		return status;
	report__grid_tests(&g, m, group, DETAIL_MODEL);
	return print_grid(&g, s, out, err);
}

int report_table(const struct result *r, const char *clock, const struct report_style *s, FILE *out, struct error *err)
{
	struct test_group groups[16];
	struct matrix m;
	struct grid g;
	char title[300];
	size_t count;
	int status = report__matrix_init(&m, r, clock, err);

	if (status != 0)
		return status;
	report__title(&m, title, sizeof(title));
	report__heading(s, out, "%s", title);
	if (m.row_count > 0)
		fputc('\n', out);
	count = report__groups(&m, groups, array_count(groups));
	for (size_t i = 0; i < count && status == 0; i++)
		status = print_group(&m, &groups[i], s, out, err);
	if (status == 0 && m.row_count > 0) {
		report__grid_space(&g, &m);
		status = print_grid(&g, s, out, err);
	}
	if (status == 0 && m.row_count > 0)
		list_not_valid(&m, s, out);
	list_skips(r, s, out);
	if (r->interrupted)
		report__paragraph(s, out, 2, "The run was interrupted: this is what it had found by then.");
	report__matrix_release(&m);
	return status != 0 ? status : report__finish(out, err);
}

/* --- bars --------------------------------------------------------------------------------------------------------- */

static void bar_print(double share, unsigned width, bool unicode, FILE *out)
{
	static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
	unsigned steps = share > 0 ? (unsigned)(share * width * 8 + 0.5) : 0;

	if (!unicode) {
		for (unsigned i = 0; i < (steps + 4) / 8; i++)
			fputc('#', out);
		return;
	}
	for (unsigned i = 0; i < steps / 8; i++)
		fputs("█", out);
	fputs(eighths[steps % 8], out);
}

int report_bars(const struct result *r, const char *clock, const char *test, const struct report_style *s, FILE *out,
	struct error *err)
{
	struct matrix m;
	const struct cell *column = NULL, *limit;
	unsigned label_width = 5, width;
	double highest = 0;
	char text[REPORT_TEXT_BYTES];
	bool iops;
	int status = report__matrix_init(&m, r, clock, err);

	if (status != 0)
		return status;
	for (size_t k = 0; k < m.test_count; k++)
		if (strcmp(m.tests[k]->test, test) == 0 && !column)
			column = m.tests[k];
	if (!column) {
		report__matrix_release(&m);
		return error_set(err, ERR_NOT_FOUND, "the result has no cell of the test %s", test);
	}
	iops = report__in_iops(column);
	limit = limit_cell(&m, column);
	if (limit)
		highest = unit_of(limit, iops, limit->limit_mb_per_s);
	for (size_t i = 0; i < m.row_count; i++) {
		const struct cell *c = report__matrix_cell(&m, i, column);

		label_width = max_of(label_width, (unsigned)strlen(m.rows[i].label));
		if (c && report__has_value(c))
			highest = max_of(highest, value_of(c, iops));
	}
	width = s->columns > label_width + 24 ? s->columns - label_width - 14 : 10;
	report__heading(s, out, "%s, %s%s", report__test(test, text), iops ? "operations a second (IOPS)" : "MB/s",
		limit ? "; the whole width is the limit" : "");
	for (size_t i = 0; i < m.row_count; i++) {
		const struct cell *c = report__matrix_cell(&m, i, column);

		if (!c)
			continue;
		fprintf(out, "%-*s  ", (int)label_width, m.rows[i].label);
		if (!report__has_value(c)) {
			fprintf(out, "%s\n", verdict_names[c->verdict]);
			continue;
		}
		bar_print(highest > 0 ? value_of(c, iops) / highest : 0, width, s->unicode, out);
		fprintf(out, " %s%s\n", value_text(value_of(c, iops), iops, text),
			c->verdict == VERDICT_VALID ? "" : "*");
	}
	report__matrix_release(&m);
	return report__finish(out, err);
}

/* --- prediction beside measurement -------------------------------------------------------------------------------- */

static const struct cell *twin_of(const struct result *r, const struct cell *real)
{
	for (const struct cell *c = r->cells; c < r->cells + r->cell_count; c++)
		if (strcmp(c->clock, "virtual") == 0 && strcmp(c->layout, real->layout) == 0 &&
			strcmp(c->test, real->test) == 0 && strcmp(c->stack, real->stack) == 0 &&
			c->block_bytes == real->block_bytes && strcmp(c->state, real->state) == 0 &&
			strcmp(c->disks, real->disks) == 0)
			return c;
	return NULL;
}

int report_prediction(const struct result *r, const struct report_style *s, FILE *out, struct error *err)
{
	unsigned pairs = 0, close = 0, unfit = 0;
	double worst = 0;
	struct grid g;
	int status;

	report__grid_init(
		&g, 2, "Prediction beside measurement, MB/s: the same cell on the virtual and on the real clock");
	report__grid_column(&g, false, false, "layout");
	report__grid_column(&g, false, false, "test");
	report__grid_column(&g, true, false, "virtual ");
	report__grid_column(&g, true, false, "real ");
	report__grid_column(&g, true, false, "difference");
	report__grid_column(&g, false, false, "verdict of the real one");
	for (const struct cell *real = r->cells; real < r->cells + r->cell_count; real++) {
		const struct cell *predicted = strcmp(real->clock, "real") == 0 ? twin_of(r, real) : NULL;
		char a[REPORT_TEXT_BYTES], b[REPORT_TEXT_BYTES], test[REPORT_TEXT_BYTES];
		double difference;
		unsigned row;

		if (!predicted || !report__has_value(real) || !report__has_value(predicted) || predicted->mb_per_s <= 0)
			continue;
		row = report__grid_row(&g);
		if (g.failed)
			break;
		difference = real->mb_per_s / predicted->mb_per_s - 1;
		report__grid_set(&g, row, 0, TONE_PLAIN, "%s", real->layout);
		report__grid_set(&g, row, 1, TONE_PLAIN, "%s", report__test(real->test, test));
		report__grid_set(&g, row, 2, TONE_PLAIN, "%s%c", report__rate(predicted->mb_per_s, a),
			predicted->verdict == VERDICT_VALID ? ' ' : '*');
		report__grid_set(&g, row, 3, TONE_PLAIN, "%s%c", report__rate(real->mb_per_s, b),
			real->verdict == VERDICT_VALID ? ' ' : '*');
		report__grid_set(
			&g, row, 4, fabs(difference) <= TIE_SHARE ? TONE_PLAIN : TONE_BAD, "%+.1f%%", difference * 100);
		report__grid_set(&g, row, 5, TONE_PLAIN, "%s", verdict_names[real->verdict]);
		if (real->verdict != VERDICT_VALID || predicted->verdict != VERDICT_VALID) {
			unfit++;
			continue;
		}
		pairs++;
		close += fabs(difference) <= TIE_SHARE;
		if (fabs(difference) > fabs(worst))
			worst = difference;
	}
	if (g.row_count == 0) {
		report__grid_release(&g);
		return 0;
	}
	status = print_grid(&g, s, out, err);
	report__paragraph(s, out, 2,
		"%u of %u pairs of valid cells agree within 5 %%; the largest difference is %+.1f%%. %u %s not "
		"counted, for one of the two is not valid.",
		close, pairs, worst * 100, unfit, unfit == 1 ? "pair is" : "pairs are");
	return status != 0 ? status : report__finish(out, err);
}

/* --- one line a cell ---------------------------------------------------------------------------------------------- */

static void set_latency(struct grid *g, unsigned row, unsigned column, uint64_t ns)
{
	if (ns == RESULT_NONE)
		report__grid_set(g, row, column, TONE_PLAIN, "-");
	else
		report__grid_set(g, row, column, TONE_PLAIN, "%.3f", (double)ns / 1e6);
}

static void set_ratio(struct grid *g, unsigned row, unsigned column, uint64_t part, uint64_t whole)
{
	if (part == RESULT_NONE || whole == RESULT_NONE || whole == 0)
		report__grid_set(g, row, column, TONE_PLAIN, "-");
	else
		report__grid_set(g, row, column, TONE_PLAIN, "%.2f", (double)part / (double)whole);
}

static void cell_row(struct grid *g, const struct result *r, const struct cell *c)
{
	unsigned row = report__grid_row(g), column = 1;
	char text[REPORT_TEXT_BYTES];

	if (g->failed)
		return;
	report__grid_set(g, row, 0, TONE_PLAIN, "%s", c->test);
	report__grid_set(g, row, column++, TONE_PLAIN, "%s", report__block(c->block_bytes, text));
	report__grid_set(g, row, column++, TONE_PLAIN, "%u", c->depth * max_of(c->jobs, 1u));
	set_value(g, row, column++, r, c, false, true, NAN);
	report__grid_set(g, row, column++, TONE_PLAIN, "%s", report__has_value(c) ? report__count(c->iops, text) : "-");
	set_latency(g, row, column++, c->latency_p50_ns);
	set_latency(g, row, column++, c->latency_p99_ns);
	set_latency(g, row, column++, c->latency_max_ns);
	report__grid_set(g, row, column++, TONE_DIM, "%s", report__rate(c->limit_mb_per_s, text));
	report__grid_set(g, row, column++, TONE_DIM, "%s", report__percent(c->efficiency, text));
	set_ratio(g, row, column++, c->device_read_bytes, c->logical_bytes);
	set_ratio(g, row, column++, c->device_write_bytes, c->logical_bytes);
	if (isfinite(c->cpu_seconds) && c->logical_bytes != RESULT_NONE && c->logical_bytes > 0)
		report__grid_set(g, row, column, TONE_PLAIN, "%.3f", c->cpu_seconds / ((double)c->logical_bytes / 1e9));
	seconds_set(g, row, ++column, c->elapsed_s);
	report__grid_set(
		g, row, ++column, c->verdict == VERDICT_VALID ? TONE_PLAIN : TONE_BAD, "%s", verdict_names[c->verdict]);
}

int report_cells(const struct result *r, const struct report_style *s, FILE *out, struct error *err)
{
	static const char *const heads[] = {"depth", "MB/s ", "IOPS", "p50 ms", "p99 ms", "max ms", "limit", "%",
		"read/byte", "written/byte", "CPU-s/GB", "s"};
	struct matrix m;
	struct grid g;
	int status = report__matrix_init(&m, r, NULL, err);

	if (status != 0)
		return status;
	report__grid_init(&g, 1, "One line a test; MB/s is 10^6 bytes a second");
	report__grid_column(&g, false, false, "test");
	report__grid_column(&g, true, false, "block");
	for (size_t i = 0; i < array_count(heads); i++)
		report__grid_column(&g, true, false, "%s", heads[i]);
	report__grid_column(&g, false, false, "verdict");
	for (size_t i = 0; i < r->cell_count; i++)
		cell_row(&g, r, &r->cells[i]);
	status = print_grid(&g, s, out, err);
	if (status == 0 && r->cell_count == 1 && report__has_value(&r->cells[0]))
		report__paragraph(s, out, 2, "%.2f MB/s = %.2f MiB/s = %.2f Mbit/s", r->cells[0].mb_per_s,
			r->cells[0].mb_per_s * 1e6 / 1048576, r->cells[0].mb_per_s * 8);
	if (status == 0 && r->cell_count > 0)
		list_not_valid(&m, s, out);
	report__matrix_release(&m);
	return status != 0 ? status : report__finish(out, err);
}
