/* The allocator against a plain map of units: who has which, and until when. */
#include "stand_in.h"

#define CLASS_128K class_of(128 << 10)
#define MIB (1u << 20)
#define KIND_DISK                                                                                                      \
	{                                                                                                              \
		GROUP_DISK, 1, 1, 0                                                                                    \
	}

/* --- the model ------------------------------------------------------------------------------------------------- */

enum state { FREE, LIVE, WAITING, NODE };

struct unit {
	uint8_t state;
	uint64_t tag;
};

struct model {
	struct unit *units[POOL_DISKS_MAX];
	uint64_t unit_count;
	uint64_t pins[64];
	unsigned pin_count;
};
static struct model model;

static void model_open(void)
{
	struct pool *p = world.pool;

	memset(&model, 0, sizeof model);
	for (unsigned i = 0; i < p->disk_count; i++) {
		model.unit_count = (p->disks[i].data_start_bytes + p->disks[i].zone_count * p->disks[i].zone_bytes) /
				   POOL_UNIT_BYTES;
		model.units[i] = calloc(model.unit_count, sizeof(struct unit));
	}
}

static void model_close(void)
{
	for (unsigned i = 0; i < world.pool->disk_count; i++)
		free(model.units[i]);
}

static void model_set(struct disk_address a, uint64_t units, enum state from, enum state to, uint64_t tag)
{
	assert_true(a.unit >= world.pool->disks[a.disk].data_start_bytes / POOL_UNIT_BYTES);
	assert_true(a.unit + units <= model.unit_count);
	for (uint64_t u = a.unit; u < a.unit + units; u++) {
		assert_int_equal(model.units[a.disk][u].state, from);
		model.units[a.disk][u] = (struct unit){(uint8_t)to, tag};
	}
}

static uint64_t oldest_pin(void)
{
	uint64_t oldest = UINT64_MAX;

	for (unsigned i = 0; i < model.pin_count; i++)
		oldest = min_of(oldest, model.pins[i]);
	return oldest;
}

static void model_checkpoint(void)
{
	uint64_t durable = world.pool->checkpoint_durable;

	for (unsigned i = 0; i < world.pool->disk_count; i++)
		for (uint64_t u = 0; u < model.unit_count; u++) {
			struct unit *at = &model.units[i][u];

			if (at->state == WAITING && at->tag + 2 <= durable && oldest_pin() >= at->tag)
				*at = (struct unit){FREE, 0};
		}
}

/* free_bytes is what neither the model nor the tail of a zone has. */
static void figures_agree(void)
{
	struct pool *p = world.pool;

	space_close_runs(p);
	for (unsigned i = 0; i < p->disk_count; i++) {
		struct pool_disk *d = &p->disks[i];
		uint64_t taken = 0, tails = 0;
		unsigned zones_free = 0;

		for (uint64_t u = 0; u < model.unit_count; u++)
			taken += model.units[i][u].state != FREE;
		for (unsigned z = 0; z < d->zone_count; z++) {
			if (d->zones[z].class == ZONE_FREE)
				zones_free++;
			else
				tails += d->zone_bytes % class_bytes[d->zones[z].class];
		}
		assert_int_equal(d->free_bytes, d->zone_count * d->zone_bytes - tails - taken * POOL_UNIT_BYTES);
		assert_int_equal(d->zones_free, zones_free);
	}
}

/* --- random work ----------------------------------------------------------------------------------------------- */

struct kept { /* a stripe that holds something */
	uint64_t run;
	uint32_t stripe;
	unsigned k, p, class;
	uint32_t live;
	struct disk_address column[POOL_WIDTH_MAX];
};

struct node_row {
	struct meta_extent e;
};

struct play {
	struct random random;
	struct kept *kept;
	size_t kept_count, kept_room;
	struct node_row nodes[256];
	unsigned node_count;
};

