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

/* What a form of training gives out too, as it stands. */
static fs_status keep_statistics(onnx_ctx *c, int32_t mean, int32_t var)
{
    for (int32_t k = 1; k <= 4; k++)
        if (onnx_wants(c, k))
            FS_TRY(onnx_set(
                c, k, ir_unary(c->graph, IR_OP_identity, k % 2 ? mean : var)));
    return FS_OK;
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
    if (is_training(c) && !c->options->answers)
        return train_batch_norm(c, &in);
    FS_TRY(onnx_set(c, 0, add_batch_norm(c, mean, var, false)));
    return keep_statistics(c, mean, var);
}

/* ---- along rows ---- */

/* What one row of a normalisation holds, as a last axis. */
typedef struct rows {
    ir_shape in, flat; /* flat: the leading axes, then a row */
    ir_shape row;      /* the axes of a row */
} rows;

/* Rows from `axis` on. */
static rows rows_from(const ir_shape *in, int32_t axis)
{
    rows r = {.in = *in, .flat = {.rank = axis + 1}};
    r.flat.dim[axis] = 1;
    for (int32_t i = 0; i < in->rank; i++) {
        if (i < axis) {
            r.flat.dim[i] = in->dim[i];
            continue;
        }
        r.flat.dim[axis] *= in->dim[i];
        r.row.dim[r.row.rank++] = in->dim[i];
    }
    return r;
}

/* Input i, stretched over a row, as a vector. */
static int32_t row_vector(onnx_ctx *c, int32_t i, const rows *r)
{
    ir_graph *g = c->graph;
    int64_t n = r->flat.dim[r->flat.rank - 1];
    int32_t wide = ir_broadcast_to(g, onnx_in(c, i), r->row);
    return ir_reshape(g, wide, ir_shape_make(1, &n));
}

static int32_t reshape_output(ir_graph *g, int32_t node, int32_t k,
                              ir_shape shape)
{
    return node < 0 ? -1 : ir_reshape(g, g->nodes.at[node].out[k], shape);
}

/* LayerNormalization, RMSNormalization (argument 1: not centred). */
fs_status onnx_import_layer_norm(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in;
    int32_t axis;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", -1), in.rank, &axis));
    rows r = rows_from(&in, axis);
    ir_node node = {
        .op = IR_OP_layer_norm,
        .n_in = 2,
        .in = {ir_reshape(g, onnx_in(c, 0), r.flat), row_vector(c, 1, &r)},
        .i = {c->arg},
        .f = {onnx_attr_real(c, "epsilon", 1e-5)}};
    if (!c->arg && onnx_has(c, 2))
        node.in[node.n_in++] = row_vector(c, 2, &r);
    int32_t id = ir_graph_add(g, &node);
    FS_TRY(onnx_set(c, 0, reshape_output(g, id, 0, in)));
    c->widens = false; /* the moments stay in the type they are computed in */
    for (int32_t i = axis; i < in.rank; i++)
        in.dim[i] = 1;
    for (int32_t k = 1; k < 3; k++)
        if (onnx_wants(c, k))
            FS_TRY(onnx_set(c, k, reshape_output(g, id, k, in)));
    return FS_OK;
}

/* Input i, one number per channel or per group of channels, as (C, 1, ..). */
static fs_status channel_vector(onnx_ctx *c, int32_t i, const ir_shape *in,
                                int64_t groups, int32_t *out)
{
    ir_graph *g = c->graph;
    ir_shape shape, wide = {.rank = in->rank - 1, .dim = {in->dim[1]}};
    int64_t channels = in->dim[1];
    for (int32_t k = 1; k < wide.rank; k++)
        wide.dim[k] = 1;
    FS_TRY(onnx_shape(c, i, &shape));
    int32_t x = onnx_in(c, i);
    if (shape.rank != 1 || (shape.dim[0] != channels && shape.dim[0] != groups))
        return onnx_fail(c, "input %d is no vector of %lld channels", i,
                         (long long)channels);
    if (shape.dim[0] != channels) {
        ir_shape column = {.rank = 2, .dim = {groups, 1}};
        ir_shape each = {.rank = 2, .dim = {groups, channels / groups}};
        x = ir_broadcast_to(g, ir_reshape(g, x, column), each);
    }
    *out = ir_reshape(g, x, wide);
    return FS_OK;
}

/* InstanceNormalization (argument 0: every channel is a group) and
 * GroupNormalization (1): rows without gain, then gain and bias per channel. */
fs_status onnx_import_group_norm(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in;
    int32_t gain, bias;
    FS_TRY(onnx_shape(c, 0, &in));
    if (in.rank < 3)
        return onnx_fail(c, "its input has no spatial axes");
    int64_t groups = c->arg ? onnx_attr_int(c, "num_groups", 0) : in.dim[1];
    if (groups < 1 || in.dim[1] % groups != 0)
        return onnx_fail(c, "%lld channels do not make %lld groups",
                         (long long)in.dim[1], (long long)groups);
    FS_TRY(channel_vector(c, 1, &in, groups, &gain));
    FS_TRY(channel_vector(c, 2, &in, groups, &bias));
    int64_t row = ir_shape_count(&in) / in.dim[0] / groups;
    ir_shape flat = {.rank = 3, .dim = {in.dim[0], groups, row}};
    ir_node node = {.op = IR_OP_layer_norm,
                    .n_in = 1,
                    .in = {ir_reshape(g, onnx_in(c, 0), flat)},
                    .f = {onnx_attr_real(c, "epsilon", 1e-5)}};
    int32_t y = ir_reshape(g, ir_append(g, &node), in);
    y = ir_binary(g, IR_OP_mul, y, gain);
    return onnx_set(c, 0, ir_binary(g, IR_OP_add, y, bias));
}
