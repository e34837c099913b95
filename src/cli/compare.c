/*
 * compare: each array layout × each test on the disks given, with the limit, the model and a verdict for every figure.
 *
 *   options ── disks looked at ── shown, asked ── virtual clock: a simulated world for each layout, fresh disks in it
 *                                            └─ real clock: one set of open disks, one array after the other on it
 *                                                      └─ result: shown, saved, exit status
 *
 * Every layout uses the same span of every disk, so that all see the same zones of it; the limit of a test is the same
 * pattern on all disks side by side over that span, in the same run. Nothing is written before compare_disks_look has
 * passed every disk and the plan was shown.
 */
#include "compare.h"

#include <errno.h>
#include <locale.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "pool.h"

static const char *const default_layouts[] = {"single", "stripe", "raid10", "raid10-far", "raid5", "raid6", "raid50"};
/* Of pools, with what is behind the +: compression, and the ratio of the payload. */
static const char *const default_pools[] = {"pool:stripe", "pool:mirror", "pool:parity1", "pool:parity2",
	"pool:parity1x2", "pool:parity1+lz4", "pool:parity1+lz4:2"};
static const char *const default_real_layouts[] = {"stripe", "raid10", "raid5"};
static const char default_disks[] = "hdd-7200-2008:8";
static const char default_rig[] = "sata-8x55";

enum {
	OPTION_MODEL = 1,
	OPTION_CLOCK,
	OPTION_LAYOUTS,
	OPTION_STACKS,
	OPTION_TESTS,
	OPTION_PRESET,
	OPTION_OUT,
	OPTION_JSON,
	OPTION_CSV,
	OPTION_MARKDOWN,
	OPTION_FIO_JSON,
	OPTION_PRICE,
	OPTION_LINK,
	OPTION_BUDGET,
	OPTION_DRY_RUN,
	OPTION_DESTROY,
	OPTION_SEED,
	OPTION_YES,
	OPTION_SIZE,
	OPTION_CHUNK,
	OPTION_RIG,
	OPTION_CPU,
	OPTION_CPUS,
	OPTION_FULL,
};

static const struct cli_option options[] = {
	{OPTION_MODEL, "model", 0, "NAME:N", "N memory disks that behave like this model (may be repeated)"},
	{OPTION_CLOCK, "clock", 0, "WHICH", "virtual (predicted), real (measured) or both"},
	{OPTION_LAYOUTS, "layouts", 0, "A,B", "single stripe mirror raid10[-far] raid4 raid5 raid6 raid50 raid5xG …"},
	{OPTION_STACKS, "stacks", 0, "A,B", "storage systems to compare: array, pool"},
	{OPTION_FULL, "full", 0, NULL, "on both clocks: every layout on the real one too"},
	{OPTION_TESTS, "tests", 0, "A,B", "write rewrite read reread randread randwrite randread-128k …"},
	{OPTION_PRESET, "preset", 0, "NAME", "tests of a classic tool: dd iozone bonnie vm database nfs quick"},
	{OPTION_SIZE, "size", 0, "SIZE", "bytes of each disk that the tests use"},
	{OPTION_CHUNK, "chunk", 0, "SIZE", "bytes of one disk before the next one's turn (128KiB)"},
	{OPTION_BUDGET, "budget", 0, "TIME", "on real disks: choose lengths and repeats to end within 30m, 2h …"},
	{OPTION_CPU, "cpu", 0, "WHICH", "CPU in virtual time: measured, or free"},
	{OPTION_CPUS, "cpus", 0, "N", "CPUs in virtual time (2)"},
	{OPTION_SEED, "seed", 0, "N", "of random offsets, payload and virtual time (1)"},
	{OPTION_PRICE, "price", 0, "N", "price of a disk: adds cost per usable TB and per MB/s"},
	{OPTION_LINK, "link", 0, "LINK", "marks cells that 1GbE, 10GbE, 2GFC, 4GFC or a number of MB/s would cap"},
	{OPTION_RIG, "rig", 0, "NAME", "prints what was published for this rig beside the result"},
	{OPTION_DESTROY, "destroy", 0, "DISK", "this disk may be erased though it is not empty; or all-named"},
	{OPTION_YES, "yes", 'y', NULL, "do not ask before erasing what may be erased"},
	{OPTION_DRY_RUN, "dry-run", 'n', NULL, "print every step, write nothing"},
	{OPTION_OUT, "out", 0, "DIR", "directory for the result instead of one below the state directory"},
	{OPTION_JSON, "json", 0, NULL, "the result as JSON on stdout"},
	{OPTION_FIO_JSON, "fio-json", 0, NULL, "the result in the shape of fio's JSON"},
	{OPTION_CSV, "csv", 0, NULL, "the result as CSV, one line a cell"},
	{OPTION_MARKDOWN, "markdown", 0, NULL, "the tables as Markdown"},
	{0},
};

