/* The simulated world: determinism, planted mistakes that seeds must find, the clock, the CPUs, how it ends. Bodies
 * use sp_assert or return a result: an assertion of the test library would jump off the fiber's stack. */
#include "os.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
#define S (1000 * MS)
#define check(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			return -10000 - __LINE__;                                                                      \
	} while (0)

static void start(struct os_thread **thread, const char *name, void (*run)(void *), void *arg)
{
	int result = os_thread_create(thread, name, run, arg, NULL);
	sp_assert(result == 0);
}

static int simulate(struct os_simulation *s, uint64_t seed, int (*run)(void *), void *arg, struct error *err)
{
	os_simulation_init(s, seed);
	return os_simulate(s, run, arg, err);
}

static void simulate_ok(struct os_simulation *s, uint64_t seed, int (*run)(void *), void *arg)
{
	struct error err = ERROR_INIT;
	int result = simulate(s, seed, run, arg, &err);
	if (result != 0)
		fail_msg("seed %d, result %d (line %d): %s", (int)seed, result, -10000 - result, err.text);
}

/* --- same seed, same run ------------------------------------------------------------------------- */

struct mix {
	struct os_mutex lock;
	struct os_cond changed;
	struct os_timer timer;
	unsigned ticks, turns;
	uint64_t random_sum;
	char order[400];
	size_t length;
};

struct mixer {
	struct mix *mix;
	char letter;
};

static void mix_note(struct mix *m, char letter)
{
	if (m->length < sizeof(m->order) - 1)
		m->order[m->length++] = letter;
}

static void mix_tick(struct os_timer *timer)
{
	struct mix *m = container_of(timer, struct mix, timer);
	os_scoped_lock(&m->lock);
	mix_note(m, '.');
	if (++m->ticks < 20)
		os_timer_set(timer, os_now_ns() + 7000);
	os_cond_broadcast(&m->changed);
}

static void mix_run(void *arg)
{
	struct mixer *self = arg;
	struct mix *m = self->mix;
	for (unsigned i = 0; i < 15; i++) {
		os_charge(OS_STAGE_REQUEST, 0);
		os_charge(OS_STAGE_PARITY1, 1000 * i);
		os_scoped_lock(&m->lock);
		mix_note(m, self->letter);
		m->random_sum = m->random_sum * 31 + os_random_u64();
		m->turns++;
		os_cond_signal(&m->changed);
		if (i % 3 == 0)
			os_cond_wait_until(&m->changed, &m->lock, os_now_ns() + 5000);
	}
}

static int body_mix(void *arg)
{
	struct mix *m = arg;
	memset(m, 0, sizeof(*m));
	os_mutex_init(&m->lock);
	os_cond_init(&m->changed);
	os_timer_init(&m->timer, mix_tick);
	struct os_thread *threads[4];
	struct mixer mixers[4];
	for (int i = 0; i < 4; i++) {
		mixers[i] = (struct mixer){m, (char)('a' + i)};
		start(&threads[i], "mixer", mix_run, &mixers[i]);
	}
	os_timer_set(&m->timer, 1000);
	for (int i = 0; i < 4; i++)
		os_thread_join(threads[i]);
	os_timer_cancel(&m->timer);
	check(m->turns == 60);
	os_cond_destroy(&m->changed);
	os_mutex_destroy(&m->lock);
	return 0;
}

static void same_seed_same_run(void **state)
{
	for (uint64_t seed = 0; seed < 50; seed++) {
		struct os_simulation a, b;
		struct mix first, second;
		simulate_ok(&a, seed, body_mix, &first);
		scoped_free char *elsewhere = malloc(100000 + seed * 4096); /* other addresses for what follows */
		assert_non_null(elsewhere);
		simulate_ok(&b, seed, body_mix, &second);
		assert_true(a.trace_hash == b.trace_hash);
		assert_true(a.switches == b.switches);
		assert_true(a.end_ns == b.end_ns && a.end_ns > 0);
		assert_true(a.cpu_ns == b.cpu_ns && a.cpu_ns > 0);
		assert_string_equal(first.order, second.order);
		assert_true(first.random_sum == second.random_sum);
	}
}

