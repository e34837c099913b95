/* Advice on made-up results: ties, cells that do not count, missing ones; published rows and their marks; runs. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"

static const struct report_style style = {.columns = 1000}, narrow = {.columns = 80};

static int print_advice(FILE *out, void *arg)
{
	return report_advice(arg, &style, out, NULL);
}

static int print_advice_narrow(FILE *out, void *arg)
{
	return report_advice(arg, &narrow, out, NULL);
}

static char *advice_of(struct result *r)
{
	return fixture_print(print_advice, r);
}

static void expect(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in:\n%s", part, text);
}

static void expect_not(const char *text, const char *part)
{
	if (strstr(text, part))
		fail_msg("\"%s\" is in:\n%s", part, text);
}

static void test_whole_comparison(void **state)
{
	struct result r;
	char *text;

	fixture_compare(&r);
	text = fixture_print(print_advice_narrow, &r);
	fixture_golden("advice-80.txt", text);
	free(text);
	text = advice_of(&r);
	expect(text, "Safest: raid6, any 2 disks may fail.");
	expect(text, "Best capacity that survives a failure: raid5, 1.75 TB");
	expect(text, "Best capacity of all, without redundancy: stripe, 2.00 TB");
	expect(text, "For archive and media take raid6");
	expect(text, "For virtual machines and databases take raid10");
	expect(text, "For scratch data take stripe");
	expect(text, "raid6 8k rand write (CPU-BOUND)");
	free(text);
	result_release(&r);
}

static void test_ties_are_called_ties(void **state)
{
	struct result r;
	char *text;

	fixture_empty(&r);
	fixture_cell(&r, "raid5", "write", "virtual", 300);
	fixture_cell(&r, "raid50", "write", "virtual", 290); /* 3 % less in one phase */
	fixture_cell(&r, "raid6", "write", "virtual", 280);  /* 7 % */
	text = advice_of(&r);
	expect(text, "raid5, write 300.0 MB/s, a tie with raid50 (290.0)");
	expect_not(text, "raid6 (280");
	free(text);
	result_release(&r);
}

/* Repeated cells: 3 % apart with intervals of 0.5 is no tie; 3 % apart with intervals of 10 is. */
static void test_ties_of_repeated_cells_go_by_their_intervals(void **state)
{
	struct result r;
	char *text;

	fixture_empty(&r);
	fixture_cell(&r, "raid5", "write", "real", 300)->options[0] = 0;
	fixture_cell(&r, "raid50", "write", "real", 290)->options[0] = 0;
	text = advice_of(&r);
	expect_not(text, "a tie with raid50 (2");
	free(text);
	for (size_t i = 0; i < r.cell_count; i++) {
		r.cells[i].interval[0] = r.cells[i].mb_per_s - 10;
		r.cells[i].interval[1] = r.cells[i].mb_per_s + 10;
	}
	text = advice_of(&r);
	expect(text, "a tie with raid50 (290.0)");
	free(text);
	result_release(&r);
}

static void test_only_valid_cold_cells_count(void **state)
{
	struct result r;
	struct cell *c;
	char *text;

	fixture_empty(&r);
	fixture_cell(&r, "raid5", "read", "real", 300);
	c = fixture_cell(&r, "raid10", "read", "real", 900);
	cell_note(c, VERDICT_IMPOSSIBLE, "900 MB/s is above the limit of 440 MB/s");
	c = fixture_cell(&r, "raid6", "read", "real", 5000);
	cell_note(c, VERDICT_CACHED, "no device bytes");
	fixture_cell(&r, "raid6", "reread", "real", 6000);
	text = advice_of(&r);
	expect(text, "Fastest sequential read: raid5, read 300.0 MB/s.");
	expect(text, "raid10 read (IMPOSSIBLE)");
	expect(text, "raid6 read (CACHED)");
	expect(text, "Fastest random write: no valid cell to judge from.");
	free(text);
	result_release(&r);
}

