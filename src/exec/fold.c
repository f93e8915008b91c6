/* Element-wise reductions. */
#include "config.h"
#include "exec/piece.h"

#include "base/half.h"
#include "base/wide.h"

bool exec_can_fold(ir_dtype dtype)
{
    return ir_dtype_is_number(dtype);
}

/* Integers wrap around, as they do in kernels. */
static int32_t wrap_i32(uint64_t sum)
{
    return (int32_t)(uint32_t)sum;
}

static int64_t wrap_i64(uint64_t sum)
{
    return (int64_t)sum;
}

/* One function per dtype. `get` is how an element is compared, `sum` and `put`
 * how two are added: 16-bit floats as float. */
#define FOLD(name, type, get, sum, put)                                        \
    FS_CLONES static void name(ir_sbp_kind kind, type *to, const type *a,      \
                               const type *b, int64_t n)                       \
    {                                                                          \
        if (kind == IR_PSUM) {                                                 \
            FS_IVDEP                                                           \
            for (int64_t i = 0; i < n; i++)                                    \
                to[i] = put(sum(a[i]) + sum(b[i]));                            \
        } else if (kind == IR_PMAX) {                                          \
            FS_IVDEP                                                           \
            for (int64_t i = 0; i < n; i++)                                    \
                to[i] = get(b[i]) > get(a[i]) ? b[i] : a[i];                   \
        } else {                                                               \
            FS_IVDEP                                                           \
            for (int64_t i = 0; i < n; i++)                                    \
                to[i] = get(b[i]) < get(a[i]) ? b[i] : a[i];                   \
        }                                                                      \
    }
FOLD(fold_f32, float, , , )
FOLD(fold_f64, double, , , )
FOLD(fold_i32, int32_t, , (uint64_t), wrap_i32)
FOLD(fold_i64, int64_t, , (uint64_t), wrap_i64)
FOLD(fold_u8, uint8_t, , , (uint8_t))
FOLD(fold_f16, fs_half, fs_from_half, fs_from_half, fs_to_half)
FOLD(fold_bf16, fs_bfloat, fs_from_bfloat, fs_from_bfloat, fs_to_bfloat)

void exec_fold_two(ir_sbp_kind kind, ir_dtype dtype, void *to, const void *a,
                   const void *b, int64_t count)
{
    switch (dtype) {
    case IR_F32:
        fold_f32(kind, to, a, b, count);
        break;
    case IR_F64:
        fold_f64(kind, to, a, b, count);
        break;
    case IR_I32:
        fold_i32(kind, to, a, b, count);
        break;
    case IR_I64:
        fold_i64(kind, to, a, b, count);
        break;
    case IR_U8: /* bytes of any type that have one owner each */
        fold_u8(kind, to, a, b, count);
        break;
    case IR_F16:
        fold_f16(kind, to, a, b, count);
        break;
    case IR_BF16:
        fold_bf16(kind, to, a, b, count);
        break;
    default:
        FS_ASSERT(exec_can_fold(dtype));
    }
}

void exec_fold(ir_sbp_kind kind, ir_dtype dtype, void *to, const void *from,
               int64_t count)
{
    exec_fold_two(kind, dtype, to, to, from, count);
}
