#include "cli.h"

int command_report(int argc, char **argv)
{
	cli_say("report is not built into this program yet");
	return CLI_REFUSED;
}
