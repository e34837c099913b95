/*
 * format.h: everything that a pool writes to a disk, packed and unpacked in format.c, format_items.c and nowhere else.
 *
 * All integers are little-endian. Sizes and offsets are asserted at build time. Nothing here trusts its input: unpack
 * functions return ERR_CORRUPT with a sentence (what, where, expected, found) and allocate nothing that a length from a
 * disk asks for beyond the limits below. docs/format.md is the same in prose and pictures.
 *
 * A disk:
 *
 *   0            label A  512 KiB   4 KiB reserved | header 4 KiB at 4 KiB | activity 4 KiB at 8 KiB | config A 64 KiB at 64 KiB |
 *                                   config B 64 KiB at 128 KiB | uberblock ring 64 × 4 KiB at 256 KiB
 *   512 KiB      log ring           `log_bytes`, the same place and size on each disk
 *   data_start   zones              aligned to 1 MiB; zone i at data_start + i × zone_bytes
 *   end-512 KiB  label B            like label A; the end is the disk's size rounded down to 1 MiB
 */
#ifndef POOL_FORMAT_H
#define POOL_FORMAT_H

#include "base.h"

static inline void put_le40(uint8_t *p, uint64_t v)
{
	put_le32(p, (uint32_t)v);
	p[4] = (uint8_t)(v >> 32);
}
static inline uint64_t get_le40(const uint8_t *p)
{
	return get_le32(p) | (uint64_t)p[4] << 32;
}

#define POOL_UNIT_BYTES 4096u /* everything on a disk is a multiple, addresses count in it */
#define POOL_VERSION 1u

#define LABEL_BYTES (512u << 10)
#define LABEL_HEADER_OFFSET 4096u
#define LABEL_ACTIVITY_OFFSET 8192u /* of label A only */
#define LABEL_CONFIG_OFFSET(copy) (65536u + 65536u * (copy))
#define LABEL_CONFIG_BYTES 65536u
#define LABEL_RING_OFFSET (256u << 10)
#define LABEL_RING_SLOTS 64u
#define POOL_DISK_BYTES_MIN (16u << 20)

#define POOL_DISKS_MAX 255u
#define POOL_GROUPS_MAX 128u
#define POOL_WIDTH_MAX 32u /* columns of one stripe, parity included */
#define POOL_PARITY_MAX 3u
#define POOL_COPIES_MAX 4u /* of metadata: max(2, 1 + p) */
#define POOL_NAME_BYTES 256u

/* --- column classes: 4 KiB to 1 MiB, four in each doubling, whole units ----------------------------------------------- */

#define CLASS_COUNT 28u
#define CLASS_META CLASS_COUNT /* a zone of tree nodes: 16 KiB pieces, no stripes */
extern const uint32_t class_bytes[CLASS_COUNT + 1];
unsigned class_of(uint64_t bytes); /* the smallest that holds it; bytes <= 1 MiB */

/* --- block pointers, 64 bytes ----------------------------------------------------------------------------------------
 * data:  a record that lies whole in column `column` of stripe `stripe` of run `run`; the hint says where that column was
 *        when the pointer was written, the run's descriptor decides.
 * node:  a tree node, log-free blob: the copies' addresses themselves, on distinct disks.
 * inline: the (compressed) bytes follow the 16-byte head in the tree value: no column.
 */
enum bp_kind { BP_HOLE, BP_DATA, BP_NODE, BP_INLINE, BP_KIND_COUNT };
enum compression { COMPRESS_OFF, COMPRESS_LZ4, COMPRESS_ZSTD, COMPRESS_LZJB, COMPRESS_ZLE, COMPRESS_COUNT };
enum checksum_kind { CHECKSUM_XXH3, CHECKSUM_SHA256, CHECKSUM_COUNT };
#define CHECKSUM_BYTES 24u
#define BP_BYTES 64u
#define BP_INLINE_HEAD 16u
#define BP_INLINE_MAX 2048u

