#include "cli.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* --- --destroy ----------------------------------------------------------------------------------- */

int cli_destroy_add(struct cli_destroy *d, const char *word, struct error *err)
{
	const char **names;

	if (strcmp(word, "all-named") == 0) {
		d->all = true;
		return 0;
	}
	names = realloc(d->names, (d->count + 1) * sizeof(*names));
	if (!names)
		return error_set(err, ERR_MEMORY, "out of memory");
	d->names = names;
	d->names[d->count++] = word;
	return 0;
}

static bool same_path(const char *a, const char *b)
{
	char real_a[PATH_MAX], real_b[PATH_MAX];

	if (strcmp(a, b) == 0)
		return true;
	return realpath(a, real_a) && realpath(b, real_b) && strcmp(real_a, real_b) == 0;
}

bool cli_destroy_names(const struct cli_destroy *d, const char *path)
{
	if (d->all)
		return true;
	for (size_t i = 0; i < d->count; i++)
		if (same_path(d->names[i], path))
			return true;
	return false;
}

int cli_destroy_check(const struct cli_destroy *d, const struct cli_disks *disks, struct error *err)
{
	for (size_t i = 0; i < d->count; i++) {
		bool found = false;

		for (size_t k = 0; k < disks->specs.count && !found; k++)
			found = disks->specs.items[k].path && same_path(d->names[i], disks->specs.items[k].path);
		if (!found)
			return error_set(
				err, ERR_USAGE, "--destroy names %s, which is not one of the disks given", d->names[i]);
	}
	return 0;
}

void cli_destroy_release(struct cli_destroy *d)
{
	free(d->names);
	*d = (struct cli_destroy){0};
}

/* --- looking ------------------------------------------------------------------------------------- */

static int check_one(const struct disk_spec *spec, const struct disk_facts *facts, const struct cli_disk_rules *rules,
	struct error *err)
{
	char least[SIZE_TEXT_BYTES], size[SIZE_TEXT_BYTES];

	if (!facts->exists)
		return error_set(err, ERR_NOT_FOUND, "%s: there is no such file or device", spec->path);
	if (facts->is_directory && !rules->directories_allowed)
		return error_set(err, ERR_USAGE, "%s is a directory; a disk is a block device or a file", spec->path);
	if (!facts->is_directory && facts->size_bytes < rules->least_bytes)
		return error_set(err, ERR_TOO_SMALL, "%s is too small: it has %s, at least %s are needed", spec->path,
			size_format_binary(facts->size_bytes, size), size_format_binary(rules->least_bytes, least));
	return 0;
}

static int check_twice(const struct cli_disks *d, size_t index, struct error *err)
{
	const struct disk_facts *facts = &d->facts[index];

	for (size_t i = 0; i < index; i++) {
		const struct disk_facts *other = &d->facts[i];

		if (!d->specs.items[i].path || facts->device != other->device || facts->inode != other->inode)
			continue;
		if (strcmp(d->specs.items[i].path, d->specs.items[index].path) == 0)
			return error_set(err, ERR_USAGE, "%s is given twice", d->specs.items[index].path);
		return error_set(err, ERR_USAGE, "%s and %s are the same disk", d->specs.items[i].path,
			d->specs.items[index].path);
	}
	return 0;
}

int cli_disks_inspect(struct cli_disks *d, const struct cli_disk_rules *rules, struct error *err)
{
	free(d->facts);
	d->facts = calloc(max_of(d->specs.count, (size_t)1), sizeof(*d->facts));
	if (!d->facts)
		return error_set(err, ERR_MEMORY, "out of memory");
	for (size_t i = 0; i < d->specs.count; i++) {
		const struct disk_spec *spec = &d->specs.items[i];
		int code = 0;

		if (!spec->path) {
			if (!rules->memory_allowed)
				return error_set(err, ERR_USAGE,
					"%s: a memory disk forgets all when the command ends, so it is no use here",
					spec->text);
			continue;
		}
		code = disk_inspect(spec->path, &d->facts[i], err);
		code = code ? code : check_one(spec, &d->facts[i], rules, err);
		code = code ? code : check_twice(d, i, err);
		if (code)
			return code;
	}
	return 0;
}

int cli_disks_guard(const struct cli_disks *d, const struct cli_destroy *destroy, struct error *err)
{
	sp_assert(d->facts || d->specs.count == 0);
	for (size_t i = 0; i < d->specs.count; i++) {
		const char *path = d->specs.items[i].path;
		int code;

		if (!path || d->facts[i].is_directory)
			continue;
		code = disk_guard(&d->facts[i], cli_destroy_names(destroy, path), err);
		if (code)
			return code;
	}
	return 0;
}

/* --- opening ------------------------------------------------------------------------------------- */

int cli_disks_open(struct cli_disks *d, const struct disk_open_options *o, struct error *err)
{
	sp_assert(!d->disks);
	d->disks = calloc(max_of(d->specs.count, (size_t)1), sizeof(*d->disks));
	if (!d->disks)
		return error_set(err, ERR_MEMORY, "out of memory");
	for (size_t i = 0; i < d->specs.count; i++) {
		int code = disk_open(&d->specs.items[i], o, &d->disks[i], err);

		if (code) {
			cli_disks_close(d);
			return code;
		}
		d->count = i + 1;
	}
	return 0;
}

void cli_disks_close(struct cli_disks *d)
{
	for (size_t i = 0; i < d->count; i++)
		disk_close(d->disks[i]);
	free(d->disks);
	d->disks = NULL;
	d->count = 0;
}

void cli_disks_release(struct cli_disks *d)
{
	cli_disks_close(d);
	free(d->facts);
	d->facts = NULL;
	disk_specs_release(&d->specs);
}

char *cli_disk_describe(const struct cli_disks *d, size_t index, char *text, size_t bytes)
{
	const struct disk_spec *spec = &d->specs.items[index];
	const struct disk_facts *f = d->facts ? &d->facts[index] : NULL;
	char size[SIZE_TEXT_BYTES];

	if (!spec->path || !f) {
		snprintf(text, bytes, "%s", spec->text);
		return text;
	}
	size_format_decimal(f->size_bytes, size);
	if (f->model[0] && f->serial[0])
		snprintf(text, bytes, "%s  %s, serial %s, %s", spec->path, f->model, f->serial, size);
	else if (f->model[0])
		snprintf(text, bytes, "%s  %s, %s", spec->path, f->model, size);
	else
		snprintf(text, bytes, "%s  %s, %s", spec->path,
			f->is_directory      ? "directory"
			: f->is_block_device ? "block device"
					     : "file",
			size);
	return text;
}
