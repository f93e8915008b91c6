/* The machine as data: device kinds, nodes, links by level, measured points.
 * From a file (datasets/clusters/NAME.json), a synthetic string
 * "NODESxDEVICES:NAME[+...]", or a probe of this host. */
#ifndef FS_HW_CLUSTER_H
#define FS_HW_CLUSTER_H

#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "hw/variants.h"
#include "hw/wiring.h"

/* A measured cost: an op (by its name, or its class when the name has no
 * points) doing `work` took `seconds` on one device, with `count` timings and
 * their deviation. Work is flop for classes matmul and conv, bytes read +
 * written for all others. */
typedef struct hw_point {
    const char *what;
    double work, seconds, deviation_s;
    int32_t count; /* 0: nobody says */
    uint64_t form; /* ir_node_form: it is of these shapes alone; 0: of all,
                      one of a curve over work */
} hw_point;

typedef struct hw_device {
    const char *name; /* "a100-sxm4-80g", "cpu" */
    double memory_bytes, memory_bps;
    /* Dense nominal peaks, 16-bit ones with sums in fp32; 0: it widens these
     * floats. */
    double fp32_flops, tf32_flops, bf16_flops, fp16_flops;
    bool uses_tf32;              /* products of floats run so */
    double matmul_efficiency;    /* measured best / nominal, in (0, 1] */
    double fp32_efficiency;      /* likewise of products of floats on units of
                                    their own; 0: the same */
    double unaligned_efficiency; /* of products on tensor cores whose rows do
                                    not begin at 16 bytes, beside all others;
                                    0: nobody says, the same */
    double memory_efficiency;    /* likewise for memory_bps */
    double reduce_efficiency; /* of ops along rows (norms, softmax, sums), whose
                                 bytes wait for one another; 0: the same */
    double launch_s;          /* fixed cost of one op */
    int32_t units;     /* processors that take tiles of a product, each one at
                          a time; 0: products are not done in tiles */
    double ramp_depth; /* a tile takes as if it were deeper by this */
    double overlap_slowdown;  /* of compute beside a collective; 0: unknown */
    const char *source;       /* where the figures come from */
    double usd_per_h;         /* what it costs, with its share of a node; 0: no
                                 price is known. No figure of the machine */
    const char *price_source; /* where that is from, and when; NULL */
    hw_point *points;         /* sorted by what, then work; may be empty */
    int32_t n_points;
    hw_variant *variants; /* sorted by what, then form, then seconds */
    int32_t n_variants;
} hw_device;

/* A run of equal nodes. Devices are numbered node by node, group by group. */
typedef struct hw_group {
    int32_t nodes, devices_per_node;
    hw_device device;
    hw_link inner;   /* between two devices of a node */
    hw_link memory;  /* a device with itself: local copies */
    double turn_s;   /* where devices outnumber cores: what an exchange among
                        ranks takes beyond their work and messages, measured; a
                        rank that waits has given its core up */
    double firing_s; /* of processes: what firing a task takes beside the task,
                        measured; 0: what an op is said to take contains it */
    double jitter; /* of ranks that work between meetings, where each has a core
                      of its own: hw_slowest_of(n) times this is what n take
                      longer than one's own tasks add up to, measured */
    double process_bytes;   /* that a rank's process has resident beside its
                               arena,   measured; 0: not known */
    int32_t cores_per_node; /* > 0: the devices of a node are processes that
                               share this many cores; 0: they share nothing */
    hw_wiring wiring;
    hw_reduction in_switch;     /* by the switches of a node */
    hw_collective *collectives; /* sorted by what, ranks, bytes; measured */
    int32_t n_collectives;
} hw_group;

typedef struct hw_cluster {
    const char *name; /* the string or path that made it */
    int32_t n_groups;
    hw_group *groups;
    hw_link outer;         /* a node with the others: all its NICs together */
    int32_t nics_per_node; /* equal parts of outer; one device's flow uses one
                              at most. 0 means 1 */
    hw_fabric fabric;
    int32_t n_devices, n_nodes;
    const char *host;    /* probed host's name, else NULL */
    int32_t host_cores;  /* of a probed one, whatever this process is bound to */
    const char *machine; /* fingerprint of what was measured, or NULL */
    const char *facts;   /* what that machine is, in words; NULL: nobody says */
    uint64_t digest;     /* of its JSON form; name, host, machine left out */
} hw_cluster;

/* `spec` is a path ending in .json (hw_cluster_file; else NULL), so much of it
 * as NODESxDEVICES:PATH, or a synthetic string; `data_dir` holds device files
 * clusters/NAME.json. */
