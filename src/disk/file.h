/* file: what file.c, file_open.c and file_pool.c share. */
#ifndef DISK_FILE_H
#define DISK_FILE_H

#include "internal.h"

enum file_engine { FILE_URING, FILE_THREADS, FILE_INLINE };

struct file_pool;
struct bounce;

struct file_disk {
	struct disk disk;
	int fd;
	enum file_engine engine;
	uint32_t memory_align; /* 1 when any address will do */
	struct file_pool *pool;
	uint64_t pool_from_bytes; /* what is shorter is done at once: handing it to a thread would take longer */
	struct os_mutex bounce_lock;
	struct bounce *bounces; /* under bounce_lock: free ones */
	unsigned bounce_count;
	char *path, *spec;
	char model[64], serial[64], note[256];
};

#define file_of(d) container_of(d, struct file_disk, disk)

/* file.c */
extern const struct disk_ops disk__file_ops;
int disk__file_run(struct disk *d, struct disk_request *r);
void disk__file_free_bounces(struct file_disk *f);

/* file_pool.c: threads that do what cannot be done without waiting */
int disk__file_pool_open(struct file_disk *f, struct file_pool **ret, struct error *err);
void disk__file_pool_close(struct file_pool *p);
void disk__file_pool_add(struct file_pool *p, struct disk_request *r);

#endif
