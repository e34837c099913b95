/*
 * One run of a world: some generations, each opens the pool over what the last power cut left, compares, and goes on.
 *
 *   platters ──► import (power may go here, too) ──► compare, check ──► threads write, read, flush, snapshot, discard …
 *       ▲                                                                             │
 *       └──────────────── what the power left ◄── power cut at operation N ◄──────────┘
 *
 * Each volume has one thread and one model, so that what a snapshot must hold is known exactly. All choices come from
 * generators seeded by the seed and a purpose, so that fixing one option leaves the rest as it was.
 */
#include "oracle.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../array/model.h"
#include "oracle_shape.h"

#define MIB ((uint64_t)1 << 20)
#define SECTOR MODEL_SECTOR_BYTES
#define VOLUMES_MAX 12
#define SNAPSHOTS_MAX 6
#define BUFFER_BYTES (1u << 20)
#define FULL_OPERATIONS 4000 /* so that most get there before the power goes */
#define MENDED_AFTER_NS 20000000000u

struct body {
	struct platter *platter; /* while it is not open */
	struct disk *disk;       /* while it is */
	bool away;
};

struct snapshot {
	char path[64];
	uint8_t *bytes; /* what it must hold */
	enum { SNAPSHOT_NONE, SNAPSHOT_BEING_MADE, SNAPSHOT_THERE, SNAPSHOT_BEING_DESTROYED } state;
	bool has_clone;
};

struct vol {
	char path[48];
	struct volume *volume;
	struct model *model;
	uint64_t base, sectors; /* base: of the numbers in its sectors */
	struct snapshot snapshots[SNAPSHOTS_MAX];
	int rolling_back;  /* to which snapshot, or -1 */
	bool there, maybe; /* maybe: it was being made or destroyed when power went */
	bool is_clone, being_made, being_destroyed;
	unsigned number; /* of its name */
};

struct world {
	const struct oracle_options *o;
	struct oracle_result *result;
	struct error *err;
	const struct shape *shape;
	bool failed, stopping, errors_allowed, redundant;
	bool is_stale; /* a disk was away and was not brought up to date since */
	unsigned parity;
	struct random random;
	struct power power;
	struct body bodies[CRASH_DISKS_MAX];
	unsigned body_count;
	struct pool *pool;
	struct vol vols[VOLUMES_MAX];
	unsigned vol_count;
	uint8_t *buffer;
	unsigned snapshot_number;
	uint64_t checkpoint_imported; /* from here on checkpoints are kept for a while */
	struct pool_status status;
};

struct worker {
	struct world *world;
	struct os_thread *thread;
	struct random random;
	uint8_t *buffer;
	unsigned index;
};

