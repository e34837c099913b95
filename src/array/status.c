/* What an array tells of itself, and which of its members is slow. */
#include "internal.h"

#include <stdio.h>
#include <string.h>

const char *const array_state_names[4] = {"healthy", "degraded", "rebuilding", "failed"};
const char *const array_member_state_names[4] = {"online", "missing", "faulted", "rebuilding"};

#define SLOW_FACTOR 10
#define SLOW_MORE_NS 1000000u /* and a millisecond more: among disks that answer in microseconds 10 times is noise */
#define SLOW_CHECK_NS 100000000u

static int by_value(const void *x, const void *y)
{
	uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;

	return a < b ? -1 : a > b;
}

/* A member is slow when its small reads take ten times the median of all members, and a millisecond more. */
static void slow_find(struct array *a)
{
	uint64_t latencies[LAYOUT_DISKS_MAX];
	unsigned count = 0;

	for (unsigned i = 0; i < a->member_count; i++) {
		struct member *m = &a->members[i];
		struct disk_load load = {0};

		if (m->disk && m->state != ARRAY_MEMBER_MISSING)
			disk_load(m->disk, &load);
		m->latency_ns = load.latency_ns;
		if (load.latency_ns)
			latencies[count++] = load.latency_ns;
	}
	qsort(latencies, count, sizeof *latencies, by_value);
	a->latency_median_ns = count ? latencies[(count - 1) / 2] : 0;
	for (unsigned i = 0; i < a->member_count; i++)
		a->members[i].slow = count >= 2 && a->members[i].latency_ns >= SLOW_FACTOR * a->latency_median_ns &&
				     a->members[i].latency_ns >= a->latency_median_ns + SLOW_MORE_NS;
}

bool status__avoid(struct array *a, unsigned index)
{
	uint64_t now = os_now_ns();

	if (now - a->slow_checked_ns >= SLOW_CHECK_NS || !a->slow_checked_ns) {
		a->slow_checked_ns = max_of(now, (uint64_t)1);
		slow_find(a);
	}
	return a->members[index].slow;
}

/* Any so many more may fail: what is left where most is missing already. */
static unsigned failures_left(struct array *a)
{
	const struct layout *l = &a->layout;
	bool failed[LAYOUT_DISKS_MAX];
	unsigned left = layout_failures_survived(l);

	array__failed_set(a, failed);
	if (!layout_survives(l, failed))
		return 0;
	for (unsigned g = 0; g < l->groups && l->parity; g++) {
		unsigned missing = 0;

		for (unsigned i = 0; i < l->width; i++)
			missing += failed[g * l->width + i];
		left = min_of(left, l->parity - missing);
	}
	for (uint64_t chunk = 0; chunk < min_of((uint64_t)l->disks, a->size_bytes / l->chunk_bytes) && l->copies > 1;
		chunk++) {
		unsigned there = 0;

		for (unsigned copy = 0; copy < l->copies; copy++) {
			struct layout_place place;

			layout_place(l, chunk, copy, &place);
			there += !failed[place.disk];
		}
		left = min_of(left, there - 1);
	}
	return left;
}

static void rows_count(const struct array *a, struct array_counters *c)
{
	c->rows_never = c->rows_clean = c->rows_dirty = c->rows_lost = 0;
	for (uint64_t r = 0; a->redundant && r < a->row_count; r++)
		switch (ROW_ACTUAL(a->map[r])) {
		case ROW_NEVER:
			c->rows_never++;
			break;
		case ROW_CLEAN:
			c->rows_clean++;
			break;
		case ROW_LOST:
			c->rows_lost++;
			break;
		default:
			c->rows_dirty++;
		}
}

static enum array_state state_of(struct array *a)
{
	bool failed[LAYOUT_DISKS_MAX], any = false, rebuilding = false;

	if (a->broken)
		return ARRAY_FAILED;
	array__failed_set(a, failed);
	for (unsigned i = 0; i < a->member_count; i++) {
		any |= failed[i];
		rebuilding |= a->members[i].state == ARRAY_MEMBER_REBUILDING;
	}
	if (!layout_survives(&a->layout, failed))
		return ARRAY_FAILED;
	return rebuilding ? ARRAY_REBUILDING : any ? ARRAY_DEGRADED : ARRAY_HEALTHY;
}

void array_status_get(struct array *a, struct array_status *ret)
{
	os_scoped_lock(&a->lock);
	memset(ret, 0, sizeof *ret);
	slow_find(a);
	memcpy(ret->name, a->label.name, sizeof ret->name);
	id__text(a->label.array_id, ret->id);
	layout_name(&a->layout, ret->layout_name);
	ret->layout = a->layout;
	ret->hole = a->label.hole;
	ret->state = state_of(a);
	ret->size_bytes = a->size_bytes;
	ret->events = a->label.events;
	ret->member_count = a->member_count;
	ret->members = ret->member_store;
	for (unsigned i = 0; i < a->member_count; i++) {
		const struct member *m = &a->members[i];
		struct array_member_status *s = &ret->member_store[i];
		uint64_t data = a->layout.kind == LAYOUT_CONCAT ? a->layout.concat_bytes[i] : a->layout.disk_bytes;

		*s = (struct array_member_status){.disk = m->disk,
			.state = m->state,
			.data_bytes = data,
			.read_errors = m->read_errors,
			.write_errors = m->write_errors,
			.repaired_bytes = m->repaired_bytes,
			.mismatches = m->mismatches,
			.slow = m->slow,
			.latency_ns = m->latency_ns};
		snprintf(s->name, sizeof s->name, "%s", m->name);
		id__text(m->id, s->id);
		if (m->state == ARRAY_MEMBER_ONLINE)
			s->rebuilt_bytes = data;
		if (m->state == ARRAY_MEMBER_REBUILDING)
			s->rebuilt_bytes = (uint64_t)((double)data * (double)m->rebuilt_rows / (double)a->row_count);
	}
	ret->log_dedicated = a->log_disk != NULL;
	if (a->log_disk)
		snprintf(ret->log_name, sizeof ret->log_name, "%s", disk_traits(a->log_disk)->name);
	ret->counters = a->counters;
	rows_count(a, &ret->counters);
	ret->failures_left = failures_left(a);
}
