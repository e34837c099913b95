#include "base.h"

#include <string.h>

/* xoshiro256** 1.0 by Blackman and Vigna, "Scrambled linear pseudorandom number generators" (2018). The state is
 * filled by splitmix64, as its authors advise: no seed gives the all-zero state, and near seeds give far streams. */

static uint64_t splitmix64(uint64_t *x)
{
	uint64_t z = (*x += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void random_seed(struct random *r, uint64_t seed)
{
	for (size_t i = 0; i < array_count(r->s); i++)
		r->s[i] = splitmix64(&seed);
}

static inline uint64_t rotate_left(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

uint64_t random_u64(struct random *r)
{
	uint64_t *s = r->s;
	uint64_t result = rotate_left(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;
	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate_left(s[3], 45);
	return result;
}

/* Lemire, "Fast random integer generation in an interval" (2019): the high half of a 128-bit product, with the few
 * low halves that would make some results likelier thrown away. */
uint64_t random_below(struct random *r, uint64_t bound)
{
	sp_assert(bound > 0);
	__extension__ typedef unsigned __int128 u128;
	u128 product = (u128)random_u64(r) * bound;
	if ((uint64_t)product < bound) {
		uint64_t unfair = -bound % bound;
		while ((uint64_t)product < unfair)
			product = (u128)random_u64(r) * bound;
	}
	return (uint64_t)(product >> 64);
}

double random_unit(struct random *r)
{
	return (double)(random_u64(r) >> 11) * 0x1.0p-53;
}

void random_fill(struct random *r, void *buffer, size_t bytes)
{
	uint8_t *at = buffer;
	uint8_t word[8];
	for (; bytes >= sizeof(word); at += sizeof(word), bytes -= sizeof(word))
		put_le64(at, random_u64(r));
	if (bytes > 0) {
		put_le64(word, random_u64(r));
		memcpy(at, word, bytes);
	}
}
