/*
 * What the bench writes.
 *
 * Data must be incompressible and no two 4 KiB blocks alike, or a stack that compresses or dedups looks fast; it
 * must be verifiable, or a stack that loses writes looks fast; and making it must cost next to nothing, or the bench
 * measures itself. So a pool of units of 4 KiB is filled once, and a write takes its buffer from the pool and only
 * stamps each unit with three words that depend on place, pass and seed:
 *
 *     word 0  mix(offset ^ mix(seed))      whose place this is
 *     word 1  mix(word 0 ^ pass)           and from which pass
 *     word 2  mix(word 1) ^ body           which body follows, so that a reader can make it again
 *
 * The words look random, so the stamp does not compress either. Bodies repeat after a whole pool (16 MiB and more),
 * farther than the windows of lz4 (64 KiB) and zstd at its usual levels (2 MiB) or the records of any file system see.
 *
 * Zeros carry no stamp. Text is made anew for each write, as a program that generates its data does: it is slow on
 * purpose, and the verdict says when it was the text that was measured.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define STAMP_BYTES 24u

struct payload_pool {
	struct payload kind;
	uint64_t seed, units;
	uint8_t *bytes;
};

int payload_parse(const char *text, struct payload *ret, struct error *err)
{
	struct payload p = {.ratio = 1};

	if (!strcmp(text, "random")) {
		p.kind = PAYLOAD_RANDOM;
	} else if (!strcmp(text, "zero")) {
		p.kind = PAYLOAD_ZERO;
	} else if (!strcmp(text, "text")) {
		p.kind = PAYLOAD_TEXT;
	} else if (!strncmp(text, "ratio:", 6)) {
		p.kind = PAYLOAD_RATIO;
		int status = real_parse("the ratio of the payload", text + 6, 1, 100, &p.ratio, err);
		if (status < 0)
			return status;
	} else {
		return error_set(err, ERR_USAGE, "payload \"%s\" is none of random, zero, ratio:NUMBER, text", text);
	}
	*ret = p;
	return 0;
}

char *payload_name(const struct payload *p, char text[24])
{
	static const char *const names[] = {[PAYLOAD_RANDOM] = "random",
		[PAYLOAD_ZERO] = "zero",
		[PAYLOAD_RATIO] = "ratio",
		[PAYLOAD_TEXT] = "text"};

	if (p->kind == PAYLOAD_RATIO)
		snprintf(text, 24, "ratio:%.4g", p->ratio);
	else
		snprintf(text, 24, "%s", names[p->kind]);
	return text;
}

/* --- bodies ------------------------------------------------------------------------------------------------------ */

static void fill_random(uint8_t *to, uint64_t bytes, uint64_t key)
{
	for (uint64_t i = 0; i < bytes / 8; i++) {
		uint64_t word = mix_u64(key + i * 0x632be59bd9b4e019ULL);
		memcpy(to + i * 8, &word, 8);
	}
	uint64_t last = mix_u64(key + 0xabcdef);
	memcpy(to + bytes / 8 * 8, &last, bytes % 8);
}

static void fill_body(const struct payload *kind, uint64_t seed, uint64_t body, uint8_t *to, uint64_t bytes)
{
	uint64_t random_bytes = bytes;

	if (kind->kind == PAYLOAD_ZERO)
		random_bytes = 0;
	else if (kind->kind == PAYLOAD_RATIO)
		random_bytes = min_of(bytes, (uint64_t)(PAYLOAD_UNIT / kind->ratio));
	fill_random(to, random_bytes, mix_u64(seed ^ mix_u64(body)));
	memset(to + random_bytes, 0, bytes - random_bytes);
}

/* Words drawn with a falling probability, as in a language; about 3:1 in lz4. */
static void fill_text(uint64_t key, uint8_t *to, uint64_t bytes)
{
	static const char *const words[] = {"the ", "of ", "and ", "to ", "a ", "disk ", "in ", "is ", "that ",
		"array ", "for ", "was ", "on ", "with ", "parity ", "block ", "as ", "at ", "write ", "read ", "from ",
		"by ", "which ", "stripe ", "chunk ", "row ", "not ", "or ", "an ", "member ", "request ", "time ",
		"between ", "storage ", "failed ", "rebuilt ", "controller ", "sequential ", "throughput ",
		"measured.\n", "however, ", "because ", "second ", "latency "};
	struct random random;
	uint64_t at = 0;

	random_seed(&random, key);
	while (at < bytes) {
		uint64_t draw = random_u64(&random);
		/* The smaller of two draws: early words come more often. */
		uint64_t one = (draw & 0xffff) % array_count(words), two = (draw >> 16 & 0xffff) % array_count(words);
		const char *word = words[min_of(one, two)];
		uint64_t length = min_of(strlen(word), bytes - at);
		memcpy(to + at, word, length);
		at += length;
		if ((draw >> 32) % 8 == 0)
			for (unsigned digit = 0; digit < 5 && at < bytes; digit++)
				to[at++] = (uint8_t)('0' + (draw >> (36 + digit * 4) & 15) % 10);
	}
}

