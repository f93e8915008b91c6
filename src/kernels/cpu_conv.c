/* conv, its data gradient and its filter gradient, the plain way. */
#include "config.h"

#include "kernels/window.h"

#include "kernels/loops.h"
#include "kernels/math.h"

kernel_window kernel_window_read(const ir_node *node, const kernel_arg *x,
                                 const kernel_arg *y)
{
    const int32_t n = x->shape.rank - 2, first = IR_MAX_SPACE - n;
    kernel_window w;
    for (int32_t k = 0; k < IR_MAX_SPACE; k++) {
        w.in[k] = w.out[k] = w.size[k] = w.stride[k] = w.dilation[k] = 1;
        w.before[k] = w.after[k] = 0;
    }
    for (int32_t k = 0; k < n; k++) {
        const int64_t stride = node->i[IR_WINDOW_STRIDE + k];
        w.in[first + k] = x->shape.dim[2 + k];
        w.out[first + k] = y->shape.dim[2 + k];
        w.stride[first + k] = stride;
        w.before[first + k] = node->i[IR_WINDOW_BEFORE + k] + x->offset[2 + k] -
                              stride * y->offset[2 + k];
        w.after[first + k] = node->i[IR_WINDOW_AFTER + k];
    }
    return w;
}

kernel_conv kernel_conv_read(const ir_node *node, const kernel_arg *x,
                             const kernel_arg *weights, const kernel_arg *y)
{
    const ir_shape *in = &x->shape, *filter = &weights->shape;
    kernel_conv p = {.n = in->dim[0],
                     .c = in->dim[1],
                     .m = filter->dim[0],
                     .groups = in->dim[1] / filter->dim[1],
                     .space = in->rank - 2,
                     .window = kernel_window_read(node, x, y)};
    for (int32_t k = 0; k < p.space; k++) {
        const int32_t at = IR_MAX_SPACE - p.space + k;
        p.window.size[at] = filter->dim[2 + k];
        p.window.dilation[at] = node->i[IR_WINDOW_SPREAD + k];
    }
    return p;
}

#include "kernels/real_f32.h"
#include "kernels/cpu_conv.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_conv.inc"

KERNEL_REAL(conv);
KERNEL_REAL(conv_data_grad);
KERNEL_REAL(conv_filter_grad);
