/* A network at given prices: every maximum is a weighted sum, every limit a
 * price of bytes. Edges that are alike share one table. */
#include "config.h"
#include "search/engine/prices.h"

#include "search/engine/engine.h"

#include "search/engine/cfn.h"
#include "search/engine/memo.h"

#include <math.h>

typedef struct pricing {
    const search_net *net;
    const search_prices *at;
    search_cfn *cfn;
    search_memo alike; /* parts -> tables */
    FS_VEC(double *) tables;
    double *unary; /* [values of the node that has most] */
} pricing;

double search_price_of(const search_net *net, const search_prices *at,
                       int32_t stage, bool per_step)
{
    return per_step ? at->step[stage]
                    : net->fill * search_net_like(net, stage) +
                          (net->micro_batches - net->fill) * at->micro[stage];
}

void search_add_prices(const search_load *loads, int32_t n_loads,
                       const search_prices *at, int64_t n, double *cost)
{
    for (int32_t k = 0; k < n_loads; k++) {
        double price = at->bytes[loads[k].limit];
        for (int64_t s = 0; price > 0 && s < n; s++)
            cost[s] += price * (double)loads[k].bytes[s];
    }
}

static void price_node(const pricing *p, int32_t i)
{
    const search_net_node *node = &p->net->nodes[i];
    double scale = search_price_of(p->net, p->at, node->stage, node->per_step);
    double *unary = p->unary;
    for (int32_t s = 0; s < node->n; s++)
        unary[s] = isinf(node->cost[s]) ? INFINITY : scale * node->cost[s];
    search_add_prices(node->loads, node->n_loads, p->at, node->n, unary);
    search_cfn_set(p->cfn, i, node->n, unary);
}

/* What a priced table is made of; no padding. */
typedef struct part {
    const void *table;
    double scale;
} part;

static double *make_table(const pricing *p, const search_net_edge *edge,
                          double scale)
{
    const search_net_node *nodes = p->net->nodes;
    int64_t n = (int64_t)nodes[edge->u].n * nodes[edge->v].n;
    double *cost = fs_new(p->cfn->arena, double, n);
    p->cfn->steps += n * (1 + edge->n_loads);
    /* A price of 0 must not make a forbidden pair legal. */
    for (int64_t s = 0; s < n; s++)
        cost[s] = isinf(edge->cost[s]) ? INFINITY : scale * edge->cost[s];
    search_add_prices(edge->loads, edge->n_loads, p->at, n, cost);
    return cost;
}

static void price_edge(pricing *p, const search_net_edge *edge)
{
    part key[edge->n_loads + 1];
    int32_t n = 1;
    key[0] = (part){edge->cost, search_price_of(p->net, p->at, edge->stage,
                                                edge->per_step)};
    for (int32_t k = 0; k < edge->n_loads; k++) {
        double price = p->at->bytes[edge->loads[k].limit];
        if (price > 0)
            key[n++] = (part){edge->loads[k].bytes, price};
    }
    int32_t *known = search_memo_at(&p->alike, key, (size_t)n * sizeof *key);
    if (*known < 0) {
        *known = p->tables.n;
        fs_push(p->cfn->arena, &p->tables, make_table(p, edge, key[0].scale));
    }
    search_cfn_share(p->cfn, edge->u, edge->v, p->tables.at[*known]);
}

double search_price_excess(const search_net *net, const search_prices *at)
{
    double sum = 0;
    for (int32_t k = 0; k < net->n_limits; k++)
        if (at->bytes[k] > 0)
            sum += at->bytes[k] * (double)net->limit_bytes[k];
    return sum;
}

search_cfn *search_net_priced(const search_net *net, const search_prices *at,
                              fs_arena *arena)
{
    fs_arena *scratch = fs_arena_create();
    pricing p = {.net = net,
                 .at = at,
                 .cfn = search_cfn_new(net->n_nodes, arena),
                 .alike = {.arena = scratch}};
    int32_t most = 0;
    for (int32_t i = 0; i < net->n_nodes; i++)
        most = net->nodes[i].n > most ? net->nodes[i].n : most;
    p.unary = fs_new(scratch, double, most);
    for (int32_t i = 0; i < net->n_nodes; i++)
        price_node(&p, i);
    for (int32_t e = 0; e < net->n_edges; e++)
        price_edge(&p, &net->edges[e]);
    fs_arena_destroy(scratch);
    return p.cfn;
}
