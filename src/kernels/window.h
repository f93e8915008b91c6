/* Convolution and pooling windows. */
#ifndef FS_KERNELS_WINDOW_H
#define FS_KERNELS_WINDOW_H

#include "ir/window.h"
#include "kernels/kernel.h"

/* Three spatial axes; those that the tensors do not have stand first and are
 * of length 1. On pieces `before` is where the first window of y's piece starts
 * before x's piece: the padding where that is the whole's beginning, and less
 * than 0 where x's piece holds more than the windows reach. */
typedef struct kernel_window {
    int64_t in[3], out[3], size[3]; /* lengths of x, of y, of the window */
    int64_t stride[3], before[3], after[3], dilation[3];
} kernel_window;

/* Sizes of a convolution on local shapes: x (n, c, ..), weights
 * (m, c / groups, ..), y (n, m, ..). The number of groups follows from the
 * shapes: on a piece whose channels are split it is the local one. */
typedef struct kernel_conv {
    int64_t n, c, m, groups;
    int32_t space; /* spatial axes */
    kernel_window window;
} kernel_conv;
kernel_conv kernel_conv_read(const ir_node *node, const kernel_arg *x,
                             const kernel_arg *weights, const kernel_arg *y);

/* Lengths, stride and padding; size and dilation are 1. */
kernel_window kernel_window_read(const ir_node *node, const kernel_arg *x,
                                 const kernel_arg *y);
/* Elements of a plane. */
static inline int64_t kernel_volume(const int64_t length[3])
{
    return length[0] * length[1] * length[2];
}

/* Positions o of [0, limit) whose source o * stride + shift lies in
 * [0, size): a range. */
static inline void kernel_valid(int64_t limit, int64_t size, int64_t stride,
                                int64_t shift, int64_t range[2])
{
    int64_t low = shift < 0 ? (-shift + stride - 1) / stride : 0;
    int64_t high = size > shift ? (size - shift + stride - 1) / stride : 0;
    range[1] = high < limit ? high : limit;
    range[0] = low < range[1] ? low : range[1];
}

#endif
