/*
 * What the pool writes to its disks: every structure comes back as it was, a single wrong bit in a sealed block is refused,
 * and lengths that lie never lead a reader out of its buffer (each input stands alone at the end of an allocation, so that
 * the sanitizer sees one byte too many).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "format.h"

static struct random r;

static int setup(void **state)
{
	random_seed(&r, 7);
	return 0;
}

static struct bp random_bp(enum bp_kind kind)
{
	struct bp bp = {.kind = kind, .birth = random_u64(&r)};

	if (kind == BP_HOLE)
		return bp;
	bp.compression = random_below(&r, COMPRESS_COUNT);
	bp.checksum_kind = random_below(&r, CHECKSUM_COUNT);
	bp.logical_bytes = 1 + random_below(&r, 1 << 20);
	if (kind == BP_INLINE)
		return bp;
	random_fill(&r, bp.checksum, sizeof(bp.checksum));
	if (kind == BP_DATA) {
		bp.physical_bytes = bp.compression ? 1 + random_below(&r, bp.logical_bytes) : bp.logical_bytes;
		bp.run = random_below(&r, 1ULL << 48);
		bp.stripe = random_below(&r, RUN_STRIPES_MAX);
		bp.column = random_below(&r, POOL_WIDTH_MAX);
		bp.hint = (struct disk_address){random_below(&r, 255), random_below(&r, 1ULL << 40)};
		return bp;
	}
	bp.level = random_below(&r, 4) ? random_below(&r, 4) : BP_LEVEL_BLOB;
	if (bp.level != BP_LEVEL_BLOB)
		bp.logical_bytes = NODE_BYTES;
	bp.physical_bytes = bp.logical_bytes;
	bp.copies = 1 + random_below(&r, POOL_COPIES_MAX);
	for (unsigned i = 0; i < bp.copies; i++)
		bp.copy[i] = (struct disk_address){i * 60 + random_below(&r, 60), random_below(&r, 1ULL << 40)};
	return bp;
}

static void assert_bp(const struct bp *a, const struct bp *b)
{
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->compression, b->compression);
	assert_int_equal(a->checksum_kind, b->checksum_kind);
	assert_int_equal(a->level, b->level);
	assert_int_equal(a->logical_bytes, b->logical_bytes);
	assert_int_equal(a->physical_bytes, b->physical_bytes);
	assert_true(a->birth == b->birth && a->run == b->run && a->stripe == b->stripe && a->column == b->column);
	assert_true(a->hint.disk == b->hint.disk && a->hint.unit == b->hint.unit);
	assert_int_equal(a->copies, b->copies);
	for (unsigned i = 0; i < a->copies; i++)
		assert_true(a->copy[i].disk == b->copy[i].disk && a->copy[i].unit == b->copy[i].unit);
	assert_memory_equal(a->checksum, b->checksum, CHECKSUM_BYTES);
}

static void pointers_come_back(void **state)
{
	for (unsigned i = 0; i < 20000; i++) {
		struct bp bp = random_bp(i % BP_KIND_COUNT), again;
		uint8_t bytes[BP_BYTES], bytes_again[BP_BYTES];

		bp_pack(&bp, bytes);
		assert_int_equal(bp_unpack(bytes, &again, NULL), 0);
		assert_bp(&bp, &again);
		bp_pack(&again, bytes_again);
		assert_memory_equal(bytes, bytes_again, BP_BYTES);
	}
}

/* What passes is what could have been packed. */
static void any_pointer_is_refused_or_packs_the_same(void **state)
{
	unsigned passed = 0;

	for (unsigned i = 0; i < 200000; i++) {
		struct bp bp = random_bp(i % BP_KIND_COUNT);
		uint8_t bytes[BP_BYTES], again[BP_BYTES];
		struct error err = ERROR_INIT;

		bp_pack(&bp, bytes);
		for (unsigned n = random_below(&r, 4); n; n--)
			bytes[random_below(&r, BP_BYTES)] ^= 1u << random_below(&r, 8);
		if (bp_unpack(bytes, &bp, &err)) {
			assert_true(err.code == ERR_CORRUPT && err.text[0]);
			continue;
		}
		passed++;
		bp_pack(&bp, again);
		assert_memory_equal(bytes, again, bp.kind == BP_INLINE ? BP_INLINE_HEAD : BP_BYTES);
	}
	assert_in_range(passed, 50000, 199999);
}

