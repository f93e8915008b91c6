/* Devices of several kinds: which of them the first stages get makes a
 * difference (they hold more in flight; layers differ), and how a cluster is
 * written down does not say what is best. */
#include "config.h"
#include "search/order.h"

#include <string.h>

static bool look_alike(const hw_group *a, const hw_group *b)
{
    return a->nodes == b->nodes && a->devices_per_node == b->devices_per_node &&
           strcmp(a->device.name, b->device.name) == 0;
}

static bool orders_look_alike(const hw_cluster *cluster, const int32_t *a,
                              const int32_t *b)
{
    for (int32_t k = 0; k < cluster->n_groups; k++)
        if (!look_alike(&cluster->groups[a[k]], &cluster->groups[b[k]]))
            return false;
    return true;
}

static int32_t device_of(const hw_cluster *cluster, int32_t group)
{
    int32_t first = 0;
    for (int32_t g = 0; g < group; g++)
        first += cluster->groups[g].nodes * cluster->groups[g].devices_per_node;
    return first;
}

static void add(search_orders *orders, const hw_cluster *cluster,
                const int32_t *group, fs_arena *arena)
{
    const int32_t n = cluster->n_groups;
    int32_t *own = fs_new(arena, int32_t, n);
    for (int32_t k = 0; k < n; k++)
        own[k] = k;
    if (orders_look_alike(cluster, group, own))
        return;
    for (int32_t k = 0; k < orders->list.n; k++)
        if (orders_look_alike(cluster, group, orders->list.at[k]->group))
            return;
    search_order *one = fs_new(arena, search_order, 1);
    *one = (search_order){orders->list.n + 1, n,
                          fs_memdup(arena, group, (size_t)n * sizeof *group),
                          fs_new(arena, int32_t, n),
                          fs_new(arena, int32_t, n + 1)};
    for (int32_t k = 0; k < n; k++) {
        one->first[k] = device_of(cluster, group[k]);
        one->begin[k + 1] =
            one->begin[k] + device_of(cluster, group[k] + 1) - one->first[k];
    }
    fs_push(arena, &orders->list, one);
}

/* Those that begin with what the first `n` of group[] are. */
static void add_all(search_orders *orders, const hw_cluster *cluster,
                    int32_t *group, int32_t n, fs_arena *arena)
{
    if (n == cluster->n_groups) {
        add(orders, cluster, group, arena);
        return;
    }
    for (int32_t g = 0; g < cluster->n_groups; g++) {
        bool taken = false;
        for (int32_t k = 0; k < n; k++)
            taken |= group[k] == g;
        group[n] = g;
        if (!taken)
            add_all(orders, cluster, group, n + 1, arena);
    }
}

search_orders search_orders_of(const hw_cluster *cluster, fs_arena *arena)
{
    search_orders orders = {0};
    const int32_t n = cluster->n_groups;
    int32_t *group = fs_new(arena, int32_t, n);
    if (n <= SEARCH_ORDERED_GROUPS) {
        add_all(&orders, cluster, group, 0, arena);
        return orders;
    }
    for (int32_t k = 0; k < n; k++)
        group[k] = n - 1 - k;
    add(&orders, cluster, group, arena);
    return orders;
}

int32_t search_order_place(const search_order *order, int32_t at, int32_t n)
{
    int32_t k = 0;
    if (!order)
        return at;
    while (at >= order->begin[k + 1])
        k++;
    const int32_t first = order->first[k] + at - order->begin[k];
    /* On to the next group only where that is the next one of the cluster. */
    for (; at + n > order->begin[k + 1]; k++)
        if (k + 1 >= order->n || order->group[k + 1] != order->group[k] + 1)
            return -1;
    return first;
}
