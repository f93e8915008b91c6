/* GPT-2 (Radford et al. 2019): learned positions, pre-LN blocks, causal
 * attention, GELU, the head tied to the token table, mean cross-entropy.
 * Parameters: V H + T H + L (12 H^2 + 13 H) + 2 H. Weights start from
 * N(0, 0.02), projections onto the residual stream from 0.02 / sqrt(2 L). */
#include "config.h"
#include "zoo/model.h"

#include <math.h>

enum { LAYERS, HIDDEN, HEADS, VOCAB, SEQ };

typedef struct gpt {
    ir_graph *g;
    int64_t layers, hidden, heads, vocab, seq, samples;
    const unsigned char *mask; /* (1, 1, T, T): 1 where a query may not look */
    const float *minus_infinity;
} gpt;

static ir_init normal(double spread)
{
    return (ir_init){.kind = IR_INIT_NORMAL, .spread = spread};
}

/* A part of the whole network. */
static zoo_part whole(const char *name)
{
    return (zoo_part){-1, name};
}

static int32_t linear(const gpt *m, int32_t x, zoo_part part, int64_t in,
                      int64_t out)
{
    zoo_linear_spec spec = {part, in, out, normal(0.02), {0}};
    return zoo_linear(m->g, x, &spec);
}

/* Back onto the residual stream, whose variance 2 L such sums build up. */
static int32_t project(const gpt *m, int32_t x, zoo_part part, int64_t in)
{
    ir_init weight = normal(0.02 / sqrt(2.0 * (double)m->layers));
    zoo_linear_spec spec = {part, in, m->hidden, weight, {0}};
    return zoo_linear(m->g, x, &spec);
}

static int32_t layer_norm(const gpt *m, int32_t x, zoo_part part)
{
    ir_shape shape = ir_shape_make(1, &m->hidden);
    ir_init one = {.kind = IR_INIT_CONSTANT, .mean = 1};
    zoo_scope(m->g, part);
    int32_t gain = zoo_parameter(m->g, part, "weight", shape, one);
    int32_t bias = zoo_parameter(m->g, part, "bias", shape, (ir_init){0});
    return ir_layer_norm(m->g, x, gain, bias, 1e-5);
}

/* (B, T, H) -> (B, heads, T, H / heads) */
static int32_t split_heads(const gpt *m, int32_t x)
{
    int64_t dim[] = {m->samples, m->seq, m->heads, m->hidden / m->heads};
    static const int32_t perm[] = {0, 2, 1, 3};
    return ir_transpose(m->g, ir_reshape(m->g, x, ir_shape_make(4, dim)), perm);
}

static int32_t mask_scores(const gpt *m, int32_t scores)
{
    int64_t dim[] = {1, 1, m->seq, m->seq};
    const char *scope = m->g->scope;
    int32_t mask = ir_constant(m->g, fs_printf(m->g->arena, "%s/mask", scope),
                               IR_BOOL, ir_shape_make(4, dim), m->mask);
    int32_t low = ir_constant(m->g, fs_printf(m->g->arena, "%s/low", scope),
                              IR_F32, (ir_shape){0}, m->minus_infinity);
    return ir_where(m->g, mask, low, scores);
}

static int32_t attention(const gpt *m, int32_t x, int64_t block)
{
    ir_graph *g = m->g;
    int64_t h = m->hidden;
    int32_t q = split_heads(m, linear(m, x, (zoo_part){block, "attn/q"}, h, h));
    int32_t k = split_heads(m, linear(m, x, (zoo_part){block, "attn/k"}, h, h));
    int32_t v = split_heads(m, linear(m, x, (zoo_part){block, "attn/v"}, h, h));
    zoo_scope(g, (zoo_part){block, "attn"});
    int32_t scores = ir_matmul(g, q, k, false, true);
    scores = ir_scale(g, scores, 1 / sqrt((double)(h / m->heads)), 0);
    scores = mask_scores(m, scores);
    int32_t y = ir_matmul(g, ir_softmax(g, scores), v, false, false);
    static const int32_t perm[] = {0, 2, 1, 3};
    int64_t dim[] = {m->samples, m->seq, h};
    y = ir_reshape(g, ir_transpose(g, y, perm), ir_shape_make(3, dim));
    return project(m, y, (zoo_part){block, "attn/proj"}, h);
}

