/*
 * base: what every other part stands on. May use libc, xxhash and ISA-L's CRC; knows no other part.
 *
 * Errors. A function that can fail returns 0 or a negative code from the list below and, where the
 * failure is first seen, writes one sentence into the caller's `struct error`. Callers further up
 * pass the code on and leave the sentence alone. Libraries never print; programs print once.
 * An `err` argument may be NULL when the caller wants no sentence.
 */
#ifndef BASE_H
#define BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* --- errors --------------------------------------------------------------------------------- */

/* X(name, value, class, sentence). The class is the exit status a program gives for it:
 * 1 failed, 2 usage or refused, 130 interrupted. */
#define ERROR_CODES(X)                                                                                                 \
	X(ERR_MEMORY, -1, 1, "out of memory")                                                                          \
	X(ERR_USAGE, -2, 2, "the request makes no sense as it stands")                                                 \
	X(ERR_REFUSED, -3, 2, "refused to protect data")                                                               \
	X(ERR_NOT_FOUND, -4, 2, "no such thing")                                                                       \
	X(ERR_EXISTS, -5, 2, "it exists already")                                                                      \
	X(ERR_BUSY, -6, 2, "in use by somebody else")                                                                  \
	X(ERR_TOO_SMALL, -7, 2, "too small")                                                                           \
	X(ERR_UNSUPPORTED, -8, 2, "not supported here")                                                                \
	X(ERR_IO, -9, 1, "input or output failed")                                                                     \
	X(ERR_MEDIA, -10, 1, "the medium cannot read this place")                                                      \
	X(ERR_GONE, -11, 1, "the disk is gone")                                                                        \
	X(ERR_SPACE, -12, 1, "no space left")                                                                          \
	X(ERR_CORRUPT, -13, 1, "the bytes are not what was written")                                                   \
	X(ERR_TIMEOUT, -14, 1, "no answer in time")                                                                    \
	X(ERR_LOST, -15, 1, "redundancy is used up, the bytes are lost")                                               \
	X(ERR_READ_ONLY, -16, 1, "opened for reading only")                                                            \
	X(ERR_INTERRUPTED, -17, 130, "interrupted")                                                                    \
	X(ERR_DEADLOCK, -18, 1, "every thread waits and no event is due")                                              \
	X(ERR_BUG, -19, 1, "a mistake in this program")

enum error_code {
#define X(name, value, status, sentence) name = value,
	ERROR_CODES(X)
#undef X
};

#define ERROR_TEXT_BYTES 512

struct error {
	int code; /* 0 while nothing failed */
	char text[ERROR_TEXT_BYTES];
};

#define ERROR_INIT                                                                                                     \
	{                                                                                                              \
		0                                                                                                      \
	}

/* Writes the sentence and returns the code, so that `return error_set(err, ERR_IO, ...)` reads well.
 * Keeps the first sentence: a second call on the same object changes nothing but returns its code. */
int error_set(struct error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Puts "context: " before the sentence that is there. */
void error_prefix(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
void error_clear(struct error *err);
const char *error_name(int code);      /* "ERR_IO" */
const char *error_sentence(int code);  /* the general sentence of the list */
int error_exit_status(int code);       /* 0, 1, 2 or 130 */
int error_from_errno(int errno_value); /* EIO → ERR_IO, ENODEV/ENXIO → ERR_GONE, ENOSPC → ERR_SPACE, … */

/* --- our own mistakes ------------------------------------------------------------------------ */

/* On in every build; never on anything that a disk, a file or a peer said. */
#define sp_assert(condition) ((condition) ? (void)0 : base__assert_failed(#condition, __FILE__, __LINE__))
_Noreturn void base__assert_failed(const char *condition, const char *file, int line);

/* --- scope clean-up -------------------------------------------------------------------------- */

static inline void base__free(void *p)
{
	free(*(void **)p);
}
#define scoped_free __attribute__((cleanup(base__free)))
void base__close(int *fd);
#define scoped_fd __attribute__((cleanup(base__close)))

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#define array_count(a) (sizeof(a) / sizeof((a)[0]))
#define min_of(a, b) ((a) < (b) ? (a) : (b))
#define max_of(a, b) ((a) > (b) ? (a) : (b))

static inline uint64_t round_up_u64(uint64_t v, uint64_t to)
{
	return (v + to - 1) / to * to;
}
static inline uint64_t round_down_u64(uint64_t v, uint64_t to)
{
	return v / to * to;
}
static inline bool is_power_of_two(uint64_t v)
{
	return v != 0 && (v & (v - 1)) == 0;
}

/* --- doubly linked lists --------------------------------------------------------------------- */

struct list {
	struct list *next, *prev;
};
static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}
static inline bool list_is_empty(const struct list *l)
{
	return l->next == l;
}
static inline void list_insert_before(struct list *at, struct list *node)
{
	node->prev = at->prev;
	node->next = at;
	at->prev->next = node;
	at->prev = node;
}
static inline void list_push_back(struct list *head, struct list *node)
{
	list_insert_before(head, node);
}
static inline void list_push_front(struct list *head, struct list *node)
{
	list_insert_before(head->next, node);
}
static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	node->next = node->prev = node;
}
#define list_for_each(head, node) for (struct list *node = (head)->next; node != (head); node = node->next)
#define list_for_each_safe(head, node, keep)                                                                           \
	for (struct list *node = (head)->next, *keep = node->next; node != (head); node = keep, keep = node->next)