const char *hw_cluster_file(const char *spec);
fs_status hw_cluster_open(const char *spec, const char *data_dir,
                          fs_arena *arena, fs_err *err, hw_cluster **out);
fs_status hw_cluster_save(const hw_cluster *cluster, const char *path,
                          fs_err *err);
/* The object that a cluster file holds (a plan for a probed host carries its
 * cluster along); the caller owns it. Reading it back gives the same digest;
 * `file` is named in messages. */
json_t *hw_cluster_to_json(const hw_cluster *cluster);
fs_status hw_cluster_from_json(const char *file, json_t *json, fs_arena *arena,
                               fs_err *err, hw_cluster **out);

/* This host seen as `ranks` devices through hwloc: cores, memory. Figures of
 * the device that need measuring are left 0 for the caller to fill
 * (exec_probe); links have conservative ones. */
fs_status hw_cluster_probe(int32_t ranks, fs_arena *arena, fs_err *err,
                           hw_cluster **out);
/* "AMD EPYC, 2 cores, 23.5 GiB, Linux 6.1.0": what figures of this host hold
 * for. */
const char *hw_host_facts(const hw_cluster *probed, fs_arena *arena);

/* The peak at which fp32 ops run: the fp32 one; a device without, or that is
 * told to use it, has tf32, or else one of 16 bits. */
double hw_device_flops(const hw_device *device);
/* That at which ops on bf16, or else on fp16, run: their own; a device without
 * computes with them in fp32, which they are widened to. */
double hw_device_narrow_flops(const hw_device *device, bool bf16);
bool hw_device_widens(const hw_device *device, bool bf16);
/* Of its memory, as ops that move bytes reach it; those along rows. */
double hw_device_bps(const hw_device *device, bool reduces);
/* Of products, of 16-bit operands or of floats, as a part of the rate above. */
double hw_device_efficiency(const hw_device *device, bool narrow);
const hw_group *hw_group_of(const hw_cluster *cluster, int32_t device);
int32_t hw_node_of(const hw_cluster *cluster, int32_t device);
/* Of devices from this one on those of its group. */
int32_t hw_group_left(const hw_cluster *cluster, int32_t device);
/* The first device of its node, and the first behind it. */
void hw_node_range(const hw_cluster *cluster, int32_t device, int32_t *first,
                   int32_t *end);
/* The link between two devices (memory when a == b). */
const hw_link *hw_link_between(const hw_cluster *cluster, int32_t a, int32_t b);
/* By how much a device's compute slows when `active` devices of its node
 * compute at once: max(1, active / cores), 1 where nothing is shared. */
double hw_core_share(const hw_group *group, int32_t active);

/* The largest of n draws of a normal distribution, in deviations, on average.
 */
double hw_slowest_of(int32_t n);

/* Which of `cores` cores a process is bound to that is number `local` of
 * `processes` on its host; -1: it may use all. Only those that outnumber the
 * cores by a whole multiple are bound: each core then has as many, and who
 * slows whom does not hang on what the kernel moves where. */
int32_t hw_core_of(int32_t local, int32_t processes, int32_t cores);

/* Devices that share cores form a pool, named by its first device: those bound
 * to one core, else all of a node. `cores` of the pool; 0: they share none. */
int32_t hw_core_pool(const hw_cluster *cluster, int32_t device, int32_t *cores);

/* The link between nodes as one of `flows` equal users of a node sees it:
 * each has `devices` devices of that node, so as many NICs at most. */
hw_link hw_outer_share(const hw_cluster *cluster, int32_t flows,
                       int32_t devices);

/* By how much longer things take than a cluster's figures say; 1: no longer. */
typedef struct hw_scale {
    double compute, memory, launch; /* of devices: what is computed (measured
                                       points too), bytes moved, ops begun */
    double inner, outer, latency;   /* of links: bytes within a node, between
                                       nodes, messages begun */
} hw_scale;
/* A copy with these figures. */
hw_cluster *hw_cluster_scaled(const hw_cluster *cluster, const hw_scale *by,
                              fs_arena *arena);

/* Devices after which one of equal nodes lies as it did: a node's, or those of
 * a leaf's nodes. */
int32_t hw_cluster_period(const hw_cluster *cluster);

/* The first `nodes` nodes with `devices` devices each, of a cluster of one
 * group. */
hw_cluster *hw_cluster_part(const hw_cluster *cluster, int32_t nodes,
                            int32_t devices, const char *name, fs_arena *arena);

/* Sorts points, recomputes n_devices, n_nodes, digest after fields were
 * filled. */
void hw_cluster_finish(hw_cluster *cluster);

#endif
