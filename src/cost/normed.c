/* Our batch norm is five ops, and a cast where x has 16 bits: sums, squares
 * around the mean, the norm; then sums and the gradient. Libraries (cuDNN) take
 * mean and variance in one pass. Some write what the following ReLU makes of
 * the norm, and of an addition before that. Convolutions with windows of 3 x 3
 * at every place take fewer products by Winograd's minimal filtering, F(2 x 2,
 * 3 x 3) (Lavin and Gray 2016), where no tensor cores do them. */
#include "config.h"
#include "cost/normed.h"

#include "ir/window.h"

static const ir_node *producer_of(const ir_graph *graph, int32_t tensor)
{
    const int32_t v = graph->tensors.at[tensor].producer;
    return v < 0 ? NULL : &graph->nodes.at[v];
}

const bool *cost_normed_inputs(const ir_graph *graph, fs_arena *arena)
{
    bool *normed = fs_new(arena, bool, graph->tensors.n);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        if (graph->nodes.at[v].op == IR_OP_centred_square)
            normed[graph->nodes.at[v].in[0]] = true;
    return normed;
}

/* A sum over x, or over a copy of it in 32 bits, for its mean. */
static bool is_of_mean(const ir_graph *graph, const bool *normed,
                       const ir_node *node)
{
    int32_t x = node->in[0];
    if (node->op == IR_OP_reduce_sum) {
        const ir_node *from = producer_of(graph, x);
        if (!normed[x] && from && from->op == IR_OP_cast)
            x = from->in[0];
    } else if (node->op != IR_OP_cast ||
               graph->tensors.at[node->out[0]].dtype != IR_F32) {
        return false;
    }
    return normed[x];
}

static bool is_norm(const ir_graph *graph, int32_t tensor)
{
    const ir_node *node = producer_of(graph, tensor);
    return node && node->op == IR_OP_batch_norm;
}

/* An addition of what a norm makes. */
static bool is_sum_of_norm(const ir_graph *graph, const ir_node *node)
{
    return node && node->op == IR_OP_add &&
           (is_norm(graph, node->in[0]) || is_norm(graph, node->in[1]));
}

/* The ReLU of a norm, or of a sum of one. */
static bool follows_norm(const ir_graph *graph, const ir_node *node)
{
    return node && node->op == IR_OP_relu &&
           (is_norm(graph, node->in[0]) ||
            is_sum_of_norm(graph, producer_of(graph, node->in[0])));
}

/* Of an addition's three passes over as many bytes the fused kernel reads the
 * other operand. */
#define OTHER_OPERAND (1 / 3.0)
/* Kernels that fuse keep x, and its gradient, on the device's processors
 * between their passes (cuDNN has the fused ones in its persistent mode alone):
 * they are read once. */
static double fused_share(const ir_graph *graph, const ir_node *node)
{
    if (node->op == IR_OP_centred_square ||
        node->op == IR_OP_batch_norm_param_grad || follows_norm(graph, node))
        return 0;
    if (node->op == IR_OP_relu_grad && /* of dy and y */
        follows_norm(graph, producer_of(graph, node->in[1])))
        return 0;
    return is_sum_of_norm(graph, node) ? OTHER_OPERAND : 1;
}

double cost_normed_share(const cost_framework *framework, const ir_graph *graph,
                         const bool *normed, const ir_node *node, bool mixed)
{
    if (is_of_mean(graph, normed, node))
        return 0;
    return framework->fuses_norms && mixed ? fused_share(graph, node) : 1;
}

/* The weights of a convolution, or their gradient; -1: it is none. */
static int32_t weights_of(const ir_node *node)
{
    return node->op == IR_OP_conv_filter_grad ? node->out[0]
           : node->op == IR_OP_conv || node->op == IR_OP_conv_data_grad
               ? node->in[1]
               : -1;
}

double cost_minimal_times(const ir_graph *graph, const ir_node *node)
{
    enum { TILE = 2, WINDOW = 3, REACH = TILE + WINDOW - 1 };
    const int32_t weights = weights_of(node);
    if (weights < 0 || node->i[IR_WINDOW_GROUPS] > 1)
        return 1;
    const ir_shape *w = &graph->tensors.at[weights].shape;
    for (int32_t k = 2; k < w->rank; k++)
        if (w->dim[k] != WINDOW || node->i[IR_WINDOW_STRIDE + k - 2] != 1 ||
            node->i[IR_WINDOW_SPREAD + k - 2] != 1)
            return 1;
    return w->rank == 4
               ? (double)(TILE * TILE * WINDOW * WINDOW) / (REACH * REACH)
               : 1;
}

double cost_turned_bytes(const ir_graph *graph, const ir_node *node,
                         const ir_work *work)
{
    const int32_t weights = weights_of(node);
    if (weights < 0)
        return 0;
    const ir_tensor *w = &graph->tensors.at[weights];
    const double still =
        (double)(ir_shape_count(&w->shape) * ir_dtype_bytes(w->dtype));
    /* all but these, once read and once written */
    return 2 * ((double)work->read_bytes + (double)work->written_bytes - still);
}
