/* Autodiff and the training step: structure. Values are checked against finite
 * differences where the kernels are tested. */
#include "config.h"

#include "ir/narrow_states.h"
#include "ir/op.h"
#include "ir/train.h"
#include "tap.h"

static ir_shape matrix(int64_t a, int64_t b)
{
    return ir_shape_make(2, (int64_t[]){a, b});
}

static ir_shape vector(int64_t a)
{
    return ir_shape_make(1, &a);
}

static int32_t param(ir_graph *g, const char *name, ir_shape shape)
{
    return ir_parameter(g, name, IR_F32, shape,
                        (ir_init){.kind = IR_INIT_NORMAL, .spread = 0.1});
}

static ir_graph *mlp(void)
{
    ir_graph *g = ir_graph_create("mlp");
    int32_t x = ir_input(g, "x", IR_F32, matrix(8, 16), 0);
    int32_t y = ir_input(g, "y", IR_I64, vector(8), 0);
    int32_t w1 = param(g, "w1", matrix(16, 32)),
            b1 = param(g, "b1", vector(32));
    int32_t w2 = param(g, "w2", matrix(32, 10));
    int32_t h = ir_binary(g, IR_OP_add, ir_matmul(g, x, w1, false, false), b1);
    h = ir_unary(g, IR_OP_relu, h);
    g->loss = ir_cross_entropy(g, ir_matmul(g, h, w2, false, false), y);
    return g;
}

static fs_status train(ir_graph *g, ir_optimizer optimizer, int32_t m,
                       fs_err *err)
{
    ir_train_options o = ir_train_defaults();
    o.optimizer = optimizer;
    o.micro_batches = m;
    return ir_train(g, &o, err);
}

static const ir_node *maker(const ir_graph *g, const char *tensor)
{
    int32_t id = ir_graph_find(g, tensor);
    return id < 0 ? NULL : &g->nodes.at[g->tensors.at[id].producer];
}

static int32_t count(const ir_graph *g, ir_op_kind op)
{
    int32_t n = 0;
    for (int32_t v = 0; v < g->nodes.n; v++)
        n += g->nodes.at[v].op == op;
    return n;
}

static void test_golden(void)
{
    ir_graph *g = mlp();
    fs_text text = {.arena = g->arena};
    fs_err err = {0};
    tap_equal_int(train(g, IR_SGD, 4, &err), FS_OK, "an mlp can be trained");
    ir_graph_dump(g, &text);
    tap_equal_text(
        text.at,
        "graph mlp: 24 nodes, 24 tensors, micro-batches 4\n"
        "forward  x f32 8x16 = input batch=0\n"
        "forward  y i64 8 = input batch=0\n"
        "forward  w1 f32 16x32 = parameter next=w1.next\n"
        "forward  b1 f32 32 = parameter next=b1.next\n"
        "forward  w2 f32 32x10 = parameter next=w2.next\n"
        "forward  matmul f32 8x32 = matmul(x, w1)\n"
        "forward  add f32 8x32 = add(matmul, b1)\n"
        "forward  relu f32 8x32 = relu(add)\n"
        "forward  matmul_1 f32 8x10 = matmul(relu, w2)\n"
        "forward  cross_entropy f32 scalar, cross_entropy:1 f32 8x10 = "
        "cross_entropy(matmul_1, y) f=0.125\n"
        "forward  output(cross_entropy)\n"
        "backward cross_entropy.grad/fill f32 scalar = fill() f=0.25\n"
        "backward cross_entropy.grad/cross_entropy_grad f32 8x10 = "
        "cross_entropy_grad(cross_entropy.grad/fill, cross_entropy:1, y) "
        "f=0.125\n"
        "backward matmul_1.grad/matmul f32 8x32 = "
        "matmul(cross_entropy.grad/cross_entropy_grad, w2) i=0,1\n"
        "backward matmul_1.grad/weight_grad f32 32x10 = weight_grad(relu, "
        "cross_entropy.grad/cross_entropy_grad)\n"
        "backward w2.grad f32 32x10 = accumulate(matmul_1.grad/weight_grad) @ "
        "w2.grad.acc\n"
        "backward relu.grad/relu_grad f32 8x32 = "
        "relu_grad(matmul_1.grad/matmul, relu)\n"
        "backward add.grad/reduce_sum f32 32 = "
        "reduce_sum(relu.grad/relu_grad) i=1\n"
        "backward b1.grad f32 32 = accumulate(add.grad/reduce_sum) @ "
        "b1.grad.acc\n"
        "backward matmul.grad/weight_grad f32 16x32 = weight_grad(x, "
        "relu.grad/relu_grad)\n"
        "backward w1.grad f32 16x32 = accumulate(matmul.grad/weight_grad) @ "
        "w1.grad.acc\n"
        "update   w1.next f32 16x32 = sgd(w1, w1.grad) f=0.01 @ w1.update\n"
        "update   b1.next f32 32 = sgd(b1, b1.grad) f=0.01 @ b1.update\n"
        "update   w2.next f32 32x10 = sgd(w2, w2.grad) f=0.01 @ w2.update\n"
        "loss cross_entropy\n",
        "its step: seed 1/m, no gradient for x, accumulate, update");
    tap_equal_int(ir_graph_check(g, &err), FS_OK, "the graph is sound");
    tap_equal_int(g->micro_batches, 4, "the graph knows its micro-batches");
    ir_graph_destroy(g);
}

