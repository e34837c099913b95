/*
 * Datasets of a pool: names and places, properties and where they come from, snapshots that keep what they saw, rollback,
 * clones, destruction that gives back all it should; and all of it is there after the pool was closed, or cut off.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define MIB (1u << 20)
#define DISKS 3u

struct world {
	struct disk *disks[DISKS];
	struct pool *p;
};

#define ok(call)                                                                                                       \
	do {                                                                                                           \
		struct error err = ERROR_INIT;                                                                         \
		int code_ = (call);                                                                                    \
		if (code_)                                                                                             \
			fail_msg("%s: %d %s", #call, code_, err.text);                                                 \
	} while (0)
#define refused(call, code)                                                                                            \
	do {                                                                                                           \
		struct error err = ERROR_INIT;                                                                         \
		assert_int_equal(call, code);                                                                          \
		assert_true(err.text[0]);                                                                              \
	} while (0)

static void pool_up(struct world *w)
{
	struct pool_open_options o;

	pool_open_options_init(&o);
	o.tuning.workers = 1;
	ok(pool_open(&w->p, &o, w->disks, DISKS, &err));
}

static void world_open(struct world *w, const char *kind, unsigned parity)
{
	struct pool_vdev vdev = {.parity = parity, .first = 0, .count = DISKS};
	struct pool_create_options o = {.name = "tank", .vdevs = &vdev, .vdev_count = 1};

	snprintf(vdev.kind, sizeof(vdev.kind), "%s", kind);
	for (unsigned i = 0; i < DISKS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "m%u", i);
		ok(disk_open_memory(name, 64 * MIB, &w->disks[i], &err));
	}
	ok(pool_create(&o, w->disks, DISKS, &err));
	pool_up(w);
}

static void world_close(struct world *w)
{
	ok(pool_close(w->p, &err));
	for (unsigned i = 0; i < DISKS; i++)
		disk_close(w->disks[i]);
}

/* Down and up again, orderly or as after a power cut. */
static void again(struct world *w, bool orderly)
{
	if (orderly)
		ok(pool_close(w->p, &err));
	else
		pool_abandon(w->p);
	pool_up(w);
}

static int in_simulation(void *arg)
{
	((void (*)(void))arg)();
	return 0;
}

static void simulate(void (*run)(void))
{
	struct os_simulation sim;
	struct error err = ERROR_INIT;

	os_simulation_init(&sim, 1);
	if (os_simulate(&sim, in_simulation, (void *)run, &err))
		fail_msg("%s", err.text);
}

struct names {
	char text[4096];
};

static bool name_add(void *arg, const struct dataset_info *info)
{
	struct names *n = arg;

	strcat(n->text, info->path);
	strcat(n->text, " ");
	return true;
}

static void assert_names(struct world *w, const char *path, const char *expected)
{
	struct names n = {""};

	ok(pool_dataset_list(w->p, path, name_add, &n, &err));
	assert_string_equal(n.text, expected);
}

static void assert_property(struct world *w, const char *path, const char *name, const char *value, const char *source)
{
	char found[256], from[300];

	ok(pool_property_get(w->p, path, name, found, from, &err));
	assert_string_equal(found, value);
	assert_string_equal(from, source);
}

static uint64_t number(struct world *w, const char *path, const char *name)
{
	char found[256], from[300];

	ok(pool_property_get(w->p, path, name, found, from, &err));
	return strtoull(found, NULL, 10);
}

static uint64_t free_bytes(struct world *w)
{
	struct pool_status *s = malloc(sizeof(*s));
	uint64_t bytes;

	for (unsigned i = 0; i < 4; i++)
		ok(pool_checkpoint(w->p, &err)); /* what was freed is free after two more */
	pool_status_get(w->p, s);
	bytes = s->space.available_bytes;
	free(s);
	return bytes;
}

/* --- names -------------------------------------------------------------------------------------------------------- */

