/*
 * spec: the DISK grammar of the command line (docs/disks.md).
 *
 *     DISK    = ( PATH | "mem:" SIZE ) { "+" KIND "=" VALUE } [ "*" N ]
 *     KIND    = "model" | "fault" | "trace"
 *
 * A '+' begins a wrapper when a small word and '=' follow, so most paths with a '+' in them need no care. Values
 * are checked here, before any disk is touched.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define REPEAT_MAX 256

static const struct {
	const char *kind;
	int (*check)(const char *args, struct error *err);
	const char *value_name;
} kinds[] = {
	{"model", disk__model_check, "model"},
	{"fault", disk__fault_check, "kind of fault"},
	{"trace", disk__trace_check, "file"},
};

static void spec_release(struct disk_spec *s)
{
	free(s->text);
	free(s->name);
	free(s->path);
	*s = (struct disk_spec){0};
}

void disk_specs_release(struct disk_specs *list)
{
	for (size_t i = 0; i < list->count; i++)
		spec_release(&list->items[i]);
	free(list->items);
	*list = (struct disk_specs){0};
}

/* --- cutting the word apart -------------------------------------------------------------------------- */

static bool is_memory(const char *word)
{
	return strncmp(word, "mem:", 4) == 0;
}

static size_t word_length(const char *p)
{
	return strspn(p, "abcdefghijklmnopqrstuvwxyz_");
}

static bool is_kind(const char *p, size_t length)
{
	for (size_t i = 0; i < array_count(kinds); i++)
		if (strlen(kinds[i].kind) == length && memcmp(kinds[i].kind, p, length) == 0)
			return true;
	return false;
}

static bool begins_wrapper(const char *word, const char *plus)
{
	size_t length = word_length(plus + 1);
	char after = plus[1 + length];
	if (is_memory(word) && !memchr(word, '+', (size_t)(plus - word)))
		return true; /* a size has no '+' in it */
	if (length == 0)
		return false;
	return after == '=' || ((after == '\0' || after == '+') && is_kind(plus + 1, length));
}

/* The first '+' from `p` on that begins a wrapper, or the end of the word. */
static const char *next_wrapper(const char *word, const char *p)
{
	for (; *p; p++)
		if (*p == '+' && begins_wrapper(word, p))
			break;
	return p;
}

static int add_wrapper(struct disk_spec *s, const char *word, const char *plus, const char *end, struct error *err)
{
	const char *kind = plus + 1;
	size_t kind_length = word_length(kind);
	int shown = (int)min_of(kind_length, (size_t)32);
	if (!is_kind(kind, kind_length))
		return error_set(err, ERR_USAGE,
			"%.128s: '+%.*s' is no wrapper of a disk; there are +model=, +fault= and +trace=", word,
			shown ? shown : (int)min_of((size_t)(end - kind), (size_t)32), kind);
	size_t i = 0;
	while (strncmp(kinds[i].kind, kind, kind_length) != 0)
		i++;
	const char *value = kind + kind_length + 1;
	if (kind[kind_length] != '=' || value == end)
		return error_set(err, ERR_USAGE, "%.128s: +%s lacks its value; write +%s=%s", word, kinds[i].kind,
			kinds[i].kind,
			i == 0   ? "NAME"
			: i == 1 ? "KIND"
				 : "FILE");
	if (s->wrapper_count == DISK_LAYERS_MAX)
		return error_set(err, ERR_USAGE, "%.128s: more than %d wrappers", word, DISK_LAYERS_MAX);
	struct disk_wrapper_spec *w = &s->wrappers[s->wrapper_count];
	size_t value_length = (size_t)(end - value);
	if (value_length >= sizeof w->value)
		return error_set(err, ERR_USAGE, "%.128s: the value of +%s is longer than %zu characters", word,
			kinds[i].kind, sizeof w->value - 1);
	snprintf(w->kind, sizeof w->kind, "%s", kinds[i].kind);
	memcpy(w->value, value, value_length);
	w->value[value_length] = '\0';
	s->wrapper_count++;
	int rc = kinds[i].check(w->value, err);
	if (rc != 0)
		error_prefix(err, "%.128s", word);
	return rc;
}

/* A model moves the bytes of what lies below it at once and then waits itself: it can neither lie over another
 * model nor over a fault that waits. */
static int check_order(const struct disk_spec *s, const char *word, struct error *err)
{
	bool model = false;
	const char *waits = NULL;
	for (unsigned i = 0; i < s->wrapper_count; i++) {
		const struct disk_wrapper_spec *w = &s->wrappers[i];
		if (strcmp(w->kind, "fault") == 0 && disk__fault_waits(w->value))
			waits = w->value;
		if (strcmp(w->kind, "model") != 0)
			continue;
		if (model)
			return error_set(err, ERR_USAGE, "%.128s: a disk has one model, not two", word);
		if (waits)
			return error_set(err, ERR_USAGE,
				"%.128s: write +model=… before +fault=%.40s, which lies over it", word, waits);
		model = true;
	}
	return 0;
}

static int parse_head(struct disk_spec *s, const char *word, const char *end, struct error *err)
{
	size_t length = (size_t)(end - word);
	scoped_free char *head = strndup(word, length);
	if (!head)
		return error_set(err, ERR_MEMORY, "out of memory");
	if (!is_memory(head)) {
		if (length == 0)
			return error_set(
				err, ERR_USAGE, "\"%.128s\" names no disk: a DISK is a path or mem:SIZE", word);
		if (length >= 4096)
			return error_set(err, ERR_USAGE, "\"%.64s…\" is too long for a path", word);
		s->path = head;
		head = NULL;
		return 0;
	}
	if (head[4] == '\0')
		return error_set(err, ERR_USAGE, "%.128s: mem: lacks its size; write mem:256MiB", word);
	int rc = size_parse(head + 4, &s->memory_bytes, err);
	if (rc != 0) {
		error_prefix(err, "%.128s", word);
		return rc;
	}
	if (s->memory_bytes == 0)
		return error_set(err, ERR_USAGE, "%.128s: a disk of no bytes", word);
	if (s->memory_bytes % 512)
		return error_set(err, ERR_USAGE, "%.128s: %llu bytes are not whole sectors of 512", word,
			(unsigned long long)s->memory_bytes);
	return 0;
}

