/* What an operator does not take is refused, by name. */
#include "config.h"

#include "onnx/operators.h"
#include "onnx/signature.h"

#include "onnx_imported.h"
#include "tap.h"

/* AttributeProto: the field of its value, and its type. */
typedef enum form { NONE, REAL, INT, TEXT, INTS, BARE_INT } form;

typedef struct given {
    const char *name;
    form form;
    int64_t value;
    const char *text;
} given;

typedef struct trial {
    const char *op, *in;
    given attr[2];
    int opset;
    const char *says; /* NULL: imports */
} trial;

static const trial trials[] = {
    {"Softmax", "x", {{"axis", INT, 1, 0}}, 17, 0},
    {"Softmax",
     "x",
     {{"axis", TEXT, 0, "zero"}},
     17,
     "attribute \"axis\" is text; an integer is wanted"},
    {"Softmax",
     "x",
     {{"axis", REAL, 0, 0}},
     17,
     "attribute \"axis\" is a real; an integer is wanted"},
    {"LeakyRelu", "x", {{"alpha", REAL, 1, 0}}, 17, 0},
    {"LeakyRelu",
     "x",
     {{"alpha", INT, 1, 0}},
     17,
     "attribute \"alpha\" is an integer; a real is wanted"},
    {"LeakyRelu", "x", {{"alpha", BARE_INT, 1, 0}}, 17, "has no type"},
    {"Softmax", "x", {{"axis", NONE, 0, 0}}, 17, "has no type"},
    {"Softmax", "x", {{"axis", BARE_INT, 1, 0}}, 17, "\"axis\" has no type"},
    {"Transpose", "x", {{"perm", NONE, 0, 0}}, 17, "has no type"},
    {"Cast", "x", {{"to", TEXT, 0, "FLOAT"}}, 5, 0},
    {"Cast", "x", {{"to", TEXT, 0, "FLOAT"}}, 6, "an integer is wanted"},
    {"Cast", "x", {{0}}, 17, "attribute \"to\" is missing"},
    {"Relu", "x", {{"frob", INT, 3, 0}}, 17, "\"frob\" is unknown"},
    {"Relu", "x", {{"slope", REAL, 1, 0}}, 99, "\"slope\" is unknown"},
    {"Relu", "x", {{"consumed_inputs", INTS, 0, 0}}, 1, 0},
    {"Relu", "x,x,x,x", {{0}}, 17, "input 1 (\"x\") is too many: 1 at most"},
    {"Relu", "x,,", {{0}}, 17, 0},
    {"Softmax",
     "x",
     {{"axis", INT, 0, 0}, {"axis", INT, 1, 0}},
     17,
     "\"axis\" is given twice"},
    {"Concat", "x,x", {{"axis", INT, 1, 0}}, 17, 0},
    {"Concat", "x,x", {{0}}, 17, "attribute \"axis\" is missing"},
    {"Concat", "x,x", {{0}}, 3, 0},
    {"Clip", "x", {{"min", REAL, 0, 0}}, 10, 0},
    {"Clip", "x", {{"min", REAL, 0, 0}}, 11, "\"min\" is unknown in opset 11"},
    {"ReduceSum", "x", {{"axes", INTS, 1, 0}}, 11, 0},
    {"ReduceSum", "x", {{"axes", INTS, 1, 0}}, 13, "\"axes\" is unknown"},
    {"Attention",
     "x,x,x",
     {{"left_window_size", INT, 2, 0}},
     25,
     "\"left_window_size\" is unknown"},
    {"Einsum", "x", {{"equation", TEXT, 0, "ab->a"}}, 17, "fit its letters"},
    {"Split", "x", {{"num_outputs", INT, 1, 0}}, 18, 0},
    {"Split", "x", {{"num_outputs", INT, 2, 0}}, 18, "num_outputs is 2 for 1"},
    {"Split",
     "x",
     {{"num_outputs", INT, 1, 0}},
     17,
     "\"num_outputs\" is unknown in opset 17"},
    {"Reshape", "x,i", {{"allowzero", INT, 1, 0}}, 13, "unknown in opset 13"},
    {"Transpose", "i", {{"perm", INTS, -1, 0}}, 17, "the entry -1"},
    {"Conv", "x,w", {{"group", INT, 1, 0}}, 17, 0},
    {"Conv", "x,w", {{"group", INT, 0, 0}}, 17, "\"group\" is 0; 1 .. 2147"},
    {"ConvTranspose",
     "x,w",
     {{"group", INT, INT64_MIN, 0}},
     17,
     "\"group\" is -9223372036854775808; 1 .. 2147483647 is wanted"},
    {"OneHot",
     "i,huge,pair",
     {{0}},
     17,
     "the depth is 4611686018427387904; 1 .. 2147483647"},
    {"OneHot", "i,minus,pair", {{0}}, 17, "the depth is -1"},
    {"OneHot", "i,three,pair", {{0}}, 17, 0},
};

