#include "base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Bit by bit: the definition. */
static uint32_t crc32c_plain(const uint8_t *data, size_t bytes)
{
	uint32_t crc = UINT32_MAX;
	for (size_t i = 0; i < bytes; i++) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0);
	}
	return ~crc;
}

/* RFC 3720, appendix B.4, and the usual check value. */
static void crc32c_vectors(void **state)
{
	uint8_t bytes[32];
	assert_true(checksum_crc32c("123456789", 9) == 0xe3069283u);
	assert_true(checksum_crc32c("", 0) == 0);
	memset(bytes, 0, sizeof(bytes));
	assert_true(checksum_crc32c(bytes, 32) == 0x8a9136aau);
	memset(bytes, 0xff, sizeof(bytes));
	assert_true(checksum_crc32c(bytes, 32) == 0x62a8ab43u);
	for (uint8_t i = 0; i < 32; i++)
		bytes[i] = i;
	assert_true(checksum_crc32c(bytes, 32) == 0x46dd794eu);
	for (uint8_t i = 0; i < 32; i++)
		bytes[i] = (uint8_t)(31 - i);
	assert_true(checksum_crc32c(bytes, 32) == 0x113fdb5cu);
}

static void crc32c_agrees_with_its_definition(void **state)
{
	static uint8_t bytes[4200];
	struct random r;
	random_seed(&r, 5);
	random_fill(&r, bytes, sizeof(bytes));
	for (size_t start = 0; start < 17; start++)
		for (size_t length = 0; length < 300; length++)
			assert_true(checksum_crc32c(bytes + start, length) == crc32c_plain(bytes + start, length));
	for (size_t length = 4080; length <= 4100; length++)
		assert_true(checksum_crc32c(bytes + 3, length) == crc32c_plain(bytes + 3, length));
}

/* Of the xxHash specification: the empty input with seed 0. The others pin our stored formats: they must never change.
 */
static void xxh3_vectors(void **state)
{
	assert_true(checksum_xxh3("", 0) == UINT64_C(0x2d06800538d394c2));
	assert_true(checksum_xxh3("123456789", 9) == UINT64_C(0x72dcb18b67a17dff));
}

static void xxh3_sees_every_bit(void **state)
{
	uint8_t bytes[600] = {0};
	for (size_t length = 1; length <= sizeof(bytes); length += 37) {
		uint64_t plain = checksum_xxh3(bytes, length);
		for (size_t bit = 0; bit < length * 8; bit++) {
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			assert_true(checksum_xxh3(bytes, length) != plain);
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc32c_vectors),
		cmocka_unit_test(crc32c_agrees_with_its_definition),
		cmocka_unit_test(xxh3_vectors),
		cmocka_unit_test(xxh3_sees_every_bit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
