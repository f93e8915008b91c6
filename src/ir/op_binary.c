/* Functions of two, and where: pointwise with NumPy broadcasting. */
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

/* ---- extremes ---- */

/* The same extreme of a or b or both is that of the result (max of max), the
 * other of one is too: max(min(a0, a1), b) = min(max(a0, b), max(a1, b)). */
static void add_extremes(fs_arena *arena, ir_sig_list *out, ir_sbp_kind same,
                         ir_sbp_kind other)
{
    const ir_sbp s = {.kind = (uint8_t)same}, o = {.kind = (uint8_t)other};
    ir_sig_add_row(arena, out, s, s, s);
    ir_sig_add_row(arena, out, s, IR_SBP_B, s);
    ir_sig_add_row(arena, out, IR_SBP_B, s, s);
    ir_sig_add_row(arena, out, o, IR_SBP_B, o);
    ir_sig_add_row(arena, out, IR_SBP_B, o, o);
}

static void sbp_max(const ir_node *node, const ir_io *io, fs_arena *arena,
                    ir_sig_list *out)
{
    (void)node;
    ir_sig_add_broadcast(io, 2, arena, out);
    add_extremes(arena, out, IR_PMAX, IR_PMIN);
}

static void sbp_min(const ir_node *node, const ir_io *io, fs_arena *arena,
                    ir_sig_list *out)
{
    (void)node;
    ir_sig_add_broadcast(io, 2, arena, out);
    add_extremes(arena, out, IR_PMIN, IR_PMAX);
}

/* op_grad(dy, a, b) is da, op_grad(dy, b, a) is db. */
static void grad_extreme(ir_graph *graph, const ir_node *node, ir_op_kind grad,
                         const int32_t *dout, int32_t *din)
{
    for (int32_t s = 0; s < 2; s++) {
        const ir_node dx = {.op = grad,
                            .n_in = 3,
                            .in = {dout[0], node->in[s], node->in[1 - s]}};
        din[s] = down_to(graph, node, s, ir_append(graph, &dx));
    }
}

static void grad_max(ir_graph *graph, const ir_node *node, const int32_t *dout,
                     int32_t *din)
{
    grad_extreme(graph, node, IR_OP_max_grad, dout, din);
}

static void grad_min(ir_graph *graph, const ir_node *node, const int32_t *dout,
                     int32_t *din)
{
    grad_extreme(graph, node, IR_OP_min_grad, dout, din);
}

/* ---- remainders, powers, prelu ---- */

static void sbp_broadcast(const ir_node *node, const ir_io *io, fs_arena *arena,
                          ir_sig_list *out)
{
    ir_sig_add_broadcast(io, node->n_in, arena, out);
}

/* y = a - b n, n = (a - y) / b whole: da = dy, db = -dy n. */
static void grad_mod(ir_graph *graph, const ir_node *node, const int32_t *dout,
                     int32_t *din)
{
    int32_t n = ir_binary(graph, IR_OP_sub, node->out[0], node->in[0]);
    n = ir_binary(graph, IR_OP_div, n, node->in[1]);
    din[0] = down_to(graph, node, 0, dout[0]);
    din[1] = down_to(graph, node, 1, ir_binary(graph, IR_OP_mul, dout[0], n));
}

static int32_t zero_of(ir_graph *graph, ir_dtype dtype)
{
    return ir_cast(graph, ir_fill(graph, (ir_shape){0}, 0), dtype);
}

/* `value`, but zero where `x` is. */
static int32_t zero_where_zero(ir_graph *graph, int32_t x, int32_t value)
{
    if (x < 0)
        return -1;
    int32_t zero = zero_of(graph, graph->tensors.at[x].dtype);
    return ir_where(graph, ir_binary(graph, IR_OP_equal, x, zero), zero, value);
}

/* da = dy b a^(b-1), which b = 0 makes 0 also at a = 0; db = dy y log a, which
 * a = 0 makes 0. */
static void grad_pow(ir_graph *graph, const ir_node *node, const int32_t *dout,
                     int32_t *din)
{
    int32_t a = node->in[0], b = node->in[1];
    int32_t da = ir_binary(graph, IR_OP_pow, a, ir_scale(graph, b, 1, -1));
    da = zero_where_zero(graph, b, ir_binary(graph, IR_OP_mul, b, da));
    int32_t db = ir_unary(graph, IR_OP_log, a);
    db = zero_where_zero(graph, a,
                         ir_binary(graph, IR_OP_mul, node->out[0], db));
    da = ir_binary(graph, IR_OP_mul, dout[0], da);
    db = ir_binary(graph, IR_OP_mul, dout[0], db);
    din[0] = down_to(graph, node, 0, da);
    din[1] = down_to(graph, node, 1, db);
}

static fs_status infer_reals(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(ir_io_need_float(io, 0, err));
    return infer_binary(node, io, err);
}

static fs_status infer_prelu(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(infer_reals(node, io, err));
    return ir_io_need_shape(io, 0, &io->out[0], err);
}

