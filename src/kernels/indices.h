/* Reading an integer tensor of either width. */
#ifndef FS_KERNELS_INDICES_H
#define FS_KERNELS_INDICES_H

#include "kernels/kernel.h"

static inline int64_t kernel_index(const kernel_arg *arg, int64_t at)
{
    if (arg->dtype == IR_I64)
        return ((const int64_t *)arg->data)[at];
    return ((const int32_t *)arg->data)[at];
}

static inline bool kernel_is_index(const kernel_arg *arg)
{
    return arg->dtype == IR_I32 || arg->dtype == IR_I64;
}

/* Where element `at` of a piece lies, as a person reads it: logical
 * coordinates, "[3,17]". */
enum { KERNEL_POSITION = 200 };
void kernel_position(char out[KERNEL_POSITION], const kernel_arg *arg,
                     int64_t at);

/* FS_FAULT: "WHAT VALUE at position [..] must lie in ..."; who called the
 * kernel names the node. */
fs_status kernel_index_fault(const kernel_call *call, const char *what,
                             int32_t in, int64_t at, int64_t limit,
                             fs_err *err);

#endif
