/*
 * Power cuts, and what goes with them, against the oracle. One small run is cut at every operation in turn, others at
 * drawn ones. SPINDLE_SEEDS=N sets how many seeds each shape and plan gets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "oracle.h"

#define SEEDS_USUAL 12u

static unsigned seeds_wanted(void)
{
	const char *text = getenv("SPINDLE_SEEDS");
	uint64_t n = SEEDS_USUAL;

	if (text && number_parse("SPINDLE_SEEDS", text, 1, 100000000, &n, NULL) != 0)
		fail_msg("SPINDLE_SEEDS is '%s', no number", text);
	return (unsigned)n;
}

static void guarded(const char *what, int (*body)(void *arg, struct oracle_note *note), void *arg)
{
	struct oracle_note note;
	struct error err = ERROR_INIT;
	int rc = oracle_guard(body, arg, 120, &note, &err);

	if (rc != 0)
		fail_msg("%s: %s", what, err.text);
	printf("%s: %llu runs, %llu power cuts, %llu operations, %llu sectors compared, %llu checks, %llu scrubs, %llu "
	       "full oracles\n",
		what, (unsigned long long)note.runs, (unsigned long long)note.sum.cuts,
		(unsigned long long)note.sum.operations, (unsigned long long)note.sum.sectors_compared,
		(unsigned long long)note.sum.checks, (unsigned long long)note.sum.scrubs,
		(unsigned long long)note.sum.full_oracles);
}

struct sample {
	enum oracle_plan plan;
	unsigned seeds;
};

static int sample_run(void *arg, struct oracle_note *note)
{
	const struct sample *s = arg;

	for (unsigned i = 0; oracle_shapes[i]; i++) {
		if (!oracle_plan_fits(oracle_shapes[i], s->plan))
			continue;
		for (unsigned k = 1; k <= s->seeds; k++) {
			struct oracle_options o;
			int rc;

			oracle_options_draw(&o, k, oracle_shapes[i], s->plan);
			rc = oracle_run_noted(&o, note);
			if (rc != 0)
				return rc;
		}
	}
	return 0;
}

static void sample(const char *what, enum oracle_plan plan, unsigned of)
{
	struct sample s = {plan, max_of(1u, seeds_wanted() / of)};

	printf("%s: seeds 1..%u of every shape\n", what, s.seeds);
	guarded(what, sample_run, &s);
}

static void power_may_go_at_any_time(void **state)
{
	sample("power cuts", ORACLE_POWER, 1);
}

static void disks_may_go_with_the_power_and_return(void **state)
{
	sample("disks lost with the power", ORACLE_LOSE, 2);
}

static void a_stale_disk_is_not_believed(void **state)
{
	sample("a disk vanishes and is back", ORACLE_VANISH, 2);
}

static void a_failing_operation_is_not_noticed(void **state)
{
	sample("one operation fails", ORACLE_FAULT, 2);
}

static void rot_is_mended(void **state)
{
	sample("rot", ORACLE_ROT, 2);
}

static void a_wreck_is_refused_or_read_only(void **state)
{
	sample("a wreck", ORACLE_WRECK, 2);
}

static void a_full_pool_can_delete(void **state)
{
	sample("a full pool", ORACLE_FULL, 4);
}

static int each_run(void *arg, struct oracle_note *note)
{
	static const char *const each[] = {"mirror2", "parity1-3"};

	for (unsigned i = 0; i < array_count(each); i++) {
		struct oracle_options o;

		oracle_options_draw(&o, 7, each[i], ORACLE_POWER);
		o.threads = 1;
		o.steps = 8;
		o.generations = 1;
		o.full = false;
		for (o.cut = 1;; o.cut += max_of(1u, SEEDS_USUAL / seeds_wanted())) {
			int rc = oracle_run_noted(&o, note);

			if (rc != 0 || !note->last.met)
				return rc;
		}
	}
	return 0;
}

static void every_operation_may_be_the_last(void **state)
{
	guarded("every operation", each_run, NULL);
}

static int fold_run(void *arg, struct oracle_note *note)
{
	struct oracle_options o;

	oracle_options_draw(&o, 37, "parity1-3x2", ORACLE_VANISH);
	o.threads = 2;
	o.steps = 22;
	o.generations = 3;
	o.compression = 2;
	o.record_bytes = 32768;
	o.fault = CRASH_MEDIA;
	o.full = false;
	return oracle_run_noted(&o, note);
}

/* The log held a snapshot, then a run; the fold of the first placed a node on the columns of the second. */
static void a_fold_at_replay_spares_what_the_log_still_holds(void **state)
{
	guarded("a fold at replay", fold_run, NULL);
}

static int lying_run(void *arg, struct oracle_note *note)
{
	for (unsigned k = 1; k <= 40; k++) {
		struct oracle_options o;
		struct error err = ERROR_INIT;

		oracle_options_draw(&o, k, "mirror2", ORACLE_POWER);
		o.lying_flush = true;
		if (oracle_run(&o, &note->last, &err) != 0)
			return 0;
	}
	return 1;
}

/* Disks whose flush lies lose what was promised: were it not seen, nothing would be. */
static void a_lying_flush_is_seen(void **state)
{
	struct oracle_note note;
	struct error err = ERROR_INIT;

	assert_int_equal(oracle_guard(lying_run, NULL, 120, &note, &err), 0);
}

static void same_seed_same_run(void **state)
{
	struct oracle_options o;
	struct oracle_result a, b;
	struct error err = ERROR_INIT;

	oracle_options_draw(&o, 3, "parity1-5", ORACLE_POWER);
	assert_int_equal(oracle_run(&o, &a, &err), 0);
	assert_int_equal(oracle_run(&o, &b, &err), 0);
	assert_true(a.trace_hash == b.trace_hash);
	assert_true(a.operations == b.operations);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_seed_same_run),
		cmocka_unit_test(a_fold_at_replay_spares_what_the_log_still_holds),
		cmocka_unit_test(every_operation_may_be_the_last),
		cmocka_unit_test(power_may_go_at_any_time),
		cmocka_unit_test(disks_may_go_with_the_power_and_return),
		cmocka_unit_test(a_stale_disk_is_not_believed),
		cmocka_unit_test(a_failing_operation_is_not_noticed),
		cmocka_unit_test(rot_is_mended),
		cmocka_unit_test(a_wreck_is_refused_or_read_only),
		cmocka_unit_test(a_full_pool_can_delete),
		cmocka_unit_test(a_lying_flush_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
