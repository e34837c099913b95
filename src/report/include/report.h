/*
 * report: a result as table, bars, Markdown, CSV, JSON, and the advice. May use base, result, jansson, libsmartcols.
 */
#ifndef REPORT_H
#define REPORT_H

#include <stdio.h>

#include "result.h"

struct report_style {
	unsigned columns; /* width of the terminal */
	bool colour, unicode;
};
void report_style_of(FILE *out, struct report_style *ret); /* isatty, TIOCGWINSZ, COLUMNS, NO_COLOR, locale */

int report_json(const struct result *r, FILE *out, struct error *err);
int report_fio_json(const struct result *r, FILE *out, struct error *err);
int report_csv(const struct result *r, FILE *out, struct error *err);
int report_markdown(const struct result *r, FILE *out, struct error *err);
/* The main table: layouts × tests in MB/s with marks for verdicts, then capacity, then what was not valid and why. */
int report_table(const struct result *r, const char *clock, const struct report_style *s, FILE *out, struct error *err);
int report_bars(const struct result *r, const char *clock, const char *test, const struct report_style *s, FILE *out,
	struct error *err);
/* Real beside virtual, with the difference. */
int report_prediction(const struct result *r, const struct report_style *s, FILE *out, struct error *err);
int report_cells(const struct result *r, const struct report_style *s, FILE *out,
	struct error *err); /* one line a cell, for `bench` */
int report_advice(const struct result *r, const struct report_style *s, FILE *out, struct error *err);
/* The rows published for a rig (data/published), beside ours; rows that such disks cannot do are marked. */
int report_published(const char *rig, const struct report_style *s, FILE *out, struct error *err);
/* The same with our rows of that clock among those that they compare with; r may be NULL. */
int report_published_beside(const struct result *r, const char *clock, const char *rig, const struct report_style *s,
	FILE *out, struct error *err);
const char *report_rigs(void); /* the names of the rigs, for help and refusals; a static text */

/* Several results beside each other, one column each, and how far they lie from the first. */
int report_runs(const struct result *const *runs, const char *const *names, size_t count, const struct report_style *s,
	FILE *out, struct error *err);
/* Whether the figures of two results may be held against each other: the reasons against it, one a line, are added to
 * `ret_reasons`, and what differs but does not forbid it to `ret_remarks`. */
bool report_comparable(
	const struct result *a, const struct result *b, struct text *ret_reasons, struct text *ret_remarks);

/* Reads report_json's document back; `path` may be the directory of a run, which holds result.json. */
int report_load(const char *path, struct result *ret, struct error *err);

#endif
