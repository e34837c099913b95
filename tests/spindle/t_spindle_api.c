/* The public library as another program uses it: this file includes spindle.h and nothing else of the project. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

#include "spindle.h"

#define DISKS 5

struct bench {
	struct spindle_disk *disks[DISKS];
	struct spindle_array *array;
};

static void must(int rc, const struct spindle_error *err)
{
	if (rc)
		print_message("%d: %s\n", rc, err->text);
	assert_int_equal(rc, 0);
}

static int setup(void **state)
{
	struct bench *b = calloc(1, sizeof *b);
	struct spindle_error err = {0};

	for (unsigned i = 0; i < DISKS; i++)
		must(spindle_disk_open("mem:24MiB", 0, &b->disks[i], &err), &err);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct bench *b = *state;

	for (unsigned i = 0; i < DISKS; i++)
		spindle_disk_close(b->disks[i]);
	free(b);
	return 0;
}

static void test_there_and_back(void **state)
{
	struct bench *b = *state;
	struct spindle_error err = {0};
	struct spindle_array_info info;
	uint8_t *out = malloc(3 << 20), *in = malloc((3 << 20) + 1);

	for (unsigned i = 0; i < 3 << 20; i++)
		out[i] = (uint8_t)(i * 7 + i / 4096);
	must(spindle_array_create(
		     &(struct spindle_array_options){.name = "tank", .layout = "raid5", .chunk_bytes = 65536}, b->disks,
		     DISKS, &err),
		&err);
	must(spindle_array_open("tank", b->disks, DISKS, 0, &b->array, &err), &err);
	assert_int_equal(spindle_array_sector(b->array), 512);
	must(spindle_array_write(b->array, 512 * 3, out, 3 << 20, &err), &err);
	must(spindle_array_read(b->array, 512 * 3, in + 1, 3 << 20, &err), &err); /* buffers need no alignment */
	assert_memory_equal(in + 1, out, 3 << 20);
	must(spindle_array_flush(b->array, &err), &err);
	spindle_array_drop_cache(b->array);
	must(spindle_array_read(b->array, 512 * 3, in + 1, 3 << 20, &err), &err);
	assert_memory_equal(in + 1, out, 3 << 20);
	spindle_array_info(b->array, &info);
	assert_string_equal(info.name, "tank");
	assert_string_equal(info.layout, "raid5");
	assert_string_equal(info.state, "healthy");
	assert_int_equal(info.members, DISKS);
	assert_int_equal(info.members_online, DISKS);
	assert_int_equal(info.failures_survived, 1);
	assert_int_equal(info.failures_left, 1);
	assert_int_equal(info.chunk, 65536);
	assert_int_equal(info.size, spindle_array_size(b->array));
	assert_int_equal(strlen(info.id), 32);
	assert_string_equal(info.slow_member, "");
	must(spindle_array_close(b->array, &err), &err);
	/* One disk less. */
	must(spindle_array_open(NULL, b->disks + 1, DISKS - 1, 0, &b->array, &err), &err);
	must(spindle_array_read(b->array, 512 * 3, in + 1, 3 << 20, &err), &err);
	assert_memory_equal(in + 1, out, 3 << 20);
	spindle_array_info(b->array, &info);
	assert_string_equal(info.state, "degraded");
	assert_int_equal(info.failures_left, 0);
	must(spindle_array_close(b->array, &err), &err);
	must(spindle_array_close(NULL, &err), &err);
	free(out);
	free(in);
}

static void test_pool_there_and_back(void **state)
{
	struct bench *b = *state;
	struct spindle_error err = {0};
	struct spindle_pool *pool;
	struct spindle_volume *v;
	struct spindle_pool_info info;
	struct spindle_pool_group group = {"parity1", DISKS};
	struct spindle_pool_open_options small = {.cache_bytes = 8 << 20, .dirty_bytes = 4 << 20};
	static const char *const properties[] = {"compression=lz4", NULL};
	uint8_t *out = malloc(3 << 20), *in = malloc((3 << 20) + 1);

	for (uint32_t i = 0, x = 1; i < 3 << 20; i++) {
		x = x * 1664525 + 1013904223;
		out[i] = i % 65536 < 30000 ? 'a' : (uint8_t)(x >> 24); /* compresses, but not to nothing */
	}
	must(spindle_pool_create(&(struct spindle_pool_options){.name = "tank", .groups = &group, .group_count = 1},
		     b->disks, DISKS, &err),
		&err);
	must(spindle_pool_open("tank", b->disks, DISKS, &small, &pool, &err), &err);
	must(spindle_volume_create(pool, "tank/v", 16 << 20, 65536, properties, &err), &err);
	assert_int_not_equal(spindle_volume_create(pool, "tank/v", 16 << 20, 65536, NULL, &err), 0);
	memset(&err, 0, sizeof err);
	must(spindle_volume_open(pool, "tank/v", &v, &err), &err);
	assert_int_equal(spindle_volume_size(v), 16 << 20);
	assert_int_equal(spindle_volume_record(v), 65536);
	must(spindle_volume_write(v, 12345, out, 3 << 20, &err), &err); /* any bytes */
	must(spindle_volume_flush(v, &err), &err);
	must(spindle_volume_discard(v, 12345 + 100000, 200000, &err), &err);
	memset(out + 100000, 0, 200000);
	spindle_pool_drop_cache(pool);
	must(spindle_volume_read(v, 12345, in + 1, 3 << 20, &err), &err);
	assert_memory_equal(in + 1, out, 3 << 20);
	spindle_pool_info(pool, &info);
	assert_string_equal(info.name, "tank");
	assert_string_equal(info.state, "online");
	assert_int_equal(info.disks_online, DISKS);
	assert_int_equal(info.failures_left, 1);
	assert_true(info.used > 0 && info.used + info.available <= info.size);
	spindle_volume_close(v);
	must(spindle_pool_close(pool, &err), &err);
	/* One disk less. */
	must(spindle_pool_open(NULL, b->disks + 1, DISKS - 1, NULL, &pool, &err), &err);
	must(spindle_volume_open(pool, "tank/v", &v, &err), &err);
	must(spindle_volume_read(v, 12345, in + 1, 3 << 20, &err), &err);
	assert_memory_equal(in + 1, out, 3 << 20);
	spindle_pool_info(pool, &info);
	assert_string_equal(info.state, "degraded");
	assert_int_equal(info.failures_left, 0);
	spindle_volume_close(v);
	must(spindle_pool_export(pool, &err), &err);
	must(spindle_pool_close(NULL, &err), &err);
	spindle_volume_close(NULL);
	group.kind = "parity9";
	assert_int_not_equal(
		spindle_pool_create(&(struct spindle_pool_options){.name = "tank", .groups = &group, .group_count = 1},
			b->disks, DISKS, &err),
		0);
	assert_non_null(strstr(err.text, "parity9"));
	free(out);
	free(in);
}

