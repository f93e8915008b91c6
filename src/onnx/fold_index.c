/* Folding of what goes by positions: those that are found, whose results have
 * no shape before, and triangles. */
#include "config.h"
#include "onnx/operators.h"

#include "ir/element.h"

#include <stdlib.h>
#include <math.h>
#include <string.h>

fs_status onnx_fold_non_zero(onnx_ctx *c)
{
    const onnx_const *in;
    void *data;
    FS_TRY(onnx_need(c, 0, "its input", &in));
    int64_t n = onnx_const_count(in), found = 0, at = 0;
    for (int64_t i = 0; i < n; i++)
        found += onnx_const_real(in, i) != 0;
    int64_t rank = in->shape.rank ? in->shape.rank : 1;
    ir_shape shape = {.rank = 2, .dim = {rank, found}};
    FS_TRY(onnx_const_new(c, IR_I64, &shape, &data));
    int64_t *out = data;
    for (int64_t i = 0; i < n; i++) {
        if (onnx_const_real(in, i) == 0)
            continue;
        for (int64_t k = rank - 1, rest = i; k >= 0; k--) {
            int64_t dim = in->shape.rank ? in->shape.dim[k] : 1;
            out[k * found + at] = rest % dim;
            rest /= dim;
        }
        at++;
    }
    return onnx_set_known(c, 0, &(onnx_const){IR_I64, shape, data});
}

fs_status onnx_fold_eye_like(onnx_ctx *c)
{
    ir_shape shape;
    ir_dtype dtype;
    void *data;
    FS_TRY(onnx_shape(c, 0, &shape));
    if (shape.rank != 2)
        return onnx_fail(c, "its input must be a matrix");
    const onnx_attr *attr = onnx_attr_find(c, "dtype");
    dtype = onnx_dtype_of(c, 0);
    if (attr)
        FS_TRY(onnx_dtype_parse(attr->i, "dtype", c->err, &dtype));
    int64_t k = onnx_attr_int(c, "k", 0);
    FS_TRY(onnx_const_new(c, dtype, &shape, &data));
    for (int64_t i = 0; i < shape.dim[0]; i++) {
        int64_t column;
        if (!__builtin_add_overflow(i, k, &column) && column >= 0 &&
            column < shape.dim[1])
            ir_element_set_real(dtype, data, i * shape.dim[1] + column, 1);
    }
    return onnx_set_known(c, 0, &(onnx_const){dtype, shape, data});
}

/* Sums of cosines over a window of known length. */
fs_status onnx_fold_cosine_window(onnx_ctx *c)
{
    static const double term[][3] = {
        [ONNX_HANN] = {0.5, -0.5, 0},
        [ONNX_HAMMING] = {25.0 / 46, -21.0 / 46, 0},
        [ONNX_BLACKMAN] = {0.42, -0.5, 0.08}};
    const onnx_const *size;
    ir_dtype dtype;
    void *data;
    FS_TRY(onnx_need(c, 0, "the size", &size));
    FS_TRY(onnx_dtype_parse(onnx_attr_int(c, "output_datatype", 1),
                            "output_datatype", c->err, &dtype));
    if (onnx_const_count(size) != 1 || onnx_const_int(size, 0) < 0)
        return onnx_fail(c, "its size must be one number, not below 0");
    const int64_t n = onnx_const_int(size, 0);
    const ir_shape shape = ir_shape_make(1, &n);
    const double period = (double)(onnx_attr_int(c, "periodic", 1) ? n : n - 1);
    FS_TRY(onnx_const_new(c, dtype, &shape, &data));
    for (int64_t i = 0; i < n; i++) {
        const double turn = period > 0 ? 2 * acos(-1) * (double)i / period : 0;
        const double *t = term[c->arg];
        ir_element_set_real(dtype, data, i,
                            t[0] + t[1] * cos(turn) + t[2] * cos(2 * turn));
    }
    return onnx_set_known(c, 0, &(onnx_const){dtype, shape, data});
}

/* Slices of a value along an axis, to be compared. */
typedef struct slices {
    const onnx_const *in;
    int64_t n, outer, inner;
} slices;

static double at(const slices *s, int64_t slice, int64_t e)
{
    return onnx_const_real(s->in, (e / s->inner * s->n + slice) * s->inner +
                                      e % s->inner);
}