struct disk_address {
	uint8_t disk;  /* index in the configuration */
	uint64_t unit; /* 40 bits: byte offset on the disk / POOL_UNIT_BYTES */
};
struct bp {
	uint8_t kind, compression, checksum_kind, level;
	uint32_t logical_bytes, physical_bytes; /* record as the user sees it; bytes stored (before padding) */
	uint64_t birth;                         /* commit; salts the checksum with the place */
	/* data */
	uint64_t run; /* 48 bits */
	uint32_t stripe;
	uint8_t column;
	struct disk_address hint;
	/* node */
	unsigned copies;
	struct disk_address copy[POOL_COPIES_MAX];
	uint8_t checksum[CHECKSUM_BYTES];
};
/* 0  u8 kind, u8 compression | checksum << 4, u8 level, u8 copies | 4 u32 logical | 8 u64 birth |
 * data:   16 u48 run, 22 u8 column, 23 u8 hint disk | 24 u32 stripe | 28 u40 hint unit, 33 3 zero | 36 u32 physical
 * node:   16 + 6·i (u8 disk, u40 unit) of copy i, i < copies <= 4; the rest up to 40 is zero. Logical and physical are the
 *         node size, 16 KiB, unless level is 255 (a blob), whose size is `logical`
 * both:   40 checksum[24]
 * hole:   logical and birth at most; all else is zero
 * inline: the first 16 bytes; pack zeroes the rest, and physical is what the value has behind them */
#define BP_LEVEL_BLOB 255u
void bp_pack(const struct bp *bp, uint8_t out[BP_BYTES]);
int bp_unpack(const uint8_t in[BP_BYTES], struct bp *ret, struct error *err);
/* Of a tree's value: 64 bytes, or 16 and the bytes of an inline record, whose physical_bytes are set from it. */
int bp_unpack_value(const uint8_t *value, size_t bytes, struct bp *ret, struct error *err);

/* --- label header, configuration, uberblock ----------------------------------------------------------------------- */

#define POOL_FEATURES_INCOMPATIBLE 0ULL /* bits that are known here */
#define POOL_FEATURES_READ_ONLY 0ULL
#define POOL_ZONE_BYTES_MAX (1u << 30)
struct label_header { /* 4 KiB: "SPNDPOOL", version, features, ids, crc32c of the block in its last 4 bytes */
	uint32_t version;
	uint64_t features_incompatible, features_read_only; /* unknown bits: refuse; open for reading only */
	uint8_t pool_id[16], disk_id[16];
	uint32_t disk_index;
	uint64_t size_bytes; /* of the disk when it was labelled: a truncated one is told by it */
	uint64_t zone_bytes, data_start_bytes, log_offset_bytes, log_bytes;
	uint32_t zone_count;
	uint8_t which; /* 0 front, 1 back */
};
enum group_kind { GROUP_DISK, GROUP_MIRROR, GROUP_PARITY, GROUP_KIND_COUNT };
enum pool_disk_state { PD_ONLINE, PD_MISSING, PD_FAULTED, PD_OFFLINE, PD_REMOVED, PD_STATE_COUNT };
struct config_disk {
	uint8_t id[16];
	uint8_t state; /* as last known */
	uint16_t group;
	uint64_t size_bytes;
	uint32_t zone_count;
	uint64_t missed_from;                  /* first commit that it may lack; 0: none */
	uint64_t zone_bytes, data_start_bytes; /* as in its label: needed while it is missing */
	char path[256];                        /* a hint */
};
struct config_group {
	uint8_t kind, parity;
	uint16_t width; /* columns of a full stripe, parity included; <= disks */
};
struct pool_config { /* up to 64 KiB with its crc32c; paths that do not fit are left out */
	uint64_t generation;
	uint8_t pool_id[16];
	char name[POOL_NAME_BYTES];
	uint64_t host_id; /* owner; 0: exported */
	char host_name[64];
	bool exported;
	uint64_t run_bytes; /* length of a run on each disk */
	unsigned disk_count, group_count;
	struct config_disk disks[POOL_DISKS_MAX];
	struct config_group groups[POOL_GROUPS_MAX];
};
struct uberblock {             /* one 4 KiB slot, with the disk's id, the slot and its crc32c */
	uint64_t checkpoint;   /* number; slot = checkpoint % slots. The highest that verifies wins */
	uint64_t commit;       /* the last commit that the trees hold */
	uint64_t log_sequence; /* first log record after it ... */
	uint64_t log_offset;   /* ... and where in the ring it lies */
	uint64_t next_run, next_dataset;
	uint64_t wall_ns; /* for people */
	uint64_t config_generation;
	uint64_t activity_ns;                         /* renewed by the owner: the stamp against a second import */
	struct bp catalog, runs, sums, dead, metamap; /* roots; hole: empty */
};
bool pool_name_is_valid(const char *name);    /* characters and length; reserved words are create's matter */
bool label_header_is(const uint8_t in[4096]); /* the magic is there, whatever else */
void label_header_pack(const struct label_header *h, uint8_t out[4096]);
/* ERR_NOT_FOUND: none of ours. ERR_UNSUPPORTED: a newer one. */
int label_header_unpack(const uint8_t in[4096], struct label_header *ret, struct error *err);
int config_pack(const struct pool_config *c, uint8_t out[LABEL_CONFIG_BYTES], struct error *err);
/* *ret is scratch when it fails. */
int config_unpack(const uint8_t in[LABEL_CONFIG_BYTES], struct pool_config *ret, struct error *err);
void uberblock_pack(const struct uberblock *u, const uint8_t disk_id[16], unsigned slot, uint8_t out[4096]);
int uberblock_unpack(
	const uint8_t in[4096], const uint8_t disk_id[16], unsigned slot, struct uberblock *ret, struct error *err);