struct refusal {
	struct spindle_array_options options;
	unsigned disks;
	const char *says;
};

static void test_refusals(void **state)
{
	struct bench *b = *state;
	struct spindle_error err = {0};
	struct spindle_disk *d;
	static const struct refusal refusals[] = {
		{{.name = "t", .layout = "raid7"}, 5, "raid7"},
		{{.name = "t"}, 5, "no layout"},
		{{.name = "t", .layout = "raid5", .chunk_bytes = 5000}, 5, "5000"},
		{{.name = "t", .layout = "raid5"}, 2, "at least 3"},
		{{.name = "t", .layout = "raid5", .rotation = "sideways"}, 5, "sideways"},
		{{.name = "t", .layout = "raid5", .write_hole = "hope"}, 5, "hope"},
		{{.name = "", .layout = "raid5"}, 5, "name"},
		{{.layout = "raid5"}, 5, "name"},
		{{.name = "t", .layout = "raid5"}, 0, "0"},
	};

	for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
		memset(&err, 0, sizeof err);
		int rc = spindle_array_create(&refusals[i].options, b->disks, refusals[i].disks, &err);
		assert_int_not_equal(rc, 0);
		assert_int_equal(err.code, rc);
		if (!strstr(err.text, refusals[i].says))
			fail_msg("\"%s\" does not say \"%s\"", err.text, refusals[i].says);
		assert_int_equal(spindle_array_create(&refusals[i].options, b->disks, refusals[i].disks, NULL), rc);
	}
	assert_int_not_equal(spindle_disk_open("mem:24MiB*2", 0, &d, &err), 0);
	assert_int_not_equal(spindle_disk_open("mem:24MiB", 64, &d, &err), 0);
	assert_int_not_equal(spindle_disk_open("/nonexistent/disk", 0, &d, &err), 0);
	assert_int_not_equal(spindle_array_open("tank", b->disks, DISKS, 0, &b->array, &err), 0); /* none there */
}

struct caller {
	struct spindle_array *array;
	uint64_t from;
	int rc;
};

static void *call(void *arg)
{
	struct caller *c = arg;
	uint8_t out[8192], in[8192];

	for (unsigned i = 0; i < 200 && !c->rc; i++) {
		uint64_t at = c->from + i % 64 * sizeof out;

		memset(out, (int)(i + c->from / 4096), sizeof out);
		c->rc = spindle_array_write(c->array, at, out, sizeof out, NULL);
		if (!c->rc)
			c->rc = spindle_array_read(c->array, at, in, sizeof in, NULL);
		if (!c->rc && memcmp(in, out, sizeof in))
			c->rc = 1;
	}
	return NULL;
}

/* Threads that the library did not make. */
static void test_threads(void **state)
{
	struct bench *b = *state;
	struct spindle_error err = {0};
	struct caller callers[4];
	pthread_t threads[4];

	must(spindle_array_create(
		     &(struct spindle_array_options){.name = "t", .layout = "raid6"}, b->disks, DISKS, &err),
		&err);
	must(spindle_array_open("t", b->disks, DISKS, 0, &b->array, &err), &err);
	for (unsigned i = 0; i < 4; i++) {
		callers[i] = (struct caller){.array = b->array, .from = i * (1u << 20)};
		assert_int_equal(pthread_create(&threads[i], NULL, call, &callers[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(callers[i].rc, 0);
	}
	must(spindle_array_close(b->array, &err), &err);
	assert_true(spindle_version()[0] >= '0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_there_and_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pool_there_and_back, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
