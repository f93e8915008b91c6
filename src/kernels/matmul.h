/* A matmul call as plain numbers, for the reference and for oneDNN. */
#ifndef FS_KERNELS_MATMUL_H
#define FS_KERNELS_MATMUL_H

#include "kernels/kernel.h"

/* `batch` products C (M, N) = A (M, K) B (K, N). A and B may lie transposed;
 * then A is stored (K, M), B (N, K). b_shared: one B for all. Leading axes of
 * A are folded into M where B is shared and A is not transposed. biased: a row
 * of N, input 2, is added to all rows. */
typedef struct kernel_matmul {
    int64_t batch, m, n, k;
    bool ta, tb, b_shared, biased;
} kernel_matmul;

kernel_matmul kernel_matmul_read(const kernel_call *call);
/* weight_grad is the product A^T B of the two flattened to matrices. */
kernel_matmul kernel_weight_grad_read(const kernel_call *call);

#endif
