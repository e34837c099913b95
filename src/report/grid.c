/* grid: a table before it is known how it will be written, and the two ways to write it. */
#include <libsmartcols.h>
#include <string.h>

#include "internal.h"

#define GUTTER 2 /* blanks between columns */

void report__grid_init(struct grid *g, unsigned key_columns, const char *title, ...)
{
	va_list list;

	memset(g, 0, sizeof(*g));
	g->key_columns = key_columns;
	va_start(list, title);
	vsnprintf(g->title, sizeof(g->title), title, list);
	va_end(list);
}

unsigned report__grid_column(struct grid *g, bool right, bool bound, const char *head, ...)
{
	struct grid_column *c = &g->columns[g->column_count];
	va_list list;

	sp_assert(g->row_count == 0);
	sp_assert(g->column_count < array_count(g->columns));
	c->right = right;
	c->bound = bound;
	va_start(list, head);
	vsnprintf(c->head, sizeof(c->head), head, list);
	va_end(list);
	return g->column_count++;
}

unsigned report__grid_row(struct grid *g)
{
	if (g->row_count == g->row_room) {
		unsigned room = g->row_room ? g->row_room * 2 : 16;
		struct grid_cell *cells = realloc(g->cells, (size_t)room * g->column_count * sizeof(*cells));

		if (!cells) {
			g->failed = true;
			return g->row_count;
		}
		memset(cells + (size_t)g->row_room * g->column_count, 0,
			(size_t)(room - g->row_room) * g->column_count * sizeof(*cells));
		g->cells = cells;
		g->row_room = room;
	}
	return g->row_count++;
}

void report__grid_set(struct grid *g, unsigned row, unsigned column, enum tone tone, const char *format, ...)
{
	struct grid_cell *c;
	va_list list;

	if (g->failed)
		return;
	sp_assert(row < g->row_count && column < g->column_count);
	c = &g->cells[(size_t)row * g->column_count + column];
	free(c->text);
	va_start(list, format);
	if (vasprintf(&c->text, format, list) < 0) {
		c->text = NULL;
		g->failed = true;
	}
	va_end(list);
	c->tone = tone;
}

void report__grid_release(struct grid *g)
{
	for (size_t i = 0; i < (size_t)g->row_count * g->column_count; i++)
		free(g->cells[i].text);
	free(g->cells);
	memset(g, 0, sizeof(*g));
}

static const struct grid_cell *grid_at(const struct grid *g, unsigned row, unsigned column)
{
	return &g->cells[(size_t)row * g->column_count + column];
}

static unsigned column_width(const struct grid *g, unsigned column)
{
	size_t width = strlen(g->columns[column].head);

	for (unsigned row = 0; row < g->row_count; row++) {
		const char *text = grid_at(g, row, column)->text;

		if (text)
			width = max_of(width, strlen(text));
	}
	return (unsigned)width;
}

/* --- on a terminal ------------------------------------------------------------------------------------------- */

static const char *tone_sequence(enum tone tone)
{
	switch (tone) {
	case TONE_BEST:
		return "\033[1;32m";
	case TONE_BAD:
		return "\033[33m";
	case TONE_DIM:
		return "\033[2m";
	case TONE_PLAIN:
		break;
	}
	return NULL;
}

/* A row that has nothing to say in this part of a cut table is left out of it. */
static bool row_is_empty(const struct grid *g, unsigned row, const unsigned *columns, unsigned count)
{
	for (unsigned i = g->key_columns; i < count; i++)
		if (grid_at(g, row, columns[i])->text)
			return false;
	return count > g->key_columns;
}

static int part_fill(
	struct libscols_table *table, const struct grid *g, const unsigned *columns, unsigned count, bool colour)
{
	for (unsigned i = 0; i < count; i++) {
		const struct grid_column *c = &g->columns[columns[i]];
		struct libscols_column *column =
			scols_table_new_column(table, c->head, 0, c->right ? SCOLS_FL_RIGHT : 0);

		if (!column)
			return ERR_MEMORY;
		if (colour)
			scols_cell_set_color(scols_column_get_header(column), "\033[1m");
	}
	for (unsigned row = 0; row < g->row_count; row++) {
		struct libscols_line *line;

		if (row_is_empty(g, row, columns, count))
			continue;
		line = scols_table_new_line(table, NULL);
		if (!line)
			return ERR_MEMORY;
		for (unsigned i = 0; i < count; i++) {
			const struct grid_cell *cell = grid_at(g, row, columns[i]);

			if (scols_line_set_data(line, i, cell->text ? cell->text : "") != 0)
				return ERR_MEMORY;
			if (colour && tone_sequence(cell->tone))
				scols_cell_set_color(scols_line_get_cell(line, i), tone_sequence(cell->tone));
		}
	}
	return 0;
}

/* The library pads the last column of a line; blanks at the end of a line are noise in files. */
static void print_trimmed(const char *text, FILE *out)
{
	while (*text) {
		size_t length = strcspn(text, "\n"), keep = length;

		while (keep > 0 && text[keep - 1] == ' ')
			keep--;
		fprintf(out, "%.*s\n", (int)keep, text);
		text += length + (text[length] == '\n');
	}
}

static int part_print(const struct grid *g, const unsigned *columns, unsigned count, const struct report_style *s,
	FILE *out, struct error *err)
{
	struct libscols_table *table = scols_new_table();
	char *text = NULL;
	int status = table ? 0 : ERR_MEMORY;

	if (status == 0) {
		scols_table_enable_colors(table, s->colour);
		scols_table_set_termforce(table, SCOLS_TERMFORCE_NEVER);
		scols_table_set_column_separator(table, "  ");
		status = part_fill(table, g, columns, count, s->colour);
	}
	if (status == 0 && g->row_count > 0 && (scols_print_table_to_string(table, &text) != 0 || !text))
		status = ERR_MEMORY;
	if (status == 0 && text)
		print_trimmed(text, out);
	free(text);
	if (table)
		scols_unref_table(table);
	return status == 0 ? 0 : error_set(err, status, "out of memory while a table was laid out");
}

