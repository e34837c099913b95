/* The maps: golden tables from the documentation, and LAYOUT-2, -3 and -4 over every small geometry. */
#include "layout_helper.h"

/* --- golden tables ---------------------------------------------------------------------------------------------- */

struct golden {
	const char *name;
	unsigned disks, rows, rotation;
	const char *table; /* row by row: the chunk (or P, Q) on each disk */
};

/* md(4), section RAID10, its pictures for 4 and 5 devices; the far ones cut to 2 rows a zone. */
static const struct golden chunk_goldens[] = {
	{"raid10", 4, 2, 0, "0 0 1 1  2 2 3 3"},
	{"raid10", 5, 4, 0, "0 0 1 1 2  2 3 3 4 4  5 5 6 6 7  7 8 8 9 9"},
	{"raid10-far", 4, 4, 0, "0 1 2 3  4 5 6 7  3 0 1 2  7 4 5 6"},
	{"raid10-far", 5, 4, 0, "0 1 2 3 4  5 6 7 8 9  4 0 1 2 3  9 5 6 7 8"},
	{"raid10-offset", 4, 4, 0, "0 1 2 3  3 0 1 2  4 5 6 7  7 4 5 6"},
	{"raid10-offset", 5, 4, 0, "0 1 2 3 4  4 0 1 2 3  5 6 7 8 9  9 5 6 7 8"},
	{"raid10-offset3", 4, 3, 0, "0 1 2 3  3 0 1 2  2 3 0 1"},
	{"raid10-far3", 4, 3, 0, "0 1 2 3  3 0 1 2  2 3 0 1"},
	{"raid10-near3", 4, 3, 0, "0 0 0 1  1 1 2 2  2 3 3 3"},
	{"stripe", 4, 2, 0, "0 1 2 3  4 5 6 7"},
	{"mirror", 3, 2, 0, "0 0 0  1 1 1"},
	{"mirrorx2", 4, 2, 0, "0 0 1 1  2 2 3 3"},
	{"raid01", 4, 2, 0, "0 1 0 1  2 3 2 3"},
	{"single", 1, 3, 0, "0 1 2"},
};

/* Written from the description of the rotations: left walks from the last disk to the first; symmetric data starts
 * behind parity and wraps; Q stands behind P, round the end. */
static const struct golden row_goldens[] = {
	{"raid5", 4, 4, LAYOUT_LEFT_SYMMETRIC, "0 1 2 P  4 5 P 3  8 P 6 7  P 9 10 11"},
	{"raid5", 4, 4, LAYOUT_LEFT_ASYMMETRIC, "0 1 2 P  3 4 P 5  6 P 7 8  P 9 10 11"},
	{"raid5", 4, 4, LAYOUT_RIGHT_SYMMETRIC, "P 0 1 2  5 P 3 4  7 8 P 6  9 10 11 P"},
	{"raid5", 4, 4, LAYOUT_RIGHT_ASYMMETRIC, "P 0 1 2  3 P 4 5  6 7 P 8  9 10 11 P"},
	{"raid5", 5, 6, LAYOUT_LEFT_SYMMETRIC,
		"0 1 2 3 P  5 6 7 P 4  10 11 P 8 9  15 P 12 13 14  P 16 17 18 19  20 21 22 23 P"},
	{"raid5", 5, 5, LAYOUT_LEFT_ASYMMETRIC, "0 1 2 3 P  4 5 6 P 7  8 9 P 10 11  12 P 13 14 15  P 16 17 18 19"},
	{"raid5", 5, 5, LAYOUT_RIGHT_SYMMETRIC, "P 0 1 2 3  7 P 4 5 6  10 11 P 8 9  13 14 15 P 12  16 17 18 19 P"},
	{"raid5", 5, 5, LAYOUT_RIGHT_ASYMMETRIC, "P 0 1 2 3  4 P 5 6 7  8 9 P 10 11  12 13 14 P 15  16 17 18 19 P"},
	{"raid6", 5, 5, LAYOUT_LEFT_SYMMETRIC, "Q 0 1 2 P  3 4 5 P Q  7 8 P Q 6  11 P Q 9 10  P Q 12 13 14"},
	{"raid6", 5, 5, LAYOUT_LEFT_ASYMMETRIC, "Q 0 1 2 P  3 4 5 P Q  6 7 P Q 8  9 P Q 10 11  P Q 12 13 14"},
	{"raid6", 5, 5, LAYOUT_RIGHT_SYMMETRIC, "P Q 0 1 2  5 P Q 3 4  7 8 P Q 6  9 10 11 P Q  Q 12 13 14 P"},
	{"raid6", 5, 5, LAYOUT_RIGHT_ASYMMETRIC, "P Q 0 1 2  3 P Q 4 5  6 7 P Q 8  9 10 11 P Q  Q 12 13 14 P"},
	{"raid6", 4, 4, LAYOUT_LEFT_SYMMETRIC, "Q 0 1 P  2 3 P Q  5 P Q 4  P Q 6 7"},
	{"raid6", 4, 4, LAYOUT_LEFT_ASYMMETRIC, "Q 0 1 P  2 3 P Q  4 P Q 5  P Q 6 7"},
	{"raid6", 4, 4, LAYOUT_RIGHT_SYMMETRIC, "P Q 0 1  3 P Q 2  4 5 P Q  Q 6 7 P"},
	{"raid6", 4, 4, LAYOUT_RIGHT_ASYMMETRIC, "P Q 0 1  2 P Q 3  4 5 P Q  Q 6 7 P"},
	{"raid4", 4, 3, LAYOUT_LEFT_SYMMETRIC, "0 1 2 P  3 4 5 P  6 7 8 P"},
	{"raid4", 4, 2, LAYOUT_RIGHT_ASYMMETRIC, "0 1 2 P  3 4 5 P"},
	/* Two groups of three: rows go round the groups. */
	{"raid50", 6, 3, LAYOUT_LEFT_SYMMETRIC, "0 1 P 2 3 P  5 P 4 7 P 6  P 8 9 P 10 11"},
};

