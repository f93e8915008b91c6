#include "config.h"
#include "exec/piece.h"

#include "base/half.h"

#include <math.h>
#include <string.h>

/* Axes that the box fills whole are one run with the axis before them; loops
 * that go on where the inner one ends are one loop. */
exec_part exec_part_of(const ir_piece *box, const ir_piece *holder,
                       int64_t element_bytes)
{
    exec_part part = {.run = element_bytes};
    int64_t stride = element_bytes, count[IR_MAX_RANK], step[IR_MAX_RANK];
    int32_t n = 0;

    for (int32_t d = box->shape.rank - 1; d >= 0; d--) {
        const int64_t length = box->shape.dim[d];
        part.offset += (box->offset[d] - holder->offset[d]) * stride;
        if (n == 0 && stride == part.run) {
            part.run *= length;
        } else if (n > 0 && step[n - 1] * count[n - 1] == stride) {
            count[n - 1] *= length;
        } else if (length > 1) {
            count[n] = length;
            step[n++] = stride;
        }
        stride *= holder->shape.dim[d];
    }
    for (int32_t i = 0; i < n; i++) {
        part.count[i] = count[n - 1 - i];
        part.stride[i] = step[n - 1 - i];
    }
    part.n = n;
    return part;
}

int64_t exec_part_bytes(const exec_part *part)
{
    int64_t all = 0;
    for (; part; part = part->next) {
        int64_t bytes = part->run;
        for (int32_t i = 0; i < part->n; i++)
            bytes *= part->count[i];
        all += bytes;
    }
    return all;
}

/* The runs of a part one after the other. */
typedef struct walk {
    const exec_part *part;
    int64_t at, left; /* of the current run */
    int64_t index[IR_MAX_RANK];
} walk;

static walk walk_of(const exec_part *part)
{
    return (walk){.part = part, .at = part->offset, .left = part->run};
}

static void walk_on(walk *w, int64_t bytes)
{
    w->at += bytes;
    w->left -= bytes;
    if (w->left > 0)
        return;
    w->at -= w->part->run;
    w->left = w->part->run;
    for (int32_t i = w->part->n - 1; i >= 0; i--) {
        w->at += w->part->stride[i];
        if (++w->index[i] < w->part->count[i])
            return;
        w->at -= w->part->stride[i] * w->part->count[i];
        w->index[i] = 0;
    }
    if (w->part->next)
        *w = walk_of(w->part->next);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void exec_part_copy(const exec_part *from_part, const void *from,
                    const exec_part *to_part, void *to)
{
    walk source = walk_of(from_part), target = walk_of(to_part);
    int64_t bytes = exec_part_bytes(from_part);
    while (bytes > 0) {
        const int64_t run = least(source.left, target.left);
        memcpy((char *)to + target.at, (const char *)from + source.at,
               (size_t)run);
        walk_on(&source, run);
        walk_on(&target, run);
        bytes -= run;
    }
}

void exec_part_fold(ir_sbp_kind kind, ir_dtype dtype,
                    const exec_part *from_part, const void *from,
                    const exec_part *to_part, void *to)
{
    walk source = walk_of(from_part), target = walk_of(to_part);
    const int64_t element = ir_dtype_bytes(dtype);
    int64_t bytes = exec_part_bytes(from_part);
    while (bytes > 0) {
        const int64_t run = least(source.left, target.left);
        exec_fold(kind, dtype, (char *)to + target.at,
                  (const char *)from + source.at, run / element);
        walk_on(&source, run);
        walk_on(&target, run);
        bytes -= run;
    }
}

void exec_part_fold_two(ir_sbp_kind kind, ir_dtype dtype, exec_parted a,
                        exec_parted b, const exec_part *to_part, void *to)
{
    walk one = walk_of(a.part), two = walk_of(b.part), sum = walk_of(to_part);
    const int64_t element = ir_dtype_bytes(dtype);
    int64_t bytes = exec_part_bytes(to_part);
    while (bytes > 0) {
        const int64_t run = least(one.left, least(two.left, sum.left));
        exec_fold_two(kind, dtype, (char *)to + sum.at,
                      (const char *)a.at + one.at, (const char *)b.at + two.at,
                      run / element);
        walk_on(&one, run);
        walk_on(&two, run);
        walk_on(&sum, run);
        bytes -= run;
    }
}

/* ---- sums of 16-bit floats, kept as floats ---- */

static float widened(ir_dtype dtype, uint16_t bits)
{
    return dtype == IR_BF16 ? fs_from_bfloat((fs_bfloat){bits})
                            : fs_from_half((fs_half){bits});
}

static uint16_t narrowed(ir_dtype dtype, float x)
{
    return dtype == IR_BF16 ? fs_to_bfloat(x).bits : fs_to_half(x).bits;
}

/* The sum so far: its upper half stands in `to`, the lower one in `low`. */
static void sum_run(const exec_sum *sum, uint16_t *to, const uint16_t *from,
                    uint16_t *low, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float total = widened(sum->dtype, from[i]);
        if (!sum->first)
            total += fs_float_of_bits((uint32_t)to[i] << 16 | low[i]);
        const uint32_t bits = fs_float_bits(total);
        low[i] = (uint16_t)bits;
        to[i] = sum->last ? narrowed(sum->dtype, total) : bits >> 16;
    }
}

void exec_part_sum(const exec_sum *sum, const exec_part *from_part,
                   const void *from, const exec_part *to_part, void *to)
{
    walk source = walk_of(from_part), target = walk_of(to_part);
    int64_t bytes = exec_part_bytes(from_part);
    uint16_t *low = sum->low;
    while (bytes > 0) {
        const int64_t run = least(source.left, target.left);
        const int64_t n = run / (int64_t)sizeof *low;
        sum_run(sum, (void *)((char *)to + target.at),
                (const void *)((const char *)from + source.at), low, n);
        low += n;
        walk_on(&source, run);
        walk_on(&target, run);
        bytes -= run;
    }
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

static void put_infinity(ir_dtype dtype, double sign, void *to)
{
    const double wide = sign * INFINITY;
    const float usual = (float)wide;
    const fs_half half = fs_to_half(usual);
    const fs_bfloat bfloat = fs_to_bfloat(usual);
    const void *from = dtype == IR_F64   ? (const void *)&wide
                       : dtype == IR_F32 ? (const void *)&usual
                       : dtype == IR_F16 ? (const void *)&half
                                         : (const void *)&bfloat;
    FS_ASSERT(ir_dtype_is_float(dtype));
    memcpy(to, from, (size_t)ir_dtype_bytes(dtype));
}

void exec_fill_neutral(ir_sbp_kind kind, ir_dtype dtype, void *to,
                       int64_t count)
{
    const size_t bytes = (size_t)(count * ir_dtype_bytes(dtype));
    size_t done = (size_t)ir_dtype_bytes(dtype), more;
    if (kind == IR_PSUM) {
        memset(to, 0, bytes);
        return;
    }
    if (count > 0)
        put_infinity(dtype, kind == IR_PMAX ? -1 : 1, to);
    for (; done < bytes; done += more) {
        more = done < bytes - done ? done : bytes - done;
        memcpy((char *)to + done, to, more);
    }
}
