/*
 * A platter is a table of pages of 4 KiB, shared between copies until one of them writes. A disk has two: `seen` is
 * what reads see, `safe` is what would be left if every write in the cache were lost. Between them lies the list of
 * writes that completed and are not flushed, oldest first.
 *
 *      write completes   -> seen, and to the end of the list
 *      flush completes   -> what was in the list when it was submitted goes to safe, in order
 *      power goes        -> of the list, then of what is in flight (in any order), parts go to safe; seen = safe
 *
 * Requests complete from timers after a drawn latency, so that they overtake each other.
 */
#include "crash_disk.h"

#include <string.h>

#include "disk_ops.h"

#define PAGE_BYTES 4096u

/* --- platters --------------------------------------------------------------------------------------------- */

struct page {
	unsigned users;
	uint8_t bytes[PAGE_BYTES];
};
struct platter {
	uint64_t size_bytes, noise_seed;
	size_t page_count;
	struct page *pages[];
};

static void *must(void *p)
{
	sp_assert(p != NULL);
	return p;
}

struct platter *platter_make(uint64_t size_bytes, uint64_t noise_seed)
{
	size_t pages = (size_t)((size_bytes + PAGE_BYTES - 1) / PAGE_BYTES);
	struct platter *p = must(calloc(1, sizeof *p + pages * sizeof p->pages[0]));
	p->size_bytes = size_bytes;
	p->noise_seed = noise_seed;
	p->page_count = pages;
	return p;
}

struct platter *platter_copy(const struct platter *p)
{
	size_t bytes = sizeof *p + p->page_count * sizeof p->pages[0];
	struct platter *copy = must(malloc(bytes));
	memcpy(copy, p, bytes);
	for (size_t i = 0; i < p->page_count; i++)
		if (copy->pages[i])
			copy->pages[i]->users++;
	return copy;
}

void platter_free(struct platter *p)
{
	for (size_t i = 0; p && i < p->page_count; i++)
		if (p->pages[i] && --p->pages[i]->users == 0)
			free(p->pages[i]);
	free(p);
}

uint64_t platter_size(const struct platter *p)
{
	return p->size_bytes;
}

static void blank(const struct platter *p, size_t number, uint8_t bytes[PAGE_BYTES])
{
	if (!p->noise_seed) {
		memset(bytes, 0, PAGE_BYTES);
		return;
	}
	struct random r;
	random_seed(&r, p->noise_seed * 0x9e3779b97f4a7c15u + number);
	random_fill(&r, bytes, PAGE_BYTES);
}

void platter_read(const struct platter *p, uint64_t offset_bytes, void *buffer, uint64_t length_bytes)
{
	uint8_t *to = buffer;
	while (length_bytes) {
		size_t number = (size_t)(offset_bytes / PAGE_BYTES), at = (size_t)(offset_bytes % PAGE_BYTES);
		size_t part = (size_t)min_of(length_bytes, (uint64_t)(PAGE_BYTES - at));
		if (p->pages[number]) {
			memcpy(to, p->pages[number]->bytes + at, part);
		} else if (!p->noise_seed) {
			memset(to, 0, part);
		} else {
			uint8_t bytes[PAGE_BYTES];
			blank(p, number, bytes);
			memcpy(to, bytes + at, part);
		}
		to += part;
		offset_bytes += part;
		length_bytes -= part;
	}
}

static uint8_t *page_own(struct platter *p, size_t number)
{
	struct page *old = p->pages[number];
	if (old && old->users == 1)
		return old->bytes;
	struct page *own = must(malloc(sizeof *own));
	own->users = 1;
	if (old) {
		memcpy(own->bytes, old->bytes, PAGE_BYTES);
		old->users--;
	} else {
		blank(p, number, own->bytes);
	}
	p->pages[number] = own;
	return own->bytes;
}

