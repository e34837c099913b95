/*
 * The log: a ring at the same place of each disk.
 *
 *   ring   |  free  | 17 commit 4 | 18 commit 5 | 19 intent 6 | 20 commit 5 end | 21 ... |   free   |
 *                   ^ tail: first record that no durable checkpoint holds                ^ head
 *
 * One record is on its way at a time, so what is on the disks is a prefix: a number that no disk has is the end. A record
 * is written to `copies` disks at once, then just these are flushed. The disks are those of one group where it has enough
 * of them: who loses all of them has lost that group anyway. They stay the same while they are healthy.
 *
 * Positions are counted on without wrapping (`v`); the place in the ring is v modulo its length. A commit that is longer
 * than a record goes out as several, flushed once. While a record is on its way, intents queue up and share the next one.
 */
#include "internal.h"

#include <string.h>

struct log_item { /* a record in the ring, from its placing until a checkpoint holds it */
	uint64_t sequence, commit, v;
	uint32_t bytes;
};
struct log_intent { /* on the stack of who waits */
	struct list link;
	uint64_t commit;
	const uint8_t *entries;
	size_t bytes;
	bool is_done;
	int status;
	struct error error;
};
struct log {
	uint64_t next_sequence, head, tail; /* head, tail: v */
	struct log_item *items;             /* a ring of `room`, a power of two */
	size_t first, count, room;
	uint64_t promised; /* to the commit that is about to be appended */
	bool busy;         /* somebody writes: `record` is his */
	uint8_t *record;
	struct list intents;
	struct os_cond idle;
	bool avoided[POOL_DISKS_MAX]; /* a record could not be written there */
	unsigned chosen[POOL_COPIES_MAX], chosen_count;
	bool touched[POOL_DISKS_MAX]; /* written since the last flush */
};

#define RECORD_LEAST_BYTES (192u << 10) /* so that the sums of a run fit in one entry on the smallest ring */
#define INTENT_SHARED_BYTES (48u << 10) /* a longer intent wants the log for itself */
#define JUDGED_LEAST 3                  /* a third of the ring asks for a checkpoint */

static uint32_t record_bytes_max(const struct pool *p)
{
	uint64_t most = max_of(p->log_bytes / 8, RECORD_LEAST_BYTES);

	return (uint32_t)round_down_u64(min_of(most, LOG_RECORD_BYTES_MAX), POOL_UNIT_BYTES);
}

uint32_t log_entries_max(const struct pool *p)
{
	return record_bytes_max(p) - LOG_HEAD_BYTES;
}

int log_open(struct pool *p, struct error *err)
{
	struct log *l = calloc(1, sizeof *l);

	if (!l)
		return error_set(err, ERR_MEMORY, "no memory for the log");
	l->record = aligned_alloc(DISK_BUFFER_ALIGN, LOG_RECORD_BYTES_MAX);
	l->room = 256;
	l->items = calloc(l->room, sizeof *l->items);
	os_cond_init(&l->idle);
	list_init(&l->intents);
	p->log = l;
	if (!l->record || !l->items)
		return error_set(err, ERR_MEMORY, "no memory for the log");
	l->next_sequence = p->uber.log_sequence;
	l->head = l->tail = p->uber.log_offset;
	return 0;
}

void log_close(struct pool *p)
{
	struct log *l = p->log;

	if (!l)
		return;
	os_cond_destroy(&l->idle);
	free(l->record);
	free(l->items);
	free(l);
	p->log = NULL;
}

/* --- room --------------------------------------------------------------------------------------------------------- */

static struct log_item *item_at(const struct log *l, size_t i)
{
	return &l->items[(l->first + i) & (l->room - 1)];
}

static bool item_add(struct log *l, const struct log_item *item)
{
	if (l->count == l->room) {
		struct log_item *more = calloc(2 * l->room, sizeof *more);

		if (!more)
			return false;
		for (size_t i = 0; i < l->count; i++)
			more[i] = *item_at(l, i);
		free(l->items);
		l->items = more;
		l->first = 0;
		l->room *= 2;
	}
	*item_at(l, l->count) = *item;
	l->count++;
	return true;
}

/* Where a record of so many bytes goes. */
static uint64_t place_of(const struct pool *p, uint64_t head, uint64_t bytes)
{
	return head % p->log_bytes + bytes > p->log_bytes ? round_up_u64(head, p->log_bytes) : head;
}

