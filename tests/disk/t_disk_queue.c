/* Queues: every request comes back exactly once, with the right bytes, in both worlds. */
#include "testing.h"

#define DISKS 7
#define REQUESTS 64
#define BLOCK 4096u

static struct error err;

static void setup_err(void)
{
	error_clear(&err);
}

/* Many disks, some of them slow, random depth; then everything is read back. */
struct slot {
	struct disk_request r;
	uint8_t *buffer;
	bool busy;
};

static void keep_depth(struct disk **disks, struct disk_queue *q, unsigned depth, enum disk_op op)
{
	struct slot *slots = calloc(depth, sizeof *slots);
	unsigned submitted = 0, reaped = 0;
	for (unsigned i = 0; i < depth; i++)
		slots[i].buffer = aligned(BLOCK);
	while (reaped < REQUESTS) {
		for (unsigned i = 0; i < depth && submitted < REQUESTS; i++) {
			struct slot *s = &slots[i];
			if (s->busy)
				continue;
			uint64_t at = submitted / DISKS;
			if (op == DISK_WRITE)
				fill(s->buffer, BLOCK, submitted);
			disk_request_init(&s->r, op, at * BLOCK, s->buffer, BLOCK);
			s->r.owner = (void *)(uintptr_t)submitted;
			s->busy = true;
			disk_queue_submit(q, disks[submitted % DISKS], &s->r);
			submitted++;
		}
		assert_int_equal(disk_queue_in_flight(q), submitted - reaped);
		struct disk_request *r = disk_queue_reap(q, UINT64_MAX);
		assert_non_null(r);
		struct slot *s = container_of(r, struct slot, r);
		assert_true(s->busy);
		assert_int_equal(r->status, 0);
		assert_true(r->done_ns >= r->submit_ns);
		if (op == DISK_READ) {
			uint8_t expected[BLOCK];
			fill(expected, BLOCK, (uintptr_t)r->owner);
			assert_memory_equal(s->buffer, expected, BLOCK);
		}
		s->busy = false;
		reaped++;
	}
	assert_null(disk_queue_reap(q, UINT64_MAX));
	assert_int_equal(disk_queue_in_flight(q), 0);
	for (unsigned i = 0; i < depth; i++)
		free(slots[i].buffer);
	free(slots);
}

static int many_disks(void *arg)
{
	static const char *const words[DISKS] = {"mem:1MiB", "mem:1MiB+fault=slow,ms=1",
		"mem:1MiB+fault=slow,ms=2,op=read", "mem:1MiB+fault=slow,ms=0", "mem:1MiB",
		"mem:1MiB+fault=slow,ms=1,nth=3+fault=slow,ms=1", "mem:1MiB"};
	struct disk *disks[DISKS];
	struct disk_queue *q;
	(void)arg;
	for (unsigned i = 0; i < DISKS; i++)
		disks[i] = open_word(words[i], NULL);
	assert_ok(disk_queue_open(&q, &err), &err);
	static const unsigned depths[] = {1, 5, 32};
	for (unsigned i = 0; i < array_count(depths); i++) {
		keep_depth(disks, q, depths[i], DISK_WRITE);
		keep_depth(disks, q, depths[i], DISK_READ);
	}
	uint64_t done = 0;
	for (unsigned i = 0; i < DISKS; i++) {
		struct disk_counters c;
		disk_counters(disks[i], &c);
		assert_int_equal(c.op[DISK_READ].done, c.op[DISK_WRITE].done);
		assert_int_equal(c.op[DISK_READ].bytes, c.op[DISK_READ].done * BLOCK);
		done += c.op[DISK_READ].done;
		disk_close(disks[i]);
	}
	assert_int_equal(done, REQUESTS * array_count(depths));
	disk_queue_close(q);
	return 0;
}

static void test_many_disks_real(void **state)
{
	setup_err();
	many_disks(NULL);
}

static void test_many_disks_simulated(void **state)
{
	uint64_t hashes[2];
	setup_err();
	for (uint64_t seed = 1; seed <= 20; seed++) {
		for (unsigned run = 0; run < 2; run++) {
			struct os_simulation s;
			os_simulation_init(&s, seed);
			assert_ok(os_simulate(&s, many_disks, NULL, &err), &err);
			hashes[run] = s.trace_hash;
		}
		assert_int_equal(hashes[0], hashes[1]);
	}
}

