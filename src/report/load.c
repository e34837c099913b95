/* load: reads the document of report_json back. The file is somebody else's: every field is checked. */
#include <string.h>
#include <sys/stat.h>

#include "internal.h"

struct loading {
	const char *path;
	struct error *err;
};

static int bad(const struct loading *l, const char *what, const char *name, const char *expected)
{
	return error_set(l->err, ERR_CORRUPT, "%s: %s \"%s\" is not %s", l->path, what, name, expected);
}

static bool u64_of(const json_t *value, uint64_t *ret)
{
	if (json_is_null(value)) {
		*ret = RESULT_NONE;
		return true;
	}
	if (json_is_integer(value) && json_integer_value(value) >= 0) {
		*ret = (uint64_t)json_integer_value(value);
		return true;
	}
	return json_is_string(value) && number_parse("number", json_string_value(value), 0, UINT64_MAX, ret, NULL) == 0;
}

/* A field that is absent keeps its "not measured": documents may grow within a schema, and be cut by hand. */
static int field_load(const struct loading *l, const json_t *object, const struct field *f, void *owner)
{
	json_t *value = json_object_get(object, f->name);
	char *place = (char *)owner + f->offset;
	uint64_t number;

	if (!value)
		return 0;
	switch (f->type) {
	case FIELD_TEXT:
		if (!json_is_string(value))
			return bad(l, "the field", f->name, "a text");
		snprintf(place, f->bytes, "%s", json_string_value(value));
		return 0;
	case FIELD_REAL:
		if (!json_is_number(value) && !json_is_null(value))
			return bad(l, "the field", f->name, "a number or null");
		*(double *)(void *)place = json_is_null(value) ? NAN : json_number_value(value);
		return 0;
	case FIELD_BOOL:
		if (!json_is_boolean(value))
			return bad(l, "the field", f->name, "true or false");
		*(bool *)(void *)place = json_is_true(value);
		return 0;
	case FIELD_U64:
		if (!u64_of(value, &number))
			return bad(l, "the field", f->name, "a whole number or null");
		*(uint64_t *)(void *)place = number;
		return 0;
	case FIELD_U32:
	case FIELD_UNSIGNED:
		if (!u64_of(value, &number) || (number > UINT32_MAX && number != RESULT_NONE))
			return bad(l, "the field", f->name, "a whole number below 2^32 or null");
		*(uint32_t *)(void *)place = number == RESULT_NONE ? UINT32_MAX : (uint32_t)number;
		return 0;
	}
	return 0;
}

static int fields_load(const struct loading *l, const json_t *object, const struct field *fields, void *owner)
{
	for (const struct field *f = fields; f->name; f++) {
		int status = field_load(l, object, f, owner);

		if (status != 0)
			return status;
	}
	return 0;
}

static int verdict_of(const struct loading *l, const json_t *value, enum verdict *ret)
{
	const char *name = json_string_value(value);

	for (int v = 0; name && v < VERDICT_COUNT; v++)
		if (strcmp(verdict_names[v], name) == 0) {
			*ret = (enum verdict)v;
			return 0;
		}
	return error_set(l->err, ERR_CORRUPT, "%s: \"%s\" is no verdict", l->path, name ? name : "(no text)");
}

static int verdicts_load(const struct loading *l, const json_t *object, struct cell *c)
{
	json_t *notes = json_object_get(object, "verdict_notes"), *note;
	enum verdict verdict = VERDICT_FAILED;
	size_t i;
	int status = verdict_of(l, json_object_get(object, "verdict"), &verdict);

	if (status != 0)
		return status;
	json_array_foreach(notes, i, note)
	{
		const char *reason = json_string_value(json_object_get(note, "reason"));
		struct verdict_note *to = &c->notes[c->note_count];

		if (c->note_count == RESULT_NOTES_MAX)
			break;
		status = verdict_of(l, json_object_get(note, "verdict"), &to->verdict);
		if (status != 0)
			return status;
		snprintf(to->reason, sizeof(to->reason), "%s", reason ? reason : "");
		c->note_count++;
	}
	c->verdict = verdict;
	return 0;
}

static int reals_load(
	const struct loading *l, const json_t *object, const char *name, double *ret, size_t room, unsigned *ret_count)
{
	json_t *list = json_object_get(object, name), *value;
	size_t i;

	if (list && !json_is_array(list))
		return bad(l, "the field", name, "a list");
	if (json_array_size(list) > room)
		return bad(l, "the list", name, "as short as schema 1 has it");
	json_array_foreach(list, i, value)
	{
		if (!json_is_number(value) && !json_is_null(value))
			return bad(l, "an entry of", name, "a number or null");
		ret[i] = json_is_null(value) ? NAN : json_number_value(value);
	}
	if (ret_count)
		*ret_count = (unsigned)json_array_size(list);
	return 0;
}

