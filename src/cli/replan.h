/* A plan for fewer ranks in the place of one whose ranks were lost. */
#ifndef FS_CLI_REPLAN_H
#define FS_CLI_REPLAN_H

#include "cli/cli.h"

/* Searches a plan of the same training for one rank fewer than `of` has, or, as
 * long as there is none, for fewer still. *file: it stands beside the
 * checkpoints, else in the scratch folder. FS_NO: there is no such plan. */
fs_status cli_replan(cli *c, const cli_plan *of, cli_plan *out,
                     const char **file);

#endif
