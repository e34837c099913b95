/*
 * The mechanics of modelled rotating disks in virtual time, held against what such a disk is known to do. Every case
 * runs in a simulated world in which CPU is free, so that a duration is the disk's alone. Invariants: MODEL-1, MODEL-4,
 * HDD-1, HDD-4.
 */
#include <math.h>

#include "model_load.h"
#include "model_mechanics.h"

/* --- the cases ---------------------------------------------------------------------------------------------- */

static int rotation(void *arg)
{
	struct disk *d = open_word("mem:256MiB+model=hdd-7200-2008,cache_mib=0", NULL);
	uint8_t *b = aligned(4096);
	timed(d, DISK_WRITE, 64 * MiB, b, 4096);
	for (int i = 0; i < 5; i++)
		assert_between(
			"the same block again, ms", (double)timed(d, DISK_WRITE, 64 * MiB, b, 4096) / MS, 8.332, 8.335);
	timed(d, DISK_READ, 64 * MiB, b, 4096);
	assert_between("write back what was just read, ms", (double)timed(d, DISK_WRITE, 64 * MiB, b, 4096) / MS, 8.332,
		8.335);
	disk_close(d);
	free(b);
	return 0;
}

static int random_reads(void *arg)
{
	const unsigned depths[] = {1, 2, 3, 4, 6, 8, 16, 32};
	double first = 0, before = 0, iops = 0;
	for (unsigned i = 0; i < array_count(depths); i++, before = iops) {
		iops = random_iops("mem:256MiB+model=hdd-7200-2008", DISK_READ, 4096, depths[i], 3000);
		printf("  4 KiB over the full stroke, depth %2u: %.1f IOPS\n", depths[i], iops);
		if (i == 0)
			first = iops;
		assert_true(iops >= before * 0.97);
	}
	assert_between("IOPS at depth 1", first, 70, 90);
	assert_between("gain at depth 32", iops / first, 1.6, 2.3);
	return 0;
}

/* 32 requests over eight disks picked at random, against eight times one disk at depth 4: the queues are uneven, so the
 * rate has to be held at short ones and to grow at long ones. */
static int closed_system(void *arg)
{
	for (uint64_t block = 4096; block <= 128 * KiB; block *= 32) {
		double one = random_iops("mem:256MiB+model=hdd-7200-2008", DISK_READ, block, 4, 3000);
		double all = random_iops("mem:256MiB+model=hdd-7200-2008*8", DISK_READ, block, 32, 16000);
		assert_between(
			block == 4096 ? "4 KiB: share of 8 I" : "128 KiB: share of 8 I", all / (8 * one), 0.87, 1.0);
	}
	return 0;
}

static int zones(void *arg)
{
	const char *word = "mem:1GiB+model=hdd-7200-2008";
	double outer = sequential_mb(word, DISK_READ, MiB, 1, 0, 32 * MiB);
	double inner = sequential_mb(word, DISK_READ, MiB, 1, 1024ull * MiB - 16 * MiB, 16 * MiB);
	assert_between("inner over outer zone", inner / outer, 0.45, 0.6);
	assert_between("zones=0: inner over outer",
		sequential_mb("mem:256MiB+model=hdd-7200-2008,zones=0", DISK_READ, MiB, 1, 224 * MiB, 32 * MiB) / 55,
		0.98, 1.02);
	return 0;
}

static int sequential(void *arg)
{
	const uint64_t blocks[] = {128 * KiB, MiB, 16 * MiB};
	for (unsigned op = DISK_READ; op <= DISK_WRITE; op++)
		for (unsigned i = 0; i < array_count(blocks); i++)
			for (unsigned depth = 1; depth <= 4; depth += 3) {
				char what[64];
				snprintf(what, sizeof what, "outer %s, %u KiB, depth %u, MB/s", disk_op_names[op],
					(unsigned)(blocks[i] / KiB), depth);
				assert_between(what,
					sequential_mb(
						"mem:2GiB+model=hdd-7200-2008", op, blocks[i], depth, 0, 64 * MiB),
					53.9, 56.1);
			}
	return 0;
}

