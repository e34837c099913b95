/* Fibers: a stack each, one pthread for all; only a call of fiber_switch() moves from one to another. */
#ifndef OS_FIBER_H
#define OS_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__x86_64__) && !defined(__ILP32__) && !defined(FIBER_USE_UCONTEXT)
#define FIBER_OWN_SWITCH 1
#else
#define FIBER_OWN_SWITCH 0
#include <ucontext.h>
#endif

struct fiber {
#if FIBER_OWN_SWITCH
	void *saved_sp;
#else
	ucontext_t context;
#endif
	char *stack;            /* lowest usable byte; NULL for the pthread's own stack */
	const void *stack_seen; /* of the pthread's own stack, for ASan */
	size_t stack_bytes;
	void *sanitizer; /* ASan's fake stack */
	void *tsan;
};

struct fiber_stacks {
	char *spare;
};
void fiber_stacks_release(struct fiber_stacks *stacks);

/* The stack has a guard page below it. False when there is no memory. `entry` must never return, and calls
 * fiber_entered() first with the fiber that was switched from. */
bool fiber_init(struct fiber *f, struct fiber_stacks *stacks, void (*entry)(void));
void fiber_init_own(struct fiber *f);                             /* the fiber that the calling pthread is */
void fiber_release(struct fiber *f, struct fiber_stacks *stacks); /* not the one that runs */
void fiber_entered(struct fiber *from);
/* `from` runs; `is_last` says that it never will again. */
void fiber_switch(struct fiber *from, struct fiber *to, bool is_last);

#endif
