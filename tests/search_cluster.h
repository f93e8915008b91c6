/* Clusters for the tests of search. */
#ifndef FS_TESTS_SEARCH_CLUSTER_H
#define FS_TESTS_SEARCH_CLUSTER_H

#include "base/hash.h"
#include "hw/cluster.h"

#include <stdio.h>
#include <stdlib.h>

static hw_cluster *open_cluster(const char *spec, fs_arena *arena)
{
    fs_err err = {0};
    hw_cluster *cluster = NULL;
    const char *root = getenv("FS_SRCDIR");
    const char *data = fs_printf(arena, "%s/datasets", root ? root : ".");
    if (hw_cluster_open(spec, data, arena, &err, &cluster) != FS_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return cluster;
}

/* One in three tells how its devices and nodes are joined: as a chain with
 * some wires more, below PCIe switches, by leaves; or that switches add. */
static inline void join_cluster(hw_cluster *c, uint64_t seed, fs_arena *arena)
{
    uint64_t rng = fs_mix(seed + 99);
    hw_group *g = &c->groups[0];
    const int32_t n = g->devices_per_node;
    const double bps = g->inner.bandwidth_bps;
    if (c->n_groups > 1 || fs_rand_below(&rng, 3))
        return;
    if (fs_rand_below(&rng, 3) == 0 && n > 1)
        g->wiring = (hw_wiring){.kind = HW_WIRED_PCIE,
                                .bandwidth_bps = bps / 4,
                                .devices_per_switch = n > 2 ? 2 : 1};
    else if (n > 1) {
        g->wiring = (hw_wiring){.kind = HW_WIRED_LINKS, .devices = n};
        g->wiring.wires = fs_new(arena, hw_wire, n * n);
        for (int32_t i = 1; i < n; i++)
            for (int32_t k = 0; k < i; k++)
                if (k == i - 1 || fs_rand_below(&rng, 3) == 0)
                    g->wiring.wires[g->wiring.n_wires++] =
                        (hw_wire){k, i, bps * (0.1 + 0.4 * fs_rand_unit(&rng))};
    }
    if (c->n_nodes > 1 && fs_rand_below(&rng, 2))
        c->fabric = (hw_fabric){
            .rails = fs_rand_below(&rng, 2),
            .nodes_per_leaf = 1 + (int32_t)fs_rand_below(&rng, 2),
            .oversubscription = (double)(1 + fs_rand_below(&rng, 6))};
    if (fs_rand_below(&rng, 2))
        g->in_switch = (hw_reduction){2 * g->inner.latency_s, bps};
    if (fs_rand_below(&rng, 2))
        c->fabric.in_switch =
            (hw_reduction){2 * c->outer.latency_s, c->outer.bandwidth_bps};
    hw_cluster_finish(c);
}

#endif
