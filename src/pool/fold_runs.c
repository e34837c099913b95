/* Of a fold: the descriptors of runs that changed, and the sums of new stripes. */
#include "fold.h"

#include <string.h>

/* --- runs and their sums ------------------------------------------------------------------------------------------ */

struct run_batch {
	struct tree_change *runs, *sums;
	size_t run_count, run_room, sum_count, sum_room;
	uint8_t *bytes; /* the values, addressed by offset until all are there */
	size_t used, room;
};

static bool batch_value(
	struct run_batch *b, struct tree_change **changes, size_t *count, size_t *room, struct key key, size_t bytes)
{
	if (!fold_reserve((void **)changes, room, *count + 1, sizeof **changes) ||
		!fold_reserve((void **)&b->bytes, &b->room, b->used + bytes, 1))
		return false;
	(*changes)[(*count)++] = (struct tree_change){
		.key = key, .value = (const uint8_t *)(uintptr_t)b->used, .bytes = (uint32_t)bytes};
	b->used += bytes;
	return true;
}

/* With the lock. Items of the sums tree from the first that is not there yet; the front of that one may be in the tree. */
static bool batch_sums(struct run_batch *b, struct run *r, uint32_t stripes)
{
	unsigned each = (r->k + r->p) * sums_per_column(r->class),
		 per_item = sums_stripes_per_item(r->k + r->p, r->class);

	for (uint32_t s = r->sums_first; s < stripes;) {
		uint32_t item = s / per_item, first = item * per_item, end = min_of(first + per_item, stripes);
		size_t at = b->used;

		if (!batch_value(b, &b->sums, &b->sum_count, &b->sum_room, (struct key){r->id, item},
			    (size_t)(end - first) * each * 4))
			return false;
		uint8_t *out = b->bytes + at;
		memset(out, 0, (size_t)(s - first) * each * 4);
		for (uint32_t i = s; i < end; i++)
			for (unsigned j = 0; j < each; j++)
				put_le32(out + ((size_t)(i - first) * each + j) * 4,
					i < r->sums_end ? r->sums[(size_t)(i - r->sums_first) * each + j] : 0);
		s = end;
	}
	return true;
}

static bool batch_run(struct checkpoint *c, struct run_batch *b, struct run *r)
{
	struct run_format *f = NULL;
	unsigned per_item = sums_stripes_per_item(r->k + r->p, r->class);
	bool ok = true;

	if (run_is_over(r)) {
		ok = batch_value(b, &b->runs, &b->run_count, &b->run_room, (struct key){r->id, 0}, 0);
		for (uint32_t item = 0; ok && item * per_item < r->stripes_frozen; item++)
			ok = batch_value(b, &b->sums, &b->sum_count, &b->sum_room, (struct key){r->id, item}, 0);
		return ok;
	}
	f = malloc(sizeof *f);
	size_t at = b->used;
	ok = f && batch_value(b, &b->runs, &b->run_count, &b->run_room, (struct key){r->id, 0}, RUN_FORMAT_BYTES_MAX);
	if (ok) {
		run_format_of(r, r->stripes_frozen, f);
		size_t bytes = run_pack(f, b->bytes + at);
		b->runs[b->run_count - 1].bytes = (uint32_t)bytes;
		b->used = at + bytes;
	}
	free(f);
	return ok && batch_sums(b, r, r->stripes_frozen);
}

static void batch_settle(struct run_batch *b)
{
	for (size_t i = 0; i < b->run_count; i++)
		b->runs[i].value = b->bytes + (uintptr_t)b->runs[i].value;
	for (size_t i = 0; i < b->sum_count; i++)
		b->sums[i].value = b->bytes + (uintptr_t)b->sums[i].value;
}

