/* What a user names as a CLUSTER, and this host as one. */
#ifndef FS_CLI_CLUSTER_H
#define FS_CLI_CLUSTER_H

#include "cli/cli.h"

/* `local` is probed once and kept in the database. */
fs_status cli_cluster_open(cli *c, const char *spec, hw_cluster **out);
/* --memory, which is said. FS_INVALID: it is no size, or more than any device
 * has, so that it would limit nothing. */
fs_status cli_memory_limit(cli *c, const hw_cluster *cluster, int64_t *out);
fs_status cli_remember_local(cli *c, const hw_cluster *cluster);
/* FS_INVALID unless --ranks is absent or a number of ranks for this host. */
fs_status cli_check_ranks(cli *c);
/* A probed host as `local` means it: --ranks devices, one per core without. */
void cli_see_local(const cli *c, hw_cluster *cluster);

#endif
