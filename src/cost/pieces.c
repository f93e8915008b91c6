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

plan_bytes_kind cost_output_kind(const ir_graph *graph, int32_t tensor)
{
    const ir_tensor *t = &graph->tensors.at[tensor];
    switch (t->role) {
    case IR_PARAM:
        return PLAN_BYTES_PARAM;
    case IR_STATE:
        return PLAN_BYTES_STATE;
    case IR_BUFFER:
    case IR_CONST:
        return PLAN_BYTES_CONST;
    default:
        return plan_tensor_per_step(graph, tensor) ? PLAN_BYTES_GRADIENT
                                                   : PLAN_BYTES_ACTIVATION;
    }
}

/* Does a backward node read the tensor, itself or through views? */
static bool backward_reads(const ir_graph *graph, const ir_uses *uses,
                           int32_t tensor)
{
    for (int32_t u = uses->first[tensor]; u < uses->first[tensor + 1]; u++) {
        const ir_node *reader = &graph->nodes.at[uses->list[u]];
        if (reader->phase == IR_BACKWARD)
            return true;
        if (ir_op_class_of(reader->op) == IR_CLASS_VIEW && reader->n_out &&
            backward_reads(graph, uses, reader->out[0]))
            return true;
    }
    return false;
}

/* How many copies of an output a device holds at its fullest moment, the turn
 * from forward to backward. What lives for a micro-batch and is not kept for
 * backward shares its bytes with others of its kind: it counts as nothing. */
static int32_t copies_held(const ir_graph *graph, const ir_uses *uses,
                           const ir_node *node, int32_t tensor,
                           int32_t in_flight)
{
    if (cost_output_kind(graph, tensor) != PLAN_BYTES_ACTIVATION)
        return 1;
    if (node->phase == IR_FORWARD && backward_reads(graph, uses, tensor))
        return in_flight;
    return 0;
}

int64_t cost_node_bytes(const ir_graph *graph, const ir_uses *uses,
                        int32_t node, const ir_nd_sig *sig,
                        const plan_stage *stage, int32_t in_flight)
{
    const ir_node *n = &graph->nodes.at[node];
    ir_op_class op_class = ir_op_class_of(n->op);
    int64_t bytes = 0;
    /* Views lie in what they view, updates write in place. */
    if (op_class == IR_CLASS_VIEW || op_class == IR_CLASS_UPDATE)
        return 0;
    for (int32_t o = 0; o < n->n_out; o++)
        bytes += cost_piece_bytes(&graph->tensors.at[n->out[o]], &sig->out[o],
                                  &stage->mesh) *
                 copies_held(graph, uses, n, n->out[o], in_flight);
    return bytes;
}

int32_t *cost_in_flight(const plan_strategy *strategy, fs_arena *arena)
{
    int32_t m = strategy->micro_batches, n = strategy->n_stages;
    int32_t *most = fs_new(arena, int32_t, n);
    plan_schedule_fn *fill = plan_schedule_find(strategy->schedule);
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
