/* Pointwise ops of one tensor, their gradients (dy and y or x), scale, power,
 * cast, accumulate. flop counts operations and elementary functions. */
#include "config.h"
#include "ir/op_util.h"

static fs_status infer_unary(const ir_node *node, ir_io *io, fs_err *err)
{
    (void)node;
    FS_TRY(ir_io_need_float(io, 0, err));
    ir_io_copy(io, 0, 0);
    return FS_OK;
}

static void sbp_unary(const ir_node *node, const ir_io *io, fs_arena *arena,
                      ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 1, 1, 0, io->in[0].rank);
}

/* ... of f with f(a + b) = f(a) + f(b). */
static void sbp_linear(const ir_node *node, const ir_io *io, fs_arena *arena,
                       ir_sig_list *out)
{
    sbp_unary(node, io, arena, out);
    ir_sig_add_linear(arena, out, 1, 1);
}

static void sbp_scale(const ir_node *node, const ir_io *io, fs_arena *arena,
                      ir_sig_list *out)
{
    if (node->f[1] == 0)
        sbp_linear(node, io, arena, out);
    else
        sbp_unary(node, io, arena, out);
}

static fs_status infer_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_alike(io, 1, err));
    return infer_unary(node, io, err);
}

/* dx is linear in dy alone. */
static void sbp_grad(const ir_node *node, const ir_io *io, fs_arena *arena,
                     ir_sig_list *out)
{
    (void)node;
    ir_sig_add_splits(arena, out, 3, 1, 0, io->in[0].rank);
    ir_sig_add_linear(arena, out, 1, 1);
}

static void work_times(const ir_node *node, const ir_io *io, int64_t flop,
                       ir_work *out)
{
    ir_work_moves(node, io, ir_mul_sat(flop, ir_shape_count(&io->out[0])), out);
}

static void work_1(const ir_node *node, const ir_io *io, ir_work *out)
{
    work_times(node, io, 1, out);
}

static void work_2(const ir_node *node, const ir_io *io, ir_work *out)
{
    work_times(node, io, 2, out);
}

static void work_4(const ir_node *node, const ir_io *io, ir_work *out)
{
    work_times(node, io, 4, out);
}

static void work_gelu(const ir_node *node, const ir_io *io, ir_work *out)
{
    work_times(node, io, node->i[0] ? 8 : 5, out);
}

static void work_gelu_grad(const ir_node *node, const ir_io *io, ir_work *out)
{
    work_times(node, io, node->i[0] ? 16 : 11, out);
}

static void work_cast(const ir_node *node, const ir_io *io, ir_work *out)
{
    work_times(node, io, 0, out);
}

/* The running sum is read again and written. */
static void work_accumulate(const ir_node *node, const ir_io *io, ir_work *out)
{
    work_times(node, io, 1, out);
    out->read_bytes = ir_add_sat(out->read_bytes, out->written_bytes);
}

/* dx = KIND_grad(dy, y or x). */
static int32_t add_grad(ir_graph *graph, ir_op_kind kind, const ir_node *node,
                        int32_t dy, int32_t with)
{
    ir_node grad = {.op = kind, .n_in = 2, .in = {dy, with}};
    grad.i[0] = node->i[0];
    return ir_append(graph, &grad);
}

static void grad_relu(ir_graph *graph, const ir_node *node, const int32_t *dout,
                      int32_t *din)
{
    din[0] = add_grad(graph, IR_OP_relu_grad, node, dout[0], node->out[0]);
}

static void grad_sigmoid(ir_graph *graph, const ir_node *node,
                         const int32_t *dout, int32_t *din)
{
    din[0] = add_grad(graph, IR_OP_sigmoid_grad, node, dout[0], node->out[0]);
}

static void grad_tanh(ir_graph *graph, const ir_node *node, const int32_t *dout,
                      int32_t *din)
{
    din[0] = add_grad(graph, IR_OP_tanh_grad, node, dout[0], node->out[0]);
}

static void grad_gelu(ir_graph *graph, const ir_node *node, const int32_t *dout,
                      int32_t *din)
{
    din[0] = add_grad(graph, IR_OP_gelu_grad, node, dout[0], node->in[0]);
}

