/* conv2d (cross-correlation, NCHW) and its gradients. */
#include "config.h"
#include "ir/op_util.h"

#include <string.h>

/* Length of the result along one axis; fails when the window does not fit. */
static fs_status conv_length(const ir_node *node, int32_t axis, int64_t length,
                             int64_t window, fs_err *err, int64_t *out)
{
    int64_t stride = node->i[axis], dilation = node->i[6 + axis], reach;
    int64_t padded = node->i[2 + axis] + node->i[4 + axis];
    if (__builtin_mul_overflow(dilation, window - 1, &reach) ||
        __builtin_add_overflow(padded, length, &padded) || reach >= padded)
        return fs_fail(err, FS_INVALID,
                       "a window of %lld, dilated by %lld, does not fit into "
                       "%lld padded elements",
                       (long long)window, (long long)dilation,
                       (long long)padded);
    *out = (padded - reach - 1) / stride + 1;
    return FS_OK;
}

static fs_status check_attrs(const ir_node *node, const ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_dtype(io, 1, err));
    FS_TRY(ir_io_need_rank(io, 0, 4, 4, err));
    FS_TRY(ir_io_need_rank(io, 1, 4, 4, err));
    FS_TRY(ir_attr_check(node, 0, 2, 1, err));
    FS_TRY(ir_attr_check(node, 2, 4, 0, err));
    return ir_attr_check(node, 6, 3, 1, err);
}

/* y's shape from x and w: what conv2d says and its gradients must agree with.
 */
static fs_status conv_shape(const ir_node *node, const ir_shape *x,
                            const ir_shape *w, fs_err *err, ir_shape *y)
{
    int64_t groups = node->i[8], channels;
    if (__builtin_mul_overflow(w->dim[1], groups, &channels) ||
        channels != x->dim[1] || w->dim[0] % groups != 0)
        return fs_fail(err, FS_INVALID,
                       "%lld channels, weights for %lld in and %lld out in "
                       "%lld groups",
                       (long long)x->dim[1], (long long)w->dim[1],
                       (long long)w->dim[0], (long long)groups);
    *y = (ir_shape){.rank = 4, .dim = {x->dim[0], w->dim[0]}};
    for (int32_t axis = 0; axis < 2; axis++)
        FS_TRY(conv_length(node, axis, x->dim[2 + axis], w->dim[2 + axis], err,
                           &y->dim[2 + axis]));
    return FS_OK;
}

static fs_status infer_conv2d(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(check_attrs(node, io, err));
    io->out_dtype[0] = io->in_dtype[0];
    return conv_shape(node, &io->in[0], &io->in[1], err, &io->out[0]);
}

/* A gradient's dy must be what the convolution of x by w gives. */
static fs_status check_dy(const ir_node *node, const ir_io *io,
                          const ir_shape *x, const ir_shape *w, fs_err *err)
{
    ir_shape wanted;
    FS_TRY(conv_shape(node, x, w, err, &wanted));
    return ir_io_need_shape(io, 0, &wanted, err);
}

static fs_status infer_data_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    ir_shape x = {.rank = 4, .dim = {io->in[0].dim[0]}};
    FS_TRY(check_attrs(node, io, err));
    FS_TRY(ir_attr_check(node, 9, 2, 1, err));
    if (__builtin_mul_overflow(io->in[1].dim[1], node->i[8], &x.dim[1]))
        return fs_fail(err, FS_INVALID, "too many channels");
    memcpy(x.dim + 2, node->i + 9, 2 * sizeof *x.dim);
    io->out[0] = x;
    io->out_dtype[0] = io->in_dtype[0];
    return check_dy(node, io, &x, &io->in[1], err);
}

static fs_status infer_filter_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(check_attrs(node, io, err));
    FS_TRY(ir_attr_check(node, 9, 2, 1, err));
    ir_shape w = {.rank = 4,
                  .dim = {io->in[0].dim[1], io->in[1].dim[1] / node->i[8]}};
    memcpy(w.dim + 2, node->i + 9, 2 * sizeof *w.dim);
    io->out[0] = w;
    io->out_dtype[0] = io->in_dtype[0];
    return check_dy(node, io, &io->in[1], &w, err);
}

/* Like a matrix product of samples x channels in by channels in x out; with
 * groups the channels are no such product and stay whole. */
