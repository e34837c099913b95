/* Each implementation against the plain definition, the definition against the formula, and every loss recovered. */
#include "layout_helper.h"

#include <isa-l/raid.h>

#define ROOM_BYTES (65536u + 256u)
#define GUARD_BYTES 64u
#define GUARD 0xc3
#define COLUMNS_MAX 18u

/* Buffers with guard bytes behind the length in use. */
struct columns {
	uint8_t *store;
	void *at[LAYOUT_WIDTH_MAX];
};

static int columns_setup(struct columns *c, unsigned count, size_t room)
{
	room = (size_t)round_up_u64(room + GUARD_BYTES, 64);
	c->store = aligned_alloc(64, room * count);
	for (unsigned i = 0; i < count; i++)
		c->at[i] = c->store + i * room;
	return c->store ? 0 : -1;
}

static void columns_copy(struct columns *to, const struct columns *from, unsigned count, size_t bytes)
{
	for (unsigned i = 0; i < count; i++) {
		memcpy(to->at[i], from->at[i], bytes);
		memset((uint8_t *)to->at[i] + bytes, GUARD, GUARD_BYTES);
	}
}

static bool columns_equal(const struct columns *a, const struct columns *b, unsigned count, size_t bytes)
{
	for (unsigned i = 0; i < count; i++) {
		const uint8_t *end = (const uint8_t *)a->at[i] + bytes;

		if (memcmp(a->at[i], b->at[i], bytes))
			return false;
		for (unsigned g = 0; g < GUARD_BYTES; g++)
			if (end[g] != GUARD)
				return false;
	}
	return true;
}

static struct columns truth, work, scratch;

static int buffers_setup(void **state)
{
	return columns_setup(&truth, COLUMNS_MAX, ROOM_BYTES) || columns_setup(&work, COLUMNS_MAX, ROOM_BYTES) ||
	       columns_setup(&scratch, COLUMNS_MAX, ROOM_BYTES);
}

static int buffers_teardown(void **state)
{
	free(truth.store);
	free(work.store);
	free(scratch.store);
	return 0;
}

static void truth_init(unsigned data, unsigned parity, size_t bytes, struct random *r)
{
	for (unsigned c = 0; c < data; c++)
		random_fill(r, truth.at[c], bytes);
	parity_impls[1].generate(data, parity, bytes, truth.at);
	for (unsigned c = 0; c < data + parity; c++)
		memset((uint8_t *)truth.at[c] + bytes, GUARD, GUARD_BYTES);
}

/* --- the definition --------------------------------------------------------------------------------------------- */

/* Multiplication by the school method: the carry-less product, then division by 0x11d. */
static uint8_t school_times(unsigned a, unsigned b)
{
	unsigned product = 0;

	for (unsigned bit = 0; bit < 8; bit++)
		if (b >> bit & 1)
			product ^= a << bit;
	for (unsigned bit = 15; bit >= 8; bit--)
		if (product >> bit & 1)
			product ^= 0x11du << (bit - 8);
	return (uint8_t)product;
}

static void the_plain_twin_is_the_formula(void **state)
{
	struct random r;
	uint8_t column[LAYOUT_WIDTH_MAX][16];
	void *at[LAYOUT_WIDTH_MAX];

	random_seed(&r, 3);
	for (unsigned data = 1; data <= LAYOUT_WIDTH_MAX - 3; data++) {
		for (unsigned c = 0; c < data + 3; c++) {
			random_fill(&r, column[c], 16);
			at[c] = column[c];
		}
		parity_impls[1].generate(data, 3, 16, at);
		for (unsigned i = 0; i < 16; i++) {
			unsigned p = 0, q = 0, r3 = 0, power = 1;

			for (unsigned c = 0; c < data; c++, power = school_times(power, 2)) {
				p ^= column[c][i];
				q ^= school_times(power, column[c][i]);
				r3 ^= school_times(power, school_times(power, column[c][i]));
			}
			assert_int_equal(column[data][i], p);
			assert_int_equal(column[data + 1][i], q);
			assert_int_equal(column[data + 2][i], r3);
		}
	}
}

