/* The DISK grammar: what it accepts, and one clear sentence for each mistake. */
#include "testing.h"

static void test_good_words(void **state)
{
	static const struct {
		const char *word;
		size_t count;
		const char *path, *name;
		uint64_t bytes;
		unsigned wrappers;
	} cases[] = {
		{"mem:64MiB", 1, NULL, "mem:64MiB#0", 64 * MiB, 0},
		{"mem:64MiB*8", 8, NULL, "mem:64MiB#0", 64 * MiB, 0},
		{"mem:64k*256", 256, NULL, "mem:64k#0", 64 * KiB, 0},
		{"mem:1MB", 1, NULL, "mem:1MB#0", 1000000 / 512 * 512 == 1000000 ? 1000000 : 0, 0},
		{"mem:64MiB+fault=eio", 1, NULL, "mem:64MiB#0", 64 * MiB, 1},
		{"mem:64MiB+fault=eio,op=read,nth=5,count=2+fault=slow,ms=0*3", 3, NULL, "mem:64MiB#0", 64 * MiB, 2},
		{"mem:64MiB+trace=/tmp/c++/x", 1, NULL, "mem:64MiB#0", 64 * MiB, 1},
		{"/dev/sdb", 1, "/dev/sdb", "/dev/sdb", 0, 0},
		{"/dev/sdb*1", 1, "/dev/sdb", "/dev/sdb", 0, 0},
		{"./disk", 1, "./disk", "./disk", 0, 0},
		{"/tmp/c++/disk+1", 1, "/tmp/c++/disk+1", "/tmp/c++/disk+1", 0, 0},
		{"/dev/sd*", 1, "/dev/sd*", "/dev/sd*", 0, 0},
		{"/dev/sdb+fault=vanish,nth=100+trace=t", 1, "/dev/sdb", "/dev/sdb", 0, 2},
		{"/dev/sdb+fault=short,offset=1GiB", 1, "/dev/sdb", "/dev/sdb", 0, 1},
	};
	for (size_t i = 0; i < array_count(cases); i++) {
		struct disk_specs specs = {0};
		struct error err = ERROR_INIT;
		if (cases[i].bytes == 0 && !cases[i].path)
			continue;
		assert_ok(disk_specs_add(&specs, cases[i].word, &err), &err);
		assert_int_equal(specs.count, cases[i].count);
		const struct disk_spec *s = &specs.items[0];
		assert_string_equal(s->name, cases[i].name);
		if (cases[i].path)
			assert_string_equal(s->path, cases[i].path);
		else
			assert_null(s->path);
		assert_int_equal(s->memory_bytes, cases[i].bytes);
		assert_int_equal(s->wrapper_count, cases[i].wrappers);
		for (size_t k = 0; k < specs.count; k++) {
			assert_int_equal(specs.items[k].index, k);
			assert_null(
				strchr(specs.items[k].text, '*') && !cases[i].path ? "repeat left in the text" : NULL);
		}
		disk_specs_release(&specs);
		assert_int_equal(specs.count, 0);
	}
}

static void test_names_are_unique_in_a_list(void **state)
{
	struct disk_specs specs = {0};
	struct error err = ERROR_INIT;
	assert_ok(disk_specs_add(&specs, "mem:1MiB*3", &err), &err);
	assert_ok(disk_specs_add(&specs, "/dev/sdb", &err), &err);
	assert_ok(disk_specs_add(&specs, "mem:1MiB", &err), &err);
	assert_ok(disk_specs_add(&specs, "mem:1MiB*3", &err), &err);
	assert_int_equal(specs.count, 8);
	for (size_t i = 0; i < specs.count; i++)
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(specs.items[i].name, specs.items[k].name);
	disk_specs_release(&specs);
}

