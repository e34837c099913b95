/*
 * Discards: whole records become holes, parts of records zeros.
 *
 * There may be very many records in a range, so no record is touched that is neither here nor stored. What is here
 * becomes a hole to be, with the same way to the pool as other dirty records. What is stored is looked for in
 * everything that may hold it (the transactions, the deltas, the tree) and deleted in the open transaction, step by
 * step.
 */
#include "record.h"

#include <string.h>

#define DISCARD_KEYS 256u

/* --- discard --------------------------------------------------------------------------------- */

/* Records that are here become holes to be; their bytes are gone at once. */
static void discard_cached(struct cache *c, struct volume *v, uint64_t index)
{
	for (;;) {
		struct record *r = record_find(c, v, index);

		if (!r)
			return;
		if (r->state == RECORD_READING || r->filling || r->exclusive || r->readers) {
			record_wait(c, r);
			continue;
		}
		if (r->state == RECORD_CLEAN) {
			record_unqueue(c, r);
			record_make_dirty(c, r, HOLE_CHARGE_BYTES);
		} else {
			if (!r->spilling)
				record_unqueue(c, r);
			else if (!r->again) {
				r->again = true;
				r->again_phase = v->phase;
				v->dirty_count[v->phase]++;
			}
			/* Bytes on their way keep their charge until they are there. */
			if (r->spilling && r->bytes && r->bytes == r->spilled_bytes) {
				c->dirty_bytes += HOLE_CHARGE_BYTES;
			} else {
				c->dirty_bytes -= r->charged - HOLE_CHARGE_BYTES;
			}
			r->charged = HOLE_CHARGE_BYTES;
		}
		if (r->bytes && r->bytes != r->spilled_bytes)
			buffer_put(&c->buffers, r->bytes, v->record_bytes);
		r->bytes = NULL;
		if (r->valid)
			valid_map_put(c, r->valid);
		r->valid = NULL;
		if (!r->spilling)
			dirty_enqueue(c, r);
		return;
	}
}

static void discard_all_cached(struct volume *v, uint64_t first, uint64_t last)
{
	struct cache *c = v->cache;
	uint64_t cursor = 0, found[DISCARD_KEYS];
	unsigned n;
	os_scoped_lock(&c->lock);

	if (last - first <= c->hash_mask) {
		for (uint64_t i = first; i < last; i++)
			discard_cached(c, v, i);
		return;
	}
	while (n = records_in_range(c, v, first, last, &cursor, found, DISCARD_KEYS), n > 0)
		for (unsigned i = 0; i < n; i++)
			discard_cached(c, v, found[i]);
}

/* Keys that the pool has in a range, from whatever holds them; some may be deleted already. */
struct key_list {
	uint64_t last, limit; /* keys below last; all keys below limit are in the list */
	unsigned count;
	uint64_t keys[6 * DISCARD_KEYS];
	unsigned here; /* from the source at hand */
};

static bool key_add(struct key_list *l, uint64_t key)
{
	if (key >= l->last)
		return false;
	if (l->here == DISCARD_KEYS) {
		l->limit = min_of(l->limit, key);
		return false;
	}
	l->here++;
	l->keys[l->count++] = key;
	return true;
}

static bool key_visit(void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	return key_add(arg, key.a);
}

static void keys_of_delta(struct key_list *l, const struct delta *d, uint64_t dataset, uint64_t first)
{
	const struct delta_entry *e = d ? delta_at_or_after(d, dataset, (struct key){first, 0}) : NULL;

	l->here = 0;
	while (e && (e->bytes == 0 || key_add(l, e->key.a))) {
		if (e->key.a == UINT64_MAX)
			return;
		e = delta_at_or_after(d, dataset, (struct key){e->key.a + 1, 0});
	}
}

