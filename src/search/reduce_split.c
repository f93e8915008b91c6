/* Decomposable pairs: what is u(a) + v(b) belongs to the ends, whatever else
 * there is. Values that a pair forbids altogether (whole rows and columns: the
 * finite entries are a product set) get an infinite cost of their own. */
#include "config.h"
#include "search/reduce.h"

#include <math.h>

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

void search_reduce_split(search_cfn *cfn, int32_t id)
{
    search_pair *pair = &cfn->pairs.at[id];
    int32_t u = pair->u, v = pair->v, nu = cfn->dom[u], nv = cfn->dom[v];
    const double *r = pair->cost;
    int32_t base = first_row(r, nu, nv);
    cfn->steps += (int64_t)nu * nv;
    double *shift = search_reduce_room(cfn, (size_t)nu * sizeof *shift);
    if (base == nu) {
        cfn->infeasible = true;
        return;
    }
    const double *row = r + (int64_t)base * nv;
    for (int64_t s = 0; s < nu; s++) {
        shift[s] = shift_of(row, r + s * nv, nv);
        if (isnan(shift[s]))
            return;
    }
    for (int32_t s = 0; s < nu; s++)
        cfn->unary[u][s] += shift[s];
    for (int32_t x = 0; x < nv; x++)
        cfn->unary[v][x] += row[x];
    search_cfn_drop_pair(cfn, id);
    /* Dominance weighed the pair's share of these costs before. */
    if (pair->forbids) {
        search_unary_changed(cfn, u);
        search_unary_changed(cfn, v);
    }
}
