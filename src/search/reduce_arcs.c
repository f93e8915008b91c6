/* Arc consistency: a value of infinite cost, or that no value of a neighbour
 * goes with, is in no finite assignment. */
#include "config.h"
#include "search/reduce.h"

#include <math.h>

/* keep[s] stays set when row s has a finite entry. */
static void keep_rows(const double *cost, int32_t n, int32_t nx, bool *keep)
{
    for (int64_t s = 0; s < n; s++) {
        bool any = false;
        for (int32_t x = 0; keep[s] && !any && x < nx; x++)
            any = isfinite(cost[s * nx + x]);
        keep[s] &= any;
    }
}

static void keep_columns(const double *cost, int32_t n, int32_t nx, bool *keep)
{
    for (int32_t s = 0; s < n; s++) {
        bool any = false;
        for (int64_t x = 0; keep[s] && !any && x < nx; x++)
            any = isfinite(cost[x * n + s]);
        keep[s] &= any;
    }
}

void search_reduce_arcs(search_cfn *cfn, int32_t node)
{
    const search_incident *at = &cfn->at[node];
    int32_t n = cfn->dom[node], kept = 0;
    bool *keep = search_reduce_room(cfn, (size_t)n);
    for (int32_t s = 0; s < n; s++)
        keep[s] = isfinite(cfn->unary[node][s]);
    for (int32_t k = 0; k < at->pairs.n; k++) {
        const search_pair *pair = &cfn->pairs.at[at->pairs.at[k]];
        int32_t nx = cfn->dom[search_pair_other(pair, node)];
        cfn->steps += pair->forbids ? (int64_t)n * nx : 0;
        if (pair->forbids)
            (pair->u == node ? keep_rows : keep_columns)(pair->cost, n, nx,
                                                         keep);
    }
    for (int32_t s = 0; s < n; s++)
        kept += keep[s];
    if (kept < n)
        search_cfn_keep(cfn, node, keep);
}
