/* What is predicted of a row: its plan is made by hand, lowered, simulated. */
#include "config.h"
#include "cli/validate.h"

#include "base/clock.h"
#include "cli/make_plan.h"
#include "cli/simulate.h"

#include <math.h>
#include <string.h>

/* Room for any plan: whether it fits is an answer here, no condition. */
static const double any_bytes = 0x1p50;

/* Whether the source says what its software reaches of that device. */
static bool is_of_source(const validate_case *t, const hw_device *device)
{
    return t->source && t->source->device &&
           strcmp(t->source->device, device->name) == 0;
}

static fs_status open_cluster(cli *c, const validate_case *t, hw_cluster **out,
                              int64_t *limit)
{
    FS_TRY(hw_cluster_open(t->cluster, c->data_dir, c->arena, &c->err, out));
    hw_cluster *cluster = *out;
    hw_device *device = &cluster->groups[0].device;
    if (t->outer_bps > 0) { /* as much of the wire as of the usual one */
        const double usable =
            t->outer_efficiency > 0 ? t->outer_efficiency : 0.9;
        cluster->outer.bandwidth_bps = usable * t->outer_bps;
        cluster->nics_per_node = t->nics;
    }
    device->uses_tf32 = t->tf32 && device->tf32_flops > 0;
    if (is_of_source(t, device))
        device->matmul_efficiency = t->source->matmul_efficiency;
    *limit = (int64_t)device->memory_bytes;
    device->memory_bytes = any_bytes;
    hw_cluster_finish(cluster);
    return FS_OK;
}

typedef struct asked {
    const validate_case *t;
    double pace;
    validate_prediction *out;
} asked;

/* The images of a node's devices, decoded on its host while the step before
 * lasts. */
static double host_s(const validate_case *t, const hw_cluster *cluster)
{
    const double nodes = cluster->groups[0].nodes;
    const bool images = t->framework && strcmp(t->row->arch, "cnn") == 0;
    return images && t->host_cores > 0
               ? t->framework->host_image_s * (double)t->batch / nodes /
                     t->host_cores
               : 0;
}

static validate_part part_of(const ir_graph *graph, const plan_task *task)
{
    const bool per_step = task->phase == PLAN_BEGIN || task->phase == PLAN_END;
    if (task->kind == PLAN_SEND || task->kind == PLAN_RECV)
        return VALIDATE_MOVES;
    if (task->kind == PLAN_BOX && task->comm >= 0)
        return per_step ? VALIDATE_PER_STEP : VALIDATE_COLLECTIVES;
    if (per_step)
        return VALIDATE_UPDATES;
    if (task->kind != PLAN_COMPUTE)
        return VALIDATE_REST;
    const ir_op_kind op = graph->nodes.at[task->node].op;
    return op == IR_OP_attention || op == IR_OP_attention_grad
               ? VALIDATE_ATTENTION
           : ir_op_is_dense(op) ? VALIDATE_PRODUCTS
                                : VALIDATE_REST;
}

/* Of the role with most. */
static void sum_parts(const cli_plan *p, const plan_timing *timing,
                      double part_s[VALIDATE_PARTS])
{
    double most = 0;
    for (int32_t r = 0; r < p->plan->n_roles; r++) {
        const plan_role *role = &p->plan->roles[r];
        double part[VALIDATE_PARTS] = {0}, sum = 0;
        for (int32_t i = 0; i < role->n_tasks; i++) {
            const plan_phase phase = role->tasks[i].phase;
            const bool once = phase == PLAN_BEGIN || phase == PLAN_END;
            const double times = once ? 1 : p->plan->micro_batches;
            const plan_demand *d = &timing->demand[r][i];
            /* what a pass waits for as it sends is no kernel's */
            const double moved_s =
                role->tasks[i].kind == PLAN_COMPUTE ? d->network_s : 0;
            part[VALIDATE_MOVES] += times * moved_s;
            part[part_of(p->model.graph, &role->tasks[i])] +=
                times * (d->total_s - moved_s);
            sum += times * d->total_s;
        }
        if (sum <= most)
            continue;
        most = sum;
        memcpy(part_s, part, sizeof part);
    }
}

