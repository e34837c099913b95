#include "base.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- reading -------------------------------------------------------------------------------------- */

struct unit {
	const char *name;
	uint64_t factor;
};

/* A bare letter is binary, as in fio and dd. */
static const struct unit size_units[] = {
	{"B", 1},
	{"k", UINT64_C(1) << 10},
	{"K", UINT64_C(1) << 10},
	{"KiB", UINT64_C(1) << 10},
	{"kiB", UINT64_C(1) << 10},
	{"kB", UINT64_C(1000)},
	{"KB", UINT64_C(1000)},
	{"M", UINT64_C(1) << 20},
	{"m", UINT64_C(1) << 20},
	{"MiB", UINT64_C(1) << 20},
	{"MB", UINT64_C(1000000)},
	{"G", UINT64_C(1) << 30},
	{"g", UINT64_C(1) << 30},
	{"GiB", UINT64_C(1) << 30},
	{"GB", UINT64_C(1000000000)},
	{"T", UINT64_C(1) << 40},
	{"t", UINT64_C(1) << 40},
	{"TiB", UINT64_C(1) << 40},
	{"TB", UINT64_C(1000000000000)},
	{"P", UINT64_C(1) << 50},
	{"p", UINT64_C(1) << 50},
	{"PiB", UINT64_C(1) << 50},
	{"PB", UINT64_C(1000000000000000)},
	{"E", UINT64_C(1) << 60},
	{"EiB", UINT64_C(1) << 60},
	{"EB", UINT64_C(1000000000000000000)},
};

static const struct unit duration_units[] = {
	{"ns", 1},
	{"us", UINT64_C(1000)},
	{"µs", UINT64_C(1000)},
	{"μs", UINT64_C(1000)},
	{"ms", UINT64_C(1000000)},
	{"s", UINT64_C(1000000000)},
	{"m", UINT64_C(60000000000)},
	{"min", UINT64_C(60000000000)},
	{"h", UINT64_C(3600000000000)},
	{"d", UINT64_C(86400000000000)},
};

#define FRACTION_DIGITS_MAX 9

/* "12" or "12.5" and the name of a unit. The value is whole + fraction / scale. */
struct quantity {
	uint64_t whole, fraction, scale;
	bool has_fraction, overflow;
	const char *unit;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool quantity_read(const char *text, struct quantity *ret)
{
	struct quantity q = {.scale = 1};
	const char *at = text;
	if (!is_digit(*at))
		return false;
	for (; is_digit(*at); at++)
		if (__builtin_mul_overflow(q.whole, 10u, &q.whole) ||
			__builtin_add_overflow(q.whole, (uint64_t)(*at - '0'), &q.whole))
			q.overflow = true;
	if (*at == '.') {
		at++;
		if (!is_digit(*at))
			return false;
		for (int digits = 0; is_digit(*at); at++, digits++) {
			if (digits >= FRACTION_DIGITS_MAX)
				return false;
			q.fraction = q.fraction * 10 + (uint64_t)(*at - '0');
			q.scale *= 10;
		}
		q.has_fraction = true;
	}
	if (*at == ' ' && at[1] != '\0') /* "64 KiB", as we print it */
		at++;
	q.unit = at;
	*ret = q;
	return true;
}

static bool quantity_times(const struct quantity *q, uint64_t factor, uint64_t *ret)
{
	__extension__ typedef unsigned __int128 u128;
	if (q->overflow)
		return false;
	u128 value = (u128)q->whole * factor + (u128)q->fraction * factor / q->scale;
	if (value > UINT64_MAX)
		return false;
	*ret = (uint64_t)value;
	return true;
}

static const struct unit *unit_find(const struct unit *units, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(units[i].name, name) == 0)
			return &units[i];
	return NULL;
}

int size_parse(const char *text, uint64_t *ret_bytes, struct error *err)
{
	struct quantity q;
	if (!text || !quantity_read(text, &q))
		return error_set(err, ERR_USAGE, "\"%.64s\" is not a size; a size looks like 4096, 64KiB, 1.5G or 10MB",
			text ? text : "");
	uint64_t factor = 1;
	if (*q.unit != '\0') {
		const struct unit *unit = unit_find(size_units, array_count(size_units), q.unit);
		if (!unit)
			return error_set(err, ERR_USAGE,
				"\"%.64s\" is not a size; a unit is one of B, k, M, G, T, P, E, KiB … EiB, kB … EB",
				text);
		factor = unit->factor;
	}
	if (q.has_fraction && factor == 1)
		return error_set(err, ERR_USAGE, "\"%.64s\" is not a whole number of bytes", text);
	uint64_t bytes;
	if (!quantity_times(&q, factor, &bytes))
		return error_set(err, ERR_USAGE, "the size \"%.64s\" does not fit in 64 bits", text);
	*ret_bytes = bytes;
	return 0;
}

