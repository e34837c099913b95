/* Packing and unpacking of what pointers and the log lead to: runs, tree nodes, log records. The rules are those of format.c. */
#include "format.h"

#include <string.h>

#define LLU(v) ((unsigned long long)(v))
#define UNIT_LIMIT (1ULL << 40)

/* --- runs --------------------------------------------------------------------------------------------------------- */

enum {
	RUN_AT_ID = 0,
	RUN_AT_BIRTH = 8,
	RUN_AT_GROUP = 16,
	RUN_AT_CLASS = 18,
	RUN_AT_K = 19,
	RUN_AT_P = 20,
	RUN_AT_VERSION = 24,
	RUN_AT_STRIPES = 28,
	RUN_AT_BIRTH_LAST = 32,
	RUN_END = 40,
	RUN_FIXED = 64,
	RUN_COLUMN_BYTES = 7,
};
_Static_assert(
	RUN_FIXED + POOL_WIDTH_MAX * RUN_COLUMN_BYTES == RUN_HEAD_BYTES_MAX, "the columns follow the fixed part");
_Static_assert(RUN_FORMAT_BYTES_MAX <= TREE_VALUE_MAX, "a run fits in a tree");

size_t run_pack_head(const struct run_format *r, uint8_t *out)
{
	unsigned width = r->k + r->p;

	sp_assert(r->k >= 1 && r->p <= POOL_PARITY_MAX && width <= POOL_WIDTH_MAX && r->class < CLASS_COUNT);
	sp_assert(r->stripes <= RUN_STRIPES_MAX && r->id < 1ULL << 48);
	memset(out, 0, RUN_FIXED);
	put_le64(out + RUN_AT_ID, r->id);
	put_le64(out + RUN_AT_BIRTH, r->birth);
	put_le16(out + RUN_AT_GROUP, r->group);
	out[RUN_AT_CLASS] = r->class;
	out[RUN_AT_K] = r->k;
	out[RUN_AT_P] = r->p;
	put_le32(out + RUN_AT_VERSION, r->version);
	put_le32(out + RUN_AT_STRIPES, r->stripes);
	put_le64(out + RUN_AT_BIRTH_LAST, r->birth_last);
	for (unsigned c = 0; c < width; c++) {
		uint8_t *at = out + RUN_FIXED + c * RUN_COLUMN_BYTES;

		sp_assert(r->column[c].unit < UNIT_LIMIT && r->column_state[c] <= 1);
		at[0] = r->column[c].disk;
		put_le40(at + 1, r->column[c].unit);
		at[6] = r->column_state[c];
	}
	return RUN_FIXED + width * RUN_COLUMN_BYTES;
}

