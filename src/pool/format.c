/*
 * Packing and unpacking of all that a pool writes: pointers and labels here, the rest in format_items.c. The only places
 * that know byte offsets; docs/format.md has them as tables. Every unpack function refuses what its pack function could
 * not have written, so what passed can be packed again and gives the same bytes. Nothing is allocated here.
 */
#include "format.h"

#include <stdio.h>
#include <string.h>

#define LLU(v) ((unsigned long long)(v))

#define K(n) ((n) << 10)
const uint32_t class_bytes[CLASS_COUNT + 1] = {
	K(4), K(8), K(12), K(16), K(20), K(24), K(28),         /* whole units */
	K(32), K(40), K(48), K(56), K(64), K(80), K(96), K(112), /* from here on quarters */
	K(128), K(160), K(192), K(224), K(256), K(320), K(384), K(448), K(512), K(640), K(768), K(896), K(1024),
	NODE_BYTES,
};
#undef K
#define RECORD_BYTES_MAX (1u << 20)
#define UNIT_LIMIT (1ULL << 40)

unsigned class_of(uint64_t bytes)
{
	unsigned class = 0;

	sp_assert(bytes <= class_bytes[CLASS_COUNT - 1]);
	while (class_bytes[class] < bytes)
		class ++;
	return class;
}

static void put_le48(uint8_t *p, uint64_t v)
{
	put_le32(p, (uint32_t)v);
	put_le16(p + 4, (uint16_t)(v >> 32));
}

static uint64_t get_le48(const uint8_t *p)
{
	return get_le32(p) | (uint64_t)get_le16(p + 4) << 32;
}

/* --- block pointers ----------------------------------------------------------------------------------------------- */

enum {
	BP_AT_KIND = 0,
	BP_AT_CODECS = 1,
	BP_AT_LEVEL = 2,
	BP_AT_COPIES = 3,
	BP_AT_LOGICAL = 4,
	BP_AT_BIRTH = 8,
	BP_AT_RUN = 16,
	BP_AT_COLUMN = 22,
	BP_AT_HINT_DISK = 23,
	BP_AT_STRIPE = 24,
	BP_AT_HINT_UNIT = 28,
	BP_AT_ZERO = 33,
	BP_AT_PHYSICAL = 36,
	BP_AT_CHECKSUM = 40,
	BP_AT_COPY = 16,
	ADDRESS_BYTES = 6,
};
_Static_assert(BP_AT_BIRTH + 8 == BP_INLINE_HEAD, "the inline form is the head and nothing else");
_Static_assert(
	BP_AT_COPY + POOL_COPIES_MAX * ADDRESS_BYTES == BP_AT_CHECKSUM, "the copies end where the checksum begins");
_Static_assert(BP_AT_CHECKSUM + CHECKSUM_BYTES == BP_BYTES, "a pointer is 64 bytes");
_Static_assert(BP_AT_HINT_UNIT + 5 == BP_AT_ZERO && BP_AT_PHYSICAL + 4 == BP_AT_CHECKSUM, "the data form has no gap");
_Static_assert(COMPRESS_COUNT <= 16 && CHECKSUM_COUNT <= 16, "two codes share a byte");

void bp_pack(const struct bp *bp, uint8_t out[BP_BYTES])
{
	memset(out, 0, BP_BYTES);
	out[BP_AT_KIND] = bp->kind;
	put_le64(out + BP_AT_BIRTH, bp->birth);
	if (bp->kind == BP_HOLE) {
		put_le32(out + BP_AT_LOGICAL, bp->logical_bytes);
		return;
	}
	out[BP_AT_CODECS] = (uint8_t)(bp->compression | bp->checksum_kind << 4);
	out[BP_AT_LEVEL] = bp->level;
	put_le32(out + BP_AT_LOGICAL,
		bp->kind == BP_NODE && bp->level != BP_LEVEL_BLOB ? NODE_BYTES : bp->logical_bytes);
	if (bp->kind == BP_INLINE)
		return;
	memcpy(out + BP_AT_CHECKSUM, bp->checksum, CHECKSUM_BYTES);
	if (bp->kind == BP_NODE) {
		sp_assert(bp->copies <= POOL_COPIES_MAX);
		out[BP_AT_COPIES] = (uint8_t)bp->copies;
		for (unsigned i = 0; i < bp->copies; i++) {
			sp_assert(bp->copy[i].unit < UNIT_LIMIT);
			out[BP_AT_COPY + i * ADDRESS_BYTES] = bp->copy[i].disk;
			put_le40(out + BP_AT_COPY + i * ADDRESS_BYTES + 1, bp->copy[i].unit);
		}
		return;
	}
	sp_assert(bp->kind == BP_DATA && bp->run < 1ULL << 48 && bp->hint.unit < UNIT_LIMIT);
	put_le48(out + BP_AT_RUN, bp->run);
	out[BP_AT_COLUMN] = bp->column;
	out[BP_AT_HINT_DISK] = bp->hint.disk;
	put_le32(out + BP_AT_STRIPE, bp->stripe);
	put_le40(out + BP_AT_HINT_UNIT, bp->hint.unit);
	put_le32(out + BP_AT_PHYSICAL, bp->physical_bytes);
}

