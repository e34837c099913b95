/* Timelines, and the rules on windows, on figures worked out by hand. */
#include "../../src/bench/internal.h"
#include "testing.h"

static struct timeline timeline;

static void an_operation_is_spread_over_its_time(void **state)
{
	double rates[4], positions[4];

	timeline_init(&timeline);
	timeline_add(&timeline, 0, 40 * MS, 4000000, 0.5);
	timeline_windows(&timeline, 0, 40 * MS, 40 * MS, 4, rates, positions);
	for (unsigned i = 0; i < 4; i++) {
		assert_near(rates[i], 100, 0.001);
		assert_near(positions[i], 0.5, 0.001);
	}
	timeline_windows(&timeline, 0, 80 * MS, 80 * MS, 4, rates, positions);
	assert_near(rates[1], 100, 0.001);
	assert_true(fabs(rates[2]) < 0.1 && fabs(rates[3]) < 0.1);
}

static void widths_double_and_bytes_stay(void **state)
{
	static struct timeline other;
	double rates[2], positions[2];

	timeline_init(&timeline);
	timeline_init(&other);
	for (unsigned i = 0; i < 1000; i++)
		timeline_add(&timeline, i * 10 * MS, (i + 1) * 10 * MS, 1000000, 0);
	timeline_add(&other, 0, MS, 500000, 0);
	timeline_merge(&timeline, &other);
	timeline_windows(&timeline, 0, 10 * SECOND, 10 * SECOND, 2, rates, positions);
	assert_near(rates[0], 100.1, 0.001);
	assert_near(rates[1], 100.0, 0.001);
	timeline_merge(&other, &timeline);
	timeline_windows(&other, 0, 10 * SECOND, 10 * SECOND, 2, rates, positions);
	assert_near(rates[0], 100.2, 0.001);
}

static void the_snia_rule_at_its_edges(void **state)
{
	struct steady s;

	/* range 20 of mean 100, no slope: 90 110 100 110 90 */
	steady_judge((double[]){500, 90, 110, 100, 110, 90}, 6, &s);
	assert_near(s.range, 0.20, 1e-9);
	assert_true(fabs(s.slope) < 1e-9);
	assert_true(s.steady);
	steady_judge((double[]){89, 110, 100, 110, 91}, 5, &s);
	assert_false(s.steady);
	/* slope 2.5 a step over four steps: 10 % */
	steady_judge((double[]){95, 97.5, 100, 102.5, 105}, 5, &s);
	assert_near(s.slope, 0.10, 1e-9);
	assert_true(s.range <= 0.101);
	assert_true(s.steady || s.slope > 0.1); /* the edge itself, within rounding */
	steady_judge((double[]){94, 97, 100, 103, 106}, 5, &s);
	assert_false(s.steady);
	steady_judge((double[]){106, 103, 100, 97, 94}, 5, &s);
	assert_false(s.steady);
	steady_judge((double[]){7}, 1, &s);
	assert_true(s.steady);
}

static void short_windows_are_judged_together(void **state)
{
	double rounds[STEADY_ROUNDS];
	double v[30];
	struct steady s;

	for (unsigned i = 0; i < 30; i++)
		v[i] = i % 2 ? 80 : 120; /* a ripple of windows that are too short */
	assert_int_equal(steady_rounds(v, 30, rounds), 6);
	assert_near(rounds[0], 104, 1e-9);
	assert_near(rounds[1], 96, 1e-9);
	steady_judge(rounds, 6, &s);
	assert_true(s.steady);
	assert_int_equal(steady_rounds(v, 9, rounds), 6);
	assert_near(rounds[0], (120 + 0.5 * 80) / 1.5, 1e-9);
	assert_near(rounds[1], (0.5 * 80 + 120) / 1.5, 1e-9);
	assert_int_equal(steady_rounds(v, 3, rounds), 3);
	assert_near(rounds[2], 120, 1e-9);
}

static void one_step_is_found_and_sized(void **state)
{
	struct steady s;

	steady_step((double[]){100, 99, 101, 5, 5, 5.1, 4.9, 5, 5, 5}, 10, 1, &s);
	assert_true(s.step);
	assert_near(s.burst, 100, 0.001);
	assert_near(s.sustained, 5, 0.001);
	assert_near(s.at, 0.3, 0.001);
	steady_step((double[]){100, 99, 101, 60, 60, 60, 61, 59, 60, 60}, 10, 1, &s);
	assert_false(s.step);
	steady_step((double[]){5, 5, 5, 5, 100, 100, 100, 100}, 8, 1, &s); /* faster later is no decay */
	assert_false(s.step);
	/* the last of thirty windows says nothing of what is sustained */
	double v[30];
	for (unsigned i = 0; i < 30; i++)
		v[i] = i < 29 ? 100 : 1;
	steady_step(v, 30, 1, &s);
	assert_false(s.step);
}

static void zones_are_taken_out_but_not_decay(void **state)
{
	double rates[10], positions[10];
	struct steady s;

	for (unsigned i = 0; i < 10; i++) {
		positions[i] = (i + 0.5) / 10;
		rates[i] = 55 * (1 - 0.5 * positions[i]);
	}
	steady_judge(rates, 10, &s);
	assert_false(s.steady);
	steady_flatten(rates, positions, 10);
	steady_judge(rates, 10, &s);
	assert_true(s.steady);
	assert_true(s.range < 0.001);
	/* A fall to a tenth is more than zones explain. */
	for (unsigned i = 0; i < 10; i++)
		rates[i] = 100 * (1 - 0.9 * positions[i]);
	steady_flatten(rates, positions, 10);
	steady_judge(rates, 10, &s);
	assert_false(s.steady);
	/* Nor do they explain a fall within a small part of the disk. */
	for (unsigned i = 0; i < 10; i++) {
		positions[i] = 0.01 * i;
		rates[i] = 100 - 5 * i;
	}
	steady_flatten(rates, positions, 10);
	steady_judge(rates, 10, &s);
	assert_false(s.steady);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_operation_is_spread_over_its_time),
		cmocka_unit_test(widths_double_and_bytes_stay),
		cmocka_unit_test(the_snia_rule_at_its_edges),
		cmocka_unit_test(short_windows_are_judged_together),
		cmocka_unit_test(one_step_is_found_and_sized),
		cmocka_unit_test(zones_are_taken_out_but_not_decay),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
