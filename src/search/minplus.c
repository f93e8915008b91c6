#include "config.h"
#include "search/minplus.h"

#include "base/wide.h"

#include <math.h>
#include <string.h>

/* Rows are passed between functions that are always inlined. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

enum { WIDE = 8 };
typedef double wide __attribute__((vector_size(8 * WIDE)));
typedef int64_t wide_int __attribute__((vector_size(8 * WIDE)));

#define INLINE static inline __attribute__((always_inline))

INLINE wide all(double x)
{
    return (wide){x, x, x, x, x, x, x, x};
}

INLINE wide_int all_int(int64_t x)
{
    return (wide_int){x, x, x, x, x, x, x, x};
}

INLINE wide load(const double *at)
{
    wide x;
    memcpy(&x, at, sizeof x);
    return x;
}

INLINE void store(double *at, wide x)
{
    memcpy(at, &x, sizeof x);
}

/* a where the mask is set, else b. */
INLINE wide pick(wide_int mask, wide a, wide b)
{
    return (wide)(((wide_int)a & mask) | ((wide_int)b & ~mask));
}

INLINE wide_int pick_int(wide_int mask, wide_int a, wide_int b)
{
    return (a & mask) | (b & ~mask);
}

INLINE wide lesser(wide a, wide b)
{
    return pick(a < b, a, b);
}

INLINE double least_of(wide x)
{
    double at[WIDE];
    store(at, x);
    for (int32_t w = WIDE / 2; w; w /= 2)
        for (int32_t k = 0; k < w; k++)
            at[k] = at[k + w] < at[k] ? at[k + w] : at[k];
    return at[0];
}

/* ---- less of a message ---- */

/* The last lanes overlap those before them: twice the same is no less. */
INLINE double row_less(const double *cost, const double *from, int64_t n)
{
    if (n < WIDE) {
        double least = INFINITY;
        for (int64_t x = 0; x < n; x++) {
            const double c = cost[x] - from[x];
            least = c < least ? c : least;
        }
        return least;
    }
    wide least = all(INFINITY);
    for (int64_t x = 0; x + WIDE <= n; x += WIDE)
        least = lesser(load(cost + x) - load(from + x), least);
    if (n % WIDE)
        least = lesser(load(cost + n - WIDE) - load(from + n - WIDE), least);
    return least_of(least);
}

FS_CLONES
void search_rows_less(const double *cost, const double *from, int64_t n,
                      int64_t nx, double *to)
{
    for (int64_t s = 0; s < n; s++)
        to[s] = row_less(cost + s * nx, from, nx);
}

FS_CLONES
void search_columns_less(const double *cost, const double *from, int64_t n,
                         int64_t nx, double *restrict to)
{
    for (int64_t x = 0; x < nx; x++)
        to[x] = INFINITY;
    for (int64_t s = 0; s < n; s++, cost += nx) {
        const double less = from[s];
        for (int64_t x = 0; x < nx; x++) {
            const double c = cost[x] - less;
            to[x] = c < to[x] ? c : to[x];
        }
    }
}

/* ---- least values and where they are ---- */

INLINE void row_least(const double *row, int64_t n, double *least,
                      int64_t *where)
{
    int64_t x = 0;
    *least = INFINITY;
    *where = 0;
    if (n >= WIDE) {
        wide low = load(row);
        wide_int at = all_int(0), step = all_int(0);
        for (x = WIDE; x + WIDE <= n; x += WIDE) {
            const wide c = load(row + x);
            const wide_int is = c < low;
            step += 1;
            at = pick_int(is, step, at);
            low = pick(is, c, low);
        }
        for (int64_t k = 0; k < WIDE; k++)
            if (low[k] < *least) {
                *least = low[k];
                *where = at[k] * WIDE + k;
            }
    }
    for (; x < n; x++)
        if (row[x] < *least) {
            *least = row[x];
            *where = x;
        }
}

FS_CLONES
void search_rows_least(const double *cost, int64_t n, int64_t nx, double *least,
                       int64_t *where)
{
    for (int64_t s = 0; s < n; s++)
        row_least(cost + s * nx, nx, &least[s], &where[s]);
}

FS_CLONES
void search_columns_least(const double *cost, int64_t n, int64_t nx,
                          double *restrict least, int64_t *restrict where)
{
    for (int64_t x = 0; x < nx; x++) {
        least[x] = INFINITY;
        where[x] = 0;
    }
    for (int64_t s = 0; s < n; s++, cost += nx)
        for (int64_t x = 0; x < nx; x++) {
            const double c = cost[x];
            where[x] = c < least[x] ? s : where[x];
            least[x] = c < least[x] ? c : least[x];
        }
}

