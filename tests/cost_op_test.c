/* Compute: the roofline, measured points, what is free. */
#include "config.h"
#include "cost/cost.h"

#include "cost/points.h"
#include "hw/samples.h"
#include "ir/rewrite.h"
#include "plan/boxing.h"
#include "tap.h"

static fs_arena *arena;

static hw_cluster *make_cluster(void)
{
    hw_cluster *c = fs_new(arena, hw_cluster, 1);
    c->name = "test";
    c->n_groups = 1;
    c->groups = fs_new(arena, hw_group, 1);
    c->groups[0] = (hw_group){.nodes = 1,
                              .devices_per_node = 4,
                              .device = {.name = "d",
                                         .memory_bytes = 1e9,
                                         .memory_bps = 1e11,
                                         .fp32_flops = 1e12,
                                         .matmul_efficiency = 0.5,
                                         .memory_efficiency = 0.8,
                                         .launch_s = 1e-6},
                              .inner = {"inner", 1e-6, 1e10, true},
                              .memory = {"memory", 1e-6, 4e10, true},
                              .cores_per_node = 2};
    c->outer = (hw_link){"outer", 1e-5, 1e9, false};
    hw_cluster_finish(c);
    return c;
}

typedef struct net {
    ir_graph *graph;
    int32_t matmul, gelu, relu, reshape, transpose; /* nodes */
} net;

static net make_net(void)
{
    net n = {.graph = ir_graph_create("net")};
    ir_graph *g = n.graph;
    ir_shape a = {2, {64, 128}}, b = {2, {128, 256}}, flat = {1, {64 * 256}};
    int32_t perm[2] = {1, 0};
    int32_t x = ir_input(g, "x", IR_F32, a, 0);
    int32_t w = ir_parameter(g, "w", IR_F32, b, (ir_init){0});
    int32_t y = ir_matmul(g, x, w, false, false);
    int32_t z = ir_unary(g, IR_OP_gelu, y);
    int32_t r = ir_unary(g, IR_OP_relu, z);
    int32_t f = ir_reshape(g, r, flat);
    int32_t t = ir_transpose(g, r, perm);
    if (g->err.status != FS_OK) {
        printf("Bail out! %s\n", g->err.text);
        exit(99);
    }
    n.matmul = g->tensors.at[y].producer;
    n.gelu = g->tensors.at[z].producer;
    n.relu = g->tensors.at[r].producer;
    n.reshape = g->tensors.at[f].producer;
    n.transpose = g->tensors.at[t].producer;
    return n;
}

static plan_demand demand_of(const hw_cluster *c, const net *n, int32_t node,
                             const ir_nd_sig *sig, int32_t ranks)
{
    cost_model *model = cost_model_create(c, arena);
    plan_stage stage = {.mesh = {1, {ranks}}};
    static const ir_nd_sig whole;
    return cost_op(model, n->graph, &n->graph->nodes.at[node],
                   sig ? sig : &whole, &stage);
}

static void test_roofline(const net *n)
{
    hw_cluster *c = make_cluster();
    plan_demand d = demand_of(c, n, n->matmul, NULL, 1);
    double flop = 2.0 * 64 * 128 * 256;
    tap_near(d.compute_s, flop / 0.5e12, 1e-9, "matmul: flop / reached rate");
    tap_near(d.memory_s, 4.0 * (64 * 128 + 128 * 256 + 64 * 256) / 0.8e11, 1e-9,
             "matmul: bytes / reached bandwidth");
    tap_near(d.total_s, 1e-6 + fmax(d.compute_s, d.memory_s), 1e-12,
             "the roofline: launch and the larger of the two");
    tap_ok(d.on_core, "processes compute on shared cores");
    ir_nd_sig split = {.in = {{{IR_SBP_S(0)}}}, .out = {{{IR_SBP_S(0)}}}};
    plan_demand half = demand_of(c, n, n->matmul, &split, 2);
    tap_near(half.compute_s, d.compute_s / 2, 1e-9,
             "half of the rows, half of the flop");
    c->groups[0].device.fp32_flops = 0;
    c->groups[0].device.bf16_flops = 4e12;
    tap_near(demand_of(c, n, n->matmul, NULL, 1).compute_s, d.compute_s / 4,
             1e-9, "a device without an fp32 peak runs at its next");
    c->groups[0].device.bf16_flops = 0;
    c->groups[0].device.fp16_flops = 8e12;
    tap_near(demand_of(c, n, n->matmul, NULL, 1).compute_s, d.compute_s / 8,
             1e-9, "fp16's, where there is no other");
}

