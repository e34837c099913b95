/*
 * The pool: copy-on-write stripes over groups of disks.
 *
 * The problem. An array that writes in place must read before it writes a part of a row, can be caught by a power cut between
 * data and parity, and must be initialised. RAID-Z has none of that but spreads each record over all disks, so that a
 * random read costs all of them.
 *
 * The idea. Nothing live is ever overwritten. Records gather in memory; k of one size class become a stripe of k data
 * columns and p parity columns, each on its own disk, written whole and once. A record lies whole in one column. Trees say
 * which column holds which record; what changed since the last trees is in a log.
 *
 *      writes ─► dirty records ─► stripes on the disks ─► flush ─► log ─► flush     a commit: what was written is durable
 *                                 (nothing refers to them)         │
 *                                                                  └─► delta ─► trees ─► flush ─► uberblock    a checkpoint
 *
 * Example, parity1 over four disks, records of 128 KiB: records 0, 1, 2 of a volume become the data columns of stripe 0 of
 * run 7, the fourth column is their XOR. The log record says "run 7 has stripe 0; volume 17, record 0 is run 7, stripe 0,
 * column 0, born in commit 40, this checksum; …". When record 1 is written again it goes to another stripe, and the next
 * fold finds in the tree that run 7, stripe 0, column 1 is dead. When all three are dead, the four columns are free two
 * checkpoints later.
 *
 * The rules. Each is asserted where it could be broken (pool_assert), and each has a test that breaks it on purpose.
 *
 *   POOL-1   No write touches a byte that the parity of a durable stripe covers.
 *   POOL-2   What a checkpoint freed is not used again before two later checkpoints are durable and its readers are gone.
 *   POOL-3   Data and parity are flushed before the log record that makes them reachable is written.
 *   POOL-4   Geometry is read from the descriptor, never from the configuration.
 *   POOL-5   A failed flush fails the commit; beyond redundancy the pool suspends and keeps its dirty data.
 *   POOL-6   A write error within redundancy leaves work: the stripe is queued for repair.
 *   POOL-7   Scrub never clears what an absent disk has missed.
 *   POOL-8   Import never crashes or hangs: what cannot be trusted makes it read-only, with the reason.
 *   POOL-9   A full pool can always delete.
 *   POOL-10  Same input and seed, same bytes on the disks; ids and times come from `os`.
 *
 * This file: open and close, failing disks, status. create.c makes pools; the rest is named in internal.h.
 *
 * Sources: Bonwick and others, "The Zettabyte File System", 2003 (copy on write, uberblocks, dead lists); Hitz, Lau and
 * Malcolm, "File System Design for an NFS File Server Appliance", 1994 (parity over records that lie side by side);
 * Rosenblum and Ousterhout, "The Design and Implementation of a Log-Structured File System", 1992; Rodeh, "B-trees,
 * Shadowing, and Clones", 2008.
 */
#include "stripe.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EVENTS_KEPT 128u
#define SEQUENCES_JUMPED (1ULL << 24)
#define COMMITS_JUMPED (1ULL << 20) /* after a way back: numbers that the newer state cannot have used */

/* --- events ------------------------------------------------------------------------------------------------------- */

struct event {
	uint64_t wall_ns;
	char text[320];
};
struct event_ring {
	struct os_mutex lock; /* a leaf: events come from anywhere */
	struct event items[EVENTS_KEPT];
	uint64_t count;
};

void pool_event(struct pool *p, const char *format, ...)
{
	struct event_ring *r = p->events;
	va_list args;

	if (!r)
		return;
	os_scoped_lock(&r->lock);
	struct event *e = &r->items[r->count++ % EVENTS_KEPT];
	e->wall_ns = os_wall_ns();
	va_start(args, format);
	vsnprintf(e->text, sizeof e->text, format, args);
	va_end(args);
}

