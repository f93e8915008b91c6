#include "config.h"
#include "zoo/inverted.h"

enum { STEM = 32, TOP = 1280 }; /* channels */

/* A net as it is built. */
typedef struct building {
    ir_graph *g;
    const zoo_inverted_net *net;
    int64_t percent;
} building;

/* The multiple of 8 nearest to a percentage, at most a tenth less. */
static int64_t scaled(const building *b, int64_t channels)
{
    const int64_t hundred = channels * b->percent;
    int64_t n = (hundred + 400) / 800 * 8;
    if (n < 8)
        n = 8;
    return 10 * 100 * n < 9 * hundred ? n + 8 : n;
}

/* x times a sigmoid per channel. */
static int32_t squeeze(const building *b, int32_t x, zoo_part part,
                       int64_t narrow)
{
    ir_graph *g = b->g;
    const int64_t wide = zoo_channels(g, x);
    zoo_conv_spec down = {.in = wide, .out = narrow, .kernel = 1},
                  up = {.in = narrow, .out = wide, .kernel = 1};
    down.biased = up.biased = true;
    down.part = zoo_block(part.stack, part.block, "squeeze");
    up.part = zoo_block(part.stack, part.block, "excite");
    zoo_scope(g, down.part);
    int32_t y = ir_reduce_mean(g, x, 1u << 2 | 1u << 3, true);
    y = ir_unary(g, b->net->activation, zoo_conv(g, y, &down));
    y = ir_unary(g, IR_OP_sigmoid, zoo_conv(g, y, &up));
    return ir_binary(g, IR_OP_mul, x, y);
}

static int32_t block_of(const building *b, const zoo_inverted *s, int32_t x,
                        zoo_part part)
{
    ir_graph *g = b->g;
    const int64_t in = zoo_channels(g, x), wide = in * s->expand;
    const int64_t out = scaled(b, s->out);
    const int64_t stride = part.block == 0 ? s->stride : 1;
    zoo_conv_spec up = {.part = part, .in = in, .out = wide, .kernel = 1};
    zoo_conv_spec depth = {.part = part,
                           .in = wide,
                           .out = wide,
                           .kernel = s->kernel,
                           .stride = stride,
                           .pad = s->kernel / 2,
                           .groups = wide};
    zoo_conv_spec down = {.part = part, .in = wide, .out = out, .kernel = 1};
    int32_t y = x;
    up.part.name = "conv1";
    depth.part.name = "conv2";
    down.part.name = "conv3";
    if (s->expand > 1)
        y = zoo_conv_norm(g, y, &up, b->net->activation);
    y = zoo_conv_norm(g, y, &depth, b->net->activation);
    if (b->net->squeeze)
        y = squeeze(b, y, part, in / 4 > 0 ? in / 4 : 1);
    y = zoo_conv_norm(g, y, &down, IR_OP_identity);
    return stride == 1 && in == out ? ir_binary(g, IR_OP_add, x, y) : y;
}

static int32_t stages_of(const building *b, int32_t x)
{
    for (int32_t k = 0; k < b->net->n_stages; k++) {
        const zoo_inverted *stage = &b->net->stages[k];
        char *name = fs_printf(b->g->arena, "stage%d", (int)k + 1);
        for (int64_t i = 0; i < stage->blocks; i++)
            x = block_of(b, stage, x, zoo_block(name, i, ""));
    }
    return x;
}

void zoo_inverted_build(ir_graph *g, const zoo_inverted_net *net,
                        const int64_t *value, int64_t samples)
{
    const building b = {g, net, value[ZOO_INVERTED_PERCENT]};
    zoo_conv_spec stem = {.part = zoo_whole("stem"),
                          .in = 3,
                          .out = scaled(&b, STEM),
                          .kernel = 3,
                          .stride = 2,
                          .pad = 1};
    int32_t x = zoo_images(g, samples, 3, value[ZOO_INVERTED_SIZE]);
    x = stages_of(&b, zoo_conv_norm(g, x, &stem, net->activation));
    zoo_conv_spec top = {.part = zoo_whole("top"),
                         .in = zoo_channels(g, x),
                         .out = b.percent > 100 ? scaled(&b, TOP) : TOP,
                         .kernel = 1};
    x = zoo_conv_norm(g, x, &top, net->activation);
    zoo_scope(g, zoo_whole("pool"));
    x = zoo_mean_pool(g, x);
    zoo_classify(g,
                 zoo_dense(g, x, zoo_whole("fc"), value[ZOO_INVERTED_CLASSES]));
}
