/*
 * os: time, threads, locks, timers and randomness behind one seam.
 *
 * The problem: a storage engine fails in orders of events that a test rarely meets, and a bench of modelled disks
 * should not wait for them. The idea: everything above this part asks it for time and threads, and there are two
 * worlds that answer. In the real one (this file) the answer is pthreads and the monotonic clock. In the simulated
 * one (sim.c) every thread is a fiber on one pthread, a seeded generator picks who runs, and the clock jumps:
 *
 *     array, bench, model ...            one text, two worlds
 *     ───────────────────────── os.h ──────────────────────────
 *     pthread_mutex, condition │ runnable set + seeded pick
 *     CLOCK_MONOTONIC          │ virtual clock, jumps to the next event
 *     timekeeper thread        │ timekeeper fiber               (timer.c serves both)
 *     the machine's CPUs       │ N time lines that os_charge fills
 *
 * A pthread is in the simulated world while it is within os_simulate(); os__sim tells. Example: a fiber that sleeps
 * an hour enters the heap of events; when no other fiber can run, the clock is set an hour on and it runs again.
 *
 * Invariants
 *   OS-1  Same seed, same program, same order of fibers and times: nothing in the simulated world depends on an
 *         address, on the machine's clock or on another pthread.
 *   OS-2  The virtual clock never goes back, and moves only when no fiber can run.
 *   OS-3  Every event in a simulated heap is due after now.
 *   OS-4  Timers fire one at a time, by (due, order of setting), on one thread a world.
 *   OS-5  After os_timer_cancel() returned, `fire` does not run and will not run.
 *   OS-6  A simulated run ends with a result, or with a sentence that names who waits for what.
 */
