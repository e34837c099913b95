/*
 * fio: the same result in the shape of fio's JSON, so that tools which read that read ours. What was not measured
 * (means and deviations of latency, context switches) is left out rather than made up; the whole document of
 * report_json stands under the one key "spindle".
 */
#include <string.h>
#include <time.h>

#include "internal.h"

static json_t *percentiles_of(const struct cell *c)
{
	const struct {
		const char *name;
		uint64_t ns;
	} points[] = {{"50.000000", c->latency_p50_ns}, {"95.000000", c->latency_p95_ns},
		{"99.000000", c->latency_p99_ns}, {"99.900000", c->latency_p999_ns}};
	json_t *object = json_object();

	for (size_t i = 0; object && i < array_count(points); i++)
		if (points[i].ns != RESULT_NONE)
			json_object_set_new(object, points[i].name, report__json_u64(points[i].ns));
	return object;
}

static uint64_t operations_of(const struct cell *c)
{
	if (c->logical_bytes == RESULT_NONE || c->block_bytes == 0)
		return 0;
	return c->logical_bytes / c->block_bytes;
}

static json_t *latency_of(const struct cell *c)
{
	json_t *object = json_pack("{s:I, s:o}", "N", (json_int_t)operations_of(c), "percentile", percentiles_of(c));

	if (object && c->latency_max_ns != RESULT_NONE)
		json_object_set_new(object, "max", report__json_u64(c->latency_max_ns));
	return object;
}

static void windows_add(json_t *object, const struct cell *c)
{
	double lowest = INFINITY, highest = 0, sum = 0, squares = 0, mean;
	unsigned count = min_of(c->sample_count, (unsigned)RESULT_SAMPLES_MAX);

	for (unsigned i = 0; i < count; i++) {
		double kib = c->samples[i] * 1e6 / 1024;

		lowest = min_of(lowest, kib);
		highest = max_of(highest, kib);
		sum += kib;
		squares += kib * kib;
	}
	if (count == 0)
		return;
	mean = sum / count;
	json_object_set_new(object, "bw_min", json_integer((json_int_t)lowest));
	json_object_set_new(object, "bw_max", json_integer((json_int_t)highest));
	json_object_set_new(object, "bw_mean", report__json_real(mean));
	json_object_set_new(object, "bw_dev", report__json_real(sqrt(max_of(squares / count - mean * mean, 0.0))));
	json_object_set_new(object, "bw_samples", json_integer(count));
}

/* `c` NULL: the direction that was not used, all zero as fio has it. */
static json_t *direction_of(const struct cell *c)
{
	bool has = c && report__has_value(c);
	uint64_t bytes = has && c->logical_bytes != RESULT_NONE ? c->logical_bytes : 0;
	double bytes_per_s = has ? c->mb_per_s * 1e6 : 0;
	json_t *object = json_object();

	if (!object)
		return NULL;
	json_object_set_new(object, "io_bytes", report__json_u64(bytes));
	json_object_set_new(object, "io_kbytes", report__json_u64(bytes / 1024));
	json_object_set_new(object, "bw_bytes", json_integer((json_int_t)(bytes_per_s + 0.5)));
	json_object_set_new(object, "bw", json_integer((json_int_t)(bytes_per_s / 1024)));
	json_object_set_new(object, "iops", json_real(has && isfinite(c->iops) ? c->iops : 0));
	json_object_set_new(object, "runtime",
		json_integer(has && isfinite(c->elapsed_s) ? (json_int_t)(c->elapsed_s * 1000 + 0.5) : 0));
	json_object_set_new(object, "total_ios", report__json_u64(has ? operations_of(c) : 0));
	json_object_set_new(object, "short_ios", json_integer(0));
	json_object_set_new(object, "drop_ios", json_integer(0));
	if (has) {
		json_object_set_new(object, "clat_ns", latency_of(c));
		json_object_set_new(object, "lat_ns", latency_of(c));
		windows_add(object, c);
	}
	return object;
}

