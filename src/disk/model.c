/*
 * The modelled disk: a wrapper that gives the disk below the timing of a named drive.
 *
 * The bytes move at once: a submit does the whole operation on the disk below before it returns, so a read
 * sees every write that was submitted before it. Only time is modelled. A *machine* (model_hdd.c,
 * model_flash.c) simulates the drive in ideal time and says when each request is due; this file holds the
 * request until then and hands it back from one timer a disk. Submitters never wait here.
 *
 *   submit ──▶ move the bytes ──▶ machine: accept(arrival) ─▶ pending, head, cache … ─▶ done(due)
 *                                      ▲                                                │
 *   timer at the machine's next time ──┴── run(now) ◀───────────────────────────────────┴──▶ complete
 *
 * In the simulated world timers fire at their instant, and everything is exact. On the real clock a timer
 * fires late by some 50 µs. The machine is not told: its next service starts where the last one ended
 * in ideal time, so lateness does not add up. Whoever is woken by a late completion and submits the next request
 * right away would still be late by as much; so its arrival is dated back by that lateness (MODEL-3).
 *
 * Invariants
 *   MODEL-1  a request is due no earlier than its arrival, and is handed back no earlier than it is due;
 *   MODEL-2  a flush is due only after every write that was acknowledged before it is on the medium;
 *   MODEL-3  an arrival is dated back by at most CREDIT_MAX_NS, once for each completion, and only within
 *            CREDIT_WINDOW_NS of it;
 *   MODEL-4  same requests at the same times, same seed: same due times.
 */
#include "model_mechanics.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define CREDIT_WINDOW_NS 200000u
#define CREDIT_MAX_NS 5000000u

struct model {
	struct disk base;
	struct os_mutex lock;
	struct os_timer timer;
	struct machine *machine;
	uint64_t timer_ns; /* for when the timer is set; UINT64_MAX: it is not */
	bool simulated;
};

/* The last late delivery by any modelled disk: an array submits to one disk when it is woken by another. */
static _Atomic uint64_t credit_delivered_ns, credit_late_ns;
static _Atomic unsigned credit_count;

/* --- machines ------------------------------------------------------------------------------------------ */

void machine__finish(struct machine *m, struct disk_request *r, uint64_t due_ns)
{
	sp_assert(due_ns >= r->arrival_ns); /* MODEL-1 */
	sp_assert(m->held > 0);
	m->held--;
	r->done_ns = due_ns;
	struct list *at = &m->done;
	while (at->prev != &m->done && container_of(at->prev, struct disk_request, link)->done_ns > due_ns)
		at = at->prev;
	list_insert_before(at, &r->link);
}

void machine__accept(struct machine *m, struct disk_request *r)
{
	while (m->ops->next_event_ns(m) <= r->arrival_ns)
		m->ops->step(m);
	m->held++;
	m->ops->accept(m, r);
}

/* Stops when nobody waits: what the drive then does by itself (read ahead, empty its cache) is decided when the
 * next request is accepted, whose arrival may be dated back. */
void machine__run(struct machine *m, uint64_t now_ns)
{
	while (m->held > 0 && m->ops->next_event_ns(m) <= now_ns)
		m->ops->step(m);
}

uint64_t machine__next_ns(const struct machine *m)
{
	uint64_t next_ns = m->held > 0 ? m->ops->next_event_ns(m) : UINT64_MAX;
	if (!list_is_empty(&m->done))
		next_ns = min_of(next_ns, container_of(m->done.next, struct disk_request, link)->done_ns);
	return next_ns;
}

struct disk_request *machine__pop(struct machine *m, uint64_t now_ns)
{
	if (list_is_empty(&m->done))
		return NULL;
	struct disk_request *r = container_of(m->done.next, struct disk_request, link);
	if (r->done_ns > now_ns)
		return NULL;
	list_remove(&r->link);
	return r;
}

double model__cliff_add(struct model_cliff *c, uint64_t start_ns, uint64_t bytes, double natural_ns)
{
	if (c->burst_bytes <= 0)
		return 0;
	if (start_ns > c->at_ns) {
		c->level_bytes = max_of(0.0, c->level_bytes - (double)(start_ns - c->at_ns) * c->drain_bytes_per_ns);
		c->at_ns = start_ns;
	}
	c->level_bytes += (double)bytes;
	double over_bytes = c->level_bytes - natural_ns * c->drain_bytes_per_ns - c->burst_bytes;
	return over_bytes > 0 ? over_bytes / c->drain_bytes_per_ns : 0;
}

/* --- buses --------------------------------------------------------------------------------------------- */

