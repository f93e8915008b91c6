/* ViT (Dosovitskiy et al. 2021, arXiv 2010.11929): patches as a convolution, a
 * class token, learned positions, pre-LN blocks, GELU, a linear head on the
 * class token. Parameters, N = (S / P)^2 patches: 3 P^2 H + H + H + (N + 1) H +
 * L (4 H^2 + 2 H F + 9 H + F) + 2 H + H C + C. */
#include "config.h"
#include "zoo/convolution.h"
#include "zoo/transformer.h"

enum { LAYERS, HIDDEN, HEADS, FFN, PATCH, SIZE, CLASSES };

/* (B, patches + 1, H) */
static int32_t embed(const zoo_transformer *t, int64_t patch, int64_t size)
{
    ir_graph *g = t->g;
    static const int32_t channels_last[] = {0, 2, 1};
    int64_t flat[] = {t->samples, t->hidden, t->seq - 1};
    int64_t one[] = {t->samples, 1, t->hidden};
    zoo_conv_spec spec = {.part = zoo_whole("patch"),
                          .in = 3,
                          .out = t->hidden,
                          .kernel = patch,
                          .stride = patch,
                          .biased = true};
    int32_t x = zoo_conv(g, zoo_images(g, t->samples, 3, size), &spec);
    x = ir_transpose(g, ir_reshape(g, x, ir_shape_make(3, flat)),
                     channels_last);
    zoo_scope(g, zoo_whole("class"));
    int32_t token = zoo_parameter(g, zoo_whole("class"), "token",
                                  zoo_vector(t->hidden), (ir_init){0});
    int32_t parts[] = {ir_broadcast_to(g, token, ir_shape_make(3, one)), x};
    x = ir_concat(g, parts, 2, 1);
    zoo_scope(g, zoo_whole("pos"));
    int32_t pos =
        zoo_parameter(g, zoo_whole("pos"), "weight",
                      zoo_matrix(t->seq, t->hidden), zoo_normal(0.02));
    return ir_binary(g, IR_OP_add, x, pos);
}

static void build(ir_graph *g, const int64_t *value, int64_t samples)
{
    const int64_t side = value[SIZE] / value[PATCH];
    zoo_transformer t = {
        .g = g,
        .samples = samples,
        .seq = side * side + 1,
        .hidden = value[HIDDEN],
        .heads = value[HEADS],
        .ffn = value[FFN],
        .activation = IR_OP_gelu,
        .epsilon = 1e-6,
    };
    if (value[SIZE] % value[PATCH] != 0) {
        ir_graph_fail(g, "size=%lld does not divide into patches of %lld",
                      (long long)value[SIZE], (long long)value[PATCH]);
        return;
    }
    if (!zoo_transformer_open(&t))
        return;
    int32_t x = embed(&t, value[PATCH], value[SIZE]);
    for (int64_t i = 0; i < value[LAYERS]; i++)
        x = zoo_transformer_block(&t, x, i);
    x = zoo_norm(&t, x, zoo_whole("lnf"));
    x = ir_reshape(g, ir_slice(g, x, 1, 0, 1), zoo_matrix(samples, t.hidden));
    zoo_classify(g, zoo_dense(g, x, zoo_whole("head"), value[CLASSES]));
}

const zoo_model zoo_model_vit = {
    .name = "vit",
    .keys = {[LAYERS] = {"layers", 4, 1, 10000},
             [HIDDEN] = {"hidden", 128, 1, 1 << 20},
             [HEADS] = {"heads", 4, 1, 1 << 20},
             [FFN] = {"ffn", 512, 1, 1 << 22},
             [PATCH] = {"patch", 8, 1, 1 << 12},
             [SIZE] = {"size", 32, 1, 1 << 12},
             [CLASSES] = {"classes", 10, 2, INT32_MAX}},
    .build = build,
};
