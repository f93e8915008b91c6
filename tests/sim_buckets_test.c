/* A bucket pays its latency once: of k gradients of s bytes that two ranks
 * reduce, k (alpha + s beta) without and alpha + k s beta with. */
#include "plan_hand.h"

#include "cost/cost.h"
#include "sim/sim.h"

#include <stdlib.h>

enum { LAYERS = 5, WIDTH = 8 };

/* How many inputs it takes as they are given. */
static int32_t count_fits(const ir_graph *g, const plan_strategy *s, int32_t v,
                          const ir_nd_sig *sig)
{
    const ir_node *node = &g->nodes.at[v];
    int32_t n = 0;
    for (int32_t i = 0; i < node->n_in; i++) {
        const ir_tensor *t = &g->tensors.at[node->in[i]];
        n += ir_nd_sbp_equal(&sig->in[i], &s->sig[t->producer].out[t->slot], 1);
    }
    return n;
}

/* Inputs are cut by samples; what is made of them lies as it comes, by samples
 * where it may; variables and their updates are whole. */
static int32_t worth(const ir_graph *g, const plan_strategy *s, int32_t v,
                     const ir_nd_sig *sig)
{
    const ir_node *node = &g->nodes.at[v];
    const ir_sbp out = node->n_out ? sig->out[0].at[0] : IR_SBP_B;
    const bool samples = out.kind == IR_S && out.axis == 0;
    if (node->op == IR_OP_input)
        return samples;
    if (node->n_in == 0 ||
        (node->phase == IR_UPDATE && node->op != IR_OP_accumulate))
        return -1;
    return 2 * count_fits(g, s, v, sig) + samples;
}

static void choose(const ir_graph *g, plan_strategy *s, int32_t v,
                   fs_arena *arena)
{
    int32_t best = -1;
    ir_nd_sig_list list = {0};
    ir_signatures(g, &g->nodes.at[v], &s->stages[0].mesh, arena, &list);
    s->sig[v] = list.at[0]; /* all whole */
    for (int32_t k = 0; k < list.n; k++) {
        const int32_t is = worth(g, s, v, &list.at[k]);
        if (is > best)
            s->sig[v] = list.at[k];
        best = is > best ? is : best;
    }
}

static plan_strategy *make_data_parallel(const ir_graph *g, fs_arena *arena)
{
    plan_strategy *s = hand_stages(g, 1, (ir_mesh){1, {2}}, arena);
    plan_boxer *boxer =
        plan_boxer_create((plan_boxing_cost){.seconds = hand_seconds}, arena);
    for (int32_t v = 0; v < s->n_nodes; v++) {
        choose(g, s, v, arena);
        FS_ASSERT(hand_box_node(g, s, v, boxer));
    }
    return s;
}

typedef struct played {
    plan *p;
    plan_timing *timing;
    sim_result sim;
} played;

static played play(const ir_graph *g, const hw_cluster *c,
                   const plan_strategy *s, const plan_lower_options *options,
                   fs_arena *arena)
{
    const cost_model *model = cost_model_create(c, arena);
    const sim_options how = {.steps = 4, .straggler = 1};
    played x = {.p = hand_lower_by(g, c, s, options, arena)};
    fs_err err = {0};
    plan_report report;
    tap_equal_int(plan_check(g, c, x.p, arena, &report), FS_OK, "it is sound");
    x.timing = cost_timing(model, g, x.p, arena);
    tap_ok(sim_run(g, x.p, c, x.timing, &how, arena, &err, &x.sim) == FS_OK,
           "and played%s", err.text);
    return x;
}

/* The last collective of the step's end; how many there are, and seconds of
 * all. */
static const plan_demand *last_sum(const played *x, int32_t *n, double *sum_s)
{
    const plan_role *r = &x->p->roles[0];
    const plan_demand *demand = NULL;
    *n = 0;
    *sum_s = 0;
    for (int32_t t = 0; t < r->n_tasks; t++)
        if (r->tasks[t].comm >= 0 && r->tasks[t].phase == PLAN_END) {
            demand = &x->timing->demand[0][t];
            *sum_s += demand->total_s;
            ++*n;
        }
    return demand;
}

static void test_closed_form(bool overlap)
{
    fs_arena *arena = fs_arena_create();
    ir_graph *g = hand_mlp(LAYERS, 8, WIDTH, 1);
    hw_cluster *c = hand_cluster(arena, 1, 2, 0);
    const plan_strategy *s = make_data_parallel(g, arena);
    plan_lower_options options = plan_lower_defaults();
    int32_t n, m;
    double alone_s, together_s;
    options.overlap = overlap;
    const played alone = play(g, c, s, &options, arena);
    options.bucket_bytes = 1 << 20;
    const played together = play(g, c, s, &options, arena);
    const plan_demand *first = last_sum(&alone, &n, &alone_s);
    tap_equal_int(n, LAYERS, "%d gradients are reduced", LAYERS);
    const plan_demand *bucket = last_sum(&together, &m, &together_s);
    tap_equal_int(m, 1, "all in one bucket");
    if (n != LAYERS || m != 1)
        return;
    const plan_demand one = *first, all = *bucket;
    const double beta_s = one.network_s + one.memory_s;
    const double alpha_s = one.latency_s + one.launch_s;
    tap_near(one.total_s, alpha_s + beta_s, 1e-12, "alpha + s beta each");
    tap_near(all.total_s, alpha_s + LAYERS * beta_s, 1e-9,
             "alpha + k s beta together");
    tap_near(alone_s - together_s, (LAYERS - 1) * alpha_s, 1e-9,
             "so the latency of all but one is saved");
    const double gain_s = alone.sim.iteration_s - together.sim.iteration_s;
    if (!overlap)
        tap_near(gain_s, alone_s - together_s, 1e-9,
                 "and the step is so much shorter");
    else /* nothing hides the bucket, which begins with the last of them */
        tap_ok(gain_s >= -(LAYERS - 1) * beta_s * (1 + 1e-9),
               "beside the pass no more than the others' bytes is lost: %g s",
               -gain_s);
    options.bucket_bytes = 2 * WIDTH * WIDTH * 4;
    const played pairs = play(g, c, s, &options, arena);
    last_sum(&pairs, &n, &together_s);
    tap_equal_int(n, (LAYERS + 1) / 2, "two by two");
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

int main(void)
{
    test_closed_form(false);
    test_closed_form(true);
    return tap_done();
}
