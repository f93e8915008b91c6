/* layer_norm over the last axis and its gradients; without centring (i[0] = 1)
 * it is RMS normalisation, whose mean counts as 0. Moments, gain and bias are
 * float where x is of 16 bits. */
#include "config.h"
#include "ir/op_util.h"

/* Input `in` is a vector as long as x's last axis. */
static fs_status check_gain(const ir_io *io, int32_t x, int32_t in, fs_err *err)
{
    FS_TRY(ir_io_need_wide(io, in, err));
    FS_TRY(ir_io_need_rank(io, in, 1, 1, err));
    int64_t wanted = io->in[x].dim[io->in[x].rank - 1];
    if (io->in[in].dim[0] == wanted)
        return FS_OK;
    return fs_fail(err, FS_INVALID, "input %d has %lld elements, not %lld", in,
                   (long long)io->in[in].dim[0], (long long)wanted);
}

/* Input `in` is x's shape with a last axis of 1. */
static fs_status check_moment(const ir_io *io, int32_t x, int32_t in,
                              fs_err *err)
{
    ir_shape wanted = io->in[x];
    wanted.dim[wanted.rank - 1] = 1;
    FS_TRY(ir_io_need_wide(io, in, err));
    return ir_io_need_shape(io, in, &wanted, err);
}

static fs_status infer_layer_norm(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_rank(io, 0, 1, IR_MAX_RANK, err));
    for (int32_t i = 1; i < node->n_in; i++)
        FS_TRY(check_gain(io, 0, i, err));
    ir_io_copy(io, 0, 0);
    for (int32_t i = 1; i < 3; i++) {
        io->out[i] = io->in[0];
        io->out[i].dim[io->in[0].rank - 1] = 1;
        io->out_dtype[i] = ir_dtype_widened(io->in_dtype[0]);
    }
    return FS_OK;
}

static void sbp_layer_norm(const ir_node *node, const ir_io *io,
                           fs_arena *arena, ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 1, 7, io->in[0].rank - 1);
}

/* Two sums, one difference, one product each, then gain and bias. */
static void work_layer_norm(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 7, out);
}

/* dx through y. */
static int32_t grad_of_rows(ir_graph *graph, const ir_node *node, int32_t dy)
{
    ir_node data = {.op = IR_OP_layer_norm_grad,
                    .n_in = 4,
                    .in = {dy, node->in[0], node->out[1], node->out[2]},
                    .i = {node->i[0]}};
    if (node->n_in > 1)
        data.in[data.n_in++] = node->in[1];
    return ir_append(graph, &data);
}

static void grad_of_params(ir_graph *graph, const ir_node *node, int32_t dy,
                           int32_t *din)
{
    ir_node param = {.op = IR_OP_layer_norm_param_grad,
                     .n_in = 4,
                     .in = {dy, node->in[0], node->out[1], node->out[2]}};
    int32_t id = ir_graph_add(graph, &param);
    for (int32_t i = 1; id >= 0 && i < node->n_in; i++)
        din[i] = graph->nodes.at[id].out[i - 1];
}

/* `sum` has x's type; a part may be wider. */
static int32_t add_part(ir_graph *graph, int32_t x, int32_t sum, int32_t part)
{
    if (part >= 0)
        part = ir_cast(graph, part, graph->tensors.at[x].dtype);
    return sum < 0 ? part : ir_binary(graph, IR_OP_add, sum, part);
}

/* Through the moments of n elements: dmean / n, and
 * -drstd rstd^3 (x - mean) / n. */
