/* What lies blocked (kernel_layout), and kernels that take it. */
#ifndef FS_KERNELS_LAYOUT_H
#define FS_KERNELS_LAYOUT_H

#include "kernels/kernel.h"

/* (N, C, ..) as N samples of blocks of KERNEL_BLOCK channels by s positions. */
typedef struct kernel_blocks {
    int64_t n, blocks, s;
} kernel_blocks;
kernel_blocks kernel_blocks_of(const ir_shape *shape);

bool kernel_has_blocked(const kernel_call *call);
/* The kernel that takes the call's layouts; NULL: oneDNN's alone can. */
const kernel *kernel_for_blocked(const kernel_call *call);

/* Of their ops on a blocked first input; FS_NO never. */
extern const kernel kernel_blocked_centred_square, kernel_blocked_batch_norm,
    kernel_blocked_batch_norm_grad, kernel_blocked_batch_norm_param_grad,
    kernel_blocked_reduce_sum, kernel_blocked_max_pool,
    kernel_blocked_max_pool_grad;

/* What oneDNN's convolutions would have blocked, were it free to choose. */
void kernel_dnnl_conv_uses(const kernel_call *shapes, kernel_layout_use *out);

#endif
