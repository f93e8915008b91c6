/* Nodes of degree 0, 1, 2 and nodes of one value: eliminated by the minimum
 * over their values for each choice of the neighbours. */
#include "config.h"
#include "search/minplus.h"
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

/* Rows by the node's own value: out[s * nx + x]; made in `room` if need be. */
static const double *rows_by_own(const search_cfn *cfn, const search_pair *pair,
                                 int32_t node, double *room)
{
    int32_t n = cfn->dom[node], nx = cfn->dom[search_pair_other(pair, node)];
    if (pair->u == node)
        return pair->cost;
    search_transpose(pair->cost, nx, n, room);
    return room;
}

static void fold_leaf(search_cfn *cfn, int32_t node)
{
    const search_pair *pair = &cfn->pairs.at[cfn->at[node].pairs.at[0]];
    int32_t other = search_pair_other(pair, node), n = cfn->dom[node];
    int32_t nx = cfn->dom[other];
    int64_t cells = (int64_t)n * nx;
    double *room = search_reduce_room(cfn, (size_t)(cells + nx) * sizeof *room);
    double *least = room + cells;
    uint16_t *best = fs_new(cfn->arena, uint16_t, nx);
    search_min_plus(cfn->unary[node], rows_by_own(cfn, pair, node, room), 1, n,
                    nx, least, best);
    for (int32_t x = 0; x < nx; x++)
        cfn->unary[other][x] += least[x];
    cfn->steps += cells;
    search_cfn_record(cfn, node, &other, 1, best);
    search_unary_changed(cfn, other);
}

/* Rows by the neighbour's value, with the node's own costs. */
static void sum_by_other(const search_cfn *cfn, const search_pair *pair,
                         int32_t node, double *sum)
{
    int32_t n = cfn->dom[node], nx = cfn->dom[search_pair_other(pair, node)];
    const double *unary = cfn->unary[node], *from = pair->cost;
    if (pair->u == node)
        search_transpose(pair->cost, n, nx, sum);
    for (int64_t x = 0; x < nx; x++, sum += n, from += n)
        for (int64_t s = 0; s < n; s++)
            sum[s] = unary[s] + (pair->u == node ? sum : from)[s];
}

/* Min-plus product of the two pairs of a node of degree 2. */
static void fold_link(search_cfn *cfn, int32_t node)
{
    const int32_t *ids = cfn->at[node].pairs.at;
    const search_pair *p = &cfn->pairs.at[ids[0]], *q = &cfn->pairs.at[ids[1]];
    int32_t scope[2] = {search_pair_other(p, node), search_pair_other(q, node)};
    int64_t n = cfn->dom[node], nx = cfn->dom[scope[0]],
            ny = cfn->dom[scope[1]];
    double *room = search_reduce_room(cfn, (size_t)(n * nx + n * ny + nx * ny) *
                                               sizeof *room);
    double *sum = room + n * ny, *cost = sum + n * nx;
    const double *right = rows_by_own(cfn, q, node, room);
    uint16_t *best = fs_new(cfn->arena, uint16_t, nx * ny);
    sum_by_other(cfn, p, node, sum);
    search_min_plus(sum, right, nx, n, ny, cost, best);
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
