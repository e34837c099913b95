/*
 * Check of whole pools: nothing is found after any work, and each planted wrong is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

#include "internal.h"

#define DISKS_MAX 6
#define DISK_BYTES (32u << 20)
#define VOLUME_BYTES (4u << 20)

struct shape {
	const char *kind;
	unsigned groups, each, parity;
};
static const struct shape shapes[] = {
	{"disk", 2, 1, 0},
	{"mirror", 1, 2, 1},
	{"mirror", 2, 2, 1},
	{"parity1", 1, 4, 1},
	{"parity2", 1, 5, 2},
};

struct world {
	const struct shape *shape;
	struct disk *disks[DISKS_MAX];
	unsigned count;
	struct pool *pool;
	struct random random;
	uint8_t buffer[256 << 10];
	char found[4][512];
	unsigned findings;
	uint64_t seed;
	unsigned step;
	bool told; /* print them */
};

static uint64_t seed_running;

static void must(int rc, const struct error *err)
{
	if (rc)
		print_message("seed %llu: %s: %s\n", (unsigned long long)seed_running, error_name(rc), err->text);
	assert_int_equal(rc, 0);
}

static void world_open(struct world *w, bool read_only)
{
	struct pool_open_options o;
	struct error err = ERROR_INIT;

	pool_open_options_init(&o);
	o.read_only = read_only;
	o.tuning.cache_bytes = 8 << 20;
	must(pool_open(&w->pool, &o, w->disks, w->count, &err), &err);
}

static void world_create(struct world *w, const struct shape *shape, uint64_t seed)
{
	struct pool_vdev vdevs[DISKS_MAX] = {{{0}}};
	struct pool_create_options o = {.name = "tank", .vdevs = vdevs, .vdev_count = shape->groups};
	struct error err = ERROR_INIT;

	memset(w, 0, sizeof *w);
	w->seed = seed;
	random_seed(&w->random, seed);
	w->shape = shape;
	w->count = shape->groups * shape->each;
	for (unsigned g = 0; g < shape->groups; g++) {
		snprintf(vdevs[g].kind, sizeof vdevs[g].kind, "%s", shape->kind);
		vdevs[g].parity = shape->parity;
		vdevs[g].first = g * shape->each;
		vdevs[g].count = shape->each;
	}
	for (unsigned i = 0; i < w->count; i++) {
		char name[16];

		snprintf(name, sizeof name, "disk%u", i);
		must(disk_open_memory(name, DISK_BYTES, &w->disks[i], &err), &err);
	}
	must(pool_create(&o, w->disks, w->count, &err), &err);
	world_open(w, false);
	must(pool_volume_create(w->pool, "tank/a", VOLUME_BYTES, 8192, true, NULL, &err), &err);
	must(pool_volume_create(w->pool, "tank/b", VOLUME_BYTES, 65536, true, NULL, &err), &err);
}

static void world_free(struct world *w)
{
	struct error err = ERROR_INIT;

	if (w->pool)
		must(pool_close(w->pool, &err), &err);
	for (unsigned i = 0; i < w->count; i++)
		disk_close(w->disks[i]);
}

static void keep_finding(void *arg, const char *sentence)
{
	struct world *w = arg;

	if (w->told)
		print_message("found: %s\n", sentence);
	if (w->findings < array_count(w->found))
		snprintf(w->found[w->findings], sizeof w->found[0], "%s", sentence);
	w->findings++;
}

static unsigned check(struct world *w, bool data, struct pool_check_result *ret)
{
	struct pool_check_result mine;
	struct error err = ERROR_INIT;

	w->findings = 0;
	must(pool_check(w->pool, data, keep_finding, w, ret ? ret : &mine, &err), &err);
	assert_int_equal(w->findings, ret ? ret->findings : mine.findings);
	return w->findings;
}

static void assert_clean(struct world *w, bool data, const char *when)
{
	unsigned found = check(w, data, NULL);

	for (unsigned i = 0; i < min_of(found, (unsigned)array_count(w->found)); i++)
		print_message("seed %llu, step %u, %s %ux%u, %s: %s\n", (unsigned long long)w->seed, w->step,
			w->shape->kind, w->shape->groups, w->shape->each, when, w->found[i]);
	assert_int_equal(found, 0);
}

static unsigned done_count; /* of the calls that may be refused */