/* --- byte order: what goes to a disk or a peer is little-endian, packed by hand -------------- */

static inline void put_le16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}
static inline void put_le32(uint8_t *p, uint32_t v)
{
	put_le16(p, (uint16_t)v);
	put_le16(p + 2, (uint16_t)(v >> 16));
}
static inline void put_le64(uint8_t *p, uint64_t v)
{
	put_le32(p, (uint32_t)v);
	put_le32(p + 4, (uint32_t)(v >> 32));
}
static inline uint16_t get_le16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}
static inline uint32_t get_le32(const uint8_t *p)
{
	return get_le16(p) | (uint32_t)get_le16(p + 2) << 16;
}
static inline uint64_t get_le64(const uint8_t *p)
{
	return get_le32(p) | (uint64_t)get_le32(p + 4) << 32;
}

/* --- checksums ------------------------------------------------------------------------------- */

uint32_t checksum_crc32c(const void *data, size_t bytes); /* RFC 3720; "123456789" gives 0xE3069283 */
uint64_t checksum_xxh3(const void *data, size_t bytes);   /* XXH3-64 */
void checksum_xxh3_128(const void *data, size_t bytes, uint64_t seed, uint8_t out[16]); /* XXH3-128, low half first */

/* --- seeded random numbers: xoshiro256** (Blackman and Vigna, 2018), seeded by splitmix64 ------ */

struct random {
	uint64_t s[4];
};
void random_seed(struct random *r, uint64_t seed);
uint64_t random_u64(struct random *r);
uint64_t random_below(struct random *r, uint64_t bound); /* uniform in [0, bound); bound > 0 */
double random_unit(struct random *r);                    /* [0, 1) */
void random_fill(struct random *r, void *buffer, size_t bytes);

/* --- sizes, rates, durations ------------------------------------------------------------------ */

/* "64KiB" and "64k" are 65536 (as in fio and dd, a bare letter is binary), "64kB" is 64000, "4096" is bytes.
 * ERR_USAGE for anything else, for a negative number and for what does not fit in 64 bits. */
int size_parse(const char *text, uint64_t *ret_bytes, struct error *err);
/* "30", "30s", "500ms", "10m", "2h" → nanoseconds. */
int duration_parse(const char *text, uint64_t *ret_ns, struct error *err);
/* A whole decimal number in [lowest, highest]. `what` names it in the sentence. */
int number_parse(
	const char *what, const char *text, uint64_t lowest, uint64_t highest, uint64_t *ret, struct error *err);
int real_parse(const char *what, const char *text, double lowest, double highest, double *ret, struct error *err);

#define SIZE_TEXT_BYTES 32
char *size_format_binary(uint64_t bytes, char text[SIZE_TEXT_BYTES]);  /* "64 KiB", "1.5 TiB" */
char *size_format_decimal(uint64_t bytes, char text[SIZE_TEXT_BYTES]); /* "65.5 kB", "1.65 TB" */
char *duration_format(uint64_t ns, char text[SIZE_TEXT_BYTES]);        /* "8.33 ms", "2 m 05 s" */

/* --- growing text ------------------------------------------------------------------------------ */

struct text {
	char *bytes; /* always terminated once anything was added; NULL before */
	size_t length, room;
	bool failed; /* out of memory at some point; later calls do nothing */
};
void text_addf(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_release(struct text *t);

#endif
