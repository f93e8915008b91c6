/* Minimum of an additive network: reductions, then elimination where the
 * tables stay small; else the dual with reduced-cost fixing, which shrinks the
 * domains until elimination fits; else GLPK on what is left, or, where its
 * pivots would take longer, branch and bound by messages. Every step is exact,
 * so the bound is proven and usually equals the cost. */
#include "config.h"
#include "search/engine/cfn.h"

#include "base/clock.h"
#include "search/engine/dual.h"
#include "search/engine/engine.h"
#include "search/engine/milp.h"
#include "search/engine/ration.h"

#include <math.h>
#include <string.h>

/* Cells of all elimination tables together, times the domain eliminated. */
enum { ELIMINATE_ENTRIES = 4 << 20, SWEEPS_BETWEEN = 5 };
enum { MILP_COLUMNS = 6000 };
/* The dual goes on while this many sweeps close this share of the gap. */
enum { PATIENCE = 50 };
#define LITTLE 0.02

bool search_cfn_late(search_cfn *cfn, const fs_deadline *deadline)
{
    fs_deadline_spend(deadline, cfn->steps - cfn->told);
    cfn->told = cfn->steps;
    return fs_deadline_over(deadline);
}

/* Takes `value` (live nodes) as the best so far when it is. */
static void take(search_minimum *out, const search_cfn *cfn,
                 const int32_t *value, double cost)
{
    if (!(cost < out->cost))
        return;
    out->cost = cost;
    if (value != out->value)
        memcpy(out->value, value, (size_t)cfn->n * sizeof *value);
    search_cfn_finish(cfn, out->value);
}

/* What costs this or more is of no interest. */
static double goal(const search_minimum *out, const search_effort *effort)
{
    return fmin(search_near(out->cost, effort->gap), effort->cutoff);
}

/* Elimination solves what is left, when its tables are small enough. Values
 * were dropped only where nothing below `upper` needs them. */
static bool finish_by_elimination(search_cfn *cfn, double upper,
                                  search_minimum *out)
{
    if (!search_cfn_eliminate(cfn, ELIMINATE_ENTRIES))
        return false;
    if (!cfn->infeasible)
        take(out, cfn, out->value, cfn->offset);
    out->bound = fmin(out->cost, upper);
    return true;
}

/* The live part as a network of one stage, for the MILP. */
static search_net *kernel_net(const search_cfn *cfn, int32_t *node_of,
                              fs_arena *arena)
{
    search_net *net = fs_new(arena, search_net, 1);
    int32_t *at = fs_new(arena, int32_t, cfn->n);
    net->nodes = fs_new(arena, search_net_node, cfn->n_live);
    net->edges = fs_new(arena, search_net_edge, cfn->pairs.n);
    net->n_stages = net->micro_batches = 1;
    net->fill = 1;
    for (int32_t i = 0; i < cfn->n; i++) {
        if (cfn->gone[i])
            continue;
        at[i] = net->n_nodes;
        node_of[net->n_nodes] = i;
        net->nodes[net->n_nodes++] =
            (search_net_node){.n = cfn->dom[i], .cost = cfn->unary[i]};
    }
    for (int32_t p = 0; p < cfn->pairs.n; p++) {
        const search_pair *pair = &cfn->pairs.at[p];
        if (!pair->gone)
            net->edges[net->n_edges++] = (search_net_edge){
                .u = at[pair->u], .v = at[pair->v], .cost = pair->cost};
    }
    return net;
}

/* False: it is too large, or GLPK failed. */
static bool finish_by_milp(search_cfn *cfn, const search_effort *effort,
                           fs_arena *arena, search_minimum *out)
{
    int32_t *node_of = fs_new(arena, int32_t, cfn->n_live);
    search_net *net = kernel_net(cfn, node_of, arena);
    if (search_milp_columns(net) > MILP_COLUMNS)
        return false;
    double upper = goal(out, effort);
    search_milp_task task = {net,
                             NULL,
                             upper - cfn->offset,
                             effort->cutoff - cfn->offset,
                             effort->gap,
                             effort->deadline};
    search_solution found;
    fs_err err = {0};
    fs_status status = search_milp(&task, arena, &err, &found);
    out->open |= found.open;
    if (status == FS_NO) {
        out->bound = upper; /* nothing is left below it */
        return true;
    }
    if (status != FS_OK)
        return false;
    cfn->steps += found.steps;
    cfn->told += found.steps; /* by search_milp */
    if (isfinite(found.cost)) {
        int32_t *value = fs_new(arena, int32_t, cfn->n);
        for (int32_t k = 0; k < net->n_nodes; k++)
            value[node_of[k]] = cfn->value[node_of[k]][found.value[k]];
        take(out, cfn, value, found.cost + cfn->offset);
    }
    out->bound = fmin(fmin(out->cost, upper),
                      fmax(out->bound, found.lower_bound + cfn->offset));
    return true;
}

