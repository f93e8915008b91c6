/* Ranks on several hosts: which ones, in which order, and whether all are fit
 * for a run. Their order is that of --hosts or --hostfile, host by host; in a
 * Slurm allocation mpirun knows the hosts. */
#ifndef FS_CLI_HOSTS_H
#define FS_CLI_HOSTS_H

#include "cli/cli.h"

enum { CLI_HOSTS_WORDS = 40 };

/* Are ranks started elsewhere too? */
bool cli_on_hosts(const cli *c);
/* Are these, as far as one can tell, more than one? */
bool cli_on_several_hosts(cli *c);
/* Slurm's list of hosts, where that is what says them; else NULL. */
const char *cli_hosts_allocated(const cli *c);
/* Where that does: it, and hosts whose names nobody knows here, for messages.
 */
const char *cli_hosts_allocation_text(cli *c);
/* FS_INVALID: --hosts or --hostfile say no hosts, too few for so many ranks, or
 * first another one than this. An allocation of fewer tasks is told. */
fs_status cli_hosts_check(cli *c, int32_t ranks);
/* Their names, with commas; "" where mpirun alone knows them. */
const char *cli_hosts_names(cli *c);
/* What mpirun is told of them, and which variables ranks are to have there;
 * returns how many words. */
int cli_hosts_words(const cli *c, const char **words);

/* run --dry-run: starts the plan's ranks once; each looks at what it would run
 * with, `words` being those of a rank. Tells a table and "hosts". FS_INVALID: a
 * host has another version, another plan or no data; FS_FAULT: it is not
 * reached. Both name it. */
fs_status cli_hosts_look(cli *c, const cli_plan *p, const char *const *words);
/* In such a rank, instead of running: hands back what it found. */
bool cli_hosts_asked(void);
fs_status cli_hosts_answer(cli *c, const cli_plan *p, fs_status status);

#endif