static void may(int rc, struct error *err)
{
	done_count += rc == 0;
	if (rc && rc != ERR_EXISTS && rc != ERR_NOT_FOUND && rc != ERR_BUSY && rc != ERR_REFUSED && rc != ERR_USAGE &&
		rc != ERR_SPACE)
		must(rc, err);
	error_clear(err);
}

static void write_some(struct world *w, const char *path, unsigned times)
{
	struct volume *v;
	struct error err = ERROR_INIT;
	bool no_room = false; /* snapshots keep what is overwritten */

	must(volume_open(w->pool, path, &v, &err), &err);
	for (unsigned i = 0; i < times && !no_room; i++) {
		uint64_t length = 512 * (1 + random_below(&w->random, random_below(&w->random, 4) ? 32 : 400));
		uint64_t offset = 512 * random_below(&w->random, (VOLUME_BYTES - length) / 512 + 1);

		random_fill(&w->random, w->buffer, length);
		if (random_below(&w->random, 3) == 0)
			memset(w->buffer, 7, length / 2);
		if (random_below(&w->random, 8) == 0)
			no_room |= volume_discard(v, offset, length, &err) == ERR_SPACE;
		else
			no_room |= volume_write(v, offset, w->buffer, length, &err) == ERR_SPACE;
		if (!no_room)
			must(err.code, &err);
		error_clear(&err);
	}
	if (random_below(&w->random, 2))
		must(volume_flush(v, &err), &err);
	volume_close(v);
}

/* --- nothing is found --------------------------------------------------------------------------------------------- */

struct job {
	const struct shape *shape;
	uint64_t seed;
	unsigned steps;
};

static void step(struct world *w, unsigned number)
{
	static const char *const volumes[] = {"tank/a", "tank/b", "tank/c"};
	unsigned which = (unsigned)random_below(&w->random, 3), snap = (unsigned)random_below(&w->random, 4);
	struct error err = ERROR_INIT;
	char name[64];

	snprintf(name, sizeof name, "%s@s%u", volumes[which], snap);
	switch (random_below(&w->random, 12)) {
	case 0:
	case 1:
		may(pool_snapshot_create(w->pool, name, false, &err), &err);
		break;
	case 2:
		may(pool_dataset_destroy(w->pool, name, false, &err), &err);
		break;
	case 3:
		if (which < 2)
			may(pool_clone_create(w->pool, name, "tank/c", &err), &err);
		break;
	case 4:
		if (random_below(&w->random, 2))
			may(pool_dataset_destroy(w->pool, "tank/c", true, &err), &err);
		break;
	case 5:
		may(pool_snapshot_rollback(w->pool, name, random_below(&w->random, 2), &err), &err);
		break;
	case 6:
		must(pool_checkpoint(w->pool, &err), &err);
		break;
	case 7:
		if (random_below(&w->random, 2))
			pool_abandon(w->pool);
		else
			must(pool_close(w->pool, &err), &err);
		w->pool = NULL;
		if (random_below(&w->random, 2)) { /* with the log not folded */
			world_open(w, true);
			assert_clean(w, false, "opened for reading only");
			must(pool_close(w->pool, &err), &err);
		}
		world_open(w, false);
		break;
	default:
		write_some(w, volumes[which % 2], 1 + (unsigned)random_below(&w->random, 30));
	}
	if (random_below(&w->random, 4) == 0)
		assert_clean(w, random_below(&w->random, 4) == 0, "in between");
}

static int clean_after_all(void *arg)
{
	const struct job *j = arg;
	struct world *w = calloc(1, sizeof *w);

	world_create(w, j->shape, j->seed);
	assert_clean(w, true, "new");
	for (unsigned i = 0; i < j->steps; i++)
		step(w, w->step = i);
	assert_clean(w, true, "at the end");
	world_free(w);
	free(w);
	return 0;
}

static unsigned seeds(unsigned usual)
{
	const char *text = getenv("SPINDLE_SEEDS");

	return text ? (unsigned)strtoul(text, NULL, 10) : usual;
}

static void nothing_is_found_after_any_work(void **state)
{
	const char *from = getenv("SPINDLE_SEED");

	for (uint64_t seed = from ? strtoull(from, NULL, 10) : 1; seed <= seeds(10); seed++) {
		struct job j = {.shape = &shapes[seed % array_count(shapes)], .seed = seed, .steps = 200};
		struct os_simulation s;
		struct error err = ERROR_INIT;

		seed_running = seed;
		os_simulation_init(&s, seed);
		must(os_simulate(&s, clean_after_all, &j, &err), &err);
	}
	print_message("%u snapshots, clones, rollbacks and destroys were done\n", done_count);
	assert_true(done_count > 5 * seeds(10));
}

