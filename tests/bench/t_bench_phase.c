/* The engine: which operations come, in what order, what is measured, what stops it. All in virtual time. */
#include "../../src/bench/internal.h"
#include "testing.h"

/* --- a target that writes down what it is asked ------------------------------------------------------------------ */

struct recorded {
	uint64_t offset, length;
	char op; /* r, w, f */
};
struct recorder {
	struct target target;
	struct recorded log[20000];
	unsigned count, flushes, in_flight, in_flight_most;
	uint64_t ns_each, flush_ns;
	unsigned fail_at;     /* the operation that fails, from 1 */
	unsigned stall_every; /* so many operations one takes longer, by: */
	uint64_t stall_ns;
	bool flush_fails, interrupts;
	uint8_t *bytes;
};

static int note(struct recorder *r, char op, uint64_t offset, uint64_t length, struct error *err)
{
	sp_assert(r->count < array_count(r->log));
	r->log[r->count++] = (struct recorded){offset, length, op};
	unsigned mine = r->count;
	r->in_flight++;
	r->in_flight_most = max_of(r->in_flight_most, r->in_flight);
	os_sleep_ns((op == 'f' ? r->flush_ns : r->ns_each) +
		    (r->stall_every && mine % r->stall_every == 0 ? r->stall_ns : 0));
	r->in_flight--;
	if (r->interrupts && mine == 10)
		os_interrupt();
	if (r->fail_at && mine >= r->fail_at)
		return error_set(err, ERR_IO, "planted failure at operation %u", mine);
	return 0;
}

static int rec_read(struct target *t, uint64_t offset, void *buffer, uint64_t length, struct error *err)
{
	struct recorder *r = container_of(t, struct recorder, target);

	if (r->bytes)
		memcpy(buffer, r->bytes + offset, length);
	return note(r, 'r', offset, length, err);
}

static int rec_write(struct target *t, uint64_t offset, const void *buffer, uint64_t length, struct error *err)
{
	struct recorder *r = container_of(t, struct recorder, target);

	if (r->bytes)
		memcpy(r->bytes + offset, buffer, length);
	return note(r, 'w', offset, length, err);
}

static int rec_flush(struct target *t, struct error *err)
{
	struct recorder *r = container_of(t, struct recorder, target);

	r->flushes++;
	if (r->flush_fails)
		return error_set(err, ERR_SPACE, "planted: no space left at the flush");
	return note(r, 'f', 0, 0, err);
}

static void rec_traffic(struct target *t, struct target_traffic *ret)
{
	*ret = (struct target_traffic){0};
}

static void rec_close(struct target *t) {}

static const struct target_ops rec_ops = {.kind = "array",
	.read = rec_read,
	.write = rec_write,
	.flush = rec_flush,
	.traffic = rec_traffic,
	.close = rec_close};

static struct recorder rec;

static struct recorder *recorder(uint64_t ns_each)
{
	free(rec.bytes);
	memset(&rec, 0, sizeof(rec));
	rec.ns_each = ns_each;
	rec.flush_ns = 50 * MS;
	rec.target = (struct target){.ops = &rec_ops,
		.name = "rec",
		.road = "library",
		.size_bytes = 64 * MiB,
		.align_bytes = 512,
		.direct_asked = true,
		.direct_effective = true,
		.state = "healthy"};
	return &rec;
}

static struct phase_result run(struct recorder *r, const struct workload *w)
{
	struct payload_pool *pool;
	struct phase_result result;
	struct error err = ERROR_INIT;

	assert_ok(payload_pool_create(&pool, &w->payload, w->seed, phase_pool_bytes(w), &err), &err);
	struct phase p = {.target = &r->target, .workload = w, .pool = pool};
	assert_ok(phase_run(&p, &result, &err), &err);
	payload_pool_free(pool);
	return result;
}

/* --- which operations -------------------------------------------------------------------------------------------- */

