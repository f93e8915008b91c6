#include "config.h"
#include "ir/element.h"

#include "base/half.h"

int64_t ir_saturate(double x)
{
    if (!(x > -0x1p63))
        return INT64_MIN;
    return x >= 0x1p63 ? INT64_MAX : (int64_t)x;
}

static double half_at(ir_dtype dtype, const void *data, int64_t at)
{
    return dtype == IR_F16 ? fs_from_half(((const fs_half *)data)[at])
                           : fs_from_bfloat(((const fs_bfloat *)data)[at]);
}

static void set_half(ir_dtype dtype, void *data, int64_t at, double value)
{
    if (dtype == IR_F16)
        ((fs_half *)data)[at] = fs_to_half((float)value);
    else
        ((fs_bfloat *)data)[at] = fs_to_bfloat((float)value);
}

/* ROW_<kind>(id, type): what each function does with an element of it. */
#define IR_DTYPE(id, name, type, kind) ROW_##kind(id, type)

double ir_element_real(ir_dtype dtype, const void *data, int64_t at)
{
#define ROW_REAL(id, type)                                                     \
    case IR_##id:                                                              \
        return (double)((const type *)data)[at];
#define ROW_WHOLE ROW_REAL
#define ROW_NARROW ROW_REAL
#define ROW_FLAG ROW_REAL
#define ROW_HALF(id, type)                                                     \
    case IR_##id:                                                              \
        return half_at(dtype, data, at);
    switch (dtype) {
#include "ir/dtypes.def"
    }
#undef ROW_REAL
#undef ROW_HALF
    FS_ASSERT(!"a dtype");
    return 0;
}

int64_t ir_element_int(ir_dtype dtype, const void *data, int64_t at)
{
#define ROW_REAL(id, type)                                                     \
    case IR_##id:                                                              \
        return ir_saturate((double)((const type *)data)[at]);
#undef ROW_WHOLE
#define ROW_WHOLE(id, type)                                                    \
    case IR_##id:                                                              \
        return (int64_t)((const type *)data)[at];
#undef ROW_NARROW
#define ROW_NARROW ROW_WHOLE
#undef ROW_FLAG
#define ROW_FLAG ROW_WHOLE
#define ROW_HALF(id, type)                                                     \
    case IR_##id:                                                              \
        return ir_saturate(half_at(dtype, data, at));
    switch (dtype) {
#include "ir/dtypes.def"
    }
#undef ROW_REAL
#undef ROW_WHOLE
#undef ROW_FLAG
#undef ROW_HALF
    FS_ASSERT(!"a dtype");
    return 0;
}

/* Least and greatest value, as reals that int64_t holds. */
static int64_t within(double value, double least, double most)
{
    return ir_saturate(value < least ? least : value > most ? most : value);
}

static int64_t saturated(ir_dtype dtype, double value)
{
    double bits = 8.0 * (double)ir_dtype_bytes(dtype), span = 1;
    bool positive = dtype == IR_U8 || dtype == IR_U16 || dtype == IR_U32;
    if (bits == 64)
        return ir_saturate(value);
    for (double k = positive ? 0 : 1; k < bits; k++)
        span *= 2;
    return within(value, positive ? 0 : -span, span - 1);
}

void ir_element_set_real(ir_dtype dtype, void *data, int64_t at, double value)
{
    switch (dtype) {
    case IR_F32:
        ((float *)data)[at] = (float)value;
        break;
    case IR_F64:
        ((double *)data)[at] = value;
        break;
    case IR_F16:
    case IR_BF16:
        set_half(dtype, data, at, value);
        break;
    case IR_BOOL:
        ((uint8_t *)data)[at] = value != 0;
        break;
    case IR_U64:
        ((uint64_t *)data)[at] = value >= 0x1p63 && value < 0x1p64
                                     ? (uint64_t)value
                                     : (uint64_t)ir_saturate(value);
        break;
    default:
        ir_element_set_int(dtype, data, at, saturated(dtype, value));
    }
}

void ir_element_set_int(ir_dtype dtype, void *data, int64_t at, int64_t value)
{
#define ROW_REAL(id, type)                                                     \
    case IR_##id:                                                              \
        ((type *)data)[at] = (type)value;                                      \
        break;
#define ROW_WHOLE ROW_REAL
#define ROW_FLAG(id, type)                                                     \
    case IR_##id:                                                              \
        ((type *)data)[at] = value != 0;                                       \
        break;
#define ROW_HALF(id, type)                                                     \
    case IR_##id:                                                              \
        set_half(dtype, data, at, (double)value);                              \
        break;
    switch (dtype) {
#include "ir/dtypes.def"
    }
#undef ROW_REAL
#undef ROW_WHOLE
#undef ROW_NARROW
#undef ROW_FLAG
#undef ROW_HALF
}
