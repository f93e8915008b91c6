#include "config.h"
#include "exec/piece.h"

#include "base/half.h"

#include <string.h>

exec_part exec_part_along(const ir_shape *shape, int32_t axis, int64_t start,
                          int64_t length, int64_t element_bytes)
{
    int64_t outer = 1, inner = element_bytes;
    for (int32_t d = 0; d < axis; d++)
        outer *= shape->dim[d];
    for (int32_t d = axis + 1; d < shape->rank; d++)
        inner *= shape->dim[d];
    exec_part part = {start * inner, outer, length * inner,
                      shape->dim[axis] * inner};
    if (part.run == part.stride || outer == 1) {
        part.run *= outer;
        part.outer = 1;
        part.stride = part.run;
    }
    return part;
}

int64_t exec_part_bytes(const exec_part *part)
{
    return part->outer * part->run;
}

void exec_part_pack(const exec_part *part, const void *from, void *to)
{
    const char *source = (const char *)from + part->offset;
    char *target = to;
    for (int64_t i = 0; i < part->outer; i++)
        memcpy(target + i * part->run, source + i * part->stride,
               (size_t)part->run);
}

void exec_part_unpack(const exec_part *part, const void *from, void *to)
{
    const char *source = from;
    char *target = (char *)to + part->offset;
    for (int64_t i = 0; i < part->outer; i++)
        memcpy(target + i * part->stride, source + i * part->run,
               (size_t)part->run);
}

void exec_piece_rows(const ir_shape *whole, const ir_shape *local,
                     const int64_t *offset, exec_row_fn *row, void *ctx)
{
    int32_t last = local->rank - 1;
    if (last < 0) {
        row(ctx, 0, 0, 1);
        return;
    }
    int64_t length = local->dim[last];
    int64_t rows = ir_shape_count(local) / length;
    int64_t at[IR_MAX_RANK] = {0};
    for (int64_t r = 0; r < rows; r++) {
        int64_t start = 0;
        for (int32_t d = 0; d <= last; d++)
            start = start * whole->dim[d] + offset[d] + at[d];
        row(ctx, r * length, start, length);
        for (int32_t d = last - 1; d >= 0 && ++at[d] == local->dim[d]; d--)
            at[d] = 0;
    }
}

typedef struct cutting {
    int64_t bytes;
    const char *from;
    char *to;
} cutting;

static void cut_row(void *ctx, int64_t local, int64_t whole, int64_t length)
{
    cutting *cut = ctx;
    memcpy(cut->to + local * cut->bytes, cut->from + whole * cut->bytes,
           (size_t)(length * cut->bytes));
}

void exec_piece_cut(const ir_shape *whole, const ir_shape *local,
                    const int64_t *offset, int64_t element_bytes,
                    const void *from, void *to)
{
    cutting cut = {element_bytes, from, to};
    exec_piece_rows(whole, local, offset, cut_row, &cut);
}

bool exec_can_fold(ir_dtype dtype)
{
    return ir_dtype_is_number(dtype);
}

/* One function per dtype; the loops are plain so that they vectorise. get and
 * put are how an element is computed with: 16-bit floats as float, rounded at
 * every fold. */
#define FOLD(name, type, get, put)                                             \
    static void name(ir_sbp_kind kind, type *to, const type *from, int64_t n)  \
    {                                                                          \
        if (kind == IR_PSUM)                                                   \
            for (int64_t i = 0; i < n; i++)                                    \
                to[i] = put(get(to[i]) + get(from[i]));                        \
        else if (kind == IR_PMAX)                                              \
            for (int64_t i = 0; i < n; i++)                                    \
                to[i] = get(from[i]) > get(to[i]) ? from[i] : to[i];           \
        else                                                                   \
            for (int64_t i = 0; i < n; i++)                                    \
                to[i] = get(from[i]) < get(to[i]) ? from[i] : to[i];           \
    }
FOLD(fold_f32, float, , )
FOLD(fold_f64, double, , )
FOLD(fold_i32, int32_t, , )
FOLD(fold_i64, int64_t, , )
FOLD(fold_f16, fs_half, fs_from_half, fs_to_half)
FOLD(fold_bf16, fs_bfloat, fs_from_bfloat, fs_to_bfloat)

void exec_fold(ir_sbp_kind kind, ir_dtype dtype, void *to, const void *from,
               int64_t count)
{
    switch (dtype) {
    case IR_F32:
        fold_f32(kind, to, from, count);
        break;
    case IR_F64:
        fold_f64(kind, to, from, count);
        break;
    case IR_I32:
        fold_i32(kind, to, from, count);
        break;
    case IR_I64:
        fold_i64(kind, to, from, count);
        break;
    case IR_F16:
        fold_f16(kind, to, from, count);
        break;
    case IR_BF16:
        fold_bf16(kind, to, from, count);
        break;
    default:
        FS_ASSERT(exec_can_fold(dtype));
    }
}
