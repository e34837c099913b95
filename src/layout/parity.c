/*
 * Parity, fast: ISA-L behind the same three operations as the plain definition, and what is built on them.
 *
 *   generate   data → P, Q, R                         full rows
 *   update     P, Q, R ^= what a change of one column adds   small writes
 *   combine    any three sums of weighted columns     recovery
 *
 * Recovery in one formula. Parity j of data column i has the weight w(j, i) = (2^j)^i: 1, 1, 1, … for P; 1, 2, 4, … for
 * Q; 1, 4, 16, … for R. With the missing data columns as unknowns, as many parities as are missing give the equations
 * (sums over the data columns that are there; + is xor):
 *
 *      Σ_m w(j, m) Dm  =  Pj + Σ_i w(j, i) Di            for each parity j that is used
 *      Dm  =  Σ_j A(m, j) (Pj + Σ_i w(j, i) Di)          A the inverse of the matrix w(j, m)
 *
 * Each is a row of factors over the same sources. A missing parity is the weighted sum of all data, with Dm replaced by
 * its row. So any loss is one `combine`. For P and Q see H. P. Anvin, "The mathematics of RAID-6" (2004).
 *
 * Any of these matrices has an inverse. With x = 2^m, which differ for up to 255 columns, the rows are 1, x, x². Three
 * of them are a Vandermonde matrix. Of two, P and Q have the determinant x + y, Q and R xy (x + y), and P and R x² + y²
 * = (x + y)²: none is zero. (A fourth row x³ would not do: x³ = y³ happens.)
 *
 * ISA-L's xor_gen and pq_gen store whole vectors past the cache and so want aligned buffers, lengths in whole vectors,
 * and two sources at least; what does not fit, and R, goes through ec_encode_data (any alignment) or the plain twin
 * (the last bytes). Their return codes are looked at: a refusal is computed the plain way, never left out.
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
	uint8_t tables[LAYOUT_WIDTH_MAX * PARITY_MAX * TABLE_BYTES];
	void *from[LAYOUT_WIDTH_MAX], *to[PARITY_MAX];

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
	for (unsigned j = 0; j < parity; j++) {
		uint8_t factor = parity__power(j);

		ret[j * data] = 1;
		for (unsigned c = 1; c < data; c++)
			ret[j * data + c] = parity__times(ret[j * data + c - 1], factor);
	}
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
	if (whole && parity <= 2 && all_aligned(columns, data + parity)) {
		isal_generate_vectors(data, parity, whole, columns);
	} else if (whole) {
		uint8_t factors[LAYOUT_WIDTH_MAX * PARITY_MAX];

		weights(data, parity, factors);
		isal_combine_vectors(data, parity, factors, whole, columns, columns + data);
	}
	columns_at(rest, columns, data + parity, whole);
	parity__plain_generate(data, parity, bytes - whole, rest);
}

static void isal_update(
	unsigned data, unsigned parity, unsigned column, size_t bytes, const void *delta, void *const *parity_columns)
{
	size_t whole = bytes / VECTOR_BYTES * VECTOR_BYTES;
	uint8_t factors[PARITY_MAX], tables[PARITY_MAX * TABLE_BYTES];
	void *at[PARITY_MAX], *to[PARITY_MAX];
	unsigned there = 0;

	for (unsigned j = 0; j < parity; j++)
		if (parity_columns[j]) {
			factors[there] = parity__power(j * column);
			at[there++] = parity_columns[j];
		}
	if (there == 1 && factors[0] == 1) {
		parity_xor(at[0], delta, bytes);
		return;
	}
	if (there == 0)
		return;
	ec_init_tables(1, (int)there, factors, tables);
	for (size_t done = 0; done < whole; done += PIECE_BYTES) {
		columns_at(to, at, there, done);
		ec_encode_data_update((int)min_of(whole - done, PIECE_BYTES), 1, (int)there, 0, tables,
			(uint8_t *)delta + done, (uint8_t **)to);
	}
	columns_at(to, parity_columns, parity, whole);
	parity__plain_update(data, parity, column, bytes - whole, (const uint8_t *)delta + whole, to);
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
	void *from[LAYOUT_WIDTH_MAX], *to[PARITY_MAX];

	sp_assert(sources > 0 && sources < LAYOUT_WIDTH_MAX && targets <= PARITY_MAX);
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
	sp_assert(data > 0 && parity <= PARITY_MAX && data + parity <= LAYOUT_WIDTH_MAX);
}

void parity_generate(unsigned data, unsigned parity, size_t bytes, void *const *columns)
{
	shape_assert(data, parity);
	parity_impls[0].generate(data, parity, bytes, columns);
}

void parity_update(
	unsigned data, unsigned parity, unsigned column, size_t bytes, const void *delta, void *const *parity_columns)
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
	unsigned missing[PARITY_MAX];
	uint8_t row[PARITY_MAX][LAYOUT_WIDTH_MAX];
};

static uint8_t weight(unsigned parity_index, unsigned column)
{
	return parity__power(parity_index * column);
}

/* Gauss and Jordan on a matrix that has an inverse. */
static void invert(unsigned n, uint8_t m[PARITY_MAX][PARITY_MAX], uint8_t ret[PARITY_MAX][PARITY_MAX])
{
	sp_assert(n <= PARITY_MAX);
	memset(ret, 0, PARITY_MAX * PARITY_MAX);
	for (unsigned i = 0; i < n; i++)
		ret[i][i] = 1;
	for (unsigned i = 0; i < n; i++) {
		unsigned pivot = i;

		while (pivot < n && m[pivot][i] == 0)
			pivot++;
		sp_assert(pivot < n);
		for (unsigned c = 0; c < n && pivot != i; c++) { /* the row with the pivot is added: no need to swap */
			m[i][c] ^= m[pivot][c];
			ret[i][c] ^= ret[pivot][c];
		}
		uint8_t scale = parity__inverse(m[i][i]);
		for (unsigned c = 0; c < n; c++) {
			m[i][c] = parity__times(m[i][c], scale);
			ret[i][c] = parity__times(ret[i][c], scale);
		}
		for (unsigned r = 0; r < n; r++) {
			uint8_t factor = m[r][i];

			for (unsigned c = 0; c < n && r != i; c++) {
				m[r][c] ^= parity__times(factor, m[i][c]);
				ret[r][c] ^= parity__times(factor, ret[i][c]);
			}
		}
	}
}

