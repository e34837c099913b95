#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "stream.h"

int stream_put(const uint8_t *bytes, size_t count, struct error *err)
{
	while (count) {
		ssize_t done = write(STDOUT_FILENO, bytes, count);

		if (done < 0 && errno == EINTR && !os_interrupted())
			continue;
		if (done < 0)
			return error_set(err, os_interrupted() ? ERR_INTERRUPTED : ERR_IO,
				"cannot write to standard output: %s", strerror(errno));
		bytes += done;
		count -= (size_t)done;
	}
	return 0;
}

int stream_take(uint8_t *to, uint64_t want, uint64_t *ret_got, struct error *err)
{
	uint64_t got = 0;

	while (got < want) {
		ssize_t done = read(STDIN_FILENO, to + got, want - got);

		if (done < 0 && errno == EINTR && !os_interrupted())
			continue;
		if (os_interrupted())
			return error_set(err, ERR_INTERRUPTED, "interrupted while reading standard input");
		if (done < 0)
			return error_set(err, ERR_IO, "cannot read standard input: %s", strerror(errno));
		if (done == 0)
			break;
		got += (uint64_t)done;
	}
	*ret_got = got;
	return 0;
}