/* --- deadlines --------------------------------------------------------------------------------------- */

static int deadlines(void *arg)
{
	struct disk *d = open_word("mem:1MiB+fault=slow,ms=20", NULL);
	struct disk_queue *q;
	uint8_t *buffer = aligned(BLOCK);
	struct disk_request r;
	(void)arg;
	assert_ok(disk_queue_open(&q, &err), &err);
	assert_null(disk_queue_reap(q, UINT64_MAX)); /* nothing in flight: does not wait */
	disk_request_init(&r, DISK_READ, 0, buffer, BLOCK);
	uint64_t from = os_now_ns();
	disk_queue_submit(q, d, &r);
	assert_null(disk_queue_reap(q, 0));
	assert_true(os_now_ns() - from < 15000000u);
	assert_null(disk_queue_reap(q, from + 5000000u));
	uint64_t at = os_now_ns() - from;
	assert_true(at >= 5000000u);
	if (os_is_simulated())
		assert_true(at < 5100000u);
	assert_int_equal(disk_queue_in_flight(q), 1);
	assert_ptr_equal(disk_queue_reap(q, from + 10000000000u), &r);
	at = r.done_ns - from;
	assert_true(at >= 20000000u);
	if (os_is_simulated())
		assert_true(at < 20100000u);
	free(buffer);
	disk_queue_close(q);
	disk_close(d);
	return 0;
}

static void test_deadlines_real(void **state)
{
	setup_err();
	deadlines(NULL);
}

static void test_deadlines_simulated(void **state)
{
	struct os_simulation s;
	setup_err();
	os_simulation_init(&s, 3);
	assert_ok(os_simulate(&s, deadlines, NULL, &err), &err);
}

/* --- order: what is due first comes first ------------------------------------------------------------ */

static int completion_order(void *arg)
{
	static const char *const words[3] = {"mem:1MiB+fault=slow,ms=30", "mem:1MiB+fault=slow,ms=10", "mem:1MiB"};
	struct disk *disks[3];
	struct disk_queue *q;
	struct disk_request r[3];
	uint8_t *buffer = aligned(BLOCK);
	(void)arg;
	assert_ok(disk_queue_open(&q, &err), &err);
	for (unsigned i = 0; i < 3; i++) {
		disks[i] = open_word(words[i], NULL);
		disk_request_init(&r[i], DISK_READ, 0, buffer, BLOCK);
		disk_queue_submit(q, disks[i], &r[i]);
	}
	for (unsigned i = 3; i-- > 0;)
		assert_ptr_equal(disk_queue_reap(q, UINT64_MAX), &r[i]);
	for (unsigned i = 0; i < 3; i++)
		disk_close(disks[i]);
	disk_queue_close(q);
	free(buffer);
	return 0;
}

static void test_completion_order(void **state)
{
	struct os_simulation s;
	setup_err();
	completion_order(NULL);
	os_simulation_init(&s, 9);
	assert_ok(os_simulate(&s, completion_order, NULL, &err), &err);
}

/* --- many threads on one disk ------------------------------------------------------------------------ */

#define WORKERS 4
static struct disk *shared;

static void work(void *arg)
{
	unsigned id = (unsigned)(uintptr_t)arg;
	uint8_t *out = aligned(BLOCK), *in = aligned(BLOCK);
	struct error e = ERROR_INIT;
	for (unsigned i = 0; i < 50; i++) {
		uint64_t at = (uint64_t)(id * 50 + i) * BLOCK;
		fill(out, BLOCK, at);
		assert_ok(disk_write(shared, at, out, BLOCK, &e), &e);
		assert_ok(disk_read(shared, at, in, BLOCK, &e), &e);
		assert_memory_equal(out, in, BLOCK);
	}
	free(out);
	free(in);
}

