/* Starting this program again as ranks of one job. */
#ifndef FS_CLI_RANKS_H
#define FS_CLI_RANKS_H

#include "cli/cli.h"

/* Runs `flowsearch words...` on n ranks through mpirun (directly when n = 1)
 * and waits. A rank's own message goes to stderr; its exit status is the
 * result (FS_FAULT for signals and what is no status of ours). */
fs_status cli_start_ranks(cli *c, int32_t n, const char *const *words);

/* In a rank, before it ends: tells who started it that this status is its own,
 * and not mpirun's. */
void cli_mark_status(fs_status status);
/* Of a rank, when it begins: should it be killed, its parent knows which. */
void cli_mark_alive(void);

#endif
