/* Importing poolings over windows and over whole planes. */
#include "config.h"
#include "onnx/window.h"

#include "ir/element.h"
#include "onnx/operators.h"

#include <string.h>

/* Attributes of a pooling. */
static fs_status get_pool(onnx_ctx *c, int64_t attr[IR_WINDOW_ATTRS])
{
    ir_shape in;
    ir_window w;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_window_get(c, &in, NULL, &w));
    FS_TRY(onnx_window_pad(c, &in, &w));
    onnx_window_write(&w, attr);
    memcpy(attr + IR_WINDOW_SIZE, w.size, sizeof w.size);
    memcpy(attr + IR_WINDOW_DILATION, w.dilation, sizeof w.dilation);
    attr[IR_WINDOW_MODE] =
        onnx_attr_int(c, "ceil_mode", 0) ? IR_WINDOW_CEIL : 0;
    return FS_OK;
}

/* Places in planes become places in the whole tensor. */
static int32_t add_planes(onnx_ctx *c, int32_t index, const ir_shape *in)
{
    ir_shape shape = {.rank = in->rank, .dim = {in->dim[0], in->dim[1]}};
    const int64_t n = in->dim[0] * in->dim[1];
    int64_t plane = 1;
    void *first;
    for (int32_t k = 2; k < in->rank; k++) {
        shape.dim[k] = 1;
        plane *= in->dim[k];
    }
    if (onnx_const_new(c, IR_I64, &shape, &first) != FS_OK)
        return -1;
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)first)[i] = i * plane;
    const char *name = fs_printf(c->arena, "%s/planes", c->graph->scope);
    return ir_binary(c->graph, IR_OP_add, index,
                     ir_constant(c->graph, name, IR_I64, shape, first));
}

/* Kernels pool floats; small integers are exact in them. */
fs_status onnx_import_max_pool(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    int64_t attr[IR_WINDOW_ATTRS];
    ir_shape in;
    FS_TRY(get_pool(c, attr));
    FS_TRY(onnx_shape(c, 0, &in));
    int32_t x = onnx_in(c, 0);
    const ir_dtype dtype = onnx_dtype_of(c, 0);
    const bool whole = !ir_dtype_is_float(dtype);
    if (whole)
        x = ir_cast(g, x, IR_F64);
    int32_t y = ir_pool(g, IR_OP_max_pool, x, attr);
    FS_TRY(onnx_set(c, 0, whole ? ir_cast(g, y, dtype) : y));
    if (!onnx_wants(c, 1))
        return FS_OK;
    if (onnx_attr_int(c, "storage_order", 0))
        attr[IR_WINDOW_MODE] |= IR_WINDOW_BY_COLUMN;
    return onnx_set(
        c, 1, add_planes(c, ir_pool(g, IR_OP_max_pool_index, x, attr), &in));
}

/* Windows with gaps: a mean has no attributes for them, a convolution has. */
static bool has_gaps(const int64_t attr[IR_WINDOW_ATTRS])
{
    for (int32_t k = 0; k < IR_MAX_SPACE; k++)
        if (attr[IR_WINDOW_DILATION + k] > 1 && attr[IR_WINDOW_SIZE + k] > 1)
            return true;
    return false;
}

/* Ones, one filter per channel. */
static int32_t ones_filter(onnx_ctx *c, ir_dtype dtype, const ir_shape *shape)
{
    void *data;
    if (onnx_const_new(c, dtype, shape, &data) != FS_OK)
        return -1;
    const int64_t n = ir_shape_count(shape);
    for (int64_t i = 0; i < n; i++)
        ir_element_set_real(dtype, data, i, 1);
    const char *name = fs_printf(c->arena, "%s/ones", c->graph->scope);
    return ir_constant(c->graph, name, dtype, *shape, data);
}

/* Sums over windows with gaps: channel by channel a convolution with ones. A
 * window that hangs over the edge finds zeros there. */
