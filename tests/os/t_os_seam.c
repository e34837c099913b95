/* The same bodies in both worlds. A body returns 0, or the line of the check that failed. */
#include "os.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
#define check(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			return -10000 - __LINE__;                                                                      \
	} while (0)

static void start(struct os_thread **thread, const char *name, void (*run)(void *), void *arg)
{
	struct error err = ERROR_INIT;
	int result = os_thread_create(thread, name, run, arg, &err);
	sp_assert(result == 0);
}

/* --- a counter under a lock ---------------------------------------------------------------------- */

struct counter {
	struct os_mutex lock;
	int value, inside, most_inside;
};

static void counter_run(void *arg)
{
	struct counter *c = arg;
	for (int i = 0; i < 500; i++) {
		os_scoped_lock(&c->lock);
		c->inside++;
		c->most_inside = max_of(c->most_inside, c->inside);
		int value = c->value;
		if (i % 50 == 0)
			os_thread_yield();
		c->value = value + 1;
		c->inside--;
	}
}

static int body_mutex(void *arg)
{
	struct counter c = {0};
	struct os_thread *threads[5];
	os_mutex_init(&c.lock);
	for (size_t i = 0; i < array_count(threads); i++)
		start(&threads[i], "counter", counter_run, &c);
	for (size_t i = 0; i < array_count(threads); i++)
		os_thread_join(threads[i]);
	os_mutex_destroy(&c.lock);
	check(c.value == 2500);
	check(c.most_inside == 1);
	return 0;
}

/* --- a bounded queue with two conditions --------------------------------------------------------- */

#define QUEUE_ROOM 3
#define QUEUE_ITEMS 300

struct queue {
	struct os_mutex lock;
	struct os_cond not_full, not_empty;
	int items[QUEUE_ROOM];
	unsigned head, count;
	long sum;
	int taken;
	bool bad;
};

static void queue_produce(void *arg)
{
	struct queue *q = arg;
	for (int i = 1; i <= QUEUE_ITEMS; i++) {
		os_scoped_lock(&q->lock);
		while (q->count == QUEUE_ROOM)
			os_cond_wait(&q->not_full, &q->lock);
		q->items[(q->head + q->count++) % QUEUE_ROOM] = i;
		q->bad |= q->count > QUEUE_ROOM;
		os_cond_signal(&q->not_empty);
	}
}

static void queue_consume(void *arg)
{
	struct queue *q = arg;
	for (;;) {
		os_scoped_lock(&q->lock);
		while (q->count == 0 && q->taken < 2 * QUEUE_ITEMS)
			os_cond_wait(&q->not_empty, &q->lock);
		if (q->count == 0)
			return;
		q->sum += q->items[q->head];
		q->head = (q->head + 1) % QUEUE_ROOM;
		q->count--;
		if (++q->taken == 2 * QUEUE_ITEMS)
			os_cond_broadcast(&q->not_empty);
		os_cond_signal(&q->not_full);
	}
}

static int body_queue(void *arg)
{
	struct queue q = {0};
	struct os_thread *threads[5];
	os_mutex_init(&q.lock);
	os_cond_init(&q.not_full);
	os_cond_init(&q.not_empty);
	for (size_t i = 0; i < array_count(threads); i++)
		start(&threads[i], i < 2 ? "producer" : "consumer", i < 2 ? queue_produce : queue_consume, &q);
	for (size_t i = 0; i < array_count(threads); i++)
		os_thread_join(threads[i]);
	check(!q.bad);
	check(q.taken == 2 * QUEUE_ITEMS);
	check(q.sum == (long)QUEUE_ITEMS * (QUEUE_ITEMS + 1));
	os_cond_destroy(&q.not_empty);
	os_cond_destroy(&q.not_full);
	os_mutex_destroy(&q.lock);
	return 0;
}

/* --- waiting with a deadline --------------------------------------------------------------------- */

struct gate {
	struct os_mutex lock;
	struct os_cond changed;
	bool is_open;
};

static void gate_open_later(void *arg)
{
	struct gate *g = arg;
	os_sleep_ns(5 * MS);
	os_mutex_lock(&g->lock);
	g->is_open = true;
	os_mutex_unlock(&g->lock);
	os_cond_broadcast(&g->changed);
}

