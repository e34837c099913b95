#include "fiber.h"
#include "internal.h"

#include <stdio.h>
#include <string.h>

/*
 * The simulated world.
 *
 * Every thread is a fiber of the pthread that called os_simulate(). One runs; those that could run are in an array,
 * those that wait are in the list of what they wait for, and those with a deadline are also in a heap of events.
 *
 *              pick (seeded)                    lock taken, condition, join, sleep, CPU busy
 *   RUNNABLE ───────────────► running ──────────────────────────────────────────────► BLOCKED
 *      ▲  ▲                      │ preempt (seeded, at lock, unlock, signal, create)       │
 *      │  └──────────────────────┘                                                         │
 *      └────────────────────── unlock, signal, finish, event due ◄─────────────────────────┘
 *
 * Where a real system may do one thing or another, the generator chooses: which runnable fiber is next, whether a
 * call that need not wait is preempted, which waiter a signal wakes, whether a lock goes to who was woken or to who
 * comes by, and now and then a condition wakes for no reason. How eager it is to preempt is drawn per world, since
 * some mistakes need many preemptions and others one at the right place (as in Burckhardt et al., "A randomized
 * scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010).
 */

enum thread_state { RUNNABLE, RUNNING, BLOCKED, FINISHED };
enum waiting_for { WAIT_NOTHING, WAIT_MUTEX, WAIT_COND, WAIT_JOIN, WAIT_TIME };

struct sim_thread {
	struct fiber fiber;
	struct list all;       /* in sim.threads, in order of creation */
	struct list waiter;    /* in a mutex's or a condition's list */
	struct os_timer event; /* in sim.events while it waits with a deadline */
	enum thread_state state;
	enum waiting_for waiting_for;
	bool timed_out;
	const void *waiting_on; /* mutex, condition or thread */
	struct sim_thread *joiner;
	struct locals locals;
	uint64_t number;
	uint64_t debt_ns; /* charged, not yet paid in time */
	void (*run)(void *arg);
	void *arg;
	char name[THREAD_NAME_BYTES];
};

struct sim {
	struct os_simulation *params;
	struct random random;
	uint64_t coins;                   /* random bits not yet used for preemption */
	unsigned coin_bits, preempt_bits; /* preempts once in 2^preempt_bits */
	uint64_t world;
	uint64_t now_ns;
	struct sim_thread *current;
	struct sim_thread **runnable;
	size_t runnable_count, runnable_room;
	struct os_timer *events;
	uint64_t event_order;
	uint64_t idle_yields; /* since something else happened */
	uint64_t *cpu_free_ns;
	struct list threads;
	size_t thread_count;
	uint64_t threads_made;
	struct timekeeper timekeeper;
	struct fiber_stacks stacks;
	struct fiber own; /* the pthread itself, within os_simulate() */
	struct fiber *switched_from;
	int (*run)(void *arg);
	void *arg;
	int result;
	uint64_t picks_at_now;
	bool is_done, is_deadlocked, is_standing_still;
	char unjoined[THREAD_NAME_BYTES]; /* name of a thread that outlived `run` */
};

_Thread_local struct sim *os__sim __attribute__((tls_model("initial-exec")));

#define DEBT_NS_MIN 2000 /* smaller charges gather until they are worth a switch */
#define SPURIOUS_WAKE_BITS 6
#define WAKE_CHOICES_MAX 8
/* So long without the clock moving is a loop that waits for time to pass (or sets a timer due at once for ever). */
#define PICKS_AT_ONE_TIME_MAX UINT64_C(100000000)

/* --- the scheduler ------------------------------------------------------------------------------- */

/* True once in 2^bits. */
static bool coin(struct sim *sim, unsigned bits)
{
	if (sim->coin_bits < bits) {
		sim->coins = random_u64(&sim->random);
		sim->coin_bits = 64;
	}
	bool hit = (sim->coins & ((UINT64_C(1) << bits) - 1)) == 0;
	sim->coins >>= bits;
	sim->coin_bits -= bits;
	return hit;
}

