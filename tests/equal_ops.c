/* Random op graphs: every op reads what stands already; what nobody reads goes
 * into the loss. Axis 0 holds the samples at first. */
#include "config.h"

#include "equal_ops.h"
#include "ir/losses.h"
#include "ir/window.h"

#include <math.h>

enum { MOST = 1500 }; /* elements of a tensor */

static void add_live(weaving *w, int32_t t)
{
    fs_push(w->g->arena, &w->live, t);
    fs_push(w->g->arena, &w->used, false);
}

static int32_t take(weaving *w, int32_t k)
{
    w->used.at[k] = true;
    return w->live.at[k];
}

static int32_t parameter(weaving *w, const char *what, ir_shape shape,
                         double mean)
{
    const double last = shape.rank ? (double)shape.dim[shape.rank - 1] : 1;
    const ir_init init = {IR_INIT_NORMAL, mean, 0.7 / sqrt(last), 5};
    return ir_parameter(w->g, fs_printf(w->g->arena, "w%d.%s", w->op, what),
                        IR_F32, shape, init);
}

static ir_shape matrix(int64_t m, int64_t n)
{
    return ir_shape_make(2, (int64_t[]){m, n});
}

static int64_t last_of(const weaving *w, int32_t x)
{
    const ir_shape s = shape_of(w, x);
    return s.dim[s.rank - 1];
}

/* ---- element by element ---- */

int32_t equal_add_unary(weaving *w, int32_t x)
{
    static const ir_op_kind ops[] = {
        IR_OP_relu, IR_OP_sigmoid,   IR_OP_tanh,     IR_OP_gelu,
        IR_OP_erf,  IR_OP_silu,      IR_OP_softplus, IR_OP_softsign,
        IR_OP_mish, IR_OP_gelu_tanh, IR_OP_abs,      IR_OP_sin,
        IR_OP_cos,  IR_OP_atan,      IR_OP_asinh,    IR_OP_hard_swish};
    return ir_unary(w->g, ops[below(w, sizeof ops / sizeof *ops)], x);
}

static int32_t add_power(weaving *w, int32_t x)
{
    int32_t above = ir_scale(w->g, ir_binary(w->g, IR_OP_mul, x, x), 0.5, 1);
    switch (below(w, 4)) {
    case 0:
        return ir_unary(w->g, IR_OP_sqrt, above);
    case 1:
        return ir_unary(w->g, IR_OP_log, above);
    case 2:
        return ir_power(w->g, above, -0.5);
    default:
        return ir_unary(w->g, IR_OP_exp, ir_unary(w->g, IR_OP_tanh, x));
    }
}

static int32_t add_scale(weaving *w, int32_t x)
{
    return ir_scale(w->g, x, below(w, 2) ? 0.7 : -1.2, below(w, 2) ? 0 : 0.1);
}

/* Another live tensor of the same shape, or a parameter that stretches. */
static int32_t partner(weaving *w, int32_t x)
{
    const ir_shape s = shape_of(w, x);
    const int32_t from = (int32_t)below(w, w->live.n);
    for (int32_t k = 0; k < w->live.n; k++) {
        const int32_t at = (from + k) % w->live.n;
        const ir_shape other = shape_of(w, w->live.at[at]);
        if (w->live.at[at] != x && ir_shape_equal(&s, &other))
            return take(w, at);
    }
    ir_shape narrow = s;
    const int32_t drop = (int32_t)below(w, s.rank);
    narrow.rank = s.rank - drop;
    for (int32_t a = 0; a < narrow.rank; a++)
        narrow.dim[a] = below(w, 3) ? s.dim[a + drop] : 1;
    return parameter(w, "other", narrow, 0.5);
}

