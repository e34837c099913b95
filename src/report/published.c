/*
 * published: the figures that others published for a rig (data/published), beside ours, each held against what the
 * disks of that rig can do.
 *
 * The ceiling of a figure is disks × the rig's highest disk rate, less what the layout's redundancy costs: with n
 * disks a mirror writes n/2 disks' worth, single parity n−1, double parity n−2, per group. Example: VxVM's striped
 * mirror on eight disks of 50 to 60 MB/s writes 304 MB/s where four pairs can write 8/2 × 60 = 240.
 * The rig's rates are published as round numbers, so 5 % above the ceiling is let pass.
 */
#include <ctype.h>
#include <string.h>

#include "internal.h"

enum results_column {
	P_RIG,
	P_DISKS,
	P_STACK,
	P_LAYOUT,
	P_COMPRESSION,
	P_TEST,
	P_SIZE,
	P_FIRST_VALUE,
	P_INIT = 15,
	P_NOTE,
	P_COLUMNS
};
enum rigs_column {
	R_PRESET,
	R_RIG,
	R_SOURCE,
	R_YEAR,
	R_CPU,
	R_RAM,
	R_DISKS,
	R_TYPE,
	R_RPM,
	R_LOW,
	R_HIGH,
	R_CONTROLLER,
	R_OS,
	R_REMARK,
	R_COLUMNS
};
#define VALUE_COLUMNS (P_INIT - P_FIRST_VALUE)

extern const char *const report__published_results[][P_COLUMNS];
extern const size_t report__published_results_rows;
extern const char *const report__published_rigs[][R_COLUMNS];
extern const size_t report__published_rigs_rows;

static const struct {
	const char *head, *test; /* the test of ours that it compares with; NULL: none */
	bool write, random;
} values[VALUE_COLUMNS] = {{"dd write", NULL, true, false}, {"dd read", NULL, false, false},
	{"write", "write", true, false}, {"rewrite", "rewrite", true, false}, {"read", "read", false, false},
	{"reread", "reread", false, false}, {"rand read", "randread", false, true},
	{"rand write", "randwrite", true, true}};

static double number_or_nan(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	return end == text ? NAN : value;
}

static unsigned groups_of(const char *layout)
{
	for (const char *x = strchr(layout, 'x'); x; x = strchr(x + 1, 'x'))
		if (isdigit((unsigned char)x[1]) && (x == layout || x[-1] == ' '))
			return (unsigned)strtoul(x + 1, NULL, 10);
	return 1;
}

/* What share of the disks carries user data, in words and as a number. */
static double ceiling_disks(const char *const *row, bool write, char *words, size_t bytes)
{
	const char *layout = row[P_LAYOUT];
	unsigned n = (unsigned)strtoul(row[P_DISKS], NULL, 10), groups = groups_of(layout);
	bool mirror = strstr(layout, "mirror") || strstr(layout, "raid10") || strstr(layout, "RAID1") ||
		      strstr(row[P_STACK], "RAID10");
	unsigned parity = strstr(layout, "raidz2")
				  ? 2
				  : strstr(layout, "raidz") || strstr(layout, "raid5") || strstr(row[P_STACK], "RAID5");

	if (write && mirror) {
		snprintf(words, bytes, "%u/2", n);
		return n / 2.0;
	}
	if (parity && n > parity * groups && write) {
		snprintf(words, bytes, "(%u-%u)", n, parity * groups);
		return n - parity * groups;
	}
	snprintf(words, bytes, "%u", n);
	return n;
}

struct verdicts {
	struct verdict_note notes[RESULT_NOTES_MAX + 1];
	unsigned count;
};

static void __attribute__((format(printf, 3, 4)))
verdict_add(struct verdicts *v, enum verdict verdict, const char *format, ...)
{
	va_list list;

	if (v->count == array_count(v->notes))
		return;
	v->notes[v->count].verdict = verdict;
	va_start(list, format);
	vsnprintf(v->notes[v->count++].reason, sizeof(v->notes[0].reason), format, list);
	va_end(list);
}

static bool above_ceiling(const char *const *row, const char *const *rig, unsigned column, char *words, size_t bytes)
{
	double value = number_or_nan(row[P_FIRST_VALUE + column]), disk = number_or_nan(rig[R_HIGH]), disks;
	char share[32];

	disks = ceiling_disks(row, values[column].write, share, sizeof(share));
	if (!isfinite(value) || !isfinite(disk) || value <= disks * disk * (1 + TIE_SHARE))
		return false;
	if (strcmp(share, "1") == 0)
		snprintf(words, bytes, "%s: %s > one disk of %s MB/s", values[column].head, row[P_FIRST_VALUE + column],
			rig[R_HIGH]);
	else
		snprintf(words, bytes, "%s: %s > %s x %s = %.0f MB/s", values[column].head, row[P_FIRST_VALUE + column],
			share, rig[R_HIGH], disks * disk);
	return true;
}

