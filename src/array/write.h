/* What write.c and parity.c share. */
#ifndef ARRAY_WRITE_H
#define ARRAY_WRITE_H

#include "internal.h"

#define BATCH_ROWS 512u
#define STREAM_BYTES (4 * MIB) /* full rows that follow each other for so long go by the map and not by the log */

/* A range [lo, hi) of the chunks of one row that is written as one. */
struct span {
	unsigned index; /* of the row in the batch */
	uint32_t lo, hi;
	uint64_t touched; /* data columns */
	uint64_t failed;  /* columns that cannot be read or written */
	uint64_t bad;     /* of these: their disk is there, their bytes are not */
	enum layout_write_way way;
	uint64_t read, write;
	uint64_t lost; /* data columns whose bytes nobody can make again: poison stands for them */
	bool retried;  /* what was bad was read once more before it was given up */
	bool logged;
	struct column *columns; /* width of them */
};
struct column {
	uint32_t lo, hi; /* the hull of what is given */
	bool whole, holes;
	uint8_t *fresh; /* of the hull, as it will be, when what is given has holes in it and the row is modified */
	uint8_t *bytes; /* in scratch: [lo, hi) of the span; a touched column when modifying: of the hull, old, then old
			   ^ new */
};

struct batch {
	struct buf_row *rows[BATCH_ROWS];
	uint64_t numbers[BATCH_ROWS];
	bool never[BATCH_ROWS];
	bool logged[BATCH_ROWS];
	unsigned count;
	bool full;
	bool held;   /* a run was left to grow */
	bool stream; /* full rows that go on where such rows ended, or are many */
	struct buf_row **candidates;
	/* parity.c */
	struct span *spans;
	struct column *columns;
	unsigned span_count, span_room;
	unsigned at_row; /* how far the rounds came */
	uint64_t at_byte;
};

int batch__write(struct array *a, struct io *io, struct error *err);
void row__zero_holes(struct array *a, struct buf_row *b, unsigned slot);

#endif
