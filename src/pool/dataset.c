/*
 * What people do with datasets: create, destroy, rename, snapshot, roll back, clone, list; and the history of it all.
 *
 * Each call checks and changes the catalog under p->lock in one go, so all of it is in one commit, and returns when that is
 * durable. Snapshots, rollbacks, clones and destruction also leave an operation in the log, which the fold right after the
 * commit carries out on the trees; these calls return when it has.
 */
#include "catalog.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LLU(v) ((unsigned long long)(v))

static int code_of(const struct error *err, int otherwise)
{
	return err && err->code ? err->code : otherwise;
}

/* --- figures ------------------------------------------------------------------------------------------------------ */

bool is_below(struct pool *p, const struct entry *e, const struct entry *above)
{
	unsigned depth = 0;

	while (e && e != above && depth++ <= DATASET_DEPTH_MAX + 1)
		e = catalog_parent(p, e);
	return e == above;
}

/* What a dataset itself takes: its data and its snapshots', and what it reserves beyond. */
static uint64_t own_bytes(const struct dataset *d)
{
	return d->used + (d->reservation > d->referenced ? d->reservation - d->referenced : 0);
}

static uint64_t used_below(struct pool *p, const struct entry *e)
{
	uint64_t bytes = 0;

	list_for_each(&p->datasets, node)
	{
		const struct entry *at = container_of(node, struct entry, d.link);

		if (!at->d.destroyed && is_below(p, at, e))
			bytes += own_bytes(&at->d);
	}
	return bytes;
}

void dataset_figures(struct pool *p, const struct entry *e, struct figures *ret)
{
	ret->used = used_below(p, e);
	ret->available = 0;
	if (e->d.type == DATASET_SNAPSHOT)
		return;
	ret->available = space_available_bytes(p) +
			 (e->d.reservation > e->d.referenced ? e->d.reservation - e->d.referenced : 0);
	for (const struct entry *at = e; at; at = catalog_parent(p, at)) {
		uint64_t used;

		if (!at->d.quota)
			continue;
		used = at == e ? ret->used : used_below(p, at);
		ret->available = min_of(ret->available, at->d.quota > used ? at->d.quota - used : 0);
	}
}

int dataset_room_check(struct pool *p, const struct entry *parent, uint64_t more_bytes, struct error *err)
{
	char wanted[SIZE_TEXT_BYTES], there[SIZE_TEXT_BYTES], path[1024];
	uint64_t available = space_available_bytes(p);

	if (more_bytes > available)
		return error_set(err, ERR_SPACE,
			"%s are to be reserved and the pool has %s; a sparse volume (-s) reserves nothing",
			size_format_binary(more_bytes, wanted), size_format_binary(available, there));
	for (const struct entry *at = parent; at; at = catalog_parent(p, at)) {
		uint64_t used;

		if (!at->d.quota)
			continue;
		used = used_below(p, at);
		if (used > at->d.quota || more_bytes > at->d.quota - used) {
			catalog_path(p, at, path);
			return error_set(err, ERR_SPACE, "%s more is over the quota of %.200s",
				size_format_binary(more_bytes, wanted), path);
		}
	}
	return 0;
}

/* --- create ------------------------------------------------------------------------------------------------------- */

struct creation {
	struct dataset_facts facts;
	char *local[PROPERTY_COUNT];
	uint64_t id;
};

static void creation_release(struct creation *c)
{
	for (unsigned i = 0; i < PROPERTY_COUNT; i++)
		free(c->local[i]);
}