static const struct cli_help help = {
	.verb = "compare",
	.usage = "[OPTION]… [DISK]…",
	.text = "Makes each layout of the disks in turn, runs each test on it, and says which layout to\n"
		"choose for what. Without a DISK: eight modelled disks, on the virtual clock, and three of\n"
		"the layouts again on the real one. A DISK is a block device or a file (what is on it is\n"
		"LOST), a directory (a file is made in it and removed), or mem:SIZE.",
	.options = options,
	.end = "Examples:\n"
	       "  spindle compare\n"
	       "  spindle compare --clock virtual --model hdd-7200-2024:12 --layouts raid6,raid60,raid10\n"
	       "  spindle compare --dry-run /dev/sdb /dev/sdc /dev/sdd /dev/sde\n"
	       "  spindle compare --destroy all-named --budget 30m /dev/sdb /dev/sdc /dev/sdd /dev/sde\n\n"
	       "Exit status: 0 all cells are valid, 1 failed, 2 usage or refused, 3 done but some cells are\n"
	       "not valid, 130 interrupted (what was found is kept).",
};

/* --- options ----------------------------------------------------------------------------------------------------- */

static int word_add(struct compare *c, const char *word, bool is_model, struct error *err)
{
	if (c->word_count == COMPARE_WORDS_MAX)
		return error_set(err, ERR_USAGE, "more than %d disks on the command line", COMPARE_WORDS_MAX);
	c->word_is_model[c->word_count] = is_model;
	c->words[c->word_count++] = word;
	return 0;
}

/* Calls `take` for each word between commas. */
static int list_each(struct compare *c, const char *what, const char *list,
	int (*take)(struct compare *c, const char *word, struct error *err), struct error *err)
{
	if (!*list)
		return error_set(err, ERR_USAGE, "--%s needs names with commas between them, not ''", what);
	while (*list) {
		size_t length = strcspn(list, ",");
		char word[64];
		int status;

		if (length == 0 || length >= sizeof(word))
			return error_set(
				err, ERR_USAGE, "--%s: '%s' is no list of names with commas between them", what, list);
		snprintf(word, sizeof(word), "%.*s", (int)length, list);
		status = take(c, word, err);
		if (status != 0)
			return status;
		list += length;
		if (*list == ',' && !*++list)
			return error_set(err, ERR_USAGE, "--%s: nothing stands behind the last comma", what);
	}
	return 0;
}

/* "raid5", "parity1", "pool:stripe", "pool:parity1+lz4", "pool:parity1+zstd:2" (payload of 2:1). */
static int layout_parse(const char *word, struct compare_layout *ret, struct error *err)
{
	const char *name = word, *plus = strchr(word, '+'), *ratio = plus ? strchr(plus, ':') : NULL;
	size_t length;

	*ret = (struct compare_layout){.compression = "off"};
	ret->is_pool = strncmp(name, "parity", 6) == 0;
	if (strncmp(name, "pool:", 5) == 0 || strncmp(name, "array:", 6) == 0) {
		ret->is_pool = name[0] == 'p';
		name = strchr(name, ':') + 1;
	}
	length = plus ? (size_t)(plus - name) : strlen(name);
	if (length == 0 || length >= sizeof(ret->name))
		return error_set(err, ERR_USAGE, "there is no layout %s", word);
	memcpy(ret->name, name, length);
	if (plus && !ret->is_pool)
		return error_set(err, ERR_USAGE,
			"%s: an array does not compress; 'pool:' stands before the layout of a pool", word);
	if (plus) {
		length = ratio ? (size_t)(ratio - plus - 1) : strlen(plus + 1);
		if (length == 0 || length >= sizeof(ret->compression))
			return error_set(err, ERR_USAGE, "%s: there is no compression '%s'", word, plus + 1);
		memcpy(ret->compression, plus + 1, length);
		ret->compression[length] = 0;
		if (pool_property_check("compression", ret->compression, err)) {
			error_prefix(err, word);
			return ERR_USAGE;
		}
	}
	return ratio ? real_parse("the ratio of the payload", ratio + 1, 1, 100, &ret->ratio, err) : 0;
}

