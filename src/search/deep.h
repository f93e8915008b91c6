/* Does the plan of a deep stage fit, by one with few of its layers (deep.c)?
 * Internal to this folder. */
#ifndef FS_SEARCH_DEEP_H
#define FS_SEARCH_DEEP_H

#include "search/problem.h"

typedef enum search_depths {
    SEARCH_NOT_DEEP, /* nothing is told */
    SEARCH_DEEP_FITS,
    SEARCH_DEEP_OVER /* more bytes are live at once than there are */
} search_depths;

/* Of a strategy that knows which nodes are alike, for one of the problem's
 * graphs: a guess, which lowering proves. limit[n_stages]. */
search_depths search_fits_deep(const search_problem *problem,
                               const ir_graph *graph, const int64_t *limit,
                               const plan_strategy *strategy);

#endif
