/*
 * Volumes over a played store: every byte read is the one written last, and after a power cut what was flushed is
 * there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mock_store.h"
#include "record.h"

#define KIB 1024u
#define MIB (1024u * 1024u)

static struct error err;

static void in_simulation(uint64_t seed, int (*run)(void *arg), void *arg)
{
	struct os_simulation s;

	os_simulation_init(&s, seed);
	error_clear(&err);
	int rc = os_simulate(&s, run, arg, &err);
	if (rc)
		print_message("seed %llu: %s\n", (unsigned long long)seed, err.text);
	assert_int_equal(rc, 0);
}

static struct volume *opened(unsigned i)
{
	struct volume *v = NULL;
	char path[32];

	snprintf(path, sizeof path, "tank/v%u", i);
	assert_int_equal(volume_open(&mock.pool, path, &v, &err), 0);
	return v;
}

static unsigned seeds(unsigned otherwise)
{
	const char *text = getenv("SPINDLE_SEEDS");

	return text ? (unsigned)atoi(text) : otherwise;
}

/* --- against a model, with power cuts -------------------------------------------------------- */

#define AFTER_MAX 4096u
struct model {
	uint8_t *now, *flushed; /* as read; as of the last flush */
	uint8_t *touched;       /* a byte was written since the flush: then any of the values in between may be there */
	struct {
		uint64_t offset, bytes;
		uint8_t value; /* first byte; the rest follows from it */
	} after[AFTER_MAX];
	unsigned after_count;
};

static uint8_t pattern(uint8_t value, uint64_t at)
{
	return value ? (uint8_t)(value + at * 7 + at / 256 * 13) : 0;
}

static void model_write(struct model *m, uint64_t offset, uint64_t bytes, uint8_t value)
{
	for (uint64_t i = 0; i < bytes; i++)
		m->now[offset + i] = pattern(value, offset + i);
	if (m->after_count < AFTER_MAX) {
		m->after[m->after_count].offset = offset;
		m->after[m->after_count].bytes = bytes;
		m->after[m->after_count++].value = value;
	}
}

static bool may_be(const struct model *m, uint64_t at, uint8_t value)
{
	if (m->flushed[at] == value)
		return true;
	for (unsigned i = 0; i < m->after_count; i++)
		if (at - m->after[i].offset < m->after[i].bytes && pattern(m->after[i].value, at) == value)
			return true;
	return false;
}

struct random_case {
	uint64_t seed, bytes;
	uint32_t record_bytes;
	enum compression compression;
	unsigned operations;
};

static void random_range(struct random *r, uint64_t size, uint32_t record, uint64_t *offset, uint64_t *bytes)
{
	uint64_t longest = random_below(r, 4) ? 3 * record : size / 3;

	*bytes = 1 + random_below(r, random_below(r, 3) ? 9000 : longest);
	*offset = random_below(r, size);
	if (random_below(r, 2)) {
		*offset = *offset / 4096 * 4096;
		*bytes = round_up_u64(*bytes, 4096);
	}
	if (!random_below(r, 4)) {
		*offset = *offset / record * record;
		*bytes = round_up_u64(*bytes, record);
	}
	*bytes = min_of(*bytes, size - *offset);
}

static void check_all(struct volume *v, struct model *m, uint8_t *buffer, bool after_crash)
{
	uint64_t size = volume_size_bytes(v);

	assert_int_equal(volume_read(v, 0, buffer, size, &err), 0);
	for (uint64_t i = 0; i < size; i++) {
		bool good = after_crash ? may_be(m, i, buffer[i]) : buffer[i] == m->now[i];

		if (!good)
			print_message("byte %llu is %u, should be %u (flushed %u)\n", (unsigned long long)i, buffer[i],
				m->now[i], m->flushed[i]);
		assert_true(good);
	}
}

