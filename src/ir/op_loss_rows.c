/* Ops on whole rows of classes and a label each, legal on a cut class axis: the
 * cross entropy of rows whose log sum exp is known, and the margin softmax's
 * logits. */
#include "config.h"
#include "ir/losses.h"
#include "ir/op_util.h"

static fs_status infer_rows(const ir_node *node, ir_io *io, fs_err *err)
{
    ir_shape one = io->in[0];
    FS_TRY(ir_io_need_labels(node, io, 0, 2, err));
    FS_TRY(ir_io_need_dtype(io, 1, err));
    one.dim[one.rank - 1] = 1;
    FS_TRY(ir_io_need_shape(io, 1, &one, err));
    io->out[0] = io->in[2];
    io->out_dtype[0] = io->in_dtype[0];
    return FS_OK;
}

/* Of a cut class axis, the device that holds the label gives z - x[label]. */
static void sbp_rows(const ir_node *node, const ir_io *io, fs_arena *arena,
                     ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 7, 1, io->in[2].rank);
    ir_sig_add_row(arena, out, IR_SBP_S(io->in[2].rank), IR_SBP_B, IR_SBP_P);
    ir_sig_add_linear(arena, out, 3, 1);
}

/* One element of x per label. */
static void work_rows(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, ir_shape_count(&io->in[2]), out);
    out->read_bytes = ir_add_sat(ir_shape_bytes(&io->in[2], io->in_dtype[2]),
                                 ir_mul_sat(2, out->written_bytes));
}

static void grad_rows(ir_graph *graph, const ir_node *node, const int32_t *dout,
                      int32_t *din)
{
    ir_node grad = {.op = IR_OP_cross_entropy_rows_grad,
                    .n_in = 4,
                    .in = {dout[0], node->in[0], node->in[1], node->in[2]},
                    .i = {node->i[0], node->i[1], node->i[2]}};
    din[0] = ir_append(graph, &grad);
}

static fs_status infer_rows_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    ir_shape one = io->in[1];
    FS_TRY(ir_io_need_labels(node, io, 1, 3, err));
    FS_TRY(ir_io_need_dtype(io, 1, err));
    FS_TRY(ir_io_need_dtype(io, 2, err));
    FS_TRY(ir_io_need_shape(io, 0, &io->in[3], err));
    one.dim[one.rank - 1] = 1;
    FS_TRY(ir_io_need_shape(io, 2, &one, err));
    ir_io_copy(io, 1, 0);
    return FS_OK;
}

static void sbp_rows_grad(const ir_node *node, const ir_io *io, fs_arena *arena,
                          ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 15, 1, io->in[3].rank);
    ir_sig_add_split(arena, out, 2, 1, io->in[3].rank);
    ir_sig_add_linear(arena, out, 1, 1);
}

static void work_rows_grad(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, ir_mul_sat(3, ir_shape_count(&io->in[1])), out);
}

static fs_status infer_margin(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_labels(node, io, 0, 1, err));
    ir_io_copy(io, 0, 0);
    return FS_OK;
}

static void sbp_margin(const ir_node *node, const ir_io *io, fs_arena *arena,
                       ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 3, 1, io->in[1].rank);
    ir_sig_add_split(arena, out, 1, 1, io->in[1].rank);
}

static void work_margin(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 1, out);
}

static void grad_margin(ir_graph *graph, const ir_node *node,
                        const int32_t *dout, int32_t *din)
{
    ir_node grad = *node;
    grad.op = IR_OP_margin_grad;
    grad.name = NULL;
    grad.n_in = 3;
    grad.in[0] = dout[0];
    grad.in[1] = node->in[0];
    grad.in[2] = node->in[1];
    din[0] = ir_append(graph, &grad);
}

static fs_status infer_margin_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_labels(node, io, 0, 2, err));
    FS_TRY(ir_io_need_alike(io, 1, err));
    ir_io_copy(io, 0, 0);
    return FS_OK;
}

static void sbp_margin_grad(const ir_node *node, const ir_io *io,
                            fs_arena *arena, ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 7, 1, io->in[2].rank);
    ir_sig_add_split(arena, out, 3, 1, io->in[2].rank);
    ir_sig_add_linear(arena, out, 1, 1);
}

static int64_t labels_of_rows(const ir_node *node, const ir_io *io, int32_t k)
{
    (void)io;
    return k == 2 ? node->i[0] : 0;
}

static int64_t labels_of_margin(const ir_node *node, const ir_io *io, int32_t k)
{
    (void)io;
    return k == 1 ? node->i[0] : 0;
}

const ir_op ir_op_cross_entropy_rows = {.name = "cross_entropy_rows",
                                        .ids_below = labels_of_rows,
                                        .min_in = 3,
                                        .max_in = 3,
                                        .n_out = 1,
                                        .infer = infer_rows,
                                        .sbp = sbp_rows,
                                        .work = work_rows,
                                        .grad = grad_rows};
const ir_op ir_op_cross_entropy_rows_grad = {.name = "cross_entropy_rows_grad",
                                             .min_in = 4,
                                             .max_in = 4,
                                             .n_out = 1,
                                             .infer = infer_rows_grad,
                                             .sbp = sbp_rows_grad,
                                             .work = work_rows_grad};
const ir_op ir_op_margin = {.name = "margin",
                            .ids_below = labels_of_margin,
                            .min_in = 2,
                            .max_in = 2,
                            .n_out = 1,
                            .infer = infer_margin,
                            .sbp = sbp_margin,
                            .work = work_margin,
                            .grad = grad_margin};
const ir_op ir_op_margin_grad = {.name = "margin_grad",
                                 .min_in = 3,
                                 .max_in = 3,
                                 .n_out = 1,
                                 .infer = infer_margin_grad,
                                 .sbp = sbp_margin_grad,
                                 .work = work_margin};
