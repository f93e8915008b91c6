/* dropout, random. A draw is a function of the node's seed, the step, the
 * micro-batch and the element's logical position: rows (all axes but the last)
 * have a stream each, the last axis counts in it. Pieces therefore draw what
 * the whole tensor would, and a gradient draws the mask again. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

#include "base/hash.h"

/* The seed is the node's own, whatever values the run puts in f[]. */
static uint64_t call_key(const kernel_call *call, int64_t seed)
{
    const int64_t parts[] = {seed, call->step, call->micro_batch};
    return fs_hash(0, parts, sizeof parts);
}

typedef struct row_draw {
    uint64_t stream;
    int64_t first; /* counter of the piece's first column */
} row_draw;

/* Row r of a piece. */
static row_draw draws_of_row(uint64_t key, const kernel_arg *arg, int64_t r)
{
    const int32_t last = arg->shape.rank - 1;
    int64_t at[IR_MAX_RANK];
    if (last < 0)
        return (row_draw){key, 0};
    for (int32_t i = last - 1; i >= 0; i--) {
        at[i] = arg->offset[i] + r % arg->shape.dim[i];
        r /= arg->shape.dim[i];
    }
    return (row_draw){fs_hash(key, at, (size_t)last * sizeof *at),
                      arg->offset[last]};
}

/* [0, 1) in steps of 2^-24, which float holds: a mask that is compared in
 * float is the one that dropout applies. */
static double draw_unit(const row_draw *row, int64_t column)
{
    const uint64_t counter = (uint64_t)(row->first + column);
    return floor(fs_draw_unit(row->stream, counter) * 0x1p24) * 0x1p-24;
}

#include "kernels/real_f32.h"
#include "kernels/cpu_random.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_random.inc"

KERNEL_REAL(dropout);

static fs_status random_run(void *state, const kernel_call *call, fs_err *err)
{
    const kernel_arg *arg = &call->out[0];
    const int64_t rows = kernel_rows(&arg->shape);
    const int64_t columns = kernel_columns(&arg->shape);
    const double mean = call->f[0], spread = call->f[1];
    const bool normal = call->node->i[9] == IR_INIT_NORMAL;
    const uint64_t key = call_key(call, call->node->i[10]);
    float *out = arg->data;
    (void)state, (void)err;
    for (int64_t r = 0; r < rows; r++) {
        const row_draw row = draws_of_row(key, arg, r);
        for (int64_t j = 0; j < columns; j++) {
            const uint64_t counter = (uint64_t)(row.first + j);
            const double x = normal ? fs_draw_normal(row.stream, counter)
                                    : 2 * draw_unit(&row, j) - 1;
            *out++ = (float)(mean + spread * x);
        }
    }
    return FS_OK;
}
KERNEL_REFERENCE(random, NULL);
