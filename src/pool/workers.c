/*
 * A few threads that share what a caller has to do, and the caller does its share. Several callers may be at it at once:
 * each has a job of its own on its stack, threads take indexes from the oldest.
 */
#include "internal.h"

struct job {
	struct list link;
	unsigned count, taken, done;
	void (*work)(void *arg, unsigned index);
	void *arg;
	struct os_cond finished;
};

struct workers {
	struct os_mutex lock;
	struct os_cond wanted;
	struct list jobs; /* that have indexes left to take */
	bool closing;
	unsigned thread_count;
	struct os_thread *threads[];
};

/* Takes and does one index of the job. With the lock held, which is let go meanwhile. */
static void do_one(struct workers *w, struct job *job)
{
	unsigned index = job->taken++;

	if (job->taken == job->count)
		list_remove(&job->link);
	os_mutex_unlock(&w->lock);
	job->work(job->arg, index);
	os_mutex_lock(&w->lock);
	if (++job->done == job->count)
		os_cond_signal(&job->finished);
}

static void worker(void *arg)
{
	struct workers *w = arg;

	os_scoped_lock(&w->lock);
	for (;;) {
		if (!list_is_empty(&w->jobs))
			do_one(w, container_of(w->jobs.next, struct job, link));
		else if (w->closing)
			return;
		else
			os_cond_wait(&w->wanted, &w->lock);
	}
}

int workers_open(struct workers **ret, unsigned threads, struct error *err)
{
	struct workers *w = calloc(1, sizeof(*w) + threads * sizeof(w->threads[0]));

	if (!w)
		return error_set(err, ERR_MEMORY, "out of memory for %u workers", threads);
	os_mutex_init(&w->lock);
	os_cond_init(&w->wanted);
	list_init(&w->jobs);
	for (; w->thread_count < threads; w->thread_count++) {
		int code = os_thread_create(&w->threads[w->thread_count], "pool worker", worker, w, err);

		if (code) {
			workers_close(w);
			return code;
		}
	}
	*ret = w;
	return 0;
}

void workers_run(struct workers *w, unsigned count, void (*work)(void *arg, unsigned index), void *arg)
{
	struct job job = {.count = count, .work = work, .arg = arg};

	if (count <= 1 || w->thread_count == 0) {
		for (unsigned i = 0; i < count; i++)
			work(arg, i);
		return;
	}
	os_cond_init(&job.finished);
	os_mutex_lock(&w->lock);
	list_push_back(&w->jobs, &job.link);
	if (count - 1 >= w->thread_count)
		os_cond_broadcast(&w->wanted);
	else
		for (unsigned i = 1; i < count; i++)
			os_cond_signal(&w->wanted);
	while (job.taken < job.count)
		do_one(w, &job);
	while (job.done < job.count)
		os_cond_wait(&job.finished, &w->lock);
	os_mutex_unlock(&w->lock);
	os_cond_destroy(&job.finished);
}

void workers_close(struct workers *w)
{
	if (!w)
		return;
	os_mutex_lock(&w->lock);
	sp_assert(list_is_empty(&w->jobs));
	w->closing = true;
	os_cond_broadcast(&w->wanted);
	os_mutex_unlock(&w->lock);
	for (unsigned i = 0; i < w->thread_count; i++)
		os_thread_join(w->threads[i]);
	os_cond_destroy(&w->wanted);
	os_mutex_destroy(&w->lock);
	free(w);
}
