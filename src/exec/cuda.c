/* The CUDA module is opened on demand: a program linked with NVIDIA's libraries
 * would not start where they are missing. */
#include "config.h"
#include "exec/exec.h"

#include "exec/cuda_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int abi_fn(void);
typedef int probe_fn(char *text, size_t room);

static int32_t ask_module(void *module, char *text, size_t room)
{
    abi_fn *abi = NULL;
    probe_fn *probe = NULL;
    /* ISO C has no cast from dlsym's pointer to a function's. */
    void *at = dlsym(module, "fs_cuda_abi");
    memcpy(&abi, &at, sizeof at);
    at = dlsym(module, "fs_cuda_probe");
    memcpy(&probe, &at, sizeof at);
    if (!abi || !probe || abi() != FS_CUDA_ABI) {
        snprintf(text, room, "the CUDA module is of another build");
        return 0;
    }
    int n = probe(text, room);
    return n > 0 ? n : 0;
}

/* Where the user says, where `make install` put it, or beside the program, so
 * that it is found before it is installed. */
static bool find_module(char *path, size_t room)
{
    const char *said = getenv("FS_CUDA_MODULE");
    snprintf(path, room, "%s", said && *said ? said : FS_LIB_DIR "/fs_cuda.so");
    if (access(path, F_OK) == 0 || (said && *said))
        return access(path, F_OK) == 0;
    ssize_t n = readlink("/proc/self/exe", path, room - 1);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    size_t at = slash ? (size_t)(slash - path) : 0;
    snprintf(path + at, room - at, "/fs_cuda.so");
    return access(path, F_OK) == 0;
}

int32_t exec_cuda_devices(char *text, size_t room)
{
    char path[4096];
    if (!find_module(path, sizeof path)) {
        snprintf(text, room, "%s",
                 FS_HAVE_CUDA ? "the CUDA module is missing"
                              : "built without CUDA");
        return 0;
    }
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module) {
        const char *why = dlerror();
        snprintf(text, room, "%s", why ? why : "cannot open the CUDA module");
        return 0;
    }
    int32_t n = ask_module(module, text, room);
    dlclose(module);
    return n;
}
