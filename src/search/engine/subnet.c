/* Dominance that is exact for the whole objective, maxima and memory limits
 * included: Goldstein's test per stage. Changing node i from value s to t
 * changes stage k's a_k by at most da_k and b_k by at most db_k, whatever the
 * neighbours have (each the sum over the tables of that stage of the largest
 * change). Since max_k (a_k + da_k) <= max_k a_k + max_k da_k,
 *   fill sum_k da_k + (m - fill) max_k da_k + max_k db_k <= 0
 * and no limit loaded more (its bytes changed by at most the node's change and
 * the largest of each edge) mean that s is never needed. */
#include "config.h"
#include "search/engine/engine.h"

#include <math.h>
#include <string.h>

static search_load *node_loads(const search_net_node *node, int32_t n,
                               const int32_t *value, fs_arena *arena)
{
    search_load *loads = fs_new(arena, search_load, node->n_loads);
    for (int32_t k = 0; k < node->n_loads; k++) {
        int64_t *bytes = fs_new(arena, int64_t, n);
        for (int32_t s = 0; s < n; s++)
            bytes[s] = node->loads[k].bytes[value[s]];
        loads[k] = (search_load){node->loads[k].limit, bytes};
    }
    return loads;
}

static search_load *edge_loads(const search_net *net,
                               const search_net_edge *edge, const int32_t *dom,
                               int32_t *const *value, fs_arena *arena)
{
    search_load *loads = fs_new(arena, search_load, edge->n_loads);
    int64_t nu = dom[edge->u], nv = dom[edge->v], old = net->nodes[edge->v].n;
    for (int32_t k = 0; k < edge->n_loads; k++) {
        int64_t *bytes = fs_new(arena, int64_t, nu * nv);
        for (int64_t a = 0; a < nu; a++)
            for (int64_t b = 0; b < nv; b++)
                bytes[a * nv + b] =
                    edge->loads[k]
                        .bytes[value[edge->u][a] * old + value[edge->v][b]];
        loads[k] = (search_load){edge->loads[k].limit, bytes};
    }
    return loads;
}

search_subnet search_subnet_of(const search_net *net, const int32_t *dom,
                               int32_t *const *value, fs_arena *arena)
{
    search_subnet sub = {*net, fs_new(arena, int32_t *, net->n_nodes)};
    sub.net.nodes =
        fs_memdup(arena, net->nodes, (size_t)net->n_nodes * sizeof *net->nodes);
    sub.net.edges =
        fs_memdup(arena, net->edges, (size_t)net->n_edges * sizeof *net->edges);
    for (int32_t i = 0; i < net->n_nodes; i++) {
        search_net_node *node = &sub.net.nodes[i];
        sub.value[i] =
            fs_memdup(arena, value[i], (size_t)dom[i] * sizeof *value[i]);
        node->n = dom[i];
        node->cost = fs_new(arena, double, dom[i]);
        for (int32_t s = 0; s < dom[i]; s++)
            node->cost[s] = net->nodes[i].cost[value[i][s]];
        node->loads = node_loads(&net->nodes[i], dom[i], value[i], arena);
    }
    for (int32_t e = 0; e < net->n_edges; e++) {
        search_net_edge *edge = &sub.net.edges[e];
        int64_t nu = dom[edge->u], nv = dom[edge->v];
        const double *from = edge->cost;
        edge->cost = fs_new(arena, double, nu *nv);
        for (int64_t a = 0; a < nu; a++)
            for (int64_t b = 0; b < nv; b++)
                edge->cost[a * nv + b] =
                    from[(int64_t)value[edge->u][a] * net->nodes[edge->v].n +
                         value[edge->v][b]];
        edge->loads = edge_loads(net, &net->edges[e], dom, value, arena);
    }
    return sub;
}

typedef struct dominance {
    const search_net *net;
    search_incidence at;
    bool **keep;    /* [node][value] */
    search_sums by; /* largest changes, per stage */
    int64_t steps;
} dominance;

/* Largest change of an edge when node i goes from s to t; INFINITY when that
 * may forbid the pair. */
static double edge_change(dominance *d, const search_net_edge *edge, int32_t i,
                          int32_t s, int32_t t)
{
    const search_net *net = d->net;
    bool row = edge->u == i;
    int32_t other = row ? edge->v : edge->u;
    int64_t nv = net->nodes[edge->v].n;
    double worst = -INFINITY;
    d->steps += net->nodes[other].n;
    for (int32_t x = 0; x < net->nodes[other].n; x++) {
        if (!d->keep[other][x])
            continue;
        double was = edge->cost[row ? s * nv + x : x * nv + s];
        double is = edge->cost[row ? t * nv + x : x * nv + t];
        if (isfinite(was))
            worst = fmax(worst, is - was);
    }
    return worst;
}

/* Adds to d->by.bytes the largest change of an edge's loads, over the
 * neighbour's values that go with s. */
