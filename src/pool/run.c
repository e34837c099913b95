/*
 * run: descriptors in memory, and the choice of where the next stripes go.
 *
 * A run is *open* while later writes may append to it: at most one a (group, class). It has reserved `stripes_room`
 * columns on each of its disks; what it did not use goes back when it is closed. A run that has no room left stays in
 * its slot until the next one is wanted, which costs nothing.
 *
 * Parity goes to the disks of the group that hold the least of it, so it moves on from run to run and stays even when
 * runs die in any order. Data follows behind it in the order of the group, round the end. Eight disks, P for parity:
 *
 *     disk   0 1 2 3 4 5 6 7
 *     run 0  0 1 2 3 4 5 6 P
 *     run 1  1 2 3 4 5 6 P 0
 */
#include <string.h>

#include "space.h"

#define BUCKETS_FIRST 256
#define BESIDE_BYTES (256u << 10) /* of a column: when so little is written at once, finding the place takes longer */

/* --- the table ---------------------------------------------------------------------------------------------------- */

static size_t bucket_of(const struct space *s, uint64_t id)
{
	return (size_t)((id * 0x9e3779b97f4a7c15ULL) >> 32) & (s->bucket_count - 1);
}

struct run *run_find(struct pool *p, uint64_t id)
{
	const struct space *s = p->space;

	if (!s->bucket_count)
		return NULL;
	for (struct run *r = s->buckets[bucket_of(s, id)]; r; r = r->hash_next)
		if (r->id == id)
			return r;
	return NULL;
}

static int table_grow(struct space *s, struct error *err)
{
	struct space larger = {.bucket_count = s->bucket_count ? s->bucket_count * 2 : BUCKETS_FIRST};

	if (s->run_count < s->bucket_count)
		return 0;
	larger.buckets = calloc(larger.bucket_count, sizeof *larger.buckets);
	if (!larger.buckets)
		return error_set(err, ERR_MEMORY, "no memory for the table of %zu runs", s->run_count);
	for (size_t b = 0; b < s->bucket_count; b++)
		for (struct run *r = s->buckets[b], *next; r; r = next) {
			size_t to = bucket_of(&larger, r->id);

			next = r->hash_next;
			r->hash_next = larger.buckets[to];
			larger.buckets[to] = r;
		}
	free(s->buckets);
	s->buckets = larger.buckets;
	s->bucket_count = larger.bucket_count;
	return 0;
}

static size_t live_words(unsigned k, uint32_t stripes)
{
	return ((size_t)stripes * k + 63) / 64;
}

static size_t returned_words(uint32_t stripes)
{
	return (stripes + 63) / 64;
}

struct run *run_make(
	struct pool *p, uint64_t id, unsigned class, unsigned k, unsigned parity, uint32_t room, struct error *err)
{
	struct space *s = p->space;
	struct run *r;

	if (table_grow(s, err))
		return NULL;
	r = calloc(1, sizeof *r);
	if (r) {
		r->live = calloc(live_words(k, room) + 1, sizeof *r->live);
		r->returned = calloc(returned_words(room) + 1, sizeof *r->returned);
	}
	if (!r || !r->live || !r->returned) {
		if (r) {
			free(r->live);
			free(r->returned);
		}
		free(r);
		error_set(err, ERR_MEMORY, "no memory for the descriptor of a run");
		return NULL;
	}
	r->id = id;
	r->class = (uint8_t) class;
	r->k = (uint8_t)k;
	r->p = (uint8_t)parity;
	r->stripes_room = room;
	size_t b = bucket_of(s, id);
	r->hash_next = s->buckets[b];
	s->buckets[b] = r;
	s->run_count++;
	p->next_run = max_of(p->next_run, id + 1);
	return r;
}

static void run_free(struct run *r)
{
	free(r->live);
	free(r->returned);
	free(r->sums);
	free(r);
}

void run_forget(struct pool *p, struct run *r)
{
	struct space *s = p->space;
	struct run **at = &s->buckets[bucket_of(s, r->id)];

	while (*at != r)
		at = &(*at)->hash_next;
	*at = r->hash_next;
	s->run_count--;
	run_free(r);
}

void runs_free(struct pool *p)
{
	struct space *s = p->space;

	for (size_t b = 0; b < s->bucket_count; b++)
		for (struct run *r = s->buckets[b], *next; r; r = next) {
			next = r->hash_next;
			run_free(r);
		}
	free(s->buckets);
}

static int order_by_id(const void *a, const void *b)
{
	const struct run *x = *(struct run *const *)a, *y = *(struct run *const *)b;

	return x->id < y->id ? -1 : x->id > y->id;
}

