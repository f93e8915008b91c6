/* What `sim` may be asked beside the time of a step. */
#ifndef FS_CLI_SIMULATE_H
#define FS_CLI_SIMULATE_H

#include "cli/predict.h"
#include "sim/critical.h"

/* Tells the critical path and what communication is exposed, and marks the path
 * in the trace. */
void cli_tell_critical(cli *c, const cli_plan *p, const plan_timing *timing,
                       plan_trace *trace, const sim_result *sim, int64_t steps);

#endif
