/* A plan's timing as a framework would run it. Kernels are those of the plan
 * but where the framework has others: attention in parts, updates all at once,
 * dropouts. What the host takes to start a pass's kernels is the least that the
 * pass takes: it runs ahead of the device, but not beyond what it waits for. */
#include "config.h"
#include "cost/framework.h"
#include "cost/joined.h"
#include "cost/normed.h"
#include "cost/parts.h"
#include "cost/reduced.h"
#include "cost/repeated.h"
#include "ir/recompute.h"
#include "plan/in_turn.h"

#include <math.h>
#include <string.h>

typedef struct under {
    const cost_framework *framework;
    const cost_model *model;
    const ir_graph *graph;
    const plan *plan;
    const plan_role *role;
    const plan_stage *stage;
    const hw_device *device;
    plan_demand *demand; /* [tasks] */
    double *kernels;     /* [tasks] that each is, where it is one */
    int32_t n_variables;
    const int32_t *variables; /* tensors */
    bool mixed;               /* the network has 16-bit floats */
    const bool *normed;       /* [tensors]: a batch norm reads it */
} under;

static double moving_s(const under *u, double bytes)
{
    return bytes / (u->device->memory_bps * u->device->memory_efficiency);
}

static ir_work work_of(const under *u, const plan_task *task)
{
    ir_work work;
    ir_node_flow(u->graph, &u->graph->nodes.at[task->node],
                 &u->plan->strategy->sig[task->node], &u->stage->mesh, &work);
    return work;
}

/* Scores and what they weigh; backward two more of each. */
static double products_s(const under *u, const ir_work *work, bool backward)
{
    const ir_product *p = &work->product,
                     weighed = {p->groups, p->rows, p->depth, p->columns,
                                p->inner};
    return (backward ? 2 : 1) * (cost_product_at(u->device, work, p) +
                                 cost_product_at(u->device, work, &weighed));
}

/* Kernels of attention apart, and bytes that they move per score. */
static int32_t attention_kernels(const under *u, const ir_product *p,
                                 bool backward, double *score_bytes)
{
    const cost_framework *f = u->framework;
    const bool fused = !f->fused_multiple || p->groups % f->fused_multiple == 0;
    *score_bytes =
        fused ? f->score_bytes[backward] : f->unfused_bytes[backward];
    return fused ? f->attention_kernels[backward]
                 : f->unfused_kernels[backward];
}

/* Rows of a tile of fused attention's scores. */
#define DIAGONAL_TILE 128.0

/* Of one kernel; that of floats does without tensor cores. */
static double attention_rate(const under *u, const ir_work *work, bool backward)
{
    const hw_device *d = u->device;
    const bool floats = work->narrow == IR_F32 && d->fp32_flops > 0;
    const double rate =
        floats ? d->fp32_flops * (d->fp32_efficiency > 0 ? d->fp32_efficiency
                                                         : d->matmul_efficiency)
               : cost_product_rate(d, work);
    return rate * u->framework->attention_efficiency[backward];
}

static void time_attention(const under *u, const plan_task *task, bool backward,
                           plan_demand *out)
{
    const cost_framework *f = u->framework;
    const ir_work work = work_of(u, task);
    const ir_product *p = &work.product;
    if (!f->attention_apart) {
        /* of the pairs a causal mask leaves half, and of tiles on the diagonal
         * the other half is done too */
        const double pairs = u->graph->nodes.at[task->node].i[0] == 1
                                 ? (1 + DIAGONAL_TILE / (double)p->rows) / 2
                                 : 1;
        out->compute_s = 2 * (double)work.macs * pairs *
                         (1 + f->score_depth / (double)p->depth) /
                         attention_rate(u, &work, backward);
        out->total_s = out->launch_s + fmax(out->compute_s, out->memory_s);
        return;
    }
    const double scores =
        (double)p->groups * (double)p->rows * (double)p->columns;
    double score_bytes;
    const int32_t kernels = attention_kernels(u, p, backward, &score_bytes);
    out->launch_s = kernels * u->device->launch_s;
    out->compute_s = products_s(u, &work, backward);
    out->memory_s = moving_s(u, scores * score_bytes);
    out->total_s = out->launch_s + out->compute_s + out->memory_s;
}

