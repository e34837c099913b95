/* Targets on the real clock: files, directories, null:, cpu:, and what the bench says of itself. Short phases. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "../../src/bench/internal.h"
#include "testing.h"

static char folder[64];

static int make_folder(void **state)
{
	snprintf(folder, sizeof(folder), "/tmp/t_bench_target_XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	return rmdir(folder);
}

static unsigned files_in(const char *path)
{
	unsigned count = 0;
	DIR *d = opendir(path);

	assert_non_null(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		count += e->d_name[0] != '.' || strlen(e->d_name) > 2;
	closedir(d);
	return count;
}

static struct target *open_path(const char *path, uint64_t size_bytes, bool direct, bool destroy)
{
	struct target *t = NULL;
	struct error err = ERROR_INIT;
	const struct target_path_options o = {.size_bytes = size_bytes, .direct = direct, .destroy = destroy};

	assert_ok(target_open_path(path, &o, &t, &err), &err);
	return t;
}

static int refusal(const char *path, uint64_t size_bytes, bool destroy, char text[ERROR_TEXT_BYTES])
{
	struct target *t = NULL;
	struct error err = ERROR_INIT;
	const struct target_path_options o = {.size_bytes = size_bytes, .direct = true, .destroy = destroy};
	int status = target_open_path(path, &o, &t, &err);

	target_close(t);
	snprintf(text, ERROR_TEXT_BYTES, "%s", err.text);
	return status;
}

static void a_directory_gets_a_file_and_keeps_none(void **state)
{
	struct workload w = sequential(0, MiB, 16 * MiB);
	struct target *t = open_path(folder, 16 * MiB, true, false);

	assert_string_equal(t->ops->kind, "directory");
	assert_string_equal(t->road, "mount");
	assert_int_equal(t->size_bytes, 16 * MiB);
	assert_int_equal(files_in(folder), 0); /* unlinked already: nothing is left even after kill -9 */
	struct cell c = run_on(t, &w, NULL);
	assert_not_noted(&c, VERDICT_FAILED);
	assert_int_equal(c.logical_bytes, 16 * MiB);
	w.read_percent = 100;
	c = run_on(t, &w, NULL);
	assert_not_noted(&c, VERDICT_FAILED);
	target_close(t);
	assert_int_equal(files_in(folder), 0);
}

static void the_page_cache_is_a_cache(void **state)
{
	struct workload w = sequential(0, MiB, 16 * MiB);
	struct target *t = open_path(folder, 16 * MiB, false, false);

	assert_true(t->cache_bytes > 32 * MiB && !t->direct_asked && !t->ops->disk);
	run_on(t, &w, NULL);
	w.read_percent = 100;
	w.minimum_ns = 600 * MS;
	struct cell c = run_on(t, &w, NULL);
	assert_verdict(&c, VERDICT_CACHED);
	target_close(t);
}

static void tmpfs_takes_the_flag_and_serves_from_memory(void **state)
{
	struct statfs fs;
	struct workload w = sequential(0, MiB, 16 * MiB);

	if (statfs("/dev/shm", &fs) != 0 || fs.f_type != 0x01021994 || access("/dev/shm", W_OK) != 0) {
		print_message("SKIP: tmpfs: /dev/shm is none\n");
		skip();
	}
	struct target *t = open_path("/dev/shm", 16 * MiB, true, false);
	assert_true(t->direct_asked && !t->direct_effective);
	w.minimum_ns = 600 * MS;
	struct cell c = run_on(t, &w, NULL);
	assert_verdict(&c, VERDICT_CACHED);
	assert_non_null(strstr(c.notes[0].reason, "direct I/O is not in effect"));
	assert_null(t->bare);
	target_close(t);
}

/* Past the cache, whichever road the target takes; and none where everything comes from memory. */
static void a_file_is_its_own_limit(void **state)
{
	struct workload w = sequential(0, MiB, 16 * MiB);
	struct error err = ERROR_INIT;
	struct bench_limit limit;

	w.duration_ns = 100 * MS;
	for (unsigned direct = 0; direct < 2; direct++) {
		struct target *t = open_path(folder, 16 * MiB, direct, false);
		assert_true(!t->bare == !(direct ? t->direct_effective : t->bare != NULL));
		if (t->bare) {
			for (w.read_percent = 0; w.read_percent <= 100; w.read_percent += 100) {
				assert_ok(bench_limit_target(t, &w, &limit, &err), &err);
				assert_true(limit.mb_per_s > 0 && limit.alone_mb_per_s >= limit.mb_per_s);
				assert_true(limit.model_mb_per_s == limit.mb_per_s);
			}
		} else {
			assert_int_equal(bench_limit_target(t, &w, &limit, &err), ERR_UNSUPPORTED);
		}
		target_close(t);
	}
	assert_int_equal(files_in(folder), 0);
	struct target *null = open_path("null:", 0, true, false);
	assert_int_equal(bench_limit_target(null, &w, &limit, &err), ERR_UNSUPPORTED);
	target_close(null);
}