static void note_stripe(struct play *y, const struct run *r, uint32_t stripe)
{
	if (y->kept_count == y->kept_room) {
		y->kept_room = max_of(y->kept_room * 2, (size_t)256);
		y->kept = realloc(y->kept, y->kept_room * sizeof *y->kept);
	}
	struct kept *k = &y->kept[y->kept_count++];
	*k = (struct kept){
		.run = r->id, .stripe = stripe, .k = r->k, .p = r->p, .class = r->class, .live = (1u << r->k) - 1};
	for (unsigned c = 0; c < k->k + k->p; c++) {
		const struct pool_disk *d;

		k->column[c] = run_place(r, stripe, c);
		d = &world.pool->disks[k->column[c].disk];
		assert_int_equal(d->config->group, r->group);
		assert_true(d->state == PD_ONLINE || r->column_state[c]);
		for (unsigned o = 0; o < c; o++)
			assert_int_not_equal(k->column[o].disk, k->column[c].disk);
		/* in one zone with the first of its run */
		uint64_t zone_units = d->zone_bytes / POOL_UNIT_BYTES, start = d->data_start_bytes / POOL_UNIT_BYTES;
		assert_int_equal((run_place(r, 0, c).unit - start) / zone_units,
			(k->column[c].unit + class_units(k->class) - 1 - start) / zone_units);
		model_set(k->column[c], class_units(k->class), FREE, LIVE, 0);
	}
}

static int play_write(struct play *y, unsigned class, uint32_t records, bool reserve)
{
	struct pool *p = world.pool;
	uint32_t sums[POOL_WIDTH_MAX * 1024];
	int rc = 0;

	memset(sums, 0, sizeof sums);
	for (uint32_t left = records; left && !rc;) {
		struct allotment a;
		struct error err = ERROR_INIT;

		rc = space_allot(p, p->commit_durable + 1, class, left, 1 + (uint32_t)random_below(&y->random, 40),
			reserve ? ZONES_ALL : ZONES_AVAILABLE, random_below(&y->random, 16) == 0, &a, &err);
		if (rc) {
			assert_int_equal(rc, ERR_SPACE);
			assert_true(err.text[0]);
			break;
		}
		assert_true(a.count > 0 && a.count * a.run->k <= left);
		assert_int_equal(a.run->class, class);
		if (random_below(&y->random, 20) == 0) {
			stripes_drop(p, a.run, a.first, a.count);
			left -= min_of(left, 8u);
			continue;
		}
		for (uint32_t s = a.first; s < a.first + a.count; s++)
			note_stripe(y, a.run, s);
		left -= a.count * a.run->k;
		scoped_free uint8_t *entry = malloc(run_log_bytes(a.run, a.count));
		must(stripes_keep(p, a.run, a.first, a.count, sums, &err), &err);
		must(transaction_append(p, NULL, LOG_RUN, entry,
			     (uint32_t)run_log_pack(a.run, a.first, a.count, sums, entry), &err),
			&err);
	}
	return rc;
}

static void play_kill(struct play *y)
{
	struct pool *p = world.pool;

	if (y->kept_count == 0)
		return;
	size_t at = (size_t)random_below(&y->random, y->kept_count);
	struct kept *k = &y->kept[at];
	unsigned c = (unsigned)random_below(&y->random, k->k);
	run_column_dead(p, k->run, k->stripe, c);
	k->live &= ~(1u << c);
	if (k->live)
		return;
	for (unsigned i = 0; i < k->k + k->p; i++)
		model_set(k->column[i], class_units(k->class), LIVE, WAITING, p->checkpoint_durable + 1);
	*k = y->kept[--y->kept_count];
}

static void play_node(struct play *y)
{
	struct meta_extent e;
	struct error err = ERROR_INIT;
	int rc;

	if (y->node_count == array_count(y->nodes))
		return;
	rc = space_allot_meta(world.pool, 1 + (uint32_t)random_below(&y->random, 20), &e, &err);
	if (rc) {
		assert_int_equal(rc, ERR_SPACE);
		return;
	}
	assert_true(e.count > 0 && e.copies > 0);
	if (random_below(&y->random, 4) == 0 && e.count > 1) {
		space_unallot_meta(world.pool, &e, e.count / 2);
		e.count /= 2;
	}
	for (unsigned c = 0; c < e.copies; c++) {
		for (unsigned o = 0; o < c; o++)
			assert_int_not_equal(e.copy[o].disk, e.copy[c].disk);
		model_set(e.copy[c], e.count * class_units(CLASS_META), FREE, NODE, 0);
	}
	y->nodes[y->node_count++].e = e;
}

static void play_node_free(struct play *y)
{
	struct pool *p = world.pool;

	if (y->node_count == 0)
		return;
	struct node_row *row = &y->nodes[random_below(&y->random, y->node_count)];
	struct bp bp = {.kind = BP_NODE, .physical_bytes = NODE_BYTES, .copies = row->e.copies};
	for (unsigned c = 0; c < bp.copies; c++) {
		bp.copy[c] = row->e.copy[c];
		bp.copy[c].unit += (row->e.count - 1) * class_units(CLASS_META);
		model_set(bp.copy[c], class_units(CLASS_META), NODE, WAITING, p->checkpoint_durable + 1);
	}
	space_free_meta(p, &bp);
	if (--row->e.count == 0)
		*row = y->nodes[--y->node_count];
}

