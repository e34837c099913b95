/* Tables, bars, Markdown and CSV of a fixed result, held against golden files at 80 and 160 columns. */
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"

static struct result fixed;
static const struct report_style narrow = {.columns = 80}, wide = {.columns = 160, .unicode = true},
				 coloured = {.columns = 160, .unicode = true, .colour = true}, tiny = {.columns = 44};

struct job {
	const char *clock;
	const struct report_style *style;
	const struct result *result;
};

static int print_table(FILE *out, void *arg)
{
	struct job *job = arg;

	return report_table(job->result ? job->result : &fixed, job->clock, job->style, out, NULL);
}

static unsigned width_of(const char *text)
{
	unsigned widest = 0;

	while (*text) {
		unsigned width = 0;

		for (; *text && *text != '\n'; text++)
			width += ((unsigned char)*text & 0xc0) != 0x80;
		widest = max_of(widest, width);
		text += *text == '\n';
	}
	return widest;
}

static void table_golden(const char *name, const char *clock, const struct report_style *style)
{
	struct job job = {clock, style, NULL};
	char *text = fixture_print(print_table, &job);

	assert_true(width_of(text) <= style->columns);
	fixture_golden(name, text);
	free(text);
}

static void test_table_80(void **state)
{
	table_golden("table-80.txt", "virtual", &narrow);
}

static void test_table_160(void **state)
{
	table_golden("table-160.txt", "virtual", &wide);
}

static void test_table_real(void **state)
{
	table_golden("table-real-80.txt", "real", &narrow);
}

static void test_table_tiny_is_cut_not_clipped(void **state)
{
	struct job job = {"virtual", &tiny, NULL};
	char *text = fixture_print(print_table, &job);

	assert_true(width_of(text) <= 44);
	assert_non_null(strstr(text, "422.4"));
	assert_non_null(strstr(text, "CPU-BOUND"));
	free(text);
}

static void test_colour_only_when_asked(void **state)
{
	struct job plain = {"virtual", &wide, NULL}, colour = {"virtual", &coloured, NULL};
	char *a = fixture_print(print_table, &plain), *b = fixture_print(print_table, &colour);

	assert_null(strchr(a, '\033'));
	assert_non_null(strstr(b, "\033[1;32m"));
	free(a);
	free(b);
}

static int print_bars(FILE *out, void *arg)
{
	struct job *job = arg;

	return report_bars(&fixed, job->clock, "write", job->style, out, NULL);
}

static void test_bars(void **state)
{
	struct job ascii = {"virtual", &narrow, NULL}, blocks = {"virtual", &wide, NULL};
	char *a = fixture_print(print_bars, &ascii), *b = fixture_print(print_bars, &blocks);
	struct error err = ERROR_INIT;

	assert_true(width_of(a) <= 80);
	assert_true(width_of(b) <= 160);
	fixture_golden("bars-80.txt", a);
	fixture_golden("bars-160.txt", b);
	free(a);
	free(b);
	assert_int_equal(report_bars(&fixed, "virtual", "nonsense", &narrow, stdout, &err), ERR_NOT_FOUND);
}

static int print_prediction(FILE *out, void *arg)
{
	return report_prediction(&fixed, arg, out, NULL);
}

static void test_prediction(void **state)
{
	char *text = fixture_print(print_prediction, (void *)&narrow);

	assert_true(width_of(text) <= 80);
	fixture_golden("prediction-80.txt", text);
	assert_non_null(strstr(text, "-7.0%"));
	free(text);
}

static int print_cells(FILE *out, void *arg)
{
	struct job *job = arg;

	return report_cells(job->result, job->style, out, NULL);
}

static void test_cells(void **state)
{
	struct job job = {NULL, &wide, &fixed};
	char *text = fixture_print(print_cells, &job);

	fixture_golden("cells-160.txt", text);
	free(text);
}

static void test_units(void **state)
{
	struct job job = {NULL, &narrow, NULL};
	struct result r;
	struct cell *c;
	char *text;

	fixture_empty(&r);
	c = fixture_cell(&r, "single", "write", "real", 104857600 / 1.0 / 1e6);
	c->logical_bytes = 104857600;
	c->elapsed_s = 1.0;
	job.result = &r;
	text = fixture_print(print_cells, &job);
	assert_non_null(strstr(text, "104.86 MB/s = 100.00 MiB/s = 838.86 Mbit/s"));
	free(text);
	result_release(&r);
}

static void test_large_numbers(void **state)
{
	struct job job = {"real", &narrow, NULL};
	struct result r;
	struct cell *c;
	char *text;

	fixture_empty(&r);
	fixture_cell(&r, "stripe", "read", "real", 22000000.0 * 1024 / 1e6);
	c = fixture_cell(&r, "raid5", "read", "real", 40000000.0 * 1024 / 1e6);
	c->logical_bytes = 1ull << 62;
	c->usable_bytes = 1ull << 62;
	job.result = &r;
	text = fixture_print(print_table, &job);
	assert_non_null(strstr(text, "22528"));
	assert_non_null(strstr(text, "40960"));
	assert_null(strstr(text, " -"));
	free(text);
	result_release(&r);
}

static void test_capacity_in_both_units(void **state)
{
	struct job job = {"real", &narrow, NULL};
	struct result r;
	struct cell *c;
	char *text;

	fixture_empty(&r);
	c = fixture_cell(&r, "stripe", "read", "real", 100);
	c->usable_bytes = 24 * 1200000000000ull;
	job.result = &r;
	text = fixture_print(print_table, &job);
	assert_non_null(strstr(text, "28.80"));
	assert_non_null(strstr(text, "26.19"));
	free(text);
	result_release(&r);
}

