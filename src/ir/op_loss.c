/* What losses ask about labels: the value at the label, its reverse, the
 * weight that a label counts with; binary cross entropy. */
#include "config.h"
#include "ir/losses.h"
#include "ir/op_util.h"

fs_status ir_io_need_labels(const ir_node *node, const ir_io *io, int32_t rows,
                            int32_t labels, fs_err *err)
{
    char a[160], b[160];
    ir_shape shape = io->in[rows];
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_int(io, labels, err));
    FS_TRY(ir_io_need_rank(io, rows, 1, IR_MAX_RANK, err));
    FS_TRY(ir_attr_check(node, 0, 1, 1, err));
    shape.rank--;
    if (ir_shape_equal(&shape, &io->in[labels]))
        return FS_OK;
    return fs_fail(err, FS_INVALID, "labels of shape %s for rows of shape %s",
                   ir_shape_text(a, &io->in[labels]),
                   ir_shape_text(b, &io->in[rows]));
}

static fs_status infer_pick(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_labels(node, io, 0, 1, err));
    io->out[0] = io->in[1];
    io->out_dtype[0] = io->in_dtype[0];
    return FS_OK;
}

/* Of a class axis that is cut, the one device that holds the label gives its
 * value, the others zero. */
static void sbp_pick(const ir_node *node, const ir_io *io, fs_arena *arena,
                     ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 3, 1, io->in[1].rank);
    ir_sig_add_row(arena, out, IR_SBP_S(io->in[1].rank), IR_SBP_B, IR_SBP_P);
    ir_sig_add_linear(arena, out, 1, 1);
}

/* Reads one element per label. */
static void work_pick(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, 0, out);
    out->read_bytes = ir_add_sat(ir_shape_bytes(&io->in[1], io->in_dtype[1]),
                                 out->written_bytes);
}

static void grad_pick(ir_graph *graph, const ir_node *node, const int32_t *dout,
                      int32_t *din)
{
    ir_node grad = *node;
    grad.op = IR_OP_pick_grad;
    grad.name = NULL;
    grad.in[0] = dout[0];
    din[0] = ir_append(graph, &grad);
}

static fs_status infer_pick_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_int(io, 1, err));
    FS_TRY(ir_io_need_shape(io, 1, &io->in[0], err));
    FS_TRY(ir_io_need_rank(io, 0, 0, IR_MAX_RANK - 1, err));
    FS_TRY(ir_attr_check(node, 0, 1, 1, err));
    ir_io_copy(io, 0, 0);
    io->out[0].dim[io->out[0].rank++] = node->i[0];
    return FS_OK;
}

static void sbp_pick_grad(const ir_node *node, const ir_io *io, fs_arena *arena,
                          ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 3, 1, io->in[1].rank);
    ir_sig_add_row(arena, out, IR_SBP_B, IR_SBP_B, IR_SBP_S(io->in[1].rank));
    ir_sig_add_linear(arena, out, 1, 1);
}

static void grad_pick_grad(ir_graph *graph, const ir_node *node,
                           const int32_t *dout, int32_t *din)
{
    ir_node grad = *node;
    grad.op = IR_OP_pick;
    grad.name = NULL;
    grad.in[0] = dout[0];
    din[0] = ir_append(graph, &grad);
}

static fs_status infer_label_weight(const ir_node *node, ir_io *io, fs_err *err)
{
    const ir_shape classes = {.rank = 1, .dim = {node->i[0]}};
    FS_TRY(ir_io_need_int(io, 0, err));
    FS_TRY(ir_attr_check(node, 0, 1, 1, err));
    io->out[0] = io->in[0];
    io->out_dtype[0] = (ir_dtype)node->i[3];
    if (node->i[3] < 0 || node->i[3] >= IR_DTYPE_COUNT ||
        !ir_dtype_is_float((ir_dtype)node->i[3]))
        return fs_fail(err, FS_INVALID, "weights are of no float type");
    if (node->n_in == 1)
        return FS_OK;
    FS_TRY(ir_io_need_shape(io, 1, &classes, err));
    if (io->in_dtype[1] != io->out_dtype[0])
        return fs_fail(err, FS_INVALID, "weights are %s, the result %s",
                       ir_dtype_name(io->in_dtype[1]),
                       ir_dtype_name(io->out_dtype[0]));
    return FS_OK;
}

