/* Strategies by simple rules, for tests: stages by share of flop, variables
 * and inputs as the recipe says, every other node the signature that is
 * cheapest given what stands before it. Legal, not good. */
#ifndef FS_TESTS_PLAN_BUILD_H
#define FS_TESTS_PLAN_BUILD_H

#include "ir/train.h"
#include "plan/boxer.h"
#include "plan/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct build_recipe {
    int32_t pp, dp, tp; /* 0 counts as 1 */
    const char *schedule;
    bool zero_states; /* optimizer states cut over the data axis (ZeRO-1) */
    bool zero_params; /* parameters too (ZeRO-3) */
    uint64_t random;  /* not 0: seed of signatures drawn among those that can
                         be reached, instead of the cheapest */
} build_recipe;

typedef struct builder {
    const ir_graph *graph;
    plan_strategy *s;
    plan_boxer *boxer;
    fs_arena *arena;
    build_recipe recipe;
    int32_t data_axis, tensor_axis; /* of the mesh, -1: none */
} builder;

static inline double build_seconds(void *ctx, const plan_stage *stage,
                                   const plan_box_step *step)
{
    int64_t bytes =
        step->bytes_in > step->bytes_out ? step->bytes_in : step->bytes_out;

    (void)ctx;
    (void)stage;
    if (!plan_box_is_collective(step->kind))
        return 1e-7 + (double)bytes / 1e10;
    return (step->kind == PLAN_ALL_REDUCE ? 2 : 1) *
           (1e-6 + (double)bytes / 1e9);
}

/* ---- stages ---- */

static inline double build_flop(const ir_graph *g, int32_t v)
{
    ir_mesh one = {0};
    ir_nd_sig sig = {0};
    ir_work work = {0};

    if (g->nodes.at[v].phase != IR_FORWARD)
        return 0;
    ir_node_work(g, &g->nodes.at[v], &sig, &one, &work);
    return (double)work.flop;
}

static inline bool build_is_source(const ir_node *node)
{
    return ir_op_class_of(node->op) == IR_CLASS_SOURCE;
}

/* Sources stand where they are read first. */
static inline void build_source_stages(builder *b, bool states)
{
    const ir_graph *g = b->graph;
    int32_t *of = b->s->stage_of;
    ir_uses uses = ir_graph_uses(g, b->arena);

    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        if (!build_is_source(node))
            continue;
        int32_t t = node->out[0];
        if ((g->tensors.at[t].role == IR_STATE) == states &&
            uses.first[t] < uses.first[t + 1])
            of[v] = of[uses.list[uses.first[t]]];
    }
}

static inline void build_stages(builder *b)
{
    const ir_graph *g = b->graph;
    int32_t p = b->s->n_stages, *of = b->s->stage_of;
    double total = 0, before = 0;

    for (int32_t v = 0; v < g->nodes.n; v++)
        total += build_flop(g, v);
    for (int32_t v = 0; v < g->nodes.n; v++) {
        of[v] = (int32_t)(before * p / (total > 0 ? total * 1.0001 : 1));
        before += build_flop(g, v);
    }
    build_source_stages(b, false);
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        if (node->phase != IR_FORWARD && !build_is_source(node))
            of[v] = node->forward >= 0 ? of[node->forward] : 0;
    }
    build_source_stages(b, true);
}

/* ---- signatures ---- */

static inline int32_t build_weight_number(const ir_graph *g, int32_t tensor)
{
    int32_t n = 0;

    for (int32_t t = 0; t < tensor; t++)
        n += g->tensors.at[t].role == IR_PARAM &&
             g->tensors.at[t].shape.rank == 2;
    return n;
}