static int32_t grad_of_moments(ir_graph *graph, const ir_node *node,
                               const int32_t *dout, int32_t sum)
{
    int32_t x = node->in[0], mean = node->out[1], rstd = node->out[2];
    ir_shape shape = ir_shape_of(graph, x);
    double part = 1.0 / (double)shape.dim[shape.rank - 1];
    if (dout[1] >= 0 && !node->i[0]) {
        int32_t dmean = ir_scale(graph, dout[1], part, 0);
        sum = add_part(graph, x, sum, ir_broadcast_to(graph, dmean, shape));
    }
    if (dout[2] >= 0) {
        int32_t cube = ir_scale(graph, ir_power(graph, rstd, 3), -part, 0);
        int32_t slope = ir_binary(graph, IR_OP_mul, dout[2], cube);
        int32_t centred =
            ir_binary(graph, IR_OP_sub, ir_widened(graph, x), mean);
        sum = add_part(graph, x, sum,
                       ir_binary(graph, IR_OP_mul, centred, slope));
    }
    return sum;
}

static void grad_layer_norm(ir_graph *graph, const ir_node *node,
                            const int32_t *dout, int32_t *din)
{
    if (dout[0] >= 0) {
        din[0] = grad_of_rows(graph, node, dout[0]);
        if (node->n_in > 1)
            grad_of_params(graph, node, dout[0], din);
    }
    din[0] = grad_of_moments(graph, node, dout, din[0]);
}

static fs_status infer_data_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_rank(io, 0, 1, IR_MAX_RANK, err));
    FS_TRY(ir_io_need_alike(io, 1, err));
    FS_TRY(check_moment(io, 0, 2, err));
    FS_TRY(check_moment(io, 0, 3, err));
    if (node->n_in > 4)
        FS_TRY(check_gain(io, 0, 4, err));
    ir_io_copy(io, 0, 0);
    return FS_OK;
}

static void sbp_data_grad(const ir_node *node, const ir_io *io, fs_arena *arena,
                          ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 15, 1, io->in[0].rank - 1);
    ir_sig_add_linear(arena, out, 1, 1);
}

static void work_data_grad(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 10, out);
}

static fs_status infer_param_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    (void)node;
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_rank(io, 0, 1, IR_MAX_RANK, err));
    FS_TRY(ir_io_need_alike(io, 1, err));
    FS_TRY(check_moment(io, 0, 2, err));
    FS_TRY(check_moment(io, 0, 3, err));
    ir_shape vector = {.rank = 1, .dim = {io->in[0].dim[io->in[0].rank - 1]}};
    io->out[0] = io->out[1] = vector;
    io->out_dtype[0] = io->out_dtype[1] = ir_dtype_widened(io->in_dtype[0]);
    return FS_OK;
}

static void sbp_param_grad(const ir_node *node, const ir_io *io,
                           fs_arena *arena, ir_sig_list *out)
{
    int32_t last = io->in[0].rank - 1;
    (void)node;
    for (int32_t i = 0; i < last; i++) {
        ir_sig_add_split(arena, out, 15, 0, i);
        ir_sig *sig = &out->at[out->n - 1];
        sig->out[0] = sig->out[1] = IR_SBP_P;
    }
    /* Each element of the gain sums its own column. */
    ir_sig *sig = ir_sig_add(arena, out);
    sig->in[0] = sig->in[1] = IR_SBP_S(last);
    sig->out[0] = sig->out[1] = IR_SBP_S(0);
    ir_sig_add_linear(arena, out, 1, 3);
}

static void work_param_grad(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 5, out);
}

const ir_op ir_op_layer_norm = {.name = "layer_norm",
                                .min_in = 1,
                                .max_in = 3,
                                .n_out = 3,
                                .infer = infer_layer_norm,
                                .sbp = sbp_layer_norm,
                                .work = work_layer_norm,
                                .grad = grad_layer_norm};
const ir_op ir_op_layer_norm_grad = {.name = "layer_norm_grad",
                                     .min_in = 4,
                                     .max_in = 5,
                                     .n_out = 1,
                                     .infer = infer_data_grad,
                                     .sbp = sbp_data_grad,
                                     .work = work_data_grad};
const ir_op ir_op_layer_norm_param_grad = {.name = "layer_norm_param_grad",
                                           .min_in = 4,
                                           .max_in = 4,
                                           .n_out = 2,
                                           .infer = infer_param_grad,
                                           .sbp = sbp_param_grad,
                                           .work = work_param_grad};
