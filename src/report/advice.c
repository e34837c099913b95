/*
 * advice: which layout for what, from VALID cells of cold tests only (REPORT-3).
 *
 * Leaders of one figure are told with those that tie with them. A recommendation for a use weighs several figures: each
 * is divided by the best of the candidates, and the weighted geometric mean of these shares is the score, so that no
 * unit outweighs another and being poor in one thing cannot be bought off by much of the rest. Scores closer than 5 %
 * are a tie only where each figure is one; where one layout has more of this and less of that, both sides are told. Of
 * the speeds that a use weighs at least half must have been measured.
 */
#include <string.h>

#include "internal.h"

enum figure { CAPACITY, SEQUENTIAL_READ, SEQUENTIAL_WRITE, RANDOM_READ, RANDOM_WRITE, FIGURE_COUNT };

static const struct {
	const char *words;
	const char *tests[3]; /* the first that any row has a VALID cell of */
} figures[FIGURE_COUNT] = {
	[CAPACITY] = {"usable", {NULL}},
	[SEQUENTIAL_READ] = {"sequential read", {"read"}},
	[SEQUENTIAL_WRITE] = {"sequential write", {"write"}},
	[RANDOM_READ] = {"random read", {"randread-8k", "randread-128k", "randread"}},
	[RANDOM_WRITE] = {"random write", {"randwrite-8k", "randwrite-128k", "randwrite"}},
};

static const struct use {
	const char *name;
	unsigned survives;        /* at least */
	unsigned survives_wanted; /* when some layout does */
	double weights[FIGURE_COUNT];
} uses[] = {
	{"archive and media", 1, 2, {[CAPACITY] = 2, [SEQUENTIAL_READ] = 1, [SEQUENTIAL_WRITE] = 1}},
	{"virtual machines and databases", 1, 1, {[RANDOM_READ] = 1, [RANDOM_WRITE] = 2}},
	{"scratch data", 0, 0,
		{[SEQUENTIAL_READ] = 1, [SEQUENTIAL_WRITE] = 1, [RANDOM_READ] = 0.5, [RANDOM_WRITE] = 0.5}},
	{"a general file server", 1, 1,
		{[CAPACITY] = 1,
			[SEQUENTIAL_READ] = 1,
			[SEQUENTIAL_WRITE] = 1,
			[RANDOM_READ] = 0.5,
			[RANDOM_WRITE] = 0.5}},
};

struct advisor {
	struct matrix m;
	const struct cell *column[FIGURE_COUNT]; /* the test that stands for a figure, NULL when none is VALID */
	const struct report_style *style;
	FILE *out;
};

static bool cold(const struct cell *c)
{
	return strcmp(c->test, "reread") != 0 && c->verdict == VERDICT_VALID && isfinite(c->mb_per_s) &&
	       c->mb_per_s > 0;
}

static const struct cell *figure_cell(const struct advisor *a, size_t row, enum figure f)
{
	const struct cell *c = a->column[f] ? report__matrix_cell(&a->m, row, a->column[f]) : NULL;

	return c && cold(c) ? c : NULL;
}

static uint64_t usable_of(const struct advisor *a, size_t row)
{
	for (size_t k = 0; k < a->m.test_count; k++) {
		const struct cell *c = report__matrix_cell(&a->m, row, a->m.tests[k]);

		if (c && c->usable_bytes != RESULT_NONE)
			return c->usable_bytes;
	}
	return 0;
}

static unsigned survives(const struct advisor *a, size_t row)
{
	return a->m.rows[row].first->failures_survived;
}

static double figure_value(const struct advisor *a, size_t row, enum figure f)
{
	const struct cell *c;

	if (f == CAPACITY)
		return (double)usable_of(a, row);
	c = figure_cell(a, row, f);
	return c ? c->mb_per_s : 0;
}

static void figure_text(const struct advisor *a, size_t row, enum figure f, struct text *to)
{
	const struct cell *c = f == CAPACITY ? NULL : figure_cell(a, row, f);
	char value[REPORT_TEXT_BYTES], test[REPORT_TEXT_BYTES];

	if (f == CAPACITY)
		text_addf(to, "%s usable", report__space(usable_of(a, row), false, value));
	else if (c && report__in_iops(c))
		text_addf(to, "%s %s IOPS at depth %u", report__test(c->test, test), report__count(c->iops, value),
			c->depth * max_of(c->jobs, 1u));
	else if (c)
		text_addf(to, "%s %s MB/s", report__test(c->test, test), report__rate(c->mb_per_s, value));
}

/* --- leaders ------------------------------------------------------------------------------------------------------ */

