/* Packing and unpacking of all that a pool writes. The only place that knows byte offsets. */
#include "format.h"

const uint32_t class_bytes[CLASS_COUNT + 1] = {
	4 << 10, 8 << 10, 12 << 10, 16 << 10, 24 << 10, 32 << 10, 48 << 10, 64 << 10, 96 << 10,
	128 << 10, 192 << 10, 256 << 10, 384 << 10, 512 << 10, 768 << 10, 1 << 20, NODE_BYTES,
};

unsigned class_of(uint64_t bytes)
{
	unsigned class = 0;

	sp_assert(bytes <= class_bytes[CLASS_COUNT - 1]);
	while (class_bytes[class] < bytes)
		class++;
	return class;
}
