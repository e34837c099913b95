/*
 * Statistics that hold for samples that are not normally distributed, as benchmark results are not (Maricq et al.,
 * "Taming performance variability", OSDI 2018): median, median absolute deviation, bootstrap interval of the median
 * (Efron, 1979, percentile method) and the rank test of Mann and Whitney (1947).
 */
#include <math.h>
#include <string.h>

#include "internal.h"

#define BOOTSTRAP_ROUNDS 2000
#define EXACT_BELOW 8

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_of_sorted(const double *v, size_t count)
{
	return count % 2 ? v[count / 2] : (v[count / 2 - 1] + v[count / 2]) / 2;
}

double stats_median(const double *values, size_t count)
{
	if (count == 0)
		return NAN;
	scoped_free double *sorted = malloc(count * sizeof(*sorted));
	if (!sorted)
		return NAN;
	memcpy(sorted, values, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), by_value);
	return median_of_sorted(sorted, count);
}

double stats_mad(const double *values, size_t count)
{
	double median = stats_median(values, count);

	if (isnan(median))
		return NAN;
	scoped_free double *distances = malloc(count * sizeof(*distances));
	if (!distances)
		return NAN;
	for (size_t i = 0; i < count; i++)
		distances[i] = fabs(values[i] - median);
	qsort(distances, count, sizeof(*distances), by_value);
	return median_of_sorted(distances, count);
}

static double mean_of(const double *v, size_t count)
{
	double sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += v[i];
	return sum / (double)count;
}

/* One value has no spread that could be known: the interval is NAN then. */
static void bootstrap(const double *values, size_t count, uint64_t seed, bool of_mean, double ret_interval[2])
{
	ret_interval[0] = ret_interval[1] = NAN;
	if (count < 2)
		return;
	scoped_free double *figures = malloc(BOOTSTRAP_ROUNDS * sizeof(*figures));
	scoped_free double *draw = malloc(count * sizeof(*draw));
	if (!figures || !draw)
		return;

	struct random random;
	random_seed(&random, seed);
	for (size_t round = 0; round < BOOTSTRAP_ROUNDS; round++) {
		for (size_t i = 0; i < count; i++)
			draw[i] = values[random_below(&random, count)];
		if (!of_mean)
			qsort(draw, count, sizeof(*draw), by_value);
		figures[round] = of_mean ? mean_of(draw, count) : median_of_sorted(draw, count);
	}
	qsort(figures, BOOTSTRAP_ROUNDS, sizeof(*figures), by_value);
	ret_interval[0] = figures[BOOTSTRAP_ROUNDS * 25 / 1000];
	ret_interval[1] = figures[BOOTSTRAP_ROUNDS * 975 / 1000 - 1];
}

void stats_interval(const double *values, size_t count, uint64_t seed, double ret_interval[2])
{
	bootstrap(values, count, seed, false, ret_interval);
}

/* Resampling n values gives a variance that is (n - 1)/n of the right one, which for few windows matters. */
void stats_interval_mean(const double *values, size_t count, uint64_t seed, double ret_interval[2])
{
	bootstrap(values, count, seed, true, ret_interval);
	if (count < 2)
		return;
	double mean = mean_of(values, count), wider = sqrt((double)count / (double)(count - 1));
	ret_interval[0] = mean - (mean - ret_interval[0]) * wider;
	ret_interval[1] = mean + (ret_interval[1] - mean) * wider;
}

/* --- Mann-Whitney ------------------------------------------------------------------------------------------------ */

struct ranked {
	double value, rank;
	bool of_a;
};

static int by_ranked_value(const void *a, const void *b)
{
	return by_value(&((const struct ranked *)a)->value, &((const struct ranked *)b)->value);
}

/* Equal values share the mean of their ranks. Returns Σ(t³ − t) over the groups of ties. */
static double rank_all(struct ranked *all, size_t count)
{
	double ties = 0;

	qsort(all, count, sizeof(*all), by_ranked_value);
	for (size_t i = 0; i < count;) {
		size_t end = i + 1;
		while (end < count && all[end].value == all[i].value)
			end++;
		for (size_t k = i; k < end; k++)
			all[k].rank = (double)(i + 1 + end) / 2;
		double t = (double)(end - i);
		ties += t * t * t - t;
		i = end;
	}
	return ties;
}

/* The share of all choices of `left` ranks whose sum is at least as far from its mean as the one observed. */
struct exact {
	const struct ranked *all;
	size_t count;
	double mean, distance;
	uint64_t choices, extreme;
};

static void exact_choose(struct exact *e, size_t from, size_t left, double sum)
{
	if (left == 0) {
		e->choices++;
		e->extreme += fabs(sum - e->mean) >= e->distance - 1e-9;
		return;
	}
	for (size_t i = from; i + left <= e->count; i++)
		exact_choose(e, i + 1, left - 1, sum + e->all[i].rank);
}

double stats_mann_whitney(const double *a, size_t a_count, const double *b, size_t b_count)
{
	size_t count = a_count + b_count;
	if (a_count == 0 || b_count == 0)
		return NAN;
	scoped_free struct ranked *all = malloc(count * sizeof(*all));
	if (!all)
		return NAN;
	for (size_t i = 0; i < count; i++)
		all[i] = (struct ranked){.value = i < a_count ? a[i] : b[i - a_count], .of_a = i < a_count};

	double ties = rank_all(all, count);
	double sum = 0;
	for (size_t i = 0; i < count; i++)
		sum += all[i].of_a ? all[i].rank : 0;
	double na = (double)a_count, nb = (double)b_count, n = (double)count;
	double mean = na * (n + 1) / 2;
	double distance = fabs(sum - mean);

	if (a_count < EXACT_BELOW && b_count < EXACT_BELOW) {
		struct exact e = {.all = all, .count = count, .mean = mean, .distance = distance};
		exact_choose(&e, 0, a_count, 0);
		return (double)e.extreme / (double)e.choices;
	}
	double variance = na * nb / 12 * (n + 1 - ties / (n * (n - 1)));
	if (variance <= 0)
		return 1;
	double z = fmax(distance - 0.5, 0) / sqrt(variance);
	return erfc(z / sqrt(2));
}
