/*
 * spindle array VERB: nothing stays assembled. Each command finds the members, assembles the array, works and
 * releases it; what it needs to find them again is a hint in the state directory.
 */
#include <locale.h>
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "array_cli.h"

bool array_name_is_good(const char *name)
{
	size_t length = strlen(name);

	if (length == 0 || length >= ARRAY_NAME_BYTES || name[0] == '.' || name[0] == '-')
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && !strchr("_.-", *name))
			return false;
	return true;
}

enum { OPTION_DIRECTORY = 1, OPTION_REPAIR, OPTION_DESTROY, OPTION_JSON };

#define OPTION_DISKS_LINE                                                                                              \
	{                                                                                                              \
		OPTION_DIRECTORY, "disks", 'd', "DISK", "a member, or a directory that holds them; repeated"           \
	}

static const struct cli_option options_find[] = {OPTION_DISKS_LINE, {0}};
static const struct cli_option options_check[] = {
	OPTION_DISKS_LINE,
	{OPTION_REPAIR, "repair", 0, NULL, "write what is wrong again, from what is right"},
	{OPTION_JSON, "json", 0, NULL, "the result as JSON"},
	{0},
};
static const struct cli_option options_new[] = {
	OPTION_DISKS_LINE,
	{OPTION_DESTROY, "destroy", 0, "DISK", "overwrite what the new disk holds"},
	{0},
};

/* What each of these commands starts from. */
struct job {
	const struct cli_help *help;
	struct array_find find;
	struct cli_destroy destroy;
	const char *words[3]; /* behind NAME */
	unsigned word_count;
	bool repair, json;
	struct cli_progress progress;
	struct array_status status;
};

