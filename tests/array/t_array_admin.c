/*
 * Power that goes while an array is made, gets one copy more, or one less: cut at every operation in turn. Whatever is
 * left either is an array with all that was promised, or lets itself be made again. And power that goes while parts of
 * rows are written, when after it the log of one member cannot be read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "array.h"
#include "crash_disk.h"

#define DISKS 4 /* at most */
#define DISK_BYTES (16u << 20)
#define DATA_BYTES (256u << 10)

struct admin {
	const char *layout;
	unsigned disks, total; /* that the array begins with, that there are */
	int (*act)(struct admin *w);
	bool made; /* there is an array before `act` */
	uint64_t cut, cuts;
	uint64_t sector_bytes, seed, seeds;
	struct power power;
	struct platter *platters[DISKS];
	struct disk *open[DISKS];
	struct array *array;
	uint8_t *right, *seen;
	struct error err;
};

static int disks_up(struct admin *w, uint64_t seed)
{
	int rc = 0;

	power_init(&w->power, seed);
	for (unsigned i = 0; i < w->total && !rc; i++) {
		char name[16];
		struct crash_options c = {.logical_bytes = (uint32_t)w->sector_bytes};

		snprintf(name, sizeof name, "disk%u", i);
		rc = crash_disk_open(name, &w->power, w->platters[i], &c, &w->open[i], &w->err);
		w->platters[i] = NULL;
	}
	return rc;
}

static void disks_down(struct admin *w)
{
	if (w->array)
		array_abandon(w->array);
	w->array = NULL;
	for (unsigned i = 0; i < w->total; i++)
		w->platters[i] = crash_disk_take(w->open[i]);
}

static int make(struct admin *w, bool force, struct error *err)
{
	struct array_create_options o = {.name = "admin", .layout = w->layout, .chunk_bytes = 16384, .force = force};

	return array_create(&o, w->open, w->disks, err);
}

static int assemble(struct admin *w, struct error *err)
{
	struct array_open_options o;

	array_open_options_init(&o);
	o.tuning.buffer_bytes = 1u << 20;
	o.tuning.read_ahead_rows = UINT32_MAX;
	return array_open(&w->array, &o, w->open, w->total, err);
}

static int store(struct admin *w)
{
	int rc = array_write(w->array, 0, w->right, DATA_BYTES, &w->err);

	return rc ? rc : array_flush(w->array, &w->err);
}

static int compare(struct admin *w, const char *when)
{
	struct array_check_result check;
	int rc = array_read(w->array, 0, w->seen, DATA_BYTES, &w->err);

	if (!rc && memcmp(w->seen, w->right, DATA_BYTES))
		rc = error_set(&w->err, ERR_CORRUPT, "%s, cut at %llu: %s the bytes are wrong", w->layout,
			(unsigned long long)w->cut, when);
	if (!rc && strcmp(w->layout, "stripe") == 0)
		return 0;
	if (!rc)
		rc = array_check(w->array, false, &check, NULL, NULL, &w->err);
	if (!rc && (check.mismatched_rows || check.unreadable_chunks))
		rc = error_set(&w->err, ERR_CORRUPT, "%s, cut at %llu: %s the copies do not agree", w->layout,
			(unsigned long long)w->cut, when);
	return rc;
}

static int act_create(struct admin *w)
{
	return make(w, false, NULL);
}

static int act_attach(struct admin *w)
{
	return array_attach(w->array, w->open[w->total - 1], true, NULL, NULL, NULL);
}

static int act_detach(struct admin *w)
{
	return array_detach(w->array, w->total - 1, NULL);
}

/* Parts of rows, in another pattern. */
static int act_write(struct admin *w)
{
	for (uint64_t at = 4096; at < DATA_BYTES; at += 20480)
		if (array_write(w->array, at, w->right + DATA_BYTES + at, 4096, NULL))
			return ERR_IO;
	return array_flush(w->array, NULL);
}

/* Behind labels and map, before the data. */
#define LOG_FROM (128u << 10)
#define LOG_TO (1u << 20)

/* Each sector is old or new, and parity agrees. */
static int look_mixed(struct admin *w)
{
	struct array_check_result check;

	crash_disk_spoil(w->open[w->seed % w->total], LOG_FROM, LOG_TO - LOG_FROM);
	int rc = assemble(w, &w->err);
	if (!rc)
		rc = array_read(w->array, 0, w->seen, DATA_BYTES, &w->err);
	for (uint64_t at = 0; at < DATA_BYTES && !rc; at += w->sector_bytes)
		if (memcmp(w->seen + at, w->right + at, w->sector_bytes) &&
			(memcmp(w->seen + at, w->right + DATA_BYTES + at, w->sector_bytes) ||
				(at + 16384) % 20480 >= 4096))
			rc = error_set(&w->err, ERR_CORRUPT,
				"%s, cut at %llu: the bytes at %llu are neither old nor new", w->layout,
				(unsigned long long)w->cut, (unsigned long long)at);
	if (!rc)
		rc = array_check(w->array, false, &check, NULL, NULL, &w->err);
	if (!rc && (check.mismatched_rows || check.unreadable_chunks))
		rc = error_set(&w->err, ERR_CORRUPT, "%s, cut at %llu: parity does not agree", w->layout,
			(unsigned long long)w->cut);
	return rc;
}