void platter_write(struct platter *p, uint64_t offset_bytes, const void *buffer, uint64_t length_bytes)
{
	const uint8_t *from = buffer;
	while (length_bytes) {
		size_t at = (size_t)(offset_bytes % PAGE_BYTES);
		size_t part = (size_t)min_of(length_bytes, (uint64_t)(PAGE_BYTES - at));
		memcpy(page_own(p, (size_t)(offset_bytes / PAGE_BYTES)) + at, from, part);
		from += part;
		offset_bytes += part;
		length_bytes -= part;
	}
}

uint64_t platter_hash(const struct platter *p)
{
	uint64_t hash = p->size_bytes;
	for (size_t i = 0; i < p->page_count; i++)
		if (p->pages[i])
			hash = (hash ^ i ^ checksum_xxh3(p->pages[i]->bytes, PAGE_BYTES)) * 0x9e3779b97f4a7c15u;
	return hash;
}

void platter_wreck(struct platter *p, struct random *r, unsigned odds)
{
	for (size_t i = 0; i < p->page_count; i++)
		if (p->pages[i] && random_below(r, 16) < odds)
			page_own(p, i)[random_below(r, PAGE_BYTES)] ^= (uint8_t)(1 + random_below(r, 255));
}

/* --- the disk ---------------------------------------------------------------------------------------------- */

/* A write, from its submission until it is safe. */
struct doubt {
	struct list link;
	struct disk_request *request; /* NULL once it completed */
	uint64_t completed;           /* how many writes of this disk completed before, from 1; 0: in flight */
	uint64_t offset_bytes, length_bytes;
	uint8_t bytes[];
};

struct crash_disk {
	struct disk disk;
	struct power *power;
	struct crash_options options;
	char *name;
	struct platter *seen, *safe;
	struct list cached, flying; /* doubts */
	uint64_t completions;
	uint8_t *spoiled; /* a bit a sector; NULL: none */
	bool vanished, failing, flushes_fail;
};

/* What a request must remember until its timer fires, in r->word. */
enum verdict { VERDICT_FINE, VERDICT_EIO, VERDICT_GONE, VERDICT_LIE };
#define VERDICT_BITS 2

static struct crash_disk *of(const struct disk *d)
{
	return container_of((struct disk *)d, struct crash_disk, disk);
}

static uint64_t sector_of(uint64_t offset_bytes)
{
	return offset_bytes / CRASH_SECTOR_BYTES;
}

static bool is_spoiled(const struct crash_disk *c, uint64_t offset_bytes, uint64_t length_bytes)
{
	for (uint64_t s = sector_of(offset_bytes); c->spoiled && s < sector_of(offset_bytes + length_bytes); s++)
		if (c->spoiled[s / 8] & 1u << s % 8)
			return true;
	return false;
}

static void heal(struct crash_disk *c, uint64_t offset_bytes, uint64_t length_bytes)
{
	for (uint64_t s = sector_of(offset_bytes); c->spoiled && s < sector_of(offset_bytes + length_bytes); s++)
		c->spoiled[s / 8] &= (uint8_t) ~(1u << s % 8);
}

void crash_disk_spoil(struct disk *d, uint64_t offset_bytes, uint64_t length_bytes)
{
	struct crash_disk *c = of(d);
	if (!c->spoiled)
		c->spoiled = must(calloc(1, (size_t)(sector_of(d->traits.size_bytes) / 8 + 1)));
	for (uint64_t s = sector_of(offset_bytes); s < sector_of(offset_bytes + length_bytes); s++)
		c->spoiled[s / 8] |= (uint8_t)(1u << s % 8);
}

void crash_disk_flip(struct disk *d, uint64_t offset_bytes, uint8_t mask)
{
	struct crash_disk *c = of(d);
	struct platter *both[] = {c->seen, c->safe};
	for (size_t i = 0; i < array_count(both); i++) {
		uint8_t byte;
		platter_read(both[i], offset_bytes, &byte, 1);
		byte ^= mask;
		platter_write(both[i], offset_bytes, &byte, 1);
	}
}

