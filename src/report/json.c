/* json: a result as one JSON document, schema 1 (docs/result.md). */
#include <string.h>

#include "internal.h"

json_t *report__json_text(const char *text)
{
	json_t *value = json_string(text);
	scoped_free char *copy = NULL;

	if (value || !(copy = strdup(text)))
		return value;
	for (char *p = copy; *p; p++) /* a path may hold any bytes; a JSON text may not */
		if ((unsigned char)*p >= 0x80)
			*p = '?';
	return json_string(copy);
}

json_t *report__json_real(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

/* Numbers beyond 2^63 exist only as seeds; they are written as text rather than wrongly. */
json_t *report__json_u64(uint64_t value)
{
	char text[24];

	if (value == RESULT_NONE)
		return json_null();
	if (value <= INT64_MAX)
		return json_integer((json_int_t)value);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return json_string(text);
}

static json_t *field_value(const struct field *f, const void *owner)
{
	const char *place = (const char *)owner + f->offset;
	unsigned number;

	switch (f->type) {
	case FIELD_TEXT:
		return report__json_text(place);
	case FIELD_U64:
		return report__json_u64(*(const uint64_t *)(const void *)place);
	case FIELD_U32:
		return json_integer(*(const uint32_t *)(const void *)place);
	case FIELD_UNSIGNED:
		number = *(const unsigned *)(const void *)place;
		return number == UINT32_MAX ? json_null() : json_integer(number);
	case FIELD_REAL:
		return report__json_real(*(const double *)(const void *)place);
	case FIELD_BOOL:
		return json_boolean(*(const bool *)(const void *)place);
	}
	return NULL;
}

/* The _new calls of jansson take a NULL value as a failure, which the count at the end finds. */
static bool fields_add(json_t *object, const struct field *fields, const void *owner)
{
	for (const struct field *f = fields; f->name; f++)
		if (json_object_set_new(object, f->name, field_value(f, owner)) != 0)
			return false;
	return true;
}

static json_t *object_of(const struct field *fields, const void *owner)
{
	json_t *object = json_object();

	if (object && !fields_add(object, fields, owner)) {
		json_decref(object);
		return NULL;
	}
	return object;
}

static json_t *reals_of(const double *values, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; list && i < count; i++)
		if (json_array_append_new(list, report__json_real(values[i])) != 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

static bool verdicts_add(json_t *object, const struct cell *c)
{
	json_t *names = json_array(), *notes = json_array();
	bool good = names && notes;

	for (unsigned i = 0; good && i < c->note_count; i++) {
		const char *name = verdict_names[c->notes[i].verdict];

		good = json_array_append_new(names, json_string(name)) == 0 &&
		       json_array_append_new(notes, json_pack("{s:s, s:o}", "verdict", name, "reason",
							    report__json_text(c->notes[i].reason))) == 0;
	}
	if (good && c->note_count == 0)
		good = json_array_append_new(names, json_string(verdict_names[c->verdict])) == 0;
	good = good && json_object_set_new(object, "verdict", json_string(verdict_names[c->verdict])) == 0;
	good = good && json_object_set(object, "verdicts", names) == 0;
	good = good && json_object_set_new(object, "verdict_reason",
			       report__json_text(c->note_count ? c->notes[0].reason : "")) == 0;
	good = good && json_object_set(object, "verdict_notes", notes) == 0;
	json_decref(names);
	json_decref(notes);
	return good;
}

static json_t *cell_of(const struct cell *c)
{
	json_t *object = object_of(report__cell_key_fields, c);

	if (object && fields_add(object, report__cell_fields, c) && verdicts_add(object, c) &&
		json_object_set_new(object, "samples",
			reals_of(c->samples, min_of(c->sample_count, (unsigned)RESULT_SAMPLES_MAX))) == 0 &&
		json_object_set_new(object, "interval", reals_of(c->interval, 2)) == 0 &&
		json_object_set_new(object, "latency_ns", object_of(report__latency_fields, c)) == 0)
		return object;
	json_decref(object);
	return NULL;
}

static bool lists_add(json_t *root, const struct result *r)
{
	json_t *disks = json_array(), *cells = json_array(), *skips = json_array();
	bool good = disks && cells && skips;

	for (size_t i = 0; good && i < r->disk_count; i++)
		good = json_array_append_new(disks, object_of(report__disk_fields, &r->disks[i])) == 0;
	for (size_t i = 0; good && i < r->skip_count; i++)
		good = json_array_append_new(
			       skips, json_pack("{s:o, s:o}", "layout", report__json_text(r->skips[i].layout), "reason",
					      report__json_text(r->skips[i].reason))) == 0;
	for (size_t i = 0; good && i < r->cell_count; i++)
		good = json_array_append_new(cells, cell_of(&r->cells[i])) == 0;
	good = good && json_object_set(root, "disks", disks) == 0 && json_object_set(root, "skips", skips) == 0 &&
	       json_object_set(root, "cells", cells) == 0;
	json_decref(disks);
	json_decref(cells);
	json_decref(skips);
	return good;
}

json_t *report__json_document(const struct result *r)
{
	json_t *root = json_object();

	if (root && json_object_set_new(root, "schema", json_integer(RESULT_SCHEMA)) == 0 &&
		fields_add(root, report__run_fields, r) &&
		json_object_set_new(root, "seed",
			r->seed == UINT64_MAX ? json_string("18446744073709551615") : report__json_u64(r->seed)) == 0 &&
		json_object_set_new(root, "host", object_of(report__host_fields, &r->host)) == 0 && lists_add(root, r))
		return root;
	json_decref(root);
	return NULL;
}

int report__json_print(json_t *document, FILE *out, struct error *err)
{
	int status = 0;

	if (!document)
		return error_set(err, ERR_MEMORY, "out of memory while the JSON document was made");
	if (json_dumpf(document, out, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) != 0 || fputc('\n', out) == EOF)
		status = error_set(err, ERR_IO, "the JSON document could not be written in full");
	json_decref(document);
	return status != 0 ? status : report__finish(out, err);
}

int report_json(const struct result *r, FILE *out, struct error *err)
{
	return report__json_print(report__json_document(r), out, err);
}