static void one_operation(struct random *r, struct volume **v, struct model *m, uint8_t *buffer)
{
	uint64_t size = volume_size_bytes(*v), offset, bytes;
	uint8_t value = (uint8_t)(1 + random_below(r, 250));

	random_range(r, size, volume_record_bytes(*v), &offset, &bytes);
	switch (random_below(r, 12)) {
	default:
		if (random_below(r, 8) == 0)
			value = 0;
		for (uint64_t i = 0; i < bytes; i++)
			buffer[i] = pattern(value, offset + i);
		assert_int_equal(volume_write(*v, offset, buffer, bytes, &err), 0);
		model_write(m, offset, bytes, value);
		break;
	case 6:
	case 7:
	case 8:
		assert_int_equal(volume_read(*v, offset, buffer, bytes, &err), 0);
		assert_memory_equal(buffer, m->now + offset, bytes);
		break;
	case 9:
		assert_int_equal(volume_flush(*v, &err), 0);
		memcpy(m->flushed, m->now, size);
		m->after_count = 0;
		break;
	case 10:
		assert_int_equal(volume_discard(*v, offset, bytes, &err), 0);
		model_write(m, offset, bytes, 0);
		break;
	case 11:
		switch (random_below(r, 6)) {
		case 0:
			pool_drop_cache(&mock.pool);
			break;
		case 1:
			assert_int_equal(spill_all(&mock.pool, 0, &err), 0);
			break;
		case 2:
			mock_crash();
			*v = opened(0);
			check_all(*v, m, buffer, true);
			memcpy(m->now, buffer, size);
			memcpy(m->flushed, buffer, size);
			m->after_count = 0;
			break;
		case 3:
			os_sleep_ns(random_below(r, 50000000));
			break;
		case 4:
			check_all(*v, m, buffer, false);
			break;
		}
	}
}

static int random_run(void *arg)
{
	struct random_case *rc = arg;
	struct random r;
	struct model m = {calloc(1, rc->bytes), calloc(1, rc->bytes)};
	uint8_t *buffer = malloc(rc->bytes);

	random_seed(&r, rc->seed);
	mock_open(rc->seed, 4 * MIB, 4 * MIB);
	mock.write_ns_per_mib = random_below(&r, 3) * 5000000;
	mock.read_ns = random_below(&r, 2) * 1000000;
	mock_volume(0, rc->bytes, rc->record_bytes);
	mock.datasets[0].compression = rc->compression;
	mock_start();
	struct volume *v = opened(0);
	for (unsigned i = 0; i < rc->operations; i++)
		one_operation(&r, &v, &m, buffer);
	check_all(v, &m, buffer, false);
	volume_close(v);
	mock_close();
	free(buffer);
	free(m.now);
	free(m.flushed);
	return 0;
}

static void test_reads_what_was_written_and_flushed(void **state)
{
	static const uint32_t records[] = {4 * KIB, 16 * KIB, 128 * KIB, MIB};
	unsigned count = seeds(40);

	for (unsigned i = 0; i < count; i++) {
		uint32_t record = records[i % 4];
		struct random_case c = {.seed = 1 + i,
			.record_bytes = record,
			.bytes = min_of((uint64_t)record * (8 + i % 20) - (i % 3 ? i % 5 * 777 : 0),
				(uint64_t)4 * MIB + i * 512),
			.compression = i / 4 % 2 ? COMPRESS_LZ4 : COMPRESS_OFF,
			.operations = 120};

		in_simulation(c.seed, random_run, &c);
	}
}

/* --- named claims ---------------------------------------------------------------------------- */

static void fill_pattern(uint8_t *buffer, uint64_t bytes, uint64_t seed)
{
	struct random r;

	random_seed(&r, seed);
	random_fill(&r, buffer, bytes);
}