static int body_wait_until(void *arg)
{
	struct gate g = {0};
	struct os_thread *thread;
	os_mutex_init(&g.lock);
	os_cond_init(&g.changed);

	uint64_t before_ns = os_now_ns();
	os_mutex_lock(&g.lock);
	check(!os_cond_wait_until(&g.changed, &g.lock, before_ns)); /* has passed */
	uint64_t deadline_ns = os_now_ns() + 20 * MS;
	while (os_cond_wait_until(&g.changed, &g.lock, deadline_ns))
		; /* for no reason */
	check(os_now_ns() >= deadline_ns);
	check(os_now_ns() < deadline_ns + 10000 * MS);

	start(&thread, "opener", gate_open_later, &g);
	deadline_ns = os_now_ns() + 60000 * MS;
	bool in_time = true;
	while (!g.is_open && in_time)
		in_time = os_cond_wait_until(&g.changed, &g.lock, deadline_ns);
	check(g.is_open && os_now_ns() < deadline_ns);
	check(os_now_ns() >= before_ns + 25 * MS);
	os_mutex_unlock(&g.lock);
	os_thread_join(thread);
	os_cond_destroy(&g.changed);
	os_mutex_destroy(&g.lock);
	return 0;
}

/* --- time ---------------------------------------------------------------------------------------- */

static int body_time(void *arg)
{
	uint64_t a = os_now_ns(), wall = os_wall_ns();
	os_sleep_until_ns(a); /* has passed */
	os_sleep_ns(3 * MS);
	uint64_t b = os_now_ns();
	check(b - a >= 3 * MS);
	check(wall > UINT64_C(1500000000) * 1000 * MS);
	check(os_wall_ns() - wall >= 2 * MS);
	check(os_random_u64() != os_random_u64());
	struct os_cpu_usage usage;
	os_charge(OS_STAGE_CALL, 0);
	os_cpu_usage(&usage);
	check(usage.cpus > 0);
	check(usage.process_ns > 0);
	check(usage.system_total_ns >= usage.system_busy_ns);
	return 0;
}

/* --- timers -------------------------------------------------------------------------------------- */

struct bell {
	struct os_timer timer;
	struct belfry *belfry;
	int number, rung, again;
};

struct belfry {
	struct os_mutex lock;
	struct os_cond rung;
	struct bell bells[8];
	int order[64], count;
	uint64_t early_ns;
};

static void bell_fire(struct os_timer *timer)
{
	struct bell *b = container_of(timer, struct bell, timer);
	struct belfry *f = b->belfry;
	os_scoped_lock(&f->lock);
	uint64_t now_ns = os_now_ns();
	if (now_ns < timer->due_ns)
		f->early_ns = timer->due_ns - now_ns;
	b->rung++;
	if (f->count < (int)array_count(f->order))
		f->order[f->count++] = b->number;
	if (b->again-- > 0)
		os_timer_set(timer, now_ns + MS);
	os_cond_signal(&f->rung);
}

static void belfry_init(struct belfry *f)
{
	memset(f, 0, sizeof(*f));
	os_mutex_init(&f->lock);
	os_cond_init(&f->rung);
	for (int i = 0; i < (int)array_count(f->bells); i++) {
		f->bells[i].belfry = f;
		f->bells[i].number = i;
		os_timer_init(&f->bells[i].timer, bell_fire);
	}
}

static void belfry_wait(struct belfry *f, int count)
{
	os_scoped_lock(&f->lock);
	while (f->count < count)
		os_cond_wait(&f->rung, &f->lock);
}

