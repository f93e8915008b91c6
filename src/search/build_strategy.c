/* From values of a network back to a strategy. */
#include "config.h"
#include "search/built.h"
#include "search/fit.h"
#include "search/layout.h"

#include "ir/recompute.h"

#include <math.h>
#include <string.h>

int32_t search_sharing_of(const ir_graph *graph, int32_t v)
{
    const ir_node *node = &graph->nodes.at[v];
    const int32_t forward = node->forward >= 0 ? node->forward : v;
    return 1 + 2 * forward + (node->phase == IR_BACKWARD);
}

/* False: there is none. */
static bool set_path(const search_layout *layout, plan_strategy *s, int32_t v,
                     int32_t slot, bool anew)
{
    const ir_graph *graph = layout->graph;
    int32_t tensor = plan_edge_tensor(graph, s, v, slot);
    if (tensor < 0)
        return true;
    const plan_ends ends = plan_edge_ends(graph, s, v, slot);
    anew &= search_copy_lives(layout, v, tensor);
    plan_boxer *boxer =
        layout->rates->boxer[plan_tensor_per_step(graph, tensor) && !anew];
    double seconds =
        plan_boxer_join(boxer, &ends, &s->edge[s->first_edge[v] + slot]);
    if (anew)
        s->edge[s->first_edge[v] + slot].sharing = search_sharing_of(graph, v);
    return isfinite(seconds);
}

static int32_t leaves_as(const search_built *built, int32_t v, int32_t value)
{
    if (value < built->left[v])
        return 0;
    return value == built->loose.nodes[v].n - 1 ? 2 : 1;
}

bool search_leaves_alike(const search_built *built, int32_t maker, int32_t slot,
                         int32_t a, int32_t b)
{
    const search_layout *layout = built->layout;
    const int32_t axes = layout->stages[layout->stage_of[maker]].mesh.n;
    return leaves_as(built, maker, a) == leaves_as(built, maker, b) &&
           ir_nd_sbp_equal(&built->sig[maker][a].out[slot],
                           &built->sig[maker][b].out[slot], axes);
}

bool *search_left_out(const search_built *built, const search_layout *layout,
                      const int32_t *rep, const int32_t *pick, fs_arena *arena)
{
    const int32_t n = layout->graph->nodes.n;
    bool *out = fs_new(arena, bool, n), any = false;
    for (int32_t v = 0; v < n; v++) {
        const int32_t of = rep ? rep[v] : v;
        out[v] = pick[v] >= built->left[of];
        any |= out[v];
    }
    return any ? out : NULL;
}

const ir_graph *search_leave_out(const search_layout *layout, const bool *out,
                                 plan_strategy **strategy, fs_arena *arena)
{
    ir_graph *graph = ir_graph_copy(layout->graph, arena);
    const plan_strategy *all = *strategy;
    int32_t *was = fs_new(arena, int32_t, graph->nodes.n);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        was[v] = v;
    ir_recompute_keep(graph, out, was);
    plan_strategy *s = plan_strategy_new(graph, all->n_stages, arena);
    s->schedule = fs_strdup(arena, all->schedule);
    memcpy(s->stages, all->stages, (size_t)s->n_stages * sizeof *s->stages);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        s->stage_of[v] = all->stage_of[was[v]];
        s->sig[v] = all->sig[was[v]];
        for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++) {
            s->edge[e] =
                all->edge[all->first_edge[was[v]] + e - s->first_edge[v]];
            if (s->edge[e].sharing)
                s->edge[e].sharing = search_sharing_of(graph, v);
        }
    }
    *strategy = s;
    return graph;
}

/* Nodes that take the same paths as one before them (plan_strategy.like): of a
 * node of the view the last that had others. */
typedef struct likeness {
    const search_layout *layout;
    const int32_t *rep, *pick;
    const plan_strategy *s;
    int32_t *last; /* [nodes of the view] -1: none yet */
    int32_t *like;
} likeness;

