/*
 * compare_worlds: simulated worlds side by side.
 *
 * The problem: a simulated world is one thread at a time, and what it costs is moving bytes; with one world after the
 * other all CPUs but one rest. The idea: worlds share nothing, so each gets a process, which tells over a pipe what it
 * finds:
 *
 *     parent ── fork ──▶ world of raid5   ── note: phase, progress, cell, … , end ──▶ pipe ─┐
 *            ── fork ──▶ world of raid10  ── …                                              ├─▶ parent: shows, keeps
 *            ◀── as one ends, the next begins ◀──────────────────────────────────────────────┘
 *
 * A world that breaks takes only its own cells with it. What is virtual does not depend on how many run at a time.
 *
 * Rules
 *   WORLDS-1  The cells stand in the result in the order of the layouts, whichever world ended first.
 *   WORLDS-2  An interrupt reaches every process; each hands over the cells that it has.
 *   WORLDS-3  No process outlives the parent.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compare.h"

#define WORLDS_MOST 4u /* each has the memory of all disks */
#define POLL_MS 100

struct note {
	enum { NOTE_PHASE, NOTE_PROGRESS, NOTE_CELL, NOTE_END } kind;
	char name[64];
	double share_done, mb_per_s;
	struct cell cell;
	int status;
	struct error error;
};

struct child {
	pid_t pid; /* 0: not running */
	int fd;
	unsigned layout;
	bool ended; /* said so */
	size_t got; /* bytes of the note that is under way */
	struct note note;
};

struct found {
	struct cell *cells;
	size_t count;
};

struct worlds {
	struct compare *c;
	const struct compare_worlds *calls;
	struct child children[WORLDS_MOST];
	struct found found[COMPARE_LAYOUTS_MAX];
	unsigned next_layout, running, shown; /* whose phase the progress line shows */
	bool interrupted;
	int status;
	struct error *err;
};

/* --- in the process of a world ----------------------------------------------------------------------------------- */

static void tell(int fd, const struct note *n)
{
	const char *at = (const char *)n;
	size_t left = sizeof(*n);

	while (left > 0) {
		ssize_t done = write(fd, at, left);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			_exit(CLI_FAILED); /* nobody listens any more */
		at += done;
		left -= (size_t)done;
	}
}

static void tell_progress(void *arg, const char *name, double share_done, double mb_per_s)
{
	struct note n = {.kind = name ? NOTE_PHASE : NOTE_PROGRESS, .share_done = share_done, .mb_per_s = mb_per_s};

	if (name)
		snprintf(n.name, sizeof(n.name), "%s", name);
	tell(*(const int *)arg, &n);
}

static void world_live(struct worlds *w, unsigned layout, int fd)
{
	struct compare *c = w->c;
	size_t before = c->result.cell_count;
	struct note n = {.kind = NOTE_END, .error = ERROR_INIT};

	c->progress.relay = tell_progress;
	c->progress.relay_arg = &fd;
	n.status = w->calls->run(c, w->calls->arg, layout, &n.error);
	for (size_t i = before; i < c->result.cell_count; i++) {
		struct note cell = {.kind = NOTE_CELL, .cell = c->result.cells[i]};

		tell(fd, &cell);
	}
	tell(fd, &n);
	_exit(CLI_DONE);
}

/* --- in the parent ----------------------------------------------------------------------------------------------- */

static int child_start(struct worlds *w, struct child *child)
{
	pid_t parent = getpid(), pid;
	int ends[2];

	if (pipe(ends) != 0)
		return error_set(w->err, ERR_IO, "cannot make a pipe to a simulated world: %s", strerror(errno));
	fflush(stdout);
	pid = fork();
	if (pid < 0) {
		int saved = errno;

		close(ends[0]);
		close(ends[1]);
		return error_set(w->err, ERR_IO, "cannot start a process for a simulated world: %s", strerror(saved));
	}
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* WORLDS-3 */
		if (getppid() != parent)
			_exit(CLI_FAILED);
		close(ends[0]);
		world_live(w, w->next_layout, ends[1]);
	}
	close(ends[1]);
	*child = (struct child){.pid = pid, .fd = ends[0], .layout = w->next_layout++};
	w->running++;
	return 0;
}

static void keep_cell(struct worlds *w, struct found *f, const struct cell *cell)
{
	struct cell *more = realloc(f->cells, (f->count + 1) * sizeof(*more));

	if (!more) {
		w->status = error_set(w->err, ERR_MEMORY, "out of memory for the cells of a layout");
		return;
	}
	f->cells = more;
	more[f->count++] = *cell;
}

