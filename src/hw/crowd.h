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

/* What the rings inside nodes load the links of each that has wires of its own
 * (a mesh, or listed ones): per byte that a member hands on; link first_link +
 * i has load[i]. */
typedef void hw_node_load(void *ctx, int32_t first_link, int32_t n,
                          const double *load);
void hw_crowd_ring_loads(const hw_links *links, const hw_crowd *crowd,
                         hw_node_load *visit, void *ctx);
bool hw_has_wires(const hw_group *group);

/* Seconds that the links need for all of these transfers at once, whose ends
 * are devices of the cluster, on one node or on two. */
double hw_moves_seconds(const hw_links *links, const hw_transfer *moves,
                        int32_t n);
/* The fewest wires between two devices of a node; 1 where it has no wires of
 * its own. */
int32_t hw_wires_between(const hw_links *links, int32_t a, int32_t b);

#endif
