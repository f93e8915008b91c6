/* Import of the models in datasets/, re-batching, folding, losses. */
#include "config.h"

#include "ir/train.h"
#include "onnx/file.h"
#include "onnx/import.h"

#include "onnx_make.h"
#include "tap.h"

/* One import and all that belongs to it. */
typedef struct imported {
    fs_err err;
    onnx_model *model;
    ir_graph *graph; /* NULL when it failed */
    fs_arena *arena;
    fs_text notes;
} imported;

static imported import(const char *path, const onnx_options *options)
{
    imported in = {.arena = fs_arena_create()};
    in.notes.arena = in.arena;
    fs_text_add(&in.notes, "%s", "");
    if (onnx_import(path, options, &in.err, &in.model, &in.graph, &in.notes) !=
        FS_OK)
        in.graph = NULL;
    return in;
}

static imported import_batch(const char *path, int64_t batch)
{
    onnx_options options = {.batch = batch};
    return import(path, &options);
}

static void drop(imported *in)
{
    if (in->graph) {
        ir_graph_destroy(in->graph);
        onnx_model_close(in->model);
    }
    fs_arena_destroy(in->arena);
}

static const char *dataset(const char *name)
{
    static char path[4][600];
    static int next;
    char *out = path[next++ % 4];
    const char *root = getenv("FS_SRCDIR");
    snprintf(out, sizeof path[0], "%s/datasets/%s", root ? root : "..", name);
    return out;
}

static int32_t count_op(const ir_graph *g, ir_op_kind op)
{
    int32_t n = 0;
    for (int32_t i = 0; i < g->nodes.n; i++)
        n += g->nodes.at[i].op == op;
    return n;
}

static int64_t count_parameters(const ir_graph *g)
{
    int64_t n = 0;
    for (int32_t i = 0; i < g->tensors.n; i++)
        if (g->tensors.at[i].role == IR_PARAM)
            n += ir_shape_count(&g->tensors.at[i].shape);
    return n;
}

static const char *shape_of(const ir_graph *g, const char *tensor)
{
    static char text[160];
    int32_t id = ir_graph_find(g, tensor);
    ir_shape shape = ir_shape_of(g, id);
    return id < 0 ? "missing" : ir_shape_text(text, &shape);
}

/* What the six models must look like, before and after the rewrites. */
static const struct wanted {
    const char *path;
    int32_t nodes, raw_nodes;
    int64_t parameters, batch;
    const char *input, *shape;
    struct {
        ir_op_kind op;
        int32_t n, raw;
    } ops[6];
} wanted[] = {
    {"models/gpt_bytes.dyn.onnx",
     187,
     220,
     842496,
     1,
     "ids",
     "1x128",
     {{IR_OP_matmul, 25, 25},
      {IR_OP_layer_norm, 9, 9},
      {IR_OP_gelu, 4, 0},
      {IR_OP_transpose, 16, 33},
      {IR_OP_where, 4, 4},
      {IR_OP_slice, 12, 12}}},
    {"models/gpt_bytes.batch4.onnx",
     187,
     220,
     842496,
     4,
     "ids",
     "4x128",
     {{IR_OP_matmul, 25, 25},
      {IR_OP_layer_norm, 9, 9},
      {IR_OP_gelu, 4, 0},
      {IR_OP_transpose, 16, 33},
      {IR_OP_gather, 2, 2},
      {IR_OP_erf, 0, 4}}},
    {"models/gpt2_loss.small.op17.train.onnx",
     187,
     220,
     809856,
     2,
     "ids",
     "2x64",
     {{IR_OP_matmul, 25, 25},
      {IR_OP_layer_norm, 9, 9},
      {IR_OP_gelu, 4, 0},
      {IR_OP_softmax, 4, 4},
      {IR_OP_variable, 52, 52},
      {IR_OP_pad, 0, 0}}},
    {"train_cases/mlp/model.onnx",
     17,
     17,
     467,
     4,
     "in0",
     "4x8",
     {{IR_OP_matmul, 3, 3},
      {IR_OP_add, 3, 3},
      {IR_OP_relu, 1, 1},
      {IR_OP_sigmoid, 1, 1},
      {IR_OP_cross_entropy, 1, 1},
      {IR_OP_variable, 6, 6}}},
    {"train_cases/lenet/model.onnx",
     27,
     27,
     15734,
     2,
     "in0",
     "2x1x28x28",
     {{IR_OP_conv2d, 2, 2},
      {IR_OP_max_pool2d, 1, 1},
      {IR_OP_avg_pool2d, 1, 1},
      {IR_OP_tanh, 1, 1},
      {IR_OP_pad, 0, 0},
      {IR_OP_matmul, 2, 2}}},
    {"train_cases/gpt_tiny/model.onnx",
     101,
     168,
     26528,
     2,
     "in0",
     "2x16",
     {{IR_OP_layer_norm, 5, 0},
      {IR_OP_reduce_sum, 0, 10},
      {IR_OP_gelu, 2, 0},
      {IR_OP_power, 0, 5},
      {IR_OP_matmul, 13, 13},
      {IR_OP_where, 2, 2}}},
};