/* "name=value", each checked as if it were set on the new dataset. */
static int creation_properties(struct creation *c, const char *const *properties, struct error *err)
{
	struct entry e = {.d.type = c->facts.type};

	for (; properties && *properties; properties++) {
		const char *equals = strchr(*properties, '=');
		char name[64], normal[256];
		int which, code;

		if (!equals || equals - *properties >= (ptrdiff_t)sizeof(name))
			return error_set(err, ERR_USAGE, "'%.100s' is not NAME=VALUE", *properties);
		memcpy(name, *properties, (size_t)(equals - *properties));
		name[equals - *properties] = 0;
		if (c->facts.type == DATASET_VOLUME &&
			(strcmp(name, "volblocksize") == 0 || property_find(name) == PROPERTY_RECORDSIZE)) {
			struct entry any = {.d.type = DATASET_FILESYSTEM};

			code = property_check(&any, PROPERTY_RECORDSIZE, equals + 1, normal, err);
			if (code)
				return code;
			c->facts.record_bytes = (uint32_t)strtoul(normal, NULL, 10);
			continue;
		}
		which = property_find(name);
		if (which < 0)
			return error_set(err, ERR_USAGE, "there is no property '%s' that could be set", name);
		code = property_check(&e, (enum property)which, equals + 1, normal, err);
		if (code)
			return code;
		free(c->local[which]);
		c->local[which] = strdup(normal);
		if (!c->local[which])
			return error_set(err, ERR_MEMORY, "out of memory for a property");
	}
	return 0;
}

/* With the lock. The new dataset is in the open transaction and in memory, or nothing has changed. */
static int creation_put(struct pool *p, struct creation *c, struct error *err)
{
	int code;

	c->id = p->next_dataset++;
	c->facts.created_ns = os_wall_ns();
	c->facts.created_commit = p->open->commit;
	c->facts.guid = os_random_u64();
	code = catalog_put_facts(p, c->id, &c->facts, err);
	for (unsigned i = 0; !code && i < PROPERTY_COUNT; i++)
		if (c->local[i])
			code = catalog_put(p, (struct key){c->id, CATALOG_PROPERTY(i)}, c->local[i],
				(uint32_t)strlen(c->local[i]), err);
	property_resolve_all(p);
	return code;
}

/* With the lock: the place is free and may be taken. */
static int creation_place(
	struct pool *p, struct creation *c, const char *path, struct entry **ret_parent, struct error *err)
{
	int code = catalog_writable(p, err);

	if (!code)
		code = catalog_split(p, path, c->facts.type == DATASET_SNAPSHOT, ret_parent, c->facts.name, err);
	if (code)
		return code;
	if (catalog_child(p, (*ret_parent)->d.id, c->facts.name, c->facts.type == DATASET_SNAPSHOT))
		return error_set(err, ERR_EXISTS, "'%s' exists already", path);
	c->facts.parent = (*ret_parent)->d.id;
	return 0;
}

int pool_volume_create(struct pool *p, const char *path, uint64_t bytes, uint32_t record_bytes, bool sparse,
	const char *const *properties, struct error *err)
{
	struct creation c = {.facts = {.type = DATASET_VOLUME, .volume_bytes = bytes, .record_bytes = record_bytes}};
	struct entry *parent;
	int code = creation_properties(&c, properties, err);

	if (!code && (bytes == 0 || bytes > 1ULL << 62))
		code = error_set(err, ERR_USAGE, "a volume of %llu bytes cannot be", LLU(bytes));
	if (!code && c.facts.record_bytes &&
		(c.facts.record_bytes < POOL_UNIT_BYTES || c.facts.record_bytes > 1 << 20 ||
			!is_power_of_two(c.facts.record_bytes)))
		code = error_set(err, ERR_USAGE, "records of %u bytes cannot be: a power of two from 4KiB to 1MiB",
			c.facts.record_bytes);
	code = code ? code : transaction_wait_room(p, err);
	if (!code) {
		os_scoped_lock(&p->lock);
		code = creation_place(p, &c, path, &parent, err);
		if (!code && !c.facts.record_bytes)
			c.facts.record_bytes = parent->d.record_bytes;
		if (!code && !sparse) {
			uint64_t reserved = round_up_u64(bytes, c.facts.record_bytes);
			char text[32];

			code = dataset_room_check(p, parent, reserved, err);
			snprintf(text, sizeof(text), "%" PRIu64, reserved);
			if (!code && !c.local[PROPERTY_RESERVATION] && !(c.local[PROPERTY_RESERVATION] = strdup(text)))
				code = error_set(err, ERR_MEMORY, "out of memory for a property");
		}
		code = code ? code : creation_put(p, &c, err);
	}
	creation_release(&c);
	return code ? code : pool_commit_now(p, err);
}

