/* Sums, extremes and products along axes, and the reverse, broadcast_to. */
#include "config.h"
#include "ir/op_util.h"

static bool is_reduced(const ir_node *node, int32_t axis)
{
    return node->i[0] >> axis & 1;
}

static fs_status check_axes(const ir_node *node, const ir_io *io, fs_err *err)
{
    if (node->i[0] < 0 || node->i[0] >> io->in[0].rank != 0)
        return fs_fail(err, FS_INVALID, "an axis to reduce is beyond rank %d",
                       io->in[0].rank);
    return FS_OK;
}

static fs_status infer_reduce(const ir_node *node, ir_io *io, fs_err *err)
{
    if (!ir_dtype_is_number(io->in_dtype[0]))
        return fs_fail(err, FS_INVALID, "input 0 is %s; numbers are wanted",
                       ir_dtype_name(io->in_dtype[0]));
    FS_TRY(check_axes(node, io, err));
    ir_shape shape = {0};
    for (int32_t i = 0; i < io->in[0].rank; i++) {
        if (!is_reduced(node, i))
            shape.dim[shape.rank++] = io->in[0].dim[i];
        else if (node->i[1])
            shape.dim[shape.rank++] = 1;
    }
    io->out[0] = shape;
    io->out_dtype[0] = io->in_dtype[0];
    return FS_OK;
}

/* A kept axis S in, S out. A reduced one S in and `part` out, which tells how
 * the devices' results make the value; B stands for: it must not be cut. */
static void sbp_reduce(const ir_node *node, const ir_io *io, ir_sbp part,
                       fs_arena *arena, ir_sig_list *out)
{
    for (int32_t i = 0, kept = 0; i < io->in[0].rank; i++) {
        const bool reduced = is_reduced(node, i);
        if (!reduced || part.kind != IR_B) {
            ir_sig *sig = ir_sig_add(arena, out);
            sig->in[0] = IR_SBP_S(i);
            sig->out[0] = reduced ? part : IR_SBP_S(kept);
        }
        kept += !reduced || node->i[1];
    }
    if (part.kind == IR_B)
        return;
    ir_sig *sig = ir_sig_add(arena, out);
    sig->in[0] = sig->out[0] = part;
}

static void sbp_reduce_sum(const ir_node *node, const ir_io *io,
                           fs_arena *arena, ir_sig_list *out)
{
    sbp_reduce(node, io, IR_SBP_P, arena, out);
}

static void sbp_reduce_max(const ir_node *node, const ir_io *io,
                           fs_arena *arena, ir_sig_list *out)
{
    sbp_reduce(node, io, IR_SBP_PMAX, arena, out);
}

static void sbp_reduce_min(const ir_node *node, const ir_io *io,
                           fs_arena *arena, ir_sig_list *out)
{
    sbp_reduce(node, io, IR_SBP_PMIN, arena, out);
}

static void sbp_reduce_prod(const ir_node *node, const ir_io *io,
                            fs_arena *arena, ir_sig_list *out)
{
    sbp_reduce(node, io, IR_SBP_B, arena, out);
}

static void work_reduce(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 1, out);
}

/* A tensor of the output's shape with the reduced axes put back, length 1. */
static int32_t with_axes(ir_graph *graph, const ir_node *node, int32_t y)
{
    ir_shape narrow = ir_shape_of(graph, node->in[0]);
    for (int32_t i = 0; i < narrow.rank; i++)
        if (is_reduced(node, i))
            narrow.dim[i] = 1;
    return ir_reshape(graph, y, narrow);
}

static void grad_reduce_sum(ir_graph *graph, const ir_node *node,
                            const int32_t *dout, int32_t *din)
{
    din[0] = ir_broadcast_to(graph, with_axes(graph, node, dout[0]),
                             ir_shape_of(graph, node->in[0]));
}

/* Shared equally among the elements that are the extreme (PyTorch's amax). In
 * parts rather than in one op, so that a reduced axis may be cut: the number
 * of ties is a sum over it. */
static void grad_extreme(ir_graph *graph, const ir_node *node,
                         const int32_t *dout, int32_t *din)
{
    if (node->i[2]) /* what used it does not depend on it */
        return;
    int32_t y = with_axes(graph, node, node->out[0]);
    int32_t dy = with_axes(graph, node, dout[0]);
    int32_t ties = ir_binary(graph, IR_OP_equal, node->in[0], y);
    ties = ir_cast(graph, ties, graph->tensors.at[node->in[0]].dtype);
    int32_t n = ir_reduce_sum(graph, ties, (uint32_t)node->i[0], true);
    int32_t share = ir_binary(graph, IR_OP_div, dy, n);
    din[0] = ir_binary(graph, IR_OP_mul, ties, share);
}

static void grad_reduce_prod(ir_graph *graph, const ir_node *node,
                             const int32_t *dout, int32_t *din)
{
    ir_node grad = {.op = IR_OP_reduce_prod_grad, .n_in = 2};
    grad.in[0] = with_axes(graph, node, dout[0]);
    grad.in[1] = node->in[0];
    grad.i[0] = node->i[0];
    din[0] = ir_append(graph, &grad);
}

