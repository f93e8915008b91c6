/* matmul (of whole numbers too) and weight_grad, the plain way. */
#include "config.h"

#include "kernels/matmul.h"

#include "kernels/loops.h"
#include "kernels/math.h"

kernel_matmul kernel_matmul_read(const kernel_call *call)
{
    const ir_shape *a = &call->in[0].shape, *b = &call->in[1].shape;
    const ir_shape *c = &call->out[0].shape;
    kernel_matmul p = {.ta = call->node->i[0] != 0,
                       .tb = call->node->i[1] != 0,
                       .b_shared = b->rank == 2,
                       .biased = call->n_in > 2};
    p.batch = kernel_span(c, 0, c->rank - 2);
    p.m = c->dim[c->rank - 2];
    p.n = c->dim[c->rank - 1];
    p.k = a->dim[a->rank - (p.ta ? 2 : 1)];
    if (p.b_shared && !p.ta) {
        p.m *= p.batch;
        p.batch = 1;
    }
    return p;
}

kernel_matmul kernel_weight_grad_read(const kernel_call *call)
{
    const ir_shape *a = &call->in[0].shape, *b = &call->in[1].shape;
    return (kernel_matmul){.batch = 1,
                           .m = kernel_columns(a),
                           .n = kernel_columns(b),
                           .k = kernel_rows(a),
                           .ta = true,
                           .b_shared = true};
}

#define IS_FLOAT 1
#include "kernels/real_f32.h"
#include "kernels/cpu_matmul.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_matmul.inc"

/* Whole numbers wrap. */
#undef IS_FLOAT
#define IS_FLOAT 0
#undef REAL
#undef T
#define REAL uint32_t
#define T(name) name##_i32
#include "kernels/cpu_matmul.inc"

#undef REAL
#undef T
#define REAL uint64_t
#define T(name) name##_i64
#include "kernels/cpu_matmul.inc"

KERNEL_NUMBER(matmul);
KERNEL_REAL(weight_grad);