static bool ties(const struct advisor *a, size_t row, size_t best, enum figure f)
{
	return row == best || report__tie(figure_cell(a, row, f), figure_cell(a, best, f));
}

static int best_row(const struct advisor *a, enum figure f, unsigned least_survives)
{
	int best = -1;

	for (size_t i = 0; i < a->m.row_count; i++)
		if (survives(a, i) >= least_survives && figure_value(a, i, f) > 0 &&
			(best < 0 || figure_value(a, i, f) > figure_value(a, (size_t)best, f)))
			best = (int)i;
	return best;
}

/* "raid10, write 431.0 MB/s, a tie with raid5 (428.0)" */
static void leaders_text(const struct advisor *a, enum figure f, unsigned least_survives, size_t best, struct text *to)
{
	unsigned tied = 0;
	char value[REPORT_TEXT_BYTES];

	text_addf(to, "%s, ", a->m.rows[best].label);
	figure_text(a, best, f, to);
	for (size_t i = 0; i < a->m.row_count; i++) {
		const struct cell *c = survives(a, i) >= least_survives ? figure_cell(a, i, f) : NULL;

		if (i == best || !c || !ties(a, i, best, f))
			continue;
		text_addf(to, "%s%s (%s)", tied++ ? ", " : ", a tie with ", a->m.rows[i].label,
			report__in_iops(c) ? report__count(c->iops, value) : report__rate(c->mb_per_s, value));
	}
}

static void say_fastest(const struct advisor *a, enum figure f)
{
	int any = best_row(a, f, 0), safe = best_row(a, f, 1);
	bool tied;
	struct text t = {0};

	if (any < 0) {
		report__paragraph(a->style, a->out, 4, "  Fastest %s: no valid cell to judge from.", figures[f].words);
		return;
	}
	if (survives(a, (size_t)any) > 0) {
		leaders_text(a, f, 0, (size_t)any, &t);
	} else {
		text_addf(&t, "%s, ", a->m.rows[any].label);
		figure_text(a, (size_t)any, f, &t);
		text_addf(&t, ", but one failed disk loses all; ");
		tied = safe >= 0 && ties(a, (size_t)safe, (size_t)any, f);
		if (safe < 0)
			text_addf(&t, "none of the layouts with a valid cell survives one");
		else {
			text_addf(&t, "of those that survive one%s%s: ", tied ? ", in a tie with " : "",
				tied ? a->m.rows[any].label : "");
			leaders_text(a, f, 1, (size_t)safe, &t);
		}
	}
	report__paragraph(
		a->style, a->out, 4, "  Fastest %s: %s.", figures[f].words, t.failed ? "(out of memory)" : t.bytes);
	text_release(&t);
}

static void list_rows(const struct advisor *a, const bool *in, struct text *to)
{
	unsigned count = 0;

	for (size_t i = 0; i < a->m.row_count; i++)
		if (in[i])
			text_addf(to, "%s%s", count++ ? ", " : "", a->m.rows[i].label);
	if (count > 1)
		text_addf(to, " (a tie)");
}

static void say_safest(const struct advisor *a, bool *in)
{
	struct text t = {0};
	unsigned most = 0;

	for (size_t i = 0; i < a->m.row_count; i++)
		most = max_of(most, survives(a, i));
	for (size_t i = 0; i < a->m.row_count; i++)
		in[i] = survives(a, i) == most;
	list_rows(a, in, &t);
	if (most == 0)
		report__paragraph(
			a->style, a->out, 4, "  Safest: none of these layouts survives the failure of a disk.");
	else
		report__paragraph(a->style, a->out, 4, "  Safest: %s, any %u disk%s may fail.",
			t.failed ? "(out of memory)" : t.bytes, most, most == 1 ? "" : "s");
	text_release(&t);
}

static void say_capacity(const struct advisor *a, bool *in, unsigned least_survives)
{
	struct text t = {0};
	uint64_t most = 0;
	char decimal[REPORT_TEXT_BYTES], binary[REPORT_TEXT_BYTES];

	for (size_t i = 0; i < a->m.row_count; i++)
		if (survives(a, i) >= least_survives)
			most = max_of(most, usable_of(a, i));
	if (most == 0)
		return;
	for (size_t i = 0; i < a->m.row_count; i++) {
		in[i] = survives(a, i) >= least_survives && usable_of(a, i) == most;
		if (in[i] && least_survives == 0 && survives(a, i) > 0)
			return; /* it was named above */
	}
	list_rows(a, in, &t);
	report__paragraph(a->style, a->out, 4, "  Best capacity%s: %s, %s = %s.",
		least_survives ? " that survives a failure" : " of all, without redundancy",
		t.failed ? "(out of memory)" : t.bytes, report__space(most, false, decimal),
		report__space(most, true, binary));
	text_release(&t);
}

