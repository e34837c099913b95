#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "find.h"

const struct known_kind known_arrays = {"arrays", "array"}, known_pools = {"pools", "pool"};

static int hint_path(
	const struct known_kind *kind, const char *name, bool make, char path[CLI_PATH_BYTES], struct error *err)
{
	char folder[CLI_PATH_BYTES];
	int code = cli_state_dir(kind->folder, make, folder, err);

	if (code)
		return code;
	if (snprintf(path, CLI_PATH_BYTES, "%s/%s", folder, name) >= CLI_PATH_BYTES)
		return error_set(err, ERR_USAGE, "the path of the state directory is too long");
	return 0;
}

void words_free(char **words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(words[i]);
	free(words);
}

static int words_add(char ***words, size_t *count, const char *word, struct error *err)
{
	char **more = realloc(*words, (*count + 1) * sizeof(*more));

	if (!more)
		return error_set(err, ERR_MEMORY, "out of memory");
	*words = more;
	more[*count] = strdup(word);
	if (!more[*count])
		return error_set(err, ERR_MEMORY, "out of memory");
	++*count;
	return 0;
}

int known_read(const struct known_kind *kind, const char *name, char ***ret_words, size_t *ret_count, struct error *err)
{
	char path[CLI_PATH_BYTES], line[CLI_PATH_BYTES];
	char **words = NULL;
	size_t count = 0;
	int code = hint_path(kind, name, false, path, err);
	FILE *file;

	if (code)
		return code;
	file = fopen(path, "re");
	if (!file)
		return error_set(err, ERR_NOT_FOUND,
			"no %s named %s is known here; -d DISK or -d DIRECTORY says where to look", kind->noun, name);
	while (!code && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		if (line[0] && line[0] != '#')
			code = words_add(&words, &count, line, err);
	}
	fclose(file);
	if (code) {
		words_free(words, count);
		return code;
	}
	*ret_words = words;
	*ret_count = count;
	return 0;
}

int known_write(const struct known_kind *kind, const char *name, const struct disk_specs *specs, struct error *err)
{
	char path[CLI_PATH_BYTES], here[CLI_PATH_BYTES];
	struct text text = {0};
	int code = hint_path(kind, name, true, path, err);

	if (code)
		return code;
	if (!getcwd(here, sizeof(here)))
		return error_set(
			err, error_from_errno(errno), "the working directory is not known: %s", strerror(errno));
	text_addf(&text, "# members of the %s %s as last seen; their labels decide\n", kind->noun, name);
	for (size_t i = 0; i < specs->count; i++)
		text_addf(&text, "%s%s%s\n", specs->items[i].path[0] == '/' ? "" : here,
			specs->items[i].path[0] == '/' ? "" : "/", specs->items[i].text);
	code = text.failed ? error_set(err, ERR_MEMORY, "out of memory")
			   : cli_file_write(path, text.bytes, text.length, err);
	text_release(&text);
	return code;
}

void known_forget(const struct known_kind *kind, const char *name)
{
	char path[CLI_PATH_BYTES];

	if (hint_path(kind, name, false, path, NULL) == 0)
		unlink(path);
}

static int compare_words(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int known_names(const struct known_kind *kind, char ***ret_names, size_t *ret_count, struct error *err)
{
	char folder[CLI_PATH_BYTES];
	char **names = NULL;
	size_t count = 0;
	int code = cli_state_dir(kind->folder, false, folder, err);
	struct dirent *entry;
	DIR *dir;

	if (code)
		return code;
	dir = opendir(folder);
	while (!code && dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			code = words_add(&names, &count, entry->d_name, err);
	if (dir)
		closedir(dir);
	if (code) {
		words_free(names, count);
		return code;
	}
	if (count)
		qsort(names, count, sizeof(*names), compare_words);
	*ret_names = names;
	*ret_count = count;
	return 0;
}
