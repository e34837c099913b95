/*
 * LAYOUT-5 by running the plans: a tiny executor over byte buffers carries out every plan for every combination of
 * touched, half-touched and missing columns, and the row must then be consistent and hold what was written.
 */
#include "layout_helper.h"

#define ROW_BYTES 64u
#define HALF_FROM 8u
#define HALF_TO 24u
#define POISON 0xa5

struct world {
	unsigned data, parity;
	bool touched[LAYOUT_WIDTH_MAX], whole[LAYOUT_WIDTH_MAX], failed[LAYOUT_WIDTH_MAX];
	_Alignas(64) uint8_t disk[LAYOUT_WIDTH_MAX][ROW_BYTES];   /* missing columns hold poison */
	_Alignas(64) uint8_t fresh[LAYOUT_WIDTH_MAX][ROW_BYTES];  /* what is written */
	_Alignas(64) uint8_t wanted[LAYOUT_WIDTH_MAX][ROW_BYTES]; /* data columns afterwards */
};

static void pointers(void **ret, uint8_t (*columns)[ROW_BYTES], unsigned count)
{
	for (unsigned c = 0; c < count; c++)
		ret[c] = columns[c];
}

/* Lays what is written over what was there. */
static void overlay(const struct world *w, unsigned c, uint8_t *to)
{
	size_t from = w->whole[c] ? 0 : HALF_FROM, end = w->whole[c] ? ROW_BYTES : HALF_TO;

	if (w->touched[c])
		memcpy(to + from, w->fresh[c] + from, end - from);
}

static void world_init(struct world *w, struct random *r)
{
	void *columns[LAYOUT_WIDTH_MAX];

	for (unsigned c = 0; c < w->data; c++) {
		random_fill(r, w->disk[c], ROW_BYTES);
		random_fill(r, w->fresh[c], ROW_BYTES);
	}
	pointers(columns, w->disk, w->data + w->parity);
	parity_impls[1].generate(w->data, w->parity, ROW_BYTES, columns);
	memcpy(w->wanted, w->disk, sizeof w->wanted);
	for (unsigned c = 0; c < w->data; c++)
		overlay(w, c, w->wanted[c]);
	for (unsigned c = 0; c < w->data + w->parity; c++)
		if (w->failed[c])
			memset(w->disk[c], POISON, ROW_BYTES);
}

/* Reads what the plan names; false when it names a missing column or counts wrongly. */
static bool plan_read(const struct world *w, const struct layout_write_plan *plan, uint8_t (*buffer)[ROW_BYTES])
{
	unsigned reads = 0, writes = 0;

	for (unsigned c = 0; c < w->data + w->parity; c++) {
		memset(buffer[c], POISON, ROW_BYTES);
		if ((plan->read[c] || plan->write[c]) && w->failed[c])
			return false;
		if (plan->read[c])
			memcpy(buffer[c], w->disk[c], ROW_BYTES);
		reads += plan->read[c];
		writes += plan->write[c];
	}
	return reads == plan->reads && writes == plan->writes;
}

static void plan_modify(const struct world *w, const struct layout_write_plan *plan, uint8_t (*buffer)[ROW_BYTES])
{
	void *parity[2] = {NULL, NULL};

	for (unsigned i = 0; i < w->parity; i++)
		parity[i] = w->failed[w->data + i] ? NULL : buffer[w->data + i];
	for (unsigned c = 0; c < w->data; c++) {
		_Alignas(64) uint8_t delta[ROW_BYTES];

		if (!w->touched[c])
			continue;
		memcpy(delta, buffer[c], ROW_BYTES);
		overlay(w, c, buffer[c]);
		parity_xor(delta, buffer[c], ROW_BYTES);
		parity_update(w->data, w->parity, c, ROW_BYTES, delta, parity);
	}
}