static void play_pin(struct play *y)
{
	if (model.pin_count < 8 && random_below(&y->random, 2)) {
		model.pins[model.pin_count++] = reader_enter(world.pool);
	} else if (model.pin_count) {
		unsigned i = (unsigned)random_below(&y->random, model.pin_count);

		reader_leave(world.pool, model.pins[i]);
		model.pins[i] = model.pins[--model.pin_count];
	}
	assert_int_equal(reader_oldest(world.pool), oldest_pin());
}

static void play_disk(struct play *y)
{
	struct pool_disk *d = &world.pool->disks[random_below(&y->random, world.pool->disk_count)];

	d->state = d->state == PD_ONLINE ? PD_FAULTED : PD_ONLINE;
}

static uint64_t live_bytes(const struct play *y)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < y->kept_count; i++)
		bytes += (uint64_t)__builtin_popcount(y->kept[i].live) * class_bytes[y->kept[i].class];
	return bytes;
}

static void play(struct play *y, unsigned steps)
{
	for (unsigned i = 0; i < steps; i++) {
		switch (random_below(&y->random, 16)) {
		case 0:
			play_node(y);
			break;
		case 1:
			play_node_free(y);
			break;
		case 2:
			world_checkpoint();
			model_checkpoint();
			break;
		case 3:
			play_pin(y);
			break;
		case 4:
			if (random_below(&y->random, 8) == 0)
				play_disk(y);
			break;
		case 5:
			if (random_below(&y->random, 8) == 0) {
				struct pool_space s;

				figures_agree();
				space_figures(world.pool, &s);
				assert_int_equal(s.data_bytes, live_bytes(y));
				assert_int_equal(s.used_bytes,
					s.data_bytes + s.metadata_bytes + s.snapshot_bytes + s.reservation_bytes);
			}
			break;
		case 6:
		case 7:
		case 8:
		case 9:
			for (unsigned n = 0; n < 30; n++)
				play_kill(y);
			break;
		default:
			play_write(y, (unsigned)random_below(&y->random, CLASS_COUNT),
				1 + (uint32_t)random_below(&y->random, 60), random_below(&y->random, 4) == 0);
		}
	}
}

static const struct world_group shapes[][3] = {
	{KIND_DISK},
	{KIND_DISK, KIND_DISK, KIND_DISK},
	{{GROUP_MIRROR, 2, 2, 1}},
	{{GROUP_MIRROR, 3, 3, 2}, {GROUP_MIRROR, 3, 3, 2}},
	{{GROUP_PARITY, 4, 4, 1}},
	{{GROUP_PARITY, 6, 6, 2}, {GROUP_PARITY, 5, 5, 2}},
	{{GROUP_PARITY, 9, 9, 3}},
	{{GROUP_PARITY, 12, 5, 1}},
	{{GROUP_MIRROR, 2, 2, 1}, {GROUP_PARITY, 5, 5, 1}, KIND_DISK},
};

static unsigned group_count_of(unsigned shape)
{
	unsigned n = 0;

	while (n < 3 && shapes[shape][n].disks)
		n++;
	return n;
}

static void no_unit_is_given_twice(void **state)
{
	for (unsigned seed = 0; seed < seeds(45); seed++) {
		struct play y = {0};
		unsigned shape = seed % array_count(shapes);

		random_seed(&y.random, seed);
		world_open(shapes[shape], group_count_of(shape), NULL, 24 * MIB, seed % 2 ? MIB : 2 * MIB,
			seed % 3 ? MIB : 256 << 10);
		model_open();
		play(&y, 400);
		figures_agree();
		free(y.kept);
		model_close();
		world_close();
	}
}

/* --- what follows from the descriptors ------------------------------------------------------------------------- */

static int by_id(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return x->run != y->run ? (x->run < y->run ? -1 : 1) : (int)x->stripe - (int)y->stripe;
}