VIRTUAL_TEST(a_sequential_stream_covers_its_span_once_in_order)
{
	struct recorder *r = recorder(MS);
	struct workload w = sequential(0, 64 * KiB, 8 * MiB);

	w.span_offset_bytes = MiB;
	struct phase_result result = run(r, &w);
	assert_int_equal(r->count, 129);
	for (unsigned i = 0; i < 128; i++) {
		assert_int_equal(r->log[i].offset, MiB + i * 64 * KiB);
		assert_int_equal(r->log[i].op, 'w');
	}
	assert_int_equal(r->log[128].op, 'f');
	assert_int_equal(result.ops, 128);
	assert_int_equal(result.bytes, 8 * MiB);
	assert_int_equal(result.write_bytes, 8 * MiB);
	assert_int_equal(result.read_bytes, 0);
	/* PHASE-1: 128 operations of 1 ms and the flush of 50 ms */
	assert_int_equal(result.work_ns, 128 * MS);
	assert_int_equal(result.final_flush_ns, 50 * MS);
	assert_int_equal(result.elapsed_ns, 178 * MS);
	assert_int_equal(histogram_count(result.latency), 128);
	assert_near((double)histogram_percentile(result.latency, 50), 1e6, 0.01);
	phase_result_release(&result);
}

VIRTUAL_TEST(depth_keeps_the_order_of_a_stream)
{
	struct recorder *r = recorder(MS);
	struct workload w = sequential(100, 64 * KiB, 8 * MiB);

	w.depth = 8;
	struct phase_result result = run(r, &w);
	assert_int_equal(r->count, 128);
	assert_int_equal(r->in_flight_most, 8);
	for (unsigned i = 0; i < 128; i++) /* by seeded chance eight threads pass each other, but not by more */
		assert_true(llabs((long long)(r->log[i].offset / (64 * KiB)) - (long long)i) < 8);
	assert_int_equal(result.elapsed_ns, 16 * MS);
	phase_result_release(&result);
}

VIRTUAL_TEST(jobs_have_regions_of_their_own)
{
	struct recorder *r = recorder(MS);
	struct workload w = sequential(100, 64 * KiB, 8 * MiB);
	unsigned seen[128] = {0};

	w.jobs = 4;
	struct phase_result result = run(r, &w);
	for (unsigned i = 0; i < r->count; i++)
		seen[r->log[i].offset / (64 * KiB)]++;
	for (unsigned i = 0; i < 128; i++)
		assert_int_equal(seen[i], 1);
	for (unsigned i = 0; i < 4; i++) /* the first four come from the starts of four regions */
		assert_int_equal(r->log[i].offset % (2 * MiB), 0);
	assert_int_equal(result.elapsed_ns, 32 * MS);
	phase_result_release(&result);
}

VIRTUAL_TEST(random_takes_every_block_once_a_round_in_another_order)
{
	struct recorder *r = recorder(MS);
	struct workload w = scattered(100, 64 * KiB, 100 * 64 * KiB, 3, 0);
	unsigned seen[100] = {0}, in_order = 0, same = 0;

	w.jobs = 2;
	w.total_bytes = 2 * w.span_bytes;
	struct phase_result result = run(r, &w);
	assert_int_equal(r->count, 200);
	assert_int_equal(r->in_flight_most, 6);
	for (unsigned i = 0; i < 200; i++) {
		seen[r->log[i].offset / (64 * KiB)]++;
		in_order += i > 0 && r->log[i].offset == r->log[i - 1].offset + 64 * KiB;
		same += i >= 100 && r->log[i].offset == r->log[i - 100].offset;
	}
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(seen[i], 2);
	assert_in_range(in_order, 0, 10);
	assert_in_range(same, 0, 10);
	phase_result_release(&result);
}

