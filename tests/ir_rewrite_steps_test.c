/* Recurrent layers as steps: the values and gradients of the op. */
#include "config.h"

#include "interpret_fill.h"
#include "ir/element.h"
#include "ir/recurrent.h"
#include "ir/rewrite.h"
#include "ir/train.h"
#include "zoo_build.h"

#include <math.h>

enum { SAMPLES = 3, UNITS = 4 };

static const ir_rewrite_options steps = {.steps = true, .dead = true};

typedef struct form {
    const char *what;
    ir_cell cell;
    bool variant, reverse;
    ir_activation_kind f;
    int64_t t;
} form;

static int32_t param(ir_graph *g, const char *name, ir_shape shape)
{
    return ir_parameter(g, name, IR_F64, shape,
                        (ir_init){.kind = IR_INIT_UNIFORM, .spread = 0.7});
}

/* The gates are a parameter too, so that their gradient is compared. */
static ir_node layer(ir_graph *g, const form *f)
{
    const ir_cell_sizes n = ir_cell_of(f->cell);
    const int64_t h = UNITS, b = SAMPLES;
    const ir_shape extra = {2, {n.extra, h}};
    ir_node node = {.op = IR_OP_recurrent, .n_in = 4};
    node.in[0] = param(g, "gates", (ir_shape){4, {f->t, b, n.gates, h}});
    node.in[1] = param(g, "r", (ir_shape){3, {n.gates, h, h}});
    node.in[2] = param(g, "first", (ir_shape){3, {b, n.states, h}});
    node.in[3] = f->cell == IR_CELL_LSTM
                     ? ir_cast(g, ir_fill(g, extra, 0), IR_F64)
                     : param(g, "extra", extra);
    node.i[IR_CELL_KIND] = f->cell;
    node.i[IR_CELL_REVERSE] = f->reverse;
    node.i[IR_CELL_VARIANT] = f->variant;
    node.i[IR_CELL_F] = f->f;
    node.i[IR_CELL_F + 1] = node.i[IR_CELL_F + 2] = IR_ACTIVATION_TANH;
    return node;
}

/* The outputs, each element with another share of the loss. */
static int32_t weigh(ir_graph *g, int32_t x)
{
    x = ir_binary(g, IR_OP_mul, x, ir_unary(g, IR_OP_sigmoid, x));
    return ir_reduce_sum(g, x, 7, false);
}

static ir_graph *network(const form *f)
{
    ir_graph *g = ir_graph_create(f->what);
    const ir_node node = layer(g, f);
    const int32_t v = ir_graph_add(g, &node);
    if (v < 0)
        return g;
    const int32_t *out = g->nodes.at[v].out;
    const int32_t y = out[0], last = out[1];
    ir_graph_rename(g, y, "y");
    g->loss = ir_binary(g, IR_OP_add, weigh(g, y), weigh(g, last));
    return g;
}

static int32_t count(const ir_graph *g, ir_op_kind op)
{
    int32_t n = 0;
    for (int32_t v = 0; v < g->nodes.n; v++)
        n += g->nodes.at[v].op == op;
    return n;
}

static bool run(ir_graph *g, fs_arena *arena, interpreter *in)
{
    fs_err err = {0};
    ir_train_options options = ir_train_defaults();
    const bool good = ir_train(g, &options, &err) == FS_OK &&
                      ir_graph_check(g, &err) == FS_OK;
    if (good) {
        interpret_open(in, g, arena);
        interpret_fill(in);
    }
    if (good && interpret_phases(in, IR_FORWARD, IR_BACKWARD, &err) == FS_OK)
        return true;
    printf("# %s: %s\n", g->name, err.text);
    return false;
}

/* Largest difference of a tensor's elements; infinite when one has it not. */
static double tensor_apart(const interpreter *a, const interpreter *b,
                           const char *name)
{
    const int32_t x = ir_graph_find(a->graph, name);
    const int32_t y = ir_graph_find(b->graph, name);
    double most = x < 0 || y < 0 ? INFINITY : 0;
    if (most > 0)
        return most;
    const ir_tensor *t = &a->graph->tensors.at[x];
    for (int64_t k = 0; k < ir_shape_count(&t->shape); k++)
        most = fmax(most, fabs(ir_element_real(t->dtype, a->data[x], k) -
                               ir_element_real(t->dtype, b->data[y], k)));
    return most;
}

/* Loss and gradients of both, which are consumed. */
static double apart(ir_graph *whole, ir_graph *written)
{
    fs_arena *arena = fs_arena_create();
    interpreter a, b;
    double most = INFINITY;
    if (run(whole, arena, &a) && run(written, arena, &b))
        most = tensor_apart(&a, &b, whole->tensors.at[whole->loss].name);
    for (int32_t t = 0; isfinite(most) && t < whole->tensors.n; t++)
        if (whole->tensors.at[t].role == IR_PARAM)
            most =
                fmax(most, tensor_apart(&a, &b,
                                        fs_printf(arena, "%s.grad",
                                                  whole->tensors.at[t].name)));
    fs_arena_destroy(arena);
    ir_graph_destroy(whole);
    ir_graph_destroy(written);
    return most;
}