static void check_counts(const struct wanted *w, const ir_graph *g, bool raw)
{
    const char *name = w->path;
    tap_equal_int(g->nodes.n, raw ? w->raw_nodes : w->nodes,
                  "%s: nodes %s the rewrites", name, raw ? "without" : "after");
    tap_equal_int(count_parameters(g), w->parameters, "%s: parameters", name);
    for (int k = 0; k < 6; k++)
        tap_equal_int(count_op(g, w->ops[k].op),
                      raw ? w->ops[k].raw : w->ops[k].n, "%s: %s nodes", name,
                      ir_op_table[w->ops[k].op]->name);
}

static void test_model(const struct wanted *w)
{
    imported in = import_batch(dataset(w->path), 0);
    tap_ok(in.graph != NULL, "%s: imports %s", w->path, in.err.text);
    if (in.graph) {
        check_counts(w, in.graph, false);
        tap_equal_text(shape_of(in.graph, w->input), w->shape,
                       "%s: shape of %s", w->path, w->input);
        tap_equal_int(in.graph->batch, w->batch, "%s: batch", w->path);
        tap_equal_int(ir_shape_of(in.graph, in.graph->loss).rank, 0,
                      "%s: the loss is a scalar", w->path);
        uint64_t digest = 0;
        onnx_digest(dataset(w->path), &in.err, &digest);
        tap_ok(digest && digest == in.graph->digest,
               "%s: the digest needs no import", w->path);
        ir_train_options options = ir_train_defaults();
        tap_ok(ir_train(in.graph, &options, &in.err) == FS_OK &&
                   ir_graph_check(in.graph, &in.err) == FS_OK,
               "%s: has a training step %s", w->path, in.err.text);
    }
    drop(&in);
    onnx_options options = {.no_rewrite = true};
    in = import(dataset(w->path), &options);
    if (in.graph)
        check_counts(w, in.graph, true);
    drop(&in);
}

/* Same ops on the same inputs with the same attributes, shapes and values. */
static int32_t first_difference(const ir_graph *a, const ir_graph *b)
{
    for (int32_t i = 0; i < a->nodes.n && i < b->nodes.n; i++) {
        const ir_node *x = &a->nodes.at[i], *y = &b->nodes.at[i];
        const ir_tensor *s = &a->tensors.at[x->out[0]];
        const ir_tensor *t = &b->tensors.at[y->out[0]];
        if (x->op != y->op || memcmp(x->in, y->in, sizeof x->in) != 0 ||
            memcmp(x->i, y->i, sizeof x->i) != 0 ||
            memcmp(x->f, y->f, sizeof x->f) != 0 ||
            !ir_shape_equal(&s->shape, &t->shape) || s->dtype != t->dtype)
            return i;
        if (x->op != IR_OP_constant && strcmp(x->name, y->name) != 0)
            return i;
        size_t bytes =
            (size_t)(ir_shape_count(&s->shape) * ir_dtype_bytes(s->dtype));
        if (s->data && memcmp(s->data, t->data, bytes) != 0)
            return i;
    }
    return a->nodes.n == b->nodes.n ? -1 : a->nodes.n;
}

static void test_twins(void)
{
    static const int64_t batches[] = {1, 2, 3, 4, 8, 48};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        imported dyn =
            import_batch(dataset("models/gpt_bytes.dyn.onnx"), batches[i]);
        imported fixed =
            import_batch(dataset("models/gpt_bytes.batch4.onnx"), batches[i]);
        int32_t at = dyn.graph && fixed.graph
                         ? first_difference(dyn.graph, fixed.graph)
                         : -2;
        tap_equal_int(at, -1,
                      "the twin of batch 4 changed to %d is the "
                      "dynamic one bound to it %s",
                      (int)batches[i], fixed.err.text);
        if (batches[i] == 8 && fixed.graph)
            tap_ok(strstr(fixed.notes.at, "of 4 that was fixed at export is "
                                          "changed to 8"),
                   "the change of batch is said in the notes");
        drop(&dyn);
        drop(&fixed);
    }
}

