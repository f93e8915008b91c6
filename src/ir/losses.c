/* Losses made of ops. */
/* Rows that may be cut. Cross entropy is the case that pays:
 *
 *   m = reduce_max(x)        S(class) -> P(max), no gradient: m cancels
 *   z = sum_exp(x, m)        S(class), m B -> P; then log(z) + m, one per row
 *   l = cross_entropy_rows(x, z, labels)   S(class), B, B -> P: the device
 *                            that holds the label gives z - x[label], others 0
 *   dx = dl (exp(x - z) - onehot)          S(class), B, B, B -> S(class)
 *
 * Nothing as large as x is written but dx: as many bytes as the one op, which
 * keeps the probabilities, and a second exp. So whatever needs rows (class
 * weights, ignored labels, sums or rows as they are) is built so, and the
 * search finds the cut layer of a large vocabulary or a margin softmax by
 * itself. Elsewhere the parts cost three more passes (ir_softmax_parts: shift,
 * exp, sum, divide) and nothing chooses them by itself.
 *
 * A weighted mean divides by a sum over the whole micro-batch: with a batch
 * that is cut numerator and divisor are P, the divisor is reduced before it
 * divides, and the value is exact. Over several micro-batches both are summed
 * before one divides (`ir_train`). */
#include "config.h"
#include "ir/losses.h"

static uint32_t all_axes(const ir_graph *g, int32_t x)
{
    const int32_t rank = ir_shape_of(g, x).rank;
    return rank < 0 ? 0 : (1u << rank) - 1;
}

/* The largest along axes, kept, through which no gradient goes: what shifts an
 * exponent cancels. */
static int32_t shift(ir_graph *g, int32_t x, uint32_t axes)
{
    ir_node node = {.op = IR_OP_reduce_max, .n_in = 1, .in = {x}};
    node.i[0] = axes;
    node.i[1] = node.i[2] = 1;
    return ir_append(g, &node);
}

static int32_t sum_exp(ir_graph *g, int32_t x, int32_t m, uint32_t axes)
{
    ir_node node = {.op = IR_OP_sum_exp, .n_in = 2, .in = {x, m}};
    node.i[0] = axes;
    return ir_append(g, &node);
}

int32_t ir_log_sum_exp(ir_graph *g, int32_t x, uint32_t axes, bool keep)
{
    ir_shape shape = ir_shape_of(g, x), kept = {0};
    int32_t m = shift(g, x, axes);
    int32_t total = ir_unary(g, IR_OP_log, sum_exp(g, x, m, axes));
    int32_t y = ir_binary(g, IR_OP_add, total, m);
    for (int32_t i = 0; i < shape.rank; i++)
        if (!(axes >> i & 1))
            kept.dim[kept.rank++] = shape.dim[i];
    return keep || y < 0 ? y : ir_reshape(g, y, kept);
}

int32_t ir_softmax_parts(ir_graph *g, int32_t x, int32_t axis)
{
    int32_t m = shift(g, x, 1u << axis);
    int32_t e = ir_unary(g, IR_OP_exp, ir_binary(g, IR_OP_sub, x, m));
    int32_t total = ir_reduce_sum(g, e, 1u << axis, true);
    return ir_binary(g, IR_OP_div, e, total);
}

int32_t ir_log_softmax_parts(ir_graph *g, int32_t x, int32_t axis)
{
    int32_t z = ir_log_sum_exp(g, x, 1u << axis, true);
    return ir_binary(g, IR_OP_sub, x, z);
}

/* A node about labels: i[0]=C, i[1..2] which label does not count. */
static ir_node about_labels(const ir_graph *g, ir_op_kind op, int32_t x,
                            const ir_label_loss *loss)
{
    const ir_shape rows = ir_shape_of(g, x);
    ir_node node = {.op = op, .n_in = 2, .in = {x, loss->labels}};
    node.i[0] = rows.rank > 0 ? rows.dim[rows.rank - 1] : 0;
    node.i[1] = loss->ignores;
    node.i[2] = loss->ignores ? loss->ignored : 0;
    return node;
}

int32_t ir_hardmax(ir_graph *g, int32_t x)
{
    const ir_shape shape = ir_shape_of(g, x);
    ir_node arg = {.op = IR_OP_arg_max, .n_in = 1, .in = {x}};
    ir_shape rows = shape;
    if (shape.rank < 1)
        return ir_graph_fail(g, "hardmax of a scalar");
    arg.i[0] = --rows.rank;
    const ir_label_loss at = {.labels = ir_append(g, &arg)};
    ir_node spread = about_labels(g, IR_OP_pick_grad, x, &at);
    spread.in[0] = ir_cast(g, ir_fill(g, rows, 1), g->tensors.at[x].dtype);
    return ir_append(g, &spread);
}

