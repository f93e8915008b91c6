/* Importing what works element by element: functions of one, of two, of many,
 * clip, where, casts. Integers go through f64 where a function has no integer
 * kernel: exact below 2^53. */
#include "config.h"
#include "onnx/operators.h"

#include <math.h>
#include <string.h>

/* ---- functions of one ---- */

/* y = node(x), of f64 for integers. */
static fs_status set_function(onnx_ctx *c, ir_node node)
{
    ir_graph *g = c->graph;
    int32_t x = onnx_in(c, 0);
    if (x < 0)
        return FS_INVALID;
    ir_dtype dtype = g->tensors.at[x].dtype;
    bool real = ir_dtype_is_float(dtype);
    node.n_in = 1;
    node.in[0] = real ? x : ir_cast(g, x, IR_F64);
    int32_t y = ir_append(g, &node);
    return onnx_set(c, 0, real ? y : ir_cast(g, y, dtype));
}

/* Attributes of functions, and what they are without them. */
static const struct {
    ir_op_kind op;
    const char *attr[2];
    double usual[2];
} parameters[] = {
    {IR_OP_leaky_relu, {"alpha"}, {0.01}},
    {IR_OP_thresholded_relu, {"alpha"}, {1}},
    {IR_OP_hard_sigmoid, {"alpha", "beta"}, {0.2, 0.5}},
    {IR_OP_shrink, {"lambd", "bias"}, {0.5, 0}},
};

fs_status onnx_import_unary(onnx_ctx *c)
{
    ir_node node = {.op = (ir_op_kind)c->arg};
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        for (int32_t k = 0; k < 2 && parameters[i].op == node.op; k++)
            if (parameters[i].attr[k])
                node.f[k] = onnx_attr_real(c, parameters[i].attr[k],
                                           parameters[i].usual[k]);
    return set_function(c, node);
}

/* elu, selu and celu: x > 0 ? f[1] x : f[0] (exp(f[2] x) - 1). */
fs_status onnx_import_elu(onnx_ctx *c)
{
    bool selu = c->arg == ONNX_SELU;
    double alpha = onnx_attr_real(c, "alpha", selu ? 1.6732632423543772 : 1);
    double gamma = onnx_attr_real(c, "gamma", selu ? 1.0507009873554805 : 1);
    if (c->arg == ONNX_CELU && alpha == 0)
        return onnx_fail(c, "its alpha is 0");
    return set_function(c,
                        (ir_node){.op = IR_OP_elu,
                                  .f = {alpha * gamma, gamma,
                                        c->arg == ONNX_CELU ? 1 / alpha : 1}});
}

/* x sigmoid(alpha x) = silu(alpha x) / alpha. */
fs_status onnx_import_swish(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    double alpha = onnx_attr_real(c, "alpha", 1);
    int32_t x = onnx_in(c, 0);
    if (alpha == 1)
        return onnx_set(c, 0, ir_unary(g, IR_OP_silu, x));
    if (alpha == 0)
        return onnx_set(c, 0, ir_scale(g, x, 0.5, 0));
    int32_t y = ir_unary(g, IR_OP_silu, ir_scale(g, x, alpha, 0));
    return onnx_set(c, 0, ir_scale(g, y, 1 / alpha, 0));
}

fs_status onnx_import_gelu(onnx_ctx *c)
{
    bool tanh_form =
        strcmp(onnx_attr_text(c, "approximate", "none"), "tanh") == 0;
    c->arg = tanh_form ? IR_OP_gelu_tanh : IR_OP_gelu;
    return onnx_import_unary(c);
}

/* A constant of the type of tensor x. */
static int32_t number_like(onnx_ctx *c, int32_t x, double value)
{
    if (x < 0)
        return -1;
    return ir_number(c->graph, c->graph->tensors.at[x].dtype, value);
}

static bool is_float(const onnx_ctx *c, int32_t x)
{
    return x < 0 || ir_dtype_is_float(c->graph->tensors.at[x].dtype);
}

/* -x, |x|, relu(x) and 1 / x; of integers by their own arithmetic. */
fs_status onnx_import_neg(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    int32_t x = onnx_in(c, 0);
    if (is_float(c, x))
        return onnx_set(c, 0, ir_scale(g, x, -1, 0));
    return onnx_set(c, 0, ir_binary(g, IR_OP_sub, number_like(c, x, 0), x));
}

