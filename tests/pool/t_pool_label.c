/*
 * Labels: the right disks make the pool, in any order and beside any others; copies, cut disks and live owners are told;
 * the newest configuration and the newest uberblock count; a power cut never loses both ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "../array/crash_disk.h"
#include "label.h"

#define MIB (1u << 20)
#define DISKS 4u

static unsigned faulted, events;
static char last_event[512];

void disk_fault(struct pool *p, unsigned index, const char *why)
{
	faulted++;
	p->disks[index].state = PD_FAULTED;
	p->config_dirty = true;
}

void pool_event(struct pool *p, const char *format, ...)
{
	va_list args;

	events++;
	va_start(args, format);
	vsnprintf(last_event, sizeof(last_event), format, args);
	va_end(args);
}

static struct pool *pool_make(void)
{
	struct pool *p = calloc(1, sizeof(*p));

	os_mutex_init(&p->lock);
	os_cond_init(&p->changed);
	return p;
}

static void pool_free(struct pool *p)
{
	os_cond_destroy(&p->changed);
	os_mutex_destroy(&p->lock);
	free(p);
}

/* A pool over these disks, one group of the parity. */
static struct pool *pool_format(const char *name, struct disk **disks, unsigned count, unsigned parity, uint64_t seed)
{
	struct pool *p = pool_make();
	struct random r;

	random_seed(&r, seed);
	random_fill(&r, p->id, 16);
	memcpy(p->config.pool_id, p->id, 16);
	snprintf(p->config.name, sizeof(p->config.name), "%s", name);
	p->config.host_id = label_host(p->config.host_name);
	p->config.disk_count = p->disk_count = count;
	p->config.group_count = 1;
	p->config.groups[0] = (struct config_group){GROUP_PARITY, (uint8_t)parity, (uint16_t)count};
	p->config.run_bytes = MIB;
	p->log_bytes = MIB;
	p->log_offset_bytes = LABEL_BYTES;
	for (unsigned i = 0; i < count; i++) {
		struct config_disk *c = &p->config.disks[i];

		random_fill(&r, c->id, 16);
		c->size_bytes = disk_traits(disks[i])->size_bytes;
		c->zone_bytes = MIB;
		c->data_start_bytes = 2 * MIB;
		c->zone_count = (uint32_t)(c->size_bytes / MIB - 4);
		p->disks[i] = (struct pool_disk){.disk = disks[i], .config = c, .index = i, .state = PD_ONLINE};
	}
	p->uber = (struct uberblock){.checkpoint = 1, .commit = 1, .next_run = 1, .next_dataset = 17};
	assert_int_equal(labels_write(p, NULL), 0);
	assert_int_equal(uberblock_write(p, &p->uber, NULL), 0);
	return p;
}

static void open_memory(struct disk **disks, unsigned count, uint64_t bytes)
{
	for (unsigned i = 0; i < count; i++) {
		char name[32];

		snprintf(name, sizeof(name), "m%u", i);
		assert_int_equal(disk_open_memory(name, bytes, &disks[i], NULL), 0);
	}
}

static void close_all(struct disk **disks, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		disk_close(disks[i]);
}

static void copy_disk(struct disk *to, struct disk *from)
{
	void *buffer = aligned_alloc(4096, MIB);

	for (uint64_t at = 0; at < disk_traits(from)->size_bytes; at += MIB) {
		assert_int_equal(disk_read(from, at, buffer, MIB, NULL), 0);
		assert_int_equal(disk_write(to, at, buffer, MIB, NULL), 0);
	}
	free(buffer);
}

static int read_as(
	struct pool **ret, const char *name, struct disk **disks, unsigned count, bool force, struct error *err)
{
	struct pool_open_options o = {.name = name, .force = force};
	struct pool *p = pool_make();
	int code = labels_read(p, &o, disks, count, err);

	if (code) {
		pool_free(p);
		p = NULL;
	}
	*ret = p;
	return code;
}

