/* Collectives and moves over wires, PCIe switches, leaves and adding switches:
 * closed forms, and no slower link makes anything faster. */
#include "config.h"
#include "cost/parts.h"

#include "tap.h"
#include "wired_cluster.h"

#include <math.h>
#include <stdlib.h>

enum { MIB = 1 << 20 };

static plan_stage stage_of(int32_t first, int32_t d0, int32_t d1)
{
    return (plan_stage){.mesh = {d1 ? 2 : 1, {d0, d1}}, .first_device = first};
}

static plan_box_step step_of(plan_box_kind kind, uint32_t axes, int64_t bytes)
{
    return (plan_box_step){
        .kind = kind, .axes = axes, .bytes_in = bytes, .bytes_out = bytes};
}

static plan_demand demand_of(const hw_cluster *c, plan_stage stage,
                             plan_box_kind kind, uint32_t axes, int64_t bytes)
{
    const plan_box_step step = step_of(kind, axes, bytes);
    return cost_box_step(cost_model_create(c, arena), &stage, &step);
}

static hw_cluster *chain_of(int32_t n)
{
    hw_cluster *c = cluster_of(1, n, 80 * GB);
    for (int32_t i = 0; i + 1 < n; i++)
        add_wire(c, i, i + 1, 10 * GB);
    return c;
}

static void test_chain(void)
{
    const double bytes = 512.0 * MIB;
    const hw_cluster *c = chain_of(4);
    tap_near(
        demand_of(c, stage_of(0, 4, 0), PLAN_ALL_GATHER, 1, 512 * MIB).total_s,
        3 / 4.0 * bytes / 10e9 + 3 * 20e-6, 1e-9,
        "a ring on a chain: a wire's width, steps of two wires");
    tap_near(
        demand_of(c, stage_of(0, 2, 2), PLAN_ALL_GATHER, 1, 512 * MIB).total_s,
        1 / 2.0 * bytes / 5e9 + 20e-6, 1e-9,
        "2 x 2: the outer axis' two rings share the middle wire");
    tap_near(
        demand_of(c, stage_of(0, 2, 2), PLAN_ALL_GATHER, 2, 512 * MIB).total_s,
        1 / 2.0 * bytes / 10e9 + 10e-6, 1e-9,
        "2 x 2: the inner axis' have a wire each");
    tap_near(
        demand_of(c, stage_of(0, 4, 0), PLAN_ALL_TO_ALL, 1, 512 * MIB).total_s,
        3 / 4.0 * bytes / 7.5e9 + 3 * 30e-6, 1e-9,
        "all to all: four pairs cross the middle, the longest three");
    const plan_stage a = stage_of(0, 2, 0), b = stage_of(2, 2, 0);
    const plan_demand move =
        cost_p2p(cost_model_create(c, arena), &a, &b, 512 * MIB);
    tap_near(move.total_s, bytes / 5e9 + 20e-6, 1e-9,
             "a move of two to two: both cross the middle");
}

static void test_pcie(void)
{
    hw_cluster *c = cluster_of(1, 8, 20 * GB);
    const double bytes = 512.0 * MIB;
    c->groups[0].wiring = (hw_wiring){.kind = HW_WIRED_PCIE,
                                      .bandwidth_bps = 10 * GB,
                                      .devices_per_switch = 4};
    tap_near(
        demand_of(c, stage_of(0, 8, 0), PLAN_ALL_GATHER, 1, 512 * MIB).total_s,
        7 / 8.0 * bytes / 10e9 + 7 * 10e-6, 1e-9,
        "PCIe: the ring's way by the uplink");
    tap_near(
        demand_of(c, stage_of(0, 2, 4), PLAN_ALL_GATHER, 1, 512 * MIB).total_s,
        1 / 2.0 * bytes / 2.5e9 + 10e-6, 1e-9,
        "PCIe: four rings share the uplink");
}

static void test_leaves(void)
{
    hw_cluster *c = cluster_of(4, 1, 80 * GB);
    const double bytes = 512.0 * MIB;
    c->nics_per_node = 1;
    c->fabric = (hw_fabric){.nodes_per_leaf = 2, .oversubscription = 8};
    tap_near(
        demand_of(c, stage_of(0, 4, 0), PLAN_ALL_GATHER, 1, 512 * MIB).total_s,
        3 / 4.0 * bytes / 10e9 + 3 * 50e-6, 1e-9,
        "a ring over two leaves: what their uplinks have");
    tap_near(
        demand_of(c, stage_of(0, 2, 0), PLAN_ALL_GATHER, 1, 512 * MIB).total_s,
        1 / 2.0 * bytes / 40e9 + 50e-6, 1e-9, "below one leaf all of it");
    tap_near(
        demand_of(c, stage_of(1, 2, 0), PLAN_ALL_GATHER, 1, 512 * MIB).total_s,
        1 / 2.0 * bytes / 10e9 + 50e-6, 1e-9,
        "a node further on it is between two");
}

