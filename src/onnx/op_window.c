/* Windows from attributes, and importing convolutions. */
#include "config.h"
#include "onnx/window.h"

#include "ir/op_util.h"
#include "onnx/operators.h"

#include <string.h>

fs_status onnx_window_numbers(onnx_ctx *c, const char *name, int64_t n,
                              int64_t low, int64_t *out)
{
    onnx_ints list;
    FS_TRY(onnx_get_ints(c, name, -1, &list));
    if (list.n >= 0 && list.n != n)
        return onnx_fail(c, "%s has %lld numbers, not %lld", name,
                         (long long)list.n, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        if (list.n >= 0)
            out[i] = list.at[i];
        if (out[i] < low || out[i] > INT32_MAX)
            return onnx_fail(c, "%s of %lld is out of range", name,
                             (long long)out[i]);
    }
    return FS_OK;
}

static bool is_same(const char *auto_pad)
{
    return strcmp(auto_pad, "SAME_UPPER") == 0 ||
           strcmp(auto_pad, "SAME_LOWER") == 0;
}

static fs_status get_auto_pad(onnx_ctx *c, const char **out)
{
    *out = onnx_attr_text(c, "auto_pad", "NOTSET");
    if (!is_same(*out) && strcmp(*out, "NOTSET") != 0 &&
        strcmp(*out, "VALID") != 0)
        return onnx_fail(c, "auto_pad \"%.80s\" is unknown", *out);
    return FS_OK;
}

/* From the first to the last element of a window, both included. */
static int64_t reach_of(const ir_window *w, int32_t k)
{
    return ir_add_sat(ir_mul_sat(w->size[k] - 1, w->dilation[k]), 1);
}

/* `total` padding on axis k; the odd one stands at the end if `upper`. */
static void share_pads(ir_window *w, int32_t k, int64_t total, bool upper)
{
    if (total < 0)
        total = 0;
    w->before[k] = upper ? total / 2 : total - total / 2;
    w->after[k] = total - w->before[k];
}

/* SAME_UPPER and SAME_LOWER keep ceil(length / stride). */
static void pad_same(ir_window *w, const ir_shape *in, bool upper)
{
    for (int32_t k = 0; k < w->n; k++) {
        int64_t length = in->dim[2 + k], stride = w->stride[k];
        int64_t steps = (length - 1) / stride;
        share_pads(w, k, ir_add_sat(steps * stride - length, reach_of(w, k)),
                   upper);
    }
}

fs_status onnx_window_get(onnx_ctx *c, const ir_shape *in, const int64_t *usual,
                          ir_window *out)
{
    int64_t pads[2 * IR_MAX_SPACE] = {0};
    if (in->rank < 3 || in->rank > 2 + IR_MAX_SPACE)
        return onnx_fail(c,
                         "its input has rank %d; samples, channels and one to "
                         "three spatial axes are supported",
                         in->rank);
    const int32_t n = in->rank - 2;
    *out = (ir_window){.n = n};
    for (int32_t k = 0; k < n; k++) {
        out->stride[k] = out->dilation[k] = 1;
        out->size[k] = usual ? usual[k] : 0;
    }
    FS_TRY(onnx_window_numbers(c, "kernel_shape", n, 1, out->size));
    FS_TRY(onnx_window_numbers(c, "strides", n, 1, out->stride));
    FS_TRY(onnx_window_numbers(c, "dilations", n, 1, out->dilation));
    FS_TRY(onnx_window_numbers(c, "pads", 2 * (int64_t)n, 0, pads));
    memcpy(out->before, pads, (size_t)n * sizeof *pads);
    memcpy(out->after, pads + n, (size_t)n * sizeof *pads);
    return FS_OK;
}

fs_status onnx_window_pad(onnx_ctx *c, const ir_shape *in, ir_window *w)
{
    const char *mode;
    FS_TRY(get_auto_pad(c, &mode));
    if (is_same(mode))
        pad_same(w, in, strcmp(mode, "SAME_UPPER") == 0);
    return FS_OK;
}

void onnx_window_write(const ir_window *w, int64_t attr[IR_WINDOW_ATTRS])
{
    memset(attr, 0, IR_WINDOW_ATTRS * sizeof *attr);
    memcpy(attr + IR_WINDOW_STRIDE, w->stride, sizeof w->stride);
    memcpy(attr + IR_WINDOW_BEFORE, w->before, sizeof w->before);
    memcpy(attr + IR_WINDOW_AFTER, w->after, sizeof w->after);
}

/* y plus the bias of input `i`, if there is one. */
static int32_t add_bias(onnx_ctx *c, int32_t y, int32_t i)
{
    if (!onnx_has(c, i))
        return y;
    ir_shape shape = ir_shape_of(c->graph, y);
    for (int32_t k = 0; k < shape.rank; k++)
        if (k != 1)
            shape.dim[k] = 1;
    return ir_binary(c->graph, IR_OP_add, y,
                     ir_reshape(c->graph, onnx_in(c, i), shape));
}

