/* Rings: n - 1 steps (all-reduce: twice that), each rank hands bytes / n to its
 * neighbour; every step waits for the slowest pair. Patarasuk and Yuan 2009. */
#include "config.h"
#include "cost/parts.h"

bool cost_coll_ring(plan_box_kind kind, const cost_route *route, double bytes,
                    plan_demand *out)
{
    hw_link link = cost_route_slowest(route, &route->inner, &route->outer);
    double steps = route->ranks - 1;
    if (kind == PLAN_ALL_TO_ALL || kind == PLAN_HALO || kind == PLAN_RESLICE)
        return false;
    if (kind == PLAN_ALL_REDUCE)
        steps *= 2;
    out->latency_s = steps * (link.latency_s + route->turn_s);
    out->network_s = steps / route->ranks * bytes / link.bandwidth_bps;
    if (route->on_cores) /* who folds reads two pieces and writes one */
        out->memory_s = 1.5 * steps / route->ranks * bytes / route->memory_bps;
    return true;
}
