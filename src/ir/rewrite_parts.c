/* Rows in parts: softmax, log softmax, layer norm and cross entropy as
 * reductions and element-wise ops, each of which is legal on a row that is cut
 * (losses.c says why), so that the search may cut it: a vocabulary, the hidden
 * axis of a norm. More passes over memory on one device, so `parts` is not
 * usual; cross entropy touches no more bytes in parts, only more launches, so
 * `entropy`, of many classes only, is. */
#include "config.h"
#include "ir/losses.h"
#include "ir/rewrite_match.h"

static int32_t last_axis(const ir_graph *g, int32_t x)
{
    return ir_shape_of(g, x).rank - 1;
}

/* (x - mean) / sqrt(variance + epsilon) [* gain [+ bias]]; without centring
 * (i[0]) the mean counts as 0. */
static int32_t norm_parts(ir_graph *g, const ir_node *node)
{
    int32_t x = node->in[0];
    const uint32_t axes = 1u << last_axis(g, x);
    if (!node->i[0])
        x = ir_binary(g, IR_OP_sub, x, ir_reduce_mean(g, x, axes, true));
    int32_t spread = ir_reduce_mean(g, ir_power(g, x, 2), axes, true);
    int32_t factor = ir_power(g, ir_scale(g, spread, 1, node->f[0]), -0.5);
    int32_t y = ir_binary(g, IR_OP_mul, x, factor);
    if (node->n_in > 1)
        y = ir_binary(g, IR_OP_mul, y, node->in[1]);
    return node->n_in > 2 ? ir_binary(g, IR_OP_add, y, node->in[2]) : y;
}

static int32_t entropy_parts(ir_graph *g, const ir_node *node)
{
    const ir_label_loss loss = {
        .labels = node->in[1], .weights = -1, .reduction = IR_ROWS_SUM};
    int32_t sum = ir_cross_entropy_parts(g, node->in[0], &loss);
    return ir_scale(g, sum, node->f[0], 0);
}

/* What the node's first output is when written in parts; -1: it is not. */
static int32_t row_parts(ir_graph *g, const ir_node *node)
{
    switch (node->op) {
    case IR_OP_softmax:
        return ir_softmax_parts(g, node->in[0], last_axis(g, node->in[0]));
    case IR_OP_log_softmax:
        return ir_log_softmax_parts(g, node->in[0], last_axis(g, node->in[0]));
    case IR_OP_layer_norm:
        return norm_parts(g, node);
    case IR_OP_cross_entropy:
        return entropy_parts(g, node);
    default:
        return -1;
    }
}

/* With fewer classes than a vocabulary has, cutting them saves less than the
 * launches of the parts take. */
enum { MANY_CLASSES = 8192 };

static int32_t loss_parts(ir_graph *g, const ir_node *node)
{
    if (node->op != IR_OP_cross_entropy)
        return -1;
    const ir_shape x = ir_shape_of(g, node->in[0]);
    return x.dim[x.rank - 1] < MANY_CLASSES ? -1 : entropy_parts(g, node);
}

/* Moments and probabilities have no counterpart among the parts. */
static bool reads_first_only(const ir_node *node, const bool *read)
{
    for (int32_t k = 1; k < node->n_out; k++)
        if (read[node->out[k]])
            return false;
    return true;
}

static void write_row(ir_graph *g, const ir_node *node, const bool *read,
                      int32_t *out)
{
    if (reads_first_only(node, read))
        out[0] = row_parts(g, node);
}

static void write_loss(ir_graph *g, const ir_node *node, const bool *read,
                       int32_t *out)
{
    if (reads_first_only(node, read))
        out[0] = loss_parts(g, node);
}

void ir_rewrite_entropy(ir_graph *g)
{
    ir_write_apart(g, write_loss);
}

void ir_rewrite_parts(ir_graph *g)
{
    ir_write_apart(g, write_row);
}
