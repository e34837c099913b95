/*
 * Writes to volumes: room, space, and one record after the other.
 *
 * Space is promised when a write is taken, not when it leaves. On a full pool discards, and writes over what no
 * snapshot holds, still go on (POOL-9): they free what they replace.
 */
#include "record.h"
#include "space.h"

#include <string.h>

#define DELAY_NS_WORTH_SLEEPING UINT64_C(200000)
#define DELAY_NS_MAX UINT64_C(100000000)
#define SPACE_RETRY_NS UINT64_C(1000000000)

/* --- room and space for writes --------------------------------------------------------------- */

struct writer {                  /* one call */
	uint64_t promised_bytes; /* of the promise, not yet given to a record */
	uint64_t delay_ns;
	bool only_over;  /* the pool is full: over what is there */
	bool only_dirty; /* not even that: over what is dirty and counted already */
	bool replay, sync_always;
};

int volume_writable(struct volume *v, struct dataset **ret, struct error *err)
{
	struct pool *p = v->cache->pool;
	int rc = pool_refuses(p, err);

	if (rc)
		return rc;
	*ret = dataset_by_id(p, v->dataset);
	if (!*ret || (*ret)->destroyed)
		return error_set(err, ERR_NOT_FOUND, "%s was destroyed", v->path);
	if (v->read_only || (*ret)->read_only)
		return error_set(
			err, ERR_READ_ONLY, "%s is %s", v->path, v->read_only ? "a snapshot" : "set to be read only");
	return 0;
}

static uint64_t available_bytes(struct pool *p, const struct dataset *d)
{
	uint64_t own = d->reservation > d->referenced ? d->reservation - d->referenced : 0;
	uint64_t bytes = space_available_for(p, d->record_bytes) + own;

	if (d->quota)
		bytes = min_of(bytes, d->quota > d->used ? d->quota - d->used : 0);
	return bytes;
}

/* With p->lock held; let go while checkpoints may set free what is dead. */
static bool wait_for_space(struct pool *p, uint64_t dataset, uint64_t bytes)
{
	struct cache *c = p->cache;
	uint64_t now = os_now_ns();

	if (c->space_tried_ns && now - c->space_tried_ns < SPACE_RETRY_NS)
		return false;
	for (unsigned i = 0; i < SPACE_CHECKPOINTS && space_is_coming(p); i++) {
		os_mutex_unlock(&p->lock);
		int rc = pool_commit_now(p, NULL);
		rc = rc ? rc : pool_checkpoint_now(p, NULL);
		os_mutex_lock(&p->lock);
		const struct dataset *d = dataset_by_id(p, dataset);
		if (rc || !d)
			break;
		if (available_bytes(p, d) >= bytes)
			return true;
	}
	c->space_tried_ns = os_now_ns() + 1;
	return false;
}

/* What writes over live bytes may take of the reserve: half of the zones that are kept free. The rest is for deletes
 * and the fold, for a column that died gives nothing back while others of its stripe live. */
static uint64_t over_room(const struct pool *p)
{
	uint64_t bytes = 0;

	for (unsigned i = 0; i < p->group_count; i++) {
		const struct pool_group *g = &p->groups[i];
		uint64_t least = UINT64_MAX;

		for (unsigned k = 0; k < g->disk_count; k++) {
			const struct pool_disk *d = &p->disks[g->disks[k]];
			unsigned kept = (zones_reserved(d) + 1) / 2;

			if (d->disk && d->state == PD_ONLINE)
				least = min_of(
					least, d->zones_free > kept ? (d->zones_free - kept) * d->zone_bytes : 0);
		}
		bytes += least == UINT64_MAX ? 0 : least * (g->width - g->parity);
	}
	return bytes;
}

static int write_begin(struct volume *v, uint64_t offset, uint64_t length, struct writer *w, struct error *err)
{
	struct cache *c = v->cache;
	struct pool *p = c->pool;
	struct dataset *d;
	uint64_t bytes = round_up_u64(offset + length, v->record_bytes) - round_down_u64(offset, v->record_bytes);
	int rc = transaction_wait_room(p, err);

	if (rc)
		return rc;
	os_scoped_lock(&p->lock);
	rc = volume_writable(v, &d, err);
	if (rc)
		return rc;
	w->sync_always = d->sync_always;
	if (available_bytes(p, d) < bytes && !wait_for_space(p, v->dataset, bytes)) {
		w->only_over = true;
		w->only_dirty = spill_promised_bytes(p) + bytes > over_room(p);
		if (w->only_dirty)
			return 0;
	}
	os_mutex_lock(&c->lock);
	c->promised_bytes += bytes;
	os_mutex_unlock(&c->lock);
	w->promised_bytes = bytes;
	return 0;
}

