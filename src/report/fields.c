/* fields: the names of what a result holds, once for the JSON writer, its reader, and the header of the CSV. */
#include <stdint.h>

#include "internal.h"

#define F(owner, kind, member)                                                                                         \
	{                                                                                                              \
#member, kind, offsetof(struct owner, member), sizeof(((struct owner *)0)->member)                     \
	}
#define TEXT(owner, member) F(owner, FIELD_TEXT, member)
#define REAL(owner, member) F(owner, FIELD_REAL, member)
#define U64(owner, member) F(owner, FIELD_U64, member)
#define END                                                                                                            \
	{                                                                                                              \
		0                                                                                                      \
	}

const struct field report__cell_key_fields[] = {TEXT(cell, stack), TEXT(cell, layout), TEXT(cell, road), TEXT(cell, fs),
	TEXT(cell, disks), TEXT(cell, test), TEXT(cell, compression), TEXT(cell, payload), U64(cell, block_bytes),
	F(cell, FIELD_UNSIGNED, depth), F(cell, FIELD_UNSIGNED, jobs), TEXT(cell, clock), REAL(cell, fill),
	TEXT(cell, state), END};

/* verdict, verdicts, samples, interval and latency_ns have shapes of their own. */
const struct field report__cell_fields[] = {REAL(cell, mb_per_s), REAL(cell, iops), REAL(cell, limit_mb_per_s),
	REAL(cell, model_mb_per_s), REAL(cell, efficiency), U64(cell, logical_bytes), U64(cell, device_read_bytes),
	U64(cell, device_write_bytes), REAL(cell, cpu_seconds), REAL(cell, elapsed_s), U64(cell, usable_bytes),
	F(cell, FIELD_UNSIGNED, failures_survived), REAL(cell, create_s), REAL(cell, ready_s),
	REAL(cell, compress_ratio), TEXT(cell, options), END};

const struct field report__latency_fields[] = {{"p50", FIELD_U64, offsetof(struct cell, latency_p50_ns), 8},
	{"p95", FIELD_U64, offsetof(struct cell, latency_p95_ns), 8},
	{"p99", FIELD_U64, offsetof(struct cell, latency_p99_ns), 8},
	{"p999", FIELD_U64, offsetof(struct cell, latency_p999_ns), 8},
	{"max", FIELD_U64, offsetof(struct cell, latency_max_ns), 8}, END};

const struct field report__host_fields[] = {TEXT(result_host, name), TEXT(result_host, cpu), TEXT(result_host, kernel),
	F(result_host, FIELD_UNSIGNED, cpus), U64(result_host, memory_bytes), REAL(result_host, copy_gb_per_s),
	REAL(result_host, checksum_gb_per_s), REAL(result_host, parity1_gb_per_s), REAL(result_host, parity2_gb_per_s),
	TEXT(result_host, cpu_charge), END};

const struct field report__disk_fields[] = {TEXT(result_disk, name), TEXT(result_disk, spec), TEXT(result_disk, model),
	TEXT(result_disk, serial), TEXT(result_disk, engine), TEXT(result_disk, note), U64(result_disk, size_bytes),
	U64(result_disk, nominal_bytes), F(result_disk, FIELD_U32, logical_bytes),
	F(result_disk, FIELD_U32, physical_bytes), F(result_disk, FIELD_BOOL, direct),
	F(result_disk, FIELD_BOOL, rotating), F(result_disk, FIELD_BOOL, modelled), REAL(result_disk, alone_mb_per_s),
	REAL(result_disk, together_mb_per_s), REAL(result_disk, random_iops), REAL(result_disk, flush_ms),
	F(result_disk, FIELD_BOOL, slow), END};

const struct field report__run_fields[] = {TEXT(result, id), TEXT(result, started), TEXT(result, version),
	TEXT(result, command), TEXT(result, background), F(result, FIELD_BOOL, interrupted),
	REAL(result, price_per_disk), REAL(result, link_mb_per_s), TEXT(result, link_name), END};
