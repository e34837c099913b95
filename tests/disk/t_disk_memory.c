/* Memory disks: what was written is read, discards give zeros, counters add up. */
#include "testing.h"

static struct error err;

static void test_reads_what_was_written(void **state)
{
	const size_t bytes = 5 * MiB;
	struct disk *d;
	error_clear(&err);
	assert_ok(disk_open_memory("m", bytes, &d, &err), &err);
	uint8_t *model = aligned(bytes), *buffer = aligned(bytes);
	struct random r;
	random_seed(&r, 11);
	for (unsigned i = 0; i < 400; i++) {
		uint64_t at = random_below(&r, bytes / 512) * 512;
		uint64_t length =
			512 + random_below(&r, min_of(bytes - at, (uint64_t)(i % 40 ? 64 * KiB : 4 * MiB)) / 512) * 512;
		length = min_of(length, bytes - at);
		if (length == 0)
			continue;
		switch (random_below(&r, 3)) {
		case 0:
			random_fill(&r, buffer, length);
			memcpy(model + at, buffer, length);
			assert_ok(disk_write(d, at, buffer, length, &err), &err);
			break;
		case 1:
			memset(model + at, 0, length);
			assert_ok(disk_discard(d, at, length, &err), &err);
			break;
		default:
			assert_ok(disk_read(d, at, buffer, length, &err), &err);
			assert_memory_equal(buffer, model + at, length);
		}
	}
	assert_ok(disk_flush(d, &err), &err);
	assert_ok(disk_read(d, 0, buffer, bytes, &err), &err);
	assert_memory_equal(buffer, model, bytes);
	disk_close(d);
	free(model);
	free(buffer);
}

static void test_scattered_buffers(void **state)
{
	struct disk *d;
	struct disk_request r;
	uint8_t *a = aligned(4096), *b = aligned(8192), *back = aligned(16384);
	error_clear(&err);
	assert_ok(disk_open_memory("m", MiB, &d, &err), &err);
	fill(a, 4096, 1);
	fill(b, 8192, 2);
	struct iovec iov[3] = {{a, 1024}, {b, 8192}, {a + 1024, 3072}};
	disk_request_init_iov(&r, DISK_WRITE, 4096, iov, 3);
	assert_int_equal(r.length_bytes, 12288);
	struct disk_queue *q = disk_queue_of_thread(&err);
	disk_queue_submit(q, d, &r);
	assert_ptr_equal(disk_queue_reap(q, UINT64_MAX), &r);
	assert_int_equal(r.status, 0);
	assert_ok(disk_read(d, 4096, back, 12288, &err), &err);
	assert_memory_equal(back, a, 1024);
	assert_memory_equal(back + 1024, b, 8192);
	assert_memory_equal(back + 9216, a + 1024, 3072);
	disk_close(d);
	free(a);
	free(b);
	free(back);
}

static void test_traits_and_counters(void **state)
{
	struct disk *d;
	struct disk_counters c;
	uint8_t *buffer = aligned(64 * KiB);
	error_clear(&err);
	assert_ok(disk_open_memory("m", MiB, &d, &err), &err);
	const struct disk_traits *t = disk_traits(d);
	assert_string_equal(t->name, "m");
	assert_string_equal(t->engine, "memory");
	assert_string_equal(t->model, "");
	assert_null(t->path);
	assert_int_equal(t->size_bytes, MiB);
	assert_int_equal(t->logical_bytes, 512);
	assert_true(t->is_memory && t->discard_zeroes && !t->needs_flush && !t->read_only);
	assert_ok(disk_write(d, 0, buffer, 64 * KiB, &err), &err);
	assert_ok(disk_write(d, 512, buffer, 512, &err), &err);
	assert_ok(disk_read(d, 4096, buffer, 4096, &err), &err);
	disk_counters(d, &c);
	assert_int_equal(c.op[DISK_WRITE].done, 2);
	assert_int_equal(c.op[DISK_WRITE].bytes, 64 * KiB + 512);
	assert_int_equal(c.op[DISK_READ].bytes, 4096);
	assert_int_equal(c.op[DISK_READ].errors, 0);
	assert_int_equal(c.unaligned_physical, 0);
	assert_true(c.busy_ns > 0);
	struct disk_load load;
	disk_load(d, &load);
	assert_int_equal(load.end_bytes, 8192);
	assert_true(load.latency_ns > 0);
	disk_close(d);
	free(buffer);
}

static void test_huge_and_impossible_sizes(void **state)
{
	struct disk *d;
	uint8_t *buffer = aligned(4096);
	error_clear(&err);
	assert_ok(disk_open_memory("huge", 1ull << 35, &d, &err), &err); /* costs nothing until it is written */
	assert_ok(disk_write(d, (1ull << 35) - 4096, buffer, 4096, &err), &err);
	disk_close(d);
	assert_int_equal(disk_open_memory("no", 1ull << 60, &d, &err), ERR_MEMORY);
	error_clear(&err);
	assert_int_equal(disk_open_memory("no", 0, &d, &err), ERR_USAGE);
	assert_int_equal(disk_open_memory("no", 1000, &d, NULL), ERR_USAGE);
	free(buffer);
}

/* What a request costs beyond the bytes; wide enough for a busy machine. */
static void test_depth_one_is_cheap(void **state)
{
	const unsigned rounds = 20000;
	struct disk *d;
	struct disk_queue *q;
	uint8_t *buffer = aligned(512);
	error_clear(&err);
	assert_ok(disk_open_memory("m", MiB, &d, &err), &err);
	assert_ok(disk_queue_open(&q, &err), &err);
	uint64_t best_ns = UINT64_MAX;
	for (unsigned pass = 0; pass < 5; pass++) {
		uint64_t from = os_now_ns();
		for (unsigned i = 0; i < rounds; i++) {
			struct disk_request r;
			disk_request_init(&r, DISK_READ, 0, buffer, 512);
			disk_queue_submit(q, d, &r);
			assert_ptr_equal(disk_queue_reap(q, UINT64_MAX), &r);
		}
		best_ns = min_of(best_ns, (os_now_ns() - from) / rounds);
	}
	printf("%llu ns a request\n", (unsigned long long)best_ns);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_true(best_ns < 1500);
#endif
	disk_queue_close(q);
	disk_close(d);
	free(buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_what_was_written),
		cmocka_unit_test(test_scattered_buffers),
		cmocka_unit_test(test_traits_and_counters),
		cmocka_unit_test(test_huge_and_impossible_sizes),
		cmocka_unit_test(test_depth_one_is_cheap),
	};
	return cmocka_run_group_tests_name("disk memory", tests, NULL, NULL);
}
