/* transpose, slice, pad, concat: re-ordering moves. */
#include "config.h"
#include "ir/op_util.h"

static fs_status infer_transpose(const ir_node *node, ir_io *io, fs_err *err)
{
    int32_t rank = io->in[0].rank;
    uint32_t seen = 0;
    if (node->i[0] != rank)
        return fs_fail(err, FS_INVALID,
                       "permutation of %lld axes for a tensor of rank %d",
                       (long long)node->i[0], rank);
    ir_io_copy(io, 0, 0);
    for (int32_t i = 0; i < rank; i++) {
        int64_t from = node->i[i + 1];
        if (from < 0 || from >= rank || (seen >> from & 1))
            return fs_fail(err, FS_INVALID,
                           "entry %d of the permutation is %lld", i,
                           (long long)from);
        seen |= 1u << from;
        io->out[0].dim[i] = io->in[0].dim[from];
    }
    return FS_OK;
}

static void sbp_transpose(const ir_node *node, const ir_io *io, fs_arena *arena,
                          ir_sig_list *out)
{
    for (int32_t i = 0; i < io->in[0].rank; i++) {
        ir_sig *sig = ir_sig_add(arena, out);
        sig->in[0] = IR_SBP_S(node->i[i + 1]);
        sig->out[0] = IR_SBP_S(i);
    }
    ir_sig_add_linear(arena, out, 1, 1);
}

static void grad_transpose(ir_graph *graph, const ir_node *node,
                           const int32_t *dout, int32_t *din)
{
    int32_t inverse[IR_MAX_RANK];
    for (int32_t i = 0; i < node->i[0]; i++)
        inverse[node->i[i + 1]] = i;
    din[0] = ir_transpose(graph, dout[0], inverse);
}

static fs_status check_axis(const ir_node *node, const ir_io *io, fs_err *err)
{
    if (node->i[0] >= 0 && node->i[0] < io->in[0].rank)
        return FS_OK;
    return fs_fail(err, FS_INVALID, "axis %lld of a tensor of rank %d",
                   (long long)node->i[0], io->in[0].rank);
}

static int64_t step_of(const ir_node *node)
{
    return node->i[3] ? node->i[3] : 1;
}

static int64_t size_of_step(const ir_node *node)
{
    int64_t step = step_of(node);
    return step < 0 ? -step : step;
}

/* From the first element of a slice to its last. */
static bool span_of(const ir_node *node, int64_t length, int64_t *out)
{
    return node->i[3] > -INT64_MAX &&
           !__builtin_mul_overflow(length - 1, size_of_step(node), out);
}

static fs_status infer_slice(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(check_axis(node, io, err));
    int64_t start = node->i[1], length = node->i[2], span = 0;
    int64_t dim = io->in[0].dim[node->i[0]];
    bool fits = start >= 0 && start < dim && length >= 1 &&
                span_of(node, length, &span) &&
                span <= (node->i[3] < 0 ? start : dim - 1 - start);
    if (!fits)
        return fs_fail(err, FS_INVALID,
                       "%lld elements from %lld on by steps of %lld of an axis "
                       "of length %lld",
                       (long long)length, (long long)start,
                       (long long)step_of(node), (long long)dim);
    ir_io_copy(io, 0, 0);
    io->out[0].dim[node->i[0]] = length;
    return FS_OK;
}

/* Any axis but the one the op works on; all inputs alike; linear. */
static void sbp_other_axes(const ir_node *node, const ir_io *io,
                           fs_arena *arena, ir_sig_list *out)
{
    uint32_t all = (1u << node->n_in) - 1;
    for (int32_t i = 0; i < io->in[0].rank; i++)
        if (i != node->i[0])
            ir_sig_add_split(arena, out, all, 1, i);
    ir_sig_add_linear(arena, out, all, 1);
}

static void work_slice(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, 0, out);
    out->read_bytes = out->written_bytes;
}

static void grad_slice(ir_graph *graph, const ir_node *node,
                       const int32_t *dout, int32_t *din)
{
    int32_t axis = (int32_t)node->i[0];
    int64_t dim = ir_shape_of(graph, node->in[0]).dim[axis];
    int64_t span = (node->i[2] - 1) * size_of_step(node);
    int64_t before = node->i[3] < 0 ? node->i[1] - span : node->i[1];
    ir_node grad = {.op = IR_OP_pad,
                    .n_in = 1,
                    .in = {dout[0]},
                    .i = {axis, before, dim - 1 - span - before, node->i[3]}};
    din[0] = ir_append(graph, &grad);
}

