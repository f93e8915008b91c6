/* Face recognition with a large-class head: IResNet (Duta et al. 2020, as
 * insightface has it: norm first, PReLU, stride in the second 3 x 3) and a
 * margin softmax (ArcFace, Deng et al. 2019, arXiv 1801.07698) over `classes`
 * identities, in parts that may be cut along the classes. Parameters: the
 * backbone's (43.6 M at depth 50) + classes * embedding. */
#include "config.h"
#include "zoo/convolution.h"

#include "ir/losses.h"

enum { DEPTH, WIDTH, EMBEDDING, CLASSES, SIZE, MARGIN, SCALE };

typedef struct depth_row {
    int64_t depth, blocks[4];
} depth_row;
static const depth_row depths[] = {{18, {2, 2, 2, 2}},
                                   {34, {3, 4, 6, 3}},
                                   {50, {3, 4, 14, 3}},
                                   {100, {3, 13, 30, 3}},
                                   {200, {6, 26, 60, 6}}};

static int32_t prelu(ir_graph *g, int32_t x, zoo_part part)
{
    const int64_t n = zoo_channels(g, x);
    int64_t dim[] = {n, 1, 1};
    zoo_scope(g, part);
    int32_t slope =
        zoo_parameter(g, part, "weight", zoo_vector(n), zoo_constant(0.25));
    return ir_binary(g, IR_OP_prelu, x,
                     ir_reshape(g, slope, ir_shape_make(3, dim)));
}

static int32_t block_of(ir_graph *g, int32_t x, const char *stack,
                        int64_t block, int64_t out)
{
    const int64_t stride = block == 0 ? 2 : 1, in = zoo_channels(g, x);
    zoo_conv_spec first = {.part = zoo_block(stack, block, "conv1"),
                           .in = in,
                           .out = out,
                           .kernel = 3,
                           .pad = 1};
    zoo_conv_spec second = {.part = zoo_block(stack, block, "conv2"),
                            .in = out,
                            .out = out,
                            .kernel = 3,
                            .stride = stride,
                            .pad = 1};
    zoo_conv_spec down = {.part = zoo_block(stack, block, "down"),
                          .in = in,
                          .out = out,
                          .kernel = 1,
                          .stride = 2};
    int32_t y = zoo_batch_norm(g, x, zoo_block(stack, block, "bn0"));
    y = zoo_conv_norm(g, y, &first, IR_OP_identity);
    y = prelu(g, y, zoo_block(stack, block, "prelu"));
    y = zoo_conv_norm(g, y, &second, IR_OP_identity);
    if (stride == 2)
        x = zoo_conv_norm(g, x, &down, IR_OP_identity);
    return ir_binary(g, IR_OP_add, x, y);
}

static const depth_row *row_of(ir_graph *g, int64_t depth)
{
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
        if (depths[i].depth == depth)
            return &depths[i];
    ir_graph_fail(g, "depth=%lld: there are 18, 34, 50, 100 and 200",
                  (long long)depth);
    return NULL;
}

/* (B, 3, S, S) -> (B, embedding) */
static int32_t backbone(ir_graph *g, int32_t x, const depth_row *row,
                        const int64_t *value)
{
    zoo_conv_spec stem = {.part = zoo_whole("conv1"),
                          .in = 3,
                          .out = value[WIDTH],
                          .kernel = 3,
                          .pad = 1};
    x = zoo_conv_norm(g, x, &stem, IR_OP_identity);
    x = prelu(g, x, zoo_whole("prelu"));
    for (int64_t k = 0; k < 4; k++) {
        char *name = fs_printf(g->arena, "layer%lld", (long long)k + 1);
        for (int64_t i = 0; i < row->blocks[k]; i++)
            x = block_of(g, x, name, i, value[WIDTH] << k);
    }
    x = zoo_flatten(g, zoo_batch_norm(g, x, zoo_whole("bn2")));
    x = zoo_dense(g, x, zoo_whole("fc"), value[EMBEDDING]);
    return zoo_batch_norm(g, x, zoo_whole("features"));
}

static void build(ir_graph *g, const int64_t *value, int64_t samples)
{
    const depth_row *row = row_of(g, value[DEPTH]);
    const zoo_part head = zoo_whole("head");
    const double margins[] = {1, (double)value[MARGIN] / 100, 0};
    if (!row)
        return;
    int32_t x = zoo_images(g, samples, 3, value[SIZE]);
    x = backbone(g, x, row, value);
    if (zoo_answer(g, x, "features"))
        return;
    int32_t labels = ir_input(g, "labels", IR_I64, zoo_vector(samples), 0);
    zoo_scope(g, head);
    int32_t w = zoo_parameter(g, head, "weight",
                              zoo_matrix(value[CLASSES], value[EMBEDDING]),
                              zoo_normal(0.01));
    x = ir_matmul(g, ir_normalise(g, x, 1), ir_normalise(g, w, 1), false, true);
    x = ir_margin_logits(g, x, labels, margins, (double)value[SCALE]);
    zoo_scope(g, zoo_whole("loss"));
    ir_label_loss loss = {
        .labels = labels, .weights = -1, .reduction = IR_ROWS_MEAN};
    g->loss = ir_cross_entropy_parts(g, x, &loss);
}

const zoo_model zoo_model_insightface = {
    .name = "insightface",
    .keys = {[DEPTH] = {"depth", 50, 18, 200},
             [WIDTH] = {"width", 64, 1, 1 << 16},
             [EMBEDDING] = {"embedding", 512, 1, 1 << 16},
             [CLASSES] = {"classes", 85742, 2, INT32_MAX},
             [SIZE] = {"size", 112, 1, 1 << 12},
             [MARGIN] = {"margin", 50, 0, 157},
             [SCALE] = {"scale", 64, 1, 1000}},
    .build = build,
};
