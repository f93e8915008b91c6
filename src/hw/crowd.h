/* What communicators that all do the same at once get of a cluster's links, and
 * what so many moves take. */
#ifndef FS_HW_CROWD_H
#define FS_HW_CROWD_H

#include "hw/inside.h"

/* Communicators of as many devices each, in no two of them. */
typedef struct hw_crowd {
    int32_t n, size;
    const int32_t *device; /* [n][size] ascending in each */
} hw_crowd;

/* Bytes in a second, of the slowest; INFINITY: there are no such transfers. */
typedef struct hw_rates {
    hw_share ring;   /* inside nodes: hw_ring_share of who is there */
    hw_share pairs;  /* hw_pairs_share */
    hw_share beside; /* hw_beside_share */
    double next_bps; /* between nodes: each member hands on to one of the node
                        that is next in its communicator */
    double tree_bps; /* so too, along two binary trees of the nodes that share
                        the bytes (Sanders, Speck, Traeff 2009), towards the
                        root and back: of a member's bytes a second both ways,
                        half of what moves along an edge by each tree */
    double far_bps;  /* to each member that is on another node */
} hw_rates;
hw_rates hw_crowd_rates(const hw_links *links, const hw_crowd *crowd);

/* For each node with two members of a communicator or more: those sets. */
typedef void hw_node_sets(void *ctx, int32_t node, const hw_group *group,
                          const hw_sets *sets);
void hw_crowd_nodes(const hw_links *links, const hw_crowd *crowd,
                    hw_node_sets *visit, void *ctx);

/* Seconds that the links need for all of these transfers at once, whose ends
 * are devices of the cluster, on one node or on two. */
double hw_moves_seconds(const hw_links *links, const hw_transfer *moves,
                        int32_t n);
/* The fewest wires between two devices of a node; 1 where it has no wires of
 * its own. */
int32_t hw_wires_between(const hw_links *links, int32_t a, int32_t b);

#endif
