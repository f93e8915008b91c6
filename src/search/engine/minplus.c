#include "config.h"
#include "search/engine/minplus.h"

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

/* Least sums of some columns, and which value has them, in registers while all
 * values are gone through: half as wide, as that is a register of most machines
 * and comparisons of more are done one by one there. The last columns overlap
 * those before them: they find the same. */
enum { HALF = 4, LANES = 4 };
typedef double half __attribute__((vector_size(8 * HALF)));
typedef int64_t half_int __attribute__((vector_size(8 * HALF)));

INLINE half load_half(const double *at)
{
    half x;
    memcpy(&x, at, sizeof x);
    return x;
}

typedef struct lane {
    half least;
    half_int at;
} lane;

INLINE void take_lane(lane *l, half c, half_int s)
{
    const half_int is = c < l->least;
    l->at = (s & is) | (l->at & ~is);
    l->least = (half)(((half_int)c & is) | ((half_int)l->least & ~is));
}

INLINE void end_lane(lane l, double *cost, uint16_t *best)
{
    memcpy(cost, &l.least, sizeof l.least);
    for (int32_t i = 0; i < HALF; i++)
        best[i] = (uint16_t)l.at[i];
}

INLINE lane new_lane(void)
{
    const double most = INFINITY;
    return (lane){{most, most, most, most}, {0, 0, 0, 0}};
}

INLINE void four_lanes(const double *sum, const double *right, int64_t n,
                       int64_t ny, double *cost, uint16_t *best)
{
    lane a = new_lane(), b = a, c = a, d = a;
    half_int s = {0, 0, 0, 0};
    for (int64_t k = 0; k < n; k++, right += ny, s += 1) {
        const half own = {sum[k], sum[k], sum[k], sum[k]};
        take_lane(&a, own + load_half(right), s);
        take_lane(&b, own + load_half(right + HALF), s);
        take_lane(&c, own + load_half(right + 2 * HALF), s);
        take_lane(&d, own + load_half(right + 3 * HALF), s);
    }
    end_lane(a, cost, best);
    end_lane(b, cost + HALF, best + HALF);
    end_lane(c, cost + 2 * HALF, best + 2 * HALF);
    end_lane(d, cost + 3 * HALF, best + 3 * HALF);
}

INLINE void one_lane(const double *sum, const double *right, int64_t n,
                     int64_t ny, double *cost, uint16_t *best)
{
    lane a = new_lane();
    half_int s = {0, 0, 0, 0};
    for (int64_t k = 0; k < n; k++, right += ny, s += 1) {
        const half own = {sum[k], sum[k], sum[k], sum[k]};
        take_lane(&a, own + load_half(right), s);
    }
    end_lane(a, cost, best);
}

INLINE void short_product(const double *sum, const double *right, int64_t n,
                          int64_t ny, double *cost, uint16_t *best)
{
    for (int64_t y = 0; y < ny; y++) {
        double least = INFINITY;
        int64_t at = 0;
        for (int64_t s = 0; s < n; s++) {
            const double c = sum[s] + right[s * ny + y];
            at = c < least ? s : at;
            least = c < least ? c : least;
        }
        cost[y] = least;
        best[y] = (uint16_t)at;
    }
}

INLINE void row_product(const double *sum, const double *right, int64_t n,
                        int64_t ny, double *cost, uint16_t *best)
{
    int64_t y = 0;
    for (; y + LANES * HALF <= ny; y += LANES * HALF)
        four_lanes(sum, right + y, n, ny, cost + y, best + y);
    for (; y + HALF <= ny; y += HALF)
        one_lane(sum, right + y, n, ny, cost + y, best + y);
    if (y < ny)
        one_lane(sum, right + ny - HALF, n, ny, cost + ny - HALF,
                 best + ny - HALF);
}

FS_CLONES
void search_min_plus(const double *sum, const double *right, int64_t nx,
                     int64_t n, int64_t ny, double *cost, uint16_t *best)
{
    for (int64_t x = 0; x < nx; x++, sum += n, cost += ny, best += ny)
        if (ny < HALF)
            short_product(sum, right, n, ny, cost, best);
        else
            row_product(sum, right, n, ny, cost, best);
}

