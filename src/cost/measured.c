/* Collectives within a node where they were measured (hw_group.collectives):
 * the curve takes the place of the formulas. */
#include "config.h"
#include "cost/parts.h"

#include "hw/curves.h"

#include <math.h>

/* Between two points linear; behind the last the line through the last two goes
 * on, as a rate where there is one alone. */
static double seconds_at(const hw_collective *at, int32_t n, double bytes)
{
    int32_t i = 1;
    while (i + 1 < n && at[i].bytes < bytes)
        i++;
    if (n < 2 || at[i].bytes <= at[i - 1].bytes)
        return at[0].seconds * fmax(1, bytes / at[0].bytes);
    const double per_byte =
        (at[i].seconds - at[i - 1].seconds) / (at[i].bytes - at[i - 1].bytes);
    return at[i - 1].seconds + per_byte * (bytes - at[i - 1].bytes);
}

/* A reduce-scatter and an all-gather that nobody measured are half of an
 * all-reduce, which is both: else what was measured would look slow beside what
 * is only counted. */
static const hw_collective *curve_of(const hw_group *group, plan_box_kind kind,
                                     const cost_route *route, int32_t *n,
                                     double *share)
{
    const hw_collective *own =
        hw_collectives_of(group, plan_box_name(kind), route->ranks, n);
    *share = own ? 1 : 0.5;
    if (route->nodes > 1)
        return NULL;
    if (own || (kind != PLAN_REDUCE_SCATTER && kind != PLAN_ALL_GATHER))
        return own;
    return hw_collectives_of(group, plan_box_name(PLAN_ALL_REDUCE),
                             route->ranks, n);
}

double cost_measured_bytes(const hw_group *group, plan_box_kind kind,
                           const cost_route *route)
{
    int32_t n;
    double share;
    const hw_collective *at = curve_of(group, kind, route, &n, &share);
    return at ? at[0].bytes : 0;
}

plan_demand cost_measured_collective(const hw_group *group, plan_box_kind kind,
                                     const cost_route *route, double bytes)
{
    int32_t n;
    double share;
    const hw_collective *at = curve_of(group, kind, route, &n, &share);
    const double seconds = share * seconds_at(at, n, fmax(bytes, at[0].bytes));
    plan_demand out = {.known = PLAN_INTERPOLATED,
                       .latency_s = fmin(share * at[0].seconds, seconds),
                       .total_s = seconds};
    out.network_s = seconds - out.latency_s;
    for (int32_t i = 0; i < n; i++)
        if (at[i].bytes == bytes)
            out.known = PLAN_MEASURED;
    return out;
}
