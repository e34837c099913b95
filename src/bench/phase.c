/*
 * One phase: jobs × depth workers, each doing one operation after the other, until the bytes or the time are over.
 *
 *   job      a stream of operations with one cursor. Sequential jobs have regions of their own; random jobs draw
 *            from one order over the whole span, in which every block comes once a round. Of few blocks none is
 *            followed by its neighbour, not even with one in between: on a whole disk that hardly happens, and
 *            read-ahead would be tested instead.
 *   worker   a thread. A target that is a bare disk has one worker a job, which keeps `depth` requests in flight on
 *            a disk queue; other targets have `depth` workers a job, which share its cursor, so that a sequential
 *            stream keeps its order.
 *
 * Rules
 *   PHASE-1  The measured time begins when all workers stand ready and ends after the last operation and, for
 *            writes, the final flush.
 *   PHASE-2  Nothing is allocated and no data is made up inside the measured time (text payload excepted).
 *   PHASE-3  The first failure stops all workers; its sentence is the phase's.
 */
#include <string.h>

#include "internal.h"

#define PROGRESS_NS 100000000u
#define SHUFFLE_BLOCKS_MAX 1024u
#define SHUFFLE_TRIES 100u
#define POOL_BYTES_MIN (16ull << 20)

struct job {
	uint64_t own_cursor, *cursor; /* operations handed out; random jobs share that of job 0 */
	uint64_t region_offset, region_blocks;
	uint64_t unflushed_bytes;
	struct disk *disk;                /* NULL: through the target's calls */
	uint64_t bytes, first_ns, end_ns; /* when its first operation was done, and all */
	uint32_t *order, before[2];       /* under the lock of the run: of one round, few blocks only; the last of
					   * the round before */
	uint64_t order_round;             /* which round that is, plus 1 */
	uint64_t *sorted;                 /* sort_ahead of them at a time, under the same lock */
};

/* The part of the pool that one operation at a time takes its data from, in units. */
struct part {
	uint64_t first, units, at;
};

struct run;
struct worker {
	struct run *run;
	struct job *job;
	struct os_thread *thread;
	struct part part;
	uint8_t *read_buffers;
	struct slot *slots;
	uint64_t ops, read_bytes, write_bytes, flushes, written_seen;
	uint64_t cpu_ns, run_ns, refused_ns; /* when there was nothing more to begin */
	struct histogram *latency, *flush_latency;
	struct timeline timeline;
	struct random random;
	uint64_t written[PHASE_SAMPLES];
	unsigned written_count;
};

struct run {
	const struct phase *p;
	const struct workload *w;
	uint64_t pass, ops_limit; /* of one cursor; 0: none */
	uint64_t start_ns, deadline_ns, minimum_ns;
	unsigned bits; /* half the width of the random order */
	struct job *jobs;
	unsigned job_count, worker_count;
	struct worker *workers;
	struct os_mutex lock;
	struct os_cond change;
	unsigned ready, finished;
	bool go, stop, interrupted;
	struct error failure;
	struct device_line *device;
};

struct op {
	uint64_t offset_bytes;
	double position;
	bool write, read;
};

/* --- which operation comes next ---------------------------------------------------------------------------------- */

/* A random order of [0, count) without remembering it: a Feistel network over the next even number of bits, walked
 * until it lands inside (Black and Rogaway, 2002). */
static uint64_t permute(const struct run *run, uint64_t index, uint64_t count, uint64_t key)
{
	uint64_t mask = (1ull << run->bits) - 1;

	do {
		uint64_t left = index >> run->bits, right = index & mask;
		for (unsigned round = 0; round < 4; round++) {
			uint64_t next = left ^ (mix_u64(right ^ key ^ ((uint64_t)round << 60)) & mask);
			left = right;
			right = next;
		}
		index = left << run->bits | right;
	} while (index >= count);
	return index;
}

/* Whether the block at `i` of the order is one of the two before it, or the neighbour behind one of them. */
static bool succeeds(const struct job *job, uint64_t i)
{
	for (uint64_t back = 1; back <= 2; back++) {
		uint32_t before = i >= back ? job->order[i - back] : job->before[back - i - 1];
		if (job->order[i] - before <= 1)
			return true;
	}
	return false;
}

