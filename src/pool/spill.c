/*
 * Spill: dirty records on their way to stripes.
 *
 * Two threads take batches, so that while one waits for the disks the other compresses, and disks always have the next
 * batch queued. What is taken: all that somebody waits for (spill_all); under pressure anything, the oldest first;
 * otherwise whole records as soon as there are two runs of them, so that disks write while the application does.
 * Records of a batch are sorted, so that neighbours lie in neighbouring columns whatever the order in which they were
 * written. What would not fill a stripe stays for the next batch, unless it is waited for.
 *
 * A batch is written inside one transaction, and the pointers join it when all its stripes are written. A record that
 * was written to meanwhile stays dirty with its new bytes. When a batch fails all its records are dirty as before,
 * whoever waits for them is told, and it is tried again, ever more slowly up to a second.
 *
 * spill_all waits for what was dirty when it was called and for nothing later: records carry one of two phases, and a
 * call flips the volume's phase as soon as nothing of the other one is left (as read-copy-update waits for its
 * readers).
 */
#include "record.h"

#include <string.h>

#define BATCH_RECORDS_MAX 8192u
#define COMPRESS_BATCH_BYTES (8u << 20) /* its results need buffers besides */
#define FILL_BYTES (8u << 20)
#define FILL_RECORDS_MAX 256u
#define RETRY_NS_MIN UINT64_C(20000000)
#define RETRY_NS_MAX UINT64_C(1000000000)

enum item_kind { ITEM_STORE, ITEM_HOLE, ITEM_INLINE, ITEM_GONE, ITEM_STAYS };
struct spill_item {
	struct record *record;
	uint8_t *packed; /* compressed bytes, or NULL */
	struct stored_record stored;
	enum item_kind kind;
	enum compression compression; /* the dataset's */
	int level;
	int status;
};
struct spiller {
	struct cache *cache;
	unsigned room, count, store_count;
	struct spill_item *items;
	struct stored_record **list;
	bool more; /* of what is waited for was left */
	bool waited_for;
	uint64_t bytes;
	struct error error;
};

/* --- what is dirty --------------------------------------------------------------------------- */

static bool is_old(const struct record *r)
{
	return r->phase != r->volume->phase;
}

static bool is_draining(const struct volume *v)
{
	return v->dirty_count[!v->phase] > 0;
}

static bool under_pressure(const struct cache *c)
{
	return c->dirty_bytes > c->dirty_cap_bytes / 5 * 3;
}

/* Nobody works on it: it may be spilled. What is waited for comes first. */
void dirty_enqueue(struct cache *c, struct record *r)
{
	struct volume *v = r->volume;
	struct list *queue = r->valid ? &v->partial : &v->whole;

	sp_assert(r->state == RECORD_DIRTY && r->queue == QUEUE_NONE && !r->spilling && !r->exclusive && !r->filling);
	r->queue = r->valid ? QUEUE_PARTIAL : QUEUE_WHOLE;
	if (is_old(r))
		list_push_front(queue, &r->link);
	else
		list_push_back(queue, &r->link);
	if (!r->valid) {
		v->whole_bytes += v->record_bytes;
		c->whole_bytes += v->record_bytes;
	}
	if (is_old(r) || c->whole_bytes >= c->trigger_bytes || under_pressure(c))
		os_cond_signal(&c->work);
}

static void flip(struct cache *c, struct volume *v)
{
	while (v->flips < v->flips_wanted && !is_draining(v)) {
		v->phase = !v->phase;
		v->flips++;
		os_cond_broadcast(&c->work);
	}
}

static void count_less(struct cache *c, struct volume *v, bool phase)
{
	sp_assert(v->dirty_count[phase] > 0);
	if (--v->dirty_count[phase] == 0)
		flip(c, v);
}

void dirty_done(struct cache *c, struct record *r)
{
	struct volume *v = r->volume;

	sp_assert(c->dirty_bytes >= r->charged);
	c->dirty_bytes -= r->charged;
	r->charged = 0;
	if (r->promised)
		c->promised_bytes -= v->record_bytes;
	r->promised = r->uses_reserve = false;
	if (r->valid) {
		valid_map_put(c, r->valid);
		r->valid = NULL;
	}
	count_less(c, v, r->phase);
}

