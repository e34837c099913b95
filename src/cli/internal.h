/* Between the files of cli that all commands share. */
#ifndef CLI_INTERNAL_H
#define CLI_INTERNAL_H

/* Takes the progress line off the terminal, when one is drawn. */
void cli__progress_erase(void);
/* Remembers the words for cli_command_line. */
void cli__remember_command_line(int argc, char **argv);

#endif