static void replay_gives_the_same_map(void **state)
{
	for (unsigned seed = 0; seed < seeds(18); seed++) {
		struct play y = {0};
		unsigned shape = seed % array_count(shapes);

		random_seed(&y.random, seed);
		world_open(shapes[shape], group_count_of(shape), NULL, 40 * MIB, 2 * MIB, MIB);
		model_open();
		for (unsigned i = 0; i < 60; i++)
			play_write(&y, (unsigned)random_below(&y.random, 12), 1 + (uint32_t)random_below(&y.random, 60),
				false);
		space_close_runs(world.pool);
		uint64_t free_before[POOL_DISKS_MAX], next = world.pool->next_run;
		for (unsigned i = 0; i < world.pool->disk_count; i++)
			free_before[i] = world.pool->disks[i].free_bytes;
		world_import();
		for (unsigned i = 0; i < world.pool->disk_count; i++)
			assert_int_equal(world.pool->disks[i].free_bytes, free_before[i]);
		assert_true(world.pool->next_run <= next);
		qsort(y.kept, y.kept_count, sizeof *y.kept, by_id);
		for (size_t i = 0; i < y.kept_count; i++) {
			const struct run *r = run_find(world.pool, y.kept[i].run);

			assert_non_null(r);
			for (unsigned c = 0; c < y.kept[i].k + y.kept[i].p; c++) {
				assert_int_equal(run_place(r, y.kept[i].stripe, c).disk, y.kept[i].column[c].disk);
				assert_int_equal(run_place(r, y.kept[i].stripe, c).unit, y.kept[i].column[c].unit);
			}
		}
		play(&y, 100); /* and it goes on */
		free(y.kept);
		model_close();
		world_close();
	}
}

static void descriptors_that_overlap_are_refused(void **state)
{
	struct run_format f = {.id = 7, .birth = 1, .class = CLASS_128K, .k = 2, .p = 1, .stripes = 4, .live = {0xff}};
	struct error err = ERROR_INIT;
	uint64_t free_bytes;

	world_open((struct world_group[]){{GROUP_PARITY, 3, 3, 1}}, 1, NULL, 20 * MIB, MIB, MIB);
	for (unsigned c = 0; c < 3; c++)
		f.column[c] = (struct disk_address){(uint8_t)c, MIB / POOL_UNIT_BYTES};
	must(run_install(world.pool, &f, &err), &err);
	free_bytes = world.pool->disks[0].free_bytes;
	assert_int_equal(run_install(world.pool, &f, &err), ERR_CORRUPT);
	struct run_format bad = f;
	error_clear(&err);
	bad.id = 8;
	assert_int_equal(run_install(world.pool, &bad, &err), ERR_CORRUPT);
	assert_non_null(strstr(err.text, "used twice"));
	for (unsigned which = 0; which < 8; which++) {
		bad = f;
		bad.id = 9;
		for (unsigned c = 0; c < 3; c++)
			bad.column[c].unit = 2 * MIB / POOL_UNIT_BYTES;
		switch (which) {
		case 0:
			bad.column[1].unit = 5;
			break;
		case 1:
			bad.column[2].unit = 1ULL << 39;
			break;
		case 2:
			bad.column[2].unit += 1; /* not at a column */
			break;
		case 3:
			bad.column[2].disk = 1;
			break;
		case 4:
			bad.column[2].disk = 200;
			break;
		case 5:
			bad.k = 0;
			break;
		case 6:
			bad.stripes = 9; /* past the end of the zone */
			break;
		case 7:
			bad.group = 1;
			break;
		}
		error_clear(&err);
		assert_int_equal(run_install(world.pool, &bad, &err), ERR_CORRUPT);
		assert_true(err.text[0]);
		assert_null(run_find(world.pool, 9));
	}
	for (unsigned c = 0; c < 3; c++)
		assert_int_equal(world.pool->disks[c].free_bytes, free_bytes);
	/* pointers from a damaged tree free nothing that is not there */
	run_column_dead(world.pool, 7, 99, 0);
	run_column_dead(world.pool, 7, 0, 9);
	run_column_dead(world.pool, 12345, 0, 0);
	run_column_dead(world.pool, 7, 0, 0);
	run_column_dead(world.pool, 7, 0, 0);
	assert_int_equal(run_find(world.pool, 7)->live_count, 7);
	world_close();
}

/* --- where things go ------------------------------------------------------------------------------------------- */

static struct allotment allot(unsigned class, uint32_t records)
{
	struct allotment a;
	struct error err = ERROR_INIT;
	static uint32_t sums[POOL_WIDTH_MAX * 1024 * 4];

	must(space_allot(world.pool, 1, class, records, UINT32_MAX, ZONES_AVAILABLE, false, &a, &err), &err);
	must(stripes_keep(world.pool, a.run, a.first, a.count, sums, &err), &err);
	return a;
}

