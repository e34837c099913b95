/* The log alone, with stand-ins for what is above it: what was appended is replayed, whole commits only, from whichever disk has it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
/* after the above */
#include <cmocka.h>

#include "internal.h"

#define DISKS 5
#define LOG_BYTES (1u << 20)

struct world {
	struct pool pool;
	struct disk *disks[DISKS];
	struct random random;
	unsigned commits_asked, faults;
};
static struct world *world;

/* --- stand-ins ---------------------------------------------------------------------------------------------------- */

void pool_event(struct pool *p, const char *format, ...) {}
void pool_suspend(struct pool *p, const char *format, ...)
{
	p->suspended = true;
}
int pool_refuses(struct pool *p, struct error *err)
{
	return p->suspended ? error_set(err, ERR_IO, "suspended") : 0;
}
void disk_fault(struct pool *p, unsigned index, const char *why)
{
	p->disks[index].state = PD_FAULTED;
	p->config.disks[index].missed_from = 1;
	world->faults++;
}
int pool_commit_now(struct pool *p, struct error *err)
{
	world->commits_asked++;
	return 0;
}
void pool_checkpoint_ask(struct pool *p) {}

/* --- a world ------------------------------------------------------------------------------------------------------ */

static void must(int rc, const struct error *err)
{
	if (rc)
		print_message("%s: %s\n", error_name(rc), err->text);
	assert_int_equal(rc, 0);
}

static void disk_make(struct world *w, unsigned i, const char *wrappers)
{
	struct error err = ERROR_INIT;
	struct disk_specs specs = {0};
	struct disk_open_options options = {0};
	char word[128];

	snprintf(word, sizeof word, "mem:16MiB%s", wrappers);
	must(disk_specs_add(&specs, word, &err), &err);
	must(disk_open(&specs.items[0], &options, &w->disks[i], &err), &err);
	disk_specs_release(&specs);
	w->pool.disks[i].disk = w->disks[i];
}

static struct world *world_make(unsigned disks, unsigned copies, const char *wrappers)
{
	struct world *w = calloc(1, sizeof *w);
	struct pool *p = &w->pool;
	struct error err = ERROR_INIT;

	world = w;
	random_seed(&w->random, 7);
	os_mutex_init(&p->lock);
	os_cond_init(&p->changed);
	memset(p->id, 0x5a, 16);
	snprintf(p->config.name, sizeof p->config.name, "tank");
	p->disk_count = disks;
	p->group_count = 1;
	p->copies = copies;
	p->groups[0] =
		(struct pool_group){.width = disks, .parity = copies - 1, .disk_count = disks, .kind = GROUP_PARITY};
	for (unsigned i = 0; i < disks; i++) {
		p->groups[0].disks[i] = i;
		p->disks[i] = (struct pool_disk){.config = &p->config.disks[i], .index = i, .state = PD_ONLINE};
		disk_make(w, i, wrappers);
	}
	p->log_bytes = LOG_BYTES;
	p->log_offset_bytes = LABEL_BYTES;
	p->uber.log_sequence = 1;
	p->intent_commit = 1;
	must(log_open(p, &err), &err);
	return w;
}

static void world_free(struct world *w)
{
	log_close(&w->pool);
	for (unsigned i = 0; i < w->pool.disk_count; i++)
		disk_close(w->disks[i]);
	os_cond_destroy(&w->pool.changed);
	os_mutex_destroy(&w->pool.lock);
	free(w);
}

/* As after a power cut: only the disks and the uberblock are left. */
static void world_reopen(struct world *w)
{
	struct error err = ERROR_INIT;

	log_close(&w->pool);
	must(log_open(&w->pool, &err), &err);
}

static uint8_t *entries_make(struct world *w, uint64_t tag, size_t bytes, size_t *ret_bytes)
{
	size_t room = bytes + 4096, at = 0;
	uint8_t *out = calloc(1, room);

	while (at < bytes) {
		uint32_t payload = (uint32_t)(16 + random_below(&w->random, 200));
		uint8_t *to = log_entry_put(out + at, LOG_RECORD, payload);

		memset(to, (int)tag, payload);
		put_le64(to, tag);
		at += log_entry_bytes(payload);
	}
	*ret_bytes = at;
	return out;
}

static void append(struct world *w, uint64_t commit, size_t bytes)
{
	struct error err = ERROR_INIT;
	size_t made;
	uint8_t *entries = entries_make(w, commit, bytes, &made);

	must(log_append(&w->pool, commit, LOG_FLAG_COMMIT, entries, made, &err), &err);
	free(entries);
}

