/* An array, through spindle.h like any other program. */
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "spindle_disk.h"

#define ARRAY_NAME "compare"

struct target_array {
	struct target target;
	struct spindle_array *array;
	char state[16];
	unsigned handle_count;
	struct spindle_disk **handles;
	struct disk *disks[];
};

/* spindle.h has an error of its own; the codes are the same. */
static int pass_on(int status, const struct spindle_error *from, struct error *err)
{
	return status < 0 ? error_set(err, status, "%s", from->text[0] ? from->text : error_sentence(status)) : 0;
}

static struct target_array *array_of(struct target *t)
{
	return container_of(t, struct target_array, target);
}

static int array_target_read(
	struct target *t, uint64_t offset_bytes, void *buffer, uint64_t length_bytes, struct error *err)
{
	struct spindle_error e = {0};

	return pass_on(spindle_array_read(array_of(t)->array, offset_bytes, buffer, length_bytes, &e), &e, err);
}

static int array_target_write(
	struct target *t, uint64_t offset_bytes, const void *buffer, uint64_t length_bytes, struct error *err)
{
	struct spindle_error e = {0};

	return pass_on(spindle_array_write(array_of(t)->array, offset_bytes, buffer, length_bytes, &e), &e, err);
}

static int array_target_flush(struct target *t, struct error *err)
{
	struct spindle_error e = {0};

	return pass_on(spindle_array_flush(array_of(t)->array, &e), &e, err);
}

static int array_target_drop_cache(struct target *t, struct error *err)
{
	spindle_array_drop_cache(array_of(t)->array);
	return 0;
}

static void array_target_traffic(struct target *t, struct target_traffic *ret)
{
	traffic_of_disks(t->disks, t->disk_count, ret);
}

static void array_target_refresh(struct target *t)
{
	struct target_array *self = array_of(t);
	struct spindle_array_info info;

	spindle_array_info(self->array, &info);
	snprintf(self->state, sizeof(self->state), "%s", info.state);
	t->failures_survived = info.failures_survived;
}

static void array_target_close(struct target *t)
{
	struct target_array *self = array_of(t);

	if (self->array)
		spindle_array_close(self->array, NULL);
	for (unsigned i = 0; i < self->handle_count; i++)
		spindle_disk_unwrap(self->handles[i]);
	free(self->handles);
	free(self);
}

static const struct target_ops array_target_ops = {
	.kind = "array",
	.read = array_target_read,
	.write = array_target_write,
	.flush = array_target_flush,
	.drop_cache = array_target_drop_cache,
	.traffic = array_target_traffic,
	.close = array_target_close,
	.refresh = array_target_refresh,
};

static int make_array(struct target_array *self, const struct target_array_options *o, struct error *err)
{
	struct spindle_error e = {0};
	const struct spindle_array_options options = {
		.name = ARRAY_NAME,
		.layout = o->layout,
		.chunk_bytes = o->chunk_bytes,
		.rotation = o->rotation,
		.write_hole = o->write_hole,
		.force = true,
	};

	int status = spindle_array_create(&options, self->handles, self->handle_count, &e);
	if (status == 0)
		status = spindle_array_open(ARRAY_NAME, self->handles, self->handle_count, 0, &self->array, &e);
	return pass_on(status, &e, err);
}

static int wrap_disks(struct target_array *self, struct disk *const *disks, unsigned disk_count, struct error *err)
{
	self->handles = calloc(disk_count, sizeof(struct spindle_disk *));
	if (!self->handles)
		return error_set(err, ERR_MEMORY, "no memory for a target of %u disks", disk_count);
	for (unsigned i = 0; i < disk_count; i++) {
		int status = spindle_disk_wrap(disks[i], &self->handles[i], err);
		if (status < 0)
			return status;
		self->disks[i] = disks[i];
		self->handle_count++;
	}
	return 0;
}

int target_open_array(const struct target_array_options *o, struct disk *const *disks, unsigned disk_count,
	struct target **ret_target, double *ret_create_s, struct error *err)
{
	struct target_array *self = calloc(1, sizeof(*self) + disk_count * sizeof(disks[0]));

	if (!self)
		return error_set(err, ERR_MEMORY, "no memory for a target of %u disks", disk_count);
	struct target *t = &self->target;
	*t = (struct target){.ops = &array_target_ops,
		.road = "library",
		.disk_count = disk_count,
		.disks = self->disks,
		.direct_asked = true,
		.direct_effective = true,
		.state = self->state};
	uint64_t from_ns = os_now_ns();
	int status = wrap_disks(self, disks, disk_count, err);
	if (status == 0)
		status = make_array(self, o, err);
	if (status < 0) {
		array_target_close(t);
		return status;
	}
	*ret_create_s = (double)(os_now_ns() - from_ns) / 1e9;
	for (unsigned i = 0; i < disk_count; i++)
		t->direct_effective &= disk_traits(disks[i])->direct || disk_traits(disks[i])->is_memory;
	t->size_bytes = spindle_array_size(self->array);
	t->align_bytes = spindle_array_sector(self->array);
	snprintf(t->name, sizeof(t->name), "%s over %u disks", o->layout, disk_count);
	array_target_refresh(t);
	*ret_target = t;
	return 0;
}
