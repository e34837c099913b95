/*
 * A volume of a pool, through spindle.h like any other program. One pool serves several volumes, each a target: tests of
 * 8 KiB want 8 KiB records, the others 128 KiB ones, as whoever sets a pool up would choose them.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "spindle_disk.h"

#define POOL_NAME "compare"
#define MIRROR_DISKS_MAX 4u
#define RESERVE_SHARE (1.0 / 16) /* of its columns (docs/pool.md) */

struct bench_pool {
	struct spindle_pool *pool;
	unsigned volumes; /* made so far, to name them */
	unsigned handle_count, disk_count;
	unsigned failures_survived;
	char layout[32];
	struct spindle_disk **handles;
	struct disk *disks[];
};

struct target_pool {
	struct target target;
	struct bench_pool *of;
	struct spindle_volume *volume;
	char state[16];
};

static int pass_on(int status, const struct spindle_error *from, struct error *err)
{
	return status < 0 ? error_set(err, status, "%s", from->text[0] ? from->text : error_sentence(status)) : 0;
}

static struct target_pool *pool_of(struct target *t)
{
	return container_of(t, struct target_pool, target);
}

static int pool_target_read(
	struct target *t, uint64_t offset_bytes, void *buffer, uint64_t length_bytes, struct error *err)
{
	struct spindle_error e = {0};

	return pass_on(spindle_volume_read(pool_of(t)->volume, offset_bytes, buffer, length_bytes, &e), &e, err);
}

static int pool_target_write(
	struct target *t, uint64_t offset_bytes, const void *buffer, uint64_t length_bytes, struct error *err)
{
	struct spindle_error e = {0};

	return pass_on(spindle_volume_write(pool_of(t)->volume, offset_bytes, buffer, length_bytes, &e), &e, err);
}

static int pool_target_flush(struct target *t, struct error *err)
{
	struct spindle_error e = {0};

	return pass_on(spindle_volume_flush(pool_of(t)->volume, &e), &e, err);
}

static int pool_target_drop_cache(struct target *t, struct error *err)
{
	struct spindle_error e = {0};
	int status = pass_on(spindle_pool_commit(pool_of(t)->of->pool, &e), &e, err);

	spindle_pool_drop_cache(pool_of(t)->of->pool);
	return status;
}

static void pool_target_traffic(struct target *t, struct target_traffic *ret)
{
	struct spindle_pool_info info;

	traffic_of_disks(t->disks, t->disk_count, ret);
	spindle_pool_info(pool_of(t)->of->pool, &info);
	ret->stored_bytes = info.data_bytes;
	ret->stored_known = true;
}

/* In the words that arrays have for it. */
static void pool_target_refresh(struct target *t)
{
	struct target_pool *self = pool_of(t);
	struct spindle_pool_info info;

	spindle_pool_info(self->of->pool, &info);
	snprintf(self->state, sizeof(self->state), "%s", strcmp(info.state, "online") == 0 ? "healthy" : info.state);
}

static void pool_target_close(struct target *t)
{
	struct target_pool *self = pool_of(t);

	if (self->volume)
		spindle_volume_close(self->volume);
	free(self);
}

static const struct target_ops pool_target_ops = {
	.kind = "pool",
	.read = pool_target_read,
	.write = pool_target_write,
	.flush = pool_target_flush,
	.drop_cache = pool_target_drop_cache,
	.traffic = pool_target_traffic,
	.close = pool_target_close,
	.refresh = pool_target_refresh,
};

/* --- the groups of a layout's name ----------------------------------------------------------------------------- */

/* "stripe": a group a disk. "mirrorx4", "parity1x2", "parity2:6": so many groups of a kind, disks shared out evenly. */
static int groups_of(const char *layout, unsigned disks, struct spindle_pool_group groups[BENCH_POOL_GROUPS_MAX],
	char kind[32], unsigned *ret_count, unsigned *ret_survived, struct error *err)
{
	const char *x = strchr(layout, 'x');
	uint64_t count = 1;
	size_t length = x ? (size_t)(x - layout) : strlen(layout);
	unsigned each, parity;

	if (strcmp(layout, "stripe") == 0) {
		snprintf(kind, 32, "disk");
		count = disks;
	} else {
		if (length >= 32)
			return error_set(err, ERR_USAGE, "there is no layout '%.60s' of a pool", layout);
		memcpy(kind, layout, length);
		kind[length] = 0;
		if (x && number_parse("the number of groups", x + 1, 1, BENCH_POOL_GROUPS_MAX, &count, err))
			return err ? err->code : ERR_USAGE;
	}
	if (count > BENCH_POOL_GROUPS_MAX || count > disks || disks % count)
		return error_set(err, ERR_USAGE, "%s: %u disks do not make %llu equal groups", layout, disks,
			(unsigned long long)count);
	each = disks / (unsigned)count;
	parity = strncmp(kind, "parity", 6) == 0 && kind[6] >= '1' && kind[6] <= '3' ? (unsigned)(kind[6] - '0') : 0;
	if (!parity && strcmp(kind, "disk") != 0 && strcmp(kind, "mirror") != 0)
		return error_set(err, ERR_USAGE,
			"a pool has no layout '%s': stripe, mirrorxG, parity1 to parity3, with :WIDTH and xG", layout);
	if (strcmp(kind, "mirror") == 0 && (each < 2 || each > MIRROR_DISKS_MAX))
		return error_set(err, ERR_USAGE, "%s: a mirror has 2 to %u disks, not %u", layout, MIRROR_DISKS_MAX, each);
	if (parity && each < parity + 1)
		return error_set(
			err, ERR_USAGE, "%s needs at least %u disks in a group, not %u", layout, parity + 1, each);
	for (unsigned i = 0; i < count; i++)
		groups[i] = (struct spindle_pool_group){.kind = kind, .disks = each};
	*ret_count = (unsigned)count;
	*ret_survived = strcmp(kind, "mirror") == 0 ? each - 1 : parity;
	return 0;
}

