/* The label codec: what goes in comes out, and nothing that a disk holds makes it crash or be believed. */
#include "world.h"

#include "internal.h"

static void label_make(struct label *l, const char *layout, unsigned disks)
{
	uint64_t bytes[LAYOUT_DISKS_MAX];
	struct error err = ERROR_INIT;

	memset(l, 0, sizeof *l);
	for (unsigned i = 0; i < disks; i++)
		bytes[i] = (20 + i) << 20;
	must(layout_init(&l->layout, layout, disks, bytes, 64 << 10, LAYOUT_RIGHT_SYMMETRIC, &err), &err);
	l->events = 7;
	memset(l->array_id, 0x11, ID_BYTES);
	memset(l->own_id, 0x22, ID_BYTES);
	strcpy(l->name, "tank");
	l->member_count = disks;
	l->index = disks - 1;
	l->sector_bytes = 512;
	l->map_offset = FRONT_BYTES;
	l->map_blocks = 1;
	l->log_offset = 2 * FRONT_BYTES;
	l->log_bytes = MIB;
	l->data_offset = 2 * MIB;
	l->disk_bytes = (uint64_t)(24 + disks) << 20;
	l->log_sequence = 99;
	for (unsigned i = 0; i < disks; i++) {
		memset(l->members[i].id, (int)(0x30 + i), ID_BYTES);
		l->members[i].state = (enum array_member_state)(i % 4);
		l->members[i].rebuilt_rows = 1000 + i;
	}
}

static void test_round_trip(void **state)
{
	static const struct {
		const char *layout;
		unsigned disks;
	} cases[] = {{"single", 1}, {"concat", 3}, {"raid10-far", 5}, {"raid5", 4}, {"raid60", 8}, {"mirrorx23", 46},
		{"raid5x9", 45}};
	struct label *in = malloc(sizeof *in), *out = malloc(sizeof *out);
	uint8_t *bytes = malloc(LABEL_BYTES), *again = malloc(LABEL_BYTES);
	struct error err = ERROR_INIT;

	for (size_t i = 0; i < array_count(cases); i++) {
		label_make(in, cases[i].layout, cases[i].disks);
		label__pack(in, bytes);
		assert_memory_equal(bytes, "SPNDLARR", 8);
		assert_string_equal((char *)bytes + 64, "tank"); /* where other programs look */
		must(label__unpack(bytes, out, &err), &err);
		label__pack(out, again);
		assert_memory_equal(bytes, again, LABEL_BYTES);
		assert_int_equal(out->events, 7);
		assert_int_equal(out->members[cases[i].disks - 1].rebuilt_rows, 999 + cases[i].disks);
	}
	free(in);
	free(out);
	free(bytes);
	free(again);
}

/* Every byte that is off is noticed. */
static void test_flipped(void **state)
{
	struct label *l = malloc(sizeof *l);
	uint8_t *bytes = malloc(LABEL_BYTES);

	label_make(l, "raid5", 4);
	label__pack(l, bytes);
	for (unsigned i = 0; i < LABEL_BYTES; i++) {
		struct error err = ERROR_INIT;

		bytes[i] ^= 0x40;
		int rc = label__unpack(bytes, l, &err);
		assert_int_equal(rc, i < 8 ? ERR_NOT_FOUND : ERR_CORRUPT);
		assert_true(err.text[0]);
		bytes[i] ^= 0x40;
	}
	free(l);
	free(bytes);
}

