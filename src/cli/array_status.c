#include <libsmartcols.h>
#include <stdio.h>
#include <string.h>

#include "array_cli.h"

enum { OPTION_DIRECTORY = 1, OPTION_JSON };

static const struct cli_option options[] = {
	{OPTION_DIRECTORY, "disks", 'd', "DISK", "a member, or a directory that holds them; repeated"},
	{OPTION_JSON, "json", 0, NULL, "all facts and counters as JSON"},
	{0},
};
static const struct cli_help help = {
	.verb = "array status",
	.usage = "[OPTION]… [NAME]",
	.text = "Shows an array, or all that are known or that the disks named with -d hold.\n"
		"Reads only. Status 1 when one cannot be assembled.",
	.options = options,
};

static json_t *member_json(const struct array_member_status *m, unsigned index)
{
	return json_pack("{si ss ss ss sb sI sI sI sI sI sI sb sI}", "index", (int)index, "name", m->name, "id", m->id,
		"state", array_member_state_names[m->state], "present", m->disk != NULL, "rebuilt_bytes",
		(json_int_t)m->rebuilt_bytes, "data_bytes", (json_int_t)m->data_bytes, "read_errors",
		(json_int_t)m->read_errors, "write_errors", (json_int_t)m->write_errors, "repaired_bytes",
		(json_int_t)m->repaired_bytes, "mismatches", (json_int_t)m->mismatches, "slow", m->slow, "latency_ns",
		(json_int_t)m->latency_ns);
}

static json_t *status_json(const struct array_status *s)
{
	const struct array_counters *c = &s->counters;
	json_t *members = json_array(), *json;

	for (unsigned i = 0; i < s->member_count; i++)
		json_array_append_new(members, member_json(&s->members[i], i));
	json = json_pack("{ss ss ss ss sI sI sI si si si ss sb ss so}", "name", s->name, "id", s->id, "layout",
		s->layout_name, "state", array_state_names[s->state], "size_bytes", (json_int_t)s->size_bytes,
		"chunk_bytes", (json_int_t)s->layout.chunk_bytes, "events", (json_int_t)s->events, "disks",
		(int)s->member_count, "failures_survived", (int)layout_failures_survived(&s->layout), "failures_left",
		(int)s->failures_left, "write_hole", s->hole == ARRAY_HOLE_LOG ? "log" : "bitmap", "log_dedicated",
		s->log_dedicated, "log_name", s->log_name, "members", members);
	if (json && layout_has_parity(&s->layout))
		json_object_set_new(json, "rotation", json_string(layout_rotation_names[s->layout.rotation]));
	if (json)
		json_object_set_new(json, "rows",
			json_pack("{sI sI sI sI sI sI}", "never", (json_int_t)c->rows_never, "clean",
				(json_int_t)c->rows_clean, "dirty", (json_int_t)c->rows_dirty, "lost",
				(json_int_t)c->rows_lost, "replayed_records", (json_int_t)c->replayed_records,
				"resynced", (json_int_t)c->resynced_rows));
	return json;
}

static void print_head(const struct array_status *s)
{
	char size[SIZE_TEXT_BYTES], decimal[SIZE_TEXT_BYTES], chunk[SIZE_TEXT_BYTES];

	printf("%s: %s, %s over %u disks, %s (%s), chunk %s", s->name, array_state_names[s->state], s->layout_name,
		s->member_count, size_format_decimal(s->size_bytes, decimal), size_format_binary(s->size_bytes, size),
		size_format_binary(s->layout.chunk_bytes, chunk));
	if (layout_has_parity(&s->layout))
		printf(", %s, write hole: %s%s%s", layout_rotation_names[s->layout.rotation],
			s->hole == ARRAY_HOLE_LOG ? "log" : "bitmap", s->log_dedicated ? " on " : "",
			s->log_dedicated ? s->log_name : "");
	printf("\n%u more disk%s may fail", s->failures_left, s->failures_left == 1 ? "" : "s");
	if (s->counters.rows_lost)
		printf("; %llu rows are lost", (unsigned long long)s->counters.rows_lost);
	if (s->counters.rows_dirty)
		printf("; %llu rows are dirty", (unsigned long long)s->counters.rows_dirty);
	printf("\n");
}