static void test_names(void)
{
    imported in = import_batch(dataset("models/gpt_bytes.dyn.onnx"), 8);
    const ir_graph *g = in.graph;
    if (!g) {
        drop(&in);
        return;
    }
    tap_equal_text(shape_of(g, "/blocks.2/attn/MatMul"), "8x4x128x128",
                   "a node keeps its name");
    tap_equal_text(shape_of(g, "blocks.3.attn.qkv.weight"), "384x128",
                   "a parameter keeps its initializer's name");
    tap_equal_text(g->tensors.at[g->loss].name, "loss",
                   "the loss keeps its output's name");
    int32_t id = ir_graph_find(g, "ids");
    tap_equal_int(g->tensors.at[id].batch_axis, 0, "ids are cut by samples");
    tap_equal_int(g->tensors.at[id].dtype, IR_I64, "ids are int64");
    tap_equal_int(ir_graph_find(g, "no such"), -1, "what is not there is -1");
    int32_t masks = 0;
    for (int32_t i = 0; i < g->nodes.n; i++) {
        const ir_tensor *t = &g->tensors.at[g->nodes.at[i].out[0]];
        if (g->nodes.at[i].op != IR_OP_constant || t->dtype != IR_BOOL)
            continue;
        const unsigned char *mask = t->data;
        int32_t good = 1;
        for (int32_t k = 0; k < 128 * 128; k++)
            good = good && mask[k] == (k % 128 > k / 128);
        masks += good;
    }
    tap_equal_int(masks, 4, "shape arithmetic folds to the causal masks");
    drop(&in);
    in = import_batch(dataset("models/gpt2_loss.small.op17.train.onnx"), 0);
    tap_ok(in.graph && strstr(in.notes.at, "9 Dropout nodes (ratio up to 0.1)"),
           "dropout that is left out is said in the notes");
    drop(&in);
}

static void test_read_tensor(void)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    ir_dtype dtype;
    ir_shape shape;
    const char *name;
    const void *data;
    fs_status status =
        onnx_read_tensor(dataset("train_cases/mlp/grad/m.0.weight.pb"), arena,
                         &err, &dtype, &shape, &name, &data);
    char text[160];
    tap_ok(status == FS_OK && dtype == IR_F32, "a gradient file reads %s",
           err.text);
    tap_equal_text(ir_shape_text(text, &shape), "16x8", "with its shape");
    status =
        onnx_read_tensor(dataset("train_cases/mlp/test_data_set_0/output_0.pb"),
                         arena, &err, &dtype, &shape, &name, &data);
    tap_ok(status == FS_OK && shape.rank == 0, "a loss file is a scalar");
    if (status == FS_OK)
        tap_near(*(const float *)data, 1.1712608, 1e-6,
                 "whose value is the first of train.json");
    fs_arena_destroy(arena);
}

/* Folding: K = op(constants), y = x + float(K). What K is can be read from the
 * constant that is added. */
typedef struct folding {
    const char *op, *in;
    const char *attr; /* one attribute of integers, or NULL */
    int n_attr;
    int64_t attr_value[4];
    int rank;
    int64_t dim[3];
    float value[8];
} folding;

static const folding foldings[] = {
    {"Add", "row,column", 0, 0, {0}, 2, {2, 3}, {11, 12, 13, 21, 22, 23}},
    {"Sub", "row,one", 0, 0, {0}, 1, {3}, {0, 1, 2}},
    {"Mul", "row,row", 0, 0, {0}, 1, {3}, {1, 4, 9}},
    {"Div", "column,three", 0, 0, {0}, 2, {2, 1}, {3, 6}},
    {"Mod", "column,three", 0, 0, {0}, 2, {2, 1}, {1, 2}},
    {"Pow", "row,two", 0, 0, {0}, 1, {3}, {1, 4, 9}},
    {"Neg", "row", 0, 0, {0}, 1, {3}, {-1, -2, -3}},
    {"Not", "flags", 0, 0, {0}, 1, {3}, {1, 0, 1}},
    {"Min", "row,two", 0, 0, {0}, 1, {3}, {1, 2, 2}},
    {"Max", "row,two", 0, 0, {0}, 1, {3}, {2, 2, 3}},
    {"Equal", "row,two", 0, 0, {0}, 1, {3}, {0, 1, 0}},
    {"Less", "row,two", 0, 0, {0}, 1, {3}, {1, 0, 0}},
    {"GreaterOrEqual", "row,two", 0, 0, {0}, 1, {3}, {0, 1, 1}},
    {"Where", "flags,row,minus", 0, 0, {0}, 1, {3}, {-1, 2, -1}},
    {"Range", "one0,six0,two0", 0, 0, {0}, 1, {3}, {1, 3, 5}},
    {"Range", "six0,one0,minus20", 0, 0, {0}, 1, {3}, {6, 4, 2}},
    {"Gather", "row,picks", 0, 0, {0}, 1, {2}, {3, 1}},
    {"Gather", "grid,picks", "axis", 1, {1}, 2, {2, 2}, {3, 1, 6, 4}},
    {"Slice", "row,one,three", 0, 0, {0}, 1, {2}, {2, 3}},
    {"Slice", "row,minus2,huge", 0, 0, {0}, 1, {2}, {2, 3}},
    {"Slice", "row,minus,least,zero,minus", 0, 0, {0}, 1, {3}, {3, 2, 1}},
    {"Slice", "grid,one,two,one", 0, 0, {0}, 2, {2, 1}, {2, 5}},
    {"Concat", "row,two", "axis", 1, {0}, 1, {4}, {1, 2, 3, 2}},
    {"Concat",
     "column,grid",
     "axis",
     1,
     {-1},
     2,
     {2, 4},
     {10, 1, 2, 3, 20, 4, 5, 6}},
    {"Transpose", "grid", "perm", 2, {1, 0}, 2, {3, 2}, {1, 4, 2, 5, 3, 6}},
    {"Reshape", "grid,shape32", 0, 0, {0}, 2, {3, 2}, {1, 2, 3, 4, 5, 6}},
    {"Flatten", "grid", "axis", 1, {0}, 2, {1, 6}, {1, 2, 3, 4, 5, 6}},
    {"Unsqueeze", "row,zero", 0, 0, {0}, 2, {1, 3}, {1, 2, 3}},
    {"Squeeze", "column,one", 0, 0, {0}, 1, {2}, {10, 20}},
    {"Expand",
     "column,shape23",
     0,
     0,
     {0},
     2,
     {2, 3},
     {10, 10, 10, 20, 20, 20}},
    {"ConstantOfShape", "two", 0, 0, {0}, 1, {2}, {0, 0}},
    {"Shape", "grid", 0, 0, {0}, 1, {2}, {2, 3}},
    {"Shape", "x", 0, 0, {0}, 1, {1}, {1}},
    {"Trilu", "grid", "upper", 1, {0}, 2, {2, 3}, {1, 0, 0, 4, 5, 0}},
    {"ReduceProd", "row", "keepdims", 1, {1}, 1, {1}, {6}},
    {"ReduceSum", "grid,one", "keepdims", 1, {0}, 1, {2}, {6, 15}},
    {"ReduceMax", "grid", "axes", 1, {0}, 2, {1, 3}, {4, 5, 6}},
    {"ReduceMean", "grid", "axes", 1, {1}, 2, {2, 1}, {2, 5}},
};

