/* Records through stripes and back: every group, every loss that it must survive, every lie of a disk. */
#include "stripe_batch.h"

/* --- worlds ---------------------------------------------------------------------------------------------------- */

static const struct shape shapes[] = {
	{"disk", {{GROUP_DISK, 1, 1, 0}}, 1},
	{"disks", {{GROUP_DISK, 1, 1, 0}, {GROUP_DISK, 1, 1, 0}}, 2},
	{"mirror2", {{GROUP_MIRROR, 2, 2, 1}}, 1},
	{"mirror3", {{GROUP_MIRROR, 3, 3, 2}}, 1},
	{"mirror2x2", {{GROUP_MIRROR, 2, 2, 1}, {GROUP_MIRROR, 2, 2, 1}}, 2},
	{"parity1", {{GROUP_PARITY, 4, 4, 1}}, 1},
	{"parity2", {{GROUP_PARITY, 6, 6, 2}}, 1},
	{"parity3", {{GROUP_PARITY, 7, 7, 3}}, 1},
	{"wide", {{GROUP_PARITY, 7, 4, 1}}, 1},
	{"parity1x2", {{GROUP_PARITY, 3, 3, 1}, {GROUP_PARITY, 4, 4, 1}}, 2},
};

static void every_group_gives_back_what_it_got_with_any_disks_gone(void **state)
{
	for (unsigned i = 0; i < array_count(shapes); i++) {
		const struct shape *s = &shapes[i];
		struct batch small, large;

		shape_open(s, NULL);
		batch_make(&small, 150, 40000, false, i);
		batch_make(&large, 9, MIB, false, i + 100);
		batch_write(&small);
		batch_write(&large);
		batch_is_whole(&small);
		batch_is_whole(&large);
		columns_agree();
		for (unsigned mask = 1; mask < 1u << world.pool->disk_count; mask++) {
			struct error err = ERROR_INIT;

			for (unsigned d = 0; d < world.pool->disk_count; d++)
				disk_state(d, mask >> d & 1 ? PD_MISSING : PD_ONLINE);
			if (survivable(s, mask)) {
				batch_is_whole(&small);
				batch_is_whole(&large);
				assert_int_equal(batch_read(&small, true, NULL), 0);
			} else if (mask % 7 == 0) {
				assert_true(batch_read(&small, false, &err) > 0);
				assert_int_equal(err.code, ERR_LOST);
			}
		}
		for (unsigned d = 0; d < world.pool->disk_count; d++)
			disk_state(d, PD_ONLINE);
		world_import(); /* sums and descriptors come from the entries */
		batch_is_whole(&small);
		columns_agree();
		batch_free(&small);
		batch_free(&large);
		world_close();
	}
}

static void a_stream_lies_in_long_rows(void **state)
{
	struct batch b;
	struct disk_counters c;

	shape_open(&shapes[5], NULL); /* 3 + 1; runs of 512 KiB */
	batch_make(&b, 96, 65536, true, 1);
	batch_write(&b);
	for (unsigned i = 0; i < 96; i++) {
		assert_int_equal(b.records[i].bp.column, i % 3);
		assert_int_equal(b.records[i].bp.stripe, i / 3 % 8);
	}
	for (unsigned d = 0; d < 4; d++) {
		disk_counters(world.pool->disks[d].disk, &c);
		assert_in_range(
			c.op[DISK_WRITE].done, 4, 5); /* of 512 KiB: one a run, but where a piece of the batch ends */
		assert_int_equal(c.op[DISK_WRITE].bytes, 2 * MIB);
	}
	assert_int_equal(batch_read(&b, true, NULL), 0);
	for (unsigned d = 0; d < 4; d++) {
		disk_counters(world.pool->disks[d].disk, &c);
		assert_in_range(c.op[DISK_READ].done, 1, 4);                /* runs side by side are one request */
		assert_int_equal(c.op[DISK_READ].bytes, 2 * MIB - MIB / 2); /* parity is not read */
	}
	batch_free(&b);
	world_close();
}

