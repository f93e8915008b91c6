/* add, sub, mul, div, where: pointwise with NumPy broadcasting. */
#include "config.h"
#include "ir/op_util.h"

static fs_status infer_binary(const ir_node *node, ir_io *io, fs_err *err)
{
    (void)node;
    FS_TRY(ir_io_need_dtype(io, 1, err));
    if (io->in_dtype[0] == IR_BOOL)
        return fs_fail(err, FS_INVALID, "inputs are bool; numbers are wanted");
    FS_TRY(ir_shape_broadcast(&io->in[0], &io->in[1], err, &io->out[0]));
    io->out_dtype[0] = io->in_dtype[0];
    return FS_OK;
}

static void sbp_sum(const ir_node *node, const ir_io *io, fs_arena *arena,
                    ir_sig_list *out)
{
    (void)node;
    ir_sig_add_broadcast(io, 2, arena, out);
    ir_sig_add_linear(arena, out, 3, 1);
}

static void sbp_mul(const ir_node *node, const ir_io *io, fs_arena *arena,
                    ir_sig_list *out)
{
    (void)node;
    ir_sig_add_broadcast(io, 2, arena, out);
    ir_sig_add_linear(arena, out, 1, 1);
    ir_sig_add_linear(arena, out, 2, 1);
}

static void sbp_div(const ir_node *node, const ir_io *io, fs_arena *arena,
                    ir_sig_list *out)
{
    (void)node;
    ir_sig_add_broadcast(io, 2, arena, out);
    ir_sig_add_linear(arena, out, 1, 1);
}

static void work_binary(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_moves(node, io, ir_shape_count(&io->out[0]), out);
}

/* Sums dy down to the shape of input `slot`. */
static int32_t down_to(ir_graph *graph, const ir_node *node, int32_t slot,
                       int32_t dy)
{
    return ir_unbroadcast(graph, dy, ir_shape_of(graph, node->in[slot]));
}

static void grad_add(ir_graph *graph, const ir_node *node, const int32_t *dout,
                     int32_t *din)
{
    din[0] = down_to(graph, node, 0, dout[0]);
    din[1] = down_to(graph, node, 1, dout[0]);
}

static void grad_sub(ir_graph *graph, const ir_node *node, const int32_t *dout,
                     int32_t *din)
{
    din[0] = down_to(graph, node, 0, dout[0]);
    din[1] = ir_scale(graph, down_to(graph, node, 1, dout[0]), -1, 0);
}

static void grad_mul(ir_graph *graph, const ir_node *node, const int32_t *dout,
                     int32_t *din)
{
    for (int32_t s = 0; s < 2; s++) {
        int32_t dx = ir_binary(graph, IR_OP_mul, dout[0], node->in[1 - s]);
        din[s] = down_to(graph, node, s, dx);
    }
}

/* y = a / b: da = dy / b, db = -da y. */
static void grad_div(ir_graph *graph, const ir_node *node, const int32_t *dout,
                     int32_t *din)
{
    int32_t da = ir_binary(graph, IR_OP_div, dout[0], node->in[1]);
    int32_t db = ir_binary(graph, IR_OP_mul, da, node->out[0]);
    din[0] = down_to(graph, node, 0, da);
    din[1] = ir_scale(graph, down_to(graph, node, 1, db), -1, 0);
}

static fs_status infer_where(const ir_node *node, ir_io *io, fs_err *err)
{
    ir_shape values;
    (void)node;
    if (io->in_dtype[0] != IR_BOOL)
        return fs_fail(err, FS_INVALID, "input 0 is %s; bool is wanted",
                       ir_dtype_name(io->in_dtype[0]));
    if (io->in_dtype[1] != io->in_dtype[2])
        return fs_fail(err, FS_INVALID, "inputs 1 and 2 are %s and %s",
                       ir_dtype_name(io->in_dtype[1]),
                       ir_dtype_name(io->in_dtype[2]));
    FS_TRY(ir_shape_broadcast(&io->in[1], &io->in[2], err, &values));
    FS_TRY(ir_shape_broadcast(&io->in[0], &values, err, &io->out[0]));
    io->out_dtype[0] = io->in_dtype[1];
    return FS_OK;
}

static void sbp_where(const ir_node *node, const ir_io *io, fs_arena *arena,
                      ir_sig_list *out)
{
    (void)node;
    ir_sig_add_broadcast(io, 3, arena, out);
    ir_sig_add_linear(arena, out, 6, 1);
}

static void grad_where(ir_graph *graph, const ir_node *node,
                       const int32_t *dout, int32_t *din)
{
    ir_dtype dtype = graph->tensors.at[node->out[0]].dtype;
    int32_t zero = ir_fill(graph, (ir_shape){0}, 0);
    zero = ir_cast(graph, zero, dtype);
    int32_t da = ir_where(graph, node->in[0], dout[0], zero);
    int32_t db = ir_where(graph, node->in[0], zero, dout[0]);
    din[1] = down_to(graph, node, 1, da);
    din[2] = down_to(graph, node, 2, db);
}

#define BINARY(op, sbp_rule)                                                   \
    const ir_op ir_op_##op = {.name = #op,                                     \
                              .min_in = 2,                                     \
                              .max_in = 2,                                     \
                              .n_out = 1,                                      \
                              .infer = infer_binary,                           \
                              .sbp = sbp_rule,                                 \
                              .work = work_binary,                             \
                              .grad = grad_##op}

BINARY(add, sbp_sum);
BINARY(sub, sbp_sum);
BINARY(mul, sbp_mul);
BINARY(div, sbp_div);

const ir_op ir_op_where = {.name = "where",
                           .min_in = 3,
                           .max_in = 3,
                           .n_out = 1,
                           .infer = infer_where,
                           .sbp = sbp_where,
                           .work = work_binary,
                           .grad = grad_where};
