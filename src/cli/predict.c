#include "config.h"
#include "cli/predict.h"

#include <math.h>

fs_status cli_predict(cli *c, const cli_plan *p, plan_trace *trace,
                      sim_result *out)
{
    plan_timing *timing =
        cost_timing(p->cost, p->model.graph, p->plan, c->arena);
    sim_options options = {
        .steps = CLI_SIM_STEPS, .trace = trace, .straggler = 1.0};
    return sim_run(p->model.graph, p->plan, p->cluster, timing, &options,
                   c->arena, &c->err, out);
}

void cli_tell_evidence(cli *c, const cli_plan *p, const plan_timing *timing)
{
    double sum[PLAN_MEASURED + 1] = {0}, all = 0;
    for (int32_t r = 0; r < p->plan->n_roles; r++) {
        const plan_role *role = &p->plan->roles[r];
        for (int32_t t = 0; t < role->n_tasks; t++) {
            const plan_demand *d = &timing->demand[r][t];
            const double times = plan_phase_once(role->tasks[t].phase)
                                     ? 1
                                     : p->plan->micro_batches;
            sum[d->known] += role->n_ranks * times * d->total_s;
            all += role->n_ranks * times * d->total_s;
        }
    }
    if (all <= 0)
        return;
    for (int k = 0; k <= PLAN_MEASURED; k++)
        sum[k] /= all;
    json_object_set_new(c->result, "evidence",
                        json_pack("{s:f, s:f, s:f}", "measured",
                                  sum[PLAN_MEASURED], "interpolated",
                                  sum[PLAN_INTERPOLATED], "formula",
                                  sum[PLAN_BY_FORMULA]));
    if (sum[PLAN_BY_FORMULA] < 1)
        cli_say(c,
                "evidence        %.0f %% of the seconds measured in these "
                "shapes, %.0f %% between measured points, %.0f %% by rates\n",
                100 * sum[PLAN_MEASURED], 100 * sum[PLAN_INTERPOLATED],
                100 * sum[PLAN_BY_FORMULA]);
}

void cli_tell_cores(cli *c, const hw_cluster *cluster)
{
    double most = 1;
    for (int32_t g = 0; g < cluster->n_groups; g++) {
        const hw_group *group = &cluster->groups[g];
        const double share = hw_core_share(group, group->devices_per_node);
        most = fmax(most, share);
        if (share > 1)
            cli_say(c,
                    "cores           %d ranks share the %d core%s of a node: "
                    "where all compute at once, each is %.3g times slower\n",
                    group->devices_per_node, group->cores_per_node,
                    group->cores_per_node == 1 ? "" : "s", share);
    }
    json_object_set_new(c->result, "ranks_per_core", json_real(most));
}

/* Flop of the whole training step, unsharded; of those in products and
 * convolutions, which peaks are of, in all and of 16-bit operands. */
typedef struct step_flop {
    double all, dense, narrow;
    ir_dtype dtype; /* of these */
} step_flop;

static step_flop whole_flop(const ir_graph *graph)
{
    static const ir_mesh one = {0};
    static const ir_nd_sig whole;
    step_flop flop = {0};
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        ir_work work = {0};
        ir_node_work(graph, node, &whole, &one, &work);
        double times = node->phase == IR_UPDATE ? 1 : graph->micro_batches;
        const double here = times * (double)work.flop;
        flop.all += here;
        flop.dense += ir_op_is_dense(node->op) ? here : 0;
        if (!ir_op_is_dense(node->op) || work.narrow == IR_F32)
            continue;
        flop.narrow += here;
        flop.dtype = work.narrow;
    }
    return flop;
}

/* NAN: no input has a sequence axis. */
static double tokens_per_sample(const ir_graph *graph)
{
    for (int32_t i = 0; i < graph->tensors.n; i++) {
        const ir_tensor *x = &graph->tensors.at[i];
        bool whole = ir_dtype_is_int(x->dtype);
        if (x->role == IR_INPUT && whole && x->shape.rank > 1)
            return (double)(ir_shape_count(&x->shape) / x->shape.dim[0]);
    }
    return NAN;
}

/* Peak of all devices together; those that share cores have as much less. */
static double peak_flops(const hw_cluster *cluster, ir_dtype dtype)
{
    double sum = 0;
    for (int32_t g = 0; g < cluster->n_groups; g++) {
        const hw_group *group = &cluster->groups[g];
        double devices = (double)group->nodes * group->devices_per_node;
        const double peak =
            dtype == IR_F32
                ? hw_device_flops(&group->device)
                : hw_device_narrow_flops(&group->device, dtype == IR_BF16);
        sum += devices * peak / hw_core_share(group, group->devices_per_node);
    }
    return sum;
}

cli_rates cli_rates_of(const cli_plan *p, double iteration_s)
{
    const ir_graph *graph = p->model.graph;
    const step_flop flop = whole_flop(graph);
    const double flops = flop.all / iteration_s;
    cli_rates r;
    r.narrow = 2 * flop.narrow > flop.dense;
    r.samples_per_s = (double)graph->batch / iteration_s;
    r.tokens_per_s = r.samples_per_s * tokens_per_sample(graph);
    r.flops_per_device = flops / p->cluster->n_devices;
    r.mfu = flops / peak_flops(p->cluster, r.narrow ? flop.dtype : IR_F32);
    return r;
}
