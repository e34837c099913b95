/* status and iostat: how a pool is, and what it does. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "pool_cli.h"

enum { OPTION_DISKS = 1, OPTION_VERBOSE, OPTION_JSON, OPTION_TROUBLED, OPTION_SCRIPTED, OPTION_EXACT };

static const struct cli_option status_options[] = {
	{OPTION_DISKS, "disks", 'd', "DISK", "a member, or a directory that holds them; repeated"},
	{OPTION_VERBOSE, "verbose", 'v', NULL, "what is damaged, events and counters too"},
	{OPTION_TROUBLED, "troubled", 'x', NULL, "only pools that are not well"},
	{OPTION_JSON, "json", 'j', NULL, "all facts and counters as JSON"},
	{0},
};
static const struct cli_help status_help = {
	.verb = "status",
	.usage = "[OPTION]… [POOL]…",
	.text = "Shows how pools are. Reads only. Status 1 when one cannot be opened.",
	.options = status_options,
};

static const char *state_name(enum pool_state s)
{
	return s == POOL_ONLINE ? "ONLINE" : s == POOL_DEGRADED ? "DEGRADED" : "SUSPENDED";
}

static json_t *space_json(const struct pool_space *s)
{
	return json_pack("{sI sI sI sI sI sI sI sI sI sI}", "raw_bytes", (json_int_t)s->raw_bytes, "size_bytes",
		(json_int_t)s->size_bytes, "reserve_bytes", (json_int_t)s->reserve_bytes, "data_bytes",
		(json_int_t)s->data_bytes, "metadata_bytes", (json_int_t)s->metadata_bytes, "snapshot_bytes",
		(json_int_t)s->snapshot_bytes, "reservation_bytes", (json_int_t)s->reservation_bytes, "used_bytes",
		(json_int_t)s->used_bytes, "available_bytes", (json_int_t)s->available_bytes, "pinned_bytes",
		(json_int_t)s->pinned_bytes);
}

static json_t *counters_json(const struct pool_counters *c)
{
	json_t *json = json_object();
	const struct {
		const char *name;
		uint64_t value;
	} list[] = {{"commits", c->commits}, {"checkpoints", c->checkpoints}, {"log_bytes", c->log_bytes},
		{"intent_bytes", c->intent_bytes}, {"replayed_commits", c->replayed_commits},
		{"data_bytes", c->data_bytes}, {"parity_bytes", c->parity_bytes}, {"metadata_bytes", c->metadata_bytes},
		{"logical_bytes", c->logical_bytes}, {"cache_hits", c->cache_hits}, {"cache_misses", c->cache_misses},
		{"cache_bytes", c->cache_bytes}, {"prefetch_bytes", c->prefetch_bytes},
		{"prefetch_hit_bytes", c->prefetch_hit_bytes}, {"nodes_read", c->nodes_read},
		{"nodes_written", c->nodes_written}, {"reconstructed", c->reconstructed}, {"repaired", c->repaired},
		{"unrecoverable", c->unrecoverable}, {"dirty_bytes", c->dirty_bytes}};

	for (size_t i = 0; i < array_count(list); i++)
		json_object_set_new(json, list[i].name, json_integer((json_int_t)list[i].value));
	return json;
}

static json_t *status_json(const struct pool_status *s)
{
	json_t *groups = json_array(), *disks = json_array(), *damaged = json_array();

	for (unsigned i = 0; i < s->group_count; i++)
		json_array_append_new(groups,
			json_pack("{ss si si si si sI sI}", "name", s->groups[i].name, "disks", (int)s->groups[i].disks,
				"width", (int)s->groups[i].width, "parity", (int)s->groups[i].parity, "failures_left",
				(int)s->groups[i].failures_left, "size_bytes", (json_int_t)s->groups[i].size_bytes,
				"free_bytes", (json_int_t)s->groups[i].free_bytes));
	for (unsigned i = 0; i < s->disk_count; i++) {
		const struct pool_disk_status *d = &s->disks[i];

		json_array_append_new(disks,
			json_pack("{ss ss si ss sI sI sI sI sI sI sb}", "path", d->path, "id", d->id, "group",
				(int)d->group, "state", d->state, "size_bytes", (json_int_t)d->size_bytes, "free_bytes",
				(json_int_t)d->free_bytes, "read_errors", (json_int_t)d->read_errors, "write_errors",
				(json_int_t)d->write_errors, "checksum_errors", (json_int_t)d->checksum_errors,
				"missed_from", (json_int_t)d->missed_from, "slow", d->slow));
	}
	for (unsigned i = 0; i < min_of(s->damaged_count, 16u); i++)
		json_array_append_new(damaged, json_string(s->damaged[i]));
	return json_pack("{ss ss ss ss sI sI so so so so so}", "name", s->name, "id", s->id, "state",
		state_name(s->state), "read_only_reason", s->read_only_reason, "commit", (json_int_t)s->commit,
		"checkpoint", (json_int_t)s->checkpoint, "space", space_json(&s->space), "groups", groups, "disks",
		disks, "counters", counters_json(&s->counters), "damaged", damaged);
}

static int print_config(const struct pool_status *s, struct error *err)
{
	struct pool_table t = {
		.columns = 5, .heads = {"NAME", "STATE", "READ", "WRITE", "CKSUM"}, .right = {0, 0, 1, 1, 1}};
	int code = 0;

	for (unsigned g = 0; !code && g < s->group_count; g++) {
		bool plain = s->groups[g].disks == 1;

		if (!plain) {
			code = pool_table_row(&t, err);
			if (code)
				break;
			pool_table_set(&t, 0, "%s", s->groups[g].name);
			pool_table_set(&t, 1, "%u more may fail", s->groups[g].failures_left);
		}
		for (unsigned i = 0; !code && i < s->disk_count; i++) {
			const struct pool_disk_status *d = &s->disks[i];

			if (d->group != g)
				continue;
			code = pool_table_row(&t, err);
			if (code)
				break;
			pool_table_set(&t, 0, "%s%s", plain ? "" : "  ", d->path);
			pool_table_set(&t, 1, "%s%s%s", d->state, d->slow ? ", slow" : "",
				d->missed_from ? ", behind: scrub brings it up to date" : "");
			pool_table_set(&t, 2, "%llu", (unsigned long long)d->read_errors);
			pool_table_set(&t, 3, "%llu", (unsigned long long)d->write_errors);
			pool_table_set(&t, 4, "%llu", (unsigned long long)d->checksum_errors);
		}
	}
	code = code ? code : pool_table_print(&t, err);
	pool_table_release(&t);
	return code;
}

static void print_scrub(const struct pool_scrub_status *s)
{
	time_t when = (time_t)(s->finished_wall_ns / 1000000000u);
	char text[40] = "";
	struct tm tm;

	if (s->finished && localtime_r(&when, &tm))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	if (s->finished)
		printf("  scan: scrubbed %s, %llu errors, %llu repaired, %llu lost\n", text,
			(unsigned long long)s->errors, (unsigned long long)s->repaired,
			(unsigned long long)s->unrecoverable);
	else if (s->running)
		printf("  scan: scrub in progress, %.0f %% done\n",
			s->total_bytes ? 100.0 * (double)s->done_bytes / (double)s->total_bytes : 0.0);
	else
		printf("  scan: none requested\n");
}

static bool print_event(void *arg, uint64_t wall_ns, const char *event)
{
	time_t when = (time_t)(wall_ns / 1000000000u);
	char text[40] = "";
	struct tm tm;

	if (localtime_r(&when, &tm))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	printf("  %s %s\n", text, event);
	return true;
}

static int print_status(struct pool *p, const struct pool_status *s, bool verbose, struct error *err)
{
	char used[SIZE_TEXT_BYTES], available[SIZE_TEXT_BYTES], pinned[SIZE_TEXT_BYTES], reserve[SIZE_TEXT_BYTES];
	int code;

	printf("  pool: %s\n state: %s\n", s->name, state_name(s->state));
	if (s->suspended_reason[0])
		printf("status: %s\n", s->suspended_reason);
	if (s->read_only_reason[0])
		printf("status: read-only: %s\n", s->read_only_reason);
	print_scrub(&s->scrub);
	printf(" space: %s used, %s available, %s pinned, %s in reserve\n",
		pool_size_text(s->space.used_bytes, false, used),
		pool_size_text(s->space.available_bytes, false, available),
		pool_size_text(s->space.pinned_bytes, false, pinned),
		pool_size_text(s->space.reserve_bytes, false, reserve));
	printf("config:\n\n");
	code = print_config(s, err);
	printf("\n");
	if (s->damaged_count)
		printf("errors: %u places are lost%s\n", s->damaged_count, verbose ? ":" : "; -v names them");
	else
		printf("errors: No known data errors\n");
	for (unsigned i = 0; verbose && i < min_of(s->damaged_count, 16u); i++)
		printf("  %s\n", s->damaged[i]);
	if (verbose) {
		printf("events:\n");
		pool_event_list(p, print_event, NULL);
	}
	return code;
}

static bool is_well(const struct pool_status *s)
{
	return s->state == POOL_ONLINE && !s->damaged_count && !s->read_only_reason[0];
}

struct request {
	struct pool_use asked;
	bool verbose, troubled, json;
	json_t *list;
	unsigned shown;
};

static int show(struct request *r, const char *name)
{
	scoped_free struct pool_use *u = malloc(sizeof(*u));
	scoped_free struct pool_status *status = malloc(sizeof(*status));
	struct error err = ERROR_INIT;
	int code = u && status ? 0 : error_set(&err, ERR_MEMORY, "out of memory");

	if (!u)
		return cli_fail(&err);
	*u = (struct pool_use){0};
	code = code ? code : pool_use_look(u, &r->asked, name, &err);
	if (!code) {
		pool_status_get(u->pool, status);
		if (r->list)
			json_array_append_new(r->list, status_json(status));
		else if (!r->troubled || !is_well(status)) {
			if (r->shown++)
				printf("\n");
			code = print_status(u->pool, status, r->verbose, &err);
		}
	}
	return pool_use_end(u, code, &err);
}

int command_status(int argc, char **argv)
{
	scoped_free struct request *r = calloc(1, sizeof(*r));
	struct error err = ERROR_INIT;
	struct cli_scan scan;
	const char *value, *names[64];
	char **known = NULL;
	size_t known_count = 0;
	unsigned count = 0;
	int id, status = CLI_DONE, code = r ? 0 : error_set(&err, ERR_MEMORY, "out of memory");

	cli_scan_init(&scan, argc, argv, &status_help);
	while (!code && (id = cli_scan_next(&scan, &value, &err)) != 0) {
		if (id == CLI_HELP)
			return CLI_DONE;
		if (id < 0)
			code = id;
		else if (id == OPTION_DISKS)
			code = pool_use_word(&r->asked, value, &err);
		else if (id == OPTION_VERBOSE)
			r->verbose = true;
		else if (id == OPTION_TROUBLED)
			r->troubled = true;
		else if (id == OPTION_JSON)
			r->json = true;
		else if (count == array_count(names))
			code = error_set(&err, ERR_USAGE, "status takes at most %zu names", array_count(names));
		else
			names[count++] = value;
	}
	if (!code && !count)
		code = pool_names_known(&known, &known_count, &err);
	if (code)
		return cli_fail(&err);
	r->list = r->json ? json_array() : NULL;
	for (unsigned i = 0; i < count; i++) {
		int ended = show(r, names[i]);

		status = max_of(status, ended);
	}
	for (size_t i = 0; i < known_count; i++) {
		int ended = show(r, known[i]);

		status = max_of(status, ended);
	}
	if (!count && !known_count && !r->json)
		cli_say("no pools are known here; 'spindle import' looks for some");
	else if (r->troubled && !r->shown && !r->json && status == CLI_DONE)
		printf("all pools are healthy\n");
	words_free(known, known_count);
	if (r->json && cli_json_print(json_pack("{si so}", "schema", 1, "pools", r->list), &err))
		status = cli_fail(&err);
	return status;
}

/* --- iostat ------------------------------------------------------------------------------------------------- */

