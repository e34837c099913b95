/*
 * The cache of records: what readers share, what writers leave behind, what a spill takes away.
 *
 * A record is known by its volume and index and has at most one copy here, with or without bytes:
 *
 *             reader, prefetch                 found, or from disk
 *   (absent) ─────────────────► READING ───────────────────────────► CLEAN ──► evicted
 *      │                           │ failed, or a hole: forgotten      │ ▲
 *      │ writer                    ▼                                   │ │ spill.c: in stripes, pointers in a
 * transaction, └──────────────────► DIRTY (whole or partial) ◄──── writer ─────┘ │ and not written to since │  ▲
 * └─────────────────────────────────┘ └──┘ written again, also while its older bytes are on their way (they keep their
 * buffer)
 *
 * Readers copy out and writers copy in without the lock: a record counts its readers, and a writer has it alone.
 * Readers take records in order of index, writers hold one at a time, and who fetches waits for nobody: so nobody waits
 * in a circle. What a spill writes does not change under it: whoever writes to such a record gets a new buffer.
 *
 * Replacement of clean records is S3-FIFO (Yang, Zhang, Qiu, Yue and Rashmi, "FIFO queues are all you need for cache
 * eviction", SOSP 2023): a small queue of a tenth takes what is new, what was used again there moves to the main queue,
 * what was not leaves behind its fingerprint (a ghost), and comes back to the main queue if it is missed. A scan so
 * passes through the small queue only, and a hit costs a counter. Records read ahead stand in a queue of their own
 * until they are asked for. The same counts for the bound: clean bytes and those being read stay under three quarters
 * of the cache's size (the rest is the tree nodes'), dirty ones under their own cap.
 */
#include "record.h"

#include <limits.h>
#include <string.h>

#define SLAB_RECORDS 512u
#define SLAB_MAPS 64u
#define USES_MAX 3u
#define USES_FOR_MAIN 2u

struct slab {
	struct list link;
	struct record records[SLAB_RECORDS];
};
struct map_slab {
	struct list link;
	uint64_t maps[SLAB_MAPS][VALID_WORDS];
};
struct free_map { /* lies in the map itself */
	struct list link;
};

/* --- open and close -------------------------------------------------------------------------- */

static uint64_t power_of_two_at_least(uint64_t v)
{
	uint64_t n = 1;

	while (n < v)
		n *= 2;
	return n;
}

/* Bytes that all data disks take in one run each. */
static uint64_t run_of_all_disks(const struct pool *p)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < p->group_count; i++) {
		const struct pool_group *g = &p->groups[i];

		bytes += p->run_bytes * g->disk_count * (g->width - g->parity) / max_of(g->width, 1u);
	}
	return max_of(bytes, (uint64_t)RECORD_BYTES_MAX);
}

static void sizes_choose(struct cache *c)
{
	const struct pool *p = c->pool;
	uint64_t run = run_of_all_disks(p);

	c->cap_bytes = p->tuning.cache_bytes / 4 * 3;
	c->dirty_cap_bytes = max_of(p->tuning.dirty_bytes, (uint64_t)4 << 20);
	c->batch_bytes = min_of(run, c->dirty_cap_bytes / 8);
	c->trigger_bytes = min_of(2 * run, c->dirty_cap_bytes / 4);
	c->window_bytes = min_of(3 * run, c->cap_bytes / 2);
	c->segment_bytes = max_of(min_of(run / 2, c->window_bytes / 6), (uint64_t)1 << 20);
	uint64_t expected = (c->cap_bytes + c->dirty_cap_bytes) / 16384;
	c->hash_mask = power_of_two_at_least(max_of(min_of(expected, (uint64_t)1 << 22), (uint64_t)1024)) - 1;
	c->ghost_mask =
		power_of_two_at_least(max_of(min_of(c->cap_bytes / 8192, (uint64_t)1 << 22), (uint64_t)1024)) - 1;
}