uint64_t log_used_bytes(const struct pool *p)
{
	return p->log->head - p->log->tail;
}

uint64_t log_free_bytes(const struct pool *p)
{
	return p->log_bytes - log_used_bytes(p);
}

static uint64_t record_bytes(size_t entry_bytes)
{
	return round_up_u64(LOG_HEAD_BYTES + entry_bytes, POOL_UNIT_BYTES);
}

/* Records end at a whole entry, so all but the last may be short by one entry; the worst is half full ones. */
static uint64_t commit_bytes_most(const struct pool *p, size_t entry_bytes)
{
	uint64_t most = record_bytes_max(p);

	return entry_bytes + LOG_HEAD_BYTES <= most ? record_bytes(entry_bytes) : 2 * (uint64_t)entry_bytes + 2 * most;
}

void log_promise(struct pool *p, size_t entry_bytes)
{
	p->log->promised = entry_bytes ? commit_bytes_most(p, entry_bytes) : 0;
}

bool log_fits(const struct pool *p, size_t entry_bytes)
{
	uint64_t most = record_bytes_max(p), bytes = commit_bytes_most(p, entry_bytes);

	return place_of(p, p->log->head, bytes < most ? bytes : most) + bytes - p->log->tail <= p->log_bytes;
}

void log_tail(const struct pool *p, uint64_t commit, uint64_t *ret_sequence, uint64_t *ret_offset)
{
	const struct log *l = p->log;

	for (size_t i = 0; i < l->count; i++)
		if (item_at(l, i)->commit > commit) {
			*ret_sequence = item_at(l, i)->sequence;
			*ret_offset = item_at(l, i)->v % p->log_bytes;
			return;
		}
	*ret_sequence = l->next_sequence;
	*ret_offset = l->head % p->log_bytes;
}

void log_advance(struct pool *p, uint64_t sequence)
{
	struct log *l = p->log;

	while (l->count && item_at(l, 0)->sequence < sequence) {
		l->first = (l->first + 1) & (l->room - 1);
		l->count--;
	}
	l->tail = l->count ? item_at(l, 0)->v : l->head;
}

void log_jump(struct pool *p, uint64_t by)
{
	p->log->next_sequence += by;
}

/* --- copies ------------------------------------------------------------------------------------------------------- */

static bool can_hold(const struct pool *p, unsigned i)
{
	const struct pool_disk *d = &p->disks[i];

	return d->disk && d->state == PD_ONLINE && d->config->missed_from == 0;
}

static bool is_chosen(const struct log *l, unsigned disk)
{
	for (unsigned i = 0; i < l->chosen_count; i++)
		if (l->chosen[i] == disk)
			return true;
	return false;
}

static unsigned add_from(struct pool *p, const unsigned *disks, unsigned count, unsigned wanted)
{
	struct log *l = p->log;

	for (unsigned i = 0; i < count && l->chosen_count < wanted; i++)
		if (can_hold(p, disks[i]) && !l->avoided[disks[i]] && !is_chosen(l, disks[i]))
			l->chosen[l->chosen_count++] = disks[i];
	return l->chosen_count;
}

/* Keeps who is healthy; fills up from the group of the first, or from the first group that has enough, or from anywhere. */
static void choose(struct pool *p)
{
	struct log *l = p->log;
	unsigned kept = 0, wanted = min_of(p->copies, POOL_COPIES_MAX);

	for (unsigned i = 0; i < l->chosen_count; i++)
		if (can_hold(p, l->chosen[i]) && !l->avoided[l->chosen[i]])
			l->chosen[kept++] = l->chosen[i];
	l->chosen_count = kept;
	if (kept == wanted)
		return;
	for (unsigned g = 0; g < p->group_count; g++) {
		struct pool_group *group = &p->groups[g];
		unsigned fit = 0;

		for (unsigned i = 0; i < group->disk_count; i++)
			fit += can_hold(p, group->disks[i]) && !l->avoided[group->disks[i]];
		if (fit < wanted)
			continue;
		l->chosen_count = 0;
		add_from(p, group->disks, group->disk_count, wanted);
		return;
	}
	for (unsigned g = 0; g < p->group_count; g++)
		add_from(p, p->groups[g].disks, p->groups[g].disk_count, wanted);
}

