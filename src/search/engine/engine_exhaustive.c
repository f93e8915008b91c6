/* The oracle: every assignment, depth first, with partial sums. A branch is
 * left only when its sums, with the least entry of every table still to come,
 * cost no less than the best (costs and bytes are not negative). What is too
 * large for that is built up node by node (states.c). */
#include "config.h"
#include "search/engine/engine.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

#define MAX_STEPS 10000000
/* Of work, for one partial assignment, besides its limits. */
enum { VALUE_STEPS = 20 };
/* Between looks at whether it was stopped. */
enum { LOOK_STEPS = 1 << 12 };
/* Beyond so many decimal digits of assignments it does not walk. */
#define MOST_DIGITS 10

typedef struct walk {
    const search_net *net;
    search_sums sums;
    search_incidence into; /* edges whose later end a node is */
    int32_t *value, *best;
    double best_cost;
    bool prune;        /* no entry is negative */
    search_sums *rest; /* [node] least that it and all later ones add */
    search_sums both;  /* scratch */
    int64_t steps;
    const fs_end *end; /* nobody waits for it any more */
    bool stopped;
} walk;

static bool loads_never_negative(const search_load *loads, int32_t n_loads,
                                 int64_t n)
{
    bool good = true;
    for (int32_t k = 0; k < n_loads; k++)
        for (int64_t at = 0; at < n; at++)
            good &= loads[k].bytes[at] >= 0;
    return good;
}

static bool never_negative(const search_net *net)
{
    bool good = true;
    for (int32_t i = 0; i < net->n_nodes; i++) {
        const search_net_node *node = &net->nodes[i];
        for (int32_t s = 0; s < node->n; s++)
            good &= node->cost[s] >= 0;
        good &= loads_never_negative(node->loads, node->n_loads, node->n);
    }
    for (int32_t e = 0; e < net->n_edges; e++) {
        const search_net_edge *edge = &net->edges[e];
        int64_t n = (int64_t)net->nodes[edge->u].n * net->nodes[edge->v].n;
        for (int64_t k = 0; k < n; k++)
            good &= edge->cost[k] >= 0;
        good &= loads_never_negative(edge->loads, edge->n_loads, n);
    }
    return good;
}

static void add_least(search_sums *sums, int32_t stage, bool per_step,
                      const double *cost, int64_t n)
{
    double least = INFINITY;
    for (int64_t k = 0; k < n; k++)
        least = fmin(least, cost[k]);
    (per_step ? sums->step_s : sums->micro_s)[stage] += least;
}

static void add_least_loads(search_sums *sums, const search_load *loads,
                            int32_t n_loads, int64_t n)
{
    for (int32_t k = 0; k < n_loads; k++) {
        int64_t least = n ? loads[k].bytes[0] : 0;
        for (int64_t at = 1; at < n; at++)
            if (loads[k].bytes[at] < least)
                least = loads[k].bytes[at];
        sums->bytes[loads[k].limit] += least;
    }
}

static void sum_rest(walk *w, fs_arena *arena)
{
    const search_net *net = w->net;
    int32_t p = net->n_stages;
    w->both = search_sums_new(net, arena);
    w->rest = fs_new(arena, search_sums, net->n_nodes + 1);
    w->rest[net->n_nodes] = search_sums_new(net, arena);
    for (int32_t i = net->n_nodes - 1; i >= 0; i--) {
        const search_net_node *node = &net->nodes[i];
        search_sums *rest = &w->rest[i];
        *rest = search_sums_new(net, arena);
        memcpy(rest->micro_s, rest[1].micro_s, (size_t)p * sizeof(double));
        memcpy(rest->step_s, rest[1].step_s, (size_t)p * sizeof(double));
        memcpy(rest->bytes, rest[1].bytes,
               (size_t)net->n_limits * sizeof(int64_t));
        add_least(rest, node->stage, node->per_step, node->cost, node->n);
        add_least_loads(rest, node->loads, node->n_loads, node->n);
        for (int32_t k = w->into.first[i]; k < w->into.first[i + 1]; k++) {
            const search_net_edge *edge = &net->edges[w->into.edge[k]];
            int64_t n = (int64_t)net->nodes[edge->u].n * node->n;
            add_least(rest, edge->stage, edge->per_step, edge->cost, n);
            add_least_loads(rest, edge->loads, edge->n_loads, n);
        }
    }
}

