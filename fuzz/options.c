/*
 * Any words on the command line: each parser takes them or refuses them with a sentence. (The grammar of a DISK has a
 * target of its own.)
 */
#include <string.h>

#include "bench.h"
#include "cli.h"
#include "layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_answer(int code, const struct error *err)
{
	sp_assert(code <= 0);
	sp_assert(code == 0 || (err->code == code && err->text[0]));
}

static void check_model(const char *word)
{
	struct disk_specs list = {0};
	struct error err = ERROR_INIT;
	int code = disk_specs_add_model(&list, word, 1 << 20, &err);

	check_answer(code, &err);
	sp_assert((code == 0) == (list.count > 0));
	disk_specs_release(&list);
}

static void check_word(const char *word)
{
	static const uint64_t sizes[LAYOUT_DISKS_MAX] = {[0 ... LAYOUT_DISKS_MAX - 1] = 64u << 20};
	static struct layout layout;
	struct error err = ERROR_INIT;
	enum layout_rotation rotation;
	struct payload payload;
	uint64_t number;
	char reason[200];
	int code;

	check_answer(code = size_parse(word, &number, &err), &err);
	error_clear(&err);
	check_answer(code = duration_parse(word, &number, &err), &err);
	error_clear(&err);
	check_answer(code = number_parse("word", word, 3, 1000, &number, &err), &err);
	sp_assert(code || (number >= 3 && number <= 1000));
	error_clear(&err);
	check_answer(layout_rotation_parse(word, &rotation, &err), &err);
	error_clear(&err);
	check_answer(payload_parse(word, &payload, &err), &err);
	for (unsigned disks = 1; disks <= 12; disks++) {
		bool misfit = layout_misfit(word, disks, reason, sizeof(reason));

		error_clear(&err);
		code = layout_init(&layout, word, disks, sizes, 0x10000, LAYOUT_LEFT_SYMMETRIC, &err);
		check_answer(code, &err);
		sp_assert(misfit == (code != 0));
		sp_assert(code || layout_check(&layout, NULL) == 0);
	}
	check_model(word);
}

static void check_options(int argc, char **argv)
{
	static const struct cli_option options[] = {
		{1, "chunk", 'c', "SIZE", "x"}, {2, "json", 'j', NULL, "x"}, {3, "destroy", 'f', NULL, NULL}, {0}};
	static const struct cli_help help = {.verb = "verb", .usage = "", .text = "", .options = options};
	struct error err = ERROR_INIT;
	struct cli_scan scan;
	const char *value;
	int id, steps = 0;

	cli_scan_init(&scan, argc, argv, &help);
	while ((id = cli_scan_next(&scan, &value, &err)) > 0 && id != CLI_HELP) {
		sp_assert(id == CLI_WORD || (id >= 1 && id <= 3));
		sp_assert((value != NULL) == (id == CLI_WORD || id == 1));
		sp_assert(steps++ < 10000);
	}
	if (id < 0)
		check_answer(id, &err);
}

/* Words are lines. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[4096], *argv[64] = {"verb"}, *next = text;
	int argc = 1;

	size = min_of(size, sizeof(text) - 1);
	if (size)
		memcpy(text, data, size);
	text[size] = 0;
	while (argc < 63 && next) {
		argv[argc] = strsep(&next, "\n");
		/* "--help" and -h print: not here. */
		if (strncmp(argv[argc], "--help", 6) != 0 && (argv[argc][0] != '-' || !strchr(argv[argc], 'h')))
			argc++;
	}
	argv[argc] = NULL;
	for (int i = 1; i < argc; i++)
		check_word(argv[i]);
	check_options(argc, argv);
	return 0;
}
