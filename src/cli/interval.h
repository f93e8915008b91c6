/* What a prediction is worth: how far those of its regime were off. */
#ifndef FS_CLI_INTERVAL_H
#define FS_CLI_INTERVAL_H

#include "cli/cli.h"
#include "cost/residuals.h"

/* "transformer", "cnn", "experts" (a transformer that picks some of its
 * weights for each token) or "other", by the ops that it has. */
const char *cli_network_kind(const ir_graph *graph);

typedef struct cli_interval {
    cost_residual r;      /* rows 0: nothing is known */
    const char *of, *why; /* whose runs they are; why nothing is known */
} cli_interval;
/* Of a predicted iteration: the runs of its regime; of plans for ranks of this
 * host those in the database. `framework`: that it is predicted under, or NULL.
 * FS_INVALID: what is known of published runs cannot be read. */
fs_status cli_interval_of(cli *c, const cli_plan *p, const char *framework,
                          cli_interval *out);
/* The seconds that eight of ten of these would have taken, as a line and
 * "interval": {low_s, median_s, high_s, low, median, high, has_predicted, rows,
 * of}; where the prediction itself is not among them (has_predicted) the line
 * says so. Else why not, "interval_unknown". */
void cli_interval_tell(cli *c, const cli_interval *interval,
                       double iteration_s);

#endif
