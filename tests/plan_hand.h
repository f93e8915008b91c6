/* Small models, clusters, strategies and plans for the tests of plan and sim.
 * Unused ones in a test are no fault. */
#ifndef FS_TESTS_PLAN_HAND_H
#define FS_TESTS_PLAN_HAND_H

#include "config.h"

#include "ir/train.h"
#include "plan/boxer.h"
#include "plan/check.h"
#include "plan/schedule.h"
#include "plan/text.h"
#include "plan/timing.h"

#include "tap.h"

#define HAND_UNUSED __attribute__((unused))

HAND_UNUSED static hw_cluster *hand_cluster(fs_arena *arena, int32_t nodes,
                                            int32_t devices, int32_t cores)
{
    hw_cluster *c = fs_new(arena, hw_cluster, 1);
    hw_link link = {"link", 1e-6, 1e9, false};
    c->name = "hand";
    c->n_groups = 1;
    c->groups = fs_new(arena, hw_group, 1);
    c->groups[0] = (hw_group){.nodes = nodes,
                              .devices_per_node = devices,
                              .inner = link,
                              .memory = link,
                              .cores_per_node = cores};
    c->groups[0].device = (hw_device){.name = "hand",
                                      .source = "hand",
                                      .memory_bytes = 1e9,
                                      .memory_bps = 1e9,
                                      .fp32_flops = 1e9,
                                      .matmul_efficiency = 1,
                                      .memory_efficiency = 1};
    c->outer = link;
    hw_cluster_finish(c);
    return c;
}

/* Layers of relu(x W), the input added before every third, mean squared error,
 * Adam; x is (rows, width). */
HAND_UNUSED static ir_graph *hand_mlp(int32_t layers, int64_t rows,
                                      int64_t width, int32_t micro_batches)
{
    ir_graph *g = ir_graph_create("mlp");
    fs_err err = {0};
    ir_train_options train = ir_train_defaults();
    ir_init init = {IR_INIT_NORMAL, 0, 0.1, 7};
    ir_shape shape = ir_shape_make(2, (int64_t[]){rows, width});
    int32_t x = ir_input(g, "x", IR_F32, shape, 0);
    int32_t target = ir_input(g, "target", IR_F32, shape, 0);
    int32_t first = x;
    for (int32_t i = 0; i < layers; i++) {
        if (i % 3 == 2) /* an input that several stages read */
            x = ir_binary(g, IR_OP_add, x, first);
        int32_t w =
            ir_parameter(g, fs_printf(g->arena, "w%d", i), IR_F32,
                         ir_shape_make(2, (int64_t[]){width, width}), init);
        x = ir_matmul(g, x, w, false, false);
        x = ir_unary(g, IR_OP_relu, x);
    }
    g->loss = ir_mse(g, x, target);
    g->digest = 0x1234;
    g->batch = rows * micro_batches;
    train.optimizer = IR_ADAM;
    train.micro_batches = micro_batches;
    if (g->err.status != FS_OK || ir_train(g, &train, &err) != FS_OK) {
        printf("Bail out! %s%s\n", g->err.text, err.text);
        exit(1);
    }
    return g;
}

/* Stages of equal meshes; forward nodes cut evenly, all others follow. */
HAND_UNUSED static plan_strategy *
hand_stages(const ir_graph *g, int32_t n_stages, ir_mesh mesh, fs_arena *arena)
{
    plan_strategy *s = plan_strategy_new(g, n_stages, arena);
    ir_uses uses = ir_graph_uses(g, arena);
    int32_t forward = 0, seen = 0;
    for (int32_t i = 0; i < n_stages; i++)
        s->stages[i] = (plan_stage){mesh, i * ir_mesh_size(&mesh)};
    for (int32_t v = 0; v < s->n_nodes; v++)
        forward +=
            g->nodes.at[v].phase == IR_FORWARD && g->nodes.at[v].n_in > 0;
    for (int32_t v = 0; v < s->n_nodes; v++) {
        const ir_node *node = &g->nodes.at[v];
        if (node->phase == IR_FORWARD && node->n_in > 0)
            s->stage_of[v] = (int32_t)((int64_t)seen++ * n_stages / forward);
        else if (node->forward >= 0)
            s->stage_of[v] = s->stage_of[node->forward];
        else
            s->stage_of[v] = n_stages - 1;
    }
    for (int32_t v = s->n_nodes - 1; v >= 0; v--) {
        const ir_node *node = &g->nodes.at[v];
        if (node->n_in == 0 && node->n_out == 1 &&
            uses.first[node->out[0]] < uses.first[node->out[0] + 1])
            s->stage_of[v] = s->stage_of[uses.list[uses.first[node->out[0]]]];
    }
    for (int32_t v = 0; v < s->n_nodes; v++) {
        const ir_node *node = &g->nodes.at[v];
        if (node->phase != IR_FORWARD && node->forward >= 0)
            s->stage_of[v] = s->stage_of[node->forward];
    }
    return s;
}

/* Lays stages of equal meshes on the devices of so many roles, as their
 * schedule wants. */
HAND_UNUSED static void hand_place(plan_strategy *s, const char *schedule,
                                   int32_t n_roles)
{
    plan_placing placing = plan_schedule_find(schedule)->placing;
    s->schedule = schedule;
    for (int32_t i = 0; i < s->n_stages; i++)
        s->stages[i].first_device = plan_placing_role(placing, n_roles, i) *
                                    ir_mesh_size(&s->stages[i].mesh);
}

HAND_UNUSED static double hand_seconds(void *ctx, const plan_stage *stage,
                                       const plan_box_step *step)
{
    (void)ctx, (void)stage;
    return 1 + 1e-3 * (double)(step->bytes_in + step->bytes_out);
}