/* --- what is planted is found ------------------------------------------------------------------------------------- */

static void damage(struct world *w, unsigned disk, uint64_t unit)
{
	static uint8_t noise[4096] __attribute__((aligned(4096)));
	struct error err = ERROR_INIT;

	memset(noise, 0x5a, sizeof noise);
	must(disk_write(w->disks[disk], unit * POOL_UNIT_BYTES, noise, sizeof noise, &err), &err);
}

static bool first_record(void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct bp *bp = arg;

	return bp_unpack_value(value, bytes, bp, NULL) != 0 || bp->kind != BP_DATA;
}

static struct dataset *volume_a(struct world *w)
{
	struct error err = ERROR_INIT;

	os_mutex_lock(&w->pool->lock);
	struct dataset *d = dataset_by_path(w->pool, "tank/a", &err);
	os_mutex_unlock(&w->pool->lock);
	assert_non_null(d);
	return d;
}

/* Something of a record that has a column. */
static struct bp a_record(struct world *w, struct key *ret_key)
{
	struct dataset *d = volume_a(w);
	struct bp bp = {0};
	struct error err = ERROR_INIT;

	must(tree_walk(w->pool, &d->root, d->id, (struct key){0, 0}, first_record, &bp, &err), &err);
	assert_int_equal(bp.kind, BP_DATA);
	(void)ret_key;
	return bp;
}

enum plant {
	PLANT_DATA,
	PLANT_PARITY,
	PLANT_PARITY_ONLY,
	PLANT_NODE_COPY,
	PLANT_NODE,
	PLANT_LIVE_LOST,
	PLANT_LIVE_LEFT,
	PLANT_FIGURE,
	PLANT_TWICE,
	PLANT_NO_RUN,
	PLANT_PIECE,
	PLANT_DEAD_ITEM,
	PLANT_SUMS,
	PLANT_MEMORY,
	PLANT_COUNT
};
static const char *const said[PLANT_COUNT] = {
	[PLANT_DATA] = "checksum",
	[PLANT_PARITY] = "its sums",
	[PLANT_PARITY_ONLY] = "is not the parity",
	[PLANT_NODE_COPY] = "another one is good",
	[PLANT_NODE] = "no copy",
	[PLANT_LIVE_LOST] = "not live",
	[PLANT_LIVE_LEFT] = "no record has them",
	[PLANT_FIGURE] = "figures say",
	[PLANT_TWICE] = "another record's too",
	[PLANT_NO_RUN] = "has no stripe",
	[PLANT_PIECE] = "no tree reaches them",
	[PLANT_DEAD_ITEM] = "dead list",
	[PLANT_SUMS] = "sums",
	[PLANT_MEMORY] = "taken in memory",
};

/* One more item in a tree of p->uber, or in the tree of volume a, as a fold would write it. */
static void plant_item(struct world *w, uint64_t tree, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct tree_change change = {.key = key, .value = value, .bytes = bytes};
	struct delta *d;
	struct error err = ERROR_INIT;

	/* through the delta: so it goes the way of every change */
	(void)d;
	os_mutex_lock(&w->pool->lock);
	must(delta_put(w->pool->committed, tree, change.key, change.value, change.bytes, &err), &err);
	os_mutex_unlock(&w->pool->lock);
}

