/* Nodes of degree 0, 1, 2 and nodes of one value: eliminated by the minimum
 * over their values for each choice of the neighbours. */
#include "config.h"
#include "search/reduce.h"

#include <math.h>

/* Degree 0, or one value: its cost is added to what is next to it. */
static void fold_single(search_cfn *cfn, int32_t node)
{
    const double *unary = cfn->unary[node];
    uint16_t *best = fs_new(cfn->arena, uint16_t, 1);
    for (int32_t s = 1; s < cfn->dom[node]; s++)
        if (unary[s] < unary[*best])
            *best = (uint16_t)s;
    cfn->offset += unary[*best];
    cfn->infeasible |= !isfinite(unary[*best]);
    const search_incident *at = &cfn->at[node];
    for (int32_t k = 0; k < at->pairs.n; k++) {
        const search_pair *pair = &cfn->pairs.at[at->pairs.at[k]];
        int32_t other = search_pair_other(pair, node);
        for (int32_t x = 0; x < cfn->dom[other]; x++)
            cfn->unary[other][x] += pair->cost[x];
        /* To dominance a pair with one value is a unary cost already. */
        if (pair->forbids)
            search_unary_changed(cfn, other);
    }
    search_cfn_record(cfn, node, NULL, 0, best);
}

/* Rows by the neighbour's value: out[x * n + s]; made in `room` if need be. */
static const double *rows_by_other(const search_cfn *cfn,
                                   const search_pair *pair, int32_t node,
                                   double *room)
{
    int32_t n = cfn->dom[node], nx = cfn->dom[search_pair_other(pair, node)];
    if (pair->v == node)
        return pair->cost;
    for (int64_t x = 0; x < nx; x++)
        for (int64_t s = 0; s < n; s++)
            room[x * n + s] = pair->cost[s * nx + x];
    return room;
}

static void fold_leaf(search_cfn *cfn, int32_t node)
{
    const search_pair *pair = &cfn->pairs.at[cfn->at[node].pairs.at[0]];
    int32_t other = search_pair_other(pair, node), n = cfn->dom[node];
    int64_t cells = (int64_t)n * cfn->dom[other];
    double *room = search_reduce_room(cfn, (size_t)cells * sizeof *room);
    const double *rows = rows_by_other(cfn, pair, node, room);
    uint16_t *best = fs_new(cfn->arena, uint16_t, cfn->dom[other]);
    for (int32_t x = 0; x < cfn->dom[other]; x++) {
        double least = INFINITY;
        for (int32_t s = 0; s < n; s++) {
            double c = cfn->unary[node][s] + rows[(int64_t)x * n + s];
            if (c < least) {
                least = c;
                best[x] = (uint16_t)s;
            }
        }
        cfn->unary[other][x] += least;
    }
    cfn->steps += cells;
    search_cfn_record(cfn, node, &other, 1, best);
    search_unary_changed(cfn, other);
}

/* One row of the product: least over s of sum[s] + right[y][s]. */
static void least_sums(const double *sum, const double *right, int64_t n,
                       int64_t ny, double *cost, uint16_t *best)
{
    for (int64_t y = 0; y < ny; y++, right += n) {
        double least = INFINITY;
        int64_t which = 0;
        for (int64_t s = 0; s < n; s++) {
            double c = sum[s] + right[s];
            which = c < least ? s : which;
            least = c < least ? c : least;
        }
        cost[y] = least;
        best[y] = (uint16_t)which;
    }
}

/* Min-plus product of the two pairs of a node of degree 2. */
static void fold_link(search_cfn *cfn, int32_t node)
{
    const int32_t *ids = cfn->at[node].pairs.at;
    const search_pair *p = &cfn->pairs.at[ids[0]], *q = &cfn->pairs.at[ids[1]];
    int32_t scope[2] = {search_pair_other(p, node), search_pair_other(q, node)};
    int64_t n = cfn->dom[node], nx = cfn->dom[scope[0]],
            ny = cfn->dom[scope[1]];
    double *room = search_reduce_room(
        cfn, (size_t)(n * nx + n * ny + nx * ny + n) * sizeof *room);
    double *cost = room + n * nx + n * ny, *sum = cost + nx * ny;
    const double *left = rows_by_other(cfn, p, node, room);
    const double *right = rows_by_other(cfn, q, node, room + n * nx);
    uint16_t *best = fs_new(cfn->arena, uint16_t, nx * ny);
    for (int64_t x = 0; x < nx; x++) {
        for (int64_t s = 0; s < n; s++)
            sum[s] = cfn->unary[node][s] + left[x * n + s];
        least_sums(sum, right, n, ny, cost + x * ny, best + x * ny);
    }
    cfn->steps += n * nx * ny;
    search_cfn_record(cfn, node, scope, 2, best);
    search_cfn_add(cfn, scope[0], scope[1], cost, 1);
}

void search_reduce_fold(search_cfn *cfn, int32_t node)
{
    int32_t degree = cfn->at[node].pairs.n;
    if (degree > 2 && cfn->dom[node] > 1)
        return;
    /* A minimum over values forgets what each of them holds. */
    if (!search_usage_level(cfn, node))
        return;
    search_usage_hold(cfn, node);
    if (cfn->dom[node] == 1 || degree == 0)
        fold_single(cfn, node);
    else if (degree == 1)
        fold_leaf(cfn, node);
    else
        fold_link(cfn, node);
}