struct copy {
	struct disk_request request;
	unsigned disk;
	bool failed;
};

/* Submits, kicks, reaps `count` requests of the thread's own queue. */
static int copies_run(struct pool *p, struct copy *copies, unsigned count, struct error *err)
{
	struct disk_queue *q = disk_queue_of_thread(err);
	unsigned left = count;

	if (!q)
		return err && err->code ? err->code : ERR_MEMORY;
	for (unsigned i = 0; i < count; i++)
		disk_queue_submit(q, p->disks[copies[i].disk].disk, &copies[i].request);
	disk_queue_kick(q);
	while (left) {
		struct disk_request *r = disk_queue_reap(q, UINT64_MAX);

		if (r)
			left--;
	}
	for (unsigned i = 0; i < count; i++)
		copies[i].failed = copies[i].request.status != 0;
	return 0;
}

/* Until as many disks as there can be hold it. Every disk is tried once, so it ends. */
static int record_write(struct pool *p, uint64_t offset, const void *record, uint32_t bytes, struct error *err)
{
	struct log *l = p->log;
	struct copy copies[POOL_COPIES_MAX];
	bool holds[POOL_DISKS_MAX] = {false};

	for (;;) {
		unsigned count = 0, held = 0;

		os_mutex_lock(&p->lock);
		choose(p);
		os_mutex_unlock(&p->lock);
		for (unsigned i = 0; i < l->chosen_count; i++) {
			if (holds[l->chosen[i]]) {
				held++;
				continue;
			}
			copies[count].disk = l->chosen[i];
			disk_request_init(&copies[count++].request, DISK_WRITE, p->log_offset_bytes + offset,
				(void *)record, bytes);
		}
		if (held == 0 && count == 0)
			return error_set(err, ERR_IO, "pool %s: no disk took the record of the log", p->config.name);
		if (count == 0)
			return 0;
		int rc = copies_run(p, copies, count, err);
		if (rc)
			return rc;
		for (unsigned i = 0; i < count; i++) {
			unsigned disk = copies[i].disk;

			l->touched[disk] = true;
			if (!copies[i].failed) {
				holds[disk] = true;
				p->counters.log_bytes += bytes;
				continue;
			}
			p->disks[disk].write_errors++;
			l->avoided[disk] = true;
			os_mutex_lock(&p->lock);
			pool_event(p, "disk %s: a record of the log could not be written, another disk takes it",
				disk_traits(p->disks[disk].disk)->name);
			os_mutex_unlock(&p->lock);
		}
		/* A disk that is not replaced in the log would be one whose loss is not counted. */
		os_mutex_lock(&p->lock);
		choose(p);
		bool is_full = l->chosen_count == min_of(p->copies, POOL_COPIES_MAX);
		os_mutex_unlock(&p->lock);
		for (unsigned i = 0; !is_full && i < count; i++)
			if (copies[i].failed)
				disk_fault(p, copies[i].disk, "the log cannot be written");
	}
}

static int touched_flush(struct pool *p, struct error *err)
{
	struct log *l = p->log;
	struct copy copies[POOL_DISKS_MAX];
	unsigned count = 0, good = 0;

	for (unsigned i = 0; i < p->disk_count; i++) {
		if (l->touched[i] && p->disks[i].disk && p->disks[i].state == PD_ONLINE) {
			copies[count].disk = i;
			disk_request_init(&copies[count++].request, DISK_FLUSH, 0, NULL, 0);
		}
		l->touched[i] = false;
	}
	int rc = copies_run(p, copies, count, err);
	if (rc)
		return rc;
	for (unsigned i = 0; i < count; i++) {
		if (copies[i].failed && !pool_breaks(p, 5))
			disk_fault(p, copies[i].disk, "a flush of the log failed");
		else
			good++;
	}
	return good ? 0 : error_set(err, ERR_IO, "pool %s: no disk made the log durable", p->config.name);
}

/* --- appending ---------------------------------------------------------------------------------------------------- */

static void log_lock(struct pool *p)
{
	while (p->log->busy)
		os_cond_wait(&p->log->idle, &p->lock);
	p->log->busy = true;
}