static void parity_moves_on_and_columns_stay_side_by_side(void **state)
{
	uint64_t end[8] = {0};
	unsigned parity_of[8] = {0};

	world_open((struct world_group[]){{GROUP_PARITY, 8, 8, 1}}, 1, NULL, 1 << 30, 16 * MIB, 4 * MIB);
	for (unsigned i = 0; i < 64; i++) {
		struct allotment a = allot(CLASS_128K, UINT32_MAX);

		assert_int_equal(a.count, 32);
		assert_int_equal(a.first, 0);
		for (unsigned c = 0; c < 8; c++) {
			struct disk_address at = run_place(a.run, 0, c);

			if (i)
				assert_int_equal(at.unit, end[at.disk]); /* right behind the last run */
			else
				assert_int_equal(at.unit, MIB / POOL_UNIT_BYTES);
			end[at.disk] = at.unit + 32 * class_units(CLASS_128K);
		}
		parity_of[a.run->column[7].disk]++;
		/* data begins behind parity */
		assert_int_equal(a.run->column[0].disk, (a.run->column[7].disk + 1) % 8);
		if (i % 8 == 7)
			for (unsigned d = 0; d < 8; d++)
				assert_int_equal(parity_of[d], i / 8 + 1);
	}
	world_close();
}

static void groups_of_equal_room_take_turns_stripe_by_stripe(void **state)
{
	struct world_group mirrors[4] = {
		{GROUP_MIRROR, 2, 2, 1}, {GROUP_MIRROR, 2, 2, 1}, {GROUP_MIRROR, 2, 2, 1}, {GROUP_MIRROR, 2, 2, 1}};
	uint64_t next[4] = {0};

	world_open(mirrors, 4, NULL, 256 * MIB, 16 * MIB, 4 * MIB);
	for (unsigned i = 0; i < 1000; i++) {
		struct allotment a = allot(CLASS_128K, 1000);

		assert_int_equal(a.count, 1);
		assert_int_equal(a.run->group, i % 4);
		struct disk_address at = run_place(a.run, a.first, 0);
		if (next[i % 4])
			assert_int_equal(at.unit, next[i % 4]);
		next[i % 4] = at.unit + class_units(CLASS_128K);
	}
	world_close();
}

static void groups_share_by_what_is_free(void **state)
{
	struct world_group disks[2] = {{GROUP_DISK, 1, 1, 0}, {GROUP_DISK, 1, 1, 0}};
	unsigned stripes[2] = {0};

	world_open(disks, 2, NULL, 256 * MIB, 16 * MIB, 4 * MIB);
	/* the second has a quarter of the room */
	struct pool_disk *small = &world.pool->disks[1];
	small->free_bytes -= (small->zone_count - 4) * small->zone_bytes;
	small->zones_free = small->zone_count = 4;
	for (unsigned i = 0; i < 200; i++)
		stripes[allot(CLASS_128K, 1000).run->group]++;
	assert_in_range(stripes[1], 35, 55); /* 1/(1 + 15/4) of 200 is 42 */
	world_close();
}

static void wide_groups_use_all_their_disks_evenly(void **state)
{
	uint64_t least = UINT64_MAX, most = 0, parity_least = UINT64_MAX, parity_most = 0;

	world_open((struct world_group[]){{GROUP_PARITY, 24, 8, 1}}, 1, NULL, 256 * MIB, 16 * MIB, 4 * MIB);
	for (unsigned i = 0; i < 60; i++)
		allot(CLASS_128K, UINT32_MAX);
	for (unsigned i = 0; i < 24; i++) {
		uint64_t used = world.pool->disks[i].zone_count * 16ull * MIB - world.pool->disks[i].free_bytes;

		least = min_of(least, used);
		most = max_of(most, used);
		parity_least = min_of(parity_least, world.pool->space->parity_bytes[i]);
		parity_most = max_of(parity_most, world.pool->space->parity_bytes[i]);
	}
	assert_true(most - least <= 4 * MIB);
	assert_true(parity_most - parity_least <= 4 * MIB);
	world_close();
}

