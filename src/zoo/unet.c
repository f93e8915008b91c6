/* U-Net (Ronneberger et al. 2015, arXiv 1505.04597) with padding and batch
 * norm, so that its maps are as large as its images: `depth` halvings, twice
 * the channels at each, then up again beside what came down. A class per
 * pixel. */
#include "config.h"
#include "zoo/convolution.h"

enum { DEPTH, WIDTH, CHANNELS, CLASSES, SIZE, MAX_DEPTH = 10 };

/* Two 3 x 3 convolutions. */
static int32_t twice(ir_graph *g, int32_t x, zoo_part part, int64_t out)
{
    static const char *const names[] = {"conv1", "conv2"};
    for (int32_t k = 0; k < 2; k++) {
        zoo_conv_spec spec = {.part = part,
                              .in = zoo_channels(g, x),
                              .out = out,
                              .kernel = 3,
                              .pad = 1};
        spec.part.name = names[k];
        x = zoo_conv_norm(g, x, &spec, IR_OP_relu);
    }
    return x;
}

static int32_t up(ir_graph *g, int32_t x, int32_t beside, int64_t level)
{
    const int64_t out = zoo_channels(g, beside);
    int32_t parts[2] = {beside, -1};
    parts[1] = zoo_conv_up(g, x, zoo_block("up", level, "widen"), out);
    x = ir_concat(g, parts, 2, 1);
    return twice(g, x, zoo_block("up", level, ""), out);
}

static void add_loss(ir_graph *g, int32_t x, const int64_t *value)
{
    static const int32_t classes_last[] = {0, 2, 3, 1};
    const int64_t samples = ir_shape_of(g, x).dim[0];
    int64_t dim[] = {samples, value[SIZE], value[SIZE]};
    int32_t labels = ir_input(g, "labels", IR_I64, ir_shape_make(3, dim), 0);
    zoo_scope(g, zoo_whole("loss"));
    x = ir_transpose(g, x, classes_last);
    g->loss = ir_cross_entropy(g, x, labels);
}

static void build(ir_graph *g, const int64_t *value, int64_t samples)
{
    const int64_t depth = value[DEPTH];
    int32_t down[MAX_DEPTH];
    if (value[SIZE] % (1 << depth) != 0) {
        ir_graph_fail(g, "size=%lld does not halve %lld times",
                      (long long)value[SIZE], (long long)depth);
        return;
    }
    int32_t x = zoo_images(g, samples, value[CHANNELS], value[SIZE]);
    for (int64_t i = 0; i < depth; i++) {
        x = twice(g, x, zoo_block("down", i, ""), value[WIDTH] << i);
        down[i] = x;
        x = zoo_max_pool(g, x, (zoo_pool_spec){2, 2, 0});
    }
    x = twice(g, x, zoo_block("down", depth, ""), value[WIDTH] << depth);
    for (int64_t i = depth - 1; i >= 0; i--)
        x = up(g, x, down[i], i);
    zoo_conv_spec head = {.part = zoo_whole("head"),
                          .in = zoo_channels(g, x),
                          .out = value[CLASSES],
                          .kernel = 1,
                          .biased = true};
    x = zoo_conv(g, x, &head);
    if (!zoo_answer(g, x, "logits"))
        add_loss(g, x, value);
}

const zoo_model zoo_model_unet = {
    .name = "unet",
    .keys = {[DEPTH] = {"depth", 4, 1, MAX_DEPTH},
             [WIDTH] = {"width", 64, 1, 1 << 16},
             [CHANNELS] = {"channels", 3, 1, 1 << 16},
             [CLASSES] = {"classes", 2, 2, INT32_MAX},
             [SIZE] = {"size", 256, 1, 1 << 14}},
    .build = build,
};