int duration_parse(const char *text, uint64_t *ret_ns, struct error *err)
{
	struct quantity q;
	if (!text || !quantity_read(text, &q))
		return error_set(err, ERR_USAGE,
			"\"%.64s\" is not a duration; a duration looks like 30, 500ms, 10m or 2h", text ? text : "");
	const struct unit *unit = unit_find(duration_units, array_count(duration_units), *q.unit ? q.unit : "s");
	if (!unit)
		return error_set(err, ERR_USAGE,
			"\"%.64s\" is not a duration; its unit must be one of ns, us, ms, s, m, h, d", text);
	if (q.has_fraction && unit->factor == 1)
		return error_set(err, ERR_USAGE, "\"%.64s\" is not a whole number of nanoseconds", text);
	uint64_t ns;
	if (!quantity_times(&q, unit->factor, &ns))
		return error_set(err, ERR_USAGE, "the duration \"%.64s\" is too long to count in nanoseconds", text);
	*ret_ns = ns;
	return 0;
}

int number_parse(
	const char *what, const char *text, uint64_t lowest, uint64_t highest, uint64_t *ret, struct error *err)
{
	struct quantity q;
	if (!text || !quantity_read(text, &q) || q.has_fraction || !is_digit(text[strlen(text) - 1]))
		return error_set(err, ERR_USAGE, "%s must be a whole number, \"%.64s\" is not", what, text ? text : "");
	if (q.overflow || q.whole < lowest || q.whole > highest)
		return error_set(err, ERR_USAGE, "%s must be from %llu to %llu, not %.64s", what,
			(unsigned long long)lowest, (unsigned long long)highest, text);
	*ret = q.whole;
	return 0;
}

int real_parse(const char *what, const char *text, double lowest, double highest, double *ret, struct error *err)
{
	/* strtod would also take "inf", "nan", hexadecimal and leading blanks. */
	bool plain = text && *text && strspn(text, "0123456789.eE+-") == strlen(text);
	char *end = NULL;
	errno = 0;
	double value = plain ? strtod(text, &end) : 0;
	if (!plain || end == text || *end != '\0' || !isfinite(value))
		return error_set(err, ERR_USAGE, "%s must be a number, \"%.64s\" is not", what, text ? text : "");
	if (value < lowest || value > highest)
		return error_set(err, ERR_USAGE, "%s must be from %g to %g, not %.64s", what, lowest, highest, text);
	*ret = value;
	return 0;
}

/* --- writing: three significant digits, no trailing zeros ------------------------------------------ */

/* False when rounding would reach `limit`, so that the next unit has to be taken ("1024 KiB" is "1 MiB"). */
static bool significant_3(double value, double limit, char *text, size_t room)
{
	int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
	int length = snprintf(text, room, "%.*f", decimals, value);
	if (decimals > 0) {
		while (text[length - 1] == '0')
			text[--length] = '\0';
		if (text[length - 1] == '.')
			text[--length] = '\0';
	}
	return value + (decimals == 0 ? 0.5 : 0) < limit;
}

static char *size_format(uint64_t bytes, double step, const char *const names[7], char text[SIZE_TEXT_BYTES])
{
	char number[SIZE_TEXT_BYTES - 8];
	double value = (double)bytes;
	size_t unit = 0;
	for (; unit < 6; unit++, value /= step)
		if (significant_3(value, step, number, sizeof(number)))
			break;
	significant_3(value, step, number, sizeof(number));
	if (bytes < (uint64_t)step)
		snprintf(text, SIZE_TEXT_BYTES, "%u B", (unsigned)bytes);
	else
		snprintf(text, SIZE_TEXT_BYTES, "%s %s", number, names[unit]);
	return text;
}

char *size_format_binary(uint64_t bytes, char text[SIZE_TEXT_BYTES])
{
	static const char *const names[7] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	return size_format(bytes, 1024, names, text);
}

char *size_format_decimal(uint64_t bytes, char text[SIZE_TEXT_BYTES])
{
	static const char *const names[7] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
	return size_format(bytes, 1000, names, text);
}

static char *duration_format_parts(
	uint64_t big, const char *big_name, uint64_t small, const char *small_name, char text[SIZE_TEXT_BYTES])
{
	snprintf(text, SIZE_TEXT_BYTES, "%llu %s %02u %s", (unsigned long long)big, big_name, (unsigned)small,
		small_name);
	return text;
}

char *duration_format(uint64_t ns, char text[SIZE_TEXT_BYTES])
{
	static const char *const names[] = {"ns", "us", "ms"};
	char number[SIZE_TEXT_BYTES - 8];
	double value = (double)ns;
	for (size_t i = 0; i < array_count(names); i++, value /= 1000)
		if (significant_3(value, 1000, number, sizeof(number))) {
			snprintf(text, SIZE_TEXT_BYTES, "%s %s", number, names[i]);
			return text;
		}
	if (significant_3(value, 60, number, sizeof(number)) && value < 59.95) {
		snprintf(text, SIZE_TEXT_BYTES, "%s s", number);
		return text;
	}
	uint64_t s = ns / 1000000000u + (ns % 1000000000u >= 500000000u);
	if (s < 3600)
		return duration_format_parts(s / 60, "m", s % 60, "s", text);
	if (s < 86400)
		return duration_format_parts(s / 3600, "h", s % 3600 / 60, "m", text);
	return duration_format_parts(s / 86400, "d", s % 86400 / 3600, "h", text);
}
