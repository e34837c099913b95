/*
 * create, destroy and rename. As in zpool and zfs: a word without a slash is a pool and takes groups of disks, one with a
 * slash is a dataset; -V SIZE makes it a volume.
 */
#include <stdio.h>
#include <string.h>

#include "pool_cli.h"

enum {
	OPTION_DRY_RUN = 1,
	OPTION_FORCE,
	OPTION_PROPERTY,
	OPTION_VOLUME,
	OPTION_SPARSE,
	OPTION_BLOCK,
	OPTION_DISKS,
	OPTION_DESTROY,
	OPTION_RECURSIVE
};

static const struct cli_option create_options[] = {
	{OPTION_DRY_RUN, "dry-run", 'n', NULL, "check all, say what would be made, write nothing"},
	{OPTION_FORCE, "force", 'f', NULL, "overwrite what the disks hold; mixed redundancy"},
	{OPTION_DESTROY, "destroy", 0, "DISK", "overwrite what this disk holds; may be repeated"},
	{OPTION_PROPERTY, "property", 'o', "NAME=VALUE", "set a property; may be repeated"},
	{OPTION_VOLUME, "volume", 'V', "SIZE", "make a volume of this size"},
	{OPTION_SPARSE, "sparse", 's', NULL, "do not reserve the volume's space"},
	{OPTION_BLOCK, "volblocksize", 'b', "SIZE", "bytes of the volume's records (16KiB)"},
	{OPTION_DISKS, "disks", 'd', "DISK", "for datasets: where the pool's disks are"},
	{0},
};
static const struct cli_help create_help = {
	.verb = "create",
	.usage = "[OPTION]… POOL [GROUP] DISK… | POOL/DATASET | -V SIZE POOL/VOLUME",
	.text = "Makes a pool, ready at once, or a dataset or volume in one. GROUP, before its disks:\n"
		"mirror, parity1 parity2 parity3 (raidz raidz2 raidz3 are taken for them), with :WIDTH for\n"
		"stripes narrower than the group. Disks without a group are striped.",
	.options = create_options,
	.end = "A disk that is mounted, held or swapped to is refused in any case.",
};

#define PROPERTIES_MAX 32

struct request {
	const char *path;
	const char *properties[PROPERTIES_MAX + 1];
	unsigned property_count;
	uint64_t volume_bytes, record_bytes;
	bool dry_run, force, sparse, has_volume;
	struct cli_destroy destroy;
	struct pool_use use;
	struct pool_vdev vdevs[128];
	unsigned vdev_count;
};

static int vdev_begin(struct request *r, const char *word, struct pool_vdev *ret, struct error *err)
{
	static const struct {
		const char *name, *kind;
		unsigned parity;
	} kinds[] = {{"mirror", "mirror", 0}, {"parity", "parity1", 1}, {"parity1", "parity1", 1},
		{"parity2", "parity2", 2}, {"parity3", "parity3", 3}, {"raidz", "parity1", 1}, {"raidz1", "parity1", 1},
		{"raidz2", "parity2", 2}, {"raidz3", "parity3", 3}};
	size_t length = strcspn(word, ":");

	for (size_t i = 0; i < array_count(kinds); i++) {
		uint64_t width = 0;

		if (strlen(kinds[i].name) != length || strncmp(word, kinds[i].name, length) != 0)
			continue;
		if (word[length] == ':' && i == 0)
			return error_set(
				err, ERR_USAGE, "%s: a mirror has no width, all of its disks hold the same", word);
		if (word[length] == ':' &&
			number_parse("the width of a stripe", word + length + 1, kinds[i].parity + 1, 32, &width, err))
			return err->code;
		*ret = (struct pool_vdev){.parity = kinds[i].parity,
			.width = (unsigned)width,
			.first = (unsigned)r->use.disks.specs.count};
		snprintf(ret->kind, sizeof(ret->kind), "%s", kinds[i].kind);
		return 1;
	}
	return 0;
}

static bool is_later_word(const char *word)
{
	return strcmp(word, "spare") == 0 || strcmp(word, "log") == 0 || strcmp(word, "cache") == 0 ||
	       strcmp(word, "special") == 0 || strcmp(word, "dedup") == 0 || strncmp(word, "draid", 5) == 0;
}

