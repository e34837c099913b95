/*
 * Power cuts, and what goes with them. Small runs are cut at every operation in turn, larger ones at drawn ones.
 *
 * SPINDLE_SEEDS=N sets how many seeds each layout gets (24; above 64 they are spread over the layouts). With fewer than
 * 24 the exhaustive runs take only every second, third … operation.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "oracle.h"

#define SEEDS_USUAL 24u
#define LAYOUTS 14u

static unsigned seeds_wanted(void)
{
	const char *text = getenv("SPINDLE_SEEDS");
	uint64_t n = SEEDS_USUAL;
	if (text && number_parse("SPINDLE_SEEDS", text, 1, 100000000, &n, NULL) != 0)
		fail_msg("SPINDLE_SEEDS is '%s', no number", text);
	return (unsigned)n;
}

static unsigned seeds_of_layout(void)
{
	unsigned n = seeds_wanted();
	return n <= 64 ? n : max_of(64u, n / LAYOUTS);
}

static void show(const char *what, const struct oracle_note *n)
{
	printf("%s: %llu runs, %llu power cuts, %llu operations, %llu sectors compared, %llu lost within the rules, "
	       "%llu records replayed, %llu rows made to agree, %llu rebuilds\n",
		what, (unsigned long long)n->runs, (unsigned long long)n->sum.cuts,
		(unsigned long long)n->sum.operations, (unsigned long long)n->sum.sectors_compared,
		(unsigned long long)n->sum.lost_sectors, (unsigned long long)n->sum.replayed_records,
		(unsigned long long)n->sum.resynced_rows, (unsigned long long)n->sum.rebuilds);
}

static void guarded(const char *what, int (*body)(void *arg, struct oracle_note *note), void *arg)
{
	struct oracle_note note;
	struct error err = ERROR_INIT;
	int rc = oracle_guard(body, arg, 120, &note, &err);
	if (rc != 0)
		fail_msg("%s: %s", what, err.text);
	show(what, &note);
}

/* --- sampled ------------------------------------------------------------------------------------------------- */

struct sample {
	enum oracle_plan plan;
	unsigned seeds;
};

static int sample_run(void *arg, struct oracle_note *note)
{
	const struct sample *s = arg;
	for (unsigned i = 0; oracle_layouts[i]; i++) {
		if (s->plan != ORACLE_POWER && !oracle_is_redundant(oracle_layouts[i]))
			continue;
		for (unsigned k = 1; k <= s->seeds; k++) {
			struct oracle_options o;
			oracle_options_draw(&o, k, oracle_layouts[i], s->plan);
			int rc = oracle_run_noted(&o, note);
			if (rc != 0)
				return rc;
		}
	}
	return 0;
}

static void sample(const char *what, enum oracle_plan plan, unsigned of)
{
	struct sample s = {plan, max_of(1u, seeds_of_layout() / of)};
	printf("%s: seeds 1..%u of every layout\n", what, s.seeds);
	guarded(what, sample_run, &s);
}

static void power_may_go_at_any_time(void **state)
{
	sample("power cuts", ORACLE_POWER, 1);
}

static void members_may_go_with_the_power(void **state)
{
	sample("members lost with the power", ORACLE_LOSE, 2);
}

static void a_stale_member_is_not_believed(void **state)
{
	sample("a member vanishes and is back", ORACLE_VANISH, 2);
}

static void a_rebuild_survives_power_cuts(void **state)
{
	sample("power cuts while a member is replaced", ORACLE_REBUILD, 2);
}

/* --- every operation ------------------------------------------------------------------------------------------- */

static int each_run(void *arg, struct oracle_note *note)
{
	static const char *const layouts[] = {"mirror", "raid10", "raid5", "raid6", "raid5x2"};
	for (unsigned i = 0; i < array_count(layouts); i++) {
		struct oracle_options o;
		oracle_options_draw(&o, 7, layouts[i], *(enum oracle_plan *)arg);
		o.chunk_bytes = 8192;
		o.hole = ARRAY_HOLE_LOG;
		o.log_disk = o.noise = o.stream = false;
		o.threads = 2;
		o.steps = 10;
		o.generations = 1;
		for (o.cut = 1;; o.cut += max_of(1u, SEEDS_USUAL / seeds_wanted())) {
			int rc = oracle_run_noted(&o, note);
			if (rc != 0)
				return rc;
			if (!note->result.fault_met)
				break;
		}
	}
	return 0;
}

