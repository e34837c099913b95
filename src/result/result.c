/*
 * Cells and lists of them. A cell's notes stand in order of precedence, so `verdict` is always notes[0]'s; VALID
 * holds only while nothing else does.
 */
#include "result.h"

#include <stdio.h>
#include <string.h>

const char *const verdict_names[VERDICT_COUNT] = {
	[VERDICT_FAILED] = "FAILED",
	[VERDICT_SKIPPED] = "SKIPPED",
	[VERDICT_IMPOSSIBLE] = "IMPOSSIBLE",
	[VERDICT_CACHED] = "CACHED",
	[VERDICT_DATA_REDUCED] = "DATA-REDUCED",
	[VERDICT_BACKGROUND] = "BACKGROUND",
	[VERDICT_FLUSH_LIE] = "FLUSH-LIE",
	[VERDICT_DEGRADED] = "DEGRADED",
	[VERDICT_TOO_SHORT] = "TOO-SHORT",
	[VERDICT_TOOL_BOUND] = "TOOL-BOUND",
	[VERDICT_CPU_BOUND] = "CPU-BOUND",
	[VERDICT_BUS_BOUND] = "BUS-BOUND",
	[VERDICT_SLOW_DISK] = "SLOW-DISK",
	[VERDICT_NOT_STEADY] = "NOT-STEADY",
	[VERDICT_UNSTABLE] = "UNSTABLE",
	[VERDICT_VALID] = "VALID",
};

void cell_init(struct cell *c)
{
	*c = (struct cell){
		.fill = NAN,
		.mb_per_s = NAN,
		.iops = NAN,
		.limit_mb_per_s = NAN,
		.model_mb_per_s = NAN,
		.efficiency = NAN,
		.verdict = VERDICT_SKIPPED,
		.logical_bytes = RESULT_NONE,
		.device_read_bytes = RESULT_NONE,
		.device_write_bytes = RESULT_NONE,
		.cpu_seconds = NAN,
		.elapsed_s = NAN,
		.interval = {NAN, NAN},
		.latency_p50_ns = RESULT_NONE,
		.latency_p95_ns = RESULT_NONE,
		.latency_p99_ns = RESULT_NONE,
		.latency_p999_ns = RESULT_NONE,
		.latency_max_ns = RESULT_NONE,
		.usable_bytes = RESULT_NONE,
		.create_s = NAN,
		.ready_s = NAN,
		.compress_ratio = NAN,
	};
	for (unsigned i = 0; i < RESULT_SAMPLES_MAX; i++)
		c->samples[i] = NAN;
}

void cell_note(struct cell *c, enum verdict v, const char *format, ...)
{
	unsigned at = 0;

	sp_assert(v < VERDICT_COUNT);
	while (at < c->note_count && c->notes[at].verdict < v)
		at++;
	/* The first reason for a verdict stays; "valid" gives way to any other. */
	if (at < c->note_count && c->notes[at].verdict == v)
		return;
	if (v == VERDICT_VALID && c->note_count > 0)
		return;
	if (c->note_count > 0 && c->notes[c->note_count - 1].verdict == VERDICT_VALID)
		c->note_count--;
	if (at == RESULT_NOTES_MAX)
		return;
	if (c->note_count == RESULT_NOTES_MAX)
		c->note_count--;
	memmove(&c->notes[at + 1], &c->notes[at], (c->note_count - at) * sizeof(c->notes[0]));
	c->note_count++;
	c->notes[at].verdict = v;

	va_list args;
	va_start(args, format);
	vsnprintf(c->notes[at].reason, sizeof(c->notes[at].reason), format, args);
	va_end(args);
	c->verdict = c->notes[0].verdict;
}

static bool same_real(double a, double b)
{
	return a == b || (isnan(a) && isnan(b));
}

bool cell_same_key(const struct cell *a, const struct cell *b)
{
	return !strcmp(a->stack, b->stack) && !strcmp(a->layout, b->layout) && !strcmp(a->road, b->road) &&
	       !strcmp(a->fs, b->fs) && !strcmp(a->disks, b->disks) && !strcmp(a->test, b->test) &&
	       !strcmp(a->compression, b->compression) && !strcmp(a->payload, b->payload) &&
	       a->block_bytes == b->block_bytes && a->depth == b->depth && a->jobs == b->jobs &&
	       !strcmp(a->clock, b->clock) && same_real(a->fill, b->fill) && !strcmp(a->state, b->state);
}

int result_add_cell(struct result *r, const struct cell *c, struct error *err)
{
	for (size_t i = 0; i < r->cell_count; i++)
		if (cell_same_key(&r->cells[i], c))
			return error_set(err, ERR_EXISTS, "the result has a cell for %s %s %s on the %s clock already",
				c->stack, c->layout, c->test, c->clock);
	if (r->cell_count == r->cell_room) {
		size_t room = r->cell_room ? r->cell_room * 2 : 32;
		struct cell *cells = realloc(r->cells, room * sizeof(*cells));
		if (!cells)
			return error_set(err, ERR_MEMORY, "no memory for %zu cells of a result", room);
		r->cells = cells;
		r->cell_room = room;
	}
	r->cells[r->cell_count++] = *c;
	return 0;
}

static bool asked(const char *wanted, const char *found)
{
	return !wanted || !strcmp(wanted, found);
}

/* A NULL argument fits everything. */
const struct cell *result_find(
	const struct result *r, const char *stack, const char *layout, const char *test, const char *clock)
{
	for (size_t i = 0; i < r->cell_count; i++) {
		const struct cell *c = &r->cells[i];
		if (asked(stack, c->stack) && asked(layout, c->layout) && asked(test, c->test) &&
			asked(clock, c->clock))
			return c;
	}
	return NULL;
}

int result_add_skip(struct result *r, const char *layout, const char *reason, struct error *err)
{
	struct result_skip *skips = realloc(r->skips, (r->skip_count + 1) * sizeof(*skips));

	if (!skips)
		return error_set(err, ERR_MEMORY, "no memory for %zu skipped layouts", r->skip_count + 1);
	r->skips = skips;
	snprintf(skips[r->skip_count].layout, sizeof(skips->layout), "%s", layout);
	snprintf(skips[r->skip_count].reason, sizeof(skips->reason), "%s", reason);
	r->skip_count++;
	return 0;
}

void result_release(struct result *r)
{
	if (!r)
		return;
	free(r->disks);
	free(r->cells);
	free(r->skips);
	*r = (struct result){0};
}

bool result_all_valid(const struct result *r)
{
	for (size_t i = 0; i < r->cell_count; i++)
		if (r->cells[i].verdict != VERDICT_VALID && r->cells[i].verdict != VERDICT_SKIPPED)
			return false;
	return true;
}
