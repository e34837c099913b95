/* Check and repair, members that fail while it runs, replace, rebuild that is interrupted, attach and detach. */
#include "world.h"

static struct array_status *status_of(struct world *w)
{
	static struct array_status st;

	array_status_get(w->array, &st);
	return &st;
}

static void fill(struct world *w)
{
	for (uint64_t at = 0; at < w->size; at += 1 << 20)
		world_write(w, at, w->size - at < 1 << 20 ? w->size - at : 1 << 20);
	world_flush(w);
}

static void world_spec(struct world *w, unsigned index, const char *spec)
{
	struct disk_specs list = {0};
	struct error err = ERROR_INIT;

	must(disk_specs_add(&list, spec, &err), &err);
	if (w->disks[index])
		disk_close(w->disks[index]);
	must(disk_open(&list.items[0], NULL, &w->disks[index], &err), &err);
	disk_specs_release(&list);
}

static void flip(struct disk *d, uint64_t at)
{
	struct error err = ERROR_INIT;
	uint8_t *sector = aligned_alloc(4096, 4096);

	must(disk_read(d, at / 512 * 512, sector, 512, &err), &err);
	sector[at % 512] ^= 0x10;
	must(disk_write(d, at / 512 * 512, sector, 512, &err), &err);
	free(sector);
}

struct rot {
	const char *layout;
	unsigned disks;
	bool told;   /* the member at fault */
	bool mended; /* the bytes are right again, whoever was at fault */
};

/* One flipped byte on each member in turn: found, and where it can be told who lies, mended. */
static int rot(void *arg)
{
	const struct rot *r = arg;

	for (unsigned m = 0; m < r->disks; m++) {
		struct world w;
		struct array_check_result c;
		struct error err = ERROR_INIT;

		world_init(&w, m);
		world_disks(&w, r->disks, 20 << 20);
		world_create(&w, r->layout, 64 << 10, ARRAY_HOLE_LOG);
		world_open(&w);
		fill(&w);
		world_close(&w);
		flip(w.disks[m], (5 << 20) + 777);
		world_open(&w);
		must(array_check(w.array, false, &c, NULL, NULL, &err), &err);
		assert_int_equal(c.mismatched_rows, 1);
		assert_int_equal(c.first_count, 1);
		assert_int_equal(c.first[0].member, r->told ? (int)m : -1);
		must(array_check(w.array, true, &c, NULL, NULL, &err), &err);
		assert_int_equal(c.repaired_rows, 1);
		world_sound(&w);
		if (r->mended)
			world_check_all(&w);
		world_close(&w);
		world_free(&w);
	}
	return 0;
}

static void test_rot(void **state)
{
	static const struct rot rots[] = {{"raid6", 5, true, true}, {"mirror", 3, true, true},
		{"raid5", 4, false, false}, {"mirror", 2, false, false}, {"raid10", 4, false, false},
		{"raid60", 8, true, true}};

	for (size_t i = 0; i < array_count(rots); i++)
		simulated(rot, (void *)&rots[i], i);
}

/* Members vanish, cannot write or cannot read in the middle of the work: within redundancy nobody notices. */
struct mishap {
	const char *layout, *fault;
	unsigned disks;
	enum array_member_state becomes;
};

