/*
 * Parity, fast: ISA-L behind the same three operations as the plain definition, and what is built on them.
 *
 *   generate   data → P, Q                         full rows
 *   update     P, Q ^= what a change of one column adds   small writes
 *   combine    any two sums of weighted columns    recovery
 *
 * Recovery in one formula. Let w be the weights of a parity (1, 1, 1, … for P; 1, 2, 4, 8, … for Q). With x (and y)
 * the missing data columns, the parities that are there give as many equations as there are unknowns:
 *
 *      x missing, P there     Dx = P + Σ Di
 *      x missing, only Q      Dx = 2^-x (Q + Σ 2^i Di)
 *      x, y missing           Dx = A (P + Σ Di) + B (Q + Σ 2^i Di),  Dy = P + Σ Di + Dx
 *                             A = 2^(y-x) / (2^(y-x) + 1),  B = 2^-x / (2^(y-x) + 1)
 *
 * (sums over the data columns that are there; + is xor). Each is a row of factors over the same sources. A missing
 * parity is the weighted sum of all data, with Dx replaced by its row. So any loss is one `combine`. From H. P. Anvin,
 * "The mathematics of RAID-6" (2004).
 *
 * ISA-L's xor_gen and pq_gen store whole vectors past the cache and so want aligned buffers, lengths in whole vectors,
 * and two sources at least; what does not fit goes through ec_encode_data (any alignment) or the plain twin (the last
 * bytes). Their return codes are looked at: a refusal is computed the plain way, never left out.
 */
#include "internal.h"

#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>
#include <string.h>

#define VECTOR_BYTES 64u              /* the widest that ISA-L uses */
#define PIECE_BYTES ((size_t)1 << 30) /* its lengths are int */
#define TABLE_BYTES 32u               /* of its tables for one factor */
#define VERIFY_BYTES 4096u

static bool all_aligned(void *const *columns, unsigned count)
{
	uintptr_t bits = 0;

	for (unsigned c = 0; c < count; c++)
		bits |= (uintptr_t)columns[c];
	return bits % VECTOR_BYTES == 0;
}

static void columns_at(void **ret, void *const *columns, unsigned count, size_t offset)
{
	for (unsigned c = 0; c < count; c++)
		ret[c] = columns[c] ? (uint8_t *)columns[c] + offset : NULL;
}

/* --- ISA-L ------------------------------------------------------------------------------------------------------ */

/* Whole vectors, any alignment. */
static void isal_combine_vectors(unsigned sources, unsigned targets, const uint8_t *factors, size_t bytes,
				 void *const *source, void *const *target)
{
	uint8_t tables[LAYOUT_WIDTH_MAX * 2 * TABLE_BYTES];
	void *from[LAYOUT_WIDTH_MAX], *to[2];

	ec_init_tables((int)sources, (int)targets, (uint8_t *)factors, tables);
	for (size_t done = 0; done < bytes; done += PIECE_BYTES) {
		columns_at(from, source, sources, done);
		columns_at(to, target, targets, done);
		ec_encode_data((int)min_of(bytes - done, PIECE_BYTES), (int)sources, (int)targets, tables,
			       (uint8_t **)from, (uint8_t **)to);
	}
}

/* Whole vectors, aligned, sources then one or two targets in one array. */
static void isal_generate_vectors(unsigned data, unsigned parity, size_t bytes, void *const *columns)
{
	void *at[LAYOUT_WIDTH_MAX];
	unsigned count = data + parity;

	for (size_t done = 0; done < bytes; done += PIECE_BYTES) {
		int length = (int)min_of(bytes - done, PIECE_BYTES);

		columns_at(at, columns, count, done);
		int rc = parity == 1 ? xor_gen((int)count, length, at) : pq_gen((int)count, length, at);
		if (rc)
			parity__plain_generate(data, parity, (size_t)length, at);
	}
}

static void weights(unsigned data, unsigned parity, uint8_t *ret)
{
	memset(ret, 1, data);
	for (unsigned c = 0; parity > 1 && c < data; c++)
		ret[data + c] = c == 0 ? 1 : parity__times2(ret[data + c - 1]);
}

static void isal_generate(unsigned data, unsigned parity, size_t bytes, void *const *columns)
{
	size_t whole = bytes / VECTOR_BYTES * VECTOR_BYTES;
	void *rest[LAYOUT_WIDTH_MAX];

	if (parity == 0)
		return;
	if (data == 1) {
		for (unsigned i = 0; i < parity; i++)
			memcpy(columns[1 + i], columns[0], bytes);
		return;
	}
	if (whole && all_aligned(columns, data + parity)) {
		isal_generate_vectors(data, parity, whole, columns);
	} else if (whole) {
		uint8_t factors[LAYOUT_WIDTH_MAX * 2];

		weights(data, parity, factors);
		isal_combine_vectors(data, parity, factors, whole, columns, columns + data);
	}
	columns_at(rest, columns, data + parity, whole);
	parity__plain_generate(data, parity, bytes - whole, rest);
}