/* What was there before is there still; what was not is, or can be made. */
static int look(struct admin *w)
{
	int rc = assemble(w, &w->err);

	if (rc && !w->made) {
		error_clear(&w->err);
		rc = make(w, true, &w->err);
		if (!rc)
			rc = assemble(w, &w->err);
	}
	if (!rc && !w->made)
		rc = store(w);
	if (!rc)
		rc = compare(w, "after it");
	if (rc)
		return rc;
	rc = array_close(w->array, &w->err);
	w->array = NULL;
	if (!rc)
		rc = assemble(w, &w->err);
	return rc ? rc : compare(w, "opened again");
}

static int one_cut(struct admin *w)
{
	int rc;

	for (unsigned i = 0; i < w->total; i++)
		w->platters[i] = platter_make(DISK_BYTES, 0);
	rc = disks_up(w, w->seed * 1000 + w->cut);
	if (!rc && w->made) {
		rc = make(w, false, &w->err);
		if (!rc)
			rc = assemble(w, &w->err);
		if (!rc)
			rc = store(w);
	}
	if (!rc) {
		w->power.cut_at = w->power.operations + w->cut;
		w->act(w);
		w->cuts += w->power.is_met;
		if (!w->power.is_met)
			w->cut = 0; /* it was over before */
		power_cut(&w->power);
	}
	disks_down(w);
	if (!rc)
		rc = disks_up(w, w->cut);
	if (!rc)
		rc = w->act == act_write ? look_mixed(w) : look(w);
	disks_down(w);
	for (unsigned i = 0; i < w->total; i++)
		platter_free(w->platters[i]);
	return rc;
}

/* SPINDLE_SEEDS, 24 when it is not given; a quarter of that is enough for each cut. */
static uint64_t seeds_wanted(void)
{
	const char *text = getenv("SPINDLE_SEEDS");
	uint64_t n = 24;

	if (text && number_parse("SPINDLE_SEEDS", text, 1, 100000000, &n, NULL) != 0)
		fail_msg("SPINDLE_SEEDS is '%s', no number", text);
	return max_of(min_of(n / 4, (uint64_t)100), (uint64_t)1);
}

static int world(void *arg)
{
	struct admin *w = arg;
	struct random random;
	int rc = 0;

	random_seed(&random, 3);
	w->right = malloc(2 * DATA_BYTES);
	w->seen = malloc(DATA_BYTES);
	sp_assert(w->right && w->seen);
	random_fill(&random, w->right, 2 * DATA_BYTES);
	/* What a cut leaves of the writes under way is drawn: several draws for each. */
	for (w->seed = 1; w->seed <= w->seeds && !rc; w->seed++)
		for (uint64_t cut = 1; !rc; cut++) {
			w->cut = cut;
			rc = one_cut(w);
			if (!w->cut)
				break;
		}
	free(w->right);
	free(w->seen);
	return rc;
}

static void at_every_operation(
	const char *what, const char *layout, unsigned disks, int (*act)(struct admin *w), bool made)
{
	for (uint64_t sector = 512; sector <= 4096; sector *= 8) {
		struct admin *w = calloc(1, sizeof *w);
		struct os_simulation s;
		struct error err = ERROR_INIT;

		assert_non_null(w);
		w->layout = layout;
		w->disks = disks;
		w->total = max_of(disks, 3u);
		w->act = act;
		w->made = made;
		w->sector_bytes = sector;
		w->seeds = seeds_wanted();
		os_simulation_init(&s, 5);
		s.cpus = 0;
		int rc = os_simulate(&s, world, w, &err);
		print_message("%s, %s, sectors of %llu: %llu cuts\n", what, layout, (unsigned long long)sector,
			(unsigned long long)w->cuts);
		if (rc)
			fail_msg("%s of %s, cut at operation %llu: %s", what, layout, (unsigned long long)w->cut,
				w->err.code ? w->err.text : err.text);
		assert_true(w->cuts > 0);
		free(w);
	}
}

static void an_array_is_made_or_can_be(void **state)
{
	at_every_operation("create", "raid5", 3, act_create, false);
	at_every_operation("create", "mirror", 3, act_create, false);
	at_every_operation("create", "stripe", 3, act_create, false);
}

static void a_copy_more_costs_nothing(void **state)
{
	at_every_operation("attach", "mirror", 2, act_attach, true);
}

static void a_copy_less_costs_nothing(void **state)
{
	at_every_operation("detach", "mirror", 3, act_detach, true);
}

static void a_log_that_cannot_be_read_costs_nothing(void **state)
{
	at_every_operation("write", "raid5", 3, act_write, true);
	at_every_operation("write", "raid6", 4, act_write, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_array_is_made_or_can_be),
		cmocka_unit_test(a_copy_more_costs_nothing),
		cmocka_unit_test(a_copy_less_costs_nothing),
		cmocka_unit_test(a_log_that_cannot_be_read_costs_nothing),
	};
	return cmocka_run_group_tests_name("array: power that goes while it is administered", tests, NULL, NULL);
}
