/*
 * Volumes as data: reads, writes, flushes, discards of any bytes.
 *
 * A read takes its records from the cache; those that are not there are fetched in one batch straight into the cache
 * and copied out once. A write copies into dirty records and returns. Records that it covers wholly need nothing from
 * the disks; others remember which of their sectors they have, and the rest is read only if it is still missing when
 * the record leaves, so a sequence of small writes reads nothing.
 *
 * A flush needs durable what was written to the volume since its last one. Up to 128 KiB of it goes as bytes into the
 * log (one write, one flush); more waits for a commit. Flushes of several threads may rely on each other: each waits
 * for those that began before it and took ranges along, and commits itself if one of them failed.
 */
#include "record.h"

#include <string.h>

#define READ_CHUNK_BYTES (16u << 20)
#define READ_CHUNK_RECORDS 2048u
#define LONG_BYTES (1u << 20)

/* --- open and close -------------------------------------------------------------------------- */

int volume_open(struct pool *p, const char *path, struct volume **ret_volume, struct error *err)
{
	os_scoped_lock(&p->lock);
	struct dataset *d = dataset_by_path(p, path, err);

	if (!d)
		return err && err->code ? err->code : error_set(err, ERR_NOT_FOUND, "there is no volume %s", path);
	if (d->type == DATASET_FILESYSTEM || d->volume_bytes == 0)
		return error_set(err, ERR_USAGE, "%s is not a volume", path);
	struct volume *v = volume_of_dataset(p, d, err);
	if (!v)
		return err && err->code ? err->code : ERR_MEMORY;
	v->read_only = d->type == DATASET_SNAPSHOT;
	os_mutex_lock(&p->cache->lock);
	v->handles++;
	if (v->handles == 1) {
		size_t n = min_of(strlen(path), sizeof v->path - 1);

		memcpy(v->path, path, n);
		v->path[n] = 0;
	}
	os_mutex_unlock(&p->cache->lock);
	*ret_volume = v;
	return 0;
}

void volume_close(struct volume *v)
{
	if (!v)
		return;
	os_scoped_lock(&v->cache->lock);
	sp_assert(v->handles > 0);
	v->handles--;
}

uint64_t volume_size_bytes(const struct volume *v)
{
	return v->size_bytes;
}
uint32_t volume_record_bytes(const struct volume *v)
{
	return v->record_bytes;
}

void pool_drop_cache(struct pool *p)
{
	cache_drop_clean(p->cache);
	node_cache_drop(p);
}

void cache_counters(struct pool *p, struct pool_counters *ret)
{
	struct cache *c = p->cache;
	os_scoped_lock(&c->lock);

	ret->cache_hits = c->hits;
	ret->cache_misses = c->misses;
	ret->prefetch_bytes = c->prefetch_bytes;
	ret->prefetch_hit_bytes = c->prefetch_hit_bytes;
	ret->logical_bytes = c->logical_bytes;
	ret->dirty_bytes = c->dirty_bytes;
	ret->cache_bytes = c->clean_bytes;
}

int volume_range_check(const struct volume *v, uint64_t offset, uint64_t length, const char *what, struct error *err)
{
	if (offset > v->size_bytes || length > v->size_bytes - offset)
		return error_set(err, ERR_USAGE, "%s of %llu bytes at %llu: %s ends at %llu", what,
			(unsigned long long)length, (unsigned long long)offset, v->path,
			(unsigned long long)v->size_bytes);
	return 0;
}

/* --- reading --------------------------------------------------------------------------------- */

static bool lacks_something(const struct record *r, const struct piece *at)
{
	return r && r->state == RECORD_DIRTY && r->valid && !record_has(r, at->from, at->to);
}

static uint64_t missing_bytes(struct cache *c, struct volume *v, uint64_t offset, uint64_t length)
{
	uint64_t bytes = 0;

	for (uint64_t done = 0; done < length;) {
		struct piece at = piece_at(v, offset + done, length - done);
		struct record *r = record_find(c, v, at.index);

		if (!r || lacks_something(r, &at))
			bytes += v->record_bytes;
		done += at.to - at.from;
	}
	return bytes;
}