static int32_t feed_forward(const gpt *m, int32_t x, int64_t block)
{
    int32_t y =
        linear(m, x, (zoo_part){block, "mlp/fc"}, m->hidden, 4 * m->hidden);
    y = ir_unary(m->g, IR_OP_gelu, y);
    return project(m, y, (zoo_part){block, "mlp/proj"}, 4 * m->hidden);
}

static int32_t block_of(const gpt *m, int32_t x, int64_t block)
{
    int32_t y = attention(m, layer_norm(m, x, (zoo_part){block, "ln1"}), block);
    x = ir_binary(m->g, IR_OP_add, x, y);
    y = feed_forward(m, layer_norm(m, x, (zoo_part){block, "ln2"}), block);
    return ir_binary(m->g, IR_OP_add, x, y);
}

static void fill_mask(gpt *m)
{
    unsigned char *mask = fs_alloc(m->g->arena, (size_t)m->seq, (size_t)m->seq);
    for (int64_t i = 0; i < m->seq; i++)
        for (int64_t j = i + 1; j < m->seq; j++)
            mask[i * m->seq + j] = 1;
    float *low = fs_new(m->g->arena, float, 1);
    *low = -INFINITY;
    m->mask = mask;
    m->minus_infinity = low;
}

static void build_network(const gpt *m)
{
    ir_graph *g = m->g;
    ir_shape ids_shape = ir_shape_make(2, (int64_t[]){m->samples, m->seq});
    ir_shape tok_shape = ir_shape_make(2, (int64_t[]){m->vocab, m->hidden});
    ir_shape pos_shape = ir_shape_make(2, (int64_t[]){m->seq, m->hidden});
    int32_t ids = ir_input(g, "ids", IR_I64, ids_shape, 0);
    int32_t targets = ir_input(g, "tgt", IR_I64, ids_shape, 0);
    int32_t tok =
        zoo_parameter(g, whole("tok"), "weight", tok_shape, normal(0.02));
    int32_t pos =
        zoo_parameter(g, whole("pos"), "weight", pos_shape, normal(0.02));
    zoo_scope(g, whole("tok"));
    int32_t x = ir_gather(g, tok, ids);
    zoo_scope(g, whole("pos"));
    x = ir_binary(g, IR_OP_add, x, pos);
    for (int64_t i = 0; i < m->layers; i++)
        x = block_of(m, x, i);
    x = layer_norm(m, x, whole("lnf"));
    zoo_scope(g, whole("head"));
    x = ir_matmul(g, x, tok, false, true);
    zoo_scope(g, whole("loss"));
    g->loss = ir_cross_entropy(g, x, targets);
}

static void build(ir_graph *g, const int64_t *value, int64_t samples)
{
    gpt m = {.g = g,
             .layers = value[LAYERS],
             .hidden = value[HIDDEN],
             .heads = value[HEADS],
             .vocab = value[VOCAB],
             .seq = value[SEQ],
             .samples = samples};
    if (m.hidden % m.heads != 0) {
        ir_graph_fail(g, "hidden=%lld does not divide into heads=%lld",
                      (long long)m.hidden, (long long)m.heads);
        return;
    }
    fill_mask(&m);
    build_network(&m);
}

const zoo_model zoo_model_gpt = {
    .name = "gpt",
    .keys = {[LAYERS] = {"layers", 4, 1, 10000},
             [HIDDEN] = {"hidden", 128, 1, 1 << 20},
             [HEADS] = {"heads", 4, 1, 1 << 20},
             [VOCAB] = {"vocab", 256, 2, INT32_MAX},
             [SEQ] = {"seq", 128, 1, 1 << 15}},
    .build = build,
};
