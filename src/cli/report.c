/* report: results of earlier runs again, alone or beside each other. */
#include "report.h"

#include <locale.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "internal.h"

#define RUNS_MAX 16
#define CLI_NOT_COMPARABLE 4

enum {
	OPTION_JSON = 1,
	OPTION_FIO_JSON,
	OPTION_CSV,
	OPTION_MARKDOWN,
	OPTION_BARS,
	OPTION_CLOCK,
	OPTION_RIG,
	OPTION_FORCE
};

static const struct cli_option options[] = {
	{OPTION_JSON, "json", 0, NULL, "as JSON"},
	{OPTION_FIO_JSON, "fio-json", 0, NULL, "in the shape of fio's JSON"},
	{OPTION_CSV, "csv", 0, NULL, "as CSV, one line a cell"},
	{OPTION_MARKDOWN, "markdown", 0, NULL, "the tables as Markdown"},
	{OPTION_BARS, "bars", 0, "TEST", "bars of one test"},
	{OPTION_CLOCK, "clock", 0, "WHICH", "only cells of this clock: virtual or real"},
	{OPTION_RIG, "rig", 0, "NAME", "with what was published for this rig"},
	{OPTION_FORCE, "force", 'f', NULL, "put runs beside each other that do not compare"},
	{0},
};

static const struct cli_help help = {
	.verb = "report",
	.usage = "[OPTION]… RUN…",
	.text = "Prints the result of a run again; two or more runs beside each other. A RUN is the\n"
		"directory of a run, its result.json, or its name below the state directory.",
	.options = options,
	.end = "Exit status: 0 done, 2 no such run, 3 a cell is not valid, 4 the runs do not compare.",
};

struct show {
	const char *names[RUNS_MAX];
	struct result results[RUNS_MAX];
	size_t count, loaded;
	int form; /* OPTION_JSON … of the one that was asked for; 0: the tables */
	const char *bars, *clock, *rig;
	bool force;
};

static int option_take(struct show *s, int id, const char *value, struct error *err)
{
	switch (id) {
	case CLI_WORD:
		if (s->count == RUNS_MAX)
			return error_set(err, ERR_USAGE, "more than %d runs", RUNS_MAX);
		s->names[s->count++] = value;
		return 0;
	case OPTION_BARS:
		s->bars = value;
		return 0;
	case OPTION_CLOCK:
		s->clock = value;
		if (strcmp(value, "virtual") != 0 && strcmp(value, "real") != 0)
			return error_set(err, ERR_USAGE, "--clock is real or virtual, not '%s'", value);
		return 0;
	case OPTION_RIG:
		s->rig = value;
		return 0;
	case OPTION_FORCE:
		s->force = true;
		return 0;
	}
	if (s->form && s->form != id)
		return error_set(err, ERR_USAGE, "--json, --fio-json, --csv and --markdown exclude each other");
	s->form = id;
	return 0;
}

/* That there is a file to read: a FIFO would let the reader wait for ever. */
static int run_check(const char *place, struct error *err)
{
	char inside[CLI_PATH_BYTES + 16];
	struct stat facts;

	if (stat(place, &facts) != 0)
		return error_set(err, ERR_NOT_FOUND, "%s: no such result", place);
	if (S_ISDIR(facts.st_mode)) {
		snprintf(inside, sizeof(inside), "%s/result.json", place);
		if (stat(inside, &facts) != 0)
			return error_set(err, ERR_NOT_FOUND,
				"%s is no directory of a run: there is no result.json in it", place);
	}
	return S_ISREG(facts.st_mode) ? 0 : error_set(err, ERR_USAGE, "%s is no file with a result", place);
}

static int load(struct show *s, struct error *err)
{
	for (size_t i = 0; i < s->count; i++) {
		char path[CLI_PATH_BYTES], below[300];
		const char *place = s->names[i];
		struct stat facts;
		int status;

		if (stat(place, &facts) != 0 && !strchr(place, '/') && strlen(place) < 250) {
			snprintf(below, sizeof(below), "runs/%s", place);
			if (cli_state_dir(below, false, path, NULL) == 0 && stat(path, &facts) == 0)
				place = path;
		}
		status = run_check(place, err);
		if (status == 0)
			status = report_load(place, &s->results[i], err);
		if (status != 0)
			return status;
		s->loaded++;
	}
	return 0;
}

static void lines_say(const char *what, const struct text *lines)
{
	const char *at = lines->bytes;

	while (at && *at) {
		size_t length = strcspn(at, "\n");

		cli_say("%s: %.*s", what, (int)length, at);
		at += length + (at[length] == '\n');
	}
}