/* Bytes of what the update writes anew: a parameter's. */
static double parameter_count(const under *u, const plan_task *task)
{
    const ir_work work = work_of(u, task);
    const ir_node *node = &u->graph->nodes.at[task->node];
    int64_t bytes = 0;
    for (int32_t k = 0; k < node->n_out; k++)
        bytes += ir_dtype_bytes(u->graph->tensors.at[node->out[k]].dtype);
    return bytes ? (double)work.written_bytes / (double)bytes : 0;
}

static void time_update(const under *u, const plan_task *task, plan_demand *out)
{
    const ir_op_class kind = ir_op_class_of(u->graph->nodes.at[task->node].op);
    if (u->framework->update_bytes <= 0)
        return;
    *out = (plan_demand){.on_core = out->on_core};
    if (kind != IR_CLASS_UPDATE)
        return;
    out->memory_s =
        moving_s(u, parameter_count(u, task) * u->framework->update_bytes);
    out->total_s = out->memory_s;
}

/* Norms begin what a block does: two a block, in each pass. */
static double extra_s(const under *u, const ir_node *node, const ir_work *work)
{
    const bool forward = node->op == IR_OP_layer_norm;
    if (!forward && node->op != IR_OP_layer_norm_grad)
        return 0;
    const int64_t each =
        ir_dtype_bytes(u->graph->tensors.at[node->out[0]].dtype);
    const double elements = (double)work->written_bytes / (double)each;
    return moving_s(u, elements * u->framework->extra_bytes[!forward]);
}

/* What has the shape of a variable is taken for weights or their gradients. */
static bool has_shape_of_weights(const under *u, int32_t tensor)
{
    const ir_shape *shape = &u->graph->tensors.at[tensor].shape;
    for (int32_t i = 0; i < u->n_variables; i++) {
        const ir_shape *other = &u->graph->tensors.at[u->variables[i]].shape;
        if (other->rank == shape->rank &&
            memcmp(other->dim, shape->dim,
                   (size_t)shape->rank * sizeof *shape->dim) == 0)
            return true;
    }
    return false;
}

/* Element-wise ops and reductions on activations of half as many bytes. */
static void time_narrow(const under *u, const ir_node *node,
                        const ir_work *work, plan_demand *out)
{
    const ir_op_class kind = ir_op_class_of(node->op);
    const bool pointwise = kind == IR_CLASS_POINTWISE;
    if ((pointwise && has_shape_of_weights(u, node->out[0])) ||
        node->op == IR_OP_cast) {
        *out = (plan_demand){.on_core = out->on_core};
        return;
    }
    if ((!pointwise && kind != IR_CLASS_REDUCE) ||
        u->graph->tensors.at[node->out[0]].dtype != IR_F32 ||
        u->graph->tensors.at[node->in[0]].shape.rank < 2)
        return;
    (void)work;
    out->memory_s /= 2;
    out->total_s = out->launch_s + fmax(out->memory_s, out->compute_s);
}

/* On tensor cores: 16-bit floats, or floats as tf32. */
static bool on_tensor_cores(const under *u)
{
    return u->mixed || u->device->uses_tf32;
}

static void time_normed(const under *u, const ir_node *node,
                        const ir_work *work, plan_demand *out)
{
    const double times =
        cost_normed_share(u->framework, u->graph, u->normed, node, u->mixed);
    if (times <= 0) {
        *out = (plan_demand){.on_core = out->on_core};
        return;
    }
    const bool tensor_cores = on_tensor_cores(u);
    const double fewer = tensor_cores ? 1 : cost_minimal_times(u->graph, node);
    if (times != 1 || fewer != 1) {
        out->memory_s *= times;
        out->compute_s /= fewer;
        out->total_s = out->launch_s + fmax(out->memory_s, out->compute_s);
    }
    if (!u->framework->turns_images || !tensor_cores)
        return;
    const double turned_s =
        moving_s(u, cost_turned_bytes(u->graph, node, work));
    out->memory_s += turned_s;
    out->total_s += turned_s;
}

/* Where products take strided views, few of the copies are left. */
static void time_transpose(const under *u, const plan_task *task,
                           plan_demand *out)
{
    const double share = u->framework->transposes[task->phase != PLAN_FORWARD];
    out->launch_s *= share;
    out->memory_s *= share;
    out->total_s *= share;
    u->kernels[task - u->role->tasks] = share;
}