static void add_constants(pb *graph)
{
    static const struct {
        const char *name;
        int rank;
        int64_t dim[2], value[6];
    } ints[] = {
        {"row", 1, {3}, {1, 2, 3}},
        {"column", 2, {2, 1}, {10, 20}},
        {"grid", 2, {2, 3}, {1, 2, 3, 4, 5, 6}},
        {"picks", 1, {2}, {-1, 0}},
        {"zero", 1, {1}, {0}},
        {"one", 1, {1}, {1}},
        {"two", 1, {1}, {2}},
        {"three", 1, {1}, {3}},
        {"minus", 1, {1}, {-1}},
        {"minus2", 1, {1}, {-2}},
        {"huge", 1, {1}, {INT64_MAX}},
        {"least", 1, {1}, {INT64_MIN}},
        {"one0", 0, {0}, {1}},
        {"two0", 0, {0}, {2}},
        {"six0", 0, {0}, {6}},
        {"minus20", 0, {0}, {-2}},
        {"shape32", 1, {2}, {3, -1}},
        {"shape23", 1, {2}, {2, 3}},
    };
    static const unsigned char flags[] = {0, 7, 0};
    static const int64_t three = 3;
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        size_t n = 1;
        for (int k = 0; k < ints[i].rank; k++)
            n *= (size_t)ints[i].dim[k];
        pb_take(graph, 5,
                pb_tensor(ints[i].name, 7, ints[i].rank, ints[i].dim,
                          ints[i].value, 8 * n));
    }
    pb_take(graph, 5, pb_tensor("flags", 9, 1, &three, flags, 3));
}

static const char *write_folding(const folding *f)
{
    static const int64_t dims[] = {1, 1, 1};
    int rank = f->rank ? f->rank : 1;
    pb *graph = pb_new();
    pb *node = pb_node("fold", f->op, f->in, "K");
    if (f->attr && (f->n_attr > 1 || strcmp(f->attr, "axes") == 0))
        pb_attr_ints(node, f->attr, f->n_attr, f->attr_value);
    else if (f->attr)
        pb_attr_int(node, f->attr, f->attr_value[0]);
    pb *cast = pb_node("cast", "Cast", "K", "F");
    pb_attr_int(cast, "to", 1);
    bool of_x = strcmp(f->in, "x") == 0;
    pb_take(graph, 1, node);
    pb_take(graph, 1, cast);
    pb_take(graph, 1, pb_node("out", "Add", "x,F", "y"));
    add_constants(graph);
    pb_take(graph, 11,
            pb_value("x", 1, of_x ? 1 : rank, of_x ? dims : f->dim, NULL));
    pb_take(graph, 12, pb_value("y", 1, rank, f->dim, NULL));
    return write_model("fold.onnx", pb_model(graph, 17));
}