static void test_cells(void)
{
    static const form forms[] = {
        {"lstm", IR_CELL_LSTM, false, false, IR_ACTIVATION_SIGMOID, 5},
        {"lstm, reversed", IR_CELL_LSTM, false, true, IR_ACTIVATION_SIGMOID, 3},
        {"lstm, forget gate 1 - i", IR_CELL_LSTM, true, false,
         IR_ACTIVATION_SIGMOID, 3},
        {"lstm of one step", IR_CELL_LSTM, false, false, IR_ACTIVATION_SIGMOID,
         1},
        {"gru", IR_CELL_GRU, false, false, IR_ACTIVATION_SIGMOID, 5},
        {"gru, reversed", IR_CELL_GRU, false, true, IR_ACTIVATION_SIGMOID, 3},
        {"gru, reset after", IR_CELL_GRU, true, false, IR_ACTIVATION_SIGMOID,
         5},
        {"gru, reset after, reversed", IR_CELL_GRU, true, true,
         IR_ACTIVATION_SIGMOID, 3},
        {"rnn", IR_CELL_RNN, false, false, IR_ACTIVATION_TANH, 70},
        {"rnn of relu, reversed", IR_CELL_RNN, false, true, IR_ACTIVATION_RELU,
         9},
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        ir_graph *whole = network(&forms[i]), *written = network(&forms[i]);
        fs_err err = {0};
        ir_rewrite(written, &steps);
        tap_ok(ir_graph_check(written, &err) == FS_OK &&
                   count(written, IR_OP_recurrent) == 0 &&
                   ir_graph_find(written, "y") >= 0,
               "%s: ordinary ops, y keeps its name %s", forms[i].what,
               err.text);
        tap_ok(apart(whole, written) <= 1e-11,
               "%s: loss and gradients of the op", forms[i].what);
    }
}

static void test_zoo(void)
{
    static const char *const specs[] = {
        "lstm,layers=2,hidden=16,embedding=8,vocab=11,seq=10",
        "gru,layers=2,hidden=16,embedding=8,vocab=11,seq=10"};
    for (int k = 0; k < 2; k++) {
        ir_graph *whole = zoo_built(specs[k], SAMPLES);
        ir_graph *written = zoo_built(specs[k], SAMPLES);
        ir_rewrite(written, &steps);
        tap_equal_int(count(written, IR_OP_recurrent), 0, "%s: no scan is left",
                      specs[k]);
        tap_ok(apart(whole, written) <= 1e-6,
               "%s: loss and gradients of the op", specs[k]);
    }
}

/* A layer that is changed by `change` stays one op. */
static void expect_whole(form f, const char *what,
                         void (*change)(ir_graph *g, ir_node *node))
{
    ir_graph *g = ir_graph_create(what);
    ir_node node = layer(g, &f);
    change(g, &node);
    const int32_t v = ir_graph_add(g, &node);
    g->loss = v < 0 ? -1 : weigh(g, g->nodes.at[v].out[0]);
    ir_rewrite(g, &steps);
    tap_ok(g->err.status == FS_OK && count(g, IR_OP_recurrent) == 1,
           "%s: stays one op %s", what, g->err.text);
    ir_graph_destroy(g);
}

static void as_it_is(ir_graph *g, ir_node *node)
{
    (void)g, (void)node;
}

static void with_lengths(ir_graph *g, ir_node *node)
{
    node->in[node->n_in++] =
        ir_input(g, "lengths", IR_I64, (ir_shape){1, {SAMPLES}}, 0);
}

static void with_peepholes(ir_graph *g, ir_node *node)
{
    node->in[3] = param(g, "peepholes", (ir_shape){2, {3, UNITS}});
}

static void with_clip(ir_graph *g, ir_node *node)
{
    (void)g;
    node->f[IR_CELL_CLIP] = 1;
}

static void test_left(void)
{
    form f = {"", IR_CELL_LSTM, false, false, IR_ACTIVATION_SIGMOID, 3};
    expect_whole(f, "lengths", with_lengths);
    expect_whole(f, "peepholes", with_peepholes);
    expect_whole(f, "clipped gates", with_clip);
    f.f = IR_ACTIVATION_SOFTSIGN;
    expect_whole(f, "an activation of its own", as_it_is);
    f.f = IR_ACTIVATION_SIGMOID;
    f.t = 5000;
    expect_whole(f, "5000 steps", as_it_is);
}

int main(void)
{
    test_cells();
    test_zoo();
    test_left();
    return tap_done();
}
