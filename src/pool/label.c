/*
 * Labels: finding the disks of a pool among many, keeping its configuration on all of them, and the ring of uberblocks.
 *
 * A disk carries a label at each end. The configuration lies in two slots of each, and generation g goes to slot g mod 2,
 * first in front on all disks, then, when that is durable, at the end of all disks: whenever the power fails, one end of
 * every disk holds a whole configuration. Import believes the highest generation that verifies; the disks' order, their
 * paths and what else was offered do not matter, ids do.
 *
 * An uberblock goes to slot checkpoint mod 64 of both rings of all disks that are online, so the older ones stay for a
 * way back. The highest checkpoint on a disk that missed nothing wins.
 *
 * Two hosts: the configuration names the owner. Who last owned a pool opens it at once (its disks are held exclusively
 * by whoever opened them). Another host's pool is watched first: its owner renews an activity stamp, on one disk in turn.
 */
#include "label.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHUNK_DISKS 16u /* disks whose labels are read at once: bounds the memory */
#define LABEL_MIB (1u << 20)
#define WATCH_NS (3 * POOL_ACTIVITY_NS)
#define LLU(v) ((unsigned long long)(v))

uint64_t label_back_offset(uint64_t disk_bytes)
{
	return round_down_u64(disk_bytes, LABEL_MIB) - LABEL_BYTES;
}

static const char *disk_name(const struct disk *d)
{
	return disk_traits(d)->name;
}