VIRTUAL_TEST(of_few_random_blocks_none_is_followed_by_its_neighbour)
{
	for (unsigned blocks = 6; blocks <= 40; blocks += 17)
		for (unsigned seed = 1; seed <= 20; seed++) {
			struct recorder *r = recorder(MS);
			struct workload w = scattered(100, MiB, blocks * MiB, 1, 0);
			unsigned seen[40] = {0};

			w.seed = seed;
			w.total_bytes = 10 * w.span_bytes;
			struct phase_result result = run(r, &w);
			assert_int_equal(r->count, 10 * blocks);
			for (unsigned i = 0; i < r->count; i++) {
				seen[r->log[i].offset / MiB]++;
				for (unsigned back = 1; back <= 2 && back <= i; back++) {
					assert_int_not_equal(r->log[i].offset, r->log[i - back].offset);
					assert_int_not_equal(r->log[i].offset, r->log[i - back].offset + MiB);
				}
				if (i % blocks == blocks - 1)
					for (unsigned k = 0; k < blocks; k++)
						assert_int_equal(seen[k], i / blocks + 1);
			}
			phase_result_release(&result);
		}
}

VIRTUAL_TEST(two_random_blocks_are_enough)
{
	struct recorder *r = recorder(MS);
	struct workload w = scattered(100, MiB, 2 * MiB, 1, 0);

	w.total_bytes = 20 * MiB;
	struct phase_result result = run(r, &w);
	assert_int_equal(r->count, 20);
	phase_result_release(&result);
}

VIRTUAL_TEST(mixed_keeps_its_share)
{
	struct recorder *r = recorder(MS);
	struct workload w = scattered(67, 4 * KiB, 8 * MiB, 4, 0);
	unsigned reads = 0;

	w.total_bytes = w.span_bytes;
	struct phase_result result = run(r, &w);
	for (unsigned i = 0; i < r->count; i++)
		reads += r->log[i].op == 'r';
	assert_near(reads / 2048.0, 0.67, 0.05);
	assert_int_equal(result.read_bytes + result.write_bytes, 8 * MiB);
	phase_result_release(&result);
}

VIRTUAL_TEST(read_then_write_does_both_and_counts_once)
{
	struct recorder *r = recorder(MS);
	struct workload w = sequential(50, 64 * KiB, MiB);

	w.read_then_write = true;
	struct phase_result result = run(r, &w);
	for (unsigned i = 0; i < 32; i++) {
		assert_int_equal(r->log[i].op, i % 2 ? 'w' : 'r');
		assert_int_equal(r->log[i].offset, i / 2 * 64 * KiB);
	}
	assert_int_equal(result.bytes, MiB);
	assert_int_equal(result.read_bytes, MiB);
	assert_int_equal(result.write_bytes, MiB);
	phase_result_release(&result);
}

VIRTUAL_TEST(a_flush_comes_after_every_so_many_bytes)
{
	struct recorder *r = recorder(MS);
	struct workload w = sequential(0, 64 * KiB, MiB);

	w.flush_every_bytes = 256 * KiB;
	struct phase_result result = run(r, &w);
	assert_int_equal(r->flushes, 4 + 1);
	assert_int_equal(result.flush_count, 4);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(r->log[i].op, i % 5 == 4 ? 'f' : 'w');
	assert_near((double)histogram_percentile(result.flush_latency, 50), 50e6, 0.01);
	phase_result_release(&result);
}

/* --- when it ends ------------------------------------------------------------------------------------------------ */

VIRTUAL_TEST(time_ends_it)
{
	struct recorder *r = recorder(10 * MS);
	struct workload w = scattered(100, 64 * KiB, MiB, 2, SECOND);

	struct phase_result result = run(r, &w);
	assert_int_equal(result.ops, 200);
	assert_near((double)result.elapsed_ns, 1e9, 0.011);
	phase_result_release(&result);
}

VIRTUAL_TEST(bytes_or_time_whichever_is_first)
{
	struct recorder *r = recorder(10 * MS);
	struct workload w = sequential(100, 64 * KiB, MiB);

	w.duration_ns = 50 * MS;
	struct phase_result result = run(r, &w);
	assert_int_equal(result.ops, 5);
	phase_result_release(&result);
	w.duration_ns = 5 * SECOND;
	result = run(r, &w);
	assert_int_equal(result.ops, 16);
	phase_result_release(&result);
}

VIRTUAL_TEST(it_goes_round_until_it_was_long_enough)
{
	struct recorder *r = recorder(10 * MS);
	struct workload w = sequential(100, 64 * KiB, MiB);

	w.minimum_ns = SECOND;
	struct phase_result result = run(r, &w);
	assert_int_equal(result.ops, 100);
	assert_int_equal(r->log[16].offset, 0);
	assert_near((double)result.elapsed_ns, 1e9, 0.02);
	phase_result_release(&result);
}