/* The values added to x: a constant, or the offset of a scale. */
static bool added(const ir_graph *g, const folding *f)
{
    int64_t n = 1;
    for (int k = 0; k < f->rank; k++)
        n *= f->dim[k];
    for (int32_t i = 0; i < g->nodes.n; i++) {
        const ir_node *node = &g->nodes.at[i];
        const ir_tensor *t = node->n_out ? &g->tensors.at[node->out[0]] : NULL;
        if (node->op == IR_OP_scale && n == 1)
            return node->f[0] == 1 && node->f[1] == (double)f->value[0];
        if (node->op != IR_OP_constant)
            continue;
        ir_shape shape = ir_shape_make(f->rank, f->dim);
        return ir_shape_equal(&t->shape, &shape) &&
               memcmp(t->data, f->value, (size_t)n * 4) == 0;
    }
    return false;
}

static void test_folding(void)
{
    for (size_t i = 0; i < sizeof foldings / sizeof *foldings; i++) {
        imported in = import_batch(write_folding(&foldings[i]), 0);
        tap_ok(in.graph && added(in.graph, &foldings[i]), "%s(%s) folds %s",
               foldings[i].op, foldings[i].in, in.err.text);
        if (in.graph && !added(in.graph, &foldings[i])) {
            fs_text text = {.arena = in.arena};
            ir_graph_dump(in.graph, &text);
            printf("# %s", text.at);
        }
        drop(&in);
    }
}

/* A single operator between an input x and the output y. */
typedef struct single {
    const char *op, *in, *attr;
    int n_attr;
    int64_t attr_value[8];
    int64_t opset;
    int rank;
    int64_t dim[4];
    const char *shape; /* of y, or NULL: what the message says */
    const char *says;
} single;

static const single singles[] = {
    {"Relu", "x", 0, 0, {0}, 17, 2, {4, 6}, "4x6", 0},
    {"Neg", "x", 0, 0, {0}, 17, 2, {4, 6}, "4x6", 0},
    {"Reciprocal", "x", 0, 0, {0}, 17, 2, {4, 6}, "4x6", 0},
    {"Gelu", "x", 0, 0, {0}, 20, 2, {4, 6}, "4x6", 0},
    {"Softmax", "x", "axis", 1, {1}, 13, 3, {4, 6, 5}, "4x6x5", 0},
    {"Softmax", "x", "axis", 1, {1}, 11, 3, {4, 6, 5}, "4x6x5", 0},
    {"ReduceMean", "x", "axes", 2, {-1, 0}, 13, 3, {4, 6, 5}, "1x6x1", 0},
    {"ReduceSum", "x,one", 0, 0, {0}, 13, 3, {4, 6, 5}, "4x1x5", 0},
    {"Flatten", "x", "axis", 1, {2}, 17, 3, {4, 6, 5}, "24x5", 0},
    {"Squeeze", "x", "axes", 1, {1}, 11, 3, {4, 1, 5}, "4x5", 0},
    {"Unsqueeze", "x", "axes", 2, {0, -1}, 11, 2, {4, 5}, "1x4x5x1", 0},
    {"Transpose", "x", 0, 0, {0}, 17, 3, {4, 6, 5}, "5x6x4", 0},
    {"Slice", "x,one,three,one", 0, 0, {0}, 17, 2, {4, 6}, "4x2", 0},
    {"Gather", "x,two0", "axis", 1, {1}, 17, 3, {4, 6, 5}, "4x5", 0},
    {"Gather", "x,picks", "axis", 1, {1}, 17, 3, {4, 6, 5}, "4x2x5", 0},
    {"Concat", "x,x,x,x,x,x,x,x,x", "axis", 1, {1}, 17, 2, {4, 6}, "4x54", 0},
    {"GlobalAveragePool", "x", 0, 0, {0}, 17, 4, {2, 3, 8, 8}, "2x3x1x1", 0},
    {"MaxPool",
     "x",
     "kernel_shape",
     2,
     {3, 2},
     17,
     4,
     {2, 3, 8, 8},
     "2x3x6x7",
     0},
    {"Pad",
     "x",
     "pads",
     8,
     {0, 0, 1, 2, 0, 0, 3, 4},
     10,
     4,
     {2, 3, 8, 8},
     "2x3x12x14",
     0},
    {"Pad",
     "x",
     "pads",
     8,
     {0, 0, -1, 0, 0, 0, 1, 0},
     10,
     4,
     {2, 3, 8, 8},
     "2x3x8x8",
     0},
    {"Reshape", "x,shape32", 0, 0, {0}, 17, 2, {4, 6}, "3x8", 0},
    {"MatMul", "x,x", 0, 0, {0}, 17, 3, {4, 6, 6}, "4x6x6", 0},
    {"MatMul", "m,x", 0, 0, {0}, 17, 3, {4, 6, 6}, "4x2x6", 0},
    {"Gemm", "x,x", "transB", 1, {1}, 17, 2, {4, 6}, "4x4", 0},
    {"Softmax", "x", "axis", 1, {5}, 17, 2, {4, 6}, 0, "axis 5"},
    {"Reshape", "x,row", 0, 0, {0}, 17, 2, {4, 6}, 0, "does not reshape"},
    {"Slice",
     "x,zero,three,one,two",
     0,
     0,
     {0},
     17,
     2,
     {4, 6},
     0,
     "steps of 1"},
    {"LayerNormalization",
     "x,row",
     "axis",
     1,
     {0},
     17,
     2,
     {4, 3},
     0,
     "last axis"},
    {"MaxPool", "x", "kernel_shape", 1, {3}, 17, 3, {2, 3, 8}, 0, "rank 3"},
    {"Pow", "x,x", 0, 0, {0}, 17, 2, {4, 6}, 0, "depends on the data"},
    {"Equal", "x,x", 0, 0, {0}, 17, 2, {4, 6}, 0, "depends on the data"},
    {"MatMul", "x,row", 0, 0, {0}, 17, 2, {4, 3}, 0, "vector"},
    {"Expand", "x,row", 0, 0, {0}, 17, 2, {4, 6}, 0, "expand"},
    {"Relu", "x", 0, 0, {0}, 6, 2, {4, 6}, 0, "opset 6"},
};

