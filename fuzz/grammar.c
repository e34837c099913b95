/*
 * The DISK grammar: any word is taken whole or refused with one sentence.
 *
 *   - no word crashes, hangs or leaks;
 *   - what is refused leaves the list as it was and has a sentence and a code of class 2 (or no memory);
 *   - what is taken names its disks uniquely, and each disk's own text, given again, means the same disk.
 */
#include <stdio.h>
#include <string.h>

#include "disk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(const struct disk_specs *list, int rc, const struct error *err)
{
	sp_assert(list->count == 0);
	sp_assert(err->code == rc && err->text[0]);
	sp_assert(rc == ERR_MEMORY || error_exit_status(rc) == 2);
}

static bool same(const struct disk_spec *a, const struct disk_spec *b)
{
	if (a->memory_bytes != b->memory_bytes || a->wrapper_count != b->wrapper_count)
		return false;
	if ((a->path == NULL) != (b->path == NULL) || (a->path && strcmp(a->path, b->path) != 0))
		return false;
	for (unsigned i = 0; i < a->wrapper_count; i++)
		if (strcmp(a->wrappers[i].kind, b->wrappers[i].kind) != 0 ||
			strcmp(a->wrappers[i].value, b->wrappers[i].value) != 0)
			return false;
	return true;
}

static void check_disks(const struct disk_specs *list)
{
	sp_assert(list->count >= 1 && list->count <= 256);
	for (size_t i = 0; i < list->count; i++) {
		const struct disk_spec *s = &list->items[i];
		sp_assert(s->text && s->name && s->index == i && s->wrapper_count <= DISK_LAYERS_MAX);
		sp_assert(s->path ? s->memory_bytes == 0 : s->memory_bytes > 0 && s->memory_bytes % 512 == 0);
		sp_assert(i == 0 || strcmp(s->name, list->items[i - 1].name) != 0);
	}
	struct disk_specs again = {0};
	struct error err = ERROR_INIT;
	int rc = disk_specs_add(&again, list->items[0].text, &err);
	sp_assert(rc == 0 && again.count == 1 && same(&list->items[0], &again.items[0]));
	disk_specs_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct disk_specs list = {0};
	struct error err = ERROR_INIT;
	char word[2048];
	size = min_of(size, sizeof word - 1);
	memcpy(word, data, size);
	word[size] = '\0';
	int rc = disk_specs_add(&list, word, &err);
	if (rc == 0)
		check_disks(&list);
	else
		check_refusal(&list, rc, &err);
	disk_specs_release(&list);

	error_clear(&err);
	rc = disk_specs_add_model(&list, word, 1 << 20, &err);
	if (rc != 0)
		check_refusal(&list, rc, &err);
	disk_specs_release(&list);
	return 0;
}
