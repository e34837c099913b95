#include <locale.h>
#include <string.h>
#include <time.h>

#include "bench_cli.h"
#include "report.h"

/* --- cpu: ---------------------------------------------------------------------------------------- */

static int run_cpu(const struct bench_request *r, struct error *err)
{
	struct os_cost costs[OS_STAGE_COUNT];
	json_t *list;

	bench_cpu_measure(costs);
	if (r->out != BENCH_OUT_JSON) {
		printf("%-10s %12s %14s %10s\n", "STAGE", "ns per call", "ns per KiB", "GB/s");
		for (unsigned i = 0; i < OS_STAGE_COUNT; i++) {
			printf("%-10s %12.1f %14.3f", os_stage_names[i], costs[i].fixed_ns, costs[i].ns_per_kib);
			if (costs[i].ns_per_kib > 0)
				printf(" %10.1f\n", 1024 / costs[i].ns_per_kib);
			else
				printf(" %10s\n", "-");
		}
		return 0;
	}
	list = json_array();
	for (unsigned i = 0; i < OS_STAGE_COUNT; i++)
		json_array_append_new(list,
			json_pack("{ss so so}", "stage", os_stage_names[i], "fixed_ns",
				cli_json_real(costs[i].fixed_ns), "ns_per_kib", cli_json_real(costs[i].ns_per_kib)));
	return cli_json_print(json_pack("{si so}", "schema", 1, "stages", list), err);
}

/* --- the disks of a request ---------------------------------------------------------------------- */

static bool takes_disks(const struct bench_request *r)
{
	return bench_word_is_array(r->words[0]) || bench_word_is_pool(r->words[0]);
}

/* A plain path is a target of its own; mem: and whatever has wrappers is a disk. */
static bool is_disk_word(const char *word)
{
	return strncmp(word, "mem:", 4) == 0 || strstr(word, "+model=") || strstr(word, "+fault=") ||
	       strstr(word, "+trace=");
}

static int take_disks(
	const struct bench_request *r, unsigned first, unsigned end, struct cli_disks *disks, struct error *err)
{
	struct cli_disk_rules rules = {.memory_allowed = true};
	struct disk_open_options options = {.exclusive = true, .buffered = r->buffered};
	int code = 0;

	for (unsigned i = first; !code && i < end; i++)
		code = disk_specs_add(&disks->specs, r->words[i], err);
	if (!code && r->model && takes_disks(r))
		code = disk_specs_add_model(&disks->specs, r->model, r->size_bytes ? r->size_bytes : 256u << 20, err);
	if (!code && disks->specs.count == 0)
		code = error_set(
			err, ERR_USAGE, "%s needs disks: bench %s DISK…, or --model NAME:N", r->words[0], r->words[0]);
	if (!code && !takes_disks(r) && disks->specs.count > 1)
		code = error_set(err, ERR_USAGE, "%s names %zu disks; array:LAYOUT and pool:LAYOUT take several",
			r->words[first], disks->specs.count);
	code = code ? code : cli_disks_inspect(disks, &rules, err);
	code = code ? code : cli_disks_guard(disks, &r->destroy, err);
	for (size_t i = 0; !code && r->is_virtual && i < disks->specs.count; i++)
		if (disks->specs.items[i].path)
			code = error_set(err, ERR_USAGE,
				"%s: --clock virtual is for memory disks (mem:SIZE+model=NAME), real ones take real "
				"time",
				disks->specs.items[i].path);
	return code ? code : cli_disks_open(disks, &options, err);
}

/* --- running ------------------------------------------------------------------------------------- */

struct job {
	const struct bench_request *request;
	struct result *result;
	struct error *err;
};

static int run_targets(void *arg)
{
	struct job *job = arg;
	const struct bench_request *r = job->request;
	unsigned count = takes_disks(r) ? 1 : r->word_count;
	int code = 0;

	for (unsigned i = 0; !code && i < count; i++) {
		struct cli_disks disks = {0};

		if (takes_disks(r))
			code = take_disks(r, 1, r->word_count, &disks, job->err);
		else if (is_disk_word(r->words[i]))
			code = take_disks(r, i, i + 1, &disks, job->err);
		else if (r->is_virtual)
			code = error_set(job->err, ERR_USAGE,
				"%s: --clock virtual is for memory disks, and arrays and pools of them", r->words[i]);
		if (!code)
			code = bench_target_run(r, r->words[i], &disks, job->result, job->err);
		cli_disks_release(&disks);
	}
	return code;
}

