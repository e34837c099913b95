/*
 * Transactions and commits.
 *
 *   open N        writers enter, write stripes, put pointers, leave
 *   closing N     nobody enters; when all have left: flush of all disks, the log, flush of the log's disks   (POOL-3)
 *   committed     its delta, until a checkpoint has folded it into the trees
 *
 * One thread commits: when somebody waits, when something has been dirty for `commit_ns`, when the log entries become many.
 * Whoever waits shares the next commit. The number that a write is promised by is `intent_commit`: it is raised before the
 * dirty records of a commit begin to leave, so whoever writes or asks while they leave waits for the next one.
 *
 * A commit that has nothing to say takes no record, only its number. One that is longer than the log can ever hold
 * becomes durable by a checkpoint instead.
 */
#include "internal.h"

#include <string.h>

struct committer {
	struct os_thread *committer, *folder;
	struct os_cond wake; /* of both */
	uint64_t wanted;     /* the commit that somebody waits for */
	uint64_t due_ns;     /* 0: nothing is dirty */
	bool stop;
	bool barrier; /* one is on its way into the log: no fold begins before it is committed */
	uint64_t folds_wanted, folds_begun, folds_ended,
		folds_failed; /* counted; begun and ended differ while one runs */
	struct error fold_error;
	unsigned fold_attempts;
	/* Import: where the columns of commits lie that are in the log and not applied yet. */
	struct hold {
		uint64_t commit;
		struct run_places places;
	} * holds;
	size_t hold_count, hold_room;
	bool holds_all;
};

#define ENTRIES_PART 4u /* of the ring: when a transaction's entries are longer, it is committed and writers wait */
#define FOLD_ATTEMPTS 3u
#define FOLD_RETRY_NS 100000000ULL

static struct transaction *transaction_make(uint64_t commit, struct error *err)
{
	struct transaction *t = calloc(1, sizeof *t);

	if (!t || delta_open(&t->delta, err)) {
		free(t);
		error_set(err, ERR_MEMORY, "no memory for a transaction");
		return NULL;
	}
	t->commit = commit;
	return t;
}

static void transaction_free(struct transaction *t)
{
	if (!t)
		return;
	delta_close(t->delta);
	free(t->entries);
	free(t->ops);
	free(t);
}

static bool transaction_is_empty(const struct transaction *t)
{
	return t->bytes == 0 && t->op_count == 0 && delta_count(t->delta) == 0;
}

struct transaction *transaction_enter(struct pool *p)
{
	p->open->inside++;
	return p->open;
}

void transaction_leave(struct pool *p, struct transaction *t)
{
	sp_assert(t->inside > 0);
	if (--t->inside == 0)
		os_cond_broadcast(&p->changed);
}

/* Room for one more entry; returns where its payload goes. */
static uint8_t *entry_add(struct pool *p, struct transaction *t, enum log_type type, uint32_t bytes, struct error *err)
{
	size_t needed = t->bytes + log_entry_bytes(bytes);

	if (log_entry_bytes(bytes) > log_entries_max(p)) {
		error_set(err, ERR_UNSUPPORTED, "an entry of %u bytes does not fit in the log of pool %s", bytes,
			p->config.name);
		return NULL;
	}
	if (needed > t->room) {
		size_t room = max_of(needed, max_of(2 * t->room, (size_t)16384));
		uint8_t *more = realloc(t->entries, room);

		if (!more) {
			error_set(err, ERR_MEMORY, "no memory for a transaction");
			return NULL;
		}
		t->entries = more;
		t->room = room;
	}
	uint8_t *payload = log_entry_put(t->entries + t->bytes, type, bytes);
	t->bytes = needed;
	/* Somebody must see to it that it does not grow without end. */
	if (t == p->open && t->bytes > p->log_bytes / ENTRIES_PART && p->committer->wanted < t->commit) {
		p->committer->wanted = t->commit;
		os_cond_broadcast(&p->committer->wake);
	}
	return payload;
}

