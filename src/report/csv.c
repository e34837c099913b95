/* csv: one line a cell under one header line, quoted as RFC 4180 has it. */
#include <string.h>

#include "internal.h"

static void csv_text(const char *text, FILE *out)
{
	if (!text[strcspn(text, ",\"\r\n")]) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

static void csv_real(double value, FILE *out)
{
	if (isfinite(value))
		fprintf(out, "%.15g", value);
}

static void csv_field(const struct field *f, const void *owner, FILE *out)
{
	const char *place = (const char *)owner + f->offset;

	switch (f->type) {
	case FIELD_TEXT:
		csv_text(place, out);
		return;
	case FIELD_REAL:
		csv_real(*(const double *)(const void *)place, out);
		return;
	case FIELD_U64:
		if (*(const uint64_t *)(const void *)place != RESULT_NONE)
			fprintf(out, "%llu", (unsigned long long)*(const uint64_t *)(const void *)place);
		return;
	case FIELD_U32:
	case FIELD_UNSIGNED:
		if (*(const uint32_t *)(const void *)place != UINT32_MAX)
			fprintf(out, "%u", *(const uint32_t *)(const void *)place);
		return;
	case FIELD_BOOL:
		fputs(*(const bool *)(const void *)place ? "true" : "false", out);
		return;
	}
}

static void csv_fields(const struct field *fields, const void *owner, FILE *out)
{
	for (const struct field *f = fields; f->name; f++) {
		fputc(',', out);
		csv_field(f, owner, out);
	}
}

static void csv_names(const struct field *fields, const char *prefix, FILE *out)
{
	for (const struct field *f = fields; f->name; f++)
		fprintf(out, ",%s%s", prefix, f->name);
}

static void csv_cell(const struct result *r, const struct cell *c, FILE *out)
{
	csv_text(r->id, out);
	fputc(',', out);
	csv_text(r->started, out);
	csv_fields(report__cell_key_fields, c, out);
	csv_fields(report__cell_fields, c, out);
	fprintf(out, ",%s,", verdict_names[c->verdict]);
	for (unsigned i = 0; i < c->note_count; i++)
		fprintf(out, "%s%s", i ? ";" : "", verdict_names[c->notes[i].verdict]);
	if (c->note_count == 0)
		fputs(verdict_names[c->verdict], out);
	fputc(',', out);
	csv_text(c->note_count ? c->notes[0].reason : "", out);
	fputc(',', out);
	for (unsigned i = 0; i < min_of(c->sample_count, (unsigned)RESULT_SAMPLES_MAX); i++) {
		if (i)
			fputc(' ', out);
		csv_real(c->samples[i], out);
	}
	fputc(',', out);
	csv_real(c->interval[0], out);
	fputc(',', out);
	csv_real(c->interval[1], out);
	csv_fields(report__latency_fields, c, out);
	fprintf(out, ",%llu,%d,", (unsigned long long)r->seed, RESULT_SCHEMA);
	csv_text(r->version, out);
	fputc(',', out);
	csv_text(r->host.name, out);
	fputc(',', out);
	csv_text(r->host.cpu, out);
	fputc(',', out);
	csv_text(r->command, out);
	fputs("\r\n", out);
}

int report_csv(const struct result *r, FILE *out, struct error *err)
{
	fputs("run,started", out);
	csv_names(report__cell_key_fields, "", out);
	csv_names(report__cell_fields, "", out);
	fputs(",verdict,verdicts,verdict_reason,samples,interval_low,interval_high", out);
	csv_names(report__latency_fields, "latency_ns_", out);
	fputs(",seed,schema,version,host,cpu,command\r\n", out);
	for (size_t i = 0; i < r->cell_count; i++)
		csv_cell(r, &r->cells[i], out);
	return report__finish(out, err);
}
