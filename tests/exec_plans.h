/* Strategies whose signatures a test chooses itself, node by node, and runs. */
#ifndef FS_TESTS_EXEC_PLANS_H
#define FS_TESTS_EXEC_PLANS_H

#include "exec/exec.h"
#include "plan/check.h"

#include <math.h>

static inline double unit_seconds(void *ctx, const plan_stage *stage,
                                  const plan_box_step *step)
{
    (void)ctx;
    (void)stage;
    return 1.0 + (double)(step->bytes_in + step->bytes_out) * 1e-6;
}

static inline bool join_edge(const ir_graph *g, plan_strategy *s,
                             plan_boxer *boxer, int32_t edge, int32_t tensor,
                             const ir_nd_sbp *to)
{
    const ir_tensor *t = &g->tensors.at[tensor];
    const ir_nd_sbp *from = &s->sig[t->producer].out[t->slot];
    const plan_stage *stage = &s->stages[s->stage_of[t->producer]];
    double seconds = plan_boxer_find(boxer, t, stage, from, to, &s->edge[edge]);
    return isfinite(seconds);
}

static inline bool join_inputs(const ir_graph *g, plan_strategy *s,
                               plan_boxer *boxer, int32_t v)
{
    const ir_node *node = &g->nodes.at[v];
    for (int32_t i = 0; i < node->n_in; i++)
        if (!join_edge(g, s, boxer, s->first_edge[v] + i, node->in[i],
                       &s->sig[v].in[i]))
            return false;
    return true;
}

static inline bool close_loops(const ir_graph *g, plan_strategy *s,
                               plan_boxer *boxer)
{
    for (int32_t v = 0; v < g->nodes.n; v++) {
        if (g->nodes.at[v].op != IR_OP_variable)
            continue;
        int32_t x = g->nodes.at[v].out[0];
        int32_t next = g->tensors.at[x].next;
        if (next >= 0 &&
            !join_edge(g, s, boxer, s->first_edge[v], next, &s->sig[v].out[0]))
            return false;
    }
    return true;
}

static inline double far_apart(const float *a, const float *b, int64_t n)
{
    double most = 0.0, size = 1e-6;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)b[i]));
    }
    return most / size;
}

/* What exec_run wants: `graph` and `arena` are the caller's. */
typedef struct job {
    const ir_graph *graph;
    fs_arena *arena;
    hw_cluster *cluster;
    plan *p;
    exec_data data;
} job;

/* The strategy's plan on so many devices, lowered and proven, and synthetic
 * data. */
static inline fs_status job_make(job *j, const plan_strategy *strategy,
                                 int32_t devices, fs_err *err)
{
    plan_lower_options lower = plan_lower_defaults();
    plan_report report;
    FS_TRY(hw_cluster_probe(devices, j->arena, err, &j->cluster));
    FS_TRY(plan_lower(j->graph, j->cluster, strategy, &lower, j->arena, err,
                      &j->p));
    if (plan_check(j->graph, j->cluster, j->p, j->arena, &report) != FS_OK)
        return fs_fail(err, FS_NO, "%s", report.findings[0].text);
    return exec_data_open("synthetic", j->graph, 11, j->arena, err, &j->data);
}

static inline fs_status job_run(const job *j, exec_world *world,
                                const exec_options *options, fs_err *err,
                                exec_result *out)
{
    return exec_run(world, j->graph, j->cluster, j->p, &j->data, options,
                    j->arena, err, out);
}

#endif
