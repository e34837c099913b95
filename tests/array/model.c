#include "model.h"

#include <string.h>

struct cell {
	uint32_t chain; /* the newest entry, or 0 */
	uint8_t kind;   /* enum model_base */
	bool may_be_any, may_be_lost;
	uint64_t value;
};
struct entry {
	uint32_t version, next;
};
struct writing {
	uint64_t begin, end;
	bool good, zeros;
};
struct model {
	uint64_t sectors, clock, durable;
	bool anything_at_first;
	struct cell *cells;
	struct entry *entries;
	uint32_t entry_count, entry_room;
	struct writing *writings;
	uint32_t version_count, version_room;
};

#define NOT_YET UINT64_MAX
#define WORDS (MODEL_SECTOR_BYTES / 8)
#define STAMP 0x5350494e444c4531u

static void *must(void *p)
{
	sp_assert(p != NULL);
	return p;
}

struct model *model_make(uint64_t sectors, bool anything_at_first)
{
	struct model *m = must(calloc(1, sizeof *m));
	m->sectors = sectors;
	m->anything_at_first = anything_at_first;
	m->cells = must(calloc((size_t)sectors, sizeof *m->cells));
	m->entry_count = m->version_count = 1;
	m->clock = 1;
	return m;
}

void model_free(struct model *m)
{
	if (!m)
		return;
	free(m->cells);
	free(m->entries);
	free(m->writings);
	free(m);
}

/* --- what happens ----------------------------------------------------------------------------------------- */

uint32_t model_write_begin(struct model *m, uint64_t first, uint64_t count)
{
	if (m->version_count >= m->version_room) {
		m->version_room = m->version_room ? 2 * m->version_room : 256;
		m->writings = must(realloc(m->writings, m->version_room * sizeof *m->writings));
	}
	uint32_t version = m->version_count++;
	m->writings[version] = (struct writing){.begin = ++m->clock, .end = NOT_YET};
	while (m->entry_count + count > m->entry_room) {
		m->entry_room = m->entry_room ? 2 * m->entry_room : 4096;
		m->entries = must(realloc(m->entries, m->entry_room * sizeof *m->entries));
	}
	for (uint64_t s = first; s < first + count; s++) {
		m->entries[m->entry_count] = (struct entry){.version = version, .next = m->cells[s].chain};
		m->cells[s].chain = m->entry_count++;
	}
	return version;
}

uint32_t model_zero_begin(struct model *m, uint64_t first, uint64_t count)
{
	uint32_t version = model_write_begin(m, first, count);

	m->writings[version].zeros = true;
	return version;
}

void model_write_end(struct model *m, uint32_t version, bool good)
{
	m->writings[version].end = ++m->clock;
	m->writings[version].good = good;
}

uint64_t model_begin(struct model *m)
{
	return ++m->clock;
}

void model_flush_end(struct model *m, uint64_t began, bool good)
{
	++m->clock;
	if (good)
		m->durable = max_of(m->durable, began);
}

uint64_t model_durable(const struct model *m)
{
	return m->durable;
}

/* --- bytes -------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static bool compressible;

void model_set_compressible(bool on)
{
	compressible = on;
}

static void stamp(uint64_t *words, uint64_t sector, uint32_t version)
{
	uint64_t name = (uint64_t)version << 32 | sector;
	words[0] = name ^ STAMP;
	for (unsigned i = 1; i < WORDS; i++)
		words[i] = mix(name * 0x9e3779b97f4a7c15u + (compressible ? i % 8 : i));
}

void model_fill(void *buffer, uint64_t first, uint64_t count, uint32_t version)
{
	uint8_t *to = buffer;
	for (uint64_t i = 0; i < count; i++, to += MODEL_SECTOR_BYTES) {
		uint64_t words[WORDS];
		stamp(words, first + i, version);
		memcpy(to, words, sizeof words);
	}
}

struct model_value model_value_of(const void *sector_bytes, uint64_t sector)
{
	static const uint64_t zeros[WORDS];
	uint64_t words[WORDS], right[WORDS];
	memcpy(words, sector_bytes, sizeof words);
	if (memcmp(words, zeros, sizeof words) == 0)
		return (struct model_value){MODEL_ZERO, 0};
	uint64_t version = (words[0] ^ STAMP) >> 32;
	stamp(right, sector, (uint32_t)version);
	if (memcmp(words, right, sizeof words) == 0)
		return (struct model_value){MODEL_VERSION, version};
	return (struct model_value){MODEL_NOISE, checksum_xxh3(words, sizeof words)};
}

struct model_value model_value_lost(void)
{
	return (struct model_value){MODEL_LOST, 0};
}

/* --- what may be --------------------------------------------------------------------------------------------- */