void crash_disk_vanish(struct disk *d)
{
	of(d)->vanished = true;
}

bool crash_disk_failing(const struct disk *d)
{
	return of(d)->failing || of(d)->vanished;
}

/* --- power --------------------------------------------------------------------------------------------------- */

void power_init(struct power *p, uint64_t seed)
{
	*p = (struct power){.latency_ns_max = 200000};
	random_seed(&p->random, seed);
	/* Some cuts leave nearly all, some nearly nothing. */
	p->odds_keep = (unsigned)random_below(&p->random, 16);
	p->odds_tear = (unsigned)random_below(&p->random, 17 - p->odds_keep);
}

static void keep_some(struct power *p, struct crash_disk *c, const struct doubt *w)
{
	uint64_t unit = c->disk.traits.logical_bytes, count = w->length_bytes / unit, first = 0, end = count;
	unsigned draw = (unsigned)random_below(&p->random, 16);
	if (draw >= p->odds_keep + p->odds_tear)
		return;
	if (draw >= p->odds_keep) {
		unsigned kind = (unsigned)random_below(&p->random, 3);
		if (kind == 0)
			end = random_below(&p->random, count + 1);
		else if (kind == 1)
			first = random_below(&p->random, count + 1);
		for (uint64_t i = first; kind == 2 && i < end; i++)
			if (random_u64(&p->random) & 1)
				platter_write(c->safe, w->offset_bytes + i * unit, w->bytes + i * unit, unit);
		if (kind == 2)
			return;
	}
	platter_write(c->safe, w->offset_bytes + first * unit, w->bytes + first * unit, (end - first) * unit);
}

static void lose_power(struct power *p, struct crash_disk *c)
{
	list_for_each(&c->cached, at) keep_some(p, c, container_of(at, struct doubt, link));
	/* In flight there is no order: take them from a place in the middle, round. */
	unsigned count = 0;
	list_for_each(&c->flying, at) count++;
	for (unsigned turn = count ? (unsigned)random_below(&p->random, count) : 0; turn; turn--) {
		struct list *first = c->flying.next;
		list_remove(first);
		list_push_back(&c->flying, first);
	}
	list_for_each(&c->flying, at) keep_some(p, c, container_of(at, struct doubt, link));
	platter_free(c->seen);
	c->seen = platter_copy(c->safe);
}

void power_cut(struct power *p)
{
	if (p->is_cut)
		return;
	p->is_cut = true;
	for (unsigned i = 0; i < p->disk_count; i++)
		lose_power(p, of(p->disks[i]));
}

/* --- operations ------------------------------------------------------------------------------------------------ */

static struct doubt *doubt_of(struct crash_disk *c, const struct disk_request *r)
{
	list_for_each(&c->flying, at)
	{
		struct doubt *w = container_of(at, struct doubt, link);
		if (w->request == r)
			return w;
	}
	return NULL;
}

static void doubt_free(struct doubt *w)
{
	list_remove(&w->link);
	free(w);
}

static void doubt_add(struct crash_disk *c, struct disk_request *r)
{
	struct doubt *w = must(calloc(1, sizeof *w + r->length_bytes));
	uint8_t *to = w->bytes;
	w->request = r;
	w->offset_bytes = r->offset_bytes;
	w->length_bytes = r->length_bytes;
	for (unsigned i = 0; i < r->iov_count; i++) {
		memcpy(to, r->iov[i].iov_base, r->iov[i].iov_len);
		to += r->iov[i].iov_len;
	}
	list_push_back(&c->flying, &w->link);
}

static int do_read(struct crash_disk *c, struct disk_request *r)
{
	uint64_t at = r->offset_bytes;
	if (is_spoiled(c, at, r->length_bytes))
		return ERR_MEDIA;
	for (unsigned i = 0; i < r->iov_count; i++) {
		platter_read(c->seen, at, r->iov[i].iov_base, r->iov[i].iov_len);
		at += r->iov[i].iov_len;
	}
	return 0;
}