int runs_list(
	struct pool *p, bool (*wanted)(const struct run *r), struct run ***ret, size_t *ret_count, struct error *err)
{
	struct space *s = p->space;
	size_t n = 0;

	*ret = NULL;
	*ret_count = 0;
	if (s->run_count == 0)
		return 0;
	struct run **list = malloc(s->run_count * sizeof *list);
	if (!list)
		return error_set(err, ERR_MEMORY, "no memory for a list of %zu runs", s->run_count);
	for (size_t b = 0; b < s->bucket_count; b++)
		for (struct run *r = s->buckets[b]; r; r = r->hash_next)
			if (!wanted || wanted(r))
				list[n++] = r;
	if (n == 0) {
		free(list);
		return 0;
	}
	qsort(list, n, sizeof *list, order_by_id);
	*ret = list;
	*ret_count = n;
	return 0;
}

static bool is_dirty(const struct run *r)
{
	return r->dirty;
}

int runs_dirty(struct pool *p, struct run ***ret, size_t *ret_count, struct error *err)
{
	return runs_list(p, is_dirty, ret, ret_count, err);
}

/* --- what a descriptor says --------------------------------------------------------------------------------------- */

struct disk_address run_place(const struct run *r, uint32_t stripe, unsigned column)
{
	sp_assert(column < r->k + r->p);
	return (struct disk_address){
		.disk = r->column[column].disk,
		.unit = r->column[column].unit + stripe * class_units(r->class),
	};
}

static bool is_returned(const struct run *r, uint32_t stripe)
{
	return bit_get(r->returned, stripe);
}

static uint32_t run_end(const struct run *r, uint32_t from, bool returned)
{
	while (from < r->stripes && is_returned(r, from) == returned)
		from++;
	return from;
}

void run_format_of(const struct run *r, uint32_t stripes, struct run_format *ret)
{
	sp_assert(stripes <= r->stripes_room);
	memset(ret, 0, sizeof *ret);
	ret->id = r->id;
	ret->birth = r->birth;
	ret->birth_last = r->birth_last;
	ret->group = r->group;
	ret->class = r->class;
	ret->k = r->k;
	ret->p = r->p;
	ret->version = r->version;
	ret->stripes = stripes;
	memcpy(ret->column, r->column, sizeof ret->column);
	memcpy(ret->column_state, r->column_state, sizeof ret->column_state);
	for (size_t i = 0; i < (size_t)stripes * r->k; i++)
		if (bit_get(r->live, i))
			ret->live[i / 8] |= (uint8_t)(1u << (i % 8));
	for (uint32_t s = 0; s < stripes; s++)
		if (bit_get(r->returned, s))
			ret->returned[s / 8] |= (uint8_t)(1u << (s % 8));
}

static void count_parity(struct pool *p, const struct run *r, int64_t stripes)
{
	for (unsigned c = r->k; c < r->k + r->p; c++)
		p->space->parity_bytes[r->column[c].disk] += (uint64_t)(stripes * (int64_t)class_bytes[r->class]);
}

static void claim_undo(struct pool *p, const struct run *r, unsigned columns, uint32_t first, uint32_t count)
{
	for (unsigned c = 0; c < columns; c++)
		zone_release(p, r->column[c].disk, r->class, run_place(r, first, c).unit, count);
}

/* All columns of the stripes, or none. */
static int claim(struct pool *p, const struct run *r, uint32_t first, uint32_t count, struct error *err)
{
	for (unsigned c = 0; c < r->k + r->p; c++) {
		int rc = zone_claim(p, r->column[c].disk, r->class, run_place(r, first, c).unit, count, err);

		if (rc) {
			error_prefix(err, "run %llu stripe %u", (unsigned long long)r->id, first);
			claim_undo(p, r, c, first, count);
			return rc;
		}
	}
	return 0;
}

static int shape_check(const struct pool *p, const struct run_format *f, struct error *err)
{
	unsigned width = f->k + f->p;

	if (f->class >= CLASS_COUNT || f->k == 0 || f->p > POOL_PARITY_MAX || width > POOL_WIDTH_MAX ||
		f->stripes > RUN_STRIPES_MAX || f->group >= p->group_count)
		return error_set(err, ERR_CORRUPT,
			"run %llu: class %u, %u + %u columns, %u stripes in group %u are impossible",
			(unsigned long long)f->id, f->class, f->k, f->p, f->stripes, f->group);
	for (unsigned c = 0; c < width; c++) {
		if (f->column[c].disk >= p->disk_count || f->column[c].unit >= 1ULL << 40)
			return error_set(err, ERR_CORRUPT, "run %llu: column %u lies on disk %u unit %llu",
				(unsigned long long)f->id, c, f->column[c].disk, (unsigned long long)f->column[c].unit);
		for (unsigned o = 0; o < c; o++)
			if (f->column[o].disk == f->column[c].disk)
				return error_set(err, ERR_CORRUPT, "run %llu: columns %u and %u lie on one disk, %u",
					(unsigned long long)f->id, o, c, f->column[c].disk);
	}
	return 0;
}

