/* ResNet (He et al. 2016, arXiv 1512.03385) as torchvision has it: 7 x 7 stem,
 * four stages, basic blocks (18, 34) or bottlenecks whose 3 x 3 has the stride
 * (50, 101, 152), batch norm. */
#include "config.h"
#include "zoo/convolution.h"

enum { DEPTH, WIDTH, CLASSES, SIZE };

typedef struct depth_row {
    int64_t depth, blocks[4];
    bool bottleneck;
} depth_row;
static const depth_row depths[] = {{18, {2, 2, 2, 2}, false},
                                   {34, {3, 4, 6, 3}, false},
                                   {50, {3, 4, 6, 3}, true},
                                   {101, {3, 4, 23, 3}, true},
                                   {152, {3, 8, 36, 3}, true}};

typedef struct stage {
    ir_graph *g;
    const char *name;
    int64_t width, stride; /* stride: of block 0 */
    bool bottleneck;
} stage;

static int32_t conv(const stage *s, int32_t x, zoo_conv_spec spec,
                    ir_op_kind activation)
{
    spec.in = zoo_channels(s->g, x);
    spec.pad = spec.kernel / 2;
    return zoo_conv_norm(s->g, x, &spec, activation);
}

static int32_t block_of(const stage *s, int32_t x, int64_t block)
{
    const int64_t w = s->width, out = s->bottleneck ? 4 * w : w;
    const int64_t stride = block == 0 ? s->stride : 1;
    const zoo_part one = zoo_block(s->name, block, "conv1"),
                   two = zoo_block(s->name, block, "conv2"),
                   three = zoo_block(s->name, block, "conv3");
    int32_t y, around = x;
    if (s->bottleneck) {
        y = conv(s, x, (zoo_conv_spec){.part = one, .out = w, .kernel = 1},
                 IR_OP_relu);
        zoo_conv_spec across = {
            .part = two, .out = w, .kernel = 3, .stride = stride};
        y = conv(s, y, across, IR_OP_relu);
        y = conv(s, y, (zoo_conv_spec){.part = three, .out = out, .kernel = 1},
                 IR_OP_identity);
    } else {
        zoo_conv_spec first = {
            .part = one, .out = w, .kernel = 3, .stride = stride};
        y = conv(s, x, first, IR_OP_relu);
        y = conv(s, y, (zoo_conv_spec){.part = two, .out = w, .kernel = 3},
                 IR_OP_identity);
    }
    if (stride != 1 || zoo_channels(s->g, x) != out) {
        zoo_conv_spec down = {.part = zoo_block(s->name, block, "down"),
                              .out = out,
                              .kernel = 1,
                              .stride = stride};
        around = conv(s, x, down, IR_OP_identity);
    }
    zoo_scope(s->g, zoo_block(s->name, block, "out"));
    y = ir_binary(s->g, IR_OP_add, y, around);
    return ir_unary(s->g, IR_OP_relu, y);
}

static const depth_row *row_of(ir_graph *g, int64_t depth)
{
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
        if (depths[i].depth == depth)
            return &depths[i];
    ir_graph_fail(g, "depth=%lld: there are 18, 34, 50, 101 and 152",
                  (long long)depth);
    return NULL;
}

static void build(ir_graph *g, const int64_t *value, int64_t samples)
{
    const depth_row *row = row_of(g, value[DEPTH]);
    if (!row)
        return;
    int32_t x = zoo_images(g, samples, 3, value[SIZE]);
    zoo_conv_spec stem = {.part = zoo_whole("conv1"),
                          .in = 3,
                          .out = value[WIDTH],
                          .kernel = 7,
                          .stride = 2,
                          .pad = 3};
    x = zoo_conv_norm(g, x, &stem, IR_OP_relu);
    x = zoo_max_pool(g, x, (zoo_pool_spec){3, 2, 1});
    for (int64_t k = 0; k < 4; k++) {
        stage s = {g, fs_printf(g->arena, "layer%lld", (long long)k + 1),
                   value[WIDTH] << k, k == 0 ? 1 : 2, row->bottleneck};
        for (int64_t i = 0; i < row->blocks[k]; i++)
            x = block_of(&s, x, i);
    }
    zoo_scope(g, zoo_whole("pool"));
    x = zoo_dense(g, zoo_mean_pool(g, x), zoo_whole("fc"), value[CLASSES]);
    zoo_classify(g, x);
}

const zoo_model zoo_model_resnet = {
    .name = "resnet",
    .keys = {[DEPTH] = {"depth", 50, 18, 152},
             [WIDTH] = {"width", 64, 1, 1 << 16},
             [CLASSES] = {"classes", 1000, 2, INT32_MAX},
             [SIZE] = {"size", 224, 1, 1 << 14}},
    .build = build,
};
