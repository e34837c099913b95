/* Names, sizes, what is survived, the model; and LAYOUT-1: what passed the check can be used. */
#include "layout_helper.h"

#include <math.h>

static void sentence_is(const char *name, unsigned disks, const char *expected)
{
	char reason[ERROR_TEXT_BYTES] = "";

	bool misfit = layout_misfit(name, disks, reason, sizeof reason);
	if (expected == NULL) {
		if (misfit)
			fail_msg("%s over %u: %s", name, disks, reason);
		return;
	}
	assert_true(misfit);
	assert_string_equal(reason, expected);
	/* layout_init says the same. */
	struct layout l;
	struct error err = ERROR_INIT;
	assert_int_equal(layout_small(&l, name, min_of(disks, LAYOUT_DISKS_MAX + 1u), 64, 0, &err), ERR_USAGE);
	assert_string_equal(err.text, expected);
}

static void misfits_say_what_is_needed(void **state)
{
	sentence_is("single", 8, "single needs exactly 1 disk, got 8");
	sentence_is("single", 0, "single needs exactly 1 disk, got 0");
	sentence_is("single", 1, NULL);
	sentence_is("stripe", 1, "stripe needs at least 2 disks, got 1");
	sentence_is("concat", 1, "concat needs at least 2 disks, got 1");
	sentence_is("mirror", 1, "mirror needs at least 2 disks in a group, got 1");
	sentence_is("mirror", 0, "mirror needs at least 2 disks in a group, got 0");
	sentence_is("mirrorx4", 7, "mirrorx4 needs a multiple of 4 disks, got 7");
	sentence_is("mirrorx4", 4, "mirrorx4 needs at least 2 disks in a group, got 1 (4 disks in 4 groups)");
	sentence_is("mirror", 65, "mirror takes at most 64 disks in a group, got 65");
	sentence_is("raid10", 1, "raid10 needs at least 2 disks, got 1");
	sentence_is("raid10", 5, NULL);
	sentence_is("raid10-far3", 2, "raid10-far3 needs at least 3 disks, got 2");
	sentence_is("raid10-near1", 4, "raid10-near1 keeps 1 copy; raid10 needs at least 2");
	sentence_is("raid01", 5, "raid01 needs an even number of disks, got 5");
	sentence_is("raid01", 2, "raid01 needs at least 4 disks, got 2");
	sentence_is("raid4", 2, "raid4 needs at least 3 disks in a group, got 2");
	sentence_is("raid5", 2, "raid5 needs at least 3 disks in a group, got 2");
	sentence_is("raid6", 3, "raid6 needs at least 4 disks in a group, got 3");
	sentence_is("raid6", 4, NULL);
	sentence_is("raid5", 65, "raid5 takes at most 64 disks in a group, got 65");
	sentence_is("raid50", 7, "raid50 needs an even number of disks, got 7");
	sentence_is("raid60", 6, "raid60 needs at least 4 disks in a group, got 3 (6 disks in 2 groups)");
	sentence_is("raid5x9", 45, NULL);
	sentence_is("raid5x9", 44, "raid5x9 needs a multiple of 9 disks, got 44");
	sentence_is("raid5:5", 45, NULL);
	sentence_is("raid5:8", 20, "raid5:8 needs a multiple of 8 disks, got 20");
	sentence_is("raid5:5x9", 45, NULL);
	sentence_is("raid5:5x9", 40, "raid5:5x9 needs exactly 45 disks, got 40");
	sentence_is("stripe", 257, "an array takes at most 256 disks, got 257");
	sentence_is("stripex2", 8, "stripe spans all its disks and takes no \"x2\"");
	sentence_is("raid10:4", 8, "raid10 spans all its disks and takes no \":4\"");
	sentence_is("raid5:", 8, "\"raid5:\": the width after \":\" is a number from 1 to 256");
	sentence_is("raid5x0", 8, "\"raid5x0\": the groups after \"x\" are a number from 1 to 256");
	sentence_is("raid5x99999999999", 8, "\"raid5x99999999999\": the groups after \"x\" are a number from 1 to 256");
	sentence_is("raid5x2:4", 8, "\"raid5x2:4\": \"x2:4\" is not of the form :WIDTH, xGROUPS or :WIDTHxGROUPS");
}

