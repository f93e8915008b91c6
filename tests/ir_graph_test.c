/* The graph: sticky errors, names, the text form, invariants, pruning. */
#include "config.h"

#include "ir/build.h"
#include "tap.h"

static ir_shape matrix(int64_t a, int64_t b)
{
    return ir_shape_make(2, (int64_t[]){a, b});
}

static int32_t input(ir_graph *g, const char *name, int64_t a, int64_t b)
{
    return ir_input(g, name, IR_F32, matrix(a, b), 0);
}

static int32_t param(ir_graph *g, const char *name, ir_shape shape)
{
    return ir_parameter(g, name, IR_F32, shape,
                        (ir_init){.kind = IR_INIT_ZERO});
}

static void test_sticky(void)
{
    ir_graph *g = ir_graph_create("faulty");
    int32_t x = input(g, "x", 2, 3), w = input(g, "w", 4, 5);
    int32_t y = ir_matmul(g, x, w, false, false);
    tap_equal_int(y, -1, "a builder that fails returns -1");
    tap_equal_text(g->err.text,
                   "matmul (matmul): contracted lengths 3 and 4 differ",
                   "the message names node, op and cause");
    int32_t n = g->nodes.n;
    ir_mark_output(g, ir_unary(g, IR_OP_relu, y));
    tap_ok(ir_softmax(g, x) == -1 && g->nodes.n == n,
           "after an error nothing more is added");
    ir_graph_fail(g, "another fault");
    tap_ok(strstr(g->err.text, "contracted"), "the first error stays");
    fs_err err = {0};
    tap_equal_int(ir_graph_check(g, &err), FS_INVALID,
                  "a check reports the sticky error");
    ir_graph_destroy(g);
}

/* Builds one faulty thing and compares the message. */
static void refuses(const char *what, const char *message,
                    void (*build)(ir_graph *))
{
    ir_graph *g = ir_graph_create("faulty");
    build(g);
    tap_equal_text(g->err.text, message, "%s is refused", what);
    ir_graph_destroy(g);
}

static void build_twice(ir_graph *g)
{
    input(g, "x", 1, 1);
    input(g, "x", 1, 1);
}

static void build_overflow(ir_graph *g)
{
    int32_t a = input(g, "a", (int64_t)1 << 30, 1);
    int32_t b = input(g, "b", 1, (int64_t)1 << 30);
    ir_matmul(g, a, b, false, false);
}

static void build_slice(ir_graph *g)
{
    ir_slice(g, input(g, "x", 4, 4), 1, INT64_MAX, INT64_MAX);
}

static void build_pad(ir_graph *g)
{
    ir_pad(g, input(g, "x", 4, 4), 0, INT64_MAX, 1);
}

static void build_concat(ir_graph *g)
{
    int32_t x[9] = {0};
    input(g, "x", 1, 1);
    ir_concat(g, x, 9, 0);
}

static void build_labels(ir_graph *g)
{
    ir_cross_entropy(g, input(g, "x", 4, 4), input(g, "y", 4, 4));
}

static void build_window(ir_graph *g)
{
    ir_shape image = ir_shape_make(4, (int64_t[]){1, 1, 4, 4});
    int64_t attr[] = {1, 1, 0, 0, 0, 0, 0, 0, 0, INT32_MAX, 1, 0, 1};
    int32_t x = ir_input(g, "x", IR_F32, image, 0);
    int32_t w = param(g, "w", ir_shape_make(4, (int64_t[]){1, 1, 3, 3}));
    ir_conv(g, x, w, attr);
}

static void test_refusals(void)
{
    refuses("a name used twice", "two tensors are named 'x'", build_twice);
    refuses("a result too large to count its bytes",
            "matmul (matmul): result: a tensor of shape "
            "1073741824x1073741824 is too large to count its bytes",
            build_overflow);
    refuses("a slice whose bounds overflow",
            "slice (slice): 9223372036854775807 elements from "
            "9223372036854775807 on by steps of 1 of an axis of length 4",
            build_slice);
    refuses("padding that overflows",
            "pad (pad): 9223372036854775807 elements before and 1 after are "
            "no padding",
            build_pad);
    refuses("a join of too many", "concat: 9 inputs; 1 to 8 are supported",
            build_concat);
    refuses("labels that are floats",
            "cross_entropy (cross_entropy): input 1 is f32; an integer type "
            "is wanted",
            build_labels);
    refuses("a window wider than its image",
            "conv (conv): a window of 3, dilated by 2147483647, does not "
            "fit into 4 padded elements",
            build_window);
}

