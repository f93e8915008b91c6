/* grid_sample: values of planes at places that another tensor tells, and the
 * gradients for the planes and for the places. */
#include "config.h"
#include "ir/op_util.h"

#include <string.h>

enum { MODES = 3, LENGTHS = 3 }; /* attributes: how many, where */

static fs_status check_modes(const ir_node *node, fs_err *err)
{
    static const int64_t most[MODES] = {2, 2, 1};
    for (int32_t k = 0; k < MODES; k++)
        if (node->i[k] < 0 || node->i[k] > most[k])
            return fs_fail(err, FS_INVALID, "attribute %d is %lld", k,
                           (long long)node->i[k]);
    return FS_OK;
}

/* x (N, C, L..) and grid (N, O.., axes of L) go together. */
static fs_status check_grid(const ir_shape *x, const ir_shape *grid,
                            fs_err *err)
{
    char a[160], b[160];
    if (x->rank >= 4 && x->rank <= 5 && grid->rank == x->rank &&
        grid->dim[0] == x->dim[0] && grid->dim[grid->rank - 1] == x->rank - 2)
        return FS_OK;
    return fs_fail(err, FS_INVALID, "planes %s are not sampled by a grid of %s",
                   ir_shape_text(a, x), ir_shape_text(b, grid));
}

static ir_shape sampled(const ir_shape *x, const ir_shape *grid)
{
    ir_shape y = *x;
    for (int32_t k = 2; k < x->rank; k++)
        y.dim[k] = grid->dim[k - 1];
    return y;
}

static fs_status infer_grid_sample(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(check_modes(node, err));
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_dtype(io, 1, err));
    FS_TRY(check_grid(&io->in[0], &io->in[1], err));
    io->out[0] = sampled(&io->in[0], &io->in[1]);
    io->out_dtype[0] = io->in_dtype[0];
    return FS_OK;
}

static fs_status infer_data_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    ir_shape x = io->in[0], y;
    FS_TRY(check_modes(node, err));
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_dtype(io, 1, err));
    FS_TRY(check_grid(&x, &io->in[1], err));
    FS_TRY(ir_attr_check(node, LENGTHS, x.rank - 2, 1, err));
    for (int32_t k = 2; k < x.rank; k++)
        x.dim[k] = node->i[LENGTHS + k - 2];
    y = sampled(&x, &io->in[1]);
    io->out[0] = x;
    io->out_dtype[0] = io->in_dtype[0];
    return ir_io_need_shape(io, 0, &y, err);
}

static fs_status infer_grid_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(check_modes(node, err));
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_dtype(io, 1, err));
    FS_TRY(ir_io_need_dtype(io, 2, err));
    FS_TRY(check_grid(&io->in[1], &io->in[2], err));
    const ir_shape y = sampled(&io->in[1], &io->in[2]);
    ir_io_copy(io, 2, 0);
    return ir_io_need_shape(io, 0, &y, err);
}

/* Samples and channels for themselves, every place for itself. */
static void sbp_grid_sample(const ir_node *node, const ir_io *io,
                            fs_arena *arena, ir_sig_list *out)
{
    const ir_sbp b = IR_SBP_B, p = IR_SBP_P, s0 = IR_SBP_S(0), s1 = IR_SBP_S(1);
    const bool back = node->op == IR_OP_grid_sample_data_grad;
    ir_sig_add_row(arena, out, s0, s0, s0);
    ir_sig_add_row(arena, out, s1, b, s1);
    for (int32_t k = 2; k < io->in[0].rank; k++)
        ir_sig_add_row(arena, out, back ? IR_SBP_S(k) : b, IR_SBP_S(k - 1),
                       back ? p : IR_SBP_S(k));
    ir_sig_add_linear(arena, out, 1, 1);
}