#include "internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* --- time ---------------------------------------------------------------------------------------- */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;
	int result = clock_gettime(clock, &ts);
	sp_assert(result == 0);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static struct timespec timespec_from_ns(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

uint64_t os_now_ns(void)
{
	return in_simulation() ? sim__now_ns() : clock_ns(CLOCK_MONOTONIC);
}

uint64_t os_real_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

#define SIMULATION_EPOCH_NS (UINT64_C(1700000000) * NS_PER_S)

uint64_t os_wall_ns(void)
{
	return in_simulation() ? SIMULATION_EPOCH_NS + sim__now_ns() : clock_ns(CLOCK_REALTIME);
}

void os_sleep_until_ns(uint64_t deadline_ns)
{
	if (in_simulation()) {
		sim__sleep_until_ns(deadline_ns);
		return;
	}
	struct timespec ts = timespec_from_ns(deadline_ns);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

void os_sleep_ns(uint64_t ns)
{
	uint64_t now_ns = os_now_ns();
	os_sleep_until_ns(ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + ns);
}

bool os_is_simulated(void)
{
	return in_simulation();
}

uint64_t os_random_u64(void)
{
	if (in_simulation())
		return sim__random_u64();
	uint64_t value;
	ssize_t got;
	do
		got = getrandom(&value, sizeof(value), 0);
	while (got < 0 && errno == EINTR);
	if (got == (ssize_t)sizeof(value))
		return value;
	/* No getrandom in this sandbox: ids need only differ, so mix what differs. */
	struct random r;
	random_seed(&r, clock_ns(CLOCK_REALTIME) ^ (uint64_t)getpid() << 40 ^ (uint64_t)(uintptr_t)&value);
	return random_u64(&r);
}

/* --- threads ------------------------------------------------------------------------------------- */

struct os_thread {
	pthread_t pthread;
	void (*run)(void *arg);
	void *arg;
	char name[THREAD_NAME_BYTES];
};

static _Thread_local struct os_thread *real_self;

struct os_thread *real__thread_self(void)
{
	return real_self;
}

static void *real_thread_run(void *arg)
{
	struct os_thread *t = arg;
	real_self = t;
	char short_name[16]; /* what Linux keeps */
	snprintf(short_name, sizeof(short_name), "%.15s", t->name);
	pthread_setname_np(pthread_self(), short_name);
	t->run(t->arg);
	return NULL;
}

/* Signals sent to the process are for the program's own thread: ours would only see calls cut short by EINTR. */
static int pthread_create_without_signals(pthread_t *ret, void *(*run)(void *), void *arg)
{
	static const int own_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
	sigset_t block, before;
	sigfillset(&block);
	for (size_t i = 0; i < array_count(own_faults); i++)
		sigdelset(&block, own_faults[i]);
	pthread_sigmask(SIG_SETMASK, &block, &before);
	int result = pthread_create(ret, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return result;
}

int os_thread_create(struct os_thread **ret_thread, const char *name, void (*run)(void *), void *arg, struct error *err)
{
	if (in_simulation())
		return sim__thread_create(ret_thread, name, run, arg, err);
	struct os_thread *t = calloc(1, sizeof(*t));
	if (!t)
		return error_set(err, ERR_MEMORY, "no memory for thread %s", name);
	t->run = run;
	t->arg = arg;
	snprintf(t->name, sizeof(t->name), "%s", name);
	pthread_t pthread;
	int result = pthread_create_without_signals(&pthread, real_thread_run, t);
	if (result != 0) {
		free(t);
		return error_set(err, ERR_MEMORY, "cannot start thread %s: %s", name, strerror(result));
	}
	t->pthread = pthread;
	*ret_thread = t;
	return 0;
}

void os_thread_join(struct os_thread *thread)
{
	if (in_simulation()) {
		sim__thread_join(thread);
		return;
	}
	int result = pthread_join(thread->pthread, NULL);
	sp_assert(result == 0);
	free(thread);
}

void os_thread_yield(void)
{
	if (in_simulation())
		sim__thread_yield();
	else
		sched_yield();
}

/* --- locks: checked ones, so that a second lock or an unlock by a stranger is told at once ------- */

void os_mutex_init(struct os_mutex *m)
{
	if (in_simulation()) {
		sim__mutex_init(m);
		return;
	}
	pthread_mutexattr_t attr;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	int result = pthread_mutex_init(&m->u.real, &attr);
	sp_assert(result == 0);
	pthread_mutexattr_destroy(&attr);
}

void os_mutex_destroy(struct os_mutex *m)
{
	if (in_simulation()) {
		sim__mutex_destroy(m);
		return;
	}
	int result = pthread_mutex_destroy(&m->u.real);
	sp_assert(result == 0);
}

void os_mutex_lock(struct os_mutex *m)
{
	if (in_simulation()) {
		sim__mutex_lock(m);
		return;
	}
	int result = pthread_mutex_lock(&m->u.real);
	sp_assert(result == 0);
}

void os_mutex_unlock(struct os_mutex *m)
{
	if (in_simulation()) {
		sim__mutex_unlock(m);
		return;
	}
	int result = pthread_mutex_unlock(&m->u.real);
	sp_assert(result == 0);
}

void os_cond_init(struct os_cond *c)
{
	if (in_simulation()) {
		sim__cond_init(c);
		return;
	}
	pthread_condattr_t attr;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	int result = pthread_cond_init(&c->u.real, &attr);
	sp_assert(result == 0);
	pthread_condattr_destroy(&attr);
}

void os_cond_destroy(struct os_cond *c)
{
	if (in_simulation()) {
		sim__cond_destroy(c);
		return;
	}
	int result = pthread_cond_destroy(&c->u.real);
	sp_assert(result == 0);
}

void os_cond_wait(struct os_cond *c, struct os_mutex *m)
{
	if (in_simulation()) {
		sim__cond_wait(c, m, UINT64_MAX);
		return;
	}
	int result = pthread_cond_wait(&c->u.real, &m->u.real);
	sp_assert(result == 0);
}

bool os_cond_wait_until(struct os_cond *c, struct os_mutex *m, uint64_t deadline_ns)
{
	if (in_simulation())
		return sim__cond_wait(c, m, deadline_ns);
	struct timespec ts = timespec_from_ns(deadline_ns);
	int result = pthread_cond_timedwait(&c->u.real, &m->u.real, &ts);
	sp_assert(result == 0 || result == ETIMEDOUT);
	return result == 0;
}

void os_cond_signal(struct os_cond *c)
{
	if (in_simulation())
		sim__cond_wake(c, false);
	else
		pthread_cond_signal(&c->u.real);
}

void os_cond_broadcast(struct os_cond *c)
{
	if (in_simulation())
		sim__cond_wake(c, true);
	else
		pthread_cond_broadcast(&c->u.real);
}

/* --- interrupts ---------------------------------------------------------------------------------- */

static int interrupted; /* lock-free, hence safe in a signal handler */

void os_interrupt(void)
{
	__atomic_store_n(&interrupted, 1, __ATOMIC_RELEASE);
}

bool os_interrupted(void)
{
	return __atomic_load_n(&interrupted, __ATOMIC_ACQUIRE) != 0;
}

void os_interrupt_clear(void)
{
	__atomic_store_n(&interrupted, 0, __ATOMIC_RELEASE);
}