static const char *write_single(const single *s)
{
    static const float matrix[12];
    static const int64_t shape[] = {2, 6};
    pb *graph = pb_new(), *node = pb_node("/block/the_node", s->op, s->in, "y");
    bool list = s->attr && (s->n_attr > 1 || strstr(s->attr, "axes") ||
                            strstr(s->attr, "shape"));
    if (list)
        pb_attr_ints(node, s->attr, s->n_attr, s->attr_value);
    else if (s->attr)
        pb_attr_int(node, s->attr, s->attr_value[0]);
    pb_take(graph, 1, node);
    add_constants(graph);
    pb_take(graph, 5, pb_tensor("m", 1, 2, shape, matrix, sizeof matrix));
    pb_take(graph, 11, pb_value("x", 1, s->rank, s->dim, NULL));
    pb_take(graph, 12, pb_value("y", 1, 0, NULL, NULL));
    return write_model("single.onnx", pb_model(graph, s->opset));
}

static void test_singles(void)
{
    for (size_t i = 0; i < sizeof singles / sizeof *singles; i++) {
        const single *s = &singles[i];
        imported in = import_batch(write_single(s), 0);
        if (s->shape)
            tap_equal_text(in.graph ? shape_of(in.graph, "y") : in.err.text,
                           s->shape, "%s(%s) of opset %d: shape", s->op, s->in,
                           (int)s->opset);
        else
            tap_ok(!in.graph && in.err.status == FS_INVALID &&
                       strstr(in.err.text, s->says),
                   "%s(%s) is refused: %s", s->op, s->in, in.err.text);
        drop(&in);
    }
}

/* y = x w, x (symbol, T, 3). */
static const char *write_open(const char *symbol)
{
    static const int64_t open[] = {-1, -1, 3}, w[] = {3, 5};
    static const float values[15];
    pb *graph = pb_new();
    pb_take(graph, 1, pb_node("mm", "MatMul", "x,w", "y"));
    pb_take(graph, 5, pb_tensor("w", 1, 2, w, values, sizeof values));
    pb *x = pb_value("x", 1, 3, open, symbol);
    pb_take(graph, 11, x);
    pb_take(graph, 12, pb_value("y", 1, 3, open, symbol));
    return write_model("open.onnx", pb_model(graph, 17));
}

