/*
 * The mechanics of a rotating disk.
 *
 * Geometry. The backing spans the full stroke, however small it is: its first byte lies on the outermost track,
 * its last on the innermost. Zones of equal width in cylinders have rates that fall from the outer to the inner
 * one. Every place has two coordinates:
 *
 *   t  the time that the head needs to stream from the outer edge up to it; t mod one rotation is its angle,
 *      t div one rotation its track. So a read that goes on where the last one ended waits for nothing, and
 *      writing a block again right after reading it waits for a whole rotation, with no special case for either.
 *   c  the cylinder, as a fraction of the stroke; seeks cost by |c1 − c2|.
 *
 *   outer ├──── zone 0, 55 MB/s ────┼─── zone 1 ───┼── … ──┼─ zone 29, 26 MB/s ─┤ inner
 *
 * Seek curve: a + b √d for short seeks, a straight line for long ones (Ruemmler and Wilkes, "An introduction to
 * disk drive modeling", IEEE Computer 27(3), 1994); b and the line's slope follow from the average and the
 * full-stroke time on the data sheet.
 *
 * Head. One thing at a time: a read, a piece of the write cache, or (free again at any moment) reading ahead.
 * When it becomes free it takes what it can reach first, seek and rotation together (SATF: Jacobson and Wilkes,
 * "Disk scheduling algorithms based on rotational position", HPL-CSP-91-7, 1991; Seltzer, Chen and Ousterhout,
 * "Disk scheduling revisited", 1990), among the 32 oldest requests (SATA and SCSI tags). When the oldest has waited
 * for half a second, every fourth service is for the oldest: nobody starves, and a queue that is long for good
 * does not fall back to first come, first served.
 *
 * Track buffer. A few segments, each a window behind one reader. With nothing else to do the head goes on
 * reading behind the last read, up to a segment's size, so a sequential reader that pauses for
 * less than that gets the media rate at depth 1.
 *
 * Write cache. A write is acknowledged when its bytes have crossed the interface into the cache. The cache keeps
 * *extents* (neighbours merge); the head writes them back in pieces. Reads go first, and after a read the head
 * waits a moment for the next one, unless the cache is three quarters full or a flush waits: then reads and
 * extents compete for the head on equal terms. A flush starts a new epoch; it is through
 * when no extent of an older epoch is left.
 *
 * Invariants
 *   HDD-1  the head does one thing at a time, and its services do not overlap;
 *   HDD-2  dirty_bytes is the sum of the extents, and with link_bytes never exceeds the cache;
 *   HDD-3  an extent never mixes epochs;
 *   HDD-4  consecutive pieces of a sequential stream lose no rotation.
 */
#include "model_mechanics.h"

#include <math.h>
#include <string.h>

#define ZONES_MAX 64
#define SEGMENTS_MAX 32
#define TAGS 32
#define PIECE_BYTES (256u << 10)
#define LINK_PIECE_BYTES (1u << 20)
#define AGE_LIMIT_NS 500000000ull
#define EXTENT_AGE_LIMIT_NS 3000000000ull /* nobody waits for it */
#define AGE_SHARE 4                       /* while the oldest is older than that, every so manyth service is for it */
#define ANTICIPATION_NS 2000000ull
#define CACHE_SHARE 32
#define CACHE_LEAST_BYTES (2u << 20)
#define TURN_ROTATIONS 6 /* how long reads or extents may pass the others when both are urgent */
#define SHORT_SEEK 0.3   /* of the stroke; longer seeks are on the line */
#define SLACK_NS 200.0   /* rounding must not cost a rotation */

struct zone {
	double start_bytes, start_ns, start_c;
	double ns_per_byte, bytes_per_ns, c_per_byte;
};

struct place {
	double t_ns, angle_ns, c;
};

/* A request that needs the head. */
struct tag {
	struct disk_request *r;
	uint64_t start_bytes; /* what is before it came from the track buffer */
	struct place place;
};

struct extent {
	uint64_t start_bytes, end_bytes;
	uint64_t created_ns;
	unsigned epoch;
	struct place place; /* of start_bytes */
};

struct segment {
	uint64_t start_bytes, end_bytes; /* empty when equal */
	uint64_t used_ns;
};

enum head_work { HEAD_FREE, HEAD_TAG, HEAD_EXTENT };

struct hdd {
	struct machine base;
	uint64_t size_bytes;

	struct zone zones[ZONES_MAX];
	unsigned zone_count;
	double rotation_ns, per_rotation, phase_ns;
	double seek_a_ns, seek_b_ns, seek_line_ns, seek_slope_ns; /* a + b√d; line + slope × d */
	double plan_margin_ns, write_settle_ns, overhead_ns, link_ns_per_byte, flush_ns;
	uint32_t physical_bytes;
	struct model_cliff cliff;

