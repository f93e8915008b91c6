/* Rewrites into attention and rotary: the ops that come out, the same
 * values. */
#include "config.h"

#include "rewritten.h"
#include "tap.h"

/* ---- attention ---- */

typedef struct attention_form {
    const char *what;
    int64_t shared;      /* heads of q per head of k and v, repeated */
    bool masked, causal; /* where(mask, fill, scores); else no mask */
    bool biased;         /* a causal mask that is added */
    bool trained;        /* a bias by heads is added first */
    bool padded;         /* (1 - bools) * lowest is added */
    bool early;          /* q and k are scaled, not the scores */
    bool flat;           /* k arrives as (B,G,D,S) */
    int32_t transposes;  /* that are left */
    int32_t n_in;        /* of the op */
} attention_form;

static int32_t heads(ir_graph *g, const char *name, ir_shape shape,
                     int64_t shared)
{
    int32_t x = ir_parameter(g, name, IR_F32, shape,
                             (ir_init){.kind = IR_INIT_NORMAL, .spread = 1});
    const int64_t *d = shape.dim;
    if (shared == 1)
        return x;
    x = ir_reshape(g, x, (ir_shape){5, {d[0], d[1], 1, d[2], d[3]}});
    x = ir_broadcast_to(g, x, (ir_shape){5, {d[0], d[1], shared, d[2], d[3]}});
    return ir_reshape(g, x, (ir_shape){4, {d[0], d[1] * shared, d[2], d[3]}});
}

enum { QUERIES = 5 };
static unsigned char hidden[QUERIES * QUERIES];
static float bias[QUERIES * QUERIES];

/* (1 - mask) * lowest of the keys, by samples. */
static int32_t padding(ir_graph *g)
{
    static const unsigned char shown[2 * QUERIES] = {1, 1, 1, 0, 0, 1, 1, 1, 1};
    int32_t x = ir_constant(g, "shown", IR_BOOL,
                            (ir_shape){4, {2, 1, 1, QUERIES}}, shown);
    return ir_scale(g, ir_scale(g, ir_cast(g, x, IR_F32), -1, 1), -3e38, 0);
}

static int32_t mask_scores(ir_graph *g, const attention_form *f, int32_t s)
{
    const ir_shape space = {2, {QUERIES, QUERIES}};
    for (int32_t i = 0; i < QUERIES * QUERIES; i++) {
        const bool after = i % QUERIES > i / QUERIES;
        hidden[i] = f->causal ? after : i % 3 == 1;
        bias[i] = after ? -INFINITY : 0;
    }
    if (f->trained)
        s = ir_binary(
            g, IR_OP_add,
            heads(g, "distance", (ir_shape){3, {2, QUERIES, QUERIES}}, 1), s);
    if (f->padded)
        s = ir_binary(g, IR_OP_add, s, padding(g));
    if (f->biased)
        return ir_binary(g, IR_OP_add, s,
                         ir_constant(g, "bias", IR_F32, space, bias));
    if (!f->masked)
        return s;
    const int32_t mask = ir_constant(g, "mask", IR_BOOL, space, hidden);
    return ir_where(g, mask, ir_number(g, IR_F32, -INFINITY), s);
}

static ir_graph *attend(const attention_form *f)
{
    ir_graph *g = ir_graph_create("attend");
    const int64_t shared = f->shared, n = QUERIES;
    const int32_t q = heads(g, "q", (ir_shape){4, {2, 2 * shared, n, 3}}, 1);
    int32_t k = heads(g, "k", (ir_shape){4, {2, 2, n, 3}}, shared);
    const int32_t v = heads(g, "v", (ir_shape){4, {2, 2, n, 4}}, shared);
    if (f->flat)
        k = ir_transpose(g, ir_transpose(g, k, (int32_t[]){0, 2, 1, 3}),
                         (int32_t[]){0, 2, 3, 1});
    int32_t s =
        ir_matmul(g, f->early ? ir_scale(g, q, 0.6, 0) : q, k, false, !f->flat);
    if (!f->early)
        s = ir_scale(g, s, 0.6, 0);
    s = ir_softmax(g, mask_scores(g, f, s));
    const int32_t y = ir_matmul(g, s, v, false, false);
    g->loss = ir_reduce_sum(g, ir_unary(g, IR_OP_tanh, y), 15, false);
    return g;
}

