/* Which machine: that of a cluster's figures, and this one. */
#ifndef FS_CLI_MACHINE_H
#define FS_CLI_MACHINE_H

#include "cli/cli.h"

/* What figures hold for: processor, cores, memory, kernel, versions of what is
 * measured. */
typedef struct cli_machine {
    const char *host;
    const char *facts;
    char fingerprint[17]; /* 16 hex digits */
    uint64_t digest;
} cli_machine;

/* This host, looked at once. */
fs_status cli_machine_here(cli *c, const cli_machine **out);
/* Do the cluster's figures say that they were measured here? */
fs_status cli_machine_is_here(cli *c, const hw_cluster *cluster, bool *out);
/* The cluster's device where they do, by which kernels may be chosen; NULL. */
fs_status cli_figures_of(cli *c, const hw_cluster *cluster,
                         const hw_device **out);
/* "0123456789abcdef (host a)" */
const char *cli_machine_name(fs_arena *arena, const char *fingerprint,
                             const char *host);
/* "4 cores (here 2), Linux 6.1 (here Linux 6.2)". facts NULL: nobody says. */
const char *cli_machine_differs(cli *c, const char *facts,
                                const cli_machine *here);
/* Of figures that were measured: `figures_of`, their machine's fingerprint. On
 * another machine a warning names both, what differs, and whose predictions
 * are made, once for each machine, as does `other_machine` {machine, host,
 * facts, differs}. `what` they stand in, a file or a database. */
fs_status cli_machine_tell(cli *c, const char *what, const hw_cluster *cluster);

#endif
