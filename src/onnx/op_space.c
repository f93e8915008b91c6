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

/* ---- grids ---- */

/* Coordinates (places, axes + 1) of an output of lengths `size`: the last
 * axis' first, from -1 to 1, then a 1. */
static fs_status base_grid(onnx_ctx *c, const ir_shape *size, int32_t *out)
{
    const bool corners = onnx_attr_int(c, "align_corners", 0) != 0;
    const int32_t n = size->rank;
    ir_shape shape = {.rank = 2, .dim = {1, n + 1}};
    void *data;
    for (int32_t k = 0; k < n; k++)
        if (size->dim[k] < 1 ||
            __builtin_mul_overflow(shape.dim[0], size->dim[k], &shape.dim[0]))
            return onnx_fail(c, "its size has a length of %lld",
                             (long long)size->dim[k]);
    FS_TRY(onnx_const_new(c, IR_F32, &shape, &data));
    float *at = data;
    for (int64_t i = 0; i < shape.dim[0]; i++, at += n + 1) {
        int64_t rest = i;
        for (int32_t k = n - 1; k >= 0; k--) {
            const double length = (double)size->dim[k];
            const double place = (double)(rest % size->dim[k]);
            const double from = corners ? 0 : 0.5;
            const double span = corners ? length - 1 : length;
            at[n - 1 - k] =
                span > 0 ? (float)((place + from) * 2 / span - 1) : 0;
            rest /= size->dim[k];
        }
        at[n] = 1;
    }
    *out =
        ir_constant(c->graph, fs_printf(c->arena, "%s/grid", c->graph->scope),
                    IR_F32, shape, data);
    return FS_OK;
}

/* theta (N, axes, axes + 1) times the coordinates of every place. */
fs_status onnx_import_affine_grid(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in, size = {0};
    onnx_ints list;
    int32_t base = -1, perm[IR_MAX_RANK] = {0, 2, 1};
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_get_ints(c, NULL, 1, &list));
    size.rank = (int32_t)list.n - 2;
    if (list.n < 4 || list.n > 5 || in.rank != 3 || in.dim[1] != size.rank ||
        in.dim[2] != size.rank + 1)
        return onnx_fail(c,
                         "its size has %lld lengths, 4 or 5 are wanted, and "
                         "theta (N, axes, axes + 1)",
                         (long long)list.n);
    for (int32_t k = 0; k < size.rank; k++)
        size.dim[k] = list.at[2 + k];
    FS_TRY(base_grid(c, &size, &base));
    const int32_t theta = onnx_in(c, 0);
    if (theta < 0)
        return FS_INVALID;
    base = ir_cast(g, base, g->tensors.at[theta].dtype);
    base = ir_transpose(g, base, (int32_t[]){1, 0});
    int32_t y = ir_transpose(g, ir_matmul(g, theta, base, false, false), perm);
    ir_shape out = {.rank = 1, .dim = {in.dim[0]}};
    for (int32_t k = 0; k < size.rank; k++)
        out.dim[out.rank++] = size.dim[k];
    out.dim[out.rank++] = size.rank;
    return onnx_set(c, 0, ir_reshape(g, y, out));
}

/* ---- columns to images ---- */

/* List of n numbers from an attribute, `usual` without it. */
static fs_status get_list(onnx_ctx *c, const char *name, int64_t n,
                          int64_t usual, int64_t *out)
{
    onnx_ints list;
    FS_TRY(onnx_get_ints(c, name, -1, &list));
    if (list.n >= 0 && list.n != n)
        return onnx_fail(c, "%s has %lld numbers, not %lld", name,
                         (long long)list.n, (long long)n);
    for (int64_t i = 0; i < n; i++)
        out[i] = list.n < 0 ? usual : list.at[i];
    return FS_OK;
}

/* Filters (channels * block, 1, block..): row b of each channel is 1 at place
 * b of the block. */