static void test_in_switch(void)
{
    hw_cluster *c = cluster_of(2, 4, 80 * GB);
    const double bytes = 512.0 * MIB;
    c->groups[0].in_switch = (hw_reduction){30e-6, 60 * GB};
    tap_near(
        demand_of(c, stage_of(0, 4, 0), PLAN_ALL_REDUCE, 1, 512 * MIB).total_s,
        bytes / 60e9 + 30e-6, 1e-9, "a node's switches add: once there");
    tap_near(demand_of(c, stage_of(0, 4, 0), PLAN_ALL_REDUCE, 1, 4096).total_s,
             30e-6 + 4096 / 60e9, 1e-9, "with its own latency");
    c->groups[0].inner.bandwidth_bps = 50 * GB;
    tap_near(
        demand_of(c, stage_of(0, 4, 0), PLAN_ALL_REDUCE, 1, 512 * MIB).total_s,
        bytes / 50e9 + 30e-6, 1e-9, "no faster than a port");
    c->groups[0].inner.bandwidth_bps = 400 * GB;
    c->fabric.in_switch = (hw_reduction){60e-6, 40 * GB};
    tap_near(
        demand_of(c, stage_of(0, 8, 0), PLAN_ALL_REDUCE, 1, 512 * MIB).total_s,
        2 * (3 / 4.0 * bytes / 400e9 + 3 * 10e-6) + bytes / 4 / 10e9 + 60e-6,
        1e-9, "between nodes: rings inside, a NIC's part for each member");
    tap_near(
        demand_of(c, stage_of(0, 8, 0), PLAN_ALL_GATHER, 1, 512 * MIB).total_s,
        demand_of(cluster_of(2, 4, 400 * GB), stage_of(0, 8, 0),
                  PLAN_ALL_GATHER, 1, 512 * MIB)
            .total_s,
        0, "gathers take what they took");
}

/* Device files: the DGX-1's wires, where a node has no more devices. */
static void test_device_files(void)
{
    const char *root = getenv("FS_SRCDIR");
    const char *data = fs_printf(arena, "%s/datasets", root ? root : ".");
    const double bytes = 512.0 * MIB, wire = 22.5e9;
    fs_err err = {0};
    hw_cluster *eight, *four, *more;
    tap_ok(hw_cluster_open("2x8:v100-sxm2-16g", data, arena, &err, &eight) ==
                   FS_OK &&
               hw_cluster_open("1x4:v100-sxm2-16g", data, arena, &err, &four) ==
                   FS_OK &&
               hw_cluster_open("1x16:v100-sxm2-16g", data, arena, &err,
                               &more) == FS_OK,
           "V100 by 8, 4 and 16: %s", err.text);
    tap_near(demand_of(eight, stage_of(0, 2, 0), PLAN_ALL_GATHER, 1, 512 * MIB)
                 .network_s,
             1 / 2.0 * bytes / wire, 1e-9, "devices 0 and 1 have one wire");
    tap_near(demand_of(four, stage_of(2, 2, 0), PLAN_ALL_GATHER, 1, 512 * MIB)
                 .network_s,
             1 / 2.0 * bytes / (2 * wire), 1e-9, "2 and 3 have two");
    tap_near(demand_of(eight, stage_of(8, 8, 0), PLAN_ALL_GATHER, 1, 512 * MIB)
                 .network_s,
             7 / 8.0 * bytes / (6 * wire), 1e-9, "a node's ring has six");
    tap_ok(more->groups[0].wiring.kind == HW_WIRED_SWITCH,
           "of 16 in a node nothing is told");
    tap_ok(hw_cluster_open("1x8:mi300x", data, arena, &err, &eight) == FS_OK,
           "MI300X: %s", err.text);
    tap_near(demand_of(eight, stage_of(0, 2, 0), PLAN_ALL_GATHER, 1, 512 * MIB)
                 .network_s,
             1 / 2.0 * bytes / 47.7e9, 1e-9, "two have one link");
    tap_near(demand_of(eight, stage_of(0, 8, 0), PLAN_ALL_GATHER, 1, 512 * MIB)
                 .network_s,
             7 / 8.0 * bytes / 312.9e9, 1e-9, "eight what was measured");
}

