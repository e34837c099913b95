/* What is known of a path before it is written to: uses, signatures, content; and nothing is changed by looking. */
#include <sys/file.h>
#include <sys/stat.h>

#include "testing.h"

static char folder[64], path[128];
static struct error err;

static int setup(void **state)
{
	error_clear(&err);
	folder_make(folder, "/tmp");
	snprintf(path, sizeof path, "%s/disk", folder);
	return 0;
}

static int teardown(void **state)
{
	folder_remove(folder);
	return 0;
}

/* Over holes and data: a sparse file's bytes and its shape. */
static uint64_t fingerprint(const char *of)
{
	FILE *f = fopen(of, "r");
	static uint8_t block[MiB];
	uint64_t sum = 0;
	size_t n;
	assert_non_null(f);
	while ((n = fread(block, 1, sizeof block, f)) > 0)
		sum = sum * 31 + checksum_xxh3(block, n);
	fclose(f);
	return sum;
}

static void inspect(const char *of, struct disk_facts *f)
{
	error_clear(&err);
	assert_ok(disk_inspect(of, f, &err), &err);
}

/* Refused, and the sentence says all of these; forced lifts it or not. */
static void assert_guard(const struct disk_facts *f, const char *says, bool lifted)
{
	error_clear(&err);
	assert_int_equal(disk_guard(f, false, &err), ERR_REFUSED);
	if (!strstr(err.text, says) || !strstr(err.text, f->path))
		fail_msg("%s; expected in it: %s", err.text, says);
	error_clear(&err);
	assert_int_equal(disk_guard(f, true, &err), lifted ? 0 : ERR_REFUSED);
	error_clear(&err);
}

static void write_at(uint64_t at, const void *bytes, size_t length)
{
	int fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, length, (off_t)at), length);
	close(fd);
}

static void test_an_empty_file_is_free(void **state)
{
	struct disk_facts f;
	static const uint64_t sizes[] = {512, 4096, MiB, 3 * MiB, 1ull << 40};
	for (size_t i = 0; i < array_count(sizes); i++) {
		file_make(path, sizes[i], false);
		inspect(path, &f);
		assert_true(f.exists && f.empty && !f.is_directory && !f.is_block_device);
		assert_string_equal(f.signature, "");
		assert_string_equal(f.in_use, "");
		assert_int_equal(f.size_bytes, sizes[i]);
		assert_ok(disk_guard(&f, false, &err), &err);
	}
	/* zeros that were written are as good as holes */
	static uint8_t zeros[MiB];
	file_make(path, 4 * MiB, false);
	for (unsigned i = 0; i < 4; i++)
		write_at(i * MiB, zeros, MiB);
	inspect(path, &f);
	assert_true(f.empty);
}

static void test_any_content_is_seen_in_a_sparse_file(void **state)
{
	static const uint64_t places[] = {0, 511, MiB - 1, 5 * MiB + 12345, 50 * MiB + 1, 96ull * MiB - 1};
	struct disk_facts f;
	for (size_t i = 0; i < array_count(places); i++) {
		file_make(path, 96ull * MiB, false);
		write_at(places[i], "x", 1);
		uint64_t before = fingerprint(path);
		inspect(path, &f);
		assert_false(f.empty);
		assert_guard(&f, "is not empty", true);
		assert_int_equal(fingerprint(path), before);
	}
}