static void inline_pointers_know_their_length(void **state)
{
	struct bp bp = {.kind = BP_INLINE, .compression = COMPRESS_LZ4, .logical_bytes = 131072, .birth = 9}, again;
	uint8_t *value = malloc(BP_BYTES + BP_INLINE_MAX);

	bp_pack(&bp, value);
	assert_int_equal(bp_unpack_value(value, BP_INLINE_HEAD + 100, &again, NULL), 0);
	assert_int_equal(again.physical_bytes, 100);
	assert_int_equal(bp_unpack_value(value, BP_INLINE_HEAD + BP_INLINE_MAX, &again, NULL), 0);
	assert_int_equal(bp_unpack_value(value, BP_INLINE_HEAD + BP_INLINE_MAX + 1, &again, NULL), ERR_CORRUPT);
	assert_int_equal(bp_unpack_value(value, BP_INLINE_HEAD, &again, NULL), ERR_CORRUPT);
	bp.compression = COMPRESS_OFF;
	bp_pack(&bp, value);
	assert_int_equal(bp_unpack_value(value, BP_INLINE_HEAD + 100, &again, NULL), ERR_CORRUPT);
	bp = random_bp(BP_DATA);
	bp_pack(&bp, value);
	assert_int_equal(bp_unpack_value(value, BP_BYTES, &again, NULL), 0);
	assert_int_equal(bp_unpack_value(value, BP_BYTES - 1, &again, NULL), ERR_CORRUPT);
	assert_int_equal(bp_unpack_value(value, 15, &again, NULL), ERR_CORRUPT);
	free(value);
}

/* --- label, configuration, uberblock ------------------------------------------------------------------------------ */

static struct label_header some_header(void)
{
	struct label_header h = {
		.version = POOL_VERSION,
		.disk_index = random_below(&r, POOL_DISKS_MAX),
		.size_bytes = (64u << 20) + random_below(&r, 1 << 20),
		.zone_bytes = 1 << 20,
		.data_start_bytes = 4 << 20,
		.log_offset_bytes = LABEL_BYTES,
		.log_bytes = 1 << 20,
		.zone_count = 50 + random_below(&r, 9),
		.which = random_below(&r, 2),
	};

	random_fill(&r, h.pool_id, 16);
	random_fill(&r, h.disk_id, 16);
	return h;
}

static void headers_come_back_and_every_bit_counts(void **state)
{
	struct label_header h = some_header(), again;
	uint8_t bytes[4096], bytes_again[4096];

	label_header_pack(&h, bytes);
	assert_int_equal(label_header_unpack(bytes, &again, NULL), 0);
	assert_memory_equal(h.pool_id, again.pool_id, 16);
	assert_memory_equal(h.disk_id, again.disk_id, 16);
	assert_true(h.size_bytes == again.size_bytes && h.zone_count == again.zone_count && h.which == again.which &&
		    h.disk_index == again.disk_index && h.log_bytes == again.log_bytes);
	label_header_pack(&again, bytes_again);
	assert_memory_equal(bytes, bytes_again, 4096);
	for (unsigned bit = 0; bit < 4096 * 8; bit++) {
		bytes[bit / 8] ^= 1u << bit % 8;
		assert_int_not_equal(label_header_unpack(bytes, &again, NULL), 0);
		bytes[bit / 8] ^= 1u << bit % 8;
	}
}

static int header_code(struct label_header h)
{
	uint8_t bytes[4096];
	struct label_header again;

	label_header_pack(&h, bytes);
	return label_header_unpack(bytes, &again, NULL);
}

