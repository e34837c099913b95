/* What the tests of disks share. */
#ifndef DISK_TESTING_H
#define DISK_TESTING_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "disk.h"

#define KiB 1024u
#define MiB (1024u * 1024)

#define assert_ok(call, err)                                                                                           \
	do {                                                                                                           \
		int rc_ = (call);                                                                                      \
		if (rc_ != 0)                                                                                          \
			fail_msg("%s: %s (%s)", #call, error_name(rc_), (err)->text);                                  \
	} while (0)

static inline void fill(uint8_t *p, size_t bytes, uint64_t seed)
{
	struct random r;
	random_seed(&r, seed);
	random_fill(&r, p, bytes);
}

static inline uint8_t *aligned(size_t bytes)
{
	void *p = NULL;
	assert_int_equal(posix_memalign(&p, DISK_BUFFER_ALIGN, bytes), 0);
	memset(p, 0, bytes);
	return p;
}

/* Opens the one disk that a word of the grammar names. */
static inline struct disk *open_word(const char *word, const struct disk_open_options *o)
{
	struct disk_specs specs = {0};
	struct error err = ERROR_INIT;
	struct disk *d = NULL;
	assert_ok(disk_specs_add(&specs, word, &err), &err);
	assert_int_equal(specs.count, 1);
	assert_ok(disk_open(&specs.items[0], o, &d, &err), &err);
	disk_specs_release(&specs);
	return d;
}

/* Whether REQUIRE=root,loop names it. */
static inline bool is_required(const char *what)
{
	const char *list = getenv("REQUIRE");
	size_t length = strlen(what);
	for (const char *p = list; p && *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ','))
		if (strncmp(p, what, length) == 0 && (p[length] == ',' || p[length] == '\0'))
			return true;
	return false;
}

/* Skips this case aloud, or fails it when REQUIRE names the thing that is missing. */
#define skip_without(what, reason)                                                                                     \
	do {                                                                                                           \
		if (is_required(what))                                                                                 \
			fail_msg("REQUIRE names %s, but %s", what, reason);                                            \
		printf("SKIP: %s: %s\n", what, reason);                                                                \
		fflush(stdout);                                                                                        \
		skip();                                                                                                \
	} while (0)

/* A folder that is gone after the test, in a place whose file system matters. */
static inline void folder_make(char path[64], const char *parent)
{
	snprintf(path, 64, "%s/t-disk-XXXXXX", parent);
	if (!mkdtemp(path))
		fail_msg("%s: no folder can be made there", parent);
}
static inline void folder_remove(const char *path)
{
	char command[128];
	snprintf(command, sizeof command, "rm -rf '%s'", path);
	assert_int_equal(system(command), 0);
}

/* A file of that size, as a hole or as written bytes. */
static inline void file_make(const char *path, uint64_t bytes, bool written)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	uint8_t block[4096];
	fill(block, sizeof block, bytes);
	for (uint64_t at = 0; written && at < bytes; at += sizeof block)
		assert_int_equal(pwrite(fd, block, sizeof block, (off_t)at), sizeof block);
	close(fd);
}

#endif
