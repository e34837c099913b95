/*
 * What stands beside a figure: the bytes that the devices moved, how busy they and the CPUs were, what went on while
 * the bench did nothing. Devices are counted where nobody can flatter: in the disks themselves, or by the kernel.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "internal.h"

#define IDLE_WINDOW_NS 50000000u
#define IDLE_WINDOWS_MAX 20u
#define IDLE_QUIET_BYTES 65536u /* a journal's heartbeat is no background work */
#define TASKS_MAX 256u

struct evidence_mark {
	uint64_t at_ns;
	struct target_traffic traffic;
	struct os_cpu_usage cpu;
	struct task_ticks {
		long id;
		uint64_t ticks;
	} tasks[TASKS_MAX];
	unsigned task_count;
	struct disk_counters disks[];
};

void traffic_of_disks(struct disk *const *disks, unsigned disk_count, struct target_traffic *ret)
{
	*ret = (struct target_traffic){.known = disk_count > 0};
	for (unsigned i = 0; i < disk_count; i++) {
		struct disk_counters c;
		disk_counters(disks[i], &c);
		ret->read_bytes += c.op[DISK_READ].bytes;
		ret->write_bytes += c.op[DISK_WRITE].bytes;
		ret->read_ops += c.op[DISK_READ].done;
		ret->write_ops += c.op[DISK_WRITE].done;
		ret->flushes += c.op[DISK_FLUSH].done;
	}
}

/* In the simulated world CPU time is what was charged, and not known by thread. */
uint64_t evidence_thread_cpu_ns(void)
{
	struct rusage usage;

	if (os_is_simulated() || getrusage(RUSAGE_THREAD, &usage) != 0)
		return 0;
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000u +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000u;
}

/* --- threads of this process ------------------------------------------------------------------------------------- */

