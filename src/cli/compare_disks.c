/* The disks of compare: sizes of memory disks, what is refused, files in directories, what the result says of them. */
#include "compare.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MEMORY_DISK_BYTES (512ull << 20) /* sparse; a pool writes in new places */
#define MEMORY_TOTAL_BYTES (4ull << 30)
#define MEMORY_STEP_BYTES (16ull << 20)
#define DISK_BYTES_MIN (32ull << 20)
#define SPAN_MODELLED_BYTES (80ull << 20) /* 1.6 s of a 55 MB/s disk */
#define SPAN_MODELLED_LEAST_BYTES (32ull << 20)
#define SPAN_MODELLED_ALL_BYTES (1ull << 30) /* what many disks share: fresh memory is what their simulation costs */
#define SPAN_REAL_BYTES (1ull << 30)
#define SPAN_STEP_BYTES (16ull << 20) /* the largest block of the tests */
#define FILE_PREFIX "spindle-compare-"
#define SECOND 1000000000ull

/* --- words to specs ----------------------------------------------------------------------------------------------- */

static int parse_with(struct compare *c, uint64_t memory_bytes, struct error *err)
{
	disk_specs_release(&c->disks.specs);
	for (unsigned i = 0; i < c->word_count; i++) {
		int status = c->word_is_model[i] ? disk_specs_add_model(&c->disks.specs, c->words[i], memory_bytes, err)
						 : disk_specs_add(&c->disks.specs, c->words[i], err);

		if (status != 0)
			return status;
	}
	return 0;
}

static bool spec_is_modelled(const struct disk_spec *s)
{
	for (unsigned i = 0; i < s->wrapper_count; i++)
		if (strcmp(s->wrappers[i].kind, "model") == 0)
			return true;
	return false;
}

/* Many modelled disks get less memory each, so that all of them fit into 3 GiB. */
int compare_disks_parse(struct compare *c, struct error *err)
{
	unsigned models = 0;
	int status = parse_with(c, MEMORY_DISK_BYTES, err);

	if (status != 0)
		return status;
	c->disk_count = (unsigned)c->disks.specs.count;
	if (c->disk_count > LAYOUT_DISKS_MAX)
		return error_set(
			err, ERR_USAGE, "%u disks are given, an array has at most %d", c->disk_count, LAYOUT_DISKS_MAX);
	c->all_memory = c->all_modelled = true;
	for (unsigned i = 0; i < c->disk_count; i++) {
		c->all_memory &= c->disks.specs.items[i].path == NULL;
		c->all_modelled &= spec_is_modelled(&c->disks.specs.items[i]);
		models += c->disks.specs.items[i].path == NULL;
	}
	if (models * MEMORY_DISK_BYTES <= MEMORY_TOTAL_BYTES)
		return 0;
	return parse_with(
		c, max_of(round_down_u64(MEMORY_TOTAL_BYTES / models, MEMORY_STEP_BYTES), DISK_BYTES_MIN), err);
}

/* --- sizes -------------------------------------------------------------------------------------------------------- */

static uint64_t spec_bytes(const struct compare *c, size_t i)
{
	const struct disk_spec *s = &c->disks.specs.items[i];

	if (!s->path)
		return s->memory_bytes;
	if (c->disks.facts[i].is_directory)
		return round_up_u64((c->size_bytes ? c->size_bytes : SPAN_REAL_BYTES) * 5 / 4, 1 << 20);
	return c->disks.facts[i].size_bytes;
}

static void sizes_say(const struct compare *c, uint64_t smallest, uint64_t largest)
{
	char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES];

	if (smallest != largest)
		cli_say("the disks differ in size, from %s to %s: of each the smallest one's share is used",
			size_format_decimal(smallest, a), size_format_decimal(largest, b));
}