static bool layout_same(const struct compare_layout *a, const struct compare_layout *b)
{
	return strcmp(a->name, b->name) == 0 && a->is_pool == b->is_pool &&
	       strcmp(a->compression, b->compression) == 0 && a->ratio == b->ratio;
}

static int layout_add(struct compare *c, const char *name, struct error *err)
{
	struct compare_layout l;
	int status = layout_parse(name, &l, err);

	if (status != 0)
		return status;
	for (unsigned i = 0; i < c->layout_count; i++)
		if (layout_same(&c->layouts[i], &l))
			return error_set(err, ERR_USAGE, "--layouts names %s twice", name);
	if (c->layout_count == COMPARE_LAYOUTS_MAX)
		return error_set(err, ERR_USAGE, "--layouts: more than %d layouts", COMPARE_LAYOUTS_MAX);
	c->layouts[c->layout_count++] = l;
	c->layouts_named = true;
	return 0;
}

static int test_add(struct compare *c, const char *name, struct error *err)
{
	bool known = false;
	const char *near = cli_nearest(name, workload_compare_tests);

	for (const char *const *t = workload_compare_tests; *t; t++)
		known |= strcmp(*t, name) == 0;
	if (!known && near)
		return error_set(err, ERR_USAGE, "--tests: there is no test '%s'; did you mean '%s'?", name, near);
	if (!known)
		return error_set(err, ERR_USAGE, "--tests: there is no test '%s'; see 'spindle compare --help'", name);
	for (unsigned i = 0; i < c->test_count; i++)
		if (strcmp(c->tests[i], name) == 0)
			return error_set(err, ERR_USAGE, "--tests names %s twice", name);
	if (c->test_count == COMPARE_TESTS_MAX)
		return error_set(err, ERR_USAGE, "--tests: more than %d tests", COMPARE_TESTS_MAX);
	snprintf(c->tests[c->test_count++], sizeof(c->tests[0]), "%.23s", name);
	return 0;
}

static int stack_check(struct compare *c, const char *name, struct error *err)
{
	static const char *const later[] = {"zfs", "zfs-fuse", "md", "lvm", "btrfs", "bcachefs", "ext4", "xfs", "path"};
	bool array = strcmp(name, "array") == 0, pool = strcmp(name, "pool") == 0, both = strcmp(name, "spindle") == 0;

	c->stack_array |= array || both;
	c->stack_pool |= pool || both;
	if (array || pool || both)
		return 0;
	for (size_t i = 0; i < array_count(later); i++)
		if (strcmp(name, later[i]) == 0)
			return error_set(err, ERR_UNSUPPORTED,
				"--stacks: the stack %s is not built into this program yet; array and pool are", name);
	return error_set(err, ERR_USAGE, "--stacks: there is no stack '%s'; array and pool are built in", name);
}

static int clock_set(struct compare *c, const char *value, struct error *err)
{
	c->clock_named = true;
	c->clock_virtual = strcmp(value, "virtual") == 0 || strcmp(value, "both") == 0;
	c->clock_real = strcmp(value, "real") == 0 || strcmp(value, "both") == 0;
	if (!c->clock_virtual && !c->clock_real)
		return error_set(err, ERR_USAGE, "--clock is real, virtual or both, not '%s'", value);
	return 0;
}