static int small_overwrites(void *arg)
{
	uint8_t *buffer = malloc(8 * MIB), *back = malloc(8 * MIB);

	mock_open(1, 16 * MIB, 32 * MIB);
	mock_volume(0, 8 * MIB, MIB);
	mock_start();
	struct volume *v = opened(0);
	fill_pattern(buffer, 8 * MIB, 1);
	assert_int_equal(volume_write(v, 0, buffer, 8 * MIB, &err), 0);
	assert_int_equal(volume_flush(v, &err), 0);
	pool_drop_cache(&mock.pool);
	fill_pattern(buffer, 4 * MIB, 2);
	for (unsigned i = 0; i < 1024; i++)
		assert_int_equal(volume_write(v, i * 4096, buffer + i * 4096, 4096, &err), 0);
	assert_int_equal(volume_flush(v, &err), 0);
	assert_int_equal(mock.records_read, 0);
	/* Half of a record needs the other half, and only that record. */
	assert_int_equal(volume_write(v, 5 * MIB + 512, buffer, 4096, &err), 0);
	memcpy(buffer + 5 * MIB + 512, buffer, 4096);
	assert_int_equal(mock.records_read, 0);
	assert_int_equal(volume_read(v, 5 * MIB + 512, back, 4096, &err), 0);
	assert_int_equal(mock.records_read, 0);
	assert_int_equal(pool_commit_now(&mock.pool, &err), 0);
	assert_int_equal(mock.records_read, 1);
	pool_drop_cache(&mock.pool);
	assert_int_equal(volume_read(v, 0, back, 8 * MIB, &err), 0);
	assert_memory_equal(back, buffer, 8 * MIB);
	volume_close(v);
	mock_close();
	free(buffer);
	free(back);
	return 0;
}

/* Case A19. */
static void test_small_overwrites_in_sequence_read_nothing(void **state)
{
	in_simulation(1, small_overwrites, NULL);
}

static int zeros(void *arg)
{
	uint8_t *buffer = calloc(1, MIB);

	mock_open(1, 16 * MIB, 32 * MIB);
	for (unsigned i = 0; i < 2; i++)
		mock_volume(i, 8 * MIB, 128 * KIB);
	mock.datasets[1].compression = COMPRESS_LZ4;
	mock_start();
	for (unsigned i = 0; i < 2; i++) {
		struct volume *v = opened(i);

		assert_int_equal(volume_write(v, 0, buffer, MIB, &err), 0);
		assert_int_equal(volume_flush(v, &err), 0);
		assert_int_equal(mock.records_written, 8);
		volume_close(v);
	}
	/* A few bytes in a record go into the tree. */
	struct volume *v = opened(1);
	memset(buffer + 1000, 7, 100);
	assert_int_equal(volume_write(v, MIB, buffer, MIB, &err), 0);
	assert_int_equal(pool_commit_now(&mock.pool, &err), 0);
	assert_int_equal(mock.records_written, 8);
	assert_true(mock.now->at[1][8].bytes > 16 && mock.now->at[1][8].bytes < 2064);
	pool_drop_cache(&mock.pool);
	uint8_t *back = malloc(MIB);
	assert_int_equal(volume_read(v, MIB, back, MIB, &err), 0);
	assert_memory_equal(back, buffer, MIB);
	volume_close(v);
	mock_close();
	free(buffer);
	free(back);
	return 0;
}

/* Case A05. */
static void test_zeros_are_stored_unless_compression_is_on(void **state)
{
	in_simulation(1, zeros, NULL);
}

