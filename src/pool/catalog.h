/* catalog.h: what catalog.c, property.c and dataset.c share. All with p->lock held unless it says otherwise. */
#ifndef POOL_CATALOG_H
#define POOL_CATALOG_H

#include "internal.h"

/* Numbers of properties are on the disks: never change one. */
enum property {
	PROPERTY_RECORDSIZE,
	PROPERTY_COMPRESSION,
	PROPERTY_CHECKSUM,
	PROPERTY_COPIES,
	PROPERTY_SYNC,
	PROPERTY_READONLY,
	PROPERTY_QUOTA,
	PROPERTY_RESERVATION,
	PROPERTY_COMMENT,
	PROPERTY_COUNT
};
#define DATASET_ROOT_ID ((uint64_t)TREE_DATASET_FIRST)
#define DATASET_DEPTH_MAX 50u
#define DATASET_PATH_MAX 255u
#define HISTORY_KEPT 4096u
#define RECORD_BYTES_DEFAULT (128u << 10)

struct entry { /* a dataset and what only the catalog knows of it */
	struct dataset d;
	uint64_t guid;
	char *local[PROPERTY_COUNT]; /* as it was set on this one; NULL: inherited or default */
	struct entry *id_next, *name_next;
	bool known;   /* its facts were seen */
	bool named;   /* it is in the table of names */
	bool leaving; /* to be destroyed, what it has in memory is being forgotten */
};

#define CATALOG_BUCKETS 4096u
struct catalog {
	struct entry *by_id[CATALOG_BUCKETS], *by_name[CATALOG_BUCKETS];
	struct entry *root;
	bool root_stored;
	uint64_t history_first, history_next; /* of the items kept; from 1 */
};

static inline struct entry *entry_of(struct dataset *d)
{
	return d ? container_of(d, struct entry, d) : NULL;
}
struct entry *catalog_find(struct pool *p, uint64_t id); /* destroyed ones too */
struct entry *catalog_child(struct pool *p, uint64_t parent, const char *name, bool snapshot);
struct entry *catalog_entry(struct pool *p, const char *path, struct error *err); /* ERR_NOT_FOUND */
struct entry *catalog_parent(struct pool *p, const struct entry *e);
void catalog_path(struct pool *p, const struct entry *e, char path[1024]);
/* Splits a path in two at its last '/' or '@' and finds what is before it. ERR_USAGE for names that cannot be. */
int catalog_split(
	struct pool *p, const char *path, bool snapshot, struct entry **ret_parent, char name[256], struct error *err);
/* May the catalog be changed now? Makes sure that the root's facts are stored. */
int catalog_writable(struct pool *p, struct error *err);
/* One change: into the open transaction and, when that took it, into memory. bytes 0: delete. */
int catalog_put(struct pool *p, struct key key, const void *value, uint32_t bytes, struct error *err);
int catalog_put_facts(struct pool *p, uint64_t id, const struct dataset_facts *f, struct error *err);
void catalog_facts_of(const struct entry *e, struct dataset_facts *ret);

/* property.c */
int property_find(const char *name); /* -1: no such settable one */
int property_check(const struct entry *e, enum property which, const char *value, char normal[256], struct error *err);
const char *property_effective(
	struct pool *p, const struct entry *e, enum property which, const struct entry **ret_from);
void property_resolve(struct pool *p, struct entry *e); /* into what the data path asks for */
void property_resolve_all(struct pool *p);

/* dataset.c: figures with what is below */
struct figures {
	uint64_t used, available;
};
void dataset_figures(struct pool *p, const struct entry *e, struct figures *ret);
bool is_below(struct pool *p, const struct entry *e, const struct entry *above); /* or the same */
int dataset_room_check(struct pool *p, const struct entry *parent, uint64_t more_bytes, struct error *err);

#endif