/* Is every state that an update keeps, before and after, of the type, and all
 * else of F32? */
static bool states_are(const ir_graph *g, ir_dtype dtype, int32_t n)
{
    int32_t found = 0;
    bool *is_state = fs_new(g->arena, bool, g->tensors.n);
    for (int32_t v = 0; v < g->nodes.n; v++)
        for (int32_t k = 0; k < ir_op_table[g->nodes.at[v].op]->states; k++) {
            const ir_tensor *t = &g->tensors.at[g->nodes.at[v].in[k + 2]];
            is_state[g->nodes.at[v].in[k + 2]] = is_state[t->next] = true;
            is_state[g->nodes.at[v].out[k + 1]] = true;
            found++;
        }
    for (int32_t t = 0; t < g->tensors.n; t++)
        if (ir_dtype_is_float(g->tensors.at[t].dtype) &&
            g->tensors.at[t].dtype != (is_state[t] ? dtype : IR_F32))
            return false;
    return found == n;
}

/* A loss scale chooses between the old and the new, and counts steps. */
static void test_states(ir_optimizer optimizer, bool scaled)
{
    ir_graph *g = mlp(), *wide;
    ir_train_options o = ir_train_defaults();
    fs_err err = {0};
    o.optimizer = optimizer;
    if (scaled)
        o.loss_scale = (ir_loss_scale){1024, true, 2};
    ir_train(g, &o, &err);
    wide = ir_graph_copy(g, g->arena);
    const int32_t n = ir_narrow_states(g, IR_BF16);
    tap_ok(err.status == FS_OK &&
               (n > 0) == ir_optimizer_has_states(optimizer) &&
               states_are(g, IR_BF16, n) && states_are(wide, IR_F32, n),
           "%s%s: %d states are bf16, nothing else, and not those of a copy",
           ir_optimizer_name(optimizer), scaled ? ", scaled" : "", (int)n);
    tap_ok(ir_graph_check(g, &err) == FS_OK, "the graph is sound %s", err.text);
    tap_equal_int(ir_narrow_states(g, IR_BF16), 0, "once more changes nothing");
    ir_graph_destroy(g);
}

static void test_words_of_states(void)
{
    ir_dtype dtype = IR_I32;
    fs_err err = {0};
    tap_ok(ir_states_parse("bf16", &err, &dtype) == FS_OK && dtype == IR_BF16,
           "bf16 is known");
    tap_ok(ir_states_parse("fp32", &err, &dtype) == FS_OK && dtype == IR_F32,
           "fp32 narrows nothing");
    tap_ok(ir_states_parse("fp16", &err, &dtype) == FS_INVALID &&
               strstr(err.text, "(fp32, bf16;"),
           "fp16 is not: %s", err.text);
}

static void test_forward_links(void)
{
    ir_graph *g = mlp();
    int32_t wrong = 0;
    train(g, IR_ADAM, 1, NULL);
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        const ir_node *of =
            node->forward < 0 ? NULL : &g->nodes.at[node->forward];
        if (node->phase == IR_FORWARD)
            wrong += of != NULL;
        else
            wrong += !of || of->phase != IR_FORWARD ||
                     (node->phase == IR_UPDATE) != (of->op == IR_OP_variable);
    }
    tap_equal_int(wrong, 0,
                  "backward nodes know their forward node, updates "
                  "their variable");
    tap_ok(maker(g, "matmul_1.grad/weight_grad")->forward ==
               g->tensors.at[ir_graph_find(g, "matmul_1")].producer,
           "a weight's gradient belongs to its matmul");
    ir_graph_destroy(g);
}