static int body_timers(void *arg)
{
	struct belfry f;
	belfry_init(&f);
	uint64_t base_ns = os_now_ns() + 30 * MS;
	static const int due_ms[] = {9, 3, 3, 0, 9, 3, 20, 1};
	for (int i = 0; i < 8; i++)
		os_timer_set(&f.bells[i].timer, base_ns + (uint64_t)due_ms[i] * MS);
	os_timer_set(&f.bells[6].timer, base_ns + 3 * MS); /* moved: now last of those at 3 */
	belfry_wait(&f, 8);
	static const int expected[] = {3, 7, 1, 2, 5, 6, 0, 4};
	for (int i = 0; i < 8; i++)
		check(f.order[i] == expected[i]);
	check(f.early_ns == 0);

	/* One that sets itself again, and one that is cancelled in time. */
	f.count = 0;
	f.bells[0].again = 4;
	os_timer_set(&f.bells[1].timer, os_now_ns() + 60000 * MS);
	os_timer_set(&f.bells[0].timer, 0);
	belfry_wait(&f, 5);
	os_timer_cancel(&f.bells[1].timer);
	os_timer_cancel(&f.bells[1].timer); /* not set: fine */
	os_timer_cancel(&f.bells[0].timer);
	check(f.bells[0].rung == 6 && f.bells[1].rung == 1);
	os_sleep_ns(3 * MS);
	check(f.count == 5);
	for (int i = 0; i < 8; i++)
		os_timer_cancel(&f.bells[i].timer);
	os_cond_destroy(&f.rung);
	os_mutex_destroy(&f.lock);
	return 0;
}

/* --- cancel waits for a `fire` that runs --------------------------------------------------------- */

struct slow_bell {
	struct os_timer timer;
	struct os_mutex lock;
	bool started, cancelled, fired_after_cancel;
	int ended;
};

static void slow_bell_fire(struct os_timer *timer)
{
	struct slow_bell *b = container_of(timer, struct slow_bell, timer);
	os_mutex_lock(&b->lock);
	b->started = true;
	b->fired_after_cancel |= b->cancelled;
	os_mutex_unlock(&b->lock);
	for (int i = 0; i < 100; i++)
		os_thread_yield();
	os_timer_set(timer, os_now_ns() + 1000); /* again: cancel has to win all the same */
	os_mutex_lock(&b->lock);
	b->ended++;
	b->started = false;
	os_mutex_unlock(&b->lock);
}

static int body_cancel(void *arg)
{
	for (int round = 0; round < 20; round++) {
		struct slow_bell b = {0};
		os_mutex_init(&b.lock);
		os_timer_init(&b.timer, slow_bell_fire);
		os_timer_set(&b.timer, 0);
		if (round % 2)
			os_sleep_ns(MS / 20);
		os_timer_cancel(&b.timer);
		os_mutex_lock(&b.lock);
		b.cancelled = true;
		check(!b.started);
		int ended = b.ended;
		os_mutex_unlock(&b.lock);
		os_sleep_ns(MS / 10);
		os_mutex_lock(&b.lock);
		check(!b.fired_after_cancel && b.ended == ended);
		os_mutex_unlock(&b.lock);
		os_mutex_destroy(&b.lock);
	}
	return 0;
}

/* --- a value a thread ---------------------------------------------------------------------------- */

static int destroyed; /* read after the joins only, hence no lock */
static struct os_mutex destroyed_lock;
static void local_destroy(void *value);
static const struct os_local key_a = {.destroy = local_destroy}, key_b = {.destroy = local_destroy}, key_plain = {0};

static void local_destroy(void *value)
{
	os_scoped_lock(&destroyed_lock);
	destroyed++;
	int *left = value;
	if (--*left > 0) {
		int result = os_local_set(&key_a, left, NULL); /* a destructor may leave something to destroy */
		sp_assert(result == 0);
	}
}

struct local_user {
	int value_a, value_b;
	int failed_line;
};

static int local_use(struct local_user *u)
{
	check(os_local_get(&key_a) == NULL);
	check(os_local_set(&key_a, &u->value_a, NULL) == 0);
	check(os_local_set(&key_b, &u->value_b, NULL) == 0);
	check(os_local_set(&key_plain, u, NULL) == 0);
	for (int i = 0; i < 20; i++) {
		os_sleep_ns(MS / 100);
		check(os_local_get(&key_a) == &u->value_a);
		check(os_local_get(&key_b) == &u->value_b);
		check(os_local_get(&key_plain) == u);
	}
	return 0;
}

static void local_run(void *arg)
{
	struct local_user *u = arg;
	u->failed_line = local_use(u);
}