static void other_seeds_other_runs(void **state)
{
	uint64_t hashes[50];
	static struct mix mixes[50];
	int same_order = 0;
	for (uint64_t seed = 0; seed < 50; seed++) {
		struct os_simulation s;
		simulate_ok(&s, seed, body_mix, &mixes[seed]);
		hashes[seed] = s.trace_hash;
		for (uint64_t other = 0; other < seed; other++) {
			assert_true(hashes[seed] != hashes[other]);
			same_order += strcmp(mixes[seed].order, mixes[other].order) == 0;
		}
	}
	assert_true(same_order < 5);
}

/* --- a planted lost wake-up ---------------------------------------------------------------------- */

struct mailbox {
	struct os_mutex lock;
	struct os_cond arrived;
	bool full;
	bool correct;
};

static bool mailbox_peek(struct mailbox *m)
{
	os_scoped_lock(&m->lock);
	return m->full;
}

static void mailbox_receive(void *arg)
{
	struct mailbox *m = arg;
	if (m->correct) {
		os_scoped_lock(&m->lock);
		while (!m->full)
			os_cond_wait(&m->arrived, &m->lock);
		return;
	}
	while (!mailbox_peek(m)) { /* the mistake: between this look and the wait the letter may come */
		os_scoped_lock(&m->lock);
		os_cond_wait(&m->arrived, &m->lock);
	}
}

static void mailbox_send(void *arg)
{
	struct mailbox *m = arg;
	os_mutex_lock(&m->lock);
	m->full = true;
	os_mutex_unlock(&m->lock);
	os_cond_signal(&m->arrived);
}

static int body_mailbox(void *arg)
{
	static struct mailbox m; /* a deadlock abandons this fiber's stack */
	m = (struct mailbox){.correct = *(bool *)arg};
	os_mutex_init(&m.lock);
	os_cond_init(&m.arrived);
	struct os_thread *receiver, *sender;
	start(&receiver, "receiver", mailbox_receive, &m);
	start(&sender, "sender", mailbox_send, &m);
	os_thread_join(sender);
	os_thread_join(receiver);
	return 0;
}

static void a_lost_wake_up_is_found(void **state)
{
	int found = 0;
	for (uint64_t seed = 0; seed < 200; seed++) {
		struct os_simulation s;
		struct error err = ERROR_INIT;
		bool correct = false;
		int result = simulate(&s, seed, body_mailbox, &correct, &err);
		if (result == 0)
			continue;
		found++;
		assert_int_equal(result, ERR_DEADLOCK);
		assert_int_equal(err.code, ERR_DEADLOCK);
		assert_non_null(strstr(err.text, "receiver waits on condition 1"));
		assert_non_null(strstr(err.text, "main waits for the end of receiver"));
		assert_null(strstr(err.text, "sender"));
		uint64_t hash = s.trace_hash; /* the seed replays it */
		assert_int_equal(simulate(&s, seed, body_mailbox, &correct, NULL), ERR_DEADLOCK);
		assert_true(hash == s.trace_hash);
		correct = true;
		simulate_ok(&s, seed, body_mailbox, &correct);
	}
	print_message("lost wake-up: %d of 200 seeds\n", found);
	assert_in_range(found, 2, 199);
	for (uint64_t seed = 0; seed < 2000; seed++) {
		struct os_simulation s;
		bool correct = true;
		simulate_ok(&s, seed, body_mailbox, &correct);
	}
}

/* --- a planted ordering mistake ------------------------------------------------------------------ */

struct account {
	struct os_mutex lock;
	int low, high; /* equal whenever the lock is free */
	bool correct, torn;
};

static void account_write(void *arg)
{
	struct account *a = arg;
	for (int i = 0; i < 3; i++) {
		os_mutex_lock(&a->lock);
		a->low++;
		if (!a->correct) { /* the mistake: two steps under two holds of the lock */
			os_mutex_unlock(&a->lock);
			os_mutex_lock(&a->lock);
		}
		a->high++;
		os_mutex_unlock(&a->lock);
	}
}

static void account_read(void *arg)
{
	struct account *a = arg;
	for (int i = 0; i < 3; i++) {
		os_scoped_lock(&a->lock);
		a->torn |= a->low != a->high;
	}
}

