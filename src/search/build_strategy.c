/* From values of a network back to a strategy. */
#include "config.h"
#include "search/layout.h"

#include <math.h>
#include <string.h>

int32_t search_sharing_of(const ir_graph *graph, int32_t v)
{
    const ir_node *node = &graph->nodes.at[v];
    const int32_t forward = node->forward >= 0 ? node->forward : v;
    return 1 + 2 * forward + (node->phase == IR_BACKWARD);
}

static void set_path(const search_layout *layout, plan_strategy *s, int32_t v,
                     int32_t slot, bool anew)
{
    const ir_graph *graph = layout->graph;
    int32_t tensor = plan_edge_tensor(graph, s, v, slot);
    if (tensor < 0)
        return;
    const plan_ends ends = plan_edge_ends(graph, s, v, slot);
    anew &= search_copy_lives(layout, v, tensor);
    plan_boxer *boxer =
        layout->rates->boxer[plan_tensor_per_step(graph, tensor) && !anew];
    double seconds =
        plan_boxer_join(boxer, &ends, &s->edge[s->first_edge[v] + slot]);
    FS_ASSERT(isfinite(seconds));
    if (anew)
        s->edge[s->first_edge[v] + slot].sharing = search_sharing_of(graph, v);
}

plan_strategy *search_strategy(const search_problem *problem,
                               const search_built *built,
                               const search_layout *layout, const int32_t *rep,
                               const int32_t *value, fs_arena *arena)
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
        s->sig[v] = built->sig[of][value[built->var[of]]];
    }
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const int32_t of = rep ? rep[v] : v;
        for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++)
            set_path(layout, s, v, e - s->first_edge[v],
                     value[built->var[of]] >= built->kept[of]);
    }
    if (problem->lives == SEARCH_ANEW)
        search_box_again(graph, false, s);
    return s;
}