static const struct cli_option iostat_options[] = {
	{OPTION_DISKS, "disks", 'd', "DISK", "a member, or a directory that holds them; repeated"},
	{OPTION_VERBOSE, "verbose", 'v', NULL, "each disk too"},
	{OPTION_SCRIPTED, "scripted", 'H', NULL, "tabs, no heads"},
	{OPTION_EXACT, "parsable", 'p', NULL, "exact bytes"},
	{0},
};
static const struct cli_help iostat_help = {
	.verb = "iostat",
	.usage = "[OPTION]… POOL [INTERVAL [COUNT]]",
	.text = "What the disks of a pool, the cache and the read-ahead do: since the pool was opened, then for\n"
		"each interval. Of use on a pool that 'spindle hold' keeps open.",
	.options = iostat_options,
};

struct sample {
	struct pool_status status;
	struct disk_counters disks[255];
	uint64_t at_ns;
};

static void sample_take(struct pool *p, struct sample *s)
{
	memset(s, 0, sizeof(*s));
	pool_status_get(p, &s->status);
	for (unsigned i = 0; i < s->status.disk_count; i++)
		if (s->status.disks[i].disk)
			disk_counters(s->status.disks[i].disk, &s->disks[i]);
	s->at_ns = os_real_now_ns();
}

