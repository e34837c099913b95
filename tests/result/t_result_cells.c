#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "result.h"

static void new_cell_has_no_values(void **state)
{
	struct cell c;

	cell_init(&c);
	assert_int_equal(c.verdict, VERDICT_SKIPPED);
	assert_int_equal(c.note_count, 0);
	assert_true(isnan(c.mb_per_s) && isnan(c.iops) && isnan(c.limit_mb_per_s) && isnan(c.interval[1]));
	assert_true(isnan(c.samples[RESULT_SAMPLES_MAX - 1]));
	assert_true(
		c.logical_bytes == RESULT_NONE && c.latency_p999_ns == RESULT_NONE && c.usable_bytes == RESULT_NONE);
	assert_string_equal(c.stack, "");
}

static void notes_stand_in_order_of_precedence(void **state)
{
	struct cell c;

	cell_init(&c);
	cell_note(&c, VERDICT_UNSTABLE, "spread %d %%", 7);
	assert_int_equal(c.verdict, VERDICT_UNSTABLE);
	cell_note(&c, VERDICT_CACHED, "from RAM");
	cell_note(&c, VERDICT_BUS_BOUND, "bus");
	assert_int_equal(c.verdict, VERDICT_CACHED);
	assert_int_equal(c.note_count, 3);
	assert_int_equal(c.notes[1].verdict, VERDICT_BUS_BOUND);
	assert_string_equal(c.notes[2].reason, "spread 7 %");
	cell_note(&c, VERDICT_CACHED, "second reason");
	assert_int_equal(c.note_count, 3);
	assert_string_equal(c.notes[0].reason, "from RAM");
}

static void valid_gives_way_to_any_other(void **state)
{
	struct cell c;

	cell_init(&c);
	cell_note(&c, VERDICT_VALID, "all good");
	assert_int_equal(c.verdict, VERDICT_VALID);
	cell_note(&c, VERDICT_TOO_SHORT, "0.3 s");
	assert_int_equal(c.verdict, VERDICT_TOO_SHORT);
	assert_int_equal(c.note_count, 1);
	cell_note(&c, VERDICT_VALID, "all good");
	assert_int_equal(c.note_count, 1);
}

static void a_full_list_drops_the_weakest(void **state)
{
	struct cell c;

	cell_init(&c);
	for (int v = VERDICT_UNSTABLE; v >= VERDICT_FAILED; v--)
		cell_note(&c, (enum verdict)v, "reason %d", v);
	assert_int_equal(c.note_count, RESULT_NOTES_MAX);
	for (unsigned i = 0; i < RESULT_NOTES_MAX; i++)
		assert_int_equal(c.notes[i].verdict, i);
	cell_note(&c, VERDICT_UNSTABLE, "too late");
	assert_int_equal(c.note_count, RESULT_NOTES_MAX);
	assert_int_equal(c.notes[RESULT_NOTES_MAX - 1].verdict, RESULT_NOTES_MAX - 1);
}

static void a_long_reason_is_cut(void **state)
{
	struct cell c;
	char text[600];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	cell_init(&c);
	cell_note(&c, VERDICT_FAILED, "%s", text);
	assert_int_equal(strlen(c.notes[0].reason), sizeof(c.notes[0].reason) - 1);
}

static void keys_differ_in_every_field(void **state)
{
	struct cell a, b;

	cell_init(&a);
	strcpy(a.test, "write");
	b = a;
	assert_true(cell_same_key(&a, &b)); /* an unknown fill equals an unknown fill */
	b.mb_per_s = 4;
	assert_true(cell_same_key(&a, &b));
#define DIFFERS(change)                                                                                                \
	do {                                                                                                           \
		b = a;                                                                                                 \
		change;                                                                                                \
		assert_false(cell_same_key(&a, &b));                                                                   \
	} while (0)
	DIFFERS(strcpy(b.stack, "x"));
	DIFFERS(strcpy(b.layout, "x"));
	DIFFERS(strcpy(b.road, "x"));
	DIFFERS(strcpy(b.fs, "x"));
	DIFFERS(strcpy(b.disks, "x"));
	DIFFERS(strcpy(b.test, "x"));
	DIFFERS(strcpy(b.compression, "x"));
	DIFFERS(strcpy(b.payload, "x"));
	DIFFERS(b.block_bytes = 1);
	DIFFERS(b.depth = 1);
	DIFFERS(b.jobs = 1);
	DIFFERS(strcpy(b.clock, "x"));
	DIFFERS(b.fill = 0.1);
	DIFFERS(strcpy(b.state, "x"));
}

static void cells_are_unique_and_found(void **state)
{
	struct result r = {0};
	struct error err = ERROR_INIT;
	struct cell c;

	cell_init(&c);
	strcpy(c.stack, "array");
	strcpy(c.test, "write");
	strcpy(c.clock, "virtual");
	for (int i = 0; i < 100; i++) {
		snprintf(c.layout, sizeof(c.layout), "l%d", i);
		assert_int_equal(result_add_cell(&r, &c, &err), 0);
	}
	assert_int_equal(result_add_cell(&r, &c, &err), ERR_EXISTS);
	assert_int_equal(r.cell_count, 100);
	assert_string_equal(result_find(&r, "array", "l42", "write", "virtual")->layout, "l42");
	assert_string_equal(result_find(&r, NULL, "l99", NULL, NULL)->layout, "l99");
	assert_null(result_find(&r, "array", "l42", "write", "real"));
	assert_int_equal(result_add_skip(&r, "raid60", "needs 8 disks", &err), 0);
	assert_string_equal(r.skips[0].reason, "needs 8 disks");
	result_release(&r);
	assert_int_equal(r.cell_count, 0);
	result_release(NULL);
}

static void all_valid_leaves_skipped_cells_out(void **state)
{
	struct result r = {0};
	struct cell c;

	assert_true(result_all_valid(&r));
	cell_init(&c);
	strcpy(c.test, "a");
	assert_int_equal(result_add_cell(&r, &c, NULL), 0);
	assert_true(result_all_valid(&r));
	strcpy(c.test, "b");
	cell_note(&c, VERDICT_VALID, "fine");
	assert_int_equal(result_add_cell(&r, &c, NULL), 0);
	assert_true(result_all_valid(&r));
	strcpy(c.test, "c");
	cell_note(&c, VERDICT_UNSTABLE, "not fine");
	assert_int_equal(result_add_cell(&r, &c, NULL), 0);
	assert_false(result_all_valid(&r));
	result_release(&r);
}

static void every_verdict_has_a_name(void **state)
{
	for (int v = 0; v < VERDICT_COUNT; v++) {
		assert_non_null(verdict_names[v]);
		assert_null(strchr(verdict_names[v], '_'));
	}
	assert_string_equal(verdict_names[VERDICT_DATA_REDUCED], "DATA-REDUCED");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_cell_has_no_values),
		cmocka_unit_test(notes_stand_in_order_of_precedence),
		cmocka_unit_test(valid_gives_way_to_any_other),
		cmocka_unit_test(a_full_list_drops_the_weakest),
		cmocka_unit_test(a_long_reason_is_cut),
		cmocka_unit_test(keys_differ_in_every_field),
		cmocka_unit_test(cells_are_unique_and_found),
		cmocka_unit_test(all_valid_leaves_skipped_cells_out),
		cmocka_unit_test(every_verdict_has_a_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
