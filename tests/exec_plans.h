/* Strategies whose signatures a test chooses itself, node by node, and runs. */
#ifndef FS_TESTS_EXEC_PLANS_H
#define FS_TESTS_EXEC_PLANS_H

#include "exec/exec.h"
#include "plan/boxer.h"
#include "plan/check.h"

#include <math.h>

static inline double unit_seconds(void *ctx, const plan_stage *stage,
                                  const plan_box_step *step)
{
    (void)ctx;
    (void)stage;
    return 1.0 + (double)(step->bytes_in + step->bytes_out) * 1e-6;
}

/* ---- stages ---- */

/* An input stands on the stage of its first reader. */
static inline void place_inputs(const ir_graph *g, plan_strategy *s)
{
    for (int32_t v = g->nodes.n - 1; v >= 0; v--)
        for (int32_t i = 0; i < g->nodes.at[v].n_in; i++) {
            int32_t from = g->tensors.at[g->nodes.at[v].in[i]].producer;
            if (g->nodes.at[from].op == IR_OP_input)
                s->stage_of[from] = s->stage_of[v];
        }
}

/* Does it make a task? */
static inline bool place_works(const ir_node *node)
{
    const ir_op_class kind = ir_op_class_of(node->op);
    return kind != IR_CLASS_SOURCE && kind != IR_CLASS_VIEW;
}

/* Forward nodes in runs between random cuts, none without work; the others
 * follow what they belong to. */
static inline void place_stages(const ir_graph *g, plan_strategy *s,
                                uint64_t *seed)
{
    enum { MOST = 4096 };
    int64_t work = 0, seen = 0;
    bool cut[MOST] = {false};
    for (int32_t v = 0; v < g->nodes.n; v++)
        work += g->nodes.at[v].forward < 0 && place_works(&g->nodes.at[v]);
    work = work < MOST ? work : MOST;
    for (int32_t k = 1; k < s->n_stages && k < work;) {
        bool *at = &cut[1 + fs_rand_below(seed, work - 1)];
        k += !*at;
        *at = true;
    }
    int32_t stage = 0;
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        if (node->forward < 0) {
            stage += seen < MOST && cut[seen];
            cut[seen < MOST ? seen : 0] = false;
            seen += place_works(node);
        }
        s->stage_of[v] = node->forward < 0 ? stage : s->stage_of[node->forward];
    }
    place_inputs(g, s);
}

/* ---- edges ---- */

static inline bool join_edge(const ir_graph *g, plan_strategy *s,
                             plan_boxer *boxer, int32_t v, int32_t slot)
{
    const plan_ends ends = plan_edge_ends(g, s, v, slot);
    return ends.tensor == NULL ||
           isfinite(plan_boxer_join(boxer, &ends,
                                    &s->edge[s->first_edge[v] + slot]));
}

static inline bool join_inputs(const ir_graph *g, plan_strategy *s,
                               plan_boxer *boxer, int32_t v)
{
    for (int32_t i = 0; i < g->nodes.at[v].n_in; i++)
        if (!join_edge(g, s, boxer, v, i))
            return false;
    return true;
}

/* What views read and what crosses stages is kept; other pieces may be made
 * anew for some readers, alone or together. */
static inline void draw_sharing(const ir_graph *g, plan_strategy *s, int32_t v,
                                uint64_t *seed)
{
    const ir_node *node = &g->nodes.at[v];
    if (ir_op_class_of(node->op) == IR_CLASS_VIEW)
        return;
    for (int32_t i = 0; i < node->n_in; i++)
        if (s->stage_of[g->tensors.at[node->in[i]].producer] == s->stage_of[v])
            s->edge[s->first_edge[v] + i].sharing =
                (int32_t)fs_rand_below(seed, 3);
}

static inline bool close_loops(const ir_graph *g, plan_strategy *s,
                               plan_boxer *boxer)
{
    for (int32_t v = 0; v < g->nodes.n; v++)
        if (g->nodes.at[v].op == IR_OP_variable &&
            !join_edge(g, s, boxer, v, 0))
            return false;
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

/* Each collective by the same algorithm, or (PLAN_ALGORITHMS) by one that is
 * drawn of those that messages do. */
static inline plan_choice choice_by(const plan *p, plan_algorithm algorithm,
                                    uint64_t seed, fs_arena *arena)
{
    plan_choice out = plan_choice_new(p, arena);
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t i = 0; i < p->roles[r].n_tasks; i++) {
            plan_algorithm a = algorithm;
            while (a == PLAN_ALGORITHMS || !plan_algorithm_runs(a) ||
                   (a == PLAN_BY_mpi && a != algorithm))
                a = (plan_algorithm)fs_rand_below(&seed, PLAN_ALGORITHMS);
            out.of[r][i] = (uint8_t)a;
        }
    return out;
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
static inline fs_status job_make_with(job *j, const plan_strategy *strategy,
                                      int32_t devices,
                                      const plan_lower_options *lower,
                                      fs_err *err)
{
    plan_report report;
    FS_TRY(hw_cluster_probe(devices, j->arena, err, &j->cluster));
    FS_TRY(plan_lower(j->graph, j->cluster, strategy, lower, j->arena, err,
                      &j->p));
    if (plan_check(j->graph, j->cluster, j->p, j->arena, &report) != FS_OK)
        return fs_fail(err, FS_NO, "%s", report.findings[0].text);
    return exec_data_open("synthetic", j->graph, 11, j->arena, err, &j->data);
}

static inline fs_status job_make(job *j, const plan_strategy *strategy,
                                 int32_t devices, fs_err *err)
{
    const plan_lower_options lower = plan_lower_defaults();
    return job_make_with(j, strategy, devices, &lower, err);
}

static inline fs_status job_run(const job *j, exec_world *world,
                                const exec_options *options, fs_err *err,
                                exec_result *out)
{
    return exec_run(world, j->graph, j->cluster, j->p, &j->data, options,
                    j->arena, err, out);
}

/* The values of a fetched tensor of floats. */
static inline double *job_doubles(const ir_tensor *t, const void *data,
                                  fs_arena *arena)
{
    const int64_t n = ir_shape_count(&t->shape);
    double *out = fs_new(arena, double, n);
    for (int64_t i = 0; i < n; i++)
        out[i] = t->dtype == IR_F64 ? ((const double *)data)[i]
                                    : (double)((const float *)data)[i];
    return out;
}

#endif