int pool_dataset_create(struct pool *p, const char *path, const char *const *properties, struct error *err)
{
	struct creation c = {.facts = {.type = DATASET_FILESYSTEM, .record_bytes = RECORD_BYTES_DEFAULT}};
	struct entry *parent;
	int code = creation_properties(&c, properties, err);

	code = code ? code : transaction_wait_room(p, err);
	if (!code) {
		os_scoped_lock(&p->lock);
		code = creation_place(p, &c, path, &parent, err);
		code = code ? code : creation_put(p, &c, err);
	}
	creation_release(&c);
	return code ? code : pool_commit_now(p, err);
}

/* --- destroy ------------------------------------------------------------------------------------------------------ */

struct set { /* of datasets */
	struct entry **items;
	uint64_t *ids;
	size_t count, room;
	bool failed;
};

static bool set_holds(const struct set *s, const struct entry *e)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->items[i] == e)
			return true;
	return false;
}

static void set_add(struct set *s, struct entry *e)
{
	if (s->count == s->room) {
		size_t room = s->room ? 2 * s->room : 16;
		struct entry **items = realloc(s->items, room * sizeof(*items));
		uint64_t *ids;

		if (items)
			s->items = items;
		ids = realloc(s->ids, room * sizeof(*ids));
		if (ids)
			s->ids = ids;
		if (!items || !ids) {
			s->failed = true;
			return;
		}
		s->room = room;
	}
	s->ids[s->count] = e->d.id;
	s->items[s->count++] = e;
}

static void set_release(struct set *s)
{
	free(s->items);
	free(s->ids);
}

static bool depends(struct pool *p, const struct entry *e, const struct entry *on)
{
	return !e->d.destroyed && e != on && e != p->catalog->root &&
	       (e->d.parent == on->d.id || e->d.origin == on->d.id);
}

/* In an order in which each goes after all that depends on it: clones and children first, snapshots from the newest. */
static void set_gather(struct pool *p, struct set *s, struct entry *e)
{
	if (set_holds(s, e) || s->failed)
		return;
	for (struct list *node = p->datasets.prev; node != &p->datasets; node = node->prev) {
		struct entry *at = container_of(node, struct entry, d.link);

		if (depends(p, at, e) && at->d.parent == e->d.id)
			set_gather(p, s, at);
	}
	set_add(s, e);
}

static int set_check(struct pool *p, const struct set *s, const struct entry *e, bool recursive, struct error *err)
{
	char path[1024], other[1024];

	/* Whoever marked one as leaving keeps pointers to it until it has destroyed it. */
	for (size_t i = 0; i < s->count; i++)
		if (s->items[i]->leaving) {
			catalog_path(p, s->items[i], path);
			return error_set(err, ERR_BUSY, "'%.250s' is being destroyed already", path);
		}
	list_for_each(&p->datasets, node)
	{
		const struct entry *at = container_of(node, struct entry, d.link);

		if (!recursive && depends(p, at, e) && at->d.parent == e->d.id) {
			catalog_path(p, e, path);
			catalog_path(p, at, other);
			return error_set(err, ERR_REFUSED,
				"'%.180s' has '%.180s' and maybe more below it: destroy it with -r", path, other);
		}
		for (size_t i = 0; i < s->count; i++)
			if (depends(p, at, s->items[i]) && at->d.origin == s->items[i]->d.id && !set_holds(s, at)) {
				catalog_path(p, s->items[i], path);
				catalog_path(p, at, other);
				return error_set(
					err, ERR_REFUSED, "'%.180s' is the origin of the clone '%.180s'", path, other);
			}
	}
	return 0;
}

/* With the lock: out of the catalog, the rest is the fold's. */
static int entry_destroy(struct pool *p, struct entry *e, struct error *err)
{
	uint8_t payload[8];
	int code = 0;

	for (unsigned i = 0; !code && i < PROPERTY_COUNT; i++)
		if (e->local[i])
			code = catalog_put(p, (struct key){e->d.id, CATALOG_PROPERTY(i)}, NULL, 0, err);
	if (!code)
		code = catalog_put(p, (struct key){e->d.id, CATALOG_FACTS}, NULL, 0, err);
	put_le64(payload, e->d.id);
	return code ? code : transaction_append(p, NULL, LOG_DESTROY, payload, sizeof(payload), err);
}

