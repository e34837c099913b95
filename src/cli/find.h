/* What is known of arrays and pools, and finding their disks: shared by the verbs of both. */
#ifndef FIND_H
#define FIND_H

#include "cli.h"

/* Hints in the state directory, one file each, one DISK a line. Labels decide. */
struct known_kind {
	const char *folder, *noun;
};
extern const struct known_kind known_arrays, known_pools;

/* The DISK words of a known array or pool; ERR_NOT_FOUND when it is not known. The caller frees them. */
int known_read(
	const struct known_kind *kind, const char *name, char ***ret_words, size_t *ret_count, struct error *err);
/* The word of each spec, made absolute. */
int known_write(const struct known_kind *kind, const char *name, const struct disk_specs *specs, struct error *err);
void known_forget(const struct known_kind *kind, const char *name);
int known_names(const struct known_kind *kind, char ***ret_names, size_t *ret_count, struct error *err);
void words_free(char **words, size_t count);

#define FIND_WORDS_MAX 512

/* Appends every disk where a member may be: of `words` (DISK, or a directory to scan), or without any those remembered
 * under `name`. Nothing is opened. */
int find_candidates(const struct known_kind *kind, const char *const *words, unsigned count, const char *name,
	struct disk_specs *specs, struct error *err);
bool find_is_there_already(const struct disk_specs *specs, const char *path);

#endif