/* 0, or the status of runs that do not compare. */
static int comparable(const struct show *s)
{
	bool good = true;

	for (size_t i = 1; i < s->count; i++) {
		struct text reasons = {0}, remarks = {0};

		if (!report_comparable(&s->results[0], &s->results[i], &reasons, &remarks)) {
			lines_say(s->names[i], &reasons);
			good = false;
		}
		lines_say(s->names[i], &remarks);
		text_release(&reasons);
		text_release(&remarks);
	}
	if (good)
		return 0;
	if (s->force)
		cli_say("--force: they stand beside each other all the same");
	else
		cli_say("the runs do not compare with the first one; --force puts them beside each other all the same");
	return s->force ? 0 : CLI_NOT_COMPARABLE;
}

static bool has_clock(const struct result *r, const char *clock)
{
	for (size_t i = 0; i < r->cell_count; i++)
		if (strcmp(r->cells[i].clock, clock) == 0)
			return true;
	return false;
}

static int tables(const struct show *s, const struct report_style *style, struct error *err)
{
	static const char *const clocks[] = {"virtual", "real"};
	const struct result *r = &s->results[0];
	int status = 0;

	for (size_t i = 0; i < array_count(clocks) && status == 0; i++)
		if (has_clock(r, clocks[i]) && (!s->clock || strcmp(s->clock, clocks[i]) == 0)) {
			status = report_table(r, clocks[i], style, stdout, err);
			putchar('\n');
		}
	if (status == 0 && !s->clock && has_clock(r, "virtual") && has_clock(r, "real"))
		status = report_prediction(r, style, stdout, err);
	if (status == 0 && s->rig)
		status = report_published_beside(
			r, has_clock(r, "virtual") ? "virtual" : "real", s->rig, style, stdout, err);
	return status != 0 ? status : report_advice(r, style, stdout, err);
}

static int show_one(const struct show *s, const struct report_style *style, struct error *err)
{
	const struct result *r = &s->results[0];

	switch (s->form) {
	case OPTION_JSON:
		return report_json(r, stdout, err);
	case OPTION_FIO_JSON:
		return report_fio_json(r, stdout, err);
	case OPTION_CSV:
		return report_csv(r, stdout, err);
	case OPTION_MARKDOWN:
		return report_markdown(r, stdout, err);
	}
	if (s->bars)
		return report_bars(r,
			s->clock                  ? s->clock
			: has_clock(r, "virtual") ? "virtual"
						  : "real",
			s->bars, style, stdout, err);
	return tables(s, style, err);
}

/* The last part of a path that says something: "a/b/result.json" and "a/b/" are b. */
static const char *head_of(const char *name, char text[40])
{
	static const char file[] = "/result.json";
	size_t length = strlen(name), start;

	if (length > strlen(file) && strcmp(name + length - strlen(file), file) == 0)
		length -= strlen(file);
	while (length > 1 && name[length - 1] == '/')
		length--;
	for (start = length; start > 0 && name[start - 1] != '/'; start--)
		;
	snprintf(text, 40, "%.*s", (int)min_of(length - start, (size_t)36), name + start);
	return text;
}

static int show_many(const struct show *s, const struct report_style *style, struct error *err)
{
	const struct result *runs[RUNS_MAX];
	const char *heads[RUNS_MAX];
	char store[RUNS_MAX][40];
	int status;

	if (s->form || s->bars)
		return error_set(err, ERR_USAGE,
			"several runs are shown as one table only; give one run for --json, --csv, --markdown or "
			"--bars");
	status = comparable(s);
	if (status != 0)
		return status;
	for (size_t i = 0; i < s->count; i++) {
		runs[i] = &s->results[i];
		heads[i] = head_of(s->names[i], store[i]);
	}
	return report_runs(runs, heads, s->count, style, stdout, err);
}

static int run(struct show *s, int argc, char **argv, struct error *err)
{
	struct report_style style;
	struct cli_scan scan;
	const char *value;
	int id, status = 0;

	cli_scan_init(&scan, argc, argv, &help);
	while (status == 0 && (id = cli_scan_next(&scan, &value, err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			return id;
		status = option_take(s, id, value, err);
	}
	if (status == 0 && s->count == 0)
		status = error_set(err, ERR_USAGE, "report needs a RUN: the directory of one, or its result.json");
	if (status == 0)
		status = load(s, err);
	if (status != 0)
		return status;
	report_style_of(stdout, &style);
	return s->count == 1 ? show_one(s, &style, err) : show_many(s, &style, err);
}

int command_report(int argc, char **argv)
{
	struct show *s = calloc(1, sizeof(*s));
	struct error err = ERROR_INIT;
	int status;

	setlocale(LC_CTYPE, "");
	if (!s) {
		error_set(&err, ERR_MEMORY, "out of memory");
		return cli_fail(&err);
	}
	status = run(s, argc, argv, &err);
	if (status < 0)
		status = cli_fail(&err);
	else if (status == CLI_HELP)
		status = CLI_DONE;
	else if (status == 0 && s->count == 1 && !result_all_valid(&s->results[0])) {
		cli_say("some cells of this run are not valid for comparison, so the exit status is 3");
		status = CLI_NOT_VALID;
	}
	for (size_t i = 0; i < s->loaded; i++)
		result_release(&s->results[i]);
	free(s);
	return status;
}
