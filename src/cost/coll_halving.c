/* Recursive halving and doubling, as the runtime does it (Thakur, Rabenseifner,
 * Gropp 2005): pairs half the ranks apart swap halves, then pairs half as far
 * apart, and back. Who is beyond a power of two gives all to its neighbour
 * first and gets all in the end. Neighbours share a node, so that of k nodes
 * what leaves one is its ranks' (k - 1)/k of the bytes. */
#include "config.h"
#include "cost/parts.h"

bool cost_coll_halving(plan_box_kind kind, const cost_route *route,
                       double bytes, plan_demand *out)
{
    const double g = route->per_node, k = route->nodes;
    int32_t power = 1, steps = 0;
    if (kind != PLAN_ALL_REDUCE || (route->nodes > 1 && !route->even))
        return false;
    for (; power <= route->ranks / 2; power *= 2)
        steps++;
    const double rest = power < route->ranks ? 1 : 0;
    const double moved = 1 - 1.0 / power;
    const hw_link link =
        cost_route_slowest(route, &route->inner, &route->outer);
    double byte_s = moved / link.bandwidth_bps;
    if (route->nodes > 1)
        byte_s = g * (k - 1) / k / route->outer.bandwidth_bps +
                 (g - 1) / g / k / route->inner.bandwidth_bps;
    out->latency_s = 2 * (steps + rest) * (link.latency_s + route->turn_s);
    out->network_s = 2 * bytes * (byte_s + rest / link.bandwidth_bps);
    out->memory_s = 3 * bytes * (moved + rest) / route->memory_bps;
    return true;
}
