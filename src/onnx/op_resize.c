/* Importing Resize and Upsample: per axis, the places and weights that every
 * place of the result is made of. */
#include "config.h"
#include "onnx/operators.h"

#include "ir/element.h"

#include <math.h>
#include <string.h>

enum { MAX_REACH = 4096 };

typedef enum method { NEAREST, LINEAR, CUBIC } method;
typedef enum coordinates {
    HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_HALF_PIXEL_FOR_NN,
    TF_CROP_AND_RESIZE
} coordinates;
typedef enum rounding {
    ROUND_PREFER_FLOOR,
    ROUND_PREFER_CEIL,
    FLOOR,
    CEIL
} rounding;

/* What the attributes say, and one axis. */
typedef struct resize {
    method method;
    coordinates coordinates;
    rounding rounding;
    bool exclude_outside, antialias;
    double cubic, extrapolation;
    int64_t from, to; /* lengths */
    double scale;
    double roi[2]; /* start, end: crop */
} resize;

/* Position of attribute `name` among `names`, `usual` when absent. */
static fs_status get_choice(onnx_ctx *c, const char *name,
                            const char *const *names, int32_t usual,
                            int32_t *out)
{
    const char *text = onnx_attr_text(c, name, names[usual]);
    for (*out = 0; names[*out]; ++*out)
        if (strcmp(names[*out], text) == 0)
            return FS_OK;
    return onnx_fail(c, "%s \"%.80s\" is unknown", name, text);
}