/* --- taking a batch -------------------------------------------------------------------------- */

static bool batch_is_full(const struct spiller *s, const struct volume *v)
{
	const struct cache *c = s->cache;
	uint64_t limit = v->compresses ? min_of(c->batch_bytes, (uint64_t)COMPRESS_BATCH_BYTES) : c->batch_bytes;
	uint64_t stripe = (uint64_t)c->stripe_records * v->record_bytes;

	if (stripe <= c->dirty_cap_bytes / 3)
		limit = max_of(limit, stripe);
	return s->count == s->room || (s->count && s->bytes + v->record_bytes > limit);
}

static void take(struct spiller *s, struct record *r)
{
	struct cache *c = s->cache;

	record_unqueue(c, r);
	r->spilling = true;
	r->again = false;
	r->filling = r->valid != NULL;
	r->spilled_bytes = r->bytes;
	r->refs++;
	s->bytes += r->volume->record_bytes;
	s->items[s->count++] = (struct spill_item){.record = r};
}

static void take_queue(struct spiller *s, struct volume *v, struct list *queue, bool only_old)
{
	while (!list_is_empty(queue) && !batch_is_full(s, v)) {
		struct record *r = container_of(queue->next, struct record, link);

		if (only_old && !is_old(r))
			return;
		take(s, r);
	}
	if (only_old && !list_is_empty(queue) && is_old(container_of(queue->next, struct record, link)))
		s->more = true;
}

/* Volumes in turn, beginning behind the one that was last. */
static struct volume *volume_after(struct cache *c, struct volume *v)
{
	struct list *n = v ? v->link.next : c->volumes.next;

	if (n == &c->volumes)
		n = n->next;
	return n == &c->volumes ? NULL : container_of(n, struct volume, link);
}

static void take_turns(struct spiller *s, bool only_old, bool partial)
{
	struct cache *c = s->cache;
	struct volume *first = volume_after(c, c->turn), *v = first;

	if (!v)
		return;
	do {
		unsigned before = s->count;

		if (!only_old || is_draining(v)) {
			take_queue(s, v, &v->whole, only_old);
			if (partial)
				take_queue(s, v, &v->partial, only_old);
		}
		if (s->count > before)
			c->turn = v;
		v = volume_after(c, v);
	} while (v != first && !batch_is_full(s, v));
}

static bool take_batch(struct spiller *s)
{
	struct cache *c = s->cache;

	s->count = 0;
	s->bytes = 0;
	s->more = false;
	if (c->retry_ns && os_now_ns() < c->retry_ns)
		return false;
	take_turns(s, true, true);
	s->waited_for = s->count > 0;
	if (!s->count && under_pressure(c))
		take_turns(s, false, c->whole_bytes < c->batch_bytes);
	else if (!s->count && c->whole_bytes >= c->trigger_bytes)
		take_turns(s, false, false);
	return s->count > 0;
}