static fs_status infer_pad(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(check_axis(node, io, err));
    int64_t dim = 0;
    if (!span_of(node, io->in[0].dim[node->i[0]], &dim) ||
        __builtin_add_overflow(dim, 1, &dim) || node->i[1] < 0 ||
        node->i[2] < 0 || __builtin_add_overflow(dim, node->i[1], &dim) ||
        __builtin_add_overflow(dim, node->i[2], &dim))
        return fs_fail(err, FS_INVALID,
                       "%lld elements before and %lld after are no padding",
                       (long long)node->i[1], (long long)node->i[2]);
    ir_io_copy(io, 0, 0);
    io->out[0].dim[node->i[0]] = dim;
    return FS_OK;
}

static void grad_pad(ir_graph *graph, const ir_node *node, const int32_t *dout,
                     int32_t *din)
{
    int32_t axis = (int32_t)node->i[0];
    int64_t dim = ir_shape_of(graph, node->in[0]).dim[axis];
    int64_t span = (dim - 1) * size_of_step(node);
    din[0] = ir_slice_by(
        graph, dout[0], axis,
        (int64_t[]){node->i[1] + (node->i[3] < 0 ? span : 0), dim, node->i[3]});
}

static fs_status infer_concat(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(check_axis(node, io, err));
    int64_t total = 0;
    for (int32_t k = 0; k < node->n_in; k++) {
        ir_shape part = io->in[k];
        FS_TRY(ir_io_need_dtype(io, k, err));
        FS_TRY(ir_io_need_rank(io, k, io->in[0].rank, io->in[0].rank, err));
        if (__builtin_add_overflow(total, part.dim[node->i[0]], &total))
            return fs_fail(err, FS_INVALID, "the joined axis is too long");
        part.dim[node->i[0]] = io->in[0].dim[node->i[0]];
        if (!ir_shape_equal(&part, &io->in[0]))
            return fs_fail(err, FS_INVALID,
                           "inputs 0 and %d differ beside axis %lld", k,
                           (long long)node->i[0]);
    }
    ir_io_copy(io, 0, 0);
    io->out[0].dim[node->i[0]] = total;
    return FS_OK;
}

static void grad_concat(ir_graph *graph, const ir_node *node,
                        const int32_t *dout, int32_t *din)
{
    int32_t axis = (int32_t)node->i[0];
    int64_t start = 0;
    for (int32_t k = 0; k < node->n_in; k++) {
        int64_t length = ir_shape_of(graph, node->in[k]).dim[axis];
        din[k] = ir_slice(graph, dout[0], axis, start, length);
        start += length;
    }
}

static fs_status infer_trilu(const ir_node *node, ir_io *io, fs_err *err)
{
    (void)node;
    FS_TRY(ir_io_need_rank(io, 0, 2, IR_MAX_RANK, err));
    ir_io_copy(io, 0, 0);
    return FS_OK;
}

static void grad_trilu(ir_graph *graph, const ir_node *node,
                       const int32_t *dout, int32_t *din)
{
    ir_node grad = {.op = IR_OP_trilu,
                    .n_in = 1,
                    .in = {dout[0]},
                    .i = {node->i[0], node->i[1]}};
    din[0] = ir_append(graph, &grad);
}

const ir_op ir_op_trilu = {.name = "trilu",
                           .moves = true,
                           .min_in = 1,
                           .max_in = 1,
                           .n_out = 1,
                           .infer = infer_trilu,
                           .sbp = ir_sbp_linear,
                           .work = ir_work_copy,
                           .grad = grad_trilu};
const ir_op ir_op_transpose = {.name = "transpose",
                               .moves = true,
                               .min_in = 1,
                               .max_in = 1,
                               .n_out = 1,
                               .infer = infer_transpose,
                               .sbp = sbp_transpose,
                               .work = ir_work_copy,
                               .grad = grad_transpose};
const ir_op ir_op_slice = {.name = "slice",
                           .moves = true,
                           .min_in = 1,
                           .max_in = 1,
                           .n_out = 1,
                           .infer = infer_slice,
                           .sbp = sbp_other_axes,
                           .work = work_slice,
                           .grad = grad_slice};
const ir_op ir_op_pad = {.name = "pad",
                         .moves = true,
                         .min_in = 1,
                         .max_in = 1,
                         .n_out = 1,
                         .infer = infer_pad,
                         .sbp = sbp_other_axes,
                         .work = ir_work_copy,
                         .grad = grad_pad};
const ir_op ir_op_concat = {.name = "concat",
                            .moves = true,
                            .min_in = 1,
                            .max_in = IR_MAX_IN,
                            .n_out = 1,
                            .infer = infer_concat,
                            .sbp = sbp_other_axes,
                            .work = ir_work_copy,
                            .grad = grad_concat};
