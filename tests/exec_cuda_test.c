/* The CUDA module is opened on demand: a program without it, or on a machine
 * without a driver or GPU, says so and goes on; with a GPU the first kernel
 * gives what plain C gives. */
#include "config.h"
#include "exec/cuda_abi.h"
#include "exec/exec.h"
#include "tests/tap.h"

#include <dlfcn.h>
#include <unistd.h>

typedef int scale_fn(const float *x, float *y, size_t n, float factor,
                     float offset, char *text, size_t room);

static void test_scale(const char *path)
{
    enum { N = 100003 };
    static float x[N], y[N];
    char text[512] = "";
    scale_fn *scale = NULL;
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *at = module ? dlsym(module, "fs_cuda_scale") : NULL;
    memcpy(&scale, &at, sizeof at);
    tap_ok(scale != NULL, "cuda: the module exports its kernel");
    if (!scale)
        return;
    for (int i = 0; i < N; i++)
        x[i] = (float)(i % 1000) * 0.25f;
    int status = scale(x, y, N, 2.0f, -1.0f, text, sizeof text);
    int right = status == 0;
    for (int i = 0; i < N && right; i++)
        right = y[i] == 2.0f * x[i] - 1.0f;
    tap_ok(right, "cuda: scale equals plain C %s", text);
}

int main(void)
{
    char text[512] = "";
    const char *path = getenv("FS_CUDA_MODULE");
    bool there = path && access(path, F_OK) == 0;
    int32_t n = exec_cuda_devices(text, sizeof text);
    printf("# %s\n", text);
    tap_ok(n >= 0 && text[0], "cuda: the probe says what it found");
    tap_ok(there == (strcmp(text, "built without CUDA") != 0 &&
                     strcmp(text, "the CUDA module is missing") != 0),
           "cuda: a module that was built is found");
    if (n > 0)
        test_scale(path);
    else
        tap_skip(text, "cuda: scale equals plain C");
    setenv("FS_CUDA_MODULE", "/nowhere/fs_cuda.so", 1);
    tap_equal_int(exec_cuda_devices(text, sizeof text), 0,
                  "cuda: without the module there are no devices");
    return tap_done();
}