static void plant(struct world *w, enum plant what)
{
	struct bp bp = a_record(w, NULL), other;
	struct dataset *d = volume_a(w);
	struct run *r = run_find(w->pool, bp.run);
	uint8_t value[BP_BYTES];
	struct error err = ERROR_INIT;
	size_t bit = (size_t)bp.stripe * r->k + bp.column;
	struct disk_address a = run_place(r, bp.stripe, bp.column);

	switch (what) {
	case PLANT_DATA:
		damage(w, a.disk, a.unit);
		break;
	case PLANT_PARITY:
		a = run_place(r, bp.stripe, r->k);
		damage(w, a.disk, a.unit);
		break;
	case PLANT_PARITY_ONLY: {
		/* with a sum that fits: only the arithmetic tells */
		struct bp root = w->pool->uber.sums;
		static uint8_t sums[TREE_VALUE_MAX], column[1 << 20] __attribute__((aligned(4096)));
		unsigned per_item = sums_stripes_per_item(r->k + r->p, r->class),
			 each = (r->k + r->p) * sums_per_column(r->class) * 4;
		struct tree_change change = {.key = {bp.run, bp.stripe / per_item}, .value = sums};

		a = run_place(r, bp.stripe, r->k);
		damage(w, a.disk, a.unit);
		must(disk_read(w->disks[a.disk], a.unit * POOL_UNIT_BYTES, column, class_bytes[r->class], &err), &err);
		must(tree_lookup(w->pool, &root, TREE_SUMS, change.key, sums, sizeof sums, &change.bytes, &err), &err);
		put_le32(sums + bp.stripe % per_item * each + r->k * sums_per_column(r->class) * 4,
			checksum_crc32c(column, min_of(class_bytes[r->class], SUM_BYTES)));
		must(tree_update(w->pool, &root, TREE_SUMS, &change, 1, w->pool->uber.commit, NULL, NULL, &err), &err);
		w->pool->uber.sums = root;
		/* An item that is not full yet is written anew from memory by the next fold. */
		if (bp.stripe >= r->sums_first && bp.stripe < r->sums_end)
			r->sums[(size_t)(bp.stripe - r->sums_first) * each / 4 + r->k * sums_per_column(r->class)] =
				checksum_crc32c(column, min_of(class_bytes[r->class], SUM_BYTES));
		break;
	}
	case PLANT_NODE_COPY:
		damage(w, d->root.copy[0].disk, d->root.copy[0].unit);
		break;
	case PLANT_NODE:
		for (unsigned c = 0; c < d->root.copies; c++)
			damage(w, d->root.copy[c].disk, d->root.copy[c].unit);
		break;
	case PLANT_LIVE_LOST:
		os_mutex_lock(&w->pool->lock);
		r->live[bit / 64] &= ~(1ull << bit % 64);
		r->live_count--;
		r->dirty = true;
		os_mutex_unlock(&w->pool->lock);
		break;
	case PLANT_LIVE_LEFT: /* the record goes and its column stays */
		os_mutex_lock(&w->pool->lock);
		r->live[bit / 64] &= ~(1ull << bit % 64);
		r->live_count--;
		os_mutex_unlock(&w->pool->lock);
		struct volume *v;
		must(volume_open(w->pool, "tank/a", &v, &err), &err);
		must(volume_discard(v, 0, VOLUME_BYTES, &err), &err);
		volume_close(v);
		must(pool_checkpoint(w->pool, &err), &err);
		os_mutex_lock(&w->pool->lock);
		r = run_find(w->pool, bp.run);
		assert_non_null(r);
		r->live[bit / 64] |= 1ull << bit % 64;
		r->live_count++;
		r->dirty = true;
		os_mutex_unlock(&w->pool->lock);
		break;
	case PLANT_FIGURE:
		os_mutex_lock(&w->pool->lock);
		d->referenced += 4096;
		os_mutex_unlock(&w->pool->lock);
		write_some(w, "tank/a", 3);
		break;
	case PLANT_TWICE:
		bp_pack(&bp, value);
		plant_item(w, d->id, (struct key){VOLUME_BYTES / 8192 - 1, 0}, value, BP_BYTES);
		break;
	case PLANT_NO_RUN:
		other = bp;
		other.run = 1ull << 40;
		bp_pack(&other, value);
		plant_item(w, d->id, (struct key){VOLUME_BYTES / 8192 - 1, 0}, value, BP_BYTES);
		break;
	case PLANT_PIECE: {
		struct meta_extent e;

		os_mutex_lock(&w->pool->lock);
		must(space_allot_meta(w->pool, 1, &e, &err), &err);
		os_mutex_unlock(&w->pool->lock);
		break;
	}
	case PLANT_DEAD_ITEM:
		must(pool_snapshot_create(w->pool, "tank/a@x", false, &err), &err);
		write_some(w, "tank/a", 20);
		must(pool_checkpoint(w->pool, &err), &err);
		bp_pack(&bp, value);
		{
			/* one more on its list, by the tree itself */
			struct bp root = w->pool->uber.dead;
			struct tree_change change = {
				.key = {d->dead_list, UINT64_MAX}, .value = value, .bytes = BP_BYTES};

			must(tree_update(w->pool, &root, TREE_DEAD, &change, 1, w->pool->uber.commit, NULL, NULL, &err),
				&err);
			w->pool->uber.dead = root;
		}
		break;
	case PLANT_SUMS: {
		struct bp root = w->pool->uber.sums;
		struct tree_change change = {.key = {bp.run, 0}};

		r->dirty = false; /* or the next fold writes them again */
		must(tree_update(w->pool, &root, TREE_SUMS, &change, 1, w->pool->uber.commit, NULL, NULL, &err), &err);
		w->pool->uber.sums = root;
		break;
	}
	case PLANT_MEMORY:
		for (unsigned z = 0; z < w->pool->disks[0].zone_count; z++)
			if (w->pool->disks[0].zones[z].class < CLASS_COUNT) {
				w->pool->disks[0].zones[z].used++;
				break;
			}
		break;
	case PLANT_COUNT:
		break;
	}
}

