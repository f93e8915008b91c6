/* The baseline: nodes in topological order, each takes the value that is
 * cheapest given those before it, as in the semi-automatic deduction of
 * signatures in OneFlow (arXiv 2110.15032, section 3.1). A value that leaves
 * the later nodes too little memory, or that nothing goes with, is passed
 * over for the next one. */
#include "config.h"
#include "search/engine.h"

#include <math.h>
#include <string.h>

enum { MAX_STEPS = 2000000 };

typedef struct greedy {
    const search_net *net;
    search_incidence into; /* edges whose later end a node is */
    int64_t *bytes;        /* [stage] taken so far */
    int64_t *spare;        /* [node] least bytes of later nodes of its stage */
    int32_t *value;
    int32_t **ranked; /* [node] values, best first */
    int32_t *n_ranked, *next;
    int64_t steps;
} greedy;

static void reserve_bytes(greedy *g, fs_arena *arena)
{
    const search_net *net = g->net;
    int64_t *later = fs_new(arena, int64_t, net->n_stages);
    g->spare = fs_new(arena, int64_t, net->n_nodes);
    for (int32_t i = net->n_nodes - 1; i >= 0; i--) {
        const search_net_node *node = &net->nodes[i];
        g->spare[i] = later[node->stage];
        int64_t least = node->n ? node->bytes[0] : 0;
        for (int32_t s = 1; s < node->n; s++)
            if (node->bytes[s] < least)
                least = node->bytes[s];
        later[node->stage] += least;
    }
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

/* Values of node i that are possible now, cheapest first. */
static void rank(greedy *g, int32_t i, double *cost)
{
    const search_net *net = g->net;
    const search_net_node *node = &net->nodes[i];
    int64_t room =
        net->limit_bytes[node->stage] - g->bytes[node->stage] - g->spare[i];
    int32_t n = 0;
    for (int32_t s = 0; s < node->n; s++) {
        double c = added(g, i, s);
        if (!isfinite(c) || node->bytes[s] > room)
            continue;
        int32_t k = n++;
        for (; k > 0 && cost[k - 1] > c; k--) {
            cost[k] = cost[k - 1];
            g->ranked[i][k] = g->ranked[i][k - 1];
        }
        cost[k] = c;
        g->ranked[i][k] = s;
    }
    g->steps += node->n;
    g->n_ranked[i] = n;
    g->next[i] = 0;
}

/* Depth first: the first complete assignment is the answer. */
static bool descend(greedy *g, double *cost)
{
    const search_net *net = g->net;
    int32_t i = 0;
    if (net->n_nodes)
        rank(g, 0, cost);
    while (i < net->n_nodes && g->steps < MAX_STEPS) {
        int32_t stage = net->nodes[i].stage;
        if (g->next[i] < g->n_ranked[i]) {
            g->value[i] = g->ranked[i][g->next[i]++];
            g->bytes[stage] += net->nodes[i].bytes[g->value[i]];
            if (++i < net->n_nodes)
                rank(g, i, cost);
        } else {
            if (--i < 0)
                return false;
            stage = net->nodes[i].stage;
            g->bytes[stage] -= net->nodes[i].bytes[g->value[i]];
        }
    }
    return i == net->n_nodes;
}

fs_status search_greedy(const search_net *net, const search_budget *budget,
                        fs_arena *arena, fs_err *err, search_solution *out)
{
    (void)budget; /* one pass */
    greedy g = {.net = net,
                .into = search_net_incidence(net, false, arena),
                .bytes = fs_new(arena, int64_t, net->n_stages),
                .value = fs_new(arena, int32_t, net->n_nodes),
                .ranked = fs_new(arena, int32_t *, net->n_nodes),
                .n_ranked = fs_new(arena, int32_t, net->n_nodes),
                .next = fs_new(arena, int32_t, net->n_nodes)};
    int32_t widest = 0;
    for (int32_t i = 0; i < net->n_nodes; i++) {
        g.ranked[i] = fs_new(arena, int32_t, net->nodes[i].n);
        widest = net->nodes[i].n > widest ? net->nodes[i].n : widest;
    }
    reserve_bytes(&g, arena);
    bool found = descend(&g, fs_new(arena, double, widest));
    double cost = found ? search_net_cost(net, g.value) : INFINITY;
    /* It went through everything, or a stage without nodes has no room. */
    if (isinf(cost) && g.steps < MAX_STEPS)
        return fs_fail(err, FS_NO, "no assignment is legal and fits memory");
    *out = (search_solution){
        .value = g.value,
        .cost = cost,
        .lower_bound = search_net_floor(net, arena),
        .steps = g.steps,
        .kernel_nodes = net->n_nodes,
    };
    return FS_OK;
}