/* Its runs have their first copy on the one disk and on the other in turn. */
static void a_sequential_reader_of_a_mirror_stays_with_a_disk(void **state)
{
	struct batch head, between, tail, both = {0};
	unsigned used = 0;

	shape_open(&shapes[2], NULL);
	batch_make(&head, 8, 65536, true, 1); /* one run of 512 KiB */
	batch_write(&head);
	batch_make(&between, 32, 65536, true, 2);
	batch_write(&between);
	batch_make(&tail, 8, 65536, true, 3);
	batch_write(&tail);
	both.count = head.count + tail.count;
	both.records = calloc(both.count, sizeof *both.records);
	memcpy(both.records, head.records, head.count * sizeof *both.records);
	memcpy(both.records + head.count, tail.records, tail.count * sizeof *both.records);
	assert_int_equal(batch_read(&both, true, NULL), 0);
	for (unsigned d = 0; d < world.pool->disk_count; d++) {
		struct disk_counters c;

		disk_counters(world.pool->disks[d].disk, &c);
		used += c.op[DISK_READ].bytes > 0;
	}
	assert_int_equal(used, 1);
	free(both.records);
	batch_free(&tail);
	batch_free(&between);
	batch_free(&head);
	world_close();
}

/* --- lies ------------------------------------------------------------------------------------------------------ */

static uint64_t errors_of(const struct pool *p)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < p->disk_count; i++)
		n += p->disks[i].read_errors + p->disks[i].write_errors + p->disks[i].checksum_errors;
	return n;
}

static void other_bytes_are_found_and_made_good_in_a_new_place(void **state)
{
	for (unsigned i = 0; i < array_count(shapes); i++) {
		struct batch b;
		struct random r;
		struct error err = ERROR_INIT;
		unsigned parity = shapes[i].groups[0].parity;

		if (parity == 0)
			continue;
		for (unsigned bad = 1; bad <= parity; bad++) {
			shape_open(&shapes[i], NULL);
			random_seed(&r, i * 10 + bad);
			batch_make(&b, 60, 65536, false, i);
			batch_write(&b);
			/* `bad` columns of the stripe of one record, its own among them */
			const struct bp *bp = &b.records[random_below(&r, b.count)].bp;
			const struct run *run = run_find(world.pool, bp->run);
			unsigned width = run->k + run->p;
			struct disk_address was = run_place(run, bp->stripe, bp->column);
			for (unsigned n = 0; n < bad; n++)
				spoil(run_place(run, bp->stripe, (bp->column + n) % width), class_bytes[run->class],
					n + 1);
			batch_is_whole(&b);
			if (run->k > 1) /* of a mirror only the copy that is asked is seen */
				assert_true(world.pool->counters.reconstructed > 0);
			uint32_t version = run->version;
			must(repairs_run(world.pool, &err), &err);
			if (run->k > 1) {
				assert_true(run->version > version);
				assert_true(errors_of(world.pool) > 0);
				struct disk_address now = run_place(run, bp->stripe, bp->column);
				assert_true(was.disk != now.disk || was.unit != now.unit);
				uint64_t had = world.pool->counters.reconstructed;
				batch_is_whole(&b);
				assert_int_equal(world.pool->counters.reconstructed, had);
				columns_agree();
			}
			/* the descriptor decides, also after a replay: the hint is stale now */
			world_import();
			batch_is_whole(&b);
			batch_free(&b);
			world_close();
		}
	}
}

static void more_wrong_than_parity_is_lost_and_named(void **state)
{
	struct batch b;
	struct error err = ERROR_INIT;

	shape_open(&shapes[5], NULL);
	batch_make(&b, 12, 65536, true, 5);
	batch_write(&b);
	const struct run *run = run_find(world.pool, b.records[0].bp.run);
	spoil(run_place(run, 0, 0), 65536, 1);
	spoil(run_place(run, 0, 1), 65536, 2);
	assert_int_equal(batch_read(&b, false, &err), 2);
	assert_int_equal(err.code, ERR_LOST);
	assert_non_null(strstr(err.text, "mem:64MiB"));
	assert_non_null(strstr(err.text, "has other bytes"));
	assert_int_equal(world.pool->counters.unrecoverable, 2);
	assert_true(world.events > 0);
	batch_free(&b);
	world_close();
}

/* Sums gone (their tree cannot be read): parity alone, verified by the record's checksum. */
static void reconstruction_does_without_sums(void **state)
{
	for (unsigned i = 5; i < 8; i++) {
		struct batch b;
		unsigned parity = shapes[i].groups[0].parity;

		shape_open(&shapes[i], NULL);
		batch_make(&b, 40, 32768, true, i);
		batch_write(&b);
		struct run *run = run_find(world.pool, b.records[0].bp.run);
		run->sums_first = run->sums_end = run->stripes;
		spoil(run_place(run, 0, 0), 32768, 1);
		if (parity > 1) /* one more, that nothing but trying tells from the good ones */
			spoil(run_place(run, 0, 2), 32768, 2);
		batch_is_whole(&b);
		batch_free(&b);
		world_close();
	}
}

