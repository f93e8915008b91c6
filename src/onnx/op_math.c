/* Importing contractions. */
#include "config.h"
#include "onnx/operators.h"

fs_status onnx_import_none(onnx_ctx *c)
{
    return onnx_fail(c, "works on constants and shapes only");
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

static fs_status matmul_batched(onnx_ctx *c, int32_t a, int32_t b, int32_t *y)
{
    ir_graph *g = c->graph;
    ir_shape sa = ir_shape_of(g, a), sb = ir_shape_of(g, b), batch;
    sa.rank -= 2;
    sb.rank -= 2;
    if (sb.rank > 0 && !ir_shape_equal(&sa, &sb)) {
        FS_TRY(ir_shape_broadcast(&sa, &sb, c->err, &batch));
        a = stretch_batch(g, a, &batch);
        b = stretch_batch(g, b, &batch);
    }
    *y = ir_matmul(g, a, b, false, false);
    return FS_OK;
}

/* A value without elements is no tensor of the graph. */
static fs_status check_operands(onnx_ctx *c)
{
    for (int32_t i = 0; i < 2; i++) {
        char text[160];
        ir_shape shape;
        FS_TRY(onnx_shape(c, i, &shape));
        if (shape.rank < 1)
            return onnx_fail(c, "input %d is a scalar", i);
        if (ir_shape_count(&shape) == 0)
            return onnx_fail(c, "input %d is empty: %s", i,
                             ir_shape_text(text, &shape));
    }
    return FS_OK;
}

fs_status onnx_import_matmul(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    FS_TRY(check_operands(c));
    int32_t a = onnx_in(c, 0), b = onnx_in(c, 1), y = -1;
    ir_shape sa = ir_shape_of(g, a), sb = ir_shape_of(g, b);
    if (sa.rank < 1 || sb.rank < 1)
        return FS_INVALID;
    if (sa.rank == 1)
        a = ir_reshape(g, a, (ir_shape){.rank = 2, .dim = {1, sa.dim[0]}});
    if (sb.rank == 1)
        b = ir_reshape(g, b, (ir_shape){.rank = 2, .dim = {sb.dim[0], 1}});
    FS_TRY(matmul_batched(c, a, b, &y));
    ir_shape out = ir_shape_of(g, y);
    if (out.rank < 2)
        return FS_INVALID;
    if (sb.rank == 1)
        out.rank--;
    if (sa.rank == 1) {
        out.dim[out.rank - 2 + (sb.rank == 1)] = out.dim[out.rank - 1];
        out.rank--;
    }
    return onnx_set(c, 0, ir_reshape(g, y, out));
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

/* Element (i, j) of the last two axes, kept as axes of length 1. */
static int32_t entry(ir_graph *g, int32_t x, int32_t i, int32_t j)
{
    const int32_t rank = ir_shape_of(g, x).rank;
    if (rank < 2)
        return -1;
    return ir_slice(g, ir_slice(g, x, rank - 2, i, 1), rank - 1, j, 1);
}

/* Determinant of the rows from `row` on and the n columns of `mask`, along
 * the first of these rows. */
static int32_t minor_of(ir_graph *g, int32_t x, int32_t row, uint32_t mask)
{
    int32_t sum = -1;
    double sign = 1;
    for (int32_t j = 0; mask >> j; j++) {
        if (!(mask >> j & 1))
            continue;
        const uint32_t rest = mask & ~(1u << j);
        int32_t term = entry(g, x, row, j);
        if (rest)
            term = ir_binary(g, IR_OP_mul, term, minor_of(g, x, row + 1, rest));
        if (sign < 0)
            term = ir_scale(g, term, -1, 0);
        sum = sum < 0 ? term : ir_binary(g, IR_OP_add, sum, term);
        sign = -sign;
    }
    return sum;
}

/* Of small matrices only: n! products. */
fs_status onnx_import_det(onnx_ctx *c)
{
    enum { LARGEST = 4 };
    ir_graph *g = c->graph;
    ir_shape in;
    FS_TRY(onnx_shape(c, 0, &in));
    const int64_t n = in.rank < 2 ? 0 : in.dim[in.rank - 1];
    if (n < 1 || in.dim[in.rank - 2] != n)
        return onnx_fail(c, "its input is no square matrix");
    if (n > LARGEST)
        return onnx_fail(c,
                         "the determinant of a matrix of %lld rows is not "
                         "supported (up to %d are)",
                         (long long)n, LARGEST);
    int32_t y = minor_of(g, onnx_in(c, 0), 0, (1u << n) - 1);
    in.rank -= 2;
    return onnx_set(c, 0, ir_reshape(g, y, in));
}
