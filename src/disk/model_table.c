/*
 * The named models and the words that change them: "NAME,key=value,…". docs/models.md says for every number where it
 * comes from; the text of `source` is the short form of that.
 */
#include "model_mechanics.h"

#include <stdio.h>
#include <string.h>

#define MIB (1ull << 20)
#define GB 1000000000ull

static const struct model_params models[] = {
	{
		.info =
			{
				.name = "hdd-7200-2008",
				.summary = "7200 rpm SATA disk of 250 GB, about 2008, 55 MB/s",
				.source = "rate: eight-disk comparison of 2008; mechanics: Hitachi Deskstar T7K250, "
					  "7K500 and 60GXP specifications",
				.rotating = true,
				.nominal_bytes = 250 * GB,
				.outer_mb_per_s = 55,
				.inner_mb_per_s = 26.7,
				.seek_avg_ms = 8.9,
				.rpm = 7200,
			},
		.logical_bytes = 512,
		.physical_bytes = 512,
		.cache_bytes = 8 * MIB,
		.link_mb_per_s = 250,
		.overhead_us = 100,
		.flush_ms = 0.2,
		.zones = 30,
		.seek_track_ms = 1.0,
		.seek_full_ms = 17.7,
		.write_settle_ms = 1.0,
		.plan_margin_ms = 0.7,
		.read_segments = 8,
		.write_extents = 64,
		.destage_window = 32,
	},
	{
		.info =
			{
				.name = "hdd-10k-raptor",
				.summary = "10000 rpm SATA disk of 150 GB, about 2006",
				.source = "Western Digital Raptor WD1500ADFD data sheet and reviews",
				.rotating = true,
				.nominal_bytes = 150 * GB,
				.outer_mb_per_s = 84,
				.inner_mb_per_s = 59,
				.seek_avg_ms = 4.6,
				.rpm = 10000,
			},
		.logical_bytes = 512,
		.physical_bytes = 512,
		.cache_bytes = 16 * MIB,
		.link_mb_per_s = 130,
		.overhead_us = 100,
		.flush_ms = 0.2,
		.zones = 16,
		.seek_track_ms = 0.4,
		.seek_full_ms = 10.2,
		.write_settle_ms = 0.6,
		.plan_margin_ms = 0.4,
		.read_segments = 16,
		.write_extents = 64,
		.destage_window = 32,
	},
	{
		.info =
			{
				.name = "hdd-7200-2011",
				.summary = "7200 rpm SATA disk of 2 TB, about 2011",
				.source = "Hitachi Deskstar 7K3000 specification",
				.rotating = true,
				.nominal_bytes = 2000 * GB,
				.outer_mb_per_s = 157,
				.inner_mb_per_s = 76,
				.seek_avg_ms = 8.2,
				.rpm = 7200,
			},
		.logical_bytes = 512,
		.physical_bytes = 512,
		.cache_bytes = 64 * MIB,
		.link_mb_per_s = 500,
		.overhead_us = 60,
		.flush_ms = 0.2,
		.zones = 30,
		.seek_track_ms = 0.8,
		.seek_full_ms = 17,
		.write_settle_ms = 0.8,
		.plan_margin_ms = 0.5,
		.read_segments = 16,
		.write_extents = 128,
		.destage_window = 48,
	},
	{
		.info =
			{
				.name = "hdd-5400-512e",
				.summary = "5400 rpm SATA disk of 2 TB with 4096-byte sectors behind 512",
				.source = "Western Digital Caviar Green WD20EARS data sheet and reviews",
				.rotating = true,
				.nominal_bytes = 2000 * GB,
				.outer_mb_per_s = 110,
				.inner_mb_per_s = 52,
				.seek_avg_ms = 10.5,
				.rpm = 5400,
			},
		.logical_bytes = 512,
		.physical_bytes = 4096,
		.cache_bytes = 64 * MIB,
		.link_mb_per_s = 250,
		.overhead_us = 100,
		.flush_ms = 0.2,
		.zones = 24,
		.seek_track_ms = 1.2,
		.seek_full_ms = 21,
		.write_settle_ms = 1.0,
		.plan_margin_ms = 0.7,
		.read_segments = 16,
		.write_extents = 64,
		.destage_window = 32,
	},
	{
		.info =
			{
				.name = "hdd-15k-sas",
				.summary = "15000 rpm SAS disk of 300 GB, about 2009",
				.source = "Seagate Cheetah 15K.7 product manual 100516226",
				.rotating = true,
				.nominal_bytes = 300 * GB,
				.outer_mb_per_s = 204,
				.inner_mb_per_s = 122,
				.seek_avg_ms = 3.4,
				.rpm = 15000,
			},
		.logical_bytes = 512,
		.physical_bytes = 512,
		.cache_bytes = 16 * MIB,
		.link_mb_per_s = 550,
		.overhead_us = 50,
		.flush_ms = 0.1,
		.zones = 16,
		.seek_track_ms = 0.2,
		.seek_full_ms = 6.6,
		.write_settle_ms = 0.5,
		.plan_margin_ms = 0.3,
		.read_segments = 16,
		.write_extents = 64,
		.destage_window = 32,
	},
	{
		.info =
			{
				.name = "hdd-7200-2024",
				.summary = "7200 rpm SATA disk of 24 TB with 4096-byte sectors behind 512, 2024",
				.source = "Seagate Exos X24 product manual 200562600 and announcement of October 2023",
				.rotating = true,
				.nominal_bytes = 24000 * GB,
				.outer_mb_per_s = 285,
				.inner_mb_per_s = 130,
				.seek_avg_ms = 8.3,
				.rpm = 7200,
			},
		.logical_bytes = 512,
		.physical_bytes = 4096,
		.cache_bytes = 512 * MIB,
		.link_mb_per_s = 550,
		.overhead_us = 30,
		.flush_ms = 0.1,
		.zones = 40,
		.seek_track_ms = 0.5,
		.seek_full_ms = 16,
		.write_settle_ms = 0.5,
		.plan_margin_ms = 0.3,
		.read_segments = 32,
		.write_extents = 512,
		.destage_window = 128,
	},
	{
		.info =
			{
				.name = "hdd-smr",
				.summary = "5900 rpm drive-managed shingled disk of 8 TB: 256 MiB at 100 MB/s, then "
					   "writes at 5 MB/s",
				.source = "mechanics: Seagate Archive ST8000AS0002; media cache: Aghayev, Desnoyers, "
					  "FAST 2015; 100 then 5 MB/s: scaled down",
				.rotating = true,
				.nominal_bytes = 8000 * GB,
				.outer_mb_per_s = 100,
				.inner_mb_per_s = 50,
				.seek_avg_ms = 12,
				.rpm = 5900,
			},
		.logical_bytes = 512,
		.physical_bytes = 4096,
		.cache_bytes = 128 * MIB,
		.link_mb_per_s = 500,
		.overhead_us = 60,
		.flush_ms = 0.2,
		.burst_bytes = 256 * MIB,
		.after_mb_per_s = 5,
		.zones = 30,
		.seek_track_ms = 1.0,
		.seek_full_ms = 23,
		.write_settle_ms = 1.0,
		.plan_margin_ms = 0.7,
		.read_segments = 16,
		.write_extents = 128,
		.destage_window = 32,
	},
	{
		.info =
			{
				.name = "ssd-sata",
				.summary = "SATA flash drive of 1 TB, 2018",
				.source = "Samsung 860 EVO 1 TB data sheet",
				.nominal_bytes = 1000 * GB,
				.outer_mb_per_s = 550,
				.inner_mb_per_s = 550,
				.random_read_iops = 98000,
			},
		.logical_bytes = 512,
		.physical_bytes = 4096,
		.cache_bytes = 1024 * MIB,
		.link_mb_per_s = 560,
		.overhead_us = 15,
		.flush_ms = 2,
		.burst_bytes = 42 * GB,
		.after_mb_per_s = 500,
		.write_mb_per_s = 520,
		.read_us = 100,
		.write_us = 23.8,
		.write_iops = 90000,
		.dies = 32,
	},
	{
		.info =
			{
				.name = "ssd-nvme",
				.summary = "NVMe flash drive of 1 TB, 2019",
				.source = "Samsung 970 EVO Plus 1 TB data sheet",
				.nominal_bytes = 1000 * GB,
				.outer_mb_per_s = 3500,
				.inner_mb_per_s = 3500,
				.random_read_iops = 600000,
			},
		.logical_bytes = 512,
		.physical_bytes = 4096,
		.cache_bytes = 1024 * MIB,
		.link_mb_per_s = 3500,
		.overhead_us = 5,
		.flush_ms = 1,
		.burst_bytes = 42 * GB,
		.after_mb_per_s = 1700,
		.write_mb_per_s = 3300,
		.read_us = 52.6,
		.write_us = 16.7,
		.write_iops = 550000,
		.dies = 64,
	},
};