static void faults_of_writes_are_seen_later_or_at_once(void **state)
{
	static const char *const faults[] = {"lost", "misdirect", "torn", "eio,op=write", "vanish", "enospc", "rot"};

	for (unsigned f = 0; f < array_count(faults); f++)
		for (unsigned i = 2; i < array_count(shapes); i++)
			for (unsigned nth = 1; nth <= 5; nth += 2) {
				char spec[128];
				struct batch b, more;
				struct error err = ERROR_INIT;

				/* each disk has the fault, at a write of its own: so at most one column of a stripe is
				 * hit */
				snprintf(spec, sizeof spec, "mem:64MiB");
				shape_open(&shapes[i], spec);
				struct disk_specs specs = {0};
				struct disk_open_options o = {0};
				snprintf(spec, sizeof spec, "mem:64MiB+fault=%s,nth=%u", faults[f], nth);
				must(disk_specs_add(&specs, spec, &err), &err);
				unsigned victim = nth % world.pool->disk_count;
				disk_close(world.pool->disks[victim].disk);
				must(disk_open(&specs.items[0], &o, &world.pool->disks[victim].disk, &err), &err);
				disk_specs_release(&specs);
				batch_make(&b, 80, 20000, false, f * 100 + i);
				batch_make(&more, 30, 60000, false, f * 100 + i + 50);
				batch_write(&b);
				batch_write(&more);
				batch_is_whole(&b);
				batch_is_whole(&more);
				(void)repairs_run(world.pool, NULL);
				batch_is_whole(&b);
				world_import();
				batch_is_whole(&b);
				batch_is_whole(&more);
				batch_free(&b);
				batch_free(&more);
				world_close();
			}
}

static void a_failed_write_is_queued_and_a_disk_alone_tries_again(void **state)
{
	struct batch b;
	struct error err = ERROR_INIT;
	bool marked = false;
	struct run **runs;
	size_t n;

	shape_open(&shapes[5], "mem:64MiB+fault=eio,op=write,nth=2");
	/* every disk fails its second write: far too much for one stripe, which is then written again elsewhere */
	batch_make(&b, 60, 32768, true, 3);
	batch_write(&b);
	batch_is_whole(&b);
	must(repairs_run(world.pool, &err), &err);
	columns_agree();
	batch_free(&b);
	world_close();

	shape_open(&shapes[0], "mem:64MiB+fault=eio,op=write,nth=1");
	batch_make(&b, 20, 32768, true, 3);
	batch_write(&b);
	batch_is_whole(&b);
	assert_int_equal(world.pool->disks[0].write_errors, 1);
	batch_free(&b);
	world_close();

	shape_open(&shapes[6], "mem:64MiB");
	struct disk_specs specs = {0};
	struct disk_open_options o = {0};
	must(disk_specs_add(&specs, "mem:64MiB+fault=eio,op=write,nth=1", &err), &err);
	disk_close(world.pool->disks[2].disk);
	must(disk_open(&specs.items[0], &o, &world.pool->disks[2].disk, &err), &err);
	disk_specs_release(&specs);
	batch_make(&b, 60, 32768, true, 4);
	batch_write(&b);
	must(runs_list(world.pool, NULL, &runs, &n, &err), &err);
	for (size_t i = 0; i < n; i++)
		for (unsigned c = 0; c < runs[i]->k + runs[i]->p; c++)
			marked |= runs[i]->column_state[c] && runs[i]->repair >> c & 1;
	free(runs);
	assert_true(marked);
	assert_true(world.wakes > 0);
	must(repairs_run(world.pool, &err), &err);
	must(runs_list(world.pool, NULL, &runs, &n, &err), &err);
	for (size_t i = 0; i < n; i++)
		for (unsigned c = 0; c < runs[i]->k + runs[i]->p; c++)
			assert_int_equal(runs[i]->column_state[c], 0);
	free(runs);
	columns_agree();
	batch_free(&b);
	world_close();
}

static void disks_that_write_nothing_are_given_up(void **state)
{
	struct batch b;
	struct error err = ERROR_INIT;
	uint64_t free_bytes;

	shape_open(&shapes[5], "mem:64MiB+fault=eio,op=write");
	batch_make(&b, 30, 32768, true, 3);
	space_close_runs(world.pool);
	free_bytes = world.pool->disks[0].free_bytes;
	assert_int_equal(batch_try(&b, &err), ERR_IO);
	assert_true(err.text[0]);
	space_close_runs(world.pool);
	assert_int_equal(world.pool->disks[0].free_bytes, free_bytes); /* nothing stays behind */
	assert_int_equal(world.entry_count, 0);
	batch_free(&b);
	world_close();
}

