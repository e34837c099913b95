/*
 * Dump: what lies on the disks, for people. It opens no pool and believes nothing: labels, rings and logs are read where they
 * must lie, trees by the addresses in the newest uberblock. What cannot be read or does not verify is said, and the rest goes on.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "label.h"
#include "catalog.h"

#define LLU(v) ((unsigned long long)(v))

enum { DUMP_LABELS = 1, DUMP_UBERBLOCKS = 2, DUMP_LOG = 4, DUMP_RUNS = 8, DUMP_CATALOG = 16, DUMP_TREES = 32 };

struct dump {
	struct disk *const *disks;
	unsigned disk_count;
	struct label_facts *facts;
	struct pool_config *config; /* the newest of all */
	struct disk *by_index[POOL_DISKS_MAX];
	struct uberblock uber; /* the newest of its pool */
	bool has_config, has_uber, stopped;
	uint64_t nodes_left; /* more would be a loop */
	void (*line)(void *arg, const char *text);
	void *arg;
};

/* --- one line a structure ----------------------------------------------------------------------------------------- */

static void say(struct dump *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct dump *d, const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	d->line(d->arg, line);
}

static void hex(const uint8_t *in, unsigned bytes, char *out)
{
	for (unsigned i = 0; i < bytes; i++)
		snprintf(out + 2 * i, 3, "%02x", in[i]);
}

static const char *const compressions[COMPRESS_COUNT] = {"off", "lz4", "zstd", "lzjb", "zle"};
static const char *const checksums[CHECKSUM_COUNT] = {"xxh3", "sha256"};

static void bp_text(const struct bp *bp, char out[300])
{
	char sum[2 * CHECKSUM_BYTES + 1];
	int at;

	hex(bp->checksum, 8, sum);
	switch (bp->kind) {
	case BP_HOLE:
		snprintf(out, 300, "hole");
		return;
	case BP_INLINE:
		snprintf(out, 300, "inline: %u bytes in %u, %s, birth %llu", bp->logical_bytes, bp->physical_bytes,
			compressions[bp->compression], LLU(bp->birth));
		return;
	case BP_NODE:
		at = snprintf(out, 300, "node: level %u, birth %llu, %s %s…, copies", bp->level, LLU(bp->birth),
			checksums[bp->checksum_kind], sum);
		for (unsigned i = 0; i < bp->copies; i++)
			at += snprintf(out + at, 300 - (size_t)at, " %u:%llu", bp->copy[i].disk, LLU(bp->copy[i].unit));
		return;
	default:
		snprintf(out, 300,
			"data: %u bytes in %u, %s, run %llu stripe %u column %u (was at %u:%llu), birth %llu, %s %s…",
			bp->logical_bytes, bp->physical_bytes, compressions[bp->compression], LLU(bp->run), bp->stripe,
			bp->column, bp->hint.disk, LLU(bp->hint.unit), LLU(bp->birth), checksums[bp->checksum_kind],
			sum);
	}
}

static void dump_config(struct dump *d, const struct pool_config *c)
{
	static const char *const states[PD_STATE_COUNT] = {"online", "missing", "faulted", "offline", "removed"};
	static const char *const kinds[GROUP_KIND_COUNT] = {"disk", "mirror", "parity"};
	char id[33];

	hex(c->pool_id, 16, id);
	say(d, "  configuration %llu: pool %s, id %s, %s%s, runs of %llu bytes", LLU(c->generation), c->name, id,
		c->exported || !c->host_id ? "exported" : "owned by ", c->exported || !c->host_id ? "" : c->host_name,
		LLU(c->run_bytes));
	for (unsigned g = 0; g < c->group_count; g++)
		say(d, "    group %u: %s, width %u, parity %u", g, kinds[c->groups[g].kind], c->groups[g].width,
			c->groups[g].parity);
	for (unsigned i = 0; i < c->disk_count; i++) {
		const struct config_disk *k = &c->disks[i];

		hex(k->id, 16, id);
		say(d,
			"    disk %u: id %s, group %u, %s, %llu bytes, %u zones of %llu from %llu, missed from %llu, "
			"last at %s",
			i, id, k->group, states[k->state], LLU(k->size_bytes), k->zone_count, LLU(k->zone_bytes),
			LLU(k->data_start_bytes), LLU(k->missed_from), k->path[0] ? k->path : "-");
	}
}