fs_status onnx_import_abs(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    int32_t x = onnx_in(c, 0);
    if (is_float(c, x))
        return onnx_set(c, 0, ir_unary(g, IR_OP_abs, x));
    int32_t minus = ir_binary(g, IR_OP_sub, number_like(c, x, 0), x);
    return onnx_set(c, 0, ir_binary(g, IR_OP_max, x, minus));
}

fs_status onnx_import_relu(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    int32_t x = onnx_in(c, 0);
    if (is_float(c, x))
        return onnx_set(c, 0, ir_unary(g, IR_OP_relu, x));
    return onnx_set(c, 0, ir_binary(g, IR_OP_max, x, number_like(c, x, 0)));
}

fs_status onnx_import_reciprocal(onnx_ctx *c)
{
    return onnx_set(c, 0, ir_power(c->graph, onnx_in(c, 0), -1));
}

/* Of a bool or an integer: its bits turned over. */
fs_status onnx_import_not(onnx_ctx *c)
{
    int32_t x = onnx_in(c, 0);
    if (x < 0)
        return FS_INVALID;
    bool flag = c->graph->tensors.at[x].dtype == IR_BOOL;
    return onnx_set(c, 0,
                    ir_binary(c->graph, IR_OP_bit_xor, x,
                              number_like(c, x, flag ? 1 : -1)));
}

/* x times, or divided by, a power of two that is looked up. */
fs_status onnx_import_bit_shift(onnx_ctx *c)
{
    enum { MOST = 63 }; /* of int64_t */
    ir_graph *g = c->graph;
    const char *way = onnx_attr_text(c, "direction", "");
    const bool left = strcmp(way, "LEFT") == 0;
    const int64_t n = MOST;
    if (!left && strcmp(way, "RIGHT") != 0)
        return onnx_fail(c, "direction \"%.80s\" is unknown", way);
    int64_t *powers = fs_new(c->arena, int64_t, MOST);
    for (int i = 0; i < MOST; i++)
        powers[i] = (int64_t)1 << i;
    const int32_t x = onnx_in(c, 0), by = onnx_in(c, 1);
    ir_node look_up = {.op = IR_OP_gather, .n_in = 2, .i = {MOST}};
    look_up.in[0] = ir_constant(g, fs_printf(c->arena, "%s/powers", g->scope),
                                IR_I64, ir_shape_make(1, &n), powers);
    look_up.in[1] = by;
    if (x < 0 || by < 0)
        return FS_INVALID;
    const int32_t power =
        ir_cast(g, ir_append(g, &look_up), g->tensors.at[x].dtype);
    return onnx_set(c, 0, ir_binary(g, left ? IR_OP_mul : IR_OP_div, x, power));
}

/* Only a NaN differs from itself. */
fs_status onnx_import_is_nan(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    int32_t x = onnx_in(c, 0), same = ir_binary(g, IR_OP_equal, x, x);
    return onnx_set(c, 0,
                    ir_binary(g, IR_OP_bit_xor, same, number_like(c, same, 1)));
}

fs_status onnx_import_is_inf(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    bool below = onnx_attr_int(c, "detect_negative", 1) != 0;
    bool above = onnx_attr_int(c, "detect_positive", 1) != 0;
    int32_t x = onnx_in(c, 0);
    if (!below && !above) {
        int32_t none = ir_fill(g, ir_shape_of(g, x), 0);
        return onnx_set(c, 0, ir_cast(g, none, IR_BOOL));
    }
    if (below && above)
        x = ir_unary(g, IR_OP_abs, x);
    int32_t limit = number_like(c, x, above ? INFINITY : -INFINITY);
    return onnx_set(c, 0, ir_binary(g, IR_OP_equal, x, limit));
}

/* ---- functions of two ---- */