static int mishap(void *arg)
{
	const struct mishap *m = arg;
	struct world w;
	struct error err = ERROR_INIT;
	char spec[96];

	world_init(&w, 11);
	world_disks(&w, m->disks, 24 << 20);
	snprintf(spec, sizeof spec, "mem:24MiB+fault=%s", m->fault);
	world_spec(&w, 1, spec);
	world_create(&w, m->layout, 64 << 10, ARRAY_HOLE_LOG);
	world_open(&w);
	fill(&w);
	world_work(&w, 200);
	world_check_all(&w);
	struct array_status *st = status_of(&w);
	assert_int_equal(st->members[1].state, m->becomes);
	if (m->becomes == ARRAY_MEMBER_ONLINE)
		assert_true(st->members[1].repaired_bytes > 0);
	else
		assert_int_equal(st->state, ARRAY_DEGRADED);
	world_close(&w);
	if (m->becomes != ARRAY_MEMBER_ONLINE) {
		struct disk *fresh;

		must(disk_open_memory("fresh", 24 << 20, &fresh, &err), &err);
		world_open(&w);
		must(array_replace(w.array, 1, fresh, false, NULL, NULL, &err), &err);
		assert_int_equal(status_of(&w)->state, ARRAY_HEALTHY);
		world_check_all(&w);
		world_sound(&w);
		world_close(&w);
		disk_close(w.disks[1]);
		w.disks[1] = fresh;
	}
	world_open(&w);
	world_check_all(&w);
	world_close(&w);
	world_free(&w);
	return 0;
}

static void test_mishaps(void **state)
{
	static const struct mishap mishaps[] = {
		{"raid5", "vanish,nth=300", 4, ARRAY_MEMBER_MISSING},
		{"raid6", "vanish,nth=200", 5, ARRAY_MEMBER_MISSING},
		{"mirror", "vanish,nth=60", 2, ARRAY_MEMBER_MISSING},
		{"raid10", "vanish,nth=100", 4, ARRAY_MEMBER_MISSING},
		{"raid5", "eio,op=write,nth=60", 4, ARRAY_MEMBER_FAULTED},
		{"mirror", "eio,op=write,nth=60", 2, ARRAY_MEMBER_FAULTED},
		{"raid5", "eio,op=flush,nth=8", 4, ARRAY_MEMBER_FAULTED},
		{"raid5", "eio,op=read,nth=30,count=12", 4, ARRAY_MEMBER_ONLINE},
		{"raid6", "eio,op=read,nth=60,count=12", 5, ARRAY_MEMBER_ONLINE},
		{"mirror", "eio,op=read,nth=60,count=12", 2, ARRAY_MEMBER_ONLINE},
		{"raid5", "eio,op=read,nth=30,sticky=1", 4, ARRAY_MEMBER_FAULTED},
	};

	for (size_t i = 0; i < array_count(mishaps); i++) {
		print_message("%s: %s\n", mishaps[i].layout, mishaps[i].fault);
		simulated(mishap, (void *)&mishaps[i], i);
	}
}

/* Beyond redundancy: every call says so, and nothing falls over. */
static int beyond(void *arg)
{
	struct world w;
	struct error err = ERROR_INIT;
	int rc = 0;

	world_init(&w, 12);
	world_disks(&w, 4, 24 << 20);
	world_spec(&w, 1, "mem:24MiB+fault=vanish,nth=70");
	world_spec(&w, 2, "mem:24MiB+fault=vanish,nth=90");
	world_create(&w, arg, 64 << 10, ARRAY_HOLE_LOG);
	world_open(&w);
	for (uint64_t i = 0; i < 3000 && !rc; i++) {
		rc = array_write(w.array, i * 7919 * 512 % (w.size - 65536), w.copy, 4096, &err);
		if (!rc && i % 7 == 0)
			rc = array_flush(w.array, &err);
	}
	assert_int_equal(rc, ERR_LOST);
	assert_true(err.text[0]);
	assert_int_equal(status_of(&w)->state, ARRAY_FAILED);
	error_clear(&err);
	assert_int_equal(array_write(w.array, 0, w.copy, 4096, &err), ERR_LOST);
	error_clear(&err);
	assert_int_equal(array_flush(w.array, &err), ERR_LOST);
	for (uint64_t at = 0; at + 4096 <= w.size; at += 1 << 20) {
		error_clear(&err);
		rc = array_read(w.array, at, w.buffer, 4096, &err);
		assert_true(rc == 0 || rc == ERR_LOST);
	}
	error_clear(&err);
	assert_int_equal(array_close(w.array, &err), ERR_LOST);
	world_free(&w);
	return 0;
}