static void names(void)
{
	struct world w;

	world_open(&w, "parity1", 1);
	assert_names(&w, NULL, "tank ");
	ok(pool_dataset_create(w.p, "tank/b", NULL, &err));
	ok(pool_dataset_create(w.p, "tank/a", NULL, &err));
	ok(pool_dataset_create(w.p, "tank/a/deep", NULL, &err));
	ok(pool_dataset_create(w.p, "tank/a-1", NULL, &err));
	ok(pool_volume_create(w.p, "tank/a/v", 4 * MIB, 8192, true, NULL, &err));
	ok(pool_snapshot_create(w.p, "tank/a@z", true, &err));
	ok(pool_snapshot_create(w.p, "tank/a@b", false, &err));
	assert_names(&w, NULL,
		"tank tank/a tank/a@z tank/a@b tank/a/deep tank/a/deep@z tank/a/v tank/a/v@z tank/a-1 tank/b ");
	refused(pool_dataset_create(w.p, "tank/a", NULL, &err), ERR_EXISTS);
	refused(pool_dataset_create(w.p, "tank/x/y", NULL, &err), ERR_NOT_FOUND);
	refused(pool_dataset_create(w.p, "other/x", NULL, &err), ERR_NOT_FOUND);
	refused(pool_dataset_create(w.p, "tank", NULL, &err), ERR_USAGE);
	refused(pool_dataset_create(w.p, "tank/", NULL, &err), ERR_USAGE);
	refused(pool_dataset_create(w.p, "tank//x", NULL, &err), ERR_USAGE);
	refused(pool_dataset_create(w.p, "tank/a%b", NULL, &err), ERR_USAGE);
	refused(pool_dataset_create(w.p, "tank/..", NULL, &err), ERR_USAGE);
	refused(pool_dataset_create(w.p, "tank/a@x", NULL, &err), ERR_USAGE);
	refused(pool_dataset_create(w.p, "tank/a/v/x", NULL, &err), ERR_USAGE);
	refused(pool_snapshot_create(w.p, "tank/a", false, &err), ERR_USAGE);
	refused(pool_snapshot_create(w.p, "tank/a@b", false, &err), ERR_EXISTS);
	refused(pool_snapshot_create(w.p, "tank/a@b@c", false, &err), ERR_USAGE);
	refused(pool_volume_create(w.p, "tank/n", 0, 0, true, NULL, &err), ERR_USAGE);
	refused(pool_volume_create(w.p, "tank/n", MIB, 5000, true, NULL, &err), ERR_USAGE);
	refused(pool_volume_create(w.p, "tank/n", UINT64_MAX, 4096, true, NULL, &err), ERR_USAGE);
	refused(pool_volume_create(w.p, "tank/n", 1024ull * MIB, 4096, false, NULL, &err), ERR_SPACE);
	ok(pool_volume_create(w.p, "tank/sparse", 1ull << 50, 4096, true, NULL, &err));

	char longest[300] = "tank/";

	memset(longest + 5, 'x', 251);
	refused(pool_dataset_create(w.p, longest, NULL, &err), ERR_USAGE);
	longest[255] = 0;
	ok(pool_dataset_create(w.p, longest, NULL, &err));
	ok(pool_dataset_destroy(w.p, longest, false, &err));

	ok(pool_dataset_rename(w.p, "tank/a", "tank/b/c", &err));
	ok(pool_dataset_rename(w.p, "tank/b/c@z", "tank/b/c@y", &err));
	refused(pool_dataset_rename(w.p, "tank/b", "tank/b/c/d", &err), ERR_USAGE);
	refused(pool_dataset_rename(w.p, "tank/b/c@y", "tank/b@y", &err), ERR_USAGE);
	refused(pool_dataset_rename(w.p, "tank", "tank/b/q", &err), ERR_USAGE);
	refused(pool_dataset_rename(w.p, "tank/b/c@y", "tank/b/c@b", &err), ERR_EXISTS);
	refused(pool_dataset_rename(w.p, "tank/nothing", "tank/q", &err), ERR_NOT_FOUND);
	for (unsigned round = 0; round < 3; round++) {
		assert_names(&w, "tank/b",
			"tank/b tank/b/c tank/b/c@y tank/b/c@b tank/b/c/deep tank/b/c/deep@z tank/b/c/v tank/b/c/v@z ");
		again(&w, round % 2);
	}
	refused(pool_dataset_destroy(w.p, "tank/b", false, &err), ERR_REFUSED);
	refused(pool_dataset_destroy(w.p, "tank", true, &err), ERR_USAGE);
	ok(pool_dataset_destroy(w.p, "tank/b", true, &err));
	assert_names(&w, NULL, "tank tank/a-1 tank/sparse ");
	again(&w, false);
	assert_names(&w, NULL, "tank tank/a-1 tank/sparse ");
	again(&w, true);
	assert_names(&w, NULL, "tank tank/a-1 tank/sparse ");
	world_close(&w);
}

