/*
 * Parity in plain C: the definition. One byte at a time, no tables but one, nothing to get wrong. The fast routines
 * in parity.c are swept against this.
 *
 * Bytes are polynomials over GF(2), added by xor and multiplied modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11d). The powers
 * of 2 run through all 255 bytes but 0 before they repeat, so up to 255 data columns have weights of their own in Q.
 */
#include "internal.h"

#include <string.h>

uint8_t parity__times2(uint8_t a)
{
	return (uint8_t)(a << 1 ^ (a & 0x80 ? 0x1d : 0));
}

uint8_t parity__times(uint8_t a, uint8_t b)
{
	uint8_t product = 0;

	for (; b; b >>= 1, a = parity__times2(a))
		if (b & 1)
			product ^= a;
	return product;
}

uint8_t parity__power(unsigned exponent)
{
	uint8_t power = 1;

	for (exponent %= 255; exponent; exponent--)
		power = parity__times2(power);
	return power;
}

uint8_t parity__inverse(uint8_t a)
{
	uint8_t result = 1;

	for (unsigned bit = 1; bit < 8; bit++) { /* a^254: 254 is all bits but the lowest */
		a = parity__times(a, a);
		result = parity__times(result, a);
	}
	return result;
}

void parity__plain_generate(unsigned data, unsigned parity, size_t bytes, void *const *columns)
{
	for (size_t i = 0; i < bytes; i++) {
		uint8_t p = 0, q = 0, r = 0;

		for (unsigned c = data; c-- > 0;) { /* Horner: Q = D0 + 2 (D1 + 2 (D2 + …)) */
			uint8_t d = ((const uint8_t *)columns[c])[i];
			p ^= d;
			q = parity__times2(q) ^ d;
			r = parity__times2(parity__times2(r)) ^ d;
		}
		if (parity > 0)
			((uint8_t *)columns[data])[i] = p;
		if (parity > 1)
			((uint8_t *)columns[data + 1])[i] = q;
		if (parity > 2)
			((uint8_t *)columns[data + 2])[i] = r;
	}
}

/* to ^= factor × from */
static void add_times(uint8_t *to, const uint8_t *from, uint8_t factor, size_t bytes)
{
	uint8_t products[256] = {0};

	for (unsigned v = 1; v < 256; v++) /* v × factor, bit by bit from half of v */
		products[v] = parity__times2(products[v / 2]) ^ (v & 1 ? factor : 0);
	for (size_t i = 0; i < bytes; i++)
		to[i] ^= products[from[i]];
}

void parity__plain_update(
	unsigned data, unsigned parity, unsigned column, size_t bytes, const void *delta, void *const *parity_columns)
{
	if (bytes == 0)
		return;
	for (unsigned i = 0; i < parity; i++)
		if (parity_columns[i])
			add_times(parity_columns[i], delta, parity__power(i * column), bytes);
}

void parity__plain_combine(unsigned sources, unsigned targets, const uint8_t *factors, size_t bytes,
	void *const *source, void *const *target)
{
	if (bytes == 0)
		return;
	for (unsigned t = 0; t < targets; t++) {
		memset(target[t], 0, bytes);
		for (unsigned s = 0; s < sources; s++)
			add_times(target[t], source[s], factors[t * sources + s], bytes);
	}
}
