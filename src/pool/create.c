/* Making a pool: which disks, which groups, what would come of it; then labels and the first uberblock, which is all. */
#include "label.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MIB (1ULL << 20)
#define ZONE_BYTES_MAX (16 * MIB)
#define ZONES_LEAST 64u /* unless they would be smaller than the largest column */
#define LOG_BYTES_MIN MIB
#define LOG_BYTES_MAX (128 * MIB)
#define RESERVE_PART 16u

static int name_check(const char *name, struct error *err)
{
	static const char *const reserved[] = {"mirror", "raidz", "parity", "spare", "log", "disk"};

	if (!name || !pool_name_is_valid(name))
		return error_set(err, ERR_USAGE,
			"'%s' is no name for a pool: a letter, then letters, digits and _ . : -, at most 255",
			name ? name : "");
	for (size_t i = 0; i < array_count(reserved); i++) {
		size_t length = strlen(reserved[i]);

		if (strncasecmp(name, reserved[i], length) == 0 &&
			strspn(name + length, "0123456789") == strlen(name + length))
			return error_set(
				err, ERR_USAGE, "'%s' is no name for a pool: the word means a kind of group", name);
	}
	return 0;
}

static int kind_parse(const struct pool_vdev *v, enum group_kind *ret, unsigned *ret_parity, struct error *err)
{
	static const struct {
		const char *name;
		enum group_kind kind;
		unsigned parity;
	} kinds[] = {{"disk", GROUP_DISK, 0}, {"mirror", GROUP_MIRROR, 0}, {"parity", GROUP_PARITY, 1},
		{"parity1", GROUP_PARITY, 1}, {"parity2", GROUP_PARITY, 2}, {"parity3", GROUP_PARITY, 3},
		{"raidz", GROUP_PARITY, 1}, {"raidz1", GROUP_PARITY, 1}, {"raidz2", GROUP_PARITY, 2},
		{"raidz3", GROUP_PARITY, 3}};

	for (size_t i = 0; i < array_count(kinds); i++)
		if (strcmp(v->kind, kinds[i].name) == 0) {
			*ret = kinds[i].kind;
			*ret_parity = kinds[i].kind == GROUP_MIRROR ? v->count - 1 : kinds[i].parity;
			return 0;
		}
	return error_set(err, ERR_USAGE, "'%s' is no kind of group: disk, mirror, parity1, parity2, parity3", v->kind);
}

static int group_check(const struct pool_vdev *v, unsigned disk_count, struct config_group *ret, struct error *err)
{
	enum group_kind kind = GROUP_DISK;
	unsigned parity = 0;
	int rc = kind_parse(v, &kind, &parity, err);

	if (rc)
		return rc;
	if (v->count == 0 || v->first + v->count > disk_count)
		return error_set(err, ERR_USAGE, "a group of %u disks from the %uth on, of %u", v->count, v->first + 1,
			disk_count);
	if (kind == GROUP_DISK && v->count != 1)
		return error_set(err, ERR_USAGE, "a plain disk is a group of one, not of %u", v->count);
	if (kind == GROUP_MIRROR && (v->count < 2 || v->count > POOL_COPIES_MAX))
		return error_set(err, ERR_USAGE, "a mirror has 2 to %u disks, not %u", POOL_COPIES_MAX, v->count);
	if (kind == GROUP_PARITY && v->count < parity + 1)
		return error_set(
			err, ERR_USAGE, "parity%u needs %u disks at least, not %u", parity, parity + 1, v->count);
	unsigned width = v->width ? v->width : min_of(v->count, POOL_WIDTH_MAX);
	if (width > v->count || width <= parity || width > POOL_WIDTH_MAX)
		return error_set(err, ERR_USAGE, "stripes of %u columns do not fit %s over %u disks: %u to %u", width,
			v->kind, v->count, parity + 1, min_of(v->count, POOL_WIDTH_MAX));
	*ret = (struct config_group){.kind = (uint8_t)kind, .parity = (uint8_t)parity, .width = (uint16_t)width};
	return 0;
}

static int groups_check(
	const struct pool_create_options *o, unsigned disk_count, struct pool_config *c, struct error *err)
{
	bool used[POOL_DISKS_MAX] = {false};

	if (disk_count == 0 || disk_count > POOL_DISKS_MAX)
		return error_set(err, ERR_USAGE, "a pool has 1 to %u disks, not %u", POOL_DISKS_MAX, disk_count);
	if (o->vdev_count == 0 || o->vdev_count > POOL_GROUPS_MAX)
		return error_set(err, ERR_USAGE, "a pool has 1 to %u groups, not %u", POOL_GROUPS_MAX, o->vdev_count);
	c->group_count = o->vdev_count;
	c->disk_count = disk_count;
	for (unsigned g = 0; g < o->vdev_count; g++) {
		const struct pool_vdev *v = &o->vdevs[g];
		int rc = group_check(v, disk_count, &c->groups[g], err);

		if (rc)
			return rc;
		for (unsigned i = v->first; i < v->first + v->count; i++) {
			if (used[i])
				return error_set(err, ERR_USAGE, "the %uth disk is in two groups", i + 1);
			used[i] = true;
			c->disks[i].group = (uint16_t)g;
		}
		if (!o->force && c->groups[g].parity != c->groups[0].parity)
			return error_set(err, ERR_USAGE,
				"the groups survive different numbers of failures (%u and %u): the pool is only as "
				"safe as the least of "
				"them; force it if that is meant",
				c->groups[0].parity, c->groups[g].parity);
	}
	for (unsigned i = 0; i < disk_count; i++)
		if (!used[i])
			return error_set(err, ERR_USAGE, "the %uth disk is in no group", i + 1);
	return 0;
}