static int32_t add_binary(weaving *w, int32_t x)
{
    static const ir_op_kind ops[] = {IR_OP_add, IR_OP_sub, IR_OP_mul,
                                     IR_OP_max, IR_OP_min, IR_OP_div};
    const ir_op_kind op = ops[below(w, sizeof ops / sizeof *ops)];
    int32_t y = partner(w, x);
    if (op == IR_OP_div)
        y = ir_scale(w->g, ir_binary(w->g, IR_OP_mul, y, y), 1, 1);
    if (below(w, 4) == 0)
        return ir_where(w->g, ir_binary(w->g, IR_OP_less, x, y),
                        ir_scale(w->g, x, 0.5, 0), y);
    return ir_binary(w->g, op, x, y);
}

static int32_t add_dropout(weaving *w, int32_t x)
{
    return ir_dropout(w->g, x, 0.2, (uint64_t)(w->op + 1));
}

static int32_t add_noise(weaving *w, int32_t x)
{
    const ir_init init = {IR_INIT_NORMAL, 0, 0.3, (uint64_t)w->op};
    return ir_binary(w->g, IR_OP_add, x, ir_random(w->g, shape_of(w, x), init));
}

/* ---- products ---- */

static int32_t add_linear(weaving *w, int32_t x)
{
    const int64_t in = last_of(w, x), out = 2 + below(w, 9);
    const bool turned = below(w, 2);
    int32_t weight =
        parameter(w, "weight", turned ? matrix(out, in) : matrix(in, out), 0);
    if (below(w, 3))
        return ir_matmul(w->g, x, weight, false, turned);
    ir_node node = {.op = IR_OP_matmul,
                    .n_in = 3,
                    .in = {x, weight, parameter(w, "bias", vector(out), 0)},
                    .i = {0, turned}};
    return ir_append(w->g, &node);
}

/* Scores of all pairs of rows, then their weighted rows. */
static int32_t add_pairs(weaving *w, int32_t x)
{
    if (shape_of(w, x).rank < 3)
        return -1;
    int32_t scores = ir_matmul(w->g, x, x, false, true);
    scores = ir_scale(w->g, scores, 1 / sqrt((double)last_of(w, x)), 0);
    if (below(w, 2))
        scores = below(w, 2)
                     ? ir_softmax(w->g, scores)
                     : ir_softmax_parts(w->g, scores, shape_of(w, x).rank - 1);
    return ir_matmul(w->g, scores, x, false, false);
}

static int32_t head(weaving *w, int32_t x, const char *what, int64_t heads)
{
    static const int32_t perm[] = {0, 2, 1, 3};
    const ir_shape s = shape_of(w, x);
    const int64_t split[] = {s.dim[0], s.dim[1], heads, 4};
    int32_t y =
        ir_matmul(w->g, x, parameter(w, what, matrix(s.dim[2], heads * 4), 0),
                  false, false);
    return ir_transpose(w->g, ir_reshape(w->g, y, ir_shape_make(4, split)),
                        perm);
}

static int32_t add_attention(weaving *w, int32_t x)
{
    if (shape_of(w, x).rank != 3)
        return -1;
    const int64_t groups = 1 + below(w, 3), each = 1 + below(w, 2);
    ir_node node = {.op = IR_OP_attention,
                    .n_in = 3,
                    .in = {head(w, x, "q", groups * each),
                           head(w, x, "k", groups), head(w, x, "v", groups)},
                    .i = {below(w, 2), each},
                    .f = {0.5}};
    return ir_append(w->g, &node);
}

/* ---- windows: (N, C, L) or (N, C, H, W) ---- */

static void set_space(int64_t *attr, int32_t first, int32_t n, int64_t value)
{
    for (int32_t k = 0; k < n; k++)
        attr[first + k] = value;
}