static int space(void *arg)
{
	uint8_t *buffer = malloc(MIB);

	mock_open(1, 16 * MIB, 32 * MIB);
	mock_volume(0, 64 * MIB, 128 * KIB);
	mock_start();
	struct volume *v = opened(0);
	fill_pattern(buffer, MIB, 3);
	mock.available_bytes = 2 * MIB;
	assert_int_equal(volume_write(v, 0, buffer, MIB, &err), 0);
	assert_int_equal(volume_write(v, MIB, buffer, MIB, &err), 0);
	assert_int_equal(volume_write(v, 2 * MIB, buffer, 4096, &err), ERR_SPACE);
	assert_non_null(strstr(err.text, "no space left in pool tank: it has 0 B"));
	error_clear(&err);
	assert_int_equal(pool_commit_now(&mock.pool, &err), 0);
	mock.available_bytes = 0;
	assert_int_equal(spill_promised_bytes(&mock.pool), 0);
	/* Over what is there, and discards, still work. */
	assert_int_equal(volume_write(v, MIB / 2, buffer, MIB, &err), 0);
	assert_int_equal(volume_write(v, 2 * MIB, buffer, 4096, &err), ERR_SPACE);
	error_clear(&err);
	/* Writes over live bytes take of the reserve until half of it is gone: their old columns may be pinned for
	 * long. */
	assert_int_equal(volume_flush(v, &err), 0);
	for (unsigned i = 0; i < 8; i++)
		mock.pool.disks[i].zones_free = 2;
	assert_int_equal(volume_write(v, 0, buffer, MIB, &err), ERR_SPACE);
	error_clear(&err);
	for (unsigned i = 0; i < 8; i++)
		mock.pool.disks[i].zones_free = 4;
	assert_int_equal(volume_discard(v, 0, 64 * MIB, &err), 0);
	assert_int_equal(volume_flush(v, &err), 0);
	for (unsigned i = 0; i < 512; i++)
		assert_int_equal(mock.durable->at[0][i].bytes, 0);
	/* A snapshot holds the old bytes: nothing would become free. */
	mock.available_bytes = MIB;
	assert_int_equal(volume_write(v, 0, buffer, MIB, &err), 0);
	assert_int_equal(pool_commit_now(&mock.pool, &err), 0);
	mock.available_bytes = 0;
	mock.datasets[0].newest_snapshot_commit = mock.pool.commit_durable;
	assert_int_equal(volume_write(v, 0, buffer, MIB, &err), ERR_SPACE);
	error_clear(&err);
	volume_close(v);
	mock_close();
	free(buffer);
	return 0;
}

/* POOL-9, as far as it is the volume's. */
static void test_a_full_pool_takes_overwrites_and_discards_only(void **state)
{
	in_simulation(1, space, NULL);
}

static int intents(void *arg)
{
	uint8_t buffer[4096] = {1}, back[4096];

	mock_open(1, 16 * MIB, 32 * MIB);
	mock_volume(0, 64 * MIB, 128 * KIB);
	mock_volume(1, 64 * MIB, 128 * KIB);
	mock_start();
	struct volume *v = opened(0);
	for (unsigned i = 0; i < 20; i++) {
		buffer[0] = (uint8_t)i;
		assert_int_equal(volume_write(v, i * 4096 + 100, buffer, sizeof buffer, &err), 0);
		assert_int_equal(volume_flush(v, &err), 0);
	}
	assert_int_equal(mock.intents_taken, 20);
	assert_int_equal(mock.commits, 0);
	assert_int_equal(volume_flush(v, &err), 0); /* nothing to do */
	assert_int_equal(mock.intents_taken, 20);
	mock_crash();
	v = opened(0);
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(volume_read(v, i * 4096 + 100, back, 1, &err), 0);
		assert_int_equal(back[0], i);
	}
	assert_int_equal(volume_flush(v, &err), 0); /* what the replay wrote */
	mock.commits = 0;
	mock.intents_taken = 20;
	/* More than 128 KiB waits for a commit. */
	for (unsigned i = 0; i < 32; i++)
		assert_int_equal(volume_write(v, i * 8192, buffer, sizeof buffer, &err), 0);
	assert_int_equal(volume_flush(v, &err), 0);
	assert_int_equal(mock.intents_taken, 21);
	assert_int_equal(mock.commits, 0);
	for (unsigned i = 0; i < 33; i++)
		assert_int_equal(volume_write(v, i * 8192, buffer, sizeof buffer, &err), 0);
	assert_int_equal(volume_flush(v, &err), 0);
	assert_int_equal(mock.intents_taken, 21);
	assert_int_equal(mock.commits, 1);
	mock.datasets[0].sync_always = true;
	assert_int_equal(volume_write(v, 0, buffer, 512, &err), 0);
	assert_int_equal(mock.intents_taken, 22);
	mock.datasets[0].sync_always = false;
	mock.datasets[0].sync_disabled = true;
	assert_int_equal(volume_write(v, 0, buffer, 512, &err), 0);
	assert_int_equal(volume_flush(v, &err), 0);
	assert_int_equal(mock.intents_taken, 22);
	volume_close(v);
	mock_close();
	return 0;
}