	enum head_work work;
	uint64_t free_ns;    /* the head's: busy until, or idle since */
	uint64_t head_bytes; /* where it is then */
	unsigned work_index; /* of the tag or extent */
	uint64_t work_end_bytes;
	uint64_t turn_ns; /* since when the same kind of work is done */
	bool turn_writes;
	unsigned since_oldest; /* services since one was for the oldest because of its age */

	bool ahead; /* reading ahead, in segments[ahead_segment] */
	unsigned ahead_segment;
	double ahead_t_ns; /* the place (its t) at ahead_since_ns */
	double ahead_since_ns;
	uint64_t ahead_limit_bytes;
	struct segment segments[SEGMENTS_MAX];
	unsigned segment_count;
	uint64_t segment_bytes;
	uint64_t last_read_ns;

	struct tag tags[TAGS]; /* in order of arrival */
	unsigned tag_count;
	struct list untagged; /* more requests than tags */

	uint64_t cache_bytes, dirty_bytes;
	struct list incoming; /* writes on their way into the cache; word: how much is in */
	bool link_busy;
	uint64_t link_free_ns, link_bytes;
	struct list flushes; /* word: the last epoch that it waits for */
	unsigned epoch;
	uint64_t changed_ns;    /* when there was last something new to write back */
	struct extent *extents; /* in order of age */
	unsigned extent_count, extents_max, destage_window;
};

static uint64_t end_of(const struct disk_request *r)
{
	return r->offset_bytes + r->length_bytes;
}
static struct disk_request *first_of(const struct list *l)
{
	return container_of(l->next, struct disk_request, link);
}
static uint64_t ns_of(double ns)
{
	return (uint64_t)(ns + 0.5);
}

/* --- geometry ------------------------------------------------------------------------------------------ */

static double within_rotation(const struct hdd *h, double ns)
{
	ns -= (double)(int64_t)(ns * h->per_rotation) * h->rotation_ns;
	if (ns < 0)
		ns += h->rotation_ns;
	return ns < h->rotation_ns ? ns : 0;
}

static const struct zone *zone_of_bytes(const struct hdd *h, double bytes)
{
	unsigned low = 0, high = h->zone_count;
	while (high - low > 1) {
		unsigned middle = (low + high) / 2;
		if (h->zones[middle].start_bytes <= bytes)
			low = middle;
		else
			high = middle;
	}
	return &h->zones[low];
}

static double t_of(const struct hdd *h, uint64_t bytes)
{
	const struct zone *z = zone_of_bytes(h, (double)bytes);
	return z->start_ns + ((double)bytes - z->start_bytes) * z->ns_per_byte;
}

static struct place place_of(const struct hdd *h, uint64_t bytes)
{
	const struct zone *z = zone_of_bytes(h, (double)bytes);
	double in_zone = (double)bytes - z->start_bytes;
	double t_ns = z->start_ns + in_zone * z->ns_per_byte;
	return (struct place){t_ns, within_rotation(h, t_ns), z->start_c + in_zone * z->c_per_byte};
}

static uint64_t bytes_at(const struct hdd *h, double t_ns)
{
	unsigned low = 0, high = h->zone_count;
	while (high - low > 1) {
		unsigned middle = (low + high) / 2;
		if (h->zones[middle].start_ns <= t_ns)
			low = middle;
		else
			high = middle;
	}
	const struct zone *z = &h->zones[low];
	uint64_t bytes = (uint64_t)(z->start_bytes + (t_ns - z->start_ns) * z->bytes_per_ns + 0.5);
	return min_of(bytes, h->size_bytes);
}

static double seek_ns(const struct hdd *h, double stroke)
{
	if (stroke <= SHORT_SEEK)
		return h->seek_a_ns + h->seek_b_ns * sqrt(stroke);
	return h->seek_line_ns + h->seek_slope_ns * stroke;
}

static void zones_make(struct hdd *h, const struct model_params *p)
{
	unsigned n = p->zones < 2 ? 1 : min_of(p->zones, (unsigned)ZONES_MAX);
	double outer = p->info.outer_mb_per_s, inner = n == 1 ? outer : p->info.inner_mb_per_s;
	double bytes = 0, t_ns = 0, sum = (outer + inner) / 2 * n;
	for (unsigned i = 0; i < n; i++) {
		double mb_per_s = n == 1 ? outer : outer - (outer - inner) * i / (n - 1);
		double zone_bytes = (double)h->size_bytes * mb_per_s / sum;
		h->zones[i] = (struct zone){
			.start_bytes = bytes,
			.start_ns = t_ns,
			.start_c = (double)i / n,
			.ns_per_byte = 1e3 / mb_per_s,
			.bytes_per_ns = mb_per_s / 1e3,
			.c_per_byte = 1.0 / n / zone_bytes,
		};
		bytes += zone_bytes;
		t_ns += zone_bytes * h->zones[i].ns_per_byte;
	}
	h->zone_count = n;
}

