#include "base.h"

#include <isa-l/crc.h>
#include <limits.h>

/* Through <xxhash.h> alone the distribution's library runs its SSE2 code; the dispatch header picks AVX2 or
 * AVX-512 at run time, which is three times as fast. Both give the same numbers. */
#ifdef BASE_HAVE_XXH_X86DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

uint32_t checksum_crc32c(const void *data, size_t bytes)
{
	unsigned char *at = (unsigned char *)(uintptr_t)data; /* ISA-L takes it without const and only reads */
	uint32_t crc = UINT32_MAX;
	while (bytes > 0) {
		int now = (int)min_of(bytes, (size_t)INT_MAX);
		crc = crc32_iscsi(at, now, crc);
		at += now;
		bytes -= (size_t)now;
	}
	return crc ^ UINT32_MAX;
}

uint64_t checksum_xxh3(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

void checksum_xxh3_128(const void *data, size_t bytes, uint64_t seed, uint8_t out[16])
{
	XXH128_hash_t hash = XXH3_128bits_withSeed(data, bytes, seed);

	put_le64(out, hash.low64);
	put_le64(out + 8, hash.high64);
}