static void test_names(void)
{
    ir_graph *g = ir_graph_create("names");
    int32_t x = input(g, "x", 2, 2);
    int32_t gain = param(g, "gain", ir_shape_make(1, (int64_t[]){2}));
    ir_unary(g, IR_OP_relu, x);
    ir_unary(g, IR_OP_relu, x);
    g->scope = "block";
    int32_t y = ir_unary(g, IR_OP_relu, x);
    tap_ok(ir_graph_find(g, "relu") == 2 && ir_graph_find(g, "relu_1") == 3,
           "names taken get a number");
    tap_equal_int(ir_graph_find(g, "block/relu"), y, "a scope is a prefix");
    ir_graph_rename(g, y, "relu");
    tap_ok(g->err.status == FS_INVALID, "a taken name cannot be given");
    g->err = (fs_err){0};
    ir_graph_rename(g, y, "y");
    tap_ok(ir_graph_find(g, "y") == y && ir_graph_find(g, "block/relu") == -1,
           "a renamed tensor is found by its new name only");
    ir_input(g, "norm:1", IR_F32, matrix(2, 2), -1);
    int32_t v = ir_graph_add(g, &(ir_node){.op = IR_OP_layer_norm,
                                           .name = "norm",
                                           .n_in = 3,
                                           .in = {x, gain, gain}});
    tap_equal_text(g->tensors.at[g->nodes.at[v].out[1]].name, "norm:1_1",
                   "further outputs avoid names that are taken");
    tap_equal_int(ir_graph_find(g, "nonesuch"), -1, "others are not found");
    tap_equal_int(ir_graph_check(g, NULL), FS_OK, "and the graph is sound");
    ir_graph_destroy(g);
}

static ir_graph *small_net(void)
{
    ir_graph *g = ir_graph_create("small");
    int32_t x = input(g, "x", 8, 4);
    int32_t ids =
        ir_input(g, "ids", IR_I64, ir_shape_make(1, (int64_t[]){8}), 0);
    int32_t w = param(g, "w", matrix(4, 6));
    int32_t c = param(g, "c", ir_shape_make(1, (int64_t[]){6}));
    int32_t h = ir_layer_norm(g, ir_matmul(g, x, w, false, false), c, c, 1e-5);
    ir_unary(g, IR_OP_exp, h); /* nothing needs it */
    g->loss = ir_cross_entropy(g, ir_scale(g, h, 0.5, 0), ids);
    ir_mark_output(g, g->loss);
    ir_mark_output(g, g->loss);
    return g;
}

static void test_dump(void)
{
    ir_graph *g = small_net();
    fs_text text = {.arena = g->arena};
    ir_graph_dump(g, &text);
    tap_equal_text(
        text.at,
        "graph small: 10 nodes, 12 tensors, micro-batches 1\n"
        "forward  x f32 8x4 = input batch=0\n"
        "forward  ids i64 8 = input batch=0\n"
        "forward  w f32 4x6 = parameter\n"
        "forward  c f32 6 = parameter\n"
        "forward  matmul f32 8x6 = matmul(x, w)\n"
        "forward  layer_norm f32 8x6, layer_norm:1 f32 8x1, layer_norm:2 f32 "
        "8x1 = layer_norm(matmul, c, c) f=1e-05\n"
        "forward  exp f32 8x6 = exp(layer_norm)\n"
        "forward  scale f32 8x6 = scale(layer_norm) f=0.5\n"
        "forward  cross_entropy f32 scalar, cross_entropy:1 f32 8x6 = "
        "cross_entropy(scale, ids) f=0.125\n"
        "forward  output(cross_entropy)\n"
        "loss cross_entropy\n",
        "the text form is one line per node, by names");
    ir_graph_destroy(g);
}

static void test_uses(void)
{
    ir_graph *g = small_net();
    ir_uses uses = ir_graph_uses(g, g->arena);
    int32_t c = ir_graph_find(g, "c"), h = ir_graph_find(g, "layer_norm");
    tap_equal_int(uses.first[c + 1] - uses.first[c], 2,
                  "a tensor read twice by a node is used twice");
    tap_ok(uses.first[h + 1] - uses.first[h] == 2 &&
               g->nodes.at[uses.list[uses.first[h]]].op == IR_OP_exp &&
               g->nodes.at[uses.list[uses.first[h] + 1]].op == IR_OP_scale,
           "users stand in order");
    ir_graph_destroy(g);
}