/* The average is over two independent places, whose distance d has the density 2(1 − d). */
static void seek_curve_make(struct hdd *h, const struct model_params *p)
{
	double s = SHORT_SEEK, far = (1 - s) * (1 - s); /* share of seeks longer than s */
	double root = sqrt(s);
	/* averages of min(√d, √s) and of max(d − s, 0) */
	double root_avg = 2 * (2.0 / 3 * s * root - 2.0 / 5 * s * s * root) + root * far;
	double line_avg = far * (1 - s) / 3;
	double a = p->seek_track_ms, avg = p->info.seek_avg_ms - a, full = p->seek_full_ms - a;
	/* b root + f (1 − s) = full;  b root_avg + f line_avg = avg */
	double determinant = root * line_avg - root_avg * (1 - s);
	double b = (full * line_avg - avg * (1 - s)) / determinant;
	double f = (root * avg - root_avg * full) / determinant;
	h->seek_a_ns = a * 1e6;
	h->seek_b_ns = b * 1e6;
	h->seek_slope_ns = f * 1e6;
	h->seek_line_ns = (a + b * root - f * s) * 1e6;
}

/* --- the head's place and the way to another ------------------------------------------------------------ */

struct head {
	struct place place;
	uint64_t bytes;
	double angle_ns; /* of the spindle */
	bool streaming;  /* the next byte passes below it at this moment */
};

/* How far the buffer of the active segment reaches at a time. */
static double ahead_t(const struct hdd *h, uint64_t at_ns, bool *ret_streaming)
{
	double limit = t_of(h, h->ahead_limit_bytes);
	double t = h->ahead_t_ns + max_of(0.0, (double)at_ns - h->ahead_since_ns);
	*ret_streaming = t <= limit && (double)at_ns >= h->ahead_since_ns;
	return min_of(t, limit);
}

static uint64_t ahead_bytes(const struct hdd *h, uint64_t at_ns)
{
	bool streaming;
	return bytes_at(h, ahead_t(h, at_ns, &streaming));
}

static struct head head_at(const struct hdd *h, uint64_t at_ns)
{
	struct head head = {.bytes = h->head_bytes, .streaming = at_ns == h->free_ns};
	if (h->ahead) {
		bool streaming;
		head.bytes = bytes_at(h, ahead_t(h, at_ns, &streaming));
		head.streaming = streaming;
	}
	head.place = place_of(h, head.bytes);
	head.angle_ns = within_rotation(h, (double)at_ns + h->phase_ns);
	return head;
}

/* From the moment for which `from` was taken until the first byte at `to` passes below the head. `margin_ns` is what
 * planning adds to a seek: a drive that counted on the typical seek would miss every slower one by a rotation. */
static double reach_ns(
	const struct hdd *h, const struct head *from, const struct place *to, bool write, double margin_ns)
{
	double ahead_ns = to->t_ns - from->place.t_ns;
	if (from->streaming && fabs(ahead_ns) < SLACK_NS)
		return 0; /* HDD-4 */
	bool same_track = (int64_t)(to->t_ns * h->per_rotation) == (int64_t)(from->place.t_ns * h->per_rotation);
	double seek = same_track ? 0 : seek_ns(h, fabs(to->c - from->place.c)) + (write ? h->write_settle_ns : 0);
	double margin = same_track ? 0 : margin_ns;
	double wait = to->angle_ns - from->angle_ns - seek;
	while (wait < margin - SLACK_NS)
		wait += h->rotation_ns;
	double reach = seek + max_of(wait, 0.0);
	return from->streaming && ahead_ns >= 0 ? min_of(reach, ahead_ns) : reach;
}

/* --- the track buffer ------------------------------------------------------------------------------------- */

/* The head leaves: what was read ahead stays in the segment. */
static void ahead_stop(struct hdd *h, uint64_t at_ns)
{
	if (!h->ahead)
		return;
	struct segment *s = &h->segments[h->ahead_segment];
	h->head_bytes = ahead_bytes(h, at_ns);
	s->end_bytes = h->head_bytes;
	if (s->end_bytes - s->start_bytes > h->segment_bytes)
		s->start_bytes = s->end_bytes - h->segment_bytes;
	h->ahead = false;
}