static int32_t sum_with_gaps(onnx_ctx *c, int32_t x,
                             const int64_t pool[IR_WINDOW_ATTRS])
{
    const ir_shape in = ir_shape_of(c->graph, x);
    ir_shape y = in, ones = {.rank = in.rank, .dim = {in.dim[1], 1}};
    int64_t attr[IR_WINDOW_ATTRS] = {[IR_WINDOW_GROUPS] = in.dim[1]};
    ir_window w = {.n = in.rank - 2,
                   .ceil = pool[IR_WINDOW_MODE] & IR_WINDOW_CEIL};
    if (x < 0)
        return -1;
    memcpy(w.stride, pool + IR_WINDOW_STRIDE, sizeof w.stride);
    memcpy(w.before, pool + IR_WINDOW_BEFORE, sizeof w.before);
    memcpy(w.after, pool + IR_WINDOW_AFTER, sizeof w.after);
    memcpy(w.size, pool + IR_WINDOW_SIZE, sizeof w.size);
    memcpy(w.dilation, pool + IR_WINDOW_DILATION, sizeof w.dilation);
    if (ir_window_slide(&w, &in, c->err, &y) != FS_OK)
        return -1;
    memcpy(attr, pool, IR_WINDOW_SPREAD * sizeof *attr);
    for (int32_t k = 0; k < w.n; k++) {
        int64_t last = (y.dim[2 + k] - 1) * w.stride[k] - w.before[k];
        int64_t end = last + (w.size[k] - 1) * w.dilation[k] + 1;
        int64_t over = end - in.dim[2 + k];
        attr[IR_WINDOW_SPREAD + k] = w.dilation[k];
        attr[IR_WINDOW_AFTER + k] = over > 0 ? over : 0;
        ones.dim[2 + k] = w.size[k];
    }
    const ir_dtype dtype = c->graph->tensors.at[x].dtype;
    return ir_conv(c->graph, x, ones_filter(c, dtype, &ones), attr);
}

/* Elements that the windows count along axis k: on x, or on its padding. */
static double counted(const int64_t pool[IR_WINDOW_ATTRS], int32_t k,
                      int64_t length, int64_t window)
{
    const bool padding = pool[IR_WINDOW_MODE] & IR_WINDOW_COUNT_PAD;
    const int64_t before = pool[IR_WINDOW_BEFORE + k];
    const int64_t low = padding ? -before : 0;
    const int64_t high = length + (padding ? pool[IR_WINDOW_AFTER + k] : 0);
    int64_t n = 0;
    for (int64_t t = 0; t < pool[IR_WINDOW_SIZE + k]; t++) {
        int64_t at = window * pool[IR_WINDOW_STRIDE + k] - before +
                     t * pool[IR_WINDOW_DILATION + k];
        n += at >= low && at < high;
    }
    return n > 0 ? (double)n : 1;
}

/* What the windows along axis k count, as a tensor to divide by. */
static int32_t counts_along(onnx_ctx *c, const int64_t pool[IR_WINDOW_ATTRS],
                            int32_t k, int32_t x, int32_t y)
{
    const ir_shape in = ir_shape_of(c->graph, x),
                   out = ir_shape_of(c->graph, y);
    const ir_dtype dtype = c->graph->tensors.at[y].dtype;
    ir_shape shape = {.rank = out.rank};
    void *counts;
    for (int32_t j = 0; j < out.rank; j++)
        shape.dim[j] = j == 2 + k ? out.dim[j] : 1;
    if (onnx_const_new(c, dtype, &shape, &counts) != FS_OK)
        return -1;
    for (int64_t o = 0; o < out.dim[2 + k]; o++)
        ir_element_set_real(dtype, counts, o,
                            counted(pool, k, in.dim[2 + k], o));
    const char *name = fs_printf(c->arena, "%s/counts%d", c->graph->scope, k);
    return ir_constant(c->graph, name, dtype, shape, counts);
}

static int32_t mean_with_gaps(onnx_ctx *c, int32_t x,
                              const int64_t pool[IR_WINDOW_ATTRS])
{
    int32_t sum = sum_with_gaps(c, x, pool);
    const int32_t n = ir_shape_of(c->graph, sum).rank - 2;
    for (int32_t k = 0; k < n && sum >= 0; k++)
        sum = ir_binary(c->graph, IR_OP_div, sum,
                        counts_along(c, pool, k, x, sum));
    return sum;
}

fs_status onnx_import_average_pool(onnx_ctx *c)
{
    int64_t attr[IR_WINDOW_ATTRS];
    FS_TRY(get_pool(c, attr));
    if (onnx_attr_int(c, "count_include_pad", 0))
        attr[IR_WINDOW_MODE] |= IR_WINDOW_COUNT_PAD;
    int32_t x = onnx_in(c, 0);
    return onnx_set(c, 0,
                    has_gaps(attr)
                        ? mean_with_gaps(c, x, attr)
                        : ir_pool(c->graph, IR_OP_avg_pool, x, attr));
}

/* |x|^p, to be summed; and the root of the sum. */
static int32_t powers(ir_graph *g, int32_t x, double p)
{
    if (p != 2)
        x = ir_unary(g, IR_OP_abs, x);
    return p == 1 ? x : ir_power(g, x, p);
}

static int32_t root(ir_graph *g, int32_t x, double p)
{
    if (p == 2)
        return ir_unary(g, IR_OP_sqrt, x);
    return p == 1 ? x : ir_power(g, x, 1 / p);
}

