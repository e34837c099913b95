/*
 * stripe_read: records come back.
 *
 * A record lies whole in one column, so reading it is one request to one disk. What the disk says is checked against
 * the checksum of the record, which knows its place and birth. What fails is read from another copy (k = 1) or made
 * from the other columns of its stripe:
 *
 *     read ──ok── verify ──ok── done
 *      │            │
 *      └────┬───────┘ no
 *        k = 1: the next copy, until none is left
 *        k > 1: all other columns, each checked by its sum; recover; verify
 *                 when that fails: as if there were no sums, then without one more column each, while
 *                 parity can tell
 *
 * and what was wrong on a disk that is there goes to the repair queue. Nothing is repaired in place: POOL-1.
 *
 * Which copy of a mirror: the disk with the fewest requests under way. A sequential reader chooses once for 4 MiB of a
 * group, from where its turn begins and across runs, whichever disk has their first column, and
 * stays with the disk whose head is there while the others have not two requests less to do: so streams settle on disks
 * of their own, and one stream alone drives all copies in long turns. A column whose disk was away when it was written
 * is a last resort.
 */
#include <string.h>

#include "stripe.h"

#define TURN_BYTES (4u << 20)
#define NEAR_BYTES (1u << 20)
#define LOADS_BYTES_MAX (32u << 20) /* of stripes that are made whole at once */

struct attempt {
	struct record_read *read;
	struct run_shape run; /* of those that failed */
	uint32_t tried;       /* a bit a column */
	unsigned column;
	bool known;    /* the run is */
	bool doubtful; /* was not there, or not whole, when it was written: no error to be counted */
	bool done;
};

struct reading {
	struct pool *p;
	struct attempt *tries;
	struct column_read *reads;
	unsigned *index;                  /* reads[i] is of tries[index[i]] */
	unsigned planned[POOL_DISKS_MAX]; /* requests of this batch, and where the last one ends */
	uint64_t planned_end[POOL_DISKS_MAX];
	struct turn { /* of a group: one more than the disk, and from where on */
		unsigned disk;
		uint64_t first;
	} turns[POOL_GROUPS_MAX];
	bool sequential;
};

bool stripe_sums(struct pool *p, uint64_t run, uint32_t stripe, uint32_t *ret)
{
	uint8_t value[TREE_VALUE_MAX];
	uint32_t bytes = 0;

	os_mutex_lock(&p->lock);
	const struct run *r = run_find(p, run);
	if (!r) {
		os_mutex_unlock(&p->lock);
		return false;
	}
	size_t each = (size_t)(r->k + r->p) * sums_per_column(r->class);
	bool in_memory = stripe >= r->sums_first && stripe < r->sums_end;
	if (in_memory)
		memcpy(ret, r->sums + (stripe - r->sums_first) * each, each * sizeof *ret);
	struct bp root = p->uber.sums;
	unsigned per_item = sums_stripes_per_item(r->k + r->p, r->class);
	os_mutex_unlock(&p->lock);
	if (in_memory)
		return true;
	if (root.kind != BP_NODE || tree_lookup(p, &root, TREE_SUMS, (struct key){run, stripe / per_item}, value,
					    sizeof value, &bytes, NULL) != 0)
		return false;
	size_t at = stripe % per_item * each * 4;
	if (at + each * 4 > bytes)
		return false;
	for (size_t i = 0; i < each; i++)
		ret[i] = get_le32(value + at + 4 * i);
	return true;
}

/* --- where from --------------------------------------------------------------------------------------------------- */

static bool is_doubtful(const struct pool *p, const struct run_shape *r, unsigned column)
{
	const struct config_disk *c = p->disks[r->column[column].disk].config;

	return r->column_state[column] || (c && c->missed_from && r->birth_last >= c->missed_from);
}

static bool is_here(const struct pool *p, const struct run_shape *r, unsigned column)
{
	const struct pool_disk *d = &p->disks[r->column[column].disk];

	return d->disk && d->state == PD_ONLINE;
}

struct candidate {
	unsigned column, requests;
	bool doubtful, near;
};

/* Nothing doubtful while there is something better, then the least to do. */
static bool is_better(const struct candidate *a, const struct candidate *b)
{
	return a->doubtful != b->doubtful ? !a->doubtful : a->requests < b->requests;
}

static struct candidate candidate_of(const struct reading *g, const struct attempt *t, unsigned column)
{
	struct disk_address at = shape_place(&t->run, t->read->bp.stripe, column);
	uint64_t place = at.unit * POOL_UNIT_BYTES, end;
	struct disk_load load;

