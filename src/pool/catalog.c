/*
 * The catalog: which datasets there are. All of them are in memory; the tree holds the same, and every change goes into the
 * open transaction first and then, through the same function that replay and load use, into memory. So what a crash brings
 * back is what was there.
 *
 *   key {dataset, 0}          facts: type, parent, name, sizes, birth
 *   key {dataset, 1 + i}      property i as it was set here
 *   key {dataset, all ones}   root and figures: the fold's, read at load, never written here
 *   key {1, number}           history
 *
 * The root dataset exists without any item. Names are found through (parent, name, is it a snapshot). A destroyed dataset
 * leaves the names at once; its object stays for the fold, which frees what it had and then lets it go.
 */
#include "catalog.h"

#include <stdio.h>
#include <string.h>

#define LLU(v) ((unsigned long long)(v))

/* --- tables ------------------------------------------------------------------------------------------------------- */

static unsigned id_bucket(uint64_t id)
{
	return (unsigned)(id * UINT64_C(0x9e3779b97f4a7c15) >> 52);
}
_Static_assert(CATALOG_BUCKETS == 1 << 12, "the top 12 bits number a bucket");

static unsigned name_bucket(uint64_t parent, const char *name)
{
	return id_bucket(parent * 31 + checksum_xxh3(name, strlen(name)));
}

struct entry *catalog_find(struct pool *p, uint64_t id)
{
	struct entry *e = p->catalog ? p->catalog->by_id[id_bucket(id)] : NULL;

	while (e && e->d.id != id)
		e = e->id_next;
	return e;
}

struct entry *catalog_child(struct pool *p, uint64_t parent, const char *name, bool snapshot)
{
	struct entry *e = p->catalog->by_name[name_bucket(parent, name)];

	while (e &&
		(e->d.parent != parent || (e->d.type == DATASET_SNAPSHOT) != snapshot || strcmp(e->d.name, name) != 0))
		e = e->name_next;
	return e;
}

static void name_remove(struct pool *p, struct entry *e)
{
	struct entry **at = &p->catalog->by_name[name_bucket(e->d.parent, e->d.name)];

	if (!e->named)
		return;
	while (*at != e)
		at = &(*at)->name_next;
	*at = e->name_next;
	e->named = false;
}

static void name_add(struct pool *p, struct entry *e)
{
	struct entry **at = &p->catalog->by_name[name_bucket(e->d.parent, e->d.name)];

	e->name_next = *at;
	*at = e;
	e->named = true;
}

/* The object of an id, made when there is none. NULL: out of memory. */
static struct entry *entry_make(struct pool *p, uint64_t id)
{
	struct entry *e = catalog_find(p, id);

	if (e)
		return e;
	e = calloc(1, sizeof(*e));
	if (!e)
		return NULL;
	e->d.id = id;
	e->d.record_bytes = RECORD_BYTES_DEFAULT;
	e->d.root.kind = BP_HOLE;
	e->id_next = p->catalog->by_id[id_bucket(id)];
	p->catalog->by_id[id_bucket(id)] = e;
	list_push_back(&p->datasets, &e->d.link);
	p->next_dataset = max_of(p->next_dataset, id + 1);
	return e;
}

static void entry_free(struct entry *e)
{
	for (unsigned i = 0; i < PROPERTY_COUNT; i++)
		free(e->local[i]);
	free(e);
}

static void entry_remove(struct pool *p, struct entry *e)
{
	struct entry **at = &p->catalog->by_id[id_bucket(e->d.id)];

	name_remove(p, e);
	while (*at != e)
		at = &(*at)->id_next;
	*at = e->id_next;
	list_remove(&e->d.link);
	entry_free(e);
}

/* --- paths -------------------------------------------------------------------------------------------------------- */

struct entry *catalog_parent(struct pool *p, const struct entry *e)
{
	return e == p->catalog->root ? NULL : catalog_find(p, e->d.parent);
}