#define CELL_BYTES 8
struct table {
	char cell[64][CELL_BYTES]; /* row × disks + disk */
};

static void table_of_chunks(const struct layout *l, struct table *t)
{
	uint64_t chunks = layout_capacity_bytes(l) / l->chunk_bytes;

	for (uint64_t chunk = 0; chunk < chunks; chunk++)
		for (unsigned copy = 0; copy < l->copies; copy++) {
			struct layout_place p;

			layout_place(l, chunk, copy, &p);
			snprintf(
				t->cell[p.offset_bytes / CHUNK * l->disks + p.disk], CELL_BYTES, "%u", (unsigned)chunk);
		}
}

static void table_of_rows(const struct layout *l, struct table *t)
{
	for (uint64_t r = 0; r < layout_row_count(l); r++) {
		struct layout_row row;

		layout_row(l, r, &row);
		for (unsigned c = 0; c < row.data + row.parity; c++) {
			char *cell = t->cell[row.offset_bytes / CHUNK * l->disks + row.disk[c]];

			if (c < row.data)
				snprintf(cell, CELL_BYTES, "%u", (unsigned)(r * row.data + c));
			else
				snprintf(cell, CELL_BYTES, "%s", c == row.data ? "P" : "Q");
		}
	}
}

static void golden_check(const struct golden *g)
{
	struct layout l;
	struct error err = ERROR_INIT;
	struct table t = {0};
	char text[1024];

	if (layout_small(&l, g->name, g->disks, g->rows, g->rotation, &err))
		fail_msg("%s over %u: %s", g->name, g->disks, err.text);
	if (l.parity)
		table_of_rows(&l, &t);
	else
		table_of_chunks(&l, &t);
	snprintf(text, sizeof text, "%s", g->table);
	unsigned at = 0;
	for (char *cell = strtok(text, " "); cell; cell = strtok(NULL, " "), at++)
		if (strcmp(cell, t.cell[at]))
			fail_msg("%s over %u, rotation %u: row %u disk %u holds %s, the documentation says %s", g->name,
				g->disks, g->rotation, at / g->disks, at % g->disks, t.cell[at], cell);
	assert_int_equal(at, g->disks * g->rows);
}

static void golden_tables(void **state)
{
	for (size_t i = 0; i < array_count(chunk_goldens); i++)
		golden_check(&chunk_goldens[i]);
	for (size_t i = 0; i < array_count(row_goldens); i++)
		golden_check(&row_goldens[i]);
}

/* --- every place exactly once ----------------------------------------------------------------------------------- */

typedef void place_function(const struct layout *, uint64_t, unsigned, struct layout_place *);
typedef void row_function(const struct layout *, uint64_t, struct layout_row *);

/* Counts the uses of each chunk-sized place. */
struct census {
	unsigned char *uses;
	uint64_t rows;
};