static void q_is_what_pq_gen_writes(void **state)
{
	struct random r;

	random_seed(&r, 4);
	for (unsigned data = 2; data + 2 <= COLUMNS_MAX; data++) {
		truth_init(data, 2, 4096, &r);
		columns_copy(&work, &truth, data, 4096);
		assert_int_equal(pq_gen((int)data + 2, 4096, work.at), 0);
		assert_memory_equal(work.at[data], truth.at[data], 4096);
		assert_memory_equal(work.at[data + 1], truth.at[data + 1], 4096);
	}
}

/* --- sweeps: true when the implementation does as the definition does ------------------------------------------- */

static const size_t tail_lengths[] = {
	0, 4095, 4096, 4097, 4096 + 31, 4096 + 33, 4096 + 63, 65535, 65536, 65536 + 1, 65536 + 32, 65536 + 65};

static size_t length_at(unsigned i)
{
	return i < 200 ? i + 1 : tail_lengths[i - 200];
}
#define LENGTHS (200u + array_count(tail_lengths))

static bool generate_agrees(
	const struct parity_impl *impl, unsigned data, unsigned parity, size_t bytes, struct random *r)
{
	truth_init(data, parity, bytes, r);
	columns_copy(&work, &truth, data, bytes);
	for (unsigned i = 0; i < parity; i++)
		memset(work.at[data + i], GUARD, bytes + GUARD_BYTES);
	impl->generate(data, parity, bytes, work.at);
	return columns_equal(&work, &truth, data + parity, bytes);
}

/* Changes a column through update and compares with parity made anew; also with P or Q absent. */
static bool update_agrees(
	const struct parity_impl *impl, unsigned data, unsigned parity, size_t bytes, struct random *r)
{
	unsigned column = (unsigned)random_below(r, data);
	unsigned absent = (unsigned)random_below(r, 6); /* 0: P, 1: Q, 2: R, else none */
	void *parities[3];

	columns_copy(&work, &truth, data + parity, bytes);
	memcpy(scratch.at[0], truth.at[column], bytes); /* the delta */
	random_fill(r, truth.at[column], bytes);
	parity_xor(scratch.at[0], truth.at[column], bytes);
	parity_impls[1].generate(data, parity, bytes, truth.at);
	memcpy(work.at[column], truth.at[column], bytes);
	for (unsigned i = 0; i < parity; i++)
		parities[i] = i == absent ? NULL : work.at[data + i];
	impl->update(data, parity, column, bytes, scratch.at[0], parities);
	if (absent < parity)
		memcpy(work.at[data + absent], truth.at[data + absent], bytes);
	return columns_equal(&work, &truth, data + parity, bytes);
}

static bool recover_agrees(
	const struct parity_impl *impl, unsigned data, unsigned parity, size_t bytes, const bool *failed)
{
	bool read[LAYOUT_WIDTH_MAX];

	if (layout_plan_recover(data, parity, failed, read, NULL))
		return false;
	columns_copy(&work, &truth, data + parity, bytes);
	for (unsigned c = 0; c < data + parity; c++)
		if (failed[c] || !read[c]) /* what recovery must not look at */
			memset(work.at[c], 0x77, bytes);
	if (parity_recover_with(impl, data, parity, bytes, work.at, failed, NULL))
		return false;
	for (unsigned c = 0; c < data + parity; c++)
		if (!failed[c] && !read[c]) {
			for (size_t i = 0; i < bytes; i++)
				if (((uint8_t *)work.at[c])[i] != 0x77)
					return false;
			memcpy(work.at[c], truth.at[c], bytes);
		}
	return columns_equal(&work, &truth, data + parity, bytes);
}

