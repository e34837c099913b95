#include <libsmartcols.h>
#include <stdio.h>

#include "cli.h"

enum { OPTION_JSON = 1, OPTION_SOURCES };

static const struct cli_option options[] = {
	{OPTION_JSON, "json", 0, NULL, "all that is known of each model, as JSON"},
	{OPTION_SOURCES, "sources", 0, NULL, "what the numbers cite"},
	{0},
};

static const struct cli_help help = {
	.verb = "models",
	.usage = "[--sources] [--json]",
	.text = "Lists the disk models: +model=NAME makes a DISK behave like one, --model NAME:N\n"
		"makes N memory disks that do. Their keys are in spindle-disks(7).",
	.options = options,
};

static int print_json(struct error *err)
{
	json_t *list = json_array();

	for (size_t i = 0; i < disk_model_count(); i++) {
		const struct disk_model_info *m = disk_model_info(i);

		json_array_append_new(list,
			json_pack("{ss ss ss sb sI so so so si so}", "name", m->name, "summary", m->summary, "source",
				m->source, "rotating", m->rotating, "nominal_bytes", (json_int_t)m->nominal_bytes,
				"outer_mb_per_s", cli_json_real(m->outer_mb_per_s), "inner_mb_per_s",
				cli_json_real(m->inner_mb_per_s), "seek_avg_ms", cli_json_real(m->seek_avg_ms), "rpm",
				(int)m->rpm, "random_read_iops", cli_json_real(m->random_read_iops)));
	}
	return cli_json_print(json_pack("{si so}", "schema", 1, "models", list), err);
}

static void print_line(struct libscols_table *table, const struct disk_model_info *m)
{
	struct libscols_line *line = scols_table_new_line(table, NULL);
	char text[64], size[SIZE_TEXT_BYTES];

	if (!line)
		return;
	scols_line_set_data(line, 0, m->name);
	scols_line_set_data(line, 1, size_format_decimal(m->nominal_bytes, size));
	snprintf(text, sizeof(text), "%.0f", m->outer_mb_per_s);
	scols_line_set_data(line, 2, text);
	snprintf(text, sizeof(text), "%.0f", m->inner_mb_per_s);
	scols_line_set_data(line, 3, text);
	if (m->rotating) {
		snprintf(text, sizeof(text), "%.1f", m->seek_avg_ms);
		scols_line_set_data(line, 4, text);
		snprintf(text, sizeof(text), "%u", m->rpm);
		scols_line_set_data(line, 5, text);
	} else {
		snprintf(text, sizeof(text), "%.0f", m->random_read_iops);
		scols_line_set_data(line, 6, text);
	}
	scols_line_set_data(line, 7, m->summary);
}

static int print_table(struct error *err)
{
	static const char *const heads[] = {
		"MODEL", "SIZE", "OUTER MB/s", "INNER MB/s", "SEEK ms", "RPM", "READ IOPS", "WHAT IT IS"};
	struct libscols_table *table = scols_new_table();
	bool failed = !table;

	for (size_t i = 0; !failed && i < array_count(heads); i++)
		failed = !scols_table_new_column(table, heads[i], 0,
			i > 0 && i < 7 ? SCOLS_FL_RIGHT
			: i == 7       ? SCOLS_FL_TRUNC
				       : 0);
	for (size_t i = 0; !failed && i < disk_model_count(); i++)
		print_line(table, disk_model_info(i));
	failed = failed || scols_print_table(table) != 0;
	scols_unref_table(table);
	return failed ? error_set(err, ERR_MEMORY, "cannot print the table") : 0;
}

static void print_sources(void)
{
	for (size_t i = 0; i < disk_model_count(); i++)
		printf("%s\n    %s\n", disk_model_info(i)->name, disk_model_info(i)->source);
}

int command_models(int argc, char **argv)
{
	struct error err = ERROR_INIT;
	struct cli_scan scan;
	const char *value;
	bool json = false, sources = false;
	int id;

	cli_scan_init(&scan, argc, argv, &help);
	while ((id = cli_scan_next(&scan, &value, &err)) > 0) {
		if (id == CLI_HELP)
			return CLI_DONE;
		if (id == CLI_WORD) {
			error_set(&err, ERR_USAGE, "models takes no words, but '%s' was given", value);
			return cli_fail(&err);
		}
		json |= id == OPTION_JSON;
		sources |= id == OPTION_SOURCES;
	}
	if (id < 0)
		return cli_fail(&err);
	if (sources && !json) {
		print_sources();
		return CLI_DONE;
	}
	return (json ? print_json(&err) : print_table(&err)) ? cli_fail(&err) : CLI_DONE;
}
