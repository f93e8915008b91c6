/* One operator at a time: folded, imported, refused. */
#include "config.h"

#include "onnx_imported.h"
#include "tap.h"

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
    {"Max", "row", 0, 0, {0}, 1, {3}, {1, 2, 3}},
    {"Min", "row,two,one", 0, 0, {0}, 1, {3}, {1, 1, 1}},
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
        {"zero0", 0, {0}, {0}},
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
    {"ReduceMax", "x", "axes", 2, {-1, 0}, 13, 3, {4, 6, 5}, "1x6x1", 0},
    {"ReduceProd", "x,one", 0, 0, {0}, 18, 3, {4, 6, 5}, "4x1x5", 0},
    {"ReduceL2", "x", "keepdims", 1, {0}, 13, 2, {4, 6}, "scalar", 0},
    {"ReduceLogSumExp", "x", "axes", 1, {1}, 13, 3, {4, 6, 5}, "4x1x5", 0},
    {"ReduceSumSquare", "x", "keepdims", 1, {1}, 18, 2, {4, 6}, "1x1", 0},
    {"ArgMax", "x", "keepdims", 1, {0}, 13, 3, {4, 6, 5}, "6x5", 0},
    {"CumSum", "x,one", "reverse", 1, {1}, 14, 2, {4, 6}, "4x6", 0},
    {"TopK", "x,three", "axis", 1, {0}, 11, 2, {4, 6}, "3x6", 0},
    {"LogSoftmax", "x", "axis", 1, {0}, 13, 2, {4, 6}, "4x6", 0},
    {"Hardmax", "x", "axis", 1, {1}, 11, 3, {4, 6, 5}, "4x6x5", 0},
    {"LpNormalization", "x", "p", 1, {1}, 17, 2, {4, 6}, "4x6", 0},
    {"ReduceMax", "x", "axes", 1, {3}, 13, 2, {4, 6}, 0, "axis 3"},
    {"ReduceMin", "x,row", 0, 0, {0}, 18, 2, {4, 6}, 0, "axis 2"},
    {"ArgMin", "x", "axis", 1, {-3}, 13, 2, {4, 6}, 0, "axis -3"},
    {"TopK", "x,huge", 0, 0, {0}, 11, 2, {4, 6}, 0, "the best 9223"},
    {"TopK", "x,zero", 0, 0, {0}, 11, 2, {4, 6}, 0, "the best 0"},
    {"TopK", "x,row", 0, 0, {0}, 11, 2, {4, 6}, 0, "one number"},
    {"CumSum", "x,least", 0, 0, {0}, 14, 2, {4, 6}, 0, "axis -9223"},
    {"CumSum", "x", 0, 0, {0}, 14, 2, {4, 6}, 0, "one number"},
    {"LpNormalization", "x", "p", 1, {3}, 17, 2, {4, 6}, 0, "order 3"},
    {"MeanVarianceNormalization", "x", 0, 0, {0}, 13, 2, {4, 6}, 0, "rank 2"},
    {"NegativeLogLikelihoodLoss",
     "x,grid",
     0,
     0,
     {0},
     13,
     2,
     {4, 6},
     0,
     "labels of rank 2"},
    {"SoftmaxCrossEntropyLoss",
     "x,row",
     0,
     0,
     {0},
     13,
     2,
     {4, 6},
     0,
     "labels of shape 3"},
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
    {"Slice", "x,zero,three,one,two", 0, 0, {0}, 17, 2, {4, 6}, "4x2", 0},
    {"Slice", "x,minus,zero,one,minus2", 0, 0, {0}, 17, 2, {4, 6}, "4x3", 0},
    {"MatMul", "m,x", 0, 0, {0}, 17, 1, {6}, "2", 0},
    {"MatMul", "x,m", 0, 0, {0}, 17, 1, {2}, "6", 0},
    {"MatMul", "x,x", 0, 0, {0}, 17, 1, {4}, "scalar", 0},
    {"Einsum", "x", 0, 0, {0}, 17, 2, {4, 3}, 0, "\"equation\" is missing"},
    {"Trilu", "x", 0, 0, {0}, 17, 3, {4, 6, 5}, "4x6x5", 0},
    {"Tile", "x,row", 0, 0, {0}, 17, 3, {4, 6, 5}, "4x12x15", 0},
    {"Tile", "x,two,one", 0, 0, {0}, 5, 2, {4, 6}, "4x12", 0},
    {"GatherElements", "x,grid", "axis", 1, {1}, 17, 2, {1, 6}, 0, "2 indices"},
    {"GatherND", "x,row", 0, 0, {0}, 17, 3, {4, 6, 5}, "scalar", 0},
    {"GatherND", "x,two", "batch_dims", 1, {9}, 17, 2, {4, 6}, 0, "after 9"},
    {"OneHot", "x,six0,picks", 0, 0, {0}, 17, 2, {4, 5}, "4x5x6", 0},
    {"OneHot", "x,minus20,picks", 0, 0, {0}, 17, 2, {4, 5}, 0, "the depth"},
    {"Compress", "x,flags", "axis", 1, {1}, 17, 2, {4, 6}, "4x1", 0},
    {"Concat", "x,x,x,x,x,x,x,x,x,x,x", "axis", 1, {0}, 17, 1, {4}, "44", 0},
    {"GroupNormalization",
     "x,row,row",
     "num_groups",
     1,
     {0},
     18,
     3,
     {2, 4, 8},
     0,
     "0 groups"},
    {"BatchNormalization",
     "row,row,row,row,row",
     0,
     0,
     {0},
     9,
     0,
     {0},
     0,
     "channels"},
    {"MaxPool", "x", "kernel_shape", 1, {3}, 17, 3, {2, 3, 8}, "2x3x6", 0},
    {"MaxPool", "x", "kernel_shape", 1, {3}, 17, 2, {2, 3}, 0, "rank 2"},
    {"MaxPool", "x", "kernel_shape", 1, {9}, 17, 3, {2, 3, 8}, 0, "not fit"},
    {"MaxPool", "x", "pads", 2, {1, 1}, 17, 3, {2, 3, 8}, 0, "kernel_shape"},
    {"MaxUnpool", "x,x", "kernel_shape", 1, {2}, 17, 3, {1, 1, 4}, 0, "input"},
    {"GlobalMaxPool", "x", 0, 0, {0}, 17, 4, {2, 3, 8, 8}, "2x3x1x1", 0},
    {"GlobalLpPool", "x", 0, 0, {0}, 17, 2, {2, 3}, 0, "no spatial axes"},
    {"LRN", "x", "size", 1, {5}, 17, 3, {2, 3, 8}, "2x3x8", 0},
    {"LRN", "x", "size", 1, {-5}, 17, 3, {2, 3, 8}, 0, "size of -5"},
    {"SpaceToDepth",
     "x",
     "blocksize",
     1,
     {2},
     17,
     4,
     {1, 2, 4, 6},
     "1x8x2x3",
     0},
    {"SpaceToDepth",
     "x",
     "blocksize",
     1,
     {0},
     17,
     4,
     {1, 2, 4, 6},
     0,
     "size of 0"},
    {"DepthToSpace",
     "x",
     "blocksize",
     1,
     {2},
     17,
     4,
     {1, 8, 2, 3},
     "1x2x4x6",
     0},
    {"DepthToSpace",
     "x",
     "blocksize",
     1,
     {3},
     17,
     4,
     {1, 8, 2, 3},
     0,
     "channels"},
    {"Upsample", "x", 0, 0, {0}, 9, 3, {2, 3, 8}, 0, "scales"},
    {"Resize", "x", "axes", 2, {1, 1}, 18, 3, {2, 3, 8}, 0, "scales"},
    {"Resize", "x,,,row", 0, 0, {0}, 13, 1, {2}, 0, "Resize"},
    {"Resize", "x,,m", 0, 0, {0}, 13, 3, {2, 3, 8}, 0, "12 scales"},
    {"GridSample", "x,x", 0, 0, {0}, 17, 4, {2, 3, 8, 2}, "2x3x3x8", 0},
    {"GridSample", "x,x", 0, 0, {0}, 17, 4, {2, 3, 8, 3}, 0, "not sampled"},
    {"Pow", "x,x", 0, 0, {0}, 17, 2, {4, 6}, "4x6", 0},
    {"Pow", "x,row", 0, 0, {0}, 17, 2, {4, 3}, "4x3", 0},
    {"Mod", "x,x", "fmod", 1, {1}, 17, 2, {4, 6}, "4x6", 0},
    {"Equal", "x,x", 0, 0, {0}, 17, 2, {4, 6}, "4x6", 0},
    {"Greater", "x,m", 0, 0, {0}, 17, 2, {1, 6}, "2x6", 0},
    {"Max", "x,m,x", 0, 0, {0}, 17, 2, {1, 6}, "2x6", 0},
    {"Mean", "x,m,x", 0, 0, {0}, 17, 2, {1, 6}, "2x6", 0},
    {"PRelu", "x,m", 0, 0, {0}, 17, 3, {4, 2, 6}, "4x2x6", 0},
    {"PRelu", "x,m", 0, 0, {0}, 17, 2, {1, 6}, 0, "input 0 is 1x6"},
    {"Celu", "x", 0, 0, {0}, 17, 2, {4, 6}, "4x6", 0},
    {"Clip", "x,zero0,one0", 0, 0, {0}, 17, 2, {4, 6}, "4x6", 0},
    {"Swish", "x", 0, 0, {0}, 24, 2, {4, 6}, "4x6", 0},
    {"CastLike", "x,row", 0, 0, {0}, 17, 2, {4, 6}, "4x6", 0},
    {"And", "x,x", 0, 0, {0}, 17, 2, {4, 6}, 0, "input 0 is f32"},
    {"Expand", "x,row", 0, 0, {0}, 17, 2, {4, 6}, 0, "expand"},
    {"Relu", "x", 0, 0, {0}, 0, 2, {4, 6}, 0, "opset 0"},
    /* As many results as the data say: what sparse dispatch is made of. */
    {"NonZero", "x", 0, 0, {0}, 17, 2, {4, 6}, 0, "NonZero"},
    {"Unique", "x", 0, 0, {0}, 17, 2, {4, 6}, 0, "Unique"},
    {"Compress", "m,x", 0, 0, {0}, 17, 1, {2}, 0, "Compress"},
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
    pb_take(graph, 12, pb_value("y", 1, -1, NULL, NULL));
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
    pb_take(graph, 12, pb_value("y", 1, -1, NULL, NULL));
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
        tap_equal_int(in.graph ? count_op(in.graph, IR_OP_cross_entropy_rows)
                               : -1,
                      1, "and is of rows, for it ignores a label");
    }
    drop(&in);
}

int main(void)
{
    test_folding();
    test_singles();
    test_loss("mean", NULL);
    test_loss("sum", NULL);
    test_loss("product", "\"product\"");
    remove_folder();
    return tap_done();
}