static int body_account(void *arg)
{
	struct account a = {.correct = *(bool *)arg};
	os_mutex_init(&a.lock);
	struct os_thread *writer, *reader;
	start(&writer, "writer", account_write, &a);
	start(&reader, "reader", account_read, &a);
	os_thread_join(reader);
	os_thread_join(writer);
	os_mutex_destroy(&a.lock);
	return a.torn ? ERR_CORRUPT : 0;
}

static void an_ordering_mistake_is_found(void **state)
{
	int found = 0;
	for (uint64_t seed = 0; seed < 300; seed++) {
		struct os_simulation s;
		bool correct = false;
		int result = simulate(&s, seed, body_account, &correct, NULL);
		assert_true(result == 0 || result == ERR_CORRUPT);
		found += result != 0;
		correct = true;
		simulate_ok(&s, seed, body_account, &correct);
	}
	print_message("ordering mistake: %d of 300 seeds\n", found);
	assert_in_range(found, 2, 299);
}

/* --- a wait that takes any wake-up for the one it waits for -------------------------------------- */

static void mailbox_receive_once(void *arg)
{
	struct mailbox *m = arg;
	os_scoped_lock(&m->lock);
	if (!m->full) /* the mistake: no loop */
		os_cond_wait(&m->arrived, &m->lock);
	m->correct = m->full;
}

static int body_no_loop(void *arg)
{
	struct mailbox m = {0};
	os_mutex_init(&m.lock);
	os_cond_init(&m.arrived);
	struct os_thread *receiver, *sender;
	start(&receiver, "receiver", mailbox_receive_once, &m);
	start(&sender, "sender", mailbox_send, &m);
	os_thread_join(sender);
	os_thread_join(receiver);
	return m.correct ? 0 : ERR_CORRUPT;
}

static void a_wait_without_a_loop_is_found(void **state)
{
	int found = 0;
	for (uint64_t seed = 0; seed < 1000; seed++) {
		struct os_simulation s;
		found += simulate(&s, seed, body_no_loop, NULL, NULL) == ERR_CORRUPT;
	}
	print_message("wait without a loop: %d of 1000 seeds\n", found);
	assert_in_range(found, 1, 500);
}

/* --- the clock ----------------------------------------------------------------------------------- */

static void sleep_an_hour(void *arg)
{
	os_sleep_ns(3600 * S);
	*(uint64_t *)arg = os_now_ns();
}

static int body_clock(void *arg)
{
	check(os_is_simulated());
	check(os_now_ns() == 0);
	check(os_real_now_ns() > 0);
	check(os_wall_ns() == UINT64_C(1700000000) * S);
	os_sleep_ns(1);
	check(os_now_ns() == 1);
	os_sleep_until_ns(3600 * S);
	check(os_now_ns() == 3600 * S);
	os_sleep_until_ns(5); /* has passed */
	check(os_now_ns() == 3600 * S);
	check(os_wall_ns() == (UINT64_C(1700000000) + 3600) * S);

	uint64_t ends_ns[3] = {0};
	struct os_thread *threads[3];
	for (int i = 0; i < 3; i++)
		start(&threads[i], "sleeper", sleep_an_hour, &ends_ns[i]);
	os_sleep_ns(1800 * S);
	check(os_now_ns() == 5400 * S && ends_ns[0] == 0);
	for (int i = 0; i < 3; i++)
		os_thread_join(threads[i]);
	for (int i = 0; i < 3; i++)
		check(ends_ns[i] == 7200 * S);

	struct os_mutex lock;
	struct os_cond never;
	os_mutex_init(&lock);
	os_cond_init(&never);
	os_mutex_lock(&lock);
	while (os_cond_wait_until(&never, &lock, 7200 * S + 17))
		;
	check(os_now_ns() == 7200 * S + 17);
	os_mutex_unlock(&lock);
	os_cond_destroy(&never);
	os_mutex_destroy(&lock);
	return 0;
}

static void the_virtual_clock_is_exact(void **state)
{
	uint64_t before_ns = os_now_ns();
	for (uint64_t seed = 0; seed < 100; seed++) {
		struct os_simulation s;
		simulate_ok(&s, seed, body_clock, NULL);
		assert_true(s.end_ns == 7200 * S + 17);
	}
	assert_true(os_now_ns() - before_ns < 20 * S); /* 200 hours */
}