static void ahead_start(struct hdd *h, unsigned segment, uint64_t from_bytes, double since_ns)
{
	h->ahead = true;
	h->ahead_segment = segment;
	h->ahead_t_ns = t_of(h, from_bytes);
	h->ahead_since_ns = since_ns;
	h->ahead_limit_bytes = min_of(from_bytes + h->segment_bytes, h->size_bytes);
}

/* A reader took bytes up to `taken_bytes` out of the active segment: room for as many more. */
static void ahead_extend(struct hdd *h, uint64_t taken_bytes, uint64_t at_ns)
{
	uint64_t limit = min_of(taken_bytes + h->segment_bytes, h->size_bytes);
	bool streaming;
	double t = ahead_t(h, at_ns, &streaming);
	if (limit <= h->ahead_limit_bytes)
		return;
	if (!streaming && (double)at_ns >= h->ahead_since_ns) {
		/* It stood still at the old limit; that place comes by again within a rotation. */
		struct head here = head_at(h, at_ns);
		h->ahead_since_ns = (double)at_ns + reach_ns(h, &here, &here.place, false, 0);
		h->ahead_t_ns = t;
	}
	h->ahead_limit_bytes = limit;
}

/* The first byte at or after `start_bytes` that is not in the buffer. */
static uint64_t buffered_until(struct hdd *h, uint64_t start_bytes, uint64_t at_ns, unsigned *ret_segment)
{
	for (unsigned i = 0; i < h->segment_count; i++) {
		struct segment *s = &h->segments[i];
		uint64_t end = h->ahead && h->ahead_segment == i ? ahead_bytes(h, at_ns) : s->end_bytes;
		if (s->start_bytes <= start_bytes && start_bytes < end) {
			s->used_ns = at_ns;
			*ret_segment = i;
			return end;
		}
	}
	return start_bytes;
}

static void segments_forget(struct hdd *h, uint64_t start_bytes, uint64_t end_bytes, uint64_t at_ns)
{
	for (unsigned i = 0; i < h->segment_count; i++) {
		struct segment *s = &h->segments[i];
		bool active = h->ahead && h->ahead_segment == i;
		uint64_t end = active ? h->ahead_limit_bytes : s->end_bytes;
		if (s->start_bytes >= end_bytes || start_bytes >= end)
			continue;
		if (active)
			ahead_stop(h, max_of(at_ns, h->free_ns));
		s->end_bytes = s->start_bytes;
	}
}

/* The segment that the read just finished belongs to: the one that it continues, else the one longest unused. */
static unsigned segment_for(struct hdd *h, uint64_t start_bytes, uint64_t end_bytes, uint64_t at_ns)
{
	unsigned chosen = 0;
	for (unsigned i = 0; i < h->segment_count; i++) {
		struct segment *s = &h->segments[i];
		if (s->start_bytes < s->end_bytes && s->start_bytes <= start_bytes && start_bytes <= s->end_bytes) {
			chosen = i;
			break;
		}
		if (s->used_ns < h->segments[chosen].used_ns)
			chosen = i;
	}
	struct segment *s = &h->segments[chosen];
	if (start_bytes < s->start_bytes || start_bytes > s->end_bytes || s->start_bytes == s->end_bytes)
		s->start_bytes = start_bytes;
	s->end_bytes = end_bytes;
	if (s->end_bytes - s->start_bytes > h->segment_bytes)
		s->start_bytes = s->end_bytes - h->segment_bytes;
	s->used_ns = at_ns;
	return chosen;
}

/* --- the write cache ------------------------------------------------------------------------------------- */

static bool pressed(const struct hdd *h)
{
	return !list_is_empty(&h->flushes) || h->dirty_bytes + h->link_bytes > h->cache_bytes / 4 * 3 ||
	       h->extent_count > h->extents_max / 4 * 3;
}

static bool extent_in_work(const struct hdd *h, unsigned i)
{
	return h->work == HEAD_EXTENT && h->work_index == i;
}

/* HDD-2, HDD-3. */
static void extents_add(struct hdd *h, uint64_t start_bytes, uint64_t end_bytes, uint64_t at_ns)
{
	h->changed_ns = at_ns;
	for (unsigned i = 0; i < h->extent_count; i++) {
		struct extent *e = &h->extents[i];
		uint64_t free_from = extent_in_work(h, i) ? h->work_end_bytes : e->start_bytes;
		if (free_from <= start_bytes && end_bytes <= e->end_bytes)
			return; /* written again before it left the cache */
		if (e->epoch != h->epoch)
			continue;
		if (e->end_bytes == start_bytes) {
			e->end_bytes = end_bytes;
			h->dirty_bytes += end_bytes - start_bytes;
			return;
		}
		if (e->start_bytes == end_bytes && !extent_in_work(h, i)) {
			e->start_bytes = start_bytes;
			e->place = place_of(h, start_bytes);
			h->dirty_bytes += end_bytes - start_bytes;
			return;
		}
	}
	sp_assert(h->extent_count < h->extents_max);
	h->extents[h->extent_count++] =
		(struct extent){start_bytes, end_bytes, at_ns, h->epoch, place_of(h, start_bytes)};
	h->dirty_bytes += end_bytes - start_bytes;
}