static void dump_labels(struct dump *d)
{
	struct pool_config *c = malloc(sizeof(*c));
	char pool[33], disk[33];

	for (unsigned i = 0; c && i < d->disk_count; i++) {
		struct label_facts *f = &d->facts[i];
		const struct label_header *h = &f->header;
		struct error err = ERROR_INIT;

		if (label_facts_read(d->disks[i], f, c, &err)) {
			say(d, "%s", err.text);
			continue;
		}
		hex(h->pool_id, 16, pool);
		hex(h->disk_id, 16, disk);
		say(d, "%s: version %u, features 0x%llx 0x%llx, pool %s, disk %s, index %u, %llu bytes (has %llu)",
			disk_traits(d->disks[i])->name, h->version, LLU(h->features_incompatible),
			LLU(h->features_read_only), pool, disk, h->disk_index, LLU(h->size_bytes), LLU(f->size_bytes));
		say(d, "  headers verify: %s%s; configurations: %u of 4; log %llu at %llu; %u zones of %llu from %llu",
			f->headers & 1 ? "front " : "", f->headers & 2 ? "back" : "", f->configs, LLU(h->log_bytes),
			LLU(h->log_offset_bytes), h->zone_count, LLU(h->zone_bytes), LLU(h->data_start_bytes));
		dump_config(d, c);
	}
	free(c);
}

static void dump_roots(struct dump *d, const struct uberblock *u)
{
	const struct bp *roots[] = {&u->catalog, &u->runs, &u->sums, &u->dead, &u->metamap};
	static const char *const names[] = {"catalog", "runs", "sums", "dead", "metamap"};
	char text[300];

	for (unsigned i = 0; i < array_count(roots); i++) {
		bp_text(roots[i], text);
		say(d, "    %s: %s", names[i], text);
	}
}

static void dump_ring(struct dump *d, unsigned i, bool print)
{
	struct label_facts *f = &d->facts[i];
	const size_t ring_bytes = LABEL_RING_SLOTS * 4096;
	uint8_t *rings = aligned_alloc(DISK_BUFFER_ALIGN, 2 * ring_bytes);
	bool is_ours;

	if (!rings || !f->configs) {
		free(rings);
		return;
	}
	is_ours = d->has_config && memcmp(d->config->pool_id, f->header.pool_id, 16) == 0;
	memset(rings, 0, 2 * ring_bytes);
	for (unsigned end = 0; end < 2; end++)
		if (disk_read(f->disk, LABEL_RING_OFFSET + (end ? label_back_offset(f->header.size_bytes) : 0),
			    rings + end * ring_bytes, ring_bytes, NULL) &&
			print)
			say(d, "%s: the ring of the %s label cannot be read", disk_traits(f->disk)->name,
				end ? "back" : "front");
	if (print)
		say(d, "%s: uberblocks", disk_traits(f->disk)->name);
	for (unsigned slot = 0; slot < LABEL_RING_SLOTS; slot++) {
		unsigned there = 0;
		struct uberblock u, one;

		for (unsigned end = 0; end < 2; end++)
			if (uberblock_unpack(
				    rings + end * ring_bytes + slot * 4096, f->header.disk_id, slot, &one, NULL) == 0) {
				there |= 1u << end;
				u = one;
			}
		if (!there)
			continue;
		if (print) {
			say(d,
				"  slot %u: checkpoint %llu, commit %llu, log from record %llu at %llu, next run %llu, "
				"next dataset %llu, %s",
				slot, LLU(u.checkpoint), LLU(u.commit), LLU(u.log_sequence), LLU(u.log_offset),
				LLU(u.next_run), LLU(u.next_dataset),
				there == 3   ? "both ends"
				: there == 1 ? "front only"
					     : "back only");
			dump_roots(d, &u);
		}
		if (is_ours && (!d->has_uber || u.checkpoint > d->uber.checkpoint)) {
			d->uber = u;
			d->has_uber = true;
		}
	}
	free(rings);
}

/* --- the log ------------------------------------------------------------------------------------------------------ */

static void dump_record(struct dump *d, uint64_t offset, const struct log_head *h, const uint8_t *entries)
{
	static const char *const types[LOG_TYPE_COUNT] = {
		"", "record", "catalog", "run", "repaired", "barrier", "intent", "destroy", "root"};
	struct error err = ERROR_INIT;
	struct log_entry e;
	uint32_t at = 0;

	say(d, "  at %llu: record %llu of commit %llu, %u bytes%s%s", LLU(offset), LLU(h->sequence), LLU(h->commit),
		h->bytes, h->flags & LOG_FLAG_COMMIT ? ", its last" : "",
		h->flags & LOG_FLAG_INTENT ? ", intents" : "");
	while (log_entry_next(entries, h->entry_bytes, &at, &e, &err)) {
		uint64_t a = e.bytes >= 8 ? get_le64(e.payload) : 0, b = e.bytes >= 16 ? get_le64(e.payload + 8) : 0;

		say(d, "    %s: %u bytes, %llu %llu", types[e.type], e.bytes, LLU(a), LLU(b));
	}
	if (err.code)
		say(d, "    %s", err.text);
}