static void sbp_grid_grad(const ir_node *node, const ir_io *io, fs_arena *arena,
                          ir_sig_list *out)
{
    (void)node;
    ir_sig_add_split(arena, out, 7, 1, 0);
    ir_sig *channels = ir_sig_add(arena, out);
    channels->in[0] = channels->in[1] = IR_SBP_S(1);
    channels->out[0] = IR_SBP_P;
    for (int32_t k = 2; k < io->in[0].rank; k++) {
        ir_sig *sig = ir_sig_add(arena, out);
        sig->in[0] = IR_SBP_S(k);
        sig->in[2] = sig->out[0] = IR_SBP_S(k - 1);
    }
    ir_sig_add_linear(arena, out, 1, 1);
    ir_sig_add_linear(arena, out, 2, 1);
}

/* A multiply-add per element of y and per neighbour of a place. */
static void work_grid(const ir_node *node, const ir_io *io, ir_work *out)
{
    const bool forward = node->op == IR_OP_grid_sample;
    const ir_shape *y = forward ? &io->out[0] : &io->in[0];
    const int64_t taps = (int64_t)1 << node->i[0]; /* per axis */
    int64_t flop = ir_mul_sat(2, ir_shape_count(y));
    for (int32_t k = 2; k < y->rank; k++)
        flop = ir_mul_sat(flop, taps);
    ir_work_moves(node, io, flop, out);
}

static int32_t append(ir_graph *g, ir_op_kind op, const ir_node *node,
                      const int32_t in[3])
{
    ir_node made = {.op = op,
                    .n_in = op == IR_OP_grid_sample_grid_grad ? 3 : 2};
    memcpy(made.in, in, (size_t)made.n_in * sizeof *in);
    memcpy(made.i, node->i, MODES * sizeof *made.i);
    return ir_append(g, &made);
}

static void grad_grid_sample(ir_graph *graph, const ir_node *node,
                             const int32_t *dout, int32_t *din)
{
    const int32_t x = node->in[0], grid = node->in[1];
    const ir_shape shape = ir_shape_of(graph, x);
    ir_node data = {
        .op = IR_OP_grid_sample_data_grad, .n_in = 2, .in = {dout[0], grid}};
    memcpy(data.i, node->i, MODES * sizeof *data.i);
    for (int32_t k = 2; k < shape.rank; k++)
        data.i[LENGTHS + k - 2] = shape.dim[k];
    din[0] = ir_append(graph, &data);
    din[1] = append(graph, IR_OP_grid_sample_grid_grad, node,
                    (int32_t[]){dout[0], x, grid});
}

/* dy, grid -> dx */
static void grad_data_grad(ir_graph *graph, const ir_node *node,
                           const int32_t *dout, int32_t *din)
{
    const int32_t dy = node->in[0], grid = node->in[1];
    din[0] =
        append(graph, IR_OP_grid_sample, node, (int32_t[]){dout[0], grid, -1});
    din[1] = append(graph, IR_OP_grid_sample_grid_grad, node,
                    (int32_t[]){dy, dout[0], grid});
}

const ir_op ir_op_grid_sample = {.name = "grid_sample",
                                 .min_in = 2,
                                 .max_in = 2,
                                 .n_out = 1,
                                 .infer = infer_grid_sample,
                                 .sbp = sbp_grid_sample,
                                 .work = work_grid,
                                 .grad = grad_grid_sample};
const ir_op ir_op_grid_sample_data_grad = {.name = "grid_sample_data_grad",
                                           .min_in = 2,
                                           .max_in = 2,
                                           .n_out = 1,
                                           .infer = infer_data_grad,
                                           .sbp = sbp_grid_sample,
                                           .work = work_grid,
                                           .grad = grad_data_grad};
const ir_op ir_op_grid_sample_grid_grad = {.name = "grid_sample_grid_grad",
                                           .min_in = 3,
                                           .max_in = 3,
                                           .n_out = 1,
                                           .infer = infer_grid_grad,
                                           .sbp = sbp_grid_grad,
                                           .work = work_grid};
