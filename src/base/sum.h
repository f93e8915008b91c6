/* Sums that are rounded once (Neumaier, ZAMM 54, 1974): the same numbers in any
 * order have the same sum, but for its last digit in rare cases. */
#ifndef FS_BASE_SUM_H
#define FS_BASE_SUM_H

#include <math.h>
#include <stdint.h>

typedef struct fs_sum {
    double sum, rest; /* what rounding took from the sum so far */
} fs_sum;

static inline void fs_sum_add(fs_sum *s, double x)
{
    const double sum = s->sum + x;
    s->rest +=
        fabs(s->sum) >= fabs(x) ? (s->sum - sum) + x : (x - sum) + s->sum;
    s->sum = sum;
}

/* The same n times. */
static inline void fs_sum_add_times(fs_sum *s, int32_t n, double x)
{
    const double all = n * x;
    fs_sum_add(s, all);
    if (n != 1 && isfinite(all))
        fs_sum_add(s, fma(n, x, -all));
}

/* INFINITY when one of the numbers is. */
static inline double fs_sum_value(const fs_sum *s)
{
    return isfinite(s->sum) ? s->sum + s->rest : s->sum;
}

#endif
