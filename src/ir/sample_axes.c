/* Which axis of a tensor goes along the samples, by the ops' own signatures: an
 * op that takes its varying inputs cut along their samples, all others whole,
 * and gives its output cut, computes each sample's rows from that sample's
 * alone. */
#include "config.h"
#include "ir/samples.h"

#include "ir/op.h"

#include <string.h>

/* Known values that repeat along an axis. */
static bool data_repeats(const ir_tensor *x, int32_t axis)
{
    const int64_t n = x->shape.dim[axis];
    int64_t outer = 1, bytes = ir_dtype_bytes(x->dtype);
    for (int32_t i = 0; i < axis; i++)
        outer *= x->shape.dim[i];
    for (int32_t i = axis + 1; i < x->shape.rank; i++)
        bytes *= x->shape.dim[i];
    const char *at = x->data;
    for (int64_t o = 0; o < outer; o++, at += n * bytes)
        for (int64_t i = 1; i < n; i++)
            if (memcmp(at, at + i * bytes, (size_t)bytes) != 0)
                return false;
    return true;
}

/* Has each sample the same part of what all have in common (the state that a
 * recurrence starts from, a token put before each sequence)? */
static bool is_same_for_all(const ir_graph *g, int32_t t, int32_t axis)
{
    const ir_tensor *x = &g->tensors.at[t];
    const ir_node *node = &g->nodes.at[x->producer];
    if (x->role == IR_CONST && x->data)
        return data_repeats(x, axis);
    if (node->op == IR_OP_fill)
        return true;
    if (node->op != IR_OP_broadcast_to)
        return false;
    const ir_shape *in = &g->tensors.at[node->in[0]].shape;
    const int32_t from = axis - (x->shape.rank - in->rank);
    return from < 0 || in->dim[from] == 1;
}

static bool fits_input(const ir_graph *g, int32_t t, const ir_sbp *in,
                       int32_t axis)
{
    if (axis == IR_SAMPLES_NONE)
        return in->kind == IR_B ||
               (in->kind == IR_S && is_same_for_all(g, t, in->axis));
    return in->kind == IR_S && in->axis == axis;
}

static bool fits_inputs(const ir_graph *g, const ir_node *node,
                        const ir_sig *sig, const int32_t *axis)
{
    for (int32_t k = 0; k < node->n_in; k++)
        if (!fits_input(g, node->in[k], &sig->in[k], axis[node->in[k]]))
            return false;
    return true;
}

static void take_outputs(const ir_node *node, const ir_sig *sig, int32_t *axis)
{
    for (int32_t k = 0; k < node->n_out; k++)
        axis[node->out[k]] =
            sig->out[k].kind == IR_S ? sig->out[k].axis : IR_SAMPLES_MIXED;
}

static void follow(const ir_graph *g, const ir_node *node, int32_t *axis)
{
    const ir_op *op = ir_op_table[node->op];
    bool varies = false, mixed = false;
    for (int32_t k = 0; k < node->n_in; k++) {
        varies |= axis[node->in[k]] != IR_SAMPLES_NONE;
        mixed |= axis[node->in[k]] == IR_SAMPLES_MIXED;
    }
    for (int32_t k = 0; k < node->n_out; k++)
        axis[node->out[k]] = varies ? IR_SAMPLES_MIXED : IR_SAMPLES_NONE;
    if (!varies || mixed || !op->sbp)
        return;
    fs_arena *scratch = fs_arena_create();
    ir_sig_list list = {0};
    ir_io io;
    ir_node_io(g, node, &io);
    op->sbp(node, &io, scratch, &list);
    for (int32_t s = 0; s < list.n; s++)
        if (fits_inputs(g, node, &list.at[s], axis)) {
            take_outputs(node, &list.at[s], axis);
            break;
        }
    fs_arena_destroy(scratch);
}

/* An input that has no axis of samples is one of the whole batch. */
static int32_t of_input(const ir_tensor *x)
{
    return x->batch_axis >= 0 ? x->batch_axis : IR_SAMPLES_MIXED;
}

int32_t *ir_sample_axes(const ir_graph *graph, fs_arena *arena)
{
    int32_t *axis = fs_new(arena, int32_t, graph->tensors.n);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (node->op == IR_OP_input)
            axis[node->out[0]] = of_input(&graph->tensors.at[node->out[0]]);
        else
            follow(graph, node, axis);
    }
    return axis;
}