size_t disk_model_count(void)
{
	return array_count(models);
}

const struct disk_model_info *disk_model_info(size_t index)
{
	return index < array_count(models) ? &models[index].info : NULL;
}

const struct model_params *model__find(const char *name, size_t length)
{
	for (size_t i = 0; i < array_count(models); i++)
		if (strlen(models[i].info.name) == length && memcmp(models[i].info.name, name, length) == 0)
			return &models[i];
	return NULL;
}

/* --- the words ------------------------------------------------------------------------------------------- */

enum applies { APPLIES_ALL, APPLIES_ROTATING, APPLIES_FLASH };

static int set_sector(const char *what, const char *value, uint32_t *ret, struct error *err)
{
	uint64_t bytes;
	int status = number_parse(what, value, 512, 65536, &bytes, err);
	if (status != 0)
		return status;
	if (!is_power_of_two(bytes))
		return error_set(
			err, ERR_USAGE, "%s is %s; a sector is a power of two from 512 to 65536 bytes", what, value);
	*ret = (uint32_t)bytes;
	return 0;
}

static int set_mib(const char *what, const char *value, uint64_t highest, uint64_t *ret, struct error *err)
{
	uint64_t mib;
	int status = number_parse(what, value, 0, highest, &mib, err);
	if (status == 0)
		*ret = mib * MIB;
	return status;
}

