/* Largest and mean of windows over one to three spatial axes, and their
 * gradients: each sample and channel for itself. */
#include "config.h"
#include "ir/window.h"

#include "ir/op_util.h"

#include <string.h>

static bool is_max(const ir_node *node)
{
    return node->op == IR_OP_max_pool || node->op == IR_OP_max_pool_index ||
           node->op == IR_OP_max_pool_grad;
}

static ir_window window_of(const ir_node *node, int32_t rank)
{
    ir_window window = ir_window_read(node, rank - 2);
    for (int32_t k = 0; k < window.n; k++) {
        window.size[k] = node->i[IR_WINDOW_SIZE + k];
        if (is_max(node))
            window.dilation[k] = node->i[IR_WINDOW_DILATION + k];
    }
    window.ceil = node->i[IR_WINDOW_MODE] & IR_WINDOW_CEIL;
    return window;
}

static fs_status check_attrs(const ir_node *node, const ir_io *io, fs_err *err)
{
    FS_TRY(ir_window_check(node, io, 0, err));
    const int32_t n = io->in[0].rank - 2;
    if (is_max(node))
        FS_TRY(ir_attr_check(node, IR_WINDOW_DILATION, n, 1, err));
    const ir_window w = window_of(node, io->in[0].rank);
    for (int32_t k = 0; k < n; k++) {
        int64_t most = w.before[k] > w.after[k] ? w.before[k] : w.after[k];
        if (most > (w.size[k] - 1) * w.dilation[k])
            return fs_fail(err, FS_INVALID,
                           "padding of %lld leaves windows of %lld empty",
                           (long long)most, (long long)w.size[k]);
    }
    return FS_OK;
}

static fs_status pool_shape(const ir_node *node, const ir_shape *x, fs_err *err,
                            ir_shape *y)
{
    const ir_window window = window_of(node, x->rank);
    *y = *x;
    return ir_window_slide(&window, x, err, y);
}

static fs_status infer_pool(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(check_attrs(node, io, err));
    io->out_dtype[0] =
        node->op == IR_OP_max_pool_index ? IR_I64 : io->in_dtype[0];
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
    int32_t rank = io->in[0].rank;
    FS_TRY(check_attrs(node, io, err));
    FS_TRY(ir_io_need_dtype(io, 1, err));
    FS_TRY(ir_io_need_rank(io, 1, rank, rank, err));
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
    int32_t n = io->in[0].rank - 2;
    FS_TRY(ir_attr_check(node, IR_WINDOW_LENGTH, n, 1, err));
    ir_io_copy(io, 0, 0);
    memcpy(io->out[0].dim + 2, node->i + IR_WINDOW_LENGTH,
           (size_t)n * sizeof *node->i);
    return check_dy(node, io, &io->out[0], err);
}

/* Samples and channels. */
static void sbp_planes(const ir_node *node, fs_arena *arena, ir_sig_list *out)
{
    ir_sig_add_splits(arena, out, (1u << node->n_in) - 1, 1, 2);
}

static void sbp_forward(const ir_node *node, const ir_io *io, fs_arena *arena,
                        ir_sig_list *out)
{
    const ir_window window = window_of(node, io->in[0].rank);
    const ir_shape shape[2] = {io->in[0], io->out[0]};
    sbp_planes(node, arena, out);
    for (int32_t k = 0; k < window.n; k++) {
        ir_sbp x;
        if (!ir_window_x_cut(&window, k, shape, &x))
            continue;
        ir_sig *sig = ir_sig_add(arena, out);
        sig->in[0] = x;
        sig->out[0] = IR_SBP_S(2 + k);
    }
}

/* The largest of several devices' x gives the largest y. */
static void sbp_max(const ir_node *node, const ir_io *io, fs_arena *arena,
                    ir_sig_list *out)
{
    sbp_forward(node, io, arena, out);
    ir_sig *sig = ir_sig_add(arena, out);
    sig->in[0] = sig->out[0] = IR_SBP_PMAX;
}

/* An index counts within the whole plane. */
static void sbp_index(const ir_node *node, const ir_io *io, fs_arena *arena,
                      ir_sig_list *out)
{
    (void)io;
    sbp_planes(node, arena, out);
}

static void sbp_avg(const ir_node *node, const ir_io *io, fs_arena *arena,
                    ir_sig_list *out)
{
    sbp_forward(node, io, arena, out);
    ir_sig_add_linear(arena, out, 1, 1);
}

