#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "survey_cli.h"

#define ANSWER_BYTES (512u << 10)

/* Its output goes to the pipe; no shell sees the path. */
static pid_t start_smartctl(const char *path, int *ret_fd)
{
	int ends[2];
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	child = fork();
	if (child == 0) {
		dup2(ends[1], STDOUT_FILENO);
		execlp("smartctl", "smartctl", "--json", "--all", path, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	if (child < 0)
		close(ends[0]);
	else
		*ret_fd = ends[0];
	return child;
}

static size_t read_answer(int fd, char *answer, size_t room)
{
	size_t length = 0;

	while (length + 1 < room) {
		ssize_t got = read(fd, answer + length, room - 1 - length);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		length += (size_t)got;
	}
	answer[length] = 0;
	return length;
}

void smart_read(const char *path, struct smart *ret)
{
	scoped_free char *answer = malloc(ANSWER_BYTES);
	int fd = -1, status = 0;
	pid_t child;

	*ret = (struct smart){.temperature_c = -1};
	child = answer ? start_smartctl(path, &fd) : -1;
	if (child < 0) {
		snprintf(ret->reason, sizeof(ret->reason), "smartctl could not be started");
		return;
	}
	read_answer(fd, answer, ANSWER_BYTES);
	close(fd);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		snprintf(ret->reason, sizeof(ret->reason), "smartctl is not installed (package smartmontools)");
	else
		smart_parse(answer, ret);
}

static uint64_t number_of(const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	return json_is_integer(value) && json_integer_value(value) >= 0 ? (uint64_t)json_integer_value(value) : 0;
}

static void parse_ata(const json_t *table, struct smart *ret)
{
	for (size_t i = 0; i < json_array_size(table); i++) {
		const json_t *attribute = json_array_get(table, i);
		uint64_t raw = number_of(json_object_get(attribute, "raw"), "value");

		switch (number_of(attribute, "id")) {
		case 5:
			ret->reallocated = raw;
			break;
		case 197:
			ret->pending = raw;
			break;
		case 198:
			ret->uncorrectable = raw;
			break;
		case 199:
			ret->crc_errors = raw;
			break;
		}
	}
}

void smart_parse(const char *json, struct smart *ret)
{
	json_error_t error;
	json_t *root = json_loads(json, 0, &error);
	const json_t *table = json_object_get(json_object_get(root, "ata_smart_attributes"), "table");
	const json_t *nvme = json_object_get(root, "nvme_smart_health_information_log");
	const json_t *temperature = json_object_get(json_object_get(root, "temperature"), "current");

	*ret = (struct smart){.temperature_c = -1};
	if (json_is_array(table)) {
		parse_ata(table, ret);
		ret->known = true;
	} else if (json_is_object(nvme)) {
		ret->media_errors = number_of(nvme, "media_errors");
		ret->known = true;
	} else
		snprintf(ret->reason, sizeof(ret->reason), "the disk tells nothing of itself");
	ret->power_on_hours = number_of(json_object_get(root, "power_on_time"), "hours");
	if (json_is_integer(temperature))
		ret->temperature_c = (int)json_integer_value(temperature);
	json_decref(root);
}

static void add_change(struct text *t, const char *name, uint64_t before, uint64_t after)
{
	if (before != after)
		text_addf(t, "%s%s %llu → %llu", t->length ? ", " : "", name, (unsigned long long)before,
			(unsigned long long)after);
}

void smart_changes(const struct smart *before, const struct smart *after, char *text, size_t bytes)
{
	struct text t = {0};

	if (before->known && after->known) {
		add_change(&t, "reallocated", before->reallocated, after->reallocated);
		add_change(&t, "pending", before->pending, after->pending);
		add_change(&t, "uncorrectable", before->uncorrectable, after->uncorrectable);
		add_change(&t, "media errors", before->media_errors, after->media_errors);
		add_change(&t, "CRC errors", before->crc_errors, after->crc_errors);
	}
	snprintf(text, bytes, "%s", t.length ? t.bytes : "");
	text_release(&t);
}
