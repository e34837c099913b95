/* markdown: the tables of a result for a page. */
#include <string.h>

#include "internal.h"

static void line_of_text(const char *text, FILE *out)
{
	for (; *text; text++) {
		if (strchr("|\\*_`<>#", *text))
			fputc('\\', out);
		fputc((unsigned char)*text < 0x20 ? ' ' : *text, out);
	}
}

static int print_grid(struct grid *g, FILE *out, struct error *err)
{
	int status = report__grid_markdown(g, out, err);

	report__grid_release(g);
	return status;
}

static void list_not_valid(const struct matrix *m, FILE *out)
{
	unsigned bad = 0;

	for (size_t i = 0; i < m->row_count; i++)
		for (size_t k = 0; k < m->test_count; k++) {
			const struct cell *c = report__matrix_cell(m, i, m->tests[k]);
			char test[REPORT_TEXT_BYTES];

			if (!c || c->verdict == VERDICT_VALID)
				continue;
			if (bad++ == 0)
				fputs("Not valid for comparison:\n\n", out);
			fputs("- ", out);
			line_of_text(m->rows[i].label, out);
			fprintf(out, ", %s: **%s**: ", report__test(c->test, test), verdict_names[c->verdict]);
			line_of_text(c->note_count ? c->notes[0].reason : "no reason kept", out);
			fputc('\n', out);
		}
	if (bad)
		fputc('\n', out);
}

static int clock_print(const struct result *r, const char *clock, FILE *out, struct error *err)
{
	struct test_group groups[16];
	struct matrix m;
	struct grid g;
	char title[300];
	size_t count;
	int status = report__matrix_init(&m, r, clock, err);

	if (status != 0 || m.row_count == 0) {
		if (status == 0)
			report__matrix_release(&m);
		return status;
	}
	report__title(&m, title, sizeof(title));
	fputs("## ", out);
	line_of_text(title, out);
	fputs("\n\n", out);
	count = report__groups(&m, groups, array_count(groups));
	for (size_t i = 0; i < count && status == 0; i++) {
		report__grid_tests(&g, &m, &groups[i], DETAIL_ALL);
		status = print_grid(&g, out, err);
	}
	if (status == 0) {
		report__grid_space(&g, &m);
		status = print_grid(&g, out, err);
	}
	if (status == 0)
		list_not_valid(&m, out);
	report__matrix_release(&m);
	return status;
}

int report_markdown(const struct result *r, FILE *out, struct error *err)
{
	static const char *const clocks[] = {"virtual", "real"};
	int status = 0;

	fputs("# Storage comparison\n\n", out);
	if (*r->command) {
		fputs("Command: ", out);
		line_of_text(r->command, out);
		fprintf(out, "  \nVersion %s, seed %llu, started %s\n\n", r->version, (unsigned long long)r->seed,
			r->started);
	}
	for (size_t i = 0; i < array_count(clocks) && status == 0; i++)
		status = clock_print(r, clocks[i], out, err);
	for (size_t i = 0; i < r->skip_count; i++) {
		fputs(i ? "- " : "Layouts that do not fit these disks:\n\n- ", out);
		line_of_text(r->skips[i].layout, out);
		fputs(": ", out);
		line_of_text(r->skips[i].reason, out);
		fputc('\n', out);
	}
	return status != 0 ? status : report__finish(out, err);
}