/* A word behind the pool's name: the begin of a group, or a disk of the one before it. */
static int take_group_word(struct request *r, const char *word, struct error *err)
{
	struct pool_vdev next;
	size_t before = r->use.disks.specs.count;
	int code = vdev_begin(r, word, &next, err);

	if (code < 0)
		return code;
	if (code == 0 && is_later_word(word))
		return error_set(err, ERR_UNSUPPORTED, "groups of the kind '%s' are not built yet", word);
	if (code == 0 && (r->vdev_count == 0 || strcmp(r->vdevs[r->vdev_count - 1].kind, "disk") == 0))
		next = (struct pool_vdev){.kind = "disk", .width = 1, .first = (unsigned)before}, code = 2;
	if (code && r->vdev_count == array_count(r->vdevs))
		return error_set(err, ERR_USAGE, "a pool has at most %zu groups", array_count(r->vdevs));
	if (code)
		r->vdevs[r->vdev_count++] = next;
	if (code == 1)
		return 0;
	code = disk_specs_add(&r->use.disks.specs, word, err);
	r->vdevs[r->vdev_count - 1].count += (unsigned)(r->use.disks.specs.count - before);
	return code;
}

/* Plain disks are a group each; a mirror's parity is what its copies make it. */
static int finish_groups(struct request *r, struct error *err)
{
	struct pool_vdev done[array_count(r->vdevs)];
	unsigned count = 0;

	for (unsigned i = 0; i < r->vdev_count; i++) {
		struct pool_vdev *v = &r->vdevs[i];
		bool plain = strcmp(v->kind, "disk") == 0;

		if (v->count == 0)
			return error_set(err, ERR_USAGE, "no disks stand behind '%s'", v->kind);
		for (unsigned k = 0; k < (plain ? v->count : 1); k++) {
			if (count == array_count(done))
				return error_set(err, ERR_USAGE, "a pool has at most %zu groups", array_count(done));
			done[count] = *v;
			if (plain)
				done[count] = (struct pool_vdev){
					.kind = "disk", .width = 1, .first = v->first + k, .count = 1};
			else if (strcmp(v->kind, "mirror") == 0) {
				done[count].parity = v->count - 1;
				done[count].width = v->count;
				if (v->count < 2)
					return error_set(
						err, ERR_USAGE, "a mirror needs at least 2 disks, not %u", v->count);
			}
			count++;
		}
	}
	memcpy(r->vdevs, done, count * sizeof(*done));
	r->vdev_count = count;
	return 0;
}

