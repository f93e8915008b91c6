/* Folding: what hangs on constants and shapes only is computed at import, so
 * that the shape arithmetic of exporters leaves no node behind. */
#include "config.h"
#include "onnx/operators.h"
#include "onnx/shapes.h"

#include "ir/element.h"

#include <math.h>
#include <string.h>

/* Where element k of a result comes from: a strided view of the input. */
typedef struct view {
    int64_t offset;
    int64_t stride[IR_MAX_RANK];
} view;

static view row_major(const ir_shape *shape)
{
    view v = {0};
    int64_t stride = 1;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        v.stride[i] = stride;
        stride *= shape->dim[i];
    }
    return v;
}

/* `in` seen in the larger shape `out`: stride 0 where it repeats. */
static view stretched(const ir_shape *in, const ir_shape *out)
{
    view own = row_major(in), v = {0};
    for (int32_t i = 0; i < in->rank; i++)
        v.stride[i + out->rank - in->rank] =
            in->dim[i] == 1 ? 0 : own.stride[i];
    return v;
}

/* Offsets in n views of successive elements of `shape`. */
typedef struct walk {
    const ir_shape *shape;
    int64_t index[IR_MAX_RANK];
} walk;

static void step(walk *w, int32_t n, const view *views, int64_t *offset)
{
    for (int32_t i = w->shape->rank - 1; i >= 0; i--) {
        for (int32_t k = 0; k < n; k++)
            offset[k] += views[k].stride[i];
        if (++w->index[i] < w->shape->dim[i])
            return;
        w->index[i] = 0;
        for (int32_t k = 0; k < n; k++)
            offset[k] -= views[k].stride[i] * w->shape->dim[i];
    }
}

static void put_from(ir_dtype dtype, void *data, int64_t i,
                     const onnx_const *from, int64_t k)
{
    if (ir_dtype_is_float(dtype))
        ir_element_set_real(dtype, data, i, onnx_const_real(from, k));
    else if (dtype == IR_BOOL && ir_dtype_is_float(from->dtype))
        ir_element_set_int(dtype, data, i, onnx_const_real(from, k) != 0);
    else
        ir_element_set_int(dtype, data, i, onnx_const_int(from, k));
}

static fs_status known_input(onnx_ctx *c, int32_t i, const onnx_const **out)
{
    return onnx_need(c, i, "an input", out);
}

static fs_status set_shaped(onnx_ctx *c, const onnx_const *in, ir_shape shape)
{
    onnx_const out = {in->dtype, shape, in->data};
    return onnx_set_known(c, 0, &out);
}

/* Copies the view `v` of `in` as a new value of shape `shape`. */
static fs_status set_view(onnx_ctx *c, int32_t output, const onnx_const *in,
                          const ir_shape *shape, const view *v)
{
    void *data;
    FS_TRY(onnx_const_new(c, in->dtype, shape, &data));
    onnx_const out = {in->dtype, *shape, data};
    size_t size = (size_t)ir_dtype_bytes(in->dtype);
    int64_t n = onnx_const_count(&out), at = v->offset;
    walk w = {.shape = shape};
    for (int64_t i = 0; i < n; i++) {
        memcpy((char *)data + (size_t)i * size,
               (const char *)in->data + (size_t)at * size, size);
        step(&w, 1, v, &at);
    }
    return onnx_set_known(c, output, &out);
}

fs_status onnx_fold_none(onnx_ctx *c)
{
    return onnx_fail(c, "cannot be computed at import");
}

static fs_status set_list(onnx_ctx *c, ir_dtype dtype, int32_t rank, int64_t n,
                          const onnx_attr *attr)
{
    ir_shape shape = ir_shape_make(rank, &n);
    void *data;
    FS_TRY(onnx_const_new(c, dtype, &shape, &data));
    for (int64_t i = 0; i < n; i++) {
        if (dtype == IR_I64)
            ir_element_set_int(dtype, data, i,
                               rank ? attr->ints.at[i] : attr->i);
        else
            ir_element_set_real(dtype, data, i,
                                rank ? attr->floats.at[i] : attr->f);
    }
    onnx_const out = {dtype, shape, data};
    return onnx_set_known(c, 0, &out);
}

