/* rotary: rows of x, with a row of each table. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

#include <string.h>

/* Of one row: what lies where. Pair j is columns first(j) and second(j); each
 * finds its angle `step` numbers after that of pair j - 1, the second's
 * `across` after the first's. */
typedef struct rotary {
    int64_t width, columns; /* of x; of these, turned */
    int64_t step, across;
    bool interleaved, transposed;
} rotary;

static rotary read_rotary(const kernel_call *call)
{
    const int64_t *i = call->node->i;
    const bool each = kernel_columns(&call->in[1].shape) == i[1];
    return (rotary){.width = kernel_columns(&call->in[0].shape),
                    .columns = i[1],
                    .step = each && i[0] ? 2 : 1,
                    .across = !each  ? 0
                              : i[0] ? 1
                                     : i[1] / 2,
                    .interleaved = i[0] != 0,
                    .transposed = i[2] != 0};
}

/* Over the rows: operand 0 is x, 1 the tables. */
static kernel_loop row_loop(const kernel_call *call)
{
    const ir_shape *table = &call->in[1].shape;
    ir_shape space = call->in[0].shape;
    const int32_t shift = space.rank - table->rank;
    int64_t stride[KERNEL_MAX_OPERAND][IR_MAX_RANK] = {{0}}, own[IR_MAX_RANK];
    kernel_strides(&space, stride[0]);
    kernel_strides(table, own);
    for (int32_t k = 0; k + 1 < table->rank; k++)
        stride[1][k + shift] = table->dim[k] == 1 ? 0 : own[k];
    space.rank--;
    return kernel_loop_make(&space, 2, stride);
}

#include "kernels/real_f32.h"
#include "kernels/cpu_rotary.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_rotary.inc"

KERNEL_REAL(rotary);
