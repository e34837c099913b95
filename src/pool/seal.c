/*
 * Checksums that know where their bytes belong. The salt is {pool id, place, where, birth}: the right bytes of another
 * place, pool or time (a lost or a misdirected write) do not match, although the disk answers without complaint.
 */
#include "internal.h"

#include <openssl/evp.h>
#include <string.h>

#define SALT_BYTES 40u

static void salt_of(const struct seal_place *place, uint8_t salt[SALT_BYTES])
{
	memcpy(salt, place->pool_id, 16);
	put_le64(salt + 16, place->place);
	put_le64(salt + 24, place->where);
	put_le64(salt + 32, place->birth);
}

/* SHA-256 of salt and data, cut to what a pointer has room for. False when libcrypto has no memory. */
static bool sha256_salted(const uint8_t salt[SALT_BYTES], const void *data, size_t bytes, uint8_t out[CHECKSUM_BYTES])
{
	uint8_t digest[EVP_MAX_MD_SIZE];
	unsigned length = 0;
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	bool done = context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) &&
		    EVP_DigestUpdate(context, salt, SALT_BYTES) && EVP_DigestUpdate(context, data, bytes) &&
		    EVP_DigestFinal_ex(context, digest, &length);

	EVP_MD_CTX_free(context);
	if (done)
		memcpy(out, digest, CHECKSUM_BYTES);
	return done;
}

void seal_make(enum checksum_kind kind, const struct seal_place *place, const void *data, size_t bytes,
	uint8_t out[CHECKSUM_BYTES])
{
	uint8_t salt[SALT_BYTES];

	os_charge(OS_STAGE_CHECKSUM, bytes);
	salt_of(place, salt);
	memset(out, 0, CHECKSUM_BYTES);
	if (kind == CHECKSUM_SHA256)
		sp_assert(sha256_salted(salt, data, bytes, out));
	else
		checksum_xxh3_128(data, bytes, checksum_xxh3(salt, sizeof(salt)), out);
}

static void seal_data(const struct pool *p, const struct bp *bp, const void *data, uint8_t out[CHECKSUM_BYTES])
{
	struct seal_place place = {
		.pool_id = p->id,
		.place = bp->run << 16,
		.where = (uint64_t)bp->stripe << 8 | bp->column,
		.birth = bp->birth,
	};

	seal_make(bp->checksum_kind, &place, data, bp->physical_bytes, out);
}

void bp_seal(const struct pool *p, struct bp *bp, const void *data)
{
	sp_assert(bp->kind == BP_DATA);
	seal_data(p, bp, data, bp->checksum);
}

bool bp_verify(const struct pool *p, const struct bp *bp, const void *data)
{
	uint8_t found[CHECKSUM_BYTES];

	sp_assert(bp->kind == BP_DATA);
	seal_data(p, bp, data, found);
	return memcmp(found, bp->checksum, CHECKSUM_BYTES) == 0;
}