static void stripes_narrow_when_disks_are_away(void **state)
{
	struct pool_disk *d;

	world_open((struct world_group[]){{GROUP_PARITY, 6, 6, 2}}, 1, NULL, 64 * MIB, 4 * MIB, MIB);
	d = world.pool->disks;
	assert_int_equal(allot(CLASS_128K, 100).run->k, 4);
	d[3].state = PD_FAULTED;
	struct run *r = allot(CLASS_128K, 100).run;
	assert_int_equal(r->k, 3);
	assert_int_equal(r->p, 2);
	d[0].state = d[1].state = PD_FAULTED;
	r = allot(CLASS_128K, 100).run;
	assert_int_equal(r->k, 1);
	assert_int_equal(r->p, 2);
	/* two are left: the third copy lies on one that is away, to be made when it is back */
	d[2].state = PD_FAULTED;
	r = allot(CLASS_128K, 100).run;
	assert_int_equal(r->k + r->p, 3);
	unsigned away = 0;
	for (unsigned c = 0; c < 3; c++) {
		assert_int_equal(r->column_state[c], d[r->column[c].disk].state != PD_ONLINE);
		away += r->column_state[c];
	}
	assert_int_equal(away, 1);
	for (unsigned i = 0; i < 6; i++)
		d[i].state = PD_ONLINE;
	assert_int_equal(allot(CLASS_128K, 100).run->k, 4);
	/* short ones */
	r = allot(CLASS_128K, 3).run;
	assert_int_equal(r->k, 3);
	assert_int_equal(r->stripes, 1);
	assert_false(r->is_open);
	world_close();
}

static void a_short_stripe_of_a_small_write_lies_beside_the_others(void **state)
{
	struct allotment a, b, c;
	static uint32_t sums[64];

	world_open((struct world_group[]){{GROUP_PARITY, 6, 6, 1}}, 1, NULL, 64 * MIB, 4 * MIB, MIB);
	must(space_allot(world.pool, 5, 0, 17, 99, ZONES_AVAILABLE, false, &a, NULL), NULL);
	assert_int_equal(a.count, 3);
	uint64_t free_bytes = world.pool->disks[0].free_bytes;
	must(space_allot(world.pool, 5, 0, 2, 99, ZONES_AVAILABLE, false, &b, NULL), NULL);
	assert_ptr_not_equal(a.run, b.run);
	assert_int_equal(b.run->k, 2);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(run_place(b.run, 0, i).unit, run_place(a.run, 3, i).unit);
	assert_int_equal(run_place(b.run, 0, 2).unit, run_place(a.run, 3, 5).unit);
	must(space_allot(world.pool, 5, 0, 17, 1, ZONES_AVAILABLE, false, &c, NULL), NULL);
	assert_ptr_equal(c.run, a.run);
	assert_int_equal(c.first, 4);
	uint64_t freed = 0;
	for (unsigned i = 0; i < 6; i++)
		freed += world.pool->disks[i].free_bytes - free_bytes;
	assert_int_equal(freed, 3 * 4096); /* what the row has over */
	must(stripes_keep(world.pool, a.run, a.first, a.count, sums, NULL), NULL);
	must(stripes_keep(world.pool, b.run, b.first, b.count, sums, NULL), NULL);
	must(stripes_keep(world.pool, c.run, c.first, c.count, sums, NULL), NULL);
	/* alone it has its own place */
	must(space_allot(world.pool, 5, 0, 2, 99, ZONES_AVAILABLE, false, &b, NULL), NULL);
	assert_true(run_place(b.run, 0, 0).unit != run_place(a.run, 5, 0).unit);
	stripes_drop(world.pool, b.run, b.first, b.count);
	world_close();
}

static void a_commit_does_not_continue_a_later_ones_run(void **state)
{
	struct allotment a, b, c;

	world_open((struct world_group[]){{GROUP_PARITY, 4, 4, 1}}, 1, NULL, 64 * MIB, 4 * MIB, MIB);
	must(space_allot(world.pool, 5, CLASS_128K, 3, 1, ZONES_AVAILABLE, false, &a, NULL), NULL);
	must(space_allot(world.pool, 6, CLASS_128K, 3, 1, ZONES_AVAILABLE, false, &b, NULL), NULL);
	must(space_allot(world.pool, 5, CLASS_128K, 3, 1, ZONES_AVAILABLE, false, &c, NULL), NULL);
	assert_ptr_equal(a.run, b.run);
	assert_ptr_not_equal(a.run, c.run);
	stripes_drop(world.pool, c.run, c.first, c.count);
	stripes_drop(world.pool, b.run, b.first, b.count);
	stripes_drop(world.pool, a.run, a.first, a.count);
	world_close();
}

/* --- full ------------------------------------------------------------------------------------------------------ */

