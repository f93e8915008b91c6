/* Importing convolution, pooling, normalisation, reduction and loss. */
#include "config.h"
#include "onnx/operators.h"

#include <string.h>

/* Geometry of a window that slides over two axes. */
typedef struct window {
    int64_t size[2], stride[2], dilation[2];
    int64_t pad[4]; /* top, left, bottom, right */
} window;

/* `n` numbers of attribute `name`, which without it stay what they are; they
 * must lie within low .. INT32_MAX. */
static fs_status get_numbers(onnx_ctx *c, const char *name, int64_t n,
                             int64_t low, int64_t *out)
{
    onnx_ints list;
    FS_TRY(onnx_get_ints(c, name, -1, &list));
    if (list.n >= 0 && list.n != n)
        return onnx_fail(c,
                         "%s has %lld numbers; only two spatial axes are "
                         "supported",
                         name, (long long)list.n);
    for (int64_t i = 0; i < n; i++) {
        if (list.n >= 0)
            out[i] = list.at[i];
        if (out[i] < low || out[i] > INT32_MAX)
            return onnx_fail(c, "%s of %lld is out of range", name,
                             (long long)out[i]);
    }
    return FS_OK;
}

/* auto_pad: SAME_UPPER and SAME_LOWER keep ceil(length / stride). */
static void pad_same(window *w, const ir_shape *in, bool upper)
{
    for (int32_t i = 0; i < 2; i++) {
        int64_t length = in->dim[2 + i];
        int64_t steps = (length + w->stride[i] - 1) / w->stride[i] - 1;
        int64_t reach = (w->size[i] - 1) * w->dilation[i] + 1;
        int64_t total = steps * w->stride[i] + reach - length;
        if (total < 0)
            total = 0;
        w->pad[i] = upper ? total / 2 : total - total / 2;
        w->pad[2 + i] = total - w->pad[i];
    }
}

static fs_status get_window(onnx_ctx *c, const ir_shape *in,
                            const int64_t *usual_size, window *out)
{
    if (in->rank != 4)
        return onnx_fail(c,
                         "its input has rank %d; only (N, C, H, W) is "
                         "supported",
                         in->rank);
    *out = (window){.stride = {1, 1}, .dilation = {1, 1}};
    if (usual_size)
        memcpy(out->size, usual_size, sizeof out->size);
    if (onnx_attr_find(c, "kernel_shape") || !usual_size)
        FS_TRY(get_numbers(c, "kernel_shape", 2, 1, out->size));
    FS_TRY(get_numbers(c, "strides", 2, 1, out->stride));
    FS_TRY(get_numbers(c, "dilations", 2, 1, out->dilation));
    FS_TRY(get_numbers(c, "pads", 4, 0, out->pad));
    const char *mode = onnx_attr_text(c, "auto_pad", "NOTSET");
    if (strncmp(mode, "SAME_", 5) == 0)
        pad_same(out, in, strcmp(mode, "SAME_UPPER") == 0);
    else if (strcmp(mode, "NOTSET") != 0 && strcmp(mode, "VALID") != 0)
        return onnx_fail(c, "auto_pad \"%.80s\" is unknown", mode);
    return FS_OK;
}

fs_status onnx_import_conv(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in, filter;
    window w;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_shape(c, 1, &filter));
    if (filter.rank != 4)
        return onnx_fail(c, "its filter has rank %d; 4 is supported",
                         filter.rank);
    FS_TRY(get_window(c, &in, filter.dim + 2, &w));
    if (w.size[0] != filter.dim[2] || w.size[1] != filter.dim[3])
        return onnx_fail(c, "kernel_shape differs from the filter's shape");
    int64_t attr[9] = {
        w.stride[0],   w.stride[1],   w.pad[0],
        w.pad[1],      w.pad[2],      w.pad[3],
        w.dilation[0], w.dilation[1], onnx_attr_int(c, "group", 1)};
    int32_t x = onnx_in(c, 0), f = onnx_in(c, 1);
    int32_t y = ir_conv2d(g, x, f, attr);
    if (onnx_has(c, 2)) {
        ir_shape bias = ir_shape_make(4, (int64_t[]){1, filter.dim[0], 1, 1});
        y = ir_binary(g, IR_OP_add, y, ir_reshape(g, onnx_in(c, 2), bias));
    }
    return onnx_set(c, 0, y);
}

/* ceil_mode is only a difference when a window would hang over the edge. */
static fs_status check_ceil(onnx_ctx *c, const ir_shape *in, const window *w)
{
    if (!onnx_attr_int(c, "ceil_mode", 0))
        return FS_OK;
    for (int32_t i = 0; i < 2; i++) {
        int64_t room = in->dim[2 + i] + w->pad[i] + w->pad[2 + i] - w->size[i];
        if (room % w->stride[i] != 0)
            return onnx_fail(c, "ceil_mode with a window that hangs over the "
                                "edge is not supported");
    }
    return FS_OK;
}

fs_status onnx_import_pool(onnx_ctx *c)
{
    ir_shape in;
    window w;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(get_window(c, &in, NULL, &w));
    FS_TRY(check_ceil(c, &in, &w));
    if (w.dilation[0] != 1 || w.dilation[1] != 1)
        return onnx_fail(c, "a dilated window is not supported");
    int64_t attr[9] = {
        w.stride[0], w.stride[1], w.pad[0],
        w.pad[1],    w.pad[2],    w.pad[3],
        w.size[0],   w.size[1],   onnx_attr_int(c, "count_include_pad", 0)};
    FS_TRY(onnx_refuse_output(c, 1, "the indices of a pooling are not kept"));
    return onnx_set(
        c, 0, ir_pool2d(c->graph, (ir_op_kind)c->arg, onnx_in(c, 0), attr));
}

