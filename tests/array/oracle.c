/*
 * One run of a world: some generations, each opens the array over what the last power cut left, compares, and goes on.
 *
 *      platters ──► open (power may go here, too) ──► compare, check, flush ──► threads write, read, flush
 *          ▲                                                                             │
 *          └──────────────── what the power left ◄── power cut at operation N ◄──────────┘
 *
 * All choices come from generators seeded by the seed and a purpose, so that fixing one option leaves the rest as it
 * was.
 */
#include "oracle.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model.h"

#define MIB ((uint64_t)1 << 20)
#define SECTOR MODEL_SECTOR_BYTES
#define ZONES_MAX 4
#define THREADS_MAX 4
#define BUFFER_BYTES (1u << 20)

const char *const oracle_plan_names[ORACLE_PLANS] = {"power", "lose", "vanish", "rebuild", "fault"};
const char *const oracle_fault_names[CRASH_FAULTS] = {"none", "eio-once", "eio-sticky", "vanish", "media"};
const char *const oracle_planted_names[ORACLE_PLANTED_KINDS] = {"sound", "lying-flush", "one-lying-flush", "no-log"};
const char *const oracle_layouts[] = {"mirror", "mirrorx2", "raid10", "raid10-far", "raid10-offset", "raid01", "raid4",
	"raid5", "raid6", "raid5x2", "raid6x2", "stripe", "concat", "single", NULL};

/* A disk as one holds it in the hand. */
struct body {
	struct platter *platter; /* while it is not open */
	struct disk *disk;       /* while it is */
	bool away;               /* not among those given to array_open */
	bool log;
};

struct zone {
	uint64_t first, count; /* sectors */
};

struct world {
	const struct oracle_options *o;
	struct oracle_result *result;
	struct error *err;
	bool failed;
	struct random random;
	struct power power;
	struct body bodies[CRASH_DISKS_MAX];
	unsigned body_count;
	struct array *array;
	struct array_status *status;
	struct layout layout;
	bool redundant;
	uint64_t row_sectors, sectors, alignment; /* the last: sectors that a request is a multiple of */
	struct model *model;
	struct zone zones[ZONES_MAX];
	unsigned zone_count;
	bool errors_allowed; /* redundancy is used up by what was done to the disks */
	bool expect_healthy;
	bool was_out[LAYOUT_DISKS_MAX]; /* members that were out already when the threads began */
	bool stopping;                  /* threads: that is enough */
	uint8_t *buffer;                /* of the main thread */
};

struct worker {
	struct world *world;
	struct os_thread *thread;
	struct random random;
	uint8_t *buffer;
	uint64_t cursor;
	unsigned index;
};

/* --- options --------------------------------------------------------------------------------------------------- */

static void seed_for(struct random *r, uint64_t seed, uint64_t purpose)
{
	random_seed(r, seed * 0x9e3779b97f4a7c15u ^ purpose * 0xd1342543de82ef95u);
}

bool oracle_is_redundant(const char *layout)
{
	return strcmp(layout, "stripe") != 0 && strcmp(layout, "concat") != 0 && strcmp(layout, "single") != 0;
}

static unsigned draw_disks(struct random *r, const char *layout)
{
	static const struct {
		const char *name;
		unsigned least, most, step;
	} table[] = {{"mirror", 2, 3, 1}, {"mirrorx2", 4, 6, 2}, {"raid10", 2, 6, 1}, {"raid10-far", 2, 5, 1},
		{"raid10-offset", 2, 5, 1}, {"raid01", 4, 6, 2}, {"raid4", 3, 6, 1}, {"raid5", 3, 8, 1},
		{"raid6", 4, 8, 1}, {"raid5x2", 6, 8, 2}, {"raid6x2", 8, 10, 2}, {"stripe", 2, 5, 1},
		{"concat", 2, 3, 1}, {"single", 1, 1, 1}};
	for (size_t i = 0; i < array_count(table); i++)
		if (strcmp(table[i].name, layout) == 0)
			return table[i].least +
			       table[i].step *
				       (unsigned)random_below(r, (table[i].most - table[i].least) / table[i].step + 1);
	return 4;
}

void oracle_options_draw(struct oracle_options *o, uint64_t seed, const char *layout, enum oracle_plan plan)
{
	struct random r;
	*o = (struct oracle_options){.seed = seed, .plan = plan};
	snprintf(o->layout, sizeof o->layout, "%s", layout);
	seed_for(&r, seed, 1);
	o->disks = draw_disks(&r, layout);
	o->chunk_bytes = (uint64_t)4096 << random_below(&r, 5);
	o->hole = random_below(&r, 3) == 0 ? ARRAY_HOLE_BITMAP : ARRAY_HOLE_LOG;
	o->rotation = (enum layout_rotation)random_below(&r, 4);
	bool parity = strncmp(layout, "raid4", 5) == 0 || strncmp(layout, "raid5", 5) == 0 ||
		      strncmp(layout, "raid6", 5) == 0;
	o->log_disk = parity && o->hole == ARRAY_HOLE_LOG && random_below(&r, 6) == 0;
	o->noise = random_below(&r, 3) == 0;
	o->stream = random_below(&r, 16) == 0;
	o->threads = 1 + (unsigned)random_below(&r, THREADS_MAX);
	o->steps = 8 + (unsigned)random_below(&r, 40);
	o->generations = 2 + (unsigned)random_below(&r, 2);
	o->buffer_bytes = (256u << 10) << random_below(&r, 5);
	o->sector_bytes = random_below(&r, 5) ? 512 : 4096;
}