static void make_runnable(struct sim *sim, struct sim_thread *t)
{
	sp_assert(sim->runnable_count < sim->runnable_room);
	t->state = RUNNABLE;
	t->waiting_for = WAIT_NOTHING;
	t->waiting_on = NULL;
	sim->runnable[sim->runnable_count++] = t;
}

static struct sim_thread *take_runnable(struct sim *sim)
{
	size_t i = sim->runnable_count == 1 ? 0 : random_below(&sim->random, sim->runnable_count);
	struct sim_thread *t = sim->runnable[i];
	sim->runnable[i] = sim->runnable[--sim->runnable_count];
	return t;
}

static void event_set(struct sim *sim, struct sim_thread *t, uint64_t due_ns)
{
	sp_assert(due_ns > sim->now_ns); /* OS-3 */
	t->event.due_ns = due_ns;
	t->event.order = ++sim->event_order;
	os__heap_insert(&sim->events, &t->event);
}

static void event_cancel(struct sim *sim, struct sim_thread *t)
{
	if (t->event.is_set)
		os__heap_remove(&sim->events, &t->event);
}

static void clock_jump(struct sim *sim)
{
	sp_assert(sim->events->due_ns > sim->now_ns); /* OS-2 */
	sim->now_ns = sim->events->due_ns;
	sim->picks_at_now = 0;
	while (sim->events && sim->events->due_ns == sim->now_ns) {
		struct sim_thread *t = container_of(sim->events, struct sim_thread, event);
		os__heap_remove(&sim->events, &t->event);
		list_remove(&t->waiter);
		make_runnable(sim, t);
	}
	sim->idle_yields = 0;
}