static void log_unlock(struct pool *p)
{
	p->log->busy = false;
	os_cond_broadcast(&p->log->idle);
}

/* With p->lock. Room was made sure of by whoever decides what goes into the log. */
static int record_place(struct pool *p, uint64_t commit, uint64_t bytes, struct log_item *ret, struct error *err)
{
	struct log *l = p->log;
	uint64_t v = place_of(p, l->head, bytes);

	if (v + bytes - l->tail > p->log_bytes)
		return error_set(err, ERR_SPACE, "pool %s: the log is full", p->config.name);
	*ret = (struct log_item){.sequence = l->next_sequence, .commit = commit, .v = v, .bytes = (uint32_t)bytes};
	if (!item_add(l, ret))
		return error_set(err, ERR_MEMORY, "no memory for the log");
	l->next_sequence++;
	l->head = v + bytes;
	return 0;
}

static int record_send(
	struct pool *p, const struct log_item *item, uint8_t flags, size_t entry_bytes, struct error *err)
{
	uint8_t *record = p->log->record;
	struct log_head head = {.sequence = item->sequence,
		.commit = item->commit,
		.bytes = item->bytes,
		.entry_bytes = (uint32_t)entry_bytes,
		.flags = flags};

	memset(record + LOG_HEAD_BYTES + entry_bytes, 0, item->bytes - LOG_HEAD_BYTES - entry_bytes);
	log_record_seal(&head, p->id, record);
	os_charge(OS_STAGE_COPY, item->bytes);
	os_charge(OS_STAGE_CHECKSUM, item->bytes);
	return record_write(p, item->v % p->log_bytes, record, item->bytes, err);
}

/* As many whole entries from `from` on as fit in one record. */
static size_t piece_bytes(const struct pool *p, const uint8_t *entries, size_t bytes, size_t from)
{
	size_t most = log_entries_max(p), end = from;

	if (bytes - from <= most)
		return bytes - from;
	while (end < bytes) {
		uint32_t offset = 0;
		struct log_entry e;
		struct error ignored = ERROR_INIT;
		uint32_t rest = (uint32_t)min_of(bytes - end, UINT32_MAX);

		if (!log_entry_next(entries + end, rest, &offset, &e, &ignored) || end + offset - from > most)
			break;
		end += offset;
	}
	sp_assert(end > from);
	return end - from;
}

int log_append(struct pool *p, uint64_t commit, uint8_t flags, const uint8_t *entries, size_t bytes, struct error *err)
{
	size_t from = 0;
	int rc;

	os_mutex_lock(&p->lock);
	log_lock(p);
	os_mutex_unlock(&p->lock);
	do {
		size_t piece = piece_bytes(p, entries, bytes, from);
		bool is_last = from + piece == bytes;
		struct log_item item;

		os_mutex_lock(&p->lock);
		rc = record_place(p, commit, record_bytes(piece), &item, err);
		os_mutex_unlock(&p->lock);
		if (!rc) {
			memcpy(p->log->record + LOG_HEAD_BYTES, entries + from, piece);
			rc = record_send(p, &item, is_last ? flags : flags & ~LOG_FLAG_COMMIT, piece, err);
		}
		from += piece;
	} while (!rc && from < bytes);
	if (!rc)
		rc = touched_flush(p, err);
	os_mutex_lock(&p->lock);
	log_unlock(p);
	if (log_used_bytes(p) > p->log_bytes / JUDGED_LEAST)
		pool_checkpoint_ask(p);
	os_mutex_unlock(&p->lock);
	return rc;
}

/* With p->lock; the log is ours. Takes the first waiters that share a commit and fit. */
static size_t intents_gather(struct pool *p, struct list *ret)
{
	struct log *l = p->log;
	size_t bytes = 0;
	uint64_t commit = 0;

	list_init(ret);
	while (!list_is_empty(&l->intents)) {
		struct log_intent *i = container_of(l->intents.next, struct log_intent, link);

		if (bytes && (i->commit != commit || bytes + i->bytes > log_entries_max(p)))
			break;
		commit = i->commit;
		memcpy(l->record + LOG_HEAD_BYTES + bytes, i->entries, i->bytes);
		bytes += i->bytes;
		list_remove(&i->link);
		list_push_back(ret, &i->link);
	}
	return bytes;
}

