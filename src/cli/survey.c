#include <locale.h>
#include <libsmartcols.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "survey_cli.h"

enum {
	OPTION_WRITE = 1,
	OPTION_DESTROY,
	OPTION_JSON,
	OPTION_TIME,
	OPTION_MODEL,
	OPTION_CLOCK,
	OPTION_BURN_IN,
	OPTION_SEED
};

static const struct cli_option options[] = {
	{OPTION_WRITE, "write", 0, NULL, "probe writing too: outer rate, flush, 512 and 4096"},
	{OPTION_DESTROY, "destroy", 0, "DISK", "write over what it holds; repeated; or all-named"},
	{OPTION_TIME, "time", 0, "TIME", "for each measurement (2s)"},
	{OPTION_BURN_IN, "burn-in", 0, "TIME", "write, verify, load for so long; resumable"},
	{OPTION_MODEL, "model", 0, "NAME:N", "N memory disks with that model"},
	{OPTION_CLOCK, "clock", 0, "CLOCK", "real, or virtual for memory disks (real)"},
	{OPTION_SEED, "seed", 0, "N", "of places and patterns (1)"},
	{OPTION_JSON, "json", 0, NULL, "the facts as JSON"},
	{0},
};

static const struct cli_help help = {
	.verb = "survey",
	.usage = "[OPTION]… DISK…",
	.text = "Measures every disk alone and all together, and names the slow one, the limit of\n"
		"the bus, and drives that show 512-byte sectors of 4096. Reads only, unless --write\n"
		"or --burn-in is given.",
	.options = options,
	.end = "spindle survey /dev/sd[b-e]\n"
	       "spindle survey --burn-in 8h --destroy /dev/sdb /dev/sdb",
};

struct request {
	struct cli_disks disks;
	struct cli_destroy destroy;
	bool write, json, is_virtual;
	uint64_t each_ns, burn_in_ns, seed;
	struct survey survey;
	bool surveyed;
	struct error *err;
};

static int take_option(struct request *r, int id, const char *value, struct error *err)
{
	switch (id) {
	case CLI_WORD:
		return disk_specs_add(&r->disks.specs, value, err);
	case OPTION_WRITE:
		r->write = true;
		return 0;
	case OPTION_JSON:
		r->json = true;
		return 0;
	case OPTION_DESTROY:
		return cli_destroy_add(&r->destroy, value, err);
	case OPTION_TIME:
		return duration_parse(value, &r->each_ns, err);
	case OPTION_BURN_IN:
		return duration_parse(value, &r->burn_in_ns, err);
	case OPTION_MODEL:
		return disk_specs_add_model(&r->disks.specs, value, 256u << 20, err);
	case OPTION_SEED:
		return number_parse("--seed", value, 0, INT64_MAX, &r->seed, err);
	default:
		if (strcmp(value, "real") != 0 && strcmp(value, "virtual") != 0)
			return error_set(err, ERR_USAGE, "--clock is real or virtual, not '%s'", value);
		r->is_virtual = value[0] == 'v';
		return 0;
	}
}