static void test_each_mistake_has_its_sentence(void **state)
{
	static const struct {
		const char *word, *says;
	} cases[] = {
		{"", "names no disk"},
		{"+fault=eio", "names no disk"},
		{"mem:", "lacks its size"},
		{"mem:0", "no bytes"},
		{"mem:1000", "whole sectors"},
		{"mem:big", "not a size"},
		{"mem:-5", "not a size"},
		{"mem:99999999999999999999G", "64 bits"},
		{"mem:64MiB*0", "repeat count"},
		{"mem:64MiB*257", "repeat count"},
		{"mem:64MiB*", "'*' is no repeat count"},
		{"mem:64MiB*x", "'*x' is no repeat count"},
		{"mem:64MiB*99999999999999999999999", "repeat count"},
		{"/dev/sdb*2", "cannot be repeated"},
		{"mem:64MiB*2*3", "two repeat counts"},
		{"/dev/sdb*0*1", "two repeat counts"},
		{"mem:64MiB+", "no wrapper"},
		{"mem:64MiB+slow=3", "'+slow' is no wrapper"},
		{"mem:64MiB+model", "+model lacks its value"},
		{"mem:64MiB+fault=", "+fault lacks its value; write +fault=KIND"},
		{"mem:64MiB+trace=", "+trace lacks its value"},
		{"/dev/sdb+model", "+model lacks its value"},
		{"/dev/sdb+modle=x", "'+modle' is no wrapper"},
		{"mem:1MiB+model=no-such-drive", "no-such-drive"},
		{"mem:1MiB+fault=eoi", "there is no fault \"eoi\"; the kinds are eio"},
		{"mem:1MiB+fault=eio,nht=3", "no key \"nht\"; it takes op, nth, count"},
		{"mem:1MiB+fault=eio,nth", "nth lacks its value"},
		{"mem:1MiB+fault=eio,nth=", "nth lacks its value"},
		{"mem:1MiB+fault=eio,nth=0", "nth"},
		{"mem:1MiB+fault=eio,nth=x", "nth"},
		{"mem:1MiB+fault=eio,count=0", "count"},
		{"mem:1MiB+fault=eio,sticky=2", "sticky"},
		{"mem:1MiB+fault=eio,nth=1,nth=2", "given twice"},
		{"mem:1MiB+fault=eio,op=erase", "op=erase is not read"},
		{"mem:1MiB+fault=eio,ms=3", "no key \"ms\""},
		{"mem:1MiB+fault=rot,op=read", "no key \"op\""},
		{"mem:1MiB+fault=eio,length=4k", "begins at offset="},
		{"mem:1MiB+fault=eio,sticky=1,count=2", "count= means nothing"},
		{"mem:1MiB+fault=short", "needs offset="},
		{"mem:1MiB+fault=slow,ms=-1", "ms"},
		{"mem:1MiB+fault=slow,ms=100000000", "ms"},
		{"mem:1MiB+fault=eio,,", "no key \"\""},
		{"mem:1MiB+fault=slow+model=hdd-7200-2008", "write +model=… before"},
		{"mem:1MiB+model=hdd-7200-2008+model=hdd-7200-2008", "one model"},
		{"mem:1MiB+fault=eio+fault=eio+fault=eio+fault=eio+fault=eio+fault=eio+fault=eio",
			"more than 6 wrappers"},
	};
	struct disk_specs specs = {0};
	struct error err = ERROR_INIT;
	assert_ok(disk_specs_add(&specs, "mem:1MiB", &err), &err);
	for (size_t i = 0; i < array_count(cases); i++) {
		error_clear(&err);
		int rc = disk_specs_add(&specs, cases[i].word, &err);
		if (rc != ERR_USAGE && rc != ERR_NOT_FOUND)
			fail_msg("\"%s\" gives %s: %s", cases[i].word, error_name(rc), err.text);
		if (!strstr(err.text, cases[i].says))
			fail_msg("\"%s\" says: %s; expected in it: %s", cases[i].word, err.text, cases[i].says);
		assert_int_equal(error_exit_status(rc), 2);
		assert_int_equal(specs.count, 1); /* a refused word leaves the list alone */
	}
	char longer[1024];
	snprintf(longer, sizeof longer, "mem:1MiB+trace=%0400d", 7);
	error_clear(&err);
	assert_int_equal(disk_specs_add(&specs, longer, &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "longer than 255"));
	disk_specs_release(&specs);
}

static void test_model_shorthand(void **state)
{
	struct disk_specs specs = {0};
	struct error err = ERROR_INIT;
	assert_ok(disk_specs_add_model(&specs, "hdd-7200-2008:8", 256 * MiB, &err), &err);
	assert_int_equal(specs.count, 8);
	assert_string_equal(specs.items[7].text, "mem:256MiB+model=hdd-7200-2008");
	assert_string_equal(specs.items[7].name, "mem:256MiB#7");
	assert_string_equal(specs.items[7].wrappers[0].value, "hdd-7200-2008");
	assert_ok(disk_specs_add_model(&specs, "hdd-7200-2008", 1000448, &err), &err);
	assert_int_equal(specs.items[8].memory_bytes, 1000448);
	assert_int_equal(disk_specs_add_model(&specs, "hdd-7200-2008:0", MiB, &err), ERR_USAGE);
	error_clear(&err);
	assert_int_equal(disk_specs_add_model(&specs, "hdd-7200-2008:x", MiB, &err), ERR_USAGE);
	error_clear(&err);
	assert_int_equal(disk_specs_add_model(&specs, ":8", MiB, &err), ERR_USAGE);
	error_clear(&err);
	assert_true(disk_specs_add_model(&specs, "hdd-1842:8", MiB, &err) < 0);
	assert_non_null(strstr(err.text, "hdd-1842"));
	assert_int_equal(specs.count, 9);
	disk_specs_release(&specs);
}

/* Words made of pieces of the grammar: whatever comes, it is accepted whole or refused with a sentence. */
static void test_any_word_is_answered(void **state)
{
	static const char *const pieces[] = {"mem:", "64MiB", "+", "fault=", "eio", ",", "nth=", "1", "*", "8",
		"/dev/x", "model=", "hdd-7200-2008", "trace=", "t", "=", "op=read", "sticky=1", "\xff", " ", "short",
		"offset=", "0", "18446744073709551616"};
	struct random r;
	random_seed(&r, 5);
	for (unsigned i = 0; i < 20000; i++) {
		char word[256] = "";
		for (unsigned k = 0, n = 1 + random_below(&r, 12); k < n; k++)
			strcat(word, pieces[random_below(&r, array_count(pieces))]);
		struct disk_specs specs = {0};
		struct error err = ERROR_INIT;
		int rc = disk_specs_add(&specs, word, &err);
		assert_true(rc == 0 ? specs.count > 0 : specs.count == 0 && err.text[0] && err.code == rc);
		disk_specs_release(&specs);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_words),
		cmocka_unit_test(test_names_are_unique_in_a_list),
		cmocka_unit_test(test_each_mistake_has_its_sentence),
		cmocka_unit_test(test_model_shorthand),
		cmocka_unit_test(test_any_word_is_answered),
	};
	return cmocka_run_group_tests_name("disk grammar", tests, NULL, NULL);
}