static int do_write(struct crash_disk *c, struct disk_request *r)
{
	struct doubt *w = doubt_of(c, r);
	sp_assert(w);
	platter_write(c->seen, w->offset_bytes, w->bytes, w->length_bytes);
	heal(c, w->offset_bytes, w->length_bytes);
	w->request = NULL;
	w->completed = ++c->completions;
	list_remove(&w->link);
	list_push_back(&c->cached, &w->link);
	if (c->options.flush_nothing) {
		platter_write(c->safe, w->offset_bytes, w->bytes, w->length_bytes);
		doubt_free(w);
	}
	return 0;
}

/* The write is lost, or done in another place. */
static void do_lie(struct crash_disk *c, struct disk_request *r)
{
	struct doubt *w = doubt_of(c, r);
	uint64_t unit = c->disk.traits.physical_bytes, front = (uint64_t)1 << 20;
	uint64_t room = c->disk.traits.size_bytes - 2 * front;
	sp_assert(w);
	if (random_below(&c->power->random, 2) || w->length_bytes > room) {
		doubt_free(w);
		return;
	}
	w->offset_bytes = front + random_below(&c->power->random, (room - w->length_bytes) / unit + 1) * unit;
	(void)do_write(c, r);
}

/* Makes safe what had completed when it was submitted. */
static int do_flush(struct crash_disk *c, uint64_t completions)
{
	if (c->options.lying_flush)
		return 0;
	list_for_each_safe(&c->cached, at, next)
	{
		struct doubt *w = container_of(at, struct doubt, link);
		if (w->completed > completions)
			break;
		platter_write(c->safe, w->offset_bytes, w->bytes, w->length_bytes);
		doubt_free(w);
	}
	return 0;
}

static void fired(struct os_timer *timer)
{
	struct disk_request *r = container_of(timer, struct disk_request, timer);
	struct crash_disk *c = of(r->current);
	enum verdict verdict = (enum verdict)(r->word & ((1u << VERDICT_BITS) - 1));
	int status = 0;
	if (c->power->is_cut || c->vanished || verdict == VERDICT_GONE)
		status = ERR_GONE;
	else if (verdict == VERDICT_EIO)
		status = ERR_IO;
	else if (r->op == DISK_READ)
		status = do_read(c, r);
	else if (r->op == DISK_WRITE && verdict == VERDICT_LIE)
		do_lie(c, r);
	else if (r->op == DISK_WRITE)
		status = do_write(c, r);
	else if (r->op == DISK_FLUSH)
		status = do_flush(c, r->word >> VERDICT_BITS);
	struct doubt *w = status && r->op == DISK_WRITE ? doubt_of(c, r) : NULL;
	if (w && status == ERR_IO) {
		/* A write that failed may be there in part. */
		uint64_t unit = c->disk.traits.logical_bytes;
		w->length_bytes = unit * random_below(&c->power->random, w->length_bytes / unit + 1);
		do_write(c, r);
	} else if (w) {
		doubt_free(w);
	}
	disk__complete(r, status);
}

