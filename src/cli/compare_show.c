/* compare_show: the result on stdout, in the run's directory, and the plan of a dry run. */
#include "compare.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has_clock(const struct compare *c, const char *clock)
{
	for (size_t i = 0; i < c->result.cell_count; i++)
		if (strcmp(c->result.cells[i].clock, clock) == 0)
			return true;
	return false;
}

static bool has_test(const struct compare *c, const char *clock, const char *test)
{
	for (size_t i = 0; i < c->result.cell_count; i++)
		if (strcmp(c->result.cells[i].clock, clock) == 0 && strcmp(c->result.cells[i].test, test) == 0)
			return true;
	return false;
}

/* Which of the clocks has the full set of layouts. */
static const char *main_clock(const struct compare *c)
{
	return has_clock(c, "virtual") ? "virtual" : "real";
}

static int tables_print(const struct compare *c, const struct report_style *s, FILE *out, struct error *err)
{
	static const char *const clocks[] = {"virtual", "real"}, *const bars[] = {"write", "read"};
	int status = 0;

	for (size_t i = 0; i < array_count(clocks) && status == 0; i++) {
		if (!has_clock(c, clocks[i]))
			continue;
		status = report_table(&c->result, clocks[i], s, out, err);
		fputc('\n', out);
	}
	for (size_t i = 0; i < array_count(bars) && status == 0; i++)
		if (has_test(c, main_clock(c), bars[i])) {
			status = report_bars(&c->result, main_clock(c), bars[i], s, out, err);
			fputc('\n', out);
		}
	if (status == 0 && has_clock(c, "virtual") && has_clock(c, "real")) {
		status = report_prediction(&c->result, s, out, err);
		fputc('\n', out);
	}
	if (status == 0 && c->rig) {
		status = report_published_beside(&c->result, main_clock(c), c->rig, s, out, err);
		fputc('\n', out);
	}
	if (status == 0)
		status = report_advice(&c->result, s, out, err);
	return status;
}

int compare_show(const struct compare *c, struct error *err)
{
	struct report_style style;
	int status;

	if (c->json)
		return report_json(&c->result, stdout, err);
	if (c->fio_json)
		return report_fio_json(&c->result, stdout, err);
	if (c->csv)
		return report_csv(&c->result, stdout, err);
	if (c->markdown)
		return report_markdown(&c->result, stdout, err);
	report_style_of(stdout, &style);
	status = tables_print(c, &style, stdout, err);
	if (status == 0 && c->run_dir[0])
		printf("\nThe result: %s/result.json\n", c->run_dir);
	return status;
}

/* --- the run's directory ------------------------------------------------------------------------------------------ */

static int file_save(const struct compare *c, const char *name,
	int (*print)(const struct compare *c, FILE *out, struct error *err), struct error *err)
{
	char path[CLI_PATH_BYTES + 32], *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	int status = out ? print(c, out, err) : ERR_MEMORY;

	if (out && fclose(out) != 0 && status == 0)
		status = ERR_MEMORY;
	snprintf(path, sizeof(path), "%s/%s", c->run_dir, name);
	if (status == 0)
		status = cli_file_write(path, text, bytes, err);
	free(text);
	return status == ERR_MEMORY ? error_set(err, status, "out of memory while %s was made", name) : status;
}

static int result_print(const struct compare *c, FILE *out, struct error *err)
{
	return report_json(&c->result, out, err);
}

static int summary_print(const struct compare *c, FILE *out, struct error *err)
{
	const struct report_style style = {.columns = 80};

	fprintf(out, "%s\nSpindle %s, started %s\n\n", c->result.command, c->result.version, c->result.started);
	return tables_print(c, &style, out, err);
}

int compare_save(struct compare *c, struct error *err)
{
	char below[64];
	int status = 0;

	if (c->out_dir) {
		if (strlen(c->out_dir) >= sizeof(c->run_dir))
			return error_set(
				err, ERR_USAGE, "the path of --out is longer than %d bytes", CLI_PATH_BYTES - 1);
		snprintf(c->run_dir, sizeof(c->run_dir), "%s", c->out_dir);
		if (mkdir(c->run_dir, 0755) != 0 && errno != EEXIST) {
			status = error_set(err, error_from_errno(errno), "cannot make the directory %s: %s", c->run_dir,
				strerror(errno));
			c->run_dir[0] = 0;
		}
	} else {
		snprintf(below, sizeof(below), "runs/%s", c->result.id);
		status = cli_state_dir(below, true, c->run_dir, err);
	}
	if (status == 0)
		status = file_save(c, "result.json", result_print, err);
	if (status == 0)
		status = file_save(c, "summary.txt", summary_print, err);
	if (status != 0) {
		if (!c->out_dir && c->run_dir[0])
			rmdir(c->run_dir); /* while nothing is in it */
		c->run_dir[0] = 0;
	} else if (c->json || c->csv || c->markdown || c->fio_json)
		cli_say("the result is kept in %s", c->run_dir);
	return status;
}

/* --- a dry run ---------------------------------------------------------------------------------------------------- */

static void clock_plan(const struct compare *c, bool virtual, FILE *out)
{
	struct workload *list = NULL;
	size_t count = 0;
	char scaled[200];

	if (compare_tests_make(c, c->disk_count, c->span_bytes * c->disk_count, virtual, &list, &count, scaled, NULL) !=
		0)
		return;
	fprintf(out, "On the %s clock:\n", virtual ? "virtual" : "real");
	fprintf(out, "  measure the limit of each test on all disks side by side\n");
	for (unsigned i = 0; i < c->layout_count; i++) {
		if (!virtual && !compare_on_real(c, &c->layouts[i]))
			continue;
		fprintf(out, "  make %s%s of %u disk%s, then run:", c->layouts[i].is_pool ? "the pool " : "",
			c->layouts[i].name, compare_disks_of(c, c->layouts[i].name),
			compare_disks_of(c, c->layouts[i].name) == 1 ? "" : "s");
		for (size_t k = 0; k < count; k++)
			fprintf(out, "%s %s", k ? "," : "", list[k].test);
		fputc('\n', out);
	}
	free(list);
}

void compare_plan_print(const struct compare *c, FILE *out)
{
	char span[SIZE_TEXT_BYTES], span_decimal[SIZE_TEXT_BYTES], eta[SIZE_TEXT_BYTES];

	fprintf(out, "%u disk%s:\n", c->disk_count, c->disk_count == 1 ? "" : "s");
	for (unsigned i = 0; i < c->disk_count; i++) {
		if (!c->disks.specs.items[i].path)
			fprintf(out, "  %s\n", c->disks.specs.items[i].text);
	}
	compare_disks_show(c, out);
	fprintf(out, "Of each disk %s (%s) are used.\n", size_format_binary(c->span_bytes, span),
		size_format_decimal(c->span_bytes, span_decimal));
	for (size_t i = 0; i < c->result.skip_count; i++)
		fprintf(out, "Left out: %s: %s\n", c->result.skips[i].layout, c->result.skips[i].reason);
	if (c->clock_virtual)
		clock_plan(c, true, out);
	if (c->clock_real)
		clock_plan(c, false, out);
	fprintf(out, "It would take about %s. Nothing was written.\n", duration_format(compare_estimate_ns(c), eta));
}
