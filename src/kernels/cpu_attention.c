/* attention and its gradients, by blocks of queries and keys: scores never
 * stand in memory but for one block (Dao et al. 2022, arXiv 2205.14135; Dao
 * 2023, arXiv 2307.08691). The bodies take any product; here the plain one. */
#include "config.h"

#include "kernels/attention.h"
#include "kernels/loops.h"
#include "kernels/math.h"

#include <string.h>

#include "kernels/real_f32.h"
#include "kernels/cpu_attention.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_attention.inc"

#define ATTENTION(op)                                                          \
    bool kernel_##op##_by(const kernel_call *call, kernel_multiply *multiply)  \
    {                                                                          \
        return op##_by_f32(call, multiply);                                    \
    }                                                                          \
    static void op##_f32(const kernel_call *call)                              \
    {                                                                          \
        (void)op##_by_f32(call, multiply_f32);                                 \
    }                                                                          \
    static void op##_f64(const kernel_call *call)                              \
    {                                                                          \
        (void)op##_by_f64(call, multiply_f64);                                 \
    }                                                                          \
    KERNEL_REAL(op);
ATTENTION(attention)
ATTENTION(attention_grad)
ATTENTION(attention_bias_grad)