/* Kernels along rows that keep a row in registers: as quick as others. */
static void time_rows(const under *u, const ir_node *node, plan_demand *out)
{
    if (!u->framework->streams_rows ||
        ir_op_class_of(node->op) != IR_CLASS_REDUCE)
        return;
    out->memory_s *=
        hw_device_bps(u->device, true) / hw_device_bps(u->device, false);
    out->total_s = out->launch_s + fmax(out->memory_s, out->compute_s);
}

/* A sum over one micro-batch is its gradient. */
static bool has_one_gradient(const under *u, const ir_node *node)
{
    return u->framework->takes_first_gradient &&
           u->plan->strategy->micro_batches == 1 &&
           node->op == IR_OP_accumulate;
}

static void time_compute(const under *u, const plan_task *task,
                         plan_demand *out)
{
    const ir_node *node = &u->graph->nodes.at[task->node];
    const ir_work work = work_of(u, task);
    double more = 0;
    if (task->phase == PLAN_END) {
        time_update(u, task, out);
        return;
    }
    if (node->op == IR_OP_attention || node->op == IR_OP_attention_grad) {
        time_attention(u, task, node->op == IR_OP_attention_grad, out);
        return;
    }
    if (node->op == IR_OP_transpose)
        time_transpose(u, task, out);
    else if (has_one_gradient(u, node))
        *out = (plan_demand){.on_core = out->on_core};
    time_rows(u, node, out);
    if (u->framework->narrow && u->mixed)
        time_narrow(u, node, &work, out);
    time_normed(u, node, &work, out);
    if (node->op == IR_OP_weight_grad)
        more = moving_s(u, u->framework->accumulate_bytes *
                               (double)work.product.rows *
                               (double)work.product.columns);
    if (node->op == IR_OP_sum_exp) /* reads the logits */
        more = moving_s(u, u->framework->loss_bytes * (double)work.read_bytes /
                               (double)ir_dtype_bytes(
                                   u->graph->tensors.at[node->in[0]].dtype));
    more += extra_s(u, node, &work);
    out->memory_s += more;
    out->total_s += more;
}

/* A gradient takes as long as its elements are wide on the way. */
static double wide_on_the_way(const under *u, const plan_task *task)
{
    const ir_tensor *x = &u->graph->tensors.at[task->tensor];
    const bool reduces = task->box.kind == PLAN_ALL_REDUCE ||
                         task->box.kind == PLAN_REDUCE_SCATTER;
    return reduces && u->mixed && u->framework->gradient_bytes > 0
               ? u->framework->gradient_bytes / (double)ir_dtype_bytes(x->dtype)
               : 1;
}

/* Activations, and their gradients, that travel in 16 bits though the plan has
 * floats. */
static void time_travel(const under *u, const plan_task *task, plan_demand *out)
{
    if (!u->framework->narrow || !u->mixed ||
        (task->phase != PLAN_FORWARD && task->phase != PLAN_BACKWARD) ||
        u->graph->tensors.at[task->tensor].dtype != IR_F32 ||
        has_shape_of_weights(u, task->tensor))
        return;
    out->total_s -= out->network_s / 2;
    out->network_s /= 2;
}

/* Gradients that are reduced one after the other share a bucket's latency. */
static void time_bucket(const under *u, const plan_task *task, plan_demand *out)
{
    if (!has_shape_of_weights(u, task->tensor))
        return;
    const double bytes =
        fmax((double)task->box.bytes_in, (double)task->box.bytes_out);
    const double wide = wide_on_the_way(u, task);
    /* an all-reduce takes in what a reduce-scatter and an all-gather do */
    const double taken = task->box.kind == PLAN_ALL_REDUCE ? 2 : 1;
    const double least_s = u->framework->gather_bps > 0
                               ? taken * wide * bytes / u->framework->gather_bps
                               : 0;
    const double network_s = fmax(out->network_s * wide, least_s);
    out->total_s += network_s - out->network_s;
    out->network_s = network_s;
    if (u->framework->bucket_bytes <= 0)
        return;
    const double share = fmin(1, bytes / u->framework->bucket_bytes);
    out->total_s -= (out->latency_s + out->launch_s) * (1 - share);
    out->latency_s *= share;
    out->launch_s *= share;
}