void catalog_path(struct pool *p, const struct entry *e, char path[1024])
{
	const struct entry *chain[DATASET_DEPTH_MAX + 2];
	unsigned depth = 0;
	size_t at = 0;

	for (; e && depth < array_count(chain); e = catalog_parent(p, e))
		chain[depth++] = e;
	path[0] = 0;
	while (depth--) {
		const char *mark = at == 0 ? "" : chain[depth]->d.type == DATASET_SNAPSHOT ? "@" : "/";

		at += (size_t)snprintf(path + at, 1024 - at, "%s%s", mark, chain[depth]->d.name);
		at = min_of(at, (size_t)1023);
	}
}

/* One word of a path, up to a mark or the end. */
static int path_word(const char **at, char word[256], const char *path, struct error *err)
{
	size_t length = strcspn(*at, "/@");

	if (length > 255)
		return error_set(err, ERR_USAGE, "'%.200s' has a name of more than 255 bytes", path);
	memcpy(word, *at, length);
	word[length] = 0;
	if (!dataset_name_is_valid(word))
		return error_set(err, ERR_USAGE, "'%.200s': '%.100s' cannot be a name: letters, digits and -_.: are",
			path, word);
	*at += length;
	return 0;
}

/* Walks a path down to its end, or to its last word, which then is in `last` and need not exist. */
static int path_walk(struct pool *p, const char *path, bool but_last, struct entry **ret, char last[256],
	bool *ret_snapshot, struct error *err)
{
	const char *at = path;
	struct entry *e = NULL;
	bool snapshot = false;
	unsigned depth = 0;
	char word[256];

	if (strlen(path) > DATASET_PATH_MAX)
		return error_set(err, ERR_USAGE, "'%.100s…' is longer than %u bytes", path, DATASET_PATH_MAX);
	for (;;) {
		int code = path_word(&at, word, path, err);

		if (code)
			return code;
		if (++depth > DATASET_DEPTH_MAX)
			return error_set(err, ERR_USAGE, "'%.100s…' is nested deeper than %u", path, DATASET_DEPTH_MAX);
		if (*at == '/' && snapshot)
			return error_set(err, ERR_USAGE, "'%s': nothing lies below a snapshot", path);
		if (*at == '@' && snapshot)
			return error_set(err, ERR_USAGE, "'%s': a snapshot has no snapshot", path);
		if (*at == 0 && but_last && e) {
			*ret = e;
			*ret_snapshot = snapshot;
			memcpy(last, word, sizeof(word));
			return 0;
		}
		if (!e && strcmp(word, p->config.name) != 0)
			return error_set(err, ERR_NOT_FOUND, "'%s' is not in pool %s", path, p->config.name);
		e = e ? catalog_child(p, e->d.id, word, snapshot) : p->catalog->root;
		if (!e || e->leaving)
			return error_set(err, ERR_NOT_FOUND, "there is no %s '%.*s'", snapshot ? "snapshot" : "dataset",
				(int)(at - path), path);
		if (*at == 0) {
			if (but_last)
				return error_set(err, ERR_USAGE, "'%s' is the pool itself", path);
			*ret = e;
			return 0;
		}
		snapshot = *at++ == '@';
	}
}

struct entry *catalog_entry(struct pool *p, const char *path, struct error *err)
{
	struct entry *e = NULL;

	return path_walk(p, path, false, &e, NULL, NULL, err) ? NULL : e;
}

int catalog_split(
	struct pool *p, const char *path, bool snapshot, struct entry **ret_parent, char name[256], struct error *err)
{
	bool is_snapshot;
	int code = path_walk(p, path, true, ret_parent, name, &is_snapshot, err);

	if (code)
		return code;
	if (is_snapshot != snapshot)
		return error_set(
			err, ERR_USAGE, snapshot ? "'%s' is not DATASET@NAME" : "'%s' is the name of a snapshot", path);
	if (!snapshot && (*ret_parent)->d.type != DATASET_FILESYSTEM)
		return error_set(err, ERR_USAGE, "'%s': nothing can lie below a volume", path);
	return 0;
}