VIRTUAL_TEST(the_first_failure_stops_all)
{
	struct recorder *r = recorder(MS);
	struct workload w = sequential(0, 64 * KiB, 8 * MiB);

	w.depth = 4;
	r->fail_at = 20;
	struct phase_result result = run(r, &w);
	assert_int_equal(result.failure.code, ERR_IO);
	assert_non_null(strstr(result.failure.text, "operation 20"));
	assert_in_range(r->count, 20, 24);
	assert_int_equal(r->flushes, 0);
	phase_result_release(&result);
}

VIRTUAL_TEST(a_failing_flush_fails_the_phase)
{
	struct recorder *r = recorder(MS);
	struct workload w = sequential(0, 64 * KiB, MiB);

	r->flush_fails = true;
	struct phase_result result = run(r, &w);
	assert_int_equal(result.failure.code, ERR_SPACE);
	phase_result_release(&result);
}

/* --- bench_run around it ----------------------------------------------------------------------------------------- */

VIRTUAL_TEST(a_failed_cell_has_no_figure)
{
	struct recorder *r = recorder(MS);
	struct workload w = sequential(0, 64 * KiB, 8 * MiB);

	r->bytes = calloc(1, 64 * MiB);
	r->flush_fails = true;
	struct cell c = run_on(&r->target, &w, NULL);
	assert_verdict(&c, VERDICT_FAILED);
	assert_non_null(strstr(c.notes[0].reason, "no space left at the flush"));
	assert_true(isnan(c.mb_per_s) && isnan(c.iops) && c.sample_count == 0 && c.latency_p50_ns == RESULT_NONE);
}

VIRTUAL_TEST(lost_writes_are_a_mismatch)
{
	struct recorder *r = recorder(10 * MS);
	struct workload w = sequential(0, 64 * KiB, 8 * MiB);
	struct cell c = run_on(&r->target, &w, NULL); /* keeps nothing */

	assert_verdict(&c, VERDICT_FAILED);
	assert_non_null(strstr(c.notes[0].reason, "mismatch"));
	r = recorder(10 * MS);
	r->bytes = calloc(1, 64 * MiB);
	c = run_on(&r->target, &w, NULL);
	assert_verdict(&c, VERDICT_VALID);
}

VIRTUAL_TEST(an_interrupt_keeps_what_there_is)
{
	struct recorder *r = recorder(100 * MS);
	struct workload w = sequential(100, 64 * KiB, 8 * MiB);
	struct error err = ERROR_INIT;
	struct cell c;

	r->interrupts = true;
	cell_init(&c);
	os_interrupt_clear();
	assert_int_equal(bench_run(&r->target, &w, NULL, NULL, &c, &err), ERR_INTERRUPTED);
	os_interrupt_clear();
	assert_in_range(r->count, 10, 11);
	assert_true(c.logical_bytes >= 10 * 64 * KiB && c.logical_bytes <= 11 * 64 * KiB);
}

VIRTUAL_TEST(repeats_end_when_the_interval_is_narrow)
{
	struct recorder *r = recorder(10 * MS);
	struct workload w = sequential(100, 64 * KiB, 8 * MiB);

	w.repeats_min = 3;
	w.repeats_max = 10;
	w.interval_wanted = 0.05;
	struct cell c = run_on(&r->target, &w, NULL);
	assert_int_equal(r->count, 3 * 128);
	assert_int_equal(c.sample_count, 3);
	assert_near(c.mb_per_s, 64 * KiB / 10e6 * 1000, 0.001);
	assert_near(c.elapsed_s, 3.84, 0.001);
	assert_verdict(&c, VERDICT_VALID);
}

