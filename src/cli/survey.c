#include "cli.h"

int command_survey(int argc, char **argv)
{
	cli_say("survey is not built into this program yet");
	return CLI_REFUSED;
}