struct model_bus {
	struct list link;
	char id[32];
	double mb_per_s, ns_per_byte;
	bool simulated;
	unsigned users;
	_Atomic uint64_t free_ns;
};

/* Held for a few instructions at open and close only; no fiber of a simulated world switches inside. */
static atomic_flag buses_lock = ATOMIC_FLAG_INIT;
static struct list buses = {&buses, &buses};

static void buses_enter(void)
{
	while (atomic_flag_test_and_set(&buses_lock))
		;
}

static void buses_leave(void)
{
	atomic_flag_clear(&buses_lock);
}

static struct model_bus *bus_find(const char *id)
{
	list_for_each(&buses, node)
	{
		struct model_bus *bus = container_of(node, struct model_bus, link);
		if (strcmp(bus->id, id) == 0 && bus->simulated == os_is_simulated())
			return bus;
	}
	return NULL;
}

int model__bus_get(const char *id, double mb_per_s, struct model_bus **ret_bus, struct error *err)
{
	struct model_bus *fresh = calloc(1, sizeof(*fresh));
	if (!fresh)
		return error_set(err, ERR_MEMORY, "out of memory for the bus '%s' of a modelled disk", id);
	snprintf(fresh->id, sizeof(fresh->id), "%s", id);
	fresh->mb_per_s = mb_per_s;
	fresh->ns_per_byte = 1e3 / mb_per_s;
	fresh->simulated = os_is_simulated();

	buses_enter();
	struct model_bus *bus = bus_find(id);
	if (!bus) {
		bus = fresh;
		fresh = NULL;
		list_push_back(&buses, &bus->link);
	}
	double found_mb_per_s = bus->mb_per_s;
	if (found_mb_per_s == mb_per_s)
		bus->users++;
	buses_leave();

	free(fresh);
	if (found_mb_per_s != mb_per_s)
		return error_set(err, ERR_USAGE, "bus '%s' was given %g MB/s for one disk and %g MB/s for another", id,
			found_mb_per_s, mb_per_s);
	*ret_bus = bus;
	return 0;
}

void model__bus_put(struct model_bus *bus)
{
	if (!bus)
		return;
	buses_enter();
	bool last = --bus->users == 0;
	if (last)
		list_remove(&bus->link);
	buses_leave();
	if (last)
		free(bus);
}

uint64_t model__bus_take(struct model_bus *bus, uint64_t start_ns, uint64_t bytes)
{
	if (!bus)
		return start_ns;
	uint64_t take_ns = (uint64_t)((double)bytes * bus->ns_per_byte + 0.5);
	uint64_t free_ns = atomic_load(&bus->free_ns), end_ns;
	do
		end_ns = max_of(free_ns, start_ns) + take_ns;
	while (!atomic_compare_exchange_weak(&bus->free_ns, &free_ns, end_ns));
	return end_ns;
}

/* --- the wrapper --------------------------------------------------------------------------------------- */

/* MODEL-3. */
static uint64_t arrival_of(const struct model *m, uint64_t now_ns)
{
	if (m->simulated)
		return now_ns;
	uint64_t delivered_ns = atomic_load(&credit_delivered_ns);
	unsigned credits = atomic_load(&credit_count);
	if (credits == 0 || now_ns < delivered_ns || now_ns - delivered_ns > CREDIT_WINDOW_NS)
		return now_ns;
	if (!atomic_compare_exchange_strong(&credit_count, &credits, credits - 1))
		return now_ns;
	return now_ns - min_of(atomic_load(&credit_late_ns), (uint64_t)CREDIT_MAX_NS);
}

/* With m->lock held. */
static void arm(struct model *m)
{
	uint64_t next_ns = machine__next_ns(m->machine);
	if (next_ns == m->timer_ns)
		return;
	m->timer_ns = next_ns;
	if (next_ns != UINT64_MAX)
		os_timer_set(&m->timer, next_ns);
}

static void model_submit(struct disk *d, struct disk_request *r)
{
	struct model *m = container_of(d, struct model, base);
	uint64_t arrival_ns = arrival_of(m, os_now_ns());
	int status = disk__run_below(d, r);
	if (status != 0) {
		disk__complete(r, status);
		return;
	}
	os_mutex_lock(&m->lock);
	r->arrival_ns = arrival_ns;
	machine__accept(m->machine, r);
	arm(m);
	os_mutex_unlock(&m->lock);
}

/* The time is that of the caller: whoever calls run has a wrapper of its own. */
static int model_run(struct disk *d, struct disk_request *r)
{
	return disk__run_below(d, r);
}