static void test_binding(void)
{
    const char *binds[] = {"time=7"};
    imported in = import_batch(write_open("time"), 4);
    tap_ok(in.graph, "a symbol that names axis 0 is the batch everywhere");
    tap_equal_text(in.graph ? shape_of(in.graph, "y") : in.err.text, "4x4x5",
                   "and bound with it");
    drop(&in);
    onnx_options options = {.n_binds = 1, .binds = binds};
    in = import(write_open("time"), &options);
    tap_equal_text(in.graph ? shape_of(in.graph, "y") : in.err.text, "7x7x5",
                   "--bind sizes it as well");
    drop(&in);
    options.batch = 8;
    in = import(write_open("time"), &options);
    tap_ok(!in.graph && strstr(in.err.text, "--bind"),
           "a bind that contradicts the batch is refused: %s", in.err.text);
    drop(&in);
    options = (onnx_options){.loss = "mse"};
    in = import(write_open("n"), &options);
    tap_ok(in.graph && in.graph->loss >= 0 &&
               ir_graph_find(in.graph, "target") >= 0,
           "--loss mse appends a loss and its target");
    drop(&in);
    options.loss = "cross-entropy";
    in = import(write_open("n"), &options);
    tap_ok(in.graph && in.graph->loss >= 0 &&
               ir_graph_find(in.graph, "loss") == in.graph->loss,
           "so does --loss cross-entropy");
    tap_equal_text(in.graph ? shape_of(in.graph, "labels") : in.err.text, "1x1",
                   "whose labels have the logits' leading shape");
    drop(&in);
    options.loss = "hinge";
    in = import(write_open("n"), &options);
    tap_ok(!in.graph && strstr(in.err.text, "hinge"),
           "an unknown loss is refused: %s", in.err.text);
    drop(&in);
    in = import_batch(write_open("n"), 0);
    tap_ok(in.graph && in.graph->loss == -1 && in.graph->outputs.n == 1,
           "a graph without loss imports with loss -1 and its output");
    drop(&in);
    in = import_batch(write_open(""), 2);
    tap_ok(!in.graph && strstr(in.err.text, "unnamed (input \"x\", axis 1)"),
           "a dimension without a name is listed: %s", in.err.text);
    drop(&in);
}

/* x (N, T) with T open and called differently: it is listed. */
static void test_unbound(void)
{
    static const int64_t batch[] = {2, -1};
    pb *graph = pb_new();
    pb_take(graph, 1, pb_node("r", "Relu", "x", "y"));
    pb_take(graph, 11, pb_value("x", 1, 2, batch, "time"));
    pb_take(graph, 12, pb_value("y", 1, 2, batch, "time"));
    const char *path = write_model("unbound.onnx", pb_model(graph, 17));
    imported in = import_batch(path, 0);
    tap_ok(!in.graph && strstr(in.err.text, "time (input \"x\", axis 1)"),
           "a dimension without a size is listed: %s", in.err.text);
    drop(&in);
    const char *bad[] = {"time", "time=", "time=0", "time=7q", "=3", "tim=3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        onnx_options options = {.n_binds = 1, .binds = &bad[i]};
        in = import(path, &options);
        tap_ok(!in.graph && strstr(in.err.text, "--bind"),
               "--bind %s is refused", bad[i]);
        drop(&in);
    }
}

/* Reshape of x (4, 6, 8) to a constant shape, then the batch becomes 12. */
static void test_rebatching(void)
{
    static const struct {
        int64_t n, to[4];
        const char *shape; /* NULL: refused */
    } cases[] = {
        {2, {24, 8}, "72x8"},          {2, {4, 48}, "12x48"},
        {4, {4, 6, 2, 4}, "12x6x2x4"}, {4, {4, -1, 2, 4}, "12x6x2x4"},
        {2, {-1, 8}, "72x8"},          {1, {192}, "576"},
        {3, {8, 3, 8}, "24x3x8"},      {3, {2, 12, 8}, NULL},
        {4, {2, 2, 6, 8}, NULL},       {4, {1, 4, 6, 8}, "1x12x6x8"},
    };
    static const int64_t dim[] = {4, 6, 8};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pb *graph = pb_new();
        pb_take(graph, 1, pb_node("re", "Reshape", "x,to", "y"));
        pb_take(graph, 5, pb_ints("to", cases[i].n, cases[i].to));
        pb_take(graph, 11, pb_value("x", 1, 3, dim, NULL));
        pb_take(graph, 12, pb_value("y", 1, 3, dim, NULL));
        imported in =
            import_batch(write_model("re.onnx", pb_model(graph, 17)), 12);
        if (cases[i].shape)
            tap_equal_text(in.graph ? shape_of(in.graph, "y") : in.err.text,
                           cases[i].shape, "re-batching a reshape, case %d",
                           (int)i);
        else
            tap_ok(!in.graph && strstr(in.err.text, "dynamic_axes") &&
                       strstr(in.err.text, "\"re\""),
                   "an ambiguous reshape is refused: %s", in.err.text);
        drop(&in);
    }
}

static void test_twice(const char *op, const char *in_names, const char *says)
{
    static const int64_t dim[] = {4, 6}, one = 1, three = 3;
    pb *graph = pb_new();
    pb_take(graph, 1, pb_node("cut", op, in_names, "y"));
    pb_take(graph, 5, pb_ints("one", 1, &one));
    pb_take(graph, 5, pb_ints("three", 1, &three));
    pb_take(graph, 11, pb_value("x", 1, 2, dim, NULL));
    pb_take(graph, 12, pb_value("y", 1, 2, dim, NULL));
    imported in = import_batch(write_model("cut.onnx", pb_model(graph, 17)), 8);
    tap_ok(!in.graph && strstr(in.err.text, says),
           "%s along the samples cannot be re-batched: %s", op, in.err.text);
    drop(&in);
}