static void dump_log(struct dump *d, unsigned i)
{
	const struct label_facts *f = &d->facts[i];
	uint8_t *window = aligned_alloc(DISK_BUFFER_ALIGN, LOG_RECORD_BYTES_MAX);
	uint64_t offset = 0;

	if (!window || !f->configs) {
		free(window);
		return;
	}
	say(d, "%s: log of %llu bytes", disk_traits(f->disk)->name, LLU(f->header.log_bytes));
	while (offset < f->header.log_bytes) {
		uint64_t left = min_of(f->header.log_bytes - offset, (uint64_t)LOG_RECORD_BYTES_MAX), used = 0;

		if (disk_read(f->disk, f->header.log_offset_bytes + offset, window, left, NULL)) {
			say(d, "  at %llu: %llu bytes cannot be read", LLU(offset), LLU(left));
			offset += left;
			continue;
		}
		while (used < left) {
			struct error err = ERROR_INIT;
			struct log_head h;
			int code = log_head_check(window + used, f->header.pool_id, &h, &err);

			if (!code && h.bytes > left - used && used)
				break; /* again from here, whole */
			if (!code)
				code = log_record_check(window + used, left - used, f->header.pool_id, &h, &err);
			if (code == ERR_CORRUPT)
				say(d, "  at %llu: %s", LLU(offset + used), err.text);
			else if (!code)
				dump_record(d, offset + used, &h, window + used + LOG_HEAD_BYTES);
			used += code ? POOL_UNIT_BYTES : h.bytes;
		}
		offset += used;
	}
	free(window);
}

/* --- trees -------------------------------------------------------------------------------------------------------- */

/* The first copy that verifies. */
static bool node_read(struct dump *d, const struct bp *bp, uint64_t tree, uint8_t *out, struct node_head *ret)
{
	struct seal_place place = {.pool_id = d->config->pool_id,
		.place = min_of(tree, (uint64_t)TREE_DATASET_FIRST),
		.where = bp->level,
		.birth = bp->birth};
	char text[300];

	for (unsigned i = 0; i < bp->copies; i++) {
		struct disk *disk = bp->copy[i].disk < POOL_DISKS_MAX ? d->by_index[bp->copy[i].disk] : NULL;
		uint64_t at = bp->copy[i].unit * POOL_UNIT_BYTES;
		uint8_t sum[CHECKSUM_BYTES];
		struct error err = ERROR_INIT;

		if (!disk || at > disk_traits(disk)->size_bytes || NODE_BYTES > disk_traits(disk)->size_bytes - at ||
			disk_read(disk, at, out, NODE_BYTES, NULL))
			continue;
		seal_make(bp->checksum_kind, &place, out, NODE_BYTES, sum);
		if (memcmp(sum, bp->checksum, CHECKSUM_BYTES) == 0 &&
			node_check(out, get_le64(out + 8), bp->level, ret, &err) == 0)
			return true;
	}
	bp_text(bp, text);
	say(d, "  cannot be read or does not verify: %s", text);
	return false;
}

static void walk(struct dump *d, const struct bp *bp, uint64_t tree, bool say_nodes,
	void (*item)(struct dump *d, uint64_t tree, struct key key, const uint8_t *value, uint32_t bytes))
{
	uint8_t *node;
	struct node_head h;
	uint32_t at = NODE_HEAD_BYTES;

	if (bp->kind != BP_NODE || bp->level > TREE_LEVEL_MAX || d->stopped)
		return;
	if (d->nodes_left-- == 0) {
		say(d, "  more nodes than there is room for: the trees run in a circle");
		d->stopped = true;
		return;
	}
	node = aligned_alloc(DISK_BUFFER_ALIGN, NODE_BYTES);
	if (node && node_read(d, bp, tree, node, &h)) {
		if (say_nodes)
			say(d, "  node of tree %llu: level %u, %u items, %u bytes, birth %llu", LLU(h.tree), h.level,
				h.items, h.bytes, LLU(h.birth));
		for (unsigned i = 0; i < h.items; i++) {
			struct key key = {get_le64(node + at), get_le64(node + at + 8)};
			struct bp below;

			if (h.level) {
				if (bp_unpack(node + at + 16, &below, NULL) == 0)
					walk(d, &below, tree, say_nodes, item);
				at += 16 + BP_BYTES;
			} else {
				uint32_t bytes = get_le16(node + at + 16);

				item(d, tree, key, node + at + 18, bytes);
				at += 18 + bytes;
			}
		}
	}
	free(node);
}