static void grad_erf(ir_graph *graph, const ir_node *node, const int32_t *dout,
                     int32_t *din)
{
    din[0] = add_grad(graph, IR_OP_erf_grad, node, dout[0], node->in[0]);
}

static void grad_exp(ir_graph *graph, const ir_node *node, const int32_t *dout,
                     int32_t *din)
{
    din[0] = ir_binary(graph, IR_OP_mul, dout[0], node->out[0]);
}

static void grad_log(ir_graph *graph, const ir_node *node, const int32_t *dout,
                     int32_t *din)
{
    din[0] = ir_binary(graph, IR_OP_div, dout[0], node->in[0]);
}

static void grad_sqrt(ir_graph *graph, const ir_node *node, const int32_t *dout,
                      int32_t *din)
{
    int32_t quotient = ir_binary(graph, IR_OP_div, dout[0], node->out[0]);
    din[0] = ir_scale(graph, quotient, 0.5, 0);
}

static void grad_power(ir_graph *graph, const ir_node *node,
                       const int32_t *dout, int32_t *din)
{
    double p = node->f[0];
    int32_t x = node->in[0];
    if (p != 2)
        x = ir_power(graph, x, p - 1);
    din[0] = ir_binary(graph, IR_OP_mul, dout[0], ir_scale(graph, x, p, 0));
}

static void grad_scale(ir_graph *graph, const ir_node *node,
                       const int32_t *dout, int32_t *din)
{
    din[0] = ir_scale(graph, dout[0], node->f[0], 0);
}

static fs_status infer_cast(const ir_node *node, ir_io *io, fs_err *err)
{
    if (node->i[0] < IR_F32 || node->i[0] > IR_BOOL)
        return fs_fail(err, FS_INVALID, "attribute 0 is no element type");
    io->out[0] = io->in[0];
    io->out_dtype[0] = (ir_dtype)node->i[0];
    return FS_OK;
}

static void grad_cast(ir_graph *graph, const ir_node *node, const int32_t *dout,
                      int32_t *din)
{
    ir_dtype dtype = graph->tensors.at[node->in[0]].dtype;
    if (ir_dtype_is_float(dtype))
        din[0] = ir_cast(graph, dout[0], dtype);
}

#define UNARY(op, sbp_rule, work_rule, grad_rule)                              \
    const ir_op ir_op_##op = {.name = #op,                                     \
                              .min_in = 1,                                     \
                              .max_in = 1,                                     \
                              .n_out = 1,                                      \
                              .infer = infer_unary,                            \
                              .sbp = sbp_rule,                                 \
                              .work = work_rule,                               \
                              .grad = grad_rule}
#define UNARY_GRAD(op, work_rule)                                              \
    const ir_op ir_op_##op = {.name = #op,                                     \
                              .min_in = 2,                                     \
                              .max_in = 2,                                     \
                              .n_out = 1,                                      \
                              .infer = infer_grad,                             \
                              .sbp = sbp_grad,                                 \
                              .work = work_rule}

UNARY(scale, sbp_scale, work_2, grad_scale);
UNARY(relu, sbp_unary, work_1, grad_relu);
UNARY(sigmoid, sbp_unary, work_4, grad_sigmoid);
UNARY(tanh, sbp_unary, work_1, grad_tanh);
UNARY(gelu, sbp_unary, work_gelu, grad_gelu);
UNARY(erf, sbp_unary, work_1, grad_erf);
UNARY(exp, sbp_unary, work_1, grad_exp);
UNARY(log, sbp_unary, work_1, grad_log);
UNARY(sqrt, sbp_unary, work_1, grad_sqrt);
UNARY(power, sbp_unary, work_1, grad_power);
UNARY(accumulate, sbp_linear, work_accumulate, NULL);
UNARY_GRAD(relu_grad, work_1);
UNARY_GRAD(sigmoid_grad, work_4);
UNARY_GRAD(tanh_grad, work_4);
UNARY_GRAD(gelu_grad, work_gelu_grad);
UNARY_GRAD(erf_grad, work_4);

const ir_op ir_op_cast = {.name = "cast",
                          .min_in = 1,
                          .max_in = 1,
                          .n_out = 1,
                          .infer = infer_cast,
                          .sbp = sbp_linear,
                          .work = work_cast,
                          .grad = grad_cast};