static bool all_returned(const struct run *r)
{
	for (uint32_t s = 0; s < r->stripes; s++)
		if (!is_returned(r, s))
			return false;
	return true;
}

bool run_is_over(const struct run *r)
{
	return !r->is_open && r->live_count == 0 && all_returned(r);
}

static void note_over(struct pool *p, struct run *r)
{
	if (r->over_tag || !run_is_over(r))
		return;
	r->over_tag = p->checkpoint_durable + 1;
	r->dirty = r->known; /* it leaves the tree */
	p->space->over_count++;
}

static void set_live(struct pool *p, struct run *r, uint32_t stripe, unsigned column)
{
	bit_set(r->live, (size_t)stripe * r->k + column);
	r->live_count++;
	p->space->live_bytes += class_bytes[r->class];
}

int run_install(struct pool *p, const struct run_format *f, struct error *err)
{
	int rc = shape_check(p, f, err);

	if (rc)
		return rc;
	if (run_find(p, f->id))
		return error_set(err, ERR_CORRUPT, "run %llu is described twice", (unsigned long long)f->id);
	struct run *r = run_make(p, f->id, f->class, f->k, f->p, f->stripes, err);
	if (!r)
		return ERR_MEMORY;
	r->birth = f->birth;
	r->birth_last = f->birth_last;
	r->group = f->group;
	r->version = f->version;
	r->stripes = r->stripes_durable = r->stripes_frozen = r->sums_first = r->sums_end = f->stripes;
	r->known = true;
	memcpy(r->column, f->column, sizeof r->column);
	memcpy(r->column_state, f->column_state, sizeof r->column_state);
	for (uint32_t s = 0; s < f->stripes; s++)
		if (f->returned[s / 8] >> (s % 8) & 1)
			bit_set(r->returned, s);
	for (uint32_t s = 0; s < f->stripes && !rc;) {
		uint32_t end = run_end(r, s, is_returned(r, s));

		if (!is_returned(r, s)) {
			rc = claim(p, r, s, end - s, err);
			for (uint32_t back = 0; rc && back < s;) { /* what was taken before */
				uint32_t stop = run_end(r, back, is_returned(r, back));

				if (!is_returned(r, back))
					claim_undo(p, r, r->k + r->p, back, min_of(stop, s) - back);
				back = stop;
			}
			if (!rc)
				count_parity(p, r, end - s);
		}
		s = end;
	}
	if (rc) {
		run_forget(p, r);
		return rc;
	}
	for (uint32_t s = 0; s < f->stripes; s++)
		for (unsigned c = 0; c < f->k && !is_returned(r, s); c++) {
			size_t i = (size_t)s * f->k + c;

			if (f->live[i / 8] >> (i % 8) & 1)
				set_live(p, r, s, c);
			else
				p->space->dead_bytes += class_bytes[r->class];
		}
	if (f->stripes)
		note_over(p, r);
	return 0;
}

static int room_grow(struct run *r, uint32_t room, struct error *err)
{
	size_t live_old = live_words(r->k, r->stripes_room) + 1, live_new = live_words(r->k, room) + 1;
	size_t returned_old = returned_words(r->stripes_room) + 1, returned_new = returned_words(room) + 1;
	uint64_t *live = realloc(r->live, live_new * sizeof *live);

	if (live) {
		r->live = live;
		memset(live + live_old, 0, (live_new - live_old) * sizeof *live);
	}
	uint64_t *returned = realloc(r->returned, returned_new * sizeof *returned);
	if (returned) {
		r->returned = returned;
		memset(returned + returned_old, 0, (returned_new - returned_old) * sizeof *returned);
	}
	if (!live || !returned)
		return error_set(err, ERR_MEMORY, "no memory for a run of %u stripes", room);
	r->stripes_room = room;
	return 0;
}