static fs_status one_hot_filters(onnx_ctx *c, int64_t channels,
                                 const ir_shape *block, int32_t *out)
{
    ir_shape shape = {.rank = block->rank + 2, .dim = {channels, 1}};
    const int64_t n = ir_shape_count(block);
    void *data;
    for (int32_t k = 0; k < block->rank; k++)
        shape.dim[2 + k] = block->dim[k];
    if (__builtin_mul_overflow(channels, n, &shape.dim[0]))
        return onnx_fail(c, "its blocks are too large");
    FS_TRY(onnx_const_new(c, IR_F32, &shape, &data));
    for (int64_t i = 0; i < shape.dim[0]; i++)
        ((float *)data)[i * n + i % n] = 1;
    *out =
        ir_constant(c->graph, fs_printf(c->arena, "%s/places", c->graph->scope),
                    IR_F32, shape, data);
    return FS_OK;
}

/* Image and block lengths, and the windows that the columns are. */
static fs_status get_windows(onnx_ctx *c, onnx_ints *image, ir_shape *block,
                             int64_t attr[IR_WINDOW_ATTRS])
{
    onnx_ints list;
    int64_t pads[2 * IR_MAX_SPACE];
    FS_TRY(onnx_get_ints(c, NULL, 1, image));
    FS_TRY(onnx_get_ints(c, NULL, 2, &list));
    if (list.n < 1 || list.n > IR_MAX_SPACE || image->n != list.n)
        return onnx_fail(c, "an image of %lld and blocks of %lld axes",
                         (long long)image->n, (long long)list.n);
    *block = ir_shape_make((int32_t)list.n, list.at);
    FS_TRY(ir_shape_check(block, "a block", c->err));
    FS_TRY(get_list(c, "strides", list.n, 1, attr + IR_WINDOW_STRIDE));
    FS_TRY(get_list(c, "dilations", list.n, 1, attr + IR_WINDOW_SPREAD));
    FS_TRY(get_list(c, "pads", 2 * list.n, 0, pads));
    for (int32_t k = 0; k < block->rank; k++) {
        attr[IR_WINDOW_BEFORE + k] = pads[k];
        attr[IR_WINDOW_AFTER + k] = pads[block->rank + k];
        attr[IR_WINDOW_LENGTH + k] = image->at[k];
    }
    return FS_OK;
}

/* Blocks of an image that each column holds, added up where they overlap: a
 * transposed convolution with filters that copy. */
fs_status onnx_import_col2im(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in, block = {0}, grid;
    onnx_ints image = {0, NULL};
    int32_t filters = -1;
    int64_t attr[IR_WINDOW_ATTRS] = {0};
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(get_windows(c, &image, &block, attr));
    const int64_t n = ir_shape_count(&block);
    if (in.rank != 3 || in.dim[1] % n)
        return onnx_fail(c, "its columns are not made of blocks of %lld",
                         (long long)n);
    attr[IR_WINDOW_GROUPS] = in.dim[1] / n;
    grid = (ir_shape){.rank = block.rank + 2, .dim = {in.dim[0], in.dim[1]}};
    for (int32_t k = 0; k < block.rank; k++) {
        const int64_t span = image.at[k] + attr[IR_WINDOW_BEFORE + k] +
                             attr[IR_WINDOW_AFTER + k] -
                             attr[IR_WINDOW_SPREAD + k] * (block.dim[k] - 1) -
                             1;
        if (span < 0 || attr[IR_WINDOW_STRIDE + k] < 1)
            return onnx_fail(c, "its block does not fit axis %d", k);
        grid.dim[2 + k] = span / attr[IR_WINDOW_STRIDE + k] + 1;
    }
    FS_TRY(one_hot_filters(c, in.dim[1] / n, &block, &filters));
    int32_t x = ir_reshape(g, onnx_in(c, 0), grid);
    if (x < 0)
        return FS_INVALID;
    filters = ir_cast(g, filters, g->tensors.at[x].dtype);
    return onnx_set(c, 0, ir_conv_transpose(g, x, filters, attr));
}
