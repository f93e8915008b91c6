/* Importing operators on spatial axes that are made of others: depth to space
 * and back, local response normalisation. */
#include "config.h"
#include "onnx/operators.h"

#include "ir/window.h"

#include <string.h>

/* (N, C, H, W) and the block size, which must divide what it cuts. */
static fs_status get_blocks(onnx_ctx *c, ir_shape *in, int64_t *block)
{
    FS_TRY(onnx_shape(c, 0, in));
    *block = onnx_attr_int(c, "blocksize", 0);
    if (in->rank != 4)
        return onnx_fail(c, "its input has rank %d, not 4", in->rank);
    if (*block < 1 || *block > INT32_MAX)
        return onnx_fail(c, "a blocksize of %lld", (long long)*block);
    return FS_OK;
}

/* Splits x into six axes, permutes them and joins them to `out`. */
static fs_status set_permuted(onnx_ctx *c, const int64_t six[6],
                              const int32_t perm[6], ir_shape out)
{
    ir_graph *g = c->graph;
    int32_t x = ir_reshape(g, onnx_in(c, 0), ir_shape_make(6, six));
    return onnx_set(c, 0, ir_reshape(g, ir_transpose(g, x, perm), out));
}

fs_status onnx_import_depth_to_space(onnx_ctx *c)
{
    static const int32_t depth_first[6] = {0, 3, 4, 1, 5, 2};
    static const int32_t column_first[6] = {0, 1, 4, 2, 5, 3};
    ir_shape in;
    int64_t b;
    FS_TRY(get_blocks(c, &in, &b));
    const char *mode = onnx_attr_text(c, "mode", "DCR");
    const int64_t n = in.dim[0], h = in.dim[2], w = in.dim[3];
    const int64_t depth = in.dim[1] / (b * b);
    if (in.dim[1] % (b * b) != 0)
        return onnx_fail(c, "%lld channels do not make blocks of %lld x %lld",
                         (long long)in.dim[1], (long long)b, (long long)b);
    ir_shape out = ir_shape_make(4, (int64_t[]){n, depth, h * b, w * b});
    if (strcmp(mode, "DCR") == 0)
        return set_permuted(c, (int64_t[]){n, b, b, depth, h, w}, depth_first,
                            out);
    if (strcmp(mode, "CRD") == 0)
        return set_permuted(c, (int64_t[]){n, depth, b, b, h, w}, column_first,
                            out);
    return onnx_fail(c, "mode \"%.80s\" is unknown", mode);
}

fs_status onnx_import_space_to_depth(onnx_ctx *c)
{
    static const int32_t perm[6] = {0, 3, 5, 1, 2, 4};
    ir_shape in;
    int64_t b;
    FS_TRY(get_blocks(c, &in, &b));
    if (in.dim[2] % b != 0 || in.dim[3] % b != 0)
        return onnx_fail(c, "%lld x %lld elements do not make blocks of %lld",
                         (long long)in.dim[2], (long long)in.dim[3],
                         (long long)b);
    const int64_t n = in.dim[0], d = in.dim[1];
    const int64_t h = in.dim[2] / b, w = in.dim[3] / b;
    return set_permuted(c, (int64_t[]){n, d, h, b, w, b}, perm,
                        ir_shape_make(4, (int64_t[]){n, d * b * b, h, w}));
}

/* y = x (bias + alpha / size * sum of x^2 over `size` channels)^-beta. The
 * channels are an axis of planes on which windows of (size, 1) slide. */
fs_status onnx_import_lrn(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in;
    FS_TRY(onnx_shape(c, 0, &in));
    const int64_t size = onnx_attr_int(c, "size", 0);
    if (size < 1 || size > INT32_MAX || in.rank < 2)
        return onnx_fail(c, "a size of %lld on an input of rank %d",
                         (long long)size, in.rank);
    ir_shape planes = {.rank = 4, .dim = {in.dim[0], 1, in.dim[1], 1}};
    for (int32_t k = 2; k < in.rank; k++)
        planes.dim[3] *= in.dim[k];
    const int64_t attr[IR_WINDOW_ATTRS] = {[IR_WINDOW_STRIDE] = 1,
                                           1,
                                           [IR_WINDOW_BEFORE] = (size - 1) / 2,
                                           [IR_WINDOW_AFTER] =
                                               size - 1 - (size - 1) / 2,
                                           [IR_WINDOW_SIZE] = size,
                                           1,
                                           [IR_WINDOW_MODE] = IR_WINDOW_SUM};
    int32_t x = onnx_in(c, 0);
    int32_t sum = ir_reshape(g, ir_power(g, x, 2), planes);
    sum = ir_reshape(g, ir_pool(g, IR_OP_avg_pool, sum, attr), in);
    sum = ir_scale(g, sum, onnx_attr_real(c, "alpha", 1e-4) / (double)size,
                   onnx_attr_real(c, "bias", 1));
    sum = ir_power(g, sum, -onnx_attr_real(c, "beta", 0.75));
    return onnx_set(c, 0, ir_binary(g, IR_OP_mul, x, sum));
}

/* Position of attribute `name` among `names` (ended by NULL), or -1. */
static int64_t choice(onnx_ctx *c, const char *name, const char *const *names)
{
    const char *text = onnx_attr_text(c, name, names[0]);
    for (int64_t k = 0; names[k]; k++)
        if (strcmp(names[k], text) == 0)
            return k;
    return -1;
}

/* Opset 20 calls its modes differently. */
fs_status onnx_import_grid_sample(onnx_ctx *c)
{
    static const char *const modes[] = {"bilinear", "linear", "nearest",
                                        "bicubic",  "cubic",  NULL};
    static const int64_t meant[] = {1, 1, 0, 2, 2};
    static const char *const paddings[] = {"zeros", "border", "reflection",
                                           NULL};
    const int64_t mode = choice(c, "mode", modes);
    const int64_t padding = choice(c, "padding_mode", paddings);
    if (mode < 0 || padding < 0)
        return onnx_fail(c, "its mode or padding_mode is unknown");
    ir_node node = {
        .op = IR_OP_grid_sample,
        .n_in = 2,
        .in = {onnx_in(c, 0), onnx_in(c, 1)},
        .i = {meant[mode], padding, onnx_attr_int(c, "align_corners", 0) != 0}};
    return onnx_set(c, 0, ir_append(c->graph, &node));
}
