#include "config.h"

#include "kernels/indices.h"

#include <stdio.h>

/* The position as a person reads it: logical coordinates, "[3,17]". */
static void write_position(char out[200], const kernel_arg *arg, int64_t at)
{
    int64_t rest = at, index[IR_MAX_RANK];
    for (int32_t i = arg->shape.rank - 1; i >= 0; i--) {
        index[i] = rest % arg->shape.dim[i] + arg->offset[i];
        rest /= arg->shape.dim[i];
    }
    int used = snprintf(out, 200, "[");
    for (int32_t i = 0; i < arg->shape.rank; i++)
        used += snprintf(out + used, (size_t)(200 - used), "%s%lld",
                         i > 0 ? "," : "", (long long)index[i]);
    snprintf(out + used, (size_t)(200 - used), "]");
}

fs_status kernel_index_fault(const kernel_call *call, const char *what,
                             int32_t in, int64_t at, int64_t limit, fs_err *err)
{
    char position[200], range[48] = "must not be negative";
    write_position(position, &call->in[in], at);
    if (limit > 0)
        snprintf(range, sizeof range, "must lie in [0,%lld)", (long long)limit);
    return fs_fail(
        err, FS_FAULT, "%s: %s %lld at position %s %s",
        call->node->name ? call->node->name : ir_op_table[call->node->op]->name,
        what, (long long)kernel_index(&call->in[in], at), position, range);
}
