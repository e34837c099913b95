/*
 * Faults without a power cut: the Nth operation fails, for every N until a run meets no fault, in each way that a disk
 * may fail; and bytes that rot silently, on each member in turn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "oracle.h"

/* --- the Nth operation ----------------------------------------------------------------------------------------- */

/* Fewer than the usual seeds (a build with sanitizers): every second, third … operation. */
static unsigned step_wanted(void)
{
	const char *text = getenv("SPINDLE_SEEDS");
	uint64_t n = 24;
	if (text && number_parse("SPINDLE_SEEDS", text, 1, 100000000, &n, NULL) != 0)
		fail_msg("SPINDLE_SEEDS is '%s', no number", text);
	return (unsigned)max_of(1u, 24 / n);
}

static int each_fault(void *arg, struct oracle_note *note)
{
	enum crash_fault fault = *(enum crash_fault *)arg;
	unsigned step = step_wanted();
	/* All layouts for the first, half of them for each of the others. */
	for (unsigned i = 0; oracle_layouts[i]; i++) {
		struct oracle_options o;

		if (fault != CRASH_EIO_ONCE && i % 2 == fault % 2)
			continue;
		oracle_options_draw(&o, 3, oracle_layouts[i], ORACLE_FAULT);
		o.fault = fault;
		o.chunk_bytes = 8192;
		o.hole = i % 3 == 2 ? ARRAY_HOLE_BITMAP : ARRAY_HOLE_LOG;
		o.log_disk = o.stream = false;
		o.threads = 1;
		o.steps = 12;
		o.generations = 1;
		for (o.cut = 1;; o.cut += step) {
			int rc = oracle_run_noted(&o, note);
			if (rc != 0)
				return rc;
			if (!note->result.fault_met)
				break;
		}
	}
	return 0;
}

static void every_operation_fails(enum crash_fault fault)
{
	struct oracle_note note;
	struct error err = ERROR_INIT;
	if (oracle_guard(each_fault, &fault, 120, &note, &err) != 0)
		fail_msg("%s: %s", oracle_fault_names[fault], err.text);
	printf("%s: %llu operations in turn, %llu sectors compared\n", oracle_fault_names[fault],
		(unsigned long long)note.runs, (unsigned long long)note.sum.sectors_compared);
}

static void an_error_once_is_not_noticed(void **state)
{
	every_operation_fails(CRASH_EIO_ONCE);
}

static void a_disk_that_keeps_failing_is_not_noticed(void **state)
{
	every_operation_fails(CRASH_EIO_STICKY);
}

static void a_disk_that_vanishes_is_not_noticed(void **state)
{
	every_operation_fails(CRASH_VANISH);
}

static void a_bad_sector_is_not_noticed(void **state)
{
	every_operation_fails(CRASH_MEDIA);
}

/* --- rot ---------------------------------------------------------------------------------------------------------- */

#define ROT_BYTES (256u << 10)
#define ROT_DISKS 6

struct rot {
	const char *layout;
	unsigned disks;
	bool tells; /* who is wrong: two parities, or three copies */
};

struct rotten {
	struct power power;
	struct disk *disks[ROT_DISKS];
	struct array *array;
	struct array_status status;
	uint8_t *right, *seen;
	const struct rot *rot;
	struct error err;
};

static int rot_fail(struct rotten *r, const char *what, unsigned member, uint64_t at)
{
	char text[200];
	snprintf(text, sizeof text, "%s of %u disks, a bit of member %u at byte %llu flipped: %s", r->rot->layout,
		r->rot->disks, member, (unsigned long long)at, what);
	return error_set(&r->err, ERR_CORRUPT, "%s", text);
}

static int rot_up(struct rotten *r)
{
	struct array_open_options o;
	struct array_create_options c = {.name = "rot", .layout = r->rot->layout, .chunk_bytes = 16384};
	int rc = 0;
	power_init(&r->power, 1);
	for (unsigned i = 0; i < r->rot->disks && rc == 0; i++) {
		char name[16];
		snprintf(name, sizeof name, "disk%u", i);
		rc = crash_disk_open(name, &r->power, platter_make(16u << 20, 0), NULL, &r->disks[i], &r->err);
	}
	if (rc == 0)
		rc = array_create(&c, r->disks, r->rot->disks, &r->err);
	array_open_options_init(&o);
	o.tuning.buffer_bytes = 1u << 20;
	o.tuning.read_ahead_rows = UINT32_MAX;
	if (rc == 0)
		rc = array_open(&r->array, &o, r->disks, r->rot->disks, &r->err);
	if (rc == 0)
		rc = array_write(r->array, 0, r->right, ROT_BYTES, &r->err);
	if (rc == 0)
		rc = array_flush(r->array, &r->err);
	if (rc == 0)
		array_status_get(r->array, &r->status);
	return rc;
}

/* The data of this member, where the rows written above lie. */
static uint64_t rot_place(const struct rotten *r, unsigned member, struct random *random)
{
	uint64_t size = 16u << 20, data = array_data_bytes(size, 16384), places[64], count = 0;
	uint8_t *bytes = malloc((size_t)size);
	struct platter *p = crash_disk_peek(r->disks[member]);
	platter_read(p, 0, bytes, size);
	/* Behind labels, map and log the first whole chunks that hold bytes are rows. */
	for (uint64_t at = 1u << 20; at + 16384 <= (1u << 20) + data && count < array_count(places); at += 16384)
		if (bytes[at] && bytes[at + 16383])
			places[count++] = at;
	platter_free(p);
	free(bytes);
	return count ? places[random_below(random, count)] + random_below(random, 16384) : 0;
}

