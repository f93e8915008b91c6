/* add, sub, mul, div with NumPy broadcasting, on floats and integers. */
#include "config.h"

#include "kernels/indices.h"
#include "kernels/loops.h"
#include "kernels/math.h"

#define IS_FLOAT 1
#include "kernels/real_f32.h"
#include "kernels/cpu_binary.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_binary.inc"

#undef IS_FLOAT
#define IS_FLOAT 0
#undef REAL
#undef T
#define REAL int32_t
#define T(name) name##_i32
#include "kernels/cpu_binary.inc"

#undef REAL
#undef T
#define REAL int64_t
#define T(name) name##_i64
#include "kernels/cpu_binary.inc"

static void put_index(const kernel_arg *arg, int64_t at, int64_t value)
{
    if (arg->dtype == IR_I64)
        ((int64_t *)arg->data)[at] = value;
    else
        ((int32_t *)arg->data)[at] = (int32_t)value;
}

/* Integers: towards zero; a divisor of 0 is a fault. */
static fs_status div_index(const kernel_call *call, fs_err *err)
{
    const kernel_loop loop = kernel_loop_broadcast(call);
    kernel_walk w = {{0}, {0}};
    do {
        for (int64_t i = 0; i < kernel_row(&loop); i++) {
            const int64_t at = w.at[2] + i * kernel_step(&loop, 2);
            const int64_t a =
                kernel_index(&call->in[0], w.at[1] + i * kernel_step(&loop, 1));
            const int64_t b = kernel_index(&call->in[1], at);
            if (b == 0)
                return fs_fail(
                    err, FS_FAULT, "%s: integer division by 0 at element %lld",
                    call->node->name ? call->node->name : "div", (long long)at);
            /* The least integer has no negative: it wraps. */
            put_index(&call->out[0], w.at[0] + i, b == -1 ? -a : a / b);
        }
    } while (kernel_next(&loop, &w));
    return FS_OK;
}

#define BINARY_RUN(op, integer_i32, integer_i64)                               \
    static fs_status op##_run(void *state, const kernel_call *call,            \
                              fs_err *err)                                     \
    {                                                                          \
        (void)state, (void)err;                                                \
        switch (call->out[0].dtype) {                                          \
        case IR_F32:                                                           \
            op##_f32(call);                                                    \
            break;                                                             \
        case IR_F64:                                                           \
            op##_f64(call);                                                    \
            break;                                                             \
        case IR_I32:                                                           \
            integer_i32;                                                       \
            break;                                                             \
        case IR_I64:                                                           \
            integer_i64;                                                       \
            break;                                                             \
        default:                                                               \
            FS_ASSERT(!"arithmetic on a type that does not compute");                                  \
        }                                                                      \
        return FS_OK;                                                          \
    }                                                                          \
    KERNEL_REFERENCE(op, number_prepare)

static fs_status number_prepare(const kernel_call *shapes, fs_err *err,
                                void **state)
{
    (void)err;
    *state = NULL;
    return shapes->out[0].dtype == IR_BOOL ||
                   !ir_dtype_computes(shapes->out[0].dtype)
               ? FS_NO
               : FS_OK;
}

BINARY_RUN(add, add_i32(call), add_i64(call));
BINARY_RUN(sub, sub_i32(call), sub_i64(call));
BINARY_RUN(mul, mul_i32(call), mul_i64(call));
BINARY_RUN(div, return div_index(call, err), return div_index(call, err));