int bench_pool_layout(const char *layout, unsigned disks, struct bench_pool_shape *ret, struct error *err)
{
	struct spindle_pool_group groups[BENCH_POOL_GROUPS_MAX];
	char kind[32];
	unsigned count, survived, width, each;
	int status = groups_of(layout, disks, groups, kind, &count, &survived, err);

	if (status)
		return status;
	each = disks / count;
	width = strchr(kind, ':') ? (unsigned)strtoul(strchr(kind, ':') + 1, NULL, 10) : each;
	if (strncmp(kind, "parity", 6) == 0 && (width <= survived || width > each))
		return error_set(
			err, ERR_USAGE, "%s: stripes of %u columns do not fit over %u disks", layout, width, each);
	*ret = (struct bench_pool_shape){.groups = count,
		.failures_survived = survived,
		.is_mirror = strcmp(kind, "mirror") == 0,
		.data_share = strcmp(kind, "mirror") == 0 ? 1.0 / each : 1.0 - (double)survived / width};
	ret->usable_share = ret->data_share * (1 - RESERVE_SHARE);
	return 0;
}

/* --- open, close ------------------------------------------------------------------------------------------------- */

static int make_pool(struct bench_pool *p, const struct bench_pool_options *o, struct error *err)
{
	struct spindle_pool_group groups[BENCH_POOL_GROUPS_MAX];
	struct spindle_pool_options options = {.name = POOL_NAME, .groups = groups, .force = true};
	const struct spindle_pool_open_options open_options = {
		.cache_bytes = o->cache_bytes, .dirty_bytes = o->dirty_bytes};
	struct spindle_error e = {0};
	char kind[32];
	int status =
		groups_of(o->layout, p->disk_count, groups, kind, &options.group_count, &p->failures_survived, err);

	if (status)
		return status;
	status = spindle_pool_create(&options, p->handles, p->handle_count, &e);
	if (status == 0)
		status = spindle_pool_open(POOL_NAME, p->handles, p->handle_count, &open_options, &p->pool, &e);
	return pass_on(status, &e, err);
}

void bench_pool_close(struct bench_pool *p)
{
	if (!p)
		return;
	if (p->pool)
		spindle_pool_close(p->pool, NULL);
	for (unsigned i = 0; i < p->handle_count; i++)
		spindle_disk_unwrap(p->handles[i]);
	free(p->handles);
	free(p);
}

int bench_pool_open(const struct bench_pool_options *o, struct disk *const *disks, unsigned disk_count,
	struct bench_pool **ret, double *ret_create_s, struct error *err)
{
	struct bench_pool *p = calloc(1, sizeof(*p) + disk_count * sizeof(disks[0]));
	uint64_t from_ns = os_now_ns();
	int status = 0;

	if (!p || !(p->handles = calloc(disk_count, sizeof(struct spindle_disk *)))) {
		free(p);
		return error_set(err, ERR_MEMORY, "no memory for a pool of %u disks", disk_count);
	}
	p->disk_count = disk_count;
	snprintf(p->layout, sizeof(p->layout), "%s", o->layout);
	for (unsigned i = 0; status == 0 && i < disk_count; i++) {
		status = spindle_disk_wrap(disks[i], &p->handles[i], err);
		p->disks[i] = disks[i];
		p->handle_count += status == 0;
	}
	status = status ? status : make_pool(p, o, err);
	if (status) {
		bench_pool_close(p);
		return status;
	}
	*ret_create_s = (double)(os_now_ns() - from_ns) / 1e9;
	*ret = p;
	return 0;
}

int bench_pool_volume(struct bench_pool *p, uint64_t bytes, uint32_t record_bytes, const char *compression,
	struct target **ret_target, struct error *err)
{
	struct target_pool *self = calloc(1, sizeof(*self));
	struct spindle_error e = {0};
	char path[64], property[64];
	const char *const properties[] = {property, NULL};
	int status;

	if (!self)
		return error_set(err, ERR_MEMORY, "no memory for a target");
	self->of = p;
	snprintf(path, sizeof(path), POOL_NAME "/v%u", p->volumes++);
	snprintf(property, sizeof(property), "compression=%s", compression);
	status = spindle_volume_create(p->pool, path, bytes, record_bytes, properties, &e);
	if (status == 0)
		status = spindle_volume_open(p->pool, path, &self->volume, &e);
	if (status) {
		free(self);
		return pass_on(status, &e, err);
	}
	struct target *t = &self->target;
	*t = (struct target){.ops = &pool_target_ops,
		.road = "library",
		.size_bytes = bytes,
		.align_bytes = 512,
		.disk_count = p->disk_count,
		.disks = p->disks,
		.direct_asked = true,
		.direct_effective = true,
		.reduces_data = strcmp(compression, "off") != 0,
		.state = self->state,
		.failures_survived = p->failures_survived};
	for (unsigned i = 0; i < p->disk_count; i++)
		t->direct_effective &= disk_traits(p->disks[i])->direct || disk_traits(p->disks[i])->is_memory;
	snprintf(t->name, sizeof(t->name), "pool %s over %u disks", p->layout, p->disk_count);
	pool_target_refresh(t);
	*ret_target = t;
	return 0;
}

void bench_pool_info(struct bench_pool *p, struct spindle_pool_info *ret)
{
	spindle_pool_info(p->pool, ret);
}