static void grad_prelu(ir_graph *graph, const ir_node *node,
                       const int32_t *dout, int32_t *din)
{
    const ir_node dx = {.op = IR_OP_prelu_grad,
                        .n_in = 3,
                        .in = {dout[0], node->in[0], node->in[1]}};
    int32_t zero = zero_of(graph, graph->tensors.at[node->in[0]].dtype);
    int32_t below = ir_binary(graph, IR_OP_min, node->in[0], zero);
    din[0] = ir_append(graph, &dx);
    din[1] =
        down_to(graph, node, 1, ir_binary(graph, IR_OP_mul, dout[0], below));
}

/* dy, a, b -> dx like dy, which a and b broadcast to; linear in dy. */
static fs_status infer_grad(const ir_node *node, ir_io *io, fs_err *err)
{
    ir_shape all;
    (void)node;
    FS_TRY(ir_io_need_float(io, 0, err));
    FS_TRY(ir_io_need_dtype(io, 1, err));
    FS_TRY(ir_io_need_dtype(io, 2, err));
    FS_TRY(ir_shape_broadcast(&io->in[1], &io->in[2], err, &all));
    FS_TRY(ir_io_need_shape(io, 0, &all, err));
    ir_io_copy(io, 0, 0);
    return FS_OK;
}

static void sbp_grad(const ir_node *node, const ir_io *io, fs_arena *arena,
                     ir_sig_list *out)
{
    (void)node;
    ir_sig_add_broadcast(io, 3, arena, out);
    ir_sig_add_linear(arena, out, 1, 1);
}

/* ---- comparisons, bits ---- */

static fs_status infer_equal(const ir_node *node, ir_io *io, fs_err *err)
{
    (void)node;
    FS_TRY(ir_io_need_dtype(io, 1, err));
    FS_TRY(ir_shape_broadcast(&io->in[0], &io->in[1], err, &io->out[0]));
    io->out_dtype[0] = IR_BOOL;
    return FS_OK;
}

static fs_status infer_order(const ir_node *node, ir_io *io, fs_err *err)
{
    FS_TRY(infer_binary(node, io, err));
    io->out_dtype[0] = IR_BOOL;
    return FS_OK;
}

static fs_status infer_bits(const ir_node *node, ir_io *io, fs_err *err)
{
    if (ir_dtype_is_float(io->in_dtype[0]))
        return fs_fail(err, FS_INVALID,
                       "input 0 is %s; bool or an integer is wanted",
                       ir_dtype_name(io->in_dtype[0]));
    FS_TRY(infer_equal(node, io, err));
    io->out_dtype[0] = io->in_dtype[0];
    return FS_OK;
}

/* ---- where ---- */

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
    int32_t zero = zero_of(graph, dtype);
    int32_t da = ir_where(graph, node->in[0], dout[0], zero);
    int32_t db = ir_where(graph, node->in[0], zero, dout[0]);
    din[1] = down_to(graph, node, 1, da);
    din[2] = down_to(graph, node, 2, db);
}

static double power_of_div(const ir_node *node, int32_t k)
{
    (void)node;
    return k == 1 ? -1 : 1;
}

#define FIELDS(op, n, infer_rule, sbp_rule, grad_rule)                         \
    .name = #op, .min_in = n, .max_in = n, .n_out = 1, .infer = infer_rule,    \
    .sbp = sbp_rule, .work = work_binary, .grad = grad_rule
#define POINTWISE(op, ...) const ir_op ir_op_##op = {FIELDS(op, __VA_ARGS__)}
#define COMMUTING(op, ...)                                                     \
    const ir_op ir_op_##op = {FIELDS(op, __VA_ARGS__), .commutes = true}

COMMUTING(add, 2, infer_binary, sbp_sum, grad_add);
POINTWISE(sub, 2, infer_binary, sbp_sum, grad_sub);
COMMUTING(mul, 2, infer_binary, sbp_mul, grad_mul);
const ir_op ir_op_div = {FIELDS(div, 2, infer_binary, sbp_div, grad_div),
                         .power = power_of_div};
POINTWISE(max, 2, infer_binary, sbp_max, grad_max);
POINTWISE(min, 2, infer_binary, sbp_min, grad_min);
POINTWISE(mod, 2, infer_binary, sbp_broadcast, grad_mod);
POINTWISE(pow, 2, infer_reals, sbp_broadcast, grad_pow);
POINTWISE(prelu, 2, infer_prelu, sbp_broadcast, grad_prelu);
POINTWISE(max_grad, 3, infer_grad, sbp_grad, NULL);
POINTWISE(min_grad, 3, infer_grad, sbp_grad, NULL);
POINTWISE(prelu_grad, 3, infer_grad, sbp_grad, NULL);
COMMUTING(equal, 2, infer_equal, sbp_broadcast, NULL);
POINTWISE(less, 2, infer_order, sbp_broadcast, NULL);
POINTWISE(less_equal, 2, infer_order, sbp_broadcast, NULL);
COMMUTING(bit_and, 2, infer_bits, sbp_broadcast, NULL);
COMMUTING(bit_or, 2, infer_bits, sbp_broadcast, NULL);
COMMUTING(bit_xor, 2, infer_bits, sbp_broadcast, NULL);
const ir_op ir_op_where = {.name = "where",
                           .moves = true,
                           .min_in = 3,
                           .max_in = 3,
                           .n_out = 1,
                           .infer = infer_where,
                           .sbp = sbp_where,
                           .work = work_binary,
                           .grad = grad_where};
