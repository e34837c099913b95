/*
 * report: how a result is told.
 *
 * The problem. One result has several readers: a person at a terminal of 80 or 160 columns, a page in Markdown, a
 * spreadsheet, a program. All must see the same figures, each with its verdict, and nobody may be led to compare
 * numbers that do not compare.
 *
 * The idea. A result is turned into a *matrix* (rows: layouts with what tells them apart; columns: tests), the matrix
 * into *grids* (a title with the one unit of the table, columns, cells of text), and a grid is written by libsmartcols
 * for terminals or as Markdown. CSV and JSON come straight from the cells, by one list of fields (fields.c) that the
 * writer, the reader and the CSV header share.
 *
 *   result ── matrix.c ── tables.c ── grid.c ── terminal | Markdown
 *      └──── fields.c ──── json.c, load.c, csv.c, fio.c
 *      └──── advice.c, published.c, compare.c (several results)
 *
 * Invariants
 *   REPORT-1  one unit a table, named in its title; MB is 10^6 bytes, MiB is 2^20, and they are never mixed
 *   REPORT-2  a figure whose verdict is not VALID carries a mark, and the list below says verdict and reason
 *   REPORT-3  advice reads VALID cells of cold tests only, and calls a tie a tie
 *   REPORT-4  what was not measured is an empty field, a dash or null, never 0 and never NaN
 *   REPORT-5  a table is cut into parts before a number would be cut
 */
#include <langinfo.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "internal.h"

void report_style_of(FILE *out, struct report_style *ret)
{
	const char *columns = getenv("COLUMNS");
	const char *no_colour = getenv("NO_COLOR");
	int fd = fileno(out);
	bool terminal = fd >= 0 && isatty(fd);
	struct winsize size = {0};
	uint64_t width;

	ret->columns = 80;
	if (columns && number_parse("COLUMNS", columns, 20, 1000, &width, NULL) == 0)
		ret->columns = (unsigned)width;
	else if (terminal && ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
		ret->columns = size.ws_col;
	else if (!terminal)
		ret->columns = 120;
	ret->colour = terminal && !(no_colour && *no_colour);
	ret->unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

int report__finish(FILE *out, struct error *err)
{
	if (fflush(out) != 0 || ferror(out))
		return error_set(err, ERR_IO, "the report could not be written in full");
	return 0;
}

/* --- numbers in words ---------------------------------------------------------------------------------------- */

char *report__rate(double mb_per_s, char text[REPORT_TEXT_BYTES])
{
	if (!isfinite(mb_per_s))
		snprintf(text, REPORT_TEXT_BYTES, "-");
	else if (mb_per_s < 10)
		snprintf(text, REPORT_TEXT_BYTES, "%.2f", mb_per_s);
	else if (mb_per_s < 9999.5)
		snprintf(text, REPORT_TEXT_BYTES, "%.1f", mb_per_s);
	else
		snprintf(text, REPORT_TEXT_BYTES, "%.0f", mb_per_s);
	return text;
}

char *report__count(double value, char text[REPORT_TEXT_BYTES])
{
	if (!isfinite(value))
		snprintf(text, REPORT_TEXT_BYTES, "-");
	else if (value < 9.95)
		snprintf(text, REPORT_TEXT_BYTES, "%.1f", value);
	else if (value < 99999.5)
		snprintf(text, REPORT_TEXT_BYTES, "%.0f", value);
	else if (value < 999950)
		snprintf(text, REPORT_TEXT_BYTES, "%.1fk", value / 1e3);
	else
		snprintf(text, REPORT_TEXT_BYTES, "%.2fM", value / 1e6);
	return text;
}

char *report__percent(double share, char text[REPORT_TEXT_BYTES])
{
	if (!isfinite(share))
		snprintf(text, REPORT_TEXT_BYTES, "-");
	else
		snprintf(text, REPORT_TEXT_BYTES, "%.0f%%", share * 100);
	return text;
}

char *report__space(uint64_t bytes, bool binary, char text[REPORT_TEXT_BYTES])
{
	bool small = bytes < SPACE_SMALL_BYTES;
	double unit = binary ? (small ? 1073741824.0 : 1099511627776.0) : small ? 1e9 : 1e12;

	snprintf(text, REPORT_TEXT_BYTES, "%.*f %s%s", !small && bytes < 10 * SPACE_SMALL_BYTES ? 3 : 2,
		(double)bytes / unit, small ? "G" : "T", binary ? "iB" : "B");
	return text;
}

char *report__block(uint64_t bytes, char text[REPORT_TEXT_BYTES])
{
	char size[SIZE_TEXT_BYTES];

	snprintf(text, REPORT_TEXT_BYTES, "%s", size_format_binary(bytes, size));
	return text;
}

char *report__test(const char *test, char text[REPORT_TEXT_BYTES])
{
	static const char *const names[][2] = {
		{"randread", "rand read"}, {"randwrite", "rand write"}, {"randrw", "rand mixed"}};
	const char *dash = strchr(test, '-');
	size_t stem = dash ? (size_t)(dash - test) : strlen(test);

	for (size_t i = 0; i < array_count(names); i++) {
		if (strlen(names[i][0]) != stem || strncmp(test, names[i][0], stem) != 0)
			continue;
		snprintf(text, REPORT_TEXT_BYTES, "%s%s%s", dash ? dash + 1 : "", dash ? " " : "", names[i][1]);
		return text;
	}
	snprintf(text, REPORT_TEXT_BYTES, "%s", test);
	return text;
}

/* --- what a cell is --------------------------------------------------------------------------------------------- */

bool report__is_random(const struct cell *c)
{
	return strstr(c->test, "rand") != NULL || strstr(c->test, "seek") != NULL;
}

bool report__is_read(const struct cell *c)
{
	return strstr(c->test, "read") != NULL && strstr(c->test, "write") == NULL;
}

bool report__is_write(const struct cell *c)
{
	return strstr(c->test, "write") != NULL && strstr(c->test, "read") == NULL;
}

bool report__in_iops(const struct cell *c)
{
	return report__is_random(c) && c->block_bytes > 0 && c->block_bytes <= IOPS_BLOCK_MAX;
}

bool report__has_value(const struct cell *c)
{
	return c->verdict != VERDICT_FAILED && c->verdict != VERDICT_SKIPPED && isfinite(c->mb_per_s);
}

bool report__over_link(const struct result *r, const struct cell *c)
{
	return isfinite(r->link_mb_per_s) && report__has_value(c) && c->mb_per_s > r->link_mb_per_s;
}

unsigned report__disk_count(const struct cell *c)
{
	unsigned long count = strtoul(c->disks, NULL, 10);

	return count > 1000000 ? 0 : (unsigned)count;
}

static double half_width(const struct cell *c)
{
	if (!isfinite(c->interval[0]) || !isfinite(c->interval[1]) || c->sample_count < 2)
		return NAN;
	return (c->interval[1] - c->interval[0]) / 2;
}

/* The windows of one phase tell how steady that phase was, not how the next one would differ: such cells are told
 * apart from 5 % on. Repeated ones by the interval of their difference. */
bool report__tie(const struct cell *a, const struct cell *b)
{
	double difference = fabs(a->mb_per_s - b->mb_per_s);
	double ha = half_width(a), hb = half_width(b);
	bool one_phase = strstr(a->options, "one phase") || strstr(b->options, "one phase") || isnan(ha) || isnan(hb);

	if (one_phase && difference < TIE_SHARE * max_of(a->mb_per_s, b->mb_per_s))
		return true;
	return isfinite(ha) && isfinite(hb) && difference <= sqrt(ha * ha + hb * hb);
}