static void test_beyond(void **state)
{
	simulated(beyond, (void *)"raid5", 1);
	simulated(beyond, (void *)"stripe", 2);
	simulated(beyond, (void *)"raid10-far", 3);
}

/* --- replacing -------------------------------------------------------------------------------- */

struct stop {
	struct world *w;
	unsigned calls, after;
};

/* Goes on working while it is rebuilt. */
static bool count_calls(void *arg, uint64_t done, uint64_t total)
{
	struct stop *s = arg;

	world_work(s->w, 5);
	return ++s->calls < s->after;
}

static int replace(void *arg)
{
	const char *layout = arg;
	struct world w;
	struct error err = ERROR_INIT;
	struct disk *fresh, *old;

	world_init(&w, 13);
	world_disks(&w, 4, 48 << 20);
	world_create(&w, layout, 64 << 10, ARRAY_HOLE_LOG);
	world_open(&w);
	fill(&w);
	old = w.disks[2];
	must(disk_open_memory("fresh", (48 << 20) - (512 << 10), &fresh, &err), &err); /* a little smaller */
	/* The old one is there: it is copied from, even where there is no redundancy. Stopped, closed, and gone on
	 * with. */
	struct stop s = {.w = &w, .after = 4};
	assert_int_equal(array_replace(w.array, 2, fresh, false, count_calls, &s, &err), ERR_INTERRUPTED);
	error_clear(&err);
	assert_int_equal(status_of(&w)->state, ARRAY_REBUILDING);
	uint64_t done = status_of(&w)->members[2].rebuilt_bytes;
	assert_true(done > 0);
	world_check_all(&w);
	world_close(&w);
	w.disks[w.count++] = fresh;
	world_open(&w);
	assert_int_equal(status_of(&w)->state, ARRAY_REBUILDING);
	assert_true(status_of(&w)->members[2].rebuilt_bytes >= done / 2);
	world_check_all(&w);
	s.after = 1000000;
	must(array_rebuild(w.array, count_calls, &s, &err), &err);
	assert_int_equal(status_of(&w)->state, ARRAY_HEALTHY);
	world_check_all(&w);
	world_close(&w);
	w.disks[2] = NULL;
	world_open(&w); /* without the old one */
	world_check_all(&w);
	if (layout_failures_survived(&status_of(&w)->layout))
		world_sound(&w);
	assert_int_equal(status_of(&w)->state, ARRAY_HEALTHY);
	assert_int_equal(array_rebuild(w.array, NULL, NULL, &err), ERR_NOT_FOUND);
	world_close(&w);
	struct array_label_facts facts;
	error_clear(&err);
	assert_int_equal(array_label_read(old, &facts, &err), ERR_NOT_FOUND);
	disk_close(old);
	world_free(&w);
	return 0;
}

static void test_replace(void **state)
{
	static const char *const layouts[] = {"stripe", "concat", "raid5", "raid6", "raid10", "raid10-far", "mirrorx2"};

	for (size_t i = 0; i < array_count(layouts); i++) {
		print_message("%s\n", layouts[i]);
		simulated(replace, (void *)layouts[i], i);
	}
}

/* Parts of rows are written where a second disk cannot read a place: what cannot be made again is lost and said so, what
 * is written is there, and the array goes on. */
