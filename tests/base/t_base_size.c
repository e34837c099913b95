#include "base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define UNTOUCHED UINT64_C(0x1122334455667788)

static void sizes_are_read(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{"0", 0},
		{"4096", 4096},
		{"512B", 512},
		{"64KiB", 65536},
		{"64k", 65536},
		{"64K", 65536},
		{"64kB", 64000},
		{"64KB", 64000},
		{"64 KiB", 65536},
		{"1M", 1048576},
		{"1MiB", 1048576},
		{"1MB", 1000000},
		{"10g", UINT64_C(10) << 30},
		{"1.5GiB", UINT64_C(1610612736)},
		{"1.5T", UINT64_C(1649267441664)},
		{"0.5k", 512},
		{"1.23MB", 1230000},
		{"1P", UINT64_C(1) << 50},
		{"2EB", UINT64_C(2000000000000000000)},
		{"15EiB", UINT64_C(15) << 60},
		{"007", 7},
		{"18446744073709551615", UINT64_MAX},
	};
	for (size_t i = 0; i < array_count(cases); i++) {
		uint64_t bytes = UNTOUCHED;
		struct error err = ERROR_INIT;
		assert_int_equal(size_parse(cases[i].text, &bytes, &err), 0);
		assert_int_equal(err.code, 0);
		if (bytes != cases[i].bytes)
			fail_msg("%s gave %llu", cases[i].text, (unsigned long long)bytes);
	}
}

static void what_is_no_size_is_refused(void **state)
{
	static const char *const cases[] = {
		"",
		" ",
		"-1",
		"-64k",
		"+1",
		" 1",
		"1 ",
		"k",
		"KiB",
		"1.",
		"1.k",
		".5k",
		"1.5",
		"1.5B",
		"0x10",
		"1e6",
		"1kk",
		"1KIB",
		"1Kib",
		"1kb",
		"1 k B",
		"1,5k",
		"64Q",
		"1.2345678901k",
		"nan",
		"18446744073709551616",
		"16EiB",
		"16E",
		"99999999999999999999999T",
		"20000000PB",
	};
	for (size_t i = 0; i < array_count(cases); i++) {
		uint64_t bytes = UNTOUCHED;
		struct error err = ERROR_INIT;
		if (size_parse(cases[i], &bytes, &err) != ERR_USAGE)
			fail_msg("\"%s\" was taken as %llu", cases[i], (unsigned long long)bytes);
		assert_int_equal(err.code, ERR_USAGE);
		assert_non_null(strstr(err.text, cases[i]));
		assert_int_equal(bytes, UNTOUCHED);
	}
	uint64_t bytes = UNTOUCHED;
	assert_int_equal(size_parse(NULL, &bytes, NULL), ERR_USAGE);
}

static void durations_are_read(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} cases[] = {
		{"0", 0},
		{"30", UINT64_C(30000000000)},
		{"30s", UINT64_C(30000000000)},
		{"500ms", 500000000},
		{"0.2", 200000000},
		{"0.2s", 200000000},
		{"1.5ms", 1500000},
		{"10m", UINT64_C(600000000000)},
		{"10min", UINT64_C(600000000000)},
		{"2h", UINT64_C(7200000000000)},
		{"1d", UINT64_C(86400000000000)},
		{"7ns", 7},
		{"8us", 8000},
		{"8 us", 8000},
	};
	for (size_t i = 0; i < array_count(cases); i++) {
		uint64_t ns = UNTOUCHED;
		assert_int_equal(duration_parse(cases[i].text, &ns, NULL), 0);
		assert_int_equal(ns, cases[i].ns);
	}
	static const char *const refused[] = {"", "s", "-1s", "1x", "1.5ns", "300000d", "1h30m", "1e3", "inf"};
	for (size_t i = 0; i < array_count(refused); i++) {
		uint64_t ns = UNTOUCHED;
		struct error err = ERROR_INIT;
		assert_int_equal(duration_parse(refused[i], &ns, &err), ERR_USAGE);
		assert_non_null(strstr(err.text, refused[i]));
		assert_int_equal(ns, UNTOUCHED);
	}
}

