/*
 * Prefetch: one reader in sequence keeps all disks busy.
 *
 * Each read of a volume is compared with where eight streams would go on. A read that goes on in one makes its window
 * grow, from the second hit on (the first, for reads of 1 MiB), up to three runs of all data disks or half of the
 * cache. Parity stays on the same disk for a run, so in each run one disk has nothing to deliver: only a reader that
 * looks more than a run ahead keeps that disk busy, too, and gets the bandwidth of all of them. What lies between the
 * reader and the end of the window is fetched by threads in stretches of half a run, which stripes_read turns into one
 * long request a disk. Random readers never hit twice, so nothing is fetched for them.
 */
#include "record.h"

#include <string.h>

#define LONG_READ_BYTES (1u << 20)
#define FETCH_RECORDS_MAX 1024u
#define STREAM_IS_LIVE 64u /* reads of the volume since its last */
#define STREAM_IS_KNOWN 1024u
#define STEADY_HITS 4u
#define REORDER 4u /* records that a request may be late or early then: several threads may read one stream */

/* --- streams --------------------------------------------------------------------------------- */

static bool goes_on(const struct stream *s, uint64_t first, bool within_record)
{
	uint64_t late = s->hits >= STEADY_HITS ? REORDER : within_record, early = s->hits >= STEADY_HITS ? REORDER : 0;

	return s->used && first + late >= s->next && first <= s->next + early;
}

/* Which of two gives its place to a new stream: random readers begin many and never go on, so these go first. */
static bool is_less_of_a_stream(const struct volume *v, const struct stream *a, const struct stream *b)
{
	bool a_lives = a->hits > 1 && v->stream_clock - a->used < STREAM_IS_KNOWN;
	bool b_lives = b->hits > 1 && v->stream_clock - b->used < STREAM_IS_KNOWN;

	return a_lives != b_lives ? b_lives : a->used < b->used;
}

static struct stream *stream_find(struct volume *v, uint64_t first, bool within_record)
{
	struct stream *least = &v->streams[0];

	for (unsigned i = 0; i < STREAMS; i++) {
		struct stream *s = &v->streams[i];

		if (goes_on(s, first, within_record))
			return s;
		if (is_less_of_a_stream(v, s, least))
			least = s;
	}
	*least = (struct stream){0};
	return least;
}

static unsigned streams_live(const struct volume *v)
{
	unsigned live = 0;

	for (unsigned i = 0; i < STREAMS; i++)
		live += v->streams[i].hits && v->stream_clock - v->streams[i].used < STREAM_IS_LIVE;
	return max_of(live, 1u);
}

/* One has its runs; several share the room that there is. */
static uint64_t window_limit(const struct cache *c, const struct volume *v, unsigned live)
{
	uint64_t bytes = min_of(c->window_bytes, c->cap_bytes / 8 * 5 / live);

	return max_of(bytes >> v->record_shift, UINT64_C(1));
}

static void fetch_queue(struct cache *c, struct volume *v, uint64_t first, uint64_t count)
{
	c->fetches[(c->fetch_first + c->fetch_count++) % FETCHES_MAX] =
		(struct fetch){.volume = v, .first = first, .count = count};
	c->queued_bytes += count << v->record_shift;
	os_cond_signal(&c->fetch_work);
}

/* One stream is fetched in stretches that keep all disks' queues filled. With several the disks have enough to do, and
 * what counts is that each turn at a stream is long: its window is fetched at once when little of it is left. */
static void stream_go_on(struct cache *c, struct volume *v, struct stream *s, uint64_t last, unsigned live)
{
	uint64_t stretch = live > 1 ? s->window : c->segment_bytes >> v->record_shift;
	uint64_t end = min_of(last + s->window, v->record_count);
	bool is_end = end == v->record_count;

	stretch = max_of(min_of(stretch, (uint64_t)FETCH_RECORDS_MAX), UINT64_C(1));
	s->ahead = max_of(s->ahead, last);
	if (live > 1 && s->ahead - last > s->window / 4 && !is_end)
		return;
	/* What would push out what others wait for is not asked for. */
	end = min_of(end, s->ahead + (cache_ahead_room(c) >> v->record_shift));
	while (s->ahead < end && c->fetch_count < FETCHES_MAX) {
		uint64_t n = min_of(end - s->ahead, stretch);

		if (live == 1 && n < stretch && n < s->window / 2 && !is_end)
			return;
		fetch_queue(c, v, s->ahead, n);
		s->ahead += n;
	}
}

