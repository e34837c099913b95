/* What the files of the disk part share and nobody else sees. */
#ifndef DISK_INTERNAL_H
#define DISK_INTERNAL_H

#include "disk_ops.h"

struct io_uring_sqe;
struct disk__ring;

/* disk.c */
void disk__enter_top(struct disk *d, struct disk_request *r);

/* queue.c */
void disk__queue_deliver(struct disk_queue *q, struct disk_request *r); /* on any thread */
void disk__queue_want_kick(struct disk_queue *q, struct disk *d);
/* The ring of this queue, made at first use; NULL when there cannot be one. Only on the thread of the queue. */
struct disk__ring *disk__queue_ring(struct disk_queue *q);

/* ring.c: one io_uring of one queue */
bool disk__ring_possible(const char **ret_why_not);
struct disk__ring *disk__ring_open(void); /* NULL when there cannot be one */
void disk__ring_close(struct disk__ring *ring);
void disk__ring_stage(struct disk__ring *ring, struct disk_request *r);
void disk__ring_submit(struct disk__ring *ring);
unsigned disk__ring_in_flight(const struct disk__ring *ring);
void disk__ring_harvest(struct disk__ring *ring); /* completes what is done, without waiting */
/* Sends what is staged and waits until something is done or the deadline (UINT64_MAX: none) has passed. */
void disk__ring_wait(struct disk__ring *ring, uint64_t deadline_ns);

/* file.c: what the ring asks of the disk whose request it carries */
void disk__file_prepare(struct disk_request *r, struct io_uring_sqe *sqe);
void disk__file_ring_done(struct disk_request *r, int result);

/* fault.c: whether this kind answers late, so that it cannot lie below a model */
bool disk__fault_waits(const char *args);

/* sysfs.c. `device` is a dev_t. */
#define DISK__SYSFS_BYTES 64
struct disk__description {
	char model[64], serial[64], transport[16];
	bool rotating;
	char loop_file[256]; /* of a loop device */
	bool loop_cached;    /* the page cache holds that file */
};
void disk__sysfs_dir(uint64_t device, char ret[DISK__SYSFS_BYTES]);
uint64_t disk__sysfs_whole(uint64_t device); /* the disk of a partition; else itself */
void disk__sysfs_describe(uint64_t device, struct disk__description *ret);
bool disk__sysfs_holder(uint64_t device, char *ret_name, size_t room);
size_t disk__sysfs_partitions(uint64_t device, uint64_t *ret_devices, size_t room);
size_t disk__sysfs_loops_of(
	const char *real_path, uint64_t file_device, uint64_t file_inode, uint64_t *ret_devices, size_t room);

/* facts_use.c: "mounted on /home", "swap", "held by md0", …; "" when nothing is known. Opens nothing. */
void disk__use_of_device(uint64_t device, char *ret, size_t room);
void disk__use_of_file(const char *real_path, uint64_t device, uint64_t inode, char *ret, size_t room);
void disk__lock_holder(uint64_t device, uint64_t inode, char *ret, size_t room); /* "" or "fio (pid 12)" */

#endif
