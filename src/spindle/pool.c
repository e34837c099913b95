/* libspindle: pools and their volumes. */
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "pool.h"

#define POOL_DISKS_MOST 255u
#define POOL_GROUPS_MOST 128u

struct spindle_pool {
	struct pool *pool;
	struct os_mutex lock; /* of the status object */
	struct pool_status status;
};
struct spindle_volume {
	struct volume *volume;
};

/* "parity1" or "parity1:8" */
static int group_parse(const struct spindle_pool_group *g, unsigned first, struct pool_vdev *ret, struct error *err)
{
	const char *colon = g->kind ? strchr(g->kind, ':') : NULL;
	size_t length = colon ? (size_t)(colon - g->kind) : g->kind ? strlen(g->kind) : 0;
	uint64_t width = 0;

	if (length == 0 || length >= sizeof ret->kind)
		return error_set(err, ERR_USAGE, "\"%.40s\" is no kind of group", g->kind ? g->kind : "");
	if (colon && number_parse("the width of a group", colon + 1, 1, POOL_DISKS_MOST, &width, err))
		return ERR_USAGE;
	*ret = (struct pool_vdev){.width = (unsigned)width, .first = first, .count = g->disks};
	memcpy(ret->kind, g->kind, length);
	return 0;
}

int spindle_pool_create(const struct spindle_pool_options *options, struct spindle_disk *const *disks,
	unsigned disk_count, struct spindle_error *ret_err)
{
	struct disk *list[POOL_DISKS_MOST];
	struct pool_vdev vdevs[POOL_GROUPS_MOST];
	struct pool_create_options o = {.name = options->name,
		.vdevs = vdevs,
		.vdev_count = options->group_count,
		.force = options->force,
		.log_bytes = options->log_bytes};
	struct error err = ERROR_INIT;
	unsigned first = 0;
	int rc = spindle__disks("a pool", POOL_DISKS_MOST, disks, disk_count, list, &err);

	if (!rc && options->group_count > POOL_GROUPS_MOST)
		rc = error_set(
			&err, ERR_USAGE, "a pool has 1 to %u groups, got %u", POOL_GROUPS_MOST, options->group_count);
	for (unsigned i = 0; !rc && i < options->group_count; first += options->groups[i++].disks)
		rc = group_parse(&options->groups[i], first, &vdevs[i], &err);
	if (!rc)
		rc = pool_create(&o, list, disk_count, &err);
	return spindle__give(rc, &err, ret_err);
}

int spindle_pool_open(const char *name, struct spindle_disk *const *disks, unsigned disk_count,
	const struct spindle_pool_open_options *options, struct spindle_pool **ret_pool, struct spindle_error *ret_err)
{
	static const struct spindle_pool_open_options defaults;
	struct disk *list[POOL_DISKS_MOST];
	struct pool_open_options o;
	struct error err = ERROR_INIT;
	struct spindle_pool *h = calloc(1, sizeof *h);
	int rc = h ? 0 : error_set(&err, ERR_MEMORY, "out of memory for a pool handle");

	options = options ? options : &defaults;
	pool_open_options_init(&o);
	o.name = name;
	o.read_only = options->flags & SPINDLE_READ_ONLY;
	o.force = options->flags & SPINDLE_FORCE;
	o.rewind = options->rewind;
	if (options->cache_bytes)
		o.tuning.cache_bytes = options->cache_bytes;
	if (options->dirty_bytes)
		o.tuning.dirty_bytes = options->dirty_bytes;
	if (!rc && options->flags & ~(SPINDLE_READ_ONLY | SPINDLE_FORCE))
		rc = error_set(&err, ERR_USAGE, "flags %#x are not known", options->flags);
	if (!rc)
		rc = spindle__disks("a pool", POOL_DISKS_MOST, disks, disk_count, list, &err);
	if (!rc)
		rc = pool_open(&h->pool, &o, list, disk_count, &err);
	if (rc) {
		free(h);
		return spindle__give(rc, &err, ret_err);
	}
	os_mutex_init(&h->lock);
	*ret_pool = h;
	return 0;
}

static int pool_finish(
	struct spindle_pool *pool, int (*finish)(struct pool *p, struct error *err), struct spindle_error *ret_err)
{
	struct error err = ERROR_INIT;

	if (!pool)
		return 0;
	int rc = finish(pool->pool, &err);
	os_mutex_destroy(&pool->lock);
	free(pool);
	return spindle__give(rc, &err, ret_err);
}

int spindle_pool_close(struct spindle_pool *pool, struct spindle_error *ret_err)
{
	return pool_finish(pool, pool_close, ret_err);
}

