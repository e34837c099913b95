/* Files through every engine, direct and not, from aligned memory and not: the bytes are right and the traits true. */
#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "testing.h"

/* What the system is made to answer, see the link arguments. meson asks for 64-bit offsets, hence pread64. */
static bool plant_pread_einval, plant_ring_eperm;
static int plant_mincore = -1; /* else counts up: first not resident, then resident */

ssize_t __real_pread64(int fd, void *buffer, size_t bytes, off_t at);
ssize_t __wrap_pread64(int fd, void *buffer, size_t bytes, off_t at);
ssize_t __wrap_pread64(int fd, void *buffer, size_t bytes, off_t at)
{
	if (plant_pread_einval && (fcntl(fd, F_GETFL) & O_DIRECT)) {
		errno = EINVAL;
		return -1;
	}
	return __real_pread64(fd, buffer, bytes, at);
}

int __real_mincore(void *at, size_t bytes, unsigned char *ret);
int __wrap_mincore(void *at, size_t bytes, unsigned char *ret);
int __wrap_mincore(void *at, size_t bytes, unsigned char *ret)
{
	int rc = __real_mincore(at, bytes, ret);
	if (plant_mincore >= 0)
		ret[0] = (unsigned char)(plant_mincore++ > 0);
	return rc;
}

struct io_uring;
struct io_uring_params;
int __real_io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *p);
int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *p);
int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *p)
{
	return plant_ring_eperm ? -EPERM : __real_io_uring_queue_init_params(entries, ring, p);
}

static char folder[64], shm_folder[64], path[128], shm_path[128];
static struct error err;
static bool ring_here;

