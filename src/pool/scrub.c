/*
 * scrub: everything that is there is read and compared with what it should be.
 *
 *   1  what is already known to be bad is repaired
 *   2  nodes of the trees: every copy
 *   3  runs that a disk may have missed while it was away: verified and made good. When nothing of them is left
 *      over, the disk's `missed_from` is cleared (POOL-7: never that of a disk that is absent)
 *   4  all other runs, in the order of the disk, in long reads
 *
 * A stripe is right when each column has its sum and parity is that of the data. Descriptors say where columns are, so
 * no tree is needed for it, and records are not looked at one by one. Columns of absent disks are passed over. What is
 * wrong moves to a new place; so a second scrub finds nothing. What cannot be made whole is named by the records that
 * lie there.
 */
#include <stdio.h>
#include <string.h>

#include "stripe.h"

#define CHUNK_BYTES (32u << 20)
#define DAMAGED_MAX 16u
#define DAMAGED_BYTES 320u

struct lost_stripe {
	uint64_t run;
	uint32_t stripe;
	uint32_t columns; /* a bit each */
};

struct scrub {
	struct pool_scrub_status status;
	struct lost_stripe *lost;
	size_t lost_count, lost_room;
	unsigned damaged_count;
	char damaged[DAMAGED_MAX][DAMAGED_BYTES];
};

struct scrubbing { /* one call of pool_scrub */
	struct pool *p;
	struct scrub *s;
	pool_progress *progress;
	void *arg;
	bool repair, left_over; /* left_over: something that is wrong stayed so */
	struct error *err;
	int rc;
	uint64_t tree; /* of the walk of nodes */
	bool missed[POOL_DISKS_MAX];
};

/* --- a stripe ----------------------------------------------------------------------------------------------------- */

/* What is wrong with a stripe that was read. mask: columns of disks that are there. Returns false when it cannot be
 * made whole. */
static bool stripe_judge(struct pool *p, struct stripe_load *l, uint32_t *mask)
{
	unsigned width = l->run.k + l->run.p, absent = 0, bad = 0;
	int column = -1;

	*mask = 0;
	for (unsigned c = 0; c < width; c++) {
		absent += l->skip[c];
		if (l->skip[c] || !l->bad[c])
			continue;
		bad++;
		*mask |= 1u << c;
	}
	if (absent + bad > l->run.p)
		return absent + bad == 0;
	if (absent || bad || l->run.p == 0)
		return true;
	charge_parity(l->run.p, (uint64_t)l->run.k * class_bytes[l->run.class]);
	if (parity_verify(l->run.k, l->run.p, class_bytes[l->run.class], l->column, &column))
		return true;
	if (l->has_sums) /* data is what was written: parity is not */
		*mask = ((1u << l->run.p) - 1) << l->run.k;
	else if (column >= 0)
		*mask = 1u << column;
	else
		return false;
	for (unsigned c = 0; c < width; c++)
		l->bad[c] = l->wrong[c] = *mask >> c & 1;
	return true;
}

static bool is_expected(const struct pool *p, const struct run_shape *r, unsigned column)
{
	const struct config_disk *c = p->disks[r->column[column].disk].config;

	return r->column_state[column] || (c->missed_from && r->birth_last >= c->missed_from);
}

static void skip_absent(const struct pool *p, struct stripe_load *l)
{
	for (unsigned c = 0; c < l->run.k + l->run.p; c++) {
		const struct pool_disk *d = &p->disks[l->run.column[c].disk];

		l->skip[c] = !d->disk || d->state != PD_ONLINE;
	}
}

static void count_wrong(struct pool *p, const struct stripe_load *l, uint32_t mask)
{
	for (unsigned c = 0; c < l->run.k + l->run.p; c++)
		if (mask >> c & 1 && !is_expected(p, &l->run, c))
			disk_answered_badly(p, l->run.column[c].disk, l->wrong[c] ? WRONG_CHECKSUM : WRONG_READ,
				l->wrong[c] ? ERR_CORRUPT : l->read[c].status, l->wrong[c] ? NULL : l->read[c].why);
}

int stripe_verify(
	struct pool *p, struct run *r, uint32_t stripe, bool repair, struct stripe_verdict *ret, struct error *err)
{
	struct stripe_load load, *list = &load;
	struct run_shape shape;
	struct stripe_verdict v = {0};
	uint32_t mask;