static bool plan_run(struct world *w, const struct layout_write_plan *plan)
{
	_Alignas(64) uint8_t buffer[LAYOUT_WIDTH_MAX][ROW_BYTES];
	void *columns[LAYOUT_WIDTH_MAX];

	if (!plan_read(w, plan, buffer))
		return false;
	pointers(columns, buffer, w->data + w->parity);
	if (plan->way == LAYOUT_WRITE_MODIFY)
		plan_modify(w, plan, buffer);
	if (plan->way == LAYOUT_WRITE_RECOVER &&
		parity_recover(w->data, w->parity, ROW_BYTES, columns, w->failed, NULL))
		return false;
	if (plan->way != LAYOUT_WRITE_MODIFY) {
		for (unsigned c = 0; c < w->data; c++)
			overlay(w, c, buffer[c]);
		parity_generate(w->data, w->parity, ROW_BYTES, columns);
	}
	for (unsigned c = 0; c < w->data + w->parity; c++) {
		if (!plan->write[c])
			continue;
		if (c < w->data && !plan->read[c])
			overlay(w, c, w->disk[c]); /* only what was given is known */
		else
			memcpy(w->disk[c], buffer[c], ROW_BYTES);
	}
	return true;
}

/* What is there holds what is wanted, and what is missing can be recovered as what is wanted. */
static bool row_is_right(struct world *w)
{
	_Alignas(64) uint8_t copy[LAYOUT_WIDTH_MAX][ROW_BYTES];
	void *columns[LAYOUT_WIDTH_MAX];

	for (unsigned c = 0; c < w->data + w->parity; c++)
		for (unsigned i = 0; w->failed[c] && i < ROW_BYTES; i++)
			if (w->disk[c][i] != POISON)
				return false;
	memcpy(copy, w->disk, sizeof copy);
	pointers(columns, copy, w->data + w->parity);
	if (parity_recover(w->data, w->parity, ROW_BYTES, columns, w->failed, NULL))
		return false;
	for (unsigned c = 0; c < w->data; c++)
		if (memcmp(copy[c], w->wanted[c], ROW_BYTES))
			return false;
	return parity_verify(w->data, w->parity, ROW_BYTES, columns, NULL);
}

static unsigned count(const bool *flags, unsigned n)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += flags[i];
	return sum;
}

/* The fewest reads that any of the ways needs, counted here anew. */
static unsigned fewest_reads(const struct world *w)
{
	unsigned k = w->data, touched = count(w->touched, k), lost = count(w->failed, k);
	unsigned unread = 0, fewest = UINT32_MAX;
	unsigned parities = w->parity - count(w->failed + k, w->parity);
	bool touched_lost = false, needed_lost = false;

	for (unsigned c = 0; c < k; c++) {
		bool given = w->touched[c] && w->whole[c];

		unread += !given;
		touched_lost |= w->touched[c] && w->failed[c];
		needed_lost |= !given && w->failed[c];
	}
	if (!touched || !parities || !unread)
		return 0;
	if (!touched_lost)
		fewest = touched + parities;
	if (!needed_lost)
		fewest = min_of(fewest, unread);
	if (lost)
		fewest = min_of(fewest, k); /* k - lost data columns and `lost` parities */
	return fewest;
}

static void world_check(struct world *w, struct random *r)
{
	struct layout_write_plan plan;
	struct error err = ERROR_INIT;

	world_init(w, r);
	int rc = layout_plan_write(w->data, w->parity, w->touched, w->whole, w->failed, &plan, &err);
	bool good = rc == 0 && plan.reads == fewest_reads(w) && plan_run(w, &plan) && row_is_right(w);
	if (good)
		return;
	print_error("data %u parity %u way %d reads %u (fewest %u) writes %u %s\n", w->data, w->parity, plan.way,
		plan.reads, fewest_reads(w), plan.writes, err.text);
	for (unsigned c = 0; c < w->data + w->parity; c++)
		print_error("column %u:%s%s%s%s%s\n", c, w->touched[c] ? " touched" : "", w->whole[c] ? " whole" : "",
			w->failed[c] ? " missing" : "", plan.read[c] ? " read" : "", plan.write[c] ? " write" : "");
	fail();
}

static void failed_sets(struct world *w, struct random *r)
{
	unsigned n = w->data + w->parity;

	memset(w->failed, 0, sizeof w->failed);
	world_check(w, r);
	for (unsigned a = 0; a < n; a++)
		for (unsigned b = a; b < n; b++) {
			if (a != b && w->parity < 2)
				continue;
			memset(w->failed, 0, sizeof w->failed);
			w->failed[a] = w->failed[b] = true;
			world_check(w, r);
		}
}