static void test_small_flushes_go_into_the_log(void **state)
{
	in_simulation(1, intents, NULL);
}

static int failures(void *arg)
{
	uint8_t *buffer = malloc(MIB), *back = malloc(MIB);

	mock_open(1, 16 * MIB, 4 * MIB);
	mock_volume(0, 64 * MIB, 128 * KIB);
	mock_start();
	struct volume *v = opened(0);
	fill_pattern(buffer, MIB, 3);
	mock.fail_writes = UINT32_MAX;
	mock.fail_code = ERR_IO;
	assert_int_equal(volume_write(v, 0, buffer, MIB, &err), 0);
	assert_int_equal(volume_flush(v, &err), ERR_IO);
	assert_string_equal(err.text, "the mock fails");
	error_clear(&err);
	mock.fail_writes = 0;
	/* Nothing is lost, and the next flush makes it good. */
	assert_int_equal(volume_read(v, 0, back, MIB, &err), 0);
	assert_memory_equal(back, buffer, MIB);
	assert_int_equal(volume_flush(v, &err), 0);
	assert_int_equal(spill_dirty_bytes(&mock.pool), 0);
	mock_crash();
	v = opened(0);
	assert_int_equal(volume_read(v, 0, back, MIB, &err), 0);
	assert_memory_equal(back, buffer, MIB);
	pool_drop_cache(&mock.pool);
	mock.fail_reads = 1;
	assert_int_equal(volume_read(v, 0, back, 128 * KIB, &err), ERR_LOST);
	assert_string_equal(err.text, "tank/v0 record 0: the mock lost it");
	error_clear(&err);
	assert_int_equal(volume_read(v, 0, back, 128 * KIB, &err), 0);
	/* A writer that waits for room is told that nothing leaves. */
	mock.fail_writes = UINT32_MAX;
	int rc = 0;
	for (unsigned i = 0; !rc && i < 16; i++)
		rc = volume_write(v, i * MIB, buffer, MIB, &err);
	assert_int_equal(rc, ERR_IO);
	mock.fail_writes = 0;
	error_clear(&err);
	os_sleep_ns(2000000000);
	assert_int_equal(volume_write(v, 0, buffer, MIB, &err), 0);
	assert_int_equal(volume_flush(v, &err), 0);
	assert_int_equal(volume_read(v, 64 * MIB, back, 1, &err), ERR_USAGE);
	error_clear(&err);
	volume_close(v);
	mock_close();
	free(buffer);
	free(back);
	return 0;
}

static void test_failed_writes_stay_dirty_and_are_told(void **state)
{
	in_simulation(1, failures, NULL);
}

static int slow_disks(void *arg)
{
	uint8_t *buffer = malloc(MIB);
	uint64_t longest = 0;

	mock_open(1, 16 * MIB, 16 * MIB);
	mock.write_ns_per_mib = 20000000; /* two at a time: 100 MiB/s */
	mock_volume(0, 256 * MIB, 128 * KIB);
	mock_start();
	struct volume *v = opened(0);
	fill_pattern(buffer, MIB, 3);
	for (unsigned i = 0; i < 200; i++) {
		uint64_t before = os_now_ns();

		assert_int_equal(volume_write(v, (uint64_t)i * MIB, buffer, MIB, &err), 0);
		longest = max_of(longest, os_now_ns() - before);
		assert_true(spill_dirty_bytes(&mock.pool) <= 16 * MIB);
	}
	assert_int_equal(volume_flush(v, &err), 0);
	double mib_per_s = 200e9 / (double)os_now_ns();
	print_message("%.1f MiB/s of 100, longest write %.1f ms, %u batches at once, %llu of %llu batches not whole "
		      "stripes\n",
		mib_per_s, (double)longest / 1e6, mock.writing_max, (unsigned long long)mock.short_batches,
		(unsigned long long)mock.batches);
	assert_true(mib_per_s > 90);
	assert_true(longest < 100000000); /* no writer stands while a cap empties (160 ms) */
	assert_int_equal(mock.writing_max, 2);
	assert_true(mock.short_batches <= 3);
	volume_close(v);
	mock_close();
	free(buffer);
	return 0;
}

