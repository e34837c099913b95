/*
 * Finding an array: candidates are the disks named with -d, what lies in the directories named with -d, or else the
 * disks that the state directory remembers. Each candidate's label is read, the ones of the array are opened again
 * to stay, and array_open tells members, strangers and stale ones apart.
 */
#include <string.h>
#include <sys/stat.h>

#include "array_cli.h"

struct candidates {
	struct disk_specs specs;
	struct array_label_facts *labels; /* one for each spec; array_name "" where there is no label */
};

static void candidates_release(struct candidates *c)
{
	disk_specs_release(&c->specs);
	free(c->labels);
	c->labels = NULL;
}

int array_find_add(struct array_find *f, const char *word, struct error *err)
{
	if (f->word_count == FIND_WORDS_MAX)
		return error_set(err, ERR_USAGE, "-d is given more than %d times", FIND_WORDS_MAX);
	f->words[f->word_count++] = word;
	return 0;
}

static void read_label(struct candidates *c, size_t index)
{
	struct disk_open_options options = {.read_only = true};
	struct disk *disk;

	if (disk_open(&c->specs.items[index], &options, &disk, NULL) != 0)
		return;
	if (array_label_read(disk, &c->labels[index], NULL) != 0)
		c->labels[index] = (struct array_label_facts){0};
	disk_close(disk);
}

static int gather(const struct array_find *f, struct candidates *c, struct error *err)
{
	int code = find_candidates(&known_arrays, f->words, f->word_count, f->name, &c->specs, err);

	if (code)
		return code;
	c->labels = calloc(max_of(c->specs.count, (size_t)1), sizeof(*c->labels));
	if (!c->labels)
		return error_set(err, ERR_MEMORY, "out of memory");
	for (size_t i = 0; i < c->specs.count; i++)
		read_label(c, i);
	return 0;
}

/* The array that is meant: by its name, or the only one there. Its id goes to ret_id. */
static int choose(const struct array_find *f, const struct candidates *c, const char **ret_name, const char **ret_id,
	struct error *err)
{
	const struct array_label_facts *found = NULL;

	for (size_t i = 0; i < c->specs.count; i++) {
		const struct array_label_facts *l = &c->labels[i];

		if (!l->array_name[0] || (f->name[0] && strcmp(f->name, l->array_name) != 0))
			continue;
		if (!found) {
			found = l;
			continue;
		}
		if (strcmp(found->array_id, l->array_id) == 0)
			continue;
		if (strcmp(found->array_name, l->array_name) != 0)
			return error_set(err, ERR_USAGE, "the disks hold more than one array (%s, %s): say which",
				found->array_name, l->array_name);
		return error_set(err, ERR_USAGE,
			"the disks hold two arrays named %s (%s, %s): name the members of one with -d", l->array_name,
			found->array_id, l->array_id);
	}
	if (!found && f->name[0])
		return error_set(err, ERR_NOT_FOUND, "no disk carries a label of the array %s", f->name);
	if (!found)
		return error_set(err, ERR_NOT_FOUND, "no disk carries the label of an array");
	*ret_name = found->array_name;
	*ret_id = found->array_id;
	return 0;
}

static int take_members(struct array_find *f, const struct candidates *c, const char *id, struct error *err)
{
	for (size_t i = 0; i < c->specs.count; i++) {
		const struct disk_spec *spec = &c->specs.items[i];
		int code;

		if (strcmp(c->labels[i].array_id, id) != 0 || find_is_there_already(&f->disks.specs, spec->path))
			continue;
		code = disk_specs_add(&f->disks.specs, spec->text, err);
		if (code)
			return code;
	}
	return 0;
}

static int assemble(struct array_find *f, bool read_only, struct error *err)
{
	struct disk_open_options disk_options = {.read_only = read_only, .exclusive = !read_only};
	struct array_open_options options;
	int code = cli_disks_open(&f->disks, &disk_options, err);

	if (code)
		return code;
	array_open_options_init(&options);
	options.name = f->name;
	options.read_only = read_only;
	return array_open(&f->array, &options, f->disks.disks, (unsigned)f->disks.count, err);
}

int array_find_open(struct array_find *f, bool read_only, struct error *err)
{
	struct candidates c = {0};
	const char *name = "", *id = "";
	int code = gather(f, &c, err);

	code = code ? code : choose(f, &c, &name, &id, err);
	if (!code) {
		snprintf(f->name, sizeof(f->name), "%s", name);
		code = take_members(f, &c, id, err);
	}
	candidates_release(&c);
	code = code ? code : assemble(f, read_only, err);
	/* What a crash left half done is finished first; who only reads could not tell what is true. */
	if (code == ERR_READ_ONLY && read_only) {
		cli_say("%s was not closed cleanly: what its log holds is written first", f->name);
		cli_disks_close(&f->disks);
		error_clear(err);
		code = assemble(f, false, err);
	}
	return code;
}

int array_find_close(struct array_find *f, struct error *err)
{
	int code = f->array ? array_close(f->array, err) : 0;

	f->array = NULL;
	cli_disks_release(&f->disks);
	return err && err->code ? err->code : code;
}

int array_find_names(const struct array_find *f, char ***ret_names, size_t *ret_count, struct error *err)
{
	struct candidates c = {0};
	char **names;
	size_t count = 0;
	int code;

	if (!f->word_count)
		return known_names(&known_arrays, ret_names, ret_count, err);
	code = gather(f, &c, err);
	names = code ? NULL : calloc(max_of(c.specs.count, (size_t)1), sizeof(*names));
	if (!code && !names)
		code = error_set(err, ERR_MEMORY, "out of memory");
	for (size_t i = 0; !code && i < c.specs.count; i++) {
		bool seen = !c.labels[i].array_name[0];

		for (size_t k = 0; k < count && !seen; k++)
			seen = strcmp(names[k], c.labels[i].array_name) == 0;
		if (!seen && !(names[count++] = strdup(c.labels[i].array_name)))
			code = error_set(err, ERR_MEMORY, "out of memory");
	}
	candidates_release(&c);
	if (code) {
		words_free(names, count);
		return code;
	}
	*ret_names = names;
	*ret_count = count;
	return 0;
}