static int rot_once(struct rotten *r, unsigned member, uint64_t at)
{
	struct array_check_result check;
	int rc;
	crash_disk_flip(r->disks[member], at, 0x10);
	rc = array_check(r->array, false, &check, NULL, NULL, &r->err);
	if (rc != 0)
		return rc;
	if (check.mismatched_rows != 1 || check.first_count != 1)
		return rot_fail(r, "check does not find one row", member, at);
	if (r->rot->tells &&
		(check.first[0].member != (int)member || r->status.members[member].disk != r->disks[member]))
		return rot_fail(r, "check names another member", member, at);
	if (!r->rot->tells && check.first[0].member != -1)
		return rot_fail(r, "check names a member, and cannot know", member, at);
	if (!r->rot->tells) {
		crash_disk_flip(r->disks[member], at, 0x10);
		return 0;
	}
	struct platter *before[ROT_DISKS];
	for (unsigned i = 0; i < r->rot->disks; i++)
		before[i] = crash_disk_peek(r->disks[i]);
	rc = array_check(r->array, true, &check, NULL, NULL, &r->err);
	if (rc == 0 && check.repaired_rows != 1)
		rc = rot_fail(r, "repair does not repair one row", member, at);
	array_drop_cache(r->array);
	if (rc == 0)
		rc = array_read(r->array, 0, r->seen, ROT_BYTES, &r->err);
	if (rc == 0 && memcmp(r->seen, r->right, ROT_BYTES) != 0)
		rc = rot_fail(r, "after repair the bytes are wrong", member, at);
	for (unsigned i = 0; i < r->rot->disks; i++) {
		struct platter *now = crash_disk_peek(r->disks[i]);
		uint8_t was[512], is[512];
		platter_read(before[i], at / 512 * 512, was, sizeof was);
		platter_read(now, at / 512 * 512, is, sizeof is);
		if (i == member)
			was[at % 512] ^= 0x10;
		if (rc == 0 && memcmp(was, is, sizeof was) != 0)
			rc = rot_fail(r, "repair changed what was good", i, at);
		platter_free(now);
		platter_free(before[i]);
	}
	if (rc == 0)
		rc = array_check(r->array, false, &check, NULL, NULL, &r->err);
	if (rc == 0 && check.mismatched_rows)
		rc = rot_fail(r, "a second check still finds it", member, at);
	return rc;
}

static int rot_world(void *arg)
{
	struct rotten *r = arg;
	struct random random;
	random_seed(&random, 11);
	r->right = malloc(ROT_BYTES);
	r->seen = malloc(ROT_BYTES);
	sp_assert(r->right && r->seen);
	random_fill(&random, r->right, ROT_BYTES);
	for (unsigned i = 0; i < ROT_BYTES; i++)
		r->right[i] |= !r->right[i]; /* no zeros: rows are found by that */
	int rc = rot_up(r);
	for (unsigned member = 0; member < r->rot->disks && rc == 0; member++)
		for (unsigned time = 0; time < 3 && rc == 0; time++) {
			uint64_t at = rot_place(r, member, &random);
			rc = at ? rot_once(r, member, at) : rot_fail(r, "the test finds no row on the disk", member, 0);
		}
	if (r->array && rc == 0)
		rc = array_close(r->array, &r->err);
	else if (r->array)
		array_abandon(r->array);
	for (unsigned i = 0; i < r->rot->disks; i++)
		disk_close(r->disks[i]);
	free(r->right);
	free(r->seen);
	return rc;
}

static void rot(const struct rot *what)
{
	struct rotten *r = calloc(1, sizeof *r);
	struct os_simulation s;
	assert_non_null(r);
	r->rot = what;
	os_simulation_init(&s, 5);
	int rc = os_simulate(&s, rot_world, r, &r->err);
	if (rc != 0)
		fail_msg("%s", r->err.text);
	free(r);
}

static void repair_mends_the_member_that_is_wrong(void **state)
{
	static const struct rot kinds[] = {
		{"raid6", 4, true}, {"raid6", 6, true}, {"mirror", 3, true}, {"raid10-near3", 3, true}};
	for (size_t i = 0; i < array_count(kinds); i++)
		rot(&kinds[i]);
}

static void where_nobody_can_tell_it_is_said(void **state)
{
	static const struct rot kinds[] = {{"raid4", 3, false}, {"raid5", 3, false}, {"raid5", 5, false},
		{"mirror", 2, false}, {"raid10", 4, false}};
	for (size_t i = 0; i < array_count(kinds); i++)
		rot(&kinds[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_once_is_not_noticed),
		cmocka_unit_test(a_disk_that_keeps_failing_is_not_noticed),
		cmocka_unit_test(a_disk_that_vanishes_is_not_noticed),
		cmocka_unit_test(a_bad_sector_is_not_noticed),
		cmocka_unit_test(repair_mends_the_member_that_is_wrong),
		cmocka_unit_test(where_nobody_can_tell_it_is_said),
	};
	return cmocka_run_group_tests_name("array: faults within redundancy are not noticed", tests, NULL, NULL);
}