static void unknown_names_are_refused(void **state)
{
	static const char *const names[] = {"", "x", ":", "raid", "raid7", "raid5 ", "Raid5", "raid10-", "raid10-far0",
		"raid10-far02", "raid10-far-3", "raid103", "raid10-farther", "stripes", "raidz", "mirror+", "raid5\n",
		"raid10-far99999999999999999999",
		"a name that is far longer than any layout name could reasonably be expected to be x y z"};
	struct layout l;

	for (size_t i = 0; i < array_count(names); i++) {
		struct error err = ERROR_INIT;

		memset(&l, 0x5a, sizeof l);
		if (layout_small(&l, names[i], 8, 64, 0, &err) != ERR_USAGE)
			fail_msg("\"%s\" was taken", names[i]);
		assert_non_null(strstr(err.text, "unknown layout"));
		assert_int_equal(l.disks, 0x5a5a5a5a); /* untouched on failure */
		assert_true(layout_misfit(names[i], 8, NULL, 0));
	}
}

static void name_is(const char *given, unsigned disks, const char *canonical)
{
	struct layout l;
	char text[32];

	assert_int_equal(layout_small(&l, given, disks, 128, 0, NULL), 0);
	assert_string_equal(layout_name(&l, text), canonical);
}

static void names_are_canonical(void **state)
{
	name_is("single", 1, "single");
	name_is("raid10-near", 4, "raid10");
	name_is("raid10-near2", 4, "raid10");
	name_is("raid10-near3", 4, "raid10-near3");
	name_is("raid10-far", 4, "raid10-far");
	name_is("raid10-far2", 4, "raid10-far");
	name_is("raid10-offset3", 5, "raid10-offset3");
	name_is("mirror", 3, "mirror");
	name_is("mirrorx1", 3, "mirror");
	name_is("mirrorx23", 46, "mirrorx23");
	name_is("mirror:2", 8, "mirrorx4");
	name_is("raid5:5", 45, "raid5x9");
	name_is("raid5:8", 8, "raid5");
	name_is("raid50", 8, "raid50");
	name_is("raid5x2", 8, "raid50");
	name_is("raid50x3", 9, "raid5x3");
	name_is("raid60", 8, "raid60");
	name_is("raid4x2", 8, "raid4x2");
	name_is("raid01", 8, "raid01");
}

static void a_canonical_name_gives_the_same_layout(void **state)
{
	for (size_t i = 0; i < array_count(all_names); i++)
		for (unsigned disks = 1; disks <= 24; disks++) {
			struct layout l, again;
			char text[32];

			memset(&l, 0, sizeof l);
			memset(&again, 0, sizeof again);
			if (layout_small(&l, all_names[i], disks, 12, LAYOUT_RIGHT_SYMMETRIC, NULL))
				continue;
			assert_int_equal(
				layout_small(&again, layout_name(&l, text), disks, 12, LAYOUT_RIGHT_SYMMETRIC, NULL),
				0);
			assert_memory_equal(&l, &again, sizeof l);
		}
}

static void rotations_are_parsed(void **state)
{
	enum layout_rotation rotation = LAYOUT_LEFT_SYMMETRIC;
	struct error err = ERROR_INIT;

	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(layout_rotation_parse(layout_rotation_names[i], &rotation, NULL), 0);
		assert_int_equal(rotation, i);
	}
	assert_int_equal(layout_rotation_parse("up-symmetric", &rotation, &err), ERR_USAGE);
	assert_string_equal(err.text, "unknown rotation \"up-symmetric\"; known are left-symmetric, left-asymmetric, "
				      "right-symmetric and right-asymmetric");
	assert_int_equal(rotation, 3);
}

