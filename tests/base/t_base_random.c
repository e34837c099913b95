#include "base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* splitmix64 from seed 1234567 is published with the generator: 6457827717110365317, 3203168211198807973, ... */
static void the_state_is_filled_by_splitmix64(void **state)
{
	struct random r;
	random_seed(&r, 1234567);
	assert_true(r.s[0] == UINT64_C(6457827717110365317));
	assert_true(r.s[1] == UINT64_C(3203168211198807973));
	assert_true(r.s[2] == UINT64_C(9817491932198370423));
	assert_true(r.s[3] == UINT64_C(4593380528125082431));
}

/* From the state 1, 2, 3, 4: the first numbers of xoshiro256**, as other implementations test them. */
static void it_is_xoshiro256_starstar(void **state)
{
	static const uint64_t expected[] = {
		UINT64_C(11520),
		UINT64_C(0),
		UINT64_C(1509978240),
		UINT64_C(1215971899390074240),
		UINT64_C(1216172134540287360),
		UINT64_C(607988272756665600),
	};
	struct random r = {{1, 2, 3, 4}};
	for (size_t i = 0; i < array_count(expected); i++)
		assert_true(random_u64(&r) == expected[i]);
}

static void same_seed_same_numbers(void **state)
{
	struct random a, b, c;
	random_seed(&a, 42);
	random_seed(&b, 42);
	random_seed(&c, 43);
	int same_as_c = 0;
	for (int i = 0; i < 1000; i++) {
		uint64_t v = random_u64(&a);
		assert_true(v == random_u64(&b));
		same_as_c += v == random_u64(&c);
	}
	assert_int_equal(same_as_c, 0);
}

/* Chi-square with bound - 1 degrees of freedom: above the 99.99 % point about once in 10000 seeds; ours is fixed. */
static void below_is_uniform(void **state)
{
	static const struct {
		uint64_t bound;
		double limit;
	} cases[] = {{2, 15.1}, {3, 18.4}, {7, 27.9}, {10, 33.7}};
	struct random r;
	random_seed(&r, 7);
	for (size_t k = 0; k < array_count(cases); k++) {
		uint64_t counts[10] = {0};
		const int draws = 200000;
		for (int i = 0; i < draws; i++) {
			uint64_t v = random_below(&r, cases[k].bound);
			assert_true(v < cases[k].bound);
			counts[v]++;
		}
		double chi = 0, mean = (double)draws / (double)cases[k].bound;
		for (uint64_t v = 0; v < cases[k].bound; v++)
			chi += ((double)counts[v] - mean) * ((double)counts[v] - mean) / mean;
		assert_true(chi < cases[k].limit);
	}
	assert_int_equal(random_below(&r, 1), 0);
}

/* A bound of 3/4 of the range: taking the remainder would give the lowest third of results half of all draws. */
static void below_a_huge_bound_has_no_favourites(void **state)
{
	struct random r;
	random_seed(&r, 8);
	uint64_t bound = UINT64_C(3) << 62;
	int low = 0;
	const int draws = 60000;
	for (int i = 0; i < draws; i++)
		low += random_below(&r, bound) < bound / 3;
	assert_in_range(low, draws / 3 - 600, draws / 3 + 600);
}

static void unit_is_in_range(void **state)
{
	struct random r;
	random_seed(&r, 9);
	double sum = 0;
	for (int i = 0; i < 100000; i++) {
		double v = random_unit(&r);
		assert_true(v >= 0 && v < 1);
		sum += v;
	}
	assert_true(sum > 49500 && sum < 50500);
}

static void fill_covers_every_length_and_no_more(void **state)
{
	for (size_t length = 0; length <= 40; length++) {
		uint8_t buffer[48], again[48];
		struct random r;
		memset(buffer, 0xa5, sizeof(buffer));
		random_seed(&r, length);
		random_fill(&r, buffer, length);
		random_seed(&r, length);
		random_fill(&r, again, length);
		assert_memory_equal(buffer, again, length);
		for (size_t i = length; i < sizeof(buffer); i++)
			assert_int_equal(buffer[i], 0xa5);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_state_is_filled_by_splitmix64),
		cmocka_unit_test(it_is_xoshiro256_starstar),
		cmocka_unit_test(same_seed_same_numbers),
		cmocka_unit_test(below_is_uniform),
		cmocka_unit_test(below_a_huge_bound_has_no_favourites),
		cmocka_unit_test(unit_is_in_range),
		cmocka_unit_test(fill_covers_every_length_and_no_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