struct dataset *dataset_by_id(struct pool *p, uint64_t id)
{
	struct entry *e = catalog_find(p, id);

	return e ? &e->d : NULL;
}

struct dataset *dataset_by_path(struct pool *p, const char *path, struct error *err)
{
	struct entry *e = catalog_entry(p, path, err);

	return e ? &e->d : NULL;
}

/* --- items -------------------------------------------------------------------------------------------------------- */

void catalog_facts_of(const struct entry *e, struct dataset_facts *ret)
{
	*ret = (struct dataset_facts){
		.type = (uint8_t)e->d.type,
		.record_bytes = e->d.record_bytes,
		.parent = e->d.parent,
		.origin = e->d.origin,
		.volume_bytes = e->d.volume_bytes,
		.created_ns = e->d.created_ns,
		.created_commit = e->d.created_commit,
		.guid = e->guid,
	};
	memcpy(ret->name, e->d.name, sizeof(ret->name));
}

static int facts_apply(struct pool *p, uint64_t id, const uint8_t *value, uint32_t bytes, struct error *err)
{
	struct dataset_facts f;
	struct entry *e;
	int code;

	if (bytes == 0) {
		e = catalog_find(p, id);
		if (e && e != p->catalog->root) {
			name_remove(p, e);
			e->d.destroyed = true;
		}
		return 0;
	}
	code = dataset_facts_unpack(value, bytes, &f, err);
	if (code)
		return code;
	e = entry_make(p, id);
	if (!e)
		return error_set(err, ERR_MEMORY, "out of memory for a dataset");
	name_remove(p, e);
	e->d.type = f.type;
	e->d.record_bytes = f.record_bytes;
	e->d.parent = f.parent;
	e->d.origin = f.origin;
	e->d.volume_bytes = f.volume_bytes;
	e->d.created_ns = f.created_ns;
	e->d.created_commit = f.created_commit;
	e->guid = f.guid;
	memcpy(e->d.name, f.name, sizeof(e->d.name));
	e->known = true;
	if (e == p->catalog->root) {
		snprintf(e->d.name, sizeof(e->d.name), "%s", p->config.name);
		e->d.parent = e->d.origin = 0;
		e->d.type = DATASET_FILESYSTEM;
		p->catalog->root_stored = true;
	} else {
		name_add(p, e);
	}
	return 0;
}

static int property_apply(
	struct pool *p, uint64_t id, unsigned which, const uint8_t *value, uint32_t bytes, struct error *err)
{
	struct entry *e = bytes ? entry_make(p, id) : catalog_find(p, id);
	char *text = bytes ? malloc(bytes + 1) : NULL;

	if (!e && !bytes)
		return 0;
	if (!e || (bytes && !text)) {
		free(text);
		return error_set(err, ERR_MEMORY, "out of memory for a property");
	}
	if (text) {
		memcpy(text, value, bytes);
		text[bytes] = 0;
	}
	free(e->local[which]);
	e->local[which] = text;
	return 0;
}

static int item_apply(struct pool *p, struct key key, const uint8_t *value, uint32_t bytes, struct error *err)
{
	struct catalog *c = p->catalog;

	if (key.a == CATALOG_HISTORY) {
		if (bytes) {
			c->history_first = c->history_first ? min_of(c->history_first, key.b) : key.b;
			c->history_next = max_of(c->history_next, key.b + 1);
		} else if (key.b == c->history_first) {
			c->history_first++;
		}
		return 0;
	}
	if (key.a < TREE_DATASET_FIRST)
		return error_set(err, ERR_CORRUPT, "the catalog has an item {%llu, %llu}", LLU(key.a), LLU(key.b));
	if (key.b == CATALOG_FACTS)
		return facts_apply(p, key.a, value, bytes, err);
	if (key.b <= PROPERTY_COUNT) {
		if (bytes > 255 || (bytes && memchr(value, 0, bytes)))
			return error_set(err, ERR_CORRUPT, "property %llu of dataset %llu has %u bytes", LLU(key.b - 1),
				LLU(key.a), bytes);
		return property_apply(p, key.a, (unsigned)key.b - 1, value, bytes, err);
	}
	return 0; /* of a later version, or the fold's */
}

