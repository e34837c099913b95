/*
 * libspindle: the public library, a thin layer over disk, array and pool (pool.c).
 *
 * Nothing is decided here. Handles wrap what lies below, errors are copied out, names become numbers. A disk handle
 * either owns its disk (spindle_disk_open) or borrows one (spindle_disk_wrap, for the programs of this project).
 */
#include <stdio.h>
#include <string.h>

#include "array.h"
#include "internal.h"

struct spindle_array {
	struct array *array;
	struct os_mutex lock; /* of the status object */
	struct array_status status;
};

_Static_assert(sizeof((struct spindle_error *)0)->text == ERROR_TEXT_BYTES, "an error is copied out whole");
_Static_assert(sizeof((struct spindle_array_info *)0)->name == ARRAY_NAME_BYTES, "a name fits");

const char *spindle_version(void)
{
	return SPINDLE_VERSION;
}

int spindle__give(int rc, const struct error *err, struct spindle_error *ret)
{
	if (rc && ret) {
		ret->code = rc;
		memcpy(ret->text, err->code ? err->text : error_sentence(rc),
			err->code ? sizeof ret->text : strlen(error_sentence(rc)) + 1);
	}
	return rc;
}

/* --- disks ------------------------------------------------------------------------------------ */

int spindle_disk_wrap(struct disk *disk, struct spindle_disk **ret_handle, struct error *err)
{
	struct spindle_disk *h = calloc(1, sizeof *h);

	if (!h)
		return error_set(err, ERR_MEMORY, "out of memory for a disk handle");
	h->disk = disk;
	*ret_handle = h;
	return 0;
}

void spindle_disk_unwrap(struct spindle_disk *handle)
{
	if (handle && handle->owned)
		disk_close(handle->disk);
	free(handle);
}

static int disk_open_one(const char *spec, unsigned flags, struct spindle_disk **ret, struct error *err)
{
	struct disk_open_options o = {.read_only = flags & SPINDLE_READ_ONLY, .exclusive = !(flags & SPINDLE_SHARED)};
	struct disk_specs specs = {0};
	struct disk *disk = NULL;
	int rc = flags & ~(SPINDLE_READ_ONLY | SPINDLE_SHARED)
			 ? error_set(err, ERR_USAGE, "flags %#x are not known", flags)
			 : disk_specs_add(&specs, spec, err);

	if (!rc && specs.count != 1)
		rc = error_set(err, ERR_USAGE, "%s names %zu disks; a handle is for one", spec, specs.count);
	if (!rc)
		rc = disk_open(&specs.items[0], &o, &disk, err);
	disk_specs_release(&specs);
	if (rc)
		return rc;
	rc = spindle_disk_wrap(disk, ret, err);
	if (rc)
		disk_close(disk);
	else
		(*ret)->owned = true;
	return rc;
}

int spindle_disk_open(const char *spec, unsigned flags, struct spindle_disk **ret_disk, struct spindle_error *ret_err)
{
	struct error err = ERROR_INIT;

	return spindle__give(disk_open_one(spec, flags, ret_disk, &err), &err, ret_err);
}

void spindle_disk_close(struct spindle_disk *disk)
{
	spindle_disk_unwrap(disk);
}

int spindle__disks(const char *what, unsigned most, struct spindle_disk *const *handles, unsigned count,
	struct disk **ret, struct error *err)
{
	if (count == 0 || count > most)
		return error_set(err, ERR_USAGE, "%s has 1 to %u disks, got %u", what, most, count);
	for (unsigned i = 0; i < count; i++)
		ret[i] = handles[i]->disk;
	return 0;
}

/* --- arrays ----------------------------------------------------------------------------------- */

static int hole_parse(const char *text, enum array_hole *ret, struct error *err)
{
	if (!text || !strcmp(text, "log"))
		*ret = ARRAY_HOLE_LOG;
	else if (!strcmp(text, "bitmap"))
		*ret = ARRAY_HOLE_BITMAP;
	else
		return error_set(err, ERR_USAGE, "unknown write hole \"%.40s\"; known are log and bitmap", text);
	return 0;
}

