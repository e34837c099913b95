/*
 * fault: a disk that misbehaves on purpose.
 *
 *     +fault=KIND[,op=OP][,nth=N][,count=N][,offset=SIZE][,length=SIZE][,ms=N][,sticky=0|1][,silent=0|1]
 *
 * Requests that match (the right operation, touching the range when one is given) are counted from 1. A fault
 * strikes request number nth and the count - 1 behind it. Without nth it strikes every one; with nth alone, that
 * one; with sticky=1, that one and all that follow. Each kind takes only the keys that mean something to it; the
 * table below is the list, and docs/disks.md says what each does.
 *
 * Bytes are changed in the caller's buffer on the way up (rot) or on the backend itself (rot with sticky): a model
 * in between costs no time for it.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

enum kind { EIO_, VANISH, ROT, LOST, MISDIRECT, TORN, LIEFLUSH, SLOW, SHORT, ENOSPC_, HANG, KIND_COUNT };

enum key { OP, NTH, COUNT, OFFSET, LENGTH, MS, STICKY, SILENT, KEY_COUNT };
#define KEY(k) (1u << (k))
static const char *const key_names[KEY_COUNT] = {"op", "nth", "count", "offset", "length", "ms", "sticky", "silent"};

#define READS (1u << DISK_READ)
#define WRITES (1u << DISK_WRITE)
#define FLUSHES (1u << DISK_FLUSH)
#define ANY (READS | WRITES | FLUSHES | 1u << DISK_DISCARD)
#define WHICH (KEY(NTH) | KEY(COUNT))
#define WHERE (KEY(OFFSET) | KEY(LENGTH))

struct args {
	enum kind kind;
	unsigned given; /* keys */
	unsigned ops;
	uint64_t value[KEY_COUNT];
};

struct fault_disk {
	struct disk disk;
	struct args args;
	uint64_t last; /* the last number that it strikes */
	bool forever;  /* once struck, it strikes always */
	struct os_mutex lock;
	uint64_t seen; /* under lock */
	bool struck;   /* under lock */
};

struct fault_kind {
	const char *name;
	unsigned keys;
	unsigned ops; /* which it can strike; `op=` chooses among them */
	uint64_t default_ms;
	/* A struck request. Either passes it on or completes it. */
	void (*submit)(struct fault_disk *f, struct disk_request *r);
	int (*run)(struct fault_disk *f, struct disk_request *r);
};

static const struct fault_kind fault_kinds[KIND_COUNT];

/* --- reading the arguments --------------------------------------------------------------------------- */

static void list_names(char *text, size_t room, unsigned keys)
{
	size_t used = 0;
	text[0] = '\0';
	for (unsigned k = 0; k < KEY_COUNT && used < room; k++)
		if (keys & KEY(k))
			used += (size_t)snprintf(text + used, room - used, "%s%s", used ? ", " : "", key_names[k]);
}

static int parse_kind(const char *word, struct args *a, struct error *err)
{
	for (unsigned k = 0; k < KIND_COUNT; k++)
		if (strcmp(fault_kinds[k].name, word) == 0) {
			a->kind = (enum kind)k;
			return 0;
		}
	return error_set(err, ERR_USAGE,
		"there is no fault \"%.40s\"; the kinds are eio, vanish, rot, lost, misdirect, torn, lieflush, slow, "
		"short, enospc and hang",
		word);
}

static int parse_op(const char *value, struct args *a, struct error *err)
{
	unsigned can = fault_kinds[a->kind].ops;
	a->ops = 0;
	if (strcmp(value, "any") == 0)
		a->ops = can;
	for (unsigned op = 0; op < DISK_OP_COUNT; op++)
		if (strcmp(value, disk_op_names[op]) == 0)
			a->ops = 1u << op;
	if (a->ops == 0)
		return error_set(err, ERR_USAGE, "fault %s: op=%.40s is not read, write, flush, discard or any",
			fault_kinds[a->kind].name, value);
	if (a->ops & ~can)
		return error_set(err, ERR_USAGE, "fault %s does not happen to a %s", fault_kinds[a->kind].name, value);
	return 0;
}

