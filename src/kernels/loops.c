#include "config.h"

#include "kernels/loops.h"

#include "kernels/tiled.h"

#include <string.h>

void kernel_strides(const ir_shape *shape, int64_t stride[IR_MAX_RANK])
{
    int64_t step = 1;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= shape->dim[i];
    }
}

/* May axis `axis` be merged into the loop's last axis? */
static bool merges(const kernel_loop *loop, int64_t stride[][IR_MAX_RANK],
                   int32_t axis, int64_t length)
{
    if (loop->rank == 0)
        return false;
    for (int32_t k = 0; k < loop->n_operand; k++)
        if (loop->stride[k][loop->rank - 1] != length * stride[k][axis])
            return false;
    return true;
}

kernel_loop kernel_loop_make(const ir_shape *space, int32_t n_operand,
                             int64_t stride[][IR_MAX_RANK])
{
    kernel_loop loop = {.n_operand = n_operand};
    for (int32_t axis = 0; axis < space->rank; axis++) {
        int64_t length = space->dim[axis];
        if (length == 1)
            continue;
        if (merges(&loop, stride, axis, length)) {
            loop.dim[loop.rank - 1] *= length;
        } else {
            loop.dim[loop.rank++] = length;
        }
        for (int32_t k = 0; k < n_operand; k++)
            loop.stride[k][loop.rank - 1] = stride[k][axis];
    }
    if (loop.rank == 0) {
        loop.rank = 1;
        loop.dim[0] = 1;
        for (int32_t k = 0; k < n_operand; k++)
            loop.stride[k][0] = 1;
    }
    return loop;
}

kernel_loop kernel_loop_broadcast(const kernel_call *call)
{
    const ir_shape *space = &call->out[0].shape;
    int64_t stride[KERNEL_MAX_OPERAND][IR_MAX_RANK] = {{0}};
    FS_ASSERT(call->n_in < KERNEL_MAX_OPERAND);
    kernel_strides(space, stride[0]);
    for (int32_t k = 0; k < call->n_in; k++) {
        const ir_shape *in = &call->in[k].shape;
        int64_t own[IR_MAX_RANK];
        int32_t shift = space->rank - in->rank;
        kernel_strides(in, own);
        for (int32_t i = 0; i < in->rank; i++)
            stride[k + 1][i + shift] = in->dim[i] == 1 ? 0 : own[i];
    }
    return kernel_loop_make(space, call->n_in + 1, stride);
}

bool kernel_next(const kernel_loop *loop, kernel_walk *walk)
{
    for (int32_t i = loop->rank - 2; i >= 0; i--) {
        walk->index[i]++;
        for (int32_t k = 0; k < loop->n_operand; k++)
            walk->at[k] += loop->stride[k][i];
        if (walk->index[i] < loop->dim[i])
            return true;
        walk->index[i] = 0;
        for (int32_t k = 0; k < loop->n_operand; k++)
            walk->at[k] -= loop->dim[i] * loop->stride[k][i];
    }
    return false;
}

void kernel_binary(const kernel_call *call, kernel_row_2 *body)
{
    const kernel_loop loop = kernel_loop_broadcast(call);
    const int64_t row[3] = {kernel_row(&loop), kernel_step(&loop, 1),
                            kernel_step(&loop, 2)};
    const int64_t in_bytes = ir_dtype_bytes(call->in[0].dtype);
    const int64_t out_bytes = ir_dtype_bytes(call->out[0].dtype);
    const char *a = call->in[0].data, *b = call->in[1].data;
    char *out = call->out[0].data;
    kernel_walk w = {{0}, {0}};
    do
        body(out + w.at[0] * out_bytes, a + w.at[1] * in_bytes,
             b + w.at[2] * in_bytes, row);
    while (kernel_next(&loop, &w));
}

int64_t kernel_span(const ir_shape *shape, int32_t from, int32_t to)
{
    int64_t n = 1;
    for (int32_t i = from; i < to; i++)
        n *= shape->dim[i];
    return n;
}

int64_t kernel_rows(const ir_shape *shape)
{
    return kernel_span(shape, 0, shape->rank - 1);
}

int64_t kernel_columns(const ir_shape *shape)
{
    return shape->rank > 0 ? shape->dim[shape->rank - 1] : 1;
}

void kernel_convert(void *to, ir_dtype to_type, const void *from,
                    ir_dtype from_type, int64_t n)
{
    kernel_call cast = {.n_in = 1, .n_out = 1};
    if (from_type == to_type) {
        memcpy(to, from, (size_t)(n * ir_dtype_bytes(to_type)));
        return;
    }
    cast.in[0] = (kernel_arg){.data = (void *)from, .dtype = from_type};
    cast.out[0] = (kernel_arg){.data = to, .dtype = to_type};
    cast.in[0].shape = cast.out[0].shape = (ir_shape){.rank = 1, .dim = {n}};
    kernel_cpu_cast.run(NULL, &cast, NULL);
}

fs_status kernel_prepare_real(const kernel_call *shapes, fs_err *err,
                              void **state)
{
    (void)err;
    *state = NULL;
    ir_dtype dtype = shapes->out[0].dtype;
    if (kernel_is_narrow(shapes))
        return FS_NO;
    return dtype == IR_F32 || dtype == IR_F64 ? FS_OK : FS_NO;
}

fs_status kernel_prepare_number(const kernel_call *shapes, fs_err *err,
                                void **state)
{
    (void)err;
    *state = NULL;
    ir_dtype dtype = shapes->in[0].dtype;
    return dtype != IR_BOOL && ir_dtype_computes(dtype) ? FS_OK : FS_NO;
}

bool kernel_is_double(const kernel_call *call)
{
    ir_dtype dtype = call->out[0].dtype;
    FS_ASSERT(dtype == IR_F32 || dtype == IR_F64);
    return dtype == IR_F64;
}