int cache_open(struct pool *p, struct error *err)
{
	struct cache *c = calloc(1, sizeof *c);
	struct list *lists[] = {
		&c->free_records, &c->slabs, &c->free_maps, &c->loads, &c->volumes, &c->small, &c->main, &c->ahead};
	int rc;

	if (!c)
		return error_set(err, ERR_MEMORY, "out of memory for the cache");
	for (unsigned i = 0; i < array_count(lists); i++)
		list_init(lists[i]);
	c->pool = p;
	os_mutex_init(&c->lock);
	os_cond_init(&c->ready);
	os_cond_init(&c->room);
	os_cond_init(&c->work);
	os_cond_init(&c->fetch_work);
	sizes_choose(c);
	buffers_open(&c->buffers, c->cap_bytes + c->dirty_cap_bytes + (16u << 20));
	c->hash = calloc(c->hash_mask + 1, sizeof *c->hash);
	c->ghosts = calloc(c->ghost_mask + 1, sizeof *c->ghosts);
	p->cache = c;
	rc = c->hash && c->ghosts ? 0 : error_set(err, ERR_MEMORY, "out of memory for the tables of the cache");
	if (!rc && !p->read_only)
		rc = spill_open(c, err);
	if (!rc && !p->tuning.no_prefetch)
		rc = prefetch_open(c, err);
	if (rc)
		cache_close(p);
	return rc;
}

static void load_free(struct load *l)
{
	free(l->items);
	free(l->reads);
	free(l->held);
	free(l);
}

void cache_close(struct pool *p)
{
	struct cache *c = p->cache;

	if (!c)
		return;
	os_mutex_lock(&c->lock);
	c->stopping = true;
	os_cond_broadcast(&c->work);
	os_cond_broadcast(&c->fetch_work);
	os_cond_broadcast(&c->ready);
	os_cond_broadcast(&c->room);
	os_mutex_unlock(&c->lock);
	spill_stop(c);
	prefetch_stop(c);
	list_for_each_safe(&c->loads, l, keep) load_free(container_of(l, struct load, link));
	list_for_each_safe(&c->slabs, s, keep) /* map_slab begins with its link as well */
		free(container_of(s, struct slab, link));
	list_for_each_safe(&c->volumes, v, keep) free(container_of(v, struct volume, link));
	buffers_close(&c->buffers);
	free(c->hash);
	free(c->ghosts);
	os_cond_destroy(&c->ready);
	os_cond_destroy(&c->room);
	os_cond_destroy(&c->work);
	os_cond_destroy(&c->fetch_work);
	os_mutex_destroy(&c->lock);
	free(c);
	p->cache = NULL;
}

/* --- records by name ------------------------------------------------------------------------- */

