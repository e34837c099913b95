/* What all kinds of targets share. */
#include <stdio.h>
#include <string.h>

#include "internal.h"

void target_close(struct target *t)
{
	if (t)
		t->ops->close(t);
}

bool target_is_modelled(const struct target *t)
{
	if (os_is_simulated())
		return true;
	for (unsigned i = 0; i < t->disk_count; i++) {
		const struct disk_traits *traits = disk_traits(t->disks[i]);
		if (!traits->is_modelled && !traits->is_memory)
			return false;
	}
	return t->disk_count > 0;
}

bool target_is_rotating(const struct target *t)
{
	for (unsigned i = 0; i < t->disk_count; i++)
		if (disk_traits(t->disks[i])->rotating)
			return true;
	return t->rotating;
}

int target_open_path(
	const char *path, const struct target_path_options *o, struct target **ret_target, struct error *err)
{
	if (!strcmp(path, "cpu:"))
		return target_open_cpu(ret_target, err);
	if (strncmp(path, "null:", 5))
		return target_open_file(path, o, ret_target, err);
	uint64_t bytes = o->size_bytes;
	if (path[5]) {
		int status = size_parse(path + 5, &bytes, err);
		if (status < 0)
			return status;
	}
	return target_open_null(bytes, ret_target, err);
}