static int body_local(void *arg)
{
	struct local_user users[4] = {{1, 1, 0}, {1, 1, 0}, {1, 1, 0}, {3, 1, 0}};
	struct os_thread *threads[4];
	destroyed = 0;
	os_mutex_init(&destroyed_lock);
	for (size_t i = 0; i < 4; i++)
		start(&threads[i], "user", local_run, &users[i]);
	for (size_t i = 0; i < 4; i++)
		os_thread_join(threads[i]);
	for (size_t i = 0; i < 4; i++)
		if (users[i].failed_line)
			return users[i].failed_line;
	check(destroyed == 4 * 2 + 2);
	check(os_local_get(&key_a) == NULL);
	os_mutex_destroy(&destroyed_lock);
	return 0;
}

static int body_interrupt(void *arg)
{
	check(!os_interrupted());
	os_interrupt();
	check(os_interrupted());
	os_interrupt_clear();
	check(!os_interrupted());
	return 0;
}

/* --- the two worlds ------------------------------------------------------------------------------ */

static const struct {
	const char *name;
	int (*run)(void *arg);
} bodies[] = {
	{"mutex", body_mutex},
	{"queue", body_queue},
	{"wait until", body_wait_until},
	{"time", body_time},
	{"timers", body_timers},
	{"cancel", body_cancel},
	{"local", body_local},
	{"interrupt", body_interrupt},
};

static void real_world(void **state)
{
	assert_false(os_is_simulated());
	for (size_t i = 0; i < array_count(bodies); i++) {
		int result = bodies[i].run(NULL);
		if (result != 0)
			fail_msg("%s, line %d", bodies[i].name, -10000 - result);
	}
}

#ifdef __SANITIZE_THREAD__
#define SEEDS_DEFAULT 10 /* making a fiber is slow there */
#else
#define SEEDS_DEFAULT 100
#endif

static void simulated_worlds(void **state)
{
	const char *seeds_text = getenv("SPINDLE_SEEDS");
	uint64_t seeds = SEEDS_DEFAULT;
	if (seeds_text)
		assert_int_equal(number_parse("SPINDLE_SEEDS", seeds_text, 1, 1000000, &seeds, NULL), 0);
	for (uint64_t seed = 0; seed < seeds; seed++)
		for (size_t i = 0; i < array_count(bodies); i++) {
			struct os_simulation s;
			struct error err = ERROR_INIT;
			os_simulation_init(&s, seed);
			int result = os_simulate(&s, bodies[i].run, NULL, &err);
			if (result != 0)
				fail_msg("%s, seed %d, result %d (line %d): %s", bodies[i].name, (int)seed, result,
					-10000 - result, err.text);
		}
}

static void *foreign_run(void *arg)
{
	int *value = arg;
	if (os_local_set(&key_a, value, NULL) != 0 || os_local_get(&key_a) != value)
		*value = -1;
	return NULL;
}

/* On a thread that os did not make. */
static void foreign_threads_have_values(void **state)
{
	pthread_t thread;
	int value = 1;
	destroyed = 0;
	os_mutex_init(&destroyed_lock);
	assert_int_equal(pthread_create(&thread, NULL, foreign_run, &value), 0);
	pthread_join(thread, NULL);
	assert_int_equal(value, 0);
	assert_int_equal(destroyed, 1);
	os_mutex_destroy(&destroyed_lock);
}

static char seen_name[16];

static void name_run(void *arg)
{
	pthread_getname_np(pthread_self(), seen_name, sizeof(seen_name));
}

static void threads_show_their_names(void **state)
{
	struct os_thread *thread;
	start(&thread, "a name longer than Linux keeps", name_run, NULL);
	os_thread_join(thread);
	assert_string_equal(seen_name, "a name longer t");
}

static void busy_time_grows(void **state)
{
	struct os_cpu_usage before, after;
	os_cpu_usage(&before);
	uint64_t until_ns = os_now_ns() + 60 * MS;
	while (os_now_ns() < until_ns)
		;
	os_cpu_usage(&after);
	assert_true(after.process_ns > before.process_ns);
	assert_true(after.system_total_ns > before.system_total_ns);
	assert_true(after.system_busy_ns >= before.system_busy_ns);
	assert_true(after.system_busy_ns - before.system_busy_ns <= after.system_total_ns - before.system_total_ns);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(real_world),
		cmocka_unit_test(simulated_worlds),
		cmocka_unit_test(real_world), /* a simulation leaves nothing behind */
		cmocka_unit_test(foreign_threads_have_values),
		cmocka_unit_test(threads_show_their_names),
		cmocka_unit_test(busy_time_grows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
