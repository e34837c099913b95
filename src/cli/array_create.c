#include <string.h>
#include <strings.h>

#include "array_cli.h"

/*
 * What other volume managers take when nothing is said. Sources, in the order of the table:
 *   svm    "Solaris Volume Manager Administration Guide", Oracle 819-2789, "Background Information for Creating RAID-5
 *          Volumes": interlace 512 KiB (releases before Solaris 10: 16 KiB, Sun 817-2530); every component has a
 *          pre-write area. The guide names no rotation; left-symmetric is taken.
 *   vxvm   "Veritas Volume Manager 5.0 Administrator's Guide", HP 2006, "Volume layouts": stripe unit 64 KiB, RAID-5
 *          16 KiB and left-symmetric; vxassist adds a RAID-5 log.
 *   vinum  512 KiB in the published comparison (data/published); FreeBSD geom_vinum_raid5.c puts parity on disk
 *          n-1-(row mod n) and skips it, which is left-asymmetric; it keeps no log.
 *   md     mdadm(8): chunk 512 KiB, left-symmetric, write-intent bitmap.
 *   lvm    lvcreate(8), lvmraid(7): stripe size 64 KiB, raid5 means raid5_ls, dm-raid keeps a bitmap.
 */
struct like {
	const char *name;
	uint64_t chunk_bytes, parity_chunk_bytes;
	enum layout_rotation rotation;
	enum array_hole hole;
};
static const struct like likes[] = {
	{"svm", 512 << 10, 512 << 10, LAYOUT_LEFT_SYMMETRIC, ARRAY_HOLE_LOG},
	{"vxvm", 64 << 10, 16 << 10, LAYOUT_LEFT_SYMMETRIC, ARRAY_HOLE_LOG},
	{"vinum", 512 << 10, 512 << 10, LAYOUT_LEFT_ASYMMETRIC, ARRAY_HOLE_BITMAP},
	{"md", 512 << 10, 512 << 10, LAYOUT_LEFT_SYMMETRIC, ARRAY_HOLE_BITMAP},
	{"lvm", 64 << 10, 64 << 10, LAYOUT_LEFT_SYMMETRIC, ARRAY_HOLE_BITMAP},
};

enum {
	OPTION_CHUNK = 1,
	OPTION_ROTATION,
	OPTION_HOLE,
	OPTION_LOG,
	OPTION_LIKE,
	OPTION_DESTROY,
	OPTION_DRY_RUN,
	OPTION_FORCE
};

static const struct cli_option options[] = {
	{OPTION_CHUNK, "chunk", 0, "SIZE", "bytes of one disk before the next one's turn (128KiB)"},
	{OPTION_ROTATION, "rotation", 0, "NAME", "left-symmetric, left-asymmetric, right-…"},
	{OPTION_HOLE, "write-hole", 0, "WAY", "log (close it) or bitmap (bound it); log"},
	{OPTION_LOG, "log", 0, "DISK", "put the log on a disk of its own"},
	{OPTION_LIKE, "like", 0, "NAME", "chunk, rotation and log of svm, vxvm, vinum, md, lvm"},
	{OPTION_DESTROY, "destroy", 0, "DISK", "overwrite what this disk holds; may be repeated;"},
	{OPTION_DRY_RUN, "dry-run", 'n', NULL, "check all, say what would be made, write nothing"},
	{OPTION_FORCE, "force", 'f', NULL, NULL},
	{0},
};

static const struct cli_help help = {
	.verb = "array create",
	.usage = "[OPTION]… NAME LAYOUT DISK…",
	.text = "Makes an array of disks, ready at once: no initialisation has to be waited for.\n"
		"LAYOUT: single concat stripe mirror raid10 raid10-far raid10-offset raid01 raid4\n"
		"raid5 raid6 raid50 raid60, with :WIDTH and xG for G groups (raid5x9, mirrorx23).",
	.options = options,
	.end = "--destroy all-named (or -f) stands for all disks named. A disk that is mounted, held\n"
	       "or swapped to is refused in any case.",
};

struct request {
	const char *name, *layout, *chunk, *rotation, *hole, *like, *log;
	bool dry_run;
	struct cli_disks disks; /* the log disk, when there is one, is the last */
	struct cli_destroy destroy;
	struct array_create_options options;
};

