/*
 * Caches, flushes, cliffs, buses, sectors and flash of modelled disks, in virtual time with free CPU. Invariants:
 * MODEL-2, HDD-2, HDD-3, FLASH-1, FLASH-2.
 */
#include <math.h>

#include "model_load.h"

static double ms_of(uint64_t ns)
{
	return (double)ns / MS;
}

/* --- the write cache and flushes of a disk --------------------------------------------------------------------- */

static int write_cache(void *arg)
{
	struct disk *d = open_word("mem:256MiB+model=hdd-7200-2008", NULL);
	uint8_t *b = aligned(4 * MiB);
	assert_between("4 KiB write into the cache, ms", ms_of(timed(d, DISK_WRITE, 100 * MiB, b, 4096)), 0.01, 0.5);
	assert_between("and read it from there, ms", ms_of(timed(d, DISK_READ, 100 * MiB, b, 4096)), 0.01, 0.5);
	timed(d, DISK_FLUSH, 0, NULL, 0);
	uint64_t ns = timed(d, DISK_WRITE, 0, b, 2 * MiB);
	assert_between("2 MiB into the cache, MB/s", 2.0 * MiB * 1e3 / (double)ns, 150, 260);
	assert_between("flush of 2 MiB, ms", ms_of(timed(d, DISK_FLUSH, 0, NULL, 0)), 20, 60);
	assert_between("flush of nothing, ms", ms_of(timed(d, DISK_FLUSH, 0, NULL, 0)), 0.1, 1);
	timed(d, DISK_WRITE, 200 * MiB, b, 4096);
	assert_between("flush of one 4 KiB write, ms", ms_of(timed(d, DISK_FLUSH, 0, NULL, 0)), 1, 30);
	struct random random;
	random_seed(&random, 3);
	for (int i = 0; i < 40; i++)
		timed(d, DISK_WRITE, random_below(&random, 65536) * 4096, b, 4096);
	assert_between("flush of forty scattered ones, ms each", ms_of(timed(d, DISK_FLUSH, 0, NULL, 0)) / 40, 3, 9);
	disk_close(d);
	d = open_word("mem:256MiB+model=hdd-7200-2008,flush_ms=50", NULL);
	assert_between("flush_ms=50, ms", ms_of(timed(d, DISK_FLUSH, 0, NULL, 0)), 50, 51);
	assert_true(disk_traits(d)->needs_flush);
	disk_close(d);
	d = open_word("mem:256MiB+model=hdd-7200-2008,cache_mib=0", NULL);
	assert_between("cache_mib=0: a write, ms", ms_of(timed(d, DISK_WRITE, 100 * MiB, b, 4096)), 1, 40);
	assert_between("and a flush, ms", ms_of(timed(d, DISK_FLUSH, 0, NULL, 0)), 0.1, 1);
	assert_false(disk_traits(d)->needs_flush);
	disk_close(d);
	free(b);
	return 0;
}

static int random_writes(void *arg)
{
	const char *word = "mem:256MiB+model=hdd-7200-2008";
	double read = random_iops(word, DISK_READ, 4096, 1, 2000);
	for (unsigned depth = 1; depth <= 32; depth *= 4) {
		double write = random_iops(word, DISK_WRITE, 4096, depth, 4000);
		assert_between("4 KiB random writes over reads at depth 1", write / read, 1.1, 2.5);
	}
	/* A write that follows its read: the read does not wait for the write before it. */
	struct disk *d = open_word(word, NULL);
	uint8_t *b = aligned(4096);
	struct random random;
	random_seed(&random, 5);
	uint64_t begin_ns = os_now_ns();
	for (int i = 0; i < 2000; i++) {
		uint64_t at = random_below(&random, 65536) * 4096;
		timed(d, DISK_READ, at, b, 4096);
		timed(d, DISK_WRITE, at, b, 4096);
	}
	assert_between(
		"read and write back at depth 1, pairs a second", 2000e9 / (double)(os_now_ns() - begin_ns), 35, 76);
	disk_close(d);
	d = open_word("mem:256MiB+model=hdd-7200-2008,cache_mib=0", NULL);
	begin_ns = os_now_ns();
	for (int i = 0; i < 500; i++) {
		uint64_t at = random_below(&random, 65536) * 4096;
		timed(d, DISK_READ, at, b, 4096);
		timed(d, DISK_WRITE, at, b, 4096);
	}
	assert_between("the same without a cache: a rotation more", 500e9 / (double)(os_now_ns() - begin_ns), 40, 52);
	disk_close(d);
	free(b);
	return 0;
}