/* Tables in the same place: the sum of one entry of each, or of rows. */
typedef struct summands {
    const double *const *at;
    const int64_t *own;
    const bool *flat;
    int32_t n;
} summands;

INLINE half add_row(half sum, const double *row, bool flat)
{
    return sum + (flat ? (half){*row, *row, *row, *row} : load_half(row));
}

INLINE void four_sums(const summands *t, int64_t dom, int64_t y, double *cost,
                      uint16_t *best)
{
    lane a = new_lane(), b = a, c = a, d = a;
    half_int place = {0, 0, 0, 0};
    for (int64_t s = 0; s < dom; s++, place += 1) {
        half of_a = {0, 0, 0, 0}, of_b = of_a, of_c = of_a, of_d = of_a;
        for (int32_t f = 0; f < t->n; f++) {
            const bool flat = t->flat[f];
            const int64_t next = flat ? 0 : HALF;
            const double *row = t->at[f] + s * t->own[f] + (flat ? 0 : y);
            of_a = add_row(of_a, row, flat);
            of_b = add_row(of_b, row + next, flat);
            of_c = add_row(of_c, row + 2 * next, flat);
            of_d = add_row(of_d, row + 3 * next, flat);
        }
        take_lane(&a, of_a, place);
        take_lane(&b, of_b, place);
        take_lane(&c, of_c, place);
        take_lane(&d, of_d, place);
    }
    end_lane(a, cost + y, best + y);
    end_lane(b, cost + y + HALF, best + y + HALF);
    end_lane(c, cost + y + 2 * HALF, best + y + 2 * HALF);
    end_lane(d, cost + y + 3 * HALF, best + y + 3 * HALF);
}

INLINE void one_sum(const summands *t, int64_t dom, int64_t y, double *cost,
                    uint16_t *best)
{
    lane a = new_lane();
    half_int place = {0, 0, 0, 0};
    for (int64_t s = 0; s < dom; s++, place += 1) {
        half sum = {0, 0, 0, 0};
        for (int32_t f = 0; f < t->n; f++)
            sum = add_row(sum, t->at[f] + s * t->own[f] + (t->flat[f] ? 0 : y),
                          t->flat[f]);
        take_lane(&a, sum, place);
    }
    end_lane(a, cost + y, best + y);
}

INLINE void short_sums(const summands *t, int64_t dom, int64_t n, double *cost,
                       uint16_t *best)
{
    for (int64_t y = 0; y < n; y++) {
        cost[y] = INFINITY;
        best[y] = 0;
        for (int64_t s = 0; s < dom; s++) {
            double sum = 0;
            for (int32_t f = 0; f < t->n; f++)
                sum += t->at[f][s * t->own[f] + (t->flat[f] ? 0 : y)];
            best[y] = sum < cost[y] ? (uint16_t)s : best[y];
            cost[y] = sum < cost[y] ? sum : cost[y];
        }
    }
}

FS_CLONES
void search_least_sums(const double *const *at, const int64_t *own,
                       const bool *flat, int32_t tables, int64_t dom, int64_t n,
                       double *cost, uint16_t *best)
{
    const summands t = {at, own, flat, tables};
    int64_t y = 0;
    if (n < HALF) {
        short_sums(&t, dom, n, cost, best);
        return;
    }
    for (; y + LANES * HALF <= n; y += LANES * HALF)
        four_sums(&t, dom, y, cost, best);
    for (; y + HALF <= n; y += HALF)
        one_sum(&t, dom, y, cost, best);
    if (y < n)
        one_sum(&t, dom, n - HALF, cost, best);
}

FS_CLONES
void search_transpose(const double *in, int64_t n, int64_t nx,
                      double *restrict out)
{
    for (int64_t s = 0; s < n; s++)
        for (int64_t x = 0; x < nx; x++)
            out[x * n + s] = in[s * nx + x];
}