/* --- properties --------------------------------------------------------------------------------------------------- */

static void properties(void)
{
	static const char *const made_with[] = {"compression=zstd-7", "comment=hello there", NULL};
	static const char *const bad[] = {"compression=fast", NULL}, *const worse[] = {"used=3", NULL},
				 *const shape[] = {"x", NULL};
	static const char *const volume_with[] = {"volblocksize=64k", "sync=always", NULL};
	struct world w;

	world_open(&w, "parity1", 1);
	ok(pool_dataset_create(w.p, "tank/a", made_with, &err));
	ok(pool_dataset_create(w.p, "tank/a/b", NULL, &err));
	ok(pool_volume_create(w.p, "tank/a/b/v", 3 * MIB, 0, false, volume_with, &err));
	ok(pool_snapshot_create(w.p, "tank/a/b/v@s", false, &err));
	refused(pool_dataset_create(w.p, "tank/q", bad, &err), ERR_USAGE);
	refused(pool_dataset_create(w.p, "tank/q", worse, &err), ERR_USAGE);
	refused(pool_dataset_create(w.p, "tank/q", shape, &err), ERR_USAGE);
	for (unsigned round = 0; round < 3; round++) {
		assert_property(&w, "tank", "compression", "off", "default");
		assert_property(&w, "tank/a", "compression", "zstd-7", "local");
		assert_property(&w, "tank/a/b/v", "compression", "zstd-7", "inherited from tank/a");
		assert_property(&w, "tank/a/b/v@s", "compress", "zstd-7", "inherited from tank/a");
		assert_property(&w, "tank/a", "comment", "hello there", "local");
		assert_property(&w, "tank/a/b", "comment", "", "default");
		assert_property(&w, "tank/a/b/v", "volblocksize", "65536", "-");
		assert_property(&w, "tank/a/b/v", "recordsize", "65536", "-");
		assert_property(&w, "tank/a/b/v", "volsize", "3145728", "-");
		assert_property(&w, "tank/a/b/v", "reservation", "3145728", "local");
		assert_property(&w, "tank/a/b/v", "sync", "always", "local");
		assert_property(&w, "tank/a/b/v", "type", "volume", "-");
		assert_property(&w, "tank/a/b/v@s", "type", "snapshot", "-");
		assert_property(&w, "tank/a/b", "recordsize", "131072", "default");
		again(&w, round % 2);
	}
	os_mutex_lock(&w.p->lock);
	struct dataset *d = dataset_by_path(w.p, "tank/a/b/v", NULL);

	assert_true(d->compression == COMPRESS_ZSTD && d->compression_level == 7 && d->sync_always && !d->read_only);
	os_mutex_unlock(&w.p->lock);
	ok(pool_property_set(w.p, "tank/a", "compression", "on", &err));
	ok(pool_property_set(w.p, "tank/a/b", "checksum", "sha256", &err));
	ok(pool_property_set(w.p, "tank/a", "readonly", "on", &err));
	ok(pool_property_set(w.p, "tank/a/b", "recordsize", "16KiB", &err));
	ok(pool_property_set(w.p, "tank/a/b/v@s", "comment", "seen", &err));
	os_mutex_lock(&w.p->lock);
	assert_true(d->compression == COMPRESS_LZ4 && d->checksum == CHECKSUM_SHA256 && d->read_only);
	os_mutex_unlock(&w.p->lock);
	ok(pool_volume_create(w.p, "tank/a/b/w", 3 * MIB, 0, true, NULL, &err));
	assert_property(&w, "tank/a/b/w", "volblocksize", "16384", "-");
	assert_property(&w, "tank/a/b/w", "reservation", "none", "default");
	ok(pool_property_inherit(w.p, "tank/a", "compression", &err));
	assert_property(&w, "tank/a/b/v", "compression", "off", "default");
	ok(pool_property_inherit(w.p, "tank/a", "compression", &err));
	refused(pool_property_set(w.p, "tank/a", "used", "1", &err), ERR_USAGE);
	refused(pool_property_set(w.p, "tank/a", "nothing", "1", &err), ERR_USAGE);
	refused(pool_property_set(w.p, "tank/a", "compression", "zstd-20", &err), ERR_USAGE);
	refused(pool_property_set(w.p, "tank/a", "checksum", "off", &err), ERR_USAGE);
	refused(pool_property_set(w.p, "tank/a", "recordsize", "5000", &err), ERR_USAGE);
	refused(pool_property_set(w.p, "tank/a", "recordsize", "2MiB", &err), ERR_USAGE);
	refused(pool_property_set(w.p, "tank/a/b/v", "recordsize", "4096", &err), ERR_USAGE);
	refused(pool_property_set(w.p, "tank/a/b/v@s", "compression", "on", &err), ERR_USAGE);
	refused(pool_property_set(w.p, "tank/a", "copies", "4", &err), ERR_USAGE);
	refused(pool_property_set(w.p, "tank/a", "copies", "2", &err), ERR_UNSUPPORTED);
	refused(pool_property_set(w.p, "tank/a", "comment", "a\nb", &err), ERR_USAGE);
	refused(pool_property_set(w.p, "tank/a", "quota", "4096", &err),
		ERR_SPACE); /* three MiB are reserved below it */
	ok(pool_property_set(w.p, "tank/a", "quota", "5MiB", &err));
	refused(pool_volume_create(w.p, "tank/a/x", 3 * MIB, 0, false, NULL, &err), ERR_SPACE);
	assert_true(number(&w, "tank/a/b", "available") <= 5 * MIB);
	ok(pool_property_set(w.p, "tank/a", "quota", "none", &err));
	ok(pool_volume_create(w.p, "tank/a/x", 3 * MIB, 0, false, NULL, &err));
	for (unsigned i = 0; pool_property_name(i); i++) {
		char value[256], source[300];

		ok(pool_property_get(w.p, "tank/a/b/v", pool_property_name(i), value, source, &err));
	}
	world_close(&w);
}

