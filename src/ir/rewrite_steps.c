/* A recurrent layer as its steps. The op `recurrent` is cut by samples only:
 * each step of a hidden unit needs all units of the step before, which no
 * signature of a whole scan can say. Written as steps, R and the gates may be
 * cut by hidden units, and each step gathers h: tensor parallelism. Many small
 * ops on one device, so not usual.
 *
 * Samples come last here, units before them, so that the gates of a step are
 * one product R h of (G,H,H) and (H,B), in which each gate's units are an axis
 * of their own. Cells as in recurrent.h. */
#include "config.h"
#include "ir/recurrent.h"
#include "ir/rewrite_match.h"

#include <string.h>

/* A search over more nodes takes too long to be of use. */
enum { MOST_NODES = 1 << 12, NODES_PER_STEP = 20 };

typedef struct scan {
    ir_graph *g;
    const ir_node *node;
    int64_t t, b, h;
    ir_cell_sizes n;
    int32_t r, early, late; /* R; a GRU's: of z and r, of h */
    int32_t extra;          /* (1,H,1) */
    int32_t *steps;         /* [t]: gates (1,G,H,B), then y (1,H,B) */
    int32_t state[2];       /* h and c: (1,H,B) */
} scan;

/* ---- which layers ---- */

static bool is_plain(ir_activation_kind kind)
{
    return kind == IR_ACTIVATION_SIGMOID || kind == IR_ACTIVATION_TANH ||
           kind == IR_ACTIVATION_RELU;
}

static bool is_zero(const ir_graph *g, int32_t tensor)
{
    const ir_node *from = ir_producer(g, tensor);
    const ir_tensor *x = &g->tensors.at[tensor];
    if (from->op == IR_OP_cast || from->op == IR_OP_reshape)
        return is_zero(g, from->in[0]);
    if (from->op != IR_OP_constant || !x->data)
        return from->op == IR_OP_fill && from->f[0] == 0;
    const char *bytes = x->data;
    const int64_t n = ir_shape_count(&x->shape) * ir_dtype_bytes(x->dtype);
    for (int64_t i = 0; i < n; i++)
        if (bytes[i])
            return false;
    return true;
}

/* Samples that end early, peepholes and clipped gates stay with the op. */
static bool can_write(const ir_graph *g, const ir_node *node, const bool *read)
{
    const int64_t steps = ir_shape_of(g, node->in[0]).dim[0];
    if (node->n_in > 4 || node->f[IR_CELL_CLIP] > 0 || read[node->out[2]])
        return false;
    for (int32_t k = 0; k <= node->i[IR_CELL_KIND]; k++)
        if (!is_plain((ir_activation_kind)node->i[IR_CELL_F + k]))
            return false;
    if (node->i[IR_CELL_KIND] == IR_CELL_LSTM && !is_zero(g, node->in[3]))
        return false;
    return steps > 0 && steps <= (MOST_NODES - g->nodes.n) / NODES_PER_STEP;
}

/* ---- axis 0 apart and together ---- */

/* An op joins IR_MAX_IN tensors at most, and what splits is joined in the
 * gradient: both go by levels. */
static int64_t ways_of(int64_t n)
{
    return n < IR_MAX_IN ? n : IR_MAX_IN;
}

static void split(ir_graph *g, int32_t x, int64_t n, int32_t *out)
{
    const int64_t ways = ways_of(n);
    if (n == 1)
        out[0] = x;
    for (int64_t k = 0; n > 1 && k < ways; k++) {
        const int64_t from = n * k / ways, to = n * (k + 1) / ways;
        split(g, ir_slice(g, x, 0, from, to - from), to - from, out + from);
    }
}

static int32_t join(ir_graph *g, const int32_t *x, int64_t n)
{
    const int64_t ways = ways_of(n);
    int32_t part[IR_MAX_IN];
    if (n == 1)
        return x[0];
    for (int64_t k = 0; k < ways; k++) {
        const int64_t from = n * k / ways, to = n * (k + 1) / ways;
        part[k] = join(g, x + from, to - from);
    }
    return ir_concat(g, part, (int32_t)ways, 0);
}

/* ---- one step ---- */

static int32_t activate(const scan *s, int32_t k, int32_t x)
{
    const int64_t kind = s->node->i[IR_CELL_F + k];
    return ir_unary(s->g,
                    kind == IR_ACTIVATION_SIGMOID ? IR_OP_sigmoid
                    : kind == IR_ACTIVATION_TANH  ? IR_OP_tanh
                                                  : IR_OP_relu,
                    x);
}

static int32_t gate(const scan *s, int32_t gates, int32_t k)
{
    return s->n.gates == 1 ? gates : ir_slice(s->g, gates, 0, k, 1);
}

/* Of R, or some of its gates, and units (1,H,B). */
static int32_t product(const scan *s, int32_t r, int32_t of)
{
    of = ir_reshape(s->g, of, (ir_shape){2, {s->h, s->b}});
    return ir_matmul(s->g, r, of, false, false);
}