struct alarm {
	struct os_timer timer;
	uint64_t fired_ns;
	int *next, place;
};

static void alarm_fire(struct os_timer *timer)
{
	struct alarm *a = container_of(timer, struct alarm, timer);
	a->fired_ns = os_now_ns();
	a->place = (*a->next)++;
}

static int body_alarms(void *arg)
{
	enum { COUNT = 60 };
	static struct alarm alarms[COUNT];
	int next = 0;
	struct random r;
	random_seed(&r, *(uint64_t *)arg);
	for (int i = 0; i < COUNT; i++) {
		alarms[i] = (struct alarm){.next = &next};
		os_timer_init(&alarms[i].timer, alarm_fire);
		os_timer_set(&alarms[i].timer, 100 + random_below(&r, 10) * 1000);
	}
	for (int i = 0; i < COUNT / 2; i++) /* some are moved, and so set last */
		os_timer_set(&alarms[random_below(&r, COUNT)].timer, 100 + random_below(&r, 10) * 1000);
	os_sleep_until_ns(20000);
	check(next == COUNT);
	for (int i = 0; i < COUNT; i++) {
		check(alarms[i].fired_ns == alarms[i].timer.due_ns);
		for (int k = 0; k < COUNT; k++) {
			const struct os_timer *a = &alarms[i].timer, *b = &alarms[k].timer;
			if (a->due_ns < b->due_ns || (a->due_ns == b->due_ns && a->order < b->order))
				check(alarms[i].place < alarms[k].place);
		}
	}
	return 0;
}

static void timers_fire_at_their_instant_in_order(void **state)
{
	for (uint64_t seed = 0; seed < 100; seed++) {
		struct os_simulation s;
		simulate_ok(&s, seed, body_alarms, &seed);
	}
}

/* --- the CPUs ------------------------------------------------------------------------------------------------------
 */

static void work(void *arg)
{
	for (int i = 0; i < 100; i++)
		os_charge(OS_STAGE_REQUEST, 0); /* 10 us each */
}

static int body_work(void *arg)
{
	struct os_thread *threads[4];
	for (int i = 0; i < 4; i++)
		start(&threads[i], "worker", work, NULL);
	for (int i = 0; i < 4; i++)
		os_thread_join(threads[i]);
	struct os_cpu_usage usage;
	os_cpu_usage(&usage);
	*(struct os_cpu_usage *)arg = usage;
	return 0;
}

static void work_waits_for_a_cpu(void **state)
{
	static const struct {
		unsigned cpus;
		uint64_t end_ns, cpu_ns;
	} cases[] = {{1, 4 * MS, 4 * MS}, {2, 2 * MS, 4 * MS}, {4, MS, 4 * MS}, {8, MS, 4 * MS}, {0, 0, 0}};
	for (uint64_t seed = 0; seed < 20; seed++)
		for (size_t i = 0; i < array_count(cases); i++) {
			struct os_simulation s;
			struct os_cpu_usage usage;
			os_simulation_init(&s, seed);
			s.cpus = cases[i].cpus;
			s.costs[OS_STAGE_REQUEST] = (struct os_cost){10000, 0};
			assert_int_equal(os_simulate(&s, body_work, &usage, NULL), 0);
			assert_true(s.end_ns == cases[i].end_ns);
			assert_true(s.cpu_ns == cases[i].cpu_ns);
			assert_true(usage.process_ns == cases[i].cpu_ns && usage.system_busy_ns == cases[i].cpu_ns);
			assert_true(usage.system_total_ns == cases[i].cpus * cases[i].end_ns);
			assert_int_equal(usage.cpus, cases[i].cpus);
		}
}

static int body_small_charges(void *arg)
{
	for (int i = 0; i < 1000; i++)
		os_charge(OS_STAGE_COPY, 1024); /* 100 ns each */
	os_charge(OS_STAGE_CALL, 0);            /* 7 ns, still owed at the end */
	return 0;
}

