/*
 * Compression of records. Each codec gets a destination that is only as large as it pays: one that cannot get there says
 * so early, which is what makes incompressible data cheap. Contexts of the libraries belong to the thread and are kept.
 *
 * lzjb and zle are of our own, after descriptions of the formats that carry these names; docs/format.md has both.
 */
#include "internal.h"

#include <lz4.h>
#include <string.h>
#include <zstd.h>

struct contexts {
	void *lz4;
	ZSTD_CCtx *compress;
	ZSTD_DCtx *decompress;
};

static void contexts_free(void *value)
{
	struct contexts *c = value;

	free(c->lz4);
	ZSTD_freeCCtx(c->compress);
	ZSTD_freeDCtx(c->decompress);
	free(c);
}

static const struct os_local contexts_key = {contexts_free};

static struct contexts *contexts_of_thread(void)
{
	struct contexts *c = os_local_get(&contexts_key);

	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (c && os_local_set(&contexts_key, c, NULL)) {
		free(c);
		c = NULL;
	}
	return c;
}

/* --- zle: tokens of LEB128 (length - 1) << 1 | is_zero; the bytes follow unless they are zero --------------------- */

#define ZLE_RUN_MIN 4u /* a shorter run of zeros costs more than it saves */

static bool put_varint(uint8_t **at, const uint8_t *end, uint32_t v)
{
	for (; *at < end; v >>= 7) {
		*(*at)++ = (uint8_t)(v > 127 ? v | 128 : v);
		if (v <= 127)
			return true;
	}
	return false;
}

static bool zle_literals(uint8_t **at, const uint8_t *end, const uint8_t *from, size_t bytes)
{
	if (bytes == 0)
		return true;
	if (!put_varint(at, end, (uint32_t)(bytes - 1) << 1) || (size_t)(end - *at) < bytes)
		return false;
	memcpy(*at, from, bytes);
	*at += bytes;
	return true;
}

static size_t zle_compress(const uint8_t *in, size_t bytes, uint8_t *out, size_t room)
{
	uint8_t *at = out;
	const uint8_t *end = out + room;
	size_t literals = 0, i = 0;

	while (i < bytes) {
		size_t zeros = i;

		while (zeros < bytes && in[zeros] == 0)
			zeros++;
		if (zeros - i < ZLE_RUN_MIN) {
			i = max_of(zeros, i + 1);
			continue;
		}
		if (!zle_literals(&at, end, in + literals, i - literals) ||
			!put_varint(&at, end, (uint32_t)(zeros - i - 1) << 1 | 1))
			return 0;
		literals = i = zeros;
	}
	return zle_literals(&at, end, in + literals, bytes - literals) ? (size_t)(at - out) : 0;
}

static bool zle_decompress(const uint8_t *in, size_t bytes, uint8_t *out, size_t out_bytes)
{
	const uint8_t *end = in + bytes;
	uint8_t *out_end = out + out_bytes;

	while (in < end) {
		uint64_t v = 0, length;
		unsigned shift = 0;

		do {
			if (in == end || shift > 28)
				return false;
			v |= (uint64_t)(*in & 127) << shift;
			shift += 7;
		} while (*in++ & 128);
		length = (v >> 1) + 1;
		if (length > (uint64_t)(out_end - out))
			return false;
		if (v & 1) {
			memset(out, 0, length);
		} else {
			if (length > (uint64_t)(end - in))
				return false;
			memcpy(out, in, length);
			in += length;
		}
		out += length;
	}
	return out == out_end;
}

/* --- lzjb: a byte of eight flags, lowest first; clear: one literal; set: two bytes, 6 bits of length - 3 and 10 bits of
 * --- distance - 1, high byte first ---------------------------------------------------------------------------------------- */

#define LZJB_MATCH_MIN 3u
#define LZJB_MATCH_MAX 66u
#define LZJB_DISTANCE_MAX 1024u
#define LZJB_HASH_BITS 12

static unsigned lzjb_hash(const uint8_t *p)
{
	return ((uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2]) * 2654435761u >> (32 - LZJB_HASH_BITS);
}

static size_t lzjb_compress(const uint8_t *in, size_t bytes, uint8_t *out, size_t room)
{
	uint32_t seen[1 << LZJB_HASH_BITS] = {0}; /* place + 1 of the last three bytes with that hash */
	size_t at = 0, i = 0, flags_at = 0;
	unsigned flag = 8;

	while (i < bytes) {
		size_t match = 0, length = 0;

		if (flag == 8) {
			if (at >= room)
				return 0;
			flag = 0;
			flags_at = at;
			out[at++] = 0;
		}
		if (bytes - i >= LZJB_MATCH_MIN) {
			unsigned hash = lzjb_hash(in + i);

			match = seen[hash];
			seen[hash] = (uint32_t)i + 1;
			if (match && i - (match - 1) <= LZJB_DISTANCE_MAX)
				while (length < LZJB_MATCH_MAX && i + length < bytes &&
					in[match - 1 + length] == in[i + length])
					length++;
		}
		if (length >= LZJB_MATCH_MIN) {
			unsigned code = (unsigned)(length - LZJB_MATCH_MIN) << 10 | (unsigned)(i - match);

			if (room - at < 2)
				return 0;
			out[flags_at] |= (uint8_t)(1u << flag);
			out[at++] = (uint8_t)(code >> 8);
			out[at++] = (uint8_t)code;
			i += length;
		} else {
			if (at >= room)
				return 0;
			out[at++] = in[i++];
		}
		flag++;
	}
	return at;
}

