/*
 * base: errors, growing text, sizes, random numbers, checksums.
 *
 * The problem: a failure deep in a disk must reach a person as one sentence that names the disk, the place and
 * what was found, while everything between only needs a number. The idea: functions return 0 or a negative code,
 * and the place that sees the failure first writes the sentence into an object of the caller:
 *
 *   main ── struct error e ──► array_read ──► disk_read ──► "sdb: read of 4096 bytes at 8192 failed: ..."
 *     ▲                            │              │
 *     └── prints e.text once ◄─────┴── code ◄─────┘
 *
 * Invariants
 *   BASE-1  The first sentence stays: error_set() on an object that holds one changes nothing.
 *   BASE-2  error_set() returns the code it was given, with or without an object.
 *   BASE-3  The text is always terminated and never longer than ERROR_TEXT_BYTES.
 *   BASE-4  Nothing here prints or exits, but for sp_assert, which means that this program is wrong.
 */
#include "base.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct code_entry {
	int code, status;
	const char *name, *sentence;
};

static const struct code_entry code_entries[] = {
#define X(name, value, status, sentence) {value, status, #name, sentence},
	ERROR_CODES(X)
#undef X
};

static const struct code_entry *code_find(int code)
{
	for (size_t i = 0; i < array_count(code_entries); i++)
		if (code_entries[i].code == code)
			return &code_entries[i];
	return NULL;
}

int error_set(struct error *err, int code, const char *format, ...)
{
	sp_assert(code < 0);
	if (!err || err->code)
		return code;
	err->code = code;
	va_list args;
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	return code;
}

void error_prefix(struct error *err, const char *format, ...)
{
	if (!err || !err->code)
		return;
	char context[ERROR_TEXT_BYTES];
	va_list args;
	va_start(args, format);
	vsnprintf(context, sizeof(context), format, args);
	va_end(args);
	/* What does not fit is cut at the end, so that both the context and the cause start readable. */
	char whole[2 * ERROR_TEXT_BYTES + 2];
	snprintf(whole, sizeof(whole), "%s: %s", context, err->text);
	whole[ERROR_TEXT_BYTES - 1] = '\0';
	memcpy(err->text, whole, ERROR_TEXT_BYTES);
}

void error_clear(struct error *err)
{
	if (!err)
		return;
	err->code = 0;
	err->text[0] = '\0';
}

const char *error_name(int code)
{
	const struct code_entry *entry = code_find(code);
	return entry ? entry->name : code == 0 ? "OK" : "ERR_UNKNOWN";
}

const char *error_sentence(int code)
{
	const struct code_entry *entry = code_find(code);
	return entry ? entry->sentence : code == 0 ? "nothing failed" : "an unknown failure";
}

int error_exit_status(int code)
{
	const struct code_entry *entry = code_find(code);
	return entry ? entry->status : code == 0 ? 0 : 1;
}

static const struct {
	int errno_value, code;
} errno_map[] = {
	{ENOMEM, ERR_MEMORY},
	/* Linux blk_status_to_errno(): a medium error is ENODATA, a checksum (protection) error EILSEQ. */
	{ENODATA, ERR_MEDIA},
	{EILSEQ, ERR_CORRUPT},
	{EBADMSG, ERR_CORRUPT},
	{EUCLEAN, ERR_CORRUPT},
	{ENODEV, ERR_GONE},
	{ENXIO, ERR_GONE},
	{ENOMEDIUM, ERR_GONE},
	{ENOLINK, ERR_GONE},
	{ESHUTDOWN, ERR_GONE},
	{ENOSPC, ERR_SPACE},
	{EDQUOT, ERR_SPACE},
	{EFBIG, ERR_SPACE},
	{ETIMEDOUT, ERR_TIMEOUT},
	{ETIME, ERR_TIMEOUT},
	{ENOENT, ERR_NOT_FOUND},
	{ENOTDIR, ERR_NOT_FOUND},
	{EEXIST, ERR_EXISTS},
	{EBUSY, ERR_BUSY},
	{EAGAIN, ERR_BUSY},
	{ETXTBSY, ERR_BUSY},
	{EROFS, ERR_READ_ONLY},
	{EACCES, ERR_REFUSED},
	{EPERM, ERR_REFUSED},
	{EISDIR, ERR_USAGE},
	{ENAMETOOLONG, ERR_USAGE},
	{ELOOP, ERR_USAGE},
	{EOPNOTSUPP, ERR_UNSUPPORTED},
	{ENOSYS, ERR_UNSUPPORTED},
	{ENOTTY, ERR_UNSUPPORTED},
	{EINVAL, ERR_UNSUPPORTED},
	{EINTR, ERR_INTERRUPTED},
	{ECANCELED, ERR_INTERRUPTED},
	{EBADF, ERR_BUG},
	{EFAULT, ERR_BUG},
};

int error_from_errno(int errno_value)
{
	if (errno_value == 0)
		return 0;
	for (size_t i = 0; i < array_count(errno_map); i++)
		if (errno_map[i].errno_value == errno_value)
			return errno_map[i].code;
	return ERR_IO;
}

_Noreturn void base__assert_failed(const char *condition, const char *file, int line)
{
	fprintf(stderr, "spindle: mistake in the program: %s:%d: %s does not hold\n", file, line, condition);
	abort();
}

void base__close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}