/* A whole number since opset 2. */
static fs_status get_norm(onnx_ctx *c, double *out)
{
    *out = onnx_attr_real(c, "p", (double)onnx_attr_int(c, "p", 2));
    return *out > 0 ? FS_OK : onnx_fail(c, "a norm of order %g", *out);
}

fs_status onnx_import_lp_pool(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    int64_t attr[IR_WINDOW_ATTRS];
    double p;
    FS_TRY(get_pool(c, attr));
    FS_TRY(get_norm(c, &p));
    attr[IR_WINDOW_MODE] |= IR_WINDOW_SUM;
    int32_t x = powers(g, onnx_in(c, 0), p);
    x = has_gaps(attr) ? sum_with_gaps(c, x, attr)
                       : ir_pool(g, IR_OP_avg_pool, x, attr);
    return onnx_set(c, 0, root(g, x, p));
}

static fs_status get_planes(onnx_ctx *c, ir_shape *in)
{
    FS_TRY(onnx_shape(c, 0, in));
    return in->rank >= 3 ? FS_OK
                         : onnx_fail(c, "its input has no spatial axes");
}

static uint32_t spatial_axes(const ir_shape *in)
{
    return ((1u << in->rank) - 1) & ~3u;
}

fs_status onnx_import_global_average_pool(onnx_ctx *c)
{
    ir_shape in;
    FS_TRY(get_planes(c, &in));
    return onnx_set(
        c, 0, ir_reduce_mean(c->graph, onnx_in(c, 0), spatial_axes(&in), true));
}

fs_status onnx_import_global_lp_pool(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in;
    double p;
    FS_TRY(get_planes(c, &in));
    FS_TRY(get_norm(c, &p));
    int32_t x = powers(g, onnx_in(c, 0), p);
    return onnx_set(c, 0,
                    root(g, ir_reduce_sum(g, x, spatial_axes(&in), true), p));
}

fs_status onnx_import_global_max_pool(onnx_ctx *c)
{
    ir_shape in;
    FS_TRY(get_planes(c, &in));
    return onnx_set(c, 0,
                    ir_reduce(c->graph, IR_OP_reduce_max, onnx_in(c, 0),
                              spatial_axes(&in), true));
}

/* Lengths that pooling by this window came from. */
static fs_status unpooled_shape(onnx_ctx *c, const ir_shape *in, ir_shape *out)
{
    ir_window w;
    FS_TRY(onnx_window_get(c, in, NULL, &w));
    *out = *in;
    for (int32_t k = 0; k < w.n; k++) {
        int64_t length;
        if (__builtin_mul_overflow(in->dim[2 + k] - 1, w.stride[k], &length) ||
            __builtin_add_overflow(length, w.size[k] - w.before[k] - w.after[k],
                                   &length) ||
            length < 1 || length > INT32_MAX)
            return onnx_fail(c, "its result is too long or empty on axis %d",
                             2 + k);
        out->dim[2 + k] = length;
    }
    return ir_shape_check(out, "its result", c->err);
}

/* An output_shape that is larger has zeros behind. */
static fs_status enlarge(onnx_ctx *c, int32_t y, const ir_shape *shape)
{
    onnx_ints wanted;
    FS_TRY(onnx_get_ints(c, NULL, 2, &wanted));
    if (wanted.n >= 0 && wanted.n != shape->rank)
        return onnx_fail(c, "output_shape has %lld numbers, not %d",
                         (long long)wanted.n, shape->rank);
    for (int32_t k = 0; k < wanted.n; k++) {
        if (wanted.at[k] < shape->dim[k] || wanted.at[k] > INT32_MAX)
            return onnx_fail(c,
                             "output_shape of %lld on axis %d, which has "
                             "%lld elements",
                             (long long)wanted.at[k], k,
                             (long long)shape->dim[k]);
        if (wanted.at[k] > shape->dim[k])
            y = ir_pad(c->graph, y, k, 0, wanted.at[k] - shape->dim[k]);
    }
    return onnx_set(c, 0, y);
}

/* Each element goes to its index in the whole tensor; two that go to one place
 * (windows that overlapped) are added. */
fs_status onnx_import_max_unpool(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in, places, out;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_shape(c, 1, &places));
    if (!ir_shape_equal(&in, &places))
        return onnx_fail(c, "its indices have another shape than its input");
    FS_TRY(unpooled_shape(c, &in, &out));
    ir_shape flat = ir_shape_make(1, (int64_t[]){ir_shape_count(&in)});
    ir_node node = {.op = IR_OP_gather_grad, .n_in = 2};
    node.in[0] = ir_reshape(g, onnx_in(c, 0), flat);
    node.in[1] = ir_reshape(g, onnx_in(c, 1), flat);
    node.i[0] = ir_shape_count(&out);
    return enlarge(c, ir_reshape(g, ir_append(g, &node), out), &out);
}
