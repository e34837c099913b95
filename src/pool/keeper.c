/* The keeper: one thread of a pool that is open for writing. It renews the stamp by which another host sees that the pool is in
 * use, and does the repairs that are queued. */
#include "stripe.h"

struct keeper {
	struct os_thread *thread;
	struct os_cond wake;
	bool stop, has_repairs, has_stamp;
	uint64_t turn, next_ns;
};

#define REPAIR_AGAIN_NS 1000000000ULL /* what cannot be repaired now is tried again so much later */

static void keeper_run(void *arg)
{
	struct pool *p = arg;
	struct keeper *k = p->keeper;
	uint64_t repair_ns = 0;

	os_mutex_lock(&p->lock);
	while (!k->stop) {
		uint64_t now = os_now_ns(), due = UINT64_MAX;

		if (k->has_stamp && now >= k->next_ns) {
			k->next_ns = now + POOL_ACTIVITY_NS;
			os_mutex_unlock(&p->lock);
			(void)activity_write(p, k->turn++);
			os_mutex_lock(&p->lock);
			continue;
		}
		if (k->has_repairs && now >= repair_ns && !p->suspended) {
			struct error ignored = ERROR_INIT;

			k->has_repairs = false;
			os_mutex_unlock(&p->lock);
			int rc = repairs_run(p, &ignored);
			os_mutex_lock(&p->lock);
			if (rc) {
				k->has_repairs = true;
				repair_ns = os_now_ns() + REPAIR_AGAIN_NS;
			}
			continue;
		}
		if (k->has_stamp)
			due = k->next_ns;
		if (k->has_repairs && !p->suspended)
			due = min_of(due, max_of(repair_ns, now));
		if (due == UINT64_MAX)
			os_cond_wait(&k->wake, &p->lock);
		else
			os_cond_wait_until(&k->wake, &p->lock, due);
	}
	os_mutex_unlock(&p->lock);
}

void keeper_wake(struct pool *p)
{
	if (!p->keeper)
		return;
	p->keeper->has_repairs = true;
	os_cond_signal(&p->keeper->wake);
}

int keeper_start(struct pool *p, struct error *err)
{
	struct keeper *k = calloc(1, sizeof *k);

	if (!k)
		return error_set(err, ERR_MEMORY, "no memory for a pool");
	os_cond_init(&k->wake);
	for (unsigned i = 0; i < p->disk_count; i++)
		k->has_stamp |= p->disks[i].disk && !disk_traits(p->disks[i].disk)->is_memory;
	p->keeper = k;
	return os_thread_create(&k->thread, "pool-keep", keeper_run, p, err);
}

void keeper_stop(struct pool *p)
{
	struct keeper *k = p->keeper;

	if (!k)
		return;
	os_mutex_lock(&p->lock);
	k->stop = true;
	os_cond_signal(&k->wake);
	os_mutex_unlock(&p->lock);
	if (k->thread)
		os_thread_join(k->thread);
	os_cond_destroy(&k->wake);
	free(k);
	p->keeper = NULL;
}