/* --- recommendations ---------------------------------------------------------------------------------------------- */

/* 0 for a row that lacks a VALID cell of something that is weighed. A figure that no row has is left out. */
static double score_of(const struct advisor *a, size_t row, const struct use *use, const double *best)
{
	double sum = 0, weights = 0;

	for (int f = 0; f < FIGURE_COUNT; f++) {
		double value;

		if (use->weights[f] == 0 || best[f] <= 0)
			continue;
		value = figure_value(a, row, (enum figure)f);
		if (value <= 0)
			return 0;
		sum += use->weights[f] * log(value / best[f]);
		weights += use->weights[f];
	}
	return weights > 0 ? exp(sum / weights) : 0;
}

#define WEIGHT_MIN 0.5 /* of all speeds that a use weighs: space and a side of it recommend nothing */

static bool enough_measured(const struct use *use, const double *best)
{
	double all = 0, measured = 0;

	for (int f = 0; f < FIGURE_COUNT; f++) {
		all += f == CAPACITY ? 0 : use->weights[f];
		measured += f == CAPACITY || best[f] <= 0 ? 0 : use->weights[f];
	}
	return measured >= WEIGHT_MIN * all;
}

static bool figure_ties(const struct advisor *a, size_t row, size_t other, enum figure f)
{
	double mine = figure_value(a, row, f), its = figure_value(a, other, f);

	return f == CAPACITY ? fabs(mine - its) <= TIE_SHARE * max_of(mine, its) : ties(a, row, other, f);
}

/* "a tie with raid50", or, of one that has more of this and less of that, "as good on balance is raid50 (usable 1.78
 * times, random write 0.27 times)". */
static void balance_text(
	const struct advisor *a, const struct use *use, const double *best, size_t row, size_t chosen, struct text *to)
{
	unsigned told = 0;
	bool tie = true;

	for (int f = 0; f < FIGURE_COUNT; f++)
		if (use->weights[f] > 0 && best[f] > 0)
			tie &= figure_ties(a, row, chosen, (enum figure)f);
	text_addf(to, "; %s %s", tie ? "a tie with" : "as good on balance is", a->m.rows[row].label);
	for (int f = 0; f < FIGURE_COUNT && !tie; f++)
		if (use->weights[f] > 0 && best[f] > 0 && !figure_ties(a, row, chosen, (enum figure)f))
			text_addf(to, "%s%s %.2f times", told++ ? ", " : " (", figures[f].words,
				figure_value(a, row, (enum figure)f) / figure_value(a, chosen, (enum figure)f));
	text_addf(to, "%s", told ? ")" : "");
}

static unsigned survival_of(const struct advisor *a, const struct use *use)
{
	for (size_t i = 0; i < a->m.row_count; i++)
		if (survives(a, i) >= use->survives_wanted)
			return use->survives_wanted;
	return use->survives;
}

