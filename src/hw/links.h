/* A cluster as a graph of links, each one direction: what a byte crosses from
 * one device to another. */
#ifndef FS_HW_LINKS_H
#define FS_HW_LINKS_H

#include "hw/cluster.h"

enum { HW_MOST_WIRED = 64, HW_MOST_HOPS = HW_MOST_WIRED + 4 };

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
/* "node 3, device 5 out", for people. */
const char *hw_links_name(const hw_links *links, int32_t link, fs_arena *arena);

/* Which devices of a node no wires join, directly or by way of others; false:
 * all are joined. */
bool hw_wiring_parted(const hw_wiring *wiring, int32_t *a, int32_t *b);

#endif
