/* gather of table rows and its reverse. */
#include "config.h"
#include "ir/op_util.h"

static fs_status infer_gather(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_rank(io, 0, 1, IR_MAX_RANK, err));
    FS_TRY(ir_io_need_int(io, 1, err));
    const ir_shape *table = &io->in[0], *ids = &io->in[1];
    if (node->i[2] < 0 || node->i[2] >= table->rank)
        return fs_fail(err, FS_INVALID, "axis %lld of a table of rank %d",
                       (long long)node->i[2], table->rank);
    if (ids->rank + table->rank - 1 > IR_MAX_RANK)
        return fs_fail(err, FS_INVALID, "the result has rank %d; at most %d",
                       ids->rank + table->rank - 1, IR_MAX_RANK);
    ir_shape shape = {.rank = 0};
    for (int32_t i = 0; i < node->i[2]; i++)
        shape.dim[shape.rank++] = table->dim[i];
    for (int32_t i = 0; i < ids->rank; i++)
        shape.dim[shape.rank++] = ids->dim[i];
    for (int32_t i = (int32_t)node->i[2] + 1; i < table->rank; i++)
        shape.dim[shape.rank++] = table->dim[i];
    io->out[0] = shape;
    io->out_dtype[0] = io->in_dtype[0];
    return FS_OK;
}

static void sbp_gather(const ir_node *node, const ir_io *io, fs_arena *arena,
                       ir_sig_list *out)
{
    int32_t n_ids = io->in[1].rank, axis = (int32_t)node->i[2];
    for (int32_t i = 0; i < n_ids; i++)
        ir_sig_add_row(arena, out, IR_SBP_B, IR_SBP_S(i), IR_SBP_S(axis + i));
    /* Rows that a device does not hold count as zero. */
    ir_sig_add_row(arena, out, IR_SBP_S(axis), IR_SBP_B, IR_SBP_P);
    for (int32_t i = 0; i < io->in[0].rank; i++)
        if (i != axis)
            ir_sig_add_row(arena, out, IR_SBP_S(i), IR_SBP_B,
                           IR_SBP_S(i < axis ? i : n_ids + i - 1));
    ir_sig_add_linear(arena, out, 1, 1);
}

/* Reads the rows asked for, not the table. */
static void work_gather(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, 0, out);
    out->read_bytes = ir_add_sat(ir_shape_bytes(&io->in[1], io->in_dtype[1]),
                                 out->written_bytes);
}

static void grad_gather(ir_graph *graph, const ir_node *node,
                        const int32_t *dout, int32_t *din)
{
    ir_node grad = {.op = IR_OP_gather_grad,
                    .n_in = 2,
                    .in = {dout[0], node->in[1]},
                    .i = {0, node->i[1], node->i[2], node->i[3]}};
    grad.i[0] = ir_shape_of(graph, node->in[0]).dim[node->i[2]];
    din[0] = ir_append(graph, &grad);
}

static fs_status infer_gather_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    const ir_shape *dy = &io->in[0], *ids = &io->in[1];
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_int(io, 1, err));
    FS_TRY(ir_attr_check(node, 2, 1, 0, err));
    FS_TRY(ir_io_need_rank(io, 0, ids->rank, ids->rank + IR_MAX_RANK - 1, err));
    if (node->i[2] > dy->rank - ids->rank)
        return fs_fail(err, FS_INVALID, "axis %lld of a table of rank %d",
                       (long long)node->i[2], dy->rank - ids->rank + 1);
    int32_t axis = (int32_t)node->i[2];
    for (int32_t i = 0; i < ids->rank; i++)
        if (dy->dim[axis + i] != ids->dim[i])
            return fs_fail(
                err, FS_INVALID, "axis %d: %lld gradients for %lld ids",
                axis + i, (long long)dy->dim[axis + i], (long long)ids->dim[i]);
    ir_shape shape = {.rank = 0};
    for (int32_t i = 0; i < axis; i++)
        shape.dim[shape.rank++] = dy->dim[i];
    shape.dim[shape.rank++] = node->i[0];
    for (int32_t i = axis + ids->rank; i < dy->rank; i++)
        shape.dim[shape.rank++] = dy->dim[i];
    io->out[0] = shape;
    io->out_dtype[0] = io->in_dtype[0];
    return FS_OK;
}

static void sbp_gather_grad(const ir_node *node, const ir_io *io,
                            fs_arena *arena, ir_sig_list *out)
{
    int32_t n_ids = io->in[1].rank, axis = (int32_t)node->i[2];
    for (int32_t i = 0; i < io->in[0].rank; i++)
        if (i >= axis && i < axis + n_ids)
            ir_sig_add_row(arena, out, IR_SBP_S(i), IR_SBP_S(i - axis),
                           IR_SBP_P);
        else
            ir_sig_add_row(arena, out, IR_SBP_S(i), IR_SBP_B,
                           IR_SBP_S(i < axis ? i : i - n_ids + 1));
    ir_sig_add_linear(arena, out, 1, 1);
    /* Each device adds up the rows that it holds. */
    ir_sig_add(arena, out)->out[0] = IR_SBP_S(axis);
}

static void work_gather_grad(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 1, out);
}

/* The tensor with zeros at `row` of `axis`. */
static int32_t clear_row(ir_graph *graph, int32_t x, int32_t axis, int64_t row)
{
    const ir_shape whole = ir_shape_of(graph, x);
    ir_shape along = {.rank = whole.rank};
    for (int32_t i = 0; i < whole.rank; i++)
        along.dim[i] = i == axis ? whole.dim[i] : 1;
    ir_node others = {.op = IR_OP_one_hot, .n_in = 1, .f = {1, 0}};
    others.in[0] = ir_number(graph, IR_I64, (double)row);
    others.i[1] = whole.dim[axis];
    others.i[2] = graph->tensors.at[x].dtype;
    const int32_t keep = ir_append(graph, &others);
    return ir_binary(graph, IR_OP_mul, x, ir_reshape(graph, keep, along));
}

static void grad_gather_grad(ir_graph *graph, const ir_node *node,
                             const int32_t *dout, int32_t *din)
{
    const int32_t axis = (int32_t)node->i[2];
    const int32_t rows =
        node->i[3] ? clear_row(graph, dout[0], axis, node->i[3] - 1) : dout[0];
    ir_node grad = {.op = IR_OP_gather,
                    .n_in = 2,
                    .in = {rows, node->in[1]},
                    .i = {node->i[0], node->i[1], node->i[2]}};
    din[0] = ir_append(graph, &grad);
}

/* Not node->i[0]: it is 0 when the whole table's length is not told. */
static int64_t ids_of_gather(const ir_node *node, const ir_io *io, int32_t k)
{
    return k == 1 ? io->in[0].dim[node->i[2]] : 0;
}

const ir_op ir_op_gather = {.name = "gather",
                            .ids_below = ids_of_gather,
                            .moves = true,
                            .min_in = 2,
                            .max_in = 2,
                            .n_out = 1,
                            .infer = infer_gather,
                            .sbp = sbp_gather,
                            .work = work_gather,
                            .grad = grad_gather};
const ir_op ir_op_gather_grad = {.name = "gather_grad",
                                 .min_in = 2,
                                 .max_in = 2,
                                 .n_out = 1,
                                 .infer = infer_gather_grad,
                                 .sbp = sbp_gather_grad,
                                 .work = work_gather_grad,
                                 .grad = grad_gather_grad};