/* A stall of 0.1 s after every 400 ms of work: two seconds hold four of them, and windows with and without. */
VIRTUAL_TEST(a_phase_whose_windows_do_not_agree_is_run_again_and_longer)
{
	struct error err = ERROR_INIT;
	struct cell cell;
	double elapsed_s[2];

	for (unsigned longer = 0; longer < 2; longer++) {
		struct recorder *r = recorder(4 * MS);
		struct workload w = scattered(100, 64 * KiB, 8 * MiB, 1, 2 * SECOND);

		r->stall_every = 100;
		r->stall_ns = 100 * MS;
		w.lengthen_max = longer ? 16 : 1;
		cell_init(&cell);
		assert_ok(bench_run(&r->target, &w, &far_limit, NULL, &cell, &err), &err);
		elapsed_s[longer] = cell.elapsed_s;
		assert_near(cell.elapsed_s * cell.mb_per_s, (double)cell.logical_bytes / 1e6, 0.001); /* of one phase */
		if (longer)
			assert_int_equal(cell.verdict, VERDICT_VALID);
		else
			assert_true(cell.verdict == VERDICT_NOT_STEADY);
	}
	assert_near(elapsed_s[0], 2, 0.2);
	assert_true(elapsed_s[1] >= 4 && elapsed_s[1] <= 33);
	assert_non_null(strstr(cell.options, "times as long"));
}

VIRTUAL_TEST(a_phase_whose_windows_agree_is_not_run_again)
{
	struct recorder *r = recorder(MS);
	struct workload w = scattered(100, 64 * KiB, 8 * MiB, 1, 2 * SECOND);
	struct error err = ERROR_INIT;
	struct cell cell;

	w.lengthen_max = 16;
	cell_init(&cell);
	assert_ok(bench_run(&r->target, &w, &far_limit, NULL, &cell, &err), &err);
	assert_in_range(r->count, 1990, 2010);
	assert_null(strstr(cell.options, "as long"));
}

VIRTUAL_TEST(percentiles_need_enough_samples)
{
	struct recorder *r = recorder(10 * MS);
	struct workload w = sequential(100, 64 * KiB, 64 * KiB * 999);
	struct cell c = run_on(&r->target, &w, NULL);

	assert_near((double)c.latency_p50_ns, 10e6, 0.01);
	assert_near((double)c.latency_p95_ns, 10e6, 0.01);
	assert_true(c.latency_p99_ns == RESULT_NONE && c.latency_p999_ns == RESULT_NONE); /* 999 < 10/(1 - 0.99) */
	assert_int_equal(c.latency_max_ns, 10 * MS);
	r = recorder(10 * MS);
	w = sequential(100, 32 * KiB, 32 * KiB * 1000);
	c = run_on(&r->target, &w, NULL);
	assert_near((double)c.latency_p99_ns, 10e6, 0.01);
	assert_true(c.latency_p999_ns == RESULT_NONE);
}

VIRTUAL_TEST(what_makes_no_sense_is_refused)
{
	struct recorder *r = recorder(MS);
	struct error err = ERROR_INIT;
	struct cell c;
	struct workload good = sequential(0, 64 * KiB, MiB), w;

	cell_init(&c);
#define REFUSED(change, code)                                                                                          \
	do {                                                                                                           \
		w = good;                                                                                              \
		change;                                                                                                \
		error_clear(&err);                                                                                     \
		assert_int_equal(bench_run(&r->target, &w, NULL, NULL, &c, &err), code);                               \
		assert_true(err.text[0]);                                                                              \
	} while (0)
	REFUSED(w.block_bytes = 0, ERR_USAGE);
	REFUSED(w.block_bytes = 100, ERR_USAGE);
	REFUSED(w.depth = 0, ERR_USAGE);
	REFUSED(w.jobs = 0, ERR_USAGE);
	REFUSED(w.read_percent = 101, ERR_USAGE);
	REFUSED(w.span_bytes = 65 * MiB, ERR_USAGE);
	REFUSED(w.span_offset_bytes = UINT64_MAX - 511, ERR_USAGE);
	REFUSED(w.span_bytes = 32 * KiB, ERR_TOO_SMALL);
	REFUSED(w.jobs = 17, ERR_TOO_SMALL);
	assert_int_equal(r->count, 0);
}

