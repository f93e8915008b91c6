/* Convolution and pooling windows. */
#ifndef FS_KERNELS_WINDOW_H
#define FS_KERNELS_WINDOW_H

#include "kernels/kernel.h"

/* Sizes of a convolution on local shapes: x (n, c, h, w), weights
 * (m, c / groups, r, s), y (n, m, oh, ow). The number of groups follows from
 * the shapes: on a piece whose channels are split it is the local one. */
typedef struct kernel_conv {
    int64_t n, c, h, w, m, r, s, oh, ow;
    int64_t stride[2], pad[4], dilation[2]; /* pad: top left bottom right */
    int64_t groups;
} kernel_conv;
kernel_conv kernel_conv_read(const ir_node *node, const ir_shape *x,
                             const ir_shape *weights, const ir_shape *y);

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