/* What becomes of the operation that is submitted now. */
static enum verdict meet(struct power *p, struct crash_disk *c, const struct disk_request *r)
{
	p->operations++;
	p->is_met |= p->operations == p->cut_at || p->operations == p->fault_at;
	if (p->operations == p->cut_at)
		power_cut(p);
	if (p->operations == p->fault_at && !p->is_cut) {
		p->hit = &c->disk;
		p->hit_op = r->op;
		switch (p->fault) {
		case CRASH_EIO_ONCE:
			return VERDICT_EIO;
		case CRASH_EIO_STICKY:
			c->failing = true;
			break;
		case CRASH_VANISH:
			c->vanished = true;
			break;
		case CRASH_MEDIA:
			if (r->op != DISK_READ)
				return VERDICT_EIO;
			crash_disk_spoil(&c->disk, r->offset_bytes, CRASH_SECTOR_BYTES);
			break;
		default:
			break;
		}
	}
	if (p->fault == CRASH_EIO_FLUSH && p->fault_at && p->operations >= p->fault_at && !p->is_cut && !p->hit &&
		r->op == DISK_FLUSH) {
		p->hit = &c->disk;
		p->hit_op = r->op;
		c->flushes_fail = true;
	}
	if (p->is_cut || c->vanished)
		return VERDICT_GONE;
	if (c->flushes_fail && r->op == DISK_FLUSH)
		return VERDICT_EIO;
	if (p->liar == &c->disk && r->op == DISK_WRITE && random_below(&p->random, 16) == 0)
		return VERDICT_LIE;
	return c->failing ? VERDICT_EIO : VERDICT_FINE;
}

static void crash_submit(struct disk *d, struct disk_request *r)
{
	struct crash_disk *c = of(d);
	struct power *p = c->power;
	/* In flight already when the power goes at this very operation. */
	if (r->op == DISK_WRITE && !p->is_cut && !c->vanished)
		doubt_add(c, r);
	r->word = (uint64_t)meet(p, c, r) | c->completions << VERDICT_BITS;
	uint64_t latency_ns = 1000 + random_below(&p->random, p->latency_ns_max);
	if (random_below(&p->random, 32) == 0)
		latency_ns *= 20;
	os_timer_init(&r->timer, fired);
	os_timer_set(&r->timer, os_now_ns() + latency_ns);
}

static void crash_free(struct crash_disk *c)
{
	list_for_each_safe(&c->cached, at, next) doubt_free(container_of(at, struct doubt, link));
	struct power *p = c->power;
	for (unsigned i = 0; i < p->disk_count; i++)
		if (p->disks[i] == &c->disk)
			p->disks[i] = p->disks[--p->disk_count];
	disk__release(&c->disk);
	platter_free(c->seen);
	platter_free(c->safe);
	free(c->spoiled);
	free(c->name);
	free(c);
}

static void crash_close(struct disk *d)
{
	crash_free(of(d));
}

static const struct disk_ops crash_ops = {.kind = "crash", .submit = crash_submit, .close = crash_close};

int crash_disk_open(const char *name, struct power *power, struct platter *platter, const struct crash_options *o,
	struct disk **ret, struct error *err)
{
	static const struct crash_options defaults;
	if (power->disk_count == CRASH_DISKS_MAX)
		return error_set(err, ERR_USAGE, "%s would be one disk too many", name);
	struct crash_disk *c = must(calloc(1, sizeof *c));
	c->power = power;
	c->options = o ? *o : defaults;
	c->name = must(strdup(name));
	c->safe = platter;
	c->seen = platter_copy(platter);
	list_init(&c->cached);
	list_init(&c->flying);
	uint32_t logical = c->options.logical_bytes ? c->options.logical_bytes : CRASH_SECTOR_BYTES;
	struct disk_traits traits = {.name = c->name,
		.spec = c->name,
		.engine = "memory",
		.size_bytes = platter->size_bytes,
		.nominal_bytes = platter->size_bytes,
		.logical_bytes = logical,
		.physical_bytes = logical,
		.atomic_bytes = logical,
		.direct = true,
		.is_memory = true,
		.needs_flush = !c->options.flush_nothing};
	disk__init(&c->disk, &crash_ops, NULL, &traits);
	power->disks[power->disk_count++] = &c->disk;
	*ret = &c->disk;
	return 0;
}

struct platter *crash_disk_peek(const struct disk *d)
{
	return platter_copy(of(d)->seen);
}

struct platter *crash_disk_take(struct disk *d)
{
	struct platter *p = crash_disk_peek(d);
	disk_close(d);
	return p;
}
