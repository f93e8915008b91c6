/* Bodies of the gradients of windows: convolutions and poolings of other
 * operands, and a scatter. */
#include "config.h"
#include "ir/window.h"
#include "onnx/writer.h"

#include <string.h>

static int32_t space_of(const onnx_writer *w)
{
    return onnx_in_tensor(w, 0)->shape.rank - 2;
}

static const char *reshaped(onnx_writer *w, const char *x, int32_t rank,
                            const int64_t *dim)
{
    return onnx_write_pair(w, "Reshape", x, onnx_put_ints(w, rank, dim));
}

/* With the axes before the spatial ones, `first`, in the order of perm. */
static const char *turned(onnx_writer *w, const char *x, int32_t first,
                          const int64_t *perm)
{
    int64_t all[IR_MAX_RANK];
    int32_t n = space_of(w);
    for (int32_t k = 0; k < first + n; k++)
        all[k] = k < first ? perm[k] : k;
    onnx_line line = onnx_line_step(w, "Transpose", x);
    onnx_line_ints(&line, "perm", first + n, all);
    return onnx_write_line(w, &line);
}

static void put_pads_of(onnx_writer *w, onnx_line *line, const int64_t *before,
                        const int64_t *after)
{
    int64_t pads[2 * IR_MAX_SPACE];
    const int32_t n = space_of(w);
    memcpy(pads, before, (size_t)n * sizeof *pads);
    memcpy(pads + n, after, (size_t)n * sizeof *pads);
    onnx_line_ints(line, "pads", 2 * n, pads);
}

static void put_pads(onnx_writer *w, onnx_line *line)
{
    const int64_t *i = w->node->i;
    put_pads_of(w, line, i + IR_WINDOW_BEFORE, i + IR_WINDOW_AFTER);
}

static bool end(onnx_writer *w, const char *op, const char *a, const char *b)
{
    onnx_line line = onnx_line_step(w, op, a);
    if (b)
        line.in[line.n_in++] = b;
    line.out[0] = w->name[w->node->out[0]];
    onnx_write_line(w, &line);
    return true;
}

/* x (N, g, C/g, H..) as C/g samples of g times N channels. */
static const char *samples_as_channels(onnx_writer *w, int64_t groups)
{
    const ir_shape *x = &onnx_in_tensor(w, 1)->shape;
    int32_t n = space_of(w);
    int64_t dim[IR_MAX_RANK + 1] = {x->dim[0], groups, x->dim[1] / groups};
    for (int32_t k = 0; k < n; k++)
        dim[3 + k] = x->dim[2 + k];
    const char *y = reshaped(w, w->name[w->node->in[1]], 3 + n, dim);
    y = turned(w, y, 3, (int64_t[]){2, 1, 0});
    dim[1] = x->dim[1] / groups;
    dim[2] = groups * x->dim[0];
    return reshaped(w, y, 2 + n, dim + 1);
}

/* dw[m, c] = sum over samples of x[c] correlated with dy[m]: a convolution over
 * samples as channels, whose steps and spreads change places. What it makes
 * beyond the filter's lengths is cut off. */
bool onnx_out_conv_filter_grad(onnx_writer *w, const char *op)
{
    const int64_t *i = w->node->i;
    int64_t zeros[IR_MAX_SPACE] = {0}, axes[IR_MAX_SPACE];
    int32_t n = space_of(w);
    const char *x = samples_as_channels(w, i[IR_WINDOW_GROUPS]);
    const char *dy = turned(w, w->name[w->node->in[0]], 2, (int64_t[]){1, 0});
    onnx_line line = onnx_line_step(w, op, x);
    line.in[line.n_in++] = dy;
    put_pads(w, &line);
    onnx_line_ints(&line, "strides", n, i + IR_WINDOW_SPREAD);
    onnx_line_ints(&line, "dilations", n, i + IR_WINDOW_STRIDE);
    onnx_line_int(&line, "group", i[IR_WINDOW_GROUPS]);
    const char *dw = turned(w, onnx_write_line(w, &line), 2, (int64_t[]){1, 0});
    for (int32_t k = 0; k < n; k++)
        axes[k] = 2 + k;
    onnx_line slice = onnx_line_step(w, "Slice", dw);
    slice.in[slice.n_in++] = onnx_put_ints(w, n, zeros);
    slice.in[slice.n_in++] =
        onnx_put_ints(w, n, onnx_out_tensor(w, 0)->shape.dim + 2);
    slice.in[slice.n_in++] = onnx_put_ints(w, n, axes);
    slice.out[0] = w->name[w->node->out[0]];
    onnx_write_line(w, &slice);
    return true;
}