static void test_prune(void)
{
    ir_graph *g = small_net();
    param(g, "unused", matrix(1, 1));
    ir_graph_prune(g);
    tap_ok(ir_graph_find(g, "exp") == -1, "what nothing needs is dropped");
    tap_ok(ir_graph_find(g, "unused") >= 0, "variables stay");
    tap_equal_int(ir_graph_check(g, NULL), FS_OK, "ids are right after it");
    tap_equal_text(g->tensors.at[g->loss].name, "cross_entropy",
                   "the loss is the same tensor");
    int32_t n = g->nodes.n;
    ir_graph_prune(g);
    tap_equal_int(g->nodes.n, n, "a second time nothing changes");
    g->loss = -1;
    g->outputs.n = 0;
    ir_graph_prune(g);
    tap_equal_int(g->nodes.n, n,
                  "a graph that wants nothing yet keeps everything");
    ir_graph_destroy(g);
}

/* Each fault that a check must find, put into a sound graph. */
static void break_order(ir_graph *g)
{
    g->nodes.at[4].in[0] = ir_graph_find(g, "scale");
}

static void break_shape(ir_graph *g)
{
    g->tensors.at[ir_graph_find(g, "matmul")].shape.dim[1]++;
}

static void break_producer(ir_graph *g)
{
    g->tensors.at[ir_graph_find(g, "matmul")].producer = 0;
}

static void break_index(ir_graph *g)
{
    g->nodes.at[4].in[1] = 99;
}

static void break_next(ir_graph *g)
{
    g->tensors.at[ir_graph_find(g, "w")].next = ir_graph_find(g, "c");
}

static void test_check(void)
{
    static const struct {
        void (*put)(ir_graph *);
        const char *message;
    } faults[] = {
        {break_order, "matmul reads scale, which only a later node makes"},
        {break_shape, "matmul: output 0 is f32 8x7, inferred is f32 8x6"},
        {break_producer, "matmul: no node makes it"},
        {break_index, "matmul: input 1 is no tensor"},
        {break_next, "w: its next value has another shape"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        ir_graph *g = small_net();
        fs_err err = {0};
        faults[i].put(g);
        fs_status status = ir_graph_check(g, &err);
        tap_equal_text(status == FS_OK ? "" : err.text, faults[i].message,
                       "a check finds the fault");
        ir_graph_destroy(g);
    }
}

static void test_replace(void)
{
    ir_graph *g = small_net();
    int32_t h = ir_graph_find(g, "scale"), v = g->tensors.at[h].producer;
    ir_node relu = g->nodes.at[v], sum = relu;
    relu.op = IR_OP_relu;
    sum.op = IR_OP_reduce_sum;
    sum.i[0] = 1;
    tap_ok(ir_graph_replace(g, v, &relu) && g->nodes.at[v].op == IR_OP_relu &&
               ir_graph_find(g, "scale") == h,
           "a node is replaced in place, its tensor keeps its name");
    tap_ok(!ir_graph_replace(g, v, &sum) && g->nodes.at[v].op == IR_OP_relu,
           "but not by one of another shape");
    tap_equal_int(ir_graph_check(g, NULL), FS_OK, "the graph is sound");
    ir_graph_destroy(g);
}

static void test_unbroadcast(void)
{
    ir_graph *g = ir_graph_create("unbroadcast");
    int32_t x =
        ir_input(g, "x", IR_F32, ir_shape_make(3, (int64_t[]){2, 3, 4}), 0);
    ir_shape column = matrix(3, 1), scalar = {0};
    ir_shape got = ir_shape_of(g, ir_unbroadcast(g, x, column));
    tap_ok(ir_shape_equal(&got, &column), "2x3x4 is summed down to 3x1");
    got = ir_shape_of(g, ir_unbroadcast(g, x, scalar));
    tap_ok(ir_shape_equal(&got, &scalar), "and to a scalar");
    tap_equal_int(ir_unbroadcast(g, x, ir_shape_of(g, x)), x,
                  "to its own shape it is the tensor itself");
    tap_equal_int(ir_shape_of(g, -1).rank, -1, "no tensor has no shape");
    ir_graph_destroy(g);
}

int main(void)
{
    test_sticky();
    test_refusals();
    test_names();
    test_dump();
    test_uses();
    test_prune();
    test_check();
    test_replace();
    test_unbroadcast();
    return tap_done();
}
