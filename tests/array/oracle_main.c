/*
 * array-oracle: runs the oracle over seeds, or replays one.
 *
 *   array-oracle --seeds 1..1000 [--layout raid5] [--plan power] [--seconds 60] [--go-on]
 *   array-oracle --seed 17 --layout raid5 --plan lose --cut 123 --loud
 *   array-oracle --seed 17 --layout raid5 --plan power --each      every operation in turn loses power (or fails)
 *
 * Prints each failure with the command line that replays it. Status 0: none; 1: some; 2: it was asked wrongly.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "oracle.h"

struct request {
	uint64_t first, last, seconds;
	const char *layout, *plan;
	struct oracle_options given;
	uint64_t is_given; /* a bit an option below */
	bool each, go_on, quiet;
	/* of the run at hand */
	uint64_t seed;
};

enum choice {
	O_SEED,
	O_SEEDS,
	O_LAYOUT,
	O_PLAN,
	O_SECONDS,
	O_EACH,
	O_LOUD,
	O_GO_ON,
	O_DISKS,
	O_CHUNK,
	O_HOLE,
	O_ROTATION,
	O_LOG_DISK,
	O_NOISE,
	O_STREAM,
	O_THREADS,
	O_STEPS,
	O_GENERATIONS,
	O_BUFFER,
	O_SECTOR,
	O_CUT,
	O_FAULT,
	O_PLANT,
	OPTIONS
};
static const struct choice_name {
	const char *name;
	bool has_value;
} names[OPTIONS] = {{"seed", true}, {"seeds", true}, {"layout", true}, {"plan", true}, {"seconds", true},
	{"each", false}, {"loud", false}, {"go-on", false}, {"disks", true}, {"chunk", true}, {"hole", true},
	{"rotation", true}, {"log-disk", true}, {"noise", true}, {"stream", true}, {"threads", true}, {"steps", true},
	{"generations", true}, {"buffer", true}, {"sector", true}, {"cut", true}, {"fault", true}, {"plant", true}};

static int word_find(
	const char *what, const char *text, const char *const *words, unsigned count, int *ret, struct error *err)
{
	for (unsigned i = 0; i < count; i++)
		if (strcmp(words[i], text) == 0) {
			*ret = (int)i;
			return 0;
		}
	return error_set(err, ERR_USAGE, "'%s' is no %s", text, what);
}

static int take(struct request *q, enum choice which, const char *value, struct error *err)
{
	static const char *const holes[] = {"log", "bitmap"};
	struct oracle_options *o = &q->given;
	uint64_t n = 0;
	int rc = 0, word = 0;
	q->is_given |= (uint64_t)1 << which;
	switch (which) {
	case O_SEEDS: {
		char *end;
		q->first = strtoull(value, &end, 10);
		if (strncmp(end, "..", 2) != 0)
			return error_set(err, ERR_USAGE, "--seeds wants A..B, got '%s'", value);
		q->last = strtoull(end + 2, NULL, 10);
		return 0;
	}
	case O_LAYOUT:
		q->layout = value;
		return 0;
	case O_EACH:
		q->each = true;
		return 0;
	case O_LOUD:
		o->loud = true;
		return 0;
	case O_GO_ON:
		q->go_on = true;
		return 0;
	case O_PLAN:
		rc = word_find("plan", value, oracle_plan_names, ORACLE_PLANS, &word, err);
		q->plan = value;
		return rc;
	case O_HOLE:
		rc = word_find("way to close the write hole", value, holes, 2, &word, err);
		o->hole = (enum array_hole)word;
		return rc;
	case O_FAULT:
		rc = word_find("fault", value, oracle_fault_names, CRASH_FAULTS, &word, err);
		o->fault = (enum crash_fault)word;
		return rc;
	case O_PLANT:
		rc = word_find("mistake", value, oracle_planted_names, ORACLE_PLANTED_KINDS, &word, err);
		o->planted = (enum oracle_planted)word;
		return rc;
	case O_ROTATION:
		return layout_rotation_parse(value, &o->rotation, err);
	default:
		break;
	}
	rc = number_parse(names[which].name, value, 0, UINT64_MAX, &n, err);
	if (rc != 0)
		return rc;
	switch (which) {
	case O_SEED:
		q->first = q->last = n;
		break;
	case O_SECONDS:
		q->seconds = n;
		break;
	case O_DISKS:
		o->disks = (unsigned)n;
		break;
	case O_CHUNK:
		o->chunk_bytes = n;
		break;
	case O_LOG_DISK:
		o->log_disk = n != 0;
		break;
	case O_NOISE:
		o->noise = n != 0;
		break;
	case O_STREAM:
		o->stream = n != 0;
		break;
	case O_THREADS:
		o->threads = (unsigned)n;
		break;
	case O_STEPS:
		o->steps = (unsigned)n;
		break;
	case O_GENERATIONS:
		o->generations = (unsigned)n;
		break;
	case O_BUFFER:
		o->buffer_bytes = n;
		break;
	case O_SECTOR:
		o->sector_bytes = (unsigned)n;
		break;
	default:
		o->cut = n;
		break;
	}
	return 0;
}

