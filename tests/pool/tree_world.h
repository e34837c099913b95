/*
 * A small world for trees without the rest of the pool: disks in memory that fail at a chosen operation, and stand-ins
 * for what lies beside node.c and tree.c. It knows of each piece whether it is free, used, or was given up.
 */
#ifndef TREE_WORLD_H
#define TREE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "disk_ops.h"
#include "internal.h"

#define WORLD_DISKS_MAX 8u
#define PIECE_UNITS (NODE_BYTES / POOL_UNIT_BYTES)

enum piece_state { PIECE_FREE, PIECE_USED, PIECE_DEAD };

struct world {
	struct pool *p;
	struct disk *disks[WORLD_DISKS_MAX];
	uint8_t *pieces[WORLD_DISKS_MAX]; /* enum piece_state */
	unsigned piece_count, disk_count, copies;
	unsigned next[WORLD_DISKS_MAX], turn;
	unsigned extent_max;          /* how long a row may be */
	unsigned gap;                 /* pieces left free behind each row */
	uint64_t operations, fail_at; /* counted over all disks, from 1; 0: none fails */
	uint64_t failed, allot_fail_at, allots;
	bool sticky; /* all operations from fail_at on */
	int fail_status;
	unsigned events, dead;
};
static struct world *the_world;

/* --- a disk that fails at the Nth operation ----------------------------------------------------------------------- */

static void failing_submit(struct disk *d, struct disk_request *r)
{
	struct world *w = the_world;

	uint64_t operation = __atomic_add_fetch(&w->operations, 1, __ATOMIC_RELAXED);

	if (w->fail_at && (operation == w->fail_at || (w->sticky && operation > w->fail_at))) {
		w->failed++;
		disk__complete(r, w->fail_status);
		return;
	}
	disk__submit_below(d, r);
}

static int failing_run(struct disk *d, struct disk_request *r)
{
	return disk__run_below(d, r);
}

static void failing_close(struct disk *d)
{
	struct disk *below = d->below;

	disk__release(d);
	free(d);
	disk_close(below);
}

static struct disk *failing_wrap(struct disk *below)
{
	static const struct disk_ops ops = {
		.kind = "failing", .submit = failing_submit, .run = failing_run, .close = failing_close};
	struct disk *d = calloc(1, sizeof *d);

	disk__init(d, &ops, below, NULL);
	return d;
}

/* --- stand-ins ---------------------------------------------------------------------------------------------------- */

void pool_event(struct pool *p, const char *format, ...)
{
	__atomic_add_fetch(&the_world->events, 1, __ATOMIC_RELAXED);
}

void disk_fault(struct pool *p, unsigned index, const char *why)
{
	p->disks[index].state = PD_FAULTED;
}

int space_allot_meta(struct pool *p, uint32_t wanted, struct meta_extent *ret, struct error *err)
{
	struct world *w = the_world;
	unsigned want = min_of(wanted, w->extent_max);

	if (w->allot_fail_at && ++w->allots == w->allot_fail_at)
		return error_set(err, ERR_SPACE, "no room, as the test wishes");
	*ret = (struct meta_extent){.copies = w->copies, .count = want};
	for (unsigned c = 0; c < w->copies; c++) {
		unsigned disk = (w->turn + c) % w->disk_count, at = w->next[disk], tries = 0;

		for (;; at++) { /* first fit from where the last one ended */
			unsigned n = 0;

			if (at + want > w->piece_count)
				at = 0;
			while (n < want && w->pieces[disk][at + n] == PIECE_FREE)
				n++;
			if (n == want)
				break;
			if (++tries > 2 * w->piece_count)
				return error_set(err, ERR_SPACE, "the small world is full");
		}
		memset(w->pieces[disk] + at, PIECE_USED, want);
		w->next[disk] = at + want + w->gap;
		ret->copy[c] = (struct disk_address){.disk = (uint8_t)disk, .unit = (uint64_t)at * PIECE_UNITS};
	}
	w->turn++;
	return 0;
}

void space_unallot_meta(struct pool *p, const struct meta_extent *e, uint32_t from)
{
	for (unsigned c = 0; c < e->copies; c++)
		for (uint32_t i = from; i < e->count; i++) {
			uint8_t *piece = &the_world->pieces[e->copy[c].disk][e->copy[c].unit / PIECE_UNITS + i];

			assert_int_equal(*piece, PIECE_USED);
			*piece = PIECE_FREE;
		}
}

void fold_node_dead(struct pool *p, uint64_t tree, const struct bp *bp)
{
	for (unsigned c = 0; c < bp->copies; c++) {
		uint8_t *piece = &the_world->pieces[bp->copy[c].disk][bp->copy[c].unit / PIECE_UNITS];

		assert_int_equal(*piece, PIECE_USED);
		*piece = PIECE_DEAD;
	}
	the_world->dead++;
}

/* --- the world ---------------------------------------------------------------------------------------------------- */

static void world_open(struct world *w, unsigned disks, unsigned copies, uint64_t disk_bytes, uint64_t cache_bytes)
{
	struct pool *p = calloc(1, sizeof *p);

	memset(w, 0, sizeof *w);
	the_world = w;
	w->p = p;
	w->disk_count = p->disk_count = disks;
	w->copies = copies;
	w->extent_max = 64;
	w->fail_status = ERR_IO;
	w->piece_count = (unsigned)(disk_bytes / NODE_BYTES);
	memset(p->id, 7, sizeof p->id);
	p->tuning.cache_bytes = cache_bytes;
	os_mutex_init(&p->lock);
	os_cond_init(&p->changed);
	for (unsigned i = 0; i < disks; i++) {
		struct disk *memory;
		char name[16];

		snprintf(name, sizeof name, "mem%u", i);
		assert_int_equal(disk_open_memory(name, disk_bytes, &memory, NULL), 0);
		w->disks[i] = failing_wrap(memory);
		w->pieces[i] = calloc(w->piece_count, 1);
		p->config.disks[i] = (struct config_disk){0};
		p->disks[i] = (struct pool_disk){
			.disk = w->disks[i], .config = &p->config.disks[i], .index = i, .state = PD_ONLINE};
	}
	assert_int_equal(node_cache_open(p, NULL), 0);
}

static void world_close(struct world *w)
{
	node_cache_close(w->p);
	for (unsigned i = 0; i < w->disk_count; i++) {
		disk_close(w->disks[i]);
		free(w->pieces[i]);
	}
	os_cond_destroy(&w->p->changed);
	os_mutex_destroy(&w->p->lock);
	free(w->p);
	the_world = NULL;
}

/* What was given up may be used again: nobody holds an old root. */
__attribute__((unused)) static void world_release_dead(struct world *w)
{
	for (unsigned d = 0; d < w->disk_count; d++)
		for (unsigned i = 0; i < w->piece_count; i++)
			if (w->pieces[d][i] == PIECE_DEAD)
				w->pieces[d][i] = PIECE_FREE;
}

__attribute__((unused)) static unsigned world_used(const struct world *w)
{
	unsigned used = 0;

	for (unsigned d = 0; d < w->disk_count; d++)
		for (unsigned i = 0; i < w->piece_count; i++)
			used += w->pieces[d][i] == PIECE_USED;
	return used;
}

__attribute__((unused)) static void world_damage(struct world *w, struct disk_address a)
{
	static uint8_t noise[NODE_BYTES] __attribute__((aligned(4096)));

	memset(noise, 0xa5, sizeof noise);
	assert_int_equal(disk_write(w->disks[a.disk]->below, a.unit * POOL_UNIT_BYTES, noise, NODE_BYTES, NULL), 0);
}

#endif