static int root_apply(struct pool *p, uint64_t id, const uint8_t *value, uint32_t bytes, struct error *err)
{
	struct entry *e;
	struct bp root;
	int code;

	if (bytes != CATALOG_ROOT_BYTES)
		return error_set(err, ERR_CORRUPT, "the root item of dataset %llu has %u bytes; expected %u", LLU(id),
			bytes, CATALOG_ROOT_BYTES);
	code = bp_unpack(value, &root, err);
	if (code)
		return code;
	if (root.kind != BP_HOLE && root.kind != BP_NODE)
		return error_set(
			err, ERR_CORRUPT, "the root of dataset %llu is a pointer of kind %u", LLU(id), root.kind);
	e = entry_make(p, id);
	if (!e)
		return error_set(err, ERR_MEMORY, "out of memory for a dataset");
	e->d.root = root;
	e->d.used = get_le64(value + 64);
	e->d.referenced = get_le64(value + 72);
	e->d.logical_referenced = get_le64(value + 80);
	e->d.dead_list = get_le64(value + 88);
	e->d.newest_snapshot_commit = get_le64(value + 96);
	return 0;
}

int catalog_apply(struct pool *p, struct key key, const uint8_t *value, uint32_t bytes, struct error *err)
{
	int code;

	os_scoped_lock(&p->lock);
	code = key.b == CATALOG_ROOT && key.a != CATALOG_HISTORY ? 0 : item_apply(p, key, value, bytes, err);
	if (!code && key.a != CATALOG_HISTORY)
		property_resolve_all(p);
	return code;
}

int catalog_put(struct pool *p, struct key key, const void *value, uint32_t bytes, struct error *err)
{
	int code = transaction_put(p, NULL, TREE_CATALOG, key, value, bytes, err);

	return code ? code : item_apply(p, key, value, bytes, err);
}

int catalog_put_facts(struct pool *p, uint64_t id, const struct dataset_facts *f, struct error *err)
{
	uint8_t bytes[DATASET_FACTS_BYTES_MAX];

	return catalog_put(p, (struct key){id, CATALOG_FACTS}, bytes, (uint32_t)dataset_facts_pack(f, bytes), err);
}

int catalog_writable(struct pool *p, struct error *err)
{
	struct dataset_facts f;
	int code = pool_refuses(p, err);

	if (code || p->catalog->root_stored)
		return code;
	catalog_facts_of(p->catalog->root, &f);
	return catalog_put_facts(p, DATASET_ROOT_ID, &f, err);
}

/* --- for the fold ------------------------------------------------------------------------------------------------- */

static bool is_older(const struct dataset *a, const struct dataset *b)
{
	return a->created_commit != b->created_commit ? a->created_commit < b->created_commit : a->id < b->id;
}

/* The nearest snapshot of a dataset on one side of `d`; d NULL: the newest of all. */
static struct dataset *neighbour(struct pool *p, uint64_t parent, const struct dataset *d, bool before)
{
	struct dataset *best = NULL;

	list_for_each(&p->datasets, node)
	{
		struct dataset *s = container_of(node, struct dataset, link);

		if (s->type != DATASET_SNAPSHOT || s->parent != parent || s == d)
			continue;
		if (d && is_older(s, d) != before)
			continue;
		if (!best || is_older(best, s) == before)
			best = s;
	}
	return best;
}

struct dataset *catalog_snapshot_before(struct pool *p, const struct dataset *d)
{
	return d->type == DATASET_SNAPSHOT ? neighbour(p, d->parent, d, true) : neighbour(p, d->id, NULL, true);
}

