/* reduce_sum. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

/* Over the input, in its order; the output does not move along summed axes. */
static kernel_loop reduce_loop(const kernel_call *call)
{
    const ir_shape *in = &call->in[0].shape;
    int64_t stride[2][IR_MAX_RANK], step = 1;
    kernel_strides(in, stride[1]);
    for (int32_t i = in->rank - 1; i >= 0; i--) {
        bool summed = call->node->i[0] >> i & 1;
        stride[0][i] = summed ? 0 : step;
        if (!summed)
            step *= in->dim[i];
    }
    return kernel_loop_make(in, 2, stride);
}

#include "kernels/real_f32.h"
#include "kernels/cpu_reduce.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_reduce.inc"

KERNEL_REAL(reduce_sum);
