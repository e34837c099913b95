/* What the tests of array share: memory disks, an array on them, and a plain copy of what it should hold. */
#ifndef ARRAY_TEST_WORLD_H
#define ARRAY_TEST_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

#include "array.h"

#define WORLD_DISKS 16

struct world {
	struct disk *disks[WORLD_DISKS];
	unsigned count;
	struct array *array;
	uint8_t *copy; /* what the array should hold */
	uint64_t size;
	struct random random;
	struct array_open_options options;
	uint8_t *buffer;
};

#define WORLD_BUFFER (4u << 20)

static inline void must(int rc, const struct error *err)
{
	if (rc)
		print_message("%s: %s\n", error_name(rc), err->text);
	assert_int_equal(rc, 0);
}

static inline void world_disks(struct world *w, unsigned count, uint64_t bytes)
{
	struct error err = ERROR_INIT;

	w->count = count;
	for (unsigned i = 0; i < count; i++) {
		char name[32];

		snprintf(name, sizeof name, "mem#%u", i);
		must(disk_open_memory(name, bytes, &w->disks[i], &err), &err);
	}
}

/* Old bytes lie on the disks: a row that was never written must read as zeros all the same. */
static inline void world_soil(struct world *w)
{
	struct error err = ERROR_INIT;
	uint8_t *dirt = aligned_alloc(4096, 1 << 20);

	memset(dirt, 0xa5, 1 << 20);
	for (unsigned i = 0; i < w->count; i++)
		for (uint64_t at = 0; at + (1 << 20) <= disk_traits(w->disks[i])->size_bytes; at += 1 << 20)
			must(disk_write(w->disks[i], at, dirt, 1 << 20, &err), &err);
	free(dirt);
}

static inline void world_create(struct world *w, const char *layout, uint64_t chunk, enum array_hole hole)
{
	struct error err = ERROR_INIT;

	must(array_create(
		     &(struct array_create_options){
			     .name = "tank", .layout = layout, .chunk_bytes = chunk, .hole = hole},
		     w->disks, w->count, &err),
		&err);
}

/* The disks in any order. */
static inline int world_try_open(struct world *w, struct error *err)
{
	struct disk *mixed[WORLD_DISKS];
	unsigned n = 0;

	for (unsigned i = 0; i < w->count; i++)
		if (w->disks[i])
			mixed[n++] = w->disks[i];
	for (unsigned i = n; i > 1; i--) {
		unsigned k = (unsigned)random_below(&w->random, i);
		struct disk *d = mixed[i - 1];

		mixed[i - 1] = mixed[k];
		mixed[k] = d;
	}
	return array_open(&w->array, &w->options, mixed, n, err);
}

static inline void world_open(struct world *w)
{
	struct error err = ERROR_INIT;

	must(world_try_open(w, &err), &err);
	w->size = array_size_bytes(w->array);
	if (!w->copy)
		w->copy = calloc(1, w->size);
	if (!w->buffer)
		w->buffer = aligned_alloc(4096, WORLD_BUFFER + 4096);
}

static inline void world_close(struct world *w)
{
	struct error err = ERROR_INIT;

	must(array_close(w->array, &err), &err);
	w->array = NULL;
}

static inline void world_free(struct world *w)
{
	for (unsigned i = 0; i < w->count; i++)
		disk_close(w->disks[i]);
	free(w->copy);
	free(w->buffer);
}

static inline void world_write(struct world *w, uint64_t offset, uint64_t length)
{
	struct error err = ERROR_INIT;

	random_fill(&w->random, w->copy + offset, length);
	must(array_write(w->array, offset, w->copy + offset, length, &err), &err);
}

static inline void world_check(struct world *w, uint64_t offset, uint64_t length)
{
	struct error err = ERROR_INIT;

	while (length) {
		uint64_t n = length < WORLD_BUFFER ? length : WORLD_BUFFER;

		memset(w->buffer, 0x5a, n);
		must(array_read(w->array, offset, w->buffer, n, &err), &err);
		if (memcmp(w->buffer, w->copy + offset, n)) {
			uint64_t at = 0;

			while (w->buffer[at] == w->copy[offset + at])
				at++;
			fail_msg("byte %llu is %02x, should be %02x", (unsigned long long)(offset + at), w->buffer[at],
				w->copy[offset + at]);
		}
		offset += n;
		length -= n;
	}
}
static inline void world_check_all(struct world *w)
{
	world_check(w, 0, w->size);
}

static inline void world_flush(struct world *w)
{
	struct error err = ERROR_INIT;

	must(array_flush(w->array, &err), &err);
}

/* A random range of whole sectors, mostly small. */
static inline void world_range(struct world *w, uint64_t *offset, uint64_t *length)
{
	static const uint64_t most[] = {512, 4096, 16384, 128 << 10, 1 << 20, 3 << 20};
	uint64_t sectors = w->size / 512, n = 1 + random_below(&w->random, most[random_below(&w->random, 6)] / 512);

	n = n < sectors ? n : sectors;
	*length = n * 512;
	*offset = random_below(&w->random, sectors - n + 1) * 512;
	if (random_below(&w->random, 4) == 0)
		*offset = *offset / 4096 * 4096;
}

static inline void world_work(struct world *w, unsigned operations)
{
	for (unsigned i = 0; i < operations; i++) {
		uint64_t offset, length;

		world_range(w, &offset, &length);
		switch (random_below(&w->random, 16)) {
		case 0:
			world_flush(w);
			break;
		case 1:
			array_drop_cache(w->array);
			break;
		case 2:
			os_sleep_ns(random_below(&w->random, 2000000000));
			break;
		case 3:
		case 4:
		case 5:
		case 6:
		case 7:
			world_check(w, offset, length);
			break;
		default:
			world_write(w, offset, length);
		}
	}
}

static inline void world_init(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof *w);
	random_seed(&w->random, seed);
	array_open_options_init(&w->options);
}

/* Parity and copies agree everywhere. */
static inline void world_sound(struct world *w)
{
	struct array_check_result r;
	struct error err = ERROR_INIT;

	must(array_check(w->array, false, &r, NULL, NULL, &err), &err);
	assert_int_equal(r.mismatched_rows, 0);
	assert_int_equal(r.unreadable_chunks, 0);
}

static inline void simulated(int (*run)(void *), void *arg, uint64_t seed)
{
	struct os_simulation s;
	struct error err = ERROR_INIT;

	os_simulation_init(&s, seed);
	s.cpus = 0;
	int rc = os_simulate(&s, run, arg, &err);
	if (rc)
		print_message("seed %llu: %s\n", (unsigned long long)seed, err.text);
	assert_int_equal(rc, 0);
}

#endif
