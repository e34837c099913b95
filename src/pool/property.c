/*
 * Properties: what can be set on a dataset, what is inherited, and the facts that are only shown. Values are text, as they
 * were set, sizes in plain bytes; what the data path asks for is resolved into struct dataset whenever something changes.
 */
#include "catalog.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ON_FILESYSTEMS = 1, ON_VOLUMES = 2, ON_SNAPSHOTS = 4, ON_HEADS = ON_FILESYSTEMS | ON_VOLUMES };

static const struct property_kind {
	const char *name, *fallback;
	bool inherits;
	unsigned on;
} kinds[PROPERTY_COUNT] = {
	[PROPERTY_RECORDSIZE] = {"recordsize", "131072", true, ON_FILESYSTEMS},
	[PROPERTY_COMPRESSION] = {"compression", "off", true, ON_HEADS},
	[PROPERTY_CHECKSUM] = {"checksum", "on", true, ON_HEADS},
	[PROPERTY_COPIES] = {"copies", "1", true, ON_HEADS},
	[PROPERTY_SYNC] = {"sync", "standard", true, ON_HEADS},
	[PROPERTY_READONLY] = {"readonly", "off", true, ON_HEADS},
	[PROPERTY_QUOTA] = {"quota", "none", false, ON_FILESYSTEMS},
	[PROPERTY_RESERVATION] = {"reservation", "none", false, ON_HEADS},
	[PROPERTY_COMMENT] = {"comment", "", false, ON_HEADS | ON_SNAPSHOTS},
};
static const char *const facts[] = {
	"type",
	"creation",
	"used",
	"available",
	"referenced",
	"usedbysnapshots",
	"compressratio",
	"volsize",
	"volblocksize",
	"origin",
	"guid",
	"logicalreferenced",
};

const char *pool_property_name(unsigned index)
{
	if (index < array_count(facts))
		return facts[index];
	index -= array_count(facts);
	return index < PROPERTY_COUNT ? kinds[index].name : NULL;
}

static const char *without_alias(const char *name)
{
	static const char *const aliases[][2] = {
		{"avail", "available"},
		{"refer", "referenced"},
		{"compress", "compression"},
		{"rdonly", "readonly"},
		{"recsize", "recordsize"},
		{"reserv", "reservation"},
		{"refreservation", "reservation"},
		{"refquota", "quota"},
		{"ratio", "compressratio"},
		{"lrefer", "logicalreferenced"},
	};

	for (unsigned i = 0; i < array_count(aliases); i++)
		if (strcmp(name, aliases[i][0]) == 0)
			return aliases[i][1];
	return name;
}

int property_find(const char *name)
{
	name = without_alias(name);
	for (unsigned i = 0; i < PROPERTY_COUNT; i++)
		if (strcmp(kinds[i].name, name) == 0)
			return (int)i;
	return -1;
}

