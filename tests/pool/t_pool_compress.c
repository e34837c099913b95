/*
 * Compression, checksums and workers of the pool: bytes come back, a codec that does not pay says so, damaged streams are
 * refused without a byte beyond the buffer, a checksum holds for one place only, work is done once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "internal.h"

static struct random r;

/* Text-like, zeros with islands, noise, a long repeat, all zero. */
static void fill(uint8_t *p, size_t bytes, unsigned kind)
{
	static const char words[] = "the pool writes what the record holds and the stripe keeps it whole ";

	memset(p, 0, bytes);
	if (kind == 0)
		for (size_t i = 0; i < bytes; i += 4)
			memcpy(p + i, words + random_below(&r, sizeof(words) - 5), min_of(bytes - i, (size_t)4));
	else if (kind == 1)
		for (size_t i = 0; i < bytes / 16; i++)
			p[random_below(&r, bytes)] = (uint8_t)random_u64(&r);
	else if (kind == 2)
		random_fill(&r, p, bytes);
	else if (kind == 3)
		for (size_t i = 0; i < bytes; i++)
			p[i] = (uint8_t)(i % 251);
}

static void records_come_back(void **state)
{
	static const size_t sizes[] = {4096, 8192, 12288, 65536, 131072, 1 << 20, 5000, 100};
	unsigned paid[COMPRESS_COUNT] = {0};

	for (unsigned s = 0; s < array_count(sizes); s++)
		for (unsigned kind = 0; kind < 5; kind++) {
			size_t bytes = sizes[s];
			uint8_t *in = malloc(bytes), *out = malloc(bytes);

			fill(in, bytes, kind);
			for (enum compression c = COMPRESS_LZ4; c < COMPRESS_COUNT; c++) {
				size_t length = compress_record(c, 3, in, bytes, out, bytes);
				uint8_t *alone = malloc(length + 1), *back = malloc(bytes);

				if (length == 0) {
					assert_true(kind != 4 || bytes < 200);
					free(alone), free(back);
					continue;
				}
				paid[c]++;
				assert_true(length <= bytes - bytes / 8);
				assert_true(length <= BP_INLINE_MAX || class_of(length) < class_of(bytes));
				assert_int_not_equal(kind, 2);
				free(alone);
				alone = malloc(length);
				memcpy(alone, out, length);
				memset(back, 0xa5, bytes);
				assert_int_equal(decompress_record(c, alone, length, back, bytes, NULL), 0);
				assert_memory_equal(in, back, bytes);
				if (bytes > 100) {
					assert_int_equal(decompress_record(c, alone, length, back, bytes - 1, NULL),
						ERR_CORRUPT);
					assert_int_equal(decompress_record(c, alone, length - 1, back, bytes, NULL),
						ERR_CORRUPT);
				}
				free(alone), free(back);
			}
			free(in), free(out);
		}
	for (enum compression c = COMPRESS_LZ4; c < COMPRESS_COUNT; c++)
		assert_true(paid[c] >= 6);
}

static void every_level_of_zstd_works(void **state)
{
	static uint8_t in[65536], out[65536], back[65536];

	fill(in, sizeof(in), 0);
	for (int level = 1; level <= 19; level++) {
		size_t length = compress_record(COMPRESS_ZSTD, level, in, sizeof(in), out, sizeof(out));

		assert_true(length > 0);
		assert_int_equal(decompress_record(COMPRESS_ZSTD, out, length, back, sizeof(back), NULL), 0);
		assert_memory_equal(in, back, sizeof(in));
	}
}

static void little_room_is_respected(void **state)
{
	uint8_t in[8192];

	fill(in, sizeof(in), 0);
	for (enum compression c = COMPRESS_LZ4; c < COMPRESS_COUNT; c++)
		for (size_t room = 1; room < 4096; room += 1 + random_below(&r, 100)) {
			uint8_t *out = malloc(room);

			assert_true(compress_record(c, 1, in, sizeof(in), out, room) <= room);
			free(out);
		}
}

static void damaged_streams_are_refused_or_of_the_right_length(void **state)
{
	for (unsigned i = 0; i < 8000; i++) {
		enum compression c = 1 + i % (COMPRESS_COUNT - 1);
		size_t bytes = 4096, length;
		uint8_t *in = malloc(bytes), *out = malloc(bytes), *back = malloc(bytes), *alone;
		struct error err = ERROR_INIT;

		fill(in, bytes, i / 4 % 2 ? 3 : 1);
		length = compress_record(c, 1, in, bytes, out, bytes);
		if (length == 0 || i % 16 > 11)
			random_fill(&r, out, length = 1 + random_below(&r, 300));
		for (unsigned n = random_below(&r, 5); n; n--)
			out[random_below(&r, length)] = (uint8_t)random_u64(&r);
		alone = malloc(length);
		memcpy(alone, out, length);
		if (decompress_record(c, alone, length, back, bytes, &err))
			assert_true(err.code == ERR_CORRUPT && err.text[0]);
		free(in), free(out), free(back), free(alone);
	}
}

