/* In which order stages take a cluster's groups of devices (order.c). Internal
 * to this folder. */
#ifndef FS_SEARCH_ORDER_H
#define FS_SEARCH_ORDER_H

#include "base/arena.h"
#include "hw/cluster.h"

typedef struct search_order {
    int32_t number; /* 1, 2, .. however the cluster is written down */
    int32_t n;      /* groups of the cluster: */
    int32_t *group; /* [n] this one first, .. */
    int32_t *first; /* [n] their first devices, */
    int32_t *begin; /* [n + 1] and how many come before */
    bool *back;     /* [n] the last of its devices comes first */
} search_order;

typedef struct search_orders {
    FS_VEC(search_order *) list;
    int32_t own;  /* the number that the cluster's own would have */
    double n_out; /* left out, those of equal kinds being one */
} search_orders;

/* Orders but for the cluster's own, each of groups that look otherwise one
 * after the other: none where there is one group; all where that makes no more
 * than SEARCH_MOST_ORDERS with it, else as many of those that leave first
 * stages, which hold most, most memory, and the cluster's own back to front. */
enum { SEARCH_MOST_ORDERS = 24 };
search_orders search_orders_of(const hw_cluster *cluster, fs_arena *arena);

/* The cluster's own back to front; NULL: it looks the same, or is not listed.
 */
const search_order *search_order_back(const search_orders *orders);

/* The first of `n` devices, behind `at` others in that order (NULL: the
 * cluster's own); negative: they are not one beside the other. */
int32_t search_order_place(const search_order *order, int32_t at, int32_t n);

#endif