static void test_optimizers(void)
{
    static const struct {
        ir_optimizer optimizer;
        ir_op_kind op;
        int32_t states;
        double f[5];
    } rows[] = {{IR_SGD, IR_OP_sgd, 0, {1e-2, 0}},
                {IR_MOMENTUM, IR_OP_momentum, 1, {1e-2, 0, 0.9}},
                {IR_ADAM, IR_OP_adam, 2, {1e-3, 0, 0.9, 0.999, 1e-8}},
                {IR_ADAMW, IR_OP_adam, 2, {1e-3, 0.01, 0.9, 0.999, 1e-8}}};
    for (int32_t k = 0; k < 4; k++) {
        ir_graph *g = mlp();
        const char *name = ir_optimizer_name(rows[k].optimizer);
        ir_optimizer parsed;
        train(g, rows[k].optimizer, 1, NULL);
        const ir_node *node = maker(g, "w1.next");
        bool same = node->op == rows[k].op &&
                    node->i[0] == (rows[k].optimizer == IR_ADAMW);
        for (int32_t i = 0; i < 5; i++)
            same &= node->f[i] == rows[k].f[i];
        tap_ok(same, "%s: op and default constants", name);
        tap_equal_int(node->n_in, 2 + rows[k].states, "%s: states", name);
        tap_ok((ir_graph_find(g, "w1.m") >= 0) == (rows[k].states > 0) &&
                   (ir_graph_find(g, "w1.v") >= 0) == (rows[k].states > 1),
               "%s: states are named m and v", name);
        tap_ok(ir_optimizer_parse(name, NULL, &parsed) == FS_OK &&
                   parsed == rows[k].optimizer,
               "%s: found by its name", name);
        ir_graph_destroy(g);
    }
}

/* The head shares the embedding's table. */
static ir_graph *tied(void)
{
    ir_graph *g = ir_graph_create("tied");
    int32_t ids = ir_input(g, "ids", IR_I64, matrix(2, 4), 0);
    int32_t to = ir_input(g, "to", IR_I64, matrix(2, 4), 0);
    int32_t table = param(g, "table", matrix(16, 8));
    param(g, "idle", vector(3));
    int32_t h = ir_gather(g, table, ids);
    h = ir_binary(g, IR_OP_add, h, ir_unary(g, IR_OP_tanh, h));
    g->loss = ir_cross_entropy(g, ir_matmul(g, h, table, false, true), to);
    return g;
}

static void test_tied(void)
{
    ir_graph *g = tied();
    fs_err err = {0};
    tap_equal_int(train(g, IR_MOMENTUM, 2, &err), FS_OK,
                  "a tied weight can be trained");
    const ir_node *sum = maker(g, "table.grad");
    tap_equal_int(count(g, IR_OP_accumulate), 2,
                  "each use of the weight accumulates for itself");
    tap_ok(sum->op == IR_OP_add && sum->phase == IR_UPDATE,
           "and the sums are added once per step");
    tap_ok(maker(g, "table.grad.acc")->phase == IR_BACKWARD &&
               maker(g, "table.grad.acc_1")->phase == IR_BACKWARD,
           "accumulation is part of the backward phase");
    int32_t idle = ir_graph_find(g, "idle");
    tap_ok(g->tensors.at[idle].role == IR_BUFFER &&
               g->tensors.at[idle].next == -1,
           "a parameter that the loss does not see becomes a buffer");
    tap_ok(maker(g, "tanh.grad/add") && count(g, IR_OP_gather_grad) == 1,
           "the two paths to the embedding are added before its gradient");
    tap_equal_int(ir_graph_check(g, &err), FS_OK, "the graph is sound");
    ir_graph_destroy(g);
}

/* A network that slices w's tanh where `cuts` says, as trained. */
static ir_graph *sliced(int32_t n, const int64_t *cuts, bool keep_pads)
{
    ir_graph *g = ir_graph_create("sliced");
    int32_t h = ir_unary(g, IR_OP_tanh, param(g, "w", matrix(3, 9)));
    for (int32_t k = n - 2; k >= 0; k--) {
        int32_t part = ir_slice(g, h, 1, cuts[k], cuts[k + 1] - cuts[k]);
        part = ir_reduce_sum(g, ir_power(g, part, 2), 3, false);
        g->loss = g->loss < 0 ? part : ir_binary(g, IR_OP_add, g->loss, part);
    }
    ir_train_options o = ir_train_defaults();
    o.keep_pads = keep_pads;
    ir_train(g, &o, NULL);
    return g;
}