/* One disk under two names is one disk. */
static int twins_check(struct disk *const *disks, unsigned count, struct error *err)
{
	scoped_free struct disk_facts *facts = calloc(count, sizeof *facts);

	if (!facts)
		return error_set(err, ERR_MEMORY, "no memory to look at %u disks", count);
	for (unsigned i = 0; i < count; i++) {
		struct error ignored = ERROR_INIT;
		const char *path = disk_traits(disks[i])->path;

		if (path && disk_inspect(path, &facts[i], &ignored))
			memset(&facts[i], 0, sizeof facts[i]);
		for (unsigned k = 0; k < i; k++)
			if (disks[k] == disks[i] || (facts[i].inode && facts[i].inode == facts[k].inode &&
							    facts[i].device == facts[k].device))
				return error_set(err, ERR_USAGE, "%s and %s are one disk", disk_traits(disks[k])->name,
					disk_traits(disks[i])->name);
	}
	return 0;
}

static int disk_check(struct disk *d, struct error *err)
{
	const struct disk_traits *t = disk_traits(d);

	if (t->size_bytes < POOL_DISK_BYTES_MIN)
		return error_set(err, ERR_TOO_SMALL, "%s has %llu bytes; a disk of a pool has 16 MiB at least", t->name,
			(unsigned long long)t->size_bytes);
	if (t->logical_bytes > POOL_UNIT_BYTES)
		return error_set(err, ERR_UNSUPPORTED, "%s has sectors of %u bytes; a pool writes units of %u", t->name,
			t->logical_bytes, POOL_UNIT_BYTES);
	if (t->read_only)
		return error_set(err, ERR_READ_ONLY, "%s is open for reading only", t->name);
	return 0;
}

/* No disk may belong to another pool, in use or not. */
static int strangers_check(struct disk *const *disks, unsigned count, struct error *err)
{
	scoped_free struct label_facts *facts = calloc(count, sizeof *facts);

	if (!facts)
		return error_set(err, ERR_MEMORY, "no memory to look at %u disks", count);
	int rc = labels_facts_read(disks, count, facts, err);
	for (unsigned i = 0; !rc && i < count; i++) {
		const struct label_facts *f = &facts[i];
		const char *name = disk_traits(disks[i])->name;

		if (f->configs)
			rc = error_set(err, ERR_REFUSED,
				"%s belongs to pool %s (%s), last used on %s; force it to write over that", name,
				f->name, f->exported ? "exported" : "not exported",
				f->host_name[0] ? f->host_name : "an unnamed host");
		else if (f->claims)
			rc = error_set(err, ERR_REFUSED,
				"%s has the label of a pool, not to be read: %s; force it to write over that", name,
				f->why.text);
		else if (!f->read)
			rc = error_set(err, f->why.code ? f->why.code : ERR_IO, "%s cannot be read", name);
	}
	return rc;
}

static uint64_t power_of_two_below(uint64_t v)
{
	uint64_t p = 1;

	while (p <= v / 2)
		p *= 2;
	return p;
}

static uint64_t log_bytes_of(const struct pool_create_options *o, struct disk *const *disks, unsigned count)
{
	uint64_t all = 0, least = UINT64_MAX;

	for (unsigned i = 0; i < count; i++) {
		all += disk_traits(disks[i])->size_bytes;
		least = min_of(least, disk_traits(disks[i])->size_bytes);
	}
	uint64_t wanted = o->log_bytes ? o->log_bytes : min_of(max_of(all / 64, LOG_BYTES_MIN), LOG_BYTES_MAX);

	return max_of(round_down_u64(min_of(wanted, least / 16), MIB), LOG_BYTES_MIN);
}