/* The owner's stamp: "SPNDACTV", pool id 16, u64 host, u64 stamp, zeros, crc32c. */
void activity_pack(const uint8_t pool_id[16], uint64_t host_id, uint64_t stamp, uint8_t out[4096]);
bool activity_unpack(const uint8_t in[4096], const uint8_t pool_id[16], uint64_t *ret_host_id, uint64_t *ret_stamp);

/* --- runs (descriptors) ------------------------------------------------------------------------------------------- */

#define RUN_STRIPES_MAX 1024u /* 4 MiB of 4 KiB columns */
/* 64 bytes {u64 id, u64 birth, u16 group, u8 class, u8 k, u8 p, 3 zero, u32 version, u32 stripes, u64 birth_last, zeros}; then
 * k + p × {u8 disk, u40 unit, u8 state}; then live bits, then returned bits, each up to a whole byte */
struct run_format {
	uint64_t id, birth, birth_last; /* commits of its first and its last stripe */
	uint16_t group;
	uint8_t class, k, p;
	uint32_t version;                           /* raised by each move of a column */
	uint32_t stripes;                           /* written so far */
	struct disk_address column[POOL_WIDTH_MAX]; /* of stripe 0; data first, then parity. Stripe s: + s × class */
	uint8_t column_state[POOL_WIDTH_MAX];       /* 0 good, 1 to be repaired (a write failed, a disk was away) */
	/* live[s × k + c]: data column c of stripe s is referenced; returned[s]: the stripe's space was given back */
	uint8_t live[(RUN_STRIPES_MAX * POOL_WIDTH_MAX + 7) / 8];
	uint8_t returned[(RUN_STRIPES_MAX + 7) / 8];
};
#define RUN_FORMAT_BYTES_MAX                                                                                           \
	(64u + POOL_WIDTH_MAX * 7u + (RUN_STRIPES_MAX * POOL_WIDTH_MAX + 7) / 8 + RUN_STRIPES_MAX / 8)
#define RUN_HEAD_BYTES_MAX (64u + POOL_WIDTH_MAX * 7u)
size_t run_pack_head(const struct run_format *r, uint8_t *out); /* without the bits: at most RUN_HEAD_BYTES_MAX */
int run_unpack_head(const uint8_t *in, size_t bytes, struct run_format *ret, size_t *ret_bytes, struct error *err);
size_t run_pack(const struct run_format *r, uint8_t *out); /* at most RUN_FORMAT_BYTES_MAX */
int run_unpack(const uint8_t *in, size_t bytes, struct run_format *ret, struct error *err);
/* Checksums of columns, parity included: crc32c of each 64 KiB (or the whole of a smaller column). Stripe s of a run
 * has (k + p) × sums_per_column of them, in column order; an item of the sums tree holds SUMS_STRIPES(k + p, class)
 * stripes, key {run, s / that}. */
#define SUM_BYTES 65536u
unsigned sums_per_column(unsigned class);
unsigned sums_stripes_per_item(unsigned width, unsigned class); /* so that an item is at most 4 KiB */

/* --- tree nodes --------------------------------------------------------------------------------------------------- */

#define NODE_BYTES 16384u
#define TREE_VALUE_MAX 5120u
struct key {
	uint64_t a, b;
};
static inline int key_compare(struct key x, struct key y)
{
	return x.a != y.a ? (x.a < y.a ? -1 : 1) : x.b != y.b ? (x.b < y.b ? -1 : 1) : 0;
}
/* A node: 32-byte head {"NODE", u8 level, u8 0, u16 items, u64 tree, u64 birth, u32 bytes used, u32 0}, then items in key
 * order: leaf {u64 a, u64 b, u16 length, value}, inner {u64 a, u64 b, bp}. An inner key is the first key below it. The
 * checksum lies in the pointer to it. node_check verifies the order, the bounds and the head once, after which readers may walk
 * it without checks. */