int spindle_pool_export(struct spindle_pool *pool, struct spindle_error *ret_err)
{
	return pool_finish(pool, pool_export, ret_err);
}

int spindle_pool_commit(struct spindle_pool *pool, struct spindle_error *ret_err)
{
	struct error err = ERROR_INIT;

	return spindle__give(pool_commit(pool->pool, &err), &err, ret_err);
}

void spindle_pool_drop_cache(struct spindle_pool *pool)
{
	pool_drop_cache(pool->pool);
}

void spindle_pool_info(struct spindle_pool *pool, struct spindle_pool_info *ret)
{
	static const char *const states[] = {"online", "degraded", "suspended"};
	struct pool_status *s = &pool->status;
	os_scoped_lock(&pool->lock);

	pool_status_get(pool->pool, s);
	*ret = (struct spindle_pool_info){.size = s->space.size_bytes,
		.used = s->space.used_bytes,
		.available = s->space.available_bytes,
		.disks = s->disk_count,
		.groups = s->group_count,
		.read_only = s->read_only_reason[0] != 0,
		.failures_left = s->group_count ? s->groups[0].failures_left : 0,
		.cache_hits = s->counters.cache_hits,
		.cache_misses = s->counters.cache_misses,
		.prefetch_bytes = s->counters.prefetch_bytes,
		.prefetch_hit_bytes = s->counters.prefetch_hit_bytes,
		.dirty_bytes = s->counters.dirty_bytes,
		.data_bytes = s->counters.data_bytes,
		.parity_bytes = s->counters.parity_bytes,
		.metadata_bytes = s->counters.metadata_bytes,
		.log_bytes = s->counters.log_bytes,
		.repaired = s->counters.repaired,
		.unrecoverable = s->counters.unrecoverable};
	memcpy(ret->name, s->name, sizeof ret->name);
	memcpy(ret->id, s->id, sizeof ret->id);
	snprintf(ret->state, sizeof ret->state, "%s", states[s->state]);
	for (unsigned i = 0; i < s->disk_count; i++)
		ret->disks_online += !strcmp(s->disks[i].state, "ONLINE");
	for (unsigned i = 1; i < s->group_count; i++)
		if (s->groups[i].failures_left < ret->failures_left)
			ret->failures_left = s->groups[i].failures_left;
}

/* --- volumes ------------------------------------------------------------------------------------------- */

int spindle_volume_create(struct spindle_pool *pool, const char *path, uint64_t bytes, uint32_t record_bytes,
	const char *const *properties, struct spindle_error *ret_err)
{
	struct error err = ERROR_INIT;

	return spindle__give(
		pool_volume_create(pool->pool, path, bytes, record_bytes, true, properties, &err), &err, ret_err);
}

int spindle_volume_open(
	struct spindle_pool *pool, const char *path, struct spindle_volume **ret_volume, struct spindle_error *ret_err)
{
	struct error err = ERROR_INIT;
	struct spindle_volume *h = calloc(1, sizeof *h);
	int rc = h ? volume_open(pool->pool, path, &h->volume, &err)
		   : error_set(&err, ERR_MEMORY, "out of memory for a volume handle");

	if (rc)
		free(h);
	else
		*ret_volume = h;
	return spindle__give(rc, &err, ret_err);
}

void spindle_volume_close(struct spindle_volume *volume)
{
	if (volume)
		volume_close(volume->volume);
	free(volume);
}

uint64_t spindle_volume_size(const struct spindle_volume *volume)
{
	return volume_size_bytes(volume->volume);
}
uint32_t spindle_volume_record(const struct spindle_volume *volume)
{
	return volume_record_bytes(volume->volume);
}

int spindle_volume_read(
	struct spindle_volume *volume, uint64_t offset, void *buffer, uint64_t length, struct spindle_error *ret_err)
{
	struct error err;

	err.code = 0;
	return spindle__give(volume_read(volume->volume, offset, buffer, length, &err), &err, ret_err);
}

int spindle_volume_write(struct spindle_volume *volume, uint64_t offset, const void *buffer, uint64_t length,
	struct spindle_error *ret_err)
{
	struct error err;

	err.code = 0;
	return spindle__give(volume_write(volume->volume, offset, buffer, length, &err), &err, ret_err);
}

int spindle_volume_flush(struct spindle_volume *volume, struct spindle_error *ret_err)
{
	struct error err = ERROR_INIT;

	return spindle__give(volume_flush(volume->volume, &err), &err, ret_err);
}

int spindle_volume_discard(
	struct spindle_volume *volume, uint64_t offset, uint64_t length, struct spindle_error *ret_err)
{
	struct error err = ERROR_INIT;

	return spindle__give(volume_discard(volume->volume, offset, length, &err), &err, ret_err);
}