static void test_slices(void)
{
    static const int64_t whole[] = {0, 4, 5, 9}, gap[] = {0, 4, 5, 8};
    ir_graph *g = sliced(4, whole, false);
    tap_ok(count(g, IR_OP_concat) == 1 && count(g, IR_OP_pad) == 0,
           "gradients of slices that fill an axis are joined");
    tap_equal_int(ir_graph_check(g, NULL), FS_OK, "the graph is sound");
    ir_graph_destroy(g);
    g = sliced(4, gap, false);
    tap_ok(count(g, IR_OP_concat) == 0 && count(g, IR_OP_pad) == 3,
           "with a gap they are padded and added");
    ir_graph_destroy(g);
    g = sliced(4, whole, true);
    tap_ok(count(g, IR_OP_concat) == 0 && count(g, IR_OP_pad) == 3,
           "the rewrite can be turned off");
    ir_graph_destroy(g);
}

static void test_errors(void)
{
    fs_err err = {0};
    ir_graph *g = mlp();
    g->loss = -1;
    tap_equal_int(train(g, IR_SGD, 1, &err), FS_INVALID, "no loss: refused");
    tap_equal_text(err.text, "mlp: the graph has no loss", "and said so");
    ir_graph_destroy(g);

    err = (fs_err){0};
    g = mlp();
    g->loss = ir_graph_find(g, "relu");
    train(g, IR_SGD, 1, &err);
    tap_equal_text(err.text, "relu: a loss must be one float, not f32 8x32",
                   "a loss that is no scalar is refused");
    ir_graph_destroy(g);

    err = (fs_err){0};
    g = mlp();
    tap_equal_int(train(g, IR_SGD, 0, &err), FS_INVALID,
                  "0 micro-batches are refused");
    ir_graph_destroy(g);

    err = (fs_err){0};
    g = ir_graph_create("fixed");
    int32_t x = ir_input(g, "x", IR_F32, vector(4), 0);
    g->loss = ir_reduce_sum(g, x, 1, false);
    train(g, IR_SGD, 1, &err);
    tap_equal_text(err.text, "fixed: the loss depends on no parameter",
                   "nothing to train is refused");
    ir_graph_destroy(g);
}

static void test_not_differentiable(void)
{
    fs_err err = {0};
    ir_graph *g = ir_graph_create("second");
    int32_t w = param(g, "w", vector(4));
    int32_t dy = ir_input(g, "dy", IR_F32, vector(4), 0);
    int32_t dx = ir_binary(g, IR_OP_relu_grad, dy, w);
    g->loss = ir_reduce_sum(g, dx, 1, false);
    tap_equal_int(train(g, IR_SGD, 1, &err), FS_INVALID,
                  "an op without gradient on the path is refused");
    tap_equal_text(err.text, "relu_grad: op relu_grad has no gradient",
                   "and named");
    ir_graph_destroy(g);
}

static void test_backward(void)
{
    ir_graph *g = mlp();
    int32_t wrt[3] = {ir_graph_find(g, "x"), ir_graph_find(g, "relu"),
                      ir_graph_find(g, "y")};
    int32_t grad[3];
    fs_err err = {0};
    ir_derivative of = {.loss = g->loss, .seed = 1, .n = 3, .wrt = wrt};
    fs_status status = ir_backward(g, &of, &err, grad);
    ir_shape dx = ir_shape_of(g, grad[0]), x = ir_shape_of(g, wrt[0]);
    ir_shape dh = ir_shape_of(g, grad[1]), h = ir_shape_of(g, wrt[1]);
    tap_equal_int(status, FS_OK, "gradients of any tensor can be asked for");
    tap_ok(ir_shape_equal(&dx, &x) && ir_shape_equal(&dh, &h),
           "inputs and activations get one of their own shape");
    tap_equal_int(grad[2], -1, "integers get none");
    tap_equal_int(count(g, IR_OP_weight_grad), 2,
                  "unasked gradients are at most dead ends of a visited node");
    ir_graph_destroy(g);
}