static void put_attribute(pb *node, const given *a)
{
    static const int types[] = {0, 1, 2, 3, 7, 0};
    pb *attr = pb_new();
    pb_text(attr, 1, a->name);
    if (a->form == REAL)
        pb_float(attr, 2, (float)a->value);
    if (a->form == INT || a->form == BARE_INT)
        pb_int(attr, 3, a->value);
    if (a->form == TEXT)
        pb_text(attr, 4, a->text);
    if (a->form == INTS)
        pb_int(attr, 8, a->value);
    if (types[a->form])
        pb_int(attr, 20, types[a->form]);
    pb_take(node, 5, attr);
}

static const char *write_trial(const trial *t)
{
    static const int64_t dim[] = {2, 3, 4}, filter[] = {3, 3, 1}, ids[] = {2};
    static const int64_t huge = INT64_C(1) << 62, minus = -1, three = 3;
    static const float weights[9], pair[2] = {0, 1};
    pb *graph = pb_new(), *node = pb_node("/the_node", t->op, t->in, "y");
    for (int i = 0; i < 2 && t->attr[i].name; i++)
        put_attribute(node, &t->attr[i]);
    pb_take(graph, 1, node);
    pb_take(graph, 5, pb_tensor("w", 1, 3, filter, weights, sizeof weights));
    pb_take(graph, 5, pb_tensor("huge", 7, 0, NULL, &huge, sizeof huge));
    pb_take(graph, 5, pb_tensor("minus", 7, 0, NULL, &minus, sizeof minus));
    pb_take(graph, 5, pb_tensor("three", 7, 0, NULL, &three, sizeof three));
    pb_take(graph, 5, pb_floats("pair", 2, pair));
    pb_take(graph, 11, pb_value("x", 1, 3, dim, NULL));
    pb_take(graph, 11, pb_value("i", 7, 1, ids, NULL));
    pb_take(graph, 12, pb_value("y", 1, -1, NULL, NULL));
    return write_model("trial.onnx", pb_model(graph, t->opset));
}

static void test_trials(void)
{
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        const trial *t = &trials[i];
        imported in = import_batch(write_trial(t), 0);
        if (!t->says)
            tap_ok(in.graph, "%s(%s) of opset %d imports%s%s", t->op, t->in,
                   t->opset, in.graph ? "" : ": ", in.err.text);
        else
            tap_ok(!in.graph && in.err.status == FS_INVALID &&
                       strstr(in.err.text, "\"/the_node\"") &&
                       strstr(in.err.text, t->says),
                   "%s(%s) is refused: %s", t->op, t->in, in.err.text);
        drop(&in);
    }
}

static void put_window(pb *node)
{
    pb *attr = pb_new();
    pb_text(attr, 1, "kernel_shape");
    pb_int(attr, 8, 2);
    pb_int(attr, 8, 2);
    pb_int(attr, 20, 7);
    pb_take(node, 5, attr);
}

/* Of one node of `op` on x and `outputs`: why it is refused, "" when it is not.
 */
static const char *refused_outputs(const char *op, const char *outputs,
                                   int opset)
{
    static char why[1024];
    static const int64_t dim[] = {2, 3, 4, 4};
    pb *graph = pb_new(), *node = pb_node("/the_node", op, "x", outputs);
    if (strstr(op, "Pool"))
        put_window(node);
    pb_take(graph, 1, node);
    pb_take(graph, 11, pb_value("x", 1, 4, dim, NULL));
    pb_take(graph, 12, pb_value("y", 1, -1, NULL, NULL));
    imported in =
        import_batch(write_model("outs.onnx", pb_model(graph, opset)), 0);
    snprintf(why, sizeof why, "%s", in.graph ? "" : in.err.text);
    drop(&in);
    return why;
}