static int take_words(struct job *j, int argc, char **argv, unsigned words_wanted, struct error *err)
{
	struct cli_scan scan;
	const char *value;
	int id, code = 0;
	bool named = false;

	cli_scan_init(&scan, argc, argv, j->help);
	while (!code && (id = cli_scan_next(&scan, &value, err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			return id;
		if (id == OPTION_DIRECTORY)
			code = array_find_add(&j->find, value, err);
		else if (id == OPTION_REPAIR)
			j->repair = true;
		else if (id == OPTION_JSON)
			j->json = true;
		else if (id == OPTION_DESTROY)
			code = cli_destroy_add(&j->destroy, value, err);
		else if (!named) {
			if (!array_name_is_good(value))
				code = error_set(err, ERR_USAGE, "'%s' is no name of an array", value);
			else
				snprintf(j->find.name, sizeof(j->find.name), "%s", value);
			named = true;
		} else if (j->word_count == words_wanted)
			code = error_set(err, ERR_USAGE, "%s takes no '%s': spindle %s %s", j->help->verb, value,
				j->help->verb, j->help->usage);
		else
			j->words[j->word_count++] = value;
	}
	if (!code && (j->word_count < words_wanted || (!named && (words_wanted || !j->find.word_count))))
		code = error_set(err, ERR_USAGE, "something is missing: spindle %s %s", j->help->verb, j->help->usage);
	return code;
}

/* A member by its number, the name or path it was last seen under, or its id. */
static int find_member(struct job *j, const char *word, unsigned *ret_index, struct error *err)
{
	char real_word[PATH_MAX], real_name[PATH_MAX];
	bool has_path = realpath(word, real_word) != NULL;
	uint64_t number;

	array_status_get(j->find.array, &j->status);
	for (unsigned i = 0; i < j->status.member_count; i++) {
		const struct array_member_status *m = &j->status.members[i];

		if (strcmp(m->name, word) == 0 || strcmp(m->id, word) == 0 ||
			(has_path && realpath(m->name, real_name) && strcmp(real_word, real_name) == 0)) {
			*ret_index = i;
			return 0;
		}
	}
	if (number_parse("member", word, 0, j->status.member_count - 1, &number, NULL) == 0) {
		*ret_index = (unsigned)number;
		return 0;
	}
	return error_set(err, ERR_NOT_FOUND, "%s has no member %s; 'spindle array status %s' lists them", j->find.name,
		word, j->find.name);
}

/* Looks at the new disk, and opens it. */
static int open_new(struct job *j, const char *word, struct cli_disks *fresh, struct error *err)
{
	struct cli_disk_rules rules = {0};
	struct disk_open_options options = {.exclusive = true};
	int code = disk_specs_add(&fresh->specs, word, err);

	if (!code && fresh->specs.count != 1)
		code = error_set(err, ERR_USAGE, "'%s' names %zu disks, one is needed", word, fresh->specs.count);
	code = code ? code : cli_disks_inspect(fresh, &rules, err);
	code = code ? code : cli_destroy_check(&j->destroy, fresh, err);
	code = code ? code : cli_disks_guard(fresh, &j->destroy, err);
	for (size_t i = 0; !code && i < j->find.disks.specs.count; i++) {
		struct disk_facts member;

		if (disk_inspect(j->find.disks.specs.items[i].path, &member, NULL) == 0 &&
			member.device == fresh->facts[0].device && member.inode == fresh->facts[0].inode)
			code = error_set(err, ERR_USAGE, "%s is a member of %s already", word, j->find.name);
	}
	return code ? code : cli_disks_open(fresh, &options, err);
}

/* The hint lists what is a member now: those found but `without`, and the new one. */
static void remember(struct job *j, const char *without, const struct cli_disks *fresh)
{
	struct disk_specs now = {0};
	struct error err = ERROR_INIT;
	int code = 0;

	for (size_t i = 0; !code && i < j->find.disks.specs.count; i++)
		if (!without || strcmp(j->find.disks.specs.items[i].path, without) != 0)
			code = disk_specs_add(&now, j->find.disks.specs.items[i].text, &err);
	if (!code && fresh)
		code = disk_specs_add(&now, fresh->specs.items[0].text, &err);
	code = code ? code : known_write(&known_arrays, j->find.name, &now, &err);
	if (code)
		cli_say("the array is changed, but the note of its members is not: %s", err.text);
	disk_specs_release(&now);
}

static void begin_progress(struct job *j, const char *what)
{
	cli_progress_begin(&j->progress, 0);
	cli_progress_phase(&j->progress, "%s %s", what, j->find.name);
}

/* --- check --------------------------------------------------------------------------------------- */

static const struct cli_help help_check = {
	.verb = "array check",
	.usage = "[OPTION]… NAME",
	.text = "Reads everything and compares: copies with each other, data with parity.\n"
		"Status 0 when all is right or was repaired, 1 when not.",
	.options = options_check,
};

static json_t *check_json(const struct job *j, const struct array_check_result *r)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < r->first_count; i++)
		json_array_append_new(
			list, json_pack("{sI sI si sI}", "row", (json_int_t)r->first[i].row, "offset_bytes",
				      (json_int_t)r->first[i].offset_bytes, "member", r->first[i].member,
				      "member_offset_bytes", (json_int_t)r->first[i].member_offset_bytes));
	return json_pack("{si ss sI sI sI sI so}", "schema", 1, "name", j->find.name, "rows", (json_int_t)r->rows,
		"mismatched_rows", (json_int_t)r->mismatched_rows, "repaired_rows", (json_int_t)r->repaired_rows,
		"unreadable_chunks", (json_int_t)r->unreadable_chunks, "first", list);
}

static void print_check(const struct job *j, const struct array_check_result *r)
{
	for (unsigned i = 0; i < r->first_count; i++) {
		if (r->first[i].member >= 0)
			printf("row %llu, at %llu of the array: member %d differs, at %llu of it\n",
				(unsigned long long)r->first[i].row, (unsigned long long)r->first[i].offset_bytes,
				r->first[i].member, (unsigned long long)r->first[i].member_offset_bytes);
		else
			printf("row %llu, at %llu of the array: its disks do not agree\n",
				(unsigned long long)r->first[i].row, (unsigned long long)r->first[i].offset_bytes);
	}
	printf("%s: %llu row%s read, %llu not right, %llu repaired, %llu chunk%s unreadable\n", j->find.name,
		(unsigned long long)r->rows, r->rows == 1 ? "" : "s", (unsigned long long)r->mismatched_rows,
		(unsigned long long)r->repaired_rows, (unsigned long long)r->unreadable_chunks,
		r->unreadable_chunks == 1 ? "" : "s");
}