unsigned report__grid_width(const struct grid *g)
{
	unsigned width = 0;

	for (unsigned i = 0; i < g->column_count; i++)
		width += column_width(g, i) + (i ? GUTTER : 0);
	return width;
}

/* Cuts the table into parts that fit the width, the key columns in each (REPORT-5). */
int report__grid_print(struct grid *g, const struct report_style *s, FILE *out, struct error *err)
{
	unsigned widths[array_count(g->columns)], key_width = 0, next = g->key_columns;
	bool first = true;

	if (g->failed)
		return error_set(err, ERR_MEMORY, "out of memory while a table was made");
	for (unsigned i = 0; i < g->column_count; i++)
		widths[i] = column_width(g, i);
	for (unsigned i = 0; i < g->key_columns; i++)
		key_width += widths[i] + GUTTER;
	report__heading(s, out, "%s", g->title);
	do {
		unsigned columns[array_count(g->columns)], count = 0, width = key_width;

		for (; count < g->key_columns; count++)
			columns[count] = count;
		while (next < g->column_count) {
			unsigned taken = 1, more = widths[next] + GUTTER;

			while (next + taken < g->column_count && g->columns[next + taken].bound)
				more += widths[next + taken++] + GUTTER;
			if (count > g->key_columns && width + more - GUTTER > s->columns)
				break;
			for (unsigned i = 0; i < taken; i++)
				columns[count++] = next++;
			width += more;
		}
		if (!first)
			fputc('\n', out);
		first = false;
		if (part_print(g, columns, count, s, out, err) != 0)
			return ERR_MEMORY;
	} while (next < g->column_count);
	return 0;
}

/* --- as Markdown ------------------------------------------------------------------------------------------------ */

static void markdown_text(const char *text, FILE *out)
{
	size_t length = text ? strlen(text) : 0;

	while (length > 0 && text[length - 1] == ' ')
		length--;
	for (const char *end = text + length; text < end; text++) {
		if (strchr("|\\*_`<>", *text))
			fputc('\\', out);
		fputc((unsigned char)*text < 0x20 ? ' ' : *text, out);
	}
}

int report__grid_markdown(struct grid *g, FILE *out, struct error *err)
{
	if (g->failed)
		return error_set(err, ERR_MEMORY, "out of memory while a table was made");
	fputs("### ", out);
	markdown_text(g->title, out);
	fputs("\n\n|", out);
	for (unsigned i = 0; i < g->column_count; i++) {
		fputc(' ', out);
		markdown_text(g->columns[i].head, out);
		fputs(" |", out);
	}
	fputs("\n|", out);
	for (unsigned i = 0; i < g->column_count; i++)
		fputs(g->columns[i].right ? "---:|" : "---|", out);
	fputc('\n', out);
	for (unsigned row = 0; row < g->row_count; row++) {
		fputc('|', out);
		for (unsigned i = 0; i < g->column_count; i++) {
			const char *text = grid_at(g, row, i)->text;

			fputc(' ', out);
			markdown_text(text ? text : "", out);
			fputs(" |", out);
		}
		fputc('\n', out);
	}
	fputc('\n', out);
	return 0;
}

/* --- words between tables ----------------------------------------------------------------------------------------- */

void report__heading(const struct report_style *s, FILE *out, const char *format, ...)
{
	scoped_free char *text = NULL;
	va_list list;

	va_start(list, format);
	if (vasprintf(&text, format, list) < 0)
		text = NULL;
	va_end(list);
	if (!text)
		return;
	if (s->colour)
		fputs("\033[1m", out);
	report__paragraph(s, out, 2, "%s", text);
	if (s->colour)
		fputs("\033[0m", out);
}

/* Characters, not bytes: bytes that continue a UTF-8 sequence take no room. */
static unsigned word_width(const char *word, size_t bytes)
{
	unsigned width = 0;

	for (size_t i = 0; i < bytes; i++)
		width += ((unsigned char)word[i] & 0xc0) != 0x80;
	return width;
}

static void print_word(const char *word, size_t bytes, FILE *out)
{
	for (size_t i = 0; i < bytes; i++) /* names come from disks and files: no control characters to the terminal */
		fputc((unsigned char)word[i] < 0x20 || word[i] == 0x7f ? '?' : word[i], out);
}

void report__paragraph(const struct report_style *s, FILE *out, unsigned indent, const char *format, ...)
{
	scoped_free char *text = NULL;
	unsigned column = 0, lead;
	const char *word;
	va_list list;

	va_start(list, format);
	if (vasprintf(&text, format, list) < 0)
		text = NULL;
	va_end(list);
	if (!text)
		return;
	lead = (unsigned)strspn(text, " ");
	fprintf(out, "%*s", (int)lead, "");
	column = lead;
	for (word = text + lead; *word;) {
		size_t bytes = strcspn(word, " ");
		unsigned width = word_width(word, bytes);

		if (column > lead && column + 1 + width > s->columns) {
			fprintf(out, "\n%*s", (int)(lead + indent), "");
			column = lead + indent;
		} else if (word > text + lead) {
			fputc(' ', out);
			column++;
		}
		print_word(word, bytes, out);
		column += width;
		word += bytes;
		word += strspn(word, " ");
	}
	fputc('\n', out);
}