static int run_in_world(struct job *job)
{
	struct os_simulation simulation;

	if (!job->request->is_virtual)
		return run_targets(job);
	os_simulation_init(&simulation, job->request->seed);
	simulation.cpus = job->request->cpu_is_free ? 0 : job->request->cpus;
	return os_simulate(&simulation, run_targets, job, job->err);
}

/* --destroy must name what is on the command line: a slip of the finger there is no consent. */
static int check_destroy(const struct bench_request *r, struct error *err)
{
	for (size_t i = 0; i < r->destroy.count; i++) {
		const char *name = r->destroy.names[i];
		bool found = false;

		for (unsigned k = 0; k < r->word_count && !found; k++) {
			size_t length = strcspn(r->words[k], "+*");

			found = strlen(name) == length && strncmp(name, r->words[k], length) == 0;
		}
		if (!found)
			return error_set(err, ERR_USAGE, "--destroy names %s, which is not one of the targets", name);
	}
	return 0;
}

static void describe_run(struct result *result, const struct bench_request *r)
{
	time_t now = (time_t)(os_wall_ns() / 1000000000u);
	struct tm utc;

	*result = (struct result){.seed = r->seed, .price_per_disk = NAN, .link_mb_per_s = r->link_mb_per_s};
	if (isfinite(r->link_mb_per_s))
		snprintf(result->link_name, sizeof(result->link_name), "%.15s", r->link_name);
	bench_host(&result->host);
	snprintf(result->host.cpu_charge, sizeof(result->host.cpu_charge),
		r->is_virtual && r->cpu_is_free ? "free" : "%u CPUs", r->cpus);
	snprintf(result->command, sizeof(result->command), "%s", cli_command_line());
	snprintf(result->version, sizeof(result->version), "%s", SPINDLE_VERSION);
	gmtime_r(&now, &utc);
	strftime(result->started, sizeof(result->started), "%Y-%m-%dT%H:%M:%SZ", &utc);
	strftime(result->id, sizeof(result->id), "%Y%m%d-%H%M%S", &utc);
	snprintf(result->id + strlen(result->id), sizeof(result->id) - strlen(result->id), "-%08x",
		(unsigned)os_random_u64());
}

static int print_result(const struct result *result, const struct bench_request *r, struct error *err)
{
	struct report_style style;

	switch (r->out) {
	case BENCH_OUT_JSON:
		return report_json(result, stdout, err);
	case BENCH_OUT_CSV:
		return report_csv(result, stdout, err);
	case BENCH_OUT_FIO:
		return report_fio_json(result, stdout, err);
	case BENCH_OUT_MARKDOWN:
		return report_markdown(result, stdout, err);
	default:
		report_style_of(stdout, &style);
		return report_cells(result, &style, stdout, err);
	}
}

static bool has_failed_cell(const struct result *result)
{
	for (size_t i = 0; i < result->cell_count; i++)
		if (result->cells[i].verdict == VERDICT_FAILED)
			return true;
	return false;
}

int command_bench(int argc, char **argv)
{
	struct bench_request request;
	struct result result;
	struct error err = ERROR_INIT, print_err = ERROR_INIT;
	struct job job = {&request, &result, &err};
	int code = bench_request_take(&request, argc, argv, &err), printed = 0, status;

	setlocale(LC_CTYPE, "");
	code = code ? code : check_destroy(&request, &err);
	if (code) {
		cli_destroy_release(&request.destroy);
		return code == CLI_HELP ? CLI_DONE : cli_fail(&err);
	}
	if (strcmp(request.words[0], "cpu:") == 0) {
		code = run_cpu(&request, &err);
		cli_destroy_release(&request.destroy);
		return code ? cli_fail(&err) : CLI_DONE;
	}
	describe_run(&result, &request);
	code = run_in_world(&job);
	result.interrupted = code == ERR_INTERRUPTED;
	/* What was measured before something went wrong is shown. */
	if (result.cell_count)
		printed = print_result(&result, &request, &print_err);
	status = code ? cli_fail(&err) : printed ? cli_fail(&print_err) : CLI_DONE;
	if (status == CLI_DONE)
		status = has_failed_cell(&result) ? CLI_FAILED : result_all_valid(&result) ? CLI_DONE : CLI_NOT_VALID;
	result_release(&result);
	cli_destroy_release(&request.destroy);
	return status;
}