static void checkpoint_at(struct world *w, uint64_t commit)
{
	struct pool *p = &w->pool;

	log_tail(p, commit, &p->uber.log_sequence, &p->uber.log_offset);
	p->uber.commit = commit;
	log_advance(p, p->uber.log_sequence);
}

static struct {
	uint64_t commits[4096], intents[4096];
	unsigned commit_count, intent_count;
	size_t bytes;
} seen;

static int note(
	struct pool *p, uint64_t commit, uint8_t flags, const uint8_t *entries, uint32_t bytes, struct error *err)
{
	uint32_t offset = 0;
	struct log_entry e;

	while (log_entry_next(entries, bytes, &offset, &e, err)) {
		assert_int_equal(get_le64(e.payload), commit);
		for (uint32_t i = 8; i < e.bytes; i++)
			assert_int_equal(e.payload[i], (uint8_t)commit);
	}
	assert_int_equal(err->code, 0);
	if (flags & LOG_FLAG_INTENT)
		seen.intents[seen.intent_count++] = commit;
	else
		seen.commits[seen.commit_count++] = commit;
	seen.bytes += bytes;
	return 0;
}

static bool replay(struct world *w)
{
	struct error err = ERROR_INIT;
	bool found;

	memset(&seen, 0, sizeof seen);
	world_reopen(w);
	must(log_replay(&w->pool, note, &found, &err), &err);
	return found;
}