/* More space paid for with a quarter of the speed is no tie, and one side figure makes no recommendation. */
static void test_a_tie_is_one_in_every_figure(void **state)
{
	struct result r;
	char *text;

	fixture_empty(&r);
	fixture_cell(&r, "raid10", "randwrite-8k", "virtual", 100);
	fixture_cell(&r, "raid5", "randwrite-8k", "virtual", 32)->usable_bytes = 1780000000000;
	text = advice_of(&r);
	expect_not(text, "a tie with");
	expect(text, "For a general file server: too little of what counts was measured.");
	expect(text, "For virtual machines and databases take raid10");
	free(text);
	/* (1.78 in space)^2 against 0.56 in writes and in reads each: the same on balance */
	for (unsigned i = 0; i < 2; i++) {
		fixture_cell(&r, "raid10", i ? "read" : "write", "virtual", 100);
		fixture_cell(&r, "raid5", i ? "read" : "write", "virtual", 56)->usable_bytes = 1780000000000;
		fixture_cell(&r, "raid6", i ? "read" : "write", "virtual", 50);
	}
	for (size_t i = 0; i < r.cell_count; i++)
		r.cells[i].failures_survived = 2;
	text = advice_of(&r);
	expect(text, "For archive and media take ");
	expect(text, "; as good on balance is ");
	expect(text, "usable 1.78 times, sequential read 0.56 times, sequential write 0.56 times)");
	free(text);
	result_release(&r);
}

static void test_nothing_valid_gives_no_advice(void **state)
{
	struct result r;
	char *text;

	fixture_empty(&r);
	text = advice_of(&r);
	expect(text, "No advice");
	free(text);
	cell_note(fixture_cell(&r, "raid5", "write", "real", 300), VERDICT_FAILED, "gone");
	fixture_cell(&r, "raid5", "reread", "real", 300);
	text = advice_of(&r);
	expect(text, "No advice");
	free(text);
	result_release(&r);
}

static void test_a_single_layout_is_not_recommended(void **state)
{
	struct result r;
	char *text;

	fixture_empty(&r);
	fixture_cell(&r, "raid5", "write", "real", 300);
	text = advice_of(&r);
	expect(text, "Only one layout was measured");
	expect_not(text, "take raid5");
	free(text);
	result_release(&r);
}

/* --- published ------------------------------------------------------------------------------------------------- */

struct rig {
	const struct result *result;
	const char *name;
	const struct report_style *style;
};

static int print_published(FILE *out, void *arg)
{
	struct rig *rig = arg;

	return report_published_beside(rig->result, "virtual", rig->name, rig->style, out, NULL);
}

static void test_published_rows_are_judged(void **state)
{
	struct rig rig = {NULL, "sata-8x55", &style};
	char *text = fixture_print(print_published, &rig);

	expect(text, "VxVM striped mirror, iozone 16M, Solaris 10: IMPOSSIBLE: dd write: 259 > 8/2 x 60 = 240 MB/s; "
		     "write: 304 > 8/2 x 60 = 240 MB/s");
	expect(text, "UFS single, iozone 16M: IMPOSSIBLE: read: 73 > one disk of 60 MB/s");
	expect_not(text, "VxFS single, iozone 16M:"); /* 63 is within what "50 to 60" may mean */
	expect_not(text, "VxVM stripe, iozone 16M, Solaris 10; same at 16 GB:");
	expect(text, "vinum raid5, dd bs=1M zero, FreeBSD; unstable: UNSTABLE");
	free(text);
	rig.name = "x4500-48";
	text = fixture_print(print_published, &rig);
	expect(text, "CACHED: the file of 8 GB is smaller than the RAM of 16 GB");
	free(text);
	rig.name = "pe2950-2";
	text = fixture_print(print_published, &rig);
	expect(text, "DATA-REDUCED");
	expect(text, "CPU-BOUND");
	free(text);
	rig.name = "sas-15";
	text = fixture_print(print_published, &rig);
	expect(text, "no figures");
	free(text);
}