/* A gap in front stays zero until its own entry comes; if none comes, its stripes are returned. */
static int sums_put(struct run *r, uint32_t first, uint32_t count, const uint32_t *sums, struct error *err)
{
	size_t each = (size_t)(r->k + r->p) * sums_per_column(r->class);
	uint32_t end = first + count;

	if (first < r->sums_first)
		return error_set(err, ERR_CORRUPT,
			"run %llu: the sums of stripe %u come after those up to %u were written",
			(unsigned long long)r->id, first, r->sums_first);
	if (end > r->sums_end) {
		size_t had = r->sums_end > r->sums_first ? (r->sums_end - r->sums_first) * each : 0;
		size_t need = (end - r->sums_first) * each;
		uint32_t *larger = realloc(r->sums, need * sizeof *larger);

		if (!larger)
			return error_set(
				err, ERR_MEMORY, "no memory for the sums of run %llu", (unsigned long long)r->id);
		memset(larger + had, 0, (need - had) * sizeof *larger);
		r->sums = larger;
		r->sums_end = end;
	}
	memcpy(r->sums + (first - r->sums_first) * each, sums, count * each * sizeof *sums);
	return 0;
}

int run_extend(struct pool *p, const struct run_format *f, uint32_t first, uint32_t count, const uint8_t *sums,
	struct error *err)
{
	struct run *r = run_find(p, f->id);
	size_t words = (size_t)count * (f->k + f->p) * sums_per_column(f->class);
	int rc;

	if (count == 0 || count > RUN_STRIPES_MAX || first > RUN_STRIPES_MAX - count)
		return error_set(err, ERR_CORRUPT, "run %llu: stripes %u to %u were added; it can have %u",
			(unsigned long long)f->id, first, first + count, RUN_STRIPES_MAX);
	if (!r) {
		struct run_format empty = *f;

		empty.stripes = 0;
		rc = run_install(p, &empty, err);
		if (rc)
			return rc;
		r = run_find(p, f->id);
		r->dirty = true; /* the tree does not know it at all */
	}
	if (r->class != f->class || r->k != f->k || r->p != f->p || r->group != f->group)
		return error_set(err, ERR_CORRUPT, "run %llu changed its shape", (unsigned long long)f->id);
	if (first + count > r->stripes_room) {
		rc = room_grow(r, first + count, err);
		if (rc)
			return rc;
	}
	for (uint32_t s = first; s < min_of(first + count, r->stripes); s++)
		if (!is_returned(r, s))
			return error_set(
				err, ERR_CORRUPT, "run %llu: stripe %u was added twice", (unsigned long long)f->id, s);
	scoped_free uint32_t *host_sums = malloc(words * sizeof *host_sums);
	if (!host_sums)
		return error_set(err, ERR_MEMORY, "no memory for the sums of run %llu", (unsigned long long)f->id);
	for (size_t i = 0; i < words; i++)
		host_sums[i] = get_le32(sums + 4 * i);
	rc = claim(p, r, first, count, err);
	if (rc)
		return rc;
	rc = sums_put(r, first, count, host_sums, err);
	if (rc) {
		claim_undo(p, r, r->k + r->p, first, count);
		return rc;
	}
	for (uint32_t s = r->stripes; s < first; s++) /* may still come within this commit */
		bit_set(r->returned, s);
	for (uint32_t s = first; s < first + count; s++) {
		bit_clear(r->returned, s);
		for (unsigned c = 0; c < r->k; c++)
			set_live(p, r, s, c);
	}
	if (r->over_tag) { /* all that the tree knew of it had died */
		r->over_tag = 0;
		p->space->over_count--;
	}
	count_parity(p, r, count);
	r->stripes = max_of(r->stripes, first + count);
	r->birth_last = max_of(r->birth_last, f->birth_last);
	r->dirty = true;
	return 0;
}

size_t run_log_bytes(const struct run *r, uint32_t count)
{
	return RUN_HEAD_BYTES_MAX + 8 + (size_t)count * (r->k + r->p) * sums_per_column(r->class) * 4;
}

size_t run_log_pack(const struct run *r, uint32_t first, uint32_t count, const uint32_t *sums, uint8_t *out)
{
	struct run_format f;
	size_t words = (size_t)count * (r->k + r->p) * sums_per_column(r->class);

	run_format_of(r, 0, &f);
	f.stripes = first + count;
	size_t at = run_pack_head(&f, out);
	put_le32(out + at, first);
	put_le32(out + at + 4, count);
	at += 8;
	for (size_t i = 0; i < words; i++)
		put_le32(out + at + 4 * i, sums[i]);
	return at + 4 * words;
}

int run_log_apply(struct pool *p, const uint8_t *payload, uint32_t bytes, struct error *err)
{
	struct run_format f = {0};
	size_t at;
	int rc = run_unpack_head(payload, bytes, &f, &at, err);

	if (!rc)
		rc = shape_check(p, &f, err);
	if (rc)
		return rc;
	if (bytes - at < 8)
		return error_set(err, ERR_CORRUPT, "a log entry of run %llu ends early", (unsigned long long)f.id);
	uint32_t first = get_le32(payload + at), count = get_le32(payload + at + 4);
	uint64_t need = (uint64_t)count * (f.k + f.p) * sums_per_column(f.class) * 4;
	if (bytes - at - 8 != need)
		return error_set(err, ERR_CORRUPT, "a log entry of run %llu has %zu bytes of sums; expected %llu",
			(unsigned long long)f.id, (size_t)(bytes - at - 8), (unsigned long long)need);
	return run_extend(p, &f, first, count, payload + at + 8, err);
}

