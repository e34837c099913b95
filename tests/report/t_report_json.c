/* JSON: what is written is read back as it was, in our shape; fio's shape; and documents that lie are refused. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"

static int print_json(FILE *out, void *arg)
{
	return report_json(arg, out, NULL);
}

static int print_fio(FILE *out, void *arg)
{
	return report_fio_json(arg, out, NULL);
}

static int load_text(const char *text, struct result *ret, struct error *err)
{
	char path[] = "/tmp/t_report_json.XXXXXX";
	int fd = mkstemp(path), status;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	status = report_load(path, ret, err);
	unlink(path);
	return status;
}

static void test_round_trip(void **state)
{
	struct result r, back;
	struct error err = ERROR_INIT;
	char *first, *second;

	fixture_compare(&r);
	r.seed = UINT64_MAX - 5;
	r.price_per_disk = 79.9;
	r.interrupted = true;
	first = fixture_print(print_json, &r);
	if (load_text(first, &back, &err) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(back.cell_count, r.cell_count);
	assert_true(back.seed == r.seed);
	assert_true(back.interrupted);
	for (size_t i = 0; i < r.cell_count; i++) {
		assert_true(cell_same_key(&r.cells[i], &back.cells[i]));
		assert_int_equal(back.cells[i].verdict, r.cells[i].verdict);
		assert_int_equal(back.cells[i].note_count, r.cells[i].note_count);
	}
	second = fixture_print(print_json, &back);
	assert_string_equal(first, second);
	free(first);
	free(second);
	result_release(&r);
	result_release(&back);
}

static void test_field_names_are_the_documented_ones(void **state)
{
	static const char *const names[] = {"stack", "layout", "road", "fs", "disks", "test", "compression", "payload",
		"block_bytes", "depth", "jobs", "clock", "fill", "state", "mb_per_s", "iops", "limit_mb_per_s",
		"model_mb_per_s", "efficiency", "verdict", "verdicts", "verdict_reason", "logical_bytes",
		"device_read_bytes", "device_write_bytes", "cpu_seconds", "elapsed_s", "samples", "interval",
		"latency_ns", "usable_bytes", "failures_survived", "create_s", "ready_s", "compress_ratio"};
	static const char *const top[] = {"host", "disks", "command", "seed", "version", "schema", "cells", "skips"};
	static const char *const latency[] = {"p50", "p95", "p99", "p999", "max"};
	struct result r;
	char *text;
	json_t *root, *cell;

	fixture_compare(&r);
	text = fixture_print(print_json, &r);
	root = json_loads(text, 0, NULL);
	assert_non_null(root);
	cell = json_array_get(json_object_get(root, "cells"), 0);
	for (size_t i = 0; i < array_count(names); i++)
		if (!json_object_get(cell, names[i]))
			fail_msg("no field %s", names[i]);
	for (size_t i = 0; i < array_count(top); i++)
		if (!json_object_get(root, top[i]))
			fail_msg("no field %s", top[i]);
	for (size_t i = 0; i < array_count(latency); i++)
		assert_true(json_is_integer(json_object_get(json_object_get(cell, "latency_ns"), latency[i])));
	assert_int_equal(json_integer_value(json_object_get(root, "schema")), 1);
	json_decref(root);
	free(text);
	result_release(&r);
}

static void test_not_measured_is_null(void **state)
{
	struct result r;
	struct cell *c;
	char *text;
	json_t *root, *cell;

	fixture_empty(&r);
	c = fixture_cell(&r, "raid5", "write", "virtual", 7.6);
	c->limit_mb_per_s = INFINITY;
	c->latency_p999_ns = RESULT_NONE;
	c->samples[0] = NAN;
	text = fixture_print(print_json, &r);
	assert_non_null(strstr(text, "\"mb_per_s\": 7.6,"));
	assert_null(strstr(text, "nan"));
	root = json_loads(text, 0, NULL);
	cell = json_array_get(json_object_get(root, "cells"), 0);
	assert_true(json_is_null(json_object_get(cell, "limit_mb_per_s")));
	assert_true(json_is_null(json_object_get(json_object_get(cell, "latency_ns"), "p999")));
	assert_true(json_is_null(json_array_get(json_object_get(cell, "samples"), 0)));
	json_decref(root);
	free(text);
	result_release(&r);
}

static void test_paths_of_any_bytes(void **state)
{
	struct result r, back;
	char *text;

	fixture_empty(&r);
	snprintf(r.disks[0].name, sizeof(r.disks[0].name), "/tmp/\xff\xfe \"x\"\n");
	text = fixture_print(print_json, &r);
	assert_int_equal(load_text(text, &back, NULL), 0);
	assert_string_equal(back.disks[0].name, "/tmp/?? \"x\"\n");
	free(text);
	result_release(&r);
	result_release(&back);
}

static void test_fio_shape(void **state)
{
	struct result r;
	char *text;
	json_t *root, *jobs, *job, *write;

	fixture_empty(&r);
	fixture_cell(&r, "raid5", "write", "virtual", 102.4);
	fixture_cell(&r, "raid5", "randread-8k", "virtual", 8.192);
	fixture_cell(&r, "raid5", "mixed", "virtual", 50);
	text = fixture_print(print_fio, &r);
	root = json_loads(text, 0, NULL);
	assert_non_null(root);
	jobs = json_object_get(root, "jobs");
	assert_int_equal(json_array_size(jobs), 3);
	job = json_array_get(jobs, 0);
	write = json_object_get(job, "write");
	assert_string_equal(json_string_value(json_object_get(json_object_get(job, "job options"), "rw")), "write");
	assert_int_equal(json_integer_value(json_object_get(write, "bw_bytes")), 102400000);
	assert_int_equal(json_integer_value(json_object_get(write, "bw")), 100000);
	assert_int_equal(json_integer_value(json_object_get(write, "io_bytes")), 700000000);
	assert_int_equal(json_integer_value(json_object_get(
				 json_object_get(json_object_get(write, "clat_ns"), "percentile"), "99.000000")),
		15000000);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(job, "read"), "bw_bytes")), 0);
	job = json_array_get(jobs, 1);
	assert_true(fabs(json_number_value(json_object_get(json_object_get(job, "read"), "iops")) - 1000) < 1e-6);
	assert_non_null(json_object_get(json_array_get(jobs, 2), "mixed"));
	assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "spindle"), "schema_version")), 1);
	assert_int_equal(json_array_size(json_object_get(json_object_get(root, "spindle"), "cells")), 3);
	json_decref(root);
	free(text);
	result_release(&r);
}

static void test_lying_documents_are_refused(void **state)
{
	static const struct {
		const char *text;
		int code;
	} bad[] = {
		{"", ERR_CORRUPT},
		{"[]", ERR_CORRUPT},
		{"{}", ERR_CORRUPT},
		{"{\"schema\": 1}", ERR_CORRUPT},
		{"{\"schema\": 2, \"cells\": []}", ERR_UNSUPPORTED},
		{"{\"schema\": 1, \"cells\": [7]}", ERR_CORRUPT},
		{"{\"schema\": 1, \"cells\": [{}]}", ERR_CORRUPT},
		{"{\"schema\": 1, \"cells\": [{\"verdict\": \"FINE\"}]}", ERR_CORRUPT},
		{"{\"schema\": 1, \"cells\": [{\"verdict\": \"VALID\", \"depth\": -1}]}", ERR_CORRUPT},
		{"{\"schema\": 1, \"cells\": [{\"verdict\": \"VALID\", \"depth\": 4294967296}]}", ERR_CORRUPT},
		{"{\"schema\": 1, \"cells\": [{\"verdict\": \"VALID\", \"mb_per_s\": \"fast\"}]}", ERR_CORRUPT},
		{"{\"schema\": 1, \"cells\": [{\"verdict\": \"VALID\", \"interval\": [1, 2, 3]}]}", ERR_CORRUPT},
		{"{\"schema\": 1, \"cells\": [{\"verdict\": \"VALID\", \"samples\": 3}]}", ERR_CORRUPT},
		{"{\"schema\": 1, \"schema\": 1, \"cells\": []}", ERR_CORRUPT},
	};
	struct result r;

	for (size_t i = 0; i < array_count(bad); i++) {
		struct error err = ERROR_INIT;
		int status = load_text(bad[i].text, &r, &err);

		if (status != bad[i].code)
			fail_msg("%s: %s (%s)", bad[i].text, error_name(status), err.text);
		assert_true(err.text[0] != 0);
	}
	assert_int_equal(report_load("/nonexistent/run", &r, NULL), ERR_NOT_FOUND);
}

static void test_cut_and_changed_documents_do_not_crash(void **state)
{
	struct result r, back;
	struct random random;
	char *text;
	size_t bytes;

	fixture_empty(&r);
	fixture_cell(&r, "raid5", "write", "virtual", 102.4);
	text = fixture_print(print_json, &r);
	bytes = strlen(text);
	random_seed(&random, 1);
	for (unsigned i = 0; i < 400; i++) {
		char *copy = strdup(text);

		copy[random_below(&random, bytes)] = (char)(32 + random_below(&random, 95));
		if (i % 4 == 0)
			copy[random_below(&random, bytes)] = 0;
		if (load_text(copy, &back, NULL) == 0)
			result_release(&back);
		free(copy);
	}
	free(text);
	result_release(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_field_names_are_the_documented_ones),
		cmocka_unit_test(test_not_measured_is_null),
		cmocka_unit_test(test_paths_of_any_bytes),
		cmocka_unit_test(test_fio_shape),
		cmocka_unit_test(test_lying_documents_are_refused),
		cmocka_unit_test(test_cut_and_changed_documents_do_not_crash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
