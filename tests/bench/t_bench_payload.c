#include "../../src/bench/internal.h"
#include "testing.h"

#define POOL (4 * MiB)

static struct payload_pool *pool_of(struct payload kind, uint64_t bytes)
{
	struct payload_pool *p;
	struct error err = ERROR_INIT;

	assert_ok(payload_pool_create(&p, &kind, 7, bytes, &err), &err);
	return p;
}

static void words_are_parsed(void **state)
{
	struct payload p;
	char name[24];
	struct error err = ERROR_INIT;

	assert_int_equal(payload_parse("random", &p, &err), 0);
	assert_int_equal(p.kind, PAYLOAD_RANDOM);
	assert_int_equal(payload_parse("zero", &p, &err), 0);
	assert_string_equal(payload_name(&p, name), "zero");
	assert_int_equal(payload_parse("ratio:2.5", &p, &err), 0);
	assert_string_equal(payload_name(&p, name), "ratio:2.5");
	assert_int_equal(payload_parse("text", &p, &err), 0);
	assert_string_equal(payload_name(&p, name), "text");
	static const char *const wrong[] = {
		"", "Random", "ratio", "ratio:", "ratio:0", "ratio:0.5", "ratio:nan", "ratio:2x", "zeros"};
	for (unsigned i = 0; i < array_count(wrong); i++) {
		error_clear(&err);
		if (payload_parse(wrong[i], &p, &err) != ERR_USAGE)
			fail_msg("'%s' was taken", wrong[i]);
		assert_true(err.text[0]);
	}
}

/* Order-0 entropy in bits a byte; below 7.92 something like 1.01:1 could be saved. */
static double entropy(const uint8_t *bytes, size_t count)
{
	size_t seen[256] = {0};
	double bits = 0;

	for (size_t i = 0; i < count; i++)
		seen[bytes[i]]++;
	for (unsigned i = 0; i < 256; i++)
		if (seen[i])
			bits -= (double)seen[i] / (double)count * log2((double)seen[i] / (double)count);
	return bits;
}

