/* Direct exchange: every rank sends bytes / n to every other. All-to-all and
 * reduce-scatter are one exchange, all-gather and re-slicing too; an all-reduce
 * is a reduce-scatter and an all-gather. The receiver of a reduction reads n
 * pieces and writes their sum. */
#include "config.h"
#include "cost/parts.h"

#include <math.h>

/* One exchange; the parts inside and outside the node run at once. */
static double exchange_s(const cost_route *route, double bytes)
{
    double n = route->ranks, g = route->per_node;
    double inside = (g - 1) / n * bytes / route->pairs.bandwidth_bps;
    double outside = 0;
    if (route->nodes > 1)
        outside = g * (n - g) / n * bytes / route->far.bandwidth_bps;
    return fmax(inside, outside);
}

bool cost_coll_direct(plan_box_kind kind, const cost_route *route, double bytes,
                      plan_demand *out)
{
    if (kind == PLAN_HALO)
        return false;
    double n = route->ranks;
    double times = kind == PLAN_ALL_REDUCE ? 2 : 1;
    double latency_s =
        cost_route_slowest(route, &route->pairs, &route->far).latency_s;
    out->latency_s = times * ((n - 1) * latency_s + route->turn_s);
    out->network_s = times * exchange_s(route, bytes);
    if (kind == PLAN_ALL_REDUCE || kind == PLAN_REDUCE_SCATTER)
        out->memory_s = (bytes + bytes / n) / route->memory_bps;
    return true;
}
