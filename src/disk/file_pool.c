/*
 * file_pool: the threads engine of one file.
 *
 * A thread is started when a request finds none idle, up to THREADS_MAX: a disk used at depth 1 has one thread, one
 * that is filled deeply shows the device as many requests as there are threads.
 */
#include <stdio.h>

#include "file.h"

#define THREADS_MAX 16

struct file_pool {
	struct file_disk *file;
	struct os_mutex lock;
	struct os_cond work;
	struct list waiting; /* under lock */
	unsigned idle;       /* under lock: threads that will take the next ones */
	unsigned count;
	bool ends;
	struct os_thread *threads[THREADS_MAX];
};

static struct disk_request *next(struct file_pool *p)
{
	os_scoped_lock(&p->lock);
	while (list_is_empty(&p->waiting) && !p->ends) {
		p->idle++;
		os_cond_wait(&p->work, &p->lock);
		p->idle--;
	}
	if (list_is_empty(&p->waiting))
		return NULL;
	struct list *node = p->waiting.next;
	list_remove(node);
	return container_of(node, struct disk_request, link);
}

static void work(void *arg)
{
	struct file_pool *p = arg;
	struct disk_request *r;
	while ((r = next(p)))
		disk__complete(r, disk__file_run(&p->file->disk, r));
}

static void add_thread(struct file_pool *p)
{
	char name[16];
	snprintf(name, sizeof name, "file-%u", p->count);
	if (p->count < THREADS_MAX && os_thread_create(&p->threads[p->count], name, work, p, NULL) == 0)
		p->count++;
}

int disk__file_pool_open(struct file_disk *f, struct file_pool **ret, struct error *err)
{
	struct file_pool *p = calloc(1, sizeof *p);
	if (!p)
		return error_set(err, ERR_MEMORY, "%s: out of memory for its threads", f->path);
	p->file = f;
	os_mutex_init(&p->lock);
	os_cond_init(&p->work);
	list_init(&p->waiting);
	add_thread(p);
	if (p->count == 0) {
		disk__file_pool_close(p);
		return error_set(err, ERR_UNSUPPORTED, "%s: no thread can be started for it", f->path);
	}
	*ret = p;
	return 0;
}

void disk__file_pool_close(struct file_pool *p)
{
	if (!p)
		return;
	os_mutex_lock(&p->lock);
	p->ends = true;
	os_cond_broadcast(&p->work);
	os_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->count; i++)
		os_thread_join(p->threads[i]);
	os_cond_destroy(&p->work);
	os_mutex_destroy(&p->lock);
	free(p);
}

void disk__file_pool_add(struct file_pool *p, struct disk_request *r)
{
	os_scoped_lock(&p->lock);
	bool crowded = !list_is_empty(&p->waiting) || p->idle == 0;
	list_push_back(&p->waiting, &r->link);
	if (p->idle)
		os_cond_signal(&p->work);
	if (crowded)
		add_thread(p);
}
