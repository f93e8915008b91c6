/* Models of one node: what they compute, by the reference kernels, against
 * values worked out by hand. For operators that the ONNX backend tests of the
 * oldest release that is tested do not have. */
#include "config.h"

#include "onnx_imported.h"

#include "interpret.h"
#include "ir/element.h"
#include "ir/rewrite.h"
#include "kernels/evaluate.h"
#include "tap.h"

/* Tensors as text: "f 2 3: 1 2 3 4 5 6" is float, i int64; no numbers after
 * the colon repeat 0, 1, 2, .. Attributes: "axis=1 mode=linear pads=0,1". */
typedef struct row {
    const char *op, *attributes;
    const char *in[3], *out;
} row;

static const row rows[] = {
    {"CumProd", "", {"f 4: 1 2 3 4", "i 1: 0"}, "f 4: 1 2 6 24"},
    {"CumProd", "exclusive=1", {"f 4: 1 2 3 4", "i: 0"}, "f 4: 1 1 2 6"},
    {"CumProd", "reverse=1", {"i 3: 2 3 4", "i: 0"}, "i 3: 24 12 4"},
    {"CumProd",
     "reverse=1 exclusive=1",
     {"f 2 3: 1 2 3 4 5 6", "i: 1"},
     "f 2 3: 6 3 1 30 6 1"},
    {"CumProd", "exclusive=1", {"f 1: 7", "i: 0"}, "f 1: 1"},
    {"CenterCropPad",
     "",
     {"f 2 5:", "i 2: 4 3"},
     "f 4 3: 0 0 0 1 2 3 6 7 8 0 0 0"},
    {"CenterCropPad", "axes=1", {"f 1 3:", "i 1: 6"}, "f 1 6: 0 0 1 2 0 0"},
    {"CenterCropPad", "axes=-1", {"f 1 4:", "i 1: 1"}, "f 1 1: 1"},
    {"Col2Im",
     "",
     {"f 1 4 4:", "i 2: 3 3", "i 2: 2 2"},
     "f 1 1 3 3: 0 5 5 10 30 20 10 25 15"},
    {"Col2Im",
     "strides=2,2",
     {"f 1 4 1: 1 2 3 4", "i 2: 2 2", "i 2: 2 2"},
     "f 1 1 2 2: 1 2 3 4"},
    {"Col2Im",
     "pads=1,1",
     {"f 1 2 3: 1 2 3 4 5 6", "i 1: 2", "i 1: 2"},
     "f 1 1 2: 6 8"},
    {"AffineGrid",
     "align_corners=1",
     {"f 1 2 3: 1 0 0 0 1 0", "i 4: 1 1 2 2"},
     "f 1 2 2 2: -1 -1 1 -1 -1 1 1 1"},
    {"AffineGrid",
     "",
     {"f 1 2 3: 2 0 1 0 1 0", "i 4: 1 1 1 2"},
     "f 1 1 2 2: 0 0 2 0"},
    {"TensorScatter",
     "axis=1",
     {"f 2 4:", "f 2 1: 90 91", "i 2: 2 0"},
     "f 2 4: 0 1 90 3 91 5 6 7"},
    {"TensorScatter",
     "axis=1 mode=circular",
     {"f 1 4:", "f 1 2: 90 91", "i 1: 3"},
     "f 1 4: 91 1 2 90"},
    {"ReverseSequence",
     "batch_axis=0 time_axis=1",
     {"f 2 4:", "i 2: 2 4"},
     "f 2 4: 1 0 2 3 7 6 5 4"},
    {"Det", "", {"f 2 2 2: 1 2 3 4 5 6 7 9"}, "f 2: -2 3"},
    {"Det", "", {"f 4 4: 2 0 0 0 7 3 0 0 9 9 4 0 1 1 1 5"}, "f: 120"},
    {"Det", "", {"f 3 3: 0 1 0 1 0 0 0 0 1"}, "f: -1"},
    {"BitShift", "direction=LEFT", {"i 3: 1 2 3", "i 1: 4"}, "i 3: 16 32 48"},
    {"BitShift", "direction=RIGHT", {"i 3: 1 6 64", "i: 1"}, "i 3: 0 3 32"},
    {"ReduceL1", "keepdims=0", {"f 0 2:", "i 1: 0"}, "f 2: 0 0"},
    {"ReduceLogSum", "keepdims=0", {"f 0 1:", "i 1: 0"}, "f 1: -inf"},
    {"ReduceLogSumExp", "keepdims=0", {"f 0 1:", "i 1: 0"}, "f 1: -inf"},
    {"ReduceLogSumExp",
     "keepdims=0",
     {"f 3 2: -inf -inf inf 0 1 1", "i 1: 1"},
     "f 3: -inf inf 1.69314718"},
    {"ReduceLogSumExp",
     "keepdims=0",
     {"f 2 3: -inf inf 1 -inf 0 1", "i 1: 0"},
     "f 3: -inf inf 1.69314718"},
    {"LpNormalization", "axis=1", {"f 2 2: 0 0 3 4"}, "f 2 2: 0 0 0.6 0.8"},
    {"HannWindow", "periodic=0", {"i: 3"}, "f 3: 0 1 0"},
    {"BlackmanWindow", "", {"i: 2"}, "f 2: 0 1"},
    {"OptionalGetElement", "", {"f 2: 5 6"}, "f 2: 5 6"},
};

