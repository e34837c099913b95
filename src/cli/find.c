/* Where the disks of an array or a pool may be: those named, those in directories that were named, those remembered. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "find.h"

static int add_directory(struct disk_specs *specs, const char *path, struct error *err)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	int code = 0;

	if (!dir)
		return error_set(err, ERR_NOT_FOUND, "the directory %s cannot be read", path);
	while (!code && (entry = readdir(dir))) {
		char full[CLI_PATH_BYTES];
		struct stat s;

		if (snprintf(full, sizeof(full), "%s/%s", path, entry->d_name) >= (int)sizeof(full) ||
			stat(full, &s) != 0)
			continue;
		/* A name with a + or * would be taken for the grammar of DISK; such a file can be named with -d alone.
		 */
		if ((S_ISREG(s.st_mode) || S_ISBLK(s.st_mode)) && !strpbrk(entry->d_name, "+*"))
			code = disk_specs_add(specs, full, err);
	}
	closedir(dir);
	return code;
}

static int add_given(const struct known_kind *kind, struct disk_specs *specs, const char *const *words, unsigned count,
	struct error *err)
{
	for (unsigned i = 0; i < count; i++) {
		struct stat s;
		bool is_directory = stat(words[i], &s) == 0 && S_ISDIR(s.st_mode);
		size_t before = specs->count;
		int code = is_directory ? add_directory(specs, words[i], err) : disk_specs_add(specs, words[i], err);

		for (size_t k = before; !code && !is_directory && k < specs->count; k++) {
			const char *path = specs->items[k].path;

			if (!path)
				code = error_set(err, ERR_USAGE, "%s: a memory disk holds no %s", specs->items[k].text,
					kind->noun);
			else if (stat(path, &s) != 0)
				code = error_set(err, ERR_NOT_FOUND, "%s: there is no such file or device", path);
		}
		if (code)
			return code;
	}
	return 0;
}

/* What is remembered and gone is no error: the array or pool may do without it. */
static int add_known(const struct known_kind *kind, struct disk_specs *specs, const char *name, struct error *err)
{
	char **words = NULL;
	size_t count = 0;
	int code = known_read(kind, name, &words, &count, err);

	for (size_t i = 0; !code && i < count; i++) {
		size_t before = specs->count;
		struct stat s;

		code = disk_specs_add(specs, words[i], err);
		if (!code && specs->count > before && stat(specs->items[before].path, &s) != 0)
			cli_say("%s: %s, a member as last seen, is not there", name, specs->items[before].path);
	}
	words_free(words, count);
	return code;
}

int find_candidates(const struct known_kind *kind, const char *const *words, unsigned count, const char *name,
	struct disk_specs *specs, struct error *err)
{
	return count ? add_given(kind, specs, words, count, err) : add_known(kind, specs, name, err);
}

/* One disk may be reached twice, as a known name and through a link. */
bool find_is_there_already(const struct disk_specs *specs, const char *path)
{
	struct stat a, b;

	if (stat(path, &a) != 0)
		return true;
	for (size_t i = 0; i < specs->count; i++)
		if (stat(specs->items[i].path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
			return true;
	return false;
}
