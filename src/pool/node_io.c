/*
 * Tree nodes on their way to and from the disks. A node has copies on distinct disks (POOL_COPIES_MAX at most) and its
 * checksum in the pointer to it, so any one good copy is enough and a bad one is always told.
 *
 * Nodes that were allotted in a row lie in a row on each disk. Both ways a batch is turned into requests as long as its
 * neighbours allow, for all copies and disks, and all are in flight together:
 *
 *     nodes       a b c d | e f            disk 0   [a b c d]   [e f]
 *     copy 0      disk 0    disk 2         disk 1   [a b c d]
 *     copy 1      disk 1    disk 0         disk 2   [e f]
 *
 * A copy that is found bad while another is good is written anew in its place. That is safe while whoever reads holds
 * the place (POOL-2), and it is not done over a node that is younger than the pointer.
 */
#include <string.h>

#include "node.h"

#define LLU(v) ((unsigned long long)(v))
#define NODE_UNITS (NODE_BYTES / POOL_UNIT_BYTES)

/* --- what a node must be ------------------------------------------------------------------------------------------ */

static void seal_of(
	const struct pool *p, const struct bp *bp, uint64_t tree, const uint8_t *bytes, uint8_t out[CHECKSUM_BYTES])
{
	struct seal_place place = {
		.pool_id = p->id,
		.place = min_of(tree, (uint64_t)TREE_DATASET_FIRST), /* clones share nodes */
		.where = bp->level,
		.birth = bp->birth,
	};

	seal_make(bp->checksum_kind, &place, bytes, NODE_BYTES, out);
}

void node_seal(const struct pool *p, struct bp *bp, uint64_t tree, const uint8_t *bytes)
{
	seal_of(p, bp, tree, bytes, bp->checksum);
}

int node_sound(
	const struct pool *p, const struct bp *bp, uint64_t tree, int level, const uint8_t *bytes, struct error *err)
{
	uint8_t seal[CHECKSUM_BYTES];
	struct node_head h;
	uint64_t writer = get_le64(bytes + 8);

	seal_of(p, bp, tree, bytes, seal);
	if (memcmp(seal, bp->checksum, CHECKSUM_BYTES) != 0)
		return error_set(err, ERR_CORRUPT, "the checksum does not match");
	if (tree >= TREE_DATASET_FIRST && writer >= TREE_DATASET_FIRST)
		tree = writer;
	return node_check(bytes, tree, level, &h, err);
}

int node_pointer_check(const struct pool *p, const struct bp *bp, int level, struct error *err)
{
	if (bp->kind != BP_NODE || bp->copies == 0 || bp->copies > POOL_COPIES_MAX || bp->level > TREE_LEVEL_MAX)
		return error_set(err, ERR_CORRUPT, "a pointer to a tree node is of kind %u, level %u, with %u copies",
			bp->kind, bp->level, bp->copies);
	if (level >= 0 && bp->level != level)
		return error_set(err, ERR_CORRUPT, "a pointer to a tree node says level %u where level %d belongs",
			bp->level, level);
	for (unsigned c = 0; c < bp->copies; c++)
		if (bp->copy[c].disk >= p->disk_count)
			return error_set(err, ERR_CORRUPT, "a pointer to a tree node names disk %u of %u",
				bp->copy[c].disk, p->disk_count);
	return 0;
}

/* --- requests of neighbours --------------------------------------------------------------------------------------- */

struct piece {         /* one copy of one node */
	unsigned item; /* of the caller's array */
	uint8_t copy, disk;
	bool alone, done;
	uint64_t unit;
	void *bytes;
};

struct batch {
	struct piece *pieces;
	struct iovec *iov;
	struct disk_request *requests;
	unsigned count, request_count;
};

static int batch_open(struct batch *b, unsigned room, struct error *err)
{
	*b = (struct batch){
		.pieces = calloc(room, sizeof *b->pieces),
		.iov = calloc(room, sizeof *b->iov),
		.requests = calloc(room, sizeof *b->requests),
	};
	if (!b->pieces || !b->iov || !b->requests)
		return error_set(err, ERR_MEMORY, "no memory for %u requests of tree nodes", room);
	return 0;
}

static void batch_close(struct batch *b)
{
	free(b->pieces);
	free(b->iov);
	free(b->requests);
}