int run_unpack_head(const uint8_t *in, size_t bytes, struct run_format *r, size_t *ret_bytes, struct error *err)
{
	unsigned width;
	uint64_t units;

	if (bytes < RUN_FIXED)
		return error_set(err, ERR_CORRUPT, "a run has %zu bytes; at least %u are needed", bytes, RUN_FIXED);
	r->id = get_le64(in + RUN_AT_ID);
	r->birth = get_le64(in + RUN_AT_BIRTH);
	r->group = get_le16(in + RUN_AT_GROUP);
	r->class = in[RUN_AT_CLASS];
	r->k = in[RUN_AT_K];
	r->p = in[RUN_AT_P];
	r->version = get_le32(in + RUN_AT_VERSION);
	r->stripes = get_le32(in + RUN_AT_STRIPES);
	r->birth_last = get_le64(in + RUN_AT_BIRTH_LAST);
	width = r->k + r->p;
	if (r->id >= 1ULL << 48 || r->class >= CLASS_COUNT || r->k < 1 || r->p > POOL_PARITY_MAX ||
		width > POOL_WIDTH_MAX || r->stripes > RUN_STRIPES_MAX || r->group >= POOL_GROUPS_MAX ||
		!format_all_zero(in + RUN_AT_P + 1, 3) || !format_all_zero(in + RUN_END, RUN_FIXED - RUN_END))
		return error_set(err, ERR_CORRUPT, "run %llu says class %u, %u + %u columns, %u stripes, group %u",
			LLU(r->id), r->class, r->k, r->p, r->stripes, r->group);
	if (bytes < RUN_FIXED + width * RUN_COLUMN_BYTES)
		return error_set(
			err, ERR_CORRUPT, "run %llu has %zu bytes, too few for %u columns", LLU(r->id), bytes, width);
	units = (uint64_t)r->stripes * (class_bytes[r->class] / POOL_UNIT_BYTES);
	for (unsigned c = 0; c < width; c++) {
		const uint8_t *at = in + RUN_FIXED + c * RUN_COLUMN_BYTES;

		r->column[c].disk = at[0];
		r->column[c].unit = get_le40(at + 1);
		r->column_state[c] = at[6];
		if (at[0] >= POOL_DISKS_MAX || at[6] > 1 || r->column[c].unit > UNIT_LIMIT - units)
			return error_set(err, ERR_CORRUPT, "column %u of run %llu is on disk %u at unit %llu, state %u",
				c, LLU(r->id), at[0], LLU(r->column[c].unit), at[6]);
		for (unsigned other = 0; other < c; other++)
			if (r->column[other].disk == at[0])
				return error_set(err, ERR_CORRUPT, "columns %u and %u of run %llu are both on disk %u",
					other, c, LLU(r->id), at[0]);
	}
	*ret_bytes = RUN_FIXED + width * RUN_COLUMN_BYTES;
	return 0;
}

static size_t bits_bytes(uint32_t bits)
{
	return (bits + 7) / 8;
}

static bool bits_end_clean(const uint8_t *in, uint32_t bits)
{
	return bits % 8 == 0 || in[bits / 8] >> (bits % 8) == 0;
}

static void bits_copy(uint8_t *to, const uint8_t *from, uint32_t bits)
{
	memcpy(to, from, bits_bytes(bits));
	if (bits % 8)
		to[bits / 8] &= (uint8_t)((1u << bits % 8) - 1);
}

size_t run_pack(const struct run_format *r, uint8_t *out)
{
	size_t at = run_pack_head(r, out);

	bits_copy(out + at, r->live, r->stripes * r->k);
	at += bits_bytes(r->stripes * r->k);
	bits_copy(out + at, r->returned, r->stripes);
	return at + bits_bytes(r->stripes);
}

int run_unpack(const uint8_t *in, size_t bytes, struct run_format *ret, struct error *err)
{
	struct run_format r;
	size_t at, live, returned;
	int code = run_unpack_head(in, bytes, &r, &at, err);

	if (code)
		return code;
	live = bits_bytes(r.stripes * r.k);
	returned = bits_bytes(r.stripes);
	if (bytes != at + live + returned)
		return error_set(err, ERR_CORRUPT, "run %llu has %zu bytes; expected %zu", LLU(r.id), bytes,
			at + live + returned);
	if (!bits_end_clean(in + at, r.stripes * r.k) || !bits_end_clean(in + at + live, r.stripes))
		return error_set(err, ERR_CORRUPT, "run %llu has bits behind its %u stripes", LLU(r.id), r.stripes);
	memset(r.live, 0, sizeof(r.live));
	memset(r.returned, 0, sizeof(r.returned));
	memcpy(r.live, in + at, live);
	memcpy(r.returned, in + at + live, returned);
	*ret = r;
	return 0;
}

unsigned sums_per_column(unsigned class)
{
	return (class_bytes[class] + SUM_BYTES - 1) / SUM_BYTES;
}

unsigned sums_stripes_per_item(unsigned width, unsigned class)
{
	return 4096 / 4 / (width * sums_per_column(class));
}
_Static_assert(POOL_WIDTH_MAX *((1u << 20) / SUM_BYTES) * 4 <= 4096, "an item of sums holds a stripe at least");

/* --- tree nodes --------------------------------------------------------------------------------------------------- */