/* A flush does not wait for what is written after it. */
static int flush_in_a_stream(void *arg)
{
	enum { WRITES = 64 };
	struct disk *d = open_word("mem:1GiB+model=hdd-7200-2008", NULL);
	struct disk_request writes[WRITES], flush;
	struct disk_queue *q;
	struct error err = ERROR_INIT;
	uint8_t *b = aligned(MiB);
	assert_ok(disk_queue_open(&q, &err), &err);
	timed(d, DISK_WRITE, 0, b, MiB);
	disk_request_init(&flush, DISK_FLUSH, 0, NULL, 0);
	disk_queue_submit(q, d, &flush);
	for (unsigned i = 0; i < WRITES; i++) {
		disk_request_init(&writes[i], DISK_WRITE, (i + 1) * MiB, b, MiB);
		disk_queue_submit(q, d, &writes[i]);
	}
	while (disk_queue_reap(q, UINT64_MAX))
		;
	assert_between("flush of 1 MiB with 64 MiB behind it, ms", ms_of(flush.done_ns - flush.submit_ns), 19, 60);
	disk_queue_close(q);
	disk_close(d);
	free(b);
	return 0;
}

/* Reads get through while the cache is full of writes, and writes while there is always a read. */
struct pressure {
	struct disk *d;
	enum disk_op op;
	uint64_t done, wait_ns_max;
	bool sequential;
};
static void press(void *arg)
{
	struct pressure *p = arg;
	struct random random;
	uint8_t *b = aligned(MiB);
	random_seed(&random, p->op);
	for (uint64_t next = 0; os_now_ns() < 20000 * MS; p->done++) {
		uint64_t at = p->sequential ? next++ % 900 * (uint64_t)MiB : random_below(&random, 200000) * 4096;
		uint64_t ns = timed(p->d, p->op, at, b, p->sequential ? MiB : 4096);
		p->wait_ns_max = max_of(p->wait_ns_max, ns);
	}
	free(b);
}
static void press_both(struct pressure *a, struct pressure *b)
{
	struct os_thread *threads[2];
	struct error err = ERROR_INIT;
	assert_ok(os_thread_create(&threads[0], "a", press, a, &err), &err);
	assert_ok(os_thread_create(&threads[1], "b", press, b, &err), &err);
	os_thread_join(threads[0]);
	os_thread_join(threads[1]);
}
static int fairness(void *arg)
{
	struct disk *d = open_word("mem:1GiB+model=hdd-7200-2008", NULL);
	struct pressure reads = {d, DISK_READ, 0, 0, false}, writes = {d, DISK_WRITE, 0, 0, true};
	press_both(&reads, &writes);
	assert_between("random reads a second beside a stream of writes", (double)reads.done / 20, 5, 76);
	assert_between("its MB/s", (double)writes.done * MiB / 20e6, 5, 55);
	assert_between("the longest wait of a read, ms", ms_of(reads.wait_ns_max), 5, 200);
	disk_close(d);
	return 0;
}
static int fairness_of_writes(void *arg)
{
	struct disk *d = open_word("mem:1GiB+model=hdd-7200-2008", NULL);
	struct pressure reads = {d, DISK_READ, 0, 0, true}, writes = {d, DISK_WRITE, 0, 0, false};
	press_both(&reads, &writes);
	assert_between("MB/s of a reader beside random writes", (double)reads.done * MiB / 20e6, 5, 55);
	assert_between("random writes a second", (double)writes.done / 20, 5, 200);
	disk_close(d);
	return 0;
}

/* --- sectors ------------------------------------------------------------------------------------------------------ */