/* What was measured of the first ranks is no faster than other ranks' wires. */
static void test_measured(void)
{
    hw_cluster *c = chain_of(4);
    hw_collective curve[] = {{"all-reduce", 2, MIB, 1e-4},
                             {"all-reduce", 2, 1024.0 * MIB, 0.1}};
    c->groups[0].collectives = curve;
    c->groups[0].n_collectives = 2;
    tap_near(
        demand_of(c, stage_of(0, 2, 2), PLAN_ALL_REDUCE, 2, 1024 * MIB).total_s,
        1024.0 * MIB / 10e9, 0.01, "neighbours: about as measured");
    tap_ok(demand_of(c, stage_of(0, 2, 2), PLAN_ALL_REDUCE, 1, 1024 * MIB)
                   .total_s > 1024.0 * MIB / 5e9,
           "two pairs by one wire: as the wire allows");
}

/* ---- no slower link makes anything faster ---- */

static bool below(double is, double was)
{
    return is < was * (1 - 1e-7);
}

static plan_stage draw_stage(uint64_t *seed, const hw_cluster *c)
{
    const int32_t all = c->n_devices;
    const int32_t d0 = 1 + (int32_t)fs_rand_below(seed, all);
    const int32_t d1 = 1 + (int32_t)fs_rand_below(seed, all / d0);
    return stage_of((int32_t)fs_rand_below(seed, all - d0 * d1 + 1), d0, d1);
}

static int32_t boxes_faster(const hw_cluster *was, const hw_cluster *is,
                            uint64_t *seed)
{
    const plan_stage stage = draw_stage(seed, was);
    int32_t wrong = 0;
    for (int32_t kind = 0; kind < PLAN_BOX_KINDS; kind++)
        for (uint32_t axes = 1; axes < 4; axes++) {
            plan_box_step step = step_of((plan_box_kind)kind, axes,
                                         1000 << fs_rand_below(seed, 20));
            const int32_t n = (axes & 1 ? stage.mesh.dim[0] : 1) *
                              (axes & 2 ? stage.mesh.dim[1] : 1);
            if (!plan_box_is_collective(step.kind) || n < 2)
                continue;
            step.bytes_in -= step.kind == PLAN_HALO ? 100 : 0;
            wrong += below(
                cost_box_step(cost_model_create(is, arena), &stage, &step)
                    .total_s,
                cost_box_step(cost_model_create(was, arena), &stage, &step)
                    .total_s);
        }
    return wrong;
}

/* Between two halves of the machine, alike and other meshes. */
static int32_t moves_faster(const hw_cluster *was, const hw_cluster *is,
                            uint64_t *seed)
{
    const ir_tensor t = {.name = "t", .dtype = IR_F32, .shape = {2, {48, 40}}};
    const int32_t half = was->n_devices / 2;
    const ir_sbp kinds[] = {IR_SBP_B, IR_SBP_S(0), IR_SBP_S(1), IR_SBP_P};
    const plan_stage a = stage_of(0, half, 0);
    const plan_stage b =
        stage_of(half, fs_rand_below(seed, 2) || half < 2 ? half : half / 2, 0);
    const plan_cross cross = {&t,
                              &a,
                              &b,
                              {{kinds[fs_rand_below(seed, 4)]}},
                              {{kinds[fs_rand_below(seed, 3)]}}};
    cost_model *x = cost_model_create(was, arena);
    cost_model *y = cost_model_create(is, arena);
    if (!plan_cross_is_legal(&cross))
        return 0;
    const double before = cost_cross(x, &cross).total_s;
    return below(cost_cross(y, &cross).total_s, before) +
           below(before, cost_cross_least(x, &cross).total_s) +
           below(before, cost_cross_floor(x, &t, &a, &b));
}

static void test_slower(void)
{
    uint64_t seed = tap_seed(20261129);
    int32_t boxes = 0, moves = 0, tried = 0;
    for (; tried < 200; tried++) {
        const hw_cluster *c = draw_wired(&seed), *less = slowed(c, &seed);
        if (c->n_devices < 2)
            continue;
        fs_arena *kept = arena;
        arena = fs_arena_create();
        boxes += boxes_faster(c, less, &seed);
        moves += moves_faster(c, less, &seed);
        fs_arena_destroy(arena);
        arena = kept;
    }
    tap_equal_int(boxes, 0, "of %d machines: no collective is faster",
                  (int)tried);
    tap_equal_int(moves, 0, "nor a move, nor below its quick bounds");
}

int main(void)
{
    arena = fs_arena_create();
    test_chain();
    test_pcie();
    test_leaves();
    test_in_switch();
    test_measured();
    test_device_files();
    test_slower();
    fs_arena_destroy(arena);
    return tap_done();
}