static bool census_add(struct census *c, const struct layout *l, unsigned disk, uint64_t offset_bytes)
{
	if (disk >= l->disks || offset_bytes % l->chunk_bytes || offset_bytes >= l->disk_bytes)
		return false;
	return c->uses[disk * c->rows + offset_bytes / l->chunk_bytes]++ == 0;
}

static bool chunks_are_placed(const struct layout *l, place_function *place, struct census *c, uint64_t *ret_places)
{
	uint64_t chunks = layout_capacity_bytes(l) / l->chunk_bytes;

	for (uint64_t chunk = 0; chunk < chunks; chunk++) {
		bool on[LAYOUT_DISKS_MAX] = {false};

		for (unsigned copy = 0; copy < l->copies; copy++) {
			struct layout_place p;

			place(l, chunk, copy, &p);
			if (!census_add(c, l, p.disk, p.offset_bytes) || on[p.disk])
				return false;
			on[p.disk] = true;
		}
	}
	*ret_places = chunks * l->copies;
	return true;
}

static bool rows_are_placed(const struct layout *l, row_function *row_of, struct census *c, uint64_t *ret_places)
{
	for (uint64_t r = 0; r < layout_row_count(l); r++) {
		struct layout_row row;

		row_of(l, r, &row);
		if (row.row != r || row.data + row.parity != l->width || row.parity != l->parity)
			return false;
		for (unsigned i = 0; i < l->width; i++) {
			unsigned column = UINT32_MAX;

			if (row.disk[i] / l->width != row.group || !census_add(c, l, row.disk[i], row.offset_bytes))
				return false;
			if (layout_row_at(l, row.disk[i], row.offset_bytes + r % l->chunk_bytes, &column) != r ||
				column != i)
				return false;
		}
	}
	*ret_places = layout_row_count(l) * l->width;
	return true;
}

static bool is_bijective(const struct layout *l, place_function *place, row_function *row_of)
{
	struct census c = {.rows = l->disk_bytes / l->chunk_bytes};
	uint64_t places = 0;

	c.uses = calloc(c.rows * l->disks, 1);
	bool good = l->parity ? rows_are_placed(l, row_of, &c, &places) : chunks_are_placed(l, place, &c, &places);
	free(c.uses);
	/* As many different places as there are: none is left over. And what is not redundancy is capacity. */
	if (!good || places != c.rows * l->disks)
		return false;
	uint64_t redundant = l->parity ? layout_row_count(l) * l->parity : places / l->copies * (l->copies - 1);
	return layout_capacity_bytes(l) == (places - redundant) * l->chunk_bytes;
}

static void every_place_is_used_once(void **state)
{
	unsigned geometries = 0;

	for (size_t i = 0; i < array_count(all_names); i++)
		for (unsigned disks = 1; disks <= 8; disks++)
			for (unsigned rows = 1; rows <= 25; rows++)
				for (unsigned rotation = 0; rotation < 4; rotation++) {
					struct layout l;

					if (layout_small(&l, all_names[i], disks, rows, rotation, NULL) ||
						l.kind == LAYOUT_CONCAT)
						continue;
					geometries++;
					if (!is_bijective(&l, layout_place, layout_row))
						fail_msg("%s over %u disks of %u rows, rotation %u", all_names[i],
							disks, rows, rotation);
				}
	assert_true(geometries > 8000);
}

static void large_layouts_use_every_place_once(void **state)
{
	static const char *const forms[] = {"stripe", "mirrorx%u", "raid10", "raid10-near%u", "raid10-far%u",
		"raid10-offset%u", "raid01", "raid5x%u", "raid6x%u", "raid4:%u", "raid5:%u", "raid6:%u"};
	unsigned done = 0;

	for (unsigned seed = 0; seed < seed_count(3000); seed++) {
		struct random r;
		struct layout l;
		char name[32];
		uint64_t disk_bytes[LAYOUT_DISKS_MAX];

		random_seed(&r, seed);
		uint64_t chunk = (uint64_t)LAYOUT_CHUNK_MIN << random_below(&r, 13);
		unsigned disks = 1 + (unsigned)random_below(&r, LAYOUT_DISKS_MAX);
		snprintf(name, sizeof name, forms[random_below(&r, array_count(forms))],
			1 + (unsigned)random_below(&r, random_below(&r, 2) ? 8 : 64));
		for (unsigned i = 0; i < disks; i++)
			disk_bytes[i] = chunk * (1 + random_below(&r, 60)) + random_below(&r, chunk) + 40 * chunk;
		if (layout_init(&l, name, disks, disk_bytes, chunk, (enum layout_rotation)random_below(&r, 4), NULL))
			continue;
		done++;
		for (unsigned i = 0; i < disks; i++)
			assert_true(l.disk_bytes <= disk_bytes[i]);
		if (!is_bijective(&l, layout_place, layout_row))
			fail_msg("seed %u: %s over %u disks", seed, name, disks);
	}
	assert_true(seed_count(3000) < 100 || done > seed_count(3000) / 20);
}