static double kernels_of(const under *u, const plan_task *task)
{
    const ptrdiff_t at = task - u->role->tasks;
    if (task->kind == PLAN_BOX)
        return task->comm >= 0;
    if (task->kind != PLAN_COMPUTE)
        return 0;
    const ir_op_kind op = u->graph->nodes.at[task->node].op;
    if (u->demand[at].total_s <= 0)
        return 0;
    if (!u->framework->attention_apart ||
        (op != IR_OP_attention && op != IR_OP_attention_grad))
        return u->kernels[at];
    const ir_work work = work_of(u, task);
    double score_bytes;
    return attention_kernels(u, &work.product, op == IR_OP_attention_grad,
                             &score_bytes);
}

/* Of kernels profiled one at a time: none begins before the last has ended for
 * so long. */
static void keep_apart(const under *u)
{
    for (int32_t i = 0; i < u->role->n_tasks; i++) {
        const plan_task *task = &u->role->tasks[i];
        plan_demand *d = &u->demand[i];
        const double kernels = kernels_of(u, task);
        if (task->kind != PLAN_COMPUTE || !(kernels > 0) ||
            task->phase == PLAN_BEGIN || task->phase == PLAN_END)
            continue;
        d->launch_s += kernels * u->framework->gap_s;
        d->total_s += kernels * u->framework->gap_s;
    }
}

/* Per phase: no less than the host takes, which runs on while devices exchange;
 * not where kernels were profiled by themselves. */
static void bound_by_host(const under *u)
{
    const bool apart = u->framework->gap_s > 0;
    double host[PLAN_PHASES] = {0}, device[PLAN_PHASES] = {0};
    for (int32_t i = 0; i < u->role->n_tasks; i++) {
        const plan_task *task = &u->role->tasks[i];
        if (task->kind == PLAN_BOX && apart)
            continue;
        host[task->phase] += u->framework->host_s * kernels_of(u, task);
        if (task->kind == PLAN_COMPUTE || task->kind == PLAN_BOX)
            device[task->phase] += u->demand[i].total_s;
    }
    for (int32_t i = 0; i < u->role->n_tasks; i++) {
        const plan_task *task = &u->role->tasks[i];
        const plan_phase phase = task->phase;
        if (task->kind != PLAN_COMPUTE || phase == PLAN_END ||
            phase == PLAN_BEGIN || !(host[phase] > device[phase]))
            continue;
        /* what is missing, by kernels */
        const double more = (host[phase] - device[phase]) *
                            u->framework->host_s * kernels_of(u, task) /
                            host[phase];
        u->demand[i].launch_s += more;
        u->demand[i].total_s += more;
    }
}

/* Who meets others waits for the slowest; and a pace that was measured. */
static void wait_for_slowest(const under *u)
{
    const double pace = u->framework->pace > 0 ? u->framework->pace : 1;
    const double times =
        pace * (1 + u->framework->jitter * hw_slowest_of(u->role->n_ranks));
    for (int32_t i = 0; i < u->role->n_tasks; i++) {
        plan_demand *d = &u->demand[i];
        if (u->role->tasks[i].kind != PLAN_COMPUTE)
            continue;
        d->launch_s += d->total_s * (times - 1);
        d->total_s *= times;
    }
}

static bool waits_to_send(const cost_framework *framework, const plan *p)
{
    for (int32_t k = 0; k < framework->n_waits; k++)
        if (strcmp(framework->waits_to_send[k], p->strategy->schedule) == 0)
            return true;
    return false;
}

const plan *cost_framework_plan(const cost_framework *framework, const plan *p,
                                fs_arena *arena)
{
    return waits_to_send(framework, p) ? plan_sends_in_turn(p, arena) : p;
}

/* The host waited too, and begins anew. */
static void add_exchange(const under *u, const plan_task *task,
                         plan_demand *out)
{
    if (task->kind != PLAN_SEND || task->phase == PLAN_BEGIN ||
        task->phase == PLAN_END || !waits_to_send(u->framework, u->plan))
        return;
    out->launch_s += u->framework->exchange_s;
    out->total_s += u->framework->exchange_s;
}

/* Between steps the host has work of its own: before the first update. */
static void add_step(const under *u)
{
    for (int32_t i = 0; i < u->role->n_tasks; i++)
        if (u->role->tasks[i].phase == PLAN_END &&
            u->role->tasks[i].kind == PLAN_COMPUTE) {
            u->demand[i].launch_s += u->framework->step_s;
            u->demand[i].total_s += u->framework->step_s;
            return;
        }
}

