/* LLaMA (Touvron et al. 2023): RMS norm, rotary positions, heads that share
 * keys and values, SwiGLU, no biases, a head of its own. With experts > 1 the
 * feed-forward is Mixtral's (Jiang et al. 2024). Parameters:
 * 2 V H + L (2 H^2 + 2 H^2 K / heads + 3 H F + 2 H) + H; with E experts
 * 3 E H F + E H for 3 H F. */
#include "config.h"
#include "zoo/experts.h"

#include <math.h>

enum {
    LAYERS,
    HIDDEN,
    HEADS,
    KV_HEADS,
    FFN,
    VOCAB,
    SEQ,
    ROTARY,
    EXPERTS,
    ACTIVE,
    CAPACITY,
    GROUP
};

static void build_network(zoo_transformer *t, zoo_experts *e,
                          const int64_t *value)
{
    ir_graph *g = t->g;
    int32_t ids = zoo_ids(g, "ids", t->samples, t->seq);
    int32_t targets = zoo_ids(g, "tgt", t->samples, t->seq);
    zoo_table tok = {zoo_whole("tok"), value[VOCAB], t->hidden, 0.02, -1};
    int32_t x = zoo_embed(g, ids, &tok);
    for (int64_t i = 0; i < value[LAYERS]; i++)
        x = e->n > 1 ? zoo_expert_block(t, e, x, i)
                     : zoo_transformer_block(t, x, i);
    x = zoo_norm(t, x, zoo_whole("lnf"));
    zoo_linear_spec head = {.part = zoo_whole("head"),
                            .in = t->hidden,
                            .out = value[VOCAB],
                            .weight = zoo_normal(0.02),
                            .unbiased = true};
    x = zoo_linear(g, x, &head);
    if (zoo_answer(g, x, "logits"))
        return;
    zoo_scope(g, zoo_whole("loss"));
    g->loss = zoo_add_balance(g, e, ir_cross_entropy(g, x, targets));
}

static void build(ir_graph *g, const int64_t *value, int64_t samples)
{
    zoo_transformer t = {
        .g = g,
        .samples = samples,
        .seq = value[SEQ],
        .hidden = value[HIDDEN],
        .heads = value[HEADS],
        .kv_heads = value[KV_HEADS],
        .ffn = value[FFN],
        .activation = IR_OP_silu,
        .gated = true,
        .unbiased = true,
        .rms = true,
        .project = 0.02 / sqrt(2.0 * (double)value[LAYERS]),
    };
    zoo_experts e = zoo_experts_of(&value[EXPERTS]);
    if (!zoo_transformer_open(&t) || !zoo_experts_open(&e, &t))
        return;
    zoo_transformer_causal(&t);
    zoo_transformer_rotate(&t, (double)value[ROTARY]);
    build_network(&t, &e, value);
}

const zoo_model zoo_model_llama = {
    .name = "llama",
    .keys = {[LAYERS] = {"layers", 4, 1, 10000},
             [HIDDEN] = {"hidden", 128, 1, 1 << 20},
             [HEADS] = {"heads", 4, 1, 1 << 20},
             [KV_HEADS] = {"kv_heads", 2, 1, 1 << 20},
             [FFN] = {"ffn", 344, 1, 1 << 22},
             [VOCAB] = {"vocab", 256, 2, INT32_MAX},
             [SEQ] = {"seq", 128, 1, 1 << 15},
             [ROTARY] = {"rotary", 10000, 2, 1 << 30},
             [EXPERTS] = {"experts", 1, 1, 1 << 16},
             [ACTIVE] = {"active", 2, 1, 64},
             [CAPACITY] = {"capacity", 125, 1, 100000},
             [GROUP] = {"group", 0, 0, 1 << 15}},
    .needs = {[ACTIVE] = {EXPERTS, NULL},
              [CAPACITY] = {EXPERTS, NULL},
              [GROUP] = {EXPERTS, NULL}},
    .build = build,
};
