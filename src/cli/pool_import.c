/* import: which pools there are on the disks, and taking one over. */
#include <stdio.h>
#include <string.h>

#include "pool_cli.h"

enum { OPTION_DISKS = 1, OPTION_PROPERTY, OPTION_REWIND, OPTION_FORCE, OPTION_JSON };

static const struct cli_option options[] = {
	{OPTION_DISKS, "disks", 'd', "DISK", "a disk, a file, or a directory to scan (/dev); repeated"},
	{OPTION_PROPERTY, "property", 'o', "NAME=VALUE", "readonly=on: nothing is written"},
	{OPTION_REWIND, "rewind", 'F', "COUNT", "go back so many checkpoints; what came later is lost"},
	{OPTION_FORCE, "force", 'f', NULL, "last used by another host: do not wait for a sign of life"},
	{OPTION_JSON, "json", 'j', NULL, "the list as JSON"},
	{0},
};
static const struct cli_help help = {
	.verb = "import",
	.usage = "[OPTION]… [POOL|ID]",
	.text = "Without a name: lists the pools that disks carry labels of. With one: opens it, finishes\n"
		"what a crash left, and remembers where its disks are.",
	.options = options,
};

static int list(const struct pool_use *u, bool as_json, struct error *err)
{
	struct pool_found *found = NULL;
	size_t count = 0;
	json_t *json = as_json ? json_array() : NULL;
	int code = pool_find_all(u, &found, &count, err);

	for (size_t i = 0; !code && i < count; i++) {
		const struct pool_label_facts *f = &found[i].facts;
		const char *owner = f->exported ? "exported" : f->owned_here ? "in use here" : f->host_name;

		if (json)
			json_array_append_new(
				json, json_pack("{ss ss si si ss sb}", "name", f->name, "id", f->id, "disks",
					      (int)f->disk_count, "disks_seen", (int)found[i].seen, "host",
					      f->host_name, "exported", f->exported));
		else
			printf("  pool: %s\n    id: %s\n disks: %u of %u seen\n owner: %s\n paths: %s\n%s", f->name,
				f->id, found[i].seen, f->disk_count, owner, found[i].paths, i + 1 < count ? "\n" : "");
	}
	free(found);
	if (!code && json)
		return cli_json_print(json, err);
	if (!code && !count)
		code = error_set(
			err, ERR_NOT_FOUND, "no disk there carries the label of a pool; -d says where to look");
	return code;
}

static int take_property(struct pool_use *u, const char *value, struct error *err)
{
	if (strcmp(value, "readonly=on") == 0)
		u->read_only = true;
	else if (strcmp(value, "readonly=off") != 0)
		return error_set(err, ERR_USAGE, "import takes -o readonly=on, not '%s'", value);
	return 0;
}

int command_import(int argc, char **argv)
{
	scoped_free struct pool_use *u = calloc(1, sizeof(*u));
	struct pool_status *status = NULL;
	struct error err = ERROR_INIT;
	struct cli_scan scan;
	const char *value;
	uint64_t rewind = 0;
	bool json = false;
	int id, code = u ? 0 : error_set(&err, ERR_MEMORY, "out of memory");

	if (!u)
		return cli_fail(&err);
	cli_scan_init(&scan, argc, argv, &help);
	while (!code && (id = cli_scan_next(&scan, &value, &err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			code = id;
		else if (id == OPTION_DISKS)
			code = pool_use_word(u, value, &err);
		else if (id == OPTION_PROPERTY)
			code = take_property(u, value, &err);
		else if (id == OPTION_REWIND)
			code = number_parse("the number of checkpoints", value, 1, 63, &rewind, &err);
		else if (id == OPTION_FORCE)
			u->force = true;
		else if (id == OPTION_JSON)
			json = true;
		else if (u->name[0])
			code = error_set(&err, ERR_USAGE, "import takes one pool, but '%s' was given too", value);
		else
			code = pool_use_path(u, value, &err);
	}
	u->rewind = (unsigned)rewind;
	if (!code && !u->word_count)
		code = pool_use_word(u, "/dev", &err);
	if (!code && !u->name[0])
		code = list(u, json, &err);
	else if (!code) {
		code = pool_use_open(u, &err);
		status = code ? NULL : malloc(sizeof(*status));
		if (status) {
			pool_status_get(u->pool, status);
			code = u->read_only ? 0 : known_write(&known_pools, status->name, &u->disks.specs, &err);
			cli_say("%s is imported%s%s%s", status->name, u->read_only ? " for reading" : "",
				status->read_only_reason[0] ? ", read-only: " : "", status->read_only_reason);
			free(status);
		}
	}
	return pool_use_end(u, code, &err);
}
