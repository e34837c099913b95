/* Each kind of fault does what it says, when it says, and nothing else. */
#include "testing.h"

#define BLOCK 4096u

static struct error err;
static uint8_t *out, *in;

static int setup(void **state)
{
	error_clear(&err);
	out = aligned(4 * MiB);
	in = aligned(4 * MiB);
	fill(out, 4 * MiB, 77);
	return 0;
}

static int teardown(void **state)
{
	free(out);
	free(in);
	return 0;
}

static int write_at(struct disk *d, uint64_t at, uint64_t bytes)
{
	return disk_write(d, at, out + at, bytes, NULL);
}
static int read_at(struct disk *d, uint64_t at, uint64_t bytes)
{
	return disk_read(d, at, in + at, bytes, NULL);
}

/* Which of the first 8 reads fail, as a string of '.' and 'x'. */
static void assert_pattern(const char *word, const char *expected, int status)
{
	char got[9] = "";
	struct disk *d = open_word(word, NULL);
	for (unsigned i = 0; i < 8; i++) {
		int rc = read_at(d, i * BLOCK, BLOCK);
		assert_true(rc == 0 || rc == status);
		got[i] = rc ? 'x' : '.';
	}
	assert_string_equal(got, expected);
	disk_close(d);
}

static void test_eio_counts_from_one(void **state)
{
	assert_pattern("mem:4MiB+fault=eio", "xxxxxxxx", ERR_IO);
	assert_pattern("mem:4MiB+fault=eio,nth=1", "x.......", ERR_IO);
	assert_pattern("mem:4MiB+fault=eio,nth=3", "..x.....", ERR_IO);
	assert_pattern("mem:4MiB+fault=eio,nth=3,count=2", "..xx....", ERR_IO);
	assert_pattern("mem:4MiB+fault=eio,count=2", "xx......", ERR_IO);
	assert_pattern("mem:4MiB+fault=eio,nth=6,sticky=1", ".....xxx", ERR_IO);
	assert_pattern("mem:4MiB+fault=eio,op=write", "........", ERR_IO);
	assert_pattern("mem:4MiB+fault=eio,offset=8192", "..x.....", ERR_IO);
	assert_pattern("mem:4MiB+fault=eio,offset=9000,length=8000", "..xxx...", ERR_IO);
	assert_pattern("mem:4MiB+fault=eio,offset=8k,length=16k,nth=2", "...x....", ERR_IO);
	assert_pattern("mem:4MiB+fault=eio,offset=8k,length=16k,nth=2,sticky=1", "...xxx..", ERR_IO);
	assert_pattern("mem:4MiB+fault=eio,nth=2+fault=eio,nth=2", ".xx.....", ERR_IO);
}

static void test_eio_of_a_flush(void **state)
{
	struct disk *d = open_word("mem:4MiB+fault=eio,op=flush,nth=2", NULL);
	assert_int_equal(write_at(d, 0, BLOCK), 0);
	assert_int_equal(disk_flush(d, &err), 0);
	assert_int_equal(disk_flush(d, &err), ERR_IO);
	assert_non_null(strstr(err.text, "mem:4MiB#0: flush failed"));
	assert_non_null(strstr(err.text, "planted"));
	assert_int_equal(disk_flush(d, NULL), 0);
	disk_close(d);
}

static void test_vanish_is_for_ever(void **state)
{
	assert_pattern("mem:4MiB+fault=vanish,nth=4", "...xxxxx", ERR_GONE);
	struct disk *d = open_word("mem:4MiB+fault=vanish,op=write,nth=2", NULL);
	assert_int_equal(write_at(d, 0, BLOCK), 0);
	assert_int_equal(read_at(d, 0, BLOCK), 0);
	assert_int_equal(write_at(d, 0, BLOCK), ERR_GONE);
	assert_int_equal(read_at(d, 0, BLOCK), ERR_GONE);
	assert_int_equal(disk_flush(d, NULL), ERR_GONE);
	disk_close(d);
}

static unsigned bits_changed(const uint8_t *a, const uint8_t *b, size_t bytes)
{
	unsigned count = 0;
	for (size_t i = 0; i < bytes; i++)
		count += (unsigned)__builtin_popcount(a[i] ^ b[i]);
	return count;
}