static void note_take(struct worlds *w, struct child *child)
{
	const struct note *n = &child->note;

	switch (n->kind) {
	case NOTE_PHASE:
		cli_progress_phase(&w->c->progress, "%s", n->name);
		w->shown = child->layout;
		break;
	case NOTE_PROGRESS:
		if (w->shown == child->layout)
			cli_progress_say(&w->c->progress, NULL, n->share_done, n->mb_per_s);
		break;
	case NOTE_CELL:
		keep_cell(w, &w->found[child->layout], &n->cell);
		break;
	case NOTE_END:
		child->ended = true;
		if (n->status != 0 && w->status == 0)
			w->status = error_set(w->err, n->status, "%s", n->error.text);
		break;
	}
}

/* A world that broke: its layout's cells say so, after those that it handed over. */
static void child_died(struct worlds *w, const struct child *child, int how)
{
	char reason[160];

	if (WIFSIGNALED(how))
		snprintf(reason, sizeof(reason), "the simulated world was ended by signal %d (%s)", WTERMSIG(how),
			strsignal(WTERMSIG(how)));
	else
		snprintf(reason, sizeof(reason), "the simulated world ended early with status %d", WEXITSTATUS(how));
	size_t before = w->c->result.cell_count;
	int status = w->calls->died(w->c, w->calls->arg, child->layout, reason, w->err);

	if (status != 0 && w->status == 0)
		w->status = status;
	for (size_t i = before; i < w->c->result.cell_count; i++)
		keep_cell(w, &w->found[child->layout], &w->c->result.cells[i]);
	w->c->result.cell_count = before;
}

static void child_end(struct worlds *w, struct child *child)
{
	int how = 0;

	close(child->fd);
	while (waitpid(child->pid, &how, 0) < 0 && errno == EINTR)
		;
	if (!child->ended && !w->interrupted)
		child_died(w, child, how);
	child->pid = 0;
	w->running--;
}

/* Once poll has found something: a part of a note, or the end. */
static void child_hear(struct worlds *w, struct child *child)
{
	ssize_t n = read(child->fd, (char *)&child->note + child->got, sizeof(child->note) - child->got);

	if (n < 0 && errno == EINTR)
		return;
	if (n <= 0) {
		child_end(w, child);
		return;
	}
	child->got += (size_t)n;
	if (child->got < sizeof(child->note))
		return;
	child->got = 0;
	note_take(w, child);
}

static void children_stop(struct worlds *w, int signal)
{
	for (unsigned i = 0; i < WORLDS_MOST; i++)
		if (w->children[i].pid > 0)
			kill(w->children[i].pid, signal);
}

static void hear(struct worlds *w)
{
	struct pollfd polled[WORLDS_MOST];
	struct child *of[WORLDS_MOST];
	unsigned count = 0;

	for (unsigned i = 0; i < WORLDS_MOST; i++)
		if (w->children[i].pid > 0) {
			of[count] = &w->children[i];
			polled[count++] = (struct pollfd){.fd = w->children[i].fd, .events = POLLIN};
		}
	int ready = poll(polled, count, POLL_MS);

	if (!w->interrupted && (os_interrupted() || w->status != 0)) { /* WORLDS-2 */
		w->interrupted = true;
		children_stop(w, SIGINT);
	}
	for (unsigned i = 0; i < count && ready > 0; i++)
		if (polled[i].revents)
			child_hear(w, of[i]);
}

static int worlds_join(struct worlds *w)
{
	for (unsigned l = 0; l < w->c->layout_count; l++) { /* WORLDS-1 */
		for (size_t i = 0; i < w->found[l].count && w->status != ERR_MEMORY; i++)
			if (result_add_cell(&w->c->result, &w->found[l].cells[i], w->err) != 0)
				w->status = ERR_MEMORY;
		free(w->found[l].cells);
	}
	return w->status == 0 && w->interrupted ? error_set(w->err, ERR_INTERRUPTED, "interrupted") : w->status;
}

static int one_by_one(struct compare *c, const struct compare_worlds *calls, struct error *err)
{
	int status = 0;

	for (unsigned i = 0; status == 0 && i < c->layout_count; i++)
		status = calls->run(c, calls->arg, i, err);
	return status;
}

/* Those that this process may use. */
static unsigned cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

int compare_worlds_run(struct compare *c, const struct compare_worlds *calls, struct error *err)
{
	unsigned most = min_of(min_of(cpus(), WORLDS_MOST), c->layout_count);

	if (most < 2)
		return one_by_one(c, calls, err);
	scoped_free struct worlds *w = calloc(1, sizeof(*w));
	if (!w)
		return error_set(err, ERR_MEMORY, "out of memory");
	w->c = c;
	w->calls = calls;
	w->err = err;
	while (w->running > 0 || (w->next_layout < c->layout_count && w->status == 0 && !w->interrupted)) {
		for (unsigned i = 0; i < most && w->status == 0 && !w->interrupted; i++)
			if (w->children[i].pid == 0 && w->next_layout < c->layout_count)
				w->status = child_start(w, &w->children[i]);
		if (w->running > 0)
			hear(w);
	}
	return worlds_join(w);
}