static int span_choose(struct compare *c, struct error *err)
{
	char size[SIZE_TEXT_BYTES], room[SIZE_TEXT_BYTES];
	uint64_t shared = max_of(SPAN_MODELLED_ALL_BYTES / c->disk_count, SPAN_MODELLED_LEAST_BYTES);
	uint64_t modelled = min_of(SPAN_MODELLED_BYTES, shared);
	uint64_t wanted = c->size_bytes ? c->size_bytes : c->all_modelled || c->all_memory ? modelled : SPAN_REAL_BYTES;

	if (c->size_bytes && c->size_bytes > c->data_bytes)
		return error_set(err, ERR_TOO_SMALL,
			"--size: %s of each disk are more than the %s that the smallest one offers",
			size_format_binary(c->size_bytes, size), size_format_binary(c->data_bytes, room));
	c->span_bytes = round_down_u64(min_of(wanted, c->data_bytes), SPAN_STEP_BYTES);
	if (c->span_bytes == 0)
		return error_set(err, ERR_TOO_SMALL, "%s of each disk are too little: the tests write blocks of 16 MiB",
			size_format_binary(min_of(wanted, c->data_bytes), size));
	return 0;
}

/* Lengths on the real clock. Modelled disks are as steady as their model: one phase of 1.5 s. Real ones get 10 s, below
 * which a figure counts as too short, or what the budget leaves for each cell. */
static void lengths_choose(struct compare *c)
{
	unsigned tests = c->test_count ? c->test_count : 10;
	unsigned cells = (c->layout_count + 1) * tests;

	c->repeats_min = c->repeats_max = 1;
	c->phase_ns = c->all_modelled || c->all_memory ? 3 * SECOND / 2 : 21 * SECOND / 2;
	if (c->budget_ns && !(c->all_modelled || c->all_memory)) {
		uint64_t each_ns = c->budget_ns / cells * 4 / 5;

		c->phase_ns = max_of(min_of(c->phase_ns, each_ns), 6 * SECOND / 10);
		c->repeats_max = (unsigned)min_of(max_of(each_ns / c->phase_ns, 1ull), 10ull);
		c->repeats_min = min_of(c->repeats_max, 3u);
	}
}

int compare_disks_look(struct compare *c, struct error *err)
{
	const struct cli_disk_rules rules = {
		.memory_allowed = true, .directories_allowed = true, .least_bytes = DISK_BYTES_MIN};
	uint64_t largest = 0;
	int status = cli_disks_inspect(&c->disks, &rules, err);

	if (status == 0)
		status = cli_destroy_check(&c->destroy, &c->disks, err);
	if (status == 0)
		status = cli_disks_guard(&c->disks, &c->destroy, err);
	if (status != 0)
		return status;
	c->disk_bytes = UINT64_MAX;
	for (unsigned i = 0; i < c->disk_count; i++) {
		c->disk_bytes = min_of(c->disk_bytes, spec_bytes(c, i));
		largest = max_of(largest, spec_bytes(c, i));
	}
	sizes_say(c, c->disk_bytes, largest);
	if (c->disk_bytes < DISK_BYTES_MIN)
		return error_set(err, ERR_TOO_SMALL, "a disk of %llu bytes is too small: at least 32 MiB are needed",
			(unsigned long long)c->disk_bytes);
	c->data_bytes = array_data_bytes(c->disk_bytes, c->chunk_bytes);
	status = span_choose(c, err);
	lengths_choose(c);
	return status;
}

void compare_disks_show(const struct compare *c, FILE *out)
{
	for (unsigned i = 0; i < c->disk_count; i++) {
		const struct disk_facts *f = &c->disks.facts[i];
		char text[512];

		if (!c->disks.specs.items[i].path)
			continue;
		cli_disk_describe(&c->disks, i, text, sizeof(text));
		if (f->is_directory)
			fprintf(out, "  %s: a file is made in it and removed at the end\n", text);
		else if (f->signature[0])
			fprintf(out, "  %s: ERASED, it holds %s\n", text, f->signature);
		else
			fprintf(out, "  %s: ERASED, it %s\n", text, f->empty ? "is empty" : "holds data");
	}
}

/* --- files in directories ----------------------------------------------------------------------------------------- */

static void boot_id(char text[64])
{
	FILE *in = fopen("/proc/sys/kernel/random/boot_id", "r");

	snprintf(text, 64, "unknown");
	if (in && fgets(text, 64, in))
		text[strcspn(text, "\n")] = 0;
	if (in)
		fclose(in);
}

/* A name of ours: PREFIX BOOT-ID "-" PID "-" INDEX ".disk". Only such files are removed, when the process that made them
 * is gone (another boot, or no such process) and nobody holds a lock on them. */