static void test_rot_flips_one_bit(void **state)
{
	struct disk *d = open_word("mem:4MiB+fault=rot,offset=5000", NULL);
	assert_int_equal(write_at(d, 0, 4 * BLOCK), 0);
	assert_int_equal(read_at(d, 0, 4 * BLOCK), 0);
	assert_int_equal(bits_changed(in, out, 4 * BLOCK), 1);
	assert_int_equal(in[5000] ^ out[5000], 1);
	assert_int_equal(read_at(d, 2 * BLOCK, BLOCK), 0);
	assert_memory_equal(in + 2 * BLOCK, out + 2 * BLOCK, BLOCK);
	disk_close(d);

	d = open_word("mem:4MiB+fault=rot,nth=3,count=2", NULL);
	assert_int_equal(write_at(d, 0, BLOCK), 0);
	for (unsigned i = 1; i <= 12; i++) {
		assert_int_equal(read_at(d, 0, BLOCK), 0);
		assert_int_equal(bits_changed(in, out, BLOCK), i == 3 || i == 6);
	}
	disk_close(d);
}

static void test_rot_in_scattered_buffers(void **state)
{
	struct disk *d = open_word("mem:4MiB+fault=rot,offset=5000", NULL);
	struct iovec iov[3] = {{in, 1024}, {in + 1024, 512}, {in + 1536, 8192 - 1536}};
	struct disk_request r;
	assert_int_equal(write_at(d, 0, 8192), 0);
	disk_request_init_iov(&r, DISK_READ, 0, iov, 3);
	disk_queue_submit(disk_queue_of_thread(NULL), d, &r);
	assert_ptr_equal(disk_queue_reap(disk_queue_of_thread(NULL), UINT64_MAX), &r);
	assert_int_equal(in[5000] ^ out[5000], 1);
	assert_int_equal(bits_changed(in, out, 8192), 1);
	disk_close(d);
}

static void test_rot_of_the_medium_heals_by_a_write(void **state)
{
	struct disk *d = open_word("mem:4MiB+fault=rot,offset=5000,sticky=1", NULL);
	assert_int_equal(write_at(d, 0, 2 * BLOCK), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(read_at(d, 0, 2 * BLOCK), 0);
		assert_int_equal(in[5000] ^ out[5000], 1);
		assert_int_equal(bits_changed(in, out, 2 * BLOCK), 1);
	}
	assert_int_equal(write_at(d, BLOCK, BLOCK), 0);
	assert_int_equal(read_at(d, 0, 2 * BLOCK), 0);
	assert_memory_equal(in, out, 2 * BLOCK);
	disk_close(d);
}

static void test_lost_writes_are_acknowledged(void **state)
{
	struct disk *d = open_word("mem:4MiB+fault=lost,nth=2", NULL);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(write_at(d, i * BLOCK, BLOCK), 0);
	assert_int_equal(read_at(d, 0, 3 * BLOCK), 0);
	assert_memory_equal(in, out, BLOCK);
	assert_int_equal(bits_changed(in + BLOCK, (uint8_t[BLOCK]){0}, BLOCK), 0);
	assert_memory_equal(in + 2 * BLOCK, out + 2 * BLOCK, BLOCK);
	disk_close(d);
}

static void test_misdirected_writes_go_elsewhere(void **state)
{
	struct disk *d = open_word("mem:4MiB+fault=misdirect,nth=1", NULL);
	assert_int_equal(write_at(d, BLOCK, BLOCK), 0);
	assert_int_equal(read_at(d, 0, 4 * MiB), 0);
	assert_int_equal(bits_changed(in + BLOCK, (uint8_t[BLOCK]){0}, BLOCK), 0);
	assert_memory_equal(in + MiB + BLOCK, out + BLOCK, BLOCK);
	disk_close(d);

	d = open_word("mem:4MiB+fault=misdirect", NULL); /* at the end it goes back */
	assert_int_equal(write_at(d, 4 * MiB - BLOCK, BLOCK), 0);
	assert_int_equal(read_at(d, 0, 4 * MiB), 0);
	assert_memory_equal(in + 3 * MiB - BLOCK, out + 4 * MiB - BLOCK, BLOCK);
	disk_close(d);

	d = open_word("mem:4MiB+fault=misdirect,offset=8192,nth=2", NULL);
	assert_int_equal(write_at(d, 0, BLOCK), 0);
	assert_int_equal(write_at(d, BLOCK, BLOCK), 0);
	assert_int_equal(read_at(d, 0, 3 * BLOCK), 0);
	assert_memory_equal(in, out, BLOCK);
	assert_int_equal(bits_changed(in + BLOCK, (uint8_t[BLOCK]){0}, BLOCK), 0);
	assert_memory_equal(in + 2 * BLOCK, out + BLOCK, BLOCK);
	struct disk_load load;
	disk_load(d, &load);
	disk_close(d);
}