/* Each window's gradient to the place of its largest: MaxPool's own, counted
 * through the whole tensor. */
bool onnx_out_max_pool_grad(onnx_writer *w, const char *op)
{
    const ir_shape *x = &onnx_out_tensor(w, 0)->shape;
    const int64_t *i = w->node->i, flat = -1;
    const int64_t count = ir_shape_count(x);
    int64_t dilation[IR_MAX_SPACE];
    int32_t n = space_of(w);
    for (int32_t k = 0; k < n; k++)
        dilation[k] = i[IR_WINDOW_DILATION + k] ? i[IR_WINDOW_DILATION + k] : 1;
    onnx_line line = onnx_line_step(w, op, w->name[w->node->in[1]]);
    line.out[line.n_out++] = onnx_new_name(w, "places");
    put_pads(w, &line);
    onnx_line_ints(&line, "strides", n, i + IR_WINDOW_STRIDE);
    onnx_line_ints(&line, "kernel_shape", n, i + IR_WINDOW_SIZE);
    onnx_line_ints(&line, "dilations", n, dilation);
    onnx_line_int(&line, "ceil_mode",
                  (i[IR_WINDOW_MODE] & IR_WINDOW_CEIL) != 0);
    onnx_write_line(w, &line);
    const char *zeros = onnx_write_pair(
        w, "Expand", onnx_put_number(w, onnx_out_tensor(w, 0)->dtype, 0),
        onnx_put_ints(w, 1, &count));
    onnx_line scatter = onnx_line_step(w, "ScatterElements", zeros);
    scatter.in[scatter.n_in++] = reshaped(w, line.out[1], 1, &flat);
    scatter.in[scatter.n_in++] = reshaped(w, w->name[w->node->in[0]], 1, &flat);
    onnx_line_text(&scatter, "reduction", "add");
    return end(w, "Reshape", onnx_write_line(w, &scatter),
               onnx_put_ints(w, x->rank, x->dim));
}

/* ---- averages ---- */

/* Padding after x (lengths `x`) of which a last window that hangs over has
 * enough: with it, floor and ceil are the same. */
static void wide_pads(const onnx_writer *w, const int64_t *x, const int64_t *y,
                      int64_t after[IR_MAX_SPACE])
{
    const int64_t *i = w->node->i;
    for (int32_t k = 0; k < space_of(w); k++) {
        const int64_t reach =
            (y[k] - 1) * i[IR_WINDOW_STRIDE + k] + i[IR_WINDOW_SIZE + k];
        const int64_t over = reach - i[IR_WINDOW_BEFORE + k] - x[k];
        after[k] =
            over > i[IR_WINDOW_AFTER + k] ? over : i[IR_WINDOW_AFTER + k];
    }
}

static double window_volume(const onnx_writer *w)
{
    double size = 1;
    for (int32_t k = 0; k < space_of(w); k++)
        size *= (double)w->node->i[IR_WINDOW_SIZE + k];
    return size;
}

/* Sums of the windows of x, as a mean that counts all padding by its size. */
static const char *window_means(onnx_writer *w, const char *x,
                                const int64_t *before, const int64_t *after)
{
    const int64_t *i = w->node->i;
    const int32_t n = space_of(w);
    onnx_line line = onnx_line_step(w, "AveragePool", x);
    put_pads_of(w, &line, before, after);
    onnx_line_ints(&line, "strides", n, i + IR_WINDOW_STRIDE);
    onnx_line_ints(&line, "kernel_shape", n, i + IR_WINDOW_SIZE);
    onnx_line_int(&line, "count_include_pad", 1);
    return onnx_write_line(w, &line);
}