static int piece_compare(const void *x, const void *y)
{
	const struct piece *a = x, *b = y;

	if (a->disk != b->disk)
		return a->disk < b->disk ? -1 : 1;
	return a->unit < b->unit ? -1 : a->unit > b->unit;
}

static bool piece_follows(const struct piece *a, const struct piece *b)
{
	return !a->alone && !b->alone && a->disk == b->disk && a->unit + NODE_UNITS == b->unit;
}

/* All of the batch at once; each piece then says whether it is done. */
static int batch_run(struct pool *p, struct batch *b, enum disk_op op, struct error *err)
{
	struct disk_queue *q = disk_queue_of_thread(err);

	if (!q)
		return ERR_MEMORY;
	qsort(b->pieces, b->count, sizeof *b->pieces, piece_compare);
	b->request_count = 0;
	for (unsigned i = 0, n; i < b->count; i += n) {
		struct disk_request *r = &b->requests[b->request_count++];

		for (n = 0; i + n < b->count && n < NODE_BATCH_MAX; n++) {
			if (n > 0 && !piece_follows(&b->pieces[i + n - 1], &b->pieces[i + n]))
				break;
			b->iov[i + n] = (struct iovec){.iov_base = b->pieces[i + n].bytes, .iov_len = NODE_BYTES};
		}
		disk_request_init_iov(r, op, b->pieces[i].unit * POOL_UNIT_BYTES, &b->iov[i], n);
		r->owner = &b->pieces[i];
		disk_queue_submit(q, p->disks[b->pieces[i].disk].disk, r);
	}
	for (struct disk_request *r; (r = disk_queue_reap(q, UINT64_MAX));)
		for (unsigned i = 0; r->status == 0 && i < r->iov_count; i++)
			((struct piece *)r->owner)[i].done = true;
	return 0;
}

