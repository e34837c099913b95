#include "mock_store.h"

#include "space.h"

#include <stdio.h>
#include <string.h>

struct mock mock;

void mock_open(uint64_t seed, uint64_t cache_bytes, uint64_t dirty_bytes)
{
	struct pool *p = &mock.pool;

	memset(&mock, 0, sizeof mock);
	random_seed(&mock.random, seed);
	mock.now = calloc(1, sizeof *mock.now);
	mock.durable = calloc(1, sizeof *mock.durable);
	mock.available_bytes = UINT64_C(1) << 50;
	os_mutex_init(&p->lock);
	os_cond_init(&p->changed);
	snprintf(p->config.name, sizeof p->config.name, "tank");
	p->tuning.cache_bytes = cache_bytes;
	p->tuning.dirty_bytes = dirty_bytes;
	p->group_count = 1;
	p->groups[0] = (struct pool_group){.width = 8, .parity = 1, .disk_count = 8};
	p->run_bytes = 1u << 20;
	for (unsigned i = 0; i < 8; i++) {
		p->groups[0].disks[i] = i;
		p->disks[i] = (struct pool_disk){
			.disk = (struct disk *)&mock, .state = PD_ONLINE, .zone_bytes = 1u << 20, .zones_free = 4};
	}
	p->open = &mock.open;
	mock.open.commit = p->intent_commit = 1;
}

void mock_volume(unsigned i, uint64_t bytes, uint32_t record_bytes)
{
	struct dataset *d = &mock.datasets[i];

	*d = (struct dataset){.id = 16 + i,
		.root = {.kind = BP_NODE},
		.type = DATASET_VOLUME,
		.volume_bytes = bytes,
		.record_bytes = record_bytes};
	snprintf(d->name, sizeof d->name, "v%u", i);
}

void mock_start(void)
{
	struct error err = ERROR_INIT;

	if (cache_open(&mock.pool, &err))
		abort();
}

static void intents_drop(uint64_t commit)
{
	unsigned n = 0;

	for (unsigned i = 0; i < mock.intent_count; i++)
		if (mock.intents[i].commit > commit)
			mock.intents[n++] = mock.intents[i];
		else
			free(mock.intents[i].entries);
	mock.intent_count = n;
}

void mock_crash(void)
{
	struct pool *p = &mock.pool;

	cache_close(p);
	*mock.now = *mock.durable;
	mock.open = (struct transaction){.commit = p->commit_durable + 1};
	p->intent_commit = p->commit_durable + 1;
	mock.committing = false;
	mock.fail_reads = mock.fail_writes = 0;
	mock_start();
	for (unsigned i = 0; i < mock.intent_count; i++) {
		struct log_entry e;
		uint32_t offset = 0;
		struct error err = ERROR_INIT;

		while (log_entry_next(mock.intents[i].entries, (uint32_t)mock.intents[i].bytes, &offset, &e, &err))
			if (e.type == LOG_INTENT && volume_replay_intent(p, e.payload, e.bytes, &err))
				abort();
	}
	if (pool_commit_now(p, NULL))
		abort();
}

void mock_close(void)
{
	cache_close(&mock.pool);
	intents_drop(UINT64_MAX);
	free(mock.intents);
	for (uint64_t i = 0; i < mock.block_count; i++)
		free(mock.blocks[i]);
	free(mock.blocks);
	free(mock.block_bytes);
	free(mock.now);
	free(mock.durable);
	os_cond_destroy(&mock.pool.changed);
	os_mutex_destroy(&mock.pool.lock);
}

/* --- catalog, transactions, commits ---------------------------------------------------------- */