static int many_threads(void *arg)
{
	struct os_thread *threads[WORKERS];
	struct disk_counters c;
	struct disk_load load;
	(void)arg;
	shared = open_word("mem:1MiB+fault=slow,ms=1,nth=7,count=20", NULL);
	for (unsigned i = 0; i < WORKERS; i++)
		assert_ok(os_thread_create(&threads[i], "worker", work, (void *)(uintptr_t)i, &err), &err);
	for (unsigned i = 0; i < WORKERS; i++)
		os_thread_join(threads[i]);
	disk_counters(shared, &c);
	assert_int_equal(c.op[DISK_WRITE].done, WORKERS * 50);
	assert_true(c.busy_ns >= 1000000u);
	assert_true(c.op[DISK_WRITE].latency_ns_max >= 1000000u);
	disk_load(shared, &load);
	assert_int_equal(load.in_flight, 0);
	disk_close(shared);
	return 0;
}

static void test_many_threads(void **state)
{
	setup_err();
	many_threads(NULL);
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct os_simulation s;
		os_simulation_init(&s, seed);
		assert_ok(os_simulate(&s, many_threads, NULL, &err), &err);
	}
}

/* --- bad requests ------------------------------------------------------------------------------------ */

static void test_bad_requests_come_back(void **state)
{
	static const struct {
		enum disk_op op;
		uint64_t offset, length;
		int status;
	} cases[] = {
		{DISK_READ, 1, 512, ERR_USAGE},
		{DISK_READ, 0, 511, ERR_USAGE},
		{DISK_READ, MiB, 512, ERR_USAGE},
		{DISK_READ, MiB - 512, 1024, ERR_USAGE},
		{DISK_WRITE, UINT64_MAX - 511, 1024, ERR_USAGE},
		{DISK_WRITE, UINT64_MAX & ~511ull, 512, ERR_USAGE},
		{DISK_DISCARD, 0, 2 * MiB, ERR_USAGE},
		{DISK_DISCARD, 512, 100, ERR_USAGE},
		{DISK_READ, MiB - 512, 512, 0},
		{DISK_READ, MiB, 0, 0},
	};
	setup_err();
	struct disk *d = open_word("mem:1MiB", NULL);
	uint8_t *buffer = aligned(4096);
	for (size_t i = 0; i < array_count(cases); i++) {
		struct disk_request r;
		struct disk_queue *q = disk_queue_of_thread(&err);
		disk_request_init(
			&r, cases[i].op, cases[i].offset, cases[i].op == DISK_DISCARD ? NULL : buffer, cases[i].length);
		disk_queue_submit(q, d, &r);
		assert_ptr_equal(disk_queue_reap(q, UINT64_MAX), &r);
		assert_int_equal(r.status, cases[i].status);
	}
	struct iovec iov[2] = {{buffer, 512}, {buffer, 100}};
	struct disk_request r;
	disk_request_init_iov(&r, DISK_READ, 0, iov, 2);
	r.length_bytes = 512;
	disk_queue_submit(disk_queue_of_thread(&err), d, &r);
	assert_ptr_equal(disk_queue_reap(disk_queue_of_thread(&err), UINT64_MAX), &r);
	assert_int_equal(r.status, ERR_USAGE);
	assert_int_equal(disk_read(d, MiB, buffer, 4096, &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "mem:1MiB#0"));
	assert_non_null(strstr(err.text, "read of 4 KiB at byte 1048576"));
	struct disk_counters c;
	disk_counters(d, &c);
	assert_int_equal(c.op[DISK_READ].errors, 6);
	disk_close(d);

	d = open_word("mem:1MiB", &(struct disk_open_options){.read_only = true});
	error_clear(&err);
	assert_int_equal(disk_write(d, 0, buffer, 512, &err), ERR_READ_ONLY);
	assert_int_equal(disk_discard(d, 0, 512, NULL), ERR_READ_ONLY);
	error_clear(&err);
	assert_ok(disk_read(d, 0, buffer, 512, &err), &err);
	disk_close(d);
	free(buffer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_disks_real),
		cmocka_unit_test(test_many_disks_simulated),
		cmocka_unit_test(test_deadlines_real),
		cmocka_unit_test(test_deadlines_simulated),
		cmocka_unit_test(test_completion_order),
		cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_bad_requests_come_back),
	};
	return cmocka_run_group_tests_name("disk queue", tests, NULL, NULL);
}