fs_status onnx_fold_constant(onnx_ctx *c)
{
    const onnx_attr *attr = onnx_attr_find(c, "value");
    if (attr && attr->t) {
        onnx_const value;
        FS_TRY(onnx_tensor_load(c->model, attr->t, c->arena, c->err, &value));
        return onnx_set_known(c, 0, &value);
    }
    if ((attr = onnx_attr_find(c, "value_int")))
        return set_list(c, IR_I64, 0, 1, attr);
    if ((attr = onnx_attr_find(c, "value_float")))
        return set_list(c, IR_F32, 0, 1, attr);
    if ((attr = onnx_attr_find(c, "value_ints")))
        return set_list(c, IR_I64, 1, attr->ints.n, attr);
    if ((attr = onnx_attr_find(c, "value_floats")))
        return set_list(c, IR_F32, 1, attr->floats.n, attr);
    return onnx_fail(c, "a constant without a value that is supported");
}

static fs_status read_shape_input(onnx_ctx *c, ir_shape *out)
{
    onnx_ints dims;
    FS_TRY(onnx_get_ints(c, NULL, 0, &dims));
    if (dims.n < 0 || dims.n > IR_MAX_RANK)
        return onnx_fail(c, "a shape of more than %d dimensions", IR_MAX_RANK);
    *out = ir_shape_make((int32_t)dims.n, dims.at);
    return FS_OK;
}

static fs_status read_fill(onnx_ctx *c, onnx_const *value, ir_shape *shape)
{
    static const float zero;
    const onnx_attr *attr = onnx_attr_find(c, "value");
    *value = (onnx_const){IR_F32, {0}, &zero};
    if (attr && attr->t)
        FS_TRY(onnx_tensor_load(c->model, attr->t, c->arena, c->err, value));
    if (onnx_const_count(value) != 1)
        return onnx_fail(c, "its value must have one element");
    return read_shape_input(c, shape);
}

/* What is too large to be kept is filled when the graph runs. */
static fs_status fill_later(onnx_ctx *c, const onnx_const *value,
                            const ir_shape *shape)
{
    const double real = onnx_const_real(value, 0);
    const ir_dtype dtype = onnx_dtype_here(c, value->dtype);
    if (!ir_dtype_is_float(dtype) && (double)(float)real != real)
        return onnx_fail(c, "more of %.17g than fold at import", real);
    return onnx_set(c, 0,
                    ir_cast(c->graph, ir_fill(c->graph, *shape, real), dtype));
}

fs_status onnx_fold_constant_of_shape(onnx_ctx *c)
{
    onnx_const value;
    ir_shape shape;
    FS_TRY(read_fill(c, &value, &shape));
    const fs_err before = *c->err;
    fs_status status = set_view(c, 0, &value, &shape, &(view){0});
    if (status == FS_OK || !c->too_large)
        return status;
    *c->err = before;
    return fill_later(c, &value, &shape);
}

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* Into the range where the conversion to int64 is defined. */
static double clamp_real(double x)
{
    return fmin(fmax(x, -0x1p62), 0x1p62);
}

fs_status onnx_fold_shape(onnx_ctx *c)
{
    ir_shape in;
    FS_TRY(onnx_shape(c, 0, &in));
    int64_t start = onnx_attr_int(c, "start", 0);
    int64_t end = onnx_attr_int(c, "end", in.rank);
    start = clamp(start < 0 ? start + in.rank : start, 0, in.rank);
    end = clamp(end < 0 ? end + in.rank : end, start, in.rank);
    int64_t n = end - start;
    ir_shape shape = ir_shape_make(1, &n);
    onnx_const out = {
        IR_I64, shape,
        fs_memdup(c->arena, in.dim + start, (size_t)n * sizeof *in.dim)};
    return onnx_set_known(c, 0, &out);
}

fs_status onnx_fold_size(onnx_ctx *c)
{
    ir_shape in, scalar = {0};
    FS_TRY(onnx_shape(c, 0, &in));
    int64_t count = ir_shape_count(&in);
    onnx_const out = {IR_I64, scalar,
                      fs_memdup(c->arena, &count, sizeof count)};
    return onnx_set_known(c, 0, &out);
}

