/* What only root can try: loop devices, mounts, swap, a file system without space. */
#include <errno.h>
#include <linux/blkpg.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>

#include "testing.h"

static char folder[64], path[128], mount_point[128], loop[64];
static struct error err;
static bool mounted;

static int setup(void **state)
{
	error_clear(&err);
	loop[0] = '\0';
	mounted = false;
	folder_make(folder, "/tmp");
	snprintf(path, sizeof path, "%s/disk", folder);
	snprintf(mount_point, sizeof mount_point, "%s/my mount", folder);
	assert_int_equal(mkdir(mount_point, 0700), 0);
	return 0;
}

static int run(const char *format, const char *a, const char *b)
{
	char command[512] = "PATH=$PATH:/usr/sbin:/sbin; ";
	size_t used = strlen(command);
	snprintf(command + used, sizeof command - used, format, a, b);
	return system(command);
}

static int teardown(void **state)
{
	if (mounted)
		umount2(mount_point, MNT_DETACH);
	if (loop[0])
		run("losetup -d %s", loop, "");
	folder_remove(folder);
	return 0;
}

static bool loop_make(const char *options)
{
	char command[256];
	snprintf(command, sizeof command, "PATH=$PATH:/usr/sbin:/sbin losetup --show -f %s '%s' 2>/dev/null", options,
		path);
	FILE *f = popen(command, "r");
	if (!f)
		return false;
	if (!fgets(loop, sizeof loop, f))
		loop[0] = '\0';
	loop[strcspn(loop, "\n")] = '\0';
	pclose(f);
	return loop[0] != '\0';
}

#define need_root()                                                                                                    \
	do {                                                                                                           \
		if (geteuid() != 0)                                                                                    \
			skip_without("root", "this test is not run as root");                                          \
	} while (0)
#define need_loop(options)                                                                                             \
	do {                                                                                                           \
		if (!loop_make(options))                                                                               \
			skip_without("loop", "no loop device can be set up here");                                     \
	} while (0)

static int try_open(const char *where, struct disk_open_options o, struct disk **ret)
{
	struct disk_spec spec = {.text = (char *)where, .name = (char *)where, .path = (char *)where};
	error_clear(&err);
	return disk_open(&spec, &o, ret, &err);
}

static void inspect(const char *of, struct disk_facts *f)
{
	error_clear(&err);
	assert_ok(disk_inspect(of, f, &err), &err);
}

static void assert_refused(const struct disk_facts *f, const char *says)
{
	for (unsigned forced = 0; forced < 2; forced++) {
		error_clear(&err);
		assert_int_equal(disk_guard(f, forced, &err), ERR_REFUSED);
		if (!strstr(err.text, says))
			fail_msg("%s; expected in it: %s", err.text, says);
	}
	error_clear(&err);
}

/* --- a full file system ------------------------------------------------------------------------------ */

static void test_no_space(void **state)
{
	need_root();
	if (mount("none", mount_point, "tmpfs", 0, "size=1m") != 0)
		skip_without("root", "a tmpfs cannot be mounted here");
	mounted = true;
	char file[192];
	snprintf(file, sizeof file, "%s/disk", mount_point);
	file_make(file, 8 * MiB, false); /* sparse: more than there is */
	uint8_t *buffer = aligned(256 * KiB);
	static const enum disk_engine engines[] = {DISK_ENGINE_URING, DISK_ENGINE_THREADS};
	for (size_t e = 0; e < array_count(engines); e++) {
		struct disk *d;
		int rc = try_open(file, (struct disk_open_options){.engine = engines[e]}, &d);
		if (rc == ERR_UNSUPPORTED)
			continue;
		assert_ok(rc, &err);
		unsigned failures = 0;
		for (unsigned i = 0; i < 32; i++) {
			rc = disk_write(d, i * 256ull * KiB, buffer, 256 * KiB, &err);
			assert_true(rc == 0 || rc == ERR_SPACE);
			failures += rc != 0;
		}
		assert_true(failures >= 28 && failures < 32);
		assert_non_null(strstr(err.text, "no space"));
		error_clear(&err);
		assert_ok(disk_read(d, 0, buffer, 4096, &err), &err);
		disk_close(d);
	}
	free(buffer);
}