/* The window of a filter, whose shape it must have. */
static fs_status get_filter_window(onnx_ctx *c, const ir_shape *in,
                                   ir_window *out)
{
    ir_shape filter;
    FS_TRY(onnx_shape(c, 1, &filter));
    if (filter.rank != in->rank)
        return onnx_fail(c, "its filter has rank %d, its input %d", filter.rank,
                         in->rank);
    FS_TRY(onnx_window_get(c, in, filter.dim + 2, out));
    for (int32_t k = 0; k < out->n; k++)
        if (out->size[k] != filter.dim[2 + k])
            return onnx_fail(c, "kernel_shape differs from the filter's shape");
    return FS_OK;
}

static fs_status get_groups(onnx_ctx *c, int64_t *out)
{
    *out = onnx_attr_int(c, "group", 1);
    return onnx_at_least(c, "attribute \"group\"", *out, 1);
}

fs_status onnx_import_conv(onnx_ctx *c)
{
    ir_shape in;
    ir_window w;
    int64_t attr[IR_WINDOW_ATTRS];
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(get_filter_window(c, &in, &w));
    FS_TRY(onnx_window_pad(c, &in, &w));
    onnx_window_write(&w, attr);
    memcpy(attr + IR_WINDOW_SPREAD, w.dilation, sizeof w.dilation);
    FS_TRY(get_groups(c, &attr[IR_WINDOW_GROUPS]));
    int32_t x = onnx_in(c, 0), f = onnx_in(c, 1);
    return onnx_set(c, 0, add_bias(c, ir_conv(c->graph, x, f, attr), 2));
}

/* Lengths of a transposed convolution's result; sets the padding. */
static fs_status transposed_lengths(onnx_ctx *c, const ir_shape *in,
                                    ir_window *w, int64_t out[IR_MAX_SPACE])
{
    int64_t extra[IR_MAX_SPACE] = {0};
    const char *mode;
    onnx_ints wanted;
    FS_TRY(get_auto_pad(c, &mode));
    FS_TRY(onnx_window_numbers(c, "output_padding", w->n, 0, extra));
    FS_TRY(onnx_get_ints(c, "output_shape", -1, &wanted));
    if (wanted.n >= 0 && wanted.n != w->n && wanted.n != in->rank)
        return onnx_fail(c, "output_shape has %lld numbers, not %d",
                         (long long)wanted.n, w->n);
    for (int32_t k = 0; k < w->n; k++) {
        int64_t length = in->dim[2 + k], stride = w->stride[k];
        int64_t full = ir_add_sat(ir_mul_sat(stride, length - 1), extra[k]);
        full = ir_add_sat(full, reach_of(w, k));
        out[k] = full - w->before[k] - w->after[k];
        if (wanted.n >= 0 || is_same(mode)) {
            out[k] = wanted.n >= 0 ? wanted.at[wanted.n - w->n + k]
                                   : ir_mul_sat(length, stride);
            share_pads(w, k, out[k] < 1 ? 0 : full - out[k],
                       strcmp(mode, "SAME_UPPER") == 0);
        }
        if (full == INT64_MAX || out[k] < 1 || out[k] > INT32_MAX)
            return onnx_fail(c, "a result of length %lld on axis %d",
                             (long long)out[k], 2 + k);
    }
    return FS_OK;
}

/* The gradient of a convolution for its data. That has no elements beyond what
 * a window could reach: zeros there are put after it. */
fs_status onnx_import_conv_transpose(onnx_ctx *c)
{
    ir_shape in;
    ir_window w;
    int64_t attr[IR_WINDOW_ATTRS], length[IR_MAX_SPACE];
    int64_t zeros[IR_MAX_SPACE] = {0};
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(get_filter_window(c, &in, &w));
    FS_TRY(transposed_lengths(c, &in, &w, length));
    for (int32_t k = 0; k < w.n; k++) {
        int64_t most =
            w.stride[k] * (in.dim[2 + k] - 1) + reach_of(&w, k) - w.before[k];
        w.after[k] = length[k] < most ? most - length[k] : 0;
        if (length[k] > most + w.stride[k] - 1) {
            zeros[k] = length[k] - most;
            length[k] = most;
        }
    }
    onnx_window_write(&w, attr);
    memcpy(attr + IR_WINDOW_SPREAD, w.dilation, sizeof w.dilation);
    FS_TRY(get_groups(c, &attr[IR_WINDOW_GROUPS]));
    memcpy(attr + IR_WINDOW_LENGTH, length, (size_t)w.n * sizeof *length);
    int32_t x = onnx_in(c, 0), f = onnx_in(c, 1);
    int32_t y = ir_conv_transpose(c->graph, x, f, attr);
    for (int32_t k = 0; k < w.n; k++)
        if (zeros[k] > 0)
            y = ir_pad(c->graph, y, 2 + k, 0, zeros[k]);
    return onnx_set(c, 0, add_bias(c, y, 2));
}