static fs_status range_length(onnx_ctx *c, const double x[3], int64_t *out)
{
    double n = ceil((x[1] - x[0]) / x[2]);
    if (!(fabs(n) < 0x1p40))
        return onnx_fail(c, "the range from %g to %g by %g is %s", x[0], x[1],
                         x[2], isfinite(n) ? "too long" : "not finite");
    *out = n < 0 ? 0 : (int64_t)n;
    return FS_OK;
}

fs_status onnx_fold_range(onnx_ctx *c)
{
    const onnx_const *in[3];
    double x[3];
    for (int32_t i = 0; i < 3; i++) {
        FS_TRY(known_input(c, i, &in[i]));
        if (onnx_const_count(in[i]) != 1 || in[i]->dtype != in[0]->dtype)
            return onnx_fail(c, "start, limit and step must be scalars of one "
                                "type");
        x[i] = onnx_const_real(in[i], 0);
    }
    int64_t n;
    void *data;
    FS_TRY(range_length(c, x, &n));
    ir_shape shape = ir_shape_make(1, &n);
    FS_TRY(onnx_const_new(c, in[0]->dtype, &shape, &data));
    for (int64_t i = 0; i < n; i++) {
        if (ir_dtype_is_float(in[0]->dtype))
            ir_element_set_real(in[0]->dtype, data, i, x[0] + (double)i * x[2]);
        else
            ir_element_set_int(in[0]->dtype, data, i,
                               (int64_t)clamp_real(x[0] + (double)i * x[2]));
    }
    onnx_const out = {in[0]->dtype, shape, data};
    return onnx_set_known(c, 0, &out);
}

static fs_status int_binary(onnx_ctx *c, int64_t a, int64_t b, int64_t *out)
{
    uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
    switch (c->arg) {
    case ONNX_ADD:
        *out = (int64_t)(ua + ub);
        return FS_OK;
    case ONNX_SUB:
        *out = (int64_t)(ua - ub);
        return FS_OK;
    case ONNX_MUL:
        *out = (int64_t)(ua * ub);
        return FS_OK;
    case ONNX_MIN:
        *out = a < b ? a : b;
        return FS_OK;
    case ONNX_MAX:
        *out = a > b ? a : b;
        return FS_OK;
    case ONNX_EQUAL:
        *out = a == b;
        return FS_OK;
    case ONNX_LESS:
        *out = a < b;
        return FS_OK;
    case ONNX_LESS_EQUAL:
        *out = a <= b;
        return FS_OK;
    case ONNX_GREATER:
        *out = a > b;
        return FS_OK;
    case ONNX_GREATER_EQUAL:
        *out = a >= b;
        return FS_OK;
    case ONNX_AND:
        *out = a && b;
        return FS_OK;
    case ONNX_OR:
        *out = a || b;
        return FS_OK;
    case ONNX_POW:
        *out = (int64_t)clamp_real(pow((double)a, (double)b));
        return FS_OK;
    default:
        break;
    }
    if (b == 0)
        return onnx_fail(c, "a division by zero among constants");
    if (b == -1) { /* INT64_MIN / -1 traps */
        *out = c->arg == ONNX_DIV ? (int64_t)(0 - ua) : 0;
        return FS_OK;
    }
    if (c->arg == ONNX_DIV)
        *out = a / b;
    else /* Python's sign unless fmod=1, which integers need not */
        *out = a % b + (a % b && (a % b < 0) != (b < 0) ? b : 0);
    return FS_OK;
}

static double real_binary(int32_t kind, double a, double b)
{
    switch (kind) {
    case ONNX_ADD:
        return a + b;
    case ONNX_SUB:
        return a - b;
    case ONNX_MUL:
        return a * b;
    case ONNX_DIV:
        return a / b;
    case ONNX_MOD:
        return fmod(a, b);
    case ONNX_POW:
        return pow(a, b);
    case ONNX_MIN:
        return fmin(a, b);
    case ONNX_MAX:
        return fmax(a, b);
    case ONNX_EQUAL:
        return a == b;
    case ONNX_LESS:
        return a < b;
    case ONNX_LESS_EQUAL:
        return a <= b;
    case ONNX_GREATER:
        return a > b;
    case ONNX_GREATER_EQUAL:
        return a >= b;
    case ONNX_AND:
        return a != 0 && b != 0;
    default:
        return a != 0 || b != 0;
    }
}