/* What the recipe wants a source to be. */
static inline ir_nd_sbp build_wanted(const builder *b, int32_t v)
{
    const ir_graph *g = b->graph;
    const ir_tensor *t = &g->tensors.at[g->nodes.at[v].out[0]];
    ir_nd_sbp want = {0};

    if (t->role == IR_INPUT && b->data_axis >= 0 && t->batch_axis >= 0)
        want.at[b->data_axis] = IR_SBP_S(t->batch_axis);
    if (t->role == IR_STATE) {
        int32_t update = g->tensors.at[t->next].producer;
        int32_t param = g->nodes.at[update].in[0];
        want = b->s->sig[g->tensors.at[param].producer].out[0];
        if (b->recipe.zero_states && b->data_axis >= 0)
            want.at[b->data_axis] = IR_SBP_S(0);
    }
    if (t->role == IR_PARAM && b->tensor_axis >= 0 && t->shape.rank == 2)
        want.at[b->tensor_axis] =
            IR_SBP_S(build_weight_number(g, g->nodes.at[v].out[0]) % 2);
    if (t->role == IR_PARAM && b->recipe.zero_params && b->data_axis >= 0)
        want.at[b->data_axis] = IR_SBP_S(0);
    return want;
}

static inline double build_edges(builder *b, int32_t v, const ir_nd_sig *sig,
                                 plan_boxing *paths)
{
    const ir_graph *g = b->graph;
    const ir_node *node = &g->nodes.at[v];
    double sum = 0;

    for (int32_t i = 0; i < node->n_in; i++) {
        plan_ends ends = plan_edge_ends(g, b->s, v, i);
        ends.to = &sig->in[i];
        sum += plan_boxer_join(b->boxer, &ends, paths ? &paths[i] : NULL);
    }
    return sum;
}

/* The way of an update's outputs back to their variables. */
static inline double build_loops(builder *b, int32_t v, const ir_nd_sig *sig)
{
    const ir_graph *g = b->graph;
    double sum = 0;

    for (int32_t x = 0; x < g->tensors.n; x++) {
        const ir_tensor *t = &g->tensors.at[x];
        if (g->nodes.at[t->producer].op != IR_OP_variable || t->next < 0 ||
            g->tensors.at[t->next].producer != v)
            continue;
        plan_boxing *path = &b->s->edge[b->s->first_edge[t->producer]];
        plan_ends ends = plan_edge_ends(g, b->s, t->producer, 0);
        ends.from = &sig->out[g->tensors.at[t->next].slot];
        sum += plan_boxer_join(b->boxer, &ends, path);
    }
    return sum;
}

static inline double build_node_cost(builder *b, int32_t v,
                                     const ir_nd_sig *sig)
{
    const ir_node *node = &b->graph->nodes.at[v];
    const ir_mesh *mesh = &b->s->stages[b->s->stage_of[v]].mesh;
    ir_work work = {0};
    double sum = 0;

    if (b->recipe.random) {
        sum = build_edges(b, v, sig, NULL) + build_loops(b, v, sig);
        return isinf(sum) ? sum : fs_rand_unit(&b->recipe.random);
    }
    if (build_is_source(node)) {
        ir_nd_sbp want = build_wanted(b, v);
        for (int32_t a = 0; a < mesh->n; a++)
            sum += 2 * !ir_sbp_equal(want.at[a], sig->out[0].at[a]) +
                   (sig->out[0].at[a].kind != IR_B);
        return sum;
    }
    ir_node_work(b->graph, node, sig, mesh, &work);
    sum = (double)work.flop / 1e10 +
          (double)(work.read_bytes + work.written_bytes) / 1e10;
    if (node->phase == IR_UPDATE)
        sum += build_loops(b, v, sig);
    return sum + build_edges(b, v, sig, NULL);
}

static inline void build_node(builder *b, int32_t v)
{
    const ir_mesh *mesh = &b->s->stages[b->s->stage_of[v]].mesh;
    ir_nd_sig_list list = {0};
    double best = INFINITY;

    ir_signatures(b->graph, &b->graph->nodes.at[v], mesh, b->arena, &list);
    for (int32_t i = 0; i < list.n; i++) {
        double cost = build_node_cost(b, v, &list.at[i]);
        if (cost >= best)
            continue;
        best = cost;
        b->s->sig[v] = list.at[i];
    }
    if (isinf(best))
        printf("# %s: no signature can be reached\n",
               b->graph->nodes.at[v].name);
    if (!build_is_source(&b->graph->nodes.at[v]))
        build_edges(b, v, &b->s->sig[v], &b->s->edge[b->s->first_edge[v]]);
    if (b->graph->nodes.at[v].phase == IR_UPDATE)
        build_loops(b, v, &b->s->sig[v]);
}