char *oracle_options_text(const struct oracle_options *o, char text[ORACLE_TEXT_BYTES])
{
	snprintf(text, ORACLE_TEXT_BYTES,
		"--seed %llu --layout %s --plan %s --disks %u --chunk %llu --hole %s --rotation %s --log-disk %d "
		"--noise %d "
		"--stream %d --threads %u --steps %u --generations %u --buffer %llu --sector %u --cut %llu --fault %s "
		"--plant %s",
		(unsigned long long)o->seed, o->layout, oracle_plan_names[o->plan], o->disks,
		(unsigned long long)o->chunk_bytes, o->hole == ARRAY_HOLE_LOG ? "log" : "bitmap",
		layout_rotation_names[o->rotation], o->log_disk, o->noise, o->stream, o->threads, o->steps,
		o->generations, (unsigned long long)o->buffer_bytes, o->sector_bytes, (unsigned long long)o->cut,
		oracle_fault_names[o->fault], oracle_planted_names[o->planted]);
	return text;
}

/* --- failing ----------------------------------------------------------------------------------------------------- */

static int world_fail(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int world_fail(struct world *w, const char *format, ...)
{
	char text[ERROR_TEXT_BYTES];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	w->failed = true;
	w->stopping = true;
	return error_set(w->err, ERR_CORRUPT, "%s", text);
}

static void say(const struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct world *w, const char *format, ...)
{
	if (!w->o->loud)
		return;
	va_list args;
	va_start(args, format);
	fprintf(stderr, "%9llu us op %llu: ", (unsigned long long)(os_now_ns() / 1000),
		(unsigned long long)w->power.operations);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

/* --- disks and the array ------------------------------------------------------------------------------------------ */

static struct body *body_add(struct world *w, bool log)
{
	sp_assert(w->body_count < CRASH_DISKS_MAX);
	struct body *b = &w->bodies[w->body_count++];
	uint64_t bytes = 16 * MIB + 4096 * random_below(&w->random, 64);
	*b = (struct body){.log = log};
	b->platter = platter_make(bytes, w->o->noise ? random_u64(&w->random) | 1 : 0);
	return b;
}

static int bodies_open(struct world *w)
{
	power_init(&w->power, random_u64(&w->random));
	for (unsigned i = 0; i < w->body_count; i++) {
		struct body *b = &w->bodies[i];
		char name[16];
		struct crash_options c = {.logical_bytes = w->o->sector_bytes,
			.lying_flush = w->o->planted == ORACLE_LYING_FLUSH ||
				       (w->o->planted == ORACLE_ONE_LYING_FLUSH && i == 0)};
		snprintf(name, sizeof name, "disk%u", i);
		if (crash_disk_open(name, &w->power, b->platter, &c, &b->disk, w->err) != 0)
			return world_fail(w, "disks do not open");
		b->platter = NULL;
	}
	return 0;
}

static void bodies_close(struct world *w)
{
	for (unsigned i = 0; i < w->body_count; i++) {
		struct body *b = &w->bodies[i];
		if (b->disk)
			b->platter = crash_disk_take(b->disk);
		b->disk = NULL;
	}
}

static unsigned bodies_given(struct world *w, struct disk *disks[CRASH_DISKS_MAX])
{
	unsigned count = 0;
	for (unsigned i = 0; i < w->body_count; i++)
		if (!w->bodies[i].away)
			disks[count++] = w->bodies[i].disk;
	for (unsigned i = count; i > 1; i--) {
		unsigned j = (unsigned)random_below(&w->random, i);
		struct disk *swap = disks[i - 1];
		disks[i - 1] = disks[j];
		disks[j] = swap;
	}
	return count;
}

static int array_up(struct world *w, struct error *why)
{
	struct disk *disks[CRASH_DISKS_MAX];
	struct array_open_options o;
	array_open_options_init(&o);
	o.tuning.buffer_bytes = w->o->buffer_bytes;
	o.tuning.writers = 1 + (unsigned)random_below(&w->random, 4);
	/* Mostly few rows: a window of megabytes over rows that were never written only fills memory with zeros. */
	o.tuning.read_ahead_rows = random_below(&w->random, 2) ? (w->o->seed % 8 ? 8 : 0) : UINT_MAX;
	o.tuning.no_log_fault_for_tests = w->o->planted == ORACLE_NO_LOG;
	unsigned count = bodies_given(w, disks);
	return array_open(&w->array, &o, disks, count, why);
}

/* Everything is off; what is on the platters is what counts. */
static void all_down(struct world *w, bool cut)
{
	if (cut)
		power_cut(&w->power);
	if (w->array)
		array_abandon(w->array);
	w->array = NULL;
	bodies_close(w);
}

static bool member_is_out(const struct world *w, unsigned member)
{
	return w->status->members[member].state != ARRAY_MEMBER_ONLINE;
}

static unsigned members_out(const struct world *w)
{
	unsigned count = 0;
	for (unsigned i = 0; i < w->status->member_count; i++)
		count += member_is_out(w, i);
	return count;
}

static void sizes_learn(struct world *w)
{
	array_status_get(w->array, w->status);
	w->layout = w->status->layout;
	const struct layout *l = &w->layout;
	uint64_t row_bytes = l->parity ? layout_row_data_bytes(l) : l->chunk_bytes * max_of(1u, l->disks / l->copies);
	w->redundant = l->parity || l->copies > 1;
	w->row_sectors = row_bytes / SECTOR;
	w->sectors = array_size_bytes(w->array) / SECTOR;
	w->alignment = array_sector_bytes(w->array) / SECTOR;
}

/* The beginning, a place in the middle, the end, and for streams some megabytes more. */
static void zones_choose(struct world *w)
{
	uint64_t rows = w->sectors / w->row_sectors, some = max_of((uint64_t)6, 512 / w->row_sectors);
	some = min_of(some, rows / 5);
	uint64_t middle = some + random_below(&w->random, rows / 4), tail = rows - min_of(some, (uint64_t)3);
	w->zones[w->zone_count++] = (struct zone){0, some * w->row_sectors};
	w->zones[w->zone_count++] = (struct zone){middle * w->row_sectors, some * w->row_sectors};
	w->zones[w->zone_count++] = (struct zone){tail * w->row_sectors, w->sectors - tail * w->row_sectors};
	if (w->o->stream) {
		uint64_t first = rows / 2,
			 count = min_of((6 * MIB / SECTOR + w->row_sectors - 1) / w->row_sectors, rows / 4);
		w->zones[w->zone_count++] = (struct zone){first * w->row_sectors, count * w->row_sectors};
	}
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

/* The member that holds this sector, of a parity layout. */
static unsigned holder(const struct world *w, uint64_t sector)
{
	struct layout_row row;
	layout_row(&w->layout, sector / w->row_sectors, &row);
	return row.disk[sector % w->row_sectors * SECTOR / w->layout.chunk_bytes];
}

static int wrong_sector(struct world *w, const char *when, uint64_t sector, struct model_value v)
{
	struct text t = {0};
	model_describe(w->model, sector, v, &t);
	char place[96] = "";
	if (w->layout.parity)
		snprintf(place, sizeof place, "member %u (%s)", holder(w, sector),
			array_member_state_names[w->status->members[holder(w, sector)].state]);
	int rc = world_fail(w, "%s: row %llu, %s: %s", when, (unsigned long long)(sector / w->row_sectors), place,
		t.bytes ? t.bytes : "");
	text_release(&t);
	return rc;
}

static int compare(struct world *w, const char *when, const uint8_t *bytes, uint64_t first, uint64_t count,
	uint64_t limit, bool pin)
{
	for (uint64_t i = 0; i < count; i++) {
		struct model_value v = bytes ? model_value_of(bytes + i * SECTOR, first + i) : model_value_lost();
		if (!model_is_legal(w->model, first + i, v, limit)) {
			if (v.kind == MODEL_NOISE)
				say(w, "the noise begins with \"%.16s\"", (const char *)bytes + i * SECTOR);
			return wrong_sector(w, when, first + i, v);
		}
		if (pin)
			model_pin(w->model, first + i, v);
		w->result->lost_sectors += !bytes;
	}
	w->result->sectors_compared += count;
	return 0;
}

/* Reads and compares; where a long read fails with ERR_LOST, in the smallest pieces. */
static int read_compare(
	struct world *w, const char *when, uint8_t *buffer, uint64_t first, uint64_t count, bool after_cut, bool pin)
{
	struct error why = ERROR_INIT;
	uint64_t limit = after_cut || w->errors_allowed ? model_durable(w->model) : model_begin(w->model);
	int rc = array_read(w->array, first * SECTOR, buffer, count * SECTOR, &why);
	if (rc == 0)
		return compare(w, when, buffer, first, count, limit, pin);
	if (w->power.is_cut || w->errors_allowed)
		return 0;
	if (rc != ERR_LOST)
		return world_fail(w, "%s: reading %llu sectors at %llu: %s: %s", when, (unsigned long long)count,
			(unsigned long long)first, error_name(rc), why.text);
	if (count == w->alignment)
		return compare(w, when, NULL, first, count, limit, pin);
	for (uint64_t s = first; s < first + count; s += w->alignment)
		if ((rc = read_compare(w, when, buffer, s, w->alignment, after_cut, pin)) != 0)
			return rc;
	return 0;
}

static int zones_compare(struct world *w, const char *when, bool after_cut, bool pin)
{
	uint64_t step = BUFFER_BYTES / SECTOR;
	for (unsigned z = 0; z < w->zone_count; z++) {
		uint64_t end = w->zones[z].first + w->zones[z].count;
		for (uint64_t s = w->zones[z].first; s < end; s += step) {
			int rc = read_compare(w, when, w->buffer, s, min_of(step, end - s), after_cut, pin);
			if (rc != 0 || w->power.is_cut)
				return rc;
		}
	}
	for (unsigned i = 0; i < 4; i++) {
		uint64_t s = round_down_u64(random_below(&w->random, w->sectors - 8), 8);
		int rc = read_compare(w, when, w->buffer, s, 8, after_cut, false);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* --- what a power cut allows -------------------------------------------------------------------------------------- */

struct row_facts {
	bool pending, all_pending, promised;
};

static struct row_facts row_facts(const struct world *w, uint64_t row)
{
	struct row_facts f = {.all_pending = true};
	uint64_t end = min_of((row + 1) * w->row_sectors, w->sectors);
	for (uint64_t s = row * w->row_sectors; s < end; s++) {
		bool pending = model_is_pending(w->model, s);
		f.pending |= pending;
		f.all_pending &= pending;
		f.promised |= model_is_promised(w->model, s);
	}
	return f;
}

/* A long stream in log mode marks rows ahead of itself. */
static bool stream_marks(const struct world *w, uint64_t row)
{
	if (!w->o->stream)
		return false;
	for (unsigned z = 0; z < w->zone_count; z++) {
		uint64_t first = w->zones[z].first / w->row_sectors, end = first + w->zones[z].count / w->row_sectors;
		if (row + 1 >= first && row < end + 1024)
			return true;
	}
	return false;
}

/* Whether the column of a missing member may be unreadable in this row. A bitmap tells what may be half written and
 * nothing more: a member that goes with the power takes its columns of all marked rows along, and marks are taken off
 * late. Where it was missing before, rows without writes since the last flush are safe in both modes. A log leaves in
 * doubt only full rows and first writes. */
static bool lost_allowed(const struct world *w, uint64_t row, unsigned member, struct row_facts f)
{
	if (!w->layout.parity || !member_is_out(w, member))
		return false;
	if (w->o->hole == ARRAY_HOLE_BITMAP)
		return f.pending || !w->was_out[member];
	return (f.pending && (f.all_pending || !f.promised)) || stream_marks(w, row);
}

/* After the array is open again: which sectors may now be noise, and which unreadable. */
static void allowances_make(struct world *w)
{
	for (unsigned z = 0; z < w->zone_count; z++) {
		uint64_t end = w->zones[z].first + w->zones[z].count;
		for (uint64_t s = w->zones[z].first; s < end; s += w->row_sectors) {
			uint64_t row = s / w->row_sectors;
			struct row_facts f = row_facts(w, row);
			bool any = w->o->noise && f.pending && !f.promised;
			for (uint64_t i = s; i < min_of(s + w->row_sectors, end); i++) {
				if (any)
					model_allow_any(w->model, i);
				if (w->layout.parity && lost_allowed(w, row, holder(w, i), f))
					model_allow_lost(w->model, i);
			}
		}
	}
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

static bool worker_done(const struct world *w)
{
	return w->stopping || w->failed || w->power.is_cut;
}

static void call_failed(
	struct world *w, const char *what, uint64_t first, uint64_t count, int rc, const struct error *why)
{
	if (!w->power.is_cut && !w->errors_allowed)
		world_fail(w, "%s of %llu sectors at %llu failed: %s: %s", what, (unsigned long long)count,
			(unsigned long long)first, error_name(rc), why->text);
}

static void do_write(struct worker *k, uint64_t first, uint64_t count)
{
	struct world *w = k->world;
	struct error why = ERROR_INIT;
	uint32_t version = model_write_begin(w->model, first, count);
	model_fill(k->buffer, first, count, version);
	say(w, "thread %u writes %llu+%llu version %u", k->index, (unsigned long long)first, (unsigned long long)count,
		version);
	int rc = array_write(w->array, first * SECTOR, k->buffer, count * SECTOR, &why);
	model_write_end(w->model, version, rc == 0);
	w->result->writes++;
	if (rc != 0)
		call_failed(w, "write", first, count, rc, &why);
}

static int do_flush(struct world *w)
{
	struct error why = ERROR_INIT;
	uint64_t began = model_begin(w->model);
	int rc = array_flush(w->array, &why);
	model_flush_end(w->model, began, rc == 0);
	say(w, "flush: %s", rc ? why.text : "good");
	w->result->flushes++;
	if (rc != 0)
		call_failed(w, "flush", 0, 0, rc, &why);
	return rc;
}

/* Where and how much: inside one zone, of many kinds of size. */
static void place_draw(struct worker *k, uint64_t *ret_first, uint64_t *ret_count)
{
	struct world *w = k->world;
	struct random *r = &k->random;
	const struct zone *z = &w->zones[random_below(r, w->zone_count)];
	uint64_t chunk = w->layout.chunk_bytes / SECTOR, row = w->row_sectors, first, count;
	switch (random_below(r, 8)) {
	case 0: /* full rows */
		count = row * (1 + random_below(r, 3));
		first = row * random_below(r, z->count / row + 1);
		break;
	case 1: /* a chunk, or some */
		count = chunk * (1 + random_below(r, 2));
		first = chunk * random_below(r, z->count / chunk + 1);
		break;
	case 2: /* anything */
		count = 1 + random_below(r, 2 * row);
		first = random_below(r, z->count);
		break;
	case 3: /* on from where the last one ended */
		count = 1 + random_below(r, chunk);
		first = k->cursor % z->count;
		break;
	case 4: /* one hot place, so that writes of several threads meet */
		count = 1 + random_below(r, 8);
		first = random_below(r, 8);
		break;
	default: /* small */
		count = 1 + random_below(r, 16);
		first = random_below(r, z->count);
		break;
	}
	count = min_of(count, (uint64_t)BUFFER_BYTES / SECTOR);
	first = round_down_u64(min_of(first, z->count - 1), w->alignment);
	count = round_up_u64(min_of(count, z->count - first), w->alignment);
	k->cursor = first + count;
	*ret_first = z->first + first;
	*ret_count = count;
}

static void do_stream(struct worker *k)
{
	struct world *w = k->world;
	const struct zone *z = &w->zones[w->zone_count - 1];
	for (uint64_t s = 0; s < z->count && !worker_done(w); s += BUFFER_BYTES / SECTOR)
		do_write(k, z->first + s, min_of((uint64_t)BUFFER_BYTES / SECTOR, z->count - s));
}

/* Reads on and on, as what is read ahead wants it, while others write there. */
static void do_scan(struct worker *k)
{
	struct world *w = k->world;
	const struct zone *z = &w->zones[random_below(&k->random, w->zone_count)];
	uint64_t step = w->alignment * (1 + random_below(&k->random, 32)), end = z->first + min_of(z->count, 64 * step);
	for (uint64_t s = z->first; s < end && !worker_done(w); s += step) {
		w->result->reads++;
		read_compare(w, "while it scans", k->buffer, s, min_of(step, end - s), false, false);
		if (random_below(&k->random, 8) == 0)
			os_sleep_ns(random_below(&k->random, 500000));
	}
}

/* Streams over what small writes, just made safe, left behind: what goes by the log and what goes past it meet. */
static void do_streams(struct worker *k)
{
	struct world *w = k->world;
	const struct zone *z = &w->zones[w->zone_count - 1];
	for (unsigned round = 0; round < 3 && !worker_done(w); round++) {
		do_stream(k);
		do_flush(w);
		for (unsigned i = 0; i < 6 && !worker_done(w); i++) {
			uint64_t at = z->count - 1 - random_below(&k->random, z->count / 4);
			do_write(k, z->first + round_down_u64(at, w->alignment), w->alignment);
		}
		if (round < 2)
			do_flush(w);
	}
}

static void worker_step(struct worker *k)
{
	struct world *w = k->world;
	uint64_t first, count, draw = random_below(&k->random, 100);
	place_draw(k, &first, &count);
	if (draw < 55) {
		do_write(k, first, count);
	} else if (draw < 58) {
		do_scan(k);
	} else if (draw < 75) {
		w->result->reads++;
		read_compare(w, "while it runs", k->buffer, first, count, false, false);
	} else if (draw < 88) {
		do_flush(w);
	} else if (draw < 91) {
		os_sleep_ns(1100000000 + random_below(&k->random, 2000000000));
	} else if (draw < 97) {
		os_sleep_ns(random_below(&k->random, 5000000));
	} else if (draw < 99 || !w->o->stream) {
		array_drop_cache(w->array);
	} else {
		do_stream(k);
	}
}

static void worker_run(void *arg)
{
	struct worker *k = arg;
	if (k->world->o->stream && k->index == 0)
		do_streams(k);
	for (unsigned i = 0; i < k->world->o->steps && !worker_done(k->world); i++)
		worker_step(k);
}

/* Runs the threads, and meanwhile `meanwhile` on this one. */
static void threads_run(struct world *w, uint64_t purpose, void (*meanwhile)(struct world *w))
{
	struct worker workers[THREADS_MAX];
	unsigned count = min_of(max_of(w->o->threads, 1u), (unsigned)THREADS_MAX);
	w->stopping = false;
	for (unsigned i = 0; i < count; i++) {
		workers[i] = (struct worker){.world = w, .index = i, .buffer = malloc(BUFFER_BYTES)};
		sp_assert(workers[i].buffer);
		seed_for(&workers[i].random, w->o->seed, 1000 + purpose * 16 + i);
		int rc = os_thread_create(&workers[i].thread, "worker", worker_run, &workers[i], NULL);
		sp_assert(rc == 0);
	}
	if (meanwhile)
		meanwhile(w);
	for (unsigned i = 0; i < count; i++) {
		os_thread_join(workers[i].thread);
		free(workers[i].buffer);
	}
}

/* --- after a cut -------------------------------------------------------------------------------------------------- */

static int check_clean(struct world *w, const char *when, bool repair)
{
	struct array_check_result result;
	struct error why = ERROR_INIT;
	int rc = array_check(w->array, repair, &result, NULL, NULL, &why);
	if (rc == ERR_LOST && members_out(w))
		return 0;
	if (rc != 0)
		return world_fail(w, "%s: check: %s: %s", when, error_name(rc), why.text);
	if (result.mismatched_rows)
		return world_fail(w,
			"%s: check finds %llu of %llu rows that do not agree, the first is row %llu, member %d", when,
			(unsigned long long)result.mismatched_rows, (unsigned long long)result.rows,
			(unsigned long long)result.first[0].row, result.first[0].member);
	return 0;
}

/* After a failure only: looking changes what happens next. */
static void say_labels(const struct world *w)
{
	for (unsigned i = 0; w->o->loud && i < w->body_count; i++) {
		struct array_label_facts f = {0};
		struct error why = ERROR_INIT;
		int rc = array_label_read(w->bodies[i].disk, &f, &why);
		say(w, "disk%u%s: member %u, events %llu, front %s, back %s %s", i, w->bodies[i].away ? " (away)" : "",
			f.index, (unsigned long long)f.events, f.front_good ? "good" : "damaged",
			f.back_good ? "good" : "damaged", rc ? why.text : "");
	}
}

/* Opens what the last cut left. Sometimes power goes during that, too: then again. */
static int recover(struct world *w, bool may_cut)
{
	for (unsigned tries = 0;; tries++) {
		struct error why = ERROR_INIT;
		if (bodies_open(w) != 0)
			return ERR_CORRUPT;
		if (may_cut && tries < 2 && random_below(&w->random, 3) == 0)
			w->power.cut_at = 1 + random_below(&w->random, 60);
		int rc = array_up(w, &why);
		say(w, "opened: %s", rc ? why.text : "good");
		bool is_cut = w->power.is_cut;
		w->power.cut_at = 0;
		if (rc != 0 && !is_cut)
			say_labels(w);
		if (rc != 0 && !is_cut)
			return w->errors_allowed ? rc
						 : world_fail(w, "it does not open: %s: %s", error_name(rc), why.text);
		if (!is_cut)
			break;
		w->result->cuts++;
		all_down(w, true);
	}
	array_status_get(w->array, w->status);
	w->result->replayed_records += w->status->counters.replayed_records;
	w->result->resynced_rows += w->status->counters.resynced_rows;
	return 0;
}

static int recovered_compare(struct world *w, const char *when)
{
	if (w->expect_healthy && w->status->state != ARRAY_HEALTHY)
		say_labels(w);
	if (w->expect_healthy && w->status->state != ARRAY_HEALTHY)
		return world_fail(w, "%s: all disks are there and sound, but the array is %s", when,
			array_state_names[w->status->state]);
	allowances_make(w);
	int rc = zones_compare(w, when, true, true);
	if (rc == 0 && w->redundant)
		rc = check_clean(w, when, false);
	if (rc == 0 && do_flush(w) != 0)
		rc = world_fail(w, "%s: nothing waits, and a flush fails", when);
	if (rc == 0 && random_below(&w->random, 2))
		array_drop_cache(w->array);
	return rc;
}

/* --- plans -------------------------------------------------------------------------------------------------------- */

/* Takes members away that the array survives losing. */
static void lose_some(struct world *w)
{
	bool failed[LAYOUT_DISKS_MAX] = {0};
	for (unsigned i = 0; i < w->status->member_count; i++)
		failed[i] = member_is_out(w, i);
	unsigned tries = 1 + (unsigned)random_below(&w->random, w->layout.disks);
	for (unsigned t = 0; t < tries; t++) {
		unsigned i = (unsigned)random_below(&w->random, w->layout.disks);
		if (failed[i])
			continue;
		failed[i] = true;
		if (!layout_survives(&w->layout, failed)) {
			failed[i] = false;
			continue;
		}
		for (unsigned b = 0; b < w->body_count; b++)
			if (w->bodies[b].disk && w->bodies[b].disk == w->status->members[i].disk) {
				w->bodies[b].away = true;
				w->expect_healthy = false;
				say(w, "disk%u, member %u, goes away", b, i);
			}
	}
}

static int member_to_replace(struct world *w)
{
	array_status_get(w->array, w->status);
	for (unsigned i = 0; i < w->status->member_count; i++)
		if (member_is_out(w, i))
			return (int)i;
	return (int)random_below(&w->random, w->status->member_count);
}

static bool carry_on(void *arg, uint64_t done_bytes, uint64_t total_bytes)
{
	return !((struct world *)arg)->power.is_cut;
}

/* Puts a new disk in some place, or goes on with what was begun. */
static void replace_one(struct world *w)
{
	struct error why = ERROR_INIT;
	int member = member_to_replace(w), rc;
	if (w->status->members[member].state == ARRAY_MEMBER_REBUILDING) {
		rc = array_rebuild(w->array, carry_on, w, &why);
	} else {
		struct body *b = body_add(w, false);
		char name[16];
		snprintf(name, sizeof name, "disk%u", w->body_count - 1);
		/* At least as large as any other. */
		platter_free(b->platter);
		b->platter = platter_make(16 * MIB + 4096 * 64, w->o->noise ? random_u64(&w->random) | 1 : 0);
		rc = crash_disk_open(name, &w->power, b->platter, NULL, &b->disk, &why);
		b->platter = NULL;
		sp_assert(rc == 0);
		if (w->power.is_cut)
			return;
		say(w, "member %d is replaced by %s", member, name);
		rc = array_replace(w->array, (unsigned)member, b->disk, false, carry_on, w, &why);
	}
	say(w, "rebuild of member %d: %s", member, rc ? why.text : "done");
	if (rc == 0)
		w->result->rebuilds++;
	if (rc != 0 && !w->power.is_cut && !w->failed)
		world_fail(w, "rebuild of member %d failed: %s: %s", member, error_name(rc), why.text);
}

/* Until every member is there again. */
static int make_healthy(struct world *w)
{
	for (unsigned i = 0; w->redundant && i < 2 * w->layout.disks && !w->failed; i++) {
		array_status_get(w->array, w->status);
		if (members_out(w) == 0)
			break;
		replace_one(w);
	}
	array_status_get(w->array, w->status);
	if (!w->failed && w->redundant && w->status->state != ARRAY_HEALTHY)
		world_fail(w, "all members were replaced and the array is %s", array_state_names[w->status->state]);
	w->expect_healthy = !w->failed;
	return w->failed ? ERR_CORRUPT : 0;
}

/* Stale disks turn up again: nothing on them may be believed. */
static void bring_back(struct world *w)
{
	for (unsigned b = 0; b < w->body_count; b++)
		w->bodies[b].away = false;
}

static void arm(struct world *w, unsigned generation)
{
	uint64_t spread = (uint64_t)w->o->threads * w->o->steps * (4 + w->layout.disks / 2);
	if (w->o->stream)
		spread *= 4;
	uint64_t at = 1 + random_below(&w->random, spread);
	if (generation == 0 && w->o->cut)
		at = w->o->cut;
	if (w->o->plan == ORACLE_FAULT)
		return;
	if (w->o->plan == ORACLE_VANISH) {
		w->power.fault = CRASH_VANISH;
		w->power.fault_at = w->power.operations + 1 + random_below(&w->random, at);
	}
	w->power.cut_at = w->power.operations + at;
	say(w, "generation %u: power goes at operation %llu", generation, (unsigned long long)w->power.cut_at);
}

static int close_clean(struct world *w)
{
	struct error why = ERROR_INIT;
	uint64_t began = model_begin(w->model);
	int rc = array_close(w->array, &why);
	w->array = NULL;
	model_flush_end(w->model, began, rc == 0);
	say(w, "closed: %s", rc ? why.text : "good");
	if (rc != 0 && !w->power.is_cut && !w->errors_allowed)
		return world_fail(w, "it does not close: %s: %s", error_name(rc), why.text);
	return 0;
}

static int prepare(struct world *w, unsigned number)
{
	int rc = 0;
	if (number > 0) {
		if (w->o->plan == ORACLE_LOSE && random_below(&w->random, 2))
			bring_back(w);
		rc = recover(w, true);
		if (rc == 0)
			rc = recovered_compare(w, "after a power cut");
	}
	bool heal = w->o->plan == ORACLE_VANISH || random_below(&w->random, 2);
	if (rc == 0 && w->redundant && heal && members_out(w))
		rc = make_healthy(w);
	if (rc == 0)
		array_status_get(w->array, w->status);
	return rc;
}

static int generation(struct world *w, unsigned number)
{
	int rc = prepare(w, number);
	if (rc != 0)
		return rc;
	arm(w, number);
	for (unsigned i = 0; i < w->status->member_count; i++)
		w->was_out[i] = member_is_out(w, i);
	if (w->o->plan == ORACLE_LOSE && w->redundant)
		lose_some(w);
	bool rebuilds = w->o->plan == ORACLE_REBUILD && w->redundant;
	if (rebuilds || w->o->plan == ORACLE_VANISH || w->o->plan == ORACLE_FAULT)
		w->expect_healthy = false;
	threads_run(w, number, rebuilds ? replace_one : NULL);
	w->power.cut_at = 0;
	if (w->o->plan == ORACLE_FAULT && !w->failed && do_flush(w) == 0) {
		array_drop_cache(w->array);
		zones_compare(w, "read cold", false, false);
	}
	bool closes = w->o->plan == ORACLE_FAULT || random_below(&w->random, 4) == 0;
	if (!w->failed && !w->power.is_cut && closes)
		close_clean(w);
	say(w, "power goes");
	w->result->cuts++;
	w->result->operations += w->power.operations;
	w->result->fault_met |= w->power.is_met;
	all_down(w, true);
	w->errors_allowed = false;
	return w->failed ? ERR_CORRUPT : 0;
}

/* Takes away as many members as it survives, and everything must still be there. Leaves the disks as they were. */
static int probe(struct world *w)
{
	struct body before[CRASH_DISKS_MAX];
	memcpy(before, w->bodies, sizeof before);
	for (unsigned i = 0; i < w->body_count; i++)
		before[i].platter = platter_copy(w->bodies[i].platter);
	int rc = recover(w, false);
	if (rc == 0) {
		lose_some(w);
		array_abandon(w->array);
		w->array = NULL;
		bodies_close(w);
		for (unsigned i = 0; i < w->body_count; i++) {
			platter_free(w->bodies[i].platter);
			w->bodies[i].platter = platter_copy(before[i].platter);
		}
		rc = recover(w, false);
	}
	if (rc == 0)
		rc = zones_compare(w, "with members away", true, true);
	all_down(w, true);
	for (unsigned i = 0; i < w->body_count; i++)
		platter_free(w->bodies[i].platter);
	memcpy(w->bodies, before, sizeof before);
	w->expect_healthy = true;
	return rc;
}

static int last_look(struct world *w)
{
	int rc = recover(w, w->o->plan != ORACLE_FAULT);
	if (rc == 0)
		rc = recovered_compare(w, "at the end");
	if (rc == 0)
		rc = make_healthy(w);
	if (rc == 0 && w->redundant)
		rc = check_clean(w, "repair at the end", true);
	if (rc == 0)
		rc = zones_compare(w, "after check and repair", true, true);
	if (rc == 0)
		rc = close_clean(w);
	all_down(w, true);
	for (unsigned i = 0; i < 2 && rc == 0 && w->redundant; i++)
		rc = probe(w);
	return rc;
}

/* --- a whole run -------------------------------------------------------------------------------------------------- */

static int first_open(struct world *w)
{
	struct error why = ERROR_INIT;
	struct disk *disks[CRASH_DISKS_MAX], *log = NULL;
	for (unsigned i = 0; i < w->o->disks + w->o->log_disk; i++)
		body_add(w, i == w->o->disks);
	int rc = bodies_open(w);
	if (rc != 0)
		return rc;
	for (unsigned i = 0; i < w->o->disks; i++)
		disks[i] = w->bodies[i].disk;
	if (w->o->log_disk)
		log = w->bodies[w->o->disks].disk;
	struct array_create_options c = {.name = "world",
		.layout = w->o->layout,
		.chunk_bytes = w->o->chunk_bytes,
		.rotation = w->o->rotation,
		.hole = w->o->hole,
		.log = log};
	rc = array_create(&c, disks, w->o->disks, &why);
	if (rc != 0)
		return world_fail(w, "it cannot be made: %s: %s", error_name(rc), why.text);
	/* A planned fault is counted from here; without redundancy whatever it does may be an error. */
	w->errors_allowed = w->o->plan == ORACLE_FAULT && !oracle_is_redundant(w->o->layout);
	if (w->o->plan == ORACLE_FAULT) {
		w->power.fault = w->o->fault;
		w->power.fault_at = w->power.operations + w->o->cut;
	}
	rc = array_up(w, &why);
	if (rc != 0 && !w->errors_allowed)
		return world_fail(w, "it does not open: %s: %s", error_name(rc), why.text);
	return rc;
}

static int world_body(void *arg)
{
	struct world *w = arg;
	int rc = first_open(w);
	if (rc == 0) {
		sizes_learn(w);
		w->expect_healthy = true;
		w->model = model_make(w->sectors, w->o->noise && !w->redundant);
		zones_choose(w);
	} else if (w->errors_allowed) {
		w->result->fault_met = w->power.is_met;
	}
	for (unsigned g = 0; rc == 0 && g < w->o->generations; g++)
		rc = generation(w, g);
	if (rc == 0)
		rc = last_look(w);
	all_down(w, true);
	return w->failed ? ERR_CORRUPT : w->errors_allowed ? 0 : rc;
}

int oracle_run(const struct oracle_options *o, struct oracle_result *ret, struct error *err)
{
	struct oracle_result result = {0};
	struct world *w = calloc(1, sizeof *w);
	struct os_simulation s;
	sp_assert(w);
	w->o = o;
	w->result = &result;
	w->err = err;
	w->status = calloc(1, sizeof *w->status);
	w->buffer = malloc(BUFFER_BYTES);
	sp_assert(w->status && w->buffer);
	seed_for(&w->random, o->seed, 2);
	os_simulation_init(&s, o->seed);
	s.cpus = 0;
	int rc = os_simulate(&s, world_body, w, err);
	result.trace_hash = s.trace_hash;
	model_free(w->model);
	for (unsigned i = 0; i < w->body_count; i++)
		platter_free(w->bodies[i].platter);
	free(w->buffer);
	free(w->status);
	free(w);
	*ret = result;
	return rc;
}

void oracle_result_add(struct oracle_result *sum, const struct oracle_result *r)
{
	sum->cuts += r->cuts;
	sum->writes += r->writes;
	sum->reads += r->reads;
	sum->flushes += r->flushes;
	sum->sectors_compared += r->sectors_compared;
	sum->operations += r->operations;
	sum->lost_sectors += r->lost_sectors;
	sum->replayed_records += r->replayed_records;
	sum->resynced_rows += r->resynced_rows;
	sum->rebuilds += r->rebuilds;
}

static unsigned guard_seconds; /* in the child: each run's own */

int oracle_run_noted(const struct oracle_options *o, struct oracle_note *note)
{
	struct error err = ERROR_INIT;
	char text[ORACLE_TEXT_BYTES];
	note->options = *o;
	if (guard_seconds)
		alarm(guard_seconds);
	int rc = oracle_run(o, &note->result, &err);
	note->runs++;
	oracle_result_add(&note->sum, &note->result);
	note->error = err;
	if (rc != 0) {
		fprintf(stderr, "FAILED: array-oracle %s\n  %s: %s\n", oracle_options_text(o, text), error_name(rc),
			err.text);
		fflush(stderr);
	}
	return rc;
}

/* --- in a child process ------------------------------------------------------------------------------------------- */

int oracle_guard(int (*body)(void *arg, struct oracle_note *note), void *arg, unsigned seconds_max,
	struct oracle_note *ret_note, struct error *err)
{
	struct oracle_note *note = mmap(NULL, sizeof *note, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (note == MAP_FAILED)
		return error_set(err, ERR_MEMORY, "no memory to share with a child");
	fflush(NULL);
	pid_t child = fork();
	if (child < 0) {
		munmap(note, sizeof *note);
		return error_set(err, ERR_MEMORY, "no child process can be made");
	}
	if (child == 0) {
		static const int signals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
		for (size_t i = 0; i < array_count(signals); i++)
			signal(signals[i], SIG_DFL); /* a test's handler would go on with the next test, in the child */
		guard_seconds = seconds_max;
		alarm(seconds_max);
		int rc = body(arg, note);
		fflush(NULL);
		_exit(rc == 0 ? 0 : 1);
	}
	int status = 0, rc = 0;
	waitpid(child, &status, 0);
	*ret_note = *note;
	munmap(note, sizeof *note);
	char text[ORACLE_TEXT_BYTES];
	oracle_options_text(&ret_note->options, text);
	if (WIFSIGNALED(status))
		rc = error_set(err, ERR_BUG, "%s (a run may take %u s); array-oracle %s", strsignal(WTERMSIG(status)),
			seconds_max, text);
	else if (WEXITSTATUS(status) != 0)
		rc = error_set(err, ERR_CORRUPT, "%s", ret_note->error.text);
	return rc;
}
