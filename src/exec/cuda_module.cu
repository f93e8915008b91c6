/* The CUDA backend module. It may be loaded on a machine without a driver: the
 * runtime then answers "insufficient driver", and so does fs_cuda_probe. */
#include "exec/cuda_abi.h"
#include "kernels/cuda_scale.cuh"

#include <cublas_v2.h>
#include <cudnn.h>
#include <nccl.h>
#include <stdio.h>

int fs_cuda_abi(void)
{
    return FS_CUDA_ABI;
}

static void describe_device(char *text, size_t room, int n)
{
    cudaDeviceProp device;
    int nccl = 0;
    ncclGetVersion(&nccl);
    if (cudaGetDeviceProperties(&device, 0) != cudaSuccess) {
        snprintf(text, room, "%d CUDA devices", n);
        return;
    }
    snprintf(text, room,
             "%d CUDA device%s: %s, %.1f GiB (CUDA %d.%d, cuDNN %zu, NCCL %d)",
             n, n == 1 ? "" : "s", device.name,
             (double)device.totalGlobalMem / (1024.0 * 1024.0 * 1024.0),
             CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10,
             cudnnGetVersion(), nccl);
}

int fs_cuda_probe(char *text, size_t room)
{
    int n = 0;
    cudaError_t got = cudaGetDeviceCount(&n);
    if (got == cudaErrorInsufficientDriver) {
        snprintf(text, room, "no NVIDIA driver on this machine (built with "
                             "CUDA %d.%d)",
                 CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
        return 0;
    }
    if (got != cudaSuccess || n == 0) {
        snprintf(text, room, "no CUDA device: %s", cudaGetErrorString(got));
        return 0;
    }
    describe_device(text, room, n);
    return n;
}

static cudaError_t scale_on_device(const float *x, float *y, size_t n,
                                   float factor, float offset)
{
    float *device = NULL;
    cudaError_t got = cudaMalloc(&device, n * sizeof *device);
    if (got != cudaSuccess)
        return got;
    got = cudaMemcpy(device, x, n * sizeof *x, cudaMemcpyHostToDevice);
    if (got == cudaSuccess)
        got = kernel_cuda_scale(device, device, n, factor, offset, 0);
    if (got == cudaSuccess)
        got = cudaMemcpy(y, device, n * sizeof *y, cudaMemcpyDeviceToHost);
    cudaFree(device);
    return got;
}

int fs_cuda_scale(const float *x, float *y, size_t n, float factor,
                  float offset, char *text, size_t room)
{
    cudaError_t got = scale_on_device(x, y, n, factor, offset);
    if (got == cudaSuccess)
        return 0;
    snprintf(text, room, "scale: %s", cudaGetErrorString(got));
    return 1;
}