static int32_t add_conv(weaving *w, int32_t x)
{
    const ir_shape s = shape_of(w, x);
    const int64_t size = 1 + below(w, 3), stride = 1 + below(w, 2);
    const int64_t groups = below(w, 3) ? 1 : s.dim[s.rank > 1 ? 1 : 0];
    int64_t attr[IR_WINDOW_ATTRS] = {0};
    if (s.rank < 3)
        return -1;
    const int32_t n = s.rank - 2;
    ir_shape dim = s;
    dim.dim[0] = groups * (1 + below(w, 3));
    dim.dim[1] = s.dim[1] / groups;
    set_space(dim.dim, 2, n, size);
    set_space(attr, IR_WINDOW_STRIDE, n, stride);
    set_space(attr, IR_WINDOW_BEFORE, n, size / 2);
    set_space(attr, IR_WINDOW_AFTER, n, size / 2);
    set_space(attr, IR_WINDOW_SPREAD, n, 1);
    attr[IR_WINDOW_GROUPS] = groups;
    return ir_conv(w->g, x, parameter(w, "filter", dim, 0), attr);
}

static int32_t add_pool(weaving *w, int32_t x)
{
    const ir_shape s = shape_of(w, x);
    const int64_t size = 2 + below(w, 2), stride = 1 + below(w, 2);
    const bool most = below(w, 2);
    int64_t attr[IR_WINDOW_ATTRS] = {0};
    if (s.rank < 3 || s.dim[2] < size || s.dim[s.rank - 1] < size)
        return -1;
    const int32_t n = s.rank - 2;
    set_space(attr, IR_WINDOW_STRIDE, n, stride);
    set_space(attr, IR_WINDOW_BEFORE, n, below(w, 2));
    set_space(attr, IR_WINDOW_SIZE, n, size);
    if (most)
        set_space(attr, IR_WINDOW_DILATION, n, 1);
    return ir_pool(w->g, most ? IR_OP_max_pool : IR_OP_avg_pool, x, attr);
}

/* ---- norms ---- */

static int32_t add_norm(weaving *w, int32_t x)
{
    const ir_shape c = vector(last_of(w, x));
    const int32_t gain = parameter(w, "gain", c, 1);
    ir_node node = {.op = IR_OP_layer_norm,
                    .n_in = 2,
                    .in = {x, gain},
                    .i = {1},
                    .f = {1e-3}};
    if (below(w, 2))
        return ir_append(w->g, &node);
    return ir_layer_norm(w->g, x, gain, parameter(w, "bias", c, 0), 1e-3);
}

static int32_t add_batch_norm(weaving *w, int32_t x)
{
    const ir_shape s = shape_of(w, x), c = vector(s.dim[1]);
    const uint32_t others = ((1u << s.rank) - 1) & ~2u;
    const double count = (double)ir_shape_count(&s) / (double)s.dim[1];
    int32_t mean = ir_reduce_mean(w->g, x, others, false);
    int32_t var = ir_scale(w->g, ir_binary(w->g, IR_OP_centred_square, x, mean),
                           1 / count, 0);
    ir_node node = {.op = IR_OP_batch_norm,
                    .n_in = 5,
                    .in = {x, parameter(w, "gain", c, 1),
                           parameter(w, "bias", c, 0), mean, var},
                    .i = {1},
                    .f = {1e-2}};
    return ir_append(w->g, &node);
}

static int32_t add_softmax(weaving *w, int32_t x)
{
    switch (below(w, 3)) {
    case 0:
        return ir_softmax(w->g, x);
    case 1:
        return ir_append(
            w->g, &(ir_node){.op = IR_OP_log_softmax, .n_in = 1, .in = {x}});
    default:
        return ir_softmax_parts(w->g, x,
                                (int32_t)below(w, shape_of(w, x).rank));
    }
}

/* ---- the whole ---- */

static equal_add_fn *const ops[] = {
    equal_add_unary, equal_add_unary, add_power,
    add_scale,       add_binary,      add_binary,
    add_binary,      add_noise,       add_dropout,
    add_linear,      add_linear,      add_linear,
    add_pairs,       add_attention,   add_conv,
    add_conv,        add_pool,        add_norm,
    add_batch_norm,  add_softmax,     NULL};