/* Holds all records of the range; those that must be fetched become items of the load. */
static int hold_all(
	struct cache *c, struct volume *v, uint64_t offset, uint64_t length, struct load *l, unsigned *ret_held)
{
	unsigned n = 0;

	for (uint64_t done = 0; done < length; n++) {
		struct piece at = piece_at(v, offset + done, length - done);
		struct record *r = record_find(c, v, at.index);

		if (!r) {
			r = record_add(c, v, at.index);
			if (!r)
				break;
			l->items[l->count++] = (struct load_item){.record = r};
			c->misses++;
		} else {
			r->refs++;
			if (lacks_something(r, &at) && !r->exclusive && !r->filling && !r->spilling) {
				record_unqueue(c, r);
				r->filling = true;
				l->items[l->count++] = (struct load_item){.record = r, .fill = true};
				c->misses++;
			} else {
				c->hits++;
			}
		}
		l->held[n] = r;
		done += at.to - at.from;
	}
	*ret_held = n;
	return 0;
}

/* Waits until the bytes of one record may be copied out. */
static int read_enter(struct cache *c, struct record *r, const struct piece *at, struct error *err)
{
	bool waited = false;

	for (;;) {
		if (r->state == RECORD_READING || r->exclusive || (r->writers_waiting && !waited)) {
			waited = waited || r->state != RECORD_READING;
			os_cond_wait(&c->ready, &c->lock);
		} else if (r->status) {
			return error_set(err, r->status, "%s record %llu cannot be read: %s", r->volume->path,
				(unsigned long long)at->index, error_sentence(r->status));
		} else if (!lacks_something(r, at)) {
			break;
		} else if (r->filling || r->spilling) {
			os_cond_wait(&c->ready, &c->lock);
		} else {
			os_mutex_unlock(&c->lock);
			int rc = cache_fill_one(c, r->volume, r->index, err);
			os_mutex_lock(&c->lock);
			if (rc)
				return rc;
		}
	}
	r->readers++;
	record_used(c, r, at->from, at->to);
	return 0;
}

static void copy_out(struct volume *v, const struct load *l, uint64_t offset, uint8_t *buffer, uint64_t length)
{
	unsigned n = 0;

	for (uint64_t done = 0; done < length; n++) {
		struct piece at = piece_at(v, offset + done, length - done);
		const struct record *r = l->held[n];

		if (r->bytes)
			memcpy(buffer + done, r->bytes + at.from, at.to - at.from);
		else
			memset(buffer + done, 0, at.to - at.from);
		done += at.to - at.from;
	}
	os_charge(OS_STAGE_COPY, length);
}

/* With the lock, which it lets go for the copy. */
static int read_held(struct cache *c, struct volume *v, uint64_t offset, uint8_t *buffer, uint64_t length,
	struct load *l, unsigned held, struct error *err)
{
	unsigned entered = 0;
	uint64_t done = 0;
	bool wanted = false;
	int rc = 0;

	for (; entered < held && !rc; entered += !rc) {
		struct piece at = piece_at(v, offset + done, length - done);

		rc = read_enter(c, l->held[entered], &at, err);
		done += at.to - at.from;
	}
	if (!rc) {
		os_mutex_unlock(&c->lock);
		copy_out(v, l, offset, buffer, length);
		os_mutex_lock(&c->lock);
	}
	for (unsigned i = 0; i < entered; i++) {
		l->held[i]->readers--;
		wanted = wanted || l->held[i]->writers_waiting;
	}
	if (wanted)
		os_cond_broadcast(&c->ready);
	return rc;
}