/* What it costs to leave `gap` out between two reads of 64 KiB, beyond reading them. */
static double skip_ms(struct disk *d, uint64_t at, int64_t gap)
{
	uint8_t *b = aligned(64 * KiB);
	timed(d, DISK_READ, at, b, 64 * KiB);
	uint64_t ns = timed(d, DISK_READ, at + 64 * KiB + gap, b, 64 * KiB);
	free(b);
	return (double)ns / MS - 64 * KiB / 55e3;
}

static int skips(void *arg)
{
	struct disk *d = open_word("mem:256MiB+model=hdd-7200-2008,zones=0", NULL);
	double least = INFINITY, most = 0;
	for (unsigned i = 0; i < 100; i++) {
		double ms = skip_ms(d, 16 * MiB + i * 2 * MiB + i * 12 * KiB, i % 2 ? 4 * MiB : -4 * (int64_t)MiB);
		least = min_of(least, ms);
		most = max_of(most, ms);
	}
	assert_between("skipping 4 MiB costs at least, ms", least, 1, 12);
	assert_between("skipping 4 MiB costs at most, ms", most, 1, 12);
	for (unsigned i = 0; i < 8; i++)
		assert_between("passing over 128 KiB, ms", skip_ms(d, i * 30 * MiB, 128 * KiB), 2.3, 2.6);
	disk_close(d);
	return 0;
}

/* A reader that pauses for less than the track buffer holds gets the media rate all the same. */
static int pauses(void *arg)
{
	struct disk *d = open_word("mem:1GiB+model=hdd-7200-2008", NULL);
	uint8_t *b = aligned(MiB);
	timed(d, DISK_READ, 0, b, MiB);
	uint64_t begin_ns = os_now_ns();
	for (unsigned i = 1; i <= 20; i++) {
		os_sleep_ns(5 * MS);
		timed(d, DISK_READ, i * MiB, b, MiB);
	}
	assert_between("1 MiB reads with 5 ms between them, MB/s", 20.0 * MiB * 1e3 / (double)(os_now_ns() - begin_ns),
		53.9, 56.1);
	begin_ns = os_now_ns();
	for (unsigned i = 0; i < 20; i++) {
		timed(d, DISK_READ, 100 * MiB + i * 128 * KiB, b, 128 * KiB);
		timed(d, DISK_READ, 600 * MiB + i * 128 * KiB, b, 128 * KiB);
	}
	assert_between("two streams in turns, ms a 128 KiB read", (double)(os_now_ns() - begin_ns) / MS / 40, 8, 25);
	disk_close(d);
	free(b);
	return 0;
}

static int seek_curve(void *arg)
{
	for (size_t i = 0; i < disk_model_count(); i++) {
		const struct disk_model_info *info = disk_model_info(i);
		if (!info->rotating)
			continue;
		const struct model_params *p = model__find(info->name, strlen(info->name));
		struct machine *m;
		struct error err = ERROR_INIT;
		assert_ok(model__hdd_new(p, 256 * MiB, 0, &m, &err), &err);
		double sum = 0, before = 0;
		const unsigned steps = 400;
		for (unsigned a = 1; a <= steps; a++) {
			double ms = model__hdd_seek_ms(m, (double)a / steps);
			assert_true(ms >= before);
			before = ms;
			sum += ms * 2 * (1 - (double)a / steps) / steps;
		}
		char what[80];
		snprintf(what, sizeof what, "%s: average seek, ms", info->name);
		assert_between(what, sum, info->seek_avg_ms * 0.97, info->seek_avg_ms * 1.03);
		assert_true(fabs(before - p->seek_full_ms) < 0.01);
		double track = model__hdd_seek_ms(m, 1e-6);
		assert_true(track >= p->seek_track_ms && track < p->seek_track_ms * 1.1);
		m->ops->free(m);
	}
	return 0;
}

