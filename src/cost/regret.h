/* How sure a choice among plans is: the model's constants lie in intervals, and
 * which plan is best hangs on where in them they are. */
#ifndef FS_COST_REGRET_H
#define FS_COST_REGRET_H

#include "cost/cost.h"

enum {
#define COST_CONSTANT(name, what) +1
    COST_CONSTANTS = 0
#include "cost/constants.def"
#undef COST_CONSTANT
};

/* Factors of seconds. */
typedef struct cost_interval {
    double low, high;
} cost_interval;

typedef struct cost_uncertainty {
    cost_interval of[COST_CONSTANTS]; /* rows of constants.def */
    double iteration;   /* an iteration takes this fraction more or less than
                           predicted, as far as anybody has shown */
    const char *source; /* of that */
} cost_uncertainty;

/* FS_INVALID: file and field. */
fs_status cost_uncertainty_read(const char *file, fs_arena *arena, fs_err *err,
                                cost_uncertainty *out);

typedef struct cost_option {
    const ir_graph *graph;
    const plan_strategy *strategy;
} cost_option;

/* Over all corners of the intervals, each with all constants at one end of
 * theirs. The regret of a plan in a corner: its seconds over the least of all
 * plans' there, less 1. */
typedef struct cost_regret {
    double low_s, high_s; /* of its seconds */
    double most, mean;    /* of its regret */
} cost_regret;

enum { COST_CORNERS = 1 << COST_CONSTANTS };

/* Of the model's cluster, with what is said of its collectives. out: [n]. Work
 * a corner: different terms of each. */
void cost_regrets(const cost_model *model, const cost_uncertainty *within,
                  int32_t n, const cost_option *options, cost_regret *out);

#endif