static int no_space(struct volume *v, uint64_t bytes, struct error *err)
{
	struct pool *p = v->cache->pool;
	char left[SIZE_TEXT_BYTES], wanted[SIZE_TEXT_BYTES];
	os_scoped_lock(&p->lock);
	const struct dataset *d = dataset_by_id(p, v->dataset);
	uint64_t bytes_left = d ? available_bytes(p, d) : 0;

	return error_set(err, ERR_SPACE, "no space left in pool %s: it has %s for %s, a write needs %s", p->config.name,
		size_format_binary(bytes_left, left), v->path, size_format_binary(bytes, wanted));
}

/* On a full pool: may this record be written? It may when it is dirty already or when its old bytes become free. */
static int may_replace(struct volume *v, uint64_t index, const struct writer *w, struct error *err)
{
	struct cache *c = v->cache;
	struct pool *p = c->pool;
	uint8_t value[TREE_VALUE_MAX];
	uint32_t bytes = 0;
	struct bp bp;

	os_mutex_lock(&c->lock);
	struct record *r = record_find(c, v, index);
	bool counted = r && r->state == RECORD_DIRTY && r->promised;
	os_mutex_unlock(&c->lock);
	if (counted)
		return 0;
	if (w->only_dirty)
		return no_space(v, v->record_bytes, err);
	os_mutex_lock(&p->lock);
	const struct dataset *d = dataset_by_id(p, v->dataset);
	uint64_t held_until = d ? d->newest_snapshot_commit : UINT64_MAX;
	uint64_t pin = reader_enter(p);
	os_mutex_unlock(&p->lock);
	int rc = record_lookup(p, v->dataset, (struct key){index, 0}, value, sizeof value, &bytes, err);
	os_mutex_lock(&p->lock);
	reader_leave(p, pin);
	os_mutex_unlock(&p->lock);
	if (rc && rc != ERR_NOT_FOUND)
		return rc;
	if (rc || !bytes || bp_unpack_value(value, bytes, &bp, NULL) || bp.kind != BP_DATA || bp.birth <= held_until)
		return no_space(v, v->record_bytes, err);
	return 0;
}

/* Dirty bytes are bounded. Beyond 60 % of the cap a writer is delayed by what its bytes take the disks, times x / (1 -
 * x), where x goes from 0 there to 1 at the cap: so at half of the way it is as fast as they are. */
static void delay_note(struct cache *c, struct writer *w, uint64_t bytes)
{
	double low = 0.6 * (double)c->dirty_cap_bytes,
	       x = ((double)c->dirty_bytes - low) / (0.4 * (double)c->dirty_cap_bytes);

	if (w->replay || x <= 0 || c->drain_bytes_per_ns <= 0)
		return;
	x = min_of(x, 0.95);
	w->delay_ns += (uint64_t)((double)bytes / c->drain_bytes_per_ns * x / (1 - x));
}

/* True when there is room; else waits once, or fails when nothing leaves. */
static int dirty_room(struct cache *c, const struct writer *w, uint64_t bytes, bool *ret_again, struct error *err)
{
	*ret_again = false;
	if (w->replay || c->dirty_bytes + bytes <= c->dirty_cap_bytes)
		return 0;
	if (c->stopping)
		return error_set(err, ERR_INTERRUPTED, "the pool is being closed");
	if (c->retry_ns) {
		return error_set(err, c->failure.code, "%s", c->failure.text);
	}
	os_cond_broadcast(&c->work);
	os_cond_wait(&c->room, &c->lock);
	*ret_again = true;
	return 0;
}

/* --- one record is written ------------------------------------------------------------------- */

struct grant { /* a record that is ours to write */
	struct record *record;
	const uint8_t *old; /* copied first */
	bool zero;          /* zeroed first */
};