static void intents_write(struct pool *p)
{
	struct error err = ERROR_INIT;
	struct list gathered;
	struct log_item item;
	size_t bytes = intents_gather(p, &gathered);
	struct log_intent *first = container_of(gathered.next, struct log_intent, link);
	int rc = record_place(p, first->commit, record_bytes(bytes), &item, &err);

	os_mutex_unlock(&p->lock);
	if (!rc)
		rc = record_send(p, &item, LOG_FLAG_INTENT, bytes, &err);
	if (!rc)
		rc = touched_flush(p, &err);
	os_mutex_lock(&p->lock);
	p->counters.intent_bytes += bytes;
	list_for_each_safe(&gathered, node, keep)
	{
		struct log_intent *i = container_of(node, struct log_intent, link);

		list_remove(node);
		i->status = rc;
		i->error = err;
		i->is_done = true;
	}
	if (rc)
		pool_suspend(p, "%s", err.text);
	if (log_used_bytes(p) > p->log_bytes / JUDGED_LEAST)
		pool_checkpoint_ask(p);
}

/* A long intent spares its writer the way from the data to the log. Where others are at it, a commit gives their bytes
 * to all disks at once, and they share the way. */
static bool is_crowded(const struct pool *p)
{
	const struct log *l = p->log;

	return l->busy || p->closing_transaction || !list_is_empty(&l->intents);
}

int pool_commit_intent(struct pool *p, const uint8_t *entries, size_t bytes, struct error *err)
{
	struct log *l = p->log;
	struct log_intent me = {.commit = p->intent_commit, .entries = entries, .bytes = bytes};
	int rc = pool_refuses(p, err);

	if (rc)
		return rc;
	/* Only commits make intents free to go, so they may not take the room that a commit needs. */
	if ((bytes > INTENT_SHARED_BYTES && is_crowded(p)) || bytes > log_entries_max(p) ||
		log_used_bytes(p) + l->promised + record_bytes_max(p) > p->log_bytes / 2) {
		os_mutex_unlock(&p->lock);
		rc = pool_commit_now(p, err);
		os_mutex_lock(&p->lock);
		return rc;
	}
	list_push_back(&l->intents, &me.link);
	while (!me.is_done) {
		if (l->busy) {
			os_cond_wait(&l->idle, &p->lock);
			continue;
		}
		l->busy = true;
		intents_write(p);
		log_unlock(p);
	}
	return me.status ? error_set(err, me.status, "%s", me.error.text) : 0;
}

/* --- replay ------------------------------------------------------------------------------------------------------- */

#define WINDOW_BYTES (4u << 20)

struct replay {
	struct pool *p;
	uint8_t *window; /* of one disk: [window_offset, + window_bytes) of its ring */
	unsigned window_disk;
	uint64_t window_offset, window_bytes;
	uint8_t *heads;          /* one unit a disk */
	bool failed;             /* a ring could not be read somewhere */
	uint8_t *commit_entries; /* of the commit that is being gathered */
	size_t commit_bytes, commit_room;
	uint64_t gathering; /* its number, 0: none */
	uint64_t last_commit;
	struct replay_intent {
		uint64_t commit;
		uint8_t *entries;
		uint32_t bytes;
	} * intents;
	size_t intent_count, intent_room;
};

static bool window_load(struct replay *r, unsigned disk, uint64_t offset, uint64_t bytes_least)
{
	struct pool *p = r->p;
	uint64_t bytes = min_of(WINDOW_BYTES, p->log_bytes - offset);
	struct error ignored = ERROR_INIT;

	if (r->window_disk == disk && offset >= r->window_offset &&
		offset + bytes_least <= r->window_offset + r->window_bytes)
		return true;
	r->window_bytes = 0;
	if (disk_read(p->disks[disk].disk, p->log_offset_bytes + offset, r->window, bytes, &ignored)) {
		/* A bad place behind the record does not matter. */
		error_clear(&ignored);
		bytes = bytes_least;
		if (disk_read(p->disks[disk].disk, p->log_offset_bytes + offset, r->window, bytes, &ignored)) {
			r->failed = true;
			return false;
		}
	}
	r->window_disk = disk;
	r->window_offset = offset;
	r->window_bytes = bytes;
	return true;
}