static bool extents_hold(const struct hdd *h, uint64_t start_bytes, uint64_t end_bytes)
{
	for (unsigned i = 0; i < h->extent_count; i++)
		if (h->extents[i].start_bytes <= start_bytes && end_bytes <= h->extents[i].end_bytes)
			return true;
	return false;
}

/* Moves the next bytes of the oldest incoming write over the interface, as far as there is room. */
static void link_start(struct hdd *h, uint64_t at_ns)
{
	if (h->link_busy || list_is_empty(&h->incoming) || h->extent_count >= h->extents_max)
		return;
	struct disk_request *r = first_of(&h->incoming);
	uint64_t rest = r->length_bytes - r->word, room = h->cache_bytes - h->dirty_bytes;
	uint64_t bytes = min_of(min_of(rest, room), (uint64_t)LINK_PIECE_BYTES);
	if (bytes < min_of(rest, (uint64_t)PIECE_BYTES / 2))
		return;
	uint64_t start_ns = max_of(max_of(at_ns, h->link_free_ns), r->arrival_ns);
	double take_ns = (double)bytes * h->link_ns_per_byte + (r->word == 0 ? h->overhead_ns : 0);
	uint64_t bus_ns = model__bus_take(h->base.bus, start_ns, bytes);
	h->link_free_ns = max_of(start_ns + ns_of(take_ns), bus_ns);
	h->link_bytes = bytes;
	h->link_busy = true;
}

static void link_done(struct hdd *h)
{
	struct disk_request *r = first_of(&h->incoming);
	uint64_t start = r->offset_bytes + r->word;
	extents_add(h, start, start + h->link_bytes, h->link_free_ns);
	r->word += h->link_bytes;
	h->link_bytes = 0;
	h->link_busy = false;
	if (r->word == r->length_bytes) {
		list_remove(&r->link);
		machine__finish(&h->base, r, h->link_free_ns);
	}
	link_start(h, h->link_free_ns);
}

/* MODEL-2. */
static void flushes_check(struct hdd *h, uint64_t at_ns)
{
	while (!list_is_empty(&h->flushes)) {
		struct disk_request *r = first_of(&h->flushes);
		for (unsigned i = 0; i < h->extent_count; i++)
			if (h->extents[i].epoch <= r->word)
				return;
		list_remove(&r->link);
		machine__finish(&h->base, r, max_of(at_ns, r->arrival_ns) + ns_of(h->flush_ns + h->overhead_ns));
	}
}

/* --- what the head does next ------------------------------------------------------------------------------- */

struct choice {
	enum head_work work;
	unsigned index;
	double reach_ns; /* as planned, in the end as it will be */
};

static bool tag_writes(const struct tag *tag)
{
	return tag->r->op == DISK_WRITE;
}

/* A tag whose start is in the buffer that is just being filled goes on from where that has come to. */
static double tag_reach_ns(const struct hdd *h, const struct head *head, const struct tag *tag, double margin_ns)
{
	if (h->ahead && !tag_writes(tag) && head->bytes >= tag->start_bytes &&
		tag->start_bytes >= h->segments[h->ahead_segment].start_bytes)
		return reach_ns(h, head, &head->place, false, 0);
	return reach_ns(h, head, &tag->place, tag_writes(tag), margin_ns);
}

static struct choice best_tag(const struct hdd *h, const struct head *head, uint64_t at_ns)
{
	struct choice best = {HEAD_FREE, 0, INFINITY};
	for (unsigned i = 0; i < h->tag_count; i++) {
		double reach = tag_reach_ns(h, head, &h->tags[i], h->plan_margin_ns);
		if (reach < best.reach_ns)
			best = (struct choice){HEAD_TAG, i, reach};
		if (i == 0 && h->since_oldest >= AGE_SHARE && at_ns > h->tags[0].r->arrival_ns + AGE_LIMIT_NS)
			break;
	}
	return best;
}

