/* softmax, cross_entropy and their gradients. */
#include "config.h"

#include "kernels/indices.h"
#include "kernels/loops.h"
#include "kernels/math.h"

#include "kernels/real_f32.h"
#include "kernels/cpu_softmax.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_softmax.inc"

KERNEL_REAL(softmax);
KERNEL_REAL(softmax_grad);
KERNEL_REAL(log_softmax);
KERNEL_REAL(log_softmax_grad);
KERNEL_REAL_CHECKED(cross_entropy);
KERNEL_REAL_CHECKED(cross_entropy_grad);
