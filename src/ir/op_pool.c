/* max_pool2d, avg_pool2d (NCHW) and their gradients: each sample and channel
 * for itself. */
#include "config.h"
#include "ir/op_util.h"

#include <string.h>

static fs_status check_attrs(const ir_node *node, const ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_rank(io, 0, 4, 4, err));
    FS_TRY(ir_attr_check(node, 0, 2, 1, err));
    FS_TRY(ir_attr_check(node, 2, 4, 0, err));
    FS_TRY(ir_attr_check(node, 6, 2, 1, err));
    for (int32_t k = 0; k < 4; k++)
        if (node->i[2 + k] >= node->i[6 + k % 2])
            return fs_fail(
                err, FS_INVALID, "padding of %lld leaves windows of %lld empty",
                (long long)node->i[2 + k], (long long)node->i[6 + k % 2]);
    return FS_OK;
}

static fs_status pool_shape(const ir_node *node, const ir_shape *x, fs_err *err,
                            ir_shape *y)
{
    *y = *x;
    for (int32_t axis = 0; axis < 2; axis++) {
        int64_t length = x->dim[2 + axis], window = node->i[6 + axis];
        int64_t room = node->i[2 + axis] + node->i[4 + axis] - window;
        if (__builtin_add_overflow(room, length, &room) || room < 0)
            return fs_fail(err, FS_INVALID,
                           "a window of %lld does not fit into %lld elements",
                           (long long)window, (long long)length);
        y->dim[2 + axis] = room / node->i[axis] + 1;
    }
    return FS_OK;
}

static fs_status infer_pool(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(check_attrs(node, io, err));
    io->out_dtype[0] = io->in_dtype[0];
    return pool_shape(node, &io->in[0], err, &io->out[0]);
}

/* dy must be what pooling x gives. */
static fs_status check_dy(const ir_node *node, const ir_io *io,
                          const ir_shape *x, fs_err *err)
{
    ir_shape wanted;
    FS_TRY(pool_shape(node, x, err, &wanted));
    return ir_io_need_shape(io, 0, &wanted, err);
}

static fs_status infer_max_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    char a[160], b[160];
    FS_TRY(check_attrs(node, io, err));
    FS_TRY(ir_io_need_dtype(io, 1, err));
    FS_TRY(ir_io_need_rank(io, 1, 4, 4, err));
    FS_TRY(ir_io_need_dtype(io, 2, err));
    if (!ir_shape_equal(&io->in[2], &io->in[0]))
        return fs_fail(err, FS_INVALID, "dy is %s, y is %s",
                       ir_shape_text(a, &io->in[0]),
                       ir_shape_text(b, &io->in[2]));
    ir_io_copy(io, 1, 0);
    return check_dy(node, io, &io->in[1], err);
}

static fs_status infer_avg_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(check_attrs(node, io, err));
    FS_TRY(ir_attr_check(node, 9, 2, 1, err));
    ir_io_copy(io, 0, 0);
    memcpy(io->out[0].dim + 2, node->i + 9, 2 * sizeof *node->i);
    return check_dy(node, io, &io->out[0], err);
}

static void sbp_max(const ir_node *node, const ir_io *io, fs_arena *arena,
                    ir_sig_list *out)
{
    (void)node, (void)io;
    ir_sig_add_splits(arena, out, 1, 1, 2);
}

static void sbp_avg(const ir_node *node, const ir_io *io, fs_arena *arena,
                    ir_sig_list *out)
{
    sbp_max(node, io, arena, out);
    ir_sig_add_linear(arena, out, 1, 1);
}

static void sbp_max_grad(const ir_node *node, const ir_io *io, fs_arena *arena,
                         ir_sig_list *out)
{
    (void)node, (void)io;
    ir_sig_add_splits(arena, out, 7, 1, 2);
    ir_sig_add_linear(arena, out, 1, 1);
}

/* One operation per element of a window. */
static int64_t pool_flop(const ir_node *node, const ir_shape *y)
{
    return ir_mul_sat(ir_mul_sat(node->i[6], node->i[7]), ir_shape_count(y));
}

static void work_pool(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, pool_flop(node, &io->out[0]), out);
}

static void work_pool_grad(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, pool_flop(node, &io->in[0]), out);
}

static void grad_max_pool2d(ir_graph *graph, const ir_node *node,
                            const int32_t *dout, int32_t *din)
{
    ir_node grad = {.op = IR_OP_max_pool2d_grad,
                    .n_in = 3,
                    .in = {dout[0], node->in[0], node->out[0]}};
    memcpy(grad.i, node->i, sizeof grad.i);
    din[0] = ir_append(graph, &grad);
}

static void grad_avg_pool2d(ir_graph *graph, const ir_node *node,
                            const int32_t *dout, int32_t *din)
{
    ir_node grad = {.op = IR_OP_avg_pool2d_grad, .n_in = 1, .in = {dout[0]}};
    ir_shape x = ir_shape_of(graph, node->in[0]);
    memcpy(grad.i, node->i, 9 * sizeof *grad.i);
    memcpy(grad.i + 9, x.dim + 2, 2 * sizeof *grad.i);
    din[0] = ir_append(graph, &grad);
}

const ir_op ir_op_max_pool2d = {.name = "max_pool2d",
                                .min_in = 1,
                                .max_in = 1,
                                .n_out = 1,
                                .infer = infer_pool,
                                .sbp = sbp_max,
                                .work = work_pool,
                                .grad = grad_max_pool2d};
const ir_op ir_op_max_pool2d_grad = {.name = "max_pool2d_grad",
                                     .min_in = 3,
                                     .max_in = 3,
                                     .n_out = 1,
                                     .infer = infer_max_grad,
                                     .sbp = sbp_max_grad,
                                     .work = work_pool_grad};
const ir_op ir_op_avg_pool2d = {.name = "avg_pool2d",
                                .min_in = 1,
                                .max_in = 1,
                                .n_out = 1,
                                .infer = infer_pool,
                                .sbp = sbp_avg,
                                .work = work_pool,
                                .grad = grad_avg_pool2d};
const ir_op ir_op_avg_pool2d_grad = {.name = "avg_pool2d_grad",
                                     .min_in = 1,
                                     .max_in = 1,
                                     .n_out = 1,
                                     .infer = infer_avg_grad,
                                     .sbp = sbp_avg,
                                     .work = work_pool_grad};