/* --- loop devices ------------------------------------------------------------------------------------ */

static void test_a_block_device(void **state)
{
	need_root();
	file_make(path, 16 * MiB, false);
	need_loop("");
	uint8_t *out = aligned(256 * KiB), *in = aligned(256 * KiB + 4096);
	for (unsigned e = DISK_ENGINE_AUTO; e <= DISK_ENGINE_THREADS; e++) {
		struct disk *d;
		int rc = try_open(loop, (struct disk_open_options){.exclusive = true, .engine = e}, &d);
		if (rc == ERR_UNSUPPORTED && e == DISK_ENGINE_URING)
			continue;
		assert_ok(rc, &err);
		const struct disk_traits *t = disk_traits(d);
		assert_true(t->is_block_device && t->size_bytes == 16 * MiB && t->logical_bytes == 512 && !t->rotating);
		assert_int_equal(strncmp(t->model, "loop of /tmp/", 13), 0);
		assert_false(t->direct); /* the file behind it is cached, and it says so */
		assert_non_null(strstr(t->note, "loop"));
		fill(out, 256 * KiB, e + 1);
		assert_ok(disk_write(d, 512, out, 256 * KiB, &err), &err);
		assert_ok(disk_flush(d, &err), &err);
		assert_ok(disk_read(d, 512, in + 1, 256 * KiB, &err), &err); /* and from unaligned memory */
		assert_memory_equal(in + 1, out, 256 * KiB);
		rc = disk_discard(d, MiB, MiB, &err);
		assert_true(rc == 0 || rc == ERR_UNSUPPORTED);
		error_clear(&err);

		struct disk *second;
		assert_int_equal(try_open(loop, (struct disk_open_options){.exclusive = true}, &second), ERR_BUSY);
		struct disk_facts f;
		inspect(loop, &f);
		assert_refused(&f, "open exclusively elsewhere");
		disk_close(d);
	}
	free(out);
	free(in);
}

static void test_a_loop_device_with_direct_io(void **state)
{
	need_root();
	file_make(path, 16 * MiB, true);
	need_loop("--direct-io=on");
	struct disk *d;
	assert_ok(try_open(loop, (struct disk_open_options){0}, &d), &err);
	if (strstr(disk_traits(d)->note, "loop"))
		skip_without("direct loop", "the file system of /tmp has no direct I/O");
	assert_true(disk_traits(d)->direct);
	assert_string_equal(disk_traits(d)->note, "");
	disk_close(d);
}

static void test_a_device_and_its_file(void **state)
{
	need_root();
	struct disk_facts f;
	file_make(path, 16 * MiB, false);
	need_loop("");
	inspect(loop, &f);
	assert_true(f.is_block_device && f.exists && f.empty);
	assert_string_equal(f.in_use, "");
	assert_string_equal(f.signature, "");
	assert_string_equal(f.transport, "loop");
	assert_ok(disk_guard(&f, false, &err), &err);
	inspect(path, &f);
	assert_refused(&f, loop);
}

static void test_mounted_things(void **state)
{
	need_root();
	struct disk_facts f;
	file_make(path, 32 * MiB, false);
	if (run("mkfs.ext4 -q -F '%s'%s", path, "") != 0)
		skip_without("mkfs.ext4", "not installed, so a mounted disk was not tried");
	need_loop("");
	inspect(loop, &f);
	assert_string_equal(f.signature, "ext4");
	if (mount(loop, mount_point, "ext4", 0, NULL) != 0)
		skip_without("root", "ext4 cannot be mounted here");
	mounted = true;
	inspect(loop, &f);
	assert_refused(&f, "mounted on ");
	assert_non_null(strstr(f.in_use, "/my mount"));
	inspect(path, &f);
	assert_refused(&f, "mounted on ");
	assert_non_null(strstr(f.in_use, "the file behind /dev/loop"));
	struct disk *d;
	assert_int_equal(try_open(loop, (struct disk_open_options){.exclusive = true}, &d), ERR_BUSY);
	assert_non_null(strstr(err.text, "mounted on"));
}