/* Is input i a known number that does not change the other's shape? */
static bool is_number(onnx_ctx *c, int32_t i, int32_t other, double *out)
{
    onnx_value *value = onnx_value_of(c, i), *with = onnx_value_of(c, other);
    if (!value || !with || !value->is_known || value->tensor >= 0 ||
        onnx_const_count(&value->known) != 1 || with->is_known)
        return false;
    ir_shape shape;
    if (onnx_shape(c, other, &shape) != FS_OK ||
        value->known.shape.rank > shape.rank ||
        !ir_dtype_is_float(onnx_dtype_of(c, other)))
        return false;
    *out = onnx_const_real(&value->known, 0);
    return true;
}

/* x with a number on its right, or (`left`) on its left. */
static int32_t with_number(onnx_ctx *c, int32_t x, double a, bool left)
{
    ir_graph *g = c->graph;
    switch ((ir_op_kind)c->arg) {
    case IR_OP_add:
        return ir_scale(g, x, 1, a);
    case IR_OP_sub:
        return left ? ir_scale(g, x, -1, a) : ir_scale(g, x, 1, -a);
    case IR_OP_mul:
        return ir_scale(g, x, a, 0);
    default:
        return left ? ir_scale(g, ir_power(g, x, -1), a, 0)
                    : ir_scale(g, x, 1 / a, 0);
    }
}

/* Before opset 7 the axes of b start at `axis` of a: 1s are put after them. */
static int32_t legacy_operand(onnx_ctx *c, int32_t a, int32_t b)
{
    ir_shape wide = ir_shape_of(c->graph, a), own = ir_shape_of(c->graph, b);
    int64_t axis = onnx_attr_int(c, "axis", wide.rank - own.rank);
    if (c->opset >= 7 || own.rank < 1 || axis < 0 ||
        axis > wide.rank - own.rank)
        return b;
    while (own.rank + axis < wide.rank)
        own.dim[own.rank++] = 1;
    return ir_reshape(c->graph, b, own);
}

fs_status onnx_import_binary(onnx_ctx *c)
{
    double a;
    ir_op_kind op = (ir_op_kind)c->arg;
    bool affine = op == IR_OP_add || op == IR_OP_sub || op == IR_OP_mul ||
                  op == IR_OP_div;
    if (affine && is_number(c, 1, 0, &a) && !(op == IR_OP_div && a == 0))
        return onnx_set(c, 0, with_number(c, onnx_in(c, 0), a, false));
    if (affine && is_number(c, 0, 1, &a))
        return onnx_set(c, 0, with_number(c, onnx_in(c, 1), a, true));
    int32_t x = onnx_in(c, 0), y = onnx_in(c, 1);
    return onnx_set(c, 0, ir_binary(c->graph, op, x, legacy_operand(c, x, y)));
}

/* a > b is b < a. */
fs_status onnx_import_swapped(onnx_ctx *c)
{
    int32_t a = onnx_in(c, 0), b = onnx_in(c, 1);
    b = legacy_operand(c, a, b);
    return onnx_set(c, 0, ir_binary(c->graph, (ir_op_kind)c->arg, b, a));
}

fs_status onnx_import_mod(onnx_ctx *c)
{
    ir_node node = {.op = IR_OP_mod,
                    .n_in = 2,
                    .in = {onnx_in(c, 0), onnx_in(c, 1)},
                    .i = {onnx_attr_int(c, "fmod", 0) != 0}};
    return onnx_set(c, 0, ir_append(c->graph, &node));
}

/* The base's type is the result's, the exponent may have another. Two integers
 * and mixed ones are raised in f64. */
fs_status onnx_import_pow(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    double number;
    c->widens = c->widens && !ir_dtype_computes(onnx_stored_dtype(c, 0));
    if (is_number(c, 1, 0, &number) && ir_dtype_is_float(onnx_dtype_of(c, 0)))
        return onnx_set(c, 0, ir_power(g, onnx_in(c, 0), number));
    int32_t x = onnx_in(c, 0), y = onnx_in(c, 1);
    if (x < 0 || y < 0)
        return FS_INVALID;
    ir_dtype result = g->tensors.at[x].dtype;
    ir_dtype in = ir_dtype_is_float(result) ? result : IR_F64;
    y = legacy_operand(c, x, y);
    y = ir_binary(g, IR_OP_pow, ir_cast(g, x, in), ir_cast(g, y, in));
    return onnx_set(c, 0, ir_cast(g, y, result));
}

/* The slope broadcasts to x; before opset 7 a vector of slopes is one per
 * channel, axis 1. */
