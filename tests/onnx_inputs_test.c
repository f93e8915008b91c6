/* The inputs of a model: binding, re-batching, parameters; appended losses. */
#include "config.h"

#include "onnx_imported.h"
#include "tap.h"

/* y = x w, x (symbol, T, 3). */
static const char *write_open(const char *symbol)
{
    static const int64_t open[] = {-1, -1, 3}, w[] = {3, 5};
    static const int64_t y[] = {-1, -1, 5};
    static const float values[15];
    pb *graph = pb_new();
    pb_take(graph, 1, pb_node("mm", "MatMul", "x,w", "y"));
    pb_take(graph, 5, pb_tensor("w", 1, 2, w, values, sizeof values));
    pb *x = pb_value("x", 1, 3, open, symbol);
    pb_take(graph, 11, x);
    pb_take(graph, 12, pb_value("y", 1, 3, y, symbol));
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
    tap_ok(!in.graph && strstr(in.err.text, "is bound to 7"),
           "a bind that contradicts the batch is refused: %s", in.err.text);
    drop(&in);
    static const char *const losses[] = {"mse", "l1", "bce", "bce-logits"};
    for (int i = 0; i < 4; i++) {
        options = (onnx_options){.loss = losses[i]};
        in = import(write_open("n"), &options);
        tap_ok(in.graph && in.graph->loss >= 0 &&
                   ir_graph_find(in.graph, "target") >= 0,
               "--loss %s appends a loss and its target", losses[i]);
        drop(&in);
    }
    options.loss = "cross-entropy";
    in = import(write_open("n"), &options);
    tap_ok(in.graph && in.graph->loss >= 0 &&
               ir_graph_find(in.graph, "loss") == in.graph->loss,
           "so does --loss cross-entropy");
    tap_equal_text(in.graph ? shape_of(in.graph, "labels") : in.err.text, "1x1",
                   "whose labels have the logits' leading shape");
    drop(&in);
    options.loss = "margin,m2=0,m3=0.35,scale=8";
    in = import(write_open("n"), &options);
    tap_ok(in.graph && in.graph->loss >= 0 && in.graph->err.status == FS_OK,
           "so does --loss margin: %s", in.err.text);
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
        tap_ok(!in.graph && strstr(in.err.text, bad[i]), "--bind %s is refused",
               bad[i]);
        drop(&in);
    }
}

/* x of that size, relu: only a size that is not there is open. */
static void test_negative(void)
{
    static const int64_t sizes[] = {-4, -1, INT64_MIN};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        pb *graph = pb_new(), *x = pb_new(), *type = pb_new();
        pb *tensor = pb_new(), *shape = pb_new(), *dim = pb_new();
        pb_int(dim, 1, sizes[i]);
        pb_take(shape, 1, dim);
        pb_int(tensor, 1, 1);
        pb_take(tensor, 2, shape);
        pb_take(type, 1, tensor);
        pb_text(x, 1, "x");
        pb_take(x, 2, type);
        pb_take(graph, 1, pb_node("r", "Relu", "x", "y"));
        pb_take(graph, 11, x);
        imported in =
            import_batch(write_model("negative.onnx", pb_model(graph, 17)), 0);
        tap_ok(!in.graph && strstr(in.err.text, "input \"x\": axis 0 has size"),
               "a negative size is refused by name: %s", in.err.text);
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
        pb_take(graph, 12, pb_value("y", 1, -1, NULL, NULL));
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
    pb_take(graph, 12, pb_value("y", 1, -1, NULL, NULL));
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
    pb_take(graph, 12, pb_value("y", 1, -1, NULL, NULL));
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
    tap_ok(!in.graph && strstr(in.err.text, "'('"),
           "a malformed regex is refused: %s", in.err.text);
    drop(&in);
}

/* y (N, 5) and z (N, 5) from x (N, 3), declared as told. */
static imported import_declared(const int64_t y[2], const int64_t z[2])
{
    static const int64_t x[] = {-1, 3}, w[] = {3, 5};
    static const float values[15];
    pb *graph = pb_new();
    pb_take(graph, 1, pb_node("mm", "MatMul", "x,w", "y"));
    pb_take(graph, 1, pb_node("r", "Relu", "y", "z"));
    pb_take(graph, 5, pb_tensor("w", 1, 2, w, values, sizeof values));
    pb_take(graph, 11, pb_value("x", 1, 2, x, "samples"));
    pb_take(graph, 12, pb_value("z", 1, 2, z, "samples"));
    pb_take(graph, 13, pb_value("y", 1, 2, y, "classes"));
    return import_batch(write_model("told.onnx", pb_model(graph, 17)), 4);
}

static void test_declared(void)
{
    static const struct {
        int64_t y[2], z[2];
        const char *says; /* NULL: fits */
    } rows[] = {
        {{-1, 5}, {-1, 5}, NULL}, /* classes is 4, as it may be */
        {{4, -1}, {4, 5}, NULL},
        {{-1, 6},
         {-1, 5},
         "(MatMul): \"y\" is 4x5, but the model declares "
         "classesx6"},
        {{-1, 5}, {3, 5}, "(Relu): \"z\" is 4x5, but the model declares 3x5"},
        {{-1, 5}, {5, -1}, "declares 5xsamples"},
        {{-1, -1},
         {-1, 5},
         "axis 1 of \"y\", declared as classes, is 5, but "
         "classes is 4 in \"y\""},
        {{-1, 5},
         {-1, -1},
         "declared as samples, is 5, but samples is 4 in "
         "\"x\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        imported in = import_declared(rows[i].y, rows[i].z);
        if (rows[i].says)
            tap_ok(!in.graph && strstr(in.err.text, rows[i].says),
                   "a declared shape that is wrong: %s", in.err.text);
        else
            tap_ok(in.graph, "a declared shape that fits %s", in.err.text);
        drop(&in);
    }
}

int main(void)
{
    test_declared();
    test_binding();
    test_unbound();
    test_negative();
    test_rebatching();
    test_twice("Slice", "x,one,three", "samples");
    test_twice("Gather", "x,one", "samples");
    test_parameters();
    remove_folder();
    return tap_done();
}
