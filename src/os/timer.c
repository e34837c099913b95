#include "internal.h"

/* The timekeeper is written against the seam itself, so one text serves both worlds: in the real one it is a thread
 * that starts with the first timer and stays, in a simulated one a fiber that ends with its world. */

void os__timekeeper_init(struct timekeeper *tk)
{
	*tk = (struct timekeeper){0};
	os_mutex_init(&tk->lock);
	os_cond_init(&tk->changed);
	os_cond_init(&tk->fired);
}

static struct timekeeper real_timekeeper;

static void real_timekeeper_init(void)
{
	os__timekeeper_init(&real_timekeeper);
}

static struct timekeeper *timekeeper_get(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	if (in_simulation())
		return sim__timekeeper();
	pthread_once(&once, real_timekeeper_init);
	return &real_timekeeper;
}

static struct os_thread *thread_self(void)
{
	return in_simulation() ? sim__thread_self() : real__thread_self();
}

static void timekeeper_fire(struct timekeeper *tk, struct os_timer *t)
{
	os__heap_remove(&tk->root, t);
	tk->firing = t;
	os_mutex_unlock(&tk->lock);
	t->fire(t); /* may free t */
	os_mutex_lock(&tk->lock);
	tk->firing = NULL;
	if (tk->cancel_waiters > 0)
		os_cond_broadcast(&tk->fired);
}

static void timekeeper_run(void *arg)
{
	struct timekeeper *tk = arg;
	os_scoped_lock(&tk->lock);
	while (!tk->stop) {
		if (!tk->root)
			os_cond_wait(&tk->changed, &tk->lock);
		else if (tk->root->due_ns > os_now_ns())
			os_cond_wait_until(&tk->changed, &tk->lock, tk->root->due_ns);
		else
			timekeeper_fire(tk, tk->root);
	}
}

void os__timekeeper_stop(struct timekeeper *tk)
{
	os_mutex_lock(&tk->lock);
	tk->stop = true;
	os_cond_signal(&tk->changed);
	struct os_thread *thread = tk->thread;
	os_mutex_unlock(&tk->lock);
	if (thread)
		os_thread_join(thread);
	os_cond_destroy(&tk->fired);
	os_cond_destroy(&tk->changed);
	os_mutex_destroy(&tk->lock);
}

void os_timer_init(struct os_timer *t, void (*fire)(struct os_timer *timer))
{
	*t = (struct os_timer){.fire = fire};
}

void os_timer_set(struct os_timer *t, uint64_t due_ns)
{
	struct timekeeper *tk = timekeeper_get();
	os_scoped_lock(&tk->lock);
	if (t->is_set)
		os__heap_remove(&tk->root, t);
	t->due_ns = due_ns;
	t->order = ++tk->order;
	os__heap_insert(&tk->root, t);
	if (!tk->thread) {
		/* Without its timekeeper a program would wait for ever for what its timers do. */
		int result = os_thread_create(&tk->thread, "timekeeper", timekeeper_run, tk, NULL);
		sp_assert(result == 0);
	} else if (tk->root == t) {
		os_cond_signal(&tk->changed);
	}
}

void os_timer_cancel(struct os_timer *t)
{
	struct timekeeper *tk = timekeeper_get();
	os_scoped_lock(&tk->lock);
	for (;;) {
		if (t->is_set)
			os__heap_remove(&tk->root, t);
		if (tk->firing != t || tk->thread == thread_self())
			break;
		/* `fire` may set the timer again before it ends, hence the loop. */
		tk->cancel_waiters++;
		os_cond_wait(&tk->fired, &tk->lock);
		tk->cancel_waiters--;
	}
}
