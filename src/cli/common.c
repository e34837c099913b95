#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* What common.c and progress.c share: whoever writes to stderr takes the progress line away first. */
#include "internal.h"

/* --- talk ---------------------------------------------------------------------------------------- */

void cli_say(const char *format, ...)
{
	char sentence[2048];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	cli__progress_erase();
	fprintf(stderr, "spindle: %s\n", sentence);
}

int cli_fail(const struct error *err)
{
	int code = err->code ? err->code : ERR_BUG;

	cli_say("%s", err->text[0] ? err->text : error_sentence(code));
	return error_exit_status(code);
}

int cli_confirm(const char *question, const char *word, struct error *err)
{
	char answer[64];

	if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return error_set(err, ERR_USAGE, "there is no terminal to ask on");
	cli__progress_erase();
	fprintf(stderr, "%s\nType %s to go on: ", question, word);
	fflush(stderr);
	if (!fgets(answer, sizeof(answer), stdin))
		return error_set(err, os_interrupted() ? ERR_INTERRUPTED : ERR_REFUSED, "no answer, nothing was done");
	answer[strcspn(answer, "\r\n")] = 0;
	if (strcmp(answer, word) != 0)
		return error_set(err, ERR_REFUSED, "the answer was not '%s', nothing was done", word);
	return 0;
}

/* --- options ------------------------------------------------------------------------------------- */

void cli_scan_init(struct cli_scan *s, int argc, char **argv, const struct cli_help *help)
{
	*s = (struct cli_scan){.argc = argc, .argv = argv, .next = 1, .help = help};
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	return min_of(a, min_of(b, c));
}

/* Edit distance of two words, cut off at words of 31 letters. */
static unsigned word_distance(const char *a, const char *b)
{
	unsigned row[32];
	unsigned a_length = (unsigned)strlen(a), b_length = (unsigned)strlen(b);

	if (a_length > 31 || b_length > 31)
		return 99;
	for (unsigned j = 0; j <= b_length; j++)
		row[j] = j;
	for (unsigned i = 1; i <= a_length; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= b_length; j++) {
			unsigned above = row[j];

			row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (tolower(a[i - 1]) != tolower(b[j - 1])));
			diagonal = above;
		}
	}
	return row[b_length];
}

const char *cli_nearest(const char *word, const char *const *words)
{
	const char *best = NULL;
	unsigned best_distance = UINT32_MAX;

	for (; *words; words++) {
		unsigned distance = word_distance(word, *words);

		if (strlen(word) >= 3 && strncmp(word, *words, strlen(word)) == 0)
			distance = 0;
		if (distance < best_distance) {
			best = *words;
			best_distance = distance;
		}
	}
	return best && best_distance <= max_of(1u, (unsigned)strlen(best) / 3) ? best : NULL;
}

static int unknown_option(const struct cli_scan *s, const char *name, size_t length, struct error *err)
{
	const char *names[64] = {"help"};
	char word[64];
	unsigned count = 1;
	const char *near;

	for (const struct cli_option *o = s->help->options; o->id && count < 63; o++)
		names[count++] = o->name;
	names[count] = NULL;
	snprintf(word, sizeof(word), "%.*s", (int)min_of(length, (size_t)60), name);
	near = cli_nearest(word, names);
	if (near)
		return error_set(
			err, ERR_USAGE, "%s has no option --%s; did you mean --%s?", s->help->verb, word, near);
	return error_set(
		err, ERR_USAGE, "%s has no option --%s; see 'spindle %s --help'", s->help->verb, word, s->help->verb);
}

static int take_value(struct cli_scan *s, const struct cli_option *o, const char **ret_value, struct error *err)
{
	if (s->next >= s->argc)
		return error_set(err, ERR_USAGE, "--%s needs a value: --%s %s", o->name, o->name, o->argument);
	*ret_value = s->argv[s->next++];
	return o->id;
}

static int scan_long(struct cli_scan *s, const char *text, const char **ret_value, struct error *err)
{
	size_t length = strcspn(text, "=");
	const struct cli_option *o;

	if (length == 4 && strncmp(text, "help", 4) == 0) {
		cli_help_print(s->help);
		return CLI_HELP;
	}
	for (o = s->help->options; o->id; o++)
		if (o->name && strlen(o->name) == length && strncmp(o->name, text, length) == 0)
			break;
	if (!o->id)
		return unknown_option(s, text, length, err);
	if (text[length] == '=') {
		if (!o->argument)
			return error_set(
				err, ERR_USAGE, "--%s takes no value, but '%s' was given", o->name, text + length + 1);
		*ret_value = text + length + 1;
		return o->id;
	}
	return o->argument ? take_value(s, o, ret_value, err) : o->id;
}

static int scan_letter(struct cli_scan *s, const char **ret_value, struct error *err)
{
	char letter = *s->letters++;

	if (!*s->letters)
		s->letters = NULL;
	if (letter == 'h') {
		cli_help_print(s->help);
		return CLI_HELP;
	}
	for (const struct cli_option *o = s->help->options; o->id; o++) {
		if (o->letter != letter)
			continue;
		if (!o->argument)
			return o->id;
		if (s->letters) {
			*ret_value = s->letters;
			s->letters = NULL;
			return o->id;
		}
		return take_value(s, o, ret_value, err);
	}
	return error_set(
		err, ERR_USAGE, "%s has no option -%c; see 'spindle %s --help'", s->help->verb, letter, s->help->verb);
}

