/*
 * pool-oracle: runs the pool's oracle over seeds, or replays one.
 *
 *   pool-oracle --seeds 1..1000 [--shape parity1-5] [--plan power] [--seconds 60] [--go-on]
 *   pool-oracle --seed 17 --shape mirror2 --plan lose --cut 123 --loud 1
 *   pool-oracle --seed 17 --shape mirror2 --plan power --each 1     every operation in turn loses power
 *
 * Prints each failure with the command line that replays it. Status 0: none; 1: some; 2: it was asked wrongly.
 */
#include <stdio.h>
#include <string.h>

#include "oracle.h"

struct request {
	uint64_t first, last, seconds, began_ns;
	const char *shape, *plan;
	bool each, go_on, small;
	struct oracle_options given;
	uint64_t is_given; /* a bit a word of `numbers` */
	uint64_t seed;
	enum oracle_plan one_plan;
};

/* Options with a number that override what the seed draws. */
static const struct number {
	const char *name;
	size_t offset, bytes;
} numbers[] = {
#define NUMBER(name, field)                                                                                            \
	{                                                                                                              \
		name, offsetof(struct oracle_options, field), sizeof(((struct oracle_options *)0)->field)              \
	}
	NUMBER("threads", threads), NUMBER("steps", steps), NUMBER("generations", generations),
	NUMBER("compression", compression), NUMBER("record", record_bytes), NUMBER("cut", cut), NUMBER("fault", fault),
	NUMBER("break", break_rule), NUMBER("lying-flush", lying_flush), NUMBER("full", full),
	NUMBER("twice", twice), NUMBER("loud", loud)};

static int take(struct request *q, const char *name, const char *value, struct error *err)
{
	uint64_t n = 0;

	if (strcmp(name, "shape") == 0) {
		q->shape = value;
		return 0;
	}
	if (strcmp(name, "plan") == 0) {
		q->plan = value;
		for (unsigned i = 0; i < ORACLE_PLANS; i++)
			if (strcmp(value, oracle_plan_names[i]) == 0) {
				q->one_plan = (enum oracle_plan)i;
				return 0;
			}
		return error_set(err, ERR_USAGE, "there is no plan '%s'", value);
	}
	if (strcmp(name, "seeds") == 0) {
		char *end;

		q->first = strtoull(value, &end, 10);
		if (strncmp(end, "..", 2) != 0)
			return error_set(err, ERR_USAGE, "--seeds wants A..B, got '%s'", value);
		q->last = strtoull(end + 2, NULL, 10);
		return 0;
	}
	if (number_parse(name, value, 0, UINT64_MAX, &n, err))
		return err->code;
	if (strcmp(name, "seed") == 0)
		q->first = q->last = n;
	else if (strcmp(name, "seconds") == 0)
		q->seconds = n;
	else if (strcmp(name, "each") == 0)
		q->each = n != 0;
	else if (strcmp(name, "small") == 0)
		q->small = n != 0;
	else if (strcmp(name, "go-on") == 0)
		q->go_on = n != 0;
	else {
		size_t i = 0;

		while (i < array_count(numbers) && strcmp(name, numbers[i].name) != 0)
			i++;
		if (i == array_count(numbers))
			return error_set(err, ERR_USAGE, "there is no option --%s", name);
		memcpy((char *)&q->given + numbers[i].offset, &n,
			numbers[i].bytes); /* little-endian, as this machine is */
		q->is_given |= (uint64_t)1 << i;
	}
	return 0;
}

static struct oracle_options options_for(const struct request *q, const char *shape, enum oracle_plan plan)
{
	struct oracle_options o;

	(q->small ? oracle_options_draw_small : oracle_options_draw)(&o, q->seed, shape, plan);
	for (size_t i = 0; i < array_count(numbers); i++)
		if (q->is_given & (uint64_t)1 << i)
			memcpy((char *)&o + numbers[i].offset, (const char *)&q->given + numbers[i].offset,
				numbers[i].bytes);
	return o;
}

static int run_each(struct oracle_options o, struct oracle_note *note, bool go_on)
{
	int rc = 0;

	for (o.cut = 1;; o.cut++) {
		int one = oracle_run_noted(&o, note);

		rc = rc ? rc : one;
		if ((one && !go_on) || !note->last.met)
			return rc;
	}
}