	os_mutex_lock(&p->lock);
	run_shape_of(p, r, &shape);
	uint64_t id = r->id;
	os_mutex_unlock(&p->lock);
	int rc = stripe_load_open(&load, &shape, stripe, err);
	if (rc)
		return rc;
	skip_absent(p, &load);
	stripe_loads_read(p, &list, 1);
	v.lost = !stripe_judge(p, &load, &mask);
	v.bad_columns = (unsigned)__builtin_popcount(mask);
	count_wrong(p, &load, mask);
	stripe_load_close(&load);
	if (mask && repair) {
		unsigned lost = 0;

		os_mutex_lock(&p->lock);
		for (unsigned c = 0; c < shape.k + shape.p; c++)
			if (mask >> c & 1)
				repair_queue(p, id, c);
		os_mutex_unlock(&p->lock);
		rc = repair_run_now(p, id, false, &lost, err);
		v.repaired_columns = rc || v.lost ? 0 : v.bad_columns;
	}
	*ret = v;
	return rc;
}

/* --- a run -------------------------------------------------------------------------------------------------------- */

struct run_walk {
	struct run_shape shape;
	uint32_t stripes;
	uint64_t wanted[RUN_STRIPES_MAX / 64]; /* stripes that hold something */
	uint32_t mask;
	uint64_t bad_columns, lost;
};

static void stripe_lost(struct scrub *s, const struct stripe_load *l)
{
	if (s->lost_count == s->lost_room) {
		size_t room = max_of(s->lost_room * 2, (size_t)16);
		struct lost_stripe *larger = realloc(s->lost, room * sizeof *larger);

		if (!larger)
			return;
		s->lost = larger;
		s->lost_room = room;
	}
	struct lost_stripe *at = &s->lost[s->lost_count++];
	*at = (struct lost_stripe){.run = l->run.id, .stripe = l->stripe};
	for (unsigned c = 0; c < l->run.k; c++)
		at->columns |= (uint32_t)l->bad[c] << c;
}

static int verify_some(struct scrubbing *g, struct run_walk *w, uint32_t first, unsigned n)
{
	struct stripe_load *loads = calloc(n, sizeof *loads), **list = malloc(n * sizeof *list);
	int rc = loads && list ? 0 : error_set(g->err, ERR_MEMORY, "no memory to read a run");

	for (unsigned i = 0; i < n && !rc; i++) {
		rc = stripe_load_open(&loads[i], &w->shape, first + i, g->err);
		list[i] = &loads[i];
		if (!rc)
			skip_absent(g->p, &loads[i]);
	}
	if (!rc)
		stripe_loads_read(g->p, list, n);
	for (unsigned i = 0; i < n && !rc; i++) {
		uint32_t mask;

		if (!stripe_judge(g->p, &loads[i], &mask)) {
			struct error why = ERROR_INIT;

			stripe_load_explain(g->p, &loads[i], &why);
			pool_event(g->p, "lost: %s", why.text);
			stripe_lost(g->s, &loads[i]);
			w->lost++;
		}
		count_wrong(g->p, &loads[i], mask);
		w->mask |= mask;
		w->bad_columns += (unsigned)__builtin_popcount(mask);
	}
	for (unsigned i = 0; loads && i < n; i++)
		stripe_load_close(&loads[i]);
	free(loads);
	free(list);
	return rc;
}

/* Stripes that are in a transaction or a tree and hold something; those that are just being written have no bits. */
static struct run *walk_begin(struct pool *p, uint64_t id, struct run_walk *w)
{
	struct run *r = run_find(p, id);

	*w = (struct run_walk){0};
	if (!r || r->over_tag)
		return NULL;
	run_shape_of(p, r, &w->shape);
	w->stripes = r->stripes;
	for (uint32_t s = 0; s < r->stripes; s++)
		for (unsigned c = 0; c < r->k; c++)
			if (bit_get(r->live, (size_t)s * r->k + c))
				bit_set(w->wanted, s);
	for (unsigned c = 0; c < r->k + r->p; c++)
		if (r->column_state[c] && p->disks[r->column[c].disk].state == PD_ONLINE)
			w->mask |= 1u << c; /* left by a write */
	r->held++;
	return r;
}

