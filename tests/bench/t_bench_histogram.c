#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench.h"

static struct histogram *fresh(void)
{
	struct histogram *h;

	assert_int_equal(histogram_create(&h, NULL), 0);
	return h;
}

static void error_is_below_one_percent(void **state)
{
	struct random r;

	random_seed(&r, 1);
	for (unsigned i = 0; i < 2000; i++) {
		/* Every magnitude equally often, a high value beside it so that clipping to the maximum does not help.
		 */
		uint64_t v = random_u64(&r) >> random_below(&r, 64);
		struct histogram *h = fresh();
		histogram_add(h, v);
		histogram_add(h, 0);
		histogram_add(h, UINT64_MAX);
		uint64_t p = histogram_percentile(h, 50);
		double wrong = p > v ? (double)(p - v) : (double)(v - p);
		assert_true(wrong <= 0.01 * (double)v);
		assert_int_equal(histogram_max(h), UINT64_MAX);
		histogram_free(h);
	}
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void percentiles_agree_with_sorting(void **state)
{
	static uint64_t v[10000];
	static const double asked[] = {1, 50, 90, 95, 99, 99.9, 99.99, 100};
	struct random r;

	random_seed(&r, 2);
	struct histogram *h = fresh();
	for (unsigned i = 0; i < 10000; i++) {
		v[i] = 1000 + random_below(&r, 1u << random_below(&r, 30));
		histogram_add(h, v[i]);
	}
	qsort(v, 10000, sizeof(v[0]), by_number);
	for (unsigned i = 0; i < array_count(asked); i++) {
		uint64_t exact = v[(unsigned)ceil(asked[i] / 100 * 10000 - 1e-6) - 1];
		uint64_t p = histogram_percentile(h, asked[i]);
		assert_true(fabs((double)p - (double)exact) <= 0.01 * (double)exact);
	}
	histogram_free(h);
}

static void merged_equals_added(void **state)
{
	struct histogram *a = fresh(), *b = fresh(), *both = fresh();
	struct random r;

	random_seed(&r, 3);
	for (unsigned i = 0; i < 5000; i++) {
		uint64_t v = random_below(&r, 1000000);
		histogram_add(i % 3 ? a : b, v);
		histogram_add(both, v);
	}
	histogram_merge(a, b);
	assert_int_equal(histogram_count(a), 5000);
	for (double p = 0; p <= 100; p += 0.5)
		assert_int_equal(histogram_percentile(a, p), histogram_percentile(both, p));
	assert_int_equal(histogram_max(a), histogram_max(both));
	histogram_free(a);
	histogram_free(b);
	histogram_free(both);
}

static void an_empty_one_says_nothing(void **state)
{
	struct histogram *h = fresh();

	assert_int_equal(histogram_count(h), 0);
	assert_int_equal(histogram_percentile(h, 99), 0);
	histogram_add(h, 5);
	assert_int_equal(histogram_percentile(h, 0), 5);
	assert_int_equal(histogram_percentile(h, 100), 5);
	histogram_free(h);
	histogram_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(error_is_below_one_percent),
		cmocka_unit_test(percentiles_agree_with_sorting),
		cmocka_unit_test(merged_equals_added),
		cmocka_unit_test(an_empty_one_says_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
