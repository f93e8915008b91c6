/* Along one axis: places of extremes, the k best, running sums. The axis stays
 * whole, all others may be cut. */
#include "config.h"
#include "ir/op_util.h"

static fs_status need_number(const ir_io *io, fs_err *err)
{
    if (ir_dtype_is_number(io->in_dtype[0]))
        return FS_OK;
    return fs_fail(err, FS_INVALID, "input 0 is %s; numbers are wanted",
                   ir_dtype_name(io->in_dtype[0]));
}

static fs_status check_axis(const ir_node *node, const ir_io *io, fs_err *err)
{
    if (node->i[0] >= 0 && node->i[0] < io->in[0].rank)
        return FS_OK;
    return fs_fail(err, FS_INVALID, "axis %lld of a tensor of rank %d",
                   (long long)node->i[0], io->in[0].rank);
}

/* Every axis but i[0] cut in all tensors, which have the same axes. */
static void sbp_other_axes(const ir_node *node, const ir_io *io,
                           fs_arena *arena, ir_sig_list *out)
{
    uint32_t ins = (1u << node->n_in) - 1;
    uint32_t outs = (1u << ir_op_table[node->op]->n_out) - 1;
    for (int32_t i = 0; i < io->in[0].rank; i++)
        if (i != node->i[0])
            ir_sig_add_split(arena, out, ins, outs, i);
}

/* Likewise, and linear in input 0. */
static void sbp_other_linear(const ir_node *node, const ir_io *io,
                             fs_arena *arena, ir_sig_list *out)
{
    sbp_other_axes(node, io, arena, out);
    ir_sig_add_linear(arena, out, 1, 1);
}

static void work_1(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 1, out);
}

static fs_status infer_arg_max(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(need_number(io, err));
    FS_TRY(check_axis(node, io, err));
    ir_shape shape = {0};
    for (int32_t i = 0; i < io->in[0].rank; i++) {
        if (i != node->i[0])
            shape.dim[shape.rank++] = io->in[0].dim[i];
        else if (node->i[1])
            shape.dim[shape.rank++] = 1;
    }
    io->out[0] = shape;
    io->out_dtype[0] = IR_I64;
    return FS_OK;
}

static void sbp_arg_max(const ir_node *node, const ir_io *io, fs_arena *arena,
                        ir_sig_list *out)
{
    for (int32_t i = 0, kept = 0; i < io->in[0].rank; i++) {
        const bool reduced = i == node->i[0];
        if (!reduced) {
            ir_sig *sig = ir_sig_add(arena, out);
            sig->in[0] = IR_SBP_S(i);
            sig->out[0] = IR_SBP_S(kept);
        }
        kept += !reduced || node->i[1];
    }
}

static fs_status infer_top_k(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(need_number(io, err));
    FS_TRY(check_axis(node, io, err));
    const int64_t length = io->in[0].dim[node->i[0]];
    if (node->i[1] < 1 || node->i[1] > length)
        return fs_fail(err, FS_INVALID, "the best %lld of %lld",
                       (long long)node->i[1], (long long)length);
    ir_io_copy(io, 0, 0);
    io->out[0].dim[node->i[0]] = node->i[1];
    io->out[1] = io->out[0];
    io->out_dtype[1] = IR_I64;
    return FS_OK;
}

/* A comparison per element, and the order of the best: k log2 k. */
static void work_top_k(const ir_node *node, const ir_io *io, ir_work *out)
{
    int64_t flop = 1;
    for (int64_t k = 1; k < node->i[1]; k *= 2)
        flop++;
    ir_work_per_element(node, io, flop, out);
}

static void grad_top_k(ir_graph *graph, const ir_node *node,
                       const int32_t *dout, int32_t *din)
{
    ir_node grad = {
        .op = IR_OP_top_k_grad, .n_in = 2, .in = {dout[0], node->out[1]}};
    grad.i[0] = node->i[0];
    grad.i[1] = ir_shape_of(graph, node->in[0]).dim[node->i[0]];
    if (dout[0] >= 0)
        din[0] = ir_append(graph, &grad);
}

static fs_status infer_top_k_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_int(io, 1, err));
    FS_TRY(ir_io_need_shape(io, 1, &io->in[0], err));
    FS_TRY(check_axis(node, io, err));
    FS_TRY(ir_attr_check(node, 1, 1, 1, err));
    ir_io_copy(io, 0, 0);
    io->out[0].dim[node->i[0]] = node->i[1];
    return FS_OK;
}

/* Each of the k adds to a place of its own: cut among devices, they make a
 * sum. */
static void sbp_top_k_grad(const ir_node *node, const ir_io *io,
                           fs_arena *arena, ir_sig_list *out)
{
    const ir_sbp cut = IR_SBP_S(node->i[0]);
    sbp_other_linear(node, io, arena, out);
    ir_sig_add_row(arena, out, cut, cut, IR_SBP_P);
}

static fs_status infer_cum_sum(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(need_number(io, err));
    FS_TRY(check_axis(node, io, err));
    ir_io_copy(io, 0, 0);
    return FS_OK;
}

/* dx_i adds up the dy of all sums that x_i is in: the other way round. */
static void grad_cum_sum(ir_graph *graph, const ir_node *node,
                         const int32_t *dout, int32_t *din)
{
    ir_node grad = {.op = IR_OP_cum_sum, .n_in = 1, .in = {dout[0]}};
    grad.i[0] = node->i[0];
    grad.i[1] = node->i[1];
    grad.i[2] = !node->i[2];
    din[0] = ir_append(graph, &grad);
}

const ir_op ir_op_arg_max = {.name = "arg_max",
                             .min_in = 1,
                             .max_in = 1,
                             .n_out = 1,
                             .infer = infer_arg_max,
                             .sbp = sbp_arg_max,
                             .work = work_1};
const ir_op ir_op_top_k = {.name = "top_k",
                           .min_in = 1,
                           .max_in = 1,
                           .n_out = 2,
                           .infer = infer_top_k,
                           .sbp = sbp_other_axes,
                           .work = work_top_k,
                           .grad = grad_top_k};
const ir_op ir_op_top_k_grad = {.name = "top_k_grad",
                                .min_in = 2,
                                .max_in = 2,
                                .n_out = 1,
                                .infer = infer_top_k_grad,
                                .sbp = sbp_top_k_grad,
                                .work = work_1};
const ir_op ir_op_cum_sum = {.name = "cum_sum",
                             .min_in = 1,
                             .max_in = 1,
                             .n_out = 1,
                             .infer = infer_cum_sum,
                             .sbp = sbp_other_linear,
                             .work = work_1,
                             .grad = grad_cum_sum};
