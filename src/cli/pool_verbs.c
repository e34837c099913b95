/* The verbs that take a few names and do one thing: rename, snapshot, rollback, clone, scrub, export, history, set, inherit. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "pool_cli.h"

enum { OPTION_DISKS = 1, OPTION_RECURSIVE, OPTION_JSON, OPTION_PROPERTY };

/* What such a verb has in common: options, then between `least` and `most` words, the first of which names the pool
 * (or, when `last` is set, the last). */
struct simple {
	struct pool_use use;
	const char *words[16];
	unsigned count;
	bool recursive, json;
	const char *properties[33];
	unsigned property_count;
};

static int take(struct simple *s, int argc, char **argv, const struct cli_help *help, unsigned least, unsigned most,
	bool last, struct error *err)
{
	struct cli_scan scan;
	const char *value;
	int id, code = 0;

	cli_scan_init(&scan, argc, argv, help);
	while (!code && (id = cli_scan_next(&scan, &value, err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			return id;
		if (id == OPTION_DISKS)
			code = pool_use_word(&s->use, value, err);
		else if (id == OPTION_RECURSIVE)
			s->recursive = true;
		else if (id == OPTION_JSON)
			s->json = true;
		else if (id == OPTION_PROPERTY) {
			if (s->property_count == 32 || !strchr(value, '='))
				code = error_set(err, ERR_USAGE, "'%s' is not NAME=VALUE", value);
			else
				s->properties[s->property_count++] = value;
		} else if (s->count == most)
			code = error_set(
				err, ERR_USAGE, "%s takes no more words, but '%s' was given too", help->verb, value);
		else
			s->words[s->count++] = value;
	}
	if (!code && s->count < least)
		code = error_set(
			err, ERR_USAGE, "%s needs more words: spindle %s %s", help->verb, help->verb, help->usage);
	code = code ? code : pool_use_path(&s->use, s->words[last ? s->count - 1 : 0], err);
	return code ? code : pool_use_open(&s->use, err);
}

#define DISKS                                                                                                          \
	{                                                                                                              \
		OPTION_DISKS, "disks", 'd', "DISK", "a member, or a directory that holds them; repeated"               \
	}

static int finish(struct simple *s, int code, bool is_change, struct error *err)
{
	if (!code && is_change)
		code = pool_history_add(s->use.pool, cli_command_line(), err);
	return pool_use_end(&s->use, code, err);
}

static const struct cli_option plain_options[] = {DISKS, {0}};
static const struct cli_option recursive_options[] = {
	DISKS, {OPTION_RECURSIVE, "recursive", 'r', NULL, "and in all datasets below, at one moment"}, {0}};

int command_rename(int argc, char **argv)
{
	static const struct cli_help help = {.verb = "rename",
		.usage = "[OPTION]… POOL/OLD POOL/NEW",
		.options = plain_options,
		.text = "Gives a dataset, with all below it, or a snapshot another name in its pool."};
	struct simple s = {0};
	struct error err = ERROR_INIT;
	int code = take(&s, argc, argv, &help, 2, 2, false, &err);

	code = code ? code : pool_dataset_rename(s.use.pool, s.words[0], s.words[1], &err);
	return finish(&s, code, true, &err);
}

int command_snapshot(int argc, char **argv)
{
	static const struct cli_help help = {.verb = "snapshot",
		.usage = "[OPTION]… POOL/DATASET@NAME…",
		.options = recursive_options,
		.text = "Keeps what a dataset holds now under a name."};
	struct simple s = {0};
	struct error err = ERROR_INIT;
	int code = take(&s, argc, argv, &help, 1, 16, false, &err);

	for (unsigned i = 0; !code && i < s.count; i++)
		code = pool_snapshot_create(s.use.pool, s.words[i], s.recursive, &err);
	return finish(&s, code, true, &err);
}

int command_rollback(int argc, char **argv)
{
	static const struct cli_option options[] = {
		DISKS, {OPTION_RECURSIVE, "recursive", 'r', NULL, "destroy snapshots that are newer"}, {0}};
	static const struct cli_help help = {.verb = "rollback",
		.usage = "[OPTION]… POOL/DATASET@NAME",
		.options = options,
		.text = "Makes a dataset what it was when the snapshot was taken; what was written since is lost."};
	struct simple s = {0};
	struct error err = ERROR_INIT;
	int code = take(&s, argc, argv, &help, 1, 1, false, &err);

	code = code ? code : pool_snapshot_rollback(s.use.pool, s.words[0], s.recursive, &err);
	return finish(&s, code, true, &err);
}

int command_clone(int argc, char **argv)
{
	static const struct cli_help help = {.verb = "clone",
		.usage = "[OPTION]… POOL/DATASET@NAME POOL/NEW",
		.options = plain_options,
		.text = "Makes a dataset that begins as the snapshot is and takes no space of its own yet."};
	struct simple s = {0};
	struct error err = ERROR_INIT;
	int code = take(&s, argc, argv, &help, 2, 2, false, &err);

	code = code ? code : pool_clone_create(s.use.pool, s.words[0], s.words[1], &err);
	return finish(&s, code, true, &err);
}

int command_set(int argc, char **argv)
{
	static const struct cli_help help = {.verb = "set",
		.usage = "[OPTION]… NAME=VALUE… POOL[/DATASET]",
		.options = plain_options,
		.text = "Sets properties. 'spindle get all POOL' lists them."};
	struct simple s = {0};
	struct error err = ERROR_INIT;
	int code = take(&s, argc, argv, &help, 2, 16, true, &err);

	for (unsigned i = 0; !code && i + 1 < s.count; i++) {
		const char *equals = strchr(s.words[i], '=');
		char name[64];

		if (!equals || equals - s.words[i] >= (ptrdiff_t)sizeof(name)) {
			code = error_set(&err, ERR_USAGE, "'%s' is not NAME=VALUE", s.words[i]);
			break;
		}
		snprintf(name, sizeof(name), "%.*s", (int)(equals - s.words[i]), s.words[i]);
		code = pool_property_set(s.use.pool, s.words[s.count - 1], name, equals + 1, &err);
	}
	return finish(&s, code, true, &err);
}

int command_inherit(int argc, char **argv)
{
	static const struct cli_help help = {.verb = "inherit",
		.usage = "[OPTION]… NAME POOL[/DATASET]",
		.options = plain_options,
		.text = "Takes a property's own value away: the one of the dataset above counts again."};
	struct simple s = {0};
	struct error err = ERROR_INIT;
	int code = take(&s, argc, argv, &help, 2, 2, true, &err);

	code = code ? code : pool_property_inherit(s.use.pool, s.words[1], s.words[0], &err);
	return finish(&s, code, true, &err);
}

static bool history_line(void *arg, uint64_t wall_ns, const char *command)
{
	time_t seconds = (time_t)(wall_ns / 1000000000u);
	struct tm tm;
	char when[32] = "";

	if (localtime_r(&seconds, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d.%H:%M:%S", &tm);
	printf("%s %s\n", when, command);
	return !os_interrupted();
}

int command_history(int argc, char **argv)
{
	static const struct cli_help help = {.verb = "history",
		.usage = "[OPTION]… POOL",
		.options = plain_options,
		.text = "Lists the commands that changed a pool, oldest first."};
	struct simple s = {.use.read_only = true};
	struct error err = ERROR_INIT;
	int code = take(&s, argc, argv, &help, 1, 1, false, &err);

	if (!code)
		printf("History for '%s':\n", s.use.name);
	code = code ? code : pool_history_list(s.use.pool, history_line, NULL, &err);
	return finish(&s, code, false, &err);
}

int command_scrub(int argc, char **argv)
{
	static const struct cli_help help = {.verb = "scrub",
		.usage = "[OPTION]… POOL",
		.options = plain_options,
		.text = "Reads and verifies all that a pool holds, parity and copies too, and puts right what can be.\n"
			"Runs in the foreground; Ctrl-C stops it. Status 1 when something is lost."};
	struct simple s = {0};
	struct error err = ERROR_INIT;
	struct cli_progress progress = {0};
	struct pool_scrub_status done = {0};
	char size[SIZE_TEXT_BYTES];
	int code = take(&s, argc, argv, &help, 1, 1, false, &err);

	if (!code) {
		cli_progress_begin(&progress, 0);
		cli_progress_phase(&progress, "scrub %s", s.use.name);
		code = pool_scrub(s.use.pool, cli_progress_bytes, &progress, &done, &err);
		cli_progress_end(&progress);
		printf("%s: %s read, %llu error%s found, %llu repaired, %llu lost\n", s.use.name,
			size_format_binary(done.done_bytes, size), (unsigned long long)done.errors,
			done.errors == 1 ? "" : "s", (unsigned long long)done.repaired,
			(unsigned long long)done.unrecoverable);
		if (!code && done.unrecoverable)
			code = error_set(&err, ERR_LOST,
				"%s: %llu columns are lost; 'spindle status -v %s' names what they held", s.use.name,
				(unsigned long long)done.unrecoverable, s.use.name);
	}
	return finish(&s, code, true, &err);
}

int command_export(int argc, char **argv)
{
	static const struct cli_help help = {.verb = "export",
		.usage = "[OPTION]… POOL",
		.options = plain_options,
		.text = "Closes a pool so that any host may import it, and forgets it here."};
	struct simple s = {0};
	struct error err = ERROR_INIT;
	int code = take(&s, argc, argv, &help, 1, 1, false, &err);

	if (!code && s.use.is_held)
		code = error_set(&err, ERR_BUSY, "%s is held open by this process; let it go first", s.use.name);
	if (!code) {
		code = pool_export(s.use.pool, &err);
		s.use.pool = NULL;
	}
	if (!code)
		known_forget(&known_pools, s.use.name);
	return pool_use_end(&s.use, code, &err);
}