static const char *rw_of(const struct cell *c)
{
	if (report__is_read(c))
		return report__is_random(c) ? "randread" : "read";
	if (report__is_write(c))
		return report__is_random(c) ? "randwrite" : "write";
	return report__is_random(c) ? "randrw" : "rw";
}

static json_t *job_of(const struct cell *c, size_t index)
{
	char name[128], block[32], depth[16], jobs[16];
	json_t *object = json_object();

	if (!object)
		return NULL;
	snprintf(name, sizeof(name), "%s-%s-%s", c->layout, c->test, c->clock);
	snprintf(block, sizeof(block), "%llu", (unsigned long long)c->block_bytes);
	snprintf(depth, sizeof(depth), "%u", c->depth);
	snprintf(jobs, sizeof(jobs), "%u", c->jobs);
	json_object_set_new(object, "jobname", report__json_text(name));
	json_object_set_new(object, "groupid", json_integer((json_int_t)index));
	json_object_set_new(object, "error", json_integer(c->verdict == VERDICT_FAILED));
	json_object_set_new(object, "eta", json_integer(0));
	json_object_set_new(
		object, "elapsed", json_integer(isfinite(c->elapsed_s) ? (json_int_t)ceil(c->elapsed_s) : 0));
	json_object_set_new(object, "job options",
		json_pack("{s:o, s:s, s:s, s:s, s:s}", "name", report__json_text(name), "rw", rw_of(c), "bs", block,
			"iodepth", depth, "numjobs", jobs));
	json_object_set_new(object, "read", direction_of(report__is_read(c) ? c : NULL));
	json_object_set_new(object, "write", direction_of(report__is_write(c) ? c : NULL));
	json_object_set_new(object, "trim", direction_of(NULL));
	if (!report__is_read(c) && !report__is_write(c))
		json_object_set_new(object, "mixed", direction_of(c));
	json_object_set_new(object, "job_runtime",
		json_integer(isfinite(c->elapsed_s) ? (json_int_t)(c->elapsed_s * 1000 + 0.5) : 0));
	json_object_set_new(object, "spindle",
		json_pack("{s:s, s:o}", "verdict", verdict_names[c->verdict], "verdict_reason",
			report__json_text(c->note_count ? c->notes[0].reason : "")));
	return object;
}

/* "2024-05-01T10:00:00Z" → seconds since 1970, 0 when it is something else. */
static json_int_t seconds_of(const char *started)
{
	struct tm tm = {0};
	const char *end = strptime(started, "%Y-%m-%dT%H:%M:%S", &tm);

	return end ? (json_int_t)timegm(&tm) : 0;
}

static json_t *fio_document(const struct result *r)
{
	json_t *root = json_object(), *jobs = json_array(), *ours = report__json_document(r);
	char version[64];

	if (!root || !jobs || !ours) {
		json_decref(root);
		json_decref(jobs);
		json_decref(ours);
		return NULL;
	}
	snprintf(version, sizeof(version), "spindle-%s", r->version);
	json_object_set_new(root, "fio version", report__json_text(version));
	json_object_set_new(root, "timestamp", json_integer(seconds_of(r->started)));
	json_object_set_new(root, "timestamp_ms", json_integer(seconds_of(r->started) * 1000));
	json_object_set_new(root, "time", report__json_text(r->started));
	json_object_set_new(root, "global options", json_object());
	for (size_t i = 0; i < r->cell_count; i++)
		json_array_append_new(jobs, job_of(&r->cells[i], i));
	json_object_set_new(root, "jobs", jobs);
	json_object_set_new(root, "disk_util", json_array());
	json_object_set_new(ours, "schema_version", json_integer(RESULT_SCHEMA));
	json_object_set_new(root, "spindle", ours);
	return root;
}

int report_fio_json(const struct result *r, FILE *out, struct error *err)
{
	return report__json_print(fio_document(r), out, err);
}
