/* Binary tree: reduce towards the root, broadcast back, in pipelined chunks:
 * 2 log2 n hops, and every byte crosses a rank's link twice. */
#include "config.h"
#include "cost/parts.h"

static int32_t log2_up(int32_t n)
{
    int32_t hops = 0;
    while ((1 << hops) < n && hops < 30)
        hops++;
    return hops;
}

bool cost_coll_tree(plan_box_kind kind, const cost_route *route, double bytes,
                    plan_demand *out)
{
    hw_link link = cost_route_slowest(route, &route->inner, &route->tree);
    if (kind != PLAN_ALL_REDUCE)
        return false;
    const double hops = log2_up(route->ranks);
    out->latency_s = 2 * hops * (link.latency_s + route->turn_s);
    out->network_s = 2 * bytes / link.bandwidth_bps;
    if (route->on_cores) { /* a binomial one, whose root hears of them all */
        out->network_s *= hops;
        out->memory_s = 3 * hops * bytes / route->memory_bps;
    }
    return true;
}