static void judge(const char *const *row, const char *const *rig, struct verdicts *v)
{
	double size = number_or_nan(row[P_SIZE]), memory = number_or_nan(rig[R_RAM]);
	char all[160] = "";

	v->count = 0;
	for (unsigned i = 0; i < VALUE_COLUMNS; i++) {
		char words[96];
		size_t length = strlen(all);

		if (above_ceiling(row, rig, i, words, sizeof(words)))
			snprintf(all + length, sizeof(all) - length, "%s%s", length ? "; " : "", words);
	}
	if (*all)
		verdict_add(v, VERDICT_IMPOSSIBLE, "%s", all);
	if (isfinite(size) && isfinite(memory) && size < memory)
		verdict_add(v, VERDICT_CACHED,
			"the file of %s GB is smaller than the RAM of %s GB: reads come from memory", row[P_SIZE],
			rig[R_RAM]);
	if (strcmp(row[P_COMPRESSION], "on") == 0 && strstr(row[P_TEST], "zero"))
		verdict_add(v, VERDICT_DATA_REDUCED,
			"the input is all zeros and compression is on: hardly a byte reaches the disks");
	if (strstr(row[P_NOTE], "CPU bound"))
		verdict_add(v, VERDICT_CPU_BOUND, "published as bound by the CPU");
	if (strstr(row[P_NOTE], "unstable"))
		verdict_add(v, VERDICT_UNSTABLE, "published as unstable");
}

/* --- the table ------------------------------------------------------------------------------------------------- */

static const char *const *rig_find(const char *preset)
{
	for (size_t i = 0; i < report__published_rigs_rows; i++)
		if (strcmp(report__published_rigs[i][R_PRESET], preset) == 0)
			return report__published_rigs[i];
	return NULL;
}

/* Layouts that compare with each other stand together, under the name of the family: the first whose word leads. */
static const char *family_of(const char *layout)
{
	static const char *const pairs[][2] = {{"striped mirror", "raid10"}, {"stripe", "stripe"}, {"raid0", "stripe"},
		{"mirror", "raid10"}, {"raid10", "raid10"}, {"raid50", "raid50"}, {"raid5x", "raid50"},
		{"raid5", "raid5"}, {"raidz2", "raid6"}, {"raidz(", "raid50"}, {"raidz", "raid5"}, {"raid6", "raid6"},
		{"RAID1", "raid10"}, {"single", "single"}};

	for (size_t i = 0; i < array_count(pairs); i++)
		if (strncmp(layout, pairs[i][0], strlen(pairs[i][0])) == 0)
			return pairs[i][1];
	return "other";
}

#define WIDE_COLUMNS 120 /* from here on verdicts and notes have columns of their own */

static void columns_add(struct grid *g, bool wide)
{
	report__grid_column(g, false, false, "stack");
	report__grid_column(g, false, false, "layout");
	report__grid_column(g, true, false, "GB");
	for (unsigned i = 0; i < VALUE_COLUMNS; i++)
		report__grid_column(g, true, false, "%s", values[i].head);
	if (wide) {
		report__grid_column(g, false, false, "verdict");
		report__grid_column(g, false, true, "note");
	}
}

struct marked { /* rows with a verdict, in the order in which they were printed */
	const char *const *rows[64];
	unsigned count;
};

static void row_published(struct grid *g, const char *const *row, const char *const *rig, struct marked *marked)
{
	struct verdicts v;
	unsigned at = report__grid_row(g);
	char words[96], mark[16] = "";

	if (g->failed)
		return;
	judge(row, rig, &v);
	if (v.count && marked->count < array_count(marked->rows)) {
		marked->rows[marked->count++] = row;
		snprintf(mark, sizeof(mark), " [%u]", marked->count);
	}
	report__grid_set(g, at, 0, TONE_PLAIN, "%s", row[P_STACK]);
	report__grid_set(g, at, 1, *mark ? TONE_BAD : TONE_PLAIN, "%s%s%s", row[P_LAYOUT],
		strcmp(row[P_COMPRESSION], "on") == 0 ? ", compressed" : "", mark);
	report__grid_set(g, at, 2, TONE_PLAIN, "%s", row[P_SIZE]);
	for (unsigned i = 0; i < VALUE_COLUMNS; i++) {
		const char *value = row[P_FIRST_VALUE + i];

		if (*value)
			report__grid_set(g, at, 3 + i,
				above_ceiling(row, rig, i, words, sizeof(words)) ? TONE_BAD : TONE_PLAIN, "%s", value);
	}
	if (g->column_count == 3 + VALUE_COLUMNS)
		return;
	if (v.count)
		report__grid_set(g, at, 3 + VALUE_COLUMNS, TONE_BAD, "%s%s", verdict_names[v.notes[0].verdict], mark);
	report__grid_set(g, at, 4 + VALUE_COLUMNS, TONE_DIM, "%s", row[P_NOTE]);
}