static void trace_add(struct sim *sim, uint64_t number)
{
	uint64_t h = sim->params->trace_hash ^ (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
	h = (h ^ (h >> 29) ^ sim->now_ns) * UINT64_C(0xbf58476d1ce4e5b9);
	sim->params->trace_hash = h ^ (h >> 32);
	sim->params->switches++;
}

static void leave_world(struct sim *sim)
{
	sim->switched_from = &sim->current->fiber;
	fiber_switch(&sim->current->fiber, &sim->own, true);
	sp_assert(!"a fiber ran after its world ended");
}

/* The current fiber is runnable (and in the array), blocked or finished; picks who runs and goes there. */
static void schedule(struct sim *sim)
{
	struct sim_thread *from = sim->current;
	while (sim->runnable_count == 0) {
		if (!sim->events) {
			sim->is_deadlocked = true;
			leave_world(sim);
		}
		clock_jump(sim);
	}
	if (++sim->picks_at_now > PICKS_AT_ONE_TIME_MAX) {
		sim->is_standing_still = true;
		leave_world(sim);
	}
	struct sim_thread *to = take_runnable(sim);
	trace_add(sim, to->number);
	to->state = RUNNING;
	if (to == from)
		return;
	sim->current = to;
	sim->switched_from = &from->fiber;
	fiber_switch(&from->fiber, &to->fiber, from->state == FINISHED);
}

static void preempt(struct sim *sim)
{
	make_runnable(sim, sim->current);
	schedule(sim);
}

/* A point where a real system might run another thread. */
static void maybe_preempt(struct sim *sim)
{
	if (sim->runnable_count > 0 && coin(sim, sim->preempt_bits))
		preempt(sim);
}

static void block(struct sim *sim, enum waiting_for what, const void *on)
{
	struct sim_thread *self = sim->current;
	self->state = BLOCKED;
	self->waiting_for = what;
	self->waiting_on = on;
	sim->idle_yields = 0;
	schedule(sim);
}

static void sleep_until(struct sim *sim, uint64_t deadline_ns)
{
	/* Nobody else can run before then: only the clock moves. */
	if (sim->runnable_count == 0 && (!sim->events || sim->events->due_ns > deadline_ns)) {
		sim->now_ns = deadline_ns;
		sim->picks_at_now = 0;
		return;
	}
	event_set(sim, sim->current, deadline_ns);
	block(sim, WAIT_TIME, NULL);
}

/* --- CPU ----------------------------------------------------------------------------------------- */

/* Takes the CPU that is free first, from now or from when it is free, for as long as was charged. */
static void pay_debt(struct sim *sim)
{
	struct sim_thread *self = sim->current;
	if (self->debt_ns == 0)
		return;
	unsigned first = 0;
	for (unsigned i = 1; i < sim->params->cpus; i++)
		if (sim->cpu_free_ns[i] < sim->cpu_free_ns[first])
			first = i;
	uint64_t done_ns = max_of(sim->now_ns, sim->cpu_free_ns[first]) + self->debt_ns;
	sim->cpu_free_ns[first] = done_ns;
	self->debt_ns = 0;
	sleep_until(sim, done_ns);
}

void sim__charge(enum os_stage stage, uint64_t bytes)
{
	struct sim *sim = os__sim;
	if (sim->params->cpus == 0)
		return;
	const struct os_cost *cost = &sim->params->costs[stage];
	uint64_t ns = (uint64_t)(cost->fixed_ns + (double)bytes * cost->ns_per_kib / 1024 + 0.5);
	sim->current->debt_ns += ns;
	sim->params->cpu_ns += ns;
	if (sim->current->debt_ns >= DEBT_NS_MIN)
		pay_debt(sim);
}

void sim__cpu_usage(struct os_cpu_usage *ret)
{
	const struct sim *sim = os__sim;
	*ret = (struct os_cpu_usage){
		.process_ns = sim->params->cpu_ns,
		.system_busy_ns = sim->params->cpu_ns,
		.system_total_ns = sim->params->cpus * sim->now_ns,
		.cpus = sim->params->cpus,
	};
}

/* --- time ---------------------------------------------------------------------------------------- */

uint64_t sim__now_ns(void)
{
	return os__sim->now_ns;
}

uint64_t sim__random_u64(void)
{
	return random_u64(&os__sim->random);
}

void sim__sleep_until_ns(uint64_t deadline_ns)
{
	struct sim *sim = os__sim;
	pay_debt(sim);
	if (deadline_ns > sim->now_ns)
		sleep_until(sim, deadline_ns);
	else
		maybe_preempt(sim);
}

/* --- threads ------------------------------------------------------------------------------------- */

static struct sim_thread *sim_thread_of(struct os_thread *t)
{
	return (struct sim_thread *)(void *)t;
}

struct os_thread *sim__thread_self(void)
{
	return (struct os_thread *)(void *)os__sim->current;
}

struct locals *sim__locals(void)
{
	return &os__sim->current->locals;
}

static void fiber_main(void)
{
	struct sim *sim = os__sim;
	struct sim_thread *self = sim->current;
	fiber_entered(sim->switched_from);
	self->run(self->arg);
	os__locals_destroy(&self->locals);
	pay_debt(sim);
	self->state = FINISHED;
	if (sim->is_done)
		leave_world(sim);
	if (self->joiner)
		make_runnable(sim, self->joiner);
	schedule(sim);
}

static bool runnable_reserve(struct sim *sim, size_t count)
{
	if (count <= sim->runnable_room)
		return true;
	size_t room = max_of(count, sim->runnable_room * 2);
	struct sim_thread **runnable = realloc(sim->runnable, room * sizeof(struct sim_thread *));
	if (!runnable)
		return false;
	sim->runnable = runnable;
	sim->runnable_room = room;
	return true;
}

static struct sim_thread *thread_new(struct sim *sim, const char *name, void (*run)(void *), void *arg)
{
	struct sim_thread *t = calloc(1, sizeof(*t));
	if (!t || !runnable_reserve(sim, sim->thread_count + 1) || !fiber_init(&t->fiber, &sim->stacks, fiber_main)) {
		free(t);
		return NULL;
	}
	snprintf(t->name, sizeof(t->name), "%s", name);
	t->run = run;
	t->arg = arg;
	t->number = sim->threads_made++;
	list_init(&t->waiter);
	list_push_back(&sim->threads, &t->all);
	sim->thread_count++;
	return t;
}

static void thread_free(struct sim *sim, struct sim_thread *t)
{
	list_remove(&t->all);
	sim->thread_count--;
	fiber_release(&t->fiber, &sim->stacks);
	free(t->locals.slots);
	free(t);
}

int sim__thread_create(
	struct os_thread **ret_thread, const char *name, void (*run)(void *), void *arg, struct error *err)
{
	struct sim *sim = os__sim;
	struct sim_thread *t = thread_new(sim, name, run, arg);
	if (!t)
		return error_set(err, ERR_MEMORY, "no memory for thread %s", name);
	make_runnable(sim, t);
	*ret_thread = (struct os_thread *)(void *)t;
	maybe_preempt(sim);
	return 0;
}

void sim__thread_join(struct os_thread *thread)
{
	struct sim *sim = os__sim;
	struct sim_thread *t = sim_thread_of(thread);
	sp_assert(t != sim->current && !t->joiner);
	pay_debt(sim);
	t->joiner = sim->current;
	if (t->state != FINISHED)
		block(sim, WAIT_JOIN, t);
	sp_assert(t->state == FINISHED);
	thread_free(sim, t);
}

void sim__thread_yield(void)
{
	struct sim *sim = os__sim;
	pay_debt(sim);
	/* When everybody only yields, they wait for time to pass. */
	if (sim->events && ++sim->idle_yields > 8 * (sim->runnable_count + 1))
		clock_jump(sim);
	if (sim->runnable_count > 0)
		preempt(sim);
}

/* --- locks --------------------------------------------------------------------------------------- */

static struct sim_thread *owner_of(const struct os_mutex *m)
{
	return sim_thread_of(m->u.sim.owner);
}

static void wake(struct sim *sim, struct sim_thread *t)
{
	list_remove(&t->waiter);
	event_cancel(sim, t);
	make_runnable(sim, t);
	sim->idle_yields = 0;
}

static struct sim_thread *choose_waiter(struct sim *sim, struct list *waiters)
{
	unsigned count = 0;
	list_for_each(waiters, node) if (++count == WAKE_CHOICES_MAX) break;
	struct list *chosen = waiters->next;
	if (count > 1)
		for (uint64_t skip = random_below(&sim->random, count); skip > 0; skip--)
			chosen = chosen->next;
	return container_of(chosen, struct sim_thread, waiter);
}

void sim__mutex_init(struct os_mutex *m)
{
	memset(m, 0, sizeof(*m));
	list_init(&m->u.sim.waiters);
	m->u.sim.world = os__sim->world;
}

void sim__mutex_destroy(struct os_mutex *m)
{
	sp_assert(m->u.sim.world == os__sim->world);
	sp_assert(!m->u.sim.owner && list_is_empty(&m->u.sim.waiters));
	m->u.sim.world = 0;
}

static void mutex_take(struct sim *sim, struct os_mutex *m)
{
	while (m->u.sim.owner) {
		list_push_back(&m->u.sim.waiters, &sim->current->waiter);
		block(sim, WAIT_MUTEX, m);
	}
	m->u.sim.owner = (struct os_thread *)(void *)sim->current;
}

void sim__mutex_lock(struct os_mutex *m)
{
	struct sim *sim = os__sim;
	sp_assert(m->u.sim.world == sim->world);
	sp_assert(owner_of(m) != sim->current);
	maybe_preempt(sim);
	if (m->u.sim.owner)
		pay_debt(sim);
	mutex_take(sim, m);
}

static void mutex_release(struct sim *sim, struct os_mutex *m)
{
	sp_assert(m->u.sim.world == sim->world);
	sp_assert(owner_of(m) == sim->current);
	m->u.sim.owner = NULL;
	/* It has to compete with whoever comes by, as in the real world. */
	if (!list_is_empty(&m->u.sim.waiters))
		wake(sim, choose_waiter(sim, &m->u.sim.waiters));
}

void sim__mutex_unlock(struct os_mutex *m)
{
	struct sim *sim = os__sim;
	mutex_release(sim, m);
	maybe_preempt(sim);
}

void sim__cond_init(struct os_cond *c)
{
	memset(c, 0, sizeof(*c));
	list_init(&c->u.waiters);
}

void sim__cond_destroy(struct os_cond *c)
{
	sp_assert(list_is_empty(&c->u.waiters));
}

bool sim__cond_wait(struct os_cond *c, struct os_mutex *m, uint64_t deadline_ns)
{
	struct sim *sim = os__sim;
	pay_debt(sim); /* for work that was done under the lock, so before it is let go */
	mutex_release(sim, m);
	bool in_time = true;
	if (deadline_ns <= sim->now_ns) {
		in_time = false;
		preempt(sim);
	} else if (sim->runnable_count > 0 && coin(sim, SPURIOUS_WAKE_BITS)) {
		preempt(sim);
	} else {
		list_push_back(&c->u.waiters, &sim->current->waiter);
		if (deadline_ns != UINT64_MAX)
			event_set(sim, sim->current, deadline_ns);
		sim->current->timed_out = true;
		block(sim, WAIT_COND, c);
		in_time = !sim->current->timed_out;
	}
	mutex_take(sim, m);
	return in_time;
}

void sim__cond_wake(struct os_cond *c, bool all)
{
	struct sim *sim = os__sim;
	while (!list_is_empty(&c->u.waiters)) {
		struct sim_thread *t = choose_waiter(sim, &c->u.waiters);
		t->timed_out = false;
		wake(sim, t);
		if (!all)
			break;
	}
	maybe_preempt(sim);
}

/* --- the life of a world ------------------------------------------------------------------------- */

struct timekeeper *sim__timekeeper(void)
{
	return &os__sim->timekeeper;
}

static bool is_timekeeper(const struct sim *sim, const struct sim_thread *t)
{
	return (const void *)t == (const void *)sim->timekeeper.thread;
}

/* The first fiber. */
static void first_main(void *arg)
{
	struct sim *sim = arg;
	os__timekeeper_init(&sim->timekeeper);
	sim->result = sim->run(sim->arg);
	os__locals_destroy(&sim->current->locals); /* while there are timers to cancel */
	list_for_each(&sim->threads, node)
	{
		const struct sim_thread *t = container_of(node, struct sim_thread, all);
		if (t != sim->current && !is_timekeeper(sim, t)) {
			snprintf(sim->unjoined, sizeof(sim->unjoined), "%s", t->name);
			break;
		}
	}
	if (!sim->unjoined[0])
		os__timekeeper_stop(&sim->timekeeper);
	sim->is_done = true;
}

/* Numbers the conditions and mutexes by their first mention, because addresses differ from run to run. */
struct mentions {
	const void *object[8];
	unsigned count;
};

static unsigned mention(struct mentions *m, const void *object)
{
	for (unsigned i = 0; i < m->count; i++)
		if (m->object[i] == object)
			return i + 1;
	if (m->count < array_count(m->object))
		m->object[m->count++] = object;
	return m->count;
}

static void deadlock_describe_thread(const struct sim_thread *t, struct mentions *conds, struct text *text)
{
	switch (t->waiting_for) {
	case WAIT_MUTEX: {
		const struct sim_thread *owner = owner_of(t->waiting_on);
		text_addf(text, "%s waits for a lock that %s holds", t->name, owner ? owner->name : "nobody");
		break;
	}
	case WAIT_COND:
		text_addf(text, "%s waits on condition %u", t->name, mention(conds, t->waiting_on));
		break;
	case WAIT_JOIN:
		text_addf(
			text, "%s waits for the end of %s", t->name, ((const struct sim_thread *)t->waiting_on)->name);
		break;
	case WAIT_TIME:
	case WAIT_NOTHING:
		text_addf(text, "%s waits", t->name);
		break;
	}
}

static int deadlock_describe(struct sim *sim, struct error *err)
{
	struct text text = {0};
	struct mentions conds = {0};
	list_for_each(&sim->threads, node)
	{
		const struct sim_thread *t = container_of(node, struct sim_thread, all);
		bool idles = is_timekeeper(sim, t) && t->waiting_on == &sim->timekeeper.changed;
		if (t->state != BLOCKED || idles)
			continue;
		text_addf(&text, "%s", text.length > 0 ? "; " : "");
		deadlock_describe_thread(t, &conds, &text);
	}
	error_set(err, ERR_DEADLOCK, "deadlock at %llu ns, seed %llu: %s", (unsigned long long)sim->now_ns,
		(unsigned long long)sim->params->seed, text.bytes ? text.bytes : "no memory to say who waits");
	text_release(&text);
	return ERR_DEADLOCK;
}

void os_simulation_init(struct os_simulation *s, uint64_t seed)
{
	*s = (struct os_simulation){.seed = seed, .cpus = 2};
	memcpy(s->costs, os_costs_default, sizeof(s->costs));
}

static bool sim_init(struct sim *sim, struct os_simulation *s, int (*run)(void *), void *arg)
{
	static uint64_t worlds;
	s->trace_hash = s->switches = s->end_ns = s->cpu_ns = 0;
	*sim = (struct sim){.params = s, .run = run, .arg = arg};
	sim->world = __atomic_add_fetch(&worlds, 1, __ATOMIC_RELAXED);
	random_seed(&sim->random, s->seed);
	static const unsigned char eagerness[] = {1, 3, 3, 5};
	sim->preempt_bits = eagerness[random_below(&sim->random, array_count(eagerness))];
	list_init(&sim->threads);
	fiber_init_own(&sim->own);
	sim->cpu_free_ns = calloc(max_of(s->cpus, 1u), sizeof(*sim->cpu_free_ns));
	return sim->cpu_free_ns != NULL;
}

static void sim_release(struct sim *sim)
{
	list_for_each_safe(&sim->threads, node, keep) thread_free(sim, container_of(node, struct sim_thread, all));
	fiber_stacks_release(&sim->stacks);
	free(sim->runnable);
	free(sim->cpu_free_ns);
}

static int sim_result(struct sim *sim, struct error *err)
{
	if (sim->is_standing_still)
		return error_set(err, ERR_DEADLOCK,
			"time stands still at %llu ns, seed %llu: %s and others run without end",
			(unsigned long long)sim->now_ns, (unsigned long long)sim->params->seed, sim->current->name);
	if (sim->is_deadlocked)
		return deadlock_describe(sim, err);
	if (sim->result == 0 && sim->unjoined[0])
		return error_set(
			err, ERR_BUG, "thread %s was not joined when its simulated world ended", sim->unjoined);
	return sim->result;
}

int os_simulate(struct os_simulation *s, int (*run)(void *arg), void *arg, struct error *err)
{
	if (in_simulation())
		return error_set(err, ERR_USAGE, "a simulated world cannot start within a simulated world");
	struct sim sim;
	struct sim_thread *first = NULL;
	if (sim_init(&sim, s, run, arg))
		first = thread_new(&sim, "main", first_main, &sim);
	if (!first) {
		sim_release(&sim);
		return error_set(err, ERR_MEMORY, "no memory for a simulated world");
	}
	os__sim = &sim;
	sim.current = first;
	sim.switched_from = &sim.own;
	first->state = RUNNING;
	trace_add(&sim, first->number);
	fiber_switch(&sim.own, &first->fiber, false);
	os__sim = NULL;
	s->end_ns = sim.now_ns;
	int result = sim_result(&sim, err);
	sim_release(&sim);
	return result;
}
