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
    {"LeakyRelu", "x", {{"alpha", BARE_INT, 1, 0}}, 17, "is an integer"},
    {"Softmax", "x", {{"axis", NONE, 0, 0}}, 17, "without a value"},
    {"Transpose", "x", {{"perm", NONE, 0, 0}}, 17, "perm has 0 entries"},
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
    test_zero_left_out();
    test_contradiction();
    test_rows();
    remove_folder();
    return tap_done();
}
