/* Two levels: reduce-scatter inside each node, the outer collective among the
 * g equal pieces' owners on all NICs at once, all-gather inside each node. */
#include "config.h"
#include "cost/parts.h"

bool cost_coll_hierarchical(plan_box_kind kind, const cost_route *route,
                            double bytes, plan_demand *out)
{
    double g = route->per_node, k = route->nodes;
    int32_t times = kind == PLAN_ALL_REDUCE ? 2 : 1;
    if (kind == PLAN_ALL_TO_ALL || kind == PLAN_HALO || kind == PLAN_RESLICE ||
        !route->even || g < 2 || k < 2)
        return false;
    out->latency_s =
        times * ((g - 1) * route->inner.latency_s +
                 (k - 1) * route->rail.latency_s + 2 * route->turn_s);
    out->network_s =
        times * ((g - 1) / g * bytes / route->inner.bandwidth_bps +
                 (k - 1) / k * (bytes / g) / route->rail.bandwidth_bps);
    if (route->on_cores) /* who folds reads all and writes what is its own */
        out->memory_s =
            (bytes * (1 + 1 / g) + bytes / g * (1 + 1 / k)) / route->memory_bps;
    return true;
}
