/* For the programs of this project that open disks themselves: the disk behind a handle of spindle.h. */
#ifndef SPINDLE_DISK_H
#define SPINDLE_DISK_H

#include "disk.h"
#include "spindle.h"

/* A handle for a disk that the caller opened and will close; free the handle with spindle_disk_unwrap. */
int spindle_disk_wrap(struct disk *disk, struct spindle_disk **ret_handle, struct error *err);
void spindle_disk_unwrap(struct spindle_disk *handle);

#endif