static void item_bp(struct dump *d, uint64_t tree, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct error err = ERROR_INIT;
	struct bp bp;
	char text[300];

	if (bp_unpack_value(value, bytes, &bp, &err) == 0)
		bp_text(&bp, text);
	else
		snprintf(text, sizeof(text), "%.299s", err.text);
	say(d, "    {%llu, %llu} %s", LLU(key.a), LLU(key.b), text);
}

static void item_bytes(struct dump *d, uint64_t tree, struct key key, const uint8_t *value, uint32_t bytes)
{
	say(d, "    {%llu, %llu} %u bytes", LLU(key.a), LLU(key.b), bytes);
}

static void item_run(struct dump *d, uint64_t tree, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct run_format *r = malloc(sizeof(*r));
	struct error err = ERROR_INIT;
	char columns[POOL_WIDTH_MAX * 24 + 1] = "";
	unsigned live = 0, returned = 0, at = 0;

	if (!r || run_unpack(value, bytes, r, &err)) {
		say(d, "    run %llu: %s", LLU(key.a), err.text);
		free(r);
		return;
	}
	for (unsigned i = 0; i < sizeof(r->live); i++)
		live += (unsigned)__builtin_popcount(r->live[i]);
	for (unsigned i = 0; i < sizeof(r->returned); i++)
		returned += (unsigned)__builtin_popcount(r->returned[i]);
	for (unsigned c = 0; c < r->k + r->p; c++)
		at += (unsigned)snprintf(columns + at, sizeof(columns) - at, " %s%u:%llu%s", c == r->k ? "+ " : "",
			r->column[c].disk, LLU(r->column[c].unit), r->column_state[c] ? "!" : "");
	say(d,
		"    run %llu: group %u, %u + %u columns of %u, %u stripes, births %llu to %llu, version %u, %u "
		"columns live, "
		"%u stripes given back, on%s",
		LLU(r->id), r->group, r->k, r->p, class_bytes[r->class], r->stripes, LLU(r->birth), LLU(r->birth_last),
		r->version, live, returned, columns);
	free(r);
}

static void item_dataset_tree(struct dump *d, uint64_t tree, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct bp root;

	if (key.b != CATALOG_ROOT || key.a < TREE_DATASET_FIRST || bytes != CATALOG_ROOT_BYTES ||
		bp_unpack(value, &root, NULL))
		return;
	say(d, "tree of dataset %llu", LLU(key.a));
	walk(d, &root, key.a, true, item_bp);
}

static void item_catalog(struct dump *d, uint64_t tree, struct key key, const uint8_t *value, uint32_t bytes)
{
	static const char *const types[] = {"filesystem", "volume", "snapshot"};
	struct dataset_facts f;
	struct error err = ERROR_INIT;
	struct bp root;
	char text[300];

	if (key.a == CATALOG_HISTORY && bytes >= 8) {
		say(d, "    history %llu: %.*s", LLU(key.b), (int)bytes - 8, (const char *)value + 8);
	} else if (key.b == CATALOG_FACTS) {
		if (dataset_facts_unpack(value, bytes, &f, &err))
			say(d, "    dataset %llu: %s", LLU(key.a), err.text);
		else
			say(d,
				"    dataset %llu: %s '%s' of %llu, origin %llu, %llu bytes in records of %u, born in "
				"commit %llu",
				LLU(key.a), types[f.type], f.name, LLU(f.parent), LLU(f.origin), LLU(f.volume_bytes),
				f.record_bytes, LLU(f.created_commit));
	} else if (key.b <= PROPERTY_COUNT) {
		say(d, "    dataset %llu: property %llu = %.*s", LLU(key.a), LLU(key.b - 1), (int)bytes,
			(const char *)value);
	} else if (key.b == CATALOG_ROOT && bytes == CATALOG_ROOT_BYTES && bp_unpack(value, &root, &err) == 0) {
		bp_text(&root, text);
		say(d,
			"    dataset %llu: used %llu, referenced %llu, logical %llu, dead list %llu, newest snapshot "
			"%llu, root %s",
			LLU(key.a), LLU(get_le64(value + 64)), LLU(get_le64(value + 72)), LLU(get_le64(value + 80)),
			LLU(get_le64(value + 88)), LLU(get_le64(value + 96)), text);
	} else {
		item_bytes(d, tree, key, value, bytes);
	}
}