static int by_place(const void *a, const void *b)
{
	const struct record *x = ((const struct spill_item *)a)->record, *y = ((const struct spill_item *)b)->record;

	if (x->volume != y->volume)
		return x->volume->dataset < y->volume->dataset ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* --- making a batch ready -------------------------------------------------------------------- */

/* Partial records get the rest of their bytes from what the pool has; so many at a time that scratch stays small. */
static void fill_some(struct spiller *s, unsigned *next)
{
	struct cache *c = s->cache;
	struct volume *v = NULL;
	unsigned first = *next, room = 0;

	os_mutex_lock(&c->lock);
	struct load *l = load_get(c, FILL_RECORDS_MAX, 0);
	for (; *next < s->count; ++*next) {
		struct record *r = s->items[*next].record;

		if (!r->filling)
			continue;
		if (!l) {
			r->filling = false;
			s->items[*next].status =
				error_set(&s->error, ERR_MEMORY, "out of memory for what a record lacks");
			continue;
		}
		if (!v) {
			v = r->volume;
			room = min_of(FILL_RECORDS_MAX, FILL_BYTES / v->record_bytes);
		}
		if (v != r->volume || l->count == room)
			break;
		l->items[l->count++] = (struct load_item){.record = r, .fill = true};
	}
	if (l && l->count) {
		l->volume = v;
		os_mutex_unlock(&c->lock);
		load_run(l, false);
		os_mutex_lock(&c->lock);
		for (unsigned i = first, n = 0; n < l->count; i++)
			if (s->items[i].record == l->items[n].record)
				s->items[i].status = l->items[n++].status;
		if (l->error.code && !s->error.code)
			s->error = l->error;
		load_finish(c, l);
	}
	if (l)
		load_put(c, l);
	os_mutex_unlock(&c->lock);
}

/* With the properties as they are now. A dataset that is gone takes its records along. */
static void properties(struct spiller *s)
{
	struct pool *p = s->cache->pool;
	const struct dataset *d = NULL;
	uint64_t id = 0;
	os_scoped_lock(&p->lock);

	for (unsigned i = 0; i < s->count; i++) {
		struct spill_item *it = &s->items[i];
		struct volume *v = it->record->volume;

		if (v->dataset != id) {
			id = v->dataset;
			d = dataset_by_id(p, id);
		}
		if (!d || d->destroyed) {
			it->kind = ITEM_GONE;
			continue;
		}
		it->level = d->compression_level;
		it->compression = d->compression;
		it->stored.bp = (struct bp){.kind = BP_DATA,
			.compression = (uint8_t)d->compression,
			.checksum_kind = (uint8_t)d->checksum,
			.logical_bytes = v->record_bytes,
			.physical_bytes = v->record_bytes};
	}
}

static void packed_release(struct spiller *s, struct spill_item *it)
{
	struct cache *c = s->cache;

	if (!it->packed)
		return;
	os_mutex_lock(&c->lock);
	buffer_put(&c->buffers, it->packed, it->record->volume->record_bytes);
	os_mutex_unlock(&c->lock);
	it->packed = NULL;
}

static void compress(struct spiller *s, struct spill_item *it)
{
	struct cache *c = s->cache;
	struct bp *bp = &it->stored.bp;
	uint32_t bytes = it->record->volume->record_bytes;

	os_mutex_lock(&c->lock);
	it->packed = cache_buffer(c, bytes);
	os_mutex_unlock(&c->lock);
	size_t packed =
		it->packed ? compress_record(bp->compression, it->level, it->stored.data, bytes, it->packed, bytes) : 0;
	if (packed) {
		bp->physical_bytes = (uint32_t)packed;
		it->stored.data = it->packed;
		it->kind = packed <= BP_INLINE_MAX ? ITEM_INLINE : ITEM_STORE;
	} else {
		bp->compression = COMPRESS_OFF;
		packed_release(s, it);
	}
}

/* What becomes of one record. Zeros become a hole only where compression is on: with it off the same bytes are written.
 */
static void prepare(void *arg, unsigned index)
{
	struct spiller *s = arg;
	struct spill_item *it = &s->items[index];
	struct record *r = it->record;

	if (it->status || it->kind == ITEM_GONE)
		return;
	it->stored.data = r->spilled_bytes;
	it->stored.owner = it;
	if (!r->spilled_bytes)
		it->kind = ITEM_HOLE;
	else if (it->compression != COMPRESS_OFF && is_all_zero(r->spilled_bytes, r->volume->record_bytes))
		it->kind = ITEM_HOLE;
	else if (it->compression != COMPRESS_OFF)
		compress(s, it);
	it->stored.class = class_of(it->stored.bp.physical_bytes);
}

static void prepare_all(struct spiller *s)
{
	struct pool *p = s->cache->pool;
	bool compresses = false;

	for (unsigned i = 0; i < s->count; i++)
		compresses = compresses || s->items[i].compression != COMPRESS_OFF;
	if (compresses && p->workers && s->count > 1)
		workers_run(p->workers, s->count, prepare, s);
	else
		for (unsigned i = 0; i < s->count; i++)
			prepare(s, i);
}

/* Records that would be the last, short stripe of their class wait for company. */
static void hold_back(struct spiller *s)
{
	unsigned of_class[CLASS_COUNT] = {0}, k = s->cache->stripe_records, leaving = 0;
	bool last = s->waited_for && !s->more;

	if (k <= 1 || last)
		return;
	for (unsigned i = 0; i < s->count; i++)
		if (!s->items[i].status && s->items[i].kind == ITEM_STORE)
			of_class[s->items[i].stored.class]++;
	for (unsigned i = 0; i < CLASS_COUNT; i++) {
		leaving += of_class[i] - of_class[i] % k;
		of_class[i] %= k;
	}
	for (unsigned i = s->count; leaving && i-- > 0;) {
		struct spill_item *it = &s->items[i];

		if (!it->status && it->kind == ITEM_STORE && of_class[it->stored.class]) {
			of_class[it->stored.class]--;
			it->kind = ITEM_STAYS;
		}
	}
}

/* --- writing a batch ------------------------------------------------------------------------- */

static int put_pointer(struct pool *p, struct transaction *t, struct spill_item *it, struct error *err)
{
	uint8_t value[BP_BYTES + BP_INLINE_MAX];
	struct key key = {it->record->index, 0};
	uint64_t dataset = it->record->volume->dataset;

	if (it->kind == ITEM_HOLE)
		return transaction_put(p, t, dataset, key, NULL, 0, err);
	it->stored.bp.kind = it->kind == ITEM_INLINE ? BP_INLINE : BP_DATA;
	bp_pack(&it->stored.bp, value);
	if (it->kind == ITEM_STORE)
		return transaction_put(p, t, dataset, key, value, BP_BYTES, err);
	memcpy(value + BP_INLINE_HEAD, it->packed, it->stored.bp.physical_bytes);
	return transaction_put(p, t, dataset, key, value, BP_INLINE_HEAD + it->stored.bp.physical_bytes, err);
}

static bool leaves(const struct spill_item *it)
{
	return !it->status && it->kind != ITEM_STAYS && it->kind != ITEM_GONE;
}

static void put_all(struct spiller *s, struct transaction *t)
{
	struct pool *p = s->cache->pool;

	for (unsigned i = 0; i < s->count; i++)
		if (leaves(&s->items[i]))
			s->items[i].status = put_pointer(p, t, &s->items[i], &s->error);
}

/* One attempt, in a transaction. */
static int write_once(struct spiller *s, bool reserve)
{
	struct pool *p = s->cache->pool;
	int rc = 0;

	error_clear(&s->error);
	os_mutex_lock(&p->lock);
	struct transaction *t = transaction_enter(p);
	os_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < s->count; i++)
		s->items[i].stored.bp.birth = t->commit;
	if (s->store_count)
		rc = stripes_write(p, t, s->list, s->store_count, reserve, &s->error);
	os_mutex_lock(&p->lock);
	if (!rc)
		put_all(s, t);
	transaction_leave(p, t);
	os_mutex_unlock(&p->lock);
	return rc;
}