static void test_free(const net *n)
{
    hw_cluster *c = make_cluster();
    tap_equal_int(n->graph->nodes.at[0].op, IR_OP_input, "node 0: the input");
    tap_ok(demand_of(c, n, 0, NULL, 1).total_s == 0, "sources cost nothing");
    tap_ok(demand_of(c, n, n->reshape, NULL, 1).total_s == 0,
           "views cost nothing");
    tap_ok(demand_of(c, n, n->transpose, NULL, 1).total_s >= 1e-6,
           "copies cost their launch at least");
}

static hw_cluster *with_points(hw_point *points, int32_t n)
{
    hw_cluster *c = make_cluster();
    c->groups[0].device.points = points;
    c->groups[0].device.n_points = n;
    hw_cluster_finish(c);
    return c;
}

/* Seconds of the matmul (2 x 64 x 128 x 256 flop) by these points. */
static double matmul_by(const net *n, hw_point *points, int32_t n_points)
{
    return demand_of(with_points(points, n_points), n, n->matmul, NULL, 1)
        .total_s;
}

static void test_points(const net *n)
{
    double w = 2.0 * 64 * 128 * 256;
    hw_point around[] = {{.what = "matmul", .work = w * 3, .seconds = 5e-4},
                         {.what = "matmul", .work = w / 2, .seconds = 1e-4}};
    tap_near(matmul_by(n, around, 2), 1e-4 + 4e-4 * 0.5 / 2.5, 1e-9,
             "between two points: linear in work");
    hw_point above[] = {
        {.what = "matmul", .work = 4 * w, .seconds = 1e-4 + 1e-6}};
    tap_near(matmul_by(n, above, 1), 1e-6 + 1e-4 / 4, 1e-9,
             "before the first point: the line from the launch");
    hw_point tiny[] = {{.what = "matmul", .work = 4 * w, .seconds = 1e-8}};
    tap_near(matmul_by(n, tiny, 1), 1e-6, 1e-9, "never below the launch");
    hw_point one[] = {{.what = "matmul", .work = w / 4, .seconds = 1e-4}};
    tap_near(matmul_by(n, one, 1), 4e-4, 1e-9,
             "behind one point: its rate goes on");
    hw_point two[] = {{.what = "matmul", .work = w / 4, .seconds = 1e-4},
                      {.what = "matmul", .work = w / 2, .seconds = 1.5e-4}};
    tap_near(matmul_by(n, two, 2), 2.5e-4, 1e-9,
             "behind two points: their line goes on");
    hw_point falls[] = {{.what = "matmul", .work = w / 4, .seconds = 2e-4},
                        {.what = "matmul", .work = w / 2, .seconds = 1e-4}};
    tap_near(matmul_by(n, falls, 2), 3e-4, 1e-9,
             "where there is none that rises the last rate goes on");
}

/* Shapes of less work may take longer than others of more. */
static void test_monotone(const net *n)
{
    double w = 2.0 * 64 * 128 * 256;
    hw_point disturbed[] = {
        {.what = "matmul", .work = w / 2, .seconds = 1e-4},
        {.what = "matmul", .work = w, .seconds = 7e-4},
        {.what = "matmul", .work = 2 * w, .seconds = 2.5e-4},
        {.what = "matmul", .work = 4 * w, .seconds = 5e-4}};
    hw_point copy[4];
    memcpy(copy, disturbed, sizeof copy);
    tap_near(matmul_by(n, disturbed, 4), 4.75e-4, 1e-9,
             "a point above one with more work: both are their mean");
    tap_ok(disturbed[1].seconds == copy[1].seconds,
           "and stays with the cluster as it was measured");
    double before = 0;
    int32_t falls = 0;
    ir_nd_sig split = {.in = {{{IR_SBP_S(0)}}}, .out = {{{IR_SBP_S(0)}}}};
    for (int32_t ranks = 64; ranks >= 1; ranks /= 2) {
        hw_cluster *c = with_points(disturbed, 4);
        c->groups[0].devices_per_node = 64;
        hw_cluster_finish(c);
        double now = demand_of(c, n, n->matmul, &split, ranks).total_s;
        falls += now < before;
        before = now;
    }
    tap_equal_int(falls, 0, "half the work never takes longer");
}

