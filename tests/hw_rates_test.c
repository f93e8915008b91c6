/* What rings, pairs and moves get of links: closed forms, published rings of a
 * cube mesh, and that nobody gets more when a link has less. */
#include "config.h"

#include "hw/crowd.h"

#include "tap.h"
#include "wired_cluster.h"

#include <math.h>
#include <stdlib.h>

/* Devices first, first + stride, ... of each of n communicators, whose firsts
 * are `apart`. */
static hw_rates rates(const hw_cluster *c, int32_t n, int32_t size,
                      int32_t stride, int32_t apart)
{
    int32_t *device = fs_new(arena, int32_t, n * size);
    for (int32_t k = 0; k < n; k++)
        for (int32_t i = 0; i < size; i++)
            device[k * size + i] = k * apart + i * stride;
    const hw_crowd crowd = {n, size, device};
    return hw_crowd_rates(hw_links_create(c, arena), &crowd);
}

static double moves(const hw_cluster *c, const hw_transfer *at, int32_t n)
{
    return hw_moves_seconds(hw_links_create(c, arena), at, n);
}

static void test_switch(void)
{
    const hw_cluster *c = cluster_of(2, 8, 80 * GB);
    hw_rates r = rates(c, 1, 8, 1, 0);
    tap_near(r.ring.bps, 80 * GB, 1, "a switch: a ring has the whole port");
    tap_near(r.pairs.bps, 80 * GB / 7, 1, "a switch: 7 others share it");
    tap_near(r.beside.bps, 40 * GB, 1, "a switch: two neighbours share it");
    tap_ok(isinf(r.next_bps), "nobody is on another node");
    r = rates(c, 1, 16, 1, 0);
    tap_near(r.next_bps, 5 * GB, 1, "8 streams leave a node by its NICs");
    tap_near(r.far_bps, 40 * GB / 64, 1, "8 to 8 others each");
    r = rates(c, 8, 2, 8, 1);
    tap_near(r.next_bps, 5 * GB, 1, "so do 8 communicators of two");
    r = rates(c, 2, 2, 8, 1);
    tap_near(r.next_bps, 10 * GB, 1, "of two each has a NIC");
}

static void test_chain(void)
{
    hw_cluster *c = cluster_of(1, 4, 80 * GB);
    for (int32_t i = 0; i < 3; i++)
        add_wire(c, i, i + 1, 10 * GB);
    hw_rates r = rates(c, 1, 4, 1, 0);
    tap_near(r.ring.bps, 10 * GB, 1,
             "a chain: a ring crosses each wire once each way");
    tap_equal_int(r.ring.hops, 2, "by every other device and back");
    /* 2 x 2 pairs cross the middle. */
    tap_near(r.pairs.bps, 2.5 * GB, 1, "a chain: 4 pairs cross its middle");
    tap_near(r.beside.bps, 10 * GB, 1, "a chain: neighbours have a wire each");
    r = rates(c, 2, 2, 1, 2);
    tap_near(r.ring.bps, 10 * GB, 1, "tp 2 x dp 2: the inner pairs are beside");
    r = rates(c, 2, 2, 2, 1);
    tap_near(r.ring.bps, 5 * GB, 1, "the outer pairs share the middle wire");
    r = rates(c, 1, 2, 3, 0);
    tap_near(r.ring.bps, 10 * GB, 1, "its ends have all of it");
    tap_equal_int(r.ring.hops, 3, "by three wires");
    c = cluster_of(1, 16, 80 * GB);
    for (int32_t i = 0; i < 15; i++)
        add_wire(c, i, i + 1, 10 * GB);
    r = rates(c, 1, 16, 1, 0);
    tap_near(r.ring.bps, 10 * GB, 1, "a long chain: the same");
    tap_equal_int(r.ring.hops, 2, "by every other device too");
    c->groups[0].inner.bandwidth_bps = 4 * GB;
    tap_near(rates(c, 1, 16, 1, 0).ring.bps, 4 * GB, 1,
             "no more than a device takes");
}