/* The row's framework, as its source has it on that device, at that pace. */
static const cost_framework *framework_of(cli *c, const asked *a,
                                          const hw_device *device)
{
    const validate_case *t = a->t;
    if (!t->framework)
        return NULL;
    cost_framework *own =
        fs_memdup(c->arena, t->framework, sizeof *t->framework);
    own->pace = a->pace;
    if (is_of_source(t, device) && t->source->attention_efficiency > 0)
        own->attention_efficiency[0] = own->attention_efficiency[1] =
            t->source->attention_efficiency;
    return own;
}

/* What a name or a paper rounds away. */
#define ROUNDED_PARAMETERS 0.1

/* Not of the same network: tables of words are counted by some once, by some
 * twice, by some not at all. */
static fs_status check_parameters(cli *c, const validate_case *t,
                                  const ir_graph *graph)
{
    const validate_figure told = t->row->params_b;
    double n = 0;
    for (int32_t i = 0; i < graph->tensors.n; i++)
        if (graph->tensors.at[i].role == IR_PARAM)
            n += (double)ir_shape_count(&graph->tensors.at[i].shape);
    const double least = (1 - ROUNDED_PARAMETERS) * (n - 2 * t->table),
                 most = (1 + ROUNDED_PARAMETERS) * (n + t->table);
    if (isnan(told.at) || (1e9 * (told.at + told.digit) >= least &&
                           1e9 * (told.at - told.digit) <= most))
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "contradictory sizes: params_b %g, but its sizes make %.4g "
                   "billion parameters",
                   told.at, 1e-9 * n);
}

/* Bytes are those that are live at once: where they lie is the framework's. */
static fs_status use(cli *c, const cli_plan *made, double formula_s, void *ctx)
{
    asked *a = ctx;
    cli_plan own = *made;
    const cli_plan *p = &own;
    FS_TRY(cli_take_collectives(c, &own));
    FS_TRY(check_parameters(c, a->t, p->model.graph));
    validate_prediction *out = a->out;
    const cost_framework *f = framework_of(c, a, &p->cluster->groups[0].device);
    sim_result sim;
    if (f)
        own.plan = cost_framework_plan(f, own.plan, c->arena);
    plan_timing *timing =
        f ? cost_timing_under(f, p->cost, p->model.graph, p->plan, c->arena)
          : cost_timing(p->cost, p->model.graph, p->plan, c->arena);
    sim_options options = {.steps = CLI_SIM_STEPS, .straggler = 1.0};
    FS_TRY(sim_run(p->model.graph, p->plan, p->cluster, timing, &options,
                   c->arena, &c->err, &sim));
    out->host_s = host_s(a->t, p->cluster);
    out->iteration_s = fmax(sim.iteration_s, out->host_s);
    sum_parts(p, timing, out->part_s);
    out->formula_s = formula_s;
    for (int32_t r = 0; r < p->plan->n_roles; r++)
        if (p->plan->roles[r].bound_bytes > out->bytes)
            out->bytes = p->plan->roles[r].bound_bytes;
    out->process_bytes = out->bytes;
    if (f) {
        const cost_held most = cost_framework_most(f, p->model.graph, p->plan);
        out->bytes = most.allocated_bytes;
        out->process_bytes = most.process_bytes;
    }
    return FS_OK;
}

static fs_status predict(cli *c, const validate_case *t, double pace,
                         validate_prediction *out)
{
    hw_cluster *cluster;
    plan_origin origin = cli_origin(c, t->model, t->cluster);
    origin.batch = t->batch;
    origin.precision = t->precision;
    origin.recompute = t->recompute;
    origin.optimizer = t->optimizer;
    FS_TRY(open_cluster(c, t, &cluster, &out->limit));
    c->args.overlap = t->framework && t->framework->own_stream;
    asked a = {t, pace, out};
    return cli_plan_unwritten(c, &origin, &t->recipe, cluster, true, use, &a);
}

void validate_predict(cli *c, const validate_case *t, double pace,
                      fs_arena *arena, validate_prediction *out)
{
    const int64_t start_ns = fs_now_ns();
    cli own = cli_within(c);
    ir_tables tables = ir_tables_in(fs_arena_create());
    own.arena = fs_arena_create();
    own.tables = &tables;
    *out = (validate_prediction){.iteration_s = NAN, .formula_s = NAN};
    if (predict(&own, t, pace, out) != FS_OK)
        out->failed = fs_strdup(arena, own.err.text);
    json_decref(own.result);
    fs_arena_destroy(own.arena);
    fs_arena_destroy(tables.arena);
    out->wall_s = 1e-9 * (double)(fs_now_ns() - start_ns);
}