void record_make_dirty(struct cache *c, struct record *r, uint32_t charge)
{
	struct volume *v = r->volume;

	r->state = RECORD_DIRTY;
	r->phase = v->phase;
	v->dirty_count[v->phase]++;
	r->charged = charge;
	c->dirty_bytes += charge;
}

static void make_promised(struct cache *c, struct record *r, struct writer *w)
{
	uint64_t bytes = r->volume->record_bytes;

	if (r->promised)
		return;
	r->promised = true;
	r->uses_reserve = w->only_over;
	if (w->promised_bytes >= bytes)
		w->promised_bytes -= bytes;
	else
		c->promised_bytes += bytes;
}

/* Sectors behind the end of the volume are zeros, not missing. */
static void valid_tail(struct record *r)
{
	uint32_t sectors = r->volume->record_bytes / SECTOR_BYTES;

	for (uint32_t s = (record_limit(r->volume, r->index) + SECTOR_BYTES - 1) / SECTOR_BYTES; s < sectors; s++)
		r->valid[s / 64] |= UINT64_C(1) << s % 64;
}

static bool edge_is_missing(const struct record *r, uint32_t at, uint32_t limit)
{
	return at % SECTOR_BYTES && at != limit && (!r || (r->valid && !record_has(r, at, at + 1)));
}

static int grant_new(
	struct cache *c, struct volume *v, const struct piece *at, bool whole, struct writer *w, struct grant *g)
{
	uint8_t *bytes = cache_buffer(c, v->record_bytes);
	uint64_t *map = whole ? NULL : valid_map_get(c);
	struct record *r = bytes && (whole || map) ? record_add(c, v, at->index) : NULL;

	if (!r) {
		if (bytes)
			buffer_put(&c->buffers, bytes, v->record_bytes);
		if (map)
			valid_map_put(c, map);
		return ERR_MEMORY;
	}
	r->bytes = bytes;
	r->valid = map;
	if (map)
		valid_tail(r);
	record_make_dirty(c, r, v->record_bytes);
	make_promised(c, r, w);
	*g = (struct grant){.record = r, .zero = record_limit(v, at->index) < v->record_bytes};
	return 0;
}

/* A record that is here: its bytes may be needed (not when all of them are overwritten), may be on their way to the
 * disks (then they stay where they are and the new ones get a buffer), or may be a hole to be. */
static int grant_present(struct cache *c, struct record *r, bool whole, struct writer *w, struct grant *g)
{
	struct volume *v = r->volume;
	bool moves = r->state == RECORD_DIRTY && (!r->bytes || (r->spilling && r->bytes == r->spilled_bytes));
	uint8_t *bytes = moves ? cache_buffer(c, v->record_bytes) : NULL;

	if (moves && !bytes)
		return ERR_MEMORY;
	*g = (struct grant){.record = r};
	r->refs++;
	if (r->state == RECORD_CLEAN) {
		record_unqueue(c, r);
		record_make_dirty(c, r, v->record_bytes);
	} else if (!r->spilling) {
		record_unqueue(c, r);
	} else if (!r->again) {
		r->again = true;
		r->again_phase = v->phase;
		v->dirty_count[v->phase]++;
	}
	make_promised(c, r, w);
	if (!moves)
		return 0;
	bool limit = record_limit(v, r->index) < v->record_bytes;
	g->zero = r->bytes ? whole && limit : !whole || limit;
	if (r->bytes) { /* the old buffer stays charged until it is written */
		g->old = whole ? NULL : r->bytes;
		r->copies_old = !whole;
		c->dirty_bytes += v->record_bytes;
	} else {
		c->dirty_bytes += v->record_bytes - r->charged;
		r->charged = v->record_bytes;
	}
	r->bytes = bytes;
	return 0;
}

void record_wait(struct cache *c, struct record *r)
{
	r->refs++;
	r->writers_waiting++;
	os_cond_wait(&c->ready, &c->lock);
	r->writers_waiting--;
	record_unref(c, r);
}

/* A record of which nothing is known but that it will be written: dirty without a valid sector, so that it can be
 * filled. */
static int plant_partial(struct cache *c, struct volume *v, const struct piece *at, struct writer *w)
{
	struct grant g;
	int rc = grant_new(c, v, at, false, w, &g);

	if (rc)
		return rc;
	memset(g.record->bytes, 0, v->record_bytes);
	dirty_enqueue(c, g.record);
	record_unref(c, g.record);
	return 0;
}

