/* The trace holds one line a request, can be read while it grows, and touches nothing that is no trace. */
#include "testing.h"

#include <sys/stat.h>

#define HEADER "op\toffset_bytes\tlength_bytes\tstatus\tsubmit_ns\tdone_ns\n"

static char folder[64], path[128];
static struct error err;
static uint8_t *buffer;

static int setup(void **state)
{
	error_clear(&err);
	folder_make(folder, "/tmp");
	snprintf(path, sizeof path, "%s/trace", folder);
	buffer = aligned(64 * KiB);
	return 0;
}

static int teardown(void **state)
{
	folder_remove(folder);
	free(buffer);
	return 0;
}

static struct disk *open_traced(const char *before, const char *behind)
{
	char word[256];
	snprintf(word, sizeof word, "%s+trace=%s%s", before, path, behind);
	return open_word(word, NULL);
}

static char *slurp(const char *from)
{
	FILE *f = fopen(from, "r");
	char *text = calloc(1, 1 << 20);
	assert_non_null(f);
	assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
	fclose(f);
	return text;
}

static int do_some(void *arg)
{
	struct disk *d = open_traced("mem:1MiB+fault=eio,offset=512KiB", "");
	assert_int_equal(disk_write(d, 0, buffer, 64 * KiB, NULL), 0);
	assert_int_equal(disk_read(d, 4096, buffer, 4096, NULL), 0);
	assert_int_equal(disk_flush(d, NULL), 0);
	assert_int_equal(disk_read(d, 512 * KiB, buffer, 512, NULL), ERR_IO);
	assert_int_equal(disk_discard(d, 0, 4096, NULL), 0);
	assert_int_equal(disk_read(d, 2 * MiB, buffer, 512, NULL), ERR_USAGE); /* checked before it gets there */
	disk_close(d);
	return 0;
}

static void check_some(void)
{
	static const char *const lines[] = {"write\t0\t65536\tok\t", "read\t4096\t4096\tok\t", "flush\t0\t0\tok\t",
		"read\t524288\t512\tERR_IO\t", "discard\t0\t4096\tok\t"};
	char *text = slurp(path), *p = text;
	assert_int_equal(strncmp(p, HEADER, strlen(HEADER)), 0);
	for (size_t i = 0; i < array_count(lines); i++) {
		unsigned long long submit_ns, done_ns;
		p = strchr(p, '\n') + 1;
		assert_int_equal(strncmp(p, lines[i], strlen(lines[i])), 0);
		assert_int_equal(sscanf(p + strlen(lines[i]), "%llu\t%llu\n", &submit_ns, &done_ns), 2);
		assert_true(submit_ns <= done_ns);
	}
	assert_string_equal(strchr(p, '\n'), "\n");
	free(text);
}

static void test_one_line_a_request(void **state)
{
	do_some(NULL);
	check_some();
	struct os_simulation s;
	os_simulation_init(&s, 4);
	assert_ok(os_simulate(&s, do_some, NULL, &err), &err); /* over the older trace */
	check_some();
}

static void test_can_be_read_while_it_grows(void **state)
{
	struct disk *d = open_traced("mem:1MiB", "");
	struct stat st;
	for (unsigned i = 0; i < 5000; i++)
		assert_int_equal(disk_read(d, 0, buffer, 512, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > 64 * KiB);
	char *text = slurp(path);
	assert_int_equal(text[strlen(text) - 1], '\n');
	free(text);
	disk_close(d);
	text = slurp(path);
	unsigned lines = 0;
	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	assert_int_equal(lines, 5001);
	free(text);
}

static void test_late_requests_are_traced(void **state)
{
	struct disk *d = open_traced("mem:1MiB+fault=slow,ms=5", "");
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(disk_read(d, 0, buffer, 512, NULL), 0);
	disk_close(d);
	char *text = slurp(path);
	unsigned long long submit_ns, done_ns;
	assert_int_equal(sscanf(strchr(text, '\n') + 1, "read\t0\t512\tok\t%llu\t%llu", &submit_ns, &done_ns), 2);
	assert_true(done_ns - submit_ns >= 5000000);
	free(text);
}

static void test_each_repeat_has_its_file(void **state)
{
	struct disk_specs specs = {0};
	char word[256], second[160];
	snprintf(word, sizeof word, "mem:1MiB+trace=%s*2", path);
	assert_ok(disk_specs_add(&specs, word, &err), &err);
	for (size_t i = 0; i < 2; i++) {
		struct disk *d;
		assert_ok(disk_open(&specs.items[i], NULL, &d, &err), &err);
		disk_close(d);
	}
	snprintf(second, sizeof second, "%s.1", path);
	assert_int_equal(access(path, F_OK), 0);
	assert_int_equal(access(second, F_OK), 0);
	disk_specs_release(&specs);
}

static void assert_refused(const char *target, int code, const char *says)
{
	struct disk_specs specs = {0};
	struct disk *d;
	char word[256];
	snprintf(word, sizeof word, "mem:1MiB+trace=%s", target);
	error_clear(&err);
	assert_ok(disk_specs_add(&specs, word, &err), &err);
	assert_int_equal(disk_open(&specs.items[0], NULL, &d, &err), code);
	if (!strstr(err.text, says))
		fail_msg("%s: %s", target, err.text);
	disk_specs_release(&specs);
	error_clear(&err);
}

static void test_bad_targets_are_refused(void **state)
{
	char other[128];
	assert_refused("/nowhere/at/all", ERR_NOT_FOUND, "cannot be written");
	assert_refused("/dev/null", ERR_REFUSED, "not a regular file");
	assert_refused(folder, ERR_USAGE, "directory");
	snprintf(other, sizeof other, "%s/letter", folder);
	file_make(other, 100, false);
	assert_refused(other, ERR_REFUSED, "is not a trace");
	struct stat st;
	assert_int_equal(stat(other, &st), 0);
	assert_int_equal(st.st_size, 100);
	struct disk *d = open_traced("mem:1MiB", "");
	assert_refused(path, ERR_BUSY, "already");
	disk_close(d);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_one_line_a_request),
		T(test_can_be_read_while_it_grows),
		T(test_late_requests_are_traced),
		T(test_each_repeat_has_its_file),
		T(test_bad_targets_are_refused),
	};
	return cmocka_run_group_tests_name("disk trace", tests, NULL, NULL);
}