static void note_lateness(struct model *m, uint64_t late_ns_sum, unsigned late_count, unsigned count, uint64_t now_ns)
{
	os_mutex_lock(&m->base.lock);
	m->base.counters.late_ns_sum += late_ns_sum;
	m->base.counters.late_count += late_count;
	os_mutex_unlock(&m->base.lock);
	if (m->simulated)
		return;
	atomic_store(&credit_late_ns, late_ns_sum / count);
	atomic_store(&credit_count, count);
	atomic_store(&credit_delivered_ns, now_ns);
}

static void model_fire(struct os_timer *timer)
{
	struct model *m = container_of(timer, struct model, timer);
	struct list ready;
	uint64_t now_ns = os_now_ns(), late_ns_sum = 0;
	unsigned count = 0, late_count = 0;

	list_init(&ready);
	os_mutex_lock(&m->lock);
	m->timer_ns = UINT64_MAX;
	machine__run(m->machine, now_ns);
	for (struct disk_request *r; (r = machine__pop(m->machine, now_ns)); count++) {
		late_ns_sum += now_ns - r->done_ns;
		late_count += now_ns > r->done_ns;
		list_push_back(&ready, &r->link);
	}
	arm(m);
	os_mutex_unlock(&m->lock);

	if (count > 0)
		note_lateness(m, late_ns_sum, late_count, count, now_ns);
	while (!list_is_empty(&ready)) {
		struct disk_request *r = container_of(ready.next, struct disk_request, link);
		list_remove(&r->link);
		disk__complete(r, 0);
	}
}

static void model_close(struct disk *d)
{
	struct model *m = container_of(d, struct model, base);
	os_timer_cancel(&m->timer);
	sp_assert(m->machine->held == 0 && list_is_empty(&m->machine->done));
	struct model_bus *bus = m->machine->bus;
	m->machine->ops->free(m->machine);
	model__bus_put(bus);
	struct disk *below = d->below;
	disk__release(d);
	disk_close(below);
	os_mutex_destroy(&m->lock);
	free(m);
}

static const struct disk_ops model_ops = {
	.kind = "model",
	.submit = model_submit,
	.run = model_run,
	.close = model_close,
};

static int check_against_below(const struct model_params *p, const struct disk_traits *t, struct error *err)
{
	if (t->logical_bytes > p->logical_bytes)
		return error_set(err, ERR_USAGE, "%s has sectors of %u bytes; a model on it cannot have logical=%u",
			t->name, t->logical_bytes, p->logical_bytes);
	if (t->size_bytes < p->physical_bytes)
		return error_set(err, ERR_TOO_SMALL,
			"%s holds %llu bytes, less than one sector of the model (%u bytes)", t->name,
			(unsigned long long)t->size_bytes, p->physical_bytes);
	return 0;
}

static struct disk_traits traits_of(const struct model_params *p, const struct disk_traits *below)
{
	struct disk_traits t = *below;
	t.model = p->info.name;
	t.size_bytes = round_down_u64(below->size_bytes, p->logical_bytes);
	t.nominal_bytes = max_of(p->info.nominal_bytes, t.size_bytes);
	t.logical_bytes = p->logical_bytes;
	t.physical_bytes = p->physical_bytes;
	t.atomic_bytes = min_of(max_of(below->atomic_bytes, p->logical_bytes), p->physical_bytes);
	t.is_modelled = true;
	t.rotating = p->info.rotating;
	t.needs_flush = below->needs_flush || p->cache_bytes > 0;
	return t;
}

int disk__model_wrap(struct disk *below, const char *args, unsigned index, struct disk **ret, struct error *err)
{
	struct model_params p;
	int status = model__parse(args, &p, err);
	if (status == 0)
		status = check_against_below(&p, &below->traits, err);
	if (status != 0)
		return status;

	struct model *m = calloc(1, sizeof(*m));
	if (!m)
		return error_set(err, ERR_MEMORY, "out of memory for a modelled disk");
	struct disk_traits traits = traits_of(&p, &below->traits);
	struct model_bus *bus = NULL;
	if (p.bus[0] != 0)
		status = model__bus_get(p.bus, p.bus_mb_per_s, &bus, err);
	if (status == 0)
		status = (p.info.rotating ? model__hdd_new : model__flash_new)(
			&p, traits.size_bytes, index, &m->machine, err);
	if (status != 0) {
		model__bus_put(bus);
		free(m);
		return status;
	}
	m->machine->bus = bus;
	m->simulated = os_is_simulated();
	m->timer_ns = UINT64_MAX;
	os_mutex_init(&m->lock);
	os_timer_init(&m->timer, model_fire);
	disk__init(&m->base, &model_ops, below, &traits);
	*ret = &m->base;
	return 0;
}

int disk__model_check(const char *args, struct error *err)
{
	struct model_params p;
	return model__parse(args, &p, err);
}
