/* What firing a task takes the polling loop, beside the task: a step of sums of
 * one element each, run as any plan is, takes longer than its tasks, whose
 * first act and last act read the clock, add up to. */
#include "config.h"
#include "exec/probe.h"

#include "exec/world.h"
#include "plan/lower.h"

enum { SUMS = 64, MICRO_BATCHES = 128, STEPS = 24, WARM_UP = 3 };
/* As long as the clock can tell: a firing that costs nothing. */
static const double LEAST_S = 1e-9;

static ir_graph *make_chain(fs_err *err)
{
    ir_graph *g = ir_graph_create("firing");
    const ir_shape one = ir_shape_make(2, (int64_t[]){1, 1});
    const int32_t x = ir_input(g, "x", IR_F32, one, 0);
    const int32_t w =
        ir_parameter(g, "w", IR_F32, one, (ir_init){IR_INIT_UNIFORM, 0, 1, 1});
    int32_t y = ir_binary(g, IR_OP_mul, x, w);
    for (int32_t i = 0; i < SUMS; i++)
        y = ir_binary(g, IR_OP_add, y, w);
    ir_train_options options = ir_train_defaults();
    options.optimizer = IR_SGD;
    options.micro_batches = MICRO_BATCHES;
    g->loss = ir_reduce(g, IR_OP_reduce_sum, y, 3, false);
    g->batch = MICRO_BATCHES;
    if (ir_train(g, &options, err) == FS_OK)
        return g;
    ir_graph_destroy(g);
    return NULL;
}

/* On one device. */
static fs_status lower_chain(const ir_graph *g, fs_arena *arena, fs_err *err,
                             hw_cluster **cluster, plan **out)
{
    const plan_lower_options options = plan_lower_defaults();
    plan_strategy *s = plan_strategy_new(g, 1, arena);
    s->stages[0].mesh = (ir_mesh){1, {1}};
    s->schedule = "1f1b";
    FS_TRY(hw_cluster_probe(1, arena, err, cluster));
    return plan_lower(g, *cluster, s, &options, arena, err, out);
}

/* By the least disturbed step: others are longer for what the host does. */
static double seconds_of(const plan *p, const exec_result *run)
{
    double tasks_s = 0, firings = 0;
    for (int32_t t = 0; t < p->roles[0].n_tasks; t++) {
        const double times =
            plan_phase_once(p->roles[0].tasks[t].phase) ? 1 : p->micro_batches;
        tasks_s += times * run->measured->demand[0][t].total_s;
        firings += times;
    }
    const double more_s = run->step_min_s - tasks_s;
    return more_s > LEAST_S * firings ? more_s / firings : LEAST_S;
}

fs_status exec_probe_firing(fs_err *err, double *seconds)
{
    fs_arena *arena = fs_arena_create();
    exec_world alone = {.size = 1, .on_host = 1, .cores = 1};
    const exec_options options = {
        .steps = STEPS, .kernels = "auto", .warmup = WARM_UP};
    hw_cluster *cluster;
    plan *p;
    exec_data data;
    exec_result run;
    ir_graph *g = make_chain(err);
    fs_status status =
        g ? lower_chain(g, arena, err, &cluster, &p) : err->status;
    if (status == FS_OK)
        status = exec_data_open("synthetic", g, 1, arena, err, &data);
    if (status == FS_OK)
        status =
            exec_run(&alone, g, cluster, p, &data, &options, arena, err, &run);
    if (status == FS_OK)
        *seconds = seconds_of(p, &run);
    if (g)
        ir_graph_destroy(g);
    fs_arena_destroy(arena);
    return status;
}