static int read_chunk(struct volume *v, uint64_t offset, uint8_t *buffer, uint64_t length, struct error *err)
{
	struct cache *c = v->cache;
	unsigned held = 0,
		 records = (unsigned)(((offset + length - 1) >> v->record_shift) - (offset >> v->record_shift) + 1);
	uint64_t missing;
	int rc = 0;
	os_scoped_lock(&c->lock);

	while (missing = missing_bytes(c, v, offset, length), !cache_has_read_room(c, missing) || v->forgetting) {
		if (c->stopping)
			return error_set(err, ERR_INTERRUPTED, "the pool is being closed");
		os_cond_wait(v->forgetting ? &c->ready : &c->room, &c->lock);
	}
	struct load *l = load_get(c, records, records);
	if (!l)
		return error_set(err, ERR_MEMORY, "out of memory for a read of %u records", records);
	hold_all(c, v, offset, length, l, &held);
	if (l->count) {
		uint64_t bytes = (uint64_t)l->count << v->record_shift;

		l->volume = v;
		c->reading_bytes += bytes;
		cache_trim(c, 0);
		os_mutex_unlock(&c->lock);
		load_run(l, length >= LONG_BYTES);
		os_mutex_lock(&c->lock);
		c->reading_bytes -= bytes;
		load_finish(c, l);
		os_cond_broadcast(&c->room);
		if (l->error.code)
			rc = error_set(err, l->error.code, "%s", l->error.text);
	}
	if (!rc && held < records)
		rc = error_set(err, ERR_MEMORY, "out of memory for records");
	if (!rc)
		rc = read_held(c, v, offset, buffer, length, l, held, err);
	for (unsigned i = 0; i < held; i++)
		record_unref(c, l->held[i]);
	cache_trim(c, 0); /* what was held could not go before */
	load_put(c, l);
	return rc;
}

int volume_read(struct volume *v, uint64_t offset, void *buffer, uint64_t length, struct error *err)
{
	struct cache *c = v->cache;
	uint64_t chunk = min_of((uint64_t)READ_CHUNK_BYTES, (uint64_t)READ_CHUNK_RECORDS << v->record_shift);

	chunk = min_of(chunk, max_of(c->cap_bytes / 2 & ~(uint64_t)(RECORD_BYTES_MAX - 1), (uint64_t)RECORD_BYTES_MAX));
	int rc = volume_range_check(v, offset, length, "a read", err);

	os_charge(OS_STAGE_CALL, 0);
	if (rc || !length)
		return rc;
	os_mutex_lock(&c->lock);
	prefetch_note(
		c, v, offset >> v->record_shift, (offset + length - 1 + v->record_bytes) >> v->record_shift, length);
	os_mutex_unlock(&c->lock);
	for (uint64_t done = 0; !rc && done < length;) {
		uint64_t n = min_of(length - done, chunk - ((offset + done) & (v->record_bytes - 1)));

		rc = read_chunk(v, offset + done, (uint8_t *)buffer + done, n, err);
		done += n;
	}
	return rc;
}

/* --- flush ----------------------------------------------------------------------------------- */

/* What the ranges need in the log, or 0 when they cannot go there: a record of them left already. */
enum can_intend { INTEND_YES, INTEND_NO, INTEND_WAIT };

static enum can_intend can_intend(struct cache *c, const struct volume *v, size_t *ret_bytes)
{
	*ret_bytes = 0;
	for (unsigned i = 0; i < v->pending_count; i++)
		for (uint64_t done = 0; done < v->pending[i].bytes;) {
			struct piece at = piece_at(v, v->pending[i].offset_bytes + done, v->pending[i].bytes - done);
			struct record *r = record_find(c, v, at.index);

			if (r && r->exclusive)
				return INTEND_WAIT;
			if (!r || r->state != RECORD_DIRTY || !r->bytes || !record_has(r, at.from, at.to))
				return INTEND_NO;
			*ret_bytes += log_entry_bytes(24 + at.to - at.from);
			done += at.to - at.from;
		}
	return INTEND_YES;
}

