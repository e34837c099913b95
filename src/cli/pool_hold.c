/*
 * `spindle hold POOL`: one process owns the pool for as long as it runs. Others send it their whole command over a
 * socket, with their standard streams; it runs the command here, on those streams, and sends the exit status back. One command
 * at a time.
 *
 *   request   u32 words, then for each word u32 bytes and the bytes; the three descriptors travel with the first byte
 *   answer    i32 exit status
 *   a byte from the client while the command runs, or its end, interrupts it
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"
#include "pool_cli.h"

#define REQUEST_WORDS_MAX 1024
#define REQUEST_BYTES_MAX (256u << 10)

static struct {
	struct pool_use use;
	char name[256];
	bool active;
} held;

struct pool *pool_held(const char *name)
{
	return held.active && strcmp(name, held.name) == 0 ? held.use.pool : NULL;
}

/* /run/spindle as root, else under $XDG_RUNTIME_DIR or the state directory. */
static int socket_path(const char *name, bool make, struct sockaddr_un *ret, struct error *err)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR"), *state = getenv("SPINDLE_STATE");
	char folder[CLI_PATH_BYTES];
	int code = 0;

	ret->sun_family = AF_UNIX;
	if (state && state[0])
		code = cli_state_dir("run", make, folder, err);
	else if (geteuid() == 0)
		snprintf(folder, sizeof(folder), "/run/spindle");
	else if (runtime && runtime[0] == '/')
		snprintf(folder, sizeof(folder), "%.900s/spindle", runtime);
	else
		code = cli_state_dir("run", make, folder, err);
	if (code)
		return code;
	if (make && mkdir(folder, 0700) != 0 && errno != EEXIST)
		return error_set(
			err, error_from_errno(errno), "cannot make the directory %s: %s", folder, strerror(errno));
	if (snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/%s", folder, name) >= (int)sizeof(ret->sun_path))
		return error_set(err, ERR_USAGE, "the path of the socket, %.80s…, is too long", folder);
	return 0;
}

/* --- the side that asks ------------------------------------------------------------------------------- */

static bool send_all(int fd, const void *bytes, size_t count)
{
	const uint8_t *at = bytes;

	while (count) {
		ssize_t done = send(fd, at, count, MSG_NOSIGNAL);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		at += done;
		count -= (size_t)done;
	}
	return true;
}

static bool send_streams(int fd, uint32_t words)
{
	int streams[3] = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
	union {
		char bytes[CMSG_SPACE(sizeof(streams))];
		struct cmsghdr align;
	} control = {{0}};
	uint8_t head[4];
	struct iovec iov = {head, sizeof(head)};
	struct msghdr message = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	put_le32(head, words);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(streams));
	memcpy(CMSG_DATA(c), streams, sizeof(streams));
	return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)sizeof(head);
}

static int await_status(int fd)
{
	uint8_t answer[4];
	size_t got = 0;
	bool told = false;

	while (got < sizeof(answer)) {
		ssize_t done = recv(fd, answer + got, sizeof(answer) - got, 0);

		if (done < 0 && errno == EINTR) {
			if (os_interrupted() && !told)
				told = send_all(fd, "!", 1);
			continue;
		}
		if (done <= 0) {
			cli_say("the process that holds the pool ended before it answered");
			return CLI_FAILED;
		}
		got += (size_t)done;
	}
	return (int)get_le32(answer);
}

bool pool_send(const char *name, int *ret_status)
{
	struct sockaddr_un address = {0};
	int argc, fd = -1;
	char **argv;
	bool sent;

	if (held.active || socket_path(name, false, &address, NULL) != 0)
		return false;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		close(fd);
		return false;
	}
	cli__words(&argc, &argv);
	sent = send_streams(fd, (uint32_t)argc);
	for (int i = 0; sent && i < argc; i++) {
		uint8_t length[4];

		put_le32(length, (uint32_t)strlen(argv[i]));
		sent = send_all(fd, length, 4) && send_all(fd, argv[i], strlen(argv[i]));
	}
	if (sent)
		*ret_status = await_status(fd);
	close(fd);
	return sent;
}

/* --- the side that holds ------------------------------------------------------------------------------- */

static bool receive(int fd, void *to, size_t count)
{
	uint8_t *at = to;

	while (count) {
		ssize_t done = recv(fd, at, count, 0);

		if (done < 0 && errno == EINTR && !os_interrupted())
			continue;
		if (done <= 0)
			return false;
		at += done;
		count -= (size_t)done;
	}
	return true;
}