/* Can nodes i, i+1, .. still lead to something better? */
static bool hopeful(walk *w, int32_t i)
{
    for (int32_t k = 0; k < w->net->n_stages; k++) {
        w->both.micro_s[k] = w->sums.micro_s[k] + w->rest[i].micro_s[k];
        w->both.step_s[k] = w->sums.step_s[k] + w->rest[i].step_s[k];
    }
    for (int32_t k = 0; k < w->net->n_limits; k++)
        w->both.bytes[k] = w->sums.bytes[k] + w->rest[i].bytes[k];
    return search_sums_fit(w->net, &w->both) &&
           search_sums_cost(w->net, &w->both) < w->best_cost;
}

/* Adds node i's value to the sums; false when something is forbidden. */
static bool put(walk *w, int32_t i)
{
    const search_net *net = w->net;
    const search_net_node *node = &net->nodes[i];
    double *sum[2] = {w->sums.micro_s, w->sums.step_s};
    double cost = node->cost[w->value[i]];
    search_add_loads(w->sums.bytes, node->loads, node->n_loads, w->value[i], 1);
    sum[node->per_step][node->stage] += cost;
    bool fine = isfinite(cost);
    for (int32_t k = w->into.first[i]; k < w->into.first[i + 1]; k++) {
        const search_net_edge *edge = &net->edges[w->into.edge[k]];
        int64_t at = (int64_t)w->value[edge->u] * node->n + w->value[i];
        cost = edge->cost[at];
        sum[edge->per_step][edge->stage] += cost;
        search_add_loads(w->sums.bytes, edge->loads, edge->n_loads, at, 1);
        fine &= isfinite(cost);
    }
    return fine;
}

static void visit(walk *w, int32_t i);

/* The sums are saved and put back, not subtracted: INFINITY - INFINITY. */
static void try_value(walk *w, int32_t i)
{
    int32_t p = w->net->n_stages;
    double micro[p], step[p];
    int64_t bytes[w->net->n_limits + 1];
    size_t n_bytes = (size_t)w->net->n_limits * sizeof *bytes;
    memcpy(micro, w->sums.micro_s, sizeof micro);
    memcpy(step, w->sums.step_s, sizeof step);
    memcpy(bytes, w->sums.bytes, n_bytes);
    bool fine = put(w, i);
    if (fine && (!w->prune || hopeful(w, i + 1)))
        visit(w, i + 1);
    memcpy(w->sums.micro_s, micro, sizeof micro);
    memcpy(w->sums.step_s, step, sizeof step);
    memcpy(w->sums.bytes, bytes, n_bytes);
}

static void visit(walk *w, int32_t i)
{
    if (i == w->net->n_nodes) {
        double cost = search_sums_cost(w->net, &w->sums);
        if (search_sums_fit(w->net, &w->sums) && cost < w->best_cost) {
            w->best_cost = cost;
            memcpy(w->best, w->value, (size_t)i * sizeof *w->best);
        }
        return;
    }
    for (int32_t s = 0; s < w->net->nodes[i].n; s++) {
        w->stopped |= w->steps % LOOK_STEPS == 0 && fs_end_stopped(w->end);
        if (++w->steps > MAX_STEPS || w->stopped)
            return;
        w->value[i] = s;
        try_value(w, i);
    }
}

/* Assignments left when what no optimum needs is gone: a logarithm. */
static double choices(const search_net *net)
{
    fs_arena *scratch = fs_arena_create();
    int32_t *dom = fs_new(scratch, int32_t, net->n_nodes);
    int32_t **value = fs_new(scratch, int32_t *, net->n_nodes);
    double digits = 0;
    for (int32_t i = 0; i < net->n_nodes; i++) {
        value[i] = fs_new(scratch, int32_t, net->nodes[i].n);
        for (int32_t s = 0; s < net->nodes[i].n; s++)
            if (isfinite(net->nodes[i].cost[s]))
                value[i][dom[i]++] = s;
    }
    search_subnet sub = search_subnet_of(net, dom, value, scratch);
    search_subnet_reduce(&sub, scratch);
    for (int32_t i = 0; i < net->n_nodes; i++)
        digits += log10(fmax(1, sub.net.nodes[i].n));
    fs_arena_destroy(scratch);
    return digits;
}

/* What was met before it was stopped; the bound is that of the least entries.
 */
static fs_status stop_at(const search_net *net, const search_solution *met,
                         fs_arena *arena, search_solution *out)
{
    *out = *met;
    out->lower_bound = fmin(out->cost, search_net_floor(net, arena));
    out->kernel_nodes = net->n_nodes;
    out->open = true;
    return FS_OK;
}