static void disks_in_any_order_beside_others(void **state)
{
	struct disk *disks[10], *mixed[10];
	struct pool *tank, *other, *p;
	struct error err = ERROR_INIT;
	char id[33];

	open_memory(disks, 10, 32 * MIB);
	tank = pool_format("tank", disks, 4, 1, 1);
	other = pool_format("other", disks + 4, 3, 1, 2);
	for (unsigned i = 0; i < 10; i++)
		mixed[i] = disks[i * 7 % 10];
	assert_int_equal(read_as(&p, NULL, mixed, 10, false, &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "different pools"));
	for (unsigned by = 0; by < 2; by++) {
		for (unsigned i = 0; i < 16; i++)
			snprintf(id + 2 * i, 3, "%02x", tank->id[i]);
		assert_int_equal(read_as(&p, by ? id : "tank", mixed, 10, false, NULL), 0);
		assert_memory_equal(p->id, tank->id, 16);
		assert_int_equal(p->disk_count, 4);
		for (unsigned i = 0; i < 4; i++) {
			assert_ptr_equal(p->disks[i].disk, disks[i]);
			assert_int_equal(p->disks[i].state, PD_ONLINE);
			assert_string_equal(p->config.disks[i].path, disk_traits(disks[i])->name);
		}
		assert_true(p->uber.checkpoint == 1 && p->log_bytes == MIB && p->run_bytes == MIB);
		pool_free(p);
	}
	assert_int_equal(read_as(&p, "nothing", mixed, 10, false, NULL), ERR_NOT_FOUND);
	assert_int_equal(read_as(&p, NULL, disks + 7, 3, false, NULL), ERR_NOT_FOUND);
	assert_int_equal(read_as(&p, NULL, disks, 0, false, NULL), ERR_NOT_FOUND);
	pool_free(tank);
	pool_free(other);
	close_all(disks, 10);
}

static void missing_disks_are_noted_and_too_many_are_refused(void **state)
{
	struct disk *disks[DISKS];
	struct pool *tank, *p;
	struct error err = ERROR_INIT;

	open_memory(disks, DISKS, 32 * MIB);
	tank = pool_format("tank", disks, DISKS, 1, 1);
	assert_int_equal(read_as(&p, NULL, disks, 2, false, &err), ERR_LOST);
	assert_int_equal(read_as(&p, NULL, disks, 3, false, NULL), 0);
	assert_int_equal(p->disks[3].state, PD_MISSING);
	assert_null(p->disks[3].disk);
	assert_int_equal(p->config.disks[3].missed_from, 2);
	p->uber.checkpoint = 2;
	p->uber.commit = 9;
	assert_int_equal(uberblock_write(p, &p->uber, NULL), 0);
	pool_free(p);
	/* The disk comes back: what it missed is known, and its old uberblock does not count. */
	assert_int_equal(read_as(&p, NULL, disks, DISKS, false, NULL), 0);
	assert_int_equal(p->disks[3].state, PD_ONLINE);
	assert_int_equal(p->config.disks[3].missed_from, 2);
	assert_int_equal(p->uber.checkpoint, 2);
	assert_int_equal(p->checkpoint_newest, 2);
	pool_free(p);
	pool_free(tank);
	close_all(disks, DISKS);
}

static void a_copy_of_a_disk_is_told(void **state)
{
	struct disk *disks[DISKS + 1];
	struct pool *tank, *p;
	struct error err = ERROR_INIT;

	open_memory(disks, DISKS + 1, 32 * MIB);
	tank = pool_format("tank", disks, DISKS, 1, 1);
	copy_disk(disks[DISKS], disks[2]);
	assert_int_equal(read_as(&p, NULL, disks, DISKS + 1, false, &err), ERR_REFUSED);
	assert_non_null(strstr(err.text, "m2"));
	assert_non_null(strstr(err.text, "m4"));
	assert_int_equal(labels_write(tank, NULL), 0); /* the copy is older from here on */
	assert_int_equal(read_as(&p, NULL, disks, DISKS + 1, false, NULL), 0);
	assert_ptr_equal(p->disks[2].disk, disks[2]);
	pool_free(p);
	pool_free(tank);
	close_all(disks, DISKS + 1);
}

static void a_disk_cut_short_is_not_used(void **state)
{
	struct disk *disks[DISKS], *small;
	struct pool *tank, *p;
	void *buffer = aligned_alloc(4096, MIB);

	open_memory(disks, DISKS, 32 * MIB);
	tank = pool_format("tank", disks, DISKS, 1, 1);
	for (uint64_t bytes = MIB; bytes < 32 * MIB; bytes += 6 * MIB) {
		assert_int_equal(disk_open_memory("small", bytes, &small, NULL), 0);
		for (uint64_t at = 0; at < bytes; at += MIB) {
			assert_int_equal(disk_read(disks[1], at, buffer, MIB, NULL), 0);
			assert_int_equal(disk_write(small, at, buffer, MIB, NULL), 0);
		}
		struct disk *offered[DISKS] = {disks[0], small, disks[2], disks[3]};

		assert_int_equal(read_as(&p, NULL, offered, DISKS, false, NULL), 0);
		assert_int_equal(p->disks[1].state, PD_FAULTED);
		assert_null(p->disks[1].disk);
		assert_non_null(strstr(last_event, "cut short"));
		pool_free(p);
		disk_close(small);
	}
	free(buffer);
	pool_free(tank);
	close_all(disks, DISKS);
}

