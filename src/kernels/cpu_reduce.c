/* Sums, extremes and products along axes; sums of exponentials. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

/* Over a shape, in its order: operand 1 is the tensor, operand 0 its
 * reduction, which does not move along the reduced axes. */
static kernel_loop reduce_loop(const ir_shape *in, int64_t axes)
{
    int64_t stride[2][IR_MAX_RANK], step = 1;
    kernel_strides(in, stride[1]);
    for (int32_t i = in->rank - 1; i >= 0; i--) {
        bool summed = axes >> i & 1;
        stride[0][i] = summed ? 0 : step;
        if (!summed)
            step *= in->dim[i];
    }
    return kernel_loop_make(in, 2, stride);
}

/* A shape as groups (kept axes) of members (reduced ones): of each half the
 * axes' lengths and strides in the tensor. */
typedef struct prod_space {
    int64_t groups, members;
    int32_t rank[2];
    int64_t dim[2][IR_MAX_RANK], stride[2][IR_MAX_RANK];
} prod_space;

static prod_space prod_space_of(const ir_shape *shape, int64_t axes)
{
    prod_space s = {.groups = 1, .members = 1};
    int64_t stride[IR_MAX_RANK];
    kernel_strides(shape, stride);
    for (int32_t i = 0; i < shape->rank; i++) {
        const int half = axes >> i & 1;
        *(half ? &s.members : &s.groups) *= shape->dim[i];
        s.dim[half][s.rank[half]] = shape->dim[i];
        s.stride[half][s.rank[half]++] = stride[i];
    }
    return s;
}

/* Offset of group (or, within it, member) k. */
static int64_t prod_at(const prod_space *s, bool member, int64_t k)
{
    int64_t at = 0;
    for (int32_t i = s->rank[member] - 1; i >= 0; i--) {
        at += k % s->dim[member][i] * s->stride[member][i];
        k /= s->dim[member][i];
    }
    return at;
}

#define IS_FLOAT 1
#include "kernels/real_f32.h"
#define LOWEST (-INFINITY)
#define HIGHEST INFINITY
#include "kernels/cpu_reduce.inc"

#include "kernels/real_f64.h"
#define LOWEST (-INFINITY)
#define HIGHEST INFINITY
#include "kernels/cpu_reduce.inc"

#undef IS_FLOAT
#define IS_FLOAT 0
#undef REAL
#undef T
#define REAL int32_t
#define T(name) name##_i32
#define LOWEST INT32_MIN
#define HIGHEST INT32_MAX
#include "kernels/cpu_reduce.inc"

#undef REAL
#undef T
#define REAL int64_t
#define T(name) name##_i64
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#include "kernels/cpu_reduce.inc"

KERNEL_NUMBER(reduce_sum);
KERNEL_NUMBER(reduce_max);
KERNEL_NUMBER(reduce_min);
KERNEL_NUMBER(reduce_prod);
KERNEL_REAL(reduce_prod_grad);
KERNEL_REAL(sum_exp);