static uint64_t task_ticks_read(const char *id)
{
	char path[64], line[512];
	unsigned long user = 0, system = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%.20s/stat", id);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	size_t length = fread(line, 1, sizeof(line) - 1, f);
	fclose(f);
	line[length] = 0;
	/* The name, in parentheses, may hold anything; fields 14 and 15 are the times. */
	const char *rest = strrchr(line, ')');
	if (!rest || sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
		return 0;
	return user + system;
}

static void tasks_read(struct evidence_mark *m)
{
	m->task_count = 0;
	if (os_is_simulated())
		return;
	DIR *dir = opendir("/proc/self/task");
	if (!dir)
		return;
	for (struct dirent *e = readdir(dir); e && m->task_count < TASKS_MAX; e = readdir(dir))
		if (e->d_name[0] != '.')
			m->tasks[m->task_count++] =
				(struct task_ticks){strtol(e->d_name, NULL, 10), task_ticks_read(e->d_name)};
	closedir(dir);
}

static double busiest_task(const struct evidence_mark *from, const struct evidence_mark *to)
{
	double elapsed_s = (double)(to->at_ns - from->at_ns) / 1e9, most = NAN;
	long ticks_per_s = sysconf(_SC_CLK_TCK);

	if (elapsed_s < 0.3 || ticks_per_s <= 0) /* a tick is 10 ms */
		return NAN;
	for (unsigned i = 0; i < to->task_count; i++)
		for (unsigned k = 0; k < from->task_count; k++)
			if (to->tasks[i].id == from->tasks[k].id)
				most = fmax(most, (double)(to->tasks[i].ticks - from->tasks[k].ticks) /
							  (double)ticks_per_s / elapsed_s);
	return most;
}

/* --- marks ------------------------------------------------------------------------------------------------------- */

int evidence_init(struct evidence *e, const struct target *t, struct error *err)
{
	*e = (struct evidence){.busiest_thread = NAN, .disk_count = t->disk_count};
	if (t->disk_count == 0)
		return 0;
	e->disks = calloc(t->disk_count, sizeof(*e->disks));
	return e->disks ? 0 : error_set(err, ERR_MEMORY, "no memory for the counters of %u disks", t->disk_count);
}

void evidence_release(struct evidence *e)
{
	free(e->disks);
	e->disks = NULL;
}

static void mark(struct target *t, struct evidence_mark *m)
{
	for (unsigned i = 0; i < t->disk_count; i++)
		disk_counters(t->disks[i], &m->disks[i]);
	t->ops->traffic(t, &m->traffic);
	os_cpu_usage(&m->cpu);
	tasks_read(m);
	m->at_ns = os_now_ns();
}

static struct evidence_mark *mark_create(const struct target *t)
{
	return calloc(1, sizeof(struct evidence_mark) + t->disk_count * sizeof(struct disk_counters));
}

int evidence_begin(struct target *t, struct evidence_mark **ret, struct error *err)
{
	struct evidence_mark *m = mark_create(t);

	if (!m)
		return error_set(err, ERR_MEMORY, "no memory for the counters of %u disks", t->disk_count);
	mark(t, m);
	*ret = m;
	return 0;
}

static void add_disk(struct evidence_disk *d, const struct disk_counters *from, const struct disk_counters *to)
{
#define GREW(op_, field) (to->op[op_].field - from->op[op_].field)
	d->ops += GREW(DISK_READ, done) + GREW(DISK_WRITE, done);
	d->writes += GREW(DISK_WRITE, done);
	d->read_bytes += GREW(DISK_READ, bytes);
	d->write_bytes += GREW(DISK_WRITE, bytes);
	d->latency_ns += GREW(DISK_READ, latency_ns_sum) + GREW(DISK_WRITE, latency_ns_sum);
	d->flushes += GREW(DISK_FLUSH, done);
	d->flush_ns += GREW(DISK_FLUSH, latency_ns_sum);
	d->busy_ns += to->busy_ns - from->busy_ns;
	d->late_ns += to->late_ns_sum - from->late_ns_sum;
#undef GREW
}

static uint64_t grown(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0; /* the kernel's tick counts are not always monotonic */
}

void evidence_end(struct target *t, struct evidence_mark *m, struct evidence *e)
{
	struct evidence_mark *now = mark_create(t);

	if (now) {
		mark(t, now);
		e->elapsed_ns += now->at_ns - m->at_ns;
		for (unsigned i = 0; i < e->disk_count; i++)
			add_disk(&e->disks[i], &m->disks[i], &now->disks[i]);
		e->traffic.known = now->traffic.known && m->traffic.known;
		e->traffic.read_bytes += now->traffic.read_bytes - m->traffic.read_bytes;
		e->traffic.write_bytes += now->traffic.write_bytes - m->traffic.write_bytes;
		e->traffic.read_ops += now->traffic.read_ops - m->traffic.read_ops;
		e->traffic.write_ops += now->traffic.write_ops - m->traffic.write_ops;
		e->traffic.stored_known = now->traffic.stored_known;
		e->traffic.stored_bytes += now->traffic.stored_bytes - m->traffic.stored_bytes;
		e->traffic.flushes += now->traffic.flushes - m->traffic.flushes;
		e->traffic.busy_ns += now->traffic.busy_ns - m->traffic.busy_ns;
		e->process_ns += grown(m->cpu.process_ns, now->cpu.process_ns);
		e->system_busy_ns += grown(m->cpu.system_busy_ns, now->cpu.system_busy_ns);
		e->system_total_ns += grown(m->cpu.system_total_ns, now->cpu.system_total_ns);
		e->cpus = now->cpu.cpus;
		e->busiest_thread = fmax(e->busiest_thread, busiest_task(m, now));
		free(now);
	}
	free(m);
}

double evidence_device_busy(const struct evidence *e)
{
	uint64_t most = e->traffic.busy_ns;

	for (unsigned i = 0; i < e->disk_count; i++)
		most = max_of(most, e->disks[i].busy_ns);
	return most && e->elapsed_ns ? fmin((double)most / (double)e->elapsed_ns, 1) : NAN;
}

/* --- what others do ---------------------------------------------------------------------------------------------- */

void evidence_resync(const char *mdstat_path, struct evidence *e)
{
	static const char *const words[] = {"resync =", "recovery =", "check =", "reshape ="};
	char line[256], array[64] = "";
	FILE *f = fopen(mdstat_path, "re");

	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		if (line[0] != ' ')
			sscanf(line, "%63s", array);
		for (unsigned i = 0; i < array_count(words); i++) {
			const char *word = strstr(line, words[i]);
			if (word)
				snprintf(
					e->resync, sizeof(e->resync), "%s: %.*s", array, (int)strcspn(word, "("), word);
		}
	}
	fclose(f);
}

void evidence_idle(struct target *t, struct evidence *e)
{
	double quietest = INFINITY;

	for (unsigned i = 0; i < IDLE_WINDOWS_MAX && !os_interrupted(); i++) {
		struct target_traffic before, after;
		t->ops->traffic(t, &before);
		if (!before.known)
			break;
		uint64_t from_ns = os_now_ns();
		os_sleep_ns(IDLE_WINDOW_NS);
		t->ops->traffic(t, &after);
		uint64_t bytes = after.read_bytes - before.read_bytes + after.write_bytes - before.write_bytes;
		if (bytes < IDLE_QUIET_BYTES) {
			quietest = 0;
			break;
		}
		quietest = fmin(quietest, (double)bytes * 1e9 / (double)(os_now_ns() - from_ns));
	}
	e->idle_bytes_per_s = isfinite(quietest) ? fmax(e->idle_bytes_per_s, quietest) : e->idle_bytes_per_s;
}