static bool receive_streams(int fd, uint32_t *ret_words, int streams[3])
{
	union {
		char bytes[CMSG_SPACE(3 * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	uint8_t head[4];
	struct iovec iov = {head, sizeof(head)};
	struct msghdr message = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *c;
	bool good = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) == (ssize_t)sizeof(head);

	c = CMSG_FIRSTHDR(&message);
	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(3 * sizeof(int)))
		return false;
	memcpy(streams, CMSG_DATA(c), 3 * sizeof(int));
	*ret_words = get_le32(head);
	return good;
}

static char **receive_words(int fd, uint32_t count)
{
	char **words = count && count <= REQUEST_WORDS_MAX ? calloc(count + 1, sizeof(*words)) : NULL;
	size_t total = 0;

	for (uint32_t i = 0; words && i < count; i++) {
		uint8_t length[4];

		if (!receive(fd, length, 4) || (total += get_le32(length)) > REQUEST_BYTES_MAX ||
			!(words[i] = calloc(get_le32(length) + 1, 1)) || !receive(fd, words[i], get_le32(length))) {
			words_free(words, i + 1);
			return NULL;
		}
	}
	return words;
}

struct watch {
	int client, done[2];
};

/* A byte or the end of the client interrupts the command; `done` ends the watch. */
static void watch_client(void *arg)
{
	struct watch *w = arg;
	struct pollfd fds[2] = {{.fd = w->client, .events = POLLIN}, {.fd = w->done[0], .events = POLLIN}};

	while (poll(fds, 2, -1) < 0 && errno == EINTR)
		;
	if (fds[0].revents)
		os_interrupt();
}

/* Runs the command on the client's streams, in place of our own. */
static int run_on(int streams[3], int argc, char **argv)
{
	int own[3], status;

	fflush(stdout);
	fflush(stderr);
	for (int i = 0; i < 3; i++) {
		own[i] = dup(i);
		dup2(streams[i], i);
	}
	status = cli__run(argc, argv);
	cli__progress_erase();
	fflush(stdout);
	fflush(stderr);
	clearerr(stdout);
	clearerr(stdin);
	for (int i = 0; i < 3; i++) {
		dup2(own[i], i);
		close(own[i]);
	}
	return status;
}

static void serve_one(int client)
{
	int streams[3] = {-1, -1, -1}, status = CLI_FAILED;
	uint32_t count = 0;
	char **words = NULL;
	uint8_t answer[4];

	if (receive_streams(client, &count, streams))
		words = receive_words(client, count);
	if (words) {
		struct watch watch = {.client = client, .done = {-1, -1}};
		struct os_thread *thread = NULL;

		if (pipe(watch.done) == 0)
			os_thread_create(&thread, "watch", watch_client, &watch, NULL);
		status = run_on(streams, (int)count, words);
		if (watch.done[1] >= 0)
			close(watch.done[1]);
		if (thread)
			os_thread_join(thread);
		if (watch.done[0] >= 0)
			close(watch.done[0]);
		words_free(words, count);
		if (os_interrupted() && status == CLI_INTERRUPTED)
			os_interrupt_clear();
	}
	put_le32(answer, (uint32_t)status);
	send_all(client, answer, 4);
	for (int i = 0; i < 3; i++)
		if (streams[i] >= 0)
			close(streams[i]);
}

static int listen_at(struct sockaddr_un *address, struct error *err)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	mode_t mask = umask(0077);
	bool failed;

	/* The disks are held, so a socket that is there already was left behind. */
	unlink(address->sun_path);
	failed = fd < 0 || bind(fd, (struct sockaddr *)address, sizeof(*address)) != 0 || listen(fd, 16) != 0;
	umask(mask);
	if (!failed)
		return fd;
	error_set(err, ERR_IO, "cannot listen at %s: %s", address->sun_path, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static void serve(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	while (!os_interrupted()) {
		int client;

		if (poll(&p, 1, 500) <= 0)
			continue;
		client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (client < 0)
			continue;
		serve_one(client);
		close(client);
	}
}

enum { OPTION_DISKS = 1, OPTION_CACHE };

static const struct cli_option options[] = {
	{OPTION_DISKS, "disks", 'd', "DISK", "a member, or a directory that holds them; repeated"},
	{OPTION_CACHE, "cache", 0, "SIZE", "memory for records and tree nodes (a quarter of RAM)"},
	{0},
};
static const struct cli_help help = {
	.verb = "hold",
	.usage = "[OPTION]… POOL",
	.text = "Opens a pool and keeps it open, in the foreground, until it is interrupted. Other\n"
		"commands on this pool are carried out by this process.",
	.options = options,
};

int command_hold(int argc, char **argv)
{
	struct sockaddr_un address = {0};
	struct error err = ERROR_INIT;
	struct cli_scan scan;
	const char *value;
	int id, fd = -1, code = 0;

	if (held.active) {
		cli_say("%s is held already", held.name);
		return CLI_REFUSED;
	}
	cli_scan_init(&scan, argc, argv, &help);
	while (!code && (id = cli_scan_next(&scan, &value, &err)) != 0) {
		if (id < 0 || id == CLI_HELP)
			code = id;
		else if (id == OPTION_DISKS)
			code = pool_use_word(&held.use, value, &err);
		else if (id == OPTION_CACHE)
			code = size_parse(value, &held.use.cache_bytes, &err);
		else if (held.use.name[0])
			code = error_set(&err, ERR_USAGE, "hold takes one pool, but '%s' was given too", value);
		else
			code = pool_use_path(&held.use, value, &err);
	}
	if (!code && !held.use.name[0])
		code = error_set(&err, ERR_USAGE, "hold needs the name of a pool");
	code = code ? code : pool_use_open(&held.use, &err);
	if (held.use.is_sent) /* the holder said that it holds */
		return held.use.sent_status;
	code = code ? code : socket_path(held.use.name, true, &address, &err);
	if (!code && (fd = listen_at(&address, &err)) < 0)
		code = err.code;
	if (!code) {
		snprintf(held.name, sizeof(held.name), "%s", held.use.name);
		held.active = true;
		cli_say("%s is held; Ctrl-C lets it go", held.name);
		serve(fd);
		held.active = false;
		unlink(address.sun_path);
	}
	if (fd >= 0)
		close(fd);
	return pool_use_end(&held.use, code, &err);
}