static bool is_tmpfs(const char *where)
{
	struct statfs fs;
	return statfs(where, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

static int setup(void **state)
{
	error_clear(&err);
	folder_make(folder, "/tmp");
	folder_make(shm_folder, is_tmpfs("/dev/shm") ? "/dev/shm" : "/tmp");
	snprintf(path, sizeof path, "%s/file", folder);
	snprintf(shm_path, sizeof shm_path, "%s/file", shm_folder);
	file_make(path, 8 * MiB, true);
	file_make(shm_path, 8 * MiB, true);
	struct disk_open_options o = {.engine = DISK_ENGINE_URING};
	struct disk_spec spec = {.text = path, .name = path, .path = path};
	struct disk *d;
	ring_here = disk_open(&spec, &o, &d, NULL) == 0;
	if (ring_here)
		disk_close(d);
	return 0;
}

static int teardown(void **state)
{
	plant_pread_einval = plant_ring_eperm = false;
	plant_mincore = -1;
	folder_remove(folder);
	folder_remove(shm_folder);
	return 0;
}

static int try_open(const char *where, const struct disk_open_options *o, struct disk **ret)
{
	struct disk_spec spec = {.text = (char *)where, .name = (char *)where, .path = (char *)where};
	error_clear(&err);
	return disk_open(&spec, o, ret, &err);
}

static struct disk *open_with(const char *where, struct disk_open_options o)
{
	struct disk *d = NULL;
	assert_ok(try_open(where, &o, &d), &err);
	return d;
}

/* --- the same random work against every way of doing it ---------------------------------------------- */

#define SPAN (2 * MiB)

static int submit_and_wait(struct disk *d, enum disk_op op, uint64_t at, const struct iovec *iov, unsigned count)
{
	struct disk_request r;
	struct disk_queue *q = disk_queue_of_thread(NULL);
	disk_request_init_iov(&r, op, at, iov, count);
	disk_queue_submit(q, d, &r);
	assert_ptr_equal(disk_queue_reap(q, UINT64_MAX), &r);
	return r.status;
}

static void random_work(struct disk *d, uint64_t seed, unsigned steps)
{
	uint32_t sector = disk_traits(d)->logical_bytes;
	uint8_t *model = aligned(SPAN), *memory = aligned(SPAN + 64 * KiB);
	struct random r;
	random_seed(&r, seed);
	assert_ok(disk_read(d, 0, model, SPAN, &err), &err);
	for (unsigned i = 0; i < steps; i++) {
		uint64_t at = random_below(&r, SPAN / sector) * sector;
		uint64_t most = min_of((uint64_t)SPAN - at, (uint64_t)(i % 16 ? 32 * KiB : 1 * MiB));
		uint64_t length = max_of(random_below(&r, most / sector + 1) * sector, (uint64_t)sector);
		/* every second buffer is not aligned, and some are cut in two */
		uint8_t *buffer = memory + (i % 2 ? random_below(&r, 4096) : 0);
		uint64_t cut = i % 3 == 0 ? length / sector / 2 * sector : 0;
		struct iovec iov[2] = {{buffer, length}, {NULL, 0}};
		if (cut) {
			iov[0] = (struct iovec){buffer, cut};
			iov[1] = (struct iovec){buffer + cut + 4096, length - cut};
		}
		if (random_below(&r, 2)) {
			random_fill(&r, iov[0].iov_base, iov[0].iov_len);
			memcpy(model + at, iov[0].iov_base, iov[0].iov_len);
			if (cut) {
				random_fill(&r, iov[1].iov_base, iov[1].iov_len);
				memcpy(model + at + cut, iov[1].iov_base, iov[1].iov_len);
			}
			assert_int_equal(submit_and_wait(d, DISK_WRITE, at, iov, cut ? 2 : 1), 0);
		} else {
			assert_int_equal(submit_and_wait(d, DISK_READ, at, iov, cut ? 2 : 1), 0);
			assert_memory_equal(iov[0].iov_base, model + at, iov[0].iov_len);
			if (cut)
				assert_memory_equal(iov[1].iov_base, model + at + cut, iov[1].iov_len);
		}
	}
	assert_ok(disk_flush(d, &err), &err);
	assert_ok(disk_discard(d, 64 * KiB, 128 * KiB, &err), &err);
	memset(model + 64 * KiB, 0, 128 * KiB);
	assert_ok(disk_read(d, 0, memory + 1, SPAN, &err), &err);
	assert_memory_equal(memory + 1, model, SPAN);
	free(model);
	free(memory);
}

static void test_bytes_are_right_every_way(void **state)
{
	const char *const places[] = {path, shm_path};
	static const enum disk_engine engines[] = {DISK_ENGINE_AUTO, DISK_ENGINE_URING, DISK_ENGINE_THREADS};
	for (size_t p = 0; p < array_count(places); p++)
		for (size_t e = 0; e < array_count(engines); e++)
			for (unsigned buffered = 0; buffered < 2; buffered++) {
				if (engines[e] == DISK_ENGINE_URING && !ring_here)
					continue;
				struct disk_open_options o = {
					.engine = engines[e], .buffered = buffered, .exclusive = buffered};
				struct disk *d = open_with(places[p], o);
				if (engines[e] != DISK_ENGINE_AUTO)
					assert_string_equal(disk_traits(d)->engine,
						engines[e] == DISK_ENGINE_URING ? "io_uring" : "threads");
				random_work(d, p * 10 + e * 2 + buffered, 150);
				disk_close(d);
			}
}

static int in_simulated_world(void *arg)
{
	struct disk *d = open_with(path, (struct disk_open_options){0});
	assert_string_equal(disk_traits(d)->engine, "inline");
	random_work(d, 99, 60);
	disk_close(d);
	struct disk *none;
	assert_int_equal(
		try_open(path, &(struct disk_open_options){.engine = DISK_ENGINE_URING}, &none), ERR_UNSUPPORTED);
	return 0;
}

static void test_simulated_world_uses_no_ring(void **state)
{
	struct os_simulation s;
	os_simulation_init(&s, 2);
	plant_ring_eperm = true;
	assert_ok(os_simulate(&s, in_simulated_world, NULL, &err), &err);
}

static void test_many_small_buffers_in_one_request(void **state)
{
	enum { COUNT = 1500 };
	static struct iovec iov[COUNT];
	uint8_t *memory = aligned(COUNT * 1024), *back = aligned(COUNT * 512);
	fill(memory, COUNT * 1024, 3);
	for (unsigned i = 0; i < COUNT; i++)
		iov[i] = (struct iovec){memory + i * 1024, 512};
	for (unsigned e = DISK_ENGINE_AUTO; e <= DISK_ENGINE_THREADS; e++)
		for (unsigned buffered = 0; buffered < 2; buffered++) {
			if (e == DISK_ENGINE_URING && !ring_here)
				continue;
			struct disk *d = open_with(path, (struct disk_open_options){.engine = e, .buffered = buffered});
			if (disk_traits(d)->logical_bytes == 512) {
				assert_int_equal(submit_and_wait(d, DISK_WRITE, 512, iov, COUNT), 0);
				assert_ok(disk_read(d, 512, back, COUNT * 512, &err), &err);
				for (unsigned i = 0; i < COUNT; i++)
					assert_memory_equal(back + i * 512, memory + i * 1024, 512);
			}
			disk_close(d);
		}
	free(memory);
	free(back);
}

/* --- depth ------------------------------------------------------------------------------------------- */

static void deep(struct disk *d, unsigned count)
{
	struct disk_request *r = calloc(count, sizeof *r);
	uint8_t *out = aligned(count * 4096), *in = aligned(count * 4096);
	struct disk_queue *q;
	assert_ok(disk_queue_open(&q, &err), &err);
	fill(out, count * 4096, count);
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < count; i++) {
			disk_request_init(
				&r[i], pass ? DISK_READ : DISK_WRITE, i * 4096, (pass ? in : out) + i * 4096, 4096);
			r[i].owner = NULL;
			disk_queue_submit(q, d, &r[i]);
		}
		for (unsigned i = 0; i < count; i++) {
			struct disk_request *done = disk_queue_reap(q, UINT64_MAX);
			assert_non_null(done);
			assert_null(done->owner);
			done->owner = done;
			assert_int_equal(done->status, 0);
		}
		assert_null(disk_queue_reap(q, UINT64_MAX));
	}
	assert_memory_equal(in, out, count * 4096);
	disk_queue_close(q);
	free(r);
	free(out);
	free(in);
}

