/* Inside the report part: grids, rows of a result, and how numbers are written. */
#ifndef REPORT_INTERNAL_H
#define REPORT_INTERNAL_H

#include <jansson.h>

#include "report.h"

#define LAYOUT_COLUMN_BYTES 96
#define REPORT_TEXT_BYTES 48
#define IOPS_BLOCK_MAX (64u << 10) /* random tests with blocks up to this are told in operations, not in MB */
#define TIE_SHARE 0.05             /* what one phase can tell apart */

/* --- grids: a table before it is known how it will be written --------------------------------------------- */

enum tone { TONE_PLAIN, TONE_BEST, TONE_BAD, TONE_DIM };

struct grid_column {
	char head[40];
	bool right;
	bool bound; /* stays with the column to its left when a table is cut for a narrow terminal */
};
struct grid_cell {
	char *text; /* NULL: empty */
	enum tone tone;
};
struct grid {
	char title[240];
	unsigned key_columns; /* repeated in each part of a table that was cut */
	struct grid_column columns[64];
	unsigned column_count;
	struct grid_cell *cells; /* row after row */
	unsigned row_count, row_room;
	bool failed; /* out of memory; told when it is printed */
};
void report__grid_init(struct grid *g, unsigned key_columns, const char *title, ...)
	__attribute__((format(printf, 3, 4)));
/* All columns come before the first row. Returns the index. */
unsigned report__grid_column(struct grid *g, bool right, bool bound, const char *head, ...)
	__attribute__((format(printf, 4, 5)));
unsigned report__grid_row(struct grid *g);
void report__grid_set(struct grid *g, unsigned row, unsigned column, enum tone tone, const char *format, ...)
	__attribute__((format(printf, 5, 6)));
unsigned report__grid_width(const struct grid *g); /* when nothing is cut */
int report__grid_print(struct grid *g, const struct report_style *s, FILE *out, struct error *err);
int report__grid_markdown(struct grid *g, FILE *out, struct error *err);
void report__grid_release(struct grid *g);

/* Words wrapped to the width of the style; lines after the first are indented. */
void report__paragraph(const struct report_style *s, FILE *out, unsigned indent, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void report__heading(const struct report_style *s, FILE *out, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* ERR_IO when what was printed did not reach `out`. */
int report__finish(FILE *out, struct error *err);

/* --- numbers in words ------------------------------------------------------------------------------------------ */

char *report__rate(double mb_per_s, char text[REPORT_TEXT_BYTES]);
char *report__count(double value, char text[REPORT_TEXT_BYTES]); /* 1234567 → "1.23M" */
char *report__percent(double share, char text[REPORT_TEXT_BYTES]);
char *report__space(uint64_t bytes, bool binary, char text[REPORT_TEXT_BYTES]); /* "1.75 TB", "1.59 TiB", "53.7 GB" */
char *report__block(uint64_t bytes, char text[REPORT_TEXT_BYTES]);  /* "8k", "16 MiB" as titles have them */
char *report__test(const char *test, char text[REPORT_TEXT_BYTES]); /* "randread-8k" → "8k rand read" */

/* Space below this is told in GB and GiB. */
#define SPACE_SMALL_BYTES 100000000000u

/* --- what a cell is -------------------------------------------------------------------------------------------- */

bool report__is_random(const struct cell *c);
bool report__is_read(const struct cell *c);
bool report__is_write(const struct cell *c);
bool report__in_iops(const struct cell *c);
bool report__has_value(const struct cell *c);
bool report__over_link(const struct result *r, const struct cell *c);
unsigned report__disk_count(const struct cell *c); /* the number that leads `disks`, 0 when there is none */
/* True when the two figures cannot be told apart. */
bool report__tie(const struct cell *a, const struct cell *b);

/* --- rows and columns of a result ------------------------------------------------------------------------------- */

struct matrix_row {
	const struct cell *first; /* a cell of the row */
	unsigned ordinal;         /* of rows that agree in all but fill and depth */
	char label[LAYOUT_COLUMN_BYTES];
};
struct matrix {
	const struct result *result;
	const char *clock; /* NULL: any */
	struct matrix_row *rows;
	size_t row_count;
	const struct cell **tests; /* the first cell of each column */
	size_t test_count;
};
int report__matrix_init(struct matrix *m, const struct result *r, const char *clock, struct error *err);
void report__matrix_release(struct matrix *m);
const struct cell *report__matrix_cell(const struct matrix *m, size_t row, const struct cell *test);

/* --- grids of a result ------------------------------------------------------------------------------------------ */

struct test_group {
	size_t first, count; /* columns of the matrix: one block size, one unit */
	bool iops;
};
size_t report__groups(const struct matrix *m, struct test_group *ret, size_t room);
enum detail { DETAIL_VALUE, DETAIL_MODEL, DETAIL_ALL };
void report__grid_tests(struct grid *g, const struct matrix *m, const struct test_group *group, enum detail detail);
void report__grid_space(struct grid *g, const struct matrix *m);
void report__title(const struct matrix *m, char *text, size_t bytes);

/* --- JSON --------------------------------------------------------------------------------------------------------- */

enum field_type { FIELD_TEXT, FIELD_U64, FIELD_U32, FIELD_UNSIGNED, FIELD_REAL, FIELD_BOOL };
struct field {
	const char *name;
	enum field_type type;
	size_t offset, bytes;
};
extern const struct field report__cell_key_fields[], report__cell_fields[], report__latency_fields[],
	report__host_fields[], report__disk_fields[], report__run_fields[]; /* each ends with a NULL name */
json_t *report__json_text(const char *text);                                /* bytes that are no UTF-8 become '?' */
json_t *report__json_real(double value);                                    /* null where nothing was measured */
json_t *report__json_u64(uint64_t value);                                   /* null for RESULT_NONE */
json_t *report__json_document(const struct result *r);
int report__json_print(json_t *document, FILE *out, struct error *err);

#endif
