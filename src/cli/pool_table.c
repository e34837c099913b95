#include <libsmartcols.h>
#include <stdarg.h>
#include <string.h>

#include "pool_cli.h"

int pool_table_row(struct pool_table *t, struct error *err)
{
	if (t->row_count == t->row_room) {
		size_t room = t->row_room ? 2 * t->row_room : 16;
		char ***rows = realloc(t->rows, room * sizeof(*rows));

		if (!rows)
			return error_set(err, ERR_MEMORY, "out of memory");
		t->rows = rows;
		t->row_room = room;
	}
	t->rows[t->row_count] = calloc(t->columns, sizeof(char *));
	if (!t->rows[t->row_count])
		return error_set(err, ERR_MEMORY, "out of memory");
	t->row_count++;
	return 0;
}

void pool_table_set(struct pool_table *t, unsigned column, const char *format, ...)
{
	char **cell = &t->rows[t->row_count - 1][column];
	va_list args;

	free(*cell);
	va_start(args, format);
	if (vasprintf(cell, format, args) < 0)
		*cell = NULL;
	va_end(args);
}

static void print_scripted(const struct pool_table *t)
{
	for (size_t r = 0; r < t->row_count; r++)
		for (unsigned c = 0; c < t->columns; c++)
			printf("%s%c", t->rows[r][c] ? t->rows[r][c] : "-", c + 1 < t->columns ? '\t' : '\n');
}

int pool_table_print(struct pool_table *t, struct error *err)
{
	struct libscols_table *table;
	bool failed;

	if (t->scripted) {
		print_scripted(t);
		return 0;
	}
	table = scols_new_table();
	failed = !table;
	for (unsigned c = 0; !failed && c < t->columns; c++)
		failed = !scols_table_new_column(table, t->heads[c], 0, t->right[c] ? SCOLS_FL_RIGHT : 0);
	for (size_t r = 0; !failed && r < t->row_count; r++) {
		struct libscols_line *line = scols_table_new_line(table, NULL);

		failed = !line;
		for (unsigned c = 0; !failed && c < t->columns; c++)
			failed = scols_line_set_data(line, c, t->rows[r][c] ? t->rows[r][c] : "-") != 0;
	}
	failed = failed || scols_print_table(table) != 0;
	scols_unref_table(table);
	return failed ? error_set(err, ERR_MEMORY, "cannot print the table") : 0;
}

void pool_table_release(struct pool_table *t)
{
	for (size_t r = 0; r < t->row_count; r++) {
		for (unsigned c = 0; c < t->columns; c++)
			free(t->rows[r][c]);
		free(t->rows[r]);
	}
	free(t->rows);
	t->rows = NULL;
	t->row_count = t->row_room = 0;
}

const char *pool_size_text(uint64_t bytes, bool exact, char text[SIZE_TEXT_BYTES])
{
	static const char letters[] = "BKMGTPE";
	double value = (double)bytes;
	unsigned step = 0;

	if (exact) {
		snprintf(text, SIZE_TEXT_BYTES, "%llu", (unsigned long long)bytes);
		return text;
	}
	while (value >= 1024 && step < 6) {
		value /= 1024;
		step++;
	}
	if (step == 0)
		snprintf(text, SIZE_TEXT_BYTES, "%lluB", (unsigned long long)bytes);
	else
		snprintf(text, SIZE_TEXT_BYTES, "%.*f%c", value < 10 ? 2 : value < 100 ? 1 : 0, value, letters[step]);
	return text;
}
