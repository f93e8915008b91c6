/* Along one axis: arg_max, top_k and its gradient, cum_sum. */
#include "config.h"

#include "kernels/indices.h"
#include "kernels/loops.h"
#include "kernels/math.h"

/* A shape as n lines of `length` elements, `step` apart. */
typedef struct kernel_lines {
    int64_t n, length, step;
} kernel_lines;

static kernel_lines lines_of(const ir_shape *shape, int64_t axis)
{
    const int32_t at = (int32_t)axis;
    return (kernel_lines){
        .n = ir_shape_count(shape) / shape->dim[at],
        .length = shape->dim[at],
        .step = kernel_span(shape, at + 1, shape->rank),
    };
}

/* Where line k starts. */
static inline int64_t line_at(const kernel_lines *lines, int64_t k)
{
    return k / lines->step * lines->step * lines->length + k % lines->step;
}

#define IS_FLOAT 1
#include "kernels/real_f32.h"
#include "kernels/cpu_along.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_along.inc"

#undef IS_FLOAT
#define IS_FLOAT 0
#undef REAL
#undef T
#define REAL int32_t
#define T(name) name##_i32
#include "kernels/cpu_along.inc"

#undef REAL
#undef T
#define REAL int64_t
#define T(name) name##_i64
#include "kernels/cpu_along.inc"

KERNEL_NUMBER(arg_max);
KERNEL_NUMBER(top_k);
KERNEL_NUMBER(cum_sum);
KERNEL_REAL(top_k_grad);