static void test_what_is_no_disk(void **state)
{
	struct disk_facts f;
	inspect(path, &f); /* is not there */
	assert_false(f.exists);
	assert_int_equal(disk_guard(&f, true, &err), ERR_NOT_FOUND);
	inspect(folder, &f);
	assert_true(f.exists && f.is_directory);
	assert_guard(&f, "is a directory", false);
	error_clear(&err);
	assert_int_equal(disk_inspect("/dev/null", &f, &err), ERR_UNSUPPORTED);
	assert_non_null(strstr(err.text, "a character device"));
	error_clear(&err);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(disk_inspect(path, &f, &err), ERR_UNSUPPORTED); /* and does not wait for a writer */
	assert_non_null(strstr(err.text, "a FIFO"));
	char through[160];
	snprintf(through, sizeof through, "%s/disk/below", folder);
	error_clear(&err);
	assert_int_equal(disk_inspect(through, &f, &err), ERR_NOT_FOUND);
	char longer[400];
	memset(longer, 'a', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	error_clear(&err);
	assert_int_equal(disk_inspect(longer, &f, &err), ERR_UNSUPPORTED);
}

static void test_a_link_is_the_same_disk(void **state)
{
	struct disk_facts a, b;
	char other[128];
	snprintf(other, sizeof other, "%s/link", folder);
	file_make(path, MiB, false);
	assert_int_equal(symlink("disk", other), 0);
	inspect(path, &a);
	inspect(other, &b);
	assert_string_equal(b.path, other);
	assert_string_equal(b.real_path, path);
	assert_true(a.device == b.device && a.inode == b.inode && a.inode != 0);
	unlink(other);
	assert_int_equal(link(path, other), 0);
	inspect(other, &b);
	assert_true(a.device == b.device && a.inode == b.inode);
}

static void test_who_holds_a_file(void **state)
{
	struct disk_facts f;
	char says[64];
	file_make(path, MiB, false);
	int fd = open(path, O_RDWR);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	inspect(path, &f);
	snprintf(says, sizeof says, "process %d", getpid());
	assert_guard(&f, says, false);
	close(fd);
	inspect(path, &f);
	assert_string_equal(f.in_use, "");
	fd = open(path, O_RDWR); /* the look let go of its own lock */
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	close(fd);
}

/* --- our own labels ---------------------------------------------------------------------------------- */

static void test_labels_of_ours(void **state)
{
	struct disk_facts f;
	const uint64_t size = 16 * MiB + 1536;
	const uint64_t ends[] = {4096, 16 * MiB - MiB + 4096};
	for (size_t i = 0; i < array_count(ends); i++) {
		file_make(path, size, false);
		write_at(ends[i], "SPNDLARR", 8);
		write_at(ends[i] + 64, "tank\0", 5);
		inspect(path, &f);
		assert_string_equal(f.signature, "spindle array tank");
		assert_int_equal(f.signature_offset_bytes, ends[i]);
		assert_guard(&f, "spindle array tank", true);
		write_at(ends[i] + 64, "\x1b[2J\xff", 6); /* nothing of it reaches a terminal */
		inspect(path, &f);
		assert_string_equal(f.signature, "spindle array ?[2J?");
	}
	file_make(path, size, false);
	write_at(4096, "SPINDLE1", 8);
	inspect(path, &f);
	assert_string_equal(f.signature, "spindle label");
	char name[64];
	memset(name, 'n', sizeof name);
	write_at(4096 + 64, name, sizeof name);
	inspect(path, &f);
	assert_int_equal(strncmp(f.signature, "spindle label nnnn", 18), 0);
}

/* --- signatures of others, by their own tools -------------------------------------------------------- */

static bool has_tool(const char *tool)
{
	char command[128];
	snprintf(command, sizeof command, "PATH=$PATH:/usr/sbin:/sbin command -v %s >/dev/null 2>&1", tool);
	return system(command) == 0;
}

static void run_tool(const char *format)
{
	char command[512] = "PATH=$PATH:/usr/sbin:/sbin; ";
	size_t used = strlen(command);
	snprintf(command + used, sizeof command - used, format, path);
	if (system(command) != 0)
		fail_msg("this failed: %s", command);
}

static void assert_signature(const char *tool, const char *command, uint64_t size, const char *signature)
{
	struct disk_facts f;
	if (!has_tool(tool))
		skip_without(tool, "not installed, so its signature was not tried");
	file_make(path, size, false);
	run_tool(command);
	uint64_t before = fingerprint(path);
	inspect(path, &f);
	assert_string_equal(f.signature, signature);
	assert_guard(&f, signature, true);
	assert_int_equal(fingerprint(path), before);
}

static void test_ext4(void **state)
{
	assert_signature("mkfs.ext4", "mkfs.ext4 -q -F %s", 32 * MiB, "ext4");
}
static void test_btrfs(void **state)
{
	assert_signature("mkfs.btrfs", "mkfs.btrfs -q %s >/dev/null 2>&1", 128 * MiB, "btrfs");
}
static void test_xfs(void **state)
{
	assert_signature("mkfs.xfs", "mkfs.xfs -q -f %s", 320 * MiB, "xfs");
}
static void test_swap(void **state)
{
	assert_signature("mkswap", "mkswap -q %s 2>/dev/null", 8 * MiB, "swap");
}

static void test_gpt(void **state)
{
	assert_signature("sgdisk", "sgdisk -n 1:2048:8191 %s >/dev/null", 8 * MiB, "gpt");
	/* its copy at the end alone is enough */
	static uint8_t zeros[64 * KiB];
	struct disk_facts f;
	write_at(0, zeros, sizeof zeros);
	inspect(path, &f);
	assert_false(f.empty);
	assert_int_equal(disk_guard(&f, false, NULL), ERR_REFUSED);
}

static void test_mbr(void **state)
{
	/* one Linux partition, sectors 2048 to 16383, and the mark of a boot sector */
	static const uint8_t entry[16] = {0, 0x20, 0x21, 0, 0x83, 1, 5, 4, 0, 8, 0, 0, 0, 0x38, 0, 0};
	struct disk_facts f;
	file_make(path, 8 * MiB, false);
	write_at(446, entry, sizeof entry);
	write_at(510, "\x55\xaa", 2);
	inspect(path, &f);
	assert_string_equal(f.signature, "dos");
	assert_guard(&f, "holds dos", true);
}

static void test_luks(void **state)
{
	/* cryptsetup where it is; else the header's first bytes by hand: magic, version 1, cipher … */
	struct disk_facts f;
	if (has_tool("cryptsetup")) {
		assert_signature("cryptsetup",
			"echo secret | cryptsetup -q luksFormat --type luks1 --pbkdf-force-iterations 1000 %s -",
			16 * MiB, "crypto_LUKS");
		return;
	}
	file_make(path, 16 * MiB, false);
	write_at(0, "LUKS\xba\xbe\0\1aes\0", 12);
	write_at(168, "6f1a3c1e-5b2d-4f3a-9c8b-7a6d5e4f3c2b", 37);
	inspect(path, &f);
	assert_string_equal(f.signature, "crypto_LUKS");
	assert_guard(&f, "crypto_LUKS", true);
}

/* The superblock of md as md.4 describes it: magic a92b4efc at 4096 (1.2) or 8 KiB before the end (1.0), with its
 * checksum. mdadm itself writes only to block devices. */
static void put_md_superblock(uint8_t sb[512], uint64_t at_sector, uint64_t sectors)
{
	memset(sb, 0, 512);
	put_le32(sb, 0xa92b4efc);
	put_le32(sb + 4, 1);
	memcpy(sb + 16, "0123456789abcdef", 16);
	memcpy(sb + 32, "host:tank", 9);
	put_le32(sb + 72, 5); /* level */
	put_le64(sb + 80, sectors);
	put_le32(sb + 92, 1); /* disks */
	put_le64(sb + 128, 2048);
	put_le64(sb + 136, sectors);
	put_le64(sb + 144, at_sector);
	uint64_t sum = 0;
	for (unsigned i = 0; i < 256 + 2; i += 4)
		sum += i + 4 <= 256 ? get_le32(sb + i) : get_le16(sb + i);
	put_le32(sb + 216, (uint32_t)((sum & 0xffffffff) + (sum >> 32)));
}

static void test_md_at_either_end(void **state)
{
	struct disk_facts f;
	uint8_t sb[512];
	const uint64_t size = 16 * MiB;
	const uint64_t places[] = {4096, 0, (size - 8192) & ~4095ull};
	for (size_t i = 0; i < array_count(places); i++) {
		file_make(path, size, false);
		put_md_superblock(sb, places[i] / 512, size / 512 - 4096);
		write_at(places[i], sb, sizeof sb);
		inspect(path, &f);
		assert_string_equal(f.signature, "mdraid");
		assert_int_equal(f.signature_offset_bytes, places[i]);
	}
	sb[216] ^= 0xff; /* a checksum that is wrong saves nobody */
	write_at(places[2], sb, sizeof sb);
	inspect(path, &f);
	assert_int_equal(disk_guard(&f, false, NULL), ERR_REFUSED);
}

static void test_two_signatures_are_ambivalent(void **state)
{
	struct disk_facts f;
	uint8_t sb[512];
	if (!has_tool("mkfs.ext4"))
		skip_without("mkfs.ext4", "not installed, so two signatures at once were not tried");
	file_make(path, 32 * MiB, false);
	run_tool("mkfs.ext4 -q -F %s");
	put_md_superblock(sb, (32 * MiB - 8192) / 512, 32 * MiB / 512 - 4096);
	write_at(32 * MiB - 8192, sb, sizeof sb);
	inspect(path, &f);
	assert_true(strcmp(f.signature, "ambivalent") == 0 || strcmp(f.signature, "mdraid") == 0);
	if (strcmp(f.signature, "ambivalent") == 0)
		assert_guard(&f, "several", true);
	assert_int_equal(disk_guard(&f, false, NULL), ERR_REFUSED);
}

/* Whatever lies in a file, looking at it ends with facts or a sentence. */
static void test_any_bytes_are_answered(void **state)
{
	struct random r;
	random_seed(&r, 31);
	static uint8_t block[256 * KiB];
	for (unsigned i = 0; i < 30; i++) {
		struct disk_facts f;
		file_make(path, 512 + random_below(&r, 4 * MiB), false);
		random_fill(&r, block, sizeof block);
		for (unsigned k = 0; k < 3; k++)
			write_at(random_below(&r, 4 * MiB), block, 512 + random_below(&r, sizeof block - 512));
		inspect(path, &f);
		assert_int_equal(disk_guard(&f, false, NULL), ERR_REFUSED);
		assert_int_equal(disk_guard(&f, true, NULL), 0);
	}
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_an_empty_file_is_free),
		T(test_any_content_is_seen_in_a_sparse_file),
		T(test_what_is_no_disk),
		T(test_a_link_is_the_same_disk),
		T(test_who_holds_a_file),
		T(test_labels_of_ours),
		T(test_ext4),
		T(test_btrfs),
		T(test_xfs),
		T(test_swap),
		T(test_gpt),
		T(test_mbr),
		T(test_luks),
		T(test_md_at_either_end),
		T(test_two_signatures_are_ambivalent),
		T(test_any_bytes_are_answered),
	};
	return cmocka_run_group_tests_name("disk facts", tests, NULL, NULL);
}
