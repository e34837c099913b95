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
int report_bars(const struct result *r, const char *clock, const char *test, const struct report_style *s, FILE *out, struct error *err);
/* Real beside virtual, with the difference. */
int report_prediction(const struct result *r, const struct report_style *s, FILE *out, struct error *err);
int report_cells(const struct result *r, const struct report_style *s, FILE *out, struct error *err); /* one line a cell, for `bench` */
int report_advice(const struct result *r, const struct report_style *s, FILE *out, struct error *err);
/* The rows published for a rig (data/published), beside ours; rows that such disks cannot do are marked. */
int report_published(const char *rig, const struct report_style *s, FILE *out, struct error *err);
/* Reads report_json's document back. */
int report_load(const char *path, struct result *ret, struct error *err);

#endif