static void test_attention(void)
{
    static const attention_form forms[] = {
        {.what = "no mask", .shared = 1, .n_in = 3},
        {.what = "any mask", .shared = 1, .masked = true, .n_in = 4},
        {.what = "a causal mask",
         .shared = 1,
         .masked = true,
         .causal = true,
         .n_in = 3},
        {.what = "a causal bias",
         .shared = 1,
         .biased = true,
         .causal = true,
         .n_in = 3},
        {.what = "a trained bias", .shared = 1, .trained = true, .n_in = 4},
        {.what = "a trained bias and a causal mask",
         .shared = 1,
         .trained = true,
         .masked = true,
         .causal = true,
         .n_in = 4},
        {.what = "padding that is added and a causal bias",
         .shared = 1,
         .padded = true,
         .biased = true,
         .causal = true,
         .n_in = 4},
        {.what = "q that is scaled", .shared = 1, .early = true, .n_in = 3},
        {.what = "keys as columns",
         .shared = 1,
         .flat = true,
         .transposes = 2,
         .n_in = 3},
        {.what = "repeated heads",
         .shared = 3,
         .masked = true,
         .causal = true,
         .n_in = 3}};
    const ir_rewrite_options all = fusing();
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const attention_form *f = &forms[i];
        ir_graph *g = attend(f);
        const double before = value_of(g);
        ir_rewrite(g, &all);
        tap_near(value_of(g), before, 1e-5, "attention, %s: same value",
                 f->what);
        const int32_t v = ir_graph_find(g, "matmul_1");
        const ir_node *node = &g->nodes.at[g->tensors.at[v].producer];
        tap_ok(node->op == IR_OP_attention && count(g, IR_OP_softmax) == 0 &&
                   count(g, IR_OP_scale) == (f->padded ? 1 : 0) &&
                   node->i[0] == f->causal && node->i[1] == f->shared &&
                   node->n_in == f->n_in &&
                   count(g, IR_OP_transpose) == f->transposes,
               "attention, %s: one op", f->what);
        tap_equal_int(ir_graph_check(g, NULL), FS_OK, "in a sound graph");
        ir_graph_destroy(g);
    }
}

/* Two biases that are no constants: the op has room for one. */
static void test_two_biases(void)
{
    ir_graph *g = ir_graph_create("bias");
    const ir_rewrite_options all = fusing();
    const ir_shape shape = {4, {1, 2, 5, 5}};
    const int32_t x = heads(g, "x", shape, 1), b = heads(g, "b", shape, 1);
    int32_t s = ir_matmul(g, x, x, false, true);
    s = ir_binary(g, IR_OP_add, ir_binary(g, IR_OP_add, s, b),
                  heads(g, "c", shape, 1));
    s = ir_softmax(g, s);
    g->loss = ir_reduce_sum(g, ir_matmul(g, s, x, false, false), 15, false);
    ir_rewrite(g, &all);
    tap_equal_int(count(g, IR_OP_attention), 0,
                  "attention with two biases is left alone");
    ir_graph_destroy(g);
}

/* ---- rotary ---- */

enum { SEQ = 3, WIDTH = 8 };

static int32_t table(ir_graph *g, const char *name, int64_t columns)
{
    return heads(g, name, (ir_shape){2, {SEQ, columns}}, 1);
}

static int32_t mul(ir_graph *g, int32_t a, int32_t b)
{
    return ir_binary(g, IR_OP_mul, a, b);
}

/* x cos + concat(-second half, first half) sin, of the first n columns. */
static int32_t rotate_whole(ir_graph *g, int32_t x, int64_t n)
{
    const int32_t turned[2] = {
        ir_scale(g, ir_slice(g, x, 3, n / 2, n / 2), -1, 0),
        ir_slice(g, x, 3, 0, n / 2)};
    return ir_binary(g, IR_OP_add, mul(g, table(g, "cos", n), x),
                     mul(g, ir_concat(g, turned, 2, 3), table(g, "sin", n)));
}

static int32_t build_whole(ir_graph *g, int32_t x)
{
    return rotate_whole(g, x, WIDTH);
}

