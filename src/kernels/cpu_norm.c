/* layer_norm and its gradients. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

#include "kernels/real_f32.h"
#include "kernels/cpu_norm.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_norm.inc"

KERNEL_REAL(layer_norm);
KERNEL_REAL(layer_norm_grad);
KERNEL_REAL(layer_norm_param_grad);