/* ---- the whole ---- */

static inline void build_mesh(builder *b, plan_stage *stage)
{
    b->data_axis = b->tensor_axis = -1;
    if (b->recipe.dp > 1) {
        b->data_axis = stage->mesh.n;
        stage->mesh.dim[stage->mesh.n++] = b->recipe.dp;
    }
    if (b->recipe.tp > 1) {
        b->tensor_axis = stage->mesh.n;
        stage->mesh.dim[stage->mesh.n++] = b->recipe.tp;
    }
}

static inline plan_strategy *
build_strategy(const ir_graph *g, const build_recipe *recipe, fs_arena *arena)
{
    int32_t pp = recipe->pp > 0 ? recipe->pp : 1, device = 0;
    plan_boxing_cost cost = {.seconds = build_seconds};
    builder b = {.graph = g, .arena = arena, .recipe = *recipe};

    b.s = plan_strategy_new(g, pp, arena);
    b.boxer = plan_boxer_create(cost, arena);
    if (recipe->schedule)
        b.s->schedule = recipe->schedule;
    for (int32_t i = 0; i < pp; i++) {
        build_mesh(&b, &b.s->stages[i]);
        b.s->stages[i].first_device = device;
        device += ir_mesh_size(&b.s->stages[i].mesh);
    }
    build_stages(&b);
    for (int32_t v = 0; v < g->nodes.n; v++)
        build_node(&b, v);
    return b.s;
}

/* ---- a network and a machine ---- */

/* Perceptron of `layers` linear layers with relu between them and a loss over
 * 16 classes; tied: the last weight is the first (layers >= 3). Trained with
 * Adam. `batch` is the micro-batch. */
static inline ir_graph *build_mlp(int32_t layers, int64_t batch, bool tied,
                                  int32_t micro_batches)
{
    ir_graph *g = ir_graph_create("mlp");
    ir_train_options options = ir_train_defaults();
    ir_init init = {.kind = IR_INIT_NORMAL, .spread = 0.1, .seed = 1};
    int32_t x = ir_input(g, "x", IR_F32, (ir_shape){2, {batch, 16}}, 0);
    int32_t y = ir_input(g, "y", IR_I64, (ir_shape){1, {batch}}, 0);
    int32_t first = -1;
    fs_err err = {0};
    char name[16];

    for (int32_t i = 0; i < layers; i++) {
        int32_t w = first, bias;
        snprintf(name, sizeof name, "w%d", (int)i);
        if (!tied || i < layers - 1 || i == 0)
            w = ir_parameter(g, name, IR_F32, (ir_shape){2, {16, 16}}, init);
        first = i == 0 ? w : first;
        snprintf(name, sizeof name, "b%d", (int)i);
        bias = ir_parameter(g, name, IR_F32, (ir_shape){1, {16}}, init);
        x = ir_binary(g, IR_OP_add, ir_matmul(g, x, w, false, false), bias);
        if (i < layers - 1)
            x = ir_unary(g, IR_OP_relu, x);
    }
    g->loss = ir_cross_entropy(g, x, y);
    g->batch = batch * micro_batches;
    options.optimizer = IR_ADAM;
    options.micro_batches = micro_batches;
    if (ir_train(g, &options, &err) != FS_OK)
        printf("# %s\n", err.text);
    return g;
}

static inline hw_cluster *build_cluster(int32_t devices, fs_arena *arena)
{
    hw_cluster *c = fs_new(arena, hw_cluster, 1);
    hw_link link = {.name = "wire", .latency_s = 1e-6, .bandwidth_bps = 1e10};

    c->name = "toy";
    c->n_groups = 1;
    c->groups = fs_new(arena, hw_group, 1);
    c->groups[0] = (hw_group){.nodes = 1,
                              .devices_per_node = devices,
                              .device = {.name = "toy",
                                         .memory_bytes = 1e9,
                                         .memory_bps = 1e10,
                                         .fp32_flops = 1e10,
                                         .matmul_efficiency = 1,
                                         .memory_efficiency = 1,
                                         .launch_s = 1e-6,
                                         .source = "made up"},
                              .inner = link,
                              .memory = link};
    c->outer = link;
    hw_cluster_finish(c);
    return c;
}

#endif