static bool every_erasure_agrees(const struct parity_impl *impl, unsigned data, unsigned parity, size_t bytes)
{
	unsigned n = data + parity;
	bool failed[LAYOUT_WIDTH_MAX] = {false};

	if (!recover_agrees(impl, data, parity, bytes, failed))
		return false;
	for (unsigned a = 0; a < n; a++)
		for (unsigned b = a; b < n; b++) {
			if (a != b && parity < 2)
				continue;
			for (unsigned c = b; c < n; c++) {
				if (c != b && parity < 3)
					break;
				memset(failed, 0, sizeof failed);
				failed[a] = failed[b] = failed[c] = true;
				if (!recover_agrees(impl, data, parity, bytes, failed))
					return false;
			}
		}
	return true;
}

/* All counts of columns up to 16, all lengths; false at the first disagreement, which is named when asked for. */
static bool sweep_generate(const struct parity_impl *impl, bool name_it)
{
	struct random r;

	random_seed(&r, 5);
	for (unsigned parity = 1; parity <= 3; parity++)
		for (unsigned data = 1; data + parity <= 16; data++)
			for (unsigned i = 0; i < LENGTHS; i++) {
				size_t bytes = length_at(i);

				if (bytes > 5000 && data > 3 && data != 14 && data != 15)
					continue;
				if (generate_agrees(impl, data, parity, bytes, &r) &&
					update_agrees(impl, data, parity, bytes, &r))
					continue;
				if (name_it)
					print_error(
						"%s: data %u parity %u bytes %zu\n", impl->name, data, parity, bytes);
				return false;
			}
	return true;
}

static bool sweep_recover(const struct parity_impl *impl, bool name_it)
{
	struct random r;

	random_seed(&r, 6);
	for (unsigned parity = 1; parity <= 3; parity++)
		for (unsigned data = 1; data + parity <= 16; data++)
			for (unsigned i = 0; i < LENGTHS; i++) {
				size_t bytes = length_at(i);

				if ((bytes > 5000 && data > 3) || (parity == 3 && data > 3 && i % 37))
					continue; /* three of many columns: some lengths */
				truth_init(data, parity, bytes, &r);
				if (every_erasure_agrees(impl, data, parity, bytes))
					continue;
				if (name_it)
					print_error(
						"%s: data %u parity %u bytes %zu\n", impl->name, data, parity, bytes);
				return false;
			}
	return true;
}

static void every_implementation_generates_and_updates_alike(void **state)
{
	for (size_t i = 0; i < parity_impl_count; i++)
		assert_true(sweep_generate(&parity_impls[i], true));
}

static void every_erasure_is_recovered(void **state)
{
	for (size_t i = 0; i < parity_impl_count; i++)
		assert_true(sweep_recover(&parity_impls[i], true));
}

static void wide_groups_recover_too(void **state)
{
	struct columns a, b;

	assert_int_equal(columns_setup(&a, LAYOUT_WIDTH_MAX, 320), 0);
	assert_int_equal(columns_setup(&b, LAYOUT_WIDTH_MAX, 320), 0);
	for (unsigned seed = 0; seed < seed_count(4000); seed++) {
		struct random r;
		bool failed[LAYOUT_WIDTH_MAX] = {false};

		random_seed(&r, seed);
		unsigned parity = 1 + (unsigned)random_below(&r, 3);
		unsigned data = LAYOUT_WIDTH_MAX - parity - (unsigned)random_below(&r, 20);
		size_t bytes = 1 + (size_t)random_below(&r, 320);
		for (unsigned c = 0; c < data; c++)
			random_fill(&r, a.at[c], bytes);
		parity_generate(data, parity, bytes, a.at);
		columns_copy(&b, &a, data + parity, bytes);
		for (unsigned i = 0; i < parity; i++) {
			unsigned lost = (unsigned)random_below(&r, data + parity);

			failed[lost] = true;
			memset(b.at[lost], 0, bytes);
		}
		assert_int_equal(parity_recover(data, parity, bytes, b.at, failed, NULL), 0);
		assert_true(columns_equal(&b, &a, data + parity, bytes));
	}
	free(a.store);
	free(b.store);
}