int transaction_put(struct pool *p, struct transaction *t, uint64_t dataset, struct key key, const uint8_t *value,
	uint32_t bytes, struct error *err)
{
	bool is_catalog = dataset == TREE_CATALOG;

	if (!t)
		t = p->open;
	size_t before = t->bytes;
	uint8_t *payload = entry_add(p, t, is_catalog ? LOG_CATALOG : LOG_RECORD, (is_catalog ? 16 : 24) + bytes, err);

	if (!payload)
		return err && err->code ? err->code : ERR_MEMORY;
	if (!is_catalog) {
		put_le64(payload, dataset);
		payload += 8;
	}
	put_le64(payload, key.a);
	put_le64(payload + 8, key.b);
	if (bytes)
		memcpy(payload + 16, value, bytes);
	int rc = delta_put(t->delta, dataset, key, value, bytes, err);
	if (rc)
		t->bytes = before;
	commit_due(p);
	return rc;
}

static int op_add(struct transaction *t, enum log_type type, const uint8_t *payload, uint32_t bytes, struct error *err)
{
	struct fold_op *more = realloc(t->ops, (t->op_count + 1) * sizeof *more);

	if (!more)
		return error_set(err, ERR_MEMORY, "no memory for a transaction");
	t->ops = more;
	t->ops[t->op_count++] = (struct fold_op){.type = type,
		.dataset = get_le64(payload),
		.from = type == LOG_ROOT && bytes >= 16 ? get_le64(payload + 8) : 0};
	t->barrier = true;
	return 0;
}

static bool type_is_op(enum log_type type)
{
	return type == LOG_BARRIER || type == LOG_DESTROY || type == LOG_ROOT;
}

int transaction_append(struct pool *p, struct transaction *t, enum log_type type, const void *payload, uint32_t bytes,
	struct error *err)
{
	if (!t)
		t = p->open;
	size_t before = t->bytes;
	uint8_t *to = entry_add(p, t, type, bytes, err);

	if (!to)
		return err && err->code ? err->code : ERR_MEMORY;
	memcpy(to, payload, bytes);
	int rc = type_is_op(type) ? op_add(t, type, payload, bytes, err) : 0;
	if (rc)
		t->bytes = before;
	commit_due(p);
	return rc;
}

void commit_due(struct pool *p)
{
	struct committer *c = p->committer;

	if (!c || c->due_ns)
		return;
	c->due_ns = os_now_ns() + p->tuning.commit_ns;
	os_cond_broadcast(&c->wake);
}

int transaction_wait_room(struct pool *p, struct error *err)
{
	struct committer *c = p->committer;
	int rc;

	os_scoped_lock(&p->lock);
	while (!(rc = pool_refuses(p, err)) &&
		(p->open->bytes > p->log_bytes / ENTRIES_PART || delta_bytes(p->committed) > p->log_bytes)) {
		if (p->open->bytes > p->log_bytes / ENTRIES_PART)
			c->wanted = max_of(c->wanted, p->open->commit);
		else
			pool_checkpoint_ask(p);
		os_cond_broadcast(&c->wake);
		os_cond_wait(&p->changed, &p->lock);
	}
	return rc;
}

