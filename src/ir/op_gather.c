/* gather of table rows and its reverse. */
#include "config.h"
#include "ir/op_util.h"

static fs_status infer_gather(const ir_node *node, ir_io *io, fs_err *err)
{
    (void)node;
    FS_TRY(ir_io_need_rank(io, 0, 1, IR_MAX_RANK, err));
    FS_TRY(ir_io_need_int(io, 1, err));
    ir_shape shape = io->in[1];
    if (shape.rank + io->in[0].rank - 1 > IR_MAX_RANK)
        return fs_fail(err, FS_INVALID, "the result has rank %d; at most %d",
                       shape.rank + io->in[0].rank - 1, IR_MAX_RANK);
    for (int32_t i = 1; i < io->in[0].rank; i++)
        shape.dim[shape.rank++] = io->in[0].dim[i];
    io->out[0] = shape;
    io->out_dtype[0] = io->in_dtype[0];
    return FS_OK;
}

static void sbp_gather(const ir_node *node, const ir_io *io, fs_arena *arena,
                       ir_sig_list *out)
{
    int32_t n_ids = io->in[1].rank;
    (void)node;
    ir_sig_add_splits(arena, out, 2, 1, n_ids);
    /* Rows that a device does not hold count as zero. */
    ir_sig *rows = ir_sig_add(arena, out);
    rows->in[0] = IR_SBP_S(0);
    rows->out[0] = IR_SBP_P;
    for (int32_t i = 1; i < io->in[0].rank; i++) {
        ir_sig *sig = ir_sig_add(arena, out);
        sig->in[0] = IR_SBP_S(i);
        sig->out[0] = IR_SBP_S(n_ids + i - 1);
    }
    ir_sig_add_linear(arena, out, 1, 1);
}

/* Reads the rows asked for, not the table. */
static void work_gather(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, 0, out);
    out->read_bytes = ir_add_sat(ir_shape_bytes(&io->in[1], io->in_dtype[1]),
                                 out->written_bytes);
}

static void grad_gather(ir_graph *graph, const ir_node *node,
                        const int32_t *dout, int32_t *din)
{
    ir_node grad = {
        .op = IR_OP_gather_grad, .n_in = 2, .in = {dout[0], node->in[1]}};
    grad.i[0] = ir_shape_of(graph, node->in[0]).dim[0];
    din[0] = ir_append(graph, &grad);
}

static fs_status infer_gather_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    int32_t n_ids = io->in[1].rank;
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_int(io, 1, err));
    FS_TRY(ir_io_need_rank(io, 0, n_ids, n_ids + IR_MAX_RANK - 1, err));
    for (int32_t i = 0; i < n_ids; i++)
        if (io->in[0].dim[i] != io->in[1].dim[i])
            return fs_fail(
                err, FS_INVALID, "axis %d: %lld gradients for %lld ids", i,
                (long long)io->in[0].dim[i], (long long)io->in[1].dim[i]);
    ir_shape shape = {.rank = 1, .dim = {node->i[0]}};
    for (int32_t i = n_ids; i < io->in[0].rank; i++)
        shape.dim[shape.rank++] = io->in[0].dim[i];
    io->out[0] = shape;
    io->out_dtype[0] = io->in_dtype[0];
    return FS_OK;
}

static void sbp_gather_grad(const ir_node *node, const ir_io *io,
                            fs_arena *arena, ir_sig_list *out)
{
    int32_t n_ids = io->in[1].rank;
    (void)node;
    for (int32_t i = 0; i < n_ids; i++) {
        ir_sig *sig = ir_sig_add(arena, out);
        sig->in[0] = sig->in[1] = IR_SBP_S(i);
        sig->out[0] = IR_SBP_P;
    }
    for (int32_t i = n_ids; i < io->in[0].rank; i++) {
        ir_sig *sig = ir_sig_add(arena, out);
        sig->in[0] = IR_SBP_S(i);
        sig->out[0] = IR_SBP_S(i - n_ids + 1);
    }
    ir_sig_add_linear(arena, out, 1, 1);
    /* Each device adds up the rows that it holds. */
    ir_sig_add(arena, out)->out[0] = IR_SBP_S(0);
}

static void work_gather_grad(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 1, out);
}

static void grad_gather_grad(ir_graph *graph, const ir_node *node,
                             const int32_t *dout, int32_t *din)
{
    din[0] = ir_gather(graph, dout[0], node->in[1]);
}

const ir_op ir_op_gather = {.name = "gather",
                            .min_in = 2,
                            .max_in = 2,
                            .n_out = 1,
                            .infer = infer_gather,
                            .sbp = sbp_gather,
                            .work = work_gather,
                            .grad = grad_gather};
const ir_op ir_op_gather_grad = {.name = "gather_grad",
                                 .min_in = 2,
                                 .max_in = 2,
                                 .n_out = 1,
                                 .infer = infer_gather_grad,
                                 .sbp = sbp_gather_grad,
                                 .work = work_gather_grad,
                                 .grad = grad_gather_grad};
