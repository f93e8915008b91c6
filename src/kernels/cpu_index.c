/* Elements and slices by position. Ids mean the logical tensor; a piece's
 * offsets say which of it is here. What is read elsewhere gives zero, what is
 * written elsewhere is passed over. */
#include "config.h"

#include "kernels/indices.h"
#include "kernels/loops.h"

#include "ir/element.h"

#include <string.h>

enum { REPLACE, ADD, MUL, MIN, MAX };

/* A tensor that is read or written at positions. */
typedef struct field {
    const kernel_arg *x;
    int64_t stride[IR_MAX_RANK];
    int64_t batch; /* gather_nd: elements of x per batch position */
    int64_t per;   /* and positions per batch position */
    int32_t n, k;  /* and batch axes, axes of a position */
} field;

/* Input 1 at `at` as a place among `length`. */
static fs_status read_id(const kernel_call *call, int64_t at, int64_t length,
                         fs_err *err, int64_t *out)
{
    int64_t id = kernel_index(&call->in[1], at);
    if (id < -length || id >= length)
        return kernel_index_fault(call, "id", 1, at, length, err);
    *out = id < 0 ? id + length : id;
    return FS_OK;
}

/* ---- by element ---- */

static void next(const ir_shape *shape, int64_t index[IR_MAX_RANK])
{
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        if (++index[i] < shape->dim[i])
            return;
        index[i] = 0;
    }
}

/* Where the element of ids at `index` points to; -1: not in this piece. */
static fs_status find_element(const kernel_call *call, const field *f,
                              int64_t e, const int64_t index[IR_MAX_RANK],
                              fs_err *err, int64_t *out)
{
    const int64_t axis = call->node->i[0];
    const kernel_arg *ids = &call->in[1];
    int64_t id = 0, at = 0;
    FS_TRY(read_id(call, e, call->node->i[1], err, &id));
    for (int32_t i = 0; i < ids->shape.rank; i++) {
        const int64_t place =
            (i == axis ? id : index[i] + ids->offset[i]) - f->x->offset[i];
        if (place < 0 || place >= f->x->shape.dim[i]) {
            *out = -1;
            return FS_OK;
        }
        at += place * f->stride[i];
    }
    *out = at;
    return FS_OK;
}

static field elements_of(const kernel_arg *x)
{
    field f = {.x = x};
    kernel_strides(&x->shape, f.stride);
    return f;
}

static fs_status index_prepare(const kernel_call *shapes, fs_err *err,
                               void **state)
{
    (void)err;
    *state = NULL;
    return kernel_is_index(&shapes->in[1]) ? FS_OK : FS_NO;
}

static fs_status gather_elements_run(void *state, const kernel_call *call,
                                     fs_err *err)
{
    (void)state;
    const field f = elements_of(&call->in[0]);
    const ir_shape *ids = &call->in[1].shape;
    const int64_t n = ir_shape_count(ids);
    const size_t size = (size_t)ir_dtype_bytes(f.x->dtype);
    int64_t index[IR_MAX_RANK] = {0}, at = 0;
    char *out = call->out[0].data;
    for (int64_t e = 0; e < n; e++, out += size, next(ids, index)) {
        FS_TRY(find_element(call, &f, e, index, err, &at));
        if (at >= 0)
            memcpy(out, (const char *)f.x->data + (size_t)at * size, size);
        else
            memset(out, 0, size);
    }
    return FS_OK;
}
KERNEL_REFERENCE(gather_elements, index_prepare);

/* What may be joined is computed with. */
static fs_status scatter_prepare(const kernel_call *shapes, fs_err *err,
                                 void **state)
{
    const kernel_arg *x = &shapes->in[0];
    if (ir_widened_bytes(&x->shape, x->dtype) > 0)
        return FS_NO;
    return index_prepare(shapes, err, state);
}

#define JOIN(type)                                                             \
    static void join_##type(void *to, const void *from, int64_t n, int kind)   \
    {                                                                          \
        type *restrict y = to;                                                 \
        const type *restrict u = from;                                         \
        for (int64_t i = 0; i < n; i++)                                        \
            y[i] = kind == ADD   ? y[i] + u[i]                                 \
                   : kind == MUL ? y[i] * u[i]                                 \
                   : kind == MIN ? (u[i] < y[i] ? u[i] : y[i])                 \
                                 : (u[i] > y[i] ? u[i] : y[i]);                \
    }
JOIN(float)
JOIN(double)
JOIN(int32_t)
JOIN(int64_t)

/* n elements of u into place `at` of the output. */
static void put(const kernel_arg *out, int64_t at, const void *u, int64_t n,
                int kind)
{
    const size_t size = (size_t)ir_dtype_bytes(out->dtype);
    char *to = (char *)out->data + (size_t)at * size;
    if (kind == REPLACE)
        memcpy(to, u, (size_t)n * size);
    else if (out->dtype == IR_F32)
        join_float(to, u, n, kind);
    else if (out->dtype == IR_F64)
        join_double(to, u, n, kind);
    else if (out->dtype == IR_I32)
        join_int32_t(to, u, n, kind);
    else
        join_int64_t(to, u, n, kind);
}

static void start_from_input(const kernel_call *call)
{
    const kernel_arg *out = &call->out[0];
    memcpy(out->data, call->in[0].data,
           (size_t)(ir_shape_count(&out->shape) * ir_dtype_bytes(out->dtype)));
}