/* MODEL-4: a mix of everything, twice; and the bytes are right. */
static uint64_t mix(const char *word, uint64_t seed)
{
	enum { SLOTS = 48, BLOCKS = 512, BYTES = 16 * KiB };
	static struct disk_request requests[SLOTS];
	static bool busy[BLOCKS];
	uint8_t *shadow = aligned(BLOCKS * BYTES), *buffers = aligned(SLOTS * BYTES);
	struct disk *d = open_word(word, NULL);
	struct disk_queue *q;
	struct random random;
	struct error err = ERROR_INIT;
	uint64_t hash = 0, block_of[SLOTS], submitted = 0;
	assert_ok(disk_queue_open(&q, &err), &err);
	random_seed(&random, seed);
	memset(busy, 0, sizeof busy);
	for (unsigned in_flight = 0, next = 0; submitted < 3000 || in_flight > 0;) {
		if (submitted < 3000 && in_flight < SLOTS && random_below(&random, 4) != 0) {
			while (requests[next].owner)
				next = (next + 1) % SLOTS;
			uint64_t block = random_below(&random, BLOCKS), kind = random_below(&random, 20);
			while (busy[block])
				block = (block + 1) % BLOCKS;
			uint8_t *buffer = buffers + next * BYTES;
			enum disk_op op = kind == 0 ? DISK_FLUSH : kind < 9 ? DISK_WRITE : DISK_READ;
			if (op == DISK_WRITE)
				random_fill(&random, buffer, BYTES);
			uint64_t stride = disk_traits(d)->size_bytes / BLOCKS / 4096 * 4096;
			if (op == DISK_FLUSH)
				disk_request_init(&requests[next], op, 0, NULL, 0);
			else
				disk_request_init(&requests[next], op, block * stride, buffer, BYTES);
			if (op == DISK_WRITE)
				memcpy(shadow + block * BYTES, buffer, BYTES);
			busy[block] = op != DISK_FLUSH;
			block_of[next] = block;
			requests[next].owner = d;
			disk_queue_submit(q, d, &requests[next]);
			submitted++;
			in_flight++;
			continue;
		}
		struct disk_request *r = disk_queue_reap(q, UINT64_MAX);
		if (!r)
			continue;
		assert_int_equal(r->status, 0);
		assert_true(r->done_ns > r->submit_ns);
		if (r->op != DISK_FLUSH) {
			uint64_t block = block_of[r - requests];
			if (r->op == DISK_READ)
				assert_memory_equal(r->iov1.iov_base, shadow + block * BYTES, BYTES);
			busy[block] = false;
		}
		hash = hash * 0x100000001b3ull + r->done_ns;
		r->owner = NULL;
		in_flight--;
	}
	disk_queue_close(q);
	disk_close(d);
	free(shadow);
	free(buffers);
	return hash;
}

static uint64_t mix_hash;
static int mix_once(void *arg)
{
	mix_hash = 0;
	for (size_t i = 0; i < disk_model_count(); i++) {
		char word[96];
		snprintf(word, sizeof word, "mem:64MiB+model=%s", disk_model_info(i)->name);
		mix_hash = mix_hash * 31 + mix(word, i + *(uint64_t *)arg);
	}
	mix_hash = mix_hash * 31 + mix("mem:64MiB+model=hdd-7200-2008,cache_mib=0", 5);
	mix_hash = mix_hash * 31 + mix("mem:64MiB+model=hdd-5400-512e,cache_mib=1,bus=a,bus_mb_s=20", 6);
	return 0;
}

/* Disks of one sector, requests larger than the cache, writes over writes in flight, discards: everything comes back,
 * and soon. */
