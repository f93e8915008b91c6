/* Switches that add: every rank sends its bytes up once and gets the sums back,
 * both ways at once (Graham et al. 2016). Over several nodes of several members
 * each: a ring inside each node leaves every member a piece, which the switches
 * between nodes add, and a ring hands the sums round. */
#include "config.h"
#include "cost/parts.h"

#include <math.h>

/* No faster than the port by which it comes. */
static double seconds(const hw_reduction *by, const hw_link *port, double bytes)
{
    return bytes / fmin(by->bandwidth_bps, port->bandwidth_bps);
}

bool cost_coll_in_switch(plan_box_kind kind, const cost_route *route,
                         double bytes, plan_demand *out)
{
    const double g = route->per_node;
    const bool one = route->nodes == 1;
    const hw_reduction *by = one ? &route->in_node : &route->in_fabric;
    if (kind != PLAN_ALL_REDUCE || !(by->bandwidth_bps > 0) ||
        (!one && !route->even))
        return false;
    out->latency_s = by->latency_s;
    if (one) {
        out->network_s = seconds(by, &route->inner, bytes);
        return true;
    }
    out->latency_s += 2 * (g - 1) * route->inner.latency_s;
    out->network_s = 2 * (g - 1) / g * bytes / route->inner.bandwidth_bps +
                     seconds(by, &route->rail, bytes / g);
    return true;
}
