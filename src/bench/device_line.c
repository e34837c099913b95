/*
 * What the disks behind a target moved, over time.
 *
 * Callers of a target with a write-back buffer or a read-ahead see bursts and gaps although the disks never rest, and
 * the smaller the run the more so. Whether a rate is steady is therefore judged where the bytes really go: a timer
 * looks at the counters of every disk, and what came since a disk's last completion is spread over the time since then,
 * so that requests of many MiB make no steps.
 */
#include <string.h>

#include "internal.h"

#define LOOK_NS 5000000u

struct device_line {
	struct os_timer timer;
	struct target *target;
	uint64_t start_ns, end_ns, bytes;
	struct timeline line;
	struct seen {
		uint64_t bytes, at_ns;
	} * seen; /* by disk */
};

static uint64_t moved_bytes(const struct disk *d)
{
	struct disk_counters c;

	disk_counters(d, &c);
	return c.op[DISK_READ].bytes + c.op[DISK_WRITE].bytes;
}

static void look(struct device_line *l)
{
	uint64_t now_ns = os_now_ns() - l->start_ns;

	for (unsigned i = 0; i < l->target->disk_count; i++) {
		uint64_t bytes = moved_bytes(l->target->disks[i]);
		if (bytes == l->seen[i].bytes)
			continue;
		timeline_add(&l->line, l->seen[i].at_ns, now_ns, bytes - l->seen[i].bytes, 0);
		l->bytes += bytes - l->seen[i].bytes;
		l->seen[i] = (struct seen){.bytes = bytes, .at_ns = now_ns};
		l->end_ns = now_ns;
	}
}

static void look_again(struct os_timer *timer)
{
	struct device_line *l = container_of(timer, struct device_line, timer);

	look(l);
	os_timer_set(timer, os_now_ns() + LOOK_NS);
}

int device_line_open(struct device_line **ret, struct target *t, struct error *err)
{
	struct device_line *l = calloc(1, sizeof(*l));

	if (l)
		l->seen = calloc(max_of(t->disk_count, 1u), sizeof(*l->seen));
	if (!l || !l->seen) {
		free(l);
		return error_set(err, ERR_MEMORY, "%s: no memory for what its %u disks move", t->name, t->disk_count);
	}
	l->target = t;
	timeline_init(&l->line);
	os_timer_init(&l->timer, look_again);
	*ret = l;
	return 0;
}

void device_line_begin(struct device_line *l)
{
	l->start_ns = os_now_ns();
	for (unsigned i = 0; i < l->target->disk_count; i++)
		l->seen[i].bytes = moved_bytes(l->target->disks[i]);
	if (l->target->disk_count)
		os_timer_set(&l->timer, l->start_ns + LOOK_NS);
}

void device_line_end(struct device_line *l, struct timeline *ret_line, uint64_t *ret_bytes, uint64_t *ret_end_ns)
{
	os_timer_cancel(&l->timer);
	look(l);
	*ret_line = l->line;
	*ret_bytes = l->bytes;
	*ret_end_ns = l->end_ns;
}

void device_line_close(struct device_line *l)
{
	if (!l)
		return;
	os_timer_cancel(&l->timer);
	free(l->seen);
	free(l);
}