static void every_operation_in_turn_loses_power(void **state)
{
	enum oracle_plan plan = ORACLE_POWER;
	guarded("a cut at each operation", each_run, &plan);
}

static void every_operation_in_turn_loses_power_and_members(void **state)
{
	enum oracle_plan plan = ORACLE_LOSE;
	guarded("a cut at each operation, members go with it", each_run, &plan);
}

/* --- the oracle itself -------------------------------------------------------------------------------------------- */

static int same_twice(void *arg, struct oracle_note *note)
{
	struct oracle_options o;
	oracle_options_draw(&o, 3, "raid6", ORACLE_LOSE);
	if (oracle_run_noted(&o, note) != 0)
		return ERR_CORRUPT;
	uint64_t hash = note->result.trace_hash;
	if (oracle_run_noted(&o, note) != 0)
		return ERR_CORRUPT;
	return hash == note->result.trace_hash
		       ? 0
		       : error_set(&note->error, ERR_CORRUPT, "seed 3 ran differently the second time");
}

static void a_seed_replays(void **state)
{
	guarded("the same seed twice", same_twice, NULL);
}

struct planted {
	enum oracle_planted what;
	const char *layout;
	enum oracle_plan plan;
	unsigned found;
};

/* Counts the seeds that notice; says nothing of them, since that is what they are for. */
static int planted_run(void *arg, struct oracle_note *note)
{
	const struct planted *p = arg;
	for (unsigned k = 1; k <= 12; k++) {
		struct oracle_options o;
		struct error err = ERROR_INIT;
		oracle_options_draw(&o, k, p->layout, p->plan);
		o.hole = ARRAY_HOLE_LOG;
		o.planted = p->what;
		note->options = o;
		note->runs++;
		if (oracle_run(&o, &note->result, &err) != 0)
			note->sum.cuts++;
	}
	return 0;
}

/* A lie that redundancy hides from a power cut alone shows when members go, too. */
static void what_is_planted_is_found(void **state)
{
	static struct planted cases[] = {
		{ORACLE_LYING_FLUSH, "single", ORACLE_POWER, 0},
		{ORACLE_LYING_FLUSH, "stripe", ORACLE_POWER, 0},
		{ORACLE_LYING_FLUSH, "mirror", ORACLE_POWER, 0},
		{ORACLE_LYING_FLUSH, "raid5", ORACLE_POWER, 0},
		{ORACLE_ONE_LYING_FLUSH, "mirror", ORACLE_LOSE, 0},
		{ORACLE_ONE_LYING_FLUSH, "raid6", ORACLE_LOSE, 0},
		{ORACLE_ONE_LYING_FLUSH, "raid5", ORACLE_POWER, 0},
		{ORACLE_NO_LOG, "raid5", ORACLE_LOSE, 0},
		{ORACLE_NO_LOG, "raid6", ORACLE_LOSE, 0},
	};
	for (size_t i = 0; i < array_count(cases); i++) {
		struct oracle_note note;
		struct error err = ERROR_INIT;
		/* Whatever the disks say, the array must not crash. */
		if (oracle_guard(planted_run, &cases[i], 120, &note, &err) != 0)
			fail_msg("planted '%s' in %s: %s", oracle_planted_names[cases[i].what], cases[i].layout,
				err.text);
		printf("%s, %s, plan %s: %llu of %llu seeds notice\n", oracle_planted_names[cases[i].what],
			cases[i].layout, oracle_plan_names[cases[i].plan], (unsigned long long)note.sum.cuts,
			(unsigned long long)note.runs);
		if (note.sum.cuts == 0)
			fail_msg("planted '%s' in %s is not found", oracle_planted_names[cases[i].what],
				cases[i].layout);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_seed_replays),
		cmocka_unit_test(what_is_planted_is_found),
		cmocka_unit_test(every_operation_in_turn_loses_power),
		cmocka_unit_test(every_operation_in_turn_loses_power_and_members),
		cmocka_unit_test(power_may_go_at_any_time),
		cmocka_unit_test(members_may_go_with_the_power),
		cmocka_unit_test(a_stale_member_is_not_believed),
		cmocka_unit_test(a_rebuild_survives_power_cuts),
	};
	return cmocka_run_group_tests_name("array: what was promised survives power cuts", tests, NULL, NULL);
}