static const char *next_word(const char *at)
{
    return at + strspn(at, " ");
}

static onnx_const read_tensor(const char *text, fs_arena *arena)
{
    onnx_const out = {.dtype = *text == 'i' ? IR_I64 : IR_F32};
    for (text = next_word(text + 1); *text != ':'; text = next_word(text)) {
        char *end;
        out.shape.dim[out.shape.rank++] = strtoll(text, &end, 10);
        text = end;
    }
    int64_t n = ir_shape_count(&out.shape);
    void *data = fs_alloc(arena, (size_t)n + 1, 8);
    text = next_word(text + 1);
    const bool counts = *text == '\0';
    for (int64_t i = 0; i < n; i++) {
        char *end = NULL;
        ir_element_set_real(out.dtype, data, i,
                            counts ? (double)i : strtod(text, &end));
        text = counts ? text : end;
    }
    out.data = data;
    return out;
}

/* One "name=value": a list with a comma, a number, a text. */
static void add_attribute(pb *node, const char *word, size_t n)
{
    static const char *const lists[] = {"axes", "pads", "strides", NULL};
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)n, word);
    char *value = strchr(text, '=');
    *value++ = '\0';
    for (int i = 0; lists[i]; i++)
        if (strcmp(lists[i], text) == 0) {
            int64_t list[4] = {0};
            int length = 0;
            for (char *at = value; *at; at += strspn(at, ","))
                list[length++] = strtoll(at, &at, 10);
            pb_attr_ints(node, text, length, list);
            return;
        }
    if (strspn(value, "-0123456789") == strlen(value))
        pb_attr_int(node, text, atoll(value));
    else
        pb_attr_text(node, text, value);
}

static const char *write_row(const row *r, int n_in, const onnx_const *in)
{
    static const char *const lists[] = {"", "a", "a,b", "a,b,c"};
    static const char *const names[] = {"a", "b", "c"};
    pb *graph = pb_new(), *node = pb_node("n", r->op, lists[n_in], "y");
    for (const char *at = r->attributes; *at; at = next_word(at)) {
        size_t n = strcspn(at, " ");
        add_attribute(node, at, n);
        at += n;
    }
    pb_take(graph, 1, node);
    for (int i = 0; i < n_in; i++)
        pb_take(graph, 11,
                pb_value(names[i], in[i].dtype == IR_I64 ? 7 : 1,
                         in[i].shape.rank, in[i].shape.dim, NULL));
    pb_take(graph, 12, pb_value("y", 1, -1, NULL, NULL));
    return write_model("row.onnx", pb_model(graph, 24));
}

/* Runs the graph on the inputs; the first output's values, or NULL. */
static const void *run(const imported *in, const onnx_const *given, fs_err *err)
{
    static const char *const names[] = {"a", "b", "c"};
    const ir_graph *g = in->graph;
    interpreter values;
    const void *out = NULL;
    interpret_open(&values, g, in->arena);
    for (int i = 0; i < 3; i++) {
        int32_t id = ir_graph_find(g, names[i]);
        if (id >= 0)
            memcpy(values.data[id], given[i].data,
                   interpret_bytes(&g->tensors.at[id]));
    }
    for (int32_t i = 0; i < g->nodes.n; i++) {
        const ir_node *node = &g->nodes.at[i];
        kernel_call call = interpret_call(&values, node);
        if (node->op == IR_OP_output)
            out = values.data[node->in[0]];
        else if (ir_op_class_of(node->op) != IR_CLASS_SOURCE &&
                 interpret_run_call(&call, err) != FS_OK)
            return NULL;
    }
    return out;
}

static void test_row(const row *r)
{
    fs_arena *arena = fs_arena_create();
    onnx_const given[3], wanted = read_tensor(r->out, arena);
    fs_err err = {0};
    int n = 0, bad = 0;
    for (; n < 3 && r->in[n]; n++)
        given[n] = read_tensor(r->in[n], arena);
    onnx_options options = {.infer = true, .n_given = n, .given = given};
    imported in = import(write_row(r, n, given), &options);
    const void *got = in.graph ? run(&in, given, &err) : NULL;
    const int64_t count = ir_shape_count(&wanted.shape);
    for (int64_t i = 0; i < count && got; i++) {
        const double a = ir_element_real(wanted.dtype, got, i);
        const double b = ir_element_real(wanted.dtype, wanted.data, i);
        bad += !(a == b || fabs(a - b) <= 1e-5);
        if (!(a == b || fabs(a - b) <= 1e-5))
            printf("# element %d is %g, wanted %g\n", (int)i, a, b);
    }
    tap_ok(got && bad == 0, "%s(%s) of %s %s %s", r->op, r->attributes,
           r->in[0], in.err.text, err.text);
    drop(&in);
    fs_arena_destroy(arena);
}