static int bp_unpack_node(const uint8_t in[BP_BYTES], struct bp *bp, struct error *err)
{
	bp->copies = in[BP_AT_COPIES];
	if (bp->copies < 1 || bp->copies > POOL_COPIES_MAX)
		return error_set(err, ERR_CORRUPT, "a pointer to a node names %u copies; 1 to %u are possible",
			bp->copies, POOL_COPIES_MAX);
	if (bp->level != BP_LEVEL_BLOB && bp->logical_bytes != NODE_BYTES)
		return error_set(err, ERR_CORRUPT, "a pointer to a node says %u bytes; a node has %u",
			bp->logical_bytes, NODE_BYTES);
	if (bp->logical_bytes == 0 || bp->logical_bytes > RECORD_BYTES_MAX)
		return error_set(err, ERR_CORRUPT, "a pointer to a blob says %u bytes; 1 to %u are possible",
			bp->logical_bytes, RECORD_BYTES_MAX);
	bp->physical_bytes = bp->logical_bytes;
	for (unsigned i = 0; i < bp->copies; i++) {
		bp->copy[i].disk = in[BP_AT_COPY + i * ADDRESS_BYTES];
		bp->copy[i].unit = get_le40(in + BP_AT_COPY + i * ADDRESS_BYTES + 1);
		for (unsigned j = 0; j < i; j++)
			if (bp->copy[j].disk == bp->copy[i].disk)
				return error_set(err, ERR_CORRUPT, "a pointer to a node has two copies on disk %u",
					bp->copy[i].disk);
		if (bp->copy[i].disk >= POOL_DISKS_MAX)
			return error_set(err, ERR_CORRUPT, "a pointer to a node names disk %u; a pool has at most %u",
				bp->copy[i].disk, POOL_DISKS_MAX);
	}
	if (!format_all_zero(
		    in + BP_AT_COPY + bp->copies * ADDRESS_BYTES, (POOL_COPIES_MAX - bp->copies) * ADDRESS_BYTES))
		return error_set(err, ERR_CORRUPT, "a pointer to a node has bytes behind its %u copies", bp->copies);
	return 0;
}

static int bp_unpack_data(const uint8_t in[BP_BYTES], struct bp *bp, struct error *err)
{
	bp->run = get_le48(in + BP_AT_RUN);
	bp->column = in[BP_AT_COLUMN];
	bp->hint.disk = in[BP_AT_HINT_DISK];
	bp->stripe = get_le32(in + BP_AT_STRIPE);
	bp->hint.unit = get_le40(in + BP_AT_HINT_UNIT);
	bp->physical_bytes = get_le32(in + BP_AT_PHYSICAL);
	if (in[BP_AT_COPIES] || !format_all_zero(in + BP_AT_ZERO, BP_AT_PHYSICAL - BP_AT_ZERO))
		return error_set(err, ERR_CORRUPT, "a pointer to data has bytes set that must be zero");
	if (bp->column >= POOL_WIDTH_MAX || bp->stripe >= RUN_STRIPES_MAX)
		return error_set(err, ERR_CORRUPT,
			"a pointer to data names stripe %u column %u; %u and %u are the limits", bp->stripe, bp->column,
			RUN_STRIPES_MAX, POOL_WIDTH_MAX);
	if (bp->logical_bytes == 0 || bp->logical_bytes > RECORD_BYTES_MAX || bp->physical_bytes == 0 ||
		bp->physical_bytes > bp->logical_bytes)
		return error_set(err, ERR_CORRUPT, "a pointer to data says %u bytes stored in %u", bp->logical_bytes,
			bp->physical_bytes);
	if (bp->compression == COMPRESS_OFF && bp->physical_bytes != bp->logical_bytes)
		return error_set(err, ERR_CORRUPT, "a pointer to data says %u bytes stored in %u, not compressed",
			bp->logical_bytes, bp->physical_bytes);
	return 0;
}

