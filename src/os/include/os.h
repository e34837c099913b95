/*
 * os: one seam for time, threads and randomness. May use base.
 *
 * Two worlds. In the real world these calls are pthreads and CLOCK_MONOTONIC. In the simulated world
 * every thread is a fiber of the one thread that called os_simulate(); exactly one holds the baton,
 * a blocking call hands it to a scheduler that picks the next runnable fiber with a seeded generator,
 * and the virtual clock jumps to the next event when none can run. Same seed, same run, bit for bit.
 *
 * An object (mutex, condition, thread, timer) belongs to the world in which it was made. Nothing above
 * this part calls pthread, clock_gettime, nanosleep or rand.
 *
 * Locks are not recursive, and a condition may wake without a signal: wait in a loop. errno is not kept for
 * each fiber: read it right after the call that set it. In the simulated world lock, unlock, signal and create are
 * points where another fiber may be scheduled, so that orders which the real world shows rarely are found by seed.
 */
#ifndef OS_H
#define OS_H

#include <pthread.h>
#include <time.h>

#include "base.h"

struct os_thread;

struct os_mutex {
	union {
		pthread_mutex_t real;
		struct {
			struct os_thread *owner;
			struct list waiters;
			uint64_t world; /* the simulated world it was made in, to catch a mix-up */
		} sim;
	} u;
};

struct os_cond {
	union {
		pthread_cond_t real;
		struct list waiters;
	} u;
};

/* --- time ------------------------------------------------------------------------------------- */

uint64_t os_now_ns(void);                     /* monotonic; virtual in the simulated world, from 0 */
uint64_t os_wall_ns(void);                    /* since 1970; in the simulated world a fixed epoch + os_now_ns */
void os_sleep_until_ns(uint64_t deadline_ns); /* returns at once when it has passed */
void os_sleep_ns(uint64_t ns);
bool os_is_simulated(void);
uint64_t os_random_u64(void); /* for ids and seeds: getrandom, or the seeded generator of the simulation */
/* The real monotonic clock in both worlds: for progress lines and wall time, never for what a run decides. */
uint64_t os_real_now_ns(void);

/* --- threads ---------------------------------------------------------------------------------- */

int os_thread_create(
	struct os_thread **ret_thread, const char *name, void (*run)(void *), void *arg, struct error *err);
void os_thread_join(struct os_thread *thread); /* frees it; every created thread must be joined */
void os_thread_yield(void);

/* One pointer a thread, for a per-thread disk queue. `destroy` runs when the thread ends (in the
 * thread itself). Works on threads that os did not make (real world). Keys are static objects. */
struct os_local {
	void (*destroy)(void *value);
};
void *os_local_get(const struct os_local *key);
int os_local_set(const struct os_local *key, void *value, struct error *err);

/* --- locks ------------------------------------------------------------------------------------ */

void os_mutex_init(struct os_mutex *m);
void os_mutex_destroy(struct os_mutex *m);
void os_mutex_lock(struct os_mutex *m);
void os_mutex_unlock(struct os_mutex *m);
void os_cond_init(struct os_cond *c);
void os_cond_destroy(struct os_cond *c);
void os_cond_wait(struct os_cond *c, struct os_mutex *m);
/* false when the deadline (os_now_ns time) passed first. */
bool os_cond_wait_until(struct os_cond *c, struct os_mutex *m, uint64_t deadline_ns);
void os_cond_signal(struct os_cond *c);
void os_cond_broadcast(struct os_cond *c);

static inline void os__unlock(struct os_mutex **m)
{
	if (*m)
		os_mutex_unlock(*m);
}
#define os_scoped_lock(m)                                                                                              \
	__attribute__((cleanup(os__unlock), unused)) struct os_mutex *os__guard = (os_mutex_lock(m), (m))

/* --- timers ----------------------------------------------------------------------------------- */

/* `fire` runs on the timekeeper, a thread of os: it may lock (briefly), signal, and set timers, itself
 * included; it must not wait, sleep, join or do I/O. Timers due at one instant fire in the order set. */
struct os_timer {
	void (*fire)(struct os_timer *timer);
	uint64_t due_ns;
	uint64_t order;
	struct os_timer *child, *next, *prev; /* place in a pairing heap, so that setting never allocates */
	bool is_set;
};
void os_timer_init(struct os_timer *t, void (*fire)(struct os_timer *timer));
void os_timer_set(struct os_timer *t, uint64_t due_ns); /* moves it when it is set already */
/* After it returns `fire` is not running and will not run (unless called from within `fire`). It waits for a
 * `fire` that runs: the caller must not hold a lock that `fire` takes. */
void os_timer_cancel(struct os_timer *t);

/* --- CPU --------------------------------------------------------------------------------------- */

/* The stages of the data path, and what each costs. In the simulated world os_charge occupies one of the
 * virtual CPUs for fixed_ns + bytes × ns_per_kib / 1024; in the real world it does nothing. */
enum os_stage {
	OS_STAGE_REQUEST,  /* one I/O handed to a disk and reaped */
	OS_STAGE_COPY,     /* memcpy of data */
	OS_STAGE_CHECKSUM, /* XXH3 */
	OS_STAGE_PARITY1,  /* bytes of data that P is generated over */
	OS_STAGE_PARITY2,  /* bytes of data that P and Q are generated over */
	OS_STAGE_CALL,     /* one call into an array or target */
	OS_STAGE_COUNT
};
struct os_cost {
	double fixed_ns;
	double ns_per_kib;
};
extern const char *const os_stage_names[OS_STAGE_COUNT];
extern const struct os_cost os_costs_default[OS_STAGE_COUNT]; /* measured on the reference machine, see docs */
void os_charge(enum os_stage stage, uint64_t bytes);

/* Busy time so far: of this process, and of the whole system (kernel threads included). In the simulated
 * world both are what was charged. */
struct os_cpu_usage {
	uint64_t process_ns;
	uint64_t system_busy_ns;
	uint64_t system_total_ns; /* CPUs × time */
	unsigned cpus;
};
void os_cpu_usage(struct os_cpu_usage *ret);

/* --- interrupts --------------------------------------------------------------------------------- */

/* A program sets it from its signal handler; long work polls it and ends early with ERR_INTERRUPTED. */
void os_interrupt(void); /* async-signal-safe */
bool os_interrupted(void);
void os_interrupt_clear(void);

/* --- the simulated world ------------------------------------------------------------------------ */

struct os_simulation {
	/* in */
	uint64_t seed;
	unsigned cpus; /* virtual CPUs that os_charge occupies; 0: CPU is free */
	struct os_cost costs[OS_STAGE_COUNT];
	/* out */
	uint64_t trace_hash; /* over every scheduling decision and its virtual time */
	uint64_t switches;
	uint64_t end_ns;
	uint64_t cpu_ns;
};
void os_simulation_init(struct os_simulation *s, uint64_t seed); /* default costs, 2 CPUs */
/* Runs `run(arg)` as the first fiber of a new simulated world and returns what it returned once it is done
 * and all its threads are joined. ERR_DEADLOCK, with the waiting threads by name, when none can run and no
 * event is due; ERR_USAGE when called inside a simulated world. Must not be called while another thread of
 * the process uses os objects of a simulated world. */
int os_simulate(struct os_simulation *s, int (*run)(void *arg), void *arg, struct error *err);

#endif