/* Input `narrow` is like input `wide` with the reduced axes of length 1. */
static fs_status need_reduced(const ir_node *node, const ir_io *io,
                              int32_t wide, int32_t narrow, fs_err *err)
{
    ir_shape shape = io->in[wide];
    for (int32_t i = 0; i < shape.rank; i++)
        if (is_reduced(node, i))
            shape.dim[i] = 1;
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_dtype(io, 1, err));
    return ir_io_need_shape(io, narrow, &shape, err);
}

static fs_status infer_reduce_prod_grad(const ir_node *node, ir_io *io,
                                        fs_err *err)
{
    FS_TRY(check_axes(node, io, err));
    FS_TRY(need_reduced(node, io, 1, 0, err));
    ir_io_copy(io, 1, 0);
    return FS_OK;
}

static void sbp_reduce_prod_grad(const ir_node *node, const ir_io *io,
                                 fs_arena *arena, ir_sig_list *out)
{
    for (int32_t i = 0; i < io->in[1].rank; i++)
        if (!is_reduced(node, i))
            ir_sig_add_split(arena, out, 3, 1, i);
    ir_sig_add_linear(arena, out, 1, 1);
}

static void work_reduce_prod_grad(const ir_node *node, const ir_io *io,
                                  ir_work *out)
{
    ir_work_moves(node, io, ir_mul_sat(3, ir_shape_count(&io->in[1])), out);
}

static fs_status infer_sum_exp(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(check_axes(node, io, err));
    FS_TRY(need_reduced(node, io, 0, 1, err));
    ir_io_copy(io, 1, 0);
    return FS_OK;
}

static void sbp_sum_exp(const ir_node *node, const ir_io *io, fs_arena *arena,
                        ir_sig_list *out)
{
    for (int32_t i = 0; i < io->in[0].rank; i++) {
        if (!is_reduced(node, i)) {
            ir_sig_add_split(arena, out, 3, 1, i);
            continue;
        }
        ir_sig_add_row(arena, out, IR_SBP_S(i), IR_SBP_B, IR_SBP_P);
    }
}

static void work_sum_exp(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 3, out);
}

static void grad_sum_exp(ir_graph *graph, const ir_node *node,
                         const int32_t *dout, int32_t *din)
{
    int32_t below = ir_binary(graph, IR_OP_sub, node->in[0], node->in[1]);
    int32_t terms = ir_unary(graph, IR_OP_exp, below);
    int32_t back = ir_binary(graph, IR_OP_mul, dout[0], node->out[0]);
    din[0] = ir_binary(graph, IR_OP_mul, terms, dout[0]);
    din[1] = ir_scale(graph, back, -1, 0);
}

static fs_status infer_broadcast_to(const ir_node *node, ir_io *io, fs_err *err)
{
    char a[160], b[160];
    ir_shape wanted, both;
    FS_TRY(ir_attr_shape(node, err, &wanted));
    FS_TRY(ir_shape_broadcast(&io->in[0], &wanted, err, &both));
    if (!ir_shape_equal(&both, &wanted))
        return fs_fail(err, FS_INVALID, "%s does not stretch to %s",
                       ir_shape_text(a, &io->in[0]), ir_shape_text(b, &wanted));
    io->out[0] = wanted;
    io->out_dtype[0] = io->in_dtype[0];
    return FS_OK;
}

static void sbp_broadcast_to(const ir_node *node, const ir_io *io,
                             fs_arena *arena, ir_sig_list *out)
{
    (void)node;
    ir_sig_add_broadcast(io, 1, arena, out);
    ir_sig_add_linear(arena, out, 1, 1);
}

static void grad_broadcast_to(ir_graph *graph, const ir_node *node,
                              const int32_t *dout, int32_t *din)
{
    din[0] = ir_unbroadcast(graph, dout[0], ir_shape_of(graph, node->in[0]));
}

#define REDUCE(op, grad_rule)                                                  \
    const ir_op ir_op_##op = {.name = #op,                                     \
                              .min_in = 1,                                     \
                              .max_in = 1,                                     \
                              .n_out = 1,                                      \
                              .infer = infer_reduce,                           \
                              .sbp = sbp_##op,                                 \
                              .work = work_reduce,                             \
                              .grad = grad_rule}

REDUCE(reduce_sum, grad_reduce_sum);
REDUCE(reduce_max, grad_extreme);
REDUCE(reduce_min, grad_extreme);
REDUCE(reduce_prod, grad_reduce_prod);

const ir_op ir_op_reduce_prod_grad = {.name = "reduce_prod_grad",
                                      .min_in = 2,
                                      .max_in = 2,
                                      .n_out = 1,
                                      .infer = infer_reduce_prod_grad,
                                      .sbp = sbp_reduce_prod_grad,
                                      .work = work_reduce_prod_grad};
const ir_op ir_op_sum_exp = {.name = "sum_exp",
                             .min_in = 2,
                             .max_in = 2,
                             .n_out = 1,
                             .infer = infer_sum_exp,
                             .sbp = sbp_sum_exp,
                             .work = work_sum_exp,
                             .grad = grad_sum_exp};
const ir_op ir_op_broadcast_to = {.name = "broadcast_to",
                                  .moves = true,
                                  .min_in = 1,
                                  .max_in = 1,
                                  .n_out = 1,
                                  .infer = infer_broadcast_to,
                                  .sbp = sbp_broadcast_to,
                                  .work = ir_work_copy,
                                  .grad = grad_broadcast_to};
