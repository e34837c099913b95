/* list and get: what there is, as zpool and zfs print it. */
#include <stdio.h>
#include <string.h>

#include "pool_cli.h"

enum {
	OPTION_DISKS = 1,
	OPTION_TYPE,
	OPTION_SCRIPTED,
	OPTION_EXACT,
	OPTION_COLUMNS,
	OPTION_JSON,
	OPTION_RECURSIVE,
	OPTION_SOURCE
};

static const struct cli_option list_options[] = {
	{OPTION_DISKS, "disks", 'd', "DISK", "a member, or a directory that holds them; repeated"},
	{OPTION_TYPE, "type", 't', "TYPE", "pool, filesystem, volume, snapshot or all; commas between"},
	{OPTION_SCRIPTED, "scripted", 'H', NULL, "tabs, no heads"},
	{OPTION_EXACT, "parsable", 'p', NULL, "exact bytes"},
	{OPTION_COLUMNS, "columns", 'o', "LIST", "which columns; commas between"},
	{OPTION_RECURSIVE, "recursive", 'r', NULL, "what is below the name too"},
	{OPTION_JSON, "json", 'j', NULL, "as JSON"},
	{0},
};
static const struct cli_help list_help = {
	.verb = "list",
	.usage = "[OPTION]… [POOL[/DATASET]]…",
	.text = "Lists pools; with -t, -r or a name with a slash, datasets. Without names all known pools.",
	.options = list_options,
	.end = "Columns of pools: name size alloc free avail pinned reserve cap health.\n"
	       "Columns of datasets: any property of 'spindle get all'.",
};

#define NAMES_MAX 64

struct request {
	struct pool_use asked;
	const char *names[NAMES_MAX];
	unsigned name_count;
	const char *columns;
	bool scripted, exact, json, recursive;
	bool pools, filesystems, volumes, snapshots;
	/* while it runs */
	struct pool_table table;
	const char *heads[16];
	unsigned head_count;
	json_t *list;
	struct pool *pool;
	const char *path; /* the name asked for, or the pool's */
	struct error *err;
	char column_text[256];
};

static int take_types(struct request *r, const char *types, struct error *err)
{
	static const char *const words[] = {"pool", "filesystem", "fs", "volume", "vol", "snapshot", "snap", "all"};

	while (*types) {
		size_t length = strcspn(types, ",");
		unsigned i = 0;

		while (i < array_count(words) && (strlen(words[i]) != length || strncmp(words[i], types, length) != 0))
			i++;
		if (i == array_count(words))
			return error_set(err, ERR_USAGE,
				"-t takes pool, filesystem, volume, snapshot or all, not '%.*s'", (int)length, types);
		r->pools |= i == 0;
		r->filesystems |= i == 1 || i == 2 || i == 7;
		r->volumes |= i == 3 || i == 4 || i == 7;
		r->snapshots |= i == 5 || i == 6 || i == 7;
		types += length + (types[length] == ',');
	}
	if (r->pools && (r->filesystems || r->volumes || r->snapshots))
		return error_set(err, ERR_USAGE, "-t pool and datasets do not go into one table");
	return 0;
}