static void numbers_are_read_within_their_range(void **state)
{
	uint64_t n = UNTOUCHED;
	assert_int_equal(number_parse("--jobs", "8", 1, 64, &n, NULL), 0);
	assert_int_equal(n, 8);
	assert_int_equal(number_parse("x", "18446744073709551615", 0, UINT64_MAX, &n, NULL), 0);
	assert_true(n == UINT64_MAX);
	static const char *const refused[] = {"0", "65", "", "-1", "8k", "8 ", "1.0", "18446744073709551624", "0x8"};
	for (size_t i = 0; i < array_count(refused); i++) {
		struct error err = ERROR_INIT;
		n = UNTOUCHED;
		assert_int_equal(number_parse("--jobs", refused[i], 1, 64, &n, &err), ERR_USAGE);
		assert_non_null(strstr(err.text, "--jobs"));
		assert_int_equal(n, UNTOUCHED);
	}
	double d = 7;
	assert_int_equal(real_parse("ratio", "2.5", 1, 10, &d, NULL), 0);
	assert_true(d == 2.5);
	assert_int_equal(real_parse("ratio", "-1e0", -1, 10, &d, NULL), 0);
	assert_true(d == -1);
	static const char *const unreal[] = {
		"", "nan", "inf", "0x1p3", "1e999", "2.5x", " 2", "11", "0.5", "-", "1..2"};
	for (size_t i = 0; i < array_count(unreal); i++)
		assert_int_equal(real_parse("ratio", unreal[i], 1, 10, &d, NULL), ERR_USAGE);
	assert_true(d == -1);
}

static void sizes_are_written_with_three_digits(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *binary, *decimal;
	} cases[] = {
		{0, "0 B", "0 B"},
		{1, "1 B", "1 B"},
		{999, "999 B", "999 B"},
		{1000, "1000 B", "1 kB"},
		{1023, "1023 B", "1.02 kB"},
		{1024, "1 KiB", "1.02 kB"},
		{1536, "1.5 KiB", "1.54 kB"},
		{65536, "64 KiB", "65.5 kB"},
		{999499, "976 KiB", "999 kB"},
		{999999, "977 KiB", "1 MB"},
		{1048575, "1 MiB", "1.05 MB"},
		{104857600, "100 MiB", "105 MB"},
		{UINT64_C(1023) << 20, "1023 MiB", "1.07 GB"},
		{UINT64_C(1649267441664), "1.5 TiB", "1.65 TB"},
		{UINT64_MAX, "16 EiB", "18.4 EB"},
	};
	for (size_t i = 0; i < array_count(cases); i++) {
		char text[SIZE_TEXT_BYTES];
		assert_string_equal(size_format_binary(cases[i].bytes, text), cases[i].binary);
		assert_string_equal(size_format_decimal(cases[i].bytes, text), cases[i].decimal);
	}
}

static void durations_are_written(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{0, "0 ns"},
		{999, "999 ns"},
		{1000, "1 us"},
		{8330000, "8.33 ms"},
		{999999, "1 ms"},
		{1500000000, "1.5 s"},
		{UINT64_C(59940000000), "59.9 s"},
		{UINT64_C(59990000000), "1 m 00 s"},
		{UINT64_C(125000000000), "2 m 05 s"},
		{UINT64_C(3600000000000), "1 h 00 m"},
		{UINT64_C(7380000000000), "2 h 03 m"},
		{UINT64_C(273600000000000), "3 d 04 h"},
		{UINT64_MAX, "213503 d 23 h"},
	};
	for (size_t i = 0; i < array_count(cases); i++) {
		char text[SIZE_TEXT_BYTES];
		assert_string_equal(duration_format(cases[i].ns, text), cases[i].text);
	}
}

/* What we print can be read back, and is off by no more than half of the third digit. */
static void written_sizes_read_back(void **state)
{
	struct random r;
	random_seed(&r, 1);
	for (int i = 0; i < 20000; i++) {
		uint64_t bytes = random_u64(&r) >> (5 + random_below(&r, 59)), back;
		char text[SIZE_TEXT_BYTES];
		for (int decimal = 0; decimal < 2; decimal++) {
			if (decimal)
				size_format_decimal(bytes, text);
			else
				size_format_binary(bytes, text);
			assert_int_equal(size_parse(text, &back, NULL), 0);
			uint64_t off = back > bytes ? back - bytes : bytes - back;
			if (off > bytes / 190 + 1)
				fail_msg("%llu was written as %s", (unsigned long long)bytes, text);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_read),
		cmocka_unit_test(what_is_no_size_is_refused),
		cmocka_unit_test(durations_are_read),
		cmocka_unit_test(numbers_are_read_within_their_range),
		cmocka_unit_test(sizes_are_written_with_three_digits),
		cmocka_unit_test(durations_are_written),
		cmocka_unit_test(written_sizes_read_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
