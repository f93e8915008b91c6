/* Clusters that tell their wiring and fabric, for tests. */
#ifndef FS_TESTS_WIRED_CLUSTER_H
#define FS_TESTS_WIRED_CLUSTER_H

#include "base/hash.h"
#include "hw/cluster.h"

static fs_arena *arena;

#define GB 1e9

/* Inner links of `inner`, nodes of 40 GB/s on 4 NICs. */
static hw_cluster *cluster_of(int32_t nodes, int32_t devices, double inner)
{
    hw_cluster *c = fs_new(arena, hw_cluster, 1);
    c->name = "test";
    c->n_groups = 1;
    c->groups = fs_new(arena, hw_group, 1);
    c->groups[0] = (hw_group){.nodes = nodes,
                              .devices_per_node = devices,
                              .device = {.name = "d",
                                         .memory_bytes = 1e9,
                                         .memory_bps = 1e12,
                                         .fp32_flops = 1e13,
                                         .matmul_efficiency = 0.5,
                                         .memory_efficiency = 0.8,
                                         .launch_s = 1e-6},
                              .inner = {"inner", 10e-6, inner, false},
                              .memory = {"memory", 1e-6, 400e9, false}};
    c->outer = (hw_link){"outer", 50e-6, 40e9, false};
    c->nics_per_node = 4;
    hw_cluster_finish(c);
    return c;
}

static void add_wire(hw_cluster *c, int32_t a, int32_t b, double bps)
{
    hw_wiring *w = &c->groups[0].wiring;
    hw_wire *wires = fs_new(arena, hw_wire, w->n_wires + 1);
    for (int32_t i = 0; i < w->n_wires; i++)
        wires[i] = w->wires[i];
    wires[w->n_wires++] = (hw_wire){a, b, bps};
    w->wires = wires;
    w->kind = HW_WIRED_LINKS;
    w->devices = c->groups[0].devices_per_node;
}

static hw_cluster *draw_wired(uint64_t *seed)
{
    const int32_t devices = 2 + (int32_t)fs_rand_below(seed, 9);
    hw_cluster *c = cluster_of(1 + (int32_t)fs_rand_below(seed, 4), devices,
                               (double)(10 + fs_rand_below(seed, 90)) * GB);
    hw_wiring *w = &c->groups[0].wiring;
    const int64_t kind = fs_rand_below(seed, 6);
    if (kind >= 3)
        for (int32_t i = 1; i < devices; i++)
            for (int32_t k = 0; k < i; k++)
                if (k == (int32_t)fs_rand_below(seed, i) ||
                    (k == i - 1 && kind == 3) || (k == 0 && kind > 3))
                    add_wire(c, k, i,
                             (double)(1 + fs_rand_below(seed, 40)) * GB);
    if (kind == 1)
        *w = (hw_wiring){
            .kind = HW_WIRED_PCIE,
            .bandwidth_bps = (double)(1 + fs_rand_below(seed, 40)) * GB,
            .devices_per_switch = 1 + (int32_t)fs_rand_below(seed, 4)};
    if (kind == 2)
        *w = (hw_wiring){.kind = HW_WIRED_MESH,
                         .bandwidth_bps =
                             (double)(1 + fs_rand_below(seed, 40)) * GB,
                         .devices = devices};
    if (fs_rand_below(seed, 2))
        c->fabric = (hw_fabric){
            .rails = fs_rand_below(seed, 2),
            .nodes_per_leaf = 1 + (int32_t)fs_rand_below(seed, 3),
            .oversubscription = (double)(1 + fs_rand_below(seed, 8))};
    hw_cluster_finish(c);
    return c;
}

/* A copy in which one link has less. */
static hw_cluster *slowed(const hw_cluster *c, uint64_t *seed)
{
    hw_cluster *out = fs_memdup(arena, c, sizeof *c);
    out->groups = fs_memdup(arena, c->groups, sizeof *c->groups);
    hw_wiring *w = &out->groups[0].wiring;
    const double by = 0.1 + 0.9 * fs_rand_unit(seed);
    switch (fs_rand_below(seed, 4)) {
    case 0:
        out->groups[0].inner.bandwidth_bps *= by;
        break;
    case 1:
        out->outer.bandwidth_bps *= by;
        break;
    case 2:
        out->fabric.oversubscription /= by;
        break;
    default:
        w->bandwidth_bps *= by;
        w->wires =
            fs_memdup(arena, w->wires, (size_t)w->n_wires * sizeof(hw_wire));
        if (w->n_wires)
            w->wires[fs_rand_below(seed, w->n_wires)].bandwidth_bps *= by;
    }
    return out;
}

#endif