int bp_unpack(const uint8_t in[BP_BYTES], struct bp *ret, struct error *err)
{
	struct bp bp = {
		.kind = in[BP_AT_KIND],
		.compression = in[BP_AT_CODECS] & 15,
		.checksum_kind = in[BP_AT_CODECS] >> 4,
		.level = in[BP_AT_LEVEL],
		.logical_bytes = get_le32(in + BP_AT_LOGICAL),
		.birth = get_le64(in + BP_AT_BIRTH),
	};
	int code = 0;

	if (bp.kind >= BP_KIND_COUNT)
		return error_set(
			err, ERR_CORRUPT, "a pointer is of kind %u; 0 to %u are known", bp.kind, BP_KIND_COUNT - 1);
	if (bp.compression >= COMPRESS_COUNT || bp.checksum_kind >= CHECKSUM_COUNT)
		return error_set(err, ERR_CORRUPT,
			"a pointer names compression %u and checksum %u, which are not known", bp.compression,
			bp.checksum_kind);
	switch (bp.kind) {
	case BP_HOLE:
		if (in[BP_AT_CODECS] || in[BP_AT_LEVEL] || in[BP_AT_COPIES] ||
			!format_all_zero(in + BP_INLINE_HEAD, BP_BYTES - BP_INLINE_HEAD))
			return error_set(err, ERR_CORRUPT, "a pointer to a hole has bytes set that must be zero");
		break;
	case BP_INLINE:
		if (in[BP_AT_COPIES] || bp.logical_bytes == 0 || bp.logical_bytes > RECORD_BYTES_MAX)
			return error_set(err, ERR_CORRUPT, "an inline pointer says %u bytes", bp.logical_bytes);
		break;
	case BP_NODE:
		code = bp_unpack_node(in, &bp, err);
		break;
	default:
		code = bp_unpack_data(in, &bp, err);
	}
	if (code)
		return code;
	if (bp.kind == BP_NODE || bp.kind == BP_DATA)
		memcpy(bp.checksum, in + BP_AT_CHECKSUM, CHECKSUM_BYTES);
	*ret = bp;
	return 0;
}

int bp_unpack_value(const uint8_t *value, size_t bytes, struct bp *ret, struct error *err)
{
	uint8_t head[BP_BYTES] = {0};
	struct bp bp;
	int code;

	if (bytes < BP_INLINE_HEAD)
		return error_set(
			err, ERR_CORRUPT, "a pointer has %zu bytes; at least %u are needed", bytes, BP_INLINE_HEAD);
	if (value[BP_AT_KIND] != BP_INLINE) {
		if (bytes != BP_BYTES)
			return error_set(err, ERR_CORRUPT, "a pointer has %zu bytes; expected %u", bytes, BP_BYTES);
		return bp_unpack(value, ret, err);
	}
	if (bytes == BP_INLINE_HEAD || bytes > BP_INLINE_HEAD + BP_INLINE_MAX)
		return error_set(err, ERR_CORRUPT, "an inline pointer holds %zu bytes; 1 to %u are possible",
			bytes - BP_INLINE_HEAD, BP_INLINE_MAX);
	memcpy(head, value, BP_INLINE_HEAD);
	code = bp_unpack(head, &bp, err);
	if (code)
		return code;
	bp.physical_bytes = (uint32_t)(bytes - BP_INLINE_HEAD);
	if (bp.physical_bytes > bp.logical_bytes ||
		(bp.compression == COMPRESS_OFF && bp.physical_bytes != bp.logical_bytes))
		return error_set(err, ERR_CORRUPT, "an inline pointer says %u bytes and holds %u", bp.logical_bytes,
			bp.physical_bytes);
	*ret = bp;
	return 0;
}

/* --- label header ------------------------------------------------------------------------------------------------- */

#define BLOCK_BYTES 4096u
#define BLOCK_AT_CRC (BLOCK_BYTES - 4)

static const uint8_t label_magic[8] = {'S', 'P', 'N', 'D', 'P', 'O', 'O', 'L'};
enum {
	LABEL_AT_MAGIC = 0,
	LABEL_AT_VERSION = 8,
	LABEL_AT_WHICH = 12,
	LABEL_AT_INCOMPATIBLE = 16,
	LABEL_AT_READ_ONLY = 24,
	LABEL_AT_POOL_ID = 32,
	LABEL_AT_DISK_ID = 48,
	LABEL_AT_INDEX = 64,
	LABEL_AT_ZONE_COUNT = 68,
	LABEL_AT_SIZE = 72,
	LABEL_AT_ZONE = 80,
	LABEL_AT_DATA_START = 88,
	LABEL_AT_LOG_OFFSET = 96,
	LABEL_AT_LOG_BYTES = 104,
	LABEL_END = 112,
};
_Static_assert(LABEL_CONFIG_OFFSET(0) >= LABEL_HEADER_OFFSET + BLOCK_BYTES, "the header ends before the configuration");
_Static_assert(
	LABEL_CONFIG_OFFSET(1) + LABEL_CONFIG_BYTES <= LABEL_RING_OFFSET, "both configurations fit before the ring");
_Static_assert(LABEL_RING_OFFSET + LABEL_RING_SLOTS * BLOCK_BYTES == LABEL_BYTES, "the ring ends the label");

bool label_header_is(const uint8_t in[4096])
{
	return memcmp(in + LABEL_AT_MAGIC, label_magic, sizeof(label_magic)) == 0;
}