static int world_fail(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int world_fail(struct world *w, const char *format, ...)
{
	char text[ERROR_TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	w->failed = w->stopping = true;
	return error_set(w->err, ERR_CORRUPT, "%s", text);
}

static void say(const struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct world *w, const char *format, ...)
{
	va_list args;

	if (!w->o->loud)
		return;
	va_start(args, format);
	fprintf(stderr, "%9llu us op %llu: ", (unsigned long long)(os_now_ns() / 1000),
		(unsigned long long)w->power.operations);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

/* --- disks and the pool ------------------------------------------------------------------------------------------- */

static int bodies_open(struct world *w)
{
	power_init(&w->power, random_u64(&w->random));
	for (unsigned i = 0; i < w->body_count; i++) {
		struct body *b = &w->bodies[i];
		struct crash_options c = {.lying_flush = w->o->lying_flush};
		char name[16];

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

static int pool_up_at(struct world *w, bool read_only, unsigned rewind, struct error *why)
{
	struct disk *disks[CRASH_DISKS_MAX];
	struct pool_open_options o;

	pool_open_options_init(&o);
	o.read_only = read_only;
	o.rewind = rewind;
	o.tuning.cache_bytes = 2 * MIB;
	o.tuning.break_rule = w->o->break_rule;
	o.tuning.workers = 2;
	if (random_below(&w->random, 2))
		o.tuning.commit_ns = 20000000;
	return pool_open(&w->pool, &o, disks, bodies_given(w, disks), why);
}

static int pool_up(struct world *w, bool read_only, struct error *why)
{
	int rc = pool_up_at(w, read_only, 0, why);

	if (rc)
		return rc;
	pool_status_get(w->pool, &w->status);
	w->checkpoint_imported = w->status.checkpoint;
	return 0;
}

static void volumes_close(struct world *w)
{
	for (unsigned i = 0; i < w->vol_count; i++) {
		if (w->vols[i].volume)
			volume_close(w->vols[i].volume);
		w->vols[i].volume = NULL;
	}
}

/* Everything is off; what is on the platters is what counts. */
static void all_down(struct world *w, bool cut)
{
	if (cut)
		power_cut(&w->power);
	volumes_close(w);
	if (w->pool)
		pool_abandon(w->pool);
	w->pool = NULL;
	bodies_close(w);
}

/* --- comparing ---------------------------------------------------------------------------------------------------- */

static int compare(struct world *w, struct vol *v, const char *when, const uint8_t *bytes, uint64_t first,
	uint64_t count, uint64_t limit, bool pin)
{
	for (uint64_t i = 0; i < count; i++) {
		struct model_value value = model_value_of(bytes + i * SECTOR, v->base + first + i);

		if (!model_is_legal(v->model, first + i, value, limit)) {
			struct text t = {0};

			model_describe(v->model, first + i, value, &t);
			world_fail(w, "%s: %s: %s", when, v->path, t.bytes ? t.bytes : "");
			text_release(&t);
			return ERR_CORRUPT;
		}
		if (pin)
			model_pin(v->model, first + i, value);
	}
	w->result->sectors_compared += count;
	return 0;
}

static int volume_compare(struct world *w, struct vol *v, const char *when, bool pin)
{
	struct error why = ERROR_INIT;

	for (uint64_t at = 0; at < v->sectors; at += BUFFER_BYTES / SECTOR) {
		uint64_t count = min_of(v->sectors - at, (uint64_t)BUFFER_BYTES / SECTOR);

		if (volume_read(v->volume, at * SECTOR, w->buffer, count * SECTOR, &why) != 0)
			return world_fail(w, "%s: reading %s at sector %llu: %s", when, v->path, (unsigned long long)at,
				why.text);
		if (compare(w, v, when, w->buffer, at, count, model_durable(v->model), pin))
			return ERR_CORRUPT;
	}
	return 0;
}

/* A snapshot, or a volume that was being rolled back: 1 when it holds exactly these bytes, 0 when not, or an error. */
static int holds_exactly(struct world *w, const char *path, struct volume *open, const uint8_t *bytes, uint64_t base,
	uint64_t sectors, struct error *why)
{
	struct volume *volume = open;
	int code = open ? 0 : volume_open(w->pool, path, &volume, why), same = 1;

	for (uint64_t at = 0; !code && same && at < sectors; at += BUFFER_BYTES / SECTOR) {
		uint64_t count = min_of(sectors - at, (uint64_t)BUFFER_BYTES / SECTOR);

		code = volume_read(volume, at * SECTOR, w->buffer, count * SECTOR, why);
		same = !code && memcmp(w->buffer, bytes + at * SECTOR, count * SECTOR) == 0;
		for (uint64_t i = 0; !code && !same && i < count; i++)
			if (memcmp(w->buffer + i * SECTOR, bytes + (at + i) * SECTOR, SECTOR) != 0) {
				struct model_value is = model_value_of(w->buffer + i * SECTOR, base + at + i);
				struct model_value was = model_value_of(bytes + (at + i) * SECTOR, base + at + i);

				say(w, "%s: sector %llu shows kind %d value %llu, it was kind %d value %llu", path,
					(unsigned long long)(at + i), (int)is.kind, (unsigned long long)is.value,
					(int)was.kind, (unsigned long long)was.value);
				break;
			}
	}
	if (volume && !open)
		volume_close(volume);
	return code ? code : same;
}

static int snapshot_compare(struct world *w, struct vol *v, struct snapshot *s, const char *when)
{
	struct error why = ERROR_INIT;
	int rc = holds_exactly(w, s->path, NULL, s->bytes, v->base, v->sectors, &why);

	if (rc == ERR_NOT_FOUND && s->state != SNAPSHOT_THERE) {
		s->state = SNAPSHOT_NONE;
		return 0;
	}
	if (rc < 0)
		return world_fail(w, "%s: the snapshot %s: %s", when, s->path, why.text);
	if (rc == 0)
		return world_fail(
			w, "%s: the snapshot %s does not hold what %s held when it was taken", when, s->path, v->path);
	s->state = SNAPSHOT_THERE;
	return 0;
}

static void pin_bytes(struct vol *v, const uint8_t *bytes)
{
	for (uint64_t s = 0; s < v->sectors; s++)
		model_pin(v->model, s, model_value_of(bytes + s * SECTOR, v->base + s));
}

/* After an import: every volume and snapshot holds what it may; from here on it is known exactly what. */
static int all_compare(struct world *w, const char *when)
{
	for (unsigned i = 0; i < w->vol_count; i++) {
		struct vol *v = &w->vols[i];
		struct error why = ERROR_INIT;
		int rc;

		if (!v->there && !v->being_made)
			continue;
		rc = volume_open(w->pool, v->path, &v->volume, &why);
		if (rc == ERR_NOT_FOUND && (v->being_made || v->being_destroyed)) {
			v->there = v->being_made = v->being_destroyed = false;
			continue;
		}
		if (rc)
			return world_fail(w, "%s: opening %s: %s", when, v->path, why.text);
		v->there = true;
		v->being_made = v->being_destroyed = false;
		if (v->rolling_back >= 0) {
			struct snapshot *s = &v->snapshots[v->rolling_back];

			rc = holds_exactly(w, v->path, v->volume, s->bytes, v->base, v->sectors, &why);
			if (rc < 0)
				return world_fail(
					w, "%s: %s, which was being rolled back: %s", when, v->path, why.text);
			if (rc == 1)
				pin_bytes(v, s->bytes);
			v->rolling_back = -1;
		}
		rc = volume_compare(w, v, when, true);
		for (unsigned k = 0; !rc && k < SNAPSHOTS_MAX; k++)
			if (v->snapshots[k].state != SNAPSHOT_NONE)
				rc = snapshot_compare(w, v, &v->snapshots[k], when);
		if (rc)
			return rc;
	}
	return 0;
}

/*
 * After damage beyond redundancy no more is known than that each sector is one that its volume once held: that the end of
 * the log or the newest checkpoint is gone cannot be seen. A pool that says it cannot be trusted takes no write.
 */
static int wrecked_compare(struct world *w)
{
	bool is_doubtful = w->status.read_only_reason[0];

	for (unsigned i = 0; i < w->vol_count; i++) {
		struct vol *v = &w->vols[i];
		struct error why = ERROR_INIT;

		if (!v->there || volume_open(w->pool, v->path, &v->volume, &why) != 0)
			continue;
		for (uint64_t at = 0; at < v->sectors; at += 64) {
			uint64_t count = min_of(v->sectors - at, (uint64_t)64);

			if (volume_read(v->volume, at * SECTOR, w->buffer, count * SECTOR, NULL) != 0)
				continue;
			w->result->sectors_compared += count;
			for (uint64_t k = 0; k < count; k++)
				if (model_value_of(w->buffer + k * SECTOR, v->base + at + k).kind == MODEL_NOISE)
					return world_fail(w, "after a wreck: %s: sector %llu holds what nobody wrote",
						v->path, (unsigned long long)(at + k));
		}
		if (is_doubtful && volume_write(v->volume, 0, w->buffer, SECTOR, NULL) == 0 &&
			volume_flush(v->volume, NULL) == 0)
			return world_fail(w, "after a wreck: %s took a write, and the pool is for reading only: %s",
				v->path, w->status.read_only_reason);
	}
	return 0;
}

static void finding(void *arg, const char *sentence)
{
	struct world *w = arg;

	say(w, "check: %s", sentence);
	if (!w->failed)
		world_fail(w, "check: %s", sentence);
}

static int check(struct world *w, bool data)
{
	struct pool_check_result r = {0};
	struct error why = ERROR_INIT;
	int rc = pool_check(w->pool, data, finding, w, &r, &why);

	w->result->checks++;
	if (rc)
		return world_fail(w, "check did not run through: %s", why.text);
	return w->failed ? ERR_CORRUPT : 0;
}

static int scrub(struct world *w, bool must_be_clean)
{
	struct pool_scrub_status s = {0};
	struct error why = ERROR_INIT;
	int rc = pool_scrub(w->pool, NULL, NULL, &s, &why);

	w->result->scrubs++;
	if (rc)
		return world_fail(w, "scrub: %s", why.text);
	if (s.unrecoverable || (must_be_clean && s.errors))
		return world_fail(w, "scrub found %llu errors, %llu of them beyond repair%s",
			(unsigned long long)s.errors, (unsigned long long)s.unrecoverable,
			must_be_clean ? "; the scrub before it had left nothing" : "");
	return 0;
}

/* With each of some sets of p disks away, one set after the other, all can be read. */
static int without_disks(struct world *w)
{
	unsigned sets = w->parity == 1 ? w->body_count : 4;
	struct error why = ERROR_INIT;

	volumes_close(w);
	if (pool_close(w->pool, &why) != 0) {
		w->pool = NULL;
		return world_fail(w, "closing: %s", why.text);
	}
	w->pool = NULL;
	for (unsigned s = 0; s < sets; s++) {
		for (unsigned i = 0; i < w->parity; i++)
			w->bodies[w->parity == 1 ? s : random_below(&w->random, w->body_count)].away = true;
		say(w, "without some disks");
		if (pool_up(w, true, &why) != 0)
			return world_fail(w, "import for reading with %u disks away: %s", w->parity, why.text);
		if (all_compare(w, "with disks away") != 0)
			return ERR_CORRUPT;
		volumes_close(w);
		pool_close(w->pool, NULL);
		w->pool = NULL;
		for (unsigned i = 0; i < w->body_count; i++)
			w->bodies[i].away = false;
	}
	if (pool_up(w, false, &why) != 0)
		return world_fail(w, "import after all disks were away in turn: %s", why.text);
	return all_compare(w, "after all disks were away in turn");
}

/* What lies between the newest checkpoint and the one that was imported was kept: import -F finds it whole. */
static int rewound(struct world *w, unsigned back)
{
	struct error why = ERROR_INIT;
	int rc = 0;

	if (bodies_open(w))
		return ERR_CORRUPT;
	say(w, "%u checkpoints back", back);
	w->result->rewinds++;
	if (pool_up_at(w, true, back, &why) != 0)
		return world_fail(w, "import of %u checkpoints before the newest: %s", back, why.text);
	rc = check(w, true);
	for (unsigned i = 0; !rc && i < w->vol_count; i++)
		for (unsigned k = 0; !rc && k < SNAPSHOTS_MAX; k++) {
			struct snapshot *s = &w->vols[i].snapshots[k];

			if (s->state != SNAPSHOT_THERE || !w->vols[i].there)
				continue;
			rc = holds_exactly(w, s->path, NULL, s->bytes, w->vols[i].base, w->vols[i].sectors, &why);
			if (rc == ERR_NOT_FOUND)
				rc = 0;
			else if (rc != 1)
				rc = world_fail(w, "%u checkpoints before the newest the snapshot %s: %s", back,
					s->path, rc ? why.text : "other bytes");
			else
				rc = 0;
		}
	all_down(w, false);
	return rc;
}

/* --- what threads do ---------------------------------------------------------------------------------------------- */

static bool is_over(const struct world *w)
{
	return w->stopping || w->failed || w->power.is_cut;
}

/* An error that a call gave: fine once power is gone, or where it was to be expected; else a failure. */
static bool tolerate(struct worker *k, const char *what, const struct vol *v, int code, const struct error *why)
{
	struct world *w = k->world;

	if (w->power.is_cut || w->stopping)
		return true;
	/* The disks are small: snapshots keep what is overwritten, and then it is full. */
	if (code == ERR_SPACE) {
		w->result->refused_full++;
		return true;
	}
	if (w->errors_allowed)
		return true;
	world_fail(w, "%s of %s failed: %s", what, v->path, why->text);
	return false;
}

static void draw_range(struct worker *k, const struct vol *v, uint64_t *first, uint64_t *count)
{
	uint64_t record = k->world->o->record_bytes / SECTOR, most = BUFFER_BYTES / SECTOR;
	uint64_t kind = random_below(&k->random, 4);

	*count = kind == 0   ? 1 + random_below(&k->random, 16)
		 : kind == 1 ? record * (1 + random_below(&k->random, 4))
		 : kind == 2 ? 1 + random_below(&k->random, 3 * record)
			     : record * (8 + random_below(&k->random, 24));
	*count = min_of(min_of(*count, most), v->sectors);
	*first = random_below(&k->random, v->sectors - *count + 1);
	if (kind == 1 || kind == 3)
		*first = round_down_u64(*first, record);
}

static void do_write(struct worker *k, struct vol *v)
{
	struct error why = ERROR_INIT;
	uint64_t first, count;
	uint32_t version;
	int code;

	draw_range(k, v, &first, &count);
	version = model_write_begin(v->model, first, count);
	model_fill(k->buffer, v->base + first, count, version);
	code = volume_write(v->volume, first * SECTOR, k->buffer, count * SECTOR, &why);
	if (!k->world->power.is_cut)
		model_write_end(v->model, version, code == 0);
	k->world->result->writes++;
	say(k->world, "%s: write %llu of sectors %llu..%llu: %d", v->path, (unsigned long long)version,
		(unsigned long long)first, (unsigned long long)(first + count - 1), code);
	if (code)
		tolerate(k, "a write", v, code, &why);
}

static void do_discard(struct worker *k, struct vol *v)
{
	struct error why = ERROR_INIT;
	uint64_t first, count;
	uint32_t version;
	int code;

	draw_range(k, v, &first, &count);
	version = model_zero_begin(v->model, first, count);
	code = volume_discard(v->volume, first * SECTOR, count * SECTOR, &why);
	if (!k->world->power.is_cut)
		model_write_end(v->model, version, code == 0);
	if (code)
		tolerate(k, "a discard", v, code, &why);
}

static void do_read(struct worker *k, struct vol *v)
{
	struct world *w = k->world;
	struct error why = ERROR_INIT;
	uint64_t first, count, limit = model_begin(v->model);
	int code;

	draw_range(k, v, &first, &count);
	code = volume_read(v->volume, first * SECTOR, k->buffer, count * SECTOR, &why);
	w->result->reads++;
	if (code)
		tolerate(k, "a read", v, code, &why);
	else if (!w->power.is_cut)
		compare(w, v, "a read", k->buffer, first, count, limit, false);
}

static void do_flush(struct worker *k, struct vol *v)
{
	struct error why = ERROR_INIT;
	uint64_t began = model_begin(v->model);
	int code = volume_flush(v->volume, &why);

	k->world->result->flushes++;
	/* A flush that says yes at the very moment that the power goes is believed, too. */
	model_flush_end(v->model, began, code == 0);
	if (code)
		tolerate(k, "a flush", v, code, &why);
}

static void do_commit(struct worker *k, struct vol *v, bool fold)
{
	struct world *w = k->world;
	struct error why = ERROR_INIT;
	uint64_t began = model_begin(v->model);
	int code = fold ? pool_checkpoint(w->pool, &why) : pool_commit(w->pool, &why);

	model_flush_end(v->model, began, code == 0);
	if (code)
		tolerate(k, fold ? "a checkpoint" : "a commit", v, code, &why);
}

/* Reads all of the volume; false when that failed. */
static bool read_all(struct worker *k, struct vol *v, uint8_t *bytes)
{
	struct error why = ERROR_INIT;
	uint64_t limit = model_begin(v->model);
	int code = volume_read(v->volume, 0, bytes, v->sectors * SECTOR, &why);

	if (code)
		tolerate(k, "a read", v, code, &why);
	return !code && !k->world->power.is_cut &&
	       compare(k->world, v, "a read", bytes, 0, v->sectors, limit, false) == 0;
}

static void do_snapshot(struct worker *k, struct vol *v)
{
	struct world *w = k->world;
	struct error why = ERROR_INIT;
	struct snapshot *s = NULL;
	int code;

	for (unsigned i = 0; i < SNAPSHOTS_MAX && !s; i++)
		if (v->snapshots[i].state == SNAPSHOT_NONE)
			s = &v->snapshots[i];
	if (!s)
		return;
	if (!s->bytes)
		s->bytes = malloc(v->sectors * SECTOR);
	if (!s->bytes || !read_all(k, v, s->bytes))
		return;
	snprintf(s->path, sizeof s->path, "tank/%s%u@s%u", v->is_clone ? "c" : "v", v->number, w->snapshot_number++);
	say(w, "snapshot %s of %s", s->path, v->path);
	s->state = SNAPSHOT_BEING_MADE;
	s->has_clone = false;
	code = pool_snapshot_create(w->pool, s->path, false, &why);
	w->result->snapshots++;
	if (code) {
		if (!w->power.is_cut && code == ERR_SPACE)
			s->state = SNAPSHOT_NONE;
		tolerate(k, "a snapshot", v, code, &why);
	} else {
		s->state = SNAPSHOT_THERE;
		/* What a snapshot holds is durable, and so is what the volume holds. */
		pin_bytes(v, s->bytes);
	}
}

static struct snapshot *pick_snapshot(struct worker *k, struct vol *v)
{
	unsigned start = (unsigned)random_below(&k->random, SNAPSHOTS_MAX);

	for (unsigned i = 0; i < SNAPSHOTS_MAX; i++) {
		struct snapshot *s = &v->snapshots[(start + i) % SNAPSHOTS_MAX];

		if (s->state == SNAPSHOT_THERE)
			return s;
	}
	return NULL;
}

static void do_snapshot_destroy(struct worker *k, struct vol *v)
{
	struct error why = ERROR_INIT;
	struct snapshot *s = pick_snapshot(k, v);
	int code;

	if (!s || s->has_clone)
		return;
	say(k->world, "destroy %s", s->path);
	s->state = SNAPSHOT_BEING_DESTROYED;
	code = pool_dataset_destroy(k->world->pool, s->path, false, &why);
	if (code)
		tolerate(k, "destroying a snapshot", v, code, &why);
	else
		s->state = SNAPSHOT_NONE;
}

static void do_rollback(struct worker *k, struct vol *v)
{
	struct world *w = k->world;
	struct error why = ERROR_INIT;
	struct snapshot *s = pick_snapshot(k, v);
	int code;

	if (!s)
		return;
	for (unsigned i = 0; i < SNAPSHOTS_MAX; i++)
		if (v->snapshots[i].has_clone)
			return;
	/* Newer ones go with it. */
	for (unsigned i = 0; i < SNAPSHOTS_MAX; i++)
		if (v->snapshots[i].state == SNAPSHOT_THERE &&
			atoi(strchr(v->snapshots[i].path, '@') + 2) > atoi(strchr(s->path, '@') + 2))
			v->snapshots[i].state = SNAPSHOT_BEING_DESTROYED;
	say(w, "rollback to %s", s->path);
	v->rolling_back = (int)(s - v->snapshots);
	volume_close(v->volume);
	v->volume = NULL;
	code = pool_snapshot_rollback(w->pool, s->path, true, &why);
	if (code) {
		tolerate(k, "a rollback", v, code, &why);
		if (w->power.is_cut)
			return;
	} else {
		pin_bytes(v, s->bytes);
		v->rolling_back = -1;
		for (unsigned i = 0; i < SNAPSHOTS_MAX; i++)
			if (v->snapshots[i].state == SNAPSHOT_BEING_DESTROYED)
				v->snapshots[i].state = SNAPSHOT_NONE;
	}
	error_clear(&why);
	if (volume_open(w->pool, v->path, &v->volume, &why) != 0 && !w->power.is_cut)
		world_fail(w, "opening %s after a rollback: %s", v->path, why.text);
}

static void do_clone(struct worker *k, struct vol *v)
{
	struct world *w = k->world;
	struct error why = ERROR_INIT;
	struct snapshot *s = pick_snapshot(k, v);
	struct vol *c;
	int code;

	if (!s || w->vol_count == VOLUMES_MAX)
		return;
	c = &w->vols[w->vol_count++];
	*c = (struct vol){
		.base = v->base, .sectors = v->sectors, .rolling_back = -1, .is_clone = true, .being_made = true};
	c->number = w->snapshot_number++;
	snprintf(c->path, sizeof c->path, "tank/c%u", c->number);
	c->model = model_make(c->sectors, false);
	pin_bytes(c, s->bytes);
	s->has_clone = true;
	say(w, "clone %s to %s", s->path, c->path);
	code = pool_clone_create(w->pool, s->path, c->path, &why);
	if (code)
		tolerate(k, "a clone", v, code, &why);
	else {
		c->there = true;
		c->being_made = false;
	}
}

static void step(struct worker *k, struct vol *v)
{
	uint64_t what = random_below(&k->random, 100);

	if (what < 44)
		do_write(k, v);
	else if (what < 60)
		do_read(k, v);
	else if (what < 74)
		do_flush(k, v);
	else if (what < 80)
		do_discard(k, v);
	else if (what < 84)
		do_commit(k, v, false);
	else if (what < 88)
		do_commit(k, v, true);
	else if (what < 92)
		do_snapshot(k, v);
	else if (what < 94)
		do_snapshot_destroy(k, v);
	else if (what < 95)
		do_rollback(k, v);
	else if (what < 96)
		do_clone(k, v);
	else if (what < 97)
		pool_drop_cache(k->world->pool);
	else
		os_sleep_ns(random_below(&k->random, 200000000));
}

static void worker_run(void *arg)
{
	struct worker *k = arg;
	struct world *w = k->world;

	for (unsigned i = 0; i < w->o->steps && !is_over(w) && w->vols[k->index].volume; i++)
		step(k, &w->vols[k->index]);
}

static int workers_run_all(struct world *w)
{
	struct worker workers[4];
	unsigned count = 0;

	for (; count < w->o->threads && count < w->vol_count; count++) {
		struct worker *k = &workers[count];

		*k = (struct worker){.world = w, .index = count};
		seed_for(&k->random, random_u64(&w->random), 3);
		k->buffer = aligned_alloc(4096, BUFFER_BYTES);
		sp_assert(k->buffer);
		if (os_thread_create(&k->thread, "user", worker_run, k, w->err) != 0) {
			world_fail(w, "no thread");
			break;
		}
	}
	for (unsigned i = 0; i < count; i++) {
		os_thread_join(workers[i].thread);
		free(workers[i].buffer);
	}
	return w->failed ? ERR_CORRUPT : 0;
}

/* --- one generation ----------------------------------------------------------------------------------------------- */

static int world_create(struct world *w)
{
	const struct shape *s = w->shape;
	struct pool_vdev vdevs[4] = {0};
	struct disk *disks[CRASH_DISKS_MAX];
	struct error why = ERROR_INIT;
	struct pool_create_options o = {.name = "tank", .vdevs = vdevs, .vdev_count = s->groups};
	const char *compression[] = {"compression=off", "compression=lz4", "compression=zstd"};
	const char *properties[] = {compression[w->o->compression], NULL};

	w->body_count = s->groups * s->kind_disks;
	for (unsigned i = 0; i < w->body_count; i++)
		w->bodies[i].platter = platter_make(16 * MIB + 4096 * random_below(&w->random, 512), 0);
	for (unsigned g = 0; g < s->groups; g++) {
		vdevs[g] = (struct pool_vdev){.parity = shape_parity(s),
			.width = s->width,
			.first = g * s->kind_disks,
			.count = s->kind_disks};
		snprintf(vdevs[g].kind, sizeof vdevs[g].kind,
			s->parity == 9 ? "mirror"
			: s->parity    ? "parity%u"
				       : "disk",
			s->parity);
	}
	if (bodies_open(w))
		return ERR_CORRUPT;
	for (unsigned i = 0; i < w->body_count; i++)
		disks[i] = w->bodies[i].disk;
	if (pool_create(&o, disks, w->body_count, &why) != 0 || pool_up(w, false, &why) != 0)
		return world_fail(w, "creating the pool: %s", why.text);
	for (unsigned i = 0; i < max_of(w->o->threads, 1u); i++) {
		struct vol *v = &w->vols[w->vol_count++];

		v->base = (uint64_t)i << 22;
		v->sectors = (w->o->plan == ORACLE_FULL ? 8 + random_below(&w->random, 40)
							: 1 + random_below(&w->random, 3)) *
			     MIB / SECTOR;
		v->rolling_back = -1;
		v->there = true;
		v->number = i;
		snprintf(v->path, sizeof v->path, "tank/v%u", i);
		v->model = model_make(v->sectors, false);
		if (pool_volume_create(
			    w->pool, v->path, v->sectors * SECTOR, w->o->record_bytes, true, properties, &why) != 0 ||
			volume_open(w->pool, v->path, &v->volume, &why) != 0)
			return world_fail(w, "creating %s: %s", v->path, why.text);
	}
	return 0;
}

/* Imports what the last cut left, now and then losing power again on the way. */
static int world_import(struct world *w)
{
	for (unsigned attempt = 0;; attempt++) {
		struct error why = ERROR_INIT;

		if (bodies_open(w))
			return ERR_CORRUPT;
		if (attempt < 3 && random_below(&w->random, 4) == 0)
			w->power.cut_at = 1 + random_below(&w->random, 60);
		if (pool_up(w, false, &why) == 0 && !w->power.is_cut) {
			w->power.cut_at = 0;
			if (w->status.read_only_reason[0])
				return world_fail(w, "import after a power cut is for reading only: %s",
					w->status.read_only_reason);
			return 0;
		}
		if (!w->power.is_cut)
			return world_fail(w, "import after a power cut: %s", why.text);
		w->result->cuts++;
		say(w, "power went during the import");
		all_down(w, false);
	}
}

/* Silent changes on at most p disks, anywhere behind the front label. */
static void rot(struct world *w)
{
	for (unsigned d = 0; d < w->parity; d++) {
		struct body *b = &w->bodies[(d + random_below(&w->random, w->body_count)) % w->body_count];
		uint64_t size = disk_traits(b->disk)->size_bytes;

		d = w->parity; /* one disk's worth each time keeps within what any stripe survives */
		w->power.liar = b->disk;
		for (unsigned i = 0; i < 40; i++)
			crash_disk_flip(b->disk, MIB + random_below(&w->random, size - 2 * MIB),
				1 + (uint8_t)random_below(&w->random, 255));
	}
}

static void disks_take_away(struct world *w)
{
	for (unsigned i = 0; i < w->body_count; i++)
		w->bodies[i].away = false;
	/* One that is back but behind counts as away until a scrub has brought it up to date. */
	if (w->o->plan != ORACLE_LOSE || w->is_stale || random_below(&w->random, 2))
		return;
	w->is_stale = true;
	for (unsigned i = 0; i < w->parity; i++)
		w->bodies[random_below(&w->random, w->body_count)].away = true;
}

static bool any_away(const struct world *w)
{
	for (unsigned i = 0; i < w->body_count; i++)
		if (w->bodies[i].away)
			return true;
	return false;
}

/* With disks away a scrub mends what is there; what they missed stays theirs to make good. */
static int scrub_without(struct world *w)
{
	int rc = pool_checkpoint(w->pool, w->err);

	rc = rc ? rc : scrub(w, false);
	pool_status_get(w->pool, &w->status);
	for (unsigned i = 0; !rc && i < w->status.disk_count; i++)
		if (!w->status.disks[i].disk && !w->status.disks[i].missed_from)
			rc = world_fail(w, "disk %u is away, and after a scrub it is said to have missed nothing", i);
	return rc;
}

static int judge(struct world *w)
{
	bool full = w->o->full && !any_away(w);
	int rc = all_compare(w, "after a power cut");

	if (!rc && !any_away(w) && w->o->plan != ORACLE_VANISH && w->o->plan != ORACLE_LOSE &&
		w->o->plan != ORACLE_FAULT && w->o->plan != ORACLE_ROT)
		rc = check(w, full);
	if (!rc && (full || ((w->o->plan == ORACLE_ROT || w->o->plan == ORACLE_VANISH || w->o->plan == ORACLE_LOSE ||
				     w->o->plan == ORACLE_FAULT) &&
				    !any_away(w)))) {
		rc = scrub(w, false);
		w->is_stale = false;
		rc = rc ? rc : pool_checkpoint(w->pool, w->err);
		rc = rc ? rc : scrub(w, true);
		rc = rc ? rc : check(w, true);
	}
	if (!rc && any_away(w) && random_below(&w->random, 2))
		rc = scrub_without(w);
	if (!rc && full && w->redundant) {
		w->result->full_oracles++;
		rc = without_disks(w);
	}
	return rc;
}

static void trouble_begin(struct world *w, unsigned generation)
{
	const struct oracle_options *o = w->o;
	uint64_t drawn = 1 + random_below(&w->random, 20 + 30 * (uint64_t)o->steps * max_of(o->threads, 1u));
	uint64_t at = w->power.operations + (generation == 0 && o->cut ? o->cut : drawn);

	if (o->plan == ORACLE_FAULT) {
		w->power.fault_at = at;
		w->power.fault = o->fault;
		w->power.cut_at = 0;
	} else if (o->plan == ORACLE_VANISH) {
		w->power.fault_at = w->power.operations + 1 + random_below(&w->random, drawn);
		w->power.fault = CRASH_VANISH;
		w->power.cut_at = at;
	} else
		w->power.cut_at = at + (o->plan == ORACLE_FULL && random_below(&w->random, 2) ? FULL_OPERATIONS : 0);
}

/* A full pool: destroying a volume must work, and leave room. */
static int delete_in_full(struct world *w)
{
	struct vol *v = &w->vols[0];
	struct error why = ERROR_INIT;
	int rc;

	if (w->o->plan != ORACLE_FULL || w->power.is_cut || !v->there || w->vol_count < 1)
		return 0;
	for (unsigned i = 0; i < w->vol_count; i++)
		if (w->vols[i].is_clone)
			return 0;
	volume_close(v->volume);
	v->volume = NULL;
	v->being_destroyed = true;
	say(w, "destroy %s in a full pool", v->path);
	rc = pool_dataset_destroy(w->pool, v->path, true, &why);
	if (rc && !w->power.is_cut)
		return world_fail(w, "destroying %s in a full pool: %s", v->path, why.text);
	if (!rc) {
		v->there = v->being_destroyed = false;
		for (unsigned i = 0; i < SNAPSHOTS_MAX; i++)
			v->snapshots[i].state = SNAPSHOT_NONE;
		if (pool_checkpoint(w->pool, &why) != 0 && !w->power.is_cut)
			return world_fail(w, "a checkpoint after a volume of a full pool was destroyed: %s", why.text);
	} else
		for (unsigned i = 0; i < SNAPSHOTS_MAX; i++)
			if (v->snapshots[i].state == SNAPSHOT_THERE)
				v->snapshots[i].state = SNAPSHOT_BEING_DESTROYED;
	return 0;
}

/*
 * More is wrong than redundancy makes good. The import is refused, or it is for reading only and says why, or it holds
 * all that was promised. What cannot be read is an error, never other bytes. Nothing is written when that was asked for.
 */
static int wreck(struct world *w)
{
	struct error why = ERROR_INIT;
	static const unsigned odds[] = {1, 4, 8, 12};
	unsigned share = odds[random_below(&w->random, array_count(odds))];
	bool may_write = random_below(&w->random, 2);
	uint64_t before = 0, after = 0;
	int rc;

	for (unsigned i = 0; i < w->body_count; i++) {
		platter_wreck(w->bodies[i].platter, &w->random, share);
		before = before * 31 + platter_hash(w->bodies[i].platter);
	}
	if (bodies_open(w))
		return ERR_CORRUPT;
	rc = pool_up(w, !may_write, &why);
	say(w, "wrecked, %u of 16: %s", share, rc ? why.text : w->status.read_only_reason);
	w->result->refused += rc != 0;
	if (!rc) {
		bool asked = strcmp(w->status.read_only_reason, "asked for") == 0;

		w->result->read_only += w->status.read_only_reason[0] && !asked;
		rc = wrecked_compare(w);
		volumes_close(w);
		pool_abandon(w->pool);
	} else
		rc = 0;
	w->pool = NULL;
	bodies_close(w);
	for (unsigned i = 0; i < w->body_count; i++)
		after = after * 31 + platter_hash(w->bodies[i].platter);
	if (!rc && !may_write && before != after)
		rc = world_fail(w, "an import for reading only wrote");
	return rc;
}

/* All volumes are written, one after the other, until nothing more fits. */
static int fill(struct world *w)
{
	for (unsigned i = 0; i < w->vol_count && !w->power.is_cut; i++) {
		struct vol *v = &w->vols[i];

		for (uint64_t at = 0; v->there && v->volume && at < v->sectors && !w->power.is_cut;) {
			uint64_t count = min_of(v->sectors - at, (uint64_t)BUFFER_BYTES / SECTOR);
			uint32_t version = model_write_begin(v->model, at, count);
			struct error why = ERROR_INIT;

			model_fill(w->buffer, v->base + at, count, version);
			int code = volume_write(v->volume, at * SECTOR, w->buffer, count * SECTOR, &why);
			if (!w->power.is_cut)
				model_write_end(v->model, version, code == 0);
			w->result->writes++;
			if (code == ERR_SPACE) {
				w->result->refused_full++;
				return 0;
			}
			if (code && !w->power.is_cut)
				return world_fail(w, "a write of %s while the pool fills: %s", v->path, why.text);
			at += count;
		}
	}
	return 0;
}

/* What failed once and is over was made good by itself: nothing is wrong on the disks, though no scrub looked. */
static int mended_unasked(struct world *w)
{
	struct error why = ERROR_INIT;
	bool is_over = w->o->fault == CRASH_EIO_ONCE || w->o->fault == CRASH_MEDIA;

	if (w->o->plan != ORACLE_FAULT || !w->redundant || w->power.is_cut || !is_over)
		return 0;
	w->power.fault_at = 0;
	if (pool_checkpoint(w->pool, &why) != 0)
		return world_fail(w, "a checkpoint after a fault: %s", why.text);
	os_sleep_ns(MENDED_AFTER_NS);
	pool_status_get(w->pool, &w->status);
	if (w->status.state != POOL_ONLINE)
		return 0;
	return check(w, true);
}

static int generation_run(struct world *w, unsigned generation)
{
	int rc;

	trouble_begin(w, generation);
	if (w->o->plan == ORACLE_ROT)
		rot(w);
	/* Without redundancy a disk that fails takes calls with it. */
	w->errors_allowed = (w->o->plan == ORACLE_FAULT || w->o->plan == ORACLE_VANISH) && !w->redundant;
	rc = workers_run_all(w);
	if (!rc && w->o->plan == ORACLE_FULL)
		rc = fill(w);
	rc = rc ? rc : mended_unasked(w);
	rc = rc ? rc : delete_in_full(w);
	pool_status_get(w->pool, &w->status);
	uint64_t kept = w->status.checkpoint - w->checkpoint_imported;
	w->result->met |= w->power.is_met;
	w->result->operations += w->power.operations;
	if (rc)
		return rc;
	if (!w->power.is_cut)
		say(w, "power goes when all is done");
	w->result->cuts++;
	all_down(w, !w->power.is_cut);
	if (w->o->plan == ORACLE_WRECK && generation + 1 == w->o->generations)
		return wreck(w);
	if (kept && (w->o->plan == ORACLE_POWER || w->o->plan == ORACLE_FULL) && random_below(&w->random, 2))
		rc = rewound(w, kept > 1 ? 2 : 1);
	if (rc)
		return rc;
	disks_take_away(w);
	rc = world_import(w);
	return rc ? rc : judge(w);
}

static int world_run(void *arg)
{
	struct world *w = arg;
	struct error why = ERROR_INIT;
	int rc = world_create(w);

	for (unsigned g = 0; !rc && g < w->o->generations; g++)
		rc = generation_run(w, g);
	if (w->o->plan == ORACLE_WRECK)
		return rc;
	if (!rc && w->pool) {
		volumes_close(w);
		if (pool_close(w->pool, &why) != 0 && !w->errors_allowed && !w->power.is_cut)
			rc = world_fail(w, "closing at the end: %s", why.text);
		w->pool = NULL;
		if (!rc && pool_up(w, true, &why) != 0)
			rc = world_fail(w, "import for reading after a clean close: %s", why.text);
		rc = rc ? rc : all_compare(w, "after a clean close");
	}
	all_down(w, false);
	return rc;
}

static int run_once(const struct oracle_options *o, struct oracle_result *ret, struct error *err)
{
	scoped_free struct world *w = calloc(1, sizeof *w);
	struct os_simulation sim;
	int rc;

	sp_assert(w);
	*ret = (struct oracle_result){0};
	w->o = o;
	w->result = ret;
	w->err = err;
	w->shape = shape_find(o->shape);
	w->parity = shape_parity(w->shape);
	w->redundant = w->parity > 0;
	w->buffer = aligned_alloc(4096, BUFFER_BYTES);
	sp_assert(w->buffer);
	model_set_compressible(o->compression != 0 && o->seed % 2);
	seed_for(&w->random, o->seed, 2);
	os_simulation_init(&sim, o->seed);
	rc = os_simulate(&sim, world_run, w, err);
	ret->trace_hash = sim.trace_hash;
	for (unsigned i = 0; i < w->body_count; i++) {
		if (w->bodies[i].platter)
			ret->image_hash = ret->image_hash * 31 + platter_hash(w->bodies[i].platter);
		platter_free(w->bodies[i].platter);
	}
	for (unsigned i = 0; i < w->vol_count; i++) {
		model_free(w->vols[i].model);
		for (unsigned k = 0; k < SNAPSHOTS_MAX; k++)
			free(w->vols[i].snapshots[k].bytes);
	}
	free(w->buffer);
	return rc;
}

int oracle_run(const struct oracle_options *o, struct oracle_result *ret, struct error *err)
{
	struct oracle_result again;
	int rc = run_once(o, ret, err);

	if (rc || !o->twice)
		return rc;
	rc = run_once(o, &again, err);
	if (rc) {
		error_prefix(err, "the second time");
		return rc;
	}
	if (again.image_hash != ret->image_hash || again.trace_hash != ret->trace_hash)
		return error_set(err, ERR_CORRUPT, "the same seed again left other bytes on the disks (image %016llx and "
						   "%016llx, events %016llx and %016llx)",
			(unsigned long long)ret->image_hash, (unsigned long long)again.image_hash,
			(unsigned long long)ret->trace_hash, (unsigned long long)again.trace_hash);
	return 0;
}