static int parse_one(struct disk_spec *s, const char *word, struct error *err)
{
	const char *end = next_wrapper(word, word);
	int rc = parse_head(s, word, end, err);
	while (rc == 0 && *end) {
		const char *plus = end;
		end = next_wrapper(word, plus + 1);
		rc = add_wrapper(s, word, plus, end, err);
	}
	if (rc == 0)
		rc = check_order(s, word, err);
	return rc;
}

static bool is_repeat(const char *star)
{
	return star[1] && star[1 + strspn(star + 1, "0123456789")] == '\0';
}

/* Cuts "*N" off the end. */
static int parse_repeat(char *word, uint64_t *ret_count, struct error *err)
{
	char *star = strrchr(word, '*');
	*ret_count = 1;
	if (!star || star == word)
		return 0;
	bool in_size = is_memory(word) && !memchr(word, '+', (size_t)(star - word));
	if (!is_repeat(star) && !in_size)
		return 0; /* a part of some path */
	if (!is_repeat(star))
		return error_set(err, ERR_USAGE, "%.128s: '%.32s' is no repeat count; write *8", word, star);
	int rc = number_parse("the repeat count", star + 1, 1, REPEAT_MAX, ret_count, err);
	if (rc != 0) {
		error_prefix(err, "%.128s", word);
		return rc;
	}
	if (*ret_count > 1 && !is_memory(word))
		return error_set(
			err, ERR_USAGE, "%.128s: one path is one disk and cannot be repeated; only mem: can", word);
	*star = '\0';
	const char *second = strrchr(word, '*');
	if (second && second != word && is_repeat(second))
		return error_set(
			err, ERR_USAGE, "%.128s*%llu: two repeat counts", word, (unsigned long long)*ret_count);
	return 0;
}

/* --- the list ---------------------------------------------------------------------------------------- */

static unsigned count_memory(const struct disk_specs *list)
{
	unsigned count = 0;
	for (size_t i = 0; i < list->count; i++)
		count += list->items[i].path == NULL;
	return count;
}

static int name_it(struct disk_spec *s, const char *word, unsigned number)
{
	char name[96];
	if (s->path)
		return (s->name = strdup(s->path)) ? 0 : ERR_MEMORY;
	snprintf(name, sizeof name, "%.*s#%u", (int)min_of((size_t)(next_wrapper(word, word) - word), (size_t)64), word,
		number);
	return (s->name = strdup(name)) ? 0 : ERR_MEMORY;
}

static int copy_of(const struct disk_spec *from, struct disk_spec *ret)
{
	*ret = *from;
	ret->name = NULL;
	ret->text = strdup(from->text);
	ret->path = from->path ? strdup(from->path) : NULL;
	return !ret->text || (from->path && !ret->path) ? ERR_MEMORY : 0;
}

static int append(struct disk_specs *list, const struct disk_spec *one, uint64_t count, struct error *err)
{
	size_t before = list->count;
	unsigned number = count_memory(list);
	struct disk_spec *items = realloc(list->items, (before + count) * sizeof *items);
	if (!items)
		return error_set(err, ERR_MEMORY, "out of memory for the list of disks");
	list->items = items;
	for (unsigned i = 0; i < count; i++) {
		struct disk_spec *s = &items[list->count++];
		if (copy_of(one, s) != 0 || name_it(s, one->text, number + i) != 0) {
			while (list->count > before)
				spec_release(&items[--list->count]);
			return error_set(err, ERR_MEMORY, "out of memory for the list of disks");
		}
		s->index = i;
	}
	return 0;
}

int disk_specs_add(struct disk_specs *list, const char *word, struct error *err)
{
	struct disk_spec one = {0};
	uint64_t count;
	one.text = strdup(word);
	int rc = one.text ? parse_repeat(one.text, &count, err) : error_set(err, ERR_MEMORY, "out of memory");
	if (rc == 0)
		rc = parse_one(&one, one.text, err);
	if (rc == 0)
		rc = append(list, &one, count, err);
	spec_release(&one);
	return rc;
}

int disk_specs_add_model(struct disk_specs *list, const char *word, uint64_t bytes_each, struct error *err)
{
	const char *colon = strrchr(word, ':');
	size_t name_length = colon ? (size_t)(colon - word) : strlen(word);
	uint64_t count = 1;
	if (name_length == 0)
		return error_set(err, ERR_USAGE, "--model \"%.64s\" names no model; write NAME:N", word);
	if (colon) {
		int rc = number_parse("the number of disks", colon + 1, 1, REPEAT_MAX, &count, err);
		if (rc != 0) {
			error_prefix(err, "--model %.128s", word);
			return rc;
		}
	}
	char text[512], size[32];
	bool whole = bytes_each % (1u << 20) == 0;
	snprintf(size, sizeof size, "%llu%s", (unsigned long long)(whole ? bytes_each >> 20 : bytes_each),
		whole ? "MiB" : "");
	if (snprintf(text, sizeof text, "mem:%s+model=%.*s*%llu", size, (int)name_length, word,
		    (unsigned long long)count) >= (int)sizeof text)
		return error_set(err, ERR_USAGE, "--model \"%.64s…\" is too long", word);
	return disk_specs_add(list, text, err);
}