void label_header_pack(const struct label_header *h, uint8_t out[4096])
{
	memset(out, 0, BLOCK_BYTES);
	memcpy(out + LABEL_AT_MAGIC, label_magic, sizeof(label_magic));
	put_le32(out + LABEL_AT_VERSION, h->version);
	out[LABEL_AT_WHICH] = h->which;
	put_le64(out + LABEL_AT_INCOMPATIBLE, h->features_incompatible);
	put_le64(out + LABEL_AT_READ_ONLY, h->features_read_only);
	memcpy(out + LABEL_AT_POOL_ID, h->pool_id, 16);
	memcpy(out + LABEL_AT_DISK_ID, h->disk_id, 16);
	put_le32(out + LABEL_AT_INDEX, h->disk_index);
	put_le32(out + LABEL_AT_ZONE_COUNT, h->zone_count);
	put_le64(out + LABEL_AT_SIZE, h->size_bytes);
	put_le64(out + LABEL_AT_ZONE, h->zone_bytes);
	put_le64(out + LABEL_AT_DATA_START, h->data_start_bytes);
	put_le64(out + LABEL_AT_LOG_OFFSET, h->log_offset_bytes);
	put_le64(out + LABEL_AT_LOG_BYTES, h->log_bytes);
	put_le32(out + BLOCK_AT_CRC, checksum_crc32c(out, BLOCK_AT_CRC));
}

/* Zones lie inside the disk, whole units, and nothing in the sums overflows. */
static int zones_check(uint64_t size, uint64_t start, uint64_t zone, uint32_t count, struct error *err)
{
	uint64_t end = size >= POOL_DISK_BYTES_MIN ? round_down_u64(size, 1 << 20) - LABEL_BYTES : 0;

	if (size < POOL_DISK_BYTES_MIN || size > UNIT_LIMIT * POOL_UNIT_BYTES)
		return error_set(err, ERR_CORRUPT, "a disk is said to have %llu bytes; %u is the least", LLU(size),
			POOL_DISK_BYTES_MIN);
	if (zone < POOL_UNIT_BYTES || zone > POOL_ZONE_BYTES_MAX || zone % POOL_UNIT_BYTES || start % POOL_UNIT_BYTES)
		return error_set(err, ERR_CORRUPT, "zones of %llu bytes from %llu are not whole units of %u", LLU(zone),
			LLU(start), POOL_UNIT_BYTES);
	if (start < LABEL_BYTES || start > end || count > (end - start) / zone)
		return error_set(err, ERR_CORRUPT,
			"%u zones of %llu bytes from %llu do not fit on a disk of %llu bytes", count, LLU(zone),
			LLU(start), LLU(size));
	return 0;
}

int label_header_unpack(const uint8_t in[4096], struct label_header *ret, struct error *err)
{
	struct label_header h;
	int code;

	if (!label_header_is(in))
		return error_set(err, ERR_NOT_FOUND, "no label of a pool");
	if (checksum_crc32c(in, BLOCK_AT_CRC) != get_le32(in + BLOCK_AT_CRC))
		return error_set(err, ERR_CORRUPT, "the header of the label does not match its checksum");
	h.version = get_le32(in + LABEL_AT_VERSION);
	if (h.version == 0 || h.version > POOL_VERSION)
		return error_set(err, ERR_UNSUPPORTED, "the label is of version %u; up to %u are known", h.version,
			POOL_VERSION);
	h.features_incompatible = get_le64(in + LABEL_AT_INCOMPATIBLE);
	h.features_read_only = get_le64(in + LABEL_AT_READ_ONLY);
	if (h.features_incompatible & ~POOL_FEATURES_INCOMPATIBLE)
		return error_set(err, ERR_UNSUPPORTED, "the pool uses features that are not known here: 0x%llx",
			LLU(h.features_incompatible & ~POOL_FEATURES_INCOMPATIBLE));
	h.which = in[LABEL_AT_WHICH];
	memcpy(h.pool_id, in + LABEL_AT_POOL_ID, 16);
	memcpy(h.disk_id, in + LABEL_AT_DISK_ID, 16);
	h.disk_index = get_le32(in + LABEL_AT_INDEX);
	h.zone_count = get_le32(in + LABEL_AT_ZONE_COUNT);
	h.size_bytes = get_le64(in + LABEL_AT_SIZE);
	h.zone_bytes = get_le64(in + LABEL_AT_ZONE);
	h.data_start_bytes = get_le64(in + LABEL_AT_DATA_START);
	h.log_offset_bytes = get_le64(in + LABEL_AT_LOG_OFFSET);
	h.log_bytes = get_le64(in + LABEL_AT_LOG_BYTES);
	if (h.which > 1 || h.disk_index >= POOL_DISKS_MAX || !format_all_zero(in + LABEL_AT_WHICH + 1, 3) ||
		!format_all_zero(in + LABEL_END, BLOCK_AT_CRC - LABEL_END))
		return error_set(err, ERR_CORRUPT,
			"the header of the label is of disk %u, end %u, or has bytes set that must be zero",
			h.disk_index, h.which);
	code = zones_check(h.size_bytes, h.data_start_bytes, h.zone_bytes, h.zone_count, err);
	if (code)
		return code;
	if (h.log_offset_bytes < LABEL_BYTES || h.log_offset_bytes % POOL_UNIT_BYTES || h.log_bytes % POOL_UNIT_BYTES ||
		h.log_offset_bytes > h.data_start_bytes || h.log_bytes > h.data_start_bytes - h.log_offset_bytes)
		return error_set(err, ERR_CORRUPT,
			"the log of %llu bytes at %llu does not fit between label and data at %llu", LLU(h.log_bytes),
			LLU(h.log_offset_bytes), LLU(h.data_start_bytes));
	*ret = h;
	return 0;
}