#define SEEDS_IN_A_CHILD 100

static bool time_is_up(const struct request *q)
{
	return q->seconds && os_real_now_ns() - q->began_ns > q->seconds * 1000000000u;
}

static int run_seed(const struct request *q, struct oracle_note *note)
{
	int rc = 0;

	for (unsigned i = 0; oracle_shapes[i] && (!rc || q->go_on); i++) {
		if (q->shape && strcmp(q->shape, oracle_shapes[i]) != 0)
			continue;
		for (unsigned plan = 0; plan < ORACLE_PLANS && (!rc || q->go_on); plan++) {
			struct oracle_options o;
			int one;

			if (q->plan && plan != q->one_plan)
				continue;
			if (!oracle_plan_fits(oracle_shapes[i], (enum oracle_plan)plan))
				continue;
			o = options_for(q, oracle_shapes[i], (enum oracle_plan)plan);
			one = q->each ? run_each(o, note, q->go_on) : oracle_run_noted(&o, note);
			rc = rc ? rc : one;
		}
	}
	return rc;
}

/* Seeds from q->seed on, until one fails, time is up, or there were many. note->options says how far it came. */
static int run_some(void *arg, struct oracle_note *note)
{
	struct request *q = arg;
	uint64_t first = q->seed;
	int rc = 0;

	for (; !rc && q->seed <= q->last && q->seed - first < SEEDS_IN_A_CHILD && !time_is_up(q); q->seed++)
		rc = run_seed(q, note);
	return rc;
}

static void sum_add(struct oracle_result *to, const struct oracle_result *r)
{
	uint64_t *a = (uint64_t *)to;
	const uint64_t *b = (const uint64_t *)r;

	for (size_t i = 0; i < offsetof(struct oracle_result, trace_hash) / sizeof *a; i++)
		a[i] += b[i];
}

static int run_all(struct request *q)
{
	uint64_t runs = 0, failures = 0;
	struct oracle_result sum = {0};

	q->began_ns = os_real_now_ns();
	for (q->seed = q->first; q->seed <= q->last && !time_is_up(q);) {
		struct oracle_note note;
		struct error err = ERROR_INIT;
		int rc = oracle_guard(run_some, q, 120, &note, &err);

		runs += note.runs;
		sum_add(&sum, &note.sum);
		if (rc == ERR_BUG)
			fprintf(stderr, "FAILED: %s\n", err.text);
		failures += rc != 0;
		q->seed = max_of(q->seed, note.options.seed + 1);
		if (rc && !q->go_on)
			break;
	}
	printf("seeds %llu..%llu: %llu runs, %llu power cuts, %llu disk operations, %llu writes, %llu reads, %llu "
	       "flushes, %llu snapshots, "
	       "%llu sectors compared, %llu checks, %llu scrubs, %llu full oracles, %llu older states, "
	       "%llu wrecks refused, %llu read only, %llu refused for want of space, "
	       "%.1f s: %llu seeds failed\n",
		(unsigned long long)q->first, (unsigned long long)(q->seed - 1), (unsigned long long)runs,
		(unsigned long long)sum.cuts, (unsigned long long)sum.operations, (unsigned long long)sum.writes,
		(unsigned long long)sum.reads, (unsigned long long)sum.flushes, (unsigned long long)sum.snapshots,
		(unsigned long long)sum.sectors_compared, (unsigned long long)sum.checks,
		(unsigned long long)sum.scrubs, (unsigned long long)sum.full_oracles,
		(unsigned long long)sum.rewinds, (unsigned long long)sum.refused, (unsigned long long)sum.read_only,
		(unsigned long long)sum.refused_full, (double)(os_real_now_ns() - q->began_ns) / 1e9,
		(unsigned long long)failures);
	return failures ? 1 : 0;
}

int main(int argc, char **argv)
{
	struct request q = {.first = 1, .last = 1};
	struct error err = ERROR_INIT;

	for (int i = 1; i < argc; i += 2) {
		if (strncmp(argv[i], "--", 2) != 0 || i + 1 == argc || take(&q, argv[i] + 2, argv[i + 1], &err) != 0) {
			fprintf(stderr, "pool-oracle: %s\n",
				err.code ? err.text : "options are --NAME VALUE; see the head of oracle_main.c");
			return 2;
		}
	}
	return run_all(&q);
}