struct odd {
	const char *word;
	uint64_t seed, wait_ns_max;
};
static void odd_request(struct disk *d, struct disk_request *r, struct random *random, uint8_t *buffer, uint64_t *next)
{
	uint64_t size = disk_traits(d)->size_bytes, sector = disk_traits(d)->logical_bytes,
		 kind = random_below(random, 100);
	enum disk_op op = kind < 40 ? DISK_READ : kind < 90 ? DISK_WRITE : kind < 95 ? DISK_FLUSH : DISK_DISCARD;
	uint64_t most = random_below(random, 50) == 0 ? 16 * MiB : random_below(random, 4) == 0 ? 256 * KiB : 8 * KiB;
	uint64_t length = (1 + random_below(random, min_of(most, size) / sector)) * sector;
	uint64_t offset = random_below(random, (size - length) / sector + 1) * sector;
	if (random_below(random, 3) == 0) {
		offset = *next + length > size ? 0 : *next;
		*next = offset + length;
	}
	if (op == DISK_FLUSH)
		offset = length = 0;
	disk_request_init(r, op, offset, op < DISK_FLUSH ? buffer : NULL, length);
	r->owner = d;
}
static int odd_run(void *arg)
{
	enum { SLOTS = 64, REQUESTS = 1500 };
	static struct disk_request requests[SLOTS];
	struct odd *odd = arg;
	struct disk *d = open_word(odd->word, NULL);
	struct disk_queue *q;
	struct random random;
	struct error err = ERROR_INIT;
	uint8_t *buffer = aligned(16 * MiB);
	uint64_t next = 0;
	assert_ok(disk_queue_open(&q, &err), &err);
	random_seed(&random, odd->seed);
	memset(requests, 0, sizeof requests);
	for (unsigned sent = 0, in_flight = 0; sent < REQUESTS || in_flight > 0;) {
		if (sent < REQUESTS && in_flight < 1 + random_below(&random, SLOTS)) {
			unsigned i = 0;
			while (requests[i].owner)
				i++;
			odd_request(d, &requests[i], &random, buffer, &next);
			disk_queue_submit(q, d, &requests[i]);
			sent++;
			in_flight++;
			if (random_below(&random, 20) == 0)
				os_sleep_ns(random_below(&random, 50 * MS));
			continue;
		}
		struct disk_request *r = disk_queue_reap(q, UINT64_MAX);
		assert_int_equal(r->status, 0);
		odd->wait_ns_max = max_of(odd->wait_ns_max, r->done_ns - r->submit_ns);
		r->owner = NULL;
		in_flight--;
	}
	disk_queue_close(q);
	disk_close(d);
	free(buffer);
	return 0;
}

static void test_odd_requests(void **state)
{
	static const char *const words[] = {
		"mem:4KiB+model=hdd-7200-2008",
		"mem:4KiB+model=hdd-5400-512e,cache_mib=0",
		"mem:68KiB+model=ssd-sata",
		"mem:1MiB+model=hdd-7200-2008,cache_mib=64,logical=4096",
		"mem:1MiB+model=ssd-nvme,bus=odd,bus_mb_s=30",
		"mem:64MiB+model=hdd-7200-2008",
		"mem:64MiB+model=hdd-7200-2008,zones=0,physical=4096",
		"mem:64MiB+model=hdd-5400-512e",
		"mem:64MiB+model=hdd-15k-sas,cache_mib=1,bus=odd,bus_mb_s=30",
		"mem:200MiB+model=hdd-7200-2024",
		"mem:200MiB+model=hdd-smr",
		"mem:200MiB+model=hdd-10k-raptor,cache_mib=0",
	};
	const char *seeds = getenv("SPINDLE_SEEDS");
	uint64_t rounds = seeds ? 1 + strtoull(seeds, NULL, 10) / 100 : 1; /* one is worth a hundred of the array's */
	for (uint64_t seed = 1; seed <= rounds; seed++)
		for (unsigned i = 0; i < array_count(words); i++) {
			struct odd odd = {.word = words[i], .seed = seed * 100 + i};
			simulated(odd_run, &odd);
			if (odd.wait_ns_max > 10000 * MS)
				fail_msg("%s, seed %llu: a request took %.0f ms", words[i], (unsigned long long)seed,
					(double)odd.wait_ns_max / MS);
		}
}

/* --- cmocka -------------------------------------------------------------------------------------------------- */

CASE(rotation)
CASE(random_reads)
CASE(closed_system)
CASE(zones)
CASE(sequential)
CASE(skips)
CASE(pauses)
CASE(seek_curve)

static void test_deterministic(void **state)
{
	uint64_t seed = 1;
	simulated(mix_once, &seed);
	uint64_t first = mix_hash;
	simulated(mix_once, &seed);
	assert_true(first == mix_hash);
	seed = 2;
	simulated(mix_once, &seed);
	assert_true(first != mix_hash);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rotation),
		cmocka_unit_test(test_random_reads),
		cmocka_unit_test(test_closed_system),
		cmocka_unit_test(test_zones),
		cmocka_unit_test(test_sequential),
		cmocka_unit_test(test_skips),
		cmocka_unit_test(test_pauses),
		cmocka_unit_test(test_seek_curve),
		cmocka_unit_test(test_deterministic),
		cmocka_unit_test(test_odd_requests),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