static int sectors(void *arg)
{
	const char *word = "mem:256MiB+model=hdd-5400-512e";
	struct load whole = {.op = DISK_WRITE,
		.pattern = LOAD_RANDOM,
		.block_bytes = 4096,
		.depth = 1,
		.requests = 1500,
		.final_flush = true};
	struct load shifted = whole, small = whole;
	shifted.shift_bytes = 512;
	small.block_bytes = 512;
	load_fresh(word, &whole);
	load_fresh(word, &shifted);
	load_fresh(word, &small);
	double rotation_ms = 60e3 / 5400;
	printf("  whole sectors %.1f IOPS, shifted by 512 bytes %.1f, 512-byte blocks %.1f\n", whole.iops, shifted.iops,
		small.iops);
	assert_between("a shifted write costs more, ms", 1e3 / shifted.iops - 1e3 / whole.iops, rotation_ms * 0.9,
		rotation_ms * 1.1);
	assert_between(
		"so does a small one, ms", 1e3 / small.iops - 1e3 / whole.iops, rotation_ms * 0.8, rotation_ms * 1.2);
	struct load reads = {.op = DISK_READ, .pattern = LOAD_RANDOM, .block_bytes = 512, .depth = 1, .requests = 1000};
	load_fresh(word, &reads);
	assert_between("small reads lose nothing, IOPS", reads.iops, 55, 70);
	struct load stream = {.op = DISK_WRITE, .block_bytes = MiB, .depth = 1, .shift_bytes = 512, .requests = 96};
	stream.final_flush = true;
	load_fresh("mem:2GiB+model=hdd-5400-512e", &stream);
	assert_between("nor does a shifted stream, MB/s", stream.mb_per_s, 104, 112);

	struct disk *d = open_word(word, NULL);
	struct disk_counters counters;
	uint8_t *b = aligned(4096);
	assert_int_equal(disk_traits(d)->logical_bytes, 512);
	assert_int_equal(disk_traits(d)->physical_bytes, 4096);
	timed(d, DISK_WRITE, 4096, b, 4096);
	timed(d, DISK_WRITE, 512, b, 512);
	disk_counters(d, &counters);
	assert_int_equal(counters.unaligned_physical, 1);
	disk_close(d);
	d = open_word("mem:256MiB+model=hdd-7200-2008,logical=4096", NULL);
	assert_int_equal(disk_traits(d)->logical_bytes, 4096);
	assert_int_equal(disk_traits(d)->physical_bytes, 4096);
	struct error err = ERROR_INIT;
	assert_int_equal(disk_write(d, 512, b, 512, &err), ERR_USAGE);
	disk_close(d);
	free(b);
	return 0;
}

/* --- a shared bus --------------------------------------------------------------------------------------------------
 */

/* Every disk gets its own stream, so all are busy at once. */
struct streamer {
	struct disk *d;
	enum disk_op op;
	uint64_t end_ns;
};
static void stream_run(void *arg)
{
	struct streamer *s = arg;
	uint8_t *b = aligned(MiB);
	for (unsigned i = 0; i < 40; i++)
		timed(s->d, s->op, i * MiB, b, MiB);
	s->end_ns = os_now_ns();
	free(b);
}
static double all_streams_mb(const char *word, enum disk_op op)
{
	struct load l;
	struct streamer streamers[8];
	struct os_thread *threads[8];
	struct error err = ERROR_INIT;
	open_many(&l, word);
	uint64_t begin_ns = os_now_ns(), end_ns = 0;
	for (unsigned i = 0; i < l.disk_count; i++) {
		streamers[i] = (struct streamer){l.disks[i], op, 0};
		assert_ok(os_thread_create(&threads[i], "stream", stream_run, &streamers[i], &err), &err);
	}
	for (unsigned i = 0; i < l.disk_count; i++) {
		os_thread_join(threads[i]);
		end_ns = max_of(end_ns, streamers[i].end_ns);
	}
	double mb_per_s = l.disk_count * 40.0 * MiB * 1e3 / (double)(end_ns - begin_ns);
	close_many(&l);
	return mb_per_s;
}
static int buses(void *arg)
{
	for (unsigned op = DISK_READ; op <= DISK_WRITE; op++) {
		assert_between("eight disks on one bus of 100 MB/s, MB/s",
			all_streams_mb("mem:1GiB+model=hdd-7200-2008,bus=pci,bus_mb_s=100*8", op), 95, 105);
		assert_between("eight flash drives on it",
			all_streams_mb("mem:1GiB+model=ssd-sata,bus=pci,bus_mb_s=100*8", op), 95, 105);
		assert_between("one disk is not held up by it",
			all_streams_mb("mem:1GiB+model=hdd-7200-2008,bus=pci,bus_mb_s=100", op), 52, 60);
		assert_between("eight disks with a bus of their own each",
			all_streams_mb("mem:1GiB+model=hdd-7200-2008*8", op), 420, 500);
	}
	return 0;
}
static int bus_conflict(void *arg)
{
	struct disk_specs specs = {0};
	struct error err = ERROR_INIT;
	struct disk *a = open_word("mem:16MiB+model=ssd-sata,bus=x,bus_mb_s=100", NULL), *b = NULL;
	assert_ok(disk_specs_add(&specs, "mem:16MiB+model=ssd-sata,bus=x,bus_mb_s=200", &err), &err);
	assert_int_equal(disk_open(&specs.items[0], NULL, &b, &err), ERR_USAGE);
	printf("  %s\n", err.text);
	disk_close(a);
	error_clear(&err);
	assert_ok(disk_open(&specs.items[0], NULL, &b, &err), &err); /* the bus went with its last disk */
	disk_close(b);
	disk_specs_release(&specs);
	return 0;
}