struct dataset *dataset_by_id(struct pool *p, uint64_t id)
{
	return id >= 16 && id < 16 + MOCK_DATASETS && mock.datasets[id - 16].id ? &mock.datasets[id - 16] : NULL;
}
struct dataset *dataset_by_path(struct pool *p, const char *path, struct error *err)
{
	for (unsigned i = 0; i < MOCK_DATASETS; i++)
		if (mock.datasets[i].id && !strcmp(strrchr(path, '/') + 1, mock.datasets[i].name))
			return &mock.datasets[i];
	error_set(err, ERR_NOT_FOUND, "no %s", path);
	return NULL;
}
struct transaction *transaction_enter(struct pool *p)
{
	mock.open.inside++;
	return &mock.open;
}
void transaction_leave(struct pool *p, struct transaction *t)
{
	t->inside--;
	os_cond_broadcast(&p->changed);
}
int transaction_put(struct pool *p, struct transaction *t, uint64_t dataset, struct key key, const uint8_t *value,
	uint32_t bytes, struct error *err)
{
	struct mock_value *v = &mock.now->at[dataset - 16][key.a];

	sp_assert(bytes <= sizeof v->data);
	v->bytes = (uint16_t)bytes;
	if (bytes)
		memcpy(v->data, value, bytes);
	return 0;
}
int transaction_wait_room(struct pool *p, struct error *err)
{
	return 0;
}
void commit_due(struct pool *p) {}
int pool_refuses(struct pool *p, struct error *err)
{
	return 0;
}
int record_lookup(struct pool *p, uint64_t dataset, struct key key, uint8_t *value, uint32_t room, uint32_t *ret_bytes,
	struct error *err)
{
	os_scoped_lock(&p->lock);
	const struct mock_value *v = &mock.now->at[dataset - 16][key.a];

	if (!v->bytes)
		return ERR_NOT_FOUND;
	memcpy(value, v->data, v->bytes);
	*ret_bytes = v->bytes;
	return 0;
}
int pool_commit_now(struct pool *p, struct error *err)
{
	os_mutex_lock(&p->lock);
	uint64_t wanted = p->intent_commit;
	while (mock.committing && p->commit_durable < wanted)
		os_cond_wait(&p->changed, &p->lock);
	if (p->commit_durable >= wanted) {
		os_mutex_unlock(&p->lock);
		return 0;
	}
	mock.committing = true;
	p->intent_commit = mock.open.commit + 1;
	os_mutex_unlock(&p->lock);
	int rc = spill_all(p, 0, err);
	os_mutex_lock(&p->lock);
	while (!rc && mock.open.inside)
		os_cond_wait(&p->changed, &p->lock);
	if (!rc) {
		p->commit_durable = mock.open.commit++;
		*mock.durable = *mock.now;
		intents_drop(p->commit_durable);
		mock.commits++;
	}
	mock.committing = false;
	os_cond_broadcast(&p->changed);
	os_mutex_unlock(&p->lock);
	return rc;
}
int pool_commit_intent(struct pool *p, const uint8_t *entries, size_t bytes, struct error *err)
{
	mock.intents = realloc(mock.intents, (mock.intent_count + 1) * sizeof *mock.intents);
	struct mock_intent *i = &mock.intents[mock.intent_count++];

	*i = (struct mock_intent){p->intent_commit, bytes, malloc(bytes)};
	memcpy(i->entries, entries, bytes);
	mock.intents_taken++;
	os_mutex_unlock(&p->lock);
	if (mock.read_ns)
		os_sleep_ns(mock.read_ns);
	os_mutex_lock(&p->lock);
	return 0;
}
bool space_is_coming(const struct pool *p)
{
	return false;
}
int pool_checkpoint_now(struct pool *p, struct error *err)
{
	return 0;
}
uint64_t reader_enter(struct pool *p)
{
	return 0;
}
void reader_leave(struct pool *p, uint64_t pin) {}
uint64_t space_available_for(struct pool *p, uint32_t record_bytes)
{
	uint64_t promised = spill_promised_bytes(p);

	return mock.available_bytes > promised ? mock.available_bytes - promised : 0;
}
unsigned zones_reserved(const struct pool_disk *d)
{
	return 4;
}
void node_cache_drop(struct pool *p) {}
/* The mock has one layer, played as the tree. */
const struct delta_entry *delta_at_or_after(const struct delta *d, uint64_t tree, struct key key)
{
	return NULL;
}
int tree_walk(struct pool *p, const struct bp *root, uint64_t tree, struct key from,
	bool (*visit)(void *arg, struct key key, const uint8_t *value, uint32_t bytes), void *arg, struct error *err)
{
	for (uint64_t i = from.a; i < MOCK_RECORDS; i++) {
		os_mutex_lock(&p->lock);
		struct mock_value v = mock.now->at[tree - 16][i];
		os_mutex_unlock(&p->lock);
		if (v.bytes && !visit(arg, (struct key){i, 0}, v.data, v.bytes))
			break;
	}
	return 0;
}