static void test_more_in_flight_than_the_ring_holds(void **state)
{
	for (unsigned e = DISK_ENGINE_AUTO; e <= DISK_ENGINE_THREADS; e++) {
		if (e == DISK_ENGINE_URING && !ring_here)
			continue;
		struct disk *d = open_with(path, (struct disk_open_options){.engine = e});
		deep(d, 1500);
		disk_close(d);
	}
}

/* A queue with requests in the ring and elsewhere waits for both; a deadline holds for both. */
static void test_ring_and_timers_in_one_queue(void **state)
{
	struct disk *file = open_with(path, (struct disk_open_options){0});
	struct disk *slow = open_word("mem:1MiB+fault=slow,ms=30", NULL);
	char word[192];
	snprintf(word, sizeof word, "%s+fault=slow,ms=20", path);
	struct disk *late = open_word(word, NULL); /* through the ring first, then on a timer */
	struct disk_queue *q;
	struct disk_request r[3];
	uint8_t *buffer = aligned(3 * 4096);
	assert_ok(disk_queue_open(&q, &err), &err);
	struct disk *disks[3] = {slow, late, file};
	uint64_t from = os_now_ns();
	for (unsigned i = 0; i < 3; i++) {
		disk_request_init(&r[i], DISK_READ, 0, buffer + i * 4096, 4096);
		disk_queue_submit(q, disks[i], &r[i]);
	}
	assert_ptr_equal(disk_queue_reap(q, UINT64_MAX), &r[2]);
	assert_null(disk_queue_reap(q, from + 10000000));
	assert_ptr_equal(disk_queue_reap(q, UINT64_MAX), &r[1]);
	assert_ptr_equal(disk_queue_reap(q, UINT64_MAX), &r[0]);
	uint64_t took = os_now_ns() - from;
	assert_true(took >= 30000000 && took < 500000000);
	for (unsigned i = 0; i < 3; i++)
		disk_close(disks[i]);
	disk_queue_close(q);
	free(buffer);
}

/* --- what the traits say ----------------------------------------------------------------------------- */

static void test_direct_is_proved(void **state)
{
	struct disk *d = open_with(path, (struct disk_open_options){0});
	const struct disk_traits *t = disk_traits(d);
	assert_int_equal(t->size_bytes, 8 * MiB);
	assert_true(t->needs_flush && !t->is_block_device && !t->is_memory);
	assert_string_equal(t->path, path);
	if (is_tmpfs("/tmp"))
		assert_non_null(strstr(t->note, "tmpfs"));
	assert_true(t->direct == (strstr(t->note, "buffered") == NULL));
	bool direct = t->direct;
	disk_close(d);

	d = open_with(path, (struct disk_open_options){.buffered = true});
	assert_false(disk_traits(d)->direct);
	assert_non_null(strstr(disk_traits(d)->note, "as asked"));
	disk_close(d);
	if (!direct)
		skip_without("direct I/O", "the file system of /tmp has none");

	/* accepted at open, refused at the transfer */
	plant_pread_einval = true;
	d = open_with(path, (struct disk_open_options){0});
	assert_false(disk_traits(d)->direct);
	assert_non_null(strstr(disk_traits(d)->note, "accepted at open, but a read gives \"Invalid argument\""));
	random_work(d, 5, 20);
	disk_close(d);
	plant_pread_einval = false;

	/* accepted everywhere, and served from the page cache all the same */
	plant_mincore = 0;
	d = open_with(path, (struct disk_open_options){0});
	assert_false(disk_traits(d)->direct);
	assert_non_null(strstr(disk_traits(d)->note, "through the page cache"));
	disk_close(d);
}

