#include "cli.h"

int command_bench(int argc, char **argv)
{
	cli_say("bench is not built into this program yet");
	return CLI_REFUSED;
}