static int set_mb_s(const char *what, const char *value, struct model_params *p, struct error *err)
{
	double before = p->info.outer_mb_per_s;
	int status = real_parse(what, value, 0.1, 1e6, &p->info.outer_mb_per_s, err);
	if (status != 0)
		return status;
	double ratio = p->info.outer_mb_per_s / before;
	p->info.inner_mb_per_s *= ratio;
	p->write_mb_per_s *= ratio;
	p->link_mb_per_s = max_of(p->link_mb_per_s, 2 * p->info.outer_mb_per_s);
	return 0;
}

static int set_seek_ms(const char *what, const char *value, struct model_params *p, struct error *err)
{
	double before = p->info.seek_avg_ms;
	int status = real_parse(what, value, 0.1, 1000, &p->info.seek_avg_ms, err);
	if (status != 0)
		return status;
	p->seek_track_ms *= p->info.seek_avg_ms / before;
	p->seek_full_ms *= p->info.seek_avg_ms / before;
	return 0;
}

static int set_rpm(const char *what, const char *value, struct model_params *p, struct error *err)
{
	uint64_t rpm;
	int status = number_parse(what, value, 60, 100000, &rpm, err);
	if (status == 0)
		p->info.rpm = (unsigned)rpm;
	return status;
}

static int set_zones(const char *what, const char *value, struct model_params *p, struct error *err)
{
	uint64_t zones;
	int status = number_parse(what, value, 0, 64, &zones, err);
	if (status != 0)
		return status;
	p->zones = (unsigned)zones;
	if (zones < 2)
		p->info.inner_mb_per_s = p->info.outer_mb_per_s;
	return 0;
}

/* At depth 1 a drive cannot do more than at its cap. */
static int set_iops(const char *what, const char *value, struct model_params *p, struct error *err)
{
	int status = real_parse(what, value, 1, 1e8, &p->info.random_read_iops, err);
	if (status == 0)
		p->read_us = max_of(p->read_us, 1e6 / p->info.random_read_iops);
	return status;
}

static int set_bus(const char *what, const char *value, struct model_params *p, struct error *err)
{
	if (value[0] == 0 || strlen(value) >= sizeof(p->bus))
		return error_set(err, ERR_USAGE, "%s needs a name of 1 to %zu characters", what, sizeof(p->bus) - 1);
	memcpy(p->bus, value, strlen(value) + 1);
	return 0;
}

static int set_logical(const char *what, const char *value, struct model_params *p, struct error *err)
{
	return set_sector(what, value, &p->logical_bytes, err);
}
static int set_physical(const char *what, const char *value, struct model_params *p, struct error *err)
{
	return set_sector(what, value, &p->physical_bytes, err);
}
static int set_flush_ms(const char *what, const char *value, struct model_params *p, struct error *err)
{
	return real_parse(what, value, 0, 60000, &p->flush_ms, err);
}
static int set_cache_mib(const char *what, const char *value, struct model_params *p, struct error *err)
{
	p->cache_given = true;
	return set_mib(what, value, 65536, &p->cache_bytes, err);
}
static int set_burst_mib(const char *what, const char *value, struct model_params *p, struct error *err)
{
	return set_mib(what, value, 1u << 30, &p->burst_bytes, err);
}
static int set_after_mb_s(const char *what, const char *value, struct model_params *p, struct error *err)
{
	return real_parse(what, value, 0.001, 1e6, &p->after_mb_per_s, err);
}
static int set_bus_mb_s(const char *what, const char *value, struct model_params *p, struct error *err)
{
	return real_parse(what, value, 0.001, 1e7, &p->bus_mb_per_s, err);
}

