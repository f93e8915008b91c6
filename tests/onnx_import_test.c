/* Import of the models in datasets/: counts, names, twins, tensors. */
#include "config.h"

#include "ir/train.h"
#include "onnx/file.h"

#include "onnx_imported.h"
#include "tap.h"

static const char *dataset(const char *name)
{
    static char path[4][600];
    static int next;
    char *out = path[next++ % 4];
    const char *root = getenv("FS_SRCDIR");
    snprintf(out, sizeof path[0], "%s/datasets/%s", root ? root : "..", name);
    return out;
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
     155,
     228,
     842496,
     1,
     "ids",
     "1x128",
     {{IR_OP_matmul, 17, 25},
      {IR_OP_layer_norm, 9, 9},
      {IR_OP_gelu, 4, 0},
      {IR_OP_transpose, 16, 33},
      {IR_OP_where, 0, 4},
      {IR_OP_slice, 12, 12}}},
    {"models/gpt_bytes.batch4.onnx",
     155,
     228,
     842496,
     4,
     "ids",
     "4x128",
     {{IR_OP_matmul, 17, 25},
      {IR_OP_layer_norm, 9, 9},
      {IR_OP_gelu, 4, 0},
      {IR_OP_transpose, 16, 33},
      {IR_OP_attention, 4, 0},
      {IR_OP_erf, 0, 4}}},
    {"models/gpt2_loss.small.op17.train.onnx",
     182,
     237,
     809856,
     2,
     "ids",
     "2x64",
     {{IR_OP_matmul, 25, 25},
      {IR_OP_layer_norm, 9, 9},
      {IR_OP_gelu, 4, 0},
      {IR_OP_softmax, 4, 4},
      {IR_OP_variable, 52, 52},
      {IR_OP_dropout, 9, 9}}},
    {"train_cases/mlp/model.onnx",
     22,
     25,
     467,
     4,
     "in0",
     "4x8",
     {{IR_OP_matmul, 3, 3},
      {IR_OP_add, 1, 4},
      {IR_OP_relu, 1, 1},
      {IR_OP_sigmoid, 1, 1},
      {IR_OP_cross_entropy_rows, 1, 1},
      {IR_OP_variable, 6, 6}}},
    {"train_cases/lenet/model.onnx",
     33,
     35,
     15734,
     2,
     "in0",
     "2x1x28x28",
     {{IR_OP_conv, 2, 2},
      {IR_OP_max_pool, 1, 1},
      {IR_OP_avg_pool, 1, 1},
      {IR_OP_tanh, 1, 1},
      {IR_OP_pad, 0, 0},
      {IR_OP_matmul, 2, 2}}},
    {"train_cases/gpt_tiny/model.onnx",
     89,
     176,
     26528,
     2,
     "in0",
     "2x16",
     {{IR_OP_layer_norm, 5, 0},
      {IR_OP_reduce_sum, 2, 12},
      {IR_OP_gelu, 2, 0},
      {IR_OP_power, 0, 5},
      {IR_OP_matmul, 9, 13},
      {IR_OP_where, 0, 2}}},
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

/* Without attention, which would take the scores' names and the mask. */
static void test_names(void)
{
    ir_rewrite_options rewrites = ir_rewrite_usual();
    onnx_options options = {.batch = 8, .rewrites = &rewrites};
    rewrites.attention = false;
    imported in = import(dataset("models/gpt_bytes.dyn.onnx"), &options);
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
    tap_equal_int(masks, 1, "shape arithmetic folds to one causal mask");
    drop(&in);
    in = import_batch(dataset("models/gpt2_loss.small.op17.train.onnx"), 0);
    tap_ok(in.graph && strstr(in.notes.at, "9 Dropout nodes (ratio up to 0.1)"),
           "dropout that drops is said in the notes");
    drop(&in);
    onnx_options without = {.no_dropout = true};
    in = import(dataset("models/gpt2_loss.small.op17.train.onnx"), &without);
    tap_ok(in.graph && count_op(in.graph, IR_OP_dropout) == 0 &&
               strstr(in.notes.at, "left out"),
           "dropout that is left out is said too");
    drop(&in);
}

static void test_read_tensor(void)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    onnx_const read;
    fs_status status = onnx_read_tensor(
        dataset("train_cases/mlp/grad/m.0.weight.pb"), arena, &err, &read);
    char text[160];
    tap_ok(status == FS_OK && read.dtype == IR_F32, "a gradient file reads %s",
           err.text);
    tap_equal_text(ir_shape_text(text, &read.shape), "16x8", "with its shape");
    status =
        onnx_read_tensor(dataset("train_cases/mlp/test_data_set_0/output_0.pb"),
                         arena, &err, &read);
    tap_ok(status == FS_OK && read.shape.rank == 0, "a loss file is a scalar");
    if (status == FS_OK)
        tap_near(*(const float *)read.data, 1.1712608, 1e-6,
                 "whose value is the first of train.json");
    fs_arena_destroy(arena);
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
    return tap_done();
}