VIRTUAL_TEST(a_fill_writes_every_byte_once)
{
	struct recorder *r = recorder(MS);
	struct workload w = scattered(100, 8 * KiB, 40 * MiB + 512, 4, SECOND);
	struct error err = ERROR_INIT;

	w.span_offset_bytes = 2 * MiB;
	assert_ok(bench_fill(&r->target, &w, NULL, &err), &err);
	uint64_t at = 2 * MiB;
	for (unsigned i = 0; i + 1 < r->count; i++) {
		assert_int_equal(r->log[i].op, 'w');
		assert_int_equal(r->log[i].offset, at);
		at += r->log[i].length;
	}
	assert_int_equal(at, 42 * MiB + 512);
	assert_int_equal(r->log[r->count - 1].op, 'f');
}

static unsigned said;
static void count_progress(void *arg, const char *phase, double share, double mb_per_s)
{
	assert_string_equal(phase, "test");
	assert_true(share >= 0 && share <= 1 && mb_per_s >= 0);
	said++;
}

VIRTUAL_TEST(progress_is_told)
{
	struct recorder *r = recorder(10 * MS);
	struct workload w = sequential(100, 64 * KiB, 8 * MiB);
	struct bench_progress progress = {count_progress, NULL};
	struct error err = ERROR_INIT;
	struct cell c;

	cell_init(&c);
	said = 0;
	assert_ok(bench_run(&r->target, &w, NULL, &progress, &c, &err), &err);
	assert_in_range(said, 5, 30);
}

VIRTUAL_TEST(a_queue_and_threads_do_the_same_work)
{
	struct disks d = {0};
	struct workload w = scattered(0, 4 * KiB, 8 * MiB, 8, 0);

	w.total_bytes = w.span_bytes;
	disks_open_more(&d, "mem:8MiB+model=ssd-sata");
	struct target *t = target_of(&d);
	assert_non_null(t->ops->disk);
	struct cell by_queue = run_on(t, &w, NULL);
	assert_int_equal(by_queue.logical_bytes, 8 * MiB);
	assert_int_equal(by_queue.device_write_bytes, 8 * MiB);
	struct target_ops calls = *t->ops;
	calls.disk = NULL;
	t->ops = &calls;
	struct cell by_threads = run_on(t, &w, NULL);
	assert_near(by_threads.elapsed_s, by_queue.elapsed_s, 0.05);
	target_close(t);
	disks_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sequential_stream_covers_its_span_once_in_order),
		cmocka_unit_test(depth_keeps_the_order_of_a_stream),
		cmocka_unit_test(jobs_have_regions_of_their_own),
		cmocka_unit_test(random_takes_every_block_once_a_round_in_another_order),
		cmocka_unit_test(of_few_random_blocks_none_is_followed_by_its_neighbour),
		cmocka_unit_test(two_random_blocks_are_enough),
		cmocka_unit_test(mixed_keeps_its_share),
		cmocka_unit_test(read_then_write_does_both_and_counts_once),
		cmocka_unit_test(a_flush_comes_after_every_so_many_bytes),
		cmocka_unit_test(time_ends_it),
		cmocka_unit_test(bytes_or_time_whichever_is_first),
		cmocka_unit_test(it_goes_round_until_it_was_long_enough),
		cmocka_unit_test(the_first_failure_stops_all),
		cmocka_unit_test(a_failing_flush_fails_the_phase),
		cmocka_unit_test(a_failed_cell_has_no_figure),
		cmocka_unit_test(lost_writes_are_a_mismatch),
		cmocka_unit_test(an_interrupt_keeps_what_there_is),
		cmocka_unit_test(repeats_end_when_the_interval_is_narrow),
		cmocka_unit_test(a_phase_whose_windows_do_not_agree_is_run_again_and_longer),
		cmocka_unit_test(a_phase_whose_windows_agree_is_not_run_again),
		cmocka_unit_test(percentiles_need_enough_samples),
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(a_fill_writes_every_byte_once),
		cmocka_unit_test(progress_is_told),
		cmocka_unit_test(a_queue_and_threads_do_the_same_work),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
