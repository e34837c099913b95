/*
 * Labels: who a disk is, and all that an array must know of itself to be put together again.
 *
 * A label is 16 KiB. Two areas, one near each end of the disk, hold two slots each; a change is written to the slot
 * that its event count names (even: A, odd: B), in both areas, so a write that is torn leaves the label before it.
 * Byte 4096 of a disk always carries the magic. docs/format-array.md has the table; nothing outside of this file
 * knows an offset in it.
 */
#include "internal.h"

#include <stdio.h>
#include <string.h>

static const uint8_t magic[8] = {'S', 'P', 'N', 'D', 'L', 'A', 'R', 'R'};

enum {
	AT_MAGIC = 0,
	AT_VERSION = 8,
	AT_LENGTH = 12,
	AT_FEATURES = 16, /* a bit here that we do not know: we must not touch it */
	AT_EVENTS = 24,
	AT_ARRAY_ID = 32,
	AT_OWN_ID = 48,
	AT_NAME = 64,
	AT_INDEX = 128,
	AT_MEMBER_COUNT = 132,
	AT_KIND = 136,
	AT_SPREAD = 137,
	AT_ROTATION = 138,
	AT_HOLE = 139,
	AT_ROLE = 140,
	AT_DISKS = 144,
	AT_GROUPS = 148,
	AT_WIDTH = 152,
	AT_COPIES = 156,
	AT_PARITY = 160,
	AT_SECTOR = 164,
	AT_CHUNK = 168,
	AT_DISK_USED = 176,
	AT_DATA_OFFSET = 184,
	AT_MAP_OFFSET = 192,
	AT_MAP_BLOCKS = 200,
	AT_LOG_OFFSET = 208,
	AT_LOG_BYTES = 216,
	AT_DISK_BYTES = 224,
	AT_FLAGS = 232,
	AT_LOG_ID = 240,
	AT_LOG_DISK_BYTES = 256,
	AT_LOG_SEQUENCE = 264,
	AT_FIXED_END = 272,
	AT_CONCAT = 512,
	AT_MEMBERS = 2560,
	AT_CRC = LABEL_BYTES - 4,

	ENTRY_BYTES = 48,
	ENTRY_SOURCE = 16,
	ENTRY_REBUILT = 32,
	ENTRY_STATE = 40,
};
_Static_assert(AT_FIXED_END <= AT_CONCAT, "the fixed part ends before the tables");
_Static_assert(AT_CONCAT + LAYOUT_DISKS_MAX * 8 == AT_MEMBERS, "the tables are next to each other");
_Static_assert(AT_MEMBERS + LAYOUT_DISKS_MAX * ENTRY_BYTES <= AT_CRC, "the members fit");
_Static_assert(LABEL_OFFSET + 2 * LABEL_BYTES <= FRONT_BYTES, "both slots fit in front of the map");
_Static_assert(AT_NAME + ARRAY_NAME_BYTES == AT_INDEX, "the name is where others look for it");

#define FLAG_CLEAN 1u
#define FLAG_LOG_DEDICATED 2u

uint64_t label__back_offset(uint64_t disk_bytes)
{
	return round_down_u64(disk_bytes, 4096) - MIB + 4096;
}