static void test_tmpfs_is_never_direct(void **state)
{
	if (!is_tmpfs(shm_path))
		skip_without("tmpfs", "/dev/shm is none");
	struct disk *d = open_with(shm_path, (struct disk_open_options){0});
	assert_false(disk_traits(d)->direct);
	assert_string_equal(disk_traits(d)->engine, "threads");
	assert_non_null(strstr(disk_traits(d)->note, "tmpfs"));
	assert_non_null(strstr(disk_traits(d)->note, "threads are cheaper"));
	disk_close(d);
}

static void test_without_io_uring(void **state)
{
	struct disk *d;
	plant_ring_eperm = true;
	assert_int_equal(try_open(path, &(struct disk_open_options){.engine = DISK_ENGINE_URING}, &d), ERR_UNSUPPORTED);
	assert_non_null(strstr(err.text, "io_uring is forbidden here"));
	d = open_with(path, (struct disk_open_options){0});
	assert_string_equal(disk_traits(d)->engine, "threads");
	assert_non_null(strstr(disk_traits(d)->note, is_tmpfs("/tmp") ? "tmpfs" : "io_uring is forbidden here"));
	random_work(d, 6, 20);
	disk_close(d);
	plant_ring_eperm = false;
	if (!ring_here)
		return;
	/* possible at open, and then no ring for this thread: done in place */
	d = open_with(path, (struct disk_open_options){.engine = DISK_ENGINE_URING});
	plant_ring_eperm = true;
	deep(d, 20);
	disk_close(d);
}

/* --- trouble ----------------------------------------------------------------------------------------- */

static void test_a_file_that_shrinks(void **state)
{
	uint8_t *buffer = aligned(64 * KiB);
	for (unsigned e = DISK_ENGINE_URING; e <= DISK_ENGINE_THREADS; e++)
		for (unsigned buffered = 0; buffered < 2; buffered++)
			for (unsigned to = 0; to < 2; to++) {
				if (e == DISK_ENGINE_URING && !ring_here)
					continue;
				file_make(path, 8 * MiB, true);
				struct disk *d =
					open_with(path, (struct disk_open_options){.engine = e, .buffered = buffered});
				assert_ok(disk_read(d, MiB, buffer, 64 * KiB, &err), &err);
				assert_int_equal(truncate(path, to ? MiB + 5000 : MiB), 0);
				assert_int_equal(disk_read(d, MiB, buffer, 64 * KiB, &err), ERR_IO);
				assert_non_null(strstr(err.text, "shrank"));
				error_clear(&err);
				assert_int_equal(disk_read(d, 4 * MiB, buffer, 4096, &err), ERR_IO);
				assert_non_null(strstr(err.text, "shrank"));
				error_clear(&err);
				assert_ok(disk_read(d, MiB - 64 * KiB, buffer, 64 * KiB, &err), &err);
				disk_close(d);
			}
	free(buffer);
}

static void assert_not_opened(const char *where, int code, const char *says)
{
	struct disk *d = NULL;
	assert_int_equal(try_open(where, NULL, &d), code);
	assert_null(d);
	if (!strstr(err.text, says) || !strstr(err.text, where))
		fail_msg("%s: %s", where, err.text);
}

static void test_what_is_no_disk(void **state)
{
	char other[128];
	snprintf(other, sizeof other, "%s/other", folder);
	assert_not_opened(other, ERR_NOT_FOUND, "No such file");
	assert_not_opened(folder, ERR_UNSUPPORTED, "a directory");
	assert_not_opened("/dev/null", ERR_UNSUPPORTED, "a character device");
	assert_int_equal(mkfifo(other, 0600), 0);
	assert_not_opened(other, ERR_UNSUPPORTED, "a FIFO");
	unlink(other);
	file_make(other, 0, false);
	assert_not_opened(other, ERR_TOO_SMALL, "no sector");
	file_make(other, 100, false);
	assert_not_opened(other, ERR_TOO_SMALL, "100 bytes long");
	file_make(other, 1000000, false);
	struct disk *d = open_with(other, (struct disk_open_options){0});
	assert_int_equal(
		disk_traits(d)->size_bytes, 1000000 / disk_traits(d)->logical_bytes * disk_traits(d)->logical_bytes);
	disk_close(d);
}