/* The cheaper of what two baselines find, by a cost computed afresh: it ends
 * ways that cost more, and nothing else of theirs is believed. */
static search_solution known_way(const search_net *net,
                                 const search_budget *budget, fs_arena *arena)
{
    search_engine_fn *const of[] = {search_deduce, search_greedy};
    search_solution best = {.cost = INFINITY};
    for (int32_t k = 0; k < 2; k++) {
        search_solution one = {.cost = INFINITY};
        fs_err ignored = {0};
        if (of[k](net, budget, arena, &ignored, &one) != FS_OK || !one.value)
            continue;
        one.cost = search_net_cost(net, one.value);
        if (one.cost < best.cost)
            best = one;
    }
    return best;
}

/* Node by node, for networks that are too large to walk. */
static fs_status build_up(const search_net *net, const search_budget *budget,
                          double digits, fs_arena *arena, fs_err *err,
                          search_solution *out)
{
    search_solution first = known_way(net, budget, arena);
    fs_err mine = {0};
    fs_status status = search_states(net, first.cost, &budget->deadline.end,
                                     arena, &mine, out);
    if (!first.value)
        first = (search_solution){.value = fs_new(arena, int32_t, net->n_nodes),
                                  .cost = INFINITY};
    if (status != FS_OK && fs_end_stopped(&budget->deadline.end))
        return stop_at(net, &first, arena, out);
    if (status == FS_OK)
        fs_deadline_spend(&budget->deadline, out->steps);
    if (status != FS_INVALID)
        return status == FS_OK ? FS_OK : fs_fail(err, status, "%s", mine.text);
    return fs_fail(err, FS_INVALID,
                   "exhaustive: about 1e%.0f assignments of %d nodes are left "
                   "when dominated values are dropped (1e%d are walked), and "
                   "%s, too many; fix more (--fix "
                   "dp=2,pp=1,zero=0,micro-batches=1), take a smaller network "
                   "or fewer devices, or use engine ilp, which proves as much",
                   digits, net->n_nodes, MOST_DIGITS, mine.text);
}

static fs_status walk_all(const search_net *net, const search_budget *budget,
                          fs_arena *arena, fs_err *err, search_solution *out)
{
    walk w = {.net = net,
              .into = search_net_incidence(net, false, arena),
              .sums = search_sums_new(net, arena),
              .value = fs_new(arena, int32_t, net->n_nodes),
              .best = fs_new(arena, int32_t, net->n_nodes),
              .best_cost = INFINITY,
              .end = &budget->deadline.end,
              .prune = never_negative(net)};
    sum_rest(&w, arena);
    visit(&w, 0);
    fs_deadline_spend(&budget->deadline,
                      w.steps * (VALUE_STEPS + net->n_limits));
    if (w.stopped)
        return stop_at(net,
                       &(search_solution){.value = w.best,
                                          .cost = w.best_cost,
                                          .steps = w.steps},
                       arena, out);
    if (w.steps > MAX_STEPS)
        return fs_fail(err, FS_INVALID,
                       "more than %d partial assignments of %d nodes",
                       MAX_STEPS, net->n_nodes);
    if (!isfinite(w.best_cost))
        return fs_fail(err, FS_NO, "no assignment is legal and fits memory");
    double cost = search_net_cost(net, w.best);
    *out = (search_solution){.value = w.best,
                             .cost = cost,
                             .lower_bound = cost,
                             .steps = w.steps,
                             .kernel_nodes = net->n_nodes};
    return FS_OK;
}

/* An oracle has no half answers: what it does is counted, but does not end it,
 * nor does a time limit; whoever interrupts the search gets what was met. */
fs_status search_exhaustive(const search_net *net, const search_budget *budget,
                            fs_arena *arena, fs_err *err, search_solution *out)
{
    enum { DEPTH = 10000 };
    if (net->n_nodes > DEPTH)
        return fs_fail(err, FS_INVALID,
                       "exhaustive: %d nodes are too many; use engine ilp",
                       net->n_nodes);
    double digits = choices(net);
    fs_err mine = {0};
    fs_status status = digits > MOST_DIGITS
                           ? FS_INVALID
                           : walk_all(net, budget, arena, &mine, out);
    if (status == FS_INVALID)
        return build_up(net, budget, digits, arena, err, out);
    return status == FS_OK ? FS_OK : fs_fail(err, status, "%s", mine.text);
}
