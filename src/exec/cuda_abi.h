/* What the CUDA backend module (fs_cuda.so) exports. The program opens it on
 * demand, so that one build serves machines with and without NVIDIA's
 * libraries. */
#ifndef FS_EXEC_CUDA_ABI_H
#define FS_EXEC_CUDA_ABI_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FS_CUDA_ABI = 1 };

/* Equal to FS_CUDA_ABI, or the module is of another build. */
int fs_cuda_abi(void);

/* How many devices can be used; `text` gets one line of explanation (devices,
 * or why there are none) with the versions of the libraries found. */
int fs_cuda_probe(char *text, size_t room);

/* Runs the first kernel, y = factor x + offset over n floats, on device 0 and
 * copies the result back. 0 when done, else text says why not. */
int fs_cuda_scale(const float *x, float *y, size_t n, float factor,
                  float offset, char *text, size_t room);

#ifdef __cplusplus
}
#endif

#endif
