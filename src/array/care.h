/* What care.c and pass.c share. */
#ifndef ARRAY_CARE_H
#define ARRAY_CARE_H

#include "internal.h"

enum pass_kind {
	PASS_CHECK,
	PASS_REPAIR,
	PASS_RESYNC,  /* dirty rows at open */
	PASS_REBUILD, /* one member from the others, or from the disk that it replaces */
};
#define PASS_ROWS 64u

struct pass_row {
	uint64_t row, failed, bad; /* columns */
	enum row_state state;
	bool wanted, mismatch;
	struct layout_row lr;
	uint8_t *columns[LAYOUT_WIDTH_MAX];
};
/* One range that lies whole in one chunk, and its copies. */
struct copies {
	struct pass_row *row;
	uint64_t offset_bytes, length;
	unsigned count;
	struct layout_place at[LAYOUT_WIDTH_MAX];
	bool tried[LAYOUT_WIDTH_MAX], good[LAYOUT_WIDTH_MAX];
	uint8_t *bytes[LAYOUT_WIDTH_MAX];
};
struct pass {
	struct array *array;
	enum pass_kind kind;
	unsigned member; /* of a rebuild */
	struct io *io;
	uint8_t *buffer;
	size_t buffer_room;
	uint8_t *made[2]; /* parity as it should be */
	uint64_t slice;   /* so much of a chunk at a time */
	uint64_t unit_rows;
	struct pass_row *rows;
	struct copies *parts; /* as many as the buffer holds all copies of */
	size_t parts_room;
	bool lost; /* some row of the slice just became so */
	struct array_check_result result;
};
int pass__open(struct pass *p, struct array *a, enum pass_kind kind, struct error *err);
void pass__close(struct pass *p);
/* Rows that nobody else changes meanwhile. */
int pass__rows(struct pass *p, uint64_t first, uint64_t count, struct error *err);

/* Between pass.c and pass_copies.c. */
int pass__copies(struct pass *p, unsigned row_count, struct error *err);
void pass__mismatch(struct pass *p, uint64_t row, int member, uint64_t at);
int pass__read(struct pass *p, void (*failed)(struct pass *p, const struct piece *piece), struct error *err);
int pass__write(struct pass *p, struct error *err);
int pass__lost_note(struct pass *p, struct error *err); /* the map says lost of what is about to be poisoned */

#endif
