/* 16-bit floats as storage: IEEE 754 binary16 and bfloat16. They are structs,
 * so that no arithmetic happens on their bits by accident. Conversions from
 * float round to nearest, ties to even; NaN stays NaN, overflow is infinite. */
#ifndef FS_BASE_HALF_H
#define FS_BASE_HALF_H

#include <stdint.h>
#include <string.h>

typedef struct fs_half {
    uint16_t bits;
} fs_half;

typedef struct fs_bfloat {
    uint16_t bits;
} fs_bfloat;

static inline uint32_t fs_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float fs_float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float fs_from_bfloat(fs_bfloat x)
{
    return fs_float_of_bits((uint32_t)x.bits << 16);
}

static inline fs_bfloat fs_to_bfloat(float x)
{
    uint32_t bits = fs_float_bits(x);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (fs_bfloat){(uint16_t)(bits >> 16 | 0x40)};
    return (fs_bfloat){(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

static inline float fs_from_half(fs_half x)
{
    uint32_t sign = (uint32_t)(x.bits & 0x8000) << 16;
    uint32_t exponent = x.bits >> 10 & 31, mantissa = x.bits & 0x3ff;
    if (exponent == 31)
        return fs_float_of_bits(sign | 0x7f800000 | mantissa << 13);
    if (exponent)
        return fs_float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    /* Below the normal range: mantissa * 2^-24, exact in a float. */
    float small = (float)mantissa * 0x1p-24f;
    return sign ? -small : small;
}

static inline fs_half fs_to_half(float x)
{
    uint32_t bits = fs_float_bits(x), sign = bits >> 16 & 0x8000;
    uint32_t size = bits & 0x7fffffff;
    if (size > 0x7f800000)
        return (fs_half){(uint16_t)(sign | 0x7e00)};
    if (size >= 0x477ff000) /* rounds to 2^16 or more */
        return (fs_half){(uint16_t)(sign | 0x7c00)};
    if (size >= 0x38800000) /* 2^-14, the least normal number */
        return (fs_half){
            (uint16_t)(sign |
                       ((size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13))};
    /* Adding 1/2 rounds to multiples of 2^-24 and leaves them low. */
    uint32_t rounded = fs_float_bits(fs_float_of_bits(size) + 0.5f);
    return (fs_half){(uint16_t)(sign | (rounded - 0x3f000000))};
}

#endif