/* --- configuration ------------------------------------------------------------------------------------------------ */

static const uint8_t config_magic[8] = {'S', 'P', 'N', 'D', 'C', 'O', 'N', 'F'};
enum {
	CONFIG_AT_MAGIC = 0,
	CONFIG_AT_GENERATION = 8,
	CONFIG_AT_POOL_ID = 16,
	CONFIG_AT_HOST_ID = 32,
	CONFIG_AT_DISKS = 40,
	CONFIG_AT_GROUPS = 42,
	CONFIG_AT_BYTES = 44,
	CONFIG_AT_EXPORTED = 48,
	CONFIG_AT_RUN_BYTES = 56,
	CONFIG_AT_HOST_NAME = 64,
	CONFIG_AT_NAME = 128,
	CONFIG_FIXED = 384,
	CONFIG_AT_CRC = LABEL_CONFIG_BYTES - 4,

	GROUP_BYTES = 4,

	CD_AT_ID = 0,
	CD_AT_STATE = 16,
	CD_AT_ZERO = 17,
	CD_AT_GROUP = 18,
	CD_AT_ZONE_COUNT = 20,
	CD_AT_SIZE = 24,
	CD_AT_MISSED = 32,
	CD_AT_ZONE = 40,
	CD_AT_DATA_START = 48,
	CD_AT_PATH_BYTES = 56,
	CD_FIXED = 58,
};
_Static_assert(CONFIG_AT_NAME + POOL_NAME_BYTES == CONFIG_FIXED, "the tables follow the name");
_Static_assert(CONFIG_AT_HOST_NAME + 64 == CONFIG_AT_NAME, "the name follows that of the host");
_Static_assert(CONFIG_FIXED + POOL_GROUPS_MAX * GROUP_BYTES + POOL_DISKS_MAX * CD_FIXED <= CONFIG_AT_CRC,
	"everything but paths always fits");

bool pool_name_is_valid(const char *name)
{
	size_t length = strnlen(name, POOL_NAME_BYTES);

	if (length == 0 || length >= POOL_NAME_BYTES ||
		!((name[0] >= 'a' && name[0] <= 'z') || (name[0] >= 'A' && name[0] <= 'Z')))
		return false;
	for (size_t i = 0; i < length; i++)
		if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
			    (name[i] >= '0' && name[i] <= '9') || strchr("_.:-", name[i])))
			return false;
	return true;
}

int config_pack(const struct pool_config *c, uint8_t out[LABEL_CONFIG_BYTES], struct error *err)
{
	uint8_t *at = out + CONFIG_FIXED;
	size_t room = CONFIG_AT_CRC - CONFIG_FIXED - c->group_count * GROUP_BYTES - c->disk_count * CD_FIXED;

	if (!pool_name_is_valid(c->name))
		return error_set(err, ERR_USAGE, "'%.255s' cannot name a pool", c->name);
	sp_assert(c->disk_count >= 1 && c->disk_count <= POOL_DISKS_MAX && c->group_count <= POOL_GROUPS_MAX);
	memset(out, 0, LABEL_CONFIG_BYTES);
	memcpy(out + CONFIG_AT_MAGIC, config_magic, sizeof(config_magic));
	put_le64(out + CONFIG_AT_GENERATION, c->generation);
	memcpy(out + CONFIG_AT_POOL_ID, c->pool_id, 16);
	put_le64(out + CONFIG_AT_HOST_ID, c->host_id);
	put_le16(out + CONFIG_AT_DISKS, (uint16_t)c->disk_count);
	put_le16(out + CONFIG_AT_GROUPS, (uint16_t)c->group_count);
	out[CONFIG_AT_EXPORTED] = c->exported;
	put_le64(out + CONFIG_AT_RUN_BYTES, c->run_bytes);
	memcpy(out + CONFIG_AT_HOST_NAME, c->host_name, strnlen(c->host_name, sizeof(c->host_name) - 1));
	memcpy(out + CONFIG_AT_NAME, c->name, strnlen(c->name, POOL_NAME_BYTES - 1));
	for (unsigned i = 0; i < c->group_count; i++, at += GROUP_BYTES) {
		at[0] = c->groups[i].kind;
		at[1] = c->groups[i].parity;
		put_le16(at + 2, c->groups[i].width);
	}
	for (unsigned i = 0; i < c->disk_count; i++) {
		const struct config_disk *d = &c->disks[i];
		size_t length = strnlen(d->path, sizeof(d->path) - 1);

		/* A path is a hint: with very many and very long ones the last ones are left out. */
		if (length > room)
			length = 0;
		room -= length;
		memcpy(at + CD_AT_ID, d->id, 16);
		at[CD_AT_STATE] = d->state;
		put_le16(at + CD_AT_GROUP, d->group);
		put_le32(at + CD_AT_ZONE_COUNT, d->zone_count);
		put_le64(at + CD_AT_SIZE, d->size_bytes);
		put_le64(at + CD_AT_MISSED, d->missed_from);
		put_le64(at + CD_AT_ZONE, d->zone_bytes);
		put_le64(at + CD_AT_DATA_START, d->data_start_bytes);
		put_le16(at + CD_AT_PATH_BYTES, (uint16_t)length);
		memcpy(at + CD_FIXED, d->path, length);
		at += CD_FIXED + length;
	}
	put_le32(out + CONFIG_AT_BYTES, (uint32_t)(at - out));
	put_le32(out + CONFIG_AT_CRC, checksum_crc32c(out, CONFIG_AT_CRC));
	return 0;
}