static bool disk_holds(const struct pool_disk *d, uint64_t unit)
{
	return d->disk && unit <= disk_traits(d->disk)->size_bytes / POOL_UNIT_BYTES &&
	       disk_traits(d->disk)->size_bytes / POOL_UNIT_BYTES - unit >= NODE_UNITS;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* 0: as it should be; 1: may lack something; 2: faulted, as a last resort; 3: not at all. */
static unsigned disk_tier(const struct pool_disk *d, uint64_t unit)
{
	if (!disk_holds(d, unit) || d->state == PD_OFFLINE || d->state == PD_REMOVED || d->state == PD_MISSING)
		return 3;
	if (d->state == PD_FAULTED)
		return 2;
	return d->config && d->config->missed_from ? 1 : 0;
}

/* The best copy that was not tried yet, by what its disk has to do; -1: none is left. With p->lock held. */
static int choose_copy(struct pool *p, const struct node_read *r, const unsigned *planned)
{
	unsigned best_tier = 3;
	uint64_t best_load = 0, best_latency = 0;
	int best = -1;

	for (unsigned c = 0; c < r->bp->copies; c++) {
		struct pool_disk *d = &p->disks[r->bp->copy[c].disk];
		unsigned tier = disk_tier(d, r->bp->copy[c].unit);
		struct disk_load load;
		uint64_t busy;

		if (tier == 3 || r->tried >> c & 1)
			continue;
		disk_load(d->disk, &load);
		busy = load.in_flight + planned[d->index];
		if (best < 0 || tier < best_tier ||
			(tier == best_tier &&
				(busy < best_load || (busy == best_load && load.latency_ns < best_latency)))) {
			best = (int)c;
			best_tier = tier;
			best_load = busy;
			best_latency = load.latency_ns;
		}
	}
	return best;
}

static bool copy_follows(const struct pool *p, const struct node_read *before, unsigned copy, const struct node_read *r)
{
	return copy < r->bp->copies && !(r->tried >> copy & 1) && !r->alone &&
	       before->bp->copy[copy].disk == r->bp->copy[copy].disk &&
	       before->bp->copy[copy].unit + NODE_UNITS == r->bp->copy[copy].unit &&
	       disk_holds(&p->disks[r->bp->copy[copy].disk], r->bp->copy[copy].unit);
}

/* Chooses a copy for each read that is still open. Nodes in a row stay on one disk. */
static void plan_reads(struct pool *p, struct node_read *reads, unsigned count, struct batch *b)
{
	unsigned planned[POOL_DISKS_MAX] = {0}, row = 0;
	int copy = -1;

	os_scoped_lock(&p->lock);
	b->count = 0;
	for (unsigned i = 0; i < count; i++) {
		struct node_read *r = &reads[i];
		bool follows = i > 0 && copy >= 0 && row < NODE_BATCH_MAX && copy_follows(p, r - 1, (unsigned)copy, r);

		if (r->status == 0) {
			copy = -1;
			continue;
		}
		if (!follows) {
			copy = choose_copy(p, r, planned);
			row = 0;
		}
		row++;
		if (copy < 0)
			continue;
		planned[r->bp->copy[copy].disk] += !follows;
		b->pieces[b->count++] = (struct piece){.item = i,
			.copy = (uint8_t)copy,
			.disk = r->bp->copy[copy].disk,
			.alone = r->alone,
			.unit = r->bp->copy[copy].unit,
			.bytes = r->bytes};
	}
}

static void count_error(struct pool *p, unsigned disk, bool checksum, uint64_t unit, uint64_t tree, const char *why)
{
	os_mutex_lock(&p->lock);
	if (checksum)
		p->disks[disk].checksum_errors++;
	else
		p->disks[disk].read_errors++;
	os_mutex_unlock(&p->lock);
	pool_event(p, "disk %u, byte %llu: a node of tree %llu cannot be %s: %s", disk, LLU(unit * POOL_UNIT_BYTES),
		LLU(tree), checksum ? "trusted" : "read", why);
}

/* What a piece brought: good, or its copy is out of the question. */
static void judge(struct pool *p, struct node_read *r, const struct piece *piece, bool merged)
{
	struct error why = ERROR_INIT;

	if (!piece->done && merged && !r->alone) {
		r->alone = true; /* perhaps a neighbour was unreadable */
		return;
	}
	r->tried |= (uint8_t)(1u << piece->copy);
	if (!piece->done) {
		r->bad |= (uint8_t)(1u << piece->copy);
		count_error(p, piece->disk, false, piece->unit, r->tree, "the disk gave an error");
		return;
	}
	if (node_sound(p, r->bp, r->tree, r->level, r->bytes, &why) == 0) {
		r->status = 0;
		return;
	}
	if (memcmp(r->bytes, "NODE", 4) == 0 && get_le64(r->bytes + 16) > r->bp->birth)
		r->reused |= (uint8_t)(1u << piece->copy);
	r->bad |= (uint8_t)(1u << piece->copy);
	count_error(p, piece->disk, true, piece->unit, r->tree, why.text);
}

/* Writes the copies in `bad` anew. Returns how many. */
static unsigned rewrite_copies(struct pool *p, const struct bp *bp, const uint8_t *bytes, unsigned bad)
{
	unsigned written = 0;

	for (unsigned c = 0; c < bp->copies; c++) {
		struct pool_disk *d = &p->disks[bp->copy[c].disk];
		bool usable;

		os_mutex_lock(&p->lock);
		usable = !p->read_only && !p->suspended && d->state == PD_ONLINE && disk_holds(d, bp->copy[c].unit);
		os_mutex_unlock(&p->lock);
		if (!(bad >> c & 1) || !usable ||
			disk_write(d->disk, bp->copy[c].unit * POOL_UNIT_BYTES, bytes, NODE_BYTES, NULL) != 0)
			continue;
		os_mutex_lock(&p->lock);
		d->unflushed = true;
		p->counters.repaired++;
		os_mutex_unlock(&p->lock);
		pool_event(p, "disk %u, byte %llu: a node was written anew from another copy", d->index,
			LLU(bp->copy[c].unit * POOL_UNIT_BYTES));
		written++;
	}
	return written;
}

static int read_failed(struct pool *p, const struct node_read *r, struct error *err)
{
	struct text copies = {0};
	int rc;

	for (unsigned c = 0; c < r->bp->copies; c++)
		text_addf(&copies, "%sdisk %u byte %llu %s", c ? ", " : "", r->bp->copy[c].disk,
			LLU(r->bp->copy[c].unit * POOL_UNIT_BYTES), r->bad >> c & 1 ? "is bad" : "is not there");
	rc = error_set(err, ERR_LOST, "no copy of a node of tree %llu, level %u, is left: %s", LLU(r->tree),
		r->bp->level, copies.bytes ? copies.bytes : "out of memory");
	text_release(&copies);
	return rc;
}

int node_read_many(struct pool *p, struct node_read *reads, unsigned count, struct error *err)
{
	struct batch b;
	int rc = batch_open(&b, count, err), first;

	for (unsigned i = 0; i < count; i++) {
		reads[i].status = rc ? rc : ERR_LOST;
		reads[i].tried = reads[i].bad = reads[i].reused = 0;
		reads[i].alone = false;
	}
	while (rc == 0) {
		unsigned at = 0;

		plan_reads(p, reads, count, &b);
		if (b.count == 0)
			break;
		rc = batch_run(p, &b, DISK_READ, err);
		for (unsigned i = 0; rc == 0 && i < b.request_count; i++)
			for (unsigned n = 0, merged = b.requests[i].iov_count; n < merged; n++, at++)
				judge(p, &reads[b.pieces[at].item], &b.pieces[at], merged > 1);
	}
	batch_close(&b);
	first = rc;
	for (unsigned i = 0; i < count && rc == 0; i++) {
		struct node_read *r = &reads[i];

		if (r->status == 0)
			rewrite_copies(p, r->bp, r->bytes, r->bad & ~r->reused);
		else
			r->status = read_failed(p, r, first ? NULL : err);
		if (first == 0)
			first = r->status;
	}
	node_count_read(p, count);
	return first;
}

/* --- every copy --------------------------------------------------------------------------------------------------- */

int node_verify(struct pool *p, const struct bp *bp, uint64_t tree, int level, bool repair, struct node_verdict *ret,
	struct error *err)
{
	struct node_verdict v = {0};
	uint8_t *good = NULL, *bytes = NULL;
	int rc = node_pointer_check(p, bp, level, err);

	if (rc)
		return rc;
	if (posix_memalign((void **)&good, DISK_BUFFER_ALIGN, NODE_BYTES) != 0)
		good = NULL;
	if (posix_memalign((void **)&bytes, DISK_BUFFER_ALIGN, NODE_BYTES) != 0)
		bytes = NULL;
	if (!good || !bytes)
		rc = error_set(err, ERR_MEMORY, "no memory to verify a node");
	for (unsigned c = 0; rc == 0 && c < bp->copies; c++) {
		struct pool_disk *d = &p->disks[bp->copy[c].disk];
		struct error why = ERROR_INIT;
		unsigned tier;

		os_mutex_lock(&p->lock);
		tier = disk_tier(d, bp->copy[c].unit);
		os_mutex_unlock(&p->lock);
		if (tier >= 2) {
			v.absent++;
			continue;
		}
		if (disk_read(d->disk, bp->copy[c].unit * POOL_UNIT_BYTES, bytes, NODE_BYTES, &why) != 0) {
			count_error(p, d->index, false, bp->copy[c].unit, tree, why.text);
		} else if (node_sound(p, bp, tree, level, bytes, &why) != 0) {
			count_error(p, d->index, true, bp->copy[c].unit, tree, why.text);
		} else {
			v.good++;
			memcpy(good, bytes, NODE_BYTES);
			continue;
		}
		v.bad++;
		v.bad_copies |= (uint8_t)(1u << c);
	}
	if (rc == 0 && v.good == 0)
		rc = error_set(err, ERR_LOST, "no copy of a node of tree %llu, level %u, at disk %u byte %llu is good",
			LLU(tree), bp->level, bp->copy[0].disk, LLU(bp->copy[0].unit * POOL_UNIT_BYTES));
	else if (rc == 0 && v.bad && repair)
		v.repaired = rewrite_copies(p, bp, good, v.bad_copies);
	free(good);
	free(bytes);
	if (rc == 0 || rc == ERR_LOST)
		*ret = v;
	return rc;
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

static void plan_writes(struct pool *p, const struct node_write *nodes, unsigned count, struct batch *b)
{
	os_scoped_lock(&p->lock);
	for (unsigned i = 0; i < count; i++)
		for (unsigned c = 0; c < nodes[i].bp.copies; c++) {
			struct pool_disk *d = &p->disks[nodes[i].bp.copy[c].disk];

			if (d->state == PD_ONLINE && disk_holds(d, nodes[i].bp.copy[c].unit))
				b->pieces[b->count++] = (struct piece){.item = i,
					.copy = (uint8_t)c,
					.disk = (uint8_t)d->index,
					.unit = nodes[i].bp.copy[c].unit,
					.bytes = nodes[i].bytes};
		}
}

/* What failed among neighbours once more by itself: a place that cannot be written shall not cost 63 others a copy. */
static int write_alone(struct pool *p, struct batch *b, struct error *err)
{
	struct batch again;
	int rc = batch_open(&again, b->count, err);
	bool gone[POOL_DISKS_MAX] = {false};

	for (unsigned i = 0; i < b->request_count; i++)
		if (b->requests[i].status == ERR_GONE)
			gone[((struct piece *)b->requests[i].owner)->disk] = true;
	for (unsigned i = 0; rc == 0 && i < b->count; i++)
		if (!b->pieces[i].done && !gone[b->pieces[i].disk]) {
			again.pieces[again.count] = b->pieces[i];
			again.pieces[again.count++].alone = true;
		}
	if (rc == 0 && again.count > 0)
		rc = batch_run(p, &again, DISK_WRITE, err);
	for (unsigned i = 0, at = 0; rc == 0 && i < b->count; i++)
		if (!b->pieces[i].done && !gone[b->pieces[i].disk])
			b->pieces[i].done = again.pieces[at++].done; /* sorted alike */
	batch_close(&again);
	return rc;
}

static void count_writes(struct pool *p, const struct batch *b)
{
	unsigned failed[POOL_DISKS_MAX] = {0};
	bool gone[POOL_DISKS_MAX] = {false};
	unsigned written = 0;

	os_mutex_lock(&p->lock);
	for (unsigned i = 0; i < b->count; i++) {
		struct pool_disk *d = &p->disks[b->pieces[i].disk];

		if (b->pieces[i].done) {
			d->unflushed = true;
			written++;
		} else {
			d->write_errors++;
			failed[d->index]++;
		}
	}
	os_mutex_unlock(&p->lock);
	node_count_written(p, 0, (uint64_t)written * NODE_BYTES);
	for (unsigned i = 0; i < b->request_count; i++)
		if (b->requests[i].status == ERR_GONE)
			gone[((struct piece *)b->requests[i].owner)->disk] = true;
	for (unsigned d = 0; d < p->disk_count; d++) {
		if (failed[d])
			pool_event(p, "disk %u: %u copies of tree nodes could not be written", d, failed[d]);
		if (gone[d])
			disk_fault(p, d, "it went away while tree nodes were written");
	}
}

int nodes_write(struct pool *p, struct node_write *nodes, unsigned count, struct error *err)
{
	struct batch b;
	uint8_t *copies = calloc(max_of(count, 1u), 1);
	unsigned room = 0;
	int rc;

	for (unsigned i = 0; i < count; i++)
		room += nodes[i].bp.copies;
	rc = batch_open(&b, max_of(room, 1u), err);
	if (rc == 0 && !copies)
		rc = error_set(err, ERR_MEMORY, "no memory to write %u tree nodes", count);
	if (rc == 0)
		plan_writes(p, nodes, count, &b);
	if (rc == 0)
		rc = batch_run(p, &b, DISK_WRITE, err);
	if (rc == 0)
		rc = write_alone(p, &b, err);
	if (rc == 0)
		count_writes(p, &b);
	for (unsigned i = 0; rc == 0 && i < b.count; i++)
		copies[b.pieces[i].item] += b.pieces[i].done;
	for (unsigned i = 0; rc == 0 && i < count; i++)
		if (copies[i] == 0)
			rc = error_set(err, ERR_IO,
				"a node of tree %llu could not be written to any of its %u disks (the first: disk %u, "
				"byte %llu)",
				LLU(nodes[i].tree), nodes[i].bp.copies, nodes[i].bp.copy[0].disk,
				LLU(nodes[i].bp.copy[0].unit * POOL_UNIT_BYTES));
	for (unsigned i = 0; rc == 0 && i < count; i++)
		node_cache_enter(p, &nodes[i].bp, nodes[i].bytes);
	if (rc == 0)
		node_count_written(p, count, 0);
	batch_close(&b);
	free(copies);
	return rc;
}