	disk_load(g->p->disks[at.disk].disk, &load);
	end = g->planned[at.disk] ? g->planned_end[at.disk] : load.end_bytes;
	return (struct candidate){.column = column,
		.requests = load.in_flight + g->planned[at.disk],
		.doubtful = is_doubtful(g->p, &t->run, column),
		.near = place >= end && place - end < NEAR_BYTES};
}

/* The column on the disk whose turn it is; width when the turn is over. */
static unsigned choose_turn(const struct reading *g, const struct attempt *t)
{
	unsigned width = t->run.k + t->run.p;
	const struct turn *turn = &g->turns[t->run.group];

	for (unsigned c = 0; turn->disk && c < width; c++) {
		struct disk_address at = shape_place(&t->run, t->read->bp.stripe, c);
		uint64_t place = at.unit * POOL_UNIT_BYTES;

		if (at.disk + 1u == turn->disk && place >= turn->first && place - turn->first < TURN_BYTES &&
			!(t->tried >> c & 1) && is_here(g->p, &t->run, c) && !is_doubtful(g->p, &t->run, c))
			return c;
	}
	return width;
}

/* The copy to read next; width when none is left. */
static unsigned choose_copy(struct reading *g, const struct attempt *t)
{
	unsigned width = t->run.k + t->run.p;
	struct candidate best = {.column = width}, near = {.column = width};
	unsigned column = g->sequential ? choose_turn(g, t) : width;

	if (column < width)
		return column;
	for (unsigned c = 0; c < width; c++) {
		if (t->tried >> c & 1 || !is_here(g->p, &t->run, c))
			continue;
		struct candidate one = candidate_of(g, t, c);
		if (best.column == width || is_better(&one, &best))
			best = one;
		if (one.near && (near.column == width || is_better(&one, &near)))
			near = one;
	}
	if (g->sequential && near.column < width && near.doubtful == best.doubtful && near.requests < best.requests + 2)
		best = near; /* its head is there */
	if (best.column < width) {
		struct disk_address at = shape_place(&t->run, t->read->bp.stripe, best.column);

		g->turns[t->run.group] = (struct turn){at.disk + 1u, at.unit * POOL_UNIT_BYTES};
	}
	return best.column;
}

/* With p->lock held. */
static void try_init(struct reading *g, struct attempt *t, struct record_read *read)
{
	struct run *r = run_find(g->p, read->bp.run);

	*t = (struct attempt){.read = read, .column = read->bp.column};
	read->status = 0;
	error_clear(&read->error);
	if (!r || read->bp.stripe >= r->stripes || read->bp.column >= r->k ||
		read->bp.physical_bytes > class_bytes[r->class])
		return;
	t->known = true;
	run_shape_of(g->p, r, &t->run);
	if (r->k == 1)
		t->column = choose_copy(g, t);
	if (t->column < r->k + r->p)
		t->doubtful = is_doubtful(g->p, &t->run, t->column);
}

static struct column_read read_of(struct reading *g, struct attempt *t)
{
	struct disk_address at = t->known ? shape_place(&t->run, t->read->bp.stripe, t->column) : t->read->bp.hint;

	if (at.disk < g->p->disk_count) { /* neighbours are one request */
		uint64_t place = at.unit * POOL_UNIT_BYTES;

		g->planned[at.disk] +=
			g->planned[at.disk] == 0 || place != g->planned_end[at.disk] || place % TURN_BYTES == 0;
		g->planned_end[at.disk] = place + round_up_u64(t->read->bp.physical_bytes, POOL_UNIT_BYTES);
	}
	t->tried |= 1u << t->column;
	return (struct column_read){.at = at,
		.bytes = (uint32_t)round_up_u64(t->read->bp.physical_bytes, POOL_UNIT_BYTES),
		.buffer = t->read->buffer};
}

/* --- what came ---------------------------------------------------------------------------------------------------- */

static void arrived(void *arg, unsigned index)
{
	struct reading *g = arg;
	const struct column_read *c = &g->reads[index];
	struct attempt *t = &g->tries[g->index[index]];

	t->done = c->status == 0 && bp_verify(g->p, &t->read->bp, t->read->buffer);
}

/* Errors are counted and told apart from what was to be expected: a missing disk, a column that was never written. */
static void judge(struct reading *g, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const struct column_read *c = &g->reads[i];
		struct attempt *t = &g->tries[g->index[i]];

		if (t->done || (c->status == ERR_GONE && g->p->disks[c->at.disk].state != PD_ONLINE))
			continue;
		if (c->status)
			disk_answered_badly(g->p, c->at.disk, WRONG_READ, c->status, c->why);
		else if (!t->doubtful)
			disk_answered_badly(g->p, c->at.disk, WRONG_CHECKSUM, ERR_CORRUPT, NULL);
		if (!t->known || pool_breaks(g->p, 6))
			continue;
		os_mutex_lock(&g->p->lock);
		repair_queue(g->p, t->run.id, t->column);
		os_mutex_unlock(&g->p->lock);
	}
}

