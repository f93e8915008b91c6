/* What sets of devices of one node get of its links while all of them do the
 * same at once. */
#ifndef FS_HW_INSIDE_H
#define FS_HW_INSIDE_H

#include "hw/links.h"

/* Numbers within the node, ascending in each set, in no two sets. */
typedef struct hw_sets {
    int32_t n;
    const int32_t *first;  /* [n + 1] */
    const int32_t *member; /* set k's begin at first[k] */
} hw_sets;

/* In a second; and the wires that the longest of these transfers goes by. Of
 * sets of one device nothing: INFINITY and 0. */
typedef struct hw_share {
    double bps;
    int32_t hops;
} hw_share;

/* What each member hands to the next one round its set's rings: of as many
 * rings as the wires hold, all together, in the order of members that suits
 * these best. Their neighbours are as few wires apart as in any ring; what no
 * wire joins goes by way of other members, where these are joined, and else of
 * any device. load: [hw_inner_links] what each link carries at 1 byte a second,
 * or NULL. Exact for sets of at most HW_MOST_ORDERED; of larger ones a few
 * orders are tried, which do not depend on widths. */
enum { HW_MOST_ORDERED = 8 };
hw_share hw_ring_share(const hw_group *group, const hw_sets *sets,
                       double *load);
/* What each member sends to each other one of its set at the same time. */
hw_share hw_pairs_share(const hw_group *group, const hw_sets *sets);
/* What each member sends to the one before and the one behind it. */
hw_share hw_beside_share(const hw_group *group, const hw_sets *sets);

/* Transfers from one device of the node to another, with what each has to move:
 * seconds that links need for all of them at once, and the most wires. */
typedef struct hw_transfer {
    int32_t from, to;
    double bytes;
} hw_transfer;
double hw_transfers_seconds(const hw_group *group, const hw_transfer *transfers,
                            int32_t n, int32_t *hops);

#endif