/* The text of a field of fixed size: ends with a zero inside it and holds nothing behind that. */
static bool text_field(const uint8_t *in, size_t bytes, char *out)
{
	size_t length = strnlen((const char *)in, bytes);

	if (length == bytes || !format_all_zero(in + length, bytes - length))
		return false;
	memcpy(out, in, bytes);
	return true;
}

static int config_unpack_disks(const uint8_t *at, const uint8_t *end, struct pool_config *c, struct error *err)
{
	for (unsigned i = 0; i < c->disk_count; i++) {
		struct config_disk *d = &c->disks[i];
		size_t length;
		int code;

		if ((size_t)(end - at) < CD_FIXED)
			return error_set(err, ERR_CORRUPT, "the configuration ends within disk %u", i);
		memcpy(d->id, at + CD_AT_ID, 16);
		d->state = at[CD_AT_STATE];
		d->group = get_le16(at + CD_AT_GROUP);
		d->zone_count = get_le32(at + CD_AT_ZONE_COUNT);
		d->size_bytes = get_le64(at + CD_AT_SIZE);
		d->missed_from = get_le64(at + CD_AT_MISSED);
		d->zone_bytes = get_le64(at + CD_AT_ZONE);
		d->data_start_bytes = get_le64(at + CD_AT_DATA_START);
		length = get_le16(at + CD_AT_PATH_BYTES);
		if (d->state >= PD_STATE_COUNT || d->group >= c->group_count || at[CD_AT_ZERO])
			return error_set(err, ERR_CORRUPT,
				"disk %u of the configuration is in state %u and group %u of %u", i, d->state, d->group,
				c->group_count);
		if (length >= sizeof(d->path) || length > (size_t)(end - at) - CD_FIXED)
			return error_set(err, ERR_CORRUPT, "the path of disk %u has %zu bytes", i, length);
		if (memchr(at + CD_FIXED, 0, length))
			return error_set(err, ERR_CORRUPT, "the path of disk %u has a zero in it", i);
		code = zones_check(d->size_bytes, d->data_start_bytes, d->zone_bytes, d->zone_count, err);
		if (code) {
			error_prefix(err, "disk %u of the configuration", i);
			return code;
		}
		memcpy(d->path, at + CD_FIXED, length);
		at += CD_FIXED + length;
		for (unsigned j = 0; j < i; j++)
			if (memcmp(c->disks[j].id, d->id, 16) == 0)
				return error_set(
					err, ERR_CORRUPT, "disks %u and %u of the configuration have one id", j, i);
	}
	if (at != end)
		return error_set(
			err, ERR_CORRUPT, "the configuration has %zu bytes behind its last disk", (size_t)(end - at));
	return 0;
}

static int config_check_groups(const struct pool_config *c, struct error *err)
{
	for (unsigned g = 0; g < c->group_count; g++) {
		const struct config_group *group = &c->groups[g];
		unsigned disks = 0;
		bool fits = true;

		for (unsigned i = 0; i < c->disk_count; i++)
			disks += c->disks[i].group == g;
		if (group->kind == GROUP_DISK)
			fits = group->parity == 0;
		else if (group->kind == GROUP_MIRROR)
			fits = group->width == group->parity + 1;
		else if (group->kind == GROUP_PARITY)
			fits = group->parity >= 1;
		if (!fits || group->kind >= GROUP_KIND_COUNT || group->parity > POOL_PARITY_MAX ||
			group->width <= group->parity || group->width > POOL_WIDTH_MAX || group->width > disks)
			return error_set(err, ERR_CORRUPT,
				"group %u of the configuration is of kind %u, width %u, parity %u over %u disks", g,
				group->kind, group->width, group->parity, disks);
	}
	return 0;
}

