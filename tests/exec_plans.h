/* Strategies whose signatures a test chooses itself, node by node. */
#ifndef FS_TESTS_EXEC_PLANS_H
#define FS_TESTS_EXEC_PLANS_H

#include "plan/plan.h"

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

static inline hw_cluster *make_cluster(int32_t devices, fs_arena *arena,
                                       fs_err *err)
{
    hw_cluster *cluster = NULL;
    if (hw_cluster_probe(devices, arena, err, &cluster) != FS_OK)
        return NULL;
    return cluster;
}

#endif