/* So many at once before it is asked whether they are too much already. */
enum { GLANCE = 4 * WIDE };

INLINE double first_above(const double *from, const double *to, int64_t n,
                          double worst, double most, int64_t *at)
{
    for (int64_t x = 0; x < n; x++) {
        const double rise = to[x] - from[x];
        if (!(rise > worst))
            continue;
        worst = rise;
        if (worst > most) {
            *at = x;
            break;
        }
    }
    return worst;
}

FS_CLONES
double search_largest_rise(const double *from, const double *to, int64_t n,
                           double most, int64_t *at)
{
    double worst = -INFINITY;
    int64_t x = 0;
    for (; x + GLANCE <= n; x += GLANCE) {
        wide most_of = all(-INFINITY);
        for (int64_t k = x; k < x + GLANCE; k += WIDE) {
            const wide rise = load(to + k) - load(from + k);
            most_of = pick(rise > most_of, rise, most_of);
        }
        const double rise = -least_of(-most_of);
        if (rise > most) {
            worst = first_above(from + x, to + x, GLANCE, worst, most, at);
            *at += x;
            return worst;
        }
        worst = rise > worst ? rise : worst;
    }
    int64_t rest = -1;
    worst = first_above(from + x, to + x, n - x, worst, most, &rest);
    *at = rest >= 0 ? x + rest : *at;
    return worst;
}

/* ---- products ---- */

INLINE void begin_least(int64_t n, double *restrict cost,
                        int64_t *restrict which)
{
    for (int64_t y = 0; y < n; y++) {
        cost[y] = INFINITY;
        which[y] = 0;
    }
}

INLINE void take_less(double sum, const double *right, int64_t n, int64_t s,
                      double *restrict cost, int64_t *restrict which)
{
    for (int64_t y = 0; y < n; y++) {
        const double c = sum + right[y];
        which[y] = c < cost[y] ? s : which[y];
        cost[y] = c < cost[y] ? c : cost[y];
    }
}

/* Columns at once, as places are kept beside them. */
enum { BLOCK = 256 };

FS_CLONES
void search_min_plus(const double *sum, const double *right, int64_t nx,
                     int64_t n, int64_t ny, double *cost, uint16_t *best)
{
    int64_t which[BLOCK];
    for (int64_t x = 0; x < nx; x++, sum += n)
        for (int64_t y = 0; y < ny; y += BLOCK) {
            const int64_t many = ny - y < BLOCK ? ny - y : BLOCK;
            double *to = cost + x * ny + y;
            begin_least(many, to, which);
            for (int64_t s = 0; s < n; s++)
                take_less(sum[s], right + s * ny + y, many, s, to, which);
            for (int64_t k = 0; k < many; k++)
                best[x * ny + y + k] = (uint16_t)which[k];
        }
}

INLINE void add_row(const double *row, bool flat, int64_t n,
                    double *restrict sum)
{
    const double same = *row;
    for (int64_t y = 0; flat && y < n; y++)
        sum[y] += same;
    for (int64_t y = 0; !flat && y < n; y++)
        sum[y] += row[y];
}

FS_CLONES
void search_least_sums(const double *const *at, const int64_t *own,
                       const bool *flat, int32_t tables, int64_t dom, int64_t n,
                       double *cost, uint16_t *best)
{
    int64_t which[BLOCK];
    double sum[BLOCK];
    for (int64_t y = 0; y < n; y += BLOCK) {
        const int64_t many = n - y < BLOCK ? n - y : BLOCK;
        begin_least(many, cost + y, which);
        for (int64_t s = 0; s < dom; s++) {
            memset(sum, 0, (size_t)many * sizeof *sum);
            for (int32_t f = 0; f < tables; f++)
                add_row(at[f] + s * own[f] + (flat[f] ? 0 : y), flat[f], many,
                        sum);
            take_less(0, sum, many, s, cost + y, which);
        }
        for (int64_t k = 0; k < many; k++)
            best[y + k] = (uint16_t)which[k];
    }
}

FS_CLONES
void search_transpose(const double *in, int64_t n, int64_t nx,
                      double *restrict out)
{
    for (int64_t s = 0; s < n; s++)
        for (int64_t x = 0; x < nx; x++)
            out[x * n + s] = in[s * nx + x];
}
