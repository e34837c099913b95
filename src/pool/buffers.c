/*
 * Memory for records: no malloc for each, no fragmentation, and a bound.
 *
 * Each of the nine sizes has a stretch of address space as long as the bound, of which only touched parts are resident.
 * A buffer that comes back is the next one to be taken, while it is in the CPU's cache. When another size needs the
 * room, idle buffers of the others go back to the system. The bound is soft: whoever asks has made room in the cache
 * before.
 */
#include "record.h"

#include <sys/mman.h>

void buffers_open(struct buffers *b, uint64_t limit_bytes)
{
	*b = (struct buffers){.limit_bytes = limit_bytes,
		.region_bytes = round_up_u64(limit_bytes + limit_bytes / 2 + (64u << 20), RECORD_BYTES_MAX)};
}

static void *reserve(uint64_t bytes)
{
	void *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return m == MAP_FAILED ? NULL : m;
}

static void region_close(struct buffer_region *r, uint64_t bytes)
{
	if (r->bytes)
		munmap(r->bytes, bytes);
	if (r->warm)
		munmap(r->warm, r->count * sizeof *r->warm);
	if (r->cold)
		munmap(r->cold, r->count * sizeof *r->cold);
	*r = (struct buffer_region){0};
}

void buffers_close(struct buffers *b)
{
	for (unsigned i = 0; i < RECORD_SIZES; i++)
		region_close(&b->regions[i], b->region_bytes);
}

static unsigned size_of(uint64_t bytes)
{
	unsigned i = 0;

	while (((uint64_t)RECORD_BYTES_MIN << i) < bytes)
		i++;
	sp_assert(i < RECORD_SIZES);
	return i;
}

static bool region_open(struct buffers *b, struct buffer_region *r, uint64_t each)
{
	r->count = (uint32_t)(b->region_bytes / each);
	r->bytes = reserve(b->region_bytes);
	r->warm = reserve(r->count * sizeof *r->warm);
	r->cold = reserve(r->count * sizeof *r->cold);
	if (!r->bytes || !r->warm || !r->cold) {
		region_close(r, b->region_bytes);
		return false;
	}
	/* Touching memory for the first time costs more than the copy into it; large pages make it cheap. */
	if (each >= 65536)
		madvise(r->bytes, b->region_bytes, MADV_HUGEPAGE);
	return true;
}

/* Idle buffers of other sizes go back to the system until `bytes` more fit. */
static void cool_others(struct buffers *b, unsigned size, uint64_t bytes)
{
	for (unsigned i = 0; i < RECORD_SIZES; i++) {
		struct buffer_region *r = &b->regions[i];
		uint64_t each = (uint64_t)RECORD_BYTES_MIN << i;

		while (i != size && r->warm_count && b->resident_bytes + bytes > b->limit_bytes) {
			uint32_t n = r->warm[--r->warm_count];

			madvise(r->bytes + n * each, each, MADV_DONTNEED);
			r->cold[r->cold_count++] = n;
			b->resident_bytes -= each;
		}
	}
}

uint8_t *buffer_get(struct buffers *b, uint64_t bytes)
{
	unsigned size = size_of(bytes);
	struct buffer_region *r = &b->regions[size];
	uint64_t each = (uint64_t)RECORD_BYTES_MIN << size;

	if (!r->bytes && !region_open(b, r, each))
		return NULL;
	if (r->warm_count)
		return r->bytes + r->warm[--r->warm_count] * each;
	if (b->resident_bytes + each > b->limit_bytes)
		cool_others(b, size, each);
	if (!r->cold_count && r->used == r->count)
		return NULL;
	b->resident_bytes += each;
	return r->bytes + (r->cold_count ? r->cold[--r->cold_count] : r->used++) * each;
}

void buffer_put(struct buffers *b, uint8_t *buffer, uint64_t bytes)
{
	unsigned size = size_of(bytes);
	struct buffer_region *r = &b->regions[size];
	uint64_t each = (uint64_t)RECORD_BYTES_MIN << size;

	sp_assert(buffer >= r->bytes && (uint64_t)(buffer - r->bytes) % each == 0);
	r->warm[r->warm_count++] = (uint32_t)((uint64_t)(buffer - r->bytes) / each);
}
