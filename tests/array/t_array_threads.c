/* The real world: many threads at once, each with a part of the array of its own and a part that all read. */
#include "world.h"

struct hand {
	struct world *w;
	uint64_t from, bytes, seed;
	uint8_t *copy;
	const char *failed;
};

static void hand_run(void *arg)
{
	struct hand *h = arg;
	struct random r;
	struct error err = ERROR_INIT;
	uint8_t *buffer = aligned_alloc(4096, 512 << 10);

	random_seed(&r, h->seed);
	for (unsigned i = 0; i < 400 && !h->failed; i++) {
		uint64_t n = (1 + random_below(&r, random_below(&r, 8) ? 32 : 1024)) * 512,
			 at = random_below(&r, (h->bytes - n) / 512) * 512;

		if (random_below(&r, 2)) {
			random_fill(&r, h->copy + at, n);
			if (array_write(h->w->array, h->from + at, h->copy + at, n, &err))
				h->failed = "write";
		} else {
			if (array_read(h->w->array, h->from + at, buffer, n, &err))
				h->failed = "read";
			else if (memcmp(buffer, h->copy + at, n))
				h->failed = "compare";
		}
		if (random_below(&r, 40) == 0 && array_flush(h->w->array, &err))
			h->failed = "flush";
		if (random_below(&r, 60) == 0)
			array_drop_cache(h->w->array);
	}
	free(buffer);
}

static void together(const char *layout, unsigned disks, bool degraded)
{
	struct world w;
	struct error err = ERROR_INIT;
	struct hand hands[6];
	struct os_thread *threads[6];

	world_init(&w, 1);
	world_disks(&w, disks, 24 << 20);
	world_create(&w, layout, 64 << 10, ARRAY_HOLE_LOG);
	w.options.tuning.buffer_bytes = 4 << 20;
	w.options.tuning.buffer_age_ns = 5000000;
	struct disk *out = NULL;
	if (degraded) {
		out = w.disks[1];
		w.disks[1] = NULL;
	}
	world_open(&w);
	for (unsigned i = 0; i < 6; i++) {
		uint64_t bytes = w.size / 6 / 512 * 512;

		hands[i] = (struct hand){
			.w = &w, .from = i * bytes, .bytes = bytes, .seed = i + 1, .copy = calloc(1, bytes)};
		must(os_thread_create(&threads[i], "hand", hand_run, &hands[i], &err), &err);
	}
	if (degraded) /* rebuilt under their hands */
		must(array_replace(w.array, 1, out, true, NULL, NULL, &err), &err);
	for (unsigned i = 0; i < 6; i++) {
		os_thread_join(threads[i]);
		assert_null(hands[i].failed);
		memcpy(w.copy + hands[i].from, hands[i].copy, hands[i].bytes);
		free(hands[i].copy);
	}
	world_check_all(&w);
	if (disks > 1)
		world_sound(&w);
	if (out)
		w.disks[1] = out;
	world_close(&w);
	world_open(&w);
	world_check_all(&w);
	world_close(&w);
	world_free(&w);
}

static void test_raid5(void **state)
{
	together("raid5", 4, false);
}
static void test_raid6_rebuilt(void **state)
{
	together("raid6", 5, true);
}
static void test_raid10_rebuilt(void **state)
{
	together("raid10", 4, true);
}
static void test_far(void **state)
{
	together("raid10-far", 3, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_raid5), cmocka_unit_test(test_raid6_rebuilt),
		cmocka_unit_test(test_raid10_rebuilt), cmocka_unit_test(test_far)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
