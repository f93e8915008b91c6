#include "config.h"

#include "kernels/indices.h"

#include <stdio.h>

void kernel_position(char out[KERNEL_POSITION], const kernel_arg *arg,
                     int64_t at)
{
    int64_t rest = at, index[IR_MAX_RANK];
    for (int32_t i = arg->shape.rank - 1; i >= 0; i--) {
        index[i] = rest % arg->shape.dim[i] + arg->offset[i];
        rest /= arg->shape.dim[i];
    }
    int used = snprintf(out, KERNEL_POSITION, "[");
    for (int32_t i = 0; i < arg->shape.rank; i++)
        used += snprintf(out + used, (size_t)(KERNEL_POSITION - used), "%s%lld",
                         i > 0 ? "," : "", (long long)index[i]);
    snprintf(out + used, (size_t)(KERNEL_POSITION - used), "]");
}

fs_status kernel_index_fault(const kernel_call *call, const char *what,
                             int32_t in, int64_t at, int64_t limit, fs_err *err)
{
    char position[KERNEL_POSITION], range[48] = "must not be negative";
    kernel_position(position, &call->in[in], at);
    if (limit > 0)
        snprintf(range, sizeof range, "must lie in [0,%lld)", (long long)limit);
    return fs_fail(err, FS_FAULT, "%s %lld at position %s %s", what,
                   (long long)kernel_index(&call->in[in], at), position, range);
}
