/* How all-reduces are done: as --collectives says, or by what the cost model
 * finds quickest; predicted and run alike. */
#ifndef FS_CLI_COLLECTIVES_H
#define FS_CLI_COLLECTIVES_H

#include "cli/cli.h"
#include "cost/choice.h"
#include "cost/framework.h"

/* FS_INVALID: --collectives names none. */
fs_status cli_check_collectives(cli *c);
/* The cost model of a cluster, which keeps to --collectives. */
cost_model *cli_cost_model(cli *c, const hw_cluster *cluster);
/* How many collectives of which kind use which algorithm. "collectives": {kind:
 * {algorithm: tasks}}; note: no more than that, and the same as text ("" where
 * there are none). */
const char *cli_note_collectives(cli *c, const cli_plan *p);
void cli_tell_collectives(cli *c, const cli_plan *p);
/* FS_INVALID: the framework has not what --collectives says. */
fs_status cli_check_framework_collectives(cli *c, const cost_framework *f);

#endif
