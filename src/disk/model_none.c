/* Stands in for the models until all their files are there. */
#include "internal.h"
int disk__model_wrap(struct disk *below, const char *args, unsigned index, struct disk **ret, struct error *err)
{
	return error_set(err, ERR_UNSUPPORTED, "models are not built in");
}
int disk__model_check(const char *args, struct error *err) { return error_set(err, ERR_UNSUPPORTED, "models are not built in"); }
size_t disk_model_count(void) { return 0; }
const struct disk_model_info *disk_model_info(size_t index) { return NULL; }