fs_status onnx_import_prelu(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    int32_t x = onnx_in(c, 0), slope = onnx_in(c, 1);
    ir_shape wide = ir_shape_of(g, x), own = ir_shape_of(g, slope);
    if (c->opset < 7 && own.rank == 1 && own.dim[0] > 1)
        while (own.rank < wide.rank - 1)
            own.dim[own.rank++] = 1;
    if (is_float(c, x))
        return onnx_set(
            c, 0, ir_binary(g, IR_OP_prelu, x, ir_reshape(g, slope, own)));
    int32_t below = ir_binary(g, IR_OP_less, x, number_like(c, x, 0));
    int32_t scaled = ir_binary(g, IR_OP_mul, x, slope);
    return onnx_set(c, 0, ir_where(g, below, scaled, x));
}

/* ---- functions of many ---- */

/* Sum, Max, Min, Mean: one after the other. */
fs_status onnx_import_variadic(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    int32_t n = c->node->in.n;
    bool mean = c->arg == ONNX_MEAN_OF;
    ir_op_kind op = mean ? IR_OP_add : (ir_op_kind)c->arg;
    if (n == 1)
        return onnx_alias(c, 0, 0);
    int32_t y = onnx_in(c, 0);
    for (int32_t i = 1; i < n; i++)
        y = ir_binary(g, op, y, onnx_in(c, i));
    return onnx_set(c, 0, mean ? ir_scale(g, y, 1.0 / n, 0) : y);
}

/* A bound of clip: attribute or input, `usual` without either. False when it
 * is a tensor that is not known. */
static bool clip_bound(onnx_ctx *c, const char *name, int32_t i, double usual,
                       double *out)
{
    *out = onnx_attr_real(c, name, usual);
    if (!onnx_has(c, i))
        return true;
    const onnx_value *value = onnx_value_of(c, i);
    if (!value || !(value->is_known || value->is_weight) ||
        onnx_const_count(&value->known) != 1)
        return false;
    *out = onnx_const_real(&value->known, 0);
    return true;
}

/* Into low .. high; high wins. Known bounds of reals make one op. */
fs_status onnx_import_clip(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    double low, high;
    int32_t x = onnx_in(c, 0);
    bool known = clip_bound(c, "min", 1, -INFINITY, &low);
    known = clip_bound(c, "max", 2, INFINITY, &high) && known;
    if (known && low == -INFINITY && high == INFINITY)
        return onnx_alias(c, 0, 0);
    if (known && is_float(c, x))
        return set_function(c, (ir_node){.op = IR_OP_clip, .f = {low, high}});
    if (onnx_has(c, 1))
        x = ir_binary(g, IR_OP_max, x, onnx_in(c, 1));
    if (onnx_has(c, 2))
        x = ir_binary(g, IR_OP_min, x, onnx_in(c, 2));
    return onnx_set(c, 0, x);
}

/* ---- choosing, casting ---- */

fs_status onnx_import_where(onnx_ctx *c)
{
    int32_t cond = onnx_in(c, 0), a = onnx_in(c, 1), b = onnx_in(c, 2);
    return onnx_set(c, 0, ir_where(c->graph, cond, a, b));
}

fs_status onnx_import_cast(onnx_ctx *c)
{
    ir_dtype dtype;
    FS_TRY(onnx_dtype_parse(onnx_attr_int(c, "to", 0), "the cast's target",
                            c->err, &dtype));
    dtype = onnx_dtype_here(c, dtype);
    if (onnx_dtype_of(c, 0) == dtype)
        return onnx_alias(c, 0, 0);
    return onnx_set(c, 0, ir_cast(c->graph, onnx_in(c, 0), dtype));
}

fs_status onnx_import_cast_like(onnx_ctx *c)
{
    ir_dtype dtype = onnx_dtype_of(c, 1);
    if (!onnx_value_of(c, 1))
        return FS_INVALID;
    if (onnx_dtype_of(c, 0) == dtype)
        return onnx_alias(c, 0, 0);
    return onnx_set(c, 0, ir_cast(c->graph, onnx_in(c, 0), dtype));
}

fs_status onnx_import_identity(onnx_ctx *c)
{
    return onnx_alias(c, 0, 0);
}