static void rate_cells(
	struct pool_table *t, double read_ops, double write_ops, double read_bytes, double write_bytes, bool exact)
{
	char text[SIZE_TEXT_BYTES];

	pool_table_set(t, 3, "%.0f", read_ops);
	pool_table_set(t, 4, "%.0f", write_ops);
	pool_table_set(t, 5, "%s", pool_size_text((uint64_t)read_bytes, exact, text));
	pool_table_set(t, 6, "%s", pool_size_text((uint64_t)write_bytes, exact, text));
}

static int sample_print(const struct sample *now, const struct sample *before, bool verbose, bool scripted, bool exact,
	struct error *err)
{
	struct pool_table t = {.columns = 9,
		.scripted = scripted,
		.heads = {"NAME", "ALLOC", "FREE", "R/S", "W/S", "READ/S", "WRITE/S", "CACHE", "AHEAD"},
		.right = {0, 1, 1, 1, 1, 1, 1, 1, 1}};
	double seconds = max_of((double)(now->at_ns - before->at_ns) / 1e9, 1e-9), sum[4] = {0};
	const struct pool_counters *c = &now->status.counters, *b = &before->status.counters;
	uint64_t asked = c->cache_hits + c->cache_misses - b->cache_hits - b->cache_misses;
	uint64_t ahead = c->prefetch_bytes - b->prefetch_bytes;
	char text[SIZE_TEXT_BYTES];
	int code = pool_table_row(&t, err);

