/* Optimizer updates: sgd, momentum, adam (and adamw). */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

#include "kernels/real_f32.h"
#include "kernels/cpu_update.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_update.inc"

KERNEL_REAL(sgd);
KERNEL_REAL(momentum);
KERNEL_REAL(adam);