/* 16 disks of 4 GiB are no 0.064 TB to the eye, and one of them no 0.004. */
static void test_small_disks_are_told_in_gigabytes(void **state)
{
	struct job job = {"real", &narrow, NULL};
	struct result r;
	char *text;

	fixture_empty(&r);
	fixture_cell(&r, "stripe", "read", "real", 100)->usable_bytes = 16 * 4294967296ull;
	fixture_cell(&r, "single", "read", "real", 100)->usable_bytes = 4294967296ull;
	job.result = &r;
	text = fixture_print(print_table, &job);
	assert_non_null(strstr(text, "usable GB"));
	assert_non_null(strstr(text, "68.72"));
	assert_non_null(strstr(text, "64.00"));
	assert_non_null(strstr(text, "4.29"));
	assert_null(strstr(text, "TB"));
	free(text);
	result_release(&r);
}

static void test_price_and_link(void **state)
{
	struct job job = {"virtual", &narrow, NULL};
	struct result r;
	char *text;

	fixture_empty(&r);
	r.price_per_disk = 100;
	r.link_mb_per_s = 125;
	snprintf(r.link_name, sizeof(r.link_name), "1GbE");
	fixture_cell(&r, "stripe", "write", "virtual", 400);
	fixture_cell(&r, "single", "write", "virtual", 50);
	job.result = &r;
	text = fixture_print(print_table, &job);
	assert_non_null(strstr(text, "400.0^"));
	assert_null(strstr(text, "50.0^"));
	assert_non_null(strstr(text, "125.0 MB/s"));
	assert_non_null(strstr(text, "800.00")); /* eight disks of 100 */
	assert_non_null(strstr(text, "400.00")); /* 800 for 2 TB */
	assert_non_null(strstr(text, "2.00"));   /* 800 for 400 MB/s */
	free(text);
	result_release(&r);
}

static void test_rows_that_share_a_layout_are_told_apart(void **state)
{
	struct job job = {"virtual", &narrow, NULL};
	struct result r;
	struct cell *c;
	char *text;

	fixture_empty(&r);
	c = fixture_cell(&r, "raid5", "write", "virtual", 200);
	snprintf(c->state, sizeof(c->state), "degraded");
	cell_note(c, VERDICT_DEGRADED, "1 of 8 disks was missing");
	fixture_cell(&r, "raid5", "write", "virtual", 300);
	job.result = &r;
	text = fixture_print(print_table, &job);
	assert_non_null(strstr(text, "raid5 healthy"));
	assert_non_null(strstr(text, "raid5 degraded"));
	assert_non_null(strstr(text, "200.0*"));
	free(text);
	result_release(&r);
}

static void test_names_cannot_steer_the_terminal(void **state)
{
	struct job job = {"virtual", &narrow, NULL};
	struct result r;
	struct cell *c;
	char *text;

	fixture_empty(&r);
	c = fixture_cell(&r, "raid5", "write", "virtual", 300);
	snprintf(c->disks, sizeof(c->disks), "8x \033[31mred\a");
	snprintf(c->layout, sizeof(c->layout), "ra\033[2Jid5");
	cell_note(c, VERDICT_FAILED, "bad \033]0;title\a name");
	job.result = &r;
	text = fixture_print(print_table, &job);
	assert_null(strchr(text, '\033'));
	assert_null(strchr(text, '\a'));
	free(text);
	result_release(&r);
}

static int print_markdown(FILE *out, void *arg)
{
	return report_markdown(&fixed, out, NULL);
}

static int print_csv(FILE *out, void *arg)
{
	return report_csv(arg, out, NULL);
}

static void test_markdown(void **state)
{
	char *text = fixture_print(print_markdown, NULL);

	fixture_golden("result.md", text);
	free(text);
}

static void test_csv(void **state)
{
	char *text = fixture_print(print_csv, &fixed);

	fixture_golden("result.csv", text);
	free(text);
}

static void test_csv_quotes_and_leaves_empty(void **state)
{
	struct result r;
	struct cell *c;
	char *text;

	fixture_empty(&r);
	c = fixture_cell(&r, "raid5", "write", "virtual", 300);
	c->mb_per_s = NAN;
	cell_note(c, VERDICT_FAILED, "said \"no\", twice");
	text = fixture_print(print_csv, &r);
	assert_non_null(strstr(text, "\"said \"\"no\"\", twice\""));
	assert_non_null(strstr(text, "\"A CPU, 2.0 GHz\""));
	assert_null(strstr(text, "nan"));
	free(text);
	result_release(&r);
}

static int set_up(void **state)
{
	setlocale(LC_CTYPE, "C.UTF-8");
	fixture_compare(&fixed);
	return 0;
}

static int tear_down(void **state)
{
	result_release(&fixed);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table_80),
		cmocka_unit_test(test_table_160),
		cmocka_unit_test(test_table_real),
		cmocka_unit_test(test_table_tiny_is_cut_not_clipped),
		cmocka_unit_test(test_colour_only_when_asked),
		cmocka_unit_test(test_bars),
		cmocka_unit_test(test_prediction),
		cmocka_unit_test(test_cells),
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_large_numbers),
		cmocka_unit_test(test_capacity_in_both_units),
		cmocka_unit_test(test_small_disks_are_told_in_gigabytes),
		cmocka_unit_test(test_price_and_link),
		cmocka_unit_test(test_rows_that_share_a_layout_are_told_apart),
		cmocka_unit_test(test_names_cannot_steer_the_terminal),
		cmocka_unit_test(test_markdown),
		cmocka_unit_test(test_csv),
		cmocka_unit_test(test_csv_quotes_and_leaves_empty),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
