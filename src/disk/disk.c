/*
 * disk: the checked wrapper around every operation, and the counters.
 *
 * Everything that moves blocks (a file, memory) and everything that changes how they move (a model of a
 * mechanical disk, a fault, a trace) is a `struct disk`, and they stack:
 *
 *        disk_queue_submit(q, top, r)                     reap(q) -> r
 *               |                                             ^
 *               v                                             |  disk__queue_deliver
 *        [ trace ]   counts, checks, pushes a frame  ----->  done: writes its line
 *               |                                             ^
 *        [ fault ]   counts, checks, pushes a frame  ----->  done: flips a bit
 *               |                                             ^
 *        [ memory ]  counts, checks, moves the bytes ---------+  disk__complete
 *
 * On the way down each layer is entered in disk__enter: it checks the request against the traits of that layer
 * and starts the layer's clock. On the way up disk__complete closes one layer after another; where it meets a
 * layer that pushed a frame, it stops and calls that layer's `done`, which goes on with disk__complete when it
 * likes: at once, or from a timer. So a request carries its whole path with it and nothing is allocated.
 *
 * Example: an array reads 4 KiB through trace and fault from memory. disk__enter(trace), frame; enter(fault),
 * frame; enter(memory); memory copies and calls disk__complete(r, 0). That closes memory (its counters get the
 * 4 KiB), finds fault's frame, calls fault's done, which flips a bit and calls disk__complete(r, 0): fault is
 * closed, trace's frame is found, and so on until the outermost layer is closed and the queue gets the request.
 *
 * DISK-1  A request that enters a layer leaves it exactly once, with counters that add up.
 * DISK-2  A backend sees only requests that lie inside it, are whole sectors, and are allowed.
 * DISK-3  A request that breaks DISK-2 comes back with ERR_USAGE, it never crashes: offsets may come from a disk.
 * DISK-4  A request belongs to its caller before the submit and after the reap, to the disks in between.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

const char *const disk_op_names[DISK_OP_COUNT] = {"read", "write", "flush", "discard"};

/* Above this a read says more about the transfer than about how soon the disk answers. */
#define SMALL_READ_BYTES (128u * 1024)

void disk_request_init(
	struct disk_request *r, enum disk_op op, uint64_t offset_bytes, void *buffer, uint64_t length_bytes)
{
	*r = (struct disk_request){.op = op, .offset_bytes = offset_bytes, .length_bytes = length_bytes};
	if (buffer) {
		r->iov1 = (struct iovec){.iov_base = buffer, .iov_len = length_bytes};
		r->iov = &r->iov1;
		r->iov_count = 1;
	}
}

void disk_request_init_iov(
	struct disk_request *r, enum disk_op op, uint64_t offset_bytes, const struct iovec *iov, unsigned iov_count)
{
	*r = (struct disk_request){.op = op, .offset_bytes = offset_bytes, .iov = iov, .iov_count = iov_count};
	for (unsigned i = 0; i < iov_count; i++)
		r->length_bytes += iov[i].iov_len;
}

/* --- making and unmaking ----------------------------------------------------------------------------- */

void disk__init(struct disk *d, const struct disk_ops *ops, struct disk *below, const struct disk_traits *traits)
{
	sp_assert(traits || below);
	*d = (struct disk){.ops = ops, .below = below, .traits = traits ? *traits : below->traits};
	if (below) {
		sp_assert(!below->above);
		below->above = d;
		d->level = below->level + 1;
	}
	sp_assert(d->level <= DISK_LAYERS_MAX);
	const char **texts[] = {&d->traits.name, &d->traits.spec, &d->traits.engine, &d->traits.model,
		&d->traits.serial, &d->traits.note};
	for (size_t i = 0; i < array_count(texts); i++)
		if (!*texts[i])
			*texts[i] = "";
	os_mutex_init(&d->lock);
}

void disk__release(struct disk *d)
{
	if (d->below)
		d->below->above = NULL;
	free(d->spec_text);
	os_mutex_destroy(&d->lock);
}

void disk_close(struct disk *d)
{
	if (!d)
		return;
	sp_assert(d->in_flight == 0);
	d->ops->close(d);
}

static int wrap(
	struct disk *below, const struct disk_wrapper_spec *w, unsigned index, struct disk **ret, struct error *err)
{
	if (strcmp(w->kind, "model") == 0)
		return disk__model_wrap(below, w->value, index, ret, err);
	if (strcmp(w->kind, "fault") == 0)
		return disk__fault_wrap(below, w->value, index, ret, err);
	if (strcmp(w->kind, "trace") == 0)
		return disk__trace_wrap(below, w->value, index, ret, err);
	return error_set(err, ERR_USAGE, "'%s' is no wrapper of a disk (model, fault, trace)", w->kind);
}

