/* What a framework holds: what a plan has live at once, where activations are
 * 16-bit floats throughout that many bytes of them, and what its kernels keep
 * beside. Kernels that keep
 * more for the backward pass than ours keep it as often as ours keep what they
 * make: for each micro-batch in flight. */
#include "config.h"
#include "cost/framework.h"

#include "plan/fullest.h"
#include "plan/memory.h"

/* ---- registers as the framework holds them ---- */

typedef struct holding {
    const cost_framework *f;
    const ir_graph *graph;
    const plan_role *role;
    bool narrow; /* activations of the network are 16-bit floats there */
} holding;

static bool is_loss(const holding *h, int32_t task)
{
    const plan_task *t = &h->role->tasks[task];
    if (t->kind != PLAN_COMPUTE)
        return false;
    const ir_op_kind op = h->graph->nodes.at[t->node].op;
    return op == IR_OP_cross_entropy || op == IR_OP_cross_entropy_grad ||
           op == IR_OP_cross_entropy_rows || op == IR_OP_sum_exp ||
           op == IR_OP_cross_entropy_rows_grad;
}

/* Logits in floats, and their gradient. */
static bool is_of_loss(const holding *h, const plan_register *r)
{
    bool is = is_loss(h, r->producer);
    for (int32_t i = 0; i < r->n_consumers; i++)
        is |= is_loss(h, r->consumers[i]);
    return is;
}

/* What attention made, as a view of other strides. */
static bool is_view(const holding *h, const plan_register *r)
{
    const plan_task *made = &h->role->tasks[r->producer];
    if (h->f->transposes[0] > 0 || h->f->attention_apart ||
        made->kind != PLAN_COMPUTE || made->phase != PLAN_FORWARD ||
        h->graph->nodes.at[made->node].op != IR_OP_transpose)
        return false;
    const plan_register *in = &h->role->registers[made->in[0]];
    if (in->producer < 0 || h->role->tasks[in->producer].kind != PLAN_COMPUTE)
        return false;
    return h->graph->nodes.at[h->role->tasks[in->producer].node].op ==
           IR_OP_attention;
}

static int64_t bytes_of(const holding *h, const plan_register *r)
{
    if (r->persistent || r->producer < 0 ||
        plan_memory_kind(h->graph, h->role, r) != PLAN_BYTES_ACTIVATION)
        return r->bytes;
    if (is_view(h, r))
        return 0;
    if (!h->narrow || h->graph->tensors.at[r->tensor].dtype != IR_F32 ||
        (h->f->wide_loss && is_of_loss(h, r)))
        return r->bytes;
    return r->bytes / 2;
}

/* By how much less a role holds than the plan's registers do. */
static int64_t less_bytes(const holding *h, const plan *p, int32_t role)
{
    fs_arena *arena = fs_arena_create();
    const plan_role *r = &p->roles[role];
    plan_role narrower = *r;
    plan as_held = *p;
    int64_t less = 0;
    narrower.registers = fs_memdup(
        arena, r->registers, (size_t)r->n_registers * sizeof *r->registers);
    for (int32_t i = 0; i < r->n_registers; i++) {
        const int64_t bytes = bytes_of(h, &r->registers[i]);
        if (r->registers[i].own_memory)
            less += r->registers[i].count * (r->registers[i].bytes - bytes);
        narrower.registers[i].bytes = bytes;
    }
    as_held.n_roles = 1;
    as_held.roles = &narrower;
    less += plan_lives_most(p, role) - plan_lives_most(&as_held, 0);
    fs_arena_destroy(arena);
    return less;
}

/* ---- what kernels keep beside ---- */

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

static double weights_kept(const holding *h)
{
    double bytes = 0;
    for (int32_t i = 0; i < h->role->n_registers && h->narrow; i++) {
        const plan_register *r = &h->role->registers[i];
        if (r->persistent &&
            plan_memory_kind(h->graph, h->role, r) == PLAN_BYTES_PARAM)
            bytes +=
                h->f->weight_kept_bytes * (double)r->bytes /
                (double)ir_dtype_bytes(h->graph->tensors.at[r->tensor].dtype);
    }
    return bytes;
}

static double role_bytes(const holding *h, const plan *p, int32_t at)
{
    const cost_framework *f = h->f;
    const ir_graph *graph = h->graph;
    const plan_role *role = h->role;
    double kept = weights_kept(h), again = 0;
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
    return (double)(role->bound_bytes - less_bytes(h, p, at)) + kept + again;
}

static bool is_mixed(const ir_graph *graph)
{
    for (int32_t i = 0; i < graph->tensors.n; i++)
        if (graph->tensors.at[i].dtype == IR_F16 ||
            graph->tensors.at[i].dtype == IR_BF16)
            return true;
    return false;
}

int64_t cost_framework_bytes(const cost_framework *framework,
                             const ir_graph *graph, const plan *p, bool process)
{
    const cost_framework *f = framework;
    const bool narrow = f->narrow && is_mixed(graph);
    double most = 0;
    for (int32_t r = 0; r < p->n_roles; r++) {
        const holding h = {f, graph, &p->roles[r], narrow};
        const double bytes = role_bytes(&h, p, r);
        most = bytes > most ? bytes : most;
    }
    return (int64_t)(process ? most * (1 + f->fragmentation) + f->context_bytes
                             : most);
}
