#include "internal.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

const char *const os_stage_names[OS_STAGE_COUNT] = {
	[OS_STAGE_REQUEST] = "request",
	[OS_STAGE_COPY] = "copy",
	[OS_STAGE_CHECKSUM] = "checksum",
	[OS_STAGE_PARITY1] = "parity1",
	[OS_STAGE_PARITY2] = "parity2",
	[OS_STAGE_CALL] = "call",
};

/* One core of a 2-CPU AMD EPYC (Zen 4) virtual machine, best of nine rounds of its CPU time. Copy and parity read what
 * the caller hands in, so their figures are those of data in DRAM; the checksum is of data that was just copied, so in
 * cache. How each was measured: docs/os.md. */
#define NS_PER_KIB(ns_per_byte) ((ns_per_byte)*1024)
const struct os_cost os_costs_default[OS_STAGE_COUNT] = {
	[OS_STAGE_REQUEST] = {3000, 0},               /* io_uring with O_DIRECT: 2.8 to 4 us, whatever the size */
	[OS_STAGE_COPY] = {0, NS_PER_KIB(0.090)},     /* 0.093 and 0.098 in two runs */
	[OS_STAGE_CHECKSUM] = {0, NS_PER_KIB(0.018)}, /* 0.018 and 0.019 */
	[OS_STAGE_PARITY1] = {0, NS_PER_KIB(0.050)},  /* 0.048 and 0.063; 0.010 in cache */
	[OS_STAGE_PARITY2] = {0, NS_PER_KIB(0.060)},  /* 0.046 and 0.078; 0.017 in cache */
	[OS_STAGE_CALL] = {300, 0},
};

void os_charge(enum os_stage stage, uint64_t bytes)
{
	sp_assert((unsigned)stage < OS_STAGE_COUNT);
	if (in_simulation())
		sim__charge(stage, bytes);
}

/* The first line of /proc/stat, in ticks: user nice system idle iowait irq softirq steal. Guest time is within
 * user; stolen time is nobody's work here, so it counts as time but not as busy. */
static bool system_usage_read(uint64_t *ret_busy_ns, uint64_t *ret_total_ns)
{
	FILE *f = fopen("/proc/stat", "re");
	if (!f)
		return false;
	unsigned long long v[8] = {0};
	int found = fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5],
		&v[6], &v[7]);
	fclose(f);
	if (found < 4)
		return false;
	long ticks_per_s = sysconf(_SC_CLK_TCK);
	uint64_t tick_ns = NS_PER_S / (uint64_t)(ticks_per_s > 0 ? ticks_per_s : 100);
	uint64_t busy = v[0] + v[1] + v[2] + v[5] + v[6];
	*ret_busy_ns = busy * tick_ns;
	*ret_total_ns = (busy + v[3] + v[4] + v[7]) * tick_ns;
	return true;
}

void os_cpu_usage(struct os_cpu_usage *ret)
{
	if (in_simulation()) {
		sim__cpu_usage(ret);
		return;
	}
	struct timespec ts = {0};
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	*ret = (struct os_cpu_usage){.process_ns = (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec,
		.cpus = cpus > 0 ? (unsigned)cpus : 1};
	if (!system_usage_read(&ret->system_busy_ns, &ret->system_total_ns)) {
		ret->system_busy_ns = ret->process_ns; /* all that can be known without /proc */
		ret->system_total_ns = os_now_ns() * ret->cpus;
	}
}
