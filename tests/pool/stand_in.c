#include "stand_in.h"

struct world world;

/* --- what other files of the pool would do --------------------------------------------------------------------- */

struct transaction *transaction_enter(struct pool *p)
{
	world.transaction.commit = p->commit_durable + 1;
	world.transaction.inside++;
	return &world.transaction;
}

void transaction_leave(struct pool *p, struct transaction *t)
{
	sp_assert(t->inside > 0);
	t->inside--;
}

int transaction_append(struct pool *p, struct transaction *t, enum log_type type, const void *payload, uint32_t bytes,
	struct error *err)
{
	if (world.fail_append)
		return error_set(err, ERR_MEMORY, "no memory, by order");
	if (world.entry_count == world.entry_room) {
		world.entry_room = max_of(world.entry_room * 2, (size_t)64);
		world.entries = realloc(world.entries, world.entry_room * sizeof *world.entries);
	}
	struct entry *e = &world.entries[world.entry_count++];
	*e = (struct entry){.type = type, .bytes = bytes, .payload = malloc(bytes)};
	memcpy(e->payload, payload, bytes);
	return 0;
}

void commit_due(struct pool *p) {}

void keeper_wake(struct pool *p)
{
	world.wakes++;
}

uint64_t spill_promised_bytes(struct pool *p)
{
	return world.promised;
}

void disk_fault(struct pool *p, unsigned index, const char *why)
{
	os_mutex_lock(&p->lock);
	if (p->disks[index].state == PD_ONLINE) {
		p->disks[index].state = PD_FAULTED;
		p->disks[index].config->missed_from = p->commit_durable + 1;
		world.faults++;
	}
	os_mutex_unlock(&p->lock);
}

void pool_event(struct pool *p, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(world.last_event, sizeof world.last_event, format, args);
	va_end(args);
	world.events++;
}

int tree_lookup(struct pool *p, const struct bp *root, uint64_t tree, struct key key, uint8_t *value, uint32_t room,
	uint32_t *ret_bytes, struct error *err)
{
	return ERR_NOT_FOUND;
}

int tree_walk(struct pool *p, const struct bp *root, uint64_t tree, struct key from,
	bool (*visit)(void *arg, struct key key, const uint8_t *value, uint32_t bytes), void *arg, struct error *err)
{
	return 0;
}

int tree_walk_nodes(struct pool *p, const struct bp *root, uint64_t tree, bool (*visit)(void *arg, const struct bp *bp),
	void *arg, struct error *err)
{
	return 0;
}

int node_verify(struct pool *p, const struct bp *bp, uint64_t tree, int level, bool repair, struct node_verdict *ret,
	struct error *err)
{
	return 0;
}

struct dataset *dataset_by_id(struct pool *p, uint64_t id)
{
	return NULL;
}

int pool_commit_now(struct pool *p, struct error *err)
{
	int rc = disks_flush(p, err);

	os_mutex_lock(&p->lock);
	p->commit_durable++;
	os_mutex_unlock(&p->lock);
	return rc;
}

int pool_checkpoint_now(struct pool *p, struct error *err)
{
	world_checkpoint();
	return 0;
}

int config_write(struct pool *p, struct error *err)
{
	p->config_dirty = false;
	return 0;
}

/* --- the world ------------------------------------------------------------------------------------------------- */

void must(int rc, const struct error *err)
{
	if (rc)
		print_message("%s: %s\n", error_name(rc), err->text);
	assert_int_equal(rc, 0);
}

unsigned seeds(unsigned usual)
{
	const char *text = getenv("SPINDLE_SEEDS");

	return text ? (unsigned)strtoul(text, NULL, 10) : usual;
}

static void disk_open_as(const char *spec, unsigned index, struct disk **ret)
{
	struct disk_specs specs = {0};
	struct disk_open_options o = {0};
	struct error err = ERROR_INIT;
	char word[512];

	snprintf(word, sizeof word, spec, index);
	must(disk_specs_add(&specs, word, &err), &err);
	must(disk_open(&specs.items[0], &o, ret, &err), &err);
	disk_specs_release(&specs);
}

