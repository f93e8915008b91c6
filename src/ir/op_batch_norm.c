/* Batch normalisation in parts that a cut batch can synchronise between:
 * sums of x (reduce_sum) and of squares around their mean (centred_square) are
 * partial where the batch or space is cut; the rest works element by element
 * on per-channel vectors that every device then has. Channels are axis 1. With
 * 2 C numbers reduced, batch_norm and (after reducing dgain, dbias)
 * batch_norm_grad take any cut. Vectors are float where x is of 16 bits. */
#include "config.h"
#include "ir/op_util.h"

/* Inputs first .. last are vectors as long as x's axis 1. */
static fs_status check_vectors(const ir_io *io, int32_t first, int32_t last,
                               fs_err *err)
{
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_rank(io, 0, 2, IR_MAX_RANK, err));
    ir_shape wanted = {.rank = 1, .dim = {io->in[0].dim[1]}};
    for (int32_t i = first; i <= last; i++) {
        FS_TRY(ir_io_need_wide(io, i, err));
        FS_TRY(ir_io_need_shape(io, i, &wanted, err));
    }
    return FS_OK;
}

/* Inputs of mask `wide` are like x, the others per channel; outputs are like
 * x, or (`sums`) sums per channel, partial where another axis is cut. */
static void add_splits(const ir_node *node, const ir_io *io, uint32_t wide,
                       bool sums, fs_arena *arena, ir_sig_list *out)
{
    int32_t n_out = ir_op_table[node->op]->n_out;
    for (int32_t axis = 0; axis < io->in[0].rank; axis++) {
        ir_sig *sig = ir_sig_add(arena, out);
        for (int32_t i = 0; i < node->n_in; i++)
            if (wide >> i & 1)
                sig->in[i] = IR_SBP_S(axis);
            else if (axis == 1)
                sig->in[i] = IR_SBP_S(0);
        for (int32_t i = 0; i < n_out; i++)
            sig->out[i] = !sums       ? IR_SBP_S(axis)
                          : axis == 1 ? IR_SBP_S(0)
                                      : IR_SBP_P;
    }
}

/* x (C,) as (C, 1, ..), to stretch over x. */
static int32_t over_channels(ir_graph *graph, int32_t vector, int32_t like)
{
    ir_shape shape = ir_shape_of(graph, like);
    if (vector < 0 || shape.rank < 2)
        return -1;
    ir_shape wanted = {.rank = shape.rank - 1, .dim = {shape.dim[1]}};
    for (int32_t i = 1; i < wanted.rank; i++)
        wanted.dim[i] = 1;
    return ir_reshape(graph, vector, wanted);
}

/* ---- centred_square ---- */

static fs_status infer_centred_square(const ir_node *node, ir_io *io,
                                      fs_err *err)
{
    (void)node;
    FS_TRY(check_vectors(io, 1, 1, err));
    ir_io_copy(io, 1, 0);
    return FS_OK;
}

static void sbp_centred_square(const ir_node *node, const ir_io *io,
                               fs_arena *arena, ir_sig_list *out)
{
    add_splits(node, io, 1, true, arena, out);
}

static void work_centred_square(const ir_node *node, const ir_io *io,
                                ir_work *out)
{
    ir_work_per_element(node, io, 3, out);
}

static void grad_centred_square(ir_graph *graph, const ir_node *node,
                                const int32_t *dout, int32_t *din)
{
    int32_t x = node->in[0];
    int32_t mean = over_channels(graph, node->in[1], x);
    int32_t centred = ir_binary(graph, IR_OP_sub, ir_widened(graph, x), mean);
    int32_t dsum = over_channels(graph, dout[0], x);
    int32_t dx =
        ir_scale(graph, ir_binary(graph, IR_OP_mul, centred, dsum), 2, 0);
    uint32_t others = ((1u << ir_shape_of(graph, x).rank) - 1) & ~2u;
    din[0] = ir_cast(graph, dx, graph->tensors.at[x].dtype);
    din[1] = ir_scale(graph, ir_reduce_sum(graph, dx, others, false), -1, 0);
}

/* ---- batch_norm ---- */

static fs_status infer_batch_norm(const ir_node *node, ir_io *io, fs_err *err)
{
    (void)node;
    FS_TRY(check_vectors(io, 1, 4, err));
    ir_io_copy(io, 0, 0);
    return FS_OK;
}

static void sbp_batch_norm(const ir_node *node, const ir_io *io,
                           fs_arena *arena, ir_sig_list *out)
{
    add_splits(node, io, 1, false, arena, out);
    ir_sig_add_linear(arena, out, 1 | 4 | 8, 1); /* x, bias and mean */
}

static void work_batch_norm(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 3, out);
}

