/* resample: every place along one axis becomes a weighted sum of places of the
 * input, the weights being known: what resizing by any rule is, axis by axis.
 * Its gradient is the transpose of the same weights. */
#include "config.h"
#include "ir/op_util.h"

static fs_status check_weights(const ir_node *node, const ir_io *io,
                               fs_err *err)
{
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_int(io, 1, err));
    FS_TRY(ir_io_need_rank(io, 1, 2, 2, err));
    FS_TRY(ir_io_need_dtype(io, 2, err));
    FS_TRY(ir_io_need_shape(io, 2, &io->in[1], err));
    if (node->i[0] < 0 || node->i[0] >= io->in[0].rank)
        return fs_fail(err, FS_INVALID, "axis %lld of a tensor of rank %d",
                       (long long)node->i[0], io->in[0].rank);
    return FS_OK;
}

static fs_status infer_resample(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(check_weights(node, io, err));
    ir_io_copy(io, 0, 0);
    io->out[0].dim[node->i[0]] = io->in[1].dim[0];
    return FS_OK;
}

static fs_status infer_resample_grad(const ir_node *node, ir_io *io,
                                     fs_err *err)
{
    FS_TRY(check_weights(node, io, err));
    FS_TRY(ir_attr_check(node, 1, 1, 1, err));
    if (io->in[0].dim[node->i[0]] != io->in[1].dim[0])
        return fs_fail(err, FS_INVALID, "%lld gradients for %lld places",
                       (long long)io->in[0].dim[node->i[0]],
                       (long long)io->in[1].dim[0]);
    ir_io_copy(io, 0, 0);
    io->out[0].dim[node->i[0]] = node->i[1];
    return FS_OK;
}

/* places x, places of the output, weights, output. */
static void add_row(fs_arena *arena, ir_sig_list *out, const ir_sbp row[3])
{
    ir_sig *sig = ir_sig_add(arena, out);
    sig->in[0] = row[0];
    sig->in[1] = sig->in[2] = row[1];
    sig->out[0] = row[2];
}

/* Of the axis, a device may make some places, or hold some and count the
 * others as zero; or take some of the terms of every sum. */
static void sbp_resample(const ir_node *node, const ir_io *io, fs_arena *arena,
                         ir_sig_list *out)
{
    const ir_sbp b = IR_SBP_B, p = IR_SBP_P, s = IR_SBP_S(node->i[0]);
    const ir_sbp s0 = IR_SBP_S(0), s1 = IR_SBP_S(1);
    const bool back = node->op == IR_OP_resample_grad;
    for (int32_t i = 0; i < io->in[0].rank; i++)
        if (i != node->i[0])
            ir_sig_add_split(arena, out, 1, 1, i);
    add_row(arena, out, back ? (ir_sbp[]){s, s0, p} : (ir_sbp[]){b, s0, s});
    add_row(arena, out, back ? (ir_sbp[]){b, b, s} : (ir_sbp[]){s, b, p});
    add_row(arena, out, (ir_sbp[]){b, s1, p});
    ir_sig_add_linear(arena, out, 1, 1);
    ir_sig_add_linear(arena, out, 4, 1);
}

/* A multiply-add per element of the long side and weight. */
static void work_resample(const ir_node *node, const ir_io *io, ir_work *out)
{
    const ir_shape *y = node->op == IR_OP_resample ? &io->out[0] : &io->in[0];
    int64_t taps = ir_mul_sat(2, io->in[1].dim[1]);
    ir_work_moves(node, io, ir_mul_sat(taps, ir_shape_count(y)), out);
}

static int32_t append(ir_graph *g, ir_op_kind op, int32_t x,
                      const ir_node *node)
{
    ir_node made = {.op = op, .n_in = 3, .in = {x, node->in[1], node->in[2]}};
    made.i[0] = node->i[0];
    made.i[1] = node->i[1];
    return ir_append(g, &made);
}

/* x (.., L, ..) -> (L, R): the axis first, the rest as rows. */
static int32_t axis_first(ir_graph *g, int32_t x, int32_t axis)
{
    int32_t perm[IR_MAX_RANK];
    const ir_shape shape = ir_shape_of(g, x);
    ir_shape rows = {.rank = 2};
    if (shape.rank < 0)
        return -1;
    perm[0] = axis;
    for (int32_t i = 1; i < shape.rank; i++)
        perm[i] = i <= axis ? i - 1 : i;
    rows.dim[0] = shape.dim[axis];
    rows.dim[1] = ir_shape_count(&shape) / shape.dim[axis];
    return ir_reshape(g, ir_transpose(g, x, perm), rows);
}

/* Of weight (o, k): the sum over all else of dy at o times x at ids (o, k). */
static int32_t weight_slope(ir_graph *g, const ir_node *node, int32_t dy,
                            int32_t x)
{
    const int32_t axis = (int32_t)node->i[0];
    int32_t places = ir_gather(g, axis_first(g, x, axis), node->in[1]);
    int32_t slopes = axis_first(g, dy, axis);
    ir_shape shape = ir_shape_of(g, slopes);
    if (places < 0 || slopes < 0)
        return -1;
    slopes = ir_reshape(
        g, slopes,
        ir_shape_make(3, (int64_t[]){shape.dim[0], 1, shape.dim[1]}));
    return ir_reduce_sum(g, ir_binary(g, IR_OP_mul, places, slopes), 1u << 2,
                         false);
}

static void grad_resample(ir_graph *graph, const ir_node *node,
                          const int32_t *dout, int32_t *din)
{
    ir_node told = *node;
    told.i[1] = ir_shape_of(graph, node->in[0]).dim[node->i[0]];
    din[0] = append(graph, IR_OP_resample_grad, dout[0], &told);
    din[2] = weight_slope(graph, node, dout[0], node->in[0]);
}

static void grad_resample_grad(ir_graph *graph, const ir_node *node,
                               const int32_t *dout, int32_t *din)
{
    din[0] = append(graph, IR_OP_resample, dout[0], node);
    din[2] = weight_slope(graph, node, node->in[0], dout[0]);
}

const ir_op ir_op_resample = {.name = "resample",
                              .min_in = 3,
                              .max_in = 3,
                              .n_out = 1,
                              .infer = infer_resample,
                              .sbp = sbp_resample,
                              .work = work_resample,
                              .grad = grad_resample};
const ir_op ir_op_resample_grad = {.name = "resample_grad",
                                   .min_in = 3,
                                   .max_in = 3,
                                   .n_out = 1,
                                   .infer = infer_resample_grad,
                                   .sbp = sbp_resample,
                                   .work = work_resample,
                                   .grad = grad_resample_grad};