static int lost_under_a_write(void *arg)
{
	struct world w;
	struct error err = ERROR_INIT;

	world_init(&w, 15);
	world_disks(&w, 3, 24 << 20);
	world_spec(&w, 0, "mem:24MiB+fault=eio,op=read,offset=9MiB,length=192KiB,nth=1,count=1000");
	world_create(&w, "raid5", 64 << 10, *(enum array_hole *)arg);
	world_open(&w);
	fill(&w);
	world_close(&w);
	disk_close(w.disks[1]);
	w.disks[1] = NULL;
	world_open(&w);
	bool *given = calloc(w.size / 512, 1);
	for (uint64_t at = 4096; at + 1024 <= w.size; at += 88 << 10) { /* never all columns at one place */
		world_write(&w, at, 1024);
		given[at / 512] = given[at / 512 + 1] = true;
	}
	world_flush(&w);
	assert_int_equal(status_of(&w)->state, ARRAY_DEGRADED);
	unsigned bad = 0;
	while (disk_read(w.disks[0], 9 << 20, w.buffer, 4096, NULL)) /* until it can be read again */
		bad++;
	assert_in_range(bad, 1, 999);
	for (unsigned pass = 0; pass < 2; pass++) {
		uint64_t lost = 0;

		array_drop_cache(w.array);
		for (uint64_t at = 0; at < w.size; at += 512) {
			error_clear(&err);
			int rc = array_read(w.array, at, w.buffer, 512, &err);

			if (rc == ERR_LOST && !given[at / 512]) {
				lost++;
				continue;
			}
			must(rc, &err);
			assert_memory_equal(w.buffer, w.copy + at, 512);
		}
		/* Three chunks of the disk that reads badly, and of each the one of the missing disk. */
		assert_in_range(lost, 1, 2 * 3 * 128);
		assert_in_range(status_of(&w)->counters.rows_lost, 1, 3);
		world_close(&w);
		world_open(&w);
	}
	free(given);
	world_close(&w);
	world_free(&w);
	return 0;
}

static void test_lost_under_a_write(void **state)
{
	for (enum array_hole hole = ARRAY_HOLE_LOG; hole <= ARRAY_HOLE_BITMAP; hole++)
		simulated(lost_under_a_write, &hole, 1);
}

/* A second disk that cannot read a place while the first is rebuilt: that place is lost, said so, and nothing else. */
static int lost_place(void *arg)
{
	struct world w;
	struct error err = ERROR_INIT;
	struct disk *fresh;
	uint64_t lost = 0, first = 0;

	world_init(&w, 14);
	world_disks(&w, 3, 24 << 20);
	world_spec(&w, 0, "mem:24MiB+fault=eio,op=read,offset=9MiB,length=512,sticky=1,nth=1");
	world_create(&w, "raid5", 64 << 10, ARRAY_HOLE_LOG);
	world_open(&w);
	fill(&w);
	world_close(&w);
	disk_close(w.disks[1]);
	w.disks[1] = NULL;
	world_open(&w);
	must(disk_open_memory("fresh", 24 << 20, &fresh, &err), &err);
	must(array_replace(w.array, 1, fresh, false, NULL, NULL, &err), &err);
	w.disks[1] = fresh;
	for (unsigned pass = 0; pass < 2; pass++) {
		lost = 0;
		for (uint64_t at = 0; at < w.size; at += 512) {
			error_clear(&err);
			int rc = array_read(w.array, at, w.buffer, 512, &err);
			if (rc == ERR_LOST) {
				first = lost++ ? first : at;
				continue;
			}
			must(rc, &err);
			assert_memory_equal(w.buffer, w.copy + at, 512);
		}
		assert_in_range(lost, 1, 2 * 128); /* a chunk of each of the two */
		assert_int_equal(status_of(&w)->counters.rows_lost, 1);
		world_close(&w);
		world_open(&w);
	}
	world_write(&w, first, 512); /* written again, read again */
	world_flush(&w);
	world_check(&w, first, 512);
	assert_int_equal(status_of(&w)->counters.rows_lost, 1);
	uint64_t row = 128 << 10;
	world_write(&w, first / row * row, row);
	world_flush(&w);
	assert_int_equal(status_of(&w)->counters.rows_lost, 0);
	world_check_all(&w);
	world_close(&w);
	world_free(&w);
	return 0;
}
static void test_lost_place(void **state)
{
	simulated(lost_place, NULL, 1);
}

