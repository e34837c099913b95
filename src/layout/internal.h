/* What the files of layout share; nobody outside the part includes it. */
#ifndef LAYOUT_INTERNAL_H
#define LAYOUT_INTERNAL_H

#include "layout.h"

/* Chunks on each disk. */
static inline uint64_t layout__rows(const struct layout *l)
{
	return l->disk_bytes / l->chunk_bytes;
}

static inline unsigned layout__gcd(unsigned a, unsigned b)
{
	while (b) {
		unsigned r = a % b;
		a = b;
		b = r;
	}
	return a;
}

/* RAID 10 fills its disks without a remainder only when the rows are a multiple of this. */
unsigned layout__rows_unit(const struct layout *l);
/* After so many chunks the set of disks that holds a chunk's copies comes round again. */
unsigned layout__period_chunks(const struct layout *l);

#define PARITY_MAX 3u

/* GF(2^8) with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d), generator 2. */
uint8_t parity__times2(uint8_t a);
uint8_t parity__times(uint8_t a, uint8_t b);
uint8_t parity__power(unsigned exponent); /* 2^exponent */
uint8_t parity__inverse(uint8_t a);       /* of 0: 0 */

void parity__plain_generate(unsigned data, unsigned parity, size_t bytes, void *const *columns);
void parity__plain_update(
	unsigned data, unsigned parity, unsigned column, size_t bytes, const void *delta, void *const *parity_columns);
void parity__plain_combine(unsigned sources, unsigned targets, const uint8_t *factors, size_t bytes,
	void *const *source, void *const *target);

#endif