static int run_check(struct job *j, struct error *err)
{
	struct array_check_result result = {0};
	int code = array_find_open(&j->find, false, err);

	if (code)
		return code;
	begin_progress(j, "check");
	code = array_check(j->find.array, j->repair, &result, cli_progress_bytes, &j->progress, err);
	cli_progress_end(&j->progress);
	if (code)
		return code;
	if (j->json)
		code = cli_json_print(check_json(j, &result), err);
	else
		print_check(j, &result);
	if (!code && result.mismatched_rows + result.unreadable_chunks > 0 &&
		(!j->repair || result.repaired_rows < result.mismatched_rows))
		code = error_set(err, ERR_CORRUPT, "%s: %llu rows are not right%s", j->find.name,
			(unsigned long long)(result.mismatched_rows - result.repaired_rows),
			j->repair ? " and could not be repaired" : "; --repair writes them again");
	return code;
}

/* --- replace, attach, detach --------------------------------------------------------------------- */

static const struct cli_help help_replace = {
	.verb = "array replace",
	.usage = "[OPTION]… NAME OLD NEW",
	.text = "Puts the disk NEW in the place of member OLD (its path, number or id) and\n"
		"rebuilds onto it. Interrupted, it goes on when given again.",
	.options = options_new,
};
static const struct cli_help help_attach = {
	.verb = "array attach",
	.usage = "[OPTION]… NAME DISK",
	.text = "Gives a mirror one more copy.",
	.options = options_new,
};
static const struct cli_help help_detach = {
	.verb = "array detach",
	.usage = "[OPTION]… NAME MEMBER",
	.text = "Takes one copy (its path, number or id) from a mirror.",
	.options = options_find,
};

static bool goes_on(const struct job *j, unsigned index, const char *word)
{
	return j->status.members[index].state == ARRAY_MEMBER_REBUILDING &&
	       strcmp(j->status.members[index].name, word) == 0;
}

static int run_replace(struct job *j, struct error *err)
{
	struct cli_disks fresh = {0};
	unsigned index = 0;
	int code = array_find_open(&j->find, false, err);

	/* After an interruption the new disk is a member already: then what is left is the rest of the rebuild. */
	code = code                                             ? code
	       : find_member(j, j->words[0], &index, NULL) == 0 ? 0
								: find_member(j, j->words[1], &index, err);
	if (!code && goes_on(j, index, j->words[1])) {
		begin_progress(j, "rebuild");
		code = array_rebuild(j->find.array, cli_progress_bytes, &j->progress, err);
		cli_progress_end(&j->progress);
		return code;
	}
	code = code ? code : open_new(j, j->words[1], &fresh, err);
	if (!code) {
		const char *old_path =
			j->status.members[index].disk ? disk_traits(j->status.members[index].disk)->path : NULL;
		char *without = old_path ? strdup(old_path) : NULL;

		begin_progress(j, "rebuild");
		/* The guard has let the disk through: what it holds may go. */
		code = array_replace(j->find.array, index, fresh.disks[0], true, cli_progress_bytes, &j->progress, err);
		cli_progress_end(&j->progress);
		/* An interrupted rebuild goes on later: both are remembered then. */
		if (!code || code == ERR_INTERRUPTED)
			remember(j, code ? NULL : without, &fresh);
		free(without);
	}
	/* The array borrows the new disk: it is closed first. */
	if (j->find.array) {
		int closed = array_close(j->find.array, err);

		j->find.array = NULL;
		code = code ? code : closed;
	}
	cli_disks_release(&fresh);
	if (!code)
		cli_say("%s: %s is in the place of %s", j->find.name, j->words[1], j->words[0]);
	return code;
}

static int run_attach(struct job *j, struct error *err)
{
	struct cli_disks fresh = {0};
	int code = array_find_open(&j->find, false, err);

	code = code ? code : open_new(j, j->words[0], &fresh, err);
	if (!code) {
		begin_progress(j, "attach to");
		code = array_attach(j->find.array, fresh.disks[0], true, cli_progress_bytes, &j->progress, err);
		cli_progress_end(&j->progress);
		if (!code || code == ERR_INTERRUPTED)
			remember(j, NULL, &fresh);
	}
	if (j->find.array) {
		int closed = array_close(j->find.array, err);

		j->find.array = NULL;
		code = code ? code : closed;
	}
	cli_disks_release(&fresh);
	return code;
}