/* --- mirrors ---------------------------------------------------------------------------------- */

static int attach_detach(void *arg)
{
	struct world w;
	struct error err = ERROR_INIT;
	struct disk *third;

	world_init(&w, 15);
	world_disks(&w, 2, 24 << 20);
	world_create(&w, "mirror", 64 << 10, ARRAY_HOLE_LOG);
	world_open(&w);
	world_work(&w, 50);
	must(disk_open_memory("third", 24 << 20, &third, &err), &err);
	struct stop s = {.w = &w, .after = 1000000};
	must(array_attach(w.array, third, false, count_calls, &s, &err), &err);
	w.disks[w.count++] = third;
	assert_int_equal(status_of(&w)->member_count, 3);
	assert_int_equal(status_of(&w)->failures_left, 2);
	world_work(&w, 50);
	world_sound(&w);
	world_close(&w);
	world_open(&w);
	assert_int_equal(status_of(&w)->member_count, 3);
	/* Any two may go. */
	world_close(&w);
	struct disk *a = w.disks[0], *b = w.disks[1];
	w.disks[0] = w.disks[1] = NULL;
	w.options.read_only = true;
	world_open(&w);
	world_check_all(&w);
	world_close(&w);
	w.options.read_only = false;
	w.disks[0] = a;
	w.disks[1] = b;
	world_open(&w);
	must(array_detach(w.array, 0, &err), &err);
	assert_int_equal(status_of(&w)->member_count, 2);
	world_work(&w, 50);
	world_check_all(&w);
	world_close(&w);
	struct array_label_facts facts;
	assert_int_equal(array_label_read(a, &facts, &err), ERR_NOT_FOUND);
	error_clear(&err);
	world_open(&w);
	world_check_all(&w);
	world_sound(&w);
	assert_int_equal(array_detach(w.array, 0, &err), ERR_USAGE); /* two must stay */
	world_close(&w);
	world_free(&w);
	return 0;
}
static void test_attach_detach(void **state)
{
	simulated(attach_detach, NULL, 1);
}

/* A copy that answers ten times later is left alone. */
static int slow_copy(void *arg)
{
	struct world w;

	world_init(&w, 16);
	world_disks(&w, 3, 24 << 20);
	world_spec(&w, 0, "mem:24MiB+fault=slow,ms=1");
	world_spec(&w, 1, "mem:24MiB+fault=slow,ms=40");
	world_spec(&w, 2, "mem:24MiB+fault=slow,ms=1");
	world_create(&w, "mirror", 64 << 10, ARRAY_HOLE_LOG);
	world_open(&w);
	fill(&w);
	for (unsigned i = 0; i < 200; i++) /* its latency becomes known */
		world_check(&w, random_below(&w.random, w.size / 4096) * 4096, 4096);
	assert_true(status_of(&w)->members[1].slow);
	assert_true(!status_of(&w)->members[0].slow);
	struct disk_counters before, after;
	disk_counters(w.disks[1], &before);
	uint64_t began = os_now_ns();
	for (unsigned i = 0; i < 500; i++)
		world_check(&w, random_below(&w.random, w.size / 4096) * 4096, 4096);
	disk_counters(w.disks[1], &after);
	assert_true(after.op[DISK_READ].done - before.op[DISK_READ].done <= 5);
	assert_true(os_now_ns() - began < 1000000000);
	world_close(&w);
	world_free(&w);
	return 0;
}
static void test_slow_copy(void **state)
{
	simulated(slow_copy, NULL, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rot), cmocka_unit_test(test_mishaps),
		cmocka_unit_test(test_beyond), cmocka_unit_test(test_replace), cmocka_unit_test(test_lost_place),
		cmocka_unit_test(test_lost_under_a_write), cmocka_unit_test(test_attach_detach),
		cmocka_unit_test(test_slow_copy)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