static void set_leave(const struct set *s, bool leaving)
{
	for (size_t i = 0; i < s->count; i++)
		s->items[i]->leaving = leaving;
}

static void set_forget(struct pool *p, const struct set *s)
{
	for (size_t i = 0; i < s->count; i++)
		cache_forget(p, s->ids[i]);
}

/* With the lock, of datasets that are marked as leaving (so their objects stayed) and are forgotten. */
static int set_destroy(struct pool *p, const struct set *s, struct error *err)
{
	int code = catalog_writable(p, err);

	for (size_t i = 0; !code && i < s->count; i++)
		code = entry_destroy(p, s->items[i], err);
	if (code)
		set_leave(s, false);
	return code;
}

int pool_dataset_destroy(struct pool *p, const char *path, bool recursive, struct error *err)
{
	struct set s = {0};
	struct entry *e;
	int code = transaction_wait_room(p, err);

	if (!code) {
		os_scoped_lock(&p->lock);
		e = catalog_entry(p, path, err);
		if (!e)
			return code_of(err, ERR_NOT_FOUND);
		if (e == p->catalog->root)
			return error_set(err, ERR_USAGE, "'%s' is the pool itself", path);
		set_gather(p, &s, e);
		code = s.failed ? error_set(err, ERR_MEMORY, "out of memory for what to destroy")
				: set_check(p, &s, e, recursive, err);
		if (!code)
			set_leave(&s, true);
	}
	if (!code) {
		set_forget(p, &s);
		os_scoped_lock(&p->lock);
		code = set_destroy(p, &s, err);
	}
	set_release(&s);
	return code ? code : pool_barrier_now(p, err);
}

/* --- rename ------------------------------------------------------------------------------------------------------- */

static int rename_check(struct pool *p, struct entry *e, const struct entry *parent, const char *from, const char *to,
	struct error *err)
{
	if (e == p->catalog->root)
		return error_set(err, ERR_USAGE, "'%s' is the pool itself and keeps its name", from);
	if (e->d.type == DATASET_SNAPSHOT && parent->d.id != e->d.parent)
		return error_set(
			err, ERR_USAGE, "a snapshot stays with its dataset: '%s' cannot become '%s'", from, to);
	if (e->d.type != DATASET_SNAPSHOT && is_below(p, parent, e))
		return error_set(err, ERR_USAGE, "'%s' cannot go below itself", from);
	return 0;
}

/* Of what lies below, the longest path after the change. */
static bool paths_fit(struct pool *p, struct entry *e, const char *from, const char *to)
{
	char path[1024];

	list_for_each(&p->datasets, node)
	{
		const struct entry *at = container_of(node, struct entry, d.link);

		if (at->d.destroyed || !is_below(p, at, e))
			continue;
		catalog_path(p, at, path);
		if (strlen(path) - strlen(from) + strlen(to) > DATASET_PATH_MAX)
			return false;
	}
	return true;
}

int pool_dataset_rename(struct pool *p, const char *from, const char *to, struct error *err)
{
	struct dataset_facts f;
	struct entry *e, *parent;
	char name[256];
	int code = transaction_wait_room(p, err);

	if (!code) {
		os_scoped_lock(&p->lock);
		code = catalog_writable(p, err);
		e = code ? NULL : catalog_entry(p, from, err);
		if (!e)
			return code_of(err, ERR_NOT_FOUND);
		if (e == p->catalog->root)
			return error_set(err, ERR_USAGE, "'%s' is the pool itself and keeps its name", from);
		code = catalog_split(p, to, e->d.type == DATASET_SNAPSHOT, &parent, name, err);
		code = code ? code : rename_check(p, e, parent, from, to, err);
		if (!code && catalog_child(p, parent->d.id, name, e->d.type == DATASET_SNAPSHOT))
			code = error_set(err, ERR_EXISTS, "'%s' exists already", to);
		if (!code && !paths_fit(p, e, from, to))
			code = error_set(
				err, ERR_USAGE, "below '%s' paths would be longer than %u bytes", to, DATASET_PATH_MAX);
		if (!code) {
			catalog_facts_of(e, &f);
			f.parent = parent->d.id;
			memcpy(f.name, name, sizeof(f.name));
			code = catalog_put_facts(p, e->d.id, &f, err);
			property_resolve_all(p);
		}
	}
	return code ? code : pool_commit_now(p, err);
}