static void a_disk_that_grew_is_found(void **state)
{
	struct disk *disks[DISKS], *large;
	struct pool *tank, *p;

	open_memory(disks, DISKS, 32 * MIB);
	tank = pool_format("tank", disks, DISKS, 1, 1);
	assert_int_equal(disk_open_memory("large", 40 * MIB, &large, NULL), 0);
	copy_disk(large, disks[1]);
	struct disk *offered[DISKS] = {disks[0], large, disks[2], disks[3]};

	assert_int_equal(read_as(&p, NULL, offered, DISKS, false, NULL), 0);
	assert_ptr_equal(p->disks[1].disk, large);
	assert_true(p->disks[1].labelled);
	pool_free(p);
	pool_free(tank);
	disk_close(large);
	close_all(disks, DISKS);
}

static void either_end_is_enough(void **state)
{
	struct disk *disks[DISKS];
	struct pool *tank, *p;
	void *noise = aligned_alloc(4096, LABEL_BYTES);
	struct random r;

	random_seed(&r, 5);
	random_fill(&r, noise, LABEL_BYTES);
	open_memory(disks, DISKS, 32 * MIB);
	tank = pool_format("tank", disks, DISKS, 1, 1);
	for (unsigned i = 0; i < DISKS; i++)
		assert_int_equal(
			disk_write(disks[i], i % 2 ? 0 : label_back_offset(32 * MIB), noise, LABEL_BYTES, NULL), 0);
	assert_int_equal(read_as(&p, "tank", disks, DISKS, false, NULL), 0);
	assert_int_equal(p->uber.checkpoint, 1);
	for (unsigned i = 0; i < DISKS; i++)
		assert_int_equal(p->disks[i].state, PD_ONLINE);
	pool_free(p);
	/* The import put the labels right: the other ends may go now. */
	for (unsigned i = 0; i < DISKS; i++)
		assert_int_equal(
			disk_write(disks[i], i % 2 ? label_back_offset(32 * MIB) : 0, noise, LABEL_BYTES, NULL), 0);
	assert_int_equal(read_as(&p, "tank", disks, DISKS, false, NULL), ERR_CORRUPT); /* but not the rings */
	free(noise);
	pool_free(tank);
	close_all(disks, DISKS);
}

static void checkpoints_are_kept_for_a_way_back(void **state)
{
	struct disk *disks[DISKS];
	struct pool *tank, *p;
	struct uberblock u;

	open_memory(disks, DISKS, 32 * MIB);
	tank = pool_format("tank", disks, DISKS, 1, 1);
	for (u = tank->uber; u.checkpoint < 100;) {
		u.checkpoint++;
		u.commit += 10;
		assert_int_equal(uberblock_write(tank, &u, NULL), 0);
	}
	for (unsigned back = 0; back < LABEL_RING_SLOTS; back++) {
		assert_int_equal(uberblocks_read(tank, back, &u, NULL), 0);
		assert_int_equal(u.checkpoint, 100 - back);
	}
	assert_int_equal(uberblocks_read(tank, LABEL_RING_SLOTS, &u, NULL), ERR_NOT_FOUND);
	struct pool_open_options o = {.rewind = 3};

	p = pool_make();
	assert_int_equal(labels_read(p, &o, disks, DISKS, NULL), 0);
	assert_true(p->uber.checkpoint == 97 && p->checkpoint_newest == 100);
	pool_free(p);
	pool_free(tank);
	close_all(disks, DISKS);
}

/* --- owners ------------------------------------------------------------------------------------------------------- */

struct other_host {
	struct pool *p;
	struct disk *disk;
	bool stop;
};

/* The other host at work: renews its stamp. */
static void other_host(void *arg)
{
	struct other_host *o = arg;
	uint8_t *block = aligned_alloc(4096, 4096);

	for (uint64_t stamp = 1; !o->stop; stamp++) {
		activity_pack(o->p->id, 42, stamp, block);
		assert_int_equal(disk_write(o->disk, LABEL_ACTIVITY_OFFSET, block, 4096, NULL), 0);
		os_sleep_ns(POOL_ACTIVITY_NS);
	}
	free(block);
}

