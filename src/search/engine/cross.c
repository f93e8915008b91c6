/* Two assignments differ in nodes that form islands: parts without an edge
 * between them. Each island can be taken over from the other assignment by
 * itself, and what that changes adds up, exactly. At prices where both cost
 * the same, islands trade one stage's time for another's; a mixture balances
 * the stages, which neither assignment does. */
#include "config.h"
#include "search/engine/engine.h"

#include <math.h>
#include <string.h>

enum { TRIED_STEPS = 20, ISLAND_STEPS = 20 };
enum { MAX_ISLANDS = 400, PAIRS_BELOW = 120, ROUNDS = 200 };

typedef struct islands {
    const search_net *net;
    search_incidence at;
    int32_t *of; /* [node] its island, -1: both agree */
    int32_t n;
    search_sums *change; /* [n] what taking it over adds */
    bool *legal, *taken; /* [n] */
    int64_t steps;
    search_sums sums, trial;
} islands;

static int32_t other_end(const search_net_edge *edge, int32_t node)
{
    return edge->u == node ? edge->v : edge->u;
}

/* Numbers the islands, by search from each unnumbered node. */
static void find(islands *s, const int32_t *a, const int32_t *b,
                 fs_arena *arena)
{
    const search_net *net = s->net;
    int32_t *stack = fs_new(arena, int32_t, net->n_nodes);
    for (int32_t i = 0; i < net->n_nodes; i++)
        s->of[i] = -1;
    for (int32_t i = 0; i < net->n_nodes && s->n < MAX_ISLANDS; i++) {
        if (a[i] == b[i] || s->of[i] >= 0)
            continue;
        int32_t depth = 0;
        stack[depth++] = i;
        s->of[i] = s->n;
        while (depth) {
            int32_t v = stack[--depth];
            for (int32_t k = s->at.first[v]; k < s->at.first[v + 1]; k++) {
                int32_t w = other_end(&net->edges[s->at.edge[k]], v);
                if (a[w] == b[w] || s->of[w] >= 0)
                    continue;
                s->of[w] = s->n;
                stack[depth++] = w;
            }
        }
        s->n++;
    }
}

static void count(search_sums *to, int32_t stage, bool per_step, double cost)
{
    (per_step ? to->step_s : to->micro_s)[stage] += cost;
}

/* What each island changes. */
static void measure(islands *s, const int32_t *a, const int32_t *b)
{
    const search_net *net = s->net;
    for (int32_t i = 0; i < net->n_nodes; i++) {
        const search_net_node *node = &net->nodes[i];
        int32_t k = s->of[i];
        if (k < 0)
            continue;
        search_sums *to = &s->change[k];
        s->legal[k] &= isfinite(node->cost[b[i]]);
        count(to, node->stage, node->per_step,
              node->cost[b[i]] - node->cost[a[i]]);
        search_add_loads(to->bytes, node->loads, node->n_loads, a[i], -1);
        search_add_loads(to->bytes, node->loads, node->n_loads, b[i], 1);
    }
    for (int32_t e = 0; e < net->n_edges; e++) {
        const search_net_edge *edge = &net->edges[e];
        int32_t ku = s->of[edge->u], kv = s->of[edge->v];
        int32_t k = ku >= 0 ? ku : kv, n = net->nodes[edge->v].n;
        if (k < 0)
            continue;
        search_sums *to = &s->change[k];
        int64_t was = (int64_t)a[edge->u] * n + a[edge->v];
        int64_t is = (int64_t)(ku >= 0 ? b : a)[edge->u] * n +
                     (kv >= 0 ? b : a)[edge->v];
        s->legal[k] &= isfinite(edge->cost[is]);
        count(to, edge->stage, edge->per_step,
              edge->cost[is] - edge->cost[was]);
        search_add_loads(to->bytes, edge->loads, edge->n_loads, was, -1);
        search_add_loads(to->bytes, edge->loads, edge->n_loads, is, 1);
    }
}

static void add(const search_net *net, search_sums *to,
                const search_sums *change, int32_t sign)
{
    for (int32_t i = 0; i < net->n_stages; i++) {
        to->micro_s[i] += sign * change->micro_s[i];
        to->step_s[i] += sign * change->step_s[i];
    }
    for (int32_t k = 0; k < net->n_limits; k++)
        to->bytes[k] += sign * change->bytes[k];
}

/* Cost when island x, and y unless it is -1, change sides. */
static double tried(islands *s, int32_t x, int32_t y)
{
    const search_net *net = s->net;
    size_t stages = (size_t)net->n_stages * sizeof(double);
    s->steps += TRIED_STEPS + 6 * net->n_stages + 2 * net->n_limits;
    memcpy(s->trial.micro_s, s->sums.micro_s, stages);
    memcpy(s->trial.step_s, s->sums.step_s, stages);
    memcpy(s->trial.bytes, s->sums.bytes,
           (size_t)net->n_limits * sizeof(int64_t));
    add(net, &s->trial, &s->change[x], s->taken[x] ? -1 : 1);
    if (y >= 0)
        add(net, &s->trial, &s->change[y], s->taken[y] ? -1 : 1);
    return search_sums_fit(net, &s->trial) ? search_sums_cost(net, &s->trial)
                                           : INFINITY;
}

static void toggle(islands *s, int32_t x)
{
    add(s->net, &s->sums, &s->change[x], s->taken[x] ? -1 : 1);
    s->taken[x] = !s->taken[x];
}

/* The best change of one island, or of two when `pairs`. */
static bool step(islands *s, bool pairs, double *cost)
{
    double least = *cost * (1 - 1e-12);
    int32_t x = -1, y = -1;
    for (int32_t i = 0; i < s->n; i++)
        for (int32_t k = pairs ? i + 1 : -1;
             s->legal[i] && k < (pairs ? s->n : 0); k++) {
            double c = k < 0 || s->legal[k] ? tried(s, i, k) : INFINITY;
            if (!(c < least))
                continue;
            least = c;
            x = i;
            y = k;
        }
    if (x < 0)
        return false;
    toggle(s, x);
    if (y >= 0)
        toggle(s, y);
    *cost = least;
    return true;
}

double search_net_cross(const search_net *net, int32_t *value,
                        const int32_t *other, fs_arena *arena, int64_t *steps)
{
    islands s = {.net = net,
                 .at = search_net_incidence(net, true, arena),
                 .of = fs_new(arena, int32_t, net->n_nodes),
                 .sums = search_sums_new(net, arena),
                 .trial = search_sums_new(net, arena)};
    find(&s, value, other, arena);
    s.change = fs_new(arena, search_sums, s.n);
    s.legal = fs_new(arena, bool, s.n);
    s.taken = fs_new(arena, bool, s.n);
    for (int32_t k = 0; k < s.n; k++) {
        s.change[k] = search_sums_new(net, arena);
        s.legal[k] = true;
    }
    measure(&s, value, other);
    search_net_sums(net, value, &s.sums);
    double cost = search_sums_cost(net, &s.sums);
    if (!search_sums_fit(net, &s.sums))
        cost = INFINITY;
    for (int32_t round = 0; round < ROUNDS; round++)
        if (!step(&s, false, &cost) &&
            !(s.n <= PAIRS_BELOW && step(&s, true, &cost)))
            break;
    for (int32_t i = 0; i < net->n_nodes; i++)
        if (s.of[i] >= 0 && s.taken[s.of[i]])
            value[i] = other[i];
    *steps += s.steps + (int64_t)ISLAND_STEPS * (net->n_nodes + net->n_edges);
    return search_net_cost(net, value);
}