static void place_off_by_a_row(const struct layout *l, uint64_t chunk, unsigned copy, struct layout_place *ret)
{
	layout_place(l, chunk, copy, ret);
	if (chunk == 5 && copy == l->copies - 1)
		ret->offset_bytes = (ret->offset_bytes + l->chunk_bytes) % l->disk_bytes;
}

static void row_with_p_and_data_swapped(const struct layout *l, uint64_t row, struct layout_row *ret)
{
	layout_row(l, row, ret);
	if (row == 2) {
		unsigned p = ret->disk[ret->data];
		ret->disk[ret->data] = ret->disk[0];
		ret->disk[0] = p;
	}
}

static void broken_maps_are_caught(void **state)
{
	struct layout l;

	assert_int_equal(layout_small(&l, "raid10", 4, 6, 0, NULL), 0);
	assert_true(is_bijective(&l, layout_place, layout_row));
	assert_false(is_bijective(&l, place_off_by_a_row, layout_row));
	assert_int_equal(layout_small(&l, "raid5", 4, 6, 0, NULL), 0);
	assert_false(is_bijective(&l, layout_place, row_with_p_and_data_swapped));
}

static void mirrors_striped_are_raid10_near(void **state)
{
	for (unsigned groups = 1; groups <= 6; groups++)
		for (unsigned copies = 2; copies <= 4; copies++) {
			struct layout m, r;
			char mirror[32], raid10[32];

			snprintf(mirror, sizeof mirror, "mirrorx%u", groups);
			snprintf(raid10, sizeof raid10, "raid10-near%u", copies);
			assert_int_equal(layout_small(&m, mirror, groups * copies, 7, 0, NULL), 0);
			assert_int_equal(layout_small(&r, raid10, groups * copies, 7, 0, NULL), 0);
			assert_int_equal(layout_capacity_bytes(&m), layout_capacity_bytes(&r));
			for (unsigned chunk = 0; chunk < 7 * groups; chunk++)
				for (unsigned copy = 0; copy < copies; copy++) {
					struct layout_place pm, pr;

					layout_place(&m, chunk, copy, &pm);
					layout_place(&r, chunk, copy, &pr);
					assert_int_equal(pm.disk, pr.disk);
					assert_int_equal(pm.disk / copies, chunk % groups);
					assert_int_equal(pm.offset_bytes, pr.offset_bytes);
				}
		}
}

static void concat_puts_disk_behind_disk(void **state)
{
	uint64_t sizes[] = {3 * CHUNK, 1 * CHUNK, 7 * CHUNK + 4096, 2 * CHUNK + 100};
	struct layout l;
	struct layout_place p;
	uint64_t run, at = 0;

	assert_int_equal(layout_init(&l, "concat", 4, sizes, CHUNK, 0, NULL), 0);
	assert_int_equal(layout_capacity_bytes(&l), sizes[0] + sizes[1] + sizes[2] + 2 * CHUNK);
	for (unsigned disk = 0; disk < 4; disk++)
		for (uint64_t offset = 0; offset < l.concat_bytes[disk]; offset += 512, at += 512) {
			layout_place_concat(&l, at, &p, &run);
			assert_int_equal(p.disk, disk);
			assert_int_equal(p.offset_bytes, offset);
			assert_int_equal(run, l.concat_bytes[disk] - offset);
		}
	assert_int_equal(at, layout_capacity_bytes(&l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_tables),
		cmocka_unit_test(every_place_is_used_once),
		cmocka_unit_test(large_layouts_use_every_place_once),
		cmocka_unit_test(broken_maps_are_caught),
		cmocka_unit_test(mirrors_striped_are_raid10_near),
		cmocka_unit_test(concat_puts_disk_behind_disk),
	};
	return cmocka_run_group_tests_name("layout maps", tests, NULL, NULL);
}
