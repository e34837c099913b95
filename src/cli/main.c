/* spindle: one program, one verb a job. The verbs are in command_*.c's; what they share is in cli.h. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "internal.h"

struct verb {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary;
};

static const struct verb verbs[] = {
	{"compare", command_compare,
		"array layouts x classic tests on real or modelled disks: the table, and what to choose"},
	{"survey", command_survey, "every disk alone and all together: the slow disk, the bus limit (reads only)"},
	{"bench", command_bench, "one target, one workload or preset: a directory, file, device, array, null: or cpu:"},
	{"array", command_array, "create, status, check, replace, attach, detach, destroy, read, write"},
	{"create", command_create, "a pool of disks, a dataset, or with -V a volume"},
	{"destroy", command_destroy, "a pool, a dataset or a snapshot"},
	{"list", command_list, "pools, or with -r or -t datasets"},
	{"status", command_status, "how pools are"},
	{"get", command_get, "properties"},
	{"set", command_set, NULL},
	{"inherit", command_inherit, NULL},
	{"snapshot", command_snapshot, "keeps what a dataset holds; also rollback, clone, rename"},
	{"rollback", command_rollback, NULL},
	{"clone", command_clone, NULL},
	{"rename", command_rename, NULL},
	{"volume", command_volume, "reads, writes and discards bytes of a volume"},
	{"scrub", command_scrub, "verifies all that a pool holds, and mends it; also check, dump"},
	{"check", command_check, NULL},
	{"dump", command_dump, NULL},
	{"import", command_import, "finds pools on disks and takes them over; also export, hold"},
	{"export", command_export, NULL},
	{"hold", command_hold, NULL},
	{"iostat", command_iostat, "what the disks of a pool do; also history"},
	{"history", command_history, NULL},
	{"report", command_report, "results of earlier runs again, as table, bars, Markdown, CSV or JSON"},
	{"models", command_models, "the disk models there are, and what their numbers cite"},
};

static volatile sig_atomic_t signals_seen;

/* The first asks the work to stop and clean up; who sends a third will not wait for that. */
static void on_signal(int number)
{
	os_interrupt();
	if (++signals_seen >= 3)
		_exit(CLI_INTERRUPTED);
}

static void catch_signals(void)
{
	struct sigaction action = {.sa_handler = on_signal};

	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	action.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &action, NULL);
}

static void print_help(FILE *out)
{
	fprintf(out, "usage: spindle VERB [OPTION]… [WORD]…\n\n"
		     "A storage engine, and a test bench that says what each of its numbers is worth.\n\n");
	for (size_t i = 0; i < array_count(verbs); i++)
		if (verbs[i].summary)
			fprintf(out, "  %-8s %s\n", verbs[i].name, verbs[i].summary);
	fprintf(out, "\nA DISK is PATH or mem:SIZE, then any of +model=NAME[,key=value]… +fault=KIND[,key=value]…\n"
		     "+trace=FILE; *N repeats it. See spindle-disks(7).\n\n"
		     "  spindle VERB --help      the options of a verb\n"
		     "  spindle --version\n\n"
		     "Exit status: 0 done, 1 failed, 2 usage or refused, 3 done but a result is not valid,\n"
		     "4 results that do not compare (report), 130 interrupted (the partial result is kept).\n");
}

static int run_verb(int argc, char **argv)
{
	const char *names[array_count(verbs) + 1] = {NULL};
	const char *near;

	for (size_t i = 0; i < array_count(verbs); i++) {
		if (strcmp(argv[0], verbs[i].name) == 0)
			return verbs[i].run(argc, argv);
		names[i] = verbs[i].name;
	}
	near = cli_nearest(argv[0], names);
	if (near)
		cli_say("there is no verb '%s'; did you mean '%s'?", argv[0], near);
	else
		cli_say("there is no verb '%s'; see 'spindle --help'", argv[0]);
	return CLI_REFUSED;
}

int cli__run(int argc, char **argv)
{
	if (argc < 2) {
		print_help(stderr);
		return CLI_REFUSED;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
		print_help(stdout);
		return CLI_DONE;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		printf("spindle %s\n", SPINDLE_VERSION);
		return CLI_DONE;
	}
	if (argv[1][0] == '-') {
		cli_say("there is no option %s before the verb; see 'spindle --help'", argv[1]);
		return CLI_REFUSED;
	}
	return run_verb(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	int status;

	catch_signals();
	cli__remember_command_line(argc, argv);
	status = cli__run(argc, argv);
	cli__progress_erase();
	/* What was printed counts as done only when it arrived. */
	if ((fflush(stdout) != 0 || ferror(stdout)) && status == CLI_DONE) {
		cli_say("cannot write to standard output: %s", strerror(errno));
		status = CLI_FAILED;
	}
	return status;
}