static void small_charges_add_up(void **state)
{
	struct os_simulation s;
	os_simulation_init(&s, 3);
	s.costs[OS_STAGE_COPY] = (struct os_cost){0, 100};
	s.costs[OS_STAGE_CALL] = (struct os_cost){7, 0};
	assert_int_equal(os_simulate(&s, body_small_charges, NULL, NULL), 0);
	assert_true(s.end_ns == 100007 && s.cpu_ns == 100007);
}

/* --- fibers ---------------------------------------------------------------------------------------------------------
 */

static void deep(int depth)
{
	volatile char page[8192];
	memset((char *)page, depth, sizeof(page));
	if (depth > 0)
		deep(depth - 1);
	sp_assert(page[100] == (char)depth);
}

static void fiber_work(void *arg)
{
	os_thread_yield();
	deep(20);
	double x = 1;
	for (int i = 0; i < 5; i++) {
		os_thread_yield();
		x = x * 1.5 + i;
	}
	sp_assert(x > 1);
}

static int body_many(void *arg)
{
	enum { COUNT = 300 };
	static struct os_thread *threads[COUNT];
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < COUNT; i++)
			start(&threads[i], "one of many", fiber_work, NULL);
		for (int i = 0; i < COUNT; i++)
			os_thread_join(threads[(i * 7) % COUNT]);
	}
	return 0;
}

static void many_fibers(void **state)
{
	struct os_simulation s;
	simulate_ok(&s, 1, body_many, NULL);
}

static void poll_until(void *arg)
{
	while (!*(volatile bool *)arg)
		os_thread_yield();
}

static int body_poll(void *arg)
{
	bool done = false;
	struct os_thread *pollers[2];
	start(&pollers[0], "poller", poll_until, &done);
	start(&pollers[1], "poller", poll_until, &done);
	os_sleep_ns(MS);
	done = true;
	os_thread_join(pollers[0]);
	os_thread_join(pollers[1]);
	return 0;
}

static void polling_lets_time_pass(void **state)
{
	for (uint64_t seed = 0; seed < 20; seed++) {
		struct os_simulation s;
		simulate_ok(&s, seed, body_poll, NULL);
		assert_true(s.end_ns == MS);
	}
}

/* --- how worlds end -------------------------------------------------------------------------------------------------
 */

static struct {
	struct os_mutex a, b;
} fork_and_spoon;

static void take_both_ways(void *arg)
{
	bool a_first = arg != NULL;
	struct os_mutex *first = a_first ? &fork_and_spoon.a : &fork_and_spoon.b;
	struct os_mutex *second = a_first ? &fork_and_spoon.b : &fork_and_spoon.a;
	for (int i = 0; i < 5; i++) {
		os_mutex_lock(first);
		os_mutex_lock(second);
		os_mutex_unlock(second);
		os_mutex_unlock(first);
	}
}

static int body_two_locks(void *arg)
{
	os_mutex_init(&fork_and_spoon.a);
	os_mutex_init(&fork_and_spoon.b);
	struct os_thread *ann, *bob;
	start(&ann, "ann", take_both_ways, &fork_and_spoon);
	start(&bob, "bob", take_both_ways, NULL);
	os_thread_join(ann);
	os_thread_join(bob);
	return 0;
}

static void a_deadlock_names_who_holds_what(void **state)
{
	int found = 0;
	for (uint64_t seed = 0; seed < 100; seed++) {
		struct os_simulation s;
		struct error err = ERROR_INIT;
		if (simulate(&s, seed, body_two_locks, NULL, &err) == 0)
			continue;
		found++;
		assert_int_equal(err.code, ERR_DEADLOCK);
		assert_non_null(strstr(err.text, "ann waits for a lock that bob holds"));
		assert_non_null(strstr(err.text, "bob waits for a lock that ann holds"));
		assert_non_null(strstr(err.text, "main waits for the end of ann"));
	}
	assert_in_range(found, 10, 100);
}

static void sleep_a_second(void *arg)
{
	os_sleep_ns(S);
}

static int body_unjoined(void *arg)
{
	struct os_thread *thread;
	start(&thread, "stray", sleep_a_second, NULL);
	return *(int *)arg;
}