/* The record with this number at this place of this disk. */
static bool record_at(struct replay *r, unsigned disk, uint64_t offset, uint64_t sequence, struct log_head *ret_head,
	const uint8_t **ret_record)
{
	struct pool *p = r->p;
	struct error ignored = ERROR_INIT;
	struct log_head head;

	if (!window_load(r, disk, offset, POOL_UNIT_BYTES) ||
		log_head_check(r->window + (offset - r->window_offset), p->id, &head, &ignored) ||
		head.sequence != sequence || head.bytes > p->log_bytes - offset || head.bytes < POOL_UNIT_BYTES)
		return false;
	if (!window_load(r, disk, offset, head.bytes))
		return false;
	const uint8_t *record = r->window + (offset - r->window_offset);
	if (log_record_check(record, head.bytes, p->id, &head, &ignored) || head.sequence != sequence)
		return false;
	*ret_head = head;
	*ret_record = record;
	return true;
}

/* Reads the unit at this place of every disk that may hold it, at once; who looks like having the record is asked for it. */
static bool record_anywhere(
	struct replay *r, uint64_t offset, uint64_t sequence, struct log_head *ret_head, const uint8_t **ret_record)
{
	struct pool *p = r->p;
	struct copy *copies = calloc(p->disk_count, sizeof *copies);
	unsigned count = 0;
	bool found = false;

	for (unsigned i = 0; copies && i < p->disk_count; i++)
		if (can_hold(p, i)) {
			copies[count].disk = i;
			disk_request_init(&copies[count].request, DISK_READ, p->log_offset_bytes + offset,
				r->heads + (size_t)i * POOL_UNIT_BYTES, POOL_UNIT_BYTES);
			count++;
		}
	if (!copies || copies_run(p, copies, count, NULL)) {
		r->failed = true;
		count = 0;
	}
	for (unsigned i = 0; i < count && !found; i++) {
		struct error ignored = ERROR_INIT;
		struct log_head head;
		unsigned disk = copies[i].disk;

		if (copies[i].failed)
			r->failed = true;
		else if (!log_head_check(r->heads + (size_t)disk * POOL_UNIT_BYTES, p->id, &head, &ignored) &&
			 head.sequence == sequence)
			found = record_at(r, disk, offset, sequence, ret_head, ret_record);
	}
	free(copies);
	return found;
}

static bool record_next(struct replay *r, uint64_t *head_v, struct log_head *ret_head, const uint8_t **ret_record)
{
	struct pool *p = r->p;
	uint64_t v = *head_v, offset = v % p->log_bytes, sequence = p->log->next_sequence;
	bool may_wrap = offset + record_bytes_max(p) > p->log_bytes;

	if (r->window_bytes && can_hold(p, r->window_disk) &&
		record_at(r, r->window_disk, offset, sequence, ret_head, ret_record))
		return true;
	if (record_anywhere(r, offset, sequence, ret_head, ret_record))
		return true;
	if (!may_wrap || !record_anywhere(r, 0, sequence, ret_head, ret_record))
		return false;
	*head_v = round_up_u64(v, p->log_bytes);
	return true;
}

static int grow(void **buffer, size_t *room, size_t needed, size_t item, struct error *err)
{
	if (needed <= *room)
		return 0;
	size_t wanted = max_of(needed, max_of(*room * 2, (size_t)64));
	void *more = realloc(*buffer, wanted * item);

	if (!more)
		return error_set(err, ERR_MEMORY, "no memory to replay the log");
	*buffer = more;
	*room = wanted;
	return 0;
}

static int intent_keep(struct replay *r, const struct log_head *head, const uint8_t *entries, struct error *err)
{
	int rc = grow((void **)&r->intents, &r->intent_room, r->intent_count + 1, sizeof *r->intents, err);
	uint8_t *copy = rc ? NULL : malloc(max_of(head->entry_bytes, 1u));

	if (rc)
		return rc;
	if (!copy)
		return error_set(err, ERR_MEMORY, "no memory to replay the log");
	memcpy(copy, entries, head->entry_bytes);
	r->intents[r->intent_count++] =
		(struct replay_intent){.commit = head->commit, .entries = copy, .bytes = head->entry_bytes};
	return 0;
}

typedef int log_apply(
	struct pool *p, uint64_t commit, uint8_t flags, const uint8_t *entries, uint32_t bytes, struct error *err);

