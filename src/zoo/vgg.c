/* VGG (Simonyan & Zisserman 2015, arXiv 1409.1556) without batch norm and
 * dropout, as torchvision has it. */
#include "config.h"
#include "zoo/convolution.h"

enum { DEPTH, WIDTH, HIDDEN, CLASSES, SIZE };

typedef struct depth_row {
    int64_t depth, convs[5];
} depth_row;
static const depth_row depths[] = {{11, {1, 1, 2, 2, 2}},
                                   {13, {2, 2, 2, 2, 2}},
                                   {16, {2, 2, 3, 3, 3}},
                                   {19, {2, 2, 4, 4, 4}}};

static const depth_row *row_of(ir_graph *g, int64_t depth)
{
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++)
        if (depths[i].depth == depth)
            return &depths[i];
    ir_graph_fail(g, "depth=%lld: there are 11, 13, 16 and 19",
                  (long long)depth);
    return NULL;
}

static int32_t stage(ir_graph *g, int32_t x, int64_t k, int64_t out,
                     int64_t convs)
{
    char *name = fs_printf(g->arena, "stage%lld", (long long)k + 1);
    for (int64_t i = 0; i < convs; i++) {
        zoo_conv_spec spec = {.part = zoo_block(name, i, "conv"),
                              .in = zoo_channels(g, x),
                              .out = out,
                              .kernel = 3,
                              .pad = 1,
                              .biased = true};
        x = ir_unary(g, IR_OP_relu, zoo_conv(g, x, &spec));
    }
    return zoo_max_pool(g, x, (zoo_pool_spec){2, 2, 0});
}

static void build(ir_graph *g, const int64_t *value, int64_t samples)
{
    const depth_row *row = row_of(g, value[DEPTH]);
    if (!row)
        return;
    int32_t x = zoo_images(g, samples, 3, value[SIZE]);
    for (int64_t k = 0; k < 5; k++)
        x = stage(g, x, k, value[WIDTH] << (k < 3 ? k : 3), row->convs[k]);
    zoo_scope(g, zoo_whole("flatten"));
    x = zoo_flatten(g, x);
    x = ir_unary(g, IR_OP_relu,
                 zoo_dense(g, x, zoo_whole("fc1"), value[HIDDEN]));
    x = ir_unary(g, IR_OP_relu,
                 zoo_dense(g, x, zoo_whole("fc2"), value[HIDDEN]));
    zoo_classify(g, zoo_dense(g, x, zoo_whole("fc3"), value[CLASSES]));
}

const zoo_model zoo_model_vgg = {
    .name = "vgg",
    .keys = {[DEPTH] = {"depth", 16, 11, 19},
             [WIDTH] = {"width", 64, 1, 1 << 16},
             [HIDDEN] = {"hidden", 4096, 1, 1 << 20},
             [CLASSES] = {"classes", 1000, 2, INT32_MAX},
             [SIZE] = {"size", 224, 32, 1 << 14}},
    .build = build,
};