static void id_text(const uint8_t id[16], char text[33])
{
	for (unsigned i = 0; i < 16; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
}

/* --- the owner ---------------------------------------------------------------------------------------------------- */

static size_t read_line(const char *path, char *out, size_t room)
{
	scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd >= 0 ? read(fd, out, room - 1) : 0;

	length = max_of(length, 0);
	while (length && isspace((unsigned char)out[length - 1]))
		length--;
	out[length] = 0;
	return (size_t)length;
}

uint64_t label_host(char name[64])
{
	char id[128];
	uint64_t hash;

	if (os_is_simulated()) {
		snprintf(name, 64, "simulated");
		return 1;
	}
	if (gethostname(name, 64) || !name[0])
		snprintf(name, 64, "unnamed");
	name[63] = 0;
	/* Without a lasting id the one of this boot will do: after the next boot the pool is watched, then claimed. */
	if (!read_line("/etc/machine-id", id, sizeof(id)) &&
		!read_line("/proc/sys/kernel/random/boot_id", id, sizeof(id)))
		snprintf(id, sizeof(id), "%s", name);
	hash = checksum_xxh3(id, strlen(id));
	return hash ? hash : 1;
}

/* --- many requests at once ---------------------------------------------------------------------------------------- */

struct batch {
	struct disk_queue *queue;
	unsigned count, room;
	struct batch_item {
		struct disk_request request;
		struct disk *disk;
		unsigned tag;
	} * items;
};

static int batch_open(struct batch *b, unsigned room, struct error *err)
{
	*b = (struct batch){.queue = disk_queue_of_thread(err), .room = room};
	if (!b->queue)
		return err && err->code ? err->code : ERR_MEMORY;
	b->items = calloc(room, sizeof(*b->items));
	return b->items ? 0 : error_set(err, ERR_MEMORY, "out of memory for labels");
}

static void batch_close(struct batch *b)
{
	free(b->items);
}

static struct disk_request *batch_add(
	struct batch *b, struct disk *d, unsigned tag, enum disk_op op, uint64_t offset, void *buffer, uint64_t bytes)
{
	struct batch_item *item = &b->items[b->count++];

	sp_assert(b->count <= b->room);
	item->disk = d;
	item->tag = tag;
	disk_request_init(&item->request, op, offset, buffer, bytes);
	return &item->request;
}

static void batch_run(struct batch *b)
{
	for (unsigned i = 0; i < b->count; i++)
		disk_queue_submit(b->queue, b->items[i].disk, &b->items[i].request);
	disk_queue_kick(b->queue);
	while (disk_queue_in_flight(b->queue))
		disk_queue_reap(b->queue, UINT64_MAX);
}

/* --- one disk's labels -------------------------------------------------------------------------------------------- */

/* What both labels of a disk say, as bytes. An end that cannot be read counts as empty. */
static void labels_parse(const uint8_t *front, const uint8_t *back, struct pool_config *scratch,
	struct pool_config *best, struct label_facts *f)
{
	struct error err = ERROR_INIT;
	const uint8_t *ends[2] = {front, back};

	for (unsigned e = 0; e < 2; e++) {
		struct label_header h;

		if (!ends[e] || !label_header_is(ends[e] + LABEL_HEADER_OFFSET))
			continue;
		f->claims = true;
		if (label_header_unpack(ends[e] + LABEL_HEADER_OFFSET, &h, &err))
			continue;
		if (h.which == e) {
			if (!f->headers)
				f->header = h;
			f->headers |= 1u << e;
		}
	}
	if (!f->headers) {
		f->why = err;
		return;
	}
	for (unsigned e = 0; e < 2; e++)
		for (unsigned copy = 0; copy < 2 && ends[e]; copy++) {
			const uint8_t *at = ends[e] + LABEL_CONFIG_OFFSET(copy);

			if (config_unpack(at, scratch, NULL) || memcmp(scratch->pool_id, f->header.pool_id, 16) != 0)
				continue;
			if (f->configs++ && scratch->generation <= f->generation)
				continue;
			f->generation = scratch->generation;
			f->host_id = scratch->host_id;
			f->exported = scratch->exported;
			memcpy(f->name, scratch->name, sizeof(f->name));
			memcpy(f->host_name, scratch->host_name, sizeof(f->host_name));
			f->disk_count = scratch->disk_count;
			f->config_crc = get_le32(at + LABEL_CONFIG_BYTES - 4);
			if (best)
				memcpy(best, scratch, sizeof(*best));
		}
	if (!f->configs)
		error_set(&f->why, ERR_CORRUPT, "no configuration in its labels can be trusted");
}

struct scan {
	struct batch batch;
	uint8_t *buffer;
	struct pool_config *scratch;
};

static void scan_close(struct scan *s)
{
	batch_close(&s->batch);
	free(s->buffer);
	free(s->scratch);
}

static int scan_open(struct scan *s, unsigned disks, struct error *err)
{
	int code;

	memset(s, 0, sizeof(*s));
	code = batch_open(&s->batch, 2 * disks, err);
	if (code)
		return code;
	s->buffer = aligned_alloc(DISK_BUFFER_ALIGN, (size_t)disks * 2 * LABEL_BYTES);
	s->scratch = malloc(sizeof(*s->scratch));
	if (s->buffer && s->scratch)
		return 0;
	scan_close(s);
	return error_set(err, ERR_MEMORY, "out of memory for the labels of %u disks", disks);
}

/* Reads and parses the labels of some disks. `config`, of one disk: its newest configuration. */
static void scan_chunk(struct scan *s, struct disk *const *disks, unsigned count, struct label_facts *facts,
	struct pool_config *config)
{
	s->batch.count = 0;
	for (unsigned i = 0; i < count; i++) {
		uint8_t *front = s->buffer + (size_t)i * 2 * LABEL_BYTES;

		memset(&facts[i], 0, sizeof(facts[i]));
		facts[i].disk = disks[i];
		facts[i].size_bytes = disk_traits(disks[i])->size_bytes;
		if (facts[i].size_bytes < POOL_DISK_BYTES_MIN) {
			/* It may have been larger once: the front still tells. */
			if (facts[i].size_bytes >= LABEL_BYTES)
				batch_add(&s->batch, disks[i], 2 * i, DISK_READ, 0, front, LABEL_BYTES);
			continue;
		}
		batch_add(&s->batch, disks[i], 2 * i, DISK_READ, 0, front, LABEL_BYTES);
		batch_add(&s->batch, disks[i], 2 * i + 1, DISK_READ, label_back_offset(facts[i].size_bytes),
			front + LABEL_BYTES, LABEL_BYTES);
	}
	batch_run(&s->batch);
	for (unsigned n = 0; n < s->batch.count; n++)
		if (s->batch.items[n].request.status == 0)
			facts[s->batch.items[n].tag / 2].read |= 1u << s->batch.items[n].tag % 2;
	for (unsigned i = 0; i < count; i++) {
		uint8_t *front = s->buffer + (size_t)i * 2 * LABEL_BYTES, *back = front + LABEL_BYTES;
		struct label_header h;

		/* A disk that has grown keeps its last label where its end was. */
		if (facts[i].read & 1 && !label_header_unpack(front + LABEL_HEADER_OFFSET, &h, NULL) &&
			label_back_offset(h.size_bytes) <
				label_back_offset(max_of(facts[i].size_bytes, POOL_DISK_BYTES_MIN)) &&
			disk_read(disks[i], label_back_offset(h.size_bytes), back, LABEL_BYTES, NULL) == 0)
			facts[i].read |= 2;
		if (!facts[i].read)
			error_set(&facts[i].why, ERR_IO, "its labels cannot be read");
		labels_parse(facts[i].read & 1 ? front : NULL, facts[i].read & 2 ? back : NULL, s->scratch, config,
			&facts[i]);
	}
}

int label_facts_read(struct disk *d, struct label_facts *ret, struct pool_config *config, struct error *err)
{
	struct scan s;
	int code = scan_open(&s, 1, err);

	if (code)
		return code;
	scan_chunk(&s, &d, 1, ret, config);
	if (!ret->configs)
		code = ret->claims || !ret->read
			       ? error_set(err, ret->why.code ? ret->why.code : ERR_CORRUPT, "%s: %s", disk_name(d),
					 ret->why.text)
			       : error_set(err, ERR_NOT_FOUND, "%s: no label of a pool", disk_name(d));
	scan_close(&s);
	return code;
}

int pool_label_read(struct disk *d, struct pool_label_facts *ret, struct error *err)
{
	struct label_facts *f = malloc(sizeof(*f));
	char host_name[64];
	int code = f ? label_facts_read(d, f, NULL, err) : error_set(err, ERR_MEMORY, "out of memory for a label");

	if (!code) {
		memset(ret, 0, sizeof(*ret));
		memcpy(ret->name, f->name, sizeof(ret->name));
		memcpy(ret->host_name, f->host_name, sizeof(ret->host_name));
		id_text(f->header.pool_id, ret->id);
		id_text(f->header.disk_id, ret->disk_id);
		ret->disk_index = f->header.disk_index;
		ret->disk_count = f->disk_count;
		ret->exported = f->exported;
		ret->owned_here = !f->exported && f->host_id == label_host(host_name);
		ret->size_bytes = f->header.size_bytes;
		ret->generation = f->generation;
	}
	free(f);
	return code;
}

int pool_label_clear(struct disk *d, struct error *err)
{
	uint64_t bytes = disk_traits(d)->size_bytes;
	scoped_free uint8_t *zeros = aligned_alloc(DISK_BUFFER_ALIGN, LABEL_BYTES - LABEL_HEADER_OFFSET);
	int code;

	if (!zeros)
		return error_set(err, ERR_MEMORY, "out of memory for a label");
	if (bytes < POOL_DISK_BYTES_MIN)
		return error_set(err, ERR_TOO_SMALL, "%s: %llu bytes hold no label", disk_name(d), LLU(bytes));
	memset(zeros, 0, LABEL_BYTES - LABEL_HEADER_OFFSET);
	code = disk_write(d, LABEL_HEADER_OFFSET, zeros, LABEL_BYTES - LABEL_HEADER_OFFSET, err);
	if (!code)
		code = disk_write(d, label_back_offset(bytes) + LABEL_HEADER_OFFSET, zeros,
			LABEL_BYTES - LABEL_HEADER_OFFSET, err);
	return code ? code : disk_flush(d, err);
}

/* --- import: which disks ------------------------------------------------------------------------------------------ */

struct import {
	struct label_facts *facts; /* one a disk that was offered */
	unsigned count;
	uint8_t pool_id[16];
};

static bool names_pool(const struct label_facts *f, const char *name)
{
	char id[33];

	id_text(f->header.pool_id, id);
	return !name || strcmp(f->name, name) == 0 || strcasecmp(id, name) == 0;
}

/* Which pool is meant. */
static int import_choose(struct import *m, const char *name, struct error *err)
{
	const struct label_facts *first = NULL, *damaged = NULL;

	for (unsigned i = 0; i < m->count; i++) {
		const struct label_facts *f = &m->facts[i];

		if (!f->configs) {
			if (f->claims)
				damaged = f;
			continue;
		}
		if (!names_pool(f, name))
			continue;
		if (!first)
			first = f;
		else if (memcmp(first->header.pool_id, f->header.pool_id, 16) != 0)
			return error_set(err, ERR_USAGE,
				"%s on %s and %s on %s are different pools: name one by its id", first->name,
				disk_name(first->disk), f->name, disk_name(f->disk));
	}
	if (!first && damaged)
		return error_set(err, damaged->why.code ? damaged->why.code : ERR_CORRUPT, "%s: %s",
			disk_name(damaged->disk), damaged->why.text);
	if (!first && name)
		return error_set(err, ERR_NOT_FOUND, "no disk of a pool '%s' among %u", name, m->count);
	if (!first)
		return error_set(err, ERR_NOT_FOUND, "no disk of a pool among %u", m->count);
	memcpy(m->pool_id, first->header.pool_id, 16);
	return 0;
}

int labels_facts_read(struct disk *const *disks, unsigned count, struct label_facts *ret, struct error *err)
{
	unsigned chunk = max_of(min_of(count, CHUNK_DISKS), 1u);
	struct scan s;
	int code = scan_open(&s, chunk, err);

	if (code)
		return code;
	for (unsigned i = 0; i < count; i += chunk)
		scan_chunk(&s, disks + i, min_of(chunk, count - i), ret + i, NULL);
	scan_close(&s);
	return 0;
}

static bool is_of(const struct import *m, const struct label_facts *f)
{
	return f->configs && memcmp(f->header.pool_id, m->pool_id, 16) == 0;
}

/* The ring of one end of a disk, as read: the highest checkpoint in it, 0 when there is none. */
static uint64_t ring_newest(const uint8_t *ring, const uint8_t disk_id[16])
{
	uint64_t newest = 0;

	for (unsigned slot = 0; slot < LABEL_RING_SLOTS; slot++) {
		struct uberblock u;

		if (uberblock_unpack(ring + slot * 4096, disk_id, slot, &u, NULL) == 0)
			newest = max_of(newest, u.checkpoint);
	}
	return newest;
}

static uint64_t disk_newest_checkpoint(struct disk *d, const uint8_t disk_id[16])
{
	scoped_free uint8_t *ring = aligned_alloc(DISK_BUFFER_ALIGN, LABEL_RING_SLOTS * 4096);

	if (!ring || disk_read(d, LABEL_RING_OFFSET, ring, LABEL_RING_SLOTS * 4096, NULL))
		return 0;
	return ring_newest(ring, disk_id);
}

/* The newest configuration. Two of one generation and different contents (the disks were used apart from each other, or a
 * write of labels was cut and then repeated): the one whose disk has seen the later checkpoint. */
static int import_config(struct import *m, struct pool_config *ret, struct error *err)
{
	const struct label_facts *best = NULL;
	scoped_free struct pool_config *scratch = malloc(sizeof(*scratch));
	uint64_t best_checkpoint = 0;

	if (!scratch)
		return error_set(err, ERR_MEMORY, "out of memory for a configuration");
	for (unsigned i = 0; i < m->count; i++) {
		const struct label_facts *f = &m->facts[i];
		struct label_facts again;
		uint64_t checkpoint = 0;

		if (!is_of(m, f) || (best && f->generation < best->generation))
			continue;
		if (best && f->generation == best->generation) {
			if (f->config_crc == best->config_crc)
				continue;
			checkpoint = disk_newest_checkpoint(f->disk, f->header.disk_id);
			if (!best_checkpoint)
				best_checkpoint = disk_newest_checkpoint(best->disk, best->header.disk_id);
			if (checkpoint <= best_checkpoint)
				continue;
		}
		if (label_facts_read(f->disk, &again, scratch, NULL))
			continue;
		best = f;
		best_checkpoint = checkpoint;
		memcpy(ret, scratch, sizeof(*ret));
	}
	return best ? 0 : error_set(err, ERR_CORRUPT, "no configuration of the pool can be read a second time");
}

/* Which disk of those offered is disk i of the pool. Of two with one id the one with the newer configuration is it. */
static int import_find_disk(struct import *m, struct pool *p, unsigned i, struct label_facts **ret, struct error *err)
{
	struct label_facts *found = NULL, *rival = NULL;

	for (unsigned n = 0; n < m->count; n++) {
		struct label_facts *f = &m->facts[n];

		if (!is_of(m, f) || memcmp(f->header.disk_id, p->config.disks[i].id, 16) != 0)
			continue;
		if (!found || f->generation > found->generation) {
			found = f;
			rival = NULL;
		} else if (f->generation == found->generation) {
			rival = f;
		}
	}
	if (rival)
		return error_set(err, ERR_REFUSED,
			"%s and %s both say that they are disk %u of pool %s: one is a copy, take it away",
			disk_name(found->disk), disk_name(rival->disk), i, p->config.name);
	*ret = found;
	return 0;
}

static void import_disk(struct pool *p, unsigned i, struct label_facts *f)
{
	struct pool_disk *d = &p->disks[i];
	struct config_disk *c = &p->config.disks[i];
	const struct disk_traits *traits = f ? disk_traits(f->disk) : NULL;
	const char *path = traits && traits->path ? traits->path : traits ? traits->name : "";

	*d = (struct pool_disk){
		.config = c,
		.index = i,
		.state = c->state == PD_OFFLINE || c->state == PD_REMOVED ? c->state : PD_MISSING,
		.data_start_bytes = c->data_start_bytes,
		.zone_bytes = c->zone_bytes,
		.zone_count = c->zone_count,
	};
	if (!f || d->state != PD_MISSING)
		return;
	if (traits->size_bytes < round_down_u64(f->header.size_bytes, LABEL_MIB)) {
		d->state = PD_FAULTED;
		pool_event(p, "%s: has %llu bytes, its label says %llu: cut short, not used", traits->name,
			LLU(traits->size_bytes), LLU(f->header.size_bytes));
		return;
	}
	if (f->header.data_start_bytes != c->data_start_bytes || f->header.zone_bytes != c->zone_bytes ||
		f->header.log_bytes != p->log_bytes || f->header.log_offset_bytes != p->log_offset_bytes) {
		d->state = PD_FAULTED;
		pool_event(
			p, "%s: its label and the pool's configuration place data differently: not used", traits->name);
		return;
	}
	d->disk = f->disk;
	d->state = PD_ONLINE;
	d->labelled = f->headers == 3;
	if (strncmp(c->path, path, sizeof(c->path) - 1) != 0) {
		snprintf(c->path, sizeof(c->path), "%s", path);
		p->config_dirty = true;
	}
}

/* No group may have lost more than its parity. */
static int import_enough(struct pool *p, struct error *err)
{
	for (unsigned g = 0; g < p->config.group_count; g++) {
		unsigned missing = 0, last = 0;

		for (unsigned i = 0; i < p->disk_count; i++)
			if (p->config.disks[i].group == g && !p->disks[i].disk && p->disks[i].state != PD_REMOVED) {
				missing++;
				last = i;
			}
		if (missing > p->config.groups[g].parity)
			return error_set(err, ERR_LOST,
				"group %u of pool %s lacks %u disks and can do without %u; disk %u was last at %s", g,
				p->config.name, missing, p->config.groups[g].parity, last,
				p->config.disks[last].path[0] ? p->config.disks[last].path : "an unknown place");
	}
	return 0;
}

static int import_disks(struct import *m, struct pool *p, struct error *err)
{
	p->disk_count = p->config.disk_count;
	for (unsigned n = 0; n < m->count; n++) {
		const struct label_facts *f = &m->facts[n];

		if (is_of(m, f)) {
			p->log_bytes = f->header.log_bytes;
			p->log_offset_bytes = f->header.log_offset_bytes;
			if (f->header.features_read_only & ~POOL_FEATURES_READ_ONLY && !p->read_only_reason[0]) {
				p->read_only = true;
				snprintf(p->read_only_reason, sizeof(p->read_only_reason),
					"the pool uses features that are not known here: 0x%llx",
					LLU(f->header.features_read_only & ~POOL_FEATURES_READ_ONLY));
			}
		} else if (f->claims || !f->read) {
			pool_event(p, "%s: %s: passed over", disk_name(f->disk),
				f->why.text[0] ? f->why.text : "another pool's");
		}
	}
	for (unsigned i = 0; i < p->disk_count; i++) {
		struct label_facts *f = NULL;
		int code = import_find_disk(m, p, i, &f, err);

		if (code)
			return code;
		import_disk(p, i, f);
	}
	return import_enough(p, err);
}

/* --- uberblocks --------------------------------------------------------------------------------------------------- */

struct found_uber {
	struct uberblock *items; /* highest checkpoint first, each once */
	unsigned count, room;
	unsigned rings, rings_newest; /* that were to be read; that have the highest */
};

static int found_add(struct found_uber *f, const struct uberblock *u)
{
	unsigned at = 0;

	while (at < f->count && f->items[at].checkpoint > u->checkpoint)
		at++;
	if (at == 0)
		f->rings_newest = f->count && f->items[0].checkpoint == u->checkpoint ? f->rings_newest + 1 : 1;
	if (at < f->count && f->items[at].checkpoint == u->checkpoint)
		return 0;
	if (f->count == f->room) {
		unsigned room = f->room ? 2 * f->room : LABEL_RING_SLOTS;
		struct uberblock *items = realloc(f->items, room * sizeof(*items));

		if (!items)
			return ERR_MEMORY;
		f->items = items;
		f->room = room;
	}
	memmove(f->items + at + 1, f->items + at, (f->count - at) * sizeof(*f->items));
	f->items[at] = *u;
	f->count++;
	return 0;
}

static int rings_read(struct pool *p, bool stale_too, struct found_uber *found, struct error *err)
{
	const size_t ring_bytes = LABEL_RING_SLOTS * 4096;
	struct batch b;
	uint8_t *buffer = aligned_alloc(DISK_BUFFER_ALIGN, CHUNK_DISKS * 2 * ring_bytes);
	int code = batch_open(&b, CHUNK_DISKS * 2, err);

	if (!code && !buffer)
		code = error_set(err, ERR_MEMORY, "out of memory for uberblocks");
	for (unsigned first = 0; !code && first < p->disk_count; first += CHUNK_DISKS) {
		b.count = 0;
		for (unsigned i = first; i < min_of(first + CHUNK_DISKS, p->disk_count); i++) {
			const struct pool_disk *d = &p->disks[i];

			if (!d->disk || (d->config->missed_from && !stale_too))
				continue;
			for (unsigned end = 0; end < 2; end++)
				batch_add(&b, d->disk, i, DISK_READ,
					LABEL_RING_OFFSET + (end ? label_back_offset(d->config->size_bytes) : 0),
					buffer + b.count * ring_bytes, ring_bytes);
		}
		batch_run(&b);
		found->rings += b.count;
		for (unsigned n = 0; !code && n < b.count; n++) {
			const uint8_t *ring = buffer + n * ring_bytes;

			for (unsigned slot = 0; !code && !b.items[n].request.status && slot < LABEL_RING_SLOTS;
				slot++) {
				struct uberblock u;

				if (uberblock_unpack(ring + slot * 4096, p->disks[b.items[n].tag].config->id, slot, &u,
					    NULL) == 0 &&
					found_add(found, &u))
					code = error_set(err, ERR_MEMORY, "out of memory for uberblocks");
			}
		}
	}
	free(buffer);
	batch_close(&b);
	return code;
}

int uberblocks_read(struct pool *p, unsigned back, struct uberblock *ret, struct error *err)
{
	struct found_uber found = {0};
	int code = rings_read(p, false, &found, err);

	if (!code && !found.count)
		code = rings_read(p, true, &found, err);
	if (!code && !found.count)
		code = error_set(err, ERR_CORRUPT, "no uberblock of pool %s can be trusted", p->config.name);
	if (!code) {
		p->checkpoint_newest = max_of(p->checkpoint_newest, found.items[0].checkpoint);
		p->uber_is_everywhere = found.rings_newest == found.rings;
		if (back >= found.count)
			code = error_set(err, ERR_NOT_FOUND,
				"pool %s has %u checkpoints; there is none %u before the last", p->config.name,
				found.count, back);
		else
			*ret = found.items[back];
	}
	free(found.items);
	return code;
}

int uberblock_write(struct pool *p, const struct uberblock *u, struct error *err)
{
	unsigned slot = (unsigned)(u->checkpoint % LABEL_RING_SLOTS), written = 0;
	bool failed[POOL_DISKS_MAX] = {false};
	scoped_free uint8_t *blocks = aligned_alloc(DISK_BUFFER_ALIGN, (size_t)max_of(p->disk_count, 1u) * 4096);
	struct batch b;
	int code = batch_open(&b, 2 * max_of(p->disk_count, 1u), err);

	if (code)
		return code;
	if (!blocks) {
		batch_close(&b);
		return error_set(err, ERR_MEMORY, "out of memory for uberblocks");
	}
	for (unsigned i = 0; i < p->disk_count; i++) {
		struct pool_disk *d = &p->disks[i];
		uint8_t *block = blocks + (size_t)i * 4096;

		if (!d->disk || d->state != PD_ONLINE)
			continue;
		uberblock_pack(u, d->config->id, slot, block);
		for (unsigned end = 0; end < 2; end++)
			batch_add(&b, d->disk, i, DISK_WRITE,
				LABEL_RING_OFFSET + slot * 4096 + (end ? label_back_offset(d->config->size_bytes) : 0),
				block, 4096);
	}
	for (unsigned round = 0; round < 2; round++) {
		batch_run(&b);
		for (unsigned n = 0; n < b.count; n++)
			if (b.items[n].request.status)
				failed[b.items[n].tag] = true;
		if (round)
			break;
		b.count = 0;
		for (unsigned i = 0; i < p->disk_count; i++)
			if (p->disks[i].disk && p->disks[i].state == PD_ONLINE && !failed[i])
				batch_add(&b, p->disks[i].disk, i, DISK_FLUSH, 0, NULL, 0);
	}
	for (unsigned n = 0; n < b.count; n++)
		written += !failed[b.items[n].tag];
	batch_close(&b);
	for (unsigned i = 0; i < p->disk_count; i++)
		if (failed[i])
			disk_fault(p, i, "it did not take an uberblock");
	if (!written)
		return error_set(err, ERR_IO, "no disk of pool %s took the uberblock of checkpoint %llu",
			p->config.name, LLU(u->checkpoint));
	return 0;
}

/* --- writing the configuration ------------------------------------------------------------------------------------ */

static void header_of(const struct pool *p, const struct pool_disk *d, unsigned which, uint8_t out[4096])
{
	struct label_header h = {
		.version = POOL_VERSION,
		.disk_index = d->index,
		.size_bytes = d->config->size_bytes,
		.zone_bytes = d->config->zone_bytes,
		.data_start_bytes = d->config->data_start_bytes,
		.log_offset_bytes = p->log_offset_bytes,
		.log_bytes = p->log_bytes,
		.zone_count = d->config->zone_count,
		.which = (uint8_t)which,
	};

	memcpy(h.pool_id, p->id, 16);
	memcpy(h.disk_id, d->config->id, 16);
	label_header_pack(&h, out);
}

/* These ends (bit 0 front, 1 back) of all disks that take it, durable at return. */
static void labels_write_ends(struct pool *p, struct batch *b, unsigned ends, uint8_t *config, unsigned copy,
	uint8_t *headers, bool failed[POOL_DISKS_MAX])
{
	b->count = 0;
	for (unsigned i = 0; i < 2 * p->disk_count; i++) {
		struct pool_disk *d = &p->disks[i / 2];
		uint8_t *header = headers + (size_t)i * 4096;
		unsigned end = i % 2;
		uint64_t base;

		if (!d->disk || d->state != PD_ONLINE || failed[d->index] || !(ends >> end & 1))
			continue;
		base = end ? label_back_offset(d->config->size_bytes) : 0;
		batch_add(
			b, d->disk, d->index, DISK_WRITE, base + LABEL_CONFIG_OFFSET(copy), config, LABEL_CONFIG_BYTES);
		if (!d->labelled) {
			header_of(p, d, end, header);
			batch_add(b, d->disk, d->index, DISK_WRITE, base + LABEL_HEADER_OFFSET, header, 4096);
		}
	}
	batch_run(b);
	for (unsigned n = 0; n < b->count; n++)
		failed[b->items[n].tag] |= b->items[n].request.status != 0;
	b->count = 0;
	for (unsigned i = 0; i < p->disk_count; i++)
		if (p->disks[i].disk && p->disks[i].state == PD_ONLINE && !failed[i])
			batch_add(b, p->disks[i].disk, i, DISK_FLUSH, 0, NULL, 0);
	batch_run(b);
	for (unsigned n = 0; n < b->count; n++)
		failed[b->items[n].tag] |= b->items[n].request.status != 0;
}

/* A new generation. `failed` tells which disks did not take it; fails itself when none did. */
static int labels_put(struct pool *p, bool failed[POOL_DISKS_MAX], struct error *err)
{
	uint8_t *config = aligned_alloc(DISK_BUFFER_ALIGN, LABEL_CONFIG_BYTES);
	uint8_t *headers = aligned_alloc(DISK_BUFFER_ALIGN, (size_t)max_of(p->disk_count, 1u) * 2 * 4096);
	unsigned copy = 0, taken = 0;
	bool is_first = p->config.generation == 0;
	struct batch b;
	int code = batch_open(&b, 4 * max_of(p->disk_count, 1u), err);

	if (!code && (!config || !headers))
		code = error_set(err, ERR_MEMORY, "out of memory for labels");
	if (!code) {
		os_scoped_lock(&p->lock);
		p->config.generation++;
		for (unsigned i = 0; i < p->disk_count; i++)
			p->config.disks[i].state = p->disks[i].state;
		copy = (unsigned)(p->config.generation & 1);
		p->config_dirty = false;
		code = config_pack(&p->config, config, err);
	}
	if (!code) {
		/* Of a new pool there is nothing yet that a cut could lose. */
		labels_write_ends(p, &b, is_first ? 3 : 1, config, copy, headers, failed);
		if (!is_first)
			labels_write_ends(p, &b, 2, config, copy, headers, failed);
		for (unsigned i = 0; i < p->disk_count; i++)
			if (p->disks[i].disk && p->disks[i].state == PD_ONLINE && !failed[i]) {
				p->disks[i].labelled = true;
				taken++;
			}
		if (!taken)
			code = error_set(err, ERR_IO, "no disk of pool %s took its labels", p->config.name);
	}
	batch_close(&b);
	free(config);
	free(headers);
	return code;
}

int labels_write(struct pool *p, struct error *err)
{
	bool failed[POOL_DISKS_MAX] = {false};
	int code = labels_put(p, failed, err);

	for (unsigned i = 0; i < p->disk_count; i++)
		if (failed[i])
			disk_fault(p, i, "it did not take its labels");
	return code;
}

/* --- the activity stamp ------------------------------------------------------------------------------------------- */

int activity_write(struct pool *p, uint64_t turn)
{
	uint8_t *block;
	int code = 0;

	for (unsigned n = 0; n < p->disk_count; n++) {
		struct pool_disk *d = &p->disks[(turn + n) % p->disk_count];

		if (!d->disk || d->state != PD_ONLINE || disk_traits(d->disk)->is_memory)
			continue;
		block = aligned_alloc(DISK_BUFFER_ALIGN, 4096);
		if (!block)
			return ERR_MEMORY;
		activity_pack(p->id, p->config.host_id, turn + os_wall_ns(), block);
		code = disk_write(d->disk, LABEL_ACTIVITY_OFFSET, block, 4096, NULL);
		free(block);
		break;
	}
	return code;
}

/* A number that changes whenever somebody works on the pool. */
static uint64_t activity_sum(struct pool *p)
{
	scoped_free uint8_t *block = aligned_alloc(DISK_BUFFER_ALIGN, 4096);
	uint64_t sum = 0, host, stamp;
	struct uberblock u;

	for (unsigned i = 0; block && i < p->disk_count; i++)
		if (p->disks[i].disk && !disk_read(p->disks[i].disk, LABEL_ACTIVITY_OFFSET, block, 4096, NULL) &&
			activity_unpack(block, p->id, &host, &stamp))
			sum = sum * 31 + stamp;
	if (uberblocks_read(p, 0, &u, NULL) == 0)
		sum = sum * 31 + u.checkpoint * 1000003 + u.activity_ns;
	return sum;
}

/* May this host take the pool? Waits when another was the last. */
static int import_owner(struct pool *p, bool force, uint64_t host, struct error *err)
{
	uint64_t before;

	if (p->config.exported || p->config.host_id == 0 || p->config.host_id == host || force)
		return 0;
	before = activity_sum(p);
	os_sleep_ns(WATCH_NS);
	if (activity_sum(p) == before)
		return 0;
	return error_set(err, ERR_BUSY, "pool %s is in use by host %s", p->config.name,
		p->config.host_name[0] ? p->config.host_name : "without a name");
}

/* Another host may have had the same idea at the same moment: whose labels are there a little later has it. */
static int import_still_ours(struct pool *p, uint64_t host, struct error *err)
{
	scoped_free struct pool_config *c = malloc(sizeof(*c));
	scoped_free struct label_facts *f = malloc(sizeof(*f));

	if (!c || !f)
		return error_set(err, ERR_MEMORY, "out of memory for a label");
	os_sleep_ns(POOL_ACTIVITY_NS);
	for (unsigned i = 0; i < p->disk_count; i++)
		if (p->disks[i].disk && label_facts_read(p->disks[i].disk, f, c, NULL) == 0 && c->host_id != host)
			return error_set(err, ERR_BUSY, "host %s took pool %s at the same time", c->host_name, c->name);
	return 0;
}

static int import_claim(struct pool *p, bool force, struct error *err)
{
	char host_name[64];
	uint64_t host = label_host(host_name);
	bool foreign = !p->config.exported && p->config.host_id && p->config.host_id != host;
	int code = import_owner(p, force, host, err);

	if (code)
		return code;
	if (p->config.host_id != host || p->config.exported || strcmp(p->config.host_name, host_name) != 0)
		p->config_dirty = true;
	p->config.host_id = host;
	p->config.exported = false;
	memcpy(p->config.host_name, host_name, sizeof(p->config.host_name));
	for (unsigned i = 0; i < p->disk_count; i++) {
		struct pool_disk *d = &p->disks[i];

		if (d->state == PD_ONLINE && !d->labelled)
			p->config_dirty = true;
		if (d->disk || d->state == PD_REMOVED)
			continue;
		/* What it has was made up to the last checkpoint at least; all later it may lack (POOL-7). */
		if (!d->config->missed_from) {
			d->config->missed_from = p->uber.commit + 1;
			p->config_dirty = true;
		}
	}
	while (p->config_dirty) {
		bool failed[POOL_DISKS_MAX] = {false};

		code = labels_put(p, failed, err);
		if (code)
			return code;
		for (unsigned i = 0; i < p->disk_count; i++) {
			if (!failed[i])
				continue;
			pool_event(p, "%s: does not take its labels: not used", disk_name(p->disks[i].disk));
			p->disks[i].disk = NULL;
			p->disks[i].state = PD_FAULTED;
			if (!p->config.disks[i].missed_from)
				p->config.disks[i].missed_from = p->uber.commit + 1;
			p->config_dirty = true;
		}
		code = import_enough(p, err);
		if (code)
			return code;
	}
	return foreign && !force ? import_still_ours(p, host, err) : 0;
}

/* --- import: all of it -------------------------------------------------------------------------------------------- */

int labels_read(struct pool *p, const struct pool_open_options *o, struct disk *const *disks, unsigned disk_count,
	struct error *err)
{
	struct import m = {.count = disk_count, .facts = calloc(max_of(disk_count, 1u), sizeof(*m.facts))};
	int code = m.facts ? labels_facts_read(disks, disk_count, m.facts, err)
			   : error_set(err, ERR_MEMORY, "out of memory for the labels of %u disks", disk_count);

	if (!code)
		code = import_choose(&m, o->name, err);
	if (!code)
		code = import_config(&m, &p->config, err);
	if (!code) {
		memcpy(p->id, p->config.pool_id, 16);
		p->run_bytes = p->config.run_bytes ? p->config.run_bytes : p->run_bytes;
		p->config_dirty = false;
		code = import_disks(&m, p, err);
	}
	if (!code)
		code = uberblocks_read(p, o->rewind, &p->uber, err);
	if (!code && !o->read_only && !p->read_only)
		code = import_claim(p, o->force, err);
	free(m.facts);
	return code;
}
