/*
 * cli: what the commands of `spindle` share. May include any public header of the parts, no private one.
 *
 * A command is one function that gets the words behind its verb, prints data to stdout and talk to stderr, and
 * returns the exit status:
 *
 *   0 done   1 failed   2 usage or refused   3 done, but a result is not valid   130 interrupted
 *
 * The usual shape:
 *
 *   enum { OPTION_CHUNK = 1, OPTION_JSON };
 *   static const struct cli_option options[] = {
 *           {OPTION_CHUNK, "chunk", 0, "SIZE", "bytes of one disk before the next one's turn (128KiB)"},
 *           {OPTION_JSON, "json", 0, NULL, "facts as JSON"},
 *           {0},
 *   };
 *   struct cli_scan scan;
 *   cli_scan_init(&scan, argc, argv, &help);
 *   while ((id = cli_scan_next(&scan, &value, &err)) > 0)
 *           switch (id) { case CLI_WORD: …; case OPTION_CHUNK: … }
 *   if (id < 0)
 *           return cli_fail(&err);
 */
#ifndef CLI_H
#define CLI_H

#include <jansson.h>
#include <stdio.h>

#include "base.h"
#include "disk.h"
#include "os.h"

enum cli_status { CLI_DONE = 0, CLI_FAILED = 1, CLI_REFUSED = 2, CLI_NOT_VALID = 3, CLI_INTERRUPTED = 130 };

/* --- commands ------------------------------------------------------------------------------------ */

