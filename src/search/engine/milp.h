/* What GLPK is asked (milp.c). Internal to this folder. */
#ifndef FS_SEARCH_MILP_H
#define FS_SEARCH_MILP_H

#include "search/engine/engine.h"

/* A mixed integer program for GLPK. `start` (or NULL) is a known assignment
 * of cost `upper` (else INFINITY); `cutoff`: stop once the bound reaches it. */
typedef struct search_milp_task {
    const search_net *net;
    const int32_t *start;
    double upper, cutoff, gap;
    fs_deadline deadline;
} search_milp_task;
/* `out` keeps start where nothing better was found. FS_NO: infeasible. */
fs_status search_milp(const search_milp_task *task, fs_arena *arena,
                      fs_err *err, search_solution *out);
/* Columns that the MILP of this net would have. */
int64_t search_milp_columns(const search_net *net);

#endif
