/* Scrub finds all that is wrong, once; what an absent disk missed is kept in mind; and how fast stripes move in virtual
 * time. */
#include "stripe_batch.h"

static const struct shape shapes[] = {
	{"mirror2", {{GROUP_MIRROR, 2, 2, 1}}, 1},
	{"mirror3", {{GROUP_MIRROR, 3, 3, 2}}, 1},
	{"parity1", {{GROUP_PARITY, 4, 4, 1}}, 1},
	{"parity2", {{GROUP_PARITY, 6, 6, 2}}, 1},
	{"parity3", {{GROUP_PARITY, 7, 7, 3}}, 1},
	{"wide", {{GROUP_PARITY, 7, 4, 1}}, 1},
	{"parity1x2", {{GROUP_PARITY, 3, 3, 1}, {GROUP_PARITY, 4, 4, 1}}, 2},
};

static struct pool_scrub_status scrub(void)
{
	struct pool_scrub_status s;
	struct error err = ERROR_INIT;

	must(pool_scrub(world.pool, NULL, NULL, &s, &err), &err);
	assert_true(s.finished);
	assert_false(s.running);
	assert_int_equal(s.done_bytes, s.total_bytes);
	return s;
}

static void wrong_columns_are_found_and_a_second_scrub_is_clean(void **state)
{
	for (unsigned seed = 0; seed < seeds(21); seed++) {
		const struct shape *s = &shapes[seed % array_count(shapes)];
		struct batch b;
		struct random r;
		struct run **runs;
		size_t n;
		uint64_t spoiled = 0;

		shape_open(s, NULL);
		random_seed(&r, seed);
		batch_make(&b, 120, 60000, false, seed);
		batch_write(&b);
		must(runs_list(world.pool, NULL, &runs, &n, NULL), NULL);
		/* up to p columns of many stripes, parity included */
		for (size_t i = 0; i < n; i++)
			for (uint32_t at = 0; at < runs[i]->stripes; at++) {
				unsigned width = runs[i]->k + runs[i]->p, first = (unsigned)random_below(&r, width);

				if (bit_get(runs[i]->returned, at))
					continue;
				for (unsigned c = (unsigned)random_below(&r, runs[i]->p + 1); c; c--, spoiled++)
					spoil(run_place(runs[i], at, (first + c) % width), class_bytes[runs[i]->class],
						spoiled + 1);
			}
		free(runs);
		struct pool_scrub_status first = scrub();
		assert_int_equal(first.errors, spoiled);
		assert_int_equal(first.repaired, spoiled);
		assert_int_equal(first.unrecoverable, 0);
		struct pool_scrub_status second = scrub();
		assert_int_equal(second.errors, 0);
		batch_is_whole(&b);
		assert_int_equal(world.pool->counters.reconstructed, 0);
		world_import();
		columns_agree();
		batch_is_whole(&b);
		batch_free(&b);
		world_close();
	}
}

static void parity_that_its_sums_agree_with_but_data_does_not_is_found(void **state)
{
	struct batch b;

	shape_open(&shapes[3], NULL);
	batch_make(&b, 4, 65536, true, 3);
	batch_write(&b);
	struct run *run = run_find(world.pool, b.records[0].bp.run);
	uint8_t *noise = aligned_alloc(4096, 65536);
	fill(noise, 9, 65536);
	run->sums[4] = checksum_crc32c(noise, 65536); /* of P */
	spoil(run_place(run, 0, 4), 65536, 9);
	free(noise);
	struct pool_scrub_status s = scrub();
	assert_true(s.errors > 0);
	assert_int_equal(s.unrecoverable, 0);
	batch_is_whole(&b);
	batch_free(&b);
	world_close();
}

static void what_cannot_be_made_whole_is_counted_as_lost(void **state)
{
	struct batch b;

	shape_open(&shapes[2], NULL);
	batch_make(&b, 6, 65536, true, 3);
	batch_write(&b);
	const struct run *run = run_find(world.pool, b.records[0].bp.run);
	spoil(run_place(run, 0, 0), 65536, 1);
	spoil(run_place(run, 0, 1), 65536, 2);
	struct pool_scrub_status s = scrub();
	assert_int_equal(s.unrecoverable, 1);
	struct error err = ERROR_INIT;
	assert_int_equal(batch_read(&b, false, &err), 2); /* the rest of the run is as it was */
	assert_int_equal(err.code, ERR_LOST);
	batch_free(&b);
	world_close();
}

/* --- a disk that was away -------------------------------------------------------------------------------------- */

