#include "cli.h"

int command_array(int argc, char **argv)
{
	cli_say("array is not built into this program yet");
	return CLI_REFUSED;
}