static uint64_t name_hash(uint64_t dataset, uint64_t index)
{
	uint64_t h = (dataset + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ index * UINT64_C(0xd6e8feb86659fd93);

	h = (h ^ h >> 32) * UINT64_C(0xd6e8feb86659fd93);
	return h ^ h >> 32;
}

static struct record **chain_of(struct cache *c, const struct volume *v, uint64_t index)
{
	return &c->hash[name_hash(v->dataset, index) & c->hash_mask];
}

struct record *record_find(struct cache *c, const struct volume *v, uint64_t index)
{
	struct record *r = *chain_of(c, v, index);

	while (r && (r->index != index || r->volume != v))
		r = r->hash_next;
	return r;
}

static bool more_records(struct cache *c)
{
	struct slab *s = calloc(1, sizeof *s);

	if (!s)
		return false;
	list_push_back(&c->slabs, &s->link);
	for (unsigned i = 0; i < SLAB_RECORDS; i++)
		list_push_back(&c->free_records, &s->records[i].link);
	return true;
}

struct record *record_add(struct cache *c, struct volume *v, uint64_t index)
{
	if (list_is_empty(&c->free_records) && !more_records(c))
		return NULL;
	struct record *r = container_of(c->free_records.next, struct record, link);
	struct record **chain = chain_of(c, v, index);

	list_remove(&r->link);
	*r = (struct record){.volume = v, .index = index, .refs = 1, .hashed = true, .hash_next = *chain};
	list_init(&r->link);
	*chain = r;
	c->record_count++;
	return r;
}

static void record_unhash(struct cache *c, struct record *r)
{
	struct record **at = chain_of(c, r->volume, r->index);

	if (!r->hashed)
		return;
	while (*at != r)
		at = &(*at)->hash_next;
	*at = r->hash_next;
	r->hashed = false;
	c->record_count--;
}

static void record_free(struct cache *c, struct record *r)
{
	sp_assert(!r->spilling && !r->exclusive && !r->filling && r->queue == QUEUE_NONE);
	if (r->bytes)
		buffer_put(&c->buffers, r->bytes, r->volume->record_bytes);
	if (r->valid)
		valid_map_put(c, r->valid);
	list_push_front(&c->free_records, &r->link);
}

void record_unref(struct cache *c, struct record *r)
{
	sp_assert(r->refs > 0);
	if (--r->refs == 0 && !r->hashed)
		record_free(c, r);
}

void record_forget(struct cache *c, struct record *r)
{
	record_unqueue(c, r);
	record_unhash(c, r);
	if (r->refs == 0)
		record_free(c, r);
}

unsigned records_in_range(struct cache *c, const struct volume *v, uint64_t first, uint64_t last, uint64_t *cursor,
	uint64_t *ret, unsigned room)
{
	unsigned n = 0;

	/* A chain is taken whole, so room must be left for it; a longer one is asked for again. */
	for (; *cursor <= c->hash_mask; ++*cursor) {
		unsigned before = n;

		for (struct record *r = c->hash[*cursor]; r; r = r->hash_next)
			if (r->volume == v && r->index >= first && r->index < last) {
				if (n == room)
					return before ? before : n;
				ret[n++] = r->index;
			}
	}
	return n;
}

/* --- maps of valid sectors ------------------------------------------------------------------- */

uint64_t *valid_map_get(struct cache *c)
{
	if (list_is_empty(&c->free_maps)) {
		struct map_slab *s = malloc(sizeof *s);

		if (!s)
			return NULL;
		list_push_back(&c->slabs, &s->link);
		for (unsigned i = 0; i < SLAB_MAPS; i++)
			list_push_back(&c->free_maps, &((struct free_map *)s->maps[i])->link);
	}
	struct free_map *m = container_of(c->free_maps.next, struct free_map, link);
	list_remove(&m->link);
	memset(m, 0, VALID_WORDS * sizeof(uint64_t));
	return (uint64_t *)m;
}

void valid_map_put(struct cache *c, uint64_t *map)
{
	list_push_front(&c->free_maps, &((struct free_map *)map)->link);
}

bool record_has(const struct record *r, uint32_t from, uint32_t to)
{
	if (!r->valid)
		return true;
	for (uint32_t s = from / SECTOR_BYTES; s < (to + SECTOR_BYTES - 1) / SECTOR_BYTES; s++)
		if (!(r->valid[s / 64] >> s % 64 & 1))
			return false;
	return true;
}

/* --- replacement ----------------------------------------------------------------------------- */

/* A ghost: fingerprint and when it was made, counted in evictions. It is believed while no more were made since than
 * the main queue has records. */
static uint64_t *ghost_of(struct cache *c, const struct record *r, uint32_t *ret_print)
{
	uint64_t h = name_hash(r->volume->dataset, r->index);

	*ret_print = (uint32_t)(h >> 32) | 1;
	return &c->ghosts[h & c->ghost_mask];
}

static bool ghost_take(struct cache *c, const struct record *r)
{
	uint32_t print;
	uint64_t *g = ghost_of(c, r, &print);
	uint32_t age = (uint32_t)c->evictions - (uint32_t)*g;

	if (*g >> 32 != print || age > max_of(c->main_count, (uint64_t)64))
		return false;
	*g = 0;
	return true;
}

static void ghost_leave(struct cache *c, const struct record *r)
{
	uint32_t print;
	uint64_t *g = ghost_of(c, r, &print);

	*g = (uint64_t)print << 32 | (uint32_t)++c->evictions;
}

static struct list *queue_of(struct cache *c, struct record *r, uint64_t **ret_bytes)
{
	switch (r->queue) {
	case QUEUE_SMALL:
		*ret_bytes = &c->small_bytes;
		return &c->small;
	case QUEUE_MAIN:
		*ret_bytes = &c->main_bytes;
		return &c->main;
	case QUEUE_AHEAD:
		*ret_bytes = &c->ahead_bytes;
		return &c->ahead;
	case QUEUE_WHOLE:
		*ret_bytes = &r->volume->whole_bytes;
		return &r->volume->whole;
	default:
		*ret_bytes = NULL;
		return &r->volume->partial;
	}
}

static void record_enqueue(struct cache *c, struct record *r, enum record_queue queue)
{
	uint64_t *bytes;

	r->queue = queue;
	list_push_back(queue_of(c, r, &bytes), &r->link);
	*bytes += r->volume->record_bytes;
	c->main_count += queue == QUEUE_MAIN;
}

void record_unqueue(struct cache *c, struct record *r)
{
	uint64_t *bytes;

	if (r->queue == QUEUE_NONE)
		return;
	queue_of(c, r, &bytes);
	list_remove(&r->link);
	if (bytes)
		*bytes -= r->volume->record_bytes;
	if (r->queue == QUEUE_WHOLE)
		c->whole_bytes -= r->volume->record_bytes;
	else if (r->queue != QUEUE_PARTIAL)
		c->clean_bytes -= r->volume->record_bytes;
	c->main_count -= r->queue == QUEUE_MAIN;
	r->queue = QUEUE_NONE;
}

void record_becomes_clean(struct cache *c, struct record *r, bool ahead)
{
	sp_assert(r->bytes && r->queue == QUEUE_NONE && r->hashed);
	r->state = RECORD_CLEAN;
	r->uses = 0;
	r->read_end = ahead ? (uint32_t)c->clock : 0;
	c->clean_bytes += r->volume->record_bytes;
	record_enqueue(c, r, ahead ? QUEUE_AHEAD : ghost_take(c, r) ? QUEUE_MAIN : QUEUE_SMALL);
}

/* A reader asked for it. Going on where the last read in it ended is the same use, and so is the first use of what was
 * read ahead. */
void record_used(struct cache *c, struct record *r, uint32_t from, uint32_t to)
{
	if (r->queue == QUEUE_AHEAD) {
		c->prefetch_hit_bytes += r->volume->record_bytes;
		c->clean_bytes += r->volume->record_bytes;
		record_unqueue(c, r);
		record_enqueue(c, r, QUEUE_SMALL);
	} else if (from != r->read_end && r->uses < USES_MAX) {
		r->uses++;
	}
	r->read_end = to;
}

static void evict(struct cache *c, struct record *r)
{
	if (r->queue == QUEUE_SMALL)
		ghost_leave(c, r);
	record_forget(c, r);
}

static void requeue(struct cache *c, struct record *r, enum record_queue queue)
{
	c->clean_bytes += r->volume->record_bytes;
	record_unqueue(c, r);
	record_enqueue(c, r, queue);
}

/* One step on a queue: its oldest goes, or gets another turn. False when the queue is empty. */
static bool evict_step(struct cache *c, struct list *queue)
{
	if (list_is_empty(queue))
		return false;
	struct record *r = container_of(queue->next, struct record, link);

	if (r->refs)
		requeue(c, r, r->queue);
	else if (queue == &c->small && r->uses >= USES_FOR_MAIN) {
		r->uses = 0;
		requeue(c, r, QUEUE_MAIN);
	} else if (queue == &c->main && r->uses) {
		r->uses--;
		requeue(c, r, QUEUE_MAIN);
	} else {
		evict(c, r);
	}
	return true;
}

/* Makes room for so many bytes more under the cap, as far as nobody uses what is there. */
void cache_trim(struct cache *c, uint64_t need_bytes)
{
	uint64_t steps = 4 * c->record_count + 16;

	while (c->clean_bytes + c->reading_bytes + c->fetching_bytes + need_bytes > c->cap_bytes && steps--) {
		bool ahead_is_long = c->ahead_bytes > c->cap_bytes / 8 * 5;
		bool small_is_long = c->small_bytes >= c->cap_bytes / 10;

		if (ahead_is_long && evict_step(c, &c->ahead))
			continue;
		if (small_is_long && evict_step(c, &c->small))
			continue;
		if (!evict_step(c, &c->main) && !evict_step(c, &c->small) && !evict_step(c, &c->ahead))
			return;
	}
}

/* What was read ahead and nobody came for is given up after so many reads. */
#define AHEAD_IS_STALE 4096u

uint64_t cache_ahead_room(struct cache *c)
{
	while (!list_is_empty(&c->ahead)) {
		struct record *r = container_of(c->ahead.next, struct record, link);

		if (r->refs || (uint32_t)c->clock - r->read_end < AHEAD_IS_STALE)
			break;
		evict(c, r);
	}
	uint64_t taken = c->ahead_bytes + c->fetching_bytes + c->queued_bytes, most = c->cap_bytes / 8 * 5;

	return taken < most ? most - taken : 0;
}

bool cache_has_read_room(const struct cache *c, uint64_t bytes)
{
	return c->reading_bytes == 0 || c->reading_bytes + bytes <= c->cap_bytes / 2;
}

uint8_t *cache_buffer(struct cache *c, uint64_t bytes)
{
	return buffer_get(&c->buffers, bytes);
}

/* --- volumes --------------------------------------------------------------------------------- */

struct volume *volume_of_dataset(struct pool *p, const struct dataset *d, struct error *err)
{
	struct cache *c = p->cache;
	os_scoped_lock(&c->lock);

	list_for_each(&c->volumes, n)
	{
		struct volume *v = container_of(n, struct volume, link);

		if (v->dataset == d->id)
			return v;
	}
	if (d->record_bytes < RECORD_BYTES_MIN || d->record_bytes > RECORD_BYTES_MAX ||
		!is_power_of_two(d->record_bytes)) {
		error_set(err, ERR_CORRUPT,
			"volume %s says that its records are %u bytes; known are powers of two from 4 KiB to 1 MiB",
			d->name, d->record_bytes);
		return NULL;
	}
	struct volume *v = calloc(1, sizeof *v);
	if (!v) {
		error_set(err, ERR_MEMORY, "out of memory for volume %s", d->name);
		return NULL;
	}
	v->cache = c;
	v->dataset = d->id;
	v->record_bytes = d->record_bytes;
	v->record_shift = (unsigned)__builtin_ctz(d->record_bytes);
	v->size_bytes = d->volume_bytes;
	v->record_count = (d->volume_bytes + d->record_bytes - 1) >> v->record_shift;
	memcpy(v->path, d->name, sizeof v->path - 1);
	list_init(&v->whole);
	list_init(&v->partial);
	list_init(&v->tickets);
	list_push_back(&c->volumes, &v->link);
	return v;
}

/* --- forgetting ------------------------------------------------------------------------------ */

static void drop_queue(struct cache *c, struct list *queue, const struct volume *v)
{
	list_for_each_safe(queue, n, keep)
	{
		struct record *r = container_of(n, struct record, link);

		if ((!v || r->volume == v) && !r->refs)
			record_forget(c, r);
	}
}

void cache_drop_clean(struct cache *c)
{
	os_scoped_lock(&c->lock);

	prefetch_forget(c, NULL);
	drop_queue(c, &c->ahead, NULL);
	drop_queue(c, &c->small, NULL);
	drop_queue(c, &c->main, NULL);
	memset(c->ghosts, 0, (c->ghost_mask + 1) * sizeof *c->ghosts);
}

static bool record_is_idle(const struct record *r)
{
	return !r->refs && !r->spilling && !r->exclusive && !r->filling;
}

/* False when somebody still works on a record of v. */
static bool forget_all(struct cache *c, struct volume *v)
{
	bool all = true;

	for (uint64_t i = 0; i <= c->hash_mask; i++)
		for (struct record *r = c->hash[i], *next; r; r = next) {
			next = r->hash_next;
			if (r->volume != v)
				continue;
			if (!record_is_idle(r)) {
				all = false;
				continue;
			}
			if (r->state == RECORD_DIRTY) {
				record_unqueue(c, r);
				dirty_done(c, r);
			}
			record_forget(c, r);
		}
	return all;
}

void cache_forget(struct pool *p, uint64_t dataset)
{
	struct cache *c = p->cache;
	struct volume *v = NULL;
	os_scoped_lock(&c->lock);

	list_for_each(&c->volumes, n) if (container_of(n, struct volume, link)->dataset == dataset) v =
		container_of(n, struct volume, link);
	if (!v)
		return;
	v->forgetting = true;
	prefetch_forget(c, v);
	while (!forget_all(c, v) && !c->stopping)
		os_cond_wait(&c->ready, &c->lock);
	v->forgetting = false;
	v->pending_count = 0;
	v->pending_bytes = 0;
	v->pending_all = false;
	os_cond_broadcast(&c->ready);
	os_cond_broadcast(&c->room);
}

/* --- loads: records fetched together --------------------------------------------------------- */

static bool load_grow(struct load *l, unsigned items, unsigned held)
{
	if (items > l->room) {
		struct load_item *i = realloc(l->items, items * sizeof *i);
		struct record_read *r = i ? realloc(l->reads, items * sizeof *r) : NULL;

		l->items = i ? i : l->items;
		l->reads = r ? r : l->reads;
		if (!i || !r)
			return false;
		l->room = items;
	}
	if (held > l->held_room) {
		struct record **h = realloc(l->held, held * sizeof *h);

		if (!h)
			return false;
		l->held = h;
		l->held_room = held;
	}
	return true;
}

struct load *load_get(struct cache *c, unsigned items, unsigned held)
{
	struct load *l;

	if (list_is_empty(&c->loads)) {
		l = calloc(1, sizeof *l);
		if (!l)
			return NULL;
		list_init(&l->link);
	} else {
		l = container_of(c->loads.next, struct load, link);
		list_remove(&l->link);
	}
	if (!load_grow(l, items, held)) {
		list_push_front(&c->loads, &l->link);
		return NULL;
	}
	l->count = l->read_count = 0;
	l->ahead = false;
	error_clear(&l->error);
	return l;
}

void load_put(struct cache *c, struct load *l)
{
	list_push_front(&c->loads, &l->link);
}

static int pointer_check(const struct volume *v, uint64_t index, const struct bp *bp, struct error *err)
{
	if (bp->kind != BP_HOLE && bp->kind != BP_DATA && bp->kind != BP_INLINE)
		return error_set(err, ERR_CORRUPT, "%s record %llu: a pointer of kind %u is not one to data", v->path,
			(unsigned long long)index, bp->kind);
	if (bp->kind != BP_HOLE &&
		(bp->logical_bytes != v->record_bytes || bp->physical_bytes > v->record_bytes ||
			bp->physical_bytes == 0 ||
			(bp->compression == COMPRESS_OFF && bp->physical_bytes != bp->logical_bytes)))
		return error_set(err, ERR_CORRUPT,
			"%s record %llu: the pointer says %u bytes stored as %u, a record has %u", v->path,
			(unsigned long long)index, bp->logical_bytes, bp->physical_bytes, v->record_bytes);
	return 0;
}

static int buffer_take(struct cache *c, uint64_t bytes, uint8_t **ret, struct error *err)
{
	os_scoped_lock(&c->lock);

	*ret = cache_buffer(c, bytes);
	return *ret ? 0 : error_set(err, ERR_MEMORY, "out of memory for a record");
}

static int unpack(struct load *l, struct load_item *i, const uint8_t *from, struct error *err)
{
	struct volume *v = l->volume;
	int rc = i->bp.compression == COMPRESS_OFF ? (memcpy(i->target, from, v->record_bytes), 0)
						   : decompress_record(i->bp.compression, from, i->bp.physical_bytes,
							     i->target, v->record_bytes, err);

	os_charge(OS_STAGE_COPY, v->record_bytes);
	return rc;
}

/* Finds where the record lies; inline ones and holes are answered at once. */
static int item_lookup(struct load *l, struct load_item *i, struct error *err)
{
	struct volume *v = l->volume;
	struct pool *p = v->cache->pool;
	uint64_t index = i->record->index;
	uint8_t value[TREE_VALUE_MAX];
	uint32_t bytes = 0;
	int rc = record_lookup(p, v->dataset, (struct key){index, 0}, value, sizeof value, &bytes, err);

	i->target = i->packed = NULL;
	i->read = UINT_MAX;
	i->bp.kind = BP_HOLE;
	if (rc == ERR_NOT_FOUND || (!rc && bytes == 0))
		return 0;
	if (!rc)
		rc = bp_unpack_value(value, bytes, &i->bp, err);
	if (!rc)
		rc = pointer_check(v, index, &i->bp, err);
	if (rc || i->bp.kind == BP_HOLE)
		return rc;
	rc = buffer_take(v->cache, v->record_bytes, &i->target, err);
	if (!rc && i->bp.kind == BP_INLINE)
		return unpack(l, i, value + BP_INLINE_HEAD, err);
	if (!rc && i->bp.compression != COMPRESS_OFF)
		rc = buffer_take(v->cache, round_up_u64(i->bp.physical_bytes, POOL_UNIT_BYTES), &i->packed, err);
	if (rc)
		return rc;
	i->read = l->read_count++;
	l->reads[i->read].bp = i->bp;
	l->reads[i->read].buffer = i->packed ? i->packed : i->target;
	l->reads[i->read].status = 0;
	error_clear(&l->reads[i->read].error);
	return 0;
}

static void unpack_worker(void *arg, unsigned index)
{
	struct load *l = arg;
	struct load_item *i = &l->items[index];

	if (i->status || !i->packed)
		return;
	/* Errors of a read go where its sentence is: each item has its own. */
	i->status = unpack(l, i, i->packed, &l->reads[i->read].error);
}

static unsigned packed_count(const struct load *l)
{
	unsigned n = 0;

	for (unsigned i = 0; i < l->count; i++)
		n += l->items[i].packed && !l->items[i].status;
	return n;
}

void load_run(struct load *l, bool sequential)
{
	struct pool *p = l->volume->cache->pool;

	os_mutex_lock(&p->lock);
	uint64_t pin = reader_enter(p);
	os_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < l->count; i++) {
		struct error e;

		e.code = 0;
		l->items[i].status = item_lookup(l, &l->items[i], &e);
		if (l->items[i].status && !l->error.code)
			l->error = e;
	}
	if (l->read_count)
		stripes_read(p, l->reads, l->read_count, sequential);
	os_mutex_lock(&p->lock);
	reader_leave(p, pin);
	os_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < l->count; i++)
		if (!l->items[i].status && l->items[i].read != UINT_MAX)
			l->items[i].status = l->reads[l->items[i].read].status;
	unsigned packed = packed_count(l);
	if (packed >= 4 && p->workers)
		workers_run(p->workers, l->count, unpack_worker, l);
	else
		for (unsigned i = 0; packed && i < l->count; i++)
			unpack_worker(l, i);
	for (unsigned i = 0; i < l->count && !l->error.code; i++)
		if (l->items[i].status && l->items[i].read != UINT_MAX) {
			l->error = l->reads[l->items[i].read].error;
			error_prefix(&l->error, "%s record %llu", l->volume->path,
				(unsigned long long)l->items[i].record->index);
		}
}

