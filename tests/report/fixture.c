#include "fixture.h"

#include <stdarg.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

static const struct {
	const char *name;
	uint64_t block_bytes;
	unsigned depth;
	double disk_mb_per_s; /* of one disk of the limit */
} tests[] = {
	{"write", 16 << 20, 1, 55},
	{"rewrite", 16 << 20, 1, 55},
	{"read", 16 << 20, 1, 55},
	{"reread", 16 << 20, 1, 55},
	{"randread", 16 << 20, 1, 52},
	{"randwrite", 16 << 20, 1, 52},
	{"randread-128k", 128 << 10, 32, 15},
	{"randwrite-128k", 128 << 10, 32, 16},
	{"randread-8k", 8 << 10, 32, 1.2},
	{"randwrite-8k", 8 << 10, 32, 1.3},
};

static const struct {
	const char *name;
	unsigned disks, data, survives;
	double write_cost; /* small random writes */
} layouts[] = {
	{"single", 1, 1, 0, 1},
	{"stripe", 8, 8, 0, 1},
	{"raid10", 8, 4, 1, 2},
	{"raid10-far", 8, 4, 1, 2},
	{"raid5", 8, 7, 1, 4},
	{"raid6", 8, 6, 2, 6},
	{"raid50", 8, 6, 1, 4},
};

void fixture_empty(struct result *r)
{
	memset(r, 0, sizeof(*r));
	r->seed = 7;
	r->price_per_disk = r->link_mb_per_s = NAN;
	snprintf(r->command, sizeof(r->command), "spindle compare --seed 7");
	snprintf(r->version, sizeof(r->version), "0.1.0");
	snprintf(r->started, sizeof(r->started), "2024-05-01T10:00:00Z");
	snprintf(r->id, sizeof(r->id), "20240501T100000Z-abcd");
	snprintf(r->background, sizeof(r->background), "none");
	snprintf(r->host.name, sizeof(r->host.name), "host");
	snprintf(r->host.cpu, sizeof(r->host.cpu), "A CPU, 2.0 GHz");
	snprintf(r->host.kernel, sizeof(r->host.kernel), "Linux 6.1");
	snprintf(r->host.cpu_charge, sizeof(r->host.cpu_charge), "2 CPUs");
	r->host.cpus = 2;
	r->host.memory_bytes = 8ull << 30;
	r->host.copy_gb_per_s = 10.5;
	r->host.checksum_gb_per_s = r->host.parity1_gb_per_s = r->host.parity2_gb_per_s = NAN;
	r->disk_count = 8;
	r->disks = calloc(8, sizeof(*r->disks));
	assert_non_null(r->disks);
	for (unsigned i = 0; i < 8; i++) {
		struct result_disk *d = &r->disks[i];

		snprintf(d->name, sizeof(d->name), "mem:256MiB#%u", i);
		snprintf(d->spec, sizeof(d->spec), "mem:256MiB+model=hdd-7200-2008");
		snprintf(d->model, sizeof(d->model), "hdd-7200-2008");
		snprintf(d->engine, sizeof(d->engine), "memory");
		d->size_bytes = 256 << 20;
		d->nominal_bytes = 250000000000;
		d->logical_bytes = d->physical_bytes = 512;
		d->rotating = d->modelled = true;
		d->alone_mb_per_s = 55.25;
		d->together_mb_per_s = d->random_iops = d->flush_ms = NAN;
	}
}

struct cell *fixture_cell(struct result *r, const char *layout, const char *test, const char *clock, double mb_per_s)
{
	unsigned t = 0, l = 0;
	struct cell c;

	while (t < array_count(tests) - 1 && strcmp(tests[t].name, test) != 0)
		t++;
	while (l < array_count(layouts) - 1 && strcmp(layouts[l].name, layout) != 0)
		l++;
	cell_init(&c);
	snprintf(c.stack, sizeof(c.stack), "array");
	snprintf(c.layout, sizeof(c.layout), "%s", layout);
	snprintf(c.road, sizeof(c.road), "library");
	snprintf(c.fs, sizeof(c.fs), "none");
	snprintf(c.disks, sizeof(c.disks), "%ux hdd-7200-2008", layouts[l].disks);
	snprintf(c.test, sizeof(c.test), "%s", test);
	snprintf(c.compression, sizeof(c.compression), "off");
	snprintf(c.payload, sizeof(c.payload), "random");
	snprintf(c.clock, sizeof(c.clock), "%s", clock);
	snprintf(c.state, sizeof(c.state), "healthy");
	c.block_bytes = tests[t].block_bytes;
	c.depth = tests[t].depth;
	c.jobs = 1;
	c.fill = 1;
	c.mb_per_s = mb_per_s;
	c.iops = mb_per_s * 1e6 / (double)c.block_bytes;
	c.limit_mb_per_s = tests[t].disk_mb_per_s * layouts[l].disks;
	c.model_mb_per_s = mb_per_s / 0.96;
	c.efficiency = 0.96;
	c.logical_bytes = 700000000;
	c.device_read_bytes = 12345;
	c.device_write_bytes = 800000000;
	c.cpu_seconds = 0.21;
	c.elapsed_s = 1.7;
	c.sample_count = 6;
	for (unsigned i = 0; i < 6; i++)
		c.samples[i] = mb_per_s + (i % 2 ? 0.5 : -0.5);
	c.interval[0] = mb_per_s - 0.5;
	c.interval[1] = mb_per_s + 0.5;
	c.latency_p50_ns = 8330000;
	c.latency_p95_ns = 12000000;
	c.latency_p99_ns = 15000000;
	c.latency_p999_ns = 18000000;
	c.latency_max_ns = 21000000;
	c.usable_bytes = 250000000000ull * layouts[l].data;
	c.failures_survived = layouts[l].survives;
	c.create_s = 0.012;
	c.ready_s = 0;
	snprintf(c.options, sizeof(c.options), "one phase");
	cell_note(&c, VERDICT_VALID, "nothing speaks against it");
	assert_int_equal(result_add_cell(r, &c, NULL), 0);
	return &r->cells[r->cell_count - 1];
}

