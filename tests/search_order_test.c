/* Orders in which stages take groups of devices: by kinds, each once, and the
 * same however a cluster is written. */
#include "config.h"
#include "search/cuts/order.h"

#include "search_cluster.h"
#include "tap.h"

#include <string.h>

#define V "v100-sxm2-32g"
#define A "a100-sxm4-80g"
#define FIVE "1x1:" V "+1x1:" A "+1x2:" A "+1x1:l4+1x1:h100-sxm5-80g"

static void test_count(const char *spec, int32_t n, double n_out)
{
    fs_arena *arena = fs_arena_create();
    const hw_cluster *cluster = open_cluster(spec, arena);
    const search_orders orders = search_orders_of(cluster, arena);
    tap_ok(orders.list.n == n && (int)orders.n_out == (int)n_out,
           "%s: %d orders besides its own, %g left out", spec, orders.list.n,
           orders.n_out);
    for (int32_t k = 1; k < orders.list.n; k++)
        tap_ok(orders.list.at[k - 1]->number < orders.list.at[k]->number,
               "%s: in order of their numbers", spec);
    fs_arena_destroy(arena);
}

/* [devices] Of which kind each device behind so many others is, by name. */
static void list_kinds(const hw_cluster *cluster, const search_order *order,
                       const char **kind)
{
    for (int32_t at = 0; at < cluster->n_devices; at++)
        kind[at] =
            hw_group_of(cluster, search_order_place(order, at, 1))->device.name;
}

static void test_mirror(const char *one_spec, const char *other_spec)
{
    fs_arena *arena = fs_arena_create();
    const hw_cluster *one = open_cluster(one_spec, arena),
                     *other = open_cluster(other_spec, arena);
    const search_orders a = search_orders_of(one, arena),
                        b = search_orders_of(other, arena);
    const int32_t n = one->n_devices;
    const char **x = fs_new(arena, const char *, n),
               **y = fs_new(arena, const char *, n);
    int32_t same = 0, met = 0;
    tap_equal_int(a.list.n, b.list.n, "%s: as many as %s", one_spec,
                  other_spec);
    for (int32_t i = 0; i < a.list.n; i++)
        for (int32_t j = 0; j < b.list.n; j++) {
            if (a.list.at[i]->number != b.list.at[j]->number)
                continue;
            list_kinds(one, a.list.at[i], x);
            list_kinds(other, b.list.at[j], y);
            bool alike = true;
            for (int32_t k = 0; k < n; k++)
                alike &= strcmp(x[k], y[k]) == 0;
            met++;
            same += alike;
        }
    tap_ok(met >= a.list.n - 1 && same == met,
           "%s: equal numbers, equal kinds (%d of %d)", one_spec, same, met);
    fs_arena_destroy(arena);
}

/* Devices of a stage are beside each other, whichever way groups are walked. */
static void test_places(void)
{
    fs_arena *arena = fs_arena_create();
    const hw_cluster *cluster = open_cluster("1x1:" V "+1x3:" A, arena);
    const search_orders orders = search_orders_of(cluster, arena);
    tap_equal_int(orders.list.n, 1, "two groups: one other order");
    const search_order *back = orders.list.at[0];
    tap_ok(search_order_back(&orders) == back, "which is back to front");
    tap_equal_int(search_order_place(back, 0, 2), 2, "the last two");
    tap_equal_int(search_order_place(back, 2, 2), 0, "then one of both kinds");
    tap_equal_int(search_order_place(back, 0, 4), 0, "or all");
    cluster = open_cluster("1x1:" V "+1x2:" A "+1x1:l4", arena);
    const search_orders three = search_orders_of(cluster, arena);
    int32_t apart = 0;
    for (int32_t k = 0; k < three.list.n; k++)
        apart += search_order_place(three.list.at[k], 0, 2) < 0;
    tap_equal_int(apart, 2, "of three groups the outer two are apart");
    fs_arena_destroy(arena);
}

int main(void)
{
    test_count("1x4:" A, 0, 0);
    test_count("1x1:" V "+1x2:" A "+1x1:" V, 2, 0);
    test_count("1x1:" V "+1x1:" A "+1x1:" V "+1x1:" A, 5, 0);
    test_count("1x1:" V "+1x1:" A "+1x1:l4+1x1:h100-sxm5-80g", 23, 0);
    test_count(FIVE, 23, 96);
    test_mirror("1x1:" V "+1x3:" A, "1x3:" A "+1x1:" V);
    test_mirror(FIVE, "1x1:h100-sxm5-80g+1x1:l4+1x2:" A "+1x1:" A "+1x1:" V);
    test_places();
    return tap_done();
}
