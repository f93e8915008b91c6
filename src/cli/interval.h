/* What a prediction is worth: how far those of its regime were off. */
#ifndef FS_CLI_INTERVAL_H
#define FS_CLI_INTERVAL_H

#include "cli/cli.h"

/* "transformer", "cnn" or "other", by the ops that it has. */
const char *cli_network_kind(const ir_graph *graph);
/* Of a predicted iteration: the seconds that eight of ten measured runs of its
 * regime would have taken, as a line and "interval": {low_s, high_s, rows, of};
 * of plans for ranks of this host by the runs in the database. Nothing where
 * nobody measured any. */
void cli_tell_interval(cli *c, const cli_plan *p, double iteration_s);

#endif
