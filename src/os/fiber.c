#include "fiber.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define FIBER_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#include <sanitizer/tsan_interface.h>
#else
#define FIBER_TSAN 0
#endif

#if FIBER_ASAN || FIBER_TSAN
#define STACK_BYTES ((size_t)1 << 20) /* red zones around every local */
#else
#define STACK_BYTES ((size_t)256 << 10)
#endif

static size_t guard_bytes(void)
{
	long page = sysconf(_SC_PAGESIZE);
	return page > 0 ? (size_t)page : 4096;
}

static char *stack_map(void)
{
	size_t guard = guard_bytes();
	char *map = mmap(NULL, guard + STACK_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (map == MAP_FAILED)
		return NULL;
	if (mprotect(map, guard, PROT_NONE) != 0) {
		munmap(map, guard + STACK_BYTES);
		return NULL;
	}
	return map + guard;
}

static void stack_unmap(char *stack)
{
	size_t guard = guard_bytes();
	munmap(stack - guard, guard + STACK_BYTES);
}

/* Spare stacks are a list through their own lowest bytes: mapping one costs more than all else in making a fiber. */
static char *stack_get(struct fiber_stacks *stacks)
{
	char *stack = stacks->spare;
	if (stack)
		memcpy(&stacks->spare, stack, sizeof(stacks->spare));
	else
		stack = stack_map();
#if FIBER_ASAN
	if (stack) /* an older mapping may have left poison here */
		ASAN_UNPOISON_MEMORY_REGION(stack, STACK_BYTES);
#endif
	return stack;
}

static void stack_put(struct fiber_stacks *stacks, char *stack)
{
#if FIBER_ASAN
	ASAN_UNPOISON_MEMORY_REGION(stack, STACK_BYTES); /* frames that never returned */
#endif
	memcpy(stack, &stacks->spare, sizeof(stacks->spare));
	stacks->spare = stack;
}

void fiber_stacks_release(struct fiber_stacks *stacks)
{
	while (stacks->spare) {
		char *stack = stacks->spare;
		memcpy(&stacks->spare, stack, sizeof(stacks->spare));
		stack_unmap(stack);
	}
}

/* --- the switch ------------------------------------------------------------------------------------- */

#if FIBER_OWN_SWITCH
/* What a called function must preserve (System V ABI), but for the modes of the floating point units, which nobody
 * here changes. swapcontext() would also save the signal mask, which is two system calls a switch. */
void fiber__swap(void **save_sp, void *load_sp) __attribute__((visibility("hidden")));
__asm__(".text\n"
	".p2align 4\n"
	".globl fiber__swap\n"
	".hidden fiber__swap\n"
	".type fiber__swap, @function\n"
	"fiber__swap:\n"
	"	pushq %rbp\n"
	"	pushq %rbx\n"
	"	pushq %r12\n"
	"	pushq %r13\n"
	"	pushq %r14\n"
	"	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	ret\n"
	".size fiber__swap, .-fiber__swap\n");

static void context_init(struct fiber *f, void (*entry)(void))
{
	/* As the callee of a call sees it: the return address (none) on top, 8 bytes below a multiple of 16. */
	uint64_t *top = (uint64_t *)(void *)(f->stack + f->stack_bytes);
	top[-1] = 0;
	top[-2] = (uint64_t)(uintptr_t)entry;
	for (int i = 3; i <= 8; i++)
		top[-i] = 0;
	f->saved_sp = top - 8;
}

static void context_swap(struct fiber *from, struct fiber *to)
{
	fiber__swap(&from->saved_sp, to->saved_sp);
}
#else
static void context_init(struct fiber *f, void (*entry)(void))
{
	getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack;
	f->context.uc_stack.ss_size = f->stack_bytes;
	f->context.uc_link = NULL;
	makecontext(&f->context, entry, 0);
}

static void context_swap(struct fiber *from, struct fiber *to)
{
	swapcontext(&from->context, &to->context);
}
#endif

bool fiber_init(struct fiber *f, struct fiber_stacks *stacks, void (*entry)(void))
{
	*f = (struct fiber){.stack = stack_get(stacks), .stack_bytes = STACK_BYTES};
	if (!f->stack)
		return false;
	context_init(f, entry);
#if FIBER_TSAN
	f->tsan = __tsan_create_fiber(0);
#endif
	return true;
}

void fiber_init_own(struct fiber *f)
{
	*f = (struct fiber){0};
#if FIBER_TSAN
	f->tsan = __tsan_get_current_fiber();
#endif
}

void fiber_release(struct fiber *f, struct fiber_stacks *stacks)
{
#if FIBER_TSAN
	__tsan_destroy_fiber(f->tsan);
#endif
	stack_put(stacks, f->stack);
	f->stack = NULL;
}

void fiber_entered(struct fiber *from)
{
#if FIBER_ASAN
	/* Where the pthread's own stack is we learn here, from the first fiber that it starts. */
	const void *stack;
	size_t stack_bytes;
	__sanitizer_finish_switch_fiber(NULL, &stack, &stack_bytes);
	if (!from->stack) {
		from->stack_seen = stack;
		from->stack_bytes = stack_bytes;
	}
#else
	(void)from;
#endif
}

void fiber_switch(struct fiber *from, struct fiber *to, bool is_last)
{
#if FIBER_ASAN
	__sanitizer_start_switch_fiber(
		is_last ? NULL : &from->sanitizer, to->stack ? to->stack : to->stack_seen, to->stack_bytes);
#else
	(void)is_last;
#endif
#if FIBER_TSAN
	__tsan_switch_to_fiber(to->tsan, 0);
#endif
	context_swap(from, to);
#if FIBER_ASAN
	__sanitizer_finish_switch_fiber(from->sanitizer, NULL, NULL);
#endif
}
