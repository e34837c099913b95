/*
 * The mechanics of a flash drive.
 *
 * A request passes the controller, which has a rate for commands (the data sheet's IOPS at depth 32) and one for
 * bytes (its sequential rate), separately for reads and writes. A read then needs a page from each die that holds
 * a part of it; pages lie on the dies by a hash of their place, so that requests that happen to meet on one die wait
 * for each other, and the rate grows with depth the way it does on drives: steeply first, then bent by
 * collisions, then flat at the controller's cap. A read that goes on where one of the last few streams ended was
 * prefetched and skips the dies.
 *
 *            ┌ controller ┐      ┌ die 0 ┐
 *   read ──▶ │ 10 µs each │ ──▶  │ 87 µs │  ──▶ due
 *            └────────────┘      └ die n ┘
 *
 * A write is acknowledged from the drive's RAM and SLC cache; once that is full (model_cliff) writes go at the rate
 * at which it is folded into the slower cells. A write smaller than a physical sector reads it first.
 *
 * Invariants
 *   FLASH-1  a die serves one page at a time;
 *   FLASH-2  the controller passes no more than its IOPS and its bytes a second.
 *
 * Left out, since public figures do not pin it down for a named drive: garbage collection beyond the cliff,
 * temperature, and reads that wait behind an erase.
 */
#include "model_mechanics.h"

#define DIES_MAX 256
#define PAGE_BYTES 16384u
#define STREAMS 8

struct flash {
	struct machine base;
	uint64_t seed;
	double read_command_ns, read_ns_per_byte, read_page_ns;
	double write_command_ns, write_ns_per_byte, write_ack_ns;
	double flush_ns, overhead_ns;
	uint32_t physical_bytes;
	double read_free_ns, write_free_ns; /* the controller's */
	uint64_t written_ns;                /* when all acknowledged writes are through */
	struct model_cliff cliff;
	double die_free_ns[DIES_MAX];
	unsigned die_count;
	uint64_t stream_end_bytes[STREAMS];
	unsigned stream_next;
};

static bool continues_stream(struct flash *f, const struct disk_request *r)
{
	uint64_t end_bytes = r->offset_bytes + r->length_bytes;
	for (unsigned i = 0; i < STREAMS; i++) {
		if (f->stream_end_bytes[i] == r->offset_bytes && r->offset_bytes > 0) {
			f->stream_end_bytes[i] = end_bytes;
			return true;
		}
	}
	f->stream_end_bytes[f->stream_next++ % STREAMS] = end_bytes;
	return false;
}

static unsigned die_of(const struct flash *f, uint64_t page)
{
	uint64_t x = (page + f->seed) * 0x9e3779b97f4a7c15ull;
	return (unsigned)((x >> 32) % f->die_count);
}

/* FLASH-1. When the last page of the request has been read. */
static double dies_read_ns(struct flash *f, const struct disk_request *r, double at_ns)
{
	uint64_t first = r->offset_bytes / PAGE_BYTES, last = (r->offset_bytes + r->length_bytes - 1) / PAGE_BYTES;
	double end_ns = at_ns;
	for (uint64_t page = first; page <= last; page++) {
		double *die_free_ns = &f->die_free_ns[die_of(f, page)];
		*die_free_ns = max_of(*die_free_ns, at_ns) + f->read_page_ns;
		end_ns = max_of(end_ns, *die_free_ns);
	}
	return end_ns;
}

/* FLASH-2. When the controller has passed the request. */
static double controller_ns(double *free_ns, uint64_t arrival_ns, double command_ns, double bytes_ns)
{
	*free_ns = max_of(*free_ns, (double)arrival_ns) + max_of(command_ns, bytes_ns);
	return *free_ns;
}

static double read_due_ns(struct flash *f, const struct disk_request *r)
{
	double bytes_ns = (double)r->length_bytes * f->read_ns_per_byte;
	double passed_ns = controller_ns(&f->read_free_ns, r->arrival_ns, f->read_command_ns, bytes_ns);
	if (continues_stream(f, r))
		return passed_ns + f->overhead_ns;
	double started_ns = max_of(passed_ns - bytes_ns, (double)r->arrival_ns);
	double dies_ns = dies_read_ns(f, r, started_ns);
	return max_of(passed_ns, dies_ns) + f->overhead_ns;
}