static void headers_with_impossible_places_are_refused(void **state)
{
	struct label_header h = some_header(), bad;

	bad = h, bad.version = POOL_VERSION + 1;
	assert_int_equal(header_code(bad), ERR_UNSUPPORTED);
	bad = h, bad.features_incompatible = 1ULL << 63;
	assert_int_equal(header_code(bad), ERR_UNSUPPORTED);
	bad = h, bad.features_read_only = 1ULL << 63;
	assert_int_equal(header_code(bad), 0);
	bad = h, bad.zone_count = UINT32_MAX;
	assert_int_equal(header_code(bad), ERR_CORRUPT);
	bad = h, bad.zone_bytes = 0;
	assert_int_equal(header_code(bad), ERR_CORRUPT);
	bad = h, bad.zone_bytes = 1ULL << 63;
	assert_int_equal(header_code(bad), ERR_CORRUPT);
	bad = h, bad.size_bytes = UINT64_MAX;
	assert_int_equal(header_code(bad), ERR_CORRUPT);
	bad = h, bad.size_bytes = 4096;
	assert_int_equal(header_code(bad), ERR_CORRUPT);
	bad = h, bad.data_start_bytes = round_down_u64(UINT64_MAX, 4096);
	assert_int_equal(header_code(bad), ERR_CORRUPT);
	bad = h, bad.log_bytes = round_down_u64(UINT64_MAX, 4096);
	assert_int_equal(header_code(bad), ERR_CORRUPT);
	bad = h, bad.log_offset_bytes = 0;
	assert_int_equal(header_code(bad), ERR_CORRUPT);
	bad = h, bad.disk_index = POOL_DISKS_MAX;
	assert_int_equal(header_code(bad), ERR_CORRUPT);
}

static void some_config(struct pool_config *c, unsigned disks, unsigned groups, size_t path_bytes)
{
	memset(c, 0, sizeof(*c));
	c->generation = random_u64(&r);
	random_fill(&r, c->pool_id, 16);
	c->host_id = random_u64(&r);
	strcpy(c->name, "tank");
	strcpy(c->host_name, "host");
	c->run_bytes = 1 << 20;
	c->disk_count = disks;
	c->group_count = groups;
	for (unsigned g = 0; g < groups; g++)
		c->groups[g] = (struct config_group){GROUP_DISK, 0, 1};
	for (unsigned i = 0; i < disks; i++) {
		struct config_disk *d = &c->disks[i];

		random_fill(&r, d->id, 16);
		d->state = random_below(&r, PD_STATE_COUNT);
		d->group = i % groups;
		d->size_bytes = 64 << 20;
		d->zone_bytes = 1 << 20;
		d->data_start_bytes = 4 << 20;
		d->zone_count = 59;
		d->missed_from = random_below(&r, 100);
		memset(d->path, 'p', path_bytes);
	}
}

static void configurations_come_back(void **state)
{
	static struct pool_config c, again;
	static uint8_t bytes[LABEL_CONFIG_BYTES];
	static const unsigned shapes[][3] = {{1, 1, 0}, {2, 1, 8}, {255, 128, 100}, {255, 1, 255}, {3, 3, 255}};

	for (unsigned i = 0; i < array_count(shapes); i++) {
		unsigned missing = 0;

		some_config(&c, shapes[i][0], shapes[i][1], shapes[i][2]);
		assert_int_equal(config_pack(&c, bytes, NULL), 0);
		assert_int_equal(config_unpack(bytes, &again, NULL), 0);
		assert_true(c.generation == again.generation && c.disk_count == again.disk_count &&
			    c.group_count == again.group_count && c.host_id == again.host_id);
		assert_string_equal(c.name, again.name);
		for (unsigned d = 0; d < c.disk_count; d++) {
			missing += strcmp(c.disks[d].path, again.disks[d].path) != 0;
			memset(c.disks[d].path, 0, sizeof(c.disks[d].path));
			memset(again.disks[d].path, 0, sizeof(again.disks[d].path));
			assert_memory_equal(&c.disks[d], &again.disks[d], sizeof(c.disks[d]));
		}
		assert_int_equal(missing != 0, c.disk_count * (shapes[i][2] + 58) > LABEL_CONFIG_BYTES);
	}
	strcpy(c.name, "9lives");
	assert_int_equal(config_pack(&c, bytes, NULL), ERR_USAGE);
}