/* With the lock, which it may let go. The record is ours alone afterwards. */
static int write_enter(
	struct cache *c, struct volume *v, const struct piece *at, struct writer *w, struct grant *g, struct error *err)
{
	uint32_t limit = record_limit(v, at->index);
	bool whole = at->from == 0 && at->to == limit, again;

	for (;;) {
		struct record *r = record_find(c, v, at->index);
		int rc = 0;

		if (v->forgetting && !c->stopping) {
			os_cond_wait(&c->ready, &c->lock);
			continue;
		}
		if (r && (r->state == RECORD_READING || r->filling || r->exclusive || r->readers)) {
			record_wait(c, r);
			continue;
		}
		/* Room for the record, and for its old bytes if these are on their way. */
		rc = dirty_room(c, w, r && r->state == RECORD_DIRTY && !r->spilling && r->bytes ? 0 : v->record_bytes,
			&again, err);
		if (rc)
			return rc;
		if (again)
			continue;
		if (!whole && (edge_is_missing(r, at->from, limit) || edge_is_missing(r, at->to, limit))) {
			if (r && r->spilling) {
				record_wait(c, r);
				continue;
			}
			rc = r ? 0 : plant_partial(c, v, at, w);
			os_mutex_unlock(&c->lock);
			rc = rc ? rc : cache_fill_one(c, v, at->index, err);
			os_mutex_lock(&c->lock);
			if (rc)
				return error_set(err, rc, "%s record %llu cannot be completed", v->path,
					(unsigned long long)at->index);
			continue;
		}
		rc = r ? grant_present(c, r, whole, w, g) : grant_new(c, v, at, whole, w, g);
		if (rc)
			return error_set(err, rc, "out of memory for a record of %s", v->path);
		g->record->exclusive = true;
		delay_note(c, w, at->to - at->from);
		return 0;
	}
}

static void copy_in(struct volume *v, const struct piece *at, const struct grant *g, const uint8_t *from)
{
	uint8_t *to = g->record->bytes;

	if (g->old)
		memcpy(to, g->old, v->record_bytes);
	else if (g->zero) {
		memset(to, 0, at->from);
		memset(to + at->to, 0, v->record_bytes - at->to);
	}
	if (from)
		memcpy(to + at->from, from, at->to - at->from);
	else
		memset(to + at->from, 0, at->to - at->from);
	os_charge(OS_STAGE_COPY, at->to - at->from + (g->old ? v->record_bytes : 0));
}

static void mark_valid(struct cache *c, struct record *r, const struct piece *at)
{
	uint32_t sectors = r->volume->record_bytes / SECTOR_BYTES;

	if (!r->valid)
		return;
	for (uint32_t s = at->from / SECTOR_BYTES; s < (at->to + SECTOR_BYTES - 1) / SECTOR_BYTES; s++)
		r->valid[s / 64] |= UINT64_C(1) << s % 64;
	for (uint32_t s = 0; s < sectors; s++)
		if (!(r->valid[s / 64] >> s % 64 & 1))
			return;
	valid_map_put(c, r->valid);
	r->valid = NULL;
}

static void pending_note(struct volume *v, const struct piece *at)
{
	uint64_t offset = (at->index << v->record_shift) + at->from;
	uint32_t bytes = at->to - at->from;
	struct pending_range *last = v->pending_count ? &v->pending[v->pending_count - 1] : NULL;

	if (v->pending_all)
		return;
	v->pending_bytes += bytes;
	if (last && last->offset_bytes + last->bytes == offset && v->pending_bytes <= INTENT_BYTES_MAX)
		last->bytes += bytes;
	else if (v->pending_count < PENDING_RANGES && v->pending_bytes <= INTENT_BYTES_MAX)
		v->pending[v->pending_count++] = (struct pending_range){offset, bytes};
	else
		v->pending_all = true;
}

static void write_leave(struct cache *c, struct grant *g, const struct piece *at)
{
	struct record *r = g->record;

	r->copies_old = false;
	if (r->orphan) {
		buffer_put(&c->buffers, r->orphan, r->volume->record_bytes);
		r->orphan = NULL;
	}
	mark_valid(c, r, at);
	r->exclusive = false;
	if (!r->spilling)
		dirty_enqueue(c, r);
	pending_note(r->volume, at);
	if (r->refs > 1)
		os_cond_broadcast(&c->ready);
	record_unref(c, r);
}