static int take_words(struct request *r, int argc, char **argv, struct error *err)
{
	struct cli_scan scan;
	const char *value;
	int id, code = 0;

	cli_scan_init(&scan, argc, argv, &create_help);
	while (!code && (id = cli_scan_next(&scan, &value, err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			return id;
		switch (id) {
		case OPTION_DRY_RUN:
			r->dry_run = true;
			break;
		case OPTION_FORCE:
			r->force = true;
			break;
		case OPTION_DESTROY:
			code = cli_destroy_add(&r->destroy, value, err);
			break;
		case OPTION_PROPERTY:
			if (r->property_count == PROPERTIES_MAX || !strchr(value, '='))
				code = error_set(err, ERR_USAGE, "'%s' is not NAME=VALUE", value);
			else
				r->properties[r->property_count++] = value;
			break;
		case OPTION_VOLUME:
			r->has_volume = true;
			code = size_parse(value, &r->volume_bytes, err);
			break;
		case OPTION_SPARSE:
			r->sparse = true;
			break;
		case OPTION_BLOCK:
			code = size_parse(value, &r->record_bytes, err);
			break;
		case OPTION_DISKS:
			code = pool_use_word(&r->use, value, err);
			break;
		default:
			if (!r->path)
				r->path = value;
			else if (strchr(r->path, '/'))
				code = error_set(err, ERR_USAGE,
					"%s is a dataset and takes no disks, but '%s' was given", r->path, value);
			else
				code = take_group_word(r, value, err);
		}
	}
	if (code)
		return code;
	if (!r->path)
		return error_set(err, ERR_USAGE, "create needs a name: spindle create %s", create_help.usage);
	if (r->has_volume && !strchr(r->path, '/'))
		return error_set(err, ERR_USAGE, "a volume is named POOL/VOLUME, not '%s'", r->path);
	if (!r->has_volume && (r->sparse || r->record_bytes))
		return error_set(err, ERR_USAGE, "-s and -b are for volumes: -V SIZE is missing");
	return pool_use_path(&r->use, r->path, err);
}

static void say_plan(const struct request *r, const struct pool_plan *plan, const char *done)
{
	char usable[SIZE_TEXT_BYTES], decimal[SIZE_TEXT_BYTES];

	cli_say("%s %s: %zu disk%s in %u group%s, %s (%s) usable, %s", r->path, done, r->use.disks.specs.count,
		r->use.disks.specs.count == 1 ? "" : "s", r->vdev_count, r->vdev_count == 1 ? "" : "s",
		size_format_decimal(plan->usable_bytes, decimal), size_format_binary(plan->usable_bytes, usable),
		plan->failures_survived == 0   ? "no disk may fail"
		: plan->failures_survived == 1 ? "any one disk may fail"
		: plan->failures_survived == 2 ? "any 2 disks may fail"
					       : "any 3 disks or more may fail");
	for (unsigned i = 0; r->dry_run && i < r->vdev_count; i++) {
		printf("%s%s", r->vdevs[i].kind, r->vdevs[i].width && r->vdevs[i].width < r->vdevs[i].count ? ":" : "");
		if (r->vdevs[i].width && r->vdevs[i].width < r->vdevs[i].count)
			printf("%u", r->vdevs[i].width);
		for (unsigned k = 0; k < r->vdevs[i].count; k++)
			printf(" %s", r->use.disks.specs.items[r->vdevs[i].first + k].text);
		printf("\n");
	}
}

static int set_properties(struct pool *p, const struct request *r, struct error *err)
{
	int code = 0;

	for (unsigned i = 0; !code && i < r->property_count; i++) {
		const char *equals = strchr(r->properties[i], '=');
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)min_of(equals - r->properties[i], (ptrdiff_t)63),
			r->properties[i]);
		code = pool_property_set(p, r->path, name, equals + 1, err);
	}
	return code;
}

/* The pool exists once its labels are there; what was asked beyond that is done on the open pool. */
static int begin_pool(struct request *r, struct error *err)
{
	struct pool_open_options options;
	int code;

	pool_open_options_init(&options);
	options.name = r->path;
	code = pool_open(&r->use.pool, &options, r->use.disks.disks, (unsigned)r->use.disks.count, err);
	code = code ? code : set_properties(r->use.pool, r, err);
	return code ? code : pool_history_add(r->use.pool, cli_command_line(), err);
}

static int create_pool(struct request *r, struct error *err)
{
	struct disk_open_options open_options = {.exclusive = true};
	struct cli_disk_rules rules = {.least_bytes = 16u << 20};
	struct pool_create_options o = {.name = r->path, .vdevs = r->vdevs, .force = r->force};
	struct pool_plan plan;
	char **words;
	size_t count;
	int code = finish_groups(r, err);

	if (!code && !r->vdev_count)
		code = error_set(err, ERR_USAGE, "a pool needs disks: spindle create %s", create_help.usage);
	if (!code && r->force)
		code = cli_destroy_add(&r->destroy, "all-named", err);
	code = code ? code : cli_disks_inspect(&r->use.disks, &rules, err);
	code = code ? code : cli_destroy_check(&r->destroy, &r->use.disks, err);
	if (!code && known_read(&known_pools, r->path, &words, &count, NULL) == 0) {
		words_free(words, count);
		if (!r->force)
			code = error_set(err, ERR_EXISTS,
				"a pool named %s is known already; export or destroy it, or take another name",
				r->path);
	}
	code = code ? code : cli_disks_guard(&r->use.disks, &r->destroy, err);
	if (code)
		return code;
	o.vdev_count = r->vdev_count;
	code = cli_disks_open(&r->use.disks, &open_options, err);
	code = code ? code : pool_create_plan(&o, r->use.disks.disks, (unsigned)r->use.disks.count, &plan, err);
	if (!code && r->dry_run)
		say_plan(r, &plan, "would be made");
	if (code || r->dry_run)
		return code;
	/* The guard has seen every label: one that is still there was named with --destroy. */
	o.force = true;
	code = pool_create(&o, r->use.disks.disks, (unsigned)r->use.disks.count, err);
	code = code ? code : known_write(&known_pools, r->path, &r->use.disks.specs, err);
	code = code ? code : begin_pool(r, err);
	if (!code)
		say_plan(r, &plan, "is ready");
	return code;
}