static void say_use(const struct advisor *a, const struct use *use, double *scores)
{
	unsigned least = survival_of(a, use);
	double best[FIGURE_COUNT] = {0};
	struct text t = {0};
	int chosen = -1;

	for (size_t i = 0; i < a->m.row_count; i++)
		for (int f = 0; f < FIGURE_COUNT; f++)
			if (survives(a, i) >= least)
				best[f] = max_of(best[f], figure_value(a, i, (enum figure)f));
	if (!enough_measured(use, best)) {
		report__paragraph(a->style, a->out, 4, "  For %s: too little of what counts was measured.", use->name);
		return;
	}
	for (size_t i = 0; i < a->m.row_count; i++) {
		scores[i] = survives(a, i) >= least ? score_of(a, i, use, best) : 0;
		if (scores[i] > 0 && (chosen < 0 || scores[i] > scores[chosen]))
			chosen = (int)i;
	}
	if (chosen < 0) {
		report__paragraph(a->style, a->out, 4, "  For %s: no layout has valid cells of all that counts%s.",
			use->name, least ? " and survives a failure" : "");
		return;
	}
	for (int f = 0; f < FIGURE_COUNT; f++) {
		if (use->weights[f] == 0 || best[f] <= 0)
			continue;
		text_addf(&t, "%s", t.length ? ", " : "");
		figure_text(a, (size_t)chosen, (enum figure)f, &t);
	}
	if (survives(a, (size_t)chosen))
		text_addf(&t, ", survives any %u", survives(a, (size_t)chosen));
	else
		text_addf(&t, ", survives no failure");
	for (size_t i = 0; i < a->m.row_count; i++)
		if ((int)i != chosen && scores[i] > scores[chosen] * (1 - TIE_SHARE))
			balance_text(a, use, best, i, (size_t)chosen, &t);
	report__paragraph(a->style, a->out, 4, "  For %s take %s: %s.", use->name, a->m.rows[chosen].label,
		t.failed ? "(out of memory)" : t.bytes);
	text_release(&t);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

/* How many rows have a VALID cell of a test; ret_column is its place among the columns. */
static unsigned valid_cells(const struct advisor *a, const char *test, const struct cell **ret_column)
{
	unsigned count = 0;

	for (size_t k = 0; k < a->m.test_count; k++) {
		if (strcmp(a->m.tests[k]->test, test) != 0)
			continue;
		*ret_column = a->m.tests[k];
		for (size_t i = 0; i < a->m.row_count; i++) {
			const struct cell *c = report__matrix_cell(&a->m, i, a->m.tests[k]);

			count += c && cold(c);
		}
		break;
	}
	return count;
}

/* The test that stands for a figure: the first of its list that at least half of the rows have a VALID cell of, else
 * the one that most have. */
static void columns_choose(struct advisor *a)
{
	for (int f = 0; f < FIGURE_COUNT; f++) {
		unsigned most = 0;

		for (unsigned t = 0;
			t < array_count(figures[f].tests) && figures[f].tests[t] && 2 * most < a->m.row_count; t++) {
			const struct cell *column = NULL;
			unsigned count = valid_cells(a, figures[f].tests[t], &column);

			if (count > most) {
				a->column[f] = column;
				most = count;
			}
		}
	}
}

static unsigned valid_rows(const struct result *r, const char *clock)
{
	unsigned count = 0;

	for (size_t i = 0; i < r->cell_count; i++) {
		bool seen = false;

		if (strcmp(r->cells[i].clock, clock) != 0 || !cold(&r->cells[i]))
			continue;
		for (size_t k = 0; k < i; k++)
			seen |= strcmp(r->cells[k].clock, clock) == 0 && cold(&r->cells[k]) &&
				strcmp(r->cells[k].layout, r->cells[i].layout) == 0;
		count += !seen;
	}
	return count;
}

static void say_left_out(const struct advisor *a)
{
	unsigned count = 0;
	struct text t = {0};

	for (int f = SEQUENTIAL_READ; f < FIGURE_COUNT; f++)
		for (size_t i = 0; i < a->m.row_count; i++) {
			const struct cell *c = a->column[f] ? report__matrix_cell(&a->m, i, a->column[f]) : NULL;
			char test[REPORT_TEXT_BYTES];

			if (a->column[f] && (!c || !cold(c)))
				text_addf(&t, "%s%s %s (%s)", count++ ? ", " : "", a->m.rows[i].label,
					report__test(a->column[f]->test, test),
					c ? verdict_names[c->verdict] : "not measured");
		}
	if (count)
		report__paragraph(
			a->style, a->out, 4, "  Left out of the advice: %s.", t.failed ? "(out of memory)" : t.bytes);
	text_release(&t);
}

int report_advice(const struct result *r, const struct report_style *s, FILE *out, struct error *err)
{
	unsigned real = valid_rows(r, "real"), virtual = valid_rows(r, "virtual");
	struct advisor a = {.style = s, .out = out};
	scoped_free double *scores = NULL;
	scoped_free bool *in = NULL;
	int status;

	if (real + virtual == 0) {
		report__paragraph(s, out, 2, "No advice: no cell of a cold test is valid.");
		return report__finish(out, err);
	}
	status = report__matrix_init(&a.m, r, real >= virtual ? "real" : "virtual", err);
	if (status != 0)
		return status;
	scores = calloc(a.m.row_count, sizeof(*scores));
	in = calloc(a.m.row_count, sizeof(*in));
	if (!scores || !in) {
		report__matrix_release(&a.m);
		return error_set(err, ERR_MEMORY, "out of memory while the advice was made");
	}
	columns_choose(&a);
	report__heading(s, out, "Advice, from the valid cells of cold tests on the %s clock",
		real >= virtual ? "real" : "virtual");
	for (int f = SEQUENTIAL_READ; f < FIGURE_COUNT; f++)
		say_fastest(&a, (enum figure)f);
	say_safest(&a, in);
	say_capacity(&a, in, 1);
	say_capacity(&a, in, 0);
	if (a.m.row_count < 2)
		report__paragraph(s, out, 4, "  Only one layout was measured: nothing to choose between.");
	for (size_t i = 0; i < array_count(uses) && a.m.row_count > 1; i++)
		say_use(&a, &uses[i], scores);
	say_left_out(&a);
	report__matrix_release(&a.m);
	return report__finish(out, err);
}