static int parse_value(enum key k, const char *value, struct args *a, struct error *err)
{
	uint64_t *v = &a->value[k];
	switch (k) {
	case OP:
		return parse_op(value, a, err);
	case NTH:
	case COUNT:
		return number_parse(key_names[k], value, 1, UINT64_MAX / 2, v, err);
	case OFFSET:
	case LENGTH:
		return size_parse(value, v, err);
	case MS:
		return number_parse(key_names[k], value, 0, 86400000, v, err);
	default:
		return number_parse(key_names[k], value, 0, 1, v, err);
	}
}

static int parse_pair(char *pair, struct args *a, struct error *err)
{
	const struct fault_kind *kind = &fault_kinds[a->kind];
	char known[96];
	char *equals = strchr(pair, '=');
	if (equals)
		*equals = '\0';
	unsigned k = 0;
	while (k < KEY_COUNT && strcmp(key_names[k], pair) != 0)
		k++;
	if (k == KEY_COUNT || !(kind->keys & KEY(k))) {
		list_names(known, sizeof known, kind->keys);
		return error_set(err, ERR_USAGE, "fault %s has no key \"%.40s\"; it takes %s", kind->name, pair, known);
	}
	if (!equals || equals[1] == '\0')
		return error_set(err, ERR_USAGE, "fault %s: %s lacks its value", kind->name, pair);
	if (a->given & KEY(k))
		return error_set(err, ERR_USAGE, "fault %s: %s is given twice", kind->name, pair);
	int rc = parse_value((enum key)k, equals + 1, a, err);
	if (rc != 0) {
		error_prefix(err, "fault %s: %s", kind->name, pair);
		return rc;
	}
	a->given |= KEY(k);
	return 0;
}

static int check_sense(const struct args *a, struct error *err)
{
	const char *name = fault_kinds[a->kind].name;
	if (a->kind == SHORT && !(a->given & KEY(OFFSET)))
		return error_set(err, ERR_USAGE, "fault short needs offset=, where the disk ends");
	if ((a->given & KEY(LENGTH)) && (!(a->given & KEY(OFFSET)) || a->value[LENGTH] == 0))
		return error_set(
			err, ERR_USAGE, "fault %s: length= is the size of the range that begins at offset=", name);
	if ((a->given & KEY(COUNT)) && (a->given & KEY(STICKY)) && a->value[STICKY] && a->kind != ROT)
		return error_set(err, ERR_USAGE, "fault %s: sticky=1 never ends, so count= means nothing", name);
	return 0;
}

static int parse(const char *text, struct args *ret, struct error *err)
{
	struct args a = {.value[NTH] = 1};
	scoped_free char *copy = strdup(text);
	if (!copy)
		return error_set(err, ERR_MEMORY, "out of memory");
	char *rest = copy;
	int rc = parse_kind(strsep(&rest, ","), &a, err);
	if (rc != 0)
		return rc;
	a.ops = fault_kinds[a.kind].ops;
	a.value[MS] = fault_kinds[a.kind].default_ms;
	while (rest) {
		rc = parse_pair(strsep(&rest, ","), &a, err);
		if (rc != 0)
			return rc;
	}
	rc = check_sense(&a, err);
	if (rc == 0)
		*ret = a;
	return rc;
}

int disk__fault_check(const char *args, struct error *err)
{
	struct args a;
	return parse(args, &a, err);
}

bool disk__fault_waits(const char *args)
{
	struct args a;
	return parse(args, &a, NULL) == 0 && (a.kind == SLOW || a.kind == HANG);
}

/* --- whom it strikes --------------------------------------------------------------------------------- */

/* Where offset= is a range to watch, and not a place to go to. */
static bool touches_range(const struct fault_disk *f, const struct disk_request *r)
{
	const struct args *a = &f->args;
	if (!(a->given & KEY(OFFSET)) || a->kind == MISDIRECT)
		return true;
	if (r->op == DISK_FLUSH)
		return false;
	uint64_t from = a->value[OFFSET], end = r->offset_bytes + r->length_bytes;
	if (a->kind == ENOSPC_)
		return end > from;
	uint64_t length = a->given & KEY(LENGTH) ? a->value[LENGTH] : 1;
	return end > from && (r->offset_bytes < from || r->offset_bytes - from < length);
}

static bool strikes(struct fault_disk *f, const struct disk_request *r)
{
	if (!(f->args.ops & 1u << r->op) || !touches_range(f, r))
		return false;
	os_scoped_lock(&f->lock);
	uint64_t number = ++f->seen, nth = f->args.value[NTH];
	if (f->forever && f->struck)
		return true;
	bool hit = number >= nth && number <= f->last;
	if (f->args.kind == ROT && (f->args.given & KEY(NTH)))
		hit = number % nth == 0 && number / nth <= f->last;
	f->struck |= hit;
	return hit;
}

