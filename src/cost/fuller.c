/* Where a strategy holds more than at the moments that were chosen without
 * knowing it: of tasks that its lowered plan is fullest at, and of the scratch
 * that its boxing takes. */
#include "config.h"
#include "cost/parts.h"

#include "plan/lower.h"

bool cost_moment_equal(const cost_moment *a, const cost_moment *b)
{
    return a->stage == b->stage && a->phase == b->phase && a->node == b->node &&
           a->scratch_node == b->scratch_node &&
           a->scratch_slot == b->scratch_slot && a->first == b->first;
}

/* A stream's scratch is that of its largest task, whatever runs. */
static int64_t scratch_of(const cost_sum *sum, int32_t stage, int32_t v,
                          int32_t slot)
{
    const plan_strategy *s = sum->strategy;
    cost_edge edge;
    if (!cost_sum_edge_at(sum, v, slot, &edge) || edge.path->n == 0)
        return 0;
    const bool arrives = s->stage_of[v] == stage;
    if (plan_ends_cross(&edge.ends)
            ? !arrives && edge.ends.from_stage != &s->stages[stage]
            : !arrives)
        return 0;
    const cost_holding held = {.share = 1,
                               .scratch = 1,
                               .arrives =
                                   arrives && plan_ends_cross(&edge.ends)};
    return cost_holding_bytes(&held, &edge.ends, edge.path);
}

static void find_scratch(const cost_sum *sum, int32_t stage, cost_moment *at)
{
    const plan_strategy *s = sum->strategy;
    int64_t most = 0;
    at->scratch_node = at->scratch_slot = -1;
    for (int32_t v = 0; v < s->n_nodes; v++)
        for (int32_t k = 0; k < s->first_edge[v + 1] - s->first_edge[v]; k++) {
            const int64_t bytes = scratch_of(sum, stage, v, k);
            if (bytes <= most)
                continue;
            most = bytes;
            at->scratch_node = v;
            at->scratch_slot = k;
        }
}

static void add_moment(fs_arena *arena, cost_moments *to, const cost_moment *at)
{
    for (int32_t k = 0; k < to->list.n; k++)
        if (cost_moment_equal(&to->list.at[k], at))
            return;
    fs_push(arena, &to->list, *at);
}

/* Those of the stage that are looked at anyway, and the node's, all beside the
 * same scratch. */
static cost_moments list_moments(const cost_sum *sum, int32_t stage,
                                 int32_t node)
{
    const ir_graph *graph = sum->graph;
    const cost_moment *known;
    const int32_t n = cost_memory_moments(sum->memory, &known);
    cost_moments list = {0};
    cost_moment at = {.stage = stage};
    find_scratch(sum, stage, &at);
    for (int32_t k = 0; k < n; k++) {
        at.phase = known[k].phase;
        at.node = known[k].node;
        at.first = known[k].first;
        if (known[k].stage == stage)
            add_moment(sum->arena, &list, &at);
    }
    if (node < 0 || plan_lower_is_view(&graph->nodes.at[node]))
        return list;
    at.node = node;
    at.phase = plan_lower_phase(graph, &graph->nodes.at[node]);
    for (int32_t first = 0; first < 2; first++) {
        at.first = first;
        if (at.phase == PLAN_BACKWARD || (at.phase == PLAN_END && !first))
            add_moment(sum->arena, &list, &at);
    }
    return list;
}

int64_t cost_fuller_moment(const ir_graph *graph, const plan_strategy *strategy,
                           int32_t stage, int32_t node, cost_moment *out)
{
    fs_arena *scratch = fs_arena_create();
    cost_sum sum = {NULL, NULL, graph, strategy, scratch, NULL};
    const cost_program program = {.graph = graph,
                                  .n_stages = strategy->n_stages,
                                  .micro_batches = strategy->micro_batches,
                                  .schedule = strategy->schedule,
                                  .stages = strategy->stages,
                                  .stage_of = strategy->stage_of};
    int64_t most = -1;
    sum.memory = cost_memory_create(&program, scratch);
    const cost_moments more = list_moments(&sum, stage, node);
    const cost_memory *memory =
        cost_memory_create_with(&program, &more, scratch);
    const cost_moment *at;
    const int32_t n = cost_memory_moments(memory, &at);
    sum.memory = memory;
    for (int32_t k = n - more.list.n; k < n; k++) {
        const int64_t bytes = cost_sum_bytes(&sum, k);
        if (bytes <= most)
            continue;
        most = bytes;
        *out = at[k];
    }
    fs_arena_destroy(scratch);
    return most;
}