static void lost(struct reading *g, struct attempt *t, const char *what)
{
	struct record_read *r = t->read;

	r->status = error_set(&r->error, ERR_LOST, "run %llu stripe %u column %u: %s", (unsigned long long)r->bp.run,
		r->bp.stripe, r->bp.column, what);
}

static void count_outcome(struct pool *p, const struct attempt *t, bool found)
{
	os_mutex_lock(&p->lock);
	if (found)
		p->counters.reconstructed++;
	else
		p->counters.unrecoverable++;
	os_mutex_unlock(&p->lock);
	if (!found)
		pool_event(p, "lost: %s", t->read->error.text);
}

/* --- other copies ------------------------------------------------------------------------------------------------- */

static void read_copies(struct reading *g, struct attempt **failed, unsigned count)
{
	for (;;) {
		unsigned n = 0;

		for (unsigned i = 0; i < count; i++) {
			struct attempt *t = failed[i];

			if (t->done || t->read->status)
				continue;
			t->column = choose_copy(g, t);
			if (t->column >= t->run.k + t->run.p) {
				lost(g, t, "no copy of it is right");
				count_outcome(g->p, t, false);
				continue;
			}
			t->doubtful = is_doubtful(g->p, &t->run, t->column);
			g->index[n] = (unsigned)(t - g->tries);
			g->reads[n++] = read_of(g, t);
		}
		if (n == 0)
			return;
		columns_read(g->p, g->reads, n, arrived, g);
		judge(g, n);
		for (unsigned i = 0; i < n; i++)
			if (g->tries[g->index[i]].done)
				count_outcome(g->p, &g->tries[g->index[i]], true);
	}
}

/* --- reconstruction ----------------------------------------------------------------------------------------------- */

static bool take(struct pool *p, struct attempt *t, const struct stripe_load *l)
{
	struct bp *bp = &t->read->bp;

	if (!bp_verify(p, bp, l->column[bp->column]))
		return false;
	memcpy(t->read->buffer, l->column[bp->column], round_up_u64(bp->physical_bytes, POOL_UNIT_BYTES));
	os_charge(OS_STAGE_COPY, bp->physical_bytes);
	return t->done = true;
}

/* Without trust in sums: one more column is left out, each in turn, as long as parity allows. */
static bool try_leaving_out(struct pool *p, struct attempt *t, struct stripe_load *l)
{
	unsigned width = l->run.k + l->run.p, bad = 0;
	void *spare = aligned_alloc(DISK_BUFFER_ALIGN, class_bytes[l->run.class]);

	for (unsigned c = 0; c < width; c++)
		bad += l->bad[c];
	for (unsigned c = 0; spare && c < width && bad < l->run.p && !t->done; c++) {
		void *kept = l->column[c];

		if (l->bad[c])
			continue;
		l->bad[c] = true;
		l->column[c] = spare;
		if (stripe_load_recover(p, l, NULL) == 0)
			take(p, t, l);
		l->column[c] = kept;
		l->bad[c] = t->done;
	}
	free(spare);
	return t->done;
}

static void reconstruct_one(struct pool *p, struct attempt *t, struct stripe_load *l)
{
	unsigned width = l->run.k + l->run.p;
	struct error err = ERROR_INIT;
	bool by_sums[POOL_WIDTH_MAX];

	memcpy(by_sums, l->bad, sizeof by_sums);
	if (stripe_load_recover(p, l, &err) == 0 && take(p, t, l))
		return;
	if (l->has_sums) {
		for (unsigned c = 0; c < width; c++)
			l->bad[c] = l->skip[c] || l->read[c].status != 0;
		if (memcmp(by_sums, l->bad, sizeof by_sums) && stripe_load_recover(p, l, NULL) == 0 && take(p, t, l))
			return;
	}
	if (try_leaving_out(p, t, l))
		return;
	memcpy(l->bad, by_sums, sizeof by_sums);
	if (err.code)
		t->read->status = error_set(&t->read->error, err.code, "%s", err.text);
	else
		t->read->status = error_set(&t->read->error, ERR_LOST,
			"run %llu stripe %u column %u: what its other columns give is not what was written",
			(unsigned long long)l->run.id, l->stripe, t->read->bp.column);
}