static const struct model_key {
	const char *name;
	enum applies applies;
	int (*set)(const char *what, const char *value, struct model_params *p, struct error *err);
} keys[] = {
	{"mb_s", APPLIES_ALL, set_mb_s},
	{"seek_ms", APPLIES_ROTATING, set_seek_ms},
	{"rpm", APPLIES_ROTATING, set_rpm},
	{"zones", APPLIES_ROTATING, set_zones},
	{"iops", APPLIES_FLASH, set_iops},
	{"flush_ms", APPLIES_ALL, set_flush_ms},
	{"logical", APPLIES_ALL, set_logical},
	{"physical", APPLIES_ALL, set_physical},
	{"cache_mib", APPLIES_ALL, set_cache_mib},
	{"burst_mib", APPLIES_ALL, set_burst_mib},
	{"after_mb_s", APPLIES_ALL, set_after_mb_s},
	{"bus", APPLIES_ALL, set_bus},
	{"bus_mb_s", APPLIES_ALL, set_bus_mb_s},
};

#define KEY_LIST                                                                                                       \
	"mb_s, seek_ms, rpm, zones, iops, flush_ms, logical, physical, cache_mib, burst_mib, after_mb_s, bus, "        \
	"bus_mb_s"

/* One "key=value"; the word may be changed. */
static int set_word(char *word, struct model_params *p, struct error *err)
{
	char *equals = strchr(word, '=');
	if (!equals)
		return error_set(err, ERR_USAGE, "model %s: '%s' is no key=value", p->info.name, word);
	*equals = 0;
	for (size_t i = 0; i < array_count(keys); i++) {
		if (strcmp(keys[i].name, word) != 0)
			continue;
		if (keys[i].applies == (p->info.rotating ? APPLIES_FLASH : APPLIES_ROTATING))
			return error_set(err, ERR_USAGE, "model %s: '%s' is for %s", p->info.name, word,
				p->info.rotating ? "flash drives, and this is a rotating disk"
						 : "rotating disks, and this is a flash drive");
		return keys[i].set(keys[i].name, equals + 1, p, err);
	}
	return error_set(err, ERR_USAGE, "model %s has no key '%s'; the keys are " KEY_LIST, p->info.name, word);
}

static int check_whole(struct model_params *p, bool physical_given, struct error *err)
{
	if (!physical_given)
		p->physical_bytes = max_of(p->physical_bytes, p->logical_bytes);
	if (p->physical_bytes < p->logical_bytes)
		return error_set(err, ERR_USAGE, "model %s: physical=%u is smaller than logical=%u", p->info.name,
			p->physical_bytes, p->logical_bytes);
	if ((p->bus[0] != 0) != (p->bus_mb_per_s > 0))
		return error_set(err, ERR_USAGE, "model %s: bus= and bus_mb_s= go together", p->info.name);
	if (p->burst_bytes > 0 && p->after_mb_per_s <= 0)
		return error_set(err, ERR_USAGE, "model %s: burst_mib= needs after_mb_s=", p->info.name);
	return 0;
}

static int unknown_model(const char *name, size_t length, struct error *err)
{
	struct text list = {0};
	for (size_t i = 0; i < array_count(models); i++)
		text_addf(&list, "%s%s", i ? ", " : "", models[i].info.name);
	int status = error_set(err, ERR_USAGE, "there is no disk model '%.*s'; the models are %s",
		(int)min_of(length, (size_t)60), name,
		list.failed || !list.bytes ? "listed in docs/models.md" : list.bytes);
	text_release(&list);
	return status;
}

int model__parse(const char *args, struct model_params *ret, struct error *err)
{
	size_t length = strcspn(args, ",");
	const struct model_params *found = model__find(args, length);
	if (!found)
		return unknown_model(args, length, err);
	struct model_params p = *found;
	bool physical_given = false;
	const char *at = args + length;
	while (*at == ',') {
		char word[128];
		size_t n = strcspn(++at, ",");
		if (n >= sizeof(word))
			return error_set(err, ERR_USAGE, "model %s: '%.40s…' is too long", p.info.name, at);
		memcpy(word, at, n);
		word[n] = 0;
		at += n;
		physical_given = physical_given || strncmp(word, "physical=", 9) == 0;
		int status = set_word(word, &p, err);
		if (status != 0)
			return status;
	}
	int status = check_whole(&p, physical_given, err);
	if (status == 0)
		*ret = p;
	return status;
}
