#include "internal.h"
int disk__file_open(const struct disk_spec *spec, const struct disk_open_options *o, struct disk **ret, struct error *err)
{
	return error_set(err, ERR_UNSUPPORTED, "%s: files are not built in", spec->path);
}
void disk__file_prepare(struct disk_request *r, struct io_uring_sqe *sqe) {}
void disk__file_ring_done(struct disk_request *r, int result) {}