/* Shape of the result of broadcasting; zero-sized dimensions are legal. */
static fs_status join_shapes(onnx_ctx *c, const ir_shape *a, const ir_shape *b,
                             ir_shape *out)
{
    *out = a->rank >= b->rank ? *a : *b;
    const ir_shape *low = a->rank >= b->rank ? b : a;
    for (int32_t i = 0; i < low->rank; i++) {
        int64_t *dim = &out->dim[i + out->rank - low->rank];
        if (*dim == 1)
            *dim = low->dim[i];
        else if (low->dim[i] != 1 && low->dim[i] != *dim)
            return onnx_fail(c, "constants do not broadcast: %lld against %lld",
                             (long long)*dim, (long long)low->dim[i]);
    }
    return FS_OK;
}

/* Element by element, broadcasting. */
static fs_status fold_two(onnx_ctx *c, const onnx_const *const in[2],
                          onnx_const *out)
{
    ir_shape shape;
    FS_TRY(join_shapes(c, &in[0]->shape, &in[1]->shape, &shape));
    bool real =
        ir_dtype_is_float(in[0]->dtype) || ir_dtype_is_float(in[1]->dtype);
    ir_dtype dtype = c->arg >= ONNX_EQUAL ? IR_BOOL : in[0]->dtype;
    void *data;
    FS_TRY(onnx_const_new(c, dtype, &shape, &data));
    view views[2] = {stretched(&in[0]->shape, &shape),
                     stretched(&in[1]->shape, &shape)};
    *out = (onnx_const){dtype, shape, data};
    int64_t n = onnx_const_count(out), at[2] = {0, 0}, value = 0;
    walk w = {.shape = &shape};
    for (int64_t i = 0; i < n; i++) {
        double y = 0;
        if (real)
            y = real_binary(c->arg, onnx_const_real(in[0], at[0]),
                            onnx_const_real(in[1], at[1]));
        else
            FS_TRY(int_binary(c, onnx_const_int(in[0], at[0]),
                              onnx_const_int(in[1], at[1]), &value));
        if (real)
            ir_element_set_real(dtype, data, i, y);
        else
            ir_element_set_int(dtype, data, i, value);
        step(&w, 2, views, at);
    }
    return FS_OK;
}

/* Of one input: itself; of many (Min, Max): one after the other. */
fs_status onnx_fold_binary(onnx_ctx *c)
{
    const onnx_const *first;
    onnx_const value;
    FS_TRY(known_input(c, 0, &first));
    value = *first;
    for (int32_t i = 1; i < c->node->in.n; i++) {
        const onnx_const left = value, *in[2] = {&left, NULL};
        FS_TRY(known_input(c, i, &in[1]));
        FS_TRY(fold_two(c, in, &value));
    }
    return onnx_set_known(c, 0, &value);
}

static double real_unary(int32_t kind, double x)
{
    switch (kind) {
    case ONNX_NEG:
        return -x;
    case ONNX_ABS:
        return fabs(x);
    case ONNX_SQRT:
        return sqrt(x);
    case ONNX_EXP:
        return exp(x);
    case ONNX_LOG:
        return log(x);
    case ONNX_FLOOR:
        return floor(x);
    case ONNX_CEIL:
        return ceil(x);
    case ONNX_RELU:
        return x > 0 ? x : 0;
    default:
        return x == 0;
    }
}

fs_status onnx_fold_unary(onnx_ctx *c)
{
    const onnx_const *in;
    void *data;
    FS_TRY(known_input(c, 0, &in));
    FS_TRY(onnx_const_new(c, in->dtype, &in->shape, &data));
    onnx_const out = {in->dtype, in->shape, data};
    int64_t n = onnx_const_count(in);
    for (int64_t i = 0; i < n; i++) {
        if (ir_dtype_is_float(in->dtype)) {
            ir_element_set_real(in->dtype, data, i,
                                real_unary(c->arg, onnx_const_real(in, i)));
            continue;
        }
        int64_t x = onnx_const_int(in, i);
        int64_t minus = (int64_t)(0 - (uint64_t)x);
        ir_element_set_int(in->dtype, data, i,
                           c->arg == ONNX_NEG    ? minus
                           : c->arg == ONNX_ABS  ? (x < 0 ? minus : x)
                           : c->arg == ONNX_RELU ? (x < 0 ? 0 : x)
                                                 : x == 0);
    }
    return onnx_set_known(c, 0, &out);
}

