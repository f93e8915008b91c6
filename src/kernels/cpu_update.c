/* Optimizer updates: sgd, momentum, adam (and adamw), adagrad, lamb. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"
#include "kernels/tiled.h"

#include "ir/rate.h"

static double rate_of(const kernel_call *call)
{
    return call->f[0] * ir_rate_factor(call->node, call->step);
}

#include "kernels/real_f32.h"
#include "kernels/cpu_update.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_update.inc"

/* ---- 16-bit floats ---- */

typedef void update_body(const kernel_call *call);

enum { TILE = 2048, PAUSE = 16 * TILE };

static bool is_narrow(const kernel_arg *arg)
{
    return !ir_dtype_computes(arg->dtype);
}

/* Where a tile of an operand lies: in `wide` when it has to be widened. */
static kernel_arg tile_of(const kernel_arg *whole, int64_t at, int64_t n,
                          float wide[TILE])
{
    kernel_arg tile = {.data = (char *)whole->data +
                               at * ir_dtype_bytes(whole->dtype),
                       .dtype = whole->dtype,
                       .shape = {1, {n}}};
    if (is_narrow(whole)) {
        tile.data = wide;
        tile.dtype = IR_F32;
    }
    return tile;
}

/* Elements [at, at + n). What follows the states are scalars. */
static void update_tile(const kernel_call *call, update_body *body, int64_t at,
                        int64_t n)
{
    float in[IR_MAX_IN][TILE], out[IR_MAX_OUT][TILE];
    kernel_call tile = *call;
    for (int32_t k = 0; k < call->n_out + 1; k++) {
        const kernel_arg *whole = &call->in[k];
        tile.in[k] = tile_of(whole, at, n, in[k]);
        if (is_narrow(whole))
            kernel_convert(in[k], IR_F32,
                           (char *)whole->data +
                               at * ir_dtype_bytes(whole->dtype),
                           whole->dtype, n);
    }
    for (int32_t k = 0; k < call->n_out; k++)
        tile.out[k] = tile_of(&call->out[k], at, n, out[k]);
    body(&tile);
    for (int32_t k = 0; k < call->n_out; k++) {
        const kernel_arg *whole = &call->out[k];
        if (is_narrow(whole))
            kernel_convert((char *)whole->data +
                               at * ir_dtype_bytes(whole->dtype),
                           whole->dtype, out[k], IR_F32, n);
    }
}

/* In float, a tile at a time, which stays in the nearest cache. */
static void update_narrow(const kernel_call *call, update_body *body)
{
    const int64_t n = ir_shape_count(&call->out[0].shape);
    for (int64_t at = 0; at < n; at += TILE, kernel_rest(call))
        update_tile(call, body, at, n - at < TILE ? n - at : TILE);
}

/* Nothing of it is widened: tiles are as long as somebody may wait. */
static void update_wide(const kernel_call *call, update_body *body)
{
    const int64_t n = ir_shape_count(&call->out[0].shape);
    for (int64_t at = 0; at < n; at += PAUSE, kernel_rest(call))
        update_tile(call, body, at, n - at < PAUSE ? n - at : PAUSE);
}

/* FS_NO unless all is in float and 16 bits, or all in double. */
static fs_status prepare_update(const kernel_call *shapes, fs_err *err,
                                void **state)
{
    (void)err;
    *state = NULL;
    const ir_dtype wide = ir_dtype_widened(shapes->out[0].dtype);
    return wide == IR_F32 || wide == IR_F64 ? FS_OK : FS_NO;
}

#define KERNEL_UPDATE(op)                                                      \
    static fs_status op##_run(void *state, const kernel_call *call,            \
                              fs_err *err)                                     \
    {                                                                          \
        (void)state, (void)err;                                                \
        if (kernel_is_narrow(call))                                            \
            update_narrow(call, op##_f32);                                     \
        else                                                                   \
            update_wide(call, kernel_is_double(call) ? op##_f64 : op##_f32);   \
        return FS_OK;                                                          \
    }                                                                          \
    KERNEL_REFERENCE(op, prepare_update)

KERNEL_UPDATE(sgd);
KERNEL_UPDATE(momentum);
KERNEL_UPDATE(adam);
KERNEL_UPDATE(adagrad);
KERNEL_UPDATE(lamb_direction);
KERNEL_REAL(lamb_step);
KERNEL_REAL(sum_squares);