/* A shuffled round without successors. With a handful of blocks there is none: then as it comes. */
static void shuffle(struct job *job, uint64_t round, uint64_t seed)
{
	uint32_t count = (uint32_t)job->region_blocks;
	struct random random;

	for (uint32_t back = 0; back < 2; back++)
		job->before[back] = job->order_round && back < count ? job->order[count - 1 - back] : UINT32_MAX / 2;
	random_seed(&random, mix_u64(seed ^ mix_u64(round)));
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = (uint32_t)random_below(&random, i + 1);
		job->order[i] = job->order[at];
		job->order[at] = i;
	}
	for (unsigned tries = 0, bad = 1; bad && tries < SHUFFLE_TRIES; tries++) {
		bad = 0;
		for (uint32_t i = 0; i < count; i++) {
			if (!succeeds(job, i))
				continue;
			uint32_t at = (uint32_t)random_below(&random, count), block = job->order[i];
			job->order[i] = job->order[at];
			job->order[at] = block;
			bad++;
		}
	}
	job->order_round = round + 1;
}

/* The block that the order has at `index`. Of few blocks, in rising order and under the lock only. */
static uint64_t block_of(const struct run *run, struct job *owner, uint64_t count, uint64_t index)
{
	if (!run->w->random)
		return index % count;
	if (!owner->order)
		return permute(run, index % count, count, mix_u64(run->w->seed ^ mix_u64(index / count)));
	if (owner->order_round != index / count + 1)
		shuffle(owner, index / count, run->w->seed);
	return owner->order[index % count];
}