enum {
	NODE_AT_LEVEL = 4,
	NODE_AT_ZERO = 5,
	NODE_AT_ITEMS = 6,
	NODE_AT_TREE = 8,
	NODE_AT_BIRTH = 16,
	NODE_AT_BYTES = 24,
	NODE_AT_ZERO2 = 28,
	LEAF_ITEM_HEAD = 18,
	INNER_ITEM = 16 + BP_BYTES,
};
_Static_assert(NODE_AT_ZERO2 + 4 == NODE_HEAD_BYTES, "the items follow the head");
_Static_assert(
	NODE_HEAD_BYTES + 3 * (LEAF_ITEM_HEAD + TREE_VALUE_MAX) <= NODE_BYTES, "three of the longest values fit");

void node_head_pack(const struct node_head *h, uint8_t *out)
{
	memset(out, 0, NODE_HEAD_BYTES);
	memcpy(out, "NODE", 4);
	out[NODE_AT_LEVEL] = h->level;
	put_le16(out + NODE_AT_ITEMS, h->items);
	put_le64(out + NODE_AT_TREE, h->tree);
	put_le64(out + NODE_AT_BIRTH, h->birth);
	put_le32(out + NODE_AT_BYTES, h->bytes);
}

/* The length of the item at `at`, 0 when it is not one. */
static uint32_t node_item_check(const uint8_t *in, const struct node_head *h, uint32_t at, struct error *err)
{
	uint32_t bytes;
	struct bp bp;

	if (h->level) {
		if (h->bytes - at < INNER_ITEM) {
			error_set(err, ERR_CORRUPT, "a node of tree %llu ends within an item at %u", LLU(h->tree), at);
			return 0;
		}
		if (bp_unpack(in + at + 16, &bp, err))
			return 0;
		if (bp.kind != BP_NODE || bp.level != h->level - 1) {
			error_set(err, ERR_CORRUPT, "a node of tree %llu, level %u, points to kind %u, level %u",
				LLU(h->tree), h->level, bp.kind, bp.level);
			return 0;
		}
		return INNER_ITEM;
	}
	if (h->bytes - at < LEAF_ITEM_HEAD) {
		error_set(err, ERR_CORRUPT, "a leaf of tree %llu ends within an item at %u", LLU(h->tree), at);
		return 0;
	}
	bytes = get_le16(in + at + 16);
	if (bytes == 0 || bytes > TREE_VALUE_MAX || bytes > h->bytes - at - LEAF_ITEM_HEAD) {
		error_set(err, ERR_CORRUPT, "a leaf of tree %llu has a value of %u bytes at %u of %u", LLU(h->tree),
			bytes, at, h->bytes);
		return 0;
	}
	return LEAF_ITEM_HEAD + bytes;
}

int node_check(const uint8_t in[NODE_BYTES], uint64_t tree, int level, struct node_head *ret, struct error *err)
{
	struct node_head h = {
		.level = in[NODE_AT_LEVEL],
		.items = get_le16(in + NODE_AT_ITEMS),
		.tree = get_le64(in + NODE_AT_TREE),
		.birth = get_le64(in + NODE_AT_BIRTH),
		.bytes = get_le32(in + NODE_AT_BYTES),
	};
	struct key last = {0, 0};
	uint32_t at = NODE_HEAD_BYTES;

	if (memcmp(in, "NODE", 4) != 0)
		return error_set(err, ERR_CORRUPT, "no tree node where one of tree %llu belongs", LLU(tree));
	if (h.tree != tree || (level >= 0 && h.level != level))
		return error_set(err, ERR_CORRUPT, "a node is of tree %llu, level %u; expected tree %llu, level %d",
			LLU(h.tree), h.level, LLU(tree), level);
	if (h.bytes < NODE_HEAD_BYTES || h.bytes > NODE_BYTES || h.level > TREE_LEVEL_MAX ||
		(h.level && h.items == 0) || in[NODE_AT_ZERO] || get_le32(in + NODE_AT_ZERO2))
		return error_set(err, ERR_CORRUPT, "a node of tree %llu says level %u, %u items, %u bytes", LLU(h.tree),
			h.level, h.items, h.bytes);
	for (unsigned i = 0; i < h.items; i++) {
		uint32_t bytes = node_item_check(in, &h, at, err);
		struct key key;

		if (bytes == 0)
			return ERR_CORRUPT;
		key = (struct key){get_le64(in + at), get_le64(in + at + 8)};
		if (i && key_compare(last, key) >= 0)
			return error_set(
				err, ERR_CORRUPT, "item %u of a node of tree %llu is out of order", i, LLU(h.tree));
		last = key;
		at += bytes;
	}
	if (at != h.bytes)
		return error_set(err, ERR_CORRUPT, "a node of tree %llu has %u bytes in %u items; its head says %u",
			LLU(h.tree), at, h.items, h.bytes);
	*ret = h;
	return 0;
}