static void test_names(const net *n)
{
    double bytes = 2 * 4.0 * 64 * 256;
    hw_point points[] = {{.what = "pointwise", .work = bytes, .seconds = 3e-4},
                         {.what = "gelu", .work = bytes, .seconds = 7e-4}};
    hw_cluster *c = with_points(points, 2);
    tap_near(demand_of(c, n, n->gelu, NULL, 1).total_s, 7e-4, 1e-9,
             "an op's own points count first");
    tap_near(demand_of(c, n, n->relu, NULL, 1).total_s, 3e-4, 1e-9,
             "else those of its class, by bytes");
    tap_near(demand_of(c, n, n->matmul, NULL, 1).total_s,
             demand_of(make_cluster(), n, n->matmul, NULL, 1).total_s, 1e-12,
             "else the roofline");
}

/* 64 x 256 elements are eight tiles; a tile of one step moves 16 KiB. */
static void test_chain(void)
{
    const double tile = 2 * 4.0 * 2048, whole = 8 * tile;
    hw_point points[] = {{.what = "pointwise", .work = tile, .seconds = 2e-6},
                         {.what = "pointwise", .work = whole, .seconds = 40e-6},
                         {.what = "gelu", .work = tile, .seconds = 6e-6},
                         {.what = "gelu", .work = whole, .seconds = 60e-6}};
    hw_cluster *c = with_points(points, 4);
    net n = make_net();
    ir_rewrite_step(n.graph, &(ir_rewrite_options){.chain = true});
    int32_t v = 0;
    while (v < n.graph->nodes.n && !n.graph->nodes.at[v].chain)
        v++;
    tap_near(demand_of(c, &n, v, NULL, 1).total_s,
             8 * (2e-6 + 6e-6) + 40e-6 - 8 * 2e-6, 1e-9,
             "a chain: its steps in cache, and what moving its ends adds");
    ir_graph_destroy(n.graph);
}

static void test_share(const net *n)
{
    hw_cluster *c = make_cluster();
    cost_model *model = cost_model_create(c, arena);
    plan_stage stage = {.mesh = {1, {4}}};
    ir_nd_sig whole = {0};
    plan_demand d = cost_op(model, n->graph, &n->graph->nodes.at[n->matmul],
                            &whole, &stage);
    tap_near(cost_node_seconds(model, n->graph, n->matmul, &whole, &stage),
             2 * d.total_s, 1e-12, "four devices on two cores: twice");
    c->groups[0].cores_per_node = 0;
    d.on_core = false;
    tap_near(cost_node_seconds(model, n->graph, n->matmul, &whole, &stage),
             d.total_s, 1e-12, "devices of their own share nothing");
}

static double all_ops(const hw_cluster *c, const net *n, int32_t ranks)
{
    double sum = 0;
    for (int32_t v = 0; v < n->graph->nodes.n; v++)
        sum += demand_of(c, n, v, NULL, ranks).total_s;
    return sum;
}

/* Two kinds of devices, each slower than the other at some ops. */
static void test_mixture(const net *n)
{
    hw_cluster *c[2] = {make_cluster(), make_cluster()};
    hw_cluster *both = make_cluster();
    double alone[2];
    c[1]->groups[0].device.fp32_flops = 4e11;
    c[1]->groups[0].device.memory_bps = 3e11;
    for (int32_t k = 0; k < 2; k++)
        alone[k] = all_ops(c[k], n, 2);
    tap_ok((demand_of(c[0], n, n->matmul, NULL, 2).total_s <
            demand_of(c[1], n, n->matmul, NULL, 2).total_s) &&
               (demand_of(c[0], n, n->gelu, NULL, 2).total_s >
                demand_of(c[1], n, n->gelu, NULL, 2).total_s),
           "one device is quick at matmul, the other at the rest");
    both->n_groups = 2;
    both->groups = fs_new(arena, hw_group, 2);
    for (int32_t k = 0; k < 2; k++) {
        both->groups[k] = c[k]->groups[0];
        both->groups[k].devices_per_node = 1;
    }
    hw_cluster_finish(both);
    tap_near(all_ops(both, n, 2), fmax(alone[0], alone[1]), 1e-12,
             "a mixture is as slow as the slower kind alone, not slower");
}

