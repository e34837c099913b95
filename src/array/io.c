/*
 * One thread's I/O: pieces of memory and their places on disks are gathered, sorted by disk and place, joined into
 * long requests, put in flight all at once and waited for together. So a few threads keep deep queues, in order, on
 * every disk.
 */
#include "internal.h"

#include <string.h>

#define REQUEST_BYTES_MAX (4u << 20)
#define REQUEST_IOV_MAX 512u

int io__open(struct io **ret, unsigned members, size_t scratch_bytes, bool own_queue, struct error *err)
{
	struct io *io = calloc(1, sizeof *io);

	if (!io)
		return error_set(err, ERR_MEMORY, "out of memory for requests");
	io->road_count = members;
	io->roads = calloc(LAYOUT_DISKS_MAX + 1, sizeof *io->roads);
	io->planned = calloc(LAYOUT_DISKS_MAX + 1, sizeof *io->planned);
	io->piece_room = 256;
	io->pieces = malloc(io->piece_room * sizeof *io->pieces);
	if (scratch_bytes)
		io->scratch = aligned_alloc(DISK_BUFFER_ALIGN, round_up_u64(scratch_bytes, DISK_BUFFER_ALIGN));
	io->scratch_room = io->scratch ? scratch_bytes : 0;
	int rc = own_queue ? disk_queue_open(&io->queue, err) : 0;
	if (rc || !io->roads || !io->planned || !io->pieces || (scratch_bytes && !io->scratch)) {
		io__close(io);
		return rc ? rc : error_set(err, ERR_MEMORY, "out of memory for requests");
	}
	*ret = io;
	return 0;
}

void io__close(struct io *io)
{
	if (!io)
		return;
	disk_queue_close(io->queue);
	free(io->roads);
	free(io->pieces);
	free(io->requests);
	free(io->iov);
	free(io->firsts);
	free(io->scratch);
	free(io->parts);
	free(io->planned);
	free(io->together);
	free(io->log_entries);
	free(io->log_parts);
	free(io->log_header);
	free(io);
}

void io__reset(struct io *io)
{
	io->piece_count = 0;
	io->scratch_used = 0;
	io->no_memory = false;
}

void io__roads(struct array *a, struct io *io)
{
	io->road_count = a->member_count + 1;
	for (unsigned i = 0; i < a->member_count; i++) {
		const struct member *m = &a->members[i];
		bool there = m->disk && (m->state == ARRAY_MEMBER_ONLINE || m->state == ARRAY_MEMBER_REBUILDING);

		io->roads[i] = (struct road){.disk = there ? m->disk : NULL,
			.source = there ? m->source : NULL,
			.readable_rows = m->state == ARRAY_MEMBER_ONLINE ? UINT64_MAX : m->rebuilt_rows};
	}
	io->roads[a->member_count] = (struct road){.disk = a->log_disk, .readable_rows = UINT64_MAX};
}

bool io__scratch_grow(struct io *io, size_t bytes)
{
	sp_assert(io->scratch_used == 0);
	if (bytes <= io->scratch_room)
		return true;
	uint8_t *p = aligned_alloc(DISK_BUFFER_ALIGN, round_up_u64(bytes, DISK_BUFFER_ALIGN));
	if (!p)
		return false;
	free(io->scratch);
	io->scratch = p;
	io->scratch_room = round_up_u64(bytes, DISK_BUFFER_ALIGN);
	return true;
}

uint8_t *io__scratch(struct io *io, size_t bytes)
{
	size_t need = round_up_u64(bytes, DISK_BUFFER_ALIGN);

	if (need > io->scratch_room - io->scratch_used)
		return NULL;
	uint8_t *p = io->scratch + io->scratch_used;
	io->scratch_used += need;
	return p;
}

void io__piece(struct io *io, unsigned key, uint64_t offset_bytes, void *bytes, uint64_t length, uint32_t tag)
{
	if (io->piece_count == io->piece_room) {
		struct piece *p = realloc(io->pieces, 2 * io->piece_room * sizeof *p);

		if (!p) {
			io->no_memory = true;
			return;
		}
		io->pieces = p;
		io->piece_room *= 2;
	}
	io->pieces[io->piece_count++] = (struct piece){.offset_bytes = offset_bytes,
		.bytes = bytes,
		.length = (uint32_t)length,
		.tag = tag,
		.key = (uint16_t)key};
}

void io__piece_write(struct array *a, struct io *io, unsigned member, uint64_t row, uint64_t data_offset, void *bytes,
	uint64_t length, bool logged)
{
	const struct road *r = &io->roads[member];
	uint64_t at = a->label.data_offset + data_offset;
	bool to_disk = r->disk && row < r->readable_rows;

	if (to_disk)
		io__piece(io, member * 2, at, bytes, length, 0);
	if (to_disk && !io->no_memory)
		io->pieces[io->piece_count - 1].logged = logged;
	if (r->source)
		io__piece(io, member * 2 + 1, at, bytes, length, 0);
	if (r->source && !to_disk && !io->no_memory)
		io->pieces[io->piece_count - 1].logged = logged;
}

static int piece_order(const void *x, const void *y)
{
	const struct piece *a = x, *b = y;

	if (a->key != b->key)
		return a->key < b->key ? -1 : 1;
	if (a->offset_bytes != b->offset_bytes)
		return a->offset_bytes < b->offset_bytes ? -1 : 1;
	return 0;
}

void io__sort(struct io *io)
{
	for (size_t i = 1; i < io->piece_count; i++)
		if (piece_order(&io->pieces[i - 1], &io->pieces[i]) > 0) {
			qsort(io->pieces, io->piece_count, sizeof *io->pieces, piece_order);
			return;
		}
}