static bool same_maker(const likeness *l, int32_t a, int32_t b)
{
    const ir_graph *graph = l->layout->graph;
    if (a < 0 || b < 0 || a == b)
        return a == b;
    const ir_tensor *x = &graph->tensors.at[a], *y = &graph->tensors.at[b];
    return x->slot == y->slot && l->rep[x->producer] == l->rep[y->producer] &&
           l->pick[x->producer] == l->pick[y->producer] &&
           l->s->stage_of[x->producer] == l->s->stage_of[y->producer] &&
           plan_tensor_per_step(graph, a) == plan_tensor_per_step(graph, b);
}

static bool is_like(const likeness *l, int32_t v, int32_t u)
{
    const ir_graph *graph = l->layout->graph;
    const plan_strategy *s = l->s;
    const int32_t n = s->first_edge[v + 1] - s->first_edge[v];
    bool same = l->pick[v] == l->pick[u] && s->stage_of[v] == s->stage_of[u] &&
                n == s->first_edge[u + 1] - s->first_edge[u];
    for (int32_t k = 0; same && k < n; k++)
        same = same_maker(l, plan_edge_tensor(graph, s, v, k),
                          plan_edge_tensor(graph, s, u, k));
    return same;
}

/* The one that it is like, which may be itself. */
static int32_t find_like(likeness *l, int32_t v)
{
    int32_t *last = &l->last[l->rep[v]];
    if (*last < 0 || !is_like(l, v, *last))
        *last = v;
    return l->like[v] = *last;
}

/* False: there are none. */
static bool set_paths(const search_built *built, const search_layout *layout,
                      int32_t v, int32_t of, int32_t value, plan_strategy *s)
{
    bool joined = true;
    if (value >= built->left[of])
        return true;
    for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++)
        joined &= set_path(layout, s, v, e - s->first_edge[v],
                           value >= built->kept[of]);
    return joined;
}

static void copy_paths(const ir_graph *graph, int32_t v, int32_t u,
                       plan_strategy *s)
{
    const int32_t n = s->first_edge[v + 1] - s->first_edge[v];
    plan_boxing *to = &s->edge[s->first_edge[v]];
    const plan_boxing *from = &s->edge[s->first_edge[u]];
    for (int32_t k = 0; k < n; k++) {
        to[k] = from[k];
        if (from[k].sharing)
            to[k].sharing = search_sharing_of(graph, v);
    }
}

plan_strategy *search_strategy(const search_problem *problem,
                               const search_built *built,
                               const search_layout *layout, const int32_t *rep,
                               const int32_t *pick, fs_arena *arena)
{
    const ir_graph *graph = layout->graph;
    plan_strategy *s = plan_strategy_new(graph, layout->n_stages, arena);
    s->schedule = fs_strdup(arena, layout->schedule);
    memcpy(s->stages, layout->stages,
           (size_t)layout->n_stages * sizeof *s->stages);
    memcpy(s->stage_of, layout->stage_of,
           (size_t)graph->nodes.n * sizeof *s->stage_of);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const int32_t of = rep ? rep[v] : v;
        s->sig[v] = built->sig[of][pick[v]];
    }
    bool joined = true;
    likeness l = {layout, rep, pick, s, NULL, NULL};
    if (rep) {
        const int32_t n = built->layout->graph->nodes.n;
        l.last = fs_new(arena, int32_t, n);
        memset(l.last, 0xff, (size_t)n * sizeof *l.last);
        s->like = l.like = fs_new(arena, int32_t, graph->nodes.n);
    }
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const int32_t u = rep ? find_like(&l, v) : v;
        if (u != v)
            copy_paths(graph, v, u, s);
        else
            joined &= set_paths(built, layout, v, rep ? rep[v] : v, pick[v], s);
    }
    if (!joined)
        return NULL;
    if (problem->lives == SEARCH_ANEW)
        search_box_again(graph, false, s);
    return s;
}
