/* Putting an array together: any order, damage at one end, impostors, halves that went on alone (ARRAY-1). */
#include "world.h"

static void status_of(struct world *w, struct array_status *st)
{
	array_status_get(w->array, st);
}

static void start(struct world *w, const char *layout, unsigned disks, uint64_t seed)
{
	world_init(w, seed);
	world_disks(w, disks, 20 << 20);
	world_create(w, layout, 64 << 10, ARRAY_HOLE_LOG);
	world_open(w);
	world_work(w, 30);
	world_close(w);
}

static void wipe(struct disk *d, bool front, bool back)
{
	struct error err = ERROR_INIT;
	uint8_t *zeros = aligned_alloc(4096, 64 << 10);
	uint64_t size = disk_traits(d)->size_bytes;

	memset(zeros, 0, 64 << 10);
	if (front)
		must(disk_write(d, 0, zeros, 40 << 10, &err), &err);
	if (back)
		must(disk_write(d, size - (1 << 20), zeros, 64 << 10, &err), &err);
	free(zeros);
}

static int one_end(void *arg)
{
	struct world w;
	struct error err = ERROR_INIT;
	struct array_label_facts facts;

	start(&w, "raid5", 4, 1);
	for (unsigned i = 0; i < 4; i++)
		wipe(w.disks[i], i % 2, !(i % 2));
	must(array_label_read(w.disks[1], &facts, &err), &err);
	assert_true(!facts.front_good && facts.back_good);
	world_open(&w);
	world_check_all(&w);
	world_close(&w);
	for (unsigned i = 0; i < 4; i++) {
		must(array_label_read(w.disks[i], &facts, &err), &err);
		assert_true(facts.front_good && facts.back_good);
		assert_string_equal(facts.array_name, "tank");
		assert_int_equal(facts.index, i);
	}
	wipe(w.disks[2], true, true); /* a whole member's labels: it is not there any more */
	world_open(&w);
	world_check_all(&w);
	world_close(&w);
	world_free(&w);
	return 0;
}

static int names(void *arg)
{
	struct world w, v;
	struct error err = ERROR_INIT;

	start(&w, "mirror", 2, 2);
	world_init(&v, 3);
	world_disks(&v, 2, 20 << 20);
	must(array_create(&(struct array_create_options){.name = "other", .layout = "mirror"}, v.disks, 2, &err), &err);
	struct disk *all[4] = {v.disks[0], w.disks[1], v.disks[1], w.disks[0]};
	struct array_open_options o = w.options;
	struct array *a;
	assert_int_equal(array_open(&a, &o, all, 4, &err), ERR_USAGE); /* which? */
	error_clear(&err);
	o.name = "nobody";
	assert_int_equal(array_open(&a, &o, all, 4, &err), ERR_NOT_FOUND);
	assert_non_null(strstr(err.text, "tank"));
	assert_non_null(strstr(err.text, "other"));
	error_clear(&err);
	o.name = "tank";
	must(array_open(&a, &o, all, 4, &err), &err);
	must(array_close(a, &err), &err);
	assert_int_equal(
		array_create(&(struct array_create_options){.name = "third", .layout = "mirror"}, all, 2, &err),
		ERR_EXISTS);
	error_clear(&err);
	assert_int_equal(array_create(&(struct array_create_options){.name = "a/b", .layout = "mirror"}, all, 2, &err),
		ERR_USAGE);
	error_clear(&err);
	struct disk *twice[2] = {all[0], all[0]};
	assert_int_equal(array_create(&(struct array_create_options){.name = "x", .layout = "mirror", .force = true},
				 twice, 2, &err),
		ERR_USAGE);
	assert_non_null(strstr(err.text, "twice"));
	world_free(&w);
	world_free(&v);
	return 0;
}

static int impostor(void *arg)
{
	struct world w;
	struct error err = ERROR_INIT;
	uint8_t *bytes = aligned_alloc(4096, 1 << 20);
	struct disk *copy;

	start(&w, "raid5", 3, 4);
	must(disk_open_memory("copy", 20 << 20, &copy, &err), &err);
	for (uint64_t at = 0; at < 20 << 20; at += 1 << 20) {
		must(disk_read(w.disks[1], at, bytes, 1 << 20, &err), &err);
		must(disk_write(copy, at, bytes, 1 << 20, &err), &err);
	}
	struct disk *all[4] = {w.disks[0], w.disks[1], w.disks[2], copy};
	assert_int_equal(array_open(&w.array, &w.options, all, 4, &err), ERR_REFUSED);
	assert_non_null(strstr(err.text, "copy"));
	assert_non_null(strstr(err.text, "mem#1"));
	disk_close(copy);
	free(bytes);
	world_free(&w);
	return 0;
}

