/* Compressed gradients: orthonormal, sparsify, densify. */
#include "config.h"

#include "kernels/indices.h"
#include "kernels/loops.h"
#include "kernels/math.h"

/* A column whose squared length is less than this of what it was before those
 * before it were taken out holds rounding alone: P is a product of floats. */
#define KERNEL_DEPENDENT 1e-10

static void kernel_put_place(const kernel_arg *out, int64_t at, int64_t place)
{
    if (out->dtype == IR_I32)
        ((int32_t *)out->data)[at] = (int32_t)place;
    else
        ((int64_t *)out->data)[at] = place;
}

#include "kernels/real_f32.h"
#include "kernels/cpu_compress.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_compress.inc"

KERNEL_REAL(orthonormal);
KERNEL_REAL(sparsify);
KERNEL_REAL(densify);