static void row_ours(struct grid *g, const struct result *r, const char *clock, const char *layout)
{
	char text[REPORT_TEXT_BYTES];
	unsigned at = report__grid_row(g);

	if (g->failed)
		return;
	report__grid_set(g, at, 0, TONE_BEST, "> Spindle");
	report__grid_set(g, at, 1, TONE_BEST, "%s, %s", layout, clock);
	for (unsigned i = 0; i < VALUE_COLUMNS; i++) {
		const struct cell *c = values[i].test ? result_find(r, "array", layout, values[i].test, clock) : NULL;

		if (!c || !report__has_value(c))
			continue;
		report__grid_set(g, at, 3 + i, c->verdict == VERDICT_VALID ? TONE_BEST : TONE_BAD, "%s%s",
			report__rate(c->mb_per_s, text), c->verdict == VERDICT_VALID ? "" : "*");
	}
}

/* A row for each of our layouts of the family, at its first cell. */
static void rows_ours(struct grid *g, const struct result *r, const char *clock, const char *family)
{
	for (size_t i = 0; r && i < r->cell_count; i++) {
		const struct cell *c = &r->cells[i];
		bool seen = false;

		if (strcmp(c->stack, "array") != 0 || strcmp(c->clock, clock) != 0 ||
			strcmp(family_of(c->layout), family) != 0)
			continue;
		for (size_t k = 0; k < i; k++)
			seen |= strcmp(r->cells[k].clock, clock) == 0 && strcmp(r->cells[k].layout, c->layout) == 0;
		if (!seen)
			row_ours(g, r, clock, c->layout);
	}
}

static void list_marks(const struct marked *marked, const char *const *rig, const struct report_style *s, FILE *out)
{
	for (unsigned i = 0; i < marked->count; i++) {
		const char *const *row = marked->rows[i];
		struct verdicts v;

		judge(row, rig, &v);
		for (unsigned k = 0; k < v.count; k++)
			report__paragraph(s, out, 4, "  [%u] %s %s, %s%s%s: %s: %s", i + 1, row[P_STACK], row[P_LAYOUT],
				row[P_TEST], *row[P_NOTE] ? ", " : "", row[P_NOTE], verdict_names[v.notes[k].verdict],
				v.notes[k].reason);
	}
}

int report_published_beside(const struct result *r, const char *clock, const char *rig_preset,
	const struct report_style *s, FILE *out, struct error *err)
{
	static const char *const families[] = {"single", "stripe", "raid10", "raid5", "raid50", "raid6", "other"};
	const char *const *rig = rig_find(rig_preset);
	struct marked marked = {.count = 0};
	unsigned published = 0;
	struct grid g;
	int status;

	if (!rig)
		return error_set(
			err, ERR_NOT_FOUND, "no rig \"%s\" among the published ones: %s", rig_preset, report_rigs());
	report__grid_init(&g, 2, "Published figures, MB/s: %s %s, %s, %s GB RAM (%s)", rig[R_DISKS], rig[R_TYPE],
		rig[R_CPU], rig[R_RAM], rig[R_YEAR]);
	columns_add(&g, s->columns >= WIDE_COLUMNS);
	for (size_t f = 0; f < array_count(families); f++) {
		for (size_t i = 0; i < report__published_results_rows; i++) {
			const char *const *row = report__published_results[i];

			if (strcmp(row[P_RIG], rig[R_RIG]) != 0 || strcmp(family_of(row[P_LAYOUT]), families[f]) != 0)
				continue;
			row_published(&g, row, rig, &marked);
			published++;
		}
		if (published)
			rows_ours(&g, r, clock, families[f]);
	}
	status = published == 0 ? 0 : report__grid_print(&g, s, out, err);
	if (published == 0)
		report__paragraph(s, out, 2, "The account of the rig %s has no figures in its text.", rig_preset);
	report__grid_release(&g);
	if (status == 0 && marked.count) {
		fputc('\n', out);
		report__heading(s, out, "What cannot be taken as it stands");
		list_marks(&marked, rig, s, out);
	}
	if (*rig[R_REMARK])
		report__paragraph(s, out, 2, "The rig: %s; %s.", rig[R_OS], rig[R_REMARK]);
	return status != 0 ? status : report__finish(out, err);
}

int report_published(const char *rig, const struct report_style *s, FILE *out, struct error *err)
{
	return report_published_beside(NULL, "virtual", rig, s, out, err);
}

const char *report_rigs(void)
{
	static const char *const separator = ", ";
	static char text[256];
	size_t length = 0;

	for (size_t i = 0; i < report__published_rigs_rows && length < sizeof(text); i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s", i ? separator : "",
			report__published_rigs[i][R_PRESET]);
	return text;
}