static void sbp_product(const ir_node *node, fs_arena *arena, ir_sig_list *out,
                        const ir_sbp rows[3][3])
{
    for (int32_t k = 0; k < (node->i[8] == 1 ? 3 : 1); k++)
        ir_sig_add_row(arena, out, rows[k][0], rows[k][1], rows[k][2]);
    ir_sig_add_linear(arena, out, 1, 1);
    ir_sig_add_linear(arena, out, 2, 1);
}

static void sbp_conv2d(const ir_node *node, const ir_io *io, fs_arena *arena,
                       ir_sig_list *out)
{
    const ir_sbp b = IR_SBP_B, p = IR_SBP_P, s0 = IR_SBP_S(0), s1 = IR_SBP_S(1);
    const ir_sbp rows[3][3] = {{s0, b, s0}, {b, s0, s1}, {s1, s1, p}};
    (void)io;
    sbp_product(node, arena, out, rows);
}

static void sbp_data_grad(const ir_node *node, const ir_io *io, fs_arena *arena,
                          ir_sig_list *out)
{
    const ir_sbp b = IR_SBP_B, p = IR_SBP_P, s0 = IR_SBP_S(0), s1 = IR_SBP_S(1);
    const ir_sbp rows[3][3] = {{s0, b, s0}, {s1, s0, p}, {b, s1, s1}};
    (void)io;
    sbp_product(node, arena, out, rows);
}

static void sbp_filter_grad(const ir_node *node, const ir_io *io,
                            fs_arena *arena, ir_sig_list *out)
{
    const ir_sbp b = IR_SBP_B, p = IR_SBP_P, s0 = IR_SBP_S(0), s1 = IR_SBP_S(1);
    const ir_sbp rows[3][3] = {{s0, s0, p}, {s1, b, s0}, {b, s1, s1}};
    (void)io;
    sbp_product(node, arena, out, rows);
}

/* Padding counts as if it were data: 2 N M H' W' (C/g) R S. */
static int64_t conv_flop(const ir_shape *y, const ir_shape *w)
{
    int64_t per_output = ir_shape_count(w) / w->dim[0];
    return ir_mul_sat(ir_mul_sat(2, per_output), ir_shape_count(y));
}

static void work_conv2d(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, conv_flop(&io->out[0], &io->in[1]), out);
}

static void work_data_grad(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, conv_flop(&io->in[0], &io->in[1]), out);
}

static void work_filter_grad(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, conv_flop(&io->in[0], &io->out[0]), out);
}

/* The gradient of input `slot` from dy and the other input: attributes of
 * `node`, then the lengths of axes 2 and 3 of the result. */
static int32_t add_grad(ir_graph *graph, ir_op_kind kind, const ir_node *node,
                        int32_t dy, int32_t slot)
{
    ir_node grad = {.op = kind, .n_in = 2, .in = {dy, node->in[1 - slot]}};
    ir_shape shape = ir_shape_of(graph, node->in[slot]);
    memcpy(grad.i, node->i, 9 * sizeof *grad.i);
    memcpy(grad.i + 9, shape.dim + 2, 2 * sizeof *grad.i);
    return ir_append(graph, &grad);
}

static void grad_conv2d(ir_graph *graph, const ir_node *node,
                        const int32_t *dout, int32_t *din)
{
    din[0] = add_grad(graph, IR_OP_conv2d_data_grad, node, dout[0], 0);
    din[1] = add_grad(graph, IR_OP_conv2d_filter_grad, node, dout[0], 1);
}

const ir_op ir_op_conv2d = {.name = "conv2d",
                            .min_in = 2,
                            .max_in = 2,
                            .n_out = 1,
                            .infer = infer_conv2d,
                            .sbp = sbp_conv2d,
                            .work = work_conv2d,
                            .grad = grad_conv2d};
const ir_op ir_op_conv2d_data_grad = {.name = "conv2d_data_grad",
                                      .min_in = 2,
                                      .max_in = 2,
                                      .n_out = 1,
                                      .infer = infer_data_grad,
                                      .sbp = sbp_data_grad,
                                      .work = work_data_grad};
const ir_op ir_op_conv2d_filter_grad = {.name = "conv2d_filter_grad",
                                        .min_in = 2,
                                        .max_in = 2,
                                        .n_out = 1,
                                        .infer = infer_filter_grad,
                                        .sbp = sbp_filter_grad,
                                        .work = work_filter_grad};
