/* Halos: each rank hands its ends to the two ranks beside it (of two ranks one
 * has only one neighbour), both at once; the links wait for the slowest pair.
 * The bytes are those of a rank within. */
#include "config.h"
#include "cost/parts.h"

bool cost_coll_neighbour(plan_box_kind kind, const cost_route *route,
                         double bytes, plan_demand *out)
{
    hw_link link = cost_route_slowest(route, &route->beside, &route->outer);
    if (kind != PLAN_HALO)
        return false;
    out->latency_s =
        (route->ranks > 2 ? 2 : 1) * link.latency_s + route->turn_s;
    out->network_s = bytes / link.bandwidth_bps;
    return true;
}