bool run_places_hold(struct pool *p, bool repaired, const uint8_t *payload, uint32_t bytes, struct run_places *ret)
{
	struct run_format f = {0};
	struct error ignored = ERROR_INIT;
	uint32_t first = 0;
	size_t at;

	*ret = (struct run_places){0};
	if (run_unpack_head(payload, bytes, &f, &at, &ignored) || shape_check(p, &f, &ignored) ||
		(!repaired && bytes - at < 8))
		return false;
	if (!repaired)
		first = get_le32(payload + at);
	ret->class = f.class;
	ret->count = repaired ? f.stripes : get_le32(payload + at + 4);
	if (first > RUN_STRIPES_MAX || ret->count > RUN_STRIPES_MAX)
		return false;
	for (unsigned c = 0; c < f.k + f.p; c++) {
		error_clear(&ignored);
		ret->disk[c] = f.column[c].disk;
		ret->unit[c] = f.column[c].unit + (uint64_t)first * class_units(f.class);
		if (ret->count && !zone_claim(p, ret->disk[c], f.class, ret->unit[c], ret->count, &ignored))
			ret->held |= 1u << c;
	}
	return ret->held != 0;
}

void run_places_release(struct pool *p, const struct run_places *places)
{
	for (unsigned c = 0; c < POOL_WIDTH_MAX; c++)
		if (places->held >> c & 1)
			zone_release(p, places->disk[c], places->class, places->unit[c], places->count);
}

/* --- death -------------------------------------------------------------------------------------------------------- */

/* last: the data column that died last. */
static void stripe_return(struct pool *p, struct run *r, uint32_t stripe, unsigned last, bool at_once)
{
	sp_assert(!is_returned(r, stripe));
	bit_set(r->returned, stripe);
	count_parity(p, r, -1);
	for (unsigned c = 0; c < r->k + r->p; c++) {
		struct disk_address a = run_place(r, stripe, c);

		if (pool_breaks(p, 1) && !at_once && c < r->k && c != last)
			continue; /* it was given back when it died */
		/* Without memory for the quarantine the column stays taken until the next import: lost for a while,
		 * never early. */
		if (at_once)
			zone_release(p, a.disk, r->class, a.unit, 1);
		else
			(void)space_quarantine(p, p->checkpoint_durable + 1, a.disk, r->class, a.unit, 1);
	}
	r->dirty = r->known;
	note_over(p, r);
}

void run_column_dead(struct pool *p, uint64_t run, uint32_t stripe, unsigned column)
{
	struct run *r = run_find(p, run);
	uint64_t bytes;

	/* The pointer came from a disk: it may name what is not. Nothing is freed then. */
	if (!r || stripe >= r->stripes || column >= r->k || !bit_get(r->live, (size_t)stripe * r->k + column))
		return;
	bytes = class_bytes[r->class];
	bit_clear(r->live, (size_t)stripe * r->k + column);
	r->live_count--;
	p->space->live_bytes -= bytes;
	p->space->dead_bytes += bytes;
	r->dirty = true;
	for (unsigned c = 0; c < r->k; c++)
		if (bit_get(r->live, (size_t)stripe * r->k + c)) {
			if (pool_breaks(p, 1)) /* parity still covers it */
				zone_release(p, r->column[column].disk, r->class, run_place(r, stripe, column).unit, 1);
			return;
		}
	p->space->dead_bytes -= r->k * bytes;
	stripe_return(p, r, stripe, column, false);
}

void runs_drop_over(struct pool *p)
{
	struct space *s = p->space;

	for (size_t b = 0; b < s->bucket_count && s->over_count; b++)
		for (struct run *r = s->buckets[b], *next; r; r = next) {
			next = r->hash_next;
			if (!r->over_tag || r->dirty || r->held || !space_is_due(p, r->over_tag))
				continue;
			s->over_count--;
			run_forget(p, r);
		}
}

/* --- open runs ---------------------------------------------------------------------------------------------------- */