/* The latest begin of a write that succeeded and ended before `limit`: what ended before that is out of date. */
static uint64_t out_of_date_before(const struct model *m, const struct cell *c, uint64_t limit)
{
	uint64_t latest = 0;
	for (uint32_t e = c->chain; e; e = m->entries[e].next) {
		const struct writing *w = &m->writings[m->entries[e].version];
		if (w->good && w->end < limit)
			latest = max_of(latest, w->begin);
	}
	return latest;
}

static bool base_allows(const struct model *m, const struct cell *c, struct model_value v)
{
	if (v.kind == MODEL_LOST)
		return c->kind == MODEL_LOST;
	if (c->may_be_any || c->kind == MODEL_ANY)
		return true;
	if (c->kind == MODEL_INITIAL)
		return v.kind == MODEL_ZERO || m->anything_at_first;
	return c->kind == v.kind && c->value == v.value;
}

bool model_is_legal(const struct model *m, uint64_t sector, struct model_value v, uint64_t limit)
{
	const struct cell *c = &m->cells[sector];
	uint64_t before = out_of_date_before(m, c, limit);
	if (v.kind == MODEL_LOST && c->may_be_lost)
		return true;
	if (before == 0 && base_allows(m, c, v))
		return true;
	for (uint32_t e = c->chain; e; e = m->entries[e].next) {
		const struct writing *w = &m->writings[m->entries[e].version];

		if (v.kind == MODEL_VERSION && m->entries[e].version == v.value)
			return !w->zeros && w->end >= before;
		if (v.kind == MODEL_ZERO && w->zeros && w->end >= before)
			return true;
	}
	return false;
}

bool model_is_pending(const struct model *m, uint64_t sector)
{
	for (uint32_t e = m->cells[sector].chain; e; e = m->entries[e].next)
		if (m->writings[m->entries[e].version].end >= m->durable)
			return true;
	return false;
}

bool model_is_promised(const struct model *m, uint64_t sector)
{
	const struct cell *c = &m->cells[sector];
	return c->kind == MODEL_VERSION || c->kind == MODEL_NOISE || c->kind == MODEL_LOST ||
	       out_of_date_before(m, c, m->durable) > 0;
}

void model_allow_any(struct model *m, uint64_t sector)
{
	m->cells[sector].may_be_any = true;
}

void model_allow_lost(struct model *m, uint64_t sector)
{
	m->cells[sector].may_be_lost = true;
}

void model_pin(struct model *m, uint64_t sector, struct model_value v)
{
	m->cells[sector] = (struct cell){.kind = v.kind, .value = v.value};
}

static void describe_value(const struct model *m, struct model_value v, struct text *t)
{
	static const char *const words[] = {
		"what it was at first", "version", "noise", "zeros", "anything", "ERR_LOST"};
	text_addf(t, "%s", words[v.kind]);
	if (v.kind == MODEL_VERSION && v.value < m->version_count)
		text_addf(t, " %llu (begun %llu, ended %lld, %s)", (unsigned long long)v.value,
			(unsigned long long)m->writings[v.value].begin, (long long)m->writings[v.value].end,
			m->writings[v.value].good ? "good" : "failed or under way");
	else if (v.kind == MODEL_VERSION)
		text_addf(t, " %llu, which was never written", (unsigned long long)v.value);
}

void model_describe(const struct model *m, uint64_t sector, struct model_value v, struct text *t)
{
	const struct cell *c = &m->cells[sector];
	text_addf(t, "sector %llu shows ", (unsigned long long)sector);
	describe_value(m, v, t);
	text_addf(t, "; its base is ");
	describe_value(m, (struct model_value){(enum model_base)c->kind, c->value}, t);
	text_addf(t, "%s%s; written since:", c->may_be_any ? " or anything" : "",
		c->may_be_lost ? " (it may be lost)" : "");
	unsigned shown = 0;
	for (uint32_t e = c->chain; e && shown < 6; e = m->entries[e].next, shown++) {
		text_addf(t, " ");
		describe_value(m, (struct model_value){MODEL_VERSION, m->entries[e].version}, t);
	}
	text_addf(t, "%s; flushed up to %llu", shown ? "" : " nothing", (unsigned long long)m->durable);
}