static bool history_add(void *arg, uint64_t wall_ns, const char *command)
{
	struct names *n = arg;

	assert_true(wall_ns > 0);
	strcat(n->text, command);
	strcat(n->text, ";");
	return true;
}

static void history(void)
{
	struct world w;

	world_open(&w, "mirror", 2);
	ok(pool_history_add(w.p, "create tank", &err));
	for (unsigned round = 0; round < 3; round++) {
		struct names n = {""};

		again(&w, round % 2);
		ok(pool_history_list(w.p, history_add, &n, &err));
		assert_string_equal(n.text, round == 0   ? "create tank;"
					    : round == 1 ? "create tank;set 0;"
							 : "create tank;set 0;set 1;");
		ok(pool_history_add(w.p, round ? "set 1" : "set 0", &err));
	}
	world_close(&w);
}

/* --- snapshots ---------------------------------------------------------------------------------------------------- */

#define RECORD 16384u
#define RECORDS 64u

static void write_records(struct world *w, const char *path, unsigned first, unsigned count, unsigned stamp)
{
	struct volume *v;
	uint8_t *bytes = malloc(RECORD);
	struct random r;

	ok(volume_open(w->p, path, &v, &err));
	for (unsigned i = first; i < first + count; i++) {
		random_seed(&r, i * 1000 + stamp);
		random_fill(&r, bytes, RECORD);
		ok(volume_write(v, (uint64_t)i * RECORD, bytes, RECORD, &err));
	}
	volume_close(v);
	free(bytes);
}