/* dy, and of the largest also x and y, to dx. */
static void sbp_grad(const ir_node *node, const ir_io *io, fs_arena *arena,
                     ir_sig_list *out)
{
    const ir_window window = window_of(node, io->in[0].rank);
    const ir_shape shape[2] = {io->out[0], io->in[0]};
    sbp_planes(node, arena, out);
    for (int32_t k = 0; k < window.n; k++) {
        ir_sbp y, x;
        if (!ir_window_y_cut(&window, k, shape, &y, is_max(node) ? &x : NULL))
            continue;
        ir_sig *sig = ir_sig_add(arena, out);
        sig->in[0] = y;
        if (is_max(node)) {
            sig->in[1] = x;
            sig->in[2] = y;
        }
        sig->out[0] = IR_SBP_S(2 + k);
    }
    ir_sig_add_linear(arena, out, 1, 1);
}

static bool veto_pool(const ir_node *node, const ir_io *io, const ir_mesh *mesh,
                      const ir_nd_sig *sig)
{
    const ir_window window = window_of(node, io->in[0].rank);
    const ir_window_pieces pieces = {.window = &window,
                                     .mesh = mesh,
                                     .x = io->in[0],
                                     .y = io->out[0],
                                     .x_sbp = &sig->in[0],
                                     .y_sbp = &sig->out[0]};
    return !ir_window_x_holds(&pieces);
}

static bool veto_grad(const ir_node *node, const ir_io *io, const ir_mesh *mesh,
                      const ir_nd_sig *sig)
{
    const ir_window window = window_of(node, io->in[0].rank);
    const ir_window_pieces pieces = {.window = &window,
                                     .mesh = mesh,
                                     .x = io->out[0],
                                     .y = io->in[0],
                                     .x_sbp = is_max(node) ? &sig->in[1] : NULL,
                                     .y_sbp = &sig->in[0]};
    return !ir_window_y_holds(&pieces, &sig->out[0]);
}

/* One operation per element of a window. */
static int64_t pool_flop(const ir_node *node, const ir_shape *y)
{
    int64_t flop = ir_shape_count(y);
    for (int32_t k = 0; k < y->rank - 2; k++)
        flop = ir_mul_sat(flop, node->i[IR_WINDOW_SIZE + k]);
    return flop;
}

static void work_pool(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, pool_flop(node, &io->out[0]), out);
}

static void work_grad(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, pool_flop(node, &io->in[0]), out);
}

static void grad_max_pool(ir_graph *graph, const ir_node *node,
                          const int32_t *dout, int32_t *din)
{
    ir_node grad = {.op = IR_OP_max_pool_grad,
                    .n_in = 3,
                    .in = {dout[0], node->in[0], node->out[0]}};
    memcpy(grad.i, node->i, sizeof grad.i);
    din[0] = ir_append(graph, &grad);
}

static void grad_avg_pool(ir_graph *graph, const ir_node *node,
                          const int32_t *dout, int32_t *din)
{
    ir_node grad = {.op = IR_OP_avg_pool_grad, .n_in = 1, .in = {dout[0]}};
    ir_shape x = ir_shape_of(graph, node->in[0]);
    memcpy(grad.i, node->i, IR_WINDOW_LENGTH * sizeof *grad.i);
    for (int32_t k = 0; k < x.rank - 2; k++)
        grad.i[IR_WINDOW_LENGTH + k] = x.dim[2 + k];
    din[0] = ir_append(graph, &grad);
}

static void grad_avg_pool_grad(ir_graph *graph, const ir_node *node,
                               const int32_t *dout, int32_t *din)
{
    din[0] = ir_pool(graph, IR_OP_avg_pool, dout[0], node->i);
}

const ir_op ir_op_max_pool = {.name = "max_pool",
                              .min_in = 1,
                              .max_in = 1,
                              .n_out = 1,
                              .infer = infer_pool,
                              .sbp = sbp_max,
                              .veto = veto_pool,
                              .work = work_pool,
                              .grad = grad_max_pool};
const ir_op ir_op_max_pool_index = {.name = "max_pool_index",
                                    .min_in = 1,
                                    .max_in = 1,
                                    .n_out = 1,
                                    .infer = infer_pool,
                                    .sbp = sbp_index,
                                    .work = work_pool};
const ir_op ir_op_max_pool_grad = {.name = "max_pool_grad",
                                   .min_in = 3,
                                   .max_in = 3,
                                   .n_out = 1,
                                   .infer = infer_max_grad,
                                   .sbp = sbp_grad,
                                   .veto = veto_grad,
                                   .work = work_grad};
const ir_op ir_op_avg_pool = {.name = "avg_pool",
                              .min_in = 1,
                              .max_in = 1,
                              .n_out = 1,
                              .infer = infer_pool,
                              .sbp = sbp_avg,
                              .veto = veto_pool,
                              .work = work_pool,
                              .grad = grad_avg_pool};
const ir_op ir_op_avg_pool_grad = {.name = "avg_pool_grad",
                                   .min_in = 1,
                                   .max_in = 1,
                                   .n_out = 1,
                                   .infer = infer_avg_grad,
                                   .sbp = sbp_grad,
                                   .veto = veto_grad,
                                   .work = work_grad,
                                   .grad = grad_avg_pool_grad};
