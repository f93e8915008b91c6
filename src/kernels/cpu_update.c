/* Optimizer updates: sgd, momentum, adam (and adamw), adagrad, lamb. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

#include "ir/rate.h"

static double rate_of(const kernel_call *call)
{
    return call->f[0] * ir_rate_factor(call->node, call->step);
}

#include "kernels/real_f32.h"
#include "kernels/cpu_update.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_update.inc"

KERNEL_REAL(sgd);
KERNEL_REAL(momentum);
KERNEL_REAL(adam);
KERNEL_REAL(adagrad);
KERNEL_REAL(lamb_direction);
KERNEL_REAL(lamb_step);
KERNEL_REAL(sum_squares);
