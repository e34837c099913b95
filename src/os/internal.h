#ifndef OS_INTERNAL_H
#define OS_INTERNAL_H

#include "os.h"

#define THREAD_NAME_BYTES 32
#define NS_PER_S UINT64_C(1000000000)

/* --- values of a thread (local.c) ---------------------------------------------------------------- */

struct local_slot {
	const struct os_local *key;
	void *value;
};
struct locals {
	struct local_slot *slots;
	size_t count, room;
};
void os__locals_destroy(struct locals *locals);

/* --- heap of timers by (due, order) (heap.c) ----------------------------------------------------- */

void os__heap_insert(struct os_timer **root, struct os_timer *t);
void os__heap_remove(struct os_timer **root, struct os_timer *t);

/* --- the timekeeper, one a world (timer.c) ------------------------------------------------------- */

struct timekeeper {
	struct os_mutex lock;
	struct os_cond changed; /* an earlier timer was set, or stop */
	struct os_cond fired;   /* firing went back to NULL */
	struct os_thread *thread;
	struct os_timer *root, *firing;
	uint64_t order;
	unsigned cancel_waiters;
	bool stop;
};
void os__timekeeper_init(struct timekeeper *tk);
void os__timekeeper_stop(struct timekeeper *tk);

/* --- the simulated world (sim.c) ----------------------------------------------------------------- */

struct sim;

/* The world of the calling pthread: NULL in the real one. Fibers never move between pthreads. */
extern _Thread_local struct sim *os__sim __attribute__((tls_model("initial-exec")));

#define in_simulation() __builtin_expect(os__sim != NULL, 0)

uint64_t sim__now_ns(void);
uint64_t sim__random_u64(void);
void sim__sleep_until_ns(uint64_t deadline_ns);
int sim__thread_create(
	struct os_thread **ret_thread, const char *name, void (*run)(void *), void *arg, struct error *err);
void sim__thread_join(struct os_thread *thread);
void sim__thread_yield(void);
struct os_thread *sim__thread_self(void);
struct locals *sim__locals(void);
struct timekeeper *sim__timekeeper(void);
void sim__mutex_init(struct os_mutex *m);
void sim__mutex_destroy(struct os_mutex *m);
void sim__mutex_lock(struct os_mutex *m);
void sim__mutex_unlock(struct os_mutex *m);
void sim__cond_init(struct os_cond *c);
void sim__cond_destroy(struct os_cond *c);
bool sim__cond_wait(struct os_cond *c, struct os_mutex *m, uint64_t deadline_ns);
void sim__cond_wake(struct os_cond *c, bool all);
void sim__charge(enum os_stage stage, uint64_t bytes);
void sim__cpu_usage(struct os_cpu_usage *ret);

/* --- the real world (os.c) ----------------------------------------------------------------------- */

struct os_thread *real__thread_self(void); /* NULL on a thread that os did not make */

#endif