static void test_exclusive_means_one(void **state)
{
	struct disk *d = open_with(path, (struct disk_open_options){.exclusive = true});
	struct disk *second = NULL;
	char pid[32];
	assert_int_equal(try_open(path, &(struct disk_open_options){.exclusive = true}, &second), ERR_BUSY);
	snprintf(pid, sizeof pid, "process %d", getpid());
	if (!strstr(err.text, pid))
		fail_msg("it does not name the holder: %s", err.text);
	second = open_with(path, (struct disk_open_options){0}); /* who does not ask for it may share */
	disk_close(second);
	disk_close(d);
	d = open_with(path, (struct disk_open_options){.exclusive = true});
	disk_close(d);
}

static void test_read_only(void **state)
{
	uint8_t *buffer = aligned(4096);
	assert_int_equal(chmod(path, 0400), 0);
	struct disk *d = open_with(path, (struct disk_open_options){.read_only = true, .exclusive = true});
	assert_true(disk_traits(d)->read_only);
	assert_int_equal(disk_write(d, 0, buffer, 4096, NULL), ERR_READ_ONLY);
	assert_ok(disk_read(d, 0, buffer, 4096, &err), &err);
	assert_ok(disk_flush(d, &err), &err);
	disk_close(d);
	free(buffer);
}

/* No space: the file system is made too small by a limit of the process, which SIGXFSZ would tell; a hole in a full
 * tmpfs is tried in t_disk_root.c. Here: a wrapper over the real file, so that layers and the ring meet. */
static void test_wrappers_over_a_file(void **state)
{
	char word[256];
	uint8_t *out = aligned(8192), *in = aligned(8192);
	snprintf(word, sizeof word, "%s+fault=rot,offset=100,nth=1+fault=eio,op=write,nth=2+trace=%s/trace", path,
		folder);
	struct disk *d = open_word(word, &(struct disk_open_options){.exclusive = true});
	fill(out, 8192, 8);
	assert_string_equal(disk_traits(d)->name, path);
	assert_string_equal(disk_traits(d)->spec, word);
	assert_int_equal(disk_write(d, 0, out, 8192, NULL), 0);
	assert_int_equal(disk_write(d, 0, out, 8192, NULL), ERR_IO);
	assert_int_equal(disk_read(d, 0, in, 8192, NULL), 0);
	assert_int_equal(in[100] ^ out[100], 1);
	in[100] ^= 1;
	assert_memory_equal(in, out, 8192);
	disk_close(d);
	free(out);
	free(in);
}

static unsigned count_open_files(void)
{
	unsigned count = 0;
	DIR *d = opendir("/proc/self/fd");
	assert_non_null(d);
	while (readdir(d))
		count++;
	closedir(d);
	return count;
}

static void test_close_leaves_nothing_open(void **state)
{
	struct disk *d;
	uint8_t *buffer = aligned(4096);
	disk_queue_of_thread(NULL);
	d = open_with(path, (struct disk_open_options){0});
	assert_ok(disk_read(d, 0, buffer, 4096, &err), &err); /* this thread's ring is open from now on */
	disk_close(d);
	unsigned before = count_open_files();
	for (unsigned e = DISK_ENGINE_AUTO; e <= DISK_ENGINE_THREADS; e++) {
		if (e == DISK_ENGINE_URING && !ring_here)
			continue;
		d = open_with(path, (struct disk_open_options){.engine = e});
		assert_ok(disk_read(d, 0, buffer, 4096, &err), &err);
		disk_close(d);
		try_open(folder, NULL, &d);
		try_open("/dev/null", NULL, &d);
	}
	d = open_with(path, (struct disk_open_options){.exclusive = true});
	struct disk *second;
	assert_int_equal(try_open(path, &(struct disk_open_options){.exclusive = true}, &second), ERR_BUSY);
	disk_close(d);
	assert_int_equal(count_open_files(), before);
	free(buffer);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_bytes_are_right_every_way),
		T(test_simulated_world_uses_no_ring),
		T(test_many_small_buffers_in_one_request),
		T(test_more_in_flight_than_the_ring_holds),
		T(test_ring_and_timers_in_one_queue),
		T(test_direct_is_proved),
		T(test_tmpfs_is_never_direct),
		T(test_without_io_uring),
		T(test_a_file_that_shrinks),
		T(test_what_is_no_disk),
		T(test_exclusive_means_one),
		T(test_read_only),
		T(test_wrappers_over_a_file),
		T(test_close_leaves_nothing_open),
	};
	return cmocka_run_group_tests_name("disk file", tests, NULL, NULL);
}