/* --- snapshots ---------------------------------------------------------------------------------------------------- */

/* With the lock. */
static int snapshot_put(struct pool *p, struct entry *of, const char *name, struct error *err)
{
	struct creation c = {.facts = {
				     .type = DATASET_SNAPSHOT,
				     .parent = of->d.id,
				     .volume_bytes = of->d.volume_bytes,
				     .record_bytes = of->d.record_bytes,
			     }};
	uint8_t payload[8];
	int code;

	snprintf(c.facts.name, sizeof(c.facts.name), "%s", name);
	code = creation_put(p, &c, err);
	put_le64(payload, c.id);
	return code ? code : transaction_append(p, NULL, LOG_BARRIER, payload, sizeof(payload), err);
}

int pool_snapshot_create(struct pool *p, const char *path_at_name, bool recursive, struct error *err)
{
	struct set s = {0};
	struct entry *of;
	char name[256], path[1024];
	int code = transaction_wait_room(p, err);

	if (!code) {
		os_scoped_lock(&p->lock);
		code = catalog_writable(p, err);
		code = code ? code : transaction_settle(p, err);
		code = code ? code : catalog_split(p, path_at_name, true, &of, name, err);
		if (code)
			return code;
		list_for_each(&p->datasets, node)
		{
			struct entry *at = container_of(node, struct entry, d.link);

			if (!at->d.destroyed && !at->leaving && at->d.type != DATASET_SNAPSHOT &&
				(at == of || (recursive && is_below(p, at, of))))
				set_add(&s, at);
		}
		if (s.failed)
			code = error_set(err, ERR_MEMORY, "out of memory for snapshots");
		for (size_t i = 0; !code && i < s.count; i++) {
			catalog_path(p, s.items[i], path);
			if (catalog_child(p, s.items[i]->d.id, name, true))
				code = error_set(err, ERR_EXISTS, "'%.250s@%s' exists already", path, name);
			else if (strlen(path) + 1 + strlen(name) > DATASET_PATH_MAX)
				code = error_set(err, ERR_USAGE, "'%.100s…@%.100s' is longer than %u bytes", path, name,
					DATASET_PATH_MAX);
		}
		for (size_t i = 0; !code && i < s.count; i++)
			code = snapshot_put(p, s.items[i], name, err);
	}
	set_release(&s);
	return code ? code : pool_barrier_now(p, err);
}

/* With the lock: snapshots of the same dataset that are younger go first. */
static int rollback_newer(struct pool *p, struct entry *snapshot, bool destroy, struct set *newer, struct error *err)
{
	char path[1024];
	struct dataset *d = &snapshot->d;

	while ((d = catalog_snapshot_after(p, d)))
		if (!d->destroyed)
			set_add(newer, entry_of(d));
	if (newer->failed)
		return error_set(err, ERR_MEMORY, "out of memory for snapshots");
	if (newer->count && !destroy) {
		catalog_path(p, newer->items[0], path);
		return error_set(
			err, ERR_REFUSED, "'%.250s' is newer and would have to be destroyed: ask for that (-r)", path);
	}
	/* From the newest, as destroy does. */
	for (size_t i = 0; i < newer->count / 2; i++) {
		struct entry *e = newer->items[i];

		newer->items[i] = newer->items[newer->count - 1 - i];
		newer->items[newer->count - 1 - i] = e;
	}
	for (size_t i = 0; i < newer->count; i++)
		newer->ids[i] = newer->items[i]->d.id;
	return newer->count ? set_check(p, newer, newer->items[0], true, err) : 0;
}

static int root_append(struct pool *p, uint64_t dataset, uint64_t from, struct error *err)
{
	uint8_t payload[16];

	put_le64(payload, dataset);
	put_le64(payload + 8, from);
	return transaction_append(p, NULL, LOG_ROOT, payload, sizeof(payload), err);
}