static void a_full_pool_keeps_its_reserve_and_says_so(void **state)
{
	for (unsigned shape = 0; shape < array_count(shapes); shape++) {
		struct pool_space s;
		uint64_t placed = 0, promised;
		struct allotment a;
		struct meta_extent e;
		unsigned nodes = 0;
		static uint32_t sums[POOL_WIDTH_MAX * 1024 * 4];

		world_open(shapes[shape], group_count_of(shape), NULL, 64 * MIB, MIB, MIB);
		promised = space_available_for(world.pool, 128 << 10);
		space_figures(world.pool, &s);
		assert_true(promised > 0 && promised <= s.size_bytes - s.reserve_bytes);
		while (space_allot(world.pool, 1, CLASS_128K, 1000000, UINT32_MAX, ZONES_AVAILABLE, false, &a, NULL) == 0) {
			must(stripes_keep(world.pool, a.run, a.first, a.count, sums, NULL), NULL);
			placed += (uint64_t)a.count * a.run->k * class_bytes[CLASS_128K];
		}
		assert_true(placed >= promised); /* all that was promised, and hardly more */
		assert_true(placed <= promised + promised / 50 + 32 * (128 << 10));
		assert_true(space_available_bytes(world.pool) < placed / 20 + (2 << 20));
		for (unsigned i = 0; i < world.pool->disk_count; i++)
			assert_true(world.pool->disks[i].zones_free >= world.pool->disks[i].zones_kept);
		while (space_allot_meta(world.pool, 1, &e, NULL) == 0)
			nodes++;
		assert_true(nodes >= 2 * MIB / NODE_BYTES);
		world_close();
	}
}

static void records_fit_where_their_size_has_no_zone(void **state)
{
	/* every zone but the reserve is of 4 KiB columns, half empty: no room for larger ones is promised */
	struct allotment a;
	static uint32_t sums[1024 * 8];
	uint64_t small, large;

	world_open((struct world_group[]){KIND_DISK}, 1, NULL, 64 * MIB, 4 * MIB, MIB);
	while (space_allot(world.pool, 1, 0, 1000000, 1, ZONES_AVAILABLE, false, &a, NULL) == 0)
		must(stripes_keep(world.pool, a.run, a.first, a.count, sums, NULL), NULL);
	struct run **runs;
	size_t n;
	must(runs_list(world.pool, NULL, &runs, &n, NULL), NULL);
	for (size_t i = 0; i < n; i++)
		for (uint32_t s = 0; s < runs[i]->stripes; s += 2)
			run_column_dead(world.pool, runs[i]->id, s, 0);
	free(runs);
	assert_true(space_is_coming(world.pool));
	for (unsigned i = 0; i < 3; i++) {
		small = space_available_for(world.pool, 4096);
		world_checkpoint();
	}
	assert_int_equal(small, 0);
	assert_false(space_is_coming(world.pool));
	small = space_available_for(world.pool, 4096);
	large = space_available_for(world.pool, 8192);
	assert_true(small > 20 * MIB);
	assert_int_equal(large, 0);
	assert_int_equal(space_allot(world.pool, 1, 1, 10, 10, ZONES_AVAILABLE, false, &a, NULL), ERR_SPACE);
	must(space_allot(world.pool, 1, 0, 10, 10, ZONES_AVAILABLE, false, &a, NULL), NULL);
	assert_int_equal(a.count, 1); /* down to one stripe where free space is in pieces */
	stripes_drop(world.pool, a.run, a.first, a.count);
	world.promised = small;
	assert_int_equal(space_available_for(world.pool, 4096), 0);
	world_close();
}

/* --- nodes ----------------------------------------------------------------------------------------------------- */

