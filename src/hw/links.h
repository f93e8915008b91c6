/* A cluster as a graph of links, each one direction: what a byte crosses from
 * one device to another. */
#ifndef FS_HW_LINKS_H
#define FS_HW_LINKS_H

#include "hw/cluster.h"

enum { HW_MOST_WIRED = 64, HW_MOST_HOPS = HW_MOST_WIRED + 4 };

/* Does the cluster tell more of its links than that all of a node have a switch
 * and all nodes another? */
bool hw_links_told(const hw_cluster *cluster);

/* Links inside a node of a group: how many, what each gives, and, where they
 * are no wires of their own (HW_WIRED_LINKS), those from one device of the node
 * to another. */
int32_t hw_inner_links(const hw_group *group);
double hw_inner_bps(const hw_group *group, int32_t link);
int32_t hw_inner_route(const hw_group *group, int32_t from, int32_t to,
                       int32_t *out);

typedef struct hw_links hw_links;
hw_links *hw_links_create(const hw_cluster *cluster, fs_arena *arena);
int32_t hw_links_count(const hw_links *links);
/* [hw_links_count] bytes in a second. */
const double *hw_links_bps(const hw_links *links);
/* The links from one device to another, in order: out has room for
 * HW_MOST_HOPS; returns how many. None from a device to itself. *most_bps: what
 * one transfer has at most (one of a node's NICs), INFINITY: what they give. */
int32_t hw_links_route(const hw_links *links, int32_t from, int32_t to,
                       int32_t *out, double *most_bps);
const hw_cluster *hw_links_cluster(const hw_links *links);
/* What one device can send to other nodes at most: one NIC. */
double hw_links_nic_bps(const hw_links *links);
/* Leaves that have an uplink, and its number: up, and behind it down. */
int32_t hw_links_leaves(const hw_links *links);
int32_t hw_links_leaf(const hw_links *links, int32_t leaf);
/* Where a device is joined to other nodes: its own port (-1: it has another
 * one for that), the node's or its NIC's; out, and behind it in. And the leaf,
 * or -1. */
typedef struct hw_way_out {
    int32_t device, port, leaf;
} hw_way_out;
hw_way_out hw_links_way_out(const hw_links *links, int32_t device);
/* The number of a node's first link, behind which all of its inner ones are. */
int32_t hw_links_first_inner(const hw_links *links, int32_t node);
/* "node 3, device 5 out", for people. */
const char *hw_links_name(const hw_links *links, int32_t link, fs_arena *arena);

/* Which devices of a node no wires join, directly or by way of others; false:
 * all are joined. */
bool hw_wiring_parted(const hw_wiring *wiring, int32_t *a, int32_t *b);

#endif
