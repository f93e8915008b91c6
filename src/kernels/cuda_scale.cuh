#ifndef FS_KERNELS_CUDA_SCALE_CUH
#define FS_KERNELS_CUDA_SCALE_CUH

#include <cuda_runtime.h>
#include <stddef.h>

/* Device pointers; queued on `stream`. */
cudaError_t kernel_cuda_scale(const float *x, float *y, size_t n,
                              float factor, float offset, cudaStream_t stream);

#endif
