/*
 * Targets without storage. null: does nothing, so it shows what the bench itself can do. cpu: does the work that a
 * data path does at least: a read copies, a write takes the checksum.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define NULL_BYTES (64ull << 30)
#define CPU_BYTES (8ull << 30)
#define CPU_SOURCE_BYTES (16ull << 20)

struct target_plain {
	struct target target;
	uint8_t *source;
	uint64_t checksum; /* so that nothing is optimised away */
};

static int null_read(struct target *t, uint64_t offset_bytes, void *buffer, uint64_t length_bytes, struct error *err)
{
	return 0;
}

static int null_write(
	struct target *t, uint64_t offset_bytes, const void *buffer, uint64_t length_bytes, struct error *err)
{
	return 0;
}

static int null_flush(struct target *t, struct error *err)
{
	return 0;
}

static void no_traffic(struct target *t, struct target_traffic *ret)
{
	*ret = (struct target_traffic){0};
}

static int cpu_read(struct target *t, uint64_t offset_bytes, void *buffer, uint64_t length_bytes, struct error *err)
{
	struct target_plain *self = container_of(t, struct target_plain, target);

	for (uint64_t at = 0; at < length_bytes; at += CPU_SOURCE_BYTES)
		memcpy((uint8_t *)buffer + at, self->source, min_of(CPU_SOURCE_BYTES, length_bytes - at));
	return 0;
}

static int cpu_write(
	struct target *t, uint64_t offset_bytes, const void *buffer, uint64_t length_bytes, struct error *err)
{
	struct target_plain *self = container_of(t, struct target_plain, target);

	__atomic_fetch_xor(&self->checksum, checksum_xxh3(buffer, length_bytes), __ATOMIC_RELAXED);
	return 0;
}

static void plain_close(struct target *t)
{
	struct target_plain *self = container_of(t, struct target_plain, target);

	free(self->source);
	free(self);
}

static const struct target_ops null_ops = {
	.kind = "null",
	.read = null_read,
	.write = null_write,
	.flush = null_flush,
	.traffic = no_traffic,
	.close = plain_close,
};
static const struct target_ops cpu_ops = {
	.kind = "cpu",
	.read = cpu_read,
	.write = cpu_write,
	.flush = null_flush,
	.traffic = no_traffic,
	.close = plain_close,
};

static int plain_open(
	const struct target_ops *ops, const char *name, uint64_t size_bytes, struct target **ret, struct error *err)
{
	struct target_plain *self = calloc(1, sizeof(*self));

	if (!self)
		return error_set(err, ERR_MEMORY, "no memory for the target %s", name);
	self->target = (struct target){.ops = ops,
		.road = "library",
		.size_bytes = size_bytes,
		.align_bytes = 1,
		.direct_asked = true,
		.direct_effective = true,
		.state = "healthy"};
	snprintf(self->target.name, sizeof(self->target.name), "%s", name);
	*ret = &self->target;
	return 0;
}

int target_open_null(uint64_t size_bytes, struct target **ret, struct error *err)
{
	return plain_open(&null_ops, "null:", size_bytes ? size_bytes : NULL_BYTES, ret, err);
}

int target_open_cpu(struct target **ret, struct error *err)
{
	struct target *t = NULL;
	int status = plain_open(&cpu_ops, "cpu:", CPU_BYTES, &t, err);
	if (status < 0)
		return status;
	struct target_plain *self = container_of(t, struct target_plain, target);
	self->source = aligned_alloc(DISK_BUFFER_ALIGN, CPU_SOURCE_BYTES);
	if (!self->source) {
		plain_close(t);
		return error_set(err, ERR_MEMORY, "no memory for the target cpu:");
	}
	memset(self->source, 0x5a, CPU_SOURCE_BYTES);
	*ret = t;
	return 0;
}