static void every_small_plan_leaves_the_row_right(void **state)
{
	struct world w;
	struct random r;

	random_seed(&r, 1);
	for (unsigned parity = 1; parity <= 2; parity++)
		for (unsigned data = 1; data + parity <= 6; data++) {
			unsigned states = 1; /* of each data column: untouched, touched in part, whole */

			for (unsigned c = 0; c < data; c++)
				states *= 3;
			for (unsigned s = 0; s < states; s++) {
				memset(&w, 0, sizeof w);
				w.data = data;
				w.parity = parity;
				for (unsigned c = 0, rest = s; c < data; c++, rest /= 3) {
					w.touched[c] = rest % 3 > 0;
					w.whole[c] = rest % 3 > 1;
				}
				failed_sets(&w, &r);
			}
		}
}

static void sampled_wide_plans_leave_the_row_right(void **state)
{
	static struct world w;

	for (unsigned seed = 0; seed < seed_count(30000); seed++) {
		struct random r;

		random_seed(&r, seed);
		memset(&w, 0, sizeof w);
		w.parity = 1 + (unsigned)random_below(&r, 2);
		unsigned width_max = random_below(&r, 20) ? 16 : LAYOUT_WIDTH_MAX;
		w.data = 1 + (unsigned)random_below(&r, width_max - w.parity);
		unsigned dense = 1 + (unsigned)random_below(&r, 8), full = (unsigned)random_below(&r, 9);
		for (unsigned c = 0; c < w.data; c++) {
			w.touched[c] = random_below(&r, 8) < dense;
			w.whole[c] = random_below(&r, 8) < full; /* of an untouched column it means nothing */
		}
		for (uint64_t missing = random_below(&r, w.parity + 1); missing; missing--)
			w.failed[random_below(&r, w.data + w.parity)] = true;
		world_check(&w, &r);
	}
}

static void plan_is(
	unsigned data, unsigned parity, const char *columns, enum layout_write_way way, unsigned reads, unsigned writes)
{
	bool touched[LAYOUT_WIDTH_MAX] = {false}, whole[LAYOUT_WIDTH_MAX] = {false}, failed[LAYOUT_WIDTH_MAX] = {false};
	struct layout_write_plan plan;

	assert_int_equal(strlen(columns), data + parity);
	for (unsigned c = 0; c < data + parity; c++) { /* W whole, h half, x missing, X missing and whole */
		touched[c] = strchr("WhX", columns[c]) != NULL;
		whole[c] = strchr("WX", columns[c]) != NULL;
		failed[c] = strchr("xX", columns[c]) != NULL;
	}
	assert_int_equal(layout_plan_write(data, parity, touched, whole, failed, &plan, NULL), 0);
	if (plan.way != way || plan.reads != reads || plan.writes != writes)
		fail_msg("%s: way %d, %u reads, %u writes", columns, plan.way, plan.reads, plan.writes);
}

static void known_writes_cost_what_the_papers_say(void **state)
{
	plan_is(7, 1, "W.......", LAYOUT_WRITE_MODIFY, 2, 2); /* RAID 5: 2 + 2 */
	plan_is(7, 1, "h.......", LAYOUT_WRITE_MODIFY, 2, 2);
	plan_is(6, 2, "..W.....", LAYOUT_WRITE_MODIFY, 3, 3); /* RAID 6: 3 + 3 */
	plan_is(7, 1, "WWWWWWW.", LAYOUT_WRITE_FULL, 0, 8);
	plan_is(6, 2, "WWWWWW..", LAYOUT_WRITE_FULL, 0, 8);
	plan_is(7, 1, "WWWWWW..", LAYOUT_WRITE_RECONSTRUCT, 1, 7);
	plan_is(7, 1, "WWW.....", LAYOUT_WRITE_MODIFY, 4, 4); /* a tie */
	plan_is(7, 1, "WWWW....", LAYOUT_WRITE_RECONSTRUCT, 3, 5);
	plan_is(7, 1, "WWWWWWh.", LAYOUT_WRITE_RECONSTRUCT, 1, 8);
	plan_is(2, 1, "W..", LAYOUT_WRITE_RECONSTRUCT, 1, 2); /* three disks: read the other one */
	plan_is(7, 1, "W......x", LAYOUT_WRITE_MODIFY, 0, 1); /* no parity left: data only */
	plan_is(7, 1, "h......x", LAYOUT_WRITE_MODIFY, 0, 1);
	plan_is(6, 2, "W.....xx", LAYOUT_WRITE_MODIFY, 0, 1);
	plan_is(6, 2, "W.....x.", LAYOUT_WRITE_MODIFY, 2, 2);
	plan_is(7, 1, "X.......", LAYOUT_WRITE_RECONSTRUCT, 6, 1); /* parity takes in what the disk cannot */
	plan_is(7, 1, "W.x.....", LAYOUT_WRITE_MODIFY, 2, 2);      /* somebody else's disk */
	plan_is(7, 1, "XWWWWWW.", LAYOUT_WRITE_FULL, 0, 7);
	plan_is(7, 1, "xWWWWWW.", LAYOUT_WRITE_MODIFY, 7, 7);
	plan_is(6, 2, "Xx......", LAYOUT_WRITE_RECOVER, 6, 2);
	plan_is(6, 2, "XWWWWx..", LAYOUT_WRITE_RECOVER, 6, 6);
	plan_is(2, 2, "Wx..", LAYOUT_WRITE_RECOVER, 2, 3);
	plan_is(7, 1, "........", LAYOUT_WRITE_MODIFY, 0, 0);
}

