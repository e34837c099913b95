/*
 * What the stages of the data path cost on this CPU. Each is done in batches of a millisecond of this thread's CPU
 * time, and the cheapest of several batches counts: what disturbs can only add. Data is in DRAM where the data path
 * finds it there (copy, parity), in cache where it was just copied (checksum).
 */
#include <isa-l/raid.h>
#include <string.h>

#include "internal.h"

#define BATCH_NS 1000000u
#define BATCHES 8u
#define POOL_BYTES (32u << 20)
#define CHUNK_BYTES (128u << 10)
#define DATA_COLUMNS 8u
#define BLOCK_BYTES 4096u

struct bench_cpu {
	uint8_t *from, *to;
	uint64_t at;
	struct target *null;
	struct disk *memory;
	volatile uint64_t sink;
};

static void do_copy(struct bench_cpu *c)
{
	memcpy(c->to + c->at, c->from + c->at, CHUNK_BYTES);
	c->at = (c->at + CHUNK_BYTES) % POOL_BYTES;
}

static void do_checksum(struct bench_cpu *c)
{
	c->sink ^= checksum_xxh3(c->from, CHUNK_BYTES);
}

static void do_parity(struct bench_cpu *c, unsigned parity)
{
	void *columns[DATA_COLUMNS + 2];
	uint64_t piece = CHUNK_BYTES / DATA_COLUMNS;

	for (unsigned i = 0; i < DATA_COLUMNS; i++)
		columns[i] = c->from + c->at + i * piece;
	columns[DATA_COLUMNS] = c->to;
	columns[DATA_COLUMNS + 1] = c->to + piece;
	if (parity == 1)
		xor_gen((int)DATA_COLUMNS + 1, (int)piece, columns);
	else
		pq_gen((int)DATA_COLUMNS + 2, (int)piece, columns);
	c->at = (c->at + CHUNK_BYTES) % POOL_BYTES;
}

static void do_parity1(struct bench_cpu *c)
{
	do_parity(c, 1);
}

static void do_parity2(struct bench_cpu *c)
{
	do_parity(c, 2);
}

static void do_call(struct bench_cpu *c)
{
	uint64_t from_ns = os_now_ns();

	c->null->ops->write(c->null, 0, c->from, BLOCK_BYTES, NULL);
	c->sink ^= os_now_ns() - from_ns;
}

static void do_request(struct bench_cpu *c)
{
	disk_read(c->memory, 0, c->to, BLOCK_BYTES, NULL);
}

/* Nanoseconds of CPU for one operation. */
static double cost_of(struct bench_cpu *c, void (*operation)(struct bench_cpu *c))
{
	double best = 0;
	unsigned count = 1;

	c->at = 0;
	for (unsigned batch = 0; batch < BATCHES;) {
		uint64_t from_ns = evidence_thread_cpu_ns();
		for (unsigned i = 0; i < count; i++)
			operation(c);
		uint64_t took_ns = evidence_thread_cpu_ns() - from_ns;
		if (took_ns < BATCH_NS && count < 1u << 24) {
			count *= 2;
			continue;
		}
		double each = (double)took_ns / count;
		best = batch == 0 || each < best ? each : best;
		batch++;
	}
	return best;
}

static void measure_all(struct bench_cpu *c, struct os_cost *costs)
{
	const struct {
		enum os_stage stage;
		void (*operation)(struct bench_cpu *c);
	} per_byte[] = {{OS_STAGE_COPY, do_copy}, {OS_STAGE_CHECKSUM, do_checksum}, {OS_STAGE_PARITY1, do_parity1},
		{OS_STAGE_PARITY2, do_parity2}};

	for (unsigned i = 0; i < array_count(per_byte); i++)
		costs[per_byte[i].stage] =
			(struct os_cost){0, cost_of(c, per_byte[i].operation) / (CHUNK_BYTES / 1024)};
	/* What a call and a request cost beyond the copying; a request to a real disk costs the kernel's part too,
	 * which a memory disk does not show: there the default, measured on real ones, stands as the least. */
	double call = cost_of(c, do_call), request = cost_of(c, do_request);
	costs[OS_STAGE_CALL] = (struct os_cost){max_of(call, os_costs_default[OS_STAGE_CALL].fixed_ns), 0};
	costs[OS_STAGE_REQUEST] = (struct os_cost){max_of(request, os_costs_default[OS_STAGE_REQUEST].fixed_ns), 0};
}

/* Defaults where memory is short, and in the simulated world, which has no CPU to measure. */
void bench_cpu_measure(struct os_cost ret_costs[OS_STAGE_COUNT])
{
	struct bench_cpu c = {0};

	memcpy(ret_costs, os_costs_default, sizeof(os_costs_default));
	if (os_is_simulated())
		return;
	c.from = aligned_alloc(DISK_BUFFER_ALIGN, POOL_BYTES);
	c.to = aligned_alloc(DISK_BUFFER_ALIGN, POOL_BYTES);
	bool ready = c.from && c.to && target_open_null(0, &c.null, NULL) == 0 &&
		     disk_open_memory("mem:cpu", 1u << 20, &c.memory, NULL) == 0;
	if (ready) {
		memset(c.from, 0x5a, POOL_BYTES);
		memset(c.to, 0, POOL_BYTES);
		measure_all(&c, ret_costs);
	}
	target_close(c.null);
	disk_close(c.memory);
	free(c.from);
	free(c.to);
}