static void an_unjoined_thread_is_told(void **state)
{
	struct os_simulation s;
	struct error err = ERROR_INIT;
	int result = 0;
	assert_int_equal(simulate(&s, 1, body_unjoined, &result, &err), ERR_BUG);
	assert_non_null(strstr(err.text, "stray"));
	error_clear(&err);
	result = ERR_LOST; /* what went wrong first is worth more */
	assert_int_equal(simulate(&s, 1, body_unjoined, &result, &err), ERR_LOST);
	assert_int_equal(err.code, 0);
}

static int body_nested(void *arg)
{
	struct os_simulation s;
	struct error err = ERROR_INIT;
	check(simulate(&s, 1, body_clock, NULL, &err) == ERR_USAGE);
	check(err.code == ERR_USAGE);
	return 42;
}

static void worlds_do_not_nest_and_results_come_back(void **state)
{
	struct os_simulation s;
	assert_int_equal(simulate(&s, 1, body_nested, NULL, NULL), 42);
	assert_false(os_is_simulated());
}

static void simulate_elsewhere(void *arg)
{
	struct os_simulation *s = arg;
	struct mix m;
	int result = simulate(s, 5, body_mix, &m, NULL);
	sp_assert(result == 0 && !os_is_simulated());
}

/* From threads that are not the main one, even at once: each has its own world. */
static void any_thread_can_simulate(void **state)
{
	struct os_simulation here, there[2];
	struct mix m;
	struct os_thread *threads[2];
	for (int i = 0; i < 2; i++)
		start(&threads[i], "elsewhere", simulate_elsewhere, &there[i]);
	simulate_ok(&here, 5, body_mix, &m);
	for (int i = 0; i < 2; i++)
		os_thread_join(threads[i]);
	assert_true(here.trace_hash == there[0].trace_hash && here.trace_hash == there[1].trace_hash);
}

/* --- speed, told and not judged: the machine may be busy -------------------------------------------------------------
 */

enum { SPEED_ROUNDS = 100000 };

static int body_lock_speed(void *arg)
{
	struct os_mutex lock;
	os_mutex_init(&lock);
	for (int i = 0; i < SPEED_ROUNDS; i++) {
		os_mutex_lock(&lock);
		os_mutex_unlock(&lock);
	}
	os_mutex_destroy(&lock);
	return 0;
}

static void doze(void *arg)
{
	for (int i = 0; i < SPEED_ROUNDS / 4; i++)
		os_sleep_ns(1000);
}

static int body_switch_speed(void *arg)
{
	struct os_thread *threads[4];
	for (int i = 0; i < 4; i++)
		start(&threads[i], "dozer", doze, NULL);
	for (int i = 0; i < 4; i++)
		os_thread_join(threads[i]);
	return 0;
}

static void speed(void **state)
{
	struct os_simulation s;
	uint64_t t0_ns = os_now_ns();
	simulate_ok(&s, 1, body_lock_speed, NULL);
	uint64_t t1_ns = os_now_ns();
	simulate_ok(&s, 1, body_switch_speed, NULL);
	uint64_t t2_ns = os_now_ns();
	print_message("lock and unlock: %.1f ns; switch: %.1f ns\n", (double)(t1_ns - t0_ns) / SPEED_ROUNDS,
		(double)(t2_ns - t1_ns) / (double)s.switches);
	assert_true(s.switches >= SPEED_ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_seed_same_run),
		cmocka_unit_test(other_seeds_other_runs),
		cmocka_unit_test(a_lost_wake_up_is_found),
		cmocka_unit_test(an_ordering_mistake_is_found),
		cmocka_unit_test(a_wait_without_a_loop_is_found),
		cmocka_unit_test(the_virtual_clock_is_exact),
		cmocka_unit_test(timers_fire_at_their_instant_in_order),
		cmocka_unit_test(work_waits_for_a_cpu),
		cmocka_unit_test(small_charges_add_up),
		cmocka_unit_test(many_fibers),
		cmocka_unit_test(polling_lets_time_pass),
		cmocka_unit_test(a_deadlock_names_who_holds_what),
		cmocka_unit_test(an_unjoined_thread_is_told),
		cmocka_unit_test(worlds_do_not_nest_and_results_come_back),
		cmocka_unit_test(any_thread_can_simulate),
		cmocka_unit_test(speed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