/* Paths for the edges that end at node v, whose producers are chosen. */
static bool hand_box_node(const ir_graph *g, plan_strategy *s, int32_t v,
                          plan_boxer *boxer)
{
    const ir_node *node = &g->nodes.at[v];
    if (node->op == IR_OP_variable)
        return true;
    for (int32_t i = 0; i < node->n_in; i++) {
        const plan_ends ends = plan_edge_ends(g, s, v, i);
        if (isinf(
                plan_boxer_join(boxer, &ends, &s->edge[s->first_edge[v] + i])))
            return false;
    }
    for (int32_t u = 0; u < v; u++) {
        if (g->nodes.at[u].op != IR_OP_variable)
            continue;
        int32_t next = g->tensors.at[g->nodes.at[u].out[0]].next;
        if (next < 0 || g->tensors.at[next].producer != v)
            continue;
        const plan_ends ends = plan_edge_ends(g, s, u, 0);
        if (isinf(plan_boxer_join(boxer, &ends, &s->edge[s->first_edge[u]])))
            return false;
    }
    return true;
}

/* Random legal signatures (seed 0: all-B), boxed by cheapest paths. */
HAND_UNUSED static void hand_signatures(const ir_graph *g, plan_strategy *s,
                                        uint64_t seed, fs_arena *arena)
{
    plan_boxer *boxer =
        plan_boxer_create((plan_boxing_cost){.seconds = hand_seconds}, arena);
    for (int32_t v = 0; v < s->n_nodes; v++) {
        ir_nd_sig_list list = {0};
        ir_signatures(g, &g->nodes.at[v], &s->stages[s->stage_of[v]].mesh,
                      arena, &list);
        for (int32_t attempt = 0; attempt < 20; attempt++) {
            bool plain = seed == 0 || attempt == 19;
            s->sig[v] = list.at[plain ? 0 : fs_rand_below(&seed, list.n)];
            if (hand_box_node(g, s, v, boxer))
                break;
        }
    }
}

HAND_UNUSED static plan *hand_lower_by(const ir_graph *g, const hw_cluster *c,
                                       const plan_strategy *s,
                                       const plan_lower_options *options,
                                       fs_arena *arena)
{
    fs_err err = {0};
    plan *p;
    if (plan_lower(g, c, s, options, arena, &err, &p) != FS_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return p;
}

HAND_UNUSED static plan *hand_lower(const ir_graph *g, const hw_cluster *c,
                                    const plan_strategy *s, bool overlap,
                                    fs_arena *arena)
{
    plan_lower_options options = plan_lower_defaults();
    options.overlap = overlap;
    return hand_lower_by(g, c, s, &options, arena);
}

/* A deep copy of the parts that tests spoil. */
/* Room for as many registers as a kernel may have, or as the task has. */
HAND_UNUSED static void hand_take_registers(plan_task *t, fs_arena *arena)
{
    const int32_t *in = t->in, *out = t->out;
    t->in = fs_new(arena, int32_t, IR_MAX_IN + t->n_in);
    t->out = fs_new(arena, int32_t, IR_MAX_OUT + t->n_out);
    for (int32_t i = 0; in && i < t->n_in; i++)
        t->in[i] = in[i];
    for (int32_t i = 0; out && i < t->n_out; i++)
        t->out[i] = out[i];
}

HAND_UNUSED static plan *hand_copy(const plan *p, fs_arena *arena)
{
    plan *q = fs_memdup(arena, p, sizeof *p);
    q->comms =
        fs_memdup(arena, p->comms, (size_t)p->n_comms * sizeof *p->comms);
    q->channels = fs_memdup(arena, p->channels,
                            (size_t)p->n_channels * sizeof *p->channels);
    q->roles =
        fs_memdup(arena, p->roles, (size_t)p->n_roles * sizeof *p->roles);
    for (int32_t i = 0; i < p->n_roles; i++) {
        const plan_role *from = &p->roles[i];
        plan_role *r = &q->roles[i];
#define HAND_DUP(field, n)                                                     \
    r->field = fs_memdup(arena, from->field, (size_t)(n) * sizeof *r->field)
        HAND_DUP(tasks, r->n_tasks);
        HAND_DUP(registers, r->n_registers);
        HAND_DUP(streams, r->n_streams);
        HAND_DUP(stream_scratch, r->n_streams);
        HAND_DUP(slots, r->n_slots);
#undef HAND_DUP
        for (int32_t k = 0; k < r->n_tasks; k++)
            hand_take_registers(&r->tasks[k], arena);
        for (int32_t k = 0; k < r->n_registers; k++) {
            plan_register *g = &r->registers[k];
            g->offset = fs_memdup(arena, g->offset,
                                  (size_t)g->count * sizeof *g->offset);
            g->consumers =
                fs_memdup(arena, g->consumers,
                          (size_t)g->n_consumers * sizeof *g->consumers);
        }
    }
    return q;
}

HAND_UNUSED static void hand_print(const plan_report *report)
{
    for (int32_t i = 0; i < report->n; i++) {
        const char *t = report->findings[i].text;
        printf("# %s: ", plan_finding_name(report->findings[i].kind));
        for (; *t; t++)
            *t == '\n' ? fputs("\n# ", stdout) : putchar(*t);
        printf("\n");
    }
}

/* Does some finding of this kind say `text`? */
HAND_UNUSED static bool hand_found(const plan_report *report,
                                   plan_finding_kind kind, const char *text)
{
    for (int32_t i = 0; i < report->n; i++)
        if (report->findings[i].kind == kind &&
            strstr(report->findings[i].text, text))
            return true;
    hand_print(report);
    return false;
}

#endif
