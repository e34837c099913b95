/* Timers under fire, in the real world: the promises of cancel, hammered by threads. Also the heap against a plain
 * search. */
#include "internal.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define US UINT64_C(1000)

static const struct os_timer *plain_first(const struct os_timer *timers, size_t count)
{
	const struct os_timer *first = NULL;
	for (size_t i = 0; i < count; i++) {
		const struct os_timer *t = &timers[i];
		if (t->is_set && (!first || t->due_ns < first->due_ns ||
					 (t->due_ns == first->due_ns && t->order < first->order)))
			first = t;
	}
	return first;
}

static void the_heap_agrees_with_a_plain_search(void **state)
{
	enum { COUNT = 40 };
	for (uint64_t seed = 0; seed < 50; seed++) {
		struct os_timer timers[COUNT] = {{0}}, *root = NULL;
		struct random r;
		uint64_t order = 0;
		random_seed(&r, seed);
		for (int step = 0; step < 2000; step++) {
			struct os_timer *t = &timers[random_below(&r, COUNT)];
			if (t->is_set && random_below(&r, 3) == 0)
				t = root;
			if (t->is_set) {
				os__heap_remove(&root, t);
				assert_false(t->is_set);
			} else {
				t->due_ns = random_below(&r, 30);
				t->order = ++order;
				os__heap_insert(&root, t);
			}
			assert_ptr_equal(root, plain_first(timers, COUNT));
		}
	}
}

/* --- each thread sets, moves and cancels its own timers and frees them right after the cancel ------------------- */

struct shot {
	struct os_timer timer;
	struct os_mutex lock;
	unsigned fired;
	bool cancelled, too_late;
	unsigned again;
};

static void shot_fire(struct os_timer *timer)
{
	struct shot *s = container_of(timer, struct shot, timer);
	os_scoped_lock(&s->lock);
	s->fired++;
	s->too_late |= s->cancelled;
	if (s->again > 0) {
		s->again--;
		os_timer_set(timer, os_now_ns() + 20 * US);
	}
}

struct hammer {
	uint64_t seed;
	unsigned fired, shots;
	bool too_late, early;
};

static void hammer_run(void *arg)
{
	struct hammer *h = arg;
	struct random r;
	random_seed(&r, h->seed);
	for (unsigned i = 0; i < h->shots; i++) {
		struct shot *s = calloc(1, sizeof(*s));
		sp_assert(s);
		os_mutex_init(&s->lock);
		os_timer_init(&s->timer, shot_fire);
		s->again = (unsigned)random_below(&r, 3);
		os_timer_set(&s->timer, os_now_ns() + random_below(&r, 100) * US);
		if (random_below(&r, 2))
			os_timer_set(&s->timer, os_now_ns() + random_below(&r, 100) * US);
		if (random_below(&r, 2))
			os_sleep_ns(random_below(&r, 150) * US);
		os_timer_cancel(&s->timer);
		os_mutex_lock(&s->lock);
		s->cancelled = true;
		h->fired += s->fired;
		h->too_late |= s->too_late;
		os_mutex_unlock(&s->lock);
		os_mutex_destroy(&s->lock);
		free(s); /* a `fire` from now on is a use after free */
	}
}

static int hammer_all(void *arg)
{
	struct hammer *hammers = arg;
	struct os_thread *threads[4];
	for (int i = 0; i < 4; i++) {
		int result = os_thread_create(&threads[i], "hammer", hammer_run, &hammers[i], NULL);
		sp_assert(result == 0);
	}
	for (int i = 0; i < 4; i++)
		os_thread_join(threads[i]);
	return 0;
}

static void cancelled_timers_stay_silent(void **state)
{
	struct hammer hammers[4];
	for (uint64_t i = 0; i < 4; i++)
		hammers[i] = (struct hammer){.seed = i, .shots = 1000};
	hammer_all(hammers);
	unsigned fired = 0;
	for (int i = 0; i < 4; i++) {
		assert_false(hammers[i].too_late);
		fired += hammers[i].fired;
	}
	assert_true(fired > 400); /* it was a fight */
}

static void cancelled_timers_stay_silent_in_simulation(void **state)
{
	for (uint64_t seed = 0; seed < 50; seed++) {
		struct hammer hammers[4];
		struct os_simulation s;
		struct error err = ERROR_INIT;
		for (uint64_t i = 0; i < 4; i++)
			hammers[i] = (struct hammer){.seed = seed * 4 + i, .shots = 30};
		os_simulation_init(&s, seed);
		if (os_simulate(&s, hammer_all, hammers, &err) != 0)
			fail_msg("seed %d: %s", (int)seed, err.text);
		for (int i = 0; i < 4; i++)
			assert_false(hammers[i].too_late);
	}
}

/* --- `fire` may cancel itself, and free what it belongs to ------------------------------------------------------ */

static struct os_mutex done_lock;
static struct os_cond done_cond;
static int done;

static void fire_and_free(struct os_timer *timer)
{
	os_timer_set(timer, 0);
	os_timer_cancel(timer);
	free(timer);
	os_scoped_lock(&done_lock);
	done++;
	os_cond_signal(&done_cond);
}

static void a_timer_may_end_itself(void **state)
{
	os_mutex_init(&done_lock);
	os_cond_init(&done_cond);
	for (int i = 0; i < 200; i++) {
		struct os_timer *t = malloc(sizeof(*t));
		assert_non_null(t);
		os_timer_init(t, fire_and_free);
		os_timer_set(t, 0);
	}
	os_mutex_lock(&done_lock);
	while (done < 200)
		os_cond_wait(&done_cond, &done_lock);
	os_mutex_unlock(&done_lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_heap_agrees_with_a_plain_search),
		cmocka_unit_test(cancelled_timers_stay_silent),
		cmocka_unit_test(cancelled_timers_stay_silent_in_simulation),
		cmocka_unit_test(a_timer_may_end_itself),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
