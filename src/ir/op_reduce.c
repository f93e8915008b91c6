/* reduce_sum and its reverse, broadcast_to. */
#include "config.h"
#include "ir/op_util.h"

static bool is_reduced(const ir_node *node, int32_t axis)
{
    return node->i[0] >> axis & 1;
}

static fs_status infer_reduce_sum(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_float(io, 0, err));
    if (node->i[0] < 0 || node->i[0] >> io->in[0].rank != 0)
        return fs_fail(err, FS_INVALID, "an axis to sum is beyond rank %d",
                       io->in[0].rank);
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

static void sbp_reduce_sum(const ir_node *node, const ir_io *io,
                           fs_arena *arena, ir_sig_list *out)
{
    for (int32_t i = 0, kept = 0; i < io->in[0].rank; i++) {
        ir_sig *sig = ir_sig_add(arena, out);
        sig->in[0] = IR_SBP_S(i);
        sig->out[0] = is_reduced(node, i) ? IR_SBP_P : IR_SBP_S(kept);
        kept += !is_reduced(node, i) || node->i[1];
    }
    ir_sig_add_linear(arena, out, 1, 1);
}

static void work_reduce_sum(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 1, out);
}

static void grad_reduce_sum(ir_graph *graph, const ir_node *node,
                            const int32_t *dout, int32_t *din)
{
    ir_shape wide = ir_shape_of(graph, node->in[0]), narrow = wide;
    for (int32_t i = 0; i < wide.rank; i++)
        if (is_reduced(node, i))
            narrow.dim[i] = 1;
    int32_t dy = ir_reshape(graph, dout[0], narrow);
    din[0] = ir_broadcast_to(graph, dy, wide);
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

const ir_op ir_op_reduce_sum = {.name = "reduce_sum",
                                .min_in = 1,
                                .max_in = 1,
                                .n_out = 1,
                                .infer = infer_reduce_sum,
                                .sbp = sbp_reduce_sum,
                                .work = work_reduce_sum,
                                .grad = grad_reduce_sum};
const ir_op ir_op_broadcast_to = {.name = "broadcast_to",
                                  .min_in = 1,
                                  .max_in = 1,
                                  .n_out = 1,
                                  .infer = infer_broadcast_to,
                                  .sbp = sbp_broadcast_to,
                                  .work = ir_work_copy,
                                  .grad = grad_broadcast_to};