fs_status onnx_import_global_pool(onnx_ctx *c)
{
    ir_shape in;
    FS_TRY(onnx_shape(c, 0, &in));
    if (in.rank < 3)
        return onnx_fail(c, "its input has no spatial axes");
    uint32_t spatial = ((1u << in.rank) - 1) & ~3u;
    return onnx_set(c, 0,
                    ir_reduce_mean(c->graph, onnx_in(c, 0), spatial, true));
}

/* Before opset 13 the axes from `axis` on are one; since then `axis` is one
 * axis, which is brought to the end and back. */
fs_status onnx_import_softmax(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in;
    int32_t axis, perm[IR_MAX_RANK];
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", c->opset < 13 ? 1 : -1),
                     in.rank, &axis));
    int32_t x = onnx_in(c, 0);
    if (axis == in.rank - 1)
        return onnx_set(c, 0, ir_softmax(g, x));
    if (c->opset < 13) {
        ir_shape flat = {.rank = 2, .dim = {1, 1}};
        for (int32_t i = 0; i < in.rank; i++)
            flat.dim[i >= axis] *= in.dim[i];
        return onnx_set(
            c, 0, ir_reshape(g, ir_softmax(g, ir_reshape(g, x, flat)), in));
    }
    for (int32_t i = 0; i < in.rank; i++)
        perm[i] = i == axis ? in.rank - 1 : i == in.rank - 1 ? axis : i;
    return onnx_set(
        c, 0, ir_transpose(g, ir_softmax(g, ir_transpose(g, x, perm)), perm));
}

static int32_t zero_bias(onnx_ctx *c, int32_t like)
{
    ir_shape shape = ir_shape_of(c->graph, like);
    if (shape.rank < 0)
        return -1;
    const float *zeros = fs_new(c->arena, float, ir_shape_count(&shape));
    return ir_constant(c->graph,
                       fs_printf(c->arena, "%s/bias", c->graph->scope), IR_F32,
                       shape, zeros);
}

fs_status onnx_import_layer_norm(onnx_ctx *c)
{
    ir_shape in;
    int32_t axis;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", -1), in.rank, &axis));
    if (axis != in.rank - 1)
        return onnx_fail(c, "only normalising the last axis is supported");
    int32_t x = onnx_in(c, 0), gain = onnx_in(c, 1);
    int32_t bias = onnx_has(c, 2) ? onnx_in(c, 2) : zero_bias(c, gain);
    FS_TRY(onnx_refuse_output(c, 1, "the mean of a layer norm is not kept"));
    FS_TRY(onnx_refuse_output(c, 2,
                              "the deviation of a layer norm is not "
                              "kept"));
    return onnx_set(c, 0,
                    ir_layer_norm(c->graph, x, gain, bias,
                                  onnx_attr_real(c, "epsilon", 1e-5)));
}

fs_status onnx_import_reduce(onnx_ctx *c)
{
    ir_shape in;
    uint32_t mask;
    FS_TRY(onnx_shape(c, 0, &in));
    bool noop = onnx_attr_int(c, "noop_with_empty_axes", 0) != 0;
    FS_TRY(onnx_axes(c, 1, in.rank, noop ? 0 : (1u << in.rank) - 1, &mask));
    bool keep = onnx_attr_int(c, "keepdims", 1) != 0;
    if (mask == 0)
        return onnx_alias(c, 0, 0);
    int32_t x = onnx_in(c, 0);
    return onnx_set(c, 0,
                    c->arg == ONNX_MEAN
                        ? ir_reduce_mean(c->graph, x, mask, keep)
                        : ir_reduce_sum(c->graph, x, mask, keep));
}

/* (N, C, d1, ..) becomes (N, d1, .., C): our classes stand last. */
static int32_t classes_last(ir_graph *g, int32_t x, int32_t rank)
{
    int32_t perm[IR_MAX_RANK] = {0};
    if (rank == 2)
        return x;
    for (int32_t i = 1; i < rank; i++)
        perm[i] = i + 1 < rank ? i + 1 : 1;
    return ir_transpose(g, x, perm);
}

fs_status onnx_import_cross_entropy(onnx_ctx *c)
{
    ir_shape in, labels;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_shape(c, 1, &labels));
    const char *reduction = onnx_attr_text(c, "reduction", "mean");
    bool sum = strcmp(reduction, "sum") == 0;
    int64_t ignored = onnx_attr_int(c, "ignore_index", -100);
    if (onnx_has(c, 2))
        return onnx_fail(c, "class weights are not supported");
    if (!sum && strcmp(reduction, "mean") != 0)
        return onnx_fail(c,
                         "reduction \"%.80s\" is not supported; mean and sum "
                         "are",
                         reduction);
    if (in.rank < 2 || labels.rank != in.rank - 1)
        return onnx_fail(c, "logits of rank %d and labels of rank %d", in.rank,
                         labels.rank);
    if (ignored != -100)
        onnx_note(c,
                  "%s ignores label %lld; here such a label is a fault at "
                  "run time",
                  c->node->name, (long long)ignored);
    FS_TRY(onnx_refuse_output(c, 1, "the log probabilities are not kept"));
    int32_t x = onnx_in(c, 0), y = onnx_in(c, 1);
    int32_t loss =
        ir_cross_entropy(c->graph, classes_last(c->graph, x, in.rank), y);
    if (sum)
        loss = ir_scale(c->graph, loss, (double)ir_shape_count(&labels), 0);
    return onnx_set(c, 0, loss);
}
