#include <string.h>

#include "internal.h"

#define FIRST_WIDTH_NS 1000000u

void timeline_init(struct timeline *t)
{
	memset(t, 0, sizeof(*t));
	t->width_ns = FIRST_WIDTH_NS;
}

static void double_width(struct timeline *t)
{
	for (unsigned i = 0; i < TIMELINE_SLICES / 2; i++) {
		t->bytes[i] = t->bytes[2 * i] + t->bytes[2 * i + 1];
		t->place[i] = t->place[2 * i] + t->place[2 * i + 1];
	}
	memset(t->bytes + TIMELINE_SLICES / 2, 0, sizeof(t->bytes) / 2);
	memset(t->place + TIMELINE_SLICES / 2, 0, sizeof(t->place) / 2);
	t->width_ns *= 2;
}

void timeline_add(struct timeline *t, uint64_t start_ns, uint64_t end_ns, uint64_t bytes, double position)
{
	while (end_ns >= t->width_ns * TIMELINE_SLICES)
		double_width(t);

	unsigned first = (unsigned)(start_ns / t->width_ns), last = (unsigned)(end_ns / t->width_ns);
	if (first >= last) {
		t->bytes[last] += (double)bytes;
		t->place[last] += (double)bytes * position;
		return;
	}
	double per_ns = (double)bytes / (double)(end_ns - start_ns);
	for (unsigned i = first; i <= last; i++) {
		uint64_t from = max_of(start_ns, i * t->width_ns), to = min_of(end_ns, (i + 1) * t->width_ns);
		t->bytes[i] += per_ns * (double)(to - from);
		t->place[i] += per_ns * (double)(to - from) * position;
	}
}

void timeline_merge(struct timeline *to, const struct timeline *from)
{
	while (to->width_ns < from->width_ns)
		double_width(to);
	uint64_t ratio = to->width_ns / from->width_ns;
	for (unsigned i = 0; i < TIMELINE_SLICES; i++) {
		to->bytes[i / ratio] += from->bytes[i];
		to->place[i / ratio] += from->place[i];
	}
}

void timeline_windows(const struct timeline *t, uint64_t from_ns, uint64_t to_ns, uint64_t end_ns, unsigned count,
	double *ret_mb_per_s, double *ret_position)
{
	double window_ns = (double)(to_ns - from_ns) / count, width_ns = (double)t->width_ns;

	for (unsigned w = 0; w < count; w++) {
		double from = (double)from_ns + w * window_ns, to = from + window_ns, bytes = 0, place = 0;
		for (unsigned i = (unsigned)(from / width_ns); i < TIMELINE_SLICES && i * width_ns < to; i++) {
			/* The last slice of all is filled only as far as the phase went. */
			double slice_from = i * width_ns, slice_to = fmin(slice_from + width_ns, (double)end_ns);
			if (slice_to <= slice_from)
				break;
			double share = (fmin(to, slice_to) - fmax(from, slice_from)) / (slice_to - slice_from);
			if (share <= 0)
				continue;
			bytes += t->bytes[i] * share;
			place += t->place[i] * share;
		}
		ret_mb_per_s[w] = window_ns > 0 ? bytes / window_ns * 1000 : 0;
		ret_position[w] = bytes > 0 ? place / bytes : 0;
	}
}