static void groups_derive(struct pool *p, const struct world_group *groups, unsigned group_count)
{
	unsigned disk = 0, most = 0;

	for (unsigned g = 0; g < group_count; g++) {
		struct pool_group *group = &p->groups[g];

		*group = (struct pool_group){.index = g,
			.kind = groups[g].kind,
			.width = groups[g].width,
			.parity = groups[g].parity,
			.disk_count = groups[g].disks};
		most = max_of(most, groups[g].parity);
		for (unsigned i = 0; i < groups[g].disks; i++, disk++) {
			group->disks[i] = disk;
			p->config.disks[disk].group = (uint16_t)g;
		}
	}
	p->group_count = group_count;
	p->disk_count = disk;
	p->copies = min_of(min_of(max_of(2u, 1 + most), disk), POOL_COPIES_MAX);
}

void world_open(const struct world_group *groups, unsigned group_count, const char *spec, uint64_t disk_bytes,
	uint64_t zone_bytes, uint64_t run_bytes)
{
	struct pool *p = calloc(1, sizeof *p);
	struct error err = ERROR_INIT;

	memset(&world, 0, sizeof world);
	world.pool = p;
	os_mutex_init(&p->lock);
	os_cond_init(&p->changed);
	memcpy(p->id, "sixteen letters!", 16);
	groups_derive(p, groups, group_count);
	p->run_bytes = run_bytes;
	p->next_run = 1;
	for (unsigned i = 0; i < p->disk_count; i++) {
		struct pool_disk *d = &p->disks[i];

		*d = (struct pool_disk){.config = &p->config.disks[i],
			.index = i,
			.state = PD_ONLINE,
			.data_start_bytes = 1 << 20,
			.zone_bytes = zone_bytes,
			.zone_count = (unsigned)((disk_bytes - (1 << 20)) / zone_bytes)};
		if (spec)
			disk_open_as(spec, i, &d->disk);
	}
	must(space_open(p, &err), &err);
	must(repairs_open(p, &err), &err);
}

void world_import(void)
{
	struct pool *old = world.pool, *p = malloc(sizeof *p);
	struct error err = ERROR_INIT;

	memcpy(p, old, sizeof *p);
	space_close(old);
	for (unsigned i = 0; i < p->disk_count; i++) {
		p->disks[i].config = &p->config.disks[i];
		p->disks[i].zones = NULL;
	}
	p->scrub = NULL;
	os_mutex_init(&p->lock);
	os_cond_init(&p->changed);
	free(old);
	world.pool = p;
	must(space_open(p, &err), &err);
	must(repairs_open(p, &err), &err);
	for (size_t i = 0; i < world.entry_count; i++) {
		const struct entry *e = &world.entries[i];

		must(e->type == LOG_RUN ? run_log_apply(p, e->payload, e->bytes, &err)
					: run_repaired_apply(p, e->payload, e->bytes, &err),
			&err);
	}
}

void world_checkpoint(void)
{
	struct pool *p = world.pool;
	struct run **runs;
	size_t n;

	os_mutex_lock(&p->lock);
	must(runs_dirty(p, &runs, &n, NULL), NULL);
	for (size_t i = 0; i < n; i++)
		runs[i]->dirty = false;
	free(runs);
	p->commit_durable++;
	p->checkpoint_durable++;
	space_checkpoint_done(p, p->checkpoint_durable);
	os_mutex_unlock(&p->lock);
}

void world_close(void)
{
	struct pool *p = world.pool;

	space_close(p);
	for (unsigned i = 0; i < p->disk_count; i++)
		disk_close(p->disks[i].disk);
	os_mutex_destroy(&p->lock);
	os_cond_destroy(&p->changed);
	free(p);
	for (size_t i = 0; i < world.entry_count; i++)
		free(world.entries[i].payload);
	free(world.entries);
	memset(&world, 0, sizeof world);
}