static int run_detach(struct job *j, struct error *err)
{
	unsigned index = 0;
	int code = array_find_open(&j->find, false, err);

	code = code ? code : find_member(j, j->words[0], &index, err);
	if (!code) {
		const struct disk *disk = j->status.members[index].disk;
		char *without = disk ? strdup(disk_traits(disk)->path) : NULL;

		code = array_detach(j->find.array, index, err);
		if (!code)
			remember(j, without, NULL);
		free(without);
	}
	return code;
}

/* --- destroy ------------------------------------------------------------------------------------- */

static const struct cli_help help_destroy = {
	.verb = "array destroy",
	.usage = "[OPTION]… NAME",
	.text = "Clears the labels of all members that are there; their data is then unreachable.",
	.options = options_find,
};

static int run_destroy(struct job *j, struct error *err)
{
	int code = array_find_open(&j->find, false, err);

	if (code)
		return code;
	code = array_destroy(j->find.array, err);
	j->find.array = NULL;
	if (!code)
		known_forget(&known_arrays, j->find.name);
	return code;
}

/* --- the verbs ----------------------------------------------------------------------------------- */

static int run_job(int argc, char **argv, const struct cli_help *help, unsigned words,
	int (*run)(struct job *j, struct error *err))
{
	scoped_free struct job *j = calloc(1, sizeof(*j));
	struct error err = ERROR_INIT;
	int code = j ? 0 : error_set(&err, ERR_MEMORY, "out of memory");

	if (!code) {
		j->help = help;
		code = take_words(j, argc, argv, words, &err);
		if (code == 0) {
			run(j, &err);
			code = array_find_close(&j->find, &err);
		}
		cli_destroy_release(&j->destroy);
	}
	return code == CLI_HELP ? CLI_DONE : code ? cli_fail(&err) : CLI_DONE;
}

static int verb_check(int argc, char **argv)
{
	return run_job(argc, argv, &help_check, 0, run_check);
}
static int verb_replace(int argc, char **argv)
{
	return run_job(argc, argv, &help_replace, 2, run_replace);
}
static int verb_attach(int argc, char **argv)
{
	return run_job(argc, argv, &help_attach, 1, run_attach);
}
static int verb_detach(int argc, char **argv)
{
	return run_job(argc, argv, &help_detach, 1, run_detach);
}
static int verb_destroy(int argc, char **argv)
{
	return run_job(argc, argv, &help_destroy, 0, run_destroy);
}

static const struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
} verbs[] = {
	{"create", array_verb_create, "make one of disks: NAME LAYOUT DISK…"},
	{"status", array_verb_status, "state, members and errors"},
	{"read", array_verb_read, "bytes of it to standard output"},
	{"write", array_verb_write, "standard input into it"},
	{"check", verb_check, "compare copies, data and parity; --repair"},
	{"replace", verb_replace, "another disk for a member, and the rebuild"},
	{"attach", verb_attach, "one more copy for a mirror"},
	{"detach", verb_detach, "one copy less"},
	{"destroy", verb_destroy, "clear the labels"},
};

static void print_help(FILE *out)
{
	fprintf(out, "usage: spindle array VERB [OPTION]… NAME [WORD]…\n\n"
		     "An array maps a fixed address space onto disks. Nothing stays assembled: every command\n"
		     "finds the members (as remembered, or with -d), assembles, works and releases.\n\n");
	for (size_t i = 0; i < array_count(verbs); i++)
		fprintf(out, "  %-8s %s\n", verbs[i].name, verbs[i].summary);
	fprintf(out, "\n  spindle array VERB --help   the options of a verb\n");
}

int command_array(int argc, char **argv)
{
	const char *names[array_count(verbs) + 1] = {NULL};
	const char *near;

	setlocale(LC_CTYPE, "");
	if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		print_help(argc < 2 ? stderr : stdout);
		return argc < 2 ? CLI_REFUSED : CLI_DONE;
	}
	for (size_t i = 0; i < array_count(verbs); i++) {
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(argc - 1, argv + 1);
		names[i] = verbs[i].name;
	}
	near = cli_nearest(argv[1], names);
	if (near)
		cli_say("array has no verb '%s'; did you mean '%s'?", argv[1], near);
	else
		cli_say("array has no verb '%s'; see 'spindle array --help'", argv[1]);
	return CLI_REFUSED;
}