/* Where zones begin and how many there are. The log lies right behind the front label. */
static void disks_measure(
	const struct pool_create_options *o, struct disk *const *disks, uint64_t log_bytes, struct pool_config *c)
{
	bool rotating = false;

	for (unsigned i = 0; i < c->disk_count; i++) {
		struct config_disk *d = &c->disks[i];
		const struct disk_traits *t = disk_traits(disks[i]);
		uint64_t zone = power_of_two_below(max_of(t->size_bytes / ZONES_LEAST, MIB));

		rotating |= t->rotating;
		d->size_bytes = t->size_bytes;
		d->zone_bytes = min_of(max_of(zone, MIB), ZONE_BYTES_MAX);
		d->data_start_bytes = round_up_u64(LABEL_BYTES + log_bytes, MIB);
		d->zone_count = (uint32_t)((round_down_u64(t->size_bytes, MIB) - LABEL_BYTES - d->data_start_bytes) /
					   d->zone_bytes);
		d->state = PD_ONLINE;
		snprintf(d->path, sizeof d->path, "%s", t->path ? t->path : t->name);
	}
	c->run_bytes = o->run_bytes ? o->run_bytes : rotating ? 4 * MIB : MIB;
}

static void plan_make(const struct pool_config *c, struct pool_plan *ret)
{
	unsigned least = UINT32_MAX;

	memset(ret, 0, sizeof *ret);
	for (unsigned g = 0; g < c->group_count; g++) {
		uint64_t bytes = 0;

		for (unsigned i = 0; i < c->disk_count; i++)
			if (c->disks[i].group == g)
				bytes += c->disks[i].zone_count * c->disks[i].zone_bytes;
		unsigned width = c->groups[g].width, parity = c->groups[g].parity;
		ret->raw_bytes += bytes;
		ret->usable_bytes += bytes / width * (width - parity);
		least = min_of(least, parity);
	}
	ret->reserve_bytes = ret->usable_bytes / RESERVE_PART;
	ret->usable_bytes -= ret->reserve_bytes;
	ret->failures_survived = least;
}

static int config_make(const struct pool_create_options *o, struct disk *const *disks, unsigned disk_count,
	uint64_t *ret_log_bytes, struct pool_config *c, struct error *err)
{
	int rc = name_check(o->name, err);

	if (!rc)
		rc = groups_check(o, disk_count, c, err);
	for (unsigned i = 0; !rc && i < disk_count; i++)
		rc = disk_check(disks[i], err);
	if (!rc)
		rc = twins_check(disks, disk_count, err);
	if (!rc && !o->force)
		rc = strangers_check(disks, disk_count, err);
	if (rc)
		return rc;
	snprintf(c->name, sizeof c->name, "%s", o->name);
	*ret_log_bytes = log_bytes_of(o, disks, disk_count);
	disks_measure(o, disks, *ret_log_bytes, c);
	return 0;
}

int pool_create_plan(const struct pool_create_options *o, struct disk *const *disks, unsigned disk_count,
	struct pool_plan *ret, struct error *err)
{
	scoped_free struct pool_config *c = calloc(1, sizeof *c);
	uint64_t log_bytes;

	if (!c)
		return error_set(err, ERR_MEMORY, "no memory for a pool");
	int rc = config_make(o, disks, disk_count, &log_bytes, c, err);
	if (!rc)
		plan_make(c, ret);
	return rc;
}

static void id_draw(uint8_t id[16])
{
	put_le64(id, os_random_u64());
	put_le64(id + 8, os_random_u64());
}

static int labels_make(struct pool *p, struct disk *const *disks, struct error *err)
{
	struct uberblock u = {.checkpoint = 1,
		.commit = 1,
		.log_sequence = 1,
		.next_run = 1,
		.next_dataset = TREE_DATASET_FIRST,
		.wall_ns = os_wall_ns()};

	id_draw(p->id);
	memcpy(p->config.pool_id, p->id, 16);
	p->disk_count = p->config.disk_count;
	p->log_offset_bytes = LABEL_BYTES;
	for (unsigned i = 0; i < p->disk_count; i++) {
		struct pool_disk *d = &p->disks[i];

		id_draw(p->config.disks[i].id);
		*d = (struct pool_disk){
			.disk = disks[i], .config = &p->config.disks[i], .index = i, .state = PD_ONLINE};
	}
	p->config.host_id = label_host(p->config.host_name);
	/* The uberblock first: who finds a label finds a pool behind it. */
	int rc = uberblock_write(p, &u, err);
	if (!rc)
		rc = labels_write(p, err);
	for (unsigned i = 0; !rc && i < p->disk_count; i++)
		if (p->disks[i].state != PD_ONLINE)
			rc = error_set(err, ERR_IO, "%s does not take a label", disk_traits(disks[i])->name);
	return rc;
}

int pool_create(const struct pool_create_options *o, struct disk *const *disks, unsigned disk_count, struct error *err)
{
	scoped_free struct pool *p = calloc(1, sizeof *p);

	if (!p)
		return error_set(err, ERR_MEMORY, "no memory for a pool");
	os_mutex_init(&p->lock);
	os_cond_init(&p->changed);
	int rc = config_make(o, disks, disk_count, &p->log_bytes, &p->config, err);
	if (!rc)
		rc = labels_make(p, disks, err);
	os_cond_destroy(&p->changed);
	os_mutex_destroy(&p->lock);
	return rc;
}
