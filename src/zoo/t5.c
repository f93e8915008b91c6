/* T5 (Raffel et al. 2020, arXiv 1910.10683): encoder and decoder, RMS norm,
 * learned biases by distance, no biases, scores not scaled, ReLU, one table of
 * tokens. With experts > 1 every `every`-th block is a Switch Transformer's
 * (Fedus et al. 2021). Parameters, A = heads head: V H + 2 * 32 heads + 2 H +
 * L (4 H A + 2 H F + 2 H) + L (8 H A + 2 H F + 3 H); with M sparse blocks
 * M (2 H F (E - 1) + E H) more. */
#include "config.h"
#include "zoo/experts.h"

#include <math.h>

enum {
    LAYERS,
    HIDDEN,
    HEADS,
    HEAD,
    FFN,
    VOCAB,
    SEQ,
    TARGET,
    EXPERTS,
    ACTIVE,
    CAPACITY,
    GROUP,
    EVERY
};

enum { BUCKETS = 32, FAR = 128 };

/* Of a key at `distance` (key - query): half the buckets are exact, the rest
 * grow logarithmically up to FAR; looking both ways halves them. */
static int64_t bucket_of(int64_t distance, bool both_ways)
{
    int64_t n = BUCKETS, first = 0;
    if (both_ways) {
        n /= 2;
        first = distance > 0 ? n : 0;
        distance = distance < 0 ? -distance : distance;
    } else {
        distance = distance < 0 ? -distance : 0;
    }
    const int64_t exact = n / 2;
    if (distance < exact)
        return first + distance;
    const double grown = log((double)distance / (double)exact) /
                         log((double)FAR / (double)exact);
    const int64_t at = exact + (int64_t)(grown * (double)(n - exact));
    return first + (at < n ? at : n - 1);
}

/* (1, heads, T, T): what distances add to scores, the same in all blocks. */
static int32_t distance_bias(const zoo_transformer *t, const char *name)
{
    ir_graph *g = t->g;
    static const int32_t heads_first[] = {2, 0, 1};
    int64_t *bucket = fs_new(g->arena, int64_t, t->seq * t->seq);
    for (int64_t i = 0; i < t->seq; i++)
        for (int64_t j = 0; j < t->seq; j++)
            bucket[i * t->seq + j] = bucket_of(j - i, t->mask == NULL);
    zoo_table table = {zoo_whole(name), BUCKETS, t->heads, 0.02, -1};
    int32_t ids = ir_constant(g, fs_printf(g->arena, "/%s/bucket", name),
                              IR_I64, zoo_matrix(t->seq, t->seq), bucket);
    int32_t bias = ir_transpose(g, zoo_embed(g, ids, &table), heads_first);
    int64_t dim[] = {1, t->heads, t->seq, t->seq};
    return ir_reshape(g, bias, ir_shape_make(4, dim));
}

/* What a stack reads: the table of words; what it looks at, or -1. */
typedef struct stack_inputs {
    int32_t words, memory;
} stack_inputs;

static int32_t add(const zoo_transformer *t, int32_t x, int32_t y)
{
    return ir_binary(t->g, IR_OP_add, x, y);
}

/* `memory`: what a decoder looks at, else -1. */
static int32_t block_of(const zoo_transformer *t, zoo_experts *e, int32_t x,
                        int32_t memory, int64_t block)
{
    int32_t y = zoo_norm(t, x, zoo_block(t->stack, block, "ln1"));
    x = add(t, x, zoo_attention(t, y, -1, zoo_block(t->stack, block, "attn")));
    if (memory >= 0) {
        y = zoo_norm(t, x, zoo_block(t->stack, block, "lnx"));
        x = add(
            t, x,
            zoo_attention(t, y, memory, zoo_block(t->stack, block, "cross")));
    }
    y = zoo_norm(t, x, zoo_block(t->stack, block, "ln2"));
    return add(t, x,
               e ? zoo_expert_layer(t, e, y, block)
                 : zoo_feed_forward(t, y, block));
}

/* One stack: ids through its blocks to its last norm. The bias comes before the
 * words, so that block 0 follows its input as all others do. */