int config_unpack(const uint8_t in[LABEL_CONFIG_BYTES], struct pool_config *ret, struct error *err)
{
	struct pool_config *c = ret;
	uint32_t bytes = get_le32(in + CONFIG_AT_BYTES);
	const uint8_t *at = in + CONFIG_FIXED;
	int code;

	if (memcmp(in, config_magic, sizeof(config_magic)) != 0)
		return error_set(err, ERR_NOT_FOUND, "no configuration of a pool");
	if (checksum_crc32c(in, CONFIG_AT_CRC) != get_le32(in + CONFIG_AT_CRC))
		return error_set(err, ERR_CORRUPT, "the configuration does not match its checksum");
	memset(c, 0, sizeof(*c));
	c->generation = get_le64(in + CONFIG_AT_GENERATION);
	memcpy(c->pool_id, in + CONFIG_AT_POOL_ID, 16);
	c->host_id = get_le64(in + CONFIG_AT_HOST_ID);
	c->disk_count = get_le16(in + CONFIG_AT_DISKS);
	c->group_count = get_le16(in + CONFIG_AT_GROUPS);
	c->exported = in[CONFIG_AT_EXPORTED];
	c->run_bytes = get_le64(in + CONFIG_AT_RUN_BYTES);
	if (c->disk_count < 1 || c->disk_count > POOL_DISKS_MAX || c->group_count < 1 ||
		c->group_count > POOL_GROUPS_MAX || bytes < CONFIG_FIXED + c->group_count * GROUP_BYTES ||
		bytes > CONFIG_AT_CRC)
		return error_set(err, ERR_CORRUPT, "the configuration says %u disks, %u groups, %u bytes",
			c->disk_count, c->group_count, bytes);
	if (in[CONFIG_AT_EXPORTED] > 1 || !format_all_zero(in + CONFIG_AT_EXPORTED + 1, 7) ||
		!format_all_zero(in + bytes, CONFIG_AT_CRC - bytes))
		return error_set(err, ERR_CORRUPT, "the configuration has bytes set that must be zero");
	if (!text_field(in + CONFIG_AT_HOST_NAME, sizeof(c->host_name), c->host_name) ||
		!text_field(in + CONFIG_AT_NAME, POOL_NAME_BYTES, c->name) || !pool_name_is_valid(c->name))
		return error_set(err, ERR_CORRUPT, "the name of the pool or of its host in the configuration is none");
	for (unsigned i = 0; i < c->group_count; i++, at += GROUP_BYTES) {
		c->groups[i].kind = at[0];
		c->groups[i].parity = at[1];
		c->groups[i].width = get_le16(at + 2);
	}
	code = config_unpack_disks(at, in + bytes, c, err);
	return code ? code : config_check_groups(c, err);
}

/* --- uberblock ---------------------------------------------------------------------------------------------------- */

static const uint8_t uber_magic[8] = {'S', 'P', 'N', 'D', 'U', 'B', 'E', 'R'};
enum {
	UBER_AT_MAGIC = 0,
	UBER_AT_CHECKPOINT = 8,
	UBER_AT_COMMIT = 16,
	UBER_AT_LOG_SEQUENCE = 24,
	UBER_AT_LOG_OFFSET = 32,
	UBER_AT_NEXT_RUN = 40,
	UBER_AT_NEXT_DATASET = 48,
	UBER_AT_WALL = 56,
	UBER_AT_GENERATION = 64,
	UBER_AT_ACTIVITY = 72,
	UBER_AT_ROOTS = 80,
	UBER_ROOTS = 5,
	UBER_AT_DISK_ID = 400,
	UBER_AT_SLOT = 416,
	UBER_END = 420,
};
_Static_assert(UBER_AT_ROOTS + UBER_ROOTS * BP_BYTES == UBER_AT_DISK_ID, "the roots end where the place begins");