/* --- simple answers ---------------------------------------------------------------------------------- */

static int answer(struct fault_disk *f, struct disk_request *r)
{
	r->why = "planted by +fault";
	switch (f->args.kind) {
	case VANISH:
		return ERR_GONE;
	case ENOSPC_:
		return ERR_SPACE;
	case LOST:
	case LIEFLUSH:
		r->why = NULL;
		return 0;
	default:
		return ERR_IO;
	}
}

static void answer_submit(struct fault_disk *f, struct disk_request *r)
{
	disk__complete(r, answer(f, r));
}

/* --- rot --------------------------------------------------------------------------------------------- */

static uint64_t rotten_byte(const struct fault_disk *f, const struct disk_request *r)
{
	uint64_t at = f->args.given & KEY(OFFSET) ? f->args.value[OFFSET] : r->offset_bytes + r->length_bytes / 2;
	return max_of(at, r->offset_bytes);
}

static void flip_in_buffer(const struct disk_request *r, uint64_t at_bytes)
{
	uint64_t skip = at_bytes - r->offset_bytes;
	for (unsigned i = 0; i < r->iov_count; i++) {
		if (skip < r->iov[i].iov_len) {
			((uint8_t *)r->iov[i].iov_base)[skip] ^= 1;
			return;
		}
		skip -= r->iov[i].iov_len;
	}
}

/* Reads the sector from the backend, flips the bit and writes it back. What fails here fails in the read too. */
static void flip_on_medium(struct disk *d, uint64_t at_bytes)
{
	while (d->below)
		d = d->below;
	uint32_t sector = d->traits.logical_bytes;
	void *buffer = NULL;
	if (!d->ops->run || posix_memalign(&buffer, DISK_BUFFER_ALIGN, sector) != 0)
		return;
	struct disk_request r;
	disk_request_init(&r, DISK_READ, round_down_u64(at_bytes, sector), buffer, sector);
	if (d->ops->run(d, &r) == 0) {
		((uint8_t *)buffer)[at_bytes % sector] ^= 1;
		r.op = DISK_WRITE;
		d->ops->run(d, &r);
	}
	free(buffer);
}

static bool rots_medium(const struct fault_disk *f)
{
	return (f->args.given & KEY(STICKY)) && f->args.value[STICKY];
}

static void rot_done(struct disk *d, struct disk_request *r)
{
	if (r->status == 0)
		flip_in_buffer(r, rotten_byte(container_of(d, struct fault_disk, disk), r));
	disk__complete(r, r->status);
}

static void rot_submit(struct fault_disk *f, struct disk_request *r)
{
	if (rots_medium(f))
		flip_on_medium(&f->disk, rotten_byte(f, r));
	else
		disk__push(r, &f->disk, rot_done, 0);
	disk__submit_below(&f->disk, r);
}

static int rot_run(struct fault_disk *f, struct disk_request *r)
{
	if (rots_medium(f))
		flip_on_medium(&f->disk, rotten_byte(f, r));
	int rc = disk__run_below(&f->disk, r);
	if (rc == 0 && !rots_medium(f))
		flip_in_buffer(r, rotten_byte(f, r));
	return rc;
}

/* --- misdirect --------------------------------------------------------------------------------------- */

#define ASTRAY_BYTES (1u << 20)

/* One MiB further, or back where the disk ends; a disk smaller than that keeps the write where it was meant. */
static uint64_t wrong_place(const struct fault_disk *f, const struct disk_request *r)
{
	uint64_t size = f->disk.traits.size_bytes, at = r->offset_bytes;
	if (f->args.given & KEY(OFFSET)) {
		uint64_t to = round_down_u64(f->args.value[OFFSET], f->disk.traits.logical_bytes);
		return r->length_bytes <= size && to <= size - r->length_bytes ? to : at;
	}
	if (at + r->length_bytes + ASTRAY_BYTES <= size)
		return at + ASTRAY_BYTES;
	return at >= ASTRAY_BYTES ? at - ASTRAY_BYTES : at;
}

static void misdirect_done(struct disk *d, struct disk_request *r)
{
	(void)d;
	r->offset_bytes = r->word;
	disk__complete(r, r->status);
}