/* A running mean as batch norm keeps it. */
static void test_buffers(void)
{
    fs_err err = {0};
    ir_graph *g = mlp();
    ir_shape h = ir_shape_of(g, ir_graph_find(g, "relu"));
    ir_variable_spec spec = {.role = IR_BUFFER, .shape = vector(h.dim[1])};
    int32_t running = ir_variable(g, "running", &spec);
    int32_t batch = ir_reduce_mean(g, ir_graph_find(g, "relu"), 1, false);
    int32_t moved = ir_binary(g, IR_OP_add, ir_scale(g, running, 0.9, 0),
                              ir_scale(g, batch, 0.1, 0));
    g->tensors.at[running].next = moved;
    tap_equal_int(train(g, IR_SGD, 4, &err), FS_OK, "a graph with a buffer");
    running = ir_graph_find(g, "running");
    const ir_tensor *t = &g->tensors.at[running];
    const ir_node *next = maker(g, "running.next");
    tap_ok(t->role == IR_BUFFER && t->next == next->out[0] &&
               next->op == IR_OP_scale && next->phase == IR_UPDATE,
           "what the forward pass makes of it is carried by the update");
    const ir_node *sum = maker(g, "running.acc");
    tap_ok(next->in[0] == sum->out[0] && sum->op == IR_OP_accumulate &&
               next->f[0] == 0.25,
           "as the mean over the micro-batches");
    ir_graph_destroy(g);
}

/* A row that gets no gradient. */
static void test_padding(void)
{
    fs_err err = {0};
    ir_graph *g = ir_graph_create("padding");
    int32_t table = param(g, "table", matrix(5, 3));
    int32_t ids = ir_input(g, "ids", IR_I64, vector(4), 0);
    g->loss = ir_reduce_sum(g, ir_gather(g, table, ids), 3, false);
    int32_t w = param(g, "w", matrix(3, 3));
    tap_equal_int(ir_train_padding(g, table, 2, &err), FS_OK,
                  "a row is set apart");
    tap_equal_int(ir_train_padding(g, table, 5, &err), FS_INVALID,
                  "row 5 of 5: %s", err.text);
    tap_equal_int(ir_train_padding(g, table, -1, &err), FS_INVALID,
                  "row -1: %s", err.text);
    tap_equal_int(ir_train_padding(g, table, 3, &err), FS_INVALID,
                  "a second row: %s", err.text);
    tap_equal_int(ir_train_padding(g, w, 0, &err), FS_INVALID,
                  "a matrix that is no table: %s", err.text);
    tap_equal_int(ir_train_padding(g, ids, 0, &err), FS_INVALID, "the ids: %s",
                  err.text);
    err = (fs_err){0};
    tap_equal_int(train(g, IR_SGD, 1, &err), FS_OK, "a graph with padding");
    for (int32_t v = 0; v < g->nodes.n; v++)
        if (g->nodes.at[v].op == IR_OP_gather_grad)
            tap_equal_int(g->nodes.at[v].i[3], 3,
                          "the gradient passes over the row");
    ir_graph_destroy(g);
}

/* What they leave out of a row is a constant of each one's own. */
static void test_padding_twice(void)
{
    ir_graph *g = ir_graph_create("rows");
    const ir_init init = {IR_INIT_NORMAL, 0, 1, 1};
    int32_t dy = ir_parameter(g, "dy", IR_F32, (ir_shape){2, {3, 4}}, init);
    int32_t ids = ir_input(g, "ids", IR_I64, (ir_shape){1, {3}}, 0);
    fs_err err = {0};

    for (int64_t row = 0; row < 2; row++) {
        ir_node node = {.op = IR_OP_gather_grad,
                        .n_in = 2,
                        .in = {dy, ids},
                        .i = {5, 0, 0, 1 + row}};
        int32_t table = ir_append(g, &node);
        table = ir_reduce_sum(g, table, 3, false);
        g->loss = row ? ir_binary(g, IR_OP_add, g->loss, table) : table;
    }
    ir_train_options options = ir_train_defaults();
    tap_ok(ir_train(g, &options, &err) == FS_OK,
           "two gather_grads with padding rows are differentiated %s",
           err.text);
    ir_graph_destroy(g);
}

int main(void)
{
    test_golden();
    test_padding_twice();
    for (int32_t k = 0; k < IR_OPTIMIZER_COUNT; k++) {
        test_states((ir_optimizer)k, false);
        test_states((ir_optimizer)k, true);
    }
    test_words_of_states();
    test_forward_links();
    test_optimizers();
    test_tied();
    test_slices();
    test_errors();
    test_not_differentiable();
    test_backward();
    test_buffers();
    test_padding();
    return tap_done();
}