static int cell_load(const struct loading *l, const json_t *object, struct cell *c)
{
	json_t *latency = json_object_get(object, "latency_ns");
	int status;

	cell_init(c);
	if (!json_is_object(object))
		return bad(l, "an entry of", "cells", "an object");
	status = fields_load(l, object, report__cell_key_fields, c);
	if (status == 0)
		status = fields_load(l, object, report__cell_fields, c);
	if (status == 0 && latency)
		status = fields_load(l, latency, report__latency_fields, c);
	if (status == 0)
		status = verdicts_load(l, object, c);
	if (status == 0)
		status = reals_load(l, object, "samples", c->samples, RESULT_SAMPLES_MAX, &c->sample_count);
	if (status == 0)
		status = reals_load(l, object, "interval", c->interval, 2, NULL);
	return status;
}

static int disks_load(const struct loading *l, const json_t *list, struct result *r)
{
	json_t *object;
	size_t i, count = json_array_size(list);

	if (count == 0)
		return 0;
	r->disks = calloc(count, sizeof(*r->disks));
	if (!r->disks)
		return error_set(l->err, ERR_MEMORY, "out of memory while %s was read", l->path);
	r->disk_count = count;
	json_array_foreach(list, i, object)
	{
		struct result_disk *d = &r->disks[i];
		int status;

		d->alone_mb_per_s = d->together_mb_per_s = d->random_iops = d->flush_ms = NAN;
		status = fields_load(l, object, report__disk_fields, d);
		if (status != 0)
			return status;
	}
	return 0;
}

static int document_load(const struct loading *l, const json_t *root, struct result *r)
{
	json_t *object, *seed = json_object_get(root, "seed"), *host = json_object_get(root, "host");
	size_t i;
	int status = fields_load(l, root, report__run_fields, r);

	if (status == 0 && host)
		status = fields_load(l, host, report__host_fields, &r->host);
	if (status == 0 && seed && !u64_of(seed, &r->seed))
		status = bad(l, "the field", "seed", "a whole number");
	if (status == 0)
		status = disks_load(l, json_object_get(root, "disks"), r);
	json_array_foreach(json_object_get(root, "skips"), i, object)
	{
		const char *layout = json_string_value(json_object_get(object, "layout"));
		const char *reason = json_string_value(json_object_get(object, "reason"));

		if (status == 0 && layout)
			status = result_add_skip(r, layout, reason ? reason : "", l->err);
	}
	json_array_foreach(json_object_get(root, "cells"), i, object)
	{
		struct cell c;

		if (status == 0)
			status = cell_load(l, object, &c);
		if (status == 0)
			status = result_add_cell(r, &c, l->err);
	}
	return status;
}

static int schema_check(const struct loading *l, const json_t *root)
{
	json_t *schema = json_object_get(root, "schema");

	if (!json_is_object(root) || !json_is_integer(schema))
		return error_set(l->err, ERR_CORRUPT, "%s is no result of Spindle: it has no \"schema\"", l->path);
	if (json_integer_value(schema) != RESULT_SCHEMA)
		return error_set(l->err, ERR_UNSUPPORTED, "%s has schema %lld; this program reads schema %d", l->path,
			(long long)json_integer_value(schema), RESULT_SCHEMA);
	if (!json_is_array(json_object_get(root, "cells")))
		return error_set(
			l->err, ERR_CORRUPT, "%s is no result of Spindle: it has no list of \"cells\"", l->path);
	return 0;
}

/* `path` is a document, or the directory of a run that holds result.json. */
int report_load(const char *path, struct result *ret, struct error *err)
{
	scoped_free char *inside = NULL;
	struct loading l = {.path = path, .err = err};
	struct result r = {.price_per_disk = NAN, .link_mb_per_s = NAN};
	struct stat facts;
	json_error_t reason;
	json_t *root;
	int status;

	if (stat(path, &facts) != 0)
		return error_set(err, ERR_NOT_FOUND, "%s: no such result", path);
	if (S_ISDIR(facts.st_mode)) {
		if (asprintf(&inside, "%s/result.json", path) < 0) {
			inside = NULL;
			return error_set(err, ERR_MEMORY, "out of memory while %s was read", path);
		}
		l.path = inside;
	}
	r.host.copy_gb_per_s = r.host.checksum_gb_per_s = r.host.parity1_gb_per_s = r.host.parity2_gb_per_s = NAN;
	root = json_load_file(l.path, JSON_REJECT_DUPLICATES, &reason);
	if (!root)
		return error_set(err, ERR_CORRUPT, "%s, line %d: %s", l.path, reason.line, reason.text);
	status = schema_check(&l, root);
	if (status == 0)
		status = document_load(&l, root, &r);
	json_decref(root);
	if (status != 0) {
		result_release(&r);
		return status;
	}
	*ret = r;
	return 0;
}