fs_status onnx_fold_where(onnx_ctx *c)
{
    const onnx_const *in[3];
    ir_shape shape = {0};
    view views[3];
    for (int32_t i = 0; i < 3; i++) {
        FS_TRY(known_input(c, i, &in[i]));
        FS_TRY(join_shapes(c, &shape, &in[i]->shape, &shape));
    }
    for (int32_t i = 0; i < 3; i++)
        views[i] = stretched(&in[i]->shape, &shape);
    if (in[1]->dtype != in[2]->dtype)
        return onnx_fail(c, "its branches have different types");
    void *data;
    FS_TRY(onnx_const_new(c, in[1]->dtype, &shape, &data));
    onnx_const out = {in[1]->dtype, shape, data};
    int64_t n = onnx_const_count(&out), at[3] = {0};
    walk w = {.shape = &shape};
    for (int64_t i = 0; i < n; i++) {
        int32_t pick = onnx_const_int(in[0], at[0]) ? 1 : 2;
        put_from(out.dtype, data, i, in[pick], at[pick]);
        step(&w, 3, views, at);
    }
    return onnx_set_known(c, 0, &out);
}

fs_status onnx_fold_cast(onnx_ctx *c)
{
    const onnx_const *in;
    ir_dtype dtype;
    void *data;
    FS_TRY(known_input(c, 0, &in));
    FS_TRY(onnx_dtype_parse(onnx_attr_int(c, "to", 0), "the cast's target",
                            c->err, &dtype));
    if (dtype == in->dtype)
        return onnx_set_known(c, 0, in);
    FS_TRY(onnx_const_new(c, dtype, &in->shape, &data));
    onnx_const out = {dtype, in->shape, data};
    int64_t n = onnx_const_count(in);
    for (int64_t i = 0; i < n; i++)
        put_from(dtype, data, i, in, i);
    return onnx_set_known(c, 0, &out);
}

fs_status onnx_fold_identity(onnx_ctx *c)
{
    return onnx_alias(c, 0, 0);
}

fs_status onnx_fold_view(onnx_ctx *c)
{
    const onnx_const *in;
    ir_shape shape;
    FS_TRY(known_input(c, 0, &in));
    FS_TRY(onnx_view_shape(c, &in->shape, &shape));
    return set_shaped(c, in, shape);
}

fs_status onnx_fold_transpose(onnx_ctx *c)
{
    const onnx_const *in;
    FS_TRY(known_input(c, 0, &in));
    int32_t perm[IR_MAX_RANK], rank = in->shape.rank;
    FS_TRY(onnx_perm(c, rank, perm));
    view own = row_major(&in->shape), v = {0};
    ir_shape shape = {.rank = rank};
    for (int32_t i = 0; i < rank; i++) {
        shape.dim[i] = in->shape.dim[perm[i]];
        v.stride[i] = own.stride[perm[i]];
    }
    return set_view(c, 0, in, &shape, &v);
}

fs_status onnx_fold_expand(onnx_ctx *c)
{
    const onnx_const *in;
    ir_shape shape;
    FS_TRY(known_input(c, 0, &in));
    FS_TRY(onnx_expand_shape(c, &in->shape, &shape));
    view v = stretched(&in->shape, &shape);
    return set_view(c, 0, in, &shape, &v);
}

fs_status onnx_fold_slice(onnx_ctx *c)
{
    const onnx_const *in;
    onnx_cut cut;
    FS_TRY(known_input(c, 0, &in));
    FS_TRY(onnx_slice_cut(c, &in->shape, &cut));
    view v = row_major(&in->shape);
    ir_shape shape = {.rank = in->shape.rank};
    bool whole = true;
    for (int32_t i = 0; i < shape.rank; i++) {
        v.offset += cut.start[i] * v.stride[i];
        v.stride[i] *= cut.step[i];
        shape.dim[i] = cut.length[i];
        whole = whole && cut.length[i] == in->shape.dim[i] && cut.step[i] == 1;
    }
    return whole ? onnx_set_known(c, 0, in) : set_view(c, 0, in, &shape, &v);
}

