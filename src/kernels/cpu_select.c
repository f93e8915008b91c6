/* where and cast: element-wise ops that move more than reals. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

/* Rows of `where` by size of element; step[] of c, a, b is 0 or 1. */
#define WHERE_ROW(name, type)                                                  \
    KERNEL_CLONES static void name(void *out, const uint8_t *restrict c,       \
                                   const void *in[2], const int64_t row[4])    \
    {                                                                          \
        const type *restrict a = in[0], *restrict b = in[1];                   \
        type *restrict to = out;                                               \
        const int64_t n = row[0];                                              \
        if (row[1] && row[2] && row[3])                                        \
            for (int64_t i = 0; i < n; i++)                                    \
                to[i] = c[i] ? a[i] : b[i];                                    \
        else                                                                   \
            for (int64_t i = 0; i < n; i++)                                    \
                to[i] = c[row[1] * i] ? a[row[2] * i] : b[row[3] * i];         \
    }
WHERE_ROW(where_row_1, uint8_t)
WHERE_ROW(where_row_4, uint32_t)
WHERE_ROW(where_row_8, uint64_t)

static fs_status where_run(void *state, const kernel_call *call, fs_err *err)
{
    (void)state, (void)err;
    const kernel_loop loop = kernel_loop_broadcast(call);
    const int64_t row[4] = {kernel_row(&loop), kernel_step(&loop, 1),
                            kernel_step(&loop, 2), kernel_step(&loop, 3)};
    const int64_t bytes = ir_dtype_bytes(call->out[0].dtype);
    const uint8_t *c = call->in[0].data;
    const char *a = call->in[1].data, *b = call->in[2].data;
    char *out = call->out[0].data;
    kernel_walk w = {{0}, {0}};
    do {
        const void *in[2] = {a + w.at[2] * bytes, b + w.at[3] * bytes};
        void *to = out + w.at[0] * bytes;
        if (bytes == 8)
            where_row_8(to, c + w.at[1], in, row);
        else if (bytes == 4)
            where_row_4(to, c + w.at[1], in, row);
        else
            where_row_1(to, c + w.at[1], in, row);
    } while (kernel_next(&loop, &w));
    return FS_OK;
}
KERNEL_REFERENCE(where, NULL);

/* CAST_TO(to, out type): from every dtype. CAST_TEST: anything but 0 is
 * true. */
#define CAST_LOOP(from_type, to_type, result)                                  \
    {                                                                          \
        const from_type *restrict in = call->in[0].data;                       \
        to_type *restrict out = call->out[0].data;                             \
        for (int64_t i = 0; i < n; i++)                                        \
            out[i] = (to_type)(result);                                        \
    }                                                                          \
    break;
#define CAST_FROM_EACH(to_type, result)                                        \
    switch (call->in[0].dtype) {                                               \
    case IR_F32:                                                               \
        CAST_LOOP(float, to_type, result)                                      \
    case IR_F64:                                                               \
        CAST_LOOP(double, to_type, result)                                     \
    case IR_I32:                                                               \
        CAST_LOOP(int32_t, to_type, result)                                    \
    case IR_I64:                                                               \
        CAST_LOOP(int64_t, to_type, result)                                    \
    case IR_BOOL:                                                              \
        CAST_LOOP(uint8_t, to_type, result)                                    \
    }
#define CAST_TO(name, to_type, result)                                         \
    static void name(const kernel_call *call)                                  \
    {                                                                          \
        const int64_t n = ir_shape_count(&call->out[0].shape);                 \
        CAST_FROM_EACH(to_type, result)                                        \
    }
CAST_TO(cast_to_f32, float, in[i])
CAST_TO(cast_to_f64, double, in[i])
CAST_TO(cast_to_i32, int32_t, in[i])
CAST_TO(cast_to_i64, int64_t, in[i])
CAST_TO(cast_to_bool, uint8_t, in[i] != 0)

static fs_status cast_run(void *state, const kernel_call *call, fs_err *err)
{
    (void)state, (void)err;
    switch (call->out[0].dtype) {
    case IR_F32:
        cast_to_f32(call);
        break;
    case IR_F64:
        cast_to_f64(call);
        break;
    case IR_I32:
        cast_to_i32(call);
        break;
    case IR_I64:
        cast_to_i64(call);
        break;
    case IR_BOOL:
        cast_to_bool(call);
        break;
    }
    return FS_OK;
}
KERNEL_REFERENCE(cast, NULL);
