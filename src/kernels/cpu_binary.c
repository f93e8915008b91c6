/* Functions of two numbers with NumPy broadcasting: arithmetic, extremes and
 * remainders on floats and integers, comparisons, bits. */
#include "config.h"

#include "kernels/indices.h"
#include "kernels/loops.h"
#include "kernels/math.h"

#define REALS 0
#define WHOLES 1
#define FLAGS 2

#define OF REALS
#include "kernels/real_f32.h"
#include "kernels/cpu_binary.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_binary.inc"

#undef OF
#define OF WHOLES
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

#undef OF
#define OF FLAGS
#undef REAL
#undef T
#define REAL uint8_t
#define T(name) name##_bool
#include "kernels/cpu_binary.inc"

/* The kernel of `op` from its rows by the inputs' type. */
#define BINARY_KERNEL(op, ...)                                                 \
    static kernel_row_2 *const op##_rows[IR_DTYPE_COUNT] = {__VA_ARGS__};      \
    static fs_status op##_prepare(const kernel_call *shapes, fs_err *err,      \
                                  void **state)                                \
    {                                                                          \
        (void)err;                                                             \
        *state = NULL;                                                         \
        return op##_rows[shapes->in[0].dtype] ? FS_OK : FS_NO;                 \
    }                                                                          \
    static fs_status op##_run(void *state, const kernel_call *call,            \
                              fs_err *err)                                     \
    {                                                                          \
        (void)state, (void)err;                                                \
        kernel_binary(call, op##_rows[call->in[0].dtype]);                     \
        return FS_OK;                                                          \
    }                                                                          \
    KERNEL_REFERENCE(op, op##_prepare)
#define REAL_ROWS(op) [IR_F32] = op##_row_f32, [IR_F64] = op##_row_f64
#define WHOLE_ROWS(op) [IR_I32] = op##_row_i32, [IR_I64] = op##_row_i64
#define FLAG_ROWS(op) [IR_BOOL] = op##_row_bool

BINARY_KERNEL(add, REAL_ROWS(add), WHOLE_ROWS(add));
BINARY_KERNEL(sub, REAL_ROWS(sub), WHOLE_ROWS(sub));
BINARY_KERNEL(mul, REAL_ROWS(mul), WHOLE_ROWS(mul));
BINARY_KERNEL(max, REAL_ROWS(max), WHOLE_ROWS(max));
BINARY_KERNEL(min, REAL_ROWS(min), WHOLE_ROWS(min));
BINARY_KERNEL(pow, REAL_ROWS(pow));
BINARY_KERNEL(prelu, REAL_ROWS(prelu));
BINARY_KERNEL(equal, REAL_ROWS(equal), WHOLE_ROWS(equal), FLAG_ROWS(equal));
BINARY_KERNEL(less, REAL_ROWS(less), WHOLE_ROWS(less));
BINARY_KERNEL(less_equal, REAL_ROWS(less_equal), WHOLE_ROWS(less_equal));
BINARY_KERNEL(bit_and, WHOLE_ROWS(bit_and), FLAG_ROWS(bit_and));
BINARY_KERNEL(bit_or, WHOLE_ROWS(bit_or), FLAG_ROWS(bit_or));
BINARY_KERNEL(bit_xor, WHOLE_ROWS(bit_xor), FLAG_ROWS(bit_xor));

KERNEL_REAL(max_grad);
KERNEL_REAL(min_grad);
KERNEL_REAL(prelu_grad);

/* ---- division ---- */

static fs_status number_prepare(const kernel_call *shapes, fs_err *err,
                                void **state)
{
    ir_dtype dtype = shapes->out[0].dtype;
    (void)err;
    *state = NULL;
    return dtype == IR_BOOL || !ir_dtype_computes(dtype) ? FS_NO : FS_OK;
}

/* b is not 0; the least integer has no negative: it wraps. */
typedef int64_t index_body(int64_t a, int64_t b);

static int64_t quotient(int64_t a, int64_t b)
{
    return b == -1 ? -a : a / b;
}

static int64_t mod_trunc(int64_t a, int64_t b)
{
    return b == -1 ? 0 : a % b;
}

static int64_t mod_floor(int64_t a, int64_t b)
{
    const int64_t r = mod_trunc(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static void put_index(const kernel_arg *arg, int64_t at, int64_t value)
{
    if (arg->dtype == IR_I64)
        ((int64_t *)arg->data)[at] = value;
    else
        ((int32_t *)arg->data)[at] = (int32_t)value;
}

/* Integers: a divisor of 0 is a fault. */
static fs_status divide(const kernel_call *call, index_body *body, fs_err *err)
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
                return fs_fail(err, FS_FAULT,
                               "integer division by 0 at element %lld",
                               (long long)at);
            put_index(&call->out[0], w.at[0] + i, body(a, b));
        }
    } while (kernel_next(&loop, &w));
    return FS_OK;
}

static fs_status div_run(void *state, const kernel_call *call, fs_err *err)
{
    (void)state;
    if (kernel_is_index(&call->out[0]))
        return divide(call, quotient, err);
    kernel_binary(call, kernel_is_double(call) ? div_row_f64 : div_row_f32);
    return FS_OK;
}
KERNEL_REFERENCE(div, number_prepare);

static fs_status mod_run(void *state, const kernel_call *call, fs_err *err)
{
    const bool trunc = call->node->i[0] != 0;
    (void)state;
    if (kernel_is_index(&call->out[0]))
        return divide(call, trunc ? mod_trunc : mod_floor, err);
    if (kernel_is_double(call))
        kernel_binary(call, trunc ? mod_trunc_row_f64 : mod_floor_row_f64);
    else
        kernel_binary(call, trunc ? mod_trunc_row_f32 : mod_floor_row_f32);
    return FS_OK;
}
KERNEL_REFERENCE(mod, number_prepare);