static void sbp_label_weight(const ir_node *node, const ir_io *io,
                             fs_arena *arena, ir_sig_list *out)
{
    ir_sig_add_splits(arena, out, 1, 1, io->in[0].rank);
    if (node->n_in == 1)
        return;
    ir_sig_add_row(arena, out, IR_SBP_B, IR_SBP_S(0), IR_SBP_P);
    ir_sig_add_linear(arena, out, 2, 1);
}

/* dweights[c]: the sum over the rows whose label is c. */
static void grad_label_weight(ir_graph *graph, const ir_node *node,
                              const int32_t *dout, int32_t *din)
{
    if (node->n_in == 1)
        return;
    ir_node spread = *node;
    spread.op = IR_OP_pick_grad;
    spread.name = NULL;
    spread.n_in = 2;
    spread.in[0] = dout[0];
    spread.in[1] = node->in[0];
    const int32_t rows = ir_shape_of(graph, node->in[0]).rank;
    din[1] = ir_reduce_sum(graph, ir_append(graph, &spread), (1u << rows) - 1,
                           false);
}

/* The target's gradient: dy times the log of the odds, turned round. */
static void grad_bce(ir_graph *graph, const ir_node *node, const int32_t *dout,
                     int32_t *din)
{
    const int32_t x = node->in[0];
    ir_node grad = {.op = IR_OP_bce_grad,
                    .n_in = 3,
                    .in = {dout[0], x, node->in[1]},
                    .i = {node->i[0]}};
    int32_t back = ir_scale(graph, x, -1, 0);
    if (node->i[0]) {
        int32_t other = ir_scale(graph, x, -1, 1);
        back = ir_binary(graph, IR_OP_sub, ir_unary(graph, IR_OP_log, other),
                         ir_unary(graph, IR_OP_log, x));
    }
    din[0] = ir_append(graph, &grad);
    din[1] = ir_binary(graph, IR_OP_mul, dout[0], back);
}

static void work_bce(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 8, out);
}

static int64_t labels_of_pick(const ir_node *node, const ir_io *io, int32_t k)
{
    (void)io;
    return k == 1 ? node->i[0] : 0;
}

const ir_op ir_op_pick = {.name = "pick",
                          .ids_below = labels_of_pick,
                          .min_in = 2,
                          .max_in = 2,
                          .n_out = 1,
                          .infer = infer_pick,
                          .sbp = sbp_pick,
                          .work = work_pick,
                          .grad = grad_pick};
const ir_op ir_op_pick_grad = {.name = "pick_grad",
                               .min_in = 2,
                               .max_in = 2,
                               .n_out = 1,
                               .infer = infer_pick_grad,
                               .sbp = sbp_pick_grad,
                               .work = ir_work_copy,
                               .grad = grad_pick_grad};
const ir_op ir_op_label_weight = {.name = "label_weight",
                                  .min_in = 1,
                                  .max_in = 2,
                                  .n_out = 1,
                                  .infer = infer_label_weight,
                                  .sbp = sbp_label_weight,
                                  .work = ir_work_copy,
                                  .grad = grad_label_weight};
const ir_op ir_op_bce = {.name = "bce",
                         .min_in = 2,
                         .max_in = 2,
                         .n_out = 1,
                         .infer = ir_infer_alike,
                         .sbp = ir_sbp_alike,
                         .work = work_bce,
                         .grad = grad_bce};
const ir_op ir_op_bce_grad = {.name = "bce_grad",
                              .min_in = 3,
                              .max_in = 3,
                              .n_out = 1,
                              .infer = ir_infer_alike,
                              .sbp = ir_sbp_linear,
                              .work = work_bce};