#define LEFTOVER_TRIES                                                                                                 \
	20 /* the kernel ends what a killed process had under way, and lets go of its locks, a little later */
#define LEFTOVER_TRY_NS 100000000ull

static bool lock_is_free(int fd)
{
	for (unsigned i = 0; i < LEFTOVER_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		if (errno != EWOULDBLOCK)
			return false;
		os_sleep_ns(LEFTOVER_TRY_NS);
	}
	return false;
}

static bool is_leftover(int directory, const char *name, const char *boot)
{
	size_t boot_length = strlen(boot);
	const char *rest = name + strlen(FILE_PREFIX);
	struct stat facts;
	int fd;
	bool free_of_locks;

	if (strncmp(name, FILE_PREFIX, strlen(FILE_PREFIX)) != 0 || strlen(name) < 12 ||
		strcmp(name + strlen(name) - 5, ".disk") != 0)
		return false;
	if (strncmp(rest, boot, boot_length) == 0 && rest[boot_length] == '-') {
		long pid = strtol(rest + boot_length + 1, NULL, 10);

		if (pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM))
			return false;
	}
	fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return false;
	free_of_locks = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && lock_is_free(fd);
	close(fd);
	return free_of_locks;
}

static void leftovers_remove(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	char boot[64];

	if (!directory)
		return;
	boot_id(boot);
	while ((entry = readdir(directory)) != NULL)
		if (is_leftover(dirfd(directory), entry->d_name, boot) &&
			unlinkat(dirfd(directory), entry->d_name, 0) == 0)
			cli_say("%s/%s was left by an earlier run that was killed: removed", path, entry->d_name);
	closedir(directory);
}

/* The need of all files on one file system is held against what is free on it, less 5 %. */
static int room_check(const struct compare *c, size_t index, struct error *err)
{
	const char *path = c->disks.specs.items[index].path;
	char need_text[SIZE_TEXT_BYTES], free_text[SIZE_TEXT_BYTES];
	struct statvfs facts;
	struct stat mine, other;
	uint64_t need = 0, room;

	if (statvfs(path, &facts) != 0 || stat(path, &mine) != 0)
		return error_set(err, error_from_errno(errno), "%s: %s", path, strerror(errno));
	for (size_t i = 0; i < c->disks.specs.count; i++)
		if (c->disks.facts[i].is_directory && stat(c->disks.specs.items[i].path, &other) == 0 &&
			other.st_dev == mine.st_dev) {
			need += spec_bytes(c, i);
			if (i < index)
				cli_say("%s and %s lie on one file system: they share a disk, so the figures will show "
					"it",
					c->disks.specs.items[i].path, path);
		}
	room = (uint64_t)facts.f_bavail * facts.f_frsize;
	if (need > room / 20 * 19)
		return error_set(err, ERR_REFUSED,
			"%s: %s are needed there, but only %s are free, of which 5 %% are left alone", path,
			size_format_binary(need, need_text), size_format_binary(room, free_text));
	return 0;
}