int pool_snapshot_rollback(struct pool *p, const char *path_at_name, bool destroy_newer, struct error *err)
{
	struct set newer = {0};
	struct entry *s = NULL;
	uint64_t head = 0, snapshot = 0;
	int code = transaction_wait_room(p, err);

	if (!code) {
		os_scoped_lock(&p->lock);
		code = catalog_writable(p, err);
		s = code ? NULL : catalog_entry(p, path_at_name, err);
		if (!s)
			return code_of(err, ERR_NOT_FOUND);
		if (s->d.type != DATASET_SNAPSHOT)
			return error_set(err, ERR_USAGE, "'%s' is not a snapshot", path_at_name);
		head = s->d.parent;
		snapshot = s->d.id;
		code = rollback_newer(p, s, destroy_newer, &newer, err);
		if (!code)
			set_leave(&newer, true);
	}
	if (!code) {
		set_forget(p, &newer);
		cache_forget(p, head);
		os_scoped_lock(&p->lock);
		code = transaction_settle(p, err);
		s = catalog_find(p, snapshot);
		struct entry *of = catalog_find(p, head);

		if (!code && (!s || s->leaving || s->d.destroyed || !of || of->leaving || of->d.destroyed))
			code = error_set(err, ERR_NOT_FOUND, "'%s' was destroyed meanwhile", path_at_name);
		if (code)
			set_leave(&newer, false);
		code = code ? code : set_destroy(p, &newer, err);
		code = code ? code : root_append(p, head, snapshot, err);
	}
	set_release(&newer);
	code = code ? code : pool_barrier_now(p, err);
	if (!code)
		cache_forget(p, head); /* what was read or written while it rolled back */
	return code;
}

int pool_clone_create(struct pool *p, const char *snapshot, const char *path, struct error *err)
{
	struct creation c = {0};
	struct entry *from, *parent;
	int code = transaction_wait_room(p, err);

	if (!code) {
		os_scoped_lock(&p->lock);
		from = catalog_entry(p, snapshot, err);
		if (!from)
			return code_of(err, ERR_NOT_FOUND);
		if (from->d.type != DATASET_SNAPSHOT)
			return error_set(err, ERR_USAGE, "'%s' is not a snapshot", snapshot);
		c.facts.type = (uint8_t)(catalog_parent(p, from) ? catalog_parent(p, from)->d.type : DATASET_VOLUME);
		c.facts.origin = from->d.id;
		c.facts.volume_bytes = from->d.volume_bytes;
		c.facts.record_bytes = from->d.record_bytes;
		code = creation_place(p, &c, path, &parent, err);
		code = code ? code : creation_put(p, &c, err);
		code = code ? code : root_append(p, c.id, from->d.id, err);
	}
	creation_release(&c);
	return code ? code : pool_barrier_now(p, err);
}

/* --- list --------------------------------------------------------------------------------------------------------- */

static void info_of(struct pool *p, const struct entry *e, struct dataset_info *ret)
{
	struct figures f;

	dataset_figures(p, e, &f);
	*ret = (struct dataset_info){
		.id = e->d.id,
		.parent = e->d.parent,
		.origin = e->d.origin,
		.type = e->d.type,
		.created_ns = e->d.created_ns,
		.created_commit = e->d.created_commit,
		.volume_bytes = e->d.volume_bytes,
		.record_bytes = e->d.record_bytes,
		.used = f.used,
		.referenced = e->d.referenced,
		.logical_referenced = e->d.logical_referenced,
		.used_by_snapshots = e->d.used > e->d.referenced ? e->d.used - e->d.referenced : 0,
		.reservation = e->d.reservation,
		.available = f.available,
	};
	catalog_path(p, e, ret->path);
}