/* The sources are data columns that are there, then as many parities as data columns are missing. */
static void solve(struct sources *s, unsigned data)
{
	unsigned n = s->missing_count, there = s->count - n;
	uint8_t matrix[PARITY_MAX][PARITY_MAX], inverse[PARITY_MAX][PARITY_MAX];

	for (unsigned j = 0; j < n; j++)
		for (unsigned m = 0; m < n; m++)
			matrix[j][m] = weight(s->column[there + j] - data, s->missing[m]);
	invert(n, matrix, inverse);
	for (unsigned m = 0; m < n; m++) {
		for (unsigned i = 0; i < there; i++) {
			s->row[m][i] = 0;
			for (unsigned j = 0; j < n; j++)
				s->row[m][i] ^=
					parity__times(inverse[m][j], weight(s->column[there + j] - data, s->column[i]));
		}
		for (unsigned j = 0; j < n; j++)
			s->row[m][there + j] = inverse[m][j];
	}
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
	if (s->missing_count)
		solve(s, data);
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
	uint8_t factors[PARITY_MAX * LAYOUT_WIDTH_MAX];
	void *from[LAYOUT_WIDTH_MAX], *to[PARITY_MAX];
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

int parity_recover(
	unsigned data, unsigned parity, size_t bytes, void *const *columns, const bool *failed, struct error *err)
{
	return parity_recover_with(&parity_impls[0], data, parity, bytes, columns, failed, err);
}

/* --- check ------------------------------------------------------------------------------------------------------ */

/* What the differences said so far about which one data column is wrong. */
enum suspicion { SUSPECT_NOBODY_YET = -2, SUSPECT_NO_SINGLE_ONE = -1 }; /* else the column */

/* A data column z that is off by e leaves e in P, 2^z e in Q and 4^z e in R, at every byte the same z. differs: of the
 * parities. */
static int suspect(int column, unsigned parity, const uint8_t (*differs)[VERIFY_BYTES], size_t bytes, unsigned data)
{
	uint8_t logs[256];
	uint8_t power = 1;

	for (unsigned i = 0; i < 255; i++, power = parity__times2(power))
		logs[power] = (uint8_t)i;
	for (size_t i = 0; i < bytes && column != SUSPECT_NO_SINGLE_ONE; i++) {
		unsigned off = 0;

		for (unsigned j = 0; j < parity; j++)
			off += differs[j][i] != 0;
		if (off == 0)
			continue;
		if (off < parity)
			return SUSPECT_NO_SINGLE_ONE;
		int z = (logs[differs[1][i]] + 255 - logs[differs[0][i]]) % 255;
		if (z >= (int)data || (column >= 0 && column != z))
			return SUSPECT_NO_SINGLE_ONE;
		if (parity > 2 && (logs[differs[2][i]] + 255 - logs[differs[0][i]]) % 255 != 2 * z % 255)
			return SUSPECT_NO_SINGLE_ONE;
		column = z;
	}
	return column;
}

bool parity_verify(unsigned data, unsigned parity, size_t bytes, void *const *columns, int *ret_column)
{
	_Alignas(VECTOR_BYTES) uint8_t made[PARITY_MAX][VERIFY_BYTES];
	void *at[LAYOUT_WIDTH_MAX];
	int column = SUSPECT_NOBODY_YET;
	bool matches = true;

	shape_assert(data, parity);
	for (size_t done = 0; done < bytes; done += VERIFY_BYTES) {
		size_t length = min_of(bytes - done, (size_t)VERIFY_BYTES);
		const uint8_t *stored[PARITY_MAX];
		bool same = true;

		columns_at(at, columns, data + parity, done);
		for (unsigned i = 0; i < parity; i++) {
			stored[i] = at[data + i];
			at[data + i] = made[i];
		}
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
		column = suspect(column, parity, (const uint8_t(*)[VERIFY_BYTES])made, length, data);
	}
	if (ret_column)
		*ret_column = column >= 0 ? column : SUSPECT_NO_SINGLE_ONE;
	return matches;
}
