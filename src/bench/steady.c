/*
 * Whether a rate is steady: the rule of SNIA's solid state performance test specification on the last five rounds
 * (greatest minus smallest at most 20 % of their mean, and the least-squares slope over the four steps at most 10 %
 * of it), and a search for one step, which is what a full flash cache or a shingled disk looks like.
 */
#include <math.h>

#include "internal.h"

#define LAST_WINDOWS 5
#define STEP_MAX 0.5
#define SUSTAINED_SHARE_MIN 0.1 /* of the time: less says nothing of what is sustained */
#define ZONE_SLOPE_MAX 0.6      /* the inner zone of a disk gives at least 0.4 of the outer one */

static double mean_of(const double *v, unsigned count)
{
	double sum = 0;

	for (unsigned i = 0; i < count; i++)
		sum += v[i];
	return count ? sum / count : NAN;
}

static double slope_of(const double *x, const double *y, unsigned count)
{
	double x_mean = mean_of(x, count), y_mean = mean_of(y, count), xy = 0, xx = 0;

	for (unsigned i = 0; i < count; i++) {
		xy += (x[i] - x_mean) * (y[i] - y_mean);
		xx += (x[i] - x_mean) * (x[i] - x_mean);
	}
	return xx > 0 ? xy / xx : 0;
}

void steady_flatten(double *rates, const double *positions, unsigned count)
{
	double slope = slope_of(positions, rates, count);
	double at_zero = mean_of(rates, count) - slope * mean_of(positions, count);

	if (count < 3 || at_zero <= 0 || slope >= 0)
		return;
	double share = fmin(-slope / at_zero, ZONE_SLOPE_MAX);
	double before = mean_of(rates, count);
	for (unsigned i = 0; i < count; i++)
		rates[i] /= 1 - share * positions[i];
	double after = mean_of(rates, count);
	for (unsigned i = 0; i < count; i++)
		rates[i] *= before / after;
}

/* The rule is on rounds that are long; windows too short for it are taken together, parts of them by their share. */
unsigned steady_rounds(const double *rates, unsigned count, double ret_rounds[STEADY_ROUNDS])
{
	unsigned rounds = min_of(count, (unsigned)STEADY_ROUNDS);

	for (unsigned r = 0; r < rounds; r++) {
		double from = (double)r * count / rounds, to = (double)(r + 1) * count / rounds, sum = 0;
		for (unsigned i = (unsigned)from; i < count && i < to; i++)
			sum += rates[i] * (fmin(to, i + 1.0) - fmax(from, i));
		ret_rounds[r] = sum / (to - from);
	}
	return rounds;
}

void steady_judge(const double *rates, unsigned count, struct steady *ret)
{
	unsigned used = min_of(count, (unsigned)LAST_WINDOWS);
	const double *last = rates + count - used;
	double x[LAST_WINDOWS], low = INFINITY, high = -INFINITY;

	for (unsigned i = 0; i < used; i++) {
		x[i] = i;
		low = fmin(low, last[i]);
		high = fmax(high, last[i]);
	}
	double mean = mean_of(last, used);
	ret->range = used > 1 && mean > 0 ? (high - low) / mean : 0;
	ret->slope = used > 1 && mean > 0 ? slope_of(x, last, used) * (used - 1) / mean : 0;
	ret->steady = ret->range <= STEADY_RANGE_MAX && fabs(ret->slope) <= STEADY_SLOPE_MAX;
}

/* The split that leaves the least squares on both sides; a step when the median behind it is half of that before. */
void steady_step(const double *rates, unsigned count, unsigned burst_least, struct steady *ret)
{
	double best = INFINITY;
	unsigned split = 0;

	ret->step = false;
	ret->burst = ret->sustained = NAN;
	for (unsigned at = 1; at < count && count - at >= SUSTAINED_SHARE_MIN * count; at++) {
		double before = mean_of(rates, at), after = mean_of(rates + at, count - at), squares = 0;
		for (unsigned i = 0; i < count; i++) {
			double off = rates[i] - (i < at ? before : after);
			squares += off * off;
		}
		if (squares < best) {
			best = squares;
			split = at;
		}
	}
	if (split == 0)
		return;
	double burst = stats_median(rates, split), sustained = stats_median(rates + split, count - split);
	if (sustained <= STEP_MAX * burst && split >= burst_least) {
		ret->step = true;
		ret->burst = burst;
		ret->sustained = sustained;
		ret->at = (double)split / count;
	}
}