static int record_take(
	struct replay *r, const struct log_head *head, const uint8_t *entries, log_apply *apply, struct error *err)
{
	if (head->commit <= r->p->uber.commit)
		return 0;
	if (head->flags & LOG_FLAG_INTENT)
		return intent_keep(r, head, entries, err);
	if (head->commit <= r->last_commit)
		return error_set(err, ERR_CORRUPT, "the log has records of commit %llu after commit %llu",
			(unsigned long long)head->commit, (unsigned long long)r->last_commit);
	if (r->gathering != head->commit) {
		r->gathering = head->commit;
		r->commit_bytes = 0;
	}
	int rc = grow((void **)&r->commit_entries, &r->commit_room, r->commit_bytes + head->entry_bytes, 1, err);
	if (rc)
		return rc;
	memcpy(r->commit_entries + r->commit_bytes, entries, head->entry_bytes);
	r->commit_bytes += head->entry_bytes;
	if (!(head->flags & LOG_FLAG_COMMIT))
		return 0;
	rc = apply(r->p, head->commit, head->flags, r->commit_entries, (uint32_t)r->commit_bytes, err);
	if (!rc)
		r->last_commit = head->commit;
	return rc;
}

int log_look_ahead(struct pool *p, log_apply *visit, struct error *err)
{
	struct log *l = p->log;
	struct replay r = {.p = p, .last_commit = p->commit_durable};
	uint64_t v = l->head, sequence = l->next_sequence;
	struct log_head head;
	const uint8_t *record;
	int rc = 0;

	r.window = aligned_alloc(DISK_BUFFER_ALIGN, WINDOW_BYTES);
	r.heads = aligned_alloc(DISK_BUFFER_ALIGN, (size_t)p->disk_count * POOL_UNIT_BYTES);
	if (!r.window || !r.heads)
		rc = error_set(err, ERR_MEMORY, "no memory to replay the log");
	while (!rc && record_next(&r, &v, &head, &record) && v + head.bytes - l->tail <= p->log_bytes) {
		v += head.bytes;
		l->next_sequence = head.sequence + 1;
		if (!(head.flags & LOG_FLAG_INTENT))
			rc = record_take(&r, &head, record + LOG_HEAD_BYTES, visit, err);
	}
	l->next_sequence = sequence;
	free(r.commit_entries);
	free(r.window);
	free(r.heads);
	return rc;
}

int log_replay(struct pool *p, log_apply *apply, bool *ret_found, struct error *err)
{
	struct log *l = p->log;
	struct replay r = {.p = p, .last_commit = p->uber.commit};
	struct log_head head;
	const uint8_t *record;
	uint64_t v = l->head;
	bool found = false;
	int rc = 0;

	r.window = aligned_alloc(DISK_BUFFER_ALIGN, WINDOW_BYTES);
	r.heads = aligned_alloc(DISK_BUFFER_ALIGN, (size_t)p->disk_count * POOL_UNIT_BYTES);
	if (!r.window || !r.heads)
		rc = error_set(err, ERR_MEMORY, "no memory to replay the log");
	while (!rc && record_next(&r, &v, &head, &record)) {
		struct log_item item = {.sequence = head.sequence, .commit = head.commit, .v = v, .bytes = head.bytes};

		/* Before it is applied: a fold on the way keeps what is behind it. */
		found = true;
		if (v + head.bytes - l->tail > p->log_bytes)
			break; /* once round: it cannot be ours */
		if (!item_add(l, &item)) {
			rc = error_set(err, ERR_MEMORY, "no memory to replay the log");
			break;
		}
		v += head.bytes;
		l->head = v;
		l->next_sequence = head.sequence + 1;
		rc = record_take(&r, &head, record + LOG_HEAD_BYTES, apply, err);
	}
	for (size_t i = 0; i < r.intent_count; i++) {
		if (!rc && r.intents[i].commit > r.last_commit)
			rc = apply(
				p, r.intents[i].commit, LOG_FLAG_INTENT, r.intents[i].entries, r.intents[i].bytes, err);
		free(r.intents[i].entries);
	}
	*ret_found = found || r.failed;
	free(r.intents);
	free(r.commit_entries);
	free(r.window);
	free(r.heads);
	return rc;
}
