/* A baseline: nodes in topological order, each takes the value that is
 * cheapest given those before it, as in the semi-automatic deduction of
 * signatures in OneFlow (arXiv 2110.15032, section 3.1). A value that leaves
 * the later nodes too little memory, or that nothing goes with, is passed
 * over for the next one. */
#include "config.h"
#include "search/engine/engine.h"

#include <math.h>
#include <string.h>

/* Values that are looked at; steps of one, besides its limits. */
enum { MAX_VALUES = 2000000, VALUE_STEPS = 20 };

/* Of a limit, the least that a node and the edges into it load it with. */
typedef struct least_load {
    int32_t limit;
    int64_t bytes;
} least_load;

typedef struct greedy {
    const search_net *net;
    search_incidence into; /* edges whose later end a node is */
    int64_t *bytes;        /* [limit] taken so far */
    int64_t *spare;        /* [limit] least that nodes after the one in hand
                              add */
    int64_t *first;        /* [nodes + 1] into `least` */
    least_load *least;     /* a limit may come more than once */
    int64_t *more;         /* [limit] scratch, 0 between uses */
    int32_t *value;
    int32_t **ranked; /* [node] values, best first */
    int32_t *n_ranked, *next;
    int64_t n_seen;
} greedy;

static int32_t list_least(least_load *out, const search_load *loads,
                          int32_t n_loads, int64_t n)
{
    for (int32_t k = 0; k < n_loads; k++) {
        int64_t least = n ? loads[k].bytes[0] : 0;
        for (int64_t at = 1; at < n; at++)
            if (loads[k].bytes[at] < least)
                least = loads[k].bytes[at];
        out[k] = (least_load){loads[k].limit, least};
    }
    return n_loads;
}

static int64_t count_loads(const search_net *net)
{
    int64_t n = 0;
    for (int32_t i = 0; i < net->n_nodes; i++)
        n += net->nodes[i].n_loads;
    for (int32_t e = 0; e < net->n_edges; e++)
        n += net->edges[e].n_loads;
    return n;
}

/* What node i adds at least counts as later nodes' (sign 1), or no more. */
static void count_later(greedy *g, int32_t i, int32_t sign)
{
    for (int64_t k = g->first[i]; k < g->first[i + 1]; k++)
        g->spare[g->least[k].limit] += sign * g->least[k].bytes;
}

/* All nodes are later ones. */
static void reserve_bytes(greedy *g, fs_arena *arena)
{
    const search_net *net = g->net;
    int64_t n = 0;
    g->spare = fs_new(arena, int64_t, net->n_limits);
    g->more = fs_new(arena, int64_t, net->n_limits);
    g->first = fs_new(arena, int64_t, net->n_nodes + 1);
    g->least = fs_new(arena, least_load, count_loads(net));
    for (int32_t i = 0; i < net->n_nodes; i++) {
        const search_net_node *node = &net->nodes[i];
        n += list_least(g->least + n, node->loads, node->n_loads, node->n);
        for (int32_t k = g->into.first[i]; k < g->into.first[i + 1]; k++) {
            const search_net_edge *edge = &net->edges[g->into.edge[k]];
            n += list_least(g->least + n, edge->loads, edge->n_loads,
                            (int64_t)net->nodes[edge->u].n * node->n);
        }
        g->first[i + 1] = n;
        count_later(g, i, 1);
    }
}

/* Bytes that value s of node i adds, given earlier nodes, times `sign`. */
static void add_bytes(const greedy *g, int32_t i, int32_t s, int32_t sign,
                      int64_t *bytes)
{
    const search_net *net = g->net;
    const search_net_node *node = &net->nodes[i];
    search_add_loads(bytes, node->loads, node->n_loads, s, sign);
    for (int32_t k = g->into.first[i]; k < g->into.first[i + 1]; k++) {
        const search_net_edge *edge = &net->edges[g->into.edge[k]];
        search_add_loads(bytes, edge->loads, edge->n_loads,
                         (int64_t)g->value[edge->u] * node->n + s, sign);
    }
}

/* Does value s of node i leave the later ones what they need at least? Where it
 * loads nothing there is as much room as the nodes before it left. */
static bool leaves_room(const greedy *g, int32_t i, int32_t s)
{
    bool fits = true;
    add_bytes(g, i, s, 1, g->more);
    for (int64_t k = g->first[i]; k < g->first[i + 1]; k++) {
        const int32_t limit = g->least[k].limit;
        fits &= g->bytes[limit] + g->more[limit] + g->spare[limit] <=
                g->net->limit_bytes[limit];
    }
    for (int64_t k = g->first[i]; k < g->first[i + 1]; k++)
        g->more[g->least[k].limit] = 0;
    return fits;
}

