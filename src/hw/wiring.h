/* Links, and how they join devices and nodes. */
#ifndef FS_HW_WIRING_H
#define FS_HW_WIRING_H

#include <stdbool.h>
#include <stdint.h>

/* A link, one direction. Seconds for b bytes = latency_s + b / bandwidth_bps.
 */
typedef struct hw_link {
    const char *name;
    double latency_s;
    double bandwidth_bps; /* bytes (not bits) per second */
    bool on_cores; /* moving bytes occupies the sender's and receiver's cores
                      (shared memory), so that it competes with compute */
} hw_link;

/* A measured collective among devices of a node: `bytes` of the whole tensor
 * per rank, as plan boxes name it ("all-reduce"). */
typedef struct hw_collective {
    const char *what;
    int32_t ranks;
    double bytes, seconds;
} hw_collective;

/* An all-reduce by switches that add what comes in: each rank sends its bytes
 * once and gets the sums once, both ways at once. Seconds for a tensor of b
 * bytes = latency_s + b / bandwidth_bps; 0 of the latter: they cannot. */
typedef struct hw_reduction {
    double latency_s, bandwidth_bps;
} hw_reduction;

/* How the devices of a node are joined. */
typedef enum hw_wiring_kind {
    HW_WIRED_SWITCH, /* each has a port of its inner link's bandwidth */
    HW_WIRED_PCIE,   /* so too, and switches share uplinks to each other */
    HW_WIRED_MESH,   /* a wire between any two */
    HW_WIRED_LINKS,  /* these wires; by way of others where there is none */
    HW_WIRED_KINDS
} hw_wiring_kind;
typedef struct hw_wire {
    int32_t a, b; /* devices of the node */
    double bandwidth_bps;
} hw_wire;
typedef struct hw_wiring {
    hw_wiring_kind kind;
    int32_t devices;            /* of the node, of which the cluster may have
                                   a part; MESH and LINKS */
    double bandwidth_bps;       /* PCIE: of an uplink; MESH: of a wire */
    int32_t devices_per_switch; /* PCIE */
    int32_t n_wires;            /* LINKS */
    hw_wire *wires;
} hw_wiring;

/* Switches between nodes. All zero: they never are too slow. */
typedef struct hw_fabric {
    bool rails;              /* a device has the NIC of its number (modulo) */
    int32_t nodes_per_leaf;  /* and per rail, if there are; 0: one switch */
    double oversubscription; /* what a leaf's NICs give over its uplink */
    hw_reduction in_switch;  /* by a node's NICs all together */
} hw_fabric;

#endif
