/* Importing normalisations. */
#include "config.h"
#include "onnx/operators.h"

/* ---- batch normalisation ---- */

/* A running statistic is no parameter, whatever the file holds it as. */
static void make_buffer(onnx_ctx *c, int32_t tensor)
{
    if (tensor >= 0 && c->graph->tensors.at[tensor].role == IR_PARAM)
        c->graph->tensors.at[tensor].role = IR_BUFFER;
}

/* momentum * old + (1 - momentum) * batch. A variable takes it as its next
 * value; a layer that is used twice moves its statistics twice. */
static int32_t move_statistic(onnx_ctx *c, int32_t running, int32_t batch)
{
    ir_graph *g = c->graph;
    double momentum = onnx_attr_real(c, "momentum", 0.9);
    if (running < 0 || batch < 0)
        return -1;
    int32_t old = g->tensors.at[running].next;
    int32_t kept = ir_scale(g, old >= 0 ? old : running, momentum, 0);
    int32_t moved =
        ir_binary(g, IR_OP_add, kept, ir_scale(g, batch, 1 - momentum, 0));
    const ir_tensor *t = &g->tensors.at[running];
    if (moved >= 0 && g->nodes.at[t->producer].op == IR_OP_variable)
        g->tensors.at[running].next = moved;
    return moved;
}

/* Before opset 14 the number of outputs tells, before 7 `is_test`. */
static bool is_training(const onnx_ctx *c)
{
    if (c->opset >= 14)
        return onnx_attr_int(c, "training_mode", 0) != 0;
    if (c->opset < 7)
        return onnx_attr_int(c, "is_test", 0) == 0;
    return onnx_wants(c, 1) || onnx_wants(c, 2);
}

static int32_t add_batch_norm(onnx_ctx *c, int32_t mean, int32_t var,
                              bool training)
{
    ir_node node = {
        .op = IR_OP_batch_norm,
        .n_in = 5,
        .in = {onnx_in(c, 0), onnx_in(c, 1), onnx_in(c, 2), mean, var},
        .i = {training},
        .f = {onnx_attr_real(c, "epsilon", 1e-5)}};
    return ir_append(c->graph, &node);
}

/* By the moments of the batch, which also move the running ones; older forms
 * give them out once more. */
static fs_status train_batch_norm(onnx_ctx *c, const ir_shape *in)
{
    ir_graph *g = c->graph;
    int32_t x = onnx_in(c, 0);
    uint32_t others = ((1u << in->rank) - 1) & ~2u;
    double count = (double)ir_shape_count(in) / (double)in->dim[1];
    int32_t mean = ir_reduce_mean(g, x, others, false);
    int32_t squares = ir_binary(g, IR_OP_centred_square, x, mean);
    int32_t var = ir_scale(g, squares, 1 / count, 0);
    FS_TRY(onnx_set(c, 0, add_batch_norm(c, mean, var, true)));
    FS_TRY(onnx_set(c, 1, move_statistic(c, onnx_in(c, 3), mean)));
    FS_TRY(onnx_set(c, 2, move_statistic(c, onnx_in(c, 4), var)));
    FS_TRY(onnx_set(c, 3, mean));
    return onnx_set(c, 4, var);
}

fs_status onnx_import_batch_norm(onnx_ctx *c)
{
    ir_shape in;
    FS_TRY(onnx_shape(c, 0, &in));
    if (in.rank < 2)
        return onnx_fail(c, "its input has no axis of channels");
    if (c->opset < 9 && !onnx_attr_int(c, "spatial", 1))
        return onnx_fail(c, "spatial = 0 (statistics of every position) is "
                            "not supported");
    int32_t mean = onnx_in(c, 3), var = onnx_in(c, 4);
    make_buffer(c, mean);
    make_buffer(c, var);
    if (is_training(c))
        return train_batch_norm(c, &in);
    return onnx_set(c, 0, add_batch_norm(c, mean, var, false));
}
