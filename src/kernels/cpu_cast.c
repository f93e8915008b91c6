/* cast: from every type to every type. Reals go towards zero; what an int64_t
 * does not hold (and NaN) becomes the least one, and narrower integers keep
 * the low bits of that. Anything but 0 is true. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

#include "base/half.h"

#define CAST_NAME_OF(id) cast_to_##id
#define CAST_NAME(id) CAST_NAME_OF(id)
#define FROM_F16 fs_from_half
#define FROM_BF16 fs_from_bfloat

static inline int64_t whole_of_real(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

static inline uint64_t unsigned_of_real(double x)
{
    return x >= 0x1p63 && x < 0x1p64 ? (uint64_t)x : (uint64_t)whole_of_real(x);
}

#define WHOLE(x)                                                               \
    _Generic((x), float                                                        \
             : whole_of_real, double                                           \
             : whole_of_real, default                                          \
             : whole_of_whole)(x)
#define UNSIGNED(x)                                                            \
    _Generic((x), float                                                        \
             : unsigned_of_real, double                                        \
             : unsigned_of_real, default                                       \
             : unsigned_of_whole)(x)

static inline int64_t whole_of_whole(int64_t x)
{
    return x;
}

static inline uint64_t unsigned_of_whole(uint64_t x)
{
    return x;
}

#define TO_ID F32
#define TO_TYPE float
#define TO(x) (float)(x)
#include "kernels/cpu_cast.inc"

#define TO_ID F64
#define TO_TYPE double
#define TO(x) (double)(x)
#include "kernels/cpu_cast.inc"

#define TO_ID I32
#define TO_TYPE int32_t
#define TO(x) (int32_t) WHOLE(x)
#include "kernels/cpu_cast.inc"

#define TO_ID I64
#define TO_TYPE int64_t
#define TO(x) (int64_t) WHOLE(x)
#include "kernels/cpu_cast.inc"

#define TO_ID I8
#define TO_TYPE int8_t
#define TO(x) (int8_t) WHOLE(x)
#include "kernels/cpu_cast.inc"

#define TO_ID U8
#define TO_TYPE uint8_t
#define TO(x) (uint8_t) WHOLE(x)
#include "kernels/cpu_cast.inc"

#define TO_ID I16
#define TO_TYPE int16_t
#define TO(x) (int16_t) WHOLE(x)
#include "kernels/cpu_cast.inc"

#define TO_ID U16
#define TO_TYPE uint16_t
#define TO(x) (uint16_t) WHOLE(x)
#include "kernels/cpu_cast.inc"

#define TO_ID U32
#define TO_TYPE uint32_t
#define TO(x) (uint32_t) WHOLE(x)
#include "kernels/cpu_cast.inc"

#define TO_ID U64
#define TO_TYPE uint64_t
#define TO(x) UNSIGNED(x)
#include "kernels/cpu_cast.inc"

#define TO_ID BOOL
#define TO_TYPE uint8_t
#define TO(x) ((x) != 0)
#include "kernels/cpu_cast.inc"

#define TO_ID F16
#define TO_TYPE fs_half
#define TO(x) fs_to_half((float)(x))
#include "kernels/cpu_cast.inc"

#define TO_ID BF16
#define TO_TYPE fs_bfloat
#define TO(x) fs_to_bfloat((float)(x))
#include "kernels/cpu_cast.inc"

static fs_status cast_run(void *state, const kernel_call *call, fs_err *err)
{
    static void (*const to[])(const kernel_call *) = {
#define IR_DTYPE(id, ...) cast_to_##id,
#include "ir/dtypes.def"
#undef IR_DTYPE
    };
    (void)state, (void)err;
    to[call->out[0].dtype](call);
    return FS_OK;
}
KERNEL_REFERENCE(cast, NULL);