static void expect_commits(uint64_t first, uint64_t last)
{
	assert_int_equal(seen.commit_count, last - first + 1);
	for (uint64_t c = first; c <= last; c++)
		assert_int_equal(seen.commits[c - first], c);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

static void an_empty_log_says_so(void **state)
{
	struct world *w = world_make(3, 2, "");

	assert_false(replay(w));
	assert_int_equal(seen.commit_count, 0);
	world_free(w);
}

static void goes_round_and_round(void **state)
{
	struct world *w = world_make(4, 2, "");
	uint64_t held = 0;

	for (uint64_t c = 1; c <= 400; c++) {
		size_t bytes = random_below(&w->random, 8) ? random_below(&w->random, 30000)
							   : random_below(&w->random, 300000);

		while (!log_fits(&w->pool, bytes + 1024)) {
			held = min_of(held + 1 + random_below(&w->random, 3), c - 1);
			checkpoint_at(w, held);
		}
		append(w, c, bytes);
		if (random_below(&w->random, 5) == 0) {
			assert_true(replay(w));
			expect_commits(held + 1, c);
		}
	}
	world_free(w);
}

static void whoever_has_it_is_asked(void **state)
{
	struct world *w = world_make(5, 3, "");
	struct error err = ERROR_INIT;
	uint8_t *zeros = aligned_alloc(4096, LOG_BYTES);

	memset(zeros, 0, LOG_BYTES);
	for (uint64_t c = 1; c <= 20; c++) {
		append(w, c, 3000);
		/* The disks change on the way, so no disk has all. */
		if (c == 7 || c == 13)
			w->pool.config.disks[c == 7 ? 0 : 1].missed_from = c;
	}
	w->pool.config.disks[0].missed_from = w->pool.config.disks[1].missed_from = 0;
	replay(w);
	expect_commits(1, 20);
	must(disk_write(w->disks[2], LABEL_BYTES, zeros, LOG_BYTES, &err), &err);
	replay(w);
	expect_commits(1, 20);
	/* Whose ring may be stale is not asked. */
	for (unsigned i = 0; i < 5; i++)
		w->pool.config.disks[i].missed_from = i != 2;
	replay(w);
	assert_int_equal(seen.commit_count, 0);
	free(zeros);
	world_free(w);
}

/* Spoils one byte of the record that holds this place, on every disk. */
static void spoil(struct world *w, uint64_t offset)
{
	struct error err = ERROR_INIT;
	uint8_t *unit = aligned_alloc(4096, 4096);

	for (unsigned i = 0; i < w->pool.disk_count; i++) {
		must(disk_read(w->disks[i], LABEL_BYTES + round_down_u64(offset, 4096), unit, 4096, &err), &err);
		unit[offset % 4096] ^= 1;
		must(disk_write(w->disks[i], LABEL_BYTES + round_down_u64(offset, 4096), unit, 4096, &err), &err);
	}
	free(unit);
}

static void a_torn_tail_is_the_end(void **state)
{
	for (unsigned at = 0; at < 3; at++) {
		struct world *w = world_make(2, 2, "");

		append(w, 1, 1000);
		append(w, 2, 20000);
		uint64_t begin = 4096, end = LOG_BYTES - log_free_bytes(&w->pool);
		append(w, 3, 100);
		assert_int_equal(begin, 4096);
		spoil(w, at == 0 ? end - 4096 - 100 : at == 1 ? begin + 10 : begin + 8192);
		replay(w);
		expect_commits(1, 1);
		/* What is written now takes its place, with other numbers once a checkpoint says so. */
		world_free(w);
	}
}

static void half_a_commit_is_none(void **state)
{
	struct world *w = world_make(2, 2, "");
	struct error err = ERROR_INIT;
	size_t made;
	uint8_t *entries = entries_make(w, 2, 3000, &made);

	append(w, 1, 1000);
	must(log_append(&w->pool, 2, 0, entries, made, &err), &err); /* its last record never came */
	replay(w);
	expect_commits(1, 1);
	append(w, 2, 500); /* as if the same commit went on: all of it counts */
	replay(w);
	expect_commits(1, 2);
	free(entries);
	world_free(w);
}

static void a_long_commit_is_several_records(void **state)
{
	struct world *w = world_make(3, 2, "");

	append(w, 1, 400000);
	append(w, 2, 10);
	replay(w);
	expect_commits(1, 2);
	assert_true(seen.bytes > 400000);
	spoil(w, 250000);
	replay(w);
	assert_int_equal(seen.commit_count, 0);
	world_free(w);
}

static void intent_of(struct world *w, uint64_t commit, size_t bytes)
{
	struct error err = ERROR_INIT;
	size_t made;
	uint8_t *entries = entries_make(w, commit, bytes, &made);

	w->pool.intent_commit = commit;
	os_mutex_lock(&w->pool.lock);
	must(pool_commit_intent(&w->pool, entries, made, &err), &err);
	os_mutex_unlock(&w->pool.lock);
	free(entries);
}

static void intent(struct world *w, uint64_t commit)
{
	intent_of(w, commit, 200);
}

static void intents_count_until_their_commit(void **state)
{
	struct world *w = world_make(2, 2, "");

	append(w, 1, 100);
	intent(w, 2);
	intent(w, 2);
	intent(w, 3); /* asked for while the records of commit 2 leave */
	replay(w);
	assert_int_equal(seen.intent_count, 3);
	append(w, 2, 100);
	replay(w);
	expect_commits(1, 2);
	assert_int_equal(seen.intent_count, 1);
	assert_int_equal(seen.intents[0], 3);
	/* A checkpoint of commit 2 keeps the intent, though it lies before the record of commit 2. */
	checkpoint_at(w, 2);
	replay(w);
	assert_int_equal(seen.commit_count, 0);
	assert_int_equal(seen.intent_count, 1);
	append(w, 3, 100);
	checkpoint_at(w, 3);
	assert_int_equal(log_used_bytes(&w->pool), 0);
	world_free(w);
}

static void intents_leave_room_for_commits(void **state)
{
	struct world *w = world_make(2, 2, "");

	for (unsigned i = 0; i < 1000 && !w->commits_asked; i++)
		intent(w, 1);
	assert_true(w->commits_asked > 0);
	assert_true(log_used_bytes(&w->pool) <= LOG_BYTES / 2);
	assert_true(log_fits(&w->pool, 100000));
	world_free(w);
}

/* The disks of `copies` fail one after another: another takes the record, and all is replayed. */
static void a_failing_disk_is_replaced(void **state)
{
	struct world *w = world_make(5, 3, "");
	struct error err = ERROR_INIT;

	append(w, 1, 100);
	for (unsigned i = 0; i < 2; i++) {
		disk_close(w->disks[i]);
		disk_make(w, i, "+fault=eio,op=write,sticky=1");
	}
	append(w, 2, 100);
	assert_int_equal(w->faults, 0); /* three are left: enough for the copies */
	disk_close(w->disks[2]);
	disk_make(w, 2, "+fault=eio,op=write,sticky=1");
	append(w, 3, 100);
	assert_true(w->faults > 0);
	disk_close(w->disks[3]);
	disk_close(w->disks[4]);
	disk_make(w, 3, "+fault=eio,op=write,sticky=1");
	disk_make(w, 4, "+fault=eio,op=write,sticky=1");
	size_t made;
	uint8_t *entries = entries_make(w, 4, 100, &made);
	assert_true(log_append(&w->pool, 4, LOG_FLAG_COMMIT, entries, made, &err) != 0);
	free(entries);
	world_free(w);
}

/* --- group commit, in virtual time -------------------------------------------------------------------------------- */

#define WRITERS 32
#define EACH 40

struct writer {
	struct world *w;
	struct os_thread *thread;
};

static void writer_run(void *arg)
{
	struct writer *me = arg;

	for (unsigned i = 0; i < EACH; i++)
		intent(me->w, 1);
}

static int rates(void *arg)
{
	double *ratio = arg;
	struct writer writers[WRITERS];
	struct error err = ERROR_INIT;
	uint64_t each[2];
	uint8_t *unit = aligned_alloc(4096, 4096);
	struct random random;

	memset(unit, 1, 4096);
	for (unsigned round = 0; round < 2; round++) {
		unsigned count = round ? WRITERS : 1;
		struct world *w = world_make(2, 2, "+model=hdd-7200-2008");

		w->pool.log_bytes = 8 << 20;
		uint64_t begin = os_now_ns();
		for (unsigned i = 0; i < count; i++) {
			writers[i].w = w;
			must(os_thread_create(&writers[i].thread, "writer", writer_run, &writers[i], &err), &err);
		}
		for (unsigned i = 0; i < count; i++)
			os_thread_join(writers[i].thread);
		each[round] = (os_now_ns() - begin) / (count * EACH);
		if (round == 0) {
			random_seed(&random, 3);
			begin = os_now_ns();
			for (unsigned i = 0; i < EACH; i++) {
				must(disk_write(w->disks[0], random_below(&random, 4096) * 4096, unit, 4096, &err),
					&err);
				must(disk_flush(w->disks[0], &err), &err);
			}
			ratio[1] = (double)each[0] * EACH / (double)(os_now_ns() - begin);
		}
		world_free(w);
	}
	ratio[0] = (double)each[0] / (double)each[1];
	free(unit);
	return 0;
}

static void many_share_a_record(void **state)
{
	struct os_simulation s;
	struct error err = ERROR_INIT;
	double ratio[2];

	os_simulation_init(&s, 11);
	must(os_simulate(&s, rates, ratio, &err), &err);
	print_message("32 writers: %.1f times the rate of one; one: %.2f F\n", ratio[0], ratio[1]);
	assert_true(ratio[0] >= 12);
	assert_true(ratio[1] <= 1.5);
}

/* --- long intents, in virtual time -------------------------------------------------------------------------------- */

static void write_small_one(void *arg)
{
	intent(arg, 1);
}

static int long_ones(void *arg)
{
	struct transaction closing = {.commit = 1};
	struct world *w = world_make(2, 2, "+model=hdd-7200-2008");
	struct os_thread *thread;
	struct error err = ERROR_INIT;

	w->pool.log_bytes = 8 << 20;
	intent_of(w, 1, 120 << 10); /* alone: the log takes it */
	assert_int_equal(w->commits_asked, 0);
	must(os_thread_create(&thread, "writer", write_small_one, w, &err), &err);
	os_sleep_ns(1000000);           /* its flush takes milliseconds */
	intent_of(w, 1, 120 << 10);
	assert_int_equal(w->commits_asked, 1);
	intent_of(w, 1, 40 << 10); /* short enough to wait for its turn */
	assert_int_equal(w->commits_asked, 1);
	os_thread_join(thread);
	intent_of(w, 1, 120 << 10);
	assert_int_equal(w->commits_asked, 1);
	/* A commit is on its way already. */
	w->pool.closing_transaction = &closing;
	intent_of(w, 1, 120 << 10);
	assert_int_equal(w->commits_asked, 2);
	w->pool.closing_transaction = NULL;
	world_free(w);
	return 0;
}

static void a_long_intent_wants_the_log_for_itself(void **state)
{
	struct os_simulation s;
	struct error err = ERROR_INIT;

	os_simulation_init(&s, 12);
	must(os_simulate(&s, long_ones, NULL, &err), &err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_log_says_so),
		cmocka_unit_test(goes_round_and_round),
		cmocka_unit_test(whoever_has_it_is_asked),
		cmocka_unit_test(a_torn_tail_is_the_end),
		cmocka_unit_test(half_a_commit_is_none),
		cmocka_unit_test(a_long_commit_is_several_records),
		cmocka_unit_test(intents_count_until_their_commit),
		cmocka_unit_test(intents_leave_room_for_commits),
		cmocka_unit_test(a_failing_disk_is_replaced),
		cmocka_unit_test(many_share_a_record),
		cmocka_unit_test(a_long_intent_wants_the_log_for_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
