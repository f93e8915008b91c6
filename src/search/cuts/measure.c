/* What the pieces of a plan take where they run: stages are cut again by that.
 */
#include "config.h"
#include "search/cuts/recut.h"

#include "search/built.h"
#include "search/cuts/cut.h"
#include "search/lay_out.h"
#include "search/engine/prices.h"

#include "ir/compact.h"

bool search_wants_cuts(const search_level0 *z)
{
    const search_problem *p = z->problem;
    return p->recut && !(p->without & SEARCH_CUTS) && !p->rounds &&
           !p->stage_of && !p->n_layers;
}

/* [2 * node] per micro-batch, then per step: of one such node. */
static double *seconds_of_nodes(const search_candidate *c, const int32_t *value,
                                fs_arena *arena)
{
    const search_built *b = &c->built;
    const search_net *net = &b->loose;
    const search_layout *layout = &c->shown;
    double *s = fs_new(arena, double, 2 * net->n_nodes);
    for (int32_t v = 0; v < net->n_nodes; v++)
        s[2 * v + net->nodes[v].per_step] +=
            net->nodes[v].cost[value[b->var[v]]] / search_times(layout, v);
    for (int32_t e = 0; e < net->n_edges; e++) {
        const search_net_edge *edge = &net->edges[e];
        const int32_t u = edge->u, v = edge->v;
        const int64_t at =
            (int64_t)value[b->var[u]] * net->nodes[v].n + value[b->var[v]];
        if (layout->stage_of[u] == layout->stage_of[v])
            s[2 * v + edge->per_step] +=
                edge->cost[at] / search_times(layout, v);
    }
    return s;
}

search_measured *search_measured_by(search_level0 *z, const search_candidate *c,
                                    const search_view *view,
                                    const int32_t *value, fs_arena *arena)
{
    fs_arena *scratch = fs_arena_create();
    const ir_graph *whole = view ? view->fold->layers->graph : c->shown.graph;
    const search_ranks *ranks = search_ranks_of(z, whole);
    const double *s = seconds_of_nodes(c, value, scratch);
    search_measured *m = fs_new(arena, search_measured, 1);
    *m = (search_measured){ranks,
                           fs_new(arena, double, ranks->n),
                           fs_new(arena, double, ranks->n),
                           fs_new(arena, int32_t, ranks->n),
                           0,
                           false,
                           NULL};
    for (int32_t v = 0; v < whole->nodes.n; v++) {
        const int32_t of = view ? view->rep[v] : v;
        const int32_t times = ir_times(&whole->nodes.at[v]);
        m->micro_s[ranks->rank[v]] += of < 0 ? 0 : times * s[2 * of];
        m->step_s[ranks->rank[v]] += of < 0 ? 0 : times * s[2 * of + 1];
    }
    fs_arena_destroy(scratch);
    return m;
}

/* NULL: the engine has none. */
static const search_prices *
prices_of(const search_net *net, const search_prices *found, fs_arena *arena)
{
    if (!found)
        return NULL;
    search_prices *prices = fs_new(arena, search_prices, 1);
    *prices = search_prices_new(net, arena);
    search_prices_copy(net, prices, found);
    return prices;
}

search_measured *search_measured_of(search_level0 *z, const search_candidate *c,
                                    const search_solution *solution)
{
    const search_ranks *placed = search_ranks_of(z, c->layout.graph);
    search_measured *m =
        search_measured_by(z, c, c->view, solution->value, z->scratch);
    m->cost_s = solution->cost;
    m->prices = prices_of(&c->built.net, solution->prices, z->scratch);
    for (int32_t r = 0; r < m->ranks->n; r++)
        m->stage[r] = c->layout.stage_of[placed->order[r]];
    return m;
}

void search_measure(search_level0 *z, search_candidate *c,
                    const search_solution *solution)
{
    if (search_wants_cuts(z) && c->n_stages > 1 && c->depth == 1 &&
        solution->cost <= (1 + SEARCH_NEAR) * z->best_s &&
        (!c->measured || c->measured->cost_s > solution->cost))
        c->measured = search_measured_of(z, c, solution);
}