static int take_words(struct request *r, int argc, char **argv, struct error *err)
{
	struct cli_scan scan;
	const char *value;
	int id, code = 0;

	cli_scan_init(&scan, argc, argv, &list_help);
	while (!code && (id = cli_scan_next(&scan, &value, err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			return id;
		switch (id) {
		case OPTION_DISKS:
			code = pool_use_word(&r->asked, value, err);
			break;
		case OPTION_TYPE:
			code = take_types(r, value, err);
			break;
		case OPTION_SCRIPTED:
			r->scripted = true;
			break;
		case OPTION_EXACT:
			r->exact = true;
			break;
		case OPTION_COLUMNS:
			r->columns = value;
			break;
		case OPTION_RECURSIVE:
			r->recursive = true;
			break;
		case OPTION_JSON:
			r->json = true;
			break;
		default:
			if (r->name_count == NAMES_MAX)
				return error_set(err, ERR_USAGE, "list takes at most %d names", NAMES_MAX);
			r->names[r->name_count++] = value;
			if (strpbrk(value, "/@") && !r->pools && !r->volumes && !r->snapshots)
				r->filesystems = r->volumes = r->snapshots = true;
		}
	}
	if (!code && r->recursive && !r->pools && !r->filesystems && !r->volumes && !r->snapshots)
		r->filesystems = r->volumes = true;
	if (!code && !r->filesystems && !r->volumes && !r->snapshots)
		r->pools = true;
	return code;
}

static int columns_make(struct request *r, struct error *err)
{
	const char *names = r->columns ? r->columns
			    : r->pools ? "name,size,alloc,free,avail,pinned,cap,health"
				       : "name,used,avail,refer,type";

	if (snprintf(r->column_text, sizeof(r->column_text), "%s", names) >= (int)sizeof(r->column_text))
		return error_set(err, ERR_USAGE, "-o names too many columns");
	for (char *save = NULL, *word = strtok_r(r->column_text, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		char *head;

		if (r->head_count == array_count(r->heads))
			return error_set(err, ERR_USAGE, "-o takes at most %zu columns", array_count(r->heads));
		r->heads[r->head_count] = word;
		head = strdup(word);
		if (!head)
			return error_set(err, ERR_MEMORY, "out of memory");
		for (char *c = head; *c; c++)
			*c = *c >= 'a' && *c <= 'z' ? (char)(*c - 32) : *c;
		r->table.heads[r->head_count] = head;
		r->table.right[r->head_count] =
			strcmp(word, "name") != 0 && strcmp(word, "health") != 0 && strcmp(word, "type") != 0;
		r->head_count++;
	}
	if (!r->head_count)
		return error_set(err, ERR_USAGE, "-o names no column");
	r->table.columns = r->head_count;
	r->table.scripted = r->scripted;
	r->table.exact = r->exact;
	return 0;
}

static const char *state_name(const struct pool_status *s)
{
	return s->state == POOL_ONLINE ? "ONLINE" : s->state == POOL_DEGRADED ? "DEGRADED" : "SUSPENDED";
}

/* One cell of a pool's row; false when there is no such column. */
static bool pool_cell(const struct pool_status *s, const char *column, bool exact, char text[300])
{
	uint64_t full = s->space.used_bytes + s->space.available_bytes, bytes;

	if (strcmp(column, "name") == 0) {
		snprintf(text, 300, "%s", s->name);
		return true;
	}
	if (strcmp(column, "health") == 0) {
		snprintf(text, 300, "%s", state_name(s));
		return true;
	}
	if (strcmp(column, "id") == 0 || strcmp(column, "guid") == 0) {
		snprintf(text, 300, "%s", s->id);
		return true;
	}
	if (strcmp(column, "cap") == 0 || strcmp(column, "capacity") == 0) {
		snprintf(text, 300, "%.0f%%", full ? 100.0 * (double)s->space.used_bytes / (double)full : 0.0);
		return true;
	}
	if (strcmp(column, "size") == 0)
		bytes = s->space.size_bytes;
	else if (strcmp(column, "alloc") == 0 || strcmp(column, "allocated") == 0 || strcmp(column, "used") == 0)
		bytes = s->space.used_bytes;
	else if (strcmp(column, "free") == 0)
		bytes = s->space.available_bytes + s->space.reserve_bytes;
	else if (strcmp(column, "avail") == 0 || strcmp(column, "available") == 0)
		bytes = s->space.available_bytes;
	else if (strcmp(column, "pinned") == 0)
		bytes = s->space.pinned_bytes;
	else if (strcmp(column, "reserve") == 0)
		bytes = s->space.reserve_bytes;
	else
		return false;
	pool_size_text(bytes, exact, text);
	return true;
}

static int put_row(struct request *r,
	bool (*cell)(const struct request *r, const void *of, const char *column, char text[300]), const void *of,
	struct error *err)
{
	json_t *object = r->json ? json_object() : NULL;
	int code = r->json ? 0 : pool_table_row(&r->table, err);

	for (unsigned i = 0; !code && i < r->head_count; i++) {
		char text[300];

		if (!cell(r, of, r->heads[i], text))
			code = error_set(
				err, ERR_USAGE, "there is no column '%s'; see 'spindle list --help'", r->heads[i]);
		else if (object)
			json_object_set_new(object, r->heads[i], json_string(text));
		else
			pool_table_set(&r->table, i, "%s", text);
	}
	if (object && !code)
		json_array_append_new(r->list, object);
	else
		json_decref(object);
	return code;
}

static bool pool_row_cell(const struct request *r, const void *of, const char *column, char text[300])
{
	return pool_cell(of, column, r->exact || r->json, text);
}

static bool dataset_row_cell(const struct request *r, const void *of, const char *column, char text[300])
{
	static const char *const types[] = {"filesystem", "volume", "snapshot"};
	const struct dataset_info *d = of;
	bool exact = r->exact || r->json;
	char value[256], source[300];

	if (strcmp(column, "name") == 0)
		snprintf(text, 300, "%.299s", d->path);
	else if (strcmp(column, "type") == 0)
		snprintf(text, 300, "%s", types[d->type]);
	else if (strcmp(column, "used") == 0)
		pool_size_text(d->used, exact, text);
	else if (strcmp(column, "refer") == 0 || strcmp(column, "referenced") == 0)
		pool_size_text(d->referenced, exact, text);
	else if (strcmp(column, "avail") == 0 || strcmp(column, "available") == 0) {
		if (d->type == DATASET_SNAPSHOT)
			snprintf(text, 300, "-");
		else
			pool_size_text(d->available, exact, text);
	} else if (strcmp(column, "volsize") == 0) {
		if (d->type == DATASET_VOLUME)
			pool_size_text(d->volume_bytes, exact, text);
		else
			snprintf(text, 300, "-");
	} else {
		if (pool_property_get(r->pool, d->path, column, value, source, NULL) != 0)
			return false;
		snprintf(text, 300, "%s", value);
	}
	return true;
}

static bool below(const char *path, const char *asked, bool recursive)
{
	size_t length = strlen(asked);

	if (strcmp(path, asked) == 0)
		return true;
	return recursive && strncmp(path, asked, length) == 0 && (path[length] == '/' || path[length] == '@');
}

static bool dataset_row(void *arg, const struct dataset_info *d)
{
	struct request *r = arg;
	bool wanted = (d->type == DATASET_FILESYSTEM && r->filesystems) || (d->type == DATASET_VOLUME && r->volumes) ||
		      (d->type == DATASET_SNAPSHOT && r->snapshots);

	/* A pool's name alone stands for all in it, as a name that was not given does. */
	if (!wanted || (strpbrk(r->path, "/@") && !below(d->path, r->path, r->recursive)))
		return true;
	return put_row(r, dataset_row_cell, d, r->err) == 0;
}

static int one(struct request *r, const char *path)
{
	scoped_free struct pool_use *u = malloc(sizeof(*u));
	scoped_free struct pool_status *status = malloc(sizeof(*status));
	struct error err = ERROR_INIT;
	int code = u && status ? 0 : error_set(&err, ERR_MEMORY, "out of memory");

	if (!u)
		return cli_fail(&err);
	*u = (struct pool_use){0};
	code = code ? code : pool_use_look(u, &r->asked, path, &err);
	r->err = &err;
	r->path = path;
	r->pool = u->pool;
	if (!code && r->pools) {
		pool_status_get(u->pool, status);
		code = put_row(r, pool_row_cell, status, &err);
	} else if (!code) {
		code = pool_dataset_list(u->pool, strpbrk(path, "/@") ? path : NULL, dataset_row, r, &err);
		code = code ? code : err.code;
	}
	return pool_use_end(u, code, &err);
}

int command_list(int argc, char **argv)
{
	scoped_free struct request *r = calloc(1, sizeof(*r));
	struct error err = ERROR_INIT;
	char **known = NULL;
	size_t known_count = 0;
	int status = CLI_DONE,
	    code = r ? take_words(r, argc, argv, &err) : error_set(&err, ERR_MEMORY, "out of memory");

	if (code == CLI_HELP)
		return CLI_DONE;
	if (!r)
		return cli_fail(&err);
	code = code ? code : columns_make(r, &err);
	r->list = r->json ? json_array() : NULL;
	if (!code && !r->name_count)
		code = pool_names_known(&known, &known_count, &err);
	for (unsigned i = 0; !code && i < r->name_count; i++) {
		int ended = one(r, r->names[i]);

		status = max_of(status, ended);
	}
	for (size_t i = 0; !code && i < known_count; i++) {
		int ended = one(r, known[i]);

		status = max_of(status, ended);
	}
	if (!code && !r->name_count && !known_count && !r->json)
		cli_say("no pools are known here; 'spindle import' looks for some");
	if (!code && r->json)
		code = cli_json_print(
			json_pack("{si so}", "schema", 1, r->pools ? "pools" : "datasets", r->list), &err);
	else if (!code && r->table.row_count)
		code = pool_table_print(&r->table, &err);
	for (unsigned i = 0; i < r->head_count; i++)
		free((char *)r->table.heads[i]);
	pool_table_release(&r->table);
	words_free(known, known_count);
	return code ? cli_fail(&err) : status;
}

/* --- get --------------------------------------------------------------------------------------------------- */

static const struct cli_option get_options[] = {
	{OPTION_DISKS, "disks", 'd', "DISK", "a member, or a directory that holds them; repeated"},
	{OPTION_SCRIPTED, "scripted", 'H', NULL, "tabs, no heads"},
	{OPTION_EXACT, "parsable", 'p', NULL, "exact bytes (as always here)"},
	{OPTION_COLUMNS, "columns", 'o', "LIST", "of name,property,value,source"},
	{OPTION_JSON, "json", 'j', NULL, "as JSON"},
	{0},
};
static const struct cli_help get_help = {
	.verb = "get",
	.usage = "[OPTION]… all|NAME[,NAME]… POOL[/DATASET]",
	.text = "Prints properties, each with where its value comes from.",
	.options = get_options,
};

static int get_one(struct pool *p, const char *path, const char *name, struct pool_table *t, const char *columns,
	json_t *json, struct error *err)
{
	char value[256], source[300];
	unsigned column = 0;
	int code = pool_property_get(p, path, name, value, source, err);

	if (!code && json)
		json_object_set_new(json, name, json_pack("{ss ss}", "value", value, "source", source));
	if (code || json)
		return code;
	code = pool_table_row(t, err);
	for (const char *c = columns; !code && *c; c += strcspn(c, ",") + (c[strcspn(c, ",")] == ','))
		pool_table_set(t, column++, "%s",
			strncmp(c, "name", 4) == 0       ? path
			: strncmp(c, "property", 8) == 0 ? name
			: strncmp(c, "value", 5) == 0    ? value
							 : source);
	return code;
}

static int get_heads(const char *columns, struct pool_table *t, struct error *err)
{
	static const char *const words[] = {"name", "property", "value", "source"};
	static const char *const heads[] = {"NAME", "PROPERTY", "VALUE", "SOURCE"};

	for (const char *c = columns; *c;) {
		size_t length = strcspn(c, ",");
		unsigned i = 0;

		while (i < 4 && (strlen(words[i]) != length || strncmp(words[i], c, length) != 0))
			i++;
		if (i == 4 || t->columns == 4)
			return error_set(
				err, ERR_USAGE, "-o takes name, property, value and source, not '%s'", columns);
		t->heads[t->columns++] = heads[i];
		c += length + (c[length] == ',');
	}
	return t->columns ? 0 : error_set(err, ERR_USAGE, "-o names no column");
}

int command_get(int argc, char **argv)
{
	scoped_free struct pool_use *u = calloc(1, sizeof(*u));
	struct pool_table table = {0};
	struct error err = ERROR_INIT;
	struct cli_scan scan;
	const char *value, *names = NULL, *path = NULL, *columns = "name,property,value,source";
	json_t *json = NULL;
	int id, code = u ? 0 : error_set(&err, ERR_MEMORY, "out of memory");

	if (!u)
		return cli_fail(&err);
	u->read_only = true;
	cli_scan_init(&scan, argc, argv, &get_help);
	while (!code && (id = cli_scan_next(&scan, &value, &err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			code = id;
		else if (id == OPTION_DISKS)
			code = pool_use_word(u, value, &err);
		else if (id == OPTION_SCRIPTED)
			table.scripted = true;
		else if (id == OPTION_COLUMNS)
			columns = value;
		else if (id == OPTION_JSON)
			json = json ? json : json_object();
		else if (id == CLI_WORD && !names)
			names = value;
		else if (id == CLI_WORD && !path)
			code = pool_use_path(u, path = value, &err);
		else if (id == CLI_WORD)
			code = error_set(
				&err, ERR_USAGE, "get takes properties and one name, but '%s' was given too", value);
	}
	if (!code && !path)
		code = error_set(&err, ERR_USAGE, "get needs properties and a name: spindle get %s", get_help.usage);
	code = code ? code : get_heads(columns, &table, &err);
	code = code ? code : pool_use_open(u, &err);
	if (!code && strcmp(names, "all") == 0) {
		for (unsigned i = 0; !code && pool_property_name(i); i++)
			code = get_one(u->pool, path, pool_property_name(i), &table, columns, json, &err);
	} else {
		while (!code && *names) {
			char name[64];
			size_t length = strcspn(names, ",");

			snprintf(name, sizeof(name), "%.*s", (int)min_of(length, sizeof(name) - 1), names);
			code = get_one(u->pool, path, name, &table, columns, json, &err);
			names += length + (names[length] == ',');
		}
	}
	if (!code)
		code = json ? cli_json_print(
				      json_pack("{si ss sO}", "schema", 1, "name", path, "properties", json), &err)
			    : pool_table_print(&table, &err);
	json_decref(json);
	pool_table_release(&table);
	return pool_use_end(u, code, &err);
}
