/* Elementary functions in float that the compiler can vectorise: straight
 * line code, no table, no branch, no errno. Errors against the exact value
 * are below 2 units in the last place (kernels_math_test measures them).
 * Infinities and NaN behave as in <math.h>.
 *
 * exp: Cody and Waite, Software Manual for the Elementary Functions, 1980;
 * polynomials of exp and tanh from Cephes (Moshier), of erf from N. Juffa. */
#ifndef FS_KERNELS_MATH_H
#define FS_KERNELS_MATH_H

#include "base/wide.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float kernel_scale2(float x, int32_t exponent)
{
    /* Two steps, so that results below the normal range round once. */
    int32_t half = exponent >> 1;
    int32_t low = (int32_t)((uint32_t)(half + 127) << 23);
    int32_t high = (int32_t)((uint32_t)(exponent - half + 127) << 23);
    float a, b;
    memcpy(&a, &low, sizeof a);
    memcpy(&b, &high, sizeof b);
    return x * a * b;
}

static inline float kernel_expf(float x)
{
    /* Beyond these the result is 0 or infinite anyhow; NaN passes. */
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    /* Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits. */
    const float magic = 12582912.0f;
    float shifted = x * 1.44269504088896341f + magic;
    int32_t bits, magic_bits;
    memcpy(&bits, &shifted, sizeof bits);
    memcpy(&magic_bits, &magic, sizeof magic_bits);
    float n = shifted - magic;
    float r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    /* The mask keeps a NaN's bits from shifting out of range. */
    int32_t exponent = (int32_t)((uint32_t)bits - (uint32_t)magic_bits);
    exponent = exponent < -160 ? -160 : exponent;
    exponent = exponent > 160 ? 160 : exponent;
    return kernel_scale2(p, exponent);
}

static inline float kernel_tanhf(float x)
{
    float a = fabsf(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    float small = p * z * x + x;
    float large = copysignf(1.0f - 2.0f / (kernel_expf(a + a) + 1.0f), x);
    return a > 0.625f ? large : small;
}

static inline float kernel_erff(float x)
{
    float a = fabsf(x), s = x * x;
    float t = a > 5.0f ? 5.0f : a; /* erf is 1 there; keeps s * s finite */
    float u = t * t;
    float p = -1.72853470e-5f * t + 3.83197126e-4f;
    float q = -3.88396438e-3f * t + 2.42546219e-2f;
    p = p * u + q;
    p = p * t - 1.06777877e-1f;
    p = p * t - 6.34846687e-1f;
    p = p * t - 1.28717512e-1f;
    p = p * t - t;
    float large = copysignf(1.0f - kernel_expf(p), x);
    p = -5.96761703e-4f;
    p = p * s + 4.99119423e-3f;
    p = p * s - 2.67681349e-2f;
    p = p * s + 1.12819925e-1f;
    p = p * s - 3.76125336e-1f;
    p = p * s + 1.28379166e-1f;
    float small = p * x + x;
    return a > 0.927734375f ? large : small;
}

static inline float kernel_sigmoidf(float x)
{
    return 1.0f / (1.0f + kernel_expf(-x));
}

/* Folds `term` for j in [0, n) into `result` in sixteen lanes, a fixed order
 * that does not depend on the instruction set. Needs REAL. KERNEL_SUM adds;
 * KERNEL_MAX takes the largest, `result` among them. */
#define KERNEL_FOLD(result, n, start, combine, term)                           \
    do {                                                                       \
        REAL lane[16];                                                         \
        const int64_t fold_n = (n);                                            \
        int64_t base = 0;                                                      \
        for (int k = 0; k < 16; k++)                                           \
            lane[k] = (start);                                                 \
        for (; base + 16 <= fold_n; base += 16)                                \
            for (int k = 0; k < 16; k++) {                                     \
                const int64_t j = base + k;                                    \
                lane[k] = combine(lane[k], (term));                            \
            }                                                                  \
        for (int64_t j = base; j < fold_n; j++)                                \
            lane[j - base] = combine(lane[j - base], (term));                  \
        for (int width = 8; width > 0; width /= 2)                             \
            for (int k = 0; k < width; k++)                                    \
                lane[k] = combine(lane[k], lane[k + width]);                   \
        (result) = combine((result), lane[0]);                                 \
    } while (0)
#define KERNEL_ADD(a, b) ((a) + (b))
#define KERNEL_LARGER(a, b) ((b) > (a) ? (b) : (a))
#define KERNEL_SUM(total, n, term) KERNEL_FOLD(total, n, 0, KERNEL_ADD, term)
#define KERNEL_MAX(largest, n, term)                                           \
    KERNEL_FOLD(largest, n, largest, KERNEL_LARGER, term)

#endif
