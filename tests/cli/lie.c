/*
 * A target that lies, for tests: loaded before a program, it takes some of its calls and answers for the kernel.
 *   LIE=fsync   what is written stays in memory: a flush is acknowledged and not done
 *   LIE=zeros   a write of zeros is acknowledged and not done, as a target does that compresses
 */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#pragma GCC visibility push(default)

static int lies(const char *how)
{
	const char *asked = getenv("LIE");

	return asked && strcmp(asked, how) == 0;
}

int fsync(int fd)
{
	return lies("fsync") ? 0 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	return lies("fsync") ? 0 : (int)syscall(SYS_fdatasync, fd);
}

/* Built with 64-bit offsets like the program, so this is its pwrite64. */
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
	const char *b = bytes;

	if (lies("zeros") && length > 0 && b[0] == 0 && memcmp(b, b + 1, length - 1) == 0)
		return (ssize_t)length;
	return syscall(SYS_pwrite64, fd, bytes, length, offset);
}