/* --- the catalog -------------------------------------------------------------------------------------------------- */

enum {
	FACTS_AT_TYPE = 0,
	FACTS_AT_RECORD = 4,
	FACTS_AT_PARENT = 8,
	FACTS_AT_ORIGIN = 16,
	FACTS_AT_VOLUME = 24,
	FACTS_AT_CREATED = 32,
	FACTS_AT_COMMIT = 40,
	FACTS_AT_GUID = 48,
	FACTS_AT_LENGTH = 56,
	FACTS_AT_NAME = 57,
	FACTS_TYPES = 3,
};
_Static_assert(FACTS_AT_NAME + 255 == DATASET_FACTS_BYTES_MAX, "the name ends the facts");

bool dataset_name_is_valid(const char *name)
{
	size_t length = strnlen(name, 256);

	if (length == 0 || length > 255 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return false;
	for (size_t i = 0; i < length; i++)
		if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= 'A' && name[i] <= 'Z') ||
			    (name[i] >= '0' && name[i] <= '9') || strchr("-_.: ", name[i])))
			return false;
	return true;
}

size_t dataset_facts_pack(const struct dataset_facts *f, uint8_t *out)
{
	size_t length = strnlen(f->name, 255);

	memset(out, 0, FACTS_AT_NAME);
	out[FACTS_AT_TYPE] = f->type;
	put_le32(out + FACTS_AT_RECORD, f->record_bytes);
	put_le64(out + FACTS_AT_PARENT, f->parent);
	put_le64(out + FACTS_AT_ORIGIN, f->origin);
	put_le64(out + FACTS_AT_VOLUME, f->volume_bytes);
	put_le64(out + FACTS_AT_CREATED, f->created_ns);
	put_le64(out + FACTS_AT_COMMIT, f->created_commit);
	put_le64(out + FACTS_AT_GUID, f->guid);
	out[FACTS_AT_LENGTH] = (uint8_t)length;
	memcpy(out + FACTS_AT_NAME, f->name, length);
	return FACTS_AT_NAME + length;
}

int dataset_facts_unpack(const uint8_t *in, size_t bytes, struct dataset_facts *ret, struct error *err)
{
	struct dataset_facts f = {0};

	if (bytes < FACTS_AT_NAME || bytes != FACTS_AT_NAME + (size_t)in[FACTS_AT_LENGTH])
		return error_set(err, ERR_CORRUPT, "the facts of a dataset have %zu bytes", bytes);
	f.type = in[FACTS_AT_TYPE];
	f.record_bytes = get_le32(in + FACTS_AT_RECORD);
	f.parent = get_le64(in + FACTS_AT_PARENT);
	f.origin = get_le64(in + FACTS_AT_ORIGIN);
	f.volume_bytes = get_le64(in + FACTS_AT_VOLUME);
	f.created_ns = get_le64(in + FACTS_AT_CREATED);
	f.created_commit = get_le64(in + FACTS_AT_COMMIT);
	f.guid = get_le64(in + FACTS_AT_GUID);
	memcpy(f.name, in + FACTS_AT_NAME, in[FACTS_AT_LENGTH]);
	if (f.type >= FACTS_TYPES || !format_all_zero(in + FACTS_AT_TYPE + 1, 3) || !dataset_name_is_valid(f.name) ||
		strlen(f.name) != in[FACTS_AT_LENGTH])
		return error_set(err, ERR_CORRUPT, "the facts of a dataset say type %u, a name of %u bytes", f.type,
			in[FACTS_AT_LENGTH]);
	if (f.record_bytes < POOL_UNIT_BYTES || f.record_bytes > 1u << 20 || !is_power_of_two(f.record_bytes) ||
		f.volume_bytes > 1ULL << 62)
		return error_set(err, ERR_CORRUPT, "the facts of dataset '%s' say %llu bytes in records of %u", f.name,
			LLU(f.volume_bytes), f.record_bytes);
	*ret = f;
	return 0;
}

