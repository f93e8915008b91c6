#include "config.h"

#include "plan/lower.h"

bool plan_same_mesh(const ir_mesh *a, const ir_mesh *b)
{
    bool same = a->n == b->n;

    for (int32_t k = 0; same && k < a->n; k++)
        same = a->dim[k] == b->dim[k];
    return same;
}

bool plan_same_place(const plan_stage *a, const plan_stage *b)
{
    return a->first_device == b->first_device &&
           plan_same_mesh(&a->mesh, &b->mesh);
}

static int32_t node_edges(const ir_node *node)
{
    return node->op == IR_OP_variable ? 1 : node->n_in;
}

plan_strategy *plan_strategy_new(const ir_graph *graph, int32_t n_stages,
                                 fs_arena *arena)
{
    plan_strategy *s = fs_new(arena, plan_strategy, 1);
    int32_t n = graph->nodes.n;

    FS_ASSERT(n_stages >= 1);
    s->n_nodes = n;
    s->n_stages = n_stages;
    s->micro_batches = graph->micro_batches;
    s->batch = graph->batch;
    s->schedule = "1f1b";
    s->stages = fs_new(arena, plan_stage, n_stages);
    s->stage_of = fs_new(arena, int32_t, n);
    s->sig = fs_new(arena, ir_nd_sig, n);
    s->first_edge = fs_new(arena, int32_t, n + 1);
    for (int32_t v = 0; v < n; v++)
        s->first_edge[v + 1] =
            s->first_edge[v] + node_edges(&graph->nodes.at[v]);
    s->n_edges = s->first_edge[n];
    s->edge = fs_new(arena, plan_boxing, s->n_edges);
    return s;
}

int32_t plan_edge_tensor(const ir_graph *graph, const plan_strategy *strategy,
                         int32_t v, int32_t slot)
{
    const ir_node *node = &graph->nodes.at[v];

    FS_ASSERT(slot >= 0 &&
              slot < strategy->first_edge[v + 1] - strategy->first_edge[v]);
    if (node->op == IR_OP_variable)
        return graph->tensors.at[node->out[0]].next;
    return node->in[slot];
}

bool plan_tensor_per_step(const ir_graph *graph, int32_t tensor)
{
    for (;;) {
        const ir_node *node =
            &graph->nodes.at[graph->tensors.at[tensor].producer];
        if (node->op == IR_OP_variable || node->op == IR_OP_constant ||
            node->op == IR_OP_accumulate || node->phase == IR_UPDATE)
            return true;
        if (ir_op_class_of(node->op) != IR_CLASS_VIEW || node->n_in == 0)
            return false;
        tensor = node->in[0]; /* a view changes when what it views does */
    }
}

bool plan_edge_per_step(const ir_graph *graph, const plan_strategy *strategy,
                        int32_t v, int32_t slot)
{
    const ir_node *node = &graph->nodes.at[v];
    const int32_t tensor = plan_edge_tensor(graph, strategy, v, slot);
    const int32_t sharing =
        strategy->edge[strategy->first_edge[v] + slot].sharing;
    const plan_phase phase =
        node->op == IR_OP_variable ? PLAN_END : plan_lower_phase(graph, node);

    return plan_tensor_per_step(graph, tensor) &&
           !(sharing && (phase == PLAN_FORWARD || phase == PLAN_BACKWARD));
}