/* Inputs without initializer that are called like parameters. */
static void test_parameters(void)
{
    static const int64_t dim[] = {4, 6}, w[] = {6, 5}, five = 5;
    pb *graph = pb_new();
    pb *gemm = pb_node("fc", "Gemm", "x,fc.weight,fc.bias", "h");
    pb_take(graph, 1, gemm);
    pb_take(graph, 1, pb_node("s", "Mul", "h,temperature", "y"));
    pb_take(graph, 11, pb_value("x", 1, 2, dim, NULL));
    pb_take(graph, 11, pb_value("fc.weight", 1, 2, w, NULL));
    pb_take(graph, 11, pb_value("fc.bias", 1, 1, &five, NULL));
    pb_take(graph, 11, pb_value("temperature", 1, 1, &five, NULL));
    pb_take(graph, 12, pb_value("y", 1, 2, dim, NULL));
    const char *path = write_model("params.onnx", pb_model(graph, 17));
    onnx_options options = {.batch = 10, .params = "^temp"};
    imported in = import(path, &options);
    tap_ok(in.graph, "parameters may be inputs %s", in.err.text);
    if (in.graph) {
        tap_equal_int(count_parameters(in.graph), 40,
                      "by their name or by --params");
        tap_equal_text(shape_of(in.graph, "y"), "10x5",
                       "and do not take part in the batch");
    }
    drop(&in);
    options.params = "(";
    in = import(path, &options);
    tap_ok(!in.graph && strstr(in.err.text, "--params"),
           "a malformed regex is refused: %s", in.err.text);
    drop(&in);
}

/* A loss over classes on axis 1 of (N, C, d), by mean or sum. */
static void test_loss(const char *reduction, const char *says)
{
    static const int64_t x[] = {4, 6, 5}, labels[] = {4, 5};
    pb *graph = pb_new(),
       *node = pb_node("sce", "SoftmaxCrossEntropyLoss", "x,t", "y");
    pb_attr_text(node, "reduction", reduction);
    pb_attr_int(node, "ignore_index", -1);
    pb_take(graph, 1, node);
    pb_take(graph, 11, pb_value("x", 1, 3, x, NULL));
    pb_take(graph, 11, pb_value("t", 7, 2, labels, NULL));
    pb_take(graph, 12, pb_value("y", 1, 0, NULL, NULL));
    imported in =
        import_batch(write_model("loss.onnx", pb_model(graph, 17)), 8);
    if (says) {
        tap_ok(!in.graph && strstr(in.err.text, says), "a loss by %s: %s",
               reduction, in.err.text);
    } else {
        tap_ok(in.graph && in.graph->loss >= 0, "a loss by %s imports %s",
               reduction, in.err.text);
        tap_equal_int(in.graph ? count_op(in.graph, IR_OP_transpose) : -1, 1,
                      "and brings its classes to the end");
        tap_ok(strstr(in.notes.at, "label -1"), "a label it ignores is noted");
    }
    drop(&in);
}

/* Counts of another reader, when there is one. */
static void test_oracle(const char *name)
{
    char command[1200];
    int nodes = 0, initializers = 0, opset = 0;
    const char *path = dataset(name);
    snprintf(command, sizeof command,
             "/usr/bin/python3 -c 'import onnx,sys;m=onnx.load(sys.argv[1]);"
             "print(len(m.graph.node),len(m.graph.initializer),"
             "m.opset_import[0].version)' '%s' 2>/dev/null",
             path);
    FILE *pipe = popen(command, "r");
    int n = pipe ? fscanf(pipe, "%d %d %d", &nodes, &initializers, &opset) : 0;
    if (pipe)
        pclose(pipe);
    if (n != 3) {
        tap_skip("no onnx package for python3", "%s: another reader", name);
        return;
    }
    fs_err err = {0};
    onnx_model *model;
    if (onnx_model_open(path, &err, &model) != FS_OK) {
        tap_ok(0, "%s: opens", name);
        return;
    }
    tap_equal_int(model->proto.nodes.n, nodes, "%s: nodes", name);
    tap_equal_int(model->proto.initializers.n, initializers, "%s: initializers",
                  name);
    tap_equal_int(model->proto.opsets.at[0].version, opset, "%s: opset", name);
    onnx_model_close(model);
}

int main(void)
{
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        test_model(&wanted[i]);
        test_oracle(wanted[i].path);
    }
    test_twins();
    test_names();
    test_read_tensor();
    test_folding();
    test_singles();
    test_binding();
    test_unbound();
    test_rebatching();
    test_twice("Slice", "x,one,three", "samples");
    test_twice("Gather", "x,one", "samples");
    test_parameters();
    test_loss("mean", NULL);
    test_loss("sum", NULL);
    test_loss("none", "\"none\"");
    remove_folder();
    return tap_done();
}
