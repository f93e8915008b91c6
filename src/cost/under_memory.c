/* What a framework holds: what a plan has live at once, where activations are
 * 16-bit floats throughout that many bytes of them, and what its kernels keep
 * beside. Kernels that keep
 * more for the backward pass than ours keep it as often as ours keep what they
 * make: for each micro-batch in flight. */
#include "config.h"
#include "cost/held.h"

#include "plan/fullest.h"
#include "plan/memory.h"
#include "plan/schedule.h"

#include <stdlib.h>

/* ---- registers as the framework holds them ---- */

typedef struct holding {
    const cost_framework *f;
    const ir_graph *graph;
    const plan_role *role;
    bool narrow;   /* activations of the network are 16-bit floats there */
    int32_t *held; /* [sections][sections] plan_schedule_held, 0: not known */
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

/* Micro-batches between the task's firing and that of who reads what it makes,
 * by the schedule: a register may have more buffers, where they pack better. */
static int32_t in_flight(const holding *h, const plan_task *from,
                         const plan_task *to)
{
    const plan_role *role = h->role;
    int32_t *held =
        &h->held[plan_task_section(role, from) * plan_n_sections(role) +
                 plan_task_section(role, to)];
    if (*held == 0)
        *held = plan_schedule_held(role->slots, role->n_slots,
                                   (plan_slot){from->phase, 0, from->chunk},
                                   (plan_slot){to->phase, 0, to->chunk});
    return *held;
}

/* How many micro-batches' worth waits for the backward pass; 0: it is made
 * again there. */
static int32_t pieces_kept(const holding *h, const plan_task *task)
{
    const plan_role *role = h->role;
    int32_t most = 0;
    for (int32_t k = 0; k < task->n_out; k++) {
        const plan_register *r = &role->registers[task->out[k]];
        for (int32_t i = 0; i < r->n_consumers; i++) {
            const plan_task *reader = &role->tasks[r->consumers[i]];
            const int32_t n =
                reader->phase == PLAN_BACKWARD ? in_flight(h, task, reader) : 0;
            most = n > most ? n : most;
        }
    }
    return most;
}

/* Of what persists: its own bytes, or what is kept of weights beside them. */
static double standing_bytes(const holding *h, bool beside)
{
    double bytes = 0;
    for (int32_t i = 0; i < h->role->n_registers; i++) {
        const plan_register *r = &h->role->registers[i];
        const bool weights =
            r->persistent &&
            plan_memory_kind(h->graph, h->role, r) == PLAN_BYTES_PARAM;
        if (!beside && r->persistent)
            bytes += (double)(r->count * r->bytes);
        else if (beside && weights && h->narrow)
            bytes +=
                h->f->weight_kept_bytes * (double)r->bytes /
                (double)ir_dtype_bytes(h->graph->tensors.at[r->tensor].dtype);
    }
    return bytes;
}

/* ---- parameters that only the optimizer reads ---- */

enum { WEIGHT_BYTES = 2 }; /* of a 16-bit float */

/* Local elements of a role's tensor. */
typedef struct elements {
    int32_t tensor;
    double n;
} elements;

typedef struct local {
    int32_t n;
    elements *at; /* by tensor */
} local;

static int compare_elements(const void *a, const void *b)
{
    const int32_t x = ((const elements *)a)->tensor,
                  y = ((const elements *)b)->tensor;
    return (x > y) - (x < y);
}

/* Of what persists, and of gradients that add up: a tensor has one register. */
static local local_elements(const holding *h, fs_arena *arena)
{
    local of = {0, fs_new(arena, elements, h->role->n_registers)};
    for (int32_t i = 0; i < h->role->n_registers; i++) {
        const plan_register *r = &h->role->registers[i];
        const plan_task *made =
            r->producer < 0 ? NULL : &h->role->tasks[r->producer];
        const bool adds_up =
            made && made->kind == PLAN_COMPUTE &&
            h->graph->nodes.at[made->node].op == IR_OP_accumulate;
        if (r->persistent || adds_up)
            of.at[of.n++] = (elements){
                r->tensor,
                (double)r->bytes / (double)ir_dtype_bytes(
                                       h->graph->tensors.at[r->tensor].dtype)};
    }
    qsort(of.at, (size_t)of.n, sizeof *of.at, compare_elements);
    return of;
}

/* 0: the role has none. */
static double elements_of(const local *of, int32_t tensor)
{
    const elements wanted = {tensor, 0};
    const elements *found = tensor < 0
                                ? NULL
                                : bsearch(&wanted, of->at, (size_t)of->n,
                                          sizeof *of->at, compare_elements);
    return found ? found->n : 0;
}

/* The sum over micro-batches that a gradient comes from, over what scales and
 * clips it; -1: none. */
static int32_t sum_behind(const ir_graph *graph, int32_t tensor)
{
    for (int32_t v = graph->tensors.at[tensor].producer; v >= 0;
         v = graph->tensors.at[tensor].producer) {
        const ir_node *node = &graph->nodes.at[v];
        if (node->op == IR_OP_accumulate)
            return tensor;
        if (node->phase != IR_UPDATE || node->n_in == 0)
            return -1;
        tensor = node->in[0];
    }
    return -1;
}

/* Networks of 16-bit floats have parameters in floats for the optimizer alone:
 * where its states are cut further than the plan cuts these (ZeRO-1 and 2),
 * frameworks cut both alike, and keep 16-bit weights as the plan keeps
 * parameters (Rajbhandari et al., "ZeRO", 2020, section 5: 2 and 2 bytes whole,
 * 12 cut; Megatron-LM's distributed optimizer: 6 whole, 12 cut). Those weights
 * are counted already (weight_kept_bytes, or half of a gradient in floats)
 * unless the plan cuts gradients too. */
static double masters_less(const holding *h)
{
    const ir_graph *graph = h->graph;
    fs_arena *arena = fs_arena_create();
    const local of = local_elements(h, arena);
    double less = 0;
    for (int32_t i = 0; i < h->role->n_tasks && h->narrow; i++) {
        const plan_task *task = &h->role->tasks[i];
        int32_t state = -1;
        if (task->kind != PLAN_COMPUTE)
            continue;
        const ir_node *node = &graph->nodes.at[task->node];
        if (node->phase != IR_UPDATE || node->n_in < 3 ||
            graph->tensors.at[node->in[0]].role != IR_PARAM ||
            graph->tensors.at[node->in[0]].dtype != IR_F32)
            continue;
        for (int32_t k = 1; k < node->n_in && state < 0; k++)
            if (graph->tensors.at[node->in[k]].role == IR_STATE &&
                graph->tensors.at[node->in[k]].shape.rank ==
                    graph->tensors.at[node->in[0]].shape.rank)
                state = node->in[k];
        const double whole = elements_of(&of, node->in[0]);
        const double cut = elements_of(&of, state);
        if (cut <= 0 || cut >= whole)
            continue;
        const int32_t sum = sum_behind(graph, node->in[1]);
        const double added = elements_of(&of, sum);
        const bool cuts_sum = added > 0 && added < whole;
        less += (whole - cut) * (double)ir_dtype_bytes(IR_F32);
        if (cuts_sum && h->f->weight_kept_bytes <= 0)
            less -= (whole - added) * WEIGHT_BYTES;
    }
    fs_arena_destroy(arena);
    return less;
}

/* What kernels keep from the forward pass, for each micro-batch in flight, and
 * the most that one of the backward pass makes again. */
static void count_kept(const holding *h, const plan *p, cost_held *out)
{
    const plan_role *role = h->role;
    double again[2] = {0}, kept[2] = {0};
    for (int32_t i = 0; i < role->n_tasks; i++) {
        const plan_task *task = &role->tasks[i];
        if (task->kind != PLAN_COMPUTE || task->phase == PLAN_END)
            continue;
        const double bytes = kept_of(h->f, h->graph, p, role, task);
        const int of =
            h->graph->nodes.at[task->node].op == IR_OP_attention ? 0 : 1;
        if (task->phase == PLAN_FORWARD)
            kept[of] += bytes * pieces_kept(h, task);
        else if (bytes > again[0] + again[1])
            again[of] = bytes, again[1 - of] = 0;
    }
    out->scores_bytes = kept[0] + again[0];
    out->masks_bytes = kept[1] + again[1];
}

static bool is_mixed(const ir_graph *graph)
{
    for (int32_t i = 0; i < graph->tensors.n; i++)
        if (graph->tensors.at[i].dtype == IR_F16 ||
            graph->tensors.at[i].dtype == IR_BF16)
            return true;
    return false;
}

/* Inputs of products that sequence parallel ranks gather, as the framework
 * holds them; of all micro-batches in flight. */
static double gathered_bytes(const holding *h)
{
    double bytes = 0;
    for (int32_t i = 0; i < h->role->n_registers; i++) {
        const plan_register *r = &h->role->registers[i];
        const plan_task *made =
            r->producer < 0 ? NULL : &h->role->tasks[r->producer];
        int32_t kept = 0;
        if (!made || made->kind != PLAN_BOX || made->phase != PLAN_FORWARD ||
            made->box.kind != PLAN_ALL_GATHER || r->per_step || r->persistent)
            continue;
        for (int32_t k = 0; k < r->n_consumers; k++) {
            const plan_task *reader = &h->role->tasks[r->consumers[k]];
            const int32_t n =
                reader->phase != PLAN_FORWARD ? in_flight(h, made, reader) : 0;
            kept = n > kept ? n : kept;
        }
        bytes += (double)(kept * bytes_of(h, r));
    }
    return bytes;
}

cost_held cost_framework_held(const cost_framework *framework,
                              const ir_graph *graph, const plan *p,
                              int32_t role)
{
    const cost_framework *f = framework;
    fs_arena *arena = fs_arena_create();
    const int64_t n = plan_n_sections(&p->roles[role]);
    const holding h = {f, graph, &p->roles[role], f->narrow && is_mixed(graph),
                       fs_new(arena, int32_t, n * n)};
    const double persists = standing_bytes(&h, false);
    const double live = (double)(h.role->bound_bytes - less_bytes(&h, p, role));
    cost_held out = {.moving_bytes = live - persists,
                     .standing_bytes =
                         persists + standing_bytes(&h, true) - masters_less(&h),
                     .gathered_bytes = gathered_bytes(&h)};
    count_kept(&h, p, &out);
    const double all = out.standing_bytes + out.moving_bytes +
                       out.scores_bytes + out.masks_bytes;
    out.allocated_bytes = (int64_t)all;
    out.process_bytes =
        (int64_t)(all * (1 + f->fragmentation) + f->context_bytes);
    fs_arena_destroy(arena);
    return out;
}

cost_held cost_framework_most(const cost_framework *framework,
                              const ir_graph *graph, const plan *p)
{
    cost_held most = {0};
    for (int32_t r = 0; r < p->n_roles; r++) {
        const cost_held held = cost_framework_held(framework, graph, p, r);
        if (held.allocated_bytes >= most.allocated_bytes)
            most = held;
    }
    return most;
}
