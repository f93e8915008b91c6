/* GPT-2 (Radford et al. 2019): learned positions, pre-LN blocks, causal
 * attention, GELU, the head tied to the token table, mean cross-entropy.
 * Parameters: V H + T H + L (12 H^2 + 13 H) + 2 H. Weights start from
 * N(0, 0.02), projections onto the residual stream from 0.02 / sqrt(2 L). */
#include "config.h"
#include "zoo/transformer.h"

#include <math.h>

enum { LAYERS, HIDDEN, HEADS, VOCAB, SEQ };

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
    if (!zoo_transformer_open(&t))
        return;
    zoo_transformer_causal(&t);
    int32_t ids = zoo_ids(g, "ids", samples, t.seq);
    int32_t targets = zoo_ids(g, "tgt", samples, t.seq);
    int32_t tok =
        zoo_parameter(g, zoo_whole("tok"), "weight",
                      zoo_matrix(value[VOCAB], t.hidden), zoo_normal(0.02));
    int32_t pos = zoo_parameter(g, zoo_whole("pos"), "weight",
                                zoo_matrix(t.seq, t.hidden), zoo_normal(0.02));
    zoo_scope(g, zoo_whole("tok"));
    int32_t x = ir_gather(g, tok, ids);
    zoo_scope(g, zoo_whole("pos"));
    x = ir_binary(g, IR_OP_add, x, pos);
    for (int64_t i = 0; i < value[LAYERS]; i++)
        x = zoo_transformer_block(&t, x, i);
    x = zoo_norm(&t, x, zoo_whole("lnf"));
    zoo_scope(g, zoo_whole("head"));
    x = ir_matmul(g, x, tok, false, true);
    if (zoo_answer(g, x, "logits"))
        return;
    zoo_scope(g, zoo_whole("loss"));
    g->loss = ir_cross_entropy(g, x, targets);
}

const zoo_model zoo_model_gpt = {
    .name = "gpt",
    .keys = {[LAYERS] = {"layers", 4, 1, 10000},
             [HIDDEN] = {"hidden", 128, 1, 1 << 20},
             [HEADS] = {"heads", 4, 1, 1 << 20},
             [VOCAB] = {"vocab", 256, 2, INT32_MAX},
             [SEQ] = {"seq", 128, 1, 1 << 20}},
    .build = build,
};
