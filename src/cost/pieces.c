/* The additive pieces of the formula, per node. */
#include "config.h"
#include "cost/parts.h"

#include <math.h>

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
