/* Language models of LSTM (Zaremba et al. 2014, arXiv 1409.2329) and GRU
 * layers: a table of words, `layers` layers, a linear head, cross-entropy of
 * the next word. Every sample starts from zero states. Parameters, in = E for
 * layer 0, else H: V E + V H + V + per layer 4 H (in + H + 1) of an LSTM,
 * 3 H (in + H + 1) + H of a GRU (whose reset gate acts after the product, as
 * PyTorch's). */
#include "config.h"
#include "zoo/model.h"

#include "ir/recurrent.h"

enum { LAYERS, HIDDEN, EMBEDDING, VOCAB, SEQ };

typedef struct net {
    ir_graph *g;
    ir_cell cell;
    ir_cell_sizes n;
    int64_t samples, seq, hidden;
} net;

/* What an LSTM's peepholes are (none), a GRU's recurrent bias. */
static int32_t extra_of(const net *m, zoo_part part)
{
    const ir_shape shape = zoo_matrix(m->n.extra, m->hidden);
    return m->cell == IR_CELL_LSTM
               ? ir_fill(m->g, shape, 0)
               : zoo_parameter(m->g, part, "recurrent_bias", shape,
                               zoo_uniform(m->hidden));
}

/* x (T, B, in) -> (T, B, H) */
static int32_t layer(const net *m, int32_t x, int64_t block, int64_t in)
{
    ir_graph *g = m->g;
    const int64_t h = m->hidden, gates = m->n.gates;
    const ir_init init = zoo_uniform(h);
    zoo_part part = zoo_block(NULL, block, "rnn");
    zoo_linear_spec spec = {part, in, gates * h, init, init, false};
    int64_t four[] = {m->seq, m->samples, gates, h};
    int64_t first[] = {m->samples, m->n.states, h};
    int64_t square[] = {gates, h, h};
    x = ir_reshape(g, zoo_linear(g, x, &spec), ir_shape_make(4, four));
    int32_t r =
        zoo_parameter(g, part, "recurrent", ir_shape_make(3, square), init);
    ir_node node = {.op = IR_OP_recurrent,
                    .n_in = 4,
                    .in = {x, r, ir_fill(g, ir_shape_make(3, first), 0),
                           extra_of(m, part)}};
    node.i[IR_CELL_KIND] = m->cell;
    node.i[IR_CELL_VARIANT] = m->cell == IR_CELL_GRU;
    node.i[IR_CELL_F] = IR_ACTIVATION_SIGMOID;
    node.i[IR_CELL_F + 1] = IR_ACTIVATION_TANH;
    node.i[IR_CELL_F + 2] = IR_ACTIVATION_TANH;
    return ir_append(g, &node);
}

static void build(ir_graph *g, ir_cell cell, const int64_t *value,
                  int64_t samples)
{
    static const int32_t swap[] = {1, 0, 2};
    net m = {g, cell, ir_cell_of(cell), samples, value[SEQ], value[HIDDEN]};
    int32_t ids = zoo_ids(g, "ids", samples, m.seq);
    int32_t targets = zoo_ids(g, "tgt", samples, m.seq);
    zoo_table tok = {zoo_whole("tok"), value[VOCAB], value[EMBEDDING], 0.1, -1};
    int32_t x = ir_transpose(g, zoo_embed(g, ids, &tok), swap);
    int64_t in = value[EMBEDDING];
    for (int64_t i = 0; i < value[LAYERS]; i++) {
        x = layer(&m, x, i, in);
        in = m.hidden;
    }
    zoo_scope(g, zoo_whole("head"));
    x = ir_transpose(g, x, swap);
    x = zoo_dense(g, x, zoo_whole("head"), value[VOCAB]);
    if (zoo_answer(g, x, "logits"))
        return;
    zoo_scope(g, zoo_whole("loss"));
    g->loss = ir_cross_entropy(g, x, targets);
}

static void build_lstm(ir_graph *g, const int64_t *value, int64_t samples)
{
    build(g, IR_CELL_LSTM, value, samples);
}

static void build_gru(ir_graph *g, const int64_t *value, int64_t samples)
{
    build(g, IR_CELL_GRU, value, samples);
}

#define KEYS                                                                   \
    {                                                                          \
        [LAYERS] = {"layers", 2, 1, 10000},                                    \
        [HIDDEN] = {"hidden", 128, 1, 1 << 20},                                \
        [EMBEDDING] = {"embedding", 128, 1, 1 << 20},                          \
        [VOCAB] = {"vocab", 256, 2, INT32_MAX}, [SEQ] = {                      \
            "seq",                                                             \
            35,                                                                \
            1,                                                                 \
            1 << 15                                                            \
        }                                                                      \
    }

const zoo_model zoo_model_lstm = {
    .name = "lstm", .keys = KEYS, .build = build_lstm};
const zoo_model zoo_model_gru = {
    .name = "gru", .keys = KEYS, .build = build_gru};