static int create_dataset(struct request *r, struct error *err)
{
	int code;

	if (r->force || r->dry_run)
		return error_set(err, ERR_USAGE, "-f and -n are for pools, %s is a dataset", r->path);
	code = pool_use_open(&r->use, err);
	if (code)
		return code;
	code = r->has_volume ? pool_volume_create(r->use.pool, r->path, r->volume_bytes,
				       r->record_bytes <= UINT32_MAX ? (uint32_t)r->record_bytes : UINT32_MAX,
				       r->sparse, r->property_count ? r->properties : NULL, err)
			     : pool_dataset_create(r->use.pool, r->path, r->property_count ? r->properties : NULL, err);
	return code ? code : pool_history_add(r->use.pool, cli_command_line(), err);
}

int command_create(int argc, char **argv)
{
	scoped_free struct request *r = calloc(1, sizeof(*r));
	struct error err = ERROR_INIT;
	int code = r ? take_words(r, argc, argv, &err) : error_set(&err, ERR_MEMORY, "out of memory");

	if (!r)
		return cli_fail(&err);
	if (!code)
		code = strchr(r->path, '/') ? create_dataset(r, &err) : create_pool(r, &err);
	cli_destroy_release(&r->destroy);
	return pool_use_end(&r->use, code, &err);
}

/* --- destroy, rename ------------------------------------------------------------------------------------- */

static const struct cli_option destroy_options[] = {
	{OPTION_DISKS, "disks", 'd', "DISK", "a member, or a directory that holds them; repeated"},
	{OPTION_RECURSIVE, "recursive", 'r', NULL, "with all that is below, snapshots too"},
	{OPTION_FORCE, "force", 'f', NULL, "a pool, without the question"},
	{0},
};
static const struct cli_help destroy_help = {
	.verb = "destroy",
	.usage = "[OPTION]… POOL | POOL/DATASET | POOL/DATASET@SNAPSHOT",
	.text = "Destroys a pool (its labels are cleared; asks on a terminal), a dataset or a snapshot.",
	.options = destroy_options,
};

static int destroy_pool(struct pool_use *u, bool force, struct error *err)
{
	char question[400];
	int code = 0;

	if (u->is_held)
		return error_set(err, ERR_BUSY, "%s is held open by this process; let it go first", u->name);
	if (!force) {
		snprintf(question, sizeof(question), "All data of the pool %s is lost.", u->name);
		code = cli_confirm(question, u->name, err);
		if (code == ERR_USAGE) {
			error_clear(err);
			code = error_set(err, ERR_USAGE,
				"destroying the pool %s needs -f where there is no terminal to ask on", u->name);
		}
	}
	if (!code) {
		code = pool_destroy(u->pool, err);
		u->pool = NULL;
		known_forget(&known_pools, u->name);
	}
	return code;
}

int command_destroy(int argc, char **argv)
{
	scoped_free struct pool_use *u = calloc(1, sizeof(*u));
	struct error err = ERROR_INIT;
	struct cli_scan scan;
	const char *value, *path = NULL;
	bool recursive = false, force = false;
	int id, code = u ? 0 : error_set(&err, ERR_MEMORY, "out of memory");

	if (!u)
		return cli_fail(&err);
	cli_scan_init(&scan, argc, argv, &destroy_help);
	while (!code && (id = cli_scan_next(&scan, &value, &err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			code = id;
		else if (id == OPTION_DISKS)
			code = pool_use_word(u, value, &err);
		else if (id == OPTION_RECURSIVE)
			recursive = true;
		else if (id == OPTION_FORCE)
			force = true;
		else if (path)
			code = error_set(&err, ERR_USAGE, "destroy takes one name, but '%s' was given too", value);
		else
			code = pool_use_path(u, path = value, &err);
	}
	if (!code && !path)
		code = error_set(&err, ERR_USAGE, "destroy needs the name of a pool, dataset or snapshot");
	code = code ? code : pool_use_open(u, &err);
	if (!code && strpbrk(path, "/@")) {
		code = pool_dataset_destroy(u->pool, path, recursive, &err);
		code = code ? code : pool_history_add(u->pool, cli_command_line(), &err);
	} else if (!code)
		code = destroy_pool(u, force, &err);
	return pool_use_end(u, code, &err);
}
