/*
 * Lost bytes.
 *
 * When power and more members than parity makes up for go together, or a second disk cannot read its part while one is
 * rebuilt, bytes are gone for good. What recovery would give for them is nonsense, and nobody may take it for data. So
 * in their place stands a sector that no user can have written by chance, with the array's own id in it: on the disk
 * where there is one, and in parity, so that whoever recovers it meets it too. The row is marked *lost* in the map,
 * which says that its sectors must be looked at; a read that meets the poison fails with ERR_LOST. A sector that is
 * written again is data again, and when its row was written whole the mark goes.
 */
#include "internal.h"

#include <string.h>

int poison__open(struct array *a, struct error *err)
{
	struct random r;

	a->poison = malloc(SECTOR_BYTES);
	if (!a->poison)
		return error_set(err, ERR_MEMORY, "out of memory for an array");
	random_seed(&r, get_le64(a->label.array_id) ^ get_le64(a->label.array_id + 8));
	random_fill(&r, a->poison, SECTOR_BYTES);
	memcpy(a->poison, "SPINDLE LOST", 12);
	memcpy(a->poison + 16, a->label.array_id, ID_BYTES);
	return 0;
}

void poison__fill(const struct array *a, uint8_t *bytes, uint64_t length)
{
	for (uint64_t at = 0; at < length; at += SECTOR_BYTES)
		memcpy(bytes + at, a->poison, SECTOR_BYTES);
}

bool poison__find(const struct array *a, const uint8_t *bytes, uint64_t length, uint64_t *ret_at)
{
	for (uint64_t at = 0; at < length; at += SECTOR_BYTES)
		if (!memcmp(bytes + at, a->poison, SECTOR_BYTES)) {
			*ret_at = at;
			return true;
		}
	return false;
}
