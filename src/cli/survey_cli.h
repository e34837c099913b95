/* Between the files of `spindle survey`. */
#ifndef SURVEY_CLI_H
#define SURVEY_CLI_H

#include "cli.h"

/* --- smart.c: what a drive says of itself, by smartctl when it is installed ---------------------- */

struct smart {
	bool known;
	char reason[120]; /* why it is not */
	uint64_t reallocated, pending, uncorrectable, media_errors, crc_errors, power_on_hours;
	int temperature_c; /* -1: not told */
};
void smart_read(const char *path, struct smart *ret);
/* Takes smartctl's JSON; for smart_read, and for tests on recorded answers. */
void smart_parse(const char *json, struct smart *ret);
/* "reallocated 0 → 8, pending 0 → 1" or "" when nothing that counts has changed. */
void smart_changes(const struct smart *before, const struct smart *after, char *text, size_t bytes);

/* --- burnin.c ------------------------------------------------------------------------------------ */

struct burn_in_options {
	uint64_t duration_ns, seed;
	bool json;
};
/* On open disks that may be written over. Returns 0 when it ran to its end, whatever it found; ret_failed tells how
 * many disks failed. ERR_INTERRUPTED: its state is kept, and the same command goes on. */
int burn_in_run(struct cli_disks *disks, const struct burn_in_options *o, unsigned *ret_failed, struct error *err);

#endif