void run_close(struct pool *p, struct run *r)
{
	struct run **slot = &p->space->open[r->group][r->class];
	uint32_t unused = r->stripes_room - r->stripes;

	if (!r->is_open)
		return;
	if (*slot == r)
		*slot = NULL;
	r->is_open = false;
	for (unsigned c = 0; unused && c < r->k + r->p; c++)
		zone_release(p, r->column[c].disk, r->class, run_place(r, r->stripes, c).unit, unused);
	count_parity(p, r, -(int64_t)unused);
	r->stripes_room = r->stripes;
	if (r->stripes == 0) {
		sp_assert(r->unlogged == 0 && r->held == 0);
		run_forget(p, r);
		return;
	}
	note_over(p, r);
}

void space_close_runs(struct pool *p)
{
	for (unsigned g = 0; g < p->group_count; g++)
		for (unsigned c = 0; c < CLASS_COUNT; c++)
			if (p->space->open[g][c])
				run_close(p, p->space->open[g][c]);
}

/* The chosen disks of a new run, and where on them. */
struct choice {
	unsigned count;
	unsigned disk[POOL_WIDTH_MAX]; /* in the order of the group */
	struct stretch at[POOL_WIDTH_MAX];
};

/* The `width` disks with the most room, those of equal room in the order of the group from `turn` on. */
static void choose_disks(
	const struct pool *p, const struct group_shape *shape, unsigned width, unsigned turn, struct choice *ret)
{
	bool chosen[POOL_DISKS_MAX] = {false};
	unsigned n = shape->disk_count;

	for (unsigned taken = 0; taken < width; taken++) {
		unsigned best = n;

		for (unsigned i = 0; i < n; i++) {
			unsigned at = (i + turn) % n;
			const struct pool_disk *d = &p->disks[shape->disks[at]];
			bool here = d->state == PD_ONLINE;

			if (chosen[at])
				continue;
			if (best < n) {
				const struct pool_disk *b = &p->disks[shape->disks[best]];

				if (here < (b->state == PD_ONLINE) ||
					(here == (b->state == PD_ONLINE) && d->free_bytes <= b->free_bytes))
					continue;
			}
			best = at;
		}
		chosen[best] = true;
	}
	ret->count = 0;
	for (unsigned i = 0; i < n; i++)
		if (chosen[i])
			ret->disk[ret->count++] = shape->disks[i];
}

/* Disks, and a stretch on each of them, all of one length: as long as the shortest allows. A disk without any place is
 * left out when the group is wide enough. */
static bool choose(const struct pool *p, struct group_shape *shape, unsigned width, unsigned class, uint32_t wanted,
	enum zone_use use, struct choice *c)
{
	for (;;) {
		uint32_t least = wanted;
		unsigned i = 0;

		if (shape->disk_count < width)
			return false;
		choose_disks(p, shape, width, (unsigned)(p->next_run % shape->disk_count), c);
		for (; i < width && zone_find(&p->disks[c->disk[i]], class, least, use, &c->at[i]); i++)
			least = min_of(least, c->at[i].count);
		if (i == width) {
			for (i = 0; i < width; i++)
				c->at[i].count = least;
			return true;
		}
		unsigned kept = 0;
		for (unsigned n = 0; n < shape->disk_count; n++)
			if (shape->disks[n] != c->disk[i])
				shape->disks[kept++] = shape->disks[n];
		shape->disk_count = kept;
	}
}

/* order[c]: which of the chosen disks has column c. */
static void choose_columns(const struct pool *p, const struct choice *c, unsigned k, unsigned parity, unsigned *order)
{
	bool is_parity[POOL_WIDTH_MAX] = {false};
	unsigned first = 0;

	for (unsigned i = 0; i < parity; i++) {
		unsigned best = c->count;

		for (unsigned at = c->count; at-- > 0;)
			if (!is_parity[at] && (best == c->count || p->space->parity_bytes[c->disk[at]] <
									   p->space->parity_bytes[c->disk[best]]))
				best = at;
		is_parity[best] = true;
		order[k + i] = best;
		if (i == 0)
			first = best;
	}
	for (unsigned i = 1, next = 0; i <= c->count; i++) {
		unsigned at = (first + i) % c->count;

		if (!is_parity[at])
			order[next++] = at;
	}
}

static int run_open(struct pool *p, unsigned group, unsigned class, unsigned k, unsigned parity, const struct choice *c,
	struct run **ret, struct error *err)
{
	struct run *r = run_make(p, max_of(p->next_run, (uint64_t)1), class, k, parity, c->at[0].count, err);
	unsigned order[POOL_WIDTH_MAX];

	if (!r)
		return ERR_MEMORY;
	r->group = (uint16_t)group;
	r->is_open = true;
	choose_columns(p, c, k, parity, order);
	for (unsigned column = 0; column < k + parity; column++) {
		struct pool_disk *d = &p->disks[c->disk[order[column]]];
		int rc = zone_take(p, d, class, &c->at[order[column]], &r->column[column].unit, err);

		if (rc) {
			claim_undo(p, r, column, 0, r->stripes_room);
			run_forget(p, r);
			return rc;
		}
		r->column[column].disk = (uint8_t)d->index;
		r->column_state[column] = d->state != PD_ONLINE; /* what it misses is made when it is back */
	}
	count_parity(p, r, r->stripes_room);
	*ret = r;
	return 0;
}