/* Only sums: the operator is a mean. */
bool onnx_out_sum_pool(onnx_writer *w, const char *op)
{
    (void)op;
    const int64_t *i = w->node->i;
    int64_t after[IR_MAX_SPACE];
    if (!(i[IR_WINDOW_MODE] & IR_WINDOW_SUM))
        return false;
    wide_pads(w, onnx_in_tensor(w, 0)->shape.dim + 2,
              onnx_out_tensor(w, 0)->shape.dim + 2, after);
    const char *mean =
        window_means(w, w->name[w->node->in[0]], i + IR_WINDOW_BEFORE, after);
    return end(
        w, "Mul", mean,
        onnx_put_number(w, onnx_out_tensor(w, 0)->dtype, window_volume(w)));
}

/* How many elements each window counts, as a plane (1, 1, H'..): those of x,
 * or of x with its padding, but not what hangs over. */
static const char *counted(onnx_writer *w, const int64_t *wide)
{
    const int64_t *i = w->node->i;
    const bool pads = i[IR_WINDOW_MODE] & IR_WINDOW_COUNT_PAD;
    int64_t dim[IR_MAX_RANK] = {1, 1};
    int64_t before[IR_MAX_SPACE], after[IR_MAX_SPACE];
    ir_dtype dtype = onnx_out_tensor(w, 0)->dtype;
    for (int32_t k = 0; k < space_of(w); k++) {
        const int64_t first = pads ? i[IR_WINDOW_BEFORE + k] : 0;
        const int64_t last = pads ? i[IR_WINDOW_AFTER + k] : 0;
        dim[2 + k] = i[IR_WINDOW_LENGTH + k] + first + last;
        before[k] = i[IR_WINDOW_BEFORE + k] - first;
        after[k] = wide[k] - last;
    }
    const char *ones =
        onnx_write_pair(w, "Expand", onnx_put_number(w, dtype, 1),
                        onnx_put_ints(w, 2 + space_of(w), dim));
    return onnx_write_pair(w, "Mul", window_means(w, ones, before, after),
                           onnx_put_number(w, dtype, window_volume(w)));
}

/* The gradient over the window's number of elements, put back on all of them
 * by a transposed convolution with ones, channel by channel. */
bool onnx_out_avg_pool_grad(onnx_writer *w, const char *op)
{
    const int64_t *i = w->node->i;
    const ir_shape *dy = &onnx_in_tensor(w, 0)->shape;
    ir_dtype dtype = onnx_out_tensor(w, 0)->dtype;
    int64_t dim[IR_MAX_RANK] = {dy->dim[1], 1}, extra[IR_MAX_SPACE];
    int64_t after[IR_MAX_SPACE];
    int32_t n = space_of(w);
    wide_pads(w, i + IR_WINDOW_LENGTH, dy->dim + 2, after);
    for (int32_t k = 0; k < n; k++) {
        dim[2 + k] = i[IR_WINDOW_SIZE + k];
        extra[k] = i[IR_WINDOW_LENGTH + k] + i[IR_WINDOW_BEFORE + k] +
                   after[k] - dim[2 + k] -
                   (dy->dim[2 + k] - 1) * i[IR_WINDOW_STRIDE + k];
    }
    const char *share = w->name[w->node->in[0]];
    if (!(i[IR_WINDOW_MODE] & IR_WINDOW_SUM))
        share = onnx_write_pair(w, "Div", share, counted(w, after));
    const char *ones =
        onnx_write_pair(w, "Expand", onnx_put_number(w, dtype, 1),
                        onnx_put_ints(w, 2 + n, dim));
    onnx_line line = onnx_line_step(w, op, share);
    line.in[line.n_in++] = ones;
    put_pads_of(w, &line, i + IR_WINDOW_BEFORE, after);
    onnx_line_ints(&line, "strides", n, i + IR_WINDOW_STRIDE);
    onnx_line_ints(&line, "output_padding", n, extra);
    onnx_line_int(&line, "group", dy->dim[1]);
    line.out[0] = w->name[w->node->out[0]];
    onnx_write_line(w, &line);
    return true;
}