/* Columns that turned out bad on disks that are there are queued too. */
static void queue_bad(struct pool *p, const struct stripe_load *l)
{
	for (unsigned c = 0; c < l->run.k + l->run.p; c++) {
		if (!l->bad[c] || l->skip[c] || !is_here(p, &l->run, c))
			continue;
		if (l->read[c].status)
			disk_answered_badly(p, l->run.column[c].disk, WRONG_READ, l->read[c].status, l->read[c].why);
		else if (!is_doubtful(p, &l->run, c))
			disk_answered_badly(p, l->run.column[c].disk, WRONG_CHECKSUM, ERR_CORRUPT, NULL);
		if (pool_breaks(p, 6))
			continue;
		os_mutex_lock(&p->lock);
		repair_queue(p, l->run.id, c);
		os_mutex_unlock(&p->lock);
	}
}

static void reconstruct(struct pool *p, struct attempt **failed, unsigned count)
{
	uint64_t bytes = 0;
	struct stripe_load *loads = calloc(count, sizeof *loads), **list = malloc(count * sizeof *list);
	unsigned first = 0;

	for (unsigned at = 0; at < count; at++) {
		struct attempt *t = failed[at];
		unsigned width = t->run.k + t->run.p;
		int rc = ERR_MEMORY;

		if (loads && list)
			rc = stripe_load_open(&loads[at], &t->run, t->read->bp.stripe, &t->read->error);
		if (rc) {
			t->read->status = error_set(&t->read->error, ERR_MEMORY, "no memory to reconstruct a record");
			if (!loads || !list)
				continue;
		} else {
			loads[at].skip[t->read->bp.column] = t->tried >> t->read->bp.column & 1;
			bytes += (uint64_t)width * class_bytes[t->run.class];
		}
		if (bytes < LOADS_BYTES_MAX && at + 1 < count)
			continue;
		unsigned n = 0;
		for (unsigned i = first; i <= at; i++)
			if (loads[i].bytes)
				list[n++] = &loads[i];
		stripe_loads_read(p, list, n);
		for (unsigned i = first; i <= at; i++) {
			if (!loads[i].bytes)
				continue;
			reconstruct_one(p, failed[i], &loads[i]);
			queue_bad(p, &loads[i]);
			count_outcome(p, failed[i], failed[i]->done);
			stripe_load_close(&loads[i]);
		}
		first = at + 1;
		bytes = 0;
	}
	free(loads);
	free(list);
}

/* --- all together ------------------------------------------------------------------------------------------------- */

static void read_again(struct reading *g, unsigned count)
{
	struct attempt **copies = malloc(2 * (size_t)count * sizeof *copies), **stripes = copies + count;
	unsigned copy_count = 0, stripe_count = 0;

	for (unsigned i = 0; i < count; i++) {
		struct attempt *t = &g->tries[i];

		if (t->done || t->read->status)
			continue;
		if (!copies) {
			t->read->status = error_set(&t->read->error, ERR_MEMORY, "no memory to read a record again");
		} else if (!t->known) {
			lost(g, t, "its run is not known");
			count_outcome(g->p, t, false);
		} else if (t->run.k == 1) {
			copies[copy_count++] = t;
		} else {
			stripes[stripe_count++] = t;
		}
	}
	if (copy_count)
		read_copies(g, copies, copy_count);
	if (stripe_count)
		reconstruct(g->p, stripes, stripe_count);
	free(copies);
}

void stripes_read(struct pool *p, struct record_read *reads, unsigned count, bool sequential)
{
	struct reading g = {.p = p, .sequential = sequential};
	unsigned n = 0;
	bool all = true;

	if (count == 0)
		return;
	g.tries = malloc(count * sizeof *g.tries);
	g.reads = malloc(count * sizeof *g.reads);
	g.index = malloc(count * sizeof *g.index);
	if (!g.tries || !g.reads || !g.index) {
		for (unsigned i = 0; i < count; i++)
			reads[i].status = error_set(&reads[i].error, ERR_MEMORY, "no memory to read %u records", count);
		count = 0;
	}
	if (count)
		os_mutex_lock(&p->lock);
	for (unsigned i = 0; i < count; i++) {
		struct attempt *t = &g.tries[i];

		try_init(&g, t, &reads[i]);
		if (t->known && (t->column >= t->run.k + t->run.p || !is_here(p, &t->run, t->column)))
			continue; /* no use to ask: round two */
		if (t->doubtful && t->run.k > 1 && p->disks[t->run.column[t->column].disk].config->missed_from)
			continue;
		g.index[n] = i;
		g.reads[n++] = read_of(&g, t);
	}
	if (count)
		os_mutex_unlock(&p->lock);
	columns_read(p, g.reads, n, arrived, &g);
	judge(&g, n);
	for (unsigned i = 0; i < count; i++)
		all = all && g.tries[i].done;
	if (!all)
		read_again(&g, count);
	free(g.tries);
	free(g.reads);
	free(g.index);
}