static void every_bit_of_a_configuration_counts(void **state)
{
	static struct pool_config c, again;
	static uint8_t bytes[LABEL_CONFIG_BYTES];

	some_config(&c, 4, 1, 10);
	assert_int_equal(config_pack(&c, bytes, NULL), 0);
	/* All bits where something lies, and samples of the long tail of zeros. */
	for (unsigned bit = 0; bit < LABEL_CONFIG_BYTES * 8; bit += bit < 1000 * 8 ? 1 : 97) {
		bytes[bit / 8] ^= 1u << bit % 8;
		assert_int_not_equal(config_unpack(bytes, &again, NULL), 0);
		bytes[bit / 8] ^= 1u << bit % 8;
	}
}

/* Damage under a checksum that was put right: refused with a sentence, or something that packs. */
static void damaged_configurations_are_refused_or_sane(void **state)
{
	static struct pool_config c, again;
	static uint8_t good[LABEL_CONFIG_BYTES], bytes[LABEL_CONFIG_BYTES], packed[LABEL_CONFIG_BYTES];

	some_config(&c, 5, 2, 20);
	assert_int_equal(config_pack(&c, good, NULL), 0);
	for (unsigned i = 0; i < 4000; i++) {
		struct error err = ERROR_INIT;

		memcpy(bytes, good, sizeof(bytes));
		for (unsigned n = 1 + random_below(&r, 3); n; n--)
			bytes[random_below(&r, 900)] = (uint8_t)random_u64(&r);
		put_le32(bytes + LABEL_CONFIG_BYTES - 4, checksum_crc32c(bytes, LABEL_CONFIG_BYTES - 4));
		if (config_unpack(bytes, &again, &err)) {
			assert_true(err.text[0]);
			continue;
		}
		assert_int_equal(config_pack(&again, packed, NULL), 0);
		assert_memory_equal(packed, bytes, sizeof(bytes));
	}
}

static void uberblocks_know_their_place(void **state)
{
	struct uberblock u =
				 {
					 .checkpoint = 64 * 9 + 5,
					 .commit = 77,
					 .log_sequence = 12,
					 .log_offset = 8192,
					 .next_run = 99,
					 .next_dataset = 17,
					 .wall_ns = 1,
					 .config_generation = 3,
					 .activity_ns = 4,
					 .catalog = random_bp(BP_NODE),
					 .runs = random_bp(BP_NODE),
					 .dead = random_bp(BP_NODE),
				 },
			 again;
	uint8_t id[16] = {1, 2, 3}, other[16] = {1, 2, 4}, bytes[4096];

	uberblock_pack(&u, id, 5, bytes);
	assert_int_equal(uberblock_unpack(bytes, id, 5, &again, NULL), 0);
	assert_true(again.checkpoint == u.checkpoint && again.commit == 77 && again.log_offset == 8192 &&
		    again.next_run == 99 && again.next_dataset == 17 && again.activity_ns == 4);
	assert_bp(&u.catalog, &again.catalog);
	assert_bp(&u.dead, &again.dead);
	assert_int_equal(again.sums.kind, BP_HOLE);
	assert_int_equal(uberblock_unpack(bytes, other, 5, &again, NULL), ERR_CORRUPT);
	assert_int_equal(uberblock_unpack(bytes, id, 6, &again, NULL), ERR_CORRUPT);
	for (unsigned bit = 0; bit < 4096 * 8; bit++) {
		bytes[bit / 8] ^= 1u << bit % 8;
		assert_int_not_equal(uberblock_unpack(bytes, id, 5, &again, NULL), 0);
		bytes[bit / 8] ^= 1u << bit % 8;
	}
}

/* --- runs, nodes, the log ----------------------------------------------------------------------------------------- */