/* The first item of a run that goes on after an import: what the tree has of it stays. */
static int sums_complete(struct checkpoint *c, struct run_batch *b, struct error *err)
{
	uint8_t had[TREE_VALUE_MAX];

	for (size_t i = 0; i < b->sum_count; i++) {
		struct tree_change *change = &b->sums[i];
		uint32_t bytes = 0, front = 0;

		if (change->bytes == 0 || (i > 0 && b->sums[i - 1].key.a == change->key.a))
			continue;
		os_mutex_lock(&c->p->lock);
		struct run *r = run_find(c->p, change->key.a);
		if (r) {
			unsigned per_item = sums_stripes_per_item(r->k + r->p, r->class);
			front = r->sums_first % per_item * (r->k + r->p) * sums_per_column(r->class) * 4;
		}
		os_mutex_unlock(&c->p->lock);
		if (front == 0 || c->uber.sums.kind == BP_HOLE)
			continue;
		int rc = tree_lookup(c->p, &c->uber.sums, TREE_SUMS, change->key, had, sizeof had, &bytes, err);
		if (rc && rc != ERR_NOT_FOUND)
			return rc;
		if (!rc)
			memcpy((uint8_t *)change->value, had, min_of(min_of(front, bytes), change->bytes));
	}
	return 0;
}

static int runs_gather(struct checkpoint *c, struct run_batch *b, struct error *err)
{
	struct run **runs = NULL;
	size_t count = 0, kept = 0;

	os_scoped_lock(&c->p->lock);
	int rc = runs_dirty(c->p, &runs, &count, err);
	if (rc)
		return rc;
	free(c->runs);
	c->runs = calloc(max_of(count, (size_t)1), sizeof *c->runs);
	bool ok = c->runs != NULL;
	for (size_t i = 0; ok && i < count; i++) {
		struct run *r = runs[i];

		/* All of it is in transactions that are not committed, or were not when this began. */
		if (r->stripes_frozen == 0)
			continue;
		ok = batch_run(c, b, r);
		c->runs[kept++] = (struct fold_run){.id = r->id, .stripes = r->stripes_frozen};
		r->dirty = r->stripes_durable > r->stripes_frozen || r->stripes > r->stripes_frozen;
	}
	c->run_count = kept;
	free(runs);
	return ok ? 0 : fold_no_memory(err);
}

int fold_runs(struct checkpoint *c, struct error *err)
{
	struct run_batch b = {0};
	struct bp runs = c->uber.runs, sums = c->uber.sums;
	int rc = runs_gather(c, &b, err);

	batch_settle(&b);
	if (!rc)
		rc = sums_complete(c, &b, err);
	if (!rc && b.sum_count)
		rc = tree_update(c->p, &sums, TREE_SUMS, b.sums, b.sum_count, c->commit, NULL, NULL, err);
	if (!rc)
		c->uber.sums = sums; /* a second try changes the same items again */
	if (!rc && b.run_count)
		rc = tree_update(c->p, &runs, TREE_RUNS, b.runs, b.run_count, c->commit, NULL, NULL, err);
	if (!rc)
		c->uber.runs = runs;
	if (rc) {
		os_scoped_lock(&c->p->lock);
		for (size_t i = 0; i < c->run_count; i++) {
			struct run *r = run_find(c->p, c->runs[i].id);
			if (r)
				r->dirty = true;
		}
		c->run_count = 0;
	}
	free(b.runs);
	free(b.sums);
	free(b.bytes);
	return rc;
}

/* With the lock, beside the new root: what is in the tree leaves memory, but for the item that will be written again. */
void fold_sums_trim(struct pool *p, const struct fold_run *done)
{
	struct run *r = run_find(p, done->id);

	if (!r)
		return;
	unsigned each = (r->k + r->p) * sums_per_column(r->class),
		 per_item = sums_stripes_per_item(r->k + r->p, r->class);
	uint32_t first = done->stripes / per_item * per_item;

	if (done->stripes == r->stripes && !r->is_open)
		first = done->stripes;
	if (first <= r->sums_first)
		return;
	if (first >= r->sums_end) {
		free(r->sums);
		r->sums = NULL;
		r->sums_first = r->sums_end = first;
		return;
	}
	memmove(r->sums, r->sums + (size_t)(first - r->sums_first) * each, (size_t)(r->sums_end - first) * each * 4);
	r->sums_first = first;
}