/* An open run goes on while it fits what the group can do now. */
static bool run_continues(const struct pool *p, const struct run *r, uint64_t commit, const struct group_shape *shape)
{
	if (!r || r->stripes == r->stripes_room || r->birth_last > commit || r->k != shape->k || r->p != shape->p)
		return false;
	for (unsigned c = 0; c < r->k + r->p; c++) {
		bool here = p->disks[r->column[c].disk].state == PD_ONLINE;

		if (here == (r->column_state[c] != 0))
			return false;
	}
	return true;
}

static uint32_t run_length(const struct pool *p, unsigned class)
{
	return (uint32_t)min_of(max_of(p->run_bytes / class_bytes[class], (uint64_t)1), (uint64_t)RUN_STRIPES_MAX);
}

/* A short stripe while a little is being written to the open run on the same disks: it takes the run's next row, so
 * that each disk has one place to write to. The row's other columns are given up. */
static struct run *run_beside(struct pool *p, struct run *r, unsigned k, struct error *err)
{
	uint32_t row = r->stripes;
	struct run *short_one = run_make(p, max_of(p->next_run, (uint64_t)1), r->class, k, r->p, 1, err);

	if (!short_one)
		return NULL;
	short_one->group = r->group;
	short_one->is_open = true;
	for (unsigned c = 0; c < r->k + r->p; c++) {
		struct disk_address at = run_place(r, row, c);

		if (c < k)
			short_one->column[c] = at;
		else if (c >= r->k)
			short_one->column[k + c - r->k] = at;
		else
			zone_release(p, at.disk, r->class, at.unit, 1);
	}
	bit_set(r->returned, row);
	r->stripes++;
	count_parity(p, r, -1);
	count_parity(p, short_one, 1);
	return short_one;
}

int run_allot(struct pool *p, unsigned group, uint64_t commit, unsigned class, uint32_t records, uint32_t wanted,
	enum zone_use use, bool apart, struct allotment *ret, struct error *err)
{
	struct space *s = p->space;
	struct group_shape shape;
	struct run **slot = &s->open[group][class], *r = *slot;

	if (!group_shape(p, &p->groups[group], &shape))
		return error_set(err, ERR_SPACE, "group %u has no disk left to write to", group);
	bool is_short = records < shape.k;
	unsigned k = is_short ? records : shape.k;
	bool is_beside = is_short && !apart && r && r->unlogged && k < r->k &&
			 (uint64_t)r->unlogged * class_bytes[class] <= BESIDE_BYTES && r->birth_last == commit &&
			 run_continues(p, r, commit, &shape);
	apart = apart || is_short;
	if (is_beside) {
		r = run_beside(p, r, k, err);
		if (!r)
			return ERR_MEMORY;
		r->birth = commit;
	} else if (apart || !run_continues(p, r, commit, &shape)) {
		uint32_t length = apart ? 1 : run_length(p, class);
		struct choice c;

		if (!apart && r)
			run_close(p, r);
		if (!choose(p, &shape, k + shape.p, class, length, use, &c))
			return error_set(err, ERR_SPACE, "group %u has no free column of %u bytes on each of %u disks",
				group, class_bytes[class], k + shape.p);
		int rc = run_open(p, group, class, k, shape.p, &c, &r, err);
		if (rc)
			return rc;
		r->birth = commit;
		if (!apart)
			*slot = r;
	}
	ret->run = r;
	ret->first = r->stripes;
	ret->count = min_of(min_of(wanted, records / k), r->stripes_room - r->stripes);
	sp_assert(ret->count > 0);
	r->stripes += ret->count;
	r->unlogged += ret->count;
	r->birth_last = commit;
	if (apart)
		run_close(p, r);
	return 0;
}

/* --- what becomes of allotted stripes ----------------------------------------------------------------------------- */

int stripes_keep(struct pool *p, struct run *r, uint32_t first, uint32_t count, const uint32_t *sums, struct error *err)
{
	int rc = sums_put(r, first, count, sums, err);

	if (rc)
		return rc;
	for (uint32_t s = first; s < first + count; s++)
		for (unsigned c = 0; c < r->k; c++)
			set_live(p, r, s, c);
	sp_assert(r->unlogged >= count);
	r->unlogged -= count;
	r->known = r->dirty = true;
	return 0;
}