static void a_disk_that_is_back_is_brought_up_to_date_and_an_absent_one_is_not_forgotten(void **state)
{
	for (unsigned i = 0; i < array_count(shapes); i++) {
		const struct shape *s = &shapes[i];
		struct batch before, meanwhile, after;
		struct pool_disk *d;

		shape_open(s, NULL);
		d = world.pool->disks;
		batch_make(&before, 60, 40000, false, i);
		batch_write(&before);
		world.pool->commit_durable++;
		disk_fault(world.pool, 1, "it went"); /* written but not flushed: some of it is not there */
		world.pool->disks[1].config->missed_from = 1;
		struct run **runs;
		size_t n;
		must(runs_list(world.pool, NULL, &runs, &n, NULL), NULL);
		for (size_t k = 0; k < n; k++)
			for (unsigned c = 0; c < runs[k]->k + runs[k]->p; c++)
				if (runs[k]->column[c].disk == 1)
					spoil(run_place(runs[k], 0, c), class_bytes[runs[k]->class], k + 1);
		free(runs);
		batch_make(&meanwhile, 60, 40000, false, i + 50);
		batch_write(&meanwhile);
		batch_is_whole(&before);
		batch_is_whole(&meanwhile);
		/* absent: a scrub may not clear what it missed (POOL-7) */
		scrub();
		assert_int_equal(d[1].config->missed_from, 1);
		disk_state(1, PD_ONLINE);
		batch_is_whole(&before);
		batch_make(&after, 20, 40000, false, i + 90);
		batch_write(&after);
		scrub();
		assert_int_equal(d[1].config->missed_from, 0);
		assert_int_equal(scrub().errors, 0);
		columns_agree();
		/* now any other may go */
		for (unsigned gone = 0; gone < world.pool->disk_count; gone++) {
			if (gone == 1)
				continue;
			disk_state(gone, PD_MISSING);
			batch_is_whole(&before);
			batch_is_whole(&meanwhile);
			batch_is_whole(&after);
			disk_state(gone, PD_ONLINE);
		}
		world_import();
		columns_agree();
		batch_free(&before);
		batch_free(&meanwhile);
		batch_free(&after);
		world_close();
	}
}

static bool stop_at_once(void *arg, uint64_t done, uint64_t total)
{
	unsigned *calls = arg;

	return ++*calls < 3;
}

static void a_scrub_stops_when_told(void **state)
{
	struct batch b;
	unsigned calls = 0;
	struct error err = ERROR_INIT;
	struct pool_status *status = calloc(1, sizeof *status);

	shape_open(&shapes[2], NULL);
	batch_make(&b, 200, 60000, false, 1);
	batch_write(&b);
	assert_int_equal(pool_scrub(world.pool, stop_at_once, &calls, NULL, &err), ERR_INTERRUPTED);
	scrub_status(world.pool, status);
	assert_false(status->scrub.running);
	assert_false(status->scrub.finished);
	assert_true(status->scrub.done_bytes < status->scrub.total_bytes);
	scrub();
	free(status);
	batch_free(&b);
	world_close();
}

/* Columns die, checkpoints pass, writers write, while columns move: nothing is read from a place that was given away.
 */
static int moving_world(void *arg)
{
	unsigned seed = *(unsigned *)arg;
	const struct shape *s = &shapes[seed % array_count(shapes)];
	struct batch batches[12] = {{0}};
	struct random r;
	bool alive[12] = {false};

	random_seed(&r, seed);
	shape_open(s, NULL);
	for (unsigned step = 0; step < 120; step++) {
		unsigned i = (unsigned)random_below(&r, 12);

		switch (random_below(&r, 5)) {
		case 0:
		case 1:
			if (!alive[i]) {
				batch_make(&batches[i], 1 + (unsigned)random_below(&r, 50), 50000, false,
					seed * 1000 + step);
				batch_write(&batches[i]);
				alive[i] = true;
			} else {
				for (unsigned n = 0; n < batches[i].count; n++) {
					const struct bp *bp = &batches[i].records[n].bp;

					os_mutex_lock(&world.pool->lock);
					run_column_dead(world.pool, bp->run, bp->stripe, bp->column);
					os_mutex_unlock(&world.pool->lock);
				}
				batch_free(&batches[i]);
				alive[i] = false;
			}
			break;
		case 2:
			world_checkpoint();
			break;
		case 3:
			if (alive[i]) {
				const struct bp *bp = &batches[i].records[random_below(&r, batches[i].count)].bp;
				const struct run *run = run_find(world.pool, bp->run);

				spoil(run_place(run, bp->stripe, (unsigned)random_below(&r, run->k + run->p)),
					class_bytes[run->class], step);
				batch_is_whole(&batches[i]);
				/* A second wrong column of one stripe would be too much for some: this one is mended
				 * first. */
				scrub();
			}
			break;
		default:
			if (alive[i])
				batch_is_whole(&batches[i]);
		}
	}
	columns_agree();
	for (unsigned i = 0; i < 12; i++)
		if (alive[i]) {
			batch_is_whole(&batches[i]);
			batch_free(&batches[i]);
		}
	world_close();
	return 0;
}