fs_status onnx_fold_split(onnx_ctx *c)
{
    const onnx_const *in;
    int32_t axis;
    onnx_ints sizes;
    FS_TRY(known_input(c, 0, &in));
    FS_TRY(onnx_split_sizes(c, &in->shape, &axis, &sizes));
    view v = row_major(&in->shape);
    for (int32_t i = 0; i < (int32_t)sizes.n; i++) {
        ir_shape shape = in->shape;
        shape.dim[axis] = sizes.at[i];
        FS_TRY(set_view(c, i, in, &shape, &v));
        v.offset += sizes.at[i] * v.stride[axis];
    }
    return FS_OK;
}

static fs_status concat_shape(onnx_ctx *c, int32_t *axis, ir_shape *out)
{
    const onnx_const *in;
    FS_TRY(known_input(c, 0, &in));
    *out = in->shape;
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", 0), out->rank, axis));
    for (int32_t i = 1; i < c->node->in.n; i++) {
        ir_dtype dtype = in->dtype;
        FS_TRY(known_input(c, i, &in));
        ir_shape rest = in->shape;
        if (rest.rank != out->rank || in->dtype != dtype)
            return onnx_fail(c, "constants of different rank or type");
        rest.dim[*axis] = out->dim[*axis];
        if (!ir_shape_equal(&rest, out) ||
            __builtin_add_overflow(out->dim[*axis], in->shape.dim[*axis],
                                   &out->dim[*axis]))
            return onnx_fail(c, "constants do not fit each other");
    }
    return FS_OK;
}