/* With h = (x - mean) rstd: dgain = sum(dy h), dbias = sum(dy). */
static void grad_moments(ir_graph *graph, const ir_node *node, int32_t *din)
{
    int32_t gain = node->in[1], var = node->in[4];
    int32_t rstd = ir_power(graph, ir_scale(graph, var, 1, node->f[0]), -0.5);
    int32_t slope = ir_binary(graph, IR_OP_mul, gain, rstd);
    int32_t curve = ir_binary(graph, IR_OP_mul, slope, rstd);
    din[3] = ir_scale(graph, ir_binary(graph, IR_OP_mul, slope, din[2]), -1, 0);
    din[4] =
        ir_scale(graph, ir_binary(graph, IR_OP_mul, curve, din[1]), -0.5, 0);
}

static void grad_batch_norm(ir_graph *graph, const ir_node *node,
                            const int32_t *dout, int32_t *din)
{
    int32_t x = node->in[0], mean = node->in[3], var = node->in[4];
    ir_shape shape = ir_shape_of(graph, x);
    ir_node sums = {.op = IR_OP_batch_norm_param_grad,
                    .n_in = 4,
                    .in = {dout[0], x, mean, var},
                    .f = {node->f[0]}};
    ir_node data = {.op = IR_OP_batch_norm_grad,
                    .n_in = 3,
                    .in = {dout[0], node->in[1], var, x, mean},
                    .f = {node->f[0]}};
    int32_t id = ir_graph_add(graph, &sums);
    if (id < 0)
        return;
    din[1] = graph->nodes.at[id].out[0];
    din[2] = graph->nodes.at[id].out[1];
    if (node->i[0]) {
        data.n_in = 7;
        data.in[5] = din[1];
        data.in[6] = din[2];
        data.f[1] = (double)shape.dim[1] / (double)ir_shape_count(&shape);
    } else {
        grad_moments(graph, node, din);
    }
    din[0] = ir_append(graph, &data);
}

/* ---- gradients ---- */

static fs_status infer_data_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    if (node->n_in != 3 && node->n_in != 7)
        return fs_fail(err, FS_INVALID, "%d inputs; 3 or 7 are wanted",
                       node->n_in);
    FS_TRY(check_vectors(io, 1, 2, err));
    if (node->n_in == 7) {
        FS_TRY(ir_io_need_alike(io, 3, err));
        FS_TRY(check_vectors(io, 4, 6, err));
    }
    ir_io_copy(io, 0, 0);
    return FS_OK;
}

static void sbp_data_grad(const ir_node *node, const ir_io *io, fs_arena *arena,
                          ir_sig_list *out)
{
    bool full = node->n_in == 7;
    add_splits(node, io, full ? 1 | 8 : 1, false, arena, out);
    ir_sig_add_linear(arena, out, full ? 1 | 32 | 64 : 1, 1);
}

static void work_data_grad(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, node->n_in == 7 ? 6 : 1, out);
}

static fs_status infer_param_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    (void)node;
    FS_TRY(check_vectors(io, 2, 3, err));
    FS_TRY(ir_io_need_alike(io, 1, err));
    ir_io_copy(io, 2, 0);
    ir_io_copy(io, 2, 1);
    return FS_OK;
}

static void sbp_param_grad(const ir_node *node, const ir_io *io,
                           fs_arena *arena, ir_sig_list *out)
{
    add_splits(node, io, 3, true, arena, out);
    ir_sig_add_linear(arena, out, 1, 3);
}

static void work_param_grad(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 5, out);
}

const ir_op ir_op_centred_square = {.name = "centred_square",
                                    .min_in = 2,
                                    .max_in = 2,
                                    .n_out = 1,
                                    .infer = infer_centred_square,
                                    .sbp = sbp_centred_square,
                                    .work = work_centred_square,
                                    .grad = grad_centred_square};
const ir_op ir_op_batch_norm = {.name = "batch_norm",
                                .min_in = 5,
                                .max_in = 5,
                                .n_out = 1,
                                .infer = infer_batch_norm,
                                .sbp = sbp_batch_norm,
                                .work = work_batch_norm,
                                .grad = grad_batch_norm};
const ir_op ir_op_batch_norm_grad = {.name = "batch_norm_grad",
                                     .min_in = 3,
                                     .max_in = 7,
                                     .n_out = 1,
                                     .infer = infer_data_grad,
                                     .sbp = sbp_data_grad,
                                     .work = work_data_grad};
const ir_op ir_op_batch_norm_param_grad = {.name = "batch_norm_param_grad",
                                           .min_in = 4,
                                           .max_in = 4,
                                           .n_out = 2,
                                           .infer = infer_param_grad,
                                           .sbp = sbp_param_grad,
                                           .work = work_param_grad};
