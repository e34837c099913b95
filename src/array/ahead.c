/*
 * Read-ahead: one reader in sequence keeps all disks busy.
 *
 * Each read is compared with where 16 streams would go on. Two hits make a stream (one, for reads of 1 MiB and more):
 * from then on a window of two rows, doubled with each further hit up to 32 MiB, is fetched ahead of it into pages of
 * 256 KiB, in segments, by four threads. A segment is one set of requests in which each disk sees long contiguous
 * reads. Random readers never hit twice in a row, so nothing is fetched for them.
 *
 * ARRAY-8: a page that is found here is what the disks hold. When a row was written, its pages go in the same moment in
 * which its buffered bytes go; pages that are being fetched are doomed and thrown away when they arrive.
 */
#include "internal.h"

#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#define POOL_BYTES (64 * MIB)
#define PAGE_BYTES (256u << 10)
#define SEGMENT_BYTES (8 * MIB)
#define WINDOW_BYTES (32 * MIB)
#define SEGMENT_PAGES_MAX (SEGMENT_BYTES / PAGE_BYTES)
#define LONG_READ_BYTES MIB

static void fetcher_run(void *arg);

int ahead__open(struct array *a, struct error *err)
{
	struct ahead *h = &a->ahead;

	if (a->tuning.read_ahead_rows == UINT_MAX || a->size_bytes < 4 * PAGE_BYTES)
		return 0;
	h->page_bytes = PAGE_BYTES;
	uint64_t pool = min_of(POOL_BYTES, round_up_u64(a->size_bytes, PAGE_BYTES));
	h->window_max = min_of(WINDOW_BYTES, pool / 2);
	if (a->tuning.read_ahead_rows)
		h->window_max =
			min_of(h->window_max, max_of(a->tuning.read_ahead_rows * a->row_bytes, (uint64_t)PAGE_BYTES));
	h->page_count = (unsigned)(pool / PAGE_BYTES);
	h->hash_mask = 63;
	while (h->hash_mask + 1 < 2 * h->page_count)
		h->hash_mask = 2 * h->hash_mask + 1;
	h->pool_bytes = pool;
	void *p = mmap(NULL, pool, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	h->pool = p == MAP_FAILED ? NULL : p;
	h->pages = calloc(h->page_count, sizeof *h->pages);
	h->hash = calloc((size_t)h->hash_mask + 1, sizeof *h->hash);
	if (!h->pool || !h->pages || !h->hash)
		return error_set(err, ERR_MEMORY, "out of memory for read-ahead");
	for (unsigned i = 0; i < h->page_count; i++) {
		h->pages[i].bytes = h->pool + (size_t)i * PAGE_BYTES;
		list_push_back(&h->lru, &h->pages[i].lru);
	}
	for (; h->thread_count < FETCHERS; h->thread_count++) {
		int rc = os_thread_create(&h->threads[h->thread_count], "array-fetch", fetcher_run, a, err);

		if (rc)
			return rc;
	}
	return 0;
}

void ahead__stop(struct array *a)
{
	struct ahead *h = &a->ahead;

	for (unsigned i = 0; i < h->thread_count; i++)
		os_thread_join(h->threads[i]);
	h->thread_count = 0;
}

void ahead__close(struct array *a)
{
	struct ahead *h = &a->ahead;

	if (h->pool)
		munmap(h->pool, h->pool_bytes);
	free(h->pages);
	free(h->hash);
	os_cond_destroy(&h->work);
}

/* --- pages ------------------------------------------------------------------------------------ */

static struct page **page_chain(struct ahead *h, uint64_t number)
{
	return &h->hash[number * 0x9e3779b97f4a7c15u >> 40 & h->hash_mask];
}

static struct page *page_find(struct ahead *h, uint64_t number)
{
	struct page *p = *page_chain(h, number);

	while (p && p->number != number)
		p = p->next;
	return p;
}

static void page_unhash(struct ahead *h, struct page *p)
{
	struct page **at = page_chain(h, p->number);

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->hashed = false;
	h->hashed--;
}

/* Idle pages wait in the list; `first`: to be the next that is taken. */
static void page_rest(struct ahead *h, struct page *p, bool first)
{
	list_remove(&p->lru);
	if (first)
		list_push_front(&h->lru, &p->lru);
	else
		list_push_back(&h->lru, &p->lru);
}

static struct page *page_take(struct ahead *h, uint64_t number)
{
	if (list_is_empty(&h->lru))
		return NULL;
	struct page *p = container_of(h->lru.next, struct page, lru);
	list_remove(&p->lru);
	if (p->hashed)
		page_unhash(h, p);
	p->number = number;
	p->loading = p->hashed = true;
	p->doomed = false;
	p->next = *page_chain(h, number);
	*page_chain(h, number) = p;
	h->hashed++;
	return p;
}

static void page_release(struct ahead *h, struct page *p, bool first)
{
	if (--p->users == 0 && !p->loading)
		page_rest(h, p, first || p->doomed);
}

static void page_drop(struct ahead *h, struct page *p)
{
	if (p->doomed)
		return;
	p->doomed = true;
	page_unhash(h, p);
	if (!p->loading && !p->users)
		page_rest(h, p, true);
}

uint64_t ahead__copy(struct array *a, uint64_t offset_bytes, uint8_t *buffer, uint64_t length_bytes)
{
	struct ahead *h = &a->ahead;
	struct page *p = h->hashed ? page_find(h, offset_bytes / PAGE_BYTES) : NULL;
	uint64_t in = offset_bytes % PAGE_BYTES, n = min_of(length_bytes, PAGE_BYTES - in);

	if (!p)
		return 0;
	if (p->users++ == 0 && !p->loading)
		list_remove(&p->lru);
	while (p->loading)
		array__wait(a);
	if (p->doomed)
		n = 0;
	else
		memcpy(buffer, p->bytes + in, n);
	page_release(h, p, in + n == PAGE_BYTES);
	return n;
}

void ahead__drop(struct array *a, uint64_t offset_bytes, uint64_t length_bytes)
{
	struct ahead *h = &a->ahead;

	if (!h->hashed)
		return;
	for (uint64_t n = offset_bytes / PAGE_BYTES; n <= (offset_bytes + length_bytes - 1) / PAGE_BYTES; n++) {
		struct page *p = page_find(h, n);

		if (p)
			page_drop(h, p);
	}
}

void array_drop_cache(struct array *a)
{
	struct ahead *h = &a->ahead;
	os_scoped_lock(&a->lock);

	for (unsigned i = 0; i < h->page_count; i++)
		if (h->pages[i].hashed)
			page_drop(h, &h->pages[i]);
	memset(h->streams, 0, sizeof h->streams);
	h->count = 0;
}

/* --- streams ---------------------------------------------------------------------------------- */

/*
 * The stream that goes on here. Once it is one, requests may come a little out of order, as they do from readers with
 * several in flight. Before, they must meet exactly, and long ones at once: of 128 places for records of 16 MiB a
 * random reader hits one out of 16 too often.
 */
static struct stream *stream_find(struct ahead *h, uint64_t offset, uint64_t length)
{
	for (unsigned i = 0; i < STREAMS; i++) {
		struct stream *s = &h->streams[i];

		if (!s->used)
			continue;
		if (s->hits >= 2 && offset + 2 * length >= s->next && offset <= s->next + 2 * length &&
			offset + length > s->next)
			return s;
		if (offset == s->next && (length < LONG_READ_BYTES || s->used + 2 > h->stream_clock))
			return s;
	}
	return NULL;
}

static struct stream *stream_oldest(struct ahead *h)
{
	struct stream *oldest = &h->streams[0];

	for (unsigned i = 1; i < STREAMS; i++)
		if (h->streams[i].used < oldest->used)
			oldest = &h->streams[i];
	return oldest;
}

static void stream_fetch(struct array *a, struct stream *s)
{
	struct ahead *h = &a->ahead;
	uint64_t to = min_of(s->next + s->window, a->size_bytes);
	uint64_t segment = max_of(round_down_u64(s->window / 4, PAGE_BYTES), (uint64_t)PAGE_BYTES);

	segment = min_of(segment, SEGMENT_BYTES);
	if (s->ahead < s->next)
		s->ahead = round_down_u64(s->next, PAGE_BYTES);
	/* Whole segments only, but for the end: many short ones would cost the disks their long requests. */
	while (h->count < FETCHES_MAX && s->ahead < to && (s->ahead + segment <= to || to == a->size_bytes)) {
		struct fetch f = {.from = s->ahead, .to = min_of(s->ahead + segment, round_up_u64(to, PAGE_BYTES))};

		h->queue[(h->first + h->count++) % FETCHES_MAX] = f;
		s->ahead = f.to;
		os_cond_signal(&h->work);
	}
}

void ahead__seen(struct array *a, uint64_t offset_bytes, uint64_t length_bytes)
{
	struct ahead *h = &a->ahead;

	if (!h->pool || !length_bytes)
		return;
	struct stream *s = stream_find(h, offset_bytes, length_bytes);
	if (!s) {
		s = stream_oldest(h);
		*s = (struct stream){.next = offset_bytes + length_bytes, .used = ++h->stream_clock};
		return;
	}
	s->hits++;
	s->used = ++h->stream_clock;
	s->next = max_of(s->next, offset_bytes + length_bytes);
	if (s->hits < 2 && length_bytes < LONG_READ_BYTES)
		return;
	s->window = s->window ? min_of(2 * s->window, h->window_max)
			      : min_of(max_of(max_of(2 * a->row_bytes, 2 * length_bytes), 4 * (uint64_t)PAGE_BYTES),
					h->window_max);
	stream_fetch(a, s);
}

/* --- fetching --------------------------------------------------------------------------------- */

static void fetch(struct array *a, struct fetch f)
{
	struct ahead *h = &a->ahead;
	struct page *pages[SEGMENT_PAGES_MAX];
	struct target targets[SEGMENT_PAGES_MAX];
	unsigned count = 0;

	for (uint64_t at = f.from; at < f.to && at < a->size_bytes && count < SEGMENT_PAGES_MAX; at += PAGE_BYTES) {
		struct page *p = page_find(h, at / PAGE_BYTES) ? NULL : page_take(h, at / PAGE_BYTES);

		if (!p)
			continue;
		pages[count] = p;
		targets[count++] = (struct target){.offset_bytes = at,
			.length = min_of((uint64_t)PAGE_BYTES, a->size_bytes - at),
			.bytes = p->bytes};
		a->counters.read_ahead_bytes += targets[count - 1].length;
	}
	if (!count)
		return;
	os_mutex_unlock(&a->lock);
	int rc = read__targets(a, targets, count, false, NULL);
	os_mutex_lock(&a->lock);
	for (unsigned i = 0; i < count; i++) {
		struct page *p = pages[i];

		p->loading = false;
		if (rc && !p->doomed) { /* the reader tries himself and gets the sentence */
			p->doomed = true;
			page_unhash(h, p);
		}
		list_init(&p->lru);
		if (!p->users)
			page_rest(h, p, p->doomed);
	}
	array__settle(a);
}

static void fetcher_run(void *arg)
{
	struct array *a = arg;
	struct ahead *h = &a->ahead;

	os_mutex_lock(&a->lock);
	while (!a->stopping) {
		if (!h->count) {
			os_cond_wait(&h->work, &a->lock);
			continue;
		}
		struct fetch f = h->queue[h->first];
		h->first = (h->first + 1) % FETCHES_MAX;
		h->count--;
		fetch(a, f);
	}
	os_mutex_unlock(&a->lock);
}
