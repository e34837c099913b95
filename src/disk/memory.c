/*
 * memory: a disk in anonymous memory. Requests are over before the submit returns; pages that were never
 * written cost nothing.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "internal.h"

struct memory_disk {
	struct disk disk;
	uint8_t *bytes;
	size_t page_bytes;
	char *name, *spec;
};

#define SECTOR_BYTES 512u

static void move_read(const struct disk_request *r, const uint8_t *from)
{
	for (unsigned i = 0; i < r->iov_count; i++) {
		memcpy(r->iov[i].iov_base, from, r->iov[i].iov_len);
		from += r->iov[i].iov_len;
	}
}

#define STREAM_LEAST_BYTES 4096u

/* What is written to a disk is not soon read again: stores past the cache spare the lines that an ordinary store reads
 * first, and leave the cache to parity. */
static void store(uint8_t *to, const uint8_t *from, size_t bytes)
{
#ifdef __SSE2__
	if (bytes >= STREAM_LEAST_BYTES && (uintptr_t)to % 16 == 0) {
		size_t whole = round_down_u64(bytes, 64);
		for (size_t i = 0; i < whole; i += 64) {
			__m128i a = _mm_loadu_si128((const __m128i *)(from + i));
			__m128i b = _mm_loadu_si128((const __m128i *)(from + i + 16));
			__m128i c = _mm_loadu_si128((const __m128i *)(from + i + 32));
			__m128i d = _mm_loadu_si128((const __m128i *)(from + i + 48));
			_mm_stream_si128((__m128i *)(to + i), a);
			_mm_stream_si128((__m128i *)(to + i + 16), b);
			_mm_stream_si128((__m128i *)(to + i + 32), c);
			_mm_stream_si128((__m128i *)(to + i + 48), d);
		}
		_mm_sfence();
		to += whole;
		from += whole;
		bytes -= whole;
	}
#endif
	memcpy(to, from, bytes);
}

static void move_write(const struct disk_request *r, uint8_t *to)
{
	for (unsigned i = 0; i < r->iov_count; i++) {
		store(to, r->iov[i].iov_base, r->iov[i].iov_len);
		to += r->iov[i].iov_len;
	}
}

/* Whole pages go back to the system, which gives zeros at the next touch; the edges are cleared by hand. */
static void make_zero(struct memory_disk *m, uint64_t offset_bytes, uint64_t length_bytes)
{
	uint64_t end = offset_bytes + length_bytes;
	uint64_t first = round_up_u64(offset_bytes, m->page_bytes), last = round_down_u64(end, m->page_bytes);
	if (first >= last || madvise(m->bytes + first, last - first, MADV_DONTNEED) != 0) {
		memset(m->bytes + offset_bytes, 0, length_bytes);
		return;
	}
	memset(m->bytes + offset_bytes, 0, first - offset_bytes);
	memset(m->bytes + last, 0, end - last);
}

static int memory_run(struct disk *d, struct disk_request *r)
{
	struct memory_disk *m = container_of(d, struct memory_disk, disk);
	switch (r->op) {
	case DISK_READ:
		move_read(r, m->bytes + r->offset_bytes);
		break;
	case DISK_WRITE:
		move_write(r, m->bytes + r->offset_bytes);
		break;
	case DISK_DISCARD:
		make_zero(m, r->offset_bytes, r->length_bytes);
		break;
	default:
		break;
	}
	return 0;
}

static void memory_submit(struct disk *d, struct disk_request *r)
{
	disk__complete(r, memory_run(d, r));
}

static void memory_free(struct memory_disk *m)
{
	if (m->bytes)
		munmap(m->bytes, m->disk.traits.size_bytes);
	free(m->name);
	free(m->spec);
	free(m);
}

static void memory_close(struct disk *d)
{
	disk__release(d);
	memory_free(container_of(d, struct memory_disk, disk));
}

static const struct disk_ops memory_ops = {
	.kind = "memory", .submit = memory_submit, .run = memory_run, .close = memory_close};

int disk__memory_open(const char *name, const char *spec, uint64_t size_bytes, struct disk **ret, struct error *err)
{
	char size[SIZE_TEXT_BYTES];
	if (size_bytes == 0 || size_bytes % SECTOR_BYTES)
		return error_set(err, ERR_USAGE, "a memory disk of %llu bytes is not whole sectors of %u bytes",
			(unsigned long long)size_bytes, SECTOR_BYTES);
	struct memory_disk *m = calloc(1, sizeof *m);
	if (!m || !(m->name = strdup(name)) || !(m->spec = strdup(spec))) {
		if (m)
			memory_free(m);
		return error_set(err, ERR_MEMORY, "out of memory while opening %s", name);
	}
	m->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *bytes =
		mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (bytes == MAP_FAILED) {
		int saved = errno;
		memory_free(m);
		return error_set(err, ERR_MEMORY, "%s: the system gives no %s of memory: %s", name,
			size_format_binary(size_bytes, size), strerror(saved));
	}
	madvise(bytes, size_bytes, MADV_HUGEPAGE); /* a wish: refusing it costs speed only */
	m->bytes = bytes;
	struct disk_traits traits = {.name = m->name,
		.spec = m->spec,
		.engine = "memory",
		.size_bytes = size_bytes,
		.nominal_bytes = size_bytes,
		.logical_bytes = SECTOR_BYTES,
		.physical_bytes = SECTOR_BYTES,
		.atomic_bytes = SECTOR_BYTES,
		.direct = true,
		.is_memory = true,
		.discard_zeroes = true};
	disk__init(&m->disk, &memory_ops, NULL, &traits);
	*ret = &m->disk;
	return 0;
}