void id__text(const uint8_t id[ID_BYTES], char text[33])
{
	for (unsigned i = 0; i < ID_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
}

bool id__is_zero(const uint8_t id[ID_BYTES])
{
	for (unsigned i = 0; i < ID_BYTES; i++)
		if (id[i])
			return false;
	return true;
}

void label__pack(const struct label *l, uint8_t bytes[LABEL_BYTES])
{
	uint8_t *p = bytes;

	memset(p, 0, LABEL_BYTES);
	memcpy(p + AT_MAGIC, magic, sizeof magic);
	put_le32(p + AT_VERSION, LABEL_VERSION);
	put_le32(p + AT_LENGTH, LABEL_BYTES);
	put_le64(p + AT_EVENTS, l->events);
	memcpy(p + AT_ARRAY_ID, l->array_id, ID_BYTES);
	memcpy(p + AT_OWN_ID, l->own_id, ID_BYTES);
	memcpy(p + AT_NAME, l->name, strnlen(l->name, ARRAY_NAME_BYTES - 1));
	put_le32(p + AT_INDEX, l->index);
	put_le32(p + AT_MEMBER_COUNT, l->member_count);
	p[AT_KIND] = (uint8_t)l->layout.kind;
	p[AT_SPREAD] = (uint8_t)l->layout.spread;
	p[AT_ROTATION] = (uint8_t)l->layout.rotation;
	p[AT_HOLE] = (uint8_t)l->hole;
	p[AT_ROLE] = (uint8_t)l->role;
	put_le32(p + AT_DISKS, l->layout.disks);
	put_le32(p + AT_GROUPS, l->layout.groups);
	put_le32(p + AT_WIDTH, l->layout.width);
	put_le32(p + AT_COPIES, l->layout.copies);
	put_le32(p + AT_PARITY, l->layout.parity);
	put_le32(p + AT_SECTOR, l->sector_bytes);
	put_le64(p + AT_CHUNK, l->layout.chunk_bytes);
	put_le64(p + AT_DISK_USED, l->layout.disk_bytes);
	put_le64(p + AT_DATA_OFFSET, l->data_offset);
	put_le64(p + AT_MAP_OFFSET, l->map_offset);
	put_le64(p + AT_MAP_BLOCKS, l->map_blocks);
	put_le64(p + AT_LOG_OFFSET, l->log_offset);
	put_le64(p + AT_LOG_BYTES, l->log_bytes);
	put_le64(p + AT_DISK_BYTES, l->disk_bytes);
	put_le32(p + AT_FLAGS, (l->clean ? FLAG_CLEAN : 0) | (l->log_dedicated ? FLAG_LOG_DEDICATED : 0));
	memcpy(p + AT_LOG_ID, l->log_id, ID_BYTES);
	put_le64(p + AT_LOG_DISK_BYTES, l->log_disk_bytes);
	put_le64(p + AT_LOG_SEQUENCE, l->log_sequence);
	for (unsigned i = 0; i < LAYOUT_DISKS_MAX; i++)
		put_le64(p + AT_CONCAT + 8 * i, l->layout.concat_bytes[i]);
	for (unsigned i = 0; i < l->member_count; i++) {
		uint8_t *e = p + AT_MEMBERS + i * ENTRY_BYTES;

		memcpy(e, l->members[i].id, ID_BYTES);
		memcpy(e + ENTRY_SOURCE, l->members[i].source_id, ID_BYTES);
		put_le64(e + ENTRY_REBUILT, l->members[i].rebuilt_rows);
		e[ENTRY_STATE] = (uint8_t)l->members[i].state;
	}
	put_le32(p + AT_CRC, checksum_crc32c(p, AT_CRC));
}

/* Places on the disk: in order, apart, inside. */
static int places_check(const struct label *l, struct error *err)
{
	uint64_t used = l->layout.disk_bytes;
	uint64_t end = l->disk_bytes >= DISK_BYTES_MIN ? label__back_offset(l->disk_bytes) - 4096 : 0;

	if (l->layout.kind == LAYOUT_CONCAT)
		used = l->role == LABEL_LOG || l->index >= l->layout.disks ? 0 : l->layout.concat_bytes[l->index];
	if (l->disk_bytes < DISK_BYTES_MIN || l->disk_bytes > INT64_MAX)
		return error_set(err, ERR_CORRUPT, "the label says its disk has %llu bytes; at least %llu are needed",
			(unsigned long long)l->disk_bytes, (unsigned long long)DISK_BYTES_MIN);
	if (l->role == LABEL_LOG)
		return l->log_disk_bytes >= BLOCK_BYTES && l->log_disk_bytes % BLOCK_BYTES == 0 &&
				       l->log_disk_bytes <= end
			       ? 0
			       : error_set(err, ERR_CORRUPT, "the label says the log has %llu bytes on a disk of %llu",
					 (unsigned long long)l->log_disk_bytes, (unsigned long long)l->disk_bytes);
	if (l->map_offset < FRONT_BYTES || l->map_offset > l->data_offset ||
		l->map_blocks > l->data_offset / (2 * BLOCK_BYTES) ||
		l->log_offset < l->map_offset + l->map_blocks * 2 * BLOCK_BYTES || l->log_offset > l->data_offset ||
		l->log_bytes > l->data_offset - l->log_offset || l->log_bytes % BLOCK_BYTES ||
		l->log_offset % BLOCK_BYTES || l->map_offset % BLOCK_BYTES || l->data_offset % MIB ||
		l->data_offset > end || used > end - l->data_offset)
		return error_set(err, ERR_CORRUPT,
			"the label's places do not fit a disk of %llu bytes: map at %llu, log at %llu with %llu bytes, "
			"data at %llu with %llu bytes",
			(unsigned long long)l->disk_bytes, (unsigned long long)l->map_offset,
			(unsigned long long)l->log_offset, (unsigned long long)l->log_bytes,
			(unsigned long long)l->data_offset, (unsigned long long)used);
	return 0;
}

static int members_check(const struct label *l, struct error *err)
{
	if (l->member_count != l->layout.disks)
		return error_set(err, ERR_CORRUPT, "the label says %u members of a layout with %u disks",
			l->member_count, l->layout.disks);
	if (l->role != LABEL_LOG && l->index >= l->member_count)
		return error_set(err, ERR_CORRUPT, "the label says member %u of %u", l->index, l->member_count);
	for (unsigned i = 0; i < l->member_count; i++)
		if (l->members[i].state > ARRAY_MEMBER_REBUILDING)
			return error_set(err, ERR_CORRUPT, "the label says state %u of member %u, known are 0 to %u",
				l->members[i].state, i, ARRAY_MEMBER_REBUILDING);
	return 0;
}

static void unpack_layout(const uint8_t *p, struct layout *ret)
{
	*ret = (struct layout){.kind = (enum layout_kind)p[AT_KIND],
		.spread = (enum layout_spread)p[AT_SPREAD],
		.rotation = (enum layout_rotation)p[AT_ROTATION],
		.disks = get_le32(p + AT_DISKS),
		.groups = get_le32(p + AT_GROUPS),
		.width = get_le32(p + AT_WIDTH),
		.copies = get_le32(p + AT_COPIES),
		.parity = get_le32(p + AT_PARITY),
		.chunk_bytes = get_le64(p + AT_CHUNK),
		.disk_bytes = get_le64(p + AT_DISK_USED)};
	for (unsigned i = 0; i < LAYOUT_DISKS_MAX; i++)
		ret->concat_bytes[i] = get_le64(p + AT_CONCAT + 8 * i);
}

static int name_check(const char *name, struct error *err)
{
	size_t length = strnlen(name, ARRAY_NAME_BYTES);

	if (length == 0 || length == ARRAY_NAME_BYTES ||
		strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") != length)
		return error_set(err, ERR_CORRUPT, "the label's array name is not 1 to 63 of A-Z a-z 0-9 _ . -");
	return 0;
}

int label__unpack(const uint8_t bytes[LABEL_BYTES], struct label *ret, struct error *err)
{
	const uint8_t *p = bytes;
	uint32_t version = get_le32(p + AT_VERSION), crc = checksum_crc32c(p, AT_CRC);
	int rc;

	if (memcmp(p + AT_MAGIC, magic, sizeof magic))
		return error_set(err, ERR_NOT_FOUND, "no array label");
	if (crc != get_le32(p + AT_CRC))
		return error_set(err, ERR_CORRUPT, "the label's checksum is %08x, its bytes give %08x",
			get_le32(p + AT_CRC), crc);
	if (version != LABEL_VERSION || get_le32(p + AT_LENGTH) != LABEL_BYTES)
		return error_set(err, ERR_UNSUPPORTED,
			"the label has version %u and %u bytes, this program knows version %u with %u", version,
			get_le32(p + AT_LENGTH), LABEL_VERSION, LABEL_BYTES);
	if (get_le64(p + AT_FEATURES))
		return error_set(err, ERR_UNSUPPORTED, "the label asks for features %#llx, this program knows 0",
			(unsigned long long)get_le64(p + AT_FEATURES));
	struct label *l = ret;
	memset(l, 0, sizeof *l);
	l->events = get_le64(p + AT_EVENTS);
	memcpy(l->array_id, p + AT_ARRAY_ID, ID_BYTES);
	memcpy(l->own_id, p + AT_OWN_ID, ID_BYTES);
	memcpy(l->name, p + AT_NAME, ARRAY_NAME_BYTES);
	l->index = get_le32(p + AT_INDEX);
	l->member_count = get_le32(p + AT_MEMBER_COUNT);
	l->sector_bytes = get_le32(p + AT_SECTOR);
	l->data_offset = get_le64(p + AT_DATA_OFFSET);
	l->map_offset = get_le64(p + AT_MAP_OFFSET);
	l->map_blocks = get_le64(p + AT_MAP_BLOCKS);
	l->log_offset = get_le64(p + AT_LOG_OFFSET);
	l->log_bytes = get_le64(p + AT_LOG_BYTES);
	l->disk_bytes = get_le64(p + AT_DISK_BYTES);
	l->clean = get_le32(p + AT_FLAGS) & FLAG_CLEAN;
	l->log_dedicated = get_le32(p + AT_FLAGS) & FLAG_LOG_DEDICATED;
	memcpy(l->log_id, p + AT_LOG_ID, ID_BYTES);
	l->log_disk_bytes = get_le64(p + AT_LOG_DISK_BYTES);
	l->log_sequence = get_le64(p + AT_LOG_SEQUENCE);
	unpack_layout(p, &l->layout);
	rc = name_check(l->name, err);
	if (!rc && (p[AT_HOLE] > ARRAY_HOLE_BITMAP || p[AT_ROLE] > LABEL_SOURCE))
		rc = error_set(err, ERR_CORRUPT, "the label says write hole %u and role %u", p[AT_HOLE], p[AT_ROLE]);
	l->hole = (enum array_hole)p[AT_HOLE];
	l->role = (enum label_role)p[AT_ROLE];
	if (!rc && l->sector_bytes != 512 && l->sector_bytes != 4096)
		rc = error_set(err, ERR_CORRUPT, "the label says sectors of %u bytes", l->sector_bytes);
	if (!rc && layout_check(&l->layout, err))
		rc = ERR_CORRUPT;
	for (unsigned i = 0; i < min_of(l->member_count, LAYOUT_DISKS_MAX); i++) {
		const uint8_t *e = p + AT_MEMBERS + i * ENTRY_BYTES;

		memcpy(l->members[i].id, e, ID_BYTES);
		memcpy(l->members[i].source_id, e + ENTRY_SOURCE, ID_BYTES);
		l->members[i].rebuilt_rows = get_le64(e + ENTRY_REBUILT);
		l->members[i].state = (enum array_member_state)e[ENTRY_STATE];
	}
	if (!rc)
		rc = members_check(l, err);
	if (!rc)
		rc = places_check(l, err);
	if (rc && err)
		err->code = rc;
	return rc;
}

/* --- on a disk -------------------------------------------------------------------------------- */

static void *label_buffer(struct error *err)
{
	void *p = aligned_alloc(DISK_BUFFER_ALIGN, 2 * LABEL_BYTES);

	if (!p)
		error_set(err, ERR_MEMORY, "out of memory for a label");
	return p;
}

/* Both slots of one area; keeps the newer good one in *best. Returns what was found: 0 or why not. */
static int area_load(struct disk *d, uint64_t offset, uint8_t *bytes, struct label *best, bool *have, unsigned *bad,
	struct error *err)
{
	int rc = disk_read(d, offset, bytes, 2 * LABEL_BYTES, err);
	struct label *l = rc ? NULL : malloc(sizeof *l);

	*bad = 3;
	if (rc)
		return rc;
	if (!l)
		return error_set(err, ERR_MEMORY, "out of memory for a label");
	for (unsigned slot = 0; slot < 2; slot++) {
		struct error why = ERROR_INIT;
		int found = label__unpack(bytes + slot * LABEL_BYTES, l, &why);

		if (!found && l->disk_bytes > disk_traits(d)->size_bytes)
			found = error_set(&why, ERR_CORRUPT,
				"the label is of a disk with %llu bytes, this one has %llu",
				(unsigned long long)l->disk_bytes, (unsigned long long)disk_traits(d)->size_bytes);
		if (!found) {
			*bad &= ~(1u << slot);
			if (!*have || l->events > best->events)
				*best = *l;
			*have = true;
		} else if (found != ERR_NOT_FOUND && (!rc || found == ERR_UNSUPPORTED)) {
			rc = found;
			error_clear(err ? err : &why);
			error_set(err, found, "%s", why.text);
		}
	}
	free(l);
	return rc;
}

int label__load(struct disk *d, struct label *ret, struct label_ends *ret_ends, struct error *err)
{
	const struct disk_traits *t = disk_traits(d);
	struct error front = ERROR_INIT, back = ERROR_INIT;
	unsigned front_bad, back_bad;
	bool have = false;

	if (t->size_bytes < DISK_BYTES_MIN)
		return error_set(err, ERR_NOT_FOUND, "%s: %llu bytes are too few for an array label", t->name,
			(unsigned long long)t->size_bytes);
	scoped_free uint8_t *bytes = label_buffer(err);
	if (!bytes)
		return ERR_MEMORY;
	int front_rc = area_load(d, LABEL_OFFSET, bytes, ret, &have, &front_bad, &front);
	uint64_t back_at = label__back_offset(t->size_bytes);
	if (have && ret->disk_bytes != t->size_bytes && ret->disk_bytes <= t->size_bytes)
		back_at = label__back_offset(ret->disk_bytes); /* the disk was enlarged since */
	int back_rc = area_load(d, back_at, bytes, ret, &have, &back_bad, &back);
	if (have) {
		*ret_ends = (struct label_ends){.front_good = front_bad != 3, .back_good = back_bad != 3};
		if (back_at != label__back_offset(t->size_bytes))
			back_bad = 3; /* it belongs elsewhere now */
		ret_ends->bad = front_bad | back_bad << 2;
		return 0;
	}
	const struct error *why = front_rc && front_rc != ERR_NOT_FOUND ? &front : back_rc ? &back : &front;
	int rc = front_rc && front_rc != ERR_NOT_FOUND ? front_rc : back_rc;
	if (!rc)
		return error_set(err, ERR_NOT_FOUND, "%s carries no array label", t->name);
	return error_set(err, rc, "%s: label at byte %llu: %s", t->name,
		(unsigned long long)(why == &front ? (uint64_t)LABEL_OFFSET : back_at), why->text);
}

int label__store(struct disk *d, const struct label *l, unsigned slots, struct error *err)
{
	scoped_free uint8_t *bytes = label_buffer(err);
	const uint64_t ends[2] = {LABEL_OFFSET, label__back_offset(l->disk_bytes)};
	int rc = 0;

	if (!bytes)
		return ERR_MEMORY;
	sp_assert(l->disk_bytes <= disk_traits(d)->size_bytes);
	label__pack(l, bytes);
	/* One end is durable before the other is touched: two cuts in a row would else tear every copy. */
	for (unsigned end = 0; end < 2 && !rc; end++) {
		for (unsigned slot = 0; slot < 2 && !rc; slot++)
			if (slots >> (end * 2 + slot) & 1)
				rc = disk_write(d, ends[end] + slot * LABEL_BYTES, bytes, LABEL_BYTES, err);
		if (!rc)
			rc = disk_flush(d, err);
	}
	return rc;
}

/* --- for scans -------------------------------------------------------------------------------- */

int array_label_read(struct disk *d, struct array_label_facts *ret, struct error *err)
{
	struct label_ends ends;
	scoped_free struct label *l = malloc(sizeof *l);

	if (!l)
		return error_set(err, ERR_MEMORY, "out of memory for a label");
	int rc = label__load(d, l, &ends, err);
	if (rc)
		return rc;
	struct array_label_facts f = {.index = l->index,
		.member_count = l->member_count,
		.events = l->events,
		.is_log = l->role == LABEL_LOG,
		.front_good = ends.front_good,
		.back_good = ends.back_good};
	memcpy(f.array_name, l->name, sizeof f.array_name);
	id__text(l->array_id, f.array_id);
	id__text(l->own_id, f.member_id);
	layout_name(&l->layout, f.layout_name);
	*ret = f;
	return 0;
}

int array_label_clear(struct disk *d, uint64_t ret_ranges[4], struct error *err)
{
	const struct disk_traits *t = disk_traits(d);
	scoped_free uint8_t *bytes = label_buffer(err);

	if (!bytes)
		return ERR_MEMORY;
	if (t->size_bytes < DISK_BYTES_MIN)
		return error_set(err, ERR_TOO_SMALL, "%s: %llu bytes hold no array label", t->name,
			(unsigned long long)t->size_bytes);
	memset(bytes, 0, 2 * LABEL_BYTES);
	const uint64_t ends[2] = {LABEL_OFFSET, label__back_offset(t->size_bytes)};
	for (unsigned i = 0; i < 2; i++) {
		int rc = disk_write(d, ends[i], bytes, 2 * LABEL_BYTES, err);

		if (rc)
			return rc;
	}
	int rc = disk_flush(d, err);
	if (!rc && ret_ranges) {
		ret_ranges[0] = ends[0];
		ret_ranges[1] = ends[0] + 2 * LABEL_BYTES;
		ret_ranges[2] = ends[1];
		ret_ranges[3] = ends[1] + 2 * LABEL_BYTES;
	}
	return rc;
}
