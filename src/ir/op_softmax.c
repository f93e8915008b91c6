/* softmax, cross_entropy and their gradients: rows along the last axis. */
#include "config.h"
#include "ir/op_util.h"

/* Also of the gradient: dy, y. */
static fs_status infer_softmax(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_rank(io, 0, 1, IR_MAX_RANK, err));
    return ir_infer_alike(node, io, err);
}

static void sbp_softmax(const ir_node *node, const ir_io *io, fs_arena *arena,
                        ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 1, 1, io->in[0].rank - 1);
}

/* max, subtract, exp, add, divide. */
static void work_softmax(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 5, out);
}

static void grad_softmax(ir_graph *graph, const ir_node *node,
                         const int32_t *dout, int32_t *din)
{
    ir_node grad = {
        .op = IR_OP_softmax_grad, .n_in = 2, .in = {dout[0], node->out[0]}};
    din[0] = ir_append(graph, &grad);
}

static void sbp_softmax_grad(const ir_node *node, const ir_io *io,
                             fs_arena *arena, ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 3, 1, io->in[0].rank - 1);
    ir_sig_add_linear(arena, out, 1, 1);
}

/* y (dy - sum dy y). */
static void work_softmax_grad(const ir_node *node, const ir_io *io,
                              ir_work *out)
{
    ir_work_per_element(node, io, 4, out);
}

static void grad_log_softmax(ir_graph *graph, const ir_node *node,
                             const int32_t *dout, int32_t *din)
{
    ir_node grad = {
        .op = IR_OP_log_softmax_grad, .n_in = 2, .in = {dout[0], node->out[0]}};
    din[0] = ir_append(graph, &grad);
}

/* Labels have the shape of the logits without the last axis. */
static fs_status check_labels(const ir_io *io, int32_t logits, int32_t labels,
                              fs_err *err)
{
    char a[160], b[160];
    FS_TRY(ir_io_need_float(io, logits, err));
    FS_TRY(ir_io_need_int(io, labels, err));
    FS_TRY(ir_io_need_rank(io, logits, 1, IR_MAX_RANK, err));
    ir_shape rows = io->in[logits];
    rows.rank--;
    if (ir_shape_equal(&rows, &io->in[labels]))
        return FS_OK;
    return fs_fail(err, FS_INVALID, "labels of shape %s for logits of shape %s",
                   ir_shape_text(a, &io->in[labels]),
                   ir_shape_text(b, &io->in[logits]));
}

static fs_status infer_cross_entropy(const ir_node *node, ir_io *io,
                                     fs_err *err)
{
    (void)node;
    FS_TRY(check_labels(io, 0, 1, err));
    io->out[0] = (ir_shape){0};
    io->out_dtype[0] = io->in_dtype[0];
    ir_io_copy(io, 0, 1);
    return FS_OK;
}

static void sbp_cross_entropy(const ir_node *node, const ir_io *io,
                              fs_arena *arena, ir_sig_list *out)
{
    (void)node;
    for (int32_t i = 0; i < io->in[1].rank; i++) {
        ir_sig *sig = ir_sig_add(arena, out);
        sig->in[0] = sig->in[1] = sig->out[1] = IR_SBP_S(i);
        sig->out[0] = IR_SBP_P;
    }
}

static void work_cross_entropy(const ir_node *node, const ir_io *io,
                               ir_work *out)
{
    int64_t flop = ir_mul_sat(5, ir_shape_count(&io->in[0]));
    ir_work_moves(node, io,
                  ir_add_sat(flop, ir_mul_sat(2, ir_shape_count(&io->in[1]))),
                  out);
}

static void grad_cross_entropy(ir_graph *graph, const ir_node *node,
                               const int32_t *dout, int32_t *din)
{
    if (dout[1] >= 0) {
        ir_graph_fail(graph,
                      "%s: cross_entropy has no gradient through its "
                      "probabilities",
                      node->name);
        return;
    }
    ir_node grad = {.op = IR_OP_cross_entropy_grad,
                    .n_in = 3,
                    .in = {dout[0], node->out[1], node->in[1]}};
    grad.f[0] = node->f[0];
    din[0] = ir_append(graph, &grad);
}

static fs_status infer_cross_entropy_grad(const ir_node *node, ir_io *io,
                                          fs_err *err)
{
    (void)node;
    FS_TRY(ir_io_need_rank(io, 0, 0, 0, err));
    FS_TRY(ir_io_need_dtype(io, 1, err));
    FS_TRY(check_labels(io, 1, 2, err));
    ir_io_copy(io, 1, 0);
    return FS_OK;
}

static void sbp_cross_entropy_grad(const ir_node *node, const ir_io *io,
                                   fs_arena *arena, ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 6, 1, io->in[2].rank);
    ir_sig_add_linear(arena, out, 1, 1);
}

static void work_cross_entropy_grad(const ir_node *node, const ir_io *io,
                                    ir_work *out)
{
    int64_t flop =
        ir_add_sat(ir_shape_count(&io->in[1]), ir_shape_count(&io->in[2]));
    ir_work_moves(node, io, flop, out);
}

const ir_op ir_op_softmax = {.name = "softmax",
                             .min_in = 1,
                             .max_in = 1,
                             .n_out = 1,
                             .infer = infer_softmax,
                             .sbp = sbp_softmax,
                             .work = work_softmax,
                             .grad = grad_softmax};
const ir_op ir_op_softmax_grad = {.name = "softmax_grad",
                                  .min_in = 2,
                                  .max_in = 2,
                                  .n_out = 1,
                                  .infer = infer_softmax,
                                  .sbp = sbp_softmax_grad,
                                  .work = work_softmax_grad};
const ir_op ir_op_log_softmax = {.name = "log_softmax",
                                 .min_in = 1,
                                 .max_in = 1,
                                 .n_out = 1,
                                 .infer = infer_softmax,
                                 .sbp = sbp_softmax,
                                 .work = work_softmax,
                                 .grad = grad_log_softmax};
const ir_op ir_op_log_softmax_grad = {.name = "log_softmax_grad",
                                      .min_in = 2,
                                      .max_in = 2,
                                      .n_out = 1,
                                      .infer = infer_softmax,
                                      .sbp = sbp_softmax_grad,
                                      .work = work_softmax_grad};
static int64_t labels_of_entropy(const ir_node *node, const ir_io *io,
                                 int32_t k)
{
    (void)node;
    return k == 1 ? io->in[0].dim[io->in[0].rank - 1] : 0;
}

static int32_t factor_of_entropy(const ir_node *node)
{
    (void)node;
    return 0;
}

const ir_op ir_op_cross_entropy = {.factor = factor_of_entropy,
                                   .name = "cross_entropy",
                                   .ids_below = labels_of_entropy,
                                   .min_in = 2,
                                   .max_in = 2,
                                   .n_out = 2,
                                   .infer = infer_cross_entropy,
                                   .sbp = sbp_cross_entropy,
                                   .work = work_cross_entropy,
                                   .grad = grad_cross_entropy};
const ir_op ir_op_cross_entropy_grad = {.name = "cross_entropy_grad",
                                        .min_in = 3,
                                        .max_in = 3,
                                        .n_out = 1,
                                        .infer = infer_cross_entropy_grad,
                                        .sbp = sbp_cross_entropy_grad,
                                        .work = work_cross_entropy_grad};
