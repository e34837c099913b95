/* Between the files of cli that all commands share. */
#ifndef CLI_INTERNAL_H
#define CLI_INTERNAL_H

/* Takes the progress line off the terminal, when one is drawn. */
void cli__progress_erase(void);
/* Remembers the words for cli_command_line. */
void cli__remember_command_line(int argc, char **argv);

/* The words themselves. */
void cli__words(int *ret_argc, char ***ret_argv);
/* Runs a whole command line, argv[0] the program: for `hold`, which carries out what others typed. */
int cli__run(int argc, char **argv);

#endif
