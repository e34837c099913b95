#include <ctype.h>
#include <string.h>

#include "cli.h"
#include "internal.h"

static char line[512];
static int word_count;
static char **words;

void cli__words(int *ret_argc, char ***ret_argv)
{
	*ret_argc = word_count;
	*ret_argv = words;
}

static bool is_plain(const char *word)
{
	if (!*word)
		return false;
	for (; *word; word++)
		if (!isalnum((unsigned char)*word) && !strchr("_-+=,.:/@%", *word))
			return false;
	return true;
}

static void add_text(size_t *length, const char *bytes, size_t count)
{
	count = min_of(count, sizeof(line) - 1 - *length);
	memcpy(line + *length, bytes, count);
	*length += count;
	line[*length] = 0;
}

/* Single quotes, and '\'' for a single quote in the word. */
static void add_quoted(size_t *length, const char *word)
{
	add_text(length, "'", 1);
	for (; *word; word++)
		add_text(length, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
	add_text(length, "'", 1);
}

void cli__remember_command_line(int argc, char **argv)
{
	size_t length = 0;

	word_count = argc;
	words = argv;
	add_text(&length, "spindle", 7);
	for (int i = 1; i < argc; i++) {
		add_text(&length, " ", 1);
		if (is_plain(argv[i]))
			add_text(&length, argv[i], strlen(argv[i]));
		else
			add_quoted(&length, argv[i]);
	}
}

const char *cli_command_line(void)
{
	return line;
}
