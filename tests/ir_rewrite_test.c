/* Rewrites: the ops that come out, the same values, each switch. */
#include "config.h"

#include "rewritten.h"
#include "ir/train.h"
#include "tap.h"

static const float one = 1, half = 0.5f, root_two = 1.41421356f, eps = 1e-5f;

static int32_t constant(ir_graph *g, const char *name, const float *value)
{
    return ir_constant(g, name, IR_F32, (ir_shape){0}, value);
}

static int32_t param(ir_graph *g, const char *name, int32_t rank,
                     const int64_t *dim)
{
    return ir_parameter(g, name, IR_F32, ir_shape_make(rank, dim),
                        (ir_init){.kind = IR_INIT_NORMAL, .spread = 1});
}

/* As exporters write it: x / sqrt 2 -> erf -> + 1 -> * x -> * 0.5. */
static int32_t long_gelu(ir_graph *g, int32_t x)
{
    int32_t e = ir_binary(g, IR_OP_div, x, constant(g, "root_two", &root_two));
    e = ir_unary(g, IR_OP_erf, e);
    e = ir_binary(g, IR_OP_add, e, constant(g, "one", &one));
    e = ir_binary(g, IR_OP_mul, x, e);
    return ir_binary(g, IR_OP_mul, e, constant(g, "half", &half));
}

static int32_t long_layer_norm(ir_graph *g, int32_t x, int32_t gain,
                               int32_t bias)
{
    uint32_t last = 1u << (ir_shape_of(g, x).rank - 1);
    int32_t d = ir_binary(g, IR_OP_sub, x, ir_reduce_mean(g, x, last, true));
    int32_t v = ir_reduce_mean(g, ir_power(g, d, 2), last, true);
    v = ir_binary(g, IR_OP_add, v, constant(g, "eps", &eps));
    v = ir_binary(g, IR_OP_div, d, ir_unary(g, IR_OP_sqrt, v));
    return ir_binary(g, IR_OP_add, ir_binary(g, IR_OP_mul, v, gain), bias);
}

/* A layer norm, a linear layer with a transposed weight, a gelu, scalars. */
static ir_graph *network(void)
{
    ir_graph *g = ir_graph_create("net");
    int32_t x =
        ir_input(g, "x", IR_F32, ir_shape_make(3, (int64_t[]){2, 3, 4}), 0);
    int32_t gain = param(g, "gain", 1, (int64_t[]){4});
    int32_t bias = param(g, "bias", 1, (int64_t[]){4});
    int32_t w = param(g, "w", 2, (int64_t[]){5, 4});
    int32_t wt = ir_transpose(g, w, (int32_t[]){1, 0});
    int32_t y = long_layer_norm(g, x, gain, bias);
    y = long_gelu(g, ir_matmul(g, y, wt, false, false));
    ir_graph_rename(g, y, "activation");
    y = ir_scale(g, ir_scale(g, y, 3, 1), -2, 0.25);
    g->loss = ir_reduce_mean(g, y, 7, false);
    return g;
}

static void test_all(void)
{
    ir_graph *g = network();
    double before = value_of(g);
    ir_rewrite_options all = fusing();
    fs_err err = {0};
    ir_rewrite(g, &all);
    tap_near(value_of(g), before, 1e-5,
             "the rewritten network has the same "
             "loss");
    tap_ok(count(g, IR_OP_gelu) == 1 && count(g, IR_OP_erf) == 0,
           "the erf form becomes one gelu");
    tap_ok(count(g, IR_OP_layer_norm) == 1 && count(g, IR_OP_sqrt) == 0,
           "nine nodes become one layer_norm");
    tap_ok(count(g, IR_OP_transpose) == 0 &&
               g->nodes.at[g->tensors.at[ir_graph_find(g, "matmul")].producer]
                       .i[1] == 1,
           "the weight's transpose moves into the matmul");
    tap_equal_int(count(g, IR_OP_scale), 2,
                  "scalars in a row become one scale (the mean has another)");
    tap_equal_int(count(g, IR_OP_constant), 0, "their constants are gone");
    tap_ok(ir_graph_find(g, "activation") >= 0 && ir_graph_find(g, "w") >= 0,
           "tensors keep their names");
    tap_equal_int(ir_graph_check(g, &err), FS_OK, "the graph is sound");
    ir_train_options o = ir_train_defaults();
    tap_equal_int(ir_train(g, &o, &err), FS_OK, "and can be trained");
    ir_graph_destroy(g);
}