static int32_t mul(const scan *s, int32_t a, int32_t b)
{
    return ir_binary(s->g, IR_OP_mul, a, b);
}

static int32_t add(const scan *s, int32_t a, int32_t b)
{
    return ir_binary(s->g, IR_OP_add, a, b);
}

/* Gates i o f g: c = f c + i g, h = o act(c). */
static void step_lstm(scan *s, int32_t x)
{
    const int32_t a = add(s, x, product(s, s->r, s->state[0]));
    const int32_t in = activate(s, 0, gate(s, a, 0));
    const int32_t out = activate(s, 0, gate(s, a, 1));
    const int32_t forget = s->node->i[IR_CELL_VARIANT]
                               ? ir_scale(s->g, in, -1, 1)
                               : activate(s, 0, gate(s, a, 2));
    const int32_t g = activate(s, 1, gate(s, a, 3));
    s->state[1] = add(s, mul(s, forget, s->state[1]), mul(s, in, g));
    s->state[0] = mul(s, out, activate(s, 2, s->state[1]));
}

/* Gates z r n: h = (1 - z) n + z h, as n + z (h - n). */
static void step_gru(scan *s, int32_t x)
{
    const int32_t h = s->state[0];
    const int32_t early = product(s, s->early, h);
    const int32_t z = activate(s, 0, add(s, gate(s, x, 0), gate(s, early, 0)));
    const int32_t r = activate(s, 0, add(s, gate(s, x, 1), gate(s, early, 1)));
    const int32_t late =
        s->node->i[IR_CELL_VARIANT]
            ? mul(s, r, add(s, product(s, s->late, h), s->extra))
            : add(s, product(s, s->late, mul(s, r, h)), s->extra);
    const int32_t n = activate(s, 1, add(s, gate(s, x, 2), late));
    const int32_t change = ir_binary(s->g, IR_OP_sub, h, n);
    s->state[0] = add(s, n, mul(s, z, change));
}

static void step_rnn(scan *s, int32_t x)
{
    const int32_t a = add(s, x, product(s, s->r, s->state[0]));
    s->state[0] = activate(s, 0, add(s, a, s->extra));
}

static void write_step(scan *s, int32_t *at)
{
    const ir_shape gates = {3, {s->n.gates, s->h, s->b}};
    const int32_t x = ir_reshape(s->g, *at, gates);
    switch ((ir_cell)s->node->i[IR_CELL_KIND]) {
    case IR_CELL_RNN:
        step_rnn(s, x);
        break;
    case IR_CELL_GRU:
        step_gru(s, x);
        break;
    case IR_CELL_LSTM:
        step_lstm(s, x);
        break;
    }
    *at = s->state[0];
}

/* ---- a layer ---- */

/* R is read through one node, so that its gradients of all steps are summed
 * where they arise. */
static void open_scan(scan *s, int32_t *steps)
{
    ir_graph *g = s->g;
    const int32_t *in = s->node->in;
    const ir_node whole = {.op = IR_OP_identity, .n_in = 1, .in = {in[1]}};
    int32_t x = ir_transpose(g, in[0], (int32_t[]){0, 2, 3, 1});
    split(g, x, s->t, steps);
    x = ir_transpose(g, in[2], (int32_t[]){1, 2, 0});
    split(g, x, s->n.states, s->state);
    s->steps = steps;
    s->r = ir_append(g, &whole);
    if (s->node->i[IR_CELL_KIND] == IR_CELL_GRU) {
        s->early = ir_slice(g, s->r, 0, 0, 2);
        s->late = ir_slice(g, s->r, 0, 2, 1);
    }
    if (s->node->i[IR_CELL_KIND] != IR_CELL_LSTM)
        s->extra = ir_reshape(g, in[3], (ir_shape){3, {1, s->h, 1}});
}

static void write_layer(ir_graph *g, const ir_node *node, const bool *read,
                        int32_t *out)
{
    if (node->op != IR_OP_recurrent || !can_write(g, node, read))
        return;
    const ir_shape gates = ir_shape_of(g, node->in[0]);
    scan s = {.g = g,
              .node = node,
              .t = gates.dim[0],
              .b = gates.dim[1],
              .h = gates.dim[3],
              .n = ir_cell_of(node->i[IR_CELL_KIND])};
    open_scan(&s, fs_new(g->arena, int32_t, s.t));
    for (int64_t k = 0; k < s.t; k++)
        write_step(&s, &s.steps[node->i[IR_CELL_REVERSE] ? s.t - 1 - k : k]);
    if (read[node->out[0]])
        out[0] = ir_transpose(g, join(g, s.steps, s.t), (int32_t[]){0, 2, 1});
    if (read[node->out[1]])
        out[1] =
            ir_transpose(g, join(g, s.state, s.n.states), (int32_t[]){2, 0, 1});
}

void ir_rewrite_steps(ir_graph *g)
{
    ir_write_apart(g, write_layer);
}
