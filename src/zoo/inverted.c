#include "config.h"
#include "zoo/inverted.h"

/* The multiple of 8 nearest to a percentage, at most a tenth less. */
static int64_t scaled(const zoo_inverted_net *net, int64_t channels)
{
    const int64_t hundred = channels * net->percent;
    int64_t n = (hundred + 400) / 800 * 8;
    if (n < 8)
        n = 8;
    return 10 * 100 * n < 9 * hundred ? n + 8 : n;
}

/* x times a sigmoid per channel. */
static int32_t squeeze(const zoo_inverted_net *net, int32_t x, zoo_part part,
                       int64_t narrow)
{
    ir_graph *g = net->g;
    const int64_t wide = zoo_channels(g, x);
    zoo_conv_spec down = {.in = wide, .out = narrow, .kernel = 1},
                  up = {.in = narrow, .out = wide, .kernel = 1};
    down.biased = up.biased = true;
    down.part = zoo_block(part.stack, part.block, "squeeze");
    up.part = zoo_block(part.stack, part.block, "excite");
    zoo_scope(g, down.part);
    int32_t y = ir_reduce_mean(g, x, 1u << 2 | 1u << 3, true);
    y = ir_unary(g, net->activation, zoo_conv(g, y, &down));
    y = ir_unary(g, IR_OP_sigmoid, zoo_conv(g, y, &up));
    return ir_binary(g, IR_OP_mul, x, y);
}

static int32_t block_of(const zoo_inverted_net *net, const zoo_inverted *s,
                        int32_t x, zoo_part part)
{
    ir_graph *g = net->g;
    const int64_t in = zoo_channels(g, x), wide = in * s->expand;
    const int64_t out = scaled(net, s->out);
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
        y = zoo_conv_norm(g, y, &up, net->activation);
    y = zoo_conv_norm(g, y, &depth, net->activation);
    if (net->squeeze)
        y = squeeze(net, y, part, in / 4 > 0 ? in / 4 : 1);
    y = zoo_conv_norm(g, y, &down, IR_OP_identity);
    return stride == 1 && in == out ? ir_binary(g, IR_OP_add, x, y) : y;
}

int32_t zoo_inverted_features(const zoo_inverted_net *net, int32_t x)
{
    ir_graph *g = net->g;
    zoo_conv_spec stem = {.part = zoo_whole("stem"),
                          .in = 3,
                          .out = scaled(net, net->stem),
                          .kernel = 3,
                          .stride = 2,
                          .pad = 1};
    x = zoo_conv_norm(g, x, &stem, net->activation);
    for (int32_t k = 0; k < net->n_stages; k++) {
        char *name = fs_printf(g->arena, "stage%d", (int)k + 1);
        for (int64_t i = 0; i < net->stages[k].blocks; i++)
            x = block_of(net, &net->stages[k], x, zoo_block(name, i, ""));
    }
    zoo_conv_spec head = {.part = zoo_whole("top"),
                          .in = zoo_channels(g, x),
                          .out = net->percent > 100 ? scaled(net, net->head)
                                                    : net->head,
                          .kernel = 1};
    x = zoo_conv_norm(g, x, &head, net->activation);
    zoo_scope(g, zoo_whole("pool"));
    return zoo_mean_pool(g, x);
}
