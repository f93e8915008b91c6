/* Where a run's time went otherwise than predicted, by kind of op, collective
 * and move; and how much of a step's error is the simulator's. */
#ifndef FS_CLI_RESIDUALS_H
#define FS_CLI_RESIDUALS_H

#include "cli/cli.h"

/* Tasks of one kind. Seconds are of a rank and step, in the mean over ranks:
 * what they take by themselves, without waiting. */
typedef struct cli_residual {
    const char *kind; /* "compute", "local", "collective", "move", "load" */
    const char *what; /* "matmul", "all-reduce", "receive" */
    double firings;   /* of a rank and step */
    double predicted_s, measured_s;
} cli_residual;

typedef struct cli_residuals {
    int32_t n;
    cli_residual *at;  /* by |measured - predicted|, largest first */
    double replayed_s; /* a step simulated with what was measured; of a rank: */
    double comm_s, exposed_s; /* communication, and what of it nothing hides */
} cli_residuals;
/* The part of communication that is hidden, where there is some. */
double cli_residuals_hidden(const cli_residuals *r);
/* Of the plan's predicted timing beside a run's. */
fs_status cli_residuals_of(cli *c, const cli_plan *p,
                           const plan_timing *measured, cli_residuals *out);
/* Into the JSON object and, for people, as a table. */
void cli_residuals_tell(cli *c, const cli_residuals *r, double measured_s);
/* Into the database. */
fs_status cli_residuals_keep(cli *c, const cli_residuals *r, fs_err *err);

#endif