static void some_run(struct run_format *f)
{
	unsigned width;

	memset(f, 0, sizeof(*f));
	f->id = random_below(&r, 1ULL << 48);
	f->birth = random_u64(&r);
	f->birth_last = random_u64(&r);
	f->group = random_below(&r, POOL_GROUPS_MAX);
	f->class = random_below(&r, CLASS_COUNT);
	f->p = random_below(&r, POOL_PARITY_MAX + 1);
	f->k = 1 + random_below(&r, POOL_WIDTH_MAX - f->p);
	f->version = random_u64(&r);
	f->stripes = random_below(&r, RUN_STRIPES_MAX + 1);
	width = f->k + f->p;
	for (unsigned c = 0; c < width; c++) {
		f->column[c] = (struct disk_address){c * 7 + random_below(&r, 7), random_below(&r, 1ULL << 39)};
		f->column_state[c] = random_below(&r, 2);
	}
	for (unsigned b = 0; b < f->stripes * f->k; b++)
		f->live[b / 8] |= (uint8_t)(random_below(&r, 2) << b % 8);
	for (unsigned b = 0; b < f->stripes; b++)
		f->returned[b / 8] |= (uint8_t)(random_below(&r, 2) << b % 8);
}

static void runs_come_back(void **state)
{
	static struct run_format f, again;
	static uint8_t bytes[RUN_FORMAT_BYTES_MAX], head[RUN_HEAD_BYTES_MAX];

	for (unsigned i = 0; i < 2000; i++) {
		size_t length, used, head_length;
		uint8_t *alone;

		some_run(&f);
		length = run_pack(&f, bytes);
		assert_in_range(length, 64, RUN_FORMAT_BYTES_MAX);
		alone = malloc(length);
		memcpy(alone, bytes, length);
		assert_int_equal(run_unpack(alone, length, &again, NULL), 0);
		assert_true(f.id == again.id && f.birth == again.birth && f.birth_last == again.birth_last &&
			    f.version == again.version && f.stripes == again.stripes && f.k == again.k &&
			    f.p == again.p);
		assert_memory_equal(f.live, again.live, sizeof(f.live));
		assert_memory_equal(f.returned, again.returned, sizeof(f.returned));
		for (unsigned c = 0; c < f.k + f.p; c++)
			assert_true(f.column[c].disk == again.column[c].disk &&
				    f.column[c].unit == again.column[c].unit &&
				    f.column_state[c] == again.column_state[c]);
		head_length = run_pack_head(&f, head);
		assert_memory_equal(head, bytes, head_length);
		assert_int_equal(run_unpack_head(head, head_length, &again, &used, NULL), 0);
		assert_int_equal(used, head_length);
		assert_int_equal(run_unpack(alone, length - 1, &again, NULL), ERR_CORRUPT);
		free(alone);
	}
}

static void any_run_is_refused_or_packs_the_same(void **state)
{
	static struct run_format f;
	static uint8_t bytes[RUN_FORMAT_BYTES_MAX + 64], packed[RUN_FORMAT_BYTES_MAX];

	for (unsigned i = 0; i < 20000; i++) {
		struct error err = ERROR_INIT;
		size_t length;
		uint8_t *alone;

		some_run(&f);
		length = run_pack(&f, bytes);
		for (unsigned n = random_below(&r, 3); n; n--)
			bytes[random_below(&r, min_of(length, 128u))] = (uint8_t)random_u64(&r);
		if (random_below(&r, 8) == 0)
			length = random_below(&r, length + 8);
		alone = malloc(max_of(length, 1u));
		memcpy(alone, bytes, length);
		if (run_unpack(alone, length, &f, &err)) {
			assert_true(err.code == ERR_CORRUPT && err.text[0]);
		} else {
			assert_int_equal(run_pack(&f, packed), length);
			assert_memory_equal(packed, alone, length);
		}
		free(alone);
	}
}

static void sums_fit_in_an_item(void **state)
{
	for (unsigned class = 0; class < CLASS_COUNT; class ++)
		for (unsigned width = 1; width <= POOL_WIDTH_MAX; width++) {
			unsigned stripes = sums_stripes_per_item(width, class);

			assert_true(stripes >= 1);
			assert_true(stripes * width * sums_per_column(class) * 4 <= 4096);
		}
	assert_int_equal(sums_per_column(class_of(4096)), 1);
	assert_int_equal(sums_per_column(class_of(96 << 10)), 2);
	assert_int_equal(sums_per_column(class_of(1 << 20)), 16);
}