struct node_head {
	uint8_t level;
	uint16_t items;
	uint64_t tree, birth;
	uint32_t bytes; /* in use, head included */
};
#define NODE_HEAD_BYTES 32u
#define TREE_LEVEL_MAX 15u
void node_head_pack(const struct node_head *h, uint8_t *out);
int node_check(
	const uint8_t in[NODE_BYTES], uint64_t tree, int level /* -1: any */, struct node_head *ret, struct error *err);

/* --- the catalog ------------------------------------------------------------------------------------------------------------
 * key {dataset, 0}: its facts; {dataset, 1 + property}: the text of a property that was set on it; {dataset, CATALOG_ROOT}: the
 * fold's item (internal.h); {CATALOG_HISTORY, number}: a command. */
#define CATALOG_FACTS 0u
#define CATALOG_PROPERTY(i) (1u + (i))
#define CATALOG_HISTORY 1u
struct dataset_facts { /* {u8 type, 3 zero, u32 record, u64 parent, origin, volume, created ns, created commit, guid, u8 length, name} */
	uint8_t type;
	uint32_t record_bytes;
	uint64_t parent, origin, volume_bytes, created_ns, created_commit, guid;
	char name[256];
};
#define DATASET_FACTS_BYTES_MAX (57u + 255u)
bool dataset_name_is_valid(const char *name); /* one word of a path: letters, digits, "-_.: " */
size_t dataset_facts_pack(const struct dataset_facts *f, uint8_t *out);
int dataset_facts_unpack(const uint8_t *in, size_t bytes, struct dataset_facts *ret, struct error *err);

/* --- the log ---------------------------------------------------------------------------------------------------------------
 * A record: 64-byte head, entries, zeros up to a whole unit. Written to `copies` disks at the same offset of their rings.
 * head: "SLOGREC1", u64 sequence, u64 commit, u32 bytes (whole record), u32 entry bytes, u8 flags, pool id 16,
 *       crc32c of all behind the head, crc32c of the 60 bytes before it.
 * A record never wraps: one that does not fit before the end of the ring starts again at 0, and the rest stays unused.
 * entry: u16 type, u16 0, u32 bytes of payload, payload, padded to 8.
 */
#define LOG_HEAD_BYTES 64u
#define LOG_RECORD_BYTES_MAX (1u << 20)
#define LOG_FLAG_COMMIT 1u /* the last record of its commit: all of it is valid or none */
#define LOG_FLAG_INTENT 2u /* data of an fsync: counts when its commit never came */
struct log_head {
	uint64_t sequence, commit;
	uint32_t bytes, entry_bytes;
	uint8_t flags;
};
void log_record_seal(const struct log_head *h, const uint8_t pool_id[16], uint8_t *record); /* entries are in place */
int log_head_check(
	const uint8_t record[LOG_HEAD_BYTES], const uint8_t pool_id[16], struct log_head *ret, struct error *err);
int log_record_check(const uint8_t *record, size_t bytes_available, const uint8_t pool_id[16], struct log_head *ret,
	struct error *err);
enum log_type {
	LOG_RECORD =
		1,    /* {u64 dataset, u64 a, u64 b, value}: put into the dataset's tree; an empty value is a delete */
	LOG_CATALOG,  /* {u64 a, u64 b, value}: put into the catalog; empty: delete */
	LOG_RUN,      /* {run_format without bits, u32 first stripe, u32 count, crc32c × …}: stripes were added */
	LOG_REPAIRED, /* {run_format without bits}: columns moved or made good; counts when its version is newer */
	LOG_BARRIER,  /* {u64 snapshot dataset id}: entries before and after are not folded together */
	LOG_INTENT,   /* {u64 dataset, u64 a, u64 offset, bytes}: data of an fsync */
	LOG_DESTROY,  /* {u64 dataset}: its tree is to be walked and freed */
	LOG_ROOT,     /* {u64 dataset, u64 from}: the dataset takes the root of another (rollback, clone) */
	LOG_TYPE_COUNT
};
struct log_entry {
	enum log_type type;
	const uint8_t *payload; /* into the record */
	uint32_t bytes;
};
#define LOG_ENTRY_HEAD_BYTES 8u
uint32_t log_entry_bytes(uint32_t payload_bytes);                                /* with head and padding */
uint8_t *log_entry_put(uint8_t *at, enum log_type type, uint32_t payload_bytes); /* returns where the payload goes */
/* Next entry at *offset of the entries; false at the end. ERR_CORRUPT through err->code when lengths do not add up. */
bool log_entry_next(
	const uint8_t *entries, uint32_t entry_bytes, uint32_t *offset, struct log_entry *ret, struct error *err);

/* For what must be zero on a disk. */
static inline bool format_all_zero(const uint8_t *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (p[i])
			return false;
	return true;
}

#endif