/* What a partial record has is newer than what was read. */
static void merge(struct record *r, uint8_t *old)
{
	uint32_t sectors = r->volume->record_bytes / SECTOR_BYTES;

	for (uint32_t s = 0; s < sectors; s++)
		if (!(r->valid[s / 64] >> s % 64 & 1)) {
			if (old)
				memcpy(r->bytes + s * SECTOR_BYTES, old + s * SECTOR_BYTES, SECTOR_BYTES);
			else
				memset(r->bytes + s * SECTOR_BYTES, 0, SECTOR_BYTES);
		}
}

static void fill_finish(struct cache *c, struct load_item *i)
{
	struct record *r = i->record;

	if (!i->status) {
		/* Readers of what is valid go on meanwhile: these are other bytes. */
		merge(r, i->target);
		valid_map_put(c, r->valid);
		r->valid = NULL;
	}
	if (i->target)
		buffer_put(&c->buffers, i->target, r->volume->record_bytes);
	r->filling = false;
	if (!r->spilling)
		dirty_enqueue(c, r);
}

static void reading_finish(struct cache *c, struct load_item *i, bool ahead)
{
	struct record *r = i->record;

	r->status = (int8_t)i->status;
	r->state = RECORD_CLEAN;
	r->bytes = i->target;
	if (i->status || !i->target || !r->hashed) {
		record_forget(c, r); /* a hole costs a look into the tree, not memory */
		return;
	}
	if (ahead)
		c->prefetch_bytes += r->volume->record_bytes;
	record_becomes_clean(c, r, ahead);
}