static void test_pcie(void)
{
    hw_cluster *c = cluster_of(1, 8, 20 * GB);
    c->groups[0].wiring = (hw_wiring){.kind = HW_WIRED_PCIE,
                                      .bandwidth_bps = 10 * GB,
                                      .devices_per_switch = 4};
    tap_near(rates(c, 1, 8, 1, 0).ring.bps, 10 * GB, 1,
             "PCIe: a ring leaves each switch once");
    tap_near(rates(c, 2, 4, 1, 4).ring.bps, 20 * GB, 1,
             "PCIe: below one switch it has the port");
    tap_near(rates(c, 4, 2, 4, 1).ring.bps, 2.5 * GB, 1,
             "PCIe: four rings share the uplink");
    tap_near(rates(c, 1, 8, 1, 0).pairs.bps, 10 * GB / 16, 1,
             "PCIe: 4 x 4 pairs share it");
}

static void test_mesh(void)
{
    hw_cluster *c = cluster_of(1, 8, 80 * GB);
    c->groups[0].wiring = (hw_wiring){
        .kind = HW_WIRED_MESH, .bandwidth_bps = 10 * GB, .devices = 8};
    tap_near(rates(c, 1, 8, 1, 0).ring.bps, 70 * GB, 1,
             "a mesh: rings by all 7 wires");
    tap_near(rates(c, 1, 2, 1, 0).ring.bps, 10 * GB, 1,
             "a mesh: two devices have one wire");
    tap_near(rates(c, 1, 8, 1, 0).pairs.bps, 10 * GB, 1,
             "a mesh: to each its own");
    hw_cluster *wires = cluster_of(1, 5, 80 * GB);
    for (int32_t i = 0; i < 5; i++)
        for (int32_t k = i + 1; k < 5; k++)
            add_wire(wires, i, k, 10 * GB);
    tap_near(rates(wires, 1, 5, 1, 0).ring.bps, 40 * GB, 1,
             "and so if its wires are listed");
}

/* `nvidia-smi topo -m` of a DGX-1V: NV1 and NV2. All-reduces of the first 2 to
 * 8 devices reached, with 1 GiB each, so many GB/s of bus bandwidth (vTrain's
 * traces, datasets/collectives/v100-sxm2-16g.json). */
