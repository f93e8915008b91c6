/* Element-wise ops of one shape: activations and their gradients, scale,
 * power, the sum over micro-batches. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

#include "kernels/real_f32.h"
#include "kernels/cpu_pointwise.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_pointwise.inc"

KERNEL_REAL(fill);
KERNEL_REAL(scale);
KERNEL_REAL(relu);
KERNEL_REAL(sigmoid);
KERNEL_REAL(tanh);
KERNEL_REAL(gelu);
KERNEL_REAL(erf);
KERNEL_REAL(exp);
KERNEL_REAL(log);
KERNEL_REAL(sqrt);
KERNEL_REAL(power);
KERNEL_REAL(relu_grad);
KERNEL_REAL(sigmoid_grad);
KERNEL_REAL(tanh_grad);
KERNEL_REAL(gelu_grad);
KERNEL_REAL(erf_grad);
KERNEL_REAL(accumulate);