static void checksums_hold_for_one_place(void **state)
{
	static struct pool p;
	static uint8_t data[131072];
	struct bp bp = {.kind = BP_DATA, .run = 12, .stripe = 3, .column = 1, .birth = 77}, other;

	random_fill(&r, p.id, 16);
	random_fill(&r, data, sizeof(data));
	for (unsigned kind = 0; kind < CHECKSUM_COUNT; kind++) {
		bp.checksum_kind = kind;
		bp.physical_bytes = 100000;
		bp_seal(&p, &bp, data);
		assert_true(bp_verify(&p, &bp, data));
		other = bp, other.run++;
		assert_false(bp_verify(&p, &other, data));
		other = bp, other.stripe++;
		assert_false(bp_verify(&p, &other, data));
		other = bp, other.column++;
		assert_false(bp_verify(&p, &other, data));
		other = bp, other.birth++;
		assert_false(bp_verify(&p, &other, data));
		p.id[3] ^= 1;
		assert_false(bp_verify(&p, &bp, data));
		p.id[3] ^= 1;
		data[99999] ^= 1;
		assert_false(bp_verify(&p, &bp, data));
		data[99999] ^= 1;
		data[100000] ^= 1; /* behind what is stored */
		assert_true(bp_verify(&p, &bp, data));
	}
	for (unsigned i = 16; i < CHECKSUM_BYTES; i++) {
		bp.checksum_kind = CHECKSUM_XXH3;
		bp_seal(&p, &bp, data);
		assert_int_equal(bp.checksum[i], 0);
	}
}

static void zeros_are_seen(void **state)
{
	uint8_t p[4096] = {0};

	assert_true(is_all_zero(p, 4096));
	assert_true(is_all_zero(p, 0));
	for (unsigned i = 0; i < 4096; i++) {
		p[i] = 1;
		assert_false(is_all_zero(p, 4096));
		assert_false(is_all_zero(p + i, 1));
		assert_true(i == 0 || is_all_zero(p, i));
		p[i] = 0;
	}
}

struct counted {
	struct os_mutex lock;
	unsigned done[1000];
	struct workers *w;
};

static void count_one(void *arg, unsigned index)
{
	struct counted *c = arg;

	os_scoped_lock(&c->lock);
	c->done[index]++;
}

static void caller(void *arg)
{
	struct counted *c = arg;

	workers_run(c->w, 1000, count_one, c);
}

static int work_in_this_world(void *arg)
{
	struct counted *c = calloc(1, sizeof(*c));
	struct os_thread *threads[3];

	os_mutex_init(&c->lock);
	for (unsigned count = 0; count <= 4; count += 2) {
		memset(c->done, 0, sizeof(c->done));
		assert_int_equal(workers_open(&c->w, count, NULL), 0);
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(os_thread_create(&threads[i], "caller", caller, c, NULL), 0);
		workers_run(c->w, 1, count_one, c);
		workers_run(c->w, 0, count_one, c);
		for (unsigned i = 0; i < 3; i++)
			os_thread_join(threads[i]);
		workers_close(c->w);
		for (unsigned i = 0; i < 1000; i++)
			assert_int_equal(c->done[i], i == 0 ? 4 : 3);
	}
	os_mutex_destroy(&c->lock);
	free(c);
	return 0;
}

static void work_is_done_once(void **state)
{
	work_in_this_world(NULL);
	for (unsigned seed = 0; seed < 10; seed++) {
		struct os_simulation sim;
		uint64_t hash;

		os_simulation_init(&sim, seed);
		assert_int_equal(os_simulate(&sim, work_in_this_world, NULL, NULL), 0);
		hash = sim.trace_hash;
		os_simulation_init(&sim, seed);
		assert_int_equal(os_simulate(&sim, work_in_this_world, NULL, NULL), 0);
		assert_true(hash == sim.trace_hash);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_come_back),
		cmocka_unit_test(every_level_of_zstd_works),
		cmocka_unit_test(little_room_is_respected),
		cmocka_unit_test(damaged_streams_are_refused_or_of_the_right_length),
		cmocka_unit_test(checksums_hold_for_one_place),
		cmocka_unit_test(zeros_are_seen),
		cmocka_unit_test(work_is_done_once),
	};

	random_seed(&r, 3);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