static struct choice best_extent(const struct hdd *h, const struct head *head, uint64_t at_ns)
{
	struct choice best = {HEAD_FREE, 0, INFINITY};
	unsigned considered = 0, last_epoch = UINT32_MAX;
	if (!list_is_empty(&h->flushes))
		last_epoch = (unsigned)container_of(h->flushes.prev, struct disk_request, link)->word;
	for (unsigned i = 0; i < h->extent_count && considered < h->destage_window; i++) {
		const struct extent *e = &h->extents[i];
		if (e->epoch > last_epoch)
			continue;
		double reach = reach_ns(h, head, &e->place, true, h->plan_margin_ns);
		if (reach < best.reach_ns)
			best = (struct choice){HEAD_EXTENT, i, reach};
		if (considered++ == 0 && h->since_oldest >= AGE_SHARE && at_ns > e->created_ns + EXTENT_AGE_LIMIT_NS)
			break;
	}
	return best;
}

/* When both are urgent the nearer one, but neither passes the other for longer than a turn. */
static struct choice choose(struct hdd *h, const struct head *head, uint64_t at_ns)
{
	struct choice tag = best_tag(h, head, at_ns);
	if (tag.work != HEAD_FREE && !pressed(h))
		return tag;
	struct choice extent = best_extent(h, head, at_ns);
	if (tag.work == HEAD_FREE || extent.work == HEAD_FREE)
		return tag.work == HEAD_FREE ? extent : tag;
	bool write = extent.reach_ns < tag.reach_ns;
	if ((double)(at_ns - h->turn_ns) > TURN_ROTATIONS * h->rotation_ns)
		write = !h->turn_writes;
	return write ? extent : tag;
}

static bool aligned(const struct hdd *h, uint64_t bytes)
{
	return bytes % h->physical_bytes == 0;
}

/* From the first byte below the head to the last one written. */
static double write_ns(struct hdd *h, uint64_t start_bytes, uint64_t end_bytes, uint64_t at_ns)
{
	double ns = t_of(h, end_bytes) - t_of(h, start_bytes);
	if (!aligned(h, start_bytes) || !aligned(h, end_bytes))
		ns += h->rotation_ns; /* the old sectors are read first */
	return ns + model__cliff_add(&h->cliff, at_ns, end_bytes - start_bytes, ns);
}

static double serve_tag(struct hdd *h, const struct head *head, const struct choice *c, uint64_t at_ns)
{
	struct tag *tag = &h->tags[c->index];
	h->work_end_bytes = end_of(tag->r);
	if (tag_writes(tag))
		return write_ns(h, tag->start_bytes, h->work_end_bytes, at_ns + ns_of(c->reach_ns));
	uint64_t from = tag->start_bytes;
	if (h->ahead && head->bytes > from && from >= h->segments[h->ahead_segment].start_bytes)
		from = min_of(head->bytes, h->work_end_bytes);
	return t_of(h, h->work_end_bytes) - t_of(h, from);
}

static double serve_extent(struct hdd *h, const struct choice *c, uint64_t at_ns)
{
	struct extent *e = &h->extents[c->index];
	uint64_t end = min_of(e->end_bytes, round_down_u64(e->start_bytes, PIECE_BYTES) + PIECE_BYTES);
	uint64_t whole =
		round_down_u64(end, h->physical_bytes); /* of a stream: more comes for the rest of that sector */
	h->work_end_bytes = whole > e->start_bytes + PIECE_BYTES / 4 ? whole : end;
	return write_ns(h, e->start_bytes, h->work_end_bytes, at_ns + ns_of(c->reach_ns));
}

/* HDD-1: the head is free since free_ns ≤ at_ns. */
static void head_start(struct hdd *h, uint64_t at_ns)
{
	sp_assert(h->work == HEAD_FREE && at_ns >= h->free_ns);
	struct head head = head_at(h, at_ns);
	struct choice c = choose(h, &head, at_ns);
	if (c.work == HEAD_FREE)
		return;
	if (c.work == HEAD_TAG)
		c.reach_ns = tag_reach_ns(h, &head, &h->tags[c.index], 0);
	else
		c.reach_ns = reach_ns(h, &head, &h->extents[c.index].place, true, 0);
	double ns = c.work == HEAD_TAG ? serve_tag(h, &head, &c, at_ns) : serve_extent(h, &c, at_ns);
	ahead_stop(h, at_ns);
	bool writes = c.work == HEAD_EXTENT;
	if (writes != h->turn_writes) {
		h->turn_writes = writes;
		h->turn_ns = at_ns;
	}
	h->since_oldest = c.index == 0 ? 1 : h->since_oldest + 1;
	h->work = c.work;
	h->work_index = c.index;
	h->free_ns = at_ns + ns_of(c.reach_ns + ns);
}

static void tag_fill(struct hdd *h, struct disk_request *r, uint64_t start_bytes)
{
	h->tags[h->tag_count++] = (struct tag){r, start_bytes, place_of(h, start_bytes)};
}

