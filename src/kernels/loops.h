/* What the reference kernels share: strided iteration over broadcast shapes
 * and the frame that turns a typed body into a kernel. */
#ifndef FS_KERNELS_LOOPS_H
#define FS_KERNELS_LOOPS_H

#include "kernels/table.h"

enum { KERNEL_MAX_OPERAND = 4 };

/* A walk over `dim[0..rank)` (rank >= 1) in row-major order; operand 0 is the
 * output. Strides in elements, 0 where an operand is stretched. Axes along
 * which every operand goes on evenly are merged, axes of length 1 dropped. */
typedef struct kernel_loop {
    int32_t rank, n_operand;
    int64_t dim[IR_MAX_RANK];
    int64_t stride[KERNEL_MAX_OPERAND][IR_MAX_RANK];
} kernel_loop;

/* Row-major strides of a shape. */
void kernel_strides(const ir_shape *shape, int64_t stride[IR_MAX_RANK]);
/* Over `space`, with these strides per operand. */
kernel_loop kernel_loop_make(const ir_shape *space, int32_t n_operand,
                             int64_t stride[][IR_MAX_RANK]);
/* NumPy broadcasting of call->in[0..n_in) to call->out[0]. */
kernel_loop kernel_loop_broadcast(const kernel_call *call);

/* The state of a walk by innermost rows; at[] are element offsets.
 *   kernel_walk w = {0};
 *   do row(out + w.at[0], in + w.at[1], ...); while (kernel_next(&loop, &w));
 */
typedef struct kernel_walk {
    int64_t index[IR_MAX_RANK], at[KERNEL_MAX_OPERAND];
} kernel_walk;
bool kernel_next(const kernel_loop *loop, kernel_walk *walk);
/* Length of an innermost row, and an operand's stride along it. */
static inline int64_t kernel_row(const kernel_loop *loop)
{
    return loop->dim[loop->rank - 1];
}
static inline int64_t kernel_step(const kernel_loop *loop, int32_t operand)
{
    return loop->stride[operand][loop->rank - 1];
}

/* A row of a function of two: n = row[0] elements of to from a and b, whose
 * steps row[1] and row[2] are 0 or 1, not both 0 when n > 1. */
typedef void kernel_row_2(void *restrict to, const void *restrict a,
                          const void *restrict b, const int64_t row[3]);
/* Over all rows of in[0] and in[1], broadcast to out[0]. */
void kernel_binary(const kernel_call *call, kernel_row_2 *body);

/* Elements of a shape but for its last axis, and that axis (1 for scalars). */
int64_t kernel_rows(const ir_shape *shape);
int64_t kernel_columns(const ir_shape *shape);
/* Product of dim[from .. to). */
int64_t kernel_span(const ir_shape *shape, int32_t from, int32_t to);

/* n elements of one type as another. */
void kernel_convert(void *to, ir_dtype to_type, const void *from,
                    ir_dtype from_type, int64_t n);

/* FS_NO unless the first output is F32 or F64. */
fs_status kernel_prepare_real(const kernel_call *shapes, fs_err *err,
                              void **state);
/* FS_NO unless the first input is of a type that computes, not bool. */
fs_status kernel_prepare_number(const kernel_call *shapes, fs_err *err,
                                void **state);
/* Of the first output; asserts that it is F32 or F64. */
bool kernel_is_double(const kernel_call *call);

/* Defines the reference kernel of `op` from op_f32 and op_f64, which return
 * nothing and cannot fail; the first half alone is its op_run. */
#define KERNEL_REAL_RUN(op)                                                    \
    static fs_status op##_run(void *state, const kernel_call *call,            \
                              fs_err *err)                                     \
    {                                                                          \
        (void)state, (void)err;                                                \
        if (kernel_is_double(call))                                            \
            op##_f64(call);                                                    \
        else                                                                   \
            op##_f32(call);                                                    \
        return FS_OK;                                                          \
    }
#define KERNEL_REAL(op)                                                        \
    KERNEL_REAL_RUN(op)                                                        \
    KERNEL_REFERENCE(op, kernel_prepare_real)
/* Likewise, when the typed bodies return a status. */
#define KERNEL_REAL_CHECKED(op)                                                \
    static fs_status op##_run(void *state, const kernel_call *call,            \
                              fs_err *err)                                     \
    {                                                                          \
        (void)state;                                                           \
        return kernel_is_double(call) ? op##_f64(call, err)                    \
                                      : op##_f32(call, err);                   \
    }                                                                          \
    KERNEL_REFERENCE(op, kernel_prepare_real)
/* Likewise of op_f32, op_f64, op_i32 and op_i64, by the first input's type. */
#define KERNEL_NUMBER(op)                                                      \
    static fs_status op##_run(void *state, const kernel_call *call,            \
                              fs_err *err)                                     \
    {                                                                          \
        (void)state, (void)err;                                                \
        if (call->in[0].dtype == IR_F32)                                       \
            op##_f32(call);                                                    \
        else if (call->in[0].dtype == IR_F64)                                  \
            op##_f64(call);                                                    \
        else if (call->in[0].dtype == IR_I32)                                  \
            op##_i32(call);                                                    \
        else                                                                   \
            op##_i64(call);                                                    \
        return FS_OK;                                                          \
    }                                                                          \
    KERNEL_REFERENCE(op, kernel_prepare_number)
#define KERNEL_REFERENCE(op, prepare_function)                                 \
    const kernel kernel_cpu_##op = {                                           \
        .variant = "reference",                                                \
        .prepare = prepare_function,                                           \
        .run = op##_run,                                                       \
    }

#endif