static void assert_torn(const char *word, int status)
{
	struct disk *d = open_word(word, NULL);
	struct disk_request r;
	struct iovec iov[3] = {{out, 512}, {out + 512, 7 * 512}, {out + 8 * 512, 512 * 2}};
	uint8_t zeros[BLOCK * 2] = {0};
	disk_request_init_iov(&r, DISK_WRITE, 0, iov, 3); /* 10 sectors, 5 get there */
	disk_queue_submit(disk_queue_of_thread(NULL), d, &r);
	assert_ptr_equal(disk_queue_reap(disk_queue_of_thread(NULL), UINT64_MAX), &r);
	assert_int_equal(r.status, status);
	assert_int_equal(r.length_bytes, 5120);
	assert_int_equal(r.iov_count, 3);
	assert_ptr_equal(r.iov, iov);
	assert_int_equal(iov[1].iov_len, 7 * 512);
	assert_int_equal(read_at(d, 0, 5120), 0);
	assert_memory_equal(in, out, 5 * 512);
	assert_memory_equal(in + 5 * 512, zeros, 5 * 512);
	assert_int_equal(write_at(d, 8192, 512), 0); /* the next one is whole */
	disk_close(d);
}

static void test_torn_writes(void **state)
{
	assert_torn("mem:4MiB+fault=torn,nth=1", ERR_IO);
	assert_torn("mem:4MiB+fault=torn,nth=1,silent=1", 0);
	struct disk *d = open_word("mem:4MiB+fault=torn", NULL);
	assert_int_equal(write_at(d, 0, 512), ERR_IO); /* a sector is never torn: nothing of it gets there */
	assert_int_equal(read_at(d, 0, 512), 0);
	assert_int_equal(bits_changed(in, (uint8_t[512]){0}, 512), 0);
	disk_close(d);
}

static void test_enospc(void **state)
{
	struct disk *d = open_word("mem:4MiB+fault=enospc,offset=1MiB", NULL);
	assert_int_equal(write_at(d, MiB - BLOCK, BLOCK), 0);
	assert_int_equal(write_at(d, MiB - BLOCK, 2 * BLOCK), ERR_SPACE);
	assert_int_equal(write_at(d, 0, BLOCK), 0);
	assert_int_equal(read_at(d, 2 * MiB, BLOCK), 0);
	disk_close(d);
	d = open_word("mem:4MiB+fault=enospc,nth=3", NULL);
	assert_int_equal(write_at(d, 0, BLOCK), 0);
	assert_int_equal(write_at(d, 0, BLOCK), 0);
	assert_int_equal(write_at(d, 0, BLOCK), ERR_SPACE);
	assert_int_equal(write_at(d, 0, BLOCK), ERR_SPACE);
	disk_close(d);
}

static void test_short_is_a_smaller_disk(void **state)
{
	struct disk *d = open_word("mem:4MiB+fault=short,offset=1000000", NULL);
	assert_int_equal(disk_traits(d)->size_bytes, 1000000 / 512 * 512);
	assert_int_equal(read_at(d, MiB, BLOCK), ERR_USAGE);
	disk_close(d);
}

/* --- what takes time: in virtual time, where it can be measured -------------------------------------- */