struct dataset *catalog_snapshot_after(struct pool *p, const struct dataset *d)
{
	return d->type == DATASET_SNAPSHOT ? neighbour(p, d->parent, d, false) : NULL;
}

void catalog_dataset_gone(struct pool *p, struct dataset *d)
{
	entry_remove(p, entry_of(d));
}

/* --- load, close -------------------------------------------------------------------------------------------------- */

struct load {
	struct pool *p;
	struct error *err;
	int code;
};

static bool load_item(void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct load *l = arg;

	os_scoped_lock(&l->p->lock);
	l->code = key.b == CATALOG_ROOT && key.a != CATALOG_HISTORY ? root_apply(l->p, key.a, value, bytes, l->err)
								    : item_apply(l->p, key, value, bytes, l->err);
	return l->code == 0;
}

/* Every dataset has facts, and its parents lead to the root. */
static int load_check(struct pool *p, struct error *err)
{
	list_for_each(&p->datasets, node)
	{
		struct entry *e = container_of(node, struct entry, d.link), *at = e;
		unsigned depth = 0;

		if (!e->known)
			return error_set(err, ERR_CORRUPT, "dataset %llu of the catalog has no facts", LLU(e->d.id));
		while (at && at != p->catalog->root && depth++ <= DATASET_DEPTH_MAX + 1)
			at = catalog_find(p, at->d.parent);
		if (at != p->catalog->root)
			return error_set(err, ERR_CORRUPT,
				"dataset '%s' of the catalog does not lie below the pool's root", e->d.name);
		if (e->d.origin && !catalog_find(p, e->d.origin))
			return error_set(err, ERR_CORRUPT,
				"dataset '%s' of the catalog grew from snapshot %llu, which is not there", e->d.name,
				LLU(e->d.origin));
		if (catalog_child(p, e->d.parent, e->d.name, e->d.type == DATASET_SNAPSHOT) != e &&
			e != p->catalog->root)
			return error_set(err, ERR_CORRUPT, "two datasets of the catalog are called '%s'", e->d.name);
	}
	return 0;
}

int catalog_load(struct pool *p, struct error *err)
{
	struct load l = {.p = p, .err = err};
	struct catalog *c = calloc(1, sizeof(*c));
	int code = 0;

	if (!c)
		return error_set(err, ERR_MEMORY, "out of memory for the catalog");
	if (!p->datasets.next)
		list_init(&p->datasets);
	os_mutex_lock(&p->lock);
	sp_assert(!p->catalog && list_is_empty(&p->datasets));
	p->catalog = c;
	c->history_next = 1;
	p->next_dataset = max_of(p->next_dataset, max_of(p->uber.next_dataset, DATASET_ROOT_ID + 1));
	c->root = entry_make(p, DATASET_ROOT_ID);
	if (c->root) {
		c->root->d.type = DATASET_FILESYSTEM;
		c->root->d.created_ns = p->uber.wall_ns;
		c->root->guid = get_le64(p->id);
		c->root->known = true;
		snprintf(c->root->d.name, sizeof(c->root->d.name), "%s", p->config.name);
	} else {
		code = error_set(err, ERR_MEMORY, "out of memory for the catalog");
	}
	os_mutex_unlock(&p->lock);
	if (!code && p->uber.catalog.kind != BP_HOLE)
		code = tree_walk(p, &p->uber.catalog, TREE_CATALOG, (struct key){0, 0}, load_item, &l, err);
	code = code ? code : l.code;
	os_scoped_lock(&p->lock);
	code = code ? code : load_check(p, err);
	if (!code)
		property_resolve_all(p);
	return code;
}

void catalog_close(struct pool *p)
{
	if (!p->catalog)
		return;
	list_for_each_safe(&p->datasets, node, keep) entry_free(container_of(node, struct entry, d.link));
	list_init(&p->datasets);
	free(p->catalog);
	p->catalog = NULL;
}