static void account(struct scrubbing *g, const struct run_walk *w, bool repaired)
{
	struct pool_scrub_status *s = &g->s->status;

	s->errors += w->bad_columns;
	s->unrecoverable += w->lost;
	if (repaired)
		s->repaired += w->bad_columns;
	if (w->lost || (w->mask && !repaired))
		g->left_over = true;
}

/* A full pool has no room for columns that move until what died before is released. */
static int repair_with_room(struct pool *p, uint64_t id, struct error *err)
{
	unsigned lost = 0;
	int rc = repair_run_now(p, id, false, &lost, NULL);

	for (unsigned i = 0; i < 3 && rc == ERR_SPACE && space_is_coming(p); i++) {
		rc = pool_checkpoint_now(p, err);
		if (!rc)
			rc = repair_run_now(p, id, false, &lost, NULL);
	}
	return rc == ERR_SPACE ? repair_run_now(p, id, true, &lost, err) : rc;
}

static void run_scrub(struct scrubbing *g, uint64_t id)
{
	struct pool *p = g->p;
	struct run_walk w;
	bool repaired = false;

	os_mutex_lock(&p->lock);
	uint64_t pin = reader_enter(p);
	struct run *r = walk_begin(p, id, &w);
	os_mutex_unlock(&p->lock);
	uint64_t each = r ? (uint64_t)class_bytes[w.shape.class] * (w.shape.k + w.shape.p) : 1;
	unsigned most = (unsigned)min_of(max_of(CHUNK_BYTES / each, (uint64_t)1), (uint64_t)RUN_STRIPES_MAX);
	for (uint32_t s = 0, n; r && s < w.stripes && !g->rc; s += n) {
		n = 1;
		if (!bit_get(w.wanted, s))
			continue;
		while (s + n < w.stripes && n < most && bit_get(w.wanted, s + n))
			n++;
		g->rc = verify_some(g, &w, s, n);
	}
	os_mutex_lock(&p->lock);
	if (r)
		r->held--;
	reader_leave(p, pin);
	for (unsigned c = 0; r && c < w.shape.k + w.shape.p; c++)
		if (w.mask >> c & 1 && g->repair && !g->rc)
			repair_queue(p, id, c);
	os_mutex_unlock(&p->lock);
	if (r && w.mask && g->repair && !g->rc) {
		struct error why = ERROR_INIT;

		repaired = repair_with_room(p, id, &why) == 0;
		if (!repaired && why.code)
			pool_event(p, "run %llu is not repaired yet: %s", (unsigned long long)id, why.text);
	}
	os_mutex_lock(&p->lock);
	if (r)
		account(g, &w, repaired);
	os_mutex_unlock(&p->lock);
}

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static bool go_on(struct scrubbing *g)
{
	struct pool_scrub_status *s = &g->s->status;

	if (!g->rc && (os_interrupted() || (g->progress && !g->progress(g->arg, s->done_bytes, s->total_bytes))))
		g->rc = error_set(g->err, ERR_INTERRUPTED, "the scrub was stopped");
	if (!g->rc && g->p->suspended)
		g->rc = error_set(g->err, ERR_IO, "the pool is suspended");
	return !g->rc;
}

static bool node_scrub(void *arg, const struct bp *bp)
{
	struct scrubbing *g = arg;
	struct node_verdict v = {0};
	struct error why = ERROR_INIT;
	int rc = node_verify(g->p, bp, g->tree, bp->level, g->repair, &v, &why);

	os_mutex_lock(&g->p->lock);
	g->s->status.errors += v.bad;
	g->s->status.repaired += v.repaired;
	if (rc == ERR_LOST)
		g->s->status.unrecoverable++;
	if (rc || v.bad > v.repaired)
		g->left_over = true;
	g->s->status.done_bytes += NODE_BYTES * (uint64_t)max_of(bp->copies, 1u);
	os_mutex_unlock(&g->p->lock);
	if (rc)
		pool_event(g->p, "a tree node: %s", why.text);
	return go_on(g);
}