/* Not what the header promises to be fast, but it must be right. */
static void unaligned_buffers_are_right(void **state)
{
	struct random r;

	random_seed(&r, 8);
	for (unsigned parity = 1; parity <= 3; parity++)
		for (unsigned data = 1; data + parity <= 9; data++)
			for (unsigned shift = 1; shift < 64; shift += 9) {
				size_t bytes = 1000;
				void *at[COLUMNS_MAX];
				bool failed[LAYOUT_WIDTH_MAX] = {true};

				truth_init(data, parity, bytes, &r);
				for (unsigned c = 0; c < data + parity; c++) {
					at[c] = (uint8_t *)work.at[c] + shift * (c % 3 + 1) % 64;
					memcpy(at[c], truth.at[c], bytes);
				}
				for (unsigned i = 0; i < parity; i++)
					memset(at[data + i], 0, bytes);
				parity_generate(data, parity, bytes, at);
				for (unsigned c = 0; c < data + parity; c++)
					assert_memory_equal(at[c], truth.at[c], bytes);
				memset(at[0], 1, bytes);
				assert_int_equal(parity_recover(data, parity, bytes, at, failed, NULL), 0);
				assert_memory_equal(at[0], truth.at[0], bytes);
				assert_true(parity_verify(data, parity, bytes, at, NULL));
			}
}

/* --- the sweeps must be able to fail ---------------------------------------------------------------------------- */

static void generate_without_last_byte(unsigned data, unsigned parity, size_t bytes, void *const *columns)
{
	parity_impls[0].generate(data, parity, bytes % 64 == 63 ? bytes - 1 : bytes, columns);
}

static void generate_with_other_weights(unsigned data, unsigned parity, size_t bytes, void *const *columns)
{
	void *turned[LAYOUT_WIDTH_MAX];

	for (unsigned c = 0; c < data; c++)
		turned[c] = columns[data - 1 - c];
	memcpy(turned + data, columns + data, parity * sizeof *columns);
	parity_impls[0].generate(data, parity, bytes, turned);
}

static void generate_beyond_the_end(unsigned data, unsigned parity, size_t bytes, void *const *columns)
{
	parity_impls[0].generate(data, parity, bytes, columns);
	if (bytes % 64)
		((uint8_t *)columns[data])[bytes] ^= 1;
}

static void update_of_the_next_column(
	unsigned data, unsigned parity, unsigned column, size_t bytes, const void *delta, void *const *parity_columns)
{
	parity_impls[0].update(data, parity, (column + 1) % data, bytes, delta, parity_columns);
}

static void combine_without_the_last_source(unsigned sources, unsigned targets, const uint8_t *factors, size_t bytes,
	void *const *source, void *const *target)
{
	uint8_t changed[2 * LAYOUT_WIDTH_MAX];

	memcpy(changed, factors, (size_t)sources * targets);
	changed[sources * targets - 1] = 0;
	parity_impls[1].combine(sources, targets, changed, bytes, source, target);
}

static void broken_implementations_are_caught(void **state)
{
	struct parity_impl good = parity_impls[0], bad;

	bad = good, bad.generate = generate_without_last_byte;
	assert_false(sweep_generate(&bad, false));
	bad = good, bad.generate = generate_with_other_weights;
	assert_false(sweep_generate(&bad, false));
	bad = good, bad.generate = generate_beyond_the_end;
	assert_false(sweep_generate(&bad, false));
	bad = good, bad.update = update_of_the_next_column;
	assert_false(sweep_generate(&bad, false));
	bad = good, bad.combine = combine_without_the_last_source;
	assert_false(sweep_recover(&bad, false));
}

/* --- verify ----------------------------------------------------------------------------------------------------- */

