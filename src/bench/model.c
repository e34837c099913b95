/* What disks that work side by side should give, from what each of them gave in the limit. */
#include <math.h>

#include "internal.h"

#define LARGE_RECORD_BYTES (16ull << 20) /* cut over all data disks, however large the chunk */

#define SLOW_SHARE 0.9 /* above, rates only scatter */
#define SHARED_SHARE 0.9

double bench_limit_one(const struct bench_limit *limit, unsigned disks)
{
	bool slow = limit->slowest_share < SLOW_SHARE && limit->slowest_mb_per_s > 0;

	return slow ? limit->slowest_mb_per_s : limit->mb_per_s / disks;
}

bool bench_limit_is_shared(const struct bench_limit *limit)
{
	return limit->mb_per_s < SHARED_SHARE * limit->alone_mb_per_s;
}

/*
 * A large record that goes to a random place is cut over the disks, and each of them seeks for its piece. The limit tells
 * what one disk does with whole records, the sequential test what it does without seeks; the difference is the seek:
 * t = B/I - B/R, and a piece of B/width takes t + B/width/R.
 */
double bench_record_rate(double width, double block_mb, double one, double stream)
{
	double seek_s = block_mb / one - block_mb / stream, piece_mb = block_mb / width;

	if (!(stream > 0) || !(seek_s > 0) || width <= 1)
		return width * one;
	return width * piece_mb / (seek_s + piece_mb / stream);
}

/*
 * A pool writes what is random in order, into full stripes: what bounds it is the disks' sequential rate, so that is its
 * limit for writes of every kind. It reads parity's disks too: a stream passes parity by a seek, and a mirror's copies
 * serve in turns. A large record at a random place is cut over the data columns.
 */
void bench_pool_limit(const struct bench_pool_shape *shape, const struct workload *w, unsigned disks,
	double stream_read, double stream_write, struct bench_limit *limit)
{
	double one = bench_limit_one(limit, disks);

	if (w->read_percent == 0 && w->random && isfinite(limit->mb_per_s) && stream_write > one) {
		limit->alone_mb_per_s *= stream_write / one;
		limit->mb_per_s = stream_write * disks;
		one = stream_write;
	}
	if (!isfinite(limit->mb_per_s) || w->read_then_write || (w->read_percent > 0 && w->read_percent < 100))
		limit->model_mb_per_s = NAN;
	else if (w->read_percent == 0)
		limit->model_mb_per_s = one * disks * shape->data_share;
	else if (w->random && w->block_bytes >= LARGE_RECORD_BYTES && bench_limit_is_shared(limit))
		limit->model_mb_per_s = NAN;
	else if (w->random && w->block_bytes >= LARGE_RECORD_BYTES)
		limit->model_mb_per_s = bench_record_rate(shape->is_mirror ? disks : disks * shape->data_share,
			(double)w->block_bytes / 1e6, one, stream_read);
	else
		limit->model_mb_per_s = one * disks;
}