static unsigned some_node(uint8_t *node, unsigned level, uint64_t tree)
{
	struct node_head h = {.level = (uint8_t)level, .tree = tree, .birth = 5, .bytes = NODE_HEAD_BYTES};
	struct key key = {random_below(&r, 100), 0};

	for (unsigned wanted = 1 + random_below(&r, 150); h.items < wanted; h.items++) {
		uint8_t *at = node + h.bytes;
		uint32_t bytes =
			level ? BP_BYTES : 1 + (uint32_t)random_below(&r, random_below(&r, 10) ? 100 : TREE_VALUE_MAX);

		if (NODE_BYTES - h.bytes < 18 + bytes)
			break;
		key.b += 1 + random_below(&r, 1000);
		put_le64(at, key.a);
		put_le64(at + 8, key.b);
		if (level) {
			struct bp bp = random_bp(BP_NODE);

			bp.level = (uint8_t)(level - 1);
			bp.logical_bytes = NODE_BYTES;
			bp_pack(&bp, at + 16);
			h.bytes += 16 + bytes;
		} else {
			put_le16(at + 16, (uint16_t)bytes);
			random_fill(&r, at + 18, bytes);
			h.bytes += 18 + bytes;
		}
	}
	node_head_pack(&h, node);
	return h.items;
}

static void nodes_are_walked_once(void **state)
{
	uint8_t *node = malloc(NODE_BYTES);
	unsigned refused = 0;

	for (unsigned i = 0; i < 5000; i++) {
		unsigned level = i % 3, items;
		struct node_head h;
		struct error err = ERROR_INIT;

		memset(node, 0, NODE_BYTES);
		items = some_node(node, level, 20);
		assert_int_equal(node_check(node, 20, (int)level, &h, NULL), 0);
		assert_int_equal(h.items, items);
		assert_int_equal(node_check(node, 20, -1, &h, NULL), 0);
		assert_int_equal(node_check(node, 21, -1, &h, NULL), ERR_CORRUPT);
		assert_int_equal(node_check(node, 20, (int)level + 1, &h, NULL), ERR_CORRUPT);
		for (unsigned n = 1 + random_below(&r, 3); n; n--)
			node[random_below(&r, i % 2 ? 128 : NODE_BYTES)] = (uint8_t)random_u64(&r);
		if (node_check(node, 20, -1, &h, &err)) {
			assert_true(err.code == ERR_CORRUPT && err.text[0]);
			refused++;
		}
	}
	assert_in_range(refused, 1000, 5000);
	free(node);
}

static const uint8_t pool_id[16] = "the pool's own!";

static uint8_t *some_record(struct log_head *h, unsigned entries)
{
	uint8_t *record = malloc(LOG_RECORD_BYTES_MAX), *at = record + LOG_HEAD_BYTES;

	for (unsigned i = 0; i < entries; i++) {
		uint32_t bytes = (uint32_t)random_below(&r, 300);

		random_fill(&r, log_entry_put(at, 1 + random_below(&r, LOG_TYPE_COUNT - 1), bytes), bytes);
		at += log_entry_bytes(bytes);
	}
	*h = (struct log_head){.sequence = random_u64(&r), .commit = random_u64(&r), .flags = LOG_FLAG_COMMIT};
	h->entry_bytes = (uint32_t)(at - record - LOG_HEAD_BYTES);
	h->bytes = (uint32_t)round_up_u64(LOG_HEAD_BYTES + h->entry_bytes, POOL_UNIT_BYTES);
	log_record_seal(h, pool_id, record);
	return realloc(record, h->bytes);
}