static void assert_records(struct world *w, const char *path, unsigned first, unsigned count, unsigned stamp)
{
	struct volume *v;
	uint8_t *bytes = malloc(RECORD), *expected = calloc(1, RECORD);
	struct random r;

	ok(volume_open(w->p, path, &v, &err));
	for (unsigned i = first; i < first + count; i++) {
		random_seed(&r, i * 1000 + stamp);
		if (stamp)
			random_fill(&r, expected, RECORD);
		ok(volume_read(v, (uint64_t)i * RECORD, bytes, RECORD, &err));
		if (memcmp(bytes, expected, RECORD))
			fail_msg("%s record %u is not what was written with stamp %u", path, i, stamp);
	}
	volume_close(v);
	free(bytes);
	free(expected);
}

static void finding(void *arg, const char *sentence)
{
	print_message("found: %s\n", sentence);
	++*(unsigned *)arg;
}

static void assert_sound(struct world *w)
{
	struct pool_check_result result;
	unsigned findings = 0;

	ok(pool_check(w->p, true, finding, &findings, &result, &err));
	assert_int_equal(findings, 0);
}

static void snapshots(void)
{
	struct world w;
	uint64_t free_before, free_after;

	world_open(&w, "parity1", 1);
	ok(pool_history_add(w.p, "x", &err));
	free_before = free_bytes(&w);
	ok(pool_volume_create(w.p, "tank/v", RECORDS * RECORD, RECORD, true, NULL, &err));
	write_records(&w, "tank/v", 0, RECORDS, 1);
	ok(pool_snapshot_create(w.p, "tank/v@1", false, &err));
	write_records(&w, "tank/v", 0, 20, 2);
	ok(pool_snapshot_create(w.p, "tank/v@2", false, &err));
	write_records(&w, "tank/v", 10, 20, 3);
	ok(pool_snapshot_create(w.p, "tank/v@3", false, &err));
	write_records(&w, "tank/v", 0, 64, 4);
	ok(pool_clone_create(w.p, "tank/v@2", "tank/c", &err));
	write_records(&w, "tank/c", 5, 1, 9);
	for (unsigned round = 0; round < 3; round++) {
		assert_records(&w, "tank/v@1", 0, RECORDS, 1);
		assert_records(&w, "tank/v@2", 0, 20, 2);
		assert_records(&w, "tank/v@2", 20, 44, 1);
		assert_records(&w, "tank/v@3", 0, 10, 2);
		assert_records(&w, "tank/v@3", 10, 20, 3);
		assert_records(&w, "tank/v@3", 30, 34, 1);
		assert_records(&w, "tank/v", 0, RECORDS, 4);
		assert_records(&w, "tank/c", 0, 5, 2);
		assert_records(&w, "tank/c", 5, 1, 9);
		assert_records(&w, "tank/c", 6, 14, 2);
		assert_sound(&w);
		if (round == 0)
			ok(pool_commit(w.p, &err));
		again(&w, round % 2);
	}
	refused(pool_dataset_destroy(w.p, "tank/v@2", false, &err), ERR_REFUSED); /* the clone's */
	refused(pool_dataset_destroy(w.p, "tank/v", true, &err), ERR_REFUSED);
	refused(pool_snapshot_rollback(w.p, "tank/v@1", false, &err), ERR_REFUSED);
	refused(pool_snapshot_rollback(w.p, "tank/v@1", true, &err), ERR_REFUSED);
	refused(pool_snapshot_rollback(w.p, "tank/v", true, &err), ERR_USAGE);
	ok(pool_dataset_destroy(w.p, "tank/v@1", false, &err));
	assert_records(&w, "tank/v@2", 20, 44, 1);
	assert_sound(&w);
	ok(pool_snapshot_rollback(w.p, "tank/v@2", true, &err));
	assert_records(&w, "tank/v", 0, 20, 2);
	assert_records(&w, "tank/v", 20, 44, 1);
	assert_sound(&w);
	again(&w, false);
	assert_records(&w, "tank/v", 0, 20, 2);
	ok(pool_dataset_destroy(w.p, "tank/c", false, &err));
	assert_sound(&w);
	for (unsigned i = 3; i < 7; i++) { /* several of one dataset, gone in one commit */
		char name[32];

		snprintf(name, sizeof(name), "tank/v@%u", i);
		write_records(&w, "tank/v", i * 5, 10, i);
		ok(pool_snapshot_create(w.p, name, false, &err));
	}
	write_records(&w, "tank/v", 0, RECORDS, 8);
	ok(pool_snapshot_rollback(w.p, "tank/v@4", true, &err));
	assert_names(&w, NULL, "tank tank/v tank/v@2 tank/v@3 tank/v@4 ");
	assert_records(&w, "tank/v", 20, 10, 4);
	assert_records(&w, "tank/v", 15, 5, 3);
	assert_sound(&w);
	ok(pool_dataset_destroy(w.p, "tank/v", true, &err));
	assert_names(&w, NULL, "tank ");
	assert_sound(&w);
	free_after = free_bytes(&w);
	assert_true(free_after + 4 * MIB >= free_before); /* zones that took a class keep it */
	again(&w, true);
	assert_names(&w, NULL, "tank ");
	assert_int_equal(number(&w, "tank", "used"), 0);
	assert_sound(&w);
	world_close(&w);
}

