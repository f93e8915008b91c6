/* Precision of the optimizer's states, as an origin says it. */
#ifndef FS_CLI_STATES_H
#define FS_CLI_STATES_H

#include "cli/cli.h"

/* Of a training graph, as the last that is done to it. FS_INVALID: it would
 * change nothing. */
fs_status cli_model_states(const plan_origin *o, ir_graph *graph, fs_err *err);
/* A line where they are narrow, and "states". */
void cli_tell_states(cli *c, const char *states, const ir_graph *graph);

#endif