static int32_t stack_of(zoo_transformer *t, zoo_experts *e,
                        const int64_t *value, int32_t ids, stack_inputs in)
{
    ir_graph *g = t->g;
    if (!zoo_experts_open(e, t))
        return -1;
    t->bias = distance_bias(t, fs_printf(g->arena, "%s/distance", t->stack));
    zoo_scope(g, zoo_whole(fs_printf(g->arena, "%s/tok", t->stack)));
    int32_t x = ir_gather(g, in.words, ids);
    for (int64_t i = 0; i < value[LAYERS]; i++) {
        const bool sparse = e->n > 1 && (i + 1) % value[EVERY] == 0;
        x = block_of(t, sparse ? e : NULL, x, in.memory, i);
    }
    return zoo_norm(t, x, zoo_whole(fs_printf(g->arena, "%s/ln", t->stack)));
}

static void build_network(zoo_transformer *t, const int64_t *value)
{
    ir_graph *g = t->g;
    zoo_transformer decoder = *t;
    zoo_experts e = zoo_experts_of(&value[EXPERTS]), d = e;
    t->stack = "encoder";
    decoder.stack = "decoder";
    decoder.seq = value[TARGET];
    zoo_transformer_causal(&decoder);
    int32_t ids = zoo_ids(g, "ids", t->samples, t->seq);
    int32_t before = zoo_ids(g, "before", t->samples, decoder.seq);
    int32_t targets = zoo_ids(g, "tgt", t->samples, decoder.seq);
    stack_inputs in = {zoo_parameter(g, zoo_whole("tok"), "weight",
                                     zoo_matrix(value[VOCAB], t->hidden),
                                     zoo_normal(1)),
                       -1};
    in.memory = stack_of(t, &e, value, ids, in);
    int32_t y = stack_of(&decoder, &d, value, before, in);
    zoo_scope(g, zoo_whole("head"));
    y = ir_scale(g, y, 1 / sqrt((double)t->hidden), 0);
    y = ir_matmul(g, y, in.words, false, true);
    if (zoo_answer(g, y, "logits"))
        return;
    zoo_scope(g, zoo_whole("loss"));
    int32_t loss = zoo_add_balance(g, &e, ir_cross_entropy(g, y, targets));
    g->loss = zoo_add_balance(g, &d, loss);
}

static void build(ir_graph *g, const int64_t *value, int64_t samples)
{
    zoo_transformer t = {
        .g = g,
        .samples = samples,
        .seq = value[SEQ],
        .hidden = value[HIDDEN],
        .heads = value[HEADS],
        .head = value[HEAD],
        .ffn = value[FFN],
        .activation = IR_OP_relu,
        .unbiased = true,
        .rms = true,
        .epsilon = 1e-6,
        .spread = 0.05,
        .scale = 1,
    };
    if (zoo_transformer_open(&t))
        build_network(&t, value);
}

const zoo_model zoo_model_t5 = {
    .name = "t5",
    .keys = {[LAYERS] = {"layers", 2, 1, 10000},
             [HIDDEN] = {"hidden", 128, 1, 1 << 20},
             [HEADS] = {"heads", 4, 1, 1 << 20},
             [HEAD] = {"head", 32, 1, 1 << 20},
             [FFN] = {"ffn", 512, 1, 1 << 22},
             [VOCAB] = {"vocab", 256, 2, INT32_MAX},
             [SEQ] = {"seq", 64, 1, 1 << 12},
             [TARGET] = {"target", 64, 1, 1 << 12},
             [EXPERTS] = {"experts", 1, 1, 1 << 16},
             [ACTIVE] = {"active", 1, 1, 64},
             [CAPACITY] = {"capacity", 125, 1, 100000},
             [GROUP] = {"group", 0, 0, 1 << 12},
             [EVERY] = {"every", 2, 1, 10000}},
    .needs = {[ACTIVE] = {EXPERTS, NULL},
              [CAPACITY] = {EXPERTS, NULL},
              [GROUP] = {EXPERTS, NULL},
              [EVERY] = {EXPERTS, "layers"}},
    .build = build,
};
