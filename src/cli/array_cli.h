/* Between the files of `spindle array`. */
#ifndef ARRAY_CLI_H
#define ARRAY_CLI_H

#include "array.h"
#include "find.h"

bool array_name_is_good(const char *name);

/* --- finding and opening ------------------------------------------------------------------------- */

struct array_find {
	char name[ARRAY_NAME_BYTES];       /* "" when not given */
	const char *words[FIND_WORDS_MAX]; /* of -d: DISK, or a directory to scan */
	unsigned word_count;
	/* results */
	struct cli_disks disks; /* those that carry a label of the array, and are open */
	struct array *array;
};
int array_find_add(struct array_find *f, const char *word, struct error *err);
/* Finds the members, opens them and assembles. ERR_NOT_FOUND when no label names the array. */
int array_find_open(struct array_find *f, bool read_only, struct error *err);
/* Closes what is open. The error, when there is one already, stays; else what closing says. */
int array_find_close(struct array_find *f, struct error *err);
/* The names of all arrays that the words, or the known arrays, lead to. */
int array_find_names(const struct array_find *f, char ***ret_names, size_t *ret_count, struct error *err);

/* --- verbs in files of their own ----------------------------------------------------------------- */

int array_verb_create(int argc, char **argv);
int array_verb_status(int argc, char **argv);
int array_verb_read(int argc, char **argv);
int array_verb_write(int argc, char **argv);

#endif
