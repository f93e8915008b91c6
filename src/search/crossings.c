/* What cuts add, all of them and one. A bound of every cut lets each edge
 * between two pieces take the least of what it does at home and across
 * (build_edges.c). Where a cut lies between its ends it crosses, whatever the
 * values, and takes no less than the least difference of the two more: forward
 * on the stage behind the cut, back on the one before it. p stages have p - 1
 * cuts at places that are not the same.
 */
#include "config.h"
#include "search/built.h"

#include "search/cut.h"
#include "search/view.h"

#include "plan/lower.h"

#include <math.h>
#include <stdlib.h>

/* An edge crosses once, however many cuts it leads over: it counts at that in
 * front of its reader or, on its way back, right behind it, since then the
 * stage at that side is the reader's. */
static void add_edges(const search_built *built, const search_ranks *ranks,
                      const search_crossings *cuts)
{
    const ir_graph *graph = ranks->graph;
    const search_view *view = built->layout->view;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        const double *apart = built->apart[view ? view->rep[v] : v];
        const int32_t to = ranks->rank[v];
        for (int32_t k = 0; k < node->n_in; k++) {
            const int32_t from =
                ranks->rank[graph->tensors.at[node->in[k]].producer];
            if (from < to)
                cuts->behind[to] += apart[k];
            else if (from > to)
                cuts->before[to + 1] += apart[k];
        }
    }
}

static int by_seconds(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

search_crossings search_find_crossings(const search_built *built,
                                       const search_ranks *ranks, int32_t p,
                                       fs_arena *arena)
{
    const int32_t n = ranks->n;
    if (p < 2 || n < p || !built->apart || !built->layout->in_runs)
        return (search_crossings){0};
    search_crossings cuts = {.behind = fs_new(arena, double, n + 1),
                             .before = fs_new(arena, double, n + 1)};
    double *both = fs_new(arena, double, n);
    add_edges(built, ranks, &cuts);
    for (int32_t r = 1; r < n; r++)
        both[r - 1] = cuts.behind[r] + cuts.before[r];
    qsort(both, (size_t)n - 1, sizeof *both, by_seconds);
    for (int32_t k = 0; k < p - 1; k++)
        cuts.all_s += both[k];
    cuts.all_s *= 1 - SEARCH_TOLERANCE; /* sums are rounded */
    return cuts;
}

/* ---- of one cut ---- */

bool search_made_anywhere(const ir_graph *graph, int32_t maker)
{
    const ir_op_kind op = graph->nodes.at[maker].op;
    return op == IR_OP_input || op == IR_OP_constant;
}

static double crossing_floor(const search_built *built, int32_t v,
                             int32_t tensor, bool per_step)
{
    const search_layout *layout = built->layout;
    const ir_tensor *t = &layout->graph->tensors.at[tensor];
    const plan_stage *from = &layout->stages[layout->stage_of[t->producer]];
    const plan_stage *to = &layout->stages[layout->stage_of[v]];
    const plan_ends ends = {
        .from_stage = from,
        .to_stage = to,
        .anywhere = search_made_anywhere(layout->graph, t->producer)};
    return plan_ends_cross(&ends)
               ? cost_cross_floor(layout->rates->cost[per_step], t, from, to)
               : 0;
}

double search_cut_floor(const search_built *built, fs_arena *arena)
{
    const search_net *net = &built->loose;
    const ir_graph *graph = built->layout->graph;
    search_sums sums = search_sums_new(net, arena);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const search_net_node *node = &net->nodes[v];
        double least = INFINITY;
        for (int32_t s = 0; s < node->n; s++)
            least = fmin(least, node->cost[s]);
        (node->per_step ? sums.step_s : sums.micro_s)[node->stage] += least;
        for (int32_t k = 0; k < graph->nodes.at[v].n_in; k++) {
            const int32_t tensor = graph->nodes.at[v].in[k];
            const bool per_step = plan_tensor_per_step(graph, tensor);
            if (built->left[v] < node->n) /* and then reads nothing */
                continue;
            (per_step ? sums.step_s : sums.micro_s)[node->stage] +=
                crossing_floor(built, v, tensor, per_step);
        }
    }
    return search_sums_cost(net, &sums);
}