int cli_scan_next(struct cli_scan *s, const char **ret_value, struct error *err)
{
	const char *word;

	*ret_value = NULL;
	if (s->letters)
		return scan_letter(s, ret_value, err);
	if (s->next >= s->argc)
		return 0;
	word = s->argv[s->next++];
	if (!s->only_words && strcmp(word, "--") == 0) {
		s->only_words = true;
		return cli_scan_next(s, ret_value, err);
	}
	if (!s->only_words && word[0] == '-' && word[1] == '-')
		return scan_long(s, word + 2, ret_value, err);
	if (!s->only_words && word[0] == '-' && word[1]) {
		s->letters = word + 1;
		return scan_letter(s, ret_value, err);
	}
	*ret_value = word;
	return CLI_WORD;
}

#define HELP_COLUMN 26

void cli_help_print(const struct cli_help *help)
{
	printf("usage: spindle %s %s\n\n%s\n", help->verb, help->usage, help->text);
	if (help->options->id)
		printf("\nOptions:\n");
	for (const struct cli_option *o = help->options; o->id; o++) {
		char left[80];
		char letter[5] = "";

		if (!o->help)
			continue;
		if (o->letter)
			snprintf(letter, sizeof(letter), "-%c, ", o->letter);
		snprintf(left, sizeof(left), "  %s--%s%s%s", letter, o->name, o->argument ? " " : "",
			o->argument ? o->argument : "");
		printf("%-*s %s\n", HELP_COLUMN, left, o->help);
	}
	if (help->end)
		printf("\n%s\n", help->end);
}

/* --- places -------------------------------------------------------------------------------------- */

static int make_directories(char *path, struct error *err)
{
	for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
		int failed;

		if (slash)
			*slash = 0;
		failed = mkdir(path, 0755) != 0 && errno != EEXIST ? errno : 0;
		if (failed)
			return error_set(err, error_from_errno(failed), "cannot make the directory %s: %s", path,
				strerror(failed));
		if (!slash)
			return 0;
		*slash = '/';
	}
}

int cli_state_dir(const char *below, bool make, char ret_path[CLI_PATH_BYTES], struct error *err)
{
	const char *state = getenv("SPINDLE_STATE"), *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	char path[CLI_PATH_BYTES];
	const char *separator = below && below[0] ? "/" : "";
	int length;

	below = below ? below : "";
	if (state && state[0])
		length = snprintf(path, sizeof(path), "%s%s%s", state, separator, below);
	else if (geteuid() == 0)
		length = snprintf(path, sizeof(path), "/var/lib/spindle%s%s", separator, below);
	else if (xdg && xdg[0] == '/')
		length = snprintf(path, sizeof(path), "%s/spindle%s%s", xdg, separator, below);
	else if (home && home[0])
		length = snprintf(path, sizeof(path), "%s/.local/state/spindle%s%s", home, separator, below);
	else
		return error_set(err, ERR_NOT_FOUND, "no place to keep results: set SPINDLE_STATE or HOME");
	if (length < 0 || (size_t)length >= sizeof(path))
		return error_set(
			err, ERR_USAGE, "the path of the state directory is longer than %d bytes", CLI_PATH_BYTES - 1);
	if (make) {
		int code = make_directories(path, err);

		if (code)
			return code;
	}
	memcpy(ret_path, path, (size_t)length + 1);
	return 0;
}

static int write_all(int fd, const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t done = write(fd, text, bytes);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done < 0 ? errno : EIO;
		text += done;
		bytes -= (size_t)done;
	}
	return fsync(fd) != 0 ? errno : 0;
}

int cli_file_write(const char *path, const char *text, size_t bytes, struct error *err)
{
	char temporary[CLI_PATH_BYTES + 16];
	int failed = 0, fd;

	if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= (int)sizeof(temporary))
		return error_set(err, ERR_USAGE, "the path %.60s… is too long", path);
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return error_set(err, error_from_errno(errno), "cannot write %s: %s", path, strerror(errno));
	if (fchmod(fd, 0644) != 0)
		failed = errno;
	if (!failed)
		failed = write_all(fd, text, bytes);
	if (close(fd) != 0 && !failed)
		failed = errno;
	if (!failed && rename(temporary, path) != 0)
		failed = errno;
	if (!failed)
		return 0;
	unlink(temporary);
	return error_set(err, error_from_errno(failed), "cannot write %s: %s", path, strerror(failed));
}

/* --- JSON ---------------------------------------------------------------------------------------- */

int cli_json_print(json_t *json, struct error *err)
{
	int code = 0;

	if (!json)
		return error_set(err, ERR_MEMORY, "out of memory");
	if (json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) != 0 || putchar('\n') == EOF)
		code = error_set(err, ERR_IO, "cannot write to standard output: %s", strerror(errno));
	json_decref(json);
	return code;
}

json_t *cli_json_real(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

/* --- links --------------------------------------------------------------------------------------- */

/* Payload rates: 8b/10b leaves Fibre Channel of 2 and 4 Gbit 200 and 400 MB/s. */
int cli_link_parse(const char *text, double *ret_mb_per_s, struct error *err)
{
	static const struct {
		const char *name;
		double mb_per_s;
	} links[] = {{"1GbE", 125}, {"10GbE", 1250}, {"2GFC", 200}, {"4GFC", 400}};

	for (size_t i = 0; i < array_count(links); i++)
		if (strcasecmp(links[i].name, text) == 0) {
			*ret_mb_per_s = links[i].mb_per_s;
			return 0;
		}
	if (real_parse("--link", text, 0.001, 1e9, ret_mb_per_s, NULL) != 0)
		return error_set(
			err, ERR_USAGE, "--link is 1GbE, 10GbE, 2GFC, 4GFC or a number of MB/s, not '%s'", text);
	return 0;
}