int32_t ir_reduce_loss(ir_graph *g, int32_t x, ir_rows_to reduction)
{
    if (reduction == IR_ROWS_NONE || x < 0)
        return x;
    const uint32_t axes = all_axes(g, x);
    return reduction == IR_ROWS_SUM ? ir_reduce_sum(g, x, axes, false)
                                    : ir_reduce_mean(g, x, axes, false);
}

/* Losses of rows brought down. The weights are summed over the micro-batch
 * before they divide: a batch that is cut gives the same mean. */
static int32_t reduce_rows(ir_graph *g, int32_t rows, int32_t x,
                           const ir_label_loss *loss)
{
    const bool weighted = loss->weights >= 0;
    if (x < 0 || rows < 0)
        return -1;
    if (!weighted && (!loss->ignores || loss->reduction != IR_ROWS_MEAN))
        return ir_reduce_loss(g, rows, loss->reduction);
    ir_node node = about_labels(g, IR_OP_label_weight, x, loss);
    node.n_in = weighted ? 2 : 1;
    node.in[0] = loss->labels;
    node.in[1] = weighted ? loss->weights : 0;
    node.i[3] = g->tensors.at[x].dtype;
    const int32_t weights = ir_append(g, &node);
    if (weighted)
        rows = ir_binary(g, IR_OP_mul, rows, weights);
    if (loss->reduction != IR_ROWS_MEAN)
        return ir_reduce_loss(g, rows, loss->reduction);
    const uint32_t axes = all_axes(g, rows);
    const int32_t total = ir_reduce_sum(g, rows, axes, false);
    return ir_binary(g, IR_OP_div, total,
                     ir_reduce_sum(g, weights, axes, false));
}

int32_t ir_cross_entropy_parts(ir_graph *g, int32_t logits,
                               const ir_label_loss *loss)
{
    const int32_t rank = ir_shape_of(g, logits).rank;
    if (rank < 1)
        return rank < 0 ? -1 : ir_graph_fail(g, "logits without classes");
    ir_node node = about_labels(g, IR_OP_cross_entropy_rows, logits, loss);
    node.n_in = 3;
    node.in[1] = ir_log_sum_exp(g, logits, 1u << (rank - 1), true);
    node.in[2] = loss->labels;
    return reduce_rows(g, ir_append(g, &node), logits, loss);
}

int32_t ir_nll(ir_graph *g, int32_t log_prob, const ir_label_loss *loss)
{
    ir_node node = about_labels(g, IR_OP_pick, log_prob, loss);
    int32_t rows = ir_scale(g, ir_append(g, &node), -1, 0);
    return reduce_rows(g, rows, log_prob, loss);
}

int32_t ir_normalise(ir_graph *g, int32_t x, int32_t axis)
{
    int32_t sum = ir_reduce_sum(g, ir_power(g, x, 2), 1u << axis, true);
    int32_t factor = ir_power(g, ir_scale(g, sum, 1, 1e-12), -0.5);
    return ir_binary(g, IR_OP_mul, x, factor);
}

int32_t ir_margin_logits(ir_graph *g, int32_t cosines, int32_t labels,
                         const double margins[3], double scale)
{
    const ir_label_loss of = {.labels = labels};
    ir_node node = about_labels(g, IR_OP_margin, cosines, &of);
    for (int i = 0; i < 3; i++)
        node.f[i] = margins[i];
    node.f[3] = scale;
    return ir_append(g, &node);
}

static int32_t bce(ir_graph *g, int32_t x, int32_t target, bool logits)
{
    ir_node node = {.op = IR_OP_bce, .n_in = 2, .in = {x, target}};
    node.i[0] = !logits;
    return ir_reduce_loss(g, ir_append(g, &node), IR_ROWS_MEAN);
}

int32_t ir_bce(ir_graph *g, int32_t p, int32_t target)
{
    return bce(g, p, target, false);
}

int32_t ir_bce_logits(ir_graph *g, int32_t x, int32_t target)
{
    return bce(g, x, target, true);
}

int32_t ir_l1(ir_graph *g, int32_t a, int32_t b)
{
    int32_t d = ir_binary(g, IR_OP_sub, a, b);
    return ir_reduce_loss(g, ir_unary(g, IR_OP_abs, d), IR_ROWS_MEAN);
}
