/* y = factor x + offset: the CUDA form of op `scale`, whose plain C reference
 * is in cpu_*.c. x, y: (n) floats, may be equal. */
#include "kernels/cuda_scale.cuh"

__global__ static void scale_1(const float *x, float *y, size_t n,
                               float factor, float offset)
{
    size_t stride = (size_t)gridDim.x * blockDim.x;
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < n; i += stride)
        y[i] = factor * x[i] + offset;
}

cudaError_t kernel_cuda_scale(const float *x, float *y, size_t n,
                              float factor, float offset, cudaStream_t stream)
{
    const unsigned threads = 256;
    size_t blocks = (n + threads - 1) / threads;
    if (blocks > 4096)
        blocks = 4096; /* the stride covers the rest */
    if (n > 0)
        scale_1<<<(unsigned)blocks, threads, 0, stream>>>(x, y, n, factor,
                                                          offset);
    return cudaGetLastError();
}