fs_status onnx_fold_concat(onnx_ctx *c)
{
    int32_t axis;
    ir_shape shape;
    void *data;
    const onnx_const *in;
    FS_TRY(concat_shape(c, &axis, &shape));
    FS_TRY(known_input(c, 0, &in));
    FS_TRY(onnx_const_new(c, in->dtype, &shape, &data));
    onnx_const out = {in->dtype, shape, data};
    size_t size = (size_t)ir_dtype_bytes(out.dtype), at = 0;
    size_t outer = onnx_const_count(&out) ? 1 : 0, inner = size;
    for (int32_t i = 0; i < shape.rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : (size_t)shape.dim[i];
    for (size_t o = 0; o < outer; o++)
        for (int32_t i = 0; i < c->node->in.n; i++) {
            FS_TRY(known_input(c, i, &in));
            size_t piece = inner * (size_t)in->shape.dim[axis];
            memcpy((char *)data + at, (const char *)in->data + o * piece,
                   piece);
            at += piece;
        }
    return onnx_set_known(c, 0, &out);
}

static fs_status gather_shape(onnx_ctx *c, const ir_shape *table,
                              const ir_shape *ids, int32_t axis, ir_shape *out)
{
    if (table->rank - 1 + ids->rank > IR_MAX_RANK)
        return onnx_fail(c, "its result has more than %d dimensions",
                         IR_MAX_RANK);
    *out = (ir_shape){0};
    for (int32_t i = 0; i < axis; i++)
        out->dim[out->rank++] = table->dim[i];
    for (int32_t i = 0; i < ids->rank; i++)
        out->dim[out->rank++] = ids->dim[i];
    for (int32_t i = axis + 1; i < table->rank; i++)
        out->dim[out->rank++] = table->dim[i];
    return FS_OK;
}

fs_status onnx_fold_gather(onnx_ctx *c)
{
    const onnx_const *table, *ids;
    int32_t axis;
    ir_shape shape;
    void *data;
    FS_TRY(known_input(c, 0, &table));
    FS_TRY(known_input(c, 1, &ids));
    FS_TRY(onnx_axis(c, onnx_attr_int(c, "axis", 0), table->shape.rank, &axis));
    FS_TRY(gather_shape(c, &table->shape, &ids->shape, axis, &shape));
    FS_TRY(onnx_const_new(c, table->dtype, &shape, &data));
    onnx_const out = {table->dtype, shape, data};
    int64_t n = onnx_const_count(ids), length = table->shape.dim[axis];
    size_t outer = onnx_const_count(&out) ? 1 : 0, at = 0;
    size_t inner = (size_t)ir_dtype_bytes(table->dtype);
    for (int32_t i = 0; i < table->shape.rank; i++)
        *(i < axis ? &outer : &inner) *=
            i == axis ? 1 : (size_t)table->shape.dim[i];
    for (size_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < n; i++, at += inner) {
            int64_t id = onnx_const_int(ids, i);
            if (id < -length || id >= length)
                return onnx_fail(c, "index %lld is outside %lld", (long long)id,
                                 (long long)length);
            size_t row = (size_t)(id < 0 ? id + length : id);
            memcpy((char *)data + at,
                   (const char *)table->data +
                       (o * (size_t)length + row) * inner,
                   inner);
        }
    return onnx_set_known(c, 0, &out);
}

static double reduce_start(int32_t kind)
{
    switch (kind) {
    case ONNX_PROD:
        return 1;
    case ONNX_REDUCE_MIN:
        return INFINITY;
    case ONNX_REDUCE_MAX:
    case ONNX_LOG_SUM_EXP:
        return -INFINITY;
    default:
        return 0;
    }
}

/* log(exp(a) + exp(b)) */
static double add_logs(double a, double b)
{
    const double high = fmax(a, b), low = fmin(a, b);
    return isinf(high) ? high : high + log1p(exp(low - high));
}

static double reduce_step(int32_t kind, double sum, double x)
{
    switch (kind) {
    case ONNX_PROD:
        return sum * x;
    case ONNX_REDUCE_MIN:
        return fmin(sum, x);
    case ONNX_REDUCE_MAX:
        return fmax(sum, x);
    case ONNX_L1:
        return sum + fabs(x);
    case ONNX_L2:
    case ONNX_SUM_SQUARE:
        return sum + x * x;
    case ONNX_LOG_SUM_EXP:
        return add_logs(sum, x);
    default:
        return sum + x;
    }
}

/* Of n elements each. */
static double reduce_end(int32_t kind, double sum, int64_t n)
{
    return kind == ONNX_MEAN      ? sum / (double)n
           : kind == ONNX_L2      ? sqrt(sum)
           : kind == ONNX_LOG_SUM ? log(sum)
                                  : sum;
}

/* Shape with the axes of `mask` of length 1, or left out. */
static ir_shape without_axes(const ir_shape *in, uint32_t mask, bool keep)
{
    ir_shape out = {0};
    for (int32_t i = 0; i < in->rank; i++)
        if (!(mask >> i & 1))
            out.dim[out.rank++] = in->dim[i];
        else if (keep)
            out.dim[out.rank++] = 1;
    return out;
}

fs_status onnx_fold_reduce(onnx_ctx *c)
{
    const onnx_const *in;
    uint32_t mask;
    void *data;
    FS_TRY(known_input(c, 0, &in));
    uint32_t all = (1u << in->shape.rank) - 1;
    bool noop = onnx_attr_int(c, "noop_with_empty_axes", 0) != 0;
    FS_TRY(onnx_axes(c, 1, in->shape.rank, noop ? 0 : all, &mask));
    ir_shape kept = without_axes(&in->shape, mask, true);
    ir_shape shape =
        without_axes(&in->shape, mask, onnx_attr_int(c, "keepdims", 1) != 0);
    FS_TRY(onnx_const_new(c, in->dtype, &shape, &data));
    onnx_const out = {in->dtype, shape, data};
    int64_t n = onnx_const_count(in), n_out = onnx_const_count(&out), at = 0;
    double *sum = fs_new(c->arena, double, n_out);
    for (int64_t i = 0; i < n_out; i++)
        sum[i] = reduce_start(c->arg);
    view v = stretched(&kept, &in->shape);
    walk w = {.shape = &in->shape};
    for (int64_t i = 0; i < n; i++) {
        sum[at] = reduce_step(c->arg, sum[at], onnx_const_real(in, i));
        step(&w, 1, &v, &at);
    }
    for (int64_t i = 0; i < n_out; i++) {
        const double made = reduce_end(c->arg, sum[i], n / n_out);
        if (ir_dtype_is_float(in->dtype))
            ir_element_set_real(in->dtype, data, i, made);
        else
            ir_element_set_int(in->dtype, data, i, (int64_t)clamp_real(made));
    }
    return onnx_set_known(c, 0, &out);
}