static void intents_pack(struct cache *c, const struct volume *v, uint8_t *to)
{
	for (unsigned i = 0; i < v->pending_count; i++)
		for (uint64_t done = 0; done < v->pending[i].bytes;) {
			struct piece at = piece_at(v, v->pending[i].offset_bytes + done, v->pending[i].bytes - done);
			uint32_t bytes = at.to - at.from;
			uint8_t *payload = log_entry_put(to, LOG_INTENT, 24 + bytes);

			put_le64(payload, v->dataset);
			put_le64(payload + 8, at.index);
			put_le64(payload + 16, at.from);
			memcpy(payload + 24, record_find(c, v, at.index)->bytes + at.from, bytes);
			to += log_entry_bytes(24 + bytes);
			done += bytes;
		}
}

static void pending_clear(struct volume *v)
{
	v->pending_count = 0;
	v->pending_bytes = 0;
	v->pending_all = false;
}

/* Takes the pending ranges along as packed intents, with both locks held. NULL: not this way. */
static uint8_t *intents_take(struct cache *c, struct volume *v, size_t *ret_bytes)
{
	struct pool *p = c->pool;

	for (;;) {
		enum can_intend can = v->pending_all || !v->pending_count ? INTEND_NO : can_intend(c, v, ret_bytes);

		if (can == INTEND_NO)
			return NULL;
		if (can == INTEND_YES)
			break;
		os_mutex_unlock(&p->lock); /* locks are taken in order: let both go to wait */
		os_cond_wait(&c->ready, &c->lock);
		os_mutex_unlock(&c->lock);
		os_mutex_lock(&p->lock);
		os_mutex_lock(&c->lock);
	}
	uint8_t *entries = malloc(*ret_bytes);
	if (entries) {
		intents_pack(c, v, entries);
		pending_clear(v);
	}
	return entries;
}

static void wait_for_earlier(struct cache *c, struct volume *v, uint64_t number)
{
	for (;;) {
		bool found = false;

		list_for_each(&v->tickets, n) found = found || container_of(n, struct ticket, link)->number < number;
		if (!found || c->stopping)
			return;
		os_cond_wait(&c->ready, &c->lock);
	}
}

/* By the log, or by a commit. */
static int flush_now(struct volume *v, struct ticket *t, struct error *err)
{
	struct cache *c = v->cache;
	struct pool *p = c->pool;
	size_t bytes = 0;
	bool written;
	int rc = 0;

	os_mutex_lock(&p->lock);
	os_mutex_lock(&c->lock);
	t->number = ++v->ticket_last;
	list_push_back(&v->tickets, &t->link);
	scoped_free uint8_t *entries = intents_take(c, v, &bytes);
	written = v->pending_all || v->pending_count;
	pending_clear(v);
	os_mutex_unlock(&c->lock);
	if (entries)
		rc = pool_commit_intent(p, entries, bytes, err);
	os_mutex_unlock(&p->lock);
	os_charge(OS_STAGE_COPY, bytes);
	if (written)
		rc = pool_commit_now(p, err);
	return rc;
}

int volume_flush(struct volume *v, struct error *err)
{
	struct cache *c = v->cache;
	struct pool *p = c->pool;
	struct ticket t = {0};
	struct dataset *d = NULL;

	os_mutex_lock(&p->lock);
	int rc = p->read_only || v->read_only ? 0 : pool_refuses(p, err);
	d = dataset_by_id(p, v->dataset);
	bool nothing = p->read_only || v->read_only || !d || d->sync_disabled;
	os_mutex_unlock(&p->lock);
	if (rc || nothing)
		return rc;
	list_init(&t.link);
	rc = flush_now(v, &t, err);
	os_mutex_lock(&c->lock);
	if (rc) {
		v->pending_all = true; /* what was not made durable still is to be */
		v->ticket_failed = v->ticket_last;
	}
	wait_for_earlier(c, v, t.number);
	bool relied_on_failed = !rc && v->ticket_failed >= t.number;
	list_remove(&t.link);
	os_cond_broadcast(&c->ready);
	os_mutex_unlock(&c->lock);
	return !rc && relied_on_failed ? pool_commit_now(p, err) : rc;
}