void uberblock_pack(const struct uberblock *u, const uint8_t disk_id[16], unsigned slot, uint8_t out[4096])
{
	const struct bp *roots[UBER_ROOTS] = {&u->catalog, &u->runs, &u->sums, &u->dead, &u->metamap};

	memset(out, 0, BLOCK_BYTES);
	memcpy(out + UBER_AT_MAGIC, uber_magic, sizeof(uber_magic));
	put_le64(out + UBER_AT_CHECKPOINT, u->checkpoint);
	put_le64(out + UBER_AT_COMMIT, u->commit);
	put_le64(out + UBER_AT_LOG_SEQUENCE, u->log_sequence);
	put_le64(out + UBER_AT_LOG_OFFSET, u->log_offset);
	put_le64(out + UBER_AT_NEXT_RUN, u->next_run);
	put_le64(out + UBER_AT_NEXT_DATASET, u->next_dataset);
	put_le64(out + UBER_AT_WALL, u->wall_ns);
	put_le64(out + UBER_AT_GENERATION, u->config_generation);
	put_le64(out + UBER_AT_ACTIVITY, u->activity_ns);
	for (unsigned i = 0; i < UBER_ROOTS; i++)
		bp_pack(roots[i], out + UBER_AT_ROOTS + i * BP_BYTES);
	memcpy(out + UBER_AT_DISK_ID, disk_id, 16);
	put_le32(out + UBER_AT_SLOT, slot);
	put_le32(out + BLOCK_AT_CRC, checksum_crc32c(out, BLOCK_AT_CRC));
}

int uberblock_unpack(
	const uint8_t in[4096], const uint8_t disk_id[16], unsigned slot, struct uberblock *ret, struct error *err)
{
	struct uberblock u;
	struct bp *roots[UBER_ROOTS] = {&u.catalog, &u.runs, &u.sums, &u.dead, &u.metamap};

	if (memcmp(in, uber_magic, sizeof(uber_magic)) != 0)
		return error_set(err, ERR_NOT_FOUND, "no uberblock in slot %u", slot);
	if (checksum_crc32c(in, BLOCK_AT_CRC) != get_le32(in + BLOCK_AT_CRC))
		return error_set(err, ERR_CORRUPT, "the uberblock in slot %u does not match its checksum", slot);
	if (memcmp(in + UBER_AT_DISK_ID, disk_id, 16) != 0 || get_le32(in + UBER_AT_SLOT) != slot)
		return error_set(err, ERR_CORRUPT,
			"the uberblock in slot %u belongs into slot %u, maybe of another disk", slot,
			get_le32(in + UBER_AT_SLOT));
	u.checkpoint = get_le64(in + UBER_AT_CHECKPOINT);
	u.commit = get_le64(in + UBER_AT_COMMIT);
	u.log_sequence = get_le64(in + UBER_AT_LOG_SEQUENCE);
	u.log_offset = get_le64(in + UBER_AT_LOG_OFFSET);
	u.next_run = get_le64(in + UBER_AT_NEXT_RUN);
	u.next_dataset = get_le64(in + UBER_AT_NEXT_DATASET);
	u.wall_ns = get_le64(in + UBER_AT_WALL);
	u.config_generation = get_le64(in + UBER_AT_GENERATION);
	u.activity_ns = get_le64(in + UBER_AT_ACTIVITY);
	if (u.checkpoint % LABEL_RING_SLOTS != slot || u.log_offset % POOL_UNIT_BYTES || u.next_run >= 1ULL << 48 ||
		!format_all_zero(in + UBER_END, BLOCK_AT_CRC - UBER_END))
		return error_set(err, ERR_CORRUPT,
			"the uberblock in slot %u says checkpoint %llu, log at %llu, next run %llu", slot,
			LLU(u.checkpoint), LLU(u.log_offset), LLU(u.next_run));
	for (unsigned i = 0; i < UBER_ROOTS; i++) {
		int code = bp_unpack(in + UBER_AT_ROOTS + i * BP_BYTES, roots[i], err);

		if (!code && roots[i]->kind != BP_HOLE && roots[i]->kind != BP_NODE)
			code = error_set(err, ERR_CORRUPT, "it is a pointer of kind %u", roots[i]->kind);
		if (code) {
			error_prefix(err, "root %u of checkpoint %llu", i, LLU(u.checkpoint));
			return code;
		}
	}
	*ret = u;
	return 0;
}

static const uint8_t activity_magic[8] = {'S', 'P', 'N', 'D', 'A', 'C', 'T', 'V'};

void activity_pack(const uint8_t pool_id[16], uint64_t host_id, uint64_t stamp, uint8_t out[4096])
{
	memset(out, 0, BLOCK_BYTES);
	memcpy(out, activity_magic, sizeof(activity_magic));
	memcpy(out + 8, pool_id, 16);
	put_le64(out + 24, host_id);
	put_le64(out + 32, stamp);
	put_le32(out + BLOCK_AT_CRC, checksum_crc32c(out, BLOCK_AT_CRC));
}

bool activity_unpack(const uint8_t in[4096], const uint8_t pool_id[16], uint64_t *ret_host_id, uint64_t *ret_stamp)
{
	if (memcmp(in, activity_magic, sizeof(activity_magic)) != 0 || memcmp(in + 8, pool_id, 16) != 0 ||
		checksum_crc32c(in, BLOCK_AT_CRC) != get_le32(in + BLOCK_AT_CRC))
		return false;
	*ret_host_id = get_le64(in + 24);
	*ret_stamp = get_le64(in + 32);
	return true;
}