static void isal_update(unsigned data, unsigned parity, unsigned column, size_t bytes, const void *delta,
			void *const *parity_columns)
{
	void *p = parity > 0 ? parity_columns[0] : NULL, *q = parity > 1 ? parity_columns[1] : NULL;
	size_t whole = bytes / VECTOR_BYTES * VECTOR_BYTES;
	uint8_t factors[2] = {1, parity__power(column)}, tables[2 * TABLE_BYTES];
	void *rest[2];

	if (!q) {
		if (p)
			parity_xor(p, delta, bytes);
		return;
	}
	ec_init_tables(1, 2, factors, tables);
	for (size_t done = 0; done < whole; done += PIECE_BYTES) {
		int length = (int)min_of(whole - done, PIECE_BYTES);
		uint8_t *from = (uint8_t *)delta + done, *to[2] = {p ? (uint8_t *)p + done : NULL, (uint8_t *)q + done};

		ec_encode_data_update(length, 1, p ? 2 : 1, 0, p ? tables : tables + TABLE_BYTES, from,
				      p ? to : to + 1);
	}
	columns_at(rest, (void *const[2]){p, q}, 2, whole);
	parity__plain_update(data, 2, column, bytes - whole, (const uint8_t *)delta + whole, rest);
}

static bool all_ones(const uint8_t *factors, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (factors[i] != 1)
			return false;
	return true;
}

static void isal_combine(unsigned sources, unsigned targets, const uint8_t *factors, size_t bytes, void *const *source,
			 void *const *target)
{
	size_t whole = bytes / VECTOR_BYTES * VECTOR_BYTES;
	void *from[LAYOUT_WIDTH_MAX], *to[2];

	sp_assert(sources > 0 && sources < LAYOUT_WIDTH_MAX && targets <= 2);
	if (targets == 0)
		return;
	if (targets == 1 && all_ones(factors, sources)) { /* a plain sum: xor_gen is twice as fast */
		columns_at(from, source, sources, 0);
		from[sources] = target[0];
		isal_generate(sources, 1, bytes, from);
		return;
	}
	if (whole)
		isal_combine_vectors(sources, targets, factors, whole, source, target);
	columns_at(from, source, sources, whole);
	columns_at(to, target, targets, whole);
	parity__plain_combine(sources, targets, factors, bytes - whole, from, to);
}

const struct parity_impl parity_impls[] = {
	{"isal", isal_generate, isal_update, isal_combine},
	{"plain", parity__plain_generate, parity__plain_update, parity__plain_combine},
};
const size_t parity_impl_count = array_count(parity_impls);

/* --- dispatch --------------------------------------------------------------------------------------------------- */

static void shape_assert(unsigned data, unsigned parity)
{
	sp_assert(data > 0 && parity <= 2 && data + parity <= LAYOUT_WIDTH_MAX);
}

void parity_generate(unsigned data, unsigned parity, size_t bytes, void *const *columns)
{
	shape_assert(data, parity);
	parity_impls[0].generate(data, parity, bytes, columns);
}

void parity_update(unsigned data, unsigned parity, unsigned column, size_t bytes, const void *delta,
		   void *const *parity_columns)
{
	shape_assert(data, parity);
	sp_assert(column < data);
	parity_impls[0].update(data, parity, column, bytes, delta, parity_columns);
}

void parity_xor(void *to, const void *from, size_t bytes)
{
	uint8_t *restrict t = to;
	const uint8_t *restrict f = from;

	for (size_t i = 0; i < bytes; i++) /* the compiler makes vectors of it */
		t[i] ^= f[i];
}

/* --- recovery --------------------------------------------------------------------------------------------------- */

/* The columns that recovery reads, in order, and a row of factors over them for each missing data column. */
struct sources {
	unsigned count;
	unsigned column[LAYOUT_WIDTH_MAX];
	unsigned missing_count; /* data columns */
	unsigned missing[2];
	uint8_t row[2][LAYOUT_WIDTH_MAX];
};

static uint8_t weight(unsigned parity_index, unsigned column)
{
	return parity_index == 0 ? 1 : parity__power(column);
}

static void solve_one(struct sources *s, unsigned data)
{
	unsigned by = s->column[s->count - 1] - data; /* the parity that is used */
	uint8_t scale = parity__inverse(weight(by, s->missing[0]));

	for (unsigned i = 0; i < s->count - 1; i++)
		s->row[0][i] = parity__times(scale, weight(by, s->column[i]));
	s->row[0][s->count - 1] = scale;
}

static void solve_two(struct sources *s)
{
	unsigned x = s->missing[0], y = s->missing[1];
	uint8_t ratio = parity__power(y - x), below = parity__inverse(ratio ^ 1);
	uint8_t a = parity__times(ratio, below), b = parity__times(parity__inverse(parity__power(x)), below);

	for (unsigned i = 0; i < s->count - 2; i++)
		s->row[0][i] = a ^ parity__times(b, parity__power(s->column[i]));
	s->row[0][s->count - 2] = a;
	s->row[0][s->count - 1] = b;
	for (unsigned i = 0; i < s->count; i++)
		s->row[1][i] = s->row[0][i] ^ (i < s->count - 1); /* Dy = P + Σ Di + Dx; Q is not in that sum */
}