static int preset_set(struct compare *c, const char *value, struct error *err)
{
	for (const char *const *p = workload_presets; *p; p++)
		if (strcmp(*p, value) == 0) {
			c->preset = value;
			return 0;
		}
	return error_set(err, ERR_USAGE, "--preset: there is no preset '%s'%s%s%s", value,
		cli_nearest(value, workload_presets) ? "; did you mean '" : "",
		cli_nearest(value, workload_presets) ? cli_nearest(value, workload_presets) : "",
		cli_nearest(value, workload_presets) ? "'?" : "");
}

static int link_set(struct compare *c, const char *value, struct error *err)
{
	snprintf(c->result.link_name, sizeof(c->result.link_name), "%.15s", value);
	return cli_link_parse(value, &c->result.link_mb_per_s, err);
}

static int chunk_set(struct compare *c, const char *value, struct error *err)
{
	int status = size_parse(value, &c->chunk_bytes, err);

	if (status != 0)
		error_prefix(err, "--chunk");
	else if (!is_power_of_two(c->chunk_bytes) || c->chunk_bytes < LAYOUT_CHUNK_MIN ||
		 c->chunk_bytes > LAYOUT_CHUNK_MAX)
		status = error_set(err, ERR_USAGE, "--chunk: %s is no power of two from 4 KiB to 16 MiB", value);
	return status;
}

static int number_set(
	const char *option, const char *value, uint64_t lowest, uint64_t highest, unsigned *ret, struct error *err)
{
	uint64_t number = 0;
	int status = number_parse(option, value, lowest, highest, &number, err);

	if (status == 0)
		*ret = (unsigned)number;
	return status;
}

static int option_take(struct compare *c, int id, const char *value, struct error *err)
{
	switch (id) {
	case CLI_WORD:
		return word_add(c, value, false, err);
	case OPTION_MODEL:
		return word_add(c, value, true, err);
	case OPTION_CLOCK:
		return clock_set(c, value, err);
	case OPTION_LAYOUTS:
		return list_each(c, "layouts", value, layout_add, err);
	case OPTION_STACKS:
		return list_each(c, "stacks", value, stack_check, err);
	case OPTION_FULL:
		c->full = true;
		return 0;
	case OPTION_TESTS:
		return list_each(c, "tests", value, test_add, err);
	case OPTION_PRESET:
		return preset_set(c, value, err);
	case OPTION_OUT:
		c->out_dir = value;
		return 0;
	case OPTION_PRICE:
		return real_parse("--price", value, 0, 1e9, &c->result.price_per_disk, err);
	case OPTION_LINK:
		return link_set(c, value, err);
	case OPTION_BUDGET:
		return duration_parse(value, &c->budget_ns, err);
	case OPTION_DESTROY:
		return cli_destroy_add(&c->destroy, value, err);
	case OPTION_SEED:
		return number_parse("--seed", value, 0, UINT64_MAX - 1, &c->seed, err);
	case OPTION_SIZE:
		return size_parse(value, &c->size_bytes, err);
	case OPTION_CHUNK:
		return chunk_set(c, value, err);
	case OPTION_RIG:
		c->rig = value;
		return strstr(report_rigs(), value)
			       ? 0
			       : error_set(err, ERR_USAGE, "--rig: there is no rig '%s': %s", value, report_rigs());
	case OPTION_CPU:
		c->cpu_free = strcmp(value, "free") == 0;
		return c->cpu_free || strcmp(value, "measured") == 0
			       ? 0
			       : error_set(err, ERR_USAGE, "--cpu is measured or free, not '%s'", value);
	case OPTION_CPUS:
		return number_set("--cpus", value, 1, 1024, &c->cpus, err);
	case OPTION_YES:
		c->yes = true;
		return 0;
	case OPTION_DRY_RUN:
		c->dry_run = true;
		return 0;
	case OPTION_JSON:
		c->json = true;
		return 0;
	case OPTION_FIO_JSON:
		c->fio_json = true;
		return 0;
	case OPTION_CSV:
		c->csv = true;
		return 0;
	case OPTION_MARKDOWN:
		c->markdown = true;
		return 0;
	}
	return error_set(err, ERR_BUG, "option %d has no meaning", id);
}