void load_finish(struct cache *c, struct load *l)
{
	for (unsigned n = 0; n < l->count; n++) {
		struct load_item *i = &l->items[n];

		if (i->packed)
			buffer_put(&c->buffers, i->packed, round_up_u64(i->bp.physical_bytes, POOL_UNIT_BYTES));
		if (i->fill)
			fill_finish(c, i);
		else
			reading_finish(c, i, l->ahead);
	}
	os_cond_broadcast(&c->ready);
}

int cache_fill_one(struct cache *c, struct volume *v, uint64_t index, struct error *err)
{
	os_mutex_lock(&c->lock);
	struct record *r = record_find(c, v, index);
	bool lacks = r && r->state == RECORD_DIRTY && r->valid && !r->exclusive && !r->filling && !r->spilling;
	struct load *l = lacks ? load_get(c, 1, 0) : NULL;

	if (!l) {
		os_mutex_unlock(&c->lock);
		return lacks ? error_set(err, ERR_MEMORY, "out of memory for a record") : 0;
	}
	if (r->queue != QUEUE_NONE)
		record_unqueue(c, r);
	r->filling = true;
	r->refs++;
	l->items[0] = (struct load_item){.record = r, .fill = true};
	l->volume = v;
	l->count = 1;
	os_mutex_unlock(&c->lock);
	load_run(l, false);
	os_mutex_lock(&c->lock);
	int rc = l->items[0].status;
	load_finish(c, l);
	if (rc && err && !err->code)
		*err = l->error;
	record_unref(c, r);
	load_put(c, l);
	os_mutex_unlock(&c->lock);
	return rc;
}
