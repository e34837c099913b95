#include "internal.h"

/* A pairing heap (Fredman, Sedgewick, Sleator and Tarjan, 1986) through pointers in the timers themselves. `child` is
 * the first child, `next` the right sibling; `prev` is the left sibling or, for a first child, the parent. Inserting
 * is O(1), removing O(log n) amortised, and nothing can run out of memory. */

static bool is_before(const struct os_timer *a, const struct os_timer *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static struct os_timer *heap_meld(struct os_timer *a, struct os_timer *b)
{
	if (!a || !b)
		return a ? a : b;
	struct os_timer *top = is_before(a, b) ? a : b, *low = top == a ? b : a;
	low->prev = top;
	low->next = top->child;
	if (top->child)
		top->child->prev = low;
	top->child = low;
	return top;
}

/* Melds the siblings in pairs from left to right, then the pairs from right to left. */
static struct os_timer *heap_meld_siblings(struct os_timer *first)
{
	struct os_timer *pairs = NULL;
	while (first) {
		struct os_timer *a = first, *b = a->next;
		first = b ? b->next : NULL;
		a->next = a->prev = NULL;
		if (b)
			b->next = b->prev = NULL;
		struct os_timer *pair = heap_meld(a, b);
		pair->next = pairs;
		pairs = pair;
	}
	struct os_timer *root = NULL;
	while (pairs) {
		struct os_timer *pair = pairs;
		pairs = pair->next;
		pair->next = NULL;
		root = heap_meld(root, pair);
	}
	return root;
}

void os__heap_insert(struct os_timer **root, struct os_timer *t)
{
	t->child = t->next = t->prev = NULL;
	t->is_set = true;
	*root = heap_meld(*root, t);
}

void os__heap_remove(struct os_timer **root, struct os_timer *t)
{
	if (*root == t) {
		*root = heap_meld_siblings(t->child);
	} else {
		if (t->prev->child == t)
			t->prev->child = t->next;
		else
			t->prev->next = t->next;
		if (t->next)
			t->next->prev = t->prev;
		*root = heap_meld(*root, heap_meld_siblings(t->child));
	}
	t->child = t->next = t->prev = NULL;
	t->is_set = false;
}
