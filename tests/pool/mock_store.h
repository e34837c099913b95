/*
 * What lies below the records, played in memory: stripes with delays and failures, transactions, a log of intents,
 * power cuts. Linked with volume.c, cache.c, spill.c, prefetch.c, buffers.c instead of the rest of the pool.
 */
#ifndef MOCK_STORE_H
#define MOCK_STORE_H

#include "internal.h"

#define MOCK_DATASETS 3u
#define MOCK_RECORDS 2048u

struct mock_value {
	uint16_t bytes;
	uint8_t data[80 + 2048];
};
struct mock_image {
	struct mock_value at[MOCK_DATASETS][MOCK_RECORDS];
};

struct mock {
	struct pool pool;
	struct dataset datasets[MOCK_DATASETS]; /* ids 16, 17, 18 */
	struct mock_image *now, *durable;
	struct transaction open;
	uint8_t **blocks;
	uint32_t *block_bytes;
	uint64_t block_count, block_room;
	struct mock_intent {
		uint64_t commit;
		size_t bytes;
		uint8_t *entries;
	} * intents;
	unsigned intent_count;
	struct random random;
	bool committing;
	/* knobs */
	uint64_t write_ns_per_mib, read_ns; /* how long the disks take; 0: no time */
	unsigned fail_writes, fail_reads;   /* so many of the next ones */
	int fail_code;
	uint64_t available_bytes;
	/* counts */
	uint64_t records_read, records_written, batches, reads_sequential, commits, intents_taken, short_batches;
	unsigned writing, writing_max;
};

extern struct mock mock;
void mock_open(uint64_t seed, uint64_t cache_bytes, uint64_t dirty_bytes);
void mock_volume(unsigned i, uint64_t bytes, uint32_t record_bytes); /* dataset 16 + i, path "tank/v" + i */
void mock_start(void);                                               /* the cache */
void mock_crash(void);                                               /* what is durable stays, intents are replayed */
void mock_close(void);

#endif