static void delay_pay(struct writer *w)
{
	if (w->delay_ns < DELAY_NS_WORTH_SLEEPING)
		return;
	os_sleep_ns(min_of(w->delay_ns, DELAY_NS_MAX));
	w->delay_ns = 0;
}

/* `from` NULL: zeros. */
static int write_records(
	struct volume *v, uint64_t offset, const uint8_t *from, uint64_t length, struct writer *w, struct error *err)
{
	struct cache *c = v->cache;
	int rc = 0;

	for (uint64_t done = 0; done < length;) {
		struct piece at = piece_at(v, offset + done, length - done);
		struct grant g;

		if (w->only_over)
			rc = may_replace(v, at.index, w, err);
		if (rc)
			return rc;
		os_mutex_lock(&c->lock);
		rc = write_enter(c, v, &at, w, &g, err);
		os_mutex_unlock(&c->lock);
		if (rc)
			return rc;
		copy_in(v, &at, &g, from ? from + done : NULL);
		os_mutex_lock(&c->lock);
		write_leave(c, &g, &at);
		os_mutex_unlock(&c->lock);
		delay_pay(w);
		done += at.to - at.from;
	}
	return 0;
}

void volume_commit_due(struct volume *v)
{
	struct cache *c = v->cache;
	struct pool *p = c->pool;

	os_mutex_lock(&c->lock);
	bool first = !c->commit_is_due && c->dirty_bytes > 0;
	c->commit_is_due = c->commit_is_due || first;
	os_mutex_unlock(&c->lock);
	if (!first)
		return;
	os_mutex_lock(&p->lock);
	commit_due(p);
	os_mutex_unlock(&p->lock);
}

static void write_end(struct volume *v, struct writer *w)
{
	struct cache *c = v->cache;

	os_mutex_lock(&c->lock);
	c->promised_bytes -= w->promised_bytes;
	os_mutex_unlock(&c->lock);
	w->promised_bytes = 0;
	volume_commit_due(v);
}

int volume_put(
	struct volume *v, uint64_t offset, const void *buffer, uint64_t length, bool *ret_sync, struct error *err)
{
	struct writer w = {0};
	int rc = write_begin(v, offset, length, &w, err);

	if (!rc)
		rc = write_records(v, offset, buffer, length, &w, err);
	write_end(v, &w);
	*ret_sync = w.sync_always;
	return rc;
}

int volume_write(struct volume *v, uint64_t offset, const void *buffer, uint64_t length, struct error *err)
{
	bool sync_always = false;
	int rc = volume_range_check(v, offset, length, "a write", err);

	os_charge(OS_STAGE_CALL, 0);
	if (rc || !length)
		return rc;
	rc = volume_put(v, offset, buffer, length, &sync_always, err);
	return !rc && sync_always ? volume_flush(v, err) : rc;
}

int volume_replay_intent(struct pool *p, const uint8_t *payload, uint32_t bytes, struct error *err)
{
	struct writer w = {.replay = true};

	if (bytes < 24)
		return error_set(err, ERR_CORRUPT, "an intent of %u bytes in the log; its head alone has 24", bytes);
	uint64_t index = get_le64(payload + 8), offset = get_le64(payload + 16);
	os_mutex_lock(&p->lock);
	struct dataset *d = dataset_by_id(p, get_le64(payload));
	struct volume *v = d && !d->destroyed ? volume_of_dataset(p, d, err) : NULL;
	os_mutex_unlock(&p->lock);
	if (!v)
		return err ? err->code : 0;
	if (index >= v->record_count || offset > v->record_bytes ||
		bytes - 24 > record_limit(v, index) - min_of(offset, (uint64_t)record_limit(v, index)))
		return error_set(err, ERR_CORRUPT,
			"an intent in the log for %s: %u bytes at %llu of record %llu are outside", v->path, bytes - 24,
			(unsigned long long)offset, (unsigned long long)index);
	int rc = write_records(v, (index << v->record_shift) + offset, payload + 24, bytes - 24, &w, err);
	write_end(v, &w);
	return rc;
}
