/* Sums, differences and least values over rows of tables: what the additive
 * minimum and its bound spend their time in. Tables are row by row, n rows of
 * nx. Results are the same to the bit whatever the width of the machine: least
 * values and single sums do not depend on an order. INFINITY forbids; what is
 * NAN (INFINITY less INFINITY) is never less nor more. Internal to this folder.
 */
#ifndef FS_SEARCH_MINPLUS_H
#define FS_SEARCH_MINPLUS_H

#include <stdbool.h>
#include <stdint.h>

/* to[s] = min_x cost[s][x] - from[x]; */
void search_rows_less(const double *cost, const double *from, int64_t n,
                      int64_t nx, double *to);
/* to[x] = min_s cost[s][x] - from[s]. */
void search_columns_less(const double *cost, const double *from, int64_t n,
                         int64_t nx, double *to);

/* least[s] = min_x cost[s][x], and an x that has it; */
void search_rows_least(const double *cost, int64_t n, int64_t nx, double *least,
                       int64_t *where);
/* the same of columns. */
void search_columns_least(const double *cost, int64_t n, int64_t nx,
                          double *least, int64_t *where);

/* max_x to[x] - from[x], -INFINITY if there is none, or something above `most`
 * as soon as that is clear; *at: its x, when it is above. */
double search_largest_rise(const double *from, const double *to, int64_t n,
                           double most, int64_t *at);

/* cost[x][y] = min_s sum[x][s] + right[s][y], and the first s that has it (0:
 * none is finite): rows x of n sums, n rows of ny. */
void search_min_plus(const double *sum, const double *right, int64_t nx,
                     int64_t n, int64_t ny, double *cost, uint16_t *best);

/* The same of sums of `tables` in that order, of which each is read from at[f]
 * on, its row s own[f] * s further: n entries, or (flat) one for all.
 * cost[y] = min_s sum_f at[f][own[f] * s + (flat[f] ? 0 : y)]. */
void search_least_sums(const double *const *at, const int64_t *own,
                       const bool *flat, int32_t tables, int64_t dom, int64_t n,
                       double *cost, uint16_t *best);

/* out[x][s] = in[s][x]. */
void search_transpose(const double *in, int64_t n, int64_t nx, double *out);

#endif