static void sum_of_file(const char *path, uint64_t *ret)
{
	static uint8_t bytes[4 * MiB];
	int fd = open(path, O_RDONLY);

	assert_int_equal(read(fd, bytes, sizeof(bytes)), (ssize_t)sizeof(bytes));
	close(fd);
	*ret = checksum_xxh3(bytes, sizeof(bytes));
}

static void a_file_of_others_is_only_read(void **state)
{
	char path[128];
	static uint8_t bytes[4 * MiB];
	struct workload w = sequential(0, MiB, 4 * MiB);
	uint64_t before, after;

	snprintf(path, sizeof(path), "%s/file", folder);
	memset(bytes, 7, sizeof(bytes));
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, bytes, sizeof(bytes)), (ssize_t)sizeof(bytes));
	close(fd);
	sum_of_file(path, &before);
	struct target *t = open_path(path, 0, true, false);
	assert_int_equal(t->size_bytes, 4 * MiB);
	struct cell c = run_on(t, &w, NULL);
	assert_verdict(&c, VERDICT_FAILED);
	assert_non_null(strstr(c.notes[0].reason, path));
	assert_non_null(strstr(c.notes[0].reason, "read"));
	w.read_percent = 100;
	c = run_on(t, &w, NULL);
	assert_not_noted(&c, VERDICT_FAILED);
	target_close(t);
	sum_of_file(path, &after);
	assert_true(before == after);

	t = open_path(path, 0, true, true); /* now it may be written, and stays */
	w.read_percent = 0;
	c = run_on(t, &w, NULL);
	assert_not_noted(&c, VERDICT_FAILED);
	target_close(t);
	sum_of_file(path, &after);
	assert_true(before != after);
	unlink(path);
}

static void what_cannot_be_a_target_is_refused(void **state)
{
	char path[128], text[ERROR_TEXT_BYTES];
	struct statvfs s;

	assert_int_equal(refusal("/dev/zero", 0, false, text), ERR_USAGE);
	snprintf(path, sizeof(path), "%s/no/such", folder);
	assert_true(refusal(path, MiB, false, text) < 0);
	snprintf(path, sizeof(path), "%s/none", folder);
	assert_int_equal(refusal(path, 0, false, text), ERR_USAGE);
	assert_int_equal(files_in(folder), 0);
	assert_int_equal(refusal("null:12q", 0, false, text), ERR_USAGE);

	snprintf(path, sizeof(path), "%s/sparse", folder);
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(ftruncate(fd, 8 * MiB), 0);
	close(fd);
	assert_int_equal(refusal(path, 0, false, text), ERR_REFUSED);
	assert_non_null(strstr(text, "holes"));
	unlink(path);

	assert_int_equal(statvfs(folder, &s), 0); /* need > free - 5 % */
	assert_int_equal(refusal(folder, (uint64_t)s.f_bavail * s.f_frsize, false, text), ERR_REFUSED);
	assert_int_equal(files_in(folder), 0);
}

/* More than one call to the system moves: 2,147,479,552 bytes at most. */
static void a_write_beyond_what_one_call_moves(void **state)
{
	if (!getenv("SPINDLE_SOAK")) {
		print_message("SKIP: 3 GiB in one write: set SPINDLE_SOAK\n");
		skip();
	}
	struct target *t = open_path(folder, 3221225472, false, false);
	struct error err = ERROR_INIT;
	uint8_t *bytes = malloc(3221225472);
	assert_non_null(bytes);
	memset(bytes, 1, 3221225472);
	assert_ok(t->ops->write(t, 0, bytes, 3221225472, &err), &err);
	assert_ok(t->ops->read(t, 3221225472 - 4096, bytes, 4096, &err), &err);
	assert_int_equal(bytes[4095], 1);
	free(bytes);
	target_close(t);
}