/* By name, word by word; a dataset, then its snapshots by age, then what lies below it. */
static int info_compare(const void *a, const void *b)
{
	static const char first[] = {
		0, '@', '/'}; /* an end, then a snapshot, then what lies below, then longer names */
	const struct dataset_info *x = a, *y = b;
	const char *s = x->path, *t = y->path;

	while (*s && *s == *t)
		s++, t++;
	if (x->type == DATASET_SNAPSHOT && y->type == DATASET_SNAPSHOT && x->parent == y->parent)
		return x->created_commit != y->created_commit ? (x->created_commit < y->created_commit ? -1 : 1)
		       : x->id < y->id                        ? -1
							      : x->id > y->id;
	if (*s == *t)
		return 0;
	for (unsigned i = 0; i < array_count(first); i++)
		if (*s == first[i] || *t == first[i])
			return *s == first[i] ? -1 : 1;
	return (unsigned char)*s < (unsigned char)*t ? -1 : 1;
}

int pool_dataset_list(struct pool *p, const char *path, bool (*visit)(void *arg, const struct dataset_info *),
	void *arg, struct error *err)
{
	struct dataset_info *infos = NULL;
	size_t count = 0;

	os_mutex_lock(&p->lock);
	struct entry *from = path ? catalog_entry(p, path, err) : p->catalog->root;
	if (from) {
		list_for_each(&p->datasets, node) count++;
		infos = calloc(count, sizeof(*infos));
		count = 0;
		list_for_each(&p->datasets, node)
		{
			struct entry *e = container_of(node, struct entry, d.link);

			if (infos && !e->d.destroyed && !e->leaving && is_below(p, e, from))
				info_of(p, e, &infos[count++]);
		}
	}
	os_mutex_unlock(&p->lock);
	if (!from)
		return code_of(err, ERR_NOT_FOUND);
	if (!infos)
		return error_set(err, ERR_MEMORY, "out of memory for a list of datasets");
	qsort(infos, count, sizeof(*infos), info_compare);
	for (size_t i = 0; i < count && visit(arg, &infos[i]); i++)
		;
	free(infos);
	return 0;
}

/* --- history ------------------------------------------------------------------------------------------------------ */

#define HISTORY_TEXT_MAX 2048u

int pool_history_add(struct pool *p, const char *command, struct error *err)
{
	size_t length = strnlen(command, HISTORY_TEXT_MAX);
	scoped_free uint8_t *value = malloc(8 + length);
	int code = value ? transaction_wait_room(p, err) : error_set(err, ERR_MEMORY, "out of memory for history");

	if (code)
		return code;
	put_le64(value, os_wall_ns());
	memcpy(value + 8, command, length);
	os_mutex_lock(&p->lock);
	struct catalog *c = p->catalog;
	code = catalog_writable(p, err);
	if (!code && c->history_next - c->history_first >= HISTORY_KEPT)
		code = catalog_put(p, (struct key){CATALOG_HISTORY, c->history_first}, NULL, 0, err);
	if (!code)
		code = catalog_put(
			p, (struct key){CATALOG_HISTORY, c->history_next}, value, (uint32_t)(8 + length), err);
	os_mutex_unlock(&p->lock);
	return code ? code : pool_commit_now(p, err);
}

int pool_history_list(
	struct pool *p, bool (*visit)(void *arg, uint64_t wall_ns, const char *command), void *arg, struct error *err)
{
	uint8_t value[8 + HISTORY_TEXT_MAX + 1];
	uint64_t first, next;
	int code = 0;

	os_mutex_lock(&p->lock);
	first = p->catalog->history_first;
	next = p->catalog->history_next;
	os_mutex_unlock(&p->lock);
	for (uint64_t i = max_of(first, 1u); !code && i < next; i++) {
		uint32_t bytes = 0;
		uint64_t pin;

		os_mutex_lock(&p->lock);
		pin = reader_enter(p);
		os_mutex_unlock(&p->lock);
		code = record_lookup(
			p, TREE_CATALOG, (struct key){CATALOG_HISTORY, i}, value, sizeof(value) - 1, &bytes, err);
		os_mutex_lock(&p->lock);
		reader_leave(p, pin);
		os_mutex_unlock(&p->lock);
		if (code == ERR_NOT_FOUND) {
			code = 0;
			continue;
		}
		if (code || bytes < 8)
			break;
		value[bytes] = 0;
		if (!visit(arg, get_le64(value), (const char *)value + 8))
			break;
	}
	return code;
}