static double figure(unsigned layout, unsigned test)
{
	double disks = layouts[layout].disks;
	bool write = strstr(tests[test].name, "write") != NULL, small = test >= 6;

	if (write && small)
		disks /= layouts[layout].write_cost;
	else if (write || strcmp(tests[test].name, "reread") == 0 || strncmp(layouts[layout].name, "raid10", 6) != 0 ||
		 small)
		disks = write ? layouts[layout].data : disks;
	else
		disks = strcmp(layouts[layout].name, "raid10-far") == 0 ? disks : disks / 2;
	return disks * tests[test].disk_mb_per_s * 0.96;
}

void fixture_compare(struct result *r)
{
	struct cell *c;

	fixture_empty(r);
	for (unsigned l = 0; l < array_count(layouts); l++)
		for (unsigned t = 0; t < array_count(tests); t++) {
			c = fixture_cell(r, layouts[l].name, tests[t].name, "virtual", figure(l, t));
			if (strcmp(c->test, "reread") == 0)
				cell_note(c, VERDICT_CACHED, "0.02 device bytes for each byte read: less than 0.9");
			if (strcmp(c->layout, "raid6") == 0 && strcmp(c->test, "randwrite-8k") == 0) {
				cell_note(c, VERDICT_CPU_BOUND,
					"CPUs 97 %% busy, more than 90 %%, while disks were 40 %% busy");
				cell_note(c, VERDICT_UNSTABLE, "the interval is 12 %% of the median, more than 5 %%");
			}
		}
	for (unsigned l = 1; l < array_count(layouts); l++)
		for (unsigned t = 0; t < array_count(tests) && (l == 1 || l == 2 || l == 4); t++) {
			c = fixture_cell(
				r, layouts[l].name, tests[t].name, "real", figure(l, t) * (t == 2 ? 0.93 : 0.99));
			if (l == 4 && t == 9) {
				c->mb_per_s = NAN;
				cell_note(c, VERDICT_FAILED,
					"disk mem:256MiB#3: write of 8 KiB at 1 MiB: the disk is gone");
			}
		}
	assert_int_equal(
		result_add_skip(r, "raid60", "raid60 needs at least 2 x 4 disks in a multiple of 2, got 7", NULL), 0);
}

/* --- texts and golden files --------------------------------------------------------------------------------------- */

char *fixture_print(int (*print)(FILE *out, void *arg), void *arg)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_int_equal(print(out, arg), 0);
	assert_int_equal(fclose(out), 0);
	return text;
}

static char *file_text(const char *path)
{
	static char text[1 << 20];
	FILE *in = fopen(path, "r");
	size_t bytes;

	if (!in)
		return NULL;
	bytes = fread(text, 1, sizeof(text) - 1, in);
	text[bytes] = 0;
	fclose(in);
	return text;
}

void fixture_golden(const char *name, const char *text)
{
	char path[512];
	const char *expected;
	unsigned line = 1;

	snprintf(path, sizeof(path), "%s/%s", GOLDEN_DIR, name);
	if (getenv("SPINDLE_UPDATE_GOLDEN")) {
		FILE *out = fopen(path, "w");

		assert_non_null(out);
		fputs(text, out);
		assert_int_equal(fclose(out), 0);
	}
	expected = file_text(path);
	assert_non_null(expected);
	for (; *expected && *text; line++) {
		size_t a = strcspn(expected, "\n"), b = strcspn(text, "\n");

		if (a != b || memcmp(expected, text, a) != 0)
			fail_msg("%s, line %u:\nexpected: %.*s\nfound:    %.*s", name, line, (int)a, expected, (int)b,
				text);
		expected += a + (expected[a] == '\n');
		text += b + (text[b] == '\n');
	}
	if (*expected || *text)
		fail_msg("%s: one ends at line %u, the other goes on", name, line);
}
