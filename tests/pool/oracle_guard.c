/* Runs of the oracle in a child, so that one that dies or hangs is a failure like any other. */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "oracle.h"

static void result_add(struct oracle_result *sum, const struct oracle_result *r)
{
	sum->cuts += r->cuts;
	sum->operations += r->operations;
	sum->writes += r->writes;
	sum->reads += r->reads;
	sum->flushes += r->flushes;
	sum->snapshots += r->snapshots;
	sum->sectors_compared += r->sectors_compared;
	sum->checks += r->checks;
	sum->scrubs += r->scrubs;
	sum->full_oracles += r->full_oracles;
	sum->refused_full += r->refused_full;
	sum->rewinds += r->rewinds;
	sum->refused += r->refused;
	sum->read_only += r->read_only;
}

static unsigned guard_seconds;

int oracle_run_noted(const struct oracle_options *o, struct oracle_note *note)
{
	struct error err = ERROR_INIT;
	char text[ORACLE_TEXT_BYTES];
	int rc;

	note->options = *o;
	if (guard_seconds)
		alarm(guard_seconds);
	rc = oracle_run(o, &note->last, &err);
	note->runs++;
	result_add(&note->sum, &note->last);
	if (rc && !note->error.code)
		error_set(&note->error, rc, "pool-oracle %s: %s", oracle_options_text(o, text), err.text);
	if (rc)
		fprintf(stderr, "FAILED: pool-oracle %s: %s\n", oracle_options_text(o, text), err.text);
	return rc;
}

int oracle_guard(int (*body)(void *arg, struct oracle_note *note), void *arg, unsigned seconds_max,
	struct oracle_note *ret, struct error *err)
{
	struct oracle_note *note = mmap(NULL, sizeof *note, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char text[ORACLE_TEXT_BYTES];
	int status = 0, rc = 0;
	pid_t child;

	if (note == MAP_FAILED)
		return error_set(err, ERR_MEMORY, "no memory to share with a child");
	fflush(NULL);
	child = fork();
	if (child < 0) {
		munmap(note, sizeof *note);
		return error_set(err, ERR_MEMORY, "no child process can be made");
	}
	if (child == 0) {
		static const int signals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};

		for (size_t i = 0; i < array_count(signals); i++)
			signal(signals[i], SIG_DFL); /* a test's handler would go on with the next test, in the child */
		/* Each import asks for megabytes and gives them back: pages that stay are not cleared again. Half of the time. */
		mallopt(M_MMAP_THRESHOLD, 1 << 30);
		mallopt(M_TRIM_THRESHOLD, 1 << 30);
		mallopt(M_TOP_PAD, 64 << 20);
		guard_seconds = seconds_max;
		rc = body(arg, note);
		fflush(NULL);
		_exit(rc == 0 ? 0 : 1);
	}
	waitpid(child, &status, 0);
	*ret = *note;
	munmap(note, sizeof *note);
	oracle_options_text(&ret->options, text);
	if (WIFSIGNALED(status))
		rc = error_set(err, ERR_BUG, "%s (a run may take %u s); pool-oracle %s", strsignal(WTERMSIG(status)),
			seconds_max, text);
	else if (WEXITSTATUS(status) != 0)
		rc = error_set(err, ERR_CORRUPT, "%s", ret->error.text);
	return rc;
}
