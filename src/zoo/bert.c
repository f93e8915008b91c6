/* BERT (Devlin et al. 2019, arXiv 1810.04805) as it is pre-trained: masked
 * words (labels of -100 do not count) and the next sentence. Post-LN blocks,
 * GELU, the decoder tied to the token table. Parameters:
 * (V + T + 2) H + 2 H + L (12 H^2 + 13 H) + (H^2 + H) for the pooler +
 * (H^2 + 3 H + V) for words + (2 H + 2) for sentences. With sentence=0 as
 * RoBERTa (arXiv 1907.11692): masked words alone, no pooler. The loss of words
 * divides by the labels that count, that of sentences by the samples: several
 * micro-batches take a backward pass for each (ir/samples.h). With
 * predictions=P the loss of words is of P of a sequence, as pre-training
 * gathers those masked before it multiplies them with the vocabulary; 0: of
 * all. */
#include "config.h"
#include "zoo/transformer.h"

#include "ir/losses.h"

enum { LAYERS, HIDDEN, HEADS, VOCAB, SEQ, SENTENCE, PREDICTIONS };

static int32_t linear(const zoo_transformer *t, int32_t x, const char *name,
                      int64_t out)
{
    zoo_linear_spec spec = {.part = zoo_whole(name),
                            .in = t->hidden,
                            .out = out,
                            .weight = zoo_normal(0.02)};
    return zoo_linear(t->g, x, &spec);
}

/* Words, positions, the sentence each belongs to. */
static int32_t embed(const zoo_transformer *t, int64_t vocab, int32_t *words)
{
    ir_graph *g = t->g;
    int32_t ids = zoo_ids(g, "ids", t->samples, t->seq);
    int32_t types = zoo_ids(g, "types", t->samples, t->seq);
    zoo_table tok = {zoo_whole("tok"), vocab, t->hidden, 0.02, -1};
    zoo_table type = {zoo_whole("type"), 2, t->hidden, 0.02, -1};
    int32_t x = zoo_embed(g, ids, &tok);
    x = ir_binary(g, IR_OP_add, x, zoo_embed(g, types, &type));
    zoo_scope(g, zoo_whole("pos"));
    int32_t pos =
        zoo_parameter(g, zoo_whole("pos"), "weight",
                      zoo_matrix(t->seq, t->hidden), zoo_normal(0.02));
    *words = tok.parameter;
    return zoo_norm(t, ir_binary(g, IR_OP_add, x, pos), zoo_whole("ln"));
}

static int32_t block_of(const zoo_transformer *t, int32_t x, int64_t block)
{
    int32_t y = zoo_attention(t, x, -1, zoo_block(NULL, block, "attn"));
    zoo_scope(t->g, zoo_block(NULL, block, "ln1"));
    y = ir_binary(t->g, IR_OP_add, x, y);
    x = zoo_norm(t, y, zoo_block(NULL, block, "ln1"));
    y = zoo_feed_forward(t, x, block);
    y = ir_binary(t->g, IR_OP_add, x, y);
    return zoo_norm(t, y, zoo_block(NULL, block, "ln2"));
}

/* Of all words, or of the first `predictions` of each sequence: as much work as
 * of so many masked ones wherever they stand. */
static int32_t word_loss(const zoo_transformer *t, int32_t x, int32_t words,
                         int64_t predictions)
{
    ir_graph *g = t->g;
    const zoo_part head = zoo_whole("words");
    const int64_t vocab = ir_shape_of(g, words).dim[0];
    const bool some = predictions > 0 && predictions < t->seq;
    int32_t labels =
        zoo_ids(g, "labels", t->samples, some ? predictions : t->seq);
    if (some)
        x = ir_slice(g, x, 1, 0, predictions);
    x = ir_unary(g, IR_OP_gelu, linear(t, x, "words/fc", t->hidden));
    x = zoo_norm(t, x, zoo_whole("words/ln"));
    zoo_scope(g, head);
    int32_t bias =
        zoo_parameter(g, head, "bias", zoo_vector(vocab), (ir_init){0});
    x = ir_binary(g, IR_OP_add, ir_matmul(g, x, words, false, true), bias);
    if (zoo_answer(g, x, "logits"))
        return -1;
    ir_label_loss loss = {.labels = labels,
                          .weights = -1,
                          .ignores = true,
                          .ignored = -100,
                          .reduction = IR_ROWS_MEAN};
    return ir_cross_entropy_parts(g, x, &loss);
}

static int32_t sentence_loss(const zoo_transformer *t, int32_t x)
{
    ir_graph *g = t->g;
    int32_t next = ir_input(g, "next", IR_I64, zoo_vector(t->samples), 0);
    zoo_scope(g, zoo_whole("pool"));
    x = ir_reshape(g, ir_slice(g, x, 1, 0, 1),
                   zoo_matrix(t->samples, t->hidden));
    x = ir_unary(g, IR_OP_tanh, linear(t, x, "pool", t->hidden));
    x = linear(t, x, "sentence", 2);
    if (zoo_answer(g, x, "sentence"))
        return -1;
    return ir_cross_entropy(g, x, next);
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
        .epsilon = 1e-12,
    };
    int32_t words;
    if (!zoo_transformer_open(&t))
        return;
    int32_t x = embed(&t, value[VOCAB], &words);
    for (int64_t i = 0; i < value[LAYERS]; i++)
        x = block_of(&t, x, i);
    const int32_t word = word_loss(&t, x, words, value[PREDICTIONS]);
    const int32_t sentence = value[SENTENCE] ? sentence_loss(&t, x) : -1;
    if (!g->infer)
        g->loss = sentence < 0 ? word : ir_binary(g, IR_OP_add, word, sentence);
}

const zoo_model zoo_model_bert = {
    .name = "bert",
    .keys = {[LAYERS] = {"layers", 4, 1, 10000},
             [HIDDEN] = {"hidden", 128, 1, 1 << 20},
             [HEADS] = {"heads", 4, 1, 1 << 20},
             [VOCAB] = {"vocab", 256, 2, INT32_MAX},
             [SEQ] = {"seq", 128, 1, 1 << 15},
             [SENTENCE] = {"sentence", 1, 0, 1},
             [PREDICTIONS] = {"predictions", 0, 0, 1 << 15}},
    .build = build,
};
