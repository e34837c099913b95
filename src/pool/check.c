/*
 * Check: is what lies on the disks one whole, with nothing missing, left over, or used twice?
 *
 * It believes nobody. It starts at the uberblock and reads the trees itself, builds its own picture of who uses what,
 * and only then looks at what descriptors, maps and figures state:
 *
 *     uberblock ──> metamap   stated: pieces of 16 KiB that hold nodes   ═╗
 *               ──> runs      stated: columns that are referenced         ╠═ must be what the walk reached, no more, no
 * less ──> sums      one for each column of each stripe          ║ ──> catalog   datasets, snapshots, their roots and
 * figures║ ──> dead      lists: what a snapshot has and its heir lost║ └─> datasets  every tree of them: nodes and
 * records      ═╝
 *
 * What it looks for, beside damage:
 *   shape      TREE-1, TREE-2, TREE-4; every copy of every node, sealed
 *   records    a pointer names a stripe that exists, in a column that is live, in a class that holds it, born with it;
 * nobody else has the column but snapshots and clones of the same family space      live without a pointer (leaked),
 * pointer without live (will be overwritten), the same for nodes; places that overlap lists      the dead list of a
 * dataset is exactly what the snapshot before it has and it has not figures    used, referenced and logical, as they
 * come out by counting memory     what the open pool holds beside it: owners of all columns that are taken; the log's
 * records data       on demand: every sum, all parity, every record's own checksum
 *
 * Memory: some bits for each column and piece, one descriptor for each run, a few buffers. It never trusts a number of
 * the disk to index or to allocate, and goes on beside what it cannot read; then leaks are not told, because what seems
 * to be leaked may hang below.
 */
#include <stdio.h>
#include <string.h>

#include "check.h"

#define FINDINGS_TOLD 1000u

void check_find(struct check *c, const char *format, ...)
{
	char sentence[512];
	va_list args;

	if (++c->result.findings > FINDINGS_TOLD || !c->finding)
		return;
	va_start(args, format);
	vsnprintf(sentence, sizeof sentence, format, args);
	va_end(args);
	c->finding(c->arg, sentence);
	if (c->result.findings == FINDINGS_TOLD)
		c->finding(c->arg, "more is wrong than is told here");
}

bool check_no_memory(struct check *c)
{
	if (c->rc == 0)
		c->rc = error_set(c->err, ERR_MEMORY, "no memory to check pool %s", c->p->config.name);
	return false;
}

/* --- the small trees ---------------------------------------------------------------------------------------------- */

static void check_uberblock(struct check *c)
{
	for (size_t i = 0; i < c->run_count; i++)
		if (c->runs[i].id >= c->uber.next_run) {
			check_find(c, "run %llu exists, and the next one to be made is %llu",
				(unsigned long long)c->runs[i].id, (unsigned long long)c->uber.next_run);
			break;
		}
	if (c->dataset_count > 0 && c->datasets[c->dataset_count - 1].id >= c->uber.next_dataset &&
		c->datasets[c->dataset_count - 1].id > TREE_DATASET_FIRST)
		check_find(c, "dataset %llu exists, and the next one to be made is %llu",
			(unsigned long long)c->datasets[c->dataset_count - 1].id,
			(unsigned long long)c->uber.next_dataset);
	for (unsigned d = 0; d < c->p->disk_count; d++)
		if (c->p->disks[d].state != PD_REMOVED && c->p->config.disks[d].missed_from > c->uber.commit + 1)
			check_find(c, "disk %u is said to lack commits from %llu on; the last one is %llu", d,
				(unsigned long long)c->p->config.disks[d].missed_from,
				(unsigned long long)c->uber.commit);
}

static void check_all(struct check *c)
{
	check_load_map(c);
	if (c->rc == 0)
		check_load_runs(c);
	if (c->rc == 0)
		check_datasets(c);
	if (c->rc == 0)
		check_uberblock(c);
	if (c->rc == 0)
		check_space(c);
	if (c->rc == 0 && c->verify_data)
		check_stripes(c);
	if (c->rc == 0)
		check_memory(c);
}

static void check_release(struct check *c)
{
	for (size_t i = 0; i < c->run_count; i++)
		free(c->runs[i].returned); /* the sets lie behind it */
	free(c->runs);
	for (unsigned d = 0; d < c->p->disk_count; d++) {
		for (unsigned z = 0; c->zones[d] && z < c->p->disks[d].zone_count; z++)
			free(c->zones[d][z].sets[0]);
		free(c->zones[d]);
	}
	free(c->datasets);
	free(c->format);
	free(c);
}

int pool_check(struct pool *p, bool verify_data, void (*finding)(void *arg, const char *sentence), void *arg,
	struct pool_check_result *ret, struct error *err)
{
	struct check *c = calloc(1, sizeof *c);
	uint64_t pin;
	int rc;

	if (!c)
		return error_set(err, ERR_MEMORY, "no memory to check pool %s", p->config.name);
	if (!p->read_only && !p->suspended) { /* so that all is on the disks */
		rc = pool_checkpoint_now(p, err);
		if (rc) {
			free(c);
			return rc;
		}
	}
	c->p = p;
	c->verify_data = verify_data;
	c->finding = finding;
	c->arg = arg;
	c->err = err;
	c->format = malloc(sizeof *c->format);
	if (!c->format)
		check_no_memory(c);
	os_mutex_lock(&p->lock);
	pin = reader_enter(p);
	c->uber = p->uber;
	os_mutex_unlock(&p->lock);
	if (c->rc == 0)
		check_all(c);
	check_records_flush(c);
	os_mutex_lock(&p->lock);
	reader_leave(p, pin);
	os_mutex_unlock(&p->lock);
	rc = c->rc;
	if (rc == 0)
		*ret = c->result;
	check_release(c);
	return rc;
}
