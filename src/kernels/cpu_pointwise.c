/* Element-wise ops of one shape: the functions of ir/functions.def and their
 * gradients, scale, power, the sum over micro-batches. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

#include "kernels/real_f32.h"
#include "kernels/functions.inc"
#include "kernels/cpu_pointwise.inc"

#include "kernels/real_f64.h"
#include "kernels/functions.inc"
#include "kernels/cpu_pointwise.inc"

#define GRADIENT_X(op) KERNEL_REAL(op##_grad);
#define GRADIENT_Y(op) KERNEL_REAL(op##_grad);
#define GRADIENT_NONE(op)
#define IR_FUNCTION(op, takes, ...)                                            \
    KERNEL_REAL(op);                                                           \
    GRADIENT_##takes(op)
#include "ir/functions.def"
#undef IR_FUNCTION

KERNEL_REAL(fill);
KERNEL_REAL(scale);
KERNEL_REAL(exp);
KERNEL_REAL(log);
KERNEL_REAL(sqrt);
KERNEL_REAL(power);
KERNEL_REAL_RUN(accumulate)
const kernel kernel_cpu_accumulate = {.variant = "reference",
                                      .prepare = kernel_prepare_real,
                                      .run = accumulate_run,
                                      .keeps = true};