static void full_disks_take_all_or_nothing(void **state)
{
	struct batch b;
	struct error err = ERROR_INIT;
	uint64_t live, free_bytes;

	for (unsigned i = 0; i < array_count(shapes); i++) {
		unsigned written = 0;

		shape_open(&shapes[i], NULL);
		for (;;) {
			batch_make(&b, 64, MIB / 2, true, written);
			space_close_runs(world.pool);
			live = world.pool->space->live_bytes;
			free_bytes = world.pool->disks[0].free_bytes;
			error_clear(&err);
			int rc = batch_try(&b, &err);
			if (rc) {
				assert_int_equal(rc, ERR_SPACE);
				space_close_runs(world.pool);
				assert_int_equal(world.pool->space->live_bytes, live);
				assert_int_equal(world.pool->disks[0].free_bytes, free_bytes);
				batch_free(&b);
				break;
			}
			written++;
			batch_free(&b);
		}
		/* small zones of one class: other sizes take larger columns, and come back from them */
		struct batch odd;
		batch_make(&odd, 5, 30000, true, 77);
		error_clear(&err);
		if (batch_try(&odd, &err) == 0) {
			batch_is_whole(&odd);
			columns_agree();
			world_import();
			batch_is_whole(&odd);
		}
		batch_free(&odd);
		world_close();
	}
}

static void a_larger_column_than_needed_is_right_too(void **state)
{
	for (unsigned i = 0; i < array_count(shapes); i++) {
		struct batch b, odd;
		struct pool *p;

		shape_open(&shapes[i], NULL);
		p = world.pool;
		batch_make(&b, 45, 90000, true, 1); /* 96 KiB columns */
		batch_write(&b);
		for (unsigned d = 0; d < p->disk_count; d++)
			for (unsigned z = 0; z < p->disks[d].zone_count; z++)
				if (p->disks[d].zones[z].class == ZONE_FREE) { /* no other zone is to be had */
					p->disks[d].zones[z].class = CLASS_META;
					p->disks[d].zones[z].used = UINT32_MAX / 2;
					p->disks[d].zones[z].longest = 0;
					p->disks[d].zones_free--;
				}
		batch_make(&odd, 11, 30000, false, 2);
		batch_write(&odd);
		batch_is_whole(&odd);
		columns_agree();
		unsigned class = run_find(p, odd.records[0].bp.run)->class;
		assert_int_equal(class_bytes[class], 96 << 10);
		for (unsigned d = 0; d < p->disk_count; d++) {
			if (!survivable(&shapes[i], 1u << d))
				continue;
			disk_state(d, PD_MISSING);
			batch_is_whole(&odd);
			disk_state(d, PD_ONLINE);
		}
		for (unsigned d = 0; d < p->disk_count; d++)
			for (unsigned z = 0; z < p->disks[d].zone_count; z++)
				if (p->disks[d].zones[z].class == CLASS_META)
					p->disks[d].zones[z].class = ZONE_FREE;
		batch_free(&b);
		batch_free(&odd);
		world_close();
	}
}

static void a_failed_flush_faults_the_disk(void **state)
{
	struct batch b;
	struct error err = ERROR_INIT;

	shape_open(&shapes[5], "mem:64MiB");
	struct disk_specs specs = {0};
	struct disk_open_options o = {0};
	must(disk_specs_add(&specs, "mem:64MiB+fault=eio,op=flush*2", &err), &err);
	for (unsigned i = 0; i < 2; i++) {
		disk_close(world.pool->disks[i + 1].disk);
		must(disk_open(&specs.items[i], &o, &world.pool->disks[i + 1].disk, &err), &err);
	}
	disk_specs_release(&specs);
	disk_state(2, PD_OFFLINE);
	must(disks_flush(world.pool, &err), &err); /* nobody wrote */
	disk_state(2, PD_ONLINE);
	world.pool->disks[1].unflushed = true;
	must(disks_flush(world.pool, &err), &err); /* one of four: it goes on */
	assert_int_equal(world.faults, 1);
	assert_int_equal(world.pool->disks[1].state, PD_FAULTED);
	batch_make(&b, 40, 32768, true, 1);
	batch_write(&b);
	batch_is_whole(&b);
	assert_int_equal(disks_flush(world.pool, &err), ERR_IO); /* the second is too much */
	assert_int_equal(world.faults, 2);
	batch_free(&b);
	world_close();
}