static struct disk *disk_of(const struct io *io, unsigned key)
{
	const struct road *r = &io->roads[key / 2];

	return key % 2 ? r->source : r->disk;
}

/* Room for the requests of all pieces, at the worst one each. */
static bool requests_room(struct io *io)
{
	if (io->request_room < io->piece_count) {
		size_t n = max_of(io->piece_room, (size_t)64);

		free(io->requests);
		free(io->iov);
		free(io->firsts);
		io->requests = malloc(n * sizeof *io->requests);
		io->iov = malloc(n * sizeof *io->iov);
		io->firsts = malloc((n + 1) * sizeof *io->firsts);
		io->request_room = io->requests && io->iov && io->firsts ? n : 0;
	}
	return io->request_room >= io->piece_count;
}

/* Joins neighbours into requests; returns how many. */
static size_t requests_build(struct io *io, enum disk_op op)
{
	size_t count = 0;

	for (size_t i = 0, iov = 0; i < io->piece_count; count++) {
		struct iovec *first = &io->iov[iov];
		uint64_t offset = io->pieces[i].offset_bytes, length = 0;
		unsigned key = io->pieces[i].key, entries = 0;

		io->firsts[count] = i;
		for (; i < io->piece_count; i++) {
			const struct piece *p = &io->pieces[i];

			if (p->key != key || p->offset_bytes != offset + length ||
				(length && (length + p->length > REQUEST_BYTES_MAX || entries == REQUEST_IOV_MAX)))
				break;
			if (entries && (uint8_t *)first[entries - 1].iov_base + first[entries - 1].iov_len == p->bytes)
				first[entries - 1].iov_len += p->length;
			else
				first[entries++] = (struct iovec){.iov_base = p->bytes, .iov_len = p->length};
			length += p->length;
		}
		iov += entries;
		disk_request_init_iov(&io->requests[count], op, offset, first, entries);
		io->requests[count].owner = &io->firsts[count];
	}
	io->firsts[count] = io->piece_count;
	return count;
}

static struct disk_queue *queue_of(struct io *io)
{
	return io->queue ? io->queue : disk_queue_of_thread(NULL);
}

/* What could not be read in company may be good apart: a bad sector must not condemn its neighbours. A disk that cannot
 * write is out in any case. */
static int pieces_retry(struct io *io, enum disk_op op, size_t from, size_t to, int status)
{
	int failed = 0;

	for (size_t i = from; i < to; i++) {
		struct piece *p = &io->pieces[i];

		if (op == DISK_READ && to - from > 1 && status != ERR_GONE) {
			struct disk_request r;
			struct disk_queue *q = queue_of(io);

			disk_request_init(&r, op, p->offset_bytes, p->bytes, p->length);
			disk_queue_submit(q, disk_of(io, p->key), &r);
			disk_queue_reap(q, UINT64_MAX);
			p->status = r.status;
		} else {
			p->status = status;
		}
		failed += p->status != 0;
	}
	return failed;
}

int io__run(struct io *io, enum disk_op op)
{
	struct disk_queue *q = queue_of(io);
	int failed = 0;

	if (!io->no_memory && !io->piece_count)
		return 0;
	if (io->no_memory || !q || !requests_room(io))
		return ERR_MEMORY;
	io__sort(io);
	size_t count = requests_build(io, op);
	for (size_t i = 0; i < count; i++)
		disk_queue_submit(q, disk_of(io, io->pieces[io->firsts[i]].key), &io->requests[i]);
	disk_queue_kick(q);
	for (size_t i = 0; i < count; i++)
		disk_queue_reap(q, UINT64_MAX);
	for (size_t i = 0; i < count; i++) {
		int status = io->requests[i].status;

		if (status)
			failed += pieces_retry(io, op, io->firsts[i], io->firsts[i + 1], status);
		else
			for (size_t p = io->firsts[i]; p < io->firsts[i + 1]; p++)
				io->pieces[p].status = 0;
	}
	return failed;
}

int io__flush(struct io *io, const bool *want, int *ret_status)
{
	struct disk_queue *q = queue_of(io);
	size_t count = 0;

	io->piece_count = 0;
	io->no_memory = false;
	for (unsigned key = 0; key < 2 * io->road_count; key++) {
		ret_status[key] = 0;
		if (disk_of(io, key) && (!want || want[key]))
			io__piece(io, key, 0, NULL, 0, 0);
	}
	if (io->no_memory || !q || !requests_room(io))
		return ERR_MEMORY;
	for (; count < io->piece_count; count++) {
		disk_request_init(&io->requests[count], DISK_FLUSH, 0, NULL, 0);
		disk_queue_submit(q, disk_of(io, io->pieces[count].key), &io->requests[count]);
	}
	disk_queue_kick(q);
	for (size_t i = 0; i < count; i++)
		disk_queue_reap(q, UINT64_MAX);
	for (size_t i = 0; i < count; i++)
		ret_status[io->pieces[i].key] = io->requests[i].status;
	io->piece_count = 0;
	return 0;
}

/* --- spare ones, for callers' threads --------------------------------------------------------- */

struct io *io__get(struct array *a, struct error *err)
{
	os_mutex_lock(&a->lock);
	struct io *io = a->io_spare;
	if (io)
		a->io_spare = io->next;
	os_mutex_unlock(&a->lock);
	if (!io && io__open(&io, a->member_count, 0, false, err))
		return NULL;
	io__reset(io);
	return io;
}

void io__put(struct array *a, struct io *io)
{
	if (!io)
		return;
	os_scoped_lock(&a->lock);
	io->next = a->io_spare;
	a->io_spare = io;
}