static void tag_done(struct hdd *h)
{
	struct tag tag = h->tags[h->work_index];
	h->tag_count--;
	memmove(&h->tags[h->work_index], &h->tags[h->work_index + 1], (h->tag_count - h->work_index) * sizeof(tag));
	if (!tag_writes(&tag)) {
		unsigned segment = segment_for(h, tag.r->offset_bytes, h->head_bytes, h->free_ns);
		ahead_start(h, segment, h->head_bytes, (double)h->free_ns);
		h->last_read_ns = h->free_ns;
	}
	uint64_t media_ns = (uint64_t)((double)tag.r->length_bytes * h->link_ns_per_byte);
	uint64_t bus_start_ns = max_of(h->free_ns - min_of(media_ns, h->free_ns), tag.r->arrival_ns);
	uint64_t bus_ns = model__bus_take(h->base.bus, bus_start_ns, tag.r->length_bytes);
	machine__finish(&h->base, tag.r, max_of(h->free_ns, bus_ns));
	if (!list_is_empty(&h->untagged)) {
		struct disk_request *r = first_of(&h->untagged);
		list_remove(&r->link);
		tag_fill(h, r, r->offset_bytes);
	}
}

static void extent_done(struct hdd *h)
{
	struct extent *e = &h->extents[h->work_index];
	h->dirty_bytes -= h->work_end_bytes - e->start_bytes;
	e->start_bytes = h->work_end_bytes;
	if (e->start_bytes < e->end_bytes) {
		e->place = place_of(h, e->start_bytes);
	} else {
		h->extent_count--;
		memmove(e, e + 1, (h->extent_count - h->work_index) * sizeof(*e));
	}
	flushes_check(h, h->free_ns);
	link_start(h, h->free_ns);
}

static void head_done(struct hdd *h)
{
	enum head_work work = h->work;
	h->work = HEAD_FREE;
	h->head_bytes = h->work_end_bytes;
	if (work == HEAD_TAG)
		tag_done(h);
	else
		extent_done(h);
	if (h->tag_count > 0 || (h->extent_count > 0 && (pressed(h) || work == HEAD_EXTENT)))
		head_start(h, h->free_ns);
}

/* --- the machine ----------------------------------------------------------------------------------------- */

/* When an idle head turns to the write cache. */
static uint64_t destage_start_ns(const struct hdd *h)
{
	if (h->extent_count == 0)
		return UINT64_MAX;
	uint64_t start_ns = max_of(h->free_ns, h->changed_ns);
	return pressed(h) ? start_ns : max_of(start_ns, h->last_read_ns + ANTICIPATION_NS);
}

static uint64_t head_event_ns(const struct hdd *h)
{
	return h->work != HEAD_FREE ? h->free_ns : destage_start_ns(h);
}

static uint64_t hdd_next_event_ns(const struct machine *m)
{
	const struct hdd *h = container_of(m, struct hdd, base);
	uint64_t head_ns = head_event_ns(h);
	return h->link_busy ? min_of(head_ns, h->link_free_ns) : head_ns;
}

static void hdd_step(struct machine *m)
{
	struct hdd *h = container_of(m, struct hdd, base);
	uint64_t head_ns = head_event_ns(h);
	if (h->link_busy && h->link_free_ns <= head_ns)
		link_done(h);
	else if (h->work != HEAD_FREE)
		head_done(h);
	else
		head_start(h, head_ns);
}

static void finish_from_buffer(struct hdd *h, struct disk_request *r)
{
	uint64_t bus_ns = model__bus_take(h->base.bus, r->arrival_ns, r->length_bytes);
	uint64_t ready_ns = r->arrival_ns + ns_of(h->overhead_ns + (double)r->length_bytes * h->link_ns_per_byte);
	h->last_read_ns = max_of(h->last_read_ns, ready_ns);
	machine__finish(&h->base, r, max_of(bus_ns, ready_ns));
}

static void accept_tag(struct hdd *h, struct disk_request *r, uint64_t start_bytes)
{
	if (h->tag_count == TAGS) {
		list_push_back(&h->untagged, &r->link);
		return;
	}
	tag_fill(h, r, start_bytes);
	if (h->work == HEAD_FREE)
		head_start(h, max_of(r->arrival_ns + ns_of(h->overhead_ns), h->free_ns));
}

static void accept_read(struct hdd *h, struct disk_request *r)
{
	if (extents_hold(h, r->offset_bytes, end_of(r))) {
		finish_from_buffer(h, r);
		return;
	}
	unsigned segment = 0;
	uint64_t start = buffered_until(h, r->offset_bytes, r->arrival_ns, &segment);
	bool active = h->ahead && h->ahead_segment == segment && start > r->offset_bytes;
	if (start >= end_of(r)) {
		if (active)
			ahead_extend(h, end_of(r), r->arrival_ns);
		finish_from_buffer(h, r);
		return;
	}
	accept_tag(h, r, active ? r->offset_bytes : start);
}

