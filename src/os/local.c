#include "internal.h"

static _Thread_local struct locals real_locals;
static pthread_key_t end_of_thread;
static bool end_of_thread_works;

void os__locals_destroy(struct locals *locals)
{
	/* One at a time from the end: a destructor may read and set other values of this thread. */
	while (locals->count > 0) {
		struct local_slot slot = locals->slots[--locals->count];
		if (slot.value && slot.key->destroy)
			slot.key->destroy(slot.value);
	}
	free(locals->slots);
	*locals = (struct locals){0};
}

static void real_locals_end(void *locals)
{
	os__locals_destroy(locals);
}

static void real_locals_init(void)
{
	end_of_thread_works = pthread_key_create(&end_of_thread, real_locals_end) == 0;
}

static struct local_slot *local_find(struct locals *locals, const struct os_local *key)
{
	for (size_t i = 0; i < locals->count; i++)
		if (locals->slots[i].key == key)
			return &locals->slots[i];
	return NULL;
}

void *os_local_get(const struct os_local *key)
{
	struct local_slot *slot = local_find(in_simulation() ? sim__locals() : &real_locals, key);
	return slot ? slot->value : NULL;
}

static int local_add(struct locals *locals, const struct os_local *key, void *value, struct error *err)
{
	if (locals->count == locals->room) {
		size_t room = locals->room ? locals->room * 2 : 8;
		struct local_slot *slots = realloc(locals->slots, room * sizeof(*slots));
		if (!slots)
			return error_set(err, ERR_MEMORY, "no memory for a value of this thread");
		locals->slots = slots;
		locals->room = room;
	}
	locals->slots[locals->count++] = (struct local_slot){key, value};
	return 0;
}

/* A pthread key tells us the end of any thread, made by os or not. Its value is this thread's own table. */
static int real_locals_watch(struct error *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, real_locals_init);
	if (!end_of_thread_works || pthread_setspecific(end_of_thread, &real_locals) != 0)
		return error_set(err, ERR_MEMORY, "cannot be told when this thread ends: no pthread key is left");
	return 0;
}

int os_local_set(const struct os_local *key, void *value, struct error *err)
{
	struct locals *locals = in_simulation() ? sim__locals() : &real_locals;
	struct local_slot *slot = local_find(locals, key);
	if (slot) {
		slot->value = value;
		return 0;
	}
	if (!value)
		return 0;
	if (!in_simulation() && locals->count == 0) {
		int result = real_locals_watch(err);
		if (result < 0)
			return result;
	}
	return local_add(locals, key, value, err);
}
