/* Layer norm and RMS norm as exporters write them out. The rule runs over the
 * nodes in order: the quotient becomes a norm of x alone, a vector that
 * multiplies it its gain, one that is added its bias. */
#include "config.h"
#include "ir/rewrite_match.h"

/* Is `tensor` the mean of *of along the last axis, kept with length 1? */
static bool match_mean(const ir_graph *g, int32_t tensor, int32_t *of)
{
    ir_affine a;
    if (!ir_match_affine(g, tensor, &a) || a.offset != 0)
        return false;
    const ir_node *sum = ir_producer(g, a.x);
    if (sum->op != IR_OP_reduce_sum || !sum->i[1])
        return false;
    *of = sum->in[0];
    const ir_shape *shape = &g->tensors.at[*of].shape;
    int32_t last = shape->rank - 1;
    return sum->i[0] == (int64_t)1 << last &&
           ir_nearly(a.factor, 1.0 / (double)shape->dim[last]);
}

/* Is `tensor` x - mean(x)? */
static bool match_centred(const ir_graph *g, int32_t tensor, int32_t *x)
{
    int32_t of;
    const ir_node *node = ir_producer(g, tensor);
    if (node->op != IR_OP_sub || !match_mean(g, node->in[1], &of) ||
        of != node->in[0])
        return false;
    *x = of;
    return true;
}

static bool match_square(const ir_graph *g, int32_t tensor, int32_t *of)
{
    const ir_node *node = ir_producer(g, tensor);
    *of = node->in[0];
    if (node->op == IR_OP_power)
        return node->f[0] == 2;
    return node->op == IR_OP_mul && node->in[0] == node->in[1];
}

static bool match_sqrt(const ir_graph *g, int32_t tensor, int32_t *of)
{
    const ir_node *node = ir_producer(g, tensor);
    *of = node->in[0];
    return node->op == IR_OP_sqrt ||
           (node->op == IR_OP_power && node->f[0] == 0.5);
}

/* Is `tensor` sqrt(mean(of^2) + eps)? */
static bool match_root(const ir_graph *g, int32_t tensor, int32_t *of,
                       double *epsilon)
{
    int32_t radicand, squares;
    ir_affine a;
    if (!match_sqrt(g, tensor, &radicand) ||
        !ir_match_affine(g, radicand, &a) || a.factor != 1 || a.offset <= 0)
        return false;
    *epsilon = a.offset;
    return match_mean(g, a.x, &squares) && match_square(g, squares, of);
}

/* Is `tensor` 1 / sqrt(mean(of^2) + eps)? */
static bool match_inverse_root(const ir_graph *g, int32_t tensor, int32_t *of,
                               double *epsilon)
{
    int32_t squares;
    ir_affine a;
    double top;
    if (ir_match_affine(g, tensor, &a) && a.factor == 1 && a.offset == 0)
        tensor = a.x;
    const ir_node *node = ir_producer(g, tensor);
    if (node->op == IR_OP_div)
        return ir_match_scalar(g, node->in[0], &top) && top == 1 &&
               match_root(g, node->in[1], of, epsilon);
    if (node->op != IR_OP_power)
        return false;
    if (node->f[0] == -1)
        return match_root(g, node->in[0], of, epsilon);
    if (node->f[0] != -0.5 || !ir_match_affine(g, node->in[0], &a) ||
        a.factor != 1 || a.offset <= 0)
        return false;
    *epsilon = a.offset;
    return match_mean(g, a.x, &squares) && match_square(g, squares, of);
}

/* Is the node top / sqrt(mean(of^2) + eps)? */
static bool match_quotient(const ir_graph *g, const ir_node *node, int32_t *top,
                           int32_t *of, double *epsilon)
{
    *top = node->in[0];
    if (node->op == IR_OP_div)
        return match_root(g, node->in[1], of, epsilon);
    if (node->op != IR_OP_mul)
        return false;
    for (int32_t k = 0; k < 2; k++) {
        *top = node->in[k];
        if (match_inverse_root(g, node->in[1 - k], of, epsilon))
            return true;
    }
    return false;
}

/* The norm of x alone: `rms` as layer_norm's i[0]. */
static bool start_norm(ir_graph *g, int32_t v, bool rms)
{
    int32_t top, of, x, other;
    ir_node norm = {.op = IR_OP_layer_norm, .n_in = 1, .i = {rms}};
    if (!match_quotient(g, &g->nodes.at[v], &top, &of, &norm.f[0]))
        return false;
    norm.in[0] = top;
    if (rms)
        return of == top && ir_graph_replace(g, v, &norm);
    if (!match_centred(g, top, &x) || !match_centred(g, of, &other) ||
        other != x)
        return false;
    norm.in[0] = x;
    return ir_graph_replace(g, v, &norm);
}

/* A norm times a vector gets it for its gain, plus a vector for its bias. */
static void extend_norm(ir_graph *g, int32_t v, bool rms)
{
    const ir_node *node = &g->nodes.at[v];
    const int32_t wanted = node->op == IR_OP_mul ? 1 : 2;
    if (node->op != IR_OP_mul && node->op != IR_OP_add)
        return;
    for (int32_t k = 0; k < 2; k++) {
        const ir_node *from = ir_producer(g, node->in[k]);
        if (from->op != IR_OP_layer_norm || from->n_in != wanted ||
            from->out[0] != node->in[k] || (from->i[0] != 0) != rms ||
            g->tensors.at[node->in[1 - k]].shape.rank != 1)
            continue;
        ir_node norm = *from;
        norm.in[norm.n_in++] = node->in[1 - k];
        if (ir_graph_replace(g, v, &norm))
            return;
    }
}

void ir_rewrite_layer_norm(ir_graph *g, int32_t v)
{
    if (g->nodes.at[v].n_out == 1 && !start_norm(g, v, false))
        extend_norm(g, v, false);
}

void ir_rewrite_rms_norm(ir_graph *g, int32_t v)
{
    if (g->nodes.at[v].n_out == 1 && !start_norm(g, v, true))
        extend_norm(g, v, true);
}