void stripes_drop(struct pool *p, struct run *r, uint32_t first, uint32_t count)
{
	sp_assert(r->unlogged >= count);
	r->unlogged -= count;
	if (r->is_open && first + count == r->stripes) {
		r->stripes = first; /* as if it had not been allotted */
		return;
	}
	for (uint32_t s = first; s < first + count; s++)
		stripe_return(p, r, s, 0, true);
	if (r->over_tag && !r->known) {
		p->space->over_count--;
		run_forget(p, r); /* nobody has heard of it */
	}
}

/* --- moving a column ---------------------------------------------------------------------------------------------- */

int run_move_begin(struct pool *p, struct run *r, unsigned column, struct disk_address *ret, struct error *err)
{
	bool used[POOL_DISKS_MAX] = {false};
	const struct pool_group *g = &p->groups[r->group];
	struct pool_disk *best = NULL;
	struct stretch at, found;

	sp_assert(!r->is_open && r->unlogged == 0);
	for (unsigned c = 0; c < r->k + r->p; c++)
		used[r->column[c].disk] = c != column;
	for (unsigned i = 0; i < g->disk_count; i++) {
		struct pool_disk *d = &p->disks[g->disks[i]];
		bool same = d->index == r->column[column].disk;

		if (used[d->index] || d->state != PD_ONLINE ||
			!zone_find(d, r->class, r->stripes, ZONES_AVAILABLE, &found) || found.count < r->stripes)
			continue;
		/* The disk that it was on keeps the load even; else the one with the most room. */
		if (!best || same || (best->index != r->column[column].disk && d->free_bytes > best->free_bytes)) {
			best = d;
			at = found;
		}
	}
	if (!best)
		return error_set(err, ERR_SPACE,
			"no disk of group %u has room for column %u of run %llu (%u times %u bytes)", r->group, column,
			(unsigned long long)r->id, r->stripes, class_bytes[r->class]);
	int rc = zone_take(p, best, r->class, &at, &ret->unit, err);
	ret->disk = (uint8_t)best->index;
	return rc;
}

void run_move_cancel(struct pool *p, const struct run *r, uint32_t stripes, const struct disk_address *to)
{
	zone_release(p, to->disk, r->class, to->unit, stripes);
}

/* The old place is quarantined but for stripes that are there already; in the new place those of returned stripes are
 * given up. Both wait one checkpoint more than what a fold frees: the one in the making may not know of the move. */
void run_move(struct pool *p, struct run *r, unsigned column, const struct disk_address *to)
{
	uint64_t tag = p->checkpoint_durable + 2;
	struct disk_address from = r->column[column];

	for (uint32_t s = 0; s < r->stripes;) {
		bool returned = is_returned(r, s);
		uint32_t end = run_end(r, s, returned);
		const struct disk_address *left = returned ? to : &from;

		(void)space_quarantine(p, tag, left->disk, r->class, left->unit + s * class_units(r->class), end - s);
		if (column >= r->k && !returned) {
			uint64_t bytes = (uint64_t)(end - s) * class_bytes[r->class];

			p->space->parity_bytes[from.disk] -= bytes;
			p->space->parity_bytes[to->disk] += bytes;
		}
		s = end;
	}
	r->column[column] = *to;
}

size_t run_repaired_pack(const struct run *r, uint8_t *out)
{
	struct run_format f;

	run_format_of(r, 0, &f);
	f.stripes = r->stripes;
	return run_pack_head(&f, out);
}

int run_repaired_apply(struct pool *p, const uint8_t *payload, uint32_t bytes, struct error *err)
{
	struct run_format f = {0};
	size_t used;
	int rc = run_unpack_head(payload, bytes, &f, &used, err);

	if (!rc)
		rc = shape_check(p, &f, err);
	if (rc)
		return rc;
	struct run *r = run_find(p, f.id);
	if (!r || f.version <= r->version)
		return 0; /* it died since, or the tree knows */
	if (r->class != f.class || r->k != f.k || r->p != f.p)
		return error_set(err, ERR_CORRUPT, "run %llu changed its shape", (unsigned long long)f.id);
	for (unsigned c = 0; c < r->k + r->p; c++) {
		if (r->column[c].disk == f.column[c].disk && r->column[c].unit == f.column[c].unit)
			continue;
		rc = zone_claim(p, f.column[c].disk, r->class, f.column[c].unit, r->stripes, err);
		if (rc) {
			error_prefix(err, "run %llu column %u moved", (unsigned long long)r->id, c);
			return rc;
		}
		run_move(p, r, c, &f.column[c]);
	}
	memcpy(r->column_state, f.column_state, sizeof r->column_state);
	r->version = f.version;
	r->dirty = true;
	return 0;
}