static int timed(void *arg)
{
	struct disk *d = open_word("mem:4MiB+fault=slow,ms=7,op=read", NULL);
	uint64_t from = os_now_ns();
	assert_int_equal(write_at(d, 0, BLOCK), 0);
	assert_true(os_now_ns() - from < 100000);
	from = os_now_ns();
	assert_int_equal(read_at(d, 0, BLOCK), 0);
	assert_true(os_now_ns() - from >= 7000000 && os_now_ns() - from < 7100000);
	assert_memory_equal(in, out, BLOCK);
	disk_close(d);

	d = open_word("mem:4MiB+fault=hang,nth=2", NULL);
	assert_int_equal(read_at(d, 0, BLOCK), 0);
	from = os_now_ns();
	assert_int_equal(read_at(d, 0, BLOCK), ERR_TIMEOUT);
	assert_true(os_now_ns() - from >= 30000000000u && os_now_ns() - from < 30100000000u);
	assert_int_equal(read_at(d, 0, BLOCK), 0);
	disk_close(d);

	/* A flush of a modelled disk takes time, a lied one none. */
	d = open_word("mem:4MiB+model=hdd-7200-2008", NULL);
	assert_int_equal(write_at(d, 0, BLOCK), 0);
	from = os_now_ns();
	assert_int_equal(disk_flush(d, NULL), 0);
	assert_true(os_now_ns() - from > 1000000);
	disk_close(d);
	d = open_word("mem:4MiB+model=hdd-7200-2008+fault=lieflush", NULL);
	assert_int_equal(write_at(d, 0, BLOCK), 0);
	from = os_now_ns();
	assert_int_equal(disk_flush(d, NULL), 0);
	assert_true(os_now_ns() - from < 100000);
	disk_close(d);

	/* Rot of the medium below a model, and above it. */
	static const char *const words[] = {"mem:4MiB+fault=rot,offset=5000+model=hdd-7200-2008",
		"mem:4MiB+model=hdd-7200-2008+fault=rot,offset=5000",
		"mem:4MiB+model=hdd-7200-2008+fault=rot,offset=5000,sticky=1",
		"mem:4MiB+fault=rot,offset=5000,sticky=1+model=hdd-7200-2008"};
	for (size_t i = 0; i < array_count(words); i++) {
		d = open_word(words[i], NULL);
		assert_int_equal(write_at(d, 0, 2 * BLOCK), 0);
		assert_int_equal(read_at(d, 0, 2 * BLOCK), 0);
		assert_int_equal(bits_changed(in, out, 2 * BLOCK), 1);
		disk_close(d);
	}
	static const char *const below[] = {"eio,op=write", "enospc", "vanish", "torn"};
	for (size_t i = 0; i < array_count(below); i++) {
		char word[128];
		snprintf(word, sizeof word, "mem:4MiB+fault=%s+model=hdd-7200-2008", below[i]);
		d = open_word(word, NULL);
		int rc = write_at(d, 0, 2 * BLOCK);
		assert_true(rc == ERR_IO || rc == ERR_SPACE || rc == ERR_GONE);
		disk_close(d);
	}
	return 0;
}

static void test_slow_hang_and_models(void **state)
{
	struct os_simulation s;
	os_simulation_init(&s, 1);
	assert_ok(os_simulate(&s, timed, NULL, &err), &err);
}

static void test_slow_does_not_block_the_submitter(void **state)
{
	struct disk *d = open_word("mem:4MiB+fault=slow,ms=200", NULL);
	struct disk_queue *q = disk_queue_of_thread(&err);
	struct disk_request r[8];
	uint64_t from = os_now_ns();
	for (unsigned i = 0; i < 8; i++) {
		disk_request_init(&r[i], DISK_READ, 0, in, BLOCK);
		disk_queue_submit(q, d, &r[i]);
	}
	assert_true(os_now_ns() - from < 150000000);
	for (unsigned i = 0; i < 8; i++)
		assert_ptr_equal(disk_queue_reap(q, UINT64_MAX), &r[i]);
	uint64_t took = os_now_ns() - from;
	assert_true(took >= 200000000 && took < 1000000000);
	disk_close(d);
}

/* Fail the Nth operation for every N until a run is clean: every failure is reported, none is invented. */
static void test_every_nth_operation_can_fail(void **state)
{
	for (unsigned nth = 1;; nth++) {
		char word[64];
		unsigned failures = 0;
		snprintf(word, sizeof word, "mem:4MiB+fault=eio,nth=%u", nth);
		struct disk *d = open_word(word, NULL);
		for (unsigned i = 0; i < 5; i++)
			failures += write_at(d, i * BLOCK, BLOCK) != 0;
		failures += disk_flush(d, NULL) != 0;
		for (unsigned i = 0; i < 5; i++)
			failures += read_at(d, i * BLOCK, BLOCK) != 0;
		struct disk_counters c;
		disk_counters(d, &c);
		assert_int_equal(c.op[0].errors + c.op[1].errors + c.op[2].errors, failures);
		disk_close(d);
		if (failures == 0) {
			assert_int_equal(nth, 12);
			return;
		}
		assert_int_equal(failures, 1);
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_eio_counts_from_one),
		T(test_eio_of_a_flush),
		T(test_vanish_is_for_ever),
		T(test_rot_flips_one_bit),
		T(test_rot_in_scattered_buffers),
		T(test_rot_of_the_medium_heals_by_a_write),
		T(test_lost_writes_are_acknowledged),
		T(test_misdirected_writes_go_elsewhere),
		T(test_torn_writes),
		T(test_enospc),
		T(test_short_is_a_smaller_disk),
		T(test_slow_hang_and_models),
		T(test_slow_does_not_block_the_submitter),
		T(test_every_nth_operation_can_fail),
	};
	return cmocka_run_group_tests_name("disk fault", tests, NULL, NULL);
}