static uint64_t text_key(uint64_t seed, uint64_t pass, uint64_t offset_bytes)
{
	return mix_u64(seed ^ mix_u64(pass ^ mix_u64(offset_bytes)));
}

/* --- pools ------------------------------------------------------------------------------------------------------- */

int payload_pool_create(
	struct payload_pool **ret, const struct payload *kind, uint64_t seed, uint64_t bytes, struct error *err)
{
	struct payload_pool *p = calloc(1, sizeof(*p));
	uint64_t units = (bytes + PAYLOAD_UNIT - 1) / PAYLOAD_UNIT;

	if (p)
		p->bytes = aligned_alloc(DISK_BUFFER_ALIGN, units * PAYLOAD_UNIT);
	if (!p || !p->bytes) {
		free(p);
		return error_set(err, ERR_MEMORY, "no memory for %llu bytes of payload", (unsigned long long)bytes);
	}
	p->kind = *kind;
	p->seed = seed;
	p->units = units;
	if (kind->kind == PAYLOAD_TEXT)
		memset(p->bytes, 0, units * PAYLOAD_UNIT);
	else
		for (uint64_t i = 0; i < units; i++)
			fill_body(kind, seed, i, p->bytes + i * PAYLOAD_UNIT, PAYLOAD_UNIT);
	*ret = p;
	return 0;
}

void payload_pool_free(struct payload_pool *p)
{
	if (!p)
		return;
	free(p->bytes);
	free(p);
}

uint8_t *payload_pool_at(struct payload_pool *p, uint64_t unit)
{
	sp_assert(unit < p->units);
	return p->bytes + unit * PAYLOAD_UNIT;
}

static void stamp_words(uint64_t seed, uint64_t pass, uint64_t offset_bytes, uint64_t body, uint64_t ret[3])
{
	ret[0] = mix_u64(offset_bytes ^ mix_u64(seed));
	ret[1] = mix_u64(ret[0] ^ pass);
	ret[2] = mix_u64(ret[1]) ^ body;
}

static bool is_stamped(const struct payload *kind, uint64_t unit_bytes)
{
	return (kind->kind == PAYLOAD_RANDOM || kind->kind == PAYLOAD_RATIO) && unit_bytes >= 2 * STAMP_BYTES;
}

void payload_stamp(struct payload_pool *p, uint64_t unit, uint64_t offset_bytes, uint64_t length_bytes, uint64_t pass)
{
	uint8_t *to = payload_pool_at(p, unit);

	sp_assert(unit * PAYLOAD_UNIT + length_bytes <= p->units * PAYLOAD_UNIT);
	for (uint64_t at = 0; at < length_bytes; at += PAYLOAD_UNIT) {
		uint64_t bytes = min_of((uint64_t)PAYLOAD_UNIT, length_bytes - at);
		if (p->kind.kind == PAYLOAD_TEXT) {
			fill_text(text_key(p->seed, pass, offset_bytes + at), to + at, bytes);
		} else if (is_stamped(&p->kind, bytes)) {
			uint64_t words[3];
			stamp_words(p->seed, pass, offset_bytes + at, unit + at / PAYLOAD_UNIT, words);
			memcpy(to + at, words, STAMP_BYTES);
		}
	}
}

bool payload_check(const struct payload *kind, uint64_t seed, uint64_t pass, uint64_t offset_bytes, const uint8_t *data,
	uint64_t bytes)
{
	uint8_t wanted[PAYLOAD_UNIT];
	uint64_t from = 0;

	sp_assert(bytes <= PAYLOAD_UNIT);
	if (kind->kind == PAYLOAD_TEXT) {
		fill_text(text_key(seed, pass, offset_bytes), wanted, bytes);
	} else if (kind->kind == PAYLOAD_ZERO) {
		memset(wanted, 0, bytes);
	} else if (is_stamped(kind, bytes)) {
		uint64_t found[3], words[3];
		memcpy(found, data, STAMP_BYTES);
		stamp_words(seed, pass, offset_bytes, 0, words);
		if (found[0] != words[0] || found[1] != words[1])
			return false;
		fill_body(kind, seed, found[2] ^ words[2], wanted, PAYLOAD_UNIT);
		from = STAMP_BYTES;
	} else {
		return true; /* too small to say whose it is */
	}
	return !memcmp(data + from, wanted + from, bytes - from);
}