static int32_t build_first(ir_graph *g, int32_t x)
{
    const int32_t parts[2] = {rotate_whole(g, ir_slice(g, x, 3, 0, 4), 4),
                              ir_slice(g, x, 3, 4, WIDTH - 4)};
    return ir_concat(g, parts, 2, 3);
}

/* a cos - b sin and b cos + a sin of halves or of neighbours. */
static void rotate_pairs(ir_graph *g, int32_t a, int32_t b, int32_t out[2])
{
    const int32_t c = table(g, "cos", WIDTH / 2),
                  s = table(g, "sin", WIDTH / 2);
    out[0] = ir_binary(g, IR_OP_sub, mul(g, a, c), mul(g, s, b));
    out[1] = ir_binary(g, IR_OP_add, mul(g, a, s), mul(g, b, c));
}

static int32_t build_halves(ir_graph *g, int32_t x)
{
    int32_t y[2];
    rotate_pairs(g, ir_slice(g, x, 3, 0, WIDTH / 2),
                 ir_slice(g, x, 3, WIDTH / 2, WIDTH / 2), y);
    return ir_concat(g, y, 2, 3);
}

static int32_t build_neighbours(ir_graph *g, int32_t x)
{
    const ir_shape shape = ir_shape_of(g, x);
    const ir_shape column = {5, {2, 2, SEQ, WIDTH / 2, 1}};
    int32_t y[2];
    rotate_pairs(g, ir_slice_by(g, x, 3, (int64_t[]){0, WIDTH / 2, 2}),
                 ir_slice_by(g, x, 3, (int64_t[]){1, WIDTH / 2, 2}), y);
    y[0] = ir_reshape(g, y[0], column);
    y[1] = ir_reshape(g, y[1], column);
    return ir_reshape(g, ir_concat(g, y, 2, 4), shape);
}

/* The second half minus the first: no rotation. */
static int32_t build_mirrored(ir_graph *g, int32_t x)
{
    const int32_t turned[2] = {
        ir_slice(g, x, 3, WIDTH / 2, WIDTH / 2),
        ir_scale(g, ir_slice(g, x, 3, 0, WIDTH / 2), -1, 0)};
    return ir_binary(
        g, IR_OP_add, mul(g, x, table(g, "cos", WIDTH)),
        mul(g, ir_concat(g, turned, 2, 3), table(g, "sin", WIDTH)));
}

static void test_rotary(void)
{
    static const struct {
        const char *what;
        int32_t (*build)(ir_graph *g, int32_t x);
        int64_t mixed, columns; /* 0: it is none */
    } rows[] = {{"x cos + turned sin", build_whole, 0, WIDTH},
                {"the first columns", build_first, 0, 4},
                {"halves", build_halves, 0, WIDTH},
                {"neighbours", build_neighbours, 1, WIDTH},
                {"a mirrored form", build_mirrored, 0, 0}};
    const ir_rewrite_options all = fusing();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ir_graph *g = ir_graph_create("rotate");
        const int32_t x = heads(g, "x", (ir_shape){4, {2, 2, SEQ, WIDTH}}, 1);
        const int32_t y = rows[i].build(g, x);
        g->loss = ir_reduce_sum(g, ir_unary(g, IR_OP_tanh, y), 15, false);
        const double before = value_of(g);
        ir_rewrite(g, &all);
        tap_near(value_of(g), before, 1e-5, "rotary, %s: same value",
                 rows[i].what);
        const int32_t n = count(g, IR_OP_rotary);
        tap_equal_int(n, rows[i].columns > 0, "rotary, %s: one op, or none",
                      rows[i].what);
        for (int32_t v = 0; v < g->nodes.n; v++)
            if (g->nodes.at[v].op == IR_OP_rotary)
                tap_ok(g->nodes.at[v].i[0] == rows[i].mixed &&
                           g->nodes.at[v].i[1] == rows[i].columns &&
                           count(g, IR_OP_slice) == 0,
                       "rotary, %s: of these columns, nothing else left",
                       rows[i].what);
        ir_graph_destroy(g);
    }
}

int main(void)
{
    test_attention();
    test_two_biases();
    test_rotary();
    return tap_done();
}
