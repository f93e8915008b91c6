/* Importing element-wise operators and contractions. */
#include "config.h"
#include "onnx/operators.h"

#include <string.h>

fs_status onnx_import_none(onnx_ctx *c)
{
    return onnx_fail(c, "works on constants and shapes only");
}

fs_status onnx_import_unary(onnx_ctx *c)
{
    int32_t x = onnx_in(c, 0);
    return onnx_set(c, 0, ir_unary(c->graph, (ir_op_kind)c->arg, x));
}

fs_status onnx_import_neg(onnx_ctx *c)
{
    return onnx_set(c, 0, ir_scale(c->graph, onnx_in(c, 0), -1, 0));
}

fs_status onnx_import_reciprocal(onnx_ctx *c)
{
    return onnx_set(c, 0, ir_power(c->graph, onnx_in(c, 0), -1));
}

fs_status onnx_import_gelu(onnx_ctx *c)
{
    bool tanh_form =
        strcmp(onnx_attr_text(c, "approximate", "none"), "tanh") == 0;
    return onnx_set(c, 0,
                    ir_unary(c->graph, tanh_form ? IR_OP_gelu_tanh : IR_OP_gelu,
                             onnx_in(c, 0)));
}

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

fs_status onnx_import_binary(onnx_ctx *c)
{
    double a;
    if (is_number(c, 1, 0, &a) && !(c->arg == IR_OP_div && a == 0))
        return onnx_set(c, 0, with_number(c, onnx_in(c, 0), a, false));
    if (is_number(c, 0, 1, &a))
        return onnx_set(c, 0, with_number(c, onnx_in(c, 1), a, true));
    int32_t x = onnx_in(c, 0), y = onnx_in(c, 1);
    return onnx_set(c, 0, ir_binary(c->graph, (ir_op_kind)c->arg, x, y));
}

fs_status onnx_import_pow(onnx_ctx *c)
{
    const onnx_const *exponent;
    FS_TRY(onnx_need(c, 1, "the exponent", &exponent));
    ir_shape shape;
    FS_TRY(onnx_shape(c, 0, &shape));
    if (onnx_const_count(exponent) != 1 || exponent->shape.rank > shape.rank)
        return onnx_fail(c, "only a scalar exponent is supported");
    return onnx_set(
        c, 0, ir_power(c->graph, onnx_in(c, 0), onnx_const_real(exponent, 0)));
}

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

fs_status onnx_import_identity(onnx_ctx *c)
{
    return onnx_alias(c, 0, 0);
}

/* One number from input i, `usual` when it is absent. */
static fs_status get_number(onnx_ctx *c, int32_t i, const char *what,
                            double usual, double *out)
{
    const onnx_const *value;
    *out = usual;
    if (!onnx_has(c, i))
        return FS_OK;
    FS_TRY(onnx_need(c, i, what, &value));
    if (onnx_const_count(value) != 1)
        return onnx_fail(c, "%s must be one number", what);
    *out = onnx_const_real(value, 0);
    return FS_OK;
}

/* Random masks are not part of the training step, so a dropout that would
 * drop is left out, and the user is told: once, by the driver. */
fs_status onnx_import_dropout(onnx_ctx *c)
{
    double ratio, training = 0;
    FS_TRY(
        get_number(c, 1, "the ratio", onnx_attr_real(c, "ratio", 0.5), &ratio));
    if (c->opset >= 12)
        FS_TRY(get_number(c, 2, "training_mode", 0, &training));
    if (training != 0 && ratio > 0) {
        c->n_dropped++;
        c->dropped = ratio > c->dropped ? ratio : c->dropped;
    }
    FS_TRY(onnx_refuse_output(c, 1, "the mask of a dropout is not kept"));
    return onnx_alias(c, 0, 0);
}

/* Batch axes of a matmul's operand, stretched to `batch`. */
static int32_t stretch_batch(ir_graph *g, int32_t x, const ir_shape *batch)
{
    ir_shape shape = ir_shape_of(g, x), wanted = *batch;
    if (shape.rank < 2 || wanted.rank + 2 > IR_MAX_RANK)
        return x;
    for (int32_t i = shape.rank - 2; i < shape.rank; i++)
        wanted.dim[wanted.rank++] = shape.dim[i];
    if (ir_shape_equal(&shape, &wanted))
        return x;
    ir_shape padded = {.rank = wanted.rank};
    int32_t lead = wanted.rank - shape.rank;
    for (int32_t i = 0; i < wanted.rank; i++)
        padded.dim[i] = i < lead ? 1 : shape.dim[i - lead];
    return ir_broadcast_to(g, lead ? ir_reshape(g, x, padded) : x, wanted);
}

static fs_status matmul_batched(onnx_ctx *c, int32_t a, int32_t b)
{
    ir_graph *g = c->graph;
    ir_shape sa = ir_shape_of(g, a), sb = ir_shape_of(g, b), batch;
    if (sa.rank < 2 || sb.rank < 2)
        return onnx_fail(c, "a vector operand is not supported; use Unsqueeze "
                            "to make it a matrix");
    sa.rank -= 2;
    sb.rank -= 2;
    if (sb.rank > 0 && !ir_shape_equal(&sa, &sb)) {
        FS_TRY(ir_shape_broadcast(&sa, &sb, c->err, &batch));
        a = stretch_batch(g, a, &batch);
        b = stretch_batch(g, b, &batch);
    }
    return onnx_set(c, 0, ir_matmul(g, a, b, false, false));
}

fs_status onnx_import_matmul(onnx_ctx *c)
{
    int32_t a = onnx_in(c, 0), b = onnx_in(c, 1);
    if (a < 0 || b < 0)
        return FS_INVALID;
    return matmul_batched(c, a, b);
}

fs_status onnx_import_gemm(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    double alpha = onnx_attr_real(c, "alpha", 1);
    double beta = onnx_attr_real(c, "beta", 1);
    int32_t a = onnx_in(c, 0), b = onnx_in(c, 1);
    int32_t y = ir_matmul(g, a, b, onnx_attr_int(c, "transA", 0) != 0,
                          onnx_attr_int(c, "transB", 0) != 0);
    if (alpha != 1)
        y = ir_scale(g, y, alpha, 0);
    if (onnx_has(c, 2) && beta != 0) {
        int32_t bias = onnx_in(c, 2);
        y = ir_binary(g, IR_OP_add, y,
                      beta != 1 ? ir_scale(g, bias, beta, 0) : bias);
    }
    return onnx_set(c, 0, y);
}