/* --- the log ------------------------------------------------------------------------------------------------------ */

static const uint8_t log_magic[8] = {'S', 'L', 'O', 'G', 'R', 'E', 'C', '1'};
enum {
	LOG_AT_SEQUENCE = 8,
	LOG_AT_COMMIT = 16,
	LOG_AT_BYTES = 24,
	LOG_AT_ENTRY_BYTES = 28,
	LOG_AT_FLAGS = 32,
	LOG_AT_ZERO = 33,
	LOG_AT_POOL_ID = 40,
	LOG_AT_CRC = 56,
	LOG_AT_HEAD_CRC = 60,
	ENTRY_AT_BYTES = 4,
};
_Static_assert(LOG_AT_POOL_ID + 16 == LOG_AT_CRC && LOG_AT_HEAD_CRC + 4 == LOG_HEAD_BYTES, "the head has no gap");

void log_record_seal(const struct log_head *h, const uint8_t pool_id[16], uint8_t *record)
{
	sp_assert(h->bytes <= LOG_RECORD_BYTES_MAX && h->entry_bytes % 8 == 0);
	sp_assert(h->bytes == round_up_u64(LOG_HEAD_BYTES + h->entry_bytes, POOL_UNIT_BYTES));
	memset(record, 0, LOG_HEAD_BYTES);
	memset(record + LOG_HEAD_BYTES + h->entry_bytes, 0, h->bytes - LOG_HEAD_BYTES - h->entry_bytes);
	memcpy(record, log_magic, sizeof(log_magic));
	put_le64(record + LOG_AT_SEQUENCE, h->sequence);
	put_le64(record + LOG_AT_COMMIT, h->commit);
	put_le32(record + LOG_AT_BYTES, h->bytes);
	put_le32(record + LOG_AT_ENTRY_BYTES, h->entry_bytes);
	record[LOG_AT_FLAGS] = h->flags;
	memcpy(record + LOG_AT_POOL_ID, pool_id, 16);
	put_le32(record + LOG_AT_CRC, checksum_crc32c(record + LOG_HEAD_BYTES, h->bytes - LOG_HEAD_BYTES));
	put_le32(record + LOG_AT_HEAD_CRC, checksum_crc32c(record, LOG_AT_HEAD_CRC));
}