void pool_event_list(struct pool *p, bool (*visit)(void *arg, uint64_t wall_ns, const char *event), void *arg)
{
	struct event_ring *r = p->events;
	scoped_free struct event_ring *copy = malloc(sizeof *copy);

	if (!copy)
		return;
	os_mutex_lock(&r->lock);
	memcpy(copy->items, r->items, sizeof copy->items);
	copy->count = r->count;
	os_mutex_unlock(&r->lock);
	for (uint64_t i = copy->count > EVENTS_KEPT ? copy->count - EVENTS_KEPT : 0; i < copy->count; i++)
		if (!visit(arg, copy->items[i % EVENTS_KEPT].wall_ns, copy->items[i % EVENTS_KEPT].text))
			return;
}

/* --- when disks fail ---------------------------------------------------------------------------------------------- */

int pool_refuses(struct pool *p, struct error *err)
{
	if (p->suspended)
		return error_set(err, ERR_IO, "pool %s is suspended: %s", p->config.name, p->suspended_reason);
	if (p->abandoned)
		return error_set(err, ERR_IO, "pool %s was abandoned", p->config.name);
	if (p->read_only)
		return error_set(err, ERR_READ_ONLY, "pool %s is open for reading only%s%s", p->config.name,
			p->read_only_reason[0] ? ": " : "", p->read_only_reason);
	return 0;
}

void pool_suspend(struct pool *p, const char *format, ...)
{
	va_list args;

	if (!p->suspended) {
		va_start(args, format);
		vsnprintf(p->suspended_reason, sizeof p->suspended_reason, format, args);
		va_end(args);
		p->suspended = true;
		pool_event(p, "suspended: %s", p->suspended_reason);
	}
	os_cond_broadcast(&p->changed);
}

static unsigned group_out(const struct pool *p, const struct pool_group *g)
{
	unsigned out = 0;

	for (unsigned i = 0; i < g->disk_count; i++)
		out += p->disks[g->disks[i]].state != PD_ONLINE;
	return out;
}

static const char *group_name(const struct pool_group *g, char text[32])
{
	if (g->kind == GROUP_PARITY)
		snprintf(text, 32, "parity%u-%u", g->parity, g->index);
	else
		snprintf(text, 32, "%s-%u", g->kind == GROUP_MIRROR ? "mirror" : "disk", g->index);
	return text;
}

static const char *disk_label(const struct pool_disk *d)
{
	return d->disk ? disk_traits(d->disk)->name : d->config->path;
}

/* The first commit that it may lack: what is not durable yet, and the nodes of a fold that is under way. */
static uint64_t missing_from(const struct pool *p)
{
	return (p->frozen ? p->uber.commit : p->commit_durable) + 1;
}

void disk_fault(struct pool *p, unsigned index, const char *why)
{
	struct pool_disk *d = &p->disks[index];
	char name[32];

	os_scoped_lock(&p->lock);
	if (d->state != PD_ONLINE)
		return;
	d->state = PD_FAULTED;
	d->config->state = PD_FAULTED;
	if (!d->config->missed_from)
		d->config->missed_from = missing_from(p);
	d->unflushed = false;
	p->config_dirty = true;
	pool_event(p, "disk %s is faulted: %s", disk_label(d), why);
	struct pool_group *g = &p->groups[d->config->group];
	if (group_out(p, g) > g->parity)
		pool_suspend(p, "%s has lost %u disks and can do without %u; the last is %s: %s", group_name(g, name),
			group_out(p, g), g->parity, disk_label(d), why);
	os_cond_broadcast(&p->changed);
}

int config_write(struct pool *p, struct error *err)
{
	return labels_write(p, err);
}

/* --- open --------------------------------------------------------------------------------------------------------- */

void pool_tuning_init(struct pool_tuning *t)
{
	memset(t, 0, sizeof *t);
	t->commit_ns = 5000000000ULL;
}

void pool_open_options_init(struct pool_open_options *o)
{
	memset(o, 0, sizeof *o);
	pool_tuning_init(&o->tuning);
}

