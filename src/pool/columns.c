/*
 * columns: reading them, many at once, and making a stripe whole.
 *
 *     wanted (any order)        sorted by place            requests
 *     disk 1 unit 64            disk 0 unit 32  ┐
 *     disk 0 unit 64            disk 0 unit 64  ┘          one, two buffers
 *     disk 0 unit 32            disk 1 unit 64             one
 *
 * A small hole between two wanted places is read too, into a waste buffer: that is cheaper than a second request.
 */
#include <stdio.h>
#include <string.h>

#include "stripe.h"

#define READ_BYTES_MAX (2u << 20)

static uint8_t waste[FILLER_BYTES] __attribute__((aligned(DISK_BUFFER_ALIGN)));

struct read_request {
	struct disk_request request;
	unsigned first, count; /* of order[] */
};

struct sorter {
	uint64_t unit;
	unsigned index, disk;
};

static int order_by_place(const void *a, const void *b)
{
	const struct sorter *x = a, *y = b;

	if (x->disk != y->disk)
		return x->disk < y->disk ? -1 : 1;
	if (x->unit != y->unit)
		return x->unit < y->unit ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static void fail_all(struct column_read *reads, const struct sorter *order, unsigned count, int status, const char *why,
	void (*done)(void *arg, unsigned index), void *arg)
{
	for (unsigned i = 0; i < count; i++) {
		reads[order[i].index].status = status;
		reads[order[i].index].why = why;
		if (done)
			done(arg, order[i].index);
	}
}

/* How many of the sorted reads from `first` on make one request, and its buffers. */
static unsigned gather(const struct column_read *reads, const struct sorter *order, unsigned first, unsigned count,
	struct iovec *iov, unsigned *ret_iov)
{
	uint64_t start = order[first].unit * POOL_UNIT_BYTES, end = start;
	unsigned n = 0, used = 0;

	for (; first + n < count; n++) {
		const struct sorter *o = &order[first + n];
		const struct column_read *r = &reads[o->index];
		uint64_t at = o->unit * POOL_UNIT_BYTES;

		if (n && (o->disk != order[first].disk || at < end || at - end > FILLER_BYTES ||
				 at + r->bytes - start > READ_BYTES_MAX || used + 2 > REQUEST_IOV_MAX))
			break;
		if (at > end)
			iov[used++] = (struct iovec){waste, at - end};
		iov[used++] = (struct iovec){r->buffer, r->bytes};
		end = at + r->bytes;
	}
	*ret_iov = used;
	return n;
}

void columns_read(
	struct pool *p, struct column_read *reads, unsigned count, void (*done)(void *arg, unsigned index), void *arg)
{
	struct sorter one_order[8], *order = one_order;
	struct read_request one_request[8], *requests = one_request;
	struct iovec one_iov[16], *iov = one_iov;
	struct disk_queue *q = disk_queue_of_thread(NULL);
	unsigned request_count = 0, iov_at = 0;
	struct disk_request *r;

	if (count > array_count(one_order)) {
		order = malloc(count * sizeof *order);
		requests = malloc(count * sizeof *requests);
		iov = malloc(2 * (size_t)count * sizeof *iov);
	}
	bool memory = q && order && requests && iov;
	for (unsigned i = 0; i < count; i++) {
		reads[i].status = memory ? 0 : ERR_MEMORY;
		reads[i].why = NULL;
		if (memory)
			order[i] = (struct sorter){.unit = reads[i].at.unit, .index = i, .disk = reads[i].at.disk};
		else if (done)
			done(arg, i);
	}
	if (memory)
		qsort(order, count, sizeof *order, order_by_place);
	for (unsigned at = 0, n; memory && at < count; at += n) {
		struct pool_disk *d = &p->disks[order[at].disk];
		unsigned buffers;

		n = gather(reads, order, at, count, iov + iov_at, &buffers);
		if (order[at].disk >= p->disk_count || !d->disk || d->state != PD_ONLINE) {
			fail_all(reads, order + at, n, ERR_GONE, "it is missing", done, arg);
			continue;
		}
		struct read_request *w = &requests[request_count++];
		*w = (struct read_request){.first = at, .count = n};
		disk_request_init_iov(&w->request, DISK_READ, order[at].unit * POOL_UNIT_BYTES, iov + iov_at, buffers);
		w->request.owner = w;
		iov_at += buffers;
		disk_queue_submit(q, d->disk, &w->request);
	}
	while (request_count && (r = disk_queue_reap(q, UINT64_MAX))) {
		struct read_request *w = r->owner;

		fail_all(reads, order + w->first, w->count, r->status, r->why, done, arg);
	}
	if (order != one_order) {
		free(order);
		free(requests);
		free(iov);
	}
}

/* --- a stripe ----------------------------------------------------------------------------------------------------- */

void run_shape_of(const struct pool *p, const struct run *r, struct run_shape *ret)
{
	*ret = (struct run_shape){.id = r->id,
		.birth_last = r->birth_last,
		.version = r->version,
		.group = r->group,
		.class = r->class,
		.k = r->k,
		.p = r->p};
	memcpy(ret->column, r->column, sizeof ret->column);
	memcpy(ret->column_state, r->column_state, sizeof ret->column_state);
	if (pool_breaks(p, 4)) {
		ret->k = (uint8_t)(p->groups[r->group].width - p->groups[r->group].parity);
		ret->p = (uint8_t)p->groups[r->group].parity;
	}
}

struct disk_address shape_place(const struct run_shape *r, uint32_t stripe, unsigned column)
{
	return (struct disk_address){
		.disk = r->column[column].disk,
		.unit = r->column[column].unit + stripe * class_units(r->class),
	};
}

int stripe_load_open(struct stripe_load *l, const struct run_shape *run, uint32_t stripe, struct error *err)
{
	unsigned width = run->k + run->p;
	size_t bytes = class_bytes[run->class];

	*l = (struct stripe_load){.run = *run, .stripe = stripe};
	l->bytes = aligned_alloc(DISK_BUFFER_ALIGN, width * bytes);
	l->sums = malloc((size_t)width * sums_per_column(run->class) * sizeof *l->sums);
	if (!l->bytes || !l->sums) {
		stripe_load_close(l);
		return error_set(err, ERR_MEMORY, "no memory for a stripe of %u columns of %zu bytes", width, bytes);
	}
	for (unsigned c = 0; c < width; c++)
		l->column[c] = l->bytes + c * bytes;
	return 0;
}

void stripe_load_close(struct stripe_load *l)
{
	free(l->bytes);
	free(l->sums);
	l->bytes = NULL;
	l->sums = NULL;
}

static void check_column(struct stripe_load *l, unsigned column)
{
	uint32_t found[(1 << 20) / SUM_BYTES];
	unsigned n = sums_per_column(l->run.class);

	if (!l->has_sums || l->bad[column])
		return;
	column_sums(l->column[column], class_bytes[l->run.class], found);
	if (memcmp(found, l->sums + column * n, n * sizeof *found))
		l->bad[column] = l->wrong[column] = true;
}

void stripe_loads_read(struct pool *p, struct stripe_load *const *loads, unsigned count)
{
	unsigned total = 0, n = 0;

	for (unsigned i = 0; i < count; i++)
		total += loads[i]->run.k + loads[i]->run.p;
	struct column_read *reads = malloc(total * sizeof *reads);
	for (unsigned i = 0; i < count; i++) {
		struct stripe_load *l = loads[i];

		for (unsigned c = 0; c < l->run.k + l->run.p; c++) {
			l->read[c] = (struct column_read){.at = shape_place(&l->run, l->stripe, c),
				.bytes = class_bytes[l->run.class],
				.buffer = l->column[c],
				.status = reads ? 0 : ERR_MEMORY};
			if (reads && !l->skip[c])
				reads[n++] = l->read[c];
		}
	}
	if (reads)
		columns_read(p, reads, n, NULL, NULL);
	n = 0;
	for (unsigned i = 0; i < count; i++) {
		struct stripe_load *l = loads[i];

		l->has_sums = stripe_sums(p, l->run.id, l->stripe, l->sums);
		for (unsigned c = 0; c < l->run.k + l->run.p; c++) {
			if (reads && !l->skip[c])
				l->read[c] = reads[n++];
			l->bad[c] = l->skip[c] || l->read[c].status != 0;
			l->wrong[c] = false;
			check_column(l, c);
		}
	}
	free(reads);
}

int stripe_load_recover(struct pool *p, struct stripe_load *l, struct error *err)
{
	unsigned width = l->run.k + l->run.p, bad = 0;

	for (unsigned c = 0; c < width; c++)
		bad += l->bad[c];
	if (bad == 0)
		return 0;
	if (bad > l->run.p) {
		stripe_load_explain(p, l, err);
		return ERR_LOST;
	}
	charge_parity(l->run.p, (uint64_t)l->run.k * class_bytes[l->run.class]);
	return parity_recover(l->run.k, l->run.p, class_bytes[l->run.class], l->column, l->bad, err);
}

void stripe_load_explain(const struct pool *p, const struct stripe_load *l, struct error *err)
{
	struct text t = {0};
	unsigned bad = 0;

	for (unsigned c = 0; c < l->run.k + l->run.p; c++) {
		const struct pool_disk *d = &p->disks[l->run.column[c].disk];
		const char *name = d->disk                           ? disk_traits(d->disk)->name
				   : d->config && d->config->path[0] ? d->config->path
								     : "disk";

		if (!l->bad[c])
			continue;
		text_addf(&t, "%s%s %s", bad ? ", " : "", name,
			l->wrong[c]                         ? "has other bytes"
			: !d->disk || d->state != PD_ONLINE ? "is missing"
							    : "cannot be read");
		bad++;
	}
	error_set(err, ERR_LOST, "run %llu stripe %u: %u of %u columns are not to be had, parity makes up for %u (%s)",
		(unsigned long long)l->run.id, l->stripe, bad, l->run.k + l->run.p, l->run.p, t.bytes ? t.bytes : "");
	text_release(&t);
}