static fs_status scatter_elements_run(void *state, const kernel_call *call,
                                      fs_err *err)
{
    (void)state;
    const field f = elements_of(&call->out[0]);
    const ir_shape *ids = &call->in[1].shape;
    const int64_t n = ir_shape_count(ids);
    const size_t size = (size_t)ir_dtype_bytes(f.x->dtype);
    int64_t index[IR_MAX_RANK] = {0}, at = 0;
    const char *u = call->in[2].data;
    start_from_input(call);
    for (int64_t e = 0; e < n; e++, u += size, next(ids, index)) {
        FS_TRY(find_element(call, &f, e, index, err, &at));
        if (at >= 0)
            put(f.x, at, u, 1, (int)call->node->i[2]);
    }
    return FS_OK;
}
KERNEL_REFERENCE(scatter_elements, scatter_prepare);

/* ---- by slice ---- */

static field slices_of(const kernel_call *call, const kernel_arg *x)
{
    const ir_shape *ids = &call->in[1].shape;
    field f = elements_of(x);
    f.n = (int32_t)call->node->i[0];
    f.k = (int32_t)ids->dim[ids->rank - 1];
    f.per = kernel_span(ids, f.n, ids->rank - 1);
    f.batch = kernel_span(&x->shape, f.n, x->shape.rank);
    return f;
}

/* Where row `row` of ids points to; -1: not in this piece. Batch axes are cut
 * alike, so that places along them are the pieces' own. */
static fs_status find_slice(const kernel_call *call, const field *f,
                            int64_t row, fs_err *err, int64_t *out)
{
    int64_t at = row / f->per * f->batch, id = 0;
    bool here = true;
    for (int32_t j = 0; j < f->k; j++) {
        FS_TRY(read_id(call, row * f->k + j, call->node->i[1 + j], err, &id));
        const int64_t place = id - f->x->offset[f->n + j];
        here = here && place >= 0 && place < f->x->shape.dim[f->n + j];
        at += place * f->stride[f->n + j];
    }
    *out = here ? at : -1;
    return FS_OK;
}

static fs_status gather_nd_run(void *state, const kernel_call *call,
                               fs_err *err)
{
    (void)state;
    const field f = slices_of(call, &call->in[0]);
    const ir_shape *ids = &call->in[1].shape;
    const int64_t rows = kernel_span(ids, 0, ids->rank - 1);
    const size_t size = (size_t)ir_dtype_bytes(f.x->dtype);
    const size_t bytes =
        size * (size_t)kernel_span(&f.x->shape, f.n + f.k, f.x->shape.rank);
    int64_t at = 0;
    char *out = call->out[0].data;
    for (int64_t r = 0; r < rows; r++, out += bytes) {
        FS_TRY(find_slice(call, &f, r, err, &at));
        if (at >= 0)
            memcpy(out, (const char *)f.x->data + (size_t)at * size, bytes);
        else
            memset(out, 0, bytes);
    }
    return FS_OK;
}
KERNEL_REFERENCE(gather_nd, index_prepare);

static fs_status scatter_nd_run(void *state, const kernel_call *call,
                                fs_err *err)
{
    (void)state;
    const field f = slices_of(call, &call->out[0]);
    const ir_shape *ids = &call->in[1].shape;
    const int64_t rows = kernel_span(ids, 0, ids->rank - 1);
    const int64_t n = kernel_span(&f.x->shape, f.n + f.k, f.x->shape.rank);
    const size_t bytes = (size_t)(n * ir_dtype_bytes(f.x->dtype));
    int64_t at = 0;
    const char *u = call->in[2].data;
    start_from_input(call);
    for (int64_t r = 0; r < rows; r++, u += bytes) {
        FS_TRY(find_slice(call, &f, r, err, &at));
        if (at >= 0)
            put(f.x, at, u, n, (int)call->node->i[9]);
    }
    return FS_OK;
}
KERNEL_REFERENCE(scatter_nd, scatter_prepare);

/* ---- one_hot ---- */

static fs_status one_hot_prepare(const kernel_call *shapes, fs_err *err,
                                 void **state)
{
    (void)err;
    *state = NULL;
    return kernel_is_index(&shapes->in[0]) ? FS_OK : FS_NO;
}

static void fill(char *out, const void *value, int64_t n, size_t size)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(out + (size_t)i * size, value, size);
}

static fs_status one_hot_run(void *state, const kernel_call *call, fs_err *err)
{
    (void)state, (void)err;
    const kernel_arg *ids = &call->in[0], *out = &call->out[0];
    const int32_t axis = (int32_t)call->node->i[0];
    const int64_t depth = call->node->i[1], first = out->offset[axis];
    const int64_t length = out->shape.dim[axis];
    const int64_t inner = kernel_span(&ids->shape, axis, ids->shape.rank);
    const int64_t n = ir_shape_count(&ids->shape);
    const size_t size = (size_t)ir_dtype_bytes(out->dtype);
    uint64_t off = 0, on = 0;
    ir_element_set_real(out->dtype, &off, 0, call->f[0]);
    ir_element_set_real(out->dtype, &on, 0, call->f[1]);
    fill(out->data, &off, n * length, size);
    for (int64_t i = 0; i < n; i++) {
        int64_t id = kernel_index(ids, i);
        id += (id < 0 ? depth : 0) - first;
        if (id < 0 || id >= length)
            continue;
        const int64_t at = (i / inner * length + id) * inner + i % inner;
        memcpy((char *)out->data + (size_t)at * size, &on, size);
    }
    return FS_OK;
}
KERNEL_REFERENCE(one_hot, one_hot_prepare);