	for (unsigned i = 0; i < now->status.disk_count; i++)
		for (unsigned op = 0; op < 2; op++) {
			sum[op] += (double)(now->disks[i].op[op].done - before->disks[i].op[op].done) / seconds;
			sum[2 + op] += (double)(now->disks[i].op[op].bytes - before->disks[i].op[op].bytes) / seconds;
		}
	if (!code) {
		pool_table_set(&t, 0, "%s", now->status.name);
		pool_table_set(&t, 1, "%s", pool_size_text(now->status.space.used_bytes, exact, text));
		pool_table_set(&t, 2, "%s", pool_size_text(now->status.space.available_bytes, exact, text));
		rate_cells(&t, sum[0], sum[1], sum[2], sum[3], exact);
		if (asked)
			pool_table_set(
				&t, 7, "%.0f%%", 100.0 * (double)(c->cache_hits - b->cache_hits) / (double)asked);
		if (ahead)
			pool_table_set(&t, 8, "%.0f%%",
				100.0 * (double)(c->prefetch_hit_bytes - b->prefetch_hit_bytes) / (double)ahead);
	}
	for (unsigned i = 0; !code && verbose && i < now->status.disk_count; i++) {
		const struct disk_counters *d = &now->disks[i], *e = &before->disks[i];

		code = pool_table_row(&t, err);
		if (code)
			break;
		pool_table_set(&t, 0, "  %s", now->status.disks[i].path);
		pool_table_set(&t, 1, "%s",
			pool_size_text(now->status.disks[i].size_bytes - now->status.disks[i].free_bytes, exact, text));
		pool_table_set(&t, 2, "%s", pool_size_text(now->status.disks[i].free_bytes, exact, text));
		rate_cells(&t, (double)(d->op[0].done - e->op[0].done) / seconds,
			(double)(d->op[1].done - e->op[1].done) / seconds,
			(double)(d->op[0].bytes - e->op[0].bytes) / seconds,
			(double)(d->op[1].bytes - e->op[1].bytes) / seconds, exact);
	}
	code = code ? code : pool_table_print(&t, err);
	pool_table_release(&t);
	fflush(stdout);
	return code;
}

