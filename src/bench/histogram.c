/*
 * A latency histogram in fixed memory: values below 128 ns have a bucket each; above, every power of two is cut
 * into 128 buckets of equal width, so a bucket is at most 1/128 of its value wide and its middle is wrong by at most
 * 0.4 %. Histograms of threads merge by adding; percentiles are never averaged.
 */
#include "bench.h"

#define SUB_BITS 7
#define SUB (1u << SUB_BITS)
#define BUCKETS ((64 - SUB_BITS + 1) * SUB)

struct histogram {
	uint64_t count, lowest, highest;
	uint64_t buckets[BUCKETS];
};

int histogram_create(struct histogram **ret, struct error *err)
{
	struct histogram *h = calloc(1, sizeof(*h));

	if (!h)
		return error_set(err, ERR_MEMORY, "no memory for a latency histogram");
	h->lowest = UINT64_MAX;
	*ret = h;
	return 0;
}

void histogram_free(struct histogram *h)
{
	free(h);
}

static unsigned bucket_of(uint64_t ns)
{
	if (ns < SUB)
		return (unsigned)ns;
	unsigned shift = 63 - (unsigned)__builtin_clzll(ns) - SUB_BITS;
	return (shift + 1) * SUB + (unsigned)(ns >> shift) - SUB;
}

static uint64_t middle_of(unsigned bucket)
{
	if (bucket < SUB)
		return bucket;
	unsigned shift = bucket / SUB - 1;
	return ((uint64_t)(bucket % SUB + SUB) << shift) + ((1ULL << shift) >> 1);
}

void histogram_add(struct histogram *h, uint64_t ns)
{
	h->buckets[bucket_of(ns)]++;
	h->count++;
	h->lowest = min_of(h->lowest, ns);
	h->highest = max_of(h->highest, ns);
}

void histogram_merge(struct histogram *to, const struct histogram *from)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
	to->count += from->count;
	to->lowest = min_of(to->lowest, from->lowest);
	to->highest = max_of(to->highest, from->highest);
}

uint64_t histogram_count(const struct histogram *h)
{
	return h->count;
}

uint64_t histogram_max(const struct histogram *h)
{
	return h->highest;
}

/* The smallest value that at least `percentile` percent of all values do not exceed. */
uint64_t histogram_percentile(const struct histogram *h, double percentile)
{
	if (h->count == 0)
		return 0;
	/* A hair less, so that 99 % of 100 values is the 99th and not, by rounding, the 100th. */
	double wanted = (double)h->count * (percentile / 100) * (1 - 1e-12);
	uint64_t seen = 0;
	for (unsigned i = 0; i < BUCKETS; i++) {
		seen += h->buckets[i];
		if (h->buckets[i] && (double)seen >= wanted)
			return min_of(max_of(middle_of(i), h->lowest), h->highest);
	}
	return h->highest;
}
