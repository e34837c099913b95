/* Against values worked out by hand, or for the interval against its definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../src/bench/internal.h"

#define CLOSE(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

static void median_and_mad(void **state)
{
	CLOSE(stats_median((double[]){3, 1, 2}, 3), 2, 0);
	CLOSE(stats_median((double[]){4, 1, 3, 2}, 4), 2.5, 0);
	CLOSE(stats_median((double[]){7}, 1), 7, 0);
	assert_true(isnan(stats_median(NULL, 0)));
	/* median 2, distances 1 1 0 0 2 4 7 → 0 0 1 1 2 4 7 */
	CLOSE(stats_mad((double[]){1, 1, 2, 2, 4, 6, 9}, 7), 1, 0);
	assert_true(isnan(stats_mad(NULL, 0)));
}

static void interval_is_seeded_and_covers(void **state)
{
	double v[9] = {98, 99, 100, 101, 102, 97, 103, 100, 100}, one[2], two[2], other[2];

	stats_interval(v, 9, 1, one);
	stats_interval(v, 9, 1, two);
	stats_interval(v, 9, 2, other);
	assert_memory_equal(one, two, sizeof(one));
	assert_true(one[0] <= 100 && one[1] >= 100 && one[0] >= 97 && one[1] <= 103 && one[0] < one[1]);
	assert_true(other[0] <= 100 && other[1] >= 100);
	stats_interval((double[]){5, 5, 5}, 3, 1, one);
	CLOSE(one[0], 5, 0);
	CLOSE(one[1], 5, 0);
	stats_interval(v, 1, 1, one);
	assert_true(isnan(one[0]) && isnan(one[1]));
}

/* Of 400 sets of 15 uniform values the interval must hold the true median about 95 times in 100. */
static void interval_coverage(void **state)
{
	struct random r;
	unsigned held = 0;

	random_seed(&r, 7);
	for (unsigned set = 0; set < 400; set++) {
		double v[15], interval[2];
		for (unsigned i = 0; i < 15; i++)
			v[i] = random_unit(&r);
		stats_interval(v, 15, set, interval);
		held += interval[0] <= 0.5 && interval[1] >= 0.5;
	}
	assert_in_range(held, 364, 396); /* 91 to 99 % */
}

/* Six normal-like values, mean ± 1.96 σ/√6 about 95 times in 100. */
static void interval_of_the_mean_covers(void **state)
{
	struct random r;
	unsigned held = 0;

	random_seed(&r, 9);
	for (unsigned set = 0; set < 400; set++) {
		double v[6], interval[2];
		for (unsigned i = 0; i < 6; i++) {
			v[i] = 0;
			for (unsigned k = 0; k < 12; k++)
				v[i] += random_unit(&r);
		}
		stats_interval_mean(v, 6, set, interval);
		held += interval[0] <= 6 && interval[1] >= 6;
	}
	assert_in_range(held, 352, 396); /* 88 to 99 %: few values know little of their own spread */
	double one[2];
	stats_interval_mean((double[]){5}, 1, 1, one);
	assert_true(isnan(one[0]));
}

static void mann_whitney_exact(void **state)
{
	/* 20 choices of 3 of 6; the two extreme ones count: 2/20. */
	CLOSE(stats_mann_whitney((double[]){1, 2, 3}, 3, (double[]){4, 5, 6}, 3), 0.1, 1e-12);
	CLOSE(stats_mann_whitney((double[]){4, 5, 6}, 3, (double[]){1, 2, 3}, 3), 0.1, 1e-12);
	/* 2/252 */
	CLOSE(stats_mann_whitney((double[]){1, 2, 3, 4, 5}, 5, (double[]){6, 7, 8, 9, 10}, 5), 2.0 / 252, 1e-12);
	/* rank sums 1+4=5 and 2+3=5: the mean itself, every choice is as extreme */
	CLOSE(stats_mann_whitney((double[]){1, 4}, 2, (double[]){2, 3}, 2), 1, 1e-12);
	CLOSE(stats_mann_whitney((double[]){5, 5}, 2, (double[]){5, 5}, 2), 1, 1e-12);
	assert_true(isnan(stats_mann_whitney(NULL, 0, (double[]){1}, 1)));
}

static void mann_whitney_normal(void **state)
{
	double a[10], b[10];

	for (int i = 0; i < 10; i++) {
		a[i] = i;
		b[i] = i + 100;
	}
	/* U = 0, mean 50, variance 100·21/12 = 175: z = 49.5/13.2288 = 3.7418; p = 0.000183 */
	CLOSE(stats_mann_whitney(a, 10, b, 10), 0.000183, 2e-6);
	for (int i = 0; i < 10; i++)
		b[i] = a[i];
	CLOSE(stats_mann_whitney(a, 10, b, 10), 1, 1e-9);
	for (int i = 0; i < 10; i++)
		a[i] = b[i] = 3;
	CLOSE(stats_mann_whitney(a, 10, b, 10), 1, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(median_and_mad),
		cmocka_unit_test(interval_is_seeded_and_covers),
		cmocka_unit_test(interval_coverage),
		cmocka_unit_test(interval_of_the_mean_covers),
		cmocka_unit_test(mann_whitney_exact),
		cmocka_unit_test(mann_whitney_normal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