static void sizes_add_up(void **state)
{
	static const struct {
		const char *name;
		unsigned disks;
		double disks_worth; /* capacity in disks */
	} cases[] = {{"single", 1, 1}, {"concat", 24, 24}, {"stripe", 24, 24}, {"mirror", 3, 1}, {"mirrorx23", 46, 23},
		{"raid10", 8, 4}, {"raid10", 5, 2.5}, {"raid10-far", 5, 2.5}, {"raid10-offset3", 8, 8.0 / 3},
		{"raid01", 8, 4}, {"raid4", 8, 7}, {"raid5", 8, 7}, {"raid5x9", 45, 36}, {"raid50", 8, 6},
		{"raid6", 8, 6}, {"raid60", 8, 4}};
	uint64_t disk_bytes[LAYOUT_DISKS_MAX];
	double one = 1.2e12;

	for (unsigned i = 0; i < LAYOUT_DISKS_MAX; i++)
		disk_bytes[i] = (uint64_t)one + i % 3 * 1000000; /* the smallest counts, but for concat */
	for (size_t i = 0; i < array_count(cases); i++) {
		struct layout l;
		double extra = 0;

		assert_int_equal(
			layout_init(&l, cases[i].name, cases[i].disks, disk_bytes, LAYOUT_CHUNK_DEFAULT, 0, NULL), 0);
		for (unsigned d = 0; l.kind == LAYOUT_CONCAT && d < l.disks; d++)
			extra += d % 3 * 1e6;
		double expected = cases[i].disks_worth * one + extra, got = (double)layout_capacity_bytes(&l);
		if (got > expected || got < expected - cases[i].disks * 3.0 * LAYOUT_CHUNK_DEFAULT)
			fail_msg("%s over %u: %.0f bytes, expected just under %.0f", cases[i].name, cases[i].disks, got,
				expected);
	}
	struct layout l;
	char text[SIZE_TEXT_BYTES];
	assert_int_equal(layout_init(&l, "stripe", 24, disk_bytes, LAYOUT_CHUNK_DEFAULT, 0, NULL), 0);
	assert_string_equal(size_format_decimal(layout_capacity_bytes(&l), text), "28.8 TB");
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
	uint64_t sizes[4] = {1 << 20, 1 << 20, 65536, 1 << 20};
	struct layout l;
	struct error err = ERROR_INIT;

	assert_int_equal(layout_init(&l, "raid5", 4, sizes, LAYOUT_CHUNK_DEFAULT, 0, &err), ERR_TOO_SMALL);
	assert_string_equal(
		err.text, "disk 2 offers 65536 bytes; raid5 with chunks of 128 KiB needs at least 131072 on each disk");
	sizes[2] = 131072;
	assert_int_equal(layout_init(&l, "raid5", 4, sizes, LAYOUT_CHUNK_DEFAULT, 0, NULL), 0);
	assert_int_equal(layout_capacity_bytes(&l), 3 * 131072);
	error_clear(&err);
	assert_int_equal(layout_init(&l, "raid10-far", 4, sizes, LAYOUT_CHUNK_DEFAULT, 0, &err), ERR_TOO_SMALL);
	assert_non_null(strstr(err.text, "needs at least 262144"));
	static const uint64_t chunks[] = {0, 1, 2048, 4095, 4097, 12288, 32 << 20, UINT64_MAX, 1ull << 63};
	for (size_t i = 0; i < array_count(chunks); i++) {
		error_clear(&err);
		assert_int_equal(layout_init(&l, "stripe", 4, sizes, chunks[i], 0, &err), ERR_USAGE);
		assert_non_null(strstr(err.text, "power of two from 4 KiB to 16 MiB"));
	}
	uint64_t huge[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
	error_clear(&err);
	assert_int_equal(layout_init(&l, "stripe", 4, huge, LAYOUT_CHUNK_DEFAULT, 0, &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "2^63 - 1"));
	assert_int_equal(layout_init(&l, "concat", 4, huge, LAYOUT_CHUNK_DEFAULT, 0, NULL), ERR_USAGE);
	assert_int_equal(layout_init(&l, "stripe", 4, sizes, 4096, (enum layout_rotation)4, NULL), ERR_USAGE);
}

/* --- survival --------------------------------------------------------------------------------------------------- */

/* By the maps themselves, chunk by chunk and row by row over the whole array. */
static bool survives_by_hand(const struct layout *l, const bool *failed)
{
	if (l->kind == LAYOUT_CONCAT) {
		for (unsigned d = 0; d < l->disks; d++)
			if (failed[d])
				return false;
		return true;
	}
	for (uint64_t r = 0; l->parity && r < layout_row_count(l); r++) {
		struct layout_row row;
		unsigned missing = 0;

		layout_row(l, r, &row);
		for (unsigned c = 0; c < l->width; c++)
			missing += failed[row.disk[c]];
		if (missing > l->parity)
			return false;
	}
	for (uint64_t chunk = 0; !l->parity && chunk < layout_capacity_bytes(l) / l->chunk_bytes; chunk++) {
		unsigned there = 0;

		for (unsigned copy = 0; copy < l->copies; copy++) {
			struct layout_place p;

			layout_place(l, chunk, copy, &p);
			there += !failed[p.disk];
		}
		if (!there)
			return false;
	}
	return true;
}

static void survival_is_exact(void **state)
{
	for (size_t i = 0; i < array_count(all_names); i++)
		for (unsigned disks = 1; disks <= 9; disks++)
			for (unsigned rows = 1; rows <= 24; rows = rows < 4 ? rows + 1 : rows * 2) {
				struct layout l;
				unsigned least_lost = disks + 1;

				if (layout_small(&l, all_names[i], disks, rows, 0, NULL))
					continue;
				for (unsigned set = 0; set < 1u << disks; set++) {
					bool failed[LAYOUT_DISKS_MAX] = {false};

					for (unsigned d = 0; d < disks; d++)
						failed[d] = set >> d & 1;
					bool survives = survives_by_hand(&l, failed);
					if (layout_survives(&l, failed) != survives)
						fail_msg("%s over %u, %u rows, failed set %x", all_names[i], disks,
							rows, set);
					if (!survives)
						least_lost = min_of(least_lost, (unsigned)__builtin_popcount(set));
				}
				assert_int_equal(layout_failures_survived(&l), least_lost - 1);
			}
}

/* --- model ------------------------------------------------------------------------------------------------------ */

static void model_is(
	const char *name, unsigned disks, double seq_read, double seq_write, double random_read, double small)
{
	struct layout l;
	struct layout_model m;

	assert_int_equal(layout_small(&l, name, disks, 128, 0, NULL), 0);
	layout_model(&l, &m);
	if (fabs(m.seq_read - seq_read) > 1e-9 || fabs(m.seq_write - seq_write) > 1e-9 ||
		fabs(m.random_read - random_read) > 1e-9 || fabs(m.random_write_small - small) > 1e-9)
		fail_msg("%s over %u: %g %g %g %g", name, disks, m.seq_read, m.seq_write, m.random_read,
			m.random_write_small);
}

static void the_model_is_first_order(void **state)
{
	model_is("single", 1, 1, 1, 1, 1);
	model_is("concat", 4, 1, 1, 4, 4);
	model_is("stripe", 8, 8, 8, 8, 8);
	model_is("mirror", 2, 2, 1, 2, 1);
	model_is("mirrorx4", 8, 8, 4, 8, 4);
	model_is("raid10", 8, 8, 4, 8, 4);
	model_is("raid10", 5, 5, 2.5, 5, 2.5);
	model_is("raid10-far", 8, 8, 4, 8, 4);
	model_is("raid10-offset", 8, 4, 4, 8, 4);
	model_is("raid10-near3", 9, 9, 3, 9, 3);
	model_is("raid01", 8, 8, 4, 8, 4);
	model_is("raid4", 8, 7, 7, 7, 0.5);
	model_is("raid5", 8, 7, 7, 8, 2); /* n / 4 */
	model_is("raid5", 4, 3, 3, 4, 1);
	model_is("raid5", 3, 2, 2, 3, 1);       /* one read and two writes: the other column is cheaper to read */
	model_is("raid6", 8, 6, 6, 8, 8.0 / 6); /* n / 6 */
	model_is("raid6", 5, 3, 3, 5, 1);       /* two reads and three writes */
	model_is("raid6", 4, 2, 2, 4, 1);
	model_is("raid50", 8, 6, 6, 8, 2);
	model_is("raid5x9", 45, 36, 36, 45, 45 / 4.0);
	model_is("raid60", 12, 8, 8, 12, 2);
}

/* --- labels ----------------------------------------------------------------------------------------------------- */

static uint64_t strange_number(struct random *r)
{
	switch (random_below(r, 6)) {
	case 0:
		return random_u64(r);
	case 1:
		return UINT64_MAX - random_below(r, 3);
	case 2:
		return 1ull << random_below(r, 64);
	case 3:
		return random_below(r, 300);
	case 4:
		return random_below(r, 4);
	default:
		return CHUNK * random_below(r, 100);
	}
}

static void layout_spoil(struct layout *l, struct random *r)
{
	switch (random_below(r, 13)) {
	case 0:
		l->kind = (enum layout_kind)strange_number(r);
		break;
	case 1:
		l->spread = (enum layout_spread)strange_number(r);
		break;
	case 2:
		l->rotation = (enum layout_rotation)strange_number(r);
		break;
	case 3:
		l->disks = (unsigned)strange_number(r);
		break;
	case 4:
		l->groups = (unsigned)strange_number(r);
		break;
	case 5:
		l->width = (unsigned)strange_number(r);
		break;
	case 6:
		l->copies = (unsigned)strange_number(r);
		break;
	case 7:
		l->parity = (unsigned)strange_number(r);
		break;
	case 8:
		l->chunk_bytes = strange_number(r);
		break;
	case 9:
		l->disk_bytes = strange_number(r);
		break;
	case 10:
		l->disk_bytes = (INT64_MAX / (l->disks ? l->disks : 1)) / 65536 * 65536 - 65536 * random_below(r, 2);
		break;
	case 11: /* another division that comes out even */
		l->groups = 1 + (unsigned)random_below(r, 6);
		l->width = l->disks / l->groups;
		break;
	default:
		l->concat_bytes[random_below(r, LAYOUT_DISKS_MAX)] = strange_number(r);
		break;
	}
}

/* LAYOUT-1: everything can be called, with what lies in range. */
static void layout_use(const struct layout *l, struct random *r)
{
	uint64_t capacity = layout_capacity_bytes(l);
	bool failed[LAYOUT_DISKS_MAX];
	struct layout_model m;
	char text[32];

	assert_true(capacity > 0 && capacity <= INT64_MAX);
	assert_false(layout_misfit(layout_name(l, text), l->disks, NULL, 0));
	for (unsigned d = 0; d < LAYOUT_DISKS_MAX; d++)
		failed[d] = d < l->disks && random_below(r, 4) == 0;
	layout_survives(l, failed);
	memset(failed, 0, sizeof failed);
	assert_true(layout_survives(l, failed));
	layout_model(l, &m);
	assert_true(m.seq_read >= 1 && m.seq_write >= 1 && m.random_read >= 1 && m.random_write_small > 0.2);
	for (unsigned i = 0; i < 8; i++) {
		uint64_t offset = i == 0 ? 0 : i == 1 ? capacity - 1 : random_below(r, capacity), run;
		struct layout_place p;
		struct layout_row row;
		unsigned column;

		if (l->kind == LAYOUT_CONCAT) {
			layout_place_concat(l, offset, &p, &run);
			assert_true(p.disk < l->disks && p.offset_bytes < l->concat_bytes[p.disk]);
		} else if (!l->parity) {
			for (unsigned copy = 0; copy < l->copies; copy++) {
				layout_place(l, offset / l->chunk_bytes, copy, &p);
				assert_true(p.disk < l->disks && p.offset_bytes <= l->disk_bytes - l->chunk_bytes);
			}
		} else {
			layout_row(l, offset / layout_row_data_bytes(l), &row);
			for (unsigned c = 0; c < l->width; c++) {
				assert_int_equal(layout_row_at(l, row.disk[c], row.offset_bytes, &column), row.row);
				assert_int_equal(column, c);
			}
		}
	}
}

static void labels_are_not_trusted(void **state)
{
	unsigned passed = 0, refused = 0, total = seed_count(200000);

	for (unsigned seed = 0; seed < total; seed++) {
		struct random r;
		struct layout l;

		random_seed(&r, seed);
		memset(&l, 0, sizeof l);
		if (layout_small(&l, all_names[random_below(&r, array_count(all_names))],
			    1 + (unsigned)random_below(&r, 20), 1 + random_below(&r, 100),
			    (enum layout_rotation)random_below(&r, 4), NULL))
			continue;
		for (uint64_t spoils = random_below(&r, 4); spoils; spoils--)
			layout_spoil(&l, &r);
		struct error err = ERROR_INIT;
		if (layout_check(&l, &err)) {
			assert_int_equal(err.code, ERR_USAGE);
			assert_true(strlen(err.text) > 10);
			refused++;
			continue;
		}
		passed++;
		layout_use(&l, &r);
	}
	assert_true(total < 1000 || (passed > total / 20 && refused > total / 20));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(misfits_say_what_is_needed),
		cmocka_unit_test(unknown_names_are_refused),
		cmocka_unit_test(names_are_canonical),
		cmocka_unit_test(a_canonical_name_gives_the_same_layout),
		cmocka_unit_test(rotations_are_parsed),
		cmocka_unit_test(sizes_add_up),
		cmocka_unit_test(sizes_that_do_not_fit_are_refused),
		cmocka_unit_test(survival_is_exact),
		cmocka_unit_test(the_model_is_first_order),
		cmocka_unit_test(labels_are_not_trusted),
	};
	return cmocka_run_group_tests_name("layout names", tests, NULL, NULL);
}