static void moves_and_deaths_go_together(void **state)
{
	for (unsigned seed = 0; seed < seeds(14); seed++)
		moving_world(&seed);
}

/* --- how fast, in virtual time --------------------------------------------------------------------------------- */

#define SPEED_RECORD (128u << 10)
#define SPEED_BATCH 128u /* 16 MiB */
#define SPEED_BYTES (1ull << 30)
#define READ_BATCH 32u /* 4 MiB */
#define READ_THREADS 20u

struct speed {
	const char *model;
	struct shape shape;
	double write_share, read_share; /* of the disks' own rate */
	double disk_rate, write_rate, read_rate, scrub_rate, write_share_found, read_share_found;
	uint64_t next, done, early_ns, late_ns; /* late - early: for the middle half */
	struct bp *bps;
	uint8_t *data;
};

static struct speed *speed;

static void speed_writer(void *arg)
{
	unsigned total = (unsigned)(SPEED_BYTES / SPEED_RECORD);
	struct stored_record *records = calloc(SPEED_BATCH, sizeof *records), *list[SPEED_BATCH];
	struct error err = ERROR_INIT;

	for (;;) {
		os_mutex_lock(&world.pool->lock);
		uint64_t from = speed->next;
		speed->next += SPEED_BATCH;
		struct transaction *t = transaction_enter(world.pool);
		os_mutex_unlock(&world.pool->lock);
		if (from >= total) {
			transaction_leave(world.pool, t);
			break;
		}
		for (unsigned i = 0; i < SPEED_BATCH; i++) {
			records[i] = (struct stored_record){.class = class_of(128 << 10),
				.data = speed->data + (from + i) % 256 * SPEED_RECORD,
				.bp = {.kind = BP_DATA,
					.logical_bytes = SPEED_RECORD,
					.physical_bytes = SPEED_RECORD,
					.birth = 1}};
			list[i] = &records[i];
		}
		must(stripes_write(world.pool, t, list, SPEED_BATCH, false, &err), &err);
		for (unsigned i = 0; i < SPEED_BATCH; i++)
			speed->bps[from + i] = records[i].bp;
		os_mutex_lock(&world.pool->lock);
		transaction_leave(world.pool, t);
		os_mutex_unlock(&world.pool->lock);
	}
	free(records);
}

static void speed_reader(void *arg)
{
	unsigned total = (unsigned)(SPEED_BYTES / SPEED_RECORD);
	struct record_read *reads = calloc(READ_BATCH, sizeof *reads);
	uint8_t *buffers = aligned_alloc(4096, READ_BATCH * SPEED_RECORD);

	for (;;) {
		os_mutex_lock(&world.pool->lock);
		uint64_t from = speed->next;
		speed->next += READ_BATCH;
		os_mutex_unlock(&world.pool->lock);
		if (from >= total)
			break;
		for (unsigned i = 0; i < READ_BATCH; i++)
			reads[i] =
				(struct record_read){.bp = speed->bps[from + i], .buffer = buffers + i * SPEED_RECORD};
		stripes_read(world.pool, reads, READ_BATCH, true);
		for (unsigned i = 0; i < READ_BATCH; i++)
			assert_int_equal(reads[i].status, 0);
		os_mutex_lock(&world.pool->lock);
		speed->done += READ_BATCH;
		if (speed->done == total / 4)
			speed->early_ns = os_now_ns();
		if (speed->done == total / 4 * 3)
			speed->late_ns = os_now_ns();
		os_mutex_unlock(&world.pool->lock);
	}
	free(reads);
	free(buffers);
}

/* Some threads; the seconds that it took. */
static double seconds_of(unsigned count, void (*run)(void *))
{
	struct os_thread *threads[READ_THREADS];
	struct error err = ERROR_INIT;
	uint64_t begin = os_now_ns();

	speed->next = 0;
	for (unsigned i = 0; i < count; i++)
		must(os_thread_create(&threads[i], "speed", run, NULL, &err), &err);
	for (unsigned i = 0; i < count; i++)
		os_thread_join(threads[i]);
	must(disks_flush(world.pool, &err), &err);
	return (double)(os_now_ns() - begin) / 1e9;
}