static bool lzjb_decompress(const uint8_t *in, size_t bytes, uint8_t *out, size_t out_bytes)
{
	size_t at = 0, done = 0;
	unsigned flags = 0, flag = 8;

	while (done < out_bytes) {
		if (flag == 8) {
			if (at >= bytes)
				return false;
			flags = in[at++];
			flag = 0;
		}
		if (flags >> flag++ & 1) {
			size_t code, length, distance;

			if (bytes - at < 2)
				return false;
			code = (size_t)in[at] << 8 | in[at + 1];
			at += 2;
			length = (code >> 10) + LZJB_MATCH_MIN;
			distance = (code & 1023) + 1;
			if (distance > done || length > out_bytes - done)
				return false;
			for (; length; length--, done++)
				out[done] = out[done - distance];
		} else {
			if (at >= bytes)
				return false;
			out[done++] = in[at++];
		}
	}
	return at == bytes;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

/* More than this is no gain: the record must fit in a smaller column, or inline, and be an eighth smaller. */
static size_t pays_up_to(size_t bytes)
{
	unsigned class = class_of(bytes);
	size_t limit = class ? class_bytes[class - 1] : BP_INLINE_MAX;

	return min_of(limit, bytes - bytes / 8);
}

static size_t lz4_compress(const void *in, size_t bytes, void *out, size_t room)
{
	struct contexts *c = contexts_of_thread();
	int length;

	if (c && !c->lz4)
		c->lz4 = malloc((size_t)LZ4_sizeofState());
	if (!c || !c->lz4)
		return 0;
	length = LZ4_compress_fast_extState(c->lz4, in, out, (int)bytes, (int)room, 1);
	return length > 0 ? (size_t)length : 0;
}

static size_t zstd_compress(int level, const void *in, size_t bytes, void *out, size_t room)
{
	struct contexts *c = contexts_of_thread();
	size_t length;

	if (c && !c->compress)
		c->compress = ZSTD_createCCtx();
	if (!c || !c->compress)
		return 0;
	length = ZSTD_compressCCtx(c->compress, out, room, in, bytes, level > 0 ? level : 3);
	return ZSTD_isError(length) ? 0 : length;
}

size_t compress_record(enum compression c, int level, const void *in, size_t bytes, void *out, size_t room)
{
	if (bytes < 64)
		return 0;
	room = min_of(room, pays_up_to(bytes));
	switch (c) {
	case COMPRESS_LZ4:
		return lz4_compress(in, bytes, out, room);
	case COMPRESS_ZSTD:
		return zstd_compress(level, in, bytes, out, room);
	case COMPRESS_LZJB:
		return lzjb_compress(in, bytes, out, room);
	case COMPRESS_ZLE:
		return zle_compress(in, bytes, out, room);
	default:
		return 0;
	}
}

static bool zstd_decompress(const void *in, size_t bytes, void *out, size_t out_bytes)
{
	struct contexts *c = contexts_of_thread();

	if (c && !c->decompress)
		c->decompress = ZSTD_createDCtx();
	return c && c->decompress && ZSTD_decompressDCtx(c->decompress, out, out_bytes, in, bytes) == out_bytes;
}

int decompress_record(enum compression c, const void *in, size_t bytes, void *out, size_t out_bytes, struct error *err)
{
	static const char *const names[COMPRESS_COUNT] = {"off", "lz4", "zstd", "lzjb", "zle"};
	bool done = false;

	switch (c) {
	case COMPRESS_OFF:
		done = bytes == out_bytes;
		if (done)
			memcpy(out, in, bytes);
		break;
	case COMPRESS_LZ4:
		done = bytes <= INT32_MAX && out_bytes <= INT32_MAX &&
		       LZ4_decompress_safe(in, out, (int)bytes, (int)out_bytes) == (int)out_bytes;
		break;
	case COMPRESS_ZSTD:
		done = zstd_decompress(in, bytes, out, out_bytes);
		break;
	case COMPRESS_LZJB:
		done = lzjb_decompress(in, bytes, out, out_bytes);
		break;
	case COMPRESS_ZLE:
		done = zle_decompress(in, bytes, out, out_bytes);
		break;
	default:
		return error_set(err, ERR_CORRUPT, "compression %u is not known", (unsigned)c);
	}
	return done ? 0 : error_set(err, ERR_CORRUPT, "%zu bytes of %s do not become %zu", bytes, names[c], out_bytes);
}

bool is_all_zero(const void *data, size_t bytes)
{
	const uint8_t *p = data;

	/* Sixteen bytes by hand, then the buffer against itself: memcmp is as fast as the machine reads. */
	for (size_t i = 0; i < min_of(bytes, (size_t)16); i++)
		if (p[i])
			return false;
	return bytes <= 16 || memcmp(p, p + 16, bytes - 16) == 0;
}
