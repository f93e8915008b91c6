/* Arc consistency: a value of infinite cost, or that no value of a neighbour
 * goes with, is in no finite assignment. */
#include "config.h"
#include "search/engine/content.h"
#include "search/engine/reduce.h"

#include <math.h>
#include <string.h>

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

static void find_kept(const search_cfn *cfn, int32_t node, bool *keep)
{
    const search_incident *at = &cfn->at[node];
    const int32_t n = cfn->dom[node];
    for (int32_t s = 0; s < n; s++)
        keep[s] = isfinite(cfn->unary[node][s]);
    for (int32_t k = 0; k < at->pairs.n; k++) {
        const search_pair *pair = &cfn->pairs.at[at->pairs.at[k]];
        const int32_t nx = cfn->dom[search_pair_other(pair, node)];
        if (pair->forbids)
            (pair->u == node ? keep_rows : keep_columns)(pair->cost, n, nx,
                                                         keep);
    }
}

/* NULL: it is not worth asking. */
static search_outcome *outcome_of(search_cfn *cfn, int32_t node, int64_t cells)
{
    const search_incident *at = &cfn->at[node];
    search_deed_key key = {0};
    if (!search_is_worth(cfn, cells))
        return NULL;
    search_deed_add(&key, SEARCH_DEED_ARCS);
    search_deed_add(&key, search_content_of_unary(cfn, node));
    for (int32_t k = 0; k < at->pairs.n; k++) {
        search_pair *pair = &cfn->pairs.at[at->pairs.at[k]];
        if (pair->forbids)
            search_deed_add_side(cfn, &key, pair, node);
    }
    return search_deed_of(cfn, &key);
}

void search_reduce_arcs(search_cfn *cfn, int32_t node)
{
    const search_incident *at = &cfn->at[node];
    const int32_t n = cfn->dom[node];
    int64_t cells = 0;
    for (int32_t k = 0; k < at->pairs.n; k++) {
        const search_pair *pair = &cfn->pairs.at[at->pairs.at[k]];
        if (pair->forbids)
            cells += (int64_t)n * cfn->dom[search_pair_other(pair, node)];
    }
    cfn->steps += cells;
    search_outcome *known = outcome_of(cfn, node, cells);
    bool *keep = search_reduce_room(cfn, (size_t)n);
    if (!known || !known->known)
        find_kept(cfn, node, keep);
    if (known)
        keep = search_outcome_keep(cfn, known, keep, n);
    if (keep && memchr(keep, false, (size_t)n))
        search_cfn_keep(cfn, node, keep);
}