static void log_records_come_back_and_every_bit_counts(void **state)
{
	static const uint8_t other_id[16] = "another one";
	struct log_head h, again;
	uint8_t *record = some_record(&h, 30);
	struct log_entry entry;
	struct error err = ERROR_INIT;
	uint32_t offset = 0, count = 0;

	assert_int_equal(log_record_check(record, h.bytes, pool_id, &again, NULL), 0);
	assert_true(h.sequence == again.sequence && h.commit == again.commit && h.bytes == again.bytes &&
		    h.entry_bytes == again.entry_bytes && h.flags == again.flags);
	while (log_entry_next(record + LOG_HEAD_BYTES, h.entry_bytes, &offset, &entry, &err))
		count++;
	assert_int_equal(err.code, 0);
	assert_int_equal(count, 30);
	assert_int_equal(log_record_check(record, h.bytes, other_id, &again, NULL), ERR_NOT_FOUND);
	assert_int_equal(log_record_check(record, h.bytes - 4096, pool_id, &again, NULL), ERR_CORRUPT);
	for (unsigned bit = 0; bit < h.bytes * 8; bit++) {
		record[bit / 8] ^= 1u << bit % 8;
		assert_int_not_equal(log_record_check(record, h.bytes, pool_id, &again, NULL), 0);
		record[bit / 8] ^= 1u << bit % 8;
	}
	free(record);
}

static void entries_that_lie_stay_inside(void **state)
{
	for (unsigned i = 0; i < 3000; i++) {
		struct log_head h;
		uint8_t *record = some_record(&h, 1 + random_below(&r, 10)), *entries;
		struct log_entry entry;
		struct error err = ERROR_INIT;
		uint32_t offset = 0, bytes = h.entry_bytes;
		uint8_t sum = 0;

		for (unsigned n = 1 + random_below(&r, 4); n; n--)
			record[LOG_HEAD_BYTES + random_below(&r, bytes)] = (uint8_t)random_u64(&r);
		entries = malloc(bytes);
		memcpy(entries, record + LOG_HEAD_BYTES, bytes);
		while (log_entry_next(entries, bytes, &offset, &entry, &err))
			for (uint32_t at = 0; at < entry.bytes; at++)
				sum ^= entry.payload[at];
		assert_true(err.code == ERR_CORRUPT || (err.code == 0 && offset == bytes));
		record[0] = sum;
		free(entries);
		free(record);
	}
}

static void classes_hold_their_bytes(void **state)
{
	assert_int_equal(class_of(1), 0);
	assert_int_equal(class_of(4096), 0);
	assert_int_equal(class_of(4097), 1);
	assert_int_equal(class_bytes[class_of(131072)], 131072);
	assert_int_equal(class_bytes[class_of(131073)], 160 << 10);
	assert_int_equal(class_of(1 << 20), CLASS_COUNT - 1);
	for (unsigned c = 0; c < CLASS_COUNT; c++)
		assert_int_equal(class_bytes[c] % POOL_UNIT_BYTES, 0);
}

static void names_of_pools(void **state)
{
	char longest[POOL_NAME_BYTES + 1];

	memset(longest, 'a', sizeof(longest));
	longest[POOL_NAME_BYTES] = 0;
	assert_false(pool_name_is_valid(longest));
	longest[POOL_NAME_BYTES - 1] = 0;
	assert_true(pool_name_is_valid(longest));
	assert_true(pool_name_is_valid("Tank-1.a_b:c"));
	assert_false(pool_name_is_valid("1tank"));
	assert_false(pool_name_is_valid(""));
	assert_false(pool_name_is_valid("a/b"));
	assert_false(pool_name_is_valid("a b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pointers_come_back),
		cmocka_unit_test(any_pointer_is_refused_or_packs_the_same),
		cmocka_unit_test(inline_pointers_know_their_length),
		cmocka_unit_test(headers_come_back_and_every_bit_counts),
		cmocka_unit_test(headers_with_impossible_places_are_refused),
		cmocka_unit_test(configurations_come_back),
		cmocka_unit_test(every_bit_of_a_configuration_counts),
		cmocka_unit_test(damaged_configurations_are_refused_or_sane),
		cmocka_unit_test(uberblocks_know_their_place),
		cmocka_unit_test(runs_come_back),
		cmocka_unit_test(any_run_is_refused_or_packs_the_same),
		cmocka_unit_test(sums_fit_in_an_item),
		cmocka_unit_test(nodes_are_walked_once),
		cmocka_unit_test(log_records_come_back_and_every_bit_counts),
		cmocka_unit_test(entries_that_lie_stay_inside),
		cmocka_unit_test(classes_hold_their_bytes),
		cmocka_unit_test(names_of_pools),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