static void misdirect_submit(struct fault_disk *f, struct disk_request *r)
{
	disk__push(r, &f->disk, misdirect_done, r->offset_bytes);
	r->offset_bytes = wrong_place(f, r);
	disk__submit_below(&f->disk, r);
}

static int misdirect_run(struct fault_disk *f, struct disk_request *r)
{
	uint64_t meant = r->offset_bytes;
	r->offset_bytes = wrong_place(f, r);
	int rc = disk__run_below(&f->disk, r);
	r->offset_bytes = meant;
	return rc;
}

/* --- torn -------------------------------------------------------------------------------------------- */

struct whole {
	const struct iovec *iov;
	unsigned iov_count;
	uint64_t length_bytes;
	struct iovec half[];
};

/* Cuts the request to its first half, in whole sectors. NULL when there is no half or no memory. */
static struct whole *tear(const struct fault_disk *f, struct disk_request *r)
{
	uint64_t left = round_down_u64(r->length_bytes / 2, f->disk.traits.logical_bytes);
	if (left == 0)
		return NULL;
	struct whole *w = malloc(sizeof *w + r->iov_count * sizeof w->half[0]);
	if (!w)
		return NULL;
	*w = (struct whole){.iov = r->iov, .iov_count = r->iov_count, .length_bytes = r->length_bytes};
	r->length_bytes = left;
	r->iov_count = 0;
	for (unsigned i = 0; left; i++) {
		w->half[i] = r->iov[i];
		w->half[i].iov_len = min_of(w->half[i].iov_len, left);
		left -= w->half[i].iov_len;
		r->iov_count++;
	}
	r->iov = w->half;
	return w;
}

static int mend(struct fault_disk *f, struct disk_request *r, struct whole *w, int status)
{
	if (w) {
		r->iov = w->iov;
		r->iov_count = w->iov_count;
		r->length_bytes = w->length_bytes;
		free(w);
	}
	if (status != 0 || ((f->args.given & KEY(SILENT)) && f->args.value[SILENT]))
		return status;
	return answer(f, r);
}

static void torn_done(struct disk *d, struct disk_request *r)
{
	struct fault_disk *f = container_of(d, struct fault_disk, disk);
	disk__complete(r, mend(f, r, (struct whole *)(uintptr_t)r->word, r->status));
}

static void torn_submit(struct fault_disk *f, struct disk_request *r)
{
	struct whole *w = tear(f, r);
	if (!w) {
		disk__complete(r, mend(f, r, NULL, 0));
		return;
	}
	disk__push(r, &f->disk, torn_done, (uint64_t)(uintptr_t)w);
	disk__submit_below(&f->disk, r);
}

static int torn_run(struct fault_disk *f, struct disk_request *r)
{
	struct whole *w = tear(f, r);
	return mend(f, r, w, w ? disk__run_below(&f->disk, r) : 0);
}

/* --- slow and hang ----------------------------------------------------------------------------------- */

static void timer_fired(struct os_timer *timer)
{
	struct disk_request *r = container_of(timer, struct disk_request, timer);
	disk__complete(r, (int)(int64_t)r->word);
}

static void answer_later(const struct fault_disk *f, struct disk_request *r, int status)
{
	r->word = (uint64_t)(int64_t)status;
	os_timer_init(&r->timer, timer_fired);
	os_timer_set(&r->timer, os_now_ns() + f->args.value[MS] * 1000000u);
}

static void slow_done(struct disk *d, struct disk_request *r)
{
	answer_later(container_of(d, struct fault_disk, disk), r, r->status);
}

static void slow_submit(struct fault_disk *f, struct disk_request *r)
{
	disk__push(r, &f->disk, slow_done, 0);
	disk__submit_below(&f->disk, r);
}

static void hang_submit(struct fault_disk *f, struct disk_request *r)
{
	r->why = "planted by +fault";
	answer_later(f, r, ERR_TIMEOUT);
}

/* --- the disk ---------------------------------------------------------------------------------------- */