static int file_make(struct compare *c, size_t index, struct error *err)
{
	struct disk_spec *spec = &c->disks.specs.items[index];
	struct compare_file *f = &c->files[c->file_count];
	char boot[64];
	int fd, failed;

	boot_id(boot);
	if (snprintf(f->path, sizeof(f->path), "%s/" FILE_PREFIX "%s-%ld-%zu.disk", spec->path, boot, (long)getpid(),
		    index) >= (int)sizeof(f->path))
		return error_set(err, ERR_USAGE, "the path %.60s… is too long", spec->path);
	fd = open(f->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return error_set(err, error_from_errno(errno), "cannot make %s: %s", f->path, strerror(errno));
	c->file_count++;
	failed = posix_fallocate(fd, 0, (off_t)spec_bytes(c, index));
	close(fd);
	if (failed)
		return error_set(err, error_from_errno(failed), "%s: %s", f->path, strerror(failed));
	return 0;
}

int compare_files_room(const struct compare *c, struct error *err)
{
	int status = 0;

	for (unsigned i = 0; i < c->disk_count; i++)
		if (c->disks.facts[i].is_directory)
			leftovers_remove(c->disks.specs.items[i].path);
	for (unsigned i = 0; status == 0 && i < c->disk_count; i++)
		if (c->disks.facts[i].is_directory)
			status = room_check(c, i, err);
	return status;
}

int compare_files_make(struct compare *c, struct error *err)
{
	int status = 0;

	c->files = calloc(max_of(c->disk_count, 1u), sizeof(*c->files));
	if (!c->files)
		return error_set(err, ERR_MEMORY, "out of memory");
	for (unsigned i = 0; status == 0 && i < c->disk_count; i++) {
		struct disk_spec *spec = &c->disks.specs.items[i];
		char *path;

		if (!c->disks.facts[i].is_directory)
			continue;
		status = file_make(c, i, err);
		if (status != 0)
			break;
		path = strdup(c->files[c->file_count - 1].path);
		if (!path)
			return error_set(err, ERR_MEMORY, "out of memory");
		free(spec->path);
		spec->path = path;
	}
	return status;
}

/* The label of the last array: what is left on a disk should not look like an array of somebody's. */
static void label_remove(const struct disk_spec *spec)
{
	const struct disk_open_options options = {.exclusive = true};
	struct disk_spec bare = *spec; /* without the wrappers, faults and traces among them */
	struct array_label_facts label;
	struct disk *disk;

	bare.wrapper_count = 0;
	if (disk_open(&bare, &options, &disk, NULL) != 0)
		return;
	if (array_label_read(disk, &label, NULL) == 0 && strcmp(label.array_name, "compare") == 0)
		array_label_clear(disk, NULL, NULL);
	disk_close(disk);
}

void compare_files_remove(struct compare *c)
{
	cli_disks_close(&c->disks);
	for (size_t i = 0; c->files && c->disks.facts && i < c->disks.specs.count; i++)
		if (c->disks.specs.items[i].path && !c->disks.facts[i].is_directory)
			label_remove(&c->disks.specs.items[i]);
	for (size_t i = 0; i < c->file_count; i++)
		if (unlink(c->files[i].path) != 0 && errno != ENOENT)
			cli_say("cannot remove %s: %s", c->files[i].path, strerror(errno));
	free(c->files);
	c->files = NULL;
	c->file_count = 0;
}

/* --- into the result ---------------------------------------------------------------------------------------------- */

#define COPY(to, from) snprintf((to), sizeof(to), "%s", (from) ? (from) : "")

/* In the place of a model: eight files are eight of a kind, and so are eight loop devices over different files. */
static void kind_note(const struct compare *c, unsigned index, struct result_disk *d)
{
	bool loop = strncmp(d->model, "loop of ", 8) == 0, path = c->disks.specs.items[index].path != NULL;

	if (loop && !d->note[0])
		COPY(d->note, d->model);
	if (loop || !d->model[0])
		COPY(d->model, loop                                    ? "loop device"
			       : !path                                 ? "memory disk"
			       : c->disks.facts[index].is_block_device ? "block device"
								       : "file");
}

/* When most disks are open for the first time; the disks of a later world are the same ones again. */
int compare_disks_note(struct compare *c, struct disk *const *disks, unsigned count, struct error *err)
{
	if (c->result.disk_count >= count)
		return 0;
	free(c->result.disks);
	c->result.disk_count = 0;
	c->result.disks = calloc(max_of(count, 1u), sizeof(*c->result.disks));
	if (!c->result.disks)
		return error_set(err, ERR_MEMORY, "out of memory");
	c->result.disk_count = count;
	for (unsigned i = 0; i < count; i++) {
		const struct disk_traits *t = disk_traits(disks[i]);
		struct result_disk *d = &c->result.disks[i];

		COPY(d->name, t->name);
		COPY(d->spec, t->spec);
		COPY(d->model, t->model);
		COPY(d->serial, t->serial);
		COPY(d->engine, t->engine);
		COPY(d->note, t->note);
		kind_note(c, i, d);
		d->size_bytes = t->size_bytes;
		d->nominal_bytes = t->nominal_bytes;
		d->logical_bytes = t->logical_bytes;
		d->physical_bytes = t->physical_bytes;
		d->direct = t->direct;
		d->rotating = t->rotating;
		d->modelled = t->is_modelled;
		d->alone_mb_per_s = d->together_mb_per_s = d->random_iops = d->flush_ms = NAN;
	}
	return 0;
}