static int by_hash(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* A file of several passes of the pool: what lz4 and zstd could find are repeats of eight bytes; there are none. */
static void random_payload_does_not_compress_or_repeat(void **state)
{
	struct payload_pool *p = pool_of((struct payload){PAYLOAD_RANDOM, 1}, POOL);
	unsigned units = POOL / PAYLOAD_UNIT;
	static uint64_t hashes[4 * POOL / PAYLOAD_UNIT], words[POOL / 8];

	for (unsigned round = 0; round < 4; round++)
		for (unsigned i = 0; i < units; i++) {
			payload_stamp(p, i, ((uint64_t)round * units + i) * PAYLOAD_UNIT, PAYLOAD_UNIT, 99);
			hashes[round * units + i] = checksum_xxh3(payload_pool_at(p, i), PAYLOAD_UNIT);
		}
	qsort(hashes, array_count(hashes), sizeof(hashes[0]), by_hash);
	for (unsigned i = 1; i < array_count(hashes); i++)
		assert_true(hashes[i] != hashes[i - 1]);

	assert_true(entropy(payload_pool_at(p, 0), POOL) > 7.999);
	memcpy(words, payload_pool_at(p, 0), POOL);
	qsort(words, array_count(words), sizeof(words[0]), by_hash);
	for (unsigned i = 1; i < array_count(words); i++)
		assert_true(words[i] != words[i - 1]);
	payload_pool_free(p);
}

static void ratio_payload_is_as_compressible_as_it_says(void **state)
{
	static const double ratios[] = {1.5, 2, 3, 4};

	for (unsigned r = 0; r < array_count(ratios); r++) {
		struct payload_pool *p = pool_of((struct payload){PAYLOAD_RATIO, ratios[r]}, MiB);
		payload_stamp(p, 0, 0, MiB, 5);
		for (unsigned i = 0; i < MiB / PAYLOAD_UNIT; i++) { /* in every 4 KiB, not on average */
			const uint8_t *unit = payload_pool_at(p, i);
			unsigned repeated = 0;
			for (unsigned k = 1; k < PAYLOAD_UNIT; k++)
				repeated += unit[k] == 0 && unit[k - 1] == 0;
			assert_near(PAYLOAD_UNIT / (double)(PAYLOAD_UNIT - repeated), ratios[r], 0.02);
		}
		payload_pool_free(p);
	}
}

static void zero_payload_is_zero(void **state)
{
	struct payload_pool *p = pool_of((struct payload){PAYLOAD_ZERO, 1}, MiB);

	payload_stamp(p, 0, 4096, MiB, 1);
	for (unsigned i = 0; i < MiB; i++)
		assert_int_equal(payload_pool_at(p, 0)[i], 0);
	payload_pool_free(p);
}

static void a_unit_is_checked_against_place_pass_and_every_byte(void **state)
{
	static const struct payload kinds[] = {
		{PAYLOAD_RANDOM, 1}, {PAYLOAD_RATIO, 2}, {PAYLOAD_TEXT, 1}, {PAYLOAD_ZERO, 1}};
	uint8_t unit[PAYLOAD_UNIT];

	for (unsigned k = 0; k < array_count(kinds); k++) {
		struct payload_pool *p = pool_of(kinds[k], MiB);
		bool has_place = kinds[k].kind != PAYLOAD_ZERO;
		payload_stamp(p, 3, 81920, 3 * PAYLOAD_UNIT, 5);
		memcpy(unit, payload_pool_at(p, 4), PAYLOAD_UNIT);
		assert_true(payload_check(&kinds[k], 7, 5, 81920 + PAYLOAD_UNIT, unit, PAYLOAD_UNIT));
		assert_int_equal(payload_check(&kinds[k], 7, 5, 81920, unit, PAYLOAD_UNIT), !has_place);
		assert_int_equal(payload_check(&kinds[k], 7, 6, 81920 + PAYLOAD_UNIT, unit, PAYLOAD_UNIT), !has_place);
		assert_int_equal(payload_check(&kinds[k], 8, 5, 81920 + PAYLOAD_UNIT, unit, PAYLOAD_UNIT), !has_place);
		for (unsigned at = 0; at < PAYLOAD_UNIT; at += 13) {
			unit[at] ^= 1;
			assert_false(payload_check(&kinds[k], 7, 5, 81920 + PAYLOAD_UNIT, unit, PAYLOAD_UNIT));
			unit[at] ^= 1;
		}
		payload_pool_free(p);
	}
}

static void small_blocks_are_checked_too(void **state)
{
	const struct payload kind = {PAYLOAD_RANDOM, 1};
	struct payload_pool *p = pool_of(kind, MiB);

	payload_stamp(p, 2, 512, 512, 5);
	assert_true(payload_check(&kind, 7, 5, 512, payload_pool_at(p, 2), 512));
	assert_false(payload_check(&kind, 7, 5, 1024, payload_pool_at(p, 2), 512));
	payload_stamp(p, 2, 10, 10, 5); /* ten bytes cannot say whose they are */
	assert_true(payload_check(&kind, 7, 5, 10, payload_pool_at(p, 2), 10));
	payload_pool_free(p);
}

static void text_is_text_and_new_each_time(void **state)
{
	struct payload_pool *p = pool_of((struct payload){PAYLOAD_TEXT, 1}, MiB);
	uint64_t first;

	payload_stamp(p, 0, 0, MiB, 1);
	const uint8_t *text = payload_pool_at(p, 0);
	for (unsigned i = 0; i < MiB; i++)
		assert_true((text[i] >= ' ' && text[i] <= '~') || text[i] == '\n');
	assert_true(entropy(text, MiB) < 5);
	first = checksum_xxh3(text, MiB);
	payload_stamp(p, 0, MiB, MiB, 1);
	assert_true(first != checksum_xxh3(text, MiB));
	payload_pool_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_parsed),
		cmocka_unit_test(random_payload_does_not_compress_or_repeat),
		cmocka_unit_test(ratio_payload_is_as_compressible_as_it_says),
		cmocka_unit_test(zero_payload_is_zero),
		cmocka_unit_test(a_unit_is_checked_against_place_pass_and_every_byte),
		cmocka_unit_test(small_blocks_are_checked_too),
		cmocka_unit_test(text_is_text_and_new_each_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