static int owners(void *arg)
{
	struct disk *disks[DISKS];
	struct pool *tank, *p;
	struct error err = ERROR_INIT;
	struct other_host other;
	struct os_thread *thread;
	uint64_t start;

	open_memory(disks, DISKS, 32 * MIB);
	tank = pool_format("tank", disks, DISKS, 1, 1);
	start = os_now_ns();
	assert_int_equal(read_as(&p, NULL, disks, DISKS, false, NULL), 0);
	pool_free(p);
	assert_true(os_now_ns() - start < 100000000);

	/* Another host had it last and is silent: claimed after a wait. */
	tank->config.host_id = 42;
	snprintf(tank->config.host_name, sizeof(tank->config.host_name), "elsewhere");
	assert_int_equal(labels_write(tank, NULL), 0);
	start = os_now_ns();
	assert_int_equal(read_as(&p, NULL, disks, DISKS, false, NULL), 0);
	assert_in_range(os_now_ns() - start, 1000000000, 3000000000);
	assert_string_equal(p->config.host_name, "simulated");
	pool_free(p);

	/* Alive: refused by name, whatever is forced not. */
	tank->config.generation += 10;
	assert_int_equal(labels_write(tank, NULL), 0);
	other = (struct other_host){.p = tank, .disk = disks[2]};
	assert_int_equal(os_thread_create(&thread, "other", other_host, &other, NULL), 0);
	assert_int_equal(read_as(&p, NULL, disks, DISKS, false, &err), ERR_BUSY);
	assert_non_null(strstr(err.text, "elsewhere"));
	other.stop = true;
	os_thread_join(thread);

	start = os_now_ns();
	assert_int_equal(read_as(&p, NULL, disks, DISKS, true, NULL), 0);
	assert_true(os_now_ns() - start < 100000000);
	pool_free(p);

	/* Exported: nobody's. */
	tank->config.exported = true;
	tank->config.generation += 10;
	assert_int_equal(labels_write(tank, NULL), 0);
	start = os_now_ns();
	assert_int_equal(read_as(&p, NULL, disks, DISKS, false, NULL), 0);
	assert_true(os_now_ns() - start < 100000000);
	assert_false(p->config.exported);
	pool_free(p);
	pool_free(tank);
	close_all(disks, DISKS);
	return 0;
}

static void an_owner_elsewhere_is_waited_for(void **state)
{
	struct os_simulation sim;
	struct error err = ERROR_INIT;

	os_simulation_init(&sim, 1);
	assert_int_equal(os_simulate(&sim, owners, NULL, &err), 0);
}

static void label_facts_for_scans(void **state)
{
	struct disk *disks[DISKS];
	struct pool *tank;
	struct pool_label_facts facts;
	uint8_t *block = aligned_alloc(4096, 4096);

	open_memory(disks, DISKS, 32 * MIB);
	assert_int_equal(pool_label_read(disks[0], &facts, NULL), ERR_NOT_FOUND);
	tank = pool_format("tank", disks, DISKS, 1, 1);
	assert_int_equal(pool_label_read(disks[1], &facts, NULL), 0);
	assert_string_equal(facts.name, "tank");
	assert_true(facts.owned_here && !facts.exported && facts.disk_index == 1 && facts.disk_count == DISKS);
	assert_int_equal(strlen(facts.id), 32);
	assert_int_equal(pool_label_clear(disks[1], NULL), 0);
	assert_int_equal(pool_label_read(disks[1], &facts, NULL), ERR_NOT_FOUND);
	/* A newer version is another answer than none. */
	struct label_header h = {.version = POOL_VERSION + 1};

	label_header_pack(&h, block);
	assert_int_equal(disk_write(disks[1], LABEL_HEADER_OFFSET, block, 4096, NULL), 0);
	assert_int_equal(pool_label_read(disks[1], &facts, NULL), ERR_UNSUPPORTED);
	free(block);
	pool_free(tank);
	close_all(disks, DISKS);
}

/* --- power -------------------------------------------------------------------------------------------------------- */

/* Labels and uberblocks are written while the power goes at operation N, for every N: what was told to be written is there
 * afterwards, and it is one of the generations that were. */
