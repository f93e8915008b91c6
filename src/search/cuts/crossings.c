/* What cuts add, all of them and one. A bound of every cut lets each edge
 * between two pieces take the least of what it does at home and across
 * (build_edges.c). Where a cut lies between its ends it crosses, whatever the
 * values, and takes no less than the least difference of the two more: forward
 * on the stage behind the cut, back on the one before it. p stages have p - 1
 * cuts at places that are not the same.
 */
#include "config.h"
#include "search/built.h"

#include "search/cuts/cut.h"
#include "search/view.h"

#include "plan/lower.h"

#include <math.h>
#include <stdlib.h>

/* An edge crosses once, however many cuts it leads over, so it counts at one of
 * these alone. On the stage that pays it that is the one in front of its reader
 * or, on its way back, right behind it: then that stage is the reader's. In the
 * sum of all it may be any; what several read counts right behind its maker,
 * where all of them are cut off at once. */
static void add_edges(const search_view *view, double *const *more,
                      const search_ranks *ranks, const search_crossings *cuts,
                      double *all)
{
    const ir_graph *graph = ranks->graph;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        const double *apart = more[view ? view->rep[v] : v];
        const int32_t to = ranks->rank[v];
        for (int32_t k = 0; k < node->n_in; k++) {
            const int32_t from =
                ranks->rank[graph->tensors.at[node->in[k]].producer];
            if (from < to) {
                cuts->behind[to] += apart[k];
                all[from + 1] += apart[k];
            } else if (from > to) {
                cuts->before[to + 1] += apart[k];
                all[to + 1] += apart[k];
            }
        }
    }
}

static int by_seconds(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of what each edge takes more. Of a compact graph a place among copies that one
 * stands for has what its own has: behind a maker, in front of a reader. */
static search_crossings add_up(const search_built *built, double *const *more,
                               const search_ranks *ranks, int32_t p,
                               fs_arena *arena)
{
    const int32_t n = ranks->n_meant;
    if (p < 2 || n < p || !built->layout->in_runs)
        return (search_crossings){0};
    search_crossings few = {.behind = fs_new(arena, double, ranks->n + 1),
                            .before = fs_new(arena, double, ranks->n + 1)};
    double *few_all = fs_new(arena, double, ranks->n + 1);
    add_edges(built->layout->view, more, ranks, &few, few_all);
    search_crossings cuts = {.behind = fs_new(arena, double, n + 1),
                             .before = fs_new(arena, double, n + 1)};
    double *all = fs_new(arena, double, n + 1);
    for (int32_t k = 0; k < n; k++) {
        const int32_t r = ranks->meant[k];
        cuts.behind[k] = few.behind[r];
        cuts.before[k + 1] = few.before[r + 1];
        all[k + 1] = few_all[r + 1];
    }
    qsort(all + 1, (size_t)n - 1, sizeof *all, by_seconds);
    for (int32_t k = 1; k < p; k++)
        cuts.all_s += all[k];
    cuts.all_s *= 1 - SEARCH_TOLERANCE; /* sums are rounded */
    return cuts;
}

search_crossings search_find_crossings(const search_built *built,
                                       const search_ranks *ranks, int32_t p,
                                       fs_arena *arena)
{
    return add_up(built, built->apart, ranks, p, arena);
}

/* From any of the stages that are meant to any other. */
static double least_floor(const search_built *built, const ir_tensor *tensor)
{
    const search_layout *layout = built->layout;
    const search_span all = layout->span[0];
    double least = INFINITY;
    for (int32_t k = 0; k < layout->any_cut; k++)
        for (int32_t to = 0; to <= k + 2 * layout->any_cut; to++) {
            const int32_t i = all.first + k, j = all.first + to;
            if (i != j && i <= all.last && j <= all.last)
                least = fmin(least, cost_cross_floor(layout->rates->cost[0],
                                                     tensor, &layout->meant[i],
                                                     &layout->meant[j]));
        }
    return isfinite(least) ? least : 0;
}

search_crossings search_find_floors(const search_built *built,
                                    const search_ranks *ranks, int32_t p,
                                    fs_arena *arena)
{
    const ir_graph *graph = built->layout->graph;
    int32_t *const *readers = built->layout->readers;
    search_memo known = {.arena = arena};
    FS_VEC(double) floors = {0};
    double **more = fs_new(arena, double *, graph->nodes.n);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        more[v] = fs_new(arena, double, node->n_in + 1);
        for (int32_t k = 0; k < node->n_in; k++) {
            const ir_tensor *t = &graph->tensors.at[node->in[k]];
            const int64_t bytes =
                ir_shape_count(&t->shape) * ir_dtype_bytes(t->dtype);
            if ((readers && readers[v][k] == 0) ||
                plan_tensor_per_step(graph, node->in[k]) ||
                search_made_anywhere(graph, t->producer))
                continue;
            int32_t *at = search_memo_at(&known, &bytes, sizeof bytes);
            if (*at < 0) {
                *at = floors.n;
                fs_push(arena, &floors, least_floor(built, t));
            }
            more[v][k] = floors.at[*at];
        }
    }
    return add_up(built, more, ranks, p, arena);
}

/* ---- of one cut ---- */

bool search_made_anywhere(const ir_graph *graph, int32_t maker)
{
    const ir_op_kind op = graph->nodes.at[maker].op;
    return op == IR_OP_input || op == IR_OP_constant;
}

double search_crossing_floor(const search_layout *layout, int32_t v,
                             int32_t tensor, bool per_step)
{
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
                search_crossing_floor(built->layout, v, tensor, per_step);
        }
    }
    return search_sums_cost(net, &sums);
}