/* --- cliffs --------------------------------------------------------------------------------------------------------
 */

static double write_mb(struct disk *d, uint64_t *at, uint64_t bytes)
{
	uint8_t *b = aligned(MiB);
	uint64_t begin_ns = os_now_ns();
	for (uint64_t done = 0; done < bytes; done += MiB, *at += MiB)
		timed(d, DISK_WRITE, *at, b, MiB);
	timed(d, DISK_FLUSH, 0, NULL, 0);
	free(b);
	return (double)bytes * 1e3 / (double)(os_now_ns() - begin_ns);
}

static int shingled(void *arg)
{
	struct disk *d = open_word("mem:2GiB+model=hdd-smr,zones=0", NULL);
	uint64_t at = 0;
	assert_between("the first 240 MiB, MB/s", write_mb(d, &at, 240 * MiB), 95, 101);
	write_mb(d, &at, 40 * MiB);
	assert_between("after 280 MiB, MB/s", write_mb(d, &at, 100 * MiB), 4.5, 5.5);
	os_sleep_ns(60000 * MS);
	assert_between("after a minute of rest, MB/s", write_mb(d, &at, 240 * MiB), 90, 101);
	disk_close(d);
	d = open_word("mem:2GiB+model=hdd-smr,burst_mib=0", NULL);
	at = 0;
	assert_between("burst_mib=0: no cliff, MB/s", write_mb(d, &at, 500 * MiB), 85, 101);
	disk_close(d);
	return 0;
}

/* --- flash ---------------------------------------------------------------------------------------------------------
 */

static int flash(void *arg)
{
	const char *sata = "mem:256MiB+model=ssd-sata", *nvme = "mem:256MiB+model=ssd-nvme";
	assert_between("ssd-sata random read, depth 1, IOPS", random_iops(sata, DISK_READ, 4096, 1, 4000), 9500, 10500);
	assert_between("ssd-sata random read, depth 32", random_iops(sata, DISK_READ, 4096, 32, 20000), 93000, 98100);
	assert_between("ssd-sata random write, depth 1", random_iops(sata, DISK_WRITE, 4096, 1, 4000), 40000, 44000);
	assert_between("ssd-sata random write, depth 32", random_iops(sata, DISK_WRITE, 4096, 32, 20000), 86000, 90100);
	assert_between("ssd-sata read, MB/s", sequential_mb(sata, DISK_READ, MiB, 4, 0, 200 * MiB), 540, 575);
	assert_between("ssd-sata write, MB/s", sequential_mb(sata, DISK_WRITE, MiB, 4, 0, 200 * MiB), 500, 525);
	assert_between(
		"ssd-nvme random read, depth 1, IOPS", random_iops(nvme, DISK_READ, 4096, 1, 4000), 18000, 20000);
	assert_between("ssd-nvme random read, depth 32", random_iops(nvme, DISK_READ, 4096, 32, 30000), 420000, 600000);
	assert_between("ssd-nvme read, MB/s", sequential_mb(nvme, DISK_READ, MiB, 4, 0, 200 * MiB), 3300, 3600);
	assert_between("iops=1000, depth 32",
		random_iops("mem:64MiB+model=ssd-sata,iops=1000", DISK_READ, 4096, 32, 3000), 980, 1020);
	assert_between("iops=1000, depth 1",
		random_iops("mem:64MiB+model=ssd-sata,iops=1000", DISK_READ, 4096, 1, 1000), 900, 1001);
	assert_between("mb_s=100, MB/s",
		sequential_mb("mem:64MiB+model=ssd-sata,mb_s=100", DISK_READ, MiB, 4, 0, 60 * MiB), 98, 102);

	struct disk *d = open_word("mem:1GiB+model=ssd-sata,burst_mib=256,after_mb_s=100", NULL);
	uint64_t at = 0;
	assert_between("SLC cache, MB/s", write_mb(d, &at, 240 * MiB), 500, 525);
	write_mb(d, &at, 100 * MiB);
	assert_between("after it, MB/s", write_mb(d, &at, 100 * MiB), 95, 105);
	assert_between("a flush, ms", ms_of(timed(d, DISK_FLUSH, 0, NULL, 0)), 1.9, 2.1);
	disk_close(d);
	return 0;
}

/* --- words ----------------------------------------------------------------------------------------------------------
 */