static void test_outputs(void)
{
    static const struct {
        const char *op, *outputs;
        int opset;
        const char *says;
    } cases[] = {
        {"Relu", "y", 17, NULL},
        {"Relu", "y,", 17, NULL},
        {"Relu", "y,z", 17, "output 1 (\"z\") is too many: 1 at most"},
        {"Dropout", "y,z,t", 13, "output 2 (\"t\") is too many: 2 at most"},
        {"AveragePool", "y,z", 17, "output 1 (\"z\") is too many"},
        {"MaxPool", "y,z", 7, "output 1 (\"z\") is too many: 1 at most"},
        {"MaxPool", "y,z,t", 8, "output 2 (\"t\") is too many: 2 at most"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *why =
            refused_outputs(cases[i].op, cases[i].outputs, cases[i].opset);
        tap_ok(cases[i].says
                   ? strstr(why, "\"/the_node\"") && strstr(why, cases[i].says)
                   : !why[0],
               "%s(x) -> %s of opset %d%s%s", cases[i].op, cases[i].outputs,
               cases[i].opset, why[0] ? " is refused: " : "", why);
    }
}

/* Files of the first version say no types. */
static void test_first_version(void)
{
    static const int64_t dim[] = {2, 3};
    pb *graph = pb_new(), *node = pb_node("n", "Softmax", "x", "y");
    pb *attr = pb_new();
    pb_text(attr, 1, "axis");
    pb_int(attr, 3, 1);
    pb_take(node, 5, attr);
    pb_take(graph, 1, node);
    pb_take(graph, 11, pb_value("x", 1, 2, dim, NULL));
    pb_take(graph, 12, pb_value("y", 1, -1, NULL, NULL));
    pb *model = pb_model(graph, 1);
    pb_int(model, 1, 1); /* the last of its fields holds */
    imported in = import_batch(write_model("first.onnx", model), 0);
    tap_ok(in.graph, "an attribute without a type in a file of version 1%s%s",
           in.graph ? "" : ": ", in.err.text);
    drop(&in);
}

/* A 0 that a writer leaves out is still given: its type says so. */
static void test_zero_left_out(void)
{
    static const int64_t dim[] = {2, 3};
    pb *graph = pb_new(), *node = pb_node("n", "ArgMax", "x", "y");
    pb *attr = pb_new();
    pb_text(attr, 1, "keepdims");
    pb_int(attr, 20, 2);
    pb_take(node, 5, attr);
    pb_take(graph, 1, node);
    pb_take(graph, 11, pb_value("x", 1, 2, dim, NULL));
    pb_take(graph, 12, pb_value("y", 7, -1, NULL, NULL));
    imported in =
        import_batch(write_model("zero.onnx", pb_model(graph, 17)), 0);
    tap_equal_text(in.graph ? shape_of(in.graph, "y") : in.err.text, "3",
                   "keepdims of 0, not written");
    drop(&in);
}

/* The type that an attribute says and the value that it has. */
static void test_contradiction(void)
{
    static const int64_t dim[] = {2, 3};
    pb *graph = pb_new(), *node = pb_node("n", "Softmax", "x", "y");
    pb *attr = pb_new();
    pb_text(attr, 1, "axis");
    pb_text(attr, 4, "zero");
    pb_int(attr, 20, 2);
    pb_take(node, 5, attr);
    pb_take(graph, 1, node);
    pb_take(graph, 11, pb_value("x", 1, 2, dim, NULL));
    pb_take(graph, 12, pb_value("y", 1, -1, NULL, NULL));
    imported in = import_batch(write_model("odd.onnx", pb_model(graph, 17)), 0);
    tap_ok(!in.graph && strstr(in.err.text, "\"axis\" is text"),
           "text that calls itself an integer: %s", in.err.text);
    drop(&in);
}

static void test_rows(void)
{
    int32_t missing = 0, i = 0;
    for (; onnx_operator_at(i); i++)
        if (!onnx_has_signature(onnx_operator_at(i))) {
            printf("# %s has no row in signatures.def\n", onnx_operator_at(i));
            missing++;
        }
    tap_equal_int(missing, 0, "all %d operators have a signature", i);
}

int main(void)
{
    test_trials();
    test_outputs();
    test_first_version();
    test_zero_left_out();
    test_contradiction();
    test_rows();
    remove_folder();
    return tap_done();
}