static void tuning_settle(struct pool *p)
{
	struct pool_tuning *t = &p->tuning;
	uint64_t raw = 0;

	for (unsigned i = 0; i < p->disk_count; i++)
		raw += p->disks[i].zone_count * p->disks[i].zone_bytes;
	if (!t->commit_ns)
		t->commit_ns = 5000000000ULL;
	if (!t->cache_bytes) {
		uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

		t->cache_bytes = os_is_simulated() ? 256u << 20 : max_of(ram / 4, (uint64_t)16 << 20);
	}
	if (!t->dirty_bytes)
		t->dirty_bytes = max_of(min_of(raw / 64, (uint64_t)1 << 30), (uint64_t)4 << 20);
	if (!t->workers)
		t->workers = os_is_simulated() ? 2 : (unsigned)max_of(sysconf(_SC_NPROCESSORS_ONLN), 1L);
}

static void groups_derive(struct pool *p)
{
	unsigned parity = 0, online = 0;

	p->disk_count = p->config.disk_count;
	p->group_count = p->config.group_count;
	for (unsigned g = 0; g < p->group_count; g++) {
		struct pool_group *group = &p->groups[g];

		*group = (struct pool_group){.index = g,
			.kind = p->config.groups[g].kind,
			.width = p->config.groups[g].width,
			.parity = p->config.groups[g].parity};
		parity = max_of(parity, group->parity);
	}
	for (unsigned i = 0; i < p->disk_count; i++) {
		struct pool_group *group = &p->groups[p->config.disks[i].group];

		group->disks[group->disk_count++] = i;
		online += p->disks[i].state != PD_REMOVED;
	}
	p->copies = min_of(min_of(max_of(2u, 1 + parity), online), POOL_COPIES_MAX);
}

static void pool_free(struct pool *p)
{
	if (!p)
		return;
	keeper_stop(p);
	commit_stop(p);
	cache_close(p);
	commit_close(p);
	catalog_close(p);
	log_close(p);
	node_cache_close(p);
	workers_close(p->workers);
	repairs_close(p);
	space_close(p);
	os_cond_destroy(&p->changed);
	os_mutex_destroy(&p->lock);
	if (p->events)
		os_mutex_destroy(&p->events->lock);
	free(p->events);
	free(p);
}

static struct pool *pool_make(struct error *err)
{
	struct pool *p = calloc(1, sizeof *p);
	struct event_ring *events = calloc(1, sizeof *events);

	if (!p || !events) {
		free(p);
		free(events);
		error_set(err, ERR_MEMORY, "no memory for a pool");
		return NULL;
	}
	os_mutex_init(&p->lock);
	os_cond_init(&p->changed);
	os_mutex_init(&events->lock);
	list_init(&p->datasets);
	p->events = events;
	return p;
}

struct load {
	struct pool *p;
	struct error *err;
	int rc;
	struct run_format *f;
};

static bool load_run(void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct load *l = arg;

	l->rc = run_unpack(value, bytes, l->f, l->err);
	if (!l->rc && l->f->id != key.a)
		l->rc = error_set(l->err, ERR_CORRUPT, "the descriptor of run %llu names run %llu",
			(unsigned long long)key.a, (unsigned long long)l->f->id);
	if (!l->rc) {
		os_scoped_lock(&l->p->lock);
		l->rc = run_install(l->p, l->f, l->err);
	}
	return l->rc == 0;
}

static bool load_zone(void *arg, struct key key, const uint8_t *value, uint32_t bytes)
{
	struct load *l = arg;
	struct pool *p = l->p;

	if (key.a >= p->disk_count || key.b >= p->disks[key.a].zone_count ||
		bytes > (p->disks[key.a].zone_bytes / NODE_BYTES + 7) / 8) {
		l->rc = error_set(l->err, ERR_CORRUPT, "the map of nodes has zone %llu of disk %llu with %u bytes",
			(unsigned long long)key.b, (unsigned long long)key.a, bytes);
		return false;
	}
	uint64_t base = (p->disks[key.a].data_start_bytes + key.b * p->disks[key.a].zone_bytes) / POOL_UNIT_BYTES;
	os_scoped_lock(&p->lock);
	for (uint32_t i = 0; !l->rc && i < bytes * 8; i++)
		if (value[i / 8] >> (i % 8) & 1)
			l->rc = space_take_meta(p,
				(struct disk_address){(uint8_t)key.a, base + i * (NODE_BYTES / POOL_UNIT_BYTES)},
				l->err);
	return l->rc == 0;
}