static void verify_finds_the_wrong_column(void **state)
{
	for (unsigned seed = 0; seed < seed_count(6000); seed++) {
		struct random r;
		int column = 99;

		random_seed(&r, seed);
		unsigned parity = 1 + (unsigned)random_below(&r, 3), data = 1 + (unsigned)random_below(&r, 16 - parity);
		size_t bytes = 1 + (size_t)random_below(&r, random_below(&r, 4) ? 600 : 12000);
		truth_init(data, parity, bytes, &r);
		assert_true(parity_verify(data, parity, bytes, truth.at, &column));
		assert_int_equal(column, -1);
		unsigned wrong = (unsigned)random_below(&r, data + parity);
		for (uint64_t flips = 1 + random_below(&r, 5); flips; flips--)
			((uint8_t *)truth.at[wrong])[random_below(&r, bytes)] ^= (uint8_t)(1u << random_below(&r, 8));
		bool still_right = parity_verify(data, parity, bytes, truth.at, &column);
		if (still_right) { /* flipped there and back */
			assert_int_equal(column, -1);
			continue;
		}
		assert_false(parity_verify(data, parity, bytes, truth.at, NULL));
		if (parity >= 2 && wrong < data)
			assert_int_equal(column, wrong);
		else
			assert_int_equal(column, -1);
	}
}

static void verify_does_not_guess_between_two(void **state)
{
	struct random r;
	int column;

	random_seed(&r, 9);
	truth_init(6, 2, 9000, &r);
	((uint8_t *)truth.at[1])[10] ^= 4; /* two columns, far apart: each byte alone would name one */
	((uint8_t *)truth.at[4])[8990] ^= 4;
	assert_false(parity_verify(6, 2, 9000, truth.at, &column));
	assert_int_equal(column, -1);
	truth_init(6, 2, 9000, &r);
	((uint8_t *)truth.at[1])[10] ^= 4;
	((uint8_t *)truth.at[7])[10] ^= 9; /* and Q */
	((uint8_t *)truth.at[6])[11] ^= 9; /* and P */
	assert_false(parity_verify(6, 2, 9000, truth.at, &column));
	assert_int_equal(column, -1);
	for (unsigned other = 6; other <= 7; other++) { /* a data column here, only one parity there */
		truth_init(6, 2, 9000, &r);
		((uint8_t *)truth.at[1])[10] ^= 4;
		((uint8_t *)truth.at[other])[11] ^= 9;
		assert_false(parity_verify(6, 2, 9000, truth.at, &column));
		assert_int_equal(column, -1);
	}
	truth_init(6, 2, 9000, &r);
	((uint8_t *)truth.at[6])[10] ^= 1; /* P and Q agree on column 10, which is not there */
	((uint8_t *)truth.at[7])[10] ^= 0x74;
	assert_false(parity_verify(6, 2, 9000, truth.at, &column));
	assert_int_equal(column, -1);
}

static void too_many_erasures_are_refused(void **state)
{
	bool failed[LAYOUT_WIDTH_MAX] = {true, true};
	struct error err = ERROR_INIT;
	struct random r;

	random_seed(&r, 10);
	truth_init(4, 1, 100, &r);
	columns_copy(&work, &truth, 5, 100);
	assert_int_equal(parity_recover(4, 1, 100, work.at, failed, &err), ERR_LOST);
	assert_string_equal(err.text, "2 of 5 columns are missing, parity makes up for 1");
	assert_true(columns_equal(&work, &truth, 5, 100));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_plain_twin_is_the_formula),
		cmocka_unit_test(q_is_what_pq_gen_writes),
		cmocka_unit_test(every_implementation_generates_and_updates_alike),
		cmocka_unit_test(every_erasure_is_recovered),
		cmocka_unit_test(wide_groups_recover_too),
		cmocka_unit_test(unaligned_buffers_are_right),
		cmocka_unit_test(broken_implementations_are_caught),
		cmocka_unit_test(verify_finds_the_wrong_column),
		cmocka_unit_test(verify_does_not_guess_between_two),
		cmocka_unit_test(too_many_erasures_are_refused),
	};
	return cmocka_run_group_tests_name("layout parity", tests, buffers_setup, buffers_teardown);
}