/* argv[0] is the verb. */
int command_compare(int argc, char **argv);
int command_report(int argc, char **argv);
int command_array(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_survey(int argc, char **argv);
int command_models(int argc, char **argv);
int command_create(int argc, char **argv);
int command_destroy(int argc, char **argv);
int command_rename(int argc, char **argv);
int command_list(int argc, char **argv);
int command_get(int argc, char **argv);
int command_set(int argc, char **argv);
int command_inherit(int argc, char **argv);
int command_status(int argc, char **argv);
int command_iostat(int argc, char **argv);
int command_history(int argc, char **argv);
int command_import(int argc, char **argv);
int command_export(int argc, char **argv);
int command_hold(int argc, char **argv);
int command_snapshot(int argc, char **argv);
int command_rollback(int argc, char **argv);
int command_clone(int argc, char **argv);
int command_scrub(int argc, char **argv);
int command_volume(int argc, char **argv);
int command_check(int argc, char **argv);
int command_dump(int argc, char **argv);

/* The whole line that was typed, for result.command; shell quotes where a word needs them. */
const char *cli_command_line(void);

/* --- talk ---------------------------------------------------------------------------------------- */

/* "spindle: sentence" and a line end, on stderr. Takes a progress line away first. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Says the error's sentence once and returns its exit status. */
int cli_fail(const struct error *err);
/* Asks on the terminal for `word`; ERR_REFUSED when another word comes, ERR_USAGE when there is no terminal to ask. */
int cli_confirm(const char *question, const char *word, struct error *err);

/* --- options ------------------------------------------------------------------------------------- */

struct cli_option {
	int id;               /* from 1; 0 ends the table */
	const char *name;     /* "chunk" for --chunk */
	char letter;          /* 'f' for -f, or 0 */
	const char *argument; /* "SIZE"; NULL when it takes none */
	const char *help;     /* NULL: accepted, not listed */
};
struct cli_help {
	const char *verb;                 /* "array create" */
	const char *usage;                /* "NAME LAYOUT DISK…" */
	const char *text;                 /* what it does, a few lines of at most 78 columns */
	const struct cli_option *options; /* --help is added */
	const char *end;                  /* examples; may be NULL */
};
struct cli_scan {
	int argc, next;
	char **argv;
	const char *letters; /* the rest of a group like -fj */
	const struct cli_help *help;
	bool only_words; /* after "--" */
};
#define CLI_WORD 1000 /* not an option: a word such as a DISK */
#define CLI_HELP 1001 /* --help was there and has been printed: return CLI_DONE */
void cli_scan_init(struct cli_scan *s, int argc, char **argv, const struct cli_help *help);
/* The id of the next option, CLI_WORD, CLI_HELP, 0 at the end, or an error (unknown option, with the nearest one;
 * missing or superfluous value). "--name=value" and "--name value" are the same. */
int cli_scan_next(struct cli_scan *s, const char **ret_value, struct error *err);
void cli_help_print(const struct cli_help *help);
/* The one of `words` (NULL at the end) that is nearest to `word`, or NULL when none is near. */
const char *cli_nearest(const char *word, const char *const *words);

/* --- disks --------------------------------------------------------------------------------------- */

struct cli_disks {
	struct disk_specs specs;
	struct disk_facts *facts; /* one for each spec, after cli_disks_inspect; memory disks have exists = false */
	struct disk **disks;      /* after cli_disks_open */
	size_t count;             /* of open disks */
};
/* Of --destroy, which may be given several times: DISK or "all-named". */
struct cli_destroy {
	bool all;
	const char **names;
	size_t count;
};
int cli_destroy_add(struct cli_destroy *d, const char *word, struct error *err);
bool cli_destroy_names(const struct cli_destroy *d, const char *path);
/* ERR_USAGE when --destroy names a disk that is not on the command line. */
int cli_destroy_check(const struct cli_destroy *d, const struct cli_disks *disks, struct error *err);
void cli_destroy_release(struct cli_destroy *d);

struct cli_disk_rules {
	bool memory_allowed;      /* mem: is refused where something is to last */
	bool directories_allowed; /* compare puts a file into them: the caller does, before cli_disks_open */
	uint64_t least_bytes;     /* a disk below it is too small; 0: any */
};
/* Looks at every disk without touching it: missing, a directory, the same one twice (under any name), too small. */
int cli_disks_inspect(struct cli_disks *d, const struct cli_disk_rules *rules, struct error *err);
/* Refuses (ERR_REFUSED, with the reason and what to type) when writing would touch what is not ours. */
int cli_disks_guard(const struct cli_disks *d, const struct cli_destroy *destroy, struct error *err);
/* Opens all of them; on failure none is left open. */
int cli_disks_open(struct cli_disks *d, const struct disk_open_options *o, struct error *err);
void cli_disks_close(struct cli_disks *d);
void cli_disks_release(struct cli_disks *d); /* closes what is open */
/* "ATA ST2000 (serial Z1), 2 TB" or the path and the size: for what is shown before a write. */
char *cli_disk_describe(const struct cli_disks *d, size_t index, char *text, size_t bytes);

/* 1GbE, 10GbE, 2GFC, 4GFC, or a number of MB/s. */
int cli_link_parse(const char *text, double *ret_mb_per_s, struct error *err);

/* --- progress ------------------------------------------------------------------------------------ */

/*
 * One line on stderr while it is a terminal, redrawn about four times a second and erased at the end:
 *   3/12  raid5 write            41 %   312 MB/s   ETA 0:23
 * Otherwise one plain line as each phase begins. `cli_progress_say` fits bench_progress, `cli_progress_bytes`
 * fits array_progress (it returns false once the program was interrupted). Time is real time in both worlds.
 */
struct cli_progress {
	unsigned phase, phases; /* set phases before the first phase when it is known; 0: not shown */
	bool quiet;
	/* A process that works for another tells instead of showing: it is called with a new phase's name, or with NULL
	 * and how far the phase is. */
	void (*relay)(void *arg, const char *name, double share_done, double mb_per_s);
	void *relay_arg;
	/* private */
	bool terminal, drawn;
	char name[64];
	uint64_t begun_ns, phase_ns, drawn_ns;
};
void cli_progress_begin(struct cli_progress *p, unsigned phases);
/* A new phase begins; its name is shown until the next one. */
void cli_progress_phase(struct cli_progress *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_progress_say(void *progress, const char *phase, double share_done, double mb_per_s);
bool cli_progress_bytes(void *progress, uint64_t done_bytes, uint64_t total_bytes);
void cli_progress_end(struct cli_progress *p);

/* --- places and JSON ----------------------------------------------------------------------------- */

#define CLI_PATH_BYTES 1024
/* $SPINDLE_STATE, as root /var/lib/spindle, else $XDG_STATE_HOME/spindle or ~/.local/state/spindle; then "/below".
 * Made, with its parents, when `make` is set. */
int cli_state_dir(const char *below, bool make, char ret_path[CLI_PATH_BYTES], struct error *err);
/* Writes the file whole or not at all (a temporary name, fsync, rename). */
int cli_file_write(const char *path, const char *text, size_t bytes, struct error *err);

/* To stdout, numbers at 15 digits, indented, with a line end. Takes the reference. */
int cli_json_print(json_t *json, struct error *err);
json_t *cli_json_real(double value); /* NAN and infinities become null */

#endif