static void tree_scrub(struct scrubbing *g, const struct bp *root, uint64_t tree)
{
	struct error why = ERROR_INIT;

	g->tree = tree;
	if (root->kind != BP_NODE || g->rc)
		return;
	if (tree_walk_nodes(g->p, root, tree, node_scrub, g, &why) && !g->rc) {
		pool_event(g->p, "a tree: %s", why.text);
		g->left_over = true;
	}
}

struct root {
	uint64_t tree;
	struct bp bp;
};

/* The roots of one checkpoint and a pin on it. Datasets' first, so that a stop does not cost their room. */
static struct root *roots_pinned(struct pool *p, size_t *ret_count, uint64_t *ret_pin)
{
	size_t n = 0, room = 5;

	os_mutex_lock(&p->lock);
	if (p->datasets.next)
		list_for_each(&p->datasets, node) room++;
	struct root *roots = malloc(room * sizeof *roots);
	if (roots && p->datasets.next)
		list_for_each(&p->datasets, node)
		{
			const struct dataset *d = container_of(node, struct dataset, link);

			if (!d->destroyed)
				roots[n++] = (struct root){.tree = d->id, .bp = d->root};
		}
	if (roots) {
		roots[n++] = (struct root){TREE_CATALOG, p->uber.catalog};
		roots[n++] = (struct root){TREE_RUNS, p->uber.runs};
		roots[n++] = (struct root){TREE_SUMS, p->uber.sums};
		roots[n++] = (struct root){TREE_DEAD, p->uber.dead};
		roots[n++] = (struct root){TREE_METAMAP, p->uber.metamap};
	}
	*ret_pin = reader_enter(p);
	os_mutex_unlock(&p->lock);
	*ret_count = n;
	return roots;
}

static void roots_release(struct pool *p, struct root *roots, uint64_t pin)
{
	os_mutex_lock(&p->lock);
	reader_leave(p, pin);
	os_mutex_unlock(&p->lock);
	free(roots);
}

static void nodes_scrub(struct scrubbing *g)
{
	size_t n;
	uint64_t pin;
	struct root *roots = roots_pinned(g->p, &n, &pin);

	if (!roots)
		g->rc = error_set(g->err, ERR_MEMORY, "no memory for a list of trees");
	for (size_t i = 0; i < n && !g->rc; i++)
		tree_scrub(g, &roots[i].bp, roots[i].tree);
	roots_release(g->p, roots, pin);
}

/* --- what is lost, by name ---------------------------------------------------------------------------------------- */

static void path_of(const struct pool *p, const struct dataset *d, char *path, size_t room)
{
	const struct dataset *parent = d->parent ? dataset_by_id((struct pool *)p, d->parent) : NULL;
	size_t used;

	if (!parent || parent == d) {
		snprintf(path, room, "%s", p->config.name);
		return;
	}
	path_of(p, parent, path, room);
	used = strlen(path);
	snprintf(path + used, room - used, "%c%s", d->type == DATASET_SNAPSHOT ? '@' : '/', d->name);
}

struct naming {
	struct pool *p;
	struct scrub *s;
	char path[256];
};

static bool name_lost(void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct naming *n = arg;
	struct bp bp;

	if (bp_unpack_value(value, bytes, &bp, NULL) || bp.kind != BP_DATA)
		return true;
	for (size_t i = 0; i < n->s->lost_count; i++) {
		const struct lost_stripe *l = &n->s->lost[i];

		if (l->run != bp.run || l->stripe != bp.stripe || !(l->columns >> bp.column & 1))
			continue;
		os_mutex_lock(&n->p->lock);
		if (n->s->damaged_count < DAMAGED_MAX)
			snprintf(n->s->damaged[n->s->damaged_count++], DAMAGED_BYTES, "%s record %llu", n->path,
				(unsigned long long)key.a);
		os_mutex_unlock(&n->p->lock);
	}
	return n->s->damaged_count < DAMAGED_MAX;
}

static void lost_name(struct scrubbing *g)
{
	struct naming n = {.p = g->p, .s = g->s};
	size_t count;
	uint64_t pin;

	if (g->s->lost_count == 0)
		return;
	struct root *roots = roots_pinned(g->p, &count, &pin);
	for (size_t i = 0; i < count && n.s->damaged_count < DAMAGED_MAX; i++) {
		if (roots[i].tree < TREE_DATASET_FIRST || roots[i].bp.kind != BP_NODE)
			continue;
		os_mutex_lock(&g->p->lock);
		const struct dataset *d = dataset_by_id(g->p, roots[i].tree);
		if (d)
			path_of(g->p, d, n.path, sizeof n.path);
		os_mutex_unlock(&g->p->lock);
		if (d)
			(void)tree_walk(g->p, &roots[i].bp, roots[i].tree, (struct key){0, 0}, name_lost, &n, NULL);
	}
	roots_release(g->p, roots, pin);
}