/* y = x + sin(c) + largest of 2^28 ones + sin(w) + exp(c); c a constant, w a
 * parameter. */
static imported import_constants(bool folds)
{
    static const int64_t three = 3, shape[] = {1, 1 << 28, 1};
    static const float c[] = {0, 1, 2}, one = 1;
    static const int64_t scalar = 1;
    pb *graph = pb_new(), *node = pb_node("c", "Constant", "", "c");
    pb *attr = pb_new();
    pb_text(attr, 1, "value");
    pb_take(attr, 5, pb_floats("", 3, c));
    pb_int(attr, 20, 4);
    pb_take(node, 5, attr);
    pb_take(graph, 1, node);
    node = pb_node("ones", "ConstantOfShape", "shape", "ones");
    attr = pb_new();
    pb_text(attr, 1, "value");
    pb_take(attr, 5, pb_tensor("", 1, 1, &scalar, &one, sizeof one));
    pb_int(attr, 20, 4);
    pb_take(node, 5, attr);
    pb_take(graph, 1, node);
    pb_take(graph, 1, pb_node("s0", "Transpose", "c", "ct"));
    pb_take(graph, 1, pb_node("s1", "Exp", "ct", "e"));
    node = pb_node("s2", "Cast", "length", "real"); /* a shape by way of */
    pb_attr_int(node, "to", 1);                     /* floats */
    pb_take(graph, 1, node);
    pb_take(graph, 1, pb_node("s3", "Floor", "real", "floor"));
    node = pb_node("s4", "Cast", "floor", "again");
    pb_attr_int(node, "to", 7);
    pb_take(graph, 1, node);
    pb_take(graph, 1, pb_node("s5", "Reshape", "e,again", "er"));
    pb_take(graph, 1, pb_node("s", "Sin", "c", "s"));
    pb_take(graph, 1, pb_node("t", "Sin", "w", "t"));
    node = pb_node("r", "ReduceMax", "ones", "r");
    pb_attr_int(node, "keepdims", 0);
    pb_take(graph, 1, node);
    pb_take(graph, 1, pb_node("a", "Add", "x,s", "a"));
    pb_take(graph, 1, pb_node("b", "Add", "a,t", "b"));
    pb_take(graph, 1, pb_node("d", "Add", "b,r", "d"));
    pb_take(graph, 1, pb_node("y", "Add", "d,er", "y"));
    pb_take(graph, 5, pb_ints("shape", 3, shape));
    pb_take(graph, 5, pb_ints("length", 1, &three));
    pb_take(graph, 5, pb_floats("w", 3, c));
    pb_take(graph, 11, pb_value("x", 1, 1, &three, NULL));
    pb_take(graph, 12, pb_value("y", 1, 1, &three, NULL));
    ir_rewrite_options rewrites = ir_rewrite_usual();
    rewrites.fold = folds;
    rewrites.evaluate = kernel_evaluate;
    const onnx_options options = {.rewrites = &rewrites};
    return import(write_model("fold.onnx", pb_model(graph, 17)), &options);
}

static void test_folding(void)
{
    for (int folds = 0; folds < 2; folds++) {
        imported in = import_constants(folds);
        tap_ok(in.graph, "constants import %s", in.err.text);
        if (!in.graph)
            continue;
        tap_equal_int(count_op(in.graph, IR_OP_sin), 2 - folds,
                      "a sine of constants is %s, one of a parameter stays",
                      folds ? "folded" : "left");
        tap_equal_int(count_op(in.graph, IR_OP_exp), 1 - folds,
                      "what the importer could compute itself is %s too",
                      folds ? "folded" : "left");
        tap_equal_int(count_op(in.graph, IR_OP_floor), 0,
                      "a shape that is computed in floats leaves no node");
        tap_equal_int(count_op(in.graph, IR_OP_fill), 1,
                      "a gigabyte of ones stays a fill");
        const int32_t s = ir_graph_find(in.graph, "s");
        const ir_tensor *t = &in.graph->tensors.at[s < 0 ? 0 : s];
        tap_ok(!folds || (t->role == IR_CONST &&
                          fabs(((const float *)t->data)[2] - sin(2)) < 1e-6),
               "and its values are the kernel's");
        drop(&in);
    }
}

int main(void)
{
    test_folding();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        test_row(&rows[i]);
    remove_folder();
    return tap_done();
}
