/* A made-up result with round figures: what the tests of report hold against the files in golden/. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "report.h"

/* Eight 55 MB/s disks; seven layouts, ten tests, virtual; three of the layouts real as well. A few cells are not valid. */
void fixture_compare(struct result *r);
/* An empty result with the run's facts set. */
void fixture_empty(struct result *r);
/* A VALID cell with these figures; the rest as for a test of eight disks. */
struct cell *fixture_cell(struct result *r, const char *layout, const char *test, const char *clock, double mb_per_s);

/* What `print` writes, as one text to be freed. */
char *fixture_print(int (*print)(FILE *out, void *arg), void *arg);
/* Compares with golden/NAME, or writes it when SPINDLE_UPDATE_GOLDEN is set. Says the first line that differs. */
void fixture_golden(const char *name, const char *text);

#endif
