#include "cli.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "internal.h"

#define REDRAW_NS 250000000u

/* The one that is drawn at the moment, so that whatever else goes to stderr can take it away first. */
static struct cli_progress *drawn_now;

void cli__progress_erase(void)
{
	if (!drawn_now)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	drawn_now->drawn = false;
	drawn_now = NULL;
}

static unsigned terminal_columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	return 80;
}

void cli_progress_begin(struct cli_progress *p, unsigned phases)
{
	const char *terminal_name = getenv("TERM");

	*p = (struct cli_progress){.phases = phases};
	p->terminal = isatty(STDERR_FILENO) && terminal_name && strcmp(terminal_name, "dumb") != 0;
	p->begun_ns = p->phase_ns = os_real_now_ns();
}

void cli_progress_phase(struct cli_progress *p, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(p->name, sizeof(p->name), format, args);
	va_end(args);
	p->phase++;
	p->phase_ns = os_real_now_ns();
	p->drawn_ns = 0;
	if (p->relay)
		p->relay(p->relay_arg, p->name, 0, 0);
	if (p->quiet || p->relay)
		return;
	if (p->terminal) {
		cli_progress_say(p, NULL, 0, 0);
		return;
	}
	if (p->phases)
		fprintf(stderr, "spindle: %u/%u %s\n", p->phase, p->phases, p->name);
	else
		fprintf(stderr, "spindle: %s\n", p->name);
}

/* What is left of the phase, or of all of them when their number is known, taking the rest to go as what is done. */
static uint64_t left_ns(const struct cli_progress *p, uint64_t now_ns, double share_done)
{
	double done = share_done;
	uint64_t since_ns = p->phase_ns;

	if (p->phases > 1 && p->phase > 0) {
		done = (p->phase - 1 + share_done) / p->phases;
		since_ns = p->begun_ns;
	}
	if (done < 0.01 || now_ns - since_ns < 1000000000u)
		return UINT64_MAX;
	return (uint64_t)((double)(now_ns - since_ns) * (1 - done) / done);
}

void cli_progress_say(void *progress, const char *phase, double share_done, double mb_per_s)
{
	struct cli_progress *p = progress;
	uint64_t now_ns = os_real_now_ns(), left;
	char line[256];
	int length = 0;

	if (p->quiet || (!p->terminal && !p->relay) || (p->drawn_ns && now_ns - p->drawn_ns < REDRAW_NS))
		return;
	p->drawn_ns = now_ns;
	share_done = share_done < 0 ? 0 : share_done > 1 ? 1 : share_done;
	if (p->relay) {
		p->relay(p->relay_arg, NULL, share_done, mb_per_s);
		return;
	}
	if (p->phases)
		length += snprintf(line + length, sizeof(line) - (size_t)length, "%u/%u  ", p->phase, p->phases);
	length += snprintf(line + length, sizeof(line) - (size_t)length, "%.60s", p->name);
	if (phase && phase[0] && strcmp(phase, p->name) != 0)
		length += snprintf(line + length, sizeof(line) - (size_t)length, " %.40s", phase);
	length += snprintf(line + length, sizeof(line) - (size_t)length, "  %3.0f %%", share_done * 100);
	if (mb_per_s > 0)
		length += snprintf(line + length, sizeof(line) - (size_t)length, "  %.0f MB/s", mb_per_s);
	left = left_ns(p, now_ns, share_done);
	if (left != UINT64_MAX) {
		uint64_t seconds = (left + 999999999u) / 1000000000u;

		snprintf(line + length, sizeof(line) - (size_t)length, "  ETA %llu:%02llu",
			(unsigned long long)(seconds / 60), (unsigned long long)(seconds % 60));
	}
	fprintf(stderr, "\r%.*s\033[K", (int)terminal_columns() - 1, line);
	fflush(stderr);
	p->drawn = true;
	drawn_now = p;
}

bool cli_progress_bytes(void *progress, uint64_t done_bytes, uint64_t total_bytes)
{
	struct cli_progress *p = progress;
	double seconds = (double)(os_real_now_ns() - p->phase_ns) / 1e9;

	cli_progress_say(p, NULL, total_bytes ? (double)done_bytes / (double)total_bytes : 1,
		seconds > 0.2 ? (double)done_bytes / 1e6 / seconds : 0);
	return !os_interrupted();
}

void cli_progress_end(struct cli_progress *p)
{
	if (drawn_now == p)
		cli__progress_erase();
}