/* What is too large for GLPK is taken apart: branch and bound, by messages. */
static void finish_by_parts(search_cfn *cfn, const search_effort *effort,
                            fs_arena *arena, search_minimum *out)
{
    int32_t *number = fs_new(arena, int32_t, cfn->n);
    search_cfn *kernel = search_cfn_live(cfn, number, arena);
    const search_ration_effort parts = {.deadline = effort->deadline,
                                        .gap = effort->gap,
                                        .without = effort->without,
                                        .ascend = true};
    search_ration found;
    search_cfn_ration(kernel, INT64_MAX / 4, &parts, arena, &found);
    out->open |= found.open;
    cfn->steps += found.steps;
    cfn->told += found.steps; /* by search_cfn_ration */
    if (isfinite(found.cost)) {
        int32_t *value = fs_new(arena, int32_t, cfn->n);
        for (int32_t i = 0; i < cfn->n; i++)
            if (!cfn->gone[i])
                value[i] = cfn->value[i][found.value[number[i]]];
        take(out, cfn, value, found.cost + cfn->offset);
    }
    out->bound = fmin(out->cost, fmax(out->bound, found.bound + cfn->offset));
}

static bool done(const search_minimum *out, const search_effort *effort)
{
    return search_proven(out->bound, out->cost) ||
           search_proven(out->bound, goal(out, effort));
}

/* Looks every PATIENCE sweeps; *before is the bound at the last look. */
static bool stuck(const search_minimum *out, const search_effort *effort,
                  int32_t sweep, double *before)
{
    if (sweep % PATIENCE != 0)
        return false;
    bool little =
        out->bound - *before < LITTLE * (goal(out, effort) - out->bound);
    *before = out->bound;
    return little;
}

static void run_dual(search_cfn *cfn, const search_effort *effort,
                     search_dual *dual, search_minimum *out)
{
    double before = -INFINITY;
    out->bound = fmax(out->bound, dual->bound);
    for (int32_t k = 1; k <= effort->sweeps; k++) {
        search_dual_sweep(dual);
        take(out, cfn, dual->value, dual->best);
        if (dual->closed) /* by the goal that it was given */
            out->bound = fmin(dual->upper, out->cost);
        dual->upper = fmin(dual->upper, goal(out, effort));
        out->bound = fmax(out->bound, fmin(dual->bound, out->cost));
        out->open = search_cfn_late(cfn, &effort->deadline);
        if (done(out, effort) || out->open)
            return;
        if (k % SWEEPS_BETWEEN == 0 &&
            finish_by_elimination(cfn, dual->upper, out))
            return;
        if (stuck(out, effort, k, &before))
            return;
    }
}

/* Elimination takes as long as some sweeps, of which one mostly proves what is
 * to be proven at all. */
static bool prove_soon(const search_effort *effort, search_dual *dual,
                       search_minimum *out)
{
    search_dual_raise(dual);
    out->bound = fmax(out->bound, dual->bound);
    return search_proven(out->bound, effort->cutoff);
}

static void minimise(search_cfn *cfn, const search_effort *effort,
                     fs_arena *arena, search_minimum *out)
{
    *out = (search_minimum){.bound = -INFINITY,
                            .cost = INFINITY,
                            .value = fs_new(arena, int32_t, cfn->n)};
    search_cfn_reduce(cfn, SEARCH_REDUCE_ALL & ~effort->without);
    out->kernel_nodes = cfn->n_live;
    if (cfn->infeasible) {
        out->bound = INFINITY;
        return;
    }
    const bool soon = effort->proves && isfinite(effort->cutoff) &&
                      !(effort->without & SEARCH_ARCS);
    search_dual *dual = soon ? search_dual_new(cfn, arena) : NULL;
    if (dual && prove_soon(effort, dual, out))
        return;
    if (finish_by_elimination(cfn, INFINITY, out))
        return;
    if (effort->without & SEARCH_ARCS) { /* messages cannot do without */
        search_cfn_reduce(cfn, SEARCH_ARCS);
        if (cfn->infeasible) {
            out->bound = INFINITY;
            return;
        }
    }
    run_dual(cfn, effort, dual ? dual : search_dual_new(cfn, arena), out);
    if (done(out, effort) || !effort->milp ||
        search_cfn_late(cfn, &effort->deadline))
        return;
    if (!finish_by_milp(cfn, effort, arena, out))
        finish_by_parts(cfn, effort, arena, out);
}

void search_cfn_minimise(search_cfn *cfn, const search_effort *effort,
                         fs_arena *arena, search_minimum *out)
{
    minimise(cfn, effort, arena, out);
    search_cfn_late(cfn, &effort->deadline);
}