static bool is_fact(const char *name)
{
	for (unsigned i = 0; i < array_count(facts); i++)
		if (strcmp(facts[i], name) == 0)
			return true;
	return false;
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static bool is_one_of(const char *value, const char *const *words)
{
	while (*words && strcmp(value, *words) != 0)
		words++;
	return *words != NULL;
}

static bool compression_parse(const char *value, enum compression *ret, int *ret_level)
{
	static const char *const words[] = {"off", "on", "lz4", "zstd", "lzjb", "zle"};
	static const enum compression codecs[] = {
		COMPRESS_OFF, COMPRESS_LZ4, COMPRESS_LZ4, COMPRESS_ZSTD, COMPRESS_LZJB, COMPRESS_ZLE};
	uint64_t level;

	*ret_level = 3;
	for (unsigned i = 0; i < array_count(words); i++)
		if (strcmp(value, words[i]) == 0) {
			*ret = codecs[i];
			return true;
		}
	if (strncmp(value, "zstd-", 5) != 0 || number_parse("level", value + 5, 1, 19, &level, NULL))
		return false;
	*ret = COMPRESS_ZSTD;
	*ret_level = (int)level;
	return true;
}

static int size_or_none(const char *name, const char *value, char normal[256], struct error *err)
{
	uint64_t bytes;

	if (strcmp(value, "none") == 0 || strcmp(value, "0") == 0) {
		snprintf(normal, 256, "%s", "none");
		return 0;
	}
	if (size_parse(value, &bytes, NULL) || bytes > 1ULL << 62)
		return error_set(err, ERR_USAGE, "%s is a size or none, not '%.100s'", name, value);
	snprintf(normal, 256, "%" PRIu64, bytes);
	return 0;
}

int property_check(const struct entry *e, enum property which, const char *value, char normal[256], struct error *err)
{
	static const char *const checksums[] = {"on", "xxh3", "sha256", NULL},
				 *const syncs[] = {"standard", "always", "disabled", NULL},
				 *const switches[] = {"on", "off", NULL};
	const char *name = kinds[which].name;
	unsigned on = e->d.type == DATASET_SNAPSHOT ? ON_SNAPSHOTS
		      : e->d.type == DATASET_VOLUME ? ON_VOLUMES
						    : ON_FILESYSTEMS;
	enum compression codec;
	uint64_t bytes;
	int level;

	if (!(kinds[which].on & on))
		return error_set(err, ERR_USAGE, "%s cannot be set on a %s", name,
			on == ON_SNAPSHOTS ? "snapshot"
			: on == ON_VOLUMES ? "volume"
					   : "file system");
	if (strlen(value) > 255)
		return error_set(err, ERR_USAGE, "a value of %s has at most 255 bytes", name);
	snprintf(normal, 256, "%s", value);
	switch (which) {
	case PROPERTY_RECORDSIZE:
		if (size_parse(value, &bytes, NULL) || bytes < POOL_UNIT_BYTES || bytes > 1 << 20 ||
			!is_power_of_two(bytes))
			return error_set(
				err, ERR_USAGE, "recordsize is a power of two from 4KiB to 1MiB, not '%.100s'", value);
		snprintf(normal, 256, "%" PRIu64, bytes);
		return 0;
	case PROPERTY_COMPRESSION:
		return compression_parse(value, &codec, &level) ? 0
								: error_set(err, ERR_USAGE,
									  "compression is off, on, lz4, zstd, zstd-1 "
									  "to zstd-19, lzjb or zle, not '%.100s'",
									  value);
	case PROPERTY_CHECKSUM:
		return is_one_of(value, checksums)
			       ? 0
			       : error_set(err, ERR_USAGE,
					 "checksum is on, xxh3 or sha256, not '%.100s': no record goes without", value);
	case PROPERTY_COPIES:
		if (number_parse("copies", value, 1, 3, &bytes, err))
			return ERR_USAGE;
		return bytes == 1 ? 0
				  : error_set(err, ERR_UNSUPPORTED,
					    "copies=%s: a record has one place, the pool's groups make it safe: take a "
					    "mirror",
					    value);
	case PROPERTY_SYNC:
		return is_one_of(value, syncs)
			       ? 0
			       : error_set(err, ERR_USAGE, "sync is standard, always or disabled, not '%.100s'", value);
	case PROPERTY_READONLY:
		return is_one_of(value, switches)
			       ? 0
			       : error_set(err, ERR_USAGE, "readonly is on or off, not '%.100s'", value);
	case PROPERTY_QUOTA:
	case PROPERTY_RESERVATION:
		return size_or_none(name, value, normal, err);
	default:
		for (const char *c = value; *c; c++)
			if ((unsigned char)*c < ' ' || *c == 127)
				return error_set(err, ERR_USAGE, "%s holds a character that cannot be printed", name);
		return 0;
	}
}

const char *property_effective(
	struct pool *p, const struct entry *e, enum property which, const struct entry **ret_from)
{
	for (const struct entry *at = e; at; at = kinds[which].inherits ? catalog_parent(p, at) : NULL)
		if (at->local[which]) {
			*ret_from = at;
			return at->local[which];
		}
	*ret_from = NULL;
	return kinds[which].fallback;
}

static uint64_t effective_bytes(struct pool *p, const struct entry *e, enum property which)
{
	const struct entry *from;
	const char *value = property_effective(p, e, which, &from);
	uint64_t bytes;

	return strcmp(value, "none") == 0 || size_parse(value, &bytes, NULL) ? 0 : bytes;
}

/* A value that no check let through (a later version's, or damage under a good checksum) counts as the default. */
void property_resolve(struct pool *p, struct entry *e)
{
	const struct entry *from;
	const char *sync = property_effective(p, e, PROPERTY_SYNC, &from);

	if (!compression_parse(
		    property_effective(p, e, PROPERTY_COMPRESSION, &from), &e->d.compression, &e->d.compression_level))
		e->d.compression = COMPRESS_OFF;
	e->d.checksum = strcmp(property_effective(p, e, PROPERTY_CHECKSUM, &from), "sha256") == 0 ? CHECKSUM_SHA256
												  : CHECKSUM_XXH3;
	e->d.sync_always = strcmp(sync, "always") == 0;
	e->d.sync_disabled = strcmp(sync, "disabled") == 0;
	e->d.read_only =
		e->d.type == DATASET_SNAPSHOT || strcmp(property_effective(p, e, PROPERTY_READONLY, &from), "on") == 0;
	e->d.quota = effective_bytes(p, e, PROPERTY_QUOTA);
	e->d.reservation = effective_bytes(p, e, PROPERTY_RESERVATION);
	if (e->d.type == DATASET_FILESYSTEM) {
		uint64_t bytes = effective_bytes(p, e, PROPERTY_RECORDSIZE);

		e->d.record_bytes = bytes >= POOL_UNIT_BYTES && bytes <= 1 << 20 && is_power_of_two(bytes)
					    ? (uint32_t)bytes
					    : RECORD_BYTES_DEFAULT;
	}
}

void property_resolve_all(struct pool *p)
{
	list_for_each(&p->datasets, node)
	{
		struct entry *e = container_of(node, struct entry, d.link);

		if (!e->d.destroyed)
			property_resolve(p, e);
	}
}

/* --- facts -------------------------------------------------------------------------------------------------------- */

static void fact_get(struct pool *p, const struct entry *e, const char *name, char value[256])
{
	static const char *const types[] = {"filesystem", "volume", "snapshot"};
	const struct dataset *d = &e->d;
	struct figures f = {0, 0};
	char path[1024];
	uint64_t n = 0;

	snprintf(value, 256, "%s", "-");
	if (strcmp(name, "type") == 0) {
		snprintf(value, 256, "%s", types[d->type]);
		return;
	}
	if (strcmp(name, "origin") == 0) {
		const struct entry *origin = d->origin ? catalog_find(p, d->origin) : NULL;

		if (origin) {
			catalog_path(p, origin, path);
			snprintf(value, 256, "%.255s", path);
		}
		return;
	}
	if (strcmp(name, "compressratio") == 0) {
		snprintf(value, 256, "%.2fx",
			d->referenced ? (double)d->logical_referenced / (double)d->referenced : 1.0);
		return;
	}
	if (strcmp(name, "used") == 0 || strcmp(name, "available") == 0)
		dataset_figures(p, e, &f);
	if (d->type == DATASET_SNAPSHOT && (strcmp(name, "available") == 0 || strcmp(name, "usedbysnapshots") == 0))
		return;
	if (d->type != DATASET_VOLUME && (strcmp(name, "volsize") == 0 || strcmp(name, "volblocksize") == 0))
		return;
	if (strcmp(name, "creation") == 0)
		n = d->created_ns / 1000000000;
	else if (strcmp(name, "used") == 0)
		n = f.used;
	else if (strcmp(name, "available") == 0)
		n = f.available;
	else if (strcmp(name, "referenced") == 0)
		n = d->referenced;
	else if (strcmp(name, "usedbysnapshots") == 0)
		n = d->used > d->referenced ? d->used - d->referenced : 0;
	else if (strcmp(name, "volsize") == 0)
		n = d->volume_bytes;
	else if (strcmp(name, "volblocksize") == 0)
		n = d->record_bytes;
	else if (strcmp(name, "guid") == 0)
		n = e->guid;
	else
		n = d->logical_referenced;
	snprintf(value, 256, "%" PRIu64, n);
}

/* --- calls -------------------------------------------------------------------------------------------------------- */

int pool_property_get(
	struct pool *p, const char *path, const char *name, char value[256], char source[300], struct error *err)
{
	const struct entry *from;
	struct entry *e;
	int which;

	os_scoped_lock(&p->lock);
	e = catalog_entry(p, path, err);
	if (!e)
		return err && err->code ? err->code : ERR_NOT_FOUND;
	name = without_alias(name);
	which = property_find(name);
	if (which == PROPERTY_RECORDSIZE && e->d.type != DATASET_FILESYSTEM) {
		fact_get(p, e, "volblocksize", value);
		snprintf(source, 300, "%s", "-");
		return 0;
	}
	if (which < 0) {
		if (!is_fact(name))
			return error_set(err, ERR_USAGE, "there is no property '%.100s'", name);
		fact_get(p, e, name, value);
		snprintf(source, 300, "%s", "-");
		return 0;
	}
	snprintf(value, 256, "%s", property_effective(p, e, (enum property)which, &from));
	if (!from) {
		snprintf(source, 300, "%s", "default");
	} else if (from == e) {
		snprintf(source, 300, "%s", "local");
	} else {
		char above[1024];

		catalog_path(p, from, above);
		snprintf(source, 300, "inherited from %.283s", above);
	}
	return 0;
}

static int limits_check(
	struct pool *p, const struct entry *e, enum property which, const char *normal, struct error *err)
{
	struct figures f;
	uint64_t bytes;

	if (strcmp(normal, "none") == 0 || (which != PROPERTY_QUOTA && which != PROPERTY_RESERVATION) ||
		size_parse(normal, &bytes, err))
		return 0;
	if (which == PROPERTY_RESERVATION)
		return bytes > max_of(e->d.reservation, e->d.referenced)
			       ? dataset_room_check(p, e, bytes - max_of(e->d.reservation, e->d.referenced), err)
			       : 0;
	dataset_figures(p, e, &f);
	return bytes >= f.used ? 0
			       : error_set(err, ERR_SPACE,
					 "a quota of %" PRIu64 " bytes is less than the %" PRIu64 " that are used",
					 bytes, f.used);
}

/* value NULL: back to what is inherited. */
static int property_change(struct pool *p, const char *path, const char *name, const char *value, struct error *err)
{
	char normal[256];
	struct entry *e;
	int which, code;

	os_scoped_lock(&p->lock);
	code = catalog_writable(p, err);
	e = code ? NULL : catalog_entry(p, path, err);
	if (!e)
		return code ? code : err && err->code ? err->code : ERR_NOT_FOUND;
	name = without_alias(name);
	which = property_find(name);
	if (which < 0)
		return is_fact(name) ? error_set(err, ERR_USAGE, "%s is a fact and cannot be set", name)
				     : error_set(err, ERR_USAGE, "there is no property '%.100s'", name);
	if (!value) {
		code = e->local[which]
			       ? catalog_put(p, (struct key){e->d.id, CATALOG_PROPERTY((unsigned)which)}, NULL, 0, err)
			       : 0;
	} else {
		code = property_check(e, (enum property)which, value, normal, err);
		code = code ? code : limits_check(p, e, (enum property)which, normal, err);
		if (!code)
			code = catalog_put(p, (struct key){e->d.id, CATALOG_PROPERTY((unsigned)which)}, normal,
				(uint32_t)strlen(normal), err);
	}
	if (!code)
		property_resolve_all(p);
	return code;
}

int pool_property_check(const char *name, const char *value, struct error *err)
{
	const struct entry volume = {.d = {.type = DATASET_VOLUME}};
	char normal[256];
	int which = property_find(name);

	if (which < 0)
		return error_set(err, ERR_USAGE, "there is no property '%.60s'", name);
	return property_check(&volume, (enum property)which, value, normal, err);
}

int pool_property_set(struct pool *p, const char *path, const char *name, const char *value, struct error *err)
{
	int code = property_change(p, path, name, value, err);

	return code ? code : pool_commit_now(p, err);
}

int pool_property_inherit(struct pool *p, const char *path, const char *name, struct error *err)
{
	int code = property_change(p, path, name, NULL, err);

	return code ? code : pool_commit_now(p, err);
}
