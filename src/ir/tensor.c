#include "config.h"
#include "ir/tensor.h"

#include "base/half.h"

#include <stdio.h>
#include <string.h>

typedef enum dtype_kind { REAL, WHOLE, FLAG, HALF, NARROW } dtype_kind;

static const struct {
    const char *name;
    int64_t bytes;
    dtype_kind kind;
} dtypes[] = {
#define IR_DTYPE(id, name, type, kind) {name, (int64_t)sizeof(type), kind},
#include "ir/dtypes.def"
#undef IR_DTYPE
};

int64_t ir_dtype_bytes(ir_dtype dtype)
{
    return dtypes[dtype].bytes;
}

const char *ir_dtype_name(ir_dtype dtype)
{
    return dtypes[dtype].name;
}

bool ir_dtype_is_float(ir_dtype dtype)
{
    return dtypes[dtype].kind == REAL || dtypes[dtype].kind == HALF;
}

bool ir_dtype_is_int(ir_dtype dtype)
{
    return dtypes[dtype].kind == WHOLE || dtypes[dtype].kind == NARROW;
}

bool ir_dtype_computes(ir_dtype dtype)
{
    return dtypes[dtype].kind < HALF;
}

bool ir_dtype_is_number(ir_dtype dtype)
{
    dtype_kind kind = dtypes[dtype].kind;
    return kind == REAL || kind == WHOLE || kind == HALF;
}

ir_dtype ir_dtype_widened(ir_dtype dtype)
{
    if (ir_dtype_computes(dtype))
        return dtype;
    if (dtypes[dtype].kind == HALF)
        return IR_F32;
    return dtypes[dtype].bytes < 4 ? IR_I32 : IR_I64;
}

ir_shape ir_shape_make(int32_t rank, const int64_t *dim)
{
    FS_ASSERT(rank >= 0 && rank <= IR_MAX_RANK);
    ir_shape shape = {.rank = rank};
    for (int32_t i = 0; i < rank; i++)
        shape.dim[i] = dim[i];
    return shape;
}

bool ir_shape_equal(const ir_shape *a, const ir_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

int64_t ir_shape_count(const ir_shape *shape)
{
    int64_t count = 1;
    for (int32_t i = 0; i < shape->rank; i++)
        count *= shape->dim[i];
    return count;
}

char *ir_shape_text(char out[160], const ir_shape *shape)
{
    size_t n = 0;
    if (shape->rank <= 0)
        snprintf(out, 160, "%s", shape->rank == 0 ? "scalar" : "none");
    for (int32_t i = 0; i < shape->rank && n < 160; i++)
        n += (size_t)snprintf(out + n, 160 - n, "%s%lld", i ? "x" : "",
                              (long long)shape->dim[i]);
    return out;
}

fs_status ir_shape_check(const ir_shape *shape, const char *what, fs_err *err)
{
    int64_t bytes = 8;
    if (shape->rank < 0 || shape->rank > IR_MAX_RANK)
        return fs_fail(err, FS_INVALID,
                       "%s: %d dimensions; at most %d are supported", what,
                       shape->rank, IR_MAX_RANK);
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dim[i] < 1)
            return fs_fail(err, FS_INVALID,
                           "%s: dimension %d is %lld; it must be at least 1",
                           what, i, (long long)shape->dim[i]);
        if (__builtin_mul_overflow(bytes, shape->dim[i], &bytes)) {
            char text[160];
            return fs_fail(err, FS_INVALID,
                           "%s: a tensor of shape %s is too large to count its "
                           "bytes",
                           what, ir_shape_text(text, shape));
        }
    }
    return FS_OK;
}

static int64_t dim_from_right(const ir_shape *shape, int32_t k)
{
    return k < shape->rank ? shape->dim[shape->rank - 1 - k] : 1;
}

fs_status ir_shape_broadcast(const ir_shape *a, const ir_shape *b, fs_err *err,
                             ir_shape *out)
{
    ir_shape result = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int32_t k = 0; k < result.rank; k++) {
        int64_t x = dim_from_right(a, k), y = dim_from_right(b, k);
        if (x != y && x != 1 && y != 1) {
            char left[160], right[160];
            return fs_fail(err, FS_INVALID,
                           "shapes %s and %s do not broadcast: %lld against "
                           "%lld",
                           ir_shape_text(left, a), ir_shape_text(right, b),
                           (long long)x, (long long)y);
        }
        result.dim[result.rank - 1 - k] = x > y ? x : y;
    }
    *out = result;
    return FS_OK;
}