static void nodes_go_round_the_disks_and_lie_side_by_side(void **state)
{
	unsigned on[8] = {0};
	struct meta_extent e, last = {0};

	world_open((struct world_group[]){{GROUP_PARITY, 8, 8, 1}}, 1, NULL, 256 * MIB, 16 * MIB, 4 * MIB);
	for (unsigned i = 0; i < 16; i++) {
		must(space_allot_meta(world.pool, 10, &e, NULL), NULL);
		assert_int_equal(e.count, 10);
		assert_int_equal(e.copies, 2);
		on[e.copy[0].disk]++;
		on[e.copy[1].disk]++;
		if (i % 4 == 0 && i)
			assert_int_equal(e.copy[0].unit, last.copy[0].unit + 10 * class_units(CLASS_META));
		if (i % 4 == 0)
			last = e;
	}
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(on[i], 4);
	world_close();
	/* of several groups: both copies in one, so that it takes the loss of the group to lose them */
	world_open((struct world_group[]){{GROUP_MIRROR, 2, 2, 1}, {GROUP_MIRROR, 2, 2, 1}}, 2, NULL, 256 * MIB,
		16 * MIB, 4 * MIB);
	for (unsigned i = 0; i < 8; i++) {
		must(space_allot_meta(world.pool, 10, &e, NULL), NULL);
		assert_int_equal(e.copy[0].disk / 2, i % 2);
		assert_int_equal(e.copy[1].disk / 2, i % 2);
	}
	/* a full group leaves it to the other; two plain disks hold one copy each */
	world.pool->disks[1].state = PD_FAULTED;
	for (unsigned i = 0; i < 8; i++) {
		must(space_allot_meta(world.pool, 1, &e, NULL), NULL);
		assert_int_equal(e.copies, 2);
		assert_int_equal(e.copy[0].disk / 2, 1);
	}
	world_close();
}

struct zone_sum {
	uint64_t pieces;
};

static void count_pieces(void *arg, unsigned disk, unsigned zone, const uint8_t *bits, uint32_t bytes)
{
	struct zone_sum *z = arg;

	for (uint32_t b = 0; b < bytes; b++)
		z->pieces += (unsigned)__builtin_popcount(bits[b]);
}

static void the_map_of_nodes_leaves_out_what_was_freed(void **state)
{
	struct meta_extent e;
	struct zone_sum z = {0};

	world_open((struct world_group[]){{GROUP_MIRROR, 2, 2, 1}}, 1, NULL, 64 * MIB, 4 * MIB, MIB);
	must(space_allot_meta(world.pool, 10, &e, NULL), NULL);
	struct bp bp = {.kind = BP_NODE, .physical_bytes = NODE_BYTES, .copies = 2, .copy = {e.copy[0], e.copy[1]}};
	space_free_meta(world.pool, &bp);
	space_meta_zones(world.pool, count_pieces, &z);
	assert_int_equal(z.pieces, 18);
	struct error err = ERROR_INIT;
	assert_int_equal(space_take_meta(world.pool, e.copy[0], &err), ERR_CORRUPT); /* it still waits */
	for (unsigned i = 0; i < 3; i++)
		world_checkpoint();
	must(space_take_meta(world.pool, e.copy[0], NULL), NULL);
	error_clear(&err);
	e.copy[1].unit += 1;
	assert_int_equal(space_take_meta(world.pool, e.copy[1], &err), ERR_CORRUPT);
	world_close();
}

static void the_same_calls_give_the_same_places(void **state)
{
	uint64_t hash[2] = {0};

	for (unsigned round = 0; round < 2; round++) {
		struct play y = {0};

		random_seed(&y.random, 99);
		world_open(shapes[8], 3, NULL, 40 * MIB, 2 * MIB, MIB);
		model_open();
		play(&y, 300);
		for (size_t i = 0; i < y.kept_count; i++)
			for (unsigned c = 0; c < y.kept[i].k + y.kept[i].p; c++)
				hash[round] =
					hash[round] * 31 + y.kept[i].column[c].unit * 8 + y.kept[i].column[c].disk;
		free(y.kept);
		model_close();
		world_close();
	}
	assert_int_equal(hash[0], hash[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_unit_is_given_twice),
		cmocka_unit_test(replay_gives_the_same_map),
		cmocka_unit_test(descriptors_that_overlap_are_refused),
		cmocka_unit_test(parity_moves_on_and_columns_stay_side_by_side),
		cmocka_unit_test(groups_of_equal_room_take_turns_stripe_by_stripe),
		cmocka_unit_test(groups_share_by_what_is_free),
		cmocka_unit_test(wide_groups_use_all_their_disks_evenly),
		cmocka_unit_test(stripes_narrow_when_disks_are_away),
		cmocka_unit_test(a_short_stripe_of_a_small_write_lies_beside_the_others),
		cmocka_unit_test(a_commit_does_not_continue_a_later_ones_run),
		cmocka_unit_test(a_full_pool_keeps_its_reserve_and_says_so),
		cmocka_unit_test(records_fit_where_their_size_has_no_zone),
		cmocka_unit_test(nodes_go_round_the_disks_and_lie_side_by_side),
		cmocka_unit_test(the_map_of_nodes_leaves_out_what_was_freed),
		cmocka_unit_test(the_same_calls_give_the_same_places),
	};

	return cmocka_run_group_tests_name("pool space", tests, NULL, NULL);
}