static void add_partition(void)
{
	struct blkpg_partition p = {.start = MiB, .length = 40 * MiB, .pno = 1};
	struct blkpg_ioctl_arg arg = {.op = BLKPG_ADD_PARTITION, .datalen = sizeof p, .data = &p};
	int fd = open(loop, O_RDONLY);
	assert_true(fd >= 0);
	if (ioctl(fd, BLKPG, &arg) != 0)
		printf("BLKPG: %s\n", strerror(errno));
	close(fd);
}

static void test_partitions_of_a_disk(void **state)
{
	need_root();
	struct disk_facts f;
	char part[80];
	file_make(path, 64 * MiB, false);
	if (run("sgdisk -n 1:2048:100000 '%s' >/dev/null 2>&1%s", path, "") != 0)
		skip_without("sgdisk", "not installed, so a mounted partition was not tried");
	need_loop("-P");
	snprintf(part, sizeof part, "%sp1", loop);
	inspect(loop, &f);
	assert_string_equal(f.signature, "gpt");
	if (access(part, F_OK) != 0)
		add_partition(); /* the kernel may know nothing of GPT */
	for (unsigned i = 0; i < 50 && access(part, F_OK) != 0; i++)
		os_sleep_ns(20000000);
	if (access(part, F_OK) != 0 || run("mkfs.ext4 -q -F %s%s", part, "") != 0)
		skip_without("loop partitions", "none can be made here");
	if (mount(part, mount_point, "ext4", 0, NULL) != 0)
		skip_without("root", "ext4 cannot be mounted here");
	mounted = true;
	inspect(part, &f);
	assert_refused(&f, "mounted on ");
	inspect(loop, &f);
	assert_refused(&f, "mounted on ");
}

static void test_swap_in_use(void **state)
{
	need_root();
	struct disk_facts f;
	file_make(path, 8 * MiB, false);
	if (run("mkswap -q '%s' 2>/dev/null%s", path, "") != 0)
		skip_without("mkswap", "not installed, so swap in use was not tried");
	need_loop("");
	if (swapon(loop, 0) != 0)
		skip_without("root", "swap cannot be switched on here");
	inspect(loop, &f);
	struct disk_facts of_file = {0};
	inspect(path, &of_file);
	assert_int_equal(swapoff(loop), 0);
	assert_refused(&f, "swap");
	assert_refused(&of_file, "swap through the file behind");
}

static void test_the_disk_of_the_root(void **state)
{
	need_root();
	struct stat st;
	struct disk_facts f;
	char node[64] = "";
	FILE *mounts = fopen("/proc/self/mounts", "r");
	char source[256], point[256];
	while (mounts && fscanf(mounts, "%255s %255s %*[^\n]", source, point) == 2)
		if (strcmp(point, "/") == 0 && stat(source, &st) == 0 && S_ISBLK(st.st_mode))
			snprintf(node, sizeof node, "%.63s", source);
	if (mounts)
		fclose(mounts);
	if (!node[0]) {
		printf("SKIP: the root file system lies on no block device\n");
		skip();
	}
	inspect(node, &f); /* even where it cannot be opened for reading */
	assert_refused(&f, "mounted on /");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_no_space),
		T(test_a_block_device),
		T(test_a_loop_device_with_direct_io),
		T(test_a_device_and_its_file),
		T(test_mounted_things),
		T(test_partitions_of_a_disk),
		T(test_swap_in_use),
		T(test_the_disk_of_the_root),
	};
	return cmocka_run_group_tests_name("disk as root", tests, NULL, NULL);
}
