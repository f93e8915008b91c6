/* Nodes of degree 0, 1, 2 and nodes of one value: eliminated by the minimum
 * over their values for each choice of the neighbours. */
#include "config.h"
#include "search/engine/content.h"
#include "search/engine/minplus.h"
#include "search/engine/reduce.h"

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
        search_content_forget(cfn, other);
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
    search_content_forget(cfn, other);
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

/* A node of degree 2 between others. */
typedef struct linking {
    int32_t node, scope[2];
    search_pair *pair[2]; /* to these */
    int64_t n, nx, ny;
} linking;

static linking linking_of(const search_cfn *cfn, int32_t node)
{
    const int32_t *ids = cfn->at[node].pairs.at;
    linking l = {.node = node,
                 .pair = {&cfn->pairs.at[ids[0]], &cfn->pairs.at[ids[1]]},
                 .n = cfn->dom[node]};
    for (int32_t k = 0; k < 2; k++)
        l.scope[k] = search_pair_other(l.pair[k], node);
    l.nx = cfn->dom[l.scope[0]];
    l.ny = cfn->dom[l.scope[1]];
    return l;
}

/* Min-plus product of its two pairs. */
static void multiply(search_cfn *cfn, const linking *l, double *cost,
                     uint16_t *best)
{
    double *room = search_reduce_room(
        cfn, (size_t)(l->n * l->nx + l->n * l->ny) * sizeof *room);
    double *sum = room + l->n * l->ny;
    const double *right = rows_by_own(cfn, l->pair[1], l->node, room);
    sum_by_other(cfn, l->pair[0], l->node, sum);
    search_min_plus(sum, right, l->nx, l->n, l->ny, cost, best);
}

static bool forbids(const double *cost, int64_t n)
{
    bool any = false;
    for (int64_t k = 0; k < n && !any; k++)
        any = isinf(cost[k]);
    return any;
}

/* The same for nodes that are alike between pairs that are. */
static const search_outcome *product_of(search_cfn *cfn, const linking *l)
{
    const int64_t cells = l->nx * l->ny;
    search_deed_key key = {0};
    search_deed_add(&key, SEARCH_DEED_FOLD);
    search_deed_add(&key, search_content_of_unary(cfn, l->node));
    for (int32_t k = 0; k < 2; k++)
        search_deed_add_side(cfn, &key, l->pair[k], l->node);
    search_outcome *product = search_deed_of(cfn, &key);
    if (product->known)
        return product;
    product->known = true;
    product->cost = fs_new(cfn->arena, double, cells);
    product->best = fs_new(cfn->arena, uint16_t, cells);
    multiply(cfn, l, product->cost, product->best);
    product->forbids = forbids(product->cost, cells);
    return product;
}

static void fold_link(search_cfn *cfn, int32_t node)
{
    const linking l = linking_of(cfn, node);
    const int64_t work = l.n * l.nx * l.ny;
    cfn->steps += work;
    if (search_is_worth(cfn, work)) {
        const search_outcome *product = product_of(cfn, &l);
        search_cfn_record(cfn, node, l.scope, 2, product->best);
        search_cfn_join(cfn, l.scope[0], l.scope[1], product);
        return;
    }
    uint16_t *best = fs_new(cfn->arena, uint16_t, l.nx * l.ny);
    double *cost = fs_new(cfn->arena, double, l.nx *l.ny);
    multiply(cfn, &l, cost, best);
    search_cfn_record(cfn, node, l.scope, 2, best);
    search_cfn_add(cfn, l.scope[0], l.scope[1], cost, 1);
}

void search_reduce_fold(search_cfn *cfn, int32_t node)
{
    int32_t degree = cfn->at[node].pairs.n;
    if ((degree > 2 && cfn->dom[node] > 1) || (cfn->stays && cfn->stays[node]))
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