/* --- a disk that is back ------------------------------------------------------------------------------------------ */

struct run_item {
	uint64_t id, unit, bytes;
	unsigned group;
	bool missed;
};

static int in_disk_order(const void *a, const void *b)
{
	const struct run_item *x = a, *y = b;

	if (x->missed != y->missed)
		return x->missed ? -1 : 1;
	if (x->unit != y->unit)
		return x->unit < y->unit ? -1 : 1;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* Those with something of a disk that is back and may lack it come first. */
static struct run_item *items_of(struct scrubbing *g, size_t *ret_count, size_t *ret_missed)
{
	struct pool *p = g->p;
	struct run **runs;
	size_t n, kept = 0;

	*ret_missed = 0;
	os_mutex_lock(&p->lock);
	for (unsigned i = 0; i < p->disk_count; i++)
		g->missed[i] = p->disks[i].state == PD_ONLINE && p->disks[i].config->missed_from;
	g->rc = runs_list(p, NULL, &runs, &n, g->err);
	struct run_item *items = malloc(max_of(n, (size_t)1) * sizeof *items);
	if (!items && !g->rc)
		g->rc = error_set(g->err, ERR_MEMORY, "no memory for a list of %zu runs", n);
	for (size_t i = 0; i < n && items; i++) {
		const struct run *r = runs[i];

		if (r->over_tag)
			continue;
		items[kept] = (struct run_item){.id = r->id,
			.unit = r->column[0].unit,
			.group = r->group,
			.bytes = (uint64_t)r->stripes * (r->k + r->p) * class_bytes[r->class]};
		for (unsigned c = 0; c < r->k + r->p; c++) {
			unsigned disk = r->column[c].disk;

			items[kept].missed |= g->missed[disk] && r->birth_last >= p->disks[disk].config->missed_from;
		}
		*ret_missed += items[kept].missed;
		g->s->status.total_bytes += items[kept++].bytes;
	}
	os_mutex_unlock(&p->lock);
	free(runs);
	if (items)
		qsort(items, kept, sizeof *items, in_disk_order);
	*ret_count = items ? kept : 0;
	return items;
}

/* All that it missed was made good and is durable: from here on it lacks nothing. */
static void missed_clear(struct scrubbing *g)
{
	struct pool *p = g->p;
	bool any = false;

	for (unsigned i = 0; i < p->disk_count; i++)
		any |= g->missed[i] || pool_breaks(p, 7);
	if (!any || g->left_over || !g->repair || g->rc)
		return;
	g->rc = pool_commit_now(p, g->err);
	if (g->rc)
		return;
	os_mutex_lock(&p->lock);
	any = false;
	for (unsigned i = 0; i < p->disk_count; i++) {
		struct config_disk *c = p->disks[i].config;
		bool here = p->disks[i].state == PD_ONLINE;

		if (!c->missed_from || !((g->missed[i] && here) || pool_breaks(p, 7)))
			continue;
		pool_assert(p, 7, here);
		c->missed_from = 0;
		p->config_dirty = any = true;
	}
	os_mutex_unlock(&p->lock);
	if (any)
		g->rc = config_write(p, g->err);
}

/* --- all of it ---------------------------------------------------------------------------------------------------- */

static int scrub_begin(struct scrubbing *g)
{
	struct pool *p = g->p;
	int rc = 0;

	os_mutex_lock(&p->lock);
	if (!p->scrub)
		p->scrub = calloc(1, sizeof *p->scrub);
	g->s = p->scrub;
	if (!g->s)
		rc = error_set(g->err, ERR_MEMORY, "no memory for a scrub");
	else if (g->s->status.running)
		rc = error_set(g->err, ERR_BUSY, "a scrub is running");
	if (!rc) {
		g->s->status = (struct pool_scrub_status){.running = true, .started_wall_ns = os_wall_ns()};
		g->s->lost_count = g->s->damaged_count = 0;
	}
	os_mutex_unlock(&p->lock);
	return rc;
}

/* Groups have disks of their own: as many runs at once. */
struct crew {
	struct scrubbing *g;
	const struct run_item *items;
	size_t next, end;
	bool stop;
};
#define CREW_MAX 8u

struct crew_member {
	struct crew *crew;
	struct os_thread *thread;
	struct scrubbing own;
	struct error err;
	bool leads; /* the caller's thread, which tells of the progress */
};

static void crew_work(void *arg)
{
	struct crew_member *m = arg;
	struct crew *c = m->crew;
	struct pool *p = c->g->p;

	for (;;) {
		if (m->leads && !go_on(&m->own))
			c->stop = true;
		os_mutex_lock(&p->lock);
		const struct run_item *item = c->stop || m->own.rc || c->next == c->end ? NULL : &c->items[c->next++];
		os_mutex_unlock(&p->lock);
		if (!item)
			return;
		run_scrub(&m->own, item->id);
		os_mutex_lock(&p->lock);
		c->g->s->status.done_bytes += item->bytes;
		os_mutex_unlock(&p->lock);
	}
}

static void crew_run(struct scrubbing *g, const struct run_item *items, size_t first, size_t end)
{
	struct crew crew = {.g = g, .items = items, .next = first, .end = end};
	unsigned count = min_of(min_of(g->p->group_count, CREW_MAX), (unsigned)max_of(end - first, (size_t)1));
	struct crew_member *members = calloc(count, sizeof *members);

	if (!members) {
		g->rc = error_set(g->err, ERR_MEMORY, "no memory for a scrub");
		return;
	}
	for (unsigned i = count; i-- > 0;) {
		struct crew_member *m = &members[i];

		*m = (struct crew_member){.crew = &crew, .own = *g, .leads = i == 0};
		m->own.err = &m->err;
		if (i == 0)
			crew_work(m);
		else if (os_thread_create(&m->thread, "pool scrub", crew_work, m, NULL))
			m->thread = NULL; /* the others do its part */
	}
	for (unsigned i = 0; i < count; i++) {
		struct crew_member *m = &members[i];

		if (m->thread)
			os_thread_join(m->thread);
		g->left_over |= m->own.left_over;
		if (m->own.rc && !g->rc)
			g->rc = error_set(g->err, m->own.rc, "%s", m->err.text);
	}
	free(members);
}

static void runs_scrub(struct scrubbing *g)
{
	size_t count, missed;
	struct run_item *items = items_of(g, &count, &missed);

	if (!g->rc)
		crew_run(g, items, 0, missed);
	if (!g->rc)
		missed_clear(g);
	if (!g->rc)
		crew_run(g, items, missed, count);
	free(items);
}

int pool_scrub(struct pool *p, pool_progress *progress, void *arg, struct pool_scrub_status *ret, struct error *err)
{
	struct scrubbing g = {.p = p, .progress = progress, .arg = arg, .repair = !p->read_only, .err = err};
	int rc = scrub_begin(&g);

	if (rc)
		return rc;
	if (g.repair)
		(void)repairs_run(p, NULL);
	nodes_scrub(&g);
	if (!g.rc)
		runs_scrub(&g);
	if (g.repair && !g.rc)
		(void)repairs_run(p, NULL); /* what was busy */
	if (!g.rc)
		lost_name(&g);
	os_mutex_lock(&p->lock);
	g.s->status.running = false;
	g.s->status.finished = !g.rc;
	g.s->status.finished_wall_ns = os_wall_ns();
	if (ret)
		*ret = g.s->status;
	os_mutex_unlock(&p->lock);
	return g.rc;
}

void scrub_status(struct pool *p, struct pool_status *ret)
{
	os_mutex_lock(&p->lock);
	if (p->scrub) {
		ret->scrub = p->scrub->status;
		ret->damaged_count = p->scrub->damaged_count;
		memcpy(ret->damaged, p->scrub->damaged, sizeof ret->damaged);
	}
	os_mutex_unlock(&p->lock);
}

void scrub_free(struct pool *p)
{
	if (p->scrub)
		free(p->scrub->lost);
	free(p->scrub);
	p->scrub = NULL;
}
