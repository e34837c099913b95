/*
 * Any bytes where something of a pool should be. The first byte says what; checksums are put right in a second try, so that
 * what lies behind them is reached too. A decoder refuses with a sentence, or gives what packs to the same bytes again.
 */
#include <string.h>

#include "../src/pool/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t pool_id[16] = "the pool's own!";

static void refused(int code, const struct error *err)
{
	sp_assert(code < 0 && err->code == code && err->text[0]);
}

static void check_bp(const uint8_t *in, size_t bytes)
{
	struct error err = ERROR_INIT;
	uint8_t packed[BP_BYTES];
	struct bp bp;
	int code = bp_unpack_value(in, bytes, &bp, &err);

	if (code) {
		refused(code, &err);
		return;
	}
	bp_pack(&bp, packed);
	sp_assert(memcmp(packed, in, bp.kind == BP_INLINE ? BP_INLINE_HEAD : BP_BYTES) == 0);
	sp_assert(bp.kind != BP_DATA || class_of(bp.physical_bytes) < CLASS_COUNT);
}

static void check_header(const uint8_t in[4096])
{
	struct error err = ERROR_INIT;
	uint8_t packed[4096];
	struct label_header h;
	int code = label_header_unpack(in, &h, &err);

	if (code) {
		refused(code, &err);
		return;
	}
	label_header_pack(&h, packed);
	sp_assert(memcmp(packed, in, sizeof(packed)) == 0);
}

static void check_config(const uint8_t in[LABEL_CONFIG_BYTES])
{
	static uint8_t packed[LABEL_CONFIG_BYTES];
	static struct pool_config c;
	struct error err = ERROR_INIT;
	int code = config_unpack(in, &c, &err);

	if (code) {
		refused(code, &err);
		return;
	}
	sp_assert(config_pack(&c, packed, NULL) == 0);
	sp_assert(memcmp(packed, in, sizeof(packed)) == 0);
}

static void check_uberblock(const uint8_t in[4096])
{
	struct error err = ERROR_INIT;
	uint8_t packed[4096];
	struct uberblock u;
	int code = uberblock_unpack(in, pool_id, 5, &u, &err);

	if (code) {
		refused(code, &err);
		return;
	}
	uberblock_pack(&u, pool_id, 5, packed);
	sp_assert(memcmp(packed, in, sizeof(packed)) == 0);
}

static void check_run(const uint8_t *in, size_t bytes)
{
	static uint8_t packed[RUN_FORMAT_BYTES_MAX];
	static struct run_format r;
	struct error err = ERROR_INIT;
	int code = run_unpack(in, bytes, &r, &err);

	if (code) {
		refused(code, &err);
		return;
	}
	sp_assert(run_pack(&r, packed) == bytes);
	sp_assert(memcmp(packed, in, bytes) == 0);
}

/* What was checked once is walked without checks: every byte of every item must be inside. */
static void check_node(const uint8_t in[NODE_BYTES])
{
	struct error err = ERROR_INIT;
	struct node_head h;
	uint64_t tree = get_le64(in + 8);
	uint32_t at = NODE_HEAD_BYTES;
	int code = node_check(in, tree, -1, &h, &err);

	if (code) {
		refused(code, &err);
		return;
	}
	for (unsigned i = 0; i < h.items; i++) {
		at += h.level ? 16 + BP_BYTES : 18 + (uint32_t)get_le16(in + at + 16);
		sp_assert(at <= NODE_BYTES);
	}
	sp_assert(at == h.bytes);
}

static void check_log(const uint8_t *in, size_t bytes)
{
	struct error err = ERROR_INIT;
	struct log_entry e;
	struct log_head h;
	uint32_t offset = 0;
	uint64_t sum = 0;
	int code = log_record_check(in, bytes, pool_id, &h, &err);

	if (code) {
		refused(code, &err);
		return;
	}
	while (log_entry_next(in + LOG_HEAD_BYTES, h.entry_bytes, &offset, &e, &err))
		for (uint32_t i = 0; i < e.bytes; i++)
			sum += e.payload[i];
	sp_assert(err.code == ERR_CORRUPT || (err.code == 0 && offset == h.entry_bytes));
	sp_assert(sum < UINT64_MAX);
}

static void check_facts(const uint8_t *in, size_t bytes)
{
	uint8_t packed[DATASET_FACTS_BYTES_MAX];
	struct error err = ERROR_INIT;
	struct dataset_facts f;
	int code = dataset_facts_unpack(in, bytes, &f, &err);

	if (code) {
		refused(code, &err);
		return;
	}
	sp_assert(dataset_facts_pack(&f, packed) == bytes && memcmp(packed, in, bytes) == 0);
}

static void check_compressed(const uint8_t *in, size_t bytes)
{
	static uint8_t out[8192];
	struct error err = ERROR_INIT;
	int code = bytes < 1
			   ? 0
			   : decompress_record(in[0] % (COMPRESS_COUNT + 1), in + 1, bytes - 1, out, sizeof(out), &err);

	if (code)
		refused(code, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t what = size ? data[0] % 9 : 0;
	size_t room, length;
	uint8_t *bytes;

	if (size < 1)
		return 0;
	data++;
	size--;
	room = what == 1 || what == 3 ? 4096
	       : what == 2            ? LABEL_CONFIG_BYTES
	       : what == 5            ? NODE_BYTES
	       : what == 6            ? 8192
				      : size;
	length = min_of(size, room);
	bytes = calloc(1, max_of(room, (size_t)1)); /* exact, so that one byte too many is seen */
	if (!bytes)
		return 0;
	memcpy(bytes, data, length);
	switch (what) {
	case 0:
		check_bp(bytes, room);
		break;
	case 1:
		check_header(bytes);
		put_le32(bytes + 4092, checksum_crc32c(bytes, 4092));
		check_header(bytes);
		break;
	case 2:
		check_config(bytes);
		put_le32(bytes + LABEL_CONFIG_BYTES - 4, checksum_crc32c(bytes, LABEL_CONFIG_BYTES - 4));
		check_config(bytes);
		break;
	case 3:
		check_uberblock(bytes);
		put_le32(bytes + 4092, checksum_crc32c(bytes, 4092));
		check_uberblock(bytes);
		break;
	case 4:
		check_run(bytes, room);
		break;
	case 5:
		check_node(bytes);
		break;
	case 6:
		check_log(bytes, room);
		memcpy(bytes + 40, pool_id, 16);
		put_le32(
			bytes + 56, checksum_crc32c(bytes + 64, min_of(max_of(get_le32(bytes + 24), 64u), 8192u) - 64));
		put_le32(bytes + 60, checksum_crc32c(bytes, 60));
		check_log(bytes, room);
		break;
	case 7:
		check_facts(bytes, room);
		break;
	default:
		check_compressed(bytes, room);
	}
	free(bytes);
	return 0;
}