int disk_open(const struct disk_spec *spec, const struct disk_open_options *options, struct disk **ret_disk,
	struct error *err)
{
	static const struct disk_open_options defaults;
	struct disk *d = NULL;
	int rc = spec->path ? disk__file_open(spec, options ? options : &defaults, &d, err)
			    : disk__memory_open(spec->name, spec->text, spec->memory_bytes, &d, err);
	if (rc != 0)
		return rc;
	if (!spec->path && options && options->read_only)
		d->traits.read_only = true;
	for (unsigned i = 0; i < spec->wrapper_count; i++) {
		struct disk *outer;
		rc = wrap(d, &spec->wrappers[i], spec->index, &outer, err);
		if (rc != 0) {
			disk_close(d);
			return rc;
		}
		d = outer;
	}
	d->spec_text = strdup(spec->text);
	if (!d->spec_text) {
		disk_close(d);
		return error_set(err, ERR_MEMORY, "out of memory while opening %s", spec->text);
	}
	d->traits.spec = d->spec_text;
	*ret_disk = d;
	return 0;
}

int disk_open_memory(const char *name, uint64_t size_bytes, struct disk **ret_disk, struct error *err)
{
	return disk__memory_open(name, name, size_bytes, ret_disk, err);
}

/* --- counters ---------------------------------------------------------------------------------------- */

static bool moves_data(const struct disk_request *r)
{
	return r->op == DISK_READ || r->op == DISK_WRITE;
}

static void count_begin(struct disk *d, struct disk_request *r, uint64_t now_ns)
{
	uint32_t physical = d->traits.physical_bytes;
	os_mutex_lock(&d->lock);
	if (d->in_flight++ == 0)
		d->busy_since_ns = now_ns;
	if (moves_data(r))
		d->end_bytes = r->offset_bytes + r->length_bytes;
	if (r->op == DISK_WRITE && physical && (r->offset_bytes % physical || r->length_bytes % physical))
		d->counters.unaligned_physical++;
	os_mutex_unlock(&d->lock);
	r->entered_ns[d->level] = now_ns;
}

/* One answer moves the average by no more than so much beyond half of itself: a thread that the system held back
 * once must not make a disk look slow, a disk that is slow shows it again and again. */
#define LATENCY_STEP_NS 1000000u

static void latency_learn(struct disk *d, uint64_t latency_ns)
{
	uint64_t counted = min_of(latency_ns, 4 * d->latency_ns + LATENCY_STEP_NS);

	d->latency_ns = d->latency_ns ? d->latency_ns - d->latency_ns / 8 + counted / 8 : max_of(counted, (uint64_t)1);
}

static void count_end(struct disk *d, const struct disk_request *r, int status, uint64_t now_ns)
{
	uint64_t latency_ns = now_ns - r->entered_ns[d->level];
	os_mutex_lock(&d->lock);
	struct disk_op_counters *c = &d->counters.op[r->op];
	c->done++;
	if (status == 0)
		c->bytes += r->length_bytes;
	else
		c->errors++;
	c->latency_ns_sum += latency_ns;
	c->latency_ns_max = max_of(c->latency_ns_max, latency_ns);
	if (r->op == DISK_READ && status == 0 && r->length_bytes <= SMALL_READ_BYTES)
		latency_learn(d, latency_ns);
	if (--d->in_flight == 0)
		d->counters.busy_ns += now_ns - d->busy_since_ns;
	os_mutex_unlock(&d->lock);
}

const struct disk_traits *disk_traits(const struct disk *d)
{
	return &d->traits;
}

void disk_counters(const struct disk *d, struct disk_counters *ret)
{
	struct disk *m = (struct disk *)d;
	uint64_t now_ns = os_now_ns();
	os_scoped_lock(&m->lock);
	*ret = m->counters;
	if (m->in_flight && now_ns > m->busy_since_ns)
		ret->busy_ns += now_ns - m->busy_since_ns;
}

void disk_load(const struct disk *d, struct disk_load *ret)
{
	struct disk *m = (struct disk *)d;
	os_scoped_lock(&m->lock);
	*ret = (struct disk_load){.in_flight = m->in_flight, .end_bytes = m->end_bytes, .latency_ns = m->latency_ns};
}

/* --- the way down ------------------------------------------------------------------------------------ */

static int check_buffers(const struct disk_traits *t, struct disk_request *r)
{
	uint64_t sum_bytes = 0;
	for (unsigned i = 0; i < r->iov_count; i++) {
		if (r->iov[i].iov_len % t->logical_bytes) {
			r->why = "a buffer is not whole sectors";
			return ERR_USAGE;
		}
		sum_bytes += r->iov[i].iov_len;
	}
	if (sum_bytes != r->length_bytes) {
		r->why = "the buffers do not add up to the length";
		return ERR_USAGE;
	}
	return 0;
}

static int check(const struct disk *d, struct disk_request *r)
{
	const struct disk_traits *t = &d->traits;
	if (t->read_only && (r->op == DISK_WRITE || r->op == DISK_DISCARD))
		return ERR_READ_ONLY;
	if (r->op == DISK_FLUSH) {
		r->why = "a flush has no length";
		return r->length_bytes ? ERR_USAGE : 0;
	}
	if (r->offset_bytes > t->size_bytes || r->length_bytes > t->size_bytes - r->offset_bytes) {
		r->why = "it reaches past the end of the disk";
		return ERR_USAGE;
	}
	if (r->offset_bytes % t->logical_bytes || r->length_bytes % t->logical_bytes) {
		r->why = "it is not whole sectors";
		return ERR_USAGE;
	}
	return moves_data(r) ? check_buffers(t, r) : 0;
}