static equal_add_fn *pick(weaving *w, equal_add_fn *const *table)
{
    int64_t n = 0;
    while (table[n])
        n++;
    return table[below(w, n)];
}

static void start(const equal_case *c, weaving *w)
{
    const int32_t rank = 2 + (int32_t)below(w, 3);
    int64_t dim[IR_MAX_RANK] = {w->samples};
    for (int32_t a = 1; a < rank; a++)
        dim[a] = 2 + below(w, 6);
    const int32_t x = ir_input(w->g, "x", IR_F32, ir_shape_make(rank, dim), 0);
    const int32_t first = parameter(w, "first", vector(dim[rank - 1]), 1);
    add_live(w, ir_binary(w->g, IR_OP_mul, x, first));
    if (fs_mix(c->seed + 4) % 2) {
        const int64_t words = 5 + below(w, 8), width = 3 + below(w, 6);
        int32_t ids =
            ir_input(w->g, "ids", IR_I64, matrix(w->samples, dim[1]), 0);
        add_live(w,
                 ir_gather(w->g, parameter(w, "table", matrix(words, width), 0),
                           ids));
    }
}

static void add_op(weaving *w)
{
    equal_add_fn *add = pick(w, below(w, 5) < 3 ? ops : equal_ops_move);
    int32_t k = w->live.n - 1 - (int32_t)below(w, 3);
    k = k < 0 ? 0 : k;
    const int32_t y = add(w, w->live.at[k]);
    if (y < 0)
        return;
    const ir_shape s = shape_of(w, y);
    if (s.rank < 2 || s.rank > 4 || ir_shape_count(&s) > MOST)
        return;
    w->used.at[k] = true;
    add_live(w, y);
}

/* What an end of the network gives to the loss. */
static int32_t end_in(weaving *w, int32_t x)
{
    const ir_shape s = shape_of(w, x);
    ir_shape rows = s;
    rows.rank--;
    if (below(w, 3) == 0)
        return ir_reduce_loss(w->g, ir_binary(w->g, IR_OP_mul, x, x),
                              IR_ROWS_MEAN);
    const int64_t classes = 3 + below(w, 5);
    int32_t logits = ir_matmul(
        w->g, x, parameter(w, "head", matrix(s.dim[s.rank - 1], classes), 0),
        false, false);
    int32_t labels = ir_input(w->g, fs_printf(w->g->arena, "labels%d", w->op),
                              IR_I64, rows, rows.dim[0] == w->samples ? 0 : -1);
    /* Of a few rows all may be ignored: their mean is no number. */
    const bool many = ir_shape_count(&rows) >= 8;
    const ir_label_loss loss = {.labels = labels,
                                .weights = -1,
                                .ignores = below(w, 2) && many,
                                .ignored = below(w, classes)};
    return below(w, 2) ? ir_cross_entropy(w->g, logits, labels)
                       : ir_cross_entropy_parts(w->g, logits, &loss);
}

void equal_draw_ops(const equal_case *c, int32_t samples, ir_graph *g)
{
    weaving w = {.g = g, .seed = fs_mix(c->seed + 3), .samples = samples};
    int32_t loss = -1;
    w.op = c->n_ops;
    start(c, &w);
    for (w.op = 0; w.op < c->n_ops && g->err.status == FS_OK; w.op++) {
        w.seed = fs_mix(c->seed ^ fs_mix((uint64_t)w.op + 100));
        if (!(c->left_out >> w.op & 1))
            add_op(&w);
    }
    w.seed = fs_mix(c->seed + 5);
    for (int32_t k = 0; k < w.live.n && g->err.status == FS_OK; k++) {
        if (w.used.at[k])
            continue;
        w.op = 100 + k;
        const int32_t part = ir_scale(g, end_in(&w, w.live.at[k]), 0.5, 0);
        loss = loss < 0 ? part : ir_binary(g, IR_OP_add, loss, part);
    }
    g->loss = loss;
}