void prefetch_note(struct cache *c, struct volume *v, uint64_t first, uint64_t last, uint64_t bytes)
{
	c->clock++;
	if (!c->fetch_thread_count)
		return;
	struct stream *s = stream_find(v, first, bytes < v->record_bytes);
	bool is_new = s->used == 0;
	unsigned live;

	s->used = ++v->stream_clock;
	/* Pieces of one record are one step. */
	if (!is_new && last <= s->next && bytes < v->record_bytes)
		return;
	s->hits += !is_new;
	s->next = is_new ? last : max_of(s->next, last);
	if (s->hits < (bytes >= LONG_READ_BYTES ? 1u : 2u))
		return;
	uint64_t least = max_of((2 * bytes) >> v->record_shift, UINT64_C(2));
	live = streams_live(v);
	s->window = min_of(max_of(2 * s->window, least), window_limit(c, v, live));
	stream_go_on(c, v, s, s->next, live);
}

void prefetch_forget(struct cache *c, struct volume *v)
{
	list_for_each(&c->volumes, n)
	{
		struct volume *w = container_of(n, struct volume, link);

		if (!v || v == w)
			memset(w->streams, 0, sizeof w->streams);
	}
	for (unsigned i = 0; i < c->fetch_count; i++) {
		struct fetch *f = &c->fetches[(c->fetch_first + i) % FETCHES_MAX];

		if (!v || f->volume == v) {
			c->queued_bytes -= f->count << f->volume->record_shift;
			f->count = 0;
		}
	}
}

/* --- fetching -------------------------------------------------------------------------------- */

/* Claims what is neither here nor on its way. */
static void fetch_claim(struct cache *c, struct load *l, const struct fetch *f)
{
	struct volume *v = f->volume;

	l->volume = v;
	l->ahead = true;
	for (uint64_t i = f->first; i < f->first + f->count && l->count < l->room; i++) {
		struct record *r = record_find(c, v, i) ? NULL : record_add(c, v, i);

		if (r)
			l->items[l->count++] = (struct load_item){.record = r};
	}
}

static void fetch_run(struct cache *c, const struct fetch *f)
{
	struct load *l = load_get(c, (unsigned)max_of(f->count, UINT64_C(1)), 0);

	if (!l)
		return;
	fetch_claim(c, l, f);
	uint64_t bytes = (uint64_t)l->count << f->volume->record_shift;
	if (l->count) {
		c->fetching_bytes += bytes;
		cache_trim(c, 0);
		os_mutex_unlock(&c->lock);
		load_run(l, true);
		os_mutex_lock(&c->lock);
		c->fetching_bytes -= bytes;
		load_finish(c, l);
		for (unsigned i = 0; i < l->count; i++)
			record_unref(c, l->items[i].record);
		cache_trim(c, 0);
		os_cond_broadcast(&c->room);
	}
	load_put(c, l);
}

static void fetcher_run(void *arg)
{
	struct cache *c = arg;

	os_mutex_lock(&c->lock);
	while (!c->stopping) {
		if (!c->fetch_count) {
			os_cond_wait(&c->fetch_work, &c->lock);
			continue;
		}
		struct fetch f = c->fetches[c->fetch_first];

		c->fetch_first = (c->fetch_first + 1) % FETCHES_MAX;
		c->fetch_count--;
		c->queued_bytes -= f.count << f.volume->record_shift;
		if (f.count && !f.volume->forgetting)
			fetch_run(c, &f);
	}
	os_mutex_unlock(&c->lock);
}

int prefetch_open(struct cache *c, struct error *err)
{
	while (c->fetch_thread_count < FETCHERS) {
		int rc = os_thread_create(&c->fetch_threads[c->fetch_thread_count], "pool-fetch", fetcher_run, c, err);

		if (rc)
			return rc;
		c->fetch_thread_count++;
	}
	return 0;
}

void prefetch_stop(struct cache *c)
{
	for (unsigned i = 0; i < c->fetch_thread_count; i++)
		os_thread_join(c->fetch_threads[i]);
	c->fetch_thread_count = 0;
}