/* --- dump --------------------------------------------------------------------------------------------------------- */

struct dumped {
	unsigned lines, found;
	const char *wanted;
};

static void dump_line(void *arg, const char *text)
{
	struct dumped *d = arg;

	d->lines++;
	d->found += d->wanted && strstr(text, d->wanted) != NULL;
}

static unsigned dump_finds(struct world *w, const char *what, const char *wanted)
{
	struct dumped d = {.wanted = wanted};

	ok(pool_dump(w->disks, DISKS, what, dump_line, &d, &err));
	return d.found;
}

static void dumps(void)
{
	struct world w;
	struct dumped d = {0};
	struct random r;
	uint8_t *noise = aligned_alloc(4096, 65536);

	world_open(&w, "parity1", 1);
	ok(pool_volume_create(w.p, "tank/vol", 8 * MIB, 8192, true, NULL, &err));
	write_records(&w, "tank/vol", 0, 32, 1);
	ok(pool_property_set(w.p, "tank", "comment", "seen by dump", &err));
	ok(pool_checkpoint(w.p, &err));
	ok(pool_history_add(w.p, "after the checkpoint", &err));
	pool_abandon(w.p);
	assert_int_equal(dump_finds(&w, "labels", "pool tank"), DISKS);
	assert_true(dump_finds(&w, "uberblocks", "both ends") >= 2 * DISKS);
	assert_true(dump_finds(&w, "log", "catalog: ") >= 1);
	assert_true(dump_finds(&w, "runs", "2 + 1 columns of 8192") >= 1);
	assert_true(dump_finds(&w, "catalog", "volume 'vol'") == 1);
	assert_true(dump_finds(&w, "catalog", "seen by dump") == 1);
	assert_int_equal(dump_finds(&w, "trees", "data: 8192 bytes in 8192"), 64);
	refused(pool_dump(w.disks, DISKS, "everything", dump_line, &d, &err), ERR_USAGE);
	random_seed(&r, 5);
	for (unsigned i = 0; i < 200; i++) { /* damage of any kind is only told */
		random_fill(&r, noise, 65536);
		ok(disk_write(w.disks[i % DISKS], random_below(&r, 1024) * 65536, noise, 65536, &err));
		if (i % 20 == 19)
			(void)pool_dump(w.disks, DISKS, "all", dump_line, &d, NULL);
	}
	assert_true(d.lines > 100);
	free(noise);
	for (unsigned i = 0; i < DISKS; i++)
		disk_close(w.disks[i]);
}

static void test_names(void **state)
{
	simulate(names);
}
static void test_properties(void **state)
{
	simulate(properties);
}
static void test_history(void **state)
{
	simulate(history);
}
static void test_snapshots(void **state)
{
	simulate(snapshots);
}

static void test_dumps(void **state)
{
	simulate(dumps);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_properties),
		cmocka_unit_test(test_history),
		cmocka_unit_test(test_snapshots),
		cmocka_unit_test(test_dumps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
