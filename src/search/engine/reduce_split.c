/* Decomposable pairs: what is u(a) + v(b) belongs to the ends, whatever else
 * there is. Values that a pair forbids altogether (whole rows and columns: the
 * finite entries are a product set) get an infinite cost of their own. */
#include "config.h"
#include "search/engine/content.h"
#include "search/engine/reduce.h"

#include <math.h>
#include <string.h>

/* First row with a finite entry, or n. */
static int32_t first_row(const double *r, int32_t n, int32_t nx)
{
    for (int64_t at = 0; at < (int64_t)n * nx; at++)
        if (isfinite(r[at]))
            return (int32_t)(at / nx);
    return n;
}

/* By how much `row` lies above `base`: INFINITY when it has no finite entry,
 * NAN when the two differ by more than a constant. Rounding of what is taken
 * as constant is below 1e-14 of the entries. */
static double shift_of(const double *base, const double *row, int32_t n)
{
    double shift = NAN;
    bool none = true;
    for (int32_t x = 0; x < n; x++)
        none &= !isfinite(row[x]);
    if (none)
        return INFINITY;
    for (int32_t x = 0; x < n; x++) {
        if (isfinite(base[x]) != isfinite(row[x]))
            return NAN;
        if (!isfinite(row[x]))
            continue;
        if (isnan(shift))
            shift = row[x] - base[x];
        if (fabs(row[x] - base[x] - shift) >
            1e-14 * (fabs(row[x]) + fabs(base[x])))
            return NAN;
    }
    return shift;
}

/* [nu] shifts, then the row that they are of; false: it is none. */
static bool find_split(const search_cfn *cfn, const search_pair *pair,
                       int32_t base, double *shift)
{
    const int32_t nu = cfn->dom[pair->u], nv = cfn->dom[pair->v];
    const double *row = pair->cost + (int64_t)base * nv;
    for (int64_t s = 0; s < nu; s++) {
        shift[s] = shift_of(row, pair->cost + s * nv, nv);
        if (isnan(shift[s]))
            return false;
    }
    memcpy(shift + nu, row, (size_t)nv * sizeof *row);
    return true;
}

/* Is it known of a table like this that it is none? */
static search_outcome *outcome_of(search_cfn *cfn, search_pair *pair,
                                  int64_t cells)
{
    search_deed_key key = {0};
    if (!search_is_worth(cfn, cells))
        return NULL;
    search_deed_add(&key, SEARCH_DEED_SPLIT);
    search_deed_add(&key, search_content_of_pair(cfn, pair));
    return search_deed_of(cfn, &key);
}

void search_reduce_split(search_cfn *cfn, int32_t id)
{
    search_pair *pair = &cfn->pairs.at[id];
    const int32_t u = pair->u, v = pair->v, nu = cfn->dom[u], nv = cfn->dom[v];
    cfn->steps += (int64_t)nu * nv;
    search_outcome *none = outcome_of(cfn, pair, (int64_t)nu * nv);
    if (none && none->known)
        return;
    const int32_t base = first_row(pair->cost, nu, nv);
    double *shift = search_reduce_room(cfn, (size_t)(nu + nv) * sizeof *shift);
    if (base == nu) {
        cfn->infeasible = true;
        return;
    }
    if (!find_split(cfn, pair, base, shift)) {
        if (none)
            none->known = true;
        return;
    }
    for (int32_t s = 0; s < nu; s++)
        cfn->unary[u][s] += shift[s];
    for (int32_t x = 0; x < nv; x++)
        cfn->unary[v][x] += shift[nu + x];
    search_content_forget(cfn, u);
    search_content_forget(cfn, v);
    search_cfn_drop_pair(cfn, id);
    /* Dominance weighed the pair's share of these costs before. */
    if (pair->forbids) {
        search_unary_changed(cfn, u);
        search_unary_changed(cfn, v);
    }
}