static void no_memory_for_the_log_leaves_nothing(void **state)
{
	struct batch b;
	struct error err = ERROR_INIT;

	shape_open(&shapes[5], NULL);
	batch_make(&b, 40, 32768, true, 1);
	world.fail_append = true;
	assert_int_equal(batch_try(&b, &err), ERR_MEMORY);
	assert_int_equal(world.pool->space->live_bytes, 0);
	world.fail_append = false;
	batch_write(&b);
	batch_is_whole(&b);
	batch_free(&b);
	world_close();
}

/* --- two writers ----------------------------------------------------------------------------------------------- */

struct writer {
	struct batch batches[3];
	struct os_thread *thread;
};

static void write_three(void *arg)
{
	struct writer *w = arg;

	for (unsigned i = 0; i < 3; i++)
		batch_write(&w->batches[i]);
	for (unsigned i = 0; i < 3; i++)
		batch_is_whole(&w->batches[i]);
}

struct together {
	unsigned seed;
	uint64_t hash;
};

static uint64_t disks_hash(void)
{
	uint8_t *buffer = aligned_alloc(4096, MIB);
	struct error err = ERROR_INIT;
	uint64_t hash = 0;

	for (unsigned d = 0; d < world.pool->disk_count; d++)
		for (uint64_t at = 0; at < 16 * MIB; at += MIB) {
			must(disk_read(world.pool->disks[d].disk, at, buffer, MIB, &err), &err);
			hash = hash * 31 + checksum_xxh3(buffer, MIB);
		}
	free(buffer);
	return hash;
}

static int two_writers(void *arg)
{
	struct together *t = arg;
	struct writer writers[2];
	struct error err = ERROR_INIT;
	const struct shape *s = &shapes[t->seed % array_count(shapes)];

	shape_open(s, t->seed % 2 ? "mem:64MiB+model=hdd-7200-2008" : "mem:64MiB+model=ssd-sata");
	must(workers_open(&world.pool->workers, 2, &err), &err);
	for (unsigned w = 0; w < 2; w++)
		for (unsigned i = 0; i < 3; i++)
			batch_make(&writers[w].batches[i], 40, 50000, false, t->seed * 10 + w * 3 + i);
	for (unsigned w = 0; w < 2; w++)
		must(os_thread_create(&writers[w].thread, "writer", write_three, &writers[w], &err), &err);
	for (unsigned w = 0; w < 2; w++)
		os_thread_join(writers[w].thread);
	columns_agree();
	t->hash = disks_hash();
	workers_close(world.pool->workers);
	world_import();
	for (unsigned w = 0; w < 2; w++)
		for (unsigned i = 0; i < 3; i++) {
			batch_is_whole(&writers[w].batches[i]);
			batch_free(&writers[w].batches[i]);
		}
	world_close();
	return 0;
}

static void two_writers_at_once_are_both_right_and_the_same_each_time(void **state)
{
	for (unsigned seed = 0; seed < seeds(20); seed++) {
		struct together first = {.seed = seed}, second = {.seed = seed};

		simulated(two_writers, &first, seed);
		if (seed % 5)
			continue;
		simulated(two_writers, &second, seed);
		assert_int_equal(first.hash, second.hash);
	}
}

static void two_real_threads_do_as_well(void **state)
{
	struct together t = {.seed = 6};

	two_writers(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_group_gives_back_what_it_got_with_any_disks_gone),
		cmocka_unit_test(a_stream_lies_in_long_rows),
		cmocka_unit_test(a_sequential_reader_of_a_mirror_stays_with_a_disk),
		cmocka_unit_test(other_bytes_are_found_and_made_good_in_a_new_place),
		cmocka_unit_test(more_wrong_than_parity_is_lost_and_named),
		cmocka_unit_test(reconstruction_does_without_sums),
		cmocka_unit_test(faults_of_writes_are_seen_later_or_at_once),
		cmocka_unit_test(a_failed_write_is_queued_and_a_disk_alone_tries_again),
		cmocka_unit_test(disks_that_write_nothing_are_given_up),
		cmocka_unit_test(full_disks_take_all_or_nothing),
		cmocka_unit_test(a_larger_column_than_needed_is_right_too),
		cmocka_unit_test(a_failed_flush_faults_the_disk),
		cmocka_unit_test(no_memory_for_the_log_leaves_nothing),
		cmocka_unit_test(two_writers_at_once_are_both_right_and_the_same_each_time),
		cmocka_unit_test(two_real_threads_do_as_well),
	};

	return cmocka_run_group_tests_name("pool stripe", tests, NULL, NULL);
}