static int keys_find(struct volume *v, uint64_t first, struct key_list *l, struct error *err)
{
	struct pool *p = v->cache->pool;

	os_mutex_lock(&p->lock);
	const struct dataset *d = dataset_by_id(p, v->dataset);
	struct bp root = d ? d->root : (struct bp){.kind = BP_HOLE};
	uint64_t pin = reader_enter(p);
	keys_of_delta(l, p->open ? p->open->delta : NULL, v->dataset, first);
	keys_of_delta(l, p->closing_transaction ? p->closing_transaction->delta : NULL, v->dataset, first);
	keys_of_delta(l, p->committed, v->dataset, first);
	keys_of_delta(l, p->frozen, v->dataset, first);
	os_mutex_unlock(&p->lock);
	l->here = 0;
	int rc = root.kind == BP_HOLE ? 0 : tree_walk(p, &root, v->dataset, (struct key){first, 0}, key_visit, l, err);
	os_mutex_lock(&p->lock);
	reader_leave(p, pin);
	os_mutex_unlock(&p->lock);
	return rc;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int keys_delete(struct volume *v, struct key_list *l, struct error *err)
{
	struct pool *p = v->cache->pool;
	int rc = transaction_wait_room(p, err);

	if (rc)
		return rc;
	os_scoped_lock(&p->lock);
	qsort(l->keys, l->count, sizeof *l->keys, by_number);
	for (unsigned i = 0; !rc && i < l->count; i++)
		if (l->keys[i] < l->limit && (i == 0 || l->keys[i] != l->keys[i - 1]))
			rc = transaction_put(p, NULL, v->dataset, (struct key){l->keys[i], 0}, NULL, 0, err);
	commit_due(p);
	return rc;
}

/* Deletes what is stored of the records in [first, last): step by step, for there may be very many. */
static int discard_stored(struct volume *v, uint64_t first, uint64_t last, struct error *err)
{
	scoped_free struct key_list *l = malloc(sizeof *l);
	int rc = l ? 0 : error_set(err, ERR_MEMORY, "out of memory for a discard");

	while (!rc && first < last) {
		l->last = l->limit = last;
		l->count = 0;
		rc = keys_find(v, first, l, err);
		if (!rc)
			rc = keys_delete(v, l, err);
		first = l->limit;
	}
	return rc;
}

/* Zeroes a part of a record, unless there is nothing to be zeroed. */
static int discard_part(struct volume *v, uint64_t offset, uint64_t length, struct error *err)
{
	struct cache *c = v->cache;
	struct key_list *l;
	bool sync_always, present;
	int rc = 0;

	if (!length)
		return 0;
	uint64_t index = offset >> v->record_shift;
	os_mutex_lock(&c->lock);
	present = record_find(c, v, index) != NULL;
	os_mutex_unlock(&c->lock);
	if (!present) {
		l = malloc(sizeof *l);
		if (!l)
			return error_set(err, ERR_MEMORY, "out of memory for a discard");
		*l = (struct key_list){.last = index + 1, .limit = index + 1};
		rc = keys_find(v, index, l, err);
		present = l->count > 0;
		free(l);
	}
	return rc || !present ? rc : volume_put(v, offset, NULL, length, &sync_always, err);
}

int volume_discard(struct volume *v, uint64_t offset, uint64_t length, struct error *err)
{
	struct cache *c = v->cache;
	struct pool *p = c->pool;
	struct dataset *d;
	uint64_t end = offset + length;
	int rc = volume_range_check(v, offset, length, "a discard", err);

	os_charge(OS_STAGE_CALL, 0);
	if (rc || !length)
		return rc;
	os_mutex_lock(&p->lock);
	rc = volume_writable(v, &d, err);
	bool sync_always = !rc && d->sync_always;
	os_mutex_unlock(&p->lock);
	uint64_t first = (offset + v->record_bytes - 1) >> v->record_shift;
	uint64_t last = end == v->size_bytes ? v->record_count : end >> v->record_shift;
	if (!rc && first > last) /* inside one record */
		return discard_part(v, offset, length, err);
	if (!rc)
		rc = discard_part(v, offset, min_of(first << v->record_shift, end) - offset, err);
	if (!rc && last < v->record_count)
		rc = discard_part(
			v, max_of(last << v->record_shift, offset), end - max_of(last << v->record_shift, offset), err);
	if (rc)
		return rc;
	if (first < last) {
		/* Dirty ones first, so that none is written behind the deletes; clean ones that a reader brought in
		 * meanwhile after them. */
		discard_all_cached(v, first, last);
		rc = discard_stored(v, first, last, err);
		discard_all_cached(v, first, last);
	}
	os_mutex_lock(&c->lock);
	v->pending_all = true;
	os_mutex_unlock(&c->lock);
	volume_commit_due(v);
	return !rc && sync_always ? volume_flush(v, err) : rc;
}
