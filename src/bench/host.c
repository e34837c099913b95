/* The computer that the figures were made on. */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "internal.h"

static void cpu_model(char *ret, size_t room)
{
	char line[256];
	FILE *f = fopen("/proc/cpuinfo", "re");

	while (f && fgets(line, sizeof(line), f)) {
		const char *colon = strchr(line, ':');
		if (strncmp(line, "model name", 10) || !colon)
			continue;
		snprintf(ret, room, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
		break;
	}
	if (f)
		fclose(f);
}

static double gb_per_s(const struct os_cost *cost)
{
	return cost->ns_per_kib > 0 ? 1024 / cost->ns_per_kib : 0;
}

void bench_host(struct result_host *ret)
{
	struct os_cost costs[OS_STAGE_COUNT];
	struct utsname system;

	*ret = (struct result_host){0};
	gethostname(ret->name, sizeof(ret->name) - 1);
	cpu_model(ret->cpu, sizeof(ret->cpu));
	if (uname(&system) == 0)
		snprintf(ret->kernel, sizeof(ret->kernel), "%.30s %.60s", system.sysname, system.release);
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
	ret->cpus = cpus > 0 ? (unsigned)cpus : 1;
	ret->memory_bytes = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
	bench_cpu_measure(costs);
	ret->copy_gb_per_s = gb_per_s(&costs[OS_STAGE_COPY]);
	ret->checksum_gb_per_s = gb_per_s(&costs[OS_STAGE_CHECKSUM]);
	ret->parity1_gb_per_s = gb_per_s(&costs[OS_STAGE_PARITY1]);
	ret->parity2_gb_per_s = gb_per_s(&costs[OS_STAGE_PARITY2]);
}