/* --- stripes --------------------------------------------------------------------------------- */

static int block_add(const void *data, uint32_t bytes)
{
	if (mock.block_count == mock.block_room) {
		mock.block_room = max_of(2 * mock.block_room, UINT64_C(1024));
		mock.blocks = realloc(mock.blocks, mock.block_room * sizeof *mock.blocks);
		mock.block_bytes = realloc(mock.block_bytes, mock.block_room * sizeof *mock.block_bytes);
	}
	mock.blocks[mock.block_count] = malloc(bytes);
	mock.block_bytes[mock.block_count] = bytes;
	memcpy(mock.blocks[mock.block_count], data, bytes);
	return (int)mock.block_count++;
}

int stripes_write(struct pool *p, struct transaction *t, struct stored_record **records, unsigned count, bool reserve,
	struct error *err)
{
	uint64_t bytes = 0;

	os_mutex_lock(&p->lock);
	bool fails = mock.fail_writes > 0;
	mock.fail_writes -= fails;
	mock.writing++;
	mock.writing_max = max_of(mock.writing_max, mock.writing);
	for (unsigned i = 0; i < count; i++) {
		sp_assert((uintptr_t)records[i]->data % DISK_BUFFER_ALIGN == 0 && records[i]->bp.birth == t->commit);
		records[i]->bp.run = (uint64_t)block_add(records[i]->data, records[i]->bp.physical_bytes);
		bytes += records[i]->bp.physical_bytes;
	}
	os_mutex_unlock(&p->lock);
	if (mock.write_ns_per_mib)
		os_sleep_ns(1 + mock.write_ns_per_mib * bytes / (1u << 20));
	os_mutex_lock(&p->lock);
	/* Nobody changes what is on its way. */
	for (unsigned i = 0; i < count; i++)
		sp_assert(!memcmp(records[i]->data, mock.blocks[records[i]->bp.run], records[i]->bp.physical_bytes));
	mock.writing--;
	mock.records_written += count;
	mock.batches++;
	mock.short_batches += count % 7 != 0;
	os_mutex_unlock(&p->lock);
	return fails ? error_set(err, mock.fail_code, "the mock fails") : 0;
}

void stripes_read(struct pool *p, struct record_read *reads, unsigned count, bool sequential)
{
	if (mock.read_ns)
		os_sleep_ns(mock.read_ns);
	os_scoped_lock(&p->lock);
	bool fails = mock.fail_reads > 0;

	mock.fail_reads -= fails;
	mock.records_read += count;
	mock.reads_sequential += sequential;
	for (unsigned i = 0; i < count; i++) {
		sp_assert(reads[i].bp.run < mock.block_count &&
			  mock.block_bytes[reads[i].bp.run] == reads[i].bp.physical_bytes);
		memcpy(reads[i].buffer, mock.blocks[reads[i].bp.run], reads[i].bp.physical_bytes);
		reads[i].status = fails ? error_set(&reads[i].error, ERR_LOST, "the mock lost it") : 0;
	}
}
