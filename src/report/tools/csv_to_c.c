/*
 * csv_to_c: turns a CSV file into a C table at build time, so that the program carries the data and needs no file.
 *
 *   csv_to_c NAME FILE.csv > FILE.c
 *
 * gives `const char *const NAME[][COLUMNS]` without the header line, `NAME_rows`, and an enum of the column names.
 * Quoted fields may hold commas and doubled quotes, no line breaks. A line with another number of fields than the
 * header has is an error with its number.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define FIELDS_MAX 64

static char line[16384], store[16384];

static unsigned split(const char *from, const char *fields[FIELDS_MAX])
{
	unsigned count = 0;
	char *to = store;

	for (;;) {
		int quoted = *from == '"';

		fields[count++] = to;
		from += quoted;
		while (*from && (quoted || *from != ',')) {
			if (quoted && *from == '"') {
				if (from[1] != '"')
					break;
				from++;
			}
			*to++ = *from++;
		}
		from += quoted && *from == '"';
		*to++ = 0;
		if (*from != ',' || count == FIELDS_MAX)
			return count;
		from++;
	}
}

static void put_string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('"');
}

int main(int argc, char **argv)
{
	const char *fields[FIELDS_MAX];
	unsigned columns = 0, number = 0;
	FILE *in;

	if (argc != 3 || !(in = fopen(argv[2], "r"))) {
		fprintf(stderr, "usage: csv_to_c NAME FILE.csv\n");
		return 2;
	}
	printf("/* Made from a CSV file by csv_to_c. */\n#include <stddef.h>\n\n");
	while (fgets(line, sizeof(line), in)) {
		unsigned count;

		number++;
		line[strcspn(line, "\r\n")] = 0;
		if (!*line)
			continue;
		count = split(line, fields);
		if (columns == 0) {
			columns = count;
			printf("extern const char *const %s[][%u];\nextern const size_t %s_rows;\n\n", argv[1], columns,
				argv[1]);
			printf("const char *const %s[][%u] = {\n", argv[1], columns);
			continue;
		}
		if (count != columns) {
			fprintf(stderr, "%s, line %u: %u fields where the header has %u\n", argv[2], number, count,
				columns);
			return 1;
		}
		printf("\t{");
		for (unsigned i = 0; i < count; i++) {
			put_string(fields[i]);
			printf(i + 1 < count ? ", " : "},\n");
		}
	}
	printf("};\nconst size_t %s_rows = sizeof(%s) / sizeof(%s[0]);\n", argv[1], argv[1], argv[1]);
	return fclose(in) != 0 || ferror(stdout);
}
