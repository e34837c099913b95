/* runs: several results beside each other, and whether their figures may be held against each other at all. */
#include <string.h>

#include "internal.h"

static bool has_clock(const struct result *r, const char *clock)
{
	for (size_t i = 0; i < r->cell_count; i++)
		if (strcmp(r->cells[i].clock, clock) == 0)
			return true;
	return false;
}

/* The same cell but for the disks' names: those are compared as disks. */
static const struct cell *cell_like(const struct result *r, const struct cell *like)
{
	for (const struct cell *c = r->cells; c < r->cells + r->cell_count; c++) {
		struct cell key = *c;

		snprintf(key.disks, sizeof(key.disks), "%s", like->disks);
		key.fill = like->fill;
		if (cell_same_key(&key, like))
			return c;
	}
	return NULL;
}

static void compare_text(struct text *to, const char *what, const char *a, const char *b)
{
	if (strcmp(a, b) != 0)
		text_addf(to, "%s differs: \"%s\" and \"%s\"\n", what, a, b);
}

static void compare_disks(struct text *to, const struct result *a, const struct result *b)
{
	if (a->disk_count != b->disk_count) {
		text_addf(to, "the number of disks differs: %zu and %zu\n", a->disk_count, b->disk_count);
		return;
	}
	for (size_t i = 0; i < a->disk_count; i++) {
		const struct result_disk *x = &a->disks[i], *y = &b->disks[i];

		if (strcmp(x->model, y->model) != 0 || x->size_bytes != y->size_bytes || x->modelled != y->modelled) {
			text_addf(to, "disk %zu differs: \"%s\" of %llu bytes and \"%s\" of %llu bytes\n", i, x->model,
				(unsigned long long)x->size_bytes, y->model, (unsigned long long)y->size_bytes);
			return;
		}
	}
}

bool report_comparable(
	const struct result *a, const struct result *b, struct text *ret_reasons, struct text *ret_remarks)
{
	size_t before = ret_reasons->length;
	unsigned common = 0;

	compare_text(ret_reasons, "the version of the program", a->version, b->version);
	compare_disks(ret_reasons, a, b);
	if (has_clock(a, "real") && has_clock(b, "real")) {
		compare_text(ret_reasons, "the CPU", a->host.cpu, b->host.cpu);
		compare_text(ret_reasons, "the kernel", a->host.kernel, b->host.kernel);
		if (a->host.cpus != b->host.cpus)
			text_addf(ret_reasons, "the number of CPUs differs: %u and %u\n", a->host.cpus, b->host.cpus);
	}
	if (has_clock(a, "virtual") && has_clock(b, "virtual"))
		compare_text(ret_reasons, "the CPU charged", a->host.cpu_charge, b->host.cpu_charge);
	for (size_t i = 0; i < a->cell_count; i++)
		common += cell_like(b, &a->cells[i]) != NULL;
	if (common == 0)
		text_addf(ret_reasons, "no cell of one has its like in the other (same layout, test, block, depth, "
				       "payload and clock)\n");
	else if (common < a->cell_count || common < b->cell_count)
		text_addf(ret_remarks, "%u cells are in both, %zu in the first, %zu in the other\n", common,
			a->cell_count, b->cell_count);
	if (a->seed != b->seed)
		text_addf(ret_remarks, "the seeds differ: %llu and %llu\n", (unsigned long long)a->seed,
			(unsigned long long)b->seed);
	if (a->interrupted || b->interrupted)
		text_addf(ret_remarks, "a run was interrupted\n");
	return ret_reasons->length == before && !ret_reasons->failed;
}

static void run_cell(struct grid *g, unsigned row, unsigned column, const struct cell *first, const struct cell *c)
{
	char text[REPORT_TEXT_BYTES];

	if (!c)
		return;
	if (!report__has_value(c))
		report__grid_set(g, row, column, TONE_BAD, "%s ", verdict_names[c->verdict]);
	else
		report__grid_set(g, row, column, c->verdict == VERDICT_VALID ? TONE_PLAIN : TONE_BAD, "%s%c",
			report__rate(c->mb_per_s, text), c->verdict == VERDICT_VALID ? ' ' : '*');
	if (c == first || !report__has_value(c) || !report__has_value(first) || first->mb_per_s <= 0)
		return;
	if (report__tie(first, c))
		report__grid_set(
			g, row, column + 1, TONE_DIM, "%+.1f%% tie", 100 * (c->mb_per_s / first->mb_per_s - 1));
	else
		report__grid_set(
			g, row, column + 1, TONE_PLAIN, "%+.1f%%    ", 100 * (c->mb_per_s / first->mb_per_s - 1));
}

int report_runs(const struct result *const *runs, const char *const *names, size_t count, const struct report_style *s,
	FILE *out, struct error *err)
{
	struct grid g;
	int status;

	if (count < 2 || count > 16)
		return error_set(err, ERR_USAGE, "2 to 16 results stand beside each other, not %zu", count);
	report__grid_init(&g, 3, "Runs beside each other, MB/s; %% is against the first");
	report__grid_column(&g, false, false, "layout");
	report__grid_column(&g, false, false, "test");
	report__grid_column(&g, false, false, "clock");
	for (size_t i = 0; i < count; i++) {
		report__grid_column(&g, true, false, "%s ", names[i]);
		if (i)
			report__grid_column(&g, true, true, "%%    ");
	}
	for (size_t i = 0; i < runs[0]->cell_count; i++) {
		const struct cell *first = &runs[0]->cells[i];
		unsigned row = report__grid_row(&g);
		char test[REPORT_TEXT_BYTES];

		if (g.failed)
			break;
		report__grid_set(&g, row, 0, TONE_PLAIN, "%s", first->layout);
		report__grid_set(&g, row, 1, TONE_PLAIN, "%s", report__test(first->test, test));
		report__grid_set(&g, row, 2, TONE_PLAIN, "%s", first->clock);
		run_cell(&g, row, 3, first, first);
		for (size_t k = 1; k < count; k++)
			run_cell(&g, row, (unsigned)(2 + 2 * k), first, cell_like(runs[k], first));
	}
	status = report__grid_print(&g, s, out, err);
	report__grid_release(&g);
	if (status == 0)
		report__paragraph(s, out, 2,
			"* is not valid for comparison; a tie lies within the intervals, or within 5 %% of one phase.");
	return status != 0 ? status : report__finish(out, err);
}
