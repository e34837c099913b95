/* What the files of spindle-perf share. */
#ifndef PERF_H
#define PERF_H

#include "base.h"
#include "disk.h"

void print_head(const char *title);
void print_row(const char *name, double measured, double limit, const char *unit, double ratio, double least);
void print_row_most(const char *name, double measured, const char *unit, double most);
int open_disks(const char *word, struct disk **disks, unsigned *ret_count, struct error *err);
uint64_t cpu_ns(void);

int perf_pool(void);
int perf_pool_cpu(void);
int perf_pool_sync(void);

#endif
