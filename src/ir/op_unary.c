/* Pointwise ops of one tensor: the functions of functions.def, scale, power,
 * cast, accumulate. flop counts operations and elementary functions. */
#include "config.h"
#include "ir/op_util.h"

#include <string.h>

/* Linear without an offset. */
static void sbp_scale(const ir_node *node, const ir_io *io, fs_arena *arena,
                      ir_sig_list *out)
{
    if (node->f[1] == 0)
        ir_sbp_linear(node, io, arena, out);
    else
        ir_sbp_alike(node, io, arena, out);
}

static void work_1(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 1, out);
}

static void work_2(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 2, out);
}

/* The running sum is read again and written. */
static void work_accumulate(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 1, out);
    out->read_bytes = ir_add_sat(out->read_bytes, out->written_bytes);
}

/* dx = KIND(dy, y or x), with the function's parameters. */
static int32_t add_grad(ir_graph *graph, ir_op_kind kind, const ir_node *node,
                        int32_t dy, int32_t with)
{
    ir_node grad = {.op = kind, .n_in = 2, .in = {dy, with}};
    memcpy(grad.f, node->f, sizeof grad.f);
    return ir_append(graph, &grad);
}

/* Zero almost everywhere: no gradient is the same, for less. */
static void grad_zero(ir_graph *graph, const ir_node *node, const int32_t *dout,
                      int32_t *din)
{
    (void)graph, (void)node, (void)dout, (void)din;
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
    if (node->i[0] < 0 || node->i[0] >= IR_DTYPE_COUNT)
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

#define FIELDS(op, sbp_rule, work_rule, grad_rule)                             \
    .name = #op, .min_in = 1, .max_in = 1, .n_out = 1,                         \
    .infer = ir_infer_alike, .sbp = sbp_rule, .work = work_rule,               \
    .grad = grad_rule
#define UNARY(op, ...) const ir_op ir_op_##op = {FIELDS(op, __VA_ARGS__)}

static int32_t factor_of_scale(const ir_node *node)
{
    return node->f[1] == 0 ? 0 : -1;
}

static double power_of_sqrt(const ir_node *node, int32_t k)
{
    (void)node, (void)k;
    return 0.5;
}

static double power_of_power(const ir_node *node, int32_t k)
{
    (void)k;
    return node->f[0];
}

const ir_op ir_op_scale = {FIELDS(scale, sbp_scale, work_2, grad_scale),
                           .factor = factor_of_scale};
UNARY(exp, ir_sbp_alike, work_1, grad_exp);
UNARY(log, ir_sbp_alike, work_1, grad_log);
const ir_op ir_op_sqrt = {FIELDS(sqrt, ir_sbp_alike, work_1, grad_sqrt),
                          .power = power_of_sqrt};
const ir_op ir_op_power = {FIELDS(power, ir_sbp_alike, work_1, grad_power),
                           .power = power_of_power};
UNARY(accumulate, ir_sbp_linear, work_accumulate, NULL);

/* ---- functions.def ---- */

/* dx is linear in dy, input 0, alone. */
#define UNARY_GRAD(op, work_rule)                                              \
    const ir_op ir_op_##op = {.name = #op,                                     \
                              .min_in = 2,                                     \
                              .max_in = 2,                                     \
                              .n_out = 1,                                      \
                              .infer = ir_infer_alike,                         \
                              .sbp = ir_sbp_linear,                            \
                              .work = work_rule}
#define WORK(name, flop)                                                       \
    static void work_##name(const ir_node *node, const ir_io *io,              \
                            ir_work *out)                                      \
    {                                                                          \
        ir_work_per_element(node, io, flop, out);                              \
    }
#define GRAD(op, slot)                                                         \
    static void grad_##op(ir_graph *graph, const ir_node *node,                \
                          const int32_t *dout, int32_t *din)                   \
    {                                                                          \
        din[0] =                                                               \
            add_grad(graph, IR_OP_##op##_grad, node, dout[0], node->slot[0]);  \
    }
#define FUNCTION_X(op, flop, slope_flop)                                       \
    WORK(op, flop)                                                             \
    WORK(op##_grad, slope_flop)                                                \
    GRAD(op, in) UNARY(op, ir_sbp_alike, work_##op, grad_##op);                \
    UNARY_GRAD(op##_grad, work_##op##_grad);
#define FUNCTION_Y(op, flop, slope_flop)                                       \
    WORK(op, flop)                                                             \
    WORK(op##_grad, slope_flop)                                                \
    GRAD(op, out) UNARY(op, ir_sbp_alike, work_##op, grad_##op);               \
    UNARY_GRAD(op##_grad, work_##op##_grad);
#define FUNCTION_NONE(op, flop, slope_flop)                                    \
    WORK(op, flop)                                                             \
    UNARY(op, ir_sbp_alike, work_##op, grad_zero);
#define IR_FUNCTION(op, takes, flop, slope_flop, ...)                          \
    FUNCTION_##takes(op, flop, slope_flop)
#include "ir/functions.def"
#undef IR_FUNCTION

const ir_op ir_op_cast = {.name = "cast",
                          .moves = true,
                          .min_in = 1,
                          .max_in = 1,
                          .n_out = 1,
                          .infer = infer_cast,
                          .sbp = ir_sbp_linear,
                          .work = ir_work_copy,
                          .grad = grad_cast};
