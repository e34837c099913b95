#include "testing.h"

static void the_ten_are_what_iozone_does(void **state)
{
	static const struct {
		const char *test;
		uint64_t block;
		unsigned depth, read;
		bool random, cold, reread;
	} wanted[] = {
		{"write", 16 * MiB, 1, 0, false, true, false},
		{"rewrite", 16 * MiB, 1, 0, false, true, false},
		{"read", 16 * MiB, 1, 100, false, true, false},
		{"reread", 16 * MiB, 1, 100, false, false, true},
		{"randread", 16 * MiB, 1, 100, true, true, false},
		{"randwrite", 16 * MiB, 1, 0, true, true, false},
		{"randread-128k", 128 * KiB, 32, 100, true, true, false},
		{"randwrite-128k", 128 * KiB, 32, 0, true, true, false},
		{"randread-8k", 8 * KiB, 32, 100, true, true, false},
		{"randwrite-8k", 8 * KiB, 32, 0, true, true, false},
	};
	struct error err = ERROR_INIT;
	unsigned count = 0;

	for (; workload_compare_tests[count]; count++) {
		struct workload w;
		assert_string_equal(workload_compare_tests[count], wanted[count].test);
		assert_ok(workload_classic(wanted[count].test, 8, 512 * MiB, &w, &err), &err);
		assert_string_equal(w.test, wanted[count].test);
		assert_int_equal(w.block_bytes, wanted[count].block);
		assert_int_equal(w.depth, wanted[count].depth);
		assert_int_equal(w.jobs, 1);
		assert_int_equal(w.read_percent, wanted[count].read);
		assert_int_equal(w.random, wanted[count].random);
		assert_int_equal(w.cold, wanted[count].cold);
		assert_int_equal(w.reread, wanted[count].reread);
		assert_int_equal(w.span_bytes, 512 * MiB);
		assert_true(w.final_flush);
		assert_int_equal(w.payload.kind, PAYLOAD_RANDOM);
		assert_int_equal(w.repeats_max, 10);
	}
	assert_int_equal(count, array_count(wanted));
}

static void wrong_names_and_small_spans(void **state)
{
	struct workload w, *list = NULL;
	struct error err = ERROR_INIT;
	size_t count;
	char scaled[200];

	assert_int_equal(workload_classic("writes", 1, MiB, &w, &err), ERR_NOT_FOUND);
	error_clear(&err);
	assert_int_equal(workload_classic("write", 1, MiB, &w, &err), ERR_TOO_SMALL);
	error_clear(&err);
	assert_int_equal(workload_preset("tar", 1, MiB, &list, &count, scaled, &err), ERR_NOT_FOUND);
	error_clear(&err);
	assert_int_equal(workload_preset("dd", 1, MiB, &list, &count, scaled, &err), ERR_TOO_SMALL);
	assert_null(list);
}

static const struct workload *find(const struct workload *list, size_t count, const char *test)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(list[i].test, test))
			return &list[i];
	fail_msg("no %s", test);
	return NULL;
}

static void presets_keep_the_parameters_of_their_tools(void **state)
{
	struct workload *list;
	struct error err = ERROR_INIT;
	size_t count;
	char scaled[200];
	const struct workload *w;
	uint64_t large = 1ull << 40;

	assert_ok(workload_preset("dd", 4, large, &list, &count, scaled, &err), &err);
	assert_string_equal(scaled, "");
	w = find(list, count, "dd-2m-write");
	assert_true(w->block_bytes == 2 * MiB && w->total_bytes == 20000 * MiB && w->depth == 1 && w->final_flush);
	w = find(list, count, "dd-8k-read");
	assert_true(w->block_bytes == 8 * KiB && w->total_bytes == 8192 * MiB && w->read_percent == 100 && w->cold);
	w = find(list, count, "dd-1m-fsync");
	assert_true(w->block_bytes == MiB && w->total_bytes == 4000 * MiB);
	free(list);

	assert_ok(workload_preset("iozone", 4, large, &list, &count, scaled, &err), &err);
	assert_int_equal(count, 6);
	assert_int_equal(find(list, count, "reread")->total_bytes, 8192 * MiB);
	free(list);

	assert_ok(workload_preset("bonnie", 4, large, &list, &count, scaled, &err), &err);
	w = find(list, count, "bonnie-rewrite");
	assert_true(w->read_then_write && w->block_bytes == 8 * KiB && w->total_bytes == 81920 * MiB);
	w = find(list, count, "bonnie-seeks");
	assert_true(w->random && w->jobs == 5 && w->total_bytes == 8192 * 8 * KiB && w->repeats_max == 6);
	free(list);

	assert_ok(workload_preset("vm", 4, large, &list, &count, scaled, &err), &err);
	w = find(list, count, "vm");
	assert_true(
		w->block_bytes == 4 * KiB && w->read_percent == 67 && w->random && w->depth == 16 && w->duration_ns);
	free(list);

	assert_ok(workload_preset("database", 4, large, &list, &count, scaled, &err), &err);
	w = find(list, count, "database-log");
	assert_true(!w->random && w->flush_every_bytes == 8 * KiB && w->depth == 1);
	assert_true(find(list, count, "database-data")->block_bytes == 8 * KiB);
	free(list);

	assert_ok(workload_preset("nfs", 4, large, &list, &count, scaled, &err), &err);
	assert_true(find(list, count, "nfs-write")->flush_every_bytes == 32 * KiB);
	free(list);
}

static void what_is_scaled_is_said(void **state)
{
	struct workload *list;
	struct error err = ERROR_INIT;
	size_t count;
	char scaled[200];

	for (const char *const *p = workload_presets; *p; p++) {
		assert_ok(workload_preset(*p, 3, 100 * MiB + 12345 * 512, &list, &count, scaled, &err), &err);
		for (size_t i = 0; i < count; i++) {
			assert_true(list[i].span_bytes <= 100 * MiB + 12345 * 512);
			assert_true(list[i].total_bytes > 0 || list[i].duration_ns > 0);
			assert_true(list[i].test[0]);
		}
		free(list);
	}
	assert_ok(workload_preset("iozone", 3, 512 * MiB, &list, &count, scaled, &err), &err);
	assert_non_null(strstr(scaled, "write 8 GiB scaled to 512 MiB"));
	assert_int_equal(list[0].total_bytes, 512 * MiB);
	free(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_ten_are_what_iozone_does),
		cmocka_unit_test(wrong_names_and_small_spans),
		cmocka_unit_test(presets_keep_the_parameters_of_their_tools),
		cmocka_unit_test(what_is_scaled_is_said),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
