/*
 * Twenty thousand crash points: 2 000 small seeds over all shapes and plans of the oracle, each of many short generations
 * that end with the power going, in batches in children.
 * SPINDLE_SEEDS=N makes it ten times N seeds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "oracle.h"

#define SEEDS_USUAL 2000u
#define CUTS_USUAL 20000u
#define BATCH 100u

struct batch {
	unsigned first, end;
};

static unsigned shape_count(void)
{
	unsigned n = 0;

	while (oracle_shapes[n])
		n++;
	return n;
}

/* Shapes in turn; each time round the next plan that the shape has. */
static int batch_run(void *arg, struct oracle_note *note)
{
	const struct batch *b = arg;
	unsigned shapes = shape_count();
	int rc = 0;

	for (unsigned seed = b->first; !rc && seed < b->end; seed++) {
		const char *shape = oracle_shapes[seed % shapes];
		unsigned plan = seed / shapes % ORACLE_PLANS;
		struct oracle_options o;

		while (!oracle_plan_fits(shape, (enum oracle_plan)plan))
			plan = (plan + 1) % ORACLE_PLANS;
		oracle_options_draw_small(&o, seed, shape, (enum oracle_plan)plan);
		rc = oracle_run_noted(&o, note);
	}
	return rc;
}

static void wherever_the_power_goes_all_that_was_promised_is_there(void **state)
{
	const char *text = getenv("SPINDLE_SEEDS");
	uint64_t seeds = SEEDS_USUAL, runs = 0, cuts = 0, compared = 0, checks = 0, full = 0;

	if (text && number_parse("SPINDLE_SEEDS", text, 1, 10000000, &seeds, NULL) != 0)
		fail_msg("SPINDLE_SEEDS is '%s', no number", text);
	seeds = text ? seeds * 10 : seeds;
	for (uint64_t first = 1; first <= seeds; first += BATCH) {
		struct batch b = {(unsigned)first, (unsigned)min_of(first + BATCH, seeds + 1)};
		struct oracle_note note;
		struct error err = ERROR_INIT;

		if (oracle_guard(batch_run, &b, 300, &note, &err) != 0)
			fail_msg("%s", err.text);
		runs += note.runs;
		cuts += note.sum.cuts;
		compared += note.sum.sectors_compared;
		checks += note.sum.checks;
		full += note.sum.full_oracles;
	}
	printf("%llu seeds, %llu crash points, %llu sectors compared, %llu checks, %llu times everything with disks away\n",
		(unsigned long long)runs, (unsigned long long)cuts, (unsigned long long)compared,
		(unsigned long long)checks, (unsigned long long)full);
	assert_int_equal(runs, seeds);
	assert_true(text || cuts >= CUTS_USUAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(wherever_the_power_goes_all_that_was_promised_is_there)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