static int compare_blocks(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void sort_next(const struct run *run, struct job *owner, uint64_t count, uint64_t index)
{
	for (unsigned i = 0; i < run->w->sort_ahead; i++)
		owner->sorted[i] = block_of(run, owner, count, index + i);
	qsort(owner->sorted, run->w->sort_ahead, sizeof(*owner->sorted), compare_blocks);
}

/* Takes the next operation of the job's cursor; which block of its round that is. */
static uint64_t take_index(struct worker *me, uint64_t *ret_block)
{
	struct run *run = me->run;
	struct job *owner = container_of(me->job->cursor, struct job, own_cursor);
	uint64_t count = me->job->region_blocks, index;

	if (!owner->order && !owner->sorted) {
		index = __atomic_fetch_add(&owner->own_cursor, 1, __ATOMIC_RELAXED);
		*ret_block = block_of(run, owner, count, index);
		return index;
	}
	os_scoped_lock(&run->lock);
	index = owner->own_cursor++;
	if (owner->sorted && index % run->w->sort_ahead == 0)
		sort_next(run, owner, count, index);
	*ret_block = owner->sorted ? owner->sorted[index % run->w->sort_ahead] : block_of(run, owner, count, index);
	return index;
}

static bool next_op(struct worker *me, uint64_t now_ns, struct op *ret)
{
	struct run *run = me->run;
	const struct workload *w = run->w;
	struct job *job = me->job;

	me->refused_ns = now_ns;
	if (__atomic_load_n(&run->stop, __ATOMIC_RELAXED) || (run->deadline_ns && now_ns >= run->deadline_ns))
		return false;
	if (os_interrupted()) {
		run->interrupted = true;
		return false;
	}
	if (run->ops_limit && now_ns >= run->start_ns + run->minimum_ns &&
		__atomic_load_n(job->cursor, __ATOMIC_RELAXED) >= run->ops_limit)
		return false;

	uint64_t block, index = take_index(me, &block);
	if (run->ops_limit && index >= run->ops_limit && now_ns >= run->start_ns + run->minimum_ns)
		return false;
	ret->offset_bytes = job->region_offset + block * w->block_bytes;
	ret->position = (double)ret->offset_bytes / (double)max_of(run->p->target->size_bytes, 1ull);
	ret->read = w->read_percent > 0;
	ret->write = w->read_percent < 100;
	if (ret->read && ret->write && !w->read_then_write) {
		ret->read = mix_u64(w->seed ^ index) % 100 < w->read_percent;
		ret->write = !ret->read;
	}
	return true;
}

/* --- accounting -------------------------------------------------------------------------------------------------- */

static void fail(struct run *run, const struct error *err)
{
	os_scoped_lock(&run->lock);
	if (run->failure.code == 0)
		run->failure = *err;
	__atomic_store_n(&run->stop, true, __ATOMIC_RELAXED);
}

/* Keeps each of all writes with the same chance. */
static void sample_written(struct worker *me, uint64_t offset_bytes)
{
	uint64_t seen = me->written_seen++;

	if (me->written_count < PHASE_SAMPLES)
		me->written[me->written_count++] = offset_bytes;
	else if (seen % 16 == 0) {
		uint64_t at = random_below(&me->random, seen / 16 + PHASE_SAMPLES);
		if (at < PHASE_SAMPLES)
			me->written[at] = offset_bytes;
	}
}

static void account(struct worker *me, const struct op *op, uint64_t from_ns, uint64_t to_ns)
{
	struct run *run = me->run;
	uint64_t bytes = run->w->block_bytes;

	me->ops++;
	if (op->read)
		me->read_bytes += bytes;
	if (op->write) {
		me->write_bytes += bytes;
		sample_written(me, op->offset_bytes);
	}
	histogram_add(me->latency, to_ns - from_ns);
	timeline_add(&me->timeline, from_ns - run->start_ns, to_ns - run->start_ns, bytes, op->position);
	if (__atomic_fetch_add(&me->job->bytes, bytes, __ATOMIC_RELAXED) == 0)
		me->job->first_ns = to_ns;
}

static uint64_t take_payload(struct run *run, struct part *part, uint64_t offset_bytes)
{
	uint64_t bytes = run->w->block_bytes, units = (bytes + PAYLOAD_UNIT - 1) / PAYLOAD_UNIT;

	if (part->at + units > part->units)
		part->at = 0;
	uint64_t unit = part->first + part->at;
	part->at += units;
	if (!run->p->job_disks)
		payload_stamp(run->p->pool, unit, offset_bytes, bytes, run->pass);
	return unit;
}

/* --- workers that call ------------------------------------------------------------------------------------------- */

static bool flush_is_due(struct worker *me)
{
	const struct workload *w = me->run->w;

	if (!w->flush_every_bytes)
		return false;
	uint64_t before = __atomic_fetch_add(&me->job->unflushed_bytes, w->block_bytes, __ATOMIC_RELAXED);
	return (before + w->block_bytes) / w->flush_every_bytes != before / w->flush_every_bytes;
}

static void work_by_calls(struct worker *me)
{
	struct run *run = me->run;
	struct target *t = run->p->target;
	struct op op;
	uint64_t now = os_now_ns();

	while (next_op(me, now, &op)) {
		struct error err = ERROR_INIT;
		int status = 0;
		uint64_t length = run->w->block_bytes;
		uint64_t unit = op.write ? take_payload(run, &me->part, op.offset_bytes) : 0;
		uint64_t from = os_now_ns();
		if (op.read)
			status = t->ops->read(t, op.offset_bytes, me->read_buffers, length, &err);
		if (status == 0 && op.write)
			status = t->ops->write(t, op.offset_bytes, payload_pool_at(run->p->pool, unit), length, &err);
		now = os_now_ns();
		if (status == 0) {
			account(me, &op, from, now);
			if (op.write && flush_is_due(me)) {
				status = t->ops->flush(t, &err);
				uint64_t flushed = os_now_ns();
				histogram_add(me->flush_latency, flushed - now);
				me->flushes++;
				now = flushed;
			}
		}
		if (status < 0) {
			fail(run, &err);
			return;
		}
	}
}

/* --- workers with a queue ---------------------------------------------------------------------------------------- */

struct slot {
	struct disk_request request;
	struct op op;
	uint64_t from_ns, unit;
	struct part part;
	uint8_t *read_buffer;
	unsigned next_free;
};

struct queue_work {
	struct worker *me;
	struct disk_queue *queue;
	unsigned free_head, in_flight;
	bool failed, flush_due;
};

static void submit_write(struct queue_work *q, struct slot *s)
{
	const struct phase *p = q->me->run->p;

	disk_request_init(&s->request, DISK_WRITE, s->op.offset_bytes, payload_pool_at(p->pool, s->unit),
		p->workload->block_bytes);
	s->request.owner = s;
	disk_queue_submit(q->queue, q->me->job->disk, &s->request);
}

static void submit_op(struct queue_work *q, const struct op *op)
{
	struct worker *me = q->me;
	struct slot *s = &me->slots[q->free_head];

	q->free_head = s->next_free;
	q->in_flight++;
	s->op = *op;
	if (op->write)
		s->unit = take_payload(me->run, &s->part, op->offset_bytes);
	s->from_ns = os_now_ns();
	if (op->read) {
		disk_request_init(&s->request, DISK_READ, op->offset_bytes, s->read_buffer, me->run->w->block_bytes);
		s->request.owner = s;
		disk_queue_submit(q->queue, me->job->disk, &s->request);
	} else {
		submit_write(q, s);
	}
}

static void finish_op(struct queue_work *q, struct disk_request *r)
{
	struct worker *me = q->me;
	struct slot *s = r->owner;

	if (r->status < 0) {
		struct error err = ERROR_INIT;
		disk_request_error(r, &err);
		fail(me->run, &err);
		q->failed = true;
	} else if (s->op.write && r->op == DISK_READ) {
		submit_write(q, s);
		return;
	} else {
		account(me, &s->op, s->from_ns, r->done_ns ? r->done_ns : os_now_ns());
		if (s->op.write && flush_is_due(me))
			q->flush_due = true;
	}
	s->next_free = q->free_head;
	q->free_head = (unsigned)(s - me->slots);
	q->in_flight--;
}

static void flush_now(struct queue_work *q)
{
	struct worker *me = q->me;
	struct error err = ERROR_INIT;
	uint64_t from = os_now_ns();

	if (disk_flush(me->job->disk, &err) < 0) {
		fail(me->run, &err);
		q->failed = true;
	}
	histogram_add(me->flush_latency, os_now_ns() - from);
	me->flushes++;
	q->flush_due = false;
}

static void work_by_queue(struct worker *me)
{
	struct queue_work q = {.me = me};
	unsigned depth = me->run->w->depth;
	struct error err = ERROR_INIT;
	struct op op;
	bool over = false;

	if (disk_queue_open(&q.queue, &err) < 0) {
		fail(me->run, &err);
		return;
	}
	for (unsigned i = 0; i < depth; i++) {
		struct part *part = &me->slots[i].part;
		*part = me->part;
		if (!me->run->p->job_disks) {
			part->units /= depth;
			part->first += i * part->units;
		}
		me->slots[i].next_free = i + 1;
		me->slots[i].read_buffer = me->read_buffers + i * round_up_u64(me->run->w->block_bytes, PAYLOAD_UNIT);
	}
	while (true) {
		while (!over && !q.failed && !q.flush_due && q.in_flight < depth) {
			over = !next_op(me, os_now_ns(), &op);
			if (!over)
				submit_op(&q, &op);
		}
		if (q.in_flight == 0) {
			if (!q.flush_due || q.failed)
				break;
			flush_now(&q);
			continue;
		}
		/* One for one: to gather what is done and send its successors together leaves the device idle between.
		 */
		disk_queue_kick(q.queue);
		finish_op(&q, disk_queue_reap(q.queue, UINT64_MAX));
	}
	disk_queue_close(q.queue);
}

static void worker_run(void *arg)
{
	struct worker *me = arg;
	struct run *run = me->run;

	os_mutex_lock(&run->lock);
	run->ready++;
	os_cond_broadcast(&run->change);
	while (!run->go)
		os_cond_wait(&run->change, &run->lock);
	os_mutex_unlock(&run->lock);

	uint64_t cpu_ns = evidence_thread_cpu_ns(), from_ns = os_now_ns();
	if (me->job->disk)
		work_by_queue(me);
	else
		work_by_calls(me);
	me->cpu_ns = evidence_thread_cpu_ns() - cpu_ns;
	me->run_ns = os_now_ns() - from_ns;

	os_mutex_lock(&run->lock);
	me->job->end_ns = os_now_ns();
	run->finished++;
	os_cond_broadcast(&run->change);
	os_mutex_unlock(&run->lock);
}

/* --- set-up ------------------------------------------------------------------------------------------------------ */

static unsigned workers_of(const struct workload *w, bool by_queue)
{
	return by_queue ? w->jobs : w->jobs * w->depth;
}

uint64_t phase_pool_bytes(const struct workload *w)
{
	uint64_t each = round_up_u64(w->block_bytes, PAYLOAD_UNIT);

	return max_of(POOL_BYTES_MIN, each * w->depth * w->jobs);
}

int workload_check(const struct target *t, const struct workload *w, struct error *err)
{
	uint64_t align = max_of(t->align_bytes, 1u);

	if (w->block_bytes == 0 || w->block_bytes % align || w->span_offset_bytes % align)
		return error_set(err, ERR_USAGE, "%s: blocks of %llu bytes at %llu are not whole sectors of %u bytes",
			t->name, (unsigned long long)w->block_bytes, (unsigned long long)w->span_offset_bytes,
			t->align_bytes);
	if (w->depth == 0 || w->jobs == 0 || w->depth > 4096 || w->jobs > 4096)
		return error_set(
			err, ERR_USAGE, "%s: depth %u and %u jobs: both must be 1 to 4096", t->name, w->depth, w->jobs);
	if (w->read_percent > 100)
		return error_set(err, ERR_USAGE, "%s: %u %% reads is more than all", t->name, w->read_percent);
	if (w->span_offset_bytes > t->size_bytes || w->span_bytes > t->size_bytes - w->span_offset_bytes)
		return error_set(err, ERR_USAGE, "%s: the test wants bytes %llu to %llu of a target of %llu bytes",
			t->name, (unsigned long long)w->span_offset_bytes,
			(unsigned long long)(w->span_offset_bytes + w->span_bytes), (unsigned long long)t->size_bytes);
	uint64_t streams = w->random ? 1 : w->jobs;
	if (w->span_bytes / w->block_bytes < streams)
		return error_set(err, ERR_TOO_SMALL,
			"%s: %llu bytes are too few for %llu streams of blocks of %llu bytes", t->name,
			(unsigned long long)w->span_bytes, (unsigned long long)streams,
			(unsigned long long)w->block_bytes);
	return 0;
}

static int set_up_jobs(struct run *run, struct error *err)
{
	const struct phase *p = run->p;
	const struct workload *w = run->w;
	uint64_t blocks = w->span_bytes / w->block_bytes;
	bool shared = w->random && !p->job_disks;
	uint64_t each = w->random || p->job_disks ? blocks : blocks / w->jobs;
	struct disk *disk = p->by_disk_queue && !p->job_disks ? p->target->ops->disk(p->target) : NULL;

	for (unsigned j = 0; j < run->job_count; j++) {
		struct job *job = &run->jobs[j];
		job->cursor = shared ? &run->jobs[0].own_cursor : &job->own_cursor;
		job->region_blocks = each;
		job->region_offset = w->span_offset_bytes + (w->random || p->job_disks ? 0 : j * each * w->block_bytes);
		job->disk = p->job_disks ? p->job_disks[j] : disk;
		if (!w->random || job->cursor != &job->own_cursor)
			continue;
		if (w->sort_ahead > 1) {
			job->sorted = calloc(w->sort_ahead, sizeof(*job->sorted));
			if (!job->sorted)
				return error_set(err, ERR_MEMORY, "no memory to put %u blocks in order", w->sort_ahead);
		}
		if (each > SHUFFLE_BLOCKS_MAX)
			continue;
		job->order = calloc(each, sizeof(*job->order));
		if (!job->order)
			return error_set(
				err, ERR_MEMORY, "no memory for the order of %llu blocks", (unsigned long long)each);
	}
	for (run->bits = 1; run->bits < 31 && (1ull << (2 * run->bits)) < each; run->bits++)
		;
	uint64_t total = w->total_bytes ? w->total_bytes : (w->duration_ns ? 0 : w->span_bytes);
	uint64_t ops = (total + w->block_bytes - 1) / w->block_bytes;
	run->ops_limit = shared || p->job_disks ? ops : (ops + w->jobs - 1) / w->jobs;
	run->minimum_ns = w->minimum_ns;
	return 0;
}

static int set_up_worker(struct run *run, unsigned index, struct error *err)
{
	const struct workload *w = run->w;
	bool by_queue = run->p->by_disk_queue;
	struct worker *me = &run->workers[index];
	uint64_t units_each = phase_pool_bytes(w) / PAYLOAD_UNIT / run->worker_count;
	unsigned buffers = by_queue ? w->depth : 1;

	me->run = run;
	me->job = &run->jobs[by_queue ? index : index / w->depth];
	if (run->p->job_disks) /* nothing is stamped, so all may write from one place */
		me->part = (struct part){.units = round_up_u64(w->block_bytes, PAYLOAD_UNIT) / PAYLOAD_UNIT};
	else
		me->part = (struct part){.first = index * units_each, .units = units_each};
	random_seed(&me->random, w->seed + index);
	timeline_init(&me->timeline);
	int status = histogram_create(&me->latency, err);
	if (status == 0)
		status = histogram_create(&me->flush_latency, err);
	if (status < 0)
		return status;
	if (w->read_percent > 0) {
		uint64_t bytes = buffers * round_up_u64(w->block_bytes, PAYLOAD_UNIT);
		me->read_buffers = aligned_alloc(DISK_BUFFER_ALIGN, bytes);
		if (me->read_buffers)
			memset(me->read_buffers, 0, bytes); /* the first touch of memory is not the target's time */
	}
	if (by_queue)
		me->slots = calloc(w->depth, sizeof(*me->slots));
	if ((w->read_percent > 0 && !me->read_buffers) || (by_queue && !me->slots))
		return error_set(err, ERR_MEMORY, "no memory for the buffers of %u workers", run->worker_count);
	return 0;
}

static void tear_down(struct run *run)
{
	for (unsigned i = 0; run->workers && i < run->worker_count; i++) {
		histogram_free(run->workers[i].latency);
		histogram_free(run->workers[i].flush_latency);
		free(run->workers[i].read_buffers);
		free(run->workers[i].slots);
	}
	for (unsigned j = 0; run->jobs && j < run->job_count; j++) {
		free(run->jobs[j].order);
		free(run->jobs[j].sorted);
	}
	device_line_close(run->device);
	free(run->workers);
	free(run->jobs);
	os_cond_destroy(&run->change);
	os_mutex_destroy(&run->lock);
}

/* --- the measured part ------------------------------------------------------------------------------------------- */

static void say_progress(struct run *run)
{
	const struct bench_progress *say = run->p->progress;
	const struct workload *w = run->w;
	uint64_t bytes = 0, elapsed = os_now_ns() - run->start_ns;

	if (!say || !say->say || elapsed == 0)
		return;
	for (unsigned j = 0; j < run->job_count; j++)
		bytes += __atomic_load_n(&run->jobs[j].bytes, __ATOMIC_RELAXED);
	double by_bytes =
		w->total_bytes ? (double)bytes / (double)w->total_bytes : (double)bytes / (double)w->span_bytes;
	double share = w->duration_ns ? (double)elapsed / (double)w->duration_ns : 0;
	if (run->ops_limit)
		share = fmax(
			share, run->minimum_ns ? fmin(by_bytes, (double)elapsed / (double)run->minimum_ns) : by_bytes);
	say->say(say->arg, w->test, fmin(share, 1), (double)bytes / (double)elapsed * 1000);
}

static int start_workers(struct run *run, unsigned *ret_started, struct error *err)
{
	for (unsigned i = 0; i < run->worker_count; i++) {
		int status =
			os_thread_create(&run->workers[i].thread, "bench worker", worker_run, &run->workers[i], err);
		if (status < 0)
			return status;
		*ret_started = i + 1;
	}
	return 0;
}

static void let_run(struct run *run, unsigned started)
{
	os_mutex_lock(&run->lock);
	while (run->ready < started)
		os_cond_wait(&run->change, &run->lock);
	device_line_begin(run->device);
	run->start_ns = os_now_ns();
	run->deadline_ns = run->w->duration_ns ? run->start_ns + run->w->duration_ns : 0;
	run->go = true;
	os_cond_broadcast(&run->change);
	while (run->finished < started) {
		if (os_cond_wait_until(&run->change, &run->lock, os_now_ns() + PROGRESS_NS))
			continue;
		os_mutex_unlock(&run->lock);
		say_progress(run);
		os_mutex_lock(&run->lock);
	}
	os_mutex_unlock(&run->lock);
	for (unsigned i = 0; i < started; i++)
		os_thread_join(run->workers[i].thread);
}

static int final_flush(const struct phase *p, struct error *err)
{
	if (!p->job_disks)
		return p->target->ops->flush(p->target, err);
	for (unsigned j = 0; j < p->workload->jobs; j++) {
		int status = disk_flush(p->job_disks[j], err);
		if (status < 0)
			return status;
	}
	return 0;
}

static void gather(struct run *run, struct phase_result *ret)
{
	uint64_t seen = 0;

	ret->full_ns = UINT64_MAX;
	for (unsigned i = 0; i < run->worker_count; i++) {
		struct worker *me = &run->workers[i];
		ret->full_ns = min_of(ret->full_ns, max_of(me->refused_ns, run->start_ns) - run->start_ns);
		ret->ops += me->ops;
		ret->read_bytes += me->read_bytes;
		ret->write_bytes += me->write_bytes;
		ret->flush_count += me->flushes;
		histogram_merge(ret->latency, me->latency);
		histogram_merge(ret->flush_latency, me->flush_latency);
		timeline_merge(&ret->timeline, &me->timeline);
		if (me->run_ns > 0 && !os_is_simulated())
			ret->busiest_worker = fmax(ret->busiest_worker, (double)me->cpu_ns / (double)me->run_ns);
		for (unsigned k = 0; k < me->written_count; k++, seen++) {
			uint64_t at = seen < PHASE_SAMPLES ? seen : random_below(&run->workers[0].random, seen + 1);
			if (at < PHASE_SAMPLES) {
				ret->written[at].offset_bytes = me->written[k];
				ret->written[at].bytes = run->w->block_bytes;
			}
		}
	}
	ret->written_count = (unsigned)min_of(seen, (uint64_t)PHASE_SAMPLES);
	ret->bytes = ret->ops * run->w->block_bytes;
	for (unsigned j = 0; j < run->job_count; j++) {
		ret->job_bytes[j] = run->jobs[j].bytes;
		ret->job_ns[j] = run->jobs[j].end_ns - run->start_ns;
		ret->job_first_ns[j] = run->jobs[j].first_ns ? run->jobs[j].first_ns - run->start_ns : 0;
	}
}

static int measure(struct run *run, struct phase_result *ret, struct error *err)
{
	unsigned started = 0;
	int status = start_workers(run, &started, err);

	if (status < 0)
		run->stop = true;
	let_run(run, started);
	if (status < 0)
		return status;
	uint64_t worked_ns = os_now_ns();
	if (run->w->read_percent < 100 && run->w->final_flush && run->failure.code == 0) {
		struct error failure = ERROR_INIT;
		if (final_flush(run->p, &failure) < 0)
			run->failure = failure;
	}
	uint64_t end_ns = os_now_ns();
	device_line_end(run->device, &ret->device_timeline, &ret->device_bytes, &ret->device_end_ns);
	gather(run, ret);
	ret->pass = run->pass;
	ret->work_ns = worked_ns - run->start_ns;
	ret->final_flush_ns = end_ns - worked_ns;
	ret->elapsed_ns = end_ns - run->start_ns;
	ret->failure = run->failure;
	ret->interrupted = run->interrupted;
	return 0;
}

static int make_result(unsigned jobs, struct phase_result *ret, struct error *err)
{
	*ret = (struct phase_result){.busiest_worker = NAN};
	timeline_init(&ret->timeline);
	int status = histogram_create(&ret->latency, err);
	if (status == 0)
		status = histogram_create(&ret->flush_latency, err);
	ret->job_bytes = calloc(jobs, sizeof(*ret->job_bytes));
	ret->job_ns = calloc(jobs, sizeof(*ret->job_ns));
	ret->job_first_ns = calloc(jobs, sizeof(*ret->job_first_ns));
	if (status == 0 && (!ret->job_bytes || !ret->job_ns || !ret->job_first_ns))
		status = error_set(err, ERR_MEMORY, "no memory for the results of %u jobs", jobs);
	return status;
}

void phase_result_release(struct phase_result *r)
{
	histogram_free(r->latency);
	histogram_free(r->flush_latency);
	free(r->job_bytes);
	free(r->job_ns);
	free(r->job_first_ns);
	*r = (struct phase_result){0};
}

int phase_run(const struct phase *p, struct phase_result *ret, struct error *err)
{
	const struct workload *w = p->workload;
	struct run run = {.p = p,
		.w = w,
		.pass = os_random_u64(),
		.job_count = w->jobs,
		.worker_count = workers_of(w, p->by_disk_queue)};

	sp_assert(p->target->ops->disk || p->job_disks || !p->by_disk_queue);
	int status = make_result(w->jobs, ret, err);
	os_mutex_init(&run.lock);
	os_cond_init(&run.change);
	run.jobs = calloc(run.job_count, sizeof(*run.jobs));
	run.workers = calloc(run.worker_count, sizeof(*run.workers));
	if (status == 0 && (!run.jobs || !run.workers))
		status = error_set(err, ERR_MEMORY, "no memory for %u workers", run.worker_count);
	if (status == 0)
		status = device_line_open(&run.device, p->target, err);
	if (status == 0)
		status = set_up_jobs(&run, err);
	for (unsigned i = 0; i < run.worker_count && status == 0; i++)
		status = set_up_worker(&run, i, err);
	if (status == 0)
		status = measure(&run, ret, err);
	tear_down(&run);
	if (status < 0)
		phase_result_release(ret);
	return status;
}

/* --- afterwards -------------------------------------------------------------------------------------------------- */

int phase_verify(const struct phase *p, const struct phase_result *r, struct error *err)
{
	struct target *t = p->target;
	const struct workload *w = p->workload;

	if (t->align_bytes > PAYLOAD_UNIT || p->job_disks || !strcmp(t->ops->kind, "null") ||
		!strcmp(t->ops->kind, "cpu"))
		return 0;
	scoped_free uint8_t *buffer = aligned_alloc(DISK_BUFFER_ALIGN, PAYLOAD_UNIT);
	if (!buffer)
		return error_set(err, ERR_MEMORY, "no memory to verify with");
	for (unsigned i = 0; i < r->written_count; i++) {
		/* One unit of the block, a different one each time; a short tail is left out. */
		uint64_t units = max_of(r->written[i].bytes / PAYLOAD_UNIT, 1ull);
		uint64_t offset = r->written[i].offset_bytes + mix_u64(i) % units * PAYLOAD_UNIT;
		uint64_t bytes = min_of(r->written[i].bytes, (uint64_t)PAYLOAD_UNIT);
		int status = t->ops->read(t, offset, buffer, bytes, err);
		if (status < 0)
			return status;
		if (!payload_check(&w->payload, w->seed, r->pass, offset, buffer, bytes))
			return error_set(err, ERR_CORRUPT,
				"%s: mismatch: the %llu bytes at %llu are not those that were written", t->name,
				(unsigned long long)bytes, (unsigned long long)offset);
	}
	return 0;
}