/* Parameters; one of each shape is enough. */
static const int32_t *list_variables(const ir_graph *graph, fs_arena *arena,
                                     int32_t *n)
{
    FS_VEC(int32_t) list = {0};
    for (int32_t i = 0; i < graph->tensors.n; i++) {
        const ir_tensor *x = &graph->tensors.at[i];
        bool known = x->role != IR_PARAM;
        for (int32_t k = 0; k < list.n && !known; k++) {
            const ir_shape *other = &graph->tensors.at[list.at[k]].shape;
            known = other->rank == x->shape.rank &&
                    memcmp(other->dim, x->shape.dim,
                           (size_t)other->rank * sizeof *other->dim) == 0;
        }
        if (!known)
            fs_push(arena, &list, i);
    }
    *n = list.n;
    return list.at;
}

/* Of the gradients that collectives reduce, as they are on the way: [tasks]. */
static const double *gradients_reduced(const under *u, fs_arena *arena)
{
    double *bytes = fs_new(arena, double, u->role->n_tasks);
    for (int32_t i = 0; i < u->role->n_tasks; i++) {
        const plan_task *task = &u->role->tasks[i];
        if (task->kind == PLAN_BOX && task->comm >= 0 &&
            (task->box.kind == PLAN_ALL_REDUCE ||
             task->box.kind == PLAN_REDUCE_SCATTER) &&
            has_shape_of_weights(u, task->tensor))
            bytes[i] =
                wide_on_the_way(u, task) *
                fmax((double)task->box.bytes_in, (double)task->box.bytes_out);
    }
    return bytes;
}

static bool has_narrow(const ir_graph *graph)
{
    for (int32_t i = 0; i < graph->tensors.n; i++)
        if (graph->tensors.at[i].dtype == IR_F16 ||
            graph->tensors.at[i].dtype == IR_BF16)
            return true;
    return false;
}

plan_timing *cost_timing_under(const cost_framework *framework,
                               const cost_model *model, const ir_graph *graph,
                               const plan *p, fs_arena *arena)
{
    model = cost_model_with(model, framework->collectives, arena);
    plan_timing *timing = cost_timing(model, graph, p, arena);
    int32_t n_variables;
    const int32_t *variables = list_variables(graph, arena, &n_variables);
    const bool mixed = has_narrow(graph);
    const bool *normed = cost_normed_inputs(graph, arena);
    cost_repeats *repeats =
        framework->repeats_blocks ? cost_repeats_create(graph, arena) : NULL;
    cost_joiner *joiner =
        framework->joins_products ? cost_joiner_create(graph, p, arena) : NULL;
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        under u = {.framework = framework,
                   .model = model,
                   .graph = graph,
                   .plan = p,
                   .role = role,
                   .stage = &p->strategy->stages[role->stages[0]],
                   .demand = timing->demand[r],
                   .kernels = fs_new(arena, double, role->n_tasks),
                   .n_variables = n_variables,
                   .variables = variables,
                   .mixed = mixed,
                   .normed = normed};
        const int32_t g = cost_groups_of(model, u.stage).first;
        u.device = &cost_cluster(model)->groups[g].device;
        for (int32_t i = 0; i < role->n_tasks; i++)
            u.kernels[i] = 1;
        if (joiner)
            cost_join_products(joiner, u.device, role, u.demand, u.kernels);
        for (int32_t i = 0; i < role->n_tasks; i++) {
            const plan_task *task = &role->tasks[i];
            if (task->kind == PLAN_COMPUTE)
                time_compute(&u, task, &u.demand[i]);
            if (task->comm >= 0 || task->channel >= 0)
                time_travel(&u, task, &u.demand[i]);
            add_exchange(&u, task, &u.demand[i]);
            if (task->kind == PLAN_BOX && task->comm >= 0)
                time_bucket(&u, task, &u.demand[i]);
        }
        keep_apart(&u);
        bound_by_host(&u);
        wait_for_slowest(&u);
        if (repeats)
            cost_repeat_blocks(repeats, role, u.demand);
        cost_reduce_meanwhile(framework, graph, role,
                              gradients_reduced(&u, arena),
                              p->micro_batches == 1, u.demand);
        add_step(&u);
    }
    return timing;
}