static int order(const slices *s, int64_t a, int64_t b)
{
    for (int64_t e = 0; e < s->outer * s->inner; e++) {
        double x = at(s, a, e), y = at(s, b, e);
        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

/* Merge sort by slice, stable: equal slices stay in order of position. */
static void sort(const slices *s, int64_t *list, int64_t *room, int64_t n)
{
    if (n < 2)
        return;
    int64_t half = n / 2, a = 0, b = half;
    sort(s, list, room, half);
    sort(s, list + half, room, n - half);
    for (int64_t i = 0; i < n; i++) {
        bool left = a < half && (b == n || order(s, list[a], list[b]) <= 0);
        room[i] = left ? list[a++] : list[b++];
    }
    memcpy(list, room, (size_t)n * sizeof *list);
}

/* Distinct slices: where each stands first, which one each slice is, how
 * often. */
typedef struct distinct {
    int64_t n;
    int64_t *first, *which, *count;
} distinct;

static int by_position(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static distinct find_distinct(onnx_ctx *c, const slices *s, bool sorted)
{
    distinct d = {0, fs_new(c->arena, int64_t, s->n),
                  fs_new(c->arena, int64_t, s->n),
                  fs_new(c->arena, int64_t, s->n)};
    int64_t *list = fs_new(c->arena, int64_t, s->n);
    int64_t *leader = fs_new(c->arena, int64_t, s->n);
    int64_t *number = fs_new(c->arena, int64_t, s->n);
    for (int64_t i = 0; i < s->n; i++)
        list[i] = i;
    sort(s, list, d.which, s->n);
    for (int64_t i = 0; i < s->n; i++) {
        if (i == 0 || order(s, list[i - 1], list[i]) != 0)
            d.first[d.n++] = list[i];
        leader[list[i]] = d.first[d.n - 1];
    }
    if (!sorted)
        qsort(d.first, (size_t)d.n, sizeof *d.first, by_position);
    for (int64_t i = 0; i < d.n; i++)
        number[d.first[i]] = i;
    for (int64_t i = 0; i < s->n; i++)
        d.count[d.which[i] = number[leader[i]]]++;
    return d;
}

static fs_status set_list(onnx_ctx *c, int32_t i, int64_t n,
                          const int64_t *list)
{
    return onnx_set_known(c, i,
                          &(onnx_const){IR_I64, ir_shape_make(1, &n), list});
}

fs_status onnx_fold_unique(onnx_ctx *c)
{
    const onnx_const *in;
    void *data;
    int32_t axis = 0;
    FS_TRY(onnx_need(c, 0, "its input", &in));
    onnx_const flat = *in;
    const onnx_attr *attr = onnx_attr_find(c, "axis");
    if (attr)
        FS_TRY(onnx_axis(c, attr->i, in->shape.rank, &axis));
    else
        flat.shape = (ir_shape){.rank = 1, .dim = {onnx_const_count(in)}};
    slices s = {&flat, flat.shape.dim[axis], 1, 1};
    for (int32_t i = 0; i < flat.shape.rank; i++)
        *(i < axis ? &s.outer : &s.inner) *= i == axis ? 1 : flat.shape.dim[i];
    distinct d = find_distinct(c, &s, onnx_attr_int(c, "sorted", 1) != 0);
    ir_shape shape = flat.shape;
    shape.dim[axis] = d.n;
    FS_TRY(onnx_const_new(c, in->dtype, &shape, &data));
    size_t size = (size_t)ir_dtype_bytes(in->dtype), bytes = size;
    bytes *= (size_t)s.inner;
    for (int64_t o = 0; o < s.outer; o++)
        for (int64_t i = 0; i < d.n; i++)
            memcpy((char *)data + (size_t)(o * d.n + i) * bytes,
                   (const char *)in->data +
                       (size_t)(o * s.n + d.first[i]) * bytes,
                   bytes);
    FS_TRY(onnx_set_known(c, 0, &(onnx_const){in->dtype, shape, data}));
    FS_TRY(set_list(c, 1, d.n, d.first));
    FS_TRY(set_list(c, 2, s.n, d.which));
    return set_list(c, 3, d.n, d.count);
}

fs_status onnx_fold_trilu(onnx_ctx *c)
{
    const onnx_const *in, *k;
    const int64_t far = (int64_t)1 << 40; /* no sum overflows */
    int64_t diagonal = 0;
    void *data;
    FS_TRY(onnx_need(c, 0, "its input", &in));
    if (in->shape.rank < 2)
        return onnx_fail(c, "its input must have at least two dimensions");
    if (onnx_has(c, 1)) {
        FS_TRY(onnx_need(c, 1, "k", &k));
        if (onnx_const_count(k) != 1)
            return onnx_fail(c, "k must be one number");
        diagonal = onnx_const_int(k, 0);
        diagonal = diagonal > far ? far : diagonal < -far ? -far : diagonal;
    }
    FS_TRY(onnx_const_new(c, in->dtype, &in->shape, &data));
    onnx_const out = {in->dtype, in->shape, data};
    bool upper = onnx_attr_int(c, "upper", 1) != 0;
    int64_t rows = in->shape.dim[in->shape.rank - 2];
    int64_t columns = in->shape.dim[in->shape.rank - 1];
    int64_t n = onnx_const_count(in);
    const size_t size = (size_t)ir_dtype_bytes(in->dtype);
    for (int64_t i = 0; i < n; i++) { /* what is not kept stays zero */
        int64_t row = i / columns % rows, column = i % columns;
        if (upper ? column >= row + diagonal : column <= row + diagonal)
            memcpy((char *)data + (size_t)i * size,
                   (const char *)in->data + (size_t)i * size, size);
    }
    return onnx_set_known(c, 0, &out);
}