/* Drawn from the seed, then what was given. */
static struct oracle_options options_for(const struct request *q, const char *layout, enum oracle_plan plan)
{
	struct oracle_options o;
	const struct oracle_options *g = &q->given;
	oracle_options_draw(&o, q->seed, layout, plan);
#define GIVEN(which, field)                                                                                            \
	if (q->is_given & (uint64_t)1 << (which))                                                                      \
		o.field = g->field;
	GIVEN(O_DISKS, disks)
	GIVEN(O_CHUNK, chunk_bytes)
	GIVEN(O_HOLE, hole)
	GIVEN(O_ROTATION, rotation)
	GIVEN(O_LOG_DISK, log_disk)
	GIVEN(O_NOISE, noise)
	GIVEN(O_STREAM, stream)
	GIVEN(O_THREADS, threads)
	GIVEN(O_STEPS, steps)
	GIVEN(O_GENERATIONS, generations)
	GIVEN(O_BUFFER, buffer_bytes)
	GIVEN(O_SECTOR, sector_bytes)
	GIVEN(O_CUT, cut)
	GIVEN(O_FAULT, fault)
#undef GIVEN
	o.planted = g->planted;
	o.loud = g->loud;
	return o;
}

static int run_each(struct oracle_options o, struct oracle_note *note, bool go_on)
{
	int rc = 0;
	for (o.cut = 1;; o.cut++) {
		int one = oracle_run_noted(&o, note);
		rc = rc ? rc : one;
		if ((one != 0 && !go_on) || !note->result.fault_met)
			return rc;
	}
}

static int run_seed(void *arg, struct oracle_note *note)
{
	const struct request *q = arg;
	int rc = 0;
	for (unsigned i = 0; oracle_layouts[i] && (rc == 0 || q->go_on); i++) {
		const char *layout = q->layout ? q->layout : oracle_layouts[i];
		for (unsigned plan = 0; plan < ORACLE_PLANS && (rc == 0 || q->go_on); plan++) {
			if (q->plan ? strcmp(q->plan, oracle_plan_names[plan]) != 0 : plan == ORACLE_FAULT)
				continue;
			/* Without redundancy nothing is promised of a member that goes. */
			if (plan != ORACLE_POWER && plan != ORACLE_FAULT && !oracle_is_redundant(layout))
				continue;
			struct oracle_options o = options_for(q, layout, (enum oracle_plan)plan);
			int one = q->each ? run_each(o, note, q->go_on) : oracle_run_noted(&o, note);
			rc = rc ? rc : one;
		}
		if (q->layout)
			break;
	}
	return rc;
}

static int run_all(struct request *q)
{
	uint64_t began_ns = os_real_now_ns(), runs = 0, failures = 0;
	struct oracle_result sum = {0};
	for (q->seed = q->first; q->seed <= q->last; q->seed++) {
		struct oracle_note note;
		struct error err = ERROR_INIT;
		int rc = oracle_guard(run_seed, q, 120, &note, &err);
		runs += note.runs;
		oracle_result_add(&sum, &note.sum);
		if (rc == ERR_BUG)
			fprintf(stderr, "FAILED: %s\n", err.text);
		failures += rc != 0;
		if (rc != 0 && !q->go_on)
			break;
		if (q->seconds && os_real_now_ns() - began_ns > q->seconds * 1000000000u)
			break;
	}
	printf("seeds %llu..%llu: %llu runs, %llu power cuts, %llu disk operations, %llu writes, %llu reads, %llu "
	       "flushes, "
	       "%llu sectors compared, %llu lost within the rules, %llu records replayed, %llu rows made to agree, "
	       "%llu rebuilds, %.1f s: %llu seeds failed\n",
		(unsigned long long)q->first, (unsigned long long)min_of(q->seed, q->last), (unsigned long long)runs,
		(unsigned long long)sum.cuts, (unsigned long long)sum.operations, (unsigned long long)sum.writes,
		(unsigned long long)sum.reads, (unsigned long long)sum.flushes,
		(unsigned long long)sum.sectors_compared, (unsigned long long)sum.lost_sectors,
		(unsigned long long)sum.replayed_records, (unsigned long long)sum.resynced_rows,
		(unsigned long long)sum.rebuilds, (double)(os_real_now_ns() - began_ns) / 1e9,
		(unsigned long long)failures);
	return failures ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct request q = {.first = 1, .last = 1};
	struct option longs[OPTIONS + 1] = {0};
	struct error err = ERROR_INIT;
	int c;
	for (unsigned i = 0; i < OPTIONS; i++)
		longs[i] = (struct option){
			names[i].name, names[i].has_value ? required_argument : no_argument, NULL, 256 + (int)i};
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (c < 256 || take(&q, (enum choice)(c - 256), optarg, &err) != 0) {
			fprintf(stderr, "array-oracle: %s\n",
				err.code ? err.text : "see the head of tests/array/oracle_main.c");
			return 2;
		}
	}
	return run_all(&q);
}