/* The trees of p->uber, into memory. */
static int pool_load(struct pool *p, struct error *err)
{
	struct load l = {.p = p, .err = err};
	scoped_free struct run_format *f = malloc(sizeof *f);
	int rc = 0;

	l.f = f;
	if (!f)
		return error_set(err, ERR_MEMORY, "no memory for a pool");
	if (p->uber.metamap.kind != BP_HOLE)
		rc = tree_walk(p, &p->uber.metamap, TREE_METAMAP, (struct key){0, 0}, load_zone, &l, err);
	rc = rc ? rc : l.rc;
	if (!rc && p->uber.runs.kind != BP_HOLE)
		rc = tree_walk(p, &p->uber.runs, TREE_RUNS, (struct key){0, 0}, load_run, &l, err);
	rc = rc ? rc : l.rc;
	return rc ? rc : catalog_load(p, err);
}

/* Everything that stands on an uberblock. */
static int parts_open(struct pool *p, struct error *err)
{
	int rc = space_open(p, err);

	p->next_dataset = max_of(p->uber.next_dataset, (uint64_t)TREE_DATASET_FIRST);
	if (!rc)
		rc = repairs_open(p, err);
	if (!rc)
		rc = workers_open(&p->workers, p->tuning.workers, err);
	if (!rc)
		rc = node_cache_open(p, err);
	if (!rc)
		rc = commit_open(p, err);
	if (!rc)
		rc = log_open(p, err);
	if (!rc)
		rc = cache_open(p, err);
	return rc ? rc : pool_load(p, err);
}