int transaction_settle(struct pool *p, struct error *err)
{
	int rc;

	while (!(rc = pool_refuses(p, err)) && p->intent_commit != p->open->commit)
		os_cond_wait(&p->changed, &p->lock);
	return rc;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

static const struct bp *root_of(struct pool *p, uint64_t tree)
{
	switch (tree) {
	case TREE_CATALOG:
		return &p->uber.catalog;
	case TREE_RUNS:
		return &p->uber.runs;
	case TREE_SUMS:
		return &p->uber.sums;
	case TREE_DEAD:
		return &p->uber.dead;
	case TREE_METAMAP:
		return &p->uber.metamap;
	}
	struct dataset *d = dataset_by_id(p, tree);
	return d ? &d->root : NULL;
}

static const struct delta_entry *deltas_find(struct pool *p, uint64_t tree, struct key key)
{
	const struct delta *layers[] = {p->open ? p->open->delta : NULL,
		p->closing_transaction ? p->closing_transaction->delta : NULL, p->committed, p->frozen};

	for (size_t i = 0; i < array_count(layers); i++) {
		const struct delta_entry *e = layers[i] ? delta_find(layers[i], tree, key) : NULL;

		if (e)
			return e;
	}
	return NULL;
}

int record_lookup(struct pool *p, uint64_t dataset, struct key key, uint8_t *value, uint32_t room, uint32_t *ret_bytes,
	struct error *err)
{
	struct bp root;

	os_mutex_lock(&p->lock);
	const struct delta_entry *e = deltas_find(p, dataset, key);
	if (e) {
		uint32_t bytes = e->bytes;
		int rc = 0;

		if (bytes == 0)
			rc = ERR_NOT_FOUND;
		else if (bytes > room)
			rc = error_set(
				err, ERR_CORRUPT, "a value of %u bytes where at most %u are expected", bytes, room);
		else
			memcpy(value, e->value, bytes);
		os_mutex_unlock(&p->lock);
		if (!rc)
			*ret_bytes = bytes;
		return rc;
	}
	const struct bp *from = root_of(p, dataset);
	if (from)
		root = *from;
	os_mutex_unlock(&p->lock);
	if (!from)
		return error_set(err, ERR_NOT_FOUND, "there is no dataset %llu", (unsigned long long)dataset);
	if (root.kind == BP_HOLE)
		return ERR_NOT_FOUND;
	return tree_lookup(p, &root, dataset, key, value, room, ret_bytes, err);
}

/* --- one commit --------------------------------------------------------------------------------------------------- */

/* What its log entries say of runs is durable now. */
static void runs_durable_entries(struct pool *p, const uint8_t *entries, uint32_t bytes)
{
	uint32_t offset = 0;
	struct log_entry e;
	struct error ignored = ERROR_INIT;

	while (log_entry_next(entries, bytes, &offset, &e, &ignored)) {
		struct run_format f;
		size_t head;

		if (e.type != LOG_RUN || run_unpack_head(e.payload, e.bytes, &f, &head, &ignored))
			continue;
		struct run *r = run_find(p, f.id);
		uint32_t end = get_le32(e.payload + head) + get_le32(e.payload + head + 4);

		if (r)
			r->stripes_durable = max_of(r->stripes_durable, end);
	}
}

static void runs_durable(struct pool *p, const struct transaction *t)
{
	runs_durable_entries(p, t->entries, (uint32_t)t->bytes);
}

static void commit_absorb(struct pool *p, struct transaction *t)
{
	runs_durable(p, t);
	delta_absorb(p->committed, t->delta);
	p->commit_durable = t->commit;
	p->counters.commits++;
	if (t->barrier) {
		bool is_frozen = checkpoint_freeze(p, t->ops, t->op_count);

		sp_assert(is_frozen);
		t->ops = NULL;
		t->op_count = 0;
		p->committer->folds_wanted = max_of(p->committer->folds_wanted, p->committer->folds_begun + 1);
		os_cond_broadcast(&p->committer->wake);
	}
	os_cond_broadcast(&p->changed);
}

/* With the lock. A barrier is folded exactly at its commit, so what is being folded must be through. */
static bool wait_for_fold(struct pool *p)
{
	while (p->frozen && !p->suspended && !p->abandoned)
		os_cond_wait(&p->changed, &p->lock);
	return !p->suspended && !p->abandoned;
}

/* Waits until the log has room; true when it never will. */
static bool log_never_fits(struct pool *p, size_t bytes)
{
	while (!log_fits(p, bytes) && !p->suspended && !p->abandoned) {
		if (log_used_bytes(p) == 0)
			return true;
		uint64_t before = p->committer->folds_ended;

		p->committer->folds_wanted = max_of(p->committer->folds_wanted, p->committer->folds_begun + 1);
		os_cond_broadcast(&p->committer->wake);
		while (p->committer->folds_ended == before && !p->suspended && !p->abandoned)
			os_cond_wait(&p->changed, &p->lock);
		/* Only intents of this very commit are left: a checkpoint of it frees them. */
		if (p->commit_durable == p->uber.commit && !p->frozen && !log_fits(p, bytes))
			return true;
	}
	log_promise(p, bytes);
	return false;
}

static int transaction_write(struct pool *p, struct transaction *t, struct error *err)
{
	/* POOL-3: what the log makes reachable is durable before it. */
	int rc = pool_breaks(p, 3) ? 0 : disks_flush(p, err);

	if (!rc && p->config_dirty)
		rc = config_write(p, err);
	pool_assert(p, 3, rc || t->inside == 0);
	if (!rc)
		rc = log_append(p, t->commit, LOG_FLAG_COMMIT, t->entries, t->bytes, err);
	return rc;
}

/* The log cannot hold it: what is closed joins the committed ones and a checkpoint of all that makes it durable. */
static int transaction_fold(struct pool *p, struct transaction *t, struct error *err)
{
	if (!wait_for_fold(p))
		return error_set(err, ERR_IO, "%s", p->suspended_reason);
	uint64_t before = p->commit_durable;

	runs_durable(p, t);
	delta_absorb(p->committed, t->delta);
	p->commit_durable = t->commit;
	bool is_frozen = checkpoint_freeze(p, t->ops, t->op_count);
	p->commit_durable = before;
	sp_assert(is_frozen);
	t->ops = NULL;
	t->op_count = 0;
	p->committer->folds_wanted = max_of(p->committer->folds_wanted, p->committer->folds_begun + 1);
	os_cond_broadcast(&p->committer->wake);
	if (!wait_for_fold(p))
		return error_set(err, ERR_IO, "%s", p->suspended_reason);
	p->commit_durable = t->commit;
	p->counters.commits++;
	return 0;
}

static int closing_commit(struct pool *p, struct transaction *t, struct error *err)
{
	while (t->inside)
		os_cond_wait(&p->changed, &p->lock);
	if (log_never_fits(p, t->bytes))
		return transaction_fold(p, t, err);
	if (t->barrier ? !wait_for_fold(p) : p->suspended || p->abandoned)
		return error_set(err, ERR_IO, "pool %s: stopped", p->config.name);
	p->committer->barrier = t->barrier;
	os_mutex_unlock(&p->lock);
	int rc = transaction_write(p, t, err);
	os_mutex_lock(&p->lock);
	p->committer->barrier = false;
	os_cond_broadcast(&p->committer->wake);
	log_promise(p, 0);
	if (!rc && (p->suspended || p->abandoned) && !pool_breaks(p, 5))
		rc = error_set(err, ERR_IO, "pool %s: stopped", p->config.name);
	pool_assert(p, 5, rc || !p->suspended);
	if (!rc)
		commit_absorb(p, t);
	return rc;
}

/* With the lock held at entry and exit. */
static void commit_once(struct pool *p)
{
	struct error err = ERROR_INIT;
	uint64_t commit = p->open->commit;

	p->intent_commit = commit + 1;
	os_mutex_unlock(&p->lock);
	int rc = spill_all(p, 0, &err);
	os_mutex_lock(&p->lock);
	if (rc || p->abandoned) {
		if (!p->abandoned)
			pool_suspend(p, "what was written cannot be stored: %s", err.text);
		return;
	}
	struct transaction *t = p->open;
	if (transaction_is_empty(t) && t->inside == 0) {
		t->commit = commit + 1;
		p->commit_durable = commit;
		os_cond_broadcast(&p->changed);
		return;
	}
	struct transaction *next = transaction_make(commit + 1, &err);
	if (!next) {
		pool_suspend(p, "%s", err.text);
		return;
	}
	p->closing_transaction = t;
	p->open = next;
	os_cond_broadcast(&p->changed);
	rc = closing_commit(p, t, &err);
	if (rc) {
		/* POOL-5: it stays, and with it what it holds can be read. */
		if (!p->abandoned)
			pool_suspend(p, "commit %llu failed: %s", (unsigned long long)commit, err.text);
		return;
	}
	pool_assert(p, 3, p->commit_durable == commit);
	p->closing_transaction = NULL;
	transaction_free(t);
	os_cond_broadcast(&p->changed);
}

static bool commit_is_wanted(struct pool *p)
{
	struct committer *c = p->committer;

	if (p->suspended || p->abandoned)
		return false;
	return c->wanted > p->commit_durable || (c->due_ns && os_now_ns() >= c->due_ns);
}

static void committer_run(void *arg)
{
	struct pool *p = arg;
	struct committer *c = p->committer;

	os_mutex_lock(&p->lock);
	for (;;) {
		if (commit_is_wanted(p)) {
			c->due_ns = 0;
			commit_once(p);
			continue;
		}
		if (c->stop)
			break;
		if (c->due_ns && !p->suspended && !p->abandoned)
			os_cond_wait_until(&c->wake, &p->lock, c->due_ns);
		else
			os_cond_wait(&c->wake, &p->lock);
	}
	os_mutex_unlock(&p->lock);
}

int pool_commit_now(struct pool *p, struct error *err)
{
	struct committer *c = p->committer;
	int rc = 0;

	os_scoped_lock(&p->lock);
	if (p->read_only)
		return 0;
	uint64_t commit = p->intent_commit;
	c->wanted = max_of(c->wanted, commit);
	os_cond_broadcast(&c->wake);
	while (p->commit_durable < commit && !(rc = pool_refuses(p, err)))
		os_cond_wait(&p->changed, &p->lock);
	return rc;
}

int pool_barrier_now(struct pool *p, struct error *err)
{
	int rc = pool_commit_now(p, err);

	if (rc || p->read_only)
		return rc;
	os_scoped_lock(&p->lock);
	uint64_t commit = p->commit_durable;
	while (p->frozen && p->uber.commit < commit && !(rc = pool_refuses(p, err)))
		os_cond_wait(&p->changed, &p->lock);
	return rc;
}

int pool_commit(struct pool *p, struct error *err)
{
	return pool_commit_now(p, err);
}

/* --- the thread of checkpoints ------------------------------------------------------------------------------------ */

static void folder_once(struct pool *p)
{
	struct committer *c = p->committer;
	struct error err = ERROR_INIT;

	c->folds_begun++;
	if (!p->frozen && !checkpoint_freeze(p, NULL, 0)) {
		c->folds_ended++;
		c->folds_failed = c->folds_ended;
		c->fold_error = (struct error){.code = ERR_MEMORY, .text = "no memory for a checkpoint"};
		os_cond_broadcast(&p->changed);
		return;
	}
	os_mutex_unlock(&p->lock);
	int rc = checkpoint_run(p, &err);
	os_mutex_lock(&p->lock);
	if (!rc) {
		c->fold_attempts = 0;
	} else if (!p->abandoned) {
		c->folds_failed = c->folds_ended + 1;
		c->fold_error = err;
		if (++c->fold_attempts >= FOLD_ATTEMPTS)
			pool_suspend(p, "a checkpoint failed: %s", err.text);
		else
			c->folds_wanted = max_of(c->folds_wanted, c->folds_begun + 1);
	}
	c->folds_ended++;
	os_cond_broadcast(&p->changed);
	if (rc && !p->suspended && !p->abandoned) {
		os_mutex_unlock(&p->lock);
		os_sleep_ns(FOLD_RETRY_NS);
		os_mutex_lock(&p->lock);
	}
}

static void folder_run(void *arg)
{
	struct pool *p = arg;
	struct committer *c = p->committer;

	os_mutex_lock(&p->lock);
	for (;;) {
		if (c->folds_wanted > c->folds_begun && !p->suspended && !p->abandoned && !c->barrier)
			folder_once(p);
		else if (c->stop)
			break;
		else
			os_cond_wait(&c->wake, &p->lock);
	}
	os_mutex_unlock(&p->lock);
}

/* With the lock: one that begins from now on, unless nothing would change. */
void pool_checkpoint_ask(struct pool *p)
{
	struct committer *c = p->committer;

	if (!c || !c->folder || c->folds_wanted > c->folds_begun)
		return;
	if (c->folds_begun != c->folds_ended && p->commit_durable == p->uber.commit)
		return;
	c->folds_wanted = c->folds_begun + 1;
	os_cond_broadcast(&c->wake);
}

int pool_checkpoint_now(struct pool *p, struct error *err)
{
	struct committer *c = p->committer;
	int rc;

	os_scoped_lock(&p->lock);
	if ((rc = pool_refuses(p, err)))
		return rc;
	uint64_t wanted = c->folds_begun + 1, durable = p->checkpoint_durable;
	c->folds_wanted = max_of(c->folds_wanted, wanted);
	os_cond_broadcast(&c->wake);
	while (c->folds_ended < wanted && !(rc = pool_refuses(p, err)))
		os_cond_wait(&p->changed, &p->lock);
	if (!rc && p->checkpoint_durable == durable)
		rc = error_set(err, c->fold_error.code ? c->fold_error.code : ERR_IO, "%s", c->fold_error.text);
	return rc;
}

int pool_checkpoint(struct pool *p, struct error *err)
{
	int rc = pool_commit_now(p, err);

	return rc || p->read_only ? rc : pool_checkpoint_now(p, err);
}

/* --- import ------------------------------------------------------------------------------------------------------- */

static int entry_apply(struct pool *p, struct transaction *t, const struct log_entry *e, struct error *err)
{
	uint64_t dataset = TREE_CATALOG;
	const uint8_t *at = e->payload;
	uint32_t bytes = e->bytes;
	int rc = 0;

	switch (e->type) {
	case LOG_RUN:
		return run_log_apply(p, e->payload, e->bytes, err);
	case LOG_REPAIRED:
		return run_repaired_apply(p, e->payload, e->bytes, err);
	case LOG_RECORD:
	case LOG_CATALOG:
		if (bytes < (e->type == LOG_RECORD ? 24u : 16u))
			break;
		if (e->type == LOG_RECORD) {
			dataset = get_le64(at);
			if (dataset < TREE_DATASET_FIRST)
				break;
			at += 8;
			bytes -= 8;
		}
		struct key key = {get_le64(at), get_le64(at + 8)};

		if (e->type == LOG_CATALOG)
			rc = catalog_apply(p, key, at + 16, bytes - 16, err);
		return rc ? rc : delta_put(t->delta, dataset, key, at + 16, bytes - 16, err);
	case LOG_BARRIER:
	case LOG_DESTROY:
	case LOG_ROOT:
		if (bytes < (e->type == LOG_ROOT ? 16u : 8u))
			break;
		return op_add(t, e->type, at, bytes, err);
	case LOG_INTENT:
		return volume_replay_intent(p, at, bytes, err);
	default:
		break;
	}
	return error_set(err, ERR_CORRUPT, "an entry of type %d with %u bytes in the log makes no sense", (int)e->type,
		e->bytes);
}

static int places_hold(
	struct pool *p, uint64_t commit, uint8_t flags, const uint8_t *entries, uint32_t bytes, struct error *err)
{
	struct committer *c = p->committer;
	uint32_t offset = 0;
	struct log_entry e;
	struct error torn = ERROR_INIT;

	while (log_entry_next(entries, bytes, &offset, &e, &torn)) {
		if (e.type != LOG_RUN && e.type != LOG_REPAIRED)
			continue;
		if (c->hold_count == c->hold_room) {
			size_t room = max_of(c->hold_room * 2, (size_t)64);
			struct hold *larger = realloc(c->holds, room * sizeof *larger);

			if (!larger)
				return error_set(err, ERR_MEMORY, "no memory to replay the log");
			c->holds = larger;
			c->hold_room = room;
		}
		struct hold *h = &c->holds[c->hold_count];
		h->commit = commit;
		if (run_places_hold(p, e.type == LOG_REPAIRED, e.payload, e.bytes, &h->places))
			c->hold_count++;
	}
	return 0;
}

/* A fold amid the log writes nodes: not where later commits of the log have their columns. */
static int holds_take(struct pool *p, struct error *err)
{
	if (p->committer->holds_all)
		return 0;
	p->committer->holds_all = true;
	return log_look_ahead(p, places_hold, err);
}

static void holds_give_back(struct pool *p, uint64_t commit)
{
	struct committer *c = p->committer;
	size_t kept = 0;

	for (size_t i = 0; i < c->hold_count; i++)
		if (c->holds[i].commit <= commit)
			run_places_release(p, &c->holds[i].places);
		else
			c->holds[kept++] = c->holds[i];
	c->hold_count = kept;
}

/* A whole commit, or intents behind the last one. A barrier is folded at once, as it was or would have been. */
int commit_apply(
	struct pool *p, uint64_t commit, uint8_t flags, const uint8_t *entries, uint32_t bytes, struct error *err)
{
	bool is_intent = flags & LOG_FLAG_INTENT;
	struct transaction *t = is_intent ? p->open : transaction_make(commit, err);
	uint32_t offset = 0;
	struct log_entry e;
	struct error torn = ERROR_INIT;
	int rc = t ? 0 : ERR_MEMORY;

	if (!is_intent)
		holds_give_back(p, commit);
	while (!rc && log_entry_next(entries, bytes, &offset, &e, &torn))
		rc = entry_apply(p, t, &e, err);
	if (!rc && torn.code)
		rc = error_set(err, torn.code, "%s", torn.text);
	if (is_intent) {
		p->open->commit = p->intent_commit = max_of(p->open->commit, commit + 1);
		return rc;
	}
	if (!rc && t->barrier && p->read_only)
		rc = error_set(err, ERR_READ_ONLY, "commit %llu needs a fold", (unsigned long long)commit);
	if (!rc) {
		runs_durable_entries(p, entries, bytes);
		delta_absorb(p->committed, t->delta);
		p->commit_durable = commit;
		p->open->commit = p->intent_commit = commit + 1;
		p->counters.replayed_commits++;
	}
	if (!rc && t->barrier)
		rc = holds_take(p, err);
	if (!rc && t->barrier) {
		if (checkpoint_freeze(p, t->ops, t->op_count)) {
			t->ops = NULL;
			rc = checkpoint_run(p, err);
		} else {
			rc = error_set(err, ERR_MEMORY, "no memory to fold commit %llu", (unsigned long long)commit);
		}
	}
	transaction_free(t);
	return rc;
}

int commit_into_checkpoint(struct pool *p, struct error *err)
{
	uint64_t commit = p->open->commit;
	struct transaction *t = p->open, *next = transaction_make(commit + 1, err);

	if (!next)
		return ERR_MEMORY;
	runs_durable(p, t);
	delta_absorb(p->committed, t->delta);
	p->commit_durable = commit;
	p->open = next;
	p->intent_commit = commit + 1;
	transaction_free(t);
	if (!checkpoint_freeze(p, NULL, 0))
		return error_set(err, ERR_MEMORY, "no memory for a checkpoint");
	return checkpoint_run(p, err);
}

/* --- open, close -------------------------------------------------------------------------------------------------- */

int commit_open(struct pool *p, struct error *err)
{
	int rc = delta_open(&p->committed, err);

	if (rc)
		return rc;
	p->committer = calloc(1, sizeof *p->committer);
	p->open = p->committer ? transaction_make(p->uber.commit + 1, err) : NULL;
	if (!p->open)
		return error_set(err, ERR_MEMORY, "no memory for a transaction");
	os_cond_init(&p->committer->wake);
	p->commit_durable = p->uber.commit;
	p->checkpoint_durable = p->uber.checkpoint;
	p->intent_commit = p->open->commit;
	return 0;
}

int commit_start(struct pool *p, struct error *err)
{
	struct committer *c = p->committer;
	int rc = os_thread_create(&c->committer, "pool-commit", committer_run, p, err);

	return rc ? rc : os_thread_create(&c->folder, "pool-fold", folder_run, p, err);
}

void commit_stop(struct pool *p)
{
	struct committer *c = p->committer;

	if (!c)
		return;
	os_mutex_lock(&p->lock);
	c->stop = true;
	os_cond_broadcast(&c->wake);
	os_cond_broadcast(&p->changed);
	os_mutex_unlock(&p->lock);
	if (c->committer)
		os_thread_join(c->committer);
	if (c->folder)
		os_thread_join(c->folder);
	c->committer = c->folder = NULL;
}

void commit_close(struct pool *p)
{
	if (p->committer) {
		os_cond_destroy(&p->committer->wake);
		free(p->committer->holds);
	}
	free(p->committer);
	p->committer = NULL;
	transaction_free(p->open);
	transaction_free(p->closing_transaction);
	p->open = p->closing_transaction = NULL;
	delta_close(p->committed);
	delta_close(p->frozen);
	p->committed = p->frozen = NULL;
	checkpoint_drop(p);
}