/* Bytes with a good checksum and wild values: refused, or good enough to be packed again. */
static void test_wild(void **state)
{
	struct label *l = malloc(sizeof *l);
	uint8_t *bytes = malloc(LABEL_BYTES);
	struct random r;
	unsigned taken = 0;

	random_seed(&r, 1);
	for (unsigned i = 0; i < 200000; i++) {
		static const uint8_t favourites[] = {0, 1, 0x7f, 0x80, 0xff, 2, 16};
		struct error err = ERROR_INIT;

		if (i % 64 == 0) {
			label_make(l, i % 128 ? "raid6" : "concat", 6);
			label__pack(l, bytes);
		}
		unsigned n = 1 + (unsigned)random_below(&r, 3);
		while (n--)
			bytes[8 + random_below(&r, random_below(&r, 4) ? 280 : 2560 + 6 * 48 - 8)] =
				favourites[random_below(&r, sizeof favourites)];
		put_le32(bytes + LABEL_BYTES - 4, checksum_crc32c(bytes, LABEL_BYTES - 4));
		int rc = label__unpack(bytes, l, &err);
		assert_true(rc == 0 || rc == ERR_CORRUPT || rc == ERR_UNSUPPORTED);
		if (rc) {
			assert_true(err.text[0]);
			assert_int_equal(err.code, rc);
			label_make(l, "raid6", 6);
			label__pack(l, bytes);
		} else {
			taken++;
			assert_true(layout_check(&l->layout, NULL) == 0);
		}
	}
	assert_true(taken > 100);
	free(l);
	free(bytes);
}

static void test_versions(void **state)
{
	struct label *l = malloc(sizeof *l);
	uint8_t *bytes = malloc(LABEL_BYTES);
	struct error err = ERROR_INIT;

	label_make(l, "raid5", 4);
	label__pack(l, bytes);
	put_le32(bytes + 8, 2);
	put_le32(bytes + LABEL_BYTES - 4, checksum_crc32c(bytes, LABEL_BYTES - 4));
	assert_int_equal(label__unpack(bytes, l, &err), ERR_UNSUPPORTED);
	assert_non_null(strstr(err.text, "version 2"));
	label_make(l, "raid5", 4);
	label__pack(l, bytes);
	put_le64(bytes + 16, 0x80);
	put_le32(bytes + LABEL_BYTES - 4, checksum_crc32c(bytes, LABEL_BYTES - 4));
	error_clear(&err);
	assert_int_equal(label__unpack(bytes, l, &err), ERR_UNSUPPORTED);
	assert_non_null(strstr(err.text, "0x80"));
	free(l);
	free(bytes);
}

/* Four copies: any one that is good will do, the newest of them is taken. */
static void test_copies(void **state)
{
	struct label *l = malloc(sizeof *l), *got = malloc(sizeof *got);
	struct label_ends ends;
	struct error err = ERROR_INIT;
	struct disk *d;
	uint8_t *junk = aligned_alloc(4096, LABEL_BYTES);
	uint64_t size = 28 << 20;

	memset(junk, 0xee, LABEL_BYTES);
	must(disk_open_memory("label", size, &d, &err), &err);
	assert_int_equal(label__load(d, got, &ends, &err), ERR_NOT_FOUND);
	error_clear(&err);
	label_make(l, "raid5", 4);
	l->disk_bytes = size;
	must(label__store(d, l, LABEL_SLOTS_ALL, &err), &err);
	l->events = 8; /* slot A at both ends */
	must(label__store(d, l, 5, &err), &err);
	const uint64_t at[4] = {LABEL_OFFSET, LABEL_OFFSET + LABEL_BYTES, label__back_offset(size),
		label__back_offset(size) + LABEL_BYTES};
	must(label__load(d, got, &ends, &err), &err);
	assert_int_equal(got->events, 8);
	assert_true(ends.front_good && ends.back_good);
	assert_int_equal(ends.bad, 0);
	must(disk_write(d, at[0], junk, LABEL_BYTES, &err), &err);
	must(label__load(d, got, &ends, &err), &err);
	assert_int_equal(got->events, 8);
	must(disk_write(d, at[2], junk, LABEL_BYTES, &err), &err); /* torn at both ends: the one before */
	must(label__load(d, got, &ends, &err), &err);
	assert_int_equal(got->events, 7);
	must(disk_write(d, at[1], junk, LABEL_BYTES, &err), &err);
	must(label__load(d, got, &ends, &err), &err);
	assert_true(!ends.front_good && ends.back_good);
	assert_int_equal(ends.bad, 7);
	must(disk_write(d, at[3], junk, LABEL_BYTES, &err), &err);
	assert_int_equal(label__load(d, got, &ends, &err), ERR_NOT_FOUND);
	disk_close(d);
	free(l);
	free(got);
	free(junk);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_flipped),
		cmocka_unit_test(test_wild), cmocka_unit_test(test_versions), cmocka_unit_test(test_copies)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