static void too_many_missing_are_lost(void **state)
{
	bool touched[LAYOUT_WIDTH_MAX] = {true}, failed[LAYOUT_WIDTH_MAX] = {true, false, true}, read[LAYOUT_WIDTH_MAX];
	struct layout_write_plan plan;
	struct error err = ERROR_INIT;

	assert_int_equal(layout_plan_write(4, 1, touched, touched, failed, &plan, &err), ERR_LOST);
	assert_string_equal(err.text, "2 of 5 columns are missing, parity makes up for 1");
	assert_int_equal(layout_plan_recover(4, 1, failed, read, NULL), ERR_LOST);
	assert_int_equal(layout_plan_recover(4, 2, failed, read, NULL), 0);
	for (unsigned c = 0; c < 6; c++)
		assert_int_equal(read[c], !failed[c]);
	/* One missing of RAID 6: P is enough, Q stays where it is. */
	failed[2] = false;
	assert_int_equal(layout_plan_recover(4, 2, failed, read, NULL), 0);
	assert_true(!read[0] && read[1] && read[2] && read[3] && read[4] && !read[5]);
	/* Only P missing: it is made of the data. */
	memset(failed, 0, sizeof failed);
	failed[4] = true;
	assert_int_equal(layout_plan_recover(4, 2, failed, read, NULL), 0);
	assert_true(read[0] && read[1] && read[2] && read[3] && !read[4] && !read[5]);
	memset(failed, 0, sizeof failed);
	assert_int_equal(layout_plan_recover(4, 2, failed, read, NULL), 0);
	for (unsigned c = 0; c < 6; c++)
		assert_false(read[c]);
}

/* The executor is only as good as what it refuses. */
static void broken_plans_are_caught(void **state)
{
	struct layout_write_plan good, bad;
	struct random r;
	struct world w;

	memset(&w, 0, sizeof w);
	w.data = 4;
	w.parity = 2;
	w.touched[1] = w.whole[1] = true;
	w.failed[2] = true;
	random_seed(&r, 7);
	assert_int_equal(layout_plan_write(4, 2, w.touched, w.whole, w.failed, &good, NULL), 0);
	world_init(&w, &r);
	assert_true(plan_run(&w, &good) && row_is_right(&w));
	for (unsigned c = 0; c < 6; c++) {
		if (good.read[c]) { /* a read forgotten */
			bad = good;
			bad.read[c] = false;
			bad.reads--;
			world_init(&w, &r);
			assert_false(plan_run(&w, &bad) && row_is_right(&w));
		}
		if (good.write[c]) { /* a write forgotten */
			bad = good;
			bad.write[c] = false;
			bad.writes--;
			world_init(&w, &r);
			assert_false(plan_run(&w, &bad) && row_is_right(&w));
		}
	}
	bad = good; /* parity from data that nobody recovered */
	bad.way = LAYOUT_WRITE_RECONSTRUCT;
	world_init(&w, &r);
	assert_false(plan_run(&w, &bad) && row_is_right(&w));
	bad = good; /* a missing column written */
	bad.write[2] = true;
	bad.writes++;
	world_init(&w, &r);
	assert_false(plan_run(&w, &bad));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_small_plan_leaves_the_row_right),
		cmocka_unit_test(sampled_wide_plans_leave_the_row_right),
		cmocka_unit_test(known_writes_cost_what_the_papers_say),
		cmocka_unit_test(too_many_missing_are_lost),
		cmocka_unit_test(broken_plans_are_caught),
	};
	return cmocka_run_group_tests_name("layout plans", tests, NULL, NULL);
}