static void test_words(void **state)
{
	static const struct {
		const char *word, *says;
	} bad[] = {
		{"mem:64MiB+model=hdd-9000", "hdd-7200-2008"},
		{"mem:64MiB+model=", "model"},
		{"mem:64MiB+model=,mb_s=5", "there is no disk model"},
		{"mem:64MiB+model=hdd-7200-2008,colour=red", "no key 'colour'"},
		{"mem:64MiB+model=hdd-7200-2008,mb_s", "no key=value"},
		{"mem:64MiB+model=hdd-7200-2008,mb_s=", "mb_s"},
		{"mem:64MiB+model=hdd-7200-2008,mb_s=0", "mb_s"},
		{"mem:64MiB+model=hdd-7200-2008,mb_s=-5", "mb_s"},
		{"mem:64MiB+model=hdd-7200-2008,mb_s=nan", "mb_s"},
		{"mem:64MiB+model=hdd-7200-2008,iops=100", "flash"},
		{"mem:64MiB+model=ssd-sata,rpm=7200", "rotating"},
		{"mem:64MiB+model=ssd-sata,seek_ms=1", "rotating"},
		{"mem:64MiB+model=hdd-7200-2008,rpm=0", "rpm"},
		{"mem:64MiB+model=hdd-7200-2008,logical=1000", "power of two"},
		{"mem:64MiB+model=hdd-7200-2008,logical=4096,physical=512", "smaller than logical"},
		{"mem:64MiB+model=hdd-7200-2008,bus=a", "go together"},
		{"mem:64MiB+model=hdd-7200-2008,bus_mb_s=5", "go together"},
		{"mem:64MiB+model=hdd-7200-2008,bus=,bus_mb_s=5", "needs a name"},
		{"mem:64MiB+model=hdd-7200-2008,burst_mib=5", "after_mb_s"},
		{"mem:64MiB+model=hdd-7200-2008,cache_mib=99999999", "cache_mib"},
		{"mem:64MiB+model=hdd-7200-2008,", "no key=value"},
	};
	for (size_t i = 0; i < array_count(bad); i++) {
		struct disk_specs specs = {0};
		struct error err = ERROR_INIT;
		int rc = disk_specs_add(&specs, bad[i].word, &err);
		printf("  %s: %s\n", bad[i].word, err.text);
		assert_int_equal(rc, ERR_USAGE);
		assert_non_null(strstr(err.text, bad[i].says));
		disk_specs_release(&specs);
	}
}

static void test_table(void **state)
{
	static const char *const names[] = {"hdd-7200-2008", "hdd-10k-raptor", "hdd-7200-2011", "hdd-5400-512e",
		"hdd-15k-sas", "hdd-7200-2024", "hdd-smr", "ssd-sata", "ssd-nvme"};
	assert_int_equal(disk_model_count(), array_count(names));
	assert_null(disk_model_info(disk_model_count()));
	for (size_t i = 0; i < array_count(names); i++) {
		const struct disk_model_info *info = disk_model_info(i);
		char word[80];
		assert_string_equal(info->name, names[i]);
		assert_true(info->summary[0] && info->source[0]);
		assert_true(info->rotating ? info->rpm > 0 && info->inner_mb_per_s < info->outer_mb_per_s
					   : info->random_read_iops > 0);
		snprintf(word, sizeof word, "mem:16MiB+model=%s", names[i]);
		struct disk *d = open_word(word, NULL);
		assert_string_equal(disk_traits(d)->model, names[i]);
		assert_string_equal(disk_traits(d)->spec, word);
		assert_true(disk_traits(d)->is_modelled && disk_traits(d)->rotating == info->rotating);
		assert_true(
			disk_traits(d)->nominal_bytes == info->nominal_bytes && disk_traits(d)->size_bytes == 16 * MiB);
		disk_close(d);
	}
}

CASE(write_cache)
CASE(random_writes)
CASE(flush_in_a_stream)
CASE(fairness)
CASE(fairness_of_writes)
CASE(sectors)
CASE(buses)
CASE(bus_conflict)
CASE(shingled)
CASE(flash)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_write_cache),
		cmocka_unit_test(test_random_writes),
		cmocka_unit_test(test_flush_in_a_stream),
		cmocka_unit_test(test_fairness),
		cmocka_unit_test(test_fairness_of_writes),
		cmocka_unit_test(test_sectors),
		cmocka_unit_test(test_buses),
		cmocka_unit_test(test_bus_conflict),
		cmocka_unit_test(test_shingled),
		cmocka_unit_test(test_flash),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_table),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