static void null_is_the_ceiling_of_the_bench(void **state)
{
	struct workload w = sequential(0, MiB, 1024 * MiB);
	struct target *t = open_path("null:4GiB", 0, true, false);

	assert_int_equal(t->size_bytes, 4096 * MiB);
	w.total_bytes = 0;
	w.duration_ns = 600 * MS;
	struct cell c = run_on(t, &w, NULL);
	assert_noted(&c, VERDICT_TOOL_BOUND);
	assert_true(c.mb_per_s > 5000); /* 10 GB/s are asked on an idle machine: make perf */
	w = scattered(0, 4 * KiB, 1024 * MiB, 1, 600 * MS);
	c = run_on(t, &w, NULL);
	assert_true(c.iops > 200000);
	target_close(t);
}

static void cpu_is_work_without_storage(void **state)
{
	struct workload w = sequential(0, MiB, 1024 * MiB);
	struct target *t = open_path("cpu:", 0, true, false);

	w.duration_ns = 600 * MS;
	w.total_bytes = 0;
	struct cell c = run_on(t, &w, NULL);
	assert_noted(&c, VERDICT_CPU_BOUND);
	assert_true(c.cpu_seconds > 0.01); /* most of it, when nobody else wants the CPU */
	target_close(t);
}

/* Text is made anew for each write, so memory disks are faster than the bench; a modelled disk is not. */
static void a_slow_generator_is_tool_bound(void **state)
{
	struct workload w = sequential(0, MiB, 64 * MiB);

	w.payload.kind = PAYLOAD_TEXT;
	w.minimum_ns = 600 * MS;
	struct cell c = run_word("mem:64MiB", NULL, &w, false);
	assert_noted(&c, VERDICT_TOOL_BOUND);
	assert_non_null(strstr(reason_of(&c, VERDICT_TOOL_BOUND), "with its text"));
	w.payload.kind = PAYLOAD_RANDOM;
	c = run_word("mem:64MiB+model=hdd-7200-2008", NULL, &w, false);
	assert_not_noted(&c, VERDICT_TOOL_BOUND);
	assert_not_noted(&c, VERDICT_TOO_SHORT);
	assert_string_equal(c.clock, "real");
}

static void real_disks_need_ten_seconds(void **state)
{
	struct workload w = sequential(0, MiB, 16 * MiB);
	struct target *t = open_path(folder, 16 * MiB, true, false);

	w.minimum_ns = 600 * MS;
	struct cell c = run_on(t, &w, NULL);
	assert_noted(&c, VERDICT_TOO_SHORT);
	assert_true(c.mb_per_s > 0); /* the figure is there, marked */
	target_close(t);
}

static void the_host_is_described(void **state)
{
	struct result_host h;
	struct os_cost costs[OS_STAGE_COUNT];

	bench_host(&h);
	assert_true(h.name[0] && h.kernel[0] && h.cpus > 0 && h.memory_bytes > 64 * MiB);
	assert_true(h.copy_gb_per_s > 0.2 && h.copy_gb_per_s < 1000);
	assert_true(h.checksum_gb_per_s > 0.5 && h.parity1_gb_per_s > 0.2 && h.parity2_gb_per_s > 0.1);
	uint64_t from_ns = evidence_thread_cpu_ns();
	bench_cpu_measure(costs);
	double took_s = (double)(evidence_thread_cpu_ns() - from_ns) / 1e9;
	assert_true(took_s < 1); /* about 0.1 s of CPU */
	for (unsigned i = 0; i < OS_STAGE_COUNT; i++)
		assert_true(costs[i].fixed_ns > 0 || costs[i].ns_per_kib > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_directory_gets_a_file_and_keeps_none),
		cmocka_unit_test(the_page_cache_is_a_cache),
		cmocka_unit_test(tmpfs_takes_the_flag_and_serves_from_memory),
		cmocka_unit_test(a_file_is_its_own_limit),
		cmocka_unit_test(a_file_of_others_is_only_read),
		cmocka_unit_test(what_cannot_be_a_target_is_refused),
		cmocka_unit_test(a_write_beyond_what_one_call_moves),
		cmocka_unit_test(null_is_the_ceiling_of_the_bench),
		cmocka_unit_test(cpu_is_work_without_storage),
		cmocka_unit_test(a_slow_generator_is_tool_bound),
		cmocka_unit_test(real_disks_need_ten_seconds),
		cmocka_unit_test(the_host_is_described),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
