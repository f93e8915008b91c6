/* What a framework holds beside what a plan has live at once. Kernels that keep
 * more for the backward pass than ours keep it as often as ours keep what they
 * make: for each micro-batch in flight. */
#include "config.h"
#include "cost/framework.h"

static double kept_of(const cost_framework *f, const ir_graph *graph,
                      const plan *p, const plan_role *role,
                      const plan_task *task)
{
    const ir_node *node = &graph->nodes.at[task->node];
    const plan_stage *stage = &p->strategy->stages[role->stages[task->chunk]];
    ir_work work;
    ir_node_flow(graph, node, &p->strategy->sig[task->node], &stage->mesh,
                 &work);
    if (node->op == IR_OP_attention && f->attention_apart)
        return f->score_kept_bytes * (double)work.product.groups *
               (double)work.product.rows * (double)work.product.columns;
    if (node->op == IR_OP_layer_norm)
        return f->extra_kept_bytes * (double)work.written_bytes /
               (double)ir_dtype_bytes(graph->tensors.at[node->out[0]].dtype);
    return 0;
}

/* How many micro-batches' worth waits for the backward pass; 0: it is made
 * again there. */
static int32_t pieces_kept(const plan_role *role, const plan_task *task)
{
    int32_t most = 0;
    for (int32_t k = 0; k < task->n_out; k++) {
        const plan_register *r = &role->registers[task->out[k]];
        for (int32_t i = 0; i < r->n_consumers; i++)
            if (role->tasks[r->consumers[i]].phase == PLAN_BACKWARD &&
                r->count > most)
                most = r->count;
    }
    return most;
}

static double role_bytes(const cost_framework *f, const ir_graph *graph,
                         const plan *p, const plan_role *role)
{
    double kept = 0, again = 0;
    for (int32_t i = 0; i < role->n_tasks; i++) {
        const plan_task *task = &role->tasks[i];
        if (task->kind != PLAN_COMPUTE || task->phase == PLAN_END)
            continue;
        const double bytes = kept_of(f, graph, p, role, task);
        if (task->phase == PLAN_FORWARD)
            kept += bytes * pieces_kept(role, task);
        else if (bytes > again)
            again = bytes;
    }
    return (double)role->bound_bytes + kept + again;
}

int64_t cost_framework_bytes(const cost_framework *framework,
                             const ir_graph *graph, const plan *p, bool process)
{
    const cost_framework *f = framework;
    double most = 0;
    for (int32_t r = 0; r < p->n_roles; r++) {
        const double bytes = role_bytes(framework, graph, p, &p->roles[r]);
        most = bytes > most ? bytes : most;
    }
    return (int64_t)(process ? most * (1 + f->fragmentation) + f->context_bytes
                             : most);
}
