/* What an interrupt (TERM, INT, HUP, QUIT, PIPE) does to a command, and the
 * files of its own that it takes away in every case. */
#ifndef FS_CLI_GUARD_H
#define FS_CLI_GUARD_H

#include "cli/cli.h"

#include <signal.h>
#include <stdatomic.h>

/* From here on an interrupt ends this process with status 3, one message, its
 * row in the database ended, its scratch folder and outputs that are not whole
 * gone. A thread of its own waits for it: the command may be anywhere, in a
 * library too. Reads what `c` says now: stop it before that changes. */
void cli_guard_start(cli *c);
/* From here on the first INT or TERM ends nothing, it sets a flag that the
 * command polls; a second one ends it at once. So does the first as long as
 * nothing is `there` that could be told (NULL: always is), which is said. */
void cli_guard_ask_first(cli *c, const atomic_bool *there);
/* That flag; NULL without a guard. */
const atomic_bool *cli_guard_stop_flag(const cli *c);
/* The signal that set it; 0: none did. */
int cli_guard_asked(const cli *c);
/* Interrupts stay held back until somebody takes them. */
void cli_guard_stop(cli *c);
/* The interrupts that our parent did not tell us to ignore (nohup). The PIPE of
 * a write of our own comes to the thread that writes, as long as that holds it
 * back: the write fails, and is told at the end (main.c). */
void cli_guard_interrupts(sigset_t *out);
/* May the first of these leave it to the command how to end? The others say
 * that nobody waits for it. */
bool cli_guard_asks(int number);
/* In a child: signals as they were before the first start. */
void cli_guard_leave(const cli *c);
/* "interrupted by signal 2 (SIGINT)" */
void cli_guard_text(int number, char *text, size_t room);

/* From here on a mapped file that was cut while the program reads it (SIGBUS)
 * is a fault like an interrupt, named, not a crash. */
void cli_guard_files(void);
/* From here on memory that ran out is told once (by the record of a rank that
 * is watched), and files that are not whole go. Jansson, whose objects would
 * just lack what had no room, ends the program so too. */
void cli_guard_memory(const cli *c);
/* The file that is mapped at an address. */
bool cli_mapping_at(const void *address, char *path, size_t room);

/* A file in a folder that only this user may enter, which goes when the
 * command ends. */
fs_status cli_scratch_file(cli *c, const char *name, const char **path);

#endif