static int power_cuts(void *arg)
{
	for (unsigned cut = 1;; cut++) {
		struct power power;
		struct disk *disks[DISKS];
		struct pool *tank, *p;
		struct error err = ERROR_INIT;
		uint64_t generation, checkpoint;
		struct uberblock u;
		bool was_cut;

		power_init(&power, cut * 77 + *(unsigned *)arg);
		for (unsigned i = 0; i < DISKS; i++) {
			char name[8];

			snprintf(name, sizeof(name), "c%u", i);
			assert_int_equal(
				crash_disk_open(name, &power, platter_make(16 * MIB, 0), NULL, &disks[i], NULL), 0);
		}
		tank = pool_format("tank", disks, DISKS, 1, 3);
		power.cut_at = power.operations + cut;
		u = tank->uber;
		generation = tank->config.generation;
		checkpoint = u.checkpoint;
		for (unsigned round = 0; round < 3 && !power.is_cut; round++) {
			u.checkpoint++;
			if (uberblock_write(tank, &u, NULL) == 0 && !power.is_cut)
				checkpoint = u.checkpoint;
			if (!power.is_cut && labels_write(tank, NULL) == 0 && !power.is_cut)
				generation = tank->config.generation;
		}
		was_cut = power.is_cut;
		power_cut(&power);
		struct power power2;

		power_init(&power2, cut);
		for (unsigned i = 0; i < DISKS; i++) {
			struct platter *platter = crash_disk_take(disks[i]);
			char name[8];

			snprintf(name, sizeof(name), "c%u", i);
			assert_int_equal(crash_disk_open(name, &power2, platter, NULL, &disks[i], NULL), 0);
		}
		assert_int_equal(read_as(&p, "tank", disks, DISKS, false, &err), 0);
		assert_in_range(p->uber.checkpoint, checkpoint, checkpoint + 1);
		assert_in_range(p->config.generation, generation, generation + 2); /* the import may write one */
		for (unsigned i = 0; i < DISKS; i++)
			assert_int_equal(p->disks[i].state, PD_ONLINE);
		pool_free(p);
		pool_free(tank);
		for (unsigned i = 0; i < DISKS; i++)
			platter_free(crash_disk_take(disks[i]));
		if (!was_cut)
			return 0;
	}
}

static void a_power_cut_loses_neither_label(void **state)
{
	for (unsigned seed = 0; seed < 4; seed++) {
		struct os_simulation sim;
		struct error err = ERROR_INIT;

		os_simulation_init(&sim, seed);
		assert_int_equal(os_simulate(&sim, power_cuts, &seed, &err), 0);
	}
}

/* Any damage anywhere in the labels: an answer, never a crash. */
static void damage_is_answered(void **state)
{
	struct disk *disks[2];
	struct pool *tank, *p;
	struct random r;
	uint8_t *good[2], *bad = aligned_alloc(4096, LABEL_BYTES);
	unsigned opened = 0;

	random_seed(&r, 11);
	open_memory(disks, 2, 16 * MIB);
	tank = pool_format("tank", disks, 2, 1, 1);
	for (unsigned e = 0; e < 2; e++) {
		good[e] = aligned_alloc(4096, LABEL_BYTES);
		assert_int_equal(
			disk_read(disks[0], e ? label_back_offset(16 * MIB) : 0, good[e], LABEL_BYTES, NULL), 0);
	}
	for (unsigned i = 0; i < 300; i++) {
		struct error err = ERROR_INIT;

		for (unsigned e = 0; e < 2; e++) {
			memcpy(bad, good[e], LABEL_BYTES);
			for (unsigned n = random_below(&r, 4); n; n--) {
				static const unsigned at[] = {4096, 65536, 131072, LABEL_RING_OFFSET + 4096};
				unsigned block = at[random_below(&r, 4)];

				bad[block + random_below(&r, 512)] = (uint8_t)random_u64(&r);
				if (random_below(&r, 2)) /* as if it had been written so */
					put_le32(bad + block + (block == 65536 || block == 131072 ? 65532 : 4092),
						checksum_crc32c(
							bad + block, block == 65536 || block == 131072 ? 65532 : 4092));
			}
			assert_int_equal(
				disk_write(disks[0], e ? label_back_offset(16 * MIB) : 0, bad, LABEL_BYTES, NULL), 0);
		}
		if (read_as(&p, NULL, disks, 1, true, &err))
			assert_true(err.text[0]);
		else {
			opened++;
			pool_free(p);
		}
	}
	assert_true(opened > 20);
	free(bad), free(good[0]), free(good[1]);
	pool_free(tank);
	close_all(disks, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(disks_in_any_order_beside_others),
		cmocka_unit_test(missing_disks_are_noted_and_too_many_are_refused),
		cmocka_unit_test(a_copy_of_a_disk_is_told),
		cmocka_unit_test(a_disk_cut_short_is_not_used),
		cmocka_unit_test(a_disk_that_grew_is_found),
		cmocka_unit_test(either_end_is_enough),
		cmocka_unit_test(checkpoints_are_kept_for_a_way_back),
		cmocka_unit_test(an_owner_elsewhere_is_waited_for),
		cmocka_unit_test(label_facts_for_scans),
		cmocka_unit_test(a_power_cut_loses_neither_label),
		cmocka_unit_test(damage_is_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