int spindle_array_create(const struct spindle_array_options *options, struct spindle_disk *const *disks,
	unsigned disk_count, struct spindle_error *ret_err)
{
	struct array_create_options o = {.name = options->name,
		.layout = options->layout,
		.chunk_bytes = options->chunk_bytes,
		.log = options->log_disk ? options->log_disk->disk : NULL,
		.force = options->force};
	struct disk *list[LAYOUT_DISKS_MAX];
	struct error err = ERROR_INIT;
	int rc = hole_parse(options->write_hole, &o.hole, &err);

	if (!rc && !options->layout)
		rc = error_set(&err, ERR_USAGE, "no layout is given");
	if (!rc && options->rotation)
		rc = layout_rotation_parse(options->rotation, &o.rotation, &err);
	if (!rc)
		rc = spindle__disks("an array", LAYOUT_DISKS_MAX, disks, disk_count, list, &err);
	if (!rc)
		rc = array_create(&o, list, disk_count, &err);
	return spindle__give(rc, &err, ret_err);
}

int spindle_array_open(const char *name, struct spindle_disk *const *disks, unsigned disk_count, unsigned flags,
	struct spindle_array **ret_array, struct spindle_error *ret_err)
{
	struct disk *list[LAYOUT_DISKS_MAX];
	struct array_open_options o;
	struct error err = ERROR_INIT;
	struct spindle_array *h = calloc(1, sizeof *h);
	int rc = h ? 0 : error_set(&err, ERR_MEMORY, "out of memory for an array handle");

	array_open_options_init(&o);
	o.name = name;
	o.read_only = flags & SPINDLE_READ_ONLY;
	if (!rc && flags & ~SPINDLE_READ_ONLY)
		rc = error_set(&err, ERR_USAGE, "flags %#x are not known", flags);
	if (!rc)
		rc = spindle__disks("an array", LAYOUT_DISKS_MAX, disks, disk_count, list, &err);
	if (!rc)
		rc = array_open(&h->array, &o, list, disk_count, &err);
	if (rc) {
		free(h);
		return spindle__give(rc, &err, ret_err);
	}
	os_mutex_init(&h->lock);
	*ret_array = h;
	return 0;
}

int spindle_array_close(struct spindle_array *array, struct spindle_error *ret_err)
{
	struct error err = ERROR_INIT;

	if (!array)
		return 0;
	int rc = array_close(array->array, &err);
	os_mutex_destroy(&array->lock);
	free(array);
	return spindle__give(rc, &err, ret_err);
}

uint64_t spindle_array_size(const struct spindle_array *array)
{
	return array_size_bytes(array->array);
}
uint32_t spindle_array_sector(const struct spindle_array *array)
{
	return array_sector_bytes(array->array);
}

int spindle_array_read(
	struct spindle_array *array, uint64_t offset, void *buffer, uint64_t length, struct spindle_error *ret_err)
{
	struct error err;

	err.code = 0;
	return spindle__give(array_read(array->array, offset, buffer, length, &err), &err, ret_err);
}

int spindle_array_write(struct spindle_array *array, uint64_t offset, const void *buffer, uint64_t length,
	struct spindle_error *ret_err)
{
	struct error err;

	err.code = 0;
	return spindle__give(array_write(array->array, offset, buffer, length, &err), &err, ret_err);
}

int spindle_array_flush(struct spindle_array *array, struct spindle_error *ret_err)
{
	struct error err = ERROR_INIT;

	return spindle__give(array_flush(array->array, &err), &err, ret_err);
}

void spindle_array_drop_cache(struct spindle_array *array)
{
	array_drop_cache(array->array);
}

void spindle_array_info(struct spindle_array *array, struct spindle_array_info *ret)
{
	struct array_status *s = &array->status;
	os_scoped_lock(&array->lock);

	array_status_get(array->array, s);
	*ret = (struct spindle_array_info){.size = s->size_bytes,
		.chunk = s->layout.chunk_bytes,
		.members = s->member_count,
		.failures_survived = layout_failures_survived(&s->layout),
		.failures_left = s->failures_left,
		.rows_dirty = s->counters.rows_dirty,
		.rows_lost = s->counters.rows_lost};
	memcpy(ret->name, s->name, sizeof ret->name);
	memcpy(ret->id, s->id, sizeof ret->id);
	memcpy(ret->layout, s->layout_name, sizeof ret->layout);
	snprintf(ret->state, sizeof ret->state, "%s", array_state_names[s->state]);
	for (unsigned i = 0; i < s->member_count; i++) {
		ret->members_online += s->members[i].state == ARRAY_MEMBER_ONLINE;
		if (s->members[i].slow && !ret->slow_member[0])
			memcpy(ret->slow_member, s->members[i].name, sizeof ret->slow_member);
	}
}