static void read_only_because(struct pool *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void read_only_because(struct pool *p, const char *format, ...)
{
	va_list args;

	p->read_only = !pool_breaks(p, 8);
	if (!p->read_only_reason[0]) {
		va_start(args, format);
		vsnprintf(p->read_only_reason, sizeof p->read_only_reason, format, args);
		va_end(args);
	}
	pool_event(p, "read-only: %s", p->read_only_reason);
}

/* The log, then what it held becomes trees at once: its numbers must not meet those that some disk may still show. */
static int pool_replay(struct pool *p, unsigned rewind, struct error *err)
{
	bool found = false;
	int rc = 0;

	if (!rewind)
		rc = log_replay(p, commit_apply, &found, err);
	if (rc == ERR_CORRUPT || rc == ERR_READ_ONLY) {
		read_only_because(p, "the log cannot be applied: %s", err ? err->text : "");
		error_clear(err);
		rc = 0;
	}
	for (unsigned i = 0; i < p->disk_count; i++)
		found |= p->disks[i].state != PD_REMOVED &&
			 (p->disks[i].state != PD_ONLINE || p->config.disks[i].missed_from);
	if (rc || p->read_only)
		return rc;
	/* A disk that the last checkpoint did not reach must not be the only one left after what it freed is used again. */
	if (!found && !rewind && p->checkpoint_newest == p->uber.checkpoint)
		return p->uber_is_everywhere ? 0 : uberblock_write(p, &p->uber, err);
	os_mutex_lock(&p->lock);
	log_jump(p, SEQUENCES_JUMPED);
	p->checkpoint_durable = max_of(p->checkpoint_durable, p->checkpoint_newest);
	if (rewind)
		p->open->commit = p->intent_commit = p->open->commit + COMMITS_JUMPED;
	os_mutex_unlock(&p->lock);
	rc = spill_all(p, 0, err);
	return rc ? rc : commit_into_checkpoint(p, err);
}

static bool is_damage(int rc)
{
	return rc == ERR_CORRUPT || rc == ERR_LOST || rc == ERR_MEDIA || rc == ERR_IO || rc == ERR_NOT_FOUND ||
	       rc == ERR_UNSUPPORTED;
}

static int pool_try(struct pool **ret, const struct pool_open_options *o, struct disk *const *disks,
	unsigned disk_count, unsigned back, struct error *err)
{
	struct pool *p = pool_make(err);

	if (!p)
		return ERR_MEMORY;
	p->tuning = o->tuning;
	p->read_only = o->read_only;
	int rc = labels_read(p, o, disks, disk_count, err);
	if (!rc && back)
		rc = uberblocks_read(p, o->rewind + back, &p->uber, err);
	if (!rc) {
		groups_derive(p);
		tuning_settle(p);
		p->checkpoint_durable = p->uber.checkpoint;
		*ret = p;
		return 0;
	}
	pool_free(p);
	return rc;
}

int pool_open(struct pool **ret_pool, const struct pool_open_options *o, struct disk *const *disks, unsigned disk_count,
	struct error *err)
{
	struct error first = ERROR_INIT, e = ERROR_INIT;
	struct pool *p = NULL;
	int rc;

	/* The newest checkpoint; when its trees cannot be trusted, an older one, for reading only. */
	for (unsigned back = 0;; back++) {
		error_clear(&e);
		rc = pool_try(&p, o, disks, disk_count, back, &e);
		if (rc) {
			if (first.code)
				return error_set(err, first.code, "%s", first.text);
			return error_set(err, rc, "%s", e.text);
		}
		if (back)
			read_only_because(p,
				"the newest checkpoint cannot be read (%.200s); this is the state %u before it",
				first.text, back);
		rc = parts_open(p, &e);
		if (!rc || !is_damage(rc))
			break;
		if (!first.code)
			first = e;
		pool_free(p);
		p = NULL;
	}
	if (!rc && o->read_only && !p->read_only_reason[0])
		snprintf(p->read_only_reason, sizeof p->read_only_reason, "asked for");
	if (!rc && !(p->read_only && p->read_only_reason[0] && first.code))
		rc = pool_replay(p, o->rewind, &e);
	if (!rc && !p->read_only)
		rc = commit_start(p, &e);
	if (!rc && !p->read_only)
		rc = keeper_start(p, &e);
	if (rc) {
		pool_free(p);
		return error_set(err, rc, "%s", e.text);
	}
	*ret_pool = p;
	return 0;
}

/* --- close -------------------------------------------------------------------------------------------------------- */

static int settle(struct pool *p, struct error *err)
{
	if (p->read_only)
		return 0;
	int rc = pool_commit_now(p, err);
	os_mutex_lock(&p->lock);
	space_close_runs(p);
	bool is_folded = log_used_bytes(p) == 0 && delta_count(p->committed) == 0 && !p->frozen;
	os_mutex_unlock(&p->lock);
	if (!rc && !is_folded)
		rc = pool_checkpoint_now(p, err);
	if (rc)
		error_prefix(err, "what was not committed is lost");
	return rc;
}

int pool_close(struct pool *p, struct error *err)
{
	int rc = settle(p, err);

	pool_free(p);
	return rc;
}

int pool_export(struct pool *p, struct error *err)
{
	int rc = settle(p, err);

	keeper_stop(p);
	commit_stop(p);
	if (!rc && !p->read_only) {
		p->config.exported = true;
		p->config.host_id = 0;
		rc = labels_write(p, err);
	}
	pool_free(p);
	return rc;
}

void pool_abandon(struct pool *p)
{
	os_mutex_lock(&p->lock);
	p->abandoned = true;
	os_cond_broadcast(&p->changed);
	os_mutex_unlock(&p->lock);
	pool_free(p);
}

int pool_destroy(struct pool *p, struct error *err)
{
	struct disk *disks[POOL_DISKS_MAX];
	unsigned count = 0;
	int rc = 0;

	if (p->read_only) {
		pool_free(p);
		return error_set(err, ERR_READ_ONLY, "a pool that is open for reading only is not destroyed");
	}
	for (unsigned i = 0; i < p->disk_count; i++)
		if (p->disks[i].disk)
			disks[count++] = p->disks[i].disk;
	pool_abandon(p);
	for (unsigned i = 0; i < count; i++) {
		int cleared = pool_label_clear(disks[i], rc ? NULL : err);

		rc = rc ? rc : cleared;
	}
	return rc;
}

/* --- status ------------------------------------------------------------------------------------------------------- */

static const char *const state_names[PD_STATE_COUNT] = {"ONLINE", "MISSING", "FAULTED", "OFFLINE", "REMOVED"};

static void id_text(const uint8_t id[16], char text[33])
{
	for (unsigned i = 0; i < 16; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
}

static void disk_status(const struct pool_disk *d, struct pool_disk_status *ret)
{
	ret->disk = d->disk;
	const char *path = d->disk ? disk_traits(d->disk)->path : NULL;
	snprintf(ret->path, sizeof ret->path, "%s",
		path      ? path
		: d->disk ? disk_traits(d->disk)->name
			  : d->config->path);
	id_text(d->config->id, ret->id);
	ret->group = d->config->group;
	ret->state = state_names[d->state < PD_STATE_COUNT ? d->state : PD_MISSING];
	ret->size_bytes = d->config->size_bytes;
	ret->free_bytes = d->free_bytes;
	ret->read_errors = d->read_errors;
	ret->write_errors = d->write_errors;
	ret->checksum_errors = d->checksum_errors;
	ret->missed_from = d->config->missed_from;
}

static void group_status(const struct pool *p, const struct pool_group *g, struct pool_group_status *ret)
{
	unsigned behind = 0;

	group_name(g, ret->name);
	ret->disks = g->disk_count;
	ret->width = g->width;
	ret->parity = g->parity;
	for (unsigned i = 0; i < g->disk_count; i++) {
		const struct pool_disk *d = &p->disks[g->disks[i]];

		ret->size_bytes += d->zone_count * d->zone_bytes;
		ret->free_bytes += d->free_bytes;
		behind += d->state != PD_ONLINE || d->config->missed_from;
	}
	ret->failures_left = g->parity > behind ? g->parity - behind : 0;
}

void pool_status_get(struct pool *p, struct pool_status *ret)
{
	bool degraded = false;

	memset(ret, 0, sizeof *ret);
	os_mutex_lock(&p->lock);
	memcpy(ret->name, p->config.name, sizeof ret->name);
	id_text(p->id, ret->id);
	memcpy(ret->read_only_reason, p->read_only_reason, sizeof ret->read_only_reason);
	memcpy(ret->suspended_reason, p->suspended_reason, sizeof ret->suspended_reason);
	ret->disk_count = p->disk_count;
	ret->group_count = p->group_count;
	for (unsigned i = 0; i < p->disk_count; i++) {
		disk_status(&p->disks[i], &ret->disks[i]);
		degraded |= p->disks[i].state != PD_REMOVED &&
			    (p->disks[i].state != PD_ONLINE || p->config.disks[i].missed_from);
	}
	for (unsigned g = 0; g < p->group_count; g++)
		group_status(p, &p->groups[g], &ret->groups[g]);
	ret->state = p->suspended ? POOL_SUSPENDED : degraded ? POOL_DEGRADED : POOL_ONLINE;
	space_figures(p, &ret->space);
	ret->counters = p->counters;
	ret->commit = p->commit_durable;
	ret->checkpoint = p->checkpoint_durable;
	os_mutex_unlock(&p->lock);
	cache_counters(p, &ret->counters);
	node_counters(p, &ret->counters);
	scrub_status(p, ret);
}
