#include "cli.h"

int command_compare(int argc, char **argv)
{
	cli_say("compare is not built into this program yet");
	return CLI_REFUSED;
}