static int options_check(const struct compare *c, struct error *err)
{
	if (c->json + c->csv + c->markdown + c->fio_json > 1)
		return error_set(err, ERR_USAGE,
			"--json, --fio-json, --csv and --markdown exclude each other: one document goes to stdout");
	if (c->preset && c->test_count)
		return error_set(
			err, ERR_USAGE, "--preset and --tests exclude each other: a preset is a list of tests");
	return 0;
}

/* CLI_HELP, 0, or an error. */
static int options_read(struct compare *c, int argc, char **argv, struct error *err)
{
	struct cli_scan scan;
	const char *value;
	int id, status = 0;

	cli_scan_init(&scan, argc, argv, &help);
	while (status == 0 && (id = cli_scan_next(&scan, &value, err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			return id;
		status = option_take(c, id, value, err);
	}
	return status != 0 ? status : options_check(c, err);
}

/* --- what is left to defaults ------------------------------------------------------------------------------------- */

static bool misfit(const struct compare *c, const struct compare_layout *l, char reason[200])
{
	struct bench_pool_shape shape;
	struct error err = ERROR_INIT;

	if (!l->is_pool)
		return layout_misfit(l->name, compare_disks_of(c, l->name), reason, 200);
	if (bench_pool_layout(l->name, c->disk_count, &shape, &err) == 0)
		return false;
	snprintf(reason, 200, "%.199s", err.text);
	return true;
}

/* Adds a default layout, or the reason why it is not there. */
static int default_add(struct compare *c, const struct compare_layout *l, struct error *err)
{
	char reason[200];

	if (misfit(c, l, reason))
		return result_add_skip(&c->result, l->name, reason, err);
	c->layouts[c->layout_count++] = *l;
	return 0;
}

static int defaults_add(struct compare *c, struct error *err)
{
	int status = 0;

	for (size_t i = 0; c->stack_array && status == 0 && i < array_count(default_layouts); i++) {
		struct compare_layout l = {.compression = "off"};

		snprintf(l.name, sizeof(l.name), "%s", default_layouts[i]);
		status = default_add(c, &l, err);
	}
	for (size_t i = 0; c->stack_pool && status == 0 && i < array_count(default_pools); i++) {
		struct compare_layout l;

		status = layout_parse(default_pools[i], &l, err);
		/* Pairs, as many as there are. */
		if (status == 0 && strcmp(l.name, "mirror") == 0 && c->disk_count > 2 && c->disk_count % 2 == 0)
			snprintf(l.name, sizeof(l.name), "mirrorx%u", c->disk_count / 2);
		if (status == 0)
			status = default_add(c, &l, err);
	}
	return status;
}

static int layouts_choose(struct compare *c, struct error *err)
{
	char reason[200];
	int status;

	/* With --stacks pool alone a name that both have means the pool's. */
	for (unsigned i = 0; i < c->layout_count; i++)
		c->layouts[i].is_pool |= c->stack_pool && !c->stack_array;
	if (!c->stack_pool && !c->stack_array)
		c->stack_pool = c->stack_array = true;
	status = c->layouts_named ? 0 : defaults_add(c, err);
	if (status != 0)
		return status;
	for (unsigned i = 0; c->layouts_named && i < c->layout_count; i++)
		if (misfit(c, &c->layouts[i], reason))
			return error_set(err, ERR_USAGE, "%s", reason);
	if (c->layout_count == 0)
		return error_set(
			err, ERR_USAGE, "no layout fits %u disk%s", c->disk_count, c->disk_count == 1 ? "" : "s");
	return 0;
}

/* On both clocks only a few layouts run again in real time; of a named list without them, all. */
static void clocks_choose(struct compare *c)
{
	bool some = false;

	for (unsigned i = 0; i < c->layout_count; i++) {
		struct compare_layout *l = &c->layouts[i];

		for (size_t k = 0; k < array_count(default_real_layouts); k++)
			l->real_too |= c->full || (!l->is_pool && strcmp(l->name, default_real_layouts[k]) == 0);
		some |= l->real_too;
	}
	for (unsigned i = 0; i < c->layout_count; i++)
		c->layouts[i].real_too |= !some || !c->clock_virtual;
}

static int clock_check(struct compare *c, struct error *err)
{
	if (!c->clock_named) {
		c->clock_real = true;
		c->clock_virtual = c->all_memory;
	}
	if (c->clock_virtual && !c->all_memory)
		return error_set(err, ERR_USAGE,
			"--clock virtual needs memory disks (--model NAME:N or mem:SIZE+model=NAME): real ones have a "
			"time of their own");
	return 0;
}

static void run_begin(struct compare *c)
{
	uint64_t now_ns = os_wall_ns();
	time_t now = (time_t)(now_ns / 1000000000u);
	struct tm tm;

	gmtime_r(&now, &tm);
	strftime(c->result.started, sizeof(c->result.started), "%Y-%m-%dT%H:%M:%SZ", &tm);
	strftime(c->result.id, sizeof(c->result.id), "%Y%m%dT%H%M%SZ", &tm);
	snprintf(c->result.id + strlen(c->result.id), sizeof(c->result.id) - strlen(c->result.id), "-%06x",
		(unsigned)(os_random_u64() & 0xffffff));
	snprintf(c->result.command, sizeof(c->result.command), "%s", cli_command_line());
	snprintf(c->result.version, sizeof(c->result.version), "%s", SPINDLE_VERSION);
	c->result.seed = c->seed;
}

/* --- asking ------------------------------------------------------------------------------------------------------- */

static bool erases_something(const struct compare *c)
{
	for (size_t i = 0; i < c->disks.specs.count; i++)
		if (c->disks.specs.items[i].path && !c->disks.facts[i].is_directory)
			return true;
	return false;
}

static int permission(const struct compare *c, struct error *err)
{
	char eta[SIZE_TEXT_BYTES];

	if (c->all_memory)
		return 0;
	compare_disks_show(c, stderr);
	cli_say("%u layout%s, about %s%s", c->layout_count, c->layout_count == 1 ? "" : "s",
		duration_format(compare_estimate_ns(c), eta),
		c->budget_ns && compare_estimate_ns(c) > c->budget_ns ? ", more than the budget: no test can be shorter"
								      : "");
	if (!erases_something(c) || c->yes || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
		return 0;
	return cli_confirm("What is on the disks above will be lost.", "erase", err);
}

/* Before the first write, that the result can be kept: hours of work and erased disks are too much for finding it out.
 * A result of memory disks is shown all the same. */
static int place_check(const struct compare *c, struct error *err)
{
	char below[CLI_PATH_BYTES];
	const char *path = c->out_dir;
	struct error reason = ERROR_INIT;
	struct stat facts;
	int status = 0;

	if (!path && c->all_memory)
		return 0;
	if (!path)
		status = cli_state_dir("runs", true, below, &reason);
	else if (mkdir(path, 0755) != 0 && errno != EEXIST)
		status = error_set(
			&reason, error_from_errno(errno), "cannot make the directory %s: %s", path, strerror(errno));
	if (status != 0)
		return error_set(
			err, ERR_REFUSED, "%s; the result could not be kept, so nothing was begun", reason.text);
	path = path ? path : below;
	if (stat(path, &facts) == 0 && !S_ISDIR(facts.st_mode))
		return error_set(err, ERR_REFUSED,
			"%s is no directory; the result could not be kept, so nothing was begun", path);
	if (access(path, W_OK | X_OK) != 0)
		return error_set(err, ERR_REFUSED,
			"cannot write to %s: %s; the result could not be kept, so nothing was begun", path,
			strerror(errno));
	return 0;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static void init(struct compare *c)
{
	memset(c, 0, sizeof(*c));
	c->chunk_bytes = LAYOUT_CHUNK_DEFAULT;
	c->seed = 1;
	c->cpus = 2;
	c->result.price_per_disk = c->result.link_mb_per_s = NAN;
}

static void release(struct compare *c)
{
	compare_files_remove(c);
	cli_disks_release(&c->disks);
	cli_destroy_release(&c->destroy);
	result_release(&c->result);
	free(c);
}

/* Everything that needs no write: on success the run may begin. */
static int prepare(struct compare *c, struct error *err)
{
	int status = 0;

	if (c->word_count == 0) {
		status = word_add(c, default_disks, true, err);
		c->rig = c->rig ? c->rig : default_rig;
	}
	if (status == 0)
		status = compare_disks_parse(c, err);
	if (status == 0)
		status = layouts_choose(c, err);
	if (status == 0)
		status = clock_check(c, err);
	if (status == 0)
		clocks_choose(c);
	if (status == 0)
		status = compare_disks_look(c, err);
	return status;
}

/* What is not valid is said in words: a status alone is easily missed. */
static int outcome(const struct compare *c)
{
	unsigned bad = 0, cells = 0, failed = 0;

	for (size_t i = 0; i < c->result.cell_count; i++) {
		failed += c->result.cells[i].verdict == VERDICT_FAILED;
		cells += c->result.cells[i].verdict != VERDICT_SKIPPED;
		bad += c->result.cells[i].verdict != VERDICT_SKIPPED && c->result.cells[i].verdict != VERDICT_VALID;
	}
	if (c->result.interrupted) {
		cli_say("interrupted: the %u cell%s that %s done %s kept", cells, cells == 1 ? "" : "s",
			cells == 1 ? "was" : "were", cells == 1 ? "is" : "are");
		return CLI_INTERRUPTED;
	}
	if (result_all_valid(&c->result))
		return CLI_DONE;
	if (failed > 0 && failed == cells) {
		cli_say("all %u cells failed, each with its reason in the list", cells);
		return CLI_FAILED;
	}
	cli_say("done; %u of %u cells are not valid for comparison, each with its reason in the list, so the exit "
		"status is 3",
		bad, cells);
	return CLI_NOT_VALID;
}

static int run(struct compare *c, struct error *err)
{
	struct compare_limits limits = {.all = {.count = 0}};
	int status = 0;

	bench_host(&c->result.host);
	snprintf(c->result.host.cpu_charge, sizeof(c->result.host.cpu_charge), c->cpu_free ? "free" : "%u CPU%s",
		c->cpus, c->cpus == 1 ? "" : "s");
	cli_progress_begin(&c->progress, compare_phases(c));
	if (c->clock_virtual)
		status = compare_run_virtual(c, &limits, err);
	if (status == 0 && c->clock_real)
		status = compare_run_real(c, &limits, err);
	cli_progress_end(&c->progress);
	c->result.interrupted = status == ERR_INTERRUPTED || os_interrupted();
	return c->result.interrupted ? 0 : status;
}

static int compare(struct compare *c, struct error *err)
{
	struct error save_error = ERROR_INIT;
	int status = place_check(c, err), saved;

	if (status == 0)
		status = compare_files_room(c, err); /* before the question: its answer would be for nothing */
	if (status == 0)
		status = permission(c, err);
	if (status != 0)
		return cli_fail(err);
	run_begin(c);
	status = compare_files_make(c, err);
	if (status == 0)
		status = run(c, err);
	compare_files_remove(c);
	if (status != 0 && c->result.cell_count == 0)
		return cli_fail(err);
	if (status != 0)
		cli_say("the run ended early: %s", err->text);
	saved = compare_save(c, &save_error);
	if (saved != 0)
		cli_say("the result was not saved: %s", save_error.text);
	if (compare_show(c, saved == 0 && status == 0 ? err : &save_error) != 0)
		return CLI_FAILED;
	return status != 0 ? error_exit_status(status) : saved != 0 ? CLI_FAILED : outcome(c);
}

int command_compare(int argc, char **argv)
{
	struct compare *c = malloc(sizeof(*c));
	struct error err = ERROR_INIT;
	int status;

	setlocale(LC_CTYPE, "");
	if (!c) {
		error_set(&err, ERR_MEMORY, "out of memory");
		return cli_fail(&err);
	}
	init(c);
	status = options_read(c, argc, argv, &err);
	if (status == 0)
		status = prepare(c, &err);
	if (status == CLI_HELP) {
		status = CLI_DONE;
	} else if (status != 0) {
		status = cli_fail(&err);
	} else if (c->dry_run) {
		compare_plan_print(c, stdout);
		status = CLI_DONE;
	} else {
		status = compare(c, &err);
	}
	release(c);
	return status;
}