static bool space_may_come(struct pool *p)
{
	os_mutex_lock(&p->lock);
	bool comes = space_is_coming(p);
	os_mutex_unlock(&p->lock);
	return comes && !pool_checkpoint_now(p, NULL);
}

/* The space was promised, but short stripes take more than was reckoned: then the reserve helps, or what is dead but
 * not free yet. */
static void write_all(struct spiller *s)
{
	struct pool *p = s->cache->pool;
	bool reserve = false;

	s->store_count = 0;
	for (unsigned i = 0; i < s->count; i++)
		if (leaves(&s->items[i]) && s->items[i].kind == ITEM_STORE) {
			s->list[s->store_count++] = &s->items[i].stored;
			reserve = reserve || s->items[i].record->uses_reserve;
		}
	struct error before = s->error;
	int rc = write_once(s, reserve);
	if (rc == ERR_SPACE && !reserve)
		rc = write_once(s, true);
	for (unsigned i = 0; rc == ERR_SPACE && i < SPACE_CHECKPOINTS && space_may_come(p); i++)
		rc = write_once(s, true);
	if (before.code)
		s->error = before;
	for (unsigned i = 0; rc && i < s->count; i++)
		if (leaves(&s->items[i]))
			s->items[i].status = rc;
}

/* --- the end of a batch ---------------------------------------------------------------------- */