static int take_words(struct request *r, int argc, char **argv, struct error *err)
{
	struct cli_scan scan;
	const char *value;
	int id, code = 0;

	cli_scan_init(&scan, argc, argv, &help);
	while (!code && (id = cli_scan_next(&scan, &value, err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			return id;
		switch (id) {
		case OPTION_CHUNK:
			r->chunk = value;
			break;
		case OPTION_ROTATION:
			r->rotation = value;
			break;
		case OPTION_HOLE:
			r->hole = value;
			break;
		case OPTION_LOG:
			r->log = value;
			break;
		case OPTION_LIKE:
			r->like = value;
			break;
		case OPTION_DRY_RUN:
			r->dry_run = true;
			break;
		case OPTION_DESTROY:
			code = cli_destroy_add(&r->destroy, value, err);
			break;
		case OPTION_FORCE:
			code = cli_destroy_add(&r->destroy, "all-named", err);
			break;
		default:
			if (!r->name)
				r->name = value;
			else if (!r->layout)
				r->layout = value;
			else
				code = disk_specs_add(&r->disks.specs, value, err);
		}
	}
	if (code)
		return code;
	if (!r->layout || !r->disks.specs.count)
		return error_set(err, ERR_USAGE,
			"array create needs a name, a layout and disks: spindle array create %s", help.usage);
	if (!array_name_is_good(r->name))
		return error_set(err, ERR_USAGE,
			"'%s' is no name for an array: letters, digits, _ . - and at most 63 of them", r->name);
	return 0;
}

static int apply_like(struct request *r, bool has_parity, struct error *err)
{
	struct array_create_options *o = &r->options;

	if (!r->like)
		return 0;
	for (size_t i = 0; i < array_count(likes); i++) {
		if (strcasecmp(likes[i].name, r->like) != 0)
			continue;
		o->chunk_bytes = has_parity ? likes[i].parity_chunk_bytes : likes[i].chunk_bytes;
		o->rotation = likes[i].rotation;
		o->hole = likes[i].hole;
		return 0;
	}
	return error_set(err, ERR_USAGE, "--like knows svm, vxvm, vinum, md and lvm, not '%s'", r->like);
}

/* What is set explicitly wins over --like. */
static int set_options(struct request *r, unsigned members, struct error *err)
{
	struct array_create_options *o = &r->options;
	char reason[200];
	int code = 0;

	if (layout_misfit(r->layout, members, reason, sizeof(reason)))
		return error_set(err, ERR_USAGE, "%s", reason);
	*o = (struct array_create_options){.name = r->name, .layout = r->layout, .hole = ARRAY_HOLE_LOG};
	code = apply_like(r,
		strncmp(r->layout, "raid4", 5) == 0 || strncmp(r->layout, "raid5", 5) == 0 ||
			strncmp(r->layout, "raid6", 5) == 0,
		err);
	if (!code && r->chunk)
		code = size_parse(r->chunk, &o->chunk_bytes, err);
	if (!code && r->chunk &&
		(!is_power_of_two(o->chunk_bytes) || o->chunk_bytes < LAYOUT_CHUNK_MIN ||
			o->chunk_bytes > LAYOUT_CHUNK_MAX))
		code = error_set(
			err, ERR_USAGE, "the chunk must be a power of two from 4 KiB to 16 MiB, not %s", r->chunk);
	if (!code && r->rotation)
		code = layout_rotation_parse(r->rotation, &o->rotation, err);
	if (!code && r->hole) {
		if (strcmp(r->hole, "log") != 0 && strcmp(r->hole, "bitmap") != 0)
			code = error_set(err, ERR_USAGE, "--write-hole is log or bitmap, not '%s'", r->hole);
		o->hole = strcmp(r->hole, "bitmap") == 0 ? ARRAY_HOLE_BITMAP : ARRAY_HOLE_LOG;
	}
	if (!code && r->log && o->hole == ARRAY_HOLE_BITMAP)
		code = error_set(err, ERR_USAGE, "a log disk is of no use with --write-hole bitmap%s%s",
			r->hole ? "" : ", which --like set: ", r->hole ? "" : r->like);
	return code;
}

/* A known array of this name whose members still carry its label must not be forgotten by accident. */
static int check_name_is_free(const struct request *r, struct error *err)
{
	char **words;
	size_t count;
	int code = known_read(&known_arrays, r->name, &words, &count, NULL);

	if (code)
		return 0;
	for (size_t i = 0; i < count && !err->code; i++) {
		struct disk_specs specs = {0};
		struct disk_open_options o = {.read_only = true};
		struct array_label_facts label;
		struct disk *disk;

		if (disk_specs_add(&specs, words[i], NULL) == 0 && specs.items[0].path &&
			!cli_destroy_names(&r->destroy, specs.items[0].path) &&
			disk_open(&specs.items[0], &o, &disk, NULL) == 0) {
			if (array_label_read(disk, &label, NULL) == 0 && strcmp(label.array_name, r->name) == 0)
				error_set(err, ERR_EXISTS,
					"an array named %s is known already, %s belongs to it; destroy it or take "
					"another name",
					r->name, specs.items[0].path);
			disk_close(disk);
		}
		disk_specs_release(&specs);
	}
	words_free(words, count);
	return err->code;
}

static void say_mixed_sizes(const struct request *r, unsigned members)
{
	uint64_t least = UINT64_MAX, unused = 0;
	const char *smallest = "";
	char size[SIZE_TEXT_BYTES], rest[SIZE_TEXT_BYTES];

	for (unsigned i = 0; i < members; i++)
		if (r->disks.facts[i].size_bytes < least) {
			least = r->disks.facts[i].size_bytes;
			smallest = r->disks.specs.items[i].path;
		}
	for (unsigned i = 0; i < members; i++)
		unused += r->disks.facts[i].size_bytes - least;
	if (unused && strcmp(r->layout, "concat") != 0)
		cli_say("the disks differ in size: %s with %s counts for all, %s of the others stay unused", smallest,
			size_format_binary(least, size), size_format_binary(unused, rest));
}

static int plan(const struct request *r, unsigned members, struct layout *l, struct error *err)
{
	uint64_t data_bytes[LAYOUT_DISKS_MAX];
	uint64_t chunk_bytes = r->options.chunk_bytes ? r->options.chunk_bytes : LAYOUT_CHUNK_DEFAULT;

	if (members > LAYOUT_DISKS_MAX)
		return error_set(err, ERR_USAGE, "an array has at most %d disks, not %u", LAYOUT_DISKS_MAX, members);
	for (unsigned i = 0; i < members; i++) {
		const struct disk_facts *f = &r->disks.facts[i];
		char size[SIZE_TEXT_BYTES];

		data_bytes[i] = array_data_bytes(f->size_bytes, chunk_bytes);
		if (!data_bytes[i])
			return error_set(err, ERR_TOO_SMALL,
				"%s is too small: it has %s, and labels and log leave no room for data", f->path,
				size_format_binary(f->size_bytes, size));
	}
	return layout_init(l, r->layout, members, data_bytes, chunk_bytes, r->options.rotation, err);
}

static void say_plan(const struct request *r, const struct layout *l, const char *done)
{
	char name[32], size[SIZE_TEXT_BYTES], decimal[SIZE_TEXT_BYTES], chunk[SIZE_TEXT_BYTES], failures[64];
	unsigned survived = layout_failures_survived(l);

	if (survived == 0)
		snprintf(failures, sizeof(failures), "no disk may fail");
	else if (survived == 1)
		snprintf(failures, sizeof(failures), "any one disk may fail");
	else
		snprintf(failures, sizeof(failures), "any %u disks may fail", survived);
	cli_say("%s %s: %s over %u disks, %s (%s) usable, chunk %s, %s", r->name, done, layout_name(l, name), l->disks,
		size_format_decimal(layout_capacity_bytes(l), decimal),
		size_format_binary(layout_capacity_bytes(l), size), size_format_binary(l->chunk_bytes, chunk),
		failures);
}

static int create(struct request *r, struct error *err)
{
	unsigned members = (unsigned)r->disks.specs.count;
	struct disk_open_options open_options = {.exclusive = true};
	struct cli_disk_rules rules = {0};
	scoped_free struct layout *l = calloc(1, sizeof(*l));
	int code = set_options(r, members, err);

	if (!l)
		return error_set(err, ERR_MEMORY, "out of memory");
	if (!code && r->log)
		code = disk_specs_add(&r->disks.specs, r->log, err);
	if (!code && r->log && r->disks.specs.count != members + 1)
		code = error_set(
			err, ERR_USAGE, "--log takes one disk, '%s' names %zu", r->log, r->disks.specs.count - members);
	code = code ? code : cli_disks_inspect(&r->disks, &rules, err);
	code = code ? code : cli_destroy_check(&r->destroy, &r->disks, err);
	code = code ? code : check_name_is_free(r, err);
	code = code ? code : cli_disks_guard(&r->disks, &r->destroy, err);
	code = code ? code : plan(r, members, l, err);
	if (code)
		return code;
	say_mixed_sizes(r, members);
	if (r->dry_run) {
		say_plan(r, l, "would be made");
		return 0;
	}
	code = cli_disks_open(&r->disks, &open_options, err);
	if (code)
		return code;
	r->options.log = r->log ? r->disks.disks[members] : NULL;
	/* The guard has seen every label: one that is still there was named with --destroy. */
	r->options.force = true;
	code = array_create(&r->options, r->disks.disks, members, err);
	code = code ? code : known_write(&known_arrays, r->name, &r->disks.specs, err);
	if (!code)
		say_plan(r, l, "is ready");
	return code;
}

int array_verb_create(int argc, char **argv)
{
	struct request r = {0};
	struct error err = ERROR_INIT;
	int code = take_words(&r, argc, argv, &err);

	if (code == 0)
		code = create(&r, &err);
	cli_disks_release(&r.disks);
	cli_destroy_release(&r.destroy);
	return code == CLI_HELP ? CLI_DONE : code ? cli_fail(&err) : CLI_DONE;
}