static double write_due_ns(struct flash *f, const struct disk_request *r)
{
	uint64_t start = r->offset_bytes, end = start + r->length_bytes;
	uint64_t whole = round_up_u64(end, f->physical_bytes) - round_down_u64(start, f->physical_bytes);
	double bytes_ns = (double)whole * f->write_ns_per_byte;
	double started_ns = max_of(f->write_free_ns, (double)r->arrival_ns);
	double cliff_ns =
		model__cliff_add(&f->cliff, (uint64_t)started_ns, whole, max_of(bytes_ns, f->write_command_ns));
	double passed_ns =
		controller_ns(&f->write_free_ns, r->arrival_ns, f->write_command_ns + cliff_ns, bytes_ns + cliff_ns);
	if (whole != r->length_bytes)
		passed_ns += f->read_page_ns;
	f->written_ns = max_of(f->written_ns, (uint64_t)passed_ns);
	return passed_ns + f->write_ack_ns;
}

static double flush_due_ns(struct flash *f, const struct disk_request *r)
{
	return (double)max_of(r->arrival_ns, f->written_ns) + f->flush_ns;
}

static void flash_accept(struct machine *m, struct disk_request *r)
{
	struct flash *f = container_of(m, struct flash, base);
	double due_ns = (double)r->arrival_ns + f->overhead_ns;
	if (r->op == DISK_READ && r->length_bytes > 0)
		due_ns = read_due_ns(f, r);
	else if (r->op == DISK_WRITE && r->length_bytes > 0)
		due_ns = write_due_ns(f, r);
	else if (r->op == DISK_FLUSH)
		due_ns = flush_due_ns(f, r);
	uint64_t bus_ns = 0;
	if (r->op == DISK_READ || r->op == DISK_WRITE)
		bus_ns = model__bus_take(m->bus, r->arrival_ns, r->length_bytes);
	machine__finish(m, r, max_of((uint64_t)(due_ns + 0.5), bus_ns));
}

static uint64_t flash_next_event_ns(const struct machine *m)
{
	return UINT64_MAX;
}
static void flash_step(struct machine *m) {}
static void flash_free(struct machine *m)
{
	free(container_of(m, struct flash, base));
}

static const struct machine_ops flash_ops = {flash_accept, flash_next_event_ns, flash_step, flash_free};

int model__flash_new(
	const struct model_params *p, uint64_t size_bytes, uint64_t seed, struct machine **ret, struct error *err)
{
	struct flash *f = calloc(1, sizeof(*f));
	if (!f)
		return error_set(err, ERR_MEMORY, "out of memory for the mechanics of %s", p->info.name);
	f->base.ops = &flash_ops;
	list_init(&f->base.done);
	f->seed = seed;
	f->read_command_ns = 1e9 / p->info.random_read_iops;
	f->read_ns_per_byte = 1e3 / p->info.outer_mb_per_s;
	f->write_command_ns = 1e9 / p->write_iops;
	f->write_ns_per_byte = 1e3 / p->write_mb_per_s;
	f->overhead_ns = p->overhead_us * 1e3;
	/* At depth 1 a read takes read_us and a write write_us, all in all. */
	double bytes_ns = 4096 * f->read_ns_per_byte, started_ns = max_of(f->read_command_ns - bytes_ns, 0.0);
	f->read_page_ns = max_of(p->read_us * 1e3 - f->overhead_ns - started_ns, 1e3);
	f->write_ack_ns = max_of(p->write_us * 1e3 - f->write_command_ns, 0.0);
	f->flush_ns = p->flush_ms * 1e6;
	f->physical_bytes = p->physical_bytes;
	f->cliff = (struct model_cliff){
		.burst_bytes = (double)p->burst_bytes, .drain_bytes_per_ns = p->after_mb_per_s / 1e3};
	f->die_count = min_of(max_of(p->dies, 1u), (unsigned)DIES_MAX);
	*ret = &f->base;
	return 0;
}