static void test_published_beside_ours(void **state)
{
	struct result r;
	struct rig rig = {&r, "sata-8x55", &narrow};
	char *text;

	fixture_compare(&r);
	text = fixture_print(print_published, &rig);
	fixture_golden("published-80.txt", text);
	free(text);
	rig.style = &style;
	text = fixture_print(print_published, &rig);
	expect(text, "> Spindle");
	free(text);
	result_release(&r);
}

static void test_every_rig_prints_and_others_are_refused(void **state)
{
	char *rigs = strdup(report_rigs());
	struct error err = ERROR_INIT;
	unsigned count = 0;

	for (char *name = strtok(rigs, ", "); name; name = strtok(NULL, ", "), count++) {
		struct rig rig = {NULL, name, &narrow};

		free(fixture_print(print_published, &rig));
	}
	assert_int_equal(count, 8);
	assert_int_equal(report_published("nonsense", &narrow, stdout, &err), ERR_NOT_FOUND);
	expect(err.text, "sata-8x55");
	free(rigs);
}

/* --- runs --------------------------------------------------------------------------------------------------------- */

struct pair {
	const struct result *runs[2];
	const char *names[2];
};

static int print_runs(FILE *out, void *arg)
{
	struct pair *pair = arg;

	return report_runs(pair->runs, pair->names, 2, &narrow, out, NULL);
}

static void test_runs_beside_each_other(void **state)
{
	struct result a, b;
	struct pair pair = {{&a, &b}, {"before", "after"}};
	struct text reasons = {0}, remarks = {0};
	char *text;

	fixture_compare(&a);
	fixture_compare(&b);
	assert_true(report_comparable(&a, &b, &reasons, &remarks));
	assert_int_equal(reasons.length, 0);
	for (size_t i = 0; i < b.cell_count; i++)
		b.cells[i].mb_per_s *= i == 3 ? 1.2 : 1.01;
	text = fixture_print(print_runs, &pair);
	expect(text, "+20.0%");
	expect(text, "+1.0% tie");
	free(text);
	b.seed = 8;
	assert_true(report_comparable(&a, &b, &reasons, &remarks));
	expect(remarks.bytes, "the seeds differ: 7 and 8");
	snprintf(b.host.cpu, sizeof(b.host.cpu), "another");
	b.disk_count = 7;
	assert_false(report_comparable(&a, &b, &reasons, &remarks));
	expect(reasons.bytes, "the CPU differs");
	expect(reasons.bytes, "the number of disks differs: 8 and 7");
	text_release(&reasons);
	text_release(&remarks);
	result_release(&a);
	result_release(&b);
}

static void test_runs_without_a_common_cell(void **state)
{
	struct result a, b;
	struct text reasons = {0}, remarks = {0};

	fixture_empty(&a);
	fixture_empty(&b);
	fixture_cell(&a, "raid5", "write", "virtual", 300);
	fixture_cell(&b, "raid6", "write", "virtual", 300);
	assert_false(report_comparable(&a, &b, &reasons, &remarks));
	expect(reasons.bytes, "no cell of one has its like in the other");
	text_release(&reasons);
	text_release(&remarks);
	result_release(&a);
	result_release(&b);
}

static int set_up(void **state)
{
	setlocale(LC_CTYPE, "C.UTF-8");
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole_comparison),
		cmocka_unit_test(test_ties_are_called_ties),
		cmocka_unit_test(test_ties_of_repeated_cells_go_by_their_intervals),
		cmocka_unit_test(test_only_valid_cold_cells_count),
		cmocka_unit_test(test_a_tie_is_one_in_every_figure),
		cmocka_unit_test(test_nothing_valid_gives_no_advice),
		cmocka_unit_test(test_a_single_layout_is_not_recommended),
		cmocka_unit_test(test_published_rows_are_judged),
		cmocka_unit_test(test_published_beside_ours),
		cmocka_unit_test(test_every_rig_prints_and_others_are_refused),
		cmocka_unit_test(test_runs_beside_each_other),
		cmocka_unit_test(test_runs_without_a_common_cell),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