int command_iostat(int argc, char **argv)
{
	scoped_free struct pool_use *u = calloc(1, sizeof(*u));
	scoped_free struct sample *samples = calloc(2, sizeof(*samples));
	struct error err = ERROR_INIT;
	struct cli_scan scan;
	const char *value;
	uint64_t interval_ns = 0, count = UINT64_MAX, begun_ns = os_real_now_ns();
	bool verbose = false, scripted = false, exact = false, has_count = false;
	int id, code = u && samples ? 0 : error_set(&err, ERR_MEMORY, "out of memory");

	if (!u)
		return cli_fail(&err);
	u->read_only = true;
	cli_scan_init(&scan, argc, argv, &iostat_help);
	while (!code && (id = cli_scan_next(&scan, &value, &err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			code = id;
		else if (id == OPTION_DISKS)
			code = pool_use_word(u, value, &err);
		else if (id == OPTION_VERBOSE)
			verbose = true;
		else if (id == OPTION_SCRIPTED)
			scripted = true;
		else if (id == OPTION_EXACT)
			exact = true;
		else if (!u->name[0])
			code = pool_use_path(u, value, &err);
		else if (!interval_ns) {
			code = duration_parse(value, &interval_ns, &err);
			if (!code && !interval_ns)
				code = error_set(&err, ERR_USAGE, "the interval must be longer than nothing");
		} else if (!has_count) {
			code = number_parse("the number of lines", value, 1, UINT32_MAX, &count, &err);
			has_count = true;
		} else
			code = error_set(&err, ERR_USAGE,
				"iostat takes a pool, an interval and a count, but '%s' was given too", value);
	}
	if (!code && !u->name[0])
		code = error_set(&err, ERR_USAGE, "iostat needs the name of a pool");
	code = code ? code : pool_use_open(u, &err);
	samples[0].at_ns = begun_ns;
	for (uint64_t i = 0; !code && i < (interval_ns ? count : 1) && !os_interrupted(); i++) {
		sample_take(u->pool, &samples[1]);
		code = sample_print(&samples[1], &samples[0], verbose, scripted, exact, &err);
		samples[0] = samples[1];
		if (interval_ns && i + 1 < count)
			os_sleep_ns(interval_ns);
	}
	return pool_use_end(u, code, &err);
}