/* The buffer that was written, where a writer has put another in its place. */
static void old_bytes_release(struct cache *c, struct record *r)
{
	uint8_t *old = r->spilled_bytes;

	r->spilled_bytes = NULL;
	if (!old || old == r->bytes)
		return;
	if (r->copies_old)
		r->orphan = old;
	else
		buffer_put(&c->buffers, old, r->volume->record_bytes);
	c->dirty_bytes -= r->volume->record_bytes;
}

static void item_done(struct cache *c, struct spill_item *it)
{
	struct record *r = it->record;
	bool done = !it->status && it->kind != ITEM_STAYS;

	r->spilling = false;
	old_bytes_release(c, r);
	if (r->again) {
		r->again = false;
		if (done) {
			bool was = r->phase;

			r->phase = r->again_phase;
			count_less(c, r->volume, was);
		} else {
			count_less(c, r->volume, r->again_phase);
		}
		if (!r->exclusive && !r->filling)
			dirty_enqueue(c, r);
	} else if (done) {
		dirty_done(c, r);
		if (r->bytes && it->kind != ITEM_GONE)
			record_becomes_clean(c, r, false);
		else {
			r->state = RECORD_CLEAN;
			record_forget(c, r);
		}
	} else {
		dirty_enqueue(c, r);
	}
	record_unref(c, r);
}

static void failure_note(struct spiller *s, int status)
{
	struct cache *c = s->cache;

	if (!status) {
		c->retry_ns = c->retry_step_ns = 0;
		return;
	}
	if (!s->error.code)
		error_set(&s->error, status, "%s", error_sentence(status));
	c->failure = s->error;
	c->failures++;
	c->retry_step_ns = min_of(max_of(2 * c->retry_step_ns, RETRY_NS_MIN), RETRY_NS_MAX);
	c->retry_ns = os_now_ns() + c->retry_step_ns;
}

static void rate_note(struct cache *c, uint64_t began_ns, uint64_t bytes)
{
	uint64_t now = os_now_ns(), since = max_of(began_ns, c->drained_ns);

	c->drained_ns = now;
	if (now <= since)
		return;
	double rate = (double)bytes / (double)(now - since);
	c->drain_bytes_per_ns = c->drain_bytes_per_ns > 0 ? 0.8 * c->drain_bytes_per_ns + 0.2 * rate : rate;
}

static void batch_done(struct spiller *s, uint64_t began_ns)
{
	struct cache *c = s->cache;
	uint64_t bytes = 0;
	int status = 0;

	for (unsigned i = 0; i < s->count; i++)
		packed_release(s, &s->items[i]);
	os_mutex_lock(&c->lock);
	for (unsigned i = 0; i < s->count; i++) {
		struct spill_item *it = &s->items[i];

		if (leaves(it))
			bytes += it->record->volume->record_bytes;
		status = status ? status : it->status;
		item_done(c, it);
	}
	c->logical_bytes += bytes;
	failure_note(s, status);
	if (!status)
		rate_note(c, began_ns, bytes);
	cache_trim(c, 0);
	os_cond_broadcast(&c->ready);
	os_cond_broadcast(&c->room);
	os_mutex_unlock(&c->lock);
	struct pool *p = c->pool;
	os_mutex_lock(&p->lock);
	os_cond_broadcast(&p->changed);
	os_mutex_unlock(&p->lock);
}

static void spill_batch(struct spiller *s)
{
	uint64_t began_ns = os_now_ns();
	unsigned next = 0;

	error_clear(&s->error);
	qsort(s->items, s->count, sizeof *s->items, by_place);
	while (next < s->count)
		fill_some(s, &next);
	properties(s);
	prepare_all(s);
	os_mutex_lock(&s->cache->lock);
	for (unsigned i = 0; i < s->count; i++)
		s->items[i].record->volume->compresses = s->items[i].compression != COMPRESS_OFF;
	hold_back(s);
	os_mutex_unlock(&s->cache->lock);
	write_all(s);
	batch_done(s, began_ns);
}

static void spiller_run(void *arg)
{
	struct spiller *s = arg;
	struct cache *c = s->cache;

	os_mutex_lock(&c->lock);
	while (!c->stopping) {
		if (take_batch(s)) {
			os_mutex_unlock(&c->lock);
			spill_batch(s);
			os_mutex_lock(&c->lock);
		} else if (c->retry_ns) {
			os_cond_wait_until(&c->work, &c->lock, max_of(c->retry_ns, os_now_ns() + 1));
		} else {
			os_cond_wait(&c->work, &c->lock);
		}
	}
	os_mutex_unlock(&c->lock);
}