/* Before opset 11 a place is that of the input divided by the scale, cut. */
static fs_status get_rules(onnx_ctx *c, resize *out)
{
    static const char *const methods[] = {"nearest", "linear", "cubic", NULL};
    static const char *const rules[] = {
        "half_pixel",         "half_pixel_symmetric",
        "pytorch_half_pixel", "align_corners",
        "asymmetric",         "tf_half_pixel_for_nn",
        "tf_crop_and_resize", NULL};
    static const char *const roundings[] = {
        "round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
    const bool old = c->opset < 11 || c->arg;
    int32_t how, rule, round;
    FS_TRY(get_choice(c, "mode", methods, NEAREST, &how));
    FS_TRY(get_choice(c, "coordinate_transformation_mode", rules,
                      old ? ASYMMETRIC : HALF_PIXEL, &rule));
    FS_TRY(get_choice(c, "nearest_mode", roundings,
                      old ? FLOOR : ROUND_PREFER_FLOOR, &round));
    *out =
        (resize){.method = (method)how,
                 .coordinates = (coordinates)rule,
                 .rounding = (rounding)round,
                 .exclude_outside = onnx_attr_int(c, "exclude_outside", 0) != 0,
                 .antialias = onnx_attr_int(c, "antialias", 0) != 0,
                 .cubic = onnx_attr_real(c, "cubic_coeff_a", -0.75),
                 .extrapolation = onnx_attr_real(c, "extrapolation_value", 0),
                 .roi = {0, 1}};
    return FS_OK;
}

/* Where place `at` of the result lies on the input's axis. */
static double source_of(const resize *r, int64_t at)
{
    const double x = (double)at, from = (double)r->from, to = (double)r->to;
    const double centre = (x + 0.5) / r->scale;
    const double first = r->roi[0] * (from - 1);
    const double wide = (r->roi[1] - r->roi[0]) * (from - 1);
    switch (r->coordinates) {
    case HALF_PIXEL:
        return centre - 0.5;
    case HALF_PIXEL_SYMMETRIC:
        return from / 2 * (1 - to / (r->scale * from)) + centre - 0.5;
    case PYTORCH_HALF_PIXEL:
        return r->to > 1 ? centre - 0.5 : 0;
    case ALIGN_CORNERS:
        return r->to > 1 ? x * (from - 1) / (to - 1) : 0;
    case ASYMMETRIC:
        return x / r->scale;
    case TF_HALF_PIXEL_FOR_NN:
        return centre;
    case TF_CROP_AND_RESIZE:
        return r->to > 1 ? first + x * wide / (to - 1) : first + wide / 2;
    }
    return 0;
}

static double nearest(const resize *r, double x)
{
    switch (r->rounding) {
    case ROUND_PREFER_FLOOR:
        return ceil(x - 0.5);
    case ROUND_PREFER_CEIL:
        return floor(x + 0.5);
    case FLOOR:
        return floor(x);
    case CEIL:
        return ceil(x);
    }
    return 0;
}

/* Weight of an element that lies `distance` away: a triangle, or the cubic
 * convolution kernel (Keys 1981, a = cubic_coeff_a). */
static double weight_at(const resize *r, double distance)
{
    const double t = fabs(distance), a = r->cubic;
    if (r->method == LINEAR)
        return t < 1 ? 1 - t : 0;
    if (t <= 1)
        return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

/* Without antialiasing, or when growing, an element counts as it is. */
static double width_of(const resize *r)
{
    return r->antialias && r->scale < 1 ? r->scale : 1;
}

/* Taps on each side of a place. */
static int64_t reach_of(const resize *r)
{
    if (r->method == NEAREST)
        return 1;
    return ir_saturate(ceil((r->method == LINEAR ? 1 : 2) / width_of(r)));
}

/* Elements beyond the ends are those at the ends, or are not counted. */
static void fill_taps(const resize *r, double x, int64_t *place, double *weight)
{
    const double far = 0x1p52;
    x = fmax(-far, fmin(x, far));
    const int64_t reach = reach_of(r), base = ir_saturate(floor(x));
    double total = 0;
    for (int64_t k = 0; k < 2 * reach; k++) {
        const int64_t at = base - reach + 1 + k;
        const bool outside = at < 0 || at >= r->from;
        weight[k] = weight_at(r, ((double)at - x) * width_of(r));
        place[k] = at < 0 ? 0 : at < r->from ? at : r->from - 1;
        if (outside && r->exclude_outside)
            weight[k] = 0;
        total += weight[k];
    }
    for (int64_t k = 0; k < 2 * reach && total != 0; k++)
        weight[k] /= total;
}

static void fill_nearest(const resize *r, double x, int64_t *place,
                         double *weight)
{
    const int64_t at = ir_saturate(nearest(r, x));
    *place = at < 0 ? 0 : at < r->from ? at : r->from - 1;
    *weight = 1;
}

/* Only cropping looks for places that are not there. */
static bool is_outside(const resize *r, int64_t at)
{
    const double x = source_of(r, at);
    return r->coordinates == TF_CROP_AND_RESIZE &&
           (x < 0 || x > (double)(r->from - 1));
}

/* Places and weights of all places of the result. */
static void fill_axis(const resize *r, int64_t taps, int64_t *place,
                      const ir_dtype dtype, void *typed)
{
    double weight[2 * MAX_REACH];
    for (int64_t o = 0; o < r->to; o++) {
        const double at = source_of(r, o);
        if (r->method == NEAREST)
            fill_nearest(r, at, place + o, weight);
        else
            fill_taps(r, at, place + o * taps, weight);
        for (int64_t k = 0; k < taps; k++)
            ir_element_set_real(dtype, typed, o * taps + k,
                                is_outside(r, o) ? 0 : weight[k]);
    }
}

static int32_t resample_axis(onnx_ctx *c, int32_t x, int32_t axis,
                             const resize *r)
{
    const int64_t taps = r->method == NEAREST ? 1 : 2 * reach_of(r);
    const ir_shape shape = ir_shape_make(2, (int64_t[]){r->to, taps});
    const ir_dtype dtype = c->graph->tensors.at[x].dtype;
    const char *scope = c->graph->scope;
    void *place, *weight;
    if (onnx_const_new(c, IR_I64, &shape, &place) != FS_OK ||
        onnx_const_new(c, dtype, &shape, &weight) != FS_OK)
        return -1;
    fill_axis(r, taps, place, dtype, weight);
    ir_node node = {.op = IR_OP_resample, .n_in = 3, .in = {x}};
    node.in[1] =
        ir_constant(c->graph, fs_printf(c->arena, "%s/places%d", scope, axis),
                    IR_I64, shape, place);
    node.in[2] =
        ir_constant(c->graph, fs_printf(c->arena, "%s/weights%d", scope, axis),
                    dtype, shape, weight);
    node.i[0] = axis;
    node.i[1] = r->from;
    return ir_append(c->graph, &node);
}

/* 1 where places of axis k are there, else 0; *any: are some not? */
static int32_t inside_along(onnx_ctx *c, const resize *r, int32_t k, int32_t y,
                            bool *any)
{
    ir_shape shape = {.rank = ir_shape_of(c->graph, y).rank};
    const ir_dtype dtype = c->graph->tensors.at[y].dtype;
    void *mask;
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = i == k ? r->to : 1;
    *any = false;
    for (int64_t o = 0; o < r->to && !*any; o++)
        *any = is_outside(r, o);
    if (!*any || onnx_const_new(c, dtype, &shape, &mask) != FS_OK)
        return -1;
    for (int64_t o = 0; o < r->to; o++)
        ir_element_set_real(dtype, mask, o, !is_outside(r, o));
    const char *name = fs_printf(c->arena, "%s/inside%d", c->graph->scope, k);
    return ir_constant(c->graph, name, dtype, shape, mask);
}

/* What is put where a crop reaches beyond the input: extrapolation_value times
 * (1 - inside), where `inside` is a product over axes of 0 and 1. */
static int32_t add_outside(onnx_ctx *c, int32_t y, const resize *axes)
{
    ir_graph *g = c->graph;
    const double value = axes[0].extrapolation;
    const int32_t rank = ir_shape_of(g, y).rank;
    int32_t inside = -1;
    bool any;
    if (value == 0 || axes[0].coordinates != TF_CROP_AND_RESIZE)
        return y;
    for (int32_t k = 0; k < rank; k++) {
        int32_t one = inside_along(c, &axes[k], k, y, &any);
        if (any && one < 0)
            return -1;
        if (any)
            inside = inside < 0 ? one : ir_binary(g, IR_OP_mul, inside, one);
    }
    if (inside < 0)
        return y;
    return ir_binary(g, IR_OP_add, y, ir_scale(g, inside, -value, value));
}

/* ---- lengths and scales ---- */

/* A list of reals from attribute `name` (Upsample of opset 7) or input i;
 * NULL without, or when it is empty. */
static fs_status get_reals(onnx_ctx *c, const char *name, int32_t i,
                           onnx_const *out)
{
    const onnx_attr *attr = onnx_attr_find(c, name);
    const onnx_const *known;
    *out = (onnx_const){.dtype = IR_F64};
    if (attr) {
        out->shape = ir_shape_make(1, (int64_t[]){attr->floats.n});
        out->data = attr->floats.at;
    } else if (onnx_has(c, i)) {
        FS_TRY(onnx_need(c, i, name, &known));
        *out = *known;
    }
    if (out->data && onnx_const_count(out) == 0)
        out->data = NULL;
    return FS_OK;
}

static bool keeps(const resize *r)
{
    const bool crops = r->coordinates == TF_CROP_AND_RESIZE;
    return r->from == r->to && (crops || r->scale == 1) && r->roi[0] == 0 &&
           r->roi[1] == 1 && r->coordinates != TF_HALF_PIXEL_FOR_NN;
}

static fs_status check_axis(onnx_ctx *c, const resize *r, int32_t axis)
{
    if (!(r->scale > 0) || r->to < 1 || r->to > INT32_MAX)
        return onnx_fail(c, "axis %d: a scale of %g, a result of %lld elements",
                         axis, r->scale, (long long)r->to);
    if (r->method != NEAREST && !keeps(r) && reach_of(r) > MAX_REACH)
        return onnx_fail(c, "axis %d: a scale of %g, antialiased, is too small",
                         axis, r->scale);
    return FS_OK;
}

/* The product is rounded to float as exporters and runtimes do. */
static fs_status set_scales(onnx_ctx *c, const onnx_const *scales,
                            const int32_t *axes, resize *out)
{
    for (int32_t k = 0; k < onnx_const_count(scales); k++) {
        resize *r = &out[axes[k]];
        r->scale = onnx_const_real(scales, k);
        r->to = ir_saturate(floor((float)r->scale * (float)r->from));
        FS_TRY(check_axis(c, r, axes[k]));
    }
    return FS_OK;
}

/* keep_aspect_ratio_policy: all axes take the smallest or largest scale. */
static fs_status set_sizes(onnx_ctx *c, const onnx_ints *sizes,
                           const int32_t *axes, resize *out)
{
    static const char *const policies[] = {"stretch", "not_larger",
                                           "not_smaller", NULL};
    int32_t policy;
    double one = 0;
    FS_TRY(get_choice(c, "keep_aspect_ratio_policy", policies, 0, &policy));
    for (int32_t k = 0; k < sizes->n; k++) {
        resize *r = &out[axes[k]];
        int64_t size = sizes->at[k];
        if (c->before && onnx_in_before(c).dim[axes[k]] == size)
            size = r->from; /* the batch, or an axis that stays */
        r->to = size;
        r->scale = (double)size / (double)r->from;
        if (k == 0 || (policy == 1 ? r->scale < one : r->scale > one))
            one = r->scale;
    }
    for (int32_t k = 0; k < sizes->n; k++) {
        resize *r = &out[axes[k]];
        if (policy != 0) {
            r->scale = one;
            r->to = ir_saturate(floor(one * (double)r->from + 0.5));
        }
        FS_TRY(check_axis(c, r, axes[k]));
    }
    return FS_OK;
}

static fs_status set_roi(onnx_ctx *c, const int32_t *axes, int64_t n,
                         resize *out)
{
    onnx_const roi;
    FS_TRY(get_reals(c, "roi", 1, &roi));
    if (!roi.data || onnx_const_count(&roi) != 2 * n)
        return onnx_fail(c, "a crop needs a roi of %lld numbers",
                         (long long)(2 * n));
    for (int32_t k = 0; k < n; k++) {
        out[axes[k]].roi[0] = onnx_const_real(&roi, k);
        out[axes[k]].roi[1] = onnx_const_real(&roi, n + k);
    }
    return FS_OK;
}

static fs_status get_axes(onnx_ctx *c, int32_t rank, int64_t n, int32_t *out)
{
    onnx_ints list;
    uint32_t seen = 0;
    FS_TRY(onnx_get_ints(c, "axes", -1, &list));
    if (n != (list.n >= 0 ? list.n : rank) || n > rank)
        return onnx_fail(c, "%lld scales or sizes for %lld axes", (long long)n,
                         (long long)(list.n >= 0 ? list.n : rank));
    for (int32_t k = 0; k < n; k++) {
        out[k] = k;
        if (list.n >= 0)
            FS_TRY(onnx_axis(c, list.at[k], rank, &out[k]));
        if (seen >> out[k] & 1)
            return onnx_fail(c, "axis %d is given twice", out[k]);
        seen |= 1u << out[k];
    }
    return FS_OK;
}

static fs_status get_resize(onnx_ctx *c, const ir_shape *in, resize *out)
{
    const bool old = c->opset < 11 || c->arg;
    onnx_const scales;
    onnx_ints sizes = {-1, NULL};
    int32_t axes[IR_MAX_RANK];
    resize rules;
    FS_TRY(get_rules(c, &rules));
    FS_TRY(get_reals(c, "scales", old ? 1 : 2, &scales));
    if (!scales.data)
        FS_TRY(onnx_get_ints(c, NULL, old ? -1 : 3, &sizes));
    if (!scales.data && sizes.n < 0)
        return onnx_fail(c, "neither scales nor sizes are given");
    const int64_t n = scales.data ? onnx_const_count(&scales) : sizes.n;
    FS_TRY(get_axes(c, in->rank, n, axes));
    for (int32_t k = 0; k < in->rank; k++) {
        out[k] = rules;
        out[k].from = out[k].to = in->dim[k];
        out[k].scale = 1;
    }
    if (rules.coordinates == TF_CROP_AND_RESIZE)
        FS_TRY(set_roi(c, axes, n, out));
    return scales.data ? set_scales(c, &scales, axes, out)
                       : set_sizes(c, &sizes, axes, out);
}

/* Weights are reals: integers are resized as reals. */
fs_status onnx_import_resize(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in;
    resize axes[IR_MAX_RANK];
    FS_TRY(onnx_shape(c, 0, &in));
    if (in.rank == 0)
        return onnx_fail(c, "its input is a scalar");
    FS_TRY(get_resize(c, &in, axes));
    int32_t x = onnx_in(c, 0);
    const ir_dtype dtype = onnx_dtype_of(c, 0);
    if (!ir_dtype_is_float(dtype))
        x = ir_cast(g, x, IR_F64);
    for (int32_t k = 0; k < in.rank && x >= 0; k++)
        if (!keeps(&axes[k]))
            x = resample_axis(c, x, k, &axes[k]);
    if (x >= 0)
        x = add_outside(c, x, axes);
    if (!ir_dtype_is_float(dtype))
        x = ir_cast(g, x, dtype);
    return onnx_set(c, 0, x);
}