static void sources_init(struct sources *s, unsigned data, unsigned parity, const bool *failed, const bool *read)
{
	s->count = s->missing_count = 0;
	for (unsigned c = 0; c < data + parity; c++) {
		if (read[c])
			s->column[s->count++] = c;
		if (c < data && failed[c])
			s->missing[s->missing_count++] = c;
	}
	if (s->missing_count == 1)
		solve_one(s, data);
	else if (s->missing_count == 2)
		solve_two(s);
}

/* A missing parity: its weighted sum of the data that is there, and of the rows of the data that is not. */
static void parity_row(const struct sources *s, unsigned data, unsigned parity_index, uint8_t *ret)
{
	for (unsigned i = 0; i < s->count; i++) {
		ret[i] = s->column[i] < data ? weight(parity_index, s->column[i]) : 0;
		for (unsigned m = 0; m < s->missing_count; m++)
			ret[i] ^= parity__times(weight(parity_index, s->missing[m]), s->row[m][i]);
	}
}

int parity_recover_with(const struct parity_impl *impl, unsigned data, unsigned parity, size_t bytes,
			void *const *columns, const bool *failed, struct error *err)
{
	bool read[LAYOUT_WIDTH_MAX];
	uint8_t factors[2 * LAYOUT_WIDTH_MAX];
	void *from[LAYOUT_WIDTH_MAX], *to[2];
	struct sources s;
	unsigned targets = 0;

	shape_assert(data, parity);
	int rc = layout_plan_recover(data, parity, failed, read, err);
	if (rc)
		return rc;
	sources_init(&s, data, parity, failed, read);
	for (; targets < s.missing_count; targets++) {
		memcpy(factors + targets * s.count, s.row[targets], s.count);
		to[targets] = columns[s.missing[targets]];
	}
	for (unsigned i = 0; i < parity; i++)
		if (failed[data + i]) {
			parity_row(&s, data, i, factors + targets * s.count);
			to[targets++] = columns[data + i];
		}
	for (unsigned i = 0; i < s.count; i++)
		from[i] = columns[s.column[i]];
	if (targets)
		impl->combine(s.count, targets, factors, bytes, from, to);
	return 0;
}

int parity_recover(unsigned data, unsigned parity, size_t bytes, void *const *columns, const bool *failed,
		   struct error *err)
{
	return parity_recover_with(&parity_impls[0], data, parity, bytes, columns, failed, err);
}

/* --- check ------------------------------------------------------------------------------------------------------ */

/* What the differences said so far about which one data column is wrong. */
enum suspicion { SUSPECT_NOBODY_YET = -2, SUSPECT_NO_SINGLE_ONE = -1 }; /* else the column */

/* A data column z that is off by e leaves e in P and 2^z e in Q, at every byte the same z. */
static int suspect(int column, const uint8_t *p_differs, const uint8_t *q_differs, size_t bytes, unsigned data)
{
	uint8_t logs[256];
	uint8_t power = 1;

	for (unsigned i = 0; i < 255; i++, power = parity__times2(power))
		logs[power] = (uint8_t)i;
	for (size_t i = 0; i < bytes && column != SUSPECT_NO_SINGLE_ONE; i++) {
		if (!p_differs[i] && !q_differs[i])
			continue;
		if (!p_differs[i] || !q_differs[i])
			return SUSPECT_NO_SINGLE_ONE;
		int z = (logs[q_differs[i]] + 255 - logs[p_differs[i]]) % 255;
		if (z >= (int)data || (column >= 0 && column != z))
			return SUSPECT_NO_SINGLE_ONE;
		column = z;
	}
	return column;
}

bool parity_verify(unsigned data, unsigned parity, size_t bytes, void *const *columns, int *ret_column)
{
	_Alignas(VECTOR_BYTES) uint8_t made[2][VERIFY_BYTES];
	void *at[LAYOUT_WIDTH_MAX];
	int column = SUSPECT_NOBODY_YET;
	bool matches = true;

	shape_assert(data, parity);
	for (size_t done = 0; done < bytes; done += VERIFY_BYTES) {
		size_t length = min_of(bytes - done, (size_t)VERIFY_BYTES);
		bool same = true;

		columns_at(at, columns, data + parity, done);
		const uint8_t *stored[2] = {parity > 0 ? at[data] : NULL, parity > 1 ? at[data + 1] : NULL};
		for (unsigned i = 0; i < parity; i++)
			at[data + i] = made[i];
		parity_generate(data, parity, length, at);
		for (unsigned i = 0; i < parity; i++)
			same = same && !memcmp(made[i], stored[i], length);
		if (same)
			continue;
		matches = false;
		if (parity < 2 || !ret_column || column == SUSPECT_NO_SINGLE_ONE)
			break;
		for (unsigned i = 0; i < parity; i++)
			parity_xor(made[i], stored[i], length);
		column = suspect(column, made[0], made[1], length, data);
	}
	if (ret_column)
		*ret_column = column >= 0 ? column : SUSPECT_NO_SINGLE_ONE;
	return matches;
}