static const struct fault_kind fault_kinds[KIND_COUNT] = {
	[EIO_] = {"eio", KEY(OP) | WHICH | WHERE | KEY(STICKY), ANY, 0, answer_submit, answer},
	[VANISH] = {"vanish", KEY(OP) | KEY(NTH) | WHERE, ANY, 0, answer_submit, answer},
	[ROT] = {"rot", WHICH | KEY(OFFSET) | KEY(STICKY), READS, 0, rot_submit, rot_run},
	[LOST] = {"lost", WHICH | WHERE | KEY(STICKY), WRITES, 0, answer_submit, answer},
	[MISDIRECT] = {"misdirect", WHICH | KEY(OFFSET) | KEY(STICKY), WRITES, 0, misdirect_submit, misdirect_run},
	[TORN] = {"torn", WHICH | WHERE | KEY(STICKY) | KEY(SILENT), WRITES, 0, torn_submit, torn_run},
	[LIEFLUSH] = {"lieflush", WHICH | KEY(STICKY), FLUSHES, 0, answer_submit, answer},
	[SLOW] = {"slow", KEY(OP) | WHICH | WHERE | KEY(MS) | KEY(STICKY), ANY, 10, slow_submit, NULL},
	[SHORT] = {"short", KEY(OFFSET), 0, 0, NULL, NULL},
	[ENOSPC_] = {"enospc", KEY(NTH) | KEY(OFFSET), WRITES, 0, answer_submit, answer},
	[HANG] = {"hang", KEY(OP) | WHICH | WHERE | KEY(MS) | KEY(STICKY), ANY, 30000, hang_submit, NULL},
};

/* A disk that is gone answers nothing any more, whatever was to be counted. */
static bool is_gone(struct fault_disk *f)
{
	if (f->args.kind != VANISH)
		return false;
	os_scoped_lock(&f->lock);
	return f->struck;
}

static void fault_submit(struct disk *d, struct disk_request *r)
{
	struct fault_disk *f = container_of(d, struct fault_disk, disk);
	if (is_gone(f) || strikes(f, r))
		fault_kinds[f->args.kind].submit(f, r);
	else
		disk__submit_below(d, r);
}

/* Kinds that wait are refused below a model when the grammar is read, so they have no `run`. */
static int fault_run(struct disk *d, struct disk_request *r)
{
	struct fault_disk *f = container_of(d, struct fault_disk, disk);
	const struct fault_kind *kind = &fault_kinds[f->args.kind];
	if (kind->run && (is_gone(f) || strikes(f, r)))
		return kind->run(f, r);
	return disk__run_below(d, r);
}

static void fault_close(struct disk *d)
{
	struct fault_disk *f = container_of(d, struct fault_disk, disk);
	struct disk *below = d->below;
	os_mutex_destroy(&f->lock);
	disk__release(d);
	free(f);
	disk_close(below);
}

static const struct disk_ops fault_ops = {
	.kind = "fault", .submit = fault_submit, .run = fault_run, .close = fault_close};

static uint64_t last_struck(const struct args *a)
{
	uint64_t nth = a->value[NTH];
	bool medium = a->kind == ROT && (a->given & KEY(STICKY)) && a->value[STICKY];
	if (a->kind == ROT && (a->given & KEY(NTH)))
		return a->given & KEY(COUNT) ? a->value[COUNT] : medium ? 1 : UINT64_MAX;
	if (a->given & KEY(COUNT))
		return nth + a->value[COUNT] - 1;
	if (medium)
		return nth; /* a second flip of the same bit on the medium would heal it */
	return a->given & KEY(NTH) ? nth : UINT64_MAX;
}

int disk__fault_wrap(struct disk *below, const char *args, unsigned index, struct disk **ret, struct error *err)
{
	(void)index;
	struct args a;
	int rc = parse(args, &a, err);
	if (rc != 0)
		return rc;
	struct disk_traits traits = below->traits;
	if (a.kind == SHORT) {
		uint64_t size = round_down_u64(a.value[OFFSET], traits.logical_bytes);
		if (size == 0)
			return error_set(err, ERR_USAGE, "fault short: offset=%llu leaves no sector of %s",
				(unsigned long long)a.value[OFFSET], traits.name);
		traits.size_bytes = min_of(traits.size_bytes, size);
	}
	struct fault_disk *f = calloc(1, sizeof *f);
	if (!f)
		return error_set(err, ERR_MEMORY, "out of memory for a fault of %s", traits.name);
	disk__init(&f->disk, &fault_ops, below, &traits);
	f->args = a;
	f->last = last_struck(&a);
	f->forever =
		a.kind == VANISH || a.kind == ENOSPC_ || (a.kind != ROT && (a.given & KEY(STICKY)) && a.value[STICKY]);
	os_mutex_init(&f->lock);
	*ret = &f->disk;
	return 0;
}