int log_head_check(
	const uint8_t record[LOG_HEAD_BYTES], const uint8_t pool_id[16], struct log_head *ret, struct error *err)
{
	struct log_head h = {
		.sequence = get_le64(record + LOG_AT_SEQUENCE),
		.commit = get_le64(record + LOG_AT_COMMIT),
		.bytes = get_le32(record + LOG_AT_BYTES),
		.entry_bytes = get_le32(record + LOG_AT_ENTRY_BYTES),
		.flags = record[LOG_AT_FLAGS],
	};

	if (memcmp(record, log_magic, sizeof(log_magic)) != 0)
		return error_set(err, ERR_NOT_FOUND, "no record of a log");
	if (checksum_crc32c(record, LOG_AT_HEAD_CRC) != get_le32(record + LOG_AT_HEAD_CRC))
		return error_set(err, ERR_CORRUPT, "the head of a log record does not match its checksum");
	if (memcmp(record + LOG_AT_POOL_ID, pool_id, 16) != 0)
		return error_set(err, ERR_NOT_FOUND, "a log record of another pool");
	if (h.bytes > LOG_RECORD_BYTES_MAX || h.entry_bytes > LOG_RECORD_BYTES_MAX || h.entry_bytes % 8 ||
		h.bytes != round_up_u64(LOG_HEAD_BYTES + h.entry_bytes, POOL_UNIT_BYTES) ||
		h.flags & ~(LOG_FLAG_COMMIT | LOG_FLAG_INTENT) ||
		!format_all_zero(record + LOG_AT_ZERO, LOG_AT_POOL_ID - LOG_AT_ZERO))
		return error_set(err, ERR_CORRUPT, "log record %llu says %u bytes, %u of entries, flags 0x%x",
			LLU(h.sequence), h.bytes, h.entry_bytes, h.flags);
	*ret = h;
	return 0;
}

int log_record_check(const uint8_t *record, size_t bytes_available, const uint8_t pool_id[16], struct log_head *ret,
	struct error *err)
{
	struct log_head h;
	int code;

	if (bytes_available < LOG_HEAD_BYTES)
		return error_set(err, ERR_CORRUPT, "a log record is cut off at %zu bytes", bytes_available);
	code = log_head_check(record, pool_id, &h, err);
	if (code)
		return code;
	if (h.bytes > bytes_available)
		return error_set(err, ERR_CORRUPT, "log record %llu has %u bytes, of which %zu are there",
			LLU(h.sequence), h.bytes, bytes_available);
	if (checksum_crc32c(record + LOG_HEAD_BYTES, h.bytes - LOG_HEAD_BYTES) != get_le32(record + LOG_AT_CRC))
		return error_set(err, ERR_CORRUPT, "log record %llu does not match its checksum", LLU(h.sequence));
	*ret = h;
	return 0;
}

uint32_t log_entry_bytes(uint32_t payload_bytes)
{
	return (uint32_t)round_up_u64(LOG_ENTRY_HEAD_BYTES + (uint64_t)payload_bytes, 8);
}

uint8_t *log_entry_put(uint8_t *at, enum log_type type, uint32_t payload_bytes)
{
	sp_assert(type > 0 && type < LOG_TYPE_COUNT && payload_bytes <= LOG_RECORD_BYTES_MAX);
	memset(at, 0, LOG_ENTRY_HEAD_BYTES);
	put_le16(at, (uint16_t)type);
	put_le32(at + ENTRY_AT_BYTES, payload_bytes);
	memset(at + log_entry_bytes(payload_bytes) - 8, 0, payload_bytes ? 8 : 0);
	return at + LOG_ENTRY_HEAD_BYTES;
}

bool log_entry_next(
	const uint8_t *entries, uint32_t entry_bytes, uint32_t *offset, struct log_entry *ret, struct error *err)
{
	const uint8_t *at = entries + *offset;
	uint32_t left, bytes, type;

	if (*offset >= entry_bytes)
		return false;
	left = entry_bytes - *offset;
	if (left < LOG_ENTRY_HEAD_BYTES) {
		error_set(err, ERR_CORRUPT, "the entries of a log record end within one");
		return false;
	}
	type = get_le16(at);
	bytes = get_le32(at + ENTRY_AT_BYTES);
	if (type == 0 || type >= LOG_TYPE_COUNT || get_le16(at + 2) || bytes > LOG_RECORD_BYTES_MAX ||
		log_entry_bytes(bytes) > left) {
		error_set(err, ERR_CORRUPT, "an entry of a log record says type %u, %u bytes, where %u are left", type,
			bytes, left);
		return false;
	}
	ret->type = (enum log_type)type;
	ret->payload = at + LOG_ENTRY_HEAD_BYTES;
	ret->bytes = bytes;
	*offset += log_entry_bytes(bytes);
	return true;
}
