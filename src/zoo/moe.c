/* A GPT whose feed-forward is a mixture of experts in every `every`-th block
 * (GShard, Lepikhin et al. 2020; Switch, Fedus et al. 2021 with active=1).
 * Parameters, with M such blocks: V H + T H + 2 H + L (12 H^2 + 13 H) +
 * M (8 H^2 (E - 1) + E H - 5 H). */
#include "config.h"
#include "zoo/experts.h"

#include <math.h>

enum {
    LAYERS,
    HIDDEN,
    HEADS,
    VOCAB,
    SEQ,
    EXPERTS,
    ACTIVE,
    CAPACITY,
    GROUP,
    EVERY
};

static void build_network(const zoo_transformer *t, zoo_experts *e,
                          const int64_t *value)
{
    ir_graph *g = t->g;
    int32_t ids = zoo_ids(g, "ids", t->samples, t->seq);
    int32_t targets = zoo_ids(g, "tgt", t->samples, t->seq);
    zoo_table tok = {zoo_whole("tok"), value[VOCAB], t->hidden, 0.02, -1};
    int32_t x = zoo_embed(g, ids, &tok);
    zoo_scope(g, zoo_whole("pos"));
    int32_t pos =
        zoo_parameter(g, zoo_whole("pos"), "weight",
                      zoo_matrix(t->seq, t->hidden), zoo_normal(0.02));
    x = ir_binary(g, IR_OP_add, x, pos);
    for (int64_t i = 0; i < value[LAYERS]; i++)
        x = (i + 1) % value[EVERY] == 0 ? zoo_expert_block(t, e, x, i)
                                        : zoo_transformer_block(t, x, i);
    x = zoo_norm(t, x, zoo_whole("lnf"));
    zoo_scope(g, zoo_whole("head"));
    x = ir_matmul(g, x, tok.parameter, false, true);
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
        .activation = IR_OP_gelu,
        .project = 0.02 / sqrt(2.0 * (double)value[LAYERS]),
    };
    zoo_experts e = zoo_experts_of(&value[EXPERTS]);
    if (!zoo_transformer_open(&t) || !zoo_experts_open(&e, &t))
        return;
    zoo_transformer_causal(&t);
    build_network(&t, &e, value);
}

const zoo_model zoo_model_moe = {
    .name = "moe",
    .keys = {[LAYERS] = {"layers", 4, 1, 10000},
             [HIDDEN] = {"hidden", 128, 1, 1 << 20},
             [HEADS] = {"heads", 4, 1, 1 << 20},
             [VOCAB] = {"vocab", 256, 2, INT32_MAX},
             [SEQ] = {"seq", 128, 1, 1 << 15},
             [EXPERTS] = {"experts", 4, 2, 1 << 16},
             [ACTIVE] = {"active", 2, 1, 64},
             [CAPACITY] = {"capacity", 125, 1, 100000},
             [GROUP] = {"group", 0, 0, 1 << 15},
             [EVERY] = {"every", 2, 1, 10000}},
    .needs = {[ACTIVE] = {EXPERTS, NULL},
              [CAPACITY] = {EXPERTS, NULL},
              [GROUP] = {EXPERTS, NULL},
              [EVERY] = {EXPERTS, "layers"}},
    .build = build,
};