/* w, g and states of an update, whose node is returned. */
static int32_t add_update(ir_graph *g, ir_op_kind op, ir_dtype states,
                          int64_t rows)
{
    const ir_shape shape = {2, {rows, 512}};
    ir_node node = {.op = op, .n_in = 2 + ir_op_table[op]->states};
    for (int32_t k = 0; k < node.n_in; k++)
        node.in[k] =
            ir_input(g,
                     fs_printf(g->arena, "%s %d of %s", ir_op_table[op]->name,
                               k, ir_dtype_name(states)),
                     k < 2 ? IR_F32 : states, shape, 0);
    const int32_t v = ir_graph_add(g, &node);
    FS_ASSERT(v >= 0);
    return v;
}

static bool narrow_is_slower(const hw_cluster *c, ir_op_kind op, int64_t rows)
{
    net n = {.graph = ir_graph_create("updates")};
    ir_nd_sig split = {0};
    for (int32_t k = 0; k < IR_MAX_IN; k++)
        split.in[k].at[0] = split.out[k % IR_MAX_OUT].at[0] = IR_SBP_S(0);
    const int32_t wide = add_update(n.graph, op, IR_F32, rows);
    const int32_t narrow = add_update(n.graph, op, IR_BF16, rows);
    const bool slower = demand_of(c, &n, narrow, &split, 2).total_s >
                        demand_of(c, &n, wide, &split, 2).total_s;
    FS_ASSERT(cost_narrow_is_no_slower(cost_model_create(c, arena),
                                       &n.graph->nodes.at[wide]) ==
              (c->n_groups == 1));
    ir_graph_destroy(n.graph);
    return slower;
}

static int32_t count_slower(const hw_cluster *c)
{
    int32_t slower = 0;
    for (int32_t op = 0; op < IR_OP_COUNT; op++)
        for (int64_t rows = 2; rows <= 4096 && ir_op_table[op]->states;
             rows *= 2)
            slower += narrow_is_slower(c, (ir_op_kind)op, rows);
    return slower;
}

/* Where it is said of an op. */
static void test_narrow(const net *n)
{
    hw_point points[] = {{.what = "update", .work = 1e4, .seconds = 3e-5},
                         {.what = "update", .work = 1e5, .seconds = 2e-5},
                         {.what = "update", .work = 1e6, .seconds = 9e-4},
                         {.what = "update", .work = 2e6, .seconds = 4e-4}};
    hw_cluster *plain = make_cluster(), *fast = make_cluster();
    hw_cluster *measured = with_points(points, 4), *two = make_cluster();
    fast->groups[0].device.bf16_flops = 8e12;
    tap_equal_int(count_slower(plain) + count_slower(fast) +
                      count_slower(measured),
                  0, "no update takes longer with narrower states");
    two->n_groups = 2;
    two->groups = fs_new(arena, hw_group, 2);
    two->groups[0] = plain->groups[0];
    two->groups[1] = fast->groups[0];
    hw_cluster_finish(two);
    const cost_model *one = cost_model_create(plain, arena);
    tap_ok(count_slower(two) == 0 &&
               !cost_narrow_is_no_slower(one, &n->graph->nodes.at[n->matmul]),
           "not said of two kinds of devices, nor of what copies its operands");
}

/* Nodes of 16-bit floats: some differ by an attribute or a type alone. */
static void add_widened(ir_graph *g, int64_t rows)
{
    const ir_shape square = {2, {rows, rows}};
    for (int32_t k = 0; k < 8; k++) {
        const ir_dtype type = k < 4 ? IR_BF16 : IR_F16;
        const char *name = fs_printf(g->arena, "%lld, %d", (long long)rows, k);
        const int32_t x = ir_input(g, name, type, square, 0);
        const int32_t y = ir_matmul(g, x, x, k & 1, k & 2);
        ir_reduce_sum(g, ir_unary(g, IR_OP_gelu, y), 1u << (k & 1), false);
    }
}