static void test_cube_mesh(void)
{
    static const struct {
        int32_t a, b, wires;
    } at[] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
              {1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
              {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
    static const double reached[] = {22.55, 45.14, 85.20, 37.18,
                                     45.71, 86.95, 134.46};
    const double wire = 22.5 * GB;
    hw_cluster *c = cluster_of(1, 8, 136 * GB);
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++)
        add_wire(c, at[i].a, at[i].b, at[i].wires * wire);
    for (int32_t n = 2; n <= 8; n++) {
        const double bps = rates(c, 1, n, 1, 0).ring.bps;
        printf("# %d devices: %.2f, reached %.2f GB/s\n", (int)n, bps / GB,
               reached[n - 2]);
        if (n == 5) /* nothing joins device 4 with 1, 2 and 3: PCIe */
            continue;
        tap_ok(fabs(bps / GB / reached[n - 2] - 1) < 0.06,
               "cube mesh: %d devices have what NCCL's rings reached", (int)n);
    }
    tap_near(rates(c, 1, 8, 1, 0).ring.bps, 6 * wire, 1,
             "all eight have six rings");
}

static void test_fabric(void)
{
    hw_cluster *c = cluster_of(4, 8, 80 * GB);
    tap_near(rates(c, 8, 4, 8, 1).next_bps, 5 * GB, 1,
             "one switch: a node's NICs are all there is");
    c->fabric = (hw_fabric){.nodes_per_leaf = 2, .oversubscription = 4};
    tap_near(rates(c, 8, 4, 8, 1).next_bps, 2.5 * GB, 1,
             "two leaves: what two nodes have over 4, for what one sends");
    tap_near(rates(c, 1, 32, 1, 0).next_bps, 2.5 * GB, 1, "for one ring too");
    tap_near(rates(c, 8, 2, 8, 1).next_bps, 5 * GB, 1, "not below one leaf");
    tap_near(rates(c, 8, 2, 16, 1).next_bps, 2.5 * GB, 1, "from leaf to leaf");
    tap_near(rates(c, 1, 32, 1, 0).far_bps, 20 * GB / (16 * 16), 1,
             "all to all: 16 devices to 16 by an uplink");
    const hw_transfer across[] = {{0, 16, 1e9}, {8, 24, 1e9}};
    tap_near(moves(c, across, 2), 0.1, 1e-9,
             "moves: a NIC each, and the uplink holds both");
    c->fabric.oversubscription = 100;
    tap_near(moves(c, across, 2), 2 / 0.8, 1e-9, "moves: two share one uplink");
    c->fabric =
        (hw_fabric){.rails = true, .nodes_per_leaf = 2, .oversubscription = 2};
    tap_near(rates(c, 8, 4, 8, 1).next_bps, 5 * GB, 1,
             "rails: two of 8 share a NIC, and their rail's leaf holds it");
    tap_near(rates(c, 2, 4, 8, 4).next_bps, 5 * GB, 1,
             "rails: devices 0 and 4 have the same NIC");
}

/* ---- no link that has less lets anyone have more ---- */

/* 1 and `part` of all devices by turns, so that sets are of any place. */
static int32_t faster(const hw_cluster *was, const hw_cluster *is,
                      uint64_t *seed)
{
    const int32_t all = was->n_devices;
    int32_t n = 1 + (int32_t)fs_rand_below(seed, all / 2);
    const int32_t size = all / n;
    const bool rows = fs_rand_below(seed, 2);
    const hw_rates a = rates(was, n, size, rows ? 1 : n, rows ? size : 1);
    const hw_rates b = rates(is, n, size, rows ? 1 : n, rows ? size : 1);
    const double tiny = 1 + 1e-7;
    hw_transfer at[5];
    for (int32_t i = 0; i < 5; i++)
        at[i] = (hw_transfer){(int32_t)fs_rand_below(seed, all),
                              (int32_t)fs_rand_below(seed, all),
                              (double)(1 + fs_rand_below(seed, 100))};
    return (b.ring.bps > a.ring.bps * tiny) +
           (b.pairs.bps > a.pairs.bps * tiny) +
           (b.beside.bps > a.beside.bps * tiny) +
           (b.next_bps > a.next_bps * tiny) + (b.far_bps > a.far_bps * tiny) +
           (b.tree_bps > a.tree_bps * tiny) + (b.ring.hops != a.ring.hops) +
           (moves(is, at, 5) * tiny < moves(was, at, 5));
}

static void test_slower(void)
{
    uint64_t seed = tap_seed(20261127);
    int32_t wrong = 0, tried = 0;
    for (; tried < 300; tried++) {
        const hw_cluster *c = draw_wired(&seed);
        wrong += faster(c, slowed(c, &seed), &seed);
    }
    tap_equal_int(wrong, 0, "of %d machines, none is faster with a slower link",
                  (int)tried);
}

/* A ring's wires are loaded by no more than they have. */
static void test_loads(void)
{
    uint64_t seed = tap_seed(20261128);
    int32_t above = 0, slack = 0, tried = 0;
    for (int32_t k = 0; k < 200; k++) {
        const hw_cluster *c = draw_wired(&seed);
        const hw_group *g = &c->groups[0];
        const int32_t n = hw_inner_links(g), size = g->devices_per_node;
        int32_t member[16], first[2] = {0, size};
        for (int32_t i = 0; i < size; i++)
            member[i] = i;
        const hw_sets sets = {1, first, member};
        double *load = fs_new(arena, double, n), fullest = 0;
        const double bps = hw_ring_share(g, &sets, load).bps;
        for (int32_t i = 0; i < n; i++)
            fullest = fmax(fullest, load[i] * bps / hw_inner_bps(g, i));
        above += fullest > 1 + 1e-7;
        slack += fullest < 1 - 1e-7 && bps < g->inner.bandwidth_bps;
        tried++;
    }
    tap_equal_int(above, 0, "of %d rings none has more than there is",
                  (int)tried);
    tap_equal_int(slack, 0, "nor less: a link or a device is full");
}

int main(void)
{
    arena = fs_arena_create();
    test_switch();
    test_chain();
    test_pcie();
    test_mesh();
    test_cube_mesh();
    test_fabric();
    test_slower();
    test_loads();
    fs_arena_destroy(arena);
    return tap_done();
}
