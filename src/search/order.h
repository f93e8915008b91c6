/* In which order stages take a cluster's groups of devices (order.c). Internal
 * to this folder. */
#ifndef FS_SEARCH_ORDER_H
#define FS_SEARCH_ORDER_H

#include "base/arena.h"
#include "hw/cluster.h"

typedef struct search_order {
    int32_t number; /* 1, 2, .. */
    int32_t n;      /* groups of the cluster: */
    int32_t *group; /* [n] this one first, .. */
    int32_t *first; /* [n] their first devices, */
    int32_t *begin; /* [n + 1] and how many come before */
} search_order;

typedef struct search_orders {
    FS_VEC(search_order *) list;
} search_orders;

/* Orders but for the cluster's own, each of groups that look otherwise one
 * after the other: none where there is one group; all of up to
 * SEARCH_ORDERED_GROUPS; of more the cluster's own back to front. */
enum { SEARCH_ORDERED_GROUPS = 4 };
search_orders search_orders_of(const hw_cluster *cluster, fs_arena *arena);

/* The first of `n` devices, behind `at` others in that order (NULL: the
 * cluster's own); negative: they are not one after the other. */
int32_t search_order_place(const search_order *order, int32_t at, int32_t n);

#endif
