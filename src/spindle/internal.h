/* What the files of the public library share. */
#ifndef SPINDLE_INTERNAL_H
#define SPINDLE_INTERNAL_H

#include "spindle_disk.h"

struct spindle_disk {
	struct disk *disk;
	bool owned;
};
/* Copies an error out; returns rc. */
int spindle__give(int rc, const struct error *err, struct spindle_error *ret);
/* The disks behind handles; "an array has 1 to 256 disks". */
int spindle__disks(const char *what, unsigned most, struct spindle_disk *const *handles, unsigned count,
	struct disk **ret, struct error *err);

#endif