static int find_planted(void *arg)
{
	const struct job *j = arg;
	struct world *w = calloc(1, sizeof *w);
	struct error err = ERROR_INIT;
	enum plant what = (enum plant)j->steps;
	bool found = false;

	world_create(w, j->shape, j->seed);
	write_some(w, "tank/a", 60);
	must(pool_checkpoint(w->pool, &err), &err);
	must(pool_checkpoint(w->pool, &err), &err);
	assert_clean(w, true, "before the plant");
	pool_drop_cache(w->pool);
	plant(w, what);
	pool_drop_cache(w->pool);
	check(w, true, NULL);
	for (unsigned i = 0; i < min_of(w->findings, (unsigned)array_count(w->found)); i++)
		found |= strstr(w->found[i], said[what]) != NULL;
	if (!found) {
		for (unsigned i = 0; i < min_of(w->findings, (unsigned)array_count(w->found)); i++)
			print_message("said: %s\n", w->found[i]);
		print_message("plant %u: nothing says '%s'\n", what, said[what]);
	}
	if (what == PLANT_MEMORY)
		for (unsigned z = 0; z < w->pool->disks[0].zone_count; z++)
			if (w->pool->disks[0].zones[z].class < CLASS_COUNT) {
				w->pool->disks[0].zones[z].used--;
				break;
			}
	pool_abandon(w->pool);
	w->pool = NULL;
	world_free(w);
	free(w);
	return found ? 0 : ERR_BUG;
}

static void what_is_planted_is_found(void **state)
{
	for (unsigned what = 0; what < PLANT_COUNT; what++) {
		struct job j = {.shape = &shapes[3], .seed = 40 + what, .steps = what};
		struct os_simulation s;
		struct error err = ERROR_INIT;

		os_simulation_init(&s, what);
		must(os_simulate(&s, find_planted, &j, &err), &err);
	}
}

/* --- whatever is wrong, it ends and says so ----------------------------------------------------------------------- */

static int any_damage(void *arg)
{
	const struct job *j = arg;
	struct world *w = calloc(1, sizeof *w);
	struct error err = ERROR_INIT;
	struct pool_check_result r;

	world_create(w, j->shape, j->seed);
	write_some(w, "tank/a", 60);
	must(pool_snapshot_create(w->pool, "tank/a@x", false, &err), &err);
	write_some(w, "tank/b", 60);
	write_some(w, "tank/a", 60);
	must(pool_checkpoint(w->pool, &err), &err);
	for (unsigned round = 0; round < 12; round++) {
		pool_drop_cache(w->pool);
		for (unsigned i = 0; i < 20 + 40 * round; i++) /* beyond the labels */
			damage(w, (unsigned)random_below(&w->random, w->count),
				(w->pool->disks[0].data_start_bytes + random_below(&w->random, 6u << 20)) /
					POOL_UNIT_BYTES);
		w->pool->read_only = true; /* nothing is mended */
		w->findings = 0;
		int rc = pool_check(w->pool, true, keep_finding, w, &r, &err);
		assert_true(rc == 0);
	}
	assert_true(w->findings > 0);
	pool_abandon(w->pool);
	w->pool = NULL;
	world_free(w);
	free(w);
	return 0;
}

static void any_damage_is_survived(void **state)
{
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct job j = {.shape = &shapes[seed % array_count(shapes)], .seed = seed};
		struct os_simulation s;
		struct error err = ERROR_INIT;

		os_simulation_init(&s, seed);
		must(os_simulate(&s, any_damage, &j, &err), &err);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_planted_is_found),
		cmocka_unit_test(any_damage_is_survived),
		cmocka_unit_test(nothing_is_found_after_any_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