static int take_words(struct request *r, int argc, char **argv, struct error *err)
{
	struct cli_scan scan;
	const char *value;
	int id, code = 0;

	cli_scan_init(&scan, argc, argv, &help);
	while (!code && (id = cli_scan_next(&scan, &value, err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			return id;
		code = take_option(r, id, value, err);
	}
	if (!code && !r->disks.specs.count)
		return error_set(err, ERR_USAGE, "survey needs disks: spindle survey %s", help.usage);
	if (!code && r->each_ns == 0)
		return error_set(err, ERR_USAGE, "--time must be more than nothing");
	if (!code && r->is_virtual && r->burn_in_ns)
		return error_set(err, ERR_USAGE, "a burn-in takes real time: --clock virtual does not go with it");
	return code;
}

/* --- what it found ------------------------------------------------------------------------------- */

static void set_number(struct libscols_line *line, size_t column, double value, const char *format)
{
	char text[64];

	if (!isfinite(value)) {
		scols_line_set_data(line, column, "-");
		return;
	}
	snprintf(text, sizeof(text), format[0] == '1' ? "%.1f" : "%.0f", value);
	scols_line_set_data(line, column, text);
}

static void remarks_of(const struct survey_disk *d, const struct disk_traits *t, char text[400])
{
	snprintf(text, 400, "%s%s%s%s%s", d->error[0] ? d->error : "", d->slow ? (d->error[0] ? "; SLOW" : "SLOW") : "",
		d->e512 ? (d->error[0] || d->slow ? "; 512e" : "512e") : "",
		t->note[0] && (d->error[0] || d->slow || d->e512) ? "; " : "", t->note);
}

static void print_line(struct libscols_table *table, const struct request *r, size_t index)
{
	struct libscols_line *line = scols_table_new_line(table, NULL);
	const struct survey_disk *d = &r->survey.disks[index];
	const struct disk_traits *t = disk_traits(r->disks.disks[index]);
	char size[SIZE_TEXT_BYTES], remarks[400];

	if (!line)
		return;
	scols_line_set_data(line, 0, t->name);
	scols_line_set_data(line, 1, t->model[0] ? t->model : "-");
	scols_line_set_data(line, 2, size_format_decimal(t->nominal_bytes ? t->nominal_bytes : t->size_bytes, size));
	set_number(line, 3, d->outer_mb_per_s, "0");
	set_number(line, 4, d->inner_mb_per_s, "0");
	set_number(line, 5, d->together_mb_per_s, "0");
	set_number(line, 6, d->random_iops, "0");
	set_number(line, 7, d->random32_iops, "0");
	set_number(line, 8, d->flush_ms, "1");
	set_number(line, 9, d->write_outer_mb_per_s, "0");
	remarks_of(d, t, remarks);
	scols_line_set_data(line, 10, remarks);
}

static void print_sentences(const struct request *r)
{
	const struct survey *s = &r->survey;

	printf("\n");
	if (s->disk_count > 1)
		printf("Alone they add up to %.0f MB/s, together they reach %.0f MB/s", s->sum_alone_mb_per_s,
			s->sum_together_mb_per_s);
	if (s->disk_count == 1)
		; /* nobody to share with */
	else if (s->bus_bound)
		printf(": what they share carries about %.0f MB/s and limits every array of them.\n", s->bus_mb_per_s);
	else
		printf(": nothing that they share limits them.\n");
	for (size_t i = 0; i < s->disk_count; i++) {
		const struct disk_traits *t = disk_traits(r->disks.disks[i]);

		if (s->disks[i].slow)
			printf("%s is slow: %.0f MB/s. An array goes at the pace of its slowest member.\n", t->name,
				s->disks[i].outer_mb_per_s);
		if (s->disks[i].e512)
			printf("%s shows 512-byte sectors and has 4096: writes that are not whole physical sectors "
			       "cost a turn.\n",
				t->name);
	}
}

static int print_table(const struct request *r, struct error *err)
{
	static const char *const heads[] = {"DISK", "MODEL", "SIZE", "OUTER MB/s", "INNER MB/s", "TOGETHER", "IOPS",
		"IOPS 32", "FLUSH ms", "WRITE MB/s", "REMARKS"};
	struct libscols_table *table = scols_new_table();
	bool failed = !table;

	for (size_t i = 0; !failed && i < array_count(heads); i++) {
		struct libscols_column *column =
			scols_table_new_column(table, heads[i], 0, i >= 2 && i < 10 ? SCOLS_FL_RIGHT : 0);

		failed = !column;
		if (column && ((i == 9 && !r->write) || (i == 5 && r->survey.disk_count == 1)))
			scols_column_set_flags(column, SCOLS_FL_HIDDEN);
	}
	for (size_t i = 0; !failed && i < r->survey.disk_count; i++)
		print_line(table, r, i);
	failed = failed || scols_print_table(table) != 0;
	scols_unref_table(table);
	if (failed)
		return error_set(err, ERR_MEMORY, "cannot print the table");
	print_sentences(r);
	return 0;
}

static json_t *disk_json(const struct survey_disk *d, const struct disk_traits *t)
{
	return json_pack("{ss ss ss ss ss sI sI si si sb so so so so so so so so so sb sb ss}", "name", t->name, "spec",
		t->spec, "model", t->model, "serial", t->serial, "note", t->note, "size_bytes",
		(json_int_t)t->size_bytes, "nominal_bytes", (json_int_t)t->nominal_bytes, "logical_bytes",
		(int)t->logical_bytes, "physical_bytes", (int)t->physical_bytes, "rotating", t->rotating,
		"outer_mb_per_s", cli_json_real(d->outer_mb_per_s), "inner_mb_per_s", cli_json_real(d->inner_mb_per_s),
		"together_mb_per_s", cli_json_real(d->together_mb_per_s), "random_iops", cli_json_real(d->random_iops),
		"random32_iops", cli_json_real(d->random32_iops), "flush_ms", cli_json_real(d->flush_ms),
		"write_outer_mb_per_s", cli_json_real(d->write_outer_mb_per_s), "write_512_ms",
		cli_json_real(d->ms_512), "write_4096_ms", cli_json_real(d->ms_4096), "slow", d->slow, "e512", d->e512,
		"error", d->error);
}

static int print_json(const struct request *r, struct error *err)
{
	const struct survey *s = &r->survey;
	json_t *disks = json_array();

	for (size_t i = 0; i < s->disk_count; i++)
		json_array_append_new(disks, disk_json(&s->disks[i], disk_traits(r->disks.disks[i])));
	return cli_json_print(
		json_pack("{si ss ss so so sb so so}", "schema", 1, "version", SPINDLE_VERSION, "command",
			cli_command_line(), "sum_alone_mb_per_s", cli_json_real(s->sum_alone_mb_per_s),
			"sum_together_mb_per_s", cli_json_real(s->sum_together_mb_per_s), "bus_bound", s->bus_bound,
			"bus_mb_per_s", s->bus_bound ? cli_json_real(s->bus_mb_per_s) : json_null(), "disks", disks),
		err);
}

/* --- running ------------------------------------------------------------------------------------- */

static int open_disks(struct request *r, struct error *err)
{
	struct cli_disk_rules rules = {.memory_allowed = true};
	bool writes = r->write || r->burn_in_ns;
	struct disk_open_options o = {.read_only = !writes, .exclusive = writes};
	int code = cli_disks_inspect(&r->disks, &rules, err);

	code = code ? code : cli_destroy_check(&r->destroy, &r->disks, err);
	if (!code && writes)
		code = cli_disks_guard(&r->disks, &r->destroy, err);
	for (size_t i = 0; !code && r->is_virtual && i < r->disks.specs.count; i++)
		if (r->disks.specs.items[i].path)
			code = error_set(err, ERR_USAGE,
				"%s: --clock virtual is for memory disks, real ones take real time",
				r->disks.specs.items[i].path);
	return code ? code : cli_disks_open(&r->disks, &o, err);
}

/* All of it in one world: the disks belong to the one that they were opened in. */
static int run_survey(void *arg)
{
	struct request *r = arg;
	struct survey_options o = {.write = r->write, .seconds_each_ns = r->each_ns};
	struct cli_progress progress;
	struct bench_progress say = {cli_progress_say, &progress};
	int code = open_disks(r, r->err);

	if (!code) {
		cli_progress_begin(&progress, 0);
		cli_progress_phase(&progress, "survey of %zu disk%s", r->disks.count, r->disks.count == 1 ? "" : "s");
		code = survey_run(r->disks.disks, (unsigned)r->disks.count, &o, &say, &r->survey, r->err);
		cli_progress_end(&progress);
		r->surveyed = code == 0;
	}
	if (!code)
		code = r->json ? print_json(r, r->err) : print_table(r, r->err);
	cli_disks_close(&r->disks);
	return code;
}

static int survey_in_world(struct request *r, struct error *err)
{
	struct os_simulation simulation;

	if (!r->is_virtual)
		return run_survey(r);
	os_simulation_init(&simulation, r->seed);
	return os_simulate(&simulation, run_survey, r, err);
}

static int run_burn_in(struct request *r, struct error *err)
{
	struct burn_in_options o = {.duration_ns = r->burn_in_ns, .seed = r->seed, .json = r->json};
	unsigned failed = 0;
	int code = open_disks(r, err);

	code = code ? code : burn_in_run(&r->disks, &o, &failed, err);
	if (!code && failed)
		code = error_set(err, ERR_IO, "%u of %zu disks failed the burn-in", failed, r->disks.count);
	return code;
}

static bool has_failed_disk(const struct survey *s)
{
	for (size_t i = 0; i < s->disk_count; i++)
		if (s->disks[i].error[0])
			return true;
	return false;
}

int command_survey(int argc, char **argv)
{
	struct error err = ERROR_INIT;
	struct request r = {.each_ns = 2000000000u, .seed = 1, .err = &err};
	int code = take_words(&r, argc, argv, &err), status;

	setlocale(LC_CTYPE, "");
	if (code == 0)
		code = r.burn_in_ns ? run_burn_in(&r, &err) : survey_in_world(&r, &err);
	status = code == CLI_HELP ? CLI_DONE : code ? cli_fail(&err) : CLI_DONE;
	if (status == CLI_DONE && r.surveyed && has_failed_disk(&r.survey)) {
		cli_say("not every disk could be measured; the remarks say why");
		status = CLI_FAILED;
	}
	if (r.surveyed)
		survey_release(&r.survey);
	cli_disks_release(&r.disks);
	cli_destroy_release(&r.destroy);
	return status;
}