/* What a model remembers of float copies is what they take: of types that the
 * device has no rate for. */
static void test_widened(double fp16_flops)
{
    hw_cluster *c = make_cluster();
    c->groups[0].device.fp16_flops = fp16_flops;
    const hw_device *d = &c->groups[0].device;
    const cost_model *model = cost_model_create(c, arena);
    ir_graph *g = ir_graph_create("widened");
    int32_t wrong = 0, copied = 0;
    for (int64_t rows = 2; rows <= 4096; rows *= 2)
        add_widened(g, rows);
    FS_ASSERT(g->err.status == FS_OK);
    for (int32_t k = 0; k < 6 * g->nodes.n; k++) {
        const ir_node *node = &g->nodes.at[k % g->nodes.n];
        ir_nd_sig split = {0};
        const plan_stage stage = {.mesh = {1, {2}}};
        ir_work work;
        if (k / g->nodes.n % 2)
            split.in[0].at[0] = split.out[0].at[0] = IR_SBP_S(0);
        ir_node_work(g, node, &split, &stage.mesh, &work);
        const double bytes =
            (double)(work.read_bytes + work.written_bytes) +
            (work.narrow == IR_BF16 || (work.narrow == IR_F16 && !fp16_flops)
                 ? 2 * (double)work.scratch_bytes
                 : 0);
        const double s = bytes / (d->memory_bps * d->memory_efficiency);
        const plan_demand told = cost_op(model, g, node, &split, &stage);
        const bool is_free = ir_op_class_of(node->op) == IR_CLASS_SOURCE;
        wrong += told.memory_s != (is_free ? 0 : s);
        copied += work.narrow == IR_F16 && work.scratch_bytes > 0;
    }
    tap_ok(wrong == 0 && copied > 0,
           "float copies: what is remembered is what they take, fp16 at %g",
           fp16_flops);
    ir_graph_destroy(g);
}

static bool names(const char *point, const char *collective, fs_err *err)
{
    hw_cluster *c = make_cluster();
    hw_point one = {.what = point, .work = 1, .seconds = 1};
    hw_collective all = {collective, 2, 1, 1};
    c->groups[0].device.points = &one;
    c->groups[0].device.n_points = point != NULL;
    c->groups[0].collectives = &all;
    c->groups[0].n_collectives = collective != NULL;
    return cost_points_check(c, "c.json", err) == FS_OK;
}

/* Whatever the tables have may be measured; nothing else. */
static void test_known(void)
{
    int32_t missed = 0, taken = 0;
    fs_err err = {0};
    for (int k = 0; k < IR_OP_COUNT; k++) {
        const ir_op_class of = ir_op_class_of((ir_op_kind)k);
        missed += !names(ir_op_table[k]->name, NULL, &err);
        missed += !names(ir_op_class_name(of), NULL, &err);
    }
    for (int k = 0; k < PLAN_BOX_KINDS; k++)
        taken += names(NULL, plan_box_name((plan_box_kind)k), &(fs_err){0}) !=
                 plan_box_is_collective((plan_box_kind)k);
    missed += !names(HW_PROCESS, NULL, &err) + !names(HW_PING, NULL, &err) +
              !names(HW_TURN, NULL, &err);
    tap_equal_int(missed, 0, "points of every op and class: %s", err.text);
    tap_equal_int(taken, 0, "collectives, and no step that is local");
    tap_ok(!names("fooop", NULL, &err) && strstr(err.text, "c.json") &&
               strstr(err.text, "points: what is \"fooop\""),
           "%s", err.text);
    err = (fs_err){0};
    tap_ok(!names(NULL, "foo", &err) && strstr(err.text, "c.json") &&
               strstr(err.text, "collectives: what is \"foo\""),
           "%s", err.text);
}

int main(void)
{
    arena = fs_arena_create();
    net n = make_net();
    test_roofline(&n);
    test_free(&n);
    test_points(&n);
    test_monotone(&n);
    test_names(&n);
    test_chain();
    test_share(&n);
    test_mixture(&n);
    test_narrow(&n);
    test_widened(0);
    test_widened(4e12);
    test_known();
    ir_graph_destroy(n.graph);
    fs_arena_destroy(arena);
    return tap_done();
}