/* Is there room for what all nodes need at least? */
static bool any_room(const greedy *g)
{
    bool fits = true;
    for (int32_t k = 0; k < g->net->n_limits; k++)
        fits &= g->spare[k] <= g->net->limit_bytes[k];
    return fits;
}

/* Seconds that value s of node i adds to a step, given earlier nodes. */
static double added(const greedy *g, int32_t i, int32_t s)
{
    const search_net *net = g->net;
    const search_net_node *node = &net->nodes[i];
    double m = net->micro_batches;
    double cost = (node->per_step ? 1 : m) * node->cost[s];
    for (int32_t k = g->into.first[i]; k < g->into.first[i + 1]; k++) {
        const search_net_edge *edge = &net->edges[g->into.edge[k]];
        cost += (edge->per_step ? 1 : m) *
                edge->cost[(int64_t)g->value[edge->u] * node->n + s];
    }
    return cost;
}

/* Values of node i, the next one, that are possible now, cheapest first. */
static void rank(greedy *g, int32_t i, double *cost)
{
    const search_net_node *node = &g->net->nodes[i];
    int32_t n = 0;
    count_later(g, i, -1);
    for (int32_t s = 0; s < node->n; s++) {
        double c = added(g, i, s);
        if (!isfinite(c) || !leaves_room(g, i, s))
            continue;
        int32_t k = n++;
        for (; k > 0 && cost[k - 1] > c; k--) {
            cost[k] = cost[k - 1];
            g->ranked[i][k] = g->ranked[i][k - 1];
        }
        cost[k] = c;
        g->ranked[i][k] = s;
    }
    g->n_seen += node->n;
    g->n_ranked[i] = n;
    g->next[i] = 0;
}

/* Depth first: the first complete assignment is the answer. */
static bool descend(greedy *g, int64_t most, double *cost)
{
    const search_net *net = g->net;
    const bool room = any_room(g);
    int32_t i = 0;
    if (net->n_nodes)
        rank(g, 0, cost);
    if (net->n_nodes && !room)
        return false; /* no value of the first node leaves any */
    while (i < net->n_nodes && g->n_seen < most) {
        if (g->next[i] < g->n_ranked[i]) {
            g->value[i] = g->ranked[i][g->next[i]++];
            add_bytes(g, i, g->value[i], 1, g->bytes);
            if (++i < net->n_nodes)
                rank(g, i, cost);
        } else {
            count_later(g, i, 1);
            if (--i < 0)
                return false;
            add_bytes(g, i, g->value[i], -1, g->bytes);
        }
    }
    return i == net->n_nodes;
}

void search_deduce_first(const search_net *net, double passes, fs_arena *arena,
                         search_solution *out)
{
    greedy g = {.net = net,
                .into = search_net_incidence(net, false, arena),
                .bytes = fs_new(arena, int64_t, net->n_limits),
                .value = fs_new(arena, int32_t, net->n_nodes),
                .ranked = fs_new(arena, int32_t *, net->n_nodes),
                .n_ranked = fs_new(arena, int32_t, net->n_nodes),
                .next = fs_new(arena, int32_t, net->n_nodes)};
    int32_t widest = 0;
    double values = 0;
    for (int32_t i = 0; i < net->n_nodes; i++) {
        g.ranked[i] = fs_new(arena, int32_t, net->nodes[i].n);
        widest = net->nodes[i].n > widest ? net->nodes[i].n : widest;
        values += net->nodes[i].n;
    }
    reserve_bytes(&g, arena);
    const int64_t most = (int64_t)fmin(MAX_VALUES, passes * values);
    const bool found = descend(&g, most, fs_new(arena, double, widest));
    *out = (search_solution){
        .value = g.value,
        .cost = found ? search_net_cost(net, g.value) : INFINITY,
        .steps = g.n_seen * (VALUE_STEPS + net->n_limits),
        .open = !found && g.n_seen >= most,
        .kernel_nodes = net->n_nodes,
    };
}

fs_status search_deduce(const search_net *net, const search_budget *budget,
                        fs_arena *arena, fs_err *err, search_solution *out)
{
    search_solution first;
    search_deduce_first(net, INFINITY, arena, &first); /* one pass */
    fs_deadline_spend(&budget->deadline, first.steps);
    /* It went through everything, or a stage without nodes has no room. */
    if (isinf(first.cost) && !first.open)
        return fs_fail(err, FS_NO, "no assignment is legal and fits memory");
    first.open = false; /* it has no more to say */
    first.lower_bound = search_net_floor(net, arena);
    *out = first;
    return FS_OK;
}
