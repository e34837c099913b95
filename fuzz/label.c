/*
 * Any bytes where a label should be: the decoder says what is wrong in a sentence, or gives a label that packs and
 * unpacks to itself. The checksum is put right first, so that what lies behind it is reached too.
 */
#include <string.h>

#include "../src/array/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const uint8_t bytes[LABEL_BYTES])
{
	static struct label label, again;
	static uint8_t packed[LABEL_BYTES], packed_again[LABEL_BYTES];
	struct error err = ERROR_INIT;
	int code = label__unpack(bytes, &label, &err);

	sp_assert(code <= 0);
	sp_assert(code == 0 || (err.code == code && err.text[0]));
	if (code)
		return;
	sp_assert(layout_check(&label.layout, NULL) == 0);
	sp_assert(label.member_count <= LAYOUT_DISKS_MAX && label.name[0]);
	label__pack(&label, packed);
	sp_assert(label__unpack(packed, &again, NULL) == 0);
	label__pack(&again, packed_again);
	sp_assert(memcmp(packed, packed_again, LABEL_BYTES) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[LABEL_BYTES];

	memset(bytes, 0, sizeof(bytes));
	if (size)
		memcpy(bytes, data, min_of(size, sizeof(bytes)));
	check(bytes);
	put_le32(bytes + LABEL_BYTES - 4, checksum_crc32c(bytes, LABEL_BYTES - 4));
	check(bytes);
	return 0;
}
