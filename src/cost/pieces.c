/* The additive pieces of the formula, per node. */
#include "config.h"
#include "cost/parts.h"

#include "plan/schedule.h"

double cost_node_seconds(const cost_model *model, const ir_graph *graph,
                         int32_t node, const ir_nd_sig *sig,
                         const plan_stage *stage)
{
    plan_demand demand =
        cost_op(model, graph, &graph->nodes.at[node], sig, stage);
    return cost_shared_seconds(model, stage, &demand);
}

bool cost_node_per_step(const ir_graph *graph, int32_t node)
{
    const ir_node *n = &graph->nodes.at[node];
    return n->phase == IR_UPDATE || n->op == IR_OP_variable ||
           n->op == IR_OP_constant;
}

int32_t *cost_in_flight(const char *schedule, int32_t n, int32_t m,
                        fs_arena *arena)
{
    int32_t *most = fs_new(arena, int32_t, n);
    plan_schedule_fn *fill = plan_schedule_find(schedule);
    fs_arena *scratch = fs_arena_create();
    plan_slot *slots = fs_new(scratch, plan_slot, 2 * (size_t)m);
    for (int32_t i = 0; i < n; i++) {
        most[i] = m; /* a schedule that nobody knows may hold all */
        if (!fill)
            continue;
        fill(i, n, m, slots);
        most[i] = plan_schedule_in_flight(slots, 2 * m);
    }
    fs_arena_destroy(scratch);
    return most;
}
