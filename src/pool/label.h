/* label.h: what label.c offers to the rest of the pool beyond internal.h: looks at single disks, for dump and for tests. */
#ifndef POOL_LABEL_H
#define POOL_LABEL_H

#include "internal.h"

/* What the labels of one disk say, whether or not a pool can be made of it. */
struct label_facts {
	struct disk *disk;
	uint64_t size_bytes;
	unsigned read;    /* bit 0: the front could be read, bit 1: the back */
	unsigned headers; /* the same, of headers that verify */
	unsigned configs; /* how many of the four verify */
	bool claims;      /* the magic of a pool is there */
	struct error why; /* why it is not usable */
	struct label_header header;
	/* of the newest configuration */
	uint64_t generation, host_id;
	uint32_t config_crc;
	unsigned disk_count;
	bool exported;
	char name[POOL_NAME_BYTES], host_name[64];
};
/* config may be NULL. ERR_NOT_FOUND: no label; else why its labels cannot be used. */
int label_facts_read(struct disk *d, struct label_facts *ret, struct pool_config *config, struct error *err);
/* Of many disks at once, `count` answers. Without a label: configs is 0, `why` says more when `claims`. */
int labels_facts_read(struct disk *const *disks, unsigned count, struct label_facts *ret, struct error *err);
uint64_t label_back_offset(uint64_t disk_bytes);
uint64_t label_host(char name[64]); /* never 0 */

#endif
