/* conv2d, its data gradient and its filter gradient, the plain way. */
#include "config.h"

#include "kernels/window.h"

#include "kernels/loops.h"
#include "kernels/math.h"

kernel_conv kernel_conv_read(const ir_node *node, const ir_shape *x,
                             const ir_shape *weights, const ir_shape *y)
{
    kernel_conv p = {.n = x->dim[0],
                     .c = x->dim[1],
                     .h = x->dim[2],
                     .w = x->dim[3],
                     .m = weights->dim[0],
                     .r = weights->dim[2],
                     .s = weights->dim[3],
                     .oh = y->dim[2],
                     .ow = y->dim[3],
                     .groups = x->dim[1] / weights->dim[1]};
    memcpy(p.stride, node->i, sizeof p.stride);
    memcpy(p.pad, node->i + 2, sizeof p.pad);
    memcpy(p.dilation, node->i + 6, sizeof p.dilation);
    return p;
}

#include "kernels/real_f32.h"
#include "kernels/cpu_conv.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_conv.inc"

KERNEL_REAL(conv2d);
KERNEL_REAL(conv2d_data_grad);
KERNEL_REAL(conv2d_filter_grad);
