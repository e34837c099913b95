/* Between the files of the pool's verbs. */
#ifndef POOL_CLI_H
#define POOL_CLI_H

#include "find.h"
#include "pool.h"

#define POOL_PATH_BYTES 1024

/* --- pool_find.c: opening a pool for one command ---------------------------------------------------- */

struct pool_use {
	char name[256];                    /* of the pool, or its id */
	const char *words[FIND_WORDS_MAX]; /* of -d */
	unsigned word_count;
	bool read_only, force, any_owner;
	unsigned rewind;
	uint64_t cache_bytes; /* 0: the default */
	/* results */
	struct cli_disks disks;
	struct pool *pool;
	bool is_held;    /* the pool belongs to `hold`, in this process: not ours to close */
	bool is_sent;    /* the command ran in the process that holds the pool ... */
	int sent_status; /* ... and ended so */
};
/* The pool's name is what stands before the first / or @ of the path. */
int pool_use_path(struct pool_use *u, const char *path, struct error *err);
int pool_use_word(struct pool_use *u, const char *word, struct error *err); /* of -d */
/* Opens the pool, here or by sending the whole command to the process that holds it: then is_sent is set, an error is
 * returned without a sentence, and pool_use_end gives that process's status. */
int pool_use_open(struct pool_use *u, struct error *err);
/* The pool of a path, for a command that only looks; `asked` holds the options that all of its names share. */
int pool_use_look(struct pool_use *u, const struct pool_use *asked, const char *path, struct error *err);
/* Closes, says the error, returns the exit status. */
int pool_use_end(struct pool_use *u, int code, struct error *err);
/* All pools that labels on the candidates name; the caller frees the list. */
struct pool_found {
	struct pool_label_facts facts;
	unsigned seen; /* disks */
	char paths[2048];
};
int pool_find_all(const struct pool_use *u, struct pool_found **ret_list, size_t *ret_count, struct error *err);
int pool_names_known(char ***ret_names, size_t *ret_count, struct error *err);

/* --- pool_hold.c ------------------------------------------------------------------------------------- */

/* The pool of this name when this process holds it, else NULL. */
struct pool *pool_held(const char *name);
/* True when another process holds it and ran the command; the status is what it ended with. */
bool pool_send(const char *name, int *ret_status);

/* --- pool_table.c: what list, get and status print ------------------------------------------------------ */

struct pool_table {
	bool scripted; /* -H: tabs, no heads */
	bool exact;    /* -p: bytes */
	unsigned columns;
	const char *heads[16];
	bool right[16];
	char ***rows;
	size_t row_count, row_room;
};
int pool_table_row(struct pool_table *t, struct error *err); /* begins a row of empty cells */
void pool_table_set(struct pool_table *t, unsigned column, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int pool_table_print(struct pool_table *t, struct error *err);
void pool_table_release(struct pool_table *t);
/* "1.50T" as zfs prints sizes (binary, one letter), or the number with -p. */
const char *pool_size_text(uint64_t bytes, bool exact, char text[SIZE_TEXT_BYTES]);

#endif