/* --- open, close, and who waits -------------------------------------------------------------- */

static unsigned stripe_records(const struct pool *p)
{
	unsigned k = p->group_count ? p->groups[0].width - p->groups[0].parity : 1;

	for (unsigned i = 1; i < p->group_count; i++)
		if (p->groups[i].width - p->groups[i].parity != k)
			return 1;
	return k;
}

int spill_open(struct cache *c, struct error *err)
{
	unsigned room = (unsigned)min_of(c->batch_bytes / RECORD_BYTES_MIN + 1, (uint64_t)BATCH_RECORDS_MAX);

	c->stripe_records = stripe_records(c->pool);
	for (unsigned i = 0; i < SPILLERS; i++) {
		struct spiller *s = calloc(1, sizeof *s);

		c->spillers[i] = s;
		if (s) {
			s->cache = c;
			s->room = room;
			s->items = calloc(room, sizeof *s->items);
			s->list = calloc(room, sizeof *s->list);
		}
		if (!s || !s->items || !s->list)
			return error_set(err, ERR_MEMORY, "out of memory for the spill threads");
		int rc = os_thread_create(&c->spill_threads[i], "pool-spill", spiller_run, s, err);
		if (rc)
			return rc;
		c->spill_thread_count++;
	}
	return 0;
}

void spill_stop(struct cache *c)
{
	for (unsigned i = 0; i < c->spill_thread_count; i++)
		os_thread_join(c->spill_threads[i]);
	c->spill_thread_count = 0;
	for (unsigned i = 0; i < SPILLERS; i++)
		if (c->spillers[i]) {
			free(c->spillers[i]->items);
			free(c->spillers[i]->list);
			free(c->spillers[i]);
			c->spillers[i] = NULL;
		}
}

static bool drained(const struct volume *v, uint64_t flips)
{
	return v->flips > flips || (v->flips == flips && !is_draining(v));
}

static int wait_drained(struct cache *c, struct volume *v, uint64_t flips, uint64_t failures, struct error *err)
{
	while (!drained(v, flips)) {
		if (c->failures != failures) {
			if (err && !err->code)
				*err = c->failure;
			return c->failure.code;
		}
		if (c->stopping)
			return error_set(err, ERR_INTERRUPTED, "the pool is being closed");
		os_cond_wait(&c->ready, &c->lock);
	}
	return 0;
}

struct drain {
	struct volume *volume;
	uint64_t flips;
};

int spill_all(struct pool *p, uint64_t dataset, struct error *err)
{
	struct cache *c = p->cache;
	scoped_free struct drain *drains = NULL;
	unsigned count = 0;
	int rc = 0;

	if (!c->spill_thread_count)
		return 0;
	os_scoped_lock(&c->lock);
	list_for_each(&c->volumes, n) count++;
	drains = calloc(max_of(count, 1u), sizeof *drains);
	if (!drains)
		return error_set(err, ERR_MEMORY, "out of memory for a spill");
	count = 0;
	list_for_each(&c->volumes, n)
	{
		struct volume *v = container_of(n, struct volume, link);

		if (dataset && v->dataset != dataset)
			continue;
		drains[count++] = (struct drain){v, v->flips + 1};
		v->flips_wanted = max_of(v->flips_wanted, v->flips + 1);
		flip(c, v);
	}
	if (!dataset)
		c->commit_is_due = false;
	c->retry_ns = 0;
	os_cond_broadcast(&c->work);
	uint64_t failures = c->failures;
	for (unsigned i = 0; !rc && i < count; i++)
		rc = wait_drained(c, drains[i].volume, drains[i].flips, failures, err);
	return rc;
}

uint64_t spill_dirty_bytes(struct pool *p)
{
	os_scoped_lock(&p->cache->lock);

	return p->cache->dirty_bytes;
}

uint64_t spill_promised_bytes(struct pool *p)
{
	if (!p->cache)
		return 0;
	os_scoped_lock(&p->cache->lock);

	return p->cache->promised_bytes;
}