static void enter(struct disk *d, struct disk_request *r, uint64_t now_ns)
{
	r->current = d;
	count_begin(d, r, now_ns);
	int rc = check(d, r);
	if (rc != 0) {
		disk__complete(r, rc);
		return;
	}
	r->why = NULL;
	if (d->ops->kick)
		disk__queue_want_kick(r->queue, d);
	d->ops->submit(d, r);
}

void disk__enter_top(struct disk *d, struct disk_request *r)
{
	sp_assert((unsigned)r->op < DISK_OP_COUNT);
	r->disk = d;
	r->depth = 0;
	r->status = 0;
	r->why = NULL;
	os_charge(OS_STAGE_REQUEST, r->length_bytes);
	r->submit_ns = os_now_ns();
	enter(d, r, r->submit_ns);
}

void disk__submit_below(struct disk *d, struct disk_request *r)
{
	sp_assert(d->below && r->current == d);
	enter(d->below, r, os_now_ns());
}

int disk__run_below(struct disk *d, struct disk_request *r)
{
	struct disk *below = d->below;
	if (!below->ops->run) {
		r->why = "a disk of this kind cannot lie below a model";
		return ERR_UNSUPPORTED;
	}
	count_begin(below, r, os_now_ns());
	int rc = check(below, r);
	if (rc == 0) {
		r->why = NULL;
		rc = below->ops->run(below, r);
	}
	count_end(below, r, rc, os_now_ns());
	return rc;
}

void disk__push(
	struct disk_request *r, struct disk *d, void (*done)(struct disk *d, struct disk_request *r), uint64_t word)
{
	sp_assert(r->depth < DISK_LAYERS_MAX);
	r->stack[r->depth++] = (struct disk_frame){.disk = d, .done = done, .word = word};
}

/* --- the way up -------------------------------------------------------------------------------------- */

void disk__complete(struct disk_request *r, int status)
{
	uint64_t now_ns = os_now_ns();
	r->status = status;
	for (;;) {
		struct disk *d = r->current;
		const struct disk_frame *f = r->depth ? &r->stack[r->depth - 1] : NULL;
		if (f && f->disk == d) {
			r->depth--;
			r->word = f->word;
			f->done(d, r);
			return;
		}
		count_end(d, r, status, now_ns);
		if (d == r->disk)
			break;
		r->current = d->above;
	}
	r->done_ns = now_ns;
	disk__queue_deliver(r->queue, r);
}

/* --- one operation, waited for ----------------------------------------------------------------------- */

int disk_request_error(const struct disk_request *r, struct error *err)
{
	if (r->status == 0)
		return 0;
	char where[96] = "", length[SIZE_TEXT_BYTES];
	if (r->op != DISK_FLUSH)
		snprintf(where, sizeof where, " of %s at byte %llu", size_format_binary(r->length_bytes, length),
			(unsigned long long)r->offset_bytes);
	return error_set(err, r->status, "%s: %s%s failed: %s%s%s%s", r->disk->traits.name, disk_op_names[r->op], where,
		error_sentence(r->status), r->why ? " (" : "", r->why ? r->why : "", r->why ? ")" : "");
}

static int wait_for(struct disk *d, struct disk_request *r, struct error *err)
{
	struct disk_queue *q = disk_queue_of_thread(err);
	if (!q)
		return ERR_MEMORY;
	sp_assert(disk_queue_in_flight(q) == 0);
	disk_queue_submit(q, d, r);
	struct disk_request *done = disk_queue_reap(q, UINT64_MAX);
	sp_assert(done == r);
	return disk_request_error(r, err);
}

int disk_read(struct disk *d, uint64_t offset_bytes, void *buffer, uint64_t length_bytes, struct error *err)
{
	struct disk_request r;
	disk_request_init(&r, DISK_READ, offset_bytes, buffer, length_bytes);
	return wait_for(d, &r, err);
}

int disk_write(struct disk *d, uint64_t offset_bytes, const void *buffer, uint64_t length_bytes, struct error *err)
{
	struct disk_request r;
	disk_request_init(&r, DISK_WRITE, offset_bytes, (void *)buffer, length_bytes);
	return wait_for(d, &r, err);
}

int disk_flush(struct disk *d, struct error *err)
{
	struct disk_request r;
	disk_request_init(&r, DISK_FLUSH, 0, NULL, 0);
	return wait_for(d, &r, err);
}

int disk_discard(struct disk *d, uint64_t offset_bytes, uint64_t length_bytes, struct error *err)
{
	struct disk_request r;
	disk_request_init(&r, DISK_DISCARD, offset_bytes, NULL, length_bytes);
	return wait_for(d, &r, err);
}