/* Each half ran without the other: nobody can say which is right. */
static int halves(void *arg)
{
	struct world w;
	struct error err = ERROR_INIT;
	struct disk *one, *two;

	start(&w, "mirror", 2, 5);
	one = w.disks[0];
	two = w.disks[1];
	w.disks[1] = NULL;
	world_open(&w);
	world_write(&w, 0, 4096);
	world_close(&w);
	w.disks[1] = two;
	w.disks[0] = NULL;
	world_open(&w);
	world_write(&w, 4096, 4096);
	world_close(&w);
	w.disks[0] = one;
	assert_int_equal(world_try_open(&w, &err), ERR_REFUSED);
	assert_non_null(strstr(err.text, "mem#0"));
	assert_non_null(strstr(err.text, "mem#1"));
	world_free(&w);
	return 0;
}

static int too_few(void *arg)
{
	struct world w;
	struct error err = ERROR_INIT;
	struct disk *out[2];

	start(&w, "raid5", 4, 6);
	out[0] = w.disks[0];
	out[1] = w.disks[3];
	w.disks[0] = w.disks[3] = NULL;
	assert_int_equal(world_try_open(&w, &err), ERR_LOST);
	assert_non_null(strstr(err.text, "2 of 4"));
	error_clear(&err);
	w.disks[0] = out[0];
	world_open(&w); /* one came back: degraded */
	world_write(&w, 0, 1 << 20);
	world_close(&w);
	w.disks[3] = out[1]; /* and one is stale now */
	struct disk *gone = w.disks[1];
	w.disks[1] = NULL;
	assert_int_equal(world_try_open(&w, &err), ERR_LOST);
	assert_non_null(strstr(err.text, "stale"));
	w.disks[1] = gone;
	world_open(&w);
	world_check_all(&w);
	struct array_status *st = malloc(sizeof *st);
	status_of(&w, st);
	assert_int_equal(st->state, ARRAY_DEGRADED);
	assert_int_equal(st->members[3].state, ARRAY_MEMBER_FAULTED);
	free(st);
	world_close(&w);
	world_free(&w);
	return 0;
}

static int small_things(void *arg)
{
	struct world w;
	struct error err = ERROR_INIT;
	struct disk *tiny;

	world_init(&w, 7);
	world_disks(&w, 3, 16 << 20);
	must(disk_open_memory("tiny", 15 << 20, &tiny, &err), &err);
	struct disk *mixed[3] = {w.disks[0], w.disks[1], tiny};
	assert_int_equal(array_create(&(struct array_create_options){.name = "t", .layout = "raid5"}, mixed, 3, &err),
		ERR_TOO_SMALL);
	assert_non_null(strstr(err.text, "tiny"));
	error_clear(&err);
	world_create(&w, "raid5", 0, ARRAY_HOLE_LOG); /* the smallest disks there may be */
	w.options.read_only = true;
	world_open(&w);
	world_check_all(&w);
	assert_int_equal(array_write(w.array, 0, w.buffer, 512, &err), ERR_READ_ONLY);
	error_clear(&err);
	assert_int_equal(array_read(w.array, 1, w.buffer, 512, &err), ERR_USAGE);
	error_clear(&err);
	assert_int_equal(array_read(w.array, w.size - 512, w.buffer, 1024, &err), ERR_USAGE);
	error_clear(&err);
	assert_int_equal(array_read(w.array, UINT64_MAX / 512 * 512, w.buffer, 1024, &err), ERR_USAGE);
	world_close(&w);
	error_clear(&err);
	w.options.read_only = false;
	world_open(&w);
	must(array_destroy(w.array, &err), &err);
	assert_int_equal(world_try_open(&w, &err), ERR_NOT_FOUND);
	disk_close(tiny);
	world_free(&w);
	return 0;
}

static int log_disk(void *arg)
{
	struct world w;
	struct error err = ERROR_INIT;
	struct disk *log;

	world_init(&w, 8);
	world_disks(&w, 4, 20 << 20);
	must(disk_open_memory("log", 16 << 20, &log, &err), &err);
	must(array_create(
		     &(struct array_create_options){.name = "tank", .layout = "raid5", .log = log}, w.disks, 4, &err),
		&err);
	w.disks[w.count++] = log;
	world_open(&w);
	world_work(&w, 60);
	world_close(&w);
	world_open(&w);
	struct array_status *st = malloc(sizeof *st);
	status_of(&w, st);
	assert_true(st->log_dedicated);
	assert_string_equal(st->log_name, "log");
	world_work(&w, 30);
	world_close(&w);
	w.disks[4] = NULL; /* closed cleanly: it is not needed any more */
	world_open(&w);
	world_check_all(&w);
	status_of(&w, st);
	assert_true(!st->log_dedicated);
	world_work(&w, 30);
	world_close(&w);
	free(st);
	disk_close(log);
	world_free(&w);
	return 0;
}

#define SIMULATED(name)                                                                                                \
	static void test_##name(void **state)                                                                          \
	{                                                                                                              \
		simulated(name, NULL, 1);                                                                              \
	}
SIMULATED(one_end)
SIMULATED(names)
SIMULATED(impostor)
SIMULATED(halves)
SIMULATED(too_few)
SIMULATED(small_things)
SIMULATED(log_disk)

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_end), cmocka_unit_test(test_names),
		cmocka_unit_test(test_impostor), cmocka_unit_test(test_halves), cmocka_unit_test(test_too_few),
		cmocka_unit_test(test_small_things), cmocka_unit_test(test_log_disk)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