static void test_writers_are_slowed_smoothly_to_what_disks_take(void **state)
{
	in_simulation(1, slow_disks, NULL);
}

/* --- threads in the real world --------------------------------------------------------------- */

#define THREADS 4u
#define SLICE 5120u /* not a multiple of anything: records are shared */
struct worker {
	struct os_thread *thread;
	struct volume *v;
	unsigned number;
	uint64_t slices;
	unsigned rounds;
};

static void worker_run(void *arg)
{
	struct worker *w = arg;
	struct random r;
	struct error e = ERROR_INIT;
	uint8_t buffer[SLICE], back[SLICE];
	uint8_t *last = calloc(w->slices, 1);

	random_seed(&r, w->number + 1);
	for (unsigned i = 0; i < w->rounds; i++) {
		uint64_t mine = random_below(&r, w->slices), offset = (mine * THREADS + w->number) * SLICE;

		switch (random_below(&r, 8)) {
		case 0:
		case 1:
		case 2:
			last[mine] = (uint8_t)random_below(&r, 256);
			memset(buffer, last[mine], SLICE);
			sp_assert(!volume_write(w->v, offset, buffer, SLICE, &e));
			break;
		case 3:
			sp_assert(!volume_discard(w->v, offset, SLICE, &e));
			last[mine] = 0;
			break;
		case 4:
			if (random_below(&r, 4) == 0)
				sp_assert(!volume_flush(w->v, &e));
			break;
		case 5:
			if (random_below(&r, 20) == 0)
				pool_drop_cache(&mock.pool);
			break;
		default:
			memset(buffer, last[mine], SLICE);
			sp_assert(!volume_read(w->v, offset, back, SLICE, &e));
			sp_assert(!memcmp(buffer, back, SLICE));
		}
	}
	free(last);
}

static void run_workers(unsigned rounds)
{
	struct worker workers[THREADS];

	mock_open(1, 4 * MIB, 4 * MIB);
	mock_volume(0, 6 * MIB, 64 * KIB);
	mock_start();
	struct volume *v = opened(0);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] =
			(struct worker){.v = v, .number = i, .slices = 6 * MIB / SLICE / THREADS, .rounds = rounds};
		assert_int_equal(os_thread_create(&workers[i].thread, "worker", worker_run, &workers[i], &err), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		os_thread_join(workers[i].thread);
	assert_int_equal(volume_flush(v, &err), 0);
	assert_int_equal(pool_commit_now(&mock.pool, &err), 0);
	assert_int_equal(spill_dirty_bytes(&mock.pool), 0);
	assert_int_equal(spill_promised_bytes(&mock.pool), 0);
	volume_close(v);
	mock_close();
}

static void test_threads_share_records(void **state)
{
	run_workers(1500);
}

static int simulated_workers(void *arg)
{
	run_workers(300);
	return 0;
}

static void test_threads_share_records_in_any_order(void **state)
{
	for (unsigned i = 0; i < seeds(40) / 4; i++)
		in_simulation(1000 + i, simulated_workers, NULL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_overwrites_in_sequence_read_nothing),
		cmocka_unit_test(test_zeros_are_stored_unless_compression_is_on),
		cmocka_unit_test(test_a_full_pool_takes_overwrites_and_discards_only),
		cmocka_unit_test(test_small_flushes_go_into_the_log),
		cmocka_unit_test(test_failed_writes_stay_dirty_and_are_told),
		cmocka_unit_test(test_writers_are_slowed_smoothly_to_what_disks_take),
		cmocka_unit_test(test_reads_what_was_written_and_flushed),
		cmocka_unit_test(test_threads_share_records),
		cmocka_unit_test(test_threads_share_records_in_any_order),
	};
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