static void test_switches(void)
{
    static const struct {
        const char *name;
        ir_rewrite_options on;
        ir_op_kind op;
        int32_t before, after;
    } rows[] = {
        {"none", {0}, IR_OP_erf, 1, 1},
        {"gelu", {.gelu = true, .dead = true}, IR_OP_erf, 1, 0},
        {"layer_norm", {.layer_norm = true, .dead = true}, IR_OP_power, 1, 0},
        {"transpose", {.transpose = true, .dead = true}, IR_OP_transpose, 1, 0},
        {"scale", {.scale = true, .dead = true}, IR_OP_constant, 4, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ir_graph *g = network();
        double before = value_of(g);
        int32_t n = count(g, rows[i].op);
        ir_rewrite(g, &rows[i].on);
        tap_ok(n == rows[i].before && count(g, rows[i].op) == rows[i].after,
               "%s alone: %d %s become %d", rows[i].name, rows[i].before,
               ir_op_table[rows[i].op]->name, rows[i].after);
        tap_near(value_of(g), before, 1e-5, "%s alone: same loss",
                 rows[i].name);
        ir_graph_destroy(g);
    }
}

/* Near misses must stay as they are. */
static void test_near_misses(void)
{
    static const float other = 1.5f;
    ir_graph *g = ir_graph_create("near");
    ir_rewrite_options on = {
        .gelu = true, .layer_norm = true, .transpose = true, .dead = true};
    int32_t x =
        ir_input(g, "x", IR_F32, ir_shape_make(3, (int64_t[]){2, 4, 4}), 0);
    int32_t e = ir_binary(g, IR_OP_div, x, constant(g, "other", &other));
    e = ir_scale(g, ir_unary(g, IR_OP_erf, e), 1, 1);
    e = ir_scale(g, ir_binary(g, IR_OP_mul, x, e), 0.5, 0);
    int32_t t = ir_transpose(g, x, (int32_t[]){2, 1, 0});
    t = ir_transpose(g, t, (int32_t[]){2, 1, 0});
    t = ir_matmul(g, t, e, false, false);
    g->loss = ir_reduce_mean(g, t, 7, false);
    int32_t n = g->nodes.n;
    ir_rewrite(g, &on);
    tap_equal_int(g->nodes.n, n,
                  "another constant or permutation is left alone");
    ir_graph_destroy(g);
}

/* A chain far longer than any stack takes its time, not the program. */
static void test_long_chain(void)
{
    ir_graph *g = ir_graph_create("chain");
    ir_rewrite_options all = fusing();
    int32_t x = ir_input(g, "x", IR_F32, (ir_shape){0}, -1);
    for (int32_t i = 0; i < 20000; i++)
        x = ir_binary(g, IR_OP_mul, x, x);
    g->loss = x;
    ir_rewrite(g, &all);
    tap_equal_int(g->nodes.n, 20001, "a chain of 20000 products stays");
    ir_graph_destroy(g);
}

/* LLaMA's norm as PyTorch exports it. */
static void test_rms_norm(void)
{
    ir_graph *g = ir_graph_create("rms");
    ir_shape shape = {2, {4, 6}}, row = {1, {6}};
    int32_t x = ir_input(g, "x", IR_F32, shape, 0);
    int32_t gain = ir_parameter(g, "gain", IR_F32, row,
                                (ir_init){.kind = IR_INIT_CONSTANT});
    int32_t mean = ir_reduce_mean(g, ir_power(g, x, 2), 2, true);
    int32_t root = ir_unary(g, IR_OP_sqrt, ir_scale(g, mean, 1, 1e-5));
    int32_t inverse = ir_scale(g, ir_power(g, root, -1), 1, 0);
    int32_t y =
        ir_binary(g, IR_OP_mul, gain, ir_binary(g, IR_OP_mul, x, inverse));
    g->loss = ir_reduce_sum(g, ir_unary(g, IR_OP_tanh, y), 3, false);
    double before = value_of(g);
    ir_rewrite_options all = fusing();
    ir_rewrite(g, &all);
    tap_near(value_of(g), before, 1e-5, "an RMS norm keeps its value");
    tap_ok(count(g, IR_OP_layer_norm) == 1 && count(g, IR_OP_sqrt) == 0,
           "and becomes one layer_norm that does not centre");
    ir_graph_destroy(g);
}

/* One network of `build` from x (4, 6) and a vector, its value kept. */
static ir_graph *rewritten(int32_t build(ir_graph *g, int32_t x, int32_t w),
                           const char *what)
{
    ir_graph *g = ir_graph_create("one");
    ir_shape shape = {2, {4, 6}}, row = {1, {6}};
    int32_t x = ir_input(g, "x", IR_F32, shape, 0);
    int32_t w =
        ir_parameter(g, "w", IR_F32, row, (ir_init){.kind = IR_INIT_CONSTANT});
    g->loss =
        ir_reduce_sum(g, ir_unary(g, IR_OP_tanh, build(g, x, w)), 3, false);
    double before = value_of(g);
    ir_rewrite_options all = fusing();
    ir_rewrite(g, &all);
    tap_near(value_of(g), before, 1e-5, "%s: same value", what);
    tap_equal_int(ir_graph_check(g, NULL), FS_OK, "%s: a sound graph", what);
    return g;
}

static int32_t build_silu(ir_graph *g, int32_t x, int32_t w)
{
    int32_t y = ir_binary(g, IR_OP_add, x, w);
    return ir_binary(g, IR_OP_mul, ir_unary(g, IR_OP_sigmoid, y), y);
}

static const double root_2_pi = 0.7978845608028654;

/* 0.5 x (1 + tanh(c (x + 0.044715 x^3))) */
static int32_t build_gelu_power(ir_graph *g, int32_t x, int32_t w)
{
    (void)w;
    int32_t t = ir_scale(g, ir_power(g, x, 3), 0.044715, 0);
    t = ir_scale(g, ir_binary(g, IR_OP_add, x, t), root_2_pi, 0);
    t = ir_scale(g, ir_unary(g, IR_OP_tanh, t), 1, 1);
    return ir_binary(g, IR_OP_mul, ir_scale(g, x, 0.5, 0), t);
}

/* The same with c x (1 + 0.044715 x x). */
static int32_t build_gelu_factors(ir_graph *g, int32_t x, int32_t w)
{
    (void)w;
    int32_t t = ir_binary(g, IR_OP_mul, x, ir_scale(g, x, 0.044715, 0));
    t = ir_binary(g, IR_OP_mul, ir_scale(g, x, root_2_pi, 0),
                  ir_scale(g, t, 1, 1));
    t = ir_scale(g, ir_unary(g, IR_OP_tanh, t), 1, 1);
    return ir_scale(g, ir_binary(g, IR_OP_mul, x, t), 0.5, 0);
}

/* x / sqrt(mean(x x) + eps) * w, by Div, and by Div into 1. */
static int32_t build_rms_div(ir_graph *g, int32_t x, int32_t w)
{
    int32_t m = ir_reduce_mean(g, ir_binary(g, IR_OP_mul, x, x), 2, true);
    int32_t root = ir_unary(g, IR_OP_sqrt, ir_scale(g, m, 1, 1e-5));
    return ir_binary(g, IR_OP_mul, ir_binary(g, IR_OP_div, x, root), w);
}

static int32_t build_rms_inverse(ir_graph *g, int32_t x, int32_t w)
{
    int32_t m = ir_reduce_mean(g, ir_power(g, x, 2), 2, true);
    int32_t root = ir_unary(g, IR_OP_sqrt, ir_scale(g, m, 1, 1e-5));
    root = ir_binary(g, IR_OP_div, constant(g, "one", &one), root);
    return ir_binary(g, IR_OP_mul, w, ir_binary(g, IR_OP_mul, root, x));
}

/* Without gain and bias, and x - mean written twice. */
static int32_t build_plain_norm(ir_graph *g, int32_t x, int32_t w)
{
    (void)w;
    int32_t d = ir_binary(g, IR_OP_sub, x, ir_reduce_mean(g, x, 2, true));
    int32_t e = ir_binary(g, IR_OP_sub, x, ir_reduce_mean(g, x, 2, true));
    int32_t v = ir_reduce_mean(g, ir_power(g, d, 2), 2, true);
    return ir_binary(g, IR_OP_div, e,
                     ir_unary(g, IR_OP_sqrt, ir_scale(g, v, 1, 1e-5)));
}

static void test_forms(void)
{
    static const struct {
        const char *what;
        int32_t (*build)(ir_graph *g, int32_t x, int32_t w);
        ir_op_kind op;
        int32_t n; /* nodes that are left */
    } rows[] = {
        {"x sigmoid(x)", build_silu, IR_OP_silu, 6},
        {"GELU with tanh and x^3", build_gelu_power, IR_OP_gelu_tanh, 5},
        {"GELU with tanh and x x", build_gelu_factors, IR_OP_gelu_tanh, 5},
        {"RMS norm by a quotient", build_rms_div, IR_OP_layer_norm, 5},
        {"RMS norm by an inverse", build_rms_inverse, IR_OP_layer_norm, 5},
        {"layer norm alone", build_plain_norm, IR_OP_layer_norm, 5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ir_graph *g = rewritten(rows[i].build, rows[i].what);
        tap_ok(count(g, rows[i].op) == 1 && g->nodes.n == rows[i].n,
               "%s becomes one %s", rows[i].what,
               ir_op_table[rows[i].op]->name);
        ir_graph_destroy(g);
    }
}

/* ---- linear ---- */

static ir_graph *layer(bool bias_first, int64_t columns, bool read_twice)
{
    ir_graph *g = ir_graph_create("layer");
    int32_t x =
        ir_input(g, "x", IR_F32, ir_shape_make(3, (int64_t[]){2, 3, 4}), 0);
    int32_t w = param(g, "w", 2, (int64_t[]){4, 5});
    int32_t b = param(g, "b", 1, &columns);
    int32_t h = ir_matmul(g, x, w, false, false);
    int32_t y = ir_binary(g, IR_OP_add, bias_first ? b : h, bias_first ? h : b);
    if (read_twice)
        y = ir_binary(g, IR_OP_mul, y, h);
    g->loss = ir_reduce_sum(g, ir_unary(g, IR_OP_tanh, y), 7, false);
    return g;
}

static void test_linear(void)
{
    static const struct {
        const char *what;
        bool bias_first;
        int64_t columns;
        bool read_twice;
        int32_t adds;
    } rows[] = {
        {"product + bias", false, 5, false, 0},
        {"bias + product", true, 5, false, 0},
        {"a bias of one number is left alone", false, 1, false, 1},
        {"a product that is read twice is left alone", false, 5, true, 1},
    };
    const ir_rewrite_options on = {.linear = true, .dead = true};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ir_graph *g =
            layer(rows[i].bias_first, rows[i].columns, rows[i].read_twice);
        const double before = value_of(g);
        ir_rewrite(g, &on);
        tap_near(value_of(g), before, 1e-5, "%s: same value", rows[i].what);
        tap_ok(count(g, IR_OP_add) == rows[i].adds &&
                   count(g, IR_OP_matmul) == 1,
               "%s: %d adds stay", rows[i].what, rows[i].adds);
        ir_graph_destroy(g);
    }
}

/* ---- chains ---- */

/* tanh(x w + [x v or x]) twice, in a training step. */
static ir_graph *step_of(bool two_products)
{
    ir_graph *g = ir_graph_create("step");
    const ir_train_options options = ir_train_defaults();
    fs_err err = {0};
    int32_t x =
        ir_input(g, "x", IR_F32, ir_shape_make(2, (int64_t[]){6, 4}), 0);
    int32_t w = param(g, "w", 2, (int64_t[]){4, 4});
    int32_t v = param(g, "v", 2, (int64_t[]){4, 4});
    int32_t other = two_products ? ir_matmul(g, x, v, false, false) : x;
    int32_t y =
        ir_binary(g, IR_OP_add, ir_matmul(g, x, w, false, false), other);
    y = ir_scale(g, ir_unary(g, IR_OP_tanh, y), 2, 1);
    g->loss = ir_reduce_sum(g, y, 3, false);
    tap_equal_int(ir_train(g, &options, &err), FS_OK, "a step %s", err.text);
    ir_rewrite_options on;
    tap_equal_int(ir_rewrite_parse("chain", &err, &on), FS_OK, "chain alone");
    ir_rewrite_step(g, &on);
    tap_equal_int(ir_graph_check(g, &err), FS_OK, "is sound %s", err.text);
    return g;
}

static void test_chain(void)
{
    fs_err err = {0};
    ir_graph *g = step_of(false);
    tap_ok(count(g, IR_OP_add) == 0 && count(g, IR_OP_tanh) == 0 &&
               count(g, IR_OP_chain) > 0,
           "a sum, its tanh and scale become one");
    fs_text text = {.arena = g->arena};
    ir_graph_dump(g, &text);
    tap_ok(strstr(text.at, "{2=add(0,1); 3=tanh(2); 4=scale(3) f=2,1 -> 4,3}"),
           "its program is told, with what the backward pass reads");
    for (int32_t v = 0; v < g->nodes.n; v++)
        if (g->nodes.at[v].chain)
            g->nodes.at[v].i[0]++;
    tap_ok(ir_graph_check(g, &err) == FS_INVALID &&
               strstr(err.text, "digest of the chain's program"),
           "another program is no such chain: %s", err.text);
    ir_graph_destroy(g);
    g = step_of(true);
    tap_ok(count(g, IR_OP_add) == 1 && count(g, IR_OP_tanh) == 0,
           "a sum of two partial sums, to be reduced once, stays apart");
    ir_graph_destroy(g);
}

/* ---- what nothing needs ---- */

static void test_dead(void)
{
    ir_graph *g = network();
    ir_unary(g, IR_OP_tanh, ir_graph_find(g, "x"));
    const int32_t n = g->nodes.n;
    ir_rewrite(g, &(ir_rewrite_options){.dead = false});
    tap_equal_int(g->nodes.n, n, "without the rule a dead node stays");
    ir_rewrite(g, &(ir_rewrite_options){.dead = true});
    tap_equal_int(g->nodes.n, n - 1, "with it, it is gone");
    ir_graph_destroy(g);
}

/* The operands of what commutes stay in their order: copies of a block, of
 * which the first reads its input from a later tensor, look alike. */
static void test_order(void)
{
    ir_graph *g = ir_graph_create("order");
    int32_t w = param(g, "w", 1, (int64_t[]){4});
    int32_t x =
        ir_input(g, "x", IR_F32, ir_shape_make(2, (int64_t[]){2, 4}), 0);
    int32_t a = ir_binary(g, IR_OP_add, x, w),
            b = ir_binary(g, IR_OP_add, w, x);
    g->loss = ir_reduce_sum(g, ir_binary(g, IR_OP_mul, b, a), 3, false);
    ir_rewrite(g, &(ir_rewrite_options){.common = true, .dead = true});
    const ir_node *sum =
        &g->nodes.at[g->tensors.at[ir_graph_find(g, "add")].producer];
    tap_ok(count(g, IR_OP_add) == 1 && sum->in[0] == ir_graph_find(g, "x"),
           "sums in either order are one, in the order of the first");
    ir_graph_destroy(g);
}

/* Equal sums in either order, equal constants; masks drawn are not equal. */
static void test_common(void)
{
    ir_graph *g = ir_graph_create("common");
    ir_shape shape = {2, {4, 6}};
    int32_t x = ir_input(g, "x", IR_F32, shape, 0);
    int32_t w = ir_parameter(g, "w", IR_F32, shape,
                             (ir_init){.kind = IR_INIT_CONSTANT});
    int32_t a = ir_unary(g, IR_OP_exp, ir_binary(g, IR_OP_add, x, w));
    int32_t b = ir_unary(g, IR_OP_exp, ir_binary(g, IR_OP_add, w, x));
    b = ir_binary(g, IR_OP_mul, b, constant(g, "half", &half));
    a = ir_binary(g, IR_OP_mul, a, constant(g, "other", &half));
    int32_t y = ir_binary(g, IR_OP_add, ir_dropout(g, a, 0.5, 1),
                          ir_dropout(g, b, 0.5, 1));
    ir_mark_output(g, b);
    g->loss = ir_reduce_sum(g, y, 3, false);
    double before = value_of(g);
    ir_rewrite_options on = {.common = true, .dead = true};
    ir_rewrite(g, &on);
    tap_near(value_of(g), before, 1e-6, "merged nodes keep the value");
    tap_ok(count(g, IR_OP_exp) == 1 && count(g, IR_OP_constant) == 1 &&
               count(g, IR_OP_add) == 2,
           "sums in either order, functions and constants are merged");
    tap_equal_int(count(g, IR_OP_dropout), 2, "dropouts are not");
    tap_ok(g->outputs.n == 1, "what is an output stays");
    tap_equal_int(ir_graph_check(g, NULL), FS_OK, "the graph is sound");
    ir_train_options o = ir_train_defaults();
    tap_equal_int(ir_train(g, &o, NULL), FS_OK, "and can be trained");
    ir_graph_destroy(g);
}

/* What layers share goes before the first, so that all look alike. */
static void test_shared_first(void)
{
    ir_graph *g = ir_graph_create("layers");
    ir_shape shape = {2, {4, 6}};
    int32_t ids = ir_input(g, "ids", IR_F32, shape, 0), y = ids;
    for (int32_t i = 0; i < 3; i++) {
        int32_t angle = ir_scale(g, ir_unary(g, IR_OP_cos, ids), 2, 0);
        y = ir_unary(g, IR_OP_tanh, ir_binary(g, IR_OP_mul, y, angle));
    }
    g->loss = ir_reduce_sum(g, y, 3, false);
    ir_rewrite_options on = {.common = true, .dead = true};
    ir_rewrite(g, &on);
    tap_ok(count(g, IR_OP_cos) == 1 && g->nodes.at[1].op == IR_OP_cos &&
               g->nodes.at[2].op == IR_OP_scale,
           "what layers share stands before them");
    tap_equal_int(ir_graph_check(g, NULL), FS_OK, "in a sound graph");
    ir_graph_destroy(g);
}

static void test_parse(void)
{
    ir_rewrite_options o;
    fs_err err = {0};
    tap_ok(ir_rewrite_parse("all", &err, &o) == FS_OK && o.gelu && o.common,
           "all");
    tap_ok(ir_rewrite_parse("none", &err, &o) == FS_OK && !o.gelu && !o.pads,
           "none");
    tap_ok(ir_rewrite_parse("gelu,pads", &err, &o) == FS_OK && o.gelu &&
               o.pads && !o.scale,
           "names: these alone");
    tap_ok(ir_rewrite_parse("-gelu,-pads", &err, &o) == FS_OK && !o.gelu &&
               !o.pads && o.scale,
           "names after a minus: all but these");
    tap_ok(ir_rewrite_parse("gelu,glue", &err, &o) == FS_INVALID &&
               strstr(err.text, "'glue' is unknown; there are common, "),
           "%s", err.text);
    tap_ok(ir_rewrite_parse("", NULL, &o) == FS_INVALID, "no name");
    static const char *const unclear[] = {
        "all,none", "none,usual", "fold,-dead",    "-dead,fold",
        "gelu,all", "gelu,gelu",  "all,-gelu,gelu"};
    for (size_t i = 0; i < sizeof unclear / sizeof *unclear; i++) {
        fs_err why = {0};
        tap_ok(ir_rewrite_parse(unclear[i], &why, &o) == FS_INVALID &&
                   strstr(why.text, "contradicts itself"),
               "'%s' is refused", unclear[i]);
    }
    tap_ok(ir_rewrite_parse("usual,parts,-gelu", &err, &o) == FS_OK &&
               o.parts && !o.gelu && o.silu,
           "from the usual ones, more and less");
}

/* A norm of each kind, a softmax, a log softmax and a cross entropy. */
static ir_graph *rows_network(void)
{
    ir_graph *g = ir_graph_create("rows");
    int32_t x =
        ir_input(g, "x", IR_F32, ir_shape_make(3, (int64_t[]){2, 3, 4}), 0);
    int32_t y =
        ir_input(g, "y", IR_I64, ir_shape_make(2, (int64_t[]){2, 3}), 0);
    int32_t gain = param(g, "gain", 1, (int64_t[]){4});
    int32_t offset = param(g, "offset", 1, (int64_t[]){4});
    ir_node rms = {.op = IR_OP_layer_norm, .n_in = 2, .i = {1}, .f = {1e-5}};
    x = ir_layer_norm(g, x, gain, offset, 1e-5);
    ir_graph_rename(g, x, "normed");
    rms.in[0] = x;
    rms.in[1] = gain;
    x = ir_append(g, &rms);
    x = ir_binary(g, IR_OP_add, ir_softmax(g, x),
                  ir_unary(g, IR_OP_log_softmax, x));
    g->loss = ir_cross_entropy(g, x, y);
    ir_graph_rename(g, g->loss, "loss");
    return g;
}

static void test_parts(void)
{
    static const ir_op_kind whole[] = {IR_OP_softmax, IR_OP_log_softmax,
                                       IR_OP_layer_norm, IR_OP_cross_entropy};
    ir_graph *g = rows_network();
    fs_err err = {0};
    const double before = value_of(g);
    int32_t left = 0;
    ir_rewrite(g, &(ir_rewrite_options){.parts = true, .dead = true});
    for (int32_t k = 0; k < 4; k++)
        left += count(g, whole[k]);
    tap_equal_int(left, 0, "parts: no op keeps its row whole");
    tap_ok(ir_graph_check(g, &err) == FS_OK, "parts: the graph is sound %s",
           err.text);
    tap_near(value_of(g), before, 1e-6, "parts: the same value");
    tap_ok(ir_graph_find(g, "normed") >= 0 &&
               g->loss == ir_graph_find(g, "loss"),
           "parts: names and the loss stay");
    ir_graph_destroy(g);
    g = rows_network();
    const ir_node *norm =
        &g->nodes.at[g->tensors.at[ir_graph_find(g, "normed")].producer];
    ir_mark_output(g, norm->out[1]);
    ir_rewrite(g, &(ir_rewrite_options){.parts = true, .dead = true});
    tap_equal_int(count(g, IR_OP_layer_norm), 1,
                  "parts: a norm whose mean is read stays whole");
    ir_graph_destroy(g);
}

/* A vocabulary's loss may be cut by itself; ten classes stay one op. */
static void test_entropy(void)
{
    for (int64_t classes = 10; classes <= 10000; classes *= 1000) {
        ir_graph *g = ir_graph_create("loss");
        const int64_t rows = 4;
        int32_t x = ir_input(g, "x", IR_F32,
                             ir_shape_make(2, (int64_t[]){rows, classes}), 0);
        int32_t y = ir_input(g, "y", IR_I64, ir_shape_make(1, &rows), 0);
        g->loss = ir_cross_entropy(g, x, y);
        const ir_rewrite_options usual = ir_rewrite_usual();
        ir_rewrite(g, &usual);
        tap_equal_int(count(g, IR_OP_cross_entropy), classes == 10,
                      "entropy: %lld classes, whole", (long long)classes);
        ir_graph_destroy(g);
    }
}

int main(void)
{
    test_forms();
    test_linear();
    test_chain();
    test_dead();
    test_order();
    test_common();
    test_parts();
    test_entropy();
    test_shared_first();
    test_parse();
    test_all();
    test_rms_norm();
    test_switches();
    test_near_misses();
    test_long_chain();
    return tap_done();
}