static void add_load_changes(dominance *d, const search_net_edge *edge,
                             int32_t i, int32_t s, int32_t t)
{
    const search_net *net = d->net;
    bool row = edge->u == i;
    int32_t other = row ? edge->v : edge->u;
    int64_t nv = net->nodes[edge->v].n;
    for (int32_t k = 0; k < edge->n_loads; k++) {
        const int64_t *bytes = edge->loads[k].bytes;
        int64_t worst = INT64_MIN;
        d->steps += net->nodes[other].n;
        for (int32_t x = 0; x < net->nodes[other].n; x++) {
            int64_t from = row ? s * nv + x : x * nv + s;
            int64_t to = row ? t * nv + x : x * nv + t;
            if (d->keep[other][x] && isfinite(edge->cost[from]) &&
                bytes[to] - bytes[from] > worst)
                worst = bytes[to] - bytes[from];
        }
        if (worst != INT64_MIN)
            d->by.bytes[edge->loads[k].limit] += worst;
    }
}

/* Does t load no limit more than s, whatever the neighbours have? */
static bool no_heavier(dominance *d, int32_t i, int32_t s, int32_t t)
{
    const search_net *net = d->net;
    const search_net_node *node = &net->nodes[i];
    for (int32_t k = 0; k < net->n_limits; k++)
        d->by.bytes[k] = 0;
    search_add_loads(d->by.bytes, node->loads, node->n_loads, t, 1);
    search_add_loads(d->by.bytes, node->loads, node->n_loads, s, -1);
    for (int32_t k = d->at.first[i]; k < d->at.first[i + 1]; k++)
        add_load_changes(d, &net->edges[d->at.edge[k]], i, s, t);
    for (int32_t k = 0; k < net->n_limits; k++)
        if (d->by.bytes[k] > 0)
            return false;
    return true;
}

static bool dominated(dominance *d, int32_t i, int32_t s, int32_t t)
{
    const search_net *net = d->net;
    const search_net_node *node = &net->nodes[i];
    double *sum[2] = {d->by.micro_s, d->by.step_s};
    d->steps += 4 * net->n_stages + net->n_limits;
    if (!isfinite(node->cost[t]))
        return false;
    for (int32_t k = 0; k < net->n_stages; k++)
        sum[0][k] = sum[1][k] = 0;
    sum[node->per_step][node->stage] += node->cost[t] - node->cost[s];
    for (int32_t k = d->at.first[i]; k < d->at.first[i + 1]; k++) {
        const search_net_edge *edge = &net->edges[d->at.edge[k]];
        double change = edge_change(d, edge, i, s, t);
        if (!isfinite(change))
            return change < 0; /* s goes with nothing at all */
        sum[edge->per_step][edge->stage] += change;
    }
    double total = 0, slowest = -INFINITY, step = -INFINITY;
    for (int32_t k = 0; k < net->n_stages; k++) {
        total += search_net_like(net, k) * sum[0][k];
        slowest = fmax(slowest, sum[0][k]);
        step = fmax(step, sum[1][k]);
    }
    return search_net_formula(net, total, slowest, step) <= 0 &&
           no_heavier(d, i, s, t);
}

static bool drop_dominated(dominance *d, int32_t i)
{
    bool any = false;
    int32_t n = d->net->nodes[i].n;
    for (int32_t s = 0; s < n; s++)
        for (int32_t t = 0; d->keep[i][s] && t < n; t++)
            if (t != s && d->keep[i][t] && dominated(d, i, s, t)) {
                d->keep[i][s] = false;
                any = true;
            }
    return any;
}

int64_t search_subnet_reduce(search_subnet *sub, fs_arena *arena)
{
    const search_net *net = &sub->net;
    dominance d = {net, search_net_incidence(net, true, arena),
                   fs_new(arena, bool *, net->n_nodes),
                   search_sums_new(net, arena), 0};
    int32_t *dom = fs_new(arena, int32_t, net->n_nodes);
    int32_t **kept = fs_new(arena, int32_t *, net->n_nodes);
    for (int32_t i = 0; i < net->n_nodes; i++) {
        d.keep[i] = fs_new(arena, bool, net->nodes[i].n);
        memset(d.keep[i], true, (size_t)net->nodes[i].n);
    }
    for (bool again = true; again;) {
        again = false;
        for (int32_t i = 0; i < net->n_nodes; i++)
            again |= drop_dominated(&d, i);
    }
    for (int32_t i = 0; i < net->n_nodes; i++) {
        kept[i] = fs_new(arena, int32_t, net->nodes[i].n);
        for (int32_t s = 0; s < net->nodes[i].n; s++)
            if (d.keep[i][s])
                kept[i][dom[i]++] = s;
    }
    search_subnet small = search_subnet_of(net, dom, kept, arena);
    for (int32_t i = 0; i < net->n_nodes; i++)
        for (int32_t s = 0; s < dom[i]; s++)
            small.value[i][s] = sub->value[i][small.value[i][s]];
    *sub = small;
    return d.steps;
}
