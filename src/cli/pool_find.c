/*
 * One command, one pool: the disks are found (those named with -d, what lies in directories, else what is remembered),
 * held exclusively, the pool is opened, the command works, the pool is closed. When another process holds the pool (`spindle
 * hold`), the command goes to that process instead.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "pool_cli.h"

int pool_use_path(struct pool_use *u, const char *path, struct error *err)
{
	size_t length = strcspn(path, "/@");

	if (length == 0 || length >= sizeof(u->name))
		return error_set(err, ERR_USAGE, "'%.80s' does not begin with the name of a pool", path);
	memcpy(u->name, path, length);
	u->name[length] = 0;
	return 0;
}

int pool_use_word(struct pool_use *u, const char *word, struct error *err)
{
	if (u->word_count == FIND_WORDS_MAX)
		return error_set(err, ERR_USAGE, "-d is given more than %d times", FIND_WORDS_MAX);
	u->words[u->word_count++] = word;
	return 0;
}

static int read_facts(const struct disk_spec *spec, struct pool_label_facts *ret)
{
	struct disk_open_options options = {.read_only = true};
	struct disk *disk;
	int code = disk_open(spec, &options, &disk, NULL);

	if (code)
		return code;
	code = pool_label_read(disk, ret, NULL);
	disk_close(disk);
	return code;
}

static int candidates(const struct pool_use *u, struct disk_specs *specs, struct error *err)
{
	return find_candidates(&known_pools, u->words, u->word_count, u->name, specs, err);
}

/* The disks of one pool among the candidates. Two pools of one name are told apart by the id. */
static int take_members(struct pool_use *u, struct error *err)
{
	struct disk_specs all = {0};
	char id[33] = "";
	int code = candidates(u, &all, err);

	for (size_t i = 0; !code && i < all.count; i++) {
		struct pool_label_facts facts;

		if (read_facts(&all.items[i], &facts) != 0 ||
			(strcmp(facts.name, u->name) != 0 && strcmp(facts.id, u->name) != 0))
			continue;
		if (id[0] && strcmp(id, facts.id) != 0)
			code = error_set(err, ERR_USAGE,
				"the disks hold two pools named %s, with the ids %s and %s: give the id", u->name, id,
				facts.id);
		memcpy(id, facts.id, sizeof(id));
		if (!code && !find_is_there_already(&u->disks.specs, all.items[i].path))
			code = disk_specs_add(&u->disks.specs, all.items[i].text, err);
	}
	if (!code && !id[0])
		code = error_set(err, ERR_NOT_FOUND, "no disk carries a label of the pool %s", u->name);
	disk_specs_release(&all);
	return code;
}

int pool_use_open(struct pool_use *u, struct error *err)
{
	struct disk_open_options disk_options = {.read_only = u->read_only, .exclusive = true};
	struct pool_open_options options;
	int code;

	u->pool = pool_held(u->name);
	if (u->pool) {
		u->is_held = true;
		return 0;
	}
	if (pool_send(u->name, &u->sent_status)) {
		u->is_sent = true;
		return ERR_BUSY;
	}
	code = take_members(u, err);
	code = code ? code : cli_disks_open(&u->disks, &disk_options, err);
	if (code)
		return code;
	pool_open_options_init(&options);
	options.name = u->name;
	options.read_only = u->read_only;
	options.force = u->force;
	options.rewind = u->rewind;
	if (u->cache_bytes)
		options.tuning.cache_bytes = u->cache_bytes;
	return pool_open(&u->pool, &options, u->disks.disks, (unsigned)u->disks.count, err);
}

int pool_use_look(struct pool_use *u, const struct pool_use *asked, const char *path, struct error *err)
{
	int code;

	*u = *asked;
	u->read_only = true;
	code = pool_use_path(u, path, err);
	return code ? code : pool_use_open(u, err);
}

int pool_use_end(struct pool_use *u, int code, struct error *err)
{
	if (u->pool && !u->is_held) {
		int closed = pool_close(u->pool, err);

		code = code ? code : closed;
	}
	u->pool = NULL;
	cli_disks_release(&u->disks);
	if (u->is_sent)
		return u->sent_status;
	return code == CLI_HELP ? CLI_DONE : code ? cli_fail(err) : CLI_DONE;
}

int pool_find_all(const struct pool_use *u, struct pool_found **ret_list, size_t *ret_count, struct error *err)
{
	struct disk_specs all = {0};
	struct pool_found *list = NULL;
	size_t count = 0;
	int code = candidates(u, &all, err);

	if (!code && !(list = calloc(max_of(all.count, (size_t)1), sizeof(*list))))
		code = error_set(err, ERR_MEMORY, "out of memory");
	for (size_t i = 0; !code && i < all.count; i++) {
		struct pool_label_facts facts;
		size_t k = 0, length;

		if (read_facts(&all.items[i], &facts) != 0)
			continue;
		while (k < count && strcmp(list[k].facts.id, facts.id) != 0)
			k++;
		if (k == count)
			list[count++].facts = facts;
		if (facts.generation > list[k].facts.generation)
			list[k].facts = facts;
		list[k].seen++;
		length = strlen(list[k].paths);
		snprintf(list[k].paths + length, sizeof(list[k].paths) - length, "%s%s", length ? " " : "",
			all.items[i].path);
	}
	disk_specs_release(&all);
	if (code) {
		free(list);
		return code;
	}
	*ret_list = list;
	*ret_count = count;
	return 0;
}

int pool_names_known(char ***ret_names, size_t *ret_count, struct error *err)
{
	return known_names(&known_pools, ret_names, ret_count, err);
}