/* What one such disk reads from its start, by itself. */
static double rate_of_disk(struct disk *d, uint64_t bytes)
{
	uint8_t *buffer = aligned_alloc(4096, MIB);
	struct error err = ERROR_INIT;
	uint64_t begin = os_now_ns();

	for (uint64_t at = 0; at < bytes; at += MIB)
		must(disk_read(d, MIB + at, buffer, MIB, &err), &err);
	free(buffer);
	return (double)bytes / ((double)(os_now_ns() - begin) / 1e9);
}

static int speed_world(void *arg)
{
	struct error err = ERROR_INIT;
	char spec[128];
	const struct shape *s = &speed->shape;
	unsigned disks = 0, data = 0;

	snprintf(spec, sizeof spec, "mem:1GiB+model=%s", speed->model);
	world_open(s->groups, s->group_count, spec, 1ull << 30, 16 * MIB, 4 * MIB);
	for (unsigned g = 0; g < s->group_count; g++) {
		disks += s->groups[g].disks;
		data += s->groups[g].disks - s->groups[g].disks / s->groups[g].width * s->groups[g].parity;
	}
	must(workers_open(&world.pool->workers, 2, &err), &err);
	speed->disk_rate = rate_of_disk(world.pool->disks[0].disk, SPEED_BYTES / data);
	double write_s = seconds_of(2, speed_writer);
	/* 80 MiB ahead, almost three runs: the disk that holds the parity of one is busy with the next two */
	seconds_of(READ_THREADS, speed_reader);
	double read_s =
		(double)(speed->late_ns - speed->early_ns) / 1e9 * 2; /* without the ends, where disks run dry */
	uint64_t begin = os_now_ns();
	struct pool_scrub_status st = scrub();
	assert_int_equal(st.errors, 0);
	speed->scrub_rate = (double)st.total_bytes / ((double)(os_now_ns() - begin) / 1e9);
	speed->write_rate = (double)SPEED_BYTES / write_s;
	speed->read_rate = (double)SPEED_BYTES / read_s;
	print_message(
		"%s, %u x %s: disk %.1f MB/s; write %.1f MB/s = %.3f x %u disks; read %.1f MB/s = %.3f x %u disks; "
		"scrub %.3f\n",
		s->name, disks, speed->model, speed->disk_rate / 1e6, speed->write_rate / 1e6,
		speed->write_rate / speed->disk_rate / data, data, speed->read_rate / 1e6,
		speed->read_rate / speed->disk_rate / disks, disks, speed->scrub_rate / speed->disk_rate / disks);
	speed->write_share_found = speed->write_rate / speed->disk_rate / data;
	speed->read_share_found = speed->read_rate / speed->disk_rate / disks;
	workers_close(world.pool->workers);
	world_close();
	return 0;
}

static void stripes_keep_the_disks_busy(void **state)
{
	static const struct speed speeds[] = {
		{"hdd-7200-2008", {"parity1", {{GROUP_PARITY, 8, 8, 1}}, 1}, 0.95, 0.95},
		{"hdd-7200-2008",
			{"mirrorx3", {{GROUP_MIRROR, 2, 2, 1}, {GROUP_MIRROR, 2, 2, 1}, {GROUP_MIRROR, 2, 2, 1}}, 3},
			0.95, 0.85},
		{"ssd-sata", {"parity1", {{GROUP_PARITY, 8, 8, 1}}, 1}, 0.90, 0.90},
	};

	for (unsigned i = 0; i < array_count(speeds); i++) {
		struct speed one = speeds[i];

		speed = &one;
		one.bps = calloc(SPEED_BYTES / SPEED_RECORD, sizeof *one.bps);
		one.data = aligned_alloc(4096, 256 * SPEED_RECORD);
		fill(one.data, 1, 256 * SPEED_RECORD);
		simulated(speed_world, NULL, 1);
		assert_true(one.write_share_found >= one.write_share);
		assert_true(one.read_share_found >= one.read_share);
		free(one.bps);
		free(one.data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_columns_are_found_and_a_second_scrub_is_clean),
		cmocka_unit_test(parity_that_its_sums_agree_with_but_data_does_not_is_found),
		cmocka_unit_test(what_cannot_be_made_whole_is_counted_as_lost),
		cmocka_unit_test(a_disk_that_is_back_is_brought_up_to_date_and_an_absent_one_is_not_forgotten),
		cmocka_unit_test(a_scrub_stops_when_told),
		cmocka_unit_test(moves_and_deaths_go_together),
		cmocka_unit_test(stripes_keep_the_disks_busy),
	};

	return cmocka_run_group_tests_name("pool scrub", tests, NULL, NULL);
}