static void print_member(struct libscols_table *table, const struct array_member_status *m, unsigned index)
{
	struct libscols_line *line = scols_table_new_line(table, NULL);
	char text[64];

	if (!line)
		return;
	snprintf(text, sizeof(text), "%u", index);
	scols_line_set_data(line, 0, text);
	scols_line_set_data(line, 1, m->name);
	if (m->state == ARRAY_MEMBER_REBUILDING && m->data_bytes) {
		snprintf(text, sizeof(text), "%s %.0f %%", array_member_state_names[m->state],
			100.0 * (double)m->rebuilt_bytes / (double)m->data_bytes);
		scols_line_set_data(line, 2, text);
	} else {
		snprintf(text, sizeof(text), "%s%s", array_member_state_names[m->state], m->slow ? ", slow" : "");
		scols_line_set_data(line, 2, text);
	}
	snprintf(text, sizeof(text), "%llu", (unsigned long long)m->read_errors);
	scols_line_set_data(line, 3, text);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)m->write_errors);
	scols_line_set_data(line, 4, text);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)m->mismatches);
	scols_line_set_data(line, 5, text);
}

static int print_members(const struct array_status *s, struct error *err)
{
	static const char *const heads[] = {"#", "MEMBER", "STATE", "READ ERR", "WRITE ERR", "MISMATCH"};
	struct libscols_table *table = scols_new_table();
	bool failed = !table;

	for (size_t i = 0; !failed && i < array_count(heads); i++)
		failed = !scols_table_new_column(table, heads[i], 0, i == 1 || i == 2 ? 0 : SCOLS_FL_RIGHT);
	for (unsigned i = 0; !failed && i < s->member_count; i++)
		print_member(table, &s->members[i], i);
	failed = failed || scols_print_table(table) != 0;
	scols_unref_table(table);
	return failed ? error_set(err, ERR_MEMORY, "cannot print the table") : 0;
}

/* One array; on failure the JSON list gets its name and the sentence, so that the others are still shown. */
static int show(const struct array_find *asked, const char *name, json_t *list, struct error *err)
{
	scoped_free struct array_find *find = malloc(sizeof(*find));
	scoped_free struct array_status *status = malloc(sizeof(*status));
	int code;

	if (!find || !status)
		return error_set(err, ERR_MEMORY, "out of memory");
	*find = *asked;
	snprintf(find->name, sizeof(find->name), "%s", name);
	code = array_find_open(find, true, err);
	if (!code) {
		array_status_get(find->array, status);
		if (list)
			json_array_append_new(list, status_json(status));
		else {
			print_head(status);
			code = print_members(status, err);
		}
	}
	code = array_find_close(find, err);
	if (code && list)
		json_array_append_new(
			list, json_pack("{ss ss ss}", "name", name, "state", "failed", "error", err->text));
	return code;
}

static int show_all(const struct array_find *asked, json_t *list)
{
	struct error err = ERROR_INIT;
	char **names;
	size_t count;
	int code = array_find_names(asked, &names, &count, &err), status = CLI_DONE;

	if (code)
		return cli_fail(&err);
	if (!count && !list)
		cli_say(asked->word_count ? "no disk there carries the label of an array"
					  : "no array is known here; -d DIRECTORY looks for some");
	for (size_t i = 0; i < count; i++) {
		error_clear(&err);
		if (i && !list)
			printf("\n");
		if (show(asked, names[i], list, &err)) {
			cli_fail(&err);
			status = CLI_FAILED;
		}
	}
	words_free(names, count);
	return status;
}

int array_verb_status(int argc, char **argv)
{
	scoped_free struct array_find *asked = calloc(1, sizeof(*asked));
	struct error err = ERROR_INIT;
	struct cli_scan scan;
	const char *value;
	json_t *list = NULL;
	bool json = false;
	int id, code = asked ? 0 : error_set(&err, ERR_MEMORY, "out of memory"), status = CLI_DONE;

	cli_scan_init(&scan, argc, argv, &help);
	while (!code && (id = cli_scan_next(&scan, &value, &err)) != 0) {
		if (id == CLI_HELP)
			return CLI_DONE;
		if (id < 0)
			code = id;
		else if (id == OPTION_JSON)
			json = true;
		else if (id == OPTION_DIRECTORY)
			code = array_find_add(asked, value, &err);
		else if (asked->name[0])
			code = error_set(&err, ERR_USAGE, "array status takes one name, but '%s' was given too", value);
		else if (!array_name_is_good(value))
			code = error_set(&err, ERR_USAGE, "'%s' is no name of an array", value);
		else
			snprintf(asked->name, sizeof(asked->name), "%s", value);
	}
	if (code)
		return cli_fail(&err);
	if (json)
		list = json_array();
	if (!asked->name[0])
		status = show_all(asked, list);
	else if (show(asked, asked->name, list, &err))
		status = cli_fail(&err);
	if (json && cli_json_print(json_pack("{si so}", "schema", 1, "arrays", list), &err))
		status = cli_fail(&err);
	return status;
}