static void dump_trees(struct dump *d, unsigned what)
{
	if (!d->has_uber) {
		say(d, "no uberblock verifies: no trees");
		return;
	}
	if (what & DUMP_RUNS) {
		say(d, "runs, as of checkpoint %llu", LLU(d->uber.checkpoint));
		walk(d, &d->uber.runs, TREE_RUNS, false, item_run);
	}
	if (what & DUMP_CATALOG) {
		say(d, "catalog, as of checkpoint %llu", LLU(d->uber.checkpoint));
		walk(d, &d->uber.catalog, TREE_CATALOG, false, item_catalog);
	}
	if (what & DUMP_TREES) {
		say(d, "sums");
		walk(d, &d->uber.sums, TREE_SUMS, true, item_bytes);
		say(d, "dead lists");
		walk(d, &d->uber.dead, TREE_DEAD, true, item_bp);
		say(d, "map of nodes");
		walk(d, &d->uber.metamap, TREE_METAMAP, true, item_bytes);
		walk(d, &d->uber.catalog, TREE_CATALOG, false, item_dataset_tree);
	}
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static int parse_what(const char *what, unsigned *ret, struct error *err)
{
	static const struct {
		const char *word;
		unsigned bits;
	} words[] = {{"labels", DUMP_LABELS}, {"uberblocks", DUMP_UBERBLOCKS}, {"log", DUMP_LOG}, {"runs", DUMP_RUNS},
		{"catalog", DUMP_CATALOG}, {"trees", DUMP_TREES}, {"all", 63}};

	for (unsigned i = 0; i < array_count(words); i++)
		if (!what || strcmp(what, words[i].word) == 0) {
			*ret = what ? words[i].bits : 63;
			return 0;
		}
	return error_set(
		err, ERR_USAGE, "dump knows labels, uberblocks, log, runs, catalog, trees and all, not '%.100s'", what);
}

static void find_pool(struct dump *d)
{
	struct pool_config *c = malloc(sizeof(*c));

	for (unsigned i = 0; c && i < d->disk_count; i++) {
		d->nodes_left += disk_traits(d->disks[i])->size_bytes / NODE_BYTES;
		if (label_facts_read(d->disks[i], &d->facts[i], c, NULL))
			continue;
		if (d->has_config && d->config->generation >= c->generation)
			continue;
		memcpy(d->config, c, sizeof(*c));
		d->has_config = true;
	}
	for (unsigned i = 0; d->has_config && i < d->disk_count; i++)
		for (unsigned n = 0; d->facts[i].configs && n < d->config->disk_count; n++)
			if (memcmp(d->config->disks[n].id, d->facts[i].header.disk_id, 16) == 0)
				d->by_index[n] = d->disks[i];
	free(c);
}

int pool_dump(struct disk *const *disks, unsigned disk_count, const char *what,
	void (*line)(void *arg, const char *text), void *arg, struct error *err)
{
	struct dump *d = calloc(1, sizeof(*d));
	unsigned bits = 0;
	int code = parse_what(what, &bits, err);

	if (d) {
		d->facts = calloc(max_of(disk_count, 1u), sizeof(*d->facts));
		d->config = calloc(1, sizeof(*d->config));
	}
	if (!code && (!d || !d->facts || !d->config))
		code = error_set(err, ERR_MEMORY, "out of memory for a dump");
	if (!code) {
		d->disks = disks;
		d->disk_count = disk_count;
		d->line = line;
		d->arg = arg;
		find_pool(d);
		if (bits & DUMP_LABELS)
			dump_labels(d);
		for (unsigned i = 0; i < disk_count; i++)
			dump_ring(d, i, bits & DUMP_UBERBLOCKS);
		for (unsigned i = 0; i < disk_count && bits & DUMP_LOG; i++)
			dump_log(d, i);
		if (d->has_config && bits & (DUMP_RUNS | DUMP_CATALOG | DUMP_TREES))
			dump_trees(d, bits);
		if (!d->has_config && !(bits & DUMP_LABELS))
			code = error_set(
				err, ERR_NOT_FOUND, "no label of a pool on %u disks can be trusted", disk_count);
	}
	if (d) {
		free(d->facts);
		free(d->config);
	}
	free(d);
	return code;
}