static void accept_write(struct hdd *h, struct disk_request *r)
{
	segments_forget(h, r->offset_bytes, end_of(r), r->arrival_ns);
	if (h->cache_bytes == 0) {
		accept_tag(h, r, r->offset_bytes);
		return;
	}
	r->word = 0;
	list_push_back(&h->incoming, &r->link);
	link_start(h, r->arrival_ns);
}

static void accept_flush(struct hdd *h, struct disk_request *r)
{
	r->word = h->epoch++;
	list_push_back(&h->flushes, &r->link);
	h->changed_ns = max_of(h->changed_ns, r->arrival_ns);
	flushes_check(h, r->arrival_ns);
}

static void hdd_accept(struct machine *m, struct disk_request *r)
{
	struct hdd *h = container_of(m, struct hdd, base);
	if (r->op == DISK_READ && r->length_bytes > 0)
		accept_read(h, r);
	else if (r->op == DISK_WRITE && r->length_bytes > 0)
		accept_write(h, r);
	else if (r->op == DISK_FLUSH)
		accept_flush(h, r);
	else
		machine__finish(m, r, r->arrival_ns + ns_of(h->overhead_ns));
}

static void hdd_free(struct machine *m)
{
	struct hdd *h = container_of(m, struct hdd, base);
	free(h->extents);
	free(h);
}

static const struct machine_ops hdd_ops = {hdd_accept, hdd_next_event_ns, hdd_step, hdd_free};

/* A drive's cache is a hundred-thousandth of its capacity. On a small backing the whole of it would hold a good
 * part of the data, and every test would measure the cache; so it is cut, unless it was asked for. */
static uint64_t cache_of(const struct model_params *p, uint64_t size_bytes)
{
	uint64_t most_bytes = max_of(size_bytes / CACHE_SHARE, (uint64_t)CACHE_LEAST_BYTES);
	return p->cache_given ? p->cache_bytes : min_of(p->cache_bytes, most_bytes);
}

static void cache_make(struct hdd *h, const struct model_params *p)
{
	uint64_t cache_bytes = cache_of(p, h->size_bytes);
	uint64_t buffer_bytes = cache_bytes / 2; /* the other half is the write cache */
	if (buffer_bytes < 1u << 20)
		buffer_bytes = 1u << 20;
	h->segment_count = min_of(max_of(p->read_segments, 1u), (unsigned)SEGMENTS_MAX);
	h->segment_bytes = buffer_bytes / h->segment_count;
	h->cache_bytes = cache_bytes / 2;
	h->extents_max = max_of(p->write_extents, 2u);
	h->destage_window = max_of(p->destage_window, 1u);
}

int model__hdd_new(
	const struct model_params *p, uint64_t size_bytes, uint64_t seed, struct machine **ret, struct error *err)
{
	struct hdd *h = calloc(1, sizeof(*h));
	if (!h)
		return error_set(err, ERR_MEMORY, "out of memory for the mechanics of %s", p->info.name);
	h->base.ops = &hdd_ops;
	list_init(&h->base.done);
	list_init(&h->untagged);
	list_init(&h->incoming);
	list_init(&h->flushes);
	h->size_bytes = size_bytes;
	h->rotation_ns = 60e9 / p->info.rpm;
	h->per_rotation = 1 / h->rotation_ns;
	struct random random;
	random_seed(&random, seed);
	h->phase_ns = random_unit(&random) * h->rotation_ns;
	zones_make(h, p);
	seek_curve_make(h, p);
	h->write_settle_ns = p->write_settle_ms * 1e6;
	h->plan_margin_ns = p->plan_margin_ms * 1e6;
	h->overhead_ns = p->overhead_us * 1e3;
	h->link_ns_per_byte = 1e3 / p->link_mb_per_s;
	h->flush_ns = p->flush_ms * 1e6;
	h->physical_bytes = p->physical_bytes;
	h->cliff = (struct model_cliff){
		.burst_bytes = (double)p->burst_bytes, .drain_bytes_per_ns = p->after_mb_per_s / 1e3};
	cache_make(h, p);
	h->extents = calloc(h->extents_max, sizeof(*h->extents));
	if (!h->extents) {
		free(h);
		return error_set(err, ERR_MEMORY, "out of memory for the write cache of %s", p->info.name);
	}
	*ret = &h->base;
	return 0;
}

double model__hdd_seek_ms(const struct machine *m, double stroke)
{
	return seek_ns(container_of(m, struct hdd, base), stroke) / 1e6;
}
