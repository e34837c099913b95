/* Bare disks: one, with its queue, or several side by side, one after the other in the address space. */
#include <stdio.h>

#include "internal.h"

struct target_disks {
	struct target target;
	uint64_t each_bytes;
	struct disk *disks[];
};

static int place(struct target *t, uint64_t offset_bytes, uint64_t length_bytes, struct disk **ret,
	uint64_t *ret_offset, struct error *err)
{
	struct target_disks *self = container_of(t, struct target_disks, target);
	uint64_t disk = offset_bytes / self->each_bytes, at = offset_bytes % self->each_bytes;

	if (disk >= t->disk_count || length_bytes > self->each_bytes - at)
		return error_set(err, ERR_USAGE, "%s: %llu bytes at %llu go beyond one disk", t->name,
			(unsigned long long)length_bytes, (unsigned long long)offset_bytes);
	*ret = self->disks[disk];
	*ret_offset = at;
	return 0;
}

static int disks_read(struct target *t, uint64_t offset_bytes, void *buffer, uint64_t length_bytes, struct error *err)
{
	struct disk *d = NULL;
	uint64_t at = 0;
	int status = place(t, offset_bytes, length_bytes, &d, &at, err);

	return status < 0 ? status : disk_read(d, at, buffer, length_bytes, err);
}

static int disks_write(
	struct target *t, uint64_t offset_bytes, const void *buffer, uint64_t length_bytes, struct error *err)
{
	struct disk *d = NULL;
	uint64_t at = 0;
	int status = place(t, offset_bytes, length_bytes, &d, &at, err);

	return status < 0 ? status : disk_write(d, at, buffer, length_bytes, err);
}

static int disks_flush(struct target *t, struct error *err)
{
	int first = 0;

	for (unsigned i = 0; i < t->disk_count; i++) {
		int status = disk_flush(t->disks[i], err);
		first = first ? first : status;
	}
	return first;
}

static void disks_traffic(struct target *t, struct target_traffic *ret)
{
	traffic_of_disks(t->disks, t->disk_count, ret);
}

static struct disk *disks_first(struct target *t)
{
	return t->disks[0];
}

static void disks_close(struct target *t)
{
	free(container_of(t, struct target_disks, target));
}

static const struct target_ops disk_target_ops = {
	.kind = "disk",
	.read = disks_read,
	.write = disks_write,
	.flush = disks_flush,
	.traffic = disks_traffic,
	.disk = disks_first,
	.close = disks_close,
};
static const struct target_ops disks_target_ops = {
	.kind = "disks",
	.read = disks_read,
	.write = disks_write,
	.flush = disks_flush,
	.traffic = disks_traffic,
	.close = disks_close,
};

int target_open_disks(struct disk *const *disks, unsigned disk_count, struct target **ret_target, struct error *err)
{
	struct target_disks *self = calloc(1, sizeof(*self) + disk_count * sizeof(disks[0]));

	sp_assert(disk_count > 0);
	if (!self)
		return error_set(err, ERR_MEMORY, "no memory for a target of %u disks", disk_count);
	struct target *t = &self->target;
	*t = (struct target){.ops = disk_count == 1 ? &disk_target_ops : &disks_target_ops,
		.road = "block",
		.align_bytes = 512,
		.disk_count = disk_count,
		.disks = self->disks,
		.direct_asked = true,
		.direct_effective = true,
		.state = "healthy"};
	self->each_bytes = UINT64_MAX;
	for (unsigned i = 0; i < disk_count; i++) {
		const struct disk_traits *traits = disk_traits(disks[i]);
		self->disks[i] = disks[i];
		self->each_bytes = min_of(self->each_bytes, traits->size_bytes);
		t->align_bytes = max_of(t->align_bytes, traits->logical_bytes);
		t->direct_effective &= traits->direct || traits->is_memory;
	}
	self->each_bytes = round_down_u64(self->each_bytes, t->align_bytes);
	t->size_bytes = self->each_bytes * disk_count;
	if (disk_count == 1)
		snprintf(t->name, sizeof(t->name), "%s", disk_traits(disks[0])->name);
	else
		snprintf(t->name, sizeof(t->name), "%u disks side by side", disk_count);
	*ret_target = t;
	return 0;
}

int target_open_disk(struct disk *disk, struct target **ret_target, struct error *err)
{
	return target_open_disks(&disk, 1, ret_target, err);
}
